//! The clock of a SQLite store. PostgreSQL has its own (`rupor_now()`), so that all nodes share one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use domain::time::{Span, Timestamp};

#[derive(Clone)]
pub enum Clock {
    /// The machine's clock, held so that it never goes back.
    System(Arc<AtomicI64>),
    /// A clock that stands still until a test moves it.
    Hand(Arc<AtomicI64>),
    /// Somebody else's clock: the simulator's.
    Other(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}

impl Clock {
    pub fn system() -> Clock {
        Clock::System(Arc::new(AtomicI64::new(0)))
    }

    pub fn hand(at: Timestamp) -> Clock {
        Clock::Hand(Arc::new(AtomicI64::new(at.0)))
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System(latest) => {
                let now = system_micros();
                Timestamp(latest.fetch_max(now, Ordering::AcqRel).max(now))
            }
            Clock::Hand(at) => Timestamp(at.load(Ordering::Acquire)),
            Clock::Other(now) => now(),
        }
    }

    /// Moves a hand clock, forwards or back; the system clock cannot be moved.
    pub fn advance(&self, span: Span) {
        if let Clock::Hand(at) = self {
            at.fetch_add(span.0, Ordering::AcqRel);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge where the one clock is read")]
fn system_micros() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_clock_that_was_set_back_stands_still() {
        let clock = Clock::System(Arc::new(AtomicI64::new(i64::MAX - 1)));
        assert_eq!(clock.now(), Timestamp(i64::MAX - 1));
    }
}
