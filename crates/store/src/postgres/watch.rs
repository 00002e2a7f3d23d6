//! Troubles, the picture of the moment and the tokens of the API.

use domain::ids::{DeliveryId, WorkspaceId};
use domain::time::{Span, Timestamp};
use secrecy::SecretString;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use super::rows::Time;
use super::{Again, As, Postgres, Query, rows};
use crate::config::secret_hash;
use crate::error::{Result, StoreError};
use crate::watch::*;

/// What SQL alone has told (`rupor_tell`) is a family of its own, which no node ends.
const END_UNSEEN: &str = "
UPDATE alerts
   SET ended_at = rupor_now()
 WHERE workspace_id = $1 AND ended_at IS NULL AND seen_at <= rupor_now() - rupor_span($2)
   AND NOT (key = ANY ($3))
   AND (strpos(key, '@') = 0 OR split_part(key, '@', 2) = $4
        OR seen_at <= rupor_now() - rupor_span($5) AND split_part(key, '@', 2) NOT IN ('monitor', 'bot-monitor'))";
/// What grows worse is news. Rows in one order: several nodes see the same.
const SEE_AGAIN: &str = "
UPDATE alerts AS a
   SET kind = s.kind, words = s.words, seen_at = rupor_now(),
       told_at = CASE WHEN a.severity = 'heals' AND s.severity = 'act' THEN NULL ELSE a.told_at END, severity = s.severity
  FROM jsonb_to_recordset($2) AS s (key text, kind text, severity text, words jsonb)
 WHERE a.workspace_id = $1 AND a.key = s.key AND a.ended_at IS NULL";
const OPEN: &str = "
INSERT INTO alerts (workspace_id, key, kind, severity, words, opened_at, seen_at, told_at, n_told)
SELECT $1, s.key, s.kind, s.severity, s.words, rupor_now(), rupor_now(), CASE WHEN s.told THEN rupor_now() END, s.told::integer
  FROM jsonb_to_recordset($2) AS s (key text, kind text, severity text, words jsonb, told boolean)
 ORDER BY s.key
ON CONFLICT DO NOTHING";
/// Nodes that watch at the same time take turns.
const TAKE_TURNS: &str = "SELECT pg_advisory_xact_lock(7077, ($1::bigint % 2147483647)::integer)";
const FORGET: &str =
    "DELETE FROM alerts WHERE workspace_id = $1 AND cleared_at < rupor_now() - rupor_span($2)";
const SELECT_UNSETTLED: &str = "
SELECT alert_id, key, kind, severity, words, opened_at, seen_at, told_at, n_told, ended_at, cleared_at
  FROM alerts
 WHERE workspace_id = $1 AND cleared_at IS NULL
 ORDER BY alert_id";
const SELECT_LATEST: &str = "
SELECT alert_id, key, kind, severity, words, opened_at, seen_at, told_at, n_told, ended_at, cleared_at
  FROM alerts
 WHERE workspace_id = $1 AND alert_id < $2
 ORDER BY alert_id DESC
 LIMIT $3";
const TOLD: &str = "
UPDATE alerts
   SET told_at = rupor_now(), n_told = n_told + 1
 WHERE workspace_id = $1 AND alert_id = $2 AND n_told = $3
RETURNING alert_id";
const CLEARED: &str = "
UPDATE alerts
   SET cleared_at = rupor_now()
 WHERE workspace_id = $1 AND alert_id = $2 AND cleared_at IS NULL";
const OUTCOMES: &str =
    "SELECT outcome_id, delivery_id FROM outcomes WHERE workspace_id = $1 ORDER BY outcome_id LIMIT $2";
const OUTCOMES_TOLD: &str = "DELETE FROM outcomes WHERE workspace_id = $1 AND outcome_id = ANY ($2)";
const SNAPSHOT: &str = "SELECT monitor_snapshot($1)";
const INSERT_TOKEN: &str = "
WITH made AS (
    INSERT INTO api_tokens (workspace_id, name, secret_hash, scopes, created_at)
    VALUES ($1, $2, $3, $4, rupor_now())
    ON CONFLICT DO NOTHING
    RETURNING token_id
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('token', token_id, 'name', $2::text) FROM made
)
SELECT token_id FROM made";
const SELECT_TOKENS: &str = "
SELECT token_id, workspace_id, name, scopes, created_at, revoked_at
  FROM api_tokens
 WHERE workspace_id = $1
 ORDER BY token_id";
const REVOKE_TOKEN: &str = "
WITH changed AS (
    UPDATE api_tokens SET revoked_at = rupor_now()
     WHERE workspace_id = $1 AND name = $2 AND revoked_at IS NULL
    RETURNING name
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('token', name, 'revoked', true) FROM changed
RETURNING event_id";
const TOKEN_BY_SECRET: &str =
    "SELECT token_id, workspace_id, name, scopes, created_at, revoked_at FROM api_token_by_secret($1)";

pub(super) const STATEMENTS: &[&str] = &[
    END_UNSEEN,
    SEE_AGAIN,
    OPEN,
    TAKE_TURNS,
    FORGET,
    SELECT_UNSETTLED,
    SELECT_LATEST,
    TOLD,
    CLEARED,
    OUTCOMES,
    OUTCOMES_TOLD,
    SNAPSHOT,
    INSERT_TOKEN,
    SELECT_TOKENS,
    REVOKE_TOKEN,
    TOKEN_BY_SECRET,
];

impl Postgres {
    pub async fn watch(
        &self,
        workspace: WorkspaceId,
        seen: Vec<NewAlert>,
        host: &str,
        patience: Span,
    ) -> Result<Vec<Alert>> {
        let keys: Vec<&str> = seen.iter().map(|alert| alert.key.as_str()).collect();
        let (patience, silent, keep, seen) = (patience.0, NODE_SILENT.0, ALERTS_KEEP.0, Json(&seen));
        let mut results = self
            .run(
                As::App(workspace),
                Again::Safe,
                &[
                    Query { sql: TAKE_TURNS, params: &[&workspace.0] },
                    Query { sql: END_UNSEEN, params: &[&workspace.0, &patience, &keys, &host, &silent] },
                    Query { sql: SEE_AGAIN, params: &[&workspace.0, &seen] },
                    Query { sql: OPEN, params: &[&workspace.0, &seen] },
                    Query { sql: FORGET, params: &[&workspace.0, &keep] },
                    Query { sql: SELECT_UNSETTLED, params: &[&workspace.0] },
                ],
            )
            .await?;
        results.pop().unwrap_or_default().iter().map(alert).collect()
    }

    pub async fn alert_told(&self, workspace: WorkspaceId, id: i64, n: i32) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id, &n];
        Ok(self.first(As::App(workspace), Again::Never, TOLD, &params).await?.is_some())
    }

    pub async fn alert_cleared(&self, workspace: WorkspaceId, id: i64) -> Result<()> {
        self.all(As::App(workspace), Again::Safe, CLEARED, &[&workspace.0, &id]).await.map(drop)
    }

    pub async fn alerts(
        &self,
        workspace: WorkspaceId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Alert>> {
        let (before, limit) = (before.unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &before, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_LATEST, &params).await?;
        rows.iter().map(alert).collect()
    }

    pub async fn outcomes(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<(i64, DeliveryId)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.all(As::App(workspace), Again::Safe, OUTCOMES, &[&workspace.0, &limit]).await?;
        Ok(rows.iter().map(|row| (row.get(0), DeliveryId(row.get(1)))).collect())
    }

    pub async fn outcomes_told(&self, workspace: WorkspaceId, notes: Vec<i64>) -> Result<()> {
        self.all(As::App(workspace), Again::Safe, OUTCOMES_TOLD, &[&workspace.0, &notes]).await.map(drop)
    }

    pub async fn snapshot(&self, workspace: WorkspaceId) -> Result<Snapshot> {
        let row = self.one(As::App(workspace), Again::Safe, SNAPSHOT, &[&workspace.0]).await?;
        let Json(snapshot) = row.get(0);
        Ok(snapshot)
    }

    pub async fn create_api_token(
        &self,
        workspace: WorkspaceId,
        name: &str,
        secret: &SecretString,
        scopes: &[ApiScope],
    ) -> Result<i64> {
        let (hash, scopes) = (secret_hash(secret), Json(scopes));
        let made = self.scoped(workspace, INSERT_TOKEN, &[&workspace.0, &name, &hash, &scopes]).await?;
        made.map(|row| row.get(0)).ok_or_else(|| StoreError::Exists { what: "token", name: name.to_owned() })
    }

    pub async fn api_tokens(&self, workspace: WorkspaceId) -> Result<Vec<ApiToken>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_TOKENS, &[&workspace.0]).await?;
        Ok(rows.iter().map(token).collect())
    }

    pub async fn revoke_api_token(&self, workspace: WorkspaceId, name: &str) -> Result<bool> {
        Ok(self.scoped(workspace, REVOKE_TOKEN, &[&workspace.0, &name]).await?.is_some())
    }

    pub async fn api_token_by_secret(&self, secret: &SecretString) -> Result<Option<ApiToken>> {
        let hash = secret_hash(secret);
        let row = self.first(As::Dispatcher, Again::Safe, TOKEN_BY_SECRET, &[&hash]).await?;
        Ok(row.as_ref().map(token))
    }
}

fn alert(row: &Row) -> Result<Alert> {
    let at = |column: usize| -> Timestamp {
        let Time(at) = row.get(column);
        at
    };
    Ok(Alert {
        alert_id: row.get(0),
        key: row.get(1),
        kind: row.get(2),
        severity: rows::word(row, 3, Severity::parse)?,
        words: row.get(4),
        opened_at: at(5),
        seen_at: at(6),
        told_at: rows::time(row, 7),
        n_told: row.get(8),
        ended_at: rows::time(row, 9),
        cleared_at: rows::time(row, 10),
    })
}

fn token(row: &Row) -> ApiToken {
    let Time(created_at) = row.get(4);
    let Json(scopes) = row.get(3);
    ApiToken {
        token_id: row.get(0),
        workspace_id: WorkspaceId(row.get(1)),
        name: row.get(2),
        scopes,
        created_at,
        revoked_at: rows::time(row, 5),
    }
}
