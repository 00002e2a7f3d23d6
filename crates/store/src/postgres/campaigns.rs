//! A campaign and its life: made, frozen, moved from state to state and told.
//! What moves its deliveries stands in `feed`, how far it is in `progress`; the rules are in functions/campaigns.sql.

use domain::campaign::CampaignStatus;
use domain::ids::{AccountId, AudienceId, CampaignId, MessageId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::recipients::{recipient, recipient_columns};
use super::rows::Time;
use super::{Again, As, Postgres, rows};
use crate::campaigns::*;
use crate::error::{Result, StoreError};

const INSERT: &str = "
WITH made AS (
    INSERT INTO campaigns (workspace_id, name, audience_id, accounts, settings, seed, min_gap_us, deadline_us, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, rupor_now())
    ON CONFLICT DO NOTHING
    RETURNING campaign_id
), variants AS (
    INSERT INTO campaign_variants (workspace_id, campaign_id, variant, name, weight, message_id)
    SELECT $1, m.campaign_id, v.ord - 1, v.name, v.weight, v.message_id
      FROM made AS m
     CROSS JOIN unnest($9::text[], $10::integer[], $11::bigint[]) WITH ORDINALITY AS v (name, weight, message_id, ord)
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'campaign_changed',
           jsonb_build_object('campaign', m.campaign_id, 'name', $2::text, 'to', 'draft') FROM made AS m
)
SELECT campaign_id FROM made";
const SELECT: &str = "
SELECT k.campaign_id, k.name, k.status, k.why, k.version, k.ends_as, k.audience_id, k.accounts, k.settings, k.seed, k.revision,
       k.wave, k.retries, k.at_platform, k.at_user, k.min_gap_us, k.starts_at, k.deadline, k.created_at, k.started_at,
       k.frozen_at, k.ended_at, k.rest_at, v.names, v.weights, v.messages, k.resting,
       k.judged_from
  FROM campaigns AS k
 CROSS JOIN LATERAL (SELECT array_agg(x.name ORDER BY x.variant) AS names, array_agg(x.weight ORDER BY x.variant) AS weights,
                            array_agg(x.message_id ORDER BY x.variant) AS messages
                       FROM campaign_variants AS x WHERE x.campaign_id = k.campaign_id) AS v
 WHERE k.workspace_id = $1
 ORDER BY k.campaign_id";
const MOVE: &str = "SELECT move_campaign($1, $2, $3, $4, $5)";
const SCHEDULE: &str = "SELECT move_campaign($1, $2, $3, 'scheduled', '', $4)";
const ABORT: &str = "SELECT move_campaign($1, $2, $3, 'cancelling', $4, NULL, 'aborted')";
const REST: &str = "SELECT let_rest_follow($1, $2, $3)";
const PEOPLE: &str = concat!(
    "SELECT ",
    recipient_columns!(),
    ", EXISTS (SELECT FROM suppressions AS s
                WHERE s.workspace_id = r.workspace_id AND s.platform = r.platform AND s.user_id = r.user_id
                  AND s.account_id IN (0, r.account_id))
  FROM recipients AS r
 WHERE r.workspace_id = $1 AND (r.platform, r.user_id) > ($2, $3) AND r.status <> 'known' AND r.account_id = ANY ($4)
   AND (NOT EXISTS (SELECT FROM audiences AS a WHERE a.audience_id = $5 AND a.filter IS NULL)
        OR EXISTS (SELECT FROM audience_recipients AS a WHERE a.audience_id = $5 AND a.recipient_id = r.recipient_id))
 ORDER BY r.platform, r.user_id, r.account_id
 LIMIT $6"
);
const FREEZE: &str = "SELECT freeze_campaign($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const REST_PART: &str = "SELECT rest_part($1, $2, $3, $4)";
const JUDGE_FROM: &str = "SELECT judge_campaign_from($1, $2, $3, $4)";
const COOLDOWNS: &str = "
SELECT count(*) FROM events AS e WHERE e.name = 'cooldown' AND e.account_id = $2 AND e.at > $3 AND e.workspace_id = $1";
const PACE: &str = "SELECT pace_campaign($1, $2, $3, $4, $5)";
const MEMBERS: &str = "
SELECT m.platform, m.user_id, m.account_id, m.state, m.reason, m.outcome, m.code, m.provider_message_id, m.at, m.variant,
       m.generation, d.status, d.reason, d.last_error ->> 'code', d.provider_message_id,
       coalesce(d.ended_at, d.queued_at), k.status
  FROM campaign_recipients AS m
  JOIN campaigns AS k ON k.campaign_id = m.campaign_id
  LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
 WHERE m.workspace_id = $1 AND m.campaign_id = $2 AND (m.platform, m.user_id) > ($3, $4)
 ORDER BY m.platform, m.user_id
 LIMIT $5";

pub(super) const STATEMENTS: &[&str] = &[
    INSERT, SELECT, MOVE, SCHEDULE, ABORT, REST, REST_PART, JUDGE_FROM, COOLDOWNS, PEOPLE, FREEZE, PACE,
    MEMBERS,
];

impl Postgres {
    pub async fn create_campaign(&self, workspace: WorkspaceId, new: NewCampaign) -> Result<CampaignId> {
        let accounts = json!(new.accounts);
        let audience = new.audience_id.map(|id| id.0);
        let names: Vec<&str> = new.variants.iter().map(|variant| variant.name.as_str()).collect();
        let weights: Vec<i32> = new.variants.iter().map(|variant| variant.weight).collect();
        let messages: Vec<i64> = new.variants.iter().map(|variant| variant.message_id.0).collect();
        let params: [&(dyn ToSql + Sync); 11] = [
            &workspace.0,
            &new.name,
            &audience,
            &accounts,
            &new.settings,
            &new.seed,
            &new.min_gap.0,
            &new.deadline.0,
            &names,
            &weights,
            &messages,
        ];
        let row = self.first(As::App(workspace), Again::Never, INSERT, &params).await?;
        let exists = || StoreError::Exists { what: "campaign", name: new.name.clone() };
        Ok(CampaignId(row.ok_or_else(exists)?.get(0)))
    }

    pub async fn campaigns(&self, workspace: WorkspaceId) -> Result<Vec<Campaign>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT, &[&workspace.0]).await?;
        rows.iter().map(|row| campaign(row, workspace)).collect()
    }

    pub async fn move_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        next: CampaignStatus,
        why: &str,
    ) -> Result<bool> {
        let next = next.as_str();
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &id.0, &version, &next, &why];
        let moved = self.one(As::App(workspace), Again::Never, MOVE, &params).await?.get(0);
        self.ring();
        Ok(moved)
    }

    pub async fn schedule_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        starts_at: Timestamp,
    ) -> Result<bool> {
        let starts_at = Time(starts_at);
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &version, &starts_at];
        Ok(self.one(As::App(workspace), Again::Never, SCHEDULE, &params).await?.get(0))
    }

    pub async fn abort_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        why: &str,
    ) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &version, &why];
        Ok(self.one(As::App(workspace), Again::Never, ABORT, &params).await?.get(0))
    }

    pub async fn rest_part(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        account: AccountId,
        why: Option<&str>,
    ) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &account.0, &why];
        self.one(As::App(workspace), Again::Safe, REST_PART, &params).await?;
        self.ring();
        Ok(())
    }

    pub async fn cooldowns_since(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        since: Timestamp,
    ) -> Result<i64> {
        let since = Time(since);
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &account.0, &since];
        Ok(self.one(As::App(workspace), Again::Safe, COOLDOWNS, &params).await?.get(0))
    }

    pub async fn let_rest_follow(&self, workspace: WorkspaceId, id: CampaignId, at: Timestamp) -> Result<()> {
        let at = Time(at);
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &at];
        self.one(As::App(workspace), Again::Safe, REST, &params).await.map(drop)
    }

    pub async fn judge_campaign_from(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        ended: Value,
    ) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &version, &ended];
        self.one(As::App(workspace), Again::Safe, JUDGE_FROM, &params).await.map(drop)
    }

    pub async fn people_in_order(
        &self,
        workspace: WorkspaceId,
        accounts: Vec<AccountId>,
        audience: Option<AudienceId>,
        after: Person,
        limit: usize,
    ) -> Result<PeoplePage> {
        let accounts: Vec<i64> = accounts.iter().map(|id| id.0).collect();
        let (audience, n) = (audience.map(|id| id.0), limit as i64);
        let params: [&(dyn ToSql + Sync); 6] =
            [&workspace.0, &after.platform, &after.user_id, &accounts, &audience, &n];
        let rows = self.all(As::App(workspace), Again::Safe, PEOPLE, &params).await?;
        let people = rows.iter().map(|row| Ok((recipient(row)?, row.get(15)))).collect::<Result<_>>()?;
        Ok(PeoplePage::of(people, limit))
    }

    /// Doing it twice is doing it once: the second time it does not stand where it did.
    pub async fn freeze_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        step: FreezeStep,
    ) -> Result<bool> {
        let (platform, user) = match &step.upto {
            Some(upto) => (Some(&upto.platform), Some(&upto.user_id)),
            None => (None, None),
        };
        let left_out: Vec<i64> = step.left_out.iter().map(|id| id.0).collect();
        let missing: Vec<i64> = step.missing.iter().map(|id| id.0).collect();
        let (rows, at_once) = (FREEZE_MAX as i64, AT_ONCE_MAX as i64);
        let params: [&(dyn ToSql + Sync); 13] = [
            &workspace.0,
            &id.0,
            &step.after.platform,
            &step.after.user_id,
            &platform,
            &user,
            &step.is_last,
            &left_out,
            &missing,
            &step.canary,
            &step.by_zone,
            &rows,
            &at_once,
        ];
        Ok(self.one(As::App(workspace), Again::Safe, FREEZE, &params).await?.get(0))
    }

    pub async fn pace_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        account: AccountId,
        pace: CampaignPace,
    ) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &id.0, &account.0, &pace.rate, &pace.paid];
        self.one(As::App(workspace), Again::Safe, PACE, &params).await.map(drop)
    }

    pub async fn campaign_members(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        after: Person,
        limit: usize,
    ) -> Result<Vec<Member>> {
        let limit = limit as i64;
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &id.0, &after.platform, &after.user_id, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, MEMBERS, &params).await?;
        rows.iter().map(member).collect()
    }
}

fn member(row: &Row) -> Result<Member> {
    let status: Option<String> = row.get(11);
    let delivery = status.map(|status| (status, row.get(12), row.get(13)));
    let (state, reason): (String, Option<String>) = (row.get(3), row.get(4));
    let campaign = rows::word(row, 16, CampaignStatus::parse)?;
    let settled: Option<String> = row.get(5);
    let (told, code) = match settled {
        Some(outcome) if state == "settled" => (outcome, row.get(6)),
        _ => state_of(&state, reason, delivery, campaign),
    };
    let (kept, live): (Option<String>, Option<String>) = (row.get(7), row.get(14));
    Ok(Member {
        person: Person { platform: row.get(0), user_id: row.get(1) },
        account_id: AccountId(row.get(2)),
        state: told,
        code,
        provider_message_id: live.or(kept),
        at: rows::time(row, 15).or(rows::time(row, 8)),
        variant: row.get(9),
        generation: row.get(10),
    })
}

fn campaign(row: &Row, workspace_id: WorkspaceId) -> Result<Campaign> {
    let accounts: Value = row.get(7);
    let accounts = accounts.as_array().into_iter().flatten().filter_map(Value::as_i64);
    let names: Option<Vec<String>> = row.get(23);
    let (weights, messages): (Option<Vec<i32>>, Option<Vec<i64>>) = (row.get(24), row.get(25));
    let variants = names.unwrap_or_default().into_iter().zip(weights.unwrap_or_default());
    let variants = variants.zip(messages.unwrap_or_default());
    Ok(Campaign {
        campaign_id: CampaignId(row.get(0)),
        workspace_id,
        name: row.get(1),
        status: rows::word(row, 2, CampaignStatus::parse)?,
        why: row.get(3),
        version: row.get(4),
        ends_as: rows::word(row, 5, CampaignStatus::parse)?,
        audience_id: row.get::<_, Option<i64>>(6).map(AudienceId),
        accounts: accounts.map(AccountId).collect(),
        settings: row.get(8),
        seed: row.get(9),
        revision: row.get(10),
        wave: row.get(11),
        retries: row.get(12),
        at: Person { platform: row.get(13), user_id: row.get(14) },
        min_gap: Span(row.get(15)),
        starts_at: rows::time(row, 16),
        deadline: rows::time(row, 17),
        created_at: rows::at(row, 18),
        started_at: rows::time(row, 19),
        frozen_at: rows::time(row, 20),
        ended_at: rows::time(row, 21),
        rest_at: rows::time(row, 22),
        resting: resting(&row.get(26)),
        resumed: resumed(&row.get(26)),
        judged_from: row.get(27),
        variants: variants
            .map(|((name, weight), id)| Variant { name, weight, message_id: MessageId(id) })
            .collect(),
    })
}
