//! A queue of updates that a bot polls: numbered, bounded, and able to wake a waiting poller.
//! How offsets, markers and limits are worded is the platforms' business.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Updates beyond this are forgotten, oldest first.
pub const UPDATES_MAX: usize = 10_000;

/// Updates of one bot, by rising number.
#[derive(Debug)]
pub struct UpdateQueue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug)]
struct Waiting {
    updates: VecDeque<(i64, Value)>,
    next: i64,
}

impl UpdateQueue {
    /// An empty queue whose first update will have the number `first`.
    pub fn new(first: i64) -> UpdateQueue {
        UpdateQueue {
            waiting: Mutex::new(Waiting { updates: VecDeque::new(), next: first }),
            changed: Notify::new(),
        }
    }

    /// Adds an update made for its number, `copies` times under the same number.
    pub fn push(&self, copies: usize, make: impl FnOnce(i64) -> Value) -> i64 {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        let update = make(number);
        for _ in 0..copies {
            waiting.updates.push_back((number, update.clone()));
        }
        while waiting.updates.len() > UPDATES_MAX {
            waiting.updates.pop_front();
        }
        drop(waiting);
        self.changed.notify_waiters();
        number
    }

    /// Up to `limit` updates numbered `from` or higher that pass `wanted`.
    pub fn read(&self, from: i64, limit: usize, wanted: impl Fn(&Value) -> bool) -> Vec<(i64, Value)> {
        let waiting = self.lock();
        let found = waiting.updates.iter().filter(|(number, update)| *number >= from && wanted(update));
        found.take(limit).cloned().collect()
    }

    /// Forgets everything numbered below `number`.
    pub fn forget_below(&self, number: i64) {
        self.lock().updates.retain(|(own, _)| *own >= number);
    }

    /// Forgets all but the last `n`.
    pub fn keep_last(&self, n: usize) {
        let mut waiting = self.lock();
        let excess = waiting.updates.len().saturating_sub(n);
        waiting.updates.drain(..excess);
    }

    /// The number the next update will get.
    pub fn next_number(&self) -> i64 {
        self.lock().next
    }

    pub fn len(&self) -> usize {
        self.lock().updates.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the wait of every poller, so that it looks again.
    pub fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves at the next `push` or `wake`. Make it *before* looking into the queue and `enable` it,
    /// or an update that comes in between is missed until the timeout.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
