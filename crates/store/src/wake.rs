//! Wake-ups: a hint that there may be work. Losing one costs delay, never a message.

use domain::time::Span;
use tokio::sync::watch;

#[derive(Debug)]
pub struct WakeUp {
    changes: watch::Receiver<u64>,
}

/// The sending side: in process for SQLite, fed by LISTEN for PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct Bell {
    changes: watch::Sender<u64>,
}

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell { changes: watch::Sender::new(0) }
    }

    pub(crate) fn ring(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub(crate) fn listen(&self) -> WakeUp {
        WakeUp { changes: self.changes.subscribe() }
    }
}

impl WakeUp {
    /// Returns when something may have changed since the last call, or when the time is over.
    pub async fn wait(&mut self, at_most: Span) -> bool {
        // A closed bell means a closed store: only the time is left to wait for.
        let rung = async {
            if self.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::time::timeout(at_most.into(), rung).await.is_ok()
    }
}
