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
        // The start itself is part of what may panic.
        let work = async { start().await };
        let ended = AssertUnwindSafe(planted::or_panic(name, "", work)).catch_unwind().await;
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

/// `RUPOR_PLANTED_PANIC=NAME:MS` makes the work of that name panic so long after each start (0: instead of it), for tests of what
/// that costs the others (`tests/attack/run --isolation --panics`). NAME is that of a loop, or of work of which there is much, with
/// which of it: `source walls:1`. Debug builds only: the product knows nothing of it.
pub mod planted {
    use std::fmt::Display;

    #[cfg(not(debug_assertions))]
    pub async fn or_panic<F: Future>(_: &str, _: impl Display, work: F) -> F::Output {
        work.await
    }

    #[cfg(debug_assertions)]
    pub async fn or_panic<F: Future>(name: &str, which: impl Display, work: F) -> F::Output {
        static PLANTED: std::sync::OnceLock<Option<(String, u64)>> = std::sync::OnceLock::new();
        let planted = PLANTED.get_or_init(|| {
            let planted = std::env::var("RUPOR_PLANTED_PANIC").ok()?;
            let (meant, ms) = planted.rsplit_once(':')?;
            Some((meant.to_owned(), ms.parse().ok()?))
        });
        let Some((meant, ms)) = planted else {
            return work.await;
        };
        let is_meant = meant.strip_prefix(name).is_some_and(|rest| rest.trim_start() == which.to_string());
        drop(which);
        if !is_meant {
            return work.await;
        }
        assert!(*ms > 0, "planted in {meant}");
        let panics = async {
            tokio::time::sleep(std::time::Duration::from_millis(*ms)).await;
            panic!("planted in {meant}");
        };
        tokio::select! {
            ended = work => ended,
            never = panics => never,
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

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_before_its_first_step_starts_again_too() {
        let mut starts = 0;
        let ended = kept_up("planted", || {
            starts += 1;
            assert!(starts >= 3, "planted");
            async { "ended" }
        });
        assert_eq!(ended.await, "ended");
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
