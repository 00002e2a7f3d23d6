//! The mailbox of the bot: each event acts once, turns never overlap, and what a turn decides is whole or not there.

use domain::delivery::{AmbiguityPolicy, Status};
use domain::ids::{AccountId, ClaimToken, RecipientId};
use domain::time::{Span, Timestamp};
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    an_update_that_comes_three_times_acts_once,
    a_turn_writes_state_marks_replies_and_logs_together,
    a_turn_of_another_writes_nothing,
    an_event_that_comes_while_a_turn_is_taken_waits_for_the_next,
    a_dialogue_whose_taker_died_is_claimed_when_the_lease_ends,
    replies_leave_in_the_order_in_which_they_were_said,
    a_timer_makes_a_dialogue_due_and_speaks_once,
    a_flooded_chat_gets_its_turn_as_often_as_a_quiet_one,
    who_blocks_is_gone_and_who_writes_again_is_back,
    an_old_message_that_comes_late_brings_nobody_back,
    a_repeat_brings_nobody_back,
    a_person_who_is_gone_hears_nothing_and_nothing_is_lost,
    an_operators_answer_waits_in_the_dialogue_it_is_meant_for,
    an_answer_to_nobody_waits_for_nobody,
    a_decision_of_people_waits_until_it_is_carried_out,
    a_forward_is_never_held_back_as_a_repeat,
    what_concerns_nobody_is_written_down_with_its_reason,
    one_node_at_a_time_polls_an_account,
    the_cursor_moves_only_with_whoever_has_the_lease,
    rules_have_versions_and_go_back,
    a_webhook_is_found_by_its_address_until_it_is_changed,
    a_person_is_forgotten_and_can_come_back_as_somebody_new,
    bodies_are_forgotten_before_keys,
    old_words_behind_those_that_were_never_answered_are_forgotten,
    a_foreign_workspace_sees_no_dialogue,
    figures_say_what_waits_and_what_was_not_understood,
}

pub(super) async fn bot(w: &World) -> (AccountId, domain::ids::BotId) {
    let account = w.account().await;
    let new = NewBot {
        name: format!("магазин {account}"),
        accounts: vec![account],
        receive: Receive::Poll,
        operators: None,
        services: Default::default(),
    };
    (account, w.store.put_bot(w.ws, new).await.unwrap())
}

pub(super) fn said(key: &str, user: &str, text: &str) -> Update {
    let of = UpdateOf::Person { user_id: user.into(), address: user.into(), name: Some("Анна".into()) };
    Update { key: key.into(), kind: "text".into(), at: None, body: json!({"text": text}), of }
}

pub(super) async fn receive(w: &World, account: AccountId, updates: &[Update]) -> u32 {
    match w.store.bot_receive(w.ws, account, updates.to_vec(), None).await.unwrap() {
        Received::Taken { fresh } => fresh,
        Received::Full => panic!("full"),
    }
}

pub(super) async fn claim(w: &World) -> Vec<Turn> {
    w.store.bot_claim_turns(10, Span::from_secs(10)).await.unwrap()
}

/// Answers every event with its own words.
pub(super) fn echo(turn: &Turn) -> TurnTaken {
    let says = turn.events.iter().enumerate().map(|(event, heard)| Say {
        event,
        channel: None,
        payload: json!({"text": format!("ответ на {}", heard.body["text"].as_str().unwrap_or("?"))}),
    });
    let logs = (0..turn.events.len()).map(|event| NewLog {
        event,
        rule: Some("эхо".into()),
        verdict: "rule".into(),
        detail: json!({}),
    });
    TurnTaken {
        recipient_id: turn.recipient_id,
        token: turn.token,
        version: turn.version,
        rules_version: turn.rules_version,
        mode: DialogueMode::Bot,
        state: json!({"name": "menu", "turns": turn.version + 1}),
        timer_at: None,
        events: turn.events.iter().map(|event| (event.inbox_id, "rule".into())).collect(),
        fired: false,
        says: says.collect(),
        calls: Vec::new(),
        subscription: None,
        logs: logs.collect(),
        ambiguity: AmbiguityPolicy::Reconcile,
    }
}

pub(super) async fn commit(w: &World, turn: TurnTaken) -> bool {
    w.store.bot_commit_turns(w.ws, vec![turn]).await.unwrap()[0]
}

async fn texts_sent(w: &World) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        let claims = w.claim(10).await;
        if claims.is_empty() {
            return texts;
        }
        for claim in claims {
            let message = w.store.message(w.ws, claim.message_id).await.unwrap();
            texts.push(message.payload["text"].as_str().unwrap().to_owned());
            w.sent(&claim).await;
        }
        w.seconds(2).await;
    }
}

async fn an_update_that_comes_three_times_acts_once(w: &World) {
    let (account, _) = bot(w).await;
    assert_eq!(receive(w, account, &[said("1", "70", "привет"), said("1", "70", "привет")]).await, 1);
    assert_eq!(receive(w, account, &[said("1", "70", "привет")]).await, 0);
    let turns = claim(w).await;
    assert_eq!((turns.len(), turns[0].events.len()), (1, 1));
    assert!(commit(w, echo(&turns[0])).await);
    assert_eq!(receive(w, account, &[said("1", "70", "привет")]).await, 0);
    assert!(claim(w).await.is_empty());
    assert_eq!(texts_sent(w).await, ["ответ на привет"]);
}

async fn a_turn_writes_state_marks_replies_and_logs_together(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "доставка"), said("2", "70", "оплата")]).await;
    let turn = claim(w).await.remove(0);
    assert_eq!((turn.version, turn.platform.as_str(), turn.user_id.as_str()), (0, "telegram", "70"));
    assert_eq!(turn.attributes["name"], "Анна");
    let subscribed = TurnTaken {
        subscription: Some((RecipientStatus::Active, "subscribed")),
        mode: DialogueMode::Human,
        ..echo(&turn)
    };
    assert!(commit(w, subscribed).await);
    let person = w.store.recipient(w.ws, turn.recipient_id).await.unwrap();
    assert_eq!((person.status, person.status_why.as_deref()), (RecipientStatus::Active, Some("subscribed")));
    let logs = w.store.bot_logs(w.ws, None, Timestamp(0), 0, 10).await.unwrap();
    assert_eq!(
        logs.iter().map(|log| log.inbox_id).collect::<Vec<_>>(),
        [turn.events[0].inbox_id, turn.events[1].inbox_id]
    );
    assert_eq!(logs[0].event, Some(json!({"text": "доставка"})));
    let of = async |id| w.store.bot_logs(w.ws, Some(id), Timestamp(0), 0, 10).await.unwrap();
    assert_eq!(of(turn.recipient_id).await, logs);
    assert!(of(RecipientId(turn.recipient_id.0 + 1)).await.is_empty());
    receive(w, account, &[said("3", "70", "ещё")]).await;
    let next = claim(w).await.remove(0);
    assert_eq!((next.version, next.mode, &next.state["turns"]), (1, DialogueMode::Human, &json!(1)));
    assert_eq!(texts_sent(w).await, ["ответ на доставка", "ответ на оплата"]);
}

async fn a_turn_of_another_writes_nothing(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let lost = claim(w).await.remove(0);
    w.seconds(11).await;
    let turn = claim(w).await.remove(0);
    assert_eq!((turn.recipient_id, &turn.events), (lost.recipient_id, &lost.events));
    assert!(!commit(w, echo(&lost)).await);
    assert!(!commit(w, TurnTaken { version: 7, ..echo(&turn) }).await);
    let foreign = TurnTaken { token: ClaimToken(uuid::Uuid::new_v4()), ..echo(&turn) };
    assert!(!commit(w, foreign).await);
    assert!(commit(w, echo(&turn)).await);
    assert!(!commit(w, echo(&turn)).await, "a turn is over once");
    assert_eq!(texts_sent(w).await, ["ответ на раз"]);
    receive(w, account, &[said("2", "70", "два")]).await;
    let turn = claim(w).await.remove(0);
    let done_already = TurnTaken { events: vec![(lost.events[0].inbox_id, "rule".into())], ..echo(&turn) };
    assert!(!commit(w, done_already).await, "an event that is done waits no more");
    assert!(commit(w, echo(&turn)).await);
}

async fn an_event_that_comes_while_a_turn_is_taken_waits_for_the_next(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let turn = claim(w).await.remove(0);
    receive(w, account, &[said("2", "70", "два")]).await;
    assert!(claim(w).await.is_empty(), "turns of a dialogue never overlap");
    assert!(commit(w, echo(&turn)).await);
    let next = claim(w).await.remove(0);
    assert_eq!(next.events.iter().map(|e| e.body["text"].clone()).collect::<Vec<_>>(), ["два"]);
    assert!(commit(w, echo(&next)).await);
    assert!(claim(w).await.is_empty());
}

async fn a_dialogue_whose_taker_died_is_claimed_when_the_lease_ends(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    assert_eq!(claim(w).await.len(), 1);
    w.seconds(9).await;
    assert!(claim(w).await.is_empty());
    let due = w.store.bot_next_turn().await.unwrap().unwrap();
    assert_eq!(due, w.now().await + Span::from_secs(1));
    w.seconds(1).await;
    assert_eq!(claim(w).await.len(), 1);
}

async fn replies_leave_in_the_order_in_which_they_were_said(w: &World) {
    let (account, _) = bot(w).await;
    for key in 0..5 {
        receive(w, account, &[said(&key.to_string(), "70", &key.to_string())]).await;
        let turn = claim(w).await.remove(0);
        let mut taken = echo(&turn);
        let again = Say { payload: json!({"text": format!("и ещё {key}")}), ..taken.says[0].clone() };
        taken.says.push(again);
        assert!(commit(w, taken).await);
    }
    let wanted: Vec<String> =
        (0..5).flat_map(|key| [format!("ответ на {key}"), format!("и ещё {key}")]).collect();
    assert_eq!(texts_sent(w).await, wanted);
}

async fn a_timer_makes_a_dialogue_due_and_speaks_once(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let turn = claim(w).await.remove(0);
    let at = w.now().await + Span::from_secs(60);
    assert!(commit(w, TurnTaken { timer_at: Some(at), ..echo(&turn) }).await);
    assert!(claim(w).await.is_empty());
    assert_eq!(w.store.bot_next_turn().await.unwrap(), Some(at));
    w.seconds(60).await;
    let turn = claim(w).await.remove(0);
    assert_eq!((turn.events.len(), turn.timer_at), (0, Some(at)));
    let reminder = Say { event: 0, channel: None, payload: json!({"text": "вы ещё здесь?"}) };
    let fired = TurnTaken { fired: true, says: vec![reminder], logs: Vec::new(), ..echo(&turn) };
    assert!(commit(w, fired.clone()).await);
    assert!(!commit(w, fired).await);
    assert!(claim(w).await.is_empty());
    assert_eq!(w.store.bot_next_turn().await.unwrap(), None);
    assert_eq!(texts_sent(w).await, ["ответ на раз", "вы ещё здесь?"]);
}

async fn a_flooded_chat_gets_its_turn_as_often_as_a_quiet_one(w: &World) {
    let (account, _) = bot(w).await;
    let flood: Vec<Update> = (0..40).map(|n| said(&format!("f{n}"), "70", "эй")).collect();
    receive(w, account, &flood).await;
    w.seconds(1).await;
    receive(w, account, &[said("q", "71", "тихо")]).await;
    let one = async || w.store.bot_claim_turns(1, Span::from_secs(10)).await.unwrap().remove(0);
    let first = one().await;
    assert_eq!((first.user_id.as_str(), first.events.len()), ("70", 16));
    // What waits on goes to the end of the queue.
    w.seconds(1).await;
    assert!(commit(w, echo(&first)).await);
    assert_eq!(one().await.user_id, "71");
    assert_eq!(one().await.events.len(), 16);
}

async fn who_blocks_is_gone_and_who_writes_again_is_back(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let turn = claim(w).await.remove(0);
    assert!(commit(w, echo(&turn)).await);
    w.seconds(5).await;
    let of = UpdateOf::Left { user_id: "70".into(), address: "70".into() };
    let left = Update { of, kind: "blocked".into(), ..said("2", "70", "") };
    receive(w, account, &[left]).await;
    let status = async || w.store.recipient(w.ws, turn.recipient_id).await.unwrap().status;
    assert_eq!(status().await, RecipientStatus::Gone);
    let heard = claim(w).await.remove(0);
    assert_eq!(heard.events[0].kind, "blocked");
    assert!(commit(w, TurnTaken { says: Vec::new(), mode: DialogueMode::Stopped, ..echo(&heard) }).await);
    w.seconds(5).await;
    receive(w, account, &[said("3", "70", "я вернулась")]).await;
    assert_eq!(status().await, RecipientStatus::Known);
}

async fn an_old_message_that_comes_late_brings_nobody_back(w: &World) {
    let (account, _) = bot(w).await;
    let now = w.now().await;
    let of = UpdateOf::Left { user_id: "70".into(), address: "70".into() };
    let left = Update { of, at: Some(now), ..said("2", "70", "") };
    receive(w, account, &[left]).await;
    let old = Update { at: Some(now - Span::from_secs(30)), ..said("1", "70", "до свидания") };
    receive(w, account, &[old]).await;
    let turn = claim(w).await.remove(0);
    assert_eq!(turn.events.len(), 2);
    let person = w.store.recipient(w.ws, turn.recipient_id).await.unwrap();
    assert_eq!(person.status, RecipientStatus::Gone);
}

/// Presses and some other updates have no time of their own.
async fn a_repeat_brings_nobody_back(w: &World) {
    let (account, _) = bot(w).await;
    let press = said("1", "70", "нажатие");
    let of = UpdateOf::Left { user_id: "70".into(), address: "70".into() };
    let added = Update {
        of: UpdateOf::Chat { address: "-900".into(), title: None, why: "chat" },
        ..said("3", "", "")
    };
    let removed = Update { of: UpdateOf::ChatLeft { address: "-900".into() }, ..said("4", "", "") };
    receive(w, account, &[press.clone(), added.clone()]).await;
    w.seconds(5).await;
    receive(w, account, &[Update { of, ..said("2", "70", "") }, removed]).await;
    w.seconds(5).await;
    assert_eq!(receive(w, account, &[press, added]).await, 0);
    let turn = claim(w).await.remove(0);
    assert_eq!(turn.events.len(), 2);
    let person = w.store.recipient(w.ws, turn.recipient_id).await.unwrap();
    assert_eq!(person.status, RecipientStatus::Gone);
    assert!(w.store.bot_chats(w.ws).await.unwrap()[0].left_at.is_some());
}

async fn a_person_who_is_gone_hears_nothing_and_nothing_is_lost(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let turn = claim(w).await.remove(0);
    w.store.set_recipient_status(w.ws, turn.recipient_id, RecipientStatus::Gone, "blocked").await.unwrap();
    assert!(commit(w, echo(&turn)).await);
    assert!(texts_sent(w).await.is_empty());
    assert!(claim(w).await.is_empty());
}

async fn an_operators_answer_waits_in_the_dialogue_it_is_meant_for(w: &World) {
    let (account, _) = bot(w).await;
    let desk = w.account().await;
    receive(w, account, &[said("1", "70", "позовите человека")]).await;
    let turn = claim(w).await.remove(0);
    assert!(commit(w, echo(&turn)).await);
    let answer = Update {
        of: UpdateOf::Operator(turn.recipient_id),
        kind: "operator".into(),
        ..said("o1", "", "Здравствуйте")
    };
    assert_eq!(receive(w, desk, &[answer.clone(), answer]).await, 1);
    let next = claim(w).await.remove(0);
    assert_eq!((next.recipient_id, next.account_id), (turn.recipient_id, account));
    assert_eq!((next.events[0].account_id, next.events[0].kind.as_str()), (desk, "operator"));
    assert!(commit(w, echo(&next)).await);
    assert!(claim(w).await.is_empty());
}

/// A number that nobody has would otherwise be an unanswered message for ever.
async fn an_answer_to_nobody_waits_for_nobody(w: &World) {
    let (account, _) = bot(w).await;
    let stranger = Update { of: UpdateOf::Operator(RecipientId(999_999)), ..said("o2", "", "кому?") };
    assert_eq!(receive(w, account, &[stranger]).await, 1);
    assert!(claim(w).await.is_empty());
    let figures = w.store.bot_snapshot(w.ws, Span::from_hours(1)).await.unwrap();
    assert_eq!((figures.waiting, figures.oldest), (0, None));
    assert_eq!(w.store.bot_decisions(10).await.unwrap(), []);
}

async fn a_decision_of_people_waits_until_it_is_carried_out(w: &World) {
    let (account, _) = bot(w).await;
    let press = Update { of: UpdateOf::Decision, kind: "decision".into(), ..said("d1", "", "да") };
    assert_eq!(receive(w, account, &[press.clone(), press.clone()]).await, 1);
    assert_eq!(receive(w, account, &[press]).await, 0, "a repeat asks for nothing");
    assert!(claim(w).await.is_empty(), "it belongs to no dialogue");
    let waiting = w.store.bot_decisions(10).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].workspace_id, waiting[0].account_id), (w.ws, account));
    assert_eq!(waiting[0].body, json!({"text": "да"}));
    assert_eq!(w.store.bot_snapshot(w.ws, Span::from_hours(1)).await.unwrap().waiting, 1);
    let other = w.store.create_workspace("чужие").await.unwrap();
    assert!(!w.store.bot_decided(other, waiting[0].inbox_id, "approved").await.unwrap());
    assert!(w.store.bot_decided(w.ws, waiting[0].inbox_id, "approved").await.unwrap());
    assert!(!w.store.bot_decided(w.ws, waiting[0].inbox_id, "approved").await.unwrap(), "once");
    assert_eq!(w.store.bot_decisions(10).await.unwrap(), []);
}

async fn a_forward_is_never_held_back_as_a_repeat(w: &World) {
    let (account, _) = bot(w).await;
    let channel = w.channel(account).await;
    receive(w, account, &[said("1", "70", "алло"), said("2", "70", "алло")]).await;
    let turn = claim(w).await.remove(0);
    let mut taken = echo(&turn);
    for say in &mut taken.says {
        *say =
            Say { channel: Some(channel), payload: json!({"text": "#A1 Анна\nалло"}), ..say.clone() };
    }
    assert!(commit(w, taken).await);
    let claims = w.claim(10).await;
    let first = &claims[0];
    assert_eq!(w.store.delivery(w.ws, first.delivery_id).await.unwrap().status, Status::Sending);
    w.sent(first).await;
    let dialogue = async |id: &str| w.store.bot_dialogue_of(w.ws, channel, id).await.unwrap();
    assert_eq!(dialogue(&format!("m{}", first.delivery_id)).await, Some(turn.recipient_id));
    assert_eq!(dialogue("m0").await, None);
    w.seconds(2).await;
    assert_eq!(w.claim(10).await.len(), 1, "the second is said too");
}

async fn what_concerns_nobody_is_written_down_with_its_reason(w: &World) {
    let (account, _) = bot(w).await;
    let skipped = Update { of: UpdateOf::Skipped("group"), ..said("1", "", "в группе") };
    let chat = |title: Option<&str>, why| UpdateOf::Chat {
        address: "-5".into(),
        title: title.map(str::to_owned),
        why,
    };
    let joined = Update { of: chat(Some("Склад"), "chat"), ..said("2", "", "") };
    let heard = Update { of: chat(None, "group"), ..said("4", "", "в группе") };
    assert_eq!(receive(w, account, &[skipped, joined]).await, 2);
    assert_eq!(receive(w, account, &[heard]).await, 1);
    assert!(claim(w).await.is_empty());
    let skipped = w.store.bot_skipped(w.ws, Timestamp(0), 0, 10).await.unwrap();
    let why: Vec<_> = skipped.iter().map(|one| (one.account_id, one.why.as_str())).collect();
    assert_eq!(why, [(account, "group"), (account, "chat"), (account, "group")]);
    let after = w.store.bot_skipped(w.ws, Timestamp(0), skipped[0].inbox_id, 10).await.unwrap();
    assert_eq!(after, skipped[1..]);
    let chats = w.store.bot_chats(w.ws).await.unwrap();
    assert_eq!(
        (chats[0].chat.as_str(), chats[0].title.as_deref(), chats[0].left_at),
        ("-5", Some("Склад"), None)
    );
    let left = Update { of: UpdateOf::ChatLeft { address: "-5".into() }, ..said("3", "", "") };
    receive(w, account, &[left]).await;
    let chats = w.store.bot_chats(w.ws).await.unwrap();
    assert_eq!((chats.len(), chats[0].title.as_deref()), (1, Some("Склад")));
    assert!(chats[0].left_at.is_some());
}

async fn one_node_at_a_time_polls_an_account(w: &World) {
    let (account, id) = bot(w).await;
    let lease = Span::from_secs(30);
    let leased = async |owner| w.store.lease_bot_accounts(owner, lease, 10).await.unwrap();
    let keeps = async |owner| w.store.keep_bot_account(w.ws, account, owner, lease).await.unwrap();
    assert_eq!(leased("a").await.iter().map(|l| l.account_id).collect::<Vec<_>>(), [account]);
    assert!(leased("b").await.is_empty());
    assert!(keeps("a").await && !keeps("b").await);
    w.seconds(30).await;
    assert_eq!(leased("b").await.len(), 1);
    assert!(!keeps("a").await && keeps("b").await);
    w.store.rest_bot(w.ws, id).await.unwrap();
    assert!(!keeps("b").await, "who has no bot any more is not listened to");
    w.seconds(31).await;
    assert!(leased("a").await.is_empty());
}

async fn the_cursor_moves_only_with_whoever_has_the_lease(w: &World) {
    let (account, _) = bot(w).await;
    let lease = async |owner| w.store.lease_bot_accounts(owner, Span::from_secs(30), 10).await.unwrap();
    lease("a").await;
    let polled =
        |owner: &str, cursor: &str| Some(Polled { owner: owner.into(), cursor: Some(cursor.into()) });
    let bring = async |key: &str, polled| {
        w.store.bot_receive(w.ws, account, vec![said(key, "70", "раз")], polled).await.unwrap()
    };
    bring("1", polled("a", "5")).await;
    assert_eq!(bring("2", polled("b", "9")).await, Received::Taken { fresh: 1 });
    w.seconds(31).await;
    assert_eq!(lease("b").await[0].cursor.as_deref(), Some("5"));
    w.store.bot_account_problem(w.ws, account, Some("a webhook is set")).await.unwrap();
    let problem = async || w.store.bots(w.ws).await.unwrap()[0].accounts[0].problem.clone();
    assert_eq!(problem().await.as_deref(), Some("a webhook is set"));
    bring("3", polled("b", "6")).await;
    assert_eq!(problem().await, None);
}

async fn rules_have_versions_and_go_back(w: &World) {
    let (account, id) = bot(w).await;
    let put = async |text: &str| w.store.put_bot_rules(w.ws, id, text).await.unwrap();
    assert_eq!((put("раз").await, put("раз").await, put("два").await), (1, 1, 2));
    receive(w, account, &[said("1", "70", "?")]).await;
    let turn = claim(w).await.remove(0);
    assert_eq!((turn.bot_id, turn.rules_version), (Some(id), 2));
    assert!(commit(w, echo(&turn)).await);
    let people = w.channel(account).await;
    w.store.activate_bot_rules(w.ws, id, 1, Some(people)).await.unwrap();
    let bots = w.store.bots(w.ws).await.unwrap();
    assert_eq!((bots[0].active_version, bots[0].accounts[0].receive), (1, Receive::Poll));
    assert_eq!(bots[0].operators, Some(people), "each version has its people");
    assert!(w.store.activate_bot_rules(w.ws, id, 9, None).await.is_err());
    let bots = w.store.bots(w.ws).await.unwrap();
    assert_eq!((bots[0].active_version, bots[0].operators), (1, Some(people)), "whole or not at all");
    w.store.activate_bot_rules(w.ws, id, 1, None).await.unwrap();
    assert_eq!(w.store.bots(w.ws).await.unwrap()[0].operators, None);
    let versions = w.store.bot_rules(w.ws, id).await.unwrap();
    assert_eq!(
        versions.iter().map(|v| (v.version, v.rules.as_str())).collect::<Vec<_>>(),
        [(2, "два"), (1, "раз")]
    );
    assert_eq!(put("раз").await, 1, "what is active is not made again");
    assert_eq!(w.store.bot_standing(w.ws, id).await.unwrap(), [("menu".to_owned(), 1)]);
}

async fn a_webhook_is_found_by_its_address_until_it_is_changed(w: &World) {
    let (account, id) = bot(w).await;
    let set = async |key: &str| {
        w.store.set_bot_hook(w.ws, account, key, Some("хэш"), json!({"group_id": 1})).await.unwrap();
    };
    set("k1").await;
    assert_eq!(w.store.bot_hook("k1").await.unwrap(), None, "it polls");
    let name = w.store.bots(w.ws).await.unwrap()[0].name.clone();
    let new = NewBot {
        name,
        accounts: vec![account],
        receive: Receive::Webhook,
        operators: None,
        services: Default::default(),
    };
    assert_eq!(w.store.put_bot(w.ws, new).await.unwrap(), id);
    let hook = w.store.bot_hook("k1").await.unwrap().unwrap();
    assert_eq!(
        (hook.workspace_id, hook.account_id, hook.secret_hash.as_deref()),
        (w.ws, account, Some("хэш"))
    );
    assert_eq!(hook.settings, json!({"group_id": 1}));
    set("k2").await;
    assert_eq!(w.store.bot_hook("k1").await.unwrap(), None);
    assert!(w.store.bot_hook("k2").await.unwrap().is_some());
}

async fn a_person_is_forgotten_and_can_come_back_as_somebody_new(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "секрет"), said("2", "71", "другой")]).await;
    for turn in claim(w).await {
        assert!(commit(w, echo(&turn)).await);
    }
    let logs = w.store.bot_logs(w.ws, None, Timestamp(0), 0, 10).await.unwrap();
    let who = logs.iter().find(|log| log.event == Some(json!({"text": "секрет"}))).unwrap().recipient_id;
    assert!(w.store.bot_forget(w.ws, account, "70").await.unwrap());
    assert!(!w.store.bot_forget(w.ws, account, "70").await.unwrap());
    let person = w.store.recipient(w.ws, who).await.unwrap();
    assert!(!person.user_id.contains("70") && person.attributes == json!({}), "{person:?}");
    let left = w.store.bot_logs(w.ws, None, Timestamp(0), 0, 10).await.unwrap();
    assert_eq!(left.len(), 1);
    let words: Vec<_> =
        w.store.messages(w.ws, 0, 10).await.unwrap().iter().map(|m| m.payload["text"].clone()).collect();
    assert!(!format!("{words:?}").contains("секрет"), "{words:?}");
    assert_eq!(texts_sent(w).await, ["ответ на другой"]);
    receive(w, account, &[said("3", "70", "снова я")]).await;
    assert_ne!(claim(w).await.remove(0).recipient_id, who);
}

async fn bodies_are_forgotten_before_keys(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let turn = claim(w).await.remove(0);
    assert!(commit(w, echo(&turn)).await);
    receive(w, account, &[said("2", "70", "ждёт")]).await;
    let retain = async || {
        let (text, keys) = (Span::from_secs(50), Span::from_secs(500));
        let (changed, walk) = w.store.bot_retain(text, keys, 100, BotWalk::START).await.unwrap();
        assert!(walk.is_over());
        changed
    };
    assert_eq!(retain().await, 0);
    w.seconds(60).await;
    assert_eq!(retain().await, 1);
    assert_eq!(w.store.bot_logs(w.ws, None, Timestamp(0), 0, 10).await.unwrap()[0].event, None);
    assert_eq!(receive(w, account, &[said("1", "70", "раз")]).await, 0, "the key stays");
    w.seconds(500).await;
    assert_eq!(retain().await, 3, "key, log and what was said");
    let turn = claim(w).await.remove(0);
    assert_eq!(turn.events[0].body["text"], "ждёт", "what waits is never forgotten");
}

async fn old_words_behind_those_that_were_never_answered_are_forgotten(w: &World) {
    let (account, _) = bot(w).await;
    let waiting: Vec<Update> = (0..5).map(|n| said(&format!("w{n}"), "70", "ждёт")).collect();
    receive(w, account, &waiting).await;
    for n in 0..5 {
        receive(w, account, &[said(&format!("a{n}"), &format!("{}", 80 + n), "раз")]).await;
    }
    for turn in claim(w).await.into_iter().filter(|turn| turn.events[0].body["text"] == "раз") {
        assert!(commit(w, echo(&turn)).await);
    }
    w.seconds(600).await;
    receive(w, account, &[said("young", "90", "два")]).await;
    let (text, keys) = (Span::from_secs(50), Span::from_secs(500));
    let (mut walk, mut changed, mut steps) = (BotWalk::START, 0, 0);
    while !walk.is_over() {
        let (n, next) = w.store.bot_retain(text, keys, 2, walk).await.unwrap();
        (walk, changed, steps) = (next, changed + n, steps + 1);
        assert!(steps < 20, "{walk:?}");
    }
    assert!(steps >= 5, "two rows a step");
    assert_eq!(changed, 20, "five bodies, five keys, five logs, five answers");
    let known = receive(w, account, &[said("w0", "70", "ждёт"), said("young", "90", "два")]).await;
    assert_eq!(known, 0, "what waits is never forgotten, nor what is young");
    assert_eq!(receive(w, account, &[said("a4", "84", "раз")]).await, 1);
}

async fn a_foreign_workspace_sees_no_dialogue(w: &World) {
    let (account, id) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let turn = claim(w).await.remove(0);
    let other = w.another_workspace("чужие").await;
    assert!(other.store.bot_receive(other.ws, account, vec![said("2", "70", "раз")], None).await.is_err());
    assert!(!other.store.bot_commit_turns(other.ws, vec![echo(&turn)]).await.unwrap()[0]);
    assert!(!other.store.bot_forget(other.ws, account, "70").await.unwrap());
    assert!(other.store.bots(other.ws).await.unwrap().is_empty());
    assert!(other.store.bot_rules(other.ws, id).await.unwrap().is_empty());
    assert!(other.store.put_bot_rules(other.ws, id, "чужое").await.is_err());
    assert!(other.store.bot_logs(other.ws, None, Timestamp(0), 0, 10).await.unwrap().is_empty());
    assert_eq!(
        other.store.bot_snapshot(other.ws, Span::from_hours(1)).await.unwrap(),
        BotSnapshot::default()
    );
    assert!(commit(w, echo(&turn)).await);
}

async fn figures_say_what_waits_and_what_was_not_understood(w: &World) {
    let (account, _) = bot(w).await;
    receive(w, account, &[said("1", "70", "раз")]).await;
    let turn = claim(w).await.remove(0);
    let asked = w.now().await;
    let mut taken = TurnTaken { mode: DialogueMode::Human, ..echo(&turn) };
    taken.state = json!({"name": "menu", "waits_since": asked});
    taken.logs[0].verdict = "fallback".into();
    assert!(commit(w, taken).await);
    w.seconds(1).await;
    let since = w.now().await;
    receive(w, account, &[said("2", "70", "два"), said("3", "71", "три")]).await;
    let snapshot = w.store.bot_snapshot(w.ws, Span::from_hours(1)).await.unwrap();
    let wanted = BotSnapshot {
        waiting: 2,
        oldest: Some(since),
        handoffs: 1,
        handoffs_waiting: 1,
        handoff_since: Some(asked),
        turns: 1,
        fallbacks: 1,
        errors: 0,
    };
    assert_eq!(snapshot, wanted);
    assert_eq!(
        w.store.snapshot(w.ws).await.unwrap().bots,
        wanted,
        "whoever watches the workspace sees it too"
    );
}
