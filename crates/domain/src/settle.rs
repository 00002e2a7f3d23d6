//! What an ended send means: for the delivery, for its lane, for its destination and for its account.
//!
//! The lane waits (pause), the destination is judged (strikes, disabled, gone), the account is slowed or stopped.
//!
//! `settle` is the policy as one pure function. The SQLite driver calls it; the PostgreSQL functions say the same in SQL;
//! random sequences compare the two.

use crate::delivery::{AmbiguityPolicy, Counters, Reason, Status, Step, step};
use crate::destination::Destination;
use crate::limits::*;
use crate::outcome::{CODE_CHAT_WAITS, CODE_NOT_READY, Category, Certainty, Failure, Outcome, Scope};
use crate::retry::{Chance, backoff, doubled, not_ready_wait, release_wait};
use crate::time::{Span, Timestamp};

/// How a claim ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Outcome(Outcome),
    /// The lease ran out. Whether a request had been recorded decides if the outcome is unknown.
    LeaseExpired {
        requested: bool,
    },
    /// Handed back unsent.
    Released,
}

/// What the rules need to know about the delivery and its surroundings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    pub counters: Counters,
    /// Of the lane.
    pub policy: AmbiguityPolicy,
    pub destination: Destination,
    /// Of the destination: failures of its own in a row.
    pub error_streak: i32,
    /// The destination of this account that flooded last, and until when.
    pub flood: Option<(Destination, Timestamp)>,
    /// Failures of the whole account in a row.
    pub trouble_streak: i32,
    /// Before this claim sent anything, what the claims before it may have sent was looked for and is not there.
    pub absent: bool,
}

/// What is true afterwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    pub status: Status,
    pub reason: Option<Reason>,
    pub counters: Counters,
    /// Set exactly when the status is `retry`.
    pub run_at: Option<Timestamp>,
    pub lane: LaneEffect,
    pub destination: DestinationEffect,
    pub account: AccountEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneEffect {
    None,
    /// Everything behind this one waits as well.
    PauseUntil(Timestamp),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationEffect {
    None,
    /// It works: the streak of failures is over.
    Healthy,
    /// This recipient waits, and nobody else of the lane.
    PauseUntil(Timestamp),
    /// It failed for good once more.
    Strike {
        error_streak: i32,
        /// Nothing is sent there any more: a channel is disabled, a recipient is gone.
        disable: bool,
    },
    /// The recipient blocked us or left: no alarm, and nothing is sent there any more.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountEffect {
    None,
    Healthy,
    /// One chat floods: remembered, in case a second one does.
    RememberFlood(Destination, Timestamp),
    CooldownUntil(Timestamp),
    /// Nothing this account sends can succeed: a person has to look.
    Pause,
}

pub fn settle(standing: &Standing, ending: &Ending, now: Timestamp, chance: Chance) -> Settlement {
    match ending {
        Ending::Outcome(Outcome::Sent(_)) => sent(standing),
        Ending::Outcome(Outcome::Failed(failure)) => failed(standing, failure, now, chance),
        Ending::LeaseExpired { requested: true } => request_lost(standing, now),
        Ending::LeaseExpired { requested: false } => lost(standing, now),
        Ending::Released => {
            let wait = release_wait(&standing.counters);
            Settlement::retry(standing.counters, Reason::Released, now + wait)
        }
    }
}

fn sent(standing: &Standing) -> Settlement {
    Settlement {
        status: after(Step::Accept),
        reason: None,
        counters: standing.counters,
        run_at: None,
        lane: LaneEffect::None,
        destination: DestinationEffect::Healthy,
        account: AccountEffect::Healthy,
    }
}

fn failed(standing: &Standing, failure: &Failure, now: Timestamp, chance: Chance) -> Settlement {
    match (failure.category, failure.certainty, failure.scope) {
        (Category::Permanent, _, _) => refused(standing, failure, now),
        (Category::Transient, Certainty::Unknown, scope) => {
            let wait = asked_wait(failure).unwrap_or(Span::ZERO);
            let settled = unknown(standing, wait, now, chance);
            match scope {
                Scope::Platform => settled.account(cooldown(standing, failure, now)),
                Scope::Delivery | Scope::Channel => settled,
            }
        }
        (Category::Transient, Certainty::NotSent, Scope::Delivery) => {
            try_again(standing, failure, now, chance)
        }
        (Category::Transient, Certainty::NotSent, _) if failure.is_flood() => flooded(standing, failure, now),
        (Category::Transient, Certainty::NotSent, Scope::Channel) => {
            let until = now + CHANNEL_WAIT;
            Settlement::retry(standing.counters, Reason::Failed, until).waits(standing.destination, until)
        }
        (Category::Transient, Certainty::NotSent, Scope::Platform) => {
            Settlement::retry(standing.counters, Reason::AccountTrouble, now)
                .account(cooldown(standing, failure, now))
        }
    }
}

fn refused(standing: &Standing, failure: &Failure, now: Timestamp) -> Settlement {
    let refused = || Settlement::end(standing.counters, Step::Refuse, Reason::Refused);
    match (failure.scope, standing.destination) {
        // One revoked token must not kill a backlog: the row waits for the account, uncharged.
        (Scope::Platform, _) => {
            Settlement::retry(standing.counters, Reason::AccountTrouble, now).account(AccountEffect::Pause)
        }
        (_, Destination::Recipient(_)) if failure.recipient_gone => {
            Settlement::end(standing.counters, Step::Refuse, Reason::RecipientGone)
                .destination(DestinationEffect::Gone)
        }
        (Scope::Delivery, _) => refused(),
        (Scope::Channel, destination) => {
            let error_streak = standing.error_streak + 1;
            let disable = error_streak >= CHANNEL_STREAK_MAX;
            let settled = refused().destination(DestinationEffect::Strike { error_streak, disable });
            match destination {
                Destination::Channel(_) => {
                    let pause = doubled(CHANNEL_PAUSE, error_streak - 1, CHANNEL_PAUSE_MAX);
                    settled.lane(LaneEffect::PauseUntil(now + pause))
                }
                // The others of the lane have nothing to do with it.
                Destination::Recipient(_) => settled,
            }
        }
    }
}

fn try_again(standing: &Standing, failure: &Failure, now: Timestamp, chance: Chance) -> Settlement {
    let mut counters = standing.counters;
    let asked = asked_wait(failure).unwrap_or(Span::ZERO);
    if failure.code == CODE_NOT_READY && counters.not_ready_waits < NOT_READY_WAITS_MAX {
        counters.not_ready_waits += 1;
        let wait = not_ready_wait(counters.not_ready_waits).max(asked);
        return Settlement::retry(counters, Reason::NotReady, now + wait);
    }
    counters.charged += 1;
    if counters.charged >= ATTEMPTS_MAX {
        return Settlement::end(counters, Step::Die, Reason::AttemptsExhausted);
    }
    Settlement::retry(counters, Reason::Failed, now + backoff(counters.charged, chance).max(asked))
}

fn flooded(standing: &Standing, failure: &Failure, now: Timestamp) -> Settlement {
    let mut counters = standing.counters;
    let until = now + asked_wait(failure).unwrap_or(CHANNEL_WAIT);
    // Nobody was asked: the chat's own pause lasts, and that is no news about it or its account.
    if failure.code == CODE_CHAT_WAITS {
        return Settlement::retry(counters, Reason::Flood, until);
    }
    counters.flood_waits += 1;
    let since = *counters.flood_since.get_or_insert(now);
    let settled = if counters.flood_waits >= FLOOD_WAITS_MAX || now - since >= FLOOD_TOTAL_MAX {
        Settlement::end(counters, Step::Die, Reason::FloodCap)
    } else {
        Settlement::retry(counters, Reason::Flood, until)
    };
    match failure.scope {
        Scope::Channel => {
            let account = match second_flood(standing, now) {
                false => AccountEffect::RememberFlood(standing.destination, until),
                true => AccountEffect::CooldownUntil(until),
            };
            settled.waits(standing.destination, until).account(account)
        }
        Scope::Delivery | Scope::Platform => settled.account(AccountEffect::CooldownUntil(until)),
    }
}

/// A second chat of the account floods while the first still waits: it is the account that is too fast.
fn second_flood(standing: &Standing, now: Timestamp) -> bool {
    standing.flood.is_some_and(|(first, until)| first != standing.destination && until > now)
}

fn unknown(standing: &Standing, asked: Span, now: Timestamp, chance: Chance) -> Settlement {
    let mut counters = standing.counters;
    counters.unknowns += 1;
    counters.charged += 1;
    if given_up(standing, &counters) {
        return Settlement::end(counters, Step::Die, Reason::OutcomeUnknown);
    }
    if counters.charged >= ATTEMPTS_MAX {
        return Settlement::end(counters, Step::Die, Reason::AttemptsExhausted);
    }
    Settlement::retry(counters, Reason::OutcomeUnknown, now + backoff(counters.charged, chance).max(asked))
}

/// The claim died after a request was recorded. The platform has refused nothing and may be as well as ever, so this is
/// no attempt; but the row may be what kills.
fn request_lost(standing: &Standing, now: Timestamp) -> Settlement {
    let mut counters = standing.counters;
    counters.unknowns += 1;
    counters.lost_requests += 1;
    if given_up(standing, &counters) {
        return Settlement::end(counters, Step::Die, Reason::OutcomeUnknown);
    }
    if counters.lost_requests >= LOST_REQUESTS_MAX {
        return Settlement::end(counters, Step::Die, Reason::Poison);
    }
    Settlement::retry(counters, Reason::LeaseExpired, now + LOST_REQUEST_WAIT)
}

/// Whether the policy of the lane allows no further try of an outcome that nobody knows.
fn given_up(standing: &Standing, counters: &Counters) -> bool {
    match standing.policy {
        AmbiguityPolicy::Resend => false,
        AmbiguityPolicy::Hold => true,
        AmbiguityPolicy::Reconcile if standing.absent => {
            counters.unknowns - counters.lost_requests > UNKNOWNS_MAX
        }
        AmbiguityPolicy::Reconcile | AmbiguityPolicy::ResendOnce => counters.unknowns > UNKNOWNS_MAX,
    }
}

/// The claim died before any request was recorded: nothing was sent, but the row may be what kills.
fn lost(standing: &Standing, now: Timestamp) -> Settlement {
    let mut counters = standing.counters;
    counters.lost_claims += 1;
    if counters.lost_claims >= LOST_CLAIMS_MAX {
        return Settlement::end(counters, Step::Die, Reason::Poison);
    }
    Settlement::retry(counters, Reason::LeaseExpired, now)
}

fn cooldown(standing: &Standing, failure: &Failure, now: Timestamp) -> AccountEffect {
    let own = doubled(ACCOUNT_COOLDOWN, standing.trouble_streak, ACCOUNT_COOLDOWN_MAX);
    AccountEffect::CooldownUntil(now + asked_wait(failure).unwrap_or(own).max(own))
}

fn asked_wait(failure: &Failure) -> Option<Span> {
    failure.wait().map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// Every ending leaves `sending`.
fn after(performed: Step) -> Status {
    step(Status::Sending, performed).unwrap_or(Status::Dead)
}

impl Settlement {
    fn end(counters: Counters, performed: Step, reason: Reason) -> Settlement {
        Settlement {
            status: after(performed),
            reason: Some(reason),
            counters,
            run_at: None,
            lane: LaneEffect::None,
            destination: DestinationEffect::None,
            account: AccountEffect::None,
        }
    }

    fn retry(counters: Counters, reason: Reason, run_at: Timestamp) -> Settlement {
        Settlement { run_at: Some(run_at), ..Settlement::end(counters, Step::TryAgain, reason) }
    }

    /// A channel has a lane of its own, which waits; of a recipient's lane only this recipient does.
    fn waits(self, destination: Destination, until: Timestamp) -> Settlement {
        match destination {
            Destination::Channel(_) => self.lane(LaneEffect::PauseUntil(until)),
            Destination::Recipient(_) => self.destination(DestinationEffect::PauseUntil(until)),
        }
    }

    fn lane(self, lane: LaneEffect) -> Settlement {
        Settlement { lane, ..self }
    }

    fn destination(self, destination: DestinationEffect) -> Settlement {
        Settlement { destination, ..self }
    }

    fn account(self, account: AccountEffect) -> Settlement {
        Settlement { account, ..self }
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
