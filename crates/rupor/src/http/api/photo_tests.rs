//! Photos by `/v1`: as base64 and as a form, what is told of them, their bytes, and every refusal.

use std::time::{Duration, Instant};

use domain::time::Span;
use serde_json::{Value, json};
use store::ApiScope;

use super::asked_tests::{ask, token};
use super::pace::Who;
use super::room::CALLER_MAX;
use crate::http::tests::{Answer, Server};

fn jpeg(seed: u64) -> Vec<u8> {
    sandbox::pictures::Pictures::new(seed).jpeg("такса").to_vec()
}

/// A part of a form: its name, the name of its file, and what stands in it.
type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

fn file<'a>(name: &'a str, bytes: &'a [u8]) -> Part<'a> {
    (name, Some("dog.jpg"), bytes)
}

fn words<'a>(name: &'a str, text: &'a [u8]) -> Part<'a> {
    (name, None, text)
}

/// A form as a browser writes it.
fn form(border: &str, parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map_or(String::new(), |file| format!("; filename=\"{file}\""));
        body.extend(
            format!("--{border}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").bytes(),
        );
        body.extend_from_slice(bytes);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{border}--\r\n").bytes());
    body
}

async fn send_form(server: &Server, key: &str, border: &str, headers: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: multipart/form-data; boundary={border}\r\n{headers}Content-Length: {}\r\n\r\n",
        server.at,
        body.len()
    );
    server.send(&[head.as_bytes(), body].concat()).await
}

#[tokio::test]
async fn a_message_tells_of_its_photos_and_gives_their_bytes_to_its_workspace_alone() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest, ApiScope::Read]).await;
    let bytes = jpeg(7);
    let data = platforms::base64::encode(&bytes);
    let photos = json!([{"data": data, "name": "dog.jpg"}, "https://example.org/cat.jpg"]);
    let made =
        ask(&server, &key, "POST", "/v1/messages", &json!({"title": "Такса", "photos": photos}).to_string())
            .await;
    assert_eq!(made.status, 202, "{made:?}");
    let made = made.json();
    let hash = &made["photos"][0]["id"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert_eq!(
        (&made["title"], &made["text"]),
        (&Value::Null, &json!("Такса")),
        "a title alone is what the post says"
    );
    let kept = &made["photos"][0];
    assert_eq!(
        (&kept["kind"], &kept["mime"], &kept["bytes"], &kept["url"]),
        (&json!("photo"), &json!("image/jpeg"), &json!(bytes.len()), &Value::Null)
    );
    let by_address = &made["photos"][1];
    assert_eq!((&by_address["id"], &by_address["href"]), (&Value::Null, &Value::Null), "{by_address}");
    assert_eq!(by_address["url"], "https://example.org/cat.jpg");

    let path = kept["href"].as_str().unwrap();
    assert_eq!(path, format!("/v1/messages/{}/photos/0", made["id"]));
    let shown = ask(&server, &key, "GET", path, "").await;
    assert_eq!(shown.status, 200, "{}", shown.head);
    for header in
        ["content-type: image/jpeg", &format!("content-length: {}", bytes.len()), "sandbox", "nosniff"]
    {
        assert!(shown.head.contains(header), "{header}: {}", shown.head);
    }
    let other = server.store.create_workspace("Лавка").await.unwrap();
    let foreign = token(&server, other, "чужой", &[ApiScope::Read]).await;
    let id = &made["id"];
    for (key, path, status) in [
        (&foreign, path.to_owned(), 404),
        (&key, format!("/v1/messages/{id}/photos/1"), 404),
        (&key, format!("/v1/messages/{id}/photos/2"), 404),
        (&key, format!("/v1/messages/{id}/photos/x"), 422),
        (&key, "/v1/messages/99/photos/0".to_owned(), 404),
    ] {
        let answer = ask(&server, key, "GET", &path, "").await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.head.contains("application/problem+json"), "{}", answer.head);
    }
}

#[tokio::test]
async fn a_form_with_files_is_the_same_message_however_often_it_is_sent() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest, ApiScope::Read]).await;
    let (first, second) = (jpeg(7), jpeg(8));
    let parts: [Part<'_>; 5] = [
        ("text", None, "Найдена кошка".as_bytes()),
        ("kind", None, b"found"),
        ("channels", None, "канал".as_bytes()),
        ("photo", Some("cat.jpg"), &first),
        ("photo", Some("кот.jpg"), &second),
    ];
    let once = "Idempotency-Key: order-1\r\n";
    let made = send_form(&server, &key, "one", once, &form("one", &parts)).await;
    assert_eq!(made.status, 202, "{made:?}");
    let told = made.json();
    assert_eq!((&told["kind"], &told["text"]), (&json!("found"), &json!("Найдена кошка")), "{told}");
    assert_eq!(told["photos"].as_array().unwrap().len(), 2);
    assert_eq!(told["deliveries"][0]["channel"], "канал");
    // A client draws another border for each call.
    let again = send_form(&server, &key, "two", once, &form("two", &parts)).await;
    assert_eq!((again.status, &again.json()["id"]), (202, &told["id"]), "{again:?}");
    let other = form("two", &parts[..4]);
    let refused = send_form(&server, &key, "two", once, &other).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "idempotency_conflict"));
    let rehearsal = form("two", &[parts[0], ("dry_run", None, b"true"), parts[3]]);
    let rehearsed = send_form(&server, &key, "two", "", &rehearsal).await;
    assert_eq!((rehearsed.status, &rehearsed.json()["dry_run"]), (200, &json!(true)), "{rehearsed:?}");
    assert_eq!(server.messages().await, 1);
}

#[tokio::test]
async fn photos_that_cannot_be_taken_are_refused_with_their_field_and_nothing_is_stored() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest]).await;
    let good = platforms::base64::encode(&jpeg(7));
    let photo = |data: &str| json!({"data": data, "name": "dog.jpg"});
    let encoded = |bytes: &[u8]| platforms::base64::encode(bytes);
    let torn = encoded(&jpeg(7)[..60]);
    for dry_run in [false, true] {
        for (photos, field) in [
            (json!([photo("не base64")]), "photos[0]"),
            (json!([photo(&good), photo("")]), "photos[1]"),
            (json!([photo(&encoded(b"hello, I am no picture"))]), "photos[0]"),
            (json!([photo(&encoded(b"<svg xmlns='http://www.w3.org/2000/svg'/>"))]), "photos[0]"),
            (json!([{"data": good, "name": "x".repeat(201)}]), "photos[0]"),
            (json!([{"data": good, "name": "a\nb"}]), "photos[0]"),
            (json!([{"data": good, "name": 5}]), "photos[0]"),
            (json!([{"data": good, "size": 5}]), "photos[0]"),
            (json!([{"name": "dog.jpg"}]), "photos[0]"),
            (json!([7]), "photos[0]"),
            (json!(["ftp://example.org/dog.jpg"]), "photos"),
            (json!(vec![photo(&good); 11]), "photos"),
            (json!("dog.jpg"), "photos"),
        ] {
            let body = json!({"text": "Пропала собака", "photos": photos, "dry_run": dry_run}).to_string();
            let refused = ask(&server, &key, "POST", "/v1/messages", &body).await;
            assert!([400, 422].contains(&refused.status), "{field}: {refused:?}");
            assert_eq!(refused.json()["field"], field, "{photos} {refused:?}");
        }
    }
    // A picture that breaks off is found out when it is looked at.
    let body = json!({"text": "Пропала собака", "photos": [photo(&torn)]}).to_string();
    let refused = ask(&server, &key, "POST", "/v1/messages", &body).await;
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("photos")), "{refused:?}");
    let large = json!({"text": "a", "photos": [photo(&"A".repeat(16 << 20))]}).to_string();
    let refused = ask(&server, &key, "POST", "/v1/messages", &large).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "too_large"), "{}", refused.head);

    let (picture, text) = (jpeg(7), words("text", "пост".as_bytes()));
    for (parts, status, field) in [
        (vec![text, file("avatar", &picture)], 422, "avatar"),
        (vec![text, file("photo", b"no picture")], 422, "photos[0]"),
        (vec![text, words("photo", b"dog.jpg")], 422, "photos"),
        (vec![file("photo", &picture); 11], 422, "photos"),
        (vec![text, text, file("photo", &picture)], 422, "text"),
        (vec![text, words("colour", b"red")], 400, "colour"),
        (vec![text, words("date", b"yesterday")], 400, "date"),
        (vec![text, words("dry_run", b"perhaps")], 422, "dry_run"),
        (vec![text, words("channels", b"nowhere")], 422, "channels"),
        (vec![], 422, "text"),
    ] {
        let refused = send_form(&server, &key, "one", "", &form("one", &parts)).await;
        assert_eq!(refused.status, status, "{field}: {refused:?}");
        assert_eq!(refused.json()["field"].as_str().unwrap_or_default(), field, "{refused:?}");
    }
    for broken in [b"--one\r\n".as_slice(), b"", b"no form at all"] {
        assert_eq!(send_form(&server, &key, "one", "", broken).await.status, 400);
    }
    let many = vec![words("channels", "канал".as_bytes()); 201];
    assert_eq!(send_form(&server, &key, "one", "", &form("one", &many)).await.status, 400);
    assert_eq!(server.messages().await, 0);
    assert_eq!(left_behind(&server).await, 0, "what was refused left its picture behind");
}

/// Pictures that no message shows.
async fn left_behind(server: &Server) -> u64 {
    server.store.collect_media(Span::ZERO, 100).await.unwrap().media
}

#[tokio::test]
async fn a_token_that_calls_too_often_or_with_too_much_waits_and_leaves_nothing_behind() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest]).await;
    let other = token(&server, server.ws, "другая", &[ApiScope::Ingest]).await;
    let tokens = server.store.api_tokens(server.ws).await.unwrap();
    let who = Who::Token(tokens.iter().find(|token| token.name == "касса").unwrap().token_id);
    let photo = json!({"data": platforms::base64::encode(&jpeg(7)), "name": "dog.jpg"});
    let body = json!({"text": "Пропала собака", "photos": [photo]}).to_string();
    let send = async |key: &str| ask(&server, key, "POST", "/v1/messages", &body).await;

    let mut place = server.api.room.place(who);
    assert!(place.grow(CALLER_MAX), "all that one caller may have");
    let refused = send(&key).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "full"), "{refused:?}");
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    drop(place);
    server.api.pace.take(who, 1.0, Instant::now() + Duration::from_secs(60)).unwrap();
    let refused = send(&key).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"), "{refused:?}");
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    assert_eq!(send(&other).await.status, 202, "another token has its own pace and its own room");
    assert_eq!(left_behind(&server).await, 0);
}

#[tokio::test]
async fn a_call_that_its_key_or_its_channel_refuses_leaves_no_picture_behind() {
    let server = Server::start(None).await;
    let key = token(&server, server.ws, "касса", &[ApiScope::Ingest]).await;
    let (first, second) = (jpeg(7), jpeg(8));
    let once = "Idempotency-Key: order-1\r\n";
    let text = words("text", "Пропала собака".as_bytes());
    let send = async |headers: &str, parts: &[Part<'_>]| {
        send_form(&server, &key, "one", headers, &form("one", parts)).await
    };
    let unknown = send("", &[text, words("channels", b"nowhere"), file("photo", &first)]).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (422, "unknown_channel"), "{unknown:?}");
    // A torn picture does not use the key up.
    assert_eq!(send(once, &[text, file("photo", &first[..60])]).await.status, 422);
    assert_eq!(send(once, &[text, file("photo", &first)]).await.status, 202);
    let conflict = send(once, &[text, file("photo", &second)]).await;
    assert_eq!(conflict.code(), "idempotency_conflict", "{conflict:?}");
    assert_eq!(left_behind(&server).await, 0);
}
