use bytes::Bytes;

use super::*;
use crate::testing::rows::{self, short};
use crate::transport::{Body, Cut, Trouble, TroubleKind};

#[test]
fn every_error_row_of_the_sheet_means_what_it_says() {
    let rows = rows::max();
    assert_eq!(rows.len(), 43);
    rows::check(&rows, classify);
}

fn check(answer: Answer, expected: &str) {
    let exchange = Ok(answer);
    assert_eq!(short(&classify(Purpose::Send, &exchange)), expected, "{exchange:?}");
}

#[test]
fn answers_that_are_not_maxs_own_never_count_as_sent() {
    check(Answer::new(200, "text/html", "<html>welcome</html>"), "T A wrong_content_type unknown");
    check(Answer::new(200, "application/json", "{\"mess"), "T A not_json unknown");
    check(Answer::new(200, "application/json", "[1]"), "T D wrong_shape unknown");
    check(Answer::new(403, "text/html", "<html>"), "P A 403");
    check(Answer::new(413, "text/html", "<html>"), "P D 413");
    check(Answer::new(307, "text/html", ""), "T A redirect");
}

#[test]
fn a_cut_success_proves_a_message_but_nothing_else() {
    let body = Body::Cut { read: Bytes::from_static(b"{\"message\":{"), why: Cut::Broken };
    let answer = Answer { body, ..Answer::new(200, "application/json", "") };
    check(answer.clone(), "done_blind");
    for purpose in [Purpose::Edit, Purpose::Delete, Purpose::Pin] {
        assert_eq!(short(&classify(purpose, &Ok(answer.clone()))), "T D cut unknown");
    }
}

#[test]
fn a_missing_root_certificate_pauses_the_account() {
    let verdict = |trouble| short(&classify(Purpose::Send, &Err(trouble)));
    assert_eq!(verdict(Trouble::not_sent(TroubleKind::UnknownIssuer, "x")), "P A unknown_issuer");
    assert_eq!(verdict(Trouble::not_sent(TroubleKind::Connect, "x")), "T A connect");
    assert_eq!(verdict(Trouble::ambiguous(TroubleKind::Deadline, "x")), "T A timeout unknown");
}
