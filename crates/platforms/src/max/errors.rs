//! What MAX's answers mean: one pure table from (status, dotted code, message) to a verdict.
//!
//! MAX has a second channel for refusals: HTTP 200 with `success: false` (docs/platforms/max, errors).

use domain::outcome::{CODE_NOT_READY, Category, Failure, Scope};
use serde_json::Value;

use crate::transport::{Answer, Exchange};
use crate::verdict::{
    Purpose, Verdict, cut_success, foreign_refusal, foreign_success, from_gateway, from_trouble, header_wait,
    permanent, raw, shorten, transient,
};

/// A flood reply without a wait; two a second is the limit of a chat, and hammering has led to bans.
const FLOOD_WAIT_MS: i64 = 5_000;
/// A blocked bot account is looked at again after ten minutes.
const BLOCKED_WAIT_MS: i64 = 600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Refused(Scope),
    /// Refused, and the recipient is lost.
    Gone,
    /// The upload is still being processed: the same request succeeds later.
    NotReady,
    Wait(Scope, i64),
    /// The server failed; it may have been done.
    AgainUnknown,
}

use Means::{AgainUnknown, Gone, NotReady, Refused, Wait};
use Scope::{Channel, Delivery, Platform};

/// Dotted code, text in the message (empty for any), meaning. The first row that fits counts.
const ROWS: &[(&str, &str, Means)] = &[
    ("", ".not.processed", NotReady),
    (CODE_NOT_READY, "", NotReady),
    ("verify.token", "", Refused(Platform)),
    ("account.blocked", "", Wait(Platform, BLOCKED_WAIT_MS)),
    ("chat.denied", "dialog.suspended", Gone),
    ("chat.denied", "dialogs.suspended", Gone),
    ("chat.denied", "", Refused(Channel)),
    ("access.denied", "", Refused(Delivery)),
    ("chat.not.found", "", Gone),
    (NOT_FOUND, "", Refused(Delivery)),
    ("proto.payload", "", Refused(Delivery)),
    ("upload.error", "", Refused(Delivery)),
    ("too.many.requests", "", Wait(Channel, FLOOD_WAIT_MS)),
    ("internal.error", "", AgainUnknown),
    ("service.unavailable", "", AgainUnknown),
];

const NOT_FOUND: &str = "not.found";

/// What an exchange with MAX means.
pub fn classify(purpose: Purpose, exchange: &Exchange) -> Verdict {
    let verdict = match exchange {
        Err(trouble) => Verdict::Failed(from_trouble(trouble, Platform)),
        Ok(answer) => classify_answer(purpose, answer),
    };
    verdict.for_purpose(purpose)
}

fn classify_answer(purpose: Purpose, answer: &Answer) -> Verdict {
    // Only a sent message has a status that proves it: the other methods also refuse with 200.
    if let Some(verdict) = cut_success(answer, purpose == Purpose::Send) {
        return verdict;
    }
    let body = serde_json::from_slice::<Value>(answer.bytes()).ok().filter(Value::is_object);
    match body {
        Some(body) if answer.is_success() && answer.says_json() => match body["success"].as_bool() {
            Some(false) => refused_softly(answer, &body),
            _ => Verdict::Done(body),
        },
        _ if answer.is_success() => Verdict::Failed(foreign_success(answer)),
        Some(body) if body["code"].is_string() => refused(purpose, answer, &body),
        _ => refused_without_code(answer),
    }
}

/// Whether a refusal can come from the token of something that was uploaded earlier.
pub fn blames_attachment(failure: &Failure) -> bool {
    let lower = failure.message.to_lowercase();
    failure.category == Category::Permanent
        && failure.scope == Delivery
        && ["token", "attachment", "photo", "payload"].iter().any(|word| lower.contains(word))
}

/// MAX refused in its own words.
fn refused(purpose: Purpose, answer: &Answer, body: &Value) -> Verdict {
    let code = shorten(body["code"].as_str().unwrap_or_default());
    // An empty code says nothing; then the status is the code.
    let code = if code.trim().is_empty() { answer.status.to_string() } else { code };
    let message = shorten(body["message"].as_str().unwrap_or_default());
    if code == NOT_FOUND && purpose == Purpose::Delete {
        return Verdict::Done(serde_json::json!({ "success": true }));
    }
    let failure = match find_row(&code, &message) {
        Some(means) => failure_of(means, &code, answer),
        None => by_status(answer, &code),
    };
    let message = if message.is_empty() { format!("max refused with {code}") } else { message };
    Verdict::Failed(Failure { message, raw: raw(answer), ..failure })
}

fn find_row(code: &str, message: &str) -> Option<Means> {
    let fits = |row: &&(&str, &str, Means)| (row.0.is_empty() || row.0 == code) && message.contains(row.1);
    ROWS.iter().find(fits).map(|(_, _, means)| *means)
}

fn failure_of(means: Means, code: &str, answer: &Answer) -> Failure {
    match means {
        Refused(scope) => permanent(scope, code, ""),
        Gone => Failure { recipient_gone: true, ..permanent(Channel, code, "") },
        NotReady => transient(Delivery, CODE_NOT_READY, ""),
        Wait(scope, ms) => transient(scope, code, "").retry_after(header_wait(answer).unwrap_or(ms)),
        AgainUnknown => {
            let failure = transient(Platform, code, "").unknown();
            header_wait(answer).map_or(failure.clone(), |ms| failure.retry_after(ms))
        }
    }
}

/// A code that nobody has seen yet: the status decides.
fn by_status(answer: &Answer, code: &str) -> Failure {
    match answer.status {
        401 => permanent(Platform, code, ""),
        _ => match from_gateway(answer, FLOOD_WAIT_MS) {
            Some(failure) => Failure { code: code.to_owned(), ..failure },
            None => permanent(Delivery, code, ""),
        },
    }
}

/// A refusal that is not MAX's JSON: plain text from MAX itself for 401, a gateway's page otherwise.
fn refused_without_code(answer: &Answer) -> Verdict {
    let failure = match answer.status {
        401 => permanent(Platform, "401", "max refused the token").with_raw(raw(answer)),
        405 => permanent(Delivery, "405", "max refused the method").with_raw(raw(answer)),
        _ => from_gateway(answer, FLOOD_WAIT_MS).unwrap_or_else(|| foreign_refusal(answer)),
    };
    Verdict::Failed(failure)
}

/// HTTP 200 with `success: false`: edits, deletions, pins and answers are refused this way.
fn refused_softly(answer: &Answer, body: &Value) -> Verdict {
    let message = shorten(body["message"].as_str().unwrap_or_default());
    let failure = match find_row("", &message) {
        Some(NotReady) => transient(Delivery, CODE_NOT_READY, ""),
        _ => permanent(Delivery, "refused", ""),
    };
    let message = if message.is_empty() { "max refused and gave no reason".to_owned() } else { message };
    Verdict::Failed(Failure { message, raw: raw(answer), ..failure })
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
