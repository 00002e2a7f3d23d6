//! Posts that wait for a person: held, approved, rejected, withdrawn.
//!
//! The tables are the application's own; what moves the queue (`deliver_message`) is a function, as everywhere.

use domain::ids::{CaseId, ChannelId, MessageId, WorkspaceId};
use futures_util::FutureExt;
use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use super::enqueue::named;
use super::intake::{DELIVER, LOCK_INTAKE, LOCK_QUEUE, Tried, close_case, tell};
use super::trouble::{Reaction, Tries};
use super::{Again, As, Postgres, Tx, rows};
use crate::error::{Result, StoreError};
use crate::held_posts::HeldPost;
use crate::intake::ends_story_of;
use crate::queue::{Enqueued, EnqueuedDelivery, NewMessage};

const SELECT_WAITING: &str = "
SELECT h.message_id, h.channel_id, h.why, h.held_at, h.expires_at, h.decision, h.decided_at, h.decided_by
  FROM held_posts AS h JOIN channels AS c ON c.channel_id = h.channel_id
 WHERE h.workspace_id = $1 AND h.decision IS NULL AND (h.expires_at IS NULL OR h.expires_at > rupor_now()) AND c.removed_at IS NULL
   AND (h.message_id, h.channel_id) > ($3::bigint, $4::bigint)
 ORDER BY h.message_id, h.channel_id
 LIMIT $2";
const SELECT_OF_MESSAGE: &str = "
SELECT h.message_id, h.channel_id, h.why, h.held_at, h.expires_at, h.decision, h.decided_at, h.decided_by
  FROM held_posts AS h JOIN channels AS c ON c.channel_id = h.channel_id
 WHERE h.workspace_id = $1 AND h.message_id = $2 AND c.removed_at IS NULL
 ORDER BY h.channel_id";
const HOLD: &str = "
INSERT INTO held_posts AS h (workspace_id, message_id, channel_id, why, held_at, expires_at)
SELECT c.workspace_id, $2, c.channel_id, $4, rupor_now(), rupor_now() + rupor_span(c.max_age_us)
  FROM channels AS c
 WHERE c.workspace_id = $1 AND c.channel_id = ANY ($3) AND c.removed_at IS NULL AND c.disabled_by IS DISTINCT FROM 'operator'
ON CONFLICT (workspace_id, message_id, channel_id) DO UPDATE
   SET why = excluded.why, held_at = excluded.held_at, expires_at = excluded.expires_at, decision = NULL, decided_at = NULL,
       decided_by = NULL";
/// Unlike SQLite the rows that wait are found and decided in one statement: another node may decide at the same time.
const DECIDE: &str = "
UPDATE held_posts AS h
   SET decision = $3, decided_at = rupor_now(), decided_by = nullif(current_setting('rupor.by', true), '')
  FROM channels AS c
 WHERE h.workspace_id = $1 AND h.message_id = $2 AND h.decision IS NULL AND (h.expires_at IS NULL OR h.expires_at > rupor_now())
   AND c.channel_id = h.channel_id AND c.removed_at IS NULL
RETURNING h.channel_id";
const WITHDRAW: &str = "
UPDATE held_posts
   SET decision = 'withdrawn', decided_at = rupor_now()
 WHERE workspace_id = $1 AND message_id = $2 AND decision IS NULL";
const SELECT_SAID: &str = "
SELECT source, origin_id, payload, content_hash, hash_version, fingerprint, kind, facts, facts_version, origin, case_id
  FROM messages
 WHERE workspace_id = $1 AND message_id = $2";

pub(super) const STATEMENTS: &[&str] =
    &[SELECT_WAITING, SELECT_OF_MESSAGE, HOLD, DECIDE, WITHDRAW, SELECT_SAID];

impl Postgres {
    pub async fn held_posts(
        &self,
        workspace: WorkspaceId,
        (message, channel): (MessageId, ChannelId),
        limit: usize,
    ) -> Result<Vec<HeldPost>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &limit, &message.0, &channel.0];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_WAITING, &params).await?;
        Ok(rows.iter().map(held_post).collect())
    }

    pub async fn held_of(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<HeldPost>> {
        let rows =
            self.all(As::App(workspace), Again::Safe, SELECT_OF_MESSAGE, &[&workspace.0, &id.0]).await?;
        Ok(rows.iter().map(held_post).collect())
    }

    pub async fn approve(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<EnqueuedDelivery>> {
        let mut tries = Tries::default();
        loop {
            let work = self.in_order(workspace, move |tx| approve(tx, workspace, id).boxed());
            let trouble = match work.await {
                Ok(deliveries) => {
                    self.ring();
                    return self.noted(Ok(deliveries));
                }
                Err(trouble) => trouble,
            };
            if !tries.again(&trouble) || trouble.reaction() != Reaction::TryAgain {
                return self.noted(Err(named(trouble.into_error(self.pool.address()))));
            }
            tries.pause().await;
        }
    }

    pub async fn reject(&self, workspace: WorkspaceId, id: MessageId) -> Result<Vec<ChannelId>> {
        let mut tries = Tries::default();
        loop {
            let work = self.in_order(workspace, move |tx| reject(tx, workspace, id).boxed());
            let trouble = match work.await {
                Ok(channels) => return self.noted(Ok(channels)),
                Err(trouble) => trouble,
            };
            if !tries.again(&trouble) || trouble.reaction() != Reaction::TryAgain {
                return self.noted(Err(trouble.into_error(self.pool.address())));
            }
            tries.pause().await;
        }
    }
}

/// The post goes on as if it came now; a reunion ends the story that it waited to end.
async fn approve(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId) -> Tried<Vec<EnqueuedDelivery>> {
    tx.all(LOCK_INTAKE, &[&workspace.0]).await?;
    let channels = decide(tx, workspace, id, "approved").await?;
    let said = tx.first(SELECT_SAID, &[&workspace.0, &id.0]).await?;
    let said = said.ok_or_else(|| StoreError::not_found("message", id))?;
    let message = NewMessage { channels: channels.clone(), ..message_of(&said) };
    let ending = message.case_id.filter(|_| ends_story_of(&message.kind));
    if ending.is_some() {
        // Several functions will move the queue: its locks are taken once, in the one order.
        tx.all(LOCK_QUEUE, &[&workspace.0]).await?;
    }
    let row = tx.one(DELIVER, &[&workspace.0, &id.0, &Json(&message)]).await?;
    let Json::<Enqueued>(enqueued) = row.get(0);
    if let Some(case) = ending {
        close_case(tx, workspace, case, id).await?;
    }
    let is_new = |delivery: &EnqueuedDelivery| channels.contains(&delivery.channel_id);
    Ok(enqueued.deliveries.into_iter().filter(is_new).collect())
}

async fn reject(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId) -> Tried<Vec<ChannelId>> {
    tx.all(LOCK_INTAKE, &[&workspace.0]).await?;
    decide(tx, workspace, id, "rejected").await
}

/// Writes down what a person decided about everything of a post that waits; it is an error if nothing does.
async fn decide(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: MessageId,
    decision: &'static str,
) -> Tried<Vec<ChannelId>> {
    let rows = tx.all(DECIDE, &[&workspace.0, &id.0, &decision]).await?;
    let mut channels: Vec<ChannelId> = rows.iter().map(|row| ChannelId(row.get(0))).collect();
    channels.sort_unstable();
    if channels.is_empty() {
        return Err(StoreError::not_found("held post", id).into());
    }
    tell(tx, workspace, decision, id, json!({"channels": channels})).await?;
    Ok(channels)
}

pub(super) async fn holds(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId) -> Tried<Vec<HeldPost>> {
    Ok(tx.all(SELECT_OF_MESSAGE, &[&workspace.0, &id.0]).await?.iter().map(held_post).collect())
}

/// Holds a post for these channels; one that an operator has disabled takes nothing, and so waits for nothing.
pub(super) async fn hold(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: MessageId,
    channels: &[ChannelId],
    why: &str,
) -> Tried<()> {
    if channels.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = channels.iter().map(|channel| channel.0).collect();
    tx.all(HOLD, &[&workspace.0, &id.0, &ids, &why]).await?;
    tell(tx, workspace, "unsure", id, json!({"why": why, "channels": channels})).await
}

/// Nobody needs to decide any more: the words changed, the story ended, or the post is gone.
pub(super) async fn withdraw(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId) -> Tried<()> {
    tx.all(WITHDRAW, &[&workspace.0, &id.0]).await.map(drop)
}

fn held_post(row: &Row) -> HeldPost {
    HeldPost {
        message_id: MessageId(row.get(0)),
        channel_id: ChannelId(row.get(1)),
        why: row.get(2),
        held_at: rows::at(row, 3),
        expires_at: rows::time(row, 4),
        decision: row.get(5),
        decided_at: rows::time(row, 6),
        decided_by: row.get(7),
    }
}

/// A message as it would be enqueued.
fn message_of(row: &Row) -> NewMessage {
    NewMessage {
        source: row.get(0),
        origin_id: row.get(1),
        idempotency_key: None,
        payload: row.get(2),
        content_hash: row.get(3),
        hash_version: row.get(4),
        fingerprint: row.get(5),
        kind: row.get(6),
        facts: row.get(7),
        facts_version: row.get(8),
        tags: Vec::new(),
        origin: row.get(9),
        case_id: row.get::<_, Option<i64>>(10).map(CaseId),
        channels: Vec::new(),
        priority: Default::default(),
        run_at: None,
        skipped: None,
    }
}
