//! Where a delivery goes. How it queues on its way there is the lane's matter.

use serde::{Deserialize, Serialize};

use crate::ids::{ChannelId, RecipientId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Destination {
    /// A place that many read: it has settings, strikes, and can be disabled.
    #[serde(rename = "channel_id")]
    Channel(ChannelId),
    /// One person on one bot: they can be gone.
    #[serde(rename = "recipient_id")]
    Recipient(RecipientId),
}

impl Destination {
    /// Of the two columns of a row, of which exactly one is set.
    pub fn of(channel: Option<i64>, recipient: Option<i64>) -> Option<Destination> {
        match (channel, recipient) {
            (Some(id), None) => Some(Destination::Channel(ChannelId(id))),
            (None, Some(id)) => Some(Destination::Recipient(RecipientId(id))),
            _ => None,
        }
    }

    pub fn channel(self) -> Option<ChannelId> {
        match self {
            Destination::Channel(id) => Some(id),
            Destination::Recipient(_) => None,
        }
    }

    pub fn recipient(self) -> Option<RecipientId> {
        match self {
            Destination::Channel(_) => None,
            Destination::Recipient(id) => Some(id),
        }
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Destination::Channel(id) => write!(f, "channel {id}"),
            Destination::Recipient(id) => write!(f, "recipient {id}"),
        }
    }
}
