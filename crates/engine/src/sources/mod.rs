//! Where posts are pulled from: each due source is leased, read by its kind, and its posts are taken in.
//!
//! Sources know nothing of each other: one that fails says so in its own row and waits longer, the others go on.
//! Two nodes never poll one source at once (the lease), and if they did, the store would still publish a case once.
//! Each poll is a task of its own with a deadline (`apart.rs`): one that hangs or breaks ends alone.
//! Start with `poll_once`; `run` is the loop.

mod apart;
mod feed;
mod file;
mod wall;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use domain::time::{Span, Timestamp};
use platforms::platform::Network;
use serde_json::Value;
use store::{RunCounts, Seats, Source, Store};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub use file::{ImportStep, import_step};

use apart::{poll_leased, stop_asked};

use crate::addresses::ApiBases;
use crate::ingest::{PublishRules, SourceSettings};

/// How long one poll may take. What it has taken in by then stays, and the next one goes on behind it.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// How long a poll may go on after the node was told to stop.
pub const GRACE: Duration = Duration::from_secs(3);
/// Sources read at once by one node; and of those that failed the last time, which may take their whole deadline.
const AT_ONCE: usize = 32;
const FAILING_AT_ONCE: usize = 8;
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
    /// How long a source stays with a node that says nothing any more.
    pub lease: Span,
    pub deadline: Duration,
    pub grace: Duration,
}

/// What the polls of a node share.
#[derive(Debug)]
struct Node {
    store: Store,
    network: Network,
    settings: Settings,
}

impl Node {
    fn reader(&self) -> Reader<'_> {
        Reader { store: &self.store, network: &self.network, settings: &self.settings }
    }
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
    feed::parse("feed", "https://feed.example/", bytes).ok().map(|parsed| parsed.posts)
}

/// What the place calls itself, as far as it was ever read: the name of a community, the title of a feed.
pub fn title(source: &Source) -> Option<&str> {
    source.cursor["title"].as_str()
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
    /// By those who keep the wall: people have to talk to people.
    #[error("{0}")]
    Closed(String),
    #[error("it took longer than {} seconds and was broken off; what was read is kept, the rest comes later", .0.as_secs())]
    TooLong(Duration),
    #[error(
        "reading it broke: {0}; that is a fault of rupor, please report it with the address of the source"
    )]
    Broke(String),
    /// By us; nothing is known about the source.
    #[error("{0}; what was not taken in is read again")]
    BrokenOff(&'static str),
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
    let node = Arc::new(Node { store, network, settings });
    let (owner, lease) = (node.settings.owner.clone(), node.settings.lease);
    let idle = Duration::from(node.settings.interval).min(Duration::from_secs(1));
    let failing = Arc::new(Semaphore::new(FAILING_AT_ONCE));
    let mut polls = JoinSet::new();
    while !*stop.borrow() {
        let seats = Seats { all: AT_ONCE.saturating_sub(polls.len()), failing: failing.available_permits() };
        if seats.all > 0 {
            match node.store.due_sources(&owner, seats, lease).await {
                Ok(due) => {
                    for source in due {
                        let fails = source.failing_since.is_some();
                        let seat = fails.then(|| Arc::clone(&failing).try_acquire_owned().ok());
                        let (node, stop) = (Arc::clone(&node), stop.clone());
                        polls.spawn(async move {
                            poll_leased(&node, source, stop).await;
                            drop(seat);
                        });
                    }
                }
                Err(error) => tracing::warn!(%error, "the due sources could not be read"),
            }
        }
        tokio::select! {
            Some(_) = polls.join_next(), if !polls.is_empty() => {}
            () = tokio::time::sleep(idle) => {}
            () = stop_asked(&mut stop) => {}
        }
    }
    // Each of them ends by itself soon after it is told.
    while polls.join_next().await.is_some() {}
}

/// Reads one source and keeps nothing: its latest posts, the oldest first, and the rules that would judge them.
pub async fn look_at(
    reader: &Reader<'_>,
    source: &Source,
) -> Result<(Vec<crate::ingest::RawPost>, PublishRules), PollError> {
    let settings = SourceSettings::of(&source.settings).with_context(|| format!("source {}", source.name))?;
    let mut rules = PublishRules::load(reader.store, source.workspace_id, &source.name, &settings).await?;
    let posts = match (source.kind.as_str(), platforms::walls::of(&source.kind)) {
        ("feed", _) => feed::look(reader, source).await?.posts,
        ("file", _) => file::look(source).await?,
        (_, Some((platform, read))) => {
            rules.platform = Some(platform.name());
            wall::look(reader, wall::Walls { platform, read }, source).await?
        }
        (_, None) => return Err(unknown_kind(source)),
    };
    Ok((posts, rules))
}

/// Reads one source once and takes its posts in.
pub async fn poll_once(reader: &Reader<'_>, source: &Source) -> Result<Polled, PollError> {
    let settings = SourceSettings::of(&source.settings).with_context(|| format!("source {}", source.name))?;
    let mut rules = PublishRules::load(reader.store, source.workspace_id, &source.name, &settings).await?;
    match source.kind.as_str() {
        "feed" => feed::poll(reader, source, &rules).await,
        "file" => file::poll(reader, source, &rules).await,
        #[cfg(test)]
        "broken" => panic!("index out of bounds"),
        kind => match platforms::walls::of(kind) {
            Some((platform, read)) => {
                rules.platform = Some(platform.name());
                wall::poll(reader, wall::Walls { platform, read }, source, &rules).await
            }
            None => Err(unknown_kind(source)),
        },
    }
}

fn unknown_kind(source: &Source) -> PollError {
    let walls: Vec<&str> = platforms::walls::all().map(|(platform, _)| platform.name()).collect();
    let (name, kind) = (&source.name, &source.kind);
    let why = format!("source {name}: unknown kind {kind:?}; known are {}, feed and file", walls.join(", "));
    PollError::Refused { why, retry_after: None }
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
        _ => Span::ZERO,
    };
    let since = source.failing_since.map_or(Span::ZERO, |since| now - since);
    since.clamp(base, FAILING_MAX.max(base)).max(asked)
}
