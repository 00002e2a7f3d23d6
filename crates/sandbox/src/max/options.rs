//! What nobody could verify about MAX, as switches of an account: `POST /_/accounts` takes them by these names.
//! The defaults are the readings that the sheet's best sources support.

use serde_json::{Map, Value};

use crate::registry::Account;
use crate::reply::Refusal;

/// Every switch with what it means; the order is the order of the documentation.
pub(super) const SWITCHES: &[(&str, Shape, &str)] = &[
    ("description", Shape::Text, "what GET /me says about the bot"),
    (
        "query_token",
        Shape::Flag,
        "also take the token from the query parameter access_token, as MAX once did (false)",
    ),
    ("retry_after", Shape::Flag, "send Retry-After with 429 (false: nobody has seen MAX send it)"),
    ("own_messages", Shape::Flag, "the bot gets message_created for its own messages (false)"),
    (
        "first_poll",
        Shape::Word(&["unconfirmed", "latest"]),
        "what GET /updates gives without a marker (unconfirmed)",
    ),
    ("text_unit", Shape::Word(&["utf16", "code_points"]), "how the 4000 of a text are counted (utf16)"),
    ("mix_audio", Shape::Flag, "audio may stand beside other attachments (false)"),
    (
        "unknown_user",
        Shape::Word(&["chat.not.found", "chat.denied"]),
        "the error for a user who never opened the bot (chat.not.found)",
    ),
    (
        "retired_methods",
        Shape::Flag,
        "answer GET /chats, POST /chats/{chatId}/members and PATCH /me, which MAX has removed (true)",
    ),
    (
        "strict_webhooks",
        Shape::Flag,
        "take only https addresses without a port, as MAX does (false: http on loopback is fine)",
    ),
    (
        "webhook_retry_ms",
        Shape::Number,
        "the pause before the second webhook attempt; each next one is 2.5 times longer (60000)",
    ),
    (
        "not_ready_sends",
        Shape::Number,
        "how often each new upload answers attachment.not.ready before it is ready (0)",
    ),
    ("updates_limit", Shape::Flag, "with --limits real, allow two GET /updates a second (false)"),
];

/// The names alone.
pub(super) const FIELDS: &[&str] = &[
    "description",
    "query_token",
    "retry_after",
    "own_messages",
    "first_poll",
    "text_unit",
    "mix_audio",
    "unknown_user",
    "retired_methods",
    "strict_webhooks",
    "webhook_retry_ms",
    "not_ready_sends",
    "updates_limit",
];

/// What a switch takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Flag,
    Number,
    Text,
    Word(&'static [&'static str]),
}

/// Refuses values that mean nothing.
pub(super) fn check(fields: &Map<String, Value>) -> Result<(), Refusal> {
    for (name, shape, meaning) in SWITCHES {
        let Some(value) = fields.get(*name) else { continue };
        let (fits, expected) = match shape {
            Shape::Flag => (value.is_boolean(), "true or false".to_owned()),
            Shape::Number => (value.is_u64(), "a whole number".to_owned()),
            Shape::Text => (value.is_string(), "a string".to_owned()),
            Shape::Word(words) => {
                (value.as_str().is_some_and(|word| words.contains(&word)), words.join(" or "))
            }
        };
        if !fits {
            return Err(Refusal::bad(format!(
                "field {name:?} must be {expected}, not {value}; it says: {meaning}"
            )));
        }
    }
    Ok(())
}

/// The switches of one account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    account: &'a Account,
}

impl<'a> Options<'a> {
    pub(super) fn of(account: &'a Account) -> Options<'a> {
        Options { account }
    }

    pub(super) fn query_token(self) -> bool {
        self.account.flag("query_token")
    }

    pub(super) fn retry_after(self) -> bool {
        self.account.flag("retry_after")
    }

    pub(super) fn own_messages(self) -> bool {
        self.account.flag("own_messages")
    }

    pub(super) fn first_poll_is_latest(self) -> bool {
        self.word("first_poll") == Some("latest")
    }

    /// The length of a text as the limit counts it.
    pub(super) fn length(self, text: &str) -> usize {
        match self.word("text_unit") {
            Some("code_points") => text.chars().count(),
            _ => text.encode_utf16().count(),
        }
    }

    pub(super) fn mix_audio(self) -> bool {
        self.account.flag("mix_audio")
    }

    pub(super) fn unknown_user_is_denied(self) -> bool {
        self.word("unknown_user") == Some("chat.denied")
    }

    pub(super) fn retired_methods(self) -> bool {
        self.account.fields.get("retired_methods").and_then(Value::as_bool).unwrap_or(true)
    }

    pub(super) fn strict_webhooks(self) -> bool {
        self.account.flag("strict_webhooks")
    }

    pub(super) fn webhook_retry_ms(self) -> u64 {
        self.number("webhook_retry_ms").unwrap_or(60_000)
    }

    pub(super) fn not_ready_sends(self) -> u64 {
        self.number("not_ready_sends").unwrap_or(0)
    }

    pub(super) fn updates_limit(self) -> bool {
        self.account.flag("updates_limit")
    }

    fn word(self, name: &str) -> Option<&'a str> {
        self.account.fields.get(name).and_then(Value::as_str)
    }

    fn number(self, name: &str) -> Option<u64> {
        self.account.fields.get(name).and_then(Value::as_u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_names_is_the_list_of_switches() {
        let names: Vec<&str> = SWITCHES.iter().map(|(name, _, _)| *name).collect();
        assert_eq!(names, FIELDS);
    }
}
