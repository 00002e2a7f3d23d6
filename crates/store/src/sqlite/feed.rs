//! What moves the deliveries of a campaign: the next few are made, what was never claimed is taken back, and who stops is
//! left alone at once. Those who failed wait again in `waves`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use domain::campaign::CampaignStatus;
use domain::ids::{CampaignId, CohortId, DeliveryId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use rusqlite::Row;
use serde_json::json;

use super::campaigns::{COUNT_CODE, count_ending, one, tell};
use super::enqueue::INSERT_READY;
use super::front::DELETE_READY;
use super::heads::{NewEvent, Touched, event};
use super::history::{self, wording_of};
use super::maintain::cancel_one;
use super::{Sqlite, Tx, Urgency};
use crate::campaigns::*;
use crate::error::{Result, StoreError};
use crate::history::delivery_key;

const SELECT_COHORT: &str = "
SELECT c.campaign_id, c.account_id, c.cursor, k.status, k.deadline, k.min_gap_us, h.lane_id,
       h.n_queued + h.n_retry + h.n_sending
  FROM campaign_cohorts AS c
  JOIN campaigns AS k ON k.campaign_id = c.campaign_id
  JOIN lane_heads AS h ON h.campaign_id = c.campaign_id AND h.account_id = c.account_id
 WHERE c.workspace_id = ?1 AND c.cohort_id = ?2";
/// Asked anew of their rows: much may have happened since they were written down.
pub(super) const NEXT_WAITING: &str = "
SELECT m.member_id, m.recipient_id, m.variant, m.generation, m.delivery_id,
       CASE WHEN r.status = 'gone' THEN 'gone' WHEN r.status <> 'active' THEN 'stopped'
            WHEN EXISTS (SELECT 1 FROM suppressions AS s
                          WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
                            AND s.account_id IN (0, r.account_id)) THEN 'suppressed'
            WHEN m.generation = 0 AND ?4 > 0 AND r.contacted_at > ?5 - ?4 THEN 'too_soon' END
  FROM campaign_recipients AS m JOIN recipients AS r ON r.recipient_id = m.recipient_id
 WHERE m.cohort_id = ?1 AND m.member_id > ?2 AND m.state = 'waiting'
 ORDER BY m.member_id
 LIMIT ?3";
const INSERT_DELIVERY: &str = "
INSERT INTO deliveries (workspace_id, lane_id, account_id, recipient_id, message_id, revision, generation, parent_delivery,
                        priority, status, run_at, position, expires_at, idempotency_key, queued_at, campaign_id)
SELECT ?1, ?2, ?3, ?4, m.message_id, m.revision, ?6, ?7, ?8, 'queued', ?9, ?9, ?10, '', ?9, ?11
  FROM messages AS m WHERE m.message_id = ?5";
const SET_KEY: &str = "UPDATE deliveries SET idempotency_key = ?2 WHERE delivery_id = ?1";
const QUEUED: &str = "UPDATE campaign_recipients SET state = 'queued', delivery_id = ?2 WHERE member_id = ?1";
const EXCLUDE: &str =
    "UPDATE campaign_recipients SET state = 'excluded', reason = ?2, delivery_id = ?3 WHERE member_id = ?1";
const COUNT_EXCLUDED: &str = "UPDATE campaigns SET n_excluded = n_excluded + ?2 WHERE campaign_id = ?1";
const MOVE_CURSOR: &str =
    "UPDATE campaign_cohorts SET cursor = ?2, n_waiting = n_waiting - ?3 WHERE cohort_id = ?1";
const NEVER_CLAIMED: &str = "
SELECT d.delivery_id, d.lane_id, d.priority, d.position, d.parent_delivery, m.member_id, m.cohort_id
  FROM lane_heads AS h
  JOIN ready AS r ON r.lane_id = h.lane_id
  JOIN deliveries AS d ON d.delivery_id = r.delivery_id
  JOIN campaign_recipients AS m ON m.recipient_id = d.recipient_id AND m.campaign_id = d.campaign_id
 WHERE h.workspace_id = ?1 AND h.campaign_id = ?2 AND d.claim_seq = 0
 LIMIT ?3";
/// All that waits in the lanes of a campaign, a minute's worth.
const IN_LANES: &str = "
SELECT d.delivery_id, d.lane_id, d.priority, d.position, d.parent_delivery, m.member_id, m.cohort_id, d.claim_seq, r.run_at
  FROM lane_heads AS h
  JOIN ready AS r ON r.lane_id = h.lane_id
  JOIN deliveries AS d ON d.delivery_id = r.delivery_id
  JOIN campaign_recipients AS m ON m.recipient_id = d.recipient_id AND m.campaign_id = d.campaign_id
 WHERE h.workspace_id = ?1 AND h.campaign_id = ?2";
const READY_UNTIL: &str = "
UPDATE ready SET run_at = ?5, position = ?5 WHERE lane_id = ?1 AND priority = ?2 AND position = ?3 AND delivery_id = ?4";
const DELIVERY_UNTIL: &str = "UPDATE deliveries SET run_at = ?2, position = ?2 WHERE delivery_id = ?1";
const CLAIMED_BEFORE: &str = "
SELECT d.delivery_id
  FROM lane_heads AS h
  JOIN ready AS r ON r.lane_id = h.lane_id
  JOIN deliveries AS d ON d.delivery_id = r.delivery_id
 WHERE h.workspace_id = ?1 AND h.campaign_id = ?2 AND d.claim_seq > 0
 LIMIT ?3";
const DELETE_DELIVERY: &str = "DELETE FROM deliveries WHERE delivery_id = ?1";
pub(super) const WAITS_AGAIN: &str = "UPDATE campaign_recipients SET state = 'waiting', delivery_id = ?2, generation = generation + ?3 WHERE member_id = ?1";
pub(super) const STEP_BACK: &str = "
UPDATE campaign_cohorts SET cursor = min(cursor, ?2 - 1), n_waiting = n_waiting + 1 WHERE cohort_id = ?1";
const STILL_QUEUED: &str = "
SELECT 1 FROM lane_heads WHERE campaign_id = ?1 AND (n_queued > 0 OR n_sending > 0) LIMIT 1";
const SET_WORDS: &str = "
UPDATE campaign_variants SET message_id = ?3 WHERE campaign_id = ?1 AND variant = ?2";
const REVISED: &str =
    "UPDATE campaigns SET revision = revision + 1, version = version + 1 WHERE campaign_id = ?1";
/// What may be visible already keeps its words: a platform recognises the repeat by them.
const CERTAINLY_UNSAID: &str = "
SELECT d.delivery_id
  FROM lane_heads AS h
  JOIN ready AS r ON r.lane_id = h.lane_id
  JOIN deliveries AS d ON d.delivery_id = r.delivery_id
  JOIN campaign_recipients AS m ON m.recipient_id = d.recipient_id AND m.campaign_id = d.campaign_id
 WHERE h.campaign_id = ?1 AND m.variant = ?2 AND d.unknowns = 0 AND d.parts = '[]'";
const SAY_INSTEAD: &str = "
UPDATE deliveries
   SET message_id = ?2, revision = (SELECT m.revision FROM messages AS m WHERE m.message_id = ?2), idempotency_key = ?3
 WHERE delivery_id = ?1";
/// What a campaign still has for these people.
const UNDER_WAY: &str = "
SELECT d.delivery_id, d.lane_id, d.priority, d.position, d.claim_seq, d.status, m.member_id, d.campaign_id, d.parent_delivery,
       d.message_id, d.recipient_id, d.account_id
  FROM campaign_recipients AS m JOIN deliveries AS d ON d.delivery_id = m.delivery_id
 WHERE m.recipient_id = ?1 AND m.state = 'queued' AND (d.status = 'queued' OR d.status = 'retry')";
/// Campaigns that this person is part of and that are not over.
const RUNNING_FOR: &str = "
SELECT k.campaign_id
  FROM campaign_recipients AS m JOIN campaigns AS k ON k.campaign_id = m.campaign_id
 WHERE m.recipient_id = ?1 AND m.state <> 'excluded' AND k.status IN ('running', 'paused', 'finishing')";
const STOP: &str = "
UPDATE deliveries
   SET status = 'dead', reason = 'stopped', run_at = NULL, position = NULL, ended_at = ?2
 WHERE delivery_id = ?1";

impl Sqlite {
    pub async fn feed_campaign(
        &self,
        workspace: WorkspaceId,
        cohort: CohortId,
        urgent: bool,
        ahead: i64,
    ) -> Result<Fed> {
        let fed = self.write(Urgency::Enqueue, move |tx| feed(tx, workspace, cohort, urgent, ahead)).await?;
        if fed.queued > 0 {
            self.bell.ring();
        }
        Ok(fed)
    }

    pub async fn recall_campaign(&self, workspace: WorkspaceId, id: CampaignId) -> Result<u64> {
        self.write(Urgency::Maintenance, move |tx| recall(tx, workspace, id)).await
    }

    pub async fn shut_cohorts(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        until: HashMap<CohortId, Timestamp>,
    ) -> Result<u64> {
        // Nearly always there is nothing to do, and whoever looks keeps nobody from writing.
        let asked = until.clone();
        if self.read(move |tx| in_shut(tx, workspace, id, &asked)).await?.is_empty() {
            return Ok(0);
        }
        self.write(Urgency::Maintenance, move |tx| shut(tx, workspace, id, &until)).await
    }

    pub async fn end_retries(&self, workspace: WorkspaceId, id: CampaignId) -> Result<u64> {
        self.write(Urgency::Maintenance, move |tx| {
            if one(tx, workspace, id)?.status != CampaignStatus::Cancelling {
                return Ok(0);
            }
            let key = (workspace.0, id.0, FEED_MAX as i64);
            let ids = tx.all(CLAIMED_BEFORE, key, |row| row.get(0).map(DeliveryId))?;
            let mut touched = Touched::default();
            for id in &ids {
                cancel_one(tx, &mut touched, workspace, *id)?;
            }
            touched.refresh(tx)?;
            Ok(ids.len() as u64)
        })
        .await
    }

    pub async fn edit_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        variant: i32,
        message: MessageId,
    ) -> Result<bool> {
        self.write(Urgency::Maintenance, move |tx| edit(tx, workspace, id, version, variant, message)).await
    }
}

/// A cohort with what stands around it.
struct Source {
    campaign: CampaignId,
    account_id: i64,
    cursor: i64,
    is_running: bool,
    deadline: Option<i64>,
    min_gap: i64,
    lane_id: i64,
    lane_holds: i64,
}

/// Somebody who waits, and why they are left out after all.
struct Waiting {
    member_id: i64,
    recipient_id: i64,
    variant: i32,
    generation: i32,
    delivery_id: Option<i64>,
    reason: Option<String>,
}

fn feed(tx: &Tx<'_>, workspace: WorkspaceId, cohort: CohortId, urgent: bool, ahead: i64) -> Result<Fed> {
    let source = tx.first(SELECT_COHORT, (workspace.0, cohort.0), |row| {
        Ok(Source {
            campaign: CampaignId(row.get(0)?),
            account_id: row.get(1)?,
            cursor: row.get(2)?,
            is_running: row.get_ref(3)?.as_str()? == CampaignStatus::Running.as_str(),
            deadline: row.get(4)?,
            min_gap: row.get(5)?,
            lane_id: row.get(6)?,
            lane_holds: row.get(7)?,
        })
    })?;
    let source = source.ok_or_else(|| StoreError::not_found("cohort", cohort))?;
    if !source.is_running || source.deadline.is_some_and(|at| at <= tx.now.0) {
        return Ok(Fed::default());
    }
    let room = (ahead - source.lane_holds).clamp(0, FEED_MAX as i64);
    let key = (cohort.0, source.cursor, room, source.min_gap, tx.now.0);
    let waiting = tx.all(NEXT_WAITING, key, |row| {
        Ok(Waiting {
            member_id: row.get(0)?,
            recipient_id: row.get(1)?,
            variant: row.get(2)?,
            generation: row.get(3)?,
            delivery_id: row.get(4)?,
            reason: row.get(5)?,
        })
    })?;
    let Some(last) = waiting.last().map(|last| last.member_id) else {
        return Ok(Fed::default());
    };
    let known = one(tx, workspace, source.campaign)?;
    let mut reasons: BTreeMap<&str, i64> = BTreeMap::new();
    let mut fed = Fed::default();
    let history = history::id(tx)?;
    let mut wordings: BTreeMap<i64, String> = BTreeMap::new();
    for member in &waiting {
        if let Some(reason) = &member.reason {
            tx.execute(EXCLUDE, (member.member_id, reason, member.delivery_id))?;
            *reasons.entry(reason).or_default() += 1;
            continue;
        }
        let variant = usize::try_from(member.variant).ok().and_then(|n| known.variants.get(n));
        let message = variant.ok_or_else(|| StoreError::not_found("variant", member.variant))?.message_id.0;
        let id = insert(tx, workspace, &source, member, message, urgent)?;
        let wording = match wordings.entry(message) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(wording_of(tx, message)?),
        };
        let key = delivery_key(&history, id, wording);
        tx.execute(SET_KEY, (id, key))?;
        tx.execute(QUEUED, (member.member_id, id))?;
        fed.queued += 1;
    }
    fed.excluded = reasons.values().sum::<i64>().unsigned_abs();
    tx.execute(MOVE_CURSOR, (cohort.0, last, waiting.len() as i64))?;
    count_reasons(tx, workspace, source.campaign, &reasons)?;
    finish_feeding(tx, workspace, &source, fed)?;
    Ok(fed)
}

fn insert(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    source: &Source,
    member: &Waiting,
    message: i64,
    urgent: bool,
) -> Result<i64> {
    let priority = i64::from(!urgent);
    let id = tx.insert(
        INSERT_DELIVERY,
        rusqlite::params![
            workspace.0,
            source.lane_id,
            source.account_id,
            member.recipient_id,
            message,
            member.generation,
            member.delivery_id,
            priority,
            tx.now.0,
            source.deadline,
            source.campaign.0
        ],
    )?;
    let ready = (source.lane_id, priority, tx.now.0, id, workspace.0, tx.now.0, source.deadline, 0);
    tx.execute(INSERT_READY, ready)?;
    Ok(id)
}

fn count_reasons(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    campaign: CampaignId,
    reasons: &BTreeMap<&str, i64>,
) -> Result<()> {
    for (reason, n) in reasons {
        tx.execute(COUNT_CODE, (workspace.0, campaign.0, reason, n))?;
        tx.execute(COUNT_EXCLUDED, (campaign.0, n))?;
    }
    Ok(())
}

fn finish_feeding(tx: &Tx<'_>, workspace: WorkspaceId, source: &Source, fed: Fed) -> Result<()> {
    if fed.queued == 0 {
        return Ok(());
    }
    let mut touched = Touched::default();
    touched.lane(source.lane_id).queued += i64::try_from(fed.queued).unwrap_or(i64::MAX);
    touched.refresh(tx)?;
    event(
        tx,
        NewEvent {
            workspace_id: workspace.0,
            name: "enqueued",
            account_id: Some(source.account_id),
            detail: json!({"deliveries": fed.queued, "lane": source.lane_id, "campaign": source.campaign.0}),
            ..NewEvent::default()
        },
    )
}

/// A row that waits in the lane of a campaign: where it stands, what it follows, whose it is.
struct Waits {
    place: (i64, i64, i64, i64),
    before: Option<i64>,
    member: i64,
    cohort: i64,
}

fn waits(row: &Row<'_>) -> rusqlite::Result<Waits> {
    let place = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(0)?);
    Ok(Waits { place, before: row.get(4)?, member: row.get(5)?, cohort: row.get(6)? })
}

fn recall(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId) -> Result<u64> {
    let found = tx.all(NEVER_CLAIMED, (workspace.0, id.0, FEED_MAX as i64), waits)?;
    let mut touched = Touched::default();
    for one in &found {
        take_back(tx, &mut touched, one)?;
    }
    touched.refresh(tx)?;
    if !found.is_empty() {
        tell(tx, workspace, id, json!({"recalled": found.len()}))?;
    }
    Ok(found.len() as u64)
}

fn take_back(tx: &Tx<'_>, touched: &mut Touched, one: &Waits) -> Result<()> {
    tx.execute(DELETE_READY, one.place)?;
    tx.execute(DELETE_DELIVERY, [one.place.3])?;
    tx.execute(WAITS_AGAIN, (one.member, one.before, 0))?;
    tx.execute(STEP_BACK, (one.cohort, one.member))?;
    touched.lane(one.place.0).queued -= 1;
    Ok(())
}

/// What waits for people whose window is closed: with `None` it was never claimed, else it is to wait until then.
fn in_shut(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: CampaignId,
    until: &HashMap<CohortId, Timestamp>,
) -> Result<Vec<(Waits, Option<i64>)>> {
    let mut found = Vec::new();
    tx.each(IN_LANES, (workspace.0, id.0), |row| {
        let opens = until.get(&CohortId(row.get(6)?));
        let (claims, run_at): (i64, i64) = (row.get(7)?, row.get(8)?);
        match opens {
            Some(_) if claims == 0 => found.push((waits(row)?, None)),
            Some(opens) if run_at < opens.0 => found.push((waits(row)?, Some(opens.0))),
            _ => {}
        }
        Ok(())
    })?;
    found.truncate(FEED_MAX);
    Ok(found)
}

fn shut(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: CampaignId,
    until: &HashMap<CohortId, Timestamp>,
) -> Result<u64> {
    let found = in_shut(tx, workspace, id, until)?;
    let mut touched = Touched::default();
    for (one, opens) in &found {
        let (lane, priority, position, delivery) = one.place;
        match opens {
            None => take_back(tx, &mut touched, one)?,
            Some(opens) => {
                tx.execute(READY_UNTIL, (lane, priority, position, delivery, opens))?;
                tx.execute(DELIVERY_UNTIL, (delivery, opens))?;
                touched.lane(lane);
            }
        }
    }
    touched.refresh(tx)?;
    let recalled = found.iter().filter(|(_, opens)| opens.is_none()).count();
    if recalled > 0 {
        tell(tx, workspace, id, json!({"recalled": recalled}))?;
    }
    Ok(found.len() as u64)
}

fn edit(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: CampaignId,
    version: i64,
    variant: i32,
    message: MessageId,
) -> Result<bool> {
    let known = one(tx, workspace, id)?;
    let rests =
        matches!(known.status, CampaignStatus::Draft | CampaignStatus::Scheduled | CampaignStatus::Paused);
    let queued = tx.first(STILL_QUEUED, [id.0], |_| Ok(()))?.is_some();
    if known.version != version || !rests || queued {
        return Ok(false);
    }
    if tx.execute(SET_WORDS, (id.0, variant, message.0))? == 0 {
        return Err(StoreError::not_found("variant", variant));
    }
    tx.execute(REVISED, [id.0])?;
    let unsaid: Vec<i64> = tx.all(CERTAINLY_UNSAID, (id.0, variant), |row| row.get(0))?;
    for delivery in &unsaid {
        let key = history::key_of(tx, *delivery, message.0)?;
        tx.execute(SAY_INSTEAD, (delivery, message.0, key))?;
    }
    tell(tx, workspace, id, json!({"name": known.name, "revision": known.revision + 1}))?;
    Ok(true)
}

/// Somebody does not want to hear any more: what is on its way to them in campaigns and has not left ends here. What is
/// out right now ends when it comes back.
pub(super) fn leave_alone(tx: &Tx<'_>, workspace: WorkspaceId, recipient: i64, reason: &str) -> Result<()> {
    let found = tx.all(UNDER_WAY, [recipient], |row| {
        let place: (i64, i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(0)?);
        let never_claimed = row.get::<_, i64>(4)? == 0;
        let was_queued = row.get_ref(5)?.as_str()? == "queued";
        let whose = (row.get::<_, i64>(6)?, row.get::<_, i64>(7)?, row.get::<_, Option<i64>>(8)?);
        Ok((place, never_claimed, was_queued, whose, (row.get::<_, i64>(9)?, row.get::<_, i64>(11)?)))
    })?;
    if reason == "stopped" {
        for campaign in tx.all(RUNNING_FOR, [recipient], |row| row.get::<_, i64>(0))? {
            count_ending(tx, workspace, CampaignId(campaign), STOPS, 1)?;
        }
    }
    let mut touched = Touched::default();
    for (place, never_claimed, was_queued, (member, campaign, before), (message_id, account_id)) in found {
        tx.execute(DELETE_READY, place)?;
        let counts = touched.lane(place.0);
        *(if was_queued { &mut counts.queued } else { &mut counts.retry }) -= 1;
        if never_claimed && before.is_none() {
            tx.execute(DELETE_DELIVERY, [place.3])?;
            tx.execute(EXCLUDE, (member, reason, None::<i64>))?;
            count_reasons(tx, workspace, CampaignId(campaign), &BTreeMap::from([(reason, 1)]))?;
            continue;
        }
        counts.dead += 1;
        count_ending(tx, workspace, CampaignId(campaign), "stopped", 1)?;
        tx.execute(STOP, (place.3, tx.now.0))?;
        event(
            tx,
            NewEvent {
                workspace_id: workspace.0,
                name: "cancelled",
                message_id: Some(message_id),
                delivery_id: Some(place.3),
                recipient_id: Some(recipient),
                account_id: Some(account_id),
                detail: json!({"reason": "stopped"}),
                ..NewEvent::default()
            },
        )?;
    }
    touched.refresh(tx)
}
