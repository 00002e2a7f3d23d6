//! Identifiers of different things are different types, so that two of them cannot be swapped.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

id! {
    /// A tenant.
    WorkspaceId,
    /// An inbound door of a workspace.
    EndpointId,
    /// A sender: one bot or community token.
    AccountId,
    /// A destination on an account.
    ChannelId,
    /// Where posts are pulled from.
    SourceId,
    /// Normalised content, stored once.
    MessageId,
    /// One real-world incident.
    CaseId,
    /// One message to one channel or recipient.
    DeliveryId,
    /// A broadcast.
    CampaignId,
    /// People who are written to together.
    AudienceId,
    /// Those of a broadcast who are fed together.
    CohortId,
    /// One of those a broadcast goes to.
    RecipientId,
    /// The unit of order and isolation.
    LaneId,
    /// A set of rules that answers people.
    BotId,
}

/// The fence of one claim: made anew by every claim, named by every write that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimToken(pub uuid::Uuid);

impl std::fmt::Display for ClaimToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
