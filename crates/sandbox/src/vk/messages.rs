//! Saying something in a dialog, changing it and taking it back.

use serde_json::{Map, Value, json};

use crate::limits::Window;
use crate::platform::Name;

use super::args::Version;
use super::attachments::{self, Place};
use super::dialogs::{self, CHAT_PEER, Key, Said};
use super::errors::ApiError;
use super::state::Access;
use super::tokens::Kind;
use super::{Ctx, Done, events, keyboard, people};

/// Characters of a message; the schema says 9000, in practice 4096 is the end.
const TEXT_CHARS_MAX: usize = 4096;
const PEERS_MAX: usize = 100;
const FORWARDED_MAX: usize = 100;
const HOUR_MS: i64 = 3_600_000;
const DAY_S: i64 = 86_400;
/// How long a press waits for its answer.
const PRESS_MS: i64 = 60_000;

pub(super) fn send(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let (peers, several) = peers(ctx)?;
    let random_id = ctx.args.integer("random_id")?;
    if random_id.is_none() && ctx.version >= Version::RANDOM_ID {
        return Err(ApiError::parameter("random_id is a required parameter"));
    }
    let random_id = random_id.unwrap_or(0);
    let object = content(ctx, own)?;
    let attachments = object.get("attachments").and_then(Value::as_array).cloned().unwrap_or_default();
    let media = attachments::listed(ctx.core, &attachments);
    if !several {
        let said = say(ctx, own, peers[0], random_id, &object)?;
        return Ok(Done::visible(said.id, said.id, media));
    }
    let mut items = Vec::new();
    let mut ids = Vec::new();
    for peer_id in &peers {
        match say(ctx, own, *peer_id, random_id, &object) {
            Ok(said) => {
                ids.push(Value::from(said.id));
                items.push(json!({ "peer_id": peer_id, "message_id": said.id, "conversation_message_id": said.cmid }));
            }
            // One refusal does not touch the others, and the call as a whole succeeds.
            Err(error) => {
                ids.push(Value::Null);
                let error = json!({ "code": error.code, "description": error.message() });
                items.push(json!({ "peer_id": peer_id, "message_id": 0, "conversation_message_id": 0, "error": error }));
            }
        }
    }
    let accepted = ids.iter().any(|id| !id.is_null());
    let visible = if ids.len() == 1 { ids.remove(0) } else { Value::from(ids) };
    let mut done = Done::visible(items, visible, media);
    done.effect.accepted = accepted;
    Ok(done)
}

/// Who speaks: the person, or the community, or the one that `group_id` names.
pub(super) fn speaker(ctx: &Ctx<'_>) -> Result<i64, ApiError> {
    match ctx.args.integer("group_id")?.filter(|group| *group != 0 && ctx.caller.kind != Kind::Community) {
        Some(group) => {
            ctx.caller.require_manager(group.abs())?;
            Ok(-group.abs())
        }
        None => Ok(ctx.caller.self_id()),
    }
}

/// To whom, and whether the answer is a list.
fn peers(ctx: &Ctx<'_>) -> Result<(Vec<i64>, bool), ApiError> {
    for name in ["peer_ids", "user_ids"] {
        if ctx.args.text(name).is_some() {
            let peers = ctx.args.integers(name)?;
            if peers.len() > PEERS_MAX {
                return Err(ApiError::parameter(format!("{name} should contain at most {PEERS_MAX} ids")));
            }
            if !peers.is_empty() {
                return Ok((peers, true));
            }
        }
    }
    if let Some(peer) = one_peer(ctx)? {
        return Ok((vec![peer], false));
    }
    let domain = ctx.args.text("domain").ok_or_else(|| {
        ApiError::parameter("you should specify peer_id, user_id, domain, chat_id or user_ids param")
    })?;
    let owner = people::resolve(ctx.state, domain);
    Ok((vec![owner.ok_or_else(|| ApiError::parameter("domain is invalid"))?], false))
}

/// `peer_id`, `user_id` or `chat_id`.
pub(super) fn one_peer(ctx: &Ctx<'_>) -> Result<Option<i64>, ApiError> {
    if let Some(chat) = ctx.args.integer("chat_id")?.filter(|chat| *chat != 0) {
        return Ok(Some(CHAT_PEER + chat));
    }
    let peer = ctx.args.integer("peer_id")?.filter(|peer| *peer != 0);
    Ok(peer.or(ctx.args.integer("user_id")?.filter(|user| *user != 0)))
}

/// Text, attachments, keyboard and whatever else a message carries.
fn content(ctx: &Ctx<'_>, own: i64) -> Result<Map<String, Value>, ApiError> {
    let text = ctx.args.text("message").unwrap_or_default();
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err(ApiError::plain(914));
    }
    let asked = ctx.args.list("attachment");
    let mut found = attachments::resolve(ctx.core, ctx.state, &asked, Place::Message)?;
    if let Some(sticker) = ctx.args.integer("sticker_id")? {
        found.push(json!({ "type": "sticker", "sticker": { "sticker_id": sticker, "product_id": 1, "inner_type": "base_sticker_new", "images": [] } }));
    }
    let mut object = Map::new();
    quoted(ctx, own, &mut object)?;
    let quotes = object.get("fwd_messages").is_some();
    if text.trim().is_empty()
        && found.is_empty()
        && !quotes
        && ctx.args.text("lat").is_none()
        && ctx.args.text("template").is_none()
    {
        return Err(ApiError::parameter("message is empty or invalid"));
    }
    object.insert("text".into(), text.into());
    object.insert("attachments".into(), found.into());
    if let Some(keyboard) = ctx.args.json("keyboard") {
        object.insert("keyboard".into(), keyboard::parse(keyboard, own)?);
    }
    if let Some(payload) = ctx.args.text("payload") {
        if payload.chars().count() > 1000 {
            return Err(ApiError::parameter("payload is too long"));
        }
        object.insert("payload".into(), payload.into());
    }
    if let Some(template) = ctx.args.json("template") {
        let template =
            template.filter(Value::is_object).ok_or_else(|| ApiError::parameter("template is invalid"))?;
        object.insert("template".into(), template);
    }
    if let (Some(lat), Some(long)) = (ctx.args.text("lat"), ctx.args.text("long")) {
        let coordinates = json!({ "latitude": lat.parse::<f64>().unwrap_or(0.0), "longitude": long.parse::<f64>().unwrap_or(0.0) });
        object.insert("geo".into(), json!({ "type": "point", "coordinates": coordinates }));
    }
    Ok(object)
}

/// `reply_to`, `forward_messages` and `forward`.
fn quoted(ctx: &Ctx<'_>, own: i64, object: &mut Map<String, Value>) -> Result<(), ApiError> {
    let by_id = |id: i64| {
        let found = ctx.state.dialogs.find(id).map(|(key, said)| dialogs::object(own, key, said));
        found.ok_or_else(|| ApiError::plain(921))
    };
    if let Some(id) = ctx.args.integer("reply_to")? {
        object.insert("reply_message".into(), by_id(id)?);
    }
    let mut forwarded = Vec::new();
    for id in ctx.args.integers("forward_messages")? {
        forwarded.push(by_id(id)?);
    }
    if let Some(forward) = ctx.args.json("forward") {
        let forward =
            forward.filter(Value::is_object).ok_or_else(|| ApiError::parameter("forward is invalid"))?;
        let found = forwarded_by(ctx, own, &forward)?;
        let is_reply = matches!(&forward["is_reply"], Value::Bool(true)) || forward["is_reply"] == 1;
        match found.into_iter().next() {
            Some(first) if is_reply => {
                object.insert("reply_message".into(), first);
            }
            Some(_) => forwarded = forwarded_by(ctx, own, &forward)?,
            None => return Err(ApiError::plain(921)),
        }
    }
    if forwarded.len() > FORWARDED_MAX {
        return Err(ApiError::plain(913));
    }
    if !forwarded.is_empty() {
        object.insert("fwd_messages".into(), forwarded.into());
    }
    Ok(())
}

fn forwarded_by(ctx: &Ctx<'_>, own: i64, forward: &Value) -> Result<Vec<Value>, ApiError> {
    let numbers = |name: &str| numbers(&forward[name]);
    let mut found = Vec::new();
    for id in numbers("message_ids") {
        let (key, said) = ctx.state.dialogs.find(id).ok_or_else(|| ApiError::plain(921))?;
        found.push(dialogs::object(own, key, said));
    }
    let cmids = numbers("conversation_message_ids").into_iter().chain(numbers("cmids"));
    let key = Key::new(own, forward["peer_id"].as_i64().unwrap_or_default());
    for cmid in cmids {
        let said = ctx.state.dialogs.by_key.get(&key).and_then(|dialog| dialog.said.get(&cmid));
        found.push(dialogs::object(own, key, said.ok_or_else(|| ApiError::plain(921))?));
    }
    Ok(found)
}

/// A list, a single number, or their text: libraries send all of them.
fn numbers(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        Value::Number(number) => number.as_i64().into_iter().collect(),
        Value::String(text) => text.split(',').filter_map(|part| part.trim().parse().ok()).collect(),
        _ => Vec::new(),
    }
}

/// Says it to one peer, unless it was said already.
fn say(
    ctx: &mut Ctx<'_>,
    own: i64,
    peer: i64,
    random_id: i64,
    object: &Map<String, Value>,
) -> Result<Said, ApiError> {
    reachable(ctx, own, peer)?;
    let key = Key::new(own, peer);
    let dialog = ctx.state.dialogs.by_key.get(&key);
    if random_id != 0
        && let Some(dialog) = dialog
        && let Some(cmid) = dialog.by_random(own, random_id, ctx.now_ms)
        && let Some(said) = dialog.said.get(&cmid)
    {
        return Ok(said.clone());
    }
    if own < 0 && (1..CHAT_PEER).contains(&peer) {
        let window = Window::new(format!("vk:said:{own}:{peer}"), 1000, HOUR_MS);
        let full = ctx.core.limits.take(&[window], ctx.now_ms);
        full.map_err(|_| ApiError::new(9, "too much messages sent to user"))?;
    }
    let mut object = object.clone();
    object.insert("random_id".into(), random_id.into());
    let now_s = ctx.now_s();
    let said = ctx.state.dialogs.add(key, own, now_s, object);
    if random_id != 0
        && let Some(dialog) = ctx.state.dialogs.by_key.get_mut(&key)
    {
        dialog.remember_random(own, random_id, ctx.now_ms, said.cmid);
    }
    dialogs::show(ctx.core, ctx.state, key, &said);
    events::message(ctx.core, ctx.state, key, &said, events::Said::New);
    Ok(said)
}

/// May `own` write to this peer?
fn reachable(ctx: &Ctx<'_>, own: i64, peer: i64) -> Result<(), ApiError> {
    if peer >= CHAT_PEER {
        let id = peer.to_string();
        let known = ctx.core.registry.any_token()
            || ctx.core.registry.chat(Name::Vk, &id).is_some()
            || ctx.state.dialogs.by_key.contains_key(&Key::Chat(peer));
        return if known { Ok(()) } else { Err(ApiError::plain(917)) };
    }
    if peer < 0 {
        if own < 0 {
            return Err(ApiError::plain(932));
        }
        return Ok(());
    }
    if ctx.state.dialogs.by_key.get(&Key::new(own, peer)).is_some_and(|dialog| dialog.denied) {
        return Err(ApiError::plain(901));
    }
    match ctx.state.people.get(&peer).map(|person| person.access) {
        Some(Access::Blocked) => Err(ApiError::plain(900)),
        Some(Access::Private | Access::Closed) => Err(ApiError::plain(902)),
        Some(Access::Deleted) => Err(ApiError::plain(18)),
        Some(_) => Ok(()),
        None if people::is_acquainted(ctx.core, ctx.state, peer) => Ok(()),
        // Who never wrote first cannot be written to.
        None => Err(ApiError::plain(901)),
    }
}

/// The message that `message_id`, `cmid` or `conversation_message_id` names.
fn named(ctx: &Ctx<'_>, own: i64) -> Result<(Key, Said), ApiError> {
    let peer = one_peer(ctx)?.ok_or_else(|| ApiError::parameter("peer_id is undefined"))?;
    let key = Key::new(own, peer);
    let cmid = match ctx.args.integer("cmid")? {
        Some(cmid) => Some(cmid),
        None => ctx.args.integer("conversation_message_id")?,
    };
    let found = match (ctx.args.integer("message_id")?.filter(|id| *id != 0), cmid) {
        (Some(id), _) => ctx.state.dialogs.find(id).filter(|(found, _)| *found == key).map(|(_, said)| said),
        (None, Some(cmid)) => ctx.state.dialogs.by_key.get(&key).and_then(|dialog| dialog.said.get(&cmid)),
        (None, None) => return Err(ApiError::parameter("message_id is undefined")),
    };
    Ok((key, found.ok_or_else(|| ApiError::parameter("message_id is invalid"))?.clone()))
}

pub(super) fn edit(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let (key, mut said) = named(ctx, own)?;
    if said.from_id != own {
        return Err(ApiError::plain(920));
    }
    if ctx.now_s() - said.date > DAY_S {
        return Err(ApiError::plain(909));
    }
    let mut object = content(ctx, own)?;
    if ctx.args.flag("keep_forward_messages") {
        for name in ["fwd_messages", "reply_message"] {
            let kept = said.object.field(name);
            if !kept.is_null() {
                object.entry(name).or_insert(kept);
            }
        }
    }
    object.insert("random_id".into(), said.object.field("random_id"));
    object.insert("update_time".into(), ctx.now_s().into());
    let attachments = object.get("attachments").and_then(Value::as_array).cloned().unwrap_or_default();
    said.object = object.into();
    let media = attachments::listed(ctx.core, &attachments);
    if let Some(dialog) = ctx.state.dialogs.by_key.get_mut(&key) {
        dialog.said.insert(said.cmid, said.clone());
    }
    dialogs::show(ctx.core, ctx.state, key, &said);
    events::message(ctx.core, ctx.state, key, &said, events::Said::Edited);
    Ok(Done::visible(1, said.id, media))
}

pub(super) fn delete(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let for_all = ctx.args.flag("delete_for_all");
    let mut found = Vec::new();
    for id in ctx.args.integers("message_ids")? {
        found.push((id, ctx.state.dialogs.find(id).map(|(key, said)| (key, said.clone()))));
    }
    let cmids = [ctx.args.integers("cmids")?, ctx.args.integers("conversation_message_ids")?].concat();
    if !cmids.is_empty() {
        let key = Key::new(own, one_peer(ctx)?.ok_or_else(|| ApiError::parameter("peer_id is undefined"))?);
        for cmid in cmids {
            let said = ctx.state.dialogs.by_key.get(&key).and_then(|dialog| dialog.said.get(&cmid));
            found.push((said.map_or(0, |said| said.id), said.map(|said| (key, said.clone()))));
        }
    }
    if found.is_empty() {
        return Err(ApiError::parameter("message_ids is undefined"));
    }
    let mut items = Vec::new();
    let mut gone = Vec::new();
    for (id, place) in found {
        items.push(deleted_one(ctx, own, for_all, id, place));
        gone.push(Value::from(id));
    }
    let accepted = items.iter().any(|item| item["response"] == 1);
    let visible = if gone.len() == 1 { gone.remove(0) } else { Value::from(gone) };
    let response = if ctx.version >= Version::OBJECTS { Value::from(items) } else { by_message_id(&items) };
    let mut done = Done::visible(response, visible, Vec::new());
    done.effect.accepted = accepted;
    Ok(done)
}

/// How versions before the full answer say it: `{"123": 1}`.
fn by_message_id(items: &[Value]) -> Value {
    let pair =
        |item: &Value| (item["message_id"].to_string(), Value::from(item["response"].as_i64().unwrap_or(0)));
    Value::Object(items.iter().map(pair).collect())
}

fn deleted_one(ctx: &mut Ctx<'_>, own: i64, for_all: bool, id: i64, place: Option<(Key, Said)>) -> Value {
    let error = |error: ApiError, peer: i64| {
        json!({ "peer_id": peer, "message_id": id, "conversation_message_id": 0,
            "error": { "code": error.code, "description": error.message() } })
    };
    let Some((key, said)) = place else { return error(ApiError::parameter("message_id is invalid"), 0) };
    let peer_id = key.peer_for(own);
    if for_all && said.from_id != own && own > 0 {
        return error(ApiError::plain(924), peer_id);
    }
    if for_all && ctx.now_s() - said.date > DAY_S {
        return error(ApiError::plain(924), peer_id);
    }
    // Taken away for oneself only, it stays where others read it.
    if for_all {
        if let Some(dialog) = ctx.state.dialogs.by_key.get_mut(&key) {
            dialog.said.remove(&said.cmid);
        }
        ctx.state.dialogs.places.remove(&said.id);
        dialogs::hide(ctx.core, key, said.id);
    }
    json!({ "peer_id": peer_id, "message_id": said.id, "conversation_message_id": said.cmid, "response": 1 })
}

pub(super) fn pin(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let (key, said) = named(ctx, own)?;
    set_pinned(ctx, key, Some(said.cmid));
    let mut object = dialogs::object(own, key, &said);
    // Here, and only here, it is a boolean.
    object["out"] = (said.from_id == own).into();
    Ok(Done::visible(object, said.id, Vec::new()))
}

pub(super) fn unpin(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let own = speaker(ctx)?;
    let peer = ctx.args.required_integer("peer_id")?;
    set_pinned(ctx, Key::new(own, peer), None);
    Ok(Done::new(1))
}

fn set_pinned(ctx: &mut Ctx<'_>, key: Key, cmid: Option<i64>) {
    let Some(dialog) = ctx.state.dialogs.by_key.get_mut(&key) else { return };
    let before = std::mem::replace(&mut dialog.pinned, cmid);
    let changed = before.into_iter().chain(cmid).filter_map(|cmid| dialog.said.get(&cmid).cloned());
    for said in changed.collect::<Vec<_>>() {
        dialogs::show(ctx.core, ctx.state, key, &said);
    }
}

/// Answers the press of a callback button, once and within a minute.
pub(super) fn answer_event(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let event_id = ctx.args.required_text("event_id")?.to_owned();
    let user_id = ctx.args.required_integer("user_id")?;
    let peer_id = ctx.args.required_integer("peer_id")?;
    if let Some(data) = ctx.args.json("event_data") {
        let kind = data.as_ref().and_then(|data| data["type"].as_str());
        if !matches!(kind, Some("show_snackbar" | "open_link" | "open_app")) {
            return Err(ApiError::parameter("event_data is invalid"));
        }
    }
    let press = ctx.state.dialogs.presses.get(&event_id).copied();
    let fits = press.is_some_and(|press| {
        press.user_id == user_id
            && press.peer_id == peer_id
            && ctx.now_ms - press.at_ms < PRESS_MS
            && ctx.caller.manages(press.group)
    });
    if !fits {
        return Err(ApiError::parameter("event_id is invalid"));
    }
    ctx.state.dialogs.presses.remove(&event_id);
    let words =
        ctx.args.json("event_data").flatten().and_then(|data| data["text"].as_str().map(str::to_owned));
    if let Some(words) = words {
        ctx.core.chats.notice(Name::Vk, &peer_id.to_string(), &words);
    }
    Ok(Done::new(1))
}
