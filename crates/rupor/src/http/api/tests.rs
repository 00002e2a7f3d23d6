//! `POST /v1/ingest` over real sockets: asserted on what is stored and on what the caller hears.

use std::time::{Duration, Instant};

use domain::ids::EndpointId;
use serde_json::{Value, json};
use store::DeliveryFilter;

use axum::response::IntoResponse as _;

use super::pace::{Pace, Who};
use super::*;
use crate::http::tests::{SECRET, Server};

const LOST: &str = "Пропала собака, такса Буся, рыжая, Тюмень, улица Ямская. Телефон 8 901 000-00-11";

#[tokio::test]
async fn a_post_is_stored_queued_and_answered_with_its_id() {
    let server = Server::start(None).await;
    let answer =
        server.post(&[], &json!({"text": LOST, "url": "https://site.example/42", "origin_id": "42"})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let message = server.store.message_by_origin(server.ws, "push:сайт", "42").await.unwrap().unwrap();
    assert_eq!(answer.json(), json!({"accepted": [{"message_id": message.message_id, "origin_id": "42"}]}));
    assert_eq!((message.kind.as_str(), &message.origin["url"]), ("lost", &json!("https://site.example/42")));
    let deliveries = server.store.deliveries(server.ws, DeliveryFilter::default(), 10).await.unwrap();
    assert_eq!(deliveries.len(), 1);
    let batch =
        json!({"posts": [{"text": "раз", "channels": ["канал"]}, {"title": "два", "text": "и текст"}]});
    let answer = server.post(&[], &batch).await;
    assert_eq!(answer.json()["accepted"].as_array().unwrap().len(), 2, "{answer:?}");
    assert_eq!(server.messages().await, 3);
}

#[tokio::test]
async fn the_same_call_again_gets_the_same_answer_and_another_body_is_refused() {
    let server = Server::start(None).await;
    let key = [("Idempotency-Key", "key-1")];
    let first = server.post(&key, &json!({"text": LOST})).await;
    let again = server.post(&key, &json!({"text": LOST})).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.body, again.body);
    assert_eq!(server.messages().await, 1);
    let other = server.post(&key, &json!({"text": "другое"})).await;
    assert_eq!((other.status, other.code().as_str()), (422, "idempotency_conflict"));
    assert_eq!(server.messages().await, 1);
    let events = server.store.recent_events(server.ws, 1).await.unwrap();
    assert_eq!(events[0].name, "ingress_rejected");
    assert_eq!(events[0].detail["why"], "the idempotency key was used for another body");
}

/// The node died after the key was written down and before the post was.
#[tokio::test]
async fn a_call_that_was_cut_short_is_finished_when_it_is_made_again() {
    let server = Server::start(None).await;
    let body = json!({"text": LOST});
    let hash = blake3::hash(body.to_string().as_bytes()).to_hex().to_string();
    let endpoint = server.store.endpoints(server.ws).await.unwrap().remove(0).endpoint_id;
    server.store.keep_receipt(server.ws, endpoint, "key-2", &hash, json!({})).await.unwrap();
    let answer = server.post(&[("Idempotency-Key", "key-2")], &body).await;
    assert_eq!((answer.status, server.messages().await), (202, 1));
    let again = server.post(&[("Idempotency-Key", "key-2")], &body).await;
    assert_eq!((again.body, server.messages().await), (answer.body, 1));
}

#[tokio::test]
async fn bad_calls_hear_what_is_wrong_and_change_nothing() {
    let server = Server::start(None).await;
    let post = |body: Value| body.to_string();
    let deep = format!("{{\"text\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let digits = format!("{{\"text\": \"a\", \"date\": {}}}", "9".repeat(500_000));
    let now_ms = server.store.now().await.unwrap().0 / 1_000;
    for (body, status, code, said) in [
        (post(json!({"text": "a", "workspace_id": 7})), 400, "malformed", "expected one of `text`, `title`"),
        (post(json!({"posts": [{"text": "a"}], "text": "b"})), 400, "malformed", "unknown field `text`"),
        (post(json!({"text": 5})), 400, "malformed", "expected a string"),
        (post(json!([1])), 400, "malformed", "one post"),
        ("{\"text\": \"a\"".to_owned(), 400, "malformed", "not JSON"),
        (r#"{"text": "a", "text": "b"}"#.to_owned(), 400, "malformed", "\"text\" stands twice"),
        (r#"{"posts": [{"text": "a", "t\u0065xt": "b"}]}"#.to_owned(), 400, "malformed", "stands twice"),
        (deep, 400, "malformed", "recursion limit"),
        (digits, 400, "malformed", ""),
        (post(json!({})), 422, "bad_post", "nothing to say"),
        (post(json!({"posts": []})), 422, "bad_batch", "1 to 100"),
        (post(json!({"text": "a", "url": "javascript:alert(1)"})), 422, "bad_post", "http or https"),
        (post(json!({"text": "a", "photos": ["file:///etc/passwd"]})), 422, "bad_post", "http or https"),
        (post(json!({"text": "a", "date": now_ms})), 422, "bad_post", "not milliseconds"),
        (post(json!({"text": "a", "origin_id": " "})), 422, "bad_post", "origin_id"),
        (post(json!({"text": "a", "channels": []})), 422, "bad_post", "channels is empty"),
        (post(json!({"text": "a", "channels": ["нет"]})), 422, "unknown_channel", "known are канал"),
        (
            post(json!({"posts": [{"text": "a", "origin_id": "1"}, {"text": "b", "origin_id": "1"}]})),
            422,
            "bad_post",
            "twice",
        ),
        (post(json!({"text": "я".repeat(50_001)})), 422, "bad_post", "at most 50000"),
    ] {
        let bearer = format!("Bearer {SECRET}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let answer = server.ask("POST", "/v1/ingest", &headers, &body).await;
        let start: String = body.chars().take(80).collect();
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{start}: {answer:?}");
        assert!(answer.message().contains(said), "{start}: {}", answer.message());
        assert!(answer.body.len() < 1_000, "{start}");
    }
    assert_eq!(server.messages().await, 0);
}

#[tokio::test]
async fn sizes_encodings_and_methods_are_bounded() {
    let server = Server::start(None).await;
    let small = "secret-of-the-small-door-0123456789";
    server.endpoint(server.ws, "малая", "push", small, json!({"body_max": 50, "rate": 1000})).await;
    let bearer = format!("Bearer {small}");
    let own = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let body = json!({"text": "я".repeat(40)}).to_string();
    let large = server.ask("POST", "/v1/ingest", &own, &body).await;
    assert_eq!((large.status, large.code().as_str()), (413, "too_large"));
    // Without a length it is counted while it arrives.
    let chunked = format!(
        "POST /v1/ingest HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {bearer}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{}\r\n",
        "x".repeat(64)
    );
    assert_eq!(server.send(chunked.as_bytes()).await.status, 413);
    let packed = server.post(&[("Content-Encoding", "gzip")], &json!({"text": "a"})).await;
    assert_eq!((packed.status, packed.code().as_str()), (415, "unsupported_media_type"));
    let form = server.ask("POST", "/v1/ingest", &[own[0], ("Content-Type", "text/plain")], "{}").await;
    assert_eq!(form.status, 415);
    for method in ["GET", "PUT", "DELETE", "TRACE", "OPTIONS"] {
        let answer = server.ask(method, "/v1/ingest", &own, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"), "{method}");
        assert!(answer.head.contains("allow: post"), "{}", answer.head);
    }
    assert_eq!(server.messages().await, 0);
}

#[tokio::test]
async fn only_the_secret_of_a_push_endpoint_opens_the_door() {
    let server = Server::start(None).await;
    let hook = "secret-of-the-webhook-0123456789";
    server.endpoint(server.ws, "хук", "telegram", hook, json!({})).await;
    let shut = "secret-of-the-shut-door-0123456789";
    server.endpoint(server.ws, "закрыта", "push", shut, json!({})).await;
    let rows = server.store.endpoints(server.ws).await.unwrap();
    let id = rows.iter().find(|row| row.name == "закрыта").unwrap().endpoint_id;
    server.store.enable_endpoint(server.ws, id, false).await.unwrap();
    let refusal = server.ask("POST", "/v1/ingest", &[], "").await;
    for given in [hook, shut, "", "сайт", &SECRET[1..]] {
        let answer =
            server.ask("POST", "/v1/ingest", &[("Authorization", &format!("Bearer {given}"))], "{}").await;
        assert_eq!((answer.status, &answer.body), (401, &refusal.body), "{given}: all sound alike");
    }
}

#[tokio::test]
async fn an_endpoint_reaches_only_its_own_workspace() {
    let server = Server::start(None).await;
    let other = server.store.create_workspace("Чужой").await.unwrap();
    server.channel(other, "чужой канал", "-1009999999999").await;
    let answer = server.post(&[], &json!({"text": LOST, "channels": ["чужой канал"]})).await;
    assert_eq!(answer.code(), "unknown_channel");
    assert!(answer.message().ends_with("known are канал"), "{}", answer.message());
    server.post(&[], &json!({"text": LOST})).await;
    assert!(server.store.recent_messages(other, 10).await.unwrap().is_empty());
    assert_eq!(server.messages().await, 1);
}

#[tokio::test]
async fn too_many_calls_are_told_when_to_come_back() {
    let server = Server::start(None).await;
    let slow = "secret-of-the-slow-door-0123456789";
    server.endpoint(server.ws, "медленная", "push", slow, json!({"rate": 0.001})).await;
    let bearer = format!("Bearer {slow}");
    let own = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let body = json!({"text": "раз"}).to_string();
    assert_eq!(server.ask("POST", "/v1/ingest", &own, &body).await.status, 202);
    let answer = server.ask("POST", "/v1/ingest", &own, &body).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limited"));
    assert!(answer.head.contains("retry-after: "), "{}", answer.head);
    assert_eq!(server.post(&[], &json!({"text": "два"})).await.status, 202, "another door has its own pace");
}

#[test]
fn a_seconds_worth_may_come_at_once_and_then_evenly() {
    let (pace, door, start) = (Pace::default(), Who::Endpoint(EndpointId(1)), Instant::now());
    let at = |ms: u64| start + Duration::from_millis(ms);
    for _ in 0..5 {
        assert_eq!(pace.take(door, 5.0, at(0)), Ok(()));
    }
    assert_eq!(pace.take(door, 5.0, at(0)), Err(Duration::from_millis(200)));
    assert_eq!(pace.take(door, 5.0, at(200)), Ok(()));
    assert!(pace.take(door, 5.0, at(200)).is_err());
    assert_eq!(pace.take(Who::Endpoint(EndpointId(2)), 5.0, at(200)), Ok(()));
    assert_eq!(pace.take(Who::Token(1), 5.0, at(200)), Ok(()));
}

#[tokio::test]
async fn what_goes_wrong_inside_stays_inside() {
    let error = anyhow::anyhow!("SELECT * FROM secrets: /var/lib/rupor/rupor.db is locked");
    let answer = ApiError::inside(&error).into_response();
    assert_eq!(answer.status(), 503);
    let bytes = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
    let said = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(!said.contains("SELECT") && !said.contains("/var") && said.contains("request "), "{said}");
}

#[tokio::test]
async fn a_photo_on_the_inner_network_is_left_out_and_the_post_goes_on() {
    let server = Server::start(None).await;
    let own = format!("http://{}/board/state", server.at);
    let photos = [own.as_str(), "http://169.254.169.254/latest/meta-data", "http://[::1]/a.jpg"];
    let answer = server.post(&[], &json!({"text": LOST, "origin_id": "42", "photos": photos})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let message = server.store.message_by_origin(server.ws, "push:сайт", "42").await.unwrap().unwrap();
    assert_eq!(message.payload["media"].as_array().map_or(0, Vec::len), 0, "{}", message.payload);
    let notes = message.facts["notes"].as_array().unwrap();
    assert!(notes.len() == 3 && notes.iter().all(|note| note.to_string().contains("left out")), "{notes:?}");
}

#[tokio::test]
async fn the_same_call_from_many_sides_at_once_is_one_post() {
    let server = Server::start(None).await;
    let (body, key) = (json!({"text": LOST}), [("Idempotency-Key", "key-3")]);
    let calls = (0..8).map(|_| server.post(&key, &body));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.body == answers[0].body), "{answers:?}");
    assert_eq!(server.messages().await, 1);
    let deliveries = server.store.deliveries(server.ws, DeliveryFilter::default(), 10).await.unwrap();
    assert_eq!(deliveries.len(), 1);
}
