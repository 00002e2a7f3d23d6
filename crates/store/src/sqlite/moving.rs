//! A channel that goes on with another account: its queue, and what it has said, go along.

use domain::ids::{AccountId, ChannelId, WorkspaceId};
use serde_json::json;

use super::channels::{hurry, lane, remove};
use super::heads::Touched;
use super::workspaces::config_changed;
use super::{Sqlite, Tx, Urgency};
use crate::error::{Result, StoreError};

const SELECT_MOVE: &str = "
SELECT c.name, c.target, c.platform = a.platform
  FROM channels AS c JOIN accounts AS a ON a.workspace_id = c.workspace_id AND a.account_id = ?3
 WHERE c.workspace_id = ?1 AND c.channel_id = ?2";
/// As the old one was set. What failures or a platform had shut is open again: that was the other account's. The name is
/// taken until the old one is removed.
const COPY_CHANNEL: &str = "
INSERT INTO channels (workspace_id, account_id, platform, name, target, target_since, chat_kind, enabled, disabled_by,
                      paused_until, paused_why, rate, max_parallel, ambiguity, dedup, dedup_ttl_us, max_age_us, template,
                      parse_mode, body_max, overflow, max_media, route, quiet_hours, time_zone, settings, created_at)
SELECT c.workspace_id, ?2, c.platform, c.name || ' (moving ' || c.channel_id || ')', ?3,
       iif(c.target = ?3, c.target_since, ?4), c.chat_kind, iif(c.disabled_by = 'operator', 0, 1),
       iif(c.disabled_by = 'operator', 'operator', NULL), iif(c.paused_until = 9223372036854775807, c.paused_until, 0),
       iif(c.paused_until = 9223372036854775807, c.paused_why, NULL), c.rate, c.max_parallel, c.ambiguity, c.dedup,
       c.dedup_ttl_us, c.max_age_us, c.template, c.parse_mode, c.body_max, c.overflow, c.max_media, c.route, c.quiet_hours,
       c.time_zone, c.settings, ?4
  FROM channels AS c
 WHERE c.channel_id = ?1";
const COPY_LANE: &str = "
INSERT INTO lane_heads (workspace_id, account_id, channel_id, open, blocked_until, closed_until, max_parallel, interval_us,
                        ambiguity)
SELECT c.workspace_id, c.account_id, c.channel_id, c.enabled, c.paused_until, h.closed_until, h.max_parallel, h.interval_us,
       h.ambiguity
  FROM channels AS c JOIN lane_heads AS h ON h.lane_id = ?2
 WHERE c.channel_id = ?1";
/// Only what is still to be said: what was published is edited by who published it. Half of a post by another is no
/// beginning.
const MOVE_WAITING: &str = "
UPDATE deliveries
   SET lane_id = ?2, account_id = ?3, channel_id = ?4, parts = '[]'
 WHERE lane_id = ?1 AND status IN ('queued', 'retry') AND action = 'send'";
const MOVE_READY: &str = "
UPDATE ready
   SET lane_id = ?2
 WHERE lane_id = ?1
   AND EXISTS (SELECT 1 FROM deliveries AS d WHERE d.delivery_id = ready.delivery_id AND d.lane_id = ?2)";
const COUNT_MOVED: &str = "
SELECT coalesce(sum(status = 'queued'), 0), coalesce(sum(status = 'retry'), 0) FROM deliveries WHERE lane_id = ?1";
/// In another chat only what is still to be said counts as said.
const MOVE_KEYS: &str = "
UPDATE dedup_index
   SET channel_id = ?3
 WHERE workspace_id = ?1 AND channel_id = ?2
   AND (?5 OR EXISTS (SELECT 1 FROM deliveries AS d
                       WHERE d.delivery_id = dedup_index.delivery_id AND d.lane_id = ?4))";
const MOVE_HELD: &str = "
UPDATE held_posts SET channel_id = ?3 WHERE workspace_id = ?1 AND channel_id = ?2 AND decision IS NULL";
const TAKE_NAME: &str = "UPDATE channels SET name = ?2 WHERE channel_id = ?1";

impl Sqlite {
    pub async fn move_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        account: AccountId,
        target: &str,
    ) -> Result<ChannelId> {
        let target = target.to_owned();
        let work = move |tx: &Tx<'_>| move_channel(tx, workspace, id, account, &target);
        let moved = self.write(Urgency::Maintenance, work).await?;
        self.bell.ring();
        Ok(moved)
    }
}

fn move_channel(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: ChannelId,
    account: AccountId,
    target: &str,
) -> Result<ChannelId> {
    let (old_lane, _) = lane(tx, workspace, id)?;
    let found = tx.first(SELECT_MOVE, (workspace.0, id.0, account.0), |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
    })?;
    let (name, old_target, same_platform) = found.ok_or_else(|| StoreError::unknown_account(account))?;
    if !same_platform {
        let problem = "the account is one of another platform; make a new channel there";
        return Err(StoreError::invalid("channel", problem));
    }
    let new = tx.insert(COPY_CHANNEL, (id.0, account.0, target, tx.now.0))?;
    let new_lane = tx.insert(COPY_LANE, (new, old_lane))?;
    tx.execute(MOVE_WAITING, (old_lane, new_lane, account.0, new))?;
    tx.execute(MOVE_READY, (old_lane, new_lane))?;
    tx.execute(MOVE_KEYS, (workspace.0, id.0, new, new_lane, old_target == target))?;
    tx.execute(MOVE_HELD, (workspace.0, id.0, new))?;
    hurry(tx, new_lane)?;
    let moved =
        tx.first(COUNT_MOVED, [new_lane], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let (queued, retry) = moved.unwrap_or_default();
    let mut touched = Touched::default();
    for (lane, sign) in [(old_lane, -1), (new_lane, 1)] {
        let change = touched.lane(lane);
        (change.queued, change.retry) = (sign * queued, sign * retry);
    }
    touched.refresh(tx)?;
    remove(tx, workspace, id)?;
    tx.execute(TAKE_NAME, (new, &name))?;
    let detail = json!({"channel": new, "name": name, "moved_from": id.0, "waiting": queued + retry});
    config_changed(tx, workspace, detail)?;
    Ok(ChannelId(new))
}
