//! Where posts are pulled from: the sources, who reads them now, how far they were read, and what each run did.

use std::sync::Arc;

use domain::ids::{AccountId, SourceId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use serde_json::json;

use super::accounts::follow_key;
use super::heads::{NewEvent, event};
use super::workspaces::require_workspace;
use super::{Sqlite, Tx, Urgency, rows};
use crate::error::{Result, StoreError};
use crate::intake::{
    FinishedPoll, IngestRun, NewSource, PollHealth, Progress, RUN_ABANDONED, RunCounts, Seats, Source,
};
use crate::keyring::{Keyring, Rotation, source_shown};

const ACCOUNT_EXISTS: &str = "SELECT 1 FROM accounts WHERE workspace_id = ?1 AND account_id = ?2";
const INSERT_SOURCE: &str = "
INSERT INTO pull_sources (workspace_id, kind, name, address, account_id, settings, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO NOTHING";
const SEAL_SOURCE: &str =
    "UPDATE pull_sources SET address_sealed = ?3 WHERE workspace_id = ?1 AND source_id = ?2";
const SELECT_SEALED: &str = "
SELECT workspace_id, source_id, address_sealed FROM pull_sources WHERE address_sealed IS NOT NULL ORDER BY source_id";
const INSERT_CURSOR: &str =
    "INSERT INTO pull_cursors (source_id, workspace_id, next_poll_at, updated_at) VALUES (?1, ?2, ?3, ?3)";
const CHANGE_SOURCE: &str = "
UPDATE pull_sources
   SET kind = ?3, name = ?4, address = ?5, account_id = ?6, settings = ?7
 WHERE workspace_id = ?1 AND source_id = ?2";
const NAME_TAKEN: &str =
    "SELECT 1 FROM pull_sources WHERE workspace_id = ?1 AND source_id <> ?2 AND name = ?3";
const ENABLE_SOURCE: &str = "UPDATE pull_sources SET enabled = ?3 WHERE workspace_id = ?1 AND source_id = ?2";
const REMOVE_CURSOR: &str = "DELETE FROM pull_cursors WHERE workspace_id = ?1 AND source_id = ?2";
const REMOVE_SOURCE: &str = "DELETE FROM pull_sources WHERE workspace_id = ?1 AND source_id = ?2";
const SOURCE_COLUMNS: &str = "s.source_id, s.workspace_id, s.kind, s.name, s.address, s.account_id, s.enabled, \
     s.settings, c.cursor, c.next_poll_at, c.failing_since, c.last_error, s.address_sealed";
/// The longest due first; of those that failed the last time only so many, or a few that hang would take all places.
const DUE: &str = "
SELECT source_id
  FROM (SELECT c.source_id, c.next_poll_at, c.failing_since IS NOT NULL AS failing,
               row_number() OVER (PARTITION BY c.failing_since IS NOT NULL
                                      ORDER BY c.next_poll_at, c.source_id) AS place
          FROM pull_cursors AS c JOIN pull_sources AS s ON s.source_id = c.source_id
         WHERE s.enabled = 1 AND c.next_poll_at <= ?1 AND c.lease_until <= ?1)
 WHERE NOT failing OR place <= ?3
 ORDER BY next_poll_at, source_id
 LIMIT ?2";
const LEASE: &str = "UPDATE pull_cursors SET lease_owner = ?2, lease_until = ?3 WHERE source_id = ?1";
const RENEW: &str = "
UPDATE pull_cursors SET lease_until = ?4 WHERE workspace_id = ?1 AND source_id = ?2 AND lease_owner = ?3";
/// A node that lost its lease says nothing any more.
const FINISH_POLL: &str = "
UPDATE pull_cursors
   SET cursor = coalesce(?4, cursor), next_poll_at = ?5, lease_until = 0, lease_owner = NULL,
       last_error = CASE WHEN ?8 THEN last_error ELSE ?6 END,
       failing_since = CASE WHEN ?8 THEN failing_since WHEN ?6 IS NULL THEN NULL ELSE coalesce(failing_since, ?7) END,
       updated_at = ?7
 WHERE workspace_id = ?1 AND source_id = ?2 AND lease_owner = ?3";
const SET_CURSOR: &str = "
UPDATE pull_cursors
   SET cursor = ?4, updated_at = ?5
 WHERE workspace_id = ?1 AND source_id = ?2 AND lease_owner = ?3";
const START_RUN: &str = "INSERT INTO ingest_runs (workspace_id, source, started_at) VALUES (?1, ?2, ?3)";
const FINISH_RUN: &str = "
UPDATE ingest_runs
   SET finished_at = ?3, seen = ?4, stored = ?5, skipped = ?6, enqueued = ?7, error = ?8
 WHERE workspace_id = ?1 AND run_id = ?2";
const CLOSE_RUNS: &str = "
UPDATE ingest_runs SET finished_at = ?1, error = ?3 WHERE finished_at IS NULL AND started_at < ?2";
const SELECT_RUNS: &str = "
SELECT run_id, source, started_at, finished_at, seen, stored, skipped, enqueued, error
  FROM ingest_runs
 WHERE workspace_id = ?1 AND run_id < ?2
 ORDER BY run_id DESC
 LIMIT ?3";

impl Sqlite {
    pub async fn create_source(&self, workspace: WorkspaceId, new: NewSource) -> Result<SourceId> {
        new.validate()?;
        let keyring = Arc::clone(&self.keyring);
        self.write(Urgency::Maintenance, move |tx| {
            require_workspace(tx, workspace)?;
            require_account(tx, workspace, new.account_id)?;
            let account_id = new.account_id.map(|id| id.0);
            let settings = new.settings.to_string();
            let shown = source_shown(&new.address);
            let params = (workspace.0, &new.kind, &new.name, shown, account_id, settings, tx.now.0);
            if tx.execute(INSERT_SOURCE, params)? == 0 {
                return Err(StoreError::Exists { what: "source", name: new.name });
            }
            let id = SourceId(tx.connection.last_insert_rowid());
            seal(tx, &keyring, workspace, id, &new.address)?;
            tx.execute(INSERT_CURSOR, (id.0, workspace.0, tx.now.0))?;
            changed(tx, workspace, json!({"source": id, "name": new.name}))?;
            Ok(id)
        })
        .await
    }

    pub async fn change_source(&self, workspace: WorkspaceId, id: SourceId, new: NewSource) -> Result<()> {
        new.validate()?;
        let keyring = Arc::clone(&self.keyring);
        self.write(Urgency::Maintenance, move |tx| {
            require_account(tx, workspace, new.account_id)?;
            if tx.first(NAME_TAKEN, (workspace.0, id.0, &new.name), |_| Ok(()))?.is_some() {
                return Err(StoreError::Exists { what: "source", name: new.name });
            }
            let account_id = new.account_id.map(|id| id.0);
            let settings = new.settings.to_string();
            let shown = source_shown(&new.address);
            let params = (workspace.0, id.0, &new.kind, &new.name, shown, account_id, settings);
            if tx.execute(CHANGE_SOURCE, params)? == 0 {
                return Err(StoreError::not_found("source", id));
            }
            seal(tx, &keyring, workspace, id, &new.address)?;
            changed(tx, workspace, json!({"source": id}))
        })
        .await
    }

    pub async fn enable_source(&self, workspace: WorkspaceId, id: SourceId, enabled: bool) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            if tx.execute(ENABLE_SOURCE, (workspace.0, id.0, enabled))? == 0 {
                return Err(StoreError::not_found("source", id));
            }
            changed(tx, workspace, json!({"source": id, "enabled": enabled}))
        })
        .await
    }

    pub async fn remove_source(&self, workspace: WorkspaceId, id: SourceId) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            tx.execute(REMOVE_CURSOR, (workspace.0, id.0))?;
            if tx.execute(REMOVE_SOURCE, (workspace.0, id.0))? == 0 {
                return Err(StoreError::not_found("source", id));
            }
            changed(tx, workspace, json!({"source": id, "removed": true}))
        })
        .await
    }

    pub async fn sources(&self, workspace: WorkspaceId) -> Result<Vec<Source>> {
        let sql = format!(
            "SELECT {SOURCE_COLUMNS} FROM pull_sources AS s JOIN pull_cursors AS c ON c.source_id = s.source_id
              WHERE s.workspace_id = ?1 ORDER BY s.source_id"
        );
        let keyring = Arc::clone(&self.keyring);
        self.read(move |tx| tx.all(&sql, [workspace.0], |row| opened(&keyring, row))).await
    }

    pub async fn due_sources(&self, owner: &str, seats: Seats, lease: Span) -> Result<Vec<Source>> {
        let owner = owner.to_owned();
        let sql = format!(
            "SELECT {SOURCE_COLUMNS} FROM pull_sources AS s JOIN pull_cursors AS c ON c.source_id = s.source_id
              WHERE s.source_id = ?1"
        );
        let keyring = Arc::clone(&self.keyring);
        self.write(Urgency::Maintenance, move |tx| {
            let due: Vec<i64> =
                tx.all(DUE, (tx.now.0, seats.all as i64, seats.failing as i64), |row| row.get(0))?;
            let mut leased = Vec::with_capacity(due.len());
            for id in due {
                tx.execute(LEASE, (id, &owner, (tx.now + lease).0))?;
                leased.extend(tx.first(&sql, [id], |row| opened(&keyring, row))?);
            }
            Ok(leased)
        })
        .await
    }

    pub async fn renew_source(
        &self,
        workspace: WorkspaceId,
        id: SourceId,
        owner: &str,
        lease: Span,
    ) -> Result<bool> {
        let owner = owner.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            Ok(tx.execute(RENEW, (workspace.0, id.0, &owner, (tx.now + lease).0))? > 0)
        })
        .await
    }

    pub async fn finish_poll(&self, workspace: WorkspaceId, poll: FinishedPoll) -> Result<bool> {
        self.write(Urgency::Maintenance, move |tx| {
            let cursor = poll.cursor.as_ref().map(ToString::to_string);
            let error = poll.health.error();
            let (id, next) = (poll.source_id.0, poll.next_poll_at.0);
            let unchanged = poll.health == PollHealth::Unchanged;
            let params = (workspace.0, id, &poll.owner, cursor, next, error, tx.now.0, unchanged);
            Ok(tx.execute(FINISH_POLL, params)? > 0)
        })
        .await
    }

    pub async fn alert(&self, workspace: WorkspaceId, detail: serde_json::Value) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            let name = "alert";
            event(tx, NewEvent { workspace_id: workspace.0, name, detail, ..NewEvent::default() })
        })
        .await
    }

    pub async fn start_run(&self, workspace: WorkspaceId, source: &str) -> Result<i64> {
        let source = source.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            require_workspace(tx, workspace)?;
            tx.insert(START_RUN, (workspace.0, &source, tx.now.0))
        })
        .await
    }

    pub async fn finish_run(
        &self,
        workspace: WorkspaceId,
        run_id: i64,
        counts: RunCounts,
        error: Option<String>,
    ) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            let c = counts;
            let params = (workspace.0, run_id, tx.now.0, c.seen, c.stored, c.skipped, c.enqueued, error);
            match tx.execute(FINISH_RUN, params)? {
                0 => Err(StoreError::not_found("run", run_id)),
                _ => Ok(()),
            }
        })
        .await
    }

    pub async fn close_runs(&self, older_than: Span) -> Result<usize> {
        self.write(Urgency::Maintenance, move |tx| {
            tx.execute(CLOSE_RUNS, (tx.now.0, (tx.now - older_than).0, RUN_ABANDONED))
        })
        .await
    }

    pub async fn runs(
        &self,
        workspace: WorkspaceId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<IngestRun>> {
        let before = before.unwrap_or(i64::MAX);
        self.read(move |tx| tx.all(SELECT_RUNS, (workspace.0, before, limit as i64), run)).await
    }
}

/// Written with what was read; a node that lost its lease leaves the cursor alone.
pub(super) fn set_cursor(tx: &Tx<'_>, workspace: WorkspaceId, progress: &Progress) -> Result<()> {
    let cursor = progress.cursor.to_string();
    let params = (workspace.0, progress.source_id.0, &progress.owner, cursor, tx.now.0);
    tx.execute(SET_CURSOR, params).map(drop)
}

/// The id is part of what is sealed, so this follows the row.
fn seal(tx: &Tx<'_>, keyring: &Keyring, workspace: WorkspaceId, id: SourceId, address: &str) -> Result<()> {
    follow_key(tx, keyring)?;
    tx.execute(SEAL_SOURCE, (workspace.0, id.0, keyring.seal_source(workspace, id, address))).map(drop)
}

/// Every address that is sealed, with the next key.
pub(super) fn reseal(tx: &Tx<'_>, rotation: &Rotation) -> Result<()> {
    let rows = tx.all(SELECT_SEALED, [], |row| {
        Ok((WorkspaceId(row.get(0)?), SourceId(row.get(1)?), row.get::<_, Vec<u8>>(2)?))
    })?;
    for (workspace, id, sealed) in rows {
        tx.execute(SEAL_SOURCE, (workspace.0, id.0, rotation.reseal_source(workspace, id, &sealed)))?;
    }
    Ok(())
}

fn opened(keyring: &Keyring, row: &Row<'_>) -> rusqlite::Result<Source> {
    let sealed: Option<Vec<u8>> = row.get(12)?;
    Ok(keyring.open_source(source(row)?, sealed.as_deref()))
}

fn require_account(tx: &Tx<'_>, workspace: WorkspaceId, id: Option<AccountId>) -> Result<()> {
    let Some(id) = id else {
        return Ok(());
    };
    let exists = tx.first(ACCOUNT_EXISTS, (workspace.0, id.0), |_| Ok(()))?;
    exists.ok_or_else(|| StoreError::unknown_account(id))
}

fn changed(tx: &Tx<'_>, workspace: WorkspaceId, detail: serde_json::Value) -> Result<()> {
    let name = "config_changed";
    event(tx, NewEvent { workspace_id: workspace.0, name, detail, ..NewEvent::default() })
}

fn source(row: &Row<'_>) -> rusqlite::Result<Source> {
    Ok(Source {
        source_id: SourceId(row.get(0)?),
        workspace_id: WorkspaceId(row.get(1)?),
        kind: row.get(2)?,
        name: row.get(3)?,
        address: row.get(4)?,
        account_id: row.get::<_, Option<i64>>(5)?.map(AccountId),
        enabled: row.get(6)?,
        settings: rows::json(row, 7)?,
        cursor: rows::json(row, 8)?,
        next_poll_at: Timestamp(row.get(9)?),
        failing_since: rows::time(row, 10)?,
        last_error: row.get(11)?,
    })
}

fn run(row: &Row<'_>) -> rusqlite::Result<IngestRun> {
    Ok(IngestRun {
        run_id: row.get(0)?,
        source: row.get(1)?,
        started_at: Timestamp(row.get(2)?),
        finished_at: rows::time(row, 3)?,
        counts: RunCounts {
            seen: row.get(4)?,
            stored: row.get(5)?,
            skipped: row.get(6)?,
            enqueued: row.get(7)?,
        },
        error: row.get(8)?,
    })
}
