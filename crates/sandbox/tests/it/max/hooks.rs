//! Webhooks: who gets what, with which secret, and what happens when the bot's server does not want it.

use sandbox::{Clock, Options};
use tokio::net::TcpListener;

use super::*;
use crate::wire::hook_call;

/// A bot's server.
async fn server() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    (listener, url)
}

async fn subscribed(world: &World, mut body: Value) -> TcpListener {
    let (listener, url) = server().await;
    body["url"] = url.into();
    assert_eq!(world.ok("POST", "/subscriptions", body).await, json!({ "success": true }));
    listener
}

fn say(world: &World, text: &str) {
    world.inject(json!({ "chat": GROUP, "from": 500, "text": text }));
}

/// Waits until a counter of `GET /_/stats` shows a number.
async fn counted(world: &World, name: &str, n: u64) {
    loop {
        let stats = crate::wire::call(&world.sandbox, "GET", "/_/stats", &Value::Null).await.json();
        if stats["max"][name] == n {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_webhook_gets_one_update_with_the_secret() {
    let world = World::registered(json!({})).await;
    let bot = subscribed(&world, json!({ "secret": "very_secret-1" })).await;
    say(&world, "привет");
    let call = hook_call(&bot, "200 OK").await;
    assert!(call.head.contains("x-max-bot-api-secret: very_secret-1\r\n"), "{}", call.head);
    assert_eq!(call.json()["update_type"], "message_created");
    assert_eq!(call.json()["message"]["body"]["text"], "привет");
    let list = world.ok("GET", "/subscriptions", Value::Null).await;
    assert_eq!(list["subscriptions"][0]["update_types"], Value::Null);
    assert!(list["subscriptions"][0].get("secret").is_none());
    // With a subscription nothing comes by polling.
    assert_eq!(world.updates("timeout=0").await["updates"], json!([]));
}

#[tokio::test]
async fn only_status_200_counts_and_the_rest_is_tried_again() {
    let world = World::registered(json!({ "webhook_retry_ms": 1 })).await;
    let bot = subscribed(&world, json!({})).await;
    say(&world, "a");
    let mut bodies = Vec::new();
    for answer in ["500 Oops", "201 Created", "302 Found", "200 OK"] {
        bodies.push(hook_call(&bot, answer).await.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    counted(&world, "webhook_calls_taken", 1).await;
    counted(&world, "webhook_calls_refused", 3).await;
}

#[tokio::test]
async fn after_ten_attempts_an_update_is_given_up() {
    let world = World::registered(json!({ "webhook_retry_ms": 0 })).await;
    let bot = subscribed(&world, json!({})).await;
    say(&world, "a");
    for _ in 0..10 {
        hook_call(&bot, "503 No").await;
    }
    counted(&world, "webhook_updates_given_up", 1).await;
    say(&world, "b");
    assert_eq!(hook_call(&bot, "200 OK").await.json()["message"]["body"]["text"], "b");
}

#[tokio::test]
async fn eight_hours_without_a_success_end_the_subscription() {
    let clock = Clock::hand(1_800_000_000_000);
    let options = Options { clock: clock.clone(), ..Options::default() };
    let world = World::with(options, json!({ "webhook_retry_ms": 100_000_000 })).await;
    let bot = subscribed(&world, json!({})).await;
    say(&world, "a");
    hook_call(&bot, "500 No").await;
    counted(&world, "webhook_calls_refused", 1).await;
    assert_eq!(
        world.ok("GET", "/subscriptions", Value::Null).await["subscriptions"].as_array().map(Vec::len),
        Some(1)
    );
    clock.advance(8 * 3600 * 1000);
    say(&world, "b");
    hook_call(&bot, "500 No").await;
    counted(&world, "subscriptions", 0).await;
    say(&world, "c");
    assert_eq!(world.updates("timeout=0").await["updates"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn types_choose_and_two_addresses_both_get_it() {
    let world = World::registered(json!({})).await;
    let first = subscribed(&world, json!({ "update_types": ["bot_added"] })).await;
    let second = subscribed(&world, json!({ "update_types": [] })).await;
    say(&world, "a");
    world.inject(json!({ "update_type": "bot_added", "chat_id": GROUP, "user": 500 }));
    assert_eq!(hook_call(&first, "200 OK").await.json()["update_type"], "bot_added");
    assert_eq!(hook_call(&second, "200 OK").await.json()["update_type"], "message_created");
    assert_eq!(hook_call(&second, "200 OK").await.json()["update_type"], "bot_added");
}

#[tokio::test]
async fn duplicates_and_wrong_secrets_can_be_ordered() {
    let world = World::registered(json!({})).await;
    let bot = subscribed(&world, json!({ "secret": "secret" })).await;
    world.sandbox.arm(&json!({ "platform": "max", "kind": "duplicate_update", "times": 1 })).expect("arms");
    world.sandbox.arm(&json!({ "platform": "max", "kind": "wrong_secret", "times": 1 })).expect("arms");
    say(&world, "a");
    let (first, second) = (hook_call(&bot, "200 OK").await, hook_call(&bot, "200 OK").await);
    assert_eq!(first.body, second.body);
    assert!(!first.head.contains("secret: secret\r\n"), "{}", first.head);
    assert!(second.head.contains("x-max-bot-api-secret: secret\r\n"), "{}", second.head);
}

#[tokio::test]
async fn an_address_belongs_to_the_bot_that_named_it_last() {
    let world = World::registered(json!({})).await;
    let (_listener, url) = server().await;
    world.ok("POST", "/subscriptions", json!({ "url": url })).await;
    world
        .sandbox
        .add_account(&json!({ "platform": "max", "token": "second", "id": 78 }))
        .expect("an account");
    let body = json!({ "url": url }).to_string();
    let taken =
        world.raw("POST", "/max/subscriptions", &[("authorization", "second")], body.as_bytes()).await;
    assert_eq!(taken.json(), json!({ "success": true }));
    assert_eq!(world.ok("GET", "/subscriptions", Value::Null).await, json!({ "subscriptions": [] }));
    let delete = format!("/subscriptions?url={url}");
    world.unsuccessful("DELETE", &delete, Value::Null, "There is no subscription with this url").await;
}

#[tokio::test]
async fn the_same_address_again_changes_its_settings() {
    let world = World::registered(json!({})).await;
    let (_listener, url) = server().await;
    world.ok("POST", "/subscriptions", json!({ "url": url })).await;
    world.ok("POST", "/subscriptions", json!({ "url": url, "update_types": ["bot_started"] })).await;
    let list = world.ok("GET", "/subscriptions", Value::Null).await;
    assert_eq!(list["subscriptions"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["subscriptions"][0]["update_types"], json!(["bot_started"]));
    world.ok("DELETE", &format!("/subscriptions?url={url}"), Value::Null).await;
    assert_eq!(world.ok("GET", "/subscriptions", Value::Null).await, json!({ "subscriptions": [] }));
}

#[tokio::test]
async fn addresses_secrets_and_types_are_checked() {
    let world = World::registered(json!({})).await;
    let secret = "secret: must match \"^[a-zA-Z0-9_-]{5,256}$\"";
    let table = [
        (json!({}), "Can't deserialize body"),
        (json!({ "url": "nonsense" }), "url: must be a valid URL"),
        (json!({ "url": "http://example.com/hook" }), "url: must start with https://"),
        (json!({ "url": "ftp://127.0.0.1/hook" }), "url: must start with https://"),
        (json!({ "url": "https://example.com", "secret": "abc" }), secret),
        (json!({ "url": "https://example.com", "secret": "with space" }), secret),
        (
            json!({ "url": "https://example.com", "update_types": ["earthquake"] }),
            "update_types: unknown update type",
        ),
    ];
    for (body, message) in table {
        world.refused("POST", "/subscriptions", body, 400, "proto.payload", message).await;
    }
    world.ok("POST", "/subscriptions", json!({ "url": "https://example.com:8443/hook" })).await;
    let strict = World::registered(json!({ "strict_webhooks": true })).await;
    let port = json!({ "url": "https://example.com:8443/hook" });
    strict
        .refused("POST", "/subscriptions", port, 400, "proto.payload", "url: only port 443 is allowed")
        .await;
    let http = json!({ "url": "http://127.0.0.1/hook" });
    strict
        .refused("POST", "/subscriptions", http, 400, "proto.payload", "url: must start with https://")
        .await;
    strict.ok("POST", "/subscriptions", json!({ "url": "https://example.com/hook" })).await;
}
