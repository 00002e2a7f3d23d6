//! `POST`, `PUT` and `DELETE /messages`, and `POST /answers`, which edits as well.

use serde_json::{Value, json};

use super::compose::{self, Composed, Link, NewMessage};
use super::errors::ApiError;
use super::markup::{Format, Styled};
use super::messages::{Draft, Kept};
use super::places::Place;
use super::{Done, Visitor, bots};
use crate::platform::Name;

/// Dialogs can be edited for a week.
const EDIT_WINDOW_MS: i64 = 7 * 24 * 3600 * 1000;

/// `POST /messages`.
pub(super) async fn send(visitor: &Visitor<'_>, body: &Value) -> Result<Done, ApiError> {
    let new = NewMessage::parse(body)?;
    let place = recipient(visitor)?;
    visitor.check_speed("send", place.id)?;
    check_may_post(visitor, &place)?;
    let styled = compose::styled(visitor, new.text.as_deref().unwrap_or_default(), new.format)?;
    let link = new.link.as_ref().map(|link| linked(visitor, link)).transpose()?;
    let composed = compose::attachments(visitor, new.attachments.as_deref().unwrap_or_default()).await?;
    let forwards = new.link.as_ref().is_some_and(|link| link.forward);
    if styled.text.is_empty() && !composed.has_media() && !forwards {
        return Err(ApiError::payload("Message must contain text or attachments"));
    }
    Ok(create(visitor, &place, &styled, &composed, link))
}

/// Everything is checked: the message comes into being.
fn create(
    visitor: &Visitor<'_>,
    place: &Place,
    styled: &Styled,
    composed: &Composed,
    link: Option<Value>,
) -> Done {
    let mut attachments = composed.attachments.clone();
    if !visitor.flag("disable_link_preview") {
        attachments.extend(compose::preview(styled, composed));
    }
    let sender = bots::user(visitor);
    let draft = Draft {
        place,
        sender: &sender,
        bot: visitor.id,
        at: visitor.now_ms(),
        seq: visitor.max.next_seq(),
        styled,
        attachments,
        link,
        post: None,
    };
    let object = draft.object();
    visitor.max.keep(place, &object, &sender, Some(visitor.id));
    if visitor.options().own_messages() {
        let update = json!({
            "update_type": "message_created",
            "timestamp": draft.at,
            "message": object,
        });
        visitor.max.deliver(visitor.account, &visitor.bot, update, place.id);
    }
    let mut done = Done::visible(json!({ "message": object }), &object["body"]["mid"]);
    done.effect.text = Some(styled.text.clone()).filter(|text| !text.is_empty());
    done.effect.media = composed.files.iter().map(super::uploads::Attached::ledger).collect();
    done
}

/// Exactly one of `chat_id` and `user_id`.
fn recipient(visitor: &Visitor<'_>) -> Result<Place, ApiError> {
    let (chat, user) = (visitor.number("chat_id")?, visitor.number("user_id")?);
    match (chat, user) {
        (Some(chat), None) => visitor.place(chat),
        (None, Some(user)) => visitor.dialog_with(user),
        (Some(_), Some(_)) => Err(ApiError::payload("Only one of `chat_id` and `user_id` must be specified")),
        (None, None) => Err(ApiError::payload("One of `chat_id` and `user_id` must be specified")),
    }
}

pub(super) fn check_may_post(visitor: &Visitor<'_>, place: &Place) -> Result<(), ApiError> {
    visitor.max.rooms.check_entry(place, visitor.id)?;
    if place.is_channel() && !visitor.max.rooms.may(place, visitor.id, "write") {
        return Err(ApiError::chat_denied("chat.send.msg.no.permission.because.not.admin"));
    }
    Ok(())
}

/// `link` of a message: the other message with its sender, its keyboard left behind.
pub(super) fn linked(visitor: &Visitor<'_>, link: &Link) -> Result<Value, ApiError> {
    let missing = || ApiError::not_found(format!("Message {} not found", link.mid));
    let kept = visitor.max.look(&link.mid).ok_or_else(missing)?;
    // A message that only passes another on is answered for that other one.
    let passed_on =
        kept.object["link"]["type"] == "forward" && kept.object["body"]["text"] == "" && link.forward;
    let mut body =
        if passed_on { kept.object["link"]["message"].clone() } else { kept.object["body"].clone() };
    if let Some(body) = body.as_object_mut()
        && let Some(Value::Array(mut attachments)) = body.remove("attachments")
    {
        attachments.retain(|item| item["type"] != "inline_keyboard");
        if !attachments.is_empty() {
            body.insert("attachments".into(), attachments.into());
        }
    }
    let mut object = json!({ "type": if link.forward { "forward" } else { "reply" }, "message": body });
    if let Some(sender) = kept.object.get("sender") {
        object["sender"] = sender.clone();
    }
    if link.forward {
        object["chat_id"] = kept.object["recipient"]["chat_id"].clone();
    }
    Ok(object)
}

/// `PUT /messages`.
pub(super) async fn edit(visitor: &Visitor<'_>, body: &Value) -> Result<Done, ApiError> {
    let new = NewMessage::parse(body)?;
    let mid = visitor.required("message_id")?;
    if let Some(chat) = visitor.max.chat_of(&mid) {
        visitor.check_speed("edit", chat)?;
    }
    let kept = own_message(visitor, &mid)?;
    check_window(visitor, &kept)?;
    change(visitor, &mid, kept, new).await
}

/// A message that this bot may edit.
fn own_message(visitor: &Visitor<'_>, mid: &str) -> Result<Kept, ApiError> {
    let missing = || ApiError::not_found(format!("Message {mid} not found"));
    let place = visitor.max.chat_of(mid).and_then(|chat| visitor.place(chat).ok()).ok_or_else(missing)?;
    let kept = visitor.max.look(mid).ok_or_else(missing)?;
    visitor.max.rooms.check_entry(&place, visitor.id)?;
    let may = kept.bot == Some(visitor.id)
        || (place.is_channel() && visitor.max.rooms.may(&place, visitor.id, "edit"));
    if may { Ok(kept) } else { Err(ApiError::access_denied("Message can not be edited")) }
}

fn check_window(visitor: &Visitor<'_>, kept: &Kept) -> Result<(), ApiError> {
    let in_dialog = kept.object["recipient"]["chat_type"] == "dialog";
    let has_keyboard = attachments_of(&kept.object).iter().any(|item| item["type"] == "inline_keyboard");
    if in_dialog && !has_keyboard && visitor.now_ms().saturating_sub(kept.at) > EDIT_WINDOW_MS {
        return Err(ApiError::unsuccessful("Message is too old to be edited"));
    }
    Ok(())
}

fn attachments_of(object: &Value) -> Vec<Value> {
    object["body"]["attachments"].as_array().cloned().unwrap_or_default()
}

/// Applies a new body to a message: what is absent stays, an empty list removes, a list replaces.
async fn change(visitor: &Visitor<'_>, mid: &str, kept: Kept, new: NewMessage) -> Result<Done, ApiError> {
    let styled = new.text.as_deref().map(|text| compose::styled(visitor, text, new.format)).transpose()?;
    let link = new.link.as_ref().map(|link| linked(visitor, link)).transpose()?;
    let composed = match &new.attachments {
        Some(list) => Some(compose::attachments(visitor, list).await.map_err(ApiError::on_edit)?),
        None => None,
    };
    let mut object = kept.object;
    let files: Vec<Value> =
        composed.iter().flat_map(|composed| &composed.files).map(super::uploads::Attached::ledger).collect();
    write_attachments(visitor, &mut object, styled.as_ref(), composed);
    if let Some(styled) = &styled {
        super::messages::write_text(&mut object["body"], styled);
    }
    if let Some(link) = link {
        object["link"] = link;
    }
    let shows = attachments_of(&object).iter().any(|item| item["type"] != "inline_keyboard");
    if object["body"]["text"] == "" && !shows && object["link"]["type"] != "forward" {
        return Err(ApiError::unsuccessful("Message must contain text or attachments"));
    }
    if !visitor.max.replace(mid, &object, visitor.now_ms()) {
        return Err(ApiError::not_found(format!("Message {mid} not found")));
    }
    let mut done = Done::visible(json!({ "success": true }), &mid.into());
    done.effect.text = styled.map(|styled| styled.text);
    done.effect.media = files;
    Ok(done)
}

/// A preview of an old text goes, that of a new one comes; the server's own previews have a title.
fn write_attachments(
    visitor: &Visitor<'_>,
    object: &mut Value,
    styled: Option<&Styled>,
    composed: Option<Composed>,
) {
    let mut composed =
        composed.unwrap_or_else(|| Composed { attachments: attachments_of(object), files: Vec::new() });
    if let Some(styled) = styled {
        composed.attachments.retain(|item| item["type"] != "share" || item.get("title").is_none());
        if !visitor.flag("disable_link_preview") {
            let preview = compose::preview(styled, &composed);
            composed.attachments.extend(preview);
        }
    }
    let Some(body) = object["body"].as_object_mut() else { return };
    if composed.attachments.is_empty() {
        body.remove("attachments");
    } else {
        body.insert("attachments".into(), composed.attachments.into());
    }
}

/// `DELETE /messages`.
pub(super) fn delete(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let mid = visitor.required("message_id")?;
    let missing = || ApiError::not_found(format!("Message {mid} not found"));
    let chat = visitor.max.chat_of(&mid).ok_or_else(missing)?;
    visitor.check_speed("delete", chat)?;
    let place = visitor.place(chat).map_err(|_| missing())?;
    let kept = visitor.max.look(&mid).ok_or_else(missing)?;
    visitor.max.rooms.check_entry(&place, visitor.id)?;
    let rights = !place.is_dialog() && visitor.max.rooms.may(&place, visitor.id, "delete");
    if kept.bot != Some(visitor.id) && !rights {
        return Err(ApiError::access_denied("Message can not be deleted"));
    }
    if !visitor.max.remove(&mid) {
        return Err(missing());
    }
    let was_pinned = visitor.max.rooms.look(chat, |room| room.pinned.as_deref() == Some(mid.as_str()));
    if was_pinned {
        visitor.max.rooms.change(chat, |room| room.pinned = None);
    }
    Ok(Done::visible(json!({ "success": true }), &mid.as_str().into()))
}

/// `POST /answers`: edits the message of the pressed button, shows the presser a remark, or both.
pub(super) async fn answer(visitor: &Visitor<'_>, body: &Value) -> Result<Done, ApiError> {
    let id = visitor.required("callback_id")?;
    let body = body.as_object().ok_or_else(ApiError::body)?;
    let notification = match body.get("notification") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => return Err(ApiError::body()),
    };
    let new = body.get("message").filter(|message| !message.is_null()).map(NewMessage::parse).transpose()?;
    let pressed = visitor.max.callbacks.get(&id).filter(|pressed| pressed.bot == visitor.id);
    let pressed = pressed.ok_or_else(|| ApiError::not_found(format!("Callback {id} not found")))?;
    visitor.check_speed("answer", pressed.chat)?;
    let mut done = match new {
        Some(new) if says_something(&new) => {
            let kept = own_message(visitor, &pressed.mid)?;
            change(visitor, &pressed.mid, kept, new).await?
        }
        _ => Done::new(json!({ "success": true })),
    };
    if let Some(text) = notification {
        visitor.core().chats.notice(Name::Max, &pressed.chat.to_string(), text);
        done.effect.text = done.effect.text.or_else(|| Some(text.clone()));
    }
    Ok(done)
}

/// An answer whose message holds nothing but defaults changes nothing.
fn says_something(new: &NewMessage) -> bool {
    new.text.is_some() || new.attachments.is_some() || new.link.is_some() || new.format != Format::Plain
}
