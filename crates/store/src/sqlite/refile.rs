//! Cases put right by a person: two joined, or one split. The rules are in `crate::refile`.

use std::collections::BTreeSet;

use domain::content::cases::{CaseRecord, Sketch, picture_keys, stored_keys};
use domain::ids::{CaseId, DeliveryId, MessageId, WorkspaceId};
use serde_json::{Value, json};

use super::cases::{INSERT_CASE, PUT_KEY, PUT_PICTURE, SELECT_CASE, case, record};
use super::front::FORGET_KEY;
use super::heads::Touched;
use super::intake::{MESSAGES_OF_CASE, cancel_all, close_case, copies, note_event, reword};
use super::maintain::{TAKE_KEY_AGAIN, say_after_all};
use super::{Sqlite, Tx, Urgency, rows};
use crate::error::{Result, StoreError};
use crate::intake::{Case, Published, title};
use crate::refile::*;

const SELECT_MEMBERS: &str = "
SELECT message_id, kind, source || '/' || origin_id
  FROM messages
 WHERE workspace_id = ?1 AND case_id = ?2
 ORDER BY message_id";
const MOVE_MESSAGE: &str = "
UPDATE messages SET case_id = ?3, facts = json_set(facts, '$.case', json(?4)) WHERE workspace_id = ?1 AND message_id = ?2";
const DELETE_KEY: &str = "DELETE FROM case_keys WHERE workspace_id = ?1 AND key = ?2 AND case_id = ?3";
const DELETE_PICTURE: &str = "DELETE FROM case_pictures WHERE workspace_id = ?1 AND key = ?2 AND across = ?3 AND down = ?4 AND case_id = ?5";
const WRITE_CASE: &str = "
UPDATE cases
   SET facts = ?3, record = ?4, n_messages = ?5, closed_at = ?6, closed_by = ?7,
       title = CASE WHEN title = '' THEN ?8 ELSE title END
 WHERE workspace_id = ?1 AND case_id = ?2";
const JOIN_TIMES: &str = "
UPDATE cases
   SET opened_at = min(cases.opened_at, o.opened_at), last_seen_at = max(cases.last_seen_at, o.last_seen_at)
  FROM cases AS o
 WHERE cases.workspace_id = ?1 AND cases.case_id = ?2 AND o.workspace_id = ?1 AND o.case_id = ?3";
/// What posts of a case hold in channels that count cases: by the versions that their posts have, for the key begins so.
const HELD_KEYS: &str = "
SELECT k.channel_id, k.version, k.kind, k.delivery_id, d.message_id,
       coalesce(d.status IN ('queued', 'retry') AND d.parts = '[]' AND d.unknowns = 0, 0)
  FROM channels AS c
 CROSS JOIN (SELECT DISTINCT hash_version AS version FROM messages WHERE message_id IN (SELECT value FROM json_each(?3))) AS v
  JOIN dedup_index AS k ON k.workspace_id = c.workspace_id AND k.channel_id = c.channel_id AND k.mode = 'case'
                       AND k.version = v.version AND k.key = ?2
  LEFT JOIN deliveries AS d ON d.delivery_id = k.delivery_id
 WHERE c.workspace_id = ?1
 ORDER BY k.channel_id, k.version, k.kind";
const HELD_KEY: &str = "
SELECT k.delivery_id, coalesce(d.status IN ('queued', 'retry') AND d.parts = '[]' AND d.unknowns = 0, 0)
  FROM dedup_index AS k LEFT JOIN deliveries AS d ON d.delivery_id = k.delivery_id
 WHERE k.workspace_id = ?1 AND k.channel_id = ?2 AND k.mode = 'case' AND k.version = ?3 AND k.key = ?4 AND k.kind = ?5";
const MOVE_KEY: &str = "UPDATE dedup_index SET key = ?2 WHERE delivery_id = ?1";
/// What stands in channels that count cases, or is on its way there; what was sent first.
const SPOKEN: &str = "
SELECT d.delivery_id
  FROM messages AS m
  JOIN deliveries AS d ON d.message_id = m.message_id
  JOIN channels AS c ON c.channel_id = d.channel_id
 WHERE m.workspace_id = ?1 AND m.case_id = ?2 AND d.action = 'send' AND c.dedup = 'case' AND c.removed_at IS NULL
   AND d.status IN ('queued', 'retry', 'claimed', 'sending', 'sent')
 ORDER BY d.sent_at IS NULL, d.delivery_id";
/// The first of a case in each channel that kept silent and that nobody speaks for any more.
const SILENT: &str = "
SELECT min(d.delivery_id), d.channel_id, m.kind
  FROM messages AS m
  JOIN cases AS s ON s.workspace_id = m.workspace_id AND s.case_id = m.case_id
  JOIN deliveries AS d ON d.message_id = m.message_id
  JOIN channels AS c ON c.channel_id = d.channel_id
 WHERE m.workspace_id = ?1 AND m.case_id = ?2 AND m.gone_at IS NULL AND m.skipped IS NULL
   AND (s.closed_at IS NULL OR m.kind NOT IN ('lost', 'found', 'sighting'))
   AND d.status = 'deduped' AND d.action = 'send' AND (d.expires_at IS NULL OR d.expires_at > ?3)
   AND c.dedup = 'case' AND c.removed_at IS NULL AND c.disabled_by IS NOT 'operator'
   AND NOT EXISTS (SELECT 1 FROM deliveries AS n
                    WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = 'send'
                      AND n.generation > d.generation)
   AND NOT EXISTS (SELECT 1 FROM dedup_index AS k
                    WHERE k.workspace_id = m.workspace_id AND k.channel_id = d.channel_id AND k.mode = 'case'
                      AND k.version = m.hash_version AND k.key = CAST(m.case_id AS TEXT) AND k.kind = m.kind)
 GROUP BY d.channel_id, m.kind
 ORDER BY 1";

impl Sqlite {
    pub async fn merge_cases(&self, workspace: WorkspaceId, keep: CaseId, other: CaseId) -> Result<Refiled> {
        let refiled = self.write(Urgency::Enqueue, move |tx| merge(tx, workspace, keep, other)).await?;
        self.bell.ring();
        Ok(refiled)
    }

    pub async fn split_case(
        &self,
        workspace: WorkspaceId,
        case: CaseId,
        posts: Vec<MovedPost>,
    ) -> Result<Refiled> {
        let refiled = self.write(Urgency::Enqueue, move |tx| split_off(tx, workspace, case, &posts)).await?;
        self.bell.ring();
        Ok(refiled)
    }
}

fn merge(tx: &Tx<'_>, workspace: WorkspaceId, keep: CaseId, other: CaseId) -> Result<Refiled> {
    let (kept, gone) = (find(tx, workspace, keep)?, find(tx, workspace, other)?);
    check_join(&kept, &gone)?;
    let moved = members(tx, workspace, other)?;
    for member in &moved {
        move_message(tx, workspace, member.message_id, keep, other)?;
    }
    let keys = move_keys(tx, workspace, &moved.iter().collect::<Vec<_>>(), other, keep)?;
    let (one, two) = (record(tx, workspace, keep)?, record(tx, workspace, other)?);
    let two = two.map(|(record, _)| record);
    for sketch in two.iter().flat_map(|record| &record.members) {
        put_keys(tx, workspace, keep, sketch)?;
        forget_keys(tx, workspace, other, sketch, &BTreeSet::new())?;
    }
    let joined = join(keep, one.map(|(record, _)| record), two);
    // An end that both sides know is told to the side that did not know it.
    let by = kept.closed_by.or(gone.closed_by).filter(|_| kept.closed_at.or(gone.closed_at).is_some());
    let by = by.filter(|_| joined.as_ref().is_none_or(|record| !goes_on(record)));
    let facts = joined_facts(&kept.facts, &gone.facts);
    let n_messages = kept.n_messages.saturating_add(gone.n_messages);
    write(
        tx,
        workspace,
        &Case { facts, n_messages, closed_at: None, closed_by: None, ..kept },
        joined.as_ref(),
    )?;
    tx.execute(JOIN_TIMES, (workspace.0, keep.0, other.0))?;
    let pointer = pointer(keep);
    let closed_at = Some(gone.closed_at.unwrap_or(tx.now));
    write(tx, workspace, &Case { facts: pointer, n_messages: 0, closed_at, ..gone }, None)?;
    let edited = match by {
        Some(by) => close_case(tx, workspace, keep, by)?,
        None => 0,
    };
    let refiled =
        Refiled { case_id: keep, messages: moved.len(), cancelled: keys.cancelled, said: keys.said, edited };
    if let Some(first) = moved.first() {
        note_event(
            tx,
            workspace,
            "case_changed",
            first.message_id,
            json!({"joined": other, "did": refiled}),
        )?;
    }
    Ok(refiled)
}

fn split_off(tx: &Tx<'_>, workspace: WorkspaceId, from: CaseId, posts: &[MovedPost]) -> Result<Refiled> {
    let old = find(tx, workspace, from)?;
    let all = members(tx, workspace, from)?;
    let gone = check_split(from, &all, posts)?;
    let left: Vec<&Member> = all.iter().filter(|member| !has(&gone, member.message_id)).collect();
    let known = record(tx, workspace, from)?.map(|(record, _)| record);
    let new = CaseId(tx.insert(INSERT_CASE, (workspace.0, &gone[0].kind, "", tx.now.0))?);
    for member in &gone {
        move_message(tx, workspace, member.message_id, new, from)?;
    }
    let (stays, goes) = known.map_or((None, None), |record| split(record, new, posts));
    let stays_under: BTreeSet<i64> = sketches(stays.as_ref()).flat_map(all_keys).collect();
    for sketch in sketches(goes.as_ref()) {
        put_keys(tx, workspace, new, sketch)?;
        forget_keys(tx, workspace, from, sketch, &stays_under)?;
    }
    let n_gone = i32::try_from(gone.len()).unwrap_or(i32::MAX);
    let ended = |by: Option<MessageId>| (by.map(|_| old.closed_at.unwrap_or(tx.now)), by);
    let (closed_at, closed_by) =
        ended(old.closed_by.filter(|by| !has(&gone, *by)).or(ending(left.iter().copied())));
    let facts = left_facts(&old.facts, &gone);
    let n_messages = old.n_messages.saturating_sub(n_gone);
    write(tx, workspace, &Case { facts, n_messages, closed_at, closed_by, ..old.clone() }, stays.as_ref())?;
    let (closed_at, closed_by) = ended(ending(gone.iter().copied()));
    let case = find(tx, workspace, new)?;
    let facts = facts_of(&gone);
    write(tx, workspace, &Case { facts, n_messages: n_gone, closed_at, closed_by, ..case }, goes.as_ref())?;
    let edited = open_again(tx, workspace, from)? + open_again(tx, workspace, new)?;
    let keys = move_keys(tx, workspace, &gone, from, new)?;
    let refiled =
        Refiled { case_id: new, messages: gone.len(), cancelled: keys.cancelled, said: keys.said, edited };
    note_event(
        tx,
        workspace,
        "case_changed",
        gone[0].message_id,
        json!({"split_from": from, "did": refiled}),
    )?;
    Ok(refiled)
}

fn find(tx: &Tx<'_>, workspace: WorkspaceId, id: CaseId) -> Result<Case> {
    let found = tx.first(SELECT_CASE, (workspace.0, id.0), case)?;
    found.ok_or_else(|| StoreError::not_found("case", id))
}

fn members(tx: &Tx<'_>, workspace: WorkspaceId, id: CaseId) -> Result<Vec<Member>> {
    tx.all(SELECT_MEMBERS, (workspace.0, id.0), |row| {
        Ok(Member { message_id: MessageId(row.get(0)?), kind: row.get(1)?, place: row.get(2)? })
    })
}

fn move_message(tx: &Tx<'_>, workspace: WorkspaceId, id: MessageId, case: CaseId, was: CaseId) -> Result<()> {
    tx.execute(MOVE_MESSAGE, (workspace.0, id.0, case.0, by_hand(case, was).to_string())).map(drop)
}

fn put_keys(tx: &Tx<'_>, workspace: WorkspaceId, case: CaseId, sketch: &Sketch) -> Result<()> {
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

/// Nothing leads from this post to that case any more, but what other posts of it lead by too.
fn forget_keys(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    case: CaseId,
    sketch: &Sketch,
    others: &BTreeSet<i64>,
) -> Result<()> {
    for key in stored_keys(sketch).into_iter().filter(|key| !others.contains(&key.value)) {
        tx.execute(DELETE_KEY, (workspace.0, key.value, case.0))?;
    }
    for picture in &sketch.pictures {
        let (across, down) = (picture.across.cast_signed(), picture.down.cast_signed());
        for key in picture_keys(*picture).into_iter().filter(|key| !others.contains(&key.value)) {
            tx.execute(DELETE_PICTURE, (workspace.0, key.value, across, down, case.0))?;
        }
    }
    Ok(())
}

fn write(tx: &Tx<'_>, workspace: WorkspaceId, case: &Case, record: Option<&CaseRecord>) -> Result<()> {
    let text = record.map_or_else(|| Ok("{}".to_owned()), serde_json::to_string);
    let text = text.map_err(|error| StoreError::Database(error.to_string()))?;
    let title = record.and_then(|record| record.members.first()).map_or_else(|| case.title.clone(), title);
    tx.execute(
        WRITE_CASE,
        rusqlite::params![
            workspace.0,
            case.case_id.0,
            case.facts.to_string(),
            text,
            case.n_messages,
            case.closed_at.map(|at| at.0),
            case.closed_by.map(|id| id.0),
            title
        ],
    )
    .map(drop)
}

/// Posts that were shown as ended while their story has no end are shown as searches again.
fn open_again(tx: &Tx<'_>, workspace: WorkspaceId, id: CaseId) -> Result<usize> {
    if find(tx, workspace, id)?.closed_at.is_some() {
        return Ok(0);
    }
    let messages = tx.all(MESSAGES_OF_CASE, (workspace.0, id.0), |row| {
        Ok((MessageId(row.get(0)?), rows::json(row, 2)?))
    })?;
    let mut n_edited = 0;
    for (message_id, payload) in messages {
        if let Some(opened) = opened_payload(&payload) {
            let shown: Vec<Published> = copies(tx, message_id)?.into_iter().filter(was_edited).collect();
            n_edited += reword(tx, workspace, message_id, &opened, &shown)?;
        }
    }
    Ok(n_edited)
}

/// What the moved posts hold in channels goes with them.
fn move_keys(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    moved: &[&Member],
    from: CaseId,
    into: CaseId,
) -> Result<MovedKeys> {
    let ids = json!(moved.iter().map(|member| member.message_id.0).collect::<Vec<i64>>()).to_string();
    let whole = members(tx, workspace, from)?.is_empty();
    let held = tx.all(HELD_KEYS, (workspace.0, from.to_string(), ids), |row| {
        let place: (i64, i32, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((place, DeliveryId(row.get(3)?), row.get::<_, Option<i64>>(4)?, row.get::<_, bool>(5)?))
    })?;
    let (mut repeats, mut freed) = (Vec::new(), BTreeSet::new());
    for ((channel, version, kind), delivery, message, waits) in held {
        if !whole && message.is_none_or(|id| !has(moved, MessageId(id))) {
            continue;
        }
        let there = tx.first(HELD_KEY, (workspace.0, channel, version, into.to_string(), &kind), |row| {
            Ok((DeliveryId(row.get(0)?), row.get::<_, bool>(1)?))
        })?;
        match there {
            Some(_) if waits => repeats.push(delivery),
            Some((other, true)) => {
                repeats.push(other);
                tx.execute(FORGET_KEY, [other.0])?;
                tx.execute(MOVE_KEY, (delivery.0, into.to_string()))?;
            }
            // Both were said: the one that the case had is the one that repeats are measured by.
            Some(_) => drop(tx.execute(FORGET_KEY, [delivery.0])?),
            None => drop(tx.execute(MOVE_KEY, (delivery.0, into.to_string()))?),
        }
        freed.insert((channel, kind));
    }
    let cancelled = cancel_all(tx, workspace, &repeats)?;
    if whole {
        return Ok(MovedKeys { cancelled, said: 0 });
    }
    // Joined and split again: each has a key of its own once more.
    for case in [into, from] {
        for delivery in tx.all(SPOKEN, (workspace.0, case.0), |row| row.get::<_, i64>(0))? {
            tx.execute(TAKE_KEY_AGAIN, (delivery, tx.now.0))?;
        }
    }
    let mut silent = silent(tx, workspace, into)?;
    silent.extend(self::silent(tx, workspace, from)?.into_iter().filter(|(_, place)| freed.contains(place)));
    let mut touched = Touched::default();
    for (delivery, _) in &silent {
        let detail: Value = json!({"parent": delivery, "split_from": from});
        say_after_all(tx, &mut touched, workspace, *delivery, detail)?;
    }
    touched.refresh(tx)?;
    Ok(MovedKeys { cancelled, said: silent.len() })
}

type Place = (i64, String);

fn silent(tx: &Tx<'_>, workspace: WorkspaceId, case: CaseId) -> Result<Vec<(DeliveryId, Place)>> {
    tx.all(SILENT, (workspace.0, case.0, tx.now.0), |row| {
        Ok((DeliveryId(row.get(0)?), (row.get(1)?, row.get(2)?)))
    })
}
