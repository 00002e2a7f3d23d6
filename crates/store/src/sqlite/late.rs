//! A success that comes too late is still evidence: recorded, and adopted if nothing was sent since.

use domain::delivery::Status;
use domain::outcome::Outcome;
use serde_json::json;

use super::commit::{INSERT_ATTEMPT, Settling, Token};
use super::front::DELETE_READY;
use super::heads::{NewEvent, event};
use super::watch::note_outcomes;
use super::{Tx, rows};
use crate::error::Result;
use crate::queue::{Finish, FinishKind, Finished};

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
 WHERE delivery_id = ?1 AND (status = 'retry' OR status = 'queued')";
const ADOPT_SENT: &str = "
UPDATE deliveries
   SET status = 'sent', reason = 'late_success', claim_token = NULL, lease_until = NULL, sent_at = ?2, ended_at = ?2,
       provider_message_id = coalesce(?3, provider_message_id)
 WHERE delivery_id = ?1 AND status = 'sending'";

/// The claim is gone. A repeat of what was written changes nothing; a late success may be adopted.
pub(super) fn too_late(
    tx: &Tx<'_>,
    settling: &mut Settling,
    finish: &Finish,
    token: Token,
) -> Result<Finished> {
    let key = (finish.claim.delivery_id.0, finish.claim.workspace_id.0, token);
    let ended = tx.first(SELECT_ATTEMPT, key, |row| Ok((row.get::<_, i32>(0)?, row.get::<_, String>(1)?)))?;
    let Some((attempt, outcome)) = ended else {
        return Ok(Finished::LostClaim);
    };
    let late = tx.first(SELECT_LATE, (finish.claim.delivery_id.0, finish.claim.workspace_id.0), late)?;
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
            workspace_id: finish.claim.workspace_id.0,
            name: "late_success",
            message_id: Some(late.message_id),
            delivery_id: Some(finish.claim.delivery_id.0),
            channel_id: late.channel_id,
            detail: json!({"adopted": adopted, "provider_message_id": sent.provider_message_id}),
            ..NewEvent::default()
        },
    )?;
    if !adopted {
        return Ok(Finished::LostClaim);
    }
    let (id, workspace) = (finish.claim.delivery_id.0, finish.claim.workspace_id.0);
    adopt(tx, settling, (id, workspace), &late, sent.provider_message_id.as_deref())?;
    Ok(Finished::Adopted)
}

pub(super) struct Late {
    pub(super) status: Status,
    attempt: i32,
    lane_id: i64,
    priority: i64,
    position: Option<i64>,
    claim_seq: i64,
    pub(super) channel_id: Option<i64>,
    pub(super) message_id: i64,
}

pub(super) fn late(row: &rusqlite::Row<'_>) -> rusqlite::Result<Late> {
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

pub(super) fn adopt(
    tx: &Tx<'_>,
    settling: &mut Settling,
    (id, workspace): (i64, i64),
    late: &Late,
    provider_id: Option<&str>,
) -> Result<()> {
    let now = tx.now.0;
    // The adoption's own token: nobody else can hold it.
    let token = uuid::Uuid::from_u128(
        u128::from(id.unsigned_abs()) << 64 | u128::from(late.claim_seq.unsigned_abs() + 1),
    )
    .into_bytes();
    tx.execute(DELETE_READY, (late.lane_id, late.priority, late.position, id))?;
    tx.execute(ADOPT_CLAIM, (id, token, now))?;
    tx.execute(ADOPT_SENT, (id, now, provider_id))?;
    note_outcomes(tx, &rows::id_list([id]))?;
    tx.execute(
        INSERT_ATTEMPT,
        rusqlite::params![
            id,
            late.attempt + 1,
            workspace,
            token,
            late.claim_seq + 1,
            "adopted",
            now,
            None::<i64>,
            None::<i64>,
            now,
            "late_success",
            None::<String>,
            provider_id
        ],
    )?;
    let counts = settling.touched.lane(late.lane_id);
    *counts.status(late.status) -= 1;
    counts.sent += 1;
    Ok(())
}
