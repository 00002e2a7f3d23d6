//! The JSON of the Bot API: what goes out for a part, and what is read of an answer. Pure.

use domain::message::{MediaKind, Press};
use serde_json::{Map, Value, json};

use crate::media::{MediaHandle, Supply};
use crate::part::{
    DeletePart, EditPart, Fitted, Keyboard, Markup, MediaPart, PinPart, SendOptions, Shape, Target, TextPart,
};
use crate::transport::{Field, Payload};

/// One call: a method and its payload.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) payload: Payload,
}

impl Call {
    pub(super) fn json(method: &'static str, fields: Map<String, Value>) -> Call {
        Call { method, payload: Payload::Json(Value::Object(fields)) }
    }

    /// The bot pays for what goes beyond the free limit.
    pub(super) fn paid(mut self) -> Call {
        const NAME: &str = "allow_paid_broadcast";
        match &mut self.payload {
            Payload::Json(Value::Object(fields)) => drop(fields.insert(NAME.into(), json!(true))),
            Payload::Multipart(fields) => fields.push((NAME.into(), Field::Text("true".into()))),
            _ => {}
        }
        self
    }
}

pub(super) fn text(part: &TextPart) -> Call {
    let mut fields = message_fields(&part.target, &part.options, &part.buttons);
    put_text(&mut fields, "text", &part.text);
    put_preview(&mut fields, &part.options);
    Call::json("sendMessage", fields)
}

/// One medium has a method per kind, several are an album.
pub(super) fn media(part: &MediaPart, supplies: Vec<Supply>) -> Call {
    let mut supplies = supplies.into_iter();
    match (supplies.next(), part.items.as_slice()) {
        (Some(supply), [item]) => single(part, item.send_as, supply),
        (first, _) => album(part, first.into_iter().chain(supplies).collect()),
    }
}

fn single(part: &MediaPart, kind: MediaKind, supply: Supply) -> Call {
    let (method, name) = method_of(kind);
    let mut fields = message_fields(&part.target, &part.options, &part.buttons);
    if let Some(caption) = &part.caption {
        put_text(&mut fields, "caption", caption);
    }
    match supply {
        Supply::Handle(MediaHandle { value, .. }) | Supply::Url(value) => {
            fields.insert(name.into(), json!(value));
            Call::json(method, fields)
        }
        Supply::File(file) => {
            let mut parts = form_fields(fields);
            parts.push((
                name.into(),
                Field::File { filename: file.filename, mime: file.mime, bytes: file.bytes },
            ));
            Call { method, payload: Payload::Multipart(parts) }
        }
    }
}

fn album(part: &MediaPart, supplies: Vec<Supply>) -> Call {
    let mut files = Vec::new();
    let mut media = Vec::new();
    for (n, (item, supply)) in part.items.iter().zip(supplies).enumerate() {
        let mut entry = Map::new();
        entry.insert("type".into(), json!(method_of(item.send_as).1));
        let address = match supply {
            Supply::Handle(MediaHandle { value, .. }) | Supply::Url(value) => value,
            Supply::File(file) => {
                let field = Field::File { filename: file.filename, mime: file.mime, bytes: file.bytes };
                files.push((format!("file{n}"), field));
                format!("attach://file{n}")
            }
        };
        entry.insert("media".into(), json!(address));
        // Apps show an album's caption only when exactly one item carries it.
        if let (0, Some(caption)) = (n, &part.caption) {
            put_text(&mut entry, "caption", caption);
        }
        media.push(Value::Object(entry));
    }
    let mut fields = message_fields(&part.target, &part.options, &Vec::new());
    fields.insert("media".into(), Value::Array(media));
    if files.is_empty() {
        return Call::json("sendMediaGroup", fields);
    }
    let mut parts = form_fields(fields);
    parts.extend(files);
    Call { method: "sendMediaGroup", payload: Payload::Multipart(parts) }
}

pub(super) fn edit(part: &EditPart, message_id: i64) -> Call {
    let mut fields = Map::new();
    fields.insert("chat_id".into(), chat_id(&part.target));
    fields.insert("message_id".into(), json!(message_id));
    put_keyboard(&mut fields, &part.buttons);
    match part.shape {
        Shape::Text => {
            put_text(&mut fields, "text", &part.text);
            put_preview(&mut fields, &part.options);
            Call::json("editMessageText", fields)
        }
        Shape::Caption | Shape::Media => {
            put_text(&mut fields, "caption", &part.text);
            Call::json("editMessageCaption", fields)
        }
    }
}

pub(super) fn delete(part: &DeletePart, message_ids: &[i64]) -> Call {
    let mut fields = Map::new();
    fields.insert("chat_id".into(), chat_id(&part.target));
    match message_ids {
        [only] => {
            fields.insert("message_id".into(), json!(only));
            Call::json("deleteMessage", fields)
        }
        several => {
            fields.insert("message_ids".into(), json!(several));
            Call::json("deleteMessages", fields)
        }
    }
}

pub(super) fn pin(part: &PinPart, message_id: i64) -> Call {
    let mut fields = Map::new();
    fields.insert("chat_id".into(), chat_id(&part.target));
    fields.insert("message_id".into(), json!(message_id));
    fields.insert("disable_notification".into(), json!(part.options.silent));
    Call::json("pinChatMessage", fields)
}

fn message_fields(target: &Target, options: &SendOptions, buttons: &Keyboard) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("chat_id".into(), chat_id(target));
    if options.silent {
        fields.insert("disable_notification".into(), json!(true));
    }
    if options.protect {
        fields.insert("protect_content".into(), json!(true));
    }
    if let Some(topic) = options.topic {
        fields.insert("message_thread_id".into(), json!(topic));
    }
    if let Some(id) = options.reply_to.as_deref().and_then(|id| id.parse::<i64>().ok()) {
        // The answer is worth more than what it answers to: it goes out even when that is gone.
        let reply = json!({ "message_id": id, "allow_sending_without_reply": true });
        fields.insert("reply_parameters".into(), reply);
    }
    put_keyboard(&mut fields, buttons);
    fields
}

/// Previews are on unless they are switched off.
fn put_preview(fields: &mut Map<String, Value>, options: &SendOptions) {
    if !options.preview {
        fields.insert("link_preview_options".into(), json!({ "is_disabled": true }));
    }
}

fn chat_id(target: &Target) -> Value {
    match target {
        Target::Chat(id) | Target::User(id) | Target::Wall(id) => json!(id),
        Target::Name(name) => json!(name),
    }
}

fn put_text(fields: &mut Map<String, Value>, name: &str, text: &Fitted) {
    fields.insert(name.into(), json!(text.as_str()));
    let mode = match text.markup() {
        Markup::Html => "HTML",
        Markup::MarkdownV2 => "MarkdownV2",
        Markup::Plain | Markup::Markdown => return,
    };
    fields.insert("parse_mode".into(), json!(mode));
}

fn put_keyboard(fields: &mut Map<String, Value>, buttons: &Keyboard) {
    if buttons.is_empty() {
        return;
    }
    let row = |row: &Vec<domain::message::Button>| -> Value {
        let button = |button: &domain::message::Button| match &button.press {
            Press::Url(url) => json!({ "text": button.text, "url": url }),
            Press::Callback(data) => json!({ "text": button.text, "callback_data": data }),
        };
        row.iter().map(button).collect()
    };
    let rows: Value = buttons.iter().map(row).collect();
    fields.insert("reply_markup".into(), json!({ "inline_keyboard": rows }));
}

/// In a form, numbers are their digits and everything nested is a JSON string.
fn form_fields(fields: Map<String, Value>) -> Vec<(String, Field)> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    fields.into_iter().map(|(name, value)| (name, Field::Text(text(value)))).collect()
}

fn method_of(kind: MediaKind) -> (&'static str, &'static str) {
    match kind {
        MediaKind::Photo => ("sendPhoto", "photo"),
        MediaKind::Video => ("sendVideo", "video"),
        MediaKind::Animation => ("sendAnimation", "animation"),
        MediaKind::Document => ("sendDocument", "document"),
        MediaKind::Audio => ("sendAudio", "audio"),
    }
}

/// The ids of the messages in a result: one message, an album, or `true` for what creates none.
///
/// A zero is given for a message the server will send later: it was accepted, but it has no id yet.
pub(super) fn message_ids(result: &Value) -> Option<Vec<String>> {
    match result {
        Value::Bool(true) => Some(Vec::new()),
        Value::Array(messages) if !messages.is_empty() => messages
            .iter()
            .map(|message| message["message_id"].as_i64())
            .map(|id| Some(id?.to_string()))
            .collect(),
        message => match message["message_id"].as_i64()? {
            0 => Some(Vec::new()),
            id => Some(vec![id.to_string()]),
        },
    }
}

/// Handles of the media in a result, in the order of the items.
pub(super) fn handles(result: &Value, kinds: &[MediaKind]) -> Vec<(usize, MediaHandle)> {
    let messages = match result {
        Value::Array(messages) => messages.iter().collect(),
        message => vec![message],
    };
    let handle = |(n, (message, kind)): (usize, (&Value, &MediaKind))| {
        let id = match kind {
            // The last size is the largest.
            MediaKind::Photo => {
                message["photo"].as_array().and_then(|sizes| sizes.last())?["file_id"].as_str()
            }
            // A short video without sound comes back as an animation, an animation also as a document.
            _ => [method_of(*kind).1, "video", "animation", "document", "audio"]
                .iter()
                .find_map(|field| message[*field]["file_id"].as_str()),
        };
        Some((n, MediaHandle::new(super::NAME, *kind, id?)))
    };
    messages.into_iter().zip(kinds).enumerate().filter_map(handle).collect()
}

/// Whether a result speaks of another chat than the one asked for.
pub(super) fn is_other_chat(target: &Target, result: &Value) -> bool {
    let first = result.get(0).unwrap_or(result);
    match (target, first["chat"]["id"].as_i64()) {
        (Target::Chat(asked), Some(answered)) => *asked != answered,
        _ => false,
    }
}
