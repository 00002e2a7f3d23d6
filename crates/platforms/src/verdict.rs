//! What an exchange means, as far as all platforms agree (reliability §2.2). Pure: no clock, no network.
//!
//! Each platform has one table of its own in `{platform}/errors.rs`; this file holds what the tables share:
//! transport trouble, gateways that answer in a platform's stead, waits in every spelling.

use domain::limits::{ERROR_TEXT_MAX, RETRY_AFTER_MAX};
use domain::outcome::{Category, Certainty, Failure, Scope};
use serde_json::{Value, json};

use crate::transport::{Answer, Body, Cut, Trouble, TroubleKind};

/// What a request was for: it decides what some refusals mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Makes something visible: the only purpose whose repetition a reader can see.
    Send,
    Edit,
    Delete,
    Pin,
    /// Prepares media; nothing becomes visible.
    Upload,
    /// Asks; changes nothing.
    Read,
}

impl Purpose {
    pub const ALL: [Purpose; 6] =
        [Purpose::Send, Purpose::Edit, Purpose::Delete, Purpose::Pin, Purpose::Upload, Purpose::Read];

    /// Whether a reader could have seen something of a request that got no answer.
    pub fn is_visible(self) -> bool {
        !matches!(self, Purpose::Upload | Purpose::Read)
    }
}

/// What one exchange means.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The platform did it; this is its result.
    Done(Value),
    /// The platform did it, but the answer with the result was lost.
    DoneBlind,
    Failed(Failure),
}

impl Verdict {
    /// For requests without visible effect an unknown outcome is as good as none: they can be repeated freely.
    pub(crate) fn for_purpose(self, purpose: Purpose) -> Verdict {
        match self {
            Verdict::Failed(mut failure) if !purpose.is_visible() => {
                failure.certainty = Certainty::NotSent;
                Verdict::Failed(failure)
            }
            Verdict::DoneBlind if !purpose.is_visible() => Verdict::Failed(Failure::new(
                Category::Transient,
                Scope::Delivery,
                "cut",
                "the answer was cut short",
            )),
            other => other,
        }
    }
}

pub(crate) fn transient(scope: Scope, code: &str, message: impl Into<String>) -> Failure {
    Failure::new(Category::Transient, scope, code, message)
}

pub(crate) fn permanent(scope: Scope, code: &str, message: impl Into<String>) -> Failure {
    Failure::new(Category::Permanent, scope, code, message)
}

/// No answer came. `late` is the scope of whatever broke after the request may have left.
pub(crate) fn from_trouble(trouble: &Trouble, late: Scope) -> Failure {
    let (category, scope) = match trouble.kind {
        TroubleKind::Route | TroubleKind::UnknownIssuer => (Category::Permanent, Scope::Platform),
        TroubleKind::Request | TroubleKind::Guard => (Category::Permanent, Scope::Delivery),
        TroubleKind::Dns
        | TroubleKind::Refused
        | TroubleKind::ConnectTimeout
        | TroubleKind::Tls
        | TroubleKind::Connect => (Category::Transient, Scope::Platform),
        TroubleKind::Deadline
        | TroubleKind::Reset
        | TroubleKind::Closed
        | TroubleKind::NotHttp
        | TroubleKind::Broken => (Category::Transient, late),
    };
    let mut failure = Failure::new(category, scope, trouble.kind.code(), trouble.message.clone());
    failure.certainty = trouble.certainty;
    failure
}

/// Answers that no platform gives for itself: redirects, gateway errors, a flood limit of the front.
/// `None`: the platform's own table has to say.
pub(crate) fn from_gateway(answer: &Answer, flood_wait_ms: i64) -> Option<Failure> {
    let status = answer.status;
    let failure = match status {
        300..=399 => transient(
            Scope::Platform,
            "redirect",
            format!("status {status}: redirects are not followed; check the API base"),
        ),
        // Numbers that mean nothing refuse nothing either.
        0..=199 | 408 | 500.. => {
            let failure =
                transient(Scope::Platform, &status.to_string(), format!("server error {status}")).unknown();
            match header_wait(answer) {
                Some(ms) => failure.retry_after(ms),
                None => failure,
            }
        }
        429 => transient(Scope::Channel, "429", "too many requests")
            .retry_after(header_wait(answer).unwrap_or(flood_wait_ms)),
        _ => return None,
    };
    Some(failure.with_raw(raw(answer)))
}

/// A refusal that is not in the platform's own form: someone between us and the platform spoke.
pub(crate) fn foreign_refusal(answer: &Answer) -> Failure {
    let status = answer.status;
    let failure = match status {
        411 | 413 | 414 | 431 => permanent(Scope::Delivery, &status.to_string(), "the request is too large"),
        _ => permanent(
            Scope::Platform,
            &status.to_string(),
            format!("status {status} in a form that is not the platform's: a proxy or a wrong API base"),
        ),
    };
    failure.with_raw(raw(answer))
}

/// A success status without the platform's own success in it. Never counts as sent.
pub(crate) fn foreign_success(answer: &Answer) -> Failure {
    let (scope, code, message) = if !answer.says_json() {
        (Scope::Platform, "wrong_content_type", "the answer is not JSON: a proxy or a captive portal")
    } else if serde_json::from_slice::<Value>(answer.bytes()).is_err() {
        (Scope::Platform, "not_json", "the answer cannot be read as JSON")
    } else {
        (Scope::Delivery, "wrong_shape", "the answer is JSON of an unknown shape")
    };
    transient(scope, code, message).unknown().with_raw(raw(answer))
}

/// A success in the platform's envelope whose inside is not what was asked for.
pub(crate) fn shapeless(result: &Value) -> Failure {
    transient(Scope::Delivery, "wrong_shape", "the answer is JSON of an unknown shape")
        .unknown()
        .with_raw(json!({ "body": shorten(&result.to_string()) }))
}

/// A success status whose body was cut short. Where errors have a status of their own, the status alone proves it.
pub(crate) fn cut_success(answer: &Answer, status_proves: bool) -> Option<Verdict> {
    let Body::Cut { why, .. } = &answer.body else { return None };
    if !answer.is_success() {
        return None;
    }
    if status_proves && answer.says_json() && *why != Cut::TooLarge {
        return Some(Verdict::DoneBlind);
    }
    let failure = transient(Scope::Delivery, "cut", "the answer was cut short").unknown();
    Some(Verdict::Failed(failure.with_raw(raw(answer))))
}

/// The shortest wait that is believed: a flood reply with a zero would be asked again at once.
const WAIT_MIN_MS: i64 = 1_000;

/// A wait in seconds, in every spelling that has been seen: 37, 1.5, "12". Nonsense is `None`.
pub(crate) fn wait_ms(value: &Value) -> Option<i64> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse::<f64>().ok()?,
        _ => return None,
    };
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    let max_ms = RETRY_AFTER_MAX.millis();
    // The cast saturates, and the value is bounded right after it.
    #[expect(clippy::cast_possible_truncation, reason = "saturates, then clamped")]
    let ms = (seconds * 1_000.0).ceil() as i64;
    Some(ms.clamp(WAIT_MIN_MS, max_ms))
}

/// The `Retry-After` header in seconds. A date is not believed: this crate has no clock.
pub(crate) fn header_wait(answer: &Answer) -> Option<i64> {
    answer.header("retry-after").and_then(|text| wait_ms(&Value::String(text.to_owned())))
}

/// What is kept of an answer for people: status and the beginning of its body.
pub(crate) fn raw(answer: &Answer) -> Value {
    json!({ "status": answer.status, "body": text_of(answer.bytes()) })
}

/// The beginning of foreign bytes as text, without control characters.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    // Four bytes a character at most, so this many bytes always hold enough characters.
    let beginning = &bytes[..bytes.len().min(ERROR_TEXT_MAX * 4)];
    shorten(&String::from_utf8_lossy(beginning))
}

pub(crate) fn shorten(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ERROR_TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_in_every_spelling() {
        let check = |value: Value, expected: Option<i64>| assert_eq!(wait_ms(&value), expected, "{value}");
        check(json!(0), Some(1_000));
        check(json!(37), Some(37_000));
        check(json!(3600), Some(3_600_000));
        check(json!(1_000_000_000), Some(86_400_000));
        check(json!(1e308), Some(86_400_000));
        check(json!(-1), None);
        check(json!("12"), Some(12_000));
        check(json!(" 12 "), Some(12_000));
        check(json!(1.5), Some(1_500));
        check(json!("soon"), None);
        check(json!("NaN"), None);
        check(json!("inf"), None);
        check(json!(null), None);
        check(json!([3]), None);
        check(json!("Wed, 21 Oct 2015 07:28:00 GMT"), None);
    }

    #[test]
    fn foreign_texts_are_shortened_and_cleaned() {
        assert_eq!(text_of("а\r\n\u{1b}[31mб".as_bytes()), "а   [31mб");
        assert_eq!(text_of("ю".repeat(5_000).as_bytes()).chars().count(), ERROR_TEXT_MAX);
        assert_eq!(text_of(&[0xff, b'a']), "\u{fffd}a");
    }
}
