//! The parameters of a method call, read as VK reads them: everything is text, an empty value is none,
//! lists are joined by commas, and what cannot be read is error 100 with the name of the parameter.

use serde_json::Value;

use super::errors::ApiError;

/// Parameters of one call; of a name given twice the last counts.
#[derive(Clone, Debug, Default)]
pub struct Args {
    pub texts: Vec<(String, String)>,
}

/// The `v` of a call: answers differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    /// From here on `groups.getById` and `wall.getById` answer with objects instead of bare arrays.
    pub const OBJECTS: Version = Version(5, 139);
    /// From here on `random_id` is required.
    pub const RANDOM_ID: Version = Version(5, 90);
    /// From here on `message_new` wraps the message.
    pub const WRAPPED_MESSAGE: Version = Version(5, 103);
    /// What the emulator speaks when nobody says otherwise.
    pub const NEWEST: &str = "5.199";

    pub fn parse(text: &str) -> Option<Version> {
        let (major, minor) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        let version = Version(major.parse().ok()?, minor.parse().ok()?);
        (version >= Version(5, 0) && version < Version(6, 0)).then_some(version)
    }
}

impl Args {
    /// A value that is there and not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.texts.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub fn required_text(&self, name: &str) -> Result<&str, ApiError> {
        self.text(name).ok_or_else(|| missing(name))
    }

    /// Present at all, even if empty: `attachments=` takes them away.
    pub fn is_given(&self, name: &str) -> bool {
        self.texts.iter().any(|(key, _)| key == name)
    }

    pub fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match number(text) {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::parameter(format!("{name} not integer"))),
        }
    }

    pub fn required_integer(&self, name: &str) -> Result<i64, ApiError> {
        self.integer(name)?.ok_or_else(|| missing(name))
    }

    /// A whole number within bounds, or its default.
    pub fn bounded(&self, name: &str, default: i64, least: i64, most: i64) -> Result<i64, ApiError> {
        let number = self.integer(name)?.unwrap_or(default);
        if number < least {
            return Err(ApiError::parameter(format!("{name} should be greater or equal to {least}")));
        }
        if number > most {
            return Err(ApiError::parameter(format!("{name} should be less or equal to {most}")));
        }
        Ok(number)
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.text(name), Some("1" | "true" | "True"))
    }

    /// The non-empty parts between commas.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect()
    }

    pub fn integers(&self, name: &str) -> Result<Vec<i64>, ApiError> {
        let parts = self.list(name).into_iter().map(number);
        parts.collect::<Option<_>>().ok_or_else(|| {
            ApiError::parameter(format!("{name} should be a list of comma-separated integers"))
        })
    }

    /// A parameter that holds JSON; `Some(None)` is JSON that cannot be read.
    pub fn json(&self, name: &str) -> Option<Option<Value>> {
        self.text(name).map(|text| serde_json::from_str(text).ok())
    }

    pub fn set(&mut self, name: &str, value: String) {
        self.texts.push((name.to_owned(), value));
    }
}

/// A whole number, small enough that negating and adding cannot go wrong.
pub(super) fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok().filter(|number: &i64| number.unsigned_abs() <= NUMBER_MAX)
}

const NUMBER_MAX: u64 = 1_000_000_000_000_000_000;

pub(super) fn missing(name: &str) -> ApiError {
    ApiError::parameter(format!("{name} is undefined"))
}
