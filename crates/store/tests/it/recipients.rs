//! People on bots: from a row to gone, in lanes of campaigns and dialogues, on both databases.

use domain::delivery::{AmbiguityPolicy, Priority, Status};
use domain::destination::Destination;
use domain::ids::{AccountId, CampaignId, LaneId, MessageId, RecipientId};
use domain::outcome::{Category, Failure, Outcome, Scope};
use domain::time::{Span, Timestamp};
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    a_person_is_known_by_account_and_user_id,
    what_was_known_stays_unless_it_is_said_anew,
    who_stopped_stays_stopped_through_an_import,
    a_list_of_people_who_must_not_be_written_to_is_told_in_order_with_the_reason,
    a_campaign_reaches_only_who_wants_to_hear,
    a_recipient_is_claimed_sent_to_and_committed,
    a_flood_of_one_recipient_leaves_channels_of_the_same_bot_sending,
    waiting_for_a_chat_that_flooded_does_not_stop_the_account,
    a_blocked_recipient_is_gone_and_nothing_is_retried,
    a_recipient_that_keeps_refusing_is_gone_and_a_success_forgives,
    the_pace_of_a_chat_is_kept_by_chat_whatever_lane_asks,
    the_slot_of_a_chat_is_not_before_that_of_its_account,
    a_stop_that_is_heard_late_does_not_bring_back_who_is_gone,
    a_channel_and_the_people_of_one_chat_share_its_pace,
    an_idle_dialogue_is_cleared_away_and_opened_again,
    dialogues_are_never_listed,
    people_are_told_in_sums,
    an_unknown_outcome_follows_the_policy_of_the_lane,
    the_same_words_go_to_a_chat_one_after_another,
    retries_in_flight_never_exceed_retry_parallel,
    retries_of_many_channels_share_the_room_of_their_account,
    an_unordered_lane_passes_a_waiting_retry,
}

fn person(user_id: &str) -> NewRecipient {
    NewRecipient {
        user_id: user_id.into(),
        address: user_id.into(),
        attributes: json!({"имя": "Анна"}),
        time_zone: Some("Europe/Moscow".into()),
        status: RecipientStatus::Active,
        source: "импорт".into(),
    }
}

async fn people(w: &World, account: AccountId, n: usize) -> Vec<RecipientId> {
    let people = (0..n).map(|i| person(&format!("{}", 700 + i))).collect();
    let put = w.store.put_recipients(w.ws, account, people).await.unwrap();
    put.into_iter().map(|put| put.recipient_id).collect()
}

fn campaign_lane() -> LaneSettings {
    LaneSettings { max_parallel: 6, rate: None, ambiguity: AmbiguityPolicy::ResendOnce }
}

async fn lane_of_campaign(w: &World, account: AccountId) -> LaneId {
    let of = LaneOf::Campaign(CampaignId(1), account);
    w.store.open_lane(w.ws, of, campaign_lane()).await.unwrap()
}

async fn text(w: &World, words: &str) -> MessageId {
    w.store.enqueue(w.ws, vec![message(words, &[])]).await.unwrap()[0].message_id
}

async fn broadcast(
    w: &World,
    lane_id: LaneId,
    words: &str,
    recipients: &[RecipientId],
) -> Vec<domain::ids::DeliveryId> {
    let message_id = text(w, words).await;
    let recipients = recipients.to_vec();
    let new = ForRecipients { message_id, lane_id, recipients, priority: Priority::Bulk, run_at: None };
    w.store.enqueue_for(w.ws, new).await.unwrap().into_iter().map(Option::unwrap).collect()
}

fn failed(failure: Failure) -> FinishKind {
    FinishKind::Outcome(Outcome::Failed(failure))
}

fn blocked() -> Failure {
    Failure {
        recipient_gone: true,
        ..Failure::new(Category::Permanent, Scope::Channel, "blocked", "бот заблокирован")
    }
}

fn flood() -> Failure {
    Failure::new(Category::Transient, Scope::Channel, "429", "часто").retry_after(60_000)
}

async fn a_person_is_known_by_account_and_user_id(w: &World) {
    let account = w.account().await;
    let first = w.store.put_recipients(w.ws, account, vec![person("1"), person("2")]).await.unwrap();
    assert!(first.iter().all(|put| put.created));
    let moved = NewRecipient { address: "чат 2".into(), time_zone: None, ..person("2") };
    let again = w.store.put_recipients(w.ws, account, vec![moved, person("3")]).await.unwrap();
    assert_eq!((again[0].recipient_id, again[0].created), (first[1].recipient_id, false));
    assert!(again[1].created);
    let known = w.store.recipient(w.ws, first[1].recipient_id).await.unwrap();
    assert_eq!((known.address.as_str(), known.time_zone), ("чат 2", person("2").time_zone));
    assert_eq!(known.attributes, json!({"имя": "Анна"}));
    let all = w.store.recipients(w.ws, account, Some(first[0].recipient_id), 10).await.unwrap();
    assert_eq!(all.iter().map(|r| r.user_id.as_str()).collect::<Vec<_>>(), ["2", "3"]);
    let found = w.store.find_recipient(w.ws, account, "2").await.unwrap();
    assert_eq!(found.map(|one| one.recipient_id), Some(first[1].recipient_id));
    assert_eq!(w.store.find_recipient(w.ws, account, "22").await.unwrap(), None);
    let nobody = w.store.put_recipients(w.ws, AccountId(999_999), vec![person("1")]).await;
    assert!(matches!(nobody, Err(StoreError::NotFound { what: "account", .. })), "{nobody:?}");
}

async fn what_was_known_stays_unless_it_is_said_anew(w: &World) {
    let account = w.account().await;
    let put = async |said: &[serde_json::Value]| {
        let people = said.iter().map(|said| NewRecipient { attributes: said.clone(), ..person("1") });
        let made = w.store.put_recipients(w.ws, account, people.collect()).await.unwrap();
        w.store.recipient(w.ws, made[0].recipient_id).await.unwrap().attributes
    };
    let first =
        put(&[json!({"имя": "Анна", "город": "Пермь", "vip": null, "pet": {"name": null, "n": [null]}})])
            .await;
    assert_eq!(first, json!({"имя": "Анна", "город": "Пермь", "pet": {"n": [null]}}));
    let second = put(&[json!({"город": "Уфа", "pet": {"kind": "кот"}})]).await;
    assert_eq!(second, json!({"имя": "Анна", "город": "Уфа", "pet": {"kind": "кот"}}));
    // An empty cell of a column that is there takes away what was known; somebody named twice is one person.
    let third = put(&[json!({"имя": null, "a": 1, "b": 1}), json!({"b": 2})]).await;
    assert_eq!(third, json!({"город": "Уфа", "pet": {"kind": "кот"}, "a": 1, "b": 2}));
}

async fn who_stopped_stays_stopped_through_an_import(w: &World) {
    let account = w.account().await;
    let id = people(w, account, 1).await[0];
    w.store.set_recipient_status(w.ws, id, RecipientStatus::Stopped, "/stop").await.unwrap();
    assert_eq!(people(w, account, 1).await, [id]);
    let known = w.store.recipient(w.ws, id).await.unwrap();
    assert_eq!((known.status, known.status_why.as_deref()), (RecipientStatus::Stopped, Some("/stop")));
}

/// How many of them were not suppressed so before.
async fn suppressed(w: &World, user_ids: &[&str], account_id: Option<AccountId>) -> u64 {
    let new = NewSuppressions {
        platform: "telegram".into(),
        user_ids: user_ids.iter().map(|id| (*id).to_owned()).collect(),
        account_id,
        reason: SuppressionReason::Complaint,
        origin: SuppressionOrigin::Operator,
    };
    w.store.suppress(w.ws, new).await.unwrap()
}

/// With the places where they are suppressed, as a listing tells them page by page.
async fn a_list_of_people_who_must_not_be_written_to_is_told_in_order_with_the_reason(w: &World) {
    let (one, two) = (w.account().await, w.account().await);
    let begun = w.now().await;
    assert_eq!(suppressed(w, &["703", "701"], Some(one)).await, 2);
    w.advance(Span::from_secs(1)).await;
    assert_eq!(suppressed(w, &["702", "701"], None).await, 2);
    assert_eq!(suppressed(w, &["701"], Some(two)).await, 1);
    let expected = [
        ("701", None, 1),
        ("701", Some(one), 0),
        ("701", Some(two), 1),
        ("702", None, 1),
        ("703", Some(one), 0),
    ];
    let (mut told, mut after) = (Vec::new(), SuppressionPlace::default());
    loop {
        let page = w.store.suppressions(w.ws, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.place();
        told.extend(page);
    }
    let seconds = |at: Timestamp| (at - begun).millis() / 1_000;
    let shown: Vec<_> =
        told.iter().map(|one| (one.user_id.as_str(), one.account_id, seconds(one.at))).collect();
    assert_eq!(shown, expected);
    assert!(told.iter().all(|one| one.reason == SuppressionReason::Complaint));
    let anna = Person { platform: "telegram".into(), user_id: "701".into() };
    assert_eq!(w.store.suppressions_of(w.ws, anna).await.unwrap(), told[..3]);
    let other = w.another_workspace("сосед").await;
    assert_eq!(other.store.suppressions(other.ws, SuppressionPlace::default(), 10).await.unwrap(), []);
}

async fn a_campaign_reaches_only_who_wants_to_hear(w: &World) {
    let account = w.account().await;
    let ids = people(w, account, 5).await;
    w.store.set_recipient_status(w.ws, ids[0], RecipientStatus::Stopped, "/stop").await.unwrap();
    w.store.set_recipient_status(w.ws, ids[1], RecipientStatus::Gone, "blocked").await.unwrap();
    assert_eq!(suppressed(w, &["702"], None).await, 1);
    assert_eq!(suppressed(w, &["702", "703", "703"], Some(account)).await, 2);
    assert_eq!(suppressed(w, &["703"], Some(account)).await, 0, "the first reason stays");
    assert!(w.store.unsuppress(w.ws, "telegram", "702", Some(account)).await.unwrap());
    let (lane_id, message_id) = (lane_of_campaign(w, account).await, text(w, "скидки").await);
    let new = ForRecipients {
        message_id,
        lane_id,
        recipients: ids.clone(),
        priority: Priority::Bulk,
        run_at: None,
    };
    let queued = w.store.enqueue_for(w.ws, new.clone()).await.unwrap();
    assert_eq!(queued.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, false, false, true]);
    assert!(w.store.unsuppress(w.ws, "telegram", "703", Some(account)).await.unwrap());
    assert!(!w.store.unsuppress(w.ws, "telegram", "703", Some(account)).await.unwrap());
    let queued = w.store.enqueue_for(w.ws, new).await.unwrap();
    assert_eq!(queued.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, false, true, false]);
    // A dialogue answers whoever can be reached.
    let settings = LaneSettings { max_parallel: 1, ..campaign_lane() };
    let lane_id = w.store.open_lane(w.ws, LaneOf::Dialogue(ids[0]), settings).await.unwrap();
    let again = w.store.open_lane(w.ws, LaneOf::Dialogue(ids[0]), settings).await.unwrap();
    assert_eq!(lane_id, again);
    let answer = ForRecipients {
        message_id,
        lane_id,
        recipients: vec![ids[0], ids[4]],
        priority: Priority::Urgent,
        run_at: None,
    };
    let queued = w.store.enqueue_for(w.ws, answer).await.unwrap();
    assert_eq!(
        queued.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false],
        "a dialogue is one person's"
    );
}

async fn a_recipient_is_claimed_sent_to_and_committed(w: &World) {
    let account = w.account().await;
    let ids = people(w, account, 3).await;
    let lane = lane_of_campaign(w, account).await;
    let queued = broadcast(w, lane, "скидки", &ids).await;
    let claims = w.claim(10).await;
    let to: Vec<Destination> = claims.iter().map(|claim| claim.destination).collect();
    assert_eq!(to, ids.iter().map(|&id| Destination::Recipient(id)).collect::<Vec<_>>());
    assert!(claims.iter().all(|claim| claim.lane_id == lane));
    let finishes = claims.iter().map(|claim| finish(claim, sent(claim))).collect();
    let finished = w.store.commit(finishes).await.unwrap();
    assert_eq!(finished, vec![Finished::Done(Status::Sent); 3]);
    for id in queued {
        let delivery = w.store.delivery(w.ws, id).await.unwrap();
        assert_eq!(delivery.status, Status::Sent);
        assert!(delivery.destination.recipient().is_some());
    }
    let message = claims[0].message_id;
    let to_people = w.store.deliveries_to_people(w.ws, message, 2).await.unwrap();
    let to: Vec<Destination> = to_people.iter().map(|delivery| delivery.destination).collect();
    assert_eq!(to, ids[..2].iter().map(|&id| Destination::Recipient(id)).collect::<Vec<_>>());
    assert_eq!(w.store.deliveries_of(w.ws, vec![message], 9).await.unwrap(), [], "no channel heard of it");
    let lanes = w.store.lanes(w.ws).await.unwrap();
    assert_eq!(lanes.iter().find(|l| l.lane_id == lane).unwrap().counts.sent, 3);
}

async fn a_flood_of_one_recipient_leaves_channels_of_the_same_bot_sending(w: &World) {
    let account = w.account().await;
    let channel = w.channel(account).await;
    let ids = people(w, account, 2).await;
    let lane = lane_of_campaign(w, account).await;
    broadcast(w, lane, "скидки", &ids[..1]).await;
    let claim = w.claim(1).await.remove(0);
    w.store.commit(vec![finish(&claim, failed(flood()))]).await.unwrap();
    // The same bot goes on: a channel, and another person of the same lane.
    w.store.enqueue(w.ws, vec![message("пропала собака", &[channel])]).await.unwrap();
    broadcast(w, lane, "ещё", &ids[1..]).await;
    let others = w.claim(10).await;
    assert_eq!(others.len(), 2, "{others:?}");
    assert!(w.store.accounts(w.ws).await.unwrap()[0].cooldown_until <= w.now().await);
    let who = w.store.recipient(w.ws, ids[0]).await.unwrap();
    assert_eq!(who.paused_until, w.now().await + Span::from_secs(60));
    // A second chat that floods within the wait: now it is the account.
    let other = others.iter().find(|c| c.destination == Destination::Recipient(ids[1])).unwrap();
    w.store.commit(vec![finish(other, failed(flood()))]).await.unwrap();
    assert!(w.store.accounts(w.ws).await.unwrap()[0].cooldown_until > w.now().await);
}

async fn waiting_for_a_chat_that_flooded_does_not_stop_the_account(w: &World) {
    let account = w.account().await;
    let ids = people(w, account, 2).await;
    let lane = lane_of_campaign(w, account).await;
    broadcast(w, lane, "скидки", &ids).await;
    let claims = w.claim(10).await;
    let to = |id| claims.iter().find(|c| c.destination == Destination::Recipient(id)).unwrap();
    w.store.commit(vec![finish(to(ids[0]), failed(flood()))]).await.unwrap();
    // Nobody was asked: a pause that had been asked for earlier still lasts.
    let waits = Failure { code: domain::outcome::CODE_CHAT_WAITS.into(), ..flood() };
    w.store.commit(vec![finish(to(ids[1]), failed(waits))]).await.unwrap();
    let delivery = w.store.delivery(w.ws, to(ids[1]).delivery_id).await.unwrap();
    assert_eq!(
        (delivery.status, delivery.run_at),
        (Status::Retry, Some(w.now().await + Span::from_secs(60)))
    );
    assert!(w.store.accounts(w.ws).await.unwrap()[0].cooldown_until <= w.now().await);
    assert!(w.store.recipient(w.ws, ids[1]).await.unwrap().paused_until <= w.now().await);
}

async fn a_blocked_recipient_is_gone_and_nothing_is_retried(w: &World) {
    let account = w.account().await;
    let ids = people(w, account, 2).await;
    let lane = lane_of_campaign(w, account).await;
    broadcast(w, lane, "скидки", &ids).await;
    let claims = w.claim(10).await;
    let first = claims.iter().find(|c| c.destination == Destination::Recipient(ids[0])).unwrap();
    w.store.commit(vec![finish(first, failed(blocked()))]).await.unwrap();
    let delivery = w.store.delivery(w.ws, first.delivery_id).await.unwrap();
    assert_eq!(
        (delivery.status, delivery.reason.as_deref()),
        (Status::FailedPermanent, Some("recipient_gone"))
    );
    let who = w.store.recipient(w.ws, ids[0]).await.unwrap();
    assert_eq!((who.status, who.status_why.as_deref()), (RecipientStatus::Gone, Some("blocked")));
    w.advance(Span::from_hours(1)).await;
    assert!(w.claim(10).await.is_empty());
    // Neither alarm nor pause: the account and the lane go on.
    let events = w.store.events(w.ws, 0, 100).await.unwrap();
    assert!(
        events
            .iter()
            .any(|e| e.name == "recipient_gone" && e.destination == Some(Destination::Recipient(ids[0])))
    );
    assert!(!events.iter().any(|e| e.name == "alert" || e.name == "channel_paused"));
    // And nothing is queued for them any more.
    let message_id = text(w, "ещё").await;
    let new = ForRecipients {
        message_id,
        lane_id: lane,
        recipients: ids.clone(),
        priority: Priority::Bulk,
        run_at: None,
    };
    let queued = w.store.enqueue_for(w.ws, new).await.unwrap();
    assert_eq!(queued.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
}

async fn a_recipient_that_keeps_refusing_is_gone_and_a_success_forgives(w: &World) {
    let account = w.account().await;
    let ids = people(w, account, 1).await;
    let lane = lane_of_campaign(w, account).await;
    let refuse = || failed(Failure::new(Category::Permanent, Scope::Channel, "chat_not_found", "нет чата"));
    for (n, ending) in [None, Some(()), None, None, None].into_iter().enumerate() {
        broadcast(w, lane, &format!("раз {n}"), &ids).await;
        let claim = w.claim(1).await.remove(0);
        let ending = match ending {
            None => refuse(),
            Some(()) => sent(&claim),
        };
        w.store.commit(vec![finish(&claim, ending)]).await.unwrap();
        let who = w.store.recipient(w.ws, ids[0]).await.unwrap();
        assert_eq!(who.error_streak, [1, 0, 1, 2, 3][n]);
        assert_eq!(who.status == RecipientStatus::Gone, n == 4);
    }
}

async fn the_pace_of_a_chat_is_kept_by_chat_whatever_lane_asks(w: &World) {
    let account = w.account().await;
    let ids = people(w, account, 2).await;
    let second = Span::from_secs(1);
    let now = w.now().await;
    let slots = |at: &[Approach]| at.iter().map(|a| a.slot_at).collect::<Vec<Timestamp>>();
    let mut approached = Vec::new();
    for id in [ids[0], ids[0], ids[1], ids[0]] {
        approached.push(w.store.approach(w.ws, id, second, now).await.unwrap());
    }
    assert_eq!(slots(&approached), [now, now + second, now, now + Span::from_secs(2)]);
    assert_eq!(approached[0].address, "700");
    assert_eq!(w.store.recipient(w.ws, ids[0]).await.unwrap().contacted_at, Some(now));
}

async fn the_slot_of_a_chat_is_not_before_that_of_its_account(w: &World) {
    let account = w.account().await;
    let id = people(w, account, 1).await[0];
    let (second, now) = (Span::from_secs(1), w.now().await);
    let later = now + Span::from_millis(700);
    assert_eq!(w.store.approach(w.ws, id, second, later).await.unwrap().slot_at, later);
    let next = w.store.approach(w.ws, id, second, now).await.unwrap();
    assert_eq!(next.slot_at, later + second, "a second after the request, not after it was asked for");
}

async fn a_stop_that_is_heard_late_does_not_bring_back_who_is_gone(w: &World) {
    let account = w.account().await;
    let id = people(w, account, 1).await[0];
    for (status, why, is) in [
        (RecipientStatus::Gone, "blocked", (RecipientStatus::Gone, "blocked")),
        (RecipientStatus::Stopped, "/stop", (RecipientStatus::Gone, "blocked")),
        (RecipientStatus::Active, "/start", (RecipientStatus::Active, "/start")),
        (RecipientStatus::Stopped, "/stop", (RecipientStatus::Stopped, "/stop")),
    ] {
        w.store.set_recipient_status(w.ws, id, status, why).await.unwrap();
        let who = w.store.recipient(w.ws, id).await.unwrap();
        assert_eq!((who.status, who.status_why.as_deref()), (is.0, Some(is.1)));
    }
}

async fn a_channel_and_the_people_of_one_chat_share_its_pace(w: &World) {
    let account = w.account().await;
    let second = Span::from_secs(1);
    let settings = ChannelSettings { rate: Some(1.0), max_parallel: 4, ..ChannelSettings::default() };
    let channel = w.channel_with(account, settings).await;
    let target = w.store.channels(w.ws).await.unwrap()[0].target.clone();
    let there = NewRecipient { address: target, ..person("700") };
    let put = w.store.put_recipients(w.ws, account, vec![there, person("701")]).await.unwrap();
    let now = w.now().await;
    w.post("раз", &[channel]).await;
    w.post("два", &[channel]).await;
    let claim = w.claim(10).await;
    assert_eq!(claim.iter().map(|claim| claim.slot_at).collect::<Vec<_>>(), [now]);
    // Somebody in the chat of the channel waits for it; somebody elsewhere does not.
    let approached = w.store.approach(w.ws, put[0].recipient_id, second, now).await.unwrap();
    assert_eq!(approached.slot_at, now + second);
    assert_eq!(w.store.approach(w.ws, put[1].recipient_id, second, now).await.unwrap().slot_at, now);
    // And the channel waits for them in turn.
    w.advance(second).await;
    assert_eq!(w.claim(10).await, [], "its slot went to the person");
    w.advance(second).await;
    assert_eq!(w.claim(10).await.len(), 1);
}

async fn an_idle_dialogue_is_cleared_away_and_opened_again(w: &World) {
    const KEEP: Retention = Retention {
        deliveries: Span::from_hours(24 * 30),
        deduped: Span::from_hours(24),
        events: Span::from_hours(24 * 90),
    };
    let account = w.account().await;
    let ids = people(w, account, 4).await;
    let settings = LaneSettings { max_parallel: 1, ..campaign_lane() };
    let open = async |id| w.store.open_lane(w.ws, LaneOf::Dialogue(id), settings).await.unwrap();
    let retain = async || w.store.retain(Whose::Everyone, KEEP, 2, Walk::START).await.unwrap();
    let mut lanes = Vec::new();
    for id in &ids {
        lanes.push(open(*id).await);
    }
    let campaign = lane_of_campaign(w, account).await;
    broadcast(w, lanes[1], "ответ", &ids[1..2]).await;
    let claim = w.claim(1).await.remove(0);
    w.sent(&claim).await;
    broadcast(w, lanes[2], "ждёт", &ids[2..3]).await;
    w.advance(Span::from_hours(24 * 29)).await;
    assert_eq!(retain().await.0.lanes, 0, "they are not old yet");
    assert_eq!(open(ids[3]).await, lanes[3]);
    w.advance(Span::from_hours(24 * 2)).await;
    let (removed, walk) = retain().await;
    // The first is idle; of the second the history goes in the same step, and then nothing needs its lane.
    assert_eq!((removed.lanes, removed.deliveries), (2, 1));
    let (removed, walk) = w.store.retain(Whose::Everyone, KEEP, 2, walk).await.unwrap();
    assert_eq!((removed.lanes, walk.lanes), (0, Some(lanes[3].0)), "one waits, one was used lately");
    let message_id = text(w, "ещё").await;
    let new = |lane_id, id| ForRecipients {
        message_id,
        lane_id,
        recipients: vec![id],
        priority: Priority::Urgent,
        run_at: None,
    };
    let refused = w.store.enqueue_for(w.ws, new(lanes[0], ids[0])).await;
    assert!(matches!(refused, Err(StoreError::NotFound { what: "lane", .. })), "{refused:?}");
    let again = open(ids[0]).await;
    assert_ne!(again, lanes[0]);
    assert!(w.store.enqueue_for(w.ws, new(again, ids[0])).await.unwrap()[0].is_some());
    assert!(w.store.lanes(w.ws).await.unwrap().iter().any(|lane| lane.lane_id == campaign));
}

async fn dialogues_are_never_listed(w: &World) {
    let account = w.account().await;
    let channel = w.channel(account).await;
    let ids = people(w, account, 3).await;
    let settings = LaneSettings { max_parallel: 1, ..campaign_lane() };
    for id in ids {
        w.store.open_lane(w.ws, LaneOf::Dialogue(id), settings).await.unwrap();
    }
    let campaign = lane_of_campaign(w, account).await;
    let lanes = w.store.lanes(w.ws).await.unwrap();
    assert_eq!(lanes.len(), 2);
    assert!(lanes.iter().any(|lane| lane.channel_id == Some(channel)));
    assert!(lanes.iter().any(|lane| lane.lane_id == campaign && lane.campaign_id == Some(CampaignId(1))));
}

async fn people_are_told_in_sums(w: &World) {
    let account = w.account().await;
    let channel = w.channel(account).await;
    assert_eq!(w.store.people(w.ws).await.unwrap(), []);
    let ids = people(w, account, 6).await;
    w.post("не людям", &[channel]).await;
    let lane = lane_of_campaign(w, account).await;
    broadcast(w, lane, "скидки", &ids[..3]).await;
    let settings = LaneSettings { max_parallel: 1, ..campaign_lane() };
    for id in &ids[3..5] {
        let dialogue = w.store.open_lane(w.ws, LaneOf::Dialogue(*id), settings).await.unwrap();
        broadcast(w, dialogue, &format!("ответ {id}"), &[*id]).await;
    }
    w.store.set_recipient_status(w.ws, ids[5], RecipientStatus::Gone, "blocked").await.unwrap();
    let told = |waiting, sending| [PeopleOfAccount { account_id: account, waiting, sending, gone: 1 }];
    assert_eq!(w.store.people(w.ws).await.unwrap(), told(5, 0));
    let claims = w.claim(10).await;
    assert_eq!(w.store.people(w.ws).await.unwrap(), told(0, 5), "the channel is no person");
    for claim in &claims {
        w.sent(claim).await;
    }
    assert_eq!(w.store.people(w.ws).await.unwrap(), told(0, 0));
    let other = w.another_workspace("сосед").await;
    assert_eq!(other.store.people(other.ws).await.unwrap(), []);
}

/// Where an outcome is found by reading back, words alone tell posts apart: whoever says the same waits for who may be out.
async fn the_same_words_go_to_a_chat_one_after_another(w: &World) {
    let account = w.account_with(AccountSettings { max_parallel: 10, ..AccountSettings::default() }).await;
    let [anna, boris] = people(w, account, 2).await[..] else { panic!("two people") };
    let settings = LaneSettings { ambiguity: AmbiguityPolicy::Reconcile, ..campaign_lane() };
    let mut lanes = Vec::new();
    for n in 1..=2 {
        let of = LaneOf::Campaign(CampaignId(n), account);
        lanes.push(w.store.open_lane(w.ws, of, settings).await.unwrap());
    }
    let ahead = async |of: &Claim| w.store.alike_is_ahead(w.ws, of.delivery_id).await.unwrap();
    let claim_all = async || {
        let mut claims = w.claim(10).await;
        claims.sort_by_key(|claim| claim.delivery_id);
        claims
    };
    broadcast(w, lanes[0], "Скидки", &[anna, boris]).await;
    let again = NewMessage { origin_id: "ещё раз".into(), ..message("Скидки", &[]) };
    let message_id = w.store.enqueue(w.ws, vec![again]).await.unwrap()[0].message_id;
    let (lane_id, recipients, priority) = (lanes[1], vec![anna], Priority::Bulk);
    let again = ForRecipients { message_id, lane_id, recipients, priority, run_at: None };
    w.store.enqueue_for(w.ws, again).await.unwrap();
    broadcast(w, lanes[1], "Новинки", &[anna]).await;
    let [first, of_boris, second, other] = &claim_all().await[..] else { panic!("four claims") };
    assert!(!ahead(first).await, "who was claimed first goes");
    assert!(!ahead(of_boris).await && !ahead(other).await, "another person, other words");
    assert!(ahead(second).await);
    // Nobody knows what became of the first: it stays ahead, also while it waits.
    assert_eq!(
        w.store.record_parts(vec![(first.reference(), PartProgress::Requested)]).await.unwrap(),
        [true]
    );
    let unknown = Failure::new(Category::Transient, Scope::Delivery, "timeout", "").unknown();
    w.fail(first, unknown.clone()).await;
    assert_eq!(w.delivery(first.delivery_id).await.counters.unknowns, 1);
    assert!(ahead(second).await);
    w.store.commit(vec![finish(second, FinishKind::Release)]).await.unwrap();
    w.seconds(600).await;
    let [first, second] = &claim_all().await[..] else { panic!("both again") };
    assert!(!ahead(first).await && ahead(second).await, "who was asked for before goes first");
    // Should both be out all the same, each waits for the other's request; of two unknown ones the first is looked for.
    w.store.record_parts(vec![(second.reference(), PartProgress::Requested)]).await.unwrap();
    assert!(ahead(first).await);
    w.fail(second, unknown).await;
    assert!(!ahead(first).await);
    w.sent(first).await;
    w.seconds(600).await;
    assert!(!ahead(&w.claim_one().await).await);
}

async fn an_unknown_outcome_follows_the_policy_of_the_lane(w: &World) {
    let account = w.account().await;
    let ids = people(w, account, 1).await;
    for (n, (policy, status)) in
        [(AmbiguityPolicy::Hold, Status::Dead), (AmbiguityPolicy::Resend, Status::Retry)]
            .into_iter()
            .enumerate()
    {
        let of = LaneOf::Campaign(CampaignId(10 + n as i64), account);
        let settings = LaneSettings { ambiguity: policy, ..campaign_lane() };
        let lane = w.store.open_lane(w.ws, of, settings).await.unwrap();
        let id = broadcast(w, lane, &format!("раз {n}"), &ids).await[0];
        let claim = w.claim(1).await.remove(0);
        let unknown = Failure::new(Category::Transient, Scope::Delivery, "timeout", "").unknown();
        w.store.commit(vec![finish(&claim, failed(unknown))]).await.unwrap();
        assert_eq!(w.store.delivery(w.ws, id).await.unwrap().status, status, "{policy:?}");
    }
}

/// The claims of an account that are out, as the test counts them: retries among them have tried before.
fn retries(claims: &[Claim]) -> usize {
    claims.iter().filter(|claim| claim.counters.attempt > 1).count()
}

async fn retries_in_flight_never_exceed_retry_parallel(w: &World) {
    let settings = AccountSettings { max_parallel: 20, retry_parallel: 2, ..AccountSettings::default() };
    let account = w.account_with(settings).await;
    let ids = people(w, account, 10).await;
    let of = LaneOf::Campaign(CampaignId(1), account);
    let settings = LaneSettings { max_parallel: 15, ..campaign_lane() };
    let lane = w.store.open_lane(w.ws, of, settings).await.unwrap();
    broadcast(w, lane, "скидки", &ids[..6]).await;
    for claim in w.claim(10).await {
        w.fail(&claim, transient(Scope::Delivery)).await;
    }
    w.advance(Span::from_secs(60)).await;
    // The retries are due first, but the others of the lane do not wait for them.
    broadcast(w, lane, "ещё", &ids[6..]).await;
    let mut out = w.claim(20).await;
    assert_eq!((out.len(), retries(&out)), (6, 2), "{out:?}");
    w.advance(Span::from_secs(1)).await;
    assert!(w.claim(20).await.is_empty(), "no room for a third retry");
    let mut sent = 0;
    while let Some(claim) = out.pop() {
        w.sent(&claim).await;
        sent += 1;
        w.advance(Span::from_secs(1)).await;
        out.extend(w.claim(20).await);
        assert!(retries(&out) <= 2, "{out:?}");
    }
    assert_eq!(sent, 10, "in the end everybody heard it");
}

async fn retries_of_many_channels_share_the_room_of_their_account(w: &World) {
    let settings = AccountSettings { max_parallel: 20, retry_parallel: 2, ..AccountSettings::default() };
    let account = w.account_with(settings).await;
    let mut channels = Vec::new();
    for _ in 0..5 {
        channels.push(w.channel(account).await);
    }
    w.post("раз", &channels[..4]).await;
    for claim in w.claim(10).await {
        w.fail(&claim, transient(Scope::Delivery)).await;
    }
    w.advance(Span::from_secs(60)).await;
    w.post("два", &channels).await;
    let out = w.claim(20).await;
    // Two retries, and the channel that has none; behind the other retries their channels keep the order.
    assert_eq!((out.len(), retries(&out)), (3, 2), "{out:?}");
    for claim in &out {
        w.sent(claim).await;
    }
    w.advance(Span::from_secs(1)).await;
    let out = w.claim(20).await;
    assert_eq!((out.len(), retries(&out)), (4, 2), "{out:?}");
}

async fn an_unordered_lane_passes_a_waiting_retry(w: &World) {
    let account = w.account().await;
    let channel =
        w.channel_with(account, ChannelSettings { max_parallel: 4, ..ChannelSettings::default() }).await;
    w.post("раз", &[channel]).await;
    let claim = w.claim_one().await;
    w.fail(&claim, transient(Scope::Delivery).retry_after(3_600_000)).await;
    // The retry is urgent and waits for an hour; a bulk row behind it goes at once.
    let bulk = NewMessage { priority: Priority::Bulk, ..message("два", &[channel]) };
    w.enqueue(vec![bulk]).await;
    let claims = w.claim(10).await;
    assert_eq!(claims.len(), 1);
    w.sent(&claims[0]).await;
    w.post("три", &[channel]).await;
    w.enqueue(vec![NewMessage { priority: Priority::Bulk, ..message("четыре", &[channel]) }]).await;
    assert_eq!(w.claim(10).await.len(), 2);
    w.advance(Span::from_hours(1)).await;
    assert_eq!(retries(&w.claim(10).await), 1);
}
