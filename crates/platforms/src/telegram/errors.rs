//! What Telegram's answers mean: one pure table from (status, description) to a verdict.
//!
//! Descriptions are compared in lower case by what they contain, never by equality (docs/platforms/telegram).
//! The order of the rows matters: a longer, more special text stands before the one it contains.

use domain::outcome::{Failure, Scope};
use serde_json::{Value, json};

use crate::transport::{Answer, Exchange};
use crate::verdict::{
    Purpose, Verdict, cut_success, foreign_refusal, foreign_success, from_gateway, from_trouble, header_wait,
    permanent, raw, shorten, transient, wait_ms,
};

/// A flood reply without a wait: the server itself has already slept eight seconds for us.
const FLOOD_WAIT_MS: i64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// The same request will be refused again.
    Refused(Scope),
    /// So it will, and the recipient is lost.
    Gone,
    /// Worth another try.
    Again,
    /// A part of an album may be visible all the same.
    AgainUnknown,
}

use Means::{Again, AgainUnknown, Gone, Refused};
use Scope::{Channel, Delivery, Platform};

/// Text contained in the description, code of the failure, meaning.
const ROWS: &[(&str, &str, Means)] = &[
    ("bot was blocked by the user", "blocked", Gone),
    ("user is deactivated", "user_deactivated", Gone),
    ("bot was kicked", "kicked", Gone),
    ("group chat was deleted", "chat_deleted", Gone),
    ("bot is not a member", "not_a_member", Refused(Channel)),
    ("can't initiate conversation", "never_started", Refused(Channel)),
    ("can't send messages to the bot", "recipient_is_bot", Refused(Channel)),
    ("can't send messages to bots", "recipient_is_bot", Refused(Channel)),
    ("upgraded to a supergroup", CHAT_MIGRATED, Refused(Channel)),
    ("chat not found", "chat_not_found", Refused(Channel)),
    ("user not found", "chat_not_found", Refused(Channel)),
    ("peer_id_invalid", "chat_not_found", Refused(Channel)),
    ("need administrator rights", "no_rights", Refused(Channel)),
    ("not enough rights", "no_rights", Refused(Channel)),
    ("have no write access", "no_rights", Refused(Channel)),
    ("have no rights to send", "no_rights", Refused(Channel)),
    ("chat_write_forbidden", "no_rights", Refused(Channel)),
    ("chat_restricted", "no_rights", Refused(Channel)),
    ("chat_admin_required", "no_rights", Refused(Channel)),
    ("channel_private", "no_rights", Refused(Channel)),
    ("chat_send_", "no_rights", Refused(Channel)),
    ("message thread not found", "topic_gone", Refused(Channel)),
    ("topic_closed", "topic_gone", Refused(Channel)),
    ("topic_deleted", "topic_gone", Refused(Channel)),
    ("chat_id is empty", "chat_id_empty", Refused(Delivery)),
    ("text is too long", "too_long", Refused(Delivery)),
    ("message is too long", "too_long", Refused(Delivery)),
    ("caption is too long", "too_long", Refused(Delivery)),
    ("message_too_long", "too_long", Refused(Delivery)),
    ("media_caption_too_long", "too_long", Refused(Delivery)),
    ("message text is empty", "empty", Refused(Delivery)),
    ("text must be non-empty", "empty", Refused(Delivery)),
    ("can't parse entities", "bad_markup", Refused(Delivery)),
    ("can't parse messageentity", "bad_markup", Refused(Delivery)),
    ("unsupported parse_mode", "bad_markup", Refused(Delivery)),
    ("entity_bounds_invalid", "bad_markup", Refused(Delivery)),
    ("reply markup is too long", "bad_buttons", Refused(Delivery)),
    ("button_url_invalid", "bad_buttons", Refused(Delivery)),
    ("button_data_invalid", "bad_buttons", Refused(Delivery)),
    ("inline keyboard button", "bad_buttons", Refused(Delivery)),
    ("can't parse keyboard button", "bad_buttons", Refused(Delivery)),
    ("object expected as reply markup", "bad_buttons", Refused(Delivery)),
    ("can't parse reply keyboard", "bad_buttons", Refused(Delivery)),
    ("message to be replied not found", "reply_target_gone", Refused(Delivery)),
    (NOT_MODIFIED, "not_modified", Refused(Delivery)),
    ("message to edit not found", MESSAGE_GONE, Refused(Delivery)),
    ("message to delete not found", MESSAGE_GONE, Refused(Delivery)),
    ("message to pin not found", MESSAGE_GONE, Refused(Delivery)),
    ("message to copy not found", MESSAGE_GONE, Refused(Delivery)),
    ("message not found", MESSAGE_GONE, Refused(Delivery)),
    ("message_id_invalid", MESSAGE_GONE, Refused(Delivery)),
    ("message can't be edited", "not_editable", Refused(Delivery)),
    ("in the message to edit", "not_editable", Refused(Delivery)),
    ("message media can't be edited", "not_editable", Refused(Delivery)),
    ("message can't be deleted", "not_deletable", Refused(Delivery)),
    ("message can't be pinned", "not_pinnable", Refused(Delivery)),
    ("wrong file_id or the file is temporarily", "file_unavailable", Again),
    ("failed to get http url content", "url_unreachable", Again),
    ("webpage_curl_failed", "url_unreachable", Again),
    ("wrong file identifier/http url", "bad_file", Refused(Delivery)),
    ("wrong http url specified", "bad_file", Refused(Delivery)),
    ("invalid file http url", "bad_file", Refused(Delivery)),
    ("wrong remote file identifier", "bad_file", Refused(Delivery)),
    ("wrong type of the web page content", "url_wrong_type", Refused(Delivery)),
    ("webpage_media_empty", "url_wrong_type", Refused(Delivery)),
    ("photo_invalid_dimensions", "bad_photo", Refused(Delivery)),
    ("image_process_failed", "bad_photo", Refused(Delivery)),
    ("photo_save_file_invalid", "bad_photo", Refused(Delivery)),
    ("photo has unsupported extension", "bad_photo", Refused(Delivery)),
    ("can't upload file by url", "bad_photo", Refused(Delivery)),
    ("file is too big", "too_large", Refused(Delivery)),
    ("can't use file of type", "bad_file", Refused(Delivery)),
    ("group send failed", "album_failed", AgainUnknown),
    ("message was not sent", "album_failed", AgainUnknown),
    ("query is too old", "callback_expired", Refused(Delivery)),
    ("query id is invalid", "callback_expired", Refused(Delivery)),
    ("webhook", "bad_webhook", Refused(Platform)),
    ("secret token", "bad_webhook", Refused(Platform)),
    ("frozen_method_invalid", "frozen", Refused(Platform)),
    ("logged out", "logged_out", Refused(Platform)),
];

/// Whether a refusal can come from a file that was named by a kept id.
pub fn blames_file(failure: &Failure) -> bool {
    matches!(failure.code.as_str(), "bad_file" | "file_unavailable" | "bad_photo")
}

/// The chat has a new id; `raw.migrate_to_chat_id` names it.
pub const CHAT_MIGRATED: &str = "chat_migrated";
const MESSAGE_GONE: &str = "message_gone";
const NOT_MODIFIED: &str = "message is not modified";
/// How the error of an album wraps the error of one of its items.
const ALBUM_WRAPPER: &str = "failed to send message #";

/// What an exchange with Telegram means.
pub fn classify(purpose: Purpose, exchange: &Exchange) -> Verdict {
    let verdict = match exchange {
        Err(trouble) => Verdict::Failed(from_trouble(trouble, Delivery)),
        Ok(answer) => classify_answer(purpose, answer),
    };
    verdict.for_purpose(purpose)
}

fn classify_answer(purpose: Purpose, answer: &Answer) -> Verdict {
    // Telegram's errors carry their own HTTP status, so a 2xx proves success even when its body is lost.
    if let Some(verdict) = cut_success(answer, true) {
        return verdict;
    }
    let body = serde_json::from_slice::<Value>(answer.bytes())
        .ok()
        .filter(|_| answer.says_json() || !answer.is_success());
    let ok = body.as_ref().and_then(|body| body.get("ok")).and_then(Value::as_bool);
    match (answer.is_success(), ok, body) {
        (true, Some(true), Some(mut body)) if body.get("result").is_some() => {
            Verdict::Done(body["result"].take())
        }
        (_, Some(false), Some(body)) => refused(purpose, answer, &body),
        (true, _, _) => Verdict::Failed(foreign_success(answer)),
        (false, _, _) => {
            let gateway = from_gateway(answer, FLOOD_WAIT_MS);
            Verdict::Failed(gateway.unwrap_or_else(|| foreign_refusal(answer)))
        }
    }
}

/// Telegram refused in its own words.
fn refused(purpose: Purpose, answer: &Answer, body: &Value) -> Verdict {
    let status =
        body["error_code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(answer.status);
    let description = shorten(body["description"].as_str().unwrap_or_default());
    let lower = description.to_lowercase();
    if is_done_already(purpose, &lower) {
        return Verdict::Done(Value::Bool(true));
    }
    let hint = || wait_ms(&body["parameters"]["retry_after"]).or_else(|| header_wait(answer));
    let failure = match status {
        429 => transient(Channel, "429", "").retry_after(hint().unwrap_or(FLOOD_WAIT_MS)),
        400 if lower.contains(ALBUM_WRAPPER) => album(&lower),
        400 | 403 => by_description(status, &lower),
        401 => permanent(Platform, "401", ""),
        404 | 421 => permanent(Platform, &status.to_string(), ""),
        409 if lower.contains("other getupdates") => transient(Platform, "409", ""),
        409 => permanent(Platform, "409", ""),
        413 => permanent(Delivery, "413", ""),
        _ => {
            let other = Answer { status, ..answer.clone() };
            from_gateway(&other, FLOOD_WAIT_MS)
                .unwrap_or_else(|| permanent(Delivery, &status.to_string(), ""))
        }
    };
    let mut raw = raw(answer);
    if let Some(moved) = body["parameters"]["migrate_to_chat_id"].as_i64() {
        raw["migrate_to_chat_id"] = json!(moved);
    }
    let message =
        if description.is_empty() { format!("telegram refused with {status}") } else { description };
    Verdict::Failed(Failure { message, raw, ..failure })
}

/// An edit to what is there already, and a deletion of what is gone, are done.
fn is_done_already(purpose: Purpose, lower: &str) -> bool {
    match purpose {
        Purpose::Edit => lower.contains(NOT_MODIFIED),
        Purpose::Delete => find_row(lower).is_some_and(|(_, code, _)| *code == MESSAGE_GONE),
        _ => false,
    }
}

fn find_row(lower: &str) -> Option<&'static (&'static str, &'static str, Means)> {
    ROWS.iter().find(|(text, _, _)| lower.contains(text))
}

fn by_description(status: u16, lower: &str) -> Failure {
    match find_row(lower) {
        Some((_, code, Refused(scope))) => permanent(*scope, code, ""),
        Some((_, code, Gone)) => Failure { recipient_gone: true, ..permanent(Channel, code, "") },
        Some((_, code, Again)) => transient(Delivery, code, ""),
        Some((_, code, AgainUnknown)) => transient(Delivery, code, "").unknown(),
        // An unknown 403 is about the chat, an unknown 400 about this one request.
        None if status == 403 => permanent(Channel, "403", ""),
        None => permanent(Delivery, &status.to_string(), ""),
    }
}

/// An album failed because one of its items did. Others may be visible: Telegram does not say which.
fn album(lower: &str) -> Failure {
    let inner = lower.split_once("error message").map_or(lower, |(_, inner)| inner);
    if let Some((_, wait)) = inner.split_once("too many requests: retry after ") {
        let digits: String = wait.chars().take_while(char::is_ascii_digit).collect();
        let wait = wait_ms(&Value::String(digits)).unwrap_or(FLOOD_WAIT_MS);
        return transient(Delivery, "429", "").retry_after(wait).unknown();
    }
    by_description(400, inner).unknown()
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
