//! Posts that wait for a person: held, approved, rejected, withdrawn.

use domain::ids::{CaseId, ChannelId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use rusqlite::Row;
use serde_json::json;

use super::enqueue::deliver_known;
use super::intake::{TAKE_REVISION, close_case, note_event};
use super::{Sqlite, Tx, Urgency, rows};
use crate::error::{Result, StoreError};
use crate::held_posts::HeldPost;
use crate::intake::ends_story_of;
use crate::queue::{EnqueuedDelivery, NewMessage};

pub(super) const SELECT_WAITING: &str = "
SELECT h.message_id, h.channel_id, h.why, h.held_at, h.expires_at, h.decision, h.decided_at, h.decided_by
  FROM held_posts AS h JOIN channels AS c ON c.channel_id = h.channel_id
 WHERE h.workspace_id = ?1 AND h.decision IS NULL AND (h.expires_at IS NULL OR h.expires_at > ?2) AND c.removed_at IS NULL
   AND (h.message_id, h.channel_id) > (?4, ?5)
 ORDER BY h.message_id, h.channel_id
 LIMIT ?3";
pub(super) const SELECT_OF_MESSAGE: &str = "
SELECT h.message_id, h.channel_id, h.why, h.held_at, h.expires_at, h.decision, h.decided_at, h.decided_by
  FROM held_posts AS h JOIN channels AS c ON c.channel_id = h.channel_id
 WHERE h.workspace_id = ?1 AND h.message_id = ?2 AND c.removed_at IS NULL
 ORDER BY h.channel_id";
const HOLD: &str = "
INSERT INTO held_posts (workspace_id, message_id, channel_id, why, held_at, expires_at)
SELECT ?1, ?2, c.channel_id, ?4, ?5, ?5 + c.max_age_us
  FROM channels AS c
 WHERE c.workspace_id = ?1 AND c.channel_id = ?3 AND c.removed_at IS NULL AND coalesce(c.disabled_by, '') <> 'operator'
ON CONFLICT DO UPDATE
   SET why = excluded.why, held_at = excluded.held_at, expires_at = excluded.expires_at, decision = NULL, decided_at = NULL,
       decided_by = NULL";
const DECIDE: &str = "
UPDATE held_posts
   SET decision = ?4, decided_at = ?5, decided_by = ?6
 WHERE workspace_id = ?1 AND message_id = ?2 AND channel_id = ?3 AND decision IS NULL";
const WITHDRAW: &str = "
UPDATE held_posts
   SET decision = 'withdrawn', decided_at = ?3
 WHERE workspace_id = ?1 AND message_id = ?2 AND decision IS NULL";
const SELECT_SAID: &str = "
SELECT source, origin_id, payload, content_hash, hash_version, fingerprint, kind, facts, facts_version, origin, case_id,
       revision
  FROM messages
 WHERE workspace_id = ?1 AND message_id = ?2";

impl Sqlite {
    pub async fn held_posts(
        &self,
        workspace: WorkspaceId,
        (message, channel): (MessageId, ChannelId),
        limit: usize,
    ) -> Result<Vec<HeldPost>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |tx| {
            tx.all(SELECT_WAITING, (workspace.0, tx.now.0, limit, message.0, channel.0), held_post)
        })
        .await
    }

    pub async fn held_of(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<HeldPost>> {
        self.read(move |tx| holds(tx, workspace, id)).await
    }

    pub async fn approve(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<EnqueuedDelivery>> {
        let deliveries = self.write(Urgency::Enqueue, move |tx| approve(tx, workspace, id)).await?;
        self.bell.ring();
        Ok(deliveries)
    }

    pub async fn reject(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<ChannelId>> {
        self.write(Urgency::Enqueue, move |tx| decide(tx, workspace, id, "rejected")).await
    }
}

/// The post goes on as if it came now; a reunion ends the story that it waited to end.
fn approve(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId) -> Result<Vec<EnqueuedDelivery>> {
    let channels = decide(tx, workspace, id, "approved")?;
    let said = tx.first(SELECT_SAID, (workspace.0, id.0), said)?;
    let (message, revision) = said.ok_or_else(|| StoreError::not_found("message", id))?;
    let message = NewMessage { channels, ..message };
    let deliveries = deliver_known(tx, workspace, &message, id)?.deliveries;
    tx.execute(TAKE_REVISION, (id.0, revision))?;
    if let Some(case) = message.case_id.filter(|_| ends_story_of(&message.kind)) {
        close_case(tx, workspace, case, id)?;
    }
    Ok(deliveries)
}

/// Writes down what a person decided about everything of a post that waits; it is an error if nothing does.
fn decide(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId, decision: &str) -> Result<Vec<ChannelId>> {
    let posts = holds(tx, workspace, id)?;
    let waiting: Vec<ChannelId> =
        posts.iter().filter(|post| post.is_waiting(tx.now)).map(|post| post.channel_id).collect();
    if waiting.is_empty() {
        return Err(StoreError::not_found("held post", id));
    }
    let by = tx.actor.map(|actor| &actor.who);
    for channel in &waiting {
        tx.execute(DECIDE, (workspace.0, id.0, channel.0, decision, tx.now.0, by))?;
    }
    note_event(tx, workspace, decision, id, json!({"channels": waiting}))?;
    Ok(waiting)
}

pub(super) fn holds(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId) -> Result<Vec<HeldPost>> {
    tx.all(SELECT_OF_MESSAGE, (workspace.0, id.0), held_post)
}

/// Holds a post for these channels; one that an operator has disabled takes nothing, and so waits for nothing.
pub(super) fn hold(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: MessageId,
    channels: &[ChannelId],
    why: &str,
) -> Result<()> {
    if channels.is_empty() {
        return Ok(());
    }
    for channel in channels {
        tx.execute(HOLD, (workspace.0, id.0, channel.0, why, tx.now.0))?;
    }
    note_event(tx, workspace, "unsure", id, json!({"why": why, "channels": channels}))
}

/// Nobody needs to decide any more: the words changed, the story ended, or the post is gone.
pub(super) fn withdraw(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId) -> Result<()> {
    tx.execute(WITHDRAW, (workspace.0, id.0, tx.now.0)).map(drop)
}

fn held_post(row: &Row<'_>) -> rusqlite::Result<HeldPost> {
    Ok(HeldPost {
        message_id: MessageId(row.get(0)?),
        channel_id: ChannelId(row.get(1)?),
        why: row.get(2)?,
        held_at: Timestamp(row.get(3)?),
        expires_at: rows::time(row, 4)?,
        decision: row.get(5)?,
        decided_at: rows::time(row, 6)?,
        decided_by: row.get(7)?,
    })
}

/// A message as it would be enqueued, and its revision.
fn said(row: &Row<'_>) -> rusqlite::Result<(NewMessage, i32)> {
    let message = NewMessage {
        source: row.get(0)?,
        origin_id: row.get(1)?,
        idempotency_key: None,
        payload: rows::json(row, 2)?,
        content_hash: row.get(3)?,
        hash_version: row.get(4)?,
        fingerprint: row.get(5)?,
        kind: row.get(6)?,
        facts: rows::json(row, 7)?,
        facts_version: row.get(8)?,
        tags: Vec::new(),
        origin: rows::json(row, 9)?,
        case_id: row.get::<_, Option<i64>>(10)?.map(CaseId),
        channels: Vec::new(),
        priority: Default::default(),
        run_at: None,
        skipped: None,
    };
    Ok((message, row.get(11)?))
}
