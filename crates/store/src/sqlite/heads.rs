//! The heads of lanes and accounts: the pointers that make a claim find work without searching.
//!
//! Whoever changes what a lane holds, or what holds it back, calls `refresh` at the end of the transaction.

use std::collections::{BTreeMap, BTreeSet};

use domain::time::Timestamp;
use serde_json::Value;

use super::Tx;
use crate::config::Actor;
use crate::error::Result;

/// When the lane's first row may go, by everything that can hold it back; and with it what a transaction moved in it.
/// A claim that served the lane says so with its next slot, its run and the time; otherwise those are NULL.
/// Order is kept by the first row; without order, an urgent one that waits does not hide a bulk one that is due.
pub(super) const MOVE_LANE: &str = "
UPDATE lane_heads AS h
   SET next_at = CASE
         WHEN h.open = 1
          AND (SELECT count(*) FROM inflight AS i
                WHERE i.account_id = h.account_id AND i.lane_id = h.lane_id) < h.max_parallel
         THEN coalesce(
           max(CASE WHEN first.urgent IS NULL OR (h.max_parallel > 1 AND first.bulk < first.urgent AND first.urgent > ?12)
                    THEN first.bulk ELSE first.urgent END,
               h.blocked_until, h.closed_until, h.put_off_until, coalesce(?9, h.next_slot), coalesce(?11, h.served_at)),
           9223372036854775807)
         ELSE 9223372036854775807 END,
       head_priority = CASE
         WHEN first.bulk IS NOT NULL
          AND (first.urgent IS NULL OR (h.max_parallel > 1 AND first.bulk < first.urgent AND first.urgent > ?12))
         THEN 1 ELSE 0 END,
       n_queued = n_queued + ?2, n_retry = n_retry + ?3, n_sending = n_sending + ?4, n_sent = n_sent + ?5,
       n_deduped = n_deduped + ?6, n_failed = n_failed + ?7, n_dead = n_dead + ?8,
       next_slot = coalesce(?9, next_slot), urgent_run = coalesce(?10, urgent_run), served_at = coalesce(?11, served_at)
  FROM (SELECT (SELECT r.run_at FROM ready AS r WHERE r.lane_id = ?1 AND r.priority = 0
                 ORDER BY r.position, r.delivery_id LIMIT 1) AS urgent,
               (SELECT r.run_at FROM ready AS r WHERE r.lane_id = ?1 AND r.priority = 1
                 ORDER BY r.position, r.delivery_id LIMIT 1) AS bulk) AS first
 WHERE h.lane_id = ?1";
/// Successes in a lane whose head points somewhere: it was not full, so one claim less does not move its head.
pub(super) const COUNT_SENT: &str = "
UPDATE lane_heads
   SET n_sending = n_sending - ?2, n_sent = n_sent + ?2
 WHERE lane_id = ?1 AND next_at < 9223372036854775807";
/// The lane's account if its head points nowhere: it may have been full until now.
pub(super) const IDLE_ACCOUNT_OF_LANE: &str = "
SELECT a.account_id
  FROM lane_heads AS h JOIN account_heads AS a ON a.account_id = h.account_id
 WHERE h.lane_id = ?1 AND a.next_at = 9223372036854775807";
/// By the hour, for channels only: campaigns note how far they are by themselves.
pub(super) const COUNT_ENDED: &str = "
INSERT INTO lane_counts (lane_id, at, workspace_id, n_sent, n_deduped, n_failed, sent_at)
SELECT h.lane_id, ?2 - ?2 % 3600000000, h.workspace_id, ?3, ?4, ?5,
       CASE WHEN ?3 > 0 THEN ?2 END
  FROM lane_heads AS h
 WHERE h.lane_id = ?1 AND h.channel_id IS NOT NULL
ON CONFLICT DO UPDATE
   SET n_sent = n_sent + excluded.n_sent, n_deduped = n_deduped + excluded.n_deduped, n_failed = n_failed + excluded.n_failed,
       sent_at = coalesce(excluded.sent_at, sent_at)";
const ACCOUNT_OF_LANE: &str = "SELECT account_id FROM lane_heads WHERE lane_id = ?1";

/// When the account may next be served: its earliest lane, its budget, its parallelism. Never is the largest of all
/// times, so an account whose lanes have nothing stays there whatever else is said.
pub(super) const REFRESH_ACCOUNT: &str = "
UPDATE account_heads AS h
   SET next_at = CASE
         WHEN h.open = 0
           OR (SELECT count(*) FROM inflight AS i WHERE i.account_id = h.account_id) >= h.max_parallel
         THEN 9223372036854775807
         ELSE max(
           min(coalesce((SELECT min(l.next_at) FROM lane_heads AS l WHERE l.account_id = h.account_id AND l.head_priority = 0),
                        9223372036854775807),
               coalesce((SELECT min(l.next_at) FROM lane_heads AS l WHERE l.account_id = h.account_id AND l.head_priority = 1),
                        9223372036854775807)),
           h.served_at,
           (SELECT max(g.cooldown_until, g.next_slot - (g.burst - 1) * g.interval_us)
              FROM rate_groups AS g WHERE g.group_id = h.group_id))
         END
 WHERE h.account_id = ?1";

/// What a transaction touched, and so has to refresh: lanes with what moved in them, and accounts.
#[derive(Debug, Default)]
pub(super) struct Touched {
    lanes: BTreeMap<i64, CountChange>,
    accounts: BTreeSet<i64>,
}

impl Touched {
    pub(super) fn lane(&mut self, lane_id: i64) -> &mut CountChange {
        self.lanes.entry(lane_id).or_default()
    }

    pub(super) fn account(&mut self, account_id: i64) {
        self.accounts.insert(account_id);
    }

    pub(super) fn refresh(mut self, tx: &Tx<'_>) -> Result<()> {
        for (lane_id, change) in self.lanes {
            if change.only_sent() && tx.execute(COUNT_SENT, (lane_id, change.sent))? == 1 {
                self.accounts.extend(tx.first(IDLE_ACCOUNT_OF_LANE, [lane_id], |row| row.get::<_, i64>(0))?);
                count_ended(tx, lane_id, change)?;
                continue;
            }
            self.accounts.extend(tx.first(ACCOUNT_OF_LANE, [lane_id], |row| row.get::<_, i64>(0))?);
            move_lane(tx, lane_id, change, None)?;
        }
        for account_id in &self.accounts {
            tx.execute(REFRESH_ACCOUNT, [account_id])?;
        }
        Ok(())
    }
}

/// How a claim leaves a lane that it served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub next_slot: Timestamp,
    pub urgent_run: i32,
}

/// Writes what moved in the lane and points its head anew.
pub(super) fn move_lane(tx: &Tx<'_>, lane_id: i64, c: CountChange, served: Option<Served>) -> Result<()> {
    let served_at = served.map(|_| tx.now.0);
    let (next_slot, urgent_run) = (served.map(|s| s.next_slot.0), served.map(|s| s.urgent_run));
    let counts = (c.queued, c.retry, c.sending, c.sent, c.deduped, c.failed, c.dead);
    let (queued, retry, sending, sent, deduped, failed, dead) = counts;
    tx.execute(
        MOVE_LANE,
        (
            lane_id, queued, retry, sending, sent, deduped, failed, dead, next_slot, urgent_run, served_at,
            tx.now.0,
        ),
    )?;
    count_ended(tx, lane_id, c)
}

/// The same transaction that moves the counters of a lane moves its hour.
fn count_ended(tx: &Tx<'_>, lane_id: i64, c: CountChange) -> Result<()> {
    let failed = c.failed + c.dead;
    if c.sent == 0 && c.deduped == 0 && failed == 0 {
        return Ok(());
    }
    tx.execute(COUNT_ENDED, (lane_id, tx.now.0, c.sent, c.deduped, failed)).map(drop)
}

/// The maintained counters of a lane, as differences.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct CountChange {
    pub queued: i64,
    pub retry: i64,
    pub sending: i64,
    pub sent: i64,
    pub deduped: i64,
    pub failed: i64,
    pub dead: i64,
}

impl CountChange {
    /// Nothing happened but claims that ended as sent.
    fn only_sent(&self) -> bool {
        let all =
            self.queued == 0 && self.retry == 0 && self.deduped == 0 && self.failed == 0 && self.dead == 0;
        all && self.sent > 0 && self.sending == -self.sent
    }

    pub(super) fn status(&mut self, status: domain::delivery::Status) -> &mut i64 {
        use domain::delivery::Status;
        match status {
            Status::Queued => &mut self.queued,
            Status::Retry => &mut self.retry,
            Status::Claimed | Status::Sending => &mut self.sending,
            Status::Sent => &mut self.sent,
            Status::Deduped => &mut self.deduped,
            Status::FailedPermanent => &mut self.failed,
            Status::Dead => &mut self.dead,
        }
    }
}

/// An audit row, in the same transaction as what it describes.
#[derive(Debug, Default)]
pub(super) struct NewEvent<'a> {
    pub workspace_id: i64,
    pub name: &'a str,
    pub message_id: Option<i64>,
    pub delivery_id: Option<i64>,
    pub channel_id: Option<i64>,
    pub recipient_id: Option<i64>,
    pub account_id: Option<i64>,
    pub detail: Value,
}

const INSERT_EVENT: &str = "
INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, account_id, detail, recipient_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

pub(super) fn event(tx: &Tx<'_>, event: NewEvent<'_>) -> Result<()> {
    let detail = Actor::sign(tx.actor, event.detail);
    let detail = if detail.is_null() { "{}".to_owned() } else { detail.to_string() };
    let ids = (event.message_id, event.delivery_id, event.channel_id, event.account_id);
    let who = event.recipient_id;
    tx.execute(
        INSERT_EVENT,
        (event.workspace_id, tx.now.0, event.name, ids.0, ids.1, ids.2, ids.3, detail, who),
    )?;
    Ok(())
}
