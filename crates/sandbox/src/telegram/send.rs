//! The `send*` methods: text, media, albums, and what else a bot can put into a chat.

use serde_json::{Map, Value, json};

use super::entities::{self, Formatted};
use super::errors::ApiError;
use super::files::{self, File, FileKind};
use super::keyboard;
use super::messages::{self, Content, Frame, MediaContent};
use super::methods::{Done, Visitor};
use super::people::{self, Place};
use crate::platform::Name;

const TEXT_MAX: usize = 4096;
const CAPTION_MAX: usize = 1024;
const ALBUM_MAX: usize = 10;

/// `sendMessage`.
pub(super) fn message(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let text = text(visitor)?;
    let place = visitor.place("chat_id")?;
    place.check_can_send("text messages")?;
    let mut frame = frame(visitor, &place)?;
    frame.link_preview = link_preview(visitor);
    Ok(visitor.post(&place, &Content::Text(text), &frame))
}

/// The `text` of a call, parsed and within its limits.
pub(super) fn text(visitor: &Visitor<'_>) -> Result<Formatted, ApiError> {
    let args = visitor.args;
    let raw = args.text("text");
    if raw.is_empty() {
        return Err(ApiError::bad("message text is empty"));
    }
    let given = args.entities("entities");
    let formatted =
        entities::format(&raw, &args.text("parse_mode"), given.as_ref()).map_err(ApiError::bad)?;
    if formatted.text.is_empty() {
        return Err(ApiError::bad("text must be non-empty"));
    }
    if formatted.text.chars().count() > TEXT_MAX {
        return Err(ApiError::bad("message is too long"));
    }
    Ok(formatted)
}

/// The `caption` of a call.
pub(super) fn caption(visitor: &Visitor<'_>) -> Result<Formatted, ApiError> {
    let args = visitor.args;
    let given = args.entities("caption_entities");
    checked_caption(&args.text("caption"), &args.text("parse_mode"), given.as_ref()).map_err(ApiError::bad)
}

fn checked_caption(raw: &str, parse_mode: &str, given: Option<&Value>) -> Result<Formatted, String> {
    let formatted = entities::format(raw, parse_mode, given)?;
    if formatted.text.chars().count() > CAPTION_MAX {
        return Err("message caption is too long".to_owned());
    }
    Ok(formatted)
}

/// Reply, topic, keyboard and the other things that surround a message.
pub(super) fn frame(visitor: &Visitor<'_>, place: &Place) -> Result<Frame, ApiError> {
    let markup = keyboard::read(visitor.args)?;
    let (reply_to, quote) = reply(visitor, place)?;
    let frame = Frame {
        reply_to,
        quote,
        topic: place.topic(visitor.args)?,
        protected: visitor.args.flag("protect_content"),
        ..Frame::default()
    };
    Ok(frame.with_markup(markup))
}

fn link_preview(visitor: &Visitor<'_>) -> Option<Value> {
    match visitor.args.json("link_preview_options") {
        Some(Ok(Value::Object(options))) if !options.is_empty() => Some(options.into()),
        _ => visitor.args.flag("disable_web_page_preview").then(|| json!({ "is_disabled": true })),
    }
}

/// The message replied to, without its own reply, and the quotation.
fn reply(visitor: &Visitor<'_>, place: &Place) -> Result<(Option<Value>, Option<Value>), ApiError> {
    let args = visitor.args;
    let parameters = match args.json("reply_parameters") {
        Some(Ok(Value::Object(parameters))) => parameters,
        Some(_) => return Err(ApiError::bad("can't parse reply parameters JSON object")),
        None => legacy_reply(visitor),
    };
    let number = parameters.get("message_id").map_or(0, integer);
    if number == 0 {
        return Ok((None, None));
    }
    let chat = parameters.get("chat_id").map(crate::platform::chat_key);
    let elsewhere = chat.and_then(|chat| people::find_place(visitor.core, &chat));
    let found = messages::look(visitor.core, elsewhere.as_ref().unwrap_or(place), number);
    let Some((mut message, _)) = found else {
        let lenient =
            parameters.get("allow_sending_without_reply").is_some_and(|flag| flag.as_bool() == Some(true));
        return if lenient {
            Ok((None, None))
        } else {
            Err(ApiError::bad("message to be replied not found"))
        };
    };
    if let Some(object) = message.as_object_mut() {
        object.remove("reply_to_message");
    }
    let quote = quote(&parameters, &message)?;
    Ok((Some(message), quote))
}

fn legacy_reply(visitor: &Visitor<'_>) -> Map<String, Value> {
    let mut parameters = Map::new();
    parameters.insert("message_id".into(), visitor.args.integer("reply_to_message_id").into());
    let lenient = visitor.args.flag("allow_sending_without_reply");
    parameters.insert("allow_sending_without_reply".into(), lenient.into());
    parameters
}

/// A quotation has to be an exact part of the message.
fn quote(parameters: &Map<String, Value>, message: &Value) -> Result<Option<Value>, ApiError> {
    let Some(raw) = parameters.get("quote").and_then(Value::as_str).filter(|quote| !quote.is_empty()) else {
        return Ok(None);
    };
    let mode = parameters.get("quote_parse_mode").and_then(Value::as_str).unwrap_or_default();
    let formatted = entities::format(raw, mode, parameters.get("quote_entities")).map_err(ApiError::bad)?;
    let whole = message["text"].as_str().or(message["caption"].as_str()).unwrap_or_default();
    let Some(at) = whole.find(&formatted.text) else { return Err(ApiError::bad("QUOTE_TEXT_INVALID")) };
    let position = whole[..at].encode_utf16().count();
    Ok(Some(json!({ "text": formatted.text, "position": position, "is_manual": true })))
}

fn integer(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok())).unwrap_or_default()
}

/// `sendPhoto`, `sendVideo` and their like.
pub(super) async fn media(visitor: &Visitor<'_>, kind: FileKind) -> Result<Done, ApiError> {
    let field = kind.field();
    let file = visitor.file(field, kind).await?;
    let Some(mut file) = file else {
        return Err(ApiError::bad(format!("there is no {} in the request", noun(kind))));
    };
    let args = visitor.args;
    file.duration = args.clamped("duration", file.duration.into(), 0, 86_400) as u32;
    if kind != FileKind::Photo {
        file.width = args.clamped("width", file.width.into(), 0, 10_000) as u32;
        file.height = args.clamped("height", file.height.into(), 0, 10_000) as u32;
    }
    let caption = if kind == FileKind::Sticker { Formatted::default() } else { caption(visitor)? };
    let place = visitor.place("chat_id")?;
    place.check_can_send(plural(kind))?;
    let frame = frame(visitor, &place)?;
    let content = MediaContent {
        file,
        caption,
        spoiler: args.flag("has_spoiler"),
        caption_above: args.flag("show_caption_above_media"),
    };
    Ok(visitor.post(&place, &Content::Media(content), &frame))
}

fn noun(kind: FileKind) -> &'static str {
    match kind {
        FileKind::VideoNote => "video note",
        other => other.field(),
    }
}

fn plural(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Photo => "photos",
        FileKind::Video => "videos",
        FileKind::Animation => "animations",
        FileKind::Document => "documents",
        FileKind::Audio => "music",
        FileKind::Voice => "voice notes",
        FileKind::Sticker => "stickers",
        FileKind::VideoNote => "video notes",
    }
}

/// `sendMediaGroup`: all items, or none.
pub(super) async fn media_group(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let items = match visitor.args.json("media") {
        Some(Ok(Value::Array(items))) => items,
        Some(Ok(_)) => return Err(ApiError::bad("expected an Array of InputMedia")),
        Some(Err(())) => return Err(ApiError::bad("can't parse media JSON object")),
        None => Vec::new(),
    };
    if items.is_empty() {
        return Err(ApiError::bad("there are no messages to send"));
    }
    if items.len() > ALBUM_MAX {
        return Err(ApiError::bad("too many messages to send as an album"));
    }
    let mut contents = Vec::new();
    for item in &items {
        contents.push(input_media(visitor, item, InAlbum::Yes).await?);
    }
    check_mixture(&contents)?;
    let place = visitor.place("chat_id")?;
    place.check_can_send(plural(contents[0].file.kind))?;
    let mut frame = frame(visitor, &place)?;
    frame.markup = None;
    frame.album = (contents.len() > 1).then(|| visitor.own.next_album());
    let posted: Vec<Value> = contents
        .iter()
        .map(|content| visitor.post_one(&place, &Content::Media(content.clone()), &frame))
        .collect();
    let ids: Value = posted.iter().map(|message| message["message_id"].clone()).collect();
    let captions: Vec<&str> = contents
        .iter()
        .map(|content| content.caption.text.as_str())
        .filter(|text| !text.is_empty())
        .collect();
    let mut done = Done::visible(Value::from(posted), ids);
    done.effect.media = contents.iter().map(|content| messages::ledger_media(&content.file)).collect();
    done.effect.text = (!captions.is_empty()).then(|| captions.join("\n"));
    Ok(done)
}

/// Whether an `InputMedia` is part of an album or replaces a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InAlbum {
    Yes,
    No,
}

/// One `InputMedia` object.
pub(super) async fn input_media(
    visitor: &Visitor<'_>,
    item: &Value,
    album: InAlbum,
) -> Result<MediaContent, ApiError> {
    let wrapped = |message: &str| ApiError::bad(format!("can't parse InputMedia: {message}"));
    let Some(object) = item.as_object() else { return Err(wrapped("expected an Object")) };
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = match text("type").as_str() {
        "photo" => FileKind::Photo,
        "video" => FileKind::Video,
        "document" => FileKind::Document,
        "audio" => FileKind::Audio,
        "animation" if album == InAlbum::No => FileKind::Animation,
        "animation" => return Err(wrapped("type \"animation\" can't be used in sendMediaGroup")),
        "" => return Err(wrapped("Can't find field \"type\"")),
        _ => return Err(wrapped("invalid type specified")),
    };
    let caption = checked_caption(&text("caption"), &text("parse_mode"), object.get("caption_entities"));
    let caption = caption.map_err(|error| wrapped(&capitalised(&error)))?;
    let media = text("media");
    if media.is_empty() {
        return Err(wrapped("media not found"));
    }
    let file = files::find(visitor.core, visitor.args, &media, None, kind, visitor.bot).await?;
    let mut file: File = file.ok_or_else(|| wrapped("media not found"))?;
    let number = |field: &str| object.get(field).map_or(0, integer).clamp(0, 86_400) as u32;
    if kind != FileKind::Photo {
        file.duration = file.duration.max(number("duration"));
        file.width = file.width.max(number("width"));
        file.height = file.height.max(number("height"));
    }
    let flag = |field: &str| object.get(field).and_then(Value::as_bool).unwrap_or(false);
    Ok(MediaContent {
        file,
        caption,
        spoiler: flag("has_spoiler"),
        caption_above: flag("show_caption_above_media"),
    })
}

fn capitalised(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn check_mixture(contents: &[MediaContent]) -> Result<(), ApiError> {
    for (alone, name) in [(FileKind::Document, "document"), (FileKind::Audio, "audio")] {
        let n_alone = contents.iter().filter(|content| content.file.kind == alone).count();
        if n_alone > 0 && n_alone < contents.len() {
            return Err(ApiError::bad(format!("{name} can't be mixed with other media types")));
        }
    }
    let above = contents.iter().filter(|content| content.caption_above).count();
    if above > 0 && above < contents.len() {
        return Err(ApiError::bad("parameter show_caption_above_media must be the same for all messages"));
    }
    Ok(())
}

/// `sendLocation`, `sendVenue`, `sendContact`, `sendDice`, `sendPoll`.
pub(super) fn object(visitor: &Visitor<'_>, field: &'static str) -> Result<Done, ApiError> {
    let args = visitor.args;
    let required = |name: &str| match args.text(name) {
        text if text.is_empty() => Err(ApiError::bad(format!("{name} is empty"))),
        text => Ok(text),
    };
    let number = |name: &str| required(name).map(|text| text.parse::<f64>().unwrap_or_default());
    let value = match field {
        "location" => json!({ "latitude": number("latitude")?, "longitude": number("longitude")? }),
        "venue" => json!({
            "location": { "latitude": number("latitude")?, "longitude": number("longitude")? },
            "title": required("title")?,
            "address": required("address")?,
        }),
        "contact" => {
            json!({ "phone_number": required("phone_number")?, "first_name": required("first_name")? })
        }
        "dice" => dice(visitor),
        _ => poll(visitor, &required("question")?)?,
    };
    let place = visitor.place("chat_id")?;
    place.check_can_send(if field == "poll" { "polls" } else { "messages" })?;
    let frame = frame(visitor, &place)?;
    Ok(visitor.post(&place, &Content::Object(field, value), &frame))
}

/// Chance is the sandbox's seed and the number of messages so far, so a rehearsal repeats itself.
fn dice(visitor: &Visitor<'_>) -> Value {
    let emoji = match visitor.args.text("emoji") {
        text if text.is_empty() => "🎲".to_owned(),
        text => text,
    };
    let most = match emoji.as_str() {
        "🎰" => 64,
        "🏀" | "⚽" => 5,
        _ => 6,
    };
    let throw = visitor.core.number_of(&format!("dice {}", visitor.core.chats.n_messages(Name::Telegram)));
    json!({ "emoji": emoji, "value": throw % most + 1 })
}

fn poll(visitor: &Visitor<'_>, question: &str) -> Result<Value, ApiError> {
    let Some(Ok(Value::Array(options))) = visitor.args.json("options") else {
        return Err(ApiError::bad("can't parse options JSON object"));
    };
    if !(1..=12).contains(&options.len()) {
        return Err(ApiError::bad("poll must have at least 1 option and at most 12 options"));
    }
    let option = |value: &Value| {
        let text = value.as_str().or(value["text"].as_str()).unwrap_or_default();
        json!({ "text": text, "voter_count": 0, "persistent_id": text })
    };
    let kind = if visitor.args.text("type") == "quiz" { "quiz" } else { "regular" };
    Ok(json!({
        "id": visitor.core.number_of(question).to_string(),
        "question": question,
        "options": options.iter().map(option).collect::<Vec<Value>>(),
        "total_voter_count": 0,
        "is_closed": visitor.args.flag("is_closed"),
        "is_anonymous": !visitor.args.has("is_anonymous") || visitor.args.flag("is_anonymous"),
        "type": kind,
        "allows_multiple_answers": visitor.args.flag("allows_multiple_answers"),
        "allows_revoting": true,
        "members_only": false,
    }))
}

/// `sendChatAction`.
pub(super) fn chat_action(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    const ACTIONS: &[&str] = &[
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "record_audio",
        "upload_audio",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    ];
    let action = visitor.args.text("action").to_ascii_lowercase();
    if !ACTIONS.contains(&action.as_str()) {
        return Err(ApiError::bad("wrong parameter action in request"));
    }
    let place = visitor.place("chat_id")?;
    place.check_can_send("text messages")?;
    if place.is_channel() {
        return Err(ApiError::bad("chat actions can't be sent to channels"));
    }
    Ok(Done::new(true.into()))
}
