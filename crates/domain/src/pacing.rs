//! Slots: the arithmetic of a rate limit (GCRA), the same for an account and for a channel.
//!
//! A `Pace` remembers one instant, the theoretical arrival time of the next request. A slot is taken by
//! moving it on by one interval; a slot once taken is never given back, so two takers cannot share one.

use crate::time::{Span, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between two requests; zero means unlimited.
    pub interval: Span,
    /// How many requests may come at once after a silence; at least 1.
    pub burst: i32,
    /// When the next request is due by the long-run rate.
    pub next_slot: Timestamp,
}

impl Pace {
    /// The earliest slot at or after `now`.
    pub fn earliest(&self, now: Timestamp) -> Timestamp {
        now.max(self.next_slot - self.tolerance())
    }

    /// How many slots there are from `now` until then, that instant included.
    pub fn available(&self, now: Timestamp, until: Timestamp) -> usize {
        if self.interval <= Span::ZERO {
            return usize::MAX;
        }
        let whole = (until - self.next_slot.max(now)).micros().div_euclid(self.interval.micros());
        usize::try_from(whole.saturating_add(i64::from(self.burst.max(1)))).unwrap_or(0)
    }

    /// Takes the slot at `slot`, which must not be before `earliest`.
    pub fn take(&mut self, slot: Timestamp) {
        self.next_slot = self.next_slot.max(slot) + self.interval;
    }

    /// Takes `n` slots in a row and returns the last of them.
    pub fn reserve(&mut self, now: Timestamp, n: u32) -> Timestamp {
        let mut slot = self.earliest(now);
        for taken in 0..n {
            if taken > 0 {
                slot = self.earliest(now);
            }
            self.take(slot);
        }
        slot
    }

    fn tolerance(&self) -> Span {
        Span::from_micros(self.interval.micros().saturating_mul(i64::from(self.burst.max(1)) - 1))
    }
}

/// The interval of a rate a second; no rate or a rate of zero is unlimited.
pub fn interval(rate_per_second: Option<f64>) -> Span {
    match rate_per_second {
        Some(rate) if rate > 0.0 => Span::from_micros((1_000_000.0 / rate).ceil() as i64),
        _ => Span::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(pace: &mut Pace, now: i64, n: usize) -> Vec<i64> {
        (0..n)
            .map(|_| {
                let slot = pace.earliest(Timestamp(now));
                pace.take(slot);
                slot.0
            })
            .collect()
    }

    #[test]
    fn slots_lie_one_interval_apart() {
        let mut pace = Pace { interval: Span(100), burst: 1, next_slot: Timestamp(0) };
        assert_eq!(slots(&mut pace, 1_000, 4), [1_000, 1_100, 1_200, 1_300]);
        assert_eq!(slots(&mut pace, 1_050, 1), [1_400]);
    }

    #[test]
    fn a_burst_is_paid_back() {
        let mut pace = Pace { interval: Span(100), burst: 3, next_slot: Timestamp(0) };
        assert_eq!(slots(&mut pace, 1_000, 5), [1_000, 1_000, 1_000, 1_100, 1_200]);
    }

    #[test]
    fn as_many_slots_are_available_as_can_be_taken_until_then() {
        for burst in [1, 3] {
            for next_slot in [0, 950, 1_000, 1_270, 1_600, 9_000] {
                let pace = Pace { interval: Span(100), burst, next_slot: Timestamp(next_slot) };
                for until in [1_000, 1_050, 1_250, 1_300] {
                    let taken =
                        slots(&mut pace.clone(), 1_000, 50).iter().filter(|slot| **slot <= until).count();
                    assert_eq!(pace.available(Timestamp(1_000), Timestamp(until)), taken, "{pace:?} {until}");
                }
            }
        }
        let unlimited = Pace { interval: Span::ZERO, burst: 1, next_slot: Timestamp(9_000) };
        assert_eq!(unlimited.available(Timestamp(1_000), Timestamp(1_000)), usize::MAX);
    }

    #[test]
    fn no_interval_is_no_limit() {
        let mut pace = Pace { interval: Span::ZERO, burst: 1, next_slot: Timestamp(0) };
        assert_eq!(slots(&mut pace, 7, 3), [7, 7, 7]);
    }

    #[test]
    fn a_clock_that_goes_back_does_not_reopen_a_slot() {
        let mut pace = Pace { interval: Span(100), burst: 1, next_slot: Timestamp(0) };
        assert_eq!(slots(&mut pace, 1_000, 2), [1_000, 1_100]);
        assert_eq!(slots(&mut pace, 500, 1), [1_200]);
    }
}
