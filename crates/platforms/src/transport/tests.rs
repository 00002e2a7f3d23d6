use domain::outcome::Certainty;

use super::*;
use crate::secret::SecretUrl;
use crate::testing::{Act, RawServer, http, http_with};

const SOON: Duration = Duration::from_millis(400);
const PATIENT: Duration = Duration::from_secs(20);
const CANARY: &str = "7700000001:AAcanary-token-0123456789-abcdefgh";

fn post(url: &str, deadline: Duration) -> Request {
    Request::new(Method::Post, SecretUrl::new(Url::parse(url).unwrap(), "test post"), deadline)
        .payload(Payload::Json(serde_json::json!({"text": "да"})))
}

async fn exchange_with(acts: Vec<Act>, deadline: Duration) -> Exchange {
    let server = RawServer::start(acts).await;
    Transport::new().send(&Route::default(), post(&server.url("/a"), deadline)).await
}

async fn check_trouble(act: Act, kind: TroubleKind, certainty: Certainty) {
    let trouble = exchange_with(vec![act.clone()], SOON).await.unwrap_err();
    assert_eq!((trouble.kind, trouble.certainty), (kind, certainty), "{act:?}");
}

#[tokio::test]
async fn a_whole_answer_comes_back_with_status_headers_and_body() {
    let act =
        Act::Bytes(http_with(429, &[("Content-Type", "application/json"), ("Retry-After", "7")], b"{}"));
    let answer = exchange_with(vec![act], PATIENT).await.unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("7")));
    assert_eq!(answer.body, Body::Whole(Bytes::from_static(b"{}")));
    assert!(answer.says_json());
}

#[tokio::test]
async fn a_refused_connection_sent_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let trouble = Transport::new().send(&Route::default(), post(&url, PATIENT)).await.unwrap_err();
    assert_eq!((trouble.kind, trouble.certainty), (TroubleKind::Refused, Certainty::NotSent));
}

#[tokio::test]
async fn a_name_without_an_address_sent_nothing() {
    let url = "http://no-such-host.invalid/";
    let trouble = Transport::new().send(&Route::default(), post(url, PATIENT)).await.unwrap_err();
    assert_eq!((trouble.kind, trouble.certainty), (TroubleKind::Dns, Certainty::NotSent));
}

#[tokio::test]
async fn a_tls_handshake_that_stalls_sent_nothing() {
    // A plain server that never speaks TLS: the handshake hangs until the connect limit.
    let server = RawServer::start(vec![Act::ReadThenHang]).await;
    let url = format!("https://{}/", server.address);
    let transport = Transport::with_connect_max(SOON);
    let trouble = transport.send(&Route::default(), post(&url, PATIENT)).await.unwrap_err();
    assert_eq!((trouble.kind, trouble.certainty), (TroubleKind::ConnectTimeout, Certainty::NotSent));
}

#[tokio::test]
async fn whatever_breaks_after_the_request_began_is_ambiguous() {
    check_trouble(Act::ReadThenReset, TroubleKind::Reset, Certainty::Unknown).await;
    check_trouble(Act::ReadThenHang, TroubleKind::Deadline, Certainty::Unknown).await;
    check_trouble(Act::Bytes(Vec::new()), TroubleKind::Closed, Certainty::Unknown).await;
    check_trouble(Act::Bytes(b"\x00\x01garbage\r\n\r\n".to_vec()), TroubleKind::NotHttp, Certainty::Unknown)
        .await;
    check_trouble(Act::Bytes(b"HTTP/1.1 200 OK\r\nConte".to_vec()), TroubleKind::Closed, Certainty::Unknown)
        .await;
}

#[tokio::test]
async fn a_server_that_closes_unread_is_ambiguous_and_not_asked_again() {
    let server = RawServer::start(vec![Act::CloseUnread]).await;
    let trouble =
        Transport::new().send(&Route::default(), post(&server.url("/"), PATIENT)).await.unwrap_err();
    assert_eq!(trouble.certainty, Certainty::Unknown);
    assert_eq!(server.n_connections(), 1);
}

#[tokio::test]
async fn a_cut_body_keeps_its_status_and_what_came() {
    let whole = http(200, "application/json", r#"{"ok":true,"result":{}}"#);
    let half = whole[..whole.len() - 10].to_vec();
    for (act, why) in [(Act::Bytes(half.clone()), Cut::Broken), (Act::BytesThenHang(half), Cut::Slow)] {
        let answer = exchange_with(vec![act], SOON).await.unwrap();
        assert_eq!(answer.status, 200);
        let Body::Cut { read, why: seen } = answer.body else { panic!("not cut") };
        assert_eq!((seen, &read[..]), (why, &br#"{"ok":true,"r"#[..]));
    }
}

#[tokio::test]
async fn an_answer_larger_than_allowed_is_cut() {
    let server = RawServer::start(vec![Act::json(200, &"x".repeat(100_000))]).await;
    let request = post(&server.url("/"), PATIENT).answer_bytes_max(1_000);
    let answer = Transport::new().send(&Route::default(), request).await.unwrap();
    let Body::Cut { read, why } = answer.body else { panic!("not cut") };
    assert_eq!((read.len(), why), (1_000, Cut::TooLarge));
}

/// 8 MiB of zeroes, gzipped to about 8 kB.
fn bomb() -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; 8 << 20]).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn decoded_bytes_are_what_the_limit_counts() {
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    let packed = bomb();
    assert!(packed.len() < 20_000);
    let server = RawServer::start(vec![Act::Bytes(http_with(200, &headers, &packed))]).await;
    let request = post(&server.url("/"), PATIENT).answer_bytes_max(1 << 20);
    let answer = Transport::new().send(&Route::default(), request).await.unwrap();
    let Body::Cut { read, why } = answer.body else { panic!("not cut") };
    assert_eq!((read.len(), why), (1 << 20, Cut::TooLarge));
}

#[tokio::test]
async fn a_truncated_gzip_answer_is_cut() {
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    let packed = bomb();
    let act = Act::Bytes(http_with(200, &headers, &packed[..packed.len() / 2]));
    let answer = exchange_with(vec![act], PATIENT).await.unwrap();
    assert!(matches!(answer.body, Body::Cut { why: Cut::Broken, .. }), "{:?}", answer.status);
}

#[tokio::test]
async fn redirects_are_never_followed() {
    let elsewhere = RawServer::start(vec![Act::json(200, "{}")]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = elsewhere.url("/moved");
        let act = Act::Bytes(http_with(status, &[("Location", &location)], b""));
        assert_eq!(exchange_with(vec![act], PATIENT).await.unwrap().status, status);
    }
    assert_eq!(elsewhere.n_connections(), 0);
}

#[tokio::test]
async fn a_server_error_is_not_tried_again() {
    let server = RawServer::start(vec![Act::json(503, "{}")]).await;
    let answer = Transport::new().send(&Route::default(), post(&server.url("/"), PATIENT)).await.unwrap();
    assert_eq!(answer.status, 503);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_connection_that_dies_while_idle_is_replaced_and_the_request_arrives_once() {
    let ok = http(200, "application/json", "{}");
    let server = RawServer::start(vec![Act::Bytes(ok.clone()), Act::Bytes(ok)]).await;
    let transport = Transport::new();
    for _ in 0..2 {
        let answer = transport.send(&Route::default(), post(&server.url("/"), PATIENT)).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!((server.requests().len(), server.n_connections()), (2, 2));
}

#[tokio::test]
async fn a_connection_that_closes_as_the_next_request_begins_is_ambiguous_or_replaced_but_never_doubled() {
    let ok = http(200, "application/json", "{}");
    let acts = vec![Act::BytesThenCloseAtReuse(ok.clone()), Act::Bytes(ok)];
    let server = RawServer::start(acts).await;
    let transport = Transport::new();
    transport.send(&Route::default(), post(&server.url("/1"), PATIENT)).await.unwrap();
    match transport.send(&Route::default(), post(&server.url("/2"), PATIENT)).await {
        Ok(answer) => assert_eq!(answer.status, 200),
        Err(trouble) => assert_eq!(trouble.certainty, Certainty::Unknown),
    }
    let seconds = server.requests().iter().filter(|request| request.starts_with("POST /2 ")).count();
    assert!(seconds <= 1, "{seconds}");
}

#[tokio::test]
async fn a_certificate_is_believed_only_with_its_root() {
    let server = RawServer::start_tls(vec![Act::json(200, "{}")], "loopback").await;
    let url = format!("https://{}/", server.address);
    let transport = Transport::new();
    let trouble = transport.send(&Route::default(), post(&url, PATIENT)).await.unwrap_err();
    assert_eq!((trouble.kind, trouble.certainty), (TroubleKind::UnknownIssuer, Certainty::NotSent));
    assert!(trouble.message.contains("extra_roots"), "{trouble}");

    let answer = transport.send(&with_test_root(), post(&url, PATIENT)).await.unwrap();
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_even_with_its_root() {
    let server = RawServer::start_tls(vec![Act::json(200, "{}")], "elsewhere").await;
    let url = format!("https://{}/", server.address);
    let trouble = Transport::new().send(&with_test_root(), post(&url, PATIENT)).await.unwrap_err();
    assert_eq!((trouble.kind, trouble.certainty), (TroubleKind::Tls, Certainty::NotSent));
}

fn with_test_root() -> Route {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/ca.pem");
    Route::new(None, vec![path.into()])
}

#[tokio::test]
async fn a_route_that_cannot_be_used_says_why_before_anything_is_sent() {
    let check = async |route: Route, expected: &str| {
        let trouble = Transport::new().send(&route, post("http://127.0.0.1:9/", PATIENT)).await.unwrap_err();
        assert_eq!((trouble.kind, trouble.certainty), (TroubleKind::Route, Certainty::NotSent));
        assert!(trouble.message.contains(expected), "{trouble}");
    };
    check(Route::new(None, vec!["/no/such/root.pem".into()]), "/no/such/root.pem").await;
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    check(Route::new(None, vec![empty]), "no certificate").await;
    check(Route::new(Some("gopher://x:1".into()), vec![]), "proxy").await;
    check(Route::new(Some("not an address".into()), vec![]), "proxy").await;
}

#[tokio::test]
async fn a_proxy_of_the_account_is_used_with_its_password() {
    let proxy = RawServer::start(vec![Act::json(200, "{}")]).await;
    let route = Route::new(Some(format!("http://user:wort@{}", proxy.address)), vec![]);
    let answer = Transport::new().send(&route, post("http://api.example.test/x", PATIENT)).await.unwrap();
    assert_eq!(answer.status, 200);
    let request = proxy.requests().remove(0);
    assert!(request.starts_with("POST http://api.example.test/x "), "{request}");
    assert!(request.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjp3b3j0"), "{request}");
}

#[tokio::test]
async fn neither_trouble_nor_request_nor_route_prints_an_address() {
    let url = format!("http://127.0.0.1:9/bot{CANARY}/sendMessage");
    let request = post(&url, SOON);
    let route = Route::new(Some(format!("http://user:{CANARY}@127.0.0.1:9")), vec![]);
    let trouble = Transport::new().send(&route, request.clone()).await.unwrap_err();
    let printed = format!("{trouble} {trouble:?} {request:?} {route:?} {:?}", Transport::new());
    assert!(!printed.contains("canary") && !printed.contains("7700000001"), "{printed}");
}

#[tokio::test]
async fn a_stray_second_answer_never_becomes_the_answer_of_the_next_request() {
    let mine = http(200, "application/json", r#"{"answer":1}"#);
    let stray = http(200, "application/json", r#"{"answer":"stray"}"#);
    let other = http(200, "application/json", r#"{"answer":2}"#);
    let server = RawServer::start(vec![Act::BytesThenHang([mine, stray].concat()), Act::Bytes(other)]).await;
    let transport = Transport::new();
    let first = transport.send(&Route::default(), post(&server.url("/1"), PATIENT)).await.unwrap();
    assert_eq!(first.bytes(), br#"{"answer":1}"#);
    match transport.send(&Route::default(), post(&server.url("/2"), PATIENT)).await {
        Ok(second) => assert_eq!(second.bytes(), br#"{"answer":2}"#),
        Err(trouble) => assert_eq!(trouble.certainty, Certainty::Unknown),
    }
}

#[tokio::test]
async fn odd_http_is_read_or_ambiguous_but_never_believed_half() {
    let old = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"ok\":true}".to_vec();
    let answer = exchange_with(vec![Act::Bytes(old)], PATIENT).await.unwrap();
    assert_eq!(answer.body, Body::Whole(Bytes::from_static(b"{\"ok\":true}")));

    let bad_chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"ok\"\r\nZZ\r\n".to_vec();
    let answer = exchange_with(vec![Act::Bytes(bad_chunk)], PATIENT).await.unwrap();
    assert!(matches!(answer.body, Body::Cut { why: Cut::Broken, .. }));

    let headers: String = (0..10_000).map(|n| format!("X-{n}: 1\r\n")).collect();
    let many = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 2\r\n\r\n{{}}").into_bytes();
    let trouble = exchange_with(vec![Act::Bytes(many)], PATIENT).await.unwrap_err();
    assert_eq!(trouble.certainty, Certainty::Unknown);
}
