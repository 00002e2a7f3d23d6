//! What a receiver gets, and what its answers mean, on raw sockets.

use domain::outcome::{Category, Certainty, Outcome, Scope};
use serde_json::json;

use super::*;
use crate::media::NoMedia;
use crate::platform::{AccountSettings, Deadlines, Unlimited};
use crate::secret::{Token, signing_key};
use crate::testing::{Act, RawServer, http_with};

/// From the examples of Standard Webhooks.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn account(token: &str) -> Account {
    Account::new(&Webhook, Token::new(token), AccountSettings::default()).unwrap()
}

fn message() -> Message {
    Message { data: Some(json!({"type": "alert", "data": {"text": "Беда"}})), ..Message::default() }
}

async fn call(account: &Account, target: String) -> Report {
    let settings = ChannelSettings { target, ..ChannelSettings::default() };
    let rendered = Webhook.render(&Action::Send, &message(), &settings).unwrap();
    let sending = Sending {
        part: &rendered.parts[0],
        key: "история.7.0/ключ",
        earlier: &[],
        media: &NoMedia,
        budget: &Unlimited,
        deadlines: Deadlines { request: std::time::Duration::from_millis(700), ..Deadlines::default() },
    };
    Webhook.send(&Network::default(), account, sending).await
}

#[test]
fn the_signature_is_the_one_of_the_standard() {
    let body = br#"{"test": 2432232314}"#;
    let signed = [b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.".as_slice(), body].concat();
    let signature = Token::new(SECRET).signature(&signed).unwrap();
    assert_eq!(signature, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!(Token::new(UNSIGNED).signature(&signed), None);
}

#[test]
fn a_secret_is_whsec_and_base64_and_nothing_else() {
    assert!(Webhook.accepts_token(SECRET) && Webhook.accepts_token(UNSIGNED));
    assert_eq!(signing_key("whsec_AAEC").as_deref(), Some([0, 1, 2].as_slice()));
    assert_eq!(signing_key("whsec_AAECAw==").as_deref(), Some([0, 1, 2, 3].as_slice()));
    for wrong in ["", "whsec_", "whsec_???", "whsec_A", "секрет", "AAEC"] {
        assert!(!Webhook.accepts_token(wrong), "{wrong}");
    }
}

#[tokio::test]
async fn a_call_carries_its_id_its_time_and_a_signature_that_fits_the_body() {
    let server = RawServer::start(vec![Act::json(204, "")]).await;
    let report = call(&account(SECRET), server.url("/hooks?a=b")).await;
    assert!(matches!(report.outcome, Outcome::Sent(_)), "{report:?}");
    let request = server.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}: ")));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned())
    };
    assert!(head.starts_with("POST /hooks?a=b "), "{head}");
    let (id, at) = (header("webhook-id").unwrap(), header("webhook-timestamp").unwrap());
    assert_eq!(report.ids, std::slice::from_ref(&id));
    let expected = Token::new(SECRET).signature(format!("{id}.{at}.{body}").as_bytes()).unwrap();
    assert_eq!(header("webhook-signature"), Some(format!("v1,{expected}")));
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap(), message().data.unwrap());
    assert!(!request.contains("MfKQ9r8"), "the secret stays here");

    let server = RawServer::start(vec![Act::json(200, "")]).await;
    call(&account(UNSIGNED), server.url("/")).await;
    assert!(!server.requests().remove(0).to_lowercase().contains("webhook-signature"));
}

#[tokio::test]
async fn every_answer_has_its_meaning() {
    let check = async |act: Act, category, scope, code: &str, certainty| {
        let server = RawServer::start(vec![act]).await;
        let report = call(&account(SECRET), server.url("/hook")).await;
        let Outcome::Failed(failure) = report.outcome else { panic!("{code}: {report:?}") };
        assert_eq!((failure.category, failure.scope, failure.code.as_str()), (category, scope, code));
        assert_eq!(failure.certainty, certainty, "{code}");
        assert_eq!(server.n_connections(), 1, "{code}: once");
    };
    use Category::{Permanent, Transient};
    use Certainty::{NotSent, Unknown};
    let away = http_with(302, &[("Location", "http://169.254.169.254/latest")], b"");
    check(Act::Bytes(away), Permanent, Scope::Channel, "webhook.redirect", NotSent).await;
    check(Act::json(410, ""), Permanent, Scope::Channel, "webhook.gone", NotSent).await;
    check(Act::json(404, ""), Permanent, Scope::Channel, "webhook.refused", NotSent).await;
    check(Act::json(400, ""), Permanent, Scope::Delivery, "webhook.refused", NotSent).await;
    check(Act::json(429, ""), Transient, Scope::Channel, "429", NotSent).await;
    check(Act::json(500, ""), Transient, Scope::Platform, "500", Unknown).await;
    check(Act::ReadThenHang, Transient, Scope::Platform, "timeout", Unknown).await;
}

#[tokio::test]
async fn an_address_inside_our_own_network_is_never_called() {
    for target in ["https://10.0.0.1/hook", "https://169.254.169.254/latest", "https://192.168.1.1:443/"] {
        let report = call(&account(SECRET), target.into()).await;
        let Outcome::Failed(failure) = report.outcome else { panic!("{target}") };
        assert_eq!((failure.code.as_str(), failure.scope), ("webhook.address", Scope::Channel), "{target}");
    }
    for target in ["http://example.org/", "ftp://127.0.0.1/", "https://user:pass@example.org/", "hook", ""] {
        let settings = ChannelSettings { target: target.into(), ..ChannelSettings::default() };
        let refused = Webhook.render(&Action::Send, &message(), &settings).unwrap_err();
        assert!(refused.to_string().contains("https://"), "{target}: {refused}");
        assert!(!refused.to_string().contains("user:pass"), "{refused}");
    }
}

#[tokio::test]
async fn a_service_is_asked_signed_and_its_answer_is_an_object_or_a_reason() {
    let settings =
        |server: &RawServer| AccountSettings { api_base: Some(server.url("/orders")), ..Default::default() };
    let asked = async |act: Act| {
        let server = RawServer::start(vec![act]).await;
        let account = Account::new(&Webhook, Token::new(SECRET), settings(&server)).unwrap();
        let patience = std::time::Duration::from_millis(700);
        let said = ask(&Network::default(), &account, "h.call.7", json!({"order": "AB-1"}), patience).await;
        assert_eq!(server.n_connections(), 1, "once");
        (said, server.requests().pop().unwrap_or_default())
    };
    let (said, request) = asked(Act::json(200, r#"{"status": "в пути"}"#)).await;
    assert_eq!(said.unwrap(), json!({"status": "в пути"}));
    assert!(request.starts_with("POST /orders "), "{request}");
    assert!(request.contains("webhook-id: msg_h_call_7") && request.contains("webhook-signature: v1,"));
    let html = http_with(200, &[("Content-Type", "text/html")], b"<html>sorry</html>");
    let away = http_with(302, &[("Location", "http://169.254.169.254/latest")], b"");
    let large = format!(r#"{{"a": "{}"}}"#, "x".repeat(ANSWER_BYTES_MAX));
    for (act, again, reason) in [
        (Act::Bytes(html), false, "its answer is text/html, not JSON"),
        (Act::json(200, "[1]"), false, "its answer is no JSON object"),
        (Act::json(200, "{"), false, "its answer is not JSON"),
        (Act::json(200, &large), false, "its answer is larger than 64 KiB"),
        (Act::Bytes(away), false, "status 302: calls are not redirected"),
        (Act::json(404, "{}"), false, "status 404"),
        (Act::json(503, "{}"), true, "status 503"),
        (Act::json(429, "{}"), true, "status 429"),
        (Act::ReadThenHang, true, "no answer in time"),
    ] {
        let (said, _) = asked(act).await;
        assert_eq!(said.unwrap_err(), Unanswered { reason: reason.into(), again });
    }
}
