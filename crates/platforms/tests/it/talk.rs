//! Edits, deletions, replies, pins, probes and what users do, on every platform that the sandbox speaks.

use std::time::Duration;

use domain::chat::ChatKind;
use domain::message::{Button, Message, Press};
use domain::outcome::{Category, Outcome, Scope};
use platforms::incoming::Event;
use platforms::part::{Action, Published};
use platforms::platform::{Question, Reconciled};
use platforms::vk::read::{Named, Wall, resolve_screen_name, wall_page};
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
async fn a_vk_post_is_edited_answered_and_taken_away() {
    check_follow_ups(Name::Vk, ["wall.post", "wall.edit", "wall.createComment", "wall.delete"]).await;
}

#[tokio::test]
async fn a_max_post_is_edited_answered_and_taken_away() {
    let methods = ["POST /messages", "PUT /messages", "POST /messages", "DELETE /messages"];
    check_follow_ups(Name::Max, methods).await;
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
    for name in Name::ALL {
        let world = World::start().await;
        let mut side = world.side(name);
        side.settings.pin = true;
        let reports = side.publish(&Action::Send, &Message::text("важно"), "k", &Store::default()).await;
        assert_eq!(reports.iter().map(short).collect::<Vec<_>>(), ["sent", "sent"], "{name:?}: {reports:?}");
        assert!(world.rows(name)[1].method.contains("pin"));
    }
}

#[tokio::test]
async fn a_probe_names_the_bot_and_what_it_may_do() {
    for name in Name::ALL {
        let world = World::start().await;
        let side = world.side(name);
        side.publish(&Action::Send, &Message::text("да"), "k", &Store::default()).await;
        let probe = side.platform.probe(&world.network, &side.account, Some(&side.settings)).await;
        assert!(!probe.identity.as_ref().unwrap().name.is_empty(), "{probe:?}");
        assert_eq!(probe.channel.as_ref().unwrap().may_post, Some(true), "{probe:?}");

        world.arm(&json!({"platform": name.as_str(), "kind": "401"}));
        let probe = side.platform.probe(&world.network, &side.account, Some(&side.settings)).await;
        let failure = probe.identity.unwrap_err();
        assert_eq!((failure.category, failure.scope), (Category::Permanent, Scope::Platform), "{name:?}");
        assert_eq!(probe.channel, None);
    }
}

#[tokio::test]
async fn what_became_of_a_lost_answer_can_be_looked_up() {
    for name in [Name::Vk, Name::Max] {
        let world = World::start().await;
        let side = world.side(name);
        let part = side.render(&Action::Send, &Message::text("Пропала собака: <Рекс> & Ко")).remove(0);
        let sent_at_ms = world.sandbox.core().clock.now_ms();
        let ask = async |taken: &[String]| {
            let question =
                Question { part: &part, key: "k", sent_at_ms, taken, deadline: Duration::from_secs(5) };
            side.platform.reconcile(&world.network, &side.account, question).await
        };
        side.publish(&Action::Send, &Message::text("Другой пост"), "other", &Store::default()).await;
        assert_eq!(ask(&[]).await, Reconciled::Absent, "{name:?}");
        world.arm(&json!({"platform": name.as_str(), "kind": "accept_then_reset", "times": 1}));
        let lost = side.send(&part, "k", &Store::default()).await;
        assert!(short(&lost).ends_with("unknown"));
        let Reconciled::Visible(ids) = ask(&[]).await else { panic!("{name:?}") };
        let row = world.rows(name).into_iter().rfind(|row| row.fault.is_some()).unwrap();
        assert_eq!(ids, [row.visible_id.to_string().trim_matches('"')], "{name:?}");
        assert_eq!(ask(&ids).await, Reconciled::Absent, "{name:?}: another delivery's post is not ours");
    }
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
    for name in Name::ALL {
        check_poll(name).await;
    }
}

async fn check_poll(name: Name) {
    let world = World::start().await;
    let side = world.side(name).in_chat("5", ChatKind::Private);
    let poll = async |cursor: Option<&str>| {
        side.platform
            .receiver()
            .unwrap()
            .poll(&world.network, &side.account, cursor, Duration::ZERO)
            .await
            .unwrap()
    };
    let empty = poll(None).await;
    assert_eq!(empty.events.len(), 0, "{name:?}");

    let message = json!({"chat": 5, "from": 5, "text": "привет"});
    world.sandbox.inject(name, &message).unwrap();
    world.arm(&json!({"platform": name.as_str(), "kind": "duplicate_update", "times": 1}));
    world.sandbox.inject(name, &message).unwrap();
    let mut events = Vec::new();
    let mut cursor = empty.cursor;
    // Some platforms give one update at a time.
    for _ in 0..5 {
        let batch = poll(cursor.as_deref()).await;
        events.extend(batch.events);
        cursor = batch.cursor;
    }
    let said: Vec<_> = events.iter().filter(|event| matches!(event.event, Event::Message(_))).collect();
    let keys: std::collections::HashSet<&str> = said.iter().map(|event| event.key.as_str()).collect();
    assert_eq!((said.len(), keys.len()), (3, 2), "{name:?}: a repeat has the key of the first: {events:?}");
    let Event::Message(said) = &said[0].event else { panic!("{events:?}") };
    assert_eq!((said.text.as_str(), said.private), ("привет", true), "{name:?}");
    assert!(said.name.as_ref().is_some_and(|name| !name.trim().is_empty()), "{name:?}: {said:?}");
}

#[tokio::test]
async fn a_pressed_button_comes_back_and_is_answered() {
    for name in Name::ALL {
        check_press(name).await;
    }
}

async fn check_press(name: Name) {
    let world = World::start().await;
    let side = world.side(name).in_chat("5", ChatKind::Private);
    let button = Button { text: "Видел".into(), press: Press::Callback("seen:1".into()) };
    let message = Message { buttons: vec![vec![button]], ..Message::text("Видели собаку?") };
    let cursor = side
        .platform
        .receiver()
        .unwrap()
        .poll(&world.network, &side.account, None, Duration::ZERO)
        .await
        .unwrap()
        .cursor;
    let reports = side.publish(&Action::Send, &message, "k", &Store::default()).await;
    assert_eq!(short(&reports[0]), "sent", "{name:?}: {reports:?}");
    let id = &reports[0].ids[0];
    let press = match name {
        Name::Telegram => json!({"callback_query": {"from": {"id": 5, "is_bot": false, "first_name": "Анна"},
            "message": {"message_id": id.parse::<i64>().unwrap(), "chat": {"id": 5}}, "data": "seen:1"}}),
        Name::Vk => json!({"type": "message_event", "object": {"user_id": 5, "peer_id": 5,
            "payload": {"data": "seen:1"}, "conversation_message_id": 1}}),
        Name::Max => {
            json!({"update_type": "message_callback", "callback": {"payload": "seen:1", "user": {"user_id": 5}},
            "message": {"body": {"mid": id}, "recipient": {"chat_id": 5}}})
        }
    };
    world.sandbox.inject(name, &press).unwrap_or_else(|refusal| panic!("{name:?}: {}", refusal.message));
    let batch = side
        .platform
        .receiver()
        .unwrap()
        .poll(&world.network, &side.account, cursor.as_deref(), Duration::ZERO)
        .await
        .unwrap();
    let callback = batch.events.iter().find_map(|event| match &event.event {
        Event::Callback(callback) => Some(callback),
        _ => None,
    });
    let callback = callback.unwrap_or_else(|| panic!("{name:?}: {batch:?}"));
    assert_eq!((callback.payload.as_str(), callback.from.as_str()), ("seen:1", "5"), "{name:?}");
    let answered = side
        .platform
        .receiver()
        .unwrap()
        .answer_callback(&world.network, &side.account, callback, Some("спасибо"))
        .await;
    assert!(matches!(answered, Outcome::Sent(_)), "{name:?}: {answered:?}");
}

#[tokio::test]
async fn walls_are_read_with_their_flags_and_whole_addresses() {
    let world = World::start().await;
    let side = world.side(Name::Vk);
    let posts = json!([
        {"id": 1, "date": 1_700_000_000, "text": "Пропала собака", "attachments": [{"type": "photo", "photo":
            {"id": 3, "owner_id": -77, "sizes": [{"type": "x", "width": 604, "height": 400,
                "url": "https://sun9.userapi.com/x.jpg?size=604x400&sign=ab"}]}}]},
        {"id": 2, "date": 1_700_000_100, "text": "Реклама", "marked_as_ads": 1},
        {"id": 3, "date": 1_700_000_200, "text": "", "copy_history": [{"id": 9, "owner_id": -78, "date": 1, "text": "чужое"}]},
    ]);
    world.sandbox.put_on_wall(-77, posts).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    let deadline = Duration::from_secs(5);
    let page = wall_page(&world.network, &side.account, &Wall::Owner(-77), 0, 10, deadline).await.unwrap();
    let seen: Vec<(i64, bool)> = page.posts.iter().map(|post| (post.post_id, post.is_ad)).collect();
    assert_eq!((page.total, seen), (3, vec![(3, false), (2, true), (1, false)]));
    assert_eq!(page.posts[0].copy_history[0].text, "чужое");
    assert_eq!(page.posts[2].photos[0].url, "https://sun9.userapi.com/x.jpg?size=604x400&sign=ab");
    let nobody =
        resolve_screen_name(&world.network, &side.account, "no_such_name_here", deadline).await.unwrap();
    assert_eq!(nobody, Named::Nobody);
}
