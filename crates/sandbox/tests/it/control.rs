//! Control calls: what is refused, and with which words.

use sandbox::Options;
use serde_json::{Value, json};

use crate::wire::{any_token, call, parsed, raw, read_to_end, started};

#[tokio::test]
async fn an_unknown_fault_kind_is_refused_with_the_known_ones() {
    let sandbox = any_token().await;
    let answer =
        call(&sandbox, "POST", "/_/faults", &json!({"platform": "telegram", "kind": "earthquake"})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"], "unknown fault kind \"earthquake\"");
    let known = answer.json()["known"].as_array().expect("a list").len();
    assert_eq!(known, 30);
    assert!(sandbox.core().faults.list().is_empty());
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_the_known_ones() {
    let sandbox = any_token().await;
    let body = json!({"platform": "telegram", "kind": "hang", "often": 3});
    let answer = call(&sandbox, "POST", "/_/faults", &body).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"], "unknown field \"often\"");
    assert!(answer.json()["known"].as_array().expect("a list").contains(&json!("probability")));
}

#[tokio::test]
async fn bodies_that_are_not_json_objects_are_refused() {
    let sandbox = any_token().await;
    for path in ["/_/faults", "/_/accounts", "/_/chats", "/_/updates/telegram"] {
        let answer = call(&sandbox, "POST", path, &json!([1])).await;
        assert_eq!(
            (answer.status, answer.json()["error"].clone()),
            (400, json!("the body must be a JSON object")),
            "{path}"
        );
        let answer = call(&sandbox, "POST", path, &Value::Null).await;
        assert_eq!(answer.status, 400, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_control_path_lists_the_known_ones() {
    let sandbox = any_token().await;
    let answer = call(&sandbox, "GET", "/_/nothing", &Value::Null).await;
    assert_eq!(answer.status, 404);
    assert!(answer.json()["known"].as_array().expect("a list").contains(&json!("GET /_/ledger")));
}

#[tokio::test]
async fn the_same_name_is_the_same_picture_and_the_altered_copy_differs() {
    let sandbox = any_token().await;
    let first = call(&sandbox, "GET", "/_/pictures/rex.jpg", &Value::Null).await;
    let again = call(&sandbox, "GET", "/_/pictures/rex.jpg", &Value::Null).await;
    let altered = call(&sandbox, "GET", "/_/pictures/rex~.jpg", &Value::Null).await;
    assert_eq!(first.status, 200);
    assert!(first.head.contains("content-type: image/jpeg"), "{}", first.head);
    assert_eq!(first.body, again.body);
    assert_ne!(first.body, altered.body);
    assert_eq!(&altered.body[..3], &[0xff, 0xd8, 0xff]);
}

#[tokio::test]
async fn a_second_sandbox_on_the_same_address_does_not_start() {
    let sandbox = any_token().await;
    let options = sandbox::Options { listen: sandbox.address(), ..sandbox::Options::default() };
    let error = sandbox::Sandbox::start(options).await.expect_err("the address is taken");
    assert!(error.to_string().starts_with("cannot listen on 127.0.0.1:"), "{error}");
}

#[test]
fn the_manual_tells_of_every_fault_kind_and_field() {
    let manual = include_str!("../../../../docs/sandbox.md");
    for (kind, _, _) in sandbox::faults::KINDS {
        assert!(manual.contains(&format!("`{kind}`")), "{kind} is missing in docs/sandbox.md");
    }
    for field in sandbox::faults::FIELDS {
        assert!(manual.contains(&format!("`{field}`")), "{field} is missing in docs/sandbox.md");
    }
}

/// The answer to a control call with these headers.
async fn status_with(sandbox: &sandbox::Sandbox, call: &str, headers: &str) -> u16 {
    let request = format!("{call} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
    parsed(&raw(sandbox, request.as_bytes()).await.0).status
}

#[tokio::test]
async fn a_page_elsewhere_can_neither_read_nor_change_the_sandbox() {
    let sandbox = any_token().await;
    let own = sandbox.origin().trim_start_matches("http://").to_owned();
    for (headers, status) in [
        ("host: evil.example\r\n".to_owned(), 421),
        ("host: 127.0.0.1.evil.example:7900\r\n".to_owned(), 421),
        ("host: localhost\r\nhost: evil.example\r\n".to_owned(), 400),
        (format!("host: {own}\r\norigin: http://evil.example\r\n"), 403),
        (format!("host: {own}\r\norigin: null\r\n"), 403),
        (format!("host: {own}\r\norigin: http://{own}\r\n"), 200),
        ("host: [::1]:7900\r\n".to_owned(), 200),
        ("host: LOCALHOST\r\n".to_owned(), 200),
    ] {
        for call in ["GET /_/ledger", "DELETE /_/faults", "GET /telegram/bot1:token/getMe"] {
            assert_eq!(status_with(&sandbox, call, &headers).await, status, "{call} {headers}");
        }
    }
}

#[tokio::test]
async fn beyond_loopback_the_sandbox_starts_only_when_that_is_meant() {
    let everywhere = || Options { listen: ([0, 0, 0, 0], 0).into(), ..Options::default() };
    let refused = sandbox::Sandbox::start(everywhere()).await.expect_err("refuses").to_string();
    assert!(refused.contains("not on loopback"), "{refused}");
    let exposed = started(Options { exposed: true, ..everywhere() }).await;
    let port = exposed.address().port();
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("connects");
    let ask = b"GET /_/stats HTTP/1.1\r\nhost: sandbox.example\r\nconnection: close\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut socket, ask).await.expect("writes");
    assert_eq!(parsed(&read_to_end(&mut socket).await.0).status, 200);
}

#[tokio::test]
async fn tokens_are_masked_wherever_the_sandbox_shows_them() {
    let sandbox = any_token().await;
    let (bot, key) = ("1234567:AAE-invented-secret", "vk1.a.invented-secret-of-a-community");
    call(&sandbox, "POST", &format!("/telegram/bot{bot}/getMe"), &json!({})).await;
    call(&sandbox, "GET", &format!("/vk/method/users.get?v=5.199&access_token={key}"), &Value::Null).await;
    call(
        &sandbox,
        "POST",
        "/_/accounts",
        &json!({"platform": "max", "token": "max-invented-secret", "id": 9}),
    )
    .await;
    call(&sandbox, "POST", "/_/faults", &json!({"platform": "vk", "kind": "hang", "account": key})).await;
    for path in ["/_/ledger", "/_/accounts", "/_/faults", "/_/chats", "/_/stats"] {
        let answer = call(&sandbox, "GET", path, &Value::Null).await;
        let shown = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 200 && !shown.contains("invented-secret"), "{path}: {shown}");
    }
    let rows = call(&sandbox, "GET", "/_/ledger", &Value::Null).await.json();
    assert_eq!(rows["telegram"][0]["account"], "1234567");
    let vk = rows["vk"][0]["account"].as_str().expect("an account").to_owned();
    assert!(vk.starts_with("vk1.…"), "{vk}");
    for (account, n) in [(bot, 1), ("1234567", 1), ("7654321", 0)] {
        let rows = call(&sandbox, "GET", &format!("/_/ledger?account={account}"), &Value::Null).await.json();
        assert_eq!(rows["telegram"].as_array().map(Vec::len), Some(n), "{account}");
    }
}

#[tokio::test]
async fn the_page_runs_nothing_but_its_own_script_and_files_run_nothing() {
    let sandbox = any_token().await;
    let page = call(&sandbox, "GET", "/", &Value::Null).await;
    let nonce = page
        .head
        .split("script-src 'nonce-")
        .nth(1)
        .and_then(|rest| rest.split('\'').next())
        .expect("a nonce");
    let html = String::from_utf8_lossy(&page.body).into_owned();
    assert!(html.contains(&format!("<script nonce=\"{nonce}\">")) && !html.contains("{nonce}"));
    let other = call(&sandbox, "GET", "/", &Value::Null).await;
    assert!(!other.head.contains(nonce), "a nonce is used once");
    let svg = sandbox
        .core()
        .media
        .put(&bytes::Bytes::from_static(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"));
    let file = call(&sandbox, "GET", &format!("/_/media/{}", svg.sha256), &Value::Null).await;
    assert!(
        file.head.contains("default-src 'none'; sandbox") && file.head.contains("nosniff"),
        "{}",
        file.head
    );
}

/// The page's own rule for addresses, read from the page.
#[test]
fn a_link_that_runs_a_script_is_never_rendered() {
    let page = include_str!("../../src/page/index.html");
    assert!(page.contains(r"/^((https?|tg|mailto|tel):|\/(?!\/))/i.test"));
    for (n, line) in page.lines().enumerate().filter(|(_, line)| line.contains("href: ")) {
        assert!(line.contains("href: safeLink("), "line {}: {line}", n + 1);
    }
}
