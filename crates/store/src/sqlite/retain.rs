//! What the janitor does: old rows go, in steps that look at so many rows and remove those that nothing needs.
//!
//! A step begins where the last one ended, so what has to stay is passed over once a lap and never stands in the way.
//! Ids grow with age: a lap ends at the first row that is young.

use domain::time::Span;
use rusqlite::Row;

use super::{Sqlite, Tx, Urgency};
use crate::error::Result;
use crate::queue::{BotWalk, Removed, Retention, Walk, Whose};

/// A waiting edit or reply still needs the post that it points at.
const LOOK_DELIVERIES: &str = "
SELECT d.delivery_id,
       d.ended_at IS NOT NULL AND d.ended_at < CASE WHEN d.status = 'deduped' THEN ?3 ELSE ?2 END
       AND NOT EXISTS (SELECT 1 FROM deliveries AS w WHERE w.target_delivery = d.delivery_id AND w.ended_at IS NULL),
       d.queued_at >= max(?2, ?3)
  FROM deliveries AS d
 WHERE (?1 IS NULL OR d.workspace_id = ?1) AND d.delivery_id > ?4
 ORDER BY d.delivery_id
 LIMIT ?5";
/// The delivery was the evidence of its key; what the window is counted from stays.
const KEEP_EVIDENCE: &str = "
UPDATE dedup_index
   SET sent_at = (SELECT d.sent_at FROM deliveries AS d WHERE d.delivery_id = dedup_index.delivery_id)
 WHERE delivery_id IN (SELECT value FROM json_each(?1))";
/// What became of somebody in a campaign is told by their own row from now on.
const KEEP_OUTCOMES: &str = "
UPDATE campaign_recipients
   SET state = 'settled', at = d.ended_at, provider_message_id = d.provider_message_id, unknowns = d.unknowns,
       outcome = CASE WHEN d.status = 'sent' THEN 'sent'
                      WHEN d.reason = 'recipient_gone' THEN 'gone'
                      WHEN d.status = 'failed_permanent' THEN 'failed'
                      WHEN d.reason = 'cancelled' THEN 'cancelled'
                      ELSE 'dead' END,
       code = CASE WHEN d.status = 'sent' THEN NULL
                   WHEN d.status = 'dead' THEN d.reason
                   ELSE coalesce(d.last_error ->> '$.code', d.reason) END
  FROM deliveries AS d
 WHERE d.delivery_id IN (SELECT value FROM json_each(?1)) AND d.campaign_id IS NOT NULL
   AND campaign_recipients.recipient_id = d.recipient_id AND campaign_recipients.campaign_id = d.campaign_id
   AND campaign_recipients.delivery_id = d.delivery_id AND campaign_recipients.state = 'queued'";
const DELETE_ATTEMPTS: &str = "DELETE FROM attempts WHERE delivery_id IN (SELECT value FROM json_each(?1))";
const DELETE_DELIVERIES: &str =
    "DELETE FROM deliveries WHERE delivery_id IN (SELECT value FROM json_each(?1))";
/// By when it was last seen: what its source still shows would be new again, and published again.
const LOOK_MESSAGES: &str = "
SELECT m.message_id,
       m.created_at < ?2 AND coalesce(m.last_seen_at, 0) < ?2
       AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = m.message_id AND d.channel_id IS NOT NULL)
       AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = m.message_id AND d.recipient_id IS NOT NULL)
       AND NOT EXISTS (SELECT 1 FROM campaign_variants AS c WHERE c.message_id = m.message_id),
       m.created_at >= ?2
  FROM messages AS m
 WHERE (?1 IS NULL OR m.workspace_id = ?1) AND m.message_id > ?3
 ORDER BY m.message_id
 LIMIT ?4";
const DELETE_MESSAGES: &str = "DELETE FROM messages WHERE message_id IN (SELECT value FROM json_each(?1))";
/// Nothing inside the longest window of a workspace is ever removed. The walk goes by delivery, which is by age as well.
const LOOK_KEYS: &str = "
SELECT i.delivery_id,
       coalesce(i.at < ?2 - (SELECT max(c.dedup_ttl_us) FROM channels AS c WHERE c.workspace_id = i.workspace_id), 0),
       coalesce(i.at >= ?2 - (SELECT min(c.dedup_ttl_us) FROM channels AS c), 0)
  FROM (SELECT k.delivery_id, k.workspace_id,
               coalesce(k.sent_at, (SELECT d.sent_at FROM deliveries AS d WHERE d.delivery_id = k.delivery_id)) AS at
          FROM dedup_index AS k
         WHERE (?1 IS NULL OR k.workspace_id = ?1) AND k.delivery_id > ?3
         ORDER BY k.delivery_id
         LIMIT ?4) AS i
 ORDER BY i.delivery_id";
const DELETE_KEYS: &str = "DELETE FROM dedup_index WHERE delivery_id IN (SELECT value FROM json_each(?1))";
/// A case outlives its last message and every window in which it could be a key.
const LOOK_CASES: &str = "
SELECT k.case_id,
       k.last_seen_at < ?2 - coalesce((SELECT max(c.dedup_ttl_us) FROM channels AS c WHERE c.workspace_id = k.workspace_id), 0)
       AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.workspace_id = k.workspace_id AND m.case_id = k.case_id),
       k.opened_at >= ?2
  FROM cases AS k
 WHERE (?1 IS NULL OR k.workspace_id = ?1) AND k.case_id > ?3
 ORDER BY k.case_id
 LIMIT ?4";
const DELETE_CASES: &str = "DELETE FROM cases WHERE case_id IN (SELECT value FROM json_each(?1))";
/// Of a dialogue, idle, and nothing in the history points at it. It is opened again when the person comes back.
const LOOK_LANES: &str = "
SELECT h.lane_id,
       h.served_at < ?2 AND h.next_at = 9223372036854775807
       AND NOT EXISTS (SELECT 1 FROM ready AS r WHERE r.lane_id = h.lane_id)
       AND NOT EXISTS (SELECT 1 FROM inflight AS i WHERE i.account_id = h.account_id AND i.lane_id = h.lane_id)
       AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.lane_id = h.lane_id),
       0
  FROM lane_heads AS h
 WHERE (?1 IS NULL OR h.workspace_id = ?1) AND h.lane_id > ?3 AND h.recipient_id IS NOT NULL
 ORDER BY h.lane_id
 LIMIT ?4";
const DELETE_LANES: &str = "DELETE FROM lane_heads WHERE lane_id IN (SELECT value FROM json_each(?1))";
const LOOK_CASE_KEYS: &str = "
SELECT workspace_id, key, case_id, last_seen_at < ?2
  FROM case_keys
 WHERE (?1 IS NULL OR workspace_id = ?1) AND (workspace_id, key, case_id) > (?3, ?4, ?5)
 ORDER BY workspace_id, key, case_id
 LIMIT ?6";
const DELETE_CASE_KEY: &str = "DELETE FROM case_keys WHERE workspace_id = ?1 AND key = ?2 AND case_id = ?3";
const LOOK_CASE_PICTURES: &str = "
SELECT workspace_id, key, across, down, case_id, last_seen_at < ?2
  FROM case_pictures
 WHERE (?1 IS NULL OR workspace_id = ?1) AND (workspace_id, key, across, down, case_id) > (?3, ?4, ?5, ?6, ?7)
 ORDER BY workspace_id, key, across, down, case_id
 LIMIT ?8";
const DELETE_CASE_PICTURE: &str = "
DELETE FROM case_pictures WHERE workspace_id = ?1 AND key = ?2 AND across = ?3 AND down = ?4 AND case_id = ?5";
/// Events and runs are never needed longer than others, so the oldest are always the first.
const DELETE_EVENTS: &str = "
DELETE FROM events
 WHERE event_id IN (SELECT event_id
                      FROM (SELECT event_id, at FROM events WHERE ?1 IS NULL OR workspace_id = ?1 ORDER BY event_id LIMIT ?3)
                     WHERE at < ?2)";
const DELETE_RUNS: &str = "
DELETE FROM ingest_runs
 WHERE run_id IN (SELECT run_id
                    FROM (SELECT run_id, started_at FROM ingest_runs WHERE ?1 IS NULL OR workspace_id = ?1 ORDER BY run_id LIMIT ?3)
                   WHERE started_at < ?2)";
/// Bars as old as the oldest delivery, and never those that the board shows.
const DELETE_COUNTS: &str = "
DELETE FROM lane_counts
 WHERE (lane_id, at) IN (SELECT lane_id, at FROM lane_counts
                          WHERE at < ?2 AND (?1 IS NULL OR workspace_id = ?1) ORDER BY at LIMIT ?3)";
const COUNTS_MIN: Span = Span::from_hours(48);

/// Without the name of the index the planner walks everything that was ever heard.
const LOOK_WORDS: &str = "
SELECT inbox_id, done_at IS NOT NULL AND received_at < ?1, received_at >= ?1
  FROM bot_inbox INDEXED BY bot_inbox_worded
 WHERE body IS NOT NULL AND inbox_id > ?2
 ORDER BY inbox_id
 LIMIT ?3";
const FORGET_WORDS: &str =
    "UPDATE bot_inbox SET body = NULL WHERE inbox_id IN (SELECT value FROM json_each(?1))";
const LOOK_INBOX: &str = "
SELECT inbox_id, done_at IS NOT NULL AND received_at < ?1, received_at >= ?1
  FROM bot_inbox
 WHERE inbox_id > ?2
 ORDER BY inbox_id
 LIMIT ?3";
const DELETE_INBOX: &str = "DELETE FROM bot_inbox WHERE inbox_id IN (SELECT value FROM json_each(?1))";
/// Like events, these are never needed longer than others.
const DELETE_OUTBOX: &str = "
DELETE FROM bot_outbox
 WHERE outbox_id IN (SELECT outbox_id
                       FROM (SELECT outbox_id, created_at FROM bot_outbox ORDER BY outbox_id LIMIT ?2)
                      WHERE created_at < ?1)";
const DELETE_LOGS: &str = "
DELETE FROM bot_logs
 WHERE log_id IN (SELECT log_id FROM (SELECT log_id, at FROM bot_logs ORDER BY log_id LIMIT ?2) WHERE at < ?1)";

/// Whose rows, and how many of them one step looks at.
#[derive(Clone, Copy)]
struct Step {
    workspace: Option<i64>,
    limit: i64,
}

impl Sqlite {
    pub async fn retain(
        &self,
        whose: Whose,
        keep: Retention,
        limit: usize,
        walk: Walk,
    ) -> Result<(Removed, Walk)> {
        let workspace = match whose {
            Whose::Everyone => None,
            Whose::Workspace(id) => Some(id.0),
        };
        let step = Step { workspace, limit: i64::try_from(limit.max(1)).unwrap_or(i64::MAX) };
        self.write(Urgency::Maintenance, move |tx| clear(tx, step, keep, walk)).await
    }

    pub async fn bot_retain(
        &self,
        keep_text: Span,
        keep_keys: Span,
        limit: usize,
        mut walk: BotWalk,
    ) -> Result<(u64, BotWalk)> {
        let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
        self.write(Urgency::Maintenance, move |tx| {
            let (worded, known) = ((tx.now - keep_text).0, (tx.now - keep_keys).0);
            let mut n = 0;
            if let Some(from) = walk.words {
                let rows = tx.all(LOOK_WORDS, (worded, from, limit), looked)?;
                n += tx.execute(FORGET_WORDS, [old_ids(&rows)])? as u64;
                walk.words = next(&rows, limit);
            }
            n += tx.execute(DELETE_OUTBOX, (known, limit))? as u64;
            n += tx.execute(DELETE_LOGS, (known, limit))? as u64;
            if let Some(from) = walk.keys {
                let rows = tx.all(LOOK_INBOX, (known, from, limit), looked)?;
                n += tx.execute(DELETE_INBOX, [old_ids(&rows)])? as u64;
                walk.keys = next(&rows, limit);
            }
            Ok((n, walk))
        })
        .await
    }
}

fn clear(tx: &Tx<'_>, step: Step, keep: Retention, mut walk: Walk) -> Result<(Removed, Walk)> {
    let before = |span: Span| (tx.now - span).0;
    let (old, repeats, now) = (before(keep.deliveries), before(keep.deduped), tx.now.0);
    let (ws, limit) = (step.workspace, step.limit);
    let mut removed = Removed::default();
    if let Some(from) = walk.deliveries {
        let rows = tx.all(LOOK_DELIVERIES, (ws, old, repeats, from, limit), looked)?;
        let ids = old_ids(&rows);
        tx.execute(KEEP_EVIDENCE, [&ids])?;
        tx.execute(KEEP_OUTCOMES, [&ids])?;
        tx.execute(DELETE_ATTEMPTS, [&ids])?;
        removed.deliveries = tx.execute(DELETE_DELIVERIES, [&ids])? as u64;
        walk.deliveries = next(&rows, limit);
    }
    if let Some(from) = walk.messages {
        let rows = tx.all(LOOK_MESSAGES, (ws, old, from, limit), looked)?;
        removed.messages = tx.execute(DELETE_MESSAGES, [old_ids(&rows)])? as u64;
        walk.messages = next(&rows, limit);
    }
    if let Some(from) = walk.keys {
        let rows = tx.all(LOOK_KEYS, (ws, now, from, limit), looked)?;
        removed.dedup = tx.execute(DELETE_KEYS, [old_ids(&rows)])? as u64;
        walk.keys = next(&rows, limit);
    }
    if let Some(from) = walk.cases {
        let rows = tx.all(LOOK_CASES, (ws, old, from, limit), looked)?;
        removed.cases = tx.execute(DELETE_CASES, [old_ids(&rows)])? as u64;
        walk.cases = next(&rows, limit);
    }
    if let Some(from) = walk.lanes {
        let rows = tx.all(LOOK_LANES, (ws, old, from, limit), looked)?;
        removed.lanes = tx.execute(DELETE_LANES, [old_ids(&rows)])? as u64;
        walk.lanes = next(&rows, limit);
    }
    removed.case_keys = case_keys(tx, step, old, &mut walk)? + case_pictures(tx, step, old, &mut walk)?;
    removed.events = tx.execute(DELETE_EVENTS, (ws, before(keep.events), limit))? as u64;
    tx.execute(DELETE_COUNTS, (ws, before(keep.deliveries.max(COUNTS_MIN)), limit))?;
    removed.runs = tx.execute(DELETE_RUNS, (ws, before(keep.events), limit))? as u64;
    Ok((removed, walk))
}

/// An id, whether it can go, and whether it is young.
type Looked = (i64, bool, bool);

fn looked(row: &Row<'_>) -> rusqlite::Result<Looked> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn old_ids(rows: &[Looked]) -> String {
    let old: Vec<i64> = rows.iter().filter(|(_, old, _)| *old).map(|(id, ..)| *id).collect();
    serde_json::json!(old).to_string()
}

fn next(rows: &[Looked], limit: i64) -> Option<i64> {
    let (last, _, young) = rows.last()?;
    (rows.len() as i64 == limit && !young).then_some(*last)
}

fn case_keys(tx: &Tx<'_>, step: Step, old: i64, walk: &mut Walk) -> Result<u64> {
    let Some([ws, key, case]) = walk.case_keys else {
        return Ok(0);
    };
    let rows = tx.all(LOOK_CASE_KEYS, (step.workspace, old, ws, key, case, step.limit), |row| {
        Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get::<_, bool>(3)?))
    })?;
    let mut n = 0;
    for ([ws, key, case], _) in rows.iter().filter(|(_, old)| *old) {
        n += tx.execute(DELETE_CASE_KEY, (ws, key, case))? as u64;
    }
    walk.case_keys = rows.last().filter(|_| rows.len() as i64 == step.limit).map(|(at, _)| *at);
    Ok(n)
}

fn case_pictures(tx: &Tx<'_>, step: Step, old: i64, walk: &mut Walk) -> Result<u64> {
    let Some([ws, key, across, down, case]) = walk.case_pictures else {
        return Ok(0);
    };
    let params = (step.workspace, old, ws, key, across, down, case, step.limit);
    let rows = tx.all(LOOK_CASE_PICTURES, params, |row| {
        let at = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        Ok((at, row.get::<_, bool>(5)?))
    })?;
    let mut n = 0;
    for ([ws, key, across, down, case], _) in rows.iter().filter(|(_, old)| *old) {
        n += tx.execute(DELETE_CASE_PICTURE, (ws, key, across, down, case))? as u64;
    }
    walk.case_pictures = rows.last().filter(|_| rows.len() as i64 == step.limit).map(|(at, _)| *at);
    Ok(n)
}
