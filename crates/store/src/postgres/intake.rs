//! Posts in, in one transaction: known or new, changed or not, which case, who hears it, how far the source was read.
//!
//! Two nodes or two walls that bring the same case at once come here one after the other: the workspace's intake lock
//! is taken first and held to the end. The case is decided between two statements; what moves the queue is a function.

use std::collections::HashMap;

use domain::ids::{CaseId, ChannelId, DeliveryId, MessageId, WorkspaceId};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use super::cases::{refile, resolve, trim};
use super::enqueue::{ENQUEUE, check, items, named};
use super::held_posts::{hold, holds, withdraw};
use super::media::SHOW;
use super::sources::SET_CURSOR;
use super::trouble::{Reaction, Tries, Trouble};
use super::{Again, As, Postgres, Tx, rows};
use crate::error::{Result, StoreError};
use crate::held_posts::plan_hold;
use crate::intake::*;
use crate::media::blobs;
use crate::queue::{Enqueued, EnqueuedDelivery, NewMessage};

pub(super) const LOCK_INTAKE: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('rupor intake ' || $1::bigint, 0))";
pub(super) const LOCK_QUEUE: &str = "SELECT lock_workspace($1)";
/// One look per post: as a plain join, a plan that was made while the table was small reads the whole workspace.
const FIND_POSTS: &str = "
SELECT w.ord, m.message_id, coalesce(m.origin ->> 'hash', m.content_hash), m.case_id, m.payload
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS w (source, origin_id, ord)
 CROSS JOIN LATERAL (SELECT x.message_id, x.origin, x.content_hash, x.case_id, x.payload
                       FROM messages AS x
                      WHERE x.workspace_id = $1 AND x.source = w.source AND x.origin_id = w.origin_id
                     OFFSET 0) AS m
 ORDER BY w.ord";
const KNOWN_POSTS: &str = "
SELECT m.origin_id, m.message_id, m.origin ->> 'hash', m.gone_at IS NOT NULL
  FROM (SELECT DISTINCT w.origin_id FROM unnest($3::text[]) AS w (origin_id)) AS w
 CROSS JOIN LATERAL (SELECT x.origin_id, x.message_id, x.origin, x.gone_at
                       FROM messages AS x
                      WHERE x.workspace_id = $1 AND x.source = $2 AND x.origin_id = w.origin_id
                     OFFSET 0) AS m
 ORDER BY m.message_id";
const SEEN_AGAIN: &str = "
UPDATE messages
   SET seen_count = seen_count + 1, last_seen_at = rupor_now(), gone_at = NULL
 WHERE workspace_id = $1 AND message_id = $2";
const POSTS_SEEN: &str = "
UPDATE messages
   SET seen_count = seen_count + 1, last_seen_at = rupor_now(), gone_at = NULL
 WHERE workspace_id = $1 AND source = $2 AND origin_id = ANY ($3::text[])
RETURNING message_id";
const REVISE: &str = "SELECT revise_message($1, $2, $3)";
const COPIES: &str = "
SELECT d.delivery_id, d.channel_id, d.status, c.settings,
       EXISTS (SELECT FROM deliveries AS e
                WHERE e.message_id = d.message_id AND e.channel_id = d.channel_id AND e.action = 'edit'
                  AND e.target_delivery = d.delivery_id AND e.status IN ('queued', 'retry')),
       d.parts <> '[]' OR d.unknowns > 0
  FROM deliveries AS d JOIN channels AS c ON c.channel_id = d.channel_id
 WHERE d.message_id = $1 AND d.action = 'send' AND c.removed_at IS NULL
 ORDER BY d.delivery_id";
const CANCEL: &str = "SELECT cancel_deliveries($1, $2)";
const FOLLOW_UP: &str = "SELECT follow_up($1, $2)";
pub(super) const DELIVER: &str = "SELECT deliver_message($1, $2, $3)";
const CLOSE_CASE: &str = "
UPDATE cases
   SET closed_at = rupor_now(), closed_by = $3
 WHERE workspace_id = $1 AND case_id = $2 AND closed_at IS NULL
RETURNING case_id";
pub(super) const MESSAGES_OF_CASE: &str = "
SELECT message_id, kind, payload
  FROM messages
 WHERE workspace_id = $1 AND case_id = $2
 ORDER BY message_id";
const TELL: &str = "
INSERT INTO events (workspace_id, at, name, message_id, detail) VALUES ($1, rupor_now(), $2, $3, $4)";
const POST_GONE: &str = "SELECT post_gone($1, $2, $3)";
macro_rules! message_columns {
    () => {
        "SELECT message_id, source, origin_id, payload, kind, facts, tags, origin, case_id, revision, seen_count, \
         last_seen_at, skipped, gone_at, created_at FROM messages WHERE workspace_id = $1 "
    };
}
pub(super) use message_columns;
const SELECT_MESSAGE: &str = concat!(message_columns!(), "AND message_id = $2");
const SELECT_BY_ORIGIN: &str = concat!(message_columns!(), "AND source = $2 AND origin_id = $3");
const SELECT_BY_URL: &str =
    concat!(message_columns!(), "AND origin ->> 'url' = $2 ORDER BY message_id DESC LIMIT 1");
const SELECT_MESSAGES: &str = concat!(message_columns!(), "AND message_id > $2 ORDER BY message_id LIMIT $3");
const SELECT_RECENT: &str = concat!(message_columns!(), "ORDER BY message_id DESC LIMIT $2");

/// It looks through all messages.
pub(super) const LONG: &[&str] = &[SELECT_BY_URL];

pub(super) const STATEMENTS: &[&str] = &[
    LOCK_INTAKE,
    LOCK_QUEUE,
    FIND_POSTS,
    KNOWN_POSTS,
    SEEN_AGAIN,
    POSTS_SEEN,
    REVISE,
    COPIES,
    CANCEL,
    FOLLOW_UP,
    DELIVER,
    CLOSE_CASE,
    MESSAGES_OF_CASE,
    TELL,
    POST_GONE,
    SELECT_MESSAGE,
    SELECT_BY_ORIGIN,
    SELECT_BY_URL,
    SELECT_MESSAGES,
    SELECT_RECENT,
];

pub(super) type Tried<T> = std::result::Result<T, Trouble>;

impl Postgres {
    /// The natural keys make it safe to do again: after an unanswered COMMIT the same posts are known.
    pub async fn ingest(
        &self,
        workspace: WorkspaceId,
        posts: Vec<NewPost>,
        progress: Option<Progress>,
    ) -> Result<Vec<Ingested>> {
        check_batch(&posts)?;
        let messages: Vec<NewMessage> = posts.iter().map(|post| post.message.clone()).collect();
        check(&messages)?;
        let mut tries = Tries::default();
        loop {
            let (posts, progress) = (posts.clone(), progress.clone());
            let work = self.in_order(workspace, move |tx| ingest(tx, workspace, posts, progress).boxed());
            let trouble = match work.await {
                Ok(ingested) => {
                    if let (Some(message), Some(stored)) = (messages.last(), ingested.last()) {
                        self.accepted(workspace, message, stored.message_id);
                    }
                    self.ring();
                    return self.noted(Ok(ingested));
                }
                Err(trouble) => trouble,
            };
            if !tries.again(&trouble) || trouble.reaction() == Reaction::GiveUp {
                return self.noted(Err(named(trouble.into_error(self.pool.address()))));
            }
            tries.pause().await;
        }
    }

    pub async fn known_posts(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_ids: Vec<String>,
    ) -> Result<Vec<KnownPost>> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &source, &origin_ids];
        let rows = self.all(As::App(workspace), Again::Safe, KNOWN_POSTS, &params).await?;
        let known = |row: &Row| KnownPost {
            origin_id: row.get(0),
            message_id: MessageId(row.get(1)),
            origin_hash: row.get(2),
            gone: row.get(3),
        };
        let mut known: Vec<KnownPost> = rows.iter().map(known).collect();
        let place = |post: &KnownPost| origin_ids.iter().position(|id| *id == post.origin_id);
        known.sort_by_key(place);
        Ok(known)
    }

    pub async fn posts_seen(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_ids: Vec<String>,
    ) -> Result<usize> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &source, &origin_ids];
        Ok(self.all(As::App(workspace), Again::Never, POSTS_SEEN, &params).await?.len())
    }

    pub async fn post_gone(&self, workspace: WorkspaceId, source: &str, origin_id: &str) -> Result<bool> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &source, &origin_id];
        let gone = self.one(As::App(workspace), Again::Safe, POST_GONE, &params).await?.get(0);
        self.ring();
        Ok(gone)
    }

    pub async fn message(&self, workspace: WorkspaceId, id: MessageId) -> Result<StoredMessage> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_MESSAGE, &[&workspace.0, &id.0]).await?;
        Ok(stored_message(&row.ok_or_else(|| StoreError::not_found("message", id))?))
    }

    pub async fn message_by_origin(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_id: &str,
    ) -> Result<Option<StoredMessage>> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &source, &origin_id];
        let row = self.first(As::App(workspace), Again::Safe, SELECT_BY_ORIGIN, &params).await?;
        Ok(row.as_ref().map(stored_message))
    }

    pub async fn message_by_url(&self, workspace: WorkspaceId, url: &str) -> Result<Option<StoredMessage>> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_BY_URL, &[&workspace.0, &url]).await?;
        Ok(row.as_ref().map(stored_message))
    }

    pub async fn messages(
        &self,
        workspace: WorkspaceId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<StoredMessage>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &after, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_MESSAGES, &params).await?;
        Ok(rows.iter().map(stored_message).collect())
    }

    pub async fn recent_messages(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<StoredMessage>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&workspace.0, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_RECENT, &params).await?;
        Ok(rows.iter().map(stored_message).collect())
    }
}

pub(super) fn stored_message(row: &Row) -> StoredMessage {
    StoredMessage {
        message_id: MessageId(row.get(0)),
        source: row.get(1),
        origin_id: row.get(2),
        payload: row.get(3),
        kind: row.get(4),
        facts: row.get(5),
        tags: row.get(6),
        origin: row.get(7),
        case_id: row.get::<_, Option<i64>>(8).map(CaseId),
        revision: row.get(9),
        seen_count: row.get(10),
        last_seen_at: rows::at(row, 11),
        skipped: row.get(12),
        gone_at: rows::time(row, 13),
        created_at: rows::at(row, 14),
    }
}

/// What is to be done with one post, once its place is known.
enum Step {
    /// The n-th of the new messages.
    Fresh(usize),
    /// The n-th post of this call is the same one.
    Again(usize),
    Seen(Known),
    Revise(Known),
}

struct Known {
    message_id: MessageId,
    mark: String,
    case_id: Option<CaseId>,
    payload: Value,
}

async fn ingest(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    mut posts: Vec<NewPost>,
    progress: Option<Progress>,
) -> Tried<Vec<Ingested>> {
    tx.all(LOCK_INTAKE, &[&workspace.0]).await?;
    let mut fresh = Vec::new();
    let steps = place(tx, workspace, &mut posts, &mut fresh).await?;
    let moves_more = |step: &Step, post: &NewPost| match step {
        Step::Revise(_) => true,
        Step::Fresh(_) => post.ends_story(),
        Step::Again(_) | Step::Seen(_) => false,
    };
    if steps.iter().zip(&posts).any(|(step, post)| moves_more(step, post)) {
        // Several functions will move the queue: its locks are taken once, in the one order.
        tx.all(LOCK_QUEUE, &[&workspace.0]).await?;
    }
    let row = tx.one(ENQUEUE, &[&workspace.0, &Json(items(&fresh))]).await?;
    let Json::<Vec<Enqueued>>(enqueued) = row.get(0);
    let mut ingested: Vec<Ingested> = Vec::with_capacity(posts.len());
    for (step, post) in steps.into_iter().zip(&posts) {
        let one = match step {
            Step::Fresh(n) => {
                let message_id = enqueued[n].message_id;
                if let Some(why) = &post.message.skipped {
                    tell(tx, workspace, "ingest_skipped", message_id, json!({"why": why})).await?;
                }
                if let Some(held) = post.held() {
                    hold(tx, workspace, message_id, &held.channels, &held.why).await?;
                }
                told_of(post, message_id, Fate::Stored, post.message.case_id, enqueued[n].deliveries.clone())
            }
            Step::Again(n) => {
                let earlier = ingested[n].clone();
                tx.all(SEEN_AGAIN, &[&workspace.0, &earlier.message_id.0]).await?;
                Ingested { fate: Fate::Seen, deliveries: Vec::new(), ..earlier }
            }
            Step::Seen(known) => {
                tx.all(SEEN_AGAIN, &[&workspace.0, &known.message_id.0]).await?;
                told_of(post, known.message_id, Fate::Seen, known.case_id, Vec::new())
            }
            Step::Revise(known) => revise(tx, workspace, post, &known).await?,
        };
        close_if_told(tx, workspace, post, &one).await?;
        ingested.push(one);
    }
    show(tx, workspace, &posts, &ingested).await?;
    if let Some(progress) = progress {
        let (id, owner, cursor) = (&progress.source_id.0, &progress.owner, &progress.cursor);
        tx.all(SET_CURSOR, &[&workspace.0, id, owner, cursor]).await?;
    }
    Ok(ingested)
}

/// Finds out what each post is, in order, and files the new and the changed ones with their cases.
async fn place(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    posts: &mut [NewPost],
    fresh: &mut Vec<NewMessage>,
) -> Tried<Vec<Step>> {
    let mut steps = Vec::with_capacity(posts.len());
    let (mut first_of, mut memory) = (HashMap::new(), CaseMemory::default());
    let mut all_known = find_posts(tx, workspace, posts).await?;
    for (n, post) in posts.iter_mut().enumerate() {
        let name = (post.message.source.clone(), post.message.origin_id.clone());
        if let Some(&earlier) = first_of.get(&name) {
            steps.push(Step::Again(earlier));
            continue;
        }
        first_of.insert(name, n);
        steps.push(match all_known.remove(&n) {
            Some(known) if known.mark == post.mark() => Step::Seen(known),
            known => {
                let case_id = known.as_ref().and_then(|known| known.case_id);
                if let Some(sketch) = &post.sketch {
                    match case_id {
                        Some(case) => refile(tx, workspace, &mut memory, case, &post.message, sketch).await?,
                        None => resolve(tx, workspace, &mut memory, &mut post.message, sketch).await?,
                    }
                }
                post.message.case_id = post.message.case_id.or(case_id);
                match known {
                    Some(known) => Step::Revise(known),
                    None => {
                        fresh.push(post.message.clone());
                        Step::Fresh(fresh.len() - 1)
                    }
                }
            }
        });
    }
    trim(tx, workspace, &memory).await?;
    Ok(steps)
}

/// The known ones by their place in the call.
async fn find_posts(tx: &Tx<'_>, workspace: WorkspaceId, posts: &[NewPost]) -> Tried<HashMap<usize, Known>> {
    let sources: Vec<&str> = posts.iter().map(|post| post.message.source.as_str()).collect();
    let origin_ids: Vec<&str> = posts.iter().map(|post| post.message.origin_id.as_str()).collect();
    let rows = tx.all(FIND_POSTS, &[&workspace.0, &sources, &origin_ids]).await?;
    let known = |row: &Row| {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
        let known = Known {
            message_id: MessageId(row.get(1)),
            mark: row.get(2),
            case_id: row.get::<_, Option<i64>>(3).map(CaseId),
            payload: row.get(4),
        };
        (place, known)
    };
    Ok(rows.iter().map(known).collect())
}

fn told_of(
    post: &NewPost,
    message_id: MessageId,
    fate: Fate,
    case_id: Option<CaseId>,
    deliveries: Vec<EnqueuedDelivery>,
) -> Ingested {
    Ingested { message_id, fate, case_id, deliveries, skipped: post.message.skipped.clone() }
}

/// A new revision: what waits takes it, what is out is edited, channels that it is for now get it.
async fn revise(tx: &Tx<'_>, workspace: WorkspaceId, post: &NewPost, known: &Known) -> Tried<Ingested> {
    let id = known.message_id;
    let mut message = post.message.clone();
    if is_closed_payload(&known.payload) && ends_with_reunion(&message.kind) {
        message.payload = closed_payload(&message.payload);
    }
    let copies = copies(tx, id).await?;
    let holding = plan_hold(post.held(), &holds(tx, workspace, id).await?, &copies);
    message.channels.extend(&holding.deliver);
    let plan = plan_revision(&copies, &message.channels);
    let n_cancelled = cancel_all(tx, workspace, &plan.cancel).await?;
    let revision: i32 = tx.one(REVISE, &[&workspace.0, &id.0, &Json(&message)]).await?.get(0);
    let edits: Vec<FollowUp> =
        plan.edit.iter().map(|copy| follow_up_of(copy, id, revision, "edit")).collect();
    let n_edits = follow_up(tx, workspace, &edits).await?;
    let detail = json!({"revision": revision, "edits": n_edits, "cancelled": n_cancelled});
    tell(tx, workspace, "edited", id, detail).await?;
    withdraw(tx, workspace, id).await?;
    let why = post.held().map_or("", |held| held.why.as_str());
    hold(tx, workspace, id, &holding.hold, why).await?;
    let mut deliveries = Vec::new();
    if !plan.deliver.is_empty() {
        message.channels = plan.deliver.clone();
        let row = tx.one(DELIVER, &[&workspace.0, &id.0, &Json(&message)]).await?;
        let Json::<Enqueued>(enqueued) = row.get(0);
        let is_new = |delivery: &EnqueuedDelivery| plan.deliver.contains(&delivery.channel_id);
        deliveries = enqueued.deliveries.into_iter().filter(is_new).collect();
    }
    Ok(told_of(post, id, Fate::Revised, message.case_id, deliveries))
}

/// A reunion ends the story of its case, when it arrives and when a search is edited into one.
async fn close_if_told(tx: &Tx<'_>, workspace: WorkspaceId, post: &NewPost, one: &Ingested) -> Tried<()> {
    let news = one.fate != Fate::Seen && post.ends_story();
    match one.case_id.filter(|_| news) {
        Some(case) => close_case(tx, workspace, case, one.message_id).await.map(drop),
        None => Ok(()),
    }
}

/// How many published posts are edited.
pub(super) async fn close_case(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    case: CaseId,
    by: MessageId,
) -> Tried<usize> {
    let first = tx.first(CLOSE_CASE, &[&workspace.0, &case.0, &by.0]).await?.is_some();
    let (mut n_cancelled, mut n_edited, mut replies) = (0, 0, Vec::new());
    for row in tx.all(MESSAGES_OF_CASE, &[&workspace.0, &case.0]).await? {
        let (message_id, kind, payload) = (MessageId(row.get(0)), row.get::<_, String>(1), row.get(2));
        if message_id == by || !ends_with_reunion(&kind) {
            continue;
        }
        withdraw(tx, workspace, message_id).await?;
        let plan = plan_closing(&copies(tx, message_id).await?);
        n_cancelled += cancel_all(tx, workspace, &plan.cancel).await?;
        if first && !is_closed_payload(&payload) {
            n_edited += reword(tx, workspace, message_id, closed_payload(&payload), &plan.edit).await?;
            replies.extend(plan.reply);
        }
    }
    let replies: Vec<FollowUp> =
        latest_of_channel(replies).iter().map(|copy| follow_up_of(copy, by, 1, "reply")).collect();
    let n_replied = follow_up(tx, workspace, &replies).await?;
    if !first && n_cancelled == 0 {
        return Ok(n_edited);
    }
    let detail = json!({"case": case, "cancelled": n_cancelled, "edited": n_edited, "replied": n_replied});
    tell(tx, workspace, "closed", by, detail).await?;
    Ok(n_edited)
}

/// The same post under another heading: what is published is edited.
pub(super) async fn reword(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    message_id: MessageId,
    payload: Value,
    copies: &[Published],
) -> Tried<usize> {
    if copies.is_empty() {
        return Ok(0);
    }
    let words = Json(json!({"payload": payload}));
    let revision: i32 = tx.one(REVISE, &[&workspace.0, &message_id.0, &words]).await?.get(0);
    let untold = copies.iter().filter(|copy| !copy.edit_waits);
    let edits: Vec<FollowUp> = untold.map(|copy| follow_up_of(copy, message_id, revision, "edit")).collect();
    follow_up(tx, workspace, &edits).await?;
    Ok(copies.len())
}

pub(super) async fn copies(tx: &Tx<'_>, message_id: MessageId) -> Tried<Vec<Published>> {
    let copy = |row: &Row| Published {
        delivery_id: DeliveryId(row.get(0)),
        channel_id: ChannelId(row.get(1)),
        state: CopyState::of(row.get(2), row.get(5)),
        settings: row.get(3),
        edit_waits: row.get(4),
    };
    Ok(tx.all(COPIES, &[&message_id.0]).await?.iter().map(copy).collect())
}

async fn cancel_all(tx: &Tx<'_>, workspace: WorkspaceId, ids: &[DeliveryId]) -> Tried<usize> {
    if ids.is_empty() {
        return Ok(0);
    }
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let cancelled: Vec<bool> = tx.one(CANCEL, &[&workspace.0, &ids]).await?.get(0);
    Ok(cancelled.into_iter().filter(|cancelled| *cancelled).count())
}

/// Deliveries that follow what was said. They repeat nothing, so no key is taken.
async fn follow_up(tx: &Tx<'_>, workspace: WorkspaceId, follow_ups: &[FollowUp]) -> Tried<usize> {
    if follow_ups.is_empty() {
        return Ok(0);
    }
    let made: Vec<Option<i64>> = tx.one(FOLLOW_UP, &[&workspace.0, &Json(follow_ups)]).await?.get(0);
    Ok(made.into_iter().flatten().count())
}

/// What the messages of this call show must stay.
async fn show(tx: &Tx<'_>, workspace: WorkspaceId, posts: &[NewPost], ingested: &[Ingested]) -> Tried<()> {
    let (mut names, mut messages) = (Vec::new(), Vec::new());
    for (post, one) in posts.iter().zip(ingested).filter(|(_, one)| one.fate != Fate::Seen) {
        for sha256 in blobs(&post.message.payload) {
            names.push(sha256);
            messages.push(one.message_id.0);
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    tx.all(SHOW, &[&workspace.0, &names, &messages]).await.map(drop)
}

pub(super) async fn tell(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    name: &str,
    message_id: MessageId,
    detail: Value,
) -> Tried<()> {
    tx.all(TELL, &[&workspace.0, &name, &message_id.0, &detail]).await.map(drop)
}
