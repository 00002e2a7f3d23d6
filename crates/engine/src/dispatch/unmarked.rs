//! Claims whose request is not marked yet: those that would be lost, and blamed, if the process died now.
//!
//! A suspect (a row whose earlier claim was lost without a request) is started only when there are none, and the next
//! claim waits until it is marked or over. So whoever kills the process is alone when it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Unmarked {
    count: AtomicUsize,
    none_left: Notify,
}

/// One claim that is not marked yet.
#[derive(Debug)]
pub(super) struct Entered(Arc<Unmarked>);

impl Unmarked {
    pub(super) fn enter(self: &Arc<Self>) -> Entered {
        self.count.fetch_add(1, Ordering::AcqRel);
        Entered(Arc::clone(self))
    }

    /// Returns when there are none.
    pub(super) async fn none(&self) {
        loop {
            let none_left = self.none_left.notified();
            tokio::pin!(none_left);
            none_left.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            none_left.await;
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}
