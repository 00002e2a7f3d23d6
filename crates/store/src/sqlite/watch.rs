//! Troubles, the picture of the moment and the tokens of the API.

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, CampaignId, ChannelId, DeliveryId, LaneId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use secrecy::SecretString;
use serde_json::json;

use super::workspaces::{config_changed, require_workspace};
use super::{Sqlite, Tx, Urgency, bots, rows};
use crate::config::secret_hash;
use crate::error::{Result, StoreError};
use crate::watch::*;

const END_UNSEEN: &str = "
UPDATE alerts
   SET ended_at = ?2
 WHERE workspace_id = ?1 AND ended_at IS NULL AND seen_at <= ?3
   AND key NOT IN (SELECT value FROM json_each(?4))
   AND (instr(key, '@') = 0 OR substr(key, instr(key, '@') + 1) = ?5 OR seen_at <= ?6)";
/// What grows worse is news.
const SEE_AGAIN: &str = "
UPDATE alerts
   SET kind = ?3, words = ?5, seen_at = ?6,
       told_at = CASE WHEN severity = 'heals' AND ?4 = 'act' THEN NULL ELSE told_at END, severity = ?4
 WHERE workspace_id = ?1 AND key = ?2 AND ended_at IS NULL";
const OPEN: &str = "
INSERT INTO alerts (workspace_id, key, kind, severity, words, opened_at, seen_at, told_at, n_told)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, CASE WHEN ?7 THEN ?6 END, ?7)";
const FORGET: &str = "DELETE FROM alerts WHERE workspace_id = ?1 AND cleared_at < ?2";
const COLUMNS: &str =
    "alert_id, key, kind, severity, words, opened_at, seen_at, told_at, n_told, ended_at, cleared_at";
const TOLD: &str = "
UPDATE alerts
   SET told_at = ?4, n_told = n_told + 1
 WHERE workspace_id = ?1 AND alert_id = ?2 AND n_told = ?3";
const CLEARED: &str = "
UPDATE alerts
   SET cleared_at = ?3
 WHERE workspace_id = ?1 AND alert_id = ?2 AND cleared_at IS NULL";

const SUMS: &str = "
SELECT coalesce(sum(h.n_queued), 0), coalesce(sum(h.n_retry), 0), coalesce(sum(h.n_sending), 0), coalesce(sum(h.n_sent), 0),
       coalesce(sum(h.n_deduped), 0), coalesce(sum(h.n_failed), 0), coalesce(sum(h.n_dead), 0)
  FROM lane_heads AS h JOIN accounts AS a ON a.account_id = h.account_id
 WHERE h.workspace_id = ?1 AND h.recipient_id IS NULL AND a.tier NOT IN ('alerts', 'callbacks')";
const IN_FLIGHT: &str =
    "SELECT count(*), count(CASE WHEN lease_until <= ?2 THEN 1 END) FROM inflight WHERE workspace_id = ?1";
/// The channels of alerts and callbacks are no channels of posts.
const CHANNELS: &str = "
SELECT count(*), count(CASE WHEN c.paused_until > ?2 THEN 1 END), count(CASE WHEN c.enabled = 0 THEN 1 END)
  FROM channels AS c JOIN accounts AS a ON a.account_id = c.account_id
 WHERE c.workspace_id = ?1 AND c.removed_at IS NULL AND a.tier NOT IN ('alerts', 'callbacks')";
const ACCOUNTS: &str = "
SELECT count(*), count(CASE WHEN a.paused THEN 1 END), count(CASE WHEN g.cooldown_until > ?2 THEN 1 END)
  FROM accounts AS a JOIN rate_groups AS g ON g.group_id = a.group_id
 WHERE a.workspace_id = ?1 AND a.tier NOT IN ('alerts', 'callbacks')";
const SOURCES: &str = "
SELECT count(*), count(CASE WHEN s.enabled AND c.failing_since IS NOT NULL THEN 1 END)
  FROM pull_sources AS s LEFT JOIN pull_cursors AS c ON c.source_id = s.source_id
 WHERE s.workspace_id = ?1";
const OPEN_ALERTS: &str = "SELECT count(*) FROM alerts WHERE workspace_id = ?1 AND ended_at IS NULL";
/// What a guard says begins with its name; other words are an operator's.
const CAMPAIGNS: &str = "
SELECT k.status, count(*),
       count(CASE WHEN k.status = 'paused' AND substr(k.why, 1, 7) = 'guard: '
                    OR k.status = 'running' AND EXISTS (SELECT 1 FROM json_each(k.resting) AS r
                                                         WHERE r.type = 'text' AND substr(r.value, 1, 7) = 'guard: ')
                  THEN 1 END)
  FROM campaigns AS k
 WHERE k.workspace_id = ?1
 GROUP BY k.status";
/// Lanes of one budget share it fairly: a lane waits for as many of each other as it has itself.
const LANES: &str = "
WITH busy AS (
    SELECT h.lane_id, h.account_id, h.channel_id, h.campaign_id, h.n_queued + h.n_retry AS waiting, h.interval_us,
           a.group_id, g.interval_us AS group_interval
      FROM lane_heads AS h
      JOIN account_heads AS a ON a.account_id = h.account_id
      JOIN rate_groups AS g ON g.group_id = a.group_id
     WHERE h.workspace_id = ?1 AND h.recipient_id IS NULL AND h.n_queued + h.n_retry > 0
)
SELECT b.lane_id, b.account_id, b.channel_id, b.campaign_id, b.waiting,
       (SELECT r.run_at FROM ready AS r WHERE r.lane_id = b.lane_id ORDER BY r.priority, r.position, r.delivery_id LIMIT 1),
       nullif(max(b.waiting * b.interval_us,
                  (SELECT sum(min(o.waiting, b.waiting)) FROM busy AS o WHERE o.group_id = b.group_id) * b.group_interval), 0) / 1000
  FROM busy AS b
 ORDER BY b.lane_id";
const ACCOUNTS_ETA: &str = "
SELECT h.account_id, sum(h.n_queued + h.n_retry),
       nullif(max(max((h.n_queued + h.n_retry) * h.interval_us), sum(h.n_queued + h.n_retry) * g.interval_us), 0) / 1000
  FROM lane_heads AS h
  JOIN account_heads AS a ON a.account_id = h.account_id
  JOIN rate_groups AS g ON g.group_id = a.group_id
 WHERE h.workspace_id = ?1 AND h.recipient_id IS NULL
 GROUP BY h.account_id, g.interval_us
HAVING sum(h.n_queued + h.n_retry) > 0
 ORDER BY h.account_id";
/// Events of trouble within a day, the oldest first, without failures that were queued again.
const TROUBLE: &str = "
SELECT e.name, e.at, e.channel_id, coalesce(json_extract(e.detail, '$.code'), json_extract(e.detail, '$.reason'))
  FROM events AS e
 WHERE e.workspace_id = ?1 AND e.at > ?2
   AND (e.name = 'dead_letter' OR e.name = 'failed_permanent' OR e.name = 'requeued' OR e.name = 'retry_scheduled' OR e.name = 'lease_recovered')
   AND e.name <> 'requeued'
   AND (e.name IN ('retry_scheduled', 'lease_recovered')
        OR e.delivery_id NOT IN (SELECT json_extract(q.detail, '$.parent') FROM events AS q
                                  WHERE q.workspace_id = ?1 AND q.at > ?2
                                    AND (q.name = 'dead_letter' OR q.name = 'failed_permanent' OR q.name = 'requeued' OR q.name = 'retry_scheduled' OR q.name = 'lease_recovered')
                                    AND q.name = 'requeued' AND json_extract(q.detail, '$.parent') IS NOT NULL))
 ORDER BY e.at, e.event_id";

const SOMEBODY_LISTENS: &str = "SELECT 1 FROM accounts WHERE tier = 'callbacks' LIMIT 1";
/// What a trigger notes of every other ending.
pub(super) const NOTE_OUTCOMES: &str = "
INSERT INTO outcomes (workspace_id, delivery_id)
SELECT d.workspace_id, d.delivery_id
  FROM json_each(?1) CROSS JOIN deliveries AS d ON d.delivery_id = json_each.value
 WHERE d.channel_id IS NOT NULL
   AND EXISTS (SELECT 1 FROM accounts AS a WHERE a.workspace_id = d.workspace_id AND a.tier = 'callbacks')
   AND NOT EXISTS (SELECT 1 FROM accounts AS a
                    WHERE a.account_id = d.account_id AND (a.tier = 'alerts' OR a.tier = 'callbacks'))";
const OUTCOMES: &str =
    "SELECT outcome_id, delivery_id FROM outcomes WHERE workspace_id = ?1 ORDER BY outcome_id LIMIT ?2";
const OUTCOMES_TOLD: &str =
    "DELETE FROM outcomes WHERE workspace_id = ?1 AND outcome_id IN (SELECT value FROM json_each(?2))";

const INSERT_TOKEN: &str = "
INSERT INTO api_tokens (workspace_id, name, secret_hash, scopes, created_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO NOTHING";
const SELECT_TOKENS: &str = "
SELECT token_id, workspace_id, name, scopes, created_at, revoked_at
  FROM api_tokens
 WHERE workspace_id = ?1
 ORDER BY token_id";
const REVOKE_TOKEN: &str =
    "UPDATE api_tokens SET revoked_at = ?3 WHERE workspace_id = ?1 AND name = ?2 AND revoked_at IS NULL";
const TOKEN_BY_SECRET: &str = "
SELECT token_id, workspace_id, name, scopes, created_at, revoked_at
  FROM api_tokens
 WHERE secret_hash = ?1 AND revoked_at IS NULL";

/// Claims that ended with a success, noted by who ends them.
pub(super) fn note_outcomes(tx: &Tx<'_>, ids: &str) -> Result<()> {
    if tx.first(SOMEBODY_LISTENS, [], |_| Ok(()))?.is_some() {
        tx.execute(NOTE_OUTCOMES, [ids])?;
    }
    Ok(())
}

impl Sqlite {
    pub async fn watch(
        &self,
        workspace: WorkspaceId,
        seen: Vec<NewAlert>,
        host: &str,
        patience: Span,
    ) -> Result<Vec<Alert>> {
        let host = host.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            require_workspace(tx, workspace)?;
            let keys = json!(seen.iter().map(|alert| &alert.key).collect::<Vec<_>>()).to_string();
            let silent = (tx.now - NODE_SILENT).0;
            tx.execute(END_UNSEEN, (workspace.0, tx.now.0, (tx.now - patience).0, keys, host, silent))?;
            for alert in &seen {
                let (severity, words) = (alert.severity.as_str(), alert.words.to_string());
                let params = (workspace.0, &alert.key, &alert.kind, severity, &words, tx.now.0);
                if tx.execute(SEE_AGAIN, params)? == 0 {
                    let told = alert.told;
                    let params = (workspace.0, &alert.key, &alert.kind, severity, &words, tx.now.0, told);
                    tx.execute(OPEN, params)?;
                }
            }
            tx.execute(FORGET, (workspace.0, (tx.now - ALERTS_KEEP).0))?;
            let sql = format!(
                "SELECT {COLUMNS} FROM alerts WHERE workspace_id = ?1 AND cleared_at IS NULL ORDER BY alert_id"
            );
            tx.all(&sql, [workspace.0], alert)
        })
        .await
    }

    pub async fn alert_told(&self, workspace: WorkspaceId, id: i64, n: i32) -> Result<bool> {
        let told =
            self.write(Urgency::Maintenance, move |tx| tx.execute(TOLD, (workspace.0, id, n, tx.now.0)));
        Ok(told.await? > 0)
    }

    pub async fn alert_cleared(&self, workspace: WorkspaceId, id: i64) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| tx.execute(CLEARED, (workspace.0, id, tx.now.0)).map(drop))
            .await
    }

    pub async fn alerts(
        &self,
        workspace: WorkspaceId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Alert>> {
        let (before, limit) = (before.unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let sql = format!(
            "SELECT {COLUMNS} FROM alerts WHERE workspace_id = ?1 AND alert_id < ?2 ORDER BY alert_id DESC LIMIT ?3"
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, before, limit), alert)).await
    }

    pub async fn outcomes(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<(i64, DeliveryId)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let note = |row: &Row<'_>| Ok((row.get(0)?, DeliveryId(row.get(1)?)));
        self.read(move |tx| tx.all(OUTCOMES, (workspace.0, limit), note)).await
    }

    pub async fn outcomes_told(&self, workspace: WorkspaceId, notes: Vec<i64>) -> Result<()> {
        let notes = json!(notes).to_string();
        self.write(Urgency::Maintenance, move |tx| tx.execute(OUTCOMES_TOLD, (workspace.0, notes)).map(drop))
            .await
    }

    pub async fn snapshot(&self, workspace: WorkspaceId) -> Result<Snapshot> {
        self.read(move |tx| snapshot(tx, workspace)).await
    }

    pub async fn create_api_token(
        &self,
        workspace: WorkspaceId,
        name: &str,
        secret: &SecretString,
        scopes: &[ApiScope],
    ) -> Result<i64> {
        let (name, hash, scopes) = (name.to_owned(), secret_hash(secret), json!(scopes).to_string());
        self.write(Urgency::Maintenance, move |tx| {
            require_workspace(tx, workspace)?;
            if tx.execute(INSERT_TOKEN, (workspace.0, &name, hash, scopes, tx.now.0))? == 0 {
                return Err(StoreError::Exists { what: "token", name });
            }
            let id = tx.connection.last_insert_rowid();
            config_changed(tx, workspace, json!({"token": id, "name": name}))?;
            Ok(id)
        })
        .await
    }

    pub async fn api_tokens(&self, workspace: WorkspaceId) -> Result<Vec<ApiToken>> {
        self.read(move |tx| tx.all(SELECT_TOKENS, [workspace.0], token)).await
    }

    pub async fn revoke_api_token(&self, workspace: WorkspaceId, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            let revoked = tx.execute(REVOKE_TOKEN, (workspace.0, &name, tx.now.0))? > 0;
            if revoked {
                config_changed(tx, workspace, json!({"token": name, "revoked": true}))?;
            }
            Ok(revoked)
        })
        .await
    }

    pub async fn api_token_by_secret(&self, secret: &SecretString) -> Result<Option<ApiToken>> {
        let hash = secret_hash(secret);
        self.read(move |tx| tx.first(TOKEN_BY_SECRET, [hash], token)).await
    }
}

fn alert(row: &Row<'_>) -> rusqlite::Result<Alert> {
    Ok(Alert {
        alert_id: row.get(0)?,
        key: row.get(1)?,
        kind: row.get(2)?,
        severity: rows::word(row, 3, Severity::parse)?,
        words: rows::json(row, 4)?,
        opened_at: Timestamp(row.get(5)?),
        seen_at: Timestamp(row.get(6)?),
        told_at: rows::time(row, 7)?,
        n_told: row.get(8)?,
        ended_at: rows::time(row, 9)?,
        cleared_at: rows::time(row, 10)?,
    })
}

fn token(row: &Row<'_>) -> rusqlite::Result<ApiToken> {
    Ok(ApiToken {
        token_id: row.get(0)?,
        workspace_id: WorkspaceId(row.get(1)?),
        name: row.get(2)?,
        scopes: serde_json::from_value(rows::json(row, 3)?).unwrap_or_default(),
        created_at: Timestamp(row.get(4)?),
        revoked_at: rows::time(row, 5)?,
    })
}

fn snapshot(tx: &Tx<'_>, workspace: WorkspaceId) -> Result<Snapshot> {
    let (ws, now) = (workspace.0, tx.now.0);
    let three = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?]);
    let two = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?]);
    let counts = tx.first(SUMS, [ws], |row| {
        Ok(StatusCounts {
            queued: row.get(0)?,
            retry: row.get(1)?,
            sending: row.get(2)?,
            sent: row.get(3)?,
            deduped: row.get(4)?,
            failed_permanent: row.get(5)?,
            dead: row.get(6)?,
        })
    })?;
    let [in_flight, expired_leases] = tx.first(IN_FLIGHT, (ws, now), two)?.unwrap_or_default();
    let [channels, paused_channels, disabled_channels] =
        tx.first(CHANNELS, (ws, now), three)?.unwrap_or_default();
    let [accounts, paused_accounts, cooling_accounts] =
        tx.first(ACCOUNTS, (ws, now), three)?.unwrap_or_default();
    let [sources, failing_sources] = tx.first(SOURCES, [ws], two)?.unwrap_or_default();
    let lanes = tx.all(LANES, [ws], lane)?;
    let events = tx.all(TROUBLE, (ws, (tx.now - Span::from_hours(24)).0), |row| {
        let channel_id = row.get::<_, Option<i64>>(2)?.map(ChannelId);
        Ok(TroubleEvent { name: row.get(0)?, at: Timestamp(row.get(1)?), channel_id, code: row.get(3)? })
    })?;
    let lately = tx.now - Span::from_secs(600);
    let of =
        |name: &str| events.iter().filter(|event| event.name == name && event.at > lately).count() as i64;
    let ended = || events.iter().filter(|event| event.is_failure());
    Ok(Snapshot {
        at: tx.now,
        counts: counts.unwrap_or_default(),
        oldest_due: lanes.iter().filter_map(|lane| lane.due_at).filter(|at| *at <= tx.now).min(),
        in_flight,
        expired_leases,
        failures_10min: ended().filter(|event| event.at > lately).count() as i64,
        failures_24h: ended().count() as i64,
        retries_10min: of("retry_scheduled"),
        lost_leases_10min: of("lease_recovered"),
        channels,
        paused_channels,
        disabled_channels,
        accounts,
        paused_accounts,
        cooling_accounts,
        sources,
        failing_sources,
        open_alerts: tx.first(OPEN_ALERTS, [ws], |row| row.get(0))?.unwrap_or_default(),
        campaigns: campaigns(tx, ws)?,
        bots: bots::snapshot(tx, workspace, Span::from_hours(1))?,
        lanes,
        accounts_eta: tx.all(ACCOUNTS_ETA, [ws], |row| {
            Ok(AccountSnapshot {
                account_id: AccountId(row.get(0)?),
                waiting: row.get(1)?,
                eta_ms: row.get(2)?,
            })
        })?,
        failures: by_channel(&events, lately),
    })
}

fn campaigns(tx: &Tx<'_>, ws: i64) -> Result<CampaignStates> {
    let rows: Vec<(CampaignStatus, i64, i64)> = tx.all(CAMPAIGNS, [ws], |row| {
        Ok((rows::word(row, 0, CampaignStatus::parse)?, row.get(1)?, row.get(2)?))
    })?;
    let mut counts = CampaignStates::default();
    for (status, n, guarded) in rows {
        *counts.of(status) = n;
        counts.guarded += guarded;
    }
    Ok(counts)
}

fn lane(row: &Row<'_>) -> rusqlite::Result<LaneSnapshot> {
    Ok(LaneSnapshot {
        lane_id: LaneId(row.get(0)?),
        account_id: AccountId(row.get(1)?),
        channel_id: row.get::<_, Option<i64>>(2)?.map(ChannelId),
        campaign_id: row.get::<_, Option<i64>>(3)?.map(CampaignId),
        waiting: row.get(4)?,
        due_at: rows::time(row, 5)?,
        eta_ms: row.get(6)?,
    })
}

struct TroubleEvent {
    name: String,
    at: Timestamp,
    channel_id: Option<ChannelId>,
    code: Option<String>,
}

impl TroubleEvent {
    fn is_failure(&self) -> bool {
        matches!(self.name.as_str(), "dead_letter" | "failed_permanent")
    }
}

fn by_channel(events: &[TroubleEvent], lately: Timestamp) -> Vec<ChannelFailures> {
    let mut channels: std::collections::BTreeMap<ChannelId, ChannelFailures> = Default::default();
    for event in events {
        let Some(channel_id) = event.channel_id.filter(|_| event.name != "lease_recovered") else {
            continue;
        };
        let retries = i64::from(!event.is_failure() && event.at > lately);
        if retries == 0 && !event.is_failure() {
            continue;
        }
        let row = channels.entry(channel_id).or_insert(ChannelFailures {
            channel_id,
            failed: 0,
            first_at: None,
            last_at: None,
            last_name: None,
            last_code: None,
            retries_10min: 0,
        });
        row.retries_10min += retries;
        if event.is_failure() {
            row.failed += 1;
            row.first_at = row.first_at.or(Some(event.at));
            row.last_at = Some(event.at);
            row.last_name = Some(event.name.clone());
            row.last_code.clone_from(&event.code);
        }
    }
    channels.into_values().collect()
}
