use bytes::Bytes;

use super::*;
use crate::testing::rows::{self, short};
use crate::transport::{Body, Cut, Trouble, TroubleKind};

#[test]
fn every_error_row_of_the_sheet_means_what_it_says() {
    let rows = rows::vk();
    assert_eq!(rows.len(), 147);
    rows::check(&rows, classify);
}

#[test]
fn no_code_stands_in_the_table_twice() {
    let mut codes: Vec<i64> = ROWS.iter().flat_map(|(codes, _)| codes.iter().copied()).collect();
    let n_codes = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), n_codes);
}

fn check(answer: Answer, expected: &str) {
    let exchange = Ok(answer);
    assert_eq!(short(&classify(Purpose::Send, &exchange)), expected, "{exchange:?}");
}

#[test]
fn answers_that_are_not_vks_own_never_count_as_sent() {
    check(Answer::new(200, "text/html", "<html>welcome</html>"), "T A wrong_content_type unknown");
    check(Answer::new(200, "application/json", "{\"resp"), "T A not_json unknown");
    check(Answer::new(200, "application/json", r#"{"hello":"world"}"#), "T D wrong_shape unknown");
    check(Answer::new(200, "application/json", r#"{"error":"odd"}"#), "T D wrong_shape unknown");
    check(Answer::new(502, "text/html", "<html>"), "T A 502 unknown");
    check(Answer::new(404, "text/html", "<html>"), "P A 404");
    check(Answer::new(414, "text/html", "<html>"), "P D 414");
    check(Answer::new(429, "text/html", "<html>"), "T A 429 1000");
    check(Answer::new(302, "text/html", ""), "T A redirect");
}

#[test]
fn a_cut_success_proves_nothing() {
    for why in [Cut::Broken, Cut::Slow, Cut::TooLarge] {
        let body = Body::Cut { read: Bytes::from_static(b"{\"response\":{\"post_id\":"), why };
        check(Answer { body, ..Answer::new(200, "application/json", "") }, "T D cut unknown");
    }
}

#[test]
fn a_success_is_done_with_its_response() {
    let answer = Answer::new(200, "application/json; charset=utf-8", r#"{"response":{"post_id":7}}"#);
    assert_eq!(classify(Purpose::Send, &Ok(answer)), Verdict::Done(json!({"post_id": 7})));
}

#[test]
fn a_captcha_keeps_the_address_that_a_person_has_to_open() {
    let error = json!({"error": {"error_code": 14, "error_msg": "Captcha needed", "captcha_sid": "1",
        "captcha_img": "https://vk.test/captcha.jpg", "redirect_uri": "https://id.vk.test/not_robot"}});
    let answer = Answer::new(200, "application/json", error.to_string());
    let Verdict::Failed(failure) = classify(Purpose::Send, &Ok(answer)) else { panic!() };
    assert_eq!(failure.raw["redirect_uri"], json!("https://id.vk.test/not_robot"));
}

#[test]
fn trouble_before_the_request_is_certain_and_after_it_is_not() {
    let verdict = |trouble| short(&classify(Purpose::Send, &Err(trouble)));
    assert_eq!(verdict(Trouble::not_sent(TroubleKind::Refused, "x")), "T A refused");
    assert_eq!(verdict(Trouble::ambiguous(TroubleKind::Reset, "x")), "T D reset unknown");
}
