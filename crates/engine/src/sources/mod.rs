//! Where posts are pulled from: each due source is leased, read by its kind, and its posts are taken in.
//!
//! Sources know nothing of each other: one that fails says so in its own row and waits longer, the others go on.
//! Two nodes never poll one source at once (the lease), and if they did, the store would still publish a case once.
//! Start with `poll_once`; `run` is the loop.

mod feed;
mod file;
mod vk;

#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Context;
use domain::outcome::Failure;
use domain::time::{Span, Timestamp};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use platforms::platform::Network;
use serde_json::Value;
use store::{FinishedPoll, PollHealth, RunCounts, Source, Store};
use tokio::sync::watch;

pub use file::{ImportStep, import_step};

use crate::addresses::ApiBases;
use crate::ingest::{Desk, SourceSettings};

/// A poll that takes longer than this has lost its lease.
const LEASE: Span = Span::from_secs(300);
/// Sources read at once by one node.
const AT_ONCE: usize = 8;
/// A quiet source is looked at so many times more rarely, and a busy one so many times more often.
const QUIET_FACTOR: i64 = 10;
const BUSY_FACTOR: i64 = 4;
/// A source that fails is tried again after this at the latest.
const FAILING_MAX: Span = Span::from_secs(3_600);

#[derive(Debug, Clone)]
pub struct Settings {
    /// Names this node in the leases; new at every start.
    pub owner: String,
    pub interval: Span,
    pub bases: ApiBases,
}

/// What every kind of source needs to be read.
#[derive(Debug)]
pub struct Reader<'a> {
    pub store: &'a Store,
    pub network: &'a Network,
    pub settings: &'a Settings,
}

/// What one poll brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Polled {
    pub counts: RunCounts,
    pub cursor: Value,
    /// More is waiting: come back at once.
    pub more: bool,
}

/// The bytes of a feed as posts, without asking anybody; `None`: it is no feed.
pub fn read_feed(bytes: &[u8]) -> Option<Vec<crate::ingest::RawPost>> {
    feed::parse("feed", "https://feed.example/", bytes).ok()
}

/// Why a poll brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// Not before then; nothing is wrong.
    #[error("the budget of the account is used up until later")]
    Later(Timestamp),
    /// The platform refused, in words with a remedy, and perhaps said when to come back.
    #[error("{why}")]
    Refused { why: String, retry_after: Option<Span> },
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl From<store::StoreError> for PollError {
    fn from(error: store::StoreError) -> PollError {
        PollError::Other(error.into())
    }
}

/// Leases due sources and reads them until told to stop.
pub async fn run(store: Store, network: Network, settings: Settings, mut stop: watch::Receiver<bool>) {
    let reader = Reader { store: &store, network: &network, settings: &settings };
    let mut polls = FuturesUnordered::new();
    let idle = Duration::from(settings.interval).min(Duration::from_secs(1));
    while !*stop.borrow() {
        if polls.len() < AT_ONCE {
            match store.due_sources(&settings.owner, AT_ONCE - polls.len(), LEASE).await {
                Ok(due) => polls.extend(due.into_iter().map(|source| poll_leased(&reader, source))),
                Err(error) => tracing::warn!(%error, "the due sources could not be read"),
            }
        }
        tokio::select! {
            Some(()) = polls.next(), if !polls.is_empty() => {}
            () = tokio::time::sleep(idle) => {}
            _ = stop.changed() => {}
        }
    }
    // What is half read is finished: its posts are either in or will be read again.
    while polls.next().await.is_some() {}
}

/// One poll with everything around it: the run that tells of it, the health, the next time.
async fn poll_leased(reader: &Reader<'_>, source: Source) {
    if let Err(error) = poll_and_finish(reader, &source).await {
        tracing::warn!(
            source = source.name,
            error = format!("{error:#}"),
            "a poll could not be written down"
        );
    }
}

async fn poll_and_finish(reader: &Reader<'_>, source: &Source) -> anyhow::Result<()> {
    let store = reader.store;
    let name = format!("{}:{}", source.kind, source.name);
    let run_id = store.start_run(source.workspace_id, &name).await?;
    let outcome = poll_once(reader, source).await;
    let now = store.now().await?;
    let base = base_interval(source, reader.settings);
    let mut finished = FinishedPoll {
        source_id: source.source_id,
        owner: reader.settings.owner.clone(),
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
        Err(error) => {
            // An address may carry a key, and a refusal may quote it.
            let why = domain::shown::addresses(&told(&error)).into_owned();
            tracing::warn!(source = source.name, why, "a source could not be read");
            finished.next_poll_at = now + failing_wait(source, base, now, &error);
            finished.health = PollHealth::Failed(why.clone());
            (RunCounts::default(), Some(why))
        }
    };
    store.finish_run(source.workspace_id, run_id, counts, error).await?;
    store.finish_poll(source.workspace_id, finished).await?;
    Ok(())
}

/// Reads one source once and takes its posts in.
pub async fn poll_once(reader: &Reader<'_>, source: &Source) -> Result<Polled, PollError> {
    let settings = SourceSettings::of(&source.settings).with_context(|| format!("source {}", source.name))?;
    let mut desk = Desk::load(reader.store, source.workspace_id, &source.name, &settings).await?;
    match source.kind.as_str() {
        "vk" => {
            desk.platform = Some("vk");
            vk::poll(reader, source, &desk).await
        }
        "feed" => feed::poll(reader, source, &desk).await,
        "file" => file::poll(reader, source, &desk).await,
        kind => {
            let why = format!("source {}: unknown kind {kind:?}; known are vk, feed and file", source.name);
            Err(PollError::Refused { why, retry_after: None })
        }
    }
}

fn told(error: &PollError) -> String {
    match error {
        PollError::Other(error) => format!("{error:#}"),
        other => other.to_string(),
    }
}

fn base_interval(source: &Source, settings: &Settings) -> Span {
    let own = source.settings["poll_seconds"].as_i64().filter(|seconds| *seconds > 0);
    own.map_or(settings.interval, Span::from_secs)
}

/// Twice as often after news, half as often again after none, within bounds.
fn next_interval(source: &Source, base: Span, news: bool) -> Span {
    let last = source.cursor["interval_ms"].as_i64().map_or(base, Span::from_millis);
    let wanted = if news { last.0 / 2 } else { last.0.saturating_mul(3) / 2 };
    Span(wanted.clamp((base.0 / BUSY_FACTOR).max(1), base.0.saturating_mul(QUIET_FACTOR)))
}

fn with_interval(mut cursor: Value, interval: Span) -> Value {
    if let Some(fields) = cursor.as_object_mut() {
        fields.insert("interval_ms".into(), interval.millis().into());
    }
    cursor
}

/// As long as it has failed already, so that the waits double; never shorter than the platform asks.
fn failing_wait(source: &Source, base: Span, now: Timestamp, error: &PollError) -> Span {
    let asked = match error {
        PollError::Refused { retry_after, .. } => retry_after.unwrap_or(Span::ZERO),
        PollError::Later(_) | PollError::Other(_) => Span::ZERO,
    };
    let since = source.failing_since.map_or(Span::ZERO, |since| now - since);
    since.clamp(base, FAILING_MAX.max(base)).max(asked)
}

/// What a platform's refusal means for a source, with what to do about it.
fn refused(source: &Source, failure: &Failure) -> PollError {
    let remedy = match failure.code.as_str() {
        "vk:5" | "vk:1117" => "the token is revoked or wrong; set a new one for the account",
        "vk:14" => "VK asks for a captcha; it is asked again later, or use another token",
        "vk:15" | "vk:18" | "vk:30" | "vk:203" => {
            "the wall is closed; ask its admins, or read it with a member's token"
        }
        "vk:27" | "vk:28" => "this token cannot read walls; give the source a service or user token",
        "vk:100" | "vk:125" => "there is no such wall; check the address of the source",
        "vk:6" | "vk:9" | "vk:29" => "too many calls; it is asked again later",
        _ => "it is tried again later",
    };
    let why = format!("{}: {} ({}); {remedy}", source.address, failure.message, failure.code);
    PollError::Refused { why, retry_after: failure.retry_after_ms.map(Span::from_millis) }
}
