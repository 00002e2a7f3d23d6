//! Sliding windows: how many requests of a kind were let through lately.
//! The platforms name the windows and the numbers; this module only counts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Whether the platforms' speed limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitsMode {
    /// Everything is let through.
    #[default]
    Off,
    /// As the platforms do.
    Real,
}

/// One rule for one request: at most `most` requests under `key` in any `window_ms`.
#[derive(Clone, Debug)]
pub struct Window {
    pub key: String,
    pub most: usize,
    pub window_ms: i64,
}

impl Window {
    pub fn new(key: impl Into<String>, most: usize, window_ms: i64) -> Window {
        Window { key: key.into(), most, window_ms }
    }
}

/// The counters.
#[derive(Debug)]
pub struct Limits {
    mode: LimitsMode,
    seen: Mutex<HashMap<String, Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    at_ms: VecDeque<i64>,
    window_ms: i64,
}

/// Beyond this many keys the quiet ones are forgotten.
const KEYS_MAX: usize = 20_000;

impl Limits {
    pub fn new(mode: LimitsMode) -> Limits {
        Limits { mode, seen: Mutex::default() }
    }

    pub fn mode(&self) -> LimitsMode {
        self.mode
    }

    /// Counts a request in all its windows, or in none: then says after how many milliseconds it would pass.
    pub fn take(&self, windows: &[Window], now_ms: i64) -> Result<(), i64> {
        if self.mode == LimitsMode::Off || windows.is_empty() {
            return Ok(());
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let wait_ms =
            windows.iter().map(|window| wait_ms(seen.get(&window.key), window, now_ms)).max().unwrap_or(0);
        if wait_ms > 0 {
            return Err(wait_ms);
        }
        if seen.len() >= KEYS_MAX {
            seen.retain(|_, past| past.at_ms.back().is_some_and(|last| now_ms - last < past.window_ms));
        }
        for window in windows {
            let past = seen.entry(window.key.clone()).or_default();
            past.window_ms = window.window_ms;
            past.at_ms.push_back(now_ms);
            while past.at_ms.len() > window.most {
                past.at_ms.pop_front();
            }
        }
        Ok(())
    }

    pub fn clear(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Only the last `most` passes are kept, so the oldest of them decides.
fn wait_ms(past: Option<&Seen>, window: &Window, now_ms: i64) -> i64 {
    let Some(past) = past.filter(|past| past.at_ms.len() >= window.most) else { return 0 };
    let Some(oldest) = past.at_ms.front() else { return 0 };
    (oldest + window.window_ms - now_ms).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_slides_with_the_clock() {
        let limits = Limits::new(LimitsMode::Real);
        let take = |now_ms| limits.take(&[Window::new("bot", 2, 1000)], now_ms);
        assert_eq!((take(0), take(400), take(500)), (Ok(()), Ok(()), Err(500)));
        assert_eq!((take(1000), take(1000), take(1400)), (Ok(()), Err(400), Ok(())));
    }

    #[test]
    fn a_request_counts_in_all_its_windows_or_in_none() {
        let limits = Limits::new(LimitsMode::Real);
        let both = |now_ms| limits.take(&[Window::new("bot", 5, 1000), Window::new("chat", 1, 1000)], now_ms);
        assert_eq!((both(0), both(1)), (Ok(()), Err(999)));
        for _ in 0..4 {
            assert_eq!(limits.take(&[Window::new("bot", 5, 1000)], 2), Ok(()));
        }
        assert_eq!(limits.take(&[Window::new("bot", 5, 1000)], 2), Err(998));
    }

    #[test]
    fn quiet_keys_are_forgotten() {
        let limits = Limits::new(LimitsMode::Real);
        for chat in 0..KEYS_MAX * 3 {
            let now_ms = chat as i64;
            assert_eq!(limits.take(&[Window::new(format!("chat {chat}"), 1, 1000)], now_ms), Ok(()));
        }
        assert!(limits.seen.lock().expect("not poisoned").len() <= KEYS_MAX + 1);
    }

    #[test]
    fn with_limits_off_nothing_counts() {
        let limits = Limits::new(LimitsMode::Off);
        for _ in 0..100 {
            assert_eq!(limits.take(&[Window::new("bot", 1, 1000)], 0), Ok(()));
        }
    }
}
