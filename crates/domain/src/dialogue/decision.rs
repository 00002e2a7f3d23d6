//! What a step decides. Nothing here happens by itself: the caller writes all of it in one transaction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::state::State;
use crate::message::{Button, Media, MediaKind, Message};

/// Everything that follows from one event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Where the dialogue stands now; `State::due` says when the caller has to come back.
    pub state: State,
    /// What the person hears, in this order.
    pub replies: Vec<Reply>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Subscription>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// A short note for whoever pressed a button.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toast: Option<String>,
    /// States that were entered, in this order; the last one need not be where the dialogue stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entered: Vec<String>,
    /// What is written down, in this order; never empty, and no masked value is in it.
    pub logs: Vec<Log>,
}

impl Decision {
    /// What was made of the event as a whole: the verdict of its first line.
    pub fn verdict(&self) -> Verdict {
        self.logs.first().map_or(Verdict::Ignored, |log| log.verdict)
    }
}

/// One message of the bot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub text: String,
    /// Rows of buttons; what a press carries fits every platform (`BUTTON_ID_BYTES_MAX`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Vec<Button>>,
    /// The address of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub photo: Option<String>,
}

impl Reply {
    pub fn text(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), ..Reply::default() }
    }

    /// The reply as a message that dispatch can send.
    pub fn message(&self) -> Message {
        let photo =
            |url: &String| Media { kind: MediaKind::Photo, url: Some(url.clone()), ..Media::default() };
        Message {
            text: self.text.clone(),
            media: self.photo.iter().map(photo).collect(),
            buttons: self.buttons.clone(),
            ..Message::default()
        }
    }
}

/// What a person's wish to be written to has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subscription {
    /// They opened the dialogue; campaigns do not write to them yet.
    Known,
    /// They asked to be written to.
    Active,
    /// They asked to be left alone.
    Stopped,
    /// They blocked the bot.
    Gone,
    /// They lifted the block.
    Returned,
}

/// What operators have to hear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Handoff {
    /// A person needs a human; `why` is for operators, `text` is what the person said last.
    Open {
        why: String,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        photo: Option<String>,
    },
    /// The person goes on talking to the human.
    Forward { text: String, photo: Option<String> },
    /// Nobody has answered for `operators.wait`.
    Remind,
    /// The bot has it again.
    Close { why: String },
}

/// A question to the shop's own service; its address is the configuration's business.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub service: String,
    pub fields: BTreeMap<String, String>,
}

/// One line of the dialogue's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub verdict: Verdict,
    /// The version of the rules that decided.
    pub version: u32,
    /// The rule that answered, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// Where the dialogue stood before, and after.
    pub from: String,
    pub to: String,
    /// What the rule's author wanted written down (`log = "…"`), or what a reader should know.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What was made of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A rule answered.
    Rule,
    /// The answer to the open question was taken.
    Slot,
    /// It was no answer to the open question.
    Invalid,
    /// Words that nearly fit: buttons were offered.
    Offered,
    /// Nothing understood it.
    Fallback,
    /// The dialogue began or began again.
    Started,
    /// The person left.
    Stopped,
    /// The person came back.
    Returned,
    /// A press on a button whose time has passed.
    Stale,
    /// It came too late to change anything.
    Late,
    /// Too many messages in too short a time.
    Flood,
    /// Operators have the dialogue.
    Human,
    /// A clock moved the dialogue.
    Timer,
    /// The shop's service answered.
    Answer,
    /// A limit of steps or turns was reached.
    Limit,
    /// Nothing to do.
    Ignored,
    /// A line that a rule asked for.
    Noted,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Rule => "rule",
            Verdict::Slot => "slot",
            Verdict::Invalid => "invalid",
            Verdict::Offered => "offered",
            Verdict::Fallback => "fallback",
            Verdict::Started => "started",
            Verdict::Stopped => "stopped",
            Verdict::Returned => "returned",
            Verdict::Stale => "stale",
            Verdict::Late => "late",
            Verdict::Flood => "flood",
            Verdict::Human => "human",
            Verdict::Timer => "timer",
            Verdict::Answer => "answer",
            Verdict::Limit => "limit",
            Verdict::Ignored => "ignored",
            Verdict::Noted => "noted",
        }
    }
}
