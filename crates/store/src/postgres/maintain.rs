//! What operators and the janitor do: requeue, cancel, retention.

use domain::ids::{DeliveryId, WorkspaceId};

use super::{Again, As, Postgres};
use crate::error::{Result, StoreError};
use crate::queue::{Removed, Retention, Walk, Whose};

const REQUEUE: &str = "SELECT requeue_deliveries($1, $2)";
const CANCEL: &str = "SELECT cancel_deliveries($1, $2)";
const RETAIN: &str = "
SELECT deliveries, messages, events, dedup, cases, case_keys, runs, lanes, next_walk
  FROM retain_rows($1, rupor_span($2), rupor_span($3), rupor_span($4), $5, $6)";

pub(super) const STATEMENTS: &[&str] = &[REQUEUE, CANCEL, RETAIN];

impl Postgres {
    pub async fn requeue(&self, workspace: WorkspaceId, ids: Vec<DeliveryId>) -> Result<Vec<DeliveryId>> {
        let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
        let row = self.one(As::App(workspace), Again::Never, REQUEUE, &[&workspace.0, &ids]).await?;
        let requeued: Vec<i64> = row.get(0);
        self.ring();
        Ok(requeued.into_iter().map(DeliveryId).collect())
    }

    pub async fn cancel(&self, workspace: WorkspaceId, ids: Vec<DeliveryId>) -> Result<Vec<bool>> {
        let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
        Ok(self.one(As::App(workspace), Again::Never, CANCEL, &[&workspace.0, &ids]).await?.get(0))
    }

    pub async fn retain(
        &self,
        whose: Whose,
        keep: Retention,
        limit: usize,
        walk: Walk,
    ) -> Result<(Removed, Walk)> {
        let workspace = match whose {
            Whose::Workspace(id) => Some(id.0),
            Whose::Everyone => None,
        };
        let limit = i32::try_from(limit.max(1)).unwrap_or(i32::MAX);
        let walk = serde_json::json!(walk);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&workspace, &keep.deliveries.0, &keep.deduped.0, &keep.events.0, &limit, &walk];
        let row = self.one(As::from(whose), Again::Safe, RETAIN, &params).await?;
        let count = |column: usize| row.get::<_, i64>(column).unsigned_abs();
        let removed = Removed {
            deliveries: count(0),
            messages: count(1),
            events: count(2),
            dedup: count(3),
            cases: count(4),
            case_keys: count(5),
            runs: count(6),
            lanes: count(7),
        };
        let next = serde_json::from_value(row.get(8))
            .map_err(|error| StoreError::Database(format!("retain_rows answered {error}")))?;
        Ok((removed, next))
    }
}
