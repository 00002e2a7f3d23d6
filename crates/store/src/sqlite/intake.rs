//! Posts in, in one transaction: known or new, changed or not, which case, who hears it, how far the source was read.
//!
//! The writer is one thread, so two walls that bring the same case at once come here one after the other.

use std::collections::HashMap;

use domain::ids::{CaseId, ChannelId, DeliveryId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::cases::{refile, resolve, trim};
use super::enqueue::{INSERT_READY, check, deliver_known, enqueue};
use super::heads::{NewEvent, Touched, event};
use super::held_posts::{hold, holds, withdraw};
use super::maintain::{cancel_one, say_instead, silent_copy};
use super::media::show;
use super::sources::set_cursor;
use super::workspaces::require_workspace;
use super::{Sqlite, Tx, Urgency, history, rows};
use crate::error::{Result, StoreError};
use crate::held_posts::plan_hold;
use crate::intake::*;
use crate::queue::{EnqueuedDelivery, NewMessage};

pub(super) const FIND_POST: &str = "
SELECT message_id, coalesce(origin ->> 'hash', content_hash), case_id, payload
  FROM messages
 WHERE workspace_id = ?1 AND source = ?2 AND origin_id = ?3";
pub(super) const KNOWN_POST: &str = "
SELECT message_id, origin ->> 'hash', gone_at IS NOT NULL
  FROM messages
 WHERE workspace_id = ?1 AND source = ?2 AND origin_id = ?3";
const SEEN_AGAIN: &str = "
UPDATE messages
   SET seen_count = seen_count + 1, last_seen_at = ?2, gone_at = NULL
 WHERE message_id = ?1";
const REVISE: &str = "
UPDATE messages
   SET payload = ?2, content_hash = ?3, fingerprint = ?4, kind = ?5, facts = ?6, tags = ?7, origin = ?8,
       case_id = coalesce(?9, case_id), skipped = ?10, revision = revision + 1, seen_count = seen_count + 1,
       last_seen_at = ?11, gone_at = NULL
 WHERE message_id = ?1
RETURNING revision";
const REVISE_PAYLOAD: &str =
    "UPDATE messages SET payload = ?2, revision = revision + 1 WHERE message_id = ?1 RETURNING revision";
/// An edit that was half done begins again: the parts it has changed say the words before. Of several edits that wait the
/// last one takes the number; whichever is sent brings the words of its time.
pub(super) const TAKE_REVISION: &str = "
UPDATE deliveries
   SET revision = CASE WHEN EXISTS (SELECT 1 FROM deliveries AS later
                                     WHERE later.message_id = deliveries.message_id
                                       AND later.channel_id = deliveries.channel_id
                                       AND later.action = deliveries.action AND later.generation = deliveries.generation
                                       AND later.delivery_id > deliveries.delivery_id)
                       THEN revision ELSE ?2 END,
       parts = CASE WHEN action = 'edit' AND revision <> ?2 THEN '[]' ELSE parts END
 WHERE message_id = ?1 AND channel_id IS NOT NULL AND status IN ('queued', 'retry')";
pub(super) const COPIES: &str = "
SELECT d.delivery_id, d.channel_id, d.status, c.settings,
       EXISTS (SELECT 1 FROM deliveries AS e
                WHERE e.message_id = d.message_id AND e.channel_id = d.channel_id AND e.action = 'edit'
                  AND e.target_delivery = d.delivery_id AND e.status IN ('queued', 'retry')),
       d.parts <> '[]' OR d.unknowns > 0
  FROM deliveries AS d JOIN channels AS c ON c.channel_id = d.channel_id
 WHERE d.message_id = ?1 AND d.channel_id IS NOT NULL AND d.action = 'send' AND c.removed_at IS NULL
 ORDER BY d.delivery_id";
const CLOSE_CASE: &str = "
UPDATE cases SET closed_at = ?3, closed_by = ?4 WHERE workspace_id = ?1 AND case_id = ?2 AND closed_at IS NULL";
pub(super) const MESSAGES_OF_CASE: &str = "
SELECT message_id, kind, payload
  FROM messages
 WHERE workspace_id = ?1 AND case_id = ?2
 ORDER BY message_id";
const SELECT_LANE: &str = "
SELECT h.lane_id, h.account_id, h.max_parallel = 1
  FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
 WHERE c.workspace_id = ?1 AND c.channel_id = ?2 AND c.removed_at IS NULL";
const INSERT_FOLLOW_UP: &str = "
INSERT INTO deliveries (workspace_id, lane_id, account_id, channel_id, message_id, revision, action, target_delivery,
                        status, run_at, position, idempotency_key, queued_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'queued', ?9, 0, '', ?9)
ON CONFLICT DO NOTHING";
const SET_PLACE: &str = "UPDATE deliveries SET position = ?2, idempotency_key = ?3 WHERE delivery_id = ?1";
const POST_GONE: &str = "
UPDATE messages
   SET gone_at = ?4
 WHERE workspace_id = ?1 AND source = ?2 AND origin_id = ?3 AND gone_at IS NULL
RETURNING message_id, revision";
pub(super) const MESSAGE_COLUMNS: &str = "message_id, source, origin_id, payload, kind, facts, tags, origin, case_id, revision, \
     seen_count, last_seen_at, skipped, gone_at, created_at";

impl Sqlite {
    pub async fn ingest(
        &self,
        workspace: WorkspaceId,
        posts: Vec<NewPost>,
        progress: Option<Progress>,
    ) -> Result<Vec<Ingested>> {
        check_batch(&posts)?;
        let messages: Vec<NewMessage> = posts.iter().map(|post| post.message.clone()).collect();
        check(&messages)?;
        let ingested = self.write(Urgency::Enqueue, move |tx| ingest(tx, workspace, posts, progress)).await?;
        self.bell.ring();
        Ok(ingested)
    }

    pub async fn known_posts(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_ids: Vec<String>,
    ) -> Result<Vec<KnownPost>> {
        let source = source.to_owned();
        self.read(move |tx| {
            let mut known = Vec::new();
            for origin_id in origin_ids {
                let found = tx.first(KNOWN_POST, (workspace.0, &source, &origin_id), |row| {
                    Ok((MessageId(row.get(0)?), row.get(1)?, row.get(2)?))
                })?;
                known.extend(found.map(|(message_id, origin_hash, gone)| KnownPost {
                    origin_id,
                    message_id,
                    origin_hash,
                    gone,
                }));
            }
            Ok(known)
        })
        .await
    }

    pub async fn posts_seen(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_ids: Vec<String>,
    ) -> Result<usize> {
        let source = source.to_owned();
        self.write(Urgency::Enqueue, move |tx| {
            let mut n_seen = 0;
            for origin_id in &origin_ids {
                let found =
                    tx.first(KNOWN_POST, (workspace.0, &source, origin_id), |row| row.get::<_, i64>(0))?;
                if let Some(message_id) = found {
                    n_seen += tx.execute(SEEN_AGAIN, (message_id, tx.now.0))?;
                }
            }
            Ok(n_seen)
        })
        .await
    }

    pub async fn post_gone(&self, workspace: WorkspaceId, source: &str, origin_id: &str) -> Result<bool> {
        let (source, origin_id) = (source.to_owned(), origin_id.to_owned());
        let gone =
            self.write(Urgency::Enqueue, move |tx| post_gone(tx, workspace, &source, &origin_id)).await?;
        self.bell.ring();
        Ok(gone)
    }

    pub async fn message(&self, workspace: WorkspaceId, id: MessageId) -> Result<StoredMessage> {
        let sql =
            format!("SELECT {MESSAGE_COLUMNS} FROM messages WHERE workspace_id = ?1 AND message_id = ?2");
        let found = self.read(move |tx| tx.first(&sql, (workspace.0, id.0), stored_message)).await?;
        found.ok_or_else(|| StoreError::not_found("message", id))
    }

    pub async fn message_by_origin(
        &self,
        workspace: WorkspaceId,
        source: &str,
        origin_id: &str,
    ) -> Result<Option<StoredMessage>> {
        let sql = format!(
            "SELECT {MESSAGE_COLUMNS} FROM messages WHERE workspace_id = ?1 AND source = ?2 AND origin_id = ?3"
        );
        let (source, origin_id) = (source.to_owned(), origin_id.to_owned());
        self.read(move |tx| tx.first(&sql, (workspace.0, source, origin_id), stored_message)).await
    }

    pub async fn message_by_url(&self, workspace: WorkspaceId, url: &str) -> Result<Option<StoredMessage>> {
        let sql = format!(
            "SELECT {MESSAGE_COLUMNS} FROM messages
              WHERE workspace_id = ?1 AND origin ->> 'url' = ?2 ORDER BY message_id DESC LIMIT 1"
        );
        let url = url.to_owned();
        self.read(move |tx| tx.first(&sql, (workspace.0, url), stored_message)).await
    }

    pub async fn messages(
        &self,
        workspace: WorkspaceId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<StoredMessage>> {
        let sql = format!(
            "SELECT {MESSAGE_COLUMNS} FROM messages
              WHERE workspace_id = ?1 AND message_id > ?2 ORDER BY message_id LIMIT ?3"
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, after, limit as i64), stored_message)).await
    }

    pub async fn recent_messages(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<StoredMessage>> {
        let sql = format!(
            "SELECT {MESSAGE_COLUMNS} FROM messages
              WHERE workspace_id = ?1 ORDER BY message_id DESC LIMIT ?2"
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, limit as i64), stored_message)).await
    }
}

/// What waits is cancelled, and a copy that kept silent because of it is said instead; what was said is deleted where the
/// channel wants it.
fn post_gone(tx: &Tx<'_>, workspace: WorkspaceId, source: &str, origin_id: &str) -> Result<bool> {
    let gone = tx.first(POST_GONE, (workspace.0, source, origin_id, tx.now.0), |row| {
        Ok((MessageId(row.get(0)?), row.get(1)?))
    })?;
    let Some((message_id, revision)) = gone else {
        return Ok(false);
    };
    withdraw(tx, workspace, message_id)?;
    let plan = plan_gone(&copies(tx, message_id)?);
    let mut silent = Vec::new();
    for &id in &plan.cancel {
        silent.extend(silent_copy(tx, id)?.map(|copy| (copy, id)));
    }
    let n_cancelled = cancel_all(tx, workspace, &plan.cancel)?;
    let mut touched = Touched::default();
    for (copy, id) in silent {
        say_instead(tx, &mut touched, workspace, copy, id)?;
    }
    touched.refresh(tx)?;
    let deletes: Vec<FollowUp> =
        plan.delete.iter().map(|copy| follow_up_of(copy, message_id, revision, "delete")).collect();
    let n_deleted = follow_up(tx, workspace, &deletes)?;
    let detail =
        json!({"source": source, "origin_id": origin_id, "cancelled": n_cancelled, "deleted": n_deleted});
    note_event(tx, workspace, "gone", message_id, detail)?;
    Ok(true)
}

pub(super) fn stored_message(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredMessage> {
    Ok(StoredMessage {
        message_id: MessageId(row.get(0)?),
        source: row.get(1)?,
        origin_id: row.get(2)?,
        payload: rows::json(row, 3)?,
        kind: row.get(4)?,
        facts: rows::json(row, 5)?,
        tags: rows::json(row, 6)?,
        origin: rows::json(row, 7)?,
        case_id: row.get::<_, Option<i64>>(8)?.map(CaseId),
        revision: row.get(9)?,
        seen_count: row.get(10)?,
        last_seen_at: Timestamp(row.get(11)?),
        skipped: row.get(12)?,
        gone_at: rows::time(row, 13)?,
        created_at: Timestamp(row.get(14)?),
    })
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

fn ingest(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    mut posts: Vec<NewPost>,
    progress: Option<Progress>,
) -> Result<Vec<Ingested>> {
    require_workspace(tx, workspace)?;
    let mut fresh = Vec::new();
    let steps = place(tx, workspace, &mut posts, &mut fresh)?;
    let enqueued = enqueue(tx, workspace, &fresh)?;
    let mut ingested: Vec<Ingested> = Vec::with_capacity(posts.len());
    for (step, post) in steps.into_iter().zip(&posts) {
        let one = match step {
            Step::Fresh(n) => {
                let message_id = enqueued[n].message_id;
                show(tx, workspace, message_id, &post.message.payload)?;
                if let Some(why) = &post.message.skipped {
                    note_event(tx, workspace, "ingest_skipped", message_id, json!({"why": why}))?;
                }
                if let Some(held) = post.held() {
                    hold(tx, workspace, message_id, &held.channels, &held.why)?;
                }
                told_of(post, message_id, Fate::Stored, post.message.case_id, enqueued[n].deliveries.clone())
            }
            Step::Again(n) => {
                let earlier = ingested[n].clone();
                tx.execute(SEEN_AGAIN, (earlier.message_id.0, tx.now.0))?;
                Ingested { fate: Fate::Seen, deliveries: Vec::new(), ..earlier }
            }
            Step::Seen(known) => {
                tx.execute(SEEN_AGAIN, (known.message_id.0, tx.now.0))?;
                told_of(post, known.message_id, Fate::Seen, known.case_id, Vec::new())
            }
            Step::Revise(known) => revise(tx, workspace, post, &known)?,
        };
        close_if_told(tx, workspace, post, &one)?;
        ingested.push(one);
    }
    if let Some(progress) = progress {
        set_cursor(tx, workspace, &progress)?;
    }
    Ok(ingested)
}

/// Finds out what each post is, in order, and files the new and the changed ones with their cases.
fn place(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    posts: &mut [NewPost],
    fresh: &mut Vec<NewMessage>,
) -> Result<Vec<Step>> {
    let mut steps = Vec::with_capacity(posts.len());
    let (mut first_of, mut memory) = (HashMap::new(), CaseMemory::default());
    for (n, post) in posts.iter_mut().enumerate() {
        let name = (post.message.source.clone(), post.message.origin_id.clone());
        if let Some(&earlier) = first_of.get(&name) {
            steps.push(Step::Again(earlier));
            continue;
        }
        first_of.insert(name, n);
        let known = find_post(tx, workspace, &post.message)?;
        steps.push(match known {
            Some(known) if known.mark == post.mark() => Step::Seen(known),
            known => {
                let case_id = known.as_ref().and_then(|known| known.case_id);
                if let Some(sketch) = &post.sketch {
                    match case_id {
                        Some(case) => refile(tx, workspace, &mut memory, case, &post.message, sketch)?,
                        None => resolve(tx, workspace, &mut memory, &mut post.message, sketch)?,
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
    trim(tx, workspace, &memory)?;
    Ok(steps)
}

fn find_post(tx: &Tx<'_>, workspace: WorkspaceId, message: &NewMessage) -> Result<Option<Known>> {
    tx.first(FIND_POST, (workspace.0, &message.source, &message.origin_id), |row| {
        Ok(Known {
            message_id: MessageId(row.get(0)?),
            mark: row.get(1)?,
            case_id: row.get::<_, Option<i64>>(2)?.map(CaseId),
            payload: rows::json(row, 3)?,
        })
    })
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
fn revise(tx: &Tx<'_>, workspace: WorkspaceId, post: &NewPost, known: &Known) -> Result<Ingested> {
    let (message, id) = (&post.message, known.message_id);
    let revision = write_revision(tx, message, known)?;
    show(tx, workspace, id, &message.payload)?;
    let copies = copies(tx, id)?;
    let holding = plan_hold(post.held(), &holds(tx, workspace, id)?, &copies);
    let wanted: Vec<ChannelId> = message.channels.iter().chain(&holding.deliver).copied().collect();
    let plan = plan_revision(&copies, &wanted);
    let n_cancelled = cancel_all(tx, workspace, &plan.cancel)?;
    tx.execute(TAKE_REVISION, (id.0, revision))?;
    let edits: Vec<FollowUp> =
        plan.edit.iter().map(|copy| follow_up_of(copy, id, revision, "edit")).collect();
    let n_edits = follow_up(tx, workspace, &edits)?;
    let detail = json!({"revision": revision, "edits": n_edits, "cancelled": n_cancelled});
    note_event(tx, workspace, "edited", id, detail)?;
    withdraw(tx, workspace, id)?;
    hold(tx, workspace, id, &holding.hold, post.held().map_or("", |held| held.why.as_str()))?;
    let mut deliveries = Vec::new();
    if !plan.deliver.is_empty() {
        let wider = NewMessage { channels: plan.deliver, ..message.clone() };
        deliveries = deliver_known(tx, workspace, &wider, id)?.deliveries;
        tx.execute(TAKE_REVISION, (id.0, revision))?;
    }
    Ok(told_of(post, id, Fate::Revised, message.case_id, deliveries))
}

fn write_revision(tx: &Tx<'_>, message: &NewMessage, known: &Known) -> Result<i32> {
    let payload = match is_closed_payload(&known.payload) && ends_with_reunion(&message.kind) {
        true => closed_payload(&message.payload),
        false => message.payload.clone(),
    };
    let params = rusqlite::params![
        known.message_id.0,
        payload.to_string(),
        message.content_hash,
        message.fingerprint,
        message.kind,
        message.facts.to_string(),
        Value::from(message.tags.clone()).to_string(),
        message.origin.to_string(),
        message.case_id.map(|id| id.0),
        message.skipped,
        tx.now.0
    ];
    let revision = tx.first(REVISE, params, |row| row.get(0))?;
    revision.ok_or_else(|| StoreError::not_found("message", known.message_id))
}

/// A reunion ends the story of its case, when it arrives and when a search is edited into one.
fn close_if_told(tx: &Tx<'_>, workspace: WorkspaceId, post: &NewPost, one: &Ingested) -> Result<()> {
    let news = one.fate != Fate::Seen && post.ends_story();
    match one.case_id.filter(|_| news) {
        Some(case) => close_case(tx, workspace, case, one.message_id).map(drop),
        None => Ok(()),
    }
}

/// How many published posts are edited.
pub(super) fn close_case(tx: &Tx<'_>, workspace: WorkspaceId, case: CaseId, by: MessageId) -> Result<usize> {
    let first = tx.execute(CLOSE_CASE, (workspace.0, case.0, tx.now.0, by.0))? > 0;
    let messages = tx.all(MESSAGES_OF_CASE, (workspace.0, case.0), |row| {
        Ok((MessageId(row.get(0)?), row.get::<_, String>(1)?, rows::json(row, 2)?))
    })?;
    let (mut n_cancelled, mut n_edited, mut replies) = (0, 0, Vec::new());
    for (message_id, kind, payload) in messages {
        if message_id == by || !ends_with_reunion(&kind) {
            continue;
        }
        withdraw(tx, workspace, message_id)?;
        let plan = plan_closing(&copies(tx, message_id)?);
        n_cancelled += cancel_all(tx, workspace, &plan.cancel)?;
        if first && !is_closed_payload(&payload) {
            n_edited += reword(tx, workspace, message_id, &closed_payload(&payload), &plan.edit)?;
            replies.extend(plan.reply);
        }
    }
    let replies: Vec<FollowUp> =
        latest_of_channel(replies).iter().map(|copy| follow_up_of(copy, by, 1, "reply")).collect();
    let n_replied = follow_up(tx, workspace, &replies)?;
    if !first && n_cancelled == 0 {
        return Ok(n_edited);
    }
    let detail = json!({"case": case, "cancelled": n_cancelled, "edited": n_edited, "replied": n_replied});
    note_event(tx, workspace, "closed", by, detail)?;
    Ok(n_edited)
}

/// The same post under another heading: what is published is edited.
pub(super) fn reword(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    message_id: MessageId,
    payload: &Value,
    copies: &[Published],
) -> Result<usize> {
    if copies.is_empty() {
        return Ok(0);
    }
    let params = (message_id.0, payload.to_string());
    let revision = tx.first(REVISE_PAYLOAD, params, |row| row.get(0))?;
    let revision = revision.ok_or_else(|| StoreError::not_found("message", message_id))?;
    tx.execute(TAKE_REVISION, (message_id.0, revision))?;
    let untold = copies.iter().filter(|copy| !copy.edit_waits);
    let edits: Vec<FollowUp> = untold.map(|copy| follow_up_of(copy, message_id, revision, "edit")).collect();
    follow_up(tx, workspace, &edits)?;
    Ok(copies.len())
}

pub(super) fn copies(tx: &Tx<'_>, message_id: MessageId) -> Result<Vec<Published>> {
    tx.all(COPIES, [message_id.0], |row| {
        Ok(Published {
            delivery_id: DeliveryId(row.get(0)?),
            channel_id: ChannelId(row.get(1)?),
            state: CopyState::of(row.get_ref(2)?.as_str()?, row.get(5)?),
            settings: rows::json(row, 3)?,
            edit_waits: row.get(4)?,
        })
    })
}

pub(super) fn cancel_all(tx: &Tx<'_>, workspace: WorkspaceId, ids: &[DeliveryId]) -> Result<usize> {
    let mut touched = Touched::default();
    let mut n_cancelled = 0;
    for &id in ids {
        n_cancelled += usize::from(cancel_one(tx, &mut touched, workspace, id)?);
    }
    touched.refresh(tx)?;
    Ok(n_cancelled)
}

/// Deliveries that follow what was said. They repeat nothing, so no key is taken.
fn follow_up(tx: &Tx<'_>, workspace: WorkspaceId, follow_ups: &[FollowUp]) -> Result<usize> {
    let mut touched = Touched::default();
    let mut n_made = 0;
    for follow in follow_ups {
        let lane = tx.first(SELECT_LANE, (workspace.0, follow.channel_id.0), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, bool>(2)?))
        })?;
        let Some((lane_id, account_id, ordered)) = lane else {
            continue;
        };
        let params = rusqlite::params![
            workspace.0,
            lane_id,
            account_id,
            follow.channel_id.0,
            follow.message_id.0,
            follow.revision,
            follow.action,
            follow.target_delivery.0,
            tx.now.0
        ];
        if tx.execute(INSERT_FOLLOW_UP, params)? == 0 {
            continue;
        }
        let id = tx.connection.last_insert_rowid();
        let position = if ordered { id } else { tx.now.0 };
        let key = history::key_of(tx, id, follow.message_id.0)?;
        tx.execute(SET_PLACE, (id, position, key))?;
        tx.execute(INSERT_READY, (lane_id, 0, position, id, workspace.0, tx.now.0, None::<i64>, 0))?;
        touched.lane(lane_id).queued += 1;
        n_made += 1;
    }
    touched.refresh(tx)?;
    Ok(n_made)
}

pub(super) fn note_event(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    name: &str,
    message_id: MessageId,
    detail: Value,
) -> Result<()> {
    let message_id = Some(message_id.0);
    event(tx, NewEvent { workspace_id: workspace.0, name, message_id, detail, ..NewEvent::default() })
}
