//! What users do, injected by a test or from the page: it becomes updates for bots, and visible messages.
//! Ids, times, senders and recipients that are left out are filled in.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::bots::Bot;
use super::markup::{self, Format};
use super::messages::Draft;
use super::people::User;
use super::places::{Place, dialog_id};
use super::updates::{Sent, TYPES};
use super::{Max, contact};
use crate::faults::known_fields;
use crate::registry::Account;
use crate::reply::Refusal;

const SHORT_FIELDS: &[&str] = &["chat", "from", "text"];

/// The longest payload of a deep link; a longer one is dropped without a word.
const START_PAYLOAD_MAX: usize = 512;

/// Completes an update for each bot it is meant for, makes it visible, and sends it off.
pub(super) fn inject(max: &Max, update: Map<String, Value>, account: Option<&str>) -> Result<Value, Refusal> {
    let update = as_update(update)?;
    let mut accounts = max.named(account)?;
    if account.is_none() {
        leave_only_the_concerned(max, &update, &mut accounts);
    }
    let mut sent = Vec::new();
    let mut shown = Value::Null;
    let mut shared = None;
    for account in &accounts {
        let bot = max.bot(account.id.parse().unwrap_or_default());
        let guest = Guest { max, account, bot: &bot };
        let (complete, chat) = guest.complete(&update, shared.as_ref())?;
        let mut line = json!({ "account": account.id });
        match max.deliver(account, &bot, complete.clone(), chat) {
            Sent::Queued(number) => line["marker"] = number.into(),
            Sent::Pushed(n_hooks) => line["webhooks"] = n_hooks.into(),
            Sent::Withheld => line["withheld"] = true.into(),
        }
        sent.push(line);
        // In groups all bots see one and the same message.
        if chat < 0 && complete.get("message").is_some() {
            shared = Some(complete["message"].clone());
        }
        shown = complete;
    }
    Ok(json!({ "ok": true, "sent": sent, "update": shown }))
}

/// A pressed button is for the bot that sent it, and a word in a dialog for the bots that talk there.
fn leave_only_the_concerned(max: &Max, update: &Map<String, Value>, accounts: &mut Vec<Arc<Account>>) {
    let message = update.get("message").unwrap_or(&Value::Null);
    let pressed = message["body"]["mid"].as_str().or(update.get("message_id").and_then(Value::as_str));
    let mut concerned: Vec<i64> = pressed.and_then(|mid| max.look(mid)?.bot).into_iter().collect();
    let chat = update.get("chat_id").unwrap_or(&message["recipient"]["chat_id"]).as_i64();
    if let Some(chat) = chat.filter(|chat| *chat > 0 && concerned.is_empty()) {
        concerned = max.bots_in(chat);
    }
    if accounts.iter().any(|account| account.id.parse().is_ok_and(|id| concerned.contains(&id))) {
        accounts.retain(|account| account.id.parse().is_ok_and(|id| concerned.contains(&id)));
    }
}

/// The short form becomes a message.
fn as_update(mut update: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    if let Some(kind) = update.get("update_type") {
        let known = kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
        return match known {
            true => Ok(update),
            false => Err(Refusal::bad(format!("unknown update type {kind}")).knowing(TYPES)),
        };
    }
    known_fields(&update, &[SHORT_FIELDS, &["update_type", "account"]].concat())?;
    let text = crate::faults::required_text(&update, "text")?;
    let mut message = json!({ "body": { "text": text } });
    let chat = update.remove("chat").unwrap_or_default();
    let chat = chat.get("chat_id").or_else(|| chat.get("id")).cloned().unwrap_or(chat);
    if !chat.is_null() {
        message["recipient"] = json!({ "chat_id": number(&chat)? });
    }
    if let Some(from) = update.remove("from") {
        message["sender"] = from;
    }
    let long = json!({ "update_type": "message_created", "message": message });
    long.as_object().cloned().ok_or_else(|| Refusal::bad("the body must be a JSON object"))
}

fn number(value: &Value) -> Result<i64, Refusal> {
    let parsed = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    parsed
        .filter(|id| *id != 0)
        .ok_or_else(|| Refusal::bad(format!("a MAX chat id is a number, not {value}")))
}

/// One bot that is about to get an update.
struct Guest<'a> {
    max: &'a Max,
    account: &'a Arc<Account>,
    bot: &'a Arc<Bot>,
}

impl Guest<'_> {
    /// The complete update and its chat; what it changes is changed.
    fn complete(&self, update: &Map<String, Value>, shared: Option<&Value>) -> Result<(Value, i64), Refusal> {
        let kind = update.get("update_type").and_then(Value::as_str).unwrap_or_default();
        let now = self.max.core.clock.now_ms();
        let mut complete = Value::from(update.clone());
        if complete.get("timestamp").is_none() {
            // One message has one time, whoever hears it.
            let said = shared.and_then(|message| message["timestamp"].as_i64());
            complete["timestamp"] = said.map_or_else(|| now.into(), Value::from);
        }
        let chat = match kind {
            "message_created" | "comment_created" | "message_edited" | "comment_edited" => {
                self.message(kind, &mut complete, shared)?
            }
            "message_callback" => self.callback(&mut complete)?,
            "message_removed" | "comment_removed" => self.removal(&mut complete)?,
            _ => self.event(kind, &mut complete)?,
        };
        Ok((complete, chat))
    }

    fn known_place(&self, id: i64) -> Result<Place, Refusal> {
        // A user who writes opens the dialog by it, and whoever adds a bot makes the chat exist for it.
        self.max.rooms.change(id, |room| room.opened.insert(self.bot.id));
        let place = self.max.place(id, self.bot.id);
        place.ok_or_else(|| Refusal::bad(format!("chat {id} cannot be used; register it with POST /_/chats")))
    }

    fn user(&self, value: &Value, place: &Place) -> Result<User, Refusal> {
        let fallback = place.user_id.unwrap_or_else(|| self.made_up_member(value, place));
        let user = User::parse(value, fallback)?;
        let named = !matches!(value, Value::Null | Value::Number(_));
        if named {
            self.max.people.meet(&user);
        }
        Ok(self.max.people.get(user.id))
    }

    /// Somebody in a group who is given by name, or not at all.
    fn made_up_member(&self, value: &Value, place: &Place) -> i64 {
        let name = value.as_str().or_else(|| value["name"].as_str()).unwrap_or_default();
        let known = self.max.people.by_username(name.trim_start_matches('@'));
        known.unwrap_or_else(|| {
            let number = self.max.core.number_of(&format!("member {name} of {}", place.id));
            1_000 + (number % 900_000_000) as i64
        })
    }

    /// The chat of a message: named, or the dialog with its sender.
    fn chat_of_message(&self, message: &Value) -> Result<i64, Refusal> {
        let recipient = &message["recipient"];
        if let Some(chat) = recipient.get("chat_id").filter(|chat| !chat.is_null()) {
            return number(chat);
        }
        if let Some(chat) = message["body"]["mid"].as_str().and_then(|mid| self.max.chat_of(mid)) {
            return Ok(chat);
        }
        let sender = &message["sender"];
        let user = sender.get("user_id").unwrap_or(sender);
        let user = user.as_i64().or_else(|| user.as_str().and_then(|text| text.parse().ok()));
        user.map(|user| dialog_id(self.bot.id, user))
            .ok_or_else(|| Refusal::bad("the message needs a chat: recipient.chat_id or sender.user_id"))
    }

    // -- messages

    fn message(&self, kind: &str, update: &mut Value, shared: Option<&Value>) -> Result<i64, Refusal> {
        if update.get("message").is_none_or(Value::is_null) {
            // Kinds that the API cannot express come without a message, but must say where.
            let chat = number(update.get("chat_id").unwrap_or(&Value::Null))?;
            return Ok(chat);
        }
        if let Some(shared) = shared {
            update["message"] = shared.clone();
            return number(&shared["recipient"]["chat_id"]);
        }
        let given = update["message"].clone();
        let place = self.known_place(self.chat_of_message(&given)?)?;
        let edits = kind.ends_with("_edited");
        let earlier = given["body"]["mid"].as_str().and_then(|mid| self.max.look(mid));
        let object = match earlier {
            Some(earlier) if edits => overlaid(earlier.object, &given),
            _ => self.new_message(&place, &given, update)?,
        };
        let mid = object["body"]["mid"].as_str().unwrap_or_default().to_owned();
        let at = update["timestamp"].as_i64().unwrap_or_default();
        let sender = User::parse(&object["sender"], 1)?;
        if !edits || !self.max.replace(&mid, &object, at) {
            self.max.keep(&place, &object, &sender, None);
        }
        self.after_message(&place, &sender, update);
        update["message"] = object;
        Ok(place.id)
    }

    /// Whoever writes is there: the dialog is open, or the group has a new member.
    fn after_message(&self, place: &Place, sender: &User, update: &mut Value) {
        let at = update["timestamp"].as_i64().unwrap_or_default();
        if place.is_dialog() {
            self.max.rooms.change(place.id, |room| room.suspended.remove(&self.bot.id));
            if update.get("user_locale").is_none() {
                update["user_locale"] = "ru".into();
            }
        } else if !sender.is_bot {
            self.max.rooms.change(place.id, |room| {
                room.removed.remove(&sender.id);
                room.joined.entry(sender.id).or_insert(at);
            });
        }
    }

    fn new_message(&self, place: &Place, given: &Value, update: &Value) -> Result<Value, Refusal> {
        let sender = self.user(&given["sender"], place)?;
        let body = &given["body"];
        let text = body["text"].as_str().unwrap_or_default();
        let format = match given["format"].as_str() {
            Some("markdown") => Format::Markdown,
            Some("html") => Format::Html,
            _ => Format::Plain,
        };
        let styled = markup::read(text, format, &self.max.people);
        let attachments = body["attachments"].as_array().cloned().unwrap_or_default();
        let attachments = attachments.into_iter().map(|item| self.attachment(item, &sender)).collect();
        let draft = Draft {
            place,
            sender: &sender,
            bot: self.bot.id,
            at: given["timestamp"].as_i64().or(update["timestamp"].as_i64()).unwrap_or_default(),
            seq: self.max.next_seq(),
            styled: &styled,
            attachments,
            link: given.get("link").filter(|link| !link.is_null()).map(|link| self.link(link)),
            post: given["recipient"]["post_id"].as_str(),
        };
        let mut object = draft.object();
        // Users that write to a channel sign with their name.
        object["sender"] = sender.json(draft.at);
        Ok(keeping(object, given))
    }

    /// A linked message that is given by its id alone is filled in.
    fn link(&self, link: &Value) -> Value {
        let mid = link["message"]["mid"].as_str().or(link["mid"].as_str()).unwrap_or_default();
        let Some(kept) = self.max.look(mid) else { return link.clone() };
        let mut object = json!({ "type": link["type"], "message": kept.object["body"] });
        if let Some(sender) = kept.object.get("sender") {
            object["sender"] = sender.clone();
        }
        object
    }

    /// An attachment as a user sends it: pictures without an address get one of the sandbox's own.
    fn attachment(&self, item: Value, sender: &User) -> Value {
        let core = &self.max.core;
        let mut item = item;
        match item["type"].as_str() {
            Some("image") if item["payload"]["url"].is_null() => {
                let name = item["name"].as_str().unwrap_or("user").to_owned();
                let picture = super::uploads::Picture::Fetched(core.pictures.jpeg(&name));
                let file = self.max.uploads.adopt(core, &core.origin, &self.account.token, picture);
                json!({
                    "type": "image",
                    "payload": { "photo_id": file.number, "token": file.token, "url": file.url },
                })
            }
            Some("contact") if item["payload"]["vcf_info"].is_null() => {
                let card = contact::vcard(&sender.full_name(), "+79990000000");
                item["payload"] = json!({
                    "hash": contact::signature(&self.account.token, &card),
                    "vcf_info": card,
                    "max_info": sender.json(core.clock.now_ms()),
                });
                item
            }
            _ => item,
        }
    }

    // -- buttons

    fn callback(&self, update: &mut Value) -> Result<i64, Refusal> {
        let mid = update["message"]["body"]["mid"].as_str().or(update["message_id"].as_str());
        let mid = mid
            .ok_or_else(|| Refusal::bad("a callback needs message.body.mid: the message with the button"))?;
        let mid = mid.to_owned();
        let chat = self.max.chat_of(&mid).ok_or_else(|| Refusal::bad(format!("{mid:?} is no message id")))?;
        let place = self.known_place(chat)?;
        let user = self.user(&update["callback"]["user"], &place)?;
        let kept = self.max.look(&mid);
        let callback = &mut update["callback"];
        if callback.is_null() {
            *callback = json!({});
        }
        if !callback.is_object() {
            return Err(Refusal::bad("field \"callback\" must be an object"));
        }
        let now = self.max.core.clock.now_ms();
        if callback.get("timestamp").is_none() {
            callback["timestamp"] = now.into();
        }
        let id = match callback["callback_id"].as_str() {
            Some(id) => id.to_owned(),
            None => self.max.new_id(&self.max.core, "callback"),
        };
        callback["callback_id"] = id.as_str().into();
        callback["user"] = user.json(now);
        self.max.callbacks.add(&id, super::callbacks::Pressed { bot: self.bot.id, chat, mid });
        // A message that is gone is not there for the bot either.
        update["message"] = kept.map(|kept| kept.object).unwrap_or_default();
        if place.is_dialog() && update.get("user_locale").is_none() {
            update["user_locale"] = "ru".into();
        }
        if let Some(update) = update.as_object_mut() {
            update.remove("message_id");
        }
        Ok(chat)
    }

    // -- everything else

    fn removal(&self, update: &mut Value) -> Result<i64, Refusal> {
        let mid = update["message_id"].as_str().map(str::to_owned);
        let mid = mid.ok_or_else(|| Refusal::bad("field \"message_id\" is missing"))?;
        let chat = self.max.chat_of(&mid).ok_or_else(|| Refusal::bad(format!("{mid:?} is no message id")))?;
        let kept = self.max.look(&mid);
        self.max.remove(&mid);
        if update.get("chat_id").is_none() {
            update["chat_id"] = chat.into();
        }
        if update.get("user_id").is_none() {
            let sender = kept.map(|kept| kept.object["sender"]["user_id"].clone()).unwrap_or_default();
            update["user_id"] = if sender.is_null() { (chat ^ self.bot.id).into() } else { sender };
        }
        Ok(chat)
    }

    /// Events about a chat: `chat_id` and `user`, and what each changes.
    fn event(&self, kind: &str, update: &mut Value) -> Result<i64, Refusal> {
        let user_id =
            update["user"]["user_id"].as_i64().or(update["user"].as_i64()).or(update["user_id"].as_i64());
        let chat = match (update.get("chat_id").filter(|chat| !chat.is_null()), user_id) {
            (Some(chat), _) => number(chat)?,
            (None, Some(user)) => dialog_id(self.bot.id, user),
            (None, None) => return Err(Refusal::bad("field \"chat_id\" is missing")),
        };
        update["chat_id"] = chat.into();
        let place = self.known_place(chat)?;
        let given = match &update["user"] {
            Value::Null => update["user_id"].clone(),
            user => user.clone(),
        };
        let user = self.user(&given, &place)?;
        let now = self.max.core.clock.now_ms();
        if kind == "bot_admin_permissions_changed" {
            self.new_rights(&place, &user, update);
        } else {
            update["user"] = user.json(now);
            update["user_id"] = user.id.into();
        }
        if matches!(kind, "bot_added" | "bot_removed" | "user_added" | "user_removed")
            && update.get("is_channel").is_none()
        {
            update["is_channel"] = place.is_channel().into();
        }
        if place.is_dialog() && update.get("user_locale").is_none() {
            update["user_locale"] = "ru".into();
        }
        self.apply(kind, update, &place, &user)?;
        self.max.rooms.show(&self.max.core, &place, Some(&user).filter(|_| place.is_dialog()));
        Ok(chat)
    }

    fn new_rights(&self, place: &Place, user: &User, update: &mut Value) {
        update["user_id"] = user.id.into();
        update["bot_id"] = self.bot.id.into();
        update["is_channel"] = place.is_channel().into();
        let rights: Vec<String> = update["permissions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|right| right.as_str().map(str::to_owned))
            .collect();
        if update.get("is_admin").is_none() {
            update["is_admin"] = (!rights.is_empty()).into();
        }
        if let Some(object) = update.as_object_mut() {
            object.remove("user");
        }
        self.max.rooms.change(place.id, |room| room.bot_rights.insert(self.bot.id, rights));
    }

    fn apply(&self, kind: &str, update: &mut Value, place: &Place, user: &User) -> Result<(), Refusal> {
        let bot = self.bot.id;
        let at = update["timestamp"].as_i64().unwrap_or_default();
        match kind {
            "bot_started" => {
                let payload = update["payload"].as_str();
                if payload.is_some_and(|payload| payload.len() > START_PAYLOAD_MAX)
                    && let Some(object) = update.as_object_mut()
                {
                    object.remove("payload");
                }
                self.max.rooms.change(place.id, |room| room.suspended.remove(&bot));
            }
            "bot_stopped" | "dialog_removed" => {
                self.max.rooms.change(place.id, |room| room.suspended.insert(bot));
            }
            "bot_added" => {
                self.max.rooms.change(place.id, |room| room.left.remove(&bot));
            }
            "bot_removed" => {
                self.max.rooms.change(place.id, |room| room.left.insert(bot));
            }
            "user_added" => self.max.rooms.change(place.id, |room| {
                room.removed.remove(&user.id);
                room.joined.insert(user.id, at);
            }),
            "user_removed" => self.max.rooms.change(place.id, |room| {
                room.joined.remove(&user.id);
                room.removed.insert(user.id);
            }),
            "chat_title_changed" => {
                let title = update["title"].as_str().map(str::to_owned);
                let title = title.ok_or_else(|| Refusal::bad("field \"title\" is missing"))?;
                self.max.rooms.change(place.id, |room| room.title = Some(title));
            }
            "dialog_muted" if update.get("muted_until").is_none() => {
                update["muted_until"] = i64::MAX.into();
            }
            _ => {}
        }
        Ok(())
    }
}

/// What the caller gave beyond what is computed stays: ids above all.
fn keeping(object: Value, given: &Value) -> Value {
    let mut object = object;
    for field in ["mid", "seq", "markup"] {
        if let Some(value) = given["body"].get(field).filter(|value| !value.is_null()) {
            object["body"][field] = value.clone();
        }
    }
    object
}

/// An edit keeps what it does not name.
fn overlaid(earlier: Value, given: &Value) -> Value {
    let mut object = earlier;
    for field in ["text", "attachments", "markup"] {
        if let Some(value) = given["body"].get(field) {
            object["body"][field] = value.clone();
        }
    }
    object
}
