//! What one ended claim means, written down: the delivery, its attempt, its key, its events, and what it says about
//! its lane, its destination and its account. The rules come from `domain::settle`; the caller has passed the fence.

use domain::delivery::{AmbiguityPolicy, Reason, Status};
use domain::destination::Destination;
use domain::ids::{AccountId, ChannelId, DeliveryId, RecipientId, WorkspaceId};
use domain::limits::{ERROR_RAW_BYTES_MAX, ERROR_TEXT_MAX};
use domain::outcome::{Failure, Outcome};
use domain::retry::Chance;
use domain::settle::{AccountEffect, DestinationEffect, Ending, LaneEffect, Settlement, Standing, settle};
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::accounts::{account_event, pause};
use super::campaigns::count_sending;
use super::channels::{channel_event, disable};
use super::commit::{DELETE_INFLIGHT, INSERT_ATTEMPT, Settling, Token};
use super::enqueue::INSERT_READY;
use super::front::FORGET_KEY;
use super::heads::{NewEvent, event};
use super::maintain::{say_instead, silent_copy};
use super::watch::note_outcomes;
use super::{Tx, rows};
use crate::config::DisabledBy;
use crate::error::{Result, StoreError};

/// Everything the rules need, found by the fence itself.
pub(super) const SELECT_HELD: &str = "
SELECT i.workspace_id, i.account_id, i.lane_id, i.claim_seq, i.attempt, i.run_id, i.claimed_at, i.slot_at, i.lease_until,
       i.requested_at, d.message_id, d.priority, d.expires_at, d.channel_id, d.recipient_id,
       d.attempt, d.charged, d.flood_waits, d.not_ready_waits, d.unknowns, d.lost_claims, d.lost_requests, d.flood_since,
       h.ambiguity, coalesce(c.error_streak, r.error_streak, 0), h.max_parallel,
       g.group_id, g.flood_channel, g.flood_recipient, g.flood_until, g.trouble_streak, c.removed_at IS NOT NULL,
       d.channel_id IS NOT NULL AND d.action = 'send' AND d.parts = '[]'
       AND (SELECT m.gone_at FROM messages AS m WHERE m.message_id = d.message_id) IS NOT NULL,
       CASE WHEN d.campaign_id IS NULL THEN NULL
            WHEN (SELECT k.status FROM campaigns AS k WHERE k.campaign_id = d.campaign_id)
                 IN ('cancelling', 'cancelled', 'aborted') THEN 'cancelled'
            WHEN r.status <> 'active' THEN 'stopped'
            WHEN EXISTS (SELECT 1 FROM suppressions AS s
                          WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
                            AND s.account_id IN (0, r.account_id)) THEN 'stopped' END,
       d.campaign_id, i.absent
  FROM deliveries AS d
 CROSS JOIN inflight AS i ON i.account_id = d.account_id AND i.lane_id = d.lane_id AND i.delivery_id = d.delivery_id
  JOIN lane_heads AS h ON h.lane_id = i.lane_id
  JOIN accounts AS a ON a.account_id = i.account_id
  JOIN rate_groups AS g ON g.group_id = a.group_id
  LEFT JOIN channels AS c ON c.channel_id = d.channel_id
  LEFT JOIN recipients AS r ON r.recipient_id = d.recipient_id
 WHERE d.delivery_id = ?1 AND d.workspace_id = ?2 AND i.claim_token = ?3";
pub(super) const END_SENDING: &str = "
UPDATE deliveries
   SET status = ?2, reason = ?3, claim_token = NULL, lease_until = NULL, charged = ?4, flood_waits = ?5,
       not_ready_waits = ?6, unknowns = ?7, lost_claims = ?8, lost_requests = ?9, flood_since = ?10, run_at = ?11,
       position = ?12, retry_at = coalesce(?13, retry_at), sent_at = ?14, ended_at = ?15,
       provider_message_id = coalesce(?16, provider_message_id), last_error = coalesce(?17, last_error)
 WHERE delivery_id = ?1 AND status = 'sending'";
pub(super) const CHANNEL_HEALTHY: &str = "UPDATE channels SET error_streak = 0 WHERE channel_id = ?1";
const CHANNEL_PAUSED: &str = "
UPDATE channels
   SET paused_until = max(paused_until, ?2), paused_why = ?3, error_streak = ?4
 WHERE channel_id = ?1";
const LANE_BLOCKED: &str = "UPDATE lane_heads SET blocked_until = max(blocked_until, ?2) WHERE lane_id = ?1";
pub(super) const GROUP_HEALTHY: &str = "UPDATE rate_groups SET trouble_streak = 0 WHERE group_id = ?1";
const RECIPIENT_PAUSED: &str =
    "UPDATE recipients SET paused_until = max(paused_until, ?2) WHERE recipient_id = ?1";
const RECIPIENT_STRUCK: &str = "UPDATE recipients SET error_streak = ?2 WHERE recipient_id = ?1";
const RECIPIENT_GONE: &str = "
UPDATE recipients
   SET status = 'gone', status_why = ?2, status_at = ?3, error_streak = ?4
 WHERE recipient_id = ?1";
const GROUP_FLOOD: &str = "
UPDATE rate_groups
   SET flood_channel = ?2, flood_recipient = ?3, flood_until = ?4
 WHERE group_id = ?1";
const GROUP_COOLDOWN: &str = "
UPDATE rate_groups
   SET cooldown_until = max(cooldown_until, ?2), trouble_streak = trouble_streak + ?3
 WHERE group_id = ?1";

/// A claim that is still held, and what stands around it.
pub(super) struct Held {
    delivery_id: i64,
    claim_token: Token,
    workspace_id: i64,
    account_id: i64,
    lane_id: i64,
    claim_seq: i64,
    attempt: i32,
    run_id: String,
    claimed_at: i64,
    slot_at: i64,
    pub(super) lease_until: Timestamp,
    requested_at: Option<i64>,
    message_id: i64,
    priority: i64,
    expires_at: Option<i64>,
    ordered: bool,
    group_id: i64,
    /// The channel was removed while the claim was out.
    removed: bool,
    /// Its source does not show the post any more, and no part of it is known to be visible.
    vanished: bool,
    /// Its campaign is being cancelled, or its person does not want to hear any more.
    unwanted: Option<Reason>,
    campaign_id: Option<i64>,
    pub(super) standing: Standing,
}

pub(super) fn held(
    tx: &Tx<'_>,
    delivery_id: i64,
    workspace_id: i64,
    claim_token: Token,
) -> Result<Option<Held>> {
    tx.first(SELECT_HELD, (delivery_id, workspace_id, claim_token), |row| {
        let flooded = Destination::of(row.get(27)?, row.get(28)?);
        let flood_until = Timestamp(row.get(29)?);
        Ok(Held {
            delivery_id,
            claim_token,
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
            message_id: row.get(10)?,
            priority: row.get(11)?,
            expires_at: row.get(12)?,
            ordered: row.get::<_, i32>(25)? == 1,
            group_id: row.get(26)?,
            removed: row.get(31)?,
            vanished: row.get(32)?,
            unwanted: row.get::<_, Option<String>>(33)?.map(|word| match word.as_str() {
                "stopped" => Reason::Stopped,
                _ => Reason::Cancelled,
            }),
            campaign_id: row.get(34)?,
            standing: Standing {
                counters: rows::counters(row, 15)?,
                policy: rows::word(row, 23, AmbiguityPolicy::parse)?,
                destination: rows::destination(row, 13)?,
                error_streak: row.get(24)?,
                flood: flooded.map(|destination| (destination, flood_until)),
                trouble_streak: row.get(30)?,
                absent: row.get(35)?,
            },
        })
    })
}

/// Ends a claim whose lease is over; no wait after that depends on chance.
pub(super) fn lease_expired(tx: &Tx<'_>, settling: &mut Settling, held: &Held) -> Result<Status> {
    let ending = Ending::LeaseExpired { requested: held.requested_at.is_some() };
    let settlement = settle(&held.standing, &ending, tx.now, Chance::NONE);
    write(tx, settling, held, &ending, settlement)
}

pub(super) fn write(
    tx: &Tx<'_>,
    settling: &mut Settling,
    held: &Held,
    ending: &Ending,
    settlement: Settlement,
) -> Result<Status> {
    let now = tx.now.0;
    let settlement = if held.removed { without_channel(settlement) } else { settlement };
    let settlement = if held.vanished { without_source(settlement) } else { settlement };
    let settlement = &without_campaign(settlement, held.unwanted);
    // Whatever this ending does to a streak, the next success has to look again.
    settling.healthy.clear();
    let (sent, failure) = match ending {
        Ending::Outcome(Outcome::Sent(sent)) => (Some(sent), None),
        Ending::Outcome(Outcome::Failed(failure)) => (None, Some(failure)),
        Ending::LeaseExpired { .. } | Ending::Released => (None, None),
    };
    let error = failure.map(|failure| error_json(failure).to_string());
    let provider_id = sent.and_then(|sent| sent.provider_message_id.as_deref());
    tx.execute(DELETE_INFLIGHT, (held.account_id, held.lane_id, held.delivery_id, held.claim_token))?;
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
    if matches!(settlement.status, Status::FailedPermanent | Status::Dead) {
        end_key(tx, settling, held, settlement)?;
        if let (Some(campaign), Some(reason)) = (held.campaign_id, settlement.reason) {
            let code = failure.map(|failure| failure.code.as_str());
            count_sending(tx, held.workspace_id, campaign, (reason.as_str(), code), 1)?;
        }
    }
    if settlement.status == Status::Sent {
        note_outcomes(tx, &rows::id_list([held.delivery_id]))?;
    }
    let counts = settling.touched.lane(held.lane_id);
    counts.sending -= 1;
    *counts.status(settlement.status) += 1;
    events(tx, held, ending, settlement, failure)?;
    match held.standing.destination {
        Destination::Channel(id) => channel_effect(tx, held, id, settlement, failure)?,
        Destination::Recipient(id) => recipient_effect(tx, held, id, settlement, failure)?,
    }
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

/// A post that vanished while it was being sent, and certainly was not said, is not tried again. After an unknown
/// outcome it may be visible: then it goes on, so that what is there is known and can be taken back.
fn without_source(settlement: Settlement) -> Settlement {
    match settlement.status {
        Status::Retry if settlement.counters.unknowns == 0 => {
            Settlement { status: Status::Dead, reason: Some(Reason::Cancelled), run_at: None, ..settlement }
        }
        _ => settlement,
    }
}

/// Nobody waits for the next try of a campaign that is cancelled, or that its person stopped.
fn without_campaign(settlement: Settlement, unwanted: Option<Reason>) -> Settlement {
    match (settlement.status, unwanted) {
        (Status::Retry, Some(reason)) => {
            Settlement { status: Status::Dead, reason: Some(reason), run_at: None, ..settlement }
        }
        _ => settlement,
    }
}

/// Others may say it from now on; a copy that kept silent because of a post that vanished does.
fn end_key(tx: &Tx<'_>, settling: &mut Settling, held: &Held, settlement: &Settlement) -> Result<()> {
    let vanished = settlement.reason == Some(Reason::Cancelled);
    let id = DeliveryId(held.delivery_id);
    let copy = if vanished { silent_copy(tx, id)? } else { None };
    tx.execute(FORGET_KEY, [held.delivery_id])?;
    match copy {
        Some(copy) => say_instead(tx, &mut settling.touched, WorkspaceId(held.workspace_id), copy, id),
        None => Ok(()),
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
            c.lost_requests,
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
    if short.raw.to_string().len() > ERROR_RAW_BYTES_MAX {
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
                channel_id: held.standing.destination.channel().map(|id| id.0),
                recipient_id: held.standing.destination.recipient().map(|id| id.0),
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
        Status::FailedPermanent => {
            say("failed_permanent")?;
            let gone = matches!(
                settlement.destination,
                DestinationEffect::Gone | DestinationEffect::Strike { disable: true, .. }
            );
            let recipient = held.standing.destination.recipient().is_some();
            if gone && recipient { say("recipient_gone") } else { Ok(()) }
        }
        Status::Dead if settlement.reason == Some(Reason::AttemptsExhausted) => {
            say("retry_exhausted")?;
            say("dead_letter")
        }
        Status::Dead if matches!(settlement.reason, Some(Reason::Cancelled | Reason::Stopped)) => {
            say("cancelled")
        }
        Status::Dead => say("dead_letter"),
        _ => Ok(()),
    }
}

fn channel_effect(
    tx: &Tx<'_>,
    held: &Held,
    id: ChannelId,
    settlement: &Settlement,
    failure: Option<&Failure>,
) -> Result<()> {
    let workspace = WorkspaceId(held.workspace_id);
    let why = failure.map_or("", |failure| failure.code.as_str());
    let streak = held.standing.error_streak;
    let (error_streak, off) = match settlement.destination {
        DestinationEffect::Healthy if streak != 0 => return tx.execute(CHANNEL_HEALTHY, [id.0]).map(drop),
        DestinationEffect::Strike { error_streak, disable } => (error_streak, disable),
        _ => (streak, false),
    };
    if let LaneEffect::PauseUntil(until) = settlement.lane {
        pause_lane(tx, held, id, until, why, error_streak)?;
    }
    if !off {
        return Ok(());
    }
    disable(tx, workspace, id, held.lane_id, DisabledBy::Auto)?;
    let text = format!("channel {id} is disabled after {error_streak} failures in a row");
    channel_event(tx, workspace, id, "alert", json!({"text": text, "code": why}))
}

/// A person who cannot be reached is no alarm.
fn recipient_effect(
    tx: &Tx<'_>,
    held: &Held,
    id: RecipientId,
    settlement: &Settlement,
    failure: Option<&Failure>,
) -> Result<()> {
    let why = failure.map_or("", |failure| failure.code.as_str());
    let streak = held.standing.error_streak;
    let changed = match settlement.destination {
        DestinationEffect::None => 0,
        DestinationEffect::Healthy if streak == 0 => 0,
        DestinationEffect::Healthy => tx.execute(RECIPIENT_STRUCK, (id.0, 0))?,
        DestinationEffect::PauseUntil(until) => tx.execute(RECIPIENT_PAUSED, (id.0, until.0))?,
        DestinationEffect::Strike { error_streak, disable: false } => {
            tx.execute(RECIPIENT_STRUCK, (id.0, error_streak))?
        }
        DestinationEffect::Strike { error_streak, disable: true } => {
            tx.execute(RECIPIENT_GONE, (id.0, why, tx.now.0, error_streak))?
        }
        DestinationEffect::Gone => tx.execute(RECIPIENT_GONE, (id.0, why, tx.now.0, streak))?,
    };
    debug_assert!(changed <= 1, "one recipient, one row");
    Ok(())
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
        AccountEffect::RememberFlood(chat, until) => {
            let (channel, recipient) = (chat.channel().map(|id| id.0), chat.recipient().map(|id| id.0));
            tx.execute(GROUP_FLOOD, (held.group_id, channel, recipient, until.0)).map(drop)
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
