//! Posts that wait for a person, as values; and the rules about them that both drivers share.
//!
//! A post whose kind is unsure is held where the channel wants that: it has a reason, no delivery and no key. A person
//! approves it, which delivers it as if it came now, or rejects it; an edit, the end of its story or its vanishing
//! withdraws it, and after the channel's `max_age` it is over by itself.

use domain::ids::{ChannelId, MessageId};
use domain::time::Timestamp;
use serde::Serialize;

use crate::intake::{CopyState, Held, Published};

/// One post that waits, or waited, for one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldPost {
    pub message_id: MessageId,
    pub channel_id: ChannelId,
    pub why: String,
    pub held_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// `approved`, `rejected` or `withdrawn`; `None`: nobody has decided.
    pub decision: Option<String>,
    pub decided_at: Option<Timestamp>,
    /// Who, where somebody is named.
    pub decided_by: Option<String>,
}

impl HeldPost {
    /// Nobody has decided, and there is still time.
    pub fn is_waiting(&self, now: Timestamp) -> bool {
        self.decision.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

/// What a new revision of a post does to its holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldPlan {
    /// Held from now on, also where a person had rejected the old words.
    pub hold: Vec<ChannelId>,
    /// A person approved it there before: the new words go on as those did.
    pub deliver: Vec<ChannelId>,
}

/// Where it is published already nothing is held: an edit follows there like any other.
pub(crate) fn plan_hold(held: Option<&Held>, before: &[HeldPost], copies: &[Published]) -> HoldPlan {
    let mut plan = HoldPlan::default();
    for &channel in held.into_iter().flat_map(|held| &held.channels) {
        let mut known = before.iter().filter(|post| post.channel_id == channel);
        let is_out = |copy: &Published| copy.channel_id == channel && copy.state == CopyState::Out;
        if known.any(|post| post.decision.as_deref() == Some("approved")) {
            plan.deliver.push(channel);
        } else if !copies.iter().any(is_out) {
            plan.hold.push(channel);
        }
    }
    plan
}
