//! `/v1` by a token, over real sockets: what became of a message, pages, verbs, and what a wrong question hears.

use domain::ids::WorkspaceId;
use domain::outcome::{Outcome, Sent};
use domain::retry::Chance;
use domain::time::Span;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{ApiScope, ClaimRequest, Finish, FinishKind, Whose};

use crate::http::tests::{Answer, Server};

const LOST: &str = "Пропала собака, такса Буся, рыжая, Тюмень, улица Ямская. Телефон 8 901 000-00-11";

pub(super) async fn token(server: &Server, ws: WorkspaceId, name: &str, scopes: &[ApiScope]) -> String {
    let secret = format!("rupor_{}", blake3::hash(name.as_bytes()).to_hex());
    let sealed = SecretString::from(secret.clone());
    server.store.create_api_token(ws, name, &sealed, scopes.to_vec()).await.unwrap();
    secret
}

pub(super) async fn ask(server: &Server, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    server.ask(method, path, &headers, body).await
}

async fn send_all(server: &Server) {
    let request = ClaimRequest {
        whose: Whose::Workspace(server.ws),
        run_id: "проба".into(),
        limit: 10,
        ahead: Span::ZERO,
        lease: Span::from_secs(60),
    };
    for claim in server.store.claim(request).await.unwrap().claims {
        let sent = Sent { provider_message_id: Some("77".into()), raw: Value::Null };
        let ending = FinishKind::Outcome(Outcome::Sent(sent));
        let finish = Finish { claim: claim.reference(), ending, chance: Chance::NONE };
        server.store.commit(vec![finish]).await.unwrap();
    }
}

#[tokio::test]
async fn a_program_follows_a_message_from_post_to_its_readers() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest, ApiScope::Read]).await;
    let body = json!({"text": LOST, "kind": "lost"}).to_string();
    let rehearsed = json!({"text": LOST, "kind": "found", "dry_run": true}).to_string();
    let answer = ask(&server, &key, "POST", "/v1/messages", &rehearsed).await;
    assert_eq!((answer.status, server.messages().await), (200, 0), "{answer:?}");
    assert_eq!((&answer.json()["kind"], &answer.json()["channels"]), (&json!("found"), &json!(["канал"])));

    let made = ask(&server, &key, "POST", "/v1/messages", &body).await;
    assert_eq!(made.status, 202, "{made:?}");
    let id = made.json()["id"].as_i64().unwrap();
    assert_eq!(made.json()["status"], "pending");
    send_all(&server).await;
    let answer = ask(&server, &key, "GET", &format!("/v1/messages/{id}"), "").await;
    let told = answer.json();
    assert_eq!((answer.status, &told["id"], &told["status"]), (200, &json!(id), &json!("sent")), "{told}");
    let delivery = &told["deliveries"][0];
    assert_eq!((&delivery["channel"], &delivery["status"]), (&json!("канал"), &json!("sent")));
    assert_eq!(delivery["provider_message_id"], "77");
    assert_eq!(delivery["url"], "https://t.me/c/1234567890/77");
    let page = ask(&server, &key, "GET", &format!("/v1/messages/{id}/deliveries"), "").await.json();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next_cursor"]), (1, &Value::Null));
    for path in ["/v1/channels", "/v1/runs", "/v1/snapshot", "/v1/alerts", "/v1/events"] {
        assert_eq!(ask(&server, &key, "GET", path, "").await.status, 200, "{path}");
    }
    let case = told["case_id"].as_i64().unwrap();
    assert_eq!(ask(&server, &key, "GET", &format!("/v1/cases/{case}"), "").await.json()["kind"], "lost");
}

#[tokio::test]
async fn a_message_with_photos_inside_is_kept_once_whoever_asks_again() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest]).await;
    let jpeg = platforms::base64::encode(&sandbox::pictures::Pictures::new(7).jpeg("такса"));
    let body = json!({"text": LOST, "photos": [{"data": jpeg, "name": "dog.jpg"}]}).to_string();
    let bearer = format!("Bearer {key}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "order-1"),
    ];
    let first = server.ask("POST", "/v1/messages", &headers, &body).await;
    let again = server.ask("POST", "/v1/messages", &headers, &body).await;
    assert_eq!((first.status, again.status), (202, 202), "{first:?}");
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(server.messages().await, 1);
    let message = server.store.recent_messages(server.ws, 1).await.unwrap().remove(0);
    assert_eq!(message.payload["media"].as_array().unwrap().len(), 1, "{}", message.payload);
    let other = json!({"text": "другое"}).to_string();
    let other = server.ask("POST", "/v1/messages", &headers, &other).await;
    assert_eq!((other.status, other.code().as_str()), (422, "idempotency_conflict"));
    assert_eq!(server.messages().await, 1);
}

#[tokio::test]
async fn pages_follow_each_other_and_a_cursor_belongs_to_its_workspace() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "чтение", &[ApiScope::Ingest, ApiScope::Read]).await;
    for n in 0..5 {
        let body = json!({"text": format!("пост {n}"), "channels": ["канал"]}).to_string();
        assert_eq!(ask(&server, &key, "POST", "/v1/messages", &body).await.status, 202);
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/deliveries?limit=2".to_owned());
    let mut cursors = Vec::new();
    loop {
        let page = ask(&server, &key, "GET", &path, "").await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        cursors.push(cursor.to_owned());
        path = format!("/v1/deliveries?limit=2&cursor={cursor}");
    }
    assert_eq!((seen.len(), seen.is_sorted(), cursors.len()), (5, true, 2), "{seen:?}");

    let other = server.store.create_workspace("Лавка").await.unwrap();
    let foreign = token(&server, other, "чужой", &[ApiScope::Read]).await;
    let refused = ask(&server, &foreign, "GET", &format!("/v1/deliveries?cursor={}", cursors[0]), "").await;
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("cursor")), "{refused:?}");
    let elsewhere = ask(&server, &key, "GET", &format!("/v1/events?cursor={}", cursors[0]), "").await;
    assert_eq!(elsewhere.status, 422, "a cursor of another listing");
    let id = server.store.recent_messages(server.ws, 1).await.unwrap()[0].message_id;
    let hidden = ask(&server, &foreign, "GET", &format!("/v1/messages/{id}"), "").await;
    assert_eq!(hidden.status, 404, "{hidden:?}");
}

/// Found by tests/api/run: it was "try again later", for ever.
#[tokio::test]
async fn what_cannot_be_queued_again_now_is_refused_with_its_state() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest, ApiScope::Operate]).await;
    let body = json!({"text": "пост", "channels": ["канал"]}).to_string();
    assert_eq!(ask(&server, &key, "POST", "/v1/messages", &body).await.status, 202);
    let rows = server.store.deliveries(server.ws, store::DeliveryFilter::default(), 10).await.unwrap();
    let path = format!("/v1/deliveries/{}/requeue", rows[0].delivery_id);
    for body in ["", "null", "{}"] {
        let refused = ask(&server, &key, "POST", &path, body).await;
        assert_eq!(refused.status, 422, "{body:?}: {refused:?}");
        let problem = refused.json();
        assert_eq!(problem["error"]["code"], "not_now", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("is queued"), "{problem}");
    }
}

#[tokio::test]
async fn a_wrong_question_hears_which_field_and_changes_nothing() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "всё", &[ApiScope::Ingest, ApiScope::Read, ApiScope::Operate]).await;
    let photos = json!({"text": "a", "photos": [{"data": "не base64"}]}).to_string();
    let rows = [
        ("GET", "/v1/deliveries?limit=1000000000", "", 422, "limit"),
        ("GET", "/v1/deliveries?limit=0", "", 422, "limit"),
        ("GET", "/v1/deliveries?colour=red", "", 422, "colour"),
        ("GET", "/v1/deliveries?status=gone", "", 422, "status"),
        ("GET", "/v1/deliveries?channel=no", "", 422, "channel"),
        ("GET", "/v1/deliveries?cursor=zz", "", 422, "cursor"),
        ("GET", "/v1/messages/nine", "", 422, "id"),
        ("GET", "/v1/messages/999", "", 404, ""),
        ("GET", "/v1/cases/999", "", 404, ""),
        ("POST", "/v1/messages", "{\"text\": \"a\", \"dry_run\": 5}", 422, "dry_run"),
        ("POST", "/v1/messages", "{\"posts\": []}", 422, "posts"),
        ("POST", "/v1/messages", "{\"text\": \"a\", \"kind\": \"weird\"}", 400, "kind"),
        ("POST", "/v1/messages", "{\"text\": \"a\", \"workspace_id\": 7}", 400, "workspace_id"),
        ("POST", "/v1/messages", "{\"text\": 5}", 400, "text"),
        ("POST", "/v1/messages", "{\"text\": \" \"}", 422, "text"),
        ("POST", "/v1/messages", "{\"text\": \"a\", \"date\": -1}", 422, "date"),
        ("POST", "/v1/messages", "{\"text\": \"a\", \"channels\": [\"no\"]}", 422, "channels"),
        ("POST", "/v1/deliveries/requeue", "{}", 422, "channel"),
        ("POST", "/v1/deliveries/cancel", "{\"status\": \"gone\"}", 422, "status"),
        ("POST", "/v1/deliveries/requeue", "{\"status\": \"sent\"}", 422, ""),
        ("POST", "/v1/accounts/no/pause", "", 404, ""),
        ("POST", "/v1/messages/999/approve", "", 404, ""),
        ("GET", "/v1/deliveries/999", "", 404, ""),
        ("POST", "/v1/messages", photos.as_str(), 422, "photos[0]"),
        ("POST", "/v1/channels/no/pause", "", 404, "channel"),
        ("POST", "/v1/channels/%ff/pause", "", 400, ""),
        ("POST", "/v1/channels/%D0%BA%D0%B0%D0%BD%D0%B0%D0%BB/explode", "", 422, "verb"),
        ("POST", "/v1/channels/%D0%BA%D0%B0%D0%BD%D0%B0%D0%BB/pause", "{\"for\": \"soon\"}", 422, "for"),
        ("POST", "/v1/deliveries/999/requeue", "", 404, ""),
        ("DELETE", "/v1/messages", "", 405, ""),
    ];
    for (method, path, body, status, field) in rows {
        let answer = ask(&server, &key, method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert!(answer.head.contains("content-type: application/problem+json"), "{path}: {}", answer.head);
        let problem = answer.json();
        assert_eq!((&problem["status"], problem["detail"].is_string()), (&json!(status), true), "{problem}");
        assert_eq!(problem["field"].as_str().unwrap_or_default(), field, "{path}: {problem}");
    }
    for (path, body, words) in [
        ("/v1/messages", "{\"text\": \"a\", \"colour\": 7}", "`channels`, `dry_run`"),
        ("/v1/messages", "{\"text\": \"a\", \"kind\": \"weird\"}", "kind: unknown variant `weird`"),
        ("/v1/channels/nope/pause", "", "channel: \"nope\" is not known"),
    ] {
        let problem = ask(&server, &key, "POST", path, body).await.json();
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    assert_eq!(server.messages().await, 0);
    let events = server.store.recent_events(server.ws, 100).await.unwrap();
    assert!(events.iter().all(|event| event.name == "config_changed"), "{events:?}");
}

#[tokio::test]
async fn a_token_does_what_its_scopes_say_until_it_is_revoked() {
    let server = Server::start(None).await;
    let reader = token(&server, server.ws, "читатель", &[ApiScope::Read]).await;
    let operator = token(&server, server.ws, "оператор", &[ApiScope::Operate]).await;
    let channel = "/v1/channels/%D0%BA%D0%B0%D0%BD%D0%B0%D0%BB";
    for (key, method, path) in [
        (&reader, "POST", "/v1/messages".to_owned()),
        (&reader, "POST", format!("{channel}/pause")),
        (&operator, "GET", "/v1/snapshot".to_owned()),
    ] {
        let refused = ask(&server, key, method, &path, "{}").await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "scope_missing"), "{path}");
    }
    let paused =
        ask(&server, &operator, "POST", &format!("{channel}/pause"), "{\"reason\": \"ремонт\"}").await;
    assert_eq!(paused.status, 200, "{paused:?}");
    let event = server.store.recent_events(server.ws, 1).await.unwrap().remove(0);
    assert_eq!((event.name.as_str(), &event.detail["by"]), ("channel_paused", &json!("token оператор")));
    assert_eq!(ask(&server, &operator, "POST", &format!("{channel}/resume"), "").await.status, 200);
    assert!(server.store.revoke_api_token(server.ws, "читатель").await.unwrap());
    assert_eq!(ask(&server, &reader, "GET", "/v1/snapshot", "").await.status, 401);
}

#[tokio::test]
async fn what_is_answered_at_a_path_stands_in_allow_and_head_is_get_without_a_body() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "всё", &[ApiScope::Ingest, ApiScope::Read, ApiScope::Operate]).await;
    for (path, allow) in [
        ("/v1/channels", "get, head"),
        ("/v1/messages", "get, head, post"),
        ("/v1/campaigns", "get, head, post"),
        ("/v1/deliveries/requeue", "post"),
        ("/v1/openapi.json", "get, head"),
    ] {
        for method in ["OPTIONS", "DELETE", "PATCH"] {
            let answer = ask(&server, &key, method, path, "").await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (405, "method_not_allowed"),
                "{method} {path}"
            );
            assert!(answer.head.contains(&format!("\r\nallow: {allow}\r\n")), "{path}: {}", answer.head);
        }
        let head = ask(&server, &key, "HEAD", path, "").await;
        assert_eq!(
            (head.status, head.body.len()),
            (if allow.contains("head") { 200 } else { 405 }, 0),
            "{path}"
        );
    }
    // Another path is another resource: nothing is guessed.
    for path in ["/v1/channels/", "/v1//channels", "/V1/channels", "/v1/messages/1/", "/v2/channels", "/v1"] {
        let answer = ask(&server, &key, "GET", path, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn listings_that_begin_with_the_newest_are_read_to_their_end() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Read]).await;
    for n in 0..5 {
        let run = server.store.start_run(server.ws, &format!("vk:-{n}")).await.unwrap();
        server.store.finish_run(server.ws, run, store::RunCounts::default(), None).await.unwrap();
        server.post(&[], &json!({"text": format!("Пропал кот номер {n}"), "origin_id": n.to_string()})).await;
    }
    let alerts = (0..5).map(|n| store::NewAlert {
        key: format!("channel:{n}"),
        kind: "lag".into(),
        severity: store::Severity::Act,
        words: json!({"headline": "беда"}),
        told: false,
    });
    server.store.watch(server.ws, alerts.collect(), "узел", Span::from_secs(10)).await.unwrap();
    for (listing, id, time) in [
        ("runs", "run_id", "started_at"),
        ("alerts", "alert_id", "opened_at"),
        ("messages", "id", "created_at"),
        ("cases", "case_id", "opened_at"),
    ] {
        let whole = ask(&server, &key, "GET", &format!("/v1/{listing}"), "").await.json();
        let ids = |page: &Value| -> Vec<i64> {
            page["items"].as_array().unwrap().iter().map(|row| row[id].as_i64().unwrap()).collect()
        };
        assert!(whole["next_cursor"].is_null() && ids(&whole).len() >= 5, "{listing}: {whole}");
        assert!(ids(&whole).is_sorted_by(|one, next| one > next), "the newest first: {whole}");
        let at = whole["items"][0][time].as_str().unwrap_or_default();
        assert!(at.starts_with("20") && at.ends_with('Z'), "{listing}: {time} is {at:?}");
        let (mut paged, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/{listing}?limit=2{cursor}");
            let page = ask(&server, &key, "GET", &path, "").await.json();
            paged.extend(ids(&page));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(paged, ids(&whole), "{listing}");
    }
    let posts = ask(&server, &key, "GET", "/v1/messages?limit=1", "").await.json();
    assert_eq!(posts["items"][0]["deliveries"], json!({"sent": 0, "waiting": 1, "failed": 0, "deduped": 0}));
    let snapshot = ask(&server, &key, "GET", "/v1/snapshot", "").await.json();
    assert!(snapshot["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{snapshot}");
    assert_eq!(snapshot["campaigns"]["running"], 0);
    let events = ask(&server, &key, "GET", "/v1/events?limit=1", "").await.json();
    assert!(events["items"][0]["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{events}");
}

#[tokio::test]
async fn posts_that_wait_are_read_to_their_end() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Read]).await;
    server.channel(server.ws, "второй", "-1001234567891").await;
    let channels: Vec<_> = server.store.channels(server.ws).await.unwrap();
    for n in 0..2 {
        let message = store::NewMessage::new("test", n.to_string(), n.to_string(), json!({"text": "кот"}));
        let held = channels.iter().map(|channel| channel.channel_id).collect();
        let held = Some(store::Held { channels: held, why: "не уверен".into() });
        let post = store::NewPost { message, sketch: None, held };
        server.store.ingest(server.ws, vec![post], None).await.unwrap();
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ask(&server, &key, "GET", &format!("/v1/held?limit=1{cursor}"), "").await.json();
        let rows = page["items"].as_array().unwrap().iter();
        seen.extend(rows.map(|row| (row["message_id"].as_i64().unwrap(), row["channel"].to_string())));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let all = ask(&server, &key, "GET", "/v1/held", "").await.json();
    assert_eq!(
        (seen.len(), all["items"].as_array().unwrap().len()),
        (4, 4),
        "two posts in two channels: {all}"
    );
    seen.dedup();
    assert_eq!(seen.len(), 4, "each once");
}
