//! The ledger's clock as this node sees it.
//!
//! Slots and leases are instants of the database clock. The node reads that clock now and then and goes on from
//! there by its own monotonic clock, so that a wall clock that jumps changes nothing. The reading is taken as of the
//! moment its answer arrived: a node is late by the way of the answer, never early.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::time::{Span, Timestamp};
use tokio::time::Instant;

#[derive(Debug)]
pub struct Timebase {
    reading: Mutex<(Timestamp, Instant)>,
}

impl Timebase {
    pub fn new(now: Timestamp) -> Timebase {
        Timebase { reading: Mutex::new((now, Instant::now())) }
    }

    /// A new reading of the ledger's clock, just arrived.
    pub fn set(&self, now: Timestamp) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = (now, Instant::now());
    }

    pub fn now(&self) -> Timestamp {
        let (at, read) = *self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        at + Span(i64::try_from(read.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    /// How long until then; zero when it has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        (at - self.now()).into()
    }
}
