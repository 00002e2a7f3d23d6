//! A loop that panics starts again: a defect in one of them must not end the node, nor the others' work.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

/// A loop that panics soon after its start must not keep a processor busy: it rests, longer each time.
const REST_FIRST: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(1);

/// Runs a loop until it ends by itself; after a panic it is started again, at once if it had worked for a while.
pub async fn kept_up<F: Future>(name: &'static str, mut start: impl FnMut() -> F) -> F::Output {
    let mut rest = Duration::ZERO;
    loop {
        let started = Instant::now();
        let ended = AssertUnwindSafe(planted::or_panic(name, start())).catch_unwind().await;
        if let Ok(ended) = ended {
            return ended;
        }
        tracing::error!(name, "a loop panicked and starts again; please report what the log says above");
        rest = match started.elapsed() >= REST_MAX {
            true => Duration::ZERO,
            false => (rest * 2).clamp(REST_FIRST, REST_MAX),
        };
        tokio::time::sleep(rest).await;
    }
}

/// `RUPOR_PLANTED_PANIC=NAME:MS` makes the loop of that name panic so long after each start, for tests of what that
/// costs the others (`tests/attack/run --isolation`). Debug builds only: the product knows nothing of it.
mod planted {
    #[cfg(not(debug_assertions))]
    pub(super) async fn or_panic<F: Future>(_: &str, work: F) -> F::Output {
        work.await
    }

    #[cfg(debug_assertions)]
    pub(super) async fn or_panic<F: Future>(name: &str, work: F) -> F::Output {
        let planted = std::env::var("RUPOR_PLANTED_PANIC").ok();
        let after = planted.as_deref().and_then(|planted| planted.rsplit_once(':'));
        match after.filter(|(which, _)| *which == name).and_then(|(_, ms)| ms.parse().ok()) {
            None => work.await,
            Some(ms) => {
                let panics = async {
                    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                    panic!("planted in {name}");
                };
                tokio::select! {
                    ended = work => ended,
                    never = panics => never,
                }
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

    /// How long after the panic before it each start came, to ten milliseconds, when every start panics after `after`.
    async fn rests(after: Duration) -> Vec<u128> {
        let mut starts: Vec<Instant> = Vec::new();
        kept_up("planted", || {
            starts.push(Instant::now());
            let last = starts.len() == 10;
            async move {
                tokio::time::sleep(after).await;
                assert!(last, "planted");
            }
        })
        .await;
        starts.windows(2).map(|pair| (pair[1] - pair[0] - after).as_millis() / 10 * 10).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_worked_for_a_while_starts_again_at_once_and_one_that_cannot_rests_longer_and_longer()
    {
        assert_eq!(rests(Duration::from_secs(2)).await, [0; 9]);
        assert_eq!(rests(Duration::ZERO).await, [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]);
    }
}
