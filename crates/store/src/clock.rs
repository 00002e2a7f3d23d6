//! The clock of a SQLite store. PostgreSQL has its own (`rupor_now()`), so that all nodes share one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use domain::time::{Span, Timestamp};

/// A machine's clock that disagrees with the time that passed by more than this was set.
const STEP: i64 = 2_000_000;

#[derive(Clone)]
pub enum Clock {
    /// The machine's clock, held so that it never goes back.
    System(Arc<Steady>),
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
        Clock::System(Arc::default())
    }

    pub fn hand(at: Timestamp) -> Clock {
        Clock::Hand(Arc::new(AtomicI64::new(at.0)))
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System(steady) => Timestamp(steady.read(system_micros(), Instant::now())),
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

    /// How far the machine's clock was set back since this was asked for last.
    pub fn take_step(&self) -> Option<Span> {
        let Clock::System(steady) = self else {
            return None;
        };
        let step = std::mem::take(&mut steady.lock().step);
        (step > 0).then_some(Span(step))
    }
}

/// The machine's clock for as long as one process runs: it follows corrections and steps forward, and where the clock
/// was set back it goes on at the pace of the monotonic one. Slots and leases lie a moment ahead, and a clock that goes
/// back (or stands still until it is there again) would silence everything meanwhile.
#[derive(Debug, Default)]
pub struct Steady(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What was told last, and when.
    told: i64,
    at: Option<Instant>,
    /// How far the machine's clock is behind since it was set back.
    behind: i64,
    /// Set back since somebody asked.
    step: i64,
}

impl Steady {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, given what the machine says and what has passed.
    fn read(&self, wall: i64, at: Instant) -> i64 {
        let mut state = self.lock();
        let passed = state.at.map_or(0, |last| at.saturating_duration_since(last).as_micros());
        let expected = match state.at {
            None => wall,
            Some(_) => state.told.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)),
        };
        let here = wall.saturating_add(state.behind);
        if here < expected.saturating_sub(STEP) {
            state.step += expected - here;
            state.behind = expected - wall;
        } else if state.behind > 0 && here > expected.saturating_add(STEP) {
            // Set forward again: nearer to the truth, and still no jump.
            state.behind = (expected - wall).max(0);
        }
        state.told = state.told.max(wall.saturating_add(state.behind));
        state.at = Some(state.at.map_or(at, |last| last.max(at)));
        state.told
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge where the one clock is read")]
fn system_micros() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: i64 = 1_000_000;

    /// What is told at these seconds of a run, while the machine says those; and the step that was noticed.
    fn readings_of(readings: &[(u64, i64)]) -> (Vec<i64>, Option<i64>) {
        let (steady, start) = (Arc::new(Steady::default()), Instant::now());
        let read = |&(passed, wall): &(u64, i64)| {
            steady.read(wall * SECOND, start + Duration::from_secs(passed)) / SECOND
        };
        let told = readings.iter().map(read).collect();
        (told, Clock::System(steady).take_step().map(|step| step.0 / SECOND))
    }

    #[test]
    fn a_clock_that_steps_back_goes_on_at_the_pace_of_the_run() {
        let readings = [(0, 10_000), (1, 10_001), (2, 9_402), (3, 9_403), (60, 9_460)];
        assert_eq!(readings_of(&readings), (vec![10_000, 10_001, 10_002, 10_003, 10_060], Some(600)));
    }

    #[test]
    fn a_clock_that_is_set_right_again_is_followed_without_a_jump() {
        let readings = [(0, 10_000), (1, 9_401), (2, 10_002), (3, 10_003), (4, 20_000)];
        assert_eq!(readings_of(&readings), (vec![10_000, 10_001, 10_002, 10_003, 20_000], Some(600)));
    }

    #[test]
    fn small_corrections_and_steps_forward_are_followed() {
        assert_eq!(readings_of(&[(0, 100), (10, 109), (20, 119)]), (vec![100, 109, 119], None));
        assert_eq!(readings_of(&[(0, 100), (1, 3_701), (2, 3_702)]), (vec![100, 3_701, 3_702], None));
    }
}
