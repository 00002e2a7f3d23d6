//! Which case a post belongs to, decided inside the transaction that stores it.
//! The rules are the domain's; here are the shelves they look at, and the record they leave. The caller holds the
//! workspace's intake lock, so nobody else decides meanwhile.

use domain::content::cases::index::{CANDIDATES_PER_KEY, PICTURES_PER_KEY};
use domain::content::cases::{
    CaseKey, Found, Pictured, Sketch, choose, decide, lookup_keys, picture_keys, stored_keys,
};
use domain::content::picture::PictureHash;
use domain::ids::{CaseId, MessageId, WorkspaceId};
use futures_util::future::try_join;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use super::trouble::Trouble;
use super::{Again, As, Postgres, Tx, rows};
use crate::error::{Result, StoreError};
use crate::intake::{Case, CaseMemory, TOO_LATE, comes_too_late, ends_with_reunion, tell_decision, title};
use crate::queue::NewMessage;

const FIND_CASES: &str = "
SELECT k.ord, f.case_id
  FROM unnest($2::bigint[]) WITH ORDINALITY AS k (key, ord)
 CROSS JOIN LATERAL (SELECT c.case_id, c.last_seen_at
                       FROM case_keys AS c
                      WHERE c.workspace_id = $1 AND c.key = k.key
                      ORDER BY c.last_seen_at DESC, c.case_id DESC
                      LIMIT $3) AS f
 ORDER BY k.ord, f.last_seen_at DESC, f.case_id DESC";
const FIND_PICTURES: &str = "
SELECT f.across, f.down, f.case_id
  FROM unnest($2::bigint[]) WITH ORDINALITY AS k (key, ord)
 CROSS JOIN LATERAL (SELECT c.across, c.down, c.case_id, c.last_seen_at
                       FROM case_pictures AS c
                      WHERE c.workspace_id = $1 AND c.key = k.key
                      ORDER BY c.last_seen_at DESC, c.case_id DESC
                      LIMIT $3) AS f
 ORDER BY k.ord, f.last_seen_at DESC, f.case_id DESC";
/// One look per id: with `= ANY` a plan that was made while the table was small reads the whole workspace.
pub(super) const SELECT_RECORDS: &str = "
SELECT c.case_id, c.record, c.facts
  FROM unnest($2::bigint[]) AS w (case_id)
 CROSS JOIN LATERAL (SELECT x.case_id, x.record, x.facts FROM cases AS x
                      WHERE x.workspace_id = $1 AND x.case_id = w.case_id
                     OFFSET 0) AS c";
pub(super) const INSERT_CASE: &str =
    "INSERT INTO cases (workspace_id, kind, title) VALUES ($1, $2, $3) RETURNING case_id";
/// A story that goes on after its end is open again.
const FILE_CASE: &str = "
UPDATE cases
   SET facts = $3, record = $4, last_seen_at = rupor_now(), n_messages = $5,
       title = CASE WHEN title = '' THEN $6 ELSE title END,
       closed_at = CASE WHEN $7 THEN NULL ELSE closed_at END
 WHERE workspace_id = $1 AND case_id = $2";
pub(super) const PUT_KEYS: &str = "
INSERT INTO case_keys (workspace_id, key, case_id, last_seen_at)
SELECT $1, k, $3, rupor_now() FROM unnest($2::bigint[]) AS k
ON CONFLICT (workspace_id, key, case_id) DO UPDATE SET last_seen_at = excluded.last_seen_at";
const TRIM_KEYS: &str = "
DELETE FROM case_keys AS d
 USING unnest($2::bigint[]) AS k (key)
 CROSS JOIN LATERAL (SELECT c.case_id FROM case_keys AS c
                      WHERE c.workspace_id = $1 AND c.key = k.key
                      ORDER BY c.last_seen_at DESC, c.case_id DESC
                     OFFSET $3) AS old
 WHERE d.workspace_id = $1 AND d.key = k.key AND d.case_id = old.case_id";
pub(super) const PUT_PICTURES: &str = "
INSERT INTO case_pictures (workspace_id, key, across, down, case_id, last_seen_at)
SELECT DISTINCT $1::bigint, p.key, p.across, p.down, $5::bigint, rupor_now()
  FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS p (key, across, down)
ON CONFLICT (workspace_id, key, across, down, case_id) DO UPDATE SET last_seen_at = excluded.last_seen_at";
const TRIM_PICTURES: &str = "
DELETE FROM case_pictures AS d
 USING unnest($2::bigint[]) AS k (key)
 CROSS JOIN LATERAL (SELECT c.across, c.down, c.case_id FROM case_pictures AS c
                      WHERE c.workspace_id = $1 AND c.key = k.key
                      ORDER BY c.last_seen_at DESC, c.case_id DESC
                     OFFSET $3) AS old
 WHERE d.workspace_id = $1 AND d.key = k.key AND d.across = old.across AND d.down = old.down AND d.case_id = old.case_id";
pub(super) const SELECT_CASE: &str = "
SELECT case_id, kind, title, facts, opened_at, last_seen_at, closed_at, closed_by, n_messages
  FROM cases
 WHERE workspace_id = $1 AND case_id = $2";
const SELECT_CASES: &str = "
SELECT case_id, kind, title, facts, opened_at, last_seen_at, closed_at, closed_by, n_messages
  FROM cases
 WHERE workspace_id = $1 AND case_id = ANY ($2)
 ORDER BY case_id";
/// By the primary key from its end.
const SELECT_RECENT: &str = "
SELECT case_id, kind, title, facts, opened_at, last_seen_at, closed_at, closed_by, n_messages
  FROM cases
 WHERE workspace_id = $1 AND case_id < $2
 ORDER BY case_id DESC
 LIMIT $3";
/// By the primary key from its end: the latest that were opened.
pub(super) const SELECT_OPEN: &str = "
SELECT k.case_id, k.kind, k.title, k.facts, k.opened_at, k.last_seen_at, k.closed_at, k.closed_by, k.n_messages, k.record
  FROM (SELECT x.* FROM cases AS x WHERE x.workspace_id = $1 ORDER BY x.case_id DESC LIMIT $2) AS k
 WHERE k.closed_at IS NULL
 ORDER BY k.case_id DESC";

pub(super) const STATEMENTS: &[&str] = &[
    FIND_CASES,
    FIND_PICTURES,
    SELECT_RECORDS,
    INSERT_CASE,
    FILE_CASE,
    PUT_KEYS,
    TRIM_KEYS,
    PUT_PICTURES,
    TRIM_PICTURES,
    SELECT_CASE,
    SELECT_CASES,
    SELECT_RECENT,
    SELECT_OPEN,
];

type Tried<T> = std::result::Result<T, Trouble>;

impl Postgres {
    pub async fn cases(&self, workspace: WorkspaceId, ids: Vec<CaseId>) -> Result<Vec<Case>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_CASES, &[&workspace.0, &ids]).await?;
        Ok(rows.iter().map(case).collect())
    }

    pub async fn recent_cases(
        &self,
        workspace: WorkspaceId,
        before: Option<CaseId>,
        limit: usize,
    ) -> Result<Vec<Case>> {
        let before = before.map_or(i64::MAX, |id| id.0);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &before, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_RECENT, &params).await?;
        Ok(rows.iter().map(case).collect())
    }

    pub async fn case(&self, workspace: WorkspaceId, id: CaseId) -> Result<Case> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_CASE, &[&workspace.0, &id.0]).await?;
        Ok(case(&row.ok_or_else(|| StoreError::not_found("case", id))?))
    }
}

pub(super) fn case(row: &Row) -> Case {
    Case {
        case_id: CaseId(row.get(0)),
        kind: row.get(1),
        title: row.get(2),
        facts: row.get(3),
        opened_at: rows::at(row, 4),
        last_seen_at: rows::at(row, 5),
        closed_at: rows::time(row, 6),
        closed_by: row.get::<_, Option<i64>>(7).map(MessageId),
        n_messages: row.get(8),
    }
}

/// Decides, files the post with its case, and tells the message about it. A post about no case stays without one.
pub(super) async fn resolve(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    memory: &mut CaseMemory,
    message: &mut NewMessage,
    sketch: &Sketch,
) -> Tried<()> {
    let found = find(tx, workspace, &lookup_keys(sketch)).await?;
    let known = pictures(tx, workspace, sketch).await?;
    let crowded: Vec<CaseKey> =
        found.iter().filter(|found| found.cases.len() >= CANDIDATES_PER_KEY).map(|found| found.key).collect();
    let chosen = choose(sketch, found, &known);
    read(tx, workspace, memory, &chosen).await?;
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
            let row = tx.one(INSERT_CASE, &[&workspace.0, &message.kind, &title(sketch)]).await?;
            let case = CaseId(row.get(0));
            memory.keep(case, None);
            case
        }
    };
    message.case_id = Some(case);
    tell_decision(message, case, &decision);
    refile(tx, workspace, memory, case, message, sketch).await?;
    memory.filled(sketch, &crowded);
    Ok(())
}

/// Files a post with a case that is settled. The statements go out together and are answered together.
pub(super) async fn refile(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    memory: &mut CaseMemory,
    case: CaseId,
    message: &NewMessage,
    sketch: &Sketch,
) -> Tried<()> {
    read(tx, workspace, memory, &[case]).await?;
    let (record, facts) = memory.file(case, message, sketch);
    let reopened = ends_with_reunion(&message.kind) && record.closed_at.is_some_and(|at| sketch.date > at);
    let n_messages = i32::try_from(record.posts).unwrap_or(i32::MAX);
    let (record, title) = (Json(record), title(sketch));
    let filed: [&(dyn ToSql + Sync); 7] =
        [&workspace.0, &case.0, facts, &record, &n_messages, &title, &reopened];
    let mut keys = values(&stored_keys(sketch));
    keys.sort_unstable();
    keys.dedup();
    let put: [&(dyn ToSql + Sync); 3] = [&workspace.0, &keys, &case.0];
    try_join(tx.all(FILE_CASE, &filed), tx.all(PUT_KEYS, &put)).await?;
    if sketch.pictures.is_empty() {
        return Ok(());
    }
    let (mut keys, mut across, mut down) = (Vec::new(), Vec::new(), Vec::new());
    for picture in &sketch.pictures {
        for key in picture_keys(*picture) {
            keys.push(key.value);
            across.push(picture.across.cast_signed());
            down.push(picture.down.cast_signed());
        }
    }
    tx.all(PUT_PICTURES, &[&workspace.0, &keys, &across, &down, &case.0]).await.map(drop)
}

/// Makes sure that these cases are in memory. One from before records were kept has none to weigh.
async fn read(tx: &Tx<'_>, workspace: WorkspaceId, memory: &mut CaseMemory, cases: &[CaseId]) -> Tried<()> {
    let unread = memory.unread(cases);
    if unread.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = unread.iter().map(|case| case.0).collect();
    let rows = tx.all(SELECT_RECORDS, &[&workspace.0, &ids]).await?;
    for case in unread {
        memory.keep(case, None);
    }
    for row in &rows {
        let record = row.get::<_, Json<&RawValue>>(1).0;
        let record = serde_json::from_str(record.get()).ok().map(|record| (record, row.get(2)));
        memory.keep(CaseId(row.get(0)), record);
    }
    Ok(())
}

async fn find(tx: &Tx<'_>, workspace: WorkspaceId, keys: &[CaseKey]) -> Tried<Vec<Found>> {
    let limit = CANDIDATES_PER_KEY as i64;
    let mut found: Vec<Found> = keys.iter().map(|&key| Found { key, cases: Vec::new() }).collect();
    for row in tx.all(FIND_CASES, &[&workspace.0, &values(keys), &limit]).await? {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
        if let Some(found) = found.get_mut(place) {
            found.cases.push(CaseId(row.get(1)));
        }
    }
    found.retain(|found| !found.cases.is_empty());
    Ok(found)
}

async fn pictures(tx: &Tx<'_>, workspace: WorkspaceId, sketch: &Sketch) -> Tried<Vec<Pictured>> {
    if sketch.pictures.is_empty() {
        return Ok(Vec::new());
    }
    let limit = PICTURES_PER_KEY as i64;
    let rows = tx.all(FIND_PICTURES, &[&workspace.0, &bands(sketch), &limit]).await?;
    let pictured = |row: &Row| {
        let side = |column| row.get::<_, i64>(column).cast_unsigned();
        Pictured { picture: PictureHash { across: side(0), down: side(1) }, case: CaseId(row.get(2)) }
    };
    Ok(rows.iter().map(pictured).collect())
}

/// Throws out what no lookup would read any more, at the end of a call.
pub(super) async fn trim(tx: &Tx<'_>, workspace: WorkspaceId, memory: &CaseMemory) -> Tried<()> {
    if !memory.full.is_empty() {
        let keys: Vec<i64> = memory.full.iter().copied().collect();
        tx.all(TRIM_KEYS, &[&workspace.0, &keys, &(CANDIDATES_PER_KEY as i64)]).await?;
    }
    if !memory.full_pictures.is_empty() {
        let keys: Vec<i64> = memory.full_pictures.iter().copied().collect();
        tx.all(TRIM_PICTURES, &[&workspace.0, &keys, &(PICTURES_PER_KEY as i64)]).await?;
    }
    Ok(())
}

fn bands(sketch: &Sketch) -> Vec<i64> {
    sketch.pictures.iter().flat_map(|picture| picture_keys(*picture)).map(|key| key.value).collect()
}

fn values(keys: &[CaseKey]) -> Vec<i64> {
    keys.iter().map(|key| key.value).collect()
}
