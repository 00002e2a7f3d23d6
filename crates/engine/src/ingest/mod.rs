//! How a post becomes a message: read, judged, its pictures kept, and handed to the store in one call.
//!
//! ```text
//! source ─► RawPost ─► read (facts, hashes, tags, routing: pure) ─► pictures (fetched once, kept) ─► store.ingest
//! ```
//!
//! A post that is not published is kept with the reason; one bad post never stops its neighbours. What only a
//! transaction can know (seen before, which case, who has heard of it) is the store's. Nothing here knows where posts
//! come from. Start with `take_in`.

mod decoder;
mod line;
mod pictures;
mod read;
mod rules;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use pictures::TOGETHER;
pub use pictures::{check_bytes, keep_bytes};
pub use read::{mark, read, stands_at, unreadable};
pub use rules::{Pictures, Preset, PublishRules, SourceSettings};

use std::time::{Duration, Instant};

use anyhow::Context;
use domain::content::{Copied, Kind};
use domain::delivery::Status;
use domain::ids::{ChannelId, WorkspaceId};
use domain::message::{Media, Origin};
use domain::shown;
use domain::time::Timestamp;
use platforms::platform::Network;
use store::{Fate, Ingested, NewMessage, NewPost, Progress, RunCounts, Store, StoreError};

/// Characters of text kept of one post; VK itself allows 16 384 and feeds know no limit.
pub const TEXT_MAX: usize = 50_000;
/// Pictures kept of one post.
pub const PICTURES_MAX: usize = 10;

/// A post as a source gives it, of whatever kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawPost {
    /// Who gave it, e.g. `vk:-123`, `feed:городские новости`, `file:walls.jsonl`.
    pub source: String,
    /// The source's own id of it.
    pub origin_id: String,
    pub origin: Origin,
    pub title: Option<String>,
    pub text: String,
    /// What it reposts, nearest first.
    pub copies: Vec<Copied>,
    pub pictures: Vec<RawPicture>,
    /// Bytes that came along and are kept already, by `keep_bytes`.
    pub kept: Vec<Media>,
    /// Videos, files and links that stay where they are.
    pub others: Vec<RawOther>,
    /// Why its own source says that it is not for everybody, in words.
    pub withheld: Option<String>,
    /// Whom its author names; then no route is asked.
    pub channels: Option<Vec<ChannelId>>,
    /// What its author says it is; then the words are not asked.
    pub kind: Option<Kind>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawPicture {
    /// What it is always called at its source; the address may change from one reading to the next.
    pub key: String,
    pub url: String,
    pub width: Option<u32>,
    pub height: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawOther {
    pub kind: String,
    pub page: Option<String>,
}

/// Bytes of the name that a source has for a post or a picture; an index holds them, and PostgreSQL's knows no more
/// than 2 700.
const NAME_BYTES_MAX: usize = 1_000;

impl RawPost {
    /// As it can be stored by every database: names without control characters and of a bounded length, addresses
    /// likewise. What is said stays as it is.
    fn cleaned(&self) -> RawPost {
        let mut post = self.clone();
        post.origin_id = bounded_name(&post.origin_id);
        for picture in &mut post.pictures {
            picture.key = bounded_name(&picture.key);
        }
        let address = post.origin.url.take().filter(|url| !url.chars().any(char::is_control));
        post.origin.url = address.filter(|url| url.len() <= ADDRESS_BYTES_MAX);
        post
    }
}

/// Bytes of the address of a post, which stands at the end of what is published.
const ADDRESS_BYTES_MAX: usize = 2_000;

/// A long name is known by its beginning and its hash, so that two long names are still two.
fn bounded_name(name: &str) -> String {
    let plain: String = name.chars().filter(|character| !character.is_control()).collect();
    if plain.len() <= NAME_BYTES_MAX && plain == name {
        return plain;
    }
    let mut end = plain.len().min(NAME_BYTES_MAX / 4);
    while !plain.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…{}", &plain[..end], &blake3::hash(name.as_bytes()).to_hex()[..32])
}

/// A run that tells what `work` did, also if it failed: no run stays open while its node is alive.
pub async fn in_a_run(
    store: &Store,
    workspace: WorkspaceId,
    source: &str,
    work: impl Future<Output = anyhow::Result<(RunCounts, Option<String>)>>,
) -> anyhow::Result<RunCounts> {
    let run_id = store.start_run(workspace, source).await?;
    match work.await {
        Ok((counts, error)) => {
            store.finish_run(workspace, run_id, counts, error).await?;
            Ok(counts)
        }
        Err(error) => {
            let told = Some(format!("{error:#}"));
            if let Err(error) = store.finish_run(workspace, run_id, RunCounts::default(), told).await {
                tracing::warn!(%error, source, "a run that failed could not be written down");
            }
            Err(error)
        }
    }
}

/// Takes posts in, in order; known ones that did not change are only counted. The cursor moves with the last of them.
pub async fn take_in(
    store: &Store,
    network: &Network,
    workspace: WorkspaceId,
    rules: &PublishRules,
    posts: &[RawPost],
    progress: Option<Progress>,
) -> anyhow::Result<RunCounts> {
    let now = store.now().await?;
    let posts: Vec<RawPost> = posts.iter().map(RawPost::cleaned).collect();
    let mut counts = RunCounts { seen: count(posts.len()), ..RunCounts::default() };
    let mut changed = Vec::new();
    for source in sources_of(&posts) {
        changed.extend(changed_of(store, workspace, source, &posts).await?);
    }
    let mut waiting = changed.as_slice();
    while !waiting.is_empty() {
        let (began, mut prepared) = (Instant::now(), Vec::new());
        // What is ready is stored before long: whoever breaks this off for slow pictures goes on behind it.
        while prepared.len() < waiting.len().min(POSTS_PER_TRANSACTION) && began.elapsed() < PREPARE_MAX {
            let raw = waiting[prepared.len()];
            prepared.push(prepare(store, network, workspace, rules, raw, now).await?);
        }
        let (batch, rest) = waiting.split_at(prepared.len());
        let recognised: Vec<String> = prepared.iter().map(recognised).collect();
        let all = ingest_all(store, workspace, batch, prepared).await?;
        for ((ingested, raw), what) in all.iter().zip(batch).zip(recognised) {
            add(&mut counts, ingested);
            tell(rules, raw, ingested, &what);
        }
        waiting = rest;
    }
    if progress.is_some() {
        // Behind the posts: a cursor that is too early costs a second look, one too late would lose a post.
        store.ingest(workspace, Vec::new(), progress).await?;
    }
    Ok(counts)
}

/// A post in a few words, none of them its own: kind, animal, town. Words of posts have names and numbers of people in them.
fn recognised(post: &NewPost) -> String {
    let facts = &post.message.facts;
    let word = |name: &str| facts[name]["value"].as_str().filter(|word| *word != "unknown");
    let words = [Some(post.message.kind.as_str()), word("animal"), word("city")];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What was read, what it is and where it goes, in the log.
fn tell(rules: &PublishRules, raw: &RawPost, ingested: &Ingested, what: &str) {
    let post = ingested.message_id.0;
    // Addresses that strangers write may be numbers of people; those of walls and feeds are the source's own.
    let own = raw.origin.post_id.is_some() || raw.origin.source == "feed";
    let at = raw.origin.url.as_deref().filter(|_| own).map(|url| shown::addresses(url).into_owned());
    let (source, at, case) = (&rules.source_name, at.unwrap_or_default(), ingested.case_id.map(|id| id.0));
    let of = |status: Status| {
        let those = ingested.deliveries.iter().filter(move |delivery| delivery.status == status);
        rules.called(those.map(|delivery| delivery.channel_id))
    };
    let (to, repeats) = (of(Status::Queued), of(Status::Deduped));
    match (ingested.fate, &ingested.skipped) {
        (Fate::Seen, _) => {}
        (Fate::Revised, _) => tracing::info!(source, post, at, what, case, to, "a post was changed"),
        (Fate::Stored, Some(why)) => {
            tracing::info!(source, post, at, what, case, why, "a post was read; not published");
        }
        (Fate::Stored, None) => tracing::info!(source, post, at, what, case, to, repeats, "a post was read"),
    }
}

/// What would be enqueued of posts that somebody else hands to the store: hashes, facts and the channels of their routes.
/// Without the case, which only an intake can know, and without approval, which it brings: what a person should look at
/// first goes nowhere. Pictures go by their address, or as what is kept already.
pub async fn analysed(
    store: &Store,
    network: &Network,
    workspace: WorkspaceId,
    rules: &PublishRules,
    posts: &[RawPost],
) -> anyhow::Result<Vec<NewMessage>> {
    let now = store.now().await?;
    let mut messages = Vec::with_capacity(posts.len());
    for raw in posts.iter().map(RawPost::cleaned) {
        let (kept, _) = pictures::keep_known(store, network, workspace, &raw).await?;
        let post = read(&raw, rules, now).finish(&raw, kept);
        let mut message = post.message;
        if post.held.is_some() && message.channels.is_empty() {
            message.skipped = Some("a person should look at it first; hand it in by /v1/ingest".to_owned());
        }
        messages.push(message);
    }
    Ok(messages)
}

/// One transaction for all, or, if one of them cannot be stored at all, one for each: the bad one leaves a note in its
/// place, the others go on.
async fn ingest_all(
    store: &Store,
    workspace: WorkspaceId,
    raws: &[&RawPost],
    prepared: Vec<NewPost>,
) -> store::Result<Vec<Ingested>> {
    let refused = match store.ingest(workspace, prepared.clone(), None).await {
        Err(error) if is_of_the_post(&error) => error,
        other => return other,
    };
    tracing::warn!(error = %refused, "a post cannot be stored; the posts of this batch go one by one");
    let mut all = Vec::with_capacity(prepared.len());
    for (raw, post) in raws.iter().zip(prepared) {
        let one = match store.ingest(workspace, vec![post], None).await {
            Err(error) if is_of_the_post(&error) => {
                store.ingest(workspace, vec![unreadable(raw, &error.to_string())], None).await?
            }
            other => other?,
        };
        all.extend(one);
    }
    Ok(all)
}

/// Refused for what it is, and it will be again: nobody is helped by waiting.
fn is_of_the_post(error: &StoreError) -> bool {
    matches!(error, StoreError::Invalid { .. } | StoreError::Database(_))
}

/// How long posts are prepared before those that are ready are stored.
const PREPARE_MAX: Duration = Duration::from_secs(20);
/// Posts of one transaction. Small, because their cases are decided one after the other while others wait.
const POSTS_PER_TRANSACTION: usize = 50;

/// A post with everything but what the database knows.
pub async fn prepare(
    store: &Store,
    network: &Network,
    workspace: WorkspaceId,
    rules: &PublishRules,
    raw: &RawPost,
    now: Timestamp,
) -> anyhow::Result<NewPost> {
    let reading = read(raw, rules, now);
    if reading.channels.is_empty() && reading.held.is_none() && reading.is_silent() {
        // Nobody will see them, and no case will be found by them.
        return Ok(reading.finish(raw, pictures::Kept::default()));
    }
    if let Pictures::Later(hold) = rules.pictures {
        let (kept, is_whole) = pictures::keep_known(store, network, workspace, raw).await?;
        let mut post = reading.finish(raw, kept);
        if !is_whole {
            post.message.run_at = Some(now + hold);
            // Another mark than the whole post has: that one is news.
            post.message.origin["hash"] = format!("{}+", mark(raw)).into();
        }
        return Ok(post);
    }
    let kept = pictures::keep(store, network, workspace, raw).await.context("keeping pictures")?;
    Ok(reading.finish(raw, kept))
}

/// The sources of a call, each once.
fn sources_of(posts: &[RawPost]) -> Vec<&str> {
    let mut sources: Vec<&str> = posts.iter().map(|post| post.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// The posts that are new or changed; the others are counted as seen, without reading them again.
async fn changed_of<'a>(
    store: &Store,
    workspace: WorkspaceId,
    source: &str,
    posts: &'a [RawPost],
) -> anyhow::Result<Vec<&'a RawPost>> {
    let own: Vec<&RawPost> = posts.iter().filter(|post| post.source == source).collect();
    let ids = own.iter().map(|post| post.origin_id.clone()).collect();
    let known = store.known_posts(workspace, source, ids).await?;
    let is_known = |post: &RawPost| {
        let mark = mark(post);
        known
            .iter()
            .any(|known| known.origin_id == post.origin_id && known.origin_hash.as_ref() == Some(&mark))
    };
    let (same, changed): (Vec<&RawPost>, Vec<&RawPost>) = own.into_iter().partition(|post| is_known(post));
    if !same.is_empty() {
        let ids = same.iter().map(|post| post.origin_id.clone()).collect();
        store.posts_seen(workspace, source, ids).await?;
    }
    Ok(changed)
}

fn add(counts: &mut RunCounts, ingested: &Ingested) {
    if ingested.fate == Fate::Stored {
        counts.stored += 1;
        counts.skipped += i32::from(ingested.skipped.is_some());
    }
    // A repeat is a delivery too, but nothing of it goes out.
    let queued = ingested.deliveries.iter().filter(|delivery| delivery.status == Status::Queued);
    counts.enqueued += count(queued.count());
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}
