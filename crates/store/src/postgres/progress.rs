//! How far a campaign is: maintained counters, and what they were before.

use std::collections::BTreeMap;

use domain::ids::{AccountId, CampaignId, CohortId, WorkspaceId};
use domain::time::Span;
use tokio_postgres::types::ToSql;

use super::{Again, As, Postgres, rows};
use crate::campaigns::*;
use crate::error::{Result, StoreError};

const COUNTS: &str = "
SELECT total, waiting, queued, retry, in_flight, sent, failed, dead, excluded FROM campaign_counts($1, $2)";
const EXCLUSIONS: &str = "SELECT code, n FROM campaign_codes WHERE workspace_id = $1 AND campaign_id = $2";
const COHORTS: &str = "
SELECT c.cohort_id, c.account_id, c.zone, c.stage, c.n_total, c.n_waiting, h.n_queued + h.n_retry + h.n_sending, h.n_sent
  FROM campaign_cohorts AS c
  JOIN lane_heads AS h ON h.campaign_id = c.campaign_id AND h.account_id = c.account_id
 WHERE c.workspace_id = $1 AND c.campaign_id = $2
 ORDER BY c.cohort_id";
const NOTE: &str = "SELECT note_progress($1, $2, $3)";
const PROGRESS: &str = "
SELECT p.at, p.waiting, p.on_their_way, p.sent, p.failed, p.dead, p.excluded
  FROM campaign_progress AS p
 WHERE p.workspace_id = $1 AND p.campaign_id = $2
 ORDER BY p.at DESC
 LIMIT $3";

pub(super) const STATEMENTS: &[&str] = &[COUNTS, EXCLUSIONS, COHORTS, NOTE, PROGRESS];

impl Postgres {
    pub async fn campaign_counts(&self, workspace: WorkspaceId, id: CampaignId) -> Result<CampaignCounts> {
        let row = self.one(As::App(workspace), Again::Safe, COUNTS, &[&workspace.0, &id.0]).await?;
        let total: Option<i64> = row.get(0);
        Ok(CampaignCounts {
            total: total.ok_or_else(|| StoreError::not_found("campaign", id))?,
            waiting: row.get(1),
            queued: row.get(2),
            retry: row.get(3),
            in_flight: row.get(4),
            sent: row.get(5),
            failed: row.get(6),
            dead: row.get(7),
            excluded: row.get(8),
        })
    }

    pub async fn campaign_codes(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
    ) -> Result<BTreeMap<String, i64>> {
        let rows = self.all(As::App(workspace), Again::Safe, EXCLUSIONS, &[&workspace.0, &id.0]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    pub async fn campaign_cohorts(&self, workspace: WorkspaceId, id: CampaignId) -> Result<Vec<Cohort>> {
        let rows = self.all(As::App(workspace), Again::Safe, COHORTS, &[&workspace.0, &id.0]).await?;
        Ok(rows
            .iter()
            .map(|row| Cohort {
                cohort_id: CohortId(row.get(0)),
                account_id: AccountId(row.get(1)),
                zone: row.get(2),
                stage: row.get(3),
                total: row.get(4),
                waiting: row.get(5),
                lane_holds: row.get(6),
                lane_sent: row.get(7),
            })
            .collect())
    }

    pub async fn note_progress(&self, workspace: WorkspaceId, id: CampaignId, every: Span) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &every.0];
        self.one(As::App(workspace), Again::Safe, NOTE, &params).await.map(drop)
    }

    pub async fn campaign_progress(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        limit: usize,
    ) -> Result<Vec<CampaignNote>> {
        let limit = limit as i64;
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, PROGRESS, &params).await?;
        let note = |row: &tokio_postgres::Row| CampaignNote {
            at: rows::at(row, 0),
            waiting: row.get(1),
            on_their_way: row.get(2),
            sent: row.get(3),
            failed: row.get(4),
            dead: row.get(5),
            excluded: row.get(6),
        };
        Ok(rows.iter().rev().map(note).collect())
    }
}
