//! The one place that knows what time it is.
//! Everything else asks a `Clock`, so that tests of limits can turn the hands themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Says the time in milliseconds since the epoch.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The clock of the machine.
    #[default]
    Wall,
    /// A clock that stands still until a test moves it.
    Hand(Arc<AtomicI64>),
}

impl Clock {
    /// A hand clock that shows `start_ms`.
    pub fn hand(start_ms: i64) -> Clock {
        Clock::Hand(Arc::new(AtomicI64::new(start_ms)))
    }

    /// Moves a hand clock forward; the wall clock moves by itself.
    pub fn advance(&self, ms: i64) {
        if let Clock::Hand(hand) = self {
            hand.fetch_add(ms, Ordering::SeqCst);
        }
    }

    /// Milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        match self {
            Clock::Wall => wall_ms(),
            Clock::Hand(hand) => hand.load(Ordering::SeqCst),
        }
    }

    /// Seconds since the epoch, as Telegram and VK count.
    pub fn now_s(&self) -> i64 {
        self.now_ms().div_euclid(1000)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge where the wall clock enters")]
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
