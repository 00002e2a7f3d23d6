//! Messages: how they are made, kept and shown. The visible chats are the only store;
//! the Bot API's own object lies in `raw`, together with the bot that wrote it.

use serde_json::{Map, Value, json};

use super::entities::Formatted;
use super::files::{File, FileKind};
use super::keyboard::{self, Markup};
use super::people::Place;
use crate::chats::{Author, Face, Media, Message, MessageId, Side, Span};
use crate::core::Core;
use crate::platform::Name;
use crate::registry::Account;

/// What a message says.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(Formatted),
    Media(MediaContent),
    /// Objects that are kept and returned as given: a location, a contact, a dice.
    Object(&'static str, Value),
}

#[derive(Clone, Debug)]
pub(super) struct MediaContent {
    pub file: File,
    pub caption: Formatted,
    pub spoiler: bool,
    pub caption_above: bool,
}

/// Everything about a message that is not its content.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    pub markup: Option<Value>,
    pub reply_to: Option<Value>,
    pub quote: Option<Value>,
    pub topic: Option<i64>,
    pub album: Option<String>,
    pub protected: bool,
    pub forward_origin: Option<Value>,
    pub link_preview: Option<Value>,
}

impl Frame {
    pub(super) fn with_markup(mut self, markup: Markup) -> Frame {
        if let Markup::Inline(value) = markup {
            self.markup = Some(value);
        }
        self
    }
}

/// Posts a message of a bot and returns it.
pub(super) fn post(core: &Core, account: &Account, place: &Place, content: &Content, frame: &Frame) -> Value {
    post_with(core, account, place, frame, |message| write_content(message, content))
}

/// Posts the content of another message.
pub(super) fn post_copy(
    core: &Core,
    account: &Account,
    place: &Place,
    original: &Value,
    frame: &Frame,
) -> Value {
    post_with(core, account, place, frame, |message| {
        let fields = original.as_object().into_iter().flatten();
        let content = fields.filter(|(field, _)| CONTENT_FIELDS.contains(&field.as_str()));
        message.extend(content.map(|(field, value)| (field.clone(), value.clone())));
    })
}

fn post_with(
    core: &Core,
    account: &Account,
    place: &Place,
    frame: &Frame,
    write: impl FnOnce(&mut Map<String, Value>),
) -> Value {
    show_chat(core, place);
    let number = core.chats.next_number(Name::Telegram, place.key());
    let now_ms = core.clock.now_ms();
    let mut message = Map::new();
    message.insert("message_id".into(), number.into());
    message.insert("date".into(), now_ms.div_euclid(1000).into());
    let chat = place.json();
    if place.is_channel() {
        if place.chat.flag("signatures") {
            message.insert("author_signature".into(), account.name.as_str().into());
        }
        message.insert("sender_chat".into(), chat.clone());
    } else {
        message.insert("from".into(), super::people::bot_user(account));
    }
    message.insert("chat".into(), chat);
    write_frame(&mut message, frame);
    write(&mut message);
    let message = Value::from(message);
    let bot = account.id.parse().unwrap_or_default();
    keep(core, place, &message, bot, now_ms, &side(account, place));
    message
}

fn side(account: &Account, place: &Place) -> Author {
    if place.is_channel() {
        Author::new(&place.chat.title, Side::Channel)
    } else {
        Author::new(&account.name, Side::Bot)
    }
}

/// Makes the chat known to the listing.
pub(super) fn show_chat(core: &Core, place: &Place) {
    let username = Some(place.chat.username.as_str()).filter(|name| !name.is_empty());
    let face = Face { kind: place.kind(), title: &place.chat.title, username };
    core.chats.ensure(Name::Telegram, place.key(), &face, false);
}

fn write_frame(message: &mut Map<String, Value>, frame: &Frame) {
    let mut put = |field: &str, value: &Option<Value>| {
        if let Some(value) = value {
            message.insert(field.into(), value.clone());
        }
    };
    put("reply_markup", &frame.markup);
    put("reply_to_message", &frame.reply_to);
    put("quote", &frame.quote);
    put("forward_origin", &frame.forward_origin);
    put("link_preview_options", &frame.link_preview);
    put("media_group_id", &frame.album.as_deref().map(Value::from));
    put("message_thread_id", &frame.topic.map(Value::from));
    if frame.topic.is_some() {
        message.insert("is_topic_message".into(), true.into());
    }
    if frame.protected {
        message.insert("has_protected_content".into(), true.into());
    }
}

/// The fields that hold content; an edit removes them before it writes the new ones.
const CONTENT_FIELDS: &[&str] = &[
    "text",
    "entities",
    "caption",
    "caption_entities",
    "show_caption_above_media",
    "has_media_spoiler",
    "link_preview_options",
    "photo",
    "video",
    "animation",
    "document",
    "audio",
    "voice",
    "sticker",
    "video_note",
    "location",
    "venue",
    "contact",
    "dice",
    "poll",
];

pub(super) fn write_content(message: &mut Map<String, Value>, content: &Content) {
    match content {
        Content::Text(formatted) => write_text(message, "text", "entities", formatted),
        Content::Object(field, value) => {
            message.insert((*field).into(), value.clone());
        }
        Content::Media(media) => {
            let object = file_json(&media.file);
            if media.file.kind == FileKind::Animation {
                // For the sake of clients that are older than animations.
                message.insert("document".into(), document_json(&media.file));
            }
            message.insert(media.file.kind.field().into(), object);
            if !media.caption.text.is_empty() {
                write_text(message, "caption", "caption_entities", &media.caption);
            }
            if media.caption_above {
                message.insert("show_caption_above_media".into(), true.into());
            }
            if media.spoiler {
                message.insert("has_media_spoiler".into(), true.into());
            }
        }
    }
}

fn write_text(message: &mut Map<String, Value>, field: &str, entities_field: &str, formatted: &Formatted) {
    message.insert(field.into(), formatted.text.as_str().into());
    if !formatted.entities.is_empty() {
        message.insert(entities_field.into(), formatted.entities_json());
    }
}

/// A message with other content.
pub(super) fn with_content(message: &Value, content: &Content) -> Map<String, Value> {
    let mut object = message.as_object().cloned().unwrap_or_default();
    object.retain(|field, _| !CONTENT_FIELDS.contains(&field.as_str()));
    write_content(&mut object, content);
    object
}

/// The object of a file inside a message.
fn file_json(file: &File) -> Value {
    match file.kind {
        FileKind::Photo => photo_sizes(file),
        FileKind::Document => document_json(file),
        FileKind::Video | FileKind::Animation => {
            let mut object = document_json(file);
            object["width"] = file.width.into();
            object["height"] = file.height.into();
            object["duration"] = file.duration.into();
            object
        }
        FileKind::Audio | FileKind::Voice => {
            let mut object = document_json(file);
            object["duration"] = file.duration.into();
            object
        }
        FileKind::VideoNote => {
            let mut object = document_json(file);
            object["duration"] = file.duration.into();
            object["length"] = file.width.max(240).into();
            object
        }
        FileKind::Sticker => {
            let mut object = document_json(file);
            object["type"] = "regular".into();
            object["width"] = file.width.max(1).into();
            object["height"] = file.height.max(1).into();
            object["is_animated"] = false.into();
            object["is_video"] = false.into();
            object
        }
    }
}

fn document_json(file: &File) -> Value {
    let mut object =
        json!({ "file_id": file.id(), "file_unique_id": file.unique_id(), "file_size": file.bytes });
    if !file.name.is_empty() {
        object["file_name"] = file.name.as_str().into();
    }
    if !file.mime.is_empty() && !matches!(file.kind, FileKind::VideoNote | FileKind::Sticker) {
        object["mime_type"] = file.mime.as_str().into();
    }
    object
}

/// From the thumbnail up to the largest, which is the last.
fn photo_sizes(file: &File) -> Value {
    let long = file.width.max(file.height);
    let mut sides: Vec<u32> = [90, 320, 800].into_iter().filter(|side| *side < long).collect();
    sides.push(1280);
    let size = |side| {
        let scaled = file.scaled(side);
        json!({
            "file_id": scaled.id(),
            "file_unique_id": scaled.unique_id(),
            "width": scaled.width,
            "height": scaled.height,
            "file_size": scaled.bytes,
        })
    };
    sides.into_iter().map(size).collect()
}

/// Keeps a message object and shows it.
pub(super) fn keep(core: &Core, place: &Place, message: &Value, bot: i64, now_ms: i64, author: &Author) {
    let number = message["message_id"].as_i64().unwrap_or_default();
    let mut shown = Message::text(number, now_ms, author.clone(), "");
    refresh(&mut shown, place, message, bot);
    core.chats.post(Name::Telegram, place.key(), shown);
}

/// Brings the visible side of a message in line with its object.
pub(super) fn refresh(shown: &mut Message, place: &Place, message: &Value, bot: i64) {
    let has_text = message.get("text").is_some();
    let (text, entities) = if has_text { ("text", "entities") } else { ("caption", "caption_entities") };
    message[text].as_str().unwrap_or_default().clone_into(&mut shown.text);
    shown.spans = message[entities].as_array().into_iter().flatten().filter_map(span).collect();
    shown.media = visible_media(message);
    shown.album = message["media_group_id"].as_str().map(str::to_owned);
    let number = message["message_id"].as_i64().unwrap_or_default();
    shown.buttons = keyboard::buttons(&message["reply_markup"], bot, place.id, number);
    shown.reply_to = message["reply_to_message"]["message_id"].as_i64().map(MessageId::from);
    shown.edited_at = message["edit_date"].as_i64().map(|date| date * 1000);
    shown.note = message.get("forward_origin").map(|_| "forwarded".to_owned());
    if shown.text.is_empty() && shown.media.is_empty() {
        shown.text = summary(message);
    }
    // As text: a tree of maps takes ten times the memory, and most messages are never looked at again.
    shown.raw = Value::String(format!("{bot} {message}"));
}

/// What a reader sees of a location, a contact or a dice.
fn summary(message: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(location) = message.get("location") {
        return format!("📍 {}, {}", location["latitude"], location["longitude"]);
    }
    if let Some(contact) = message.get("contact") {
        return format!("👤 {} {}", text(&contact["first_name"]), text(&contact["phone_number"]));
    }
    if let Some(dice) = message.get("dice") {
        return format!("{} {}", text(&dice["emoji"]), dice["value"]);
    }
    if let Some(poll) = message.get("poll") {
        return format!("📊 {}", text(&poll["question"]));
    }
    String::new()
}

fn span(entity: &Value) -> Option<Span> {
    let kind = match entity["type"].as_str()? {
        "text_link" | "url" | "email" | "phone_number" | "text_mention" => "link",
        "expandable_blockquote" => "blockquote",
        "cashtag" | "bot_command" => "hashtag",
        other => other,
    };
    let unit = |field: &str| entity[field].as_u64().map(|number| number as usize);
    let url = entity["url"].as_str().map(str::to_owned);
    Some(Span { kind: kind.to_owned(), offset: unit("offset")?, length: unit("length")?, url })
}

fn visible_media(message: &Value) -> Vec<Media> {
    let kinds = ["photo", "video", "animation", "document", "audio", "voice", "sticker", "video_note"];
    let Some(kind) = kinds.into_iter().find(|kind| message.get(*kind).is_some()) else { return Vec::new() };
    let object = &message[kind];
    let object = object.as_array().and_then(|sizes| sizes.last()).unwrap_or(object);
    let Some(file) = object["file_id"].as_str().and_then(File::peek) else { return Vec::new() };
    vec![Media {
        kind: kind.to_owned(),
        url: Some(file.page_url()),
        sha256: file.url.is_empty().then(|| file.sha256.clone()),
        bytes: Some(file.bytes),
        mime: (!file.mime.is_empty()).then(|| file.mime.clone()),
        name: (!file.name.is_empty()).then(|| file.name.clone()),
        width: object["width"].as_u64().map(|width| width as u32),
        height: object["height"].as_u64().map(|height| height as u32),
        spoiler: message["has_media_spoiler"].as_bool().unwrap_or(false),
    }]
}

/// A file as the ledger lists it.
pub(super) fn ledger_media(file: &File) -> Value {
    json!({
        "kind": file.kind.field(),
        "sha256": if file.url.is_empty() { Value::from(file.sha256.as_str()) } else { Value::Null },
        "bytes": file.bytes,
        "url": if file.url.is_empty() { Value::Null } else { Value::from(file.url.as_str()) },
        "file_id": file.id(),
    })
}

/// The object of a visible message and the bot that wrote it.
pub(super) fn look(core: &Core, place: &Place, number: i64) -> Option<(Value, i64)> {
    core.chats.look(Name::Telegram, place.key(), &number.into(), |shown| {
        let (bot, message) = shown.raw.as_str()?.split_once(' ')?;
        Some((serde_json::from_str(message).ok()?, bot.parse().ok()?))
    })?
}
