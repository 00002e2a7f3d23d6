//! Updates on their way to bots: into the queue of a polling bot, or out to its webhooks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::bots::Bot;
use super::errors::ApiError;
use super::{Done, Max, Visitor};
use crate::faults::Kind;
use crate::platform::{Name, Target};
use crate::registry::Account;

/// Every kind of update.
pub(super) const TYPES: &[&str] = &[
    "message_created",
    "message_callback",
    "message_edited",
    "message_removed",
    "bot_started",
    "bot_stopped",
    "bot_added",
    "bot_removed",
    "user_added",
    "user_removed",
    "chat_title_changed",
    "dialog_muted",
    "dialog_unmuted",
    "dialog_cleared",
    "dialog_removed",
    "comment_created",
    "comment_edited",
    "comment_removed",
    "bot_admin_permissions_changed",
    "message_chat_created",
    "message_construction_request",
    "message_constructed",
];

/// Does not come by polling.
const WEBHOOK_ONLY: &[&str] = &["bot_admin_permissions_changed"];

/// Come from groups and channels only to administrators that may read everything.
const NEED_READING: &[&str] = &[
    "message_created",
    "message_edited",
    "message_removed",
    "user_added",
    "user_removed",
    "chat_title_changed",
    "comment_created",
    "comment_edited",
    "comment_removed",
];

/// A longer wait is answered after this long. MAX says 30 s; a second less keeps clients alive
/// whose own HTTP timeout is the same 30 s, as that of the official Go client.
const WAIT_S_MAX: i64 = 29;
/// A larger batch is cut to this.
const BATCH_MAX: i64 = 100;
/// Updates are kept for a day.
const KEPT_MS: i64 = 24 * 3600 * 1000;

/// How an update left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Waits under this number.
    Queued(i64),
    /// Goes to so many webhooks.
    Pushed(usize),
    /// Nobody gets it: not in the chat, no right to read, or a type that does not come by polling.
    Withheld,
}

impl Max {
    /// Sends an update to one bot.
    pub fn deliver(&self, account: &Arc<Account>, bot: &Arc<Bot>, update: Value, chat: i64) -> Sent {
        let kind = update["update_type"].as_str().unwrap_or_default();
        let gone = self.rooms.look(chat, |room| room.left.contains(&bot.id));
        if gone && kind != "bot_removed" {
            return Sent::Withheld;
        }
        if NEED_READING.contains(&kind)
            && let Some(place) = self.place(chat, bot.id)
            && !place.is_dialog()
            && !self.rooms.may(&place, bot.id, "read_all_messages")
        {
            return Sent::Withheld;
        }
        let target = Target {
            account: Some(account.token.clone()),
            account_id: Some(account.id.clone()),
            chat: chat.into(),
            ..Target::default()
        };
        let struck = self.core.faults.strike_update(Name::Max, &target, Kind::DuplicateUpdate);
        let copies = if struck.is_some() { 2 } else { 1 };
        let hooks = bot.subscriptions();
        if hooks.is_empty() {
            if WEBHOOK_ONLY.contains(&kind) {
                return Sent::Withheld;
            }
            return Sent::Queued(bot.queue.push(copies, |_| update));
        }
        let wanting: Vec<_> = hooks.iter().filter(|hook| hook.wants(kind)).collect();
        let body = Bytes::from(update.to_string());
        for hook in &wanting {
            (0..copies).for_each(|_| hook.push(chat, body.clone()));
        }
        Sent::Pushed(wanting.len())
    }
}

/// `GET /updates`: waits up to `timeout` seconds for the first update. The marker is the next expected position.
pub(super) async fn poll(visitor: &Visitor<'_>) -> Result<Done, ApiError> {
    let limit = visitor.ranged("limit", 100, 1, 1000)?.min(BATCH_MAX) as usize;
    let wait_s = visitor.ranged("timeout", 30, 0, 90)?.min(WAIT_S_MAX);
    let marker = visitor.number("marker")?;
    let types = visitor.words("types");
    let queue = &visitor.bot.queue;
    if let Some(marker) = marker {
        queue.forget_below(marker);
    }
    let deadline = Instant::now() + Duration::from_secs(wait_s.unsigned_abs());
    loop {
        let mut changed = std::pin::pin!(queue.changed());
        changed.as_mut().enable();
        // Seen before the queue is read: what comes in between is then not skipped by the marker.
        let next = queue.next_number();
        let mut found = match visitor.bot.subscriptions().is_empty() {
            true => read(visitor, marker, limit, &types),
            false => Vec::new(),
        };
        if marker.is_none() && visitor.options().first_poll_is_latest() {
            found = found.split_off(found.len().saturating_sub(1));
        }
        let over = Instant::now() >= deadline;
        if over || !found.is_empty() {
            // What was passed over because of its type is confirmed as well, unless the batch was full.
            let full = found.len() >= limit;
            let after = match found.last() {
                Some((last, _)) if full => last + 1,
                _ => next.max(marker.unwrap_or(0)),
            };
            let updates: Vec<Value> = found.into_iter().map(|(_, update)| update).collect();
            return Ok(Done::new(json!({ "updates": updates, "marker": after })));
        }
        // Woken or not: the queue is looked at once more.
        drop(timeout_at(deadline, changed).await);
    }
}

fn read(visitor: &Visitor<'_>, marker: Option<i64>, limit: usize, types: &[String]) -> Vec<(i64, Value)> {
    let oldest = visitor.now_ms() - KEPT_MS;
    let latest_only = marker.is_none() && visitor.options().first_poll_is_latest();
    let limit = if latest_only { usize::MAX } else { limit };
    visitor.bot.queue.read(marker.unwrap_or(0), limit, |update| {
        let wanted = types.is_empty() || types.iter().any(|kind| update["update_type"] == kind.as_str());
        wanted && update["timestamp"].as_i64().is_none_or(|at| at >= oldest)
    })
}
