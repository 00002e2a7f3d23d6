//! Inline keyboards: what the server checks, what it keeps, and what a reader can press.

use serde_json::{Map, Value, json};

use super::errors::ApiError;
use super::markup::units;
use crate::chats::Button;

const ROWS_MAX: usize = 30;
const ROW_MAX: usize = 7;
/// In a row with a button that opens something.
const WIDE_ROW_MAX: usize = 3;
const WIDE: &[&str] = &["link", "open_app", "request_contact", "request_geo_location"];
const TEXT_MAX: usize = 128;
const PAYLOAD_MAX: usize = 1024;
const URL_MAX: usize = 2048;

/// Checks the rows of the keyboard that is attachment number `at` and keeps what is known of each button.
pub(super) fn checked(payload: &Value, at: usize) -> Result<Vec<Vec<Value>>, ApiError> {
    let rows = payload["buttons"].as_array().ok_or_else(ApiError::body)?;
    if rows.len() > ROWS_MAX {
        let message = format!("attachments[{at}].payload.buttons: size must be between 1 and {ROWS_MAX}");
        return Err(ApiError::payload(message));
    }
    let rows = rows.iter().enumerate().map(|(y, row)| {
        let row = row.as_array().ok_or_else(ApiError::body)?;
        let wide = row.iter().any(|button| button["type"].as_str().is_some_and(|kind| WIDE.contains(&kind)));
        let most = if wide { WIDE_ROW_MAX } else { ROW_MAX };
        if row.len() > most {
            let message =
                format!("attachments[{at}].payload.buttons[{y}]: size must be between 1 and {most}");
            return Err(ApiError::payload(message));
        }
        row.iter().enumerate().map(|(x, button)| checked_button(button, [at, y, x])).collect()
    });
    let rows: Vec<Vec<Value>> = rows.collect::<Result<_, ApiError>>()?;
    Ok(rows.into_iter().filter(|row| !row.is_empty()).collect())
}

fn checked_button(button: &Value, place: [usize; 3]) -> Result<Value, ApiError> {
    let object = button.as_object().ok_or_else(ApiError::body)?;
    let kind = text(object, "type")?.ok_or_else(ApiError::body)?;
    let mut kept = json!({ "type": kind, "text": sized(object, "text", 1, TEXT_MAX, place)?.ok_or_else(ApiError::body)? });
    match kind {
        "callback" => {
            keep(&mut kept, "payload", sized(object, "payload", 0, PAYLOAD_MAX, place)?);
            keep(&mut kept, "intent", text(object, "intent")?);
        }
        "clipboard" => {
            let payload = sized(object, "payload", 0, PAYLOAD_MAX, place)?.ok_or_else(ApiError::body)?;
            keep(&mut kept, "payload", Some(payload));
        }
        "link" => {
            let url = sized(object, "url", 0, URL_MAX, place)?.ok_or_else(ApiError::body)?;
            if !url.contains(':') {
                return Err(ApiError::payload(format!("{}: must be a valid URL", path(place, "url"))));
            }
            keep(&mut kept, "url", Some(url));
        }
        "request_contact" | "message" => {}
        "request_geo_location" => {
            let quick = object.get("quick").and_then(Value::as_bool).unwrap_or(false);
            kept["quick"] = quick.into();
        }
        "open_app" => {
            let web_app = text(object, "web_app")?.filter(|name| !name.is_empty());
            let web_app = web_app.ok_or_else(|| ApiError::payload("Field 'webApp' cannot be null"))?;
            keep(&mut kept, "web_app", Some(web_app));
            keep(&mut kept, "payload", sized(object, "payload", 0, 512, place)?);
            if let Some(contact) = object.get("contact_id").filter(|id| id.is_i64()) {
                kept["contact_id"] = contact.clone();
            }
        }
        // `chat` among them: it is no longer known.
        _ => return Err(ApiError::body()),
    }
    Ok(kept)
}

fn keep(object: &mut Value, field: &str, value: Option<&str>) {
    if let Some(value) = value {
        object[field] = value.into();
    }
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, ApiError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ApiError::body()),
    }
}

fn sized<'a>(
    object: &'a Map<String, Value>,
    field: &str,
    least: usize,
    most: usize,
    place: [usize; 3],
) -> Result<Option<&'a str>, ApiError> {
    let value = text(object, field)?;
    if value.is_some_and(|value| !(least..=most).contains(&units(value))) {
        let message = format!("{}: size must be between {least} and {most}", path(place, field));
        return Err(ApiError::payload(message));
    }
    Ok(value)
}

/// As the server's validator writes it.
fn path([at, y, x]: [usize; 3], field: &str) -> String {
    format!("attachments[{at}].payload.buttons[{y}].<list element>[{x}].{field}")
}

/// The buttons as a reader sees them; `press` is what pressing one injects.
pub(super) fn buttons(message: &Value, bot: Option<i64>) -> Vec<Vec<Button>> {
    let attachments = message["body"]["attachments"].as_array();
    let keyboard = attachments.into_iter().flatten().find(|item| item["type"] == "inline_keyboard");
    let Some(rows) = keyboard.and_then(|keyboard| keyboard["payload"]["buttons"].as_array()) else {
        return Vec::new();
    };
    let shown = |button: &Value| Button {
        text: button["text"].as_str().unwrap_or_default().to_owned(),
        url: button["url"].as_str().map(str::to_owned),
        press: press(message, button, bot),
    };
    rows.iter().map(|row| row.as_array().into_iter().flatten().map(shown).collect()).collect()
}

fn press(message: &Value, button: &Value, bot: Option<i64>) -> Option<Value> {
    let chat = &message["recipient"]["chat_id"];
    let user = message["recipient"].get("user_id").filter(|_| message["recipient"]["chat_type"] == "dialog");
    let mut body = match button["type"].as_str()? {
        "callback" => {
            let mut callback = json!({});
            if let Some(payload) = button.get("payload") {
                callback["payload"] = payload.clone();
            }
            if let Some(user) = user {
                callback["user"] = json!({ "user_id": user });
            }
            json!({
                "update_type": "message_callback",
                "callback": callback,
                "message": { "body": { "mid": message["body"]["mid"] } },
            })
        }
        "message" => json!({ "chat": chat, "text": button["text"] }),
        "request_contact" => json!({
            "update_type": "message_created",
            "message": { "recipient": { "chat_id": chat }, "body": { "attachments": [{ "type": "contact" }] } },
        }),
        "request_geo_location" => json!({
            "update_type": "message_created",
            "message": {
                "recipient": { "chat_id": chat },
                "body": { "attachments": [{ "type": "location", "latitude": 55.7539, "longitude": 37.6208 }] },
            },
        }),
        _ => return None,
    };
    if let Some(bot) = bot {
        body["account"] = bot.to_string().into();
    }
    Some(body)
}
