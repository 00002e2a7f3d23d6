//! What users and channels do, in one shape for all platforms.
//!
//! Every event has a key that is the same whenever the platform repeats it, so that a unique index in the store
//! absorbs repeats. Unknown kinds keep their key too: a new kind of event must not stall the cursor.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::secret::{Token, same_secret, sha256};

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incoming {
    /// Stable across repeats, unique within the account.
    pub key: String,
    /// When it happened, in milliseconds since the epoch, if the platform says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Someone wrote to the bot, or in a group where it listens.
    Message(Said),
    /// A post in a channel or on a wall.
    Post(Said),
    /// A button was pressed.
    Callback(Callback),
    /// A dialogue was opened, or the bot was added to a chat.
    Started(Contact),
    /// The bot was taken out of a chat, or a dialogue was closed.
    Stopped(Contact),
    /// A person blocked the bot.
    Blocked(Contact),
    /// A person lifted the block.
    Returned(Contact),
    /// Something this version does not know.
    Unknown { kind: String },
}

/// Words in a chat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    pub chat: String,
    /// The public name of the chat, without `@`: a configuration may know it by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    /// What people call the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub message_id: String,
    pub text: String,
    /// A dialogue with one person.
    #[serde(default)]
    pub private: bool,
    #[serde(default)]
    pub edited: bool,
    /// What a keyboard of words sent along (VK).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Kinds of what is attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<String>,
    /// What stands with it in one album has the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    /// The message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// No person wrote it.
    #[serde(default)]
    pub by_bot: bool,
}

/// A pressed button.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Callback {
    /// What an answer has to name.
    pub id: String,
    pub chat: String,
    /// The public name of the chat, without `@`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    pub from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    pub payload: String,
    /// In a dialogue with one person.
    #[serde(default)]
    pub private: bool,
}

/// Someone, somewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    pub chat: String,
    /// What people call the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the link that opened the dialogue carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// A dialogue with one person.
    #[serde(default)]
    pub private: bool,
}

/// What one poll brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub events: Vec<Incoming>,
    /// Where the next poll begins; stored after the events are. `None`: nothing is known yet.
    pub cursor: Option<String>,
}

/// Bytes of a webhook call (reliability S49).
pub const HOOK_BYTES_MAX: usize = 1 << 20;

/// What an endpoint knows about the calls it expects.
#[derive(Clone, Default)]
pub struct HookSettings {
    pub secret: Option<Token>,
    /// SHA-256 of the secret in lower-case hex, where only that is kept.
    pub secret_hash: Option<String>,
    /// VK: what to answer when the server is confirmed.
    pub confirmation: Option<String>,
    /// VK: the community whose events are expected.
    pub group_id: Option<i64>,
}

impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSettings").field("group_id", &self.group_id).finish_non_exhaustive()
    }
}

impl HookSettings {
    /// Whether the given secret is the expected one. Without an expected one nothing is let in.
    pub(crate) fn admits(&self, given: Option<&str>) -> Result<(), HookError> {
        if let Some(expected) = &self.secret_hash {
            let given = sha256(given.unwrap_or_default().as_bytes());
            let same = same_secret(given.as_bytes(), expected.as_bytes());
            return if same { Ok(()) } else { Err(HookError::WrongSecret) };
        }
        let expected = self.secret.as_ref().map(Token::expose).unwrap_or_default();
        let same = same_secret(given.unwrap_or_default().as_bytes(), expected.as_bytes());
        if same && !expected.is_empty() { Ok(()) } else { Err(HookError::WrongSecret) }
    }
}

/// One webhook call: the header of the platform's secret, and the body.
#[derive(Clone, Copy, Default)]
pub struct HookCall<'a> {
    /// The value of the header that `Platform::hook_header` names.
    pub secret: Option<&'a str>,
    pub body: &'a [u8],
}

impl fmt::Debug for HookCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookCall").field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// A call that was let in: what it brought, and the body of the 200 that the platform expects.
#[derive(Clone, Debug, PartialEq)]
pub struct Hooked {
    pub events: Vec<Incoming>,
    pub answer: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    #[error("the secret is missing or wrong")]
    WrongSecret,
    #[error("the body is larger than 1 MiB")]
    TooLarge,
    #[error("the body is not what this platform sends")]
    Malformed,
    #[error("no confirmation is configured for this community")]
    NoConfirmation,
}

impl HookError {
    /// The status to answer with.
    pub fn status(self) -> u16 {
        match self {
            HookError::WrongSecret => 401,
            HookError::TooLarge => 413,
            HookError::Malformed => 400,
            HookError::NoConfirmation => 404,
        }
    }
}

impl HookCall<'_> {
    pub(crate) fn check_size(&self) -> Result<(), HookError> {
        if self.body.len() > HOOK_BYTES_MAX { Err(HookError::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_let_in_without_a_configured_secret() {
        let check = |expected: Option<&str>, given: Option<&str>, admitted: bool| {
            let settings = HookSettings { secret: expected.map(Token::new), ..HookSettings::default() };
            assert_eq!(settings.admits(given).is_ok(), admitted, "{expected:?} {given:?}");
        };
        check(Some("s3cret"), Some("s3cret"), true);
        check(Some("s3cret"), Some("s3cre"), false);
        check(Some("s3cret"), Some("s3crett"), false);
        check(Some("s3cret"), Some(""), false);
        check(Some("s3cret"), None, false);
        check(Some(""), Some(""), false);
        check(None, Some(""), false);
        check(None, None, false);
    }
}
