//! Edits, deletions, replies, pins, probes and what users do, on every platform that the sandbox speaks.

use std::time::Duration;

use domain::message::{Button, Message, Press};
use domain::outcome::Outcome;
use platforms::incoming::Event;
use platforms::part::{Action, ChatKind, Published};
use platforms::platform::{Question, Reconciled};
use sandbox::Name;
use serde_json::json;

use crate::world::{Side, Store, World, short};

async fn published(side: &Side<'_>, message: &Message) -> Vec<Published> {
    let parts = side.render(&Action::Send, message);
    let reports = side.publish(&Action::Send, message, "first", &Store::default()).await;
    parts.iter().zip(reports).filter_map(|(part, report)| Published::of(part, report.ids)).collect()
}

async fn follow(side: &Side<'_>, action: &Action<'_>, message: &Message) -> Vec<String> {
    let reports = side.publish(action, message, "second", &Store::default()).await;
    reports.iter().map(short).collect()
}

async fn check_follow_ups(name: Name, methods: [&str; 4]) {
    let world = World::start().await;
    let side = world.side(name);
    let first = published(&side, &Message::text("Пропала собака")).await;
    assert_eq!(first[0].ids.len(), 1);
    let home = Message::text("Собака дома");
    assert_eq!(follow(&side, &Action::Edit(&first), &home).await, ["sent"]);
    assert_eq!(follow(&side, &Action::Reply(&first), &Message::text("Спасибо всем")).await, ["sent"]);
    assert_eq!(follow(&side, &Action::Delete(&first), &home).await, ["sent"]);
    let rows = world.rows(name);
    let seen: Vec<&str> = rows.iter().map(|row| row.method.as_str()).collect();
    assert_eq!(seen, methods);
    assert!(rows.iter().all(|row| row.accepted), "{rows:?}");
    // What is gone already counts as deleted.
    assert_eq!(follow(&side, &Action::Delete(&first), &home).await, ["sent"]);
}

#[tokio::test]
async fn a_telegram_post_is_edited_answered_and_taken_away() {
    check_follow_ups(Name::Telegram, ["sendMessage", "editMessageText", "sendMessage", "deleteMessage"])
        .await;
}

#[tokio::test]
async fn an_edit_to_the_same_words_is_done() {
    let world = World::start().await;
    let mut side = world.side(Name::Telegram);
    side.settings.preview = true;
    let message = Message::text("Пропала собака");
    let first = published(&side, &message).await;
    assert_eq!(follow(&side, &Action::Edit(&first), &message).await, ["sent"]);
    assert!(!world.rows(Name::Telegram)[1].accepted, "telegram itself refuses such an edit");
}

#[tokio::test]
async fn a_pinned_post_names_the_first_part() {
    let world = World::start().await;
    let mut side = world.side(Name::Telegram);
    side.settings.pin = true;
    let reports = side.publish(&Action::Send, &Message::text("важно"), "k", &Store::default()).await;
    assert_eq!(reports.iter().map(short).collect::<Vec<_>>(), ["sent", "sent"]);
    assert_eq!(world.rows(Name::Telegram)[1].method, "pinChatMessage");
}

#[tokio::test]
async fn a_probe_names_the_bot_and_what_it_may_do() {
    let world = World::start().await;
    let side = world.side(Name::Telegram);
    let probe = side.platform.probe(&world.network, &side.account, Some(&side.settings)).await;
    assert!(!probe.identity.unwrap().name.is_empty());
    assert_eq!(probe.channel.unwrap().may_post, Some(true));

    world.arm(&json!({"platform": "telegram", "kind": "401"}));
    let probe = side.platform.probe(&world.network, &side.account, Some(&side.settings)).await;
    assert_eq!(probe.identity.unwrap_err().code, "401");
    assert_eq!(probe.channel, None);
}

#[tokio::test]
async fn telegram_cannot_know() {
    let world = World::start().await;
    let side = world.side(Name::Telegram);
    let part = side.render(&Action::Send, &Message::text("да")).remove(0);
    let deadline = Duration::from_secs(5);
    let question = Question { part: &part, key: "k", sent_at_ms: 0, taken: &[], deadline };
    let found = side.platform.reconcile(&world.network, &side.account, question).await;
    assert_eq!(found, Reconciled::CannotKnow);
}

#[tokio::test]
async fn what_users_do_arrives_once_and_the_cursor_moves() {
    let world = World::start().await;
    let side = world.side(Name::Telegram).in_chat("5", ChatKind::Private);
    let poll = async |cursor: Option<&str>| {
        side.platform.poll(&world.network, &side.account, cursor, Duration::ZERO).await.unwrap()
    };
    let empty = poll(None).await;
    assert_eq!((empty.events.len(), empty.cursor), (0, None));

    let message = json!({"chat": 5, "from": 5, "text": "привет"});
    world.sandbox.inject(Name::Telegram, &message).unwrap();
    world.arm(&json!({"platform": "telegram", "kind": "duplicate_update", "times": 1}));
    world.sandbox.inject(Name::Telegram, &message).unwrap();
    let batch = poll(None).await;
    let keys: std::collections::HashSet<&str> = batch.events.iter().map(|event| event.key.as_str()).collect();
    assert_eq!((batch.events.len(), keys.len()), (3, 2), "a repeat has the key of the first");
    let Event::Message(said) = &batch.events[0].event else { panic!("{batch:?}") };
    assert_eq!((said.text.as_str(), said.chat.as_str(), said.private), ("привет", "5", true));
    assert_eq!(poll(batch.cursor.as_deref()).await.events.len(), 0);
}

#[tokio::test]
async fn a_pressed_button_comes_back_and_is_answered() {
    let world = World::start().await;
    let side = world.side(Name::Telegram).in_chat("5", ChatKind::Private);
    let button = Button { text: "Видел".into(), press: Press::Callback("seen:1".into()) };
    let message = Message { buttons: vec![vec![button]], ..Message::text("Видели собаку?") };
    let reports = side.publish(&Action::Send, &message, "k", &Store::default()).await;
    let id: i64 = reports[0].ids[0].parse().unwrap();
    let press = json!({"callback_query": {"from": {"id": 5, "is_bot": false, "first_name": "Анна"},
        "message": {"message_id": id, "chat": {"id": 5}}, "data": "seen:1"}});
    world.sandbox.inject(Name::Telegram, &press).unwrap();
    let batch = side.platform.poll(&world.network, &side.account, None, Duration::ZERO).await.unwrap();
    let Event::Callback(callback) = &batch.events[0].event else { panic!("{batch:?}") };
    assert_eq!((callback.payload.as_str(), callback.from.as_str()), ("seen:1", "5"));
    let answered =
        side.platform.answer_callback(&world.network, &side.account, callback, Some("спасибо")).await;
    assert!(matches!(answered, Outcome::Sent(_)), "{answered:?}");
}
