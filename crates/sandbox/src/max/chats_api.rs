//! `/chats` and below: the chat itself, its members, its administrators, its pin, its "is typing".

use serde_json::{Value, json};

use super::errors::ApiError;
use super::markup::units;
use super::people::User;
use super::places::{ChatKind, PERMISSIONS, Place, owner_id};
use super::{Done, Visitor, bots};
use crate::platform::Name;

const ACTIONS: &[&str] =
    &["typing_on", "sending_photo", "sending_video", "sending_audio", "sending_file", "mark_seen"];
const ADMINS_MAX: usize = 50;

fn success() -> Done {
    Done::new(json!({ "success": true }))
}

/// `GET /chats`: removed in June 2026, and still asked for by libraries.
pub(super) fn list(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let count = visitor.ranged("count", 50, 1, 100)? as usize;
    let skip = visitor.number("marker")?.unwrap_or(0).max(0) as usize;
    let core = visitor.core();
    let mut ids: Vec<i64> =
        core.registry.chats(Name::Max).iter().filter_map(|chat| chat.id.parse().ok()).collect();
    let shown = core.chats.visible(Name::Max, None, 0);
    ids.extend(shown.iter().filter_map(|chat| chat.id.as_i64()));
    ids.sort_unstable();
    ids.dedup();
    let present = ids.iter().filter_map(|id| visitor.entered(*id).ok());
    let mut chats: Vec<Value> =
        present.skip(skip).take(count + 1).map(|place| object(visitor, &place, Pin::No)).collect();
    let more = chats.len() > count;
    chats.truncate(count);
    let mut body = json!({ "chats": chats });
    if more {
        body["marker"] = (skip + count).into();
    }
    Ok(Done::new(body))
}

/// `GET /chats/{chatId}`.
pub(super) fn get(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.place(id)?;
    Ok(Done::new(object(visitor, &place, Pin::Yes)))
}

/// `GET /chats/{link}`.
pub(super) fn get_by_link(visitor: &Visitor<'_>, link: &str) -> Result<Done, ApiError> {
    let max = visitor.max;
    let place = Place::find_by_name(visitor.core(), &max.rooms, link, visitor.id);
    let place = place.ok_or_else(|| ApiError::chat_not_found(link))?;
    Ok(Done::new(object(visitor, &place, Pin::Yes)))
}

/// Whether the pinned message is part of the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pin {
    Yes,
    No,
}

fn object(visitor: &Visitor<'_>, place: &Place, pin: Pin) -> Value {
    let rooms = &visitor.max.rooms;
    let user = place.user_id.map(|id| visitor.max.people.get(id));
    let mut object = rooms.json(visitor.core(), place, visitor.id, user.as_ref());
    if place.is_dialog() {
        return object;
    }
    let members = rooms.members(visitor.core(), place);
    let count = rooms.declared_count(place).unwrap_or(members.len() as i64 + 1);
    object["participants_count"] = count.into();
    object["owner_id"] = owner_id(visitor.core(), place).into();
    if place.kind == ChatKind::Chat && pin == Pin::Yes {
        let mut participants = json!({ visitor.id.to_string(): visitor.now_ms() });
        for (id, joined) in members.iter().take(100) {
            participants[id.to_string()] = (*joined).into();
        }
        object["participants"] = participants;
    }
    if let Some(message) = pinned_message(visitor, place).filter(|_| pin == Pin::Yes) {
        object["pinned_message"] = message;
    }
    object
}

fn pinned_message(visitor: &Visitor<'_>, place: &Place) -> Option<Value> {
    let mid = visitor.max.rooms.look(place.id, |room| room.pinned.clone())?;
    visitor.max.look(&mid).map(|kept| kept.object)
}

/// Refuses bots without a right. Dialogs have none to give.
fn check_right(visitor: &Visitor<'_>, place: &Place, right: &str) -> Result<(), ApiError> {
    if place.is_dialog() {
        return Err(ApiError::payload("Method is not available for dialogs"));
    }
    if !visitor.max.rooms.may(place, visitor.id, right) {
        return Err(ApiError::chat_denied(format!("Insufficient access rights: {right}")));
    }
    Ok(())
}

fn check_admin(visitor: &Visitor<'_>, place: &Place) -> Result<(), ApiError> {
    if place.is_dialog() {
        return Err(ApiError::payload("Method is not available for dialogs"));
    }
    if visitor.max.rooms.permissions(place, visitor.id).is_empty() {
        return Err(ApiError::chat_denied("Insufficient access rights: bot is not admin"));
    }
    Ok(())
}

/// `PATCH /chats/{chatId}`.
pub(super) fn edit(visitor: &Visitor<'_>, id: i64, body: &Value) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    let body = body.as_object().ok_or_else(ApiError::body)?;
    let text = |field: &str, most: usize| match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if (1..=most).contains(&units(text)) => Ok(Some(text.clone())),
        Some(Value::String(_)) => {
            Err(ApiError::payload(format!("{field}: size must be between 1 and {most}")))
        }
        Some(_) => Err(ApiError::body()),
    };
    let (title, description) = (text("title", 200)?, text("description", 400)?);
    let icon = icon_url(visitor, body.get("icon").unwrap_or(&Value::Null))?;
    let pin = text("pin", 1000)?;
    check_right(visitor, &place, "change_chat_info")?;
    if let Some(mid) = &pin {
        check_pin(visitor, &place, mid)?;
    }
    visitor.max.rooms.change(id, |room| {
        room.title = title.or(room.title.take());
        room.description = description.or(room.description.take());
        room.icon_url = icon.or(room.icon_url.take());
    });
    if let Some(mid) = pin {
        set_pin(visitor, &place, Some(mid));
    }
    visitor.max.rooms.show(visitor.core(), &place, None);
    Ok(Done::new(object(visitor, &place, Pin::Yes)))
}

fn icon_url(visitor: &Visitor<'_>, icon: &Value) -> Result<Option<String>, ApiError> {
    if icon.is_null() {
        return Ok(None);
    }
    let photo = icon["photos"].as_object().and_then(|photos| photos.values().next());
    let token = icon["token"].as_str().or_else(|| photo.and_then(|photo| photo["token"].as_str()));
    if let Some(token) = token {
        let found = visitor.max.uploads.find(token, super::uploads::MediaKind::Image);
        let found = found.map_err(|_| ApiError::payload("Invalid `token` in icon"))?;
        return Ok(Some(found.url));
    }
    let url = icon["url"].as_str().map(str::to_owned);
    url.map(Some).ok_or_else(|| ApiError::payload("No `photos`, `url` or `token` provided. Check payload."))
}

/// `DELETE /chats/{chatId}`: no bot has the right.
pub(super) fn delete(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    visitor.entered(id)?;
    Err(ApiError::unsuccessful("Insufficient access rights to delete the chat"))
}

/// `POST /chats/{chatId}/actions`.
pub(super) fn action(visitor: &Visitor<'_>, id: i64, body: &Value) -> Result<Done, ApiError> {
    visitor.entered(id)?;
    let action = body["action"].as_str().filter(|action| ACTIONS.contains(action));
    let action = action.ok_or_else(ApiError::body)?;
    let mut done = success();
    done.effect.text = Some(action.to_owned());
    Ok(done)
}

// -- pins

/// `GET /chats/{chatId}/pin`.
pub(super) fn pinned(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    Ok(Done::new(json!({ "message": pinned_message(visitor, &place) })))
}

/// `PUT /chats/{chatId}/pin`.
pub(super) fn pin(visitor: &Visitor<'_>, id: i64, body: &Value) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    let mid = body["message_id"].as_str().ok_or_else(ApiError::body)?;
    check_right(visitor, &place, "pin_message")?;
    check_pin(visitor, &place, mid)?;
    set_pin(visitor, &place, Some(mid.to_owned()));
    Ok(Done::visible(json!({ "success": true }), &mid.into()))
}

fn check_pin(visitor: &Visitor<'_>, place: &Place, mid: &str) -> Result<(), ApiError> {
    let here = visitor.max.chat_of(mid) == Some(place.id) && visitor.max.look(mid).is_some();
    if here { Ok(()) } else { Err(ApiError::payload(format!("Message {mid} can not be pinned"))) }
}

fn set_pin(visitor: &Visitor<'_>, place: &Place, mid: Option<String>) {
    let old = visitor.max.rooms.change(place.id, |room| std::mem::replace(&mut room.pinned, mid.clone()));
    if let Some(old) = old {
        visitor.max.show_pin(&old, false);
    }
    if let Some(mid) = mid {
        visitor.max.show_pin(&mid, true);
    }
}

/// `DELETE /chats/{chatId}/pin`.
pub(super) fn unpin(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    check_right(visitor, &place, "pin_message")?;
    set_pin(visitor, &place, None);
    Ok(success())
}

// -- members

/// The bot as a member.
fn own_membership(visitor: &Visitor<'_>, place: &Place) -> Value {
    let permissions = visitor.max.rooms.permissions(place, visitor.id);
    member(visitor, &bots::user(visitor), 0, permissions, None)
}

fn member(
    visitor: &Visitor<'_>,
    user: &User,
    joined: i64,
    permissions: Vec<String>,
    alias: Option<String>,
) -> Value {
    let now = visitor.now_ms();
    let mut object = user.json(now);
    object["last_access_time"] = now.into();
    object["is_owner"] = false.into();
    object["is_admin"] = (!permissions.is_empty()).into();
    object["join_time"] = joined.into();
    if !permissions.is_empty() {
        object["permissions"] = permissions.into();
    }
    if let Some(alias) = alias {
        object["alias"] = alias.into();
    }
    object
}

/// Everybody: owner, users, and the bot itself.
fn everybody(visitor: &Visitor<'_>, place: &Place) -> Vec<Value> {
    let rooms = &visitor.max.rooms;
    let owner = owner_id(visitor.core(), place);
    let admins = rooms.look(place.id, |room| room.admins.clone());
    let mut all: Vec<Value> = Vec::new();
    for (id, joined) in rooms.members(visitor.core(), place) {
        let user = visitor.max.people.get(id);
        let (permissions, alias) = admins.get(&id).cloned().unwrap_or_default();
        let mut object = if id == owner {
            let all = PERMISSIONS.iter().map(|name| (*name).to_owned()).collect();
            member(visitor, &user, joined, all, alias)
        } else {
            member(visitor, &user, joined, permissions, alias)
        };
        object["is_owner"] = (id == owner).into();
        all.push(object);
    }
    all.push(own_membership(visitor, place));
    all
}

/// `GET /chats/{chatId}/members/me`.
pub(super) fn membership(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    if place.is_dialog() {
        return Err(ApiError::payload("Method is not available for dialogs"));
    }
    Ok(Done::new(own_membership(visitor, &place)))
}

/// `DELETE /chats/{chatId}/members/me`.
pub(super) fn leave(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    if place.is_dialog() {
        return Err(ApiError::payload("Method is not available for dialogs"));
    }
    visitor.max.rooms.change(id, |room| room.left.insert(visitor.id));
    Ok(success())
}

/// `GET /chats/{chatId}/members`.
pub(super) fn members(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    let count = visitor.ranged("count", 20, 1, 100)? as usize;
    let skip = visitor.number("marker")?.unwrap_or(0).max(0) as usize;
    check_admin(visitor, &place)?;
    let all = everybody(visitor, &place);
    let ids = visitor.words("user_ids");
    if !ids.is_empty() {
        let ids: Vec<i64> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        let wanted = |member: &Value| member["user_id"].as_i64().is_some_and(|id| ids.contains(&id));
        let found: Vec<Value> = all.into_iter().filter(wanted).collect();
        return Ok(Done::new(json!({ "members": found })));
    }
    let n_all = all.len();
    let page: Vec<Value> = all.into_iter().skip(skip).take(count).collect();
    let mut body = json!({ "members": page });
    if skip + count < n_all {
        body["marker"] = (skip + count).into();
    }
    Ok(Done::new(body))
}

/// `POST /chats/{chatId}/members`: removed on 2026-09-30.
pub(super) fn add_members(visitor: &Visitor<'_>, id: i64, body: &Value) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    let ids: Option<Vec<i64>> =
        body["user_ids"].as_array().and_then(|ids| ids.iter().map(Value::as_i64).collect());
    let ids = ids.ok_or_else(ApiError::body)?;
    if !(1..=100).contains(&ids.len()) {
        return Err(ApiError::payload("user_ids: size must be between 1 and 100"));
    }
    check_right(visitor, &place, "add_remove_members")?;
    let (known, unknown): (Vec<i64>, Vec<i64>) = ids.into_iter().partition(|id| *id > 0);
    let now = visitor.now_ms();
    visitor.max.rooms.change(place.id, |room| {
        for id in &known {
            room.removed.remove(id);
            room.joined.insert(*id, now);
        }
    });
    let mut body = json!({ "success": unknown.is_empty() });
    if !unknown.is_empty() {
        body["message"] = "Some users were not added".into();
        body["failed_user_ids"] = unknown.clone().into();
        body["failed_user_details"] =
            json!([{ "error_code": "add.participant.not.found", "user_ids": unknown }]);
    }
    Ok(Done::new(body))
}

/// `DELETE /chats/{chatId}/members`.
pub(super) fn remove_member(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    let user = visitor.number("user_id")?.ok_or_else(|| ApiError::payload("`user_id` must be specified"))?;
    check_right(visitor, &place, "add_remove_members")?;
    if !visitor.max.rooms.members(visitor.core(), &place).iter().any(|(id, _)| *id == user) {
        return Err(ApiError::unsuccessful("User is not a member of the chat"));
    }
    visitor.max.rooms.change(place.id, |room| {
        room.joined.remove(&user);
        room.removed.insert(user);
    });
    Ok(success())
}

// -- administrators

/// `GET /chats/{chatId}/members/admins`.
pub(super) fn admins(visitor: &Visitor<'_>, id: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    check_admin(visitor, &place)?;
    let admins: Vec<Value> =
        everybody(visitor, &place).into_iter().filter(|member| member["is_admin"] == true).collect();
    Ok(Done::new(json!({ "members": admins })))
}

/// `POST /chats/{chatId}/members/admins`: replaces the whole set of rights of those it names.
pub(super) fn add_admins(visitor: &Visitor<'_>, id: i64, body: &Value) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    let list = body["admins"].as_array().ok_or_else(ApiError::body)?;
    let mut appointed = Vec::new();
    for admin in list {
        let user = admin["user_id"].as_i64().ok_or_else(ApiError::body)?;
        let rights: Option<Vec<String>> = admin["permissions"]
            .as_array()
            .and_then(|rights| rights.iter().map(|right| right.as_str().map(str::to_owned)).collect());
        let rights = rights.ok_or_else(ApiError::body)?;
        if !rights.is_empty() && !rights.iter().any(|right| right == "read_all_messages") {
            return Err(ApiError::payload("Permission `read_all_messages` is required for the others"));
        }
        appointed.push((user, (rights, admin["alias"].as_str().map(str::to_owned))));
    }
    check_right(visitor, &place, "add_admins")?;
    let members = visitor.max.rooms.members(visitor.core(), &place);
    if appointed.iter().any(|(user, _)| !members.iter().any(|(id, _)| id == user)) {
        return Err(ApiError::unsuccessful("User is not a member of the chat"));
    }
    let fits = visitor.max.rooms.change(place.id, |room| {
        let mut admins = room.admins.clone();
        admins.extend(appointed);
        let fits = admins.len() <= ADMINS_MAX;
        if fits {
            room.admins = admins;
        }
        fits
    });
    if fits { Ok(success()) } else { Err(ApiError::unsuccessful("Too many administrators")) }
}

/// `DELETE /chats/{chatId}/members/admins/{userId}`.
pub(super) fn remove_admin(visitor: &Visitor<'_>, id: i64, user: i64) -> Result<Done, ApiError> {
    let place = visitor.entered(id)?;
    check_right(visitor, &place, "add_admins")?;
    let removed = visitor.max.rooms.change(place.id, |room| room.admins.remove(&user).is_some());
    if removed { Ok(success()) } else { Err(ApiError::unsuccessful("User is not an administrator")) }
}
