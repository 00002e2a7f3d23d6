//! Messages and deliveries in, in one transaction: who hears it, and who has heard it already.

use std::collections::HashMap;

use domain::delivery::{Priority, Status};
use domain::ids::{ChannelId, DeliveryId, MessageId, WorkspaceId};
use domain::limits::{ENQUEUE_BATCH_MAX, PAYLOAD_BYTES_MAX};
use domain::time::Timestamp;
use serde_json::json;

use super::heads::{NewEvent, Touched, event};
use super::workspaces::require_workspace;
use super::{Sqlite, Tx, Urgency, history, rows};
use crate::config::DedupMode;
use crate::error::{Result, StoreError};
use crate::history::{delivery_key, wording};
use crate::queue::{Enqueued, EnqueuedDelivery, NewMessage};

pub(super) const FIND_BY_ORIGIN: &str = "SELECT message_id, request_hash FROM messages WHERE workspace_id = ?1 AND source = ?2 AND origin_id = ?3";
pub(super) const FIND_BY_KEY: &str =
    "SELECT message_id, request_hash FROM messages WHERE workspace_id = ?1 AND idempotency_key = ?2";
const SEEN_AGAIN: &str =
    "UPDATE messages SET seen_count = seen_count + 1, last_seen_at = ?2 WHERE message_id = ?1";
const DELIVERIES_OF_MESSAGE: &str = "
SELECT delivery_id, channel_id, status
  FROM deliveries
 WHERE message_id = ?1 AND action = 'send' AND generation = 0 AND channel_id IS NOT NULL
 ORDER BY delivery_id";
const INSERT_MESSAGE: &str = "
INSERT INTO messages (workspace_id, source, origin_id, idempotency_key, request_hash, payload, content_hash,
                      hash_version, fingerprint, kind, facts, facts_version, tags, origin, case_id, skipped,
                      last_seen_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17)";
const SELECT_CHANNEL: &str = "
SELECT h.lane_id, h.account_id, h.max_parallel, c.dedup, c.dedup_ttl_us, c.max_age_us, c.disabled_by = 'operator'
  FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
 WHERE c.workspace_id = ?1 AND c.channel_id = ?2 AND c.removed_at IS NULL";
/// Takes the key unless somebody has it: on its way, or sent within the window. No row returned: it is taken.
pub(super) const TAKE_KEY: &str = "
INSERT INTO dedup_index (workspace_id, channel_id, mode, version, key, kind, delivery_id, first_origin, last_seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE
   SET delivery_id = excluded.delivery_id, first_origin = excluded.first_origin, sent_at = NULL,
       last_seen_at = excluded.last_seen_at, count = 1
 WHERE coalesce(sent_at, (SELECT d.sent_at FROM deliveries AS d WHERE d.delivery_id = dedup_index.delivery_id)) <= ?10";
const COUNT_KEY: &str = "
UPDATE dedup_index
   SET count = count + 1, last_seen_at = ?7
 WHERE workspace_id = ?1 AND channel_id = ?2 AND mode = ?3 AND version = ?4 AND key = ?5 AND kind = ?6";
const NEXT_DELIVERY_ID: &str = "SELECT seq + 1 FROM sqlite_sequence WHERE name = 'deliveries'";
const CASE_EXISTS: &str = "SELECT 1 FROM cases WHERE workspace_id = ?1 AND case_id = ?2";
const INSERT_DELIVERY: &str = "
INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, priority, status, reason,
                        run_at, position, expires_at, idempotency_key, queued_at, ended_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
pub(super) const INSERT_READY: &str = "
INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at, expires_at, suspect)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

impl Sqlite {
    pub async fn enqueue(&self, workspace: WorkspaceId, batch: Vec<NewMessage>) -> Result<Vec<Enqueued>> {
        check(&batch)?;
        let enqueued = self.write(Urgency::Enqueue, move |tx| enqueue(tx, workspace, &batch)).await?;
        self.bell.ring();
        Ok(enqueued)
    }
}

/// What can be refused without looking at the database.
pub(crate) fn check(batch: &[NewMessage]) -> Result<()> {
    if batch.len() > ENQUEUE_BATCH_MAX {
        let problem =
            format!("{} messages in one call, at most {ENQUEUE_BATCH_MAX}; split the batch", batch.len());
        return Err(StoreError::invalid("enqueue", problem));
    }
    for message in batch {
        let name = || format!("message {}/{}", message.source, message.origin_id);
        let size = message.payload.to_string().len();
        if size > PAYLOAD_BYTES_MAX {
            let problem = format!("{}: payload of {size} bytes, at most {PAYLOAD_BYTES_MAX}", name());
            return Err(StoreError::invalid("enqueue", problem));
        }
        if message.source.is_empty() || message.origin_id.is_empty() || message.content_hash.is_empty() {
            let problem = format!("{}: source, origin_id and content_hash must not be empty", name());
            return Err(StoreError::invalid("enqueue", problem));
        }
        if holds_nul(message) {
            return Err(StoreError::invalid(
                "enqueue",
                format!("{}: a NUL character cannot be stored", name()),
            ));
        }
    }
    Ok(())
}

/// PostgreSQL text cannot hold NUL and SQLite can; both refuse it, so that they stay the same.
fn holds_nul(message: &NewMessage) -> bool {
    serde_json::to_string(message).is_ok_and(|json| json.contains("\\u0000"))
}

/// What one transaction has learnt and still has to write.
struct Batch {
    workspace: WorkspaceId,
    channels: HashMap<ChannelId, Target>,
    next_delivery_id: i64,
    /// Of every key that is made here.
    history: String,
    touched: Touched,
}

#[derive(Clone, Copy)]
struct Target {
    lane_id: i64,
    account_id: i64,
    ordered: bool,
    dedup: DedupMode,
    dedup_ttl_us: i64,
    max_age_us: Option<i64>,
    disabled: bool,
}

pub(super) fn enqueue(tx: &Tx<'_>, workspace: WorkspaceId, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
    require_workspace(tx, workspace)?;
    let mut batch = Batch::begin(tx, workspace)?;
    let enqueued = messages.iter().map(|message| one(tx, &mut batch, message)).collect::<Result<_>>()?;
    batch.end(tx)?;
    Ok(enqueued)
}

/// A known message to channels that did not have it yet: its new words made it theirs.
pub(super) fn deliver_known(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    message: &NewMessage,
    message_id: MessageId,
) -> Result<Enqueued> {
    let mut batch = Batch::begin(tx, workspace)?;
    let wording = history::wording_of(tx, message_id.0)?;
    let enqueued = spread(tx, &mut batch, message, message_id, &wording)?;
    batch.end(tx)?;
    Ok(enqueued)
}

impl Batch {
    fn begin(tx: &Tx<'_>, workspace: WorkspaceId) -> Result<Batch> {
        Ok(Batch {
            workspace,
            channels: HashMap::new(),
            next_delivery_id: tx.first(NEXT_DELIVERY_ID, [], |row| row.get(0))?.unwrap_or(1),
            history: history::id(tx)?,
            touched: Touched::default(),
        })
    }

    fn end(self, tx: &Tx<'_>) -> Result<()> {
        self.touched.refresh(tx)
    }

    /// The channel, read once. One that is unknown fails the whole call; a repeat asks for none, so that it may name
    /// one that is gone since.
    fn target(&mut self, tx: &Tx<'_>, id: ChannelId) -> Result<Target> {
        if let Some(target) = self.channels.get(&id) {
            return Ok(*target);
        }
        let target = tx.first(SELECT_CHANNEL, (self.workspace.0, id.0), |row| {
            Ok(Target {
                lane_id: row.get(0)?,
                account_id: row.get(1)?,
                ordered: row.get::<_, i32>(2)? == 1,
                dedup: rows::word(row, 3, DedupMode::parse)?,
                dedup_ttl_us: row.get(4)?,
                max_age_us: row.get(5)?,
                disabled: row.get::<_, Option<bool>>(6)?.unwrap_or(false),
            })
        })?;
        let target = target.ok_or_else(|| StoreError::unknown_channel(id))?;
        self.channels.insert(id, target);
        Ok(target)
    }
}

fn one(tx: &Tx<'_>, batch: &mut Batch, message: &NewMessage) -> Result<Enqueued> {
    let request_hash = message.request_hash();
    if let Some(known) = known(tx, batch.workspace, message, &request_hash)? {
        return Ok(known);
    }
    if let Some(id) = message.case_id {
        let exists = tx.first(CASE_EXISTS, (batch.workspace.0, id.0), |_| Ok(()))?;
        exists.ok_or_else(|| StoreError::not_found("case", id))?;
    }
    let message_id = insert_message(tx, batch.workspace, message, &request_hash)?;
    spread(tx, batch, message, message_id, &wording(&request_hash, &message.content_hash, 1))
}

/// The deliveries of a message that stands already.
fn spread(
    tx: &Tx<'_>,
    batch: &mut Batch,
    message: &NewMessage,
    message_id: MessageId,
    wording: &str,
) -> Result<Enqueued> {
    let mut enqueued = Enqueued { message_id, created: true, deliveries: Vec::new(), skipped: Vec::new() };
    let mut ids = message.channels.clone();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let target = batch.target(tx, id)?;
        if target.disabled {
            skip(tx, batch.workspace, message_id, id)?;
            enqueued.skipped.push(id);
        } else {
            enqueued.deliveries.push(deliver(tx, batch, message, (message_id, wording), id, &target)?);
        }
    }
    let n_deduped = enqueued.deliveries.iter().filter(|delivery| delivery.status == Status::Deduped).count();
    let detail = json!({"deliveries": enqueued.deliveries.len(), "deduped": n_deduped});
    let message_id = Some(message_id.0);
    event(
        tx,
        NewEvent {
            workspace_id: batch.workspace.0,
            name: "enqueued",
            message_id,
            detail,
            ..NewEvent::default()
        },
    )?;
    Ok(enqueued)
}

/// The same message again gives the same ids; the same key with another body is an error.
fn known(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    message: &NewMessage,
    request_hash: &str,
) -> Result<Option<Enqueued>> {
    let found =
        |row: &rusqlite::Row<'_>| Ok((MessageId(row.get(0)?), row.get_ref(1)?.as_str()? == request_hash));
    let by_origin = tx.first(FIND_BY_ORIGIN, (workspace.0, &message.source, &message.origin_id), found)?;
    let by_key = match &message.idempotency_key {
        Some(key) => tx.first(FIND_BY_KEY, (workspace.0, key), found)?,
        None => None,
    };
    let Some((message_id, same)) = by_origin.or(by_key) else {
        return Ok(None);
    };
    // One message under both names is one row; two different ones contradict each other.
    let two = by_origin.zip(by_key).is_some_and(|(one, other)| one.0 != other.0);
    if two || !same {
        let key = message.idempotency_key.clone();
        let key = key.unwrap_or_else(|| format!("{}/{}", message.source, message.origin_id));
        return Err(StoreError::KeyConflict { key });
    }
    tx.execute(SEEN_AGAIN, (message_id.0, tx.now.0))?;
    let deliveries = tx.all(DELIVERIES_OF_MESSAGE, [message_id.0], |row| {
        Ok(EnqueuedDelivery {
            delivery_id: DeliveryId(row.get(0)?),
            channel_id: ChannelId(row.get(1)?),
            status: rows::word(row, 2, Status::parse)?,
        })
    })?;
    let heard: Vec<ChannelId> = deliveries.iter().map(|delivery| delivery.channel_id).collect();
    let mut skipped = message.channels.clone();
    skipped.retain(|id| !heard.contains(id));
    Ok(Some(Enqueued { message_id, created: false, deliveries, skipped }))
}

pub(super) fn insert_message(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    message: &NewMessage,
    request_hash: &str,
) -> Result<MessageId> {
    let id = tx.insert(
        INSERT_MESSAGE,
        rusqlite::params![
            workspace.0,
            message.source,
            message.origin_id,
            message.idempotency_key,
            request_hash,
            message.payload.to_string(),
            message.content_hash,
            message.hash_version,
            message.fingerprint,
            message.kind,
            message.facts.to_string(),
            message.facts_version,
            serde_json::Value::from(message.tags.clone()).to_string(),
            message.origin.to_string(),
            message.case_id.map(|id| id.0),
            message.skipped,
            tx.now.0
        ],
    )?;
    Ok(MessageId(id))
}

fn deliver(
    tx: &Tx<'_>,
    batch: &mut Batch,
    message: &NewMessage,
    (message_id, wording): (MessageId, &str),
    channel_id: ChannelId,
    target: &Target,
) -> Result<EnqueuedDelivery> {
    let delivery_id = DeliveryId(batch.next_delivery_id);
    batch.next_delivery_id += 1;
    let free = take_key(tx, batch.workspace, message, channel_id, target, delivery_id)?;
    let status = if free { Status::Queued } else { Status::Deduped };
    let run_at = message.run_at.unwrap_or(tx.now).max(tx.now);
    let position = if target.ordered { delivery_id.0 } else { run_at.0 };
    let priority = i64::from(message.priority == Priority::Bulk);
    let expires_at = target.max_age_us.map(|age| tx.now.0 + age);
    tx.execute(
        INSERT_DELIVERY,
        rusqlite::params![
            delivery_id.0,
            batch.workspace.0,
            target.lane_id,
            target.account_id,
            channel_id.0,
            message_id.0,
            priority,
            status.as_str(),
            (!free).then_some("duplicate"),
            free.then_some(run_at.0),
            free.then_some(position),
            expires_at,
            delivery_key(&batch.history, delivery_id.0, wording),
            tx.now.0,
            (!free).then_some(tx.now.0)
        ],
    )?;
    if free {
        let row =
            (target.lane_id, priority, position, delivery_id.0, batch.workspace.0, run_at.0, expires_at, 0);
        tx.execute(INSERT_READY, row)?;
    } else {
        event(
            tx,
            NewEvent {
                workspace_id: batch.workspace.0,
                name: "deduped",
                message_id: Some(message_id.0),
                delivery_id: Some(delivery_id.0),
                channel_id: Some(channel_id.0),
                ..NewEvent::default()
            },
        )?;
    }
    *batch.touched.lane(target.lane_id).status(status) += 1;
    Ok(EnqueuedDelivery { delivery_id, channel_id, status })
}

/// True if this delivery may go; a suppressed one is counted, but never prolongs the window.
fn take_key(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    message: &NewMessage,
    channel_id: ChannelId,
    target: &Target,
    delivery_id: DeliveryId,
) -> Result<bool> {
    let Some((mode, key, kind)) = dedup_key(message, target.dedup) else {
        return Ok(true);
    };
    let mode = mode.as_str();
    let free_before = Timestamp(tx.now.0.saturating_sub(target.dedup_ttl_us));
    let taken = tx.execute(
        TAKE_KEY,
        rusqlite::params![
            workspace.0,
            channel_id.0,
            mode,
            message.hash_version,
            key,
            kind,
            delivery_id.0,
            message.origin.to_string(),
            tx.now.0,
            free_before.0
        ],
    )?;
    if taken == 0 {
        tx.execute(COUNT_KEY, (workspace.0, channel_id.0, mode, message.hash_version, key, kind, tx.now.0))?;
    }
    Ok(taken > 0)
}

/// What counts as the same thing in this channel; kinds never suppress each other. News and ads belong to no case:
/// where cases are counted, they are known by their words.
fn dedup_key(message: &NewMessage, mode: DedupMode) -> Option<(DedupMode, String, &str)> {
    match (mode, message.case_id) {
        (DedupMode::Off, _) => None,
        (DedupMode::Content, _) | (DedupMode::Case, None) => {
            Some((DedupMode::Content, message.content_hash.clone(), ""))
        }
        (DedupMode::Fingerprint, _) => Some((mode, message.fingerprint.clone()?, &message.kind)),
        (DedupMode::Case, Some(case)) => Some((mode, case.to_string(), &message.kind)),
    }
}

fn skip(tx: &Tx<'_>, workspace: WorkspaceId, message_id: MessageId, channel_id: ChannelId) -> Result<()> {
    event(
        tx,
        NewEvent {
            workspace_id: workspace.0,
            name: "ingest_skipped",
            message_id: Some(message_id.0),
            channel_id: Some(channel_id.0),
            detail: json!({"why": "the channel is disabled by an operator"}),
            ..NewEvent::default()
        },
    )
}
