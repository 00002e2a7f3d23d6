//! Channels, and the lane that each of them owns.

use domain::ids::{AccountId, ChannelId, DeliveryId, WorkspaceId};
use domain::pacing::interval;
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::heads::{NewEvent, Touched, event};
use super::maintain::requeue_one;
use super::workspaces::config_changed;
use super::{Sqlite, Tx, Urgency, rows};
use crate::config::{Channel, ChannelSettings, DisabledBy, NewChannel};
use crate::error::{Result, StoreError};

const ACCOUNT_PLATFORM: &str = "SELECT platform FROM accounts WHERE workspace_id = ?1 AND account_id = ?2";
const INSERT_CHANNEL: &str = "
INSERT INTO channels (workspace_id, account_id, platform, name, target, chat_kind, rate, max_parallel, ambiguity,
                      dedup, dedup_ttl_us, max_age_us, template, parse_mode, body_max, overflow, max_media, route,
                      quiet_hours, time_zone, settings, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
ON CONFLICT DO NOTHING";
const INSERT_LANE: &str = "
INSERT INTO lane_heads (workspace_id, account_id, channel_id, max_parallel, interval_us, ambiguity)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const CHANGE_CHANNEL: &str = "
UPDATE channels
   SET chat_kind = ?3, rate = ?4, max_parallel = ?5, ambiguity = ?6, dedup = ?7, dedup_ttl_us = ?8, max_age_us = ?9,
       template = ?10, parse_mode = ?11, body_max = ?12, overflow = ?13, max_media = ?14, route = ?15,
       quiet_hours = ?16, time_zone = ?17, settings = ?18
 WHERE workspace_id = ?1 AND channel_id = ?2";
const CHANGE_LANE: &str =
    "UPDATE lane_heads SET max_parallel = ?2, interval_us = ?3, ambiguity = ?4 WHERE lane_id = ?1";
const SELECT_LANE: &str = "
SELECT h.lane_id, h.max_parallel
  FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
 WHERE c.workspace_id = ?1 AND c.channel_id = ?2 AND c.removed_at IS NULL";
/// An ordered lane's place is the delivery id, an unordered one's is the due time.
const POSITION_DELIVERIES: &str = "
UPDATE deliveries
   SET position = CASE WHEN ?2 THEN delivery_id ELSE run_at END
 WHERE lane_id = ?1 AND status IN ('queued', 'retry')";
const POSITION_READY: &str =
    "UPDATE ready SET position = CASE WHEN ?2 THEN delivery_id ELSE run_at END WHERE lane_id = ?1";
/// The later of both: a pause never ends a wait that a platform asked for.
const PAUSE: &str = "
UPDATE channels
   SET paused_why = CASE WHEN ?3 >= paused_until THEN ?4 ELSE paused_why END, paused_until = max(paused_until, ?3)
 WHERE workspace_id = ?1 AND channel_id = ?2
RETURNING paused_until";
const BLOCK_LANE: &str = "UPDATE lane_heads SET blocked_until = ?2 WHERE lane_id = ?1";
const CLOSE_LANE_UNTIL: &str = "UPDATE lane_heads SET closed_until = ?2 WHERE lane_id = ?1";
const RESUME: &str = "
UPDATE channels
   SET paused_until = 0, paused_why = NULL, enabled = 1, disabled_by = NULL, error_streak = 0
 WHERE workspace_id = ?1 AND channel_id = ?2";
/// Where order is not kept, the place in the queue is the time.
const HURRY_READY: &str = "
UPDATE ready
   SET run_at = ?2,
       position = CASE (SELECT h.max_parallel FROM lane_heads AS h WHERE h.lane_id = ?1) WHEN 1 THEN position ELSE ?2 END
 WHERE lane_id = ?1 AND run_at > ?2
   AND EXISTS (SELECT 1 FROM deliveries AS d WHERE d.delivery_id = ready.delivery_id AND d.status = 'retry')";
const HURRY_DELIVERIES: &str = "
UPDATE deliveries
   SET run_at = ?2, position = r.position
  FROM ready AS r
 WHERE r.lane_id = ?1 AND r.run_at = ?2 AND deliveries.delivery_id = r.delivery_id AND deliveries.status = 'retry'
   AND deliveries.run_at > ?2";
const DISABLE: &str =
    "UPDATE channels SET enabled = 0, disabled_by = ?3 WHERE workspace_id = ?1 AND channel_id = ?2";
const OPEN_LANE: &str = "UPDATE lane_heads SET open = ?2 WHERE lane_id = ?1";
const REMOVE: &str = "
UPDATE channels
   SET removed_at = ?3, enabled = 0, disabled_by = 'operator', name = name || ' (removed ' || channel_id || ')'
 WHERE workspace_id = ?1 AND channel_id = ?2";
const RENAME: &str = "UPDATE OR IGNORE channels SET name = ?3 WHERE workspace_id = ?1 AND channel_id = ?2 AND removed_at IS NULL";
const RETARGET: &str = "
UPDATE channels
   SET target = ?2, target_since = ?3, error_streak = 0,
       enabled = CASE WHEN disabled_by = 'auto' THEN 1 ELSE enabled END,
       disabled_by = CASE WHEN disabled_by = 'auto' THEN NULL ELSE disabled_by END,
       paused_why = CASE WHEN paused_until < 9223372036854775807 THEN NULL ELSE paused_why END,
       paused_until = CASE WHEN paused_until < 9223372036854775807 THEN 0 ELSE paused_until END
 WHERE channel_id = ?1
RETURNING enabled, paused_until";
/// Half of a post in another chat is no beginning here.
const BEGIN_AGAIN: &str = "
UPDATE deliveries SET parts = '[]' WHERE lane_id = ?1 AND status = 'retry' AND action = 'send' AND parts <> '[]'";
const FORGET_SAID: &str = "
DELETE FROM dedup_index
 WHERE workspace_id = ?1 AND channel_id = ?2
   AND NOT EXISTS (SELECT 1 FROM deliveries AS d
                    WHERE d.delivery_id = dedup_index.delivery_id AND d.status IN ('queued', 'retry', 'sending'))";
/// What the chat itself refused and nobody has queued again.
const REFUSED: &str = "
SELECT d.delivery_id
  FROM deliveries AS d
 WHERE d.lane_id = ?1 AND d.status = 'failed_permanent' AND d.last_error ->> '$.scope' = 'channel'
   AND NOT EXISTS (SELECT 1 FROM deliveries AS n
                    WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = d.action
                      AND n.revision = d.revision AND n.generation > d.generation)
 ORDER BY d.delivery_id
 LIMIT 10000";
const COUNT_WAITING: &str = "SELECT n_queued, n_retry FROM lane_heads WHERE lane_id = ?1";
const FAIL_WAITING: &str = "
UPDATE deliveries
   SET status = 'failed_permanent', reason = 'channel_removed', run_at = NULL, position = NULL, ended_at = ?2
 WHERE lane_id = ?1 AND status IN ('queued', 'retry')";
const FORGET_WAITING: &str = "
DELETE FROM dedup_index
 WHERE delivery_id IN (SELECT delivery_id FROM ready WHERE lane_id = ?1)";
const EMPTY_READY: &str = "DELETE FROM ready WHERE lane_id = ?1";

impl Sqlite {
    pub async fn create_channel(&self, workspace: WorkspaceId, new: NewChannel) -> Result<ChannelId> {
        self.write(Urgency::Maintenance, move |tx| {
            new.settings.validate()?;
            if new.target.trim().is_empty() {
                return Err(StoreError::invalid("channel", "the target is empty; give a chat id or @name"));
            }
            let platform: String = tx
                .first(ACCOUNT_PLATFORM, (workspace.0, new.account_id.0), |row| row.get(0))?
                .ok_or_else(|| StoreError::unknown_account(new.account_id))?;
            if insert(tx, workspace, &platform, &new)? == 0 {
                return Err(StoreError::Exists { what: "channel", name: new.name });
            }
            let id = ChannelId(tx.connection.last_insert_rowid());
            let s = &new.settings;
            let (interval, policy) = (interval(s.rate).micros(), s.ambiguity.as_str());
            let lane = (workspace.0, new.account_id.0, id.0, s.max_parallel, interval, policy);
            tx.execute(INSERT_LANE, lane)?;
            config_changed(tx, workspace, json!({"channel": id.0, "name": new.name}))?;
            Ok(id)
        })
        .await
    }

    pub async fn change_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        settings: ChannelSettings,
    ) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            settings.validate()?;
            let (lane_id, max_parallel) = lane(tx, workspace, id)?;
            change(tx, workspace, id, &settings)?;
            let (interval, policy) = (interval(settings.rate).micros(), settings.ambiguity.as_str());
            tx.execute(CHANGE_LANE, (lane_id, settings.max_parallel, interval, policy))?;
            let (was_ordered, ordered) = (max_parallel == 1, settings.max_parallel == 1);
            if was_ordered != ordered {
                tx.execute(POSITION_DELIVERIES, (lane_id, ordered))?;
                tx.execute(POSITION_READY, (lane_id, ordered))?;
            }
            refresh(tx, lane_id)?;
            config_changed(tx, workspace, json!({"channel": id.0}))
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn channels(&self, workspace: WorkspaceId) -> Result<Vec<Channel>> {
        let sql = format!(
            "SELECT {} FROM channels WHERE workspace_id = ?1 AND removed_at IS NULL ORDER BY channel_id",
            rows::CHANNEL_COLUMNS
        );
        self.read(move |tx| tx.all(&sql, [workspace.0], rows::channel)).await
    }

    pub async fn pause_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        until: Timestamp,
        why: &str,
    ) -> Result<Timestamp> {
        let why = why.to_owned();
        let until = self
            .write(Urgency::Outcome, move |tx| {
                let (lane_id, _) = lane(tx, workspace, id)?;
                let paused = tx.first(PAUSE, (workspace.0, id.0, until.0, &why), |row| row.get(0))?;
                let until: i64 = paused.ok_or_else(|| StoreError::not_found("channel", id))?;
                tx.execute(BLOCK_LANE, (lane_id, until))?;
                refresh(tx, lane_id)?;
                channel_event(tx, workspace, id, "channel_paused", json!({"until": until, "why": why}))?;
                Ok(Timestamp(until))
            })
            .await?;
        self.bell.ring();
        Ok(until)
    }

    pub async fn resume_channel(&self, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
        self.write(Urgency::Outcome, move |tx| {
            let (lane_id, _) = lane(tx, workspace, id)?;
            tx.execute(RESUME, (workspace.0, id.0))?;
            tx.execute(BLOCK_LANE, (lane_id, 0))?;
            tx.execute(OPEN_LANE, (lane_id, true))?;
            hurry(tx, lane_id)?;
            refresh(tx, lane_id)?;
            channel_event(tx, workspace, id, "channel_resumed", Value::Null)
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn disable_channel(&self, workspace: WorkspaceId, id: ChannelId, by: DisabledBy) -> Result<()> {
        self.write(Urgency::Outcome, move |tx| {
            let (lane_id, _) = lane(tx, workspace, id)?;
            disable(tx, workspace, id, lane_id, by)?;
            refresh(tx, lane_id)
        })
        .await
    }

    pub async fn remove_channel(&self, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| remove(tx, workspace, id)).await
    }

    pub async fn rename_channel(&self, workspace: WorkspaceId, id: ChannelId, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            lane(tx, workspace, id)?;
            match tx.execute(RENAME, (workspace.0, id.0, &name))? {
                0 => Err(StoreError::Exists { what: "channel", name }),
                _ => config_changed(tx, workspace, json!({"channel": id.0, "name": name})),
            }
        })
        .await
    }

    pub async fn retarget_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        target: &str,
    ) -> Result<Vec<DeliveryId>> {
        let target = target.to_owned();
        let again = self.write(Urgency::Outcome, move |tx| retarget(tx, workspace, id, &target)).await?;
        self.bell.ring();
        Ok(again)
    }

    pub async fn close_channel_until(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        until: Timestamp,
    ) -> Result<()> {
        self.write(Urgency::Outcome, move |tx| {
            let (lane_id, _) = lane(tx, workspace, id)?;
            tx.execute(CLOSE_LANE_UNTIL, (lane_id, until.0))?;
            refresh(tx, lane_id)
        })
        .await?;
        self.bell.ring();
        Ok(())
    }
}

pub(super) fn remove(tx: &Tx<'_>, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
    let (lane_id, _) = lane(tx, workspace, id)?;
    let (queued, retry) = tx
        .first(COUNT_WAITING, [lane_id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?
        .unwrap_or_default();
    tx.execute(FORGET_WAITING, [lane_id])?;
    tx.execute(FAIL_WAITING, (lane_id, tx.now.0))?;
    tx.execute(EMPTY_READY, [lane_id])?;
    tx.execute(REMOVE, (workspace.0, id.0, tx.now.0))?;
    tx.execute(OPEN_LANE, (lane_id, false))?;
    let mut touched = Touched::default();
    let change = touched.lane(lane_id);
    (change.queued, change.retry, change.failed) = (-queued, -retry, queued + retry);
    touched.refresh(tx)?;
    channel_event(tx, workspace, id, "channel_removed", json!({"failed": queued + retry}))
}

fn retarget(tx: &Tx<'_>, workspace: WorkspaceId, id: ChannelId, target: &str) -> Result<Vec<DeliveryId>> {
    let (lane_id, _) = lane(tx, workspace, id)?;
    let moved = tx.first(RETARGET, (id.0, target, tx.now.0), |row| {
        Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(1)?))
    })?;
    let (enabled, paused_until) = moved.ok_or_else(|| StoreError::unknown_channel(id))?;
    tx.execute(OPEN_LANE, (lane_id, enabled))?;
    tx.execute(BLOCK_LANE, (lane_id, paused_until))?;
    tx.execute(FORGET_SAID, (workspace.0, id.0))?;
    tx.execute(BEGIN_AGAIN, [lane_id])?;
    hurry(tx, lane_id)?;
    refresh(tx, lane_id)?;
    let mut touched = Touched::default();
    let refused = tx.all(REFUSED, [lane_id], |row| row.get(0).map(DeliveryId))?;
    let again = refused.into_iter().map(|id| requeue_one(tx, &mut touched, workspace, id));
    let again = again.collect::<Result<Vec<DeliveryId>>>()?;
    touched.refresh(tx)?;
    let detail = json!({"channel": id.0, "target": target, "requeued": again.len()});
    config_changed(tx, workspace, detail)?;
    Ok(again)
}

/// What was tried before and waits to be tried again is due now. The caller refreshes the heads.
pub(super) fn hurry(tx: &Tx<'_>, lane_id: i64) -> Result<()> {
    tx.execute(HURRY_READY, (lane_id, tx.now.0))?;
    tx.execute(HURRY_DELIVERIES, (lane_id, tx.now.0))?;
    Ok(())
}

/// Shuts the lane; the queue is kept. The caller refreshes the heads.
pub(super) fn disable(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: ChannelId,
    lane_id: i64,
    by: DisabledBy,
) -> Result<()> {
    tx.execute(DISABLE, (workspace.0, id.0, by.as_str()))?;
    tx.execute(OPEN_LANE, (lane_id, false))?;
    channel_event(tx, workspace, id, "channel_disabled", json!({"by": by.as_str()}))
}

pub(super) fn channel_event(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: ChannelId,
    name: &str,
    detail: Value,
) -> Result<()> {
    let channel_id = Some(id.0);
    event(tx, NewEvent { workspace_id: workspace.0, name, channel_id, detail, ..NewEvent::default() })
}

pub(super) fn lane(tx: &Tx<'_>, workspace: WorkspaceId, id: ChannelId) -> Result<(i64, i32)> {
    let found = tx.first(SELECT_LANE, (workspace.0, id.0), |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.ok_or_else(|| StoreError::unknown_channel(id))
}

fn refresh(tx: &Tx<'_>, lane_id: i64) -> Result<()> {
    let mut touched = Touched::default();
    touched.lane(lane_id);
    touched.refresh(tx)
}

fn insert(tx: &Tx<'_>, workspace: WorkspaceId, platform: &str, new: &NewChannel) -> Result<usize> {
    let s = &new.settings;
    let AccountId(account_id) = new.account_id;
    tx.execute(
        INSERT_CHANNEL,
        rusqlite::params![
            workspace.0,
            account_id,
            platform,
            new.name,
            new.target,
            s.chat_kind.as_str(),
            s.rate,
            s.max_parallel,
            s.ambiguity.as_str(),
            s.dedup.as_str(),
            s.dedup_ttl.0,
            s.max_age.map(|age| age.0),
            s.template,
            s.parse_mode,
            s.body_max,
            s.overflow.as_str(),
            s.max_media,
            s.route,
            s.quiet_hours,
            s.time_zone,
            s.settings.to_string(),
            tx.now.0
        ],
    )
}

fn change(tx: &Tx<'_>, workspace: WorkspaceId, id: ChannelId, s: &ChannelSettings) -> Result<usize> {
    tx.execute(
        CHANGE_CHANNEL,
        rusqlite::params![
            workspace.0,
            id.0,
            s.chat_kind.as_str(),
            s.rate,
            s.max_parallel,
            s.ambiguity.as_str(),
            s.dedup.as_str(),
            s.dedup_ttl.0,
            s.max_age.map(|age| age.0),
            s.template,
            s.parse_mode,
            s.body_max,
            s.overflow.as_str(),
            s.max_media,
            s.route,
            s.quiet_hours,
            s.time_zone,
            s.settings.to_string()
        ],
    )
}
