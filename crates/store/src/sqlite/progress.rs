//! How far a campaign is: maintained counters, and what they were before.

use std::collections::BTreeMap;

use domain::ids::{AccountId, CampaignId, CohortId, WorkspaceId};
use domain::time::{Span, Timestamp};

use super::{Sqlite, Tx, Urgency};
use crate::campaigns::*;
use crate::error::{Result, StoreError};

/// One statement, so that all of it is of one moment.
const COUNTS: &str = "
SELECT k.n_total, (SELECT coalesce(sum(c.n_waiting), 0) FROM campaign_cohorts AS c WHERE c.campaign_id = k.campaign_id),
       coalesce(sum(h.n_queued), 0), coalesce(sum(h.n_retry), 0), coalesce(sum(h.n_sending), 0), coalesce(sum(h.n_sent), 0),
       coalesce(sum(h.n_failed), 0) - k.n_failed_again, coalesce(sum(h.n_dead), 0) - k.n_dead_again, k.n_excluded, k.status
  FROM campaigns AS k LEFT JOIN lane_heads AS h ON h.campaign_id = k.campaign_id
 WHERE k.workspace_id = ?1 AND k.campaign_id = ?2
 GROUP BY k.campaign_id";
const EXCLUSIONS: &str = "SELECT code, n FROM campaign_codes WHERE workspace_id = ?1 AND campaign_id = ?2";
const COHORTS: &str = "
SELECT c.cohort_id, c.account_id, c.zone, c.stage, c.n_total, c.n_waiting, h.n_queued + h.n_retry + h.n_sending, h.n_sent
  FROM campaign_cohorts AS c
  JOIN lane_heads AS h ON h.campaign_id = c.campaign_id AND h.account_id = c.account_id
 WHERE c.workspace_id = ?1 AND c.campaign_id = ?2
 ORDER BY c.cohort_id";
const NOTED_SINCE: &str = "SELECT 1 FROM campaign_progress WHERE campaign_id = ?1 AND at > ?2 LIMIT 1";
const NOTE: &str = "
INSERT OR REPLACE INTO campaign_progress (workspace_id, campaign_id, at, waiting, on_their_way, sent, failed, dead, excluded)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const PROGRESS: &str = "
SELECT at, waiting, on_their_way, sent, failed, dead, excluded
  FROM campaign_progress
 WHERE workspace_id = ?1 AND campaign_id = ?2
 ORDER BY at DESC
 LIMIT ?3";

impl Sqlite {
    pub async fn campaign_counts(&self, workspace: WorkspaceId, id: CampaignId) -> Result<CampaignCounts> {
        let found = self.read(move |tx| counts(tx, workspace, id)).await?;
        found.ok_or_else(|| StoreError::not_found("campaign", id))
    }

    pub async fn campaign_codes(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
    ) -> Result<BTreeMap<String, i64>> {
        let found = self
            .read(move |tx| tx.all(EXCLUSIONS, (workspace.0, id.0), |row| Ok((row.get(0)?, row.get(1)?))));
        Ok(found.await?.into_iter().collect())
    }

    pub async fn campaign_cohorts(&self, workspace: WorkspaceId, id: CampaignId) -> Result<Vec<Cohort>> {
        self.read(move |tx| {
            tx.all(COHORTS, (workspace.0, id.0), |row| {
                Ok(Cohort {
                    cohort_id: CohortId(row.get(0)?),
                    account_id: AccountId(row.get(1)?),
                    zone: row.get(2)?,
                    stage: row.get(3)?,
                    total: row.get(4)?,
                    waiting: row.get(5)?,
                    lane_holds: row.get(6)?,
                    lane_sent: row.get(7)?,
                })
            })
        })
        .await
    }

    pub async fn note_progress(&self, workspace: WorkspaceId, id: CampaignId, every: Span) -> Result<()> {
        let noted = move |tx: &Tx<'_>| {
            tx.first(NOTED_SINCE, (id.0, (tx.now - every).0), |_| Ok(())).map(|row| row.is_some())
        };
        if self.read(noted).await? {
            return Ok(());
        }
        self.write(Urgency::Maintenance, move |tx| match noted(tx)? {
            true => Ok(()),
            false => note(tx, workspace, id),
        })
        .await
    }

    pub async fn campaign_progress(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        limit: usize,
    ) -> Result<Vec<CampaignNote>> {
        let key = (workspace.0, id.0, limit as i64);
        let found = self.read(move |tx| {
            tx.all(PROGRESS, key, |row| {
                Ok(CampaignNote {
                    at: Timestamp(row.get(0)?),
                    waiting: row.get(1)?,
                    on_their_way: row.get(2)?,
                    sent: row.get(3)?,
                    failed: row.get(4)?,
                    dead: row.get(5)?,
                    excluded: row.get(6)?,
                })
            })
        });
        let mut found = found.await?;
        found.reverse();
        Ok(found)
    }
}

/// How far it is now, beside what it was before.
pub(super) fn note(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId) -> Result<()> {
    let Some(now) = counts(tx, workspace, id)? else {
        return Ok(());
    };
    let row = (
        workspace.0,
        id.0,
        tx.now.0,
        now.waiting,
        now.on_their_way(),
        now.sent,
        now.failed,
        now.dead,
        now.excluded,
    );
    tx.execute(NOTE, row).map(drop)
}

pub(super) fn counts(tx: &Tx<'_>, workspace: WorkspaceId, id: CampaignId) -> Result<Option<CampaignCounts>> {
    tx.first(COUNTS, (workspace.0, id.0), |row| {
        Ok(CampaignCounts {
            total: row.get(0)?,
            waiting: row.get(1)?,
            queued: row.get(2)?,
            retry: row.get(3)?,
            in_flight: row.get(4)?,
            sent: row.get(5)?,
            failed: row.get(6)?,
            dead: row.get(7)?,
            excluded: row.get(8)?,
        })
    })
}
