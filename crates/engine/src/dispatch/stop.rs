//! The wish to stop, heard by everybody in the order they began to listen: a run can be repeated exactly.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Stop {
    asked: AtomicBool,
    at: OnceLock<Instant>,
    heard: Notify,
}

impl Stop {
    pub(super) fn ask(&self) {
        self.at.get_or_init(Instant::now);
        self.asked.store(true, Ordering::Release);
        self.heard.notify_waiters();
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// When somebody asked; now, if nobody did.
    pub(super) fn asked_at(&self) -> Instant {
        self.at.get().copied().unwrap_or_else(Instant::now)
    }

    /// Returns when somebody asks, or has asked before.
    pub(super) async fn asked(&self) {
        let heard = self.heard.notified();
        tokio::pin!(heard);
        // Listening begins before looking, so that nothing is missed in between.
        heard.as_mut().enable();
        if !self.is_asked() {
            heard.await;
        }
    }
}
