//! `GET /updates`: markers, filters, waiting.

use sandbox::{Clock, Options};

use super::*;

fn texts(updates: &Value) -> Vec<String> {
    let list = updates["updates"].as_array().expect("a list");
    list.iter().map(|update| update["message"]["body"]["text"].as_str().unwrap_or("-").to_owned()).collect()
}

fn say(world: &World, text: &str) {
    world.inject(json!({ "chat": GROUP, "from": 500, "text": text }));
}

#[tokio::test]
async fn the_marker_confirms_everything_before_it() {
    let world = World::registered(json!({})).await;
    for text in ["a", "b", "c"] {
        say(&world, text);
    }
    let first = world.updates("timeout=0&limit=2").await;
    assert_eq!(texts(&first), ["a", "b"]);
    let marker = first["marker"].as_i64().expect("a number");
    // Nothing is confirmed until the marker comes back.
    assert_eq!(texts(&world.updates("timeout=0").await), ["a", "b", "c"]);
    let second = world.updates(&format!("timeout=0&marker={marker}")).await;
    assert_eq!(texts(&second), ["c"]);
    assert_eq!(texts(&world.updates(&format!("timeout=0&marker={marker}")).await), ["c"]);
    assert_eq!(texts(&world.updates("timeout=0").await), ["c"]);
    let last = second["marker"].as_i64().expect("a number");
    assert!(last > marker);
    let nothing = world.updates(&format!("timeout=0&marker={last}")).await;
    assert_eq!(nothing, json!({ "updates": [], "marker": last }));
}

#[tokio::test]
async fn a_first_poll_may_give_the_latest_update_only() {
    let world = World::registered(json!({ "first_poll": "latest" })).await;
    for text in ["a", "b", "c"] {
        say(&world, text);
    }
    assert_eq!(texts(&world.updates("timeout=0").await), ["c"]);
}

#[tokio::test]
async fn types_filter_and_what_they_pass_over_is_confirmed_too() {
    let world = World::registered(json!({})).await;
    say(&world, "a");
    world.inject(
        json!({ "update_type": "chat_title_changed", "chat_id": GROUP, "user": 500, "title": "Новое" }),
    );
    say(&world, "b");
    let found = world.updates("timeout=0&types=chat_title_changed,bot_added").await;
    assert_eq!(found["updates"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["updates"][0]["title"], "Новое");
    let marker = found["marker"].as_i64().expect("a number");
    assert_eq!(world.updates(&format!("timeout=0&marker={marker}")).await["updates"], json!([]));
}

#[tokio::test]
async fn a_poll_waits_for_the_next_update() {
    let world = World::registered(json!({})).await;
    let (found, ()) = tokio::join!(world.updates("timeout=30"), async {
        // The row is written as soon as the request is there; only then does somebody speak.
        while world.sandbox.core().ledger.received(Name::Max) == 0 {
            tokio::task::yield_now().await;
        }
        say(&world, "слышно?");
    });
    assert_eq!(texts(&found), ["слышно?"]);
}

#[tokio::test]
async fn updates_are_kept_for_a_day() {
    let clock = Clock::hand(1_800_000_000_000);
    let world = World::with(Options { clock: clock.clone(), ..Options::default() }, json!({})).await;
    say(&world, "a");
    clock.advance(23 * 3600 * 1000);
    say(&world, "b");
    clock.advance(2 * 3600 * 1000);
    assert_eq!(texts(&world.updates("timeout=0").await), ["b"]);
}

#[tokio::test]
async fn a_duplicate_comes_twice() {
    let world = World::registered(json!({})).await;
    world.sandbox.arm(&json!({ "platform": "max", "kind": "duplicate_update", "times": 1 })).expect("arms");
    say(&world, "a");
    say(&world, "b");
    assert_eq!(texts(&world.updates("timeout=0").await), ["a", "a", "b"]);
}

#[tokio::test]
async fn bad_parameters_are_refused() {
    let world = World::registered(json!({})).await;
    let table = [
        ("limit=0", "limit: must be between 1 and 1000"),
        ("limit=1001", "limit: must be between 1 and 1000"),
        ("timeout=91", "timeout: must be between 0 and 90"),
        ("timeout=-1", "timeout: must be between 0 and 90"),
        ("marker=x", "marker: must be a number"),
    ];
    for (query, message) in table {
        world.refused("GET", &format!("/updates?{query}"), Value::Null, 400, "proto.payload", message).await;
    }
}

#[tokio::test]
async fn a_bot_does_not_hear_itself_unless_it_is_told_to() {
    let deaf = World::registered(json!({})).await;
    deaf.sent(json!({ "text": "x" })).await;
    assert_eq!(deaf.updates("timeout=0").await["updates"], json!([]));
    let hearing = World::registered(json!({ "own_messages": true })).await;
    hearing.sent(json!({ "text": "x" })).await;
    assert_eq!(texts(&hearing.updates("timeout=0").await), ["x"]);
}
