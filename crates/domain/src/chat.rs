//! What a chat is, whatever platform it is on.

use serde::{Deserialize, Serialize};

/// What kind of chat a target is; the platform's speed limit depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    Private,
    Group,
    #[default]
    Channel,
}

impl ChatKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ChatKind::Private => "private",
            ChatKind::Group => "group",
            ChatKind::Channel => "channel",
        }
    }

    pub fn parse(text: &str) -> Option<ChatKind> {
        [ChatKind::Private, ChatKind::Group, ChatKind::Channel].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What happens to a text that is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    #[default]
    Cut,
    Split,
}

impl Overflow {
    pub fn as_str(self) -> &'static str {
        match self {
            Overflow::Cut => "cut",
            Overflow::Split => "split",
        }
    }

    pub fn parse(text: &str) -> Option<Overflow> {
        [Overflow::Cut, Overflow::Split].into_iter().find(|overflow| overflow.as_str() == text)
    }
}
