//! What VK's answers mean: one pure table from (error code, message) to a verdict.
//!
//! VK reports its errors inside HTTP 200, so a 2xx without a readable body proves nothing (reliability §2.2).
//! The code decides; where one code means several things, the message splits it (docs/platforms/vk).

use domain::outcome::{Category, Failure, Scope};
use serde_json::{Value, json};

use crate::transport::{Answer, Exchange};
use crate::verdict::{
    Purpose, Verdict, cut_success, foreign_refusal, foreign_success, from_gateway, from_trouble, permanent,
    raw, shorten, transient,
};

/// Too many requests in one second: the window is a second long.
const SECOND_MS: i64 = 1_000;
/// Flood control, quotas and captchas name no wait; an hour, then one request asks again.
const HOUR_MS: i64 = 3_600_000;

/// What a code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// The same request will be refused again.
    Refused(Scope),
    /// So it will, and the recipient is lost.
    Gone,
    /// Worth another try; nothing was done.
    Again,
    /// Worth another try; it may have been done.
    AgainUnknown,
    /// A wait for everyone in the scope.
    Wait(Scope, i64),
}

use Means::{Again, AgainUnknown, Gone, Refused, Wait};
use Scope::{Channel, Delivery, Platform};

/// Codes and their meaning. A code that is not here is refused for this delivery and keeps its text.
const ROWS: &[(&[i64], Means)] = &[
    (&[1, 10, 36], AgainUnknown),
    (&[2, 3, 4, 11, 16, 20, 21, 23, 34, 35, 38, 42, 101, 9999], Refused(Platform)),
    (&[5, 7, 24, 27, 28, 703, 704, 1117, 2000], Refused(Platform)),
    (&[6], Wait(Platform, SECOND_MS)),
    (&[9, 14, 17, 29, 1105, 3300, 3301, 3302, 3303, 3304, 3305, 3609], Wait(Platform, HOUR_MS)),
    (&[8, 12, 13, 33, 100, 103, 104, 114, 118, 119, 121, 122, 129, 150], Refused(Delivery)),
    (&[22, 32, 43, 105], Again),
    (&[18, 900, 901, 902], Gone),
    (&[15, 19, 30, 37, 39, 40, 41, 113, 125, 200, 201, 203, 204], Refused(Channel)),
    (&[210, 220, 222], Refused(Delivery)),
    (&[211, 212, 213, 214, 225, 300, 302], Refused(Channel)),
    (&[219, 223, 224, 944], Wait(Channel, HOUR_MS)),
    (&[909, 910, 911, 913, 914, 920, 921, 940, 943, 969], Refused(Delivery)),
    (&[912, 917, 922, 925, 927, 932, 935, 936, 945, 946, 950, 985, 1012], Refused(Channel)),
    (&[1150, 1151, 1152, 1153, 1154, 1155, 3102], Refused(Delivery)),
    (&[1260, 3610, 3611, 13000], Refused(Channel)),
];

/// Where the message splits a code: code, text in lower case, meaning. Looked at before `ROWS`.
const SPLITS: &[(i64, &str, Means)] = &[
    (9, "to user", Wait(Channel, HOUR_MS)),
    (15, "no access to call this method", Refused(Platform)),
    (100, "owner_id", Refused(Channel)),
    (100, "peer_id", Refused(Channel)),
    (100, "group_id", Refused(Channel)),
    (100, "user_id", Refused(Channel)),
    (100, "domain", Refused(Channel)),
    (214, "posts a day", Wait(Channel, HOUR_MS)),
    (214, "already scheduled for this time", Refused(Delivery)),
    (214, "can only schedule", Wait(Channel, HOUR_MS)),
    (214, "cannot postpone", Refused(Delivery)),
];

/// Subcodes of 15 that speak of the token, not of the wall.
const TOKEN_SUBCODES: [i64; 2] = [1133, 1134];
const NOT_FOUND: i64 = 104;

/// What an exchange with VK means.
pub fn classify(purpose: Purpose, exchange: &Exchange) -> Verdict {
    let verdict = match exchange {
        Err(trouble) => Verdict::Failed(from_trouble(trouble, Delivery)),
        Ok(answer) => classify_answer(purpose, answer),
    };
    verdict.for_purpose(purpose)
}

fn classify_answer(purpose: Purpose, answer: &Answer) -> Verdict {
    if let Some(verdict) = cut_success(answer, false) {
        return verdict;
    }
    let body = serde_json::from_slice::<Value>(answer.bytes())
        .ok()
        .filter(|_| answer.says_json() || !answer.is_success());
    match body {
        Some(body) if body["error"]["error_code"].is_i64() => refused(purpose, answer, &body["error"]),
        Some(mut body) if answer.is_success() && body.get("response").is_some() => {
            Verdict::Done(body["response"].take())
        }
        _ if answer.is_success() => Verdict::Failed(foreign_success(answer)),
        _ => {
            let failure = from_gateway(answer, SECOND_MS).unwrap_or_else(|| foreign_refusal(answer));
            // A limit in front of VK counts addresses or tokens, never walls.
            let scope = if failure.code == "429" { Platform } else { failure.scope };
            Verdict::Failed(Failure { scope, ..failure })
        }
    }
}

/// Whether a refusal can come from a photo, document or video that is attached by its name.
pub fn blames_attachment(failure: &Failure) -> bool {
    let code = failure.code.strip_prefix("vk:").and_then(|code| code.parse::<i64>().ok());
    let lower = failure.message.to_lowercase();
    match code {
        Some(100) => ["attach", "photo", "video", "doc"].iter().any(|word| lower.contains(word)),
        Some(114 | 118 | 119 | 121 | 122 | 129 | 200 | 204 | 1150..=1155) => true,
        _ => false,
    }
}

/// VK refused in its own words.
fn refused(purpose: Purpose, answer: &Answer, error: &Value) -> Verdict {
    let code = error["error_code"].as_i64().unwrap_or_default();
    let subcode = error["error_subcode"].as_i64();
    let message = shorten(error["error_msg"].as_str().unwrap_or_default());
    if code == NOT_FOUND && purpose == Purpose::Delete {
        return Verdict::Done(json!(1));
    }
    let name = format!("vk:{code}");
    let failure = match meaning(code, subcode, &message.to_lowercase()) {
        Refused(scope) => permanent(scope, &name, ""),
        Gone => Failure { recipient_gone: true, ..permanent(Channel, &name, "") },
        Again => transient(Delivery, &name, ""),
        AgainUnknown => transient(Delivery, &name, "").unknown(),
        Wait(scope, ms) => transient(scope, &name, "").retry_after(ms),
    };
    let mut raw = raw(answer);
    // A person has to open these; everything else of a captcha is of no use later.
    for field in ["redirect_uri", "captcha_img"] {
        if let Some(address) = error[field].as_str() {
            raw[field] = json!(shorten(address));
        }
    }
    let message = if message.is_empty() { format!("vk refused with error {code}") } else { message };
    Verdict::Failed(Failure { message, raw, ..failure })
}

fn meaning(code: i64, subcode: Option<i64>, lower: &str) -> Means {
    if code == 15 && subcode.is_some_and(|subcode| TOKEN_SUBCODES.contains(&subcode)) {
        return Refused(Platform);
    }
    let split = SPLITS.iter().find(|(split, text, _)| *split == code && lower.contains(text));
    let row = || ROWS.iter().find(|(codes, _)| codes.contains(&code));
    match split {
        Some((_, _, means)) => *means,
        None => row().map_or(Refused(Delivery), |(_, means)| *means),
    }
}

/// A message to several peers is answered per peer; an error in there is an error all the same.
pub(crate) fn refused_item(response: &Value) -> Option<Failure> {
    let error = response.get(0)?.get("error")?;
    let inner = json!({ "error_code": error["code"], "error_msg": error["description"] });
    let answer = Answer::new(200, "application/json", response.to_string());
    match refused(Purpose::Send, &answer, &inner) {
        Verdict::Failed(failure) => Some(failure),
        _ => None,
    }
}

/// Whether a wall photo cannot be uploaded because of the kind of the token (docs/platforms/vk, tokens).
pub(crate) fn is_wrong_token_kind(failure: &Failure) -> bool {
    failure.category == Category::Permanent && matches!(failure.code.as_str(), "vk:27" | "vk:28")
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
