//! Real limits: calls per second by the kind of token, daily quotas, messages to one person.

use sandbox::LimitsMode;
use serde_json::json;

use super::{USER, WALL, World};

#[tokio::test]
async fn calls_per_second_are_counted_by_token() {
    let world = World::with(LimitsMode::Real).await;
    for (token, most) in [("user", 3), ("service", 3), ("community", 20)] {
        for _ in 0..most {
            world.ok(token, "users.get", json!({"user_ids": 1})).await;
        }
        assert_eq!(
            world.text(token, "users.get", json!({"user_ids": 1})).await,
            "Too many requests per second"
        );
        let row = world.last_row();
        assert_eq!((row.accepted, row.fault), (false, None));
    }
    world.clock.advance(999);
    assert_eq!(world.code("user", "users.get", json!({})).await, 6);
    world.clock.advance(1);
    world.ok("user", "users.get", json!({})).await;
}

#[tokio::test]
async fn a_refused_call_does_not_take_effect() {
    let world = World::with(LimitsMode::Real).await;
    for _ in 0..3 {
        world.post("пост").await;
    }
    let post = json!({"owner_id": WALL, "from_group": 1, "message": "четвёртый"});
    assert_eq!(world.code("user", "wall.post", post).await, 6);
    assert_eq!(world.seen("-77").len(), 3);
}

#[tokio::test]
async fn a_script_counts_as_one_call() {
    let world = World::with(LimitsMode::Real).await;
    let code = format!("return [{}];", ["API.users.get({\"user_ids\":1})"; 25].join(","));
    let answer = world.ok("user", "execute", json!({"code": code})).await;
    assert_eq!(answer.as_array().map(Vec::len), Some(25));
    world.ok("user", "users.get", json!({})).await;
}

#[tokio::test]
async fn walls_have_a_daily_quota() {
    let world = World::with(LimitsMode::Real).await;
    let fast = json!({"platform": "vk", "token": "fast", "kind": "service", "rate": 100_000});
    world.sandbox.add_account(&fast).expect("a good account");
    for _ in 0..1000 {
        world.ok("fast", "wall.search", json!({"owner_id": WALL, "query": "x"})).await;
    }
    assert_eq!(world.code("fast", "wall.search", json!({"owner_id": WALL, "query": "x"})).await, 29);
    world.ok("fast", "wall.get", json!({"owner_id": WALL})).await;
    world.clock.advance(86_400_000);
    world.ok("fast", "wall.search", json!({"owner_id": WALL, "query": "x"})).await;
}

#[tokio::test]
async fn one_person_takes_a_thousand_messages_an_hour() {
    let world = World::with(LimitsMode::Real).await;
    let fast = json!({"platform": "vk", "token": "fast", "kind": "community", "id": 77, "rate": 100_000});
    world.sandbox.add_account(&fast).expect("a good account");
    let send = json!({"peer_id": USER, "random_id": 0, "message": "x"});
    for _ in 0..1000 {
        world.ok("fast", "messages.send", send.clone()).await;
    }
    let text = world.text("fast", "messages.send", send.clone()).await;
    assert_eq!(text, "Flood control: too much messages sent to user");
    world.clock.advance(3_600_000);
    world.ok("fast", "messages.send", send).await;
}

#[tokio::test]
async fn without_limits_nothing_is_counted() {
    let world = World::new().await;
    for _ in 0..30 {
        world.ok("user", "users.get", json!({})).await;
    }
}
