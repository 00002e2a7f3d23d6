//! Walls: the newest posts again and again, with an overlap in which edits and deletions are noticed.
//! Ads, suggested and hidden posts come along with their flag; ingest keeps them and says why they stay.

use std::time::Duration;

use anyhow::Context;
use domain::content::Copied;
use domain::message::Origin;
use domain::outcome::Failure;
use domain::time::Span;
use platforms::platform::Platform;
use platforms::walls::{Place, RawPost as WallPost, Wall, WallReader};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Progress, Source};

use super::{PollError, Polled, Reader};
use crate::addresses;
use crate::ingest::{PublishRules, RawOther, RawPicture, RawPost, take_in};

/// The newest posts are read again every time: edits and deletions show here.
const OVERLAP: u32 = 20;
/// Pages of one poll; a wall that brings more than that in one interval goes on at once.
const PAGES_MAX: u32 = 10;
const DEADLINE: Duration = Duration::from_secs(20);
/// More posts than this do not vanish at once by somebody's hand: then the wall or the reading of it has changed.
const GONE_MAX: usize = 5;
/// A slot further away than this is not waited for.
const SLOT_WAIT_MAX: Span = Span::from_secs(20);

/// How far a wall was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Cursor {
    owner: Option<i64>,
    /// The highest post id taken in.
    last: i64,
    /// The ids of the last overlap, to notice what is missing.
    window: Vec<i64>,
    /// What was missing the last time; missing once may be a hiccup.
    missing: Vec<i64>,
    /// What the community calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

/// A platform whose walls can be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walls {
    pub(super) platform: &'static dyn Platform,
    pub(super) read: &'static dyn WallReader,
}

pub(super) async fn poll(
    reader: &Reader<'_>,
    walls: Walls,
    source: &Source,
    rules: &PublishRules,
) -> Result<Polled, PollError> {
    let before: Cursor = serde_json::from_value(source.cursor.clone()).unwrap_or_default();
    let wall = walls.read.wall(&source.address).ok_or_else(|| not_a_wall(source))?;
    let horizon_s = (reader.store.now().await? - rules.horizon).0 / 1_000_000;
    let seen = read_wall(reader, walls, source, &wall, &before, horizon_s).await?;
    let mut cursor = after(&before, &seen);
    // Before the cursor moves on: whoever breaks off here looks again.
    cursor.missing = notice_gone(reader, walls, source, &before, &seen).await?;
    let mut posts: Vec<RawPost> =
        seen.posts.iter().filter(|post| !post.is_deleted).map(|post| raw(walls, post)).collect();
    // Oldest first: the first to tell a story is the one that is published.
    posts.sort_by_key(|post| (post.origin.date, post.origin.post_id));
    let progress = Progress {
        source_id: source.source_id,
        owner: reader.settings.owner.clone(),
        cursor: cursor_to_store(source, &cursor),
    };
    let counts =
        take_in(reader.store, reader.network, source.workspace_id, rules, &posts, Some(progress)).await?;
    Ok(Polled { counts, cursor: cursor_to_store(source, &cursor), more: false })
}

/// What the wall shows now, the oldest first: one request, beside the budget of the account.
pub(super) async fn look(
    reader: &Reader<'_>,
    walls: Walls,
    source: &Source,
) -> Result<Vec<RawPost>, PollError> {
    let wall = walls.read.wall(&source.address).ok_or_else(|| not_a_wall(source))?;
    let (_, account) = account(reader, source).await?;
    let place = Place { offset: 0, count: OVERLAP, deadline: DEADLINE };
    let page = walls.read.page(reader.network, &account, &wall, place).await;
    let page = page.map_err(|failure| refused(walls, source, &failure))?;
    let mut posts: Vec<RawPost> = page.posts.iter().map(|post| raw(walls, post)).collect();
    posts.sort_by_key(|post| (post.origin.date, post.origin.post_id));
    Ok(posts)
}

fn not_a_wall(source: &Source) -> PollError {
    let why = format!("{}: not a wall; write an id such as -123, a name, or its address", source.address);
    PollError::Refused { why, retry_after: None }
}

/// Gone is what is missing for the second time and what the platform, asked for it by name, does not know either. What waits of
/// it is cancelled, what was published is left to the channel. Returns what is to be looked at again.
async fn notice_gone(
    reader: &Reader<'_>,
    walls: Walls,
    source: &Source,
    before: &Cursor,
    seen: &Seen,
) -> Result<Vec<i64>, PollError> {
    let read = &seen.posts;
    let missed = missing(before, read, seen.extent);
    let (again, mut once): (Vec<i64>, Vec<i64>) =
        missed.into_iter().partition(|id| before.missing.contains(id));
    let Some(owner) = before.owner.filter(|_| !again.is_empty()) else {
        return Ok(once);
    };
    // One that stands there shows that the answer is about posts and not about us.
    let Some(witness) = read.iter().find(|post| !post.is_deleted).filter(|_| again.len() <= GONE_MAX) else {
        alert(reader, source, again.len()).await?;
        return Ok(once);
    };
    let (account_id, account) = account(reader, source).await?;
    wait_for_slot(reader, source, account_id).await?;
    let asked: Vec<(i64, i64)> = again.iter().chain([&witness.post_id]).map(|id| (owner, *id)).collect();
    let seen = walls
        .read
        .posts(reader.network, &account, &asked, DEADLINE)
        .await
        .map_err(|failure| refused(walls, source, &failure))?;
    let shows = |id: i64| seen.iter().any(|post| post.post_id == id && !post.is_deleted);
    if !shows(witness.post_id) {
        once.extend(again);
        return Ok(once);
    }
    for id in again.into_iter().filter(|id| !shows(*id)) {
        reader.store.post_gone(source.workspace_id, &source_name(walls, owner), &id.to_string()).await?;
    }
    Ok(once)
}

/// Nothing is taken back on such a look; a person decides.
async fn alert(reader: &Reader<'_>, source: &Source, n: usize) -> Result<(), PollError> {
    let text = format!(
        "source {}: {n} posts are not shown any more, all at once; nothing was cancelled or deleted for that; look at \
         the wall {} and, if they are gone on purpose, cancel or delete what you do not want",
        source.name, source.address
    );
    tracing::warn!(source = source.name, n, "many posts vanished at once; nothing was deleted");
    let detail = json!({"text": text, "source": source.source_id, "posts": n});
    Ok(reader.store.alert(source.workspace_id, detail).await?)
}

/// What a reading showed.
#[derive(Debug)]
struct Seen {
    posts: Vec<WallPost>,
    extent: Extent,
    title: Option<String>,
}

/// How far a reading went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Part,
    /// To the first post of the wall.
    Whole,
}

/// The overlap, and as much before it as is new and young enough to be published.
async fn read_wall(
    reader: &Reader<'_>,
    walls: Walls,
    source: &Source,
    wall: &Wall,
    before: &Cursor,
    horizon_s: i64,
) -> Result<Seen, PollError> {
    let (account_id, account) = account(reader, source).await?;
    let mut read: Vec<WallPost> = Vec::new();
    let (mut offset, mut extent, mut title) = (0, Extent::Part, None);
    for page_number in 0..PAGES_MAX {
        wait_for_slot(reader, source, account_id).await?;
        let count = if page_number == 0 { OVERLAP } else { walls.read.page_max() };
        let place = Place { offset, count, deadline: DEADLINE };
        let page = walls
            .read
            .page(reader.network, &account, wall, place)
            .await
            .map_err(|failure| refused(walls, source, &failure))?;
        if page.n_unreadable > 0 {
            tracing::warn!(source = source.name, n = page.n_unreadable, "posts without ids were left out");
        }
        offset += count;
        title = title.or(page.title);
        let all_new = page
            .posts
            .iter()
            .filter(|post| !post.is_pinned)
            .all(|post| post.post_id > before.last && post.date >= horizon_s);
        let last_page = page.posts.is_empty() || i64::from(offset) >= page.total;
        read.extend(page.posts);
        if last_page {
            extent = Extent::Whole;
        }
        if last_page || !all_new {
            break;
        }
    }
    // A post that came while we were reading shifts the pages by one.
    read.sort_by_key(|post| std::cmp::Reverse(post.post_id));
    read.dedup_by_key(|post| (post.owner_id, post.post_id));
    Ok(Seen { posts: read, extent, title })
}

async fn account(
    reader: &Reader<'_>,
    source: &Source,
) -> Result<(domain::ids::AccountId, platforms::platform::Account), PollError> {
    let id = source.account_id.ok_or_else(|| PollError::Refused {
        why: format!(
            "source {}: no account to read with; give it one with a service or user token",
            source.name
        ),
        retry_after: None,
    })?;
    let rows = reader.store.accounts(source.workspace_id).await?;
    let row = rows.iter().find(|row| row.account_id == id).context("the account of the source is gone")?;
    if row.paused {
        let why = row.paused_why.as_deref().unwrap_or("by an operator");
        let why = format!("account {} is paused: {why}; resume it", row.name);
        return Err(PollError::Refused { why, retry_after: None });
    }
    let token = reader.store.account_token(source.workspace_id, id).await?;
    let account = addresses::account(row, &token, &reader.settings.bases)?;
    reader.network.admit(&account);
    Ok((id, account))
}

/// Reading spends the account's budget like sending does.
async fn wait_for_slot(
    reader: &Reader<'_>,
    source: &Source,
    account: domain::ids::AccountId,
) -> Result<(), PollError> {
    let slot = reader.store.reserve(source.workspace_id, account, 1).await?;
    let wait = slot - reader.store.now().await?;
    if wait > SLOT_WAIT_MAX {
        return Err(PollError::Later(slot));
    }
    tokio::time::sleep(wait.into()).await;
    Ok(())
}

/// What a platform's refusal means for a source, with what to do about it.
fn refused(walls: Walls, source: &Source, failure: &Failure) -> PollError {
    let remedy = walls.read.remedy(&failure.code).unwrap_or("it is tried again later");
    let why = format!("{}: {} ({}); {remedy}", source.address, failure.message, failure.code);
    if walls.read.is_closed(&failure.code) {
        return PollError::Closed(why);
    }
    PollError::Refused { why, retry_after: failure.retry_after_ms.map(Span::from_millis) }
}

fn source_name(walls: Walls, owner_id: i64) -> String {
    format!("{}:{owner_id}", walls.platform.name())
}

fn after(before: &Cursor, seen: &Seen) -> Cursor {
    let read = &seen.posts;
    let newest = read.iter().filter(|post| !post.is_pinned).take(OVERLAP as usize);
    Cursor {
        owner: read.first().map(|post| post.owner_id).or(before.owner),
        last: read.iter().map(|post| post.post_id).max().unwrap_or(0).max(before.last),
        window: newest.filter(|post| !post.is_deleted).map(|post| post.post_id).collect(),
        missing: Vec::new(),
        title: seen.title.clone().or_else(|| before.title.clone()),
    }
}

fn cursor_to_store(source: &Source, cursor: &Cursor) -> Value {
    let mut value = json!(cursor);
    value["interval_ms"] = source.cursor["interval_ms"].clone();
    value
}

/// Posts that stood in the last overlap and do not stand there any more, although their place was read: between the
/// others, or anywhere on a wall that was read to its end.
fn missing(before: &Cursor, read: &[WallPost], extent: Extent) -> Vec<i64> {
    let here: Vec<i64> = read.iter().filter(|post| !post.is_deleted).map(|post| post.post_id).collect();
    let oldest = match extent {
        Extent::Whole => Some(0),
        Extent::Part => read.iter().filter(|post| !post.is_pinned).map(|post| post.post_id).min(),
    };
    let oldest = oldest.unwrap_or(i64::MAX);
    let known = before.window.iter().chain(&before.missing).copied();
    let mut gone: Vec<i64> = known.filter(|id| *id >= oldest && !here.contains(id)).collect();
    gone.sort_unstable();
    gone.dedup();
    gone
}

fn raw(walls: Walls, post: &WallPost) -> RawPost {
    let (owner_id, post_id) = (post.owner_id, post.post_id);
    // Pictures of a repost stand with what is reposted.
    let photos = post.photos.iter().chain(post.copy_history.iter().flat_map(|copy| &copy.photos));
    let others = post.others.iter().chain(post.copy_history.iter().flat_map(|copy| &copy.others));
    RawPost {
        source: source_name(walls, owner_id),
        origin_id: post_id.to_string(),
        origin: Origin {
            source: walls.platform.name().into(),
            owner_id: Some(owner_id),
            post_id: Some(post_id),
            url: Some(walls.read.post_page(owner_id, post_id)),
            date: Some(post.date),
            edited: post.edited,
        },
        text: post.text.clone(),
        copies: post.copy_history.iter().map(copied).collect(),
        pictures: photos
            .map(|photo| RawPicture {
                key: walls.read.photo_page(&photo.id),
                url: photo.url.clone(),
                width: (photo.width > 0).then_some(photo.width),
                height: (photo.height > 0).then_some(photo.height),
            })
            .collect(),
        others: others.map(|other| RawOther { kind: other.kind.clone(), page: other.page.clone() }).collect(),
        withheld: withheld(post),
        ..RawPost::default()
    }
}

fn copied(post: &WallPost) -> Copied {
    Copied { owner_id: post.owner_id, post_id: post.post_id, date: post.date, text: post.text.clone() }
}

fn withheld(post: &WallPost) -> Option<String> {
    let why = match post {
        post if post.is_suggested => "suggested: not published by its own group yet",
        post if post.is_ad => "ad: marked as an advertisement",
        post if post.is_paid => "paid: only subscribers see it",
        _ => return None,
    };
    Some(why.to_owned())
}
