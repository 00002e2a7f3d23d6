//! Every fault kind of the sandbox, on every platform: the verdict of reliability §2.2, and one request for one send.

use std::time::Duration;

use domain::message::Message;
use platforms::part::Action;
use sandbox::Name;
use sandbox::faults::{KINDS, Kind};
use serde_json::{Value, json};

use crate::world::{Side, Store, World, short};

/// Long enough for a loopback server, short enough to wait for one that hangs.
const IMPATIENT: Duration = Duration::from_millis(700);

/// What each kind must mean on Telegram.
const TELEGRAM: &[(&str, &str)] = &[
    ("429", "T C 429 37000"),
    ("500", "T A 500 unknown"),
    ("502", "T A 502 unknown"),
    ("503", "T A 503 37000 unknown"),
    ("504", "T A 504 unknown"),
    ("401", "P A 401"),
    ("403", "P C not_a_member"),
    ("404", "P A 404"),
    ("kicked", "P C kicked gone"),
    ("blocked", "P C blocked gone"),
    ("chat_not_found", "P C chat_not_found"),
    ("refuse", "T D reset unknown"),
    ("hang", "T D timeout unknown"),
    ("reset_before_read", "T D reset unknown"),
    ("reset_after_read", "T D reset unknown"),
    ("accept_then_reset", "T D reset unknown"),
    ("accept_then_hang", "T D timeout unknown"),
    ("accept_then_500", "T A 500 unknown"),
    ("half_body", "sent blind"),
    ("slow_drip", "T D timeout unknown"),
    ("garbage", "T D not_http unknown"),
    ("wrong_shape", "T D wrong_shape unknown"),
    ("wrong_content_type", "T A wrong_content_type unknown"),
    ("redirect", "T A redirect"),
    ("truncated_gzip", "sent blind"),
];

/// What each kind must mean for a post on a VK wall.
const VK: &[(&str, &str)] = &[
    ("429", "T A vk:6 1000"),
    ("500", "T D vk:10 unknown"),
    ("502", "T A 502 unknown"),
    ("503", "T A 503 37000 unknown"),
    ("504", "T A 504 unknown"),
    ("401", "P A vk:5"),
    ("403", "P C vk:214"),
    ("404", "P D vk:104"),
    ("kicked", "P C vk:214"),
    ("blocked", "P C vk:214"),
    ("chat_not_found", "P C vk:214"),
    ("vk_error", "T A vk:9 3600000"),
    ("captcha", "T A vk:14 3600000"),
    ("attachment_not_ready", "T D vk:22"),
    ("refuse", "T D reset unknown"),
    ("hang", "T D timeout unknown"),
    ("reset_before_read", "T D reset unknown"),
    ("reset_after_read", "T D reset unknown"),
    ("accept_then_reset", "T D reset unknown"),
    ("accept_then_hang", "T D timeout unknown"),
    ("accept_then_500", "T D vk:10 unknown"),
    ("half_body", "T D cut unknown"),
    ("slow_drip", "T D timeout unknown"),
    ("garbage", "T D not_http unknown"),
    ("wrong_shape", "T D wrong_shape unknown"),
    ("wrong_content_type", "T A wrong_content_type unknown"),
    ("redirect", "T A redirect"),
    ("truncated_gzip", "T D cut unknown"),
];

/// What each kind must mean on MAX.
const MAX: &[(&str, &str)] = &[
    ("429", "T C too.many.requests 37000"),
    ("500", "T A internal.error unknown"),
    ("502", "T A 502 unknown"),
    ("503", "T A 503 37000 unknown"),
    ("504", "T A 504 unknown"),
    ("401", "P A verify.token"),
    ("403", "P C chat.denied"),
    ("404", "P D not.found"),
    ("kicked", "P C chat.denied"),
    ("blocked", "P C chat.denied gone"),
    ("chat_not_found", "P C chat.not.found gone"),
    ("attachment_not_ready", "T D attachment.not.ready"),
    ("refuse", "T A reset unknown"),
    ("hang", "T A timeout unknown"),
    ("reset_before_read", "T A reset unknown"),
    ("reset_after_read", "T A reset unknown"),
    ("accept_then_reset", "T A reset unknown"),
    ("accept_then_hang", "T A timeout unknown"),
    ("accept_then_500", "T A internal.error unknown"),
    ("half_body", "sent blind"),
    ("slow_drip", "T A timeout unknown"),
    ("garbage", "T A not_http unknown"),
    ("wrong_shape", "T D wrong_shape unknown"),
    ("wrong_content_type", "T A wrong_content_type unknown"),
    ("redirect", "T A redirect"),
    ("truncated_gzip", "sent blind"),
];

async fn check(side: &Side<'_>, kind: &str, expected: &str) {
    let mut fault = json!({"platform": side.name.as_str(), "kind": kind, "times": 1});
    if matches!(kind, "429" | "503") {
        fault["retry_after"] = json!(37);
    }
    if kind == "vk_error" {
        fault["code"] = json!(9);
    }
    side.world.arm(&fault);
    let part = side.render(&Action::Send, &Message::text(format!("Пропала собака, {kind}"))).remove(0);
    let before = side.world.rows(side.name).len();
    let report = side.send_within(&part, kind, &[], &Store::default(), IMPATIENT).await;
    let rows = side.world.rows(side.name).split_off(before);
    assert_eq!(rows.len(), 1, "{kind}: one send is one request: {rows:?}");
    assert_eq!(rows[0].fault, Some(kind), "the fault has struck");
    // A reset may be seen as a closed connection or a broken pipe, depending on who is faster.
    let seen = short(&report).replace("closed", "reset").replace("broken", "reset");
    assert_eq!(seen, expected, "{:?} {kind}: {report:?}", side.name);
    if rows[0].accepted {
        assert!(!seen.starts_with("P "), "{kind}: something visible must not be called refused");
        assert!(seen.starts_with("sent") || seen.ends_with("unknown"), "{kind}: {seen}");
    } else {
        assert!(!seen.starts_with("sent"), "{kind}: nothing is visible, so nothing was sent");
    }
}

async fn check_all(name: Name, table: &[(&str, &str)], not_here: &[&str]) {
    let world = World::start().await;
    let side = world.side(name);
    for (kind, expected) in table {
        check(&side, kind, expected).await;
    }
    let known =
        KINDS.iter().filter(|(_, kind, _)| !matches!(kind, Kind::DuplicateUpdate | Kind::WrongSecret));
    let mut missing: Vec<&str> = known.map(|(kind, _, _)| *kind).collect();
    missing.retain(|kind| !table.iter().any(|(tested, _)| tested == kind) && !not_here.contains(kind));
    assert!(missing.is_empty(), "{name:?}: kinds without a verdict: {missing:?}");
}

#[tokio::test]
async fn every_fault_has_its_verdict_on_telegram() {
    check_all(Name::Telegram, TELEGRAM, &["vk_error", "captcha", "attachment_not_ready"]).await;
}

#[tokio::test]
async fn every_fault_has_its_verdict_on_vk() {
    check_all(Name::Vk, VK, &[]).await;
}

#[tokio::test]
async fn every_fault_has_its_verdict_on_max() {
    check_all(Name::Max, MAX, &["vk_error", "captcha"]).await;
}

#[tokio::test]
async fn a_post_of_unknown_outcome_is_shown_once_because_its_key_is_the_same() {
    let world = World::start().await;
    let wall = world.side(Name::Vk);
    let dialogue = world.side(Name::Vk).in_chat("11", domain::chat::ChatKind::Private);
    for side in [wall, dialogue] {
        world.arm(&json!({"platform": "vk", "kind": "accept_then_reset", "times": 1}));
        let part = side.render(&Action::Send, &Message::text("Пропала собака")).remove(0);
        let before = world.rows(Name::Vk).len();
        let lost = side.send(&part, "d7/0", &Store::default()).await;
        assert!(short(&lost).ends_with("unknown"), "{lost:?}");
        let again = side.send(&part, "d7/0", &Store::default()).await;
        assert_eq!(short(&again), "sent");
        let rows = world.rows(Name::Vk).split_off(before);
        assert_eq!(rows[0].visible_id, rows[1].visible_id, "a reader sees one");
    }
}

#[tokio::test]
async fn a_flood_wait_is_read_in_every_spelling() {
    let world = World::start().await;
    let side = world.side(Name::Telegram);
    let waits = [
        (json!(0), "T C 429 1000"),
        (json!(1), "T C 429 1000"),
        (json!(37), "T C 429 37000"),
        (json!(3600), "T C 429 3600000"),
        (json!(1_000_000_000), "T C 429 86400000"),
        (json!(-1), "T C 429 5000"),
        (json!("12"), "T C 429 12000"),
        (json!(1.5), "T C 429 1500"),
        (Value::Null, "T C 429 5000"),
    ];
    for (wait, expected) in waits {
        world.arm(&json!({"platform": "telegram", "kind": "429", "times": 1, "retry_after": wait}));
        let part = side.render(&Action::Send, &Message::text("да")).remove(0);
        let report = side.send(&part, "k", &Store::default()).await;
        assert_eq!(short(&report), expected, "{wait}");
    }
}
