//! Commit: what an ended send means, written down behind the fence.
//!
//! The fence is the `inflight` row with the very token of the claim. Who does not hold it changes nothing. A
//! success goes the short way, for it moves nothing but its own lane; every other ending is settled one by one.

use std::collections::{BTreeMap, HashSet};

use domain::delivery::Status;
use domain::outcome::{Outcome, Sent};
use domain::settle::{Ending, settle};

use super::heads::Touched;
use super::late::too_late;
use super::settle::{CHANNEL_HEALTHY, GROUP_HEALTHY, held, lease_expired, write};
use super::{Sqlite, Tx, Urgency, rows};
use crate::error::{Result, StoreError};
use crate::queue::{ClaimRef, Finish, FinishKind, Finished, PartProgress};

/// A claim token as it is stored.
pub(super) type Token = [u8; 16];

pub(super) const DELETE_INFLIGHT: &str = "
DELETE FROM inflight WHERE account_id = ?1 AND lane_id = ?2 AND delivery_id = ?3 AND claim_token = ?4";
pub(super) const INSERT_ATTEMPT: &str = "
INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, slot_at,
                      requested_at, finished_at, outcome, error, provider_message_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
const INSERT_SENT: &str = "
INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, slot_at,
                      requested_at, finished_at, outcome, provider_message_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'sent', ?11)";
/// The fence of a success: what `settle` says about one needs nothing but the claim.
pub(super) const SELECT_CLAIM: &str = "
SELECT i.account_id, i.lane_id, i.claim_seq, i.attempt, i.run_id, i.claimed_at, i.slot_at, i.requested_at
  FROM deliveries AS d
 CROSS JOIN inflight AS i ON i.account_id = d.account_id AND i.lane_id = d.lane_id AND i.delivery_id = d.delivery_id
 WHERE d.delivery_id = ?1 AND d.workspace_id = ?2 AND i.claim_token = ?3 AND i.lease_until > ?4";
/// All successes of a batch, ?1 being their ids; what the platforms called them stands in their attempts.
pub(super) const END_SENT: &str = "
UPDATE deliveries
   SET status = 'sent', reason = NULL, claim_token = NULL, lease_until = NULL, sent_at = ?2, ended_at = ?2,
       provider_message_id = coalesce(
           (SELECT a.provider_message_id FROM attempts AS a
             WHERE a.delivery_id = deliveries.delivery_id AND a.attempt = deliveries.attempt),
           provider_message_id)
 WHERE delivery_id IN (SELECT value FROM json_each(?1)) AND status = 'sending'";
const SELECT_HEALTH: &str = "
SELECT coalesce(c.error_streak, 0), g.trouble_streak, c.channel_id, g.group_id
  FROM lane_heads AS h
  JOIN accounts AS a ON a.account_id = h.account_id
  JOIN rate_groups AS g ON g.group_id = a.group_id
  LEFT JOIN channels AS c ON c.channel_id = h.channel_id
 WHERE h.lane_id = ?1";
pub(super) const REQUESTED: &str = "
UPDATE inflight
   SET requested_at = coalesce(requested_at, ?4)
 WHERE (account_id, lane_id, delivery_id)
       = (SELECT d.account_id, d.lane_id, d.delivery_id FROM deliveries AS d WHERE d.delivery_id = ?1 AND d.workspace_id = ?2)
   AND claim_token = ?3 AND lease_until > ?4";
pub(super) const SELECT_PARTS: &str = "
SELECT d.parts
  FROM deliveries AS d
 CROSS JOIN inflight AS i ON i.account_id = d.account_id AND i.lane_id = d.lane_id AND i.delivery_id = d.delivery_id
 WHERE d.delivery_id = ?1 AND d.workspace_id = ?2 AND i.claim_token = ?3 AND i.lease_until > ?4";
const SET_PARTS: &str = "UPDATE deliveries SET parts = ?2 WHERE delivery_id = ?1";
pub(super) const RENEW: &str = "
UPDATE inflight
   SET lease_until = ?5
 WHERE (account_id, lane_id, delivery_id)
       = (SELECT d.account_id, d.lane_id, d.delivery_id FROM deliveries AS d WHERE d.delivery_id = ?1 AND d.workspace_id = ?2)
   AND claim_token = ?3 AND lease_until > ?4";
const RENEW_DELIVERY: &str = "UPDATE deliveries SET lease_until = ?2 WHERE delivery_id = ?1";

/// Parts of one delivery; render never makes as many.
pub(crate) const PARTS_MAX: u32 = 1_000;

impl Sqlite {
    pub async fn commit(&self, batch: Vec<Finish>) -> Result<Vec<Finished>> {
        let finished = self
            .write(Urgency::Outcome, move |tx| {
                let mut settling = Settling::default();
                let finish = |finish| finish_one(tx, &mut settling, finish);
                let finished = batch.iter().map(finish).collect::<Result<_>>()?;
                settling.write(tx)?;
                Ok(finished)
            })
            .await?;
        self.bell.ring();
        Ok(finished)
    }

    pub async fn record_parts(&self, batch: Vec<(ClaimRef, PartProgress)>) -> Result<Vec<bool>> {
        check_parts(&batch)?;
        self.write(Urgency::Outcome, move |tx| {
            batch.iter().map(|(claim, progress)| record_part(tx, claim, progress)).collect()
        })
        .await
    }

    pub async fn renew(&self, batch: Vec<ClaimRef>, lease: domain::time::Span) -> Result<Vec<bool>> {
        if lease.0 <= 0 {
            return Err(StoreError::invalid("renew", "the lease must be positive"));
        }
        self.write(Urgency::Outcome, move |tx| {
            let until = (tx.now + lease).0;
            batch
                .iter()
                .map(|claim| {
                    let token = claim.claim_token.0.into_bytes();
                    let key = (claim.delivery_id.0, claim.workspace_id.0, token, tx.now.0, until);
                    let ours = tx.execute(RENEW, key)? == 1;
                    if ours {
                        tx.execute(RENEW_DELIVERY, (claim.delivery_id.0, until))?;
                    }
                    Ok(ours)
                })
                .collect()
        })
        .await
    }
}

pub(crate) fn check_parts(batch: &[(ClaimRef, PartProgress)]) -> Result<()> {
    for (claim, progress) in batch {
        if let PartProgress::Done { part, .. } = progress
            && *part >= PARTS_MAX
        {
            let problem = format!("delivery {}: part {part}, at most {}", claim.delivery_id, PARTS_MAX - 1);
            return Err(StoreError::invalid("record_part", problem));
        }
    }
    Ok(())
}

fn record_part(tx: &Tx<'_>, claim: &ClaimRef, progress: &PartProgress) -> Result<bool> {
    let key = (claim.delivery_id.0, claim.workspace_id.0, claim.claim_token.0.into_bytes(), tx.now.0);
    match progress {
        PartProgress::Requested => Ok(tx.execute(REQUESTED, key)? == 1),
        PartProgress::Done { part, provider_message_id } => {
            let Some(json) = tx.first(SELECT_PARTS, key, |row| rows::json(row, 0))? else {
                return Ok(false);
            };
            let mut parts = rows::parts(&json);
            parts.insert(*part, provider_message_id.clone());
            tx.execute(SET_PARTS, (claim.delivery_id.0, rows::parts_json(&parts).to_string()))?;
            Ok(true)
        }
    }
}

/// What the endings of one transaction add up to.
#[derive(Default)]
pub(super) struct Settling {
    pub(super) touched: Touched,
    /// Lanes known to have no streak that a success would end.
    pub(super) healthy: HashSet<i64>,
    /// Successes that passed the fence. They are written together and by their ids: a tree is filled at its end then,
    /// and a page is found where the last one was.
    sent: BTreeMap<i64, SentClaim>,
}

/// The claim of a success, as its attempt will tell it.
struct SentClaim {
    workspace_id: i64,
    claim_token: Token,
    claim_seq: i64,
    attempt: i32,
    run_id: String,
    claimed_at: i64,
    slot_at: i64,
    requested_at: Option<i64>,
    provider_message_id: Option<String>,
}

impl Settling {
    pub(super) fn write(mut self, tx: &Tx<'_>) -> Result<()> {
        self.write_sent(tx)?;
        self.touched.refresh(tx)
    }

    fn write_sent(&mut self, tx: &Tx<'_>) -> Result<()> {
        if self.sent.is_empty() {
            return Ok(());
        }
        for (id, c) in &self.sent {
            let key = (id, c.attempt, c.workspace_id, c.claim_token, c.claim_seq, &c.run_id);
            let (times, provider_id) = ((c.claimed_at, c.slot_at, c.requested_at), &c.provider_message_id);
            let now = tx.now.0;
            tx.execute(
                INSERT_SENT,
                (key.0, key.1, key.2, key.3, key.4, key.5, times.0, times.1, times.2, now, provider_id),
            )?;
        }
        let list = rows::id_list(self.sent.keys().copied());
        let n = tx.execute(END_SENT, (list, tx.now.0))?;
        if n != self.sent.len() {
            let missing = self.sent.len() - n;
            return Err(StoreError::Database(format!("{missing} deliveries are in flight but not sending")));
        }
        self.sent.clear();
        Ok(())
    }
}

fn finish_one(tx: &Tx<'_>, settling: &mut Settling, finish: &Finish) -> Result<Finished> {
    let token = finish.claim_token.0.into_bytes();
    if settling.sent.contains_key(&finish.delivery_id.0) {
        // The first ending counts, and the second must find it.
        settling.write_sent(tx)?;
    }
    if let FinishKind::Outcome(Outcome::Sent(sent)) = &finish.ending
        && accept(tx, settling, finish, token, sent)?
    {
        return Ok(Finished::Done(Status::Sent));
    }
    let Some(held) = held(tx, finish.delivery_id.0, finish.workspace_id.0, token)? else {
        return too_late(tx, settling, finish, token);
    };
    if held.lease_until <= tx.now {
        // Nobody noticed yet that the lease is over: it ends now, and what we bring comes too late.
        lease_expired(tx, settling, &held)?;
        return too_late(tx, settling, finish, token);
    }
    let (ending, not_before) = match &finish.ending {
        FinishKind::Outcome(outcome) => (Ending::Outcome(outcome.clone()), None),
        FinishKind::RetryAt(outcome, at) => (Ending::Outcome(outcome.clone()), Some(*at)),
        FinishKind::Release => (Ending::Released, None),
    };
    let mut settlement = settle(&held.standing, &ending, tx.now, finish.chance);
    if let (Some(at), Some(run_at)) = (not_before, &mut settlement.run_at) {
        let asked = match &ending {
            Ending::Outcome(Outcome::Failed(failure)) => failure.wait().map_or(tx.now, |wait| tx.now + wait),
            _ => tx.now,
        };
        *run_at = at.max(asked);
    }
    Ok(Finished::Done(write(tx, settling, &held, &ending, settlement)?))
}

/// The short way of a success: it passes the fence now and is ended with the others. False: not ours any more.
fn accept(tx: &Tx<'_>, settling: &mut Settling, finish: &Finish, token: Token, sent: &Sent) -> Result<bool> {
    let id = finish.delivery_id.0;
    let fence = (id, finish.workspace_id.0, token, tx.now.0);
    let taken = tx.first(SELECT_CLAIM, fence, |row| {
        let claim = SentClaim {
            workspace_id: finish.workspace_id.0,
            claim_token: token,
            claim_seq: row.get(2)?,
            attempt: row.get(3)?,
            run_id: row.get(4)?,
            claimed_at: row.get(5)?,
            slot_at: row.get(6)?,
            requested_at: row.get(7)?,
            provider_message_id: sent.provider_message_id.clone(),
        };
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, claim))
    })?;
    let Some((account_id, lane_id, claim)) = taken else {
        return Ok(false);
    };
    tx.execute(DELETE_INFLIGHT, (account_id, lane_id, id, token))?;
    settling.sent.insert(id, claim);
    let counts = settling.touched.lane(lane_id);
    counts.sending -= 1;
    counts.sent += 1;
    if settling.healthy.insert(lane_id) {
        end_streaks(tx, lane_id)?;
    }
    Ok(true)
}

fn end_streaks(tx: &Tx<'_>, lane_id: i64) -> Result<()> {
    let found = tx.first(SELECT_HEALTH, [lane_id], |row| {
        Ok((
            row.get::<_, i32>(0)?,
            row.get::<_, i32>(1)?,
            row.get::<_, Option<i64>>(2)?,
            row.get::<_, i64>(3)?,
        ))
    })?;
    let Some((error_streak, trouble_streak, channel_id, group_id)) = found else {
        return Ok(());
    };
    if error_streak != 0 {
        tx.execute(CHANNEL_HEALTHY, [channel_id])?;
    }
    if trouble_streak != 0 {
        tx.execute(GROUP_HEALTHY, [group_id])?;
    }
    Ok(())
}
