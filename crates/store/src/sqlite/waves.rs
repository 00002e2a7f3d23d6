//! A new wave of a campaign that is over: those who failed wait again, and others stay as they are.

use domain::campaign::CampaignStatus;
use domain::ids::{CampaignId, WorkspaceId};
use serde_json::json;

use super::campaigns::{count_ending, count_sending, move_to, one};
use super::feed::{STEP_BACK, WAITS_AGAIN};
use super::{Sqlite, Tx, Urgency};
use crate::campaigns::*;
use crate::error::Result;

const BEGIN_WAVE: &str = "
UPDATE campaigns SET wave = wave + 1, retries = ?2, at_platform = '', at_user = '', frozen_at = NULL WHERE campaign_id = ?1";
/// Whether a wave takes a member: who failed, and who never got their turn because it was aborted. ?2 is the code that is
/// asked for, ?3 whether unknown outcomes are.
macro_rules! goes_again {
    () => {
        "CASE m.state
              WHEN 'queued' THEN d.status IN ('failed_permanent', 'dead') AND d.reason NOT IN ('recipient_gone', 'stopped', 'cancelled')
                   AND (?2 IS NULL OR coalesce(d.last_error ->> '$.code', d.reason) = ?2 OR d.reason = ?2) AND (?3 OR d.unknowns = 0)
              WHEN 'settled' THEN (m.outcome IN ('failed', 'dead') AND m.code <> 'stopped' OR m.outcome = 'cancelled' AND m.code = 'aborted')
                   AND (?2 IS NULL OR m.code = ?2) AND (?3 OR m.unknowns = 0)
              WHEN 'waiting' THEN ?2 IS NULL OR coalesce(d.last_error ->> '$.code', d.reason) = ?2 OR d.reason = ?2
              ELSE FALSE END"
    };
}
const ANYBODY_AGAIN: &str = concat!(
    "
SELECT 1
  FROM campaign_recipients AS m LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
 WHERE m.campaign_id = ?1 AND ",
    goes_again!(),
    "
 LIMIT 1"
);
const FOR_WAVE: &str = concat!(
    "
SELECT m.member_id, m.cohort_id, d.delivery_id, m.platform, m.user_id, m.state,
       CASE m.state WHEN 'queued' THEN d.status ELSE m.outcome END, ",
    goes_again!(),
    ",
       CASE WHEN m.state = 'queued' THEN d.reason WHEN m.outcome = 'failed' THEN 'refused' ELSE m.code END,
       CASE WHEN m.state = 'queued' THEN d.last_error ->> '$.code' ELSE nullif(m.code, 'refused') END
  FROM campaign_recipients AS m LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
 WHERE m.campaign_id = ?1 AND (m.platform, m.user_id) > (?4, ?5)
 ORDER BY m.platform, m.user_id
 LIMIT ?6"
);
/// Who never got their turn and is not asked for has come to an end.
const PUT_ASIDE: &str = "
UPDATE campaign_recipients SET state = 'settled', outcome = 'cancelled', code = 'aborted', at = ?2 WHERE member_id = ?1";
const WAITS_NO_MORE: &str = "UPDATE campaign_cohorts SET n_waiting = n_waiting - 1 WHERE cohort_id = ?1";
const WAVE_AT: &str = "
UPDATE campaigns
   SET at_platform = ?2, at_user = ?3, n_failed_again = n_failed_again + ?4, n_dead_again = n_dead_again + ?5,
       frozen_at = CASE WHEN ?6 THEN ?7 END
 WHERE campaign_id = ?1";

impl Sqlite {
    pub async fn begin_wave(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        retries: Retries,
    ) -> Result<bool> {
        self.write(Urgency::Maintenance, move |tx| {
            let known = one(tx, workspace, id)?;
            // A draft becomes preparing too, but has nobody who failed.
            let moved = known.status.is_over()
                && move_to(tx, workspace, id, version, CampaignStatus::Preparing, "a new wave")?;
            if moved {
                tx.execute(BEGIN_WAVE, (id.0, json!(retries).to_string()))?;
            }
            Ok(moved)
        })
        .await
    }

    pub async fn anybody_again(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        retries: Retries,
    ) -> Result<bool> {
        self.read(move |tx| {
            one(tx, workspace, id)?;
            Ok(tx.first(ANYBODY_AGAIN, (id.0, retries.code, retries.unknown), |_| Ok(()))?.is_some())
        })
        .await
    }

    pub async fn prepare_wave(&self, workspace: WorkspaceId, id: CampaignId) -> Result<bool> {
        self.write(Urgency::Maintenance, move |tx| prepare_wave(tx, workspace, id)).await
    }
}

fn prepare_wave(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId) -> Result<bool> {
    let known = one(tx, workspace, id)?;
    if known.status != CampaignStatus::Preparing || known.frozen_at.is_some() || known.wave == 0 {
        return Ok(known.frozen_at.is_some());
    }
    let retries: Retries = serde_json::from_value(known.retries.clone()).unwrap_or_default();
    let limit = FREEZE_MAX as i64;
    let key = (id.0, &retries.code, retries.unknown, &known.at.platform, &known.at.user_id, limit);
    let found = tx.all(FOR_WAVE, key, |row| {
        let member = (row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?);
        let person = Person { platform: row.get(3)?, user_id: row.get(4)? };
        let stands = (row.get::<_, String>(5)?, row.get::<_, Option<String>>(6)?);
        let why = (row.get::<_, Option<String>>(8)?, row.get::<_, Option<String>>(9)?);
        Ok((member, person, stands, row.get::<_, Option<bool>>(7)?.unwrap_or(false), why))
    })?;
    let (mut failed, mut dead, mut aside) = (0, 0, 0);
    for ((member, cohort, delivery), _, (state, ended), goes_again, (reason, code)) in &found {
        let was_aside = ended.as_deref() == Some("cancelled");
        match (state.as_str(), goes_again) {
            ("waiting", false) => {
                tx.execute(PUT_ASIDE, (member, tx.now.0))?;
                tx.execute(WAITS_NO_MORE, [cohort])?;
                aside += 1;
                continue;
            }
            ("waiting", true) | (_, false) => continue,
            _ => {}
        }
        tx.execute(WAITS_AGAIN, (member, delivery, i64::from(!was_aside)))?;
        tx.execute(STEP_BACK, (cohort, member))?;
        if was_aside {
            aside -= 1;
            continue;
        }
        let why = (reason.as_deref().unwrap_or_default(), code.as_deref());
        count_sending(tx, workspace.0, id.0, why, -1)?;
        match ended.as_deref() {
            Some("dead") => dead += 1,
            _ => failed += 1,
        }
    }
    // Whoever is put aside counts as dead, though none of the lanes does.
    dead -= aside;
    if aside != 0 {
        count_ending(tx, workspace, id, CANCELLED, aside)?;
    }
    let is_last = (found.len() as i64) < limit;
    let at = found.last().map_or_else(|| known.at.clone(), |(_, person, ..)| person.clone());
    tx.execute(WAVE_AT, (id.0, at.platform, at.user_id, failed, dead, is_last, tx.now.0))?;
    Ok(is_last)
}
