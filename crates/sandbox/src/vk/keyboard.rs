//! Keyboards under messages: what is well formed, and error 911 for the rest.

use serde_json::{Value, json};

use super::errors::ApiError;

const LABEL_CHARS_MAX: usize = 40;
const PAYLOAD_CHARS_MAX: usize = 255;

/// Reads the `keyboard` parameter into the object that comes back with the message.
pub(super) fn parse(keyboard: Option<Value>, author_id: i64) -> Result<Value, ApiError> {
    let keyboard = keyboard.filter(Value::is_object).ok_or_else(|| wrong("keyboard is not a JSON object"))?;
    let inline = flag(&keyboard, "inline")?;
    let one_time = flag(&keyboard, "one_time")?;
    if inline && one_time {
        return Err(wrong("one_time and inline cannot be used together"));
    }
    let rows = keyboard["buttons"].as_array().ok_or_else(|| wrong("buttons is not an array"))?;
    let (rows_max, buttons_max) = if inline { (6, 10) } else { (10, 40) };
    if rows.len() > rows_max {
        return Err(wrong(&format!("too many rows, at most {rows_max} are allowed")));
    }
    let mut n_buttons = 0;
    let mut checked = Vec::new();
    for row in rows {
        let row = row.as_array().ok_or_else(|| wrong("a row is not an array"))?;
        if row.is_empty() || row.len() > 5 {
            return Err(wrong("a row holds one to five buttons"));
        }
        n_buttons += row.len();
        checked.push(row.iter().map(button).collect::<Result<Vec<Value>, ApiError>>()?);
    }
    if n_buttons > buttons_max {
        return Err(wrong(&format!("too many buttons, at most {buttons_max} are allowed")));
    }
    Ok(json!({ "one_time": one_time, "inline": inline, "buttons": checked, "author_id": author_id }))
}

fn flag(keyboard: &Value, name: &str) -> Result<bool, ApiError> {
    match &keyboard[name] {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        _ => Err(wrong(&format!("{name} is not a boolean"))),
    }
}

fn button(button: &Value) -> Result<Value, ApiError> {
    let action = &button["action"];
    let kind = action["type"].as_str().ok_or_else(|| wrong("a button has no action type"))?;
    let label = action["label"].as_str().unwrap_or_default();
    match kind {
        "text" | "callback" | "open_app" if label.is_empty() => return Err(wrong("label is empty")),
        "open_link"
            if label.is_empty() || action["link"].as_str().is_none_or(|link| !link.contains("://")) =>
        {
            return Err(wrong("open_link needs a label and a link"));
        }
        "vkpay" if action["hash"].as_str().is_none() => return Err(wrong("vkpay needs a hash")),
        "text" | "callback" | "open_app" | "open_link" | "location" | "vkpay" | "open_photo" => {}
        _ => return Err(wrong(&format!("action type {kind} is unknown"))),
    }
    if label.chars().count() > LABEL_CHARS_MAX {
        return Err(wrong("label is too long"));
    }
    if payload_chars(&action["payload"])? > PAYLOAD_CHARS_MAX {
        return Err(wrong("payload is too long"));
    }
    let coloured = matches!(kind, "text" | "callback");
    let color = match button["color"].as_str() {
        None if coloured => Some("secondary"),
        None => None,
        Some(color @ ("primary" | "secondary" | "positive" | "negative")) => coloured.then_some(color),
        Some("default") => Some("secondary"),
        Some(_) => return Err(wrong("color is unknown")),
    };
    let mut kept = json!({ "action": action });
    // VK gives the payload back as the text of its JSON.
    if let payload @ (Value::Object(_) | Value::Array(_)) = &action["payload"] {
        kept["action"]["payload"] = payload.to_string().into();
    }
    if let Some(color) = color {
        kept["color"] = color.into();
    }
    Ok(kept)
}

fn payload_chars(payload: &Value) -> Result<usize, ApiError> {
    match payload {
        Value::Null => Ok(0),
        Value::String(text) if text.is_empty() => Ok(0),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(_) => Ok(text.chars().count()),
            Err(_) => Err(wrong("payload is not valid JSON")),
        },
        other => Ok(other.to_string().chars().count()),
    }
}

fn wrong(detail: &str) -> ApiError {
    ApiError::new(911, detail)
}
