//! What users do: messages, comments, presses and every other event that somebody injects.
//! Messages and posts also become visible; everything reaches the communities that listen.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::faults::{known_fields, optional_text};
use crate::platform::Name;
use crate::reply::Refusal;

use super::args::number;
use super::control::{chat_number, check, check_media, checked, put_post, whole_media};
use super::dialogs::{self, CHAT_PEER, Key, Press};
use super::state::{Comment, Person, State};
use super::tokens::{Caller, Kind};
use super::{Vk, comments, events, locked, people};

/// Fields of the short form of `POST /_/updates/vk`.
const SHORT_FIELDS: &[&str] = &["chat", "from", "text", "payload", "photos", "reply_to"];
/// Fields of a whole event.
const EVENT_FIELDS: &[&str] = &["type", "object", "group_id", "event_id", "v", "secret"];

pub(super) fn inject(vk: &Vk, update: Map<String, Value>, account: Option<&str>) -> Result<Value, Refusal> {
    if update.contains_key("type") {
        known_fields(&update, EVENT_FIELDS)?;
        return inject_event(vk, update, account);
    }
    known_fields(&update, &[SHORT_FIELDS, EVENT_FIELDS].concat())?;
    let chat = number_of(vk, &update, "chat")?;
    let from = match (chat, optional_text(&update, "from")?) {
        // In a dialog of two the writer is the peer, whatever name the page gives.
        (Some(peer @ 1..CHAT_PEER), Some(name)) if chat_number(vk, &name).is_none() => {
            let mut state = locked(&vk.state);
            let person = state.people.entry(peer).or_default();
            if person.name.is_empty() {
                person.name = name;
            }
            Some(peer)
        }
        _ => number_of(vk, &update, "from")?,
    };
    if let Some(owner_id) = chat.filter(|chat| *chat < 0) {
        return inject_comment(vk, owner_id, from.unwrap_or(1), &update);
    }
    // Somebody in a chat of many is somebody, too.
    let from = from.or(chat.map(|chat| if chat < CHAT_PEER { chat } else { 1 }));
    let (Some(peer), Some(from)) = (chat.or(from), from) else {
        return Err(
            Refusal::bad("fields \"chat\" and \"from\" must say who writes where").knowing(SHORT_FIELDS)
        );
    };
    let groups = groups(vk, account, None)?;
    let mut message = Map::new();
    message.insert("peer_id".into(), peer.into());
    message.insert("from_id".into(), from.into());
    message.insert("text".into(), optional_text(&update, "text")?.unwrap_or_default().into());
    match update.get("payload") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => {
            message.insert("payload".into(), text.as_str().into());
        }
        Some(other) => {
            message.insert("payload".into(), other.to_string().into());
        }
    }
    check_media(&update)?;
    if let Some(photos) = update.get("photos") {
        message.insert("photos".into(), photos.clone());
    }
    if let Some(id) = update.get("reply_to").and_then(whole) {
        let state = locked(&vk.state);
        let (key, said) =
            state.dialogs.find(id).ok_or_else(|| Refusal::not_found(format!("no message {id}")))?;
        message.insert("reply_message".into(), dialogs::object(from, key, said));
    }
    inject_message(vk, &groups, message, None)
}

/// A person or peer given as a number, its text, or any name.
fn number_of(vk: &Vk, update: &Map<String, Value>, field: &str) -> Result<Option<i64>, Refusal> {
    let Some(text) = optional_text(update, field)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    if let Some(number) = chat_number(vk, &text) {
        return Ok(Some(number));
    }
    if field == "chat" {
        return Err(Refusal::not_found(format!("no VK chat {text:?}")));
    }
    // Somebody with a name of their own, always the same person.
    let id = 300_000_000 + (vk.core.number_of(&text) % 100_000_000) as i64;
    locked(&vk.state).people.entry(id).or_insert_with(|| Person { name: text, ..Person::default() });
    Ok(Some(id))
}

/// A number that can be somebody, something or some time.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().filter(|number| number.unsigned_abs() <= 1_000_000_000_000)
}

/// The communities that hear it: the one that is named, or all that have a token.
fn groups(vk: &Vk, account: Option<&str>, group_id: Option<i64>) -> Result<Vec<i64>, Refusal> {
    if let Some(id) = group_id {
        return Ok(vec![id.abs()]);
    }
    let mut accounts = vk.core.registry.named_accounts(Name::Vk, account);
    if accounts.is_empty()
        && let Some(name) = account
    {
        if let Some(id) = number(name)
            && (vk.core.registry.any_token() || locked(&vk.state).groups.contains_key(&id.abs()))
        {
            return Ok(vec![id.abs()]);
        }
        accounts.extend(vk.account(name));
    }
    let state = locked(&vk.state);
    let mut found = BTreeSet::new();
    for account in accounts {
        let bound = state.bound.get(&account.token).copied();
        let caller = Caller::new(account);
        match caller.kind {
            Kind::Community if !caller.is_unbound() => found.insert(caller.group),
            Kind::Full | Kind::Community => found.insert(bound.unwrap_or(caller.group)),
            Kind::User => bound.is_some_and(|group| found.insert(group)),
            Kind::Service => false,
        };
    }
    if found.is_empty() {
        return Err(Refusal::bad(match account {
            Some(_) => "this account speaks for no VK community; name a community's token or id".to_owned(),
            None => {
                "no VK community listens yet; register one with POST /_/accounts, or name it in \"account\""
                    .to_owned()
            }
        }));
    }
    Ok(found.into_iter().collect())
}

fn inject_event(vk: &Vk, mut event: Map<String, Value>, account: Option<&str>) -> Result<Value, Refusal> {
    let kind = optional_text(&event, "type")?.unwrap_or_default();
    if !events::TYPES.contains(&kind.as_str()) {
        return Err(Refusal::bad(format!("unknown event type {kind:?}")).knowing(events::TYPES));
    }
    let Some(Value::Object(object)) = event.remove("object") else {
        return Err(Refusal::bad("field \"object\" must be a JSON object"));
    };
    let owner = object.get("owner_id").and_then(whole).filter(|owner| *owner < 0);
    let owner = owner.filter(|_| kind.starts_with("wall_"));
    let group_id = event.get("group_id").and_then(whole).or(owner);
    let groups = groups(vk, account, group_id)?;
    let event_id = optional_text(&event, "event_id")?;
    match kind.as_str() {
        "message_new" => {
            let mut object = object;
            let message = match object.remove("message") {
                Some(Value::Object(message)) => message,
                _ => object,
            };
            inject_message(vk, &groups, message, event_id.as_deref())
        }
        "wall_post_new" | "wall_repost" => {
            let owner_id = -groups[0];
            let post = checked(owner_id, object)?;
            let id = put_post(vk, &mut locked(&vk.state), owner_id, post);
            Ok(json!({ "group_id": groups[0], "post_id": id }))
        }
        "wall_reply_new" => {
            let from = object.get("from_id").and_then(whole).unwrap_or(1);
            inject_comment(vk, -groups[0], from, &object)
        }
        _ => Ok(inject_other(vk, &groups, &kind, &object, event_id.as_deref())),
    }
}

/// Puts a person's message into the dialog with each community and tells it.
fn inject_message(
    vk: &Vk,
    groups: &[i64],
    mut message: Map<String, Value>,
    event_id: Option<&str>,
) -> Result<Value, Refusal> {
    let number = |name: &str| message.get(name).and_then(whole);
    let from = number("from_id").or_else(|| number("user_id")).or_else(|| number("peer_id"));
    let from = from.ok_or_else(|| Refusal::bad("a message needs \"from_id\" or \"peer_id\""))?;
    let peer = number("peer_id").unwrap_or(from);
    let date = number("date").unwrap_or_else(|| vk.core.clock.now_s());
    let (id, cmid) = (number("id"), number("conversation_message_id"));
    check(&message, "text", "a string", Value::is_string)?;
    check_media(&message)?;
    for name in ["id", "from_id", "user_id", "peer_id", "date", "conversation_message_id", "out"] {
        message.remove(name);
    }
    let mut state = locked(&vk.state);
    people::meet(&mut state, from);
    whole_media(vk, &mut state, from, date, &mut message);
    let mut told = Vec::new();
    let mut shared = None;
    for group in groups {
        let key = Key::new(-group, peer);
        let said = match &shared {
            Some(said) => dialogs::Said::clone(said),
            None => {
                let said = state.dialogs.add(key, from, date, message.clone());
                state.dialogs.renumber(key, said, id, cmid)
            }
        };
        if let Key::Chat(_) = key {
            // One chat, one message, however many communities sit in it.
            shared = Some(said.clone());
            let dialog = state.dialogs.by_key.entry(key).or_default();
            if !dialog.members.contains(&-group) {
                dialog.members.push(-group);
            }
        }
        dialogs::show(&vk.core, &state, key, &said);
        let object = events::wrapped(&dialogs::object(-group, key, &said));
        let event = match event_id {
            Some(event_id) => {
                events::emit_as(&vk.core, &mut state, *group, "message_new", object, event_id.to_owned())
            }
            None => events::emit(&vk.core, &mut state, *group, "message_new", object),
        };
        told.push(json!({ "group_id": group, "event_id": event, "peer_id": peer, "message_id": said.id,
            "conversation_message_id": said.cmid }));
    }
    Ok(json!({ "events": told }))
}

/// A comment under the post that is named, or under the newest one.
fn inject_comment(vk: &Vk, owner_id: i64, from: i64, given: &Map<String, Value>) -> Result<Value, Refusal> {
    check(given, "text", "a string", Value::is_string)?;
    let mut state = locked(&vk.state);
    let newest = state.walls.get(&owner_id).and_then(|wall| wall.order.last()).map(|(_, id)| *id);
    let post_id = given.get("post_id").and_then(whole).or(newest);
    let exists =
        post_id.filter(|id| state.walls.get(&owner_id).is_some_and(|wall| wall.posts.contains_key(id)));
    let post_id = exists
        .ok_or_else(|| Refusal::not_found(format!("wall {owner_id} has no such post to comment on")))?;
    people::meet(&mut state, from);
    let id = state.wall(owner_id).next_id();
    let date = given.get("date").and_then(whole).unwrap_or_else(|| vk.core.clock.now_s());
    let text = given.get("text").and_then(Value::as_str).unwrap_or_default();
    let object = comments::object(owner_id, post_id, id, from, date, text);
    comments::put(&vk.core, &mut state, owner_id, Comment { id, post_id, object: object.into() });
    Ok(json!({ "owner_id": owner_id, "post_id": post_id, "comment_id": id }))
}

/// Events that are told as they are, with what they change remembered.
fn inject_other(
    vk: &Vk,
    groups: &[i64],
    kind: &str,
    object: &Map<String, Value>,
    event_id: Option<&str>,
) -> Value {
    let mut state = locked(&vk.state);
    let number = |name: &str| object.get(name).and_then(whole);
    let user_id = number("user_id").or_else(|| number("from_id")).unwrap_or(1);
    people::meet(&mut state, user_id);
    let mut told = Vec::new();
    for group in groups {
        let mut object = object.clone();
        if matches!(kind, "message_allow" | "message_deny") {
            let dialog = state.dialogs.by_key.entry(Key::new(-group, user_id)).or_default();
            dialog.denied = kind == "message_deny";
        }
        if kind == "message_event" {
            complete_press(vk, &mut state, *group, user_id, &mut object);
        }
        let object = Value::Object(object);
        let press = object["event_id"].clone();
        let event = match event_id {
            Some(event_id) => {
                events::emit_as(&vk.core, &mut state, *group, kind, object, event_id.to_owned())
            }
            None => events::emit(&vk.core, &mut state, *group, kind, object),
        };
        told.push(json!({ "group_id": group, "event_id": event, "press": press }));
    }
    json!({ "events": told })
}

/// Fills in a press and remembers that it waits for an answer.
fn complete_press(vk: &Vk, state: &mut State, group: i64, user_id: i64, object: &mut Map<String, Value>) {
    let peer_id = object.get("peer_id").and_then(whole).unwrap_or(user_id);
    let number = state.next_number();
    let made_up = format!("{:012x}", vk.core.number_of(&format!("press {number}")) & 0xffff_ffff_ffff);
    object.entry("user_id").or_insert(user_id.into());
    object.entry("peer_id").or_insert(peer_id.into());
    object.entry("event_id").or_insert(made_up.into());
    let last = state.dialogs.by_key.get(&Key::new(-group, peer_id)).and_then(dialogs::Dialog::last);
    let cmid = last.map_or(1, |said| said.cmid);
    object.entry("conversation_message_id").or_insert(cmid.into());
    // A payload written as the text of JSON arrives as that JSON.
    let payload = match object.remove("payload") {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Some(other) => other,
        None => json!({}),
    };
    object.insert("payload".into(), payload);
    let event_id = object.get("event_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let at_ms = vk.core.clock.now_ms();
    state.dialogs.press(&event_id, Press { at_ms, group, user_id, peer_id });
}
