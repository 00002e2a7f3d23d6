//! Users and bots: who they are and what MAX says of them.
//! Whoever is not known by name gets a made-up one that depends on the number alone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::markup::Names;
use crate::registry::Account;
use crate::reply::Refusal;

/// A person, or a bot as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: i64,
    pub first_name: String,
    pub last_name: Option<String>,
    pub username: Option<String>,
    pub is_bot: bool,
}

const FIRST_NAMES: &[&str] =
    &["Анна", "Борис", "Вера", "Глеб", "Дарья", "Егор", "Жанна", "Захар", "Инна", "Кирилл", "Лада", "Марк"];

impl User {
    /// Somebody of whom only the number is known.
    pub fn made_up(id: i64) -> User {
        let name = FIRST_NAMES[(id.unsigned_abs() % FIRST_NAMES.len() as u64) as usize];
        User { id, first_name: name.to_owned(), last_name: None, username: None, is_bot: false }
    }

    pub fn of_account(account: &Account) -> User {
        User {
            id: account.id.parse().unwrap_or_default(),
            first_name: account.name.clone(),
            last_name: None,
            username: Some(account.username.clone()).filter(|name| !name.is_empty()),
            is_bot: true,
        }
    }

    pub fn full_name(&self) -> String {
        match &self.last_name {
            Some(last_name) => format!("{} {last_name}", self.first_name),
            None => self.first_name.clone(),
        }
    }

    /// The object of the API. `name` is deprecated and still sent, and libraries still need it.
    pub fn json(&self, now_ms: i64) -> Value {
        let mut object = json!({
            "user_id": self.id,
            "first_name": self.first_name,
            "is_bot": self.is_bot,
            "last_activity_time": now_ms,
            "name": self.full_name(),
        });
        if let Some(last_name) = &self.last_name {
            object["last_name"] = last_name.as_str().into();
        }
        if let Some(username) = &self.username {
            object["username"] = username.as_str().into();
        }
        object
    }

    /// Reads a person out of a control call: a number, a name, or an object of the API.
    /// `fallback` is the number of somebody who is given by name alone.
    pub fn parse(value: &Value, fallback: i64) -> Result<User, Refusal> {
        match value {
            Value::Null => Ok(User::made_up(fallback)),
            Value::Number(number) => {
                let id = number.as_i64().filter(|id| *id > 0);
                id.map(User::made_up).ok_or_else(|| Refusal::bad(format!("{number} is no user id")))
            }
            Value::String(text) => match text.parse::<i64>() {
                Ok(id) if id > 0 => Ok(User::made_up(id)),
                _ if text.trim().is_empty() => Ok(User::made_up(fallback)),
                _ => Ok(User::named(text.trim(), fallback)),
            },
            Value::Object(object) => User::of_object(object, fallback),
            other => Err(Refusal::bad(format!("a user is a number, a name or an object, not {other}"))),
        }
    }

    fn named(name: &str, id: i64) -> User {
        let (first_name, last_name) = match name.split_once(' ') {
            Some((first, last)) => (first.to_owned(), Some(last.trim().to_owned())),
            None => (name.trim_start_matches('@').to_owned(), None),
        };
        let username = name.strip_prefix('@').map(str::to_owned);
        User { id, first_name, last_name, username, is_bot: false }
    }

    fn of_object(object: &Map<String, Value>, fallback: i64) -> Result<User, Refusal> {
        let id = match object.get("user_id") {
            None | Some(Value::Null) => fallback,
            Some(value) => value.as_i64().ok_or_else(|| Refusal::bad(format!("{value} is no user id")))?,
        };
        let text = |field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
        let mut user = match text("name") {
            Some(name) => User::named(&name, id),
            None => User::made_up(id),
        };
        if let Some(first_name) = text("first_name") {
            user.first_name = first_name;
            user.last_name = None;
        }
        user.last_name = text("last_name").or(user.last_name);
        user.username = text("username").or(user.username);
        user.is_bot = object.get("is_bot").and_then(Value::as_bool).unwrap_or(false);
        Ok(user)
    }

    /// Whether it says more than a number.
    fn has_name(&self) -> bool {
        *self != User::made_up(self.id)
    }
}

/// Everybody who was ever named.
#[derive(Debug, Default)]
pub(super) struct People {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<i64, User>,
    by_username: HashMap<String, i64>,
}

/// Beyond this everybody is forgotten: names are decoration.
const PEOPLE_MAX: usize = 200_000;

impl People {
    /// Remembers a name; somebody without one keeps the earlier.
    pub(super) fn meet(&self, user: &User) {
        if !user.has_name() {
            return;
        }
        let mut known = self.known();
        if known.by_id.len() >= PEOPLE_MAX {
            *known = Known::default();
        }
        if let Some(username) = &user.username {
            known.by_username.insert(username.to_lowercase(), user.id);
        }
        known.by_id.insert(user.id, user.clone());
    }

    pub(super) fn get(&self, id: i64) -> User {
        self.known().by_id.get(&id).cloned().unwrap_or_else(|| User::made_up(id))
    }

    pub(super) fn by_username(&self, username: &str) -> Option<i64> {
        self.known().by_username.get(&username.to_lowercase()).copied()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names for People {
    fn name_of(&self, id: i64) -> Option<String> {
        self.known().by_id.get(&id).map(User::full_name)
    }

    fn id_of(&self, username: &str) -> Option<i64> {
        self.by_username(username)
    }
}
