//! What a reader sees: the visible messages of every chat, with edits and deletions applied.
//! Platforms write here what became visible, in one common shape that the page can draw,
//! and may keep their own object of the message in `raw`.
//! Bounded: beyond `messages_max` per platform the oldest message goes, and with its last message an idle chat.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

use crate::platform::{Name, chat_value};

/// A message id: Telegram and VK count, MAX has names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum MessageId {
    Number(i64),
    Text(String),
}

impl From<i64> for MessageId {
    fn from(number: i64) -> MessageId {
        MessageId::Number(number)
    }
}

impl From<&str> for MessageId {
    fn from(text: &str) -> MessageId {
        MessageId::Text(text.to_owned())
    }
}

/// One visible message or post.
#[derive(Clone, Debug, Serialize)]
pub struct Message {
    pub id: MessageId,
    /// Milliseconds since the epoch.
    pub at: i64,
    pub author: Author,
    /// Text or caption, without markup.
    pub text: String,
    /// Formatting of `text`.
    pub spans: Vec<Span>,
    pub media: Vec<Media>,
    /// Messages of one Telegram album share this.
    pub album: Option<String>,
    /// Rows of inline buttons.
    pub buttons: Vec<Vec<Button>>,
    pub reply_to: Option<MessageId>,
    pub edited_at: Option<i64>,
    pub pinned: bool,
    /// A small remark under the message: "forwarded", "comment", …
    pub note: Option<String>,
    /// The platform's own object, for its own use.
    #[serde(skip)]
    pub raw: Value,
}

impl Message {
    /// A message with text and nothing else.
    pub fn text(id: impl Into<MessageId>, at: i64, author: Author, text: impl Into<String>) -> Message {
        Message {
            id: id.into(),
            at,
            author,
            text: text.into(),
            spans: Vec::new(),
            media: Vec::new(),
            album: None,
            buttons: Vec::new(),
            reply_to: None,
            edited_at: None,
            pinned: false,
            note: None,
            raw: Value::Null,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Author {
    pub name: String,
    pub side: Side,
}

impl Author {
    pub fn new(name: &str, side: Side) -> Author {
        Author { name: name.to_owned(), side }
    }
}

/// Whose bubble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Bot,
    User,
    /// The channel or community itself.
    Channel,
}

/// A stretch of formatted text; offsets count UTF-16 units, as browsers do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// bold, italic, underline, strikethrough, spoiler, code, pre, blockquote, link, mention, hashtag, heading, highlighted.
    pub kind: String,
    pub offset: usize,
    pub length: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A picture, video or file of a message.
#[derive(Clone, Debug, Serialize)]
pub struct Media {
    /// photo, video, animation, audio, voice, document, sticker.
    pub kind: String,
    /// Where the page can load it: `MediaStore::url`, or the address the sender gave.
    pub url: Option<String>,
    pub sha256: Option<String>,
    pub bytes: Option<usize>,
    pub mime: Option<String>,
    pub name: Option<String>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub spoiler: bool,
}

/// An inline button. Pressing it on the page posts `press` to `/_/updates/{platform}`.
#[derive(Clone, Debug, Serialize)]
pub struct Button {
    pub text: String,
    pub url: Option<String>,
    /// A body for `POST /_/updates/{platform}`, ready to be sent when a reader presses the button.
    pub press: Option<Value>,
}

/// A chat as the listing shows it.
#[derive(Clone, Debug, Serialize)]
pub struct VisibleChat {
    pub id: Value,
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub username: Option<String>,
    /// How many messages are visible, more than are listed when the listing was cut.
    pub n_messages: usize,
    pub messages: Vec<Message>,
}

/// Something changed; the page listens.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub platform: Name,
    pub chat: Value,
    /// A remark that pops up for the reader and vanishes: the answer to a pressed button.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// The visible state of all platforms.
#[derive(Debug)]
pub struct Chats {
    rooms: [Mutex<Room>; 3],
    messages_max: usize,
    changes: broadcast::Sender<Change>,
}

#[derive(Debug, Default)]
struct Room {
    chats: HashMap<String, Shown>,
    /// All messages of the platform by age: sequence number to chat and id.
    ages: BTreeMap<u64, (String, MessageId)>,
    next_age: u64,
    /// No counter of a forgotten chat was higher, so ids never come twice.
    counter_floor: i64,
}

#[derive(Debug, Default)]
struct Shown {
    kind: String,
    title: String,
    username: Option<String>,
    /// Named by a registration: stays when it is empty.
    keep: bool,
    counter: i64,
    by_age: BTreeMap<u64, Message>,
    ages: HashMap<MessageId, u64>,
}

impl Chats {
    pub fn new(messages_max: usize) -> Chats {
        Chats {
            rooms: Default::default(),
            messages_max: messages_max.max(1),
            changes: broadcast::channel(256).0,
        }
    }

    /// How many messages of each platform are kept; what a platform keeps beside them should not outlive them.
    pub fn messages_max(&self) -> usize {
        self.messages_max
    }

    /// Makes a chat known, or renames it. `keep` is for registered ones: they are shown even when empty.
    pub fn ensure(&self, platform: Name, chat: &str, face: &Face<'_>, keep: bool) {
        let mut room = self.room(platform);
        let floor = room.counter_floor;
        let shown =
            room.chats.entry(chat.to_owned()).or_insert_with(|| Shown { counter: floor, ..Shown::default() });
        shown.keep |= keep;
        if shown.title != face.title || shown.kind != face.kind {
            face.kind.clone_into(&mut shown.kind);
            face.title.clone_into(&mut shown.title);
        }
        if shown.username.as_deref() != face.username {
            shown.username = face.username.map(str::to_owned);
        }
    }

    /// The next message number of a chat: 1, 2, 3 …
    pub fn next_number(&self, platform: Name, chat: &str) -> i64 {
        let mut room = self.room(platform);
        let floor = room.counter_floor;
        let shown =
            room.chats.entry(chat.to_owned()).or_insert_with(|| Shown { counter: floor, ..Shown::default() });
        shown.counter += 1;
        shown.counter
    }

    /// Shows a message at the end of its chat; one with the same id is replaced where it stands.
    pub fn post(&self, platform: Name, chat: &str, message: Message) {
        let mut room = self.room(platform);
        let Room { chats, ages, next_age, counter_floor } = &mut *room;
        let floor = *counter_floor;
        let shown =
            chats.entry(chat.to_owned()).or_insert_with(|| Shown { counter: floor, ..Shown::default() });
        if let MessageId::Number(number) = message.id {
            shown.counter = shown.counter.max(number);
        }
        let age = *shown.ages.entry(message.id.clone()).or_insert_with(|| {
            *next_age += 1;
            ages.insert(*next_age, (chat.to_owned(), message.id.clone()));
            *next_age
        });
        shown.by_age.insert(age, message);
        while room.ages.len() > self.messages_max {
            room.forget_oldest();
        }
        drop(room);
        self.changed(platform, chat);
    }

    /// Changes a message in place; `None` if it is not there.
    pub fn edit<T>(
        &self,
        platform: Name,
        chat: &str,
        id: &MessageId,
        change: impl FnOnce(&mut Message) -> T,
    ) -> Option<T> {
        let mut room = self.room(platform);
        let shown = room.chats.get_mut(chat)?;
        let age = *shown.ages.get(id)?;
        let result = change(shown.by_age.get_mut(&age)?);
        drop(room);
        self.changed(platform, chat);
        Some(result)
    }

    /// Looks at a message; `None` if it is not there.
    pub fn look<T>(
        &self,
        platform: Name,
        chat: &str,
        id: &MessageId,
        see: impl FnOnce(&Message) -> T,
    ) -> Option<T> {
        let room = self.room(platform);
        let shown = room.chats.get(chat)?;
        shown.by_age.get(shown.ages.get(id)?).map(see)
    }

    /// Takes a message away.
    pub fn remove(&self, platform: Name, chat: &str, id: &MessageId) -> Option<Message> {
        let mut room = self.room(platform);
        let shown = room.chats.get_mut(chat)?;
        let age = shown.ages.remove(id)?;
        let message = shown.by_age.remove(&age);
        room.ages.remove(&age);
        drop(room);
        self.changed(platform, chat);
        message
    }

    /// The messages of one chat, oldest first.
    pub fn messages(&self, platform: Name, chat: &str) -> Vec<Message> {
        let room = self.room(platform);
        room.chats.get(chat).map(|shown| shown.by_age.values().cloned().collect()).unwrap_or_default()
    }

    /// Shows the messages of one chat, newest first, until `see` has had enough; says how many there are.
    /// Reading the end of a long chat costs no more than what is read.
    pub fn walk_back(&self, platform: Name, chat: &str, mut see: impl FnMut(&Message) -> bool) -> usize {
        let room = self.room(platform);
        let Some(shown) = room.chats.get(chat) else { return 0 };
        for message in shown.by_age.values().rev() {
            if !see(message) {
                break;
            }
        }
        shown.by_age.len()
    }

    /// All chats of a platform with their last `last` messages each; empty unregistered ones are left out.
    pub fn visible(&self, platform: Name, only: Option<&str>, last: usize) -> Vec<VisibleChat> {
        self.visible_latest(platform, only, usize::MAX, last)
    }

    /// The same for the `most` chats that spoke last.
    pub fn visible_latest(
        &self,
        platform: Name,
        only: Option<&str>,
        most: usize,
        last: usize,
    ) -> Vec<VisibleChat> {
        let room = self.room(platform);
        let mut found: Vec<(&String, &Shown)> = room
            .chats
            .iter()
            .filter(|(id, shown)| {
                only.is_none_or(|only| only == *id) && (shown.keep || !shown.by_age.is_empty())
            })
            .collect();
        // The chat that spoke last comes first, as in every messenger.
        let age = |shown: &Shown| shown.by_age.keys().next_back().copied().unwrap_or(0);
        found.sort_by(|(a_id, a), (b_id, b)| age(b).cmp(&age(a)).then_with(|| a_id.cmp(b_id)));
        found.into_iter().take(most).map(|(id, shown)| shown.listed(id, last)).collect()
    }

    pub fn n_messages(&self, platform: Name) -> usize {
        self.room(platform).ages.len()
    }

    pub fn n_chats(&self, platform: Name) -> usize {
        self.room(platform).chats.len()
    }

    /// Wipes all messages; registered chats stay, empty, and count from one again.
    pub fn clear(&self) {
        for platform in Name::ALL {
            let mut room = self.room(platform);
            room.chats.retain(|_, shown| shown.keep);
            for shown in room.chats.values_mut() {
                shown.by_age.clear();
                shown.ages.clear();
                shown.counter = 0;
            }
            room.ages.clear();
            room.counter_floor = 0;
            drop(room);
            self.changed(platform, "");
        }
    }

    /// A stream of changes for the page.
    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Shows a remark to whoever looks at the page; nothing is kept of it.
    pub fn notice(&self, platform: Name, chat: &str, text: &str) {
        self.tell(platform, chat, Some(text.to_owned()));
    }

    fn changed(&self, platform: Name, chat: &str) {
        self.tell(platform, chat, None);
    }

    fn tell(&self, platform: Name, chat: &str, notice: Option<String>) {
        if self.changes.receiver_count() > 0 {
            // Nobody listening any more is no error.
            drop(self.changes.send(Change { platform, chat: chat_value(chat), notice }));
        }
    }

    fn room(&self, platform: Name) -> MutexGuard<'_, Room> {
        self.rooms[platform as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a chat presents itself.
#[derive(Clone, Copy, Debug)]
pub struct Face<'a> {
    pub kind: &'a str,
    pub title: &'a str,
    pub username: Option<&'a str>,
}

impl Room {
    fn forget_oldest(&mut self) {
        let Some((age, (chat, id))) = self.ages.pop_first() else { return };
        let Some(shown) = self.chats.get_mut(&chat) else { return };
        shown.by_age.remove(&age);
        shown.ages.remove(&id);
        if shown.by_age.is_empty() && !shown.keep {
            self.counter_floor = self.counter_floor.max(shown.counter);
            self.chats.remove(&chat);
        }
    }
}

impl Shown {
    fn listed(&self, id: &str, last: usize) -> VisibleChat {
        let skip = self.by_age.len().saturating_sub(last);
        VisibleChat {
            id: chat_value(id),
            kind: self.kind.clone(),
            title: self.title.clone(),
            username: self.username.clone(),
            n_messages: self.by_age.len(),
            messages: self.by_age.values().skip(skip).cloned().collect(),
        }
    }
}
