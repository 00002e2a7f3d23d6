//! One poll with everything around it: a task of its own, its deadline, the lease that is renewed meanwhile, and what
//! is written down at its end: the run, the health, the next time.
//!
//! However a poll ends, its source is let go: a panic ends the task and is reported here, a hanging peer meets the
//! deadline, a stop waits no longer than the grace. Nothing is lost by breaking off: posts are taken in whole or not at
//! all, and the cursor moves behind them.

use std::future::pending;
use std::sync::Arc;

use domain::time::Timestamp;
use serde_json::{Value, json};
use store::{FinishedPoll, PollHealth, RunCounts, Source};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::{Node, PollError, Polled, base_interval, failing_wait, next_interval, poll_once, with_interval};
use crate::upkeep::planted;

/// A lease is renewed so many times within itself.
const RENEWALS: u32 = 3;

pub(super) async fn poll_leased(node: &Arc<Node>, source: Source, stop: watch::Receiver<bool>) {
    if let Err(error) = poll_and_finish(node, &source, stop).await {
        tracing::warn!(
            source = source.name,
            error = format!("{error:#}"),
            "a poll could not be written down"
        );
    }
}

async fn poll_and_finish(
    node: &Arc<Node>,
    source: &Source,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let store = &node.store;
    let run_id = store.start_run(source.workspace_id, &format!("{}:{}", source.kind, source.name)).await?;
    let outcome = read_apart(node, source, stop).await;
    let closed = matches!(outcome, Err(PollError::Closed(_))) && !is_told_closed(source);
    let (finished, counts, error) = ending(node, source, outcome, store.now().await?);
    if let Some(why) = error.as_deref().filter(|_| closed) {
        let text = format!("source {}: {why}; nothing was cancelled or deleted for that", source.name);
        let detail = json!({"text": text, "source": source.source_id, "why": "closed"});
        store.alert(source.workspace_id, detail).await?;
    }
    let run = store.finish_run(source.workspace_id, run_id, counts, error).await;
    store.finish_poll(source.workspace_id, finished).await?;
    Ok(run?)
}

/// Reads the source in a task of its own, for as long as its lease is ours, its time is not over and nobody stops us.
/// The task ends with this function, however that ends.
async fn read_apart(
    node: &Arc<Node>,
    source: &Source,
    mut stop: watch::Receiver<bool>,
) -> Result<Polled, PollError> {
    let settings = &node.settings;
    let mut task = JoinSet::new();
    let (own, of_task) = (Arc::clone(node), source.clone());
    task.spawn(async move {
        planted::or_panic("source", &of_task.name, poll_once(&own.reader(), &of_task)).await
    });
    let over = tokio::time::sleep(settings.deadline);
    let stopped = async {
        stop_asked(&mut stop).await;
        tokio::time::sleep(settings.grace).await;
    };
    tokio::pin!(over, stopped);
    loop {
        let renewal = tokio::time::sleep(std::time::Duration::from(settings.lease) / RENEWALS);
        tokio::select! {
            Some(ended) = task.join_next() => return ended.unwrap_or_else(|broke| Err(PollError::Broke(words(broke)))),
            () = &mut over => return Err(PollError::TooLong(settings.deadline)),
            () = &mut stopped => return Err(PollError::BrokenOff("the node was told to stop")),
            () = renewal => {
                let (ws, id) = (source.workspace_id, source.source_id);
                match node.store.renew_source(ws, id, &settings.owner, settings.lease).await {
                    Ok(true) => {}
                    Ok(false) => return Err(PollError::BrokenOff("another node reads this source now")),
                    Err(error) => tracing::warn!(source = source.name, %error, "a lease could not be renewed"),
                }
            }
        }
    }
}

/// What is to be written down.
fn ending(
    node: &Node,
    source: &Source,
    outcome: Result<Polled, PollError>,
    now: Timestamp,
) -> (FinishedPoll, RunCounts, Option<String>) {
    let base = base_interval(source, &node.settings);
    let mut finished = FinishedPoll {
        source_id: source.source_id,
        owner: node.settings.owner.clone(),
        cursor: None,
        next_poll_at: now + base,
        health: PollHealth::Well,
    };
    let (counts, error) = match outcome {
        Ok(polled) => {
            let interval = next_interval(source, base, polled.counts.stored > 0);
            finished.next_poll_at = if polled.more { now } else { now + interval };
            finished.cursor = Some(with_interval(polled.cursor, interval));
            (polled.counts, None)
        }
        Err(PollError::Later(at)) => {
            finished.next_poll_at = at;
            (RunCounts::default(), None)
        }
        Err(error @ PollError::BrokenOff(_)) => {
            finished.next_poll_at = source.next_poll_at;
            finished.health = PollHealth::Unchanged;
            (RunCounts::default(), Some(error.to_string()))
        }
        Err(error) => {
            // An address may carry a key, and a refusal may quote it.
            let why = domain::shown::addresses(&in_words(&error)).into_owned();
            tracing::warn!(source = source.name, why, "a source could not be read");
            if matches!(error, PollError::Closed(_)) {
                finished.cursor = Some(told_closed(source));
            }
            finished.next_poll_at = now + failing_wait(source, base, now, &error);
            finished.health = PollHealth::Failed(why.clone());
            (RunCounts::default(), Some(why))
        }
    };
    (finished, counts, error)
}

/// A closed wall is told once, whatever else goes wrong while it is closed; reading it well writes another cursor.
const CLOSED: &str = "closed";

fn is_told_closed(source: &Source) -> bool {
    source.cursor[CLOSED] == true
}

fn told_closed(source: &Source) -> Value {
    let mut cursor = source.cursor.clone();
    match &mut cursor {
        Value::Object(fields) => drop(fields.insert(CLOSED.into(), true.into())),
        _ => cursor = json!({CLOSED: true}),
    }
    cursor
}

fn in_words(error: &PollError) -> String {
    match error {
        PollError::Other(error) => format!("{error:#}"),
        other => other.to_string(),
    }
}

/// What a panic said.
fn words(broke: JoinError) -> String {
    let Ok(panic) = broke.try_into_panic() else {
        return "its task was ended".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

/// Until somebody says stop; if nobody is left who could, for ever.
pub(super) async fn stop_asked(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        pending::<()>().await;
    }
}
