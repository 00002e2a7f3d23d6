//! What users do, injected by a test or from the page: it becomes updates for bots, and visible messages.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::bots::Bot;
use super::people::{self, Place};
use super::{Telegram, detect, messages};
use crate::chats::{Author, Side};
use crate::core::Core;
use crate::faults::{Kind, known_fields};
use crate::platform::{Name, Target, chat_key};
use crate::registry::{Account, Chat};
use crate::reply::Refusal;

/// The kinds of updates.
pub(super) const KINDS: &[&str] = &[
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "my_chat_member",
    "chat_member",
    "chat_join_request",
    "inline_query",
    "chosen_inline_result",
    "shipping_query",
    "pre_checkout_query",
    "poll",
    "poll_answer",
    "message_reaction",
    "message_reaction_count",
    "chat_boost",
    "removed_chat_boost",
    "business_connection",
    "business_message",
    "edited_business_message",
    "deleted_business_messages",
    "purchased_paid_media",
];

const SHORT_FIELDS: &[&str] = &["chat", "from", "text", "account"];

/// Makes an update of what came in, completes it, shows it and queues it for the bots.
pub(super) fn inject(
    telegram: &Telegram,
    update: Map<String, Value>,
    account: Option<&str>,
) -> Result<Value, Refusal> {
    let (kind, object) = split(telegram, update)?;
    let mut accounts = telegram.named(account)?;
    let complete = Completion { core: &telegram.core };
    let object = complete.object(&kind, object)?;
    if account.is_none() {
        leave_only_the_concerned(telegram, &object, &mut accounts);
    }
    let mut queued = Vec::new();
    for account in &accounts {
        let own = telegram.bot(account.id.parse().unwrap_or_default());
        if let Some(number) = queue(telegram, account, &own, &kind, &object) {
            queued.push(json!({ "account": account.id, "update_id": number }));
        }
    }
    let mut result = json!({ "ok": true, "queued": queued });
    result[kind.as_str()] = object;
    Ok(result)
}

/// A word in a private chat is for the bots that have spoken there, if any has.
fn leave_only_the_concerned(telegram: &Telegram, object: &Value, accounts: &mut Vec<Arc<Account>>) {
    let chat = &object["chat"];
    if chat["type"] != "private" {
        return;
    }
    let mut concerned: Vec<String> = Vec::new();
    telegram.core.chats.walk_back(Name::Telegram, &chat_key(&chat["id"]), |shown| {
        let spoke = shown.raw.as_str().filter(|_| shown.author.side == Side::Bot);
        concerned.extend(spoke.and_then(|raw| raw.split_once(' ')).map(|(bot, _)| bot.to_owned()));
        true
    });
    if accounts.iter().any(|account| concerned.contains(&account.id)) {
        accounts.retain(|account| concerned.contains(&account.id));
    }
}

/// The kind and the object of an update; the short form becomes a message.
fn split(telegram: &Telegram, mut update: Map<String, Value>) -> Result<(String, Value), Refusal> {
    update.remove("update_id");
    if let Some(kind) = KINDS.iter().find(|kind| update.contains_key(**kind)) {
        known_fields(&update, &[&[*kind], &["update_id", "account"][..]].concat())?;
        let object = update.remove(*kind).unwrap_or_default();
        if !object.is_object() {
            return Err(Refusal::bad(format!("field {kind:?} must be an object")));
        }
        return Ok(((*kind).to_owned(), object));
    }
    known_fields(&update, &[SHORT_FIELDS, &["update_id"], KINDS].concat())?;
    let text = crate::faults::required_text(&update, "text")?;
    let chat = update.get("chat").ok_or_else(|| Refusal::bad("field \"chat\" is missing"))?;
    let id = chat.get("id").unwrap_or(chat);
    let place = people::find_place(&telegram.core, &chat_key(id));
    let kind = if place.is_some_and(|place| place.is_channel()) { "channel_post" } else { "message" };
    let mut message = json!({ "chat": chat, "text": text });
    if let Some(from) = update.get("from") {
        message["from"] = from.clone();
    }
    Ok((kind.to_owned(), message))
}

fn queue(telegram: &Telegram, account: &Account, own: &Arc<Bot>, kind: &str, object: &Value) -> Option<i64> {
    let core = &telegram.core;
    if !own.wants(kind) || (account.flag("privacy") && is_private_from(core, account, kind, object)) {
        return None;
    }
    let chat = object.get("chat").or_else(|| object["message"].get("chat")).map(|chat| chat["id"].clone());
    let target = Target {
        account: Some(account.token.clone()),
        account_id: Some(account.id.clone()),
        chat: chat.clone().unwrap_or_default(),
        ..Target::default()
    };
    if kind == "callback_query" {
        let id = object["id"].as_str().unwrap_or_default();
        own.add_callback(id, core.clock.now_ms(), &chat_key(&chat.unwrap_or_default()));
    }
    let struck = core.faults.strike_update(Name::Telegram, &target, Kind::DuplicateUpdate);
    let copies = if struck.is_some() { 2 } else { 1 };
    Some(own.queue.push(copies, |number| {
        let mut update = json!({ "update_id": number });
        update[kind] = object.clone();
        update
    }))
}

/// What the privacy mode keeps from a bot: the talk of a group, but for commands and replies to the bot itself.
fn is_private_from(core: &Core, account: &Account, kind: &str, object: &Value) -> bool {
    let place = people::find_place(core, &chat_key(&object["chat"]["id"]));
    let is_admin = place
        .as_ref()
        .is_some_and(|place| matches!(place.chat.field("bot_status").as_str(), None | Some("administrator")));
    kind.ends_with("message")
        && place.is_some_and(|place| place.is_group())
        && !is_admin
        && !object["text"].as_str().unwrap_or_default().starts_with('/')
        && chat_key(&object["reply_to_message"]["from"]["id"]) != account.id
}

/// Fills in what an injected object left out.
struct Completion<'a> {
    core: &'a Core,
}

impl Completion<'_> {
    fn object(&self, kind: &str, object: Value) -> Result<Value, Refusal> {
        match kind {
            "message" | "edited_message" | "channel_post" | "edited_channel_post" => {
                self.message(kind, object)
            }
            "callback_query" => self.callback(object),
            "my_chat_member" | "chat_member" | "chat_join_request" => {
                let mut object = object;
                let place = self.place(&object["chat"])?;
                object["chat"] = place.json();
                object["from"] = self.from(&object["from"], Some(&place));
                fill(&mut object, "date", || self.core.clock.now_s().into());
                Ok(object)
            }
            _ => {
                let mut object = object;
                if object.get("from").is_some() || kind == "inline_query" {
                    object["from"] = self.from(&object["from"], None);
                }
                Ok(object)
            }
        }
    }

    fn message(&self, kind: &str, mut message: Value) -> Result<Value, Refusal> {
        let place = self.place(&message["chat"])?;
        messages::show_chat(self.core, &place);
        message["chat"] = place.json();
        fill(&mut message, "message_id", || self.core.chats.next_number(Name::Telegram, place.key()).into());
        fill(&mut message, "date", || self.core.clock.now_s().into());
        let author = if kind.ends_with("channel_post") {
            message["sender_chat"] = place.json();
            Author::new(&place.chat.title, Side::Channel)
        } else {
            message["from"] = self.from(&message["from"], Some(&place));
            Author::new(message["from"]["first_name"].as_str().unwrap_or_default(), Side::User)
        };
        if kind.starts_with("edited") {
            fill(&mut message, "edit_date", || self.core.clock.now_s().into());
        }
        if let (Some(text), None) = (message["text"].as_str(), message.get("entities")) {
            let found: Value = detect::find(text).iter().map(super::entities::Entity::json).collect();
            if found.as_array().is_some_and(|found| !found.is_empty()) {
                message["entities"] = found;
            }
        }
        messages::keep(self.core, &place, &message, 0, self.core.clock.now_ms(), &author);
        Ok(message)
    }

    fn callback(&self, mut query: Value) -> Result<Value, Refusal> {
        let now_ms = self.core.clock.now_ms();
        fill(&mut query, "id", || {
            let number = self
                .core
                .number_of(&format!("callback {now_ms} {}", self.core.chats.n_messages(Name::Telegram)));
            number.to_string().into()
        });
        fill(&mut query, "chat_instance", || self.core.number_of("chat instance").to_string().into());
        let mut place = None;
        if query.get("message").is_some_and(Value::is_object) {
            let found = self.place(&query["message"]["chat"])?;
            let number = query["message"]["message_id"].as_i64().unwrap_or_default();
            let Some((message, _)) = messages::look(self.core, &found, number) else {
                return Err(Refusal::bad(format!("there is no message {number} in chat {}", found.id)));
            };
            query["message"] = message;
            place = Some(found);
        }
        query["from"] = self.from(&query["from"], place.as_ref());
        Ok(query)
    }

    /// A chat given as an object or as its id. A user who writes to a bot exists from then on.
    fn place(&self, chat: &Value) -> Result<Place, Refusal> {
        let id = chat_key(chat.get("id").unwrap_or(chat));
        if id.is_empty() {
            return Err(Refusal::bad("field \"chat\" is missing"));
        }
        if let Some(place) = people::find_place(self.core, &id) {
            return Ok(place);
        }
        let is_user = id.parse::<i64>().is_ok_and(|id| id > 0);
        if !is_user {
            return Err(Refusal::bad(format!("chat {id} is not registered; use POST /_/chats first")));
        }
        let chat = people::complete_chat(Chat::blank(Name::Telegram, &id, "private"))?;
        self.core.registry.add_chat(chat)?;
        people::find_place(self.core, &id).ok_or_else(|| Refusal::bad(format!("chat {id} cannot be made")))
    }

    /// The user who did it; in a private chat that is the chat's own.
    fn from(&self, from: &Value, place: Option<&Place>) -> Value {
        if from.is_null() {
            return match place.filter(|place| place.is_private()) {
                Some(place) => user(self.core, &place.id.into()),
                None => user(self.core, &"Reader".into()),
            };
        }
        user(self.core, from)
    }
}

fn fill(object: &mut Value, field: &str, value: impl FnOnce() -> Value) {
    if object.get(field).is_none_or(Value::is_null) {
        object[field] = value();
    }
}

/// A user given as an object, an id or a name.
pub(super) fn user(core: &Core, from: &Value) -> Value {
    let mut object = match from {
        Value::Object(_) => from.clone(),
        Value::String(name) if name.parse::<i64>().is_err() => json!({ "first_name": name }),
        other => json!({ "id": chat_key(other).parse::<i64>().unwrap_or_default() }),
    };
    if object["id"].as_i64().is_none_or(|id| id <= 0) {
        let name = object["first_name"].as_str().unwrap_or("Reader").to_owned();
        object["id"] = (10_000_000 + core.number_of(&name) % 900_000_000).into();
    }
    if object.get("is_bot").is_none() {
        object["is_bot"] = false.into();
    }
    let id = object["id"].as_i64().unwrap_or_default();
    if object.get("first_name").is_none() {
        let chat = core.registry.chat(Name::Telegram, &id.to_string());
        object["first_name"] = chat.map_or_else(|| format!("User {id}"), |chat| chat.title.clone()).into();
    }
    if object.get("language_code").is_none() {
        object["language_code"] = "ru".into();
    }
    object
}
