//! A loop that panics starts again: a defect in one of them must not end the node, nor the others' work.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

/// A loop that panics at once must not keep a processor busy.
const REST: Duration = Duration::from_secs(1);

/// Runs a loop until it ends by itself; after a panic it is started again.
pub async fn kept_up<F: Future>(name: &'static str, mut start: impl FnMut() -> F) -> F::Output {
    loop {
        match AssertUnwindSafe(start()).catch_unwind().await {
            Ok(ended) => return ended,
            Err(_) => {
                tracing::error!(
                    name,
                    "a loop panicked and starts again; please report what the log says above"
                );
                tokio::time::sleep(REST).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_starts_again_and_ends_when_it_ends() {
        let mut starts = 0;
        let ended = kept_up("planted", || {
            starts += 1;
            let start = starts;
            async move {
                assert!(start >= 3, "planted");
                start
            }
        });
        assert_eq!(ended.await, 3);
    }
}
