//! Dialogs: what two sides, or the members of a chat, have said to each other.
//! One dialog is kept once; whose message is whose, and how a peer is called, depends on who looks.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::chats::{Author, Button, Face, Message, MessageId, Side};
use crate::core::SharedCore;
use crate::platform::Name;

use super::packed::Packed;
use super::state::State;
use super::{attachments, people};

/// Peers from here on are chats of several people.
pub(super) const CHAT_PEER: i64 = 2_000_000_000;

/// Which dialog: of two, in order, or of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Pair(i64, i64),
    Chat(i64),
}

impl Key {
    /// The dialog that `own` has with `peer`.
    pub fn new(own: i64, peer: i64) -> Key {
        if peer >= CHAT_PEER { Key::Chat(peer) } else { Key::Pair(own.min(peer), own.max(peer)) }
    }

    /// How `own` calls the other side.
    pub fn peer_for(self, own: i64) -> i64 {
        match self {
            Key::Chat(peer) => peer,
            Key::Pair(a, b) => {
                if a == own {
                    b
                } else {
                    a
                }
            }
        }
    }

    /// Under which id the page shows it: the chat, or the person.
    pub fn page(self) -> String {
        match self {
            Key::Chat(peer) => peer.to_string(),
            Key::Pair(_, b) => b.to_string(),
        }
    }
}

/// One message.
#[derive(Clone, Debug)]
pub struct Said {
    pub id: i64,
    pub cmid: i64,
    pub from_id: i64,
    pub date: i64,
    /// Text, attachments, keyboard, payload and so on, without what depends on the reader.
    pub object: Packed,
}

/// What was said, and what is remembered about it.
#[derive(Debug, Default)]
pub struct Dialog {
    pub said: BTreeMap<i64, Said>,
    counter: i64,
    /// Who sent which `random_id`, when, and what it became.
    random: VecDeque<(i64, i64, i64, i64)>,
    /// Up to which message each side has read.
    pub read: HashMap<i64, i64>,
    pub pinned: Option<i64>,
    /// Everybody who spoke or was named.
    pub members: Vec<i64>,
    /// A person who has forbidden messages.
    pub denied: bool,
}

/// All dialogs.
#[derive(Debug, Default)]
pub struct Dialogs {
    pub by_key: HashMap<Key, Dialog>,
    /// Message id to dialog and place.
    pub places: HashMap<i64, (Key, i64)>,
    /// Id and bytes of every message by age.
    ages: VecDeque<(i64, usize)>,
    n_bytes: usize,
    kept_max: usize,
    counter: i64,
    /// Presses that wait for an answer: event id to when and who.
    pub presses: HashMap<String, Press>,
}

/// A callback button that was pressed.
#[derive(Clone, Copy, Debug)]
pub struct Press {
    pub at_ms: i64,
    pub group: i64,
    pub user_id: i64,
    pub peer_id: i64,
}

/// Bytes of the objects of all messages; their number is bounded by `kept_max`.
const MESSAGES_BYTES_MAX: usize = 256 << 20;
/// `random_id` is compared with the messages of the last hour, at most the last hundred.
const RANDOM_MS: i64 = 3_600_000;
const RANDOM_MAX: usize = 100;
/// Presses that may wait at once.
const PRESSES_MAX: usize = 10_000;

impl Dialogs {
    pub fn new(kept_max: usize) -> Dialogs {
        Dialogs { kept_max, ..Dialogs::default() }
    }

    /// Adds a message and numbers it.
    pub fn add(&mut self, key: Key, from_id: i64, date: i64, object: Map<String, Value>) -> Said {
        self.counter += 1;
        let dialog = self.by_key.entry(key).or_default();
        dialog.counter += 1;
        let said = Said { id: self.counter, cmid: dialog.counter, from_id, date, object: object.into() };
        dialog.said.insert(said.cmid, said.clone());
        if !dialog.members.contains(&from_id) {
            dialog.members.push(from_id);
        }
        self.places.insert(said.id, (key, said.cmid));
        self.remember(said.id, said.object.n_bytes());
        said
    }

    fn remember(&mut self, id: i64, n_bytes: usize) {
        self.ages.push_back((id, n_bytes));
        self.n_bytes += n_bytes;
        while self.ages.len() > self.kept_max || self.n_bytes > MESSAGES_BYTES_MAX {
            let Some((id, n_bytes)) = self.ages.pop_front() else { break };
            self.n_bytes -= n_bytes;
            let Some((key, cmid)) = self.places.remove(&id) else { continue };
            let Some(dialog) = self.by_key.get_mut(&key) else { continue };
            dialog.said.remove(&cmid);
            if dialog.said.is_empty() && !dialog.denied {
                self.by_key.remove(&key);
            }
        }
    }

    /// Gives a message the numbers that were asked for, where they are free.
    pub fn renumber(&mut self, key: Key, mut said: Said, id: Option<i64>, cmid: Option<i64>) -> Said {
        let Some(dialog) = self.by_key.get_mut(&key) else { return said };
        dialog.said.remove(&said.cmid);
        self.places.remove(&said.id);
        if let Some(cmid) = cmid.filter(|cmid| *cmid > 0 && !dialog.said.contains_key(cmid)) {
            said.cmid = cmid;
            dialog.counter = dialog.counter.max(cmid);
        }
        if let Some(id) = id.filter(|id| *id > 0 && !self.places.contains_key(id)) {
            said.id = id;
            self.counter = self.counter.max(id);
            self.ages.push_back((id, 0));
        }
        dialog.said.insert(said.cmid, said.clone());
        self.places.insert(said.id, (key, said.cmid));
        said
    }

    pub fn find(&self, id: i64) -> Option<(Key, &Said)> {
        let (key, cmid) = self.places.get(&id)?;
        Some((*key, self.by_key.get(key)?.said.get(cmid)?))
    }

    pub fn press(&mut self, event_id: &str, press: Press) {
        if self.presses.len() >= PRESSES_MAX {
            self.presses.clear();
        }
        self.presses.insert(event_id.to_owned(), press);
    }

    /// Forgets what was said. Who has forbidden messages is forgotten too.
    pub fn clear(&mut self) {
        *self = Dialogs::new(self.kept_max);
    }
}

impl Dialog {
    /// The message that the same sender gave this `random_id` lately.
    pub fn by_random(&self, from_id: i64, random_id: i64, now_ms: i64) -> Option<i64> {
        let mut recent = self.random.iter().rev();
        recent
            .find(|(from, random, at_ms, _)| {
                *from == from_id && *random == random_id && now_ms - at_ms < RANDOM_MS
            })
            .map(|(_, _, _, cmid)| *cmid)
    }

    pub fn remember_random(&mut self, from_id: i64, random_id: i64, now_ms: i64, cmid: i64) {
        self.random.push_back((from_id, random_id, now_ms, cmid));
        while self.random.len() > RANDOM_MAX {
            self.random.pop_front();
        }
    }

    pub fn last(&self) -> Option<&Said> {
        self.said.values().next_back()
    }

    /// How many messages of others `own` has not read.
    pub fn unread(&self, own: i64) -> usize {
        let read = self.read.get(&own).copied().unwrap_or(0);
        self.said.values().filter(|said| said.cmid > read && said.from_id != own).count()
    }
}

/// A message as `own` sees it.
pub(super) fn object(own: i64, key: Key, said: &Said) -> Value {
    let mut object = json!({
        "id": said.id,
        "date": said.date,
        "peer_id": key.peer_for(own),
        "from_id": said.from_id,
        "conversation_message_id": said.cmid,
        "out": i64::from(said.from_id == own),
        "text": "",
        "attachments": [],
        "fwd_messages": [],
        "important": false,
        "is_hidden": false,
        "random_id": 0,
        "version": 10_000_000 + said.id,
    });
    for (name, value) in said.object.open() {
        object[name] = value;
    }
    object
}

/// Makes a dialog visible as a chat; `keep` also while it is empty.
pub(super) fn show_dialog(core: &SharedCore, state: &State, key: Key, keep: bool) {
    let (kind, title) = match key {
        Key::Chat(peer) => {
            let chat = core.registry.chat(Name::Vk, &peer.to_string());
            let title = chat.map(|chat| chat.title.clone()).filter(|title| !title.is_empty());
            ("chat", title.unwrap_or_else(|| format!("Беседа {}", peer - CHAT_PEER)))
        }
        Key::Pair(_, person) => ("private", people::owner_name(state, person)),
    };
    core.chats.ensure(Name::Vk, &key.page(), &Face { kind, title: &title, username: None }, keep);
}

/// Shows a message, or shows it anew after a change.
pub(super) fn show(core: &SharedCore, state: &State, key: Key, said: &Said) {
    show_dialog(core, state, key, false);
    let side = if said.from_id < 0 { Side::Bot } else { Side::User };
    let author = Author::new(&people::owner_name(state, said.from_id), side);
    let object = said.object.open();
    let text = object.get("text").and_then(Value::as_str).unwrap_or_default();
    let mut message = Message::text(said.id, said.date.saturating_mul(1000), author, text);
    message.media = attachments::shown(core, object.get("attachments").unwrap_or(&Value::Null));
    message.buttons = buttons(key, said, &object);
    message.reply_to =
        object.get("reply_message").and_then(|reply| reply["id"].as_i64()).map(MessageId::Number);
    message.edited_at = object.get("update_time").and_then(Value::as_i64).map(|at| at.saturating_mul(1000));
    message.pinned = state.dialogs.by_key.get(&key).is_some_and(|dialog| dialog.pinned == Some(said.cmid));
    message.note = note(&object);
    core.chats.post(Name::Vk, &key.page(), message);
}

pub(super) fn hide(core: &SharedCore, key: Key, id: i64) {
    core.chats.remove(Name::Vk, &key.page(), &MessageId::Number(id));
}

fn note(object: &Map<String, Value>) -> Option<String> {
    let forwarded = object.get("fwd_messages").and_then(Value::as_array).map_or(0, Vec::len);
    (forwarded > 0).then(|| format!("forwarded messages: {forwarded}"))
}

/// The buttons of a keyboard; pressing one says or does what a person's press would.
fn buttons(key: Key, said: &Said, object: &Map<String, Value>) -> Vec<Vec<Button>> {
    let person = match key {
        Key::Pair(_, person) => person,
        Key::Chat(_) => 1,
    };
    let rows = object.get("keyboard").and_then(|keyboard| keyboard["buttons"].as_array());
    let row = |row: &Value| {
        let buttons = row.as_array().into_iter().flatten();
        buttons.filter_map(|button| shown_button(key, said, person, &button["action"])).collect()
    };
    rows.into_iter().flatten().map(row).collect()
}

fn shown_button(key: Key, said: &Said, person: i64, action: &Value) -> Option<Button> {
    let peer = if let Key::Chat(peer) = key { peer } else { person };
    let text = action["label"].as_str().or_else(|| action["type"].as_str())?.to_owned();
    let account = (-said.from_id).to_string();
    let press = match action["type"].as_str()? {
        "text" => Some(json!({ "account": account, "chat": peer, "from": person, "text": text,
            "payload": action["payload"] })),
        "callback" => Some(json!({ "account": account, "type": "message_event", "object": {
            "user_id": person, "peer_id": peer, "payload": action["payload"],
            "conversation_message_id": said.cmid } })),
        _ => None,
    };
    Some(Button { text, url: action["link"].as_str().map(str::to_owned), press })
}
