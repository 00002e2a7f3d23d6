//! What the board shows, and what it never shows.

use serde_json::{Value, json};

use super::shape;
use crate::http::tests::Server;

const LOST: &str = "Пропала собака! 12 ноября в Тюмени на улице Ямской убежала такса Буся, рыжая, в красном ошейнике. \
                    Телефон 8 901 000-00-11, Марина.";

async fn state(server: &Server, query: &str) -> Value {
    server.ask("GET", &format!("/board/state{query}"), &[], "").await.json()
}

#[tokio::test]
async fn a_post_shows_what_was_recognised_its_case_and_where_it_goes() {
    let server = Server::start(None).await;
    server.post(&[], &json!({"text": LOST, "origin_id": "1", "url": "https://site.example/1"})).await;
    server.post(&[], &json!({"text": "Доброе утро", "origin_id": "2", "date": 1_000_000})).await;
    let state = state(&server, "").await;
    let (old, lost) = (&state["posts"][0], &state["posts"][1]);
    assert_eq!((&lost["kind"], &lost["source"]), (&json!("lost"), &json!("push:сайт")));
    assert_eq!(
        (&lost["facts"]["animal"], &lost["facts"]["names"], &lost["facts"]["phones"]),
        (&json!("dog"), &json!(["Буся"]), &json!(["…11"]))
    );
    assert_eq!((&lost["case"]["posts"], &lost["case"]["closed"]), (&json!(1), &json!(false)));
    assert_eq!(lost["went"][0]["channel"], "канал");
    assert_eq!(lost["went"][0]["status"], "queued");
    assert!(old["skipped"].as_str().unwrap().starts_with("too old"), "{old}");
    assert_eq!(state["channels"][0]["waiting"], 1);
    let whole = state.to_string();
    assert!(!whole.contains("000-00-11") && !whole.contains("9010000011"), "{whole}");
    assert!(!whole.contains("token-of"), "{whole}");
}

#[tokio::test]
async fn a_channel_in_trouble_is_explained_with_what_helps() {
    let server = Server::start(None).await;
    let channel = server.store.channels(server.ws).await.unwrap().remove(0).channel_id;
    server.store.pause_channel(server.ws, channel, domain::time::Timestamp::NEVER, "ремонт").await.unwrap();
    let state = state(&server, "").await;
    assert_eq!(state["channels"][0]["state"], "paused");
    assert_eq!(state["trouble"][0]["cause"], "an operator paused it: ремонт");
    assert_eq!(state["trouble"][0]["help"], json!(["$ rupor channel resume канал"]));
}

#[tokio::test]
async fn each_workspace_has_its_own_board() {
    let server = Server::start(None).await;
    server.store.create_workspace("shop").await.unwrap();
    server.post(&[], &json!({"text": LOST})).await;
    let shop = state(&server, "?workspace=shop").await;
    assert_eq!((shop["posts"].as_array().unwrap().len(), &shop["workspace"]), (0, &json!("shop")));
    assert_eq!(shop["channels"], json!([]));
}

#[tokio::test]
async fn a_key_inside_the_address_of_a_feed_is_not_shown() {
    let server = Server::start(None).await;
    let address = "https://u:canary@feeds.example/rss?api_key=canary".to_owned();
    let new = store::NewSource {
        kind: "feed".into(),
        name: "лента".into(),
        address,
        account_id: None,
        settings: json!({}),
    };
    server.store.create_source(server.ws, new).await.unwrap();
    let whole = state(&server, "").await.to_string();
    assert!(whole.contains("https://***@feeds.example/rss?api_key=***"), "{whole}");
    assert!(!whole.contains("canary"), "{whole}");
}

#[test]
fn numbers_of_people_are_masked_and_other_numbers_are_not() {
    for (text, expected) in [
        ("тел. 8 901 000-00-11, Марина", "тел. • ••• •••-••-11, Марина"),
        ("+79010000011", "+•••••••••11"),
        ("8(901)0000011 и 89010000012", "•(•••)•••••11 и •••••••••12"),
        ("дом 12, кв. 5, 12.11.2026", "дом 12, кв. 5, 12.11.2026"),
        ("8.901.000.00.11", "•.•••.•••.••.11"),
        ("вознаграждение 50000", "вознаграждение 50000"),
        ("чип 643 и ошейник", "чип 643 и ошейник"),
    ] {
        assert_eq!(shape::masked(text), expected);
    }
}

#[test]
fn a_state_that_differs_in_the_time_alone_is_no_news() {
    let state = |at: i64, n: i64| {
        let trouble = json!({"headline": "channel is paused", "next": format!("in {at} s")});
        json!({"at": at, "posts": [n], "trouble": [trouble], "channels": [{"lag_ms": at}], "sources": []})
            .to_string()
    };
    assert!(shape::is_same(Some(&state(1, 1)), &state(2, 1)));
    assert!(!shape::is_same(Some(&state(1, 1)), &state(2, 2)));
    assert!(!shape::is_same(None, &state(1, 1)));
}
