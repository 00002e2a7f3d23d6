//! Calls to a shop's own services: each verb is one call of an SQL function (functions/calls.sql).

use domain::ids::{AccountId, BotId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Again, As, Postgres, rows};
use crate::bot::BOT_COUNTED_MAX;
use crate::calls::*;
use crate::error::Result;

const CLAIM: &str = "
SELECT workspace_id, outbox_id, recipient_id, platform, bot_id, account_id, service, fields, tries, key
  FROM bot_claim_calls($1, $2, $3)";
const NEXT: &str = "SELECT bot_next_call()";
const SETTLE: &str = "SELECT bot_settle_call($1, $2, $3, $4, $5, $6, $7)";

const FIGURES: &str = "
SELECT c.bot_id, c.service, max(c.created_at), count(*) FILTER (WHERE c.created_at > rupor_now() - rupor_span($2)),
       count(*) FILTER (WHERE c.created_at > rupor_now() - rupor_span($2) AND c.status = 'failed'),
       count(*) FILTER (WHERE c.status = 'waiting'),
       (array_agg(c.reason ORDER BY c.outbox_id DESC) FILTER (WHERE c.reason IS NOT NULL))[1]
  FROM (SELECT outbox_id, bot_id, service, created_at, status, reason FROM bot_outbox
         WHERE workspace_id = $1 AND kind = 'call' ORDER BY outbox_id DESC LIMIT $3) AS c
 WHERE c.bot_id IS NOT NULL
 GROUP BY c.bot_id, c.service
 ORDER BY c.bot_id, c.service COLLATE \"C\"";

pub(super) const STATEMENTS: &[&str] = &[CLAIM, NEXT, SETTLE, FIGURES];

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

    pub async fn bot_services(&self, workspace: WorkspaceId, since: Span) -> Result<Vec<ServiceFigures>> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &since.0, &BOT_COUNTED_MAX];
        let rows = self.all(As::App(workspace), Again::Safe, FIGURES, &params).await?;
        let figures = |row: &Row| ServiceFigures {
            bot_id: BotId(row.get(0)),
            service: row.get(1),
            last_at: rows::at(row, 2),
            calls: row.get(3),
            failures: row.get(4),
            waiting: row.get(5),
            reason: row.get(6),
        };
        Ok(rows.iter().map(figures).collect())
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
