//! Commit: what an ended send means, written down behind the fence.
//!
//! The fence is the `inflight` row with the very token of the claim. Who does not hold it changes nothing. A
//! success goes the short way, for it moves nothing but its own lane; every other ending is settled one by one.

use std::collections::HashSet;

use domain::delivery::Status;
use domain::limits::RECORDED_PARTS_MAX;
use domain::outcome::Outcome;
use domain::settle::{Ending, settle};

use super::heads::Touched;
use super::late::too_late;
use super::sent::Successes;
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
const SELECT_LANE: &str = "SELECT account_id, lane_id FROM deliveries WHERE delivery_id = ?1";
const SELECT_HEALTH: &str = "
SELECT coalesce(c.error_streak, 0), g.trouble_streak, c.channel_id, g.group_id
  FROM lane_heads AS h
  JOIN accounts AS a ON a.account_id = h.account_id
  JOIN rate_groups AS g ON g.group_id = a.group_id
  LEFT JOIN channels AS c ON c.channel_id = h.channel_id
 WHERE h.lane_id = ?1";
const RECIPIENT_HEALTHY: &str = "
UPDATE recipients
   SET error_streak = 0
 WHERE recipient_id = (SELECT recipient_id FROM deliveries WHERE delivery_id = ?1) AND error_streak <> 0";
/// A campaign that was paused since the claim, whose deadline is over or whose person stopped, sends nothing more.
pub(super) const REQUESTED: &str = "
UPDATE inflight
   SET requested_at = coalesce(requested_at, ?6)
 WHERE account_id = ?1 AND lane_id = ?2 AND delivery_id = ?3
   AND claim_token = ?4 AND workspace_id = ?5 AND lease_until > ?6
   AND NOT EXISTS (SELECT 1
                     FROM deliveries AS d
                     JOIN lane_heads AS h ON h.lane_id = d.lane_id
                     JOIN recipients AS r ON r.recipient_id = d.recipient_id
                    WHERE d.delivery_id = ?3 AND d.campaign_id IS NOT NULL
                      AND (h.open = 0 OR d.expires_at <= ?6 OR r.status <> 'active'
                           OR EXISTS (SELECT 1 FROM suppressions AS s
                                       WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform
                                         AND s.user_id = r.user_id AND s.account_id IN (0, r.account_id))))";
/// What was there before this claim is known only until its own request leaves.
pub(super) const ABSENT: &str = "
UPDATE inflight
   SET absent = (absent OR requested_at IS NULL)
 WHERE account_id = ?1 AND lane_id = ?2 AND delivery_id = ?3
   AND claim_token = ?4 AND workspace_id = ?5 AND lease_until > ?6";
pub(super) const SELECT_PARTS: &str = "
SELECT d.parts
  FROM inflight AS i CROSS JOIN deliveries AS d ON d.delivery_id = i.delivery_id
 WHERE i.account_id = ?1 AND i.lane_id = ?2 AND i.delivery_id = ?3
   AND i.claim_token = ?4 AND i.workspace_id = ?5 AND i.lease_until > ?6";
const SET_PARTS: &str = "UPDATE deliveries SET parts = ?2 WHERE delivery_id = ?1";
pub(super) const RENEW: &str = "
UPDATE inflight
   SET lease_until = ?7
 WHERE account_id = ?1 AND lane_id = ?2 AND delivery_id = ?3
   AND claim_token = ?4 AND workspace_id = ?5 AND lease_until > ?6";
const RENEW_DELIVERY: &str = "UPDATE deliveries SET lease_until = ?2 WHERE delivery_id = ?1";

impl Sqlite {
    pub async fn commit(&self, batch: Vec<Finish>) -> Result<Vec<Finished>> {
        let finished = self
            .write(Urgency::Outcome, move |tx| {
                let mut settling = Settling { successes: Successes::of(tx, &batch)?, ..Settling::default() };
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
                    let (account, lane, id, token, workspace, now) = fence(tx, claim);
                    let ours = tx.execute(RENEW, (account, lane, id, token, workspace, now, until))? == 1;
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
            && *part >= RECORDED_PARTS_MAX
        {
            let problem =
                format!("delivery {}: part {part}, at most {}", claim.delivery_id, RECORDED_PARTS_MAX - 1);
            return Err(StoreError::invalid("record_part", problem));
        }
    }
    Ok(())
}

/// What a claim is found by while its lease runs.
fn fence(tx: &Tx<'_>, claim: &ClaimRef) -> (i64, i64, i64, Token, i64, i64) {
    let token = claim.claim_token.0.into_bytes();
    (claim.account_id.0, claim.lane_id.0, claim.delivery_id.0, token, claim.workspace_id.0, tx.now.0)
}

fn record_part(tx: &Tx<'_>, claim: &ClaimRef, progress: &PartProgress) -> Result<bool> {
    match progress {
        PartProgress::Absent => Ok(tx.execute(ABSENT, fence(tx, claim))? == 1),
        PartProgress::Requested => Ok(tx.execute(REQUESTED, fence(tx, claim))? == 1),
        PartProgress::Done { part, provider_message_id } => {
            let Some(json) = tx.first(SELECT_PARTS, fence(tx, claim), |row| rows::json(row, 0))? else {
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
    /// Those of them whose deliveries go to recipients: the streak is then the recipient's own.
    pub(super) of_people: HashSet<i64>,
    /// Successes that passed the fence; they are written together.
    pub(super) successes: Successes,
}

impl Settling {
    pub(super) fn write(mut self, tx: &Tx<'_>) -> Result<()> {
        self.successes.write(tx)?;
        self.touched.refresh(tx)
    }
}

fn finish_one(tx: &Tx<'_>, settling: &mut Settling, finish: &Finish) -> Result<Finished> {
    let token = finish.claim.claim_token.0.into_bytes();
    if let FinishKind::Outcome(Outcome::Sent(sent)) = &finish.ending
        && settling.successes.accept(tx, &finish.claim, sent)
    {
        count_sent(tx, settling, finish.claim.lane_id.0)?;
        if settling.of_people.contains(&finish.claim.lane_id.0) {
            tx.execute(RECIPIENT_HEALTHY, [finish.claim.delivery_id.0])?;
        }
        return Ok(Finished::Done(Status::Sent));
    }
    settling.successes.settle(tx, finish.claim.delivery_id.0)?;
    check_lane(tx, &finish.claim)?;
    let Some(held) = held(tx, finish.claim.delivery_id.0, finish.claim.workspace_id.0, token)? else {
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

/// A claim that is not found where the caller says may be gone, or he is wrong about the place.
fn check_lane(tx: &Tx<'_>, claim: &ClaimRef) -> Result<()> {
    let id = claim.delivery_id.0;
    let place = tx.first(SELECT_LANE, [id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    if place.is_none_or(|place| place == (claim.account_id.0, claim.lane_id.0)) {
        return Ok(());
    }
    Err(StoreError::invalid("commit", format!("delivery {id}: it belongs to another lane")))
}

fn count_sent(tx: &Tx<'_>, settling: &mut Settling, lane_id: i64) -> Result<()> {
    let counts = settling.touched.lane(lane_id);
    counts.sending -= 1;
    counts.sent += 1;
    if settling.healthy.insert(lane_id) && end_streaks(tx, lane_id)? {
        settling.of_people.insert(lane_id);
    }
    Ok(())
}

/// Ends the streaks of the channel and the account; true: the lane has no channel.
fn end_streaks(tx: &Tx<'_>, lane_id: i64) -> Result<bool> {
    let found = tx.first(SELECT_HEALTH, [lane_id], |row| {
        Ok((
            row.get::<_, i32>(0)?,
            row.get::<_, i32>(1)?,
            row.get::<_, Option<i64>>(2)?,
            row.get::<_, i64>(3)?,
        ))
    })?;
    let Some((error_streak, trouble_streak, channel_id, group_id)) = found else {
        return Ok(false);
    };
    if error_streak != 0 {
        tx.execute(CHANNEL_HEALTHY, [channel_id])?;
    }
    if trouble_streak != 0 {
        tx.execute(GROUP_HEALTHY, [group_id])?;
    }
    Ok(channel_id.is_none())
}
