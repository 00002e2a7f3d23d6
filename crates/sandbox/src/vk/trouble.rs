//! Armed faults in VK's own words: nearly always an error number inside HTTP 200.

use serde_json::{Map, Value, json};

use crate::core::SharedCore;
use crate::dispatch::html;
use crate::faults::{Fault, Kind};
use crate::platform::Target;
use crate::reply::Response;

use super::errors::ApiError;

/// The answer of a fault that is an answer.
pub(super) fn answer(core: &SharedCore, fault: &Fault, target: &Target) -> Option<Response> {
    let error = match fault.kind {
        Kind::Status(502) => return Some(html(502, "502 Bad Gateway")),
        Kind::Status(503) => return Some(unavailable(fault)),
        Kind::Status(504) => return Some(html(504, "504 Gateway Time-out")),
        // The server itself stumbles: VK's error 10, but not under a friendly 200.
        Kind::Status(500) => return Some(Response { status: 500, ..worded(&ApiError::plain(10), target) }),
        Kind::Status(429) => ApiError::plain(fault.code.unwrap_or(6)),
        Kind::Status(401) => ApiError::new(5, "invalid access_token (4)."),
        Kind::Status(403) => ApiError::plain(by_place(target, 15, 214, 917)),
        Kind::Status(404) => ApiError::plain(104),
        Kind::Kicked => ApiError::plain(by_place(target, 203, 214, 917)),
        Kind::Blocked => ApiError::plain(by_place(target, 15, 214, 901)),
        Kind::ChatNotFound => ApiError::plain(by_place(target, 203, 214, 927)),
        Kind::VkError => coded(core, fault.code.unwrap_or(1)),
        Kind::Captcha => coded(core, 14),
        // VK has no such state of its own; an upload that must be done again comes nearest.
        Kind::AttachmentNotReady => ApiError::plain(22),
        _ => return None,
    };
    if target.method == "a_check" {
        return Some(poll_failure(&error));
    }
    Some(worded(&error, target))
}

/// Different sections refuse the same thing with different numbers.
fn by_place(target: &Target, reading: i64, posting: i64, messages: i64) -> i64 {
    match target.method.as_str() {
        method if method.starts_with("messages.") => messages,
        "wall.post" | "wall.repost" => posting,
        _ => reading,
    }
}

fn worded(error: &ApiError, target: &Target) -> Response {
    let mut echoed = Vec::new();
    if !target.chat.is_null() {
        let name = if target.method.starts_with("messages.") { "peer_id" } else { "owner_id" };
        echoed.push((name.to_owned(), target.chat.to_string()));
    }
    error.response(&target.method, &echoed)
}

/// The long poll speaks otherwise: code 1, 2 and 3 are its own failures.
fn poll_failure(error: &ApiError) -> Response {
    let failed = if (1..=4).contains(&error.code) { error.code } else { 2 };
    let answer = if failed == 1 { json!({ "failed": 1, "ts": 0 }) } else { json!({ "failed": failed }) };
    Response::json(200, &answer)
}

fn unavailable(fault: &Fault) -> Response {
    let page = html(503, "503 Service Temporarily Unavailable");
    match &fault.retry_after {
        Value::Null => page,
        Value::String(text) => page.with_header("retry-after", text.clone()),
        other => page.with_header("retry-after", other.to_string()),
    }
}

/// An error by its number, with the fields that come with it.
fn coded(core: &SharedCore, code: i64) -> ApiError {
    let sid = core.number_of("captcha").to_string();
    let extra = match code {
        14 => json!({
            "captcha_sid": sid,
            "captcha_img": format!("{}/vk/captcha.php?sid={sid}&s=1", core.origin),
            "captcha_ts": core.clock.now_ms() as f64 / 1000.0,
            "captcha_attempt": 1,
            "captcha_ratio": 2.6,
            "redirect_uri": format!("{}/vk/captcha.php?sid={sid}", core.origin),
            "is_refresh_enabled": true,
            "remixstlid": core.number_of("remixstlid"),
        }),
        17 => json!({ "redirect_uri": format!("{}/vk/captcha.php?sid={sid}&validation=1", core.origin) }),
        24 => json!({ "confirmation_text": "Подтвердите действие" }),
        _ => Value::Null,
    };
    let detail = match code {
        5 => "invalid access_token (4).",
        27 => "method is unavailable with group auth.",
        28 => "method is unavailable with service token.",
        _ => "",
    };
    let extra: Map<String, Value> = extra.as_object().cloned().unwrap_or_default();
    ApiError { extra, ..ApiError::new(code, detail) }
}
