//! How often each endpoint may call: a budget of this node, kept in memory. Time is an argument.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::ids::EndpointId;

/// When the next call of each endpoint would be due if they came evenly. As long as the list of endpoints that exist.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Mutex<HashMap<EndpointId, Instant>>,
}

impl Pace {
    /// Takes one call of `rate` a second, a second's worth at once; otherwise how long to wait.
    pub(super) fn take(&self, endpoint: EndpointId, rate: f64, now: Instant) -> Result<(), Duration> {
        let interval = Duration::from_secs_f64(1.0 / rate);
        let burst = Duration::from_secs_f64((rate.floor() - 1.0).max(0.0) / rate);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let due = next.get(&endpoint).copied().unwrap_or(now).max(now);
        let early = due - now;
        if early > burst {
            return Err(early - burst);
        }
        next.insert(endpoint, due + interval);
        Ok(())
    }
}
