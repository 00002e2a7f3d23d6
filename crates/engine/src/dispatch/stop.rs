//! The wish to stop, heard by everybody in the order they began to listen: a run can be repeated exactly.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    heard: Notify,
}

impl Stop {
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.heard.notify_waiters();
    }

    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns when somebody asks, or has asked before.
    pub async fn asked(&self) {
        let heard = self.heard.notified();
        tokio::pin!(heard);
        // Listening begins before looking, so that nothing is missed in between.
        heard.as_mut().enable();
        if !self.is_asked() {
            heard.await;
        }
    }
}
