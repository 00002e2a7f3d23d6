//! Where posts are pulled from: the sources, who reads them now, how far they were read, and what each run did.

use domain::ids::{AccountId, SourceId, WorkspaceId};
use domain::time::Span;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::rows::Time;
use super::{Again, As, Postgres, Query, rows};
use crate::error::{Result, StoreError};
use crate::intake::{
    FinishedPoll, IngestRun, NewSource, PollHealth, RUN_ABANDONED, RunCounts, Seats, Source,
};
use crate::keyring::source_shown;

const ACCOUNT_EXISTS: &str = "SELECT 1 FROM accounts WHERE workspace_id = $1 AND account_id = $2";
/// The id is part of what is sealed, so it is drawn before the row is written.
const DRAW_ID: &str = "SELECT nextval('pull_sources_source_id_seq')";
pub(super) const SELECT_SEALED: &str = "
SELECT workspace_id, source_id, address_sealed FROM pull_sources WHERE address_sealed IS NOT NULL ORDER BY source_id";
const INSERT_SOURCE: &str = "
WITH made AS (
    INSERT INTO pull_sources (workspace_id, kind, name, address, account_id, settings, source_id, address_sealed, created_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, rupor_now()
      FROM control WHERE key_check = $9  -- what another key has sealed would open for nobody
    ON CONFLICT DO NOTHING
    RETURNING source_id
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('source', source_id, 'name', $3::text) FROM made
)
SELECT source_id FROM made";
const INSERT_CURSOR: &str = "
INSERT INTO pull_cursors (source_id, workspace_id, next_poll_at, updated_at)
SELECT s.source_id, s.workspace_id, rupor_now(), rupor_now()
  FROM pull_sources AS s
 WHERE s.workspace_id = $1 AND s.name = $2
ON CONFLICT DO NOTHING";
const CHANGE_SOURCE: &str = "
WITH changed AS (
    UPDATE pull_sources
       SET kind = $3, name = $4, address = $5, account_id = $6, settings = $7, address_sealed = $8
     WHERE workspace_id = $1 AND source_id = $2 AND EXISTS (SELECT FROM control WHERE key_check = $9)
    RETURNING source_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('source', source_id) FROM changed
RETURNING event_id";
const ENABLE_SOURCE: &str = "
WITH changed AS (
    UPDATE pull_sources SET enabled = $3 WHERE workspace_id = $1 AND source_id = $2 RETURNING source_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('source', source_id, 'enabled', $3::boolean) FROM changed
RETURNING event_id";
const REMOVE_CURSOR: &str = "DELETE FROM pull_cursors WHERE workspace_id = $1 AND source_id = $2";
const REMOVE_SOURCE: &str = "
WITH removed AS (
    DELETE FROM pull_sources WHERE workspace_id = $1 AND source_id = $2 RETURNING source_id
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('source', source_id, 'removed', true) FROM removed
RETURNING event_id";
macro_rules! select_sources {
    () => {
        "SELECT s.source_id, s.workspace_id, s.kind, s.name, s.address, s.account_id, s.enabled, s.settings, c.cursor, \
                c.next_poll_at, c.failing_since, c.last_error, s.address_sealed \
           FROM pull_sources AS s JOIN pull_cursors AS c ON c.source_id = s.source_id "
    };
}
const SELECT_SOURCES: &str = concat!(select_sources!(), "WHERE s.workspace_id = $1 ORDER BY s.source_id");
const LEASE_SOURCES: &str = "SELECT lease_sources($1, $2, $3, rupor_span($4))";
/// A statement of its own: the one that leases does not see what it wrote.
const SELECT_LEASED: &str =
    concat!(select_sources!(), "WHERE s.source_id = ANY ($1::bigint[]) ORDER BY c.next_poll_at, s.source_id");
const RENEW: &str = "
UPDATE pull_cursors
   SET lease_until = rupor_now() + rupor_span($4)
 WHERE workspace_id = $1 AND source_id = $2 AND lease_owner = $3
RETURNING source_id";
/// A node that lost its lease says nothing any more.
const FINISH_POLL: &str = "
UPDATE pull_cursors
   SET cursor = coalesce($4, cursor), next_poll_at = $5, lease_until = 'epoch', lease_owner = NULL,
       last_error = CASE WHEN $7 THEN last_error ELSE $6 END,
       failing_since = CASE WHEN $7 THEN failing_since
                            WHEN $6::text IS NOT NULL THEN coalesce(failing_since, rupor_now()) END,
       updated_at = rupor_now()
 WHERE workspace_id = $1 AND source_id = $2 AND lease_owner = $3
RETURNING source_id";
/// Written with what was read; a node that lost its lease leaves the cursor alone.
pub(super) const SET_CURSOR: &str = "
UPDATE pull_cursors
   SET cursor = $4, updated_at = rupor_now()
 WHERE workspace_id = $1 AND source_id = $2 AND lease_owner = $3";
const ALERT: &str =
    "INSERT INTO events (workspace_id, at, name, detail) VALUES ($1, rupor_now(), 'alert', $2)";
const START_RUN: &str = "INSERT INTO ingest_runs (workspace_id, source, started_at) VALUES ($1, $2, rupor_now()) RETURNING run_id";
const FINISH_RUN: &str = "
UPDATE ingest_runs
   SET finished_at = rupor_now(), seen = $3, stored = $4, skipped = $5, enqueued = $6, error = $7
 WHERE workspace_id = $1 AND run_id = $2
RETURNING run_id";
const CLOSE_RUNS: &str = "SELECT close_runs(rupor_span($1), $2)";
const SELECT_RUNS: &str = "
SELECT run_id, source, started_at, finished_at, seen, stored, skipped, enqueued, error
  FROM ingest_runs
 WHERE workspace_id = $1 AND run_id < $2
 ORDER BY run_id DESC
 LIMIT $3";

pub(super) const STATEMENTS: &[&str] = &[
    ACCOUNT_EXISTS,
    DRAW_ID,
    SELECT_SEALED,
    INSERT_SOURCE,
    INSERT_CURSOR,
    CHANGE_SOURCE,
    ENABLE_SOURCE,
    REMOVE_CURSOR,
    REMOVE_SOURCE,
    SELECT_SOURCES,
    LEASE_SOURCES,
    SELECT_LEASED,
    RENEW,
    FINISH_POLL,
    SET_CURSOR,
    ALERT,
    START_RUN,
    FINISH_RUN,
    CLOSE_RUNS,
    SELECT_RUNS,
];

impl Postgres {
    pub async fn create_source(&self, workspace: WorkspaceId, new: NewSource) -> Result<SourceId> {
        new.validate()?;
        self.require_account(workspace, new.account_id).await?;
        loop {
            let check = self.follow_key().await?;
            if let Some(id) = self.create_source_sealed(workspace, &new, &check).await? {
                return Ok(id);
            }
            // Nothing was written because the key was rotated in between, or because the name is taken.
            if self.follow_key().await? == check {
                return Err(StoreError::Exists { what: "source", name: new.name });
            }
        }
    }

    async fn create_source_sealed(
        &self,
        workspace: WorkspaceId,
        new: &NewSource,
        check: &[u8],
    ) -> Result<Option<SourceId>> {
        let id = SourceId(self.one(As::App(workspace), Again::Safe, DRAW_ID, &[]).await?.get(0));
        let (account_id, shown) = (new.account_id.map(|id| id.0), source_shown(&new.address));
        let sealed = self.keyring.seal_source(workspace, id, &new.address);
        let params: [&(dyn ToSql + Sync); 9] =
            [&workspace.0, &new.kind, &new.name, &shown, &account_id, &new.settings, &id.0, &sealed, &check];
        let queries = [
            Query { sql: INSERT_SOURCE, params: &params },
            Query { sql: INSERT_CURSOR, params: &[&workspace.0, &new.name] },
        ];
        let results = match self.run(As::App(workspace), Again::Never, &queries).await {
            Err(StoreError::Database(problem)) if problem.ends_with("(23503)") => {
                return Err(StoreError::unknown_workspace(workspace));
            }
            other => other?,
        };
        Ok(results.first().and_then(|rows| rows.first()).map(|_| id))
    }

    pub async fn change_source(&self, workspace: WorkspaceId, id: SourceId, new: NewSource) -> Result<()> {
        new.validate()?;
        self.require_account(workspace, new.account_id).await?;
        let (account_id, shown) = (new.account_id.map(|id| id.0), source_shown(&new.address));
        loop {
            let check = self.follow_key().await?;
            let sealed = self.keyring.seal_source(workspace, id, &new.address);
            let params: [&(dyn ToSql + Sync); 9] = [
                &workspace.0,
                &id.0,
                &new.kind,
                &new.name,
                &shown,
                &account_id,
                &new.settings,
                &sealed,
                &check,
            ];
            let changed = match self.scoped(workspace, CHANGE_SOURCE, &params).await {
                Err(StoreError::Database(problem)) if problem.ends_with("(23505)") => {
                    return Err(StoreError::Exists { what: "source", name: new.name });
                }
                other => other?,
            };
            if changed.is_some() {
                return Ok(());
            }
            if self.follow_key().await? == check {
                return Err(StoreError::not_found("source", id));
            }
        }
    }

    pub async fn enable_source(&self, workspace: WorkspaceId, id: SourceId, enabled: bool) -> Result<()> {
        let changed = self.scoped(workspace, ENABLE_SOURCE, &[&workspace.0, &id.0, &enabled]).await?;
        changed.map(drop).ok_or_else(|| StoreError::not_found("source", id))
    }

    pub async fn remove_source(&self, workspace: WorkspaceId, id: SourceId) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 2] = [&workspace.0, &id.0];
        let queries =
            [Query { sql: REMOVE_CURSOR, params: &params }, Query { sql: REMOVE_SOURCE, params: &params }];
        let results = self.run(As::App(workspace), Again::Never, &queries).await?;
        let removed = results.last().is_some_and(|rows| !rows.is_empty());
        removed.then_some(()).ok_or_else(|| StoreError::not_found("source", id))
    }

    pub async fn sources(&self, workspace: WorkspaceId) -> Result<Vec<Source>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_SOURCES, &[&workspace.0]).await?;
        Ok(rows.iter().map(|row| self.keyring.open_source(source(row), row.get(12))).collect())
    }

    pub async fn due_sources(&self, owner: &str, seats: Seats, lease: Span) -> Result<Vec<Source>> {
        let [all, failing] = [seats.all, seats.failing].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
        let params: [&(dyn ToSql + Sync); 4] = [&owner, &all, &failing, &lease.0];
        let leased = self.all(As::Dispatcher, Again::Never, LEASE_SOURCES, &params).await?;
        let ids: Vec<i64> = leased.iter().map(|row| row.get(0)).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.all(As::Dispatcher, Again::Safe, SELECT_LEASED, &[&ids]).await?;
        Ok(rows.iter().map(|row| self.keyring.open_source(source(row), row.get(12))).collect())
    }

    pub async fn renew_source(
        &self,
        workspace: WorkspaceId,
        id: SourceId,
        owner: &str,
        lease: Span,
    ) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &owner, &lease.0];
        Ok(self.first(As::App(workspace), Again::Safe, RENEW, &params).await?.is_some())
    }

    pub async fn finish_poll(&self, workspace: WorkspaceId, poll: FinishedPoll) -> Result<bool> {
        let error = poll.health.error();
        let (id, next, unchanged) =
            (poll.source_id.0, Time(poll.next_poll_at), poll.health == PollHealth::Unchanged);
        let params: [&(dyn ToSql + Sync); 7] =
            [&workspace.0, &id, &poll.owner, &poll.cursor, &next, &error, &unchanged];
        Ok(self.first(As::App(workspace), Again::Never, FINISH_POLL, &params).await?.is_some())
    }

    pub async fn alert(&self, workspace: WorkspaceId, detail: serde_json::Value) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 2] = [&workspace.0, &detail];
        self.all(As::App(workspace), Again::Never, ALERT, &params).await.map(drop)
    }

    pub async fn start_run(&self, workspace: WorkspaceId, source: &str) -> Result<i64> {
        let made = self.scoped(workspace, START_RUN, &[&workspace.0, &source]).await?;
        made.map(|row| row.get(0)).ok_or_else(|| StoreError::unknown_workspace(workspace))
    }

    pub async fn finish_run(
        &self,
        workspace: WorkspaceId,
        run_id: i64,
        counts: RunCounts,
        error: Option<String>,
    ) -> Result<()> {
        let c = counts;
        let params: [&(dyn ToSql + Sync); 7] =
            [&workspace.0, &run_id, &c.seen, &c.stored, &c.skipped, &c.enqueued, &error];
        let done = self.scoped(workspace, FINISH_RUN, &params).await?;
        done.map(drop).ok_or_else(|| StoreError::not_found("run", run_id))
    }

    pub async fn close_runs(&self, older_than: Span) -> Result<usize> {
        let params: [&(dyn ToSql + Sync); 2] = [&older_than.0, &RUN_ABANDONED];
        let row = self.first(As::Dispatcher, Again::Safe, CLOSE_RUNS, &params).await?;
        Ok(row.map_or(0, |row| usize::try_from(row.get::<_, i64>(0)).unwrap_or(usize::MAX)))
    }

    pub async fn runs(
        &self,
        workspace: WorkspaceId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<IngestRun>> {
        let (before, limit) = (before.unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &before, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_RUNS, &params).await?;
        Ok(rows.iter().map(run).collect())
    }

    async fn require_account(&self, workspace: WorkspaceId, id: Option<AccountId>) -> Result<()> {
        let Some(id) = id else {
            return Ok(());
        };
        let exists = self.scoped(workspace, ACCOUNT_EXISTS, &[&workspace.0, &id.0]).await?;
        exists.map(drop).ok_or_else(|| StoreError::unknown_account(id))
    }
}

fn source(row: &Row) -> Source {
    Source {
        source_id: SourceId(row.get(0)),
        workspace_id: WorkspaceId(row.get(1)),
        kind: row.get(2),
        name: row.get(3),
        address: row.get(4),
        account_id: row.get::<_, Option<i64>>(5).map(AccountId),
        enabled: row.get(6),
        settings: row.get(7),
        cursor: row.get(8),
        next_poll_at: rows::at(row, 9),
        failing_since: rows::time(row, 10),
        last_error: row.get(11),
    }
}

fn run(row: &Row) -> IngestRun {
    IngestRun {
        run_id: row.get(0),
        source: row.get(1),
        started_at: rows::at(row, 2),
        finished_at: rows::time(row, 3),
        counts: RunCounts { seen: row.get(4), stored: row.get(5), skipped: row.get(6), enqueued: row.get(7) },
        error: row.get(8),
    }
}
