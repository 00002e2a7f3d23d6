//! Cases put right by a person: two joined, or one split. The rules are in `crate::refile`.

use std::collections::BTreeSet;

use domain::content::cases::{CaseRecord, Sketch, picture_keys, stored_keys};
use domain::ids::{CaseId, MessageId, WorkspaceId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use super::cases::{INSERT_CASE, PUT_KEYS, PUT_PICTURES, SELECT_CASE, SELECT_RECORDS, case};
use super::intake::{LOCK_INTAKE, LOCK_QUEUE, MESSAGES_OF_CASE, Tried, close_case, copies, reword, tell};
use super::trouble::{Reaction, Tries, Trouble};
use super::{Postgres, Tx};
use crate::error::{Result, StoreError};
use crate::intake::{Case, Published, title};
use crate::refile::*;

const SELECT_MEMBERS: &str = "
SELECT message_id, kind, source || '/' || origin_id
  FROM messages
 WHERE workspace_id = $1 AND case_id = $2
 ORDER BY message_id";
const MOVE_MESSAGES: &str = "
UPDATE messages
   SET case_id = $3, facts = facts || jsonb_build_object('case', $4::jsonb)
 WHERE workspace_id = $1 AND message_id = ANY ($2)";
const DELETE_KEYS: &str = "DELETE FROM case_keys WHERE workspace_id = $1 AND key = ANY ($2) AND case_id = $3";
const DELETE_PICTURES: &str =
    "DELETE FROM case_pictures WHERE workspace_id = $1 AND key = ANY ($2) AND case_id = $3";
const WRITE_CASE: &str = "
UPDATE cases
   SET facts = $3, record = $4, n_messages = $5,
       closed_at = CASE WHEN $6 THEN coalesce(closed_at, rupor_now()) END, closed_by = $7,
       title = CASE WHEN title = '' THEN $8 ELSE title END
 WHERE workspace_id = $1 AND case_id = $2";
const JOIN_TIMES: &str = "
UPDATE cases AS c
   SET opened_at = least(c.opened_at, o.opened_at), last_seen_at = greatest(c.last_seen_at, o.last_seen_at)
  FROM cases AS o
 WHERE c.workspace_id = $1 AND c.case_id = $2 AND o.workspace_id = $1 AND o.case_id = $3";
const MOVE_KEYS: &str = "SELECT refile_keys($1, $2, $3, $4)";

pub(super) const STATEMENTS: &[&str] =
    &[SELECT_MEMBERS, MOVE_MESSAGES, DELETE_KEYS, DELETE_PICTURES, WRITE_CASE, JOIN_TIMES, MOVE_KEYS];

impl Postgres {
    pub async fn merge_cases(&self, workspace: WorkspaceId, keep: CaseId, other: CaseId) -> Result<Refiled> {
        self.refile(workspace, move |tx| merge(tx, workspace, keep, other).boxed()).await
    }

    pub async fn split_case(
        &self,
        workspace: WorkspaceId,
        case: CaseId,
        posts: Vec<MovedPost>,
    ) -> Result<Refiled> {
        self.refile(workspace, move |tx| {
            let posts = posts.clone();
            async move { split_off(tx, workspace, case, &posts).await }.boxed()
        })
        .await
    }

    async fn refile(
        &self,
        workspace: WorkspaceId,
        work: impl for<'a> Fn(&'a Tx<'a>) -> BoxFuture<'a, Tried<Refiled>> + Send + Sync,
    ) -> Result<Refiled> {
        let mut tries = Tries::default();
        loop {
            let trouble: Trouble = match self.in_order(workspace, |tx| work(tx)).await {
                Ok(refiled) => {
                    self.ring();
                    return self.noted(Ok(refiled));
                }
                Err(trouble) => trouble,
            };
            if !tries.again(&trouble) || trouble.reaction() != Reaction::TryAgain {
                return self.noted(Err(trouble.into_error(self.pool.address())));
            }
            tries.pause().await;
        }
    }
}

async fn merge(tx: &Tx<'_>, workspace: WorkspaceId, keep: CaseId, other: CaseId) -> Tried<Refiled> {
    tx.all(LOCK_INTAKE, &[&workspace.0]).await?;
    tx.all(LOCK_QUEUE, &[&workspace.0]).await?;
    let (kept, gone) = (find(tx, workspace, keep).await?, find(tx, workspace, other).await?);
    check_join(&kept, &gone)?;
    let moved = members(tx, workspace, other).await?;
    let moved: Vec<&Member> = moved.iter().collect();
    move_messages(tx, workspace, &moved, keep, other).await?;
    let keys = move_keys(tx, workspace, &moved, other, keep).await?;
    let (one, two) = (record(tx, workspace, keep).await?, record(tx, workspace, other).await?);
    for sketch in sketches(two.as_ref()) {
        put_keys(tx, workspace, keep, sketch).await?;
        forget_keys(tx, workspace, other, sketch, &BTreeSet::new()).await?;
    }
    let joined = join(keep, one, two);
    // An end that both sides know is told to the side that did not know it.
    let by = kept.closed_by.or(gone.closed_by).filter(|_| kept.closed_at.or(gone.closed_at).is_some());
    let by = by.filter(|_| joined.as_ref().is_none_or(|record| !goes_on(record)));
    let facts = joined_facts(&kept.facts, &gone.facts);
    let n_messages = kept.n_messages.saturating_add(gone.n_messages);
    let kept = Case { facts, n_messages, closed_at: None, closed_by: None, ..kept };
    write(tx, workspace, &kept, joined.as_ref()).await?;
    tx.all(JOIN_TIMES, &[&workspace.0, &keep.0, &other.0]).await?;
    let closed_at = Some(gone.closed_at.unwrap_or(gone.last_seen_at));
    let gone = Case { facts: pointer(keep), n_messages: 0, closed_at, ..gone };
    write(tx, workspace, &gone, None).await?;
    let edited = match by {
        Some(by) => close_case(tx, workspace, keep, by).await?,
        None => 0,
    };
    let refiled =
        Refiled { case_id: keep, messages: moved.len(), cancelled: keys.cancelled, said: keys.said, edited };
    if let Some(first) = moved.first() {
        tell(tx, workspace, "case_changed", first.message_id, json!({"joined": other, "did": refiled}))
            .await?;
    }
    Ok(refiled)
}

async fn split_off(tx: &Tx<'_>, workspace: WorkspaceId, from: CaseId, posts: &[MovedPost]) -> Tried<Refiled> {
    tx.all(LOCK_INTAKE, &[&workspace.0]).await?;
    tx.all(LOCK_QUEUE, &[&workspace.0]).await?;
    let old = find(tx, workspace, from).await?;
    let all = members(tx, workspace, from).await?;
    let gone = check_split(from, &all, posts)?;
    let left: Vec<&Member> = all.iter().filter(|member| !has(&gone, member.message_id)).collect();
    let known = record(tx, workspace, from).await?;
    let row = tx.one(INSERT_CASE, &[&workspace.0, &gone[0].kind, &""]).await?;
    let new = CaseId(row.get(0));
    move_messages(tx, workspace, &gone, new, from).await?;
    let (stays, goes) = known.map_or((None, None), |record| split(record, new, posts));
    let stays_under: BTreeSet<i64> = sketches(stays.as_ref()).flat_map(all_keys).collect();
    for sketch in sketches(goes.as_ref()) {
        put_keys(tx, workspace, new, sketch).await?;
        forget_keys(tx, workspace, from, sketch, &stays_under).await?;
    }
    let n_gone = i32::try_from(gone.len()).unwrap_or(i32::MAX);
    let ended = |by: Option<MessageId>| (by.map(|_| old.closed_at.unwrap_or(old.last_seen_at)), by);
    let (closed_at, closed_by) =
        ended(old.closed_by.filter(|by| !has(&gone, *by)).or(ending(left.iter().copied())));
    let facts = left_facts(&old.facts, &gone);
    let n_messages = old.n_messages.saturating_sub(n_gone);
    let old = Case { facts, n_messages, closed_at, closed_by, ..old.clone() };
    write(tx, workspace, &old, stays.as_ref()).await?;
    let (closed_at, closed_by) = ended(ending(gone.iter().copied()));
    let case = find(tx, workspace, new).await?;
    let case = Case { facts: facts_of(&gone), n_messages: n_gone, closed_at, closed_by, ..case };
    write(tx, workspace, &case, goes.as_ref()).await?;
    let edited = open_again(tx, workspace, from).await? + open_again(tx, workspace, new).await?;
    let keys = move_keys(tx, workspace, &gone, from, new).await?;
    let refiled =
        Refiled { case_id: new, messages: gone.len(), cancelled: keys.cancelled, said: keys.said, edited };
    let detail = json!({"split_from": from, "did": refiled});
    tell(tx, workspace, "case_changed", gone[0].message_id, detail).await?;
    Ok(refiled)
}

async fn find(tx: &Tx<'_>, workspace: WorkspaceId, id: CaseId) -> Tried<Case> {
    let row = tx.first(SELECT_CASE, &[&workspace.0, &id.0]).await?;
    Ok(case(&row.ok_or_else(|| StoreError::not_found("case", id))?))
}

async fn record(tx: &Tx<'_>, workspace: WorkspaceId, id: CaseId) -> Tried<Option<CaseRecord>> {
    let row = tx.first(SELECT_RECORDS, &[&workspace.0, &vec![id.0]]).await?;
    Ok(row.and_then(|row| serde_json::from_str(row.get::<_, Json<&RawValue>>(1).0.get()).ok()))
}

async fn members(tx: &Tx<'_>, workspace: WorkspaceId, id: CaseId) -> Tried<Vec<Member>> {
    let member =
        |row: &Row| Member { message_id: MessageId(row.get(0)), kind: row.get(1), place: row.get(2) };
    Ok(tx.all(SELECT_MEMBERS, &[&workspace.0, &id.0]).await?.iter().map(member).collect())
}

fn ids(members: &[&Member]) -> Vec<i64> {
    members.iter().map(|member| member.message_id.0).collect()
}

async fn move_messages(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    moved: &[&Member],
    case: CaseId,
    was: CaseId,
) -> Tried<()> {
    let told = by_hand(case, was);
    tx.all(MOVE_MESSAGES, &[&workspace.0, &ids(moved), &case.0, &told]).await.map(drop)
}

async fn move_keys(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    moved: &[&Member],
    from: CaseId,
    into: CaseId,
) -> Tried<MovedKeys> {
    let row = tx.one(MOVE_KEYS, &[&workspace.0, &ids(moved), &from.0, &into.0]).await?;
    let Json::<MovedKeys>(keys) = row.get(0);
    Ok(keys)
}

async fn put_keys(tx: &Tx<'_>, workspace: WorkspaceId, case: CaseId, sketch: &Sketch) -> Tried<()> {
    let mut keys: Vec<i64> = stored_keys(sketch).iter().map(|key| key.value).collect();
    keys.sort_unstable();
    keys.dedup();
    tx.all(PUT_KEYS, &[&workspace.0, &keys, &case.0]).await?;
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

/// Nothing leads from this post to that case any more, but what other posts of it lead by too.
async fn forget_keys(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    case: CaseId,
    sketch: &Sketch,
    others: &BTreeSet<i64>,
) -> Tried<()> {
    let keys: Vec<i64> = all_keys(sketch).into_iter().filter(|key| !others.contains(key)).collect();
    tx.all(DELETE_KEYS, &[&workspace.0, &keys, &case.0]).await?;
    tx.all(DELETE_PICTURES, &[&workspace.0, &keys, &case.0]).await.map(drop)
}

async fn write(tx: &Tx<'_>, workspace: WorkspaceId, case: &Case, record: Option<&CaseRecord>) -> Tried<()> {
    let title = record.and_then(|record| record.members.first()).map_or_else(|| case.title.clone(), title);
    let record = Json(record.map_or_else(|| json!({}), |record| json!(record)));
    let (closed, by) = (case.closed_at.is_some(), case.closed_by.map(|id| id.0));
    let params: [&(dyn ToSql + Sync); 8] =
        [&workspace.0, &case.case_id.0, &case.facts, &record, &case.n_messages, &closed, &by, &title];
    tx.all(WRITE_CASE, &params).await.map(drop)
}

/// Posts that were shown as ended while their story has no end are shown as searches again.
async fn open_again(tx: &Tx<'_>, workspace: WorkspaceId, id: CaseId) -> Tried<usize> {
    if find(tx, workspace, id).await?.closed_at.is_some() {
        return Ok(0);
    }
    let mut n_edited = 0;
    for row in tx.all(MESSAGES_OF_CASE, &[&workspace.0, &id.0]).await? {
        let message_id = MessageId(row.get(0));
        if let Some(opened) = opened_payload(&row.get(2)) {
            let shown: Vec<Published> =
                copies(tx, message_id).await?.into_iter().filter(was_edited).collect();
            n_edited += reword(tx, workspace, message_id, opened, &shown).await?;
        }
    }
    Ok(n_edited)
}
