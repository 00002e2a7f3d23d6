//! Every limit by name, with its source beside it. A bare number elsewhere is a defect.

use crate::time::Span;

/// Charged attempts before a delivery is dead.
pub const ATTEMPTS_MAX: i32 = 5;
/// Flood waits of one delivery before it is dead.
pub const FLOOD_WAITS_MAX: i32 = 50;
/// How long one delivery may go on waiting for floods.
pub const FLOOD_TOTAL_MAX: Span = Span::from_hours(24);
/// The first backoff; doubles with every charged attempt.
pub const BACKOFF_BASE: Span = Span::from_secs(2);
/// No backoff is longer.
pub const BACKOFF_MAX: Span = Span::from_secs(600);
/// Backoff jitter, one way, in per mille: ±20 %.
pub const BACKOFF_JITTER_PER_MILLE: i64 = 200;
/// The first wait for an upload that is not ready; doubles up to `NOT_READY_WAIT_MAX`.
pub const NOT_READY_WAIT: Span = Span::from_secs(2);
pub const NOT_READY_WAIT_MAX: Span = Span::from_secs(30);
/// Uncharged waits for an upload: 2 + 4 + 8 + 16 + 19 × 30 s is ten minutes.
pub const NOT_READY_WAITS_MAX: i32 = 23;
/// Claims lost without a request before a delivery is poison: all but the first alone, so that neither a neighbour nor
/// a host that keeps throwing the process down condemns it.
pub const LOST_CLAIMS_MAX: i32 = 6;
/// Requests of one delivery that nobody came back from (the process died under them, a lease ran out) before it is
/// poison. Not charged: the platform has refused nothing. Many more than claims lost without a request, for those that
/// are out at the same moment are counted together, and a host may throw the process down for a while.
pub const LOST_REQUESTS_MAX: i32 = 20;
/// The wait after each of them: long enough for a platform to show what it took and for others to go on beside a post
/// that kills; not longer however often it happens, for who waits longer than a process lives is never sent.
pub const LOST_REQUEST_WAIT: Span = Span::from_secs(1);
/// A suspect waits this long for a moment in which its claimer has nothing else that could kill it.
pub const SUSPECT_PATIENCE: Span = Span::from_secs(10);
/// Claims handed back unsent that cost a delivery no wait: a stop, a slot that was missed.
pub const RELEASES_FREE: i32 = 2;
/// The wait after the next one; doubles up to `RELEASE_WAIT_MAX`, so that what cannot leave is not claimed for ever.
pub const RELEASE_WAIT: Span = Span::from_millis(250);
pub const RELEASE_WAIT_MAX: Span = Span::from_secs(60);
/// Unknown outcomes that `resend_once` and `reconcile` survive. Lost requests whose post was looked for and is not there
/// are none of them.
pub const UNKNOWNS_MAX: i32 = 1;

/// First pause of a channel after a permanent failure of its own; doubles with the streak.
pub const CHANNEL_PAUSE: Span = Span::from_secs(600);
/// No such pause is longer.
pub const CHANNEL_PAUSE_MAX: Span = Span::from_hours(24);
/// Failures in a row that disable a channel; a recipient is gone then.
pub const CHANNEL_STREAK_MAX: i32 = 3;
/// Pause of a channel that failed for a moment without naming a wait.
pub const CHANNEL_WAIT: Span = Span::from_secs(30);
/// First cooldown of an account after trouble that names no wait; doubles with the streak.
pub const ACCOUNT_COOLDOWN: Span = Span::from_secs(2);
pub const ACCOUNT_COOLDOWN_MAX: Span = Span::from_secs(60);
/// A wait the platform asks for is obeyed up to here, then probed again (reliability §2.2).
pub const RETRY_AFTER_MAX: Span = Span::from_hours(24);

/// How long a claim is held (`RUPOR_LEASE`).
pub const LEASE: Span = Span::from_secs(60);
/// Rows one claim may return.
pub const CLAIM_BATCH_MAX: usize = 500;
/// Slots may be reserved this far ahead.
pub const CLAIM_AHEAD_MAX: Span = Span::from_millis(250);
/// Accounts looked at by one claim; the longest waiting come first.
pub const CLAIM_ACCOUNTS_MAX: usize = 256;
/// Urgent rows in a row before a bulk row gets its turn: bulk never falls below 1 in 10.
pub const URGENT_RUN_MAX: i32 = 9;

/// A lane whose next row is a retry that finds no room (`retry_parallel`) is looked at again after this long.
pub const RETRY_LOOK: Span = Span::from_millis(250);

/// Messages in one enqueue call.
pub const ENQUEUE_BATCH_MAX: usize = 10_000;
/// Bytes of one payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Characters kept of an error text.
pub const ERROR_TEXT_MAX: usize = 500;
/// Bytes kept of what a platform answered to a failure; a longer answer is left out.
pub const ERROR_RAW_BYTES_MAX: usize = 4 * ERROR_TEXT_MAX;
/// Parts of one delivery whose progress is kept; render never makes as many.
pub const RECORDED_PARTS_MAX: u32 = 1_000;
/// Slots one call may pay for at once; a caller that wants more is mistaken.
pub const SLOTS_RESERVED_MAX: usize = 1_000;
/// No slot is asked for later than this on purpose.
pub const SLOT_LEAD_MAX: Span = Span::from_secs(1);

/// Sent rows are remembered this long by default.
pub const DEDUP_TTL: Span = Span::from_hours(168);
/// … and this long with the preset pets.
pub const DEDUP_TTL_PETS: Span = Span::from_hours(72);

/// An alert: more attempts of a channel than this failed within ten minutes and are made again.
pub const ALERT_RETRIES_MAX: i64 = 30;
/// An alert: so many claims within ten minutes were lost by whoever held them.
pub const ALERT_LOST_LEASES_MIN: i64 = 3;
/// An alert: a post that may go has waited for longer.
pub const ALERT_LAG: Span = Span::from_secs(15 * 60);
/// An alert: nobody has taken what is due for longer. Two leases and a poll are ordinary.
pub const ALERT_STUCK: Span = Span(2 * LEASE.0 + 5_000_000);
/// A source that fails for longer than this does not heal by itself.
pub const ALERT_SOURCE: Span = Span::from_secs(3_600);
/// An alert: a longer wait, even if it ends by itself. A captcha rests for an hour, and is meant.
pub const ALERT_WAIT: Span = Span::from_secs(3_600 - 60);
/// Rests of an account up to this are nobody's business.
pub const ALERT_REST: Span = Span::from_secs(60);
/// An alert: nobody has looked at a message to a bot for longer.
pub const ALERT_BOT_WAIT: Span = Span::from_secs(60);
/// An alert: of at least so many messages within an hour more than one in so many was not understood.
pub const ALERT_BOT_MESSAGES_MIN: i64 = 50;
pub const ALERT_BOT_LOST_SHARE: i64 = 5;
/// An alert: a person has waited for a human for longer.
pub const ALERT_BOT_HANDOFF: Span = Span::from_secs(30 * 60);
/// An alert: a platform has not answered a bot for so long.
pub const ALERT_BOT_DEAF: Span = Span::from_secs(60);

/// How much of what a platform allows is used, as a share. Platforms count arrivals in a sliding second, and the way
/// there is not always equally long: without a margin every other request would come a moment too early.
pub const LIMIT_USED: f64 = 0.98;

/// The slower of what is set and what is allowed, less the margin; `None` is no limit.
pub fn effective_rate(setting: Option<f64>, limit: Option<f64>) -> Option<f64> {
    match (setting, limit.map(|limit| limit * LIMIT_USED)) {
        (Some(setting), Some(limit)) => Some(setting.min(limit)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_setting_and_limit_counts() {
        let group = Some(20.0 / 60.0);
        assert_eq!(effective_rate(Some(1.0), group), Some(20.0 / 60.0 * 0.98));
        assert_eq!(effective_rate(Some(0.1), group), Some(0.1));
        assert_eq!(effective_rate(None, Some(2.0)), Some(1.96));
        assert_eq!(effective_rate(Some(5.0), None), Some(5.0));
        assert_eq!(effective_rate(None, None), None);
    }
}
