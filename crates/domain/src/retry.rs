//! When to try again: the one retry layer there is.

use crate::delivery::Counters;
use crate::limits::{
    BACKOFF_BASE, BACKOFF_JITTER_PER_MILLE, BACKOFF_MAX, NOT_READY_WAIT, NOT_READY_WAIT_MAX, RELEASE_WAIT,
    RELEASE_WAIT_MAX, RELEASES_FREE,
};
use crate::time::Span;

/// A number from 0 to 999 999, drawn by the caller: rules never throw dice themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance(i64);

impl Chance {
    /// The middle: no jitter at all.
    pub const NONE: Chance = Chance(500_000);

    pub fn new(drawn: u32) -> Chance {
        Chance(i64::from(drawn % 1_000_000))
    }

    pub fn ppm(self) -> i64 {
        self.0
    }
}

/// 2 s × 2^(charged−1), at most ten minutes, ±20 %.
pub fn backoff(charged: i32, chance: Chance) -> Span {
    let delay = doubled(BACKOFF_BASE, charged - 1, BACKOFF_MAX);
    let swing = delay.micros() * BACKOFF_JITTER_PER_MILLE / 1_000;
    Span::from_micros(delay.micros() - swing + 2 * swing * chance.ppm() / 1_000_000)
}

/// The n-th short wait for an upload that is not ready yet.
pub fn not_ready_wait(n: i32) -> Span {
    doubled(NOT_READY_WAIT, n - 1, NOT_READY_WAIT_MAX)
}

/// `base` × 2^`times`, at most `cap`; a negative `times` counts as zero.
pub fn doubled(base: Span, times: i32, cap: Span) -> Span {
    let shift = times.clamp(0, 30).unsigned_abs();
    Span::from_micros(base.micros().saturating_mul(1 << shift).min(cap.micros()))
}

/// How long a delivery waits that was handed back unsent, by how many of its claims came to nothing.
pub fn release_wait(counters: &Counters) -> Span {
    let waited = counters.flood_waits + counters.not_ready_waits;
    let lost = counters.lost_claims + counters.lost_requests;
    let idle = counters.attempt - counters.charged - waited - lost;
    match idle <= RELEASES_FREE {
        true => Span::ZERO,
        false => doubled(RELEASE_WAIT, idle - RELEASES_FREE - 1, RELEASE_WAIT_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_ten_minutes() {
        let secs: Vec<i64> = (1..=10).map(|n| backoff(n, Chance::NONE).millis() / 1_000).collect();
        assert_eq!(secs, [2, 4, 8, 16, 32, 64, 128, 256, 512, 600]);
    }

    #[test]
    fn backoff_spreads_by_a_fifth_to_either_side() {
        assert_eq!(backoff(1, Chance::new(0)).millis(), 1_600);
        assert_eq!(backoff(1, Chance::new(999_999)).millis(), 2_399);
        assert_eq!(backoff(100, Chance::NONE), BACKOFF_MAX);
        assert_eq!(backoff(0, Chance::NONE), backoff(1, Chance::NONE));
    }

    #[test]
    fn waits_for_an_upload_add_up_to_ten_minutes() {
        let total: i64 = (1..=crate::limits::NOT_READY_WAITS_MAX).map(|n| not_ready_wait(n).millis()).sum();
        assert_eq!(total, 600_000);
    }
}
