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
    updates: VecDeque<Pending>,
    next: i64,
    next_entry: u64,
}

/// An update that waits. A duplicate has the same number and an entry of its own.
#[derive(Clone, Debug)]
pub struct Pending {
    pub entry: u64,
    pub number: i64,
    pub update: Value,
}

impl UpdateQueue {
    /// An empty queue whose first update will have the number `first`.
    pub fn new(first: i64) -> UpdateQueue {
        UpdateQueue {
            waiting: Mutex::new(Waiting { updates: VecDeque::new(), next: first, next_entry: 1 }),
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
            let entry = waiting.next_entry;
            waiting.next_entry += 1;
            waiting.updates.push_back(Pending { entry, number, update: update.clone() });
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
        let found = waiting.updates.iter().filter(|own| own.number >= from && wanted(&own.update));
        found.take(limit).map(|own| (own.number, own.update.clone())).collect()
    }

    /// Everything added after the entry `after`: for webhooks, which remove entry by entry.
    pub fn entries_after(&self, after: u64) -> Vec<Pending> {
        self.lock().updates.iter().filter(|own| own.entry > after).cloned().collect()
    }

    /// Forgets one entry.
    pub fn remove(&self, entry: u64) {
        self.lock().updates.retain(|own| own.entry != entry);
    }

    /// Forgets everything numbered below `number`.
    pub fn forget_below(&self, number: i64) {
        self.lock().updates.retain(|own| own.number >= number);
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

    /// Forgets everything.
    pub fn clear(&self) {
        self.lock().updates.clear();
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
