//! Is this still the history that the ledger acknowledged to us? And if not: hold, say so, tell what we remember.
//!
//! A standby that is promoted may lack the last commits. Rows that were sent then look unsent, ids are given again, and
//! every cache may speak of something else. So over every new connection, before anything leaves, the last batch that
//! was acknowledged is offered again: whoever does not know it has lost it. Commits are lost from the end only, so one
//! batch speaks for all before it. When another server has taken over, nobody sends for a moment, so that every node
//! can look before one of them sends what another one knows to be sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Finish, Finished, HISTORY_LOST, History, Remembered, Replayed, StoreError};
use tokio::time::Instant;

use super::Dispatcher;
use super::recorder::{self, End, is_passing};

/// How long nothing leaves after another server has taken over: every node looks for itself within a second or two.
const OTHERS_LOOK: Duration = Duration::from_secs(3);
/// A batch that was acknowledged longer ago may have been cleared away by retention.
const LAST_COUNTS: Duration = Duration::from_secs(24 * 3_600);
/// Rows of it that are offered again: it was one transaction, so a few speak for all.
const LAST_ROWS: usize = 8;
/// Successes that are remembered, and for how long.
const REMEMBERED_MAX: usize = 20_000;
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Successes offered again at once.
const REPLAY_BATCH: usize = 500;
/// How often one is offered while somebody holds its row, once a second: a claim that was taken before anybody looked is
/// handed back soon, or by its lease.
const OFFERS_MAX: u32 = 120;

/// What this node was told.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// Connections that were looked at.
    seen: AtomicU64,
    /// A new connection that nobody has looked at yet, or other nodes still look.
    doubtful: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<History>,
    quiet_until: Option<Instant>,
    /// The last batch that was acknowledged, and when.
    last: Option<(Instant, Vec<Finish>)>,
    remembered: VecDeque<(Instant, Offer)>,
    /// History was lost and nobody has released it yet.
    lost: bool,
    /// Still to be offered again.
    replay: Vec<Offer>,
    /// Somebody holds their rows: the next look offers them once more.
    later: Vec<Offer>,
    told: Told,
}

/// One success: by its claim, which may have survived, and by its key, which finds the row without one.
#[derive(Debug, Clone)]
struct Offer {
    finish: Finish,
    remembered: Remembered,
    /// How often it was offered in vain.
    offered: u32,
}

/// What became of what was offered again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Told {
    adopted: usize,
    known: usize,
    gone: usize,
    elsewhere: usize,
}

impl Witness {
    fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Acquire)
    }

    /// Outcomes came back from the ledger. What was sent and not taken is remembered too: if history was lost, that is why.
    pub(super) fn acknowledged(&self, batch: &[End], finished: &[Option<Finished>]) {
        let now = Instant::now();
        let mut state = self.state();
        let written =
            |finished: &Option<Finished>| matches!(finished, Some(Finished::Done(_) | Finished::Repeated(_)));
        let last: Vec<Finish> = batch
            .iter()
            .zip(finished)
            .filter(|(_, finished)| written(finished))
            .take(LAST_ROWS)
            .map(|(end, _)| end.finish.clone())
            .collect();
        if !last.is_empty() {
            state.last = Some((now, last));
        }
        for (end, finished) in batch.iter().zip(finished) {
            let Some(remembered) = &end.remembered else {
                continue;
            };
            let offer = Offer { finish: end.finish.clone(), remembered: remembered.clone(), offered: 0 };
            if state.lost && !written(finished) {
                state.replay.push(offer);
            } else {
                state.remembered.push_back((now, offer));
            }
        }
        let old = |(at, _): &(Instant, Offer)| now - *at > REMEMBERED_FOR;
        while state.remembered.len() > REMEMBERED_MAX || state.remembered.front().is_some_and(old) {
            state.remembered.pop_front();
        }
    }

    /// Somebody has looked and let sending go on.
    pub(super) fn released(&self) {
        self.state().lost = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dispatcher {
    /// Whether what the ledger says may be acted on. Asks the ledger only over a connection that nobody has looked at.
    pub(super) async fn history_is_known(&self) -> bool {
        let made = self.ledger.connections();
        if made <= self.witness.seen.load(Ordering::Acquire) && !self.witness.is_doubtful() {
            return true;
        }
        self.look_at_history(made).await
    }

    /// The same once a second, for who talks to a server through somebody that hides its changes.
    pub(super) async fn keep_history(&self) {
        let made = self.ledger.connections();
        if made > 0 {
            self.look_at_history(made).await;
        }
        self.replay_remembered().await;
    }

    /// One after the other: what the first one finds is true for the second.
    async fn look_at_history(&self, made: u64) -> bool {
        let _looking = self.looking.lock().await;
        if made > self.witness.seen.load(Ordering::Acquire) {
            self.witness.doubtful.store(true, Ordering::Release);
        }
        let Ok(history) = self.ledger.history().await else {
            return false;
        };
        let before = self.witness.state().known.replace(history.clone());
        let elsewhere = before.as_ref().is_some_and(|before| *before != history);
        if elsewhere {
            self.witness.doubtful.store(true, Ordering::Release);
            tracing::warn!(before = ?before, now = ?history, "the database is served from elsewhere; nothing leaves until it is compared");
            self.forget_everything().await;
        }
        if elsewhere && before.is_some_and(|before| before.server != history.server) {
            self.witness.state().quiet_until = Some(Instant::now() + OTHERS_LOOK);
        }
        if !self.witness.is_doubtful() {
            return true;
        }
        match self.last_is_known().await {
            Some(true) => {}
            Some(false) if self.history_lost().await => {}
            Some(false) | None => return false,
        }
        self.witness.seen.store(made, Ordering::Release);
        let quiet = self.witness.state().quiet_until.is_some_and(|until| Instant::now() < until);
        if !quiet {
            self.witness.doubtful.store(false, Ordering::Release);
        }
        !quiet
    }

    /// Offers the last acknowledged batch again; `None` when the ledger cannot say now.
    async fn last_is_known(&self) -> Option<bool> {
        let last = self.witness.state().last.clone();
        let Some((_, batch)) = last.filter(|(at, _)| at.elapsed() < LAST_COUNTS) else {
            return Some(true);
        };
        match self.ledger.commit(batch).await {
            Ok(answers) => Some(!answers.contains(&Finished::LostClaim)),
            Err(error) if is_passing(&error) => None,
            // The same id in another lane: it was given again.
            Err(_) => Some(false),
        }
    }

    /// Holds everything and offers what we remember. `false`: the ledger could not be told yet.
    async fn history_lost(&self) -> bool {
        let run = &self.settings.run_id;
        let ago = self.witness.state().last.as_ref().map_or(0, |(at, _)| at.elapsed().as_secs());
        let why = format!(
            "the database does not know the outcomes that it acknowledged to node {run} {ago} s ago; it was switched to \
             a server that had not received them, or restored. What was sent then may look unsent, what was accepted \
             then may be missing; look at `rupor delivery list --status queued`, then `rupor release` lets sending go on"
        );
        if let Err(error) = self.ledger.lose_history(why.clone()).await {
            tracing::error!(%error, "history was lost, and the database could not be told to hold");
            return false;
        }
        tracing::error!(why, "{HISTORY_LOST}; all sending is held");
        self.hold(Some(&format!("{HISTORY_LOST}: {why}")));
        {
            let mut state = self.witness.state();
            state.last = None;
            state.lost = true;
            let remembered: Vec<Offer> = state.remembered.drain(..).map(|(_, one)| one).collect();
            state.replay.extend(remembered);
        }
        self.forget_everything().await;
        true
    }

    /// Writes again what is remembered, and says what became of it.
    async fn replay_remembered(&self) {
        let before = {
            let mut state = self.witness.state();
            let later = std::mem::take(&mut state.later);
            state.replay.extend(later);
            state.told
        };
        loop {
            let batch: Vec<Offer> = {
                let mut state = self.witness.state();
                let n = state.replay.len().min(REPLAY_BATCH);
                state.replay.drain(..n).collect()
            };
            if batch.is_empty() {
                break;
            }
            if let Err((error, left)) = self.offer(batch).await {
                tracing::warn!(%error, n = left.len(), "remembered outcomes could not be written again yet");
                self.witness.state().replay.extend(left);
                break;
            }
        }
        let told = self.witness.state().told;
        if told != before {
            let text = format!("node {}: {}", self.settings.run_id, told.words());
            tracing::warn!("{HISTORY_LOST}; {text}");
            // Who reads the hold reads this too; if it cannot be added it stands in the log and in the rows.
            if self.everything_is_held() && self.ledger.lose_history(text).await.is_err() {
                tracing::debug!("what became of the remembered outcomes could not be added to the hold");
            }
        }
    }

    /// A claim that survived ends the ordinary way; what has none is found by its key.
    async fn offer(&self, batch: Vec<Offer>) -> Result<(), (StoreError, Vec<Offer>)> {
        let ends = batch.iter().map(|offer| offer.finish.clone()).collect();
        let ended = recorder::commit(&*self.ledger, ends).await;
        let mut without = Vec::new();
        for (offer, ended) in batch.into_iter().zip(ended) {
            match ended {
                Some(Finished::Done(_) | Finished::Adopted) => {
                    self.witness.state().told.count(Replayed::Adopted);
                }
                Some(Finished::Repeated(_)) => self.witness.state().told.count(Replayed::Known),
                Some(Finished::LostClaim) | None => without.push(offer),
            }
        }
        let remembered = without.iter().map(|offer| offer.remembered.clone()).collect();
        match self.ledger.replay(remembered).await {
            Ok(replayed) => {
                let mut state = self.witness.state();
                for (mut offer, replayed) in without.into_iter().zip(replayed) {
                    offer.offered += 1;
                    match replayed {
                        Replayed::Elsewhere if offer.offered < OFFERS_MAX => state.later.push(offer),
                        replayed => state.told.count(replayed),
                    }
                }
                Ok(())
            }
            Err(error) => Err((error, without)),
        }
    }

    /// Whatever was read before may be about other rows now.
    async fn forget_everything(&self) {
        self.messages.forget();
        self.book.forget_all().await;
        self.breakers.forget();
    }
}

impl Told {
    fn count(&mut self, replayed: Replayed) {
        *match replayed {
            Replayed::Adopted => &mut self.adopted,
            Replayed::Known => &mut self.known,
            Replayed::Gone => &mut self.gone,
            Replayed::Elsewhere => &mut self.elsewhere,
        } += 1;
    }

    fn words(self) -> String {
        format!(
            "of the sends it remembers, {} were written again, {} were known, {} belong to deliveries that are not there \
             any more, {} ended otherwise",
            self.adopted, self.known, self.gone, self.elsewhere
        )
    }
}
