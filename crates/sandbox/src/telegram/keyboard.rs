//! `reply_markup`: inline keyboards and the three kinds that change the user's own keyboard.

use serde_json::{Map, Value, json};

use super::args::Args;
use super::errors::ApiError;
use crate::chats::Button;

/// A keyboard that passed the checks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Markup {
    None,
    /// The rows as they are returned in the message.
    Inline(Value),
    /// Reply keyboards, their removal and forced replies leave no trace in the message.
    Other,
}

const MARKUP_BYTES_MAX: usize = 10_240;

/// Reads the `reply_markup` of a call.
pub(super) fn read(args: &Args) -> Result<Markup, ApiError> {
    let Some(value) = args.json("reply_markup") else { return Ok(Markup::None) };
    let value = value.map_err(|()| ApiError::bad("can't parse reply keyboard markup JSON object"))?;
    let object = match value {
        Value::Object(object) => object,
        Value::Null => return Ok(Markup::None),
        _ => return Err(ApiError::bad("object expected as reply markup")),
    };
    if let Some(rows) = object.get("inline_keyboard") {
        return inline(rows);
    }
    if let Some(rows) = object.get("keyboard") {
        check_reply_keyboard(rows)?;
    }
    Ok(if object.is_empty() { Markup::None } else { Markup::Other })
}

fn inline(rows: &Value) -> Result<Markup, ApiError> {
    let rows =
        rows.as_array().ok_or_else(|| ApiError::bad("field \"inline_keyboard\" must be of type Array"))?;
    let mut shown = Vec::new();
    for row in rows {
        let row = row.as_array().ok_or_else(|| {
            ApiError::bad("can't parse inline keyboard button: expected an Array of InlineKeyboardButton")
        })?;
        let buttons = row.iter().map(inline_button).collect::<Result<Vec<Value>, ApiError>>()?;
        if !buttons.is_empty() {
            shown.push(Value::from(buttons));
        }
    }
    let markup = json!({ "inline_keyboard": shown });
    if markup.to_string().len() > MARKUP_BYTES_MAX {
        return Err(ApiError::bad("reply markup is too long"));
    }
    Ok(if shown.is_empty() { Markup::None } else { Markup::Inline(markup) })
}

/// One action per button; the first in the server's order counts.
fn inline_button(button: &Value) -> Result<Value, ApiError> {
    const ACTIONS: &[&str] = &[
        "url",
        "callback_data",
        "callback_game",
        "pay",
        "switch_inline_query",
        "switch_inline_query_current_chat",
        "switch_inline_query_chosen_chat",
        "login_url",
        "web_app",
        "copy_text",
    ];
    let Some(object) = button.as_object() else {
        return Err(ApiError::bad("can't parse inline keyboard button: expected an Object"));
    };
    let Some(text) = object.get("text").and_then(Value::as_str) else {
        return Err(ApiError::bad("can't parse inline keyboard button: Can't find field \"text\""));
    };
    if text.is_empty() {
        return Err(ApiError::bad("inline keyboard button text must be non-empty"));
    }
    let action = ACTIONS.iter().find(|action| object.get(**action).is_some_and(|value| !value.is_null()));
    let Some(action) = action else {
        return Err(ApiError::bad(
            "inline keyboard button must have an action: text buttons are unallowed in the inline keyboard",
        ));
    };
    let value = checked_action(action, &object[*action])?;
    let mut shown = Map::new();
    shown.insert("text".into(), text.into());
    shown.insert((*action).into(), value);
    for decoration in ["style", "icon_custom_emoji_id"] {
        if let Some(value) = object.get(decoration).filter(|value| !value.is_null()) {
            shown.insert(decoration.into(), value.clone());
        }
    }
    Ok(shown.into())
}

fn checked_action(action: &str, value: &Value) -> Result<Value, ApiError> {
    match action {
        "callback_data" => {
            let data = value.as_str().unwrap_or_default();
            let fits = (1..=64).contains(&data.len());
            fits.then(|| value.clone()).ok_or_else(|| ApiError::bad("BUTTON_DATA_INVALID"))
        }
        "url" => {
            let written = value.as_str().unwrap_or_default();
            let user_link = written.starts_with("tg://");
            let host = super::entities::checked_link(written).filter(|_| !written.is_empty());
            match host {
                _ if user_link => Ok(value.clone()),
                Some(url) => Ok(url.into()),
                None => Err(ApiError::bad(format!(
                    "inline keyboard button URL '{written}' is invalid: Wrong HTTP URL"
                ))),
            }
        }
        _ => Ok(value.clone()),
    }
}

fn check_reply_keyboard(rows: &Value) -> Result<(), ApiError> {
    let rows = rows.as_array().ok_or_else(|| ApiError::bad("field \"keyboard\" must be of type Array"))?;
    for button in rows.iter().flat_map(|row| row.as_array().into_iter().flatten()) {
        let named = button.is_string() || button.get("text").is_some_and(Value::is_string);
        if !named {
            return Err(ApiError::bad("can't parse keyboard button: Can't find field \"text\""));
        }
    }
    Ok(())
}

/// The buttons as the page shows them; pressing one injects a callback query for the bot.
pub(super) fn buttons(markup: &Value, bot: i64, chat: i64, message: i64) -> Vec<Vec<Button>> {
    let rows = markup["inline_keyboard"].as_array().into_iter().flatten();
    rows.map(|row| {
        row.as_array().into_iter().flatten().map(|b| shown_button(b, bot, chat, message)).collect()
    })
    .collect()
}

fn shown_button(button: &Value, bot: i64, chat: i64, message: i64) -> Button {
    let press = button.get("callback_data").map(|data| {
        json!({
            "account": bot.to_string(),
            "callback_query": { "data": data, "message": { "message_id": message, "chat": { "id": chat } } },
        })
    });
    Button {
        text: button["text"].as_str().unwrap_or_default().to_owned(),
        url: button["url"].as_str().map(str::to_owned),
        press,
    }
}
