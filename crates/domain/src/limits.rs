//! Every limit by name, with its source beside it. A bare number elsewhere is a defect.

use crate::time::Span;

/// Charged attempts before a delivery is dead (DESIGN §8).
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
/// Claims lost without a request before a delivery is poison.
pub const LOST_CLAIMS_MAX: i32 = 3;
/// Unknown outcomes that `resend_once` and `reconcile` survive.
pub const UNKNOWNS_MAX: i32 = 1;

/// First pause of a channel after a permanent failure of its own; doubles with the streak.
pub const CHANNEL_PAUSE: Span = Span::from_secs(600);
/// Failures in a row that disable a channel.
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

/// Messages in one enqueue call.
pub const ENQUEUE_BATCH_MAX: usize = 10_000;
/// Bytes of one payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Characters kept of an error text.
pub const ERROR_TEXT_MAX: usize = 500;

/// Sent rows are remembered this long by default.
pub const DEDUP_TTL: Span = Span::from_hours(168);
/// … and this long with the preset pets.
pub const DEDUP_TTL_PETS: Span = Span::from_hours(72);
