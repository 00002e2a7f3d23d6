//! Every kind of fault, seen on the socket, with what the ledger says of it.

use std::io::Read;

use sandbox::ledger::Row;
use sandbox::{Name, Options, Sandbox};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wire::{Answer, End, any_token, call, parsed, raw, read_to_end, request, started};

const SEND: &str = "/telegram/bot1:token/sendMessage";

fn hello() -> Value {
    json!({"chat_id": 5, "text": "привет"})
}

/// Arms a Telegram fault with further fields.
fn arm(sandbox: &Sandbox, kind: &str, more: &Value) {
    let mut body = json!({"platform": "telegram", "kind": kind, "times": 1});
    for (field, value) in more.as_object().expect("an object") {
        body[field] = value.clone();
    }
    sandbox.arm(&body).expect("a known fault");
}

async fn send(sandbox: &Sandbox) -> Answer {
    call(sandbox, "POST", SEND, &hello()).await
}

async fn send_raw(sandbox: &Sandbox) -> (Vec<u8>, End) {
    raw(sandbox, &request("POST", SEND, &hello())).await
}

fn only_row(sandbox: &Sandbox) -> Row {
    let mut rows = sandbox.core().ledger.rows(Name::Telegram);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

fn n_visible(sandbox: &Sandbox) -> usize {
    sandbox.core().chats.messages(Name::Telegram, "5").len()
}

/// The ledger's word on the request agrees with what a reader sees.
fn check_accepted(sandbox: &Sandbox, kind: &str) {
    let row = only_row(sandbox);
    assert_eq!((row.accepted, row.fault, n_visible(sandbox)), (true, Some(kind), 1));
    assert_eq!((row.visible_id, row.text.as_deref()), (json!(1), Some("привет")));
}

fn check_not_accepted(sandbox: &Sandbox, kind: &str) {
    let row = only_row(sandbox);
    assert_eq!((row.accepted, row.fault, n_visible(sandbox)), (false, Some(kind), 0));
    assert_eq!(row.visible_id, Value::Null);
}

#[tokio::test]
async fn faults_that_are_answers_use_the_platforms_words() {
    let table = [
        ("429", 429, "Too Many Requests"),
        ("500", 500, "Internal Server Error: restart"),
        ("401", 401, "Unauthorized"),
        ("403", 403, "Forbidden: bot is not a member of the private chat"),
        ("404", 404, "Not Found"),
        ("kicked", 403, "Forbidden: bot was kicked from the private chat"),
        ("blocked", 403, "Forbidden: bot was blocked by the user"),
        ("chat_not_found", 400, "Bad Request: chat not found"),
    ];
    for (kind, status, description) in table {
        let sandbox = any_token().await;
        arm(&sandbox, kind, &json!({}));
        let answer = send(&sandbox).await;
        assert_eq!(answer.status, status, "{kind}");
        let expected = json!({"ok": false, "error_code": status, "description": description});
        assert_eq!(answer.json(), expected, "{kind}");
        check_not_accepted(&sandbox, kind);
        assert_eq!(send(&sandbox).await.status, 200, "{kind} strikes once");
    }
}

#[tokio::test]
async fn gateway_errors_are_pages() {
    for (kind, status) in [("502", 502), ("503", 503), ("504", 504)] {
        let sandbox = any_token().await;
        arm(&sandbox, kind, &json!({"retry_after": 3}));
        let answer = send(&sandbox).await;
        assert_eq!(answer.status, status);
        assert!(answer.head.contains("content-type: text/html"), "{}", answer.head);
        assert!(answer.head.contains("retry-after: 3"), "{}", answer.head);
        check_not_accepted(&sandbox, kind);
    }
}

#[tokio::test]
async fn a_flood_answer_carries_whatever_wait_was_asked_for() {
    for wait in [json!(0), json!(37), json!(1_000_000_000), json!(-1), json!("12"), json!(1.5)] {
        let sandbox = any_token().await;
        arm(&sandbox, "429", &json!({"retry_after": wait}));
        let answer = send(&sandbox).await;
        let text = wait.as_str().map_or_else(|| wait.to_string(), str::to_owned);
        assert_eq!(answer.json()["parameters"]["retry_after"], wait);
        assert_eq!(answer.json()["description"], format!("Too Many Requests: retry after {text}"));
        assert!(answer.head.contains(&format!("retry-after: {text}")), "{}", answer.head);
        check_not_accepted(&sandbox, "429");
    }
}

#[tokio::test]
async fn kinds_of_other_platforms_are_refused_with_those_known_here() {
    let sandbox = any_token().await;
    for kind in ["vk_error", "captcha", "attachment_not_ready"] {
        let refusal = sandbox.arm(&json!({"platform": "telegram", "kind": kind})).expect_err("means nothing");
        assert_eq!(refusal.message, format!("fault kind {kind:?} means nothing on telegram"));
        assert!(!refusal.known.contains(&kind.to_owned()) && refusal.known.contains(&"429".to_owned()));
    }
}

#[tokio::test]
async fn refuse_resets_before_any_of_the_body_came() {
    let sandbox = any_token().await;
    arm(&sandbox, "refuse", &json!({"method": "sendMessage"}));
    let head = format!("POST {SEND} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n");
    assert_eq!(raw(&sandbox, head.as_bytes()).await, (vec![], End::Reset));
    check_not_accepted(&sandbox, "refuse");
}

#[tokio::test]
async fn refuse_with_a_chat_reads_the_body_to_know_it() {
    let sandbox = any_token().await;
    arm(&sandbox, "refuse", &json!({"chat": 5}));
    let other = call(&sandbox, "POST", SEND, &json!({"chat_id": 6, "text": "x"})).await;
    assert_eq!(other.status, 200);
    assert_eq!(send_raw(&sandbox).await, (vec![], End::Reset));
    assert_eq!(n_visible(&sandbox), 0);
}

#[tokio::test]
async fn reset_before_read_leaves_the_rest_of_the_body_unread() {
    let sandbox = any_token().await;
    arm(&sandbox, "reset_before_read", &json!({}));
    // The body never becomes whole, so only a server that does not wait for it can reset.
    let part =
        format!("POST {SEND} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{{\"chat_id\"");
    assert_eq!(raw(&sandbox, part.as_bytes()).await, (vec![], End::Reset));
    check_not_accepted(&sandbox, "reset_before_read");
    assert_eq!(only_row(&sandbox).text, None);
}

#[tokio::test]
async fn reset_after_read_reads_everything_and_does_nothing() {
    let sandbox = any_token().await;
    arm(&sandbox, "reset_after_read", &json!({}));
    assert_eq!(send_raw(&sandbox).await, (vec![], End::Reset));
    check_not_accepted(&sandbox, "reset_after_read");
    assert_eq!(only_row(&sandbox).text.as_deref(), Some("привет"));
}

#[tokio::test]
async fn hang_answers_nothing() {
    let sandbox = any_token().await;
    arm(&sandbox, "hang", &json!({"delay_ms": 20}));
    assert_eq!(send_raw(&sandbox).await, (vec![], End::Closed));
    check_not_accepted(&sandbox, "hang");
}

#[tokio::test]
async fn a_hang_without_end_lasts_until_the_sandbox_stops() {
    let sandbox = any_token().await;
    arm(&sandbox, "hang", &json!({}));
    let mut socket = TcpStream::connect(sandbox.address()).await.expect("connects");
    socket.write_all(&request("POST", SEND, &hello())).await.expect("writes");
    while sandbox.core().ledger.rows(Name::Telegram).iter().all(|row| row.fault.is_none()) {
        tokio::task::yield_now().await;
    }
    sandbox.shutdown().await;
    assert_eq!(read_to_end(&mut socket).await.0, b"");
}

#[tokio::test]
async fn accept_then_reset_takes_effect_without_an_answer() {
    let sandbox = any_token().await;
    arm(&sandbox, "accept_then_reset", &json!({}));
    assert_eq!(send_raw(&sandbox).await, (vec![], End::Reset));
    check_accepted(&sandbox, "accept_then_reset");
}

#[tokio::test]
async fn accept_then_hang_takes_effect_without_an_answer() {
    let sandbox = any_token().await;
    arm(&sandbox, "accept_then_hang", &json!({"delay_ms": 20}));
    assert_eq!(send_raw(&sandbox).await, (vec![], End::Closed));
    check_accepted(&sandbox, "accept_then_hang");
}

#[tokio::test]
async fn accept_then_500_takes_effect_and_says_it_failed() {
    let sandbox = any_token().await;
    arm(&sandbox, "accept_then_500", &json!({}));
    let answer = send(&sandbox).await;
    assert_eq!(
        (answer.status, answer.json()["description"].as_str()),
        (500, Some("Internal Server Error: restart"))
    );
    check_accepted(&sandbox, "accept_then_500");
}

#[tokio::test]
async fn half_body_promises_more_than_it_sends() {
    let sandbox = any_token().await;
    arm(&sandbox, "half_body", &json!({}));
    let (bytes, end) = send_raw(&sandbox).await;
    let answer = parsed(&bytes);
    let promised = answer.head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let promised: usize = promised.expect("a length").parse().expect("a number");
    assert_eq!((answer.status, end, answer.body.len()), (200, End::Closed, promised / 2));
    assert!(answer.body.starts_with(b"{\"ok\":true"));
    check_accepted(&sandbox, "half_body");
}

#[tokio::test]
async fn slow_drip_sends_a_byte_and_then_waits() {
    let sandbox = any_token().await;
    arm(&sandbox, "slow_drip", &json!({"delay_ms": 3_600_000}));
    let mut socket = TcpStream::connect(sandbox.address()).await.expect("connects");
    socket.write_all(&request("POST", SEND, &hello())).await.expect("writes");
    let mut first = [0];
    socket.read_exact(&mut first).await.expect("the first byte");
    assert_eq!(&first, b"H");
    check_accepted(&sandbox, "slow_drip");
    sandbox.shutdown().await;
    assert_eq!(read_to_end(&mut socket).await.0, b"", "nothing came after the first byte");
}

#[tokio::test]
async fn slow_drip_ends_with_the_whole_answer() {
    let sandbox = any_token().await;
    arm(&sandbox, "slow_drip", &json!({"delay_ms": 0}));
    let answer = send(&sandbox).await;
    assert_eq!((answer.status, answer.json()["result"]["text"].as_str()), (200, Some("привет")));
}

#[tokio::test]
async fn garbage_is_not_http() {
    let sandbox = any_token().await;
    arm(&sandbox, "garbage", &json!({}));
    let (bytes, end) = send_raw(&sandbox).await;
    assert_eq!((bytes.len(), end), (256, End::Closed));
    assert!(bytes.iter().all(|byte| *byte >= 0x80));
    check_accepted(&sandbox, "garbage");
}

#[tokio::test]
async fn wrong_shape_is_valid_json_that_means_nothing() {
    let sandbox = any_token().await;
    arm(&sandbox, "wrong_shape", &json!({}));
    let answer = send(&sandbox).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json().get("ok"), None);
    check_accepted(&sandbox, "wrong_shape");
}

#[tokio::test]
async fn wrong_content_type_is_a_page_with_status_200() {
    let sandbox = any_token().await;
    arm(&sandbox, "wrong_content_type", &json!({}));
    let answer = send(&sandbox).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/html") && answer.body.starts_with(b"<html>"));
    check_accepted(&sandbox, "wrong_content_type");
}

#[tokio::test]
async fn truncated_gzip_cannot_be_unpacked() {
    let sandbox = any_token().await;
    arm(&sandbox, "truncated_gzip", &json!({}));
    let answer = send(&sandbox).await;
    assert!(answer.head.contains("content-encoding: gzip"), "{}", answer.head);
    assert_eq!(&answer.body[..2], &[0x1f, 0x8b]);
    let mut plain = Vec::new();
    let unpacked = flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut plain);
    assert!(unpacked.is_err());
    check_accepted(&sandbox, "truncated_gzip");
}

#[tokio::test]
async fn whoever_follows_a_redirect_is_seen_in_the_ledger() {
    let sandbox = any_token().await;
    arm(&sandbox, "redirect", &json!({"code": 307}));
    let answer = send(&sandbox).await;
    let place = format!("http://localhost:{}/_/followed/telegram", sandbox.address().port());
    assert_eq!(answer.status, 307);
    assert!(answer.head.contains(&format!("location: {place}")), "{}", answer.head);
    check_not_accepted(&sandbox, "redirect");
    call(&sandbox, "POST", "/_/followed/telegram", &hello()).await;
    let rows = sandbox.core().ledger.rows(Name::Telegram);
    assert_eq!((rows[1].method.as_str(), rows[1].fault), ("redirect followed", Some("redirect")));
}

#[tokio::test]
async fn duplicate_update_comes_twice_under_one_number() {
    let sandbox = any_token().await;
    arm(&sandbox, "duplicate_update", &json!({}));
    let update = json!({"account": "1:token", "chat": 5, "text": "привет"});
    sandbox.inject(Name::Telegram, &update).expect("queued");
    sandbox.inject(Name::Telegram, &update).expect("queued");
    let updates = call(&sandbox, "GET", "/telegram/bot1:token/getUpdates", &Value::Null).await.json();
    let numbers: Vec<i64> = updates["result"]
        .as_array()
        .expect("updates")
        .iter()
        .map(|u| u["update_id"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, [numbers[0], numbers[0], numbers[0] + 1]);
}

#[tokio::test]
async fn a_polled_update_begins_with_its_number() {
    let sandbox = any_token().await;
    sandbox
        .inject(Name::Telegram, &json!({"account": "1:token", "chat": 5, "text": "привет"}))
        .expect("queued");
    let answer = call(&sandbox, "GET", "/telegram/bot1:token/getUpdates", &Value::Null).await;
    assert!(answer.body.starts_with(b"{\"ok\":true,\"result\":[{\"update_id\":"), "{:?}", answer.body);
}

#[tokio::test]
async fn wrong_secret_is_sent_once_and_then_the_right_one() {
    let sandbox = any_token().await;
    let bot = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/hook", bot.local_addr().expect("an address"));
    let set = json!({"url": url, "secret_token": "s3cret"});
    assert_eq!(call(&sandbox, "POST", "/telegram/bot1:token/setWebhook", &set).await.status, 200);
    arm(&sandbox, "wrong_secret", &json!({}));
    sandbox
        .inject(Name::Telegram, &json!({"account": "1:token", "chat": 5, "text": "привет"}))
        .expect("queued");
    let first = crate::wire::hook_call(&bot, "403 Forbidden\r\nretry-after: 0").await;
    assert!(first.head.contains("x-telegram-bot-api-secret-token: s3cret-wrong"), "{}", first.head);
    let second = crate::wire::hook_call(&bot, "200 OK").await;
    assert!(second.head.contains("x-telegram-bot-api-secret-token: s3cret\r\n"), "{}", second.head);
    assert_eq!(second.json(), first.json());
    assert_eq!(second.json()["message"]["text"], "привет");
    assert!(second.body.starts_with(b"{\"update_id\":"), "clients take the first field for the number");
}

#[tokio::test]
async fn a_fault_strikes_only_in_its_scope() {
    let sandbox = any_token().await;
    let body =
        json!({"platform": "telegram", "method": "SENDMESSAGE", "chat": "5", "account": "1", "kind": "500"});
    sandbox.arm(&body).expect("armed");
    let status = |path: &'static str, chat: i64| {
        let sandbox = &sandbox;
        async move {
            call(sandbox, "POST", path, &json!({"chat_id": chat, "text": "x", "action": "typing"}))
                .await
                .status
        }
    };
    assert_eq!(status(SEND, 6).await, 200, "another chat");
    assert_eq!(status("/telegram/bot2:token/sendMessage", 5).await, 200, "another bot");
    assert_eq!(status("/telegram/bot1:token/sendChatAction", 5).await, 200, "another method");
    assert_eq!(status(SEND, 5).await, 500);
    assert_eq!(status(SEND, 5).await, 500, "without times it stays");
    assert_eq!(sandbox.core().faults.list()[0].struck, 2);
}

#[tokio::test]
async fn chance_repeats_itself_under_one_seed() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let sandbox = started(Options { any_token: true, seed, ..Options::default() }).await;
        sandbox.arm(&json!({"platform": "telegram", "kind": "500", "probability": 0.5})).expect("armed");
        let mut statuses = Vec::new();
        for _ in 0..24 {
            statuses.push(send(&sandbox).await.status);
        }
        assert!(statuses.contains(&200) && statuses.contains(&500));
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
