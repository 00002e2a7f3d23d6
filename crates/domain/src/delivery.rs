//! The life of a delivery.
//!
//! ```text
//! queued ─┐   claim       send   ┌─► sent                     outcome, or a late success adopted
//! retry ──┴─► claimed ─► sending ┼─► retry ──► (claimed again)
//!   │  ▲         one transaction ├─► failed_permanent
//!   │  └── not yet, handed back ─┴─► dead                     attempts, flood cap, unknown, poison
//!   ├─► deduped             superseded before the claim
//!   ├─► failed_permanent    the channel was removed
//!   └─► dead                cancelled, or too old
//! ```
//!
//! `step` performs every arrow and refuses the rest; the databases repeat it in a trigger, and
//! docs/delivery-states.md names the store function behind each arrow.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Queued,
    Retry,
    /// Never seen outside the claim transaction.
    Claimed,
    Sending,
    Sent,
    Deduped,
    FailedPermanent,
    Dead,
}

/// What happens to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    Claim,
    Send,
    Accept,
    TryAgain,
    Refuse,
    Die,
    /// Cancelled by an operator or a closed case, or older than its channel allows.
    Drop,
    RemoveChannel,
    Supersede,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("delivery: {step:?} is not allowed in state {from}")]
pub struct Illegal {
    pub from: Status,
    pub step: Step,
}

/// The one transition function.
pub fn step(from: Status, step: Step) -> Result<Status, Illegal> {
    match (from, step) {
        (Status::Queued | Status::Retry, Step::Claim) => Ok(Status::Claimed),
        (Status::Claimed, Step::Send) => Ok(Status::Sending),
        (Status::Sending, Step::Accept) => Ok(Status::Sent),
        (Status::Sending, Step::TryAgain) => Ok(Status::Retry),
        (Status::Sending, Step::Refuse) => Ok(Status::FailedPermanent),
        (Status::Sending, Step::Die) => Ok(Status::Dead),
        (Status::Queued | Status::Retry, Step::Drop) => Ok(Status::Dead),
        (Status::Queued | Status::Retry, Step::RemoveChannel) => Ok(Status::FailedPermanent),
        (Status::Queued | Status::Retry, Step::Supersede) => Ok(Status::Deduped),
        (from, step) => Err(Illegal { from, step }),
    }
}

impl Status {
    pub const ALL: [Status; 8] = [
        Status::Queued,
        Status::Retry,
        Status::Claimed,
        Status::Sending,
        Status::Sent,
        Status::Deduped,
        Status::FailedPermanent,
        Status::Dead,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Retry => "retry",
            Status::Claimed => "claimed",
            Status::Sending => "sending",
            Status::Sent => "sent",
            Status::Deduped => "deduped",
            Status::FailedPermanent => "failed_permanent",
            Status::Dead => "dead",
        }
    }

    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_pending(self) -> bool {
        matches!(self, Status::Queued | Status::Retry)
    }

    pub fn is_in_flight(self) -> bool {
        matches!(self, Status::Claimed | Status::Sending)
    }

    pub fn is_terminal(self) -> bool {
        !self.is_pending() && !self.is_in_flight()
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a delivery is where it is; a closed list, so that it can be explained and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The platform refused this one for good.
    Refused,
    /// The recipient blocked us or left.
    RecipientGone,
    AttemptsExhausted,
    FloodCap,
    OutcomeUnknown,
    Poison,
    Cancelled,
    /// The person stopped a campaign that was on its way to them.
    Stopped,
    Expired,
    ChannelRemoved,
    Superseded,
    /// The same thing was said in this channel within its window, or is on its way.
    Duplicate,
    /// Waiting to try again after a failure.
    Failed,
    Flood,
    NotReady,
    /// The account cannot send at all; uncharged.
    AccountTrouble,
    LeaseExpired,
    Released,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Refused => "refused",
            Reason::RecipientGone => "recipient_gone",
            Reason::AttemptsExhausted => "attempts_exhausted",
            Reason::FloodCap => "flood_cap",
            Reason::OutcomeUnknown => "outcome_unknown",
            Reason::Poison => "poison",
            Reason::Cancelled => "cancelled",
            Reason::Stopped => "stopped",
            Reason::Expired => "expired",
            Reason::ChannelRemoved => "channel_removed",
            Reason::Superseded => "superseded",
            Reason::Duplicate => "duplicate",
            Reason::Failed => "failed",
            Reason::Flood => "flood",
            Reason::NotReady => "not_ready",
            Reason::AccountTrouble => "account_trouble",
            Reason::LeaseExpired => "lease_expired",
            Reason::Released => "released",
        }
    }
}

/// What a delivery has been through. Persisted; never reset but by a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Every claimed → sending.
    pub attempt: i32,
    /// Attempts that count towards the maximum.
    pub charged: i32,
    pub flood_waits: i32,
    pub not_ready_waits: i32,
    /// Outcomes that nobody could know.
    pub unknowns: i32,
    /// Leases that ended with no request recorded.
    pub lost_claims: i32,
    /// Leases that ended after one: whoever asked never came back. Unknown outcomes all of them, and never charged.
    pub lost_requests: i32,
    /// The first flood of the present row of floods.
    pub flood_since: Option<Timestamp>,
}

/// What to do when nobody knows whether a send took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AmbiguityPolicy {
    /// Send again as often as attempts allow: the platform recognises repeats by our key.
    Resend,
    /// Send again once; a second unknown is dead.
    ResendOnce,
    /// Never send again: dead, for a person to decide.
    Hold,
    /// Read the channel back first, then as `ResendOnce`. A request that died with our own process counts only where the
    /// channel cannot be read.
    Reconcile,
}

impl AmbiguityPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            AmbiguityPolicy::Resend => "resend",
            AmbiguityPolicy::ResendOnce => "resend_once",
            AmbiguityPolicy::Hold => "hold",
            AmbiguityPolicy::Reconcile => "reconcile",
        }
    }

    pub fn parse(text: &str) -> Option<AmbiguityPolicy> {
        [
            AmbiguityPolicy::Resend,
            AmbiguityPolicy::ResendOnce,
            AmbiguityPolicy::Hold,
            AmbiguityPolicy::Reconcile,
        ]
        .into_iter()
        .find(|policy| policy.as_str() == text)
    }
}

/// What a delivery does in its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    #[default]
    Send,
    Edit,
    Reply,
    Delete,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Send => "send",
            Action::Edit => "edit",
            Action::Reply => "reply",
            Action::Delete => "delete",
        }
    }

    pub fn parse(text: &str) -> Option<Action> {
        [Action::Send, Action::Edit, Action::Reply, Action::Delete].into_iter().find(|a| a.as_str() == text)
    }
}

/// Urgent goes before bulk, but never takes more than nine turns out of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    #[default]
    Urgent,
    Bulk,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 9] = [
        Step::Claim,
        Step::Send,
        Step::Accept,
        Step::TryAgain,
        Step::Refuse,
        Step::Die,
        Step::Drop,
        Step::RemoveChannel,
        Step::Supersede,
    ];

    #[test]
    fn the_picture_is_the_table() {
        let mut edges: Vec<String> = Vec::new();
        for from in Status::ALL {
            for to in STEPS.iter().filter_map(|&s| step(from, s).ok()) {
                edges.push(format!("{from} → {to}"));
            }
        }
        edges.sort();
        edges.dedup();
        expect_test::expect![[r#"
            claimed → sending
            queued → claimed
            queued → dead
            queued → deduped
            queued → failed_permanent
            retry → claimed
            retry → dead
            retry → deduped
            retry → failed_permanent
            sending → dead
            sending → failed_permanent
            sending → retry
            sending → sent"#]]
        .assert_eq(&edges.join("\n"));
    }

    #[test]
    fn nothing_leaves_a_terminal_state() {
        for from in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
            assert!(STEPS.iter().all(|&s| step(from, s).is_err()), "{from}");
        }
    }

    #[test]
    fn names_read_back() {
        assert!(Status::ALL.into_iter().all(|status| Status::parse(status.as_str()) == Some(status)));
    }
}
