//! Writes down what happened, in batches: marks before a request leaves, parts that are visible, ends of claims.
//!
//! While one batch is on the disk the next gathers, so there is no timer. Marks and ends go separate ways: a mark
//! that waits holds up a send, an end that waits holds up nothing. What the ledger cannot take now is offered again
//! until it can: an outcome that is not written down may be sent again. A panic costs a try, and what panics every time
//! costs itself alone: the writers go on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::delivery::Status;
use domain::destination::Destination;
use domain::ids::MessageId;
use domain::outcome::Outcome;
use domain::shown;
use domain::time::Span;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use store::{ClaimRef, Finish, FinishKind, Finished, PartProgress, Remembered, StoreError};
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use super::history::Witness;
use super::meters::{Ended, Meters};
use super::ports::Ledger;
use crate::upkeep::kept_up;

/// Rows of one transaction.
const BATCH_MAX: usize = 512;
/// Tries of one batch of marks; an end is offered until it is taken.
const MARK_TRIES: u32 = 5;
/// Tries of a call that panics.
const PANIC_TRIES: u32 = 3;
/// Marks are written at most this long before their slots: what dies in between counts as sent, perhaps.
const MARK_AHEAD_MAX: Span = Span::from_millis(150);
/// Added to what a mark took lately.
const MARK_SLACK: Span = Span::from_millis(5);

#[derive(Debug)]
struct Mark {
    claim: ClaimRef,
    progress: PartProgress,
    answer: oneshot::Sender<Result<bool, StoreError>>,
}

/// The end of one claim, and the place it took up.
#[derive(Debug)]
pub(super) struct End {
    pub finish: Finish,
    pub destination: Destination,
    /// What people call the channel, for the log; people have no name in it.
    pub called: Option<Arc<str>>,
    pub message: MessageId,
    /// A success, as it is offered again should the ledger lose it.
    pub remembered: Option<Remembered>,
    /// What is counted of it.
    pub ended: Ended,
    /// Given back when the end is written: what is not written down still counts as out.
    pub permit: OwnedSemaphorePermit,
}

#[derive(Debug, Clone)]
pub(super) struct Recorder {
    marks: mpsc::UnboundedSender<Mark>,
    ends: mpsc::UnboundedSender<End>,
    /// What a mark took lately, in microseconds.
    mark_takes: Arc<AtomicI64>,
}

impl Recorder {
    /// Starts the two writers. They end when every handle is gone and everything is written.
    /// The queues are bounded by the permits of the claims behind them.
    pub(super) fn start(
        ledger: Arc<dyn Ledger>,
        meters: Arc<Meters>,
        freed: Arc<tokio::sync::Notify>,
        witness: Arc<Witness>,
    ) -> (Recorder, Vec<tokio::task::JoinHandle<()>>) {
        let (marks, marks_in) = mpsc::unbounded_channel();
        let (ends, ends_in) = mpsc::unbounded_channel();
        // What waits outlives a writer that has to start again.
        let (marks_in, ends_in) = (Arc::new(Mutex::new(marks_in)), Arc::new(Mutex::new(ends_in)));
        let of_marks = Arc::clone(&ledger);
        let tasks = vec![
            tokio::spawn(kept_up("recorder of marks", move || {
                write_marks(Arc::clone(&of_marks), Arc::clone(&marks_in))
            })),
            tokio::spawn(kept_up("recorder of ends", move || {
                let (ledger, meters, freed) = (Arc::clone(&ledger), Arc::clone(&meters), Arc::clone(&freed));
                write_ends(ledger, meters, freed, Arc::clone(&witness), Arc::clone(&ends_in))
            })),
        ];
        (Recorder { marks, ends, mark_takes: Arc::default() }, tasks)
    }

    /// `false`: the claim is not ours any more.
    pub(super) async fn mark(&self, claim: ClaimRef, progress: PartProgress) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        let gone = || StoreError::Database("the recorder broke off; see the log".into());
        let asked = Instant::now();
        self.marks.send(Mark { claim, progress, answer }).map_err(|_| gone())?;
        let answer = answered.await.unwrap_or_else(|_| Err(gone()));
        let took = i64::try_from(asked.elapsed().as_micros()).unwrap_or(i64::MAX).min(MARK_AHEAD_MAX.0);
        let lately = self.mark_takes.load(Ordering::Relaxed);
        // A slow one counts at once and is forgotten by and by.
        self.mark_takes.store(took.max(lately - lately / 64), Ordering::Relaxed);
        answer
    }

    /// How long before its slot a request should be marked.
    pub(super) fn mark_takes(&self) -> Span {
        let lately = self.mark_takes.load(Ordering::Relaxed);
        Span(lately + lately / 2 + MARK_SLACK.0).min(MARK_AHEAD_MAX)
    }

    pub(super) fn end(&self, end: End) {
        if self.ends.send(end).is_err() {
            tracing::error!("an outcome came after the recorder had stopped");
        }
    }
}

async fn write_marks(ledger: Arc<dyn Ledger>, marks: Arc<Mutex<mpsc::UnboundedReceiver<Mark>>>) {
    let mut marks = marks.lock().await;
    let mut batch = Vec::new();
    while marks.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let rows: Vec<_> = batch.iter().map(|mark| (mark.claim, mark.progress.clone())).collect();
        let record = || ledger.record_parts(rows.clone());
        let mut result = unharmed(record).await;
        for tried in 1..MARK_TRIES {
            match &result {
                Err(error) if is_passing(error) => tokio::time::sleep(pause(tried)).await,
                _ => break,
            }
            result = unharmed(record).await;
        }
        match result {
            Ok(answers) => {
                for (mark, ours) in batch.drain(..).zip(answers) {
                    // A delivery that has given up does not want to know.
                    let _ = mark.answer.send(Ok(ours));
                }
            }
            Err(error) => {
                tracing::warn!(%error, rows = batch.len(), "progress could not be written");
                for mark in batch.drain(..) {
                    let _ = mark.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

async fn write_ends(
    ledger: Arc<dyn Ledger>,
    meters: Arc<Meters>,
    freed: Arc<tokio::sync::Notify>,
    witness: Arc<Witness>,
    ends: Arc<Mutex<mpsc::UnboundedReceiver<End>>>,
) {
    let mut ends = ends.lock().await;
    let mut batch = Vec::new();
    while ends.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let rows: Vec<Finish> = batch.iter().map(|end| end.finish.clone()).collect();
        let asked = Instant::now();
        let written = commit(&*ledger, rows).await;
        meters.commit_seconds.observe(asked.elapsed().as_secs_f64());
        witness.acknowledged(&batch, &written);
        for (end, finished) in batch.drain(..).zip(written) {
            count_end(&meters, &end, finished);
            drop(end.permit);
        }
        freed.notify_one();
    }
}

/// Offers a batch until it is taken. A batch that is refused as a whole is offered row by row, so that one bad row
/// costs itself alone.
pub(super) async fn commit(ledger: &dyn Ledger, rows: Vec<Finish>) -> Vec<Option<Finished>> {
    for tried in 1.. {
        match unharmed(|| ledger.commit(rows.clone())).await {
            Ok(finished) => return finished.into_iter().map(Some).collect(),
            Err(error) if is_passing(&error) => {
                tracing::warn!(%error, rows = rows.len(), tried, "outcomes could not be written; they are kept");
                tokio::time::sleep(pause(tried)).await;
            }
            Err(error) if rows.len() == 1 => {
                tracing::error!(%error, delivery = rows[0].claim.delivery_id.0, "an outcome was refused");
                return vec![None];
            }
            Err(error) => {
                tracing::warn!(%error, rows = rows.len(), "a batch was refused; going on row by row");
                let mut finished = Vec::with_capacity(rows.len());
                for row in rows {
                    finished.extend(Box::pin(commit(ledger, vec![row])).await);
                }
                return finished;
            }
        }
    }
    Vec::new()
}

/// A panic may be chance, so the call is made again; what panics every time is refused.
async fn unharmed<'a, T>(call: impl Fn() -> BoxFuture<'a, store::Result<T>>) -> store::Result<T> {
    for tried in 1..=PANIC_TRIES {
        match AssertUnwindSafe(async { call().await }).catch_unwind().await {
            Ok(answer) => return answer,
            Err(_) => {
                tracing::error!(tried, "the recorder panicked; please report what the log says above");
                tokio::time::sleep(pause(tried)).await;
            }
        }
    }
    Err(StoreError::Database("writing it down panics every time".into()))
}

fn count_end(meters: &Meters, end: &End, finished: Option<Finished>) {
    let Some(finished) = finished else {
        meters.outcomes_refused.inc();
        return;
    };
    let outcome = match finished {
        Finished::Done(status) => status.as_str(),
        Finished::Repeated(_) => "repeated",
        Finished::Adopted => "late_success",
        Finished::LostClaim => "lost_claim",
    };
    match (finished, &end.finish.ending) {
        (Finished::Done(Status::Sent) | Finished::Adopted, _) => meters.sent(&end.ended, finished),
        (Finished::Done(_), FinishKind::Release) => drop(meters.released.inc()),
        (
            Finished::Done(status),
            FinishKind::Outcome(Outcome::Failed(failure)) | FinishKind::RetryAt(Outcome::Failed(failure), _),
        ) => {
            meters.failure(status, failure, &end.ended);
        }
        _ => {}
    }
    let (delivery, message) = (end.finish.claim.delivery_id.0, end.message.0);
    let to = end.called.as_deref().map_or_else(|| end.destination.to_string(), str::to_owned);
    match &end.finish.ending {
        FinishKind::Outcome(Outcome::Failed(failure)) | FinishKind::RetryAt(Outcome::Failed(failure), _) => {
            // What a platform answers may quote the post.
            let why = shown::masked(&failure.message);
            tracing::warn!(to, post = message, delivery, outcome, code = failure.code, why, "not sent");
        }
        // A broadcast is told by its campaign; a line for each person would bury everything else.
        FinishKind::Outcome(_) | FinishKind::RetryAt(..) if end.called.is_none() => {
            tracing::debug!(to, post = message, delivery, outcome, "sent");
        }
        FinishKind::Outcome(_) | FinishKind::RetryAt(..) => {
            tracing::info!(to, post = message, delivery, outcome, "sent");
        }
        FinishKind::Release => tracing::debug!(to, post = message, delivery, outcome, "handed back unsent"),
    }
}

/// Whether the same call may succeed later without anybody changing anything but the database's health.
pub(super) fn is_passing(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Busy { .. }
            | StoreError::Unreachable { .. }
            | StoreError::CommitUnknown { .. }
            | StoreError::DiskFull { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::FileGone { .. }
            | StoreError::NoStandby { .. }
            | StoreError::NoFile { .. }
    )
}

fn pause(tried: u32) -> Duration {
    Duration::from_millis(50 << tried.min(6))
}
