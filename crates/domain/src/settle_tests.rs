//! The policy of `settle`, row by row.

use super::*;
use crate::ids::{ChannelId, RecipientId};
use crate::outcome::Sent;

const NOW: Timestamp = Timestamp(1_000_000_000);
const A: Destination = Destination::Channel(ChannelId(1));
const B: Destination = Destination::Channel(ChannelId(2));
const ANNA: Destination = Destination::Recipient(RecipientId(1));
const BORIS: Destination = Destination::Recipient(RecipientId(2));

const LOST_REQUEST: Ending = Ending::LeaseExpired { requested: true };

fn standing(policy: AmbiguityPolicy) -> Standing {
    Standing {
        counters: Counters { attempt: 1, ..Counters::default() },
        policy,
        destination: A,
        error_streak: 0,
        flood: None,
        trouble_streak: 0,
        absent: false,
    }
}

fn failure(category: Category, scope: Scope) -> Failure {
    Failure::new(category, scope, "x", "")
}

fn check(standing: &Standing, ending: Ending) -> Settlement {
    settle(standing, &ending, NOW, Chance::NONE)
}

fn check_failure(standing: &Standing, failure: Failure) -> Settlement {
    check(standing, Ending::Outcome(Outcome::Failed(failure)))
}

fn until(seconds: i64) -> Timestamp {
    NOW + Span::from_secs(seconds)
}

#[test]
fn sent_ends_the_streaks() {
    let sent = Sent { provider_message_id: Some("1".into()), raw: serde_json::Value::Null };
    let settled = check(&standing(AmbiguityPolicy::ResendOnce), Ending::Outcome(Outcome::Sent(sent)));
    assert_eq!(settled.status, Status::Sent);
    assert_eq!((settled.destination, settled.account), (DestinationEffect::Healthy, AccountEffect::Healthy));
}

#[test]
fn a_transient_failure_backs_off_and_is_charged_until_the_limit() {
    let mut at = standing(AmbiguityPolicy::ResendOnce);
    for charged in 1..ATTEMPTS_MAX {
        let settled = check_failure(&at, failure(Category::Transient, Scope::Delivery));
        let wait = backoff(charged, Chance::NONE);
        assert_eq!((settled.counters.charged, settled.run_at), (charged, Some(NOW + wait)));
        at.counters = settled.counters;
    }
    let settled = check_failure(&at, failure(Category::Transient, Scope::Delivery));
    assert_eq!((settled.status, settled.reason), (Status::Dead, Some(Reason::AttemptsExhausted)));
}

#[test]
fn a_named_wait_is_never_undercut() {
    let asked = failure(Category::Transient, Scope::Delivery).retry_after(37_000);
    assert_eq!(check_failure(&standing(AmbiguityPolicy::Resend), asked).run_at, Some(until(37)));
}

#[test]
fn a_flood_pauses_the_channel_and_is_not_charged() {
    let settled = check_failure(
        &standing(AmbiguityPolicy::ResendOnce),
        failure(Category::Transient, Scope::Channel).retry_after(5_000),
    );
    assert_eq!((settled.status, settled.run_at), (Status::Retry, Some(until(5))));
    assert_eq!((settled.counters.charged, settled.counters.flood_waits), (0, 1));
    assert_eq!(
        (settled.lane, settled.destination),
        (LaneEffect::PauseUntil(until(5)), DestinationEffect::None)
    );
    assert_eq!(settled.account, AccountEffect::RememberFlood(A, until(5)));
}

#[test]
fn a_chat_that_is_only_waited_for_slows_nobody_else() {
    let waits = Failure::new(Category::Transient, Scope::Channel, CODE_CHAT_WAITS, "").retry_after(30_000);
    for destination in [A, ANNA] {
        let at = standing(AmbiguityPolicy::ResendOnce);
        let at = Standing { destination, flood: Some((B, until(60))), ..at };
        let settled = check_failure(&at, waits.clone());
        assert_eq!((settled.status, settled.run_at), (Status::Retry, Some(until(30))));
        assert_eq!((settled.lane, settled.destination), (LaneEffect::None, DestinationEffect::None));
        assert_eq!((settled.account, settled.counters.flood_waits), (AccountEffect::None, 0));
    }
}

#[test]
fn a_second_flooding_chat_cools_the_account_down() {
    let flood = || failure(Category::Transient, Scope::Channel).retry_after(5_000);
    let mut at = Standing { flood: Some((B, until(1))), ..standing(AmbiguityPolicy::ResendOnce) };
    assert_eq!(check_failure(&at, flood()).account, AccountEffect::CooldownUntil(until(5)));
    at.flood = Some((B, NOW));
    assert_eq!(check_failure(&at, flood()).account, AccountEffect::RememberFlood(A, until(5)));
    at.flood = Some((A, until(1)));
    assert_eq!(check_failure(&at, flood()).account, AccountEffect::RememberFlood(A, until(5)));
}

#[test]
fn floods_end_at_the_cap() {
    let flood = || failure(Category::Transient, Scope::Platform).retry_after(1_000);
    let mut at = standing(AmbiguityPolicy::ResendOnce);
    at.counters.flood_waits = FLOOD_WAITS_MAX - 1;
    assert_eq!(check_failure(&at, flood()).reason, Some(Reason::FloodCap));
    at.counters.flood_waits = 1;
    at.counters.flood_since = Some(NOW - FLOOD_TOTAL_MAX);
    let settled = check_failure(&at, flood());
    assert_eq!((settled.status, settled.reason), (Status::Dead, Some(Reason::FloodCap)));
    assert_eq!(settled.account, AccountEffect::CooldownUntil(until(1)), "the wait is obeyed all the same");
}

#[test]
fn an_outage_cools_the_account_down_and_charges_nobody() {
    let mut at = standing(AmbiguityPolicy::ResendOnce);
    for (streak, seconds) in [(0, 2), (1, 4), (4, 32), (9, 60)] {
        at.trouble_streak = streak;
        let settled = check_failure(&at, failure(Category::Transient, Scope::Platform));
        assert_eq!(settled.account, AccountEffect::CooldownUntil(until(seconds)));
        assert_eq!((settled.status, settled.counters), (Status::Retry, at.counters));
    }
}

#[test]
fn a_refusal_of_the_channel_strikes_it() {
    let mut at = standing(AmbiguityPolicy::ResendOnce);
    for (error_streak, minutes, disable) in [(1, 10, false), (2, 20, false), (3, 40, true)] {
        at.error_streak = error_streak - 1;
        let settled = check_failure(&at, failure(Category::Permanent, Scope::Channel));
        assert_eq!((settled.status, settled.reason), (Status::FailedPermanent, Some(Reason::Refused)));
        let paused_until = until(minutes * 60);
        assert_eq!(settled.destination, DestinationEffect::Strike { error_streak, disable });
        assert_eq!(settled.lane, LaneEffect::PauseUntil(paused_until));
    }
}

#[test]
fn a_refusal_of_the_account_keeps_the_backlog() {
    let settled =
        check_failure(&standing(AmbiguityPolicy::Hold), failure(Category::Permanent, Scope::Platform));
    assert_eq!((settled.status, settled.reason), (Status::Retry, Some(Reason::AccountTrouble)));
    assert_eq!((settled.counters.charged, settled.account), (0, AccountEffect::Pause));
}

#[test]
fn an_unknown_outcome_follows_the_channels_policy() {
    let unknown = || failure(Category::Transient, Scope::Delivery).unknown();
    for (policy, survives) in [
        (AmbiguityPolicy::Hold, 0),
        (AmbiguityPolicy::ResendOnce, UNKNOWNS_MAX),
        (AmbiguityPolicy::Reconcile, UNKNOWNS_MAX),
        (AmbiguityPolicy::Resend, ATTEMPTS_MAX - 1),
    ] {
        let mut at = standing(policy);
        for n in 1..=survives {
            let settled = check_failure(&at, unknown());
            assert_eq!((settled.status, settled.counters.unknowns), (Status::Retry, n), "{policy:?}");
            at.counters = settled.counters;
        }
        assert_eq!(check_failure(&at, unknown()).status, Status::Dead, "{policy:?}");
    }
}

#[test]
fn an_expired_lease_is_unknown_only_if_a_request_was_recorded() {
    let at = standing(AmbiguityPolicy::Hold);
    assert_eq!(check(&at, LOST_REQUEST).reason, Some(Reason::OutcomeUnknown));
    let settled = check(&at, Ending::LeaseExpired { requested: false });
    assert_eq!((settled.status, settled.run_at), (Status::Retry, Some(NOW)));
    assert_eq!(
        (settled.counters.lost_claims, settled.counters.unknowns, settled.counters.charged),
        (1, 0, 0)
    );
}

/// Where the platform recognises repeats, the death of our own process is no attempt.
#[test]
fn a_request_lost_with_its_process_is_not_charged() {
    let mut at = standing(AmbiguityPolicy::Resend);
    for n in 1..LOST_REQUESTS_MAX {
        let settled = check(&at, LOST_REQUEST);
        assert_eq!((settled.status, settled.reason), (Status::Retry, Some(Reason::LeaseExpired)));
        assert_eq!(settled.run_at, Some(NOW + LOST_REQUEST_WAIT), "the lane does not stand still for long");
        let counters = settled.counters;
        assert_eq!((counters.lost_requests, counters.unknowns, counters.charged), (n, n, 0));
        at.counters = counters;
    }
    let settled = check(&at, LOST_REQUEST);
    assert_eq!((settled.status, settled.reason), (Status::Dead, Some(Reason::Poison)));
    // What was lost before leaves all attempts to what the platform answers.
    at.counters.unknowns -= 1;
    for charged in 1..ATTEMPTS_MAX {
        let settled = check_failure(&at, failure(Category::Transient, Scope::Delivery));
        assert_eq!((settled.status, settled.counters.charged), (Status::Retry, charged));
        at.counters = settled.counters;
    }
}

#[test]
fn a_lost_request_counts_against_the_policy_unless_its_post_is_certainly_absent() {
    let unknown = || failure(Category::Transient, Scope::Delivery).unknown();
    let twice_lost = |policy, absent| {
        let at = standing(policy);
        let first = check(&at, LOST_REQUEST);
        assert_eq!(first.status, Status::Retry);
        Standing { counters: first.counters, absent, ..at }
    };
    for policy in [AmbiguityPolicy::ResendOnce, AmbiguityPolicy::Reconcile] {
        let settled = check(&twice_lost(policy, false), LOST_REQUEST);
        assert_eq!((settled.status, settled.reason), (Status::Dead, Some(Reason::OutcomeUnknown)));
    }
    let at = twice_lost(AmbiguityPolicy::ResendOnce, true);
    assert_eq!(check(&at, LOST_REQUEST).status, Status::Dead, "nobody looked under this policy");

    // Looked for, not there, sent, and lost again: as at the first time.
    let mut at = twice_lost(AmbiguityPolicy::Reconcile, true);
    for _ in 2..LOST_REQUESTS_MAX {
        let settled = check(&at, LOST_REQUEST);
        assert_eq!((settled.status, settled.counters.charged), (Status::Retry, 0));
        at.counters = settled.counters;
    }
    assert_eq!(check(&at, LOST_REQUEST).reason, Some(Reason::Poison));
    // What the platform itself leaves open is counted as ever.
    let settled = check_failure(&at, unknown());
    assert_eq!(settled.status, Status::Retry);
    at.counters = settled.counters;
    let settled = check_failure(&at, unknown());
    assert_eq!((settled.status, settled.reason), (Status::Dead, Some(Reason::OutcomeUnknown)));
}

#[test]
fn the_last_claim_that_may_be_lost_makes_it_poison() {
    let mut at = standing(AmbiguityPolicy::Resend);
    at.counters.lost_claims = LOST_CLAIMS_MAX - 1;
    let settled = check(&at, Ending::LeaseExpired { requested: false });
    assert_eq!((settled.status, settled.reason), (Status::Dead, Some(Reason::Poison)));
}

#[test]
fn an_upload_that_is_not_ready_waits_uncharged_and_then_counts() {
    let not_ready = || Failure::new(Category::Transient, Scope::Delivery, CODE_NOT_READY, "");
    let mut at = standing(AmbiguityPolicy::Reconcile);
    let settled = check_failure(&at, not_ready());
    assert_eq!((settled.reason, settled.run_at), (Some(Reason::NotReady), Some(until(2))));
    at.counters.not_ready_waits = NOT_READY_WAITS_MAX;
    assert_eq!(check_failure(&at, not_ready()).counters.charged, 1);
}

#[test]
fn a_claim_handed_back_costs_nothing() {
    let at = standing(AmbiguityPolicy::Hold);
    let settled = check(&at, Ending::Released);
    assert_eq!((settled.status, settled.counters, settled.run_at), (Status::Retry, at.counters, Some(NOW)));
}

#[test]
fn a_flood_of_one_recipient_makes_that_recipient_wait_and_nobody_else() {
    let flood = || failure(Category::Transient, Scope::Channel).retry_after(5_000);
    let mut at = Standing { destination: ANNA, ..standing(AmbiguityPolicy::ResendOnce) };
    let settled = check_failure(&at, flood());
    assert_eq!((settled.status, settled.run_at), (Status::Retry, Some(until(5))));
    assert_eq!(
        (settled.lane, settled.destination),
        (LaneEffect::None, DestinationEffect::PauseUntil(until(5)))
    );
    assert_eq!(settled.account, AccountEffect::RememberFlood(ANNA, until(5)));
    // A second chat within the wait, be it a person or a channel: the account is too fast.
    for first in [BORIS, A] {
        at.flood = Some((first, until(1)));
        assert_eq!(check_failure(&at, flood()).account, AccountEffect::CooldownUntil(until(5)));
    }
    at.flood = Some((BORIS, NOW));
    assert_eq!(check_failure(&at, flood()).account, AccountEffect::RememberFlood(ANNA, until(5)));
}

#[test]
fn a_recipient_who_blocked_us_is_gone_and_nothing_else_happens() {
    let blocked = || Failure { recipient_gone: true, ..failure(Category::Permanent, Scope::Channel) };
    let at = Standing { destination: ANNA, ..standing(AmbiguityPolicy::ResendOnce) };
    let settled = check_failure(&at, blocked());
    assert_eq!((settled.status, settled.reason), (Status::FailedPermanent, Some(Reason::RecipientGone)));
    assert_eq!((settled.lane, settled.destination), (LaneEffect::None, DestinationEffect::Gone));
    assert_eq!(settled.account, AccountEffect::None);
    // A channel that threw us out is struck as before: somebody may let us in again.
    let settled = check_failure(&standing(AmbiguityPolicy::ResendOnce), blocked());
    assert!(matches!(settled.destination, DestinationEffect::Strike { .. }));
}

#[test]
fn a_recipient_that_keeps_refusing_is_gone_in_the_end() {
    let mut at = Standing { destination: ANNA, ..standing(AmbiguityPolicy::ResendOnce) };
    for (error_streak, disable) in [(1, false), (2, false), (3, true)] {
        at.error_streak = error_streak - 1;
        let settled = check_failure(&at, failure(Category::Permanent, Scope::Channel));
        assert_eq!(settled.destination, DestinationEffect::Strike { error_streak, disable });
        assert_eq!((settled.lane, settled.account), (LaneEffect::None, AccountEffect::None));
    }
}

#[test]
fn what_is_handed_back_again_and_again_waits_longer_and_longer() {
    let wait = |attempt: i32| {
        let counters = Counters { attempt, ..Counters::default() };
        release_wait(&counters).millis()
    };
    assert_eq!([1, 2, 3, 4, 5, 20].map(wait), [0, 0, 250, 500, 1_000, 60_000]);
    let counters =
        Counters { attempt: 12, charged: 4, flood_waits: 3, lost_requests: 3, ..Counters::default() };
    assert_eq!(release_wait(&counters), Span::ZERO, "what was tried is not counted");
}
