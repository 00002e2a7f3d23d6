//! A campaign and its life: made, frozen, moved from state to state and told.
//! What moves its deliveries stands in `feed`, who gets it in `freeze`, how far it is in `progress`.

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, AudienceId, CampaignId, MessageId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use serde_json::{Value, json};

use super::freeze::freeze;
use super::heads::{NewEvent, Touched, event};
use super::progress::{counts, note};
use super::recipients::{COLUMNS, recipient};
use super::{Sqlite, Tx, Urgency, rows};
use crate::campaigns::*;
use crate::error::{Result, StoreError};

const INSERT: &str = "
INSERT INTO campaigns (workspace_id, name, audience_id, accounts, settings, seed, min_gap_us, deadline_us, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO NOTHING";
const INSERT_VARIANT: &str = "
INSERT INTO campaign_variants (workspace_id, campaign_id, variant, name, weight, message_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const SELECT: &str = "
SELECT campaign_id, name, status, why, version, ends_as, audience_id, accounts, settings, seed, revision, wave, retries,
       at_platform, at_user, min_gap_us, starts_at, deadline, created_at, started_at, frozen_at, ended_at, rest_at,
       resting, judged_from
  FROM campaigns
 WHERE workspace_id = ?1 AND (?2 IS NULL OR campaign_id = ?2)
 ORDER BY campaign_id";
const SELECT_VARIANTS: &str = "
SELECT name, weight, message_id FROM campaign_variants WHERE campaign_id = ?1 ORDER BY variant";
/// A wave has a deadline of its own; who goes on after a pause has the one it had.
const MOVE: &str = "
UPDATE campaigns
   SET status = ?3, why = ?4, version = version + 1,
       started_at = CASE WHEN ?3 = 'preparing' THEN coalesce(started_at, ?5) ELSE started_at END,
       deadline = CASE WHEN ?3 = 'preparing' AND status <> 'paused' THEN ?5 + nullif(deadline_us, 0) ELSE deadline END,
       ends_as = CASE WHEN ?3 = 'preparing' THEN 'cancelled' ELSE ends_as END,
       ended_at = CASE WHEN ?3 IN ('finished', 'cancelled', 'aborted') THEN ?5 END
 WHERE campaign_id = ?1 AND version = ?2";
const SCHEDULE: &str = "UPDATE campaigns SET starts_at = ?2 WHERE campaign_id = ?1";
const REST_AT: &str = "
UPDATE campaigns SET rest_at = ?3 WHERE workspace_id = ?1 AND campaign_id = ?2 AND rest_at IS NULL";
const ENDS_AS: &str = "UPDATE campaigns SET ends_as = ?2 WHERE campaign_id = ?1";
/// The part of an account may rest while the others go on.
const OPEN_LANES: &str = "
UPDATE lane_heads AS h
   SET open = ?2 AND NOT EXISTS (SELECT 1 FROM campaigns AS k, json_each(k.resting) AS r
                                  WHERE k.campaign_id = ?1 AND r.type = 'text'
                                    AND r.key = CAST(h.account_id AS TEXT))
 WHERE h.campaign_id = ?1
RETURNING lane_id";
const JUDGE_FROM: &str = "
UPDATE campaigns SET judged_from = ?4 WHERE workspace_id = ?1 AND campaign_id = ?2 AND version = ?3";
const REST_PART: &str = "
UPDATE campaigns
   SET resting = json_set(resting, '$.\"' || ?3 || '\"', coalesce(?4, ?5))
 WHERE workspace_id = ?1 AND campaign_id = ?2";
const COOLDOWNS: &str = "
SELECT count(*) FROM events WHERE name = 'cooldown' AND account_id = ?2 AND at > ?3 AND workspace_id = ?1";
const SUPPRESSED: &str = "
EXISTS (SELECT 1 FROM suppressions AS s
         WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
           AND s.account_id IN (0, r.account_id))";
const IS_IMPORTED: &str = "SELECT filter IS NULL FROM audiences WHERE audience_id = ?1";
pub(super) const COUNT_CODE: &str = "
INSERT INTO campaign_codes (workspace_id, campaign_id, code, n) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET n = n + excluded.n";
/// There are only so many kinds: what comes after them counts as another one, also when it is taken away again.
const COUNT_ENDING: &str = "
INSERT INTO campaign_codes (workspace_id, campaign_id, code, n)
SELECT ?1, ?2,
       CASE WHEN EXISTS (SELECT 1 FROM campaign_codes WHERE campaign_id = ?2 AND code = ?3)
                 OR (SELECT count(*) FROM campaign_codes WHERE campaign_id = ?2) < ?5 THEN ?3 ELSE ?4 END,
       ?6
 WHERE TRUE
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
   SET interval_us = ?4, next_slot = min(next_slot, ?5 + ?4), paid = ?6
 WHERE workspace_id = ?1 AND campaign_id = ?2 AND account_id = ?3 AND (interval_us, paid) <> (?4, ?6)
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
                new.deadline.0,
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

    pub async fn rest_part(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        account: AccountId,
        why: Option<&str>,
    ) -> Result<()> {
        let why = why.map(str::to_owned);
        self.write(Urgency::Maintenance, move |tx| {
            let known = one(tx, workspace, id)?;
            tx.execute(REST_PART, (workspace.0, id.0, account.0, &why, tx.now.0))?;
            refresh(tx, &tx.all(OPEN_LANES, (id.0, known.status.is_open()), |row| row.get(0))?)?;
            tell(tx, workspace, id, json!({"name": known.name, "account": account.0, "rests": why}))
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn cooldowns_since(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        since: Timestamp,
    ) -> Result<i64> {
        let key = (workspace.0, account.0, since.0);
        Ok(self.read(move |tx| tx.first(COOLDOWNS, key, |row| row.get(0))).await?.unwrap_or(0))
    }

    pub async fn let_rest_follow(&self, workspace: WorkspaceId, id: CampaignId, at: Timestamp) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| tx.execute(REST_AT, (workspace.0, id.0, at.0)).map(drop))
            .await
    }

    pub async fn judge_campaign_from(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        ended: Value,
    ) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            tx.execute(JUDGE_FROM, (workspace.0, id.0, version, ended.to_string())).map(drop)
        })
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
        pace: CampaignPace,
    ) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            let interval = domain::pacing::interval(pace.rate).micros();
            let params = (workspace.0, id.0, account.0, interval, tx.now.0, pace.paid);
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
        resting: resting(&rows::json(row, 23)?),
        resumed: resumed(&rows::json(row, 23)?),
        judged_from: rows::json(row, 24)?,
        variants: Vec::new(),
    })
}

pub(super) fn tell(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId, mut detail: Value) -> Result<()> {
    detail["campaign"] = json!(id.0);
    let workspace_id = workspace.0;
    event(tx, NewEvent { workspace_id, name: "campaign_changed", detail, ..NewEvent::default() })
}

/// One more who ended so, or one less who is tried anew.
pub(super) fn count_sending(
    tx: &Tx<'_>,
    workspace: i64,
    campaign: i64,
    (reason, code): (&str, Option<&str>),
    n: i64,
) -> Result<()> {
    let (kind, other) = (ending(reason, code), ending(reason, Some(OTHER)));
    tx.execute(COUNT_ENDING, (workspace, campaign, kind, other, CODES_MAX, n)).map(drop)
}

/// How somebody ended without the sending having a word in it.
pub(super) fn count_ending(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    id: CampaignId,
    reason: &str,
    n: i64,
) -> Result<()> {
    tx.execute(COUNT_CODE, (workspace.0, id.0, format!("{ENDED}{reason}"), n)).map(drop)
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

pub(super) fn imported(tx: &Tx<'_>, audience: Option<AudienceId>) -> Result<Option<i64>> {
    let Some(id) = audience else {
        return Ok(None);
    };
    let is_imported: bool = tx.first(IS_IMPORTED, [id.0], |row| row.get(0))?.unwrap_or(false);
    Ok(is_imported.then_some(id.0))
}
