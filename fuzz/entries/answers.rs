//! Any bytes become an answer of a server or a trouble of the transport, and the tables must give a sane verdict.
//!
//! Byte 0 chooses platform and purpose, byte 1 how the answer ends, bytes 2 and 3 are the status; the rest is the body.

use domain::limits::{ERROR_TEXT_MAX, RETRY_AFTER_MAX};
use domain::outcome::{Category, Certainty, Failure, Outcome};
use platforms::transport::{Answer, Body, Cut, Exchange, Trouble, TroubleKind};
use platforms::verdict::{Purpose, Verdict};
use platforms::{max, telegram, vk};

/// Panics when a verdict breaks a rule; that is what the fuzzer looks for.
pub(super) fn run(bytes: &[u8]) {
    let [choice, ending, high, low, body @ ..] = bytes else { return };
    let classify = match choice % 3 {
        0 => telegram::errors::classify,
        1 => vk::errors::classify,
        _ => max::errors::classify,
    };
    let purpose = Purpose::ALL[usize::from(choice / 3) % Purpose::ALL.len()];
    let exchange = exchange(*ending, u16::from_be_bytes([*high, *low]) % 700, body);
    let verdict = classify(purpose, &exchange);
    assert_eq!(verdict, classify(purpose, &exchange), "the tables are pure");
    check(purpose, &exchange, &verdict);
}

fn exchange(ending: u8, status: u16, body: &[u8]) -> Exchange {
    let kind = TroubleKind::ALL[usize::from(ending / 8) % TroubleKind::ALL.len()];
    match ending % 8 {
        0 => return Err(Trouble::not_sent(kind, "early")),
        1 => return Err(Trouble::ambiguous(kind, "late")),
        _ => {}
    }
    let content_type = if ending & 64 == 0 { "application/json" } else { "text/html" };
    let mut answer = Answer::new(status, content_type, body.to_vec());
    if ending & 128 != 0 {
        let wait = String::from_utf8_lossy(&body[..body.len().min(8)]).into_owned();
        answer.headers.push(("retry-after".to_owned(), wait));
    }
    let cut = |why| Body::Cut { read: body.to_vec().into(), why };
    match ending % 8 {
        2 => answer.body = cut(Cut::Broken),
        3 => answer.body = cut(Cut::Slow),
        4 => answer.body = cut(Cut::TooLarge),
        _ => {}
    }
    Ok(answer)
}

fn check(purpose: Purpose, exchange: &Exchange, verdict: &Verdict) {
    let whole = matches!(exchange, Ok(Answer { body: Body::Whole(_), .. }));
    match (verdict, exchange) {
        (Verdict::Done(_), Ok(answer)) => {
            assert!(whole || !answer.is_success(), "a cut success is never done with a result");
            let is_json = serde_json::from_slice::<serde_json::Value>(answer.bytes()).is_ok();
            assert!(is_json, "only JSON can say that something is done");
        }
        (Verdict::DoneBlind, Ok(answer)) => {
            assert!(!whole && answer.is_success() && answer.says_json() && purpose.is_visible());
        }
        (Verdict::Done(_) | Verdict::DoneBlind, Err(trouble)) => panic!("{trouble:?} is no success"),
        (Verdict::Failed(failure), _) => check_failure(purpose, exchange, failure),
    }
}

fn check_failure(purpose: Purpose, exchange: &Exchange, failure: &Failure) {
    if !purpose.is_visible() {
        assert_eq!(failure.certainty, Certainty::NotSent, "what nobody can see is never unknown");
    } else if let Err(trouble) = exchange {
        assert_eq!(failure.certainty, trouble.certainty);
    } else if let Ok(answer) = exchange {
        let is_json = serde_json::from_slice::<serde_json::Value>(answer.bytes()).is_ok();
        if (answer.is_success() || answer.status >= 500) && !is_json {
            assert_eq!(failure.certainty, Certainty::Unknown, "nobody refused it: {answer:?}");
        }
    }
    if failure.certainty == Certainty::Unknown && failure.category == Category::Permanent {
        assert!(failure.code != "timeout", "an unknown outcome is worth a look");
    }
    let wait = failure.retry_after_ms;
    assert!(wait.is_none_or(|ms| (1_000..=RETRY_AFTER_MAX.millis()).contains(&ms)), "{wait:?}");
    assert!(!failure.code.is_empty() && failure.message.chars().count() <= ERROR_TEXT_MAX);
    let json = serde_json::to_string(&Outcome::Failed(failure.clone())).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Outcome>(&json).ok(), Some(Outcome::Failed(failure.clone())));
}
