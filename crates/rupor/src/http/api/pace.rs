//! How often each caller may call: a budget of this node, kept in memory. Time is an argument.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::ids::EndpointId;

use super::ApiError;

/// Who is counted: by what proved who it is, so that no address and no number of connections makes more of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Who {
    Endpoint(EndpointId),
    Token(i64),
}

/// When the next call of each caller would be due if they came evenly. As long as the list of callers that exist.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Mutex<HashMap<Who, Instant>>,
}

impl Pace {
    /// Takes one call, or tells the caller when to come back.
    pub(super) fn admit(&self, who: Who, rate: f64) -> Result<(), ApiError> {
        let taken = self.take(who, rate, Instant::now());
        taken.map_err(|wait| ApiError::too_often(wait.as_secs().saturating_add(1)))
    }

    /// Takes one call of `rate` a second, a second's worth at once; otherwise how long to wait.
    pub(super) fn take(&self, who: Who, rate: f64, now: Instant) -> Result<(), Duration> {
        let interval = Duration::from_secs_f64(1.0 / rate);
        let burst = Duration::from_secs_f64((rate.floor() - 1.0).max(0.0) / rate);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let due = next.get(&who).copied().unwrap_or(now).max(now);
        let early = due - now;
        if early > burst {
            return Err(early - burst);
        }
        next.insert(who, due + interval);
        Ok(())
    }
}
