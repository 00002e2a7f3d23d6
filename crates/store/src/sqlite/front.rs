//! The front of a lane: its waiting rows in their order, and what taking them changes there.
//!
//! It knows neither slots nor parallelism: whoever claims decides how many rows it takes.

use std::collections::{HashSet, VecDeque};

use domain::delivery::{Action, Counters};
use domain::ids::{AccountId, CampaignId, ClaimToken, DeliveryId, LaneId, MessageId, WorkspaceId};
use domain::limits::URGENT_RUN_MAX;
use domain::time::Timestamp;
use rusqlite::Row;
use serde_json::json;

use super::campaigns::count_ending;
use super::claim::{Account, Lane};
use super::heads::{CountChange, NewEvent, event};
use super::{Tx, rows};
use crate::error::{Result, StoreError};
use crate::queue::Claim;

/// All that a claim hands out comes with the row, so that marking it needs to read nothing back.
macro_rules! next_rows {
    ($condition:literal) => {
        concat!(
            "
SELECT r.priority, r.position, r.delivery_id, r.run_at, r.expires_at, r.suspect, d.channel_id, d.recipient_id,
       d.message_id, d.revision, d.action, d.target_delivery, d.status = 'queued', d.claim_seq, d.parts, d.idempotency_key,
       d.campaign_id
  FROM ready AS r CROSS JOIN deliveries AS d ON d.delivery_id = r.delivery_id
 WHERE r.lane_id = ?1",
            $condition,
            "
 ORDER BY r.priority, r.position, r.delivery_id
 LIMIT ?2"
        )
    };
}
/// Asked of what was claimed before; the rest has nothing to count.
const COUNTERS: &str = "
SELECT attempt, charged, flood_waits, not_ready_waits, unknowns, lost_claims, lost_requests, flood_since
  FROM deliveries
 WHERE delivery_id = ?1";
pub(super) const NEXT_ROWS: &str = next_rows!("");
pub(super) const NEXT_BULK_ROWS: &str = next_rows!(" AND r.priority = 1");
pub(super) const DELETE_READY: &str =
    "DELETE FROM ready WHERE lane_id = ?1 AND priority = ?2 AND position = ?3 AND delivery_id = ?4";
/// The rows of a lane that were taken in their order, up to the last of them.
pub(super) const DELETE_FRONT: &str =
    "DELETE FROM ready WHERE lane_id = ?1 AND (priority, position, delivery_id) <= (?2, ?3, ?4)";
const EXPIRE: &str = "
UPDATE deliveries
   SET status = 'dead', reason = 'expired', run_at = NULL, position = NULL, ended_at = ?2
 WHERE delivery_id = ?1";
pub(super) const FORGET_KEY: &str = "DELETE FROM dedup_index WHERE delivery_id = ?1";

/// A waiting row as it is read.
pub(super) struct ReadyRow {
    pub(super) priority: i64,
    pub(super) position: i64,
    pub(super) run_at: Timestamp,
    pub(super) expires_at: Option<i64>,
    pub(super) suspect: bool,
    pub(super) was_queued: bool,
    /// The claim it will be; what only the taking tells is still empty.
    pub(super) claim: Claim,
}

/// The rows of a lane in their order, read in one go as far as there is room; and what taking them changed.
pub(super) struct Rows {
    workspace_id: WorkspaceId,
    account_id: AccountId,
    lane_id: LaneId,
    paid: bool,
    room: usize,
    fetched: VecDeque<ReadyRow>,
    /// What left the queue and still has to be deleted there.
    gone: Vec<(i64, i64, i64)>,
    /// One of those was not the first of its lane.
    jumped: bool,
    pub(super) urgent_run: i32,
    /// No bulk row is due, and none will be in this transaction.
    no_bulk: bool,
    /// Order is kept: nothing passes the first row.
    ordered: bool,
    /// The urgent rows that are left wait; without order the bulk ones do not wait for them.
    bulk_only: bool,
    /// Rows that may not go now and were passed.
    passed: HashSet<i64>,
    pub(super) counts: CountChange,
}

impl Rows {
    pub(super) fn of(account: &Account, lane: &Lane, room: usize) -> Rows {
        Rows {
            workspace_id: WorkspaceId(account.workspace_id),
            account_id: AccountId(account.account_id),
            lane_id: LaneId(lane.lane_id),
            paid: lane.paid,
            room,
            fetched: VecDeque::new(),
            gone: Vec::with_capacity(room),
            jumped: false,
            urgent_run: lane.urgent_run,
            no_bulk: false,
            ordered: lane.max_parallel == 1,
            bulk_only: false,
            passed: HashSet::new(),
            counts: CountChange::default(),
        }
    }

    /// The next row if it is due; rows that are too old end on the way.
    pub(super) fn next(&mut self, tx: &Tx<'_>) -> Result<Option<ReadyRow>> {
        loop {
            let Some(mut row) = self.first(tx)? else {
                return Ok(None);
            };
            if row.run_at > tx.now {
                if self.ordered || self.bulk_only || row.priority != 0 {
                    return Ok(None);
                }
                self.flush(tx)?;
                (self.bulk_only, self.no_bulk) = (true, true);
                self.fetched.clear();
                continue;
            }
            if row.expires_at.is_none_or(|at| at > tx.now.0) {
                if row.claim.claim_seq > 0 {
                    let counters = |row: &Row<'_>| rows::counters(row, 0);
                    let found = tx.first(COUNTERS, [row.claim.delivery_id.0], counters)?;
                    row.claim.counters = found.unwrap_or_default();
                }
                return Ok(Some(row));
            }
            self.expire(tx, &row)?;
        }
    }

    /// The first row by order; after nine urgent ones in a row the first bulk row that is due.
    fn first(&mut self, tx: &Tx<'_>) -> Result<Option<ReadyRow>> {
        if self.urgent_run >= URGENT_RUN_MAX && !self.no_bulk {
            self.flush(tx)?;
            let bulk = tx.first(NEXT_BULK_ROWS, (self.lane_id.0, 1), |row| self.row(row))?;
            let free =
                |row: &ReadyRow| row.run_at <= tx.now && !self.passed.contains(&row.claim.delivery_id.0);
            if let Some(bulk) = bulk.filter(free) {
                self.jumped = true;
                self.fetched.retain(|row| row.claim.delivery_id != bulk.claim.delivery_id);
                return Ok(Some(bulk));
            }
            self.no_bulk = true;
        }
        if self.fetched.is_empty() {
            self.flush(tx)?;
            let sql = if self.bulk_only { NEXT_BULK_ROWS } else { NEXT_ROWS };
            let mut fetched = VecDeque::with_capacity(self.room);
            tx.each(sql, (self.lane_id.0, (self.room + self.passed.len()) as i64), |row| {
                let row = self.row(row)?;
                if !self.passed.contains(&row.claim.delivery_id.0) {
                    fetched.push_back(row);
                }
                Ok(())
            })?;
            self.jumped |= self.bulk_only || !self.passed.is_empty();
            self.fetched = fetched;
        }
        Ok(self.fetched.pop_front())
    }

    /// The row stays where it is, and the next one comes.
    pub(super) fn pass(&mut self, row: &ReadyRow) {
        self.passed.insert(row.claim.delivery_id.0);
        self.jumped = true;
    }

    pub(super) fn taken(&mut self, row: &ReadyRow) {
        self.urgent_run = if row.priority == 0 { self.urgent_run.saturating_add(1) } else { 0 };
        self.counts.sending += 1;
        self.leaves(row);
    }

    fn expire(&mut self, tx: &Tx<'_>, row: &ReadyRow) -> Result<()> {
        self.counts.dead += 1;
        self.leaves(row);
        expire(tx, row)
    }

    fn leaves(&mut self, row: &ReadyRow) {
        *(if row.was_queued { &mut self.counts.queued } else { &mut self.counts.retry }) -= 1;
        self.gone.push((row.priority, row.position, row.claim.delivery_id.0));
    }

    /// Deletes what has left: all at once if it was the front of the lane, which it nearly always is.
    pub(super) fn flush(&mut self, tx: &Tx<'_>) -> Result<()> {
        let Some(&(priority, position, delivery_id)) = self.gone.last() else {
            return Ok(());
        };
        let lane_id = self.lane_id.0;
        let mut n = 0;
        if self.jumped {
            for &(priority, position, delivery_id) in &self.gone {
                n += tx.execute(DELETE_READY, (lane_id, priority, position, delivery_id))?;
            }
        } else {
            n = tx.execute(DELETE_FRONT, (lane_id, priority, position, delivery_id))?;
        }
        if n != self.gone.len() {
            let problem = format!("lane {lane_id}: {} rows were taken and {n} left", self.gone.len());
            return Err(StoreError::Database(problem));
        }
        self.gone.clear();
        self.jumped = self.bulk_only || !self.passed.is_empty();
        Ok(())
    }

    fn row(&self, row: &Row<'_>) -> rusqlite::Result<ReadyRow> {
        Ok(ReadyRow {
            priority: row.get(0)?,
            position: row.get(1)?,
            run_at: Timestamp(row.get(3)?),
            expires_at: row.get(4)?,
            suspect: row.get(5)?,
            was_queued: row.get(12)?,
            claim: Claim {
                delivery_id: DeliveryId(row.get(2)?),
                workspace_id: self.workspace_id,
                lane_id: self.lane_id,
                account_id: self.account_id,
                destination: rows::destination(row, 6)?,
                message_id: MessageId(row.get(8)?),
                revision: row.get(9)?,
                action: rows::word(row, 10, Action::parse)?,
                target_delivery: row.get::<_, Option<i64>>(11)?.map(DeliveryId),
                claim_token: ClaimToken(uuid::Uuid::nil()),
                claim_seq: row.get(13)?,
                counters: Counters::default(),
                due_at: Timestamp(row.get(3)?),
                campaign_id: row.get::<_, Option<i64>>(16)?.map(CampaignId),
                paid: self.paid,
                slot_at: Timestamp::NEVER,
                lease_until: Timestamp::NEVER,
                parts: rows::parts_of(row, 14)?,
                idempotency_key: row.get(15)?,
            },
        })
    }
}

fn expire(tx: &Tx<'_>, row: &ReadyRow) -> Result<()> {
    let claim = &row.claim;
    tx.execute(EXPIRE, (claim.delivery_id.0, tx.now.0))?;
    tx.execute(FORGET_KEY, [claim.delivery_id.0])?;
    if let Some(campaign) = claim.campaign_id {
        count_ending(tx, claim.workspace_id, campaign, "expired", 1)?;
    }
    event(
        tx,
        NewEvent {
            workspace_id: claim.workspace_id.0,
            name: "expired",
            message_id: Some(claim.message_id.0),
            delivery_id: Some(claim.delivery_id.0),
            channel_id: claim.destination.channel().map(|id| id.0),
            recipient_id: claim.destination.recipient().map(|id| id.0),
            detail: json!({"expired_at": row.expires_at}),
            ..NewEvent::default()
        },
    )
}
