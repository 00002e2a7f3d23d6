//! What operators do: requeue and cancel. What the janitor does stands in `retain`.

use domain::delivery::{Status, Step, step};
use domain::ids::{CampaignId, DeliveryId, WorkspaceId};
use serde_json::{Value, json};

use super::campaigns::count_ending;
use super::enqueue::INSERT_READY;
use super::front::{DELETE_READY, FORGET_KEY};
use super::heads::{NewEvent, Touched, event};
use super::{Sqlite, Tx, Urgency, history, rows};
use crate::campaigns::CANCELLED;
use crate::error::{Result, StoreError};

const SELECT_ENDED: &str = "
SELECT d.status, d.lane_id, d.message_id, d.channel_id, d.priority, h.max_parallel, c.removed_at IS NOT NULL,
       d.campaign_id IS NOT NULL
  FROM deliveries AS d
  JOIN lane_heads AS h ON h.lane_id = d.lane_id
  LEFT JOIN channels AS c ON c.channel_id = d.channel_id
 WHERE d.workspace_id = ?1 AND d.delivery_id = ?2";
/// A new row of the next generation; everything else of the old one, nothing of its history.
const INSERT_GENERATION: &str = "
INSERT INTO deliveries (workspace_id, lane_id, account_id, channel_id, recipient_id, message_id, revision, action,
                        target_delivery, generation, parent_delivery, priority, status, run_at, position,
                        idempotency_key, queued_at)
SELECT d.workspace_id, d.lane_id, d.account_id, d.channel_id, d.recipient_id, d.message_id, d.revision, d.action,
       d.target_delivery,
       1 + (SELECT max(s.generation) FROM deliveries AS s
             WHERE s.message_id = d.message_id AND s.channel_id IS d.channel_id AND s.recipient_id IS d.recipient_id
               AND s.action = d.action AND s.revision = d.revision),
       d.delivery_id, d.priority, 'queued', ?2, 0, '', ?2
  FROM deliveries AS d
 WHERE d.delivery_id = ?1";
const COUNT_REQUEUED: &str = "
UPDATE lane_heads
   SET n_requeued = n_requeued + 1
 WHERE lane_id = (SELECT d.lane_id
                    FROM deliveries AS d
                    JOIN deliveries AS old ON old.delivery_id = ?2
                   WHERE d.delivery_id = ?1 AND d.generation = old.generation + 1)";
const SET_PLACE: &str = "UPDATE deliveries SET position = ?2, idempotency_key = ?3 WHERE delivery_id = ?1";
/// The old delivery's key, if nobody took it since.
pub(super) const TAKE_KEY_AGAIN: &str = "
INSERT INTO dedup_index (workspace_id, channel_id, mode, version, key, kind, delivery_id, first_origin, last_seen_at)
SELECT k.workspace_id, k.channel_id, k.mode, k.hash_version, k.key, CASE k.mode WHEN 'content' THEN '' ELSE k.kind END,
       ?1, k.origin, ?2
  FROM (SELECT b.*, CASE b.mode WHEN 'content' THEN b.content_hash WHEN 'fingerprint' THEN b.fingerprint
                                WHEN 'case' THEN CAST(b.case_id AS TEXT) END AS key
          FROM (SELECT m.*, c.channel_id, iif(c.dedup = 'case' AND m.case_id IS NULL, 'content', c.dedup) AS mode
                  FROM deliveries AS d
                  JOIN messages AS m ON m.message_id = d.message_id
                  JOIN channels AS c ON c.channel_id = d.channel_id
                 WHERE d.delivery_id = ?1) AS b) AS k
 WHERE k.key IS NOT NULL
ON CONFLICT DO NOTHING";
/// The first delivery of the lane that was kept back by the key of this one and is still shown by its source. Copies
/// come after what they repeat, so nothing before it is looked at.
pub(super) const SILENT_COPY: &str = "
SELECT d.delivery_id
  FROM dedup_index AS k
  JOIN deliveries AS x ON x.delivery_id = k.delivery_id
  JOIN channels AS c ON c.channel_id = x.channel_id
  JOIN deliveries AS d ON d.lane_id = x.lane_id AND d.delivery_id > coalesce(x.parent_delivery, x.delivery_id)
  JOIN messages AS m ON m.message_id = d.message_id
 WHERE k.delivery_id = ?1 AND c.removed_at IS NULL AND d.status = 'deduped' AND d.action = 'send' AND m.gone_at IS NULL
   AND m.hash_version = k.version
   AND k.kind = CASE k.mode WHEN 'content' THEN '' ELSE m.kind END
   AND k.key = CASE k.mode WHEN 'case' THEN CAST(m.case_id AS TEXT) WHEN 'fingerprint' THEN m.fingerprint
                           ELSE iif(c.dedup = 'case' AND m.case_id IS NOT NULL, NULL, m.content_hash) END
   AND NOT EXISTS (SELECT 1 FROM deliveries AS n
                    WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = 'send'
                      AND n.generation > d.generation)
 ORDER BY d.delivery_id
 LIMIT 1";
const SELECT_WAITING: &str = "
SELECT status, lane_id, priority, position, message_id, channel_id, campaign_id
  FROM deliveries
 WHERE workspace_id = ?1 AND delivery_id = ?2";
const CANCEL: &str = "
UPDATE deliveries
   SET status = 'dead', reason = 'cancelled', run_at = NULL, position = NULL, ended_at = ?2
 WHERE delivery_id = ?1 AND status IN ('queued', 'retry')";

impl Sqlite {
    pub async fn requeue(&self, workspace: WorkspaceId, ids: Vec<DeliveryId>) -> Result<Vec<DeliveryId>> {
        let requeued = self
            .write(Urgency::Maintenance, move |tx| {
                let mut touched = Touched::default();
                let requeue = |&id| requeue_one(tx, &mut touched, workspace, id);
                let requeued = ids.iter().map(requeue).collect::<Result<_>>()?;
                touched.refresh(tx)?;
                Ok(requeued)
            })
            .await?;
        self.bell.ring();
        Ok(requeued)
    }

    pub async fn cancel(&self, workspace: WorkspaceId, ids: Vec<DeliveryId>) -> Result<Vec<bool>> {
        self.write(Urgency::Maintenance, move |tx| {
            let mut touched = Touched::default();
            let cancel = |&id| cancel_one(tx, &mut touched, workspace, id);
            let cancelled = ids.iter().map(cancel).collect::<Result<_>>()?;
            touched.refresh(tx)?;
            Ok(cancelled)
        })
        .await
    }
}

pub(super) fn requeue_one(
    tx: &Tx<'_>,
    touched: &mut Touched,
    workspace: WorkspaceId,
    id: DeliveryId,
) -> Result<DeliveryId> {
    let ended = ended(tx, workspace, id)?;
    let illegal = |remedy| StoreError::IllegalTransition {
        delivery_id: id,
        status: ended.status.to_string(),
        wanted: "requeue",
        remedy,
    };
    if !matches!(ended.status, Status::Dead | Status::FailedPermanent) {
        return Err(illegal("only dead and failed_permanent deliveries can be requeued"));
    }
    if ended.removed {
        return Err(illegal("its channel was removed; post the message to another channel"));
    }
    if ended.of_campaign {
        return Err(illegal("it belongs to a campaign; run `rupor campaign retry` for those who failed"));
    }
    next_generation(tx, touched, &ended, json!({"parent": id.0}))
}

/// A copy that kept silent because of this delivery; asked before the delivery forgets its key.
pub(super) fn silent_copy(tx: &Tx<'_>, id: DeliveryId) -> Result<Option<DeliveryId>> {
    tx.first(SILENT_COPY, [id.0], |row| row.get(0).map(DeliveryId))
}

/// Says a copy after all: the post that it repeated vanished before anybody heard it.
pub(super) fn say_instead(
    tx: &Tx<'_>,
    touched: &mut Touched,
    workspace: WorkspaceId,
    copy: DeliveryId,
    vanished: DeliveryId,
) -> Result<()> {
    say_after_all(tx, touched, workspace, copy, json!({"parent": copy.0, "instead_of": vanished.0}))
}

/// Says what had kept silent.
pub(super) fn say_after_all(
    tx: &Tx<'_>,
    touched: &mut Touched,
    workspace: WorkspaceId,
    silent: DeliveryId,
    detail: Value,
) -> Result<()> {
    let ended = ended(tx, workspace, silent)?;
    next_generation(tx, touched, &ended, detail).map(drop)
}

/// A delivery that has come to an end, and where it would queue again.
struct Ended {
    id: DeliveryId,
    workspace: WorkspaceId,
    status: Status,
    lane_id: i64,
    message_id: i64,
    channel_id: Option<i64>,
    priority: i64,
    ordered: bool,
    removed: bool,
    of_campaign: bool,
}

fn ended(tx: &Tx<'_>, workspace: WorkspaceId, id: DeliveryId) -> Result<Ended> {
    let found = tx.first(SELECT_ENDED, (workspace.0, id.0), |row| {
        Ok(Ended {
            id,
            workspace,
            status: rows::word(row, 0, Status::parse)?,
            lane_id: row.get(1)?,
            message_id: row.get(2)?,
            channel_id: row.get(3)?,
            priority: row.get(4)?,
            ordered: row.get::<_, i32>(5)? == 1,
            removed: row.get(6)?,
            of_campaign: row.get(7)?,
        })
    })?;
    found.ok_or_else(|| StoreError::unknown_delivery(id))
}

fn next_generation(tx: &Tx<'_>, touched: &mut Touched, old: &Ended, detail: Value) -> Result<DeliveryId> {
    let new = tx.insert(INSERT_GENERATION, (old.id.0, tx.now.0))?;
    // From now on the new one tells how it ends.
    if old.status != Status::Deduped {
        tx.execute(COUNT_REQUEUED, (new, old.id.0))?;
    }
    let position = if old.ordered { new } else { tx.now.0 };
    let key = history::key_of(tx, new, old.message_id)?;
    tx.execute(SET_PLACE, (new, position, key))?;
    let ready = (old.lane_id, old.priority, position, new, old.workspace.0, tx.now.0, None::<i64>, 0);
    tx.execute(INSERT_READY, ready)?;
    tx.execute(TAKE_KEY_AGAIN, (new, tx.now.0))?;
    touched.lane(old.lane_id).queued += 1;
    let named = NewEvent {
        workspace_id: old.workspace.0,
        name: "requeued",
        message_id: Some(old.message_id),
        delivery_id: Some(new),
        channel_id: old.channel_id,
        detail,
        ..NewEvent::default()
    };
    event(tx, named)?;
    Ok(DeliveryId(new))
}

pub(super) fn cancel_one(
    tx: &Tx<'_>,
    touched: &mut Touched,
    workspace: WorkspaceId,
    id: DeliveryId,
) -> Result<bool> {
    let found = tx.first(SELECT_WAITING, (workspace.0, id.0), |row| {
        let status = rows::word(row, 0, Status::parse)?;
        let key = (row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, Option<i64>>(3)?);
        Ok((status, key, row.get(4)?, (row.get(5)?, row.get::<_, Option<i64>>(6)?)))
    })?;
    let Some((status, (lane_id, priority, position), message_id, (channel_id, campaign))) = found else {
        return Err(StoreError::unknown_delivery(id));
    };
    if step(status, Step::Drop).is_err() {
        return Ok(false);
    }
    tx.execute(CANCEL, (id.0, tx.now.0))?;
    tx.execute(DELETE_READY, (lane_id, priority, position, id.0))?;
    tx.execute(FORGET_KEY, [id.0])?;
    let change = touched.lane(lane_id);
    *change.status(status) -= 1;
    change.dead += 1;
    if let Some(campaign) = campaign {
        count_ending(tx, workspace, CampaignId(campaign), CANCELLED, 1)?;
    }
    let delivery_id = Some(id.0);
    event(
        tx,
        NewEvent {
            workspace_id: workspace.0,
            name: "cancelled",
            message_id: Some(message_id),
            delivery_id,
            channel_id,
            ..NewEvent::default()
        },
    )?;
    Ok(true)
}
