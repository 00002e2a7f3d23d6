//! Which case a post belongs to, decided inside the transaction that stores it.
//! The rules are the domain's; here are the shelves they look at, and the record they leave.

use domain::content::cases::index::{CANDIDATES_PER_KEY, PICTURES_PER_KEY};
use domain::content::cases::{
    CaseKey, CaseRecord, Found, Pictured, Sketch, choose, decide, lookup_keys, picture_keys, stored_keys,
};
use domain::content::picture::PictureHash;
use domain::ids::{CaseId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use rusqlite::Row;
use serde_json::{Value, json};

use super::{Sqlite, Tx, rows};
use crate::error::{Result, StoreError};
use crate::intake::{Case, CaseMemory, TOO_LATE, comes_too_late, ends_with_reunion, tell_decision, title};
use crate::queue::NewMessage;

pub(super) const FIND_CASES: &str = "
SELECT case_id
  FROM case_keys
 WHERE workspace_id = ?1 AND key = ?2
 ORDER BY last_seen_at DESC, case_id DESC
 LIMIT ?3";
pub(super) const FIND_PICTURES: &str = "
SELECT across, down, case_id
  FROM case_pictures
 WHERE workspace_id = ?1 AND key = ?2
 ORDER BY last_seen_at DESC, case_id DESC
 LIMIT ?3";
const SELECT_RECORD: &str = "SELECT record, facts FROM cases WHERE workspace_id = ?1 AND case_id = ?2";
pub(super) const INSERT_CASE: &str = "
INSERT INTO cases (workspace_id, kind, title, opened_at, last_seen_at)
VALUES (?1, ?2, ?3, ?4, ?4)";
/// A story that goes on after its end is open again.
const FILE_CASE: &str = "
UPDATE cases
   SET facts = ?2, record = ?3, last_seen_at = ?4, n_messages = ?5,
       title = CASE WHEN title = '' THEN ?6 ELSE title END,
       closed_at = CASE WHEN ?7 THEN NULL ELSE closed_at END
 WHERE case_id = ?1";
pub(super) const PUT_KEY: &str = "
INSERT INTO case_keys (workspace_id, key, case_id, last_seen_at)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET last_seen_at = excluded.last_seen_at";
const TRIM_KEYS: &str = "
DELETE FROM case_keys
 WHERE workspace_id = ?1 AND key = ?2
   AND case_id IN (SELECT case_id FROM case_keys
                    WHERE workspace_id = ?1 AND key = ?2
                    ORDER BY last_seen_at DESC, case_id DESC
                    LIMIT -1 OFFSET ?3)";
pub(super) const PUT_PICTURE: &str = "
INSERT INTO case_pictures (workspace_id, key, across, down, case_id, last_seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET last_seen_at = excluded.last_seen_at";
const TRIM_PICTURES: &str = "
DELETE FROM case_pictures
 WHERE workspace_id = ?1 AND key = ?2
   AND (across, down, case_id) IN (SELECT across, down, case_id FROM case_pictures
                                    WHERE workspace_id = ?1 AND key = ?2
                                    ORDER BY last_seen_at DESC, case_id DESC
                                    LIMIT -1 OFFSET ?3)";
pub(super) const SELECT_CASE: &str = "
SELECT case_id, kind, title, facts, opened_at, last_seen_at, closed_at, closed_by, n_messages
  FROM cases
 WHERE workspace_id = ?1 AND case_id = ?2";
const SELECT_CASES: &str = "
SELECT case_id, kind, title, facts, opened_at, last_seen_at, closed_at, closed_by, n_messages
  FROM cases
 WHERE workspace_id = ?1 AND case_id IN (SELECT value FROM json_each(?2))
 ORDER BY case_id";

/// By the primary key from its end.
const SELECT_RECENT: &str = "
SELECT case_id, kind, title, facts, opened_at, last_seen_at, closed_at, closed_by, n_messages
  FROM cases
 WHERE workspace_id = ?1 AND case_id < ?2
 ORDER BY case_id DESC
 LIMIT ?3";
/// By the primary key from its end: the latest that were opened.
pub(super) const SELECT_OPEN: &str = "
SELECT case_id, kind, title, facts, opened_at, last_seen_at, closed_at, closed_by, n_messages, record
  FROM (SELECT * FROM cases WHERE workspace_id = ?1 ORDER BY case_id DESC LIMIT ?2)
 WHERE closed_at IS NULL
 ORDER BY case_id DESC";

impl Sqlite {
    pub async fn cases(&self, workspace: WorkspaceId, ids: Vec<CaseId>) -> Result<Vec<Case>> {
        let ids = json!(ids.iter().map(|id| id.0).collect::<Vec<i64>>()).to_string();
        self.read(move |tx| tx.all(SELECT_CASES, (workspace.0, ids), case)).await
    }

    pub async fn recent_cases(
        &self,
        workspace: WorkspaceId,
        before: Option<CaseId>,
        limit: usize,
    ) -> Result<Vec<Case>> {
        let before = before.map_or(i64::MAX, |id| id.0);
        self.read(move |tx| tx.all(SELECT_RECENT, (workspace.0, before, limit as i64), case)).await
    }

    pub async fn case(&self, workspace: WorkspaceId, id: CaseId) -> Result<Case> {
        let found = self.read(move |tx| tx.first(SELECT_CASE, (workspace.0, id.0), case)).await?;
        found.ok_or_else(|| StoreError::not_found("case", id))
    }
}

pub(super) fn case(row: &Row<'_>) -> rusqlite::Result<Case> {
    Ok(Case {
        case_id: CaseId(row.get(0)?),
        kind: row.get(1)?,
        title: row.get(2)?,
        facts: rows::json(row, 3)?,
        opened_at: Timestamp(row.get(4)?),
        last_seen_at: Timestamp(row.get(5)?),
        closed_at: rows::time(row, 6)?,
        closed_by: row.get::<_, Option<i64>>(7)?.map(MessageId),
        n_messages: row.get(8)?,
    })
}

/// Decides, files the post with its case, and tells the message about it. A post about no case stays without one.
pub(super) fn resolve(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    memory: &mut CaseMemory,
    message: &mut NewMessage,
    sketch: &Sketch,
) -> Result<()> {
    let found = find(tx, workspace, &lookup_keys(sketch))?;
    let known = pictures(tx, workspace, sketch)?;
    let crowded: Vec<CaseKey> =
        found.iter().filter(|found| found.cases.len() >= CANDIDATES_PER_KEY).map(|found| found.key).collect();
    let chosen = choose(sketch, found, &known);
    read(tx, workspace, memory, &chosen)?;
    let records = memory.records(&chosen);
    let Some(decision) = decide(sketch, &records) else {
        return Ok(());
    };
    let case = match decision.same_as() {
        Some(case) => {
            if records.iter().any(|record| record.id == case && comes_too_late(record, sketch)) {
                message.channels.clear();
                message.skipped = Some(TOO_LATE.into());
            }
            case
        }
        None => {
            let params = (workspace.0, &message.kind, title(sketch), tx.now.0);
            let case = CaseId(tx.insert(INSERT_CASE, params)?);
            memory.keep(case, None);
            case
        }
    };
    message.case_id = Some(case);
    tell_decision(message, case, &decision);
    refile(tx, workspace, memory, case, message, sketch)?;
    memory.filled(sketch, &crowded);
    Ok(())
}

/// Files a post with a case that is settled.
pub(super) fn refile(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    memory: &mut CaseMemory,
    case: CaseId,
    message: &NewMessage,
    sketch: &Sketch,
) -> Result<()> {
    read(tx, workspace, memory, &[case])?;
    let (record, facts) = memory.file(case, message, sketch);
    let reopened = ends_with_reunion(&message.kind) && record.closed_at.is_some_and(|at| sketch.date > at);
    let text = serde_json::to_string(record).map_err(|error| StoreError::Database(error.to_string()))?;
    tx.execute(
        FILE_CASE,
        (case.0, facts.to_string(), text, tx.now.0, record.posts, title(sketch), reopened),
    )?;
    for key in stored_keys(sketch) {
        tx.execute(PUT_KEY, (workspace.0, key.value, case.0, tx.now.0))?;
    }
    for picture in &sketch.pictures {
        let (across, down) = (picture.across.cast_signed(), picture.down.cast_signed());
        for key in picture_keys(*picture) {
            tx.execute(PUT_PICTURE, (workspace.0, key.value, across, down, case.0, tx.now.0))?;
        }
    }
    Ok(())
}

/// Makes sure that these cases are in memory.
fn read(tx: &Tx<'_>, workspace: WorkspaceId, memory: &mut CaseMemory, cases: &[CaseId]) -> Result<()> {
    for case in memory.unread(cases) {
        memory.keep(case, record(tx, workspace, case)?);
    }
    Ok(())
}

/// A case as it is remembered. One from before records were kept has none to weigh.
pub(super) fn record(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    case: CaseId,
) -> Result<Option<(CaseRecord, Value)>> {
    let found = tx.first(SELECT_RECORD, (workspace.0, case.0), |row| {
        Ok((row.get::<_, String>(0)?, rows::json(row, 1)?))
    })?;
    Ok(found.and_then(|(text, facts)| Some((serde_json::from_str(&text).ok()?, facts))))
}

fn find(tx: &Tx<'_>, workspace: WorkspaceId, keys: &[CaseKey]) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for &key in keys {
        let params = (workspace.0, key.value, CANDIDATES_PER_KEY as i64);
        let cases = tx.all(FIND_CASES, params, |row| row.get(0).map(CaseId))?;
        if !cases.is_empty() {
            found.push(Found { key, cases });
        }
    }
    Ok(found)
}

fn pictures(tx: &Tx<'_>, workspace: WorkspaceId, sketch: &Sketch) -> Result<Vec<Pictured>> {
    let mut known = Vec::new();
    for key in sketch.pictures.iter().flat_map(|picture| picture_keys(*picture)) {
        let params = (workspace.0, key.value, PICTURES_PER_KEY as i64);
        known.extend(tx.all(FIND_PICTURES, params, |row| {
            let side = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(Pictured {
                picture: PictureHash { across: side(0)?, down: side(1)? },
                case: CaseId(row.get(2)?),
            })
        })?);
    }
    Ok(known)
}

/// Throws out what no lookup would read any more, at the end of a call.
pub(super) fn trim(tx: &Tx<'_>, workspace: WorkspaceId, memory: &CaseMemory) -> Result<()> {
    for key in &memory.full {
        tx.execute(TRIM_KEYS, (workspace.0, key, CANDIDATES_PER_KEY as i64))?;
    }
    for key in &memory.full_pictures {
        tx.execute(TRIM_PICTURES, (workspace.0, key, PICTURES_PER_KEY as i64))?;
    }
    Ok(())
}
