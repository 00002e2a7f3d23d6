//! How one send ended. A value, not an error: adapters return it, never sleep on it, never retry it.
//!
//! Written as JSON it is the contract with every client of the database functions:
//! `{"ok":true,"provider_message_id":…,"raw":…}` or
//! `{"ok":false,"error":{"category","scope","code","retry_after_ms"?,"message","raw",…}}`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Span;

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Sent(Sent),
    Failed(Failure),
}

/// The platform accepted it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The platform's own id of what became visible. `None`: accepted, but the answer with the id was lost.
    pub provider_message_id: Option<String>,
    #[serde(default)]
    pub raw: Value,
}

/// The platform refused it, or nobody knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub category: Category,
    pub scope: Scope,
    /// Short and stable, e.g. `429`, `vk:214`, `attachment.not.ready`, `timeout`.
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<i64>,
    /// One redacted sentence for people.
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub raw: Value,
    #[serde(default)]
    pub certainty: Certainty,
    /// The recipient blocked us or is gone: a campaign takes them off its list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recipient_gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Category {
    /// Worth another try.
    Transient,
    /// The same request will be refused again.
    Permanent,
}

/// What the trouble belongs to, and so who has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// This delivery alone.
    Delivery,
    /// Everything to this channel.
    Channel,
    /// Everything this account sends: its rate group.
    Platform,
}

/// Whether the platform may have shown it all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    #[default]
    NotSent,
    Unknown,
}

/// The code of an upload that the platform still chews on: short waits, not charged.
pub const CODE_NOT_READY: &str = "attachment.not.ready";
/// The code of a send that was not tried, because the chat had asked for a pause that lasts.
pub const CODE_CHAT_WAITS: &str = "chat_waits";

impl Failure {
    pub fn new(category: Category, scope: Scope, code: &str, message: impl Into<String>) -> Failure {
        Failure {
            category,
            scope,
            code: code.to_owned(),
            retry_after_ms: None,
            message: message.into(),
            raw: Value::Null,
            certainty: Certainty::NotSent,
            recipient_gone: false,
        }
    }

    pub fn retry_after(mut self, ms: i64) -> Failure {
        self.retry_after_ms = Some(ms);
        self
    }

    pub fn unknown(mut self) -> Failure {
        self.certainty = Certainty::Unknown;
        self
    }

    pub fn with_raw(mut self, raw: Value) -> Failure {
        self.raw = raw;
        self
    }

    /// The wait the platform asked for; never undercut.
    pub fn wait(&self) -> Option<Span> {
        self.retry_after_ms.map(|ms| Span::from_millis(ms.max(0)))
    }

    /// A flood reply: the platform named a wait for more than this one delivery.
    pub fn is_flood(&self) -> bool {
        self.category == Category::Transient
            && self.scope != Scope::Delivery
            && self.certainty == Certainty::NotSent
            && self.retry_after_ms.is_some()
    }
}

#[derive(Serialize, Deserialize)]
struct OutcomeJson {
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    raw: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = match self.clone() {
            Outcome::Sent(Sent { provider_message_id, raw }) => {
                OutcomeJson { ok: true, provider_message_id, raw, error: None }
            }
            Outcome::Failed(failure) => {
                OutcomeJson { ok: false, provider_message_id: None, raw: Value::Null, error: Some(failure) }
            }
        };
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
        let json = OutcomeJson::deserialize(deserializer)?;
        match (json.ok, json.error) {
            (true, None) => {
                Ok(Outcome::Sent(Sent { provider_message_id: json.provider_message_id, raw: json.raw }))
            }
            (false, Some(failure)) => Ok(Outcome::Failed(failure)),
            (true, Some(_)) => Err(serde::de::Error::custom("outcome: ok is true but an error is given")),
            (false, None) => Err(serde::de::Error::custom("outcome: ok is false but no error is given")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reads_back_as_it_was_written() {
        let flood =
            Failure::new(Category::Transient, Scope::Channel, "429", "too many requests").retry_after(3_000);
        for outcome in [
            Outcome::Sent(Sent { provider_message_id: Some("77".into()), raw: serde_json::json!({"a": 1}) }),
            Outcome::Sent(Sent { provider_message_id: None, raw: Value::Null }),
            Outcome::Failed(flood),
            Outcome::Failed(
                Failure::new(Category::Permanent, Scope::Delivery, "400", "нет текста").unknown(),
            ),
        ] {
            let json = serde_json::to_string(&outcome).unwrap();
            assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome, "{json}");
        }
    }

    #[test]
    fn a_contradictory_outcome_is_refused() {
        assert!(serde_json::from_str::<Outcome>(r#"{"ok":false}"#).is_err());
        assert!(
            serde_json::from_str::<Outcome>(
                r#"{"ok":true,"error":{"category":"TRANSIENT","scope":"delivery","code":"x"}}"#
            )
            .is_err()
        );
    }
}
