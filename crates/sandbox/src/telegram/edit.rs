//! Messages that are already there: editing, deleting, pinning, copying and forwarding.

use serde_json::{Map, Value, json};

use super::errors::ApiError;
use super::keyboard::{self, Markup};
use super::messages::{self, Content};
use super::methods::{Done, Visitor};
use super::people::Place;
use super::send;
use crate::platform::Name;

const NOT_MODIFIED: &str = "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message";
/// Messages older than this cannot be deleted.
const DELETE_S_MAX: i64 = 48 * 3600;

/// `editMessageText`.
pub(super) fn text(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let text = send::text(visitor)?;
    let (place, message) = own_message(visitor)?;
    if message.get("text").is_none() {
        return Err(ApiError::bad("there is no text in the message to edit"));
    }
    replace(visitor, &place, &message, messages::with_content(&message, &Content::Text(text)))
}

/// `editMessageCaption`.
pub(super) fn caption(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let caption = send::caption(visitor)?;
    let (place, message) = own_message(visitor)?;
    if message.get("text").is_some() || message.get("sticker").is_some() {
        return Err(ApiError::bad("there is no caption in the message to edit"));
    }
    let mut edited = object(&message);
    edited.remove("caption");
    edited.remove("caption_entities");
    if !caption.text.is_empty() {
        edited.insert("caption".into(), caption.text.as_str().into());
    }
    if !caption.entities.is_empty() {
        edited.insert("caption_entities".into(), caption.entities_json());
    }
    replace(visitor, &place, &message, edited)
}

/// `editMessageMedia`.
pub(super) async fn media(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let item = match visitor.args.json("media") {
        Some(Ok(item)) => item,
        Some(Err(())) => return Err(ApiError::bad("can't parse media JSON object")),
        None => return Err(ApiError::bad("there is no media in the request")),
    };
    let content = send::input_media(visitor, &item, send::InAlbum::No).await?;
    let (place, message) = own_message(visitor)?;
    let file = messages::ledger_media(&content.file);
    let mut done =
        replace(visitor, &place, &message, messages::with_content(&message, &Content::Media(content)))?;
    done.effect.media = vec![file];
    Ok(done)
}

/// `editMessageReplyMarkup`.
pub(super) fn reply_markup(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let (place, message) = own_message(visitor)?;
    let edited = object(&message);
    replace(visitor, &place, &message, edited)
}

/// The message that a call names, if it is the bot's own.
fn own_message(visitor: &Visitor<'_>) -> Result<(Place, Value), ApiError> {
    if visitor.args.has("inline_message_id") {
        return Err(ApiError::bad("message to edit not found"));
    }
    let place = visitor.place("chat_id")?;
    let number = visitor.args.message_id("message_id")?;
    place.check_can_send("text messages")?;
    let found = messages::look(visitor.core, &place, number);
    let (message, bot) = found.ok_or_else(|| ApiError::bad("message to edit not found"))?;
    if bot != visitor.bot {
        return Err(ApiError::bad("message can't be edited"));
    }
    Ok((place, message))
}

/// Puts the edited message in place of the old one. A keyboard that is not given again is gone.
fn replace(
    visitor: &Visitor<'_>,
    place: &Place,
    old: &Value,
    mut edited: Map<String, Value>,
) -> Result<Done, ApiError> {
    edited.remove("reply_markup");
    match keyboard::read(visitor.args)? {
        Markup::None => {}
        Markup::Inline(markup) => {
            edited.insert("reply_markup".into(), markup);
        }
        Markup::Other => return Err(ApiError::bad("inline keyboard expected")),
    }
    edited.remove("edit_date");
    let mut unchanged = object(old);
    unchanged.remove("edit_date");
    if edited == unchanged {
        return Err(ApiError::bad(NOT_MODIFIED));
    }
    edited.insert("edit_date".into(), visitor.core.clock.now_s().into());
    let edited = Value::from(edited);
    let number = edited["message_id"].as_i64().unwrap_or_default();
    visitor.core.chats.edit(Name::Telegram, place.key(), &number.into(), |shown| {
        messages::refresh(shown, place, &edited, visitor.bot);
    });
    let mut done = Done::visible(edited.clone(), number.into());
    done.effect.text = edited["text"].as_str().or(edited["caption"].as_str()).map(str::to_owned);
    Ok(done)
}

fn object(message: &Value) -> Map<String, Value> {
    message.as_object().cloned().unwrap_or_default()
}

/// `deleteMessage`.
pub(super) fn delete(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let place = visitor.place("chat_id")?;
    let number = visitor.args.message_id("message_id")?;
    place.check_access()?;
    let found = messages::look(visitor.core, &place, number);
    let (message, _) = found.ok_or_else(|| ApiError::bad("message to delete not found"))?;
    if visitor.core.clock.now_s() - message["date"].as_i64().unwrap_or_default() > DELETE_S_MAX {
        return Err(ApiError::bad("message can't be deleted for everyone"));
    }
    visitor.core.chats.remove(Name::Telegram, place.key(), &number.into());
    Ok(Done::visible(true.into(), number.into()))
}

/// `deleteMessages`: those that exist.
pub(super) fn delete_many(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let place = visitor.place("chat_id")?;
    place.check_access()?;
    let numbers = message_ids(visitor)?;
    for number in &numbers {
        visitor.core.chats.remove(Name::Telegram, place.key(), &(*number).into());
    }
    Ok(Done::visible(true.into(), numbers.into()))
}

fn message_ids(visitor: &Visitor<'_>) -> Result<Vec<i64>, ApiError> {
    let Some(Ok(Value::Array(items))) = visitor.args.json("message_ids") else {
        return Err(ApiError::bad("message identifiers are not specified"));
    };
    if items.is_empty() {
        return Err(ApiError::bad("message identifiers are not specified"));
    }
    if items.len() > 100 {
        return Err(ApiError::bad("too many message identifiers specified"));
    }
    let number = |item: &Value| item.as_i64().or_else(|| item.as_str().and_then(|text| text.parse().ok()));
    items
        .iter()
        .map(|item| number(item).ok_or_else(|| ApiError::bad("invalid message identifier specified")))
        .collect()
}

/// `pinChatMessage` and `unpinChatMessage`.
pub(super) fn pin(visitor: &Visitor<'_>, pinned: Pinned) -> Result<Done, ApiError> {
    let place = visitor.place("chat_id")?;
    place.check_access()?;
    if !place.is_private() && place.chat.field("bot_status") == "member" {
        return Err(ApiError::bad("not enough rights to manage pinned messages in the chat"));
    }
    let all = visitor.core.chats.messages(Name::Telegram, place.key());
    let number = match visitor.args.integer("message_id") {
        0 if pinned == Pinned::No => {
            all.iter().rev().find(|shown| shown.pinned).map(|shown| shown.id.clone())
        }
        0 => return Err(ApiError::bad("message identifier is not specified")),
        number => Some(number.into()),
    };
    let change = |shown: &mut crate::chats::Message| shown.pinned = pinned == Pinned::Yes;
    let done = number.and_then(|id| visitor.core.chats.edit(Name::Telegram, place.key(), &id, change));
    done.map(|()| Done::new(true.into())).ok_or_else(|| {
        let verb = if pinned == Pinned::Yes { "pin" } else { "unpin" };
        ApiError::bad(format!("message to {verb} not found"))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pinned {
    Yes,
    No,
}

/// `unpinAllChatMessages`.
pub(super) fn unpin_all(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let place = visitor.place("chat_id")?;
    place.check_access()?;
    for shown in visitor.core.chats.messages(Name::Telegram, place.key()).iter().filter(|shown| shown.pinned)
    {
        visitor.core.chats.edit(Name::Telegram, place.key(), &shown.id, |shown| shown.pinned = false);
    }
    Ok(Done::new(true.into()))
}

/// Whether the new message names its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Copy,
    Forward,
}

/// `copyMessage` and `forwardMessage`.
pub(super) fn again(visitor: &Visitor<'_>, again: Again) -> Result<Done, ApiError> {
    let number = visitor.args.message_id("message_id")?;
    let source = visitor.place("from_chat_id")?;
    let place = visitor.place("chat_id")?;
    place.check_can_send("text messages")?;
    let new_caption = match again {
        Again::Copy if visitor.args.has("caption") => Some(send::caption(visitor)?),
        _ => None,
    };
    let Some((original, _)) = messages::look(visitor.core, &source, number) else {
        let verb = if again == Again::Copy { "copy" } else { "forward" };
        return Err(ApiError::bad(format!("message to {verb} not found")));
    };
    let mut content = original;
    if let (Some(caption), Some(object)) = (new_caption, content.as_object_mut())
        && !object.contains_key("text")
    {
        object.insert("caption".into(), caption.text.as_str().into());
        object.insert("caption_entities".into(), caption.entities_json());
    }
    let posted = visitor.post_again(&place, &content, again, None)?;
    let id = posted["message_id"].clone();
    let result = if again == Again::Copy { json!({ "message_id": id }) } else { posted.clone() };
    let mut done = Done::visible(result, id);
    done.effect.text = posted["text"].as_str().or(posted["caption"].as_str()).map(str::to_owned);
    Ok(done)
}

/// `copyMessages` and `forwardMessages`: albums stay albums, unknown messages are skipped.
pub(super) fn again_many(visitor: &Visitor<'_>, again: Again) -> Result<Done, ApiError> {
    let numbers = message_ids(visitor)?;
    if numbers.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(ApiError::bad("message identifiers must be in a strictly increasing order"));
    }
    let source = visitor.place("from_chat_id")?;
    let place = visitor.place("chat_id")?;
    place.check_can_send("text messages")?;
    let found: Vec<Value> = numbers
        .iter()
        .filter_map(|number| messages::look(visitor.core, &source, *number))
        .map(|(m, _)| m)
        .collect();
    if found.is_empty() {
        return Err(ApiError::bad("there are no messages to copy"));
    }
    let mut ids = Vec::new();
    for mut content in found {
        if visitor.args.flag("remove_caption")
            && let Some(object) = content.as_object_mut()
        {
            object.remove("caption");
            object.remove("caption_entities");
        }
        let album = content["media_group_id"]
            .as_str()
            .map(|album| format!("{album}{}", place.id.unsigned_abs() % 97));
        let posted = visitor.post_again(&place, &content, again, album)?;
        ids.push(posted["message_id"].clone());
    }
    let result: Value = ids.iter().map(|id| json!({ "message_id": id })).collect();
    Ok(Done::visible(result, ids.into()))
}
