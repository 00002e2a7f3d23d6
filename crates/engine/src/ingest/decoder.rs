//! Decoding beside everything else. A picture may cost a core a second, and posts that wait for that core wait as long;
//! so pictures are decoded one after the other, half of the cores at most are given to it, and by threads that the
//! system lets run when nobody else wants to.

use std::sync::LazyLock;
use std::thread;

use domain::ids::WorkspaceId;
use tokio::sync::{AcquireError, SemaphorePermit, oneshot};

use super::line::Line;

static SEATS: LazyLock<Line> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Line::new((cores / 2).max(1))
});

/// The lowest priority there is.
#[cfg(target_os = "linux")]
const NICE: i32 = 19;

/// Room for one more picture of this workspace, when it is its turn.
pub(super) async fn seat(workspace: WorkspaceId) -> Result<SemaphorePermit<'static>, AcquireError> {
    SEATS.seat(workspace).await
}

/// Runs on a thread of its own, which ends with it: a priority that was given up cannot be taken back. `None`: it
/// panicked, or there is no thread to be had.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    let thread = thread::Builder::new().name("decoder".to_owned()).spawn(move || {
        // Elsewhere than on Linux it would be the priority of the whole process.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICE) {
            tracing::debug!(%error, "pictures are decoded at the ordinary priority");
        }
        let _ = answer.send(work());
    });
    if let Err(error) = thread {
        tracing::warn!(%error, "no thread for a picture");
    }
    answered.await.ok()
}
