//! What moves the deliveries of a campaign: functions/campaigns.sql holds the rules.

use std::collections::HashMap;

use domain::ids::{CampaignId, CohortId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use tokio_postgres::types::{Json, ToSql};

use super::rows::Time;
use super::{Again, As, Postgres};
use crate::campaigns::*;
use crate::error::Result;

const FEED: &str = "SELECT queued, excluded FROM feed_campaign($1, $2, $3, $4, $5)";
const RECALL: &str = "SELECT recall_campaign($1, $2, $3)";
const SHUT: &str = "SELECT shut_cohorts($1, $2, $3, $4, $5)";
const END_RETRIES: &str = "SELECT end_retries($1, $2, $3)";
const BEGIN_WAVE: &str = "SELECT move_campaign($1, $2, $3, 'preparing', 'a new wave', NULL, NULL, $4::jsonb)";
const ANYBODY_AGAIN: &str = "SELECT anybody_again($1, $2, $3::jsonb)";
const PREPARE_WAVE: &str = "SELECT prepare_wave($1, $2, $3)";
const EDIT: &str = "SELECT edit_campaign($1, $2, $3, $4, $5)";

pub(super) const STATEMENTS: &[&str] =
    &[FEED, RECALL, SHUT, END_RETRIES, BEGIN_WAVE, ANYBODY_AGAIN, PREPARE_WAVE, EDIT];

impl Postgres {
    /// An unanswered COMMIT is looked at by whoever feeds next: the cursor tells.
    pub async fn feed_campaign(
        &self,
        workspace: WorkspaceId,
        cohort: CohortId,
        urgent: bool,
        ahead: i64,
    ) -> Result<Fed> {
        let step = FEED_MAX as i64;
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &cohort.0, &urgent, &step, &ahead];
        let row = self.one(As::App(workspace), Again::Never, FEED, &params).await?;
        let (queued, excluded): (i64, i64) = (row.get(0), row.get(1));
        if queued > 0 {
            self.ring();
        }
        Ok(Fed { queued: queued.unsigned_abs(), excluded: excluded.unsigned_abs() })
    }

    pub async fn recall_campaign(&self, workspace: WorkspaceId, id: CampaignId) -> Result<u64> {
        let step = FEED_MAX as i64;
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &step];
        let row = self.one(As::App(workspace), Again::Safe, RECALL, &params).await?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    pub async fn shut_cohorts(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        until: HashMap<CohortId, Timestamp>,
    ) -> Result<u64> {
        let (cohorts, until): (Vec<i64>, Vec<Time>) =
            until.into_iter().map(|(cohort, until)| (cohort.0, Time(until))).unzip();
        let step = FEED_MAX as i64;
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &id.0, &cohorts, &until, &step];
        let row = self.one(As::App(workspace), Again::Safe, SHUT, &params).await?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    pub async fn end_retries(&self, workspace: WorkspaceId, id: CampaignId) -> Result<u64> {
        let step = FEED_MAX as i64;
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &step];
        let row = self.one(As::App(workspace), Again::Safe, END_RETRIES, &params).await?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    pub async fn begin_wave(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        retries: Retries,
    ) -> Result<bool> {
        let retries = Json(retries);
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &version, &retries];
        Ok(self.one(As::App(workspace), Again::Never, BEGIN_WAVE, &params).await?.get(0))
    }

    pub async fn anybody_again(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        retries: Retries,
    ) -> Result<bool> {
        let retries = Json(retries);
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &retries];
        Ok(self.one(As::App(workspace), Again::Safe, ANYBODY_AGAIN, &params).await?.get(0))
    }

    pub async fn prepare_wave(&self, workspace: WorkspaceId, id: CampaignId) -> Result<bool> {
        let step = FREEZE_MAX as i64;
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &step];
        Ok(self.one(As::App(workspace), Again::Safe, PREPARE_WAVE, &params).await?.get(0))
    }

    pub async fn edit_campaign(
        &self,
        workspace: WorkspaceId,
        id: CampaignId,
        version: i64,
        variant: i32,
        message: MessageId,
    ) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &id.0, &version, &variant, &message.0];
        Ok(self.one(As::App(workspace), Again::Never, EDIT, &params).await?.get(0))
    }
}
