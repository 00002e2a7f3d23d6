//! Channels, and the lane that each of them owns. The lane follows the channel's row by trigger.

use domain::ids::{ChannelId, DeliveryId, WorkspaceId};
use domain::time::Timestamp;
use tokio_postgres::Row;

use super::rows::Time;
use super::{Again, As, Postgres, Query, rows};
use crate::config::{Channel, ChannelSettings, DisabledBy, NewChannel};
use crate::error::{Result, StoreError};

const ACCOUNT_EXISTS: &str = "SELECT 1 FROM accounts WHERE workspace_id = $1 AND account_id = $2";
const INSERT_CHANNEL: &str = "
WITH made AS (
    INSERT INTO channels (workspace_id, account_id, name, target, chat_kind, rate, max_parallel, ambiguity, dedup,
                          dedup_ttl_us, max_age_us, template, parse_mode, body_max, overflow, max_media, route,
                          quiet_hours, time_zone, settings, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, rupor_now())
    ON CONFLICT DO NOTHING
    RETURNING channel_id
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('channel', channel_id, 'name', $3::text) FROM made
)
SELECT channel_id FROM made";
const CHANGE_CHANNEL: &str = "
WITH changed AS (
    UPDATE channels
       SET chat_kind = $3, rate = $4, max_parallel = $5, ambiguity = $6, dedup = $7, dedup_ttl_us = $8, max_age_us = $9,
           template = $10, parse_mode = $11, body_max = $12, overflow = $13, max_media = $14, route = $15,
           quiet_hours = $16, time_zone = $17, settings = $18
     WHERE workspace_id = $1 AND channel_id = $2 AND removed_at IS NULL
    RETURNING channel_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('channel', channel_id) FROM changed
RETURNING event_id";
const SELECT_CHANNELS: &str = concat!(
    "SELECT ",
    rows::channel_columns!(),
    " FROM channels WHERE workspace_id = $1 AND removed_at IS NULL ORDER BY channel_id"
);
/// The later of both: a pause never ends a wait that a platform asked for.
const PAUSE: &str = "
WITH changed AS (
    UPDATE channels
       SET paused_until = greatest(paused_until, $3),
           paused_why = CASE WHEN $3 >= paused_until THEN $4 ELSE paused_why END
     WHERE workspace_id = $1 AND channel_id = $2 AND removed_at IS NULL
    RETURNING channel_id, paused_until
), told AS (
    INSERT INTO events (workspace_id, at, name, channel_id, detail)
    SELECT $1, rupor_now(), 'channel_paused', channel_id,
           jsonb_build_object('until', CASE WHEN isfinite(paused_until) THEN rupor_micros(paused_until)
                                            ELSE 9223372036854775807 END, 'why', $4::text)
      FROM changed
)
SELECT paused_until FROM changed";
const RESUME: &str = "SELECT resume_channel($1, $2)";
const DISABLE: &str = "
WITH changed AS (
    UPDATE channels
       SET enabled = false, disabled_by = $3
     WHERE workspace_id = $1 AND channel_id = $2 AND removed_at IS NULL
    RETURNING channel_id
)
INSERT INTO events (workspace_id, at, name, channel_id, detail)
SELECT $1, rupor_now(), 'channel_disabled', channel_id, jsonb_build_object('by', $3::text) FROM changed
RETURNING event_id";
/// No row: another channel has that name.
const RENAME: &str = "
WITH changed AS (
    UPDATE channels AS c
       SET name = $3
     WHERE c.workspace_id = $1 AND c.channel_id = $2 AND c.removed_at IS NULL
       AND NOT EXISTS (SELECT FROM channels AS o
                        WHERE o.workspace_id = $1 AND o.name = $3 AND o.channel_id <> $2)
    RETURNING c.channel_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('channel', channel_id, 'name', $3::text) FROM changed
RETURNING event_id";
const RETARGET: &str = "SELECT retarget_channel($1, $2, $3)";
/// The queue's locks before the row's: the order in which a commit takes them.
const LOCK: &str = "SELECT lock_channel($1, $2)";
const REMOVE: &str = "SELECT remove_channel($1, $2)";
const CLOSE_UNTIL: &str = "SELECT close_channel_until($1, $2, $3)";

pub(super) const STATEMENTS: &[&str] = &[
    ACCOUNT_EXISTS,
    INSERT_CHANNEL,
    CHANGE_CHANNEL,
    SELECT_CHANNELS,
    PAUSE,
    RENAME,
    RETARGET,
    RESUME,
    DISABLE,
    LOCK,
    REMOVE,
    CLOSE_UNTIL,
];

impl Postgres {
    pub async fn create_channel(&self, workspace: WorkspaceId, new: NewChannel) -> Result<ChannelId> {
        new.settings.validate()?;
        if new.target.trim().is_empty() {
            return Err(StoreError::invalid("channel", "the target is empty; give a chat id or @name"));
        }
        let account = self.scoped(workspace, ACCOUNT_EXISTS, &[&workspace.0, &new.account_id.0]).await?;
        account.ok_or_else(|| StoreError::unknown_account(new.account_id))?;
        let s = &new.settings;
        let made = self
            .scoped(
                workspace,
                INSERT_CHANNEL,
                &[
                    &workspace.0,
                    &new.account_id.0,
                    &new.name,
                    &new.target,
                    &s.chat_kind.as_str(),
                    &s.rate,
                    &s.max_parallel,
                    &s.ambiguity.as_str(),
                    &s.dedup.as_str(),
                    &s.dedup_ttl.0,
                    &s.max_age.map(|age| age.0),
                    &s.template,
                    &s.parse_mode,
                    &s.body_max,
                    &s.overflow.as_str(),
                    &s.max_media,
                    &s.route,
                    &s.quiet_hours,
                    &s.time_zone,
                    &s.settings,
                ],
            )
            .await?;
        match made {
            Some(row) => Ok(ChannelId(row.get(0))),
            None => Err(StoreError::Exists { what: "channel", name: new.name }),
        }
    }

    pub async fn change_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        settings: ChannelSettings,
    ) -> Result<()> {
        settings.validate()?;
        let s = &settings;
        self.change_channel_row(
            workspace,
            id,
            CHANGE_CHANNEL,
            &[
                &workspace.0,
                &id.0,
                &s.chat_kind.as_str(),
                &s.rate,
                &s.max_parallel,
                &s.ambiguity.as_str(),
                &s.dedup.as_str(),
                &s.dedup_ttl.0,
                &s.max_age.map(|age| age.0),
                &s.template,
                &s.parse_mode,
                &s.body_max,
                &s.overflow.as_str(),
                &s.max_media,
                &s.route,
                &s.quiet_hours,
                &s.time_zone,
                &s.settings,
            ],
        )
        .await?;
        self.ring();
        Ok(())
    }

    pub async fn channels(&self, workspace: WorkspaceId) -> Result<Vec<Channel>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_CHANNELS, &[&workspace.0]).await?;
        rows.iter().map(rows::channel).collect()
    }

    pub async fn pause_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        until: Timestamp,
        why: &str,
    ) -> Result<Timestamp> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&workspace.0, &id.0, &Time(until), &why];
        let row = self.change_channel_row(workspace, id, PAUSE, &params).await?;
        self.ring();
        Ok(rows::at(&row, 0))
    }

    pub async fn resume_channel(&self, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
        let row = self.one(As::App(workspace), Again::Safe, RESUME, &[&workspace.0, &id.0]).await?;
        found(row.get(0), id)?;
        self.ring();
        Ok(())
    }

    pub async fn rename_channel(&self, workspace: WorkspaceId, id: ChannelId, name: &str) -> Result<()> {
        let known = self.channels(workspace).await?;
        found(known.iter().any(|channel| channel.channel_id == id), id)?;
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &id.0, &name];
        let renamed = self.first(As::App(workspace), Again::Never, RENAME, &params).await?;
        let taken = || StoreError::Exists { what: "channel", name: name.to_owned() };
        renamed.map(drop).ok_or_else(taken)
    }

    pub async fn retarget_channel(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        target: &str,
    ) -> Result<Vec<DeliveryId>> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &id.0, &target];
        let row = self.one(As::App(workspace), Again::Never, RETARGET, &params).await?;
        let again: Option<Vec<i64>> = row.get(0);
        self.ring();
        let again = again.ok_or_else(|| StoreError::unknown_channel(id))?;
        Ok(again.into_iter().map(DeliveryId).collect())
    }

    pub async fn disable_channel(&self, workspace: WorkspaceId, id: ChannelId, by: DisabledBy) -> Result<()> {
        self.change_channel_row(workspace, id, DISABLE, &[&workspace.0, &id.0, &by.as_str()]).await.map(drop)
    }

    pub async fn remove_channel(&self, workspace: WorkspaceId, id: ChannelId) -> Result<()> {
        let row = self.one(As::App(workspace), Again::Never, REMOVE, &[&workspace.0, &id.0]).await?;
        found(row.get(0), id)
    }

    pub async fn close_channel_until(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        until: Timestamp,
    ) -> Result<()> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&workspace.0, &id.0, &Time(until)];
        let row = self.one(As::App(workspace), Again::Safe, CLOSE_UNTIL, &params).await?;
        found(row.get(0), id)?;
        self.ring();
        Ok(())
    }

    async fn change_channel_row(
        &self,
        workspace: WorkspaceId,
        id: ChannelId,
        sql: &'static str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Row> {
        let queries = [Query { sql: LOCK, params: &[&workspace.0, &id.0] }, Query { sql, params }];
        let changed = self.run(As::App(workspace), Again::Never, &queries).await?;
        changed
            .into_iter()
            .last()
            .and_then(|rows| rows.into_iter().next())
            .ok_or(StoreError::unknown_channel(id))
    }
}

fn found(found: bool, id: ChannelId) -> Result<()> {
    if found { Ok(()) } else { Err(StoreError::unknown_channel(id)) }
}
