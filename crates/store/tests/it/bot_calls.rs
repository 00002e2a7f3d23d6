//! Calls to a shop's own services: asked once at a time, repeated with the same key, answered in the dialogue.

use std::collections::BTreeMap;

use domain::time::Span;
use serde_json::json;
use store::*;

use crate::bot::{bot, claim, commit, echo, receive, said};
use crate::world::*;

contract! {
    a_call_is_claimed_once_and_its_answer_waits_in_the_dialogue,
    who_asks_for_the_next_call_hears_when_it_is_due,
    a_call_whose_caller_died_is_made_again_with_the_same_key,
    what_was_asked_for_somebody_forgotten_is_nobody_elses,
    a_call_that_is_another_s_by_now_settles_nothing,
    a_service_that_is_busy_is_left_alone_and_others_are_called,
    a_turn_that_is_not_kept_asks_for_nothing,
    who_is_forgotten_is_told_no_answer,
    figures_say_how_each_service_answers,
    a_forward_to_a_channel_that_was_removed_does_not_hold_up_the_dialogue,
}

const LEASE: Span = Span::from_secs(10);

/// A turn over one message that asks these services.
async fn asking(w: &World, account: domain::ids::AccountId, key: &str, services: &[&str]) -> TurnTaken {
    receive(w, account, &[said(key, key, "где заказ?")]).await;
    let turn = claim(w).await.remove(0);
    let fields = BTreeMap::from([("order".to_owned(), "AB-123456".to_owned())]);
    let call = |service: &&str| NewCall { event: 0, service: (*service).into(), fields: fields.clone() };
    TurnTaken { calls: services.iter().map(call).collect(), ..echo(&turn) }
}

async fn calls(w: &World) -> Vec<ServiceCall> {
    w.store.bot_claim_calls(10, LEASE, Vec::new()).await.unwrap()
}

fn answered() -> CallEnd {
    CallEnd::Over { event: json!({"what": "answer", "fields": {"status": "в пути"}}), failed: None }
}

async fn who_asks_for_the_next_call_hears_when_it_is_due(w: &World) {
    let (account, _) = bot(w).await;
    let next = async || w.store.bot_next_call().await.unwrap();
    assert_eq!(next().await, None, "without services there is nothing to wait for");
    assert!(commit(w, asking(w, account, "1", &["orders"]).await).await);
    assert_eq!(next().await, Some(w.now().await));
    let call = calls(w).await.remove(0);
    assert_eq!(next().await, Some(w.now().await + LEASE), "somebody makes it, or dies");
    let again = CallEnd::Again { after: Span::from_secs(3), reason: "503".into() };
    assert!(w.store.bot_settle_call(&call, again).await.unwrap());
    assert_eq!(next().await, Some(w.now().await + Span::from_secs(3)));
    w.seconds(3).await;
    assert!(w.store.bot_settle_call(&calls(w).await.remove(0), answered()).await.unwrap());
    assert_eq!(next().await, None);
}

async fn figures_say_how_each_service_answers(w: &World) {
    let (account, id) = bot(w).await;
    let figures = async || w.store.bot_services(w.ws, Span::from_hours(1)).await.unwrap();
    assert_eq!(figures().await, []);
    assert!(commit(w, asking(w, account, "1", &["orders"]).await).await);
    let failed = CallEnd::Over { event: json!({"what": "answer"}), failed: Some("503".into()) };
    assert!(w.store.bot_settle_call(&calls(w).await.remove(0), failed).await.unwrap());
    w.seconds(7_200).await;
    assert!(commit(w, asking(w, account, "2", &["orders", "stock"]).await).await);
    let last_at = w.now().await;
    let of = |service: &str, waiting, failures, reason: Option<&str>| ServiceFigures {
        bot_id: id,
        service: service.into(),
        last_at,
        calls: 1,
        failures,
        waiting,
        reason: reason.map(str::to_owned),
    };
    // What is older is not counted, and its reason is the last that is known.
    assert_eq!(figures().await, [of("orders", 1, 0, Some("503")), of("stock", 1, 0, None)]);
    for call in calls(w).await {
        let end = match call.service.as_str() {
            "orders" => answered(),
            _ => CallEnd::Over {
                event: json!({"what": "answer"}),
                failed: Some("its answer is text/html".into()),
            },
        };
        assert!(w.store.bot_settle_call(&call, end).await.unwrap());
    }
    assert_eq!(
        figures().await,
        [of("orders", 0, 0, Some("503")), of("stock", 0, 1, Some("its answer is text/html"))]
    );
    let other = w.store.create_workspace("чужие").await.unwrap();
    assert_eq!(w.store.bot_services(other, Span::from_hours(1)).await.unwrap(), []);
}

async fn a_call_is_claimed_once_and_its_answer_waits_in_the_dialogue(w: &World) {
    let (account, id) = bot(w).await;
    let signs = w.account().await;
    let new = NewBot {
        name: format!("магазин {account}"),
        accounts: vec![account],
        receive: Receive::Poll,
        operators: None,
        services: BTreeMap::from([("orders".to_owned(), signs)]),
    };
    assert_eq!(w.store.put_bot(w.ws, new).await.unwrap(), id);
    assert_eq!(w.store.bots(w.ws).await.unwrap()[0].services["orders"], signs);
    assert!(commit(w, asking(w, account, "1", &["orders", "stock"]).await).await);
    let claimed = calls(w).await;
    assert!(calls(w).await.is_empty(), "they are somebody's");
    let [orders, stock] = claimed.as_slice() else { panic!("{claimed:?}") };
    assert_eq!(
        (orders.service.as_str(), orders.account_id, orders.bot_id),
        ("orders", Some(signs), Some(id))
    );
    assert_eq!((orders.tries, &orders.fields), (1, &json!({"order": "AB-123456"})));
    assert_eq!(stock.account_id, None, "nobody told where it is");
    assert_ne!(orders.key, stock.key);
    assert!(claim(w).await.is_empty());
    assert!(w.store.bot_settle_call(orders, answered()).await.unwrap());
    assert!(!w.store.bot_settle_call(orders, answered()).await.unwrap(), "once");
    let turn = claim(w).await.remove(0);
    assert_eq!((turn.events.len(), turn.events[0].kind.as_str()), (1, "answer"));
    assert_eq!(turn.events[0].body["fields"]["status"], "в пути");
    // An answer that comes while a turn is taken waits for the next one.
    let failed = CallEnd::Over { event: json!({"what": "answer"}), failed: Some("status 404".into()) };
    assert!(w.store.bot_settle_call(stock, failed).await.unwrap());
    assert!(claim(w).await.is_empty());
    assert!(commit(w, echo(&turn)).await);
    assert_eq!(claim(w).await[0].events.len(), 1);
    w.seconds(60).await;
    assert!(calls(w).await.is_empty());
}

async fn a_call_whose_caller_died_is_made_again_with_the_same_key(w: &World) {
    let (account, _) = bot(w).await;
    assert!(commit(w, asking(w, account, "1", &["orders"]).await).await);
    let first = calls(w).await.remove(0);
    w.seconds(11).await;
    let second = calls(w).await.remove(0);
    assert_eq!((second.tries, &second.key, &second.fields), (2, &first.key, &first.fields));
    assert!(!w.store.bot_settle_call(&first, answered()).await.unwrap(), "it is the second one's");
    let later = CallEnd::Again { after: Span::from_secs(3), reason: "status 503".into() };
    assert!(w.store.bot_settle_call(&second, later).await.unwrap());
    assert!(calls(w).await.is_empty());
    w.seconds(3).await;
    let third = calls(w).await.remove(0);
    assert_eq!((third.tries, &third.key), (3, &first.key));
    assert!(w.store.bot_settle_call(&third, answered()).await.unwrap());
    assert_eq!(claim(w).await[0].events.len(), 1);
}

async fn what_was_asked_for_somebody_forgotten_is_nobody_elses(w: &World) {
    let (account, _) = bot(w).await;
    assert!(commit(w, asking(w, account, "70", &["orders"]).await).await);
    let forgotten = calls(w).await.remove(0);
    assert!(w.store.bot_forget(w.ws, account, "70").await.unwrap());
    assert!(commit(w, asking(w, account, "71", &["orders"]).await).await);
    let call = calls(w).await.remove(0);
    assert_ne!(
        call.key, forgotten.key,
        "a service that knows repeats would give the answer of somebody else"
    );
    let again = CallEnd::Again { after: Span::from_secs(3), reason: "503".into() };
    for end in [answered(), again] {
        assert!(!w.store.bot_settle_call(&forgotten, end).await.unwrap());
    }
    assert!(claim(w).await.is_empty(), "the answer was for somebody else");
    assert!(w.store.bot_settle_call(&call, answered()).await.unwrap());
    assert_eq!(claim(w).await.remove(0).recipient_id, call.recipient_id);
}

async fn a_call_that_is_another_s_by_now_settles_nothing(w: &World) {
    let (account, _) = bot(w).await;
    assert!(commit(w, asking(w, account, "1", &["orders"]).await).await);
    let call = calls(w).await.remove(0);
    let other = w.another_workspace("чужие").await;
    let foreign = ServiceCall { workspace_id: other.ws, ..call.clone() };
    assert!(!w.store.bot_settle_call(&foreign, answered()).await.unwrap());
    assert!(!w.store.bot_settle_call(&ServiceCall { tries: 2, ..call.clone() }, answered()).await.unwrap());
    assert!(w.store.bot_settle_call(&call, answered()).await.unwrap());
}

async fn a_service_that_is_busy_is_left_alone_and_others_are_called(w: &World) {
    let (account, id) = bot(w).await;
    assert!(commit(w, asking(w, account, "1", &["hangs", "stock"]).await).await);
    let claimed = w.store.bot_claim_calls(10, LEASE, vec![format!("{id}/hangs")]).await.unwrap();
    assert_eq!(claimed.iter().map(|call| call.service.as_str()).collect::<Vec<_>>(), ["stock"]);
    assert_eq!(calls(w).await[0].service, "hangs");
}

async fn a_turn_that_is_not_kept_asks_for_nothing(w: &World) {
    let (account, _) = bot(w).await;
    let late = asking(w, account, "1", &["orders"]).await;
    w.seconds(11).await;
    let turn = claim(w).await.remove(0);
    assert!(!commit(w, late).await);
    assert!(calls(w).await.is_empty());
    assert!(commit(w, echo(&turn)).await);
}

async fn who_is_forgotten_is_told_no_answer(w: &World) {
    let (account, _) = bot(w).await;
    assert!(commit(w, asking(w, account, "1", &["orders"]).await).await);
    let call = calls(w).await.remove(0);
    assert!(w.store.bot_forget(w.ws, account, "1").await.unwrap());
    assert!(!w.store.bot_settle_call(&call, answered()).await.unwrap());
    assert!(claim(w).await.is_empty());
}

async fn a_forward_to_a_channel_that_was_removed_does_not_hold_up_the_dialogue(w: &World) {
    let (account, _) = bot(w).await;
    let desk = w.channel(account).await;
    let mut taken = asking(w, account, "1", &[]).await;
    taken.says.push(Say { event: 0, channel: Some(desk), payload: json!({"text": "#A1 Анна"}) });
    w.store.remove_channel(w.ws, desk).await.unwrap();
    assert!(commit(w, taken).await);
    assert_eq!(w.claim(10).await.len(), 1, "the person is answered all the same");
}
