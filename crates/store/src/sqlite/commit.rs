//! Commit: what an ended send means, written down behind the fence.
//!
//! The fence is the `inflight` row with the very token of the claim. Who does not hold it changes nothing; a
//! success that comes too late is still evidence, and adopted if nothing was sent since.

use std::collections::{BTreeSet, HashSet};

use domain::delivery::{AmbiguityPolicy, Reason, Status};
use domain::ids::{AccountId, ChannelId, WorkspaceId};
use domain::limits::ERROR_TEXT_MAX;
use domain::outcome::{Failure, Outcome, Sent};
use domain::retry::Chance;
use domain::settle::{AccountEffect, ChannelEffect, Ending, Settlement, Standing, settle};
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::accounts::{account_event, pause};
use super::channels::{channel_event, disable};
use super::claim::{DELETE_READY, FORGET_KEY, text as claim_text};
use super::enqueue::INSERT_READY;
use super::heads::{NewEvent, Touched, event};
use super::{Sqlite, Tx, Urgency, rows};
use crate::config::DisabledBy;
use crate::error::{Result, StoreError};
use crate::queue::{ClaimRef, Finish, FinishKind, Finished, PartProgress};

/// Everything the rules need, found by the fence itself.
pub(super) const SELECT_HELD: &str = "
SELECT i.workspace_id, i.account_id, i.lane_id, i.claim_seq, i.attempt, i.run_id, i.claimed_at, i.slot_at, i.lease_until,
       i.requested_at, d.channel_id, d.message_id, d.priority, d.expires_at, d.recipient_id,
       d.attempt, d.charged, d.flood_waits, d.not_ready_waits, d.unknowns, d.lost_claims, d.flood_since,
       coalesce(c.ambiguity, 'resend_once'), coalesce(c.error_streak, 0), h.max_parallel,
       g.group_id, g.flood_channel, g.flood_until, g.trouble_streak, g.cooldown_until, coalesce(c.paused_until, 0),
       c.removed_at IS NOT NULL
  FROM inflight AS i
  JOIN deliveries AS d ON d.delivery_id = i.delivery_id
  JOIN lane_heads AS h ON h.lane_id = i.lane_id
  JOIN accounts AS a ON a.account_id = i.account_id
  JOIN rate_groups AS g ON g.group_id = a.group_id
  LEFT JOIN channels AS c ON c.channel_id = d.channel_id
 WHERE i.delivery_id = ?1 AND i.workspace_id = ?2 AND i.claim_token = ?3";
const DELETE_INFLIGHT: &str = "DELETE FROM inflight WHERE delivery_id = ?1 AND claim_token = ?2";
pub(super) const END_SENDING: &str = "
UPDATE deliveries
   SET status = ?2, reason = ?3, claim_token = NULL, lease_until = NULL, charged = ?4, flood_waits = ?5,
       not_ready_waits = ?6, unknowns = ?7, lost_claims = ?8, flood_since = ?9, run_at = ?10, position = ?11,
       retry_at = coalesce(?12, retry_at), sent_at = ?13, ended_at = ?14,
       provider_message_id = coalesce(?15, provider_message_id), last_error = coalesce(?16, last_error)
 WHERE delivery_id = ?1 AND status = 'sending'";
const INSERT_ATTEMPT: &str = "
INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, slot_at,
                      requested_at, finished_at, outcome, error, provider_message_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
pub(super) const KEY_SENT: &str = "
UPDATE dedup_index
   SET state = 'sent', sent_at = ?2, first_sent_at = coalesce(first_sent_at, ?2), provider_message_id = ?3
 WHERE delivery_id = ?1 AND state = 'in_flight'";
/// The fence of a success: what `settle` says about one needs nothing but the claim.
pub(super) const SELECT_CLAIM: &str = "
SELECT lane_id, claim_seq, attempt, run_id, claimed_at, slot_at, requested_at
  FROM inflight
 WHERE delivery_id = ?1 AND workspace_id = ?2 AND claim_token = ?3 AND lease_until > ?4";
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
const CHANNEL_HEALTHY: &str = "UPDATE channels SET error_streak = 0 WHERE channel_id = ?1";
const CHANNEL_PAUSED: &str = "
UPDATE channels
   SET paused_until = max(paused_until, ?2), paused_why = ?3, error_streak = ?4
 WHERE channel_id = ?1";
const LANE_BLOCKED: &str = "UPDATE lane_heads SET blocked_until = max(blocked_until, ?2) WHERE lane_id = ?1";
const GROUP_HEALTHY: &str = "UPDATE rate_groups SET trouble_streak = 0 WHERE group_id = ?1";
const GROUP_FLOOD: &str = "UPDATE rate_groups SET flood_channel = ?2, flood_until = ?3 WHERE group_id = ?1";
const GROUP_COOLDOWN: &str = "
UPDATE rate_groups
   SET cooldown_until = max(cooldown_until, ?2), trouble_streak = trouble_streak + ?3
 WHERE group_id = ?1";
const SELECT_ATTEMPT: &str =
    "SELECT attempt, outcome FROM attempts WHERE delivery_id = ?1 AND workspace_id = ?2 AND claim_token = ?3";
const SELECT_LATE: &str = "
SELECT status, attempt, lane_id, priority, position, claim_seq, channel_id, message_id, retry_at IS NULL
  FROM deliveries
 WHERE delivery_id = ?1 AND workspace_id = ?2";
/// The adoption goes the ordinary way, under a claim of its own.
const ADOPT_CLAIM: &str = "
UPDATE deliveries
   SET status = 'sending', claim_token = ?2, claim_seq = claim_seq + 1, attempt = attempt + 1, run_at = NULL,
       position = NULL, lease_until = ?3, claimed_at = ?3, sending_at = ?3
 WHERE delivery_id = ?1 AND status = 'retry'";
const ADOPT_SENT: &str = "
UPDATE deliveries
   SET status = 'sent', reason = 'late_success', claim_token = NULL, lease_until = NULL, sent_at = ?2, ended_at = ?2,
       provider_message_id = coalesce(?3, provider_message_id)
 WHERE delivery_id = ?1 AND status = 'sending'";
const REQUESTED: &str = "
UPDATE inflight
   SET requested_at = coalesce(requested_at, ?4)
 WHERE delivery_id = ?1 AND workspace_id = ?2 AND claim_token = ?3 AND lease_until > ?4";
const SELECT_PARTS: &str = "
SELECT d.parts
  FROM inflight AS i JOIN deliveries AS d ON d.delivery_id = i.delivery_id
 WHERE i.delivery_id = ?1 AND i.workspace_id = ?2 AND i.claim_token = ?3 AND i.lease_until > ?4";
const SET_PARTS: &str = "UPDATE deliveries SET parts = ?2 WHERE delivery_id = ?1";
const RENEW: &str = "
UPDATE inflight
   SET lease_until = ?5
 WHERE delivery_id = ?1 AND workspace_id = ?2 AND claim_token = ?3 AND lease_until > ?4";
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
                    let token = claim.claim_token.to_string();
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
    let key = (claim.delivery_id.0, claim.workspace_id.0, claim.claim_token.to_string(), tx.now.0);
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
    touched: Touched,
    /// Lanes known to have no streak that a success would end.
    healthy: HashSet<i64>,
    /// Successes that passed the fence; their deliveries are written together.
    sent: BTreeSet<i64>,
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
        let list = rows::id_list(self.sent.iter().copied());
        let n = tx.execute(END_SENT, (list, tx.now.0))?;
        if n != self.sent.len() {
            let missing = self.sent.len() - n;
            return Err(StoreError::Database(format!("{missing} deliveries are in flight but not sending")));
        }
        self.sent.clear();
        Ok(())
    }
}

/// A claim that is still held, and what stands around it.
pub(super) struct Held {
    delivery_id: i64,
    claim_token: String,
    workspace_id: i64,
    account_id: i64,
    lane_id: i64,
    claim_seq: i64,
    attempt: i32,
    run_id: String,
    claimed_at: i64,
    slot_at: i64,
    lease_until: Timestamp,
    requested_at: Option<i64>,
    channel_id: Option<i64>,
    message_id: i64,
    priority: i64,
    expires_at: Option<i64>,
    ordered: bool,
    group_id: i64,
    /// The channel was removed while the claim was out.
    removed: bool,
    standing: Standing,
}

pub(super) fn held(
    tx: &Tx<'_>,
    delivery_id: i64,
    workspace_id: i64,
    claim_token: &str,
) -> Result<Option<Held>> {
    tx.first(SELECT_HELD, (delivery_id, workspace_id, claim_token), |row| {
        let channel = row.get::<_, Option<i64>>(10)?.map(ChannelId);
        let flood_channel = row.get::<_, Option<i64>>(26)?.map(ChannelId);
        let flood_until = Timestamp(row.get(27)?);
        Ok(Held {
            delivery_id,
            claim_token: claim_token.to_owned(),
            workspace_id: row.get(0)?,
            account_id: row.get(1)?,
            lane_id: row.get(2)?,
            claim_seq: row.get(3)?,
            attempt: row.get(4)?,
            run_id: row.get(5)?,
            claimed_at: row.get(6)?,
            slot_at: row.get(7)?,
            lease_until: Timestamp(row.get(8)?),
            requested_at: row.get(9)?,
            channel_id: row.get(10)?,
            message_id: row.get(11)?,
            priority: row.get(12)?,
            expires_at: row.get(13)?,
            ordered: row.get::<_, i32>(24)? == 1,
            group_id: row.get(25)?,
            removed: row.get(31)?,
            standing: Standing {
                counters: rows::counters(row, 15)?,
                policy: rows::word(row, 22, AmbiguityPolicy::parse)?,
                channel,
                error_streak: row.get(23)?,
                flood: flood_channel.map(|channel| (channel, flood_until)),
                trouble_streak: row.get(28)?,
            },
        })
    })
}

fn finish_one(tx: &Tx<'_>, settling: &mut Settling, finish: &Finish) -> Result<Finished> {
    let mut buffer = uuid::Uuid::encode_buffer();
    let token = claim_text(finish.claim_token, &mut buffer);
    if settling.sent.contains(&finish.delivery_id.0) {
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
fn accept(tx: &Tx<'_>, settling: &mut Settling, finish: &Finish, token: &str, sent: &Sent) -> Result<bool> {
    let id = finish.delivery_id.0;
    let fence = (id, finish.workspace_id.0, token, tx.now.0);
    let taken = tx.first(SELECT_CLAIM, fence, |row| {
        let started = (row.get::<_, i64>(1)?, row.get::<_, i32>(2)?, row.get::<_, String>(3)?);
        let times = (row.get::<_, i64>(4)?, row.get::<_, i64>(5)?, row.get::<_, Option<i64>>(6)?);
        Ok((row.get::<_, i64>(0)?, started, times))
    })?;
    let Some((lane_id, (claim_seq, attempt, run_id), (claimed_at, slot_at, requested_at))) = taken else {
        return Ok(false);
    };
    tx.execute(
        INSERT_ATTEMPT,
        rusqlite::params![
            id,
            attempt,
            finish.workspace_id.0,
            token,
            claim_seq,
            run_id,
            claimed_at,
            slot_at,
            requested_at,
            tx.now.0,
            "sent",
            None::<&str>,
            sent.provider_message_id
        ],
    )?;
    tx.execute(DELETE_INFLIGHT, (id, token))?;
    tx.execute(KEY_SENT, (id, tx.now.0, &sent.provider_message_id))?;
    settling.sent.insert(id);
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

/// Ends a claim whose lease is over. Chance is drawn from the row itself, so that every node would draw the same.
pub(super) fn lease_expired(tx: &Tx<'_>, settling: &mut Settling, held: &Held) -> Result<Status> {
    let ending = Ending::LeaseExpired { requested: held.requested_at.is_some() };
    let settlement = settle(&held.standing, &ending, tx.now, recovery_chance(held.delivery_id, held.attempt));
    write(tx, settling, held, &ending, settlement)
}

pub(crate) fn recovery_chance(delivery_id: i64, attempt: i32) -> Chance {
    let mixed = delivery_id.wrapping_mul(7_919).wrapping_add(i64::from(attempt).wrapping_mul(104_729));
    Chance::new(u32::try_from(mixed.rem_euclid(1_000_000)).unwrap_or(0))
}

fn write(
    tx: &Tx<'_>,
    settling: &mut Settling,
    held: &Held,
    ending: &Ending,
    settlement: Settlement,
) -> Result<Status> {
    let now = tx.now.0;
    let settlement = &if held.removed { without_channel(settlement) } else { settlement };
    // Whatever this ending does to a streak, the next success has to look again.
    settling.healthy.clear();
    let (sent, failure) = match ending {
        Ending::Outcome(Outcome::Sent(sent)) => (Some(sent), None),
        Ending::Outcome(Outcome::Failed(failure)) => (None, Some(failure)),
        Ending::LeaseExpired { .. } | Ending::Released => (None, None),
    };
    let error = failure.map(|failure| error_json(failure).to_string());
    let provider_id = sent.and_then(|sent| sent.provider_message_id.as_deref());
    tx.execute(DELETE_INFLIGHT, (held.delivery_id, &held.claim_token))?;
    end_sending(tx, held, settlement, provider_id, error.as_deref())?;
    tx.execute(
        INSERT_ATTEMPT,
        rusqlite::params![
            held.delivery_id,
            held.attempt,
            held.workspace_id,
            held.claim_token,
            held.claim_seq,
            held.run_id,
            held.claimed_at,
            held.slot_at,
            held.requested_at,
            now,
            attempt_outcome(ending, settlement),
            error,
            provider_id
        ],
    )?;
    match settlement.status {
        Status::Sent => drop(tx.execute(KEY_SENT, (held.delivery_id, now, provider_id))?),
        Status::FailedPermanent | Status::Dead => drop(tx.execute(FORGET_KEY, [held.delivery_id])?),
        _ => {}
    }
    let counts = settling.touched.lane(held.lane_id);
    counts.sending -= 1;
    *counts.status(settlement.status) += 1;
    events(tx, held, ending, settlement, failure)?;
    channel_effect(tx, held, settlement.channel, failure)?;
    account_effect(tx, held, settlement.account, failure)?;
    Ok(settlement.status)
}

/// A removed channel has no queue to go back to: what waited ended with it, and so does what comes back.
fn without_channel(settlement: Settlement) -> Settlement {
    match settlement.status {
        Status::Retry => Settlement {
            status: Status::FailedPermanent,
            reason: Some(Reason::ChannelRemoved),
            run_at: None,
            ..settlement
        },
        _ => settlement,
    }
}

fn end_sending(
    tx: &Tx<'_>,
    held: &Held,
    settlement: &Settlement,
    provider_id: Option<&str>,
    error: Option<&str>,
) -> Result<()> {
    let now = tx.now.0;
    let c = &settlement.counters;
    let position = settlement.run_at.map(|at| if held.ordered { held.delivery_id } else { at.0 });
    let changed = tx.execute(
        END_SENDING,
        rusqlite::params![
            held.delivery_id,
            settlement.status.as_str(),
            settlement.reason.map(|reason| reason.as_str()),
            c.charged,
            c.flood_waits,
            c.not_ready_waits,
            c.unknowns,
            c.lost_claims,
            c.flood_since.map(|at| at.0),
            settlement.run_at.map(|at| at.0),
            position,
            (settlement.status == Status::Retry).then_some(now),
            (settlement.status == Status::Sent).then_some(now),
            settlement.status.is_terminal().then_some(now),
            provider_id,
            error
        ],
    )?;
    if changed != 1 {
        return Err(StoreError::Database(format!(
            "delivery {} is in flight but not sending",
            held.delivery_id
        )));
    }
    if let (Some(run_at), Some(position)) = (settlement.run_at, position) {
        let suspect = c.lost_claims > 0;
        let row = (
            held.lane_id,
            held.priority,
            position,
            held.delivery_id,
            held.workspace_id,
            run_at.0,
            held.expires_at,
            suspect,
        );
        tx.execute(INSERT_READY, row)?;
    }
    Ok(())
}

fn attempt_outcome(ending: &Ending, settlement: &Settlement) -> &'static str {
    match ending {
        Ending::LeaseExpired { .. } => "lease_expired",
        Ending::Released => "released",
        Ending::Outcome(_) => settlement.status.as_str(),
    }
}

/// The error as it is kept: short, and already redacted by the adapter that made it.
fn error_json(failure: &Failure) -> Value {
    let mut short = failure.clone();
    short.message = failure.message.chars().take(ERROR_TEXT_MAX).collect();
    if short.raw.to_string().len() > 4 * ERROR_TEXT_MAX {
        short.raw = Value::Null;
    }
    serde_json::to_value(short).unwrap_or(Value::Null)
}

fn events(
    tx: &Tx<'_>,
    held: &Held,
    ending: &Ending,
    settlement: &Settlement,
    failure: Option<&Failure>,
) -> Result<()> {
    let say = |name: &str| {
        let reason = settlement.reason.map(|reason| reason.as_str());
        let code = failure.map(|failure| failure.code.as_str());
        event(
            tx,
            NewEvent {
                workspace_id: held.workspace_id,
                name,
                message_id: Some(held.message_id),
                delivery_id: Some(held.delivery_id),
                channel_id: held.channel_id,
                account_id: Some(held.account_id),
                detail: json!({"reason": reason, "code": code, "attempt": held.attempt}),
            },
        )
    };
    if matches!(ending, Ending::LeaseExpired { .. }) {
        say("lease_recovered")?;
    }
    if settlement.counters.unknowns > held.standing.counters.unknowns {
        say("outcome_unknown")?;
    }
    match settlement.status {
        Status::Retry if matches!(ending, Ending::Outcome(_)) => say("retry_scheduled"),
        Status::FailedPermanent => say("failed_permanent"),
        Status::Dead if settlement.reason == Some(domain::delivery::Reason::AttemptsExhausted) => {
            say("retry_exhausted")?;
            say("dead_letter")
        }
        Status::Dead => say("dead_letter"),
        _ => Ok(()),
    }
}

fn channel_effect(tx: &Tx<'_>, held: &Held, effect: ChannelEffect, failure: Option<&Failure>) -> Result<()> {
    let Some(channel_id) = held.channel_id else {
        return Ok(());
    };
    let (workspace, id) = (WorkspaceId(held.workspace_id), ChannelId(channel_id));
    let why = failure.map_or("", |failure| failure.code.as_str());
    let streak = held.standing.error_streak;
    match effect {
        ChannelEffect::None => Ok(()),
        ChannelEffect::Healthy if streak == 0 => Ok(()),
        ChannelEffect::Healthy => tx.execute(CHANNEL_HEALTHY, [channel_id]).map(drop),
        ChannelEffect::PauseUntil(until) => pause_lane(tx, held, id, until, why, streak),
        ChannelEffect::Strike { error_streak, paused_until, disable: false } => {
            pause_lane(tx, held, id, paused_until, why, error_streak)
        }
        ChannelEffect::Strike { error_streak, paused_until, disable: true } => {
            pause_lane(tx, held, id, paused_until, why, error_streak)?;
            disable(tx, workspace, id, held.lane_id, DisabledBy::Auto)?;
            let text = format!("channel {id} is disabled after {error_streak} failures in a row");
            channel_event(tx, workspace, id, "alert", json!({"text": text, "code": why}))
        }
    }
}

fn pause_lane(
    tx: &Tx<'_>,
    held: &Held,
    id: ChannelId,
    until: Timestamp,
    why: &str,
    streak: i32,
) -> Result<()> {
    tx.execute(CHANNEL_PAUSED, (id.0, until.0, why, streak))?;
    tx.execute(LANE_BLOCKED, (held.lane_id, until.0))?;
    let detail = json!({"until": until.0, "why": why, "streak": streak});
    channel_event(tx, WorkspaceId(held.workspace_id), id, "channel_paused", detail)
}

fn account_effect(tx: &Tx<'_>, held: &Held, effect: AccountEffect, failure: Option<&Failure>) -> Result<()> {
    let (workspace, id) = (WorkspaceId(held.workspace_id), AccountId(held.account_id));
    let why = failure.map_or("", |failure| failure.code.as_str());
    match effect {
        AccountEffect::None => Ok(()),
        AccountEffect::Healthy if held.standing.trouble_streak == 0 => Ok(()),
        AccountEffect::Healthy => tx.execute(GROUP_HEALTHY, [held.group_id]).map(drop),
        AccountEffect::RememberFlood(channel, until) => {
            tx.execute(GROUP_FLOOD, (held.group_id, channel.0, until.0)).map(drop)
        }
        AccountEffect::CooldownUntil(until) => {
            let trouble = i32::from(!failure.is_some_and(Failure::is_flood));
            tx.execute(GROUP_COOLDOWN, (held.group_id, until.0, trouble))?;
            account_event(tx, workspace, id, "cooldown", json!({"until": until.0, "why": why}))
        }
        AccountEffect::Pause => {
            let message = failure.map_or(String::new(), |failure| failure.message.clone());
            let why: String = format!("{why}: {message}").chars().take(ERROR_TEXT_MAX).collect();
            pause(tx, workspace, id, &why)?;
            let text = format!("account {id} cannot send and is paused");
            account_event(tx, workspace, id, "alert", json!({"text": text, "why": why}))
        }
    }
}

/// The claim is gone. A repeat of what was written changes nothing; a late success may be adopted.
fn too_late(tx: &Tx<'_>, settling: &mut Settling, finish: &Finish, token: &str) -> Result<Finished> {
    let key = (finish.delivery_id.0, finish.workspace_id.0, token);
    let ended = tx.first(SELECT_ATTEMPT, key, |row| Ok((row.get::<_, i32>(0)?, row.get::<_, String>(1)?)))?;
    let Some((attempt, outcome)) = ended else {
        return Ok(Finished::LostClaim);
    };
    let late = tx.first(SELECT_LATE, (finish.delivery_id.0, finish.workspace_id.0), late)?;
    let Some(late) = late else {
        return Ok(Finished::LostClaim);
    };
    if outcome != "lease_expired" {
        return Ok(Finished::Repeated(late.status));
    }
    let (FinishKind::Outcome(Outcome::Sent(sent)) | FinishKind::RetryAt(Outcome::Sent(sent), _)) =
        &finish.ending
    else {
        return Ok(Finished::LostClaim);
    };
    let adopted = late.status == Status::Retry && late.attempt == attempt;
    event(
        tx,
        NewEvent {
            workspace_id: finish.workspace_id.0,
            name: "late_success",
            message_id: Some(late.message_id),
            delivery_id: Some(finish.delivery_id.0),
            channel_id: late.channel_id,
            detail: json!({"adopted": adopted, "provider_message_id": sent.provider_message_id}),
            ..NewEvent::default()
        },
    )?;
    if !adopted {
        return Ok(Finished::LostClaim);
    }
    adopt(tx, settling, finish, &late, sent)?;
    Ok(Finished::Adopted)
}

struct Late {
    status: Status,
    attempt: i32,
    lane_id: i64,
    priority: i64,
    position: Option<i64>,
    claim_seq: i64,
    channel_id: Option<i64>,
    message_id: i64,
}

fn late(row: &rusqlite::Row<'_>) -> rusqlite::Result<Late> {
    Ok(Late {
        status: rows::word(row, 0, Status::parse)?,
        attempt: row.get(1)?,
        lane_id: row.get(2)?,
        priority: row.get(3)?,
        position: row.get(4)?,
        claim_seq: row.get(5)?,
        channel_id: row.get(6)?,
        message_id: row.get(7)?,
    })
}

fn adopt(tx: &Tx<'_>, settling: &mut Settling, finish: &Finish, late: &Late, sent: &Sent) -> Result<()> {
    let (id, now) = (finish.delivery_id.0, tx.now.0);
    // The adoption's own token: nobody else can hold it.
    let token = uuid::Uuid::from_u128(
        u128::from(id.unsigned_abs()) << 64 | u128::from(late.claim_seq.unsigned_abs() + 1),
    );
    tx.execute(DELETE_READY, (late.lane_id, late.priority, late.position, id))?;
    tx.execute(ADOPT_CLAIM, (id, token.to_string(), now))?;
    tx.execute(ADOPT_SENT, (id, now, &sent.provider_message_id))?;
    tx.execute(
        INSERT_ATTEMPT,
        rusqlite::params![
            id,
            late.attempt + 1,
            finish.workspace_id.0,
            token.to_string(),
            late.claim_seq + 1,
            "adopted",
            now,
            None::<i64>,
            None::<i64>,
            now,
            "late_success",
            None::<String>,
            sent.provider_message_id
        ],
    )?;
    tx.execute(KEY_SENT, (id, now, &sent.provider_message_id))?;
    let counts = settling.touched.lane(late.lane_id);
    counts.retry -= 1;
    counts.sent += 1;
    Ok(())
}
