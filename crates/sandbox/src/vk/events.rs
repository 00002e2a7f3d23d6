//! What happened in a community, told to whoever listens: the Bots Long Poll and the callback servers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::core::SharedCore;
use crate::faults::{Kind, Phase};
use crate::platform::{Name, Target};

use super::args::Version;
use super::dialogs::{self, Key};
use super::state::State;

/// Every event type; a subscription switches each on or off.
pub(super) const TYPES: &[&str] = &[
    "message_new",
    "message_reply",
    "message_allow",
    "message_deny",
    "message_edit",
    "message_typing_state",
    "message_event",
    "message_read",
    "message_reaction_event",
    "photo_new",
    "photo_comment_new",
    "photo_comment_edit",
    "photo_comment_restore",
    "photo_comment_delete",
    "audio_new",
    "video_new",
    "video_comment_new",
    "video_comment_edit",
    "video_comment_restore",
    "video_comment_delete",
    "wall_post_new",
    "wall_repost",
    "wall_reply_new",
    "wall_reply_edit",
    "wall_reply_restore",
    "wall_reply_delete",
    "wall_schedule_post_new",
    "wall_schedule_post_delete",
    "board_post_new",
    "board_post_edit",
    "board_post_restore",
    "board_post_delete",
    "market_comment_new",
    "market_comment_edit",
    "market_comment_restore",
    "market_comment_delete",
    "market_order_new",
    "market_order_edit",
    "group_join",
    "group_leave",
    "user_block",
    "user_unblock",
    "poll_vote_new",
    "group_officers_edit",
    "group_change_settings",
    "group_change_photo",
    "lead_forms_new",
    "like_add",
    "like_remove",
    "vkpay_transaction",
    "app_payload",
    "donut_subscription_create",
    "donut_subscription_prolonged",
    "donut_subscription_expired",
    "donut_subscription_cancelled",
    "donut_subscription_price_changed",
    "donut_money_withdraw",
    "donut_money_withdraw_error",
];

/// Which events a listener wants, and in which version. Everything is on until somebody switches it off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub enabled: bool,
    pub api_version: String,
    pub off: BTreeSet<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { enabled: true, api_version: Version::NEWEST.to_owned(), off: BTreeSet::new() }
    }
}

impl Settings {
    pub fn wants(&self, kind: &str) -> bool {
        self.enabled && !self.off.contains(kind)
    }

    /// `{"message_new": 1, …}`
    pub fn flags(&self) -> Value {
        let flag = |kind: &&str| ((*kind).to_owned(), Value::from(i64::from(!self.off.contains(*kind))));
        Value::Object(TYPES.iter().map(flag).collect())
    }

    fn version(&self) -> Version {
        Version::parse(&self.api_version).unwrap_or(Version(5, 199))
    }
}

/// An event before it is worded for a listener.
#[derive(Clone, Debug)]
pub struct Event {
    pub group: i64,
    pub kind: String,
    pub event_id: String,
    pub object: Value,
    pub fault: Option<Kind>,
}

impl Event {
    /// The event as a listener with these settings gets it.
    pub fn worded(&self, settings: &Settings) -> Value {
        let bare = self.kind == "message_new" && settings.version() < Version::WRAPPED_MESSAGE;
        let object = if bare { &self.object["message"] } else { &self.object };
        json!({
            "group_id": self.group,
            "type": self.kind,
            "event_id": self.event_id,
            "v": settings.api_version,
            "object": object,
        })
    }

    pub fn copies(&self) -> usize {
        if self.fault == Some(Kind::DuplicateUpdate) { 2 } else { 1 }
    }
}

/// Sends an event to everybody who listens to the community, and gives its id back.
pub(super) fn emit(core: &SharedCore, state: &mut State, group: i64, kind: &str, object: Value) -> String {
    let number = state.next_number();
    let name = format!("event {group} {number} {}", core.clock.now_ms());
    let mut event_id = crate::media::sha256_hex(name.as_bytes());
    event_id.truncate(40);
    emit_as(core, state, group, kind, object, event_id)
}

/// The same with an id that was chosen elsewhere.
pub(super) fn emit_as(
    core: &SharedCore,
    state: &mut State,
    group: i64,
    kind: &str,
    object: Value,
    event_id: String,
) -> String {
    let fault = strike(core, group, kind, &object);
    let event = Event { group, kind: kind.to_owned(), event_id: event_id.clone(), object, fault };
    // Whoever listens has made the community known by asking for a server.
    let Some(group) = state.groups.get_mut(&group) else { return event_id };
    if group.longpoll.is_open() && group.settings.wants(kind) {
        group.longpoll.queue.push(event.copies(), |_| event.worded(&group.settings));
    }
    group.servers.deliver(&event);
    event_id
}

/// Whether something is to go wrong with this event.
fn strike(core: &SharedCore, group: i64, kind: &str, object: &Value) -> Option<Kind> {
    if core.faults.list().is_empty() {
        return None;
    }
    let peer = [&object["message"]["peer_id"], &object["peer_id"], &object["owner_id"]];
    let chat = peer.into_iter().find(|peer| !peer.is_null()).cloned().unwrap_or_else(|| Value::from(-group));
    let id = group.to_string();
    let account =
        core.registry.named_accounts(Name::Vk, Some(&id)).first().map(|account| account.token.clone());
    let target = Target { account, account_id: Some(id), method: kind.to_owned(), chat, text: None };
    core.faults.strike(Name::Vk, &target, Phase::Update).map(|fault| fault.kind)
}

/// What happened to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    New,
    Edited,
}

/// Tells the communities that take part in a dialog about a message in it.
pub(super) fn message(core: &SharedCore, state: &mut State, key: Key, said: &dialogs::Said, what: Said) {
    let mut groups: Vec<i64> = match key {
        Key::Pair(a, b) => [a, b].into_iter().filter(|id| *id < 0).map(|id| -id).collect(),
        Key::Chat(_) => {
            let members = state.dialogs.by_key.get(&key).map(|dialog| dialog.members.clone());
            members.unwrap_or_default().into_iter().filter(|id| *id < 0).map(|id| -id).collect()
        }
    };
    // In a chat of many a community hears people, and itself, but no other community.
    if said.from_id < 0 {
        groups.retain(|group| -group == said.from_id);
    }
    for group in groups {
        let object = dialogs::object(-group, key, said);
        let own = said.from_id == -group;
        match what {
            Said::Edited => emit(core, state, group, "message_edit", object),
            Said::New if own => emit(core, state, group, "message_reply", object),
            Said::New => emit(core, state, group, "message_new", wrapped(&object)),
        };
    }
}

/// The object of `message_new`.
pub(super) fn wrapped(message: &Value) -> Value {
    json!({
        "message": message,
        "client_info": {
            "button_actions": ["text", "vkpay", "open_app", "location", "open_link", "open_photo", "callback",
                "intent_subscribe", "intent_unsubscribe"],
            "keyboard": true,
            "inline_keyboard": true,
            "carousel": true,
            "lang_id": 0,
        },
    })
}
