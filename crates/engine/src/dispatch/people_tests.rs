//! What is said to people: who floods or is gone keeps nobody waiting, and each platform's own policy counts.

use domain::delivery::Status;
use domain::ids::{AccountId, DeliveryId};
use domain::message::Message;
use sandbox::Name;
use serde_json::json;
use store::{AccountSettings, ChannelSettings};

use super::tests::World;

/// Queues words for people in the lane of a campaign.
async fn broadcast(w: &World, account: AccountId, words: &str, user_ids: &[&str]) -> Vec<DeliveryId> {
    let person = |user_id: &&str| store::NewRecipient {
        user_id: (*user_id).into(),
        address: (*user_id).into(),
        attributes: json!({}),
        time_zone: None,
        status: store::RecipientStatus::Active,
        source: "файл".into(),
    };
    let put =
        w.store.put_recipients(w.workspace, account, user_ids.iter().map(person).collect()).await.unwrap();
    let of = store::LaneOf::Campaign(domain::ids::CampaignId(1), account);
    let queueing = crate::lanes::Queueing { max_parallel: 4, rate: None };
    let lane_id = crate::lanes::open(&w.store, w.workspace, of, queueing).await.unwrap();
    w.post(words, &Message::text(words), &[]).await;
    let message = w.store.message_by_origin(w.workspace, "test", words).await.unwrap().unwrap();
    let new = store::ForRecipients {
        message_id: message.message_id,
        lane_id,
        recipients: put.iter().map(|put| put.recipient_id).collect(),
        priority: domain::delivery::Priority::Bulk,
        run_at: None,
    };
    let queued = w.store.enqueue_for(w.workspace, new).await.unwrap();
    queued.into_iter().map(Option::unwrap).collect()
}

#[tokio::test]
async fn a_person_who_floods_or_blocked_the_bot_keeps_nobody_else_waiting() {
    let w = World::new().await;
    let account = w.account(Name::Telegram, AccountSettings::default()).await;
    let channel = w.channel(account, "-1001234567890", ChannelSettings::default()).await;
    let trouble = |chat: &str, kind: &str| json!({"platform": "telegram", "chat": chat, "kind": kind, "times": 1, "retry_after": 3600});
    w.sandbox.arm(&trouble("701", "429")).unwrap();
    w.sandbox.arm(&json!({"platform": "telegram", "chat": "702", "kind": "blocked", "times": 1})).unwrap();
    let people = broadcast(&w, account, "Скидки", &["701", "702", "703"]).await;
    let node = w.node();
    let flooded = w.until(people[0], |delivery| delivery.status == Status::Retry).await;
    let blocked = w.until(people[1], |delivery| delivery.status.is_terminal()).await;
    assert_eq!(flooded.reason.as_deref(), Some("flood"));
    assert_eq!(
        (blocked.status, blocked.reason.as_deref()),
        (Status::FailedPermanent, Some("recipient_gone"))
    );
    // Who comes afterwards is written to: another person, and a channel of the same bot.
    let mut others = vec![people[2]];
    others.extend(w.post("1", &Message::text("Пропала собака"), &[channel]).await);
    for delivery in w.until_ended(&others).await {
        assert_eq!(delivery.status, Status::Sent, "{delivery:#?}");
    }
    // The chat that asked for a pause is left alone, whoever wants to write there.
    let again = broadcast(&w, account, "Ещё", &["701"]).await;
    let waits = w.until(again[0], |delivery| delivery.status == Status::Retry).await;
    assert_eq!(waits.last_error.unwrap()["code"], "chat_waits");
    assert!(node.stop().await);
    assert_eq!(w.store.audit(w.workspace).await.unwrap(), Vec::<String>::new());
}

/// The answer is lost after the platform took the message: what follows is the platform's policy, which nobody passed.
#[tokio::test]
async fn a_person_on_vk_is_sent_to_again_by_key_and_hears_it_once() {
    let w = World::new().await;
    let kind = AccountSettings { kind: "community".into(), ..AccountSettings::default() };
    let account = w.account(Name::Vk, kind).await;
    let fault = json!({"platform": "vk", "method": "messages.send", "kind": "accept_then_reset", "times": 2});
    w.sandbox.arm(&fault).unwrap();
    let told = broadcast(&w, account, "Ваш ответ", &["7001"]).await;
    let node = w.node();
    let delivery = &w.until_ended(&told).await[0];
    assert_eq!((delivery.status, delivery.counters.unknowns), (Status::Sent, 2), "{delivery:#?}");
    assert_eq!(w.sandbox.core().chats.messages(Name::Vk, "7001").len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn a_person_on_max_is_looked_up_before_a_second_try() {
    let w = World::new().await;
    let account = w.account(Name::Max, AccountSettings::default()).await;
    w.sandbox.arm(&json!({"platform": "max", "kind": "accept_then_reset", "times": 1})).unwrap();
    let told = broadcast(&w, account, "Ваш ответ", &["7002"]).await;
    let node = w.node();
    let delivery = &w.until_ended(&told).await[0];
    assert_eq!((delivery.status, delivery.counters.unknowns), (Status::Sent, 1), "{delivery:#?}");
    assert_eq!(w.texts(Name::Max).len(), 1);
    assert_eq!(node.meters.reconciled.get(), 1);
    node.stop().await;
}
