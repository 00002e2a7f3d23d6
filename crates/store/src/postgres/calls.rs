//! Calls to a shop's own services: each verb is one call of an SQL function (functions/calls.sql).

use domain::ids::{AccountId, BotId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Again, As, Postgres, rows};
use crate::calls::*;
use crate::error::Result;

const CLAIM: &str = "
SELECT workspace_id, outbox_id, recipient_id, platform, bot_id, account_id, service, fields, tries, key
  FROM bot_claim_calls($1, $2, $3)";
const NEXT: &str = "SELECT bot_next_call()";
const SETTLE: &str = "SELECT bot_settle_call($1, $2, $3, $4, $5, $6, $7)";

pub(super) const STATEMENTS: &[&str] = &[CLAIM, NEXT, SETTLE];

impl Postgres {
    /// Not done again: the calls of an unanswered COMMIT come back when their lease ends.
    pub async fn bot_claim_calls(
        &self,
        limit: usize,
        lease: Span,
        busy: Vec<String>,
    ) -> Result<Vec<ServiceCall>> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let params: [&(dyn ToSql + Sync); 3] = [&limit, &lease.0, &busy];
        let rows = self.all(As::Dispatcher, Again::Never, CLAIM, &params).await?;
        Ok(rows.iter().map(call).collect())
    }

    pub async fn bot_next_call(&self) -> Result<Option<Timestamp>> {
        let row = self.one(As::Dispatcher, Again::Safe, NEXT, &[]).await?;
        Ok(rows::time(&row, 0))
    }

    /// Done again after an unanswered COMMIT it finds that it is done, and `false` is said of it.
    pub async fn bot_settle_call(&self, call: &ServiceCall, end: CallEnd) -> Result<bool> {
        let (status, after, reason, event): (&str, Option<i64>, Option<String>, Option<Value>) = match end {
            CallEnd::Again { after, reason } => ("waiting", Some(after.0), Some(reason), None),
            CallEnd::Over { event, failed: None } => ("done", None, None, Some(event)),
            CallEnd::Over { event, failed } => ("failed", None, failed, Some(event)),
        };
        let (ws, id, tries) = (call.workspace_id, call.outbox_id, call.tries);
        let params: [&(dyn ToSql + Sync); 7] = [&ws.0, &id, &tries, &status, &after, &reason, &event];
        let settled: bool = self.one(As::App(ws), Again::Safe, SETTLE, &params).await?.get(0);
        if settled {
            self.ring();
        }
        Ok(settled)
    }
}

fn call(row: &Row) -> ServiceCall {
    ServiceCall {
        workspace_id: WorkspaceId(row.get(0)),
        outbox_id: row.get(1),
        recipient_id: RecipientId(row.get(2)),
        platform: row.get(3),
        bot_id: row.get::<_, Option<i64>>(4).map(BotId),
        account_id: row.get::<_, Option<i64>>(5).map(AccountId),
        service: row.get(6),
        fields: row.get(7),
        tries: row.get(8),
        key: row.get(9),
    }
}
