use bytes::Bytes;

use super::*;
use crate::testing::rows::{self, short};
use crate::transport::{Body, Cut, Trouble, TroubleKind};

#[test]
fn every_error_row_of_the_sheet_means_what_it_says() {
    let rows = rows::telegram();
    assert_eq!(rows.len(), 138);
    rows::check(&rows, classify);
}

fn check(answer: Answer, expected: &str) {
    let exchange = Ok(answer);
    assert_eq!(short(&classify(Purpose::Send, &exchange)), expected, "{exchange:?}");
}

#[test]
fn answers_that_are_not_telegrams_own_never_count_as_sent() {
    check(Answer::new(200, "text/html", "<html>welcome</html>"), "T A wrong_content_type unknown");
    check(Answer::new(200, "text/html", r#"{"ok":true,"result":{}}"#), "T A wrong_content_type unknown");
    check(Answer::new(200, "application/json", "{\"ok\":tr"), "T A not_json unknown");
    check(Answer::new(200, "application/json", ""), "T A not_json unknown");
    check(Answer::new(200, "application/json", r#"{"hello":"world"}"#), "T D wrong_shape unknown");
    check(Answer::new(200, "application/json", r#"{"ok":true}"#), "T D wrong_shape unknown");
    check(Answer::new(200, "application/json", "[]"), "T D wrong_shape unknown");
    check(Answer::new(502, "text/html", "<html>"), "T A 502 unknown");
    check(Answer::new(628, "text/html", "<html>"), "T A 628 unknown");
    check(Answer::new(101, "text/html", ""), "T A 101 unknown");
    check(Answer::new(403, "text/html", "<html>blocked by your provider</html>"), "P A 403");
    check(Answer::new(413, "text/html", "<html>"), "P D 413");
    check(Answer::new(429, "text/html", "<html>"), "T C 429 5000");
    for status in [301, 302, 303, 307, 308] {
        check(Answer::new(status, "text/html", ""), "T A redirect");
    }
}

#[test]
fn a_success_is_done_with_its_result() {
    let answer = Answer::new(200, "application/json", r#"{"ok":true,"result":{"message_id":7}}"#);
    assert_eq!(classify(Purpose::Send, &Ok(answer)), Verdict::Done(json!({"message_id": 7})));
}

#[test]
fn a_cut_success_was_sent_with_its_id_unknown() {
    for why in [Cut::Broken, Cut::Slow] {
        let body = Body::Cut { read: Bytes::from_static(b"{\"ok\":t"), why };
        let answer = Answer { body, ..Answer::new(200, "application/json", "") };
        check(answer, "done_blind");
    }
    let huge = Body::Cut { read: Bytes::new(), why: Cut::TooLarge };
    check(Answer { body: huge.clone(), ..Answer::new(200, "application/json", "") }, "T D cut unknown");
    check(Answer { body: huge, ..Answer::new(200, "text/html", "") }, "T D cut unknown");
    let cut = Body::Cut { read: Bytes::new(), why: Cut::Broken };
    check(Answer { body: cut, ..Answer::new(500, "application/json", "") }, "T A 500 unknown");
}

#[test]
fn the_new_id_of_a_moved_chat_is_kept() {
    let row = rows::telegram().into_iter().find(|row| row.expected.contains(CHAT_MIGRATED)).unwrap();
    let Verdict::Failed(failure) = classify(Purpose::Send, &Ok(row.answer)) else { panic!() };
    assert_eq!(failure.raw["migrate_to_chat_id"], json!(-1_001_234_567_890_i64));
}

#[test]
fn every_trouble_of_the_transport_has_its_verdict() {
    let verdicts: Vec<String> = TroubleKind::ALL
        .into_iter()
        .map(|kind| {
            let late = ["timeout", "reset", "closed", "not_http", "broken"].contains(&kind.code());
            let trouble = if late { Trouble::ambiguous(kind, "x") } else { Trouble::not_sent(kind, "x") };
            short(&classify(Purpose::Send, &Err(trouble)))
        })
        .collect();
    let expected = [
        "P A route",
        "P D request",
        "T A dns",
        "P D address_refused",
        "T A refused",
        "T A connect_timeout",
        "P A unknown_issuer",
        "T A tls",
        "T A connect",
        "T D timeout unknown",
        "T D reset unknown",
        "T D closed unknown",
        "T D not_http unknown",
        "T D broken unknown",
    ];
    assert_eq!(verdicts, expected);
}

#[test]
fn what_nobody_can_see_is_never_unknown() {
    for purpose in [Purpose::Read, Purpose::Upload] {
        let trouble = Trouble::ambiguous(TroubleKind::Deadline, "x");
        assert_eq!(short(&classify(purpose, &Err(trouble))), "T D timeout");
        assert_eq!(short(&classify(purpose, &Ok(Answer::new(500, "text/html", "")))), "T A 500");
    }
}

#[test]
fn an_outage_is_not_a_flood_and_a_flood_always_names_a_wait() {
    for row in rows::telegram() {
        let Verdict::Failed(failure) = classify(row.purpose, &Ok(row.answer.clone())) else { continue };
        assert_eq!(failure.is_flood(), failure.code == "429" && failure.scope == Channel, "{row:?}");
    }
}
