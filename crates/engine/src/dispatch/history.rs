//! Is this still the history that the ledger acknowledged to us? And if not: hold, say so, tell what we remember.
//!
//! A standby that is promoted may lack the last commits. Rows that were sent then look unsent, ids are given again, and
//! every cache may speak of something else. So over every new connection, before anything leaves, the last batch that
//! was acknowledged is offered again: whoever does not know it has lost it. Commits are lost from the end only, so one
//! batch speaks for all before it.
//!
//! When another server has taken over, or a history has ended, one node may know of sends that the ledger does not. So
//! nobody sends, released or not, before every node that sent lately has written down all it knows and has signed under
//! the history that is. Who says nothing for as long as a lease is treated like a node that died.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::time::Span;
use store::{Finish, Finished, HISTORY_LOST, History, NodeRow, Remembered, Replayed, StoreError};
use tokio::time::Instant;

use super::Dispatcher;
use super::recorder::{self, End, is_passing};

/// How often a node signs while nothing happens.
const SIGNED_EVERY: Duration = Duration::from_secs(10);
/// Who signed within this of my own last signature was there when the history changed.
const TOGETHER: Span = Span::from_secs(30);
/// A batch that was acknowledged longer ago may have been cleared away by retention.
const LAST_COUNTS: Duration = Duration::from_secs(24 * 3_600);
/// Rows of it that are offered again: it was one transaction, so a few speak for all.
const LAST_ROWS: usize = 8;
/// Successes that are remembered, and for how long.
const REMEMBERED_MAX: usize = 20_000;
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Successes offered again at once.
const REPLAY_BATCH: usize = 500;

/// What this node was told.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// Connections that were looked at.
    seen: AtomicU64,
    /// A new connection that nobody has looked at yet, or somebody has not told all.
    doubtful: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<History>,
    gathering: Option<Gathering>,
    /// When this node last found another history, or another server.
    shaken: Option<Instant>,
    signed: Option<Instant>,
    /// The last batch that was acknowledged, and when.
    last: Option<(Instant, Vec<Finish>)>,
    remembered: VecDeque<Memory>,
    /// Still to be offered again, and how many are being offered right now.
    replay: Vec<Offer>,
    offering: usize,
    told: Told,
}

/// Until all have told what they know.
#[derive(Debug, Clone)]
struct Gathering {
    since: Instant,
    /// Who is waited for; `None` until the roll was read.
    expected: Option<BTreeSet<String>>,
    /// Whether this node sent anything under another history; who has just started has nothing to tell.
    has_sent: bool,
    /// Whether the log says so.
    said: bool,
}

#[derive(Debug)]
struct Memory {
    at: Instant,
    /// Whether the ledger took it.
    written: bool,
    offer: Offer,
}

/// One success: by its claim, which may have survived, and by its key, which finds the row without one.
#[derive(Debug, Clone)]
struct Offer {
    finish: Finish,
    remembered: Remembered,
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
            let offer = Offer { finish: end.finish.clone(), remembered: remembered.clone() };
            let written = written(finished);
            if !written && state.shaken.is_some_and(|at| now - at < REMEMBERED_FOR) {
                state.replay.push(offer);
            } else {
                state.remembered.push_back(Memory { at: now, written, offer });
            }
        }
        let old = |memory: &Memory| now - memory.at > REMEMBERED_FOR;
        while state.remembered.len() > REMEMBERED_MAX || state.remembered.front().is_some_and(old) {
            state.remembered.pop_front();
        }
    }

    /// Another history, or another server: from now on until everybody has told what he knows. What this node sent and
    /// could not write down is offered again, whatever became of the rest.
    fn gather(&self, is_start: bool) {
        let now = Instant::now();
        let mut state = self.state();
        state.shaken = Some(now);
        let before = state.gathering.take();
        let has_sent = !is_start || before.as_ref().is_some_and(|before| before.has_sent);
        let expected = before.and_then(|before| before.expected);
        state.gathering = Some(Gathering { since: now, expected, has_sent, said: false });
        let (kept, unwritten) =
            std::mem::take(&mut state.remembered).into_iter().partition(|one| one.written);
        state.remembered = kept;
        let unwritten: VecDeque<Memory> = unwritten;
        state.replay.extend(unwritten.into_iter().map(|one| one.offer));
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
        if made == 0 {
            return;
        }
        let is_known = self.look_at_history(made).await;
        self.replay_remembered().await;
        let is_due = self.witness.state().signed.is_none_or(|at| at.elapsed() >= SIGNED_EVERY);
        let known = self.witness.state().known.clone();
        if let Some(history) = known.filter(|_| is_known && is_due) {
            self.sign_on(&history).await;
        }
    }

    /// Nobody needs to wait for a node that has stopped in good order.
    pub(super) async fn sign_off(&self) {
        if self.ledger.connections() > 0
            && let Err(error) = self.ledger.sign_off(self.settings.run_id.clone()).await
        {
            tracing::debug!(%error, "could not sign off; others wait a moment longer, should history be lost now");
        }
    }

    async fn sign_on(&self, history: &History) -> bool {
        let signed = self.ledger.sign_on(self.settings.run_id.clone(), history.clone()).await;
        let signed = matches!(signed, Ok(true));
        if signed {
            self.witness.state().signed = Some(Instant::now());
        }
        signed
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
        if before.as_ref().is_some_and(|before| *before != history) {
            self.witness.doubtful.store(true, Ordering::Release);
            tracing::warn!(before = ?before, now = ?history, "the database is served from elsewhere; nothing leaves until it is compared");
            self.forget_everything().await;
        }
        // Who starts knows nothing, and others may know what it is about to send.
        if before.as_ref() != Some(&history) {
            self.witness.gather(before.is_none());
        }
        if !self.witness.is_doubtful() {
            return true;
        }
        match self.last_is_known().await {
            Some(true) => {}
            // What begins now is another history, and is looked at as one.
            Some(false) => {
                self.history_lost().await;
                return false;
            }
            None => return false,
        }
        self.witness.seen.store(made, Ordering::Release);
        let is_over = self.everybody_told(&history).await;
        if is_over {
            self.witness.doubtful.store(false, Ordering::Release);
        }
        is_over
    }

    /// Whether every node that sent lately, this one too, has written down what it knows of the history before. Nobody is
    /// waited for longer than a lease.
    async fn everybody_told(&self, history: &History) -> bool {
        let Some(Gathering { since, expected, has_sent, said }) = self.witness.state().gathering.clone()
        else {
            return true;
        };
        let is_late = since.elapsed() > Duration::from(self.settings.lease);
        let expected = match expected {
            Some(expected) => expected,
            // Before this node signs: its own line still says when the history changed.
            None => match self.ledger.nodes().await {
                Ok(nodes) => self.expect(&nodes),
                Err(_) if !is_late => return false,
                Err(_) => BTreeSet::new(),
            },
        };
        let has_told = !has_sent || self.has_told_all();
        if !(has_told || is_late) {
            return false;
        }
        let has_signed = self.sign_on(history).await;
        let nodes = match self.ledger.nodes().await {
            Ok(nodes) => nodes,
            Err(_) if !is_late => return false,
            Err(_) => Vec::new(),
        };
        let waits = |node: &&NodeRow| expected.contains(&node.run_id) && node.history != *history;
        let missing: Vec<&str> = nodes.iter().filter(waits).map(|node| node.run_id.as_str()).collect();
        let is_complete = has_told && has_signed && missing.is_empty();
        if !is_complete && is_late {
            tracing::warn!(
                ?missing,
                has_told,
                has_signed,
                "not everybody said in time what was sent before; what they had out counts like that of a node that died"
            );
        } else if !is_complete && !missing.is_empty() && !said {
            tracing::warn!(
                ?missing,
                "nothing leaves before these nodes have told what they sent, or a lease has passed"
            );
        }
        let mut state = self.witness.state();
        if is_complete || is_late {
            state.gathering = None;
        } else if let Some(gathering) = &mut state.gathering {
            gathering.said |= !missing.is_empty();
        }
        is_complete || is_late
    }

    fn expect(&self, nodes: &[NodeRow]) -> BTreeSet<String> {
        let expected = there_with(&self.settings.run_id, nodes);
        if let Some(gathering) = &mut self.witness.state().gathering {
            gathering.expected = Some(expected.clone());
        }
        expected
    }

    /// Nothing is out any more, and everything that is remembered was offered.
    fn has_told_all(&self) -> bool {
        let nothing_is_out = self.places.available_permits() == self.settings.in_flight_max;
        let state = self.witness.state();
        nothing_is_out && state.replay.is_empty() && state.offering == 0
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

    /// Holds everything and offers what we remember. If the ledger cannot be told yet, the next look tells it.
    async fn history_lost(&self) {
        let run = &self.settings.run_id;
        let ago = self.witness.state().last.as_ref().map_or(0, |(at, _)| at.elapsed().as_secs());
        let why = format!(
            "the database does not know the outcomes that it acknowledged to node {run} {ago} s ago; it was switched to \
             a server that had not received them, or restored. What was sent then may look unsent, what was accepted \
             then may be missing; look at `rupor delivery list --status queued`, then `rupor release` lets sending go on"
        );
        if let Err(error) = self.ledger.lose_history(why.clone()).await {
            tracing::error!(%error, "history was lost, and the database could not be told to hold");
            return;
        }
        tracing::error!(why, "{HISTORY_LOST}; all sending is held");
        self.hold(Some(&format!("{HISTORY_LOST}: {why}")));
        {
            let mut state = self.witness.state();
            state.last = None;
            let remembered: Vec<Offer> = state.remembered.drain(..).map(|one| one.offer).collect();
            state.replay.extend(remembered);
        }
        self.forget_everything().await;
    }

    /// Writes again what is remembered, and says what became of it.
    async fn replay_remembered(&self) {
        let before = self.witness.state().told;
        loop {
            let batch: Vec<Offer> = {
                let mut state = self.witness.state();
                let n = state.replay.len().min(REPLAY_BATCH);
                state.offering = n;
                state.replay.drain(..n).collect()
            };
            if batch.is_empty() {
                break;
            }
            if let Err((error, left)) = self.offer(batch).await {
                tracing::warn!(%error, n = left.len(), "remembered outcomes could not be written again yet");
                let mut state = self.witness.state();
                state.replay.extend(left);
                state.offering = 0;
                break;
            }
        }
        let told = self.witness.state().told;
        if told != before {
            let text = format!("node {}: {}", self.settings.run_id, told.words());
            tracing::warn!("{HISTORY_LOST}; {text}");
            // Who reads the hold reads this too; if it cannot be added it stands in the log and in the rows.
            if self.ledger.tell_of_lost_history(text).await.is_err() {
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
                replayed.into_iter().for_each(|replayed| state.told.count(replayed));
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

/// The other nodes that were there when this one signed last.
fn there_with(own: &str, nodes: &[NodeRow]) -> BTreeSet<String> {
    let mine = nodes.iter().find(|node| node.run_id == own).map(|node| node.seen_at);
    let Some(last) = mine.or(nodes.iter().map(|node| node.seen_at).max()) else {
        return BTreeSet::new();
    };
    let there = nodes.iter().filter(|node| node.run_id != own && node.seen_at >= last - TOGETHER);
    there.map(|node| node.run_id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    fn node(run_id: &str, seconds: i64) -> NodeRow {
        let history = History { id: "h".into(), server: "00000001".into() };
        NodeRow { run_id: run_id.into(), seen_at: Timestamp(seconds * 1_000_000), history }
    }

    #[test]
    fn who_was_there_when_history_changed_is_waited_for_and_who_died_long_ago_is_not() {
        // The database was away for five minutes: nobody could sign meanwhile.
        let nodes = [node("я", 1_000), node("сосед", 985), node("новый", 1_300), node("давно умер", 400)];
        assert_eq!(there_with("я", &nodes), ["новый".to_owned(), "сосед".to_owned()].into());
        assert_eq!(there_with("ещё не подписался", &nodes), ["новый".to_owned()].into());
        assert_eq!(there_with("я", &[]), BTreeSet::new());
    }
}
