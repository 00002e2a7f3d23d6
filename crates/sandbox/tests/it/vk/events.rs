//! Events: the Bots Long Poll, the Callback API, and what is injected.

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{GROUP, USER, WALL, World};
use crate::wire::hook_call_with_body;

struct Poller {
    path: String,
    key: String,
    ts: String,
}

async fn poller(world: &World) -> Poller {
    let server = world.ok("community", "groups.getLongPollServer", json!({"group_id": GROUP})).await;
    let text = |name: &str| server[name].as_str().expect("a text").to_owned();
    Poller { path: text("server").replace(world.sandbox.origin(), ""), key: text("key"), ts: text("ts") }
}

async fn check(world: &World, poller: &Poller, ts: &str, wait: u8) -> Value {
    let path = format!("{}?act=a_check&key={}&ts={ts}&wait={wait}", poller.path, poller.key);
    world.get(&path).await.json()
}

fn kinds(answer: &Value) -> Vec<&str> {
    answer["updates"].as_array().expect("updates").iter().filter_map(|event| event["type"].as_str()).collect()
}

#[tokio::test]
async fn a_poll_gets_what_is_new_and_the_number_to_go_on_from() {
    let world = World::new().await;
    let poller = poller(&world).await;
    assert_eq!(poller.ts, "0");
    world.inject(&json!({"chat": USER, "from": USER, "text": "Привет"}));
    let answer = check(&world, &poller, "0", 25).await;
    assert_eq!((answer["ts"].clone(), kinds(&answer)), (json!("1"), vec!["message_new"]));
    let event = &answer["updates"][0];
    let message = &event["object"]["message"];
    assert_eq!((event["group_id"].clone(), event["v"].clone()), (json!(GROUP), json!("5.199")));
    assert_eq!((message["text"].clone(), message["peer_id"].clone()), (json!("Привет"), json!(USER)));
    assert!(event["object"]["client_info"]["keyboard"].as_bool().expect("a flag"));
    assert_eq!(
        check(&world, &poller, "0", 25).await["updates"][0]["event_id"],
        event["event_id"],
        "read again"
    );
    assert_eq!(check(&world, &poller, "1", 0).await, json!({"ts": "1", "updates": []}));
}

#[tokio::test]
async fn a_waiting_poll_is_woken_by_an_event() {
    let world = World::new().await;
    let poller = poller(&world).await;
    let wait = check(&world, &poller, "0", 90);
    let speak = async {
        // The poll is in the ledger as soon as it waits.
        while world.rows().iter().all(|row| row.method != "a_check") {
            tokio::task::yield_now().await;
        }
        world.inject(&json!({"chat": USER, "from": USER, "text": "Проснись"}));
    };
    let (answer, ()) = tokio::join!(wait, speak);
    assert_eq!(answer["updates"][0]["object"]["message"]["text"], "Проснись");
}

#[tokio::test]
async fn polls_with_wrong_keys_and_numbers_are_told_what_to_do() {
    let world = World::new().await;
    let poller = poller(&world).await;
    world.inject(&json!({"chat": USER, "from": USER, "text": "раз"}));
    assert_eq!(check(&world, &poller, "99", 0).await, json!({"failed": 1, "ts": 1}));
    assert_eq!(check(&world, &poller, "x", 0).await, json!({"failed": 1, "ts": 1}));
    let wrong = Poller { key: "x".into(), path: poller.path.clone(), ts: String::new() };
    assert_eq!(check(&world, &wrong, "0", 0).await, json!({"failed": 2}));
    let nowhere = Poller { path: "/vk/lp/wh4".into(), key: poller.key.clone(), ts: String::new() };
    assert_eq!(check(&world, &nowhere, "0", 0).await, json!({"failed": 2}));
    world.sandbox.reset();
    assert_eq!(
        check(&world, &poller, "1", 0).await,
        json!({"failed": 3}),
        "after a reset nothing old is left"
    );
}

#[tokio::test]
async fn settings_choose_events_and_their_version() {
    let world = World::new().await;
    let poller = poller(&world).await;
    let set = json!({"group_id": GROUP, "wall_post_new": 0, "api_version": "5.92"});
    assert_eq!(world.ok("community", "groups.setLongPollSettings", set).await, 1);
    let settings = world.ok("community", "groups.getLongPollSettings", json!({"group_id": GROUP})).await;
    assert_eq!(
        (settings["is_enabled"].clone(), settings["events"]["wall_post_new"].clone()),
        (json!(true), json!(0))
    );
    world.post("не слышно").await;
    world.inject(&json!({"chat": USER, "from": USER, "text": "слышно"}));
    let answer = check(&world, &poller, "0", 0).await;
    assert_eq!(kinds(&answer), ["message_new"]);
    assert_eq!(answer["updates"][0]["object"]["text"], "слышно", "old versions give the message itself");
    world.ok("community", "groups.setLongPollSettings", json!({"group_id": GROUP, "enabled": 0})).await;
    assert_eq!(world.code("community", "groups.getLongPollServer", json!({"group_id": GROUP})).await, 100);
}

#[tokio::test]
async fn what_happens_in_a_community_is_an_event() {
    let world = World::new().await;
    let poller = poller(&world).await;
    world.post("пост").await;
    world.ok("user", "wall.createComment", json!({"owner_id": WALL, "post_id": 1, "message": "ура"})).await;
    world.ok("user", "messages.send", json!({"peer_id": -GROUP, "random_id": 0, "message": "вопрос"})).await;
    let send = json!({"peer_id": USER, "random_id": 0, "message": "ответ"});
    let id = world.ok("community", "messages.send", send).await;
    world
        .ok("community", "messages.edit", json!({"peer_id": USER, "message_id": id, "message": "ответ!"}))
        .await;
    world.sandbox.put_on_wall(WALL, json!([{"text": "извне"}])).expect("a good post");
    let answer = check(&world, &poller, "0", 0).await;
    let expected =
        ["wall_post_new", "wall_reply_new", "message_new", "message_reply", "message_edit", "wall_post_new"];
    assert_eq!(kinds(&answer), expected);
    assert_eq!(answer["updates"][0]["object"]["text"], "пост");
}

#[tokio::test]
async fn a_press_is_answered_once() {
    let world = World::new().await;
    let poller = poller(&world).await;
    let keyboard = json!({"inline": true, "buttons": [[{"action": {"type": "callback", "label": "Да",
        "payload": {"answer": "yes"}}, "color": "positive"}]]});
    world.inject(&json!({"chat": USER, "from": USER, "text": "Привет"}));
    let send =
        json!({"peer_id": USER, "random_id": 0, "message": "Ваш кот?", "keyboard": keyboard.to_string()});
    world.ok("community", "messages.send", send).await;
    let shown = world.sandbox.core().chats.messages(sandbox::Name::Vk, "5");
    let press = shown[1].buttons[0][0].press.clone().expect("a button that can be pressed");
    world.inject(&press);
    let answer = check(&world, &poller, "2", 0).await;
    let object = &answer["updates"][0]["object"];
    assert_eq!(
        (answer["updates"][0]["type"].clone(), object["payload"].clone()),
        (json!("message_event"), json!({"answer": "yes"}))
    );
    assert_eq!(
        (object["user_id"].clone(), object["conversation_message_id"].clone()),
        (json!(USER), json!(2))
    );
    let data = json!({"type": "show_snackbar", "text": "Принято"}).to_string();
    let reply = json!({"event_id": object["event_id"], "user_id": USER, "peer_id": USER, "event_data": data});
    let mut foreign = reply.clone();
    foreign["user_id"] = 6.into();
    assert_eq!(world.code("community", "messages.sendMessageEventAnswer", foreign).await, 100);
    assert_eq!(world.ok("community", "messages.sendMessageEventAnswer", reply.clone()).await, 1);
    assert_eq!(world.code("community", "messages.sendMessageEventAnswer", reply).await, 100);
}

#[tokio::test]
async fn a_duplicate_update_has_the_same_id() {
    let world = World::new().await;
    let poller = poller(&world).await;
    world
        .sandbox
        .arm(&json!({"platform": "vk", "kind": "duplicate_update", "times": 1}))
        .expect("a known fault");
    world.inject(&json!({"chat": USER, "from": USER, "text": "раз"}));
    world.inject(&json!({"chat": USER, "from": USER, "text": "два"}));
    let answer = check(&world, &poller, "0", 0).await;
    let ids: Vec<&Value> =
        answer["updates"].as_array().expect("updates").iter().map(|event| &event["event_id"]).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids[0] == ids[1] && ids[1] != ids[2]);
}

#[tokio::test]
async fn injected_events_are_understood_or_refused() {
    let world = World::new().await;
    let poller = poller(&world).await;
    let event = json!({"type": "message_new", "group_id": GROUP, "event_id": "e1", "object": {"message":
        {"from_id": 9, "peer_id": 9, "text": "целиком", "id": 700, "date": 1_700_000_000}}});
    let told = world.inject(&event);
    assert_eq!(told["events"][0]["event_id"], "e1");
    world.inject(&json!({"type": "group_join", "object": {"user_id": 9, "join_type": "join"}}));
    world.inject(&json!({"type": "wall_post_new", "object": {"text": "новость", "from_id": 9}}));
    world.inject(&json!({"chat": WALL, "from": "Мария", "text": "комментарий"}));
    world.inject(&json!({"chat": 9, "from": "Мария", "text": "со страницы"}));
    let answer = check(&world, &poller, "0", 0).await;
    assert_eq!(
        kinds(&answer),
        ["message_new", "group_join", "wall_post_new", "wall_reply_new", "message_new"]
    );
    assert_eq!(answer["updates"][4]["object"]["message"]["from_id"], 9, "a dialog has one writer");
    let message = &answer["updates"][0]["object"]["message"];
    assert_eq!((message["id"].clone(), message["date"].clone()), (json!(700), json!(1_700_000_000)));
    assert_eq!(world.seen("-77"), ["новость", "комментарий"]);
    for (bad, word) in [
        (json!({"text": "кому?"}), "must say who writes where"),
        (json!({"chat": USER, "from": USER, "text": "x", "smell": 1}), "unknown field"),
        (json!({"type": "earthquake", "object": {}}), "unknown event type"),
        (json!({"type": "message_new", "object": 5}), "must be a JSON object"),
        (json!({"type": "message_new", "object": {"message": {"text": "x"}}}), "needs \"from_id\""),
        (json!({"chat": "nobody", "text": "x"}), "no VK chat"),
        (
            json!({"chat": USER, "from": USER, "text": "x", "account": "service"}),
            "speaks for no VK community",
        ),
    ] {
        let refusal = world.sandbox.inject(sandbox::Name::Vk, &bad).expect_err("refused");
        assert!(refusal.message.contains(word), "{}", refusal.message);
    }
}

// -- the Callback API

async fn bot() -> (TcpListener, String) {
    let bot = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/vk", bot.local_addr().expect("an address"));
    (bot, url)
}

async fn status(world: &World) -> Value {
    world.ok("community", "groups.getCallbackServers", json!({"group_id": GROUP})).await["items"][0]["status"]
        .clone()
}

#[tokio::test]
async fn a_server_is_confirmed_and_then_gets_events_with_its_secret() {
    let world = World::new().await;
    let (bot, url) = bot().await;
    let code = world.ok("community", "groups.getCallbackConfirmationCode", json!({"group_id": GROUP})).await;
    let code = code["code"].as_str().expect("a code").to_owned();
    let add = json!({"group_id": GROUP, "url": url, "title": "Rupor", "secret_key": "s3cret"});
    assert_eq!(world.ok("community", "groups.addCallbackServer", add).await, json!({"server_id": 1}));
    let confirmation = hook_call_with_body(&bot, "200 OK", &code).await.json();
    assert_eq!(confirmation, json!({"type": "confirmation", "group_id": GROUP, "secret": "s3cret"}));
    world.inject(&json!({"chat": USER, "from": USER, "text": "Привет"}));
    let call = hook_call_with_body(&bot, "200 OK", "ok").await;
    let event = call.json();
    assert_eq!((event["type"].clone(), event["secret"].clone()), (json!("message_new"), json!("s3cret")));
    assert_eq!(event["object"]["message"]["text"], "Привет");
    assert!(!call.head.contains("x-retry-counter"));
    assert_eq!(status(&world).await, "ok");
    world.sandbox.arm(&json!({"platform": "vk", "kind": "wrong_secret", "times": 1})).expect("a known fault");
    world.inject(&json!({"chat": USER, "from": USER, "text": "подделка"}));
    assert_ne!(hook_call_with_body(&bot, "200 OK", "ok").await.json()["secret"], "s3cret");
    world.inject(&json!({"chat": USER, "from": USER, "text": "последнее"}));
    hook_call_with_body(&bot, "200 OK", "remove").await;
    while status(&world).await != Value::Null {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_event_that_is_not_answered_with_ok_comes_again() {
    let world = World::new().await;
    let (bot, url) = bot().await;
    let account = json!({"platform": "vk", "token": "bot", "kind": "community", "id": 88, "callback_url": url,
        "callback_code": "c0de"});
    let account = world.sandbox.add_account(&account).expect("a good account");
    assert_eq!(account.fields["callback_code"], "c0de");
    hook_call_with_body(&bot, "200 OK", "c0de").await;
    world.inject(&json!({"chat": USER, "from": USER, "text": "раз", "account": "bot"}));
    let first = hook_call_with_body(&bot, "500 Internal Server Error", "").await.json();
    let again = hook_call_with_body(&bot, "200 OK", "okay").await;
    assert!(again.head.contains("x-retry-counter: 1"), "{}", again.head);
    assert_eq!(again.json()["event_id"], first["event_id"]);
    let third = hook_call_with_body(&bot, "200 OK", "ok").await;
    assert!(third.head.contains("x-retry-counter: 2"), "{}", third.head);
}

#[tokio::test]
async fn a_server_with_the_wrong_code_is_asked_again_and_hears_nothing() {
    let world = World::new().await;
    let (bot, url) = bot().await;
    let add = json!({"group_id": GROUP, "url": url, "title": "Rupor"});
    world.ok("community", "groups.addCallbackServer", add).await;
    hook_call_with_body(&bot, "200 OK", "wrong").await;
    world.inject(&json!({"chat": USER, "from": USER, "text": "x"}));
    let second = hook_call_with_body(&bot, "200 OK", "wrong").await.json();
    assert_eq!(second["type"], "confirmation");
}

#[tokio::test]
async fn callback_servers_are_listed_changed_and_limited() {
    let world = World::new().await;
    let add = json!({"group_id": GROUP, "url": "http://127.0.0.1:9/", "title": "t"});
    for _ in 0..10 {
        world.ok("community", "groups.addCallbackServer", add.clone()).await;
    }
    assert_eq!(world.code("community", "groups.addCallbackServer", add.clone()).await, 2000);
    let set = json!({"group_id": GROUP, "server_id": 3, "wall_post_new": 0});
    world.ok("community", "groups.setCallbackSettings", set).await;
    let settings =
        world.ok("community", "groups.getCallbackSettings", json!({"group_id": GROUP, "server_id": 3})).await;
    assert_eq!(
        (settings["events"]["wall_post_new"].clone(), settings["events"]["message_new"].clone()),
        (json!(0), json!(1))
    );
    assert_eq!(
        world
            .ok("community", "groups.deleteCallbackServer", json!({"group_id": GROUP, "server_id": 3}))
            .await,
        1
    );
    assert_eq!(
        world
            .code("community", "groups.deleteCallbackServer", json!({"group_id": GROUP, "server_id": 3}))
            .await,
        100
    );
    for (field, value) in [("url", "ftp://x"), ("title", "слишком длинное имя"), ("title", "")]
    {
        let mut bad = add.clone();
        bad[field] = value.into();
        assert_eq!(world.code("community", "groups.addCallbackServer", bad).await, 100);
    }
    assert_eq!(world.code("community", "groups.getCallbackServers", json!({"group_id": 500})).await, 15);
}
