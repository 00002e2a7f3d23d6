//! Chats: which exist, what the bot may do in them, and what MAX says of them.
//! What was registered stays as it is; what bots and users change afterwards (titles, members, pins) lies above it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::errors::ApiError;
use super::people::User;
use crate::chats::Face;
use crate::core::Core;
use crate::platform::Name;
use crate::registry::Chat;
use crate::reply::Refusal;

/// What `POST /_/chats` takes beyond the common fields.
/// `permissions`, `admin`: of every bot in it. `user`: the other side of a dialog. `members`: users.
/// `status`: other than `active`, and no bot may enter; `suspended` is a dialog whose user stopped the bot.
pub(super) const CHAT_FIELDS: &[&str] = &[
    "permissions",
    "admin",
    "user",
    "members",
    "owner_id",
    "description",
    "link",
    "is_public",
    "participants_count",
    "status",
];

/// All rights there are.
pub(super) const PERMISSIONS: &[&str] = &[
    "read_all_messages",
    "write",
    "edit",
    "delete",
    "pin_message",
    "change_chat_info",
    "add_remove_members",
    "add_admins",
    "edit_link",
    "can_call",
    "view_stats",
];

/// Older names that are still understood.
const OLD_PERMISSIONS: &[&str] = &["post_edit_delete_message", "edit_message", "delete_message"];

const STATUSES: &[&str] = &["active", "removed", "left", "closed", "suspended"];

/// The three kinds of chats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatKind {
    Dialog,
    Chat,
    Channel,
}

impl ChatKind {
    pub fn name(self) -> &'static str {
        match self {
            ChatKind::Dialog => "dialog",
            ChatKind::Chat => "chat",
            ChatKind::Channel => "channel",
        }
    }

    /// MAX's own word, or the one other platforms use for the same thing.
    fn parse(word: &str, id: i64) -> Result<ChatKind, Refusal> {
        match word {
            "" if id > 0 => Ok(ChatKind::Dialog),
            "" => Ok(ChatKind::Chat),
            "dialog" | "private" => Ok(ChatKind::Dialog),
            "chat" | "group" | "supergroup" => Ok(ChatKind::Chat),
            "channel" => Ok(ChatKind::Channel),
            _ => {
                Err(Refusal::bad(format!("unknown chat type {word:?}"))
                    .knowing(["dialog", "chat", "channel"]))
            }
        }
    }
}

/// Checks and completes a registration.
pub(super) fn complete(mut chat: Chat) -> Result<Chat, Refusal> {
    let id: i64 =
        chat.id.parse().map_err(|_| Refusal::bad(format!("a MAX chat id is a number, not {:?}", chat.id)))?;
    let kind = ChatKind::parse(&chat.kind, id)?;
    if id == 0 || (id < 0) != (kind != ChatKind::Dialog) {
        return Err(Refusal::bad(format!(
            "chat {id} cannot be a {}: dialogs have positive ids, chats and channels negative ones",
            kind.name()
        )));
    }
    chat.id = id.to_string();
    kind.name().clone_into(&mut chat.kind);
    check_list(&chat, "permissions", |value| {
        value.as_str().is_some_and(|name| PERMISSIONS.contains(&name) || OLD_PERMISSIONS.contains(&name))
    })?;
    check_list(&chat, "members", |value| User::parse(value, 1).is_ok())?;
    if let Some(status) = chat.fields.get("status")
        && !status.as_str().is_some_and(|status| STATUSES.contains(&status))
    {
        return Err(Refusal::bad(format!("unknown chat status {status}")).knowing(STATUSES));
    }
    if chat.title.is_empty() && kind != ChatKind::Dialog {
        chat.title = made_up_title(kind, id);
    }
    Ok(chat)
}

fn check_list(chat: &Chat, field: &str, fits: impl Fn(&Value) -> bool) -> Result<(), Refusal> {
    match chat.fields.get(field) {
        None => Ok(()),
        Some(Value::Array(list)) if list.iter().all(fits) => Ok(()),
        Some(other) => Err(Refusal::bad(format!("field {field:?} cannot be {other}")).knowing(PERMISSIONS)),
    }
}

fn made_up_title(kind: ChatKind, id: i64) -> String {
    let word = if kind == ChatKind::Channel { "Канал" } else { "Чат" };
    format!("{word} {}", id.unsigned_abs())
}

/// A chat as one bot meets it.
#[derive(Clone, Debug)]
pub struct Place {
    pub id: i64,
    pub key: String,
    pub kind: ChatKind,
    chat: Arc<Chat>,
    /// The other side of a dialog.
    pub user_id: Option<i64>,
}

impl Place {
    /// The chat with this number, if it exists for this bot: registered, made up on first use, or opened by a user.
    pub fn find(core: &Core, rooms: &Rooms, id: i64, bot: i64) -> Option<Place> {
        let key = id.to_string();
        let opened = || rooms.look(id, |room| room.opened.contains(&bot));
        let chat = match core.registry.chat(Name::Max, &key) {
            Some(chat) => chat,
            None if id != 0 && (core.registry.any_token() || opened()) => {
                let kind = if id > 0 { ChatKind::Dialog } else { ChatKind::Chat };
                let mut chat = Chat::blank(Name::Max, &key, kind.name());
                if kind != ChatKind::Dialog {
                    chat.title = made_up_title(kind, id);
                }
                Arc::new(chat)
            }
            None => return None,
        };
        let kind = ChatKind::parse(&chat.kind, id).ok()?;
        let user_id = (kind == ChatKind::Dialog).then(|| dialog_user(&chat, id, bot));
        Some(Place { id, key, kind, chat, user_id })
    }

    /// The public name of a registered chat.
    pub fn find_by_name(core: &Core, rooms: &Rooms, name: &str, bot: i64) -> Option<Place> {
        let chat = core.registry.chat_by_username(Name::Max, name)?;
        Place::find(core, rooms, chat.id.parse().ok()?, bot)
    }

    pub fn is_dialog(&self) -> bool {
        self.kind == ChatKind::Dialog
    }

    pub fn is_channel(&self) -> bool {
        self.kind == ChatKind::Channel
    }

    /// Who is named as the other side when the chat was registered.
    pub fn registered_user(&self) -> Option<User> {
        let user = self.chat.fields.get("user")?;
        User::parse(user, self.user_id?).ok()
    }

    /// The bot's rights here: all of them, unless the registration says otherwise.
    pub fn permissions(&self) -> Vec<&str> {
        match self.chat.field("permissions") {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            _ if self.chat.field("admin") == &Value::Bool(false) => Vec::new(),
            _ => PERMISSIONS.to_vec(),
        }
    }

    pub fn is_admin(&self) -> bool {
        !self.is_dialog() && !self.permissions().is_empty()
    }

    pub fn registered_members(&self) -> Vec<User> {
        let list = self.chat.field("members").as_array();
        list.into_iter().flatten().filter_map(|value| User::parse(value, 1).ok()).collect()
    }

    fn registered_status(&self) -> &str {
        self.chat.field("status").as_str().unwrap_or("active")
    }
}

/// MAX computes the number of a dialog from its two sides; the registration may name somebody else.
fn dialog_user(chat: &Chat, id: i64, bot: i64) -> i64 {
    let named = User::parse(chat.field("user"), id ^ bot).map(|user| user.id);
    named.unwrap_or(id ^ bot)
}

/// The number of the dialog of a bot and a user.
pub(super) fn dialog_id(bot: i64, user: i64) -> i64 {
    bot ^ user
}

/// What was changed in a chat after its registration.
#[derive(Clone, Debug, Default)]
pub struct Room {
    pub title: Option<String>,
    pub description: Option<String>,
    pub icon_url: Option<String>,
    pub pinned: Option<String>,
    pub joined: BTreeMap<i64, i64>,
    pub removed: HashSet<i64>,
    /// Administrators that were appointed: rights and the title beside the name.
    pub admins: BTreeMap<i64, (Vec<String>, Option<String>)>,
    /// Rights of bots that were changed by an injected update.
    pub bot_rights: HashMap<i64, Vec<String>>,
    /// Bots that are no longer in it.
    pub left: HashSet<i64>,
    /// Bots whose user stopped them.
    pub suspended: HashSet<i64>,
    /// Bots for which a user opened this dialog.
    pub opened: HashSet<i64>,
}

/// The changed chats.
#[derive(Debug, Default)]
pub struct Rooms {
    rooms: Mutex<HashMap<i64, Room>>,
}

/// Beyond this the changes of made-up chats are forgotten.
const ROOMS_MAX: usize = 200_000;

impl Rooms {
    pub fn look<T>(&self, id: i64, see: impl FnOnce(&Room) -> T) -> T {
        match self.rooms().get(&id) {
            Some(room) => see(room),
            None => see(&Room::default()),
        }
    }

    pub fn change<T>(&self, id: i64, change: impl FnOnce(&mut Room) -> T) -> T {
        let mut rooms = self.rooms();
        if rooms.len() >= ROOMS_MAX && !rooms.contains_key(&id) {
            rooms.clear();
        }
        change(rooms.entry(id).or_default())
    }

    pub fn clear(&self) {
        self.rooms().clear();
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<i64, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the bot may do anything here at all.
    pub fn check_entry(&self, place: &Place, bot: i64) -> Result<(), ApiError> {
        let (left, suspended) =
            self.look(place.id, |room| (room.left.contains(&bot), room.suspended.contains(&bot)));
        match place.registered_status() {
            _ if suspended => Err(ApiError::suspended()),
            "suspended" => Err(ApiError::suspended()),
            "removed" | "left" | "closed" => Err(ApiError::chat_denied("chat.denied")),
            _ if left => Err(ApiError::chat_denied("chat.denied")),
            _ => Ok(()),
        }
    }

    /// The bot's rights now.
    pub fn permissions(&self, place: &Place, bot: i64) -> Vec<String> {
        let changed = self.look(place.id, |room| room.bot_rights.get(&bot).cloned());
        changed.unwrap_or_else(|| place.permissions().into_iter().map(str::to_owned).collect())
    }

    /// Whether the bot has a right; old names count for the new ones.
    pub fn may(&self, place: &Place, bot: i64, right: &str) -> bool {
        let rights = self.permissions(place, bot);
        let old: &[&str] = match right {
            "write" => &["post_edit_delete_message"],
            "edit" => &["post_edit_delete_message", "edit_message"],
            "delete" => &["post_edit_delete_message", "delete_message"],
            _ => &[],
        };
        rights.iter().any(|own| own == right || old.contains(&own.as_str()))
    }

    pub fn title(&self, place: &Place) -> String {
        self.look(place.id, |room| room.title.clone()).unwrap_or_else(|| place.chat.title.clone())
    }

    /// Shows the chat to readers under its present title.
    pub fn show(&self, core: &Core, place: &Place, user: Option<&User>) {
        let title = match user {
            Some(user) if place.is_dialog() && place.chat.title.is_empty() => user.full_name(),
            _ => self.title(place),
        };
        let username = Some(place.chat.username.as_str()).filter(|name| !name.is_empty());
        let face = Face { kind: place.kind.name(), title: &title, username };
        core.chats.ensure(Name::Max, &place.key, &face, false);
    }

    /// The object of the API, without what only its caller knows: members and the pinned message.
    pub fn json(&self, core: &Core, place: &Place, bot: i64, user: Option<&User>) -> Value {
        let room = self.look(place.id, Room::clone);
        let (last_event_time, n_messages) = last_event(core, place);
        let status = match place.registered_status() {
            _ if room.suspended.contains(&bot) => "suspended",
            _ if room.left.contains(&bot) => "removed",
            status => status,
        };
        let mut object = Map::new();
        object.insert("chat_id".into(), place.id.into());
        object.insert("type".into(), place.kind.name().into());
        object.insert("status".into(), status.into());
        object.insert("last_event_time".into(), last_event_time.into());
        object.insert("is_public".into(), self.is_public(place).into());
        if let Some(user) = user.filter(|_| place.is_dialog()) {
            object.insert("participants_count".into(), 2.into());
            object.insert("dialog_with_user".into(), user.json(core.clock.now_ms()));
            return object.into();
        }
        object.insert("title".into(), self.title(place).into());
        object.insert("messages_count".into(), n_messages.into());
        let description = room.description.or_else(|| text_field(&place.chat, "description"));
        if let Some(description) = description {
            object.insert("description".into(), description.into());
        }
        if let Some(url) = room.icon_url {
            object.insert("icon".into(), json!({ "url": url }));
        }
        if let Some(link) = self.link(place) {
            object.insert("link".into(), link.into());
        }
        object.into()
    }

    fn is_public(&self, place: &Place) -> bool {
        let declared = place.chat.field("is_public").as_bool();
        declared.unwrap_or(!place.chat.username.is_empty())
    }

    fn link(&self, place: &Place) -> Option<String> {
        let public =
            || (!place.chat.username.is_empty()).then(|| format!("https://max.ru/{}", place.chat.username));
        text_field(&place.chat, "link").or_else(public)
    }

    /// Everybody in a group or channel but the bots: owner first, then by number, with the time of joining.
    pub fn members(&self, core: &Core, place: &Place) -> Vec<(i64, i64)> {
        let room = self.look(place.id, Room::clone);
        let mut members: BTreeMap<i64, i64> =
            place.registered_members().into_iter().map(|user| (user.id, 0)).collect();
        members.extend(room.joined);
        let owner = owner_id(core, place);
        members.remove(&owner);
        let mut all = vec![(owner, 0)];
        all.extend(members);
        all.retain(|(id, _)| !room.removed.contains(id));
        all
    }

    /// How many are said to be in it.
    pub fn declared_count(&self, place: &Place) -> Option<i64> {
        place.chat.field("participants_count").as_i64()
    }
}

/// Who made a group or channel.
pub(super) fn owner_id(core: &Core, place: &Place) -> i64 {
    let declared = place.chat.field("owner_id").as_i64();
    declared.unwrap_or_else(|| 1_000 + (core.number_of(&format!("owner {}", place.id)) % 900_000_000) as i64)
}

fn text_field(chat: &Chat, field: &str) -> Option<String> {
    chat.field(field).as_str().map(str::to_owned)
}

/// The time of the latest message and the number of messages.
fn last_event(core: &Core, place: &Place) -> (i64, usize) {
    let mut latest = None;
    let n_messages = core.chats.walk_back(Name::Max, &place.key, |message| {
        latest = Some(message.edited_at.unwrap_or(message.at));
        false
    });
    (latest.unwrap_or_else(|| core.clock.now_ms()), n_messages)
}
