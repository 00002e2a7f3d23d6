//! What can happen in a dialogue, in one shape for all platforms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One thing that happened, as the inbox keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened, by the platform's clock if it says; what comes out of order is known by it.
    pub at: Timestamp,
    /// The name of the platform in configuration and tables; rules may ask for it.
    #[serde(default)]
    pub platform: String,
    /// What was sent together has the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// The person wrote. A text that begins with `/` is a command.
    Text { text: String },
    /// The person pressed a button; `id` is what the button carried.
    Press { id: String },
    /// The person sent a picture; `photo` is however the caller finds it again.
    Photo {
        photo: String,
        /// What was written under it.
        #[serde(default)]
        text: String,
    },
    /// The person corrected what was said before.
    Edited { text: String },
    /// The person sent something that no rule can read: a sticker, a voice message, a place.
    Other { kind: String },
    /// The person opened the dialogue by the platform's own button; `payload` is what the link carried.
    Started {
        #[serde(default)]
        payload: String,
    },
    /// The person closed the dialogue by the platform's own means.
    Stopped,
    /// The person blocked the bot.
    Blocked,
    /// The person lifted the block.
    Returned,
    /// The moment that `State::due` named has come.
    Timer,
    /// An operator answered.
    Operator { text: String },
    /// An operator gave the dialogue back to the bot.
    Closed,
    /// The shop's own service answered a call; `None`: it failed for good.
    Answer {
        service: String,
        fields: Option<BTreeMap<String, String>>,
        /// Why it failed, for the log.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
}

impl Event {
    pub fn text(at: Timestamp, text: impl Into<String>) -> Event {
        Event::new(at, What::Text { text: text.into() })
    }

    pub fn new(at: Timestamp, what: What) -> Event {
        Event { at, platform: String::new(), album: None, what }
    }
}

impl What {
    pub fn on(self, platform: impl Into<String>, at: Timestamp) -> Event {
        Event { platform: platform.into(), ..Event::new(at, self) }
    }

    /// Whether a person did it, as opposed to a clock, an operator or a service.
    pub fn is_by_person(&self) -> bool {
        !matches!(self, What::Timer | What::Operator { .. } | What::Closed | What::Answer { .. })
    }

    /// Its name in rules (`on = { event = "…" }`) and logs.
    pub fn name(&self) -> &'static str {
        match self {
            What::Text { .. } => "text",
            What::Press { .. } => "press",
            What::Photo { .. } => "photo",
            What::Edited { .. } => "edit",
            What::Other { .. } => "other",
            What::Started { .. } => "start",
            What::Stopped => "stop",
            What::Blocked => "blocked",
            What::Returned => "return",
            What::Timer => "timer",
            What::Operator { .. } => "operator",
            What::Closed => "close",
            What::Answer { .. } => "answer",
        }
    }
}

/// The fields of a service's answer that slots can take: texts, numbers and yes or no at the top of the object.
pub fn answer_fields(answer: &serde_json::Value) -> Option<BTreeMap<String, String>> {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        _ => None,
    };
    let fields = answer.as_object()?.iter();
    Some(fields.filter_map(|(name, value)| text(value).map(|text| (name.clone(), text))).collect())
}
