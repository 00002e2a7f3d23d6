//! Where a dialogue stands: everything that the next step needs to know, kept as JSON between steps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A dialogue between two steps. The default is one that never began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The state of the rules file; empty: the dialogue has not begun, and stands at the start.
    pub name: String,
    pub mode: Mode,
    /// What people told, by slot. Values of masked slots are here too: a state is not a log.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<String, String>,
    /// Messages in a row that nothing understood; the rung of the fallback ladder.
    #[serde(skip_serializing_if = "is_zero")]
    pub misses: u32,
    /// Wrong answers to the question that is open.
    #[serde(skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// Turns of this session. One begins after `limits.idle` without a word.
    #[serde(skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// The time of the newest event that was processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// When the state's own patience ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_at: Option<Timestamp>,
    /// Since when the person waits for a human to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Timestamp>,
    /// When operators are reminded of a person who waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind_at: Option<Timestamp>,
    /// When the bot takes the dialogue back from operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_at: Option<Timestamp>,
    /// Times in a row that a clock moved the dialogue; a person who speaks ends the row.
    #[serde(skip_serializing_if = "is_zero")]
    pub ticks: u32,
    #[serde(skip_serializing_if = "Flood::is_quiet")]
    pub flood: Flood,
    /// The album that came last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    /// The person asked to be written to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subscribed: bool,
}

impl State {
    /// When the caller has to come back with `What::Timer`, if nothing happens before.
    pub fn due(&self) -> Option<Timestamp> {
        [self.idle_at, self.remind_at, self.back_at].into_iter().flatten().min()
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Bot,
    /// Operators have it, and the bot is silent.
    Human,
    /// The person left: asked to stop, or blocked the bot. What they say next opens it again.
    Stopped,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Bot => "bot",
            Mode::Human => "human",
            Mode::Stopped => "stopped",
        }
    }
}

/// How much was said lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flood {
    pub since: Option<Timestamp>,
    pub messages: u32,
}

impl Flood {
    fn is_quiet(&self) -> bool {
        self.since.is_none()
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
