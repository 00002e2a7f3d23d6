//! The ledger's clock as this node sees it.
//!
//! Slots and leases are instants of the database clock. The node reads that clock now and then and goes on from
//! there by its own monotonic clock, so that a wall clock that jumps changes nothing. A reading was taken somewhere
//! between question and answer. While what the node believes fits into that, it stands: a slow answer must not move
//! the clock to and fro. Otherwise the node takes it as of the moment the answer arrived: late by its way, never early.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::time::{Span, Timestamp};
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Timebase {
    reading: Mutex<(Timestamp, Instant)>,
}

impl Timebase {
    pub(super) fn new(now: Timestamp) -> Timebase {
        Timebase { reading: Mutex::new((now, Instant::now())) }
    }

    /// A new reading of the ledger's clock, asked for then and just arrived.
    pub(super) fn set(&self, now: Timestamp, asked: Instant) {
        let arrived = Instant::now();
        let way = span(arrived - asked);
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let believed = reading.0 + span(arrived - reading.1);
        if believed < now || believed > now + way {
            *reading = (now, arrived);
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        let (at, read) = *self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        at + span(read.elapsed())
    }

    /// How long until then; zero when it has passed.
    pub(super) fn until(&self, at: Timestamp) -> Duration {
        (at - self.now()).into()
    }
}

fn span(duration: Duration) -> Span {
    Span(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading that shows `shown` after `way`, on a node that believes it is 1 000 ms when it asks.
    async fn believed_after(shown: i64, way: u64) -> i64 {
        let time = Timebase::new(Timestamp(1_000_000));
        let asked = Instant::now();
        tokio::time::advance(Duration::from_millis(way)).await;
        time.set(Timestamp(shown * 1_000), asked);
        time.now().0 / 1_000
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_that_fits_changes_nothing() {
        assert_eq!(believed_after(1_000, 400).await, 1_400);
        assert_eq!(believed_after(1_200, 400).await, 1_400);
        assert_eq!(believed_after(1_400, 400).await, 1_400);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_behind_or_ahead_is_late_by_the_way_of_the_answer_at_most() {
        assert_eq!(believed_after(1_450, 400).await, 1_450);
        assert_eq!(believed_after(900, 400).await, 900);
        assert_eq!(believed_after(1_000_000, 3).await, 1_000_000);
    }
}
