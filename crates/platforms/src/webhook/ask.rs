//! One question to a shop's own service, once: signed like every call, and unlike one it has an answer that is read.

use std::time::Duration;

use serde_json::Value;

use super::checked;
use super::send::signed;
use crate::platform::{Account, Network};
use crate::transport::{Body, Cut, Exchange, TroubleKind};

/// How long a service may take.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Bytes of its answer.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why there is no answer, in words for whoever runs the service. It never repeats an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    pub reason: String,
    /// Asking again may help.
    pub again: bool,
}

impl Unanswered {
    fn now(reason: impl Into<String>) -> Unanswered {
        Unanswered { reason: reason.into(), again: true }
    }

    fn for_good(reason: impl Into<String>) -> Unanswered {
        Unanswered { reason: reason.into(), again: false }
    }
}

/// Asks the service at the address of its account. `key` is the same however often it is asked.
pub async fn ask(
    network: &Network,
    account: &Account,
    key: &str,
    question: Value,
    patience: Duration,
) -> Result<Value, Unanswered> {
    let url = checked(account.api_base.as_str())
        .map_err(|_| Unanswered::for_good("its address is neither https nor on this machine"))?;
    let (_, request) = signed(network, account, url, key, question, patience);
    understood(&network.egress.send(&account.route, request.answer_bytes_max(ANSWER_BYTES_MAX)).await)
}

/// What an exchange means. Pure.
fn understood(exchange: &Exchange) -> Result<Value, Unanswered> {
    let answer = match exchange {
        Ok(answer) => answer,
        Err(trouble) => {
            return Err(match trouble.kind {
                TroubleKind::Guard => {
                    Unanswered::for_good("its address leads into a private or local network")
                }
                TroubleKind::Deadline => Unanswered::now("no answer in time"),
                _ => Unanswered::now(format!("it cannot be reached: {}", trouble.message)),
            });
        }
    };
    let status = answer.status;
    match status {
        200..=299 => {}
        300..=399 => return Err(Unanswered::for_good(format!("status {status}: calls are not redirected"))),
        408 | 425 | 429 | 500.. => return Err(Unanswered::now(format!("status {status}"))),
        _ => return Err(Unanswered::for_good(format!("status {status}"))),
    }
    let bytes = match &answer.body {
        Body::Whole(bytes) => bytes,
        Body::Cut { why: Cut::TooLarge, .. } => {
            let kib = ANSWER_BYTES_MAX / 1_024;
            return Err(Unanswered::for_good(format!("its answer is larger than {kib} KiB")));
        }
        Body::Cut { why: Cut::Slow, .. } => return Err(Unanswered::now("no answer in time")),
        Body::Cut { why: Cut::Broken, .. } => return Err(Unanswered::now("its answer broke off")),
    };
    match serde_json::from_slice(bytes) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Unanswered::for_good("its answer is no JSON object")),
        Err(_) if !answer.says_json() => {
            let kind = answer.header("content-type").unwrap_or_default();
            let kind: String = kind.chars().filter(|c| !c.is_control()).take(60).collect();
            Err(Unanswered::for_good(format!("its answer is {kind}, not JSON")))
        }
        Err(_) => Err(Unanswered::for_good("its answer is not JSON")),
    }
}
