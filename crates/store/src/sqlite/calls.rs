//! Calls to a shop's own services: claimed like turns, settled together with the event that tells the dialogue.

use domain::ids::{AccountId, BotId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};

use super::bot::{INSERT_EVENT, WAKE};
use super::{Sqlite, Urgency, rows};
use crate::bot::BOT_COUNTED_MAX;
use crate::calls::*;
use crate::error::Result;

/// Why the try before failed goes: a call that is being made is one that was tried and has no reason to wait.
const TAKE: &str = "
UPDATE bot_outbox
   SET tries = tries + 1, due_at = ?2, reason = NULL
 WHERE outbox_id IN (SELECT o.outbox_id FROM bot_outbox AS o
                      WHERE o.status = 'waiting' AND o.due_at <= ?1
                        AND NOT EXISTS (SELECT 1 FROM json_each(?3) AS b WHERE b.value = o.bot_id || '/' || o.service)
                      ORDER BY o.due_at, o.outbox_id
                      LIMIT ?4)
RETURNING outbox_id";
/// Named by the event and its place among what that asked for: the id of a row that was forgotten may be given again.
const SELECT_CALL: &str = "
SELECT o.workspace_id, o.outbox_id, o.recipient_id, r.platform, o.bot_id,
       (SELECT json_extract(b.services, '$.\"' || o.service || '\"') FROM bots AS b WHERE b.bot_id = o.bot_id),
       o.service, o.fields, o.tries, c.history || '.call.' || o.inbox_id || '.' || o.n
  FROM bot_outbox AS o
  JOIN recipients AS r ON r.recipient_id = o.recipient_id
  CROSS JOIN control AS c
 WHERE o.outbox_id = ?1";
const AGAIN: &str = "
UPDATE bot_outbox
   SET due_at = ?4, reason = ?5
 WHERE workspace_id = ?1 AND outbox_id = ?2 AND tries = ?3 AND recipient_id = ?6 AND status = 'waiting'";
const OVER: &str = "
UPDATE bot_outbox
   SET status = ?4, reason = ?5, fields = NULL, due_at = NULL
 WHERE workspace_id = ?1 AND outbox_id = ?2 AND tries = ?3 AND recipient_id = ?6 AND status = 'waiting'";
const EVENT_KEY: &str = "SELECT 'call:' || inbox_id || '.' || n FROM bot_outbox WHERE outbox_id = ?1";
const NEXT: &str = "SELECT min(due_at) FROM bot_outbox WHERE status = 'waiting'";
const FIGURES: &str = "
SELECT f.bot_id, f.service, f.last_at, f.calls, f.failures, f.waiting,
       (SELECT o.reason FROM bot_outbox AS o WHERE o.outbox_id = f.told)
  FROM (SELECT c.bot_id, c.service, max(c.created_at) AS last_at, count(CASE WHEN c.created_at > ?2 THEN 1 END) AS calls,
               count(CASE WHEN c.created_at > ?2 AND c.status = 'failed' THEN 1 END) AS failures,
               count(CASE c.status WHEN 'waiting' THEN 1 END) AS waiting,
               max(CASE WHEN c.reason IS NOT NULL THEN c.outbox_id END) AS told
          FROM (SELECT outbox_id, bot_id, service, created_at, status, reason FROM bot_outbox
                 WHERE workspace_id = ?1 AND kind = 'call' ORDER BY outbox_id DESC LIMIT ?3) AS c
         WHERE c.bot_id IS NOT NULL
         GROUP BY c.bot_id, c.service) AS f
 ORDER BY f.bot_id, f.service";
const ACCOUNT: &str = "SELECT account_id FROM recipients WHERE recipient_id = ?1";

impl Sqlite {
    pub async fn bot_claim_calls(
        &self,
        limit: usize,
        lease: Span,
        busy: Vec<String>,
    ) -> Result<Vec<ServiceCall>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let busy = serde_json::json!(busy).to_string();
        self.write(Urgency::Claim, move |tx| {
            let mut due =
                tx.all(TAKE, (tx.now.0, (tx.now + lease).0, busy, limit), |row| row.get::<_, i64>(0))?;
            due.sort_unstable();
            let call = |id: i64| {
                tx.first(SELECT_CALL, [id], |row| {
                    Ok(ServiceCall {
                        workspace_id: WorkspaceId(row.get(0)?),
                        outbox_id: row.get(1)?,
                        recipient_id: RecipientId(row.get(2)?),
                        platform: row.get(3)?,
                        bot_id: row.get::<_, Option<i64>>(4)?.map(BotId),
                        account_id: row.get::<_, Option<i64>>(5)?.map(AccountId),
                        service: row.get(6)?,
                        fields: rows::json(row, 7)?,
                        tries: row.get(8)?,
                        key: row.get(9)?,
                    })
                })
            };
            due.into_iter().filter_map(|id| call(id).transpose()).collect()
        })
        .await
    }

    pub async fn bot_services(&self, workspace: WorkspaceId, since: Span) -> Result<Vec<ServiceFigures>> {
        self.read(move |tx| {
            tx.all(FIGURES, (workspace.0, (tx.now - since).0, BOT_COUNTED_MAX), |row| {
                Ok(ServiceFigures {
                    bot_id: BotId(row.get(0)?),
                    service: row.get(1)?,
                    last_at: Timestamp(row.get(2)?),
                    calls: row.get(3)?,
                    failures: row.get(4)?,
                    waiting: row.get(5)?,
                    reason: row.get(6)?,
                })
            })
        })
        .await
    }

    pub async fn bot_next_call(&self) -> Result<Option<Timestamp>> {
        let next = self.read(|tx| tx.first(NEXT, [], |row| row.get::<_, Option<i64>>(0))).await?;
        Ok(next.flatten().map(Timestamp))
    }

    pub async fn bot_settle_call(&self, call: &ServiceCall, end: CallEnd) -> Result<bool> {
        let (ws, id, tries, who) = (call.workspace_id.0, call.outbox_id, call.tries, call.recipient_id.0);
        let settled = self.write(Urgency::Outcome, move |tx| {
            let (event, failed) = match end {
                CallEnd::Again { after, reason } => {
                    return Ok(tx.execute(AGAIN, (ws, id, tries, (tx.now + after).0, reason, who))? == 1);
                }
                CallEnd::Over { event, failed } => (event, failed),
            };
            let status = if failed.is_some() { "failed" } else { "done" };
            if tx.execute(OVER, (ws, id, tries, status, failed, who))? == 0 {
                return Ok(false);
            }
            let Some(account) = tx.first(ACCOUNT, [who], |row| row.get::<_, i64>(0))? else {
                return Ok(false);
            };
            let key: Option<String> = tx.first(EVENT_KEY, [id], |row| row.get(0))?;
            let now = tx.now.0;
            let (open, verdict) = (None::<i64>, None::<String>);
            let row = (ws, account, who, key, "answer", event.to_string(), now, now, open, verdict);
            tx.execute(INSERT_EVENT, row)?;
            tx.execute(WAKE, (who, now))?;
            Ok(true)
        });
        let settled = settled.await?;
        if settled {
            self.bell.ring();
        }
        Ok(settled)
    }
}
