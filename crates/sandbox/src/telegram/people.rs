//! Bots, users and chats: who they are in the Bot API's objects, and what a bot may do in a chat.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::args::Args;
use super::errors::ApiError;
use crate::core::Core;
use crate::platform::{Name, chat_key};
use crate::registry::{Account, Chat};
use crate::reply::Refusal;

/// Fields of a chat beyond the common ones, with which its troubles can be set up.
pub(super) const CHAT_FIELDS: &[&str] = &[
    // Names of a private chat.
    "first_name",
    "last_name",
    "language_code",
    "description",
    // What the bot is there: administrator, member, restricted, left, kicked.
    "bot_status",
    // Private chats: the user has blocked the bot, is deleted, or has never pressed Start.
    "blocked",
    "deactivated",
    "not_started",
    "is_forum",
    "topics",
    "slow_mode_delay",
    "signatures",
    "members",
    "migrate_to",
];

/// Ids below this are channels and supergroups.
const CHANNEL_BASE: i64 = -1_000_000_000_000;

/// A bot id from the shape of its token, or why it is none.
pub(super) fn bot_id(token: &str) -> Result<i64, ApiError> {
    let invalid = || ApiError::new(401, "Unauthorized: invalid token specified");
    if token.starts_with('0') || token.len() > 80 || token.contains('/') {
        return Err(invalid());
    }
    let (id, secret) = token.split_once(':').ok_or_else(invalid)?;
    if secret.is_empty() {
        return Err(invalid());
    }
    id.parse().ok().filter(|id| *id > 0).ok_or_else(invalid)
}

/// Fills in what a registration left out.
pub(super) fn complete_account(mut account: Account) -> Result<Account, Refusal> {
    let id = bot_id(&account.token)
        .map_err(|_| Refusal::bad("a Telegram token has the form 123456:letters-and-digits"))?;
    if !account.id.is_empty() && account.id != id.to_string() {
        return Err(Refusal::bad(format!("the token belongs to bot {id}, not {}", account.id)));
    }
    account.id = id.to_string();
    if account.kind.is_empty() {
        "bot".clone_into(&mut account.kind);
    }
    if account.kind != "bot" {
        return Err(Refusal::bad(format!("unknown account kind {:?}", account.kind)).knowing(["bot"]));
    }
    if account.name.is_empty() {
        account.name = format!("Bot {id}");
    }
    if account.username.is_empty() {
        account.username = format!("sandbox_{id}_bot");
    }
    Ok(account)
}

/// The bot as a user.
pub(super) fn bot_user(account: &Account) -> Value {
    let id: i64 = account.id.parse().unwrap_or_default();
    json!({ "id": id, "is_bot": true, "first_name": account.name, "username": account.username })
}

/// `getMe`.
pub(super) fn me(account: &Account) -> Value {
    let mut me = bot_user(account);
    for (field, value) in [
        ("can_join_groups", true),
        ("can_read_all_group_messages", !account.flag("privacy")),
        ("supports_inline_queries", false),
        ("can_connect_to_business", false),
        ("has_main_web_app", false),
        ("has_topics_enabled", false),
        ("allows_users_to_create_topics", false),
        ("can_manage_bots", false),
    ] {
        me[field] = value.into();
    }
    me
}

/// A chat that a call is about.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub id: i64,
    pub chat: Arc<Chat>,
}

impl Place {
    pub(super) fn key(&self) -> &str {
        &self.chat.id
    }

    pub(super) fn kind(&self) -> &str {
        &self.chat.kind
    }

    pub(super) fn is_channel(&self) -> bool {
        self.kind() == "channel"
    }

    pub(super) fn is_private(&self) -> bool {
        self.kind() == "private"
    }

    pub(super) fn is_group(&self) -> bool {
        matches!(self.kind(), "group" | "supergroup")
    }

    /// The chat inside a message.
    pub(super) fn json(&self) -> Value {
        let chat = &self.chat;
        let mut object = Map::new();
        object.insert("id".into(), self.id.into());
        object.insert("type".into(), chat.kind.as_str().into());
        if self.is_private() {
            object.insert("first_name".into(), chat.title.as_str().into());
            if let Some(last_name) = chat.field("last_name").as_str() {
                object.insert("last_name".into(), last_name.into());
            }
        } else {
            object.insert("title".into(), chat.title.as_str().into());
        }
        if !chat.username.is_empty() {
            object.insert("username".into(), chat.username.as_str().into());
        }
        if chat.flag("is_forum") {
            object.insert("is_forum".into(), true.into());
        }
        object.into()
    }

    /// `getChat`.
    pub(super) fn full_json(&self) -> Value {
        let mut full = self.json();
        full["accent_color_id"] = 0.into();
        full["max_reaction_count"] = 11.into();
        full["accepted_gift_types"] = json!({
            "unlimited_gifts": true,
            "limited_gifts": true,
            "unique_gifts": true,
            "premium_subscription": true,
            "gifts_from_channels": true,
        });
        if let Some(description) = self.chat.field("description").as_str() {
            full["description"] = description.into();
        }
        if self.is_group() {
            full["permissions"] = permissions(true);
            full["join_to_send_messages"] = true.into();
        }
        if let Some(delay) = self.chat.field("slow_mode_delay").as_i64() {
            full["slow_mode_delay"] = delay.into();
        }
        full
    }

    /// Refuses what a bot cannot do here, in the server's words. `media` names what is being sent.
    pub(super) fn check_can_send(&self, media: &str) -> Result<(), ApiError> {
        if let Some(id) = self.chat.field("migrate_to").as_i64() {
            return Err(ApiError::migrated(id));
        }
        self.check_access()?;
        let status = self.chat.field("bot_status").as_str().unwrap_or("administrator");
        match status {
            "member" if self.is_channel() => {
                Err(ApiError::bad("need administrator rights in the channel chat"))
            }
            "restricted" => Err(ApiError::bad(format!("not enough rights to send {media} to the chat"))),
            _ => Ok(()),
        }
    }

    /// Refuses whatever needs the bot to be in the chat.
    pub(super) fn check_access(&self) -> Result<(), ApiError> {
        let kind = self.kind();
        let flag = |name| self.chat.flag(name);
        match self.chat.field("bot_status").as_str() {
            Some("kicked") => {
                return Err(ApiError::forbidden(&format!("bot was kicked from the {kind} chat")));
            }
            Some("left") => {
                return Err(ApiError::forbidden(&format!("bot is not a member of the {kind} chat")));
            }
            _ => {}
        }
        if flag("blocked") {
            return Err(ApiError::forbidden("bot was blocked by the user"));
        }
        if flag("deactivated") {
            return Err(ApiError::forbidden("user is deactivated"));
        }
        if flag("not_started") {
            return Err(ApiError::forbidden("bot can't initiate conversation with a user"));
        }
        Ok(())
    }

    /// The topic of a message: `None` outside of forums, where the argument is ignored.
    pub(super) fn topic(&self, args: &Args) -> Result<Option<i64>, ApiError> {
        let id = args.integer("message_thread_id");
        if id == 0 || !self.chat.flag("is_forum") {
            return Ok(None);
        }
        let known = self.chat.field("topics").as_array();
        let exists = known.is_none_or(|topics| topics.iter().any(|topic| topic.as_i64() == Some(id)));
        if id == 1 || !exists {
            return Err(ApiError::bad("message thread not found"));
        }
        Ok(Some(id))
    }
}

/// Finds the chat that `chat_id` or another argument names.
pub(super) fn place(core: &Core, args: &Args, field: &str) -> Result<Place, ApiError> {
    let written = args.text(field);
    if written.trim().is_empty() {
        return Err(ApiError::bad(format!("{field} is empty")));
    }
    find_place(core, written.trim()).ok_or_else(|| ApiError::bad("chat not found"))
}

/// A chat by `@name` or number.
pub(super) fn find_place(core: &Core, written: &str) -> Option<Place> {
    if written.starts_with('@') {
        let chat = core.registry.chat_by_username(Name::Telegram, written)?;
        return chat.id.parse().ok().map(|id| Place { id, chat });
    }
    let id: i64 = written.parse().ok()?;
    if let Some(chat) = core.registry.chat(Name::Telegram, &id.to_string()) {
        return Some(Place { id, chat });
    }
    (core.registry.any_token() && id != 0).then(|| Place { id, chat: Arc::new(invented_chat(id)) })
}

fn invented_chat(id: i64) -> Chat {
    let kind = kind_of_id(id);
    let mut chat = Chat::blank(Name::Telegram, &id.to_string(), kind);
    chat.title = match kind {
        "private" => format!("User {id}"),
        "group" => format!("Group {}", -id),
        _ => format!("Channel {}", CHANNEL_BASE - id),
    };
    chat
}

fn kind_of_id(id: i64) -> &'static str {
    match id {
        1.. => "private",
        _ if id < CHANNEL_BASE => "channel",
        _ => "group",
    }
}

/// Fills in what a registration left out.
pub(super) fn complete_chat(mut chat: Chat) -> Result<Chat, Refusal> {
    let id: i64 = chat
        .id
        .parse()
        .map_err(|_| Refusal::bad(format!("a Telegram chat id is a number, not {:?}", chat.id)))?;
    if chat.kind.is_empty() {
        kind_of_id(id).clone_into(&mut chat.kind);
    }
    const KINDS: [&str; 4] = ["private", "group", "supergroup", "channel"];
    if !KINDS.contains(&chat.kind.as_str()) {
        return Err(Refusal::bad(format!("unknown chat type {:?}", chat.kind)).knowing(KINDS));
    }
    let fits = match chat.kind.as_str() {
        "private" => id > 0,
        "group" => id < 0 && id > CHANNEL_BASE,
        _ => id < CHANNEL_BASE,
    };
    if !fits {
        let kind = &chat.kind;
        return Err(Refusal::bad(format!(
            "chat id {id} cannot be a {kind}: private ids are positive, groups are negative, supergroups and channels are below {CHANNEL_BASE}"
        )));
    }
    if chat.title.is_empty() {
        let given = chat.fields.get("first_name").and_then(Value::as_str).map(str::to_owned);
        chat.title = given.unwrap_or_else(|| invented_chat(id).title);
    }
    check_status(&chat)?;
    Ok(chat)
}

fn check_status(chat: &Chat) -> Result<(), Refusal> {
    const STATUSES: [&str; 5] = ["administrator", "member", "restricted", "left", "kicked"];
    match chat.field("bot_status") {
        Value::Null => Ok(()),
        Value::String(status) if STATUSES.contains(&status.as_str()) => Ok(()),
        other => Err(Refusal::bad(format!("unknown bot_status {other}")).knowing(STATUSES)),
    }
}

/// The id behind `@name`, a string or a number, as faults compare it.
pub(super) fn canonical_chat(core: &Core, chat: &Value) -> Value {
    let written = chat_key(chat);
    find_place(core, &written).map_or_else(|| crate::platform::chat_value(&written), |place| place.id.into())
}

/// `getChatMember` and one entry of `getChatAdministrators`.
pub(super) fn member(place: &Place, user: &Value, is_own: bool) -> Value {
    let own_status = place.chat.field("bot_status").as_str().unwrap_or("administrator");
    let status = if is_own && !place.is_private() { own_status } else { "member" };
    let mut member = match status {
        "administrator" => administrator(place),
        "restricted" => {
            let mut restricted = permissions(false);
            restricted["is_member"] = true.into();
            restricted["until_date"] = 0.into();
            restricted
        }
        "kicked" => json!({ "until_date": 0 }),
        _ => json!({}),
    };
    member["status"] = status.into();
    member["user"] = user.clone();
    member
}

fn administrator(place: &Place) -> Value {
    let mut rights = json!({ "can_be_edited": false, "is_anonymous": false });
    for right in [
        "can_manage_chat",
        "can_delete_messages",
        "can_manage_video_chats",
        "can_restrict_members",
        "can_promote_members",
        "can_change_info",
        "can_invite_users",
        "can_post_stories",
        "can_edit_stories",
        "can_delete_stories",
        "can_send_welcome_messages",
    ] {
        rights[right] = true.into();
    }
    let extra: &[&str] = if place.is_channel() {
        &["can_post_messages", "can_edit_messages", "can_manage_direct_messages"]
    } else {
        &["can_pin_messages", "can_manage_topics"]
    };
    for right in extra {
        rights[*right] = true.into();
    }
    rights
}

/// `ChatPermissions`, all alike.
pub(super) fn permissions(allowed: bool) -> Value {
    let names = [
        "can_send_messages",
        "can_send_audios",
        "can_send_documents",
        "can_send_photos",
        "can_send_videos",
        "can_send_video_notes",
        "can_send_voice_notes",
        "can_send_polls",
        "can_send_other_messages",
        "can_add_web_page_previews",
        "can_react_to_messages",
        "can_edit_tag",
        "can_change_info",
        "can_invite_users",
        "can_pin_messages",
        "can_manage_topics",
    ];
    names.iter().map(|name| ((*name).to_owned(), Value::from(allowed))).collect::<Map<String, Value>>().into()
}
