//! What every endpoint gets: who asks, with which parameters, and how fast.

use std::sync::Arc;

use serde_json::Value;

use super::Max;
use super::bots::Bot;
use super::errors::ApiError;
use super::options::Options;
use super::places::Place;
use super::routes::Endpoint;
use crate::core::Core;
use crate::limits::{LimitsMode, Window};
use crate::registry::Account;
use crate::reply::Effect;

/// A body and what it did.
#[derive(Debug)]
pub(super) struct Done {
    pub body: Value,
    pub effect: Effect,
}

impl Done {
    pub(super) fn new(body: Value) -> Done {
        Done { body, effect: Effect::done() }
    }

    pub(super) fn visible(body: Value, mid: &Value) -> Done {
        Done { body, effect: Effect::visible(mid.clone()) }
    }
}

/// What every endpoint gets: who asks, and the parameters.
#[derive(Debug)]
pub(super) struct Visitor<'a> {
    pub max: &'a Max,
    pub account: &'a Arc<Account>,
    pub bot: Arc<Bot>,
    /// The bot's number.
    pub id: i64,
    /// The scheme and host under which the client knows the sandbox.
    pub origin: String,
    pub query: &'a [(String, String)],
}

impl<'a> Visitor<'a> {
    pub(super) fn core(&self) -> &'a Core {
        &self.max.core
    }

    pub(super) fn options(&self) -> Options<'a> {
        Options::of(self.account)
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.max.core.clock.now_ms()
    }

    // -- parameters; an empty value counts as absent

    pub(super) fn text(&self, name: &str) -> Option<String> {
        let found = self.query.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    }

    pub(super) fn required(&self, name: &str) -> Result<String, ApiError> {
        self.text(name).ok_or_else(|| ApiError::payload(format!("`{name}` must be specified")))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let parsed = self.text(name).map(|value| value.parse()).transpose();
        parsed.map_err(|_| ApiError::payload(format!("{name}: must be a number")))
    }

    pub(super) fn ranged(&self, name: &str, default: i64, least: i64, most: i64) -> Result<i64, ApiError> {
        let value = self.number(name)?.unwrap_or(default);
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(ApiError::payload(format!("{name}: must be between {least} and {most}")))
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    }

    /// A list: separated by commas, the parameter repeated, or both.
    pub(super) fn words(&self, name: &str) -> Vec<String> {
        let own = self.query.iter().filter(|(key, _)| key == name || key.strip_suffix("[]") == Some(name));
        own.flat_map(|(_, value)| value.split(','))
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect()
    }

    // -- chats

    /// A chat that exists.
    pub(super) fn place(&self, id: i64) -> Result<Place, ApiError> {
        self.max.place(id, self.id).ok_or_else(|| ApiError::chat_not_found(&id.to_string()))
    }

    /// A chat that exists and that the bot is in.
    pub(super) fn entered(&self, id: i64) -> Result<Place, ApiError> {
        let place = self.place(id)?;
        self.max.rooms.check_entry(&place, self.id)?;
        Ok(place)
    }

    /// The dialog with a user who has opened the bot.
    pub(super) fn dialog_with(&self, user: i64) -> Result<Place, ApiError> {
        let unknown = || match self.options().unknown_user_is_denied() {
            true => ApiError::chat_denied(format!("User {user} has not opened the bot")),
            false => ApiError::chat_not_found(&format!("with user {user}")),
        };
        if user <= 0 || user == self.id {
            return Err(unknown());
        }
        self.place(self.max.dialog_of(self.id, user)).map_err(|_| unknown())
    }

    pub(super) fn retired(&self) -> Result<(), ApiError> {
        match self.options().retired_methods() {
            true => Ok(()),
            false => Err(ApiError::not_found("Method was removed")),
        }
    }

    // -- limits

    /// 30 requests of any kind a second.
    pub(super) fn check_overall_speed(&self, endpoint: Endpoint) -> Result<(), ApiError> {
        if self.core().limits.mode() == LimitsMode::Off {
            return Ok(());
        }
        let mut windows = vec![Window::new(format!("max bot {}", self.id), 30, 1000)];
        if endpoint == Endpoint::Updates && self.options().updates_limit() {
            windows.push(Window::new(format!("max bot {} updates", self.id), 2, 1000));
        }
        self.take(&windows)
    }

    /// Two of a kind a second into one chat.
    pub(super) fn check_speed(&self, kind: &str, chat: i64) -> Result<(), ApiError> {
        if self.core().limits.mode() == LimitsMode::Off {
            return Ok(());
        }
        self.take(&[Window::new(format!("max bot {} {kind} {chat}", self.id), 2, 1000)])
    }

    fn take(&self, windows: &[Window]) -> Result<(), ApiError> {
        let taken = self.core().limits.take(windows, self.now_ms());
        taken.map_err(|wait_ms| {
            let seconds = ((wait_ms + 999) / 1000).to_string();
            ApiError::flood(Some(seconds).filter(|_| self.options().retry_after()))
        })
    }
}
