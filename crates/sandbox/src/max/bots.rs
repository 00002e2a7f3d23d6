//! What the server keeps for one bot: its profile, the updates that wait for it, its webhooks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::Visitor;
use super::errors::ApiError;
use super::markup::units;
use super::people::User;
use super::webhooks::Subscription;
use crate::updates::UpdateQueue;

/// One bot.
#[derive(Debug)]
pub struct Bot {
    pub id: i64,
    pub queue: UpdateQueue,
    profile: Mutex<Profile>,
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
}

/// What the bot changed about itself.
#[derive(Clone, Debug, Default)]
struct Profile {
    name: Option<String>,
    description: Option<String>,
    commands: Option<Vec<Value>>,
}

impl Bot {
    /// Markers go on from `now_ms`, so a marker that a client kept from an earlier sandbox is never ahead.
    pub fn new(id: i64, now_ms: i64) -> Bot {
        Bot {
            id,
            queue: UpdateQueue::new(now_ms.max(1)),
            profile: Mutex::default(),
            subscriptions: Mutex::default(),
        }
    }

    pub fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        self.hooks().clone()
    }

    /// Adds a subscription, or replaces the one with the same address.
    pub fn subscribe(&self, subscription: Arc<Subscription>) {
        let mut hooks = self.hooks();
        hooks.retain(|own| own.url != subscription.url);
        hooks.push(subscription);
    }

    /// Removes the subscription of an address; false if there is none.
    pub fn unsubscribe(&self, url: &str) -> bool {
        let mut hooks = self.hooks();
        let before = hooks.len();
        hooks.retain(|own| own.url != url);
        let removed = hooks.len() < before;
        drop(hooks);
        if removed {
            self.queue.wake();
        }
        removed
    }

    pub fn reset(&self) {
        self.queue.clear();
        self.hooks().clear();
        *self.profile() = Profile::default();
    }

    fn hooks(&self) -> MutexGuard<'_, Vec<Arc<Subscription>>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn profile(&self) -> MutexGuard<'_, Profile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bot as others see it.
pub(super) fn user(visitor: &Visitor<'_>) -> User {
    let mut user = User::of_account(visitor.account);
    if let Some(name) = visitor.bot.profile().name.clone() {
        user.first_name = name;
    }
    user
}

/// `GET /me`.
pub(super) fn me(visitor: &Visitor<'_>) -> Value {
    let profile = visitor.bot.profile().clone();
    let mut object = user(visitor).json(visitor.now_ms());
    let registered = visitor.account.fields.get("description").and_then(Value::as_str).map(str::to_owned);
    if let Some(description) = profile.description.or(registered) {
        object["description"] = description.into();
    }
    if let Some(commands) = profile.commands.filter(|commands| !commands.is_empty()) {
        object["commands"] = commands.into();
    }
    object
}

/// `PATCH /me`: name, description, commands. A photo is taken and not shown.
pub(super) fn edit_me(visitor: &Visitor<'_>, body: &Value) -> Result<Value, ApiError> {
    let body = body.as_object().ok_or_else(ApiError::body)?;
    let text = |field: &str, least: usize, most: usize| match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if (least..=most).contains(&units(text)) => Ok(Some(text.clone())),
        Some(Value::String(_)) => {
            Err(ApiError::payload(format!("{field}: size must be between {least} and {most}")))
        }
        Some(_) => Err(ApiError::body()),
    };
    let name = text("first_name", 1, 59)?.or(text("name", 1, 59)?);
    let description = text("description", 1, 16_000)?;
    let commands = match body.get("commands") {
        None | Some(Value::Null) => None,
        Some(list) => Some(checked_commands(list)?),
    };
    let mut profile = visitor.bot.profile();
    profile.name = name.or(profile.name.take());
    profile.description = description.or(profile.description.take());
    profile.commands = commands.or(profile.commands.take());
    drop(profile);
    Ok(me(visitor))
}

/// `PATCH /me/commands`.
pub(super) fn set_commands(visitor: &Visitor<'_>, body: &Value) -> Result<Value, ApiError> {
    let commands = checked_commands(&body["commands"])?;
    visitor.bot.profile().commands = Some(commands.clone());
    Ok(json!({ "commands": commands }))
}

fn checked_commands(list: &Value) -> Result<Vec<Value>, ApiError> {
    let list = list.as_array().ok_or_else(ApiError::body)?;
    if list.len() > 32 {
        return Err(ApiError::payload("commands: size must be between 0 and 32"));
    }
    list.iter().enumerate().map(|(at, command)| checked_command(command, at)).collect()
}

fn checked_command(command: &Value, at: usize) -> Result<Value, ApiError> {
    let name = command["name"].as_str().ok_or_else(ApiError::body)?;
    if !(1..=64).contains(&units(name)) {
        return Err(ApiError::payload(format!("commands[{at}].name: size must be between 1 and 64")));
    }
    let mut kept = json!({ "name": name });
    match &command["description"] {
        Value::Null => {}
        Value::String(text) if (1..=128).contains(&units(text)) => kept["description"] = text.as_str().into(),
        Value::String(_) => {
            let message = format!("commands[{at}].description: size must be between 1 and 128");
            return Err(ApiError::payload(message));
        }
        _ => return Err(ApiError::body()),
    }
    Ok(kept)
}
