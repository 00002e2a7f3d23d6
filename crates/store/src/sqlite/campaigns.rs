//! A campaign and its life: made, frozen, moved from state to state and told.
//! What moves its deliveries stands in `feed`, how far it is in `progress`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, AudienceId, CampaignId, MessageId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use serde_json::{Value, json};

use super::heads::{NewEvent, Touched, event};
use super::progress::{counts, note};
use super::recipients::{COLUMNS, recipient};
use super::{Sqlite, Tx, Urgency, rows};
use crate::campaigns::*;
use crate::error::{Result, StoreError};

const INSERT: &str = "
INSERT INTO campaigns (workspace_id, name, audience_id, accounts, settings, seed, min_gap_us, deadline, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO NOTHING";
const INSERT_VARIANT: &str = "
INSERT INTO campaign_variants (workspace_id, campaign_id, variant, name, weight, message_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const SELECT: &str = "
SELECT campaign_id, name, status, why, version, ends_as, audience_id, accounts, settings, seed, revision, wave, retries,
       at_platform, at_user, min_gap_us, starts_at, deadline, created_at, started_at, frozen_at, ended_at, rest_at
  FROM campaigns
 WHERE workspace_id = ?1 AND (?2 IS NULL OR campaign_id = ?2)
 ORDER BY campaign_id";
const SELECT_VARIANTS: &str = "
SELECT name, weight, message_id FROM campaign_variants WHERE campaign_id = ?1 ORDER BY variant";
const MOVE: &str = "
UPDATE campaigns
   SET status = ?3, why = ?4, version = version + 1,
       started_at = CASE WHEN ?3 = 'preparing' THEN coalesce(started_at, ?5) ELSE started_at END,
       ended_at = CASE WHEN ?3 IN ('finished', 'cancelled', 'aborted') THEN ?5 END
 WHERE campaign_id = ?1 AND version = ?2";
const SCHEDULE: &str = "UPDATE campaigns SET starts_at = ?2 WHERE campaign_id = ?1";
const REST_AT: &str = "
UPDATE campaigns SET rest_at = ?3 WHERE workspace_id = ?1 AND campaign_id = ?2 AND rest_at IS NULL";
const ENDS_AS: &str = "UPDATE campaigns SET ends_as = ?2 WHERE campaign_id = ?1";
const OPEN_LANES: &str = "UPDATE lane_heads SET open = ?2 WHERE campaign_id = ?1 RETURNING lane_id";
const SUPPRESSED: &str = "
EXISTS (SELECT 1 FROM suppressions AS s
         WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
           AND s.account_id IN (0, r.account_id))";
const UPTO: &str = "
SELECT r.platform, r.user_id
  FROM recipients AS r
 WHERE r.workspace_id = ?1 AND (r.platform, r.user_id) > (?2, ?3)
 ORDER BY r.platform, r.user_id
 LIMIT 1 OFFSET ?4";
/// The end of a step is always given: a bound that may be missing is no bound of the index, and every step would read on to
/// the last person.
const LAST: &str = "
SELECT r.platform, r.user_id
  FROM recipients AS r
 WHERE r.workspace_id = ?1
 ORDER BY r.platform DESC, r.user_id DESC
 LIMIT 1";
/// Who is only known did not ask to hear from us, and is nobody's audience.
const TO_FREEZE: &str = "
SELECT r.recipient_id, r.account_id, r.platform, r.user_id, coalesce(r.time_zone, ''),
       CASE r.status WHEN 'gone' THEN 'gone' WHEN 'stopped' THEN 'stopped' ELSE
            CASE WHEN EXISTS (SELECT 1 FROM suppressions AS s
                               WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
                                 AND s.account_id IN (0, r.account_id)) THEN 'suppressed' END END,
       coalesce(r.contacted_at, 0)
  FROM recipients AS r
 WHERE r.workspace_id = ?1 AND (r.platform, r.user_id) > (?2, ?3) AND (r.platform, r.user_id) <= (?4, ?5)
   AND r.status <> 'known' AND r.account_id IN (SELECT value FROM json_each(?6))
   AND (?7 IS NULL OR EXISTS (SELECT 1 FROM audience_recipients AS a
                               WHERE a.audience_id = ?7 AND a.recipient_id = r.recipient_id))
 ORDER BY r.platform, r.user_id";
const IS_IMPORTED: &str = "SELECT filter IS NULL FROM audiences WHERE audience_id = ?1";
const PUT_COHORT: &str = "
INSERT INTO campaign_cohorts (workspace_id, campaign_id, account_id, zone, stage) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET zone = excluded.zone
RETURNING cohort_id";
const COUNT_COHORT: &str = "
UPDATE campaign_cohorts SET n_total = n_total + ?2, n_waiting = n_waiting + ?2 WHERE cohort_id = ?1";
const INSERT_MEMBER: &str = "
INSERT INTO campaign_recipients (workspace_id, campaign_id, cohort_id, recipient_id, account_id, platform, user_id, variant,
                                 state, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const FROZEN: &str = "
UPDATE campaigns
   SET n_total = n_total + ?2, n_excluded = n_excluded + ?3, at_platform = ?4, at_user = ?5,
       frozen_at = CASE WHEN ?6 THEN ?7 END
 WHERE campaign_id = ?1";
pub(super) const COUNT_CODE: &str = "
INSERT INTO campaign_codes (workspace_id, campaign_id, code, n) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET n = n + excluded.n";
const MEMBERS: &str = "
SELECT m.platform, m.user_id, m.account_id, m.state, m.reason, m.outcome, m.code, m.provider_message_id, m.at, m.variant,
       m.generation, d.status, d.reason, d.last_error ->> '$.code', d.provider_message_id,
       coalesce(d.ended_at, d.queued_at), k.status
  FROM campaign_recipients AS m
  JOIN campaigns AS k ON k.campaign_id = m.campaign_id
  LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
 WHERE m.workspace_id = ?1 AND m.campaign_id = ?2 AND (m.platform, m.user_id) > (?3, ?4)
 ORDER BY m.platform, m.user_id
 LIMIT ?5";
const PACE: &str = "
UPDATE lane_heads
   SET interval_us = ?4, next_slot = min(next_slot, ?5 + ?4)
 WHERE workspace_id = ?1 AND campaign_id = ?2 AND account_id = ?3 AND interval_us <> ?4
RETURNING lane_id";

impl Sqlite {
    pub async fn create_campaign(&self, workspace: WorkspaceId, new: NewCampaign) -> Result<CampaignId> {
        self.write(Urgency::Maintenance, move |tx| {
            let accounts: Vec<i64> = new.accounts.iter().map(|id| id.0).collect();
            let row = (
                workspace.0,
                &new.name,
                new.audience_id.map(|id| id.0),
                json!(accounts).to_string(),
                new.settings.to_string(),
                &new.seed,
                new.min_gap.0,
                new.deadline.map(|at| at.0),
                tx.now.0,
            );
            if tx.execute(INSERT, row)? == 0 {
                return Err(StoreError::Exists { what: "campaign", name: new.name });
            }
            let id = CampaignId(tx.connection.last_insert_rowid());
            for (n, variant) in (0_i64..).zip(&new.variants) {
                let row = (workspace.0, id.0, n, &variant.name, variant.weight, variant.message_id.0);
                tx.execute(INSERT_VARIANT, row)?;
            }
            tell(tx, workspace, id, json!({"name": new.name, "to": "draft"}))?;
            Ok(id)
        })
        .await
    }

    pub async fn campaigns(&self, workspace: WorkspaceId) -> Result<Vec<Campaign>> {
        self.read(move |tx| select(tx, workspace, None)).await
    }

    pub async fn move_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        next: CampaignStatus,
        why: &str,
    ) -> Result<bool> {
        let why = why.to_owned();
        let moved = self
            .write(Urgency::Maintenance, move |tx| move_to(tx, workspace, id, version, next, &why))
            .await?;
        self.bell.ring();
        Ok(moved)
    }

    pub async fn schedule_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        starts_at: Timestamp,
    ) -> Result<bool> {
        self.write(Urgency::Maintenance, move |tx| {
            let moved = move_to(tx, workspace, id, version, CampaignStatus::Scheduled, "")?;
            if moved {
                tx.execute(SCHEDULE, (id.0, starts_at.0))?;
            }
            Ok(moved)
        })
        .await
    }

    pub async fn abort_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        why: &str,
    ) -> Result<bool> {
        let why = why.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            let known = one(tx, workspace, id)?;
            let next = match known.status {
                CampaignStatus::Scheduled => CampaignStatus::Aborted,
                _ => CampaignStatus::Cancelling,
            };
            let moved = move_to(tx, workspace, id, version, next, &why)?;
            if moved {
                tx.execute(ENDS_AS, (id.0, CampaignStatus::Aborted.as_str()))?;
            }
            Ok(moved)
        })
        .await
    }

    pub async fn let_rest_follow(&self, workspace: WorkspaceId, id: CampaignId, at: Timestamp) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| tx.execute(REST_AT, (workspace.0, id.0, at.0)).map(drop))
            .await
    }

    pub async fn people_in_order(
        &self,
        workspace: WorkspaceId,
        accounts: Vec<AccountId>,
        audience: Option<AudienceId>,
        after: Person,
        limit: usize,
    ) -> Result<PeoplePage> {
        let sql = format!(
            "SELECT {COLUMNS}, {SUPPRESSED} FROM recipients AS r
              WHERE r.workspace_id = ?1 AND (r.platform, r.user_id) > (?2, ?3) AND r.status <> 'known'
                AND r.account_id IN (SELECT value FROM json_each(?4))
                AND (?5 IS NULL OR EXISTS (SELECT 1 FROM audience_recipients AS a
                                            WHERE a.audience_id = ?5 AND a.recipient_id = r.recipient_id))
              ORDER BY r.platform, r.user_id, r.account_id
              LIMIT ?6"
        );
        let people = self.read(move |tx| {
            let accounts = rows::id_list(accounts.iter().map(|id| id.0));
            let audience = imported(tx, audience)?;
            let params = (workspace.0, after.platform, after.user_id, accounts, audience, limit as i64);
            tx.all(&sql, params, |row| Ok((recipient(row)?, row.get(15)?)))
        });
        Ok(PeoplePage::of(people.await?, limit))
    }

    pub async fn freeze_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        step: FreezeStep,
    ) -> Result<bool> {
        self.write(Urgency::Maintenance, move |tx| freeze(tx, workspace, id, &step)).await
    }

    pub async fn pace_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        account: AccountId,
        rate: Option<f64>,
    ) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            let interval = domain::pacing::interval(rate).micros();
            let params = (workspace.0, id.0, account.0, interval, tx.now.0);
            refresh(tx, &tx.all(PACE, params, |row| row.get(0))?)
        })
        .await
    }

    pub async fn campaign_members(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        after: Person,
        limit: usize,
    ) -> Result<Vec<Member>> {
        let params = (workspace.0, id.0, after.platform, after.user_id, limit as i64);
        self.read(move |tx| tx.all(MEMBERS, params, member)).await
    }
}

fn member(row: &Row<'_>) -> rusqlite::Result<Member> {
    let status: Option<String> = row.get(11)?;
    let delivery = match status {
        Some(status) => Some((status, row.get(12)?, row.get(13)?)),
        None => None,
    };
    let (state, reason): (String, Option<String>) = (row.get(3)?, row.get(4)?);
    let campaign = rows::word(row, 16, CampaignStatus::parse)?;
    let settled: Option<String> = row.get(5)?;
    let (told, code) = match settled {
        Some(outcome) if state == "settled" => (outcome, row.get(6)?),
        _ => state_of(&state, reason, delivery, campaign),
    };
    let (kept, live): (Option<String>, Option<String>) = (row.get(7)?, row.get(14)?);
    Ok(Member {
        person: Person { platform: row.get(0)?, user_id: row.get(1)? },
        account_id: AccountId(row.get(2)?),
        state: told,
        code,
        provider_message_id: live.or(kept),
        at: rows::time(row, 15)?.or(rows::time(row, 8)?),
        variant: row.get(9)?,
        generation: row.get(10)?,
    })
}

fn select(tx: &Tx<'_>, workspace: WorkspaceId, id: Option<i64>) -> Result<Vec<Campaign>> {
    let mut found = tx.all(SELECT, (workspace.0, id), |row| campaign(row, workspace))?;
    for known in &mut found {
        known.variants = tx.all(SELECT_VARIANTS, [known.campaign_id.0], |row| {
            Ok(Variant { name: row.get(0)?, weight: row.get(1)?, message_id: MessageId(row.get(2)?) })
        })?;
    }
    Ok(found)
}

pub(super) fn one(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId) -> Result<Campaign> {
    let found = select(tx, workspace, Some(id.0))?.pop();
    found.ok_or_else(|| StoreError::not_found("campaign", id))
}

fn campaign(row: &Row<'_>, workspace_id: WorkspaceId) -> rusqlite::Result<Campaign> {
    let accounts: Value = rows::json(row, 7)?;
    let accounts = accounts.as_array().into_iter().flatten().filter_map(Value::as_i64);
    Ok(Campaign {
        campaign_id: CampaignId(row.get(0)?),
        workspace_id,
        name: row.get(1)?,
        status: rows::word(row, 2, CampaignStatus::parse)?,
        why: row.get(3)?,
        version: row.get(4)?,
        ends_as: rows::word(row, 5, CampaignStatus::parse)?,
        audience_id: row.get::<_, Option<i64>>(6)?.map(AudienceId),
        accounts: accounts.map(AccountId).collect(),
        settings: rows::json(row, 8)?,
        seed: row.get(9)?,
        revision: row.get(10)?,
        wave: row.get(11)?,
        retries: rows::json(row, 12)?,
        at: Person { platform: row.get(13)?, user_id: row.get(14)? },
        min_gap: Span(row.get(15)?),
        starts_at: rows::time(row, 16)?,
        deadline: rows::time(row, 17)?,
        created_at: Timestamp(row.get(18)?),
        started_at: rows::time(row, 19)?,
        frozen_at: rows::time(row, 20)?,
        ended_at: rows::time(row, 21)?,
        rest_at: rows::time(row, 22)?,
        variants: Vec::new(),
    })
}

pub(super) fn tell(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId, mut detail: Value) -> Result<()> {
    detail["campaign"] = json!(id.0);
    let workspace_id = workspace.0;
    event(tx, NewEvent { workspace_id, name: "campaign_changed", detail, ..NewEvent::default() })
}

/// The one way from state to state.
pub(super) fn move_to(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: CampaignId,
    version: i64,
    next: CampaignStatus,
    why: &str,
) -> Result<bool> {
    let known = one(tx, workspace, id)?;
    let unfrozen = next == CampaignStatus::Running && known.frozen_at.is_none();
    let incomplete = next == CampaignStatus::Finished
        && !counts(tx, workspace, id)?.is_some_and(|counts| counts.are_complete());
    if known.version != version || !known.status.may_become(next) || unfrozen || incomplete {
        return Ok(false);
    }
    let row = (id.0, version, next.as_str(), (!why.is_empty()).then_some(why), tx.now.0);
    tx.execute(MOVE, row)?;
    refresh(tx, &tx.all(OPEN_LANES, (id.0, next.is_open()), |row| row.get(0))?)?;
    tell(tx, workspace, id, json!({"name": known.name, "from": known.status, "to": next, "why": why}))?;
    if known.frozen_at.is_some() {
        note(tx, workspace, id)?;
    }
    Ok(true)
}

pub(super) fn refresh(tx: &Tx<'_>, lanes: &[i64]) -> Result<()> {
    let mut touched = Touched::default();
    for lane in lanes {
        touched.lane(*lane);
    }
    touched.refresh(tx)
}

fn imported(tx: &Tx<'_>, audience: Option<AudienceId>) -> Result<Option<i64>> {
    let Some(id) = audience else {
        return Ok(None);
    };
    let is_imported: bool = tx.first(IS_IMPORTED, [id.0], |row| row.get(0))?.unwrap_or(false);
    Ok(is_imported.then_some(id.0))
}

/// Somebody on one of the accounts.
struct Candidate {
    recipient_id: i64,
    account_id: i64,
    person: Person,
    zone: String,
    reason: Option<String>,
}

fn freeze(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId, step: &FreezeStep) -> Result<bool> {
    let known = one(tx, workspace, id)?;
    if known.status != CampaignStatus::Preparing || known.frozen_at.is_some() {
        return Ok(known.frozen_at.is_some());
    }
    if known.at != step.after {
        return Ok(false);
    }
    let from = (workspace.0, &step.after.platform, &step.after.user_id, FREEZE_MAX as i64 - 1);
    let person = |row: &Row<'_>| Ok(Person { platform: row.get(0)?, user_id: row.get(1)? });
    let (upto, is_last) = match &step.upto {
        Some(upto) => (Some(upto.clone()), step.is_last),
        None if step.is_last => (None, true),
        None => {
            let upto = tx.first(UPTO, from, person)?;
            let is_last = upto.is_none();
            (upto, is_last)
        }
    };
    let at = match upto {
        Some(upto) => upto,
        None => tx.first(LAST, [workspace.0], person)?.unwrap_or_default().max(step.after.clone()),
    };
    let chosen = candidates(tx, &known, step, &at)?;
    let (total, excluded) = write_members(tx, &known, step, &chosen)?;
    tx.execute(FROZEN, (id.0, total, excluded, at.platform, at.user_id, is_last, tx.now.0))?;
    if is_last {
        tell(tx, workspace, id, json!({"name": known.name, "frozen": true}))?;
    }
    Ok(is_last)
}

/// One row a person: the first account by preference on which they can be written to, else the first at all.
fn candidates(tx: &Tx<'_>, known: &Campaign, step: &FreezeStep, upto: &Person) -> Result<Vec<Candidate>> {
    let preference: HashMap<i64, usize> =
        known.accounts.iter().enumerate().map(|(n, id)| (id.0, n)).collect();
    let left_out: HashSet<i64> = step.left_out.iter().map(|id| id.0).collect();
    let missing: HashSet<i64> = step.missing.iter().map(|id| id.0).collect();
    let gap_from = (tx.now - known.min_gap).0;
    let params = (
        known.workspace_id.0,
        &step.after.platform,
        &step.after.user_id,
        &upto.platform,
        &upto.user_id,
        rows::id_list(known.accounts.iter().map(|id| id.0)),
        imported(tx, known.audience_id)?,
    );
    let mut chosen: Vec<Candidate> = Vec::new();
    tx.each(TO_FREEZE, params, |row| {
        let recipient_id: i64 = row.get(0)?;
        if left_out.contains(&recipient_id) {
            return Ok(());
        }
        let reason: Option<String> = row.get(5)?;
        let too_soon = known.min_gap.0 > 0 && row.get::<_, i64>(6)? > gap_from;
        let new = Candidate {
            recipient_id,
            account_id: row.get(1)?,
            person: Person { platform: row.get(2)?, user_id: row.get(3)? },
            zone: if step.by_zone { row.get(4)? } else { String::new() },
            reason: reason
                .or_else(|| missing.contains(&recipient_id).then(|| "missing_attribute".to_owned()))
                .or_else(|| too_soon.then(|| "too_soon".to_owned())),
        };
        match chosen.last_mut() {
            Some(last) if last.person == new.person => {
                let rank = |one: &Candidate| (one.reason.is_some(), preference.get(&one.account_id).copied());
                if rank(&new) < rank(last) {
                    *last = new;
                }
            }
            _ => chosen.push(new),
        }
        Ok(())
    })?;
    Ok(chosen)
}

fn write_members(
    tx: &Tx<'_>,
    known: &Campaign,
    step: &FreezeStep,
    chosen: &[Candidate],
) -> Result<(i64, i64)> {
    let (workspace, id) = (known.workspace_id.0, known.campaign_id.0);
    let weights: Vec<i32> = known.variants.iter().map(|variant| variant.weight).collect();
    let mut cohorts: HashMap<(i64, &str, &str), (i64, i64)> = HashMap::new();
    let mut reasons: BTreeMap<&str, i64> = BTreeMap::new();
    for one in chosen {
        let user_id = &one.person.user_id;
        let is_canary = step.canary > 0 && lot(&known.seed, user_id, "stage") < step.canary;
        let stage = if is_canary { "first" } else { "rest" };
        let variant = match weights.len() {
            1 => 0,
            _ => variant_of(lot(&known.seed, user_id, "variant"), &weights),
        };
        let cohort = match &one.reason {
            Some(reason) => {
                *reasons.entry(reason).or_default() += 1;
                None
            }
            None => {
                let key = (one.account_id, one.zone.as_str(), stage);
                let cohort = match cohorts.entry(key) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let row = (workspace, id, one.account_id, &one.zone, stage);
                        let made: Option<i64> = tx.first(PUT_COHORT, row, |row| row.get(0))?;
                        new.insert((made.unwrap_or_default(), 0))
                    }
                };
                cohort.1 += 1;
                Some(cohort.0)
            }
        };
        let state = if one.reason.is_some() { "excluded" } else { "waiting" };
        let (platform, reason) = (&one.person.platform, &one.reason);
        let row = (
            workspace,
            id,
            cohort,
            one.recipient_id,
            one.account_id,
            platform,
            user_id,
            variant,
            state,
            reason,
        );
        tx.execute(INSERT_MEMBER, row)?;
    }
    for (cohort, n) in cohorts.values() {
        tx.execute(COUNT_COHORT, (cohort, n))?;
    }
    for (reason, n) in &reasons {
        tx.execute(COUNT_CODE, (workspace, id, reason, n))?;
    }
    Ok((chosen.len() as i64, reasons.values().sum()))
}
