//! What the server remembers of each bot: its updates, its webhook, its commands, the buttons pressed on it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::args::Args;
use super::errors::ApiError;
use super::methods::{Done, Visitor};
use crate::platform::Name;
use crate::updates::UpdateQueue;

pub(super) const QUERY_TOO_OLD: &str = "query is too old and response timeout expired or query ID is invalid";
/// A pressed button waits this long for its answer.
const CALLBACK_MS_MAX: i64 = 150_000;
const CALLBACKS_MAX: usize = 10_000;

/// Where updates are pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Webhook {
    pub url: String,
    pub secret: String,
    pub max_connections: usize,
}

/// One bot.
#[derive(Debug)]
pub(super) struct Bot {
    pub id: i64,
    pub queue: UpdateQueue,
    settings: Mutex<Settings>,
    /// Counts the pollers: only the latest may wait.
    polls: AtomicU64,
    albums: AtomicU64,
}

#[derive(Debug, Default)]
struct Settings {
    webhook: Option<Webhook>,
    /// Counts the changes of the webhook: a delivery loop of an older one ends.
    webhook_version: u64,
    last_error: Option<(i64, String)>,
    /// `None` is the default set.
    allowed: Option<Vec<String>>,
    commands: Option<Value>,
    callbacks: VecDeque<(String, i64, String)>,
}

impl Bot {
    pub(super) fn new(id: i64) -> Bot {
        // Update numbers start anywhere on the real server; clients must not count on one.
        let first = 100_000_000 + id.rem_euclid(1000) * 100_000;
        Bot {
            id,
            queue: UpdateQueue::new(first),
            settings: Mutex::default(),
            polls: AtomicU64::new(0),
            albums: AtomicU64::new(0),
        }
    }

    /// A number that all items of an album share.
    pub(super) fn next_album(&self) -> String {
        let count = self.albums.fetch_add(1, Ordering::SeqCst) + 1;
        let own = self.id.rem_euclid(100_000) as u64;
        (13_900_000_000_000_000 + own * 1_000_000_000 + count).to_string()
    }

    // -- polling

    /// Begins a poll and ends the one before.
    pub(super) fn begin_poll(&self) -> u64 {
        let number = self.polls.fetch_add(1, Ordering::SeqCst) + 1;
        self.queue.wake();
        number
    }

    pub(super) fn is_latest_poll(&self, number: u64) -> bool {
        self.polls.load(Ordering::SeqCst) == number
    }

    /// Remembers the kinds of updates the bot wants; an empty list or unknown names mean the default.
    pub(super) fn allow(&self, kinds: Option<Value>) {
        let Some(Value::Array(kinds)) = kinds else { return };
        let names: Vec<String> = kinds.iter().filter_map(Value::as_str).map(str::to_lowercase).collect();
        let known = names.iter().all(|name| super::inject::KINDS.contains(&name.as_str()));
        self.settings().allowed = (known && !names.is_empty()).then_some(names);
    }

    pub(super) fn wants(&self, kind: &str) -> bool {
        match &self.settings().allowed {
            Some(allowed) => allowed.iter().any(|name| name == kind),
            None => !matches!(kind, "chat_member" | "message_reaction" | "message_reaction_count"),
        }
    }

    // -- webhook

    pub(super) fn webhook(&self) -> (Option<Webhook>, u64) {
        let settings = self.settings();
        (settings.webhook.clone(), settings.webhook_version)
    }

    /// Sets or removes the webhook and returns its version, or nothing if it was so already.
    pub(super) fn set_webhook(&self, webhook: Option<Webhook>) -> Option<u64> {
        let mut settings = self.settings();
        if settings.webhook == webhook {
            return None;
        }
        settings.webhook = webhook;
        settings.webhook_version += 1;
        settings.last_error = None;
        let version = settings.webhook_version;
        drop(settings);
        self.queue.wake();
        Some(version)
    }

    pub(super) fn note_webhook_error(&self, at_s: i64, message: String) {
        self.settings().last_error = Some((at_s, message));
    }

    /// `getWebhookInfo`.
    pub(super) fn webhook_info(&self) -> Value {
        let settings = self.settings();
        let mut info = json!({
            "url": settings.webhook.as_ref().map_or("", |webhook| webhook.url.as_str()),
            "has_custom_certificate": false,
            "pending_update_count": self.queue.len(),
        });
        if let Some(webhook) = &settings.webhook {
            info["max_connections"] = webhook.max_connections.into();
            info["ip_address"] = "127.0.0.1".into();
        }
        if let Some((at_s, message)) = &settings.last_error {
            info["last_error_date"] = (*at_s).into();
            info["last_error_message"] = message.as_str().into();
        }
        if let Some(allowed) = &settings.allowed {
            info["allowed_updates"] = json!(allowed);
        }
        info
    }

    // -- callback queries

    /// Remembers that a button was pressed and waits for an answer.
    pub(super) fn add_callback(&self, id: &str, at_ms: i64, chat: &str) {
        let mut settings = self.settings();
        if settings.callbacks.len() >= CALLBACKS_MAX {
            settings.callbacks.pop_front();
        }
        settings.callbacks.push_back((id.to_owned(), at_ms, chat.to_owned()));
    }

    /// `answerCallbackQuery`: once, and in time.
    pub(super) fn answer_callback(&self, visitor: &Visitor<'_>) -> Result<Done, ApiError> {
        let id = visitor.args.text("callback_query_id");
        let text = visitor.args.text("text");
        if text.chars().count() > 200 {
            return Err(ApiError::bad("MESSAGE_TOO_LONG"));
        }
        let mut settings = self.settings();
        let found = settings.callbacks.iter().position(|(own, _, _)| *own == id);
        let Some((_, at_ms, chat)) = found.and_then(|index| settings.callbacks.remove(index)) else {
            return Err(ApiError::bad(QUERY_TOO_OLD));
        };
        drop(settings);
        if visitor.core.clock.now_ms() - at_ms > CALLBACK_MS_MAX {
            return Err(ApiError::bad(QUERY_TOO_OLD));
        }
        if !text.is_empty() {
            visitor.core.chats.notice(Name::Telegram, &chat, &text);
        }
        Ok(Done::new(true.into()))
    }

    // -- commands

    pub(super) fn set_commands(&self, args: &Args) -> Result<Value, ApiError> {
        let Some(Ok(Value::Array(commands))) = args.json("commands") else {
            return Err(ApiError::bad("can't parse commands JSON object"));
        };
        let valid = |command: &Value| {
            let name = command["command"].as_str().unwrap_or_default().trim_start_matches('/');
            let described =
                command["description"].as_str().is_some_and(|text| (1..=256).contains(&text.chars().count()));
            let fits = (1..=32).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            fits && described
        };
        if !commands.iter().all(valid) {
            return Err(ApiError::bad("BOT_COMMAND_INVALID"));
        }
        self.settings().commands = Some(commands.into());
        Ok(true.into())
    }

    pub(super) fn commands(&self) -> Value {
        self.settings().commands.clone().unwrap_or_else(|| json!([]))
    }

    pub(super) fn clear_commands(&self) -> Value {
        self.settings().commands = None;
        true.into()
    }

    /// Forgets updates and pressed buttons; webhook and commands stay.
    pub(super) fn reset(&self) {
        self.queue.clear();
        self.settings().callbacks.clear();
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
