//! Which history of the database this is, who serves it, and what happens when commits are lost.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::ids::{MessageId, WorkspaceId};
use domain::time::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::types::Json;

use super::{Again, As, Postgres};
use crate::error::{Result, StoreError};
use crate::history::{HISTORY_LOST, History, NODE_FORGOTTEN_AFTER, NodeRow, Remembered, Replayed};
use crate::queue::NewMessage;

const SELECT_HISTORY: &str = "SELECT history FROM control";
/// The timeline: a standby that is promoted, and a server that is restored to a point in time, begin a new one.
const SELECT_SERVER: &str =
    "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END";
/// Whoever comes second finds it held and adds what he knows.
const LOSE_HISTORY: &str = "
WITH before AS (
    SELECT coalesce(held AND held_why LIKE $1 || '%', false) AS known FROM control FOR UPDATE
), held AS (
    UPDATE control AS c
       SET history = CASE WHEN b.known THEN c.history ELSE left(replace(gen_random_uuid()::text, '-', ''), 16) END,
           held_why = CASE WHEN b.known THEN left(c.held_why || '; ' || $2, 4000) ELSE $1 || ': ' || $2 END,
           held = true
      FROM before AS b
    RETURNING one
)
INSERT INTO events (workspace_id, at, name, detail)
SELECT w.workspace_id, rupor_now(), n.name,
       jsonb_build_object('everything', true, 'why', $1 || ': ' || $2, 'text', $1 || ': ' || $2)
  FROM held CROSS JOIN workspaces AS w CROSS JOIN (VALUES ('held'), ('alert')) AS n (name)
 ORDER BY w.workspace_id, n.name DESC";
const REPLAY: &str = "SELECT replay_outcomes($1)";

const ADD_TO_HOLD: &str = "
UPDATE control SET held_why = left(held_why || '; ' || $2, 4000) WHERE held AND held_why LIKE $1 || '%' RETURNING one";
const SELECT_NODES: &str = "SELECT run_id, rupor_micros(seen_at), history, server FROM nodes ORDER BY run_id";
/// Only under the very history and server that it names: what stood here before tells who sent when they changed.
const SIGN_ON: &str = "
WITH forgotten AS (
    DELETE FROM nodes WHERE seen_at < rupor_now() - $4::bigint * interval '1 microsecond' AND run_id <> $1
)
INSERT INTO nodes (run_id, seen_at, history, server)
SELECT $1, rupor_now(), $2, $3
  FROM control
 WHERE history = $2 AND $3 = left(pg_walfile_name(pg_current_wal_lsn()), 8)
ON CONFLICT (run_id) DO UPDATE SET seen_at = excluded.seen_at, history = excluded.history, server = excluded.server
RETURNING run_id";
/// Where the server cannot be asked for.
const SIGN_ON_HIDDEN: &str = "
WITH forgotten AS (
    DELETE FROM nodes WHERE seen_at < rupor_now() - $4::bigint * interval '1 microsecond' AND run_id <> $1
)
INSERT INTO nodes (run_id, seen_at, history, server)
SELECT $1, rupor_now(), $2, $3 FROM control WHERE history = $2
ON CONFLICT (run_id) DO UPDATE SET seen_at = excluded.seen_at, history = excluded.history, server = excluded.server
RETURNING run_id";
const SIGN_OFF: &str = "DELETE FROM nodes WHERE run_id = $1 RETURNING run_id";

pub(super) const STATEMENTS: &[&str] = &[
    SELECT_HISTORY,
    SELECT_SERVER,
    LOSE_HISTORY,
    REPLAY,
    ADD_TO_HOLD,
    SELECT_NODES,
    SIGN_ON,
    SIGN_ON_HIDDEN,
    SIGN_OFF,
];

/// The last message of which this process was told that it is stored, and when: whoever does not know it has lost it.
#[derive(Debug, Default)]
pub(super) struct Accepted(Mutex<Option<(Instant, LastAccepted)>>);

#[derive(Debug, Clone)]
struct LastAccepted {
    workspace: WorkspaceId,
    source: String,
    origin_id: String,
    message_id: MessageId,
}

/// What was accepted longer ago may have been cleared away by retention.
const ACCEPTED_COUNTS: Duration = Duration::from_secs(24 * 3_600);

impl Accepted {
    fn last(&self) -> MutexGuard<'_, Option<(Instant, LastAccepted)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Postgres {
    /// A batch was stored; its last message speaks for all before it.
    pub(super) fn accepted(&self, workspace: WorkspaceId, message: &NewMessage, message_id: MessageId) {
        let (source, origin_id) = (message.source.clone(), message.origin_id.clone());
        let last = LastAccepted { workspace, source, origin_id, message_id };
        *self.accepted.last() = Some((Instant::now(), last));
    }

    pub async fn accepted_is_known(&self) -> Result<bool> {
        let last = self.accepted.last().clone();
        let Some((at, last)) = last.filter(|(at, _)| at.elapsed() < ACCEPTED_COUNTS) else {
            return Ok(true);
        };
        let known = self.known_posts(last.workspace, &last.source, vec![last.origin_id]).await?;
        // The same id of another post: it was given again.
        let is_known = known.iter().any(|known| known.message_id == last.message_id);
        if !is_known {
            // Said once, and not of what was accepted since.
            self.accepted.last().take_if(|(since, _)| *since == at);
        }
        Ok(is_known)
    }

    pub async fn history(&self) -> Result<History> {
        let id = self.one(As::Dispatcher, Again::Safe, SELECT_HISTORY, &[]).await?.get(0);
        // A service that hides its log has no timeline to tell; what was acknowledged is compared all the same.
        let server = match self.one(As::Dispatcher, Again::Safe, SELECT_SERVER, &[]).await {
            Ok(row) => row.get(0),
            Err(StoreError::Database(_) | StoreError::ReadOnly { .. }) => String::new(),
            Err(error) => return Err(error),
        };
        Ok(History { id, server })
    }

    pub fn connections(&self) -> u64 {
        self.pool.connections()
    }

    pub async fn lose_history(&self, why: &str) -> Result<()> {
        self.all(As::Dispatcher, Again::Safe, LOSE_HISTORY, &[&HISTORY_LOST, &why]).await?;
        self.ring();
        Ok(())
    }

    pub async fn tell_of_lost_history(&self, what: &str) -> Result<()> {
        self.all(As::Dispatcher, Again::Never, ADD_TO_HOLD, &[&HISTORY_LOST, &what]).await.map(drop)
    }

    pub async fn nodes(&self) -> Result<Vec<NodeRow>> {
        let rows = self.all(As::Dispatcher, Again::Safe, SELECT_NODES, &[]).await?;
        let node = |row: &tokio_postgres::Row| NodeRow {
            run_id: row.get(0),
            seen_at: Timestamp(row.get(1)),
            history: History { id: row.get(2), server: row.get(3) },
        };
        Ok(rows.iter().map(node).collect())
    }

    pub async fn sign_on(&self, run_id: &str, history: &History) -> Result<bool> {
        let sql = if history.server.is_empty() { SIGN_ON_HIDDEN } else { SIGN_ON };
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&run_id, &history.id, &history.server, &NODE_FORGOTTEN_AFTER.0];
        Ok(self.first(As::Dispatcher, Again::Safe, sql, &params).await?.is_some())
    }

    pub async fn sign_off(&self, run_id: &str) -> Result<()> {
        self.all(As::Dispatcher, Again::Safe, SIGN_OFF, &[&run_id]).await.map(drop)
    }

    pub async fn replay(&self, batch: Vec<Remembered>) -> Result<Vec<Replayed>> {
        let items = Json(batch.iter().map(item).collect::<Vec<_>>());
        let rows = self.all(As::Dispatcher, Again::Safe, REPLAY, &[&items]).await?;
        let read = |row: &tokio_postgres::Row| {
            let word: &str = row.get(0);
            let unexpected = || StoreError::Database(format!("unexpected result {word:?} of a replay"));
            Replayed::parse(word).ok_or_else(unexpected)
        };
        rows.iter().map(read).collect()
    }
}

fn item(remembered: &Remembered) -> Value {
    json!({
        "workspace_id": remembered.workspace_id,
        "delivery_id": remembered.delivery_id,
        "idempotency_key": remembered.idempotency_key,
        "provider_message_id": remembered.provider_message_id,
        "parts": remembered.parts,
    })
}
