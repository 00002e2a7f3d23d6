//! VK's forms and JSON: what goes out for a part, and what is read of an answer. Pure.

use domain::message::Press;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::part::{DeletePart, EditPart, Keyboard, SendOptions, Target};

/// One call: a method and its fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) fields: Vec<(String, String)>,
}

impl Call {
    pub(super) fn new(method: &'static str) -> Call {
        Call { method, fields: Vec::new() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "numbers and borrowed texts are written as they stand")]
    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Call {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    fn with_some(self, name: &str, value: Option<impl ToString>) -> Call {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn with_text(self, name: &str, text: &str) -> Call {
        if text.is_empty() { self } else { self.with(name, text) }
    }
}

/// Words and attachments on their way to a wall or a conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) text: &'a str,
    pub(super) attachments: &'a [String],
    pub(super) buttons: &'a Keyboard,
    pub(super) options: &'a SendOptions,
    /// The idempotency key of the part.
    pub(super) key: &'a str,
}

/// A post, a comment under a post, or a message.
pub(super) fn publish(target: &Target, content: &Content<'_>) -> Call {
    let attached = Some(content.attachments.join(",")).filter(|list| !list.is_empty());
    match (target, &content.options.reply_to) {
        (Target::Wall(owner), None) => Call::new("wall.post")
            .with("owner_id", owner)
            .with("from_group", u8::from(*owner < 0 && content.options.from_group))
            .with_text("message", content.text)
            .with_some("attachments", attached)
            .with("guid", guid(content.key)),
        (Target::Wall(owner), Some(post)) => Call::new("wall.createComment")
            .with("owner_id", owner)
            .with("post_id", post)
            .with("from_group", if *owner < 0 && content.options.from_group { -owner } else { 0 })
            .with_text("message", content.text)
            .with_some("attachments", attached)
            .with("guid", guid(content.key)),
        (target, reply_to) => Call::new("messages.send")
            .with("peer_id", peer(target))
            .with("random_id", random_id(content.key))
            .with_text("message", content.text)
            .with_some("attachment", attached)
            .with_some("reply_to", reply_to.as_ref())
            .with_some("keyboard", keyboard(content.buttons))
            .with("disable_mentions", 1)
            .with("dont_parse_links", u8::from(!content.options.preview)),
    }
}

pub(super) fn edit(part: &EditPart, attachments: &[String]) -> Call {
    let attached = Some(attachments.join(",")).filter(|list| !list.is_empty());
    match &part.target {
        Target::Wall(owner) if part.options.reply_to.is_some() => Call::new("wall.editComment")
            .with("owner_id", owner)
            .with("comment_id", &part.id)
            .with("message", part.text.as_str())
            .with_some("attachments", attached),
        Target::Wall(owner) => Call::new("wall.edit")
            .with("owner_id", owner)
            .with("post_id", &part.id)
            .with("from_group", u8::from(*owner < 0 && part.options.from_group))
            .with("message", part.text.as_str())
            .with_some("attachments", attached),
        target => Call::new("messages.edit")
            .with("peer_id", peer(target))
            .with("message_id", &part.id)
            .with("message", part.text.as_str())
            .with_some("attachment", attached)
            .with_some("keyboard", keyboard(&part.buttons))
            .with("dont_parse_links", u8::from(!part.options.preview)),
    }
}

pub(super) fn delete(part: &DeletePart) -> Call {
    match &part.target {
        Target::Wall(owner) if part.reply_to.is_some() => {
            Call::new("wall.deleteComment").with("owner_id", owner).with_some("comment_id", part.ids.first())
        }
        Target::Wall(owner) => {
            Call::new("wall.delete").with("owner_id", owner).with_some("post_id", part.ids.first())
        }
        target => Call::new("messages.delete")
            .with("peer_id", peer(target))
            .with("message_ids", part.ids.join(","))
            .with("delete_for_all", 1),
    }
}

fn peer(target: &Target) -> i64 {
    match target {
        Target::Chat(id) | Target::User(id) | Target::Wall(id) => *id,
        Target::Name(_) => 0,
    }
}

/// An inline keyboard; VK takes it as a JSON string.
fn keyboard(buttons: &Keyboard) -> Option<String> {
    if buttons.is_empty() {
        return None;
    }
    let button = |button: &domain::message::Button| match &button.press {
        Press::Url(link) => json!({ "action": { "type": "open_link", "label": button.text, "link": link } }),
        Press::Callback(data) => {
            let payload = json!({ "data": data }).to_string();
            json!({ "action": { "type": "callback", "label": button.text, "payload": payload } })
        }
    };
    let rows: Vec<Vec<Value>> = buttons.iter().map(|row| row.iter().map(button).collect()).collect();
    Some(json!({ "inline": true, "buttons": rows }).to_string())
}

/// What a callback button sent, whether it was made here or elsewhere.
pub(super) fn callback_data(payload: &Value) -> String {
    match payload {
        Value::Object(fields) => match fields.get("data").and_then(Value::as_str) {
            Some(data) => data.to_owned(),
            None => payload.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// The key that keeps a wall from showing one post twice, for an hour.
pub(super) fn guid(key: &str) -> String {
    digest(key)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same for messages: a positive 32-bit number; zero would switch the check off.
pub(super) fn random_id(key: &str) -> i32 {
    let [a, b, c, d, ..] = digest(key);
    (i32::from_be_bytes([a, b, c, d]) & i32::MAX).max(1)
}

/// The ids of what a call created.
pub(super) fn created(call: &Call, response: &Value) -> Option<Vec<String>> {
    match call.method {
        "wall.post" => Some(vec![response["post_id"].as_i64()?.to_string()]),
        "wall.createComment" => Some(vec![response["comment_id"].as_i64()?.to_string()]),
        "messages.send" => {
            let id = response.as_i64().or_else(|| response[0]["message_id"].as_i64())?;
            Some(vec![id.to_string()])
        }
        _ => Some(Vec::new()),
    }
}

/// The name by which uploaded media are attached, e.g. `photo-1_2_key`.
pub(super) fn attachment(kind: &str, object: &Value) -> Option<String> {
    let (owner, id) = (object["owner_id"].as_i64()?, object["id"].as_i64()?);
    Some(match object["access_key"].as_str() {
        Some(key) => format!("{kind}{owner}_{id}_{key}"),
        None => format!("{kind}{owner}_{id}"),
    })
}
