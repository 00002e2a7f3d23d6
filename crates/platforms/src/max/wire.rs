//! MAX's JSON: what goes out for a part, and what is read of an answer. Pure.

use domain::message::{MediaKind, Press};
use serde_json::{Map, Value, json};

use crate::part::{Fitted, Keyboard, Markup, SendOptions, Target};
use crate::transport::Method;

/// One call: verb, path, query and body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
    /// For logs: the path without ids.
    pub(super) label: &'static str,
}

impl Call {
    pub(super) fn new(method: Method, path: impl Into<String>, label: &'static str) -> Call {
        Call { method, path: path.into(), query: Vec::new(), body: None, label }
    }

    #[expect(clippy::needless_pass_by_value, reason = "numbers and borrowed texts are written as they stand")]
    pub(super) fn query(mut self, name: &'static str, value: impl ToString) -> Call {
        self.query.push((name, value.to_string()));
        self
    }

    pub(super) fn body(mut self, body: Value) -> Call {
        self.body = Some(body);
        self
    }
}

/// A new message.
pub(super) fn publish(
    target: &Target,
    text: Option<&Fitted>,
    mut attachments: Vec<Value>,
    buttons: &Keyboard,
    options: &SendOptions,
) -> Call {
    attachments.extend(keyboard(buttons));
    let mut body = Map::new();
    if let Some(text) = text {
        put_text(&mut body, text);
    }
    if !attachments.is_empty() {
        body.insert("attachments".into(), Value::Array(attachments));
    }
    if let Some(mid) = &options.reply_to {
        body.insert("link".into(), json!({ "type": "reply", "mid": mid }));
    }
    if options.silent {
        body.insert("notify".into(), json!(false));
    }
    let call = Call::new(Method::Post, "/messages", "max POST /messages").body(Value::Object(body));
    let call = match target {
        Target::User(id) => call.query("user_id", id),
        Target::Chat(id) | Target::Wall(id) => call.query("chat_id", id),
        Target::Name(name) => call.query("chat_id", name),
    };
    if options.preview { call } else { call.query("disable_link_preview", true) }
}

/// New words. Without `attachments` MAX keeps the old ones; with a keyboard all of them have to be named again.
pub(super) fn edit(id: &str, text: &Fitted, attachments: Option<Vec<Value>>, buttons: &Keyboard) -> Call {
    let mut body = Map::new();
    put_text(&mut body, text);
    if let Some(mut attachments) = attachments {
        attachments.extend(keyboard(buttons));
        body.insert("attachments".into(), Value::Array(attachments));
    }
    Call::new(Method::Put, "/messages", "max PUT /messages").query("message_id", id).body(Value::Object(body))
}

pub(super) fn delete(id: &str) -> Call {
    Call::new(Method::Delete, "/messages", "max DELETE /messages").query("message_id", id)
}

pub(super) fn pin(chat: i64, id: &str, silent: bool) -> Call {
    Call::new(Method::Put, format!("/chats/{chat}/pin"), "max PUT /chats/pin")
        .body(json!({ "message_id": id, "notify": !silent }))
}

fn put_text(body: &mut Map<String, Value>, text: &Fitted) {
    body.insert("text".into(), json!(text.as_str()));
    let format = match text.markup() {
        Markup::Html => "html",
        Markup::Markdown => "markdown",
        Markup::Plain | Markup::MarkdownV2 => return,
    };
    body.insert("format".into(), json!(format));
}

fn keyboard(buttons: &Keyboard) -> Option<Value> {
    if buttons.is_empty() {
        return None;
    }
    let button = |button: &domain::message::Button| match &button.press {
        Press::Url(url) => json!({ "type": "link", "text": button.text, "url": url }),
        Press::Callback(payload) => json!({ "type": "callback", "text": button.text, "payload": payload }),
    };
    let rows: Vec<Vec<Value>> = buttons.iter().map(|row| row.iter().map(button).collect()).collect();
    Some(json!({ "type": "inline_keyboard", "payload": { "buttons": rows } }))
}

/// How MAX calls a kind of media, in uploads and in attachments.
pub(super) fn type_of(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Photo | MediaKind::Animation => "image",
        MediaKind::Video => "video",
        MediaKind::Audio => "audio",
        MediaKind::Document => "file",
    }
}

pub(super) fn by_token(kind: MediaKind, token: &str) -> Value {
    json!({ "type": type_of(kind), "payload": { "token": token } })
}

pub(super) fn by_url(url: &str) -> Value {
    json!({ "type": "image", "payload": { "url": url } })
}

/// The token of an upload: videos and sounds have it before the bytes are there, pictures and files after.
pub(super) fn upload_token(kind: MediaKind, session: &Value, stored: Option<&Value>) -> Option<String> {
    let token = match kind {
        MediaKind::Video | MediaKind::Audio => session["token"].as_str(),
        MediaKind::Photo | MediaKind::Animation => {
            let photos = stored?["photos"].as_object()?;
            photos.values().next()?["token"].as_str()
        }
        MediaKind::Document => stored?["token"].as_str(),
    };
    token.map(str::to_owned)
}

/// The id of a new message; calls that create none give an empty list.
pub(super) fn created(result: &Value) -> Option<Vec<String>> {
    match result["success"].as_bool() {
        Some(true) => Some(Vec::new()),
        _ => Some(vec![result["message"]["body"]["mid"].as_str()?.to_owned()]),
    }
}
