//! The mailbox of the bot: every verb is one call of an SQL function (functions/bot.sql).

use domain::ids::{AccountId, BotId, ChannelId, ClaimToken, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use super::claim::NOT_AT_ONCE;
use super::enqueue::items;
use super::rows::Time;
use super::{Again, As, Postgres, Query, rows};
use crate::bot::*;
use crate::calls::NewCall;
use crate::error::{Result, StoreError};

const RECEIVE: &str = "SELECT bot_receive($1, $2, $3, $4, $5, $6)";
const CLAIM: &str = "
SELECT workspace_id, account_id, recipient_id, bot_id, operators_id, rules_version, platform, user_id, attributes, token,
       version, mode, state, timer_at, events
  FROM bot_claim_turns($1, $2, $3)";
const NEXT: &str = "SELECT bot_next_turn()";
const COMMIT: &str = "SELECT bot_commit_turns($1, $2)";

const DECISIONS: &str = "SELECT workspace_id, account_id, inbox_id, body FROM bot_decisions($1)";
const DECIDED: &str = "SELECT bot_decided($1, $2, $3)";

pub(super) const STATEMENTS: &[&str] = &[RECEIVE, CLAIM, NEXT, COMMIT, DECISIONS, DECIDED];

impl Postgres {
    /// The platform's keys make it safe to do again.
    pub async fn bot_receive(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        updates: Vec<Update>,
        polled: Option<Polled>,
    ) -> Result<Received> {
        let items = Value::Array(updates.iter().map(Update::item).collect());
        let (owner, cursor) = match &polled {
            Some(polled) => (Some(polled.owner.as_str()), polled.cursor.as_deref()),
            None => (None, None),
        };
        let params: [&(dyn ToSql + Sync); 6] =
            [&workspace.0, &account.0, &items, &owner, &cursor, &BOT_WAITING_MAX];
        let row = self.one(As::App(workspace), Again::Safe, RECEIVE, &params).await?;
        let Some(fresh) = row.get::<_, Option<i32>>(0) else {
            return Ok(Received::Full);
        };
        if fresh > 0 {
            self.ring();
        }
        Ok(Received::Taken { fresh: fresh.unsigned_abs() })
    }

    /// Not done again: the turns of an unanswered COMMIT come back when their lease ends. It need not wait for the disk:
    /// of a claim that the server forgets in a crash the token is forgotten too, and its turn cannot be committed.
    pub async fn bot_claim_turns(&self, limit: usize, lease: Span) -> Result<Vec<Turn>> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let not_at_once = Query { sql: NOT_AT_ONCE, params: &[] };
        let claim = Query { sql: CLAIM, params: &[&limit, &lease.0, &BOT_EVENTS_MAX] };
        let answers = self.run(As::Dispatcher, Again::Never, &[not_at_once, claim]).await?;
        answers.last().into_iter().flatten().map(turn).collect()
    }

    pub async fn bot_next_turn(&self) -> Result<Option<Timestamp>> {
        let row = self.one(As::Dispatcher, Again::Safe, NEXT, &[]).await?;
        Ok(rows::time(&row, 0))
    }

    pub async fn bot_decisions(&self, limit: usize) -> Result<Vec<WaitingDecision>> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows = self.all(As::Dispatcher, Again::Safe, DECISIONS, &[&limit]).await?;
        let decision = |row: &Row| WaitingDecision {
            workspace_id: WorkspaceId(row.get(0)),
            account_id: AccountId(row.get(1)),
            inbox_id: row.get(2),
            body: row.get::<_, Option<Value>>(3).unwrap_or_default(),
        };
        Ok(rows.iter().map(decision).collect())
    }

    pub async fn bot_decided(&self, workspace: WorkspaceId, inbox_id: i64, verdict: &str) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &inbox_id, &verdict];
        Ok(self.one(As::App(workspace), Again::Safe, DECIDED, &params).await?.get(0))
    }

    /// Done again after an unanswered COMMIT it finds that it is done: the turn is nobody's then, and `false` is said of it.
    pub async fn bot_commit_turns(&self, workspace: WorkspaceId, turns: Vec<TurnTaken>) -> Result<Vec<bool>> {
        let items = Json(Value::Array(turns.iter().map(item).collect::<Result<_>>()?));
        let row = self.one(As::App(workspace), Again::Safe, COMMIT, &[&workspace.0, &items]).await?;
        self.ring();
        Ok(row.get(0))
    }
}

/// As an item of `bot_commit_turns`.
pub(crate) fn item(turn: &TurnTaken) -> Result<Value> {
    let unfit = |error: serde_json::Error| StoreError::invalid("bot turn", error.to_string());
    let numbers = turn.numbers();
    let mut says = Vec::with_capacity(turn.says.len());
    for (say, n) in turn.says.iter().zip(&numbers) {
        let message = turn.message(say, *n);
        let message = items(std::slice::from_ref(&message)).pop();
        let message = serde_json::to_value(message).map_err(unfit)?;
        says.push(json!({"event": say.event, "n": n, "channel": say.channel, "message": message}));
    }
    let call = |(call, n): (&NewCall, &i32)| json!({"event": call.event, "n": n, "service": call.service, "fields": call.fields});
    let calls: Vec<Value> = turn.calls.iter().zip(&numbers[turn.says.len()..]).map(call).collect();
    let events: Vec<Value> =
        turn.events.iter().map(|(id, verdict)| json!({"inbox_id": id, "verdict": verdict})).collect();
    Ok(json!({
        "recipient_id": turn.recipient_id,
        "token": turn.token,
        "version": turn.version,
        "rules_version": turn.rules_version,
        "mode": turn.mode.as_str(),
        "state": turn.state,
        "timer_at": turn.timer_at.map(|at| at.0),
        "fired": turn.fired,
        "status": turn.subscription.map(|(status, _)| status.as_str()),
        "status_why": turn.subscription.map(|(_, why)| why),
        "ambiguity": turn.ambiguity.as_str(),
        "events": events,
        "says": says,
        "calls": calls,
        "logs": turn.logs,
    }))
}

fn turn(row: &Row) -> Result<Turn> {
    let events: Value = row.get(14);
    let events = serde_json::from_value(events)
        .map_err(|error| StoreError::Database(format!("bot_claim_turns answered {error}")))?;
    Ok(Turn {
        workspace_id: WorkspaceId(row.get(0)),
        account_id: AccountId(row.get(1)),
        recipient_id: RecipientId(row.get(2)),
        bot_id: row.get::<_, Option<i64>>(3).map(BotId),
        operators: row.get::<_, Option<i64>>(4).map(ChannelId),
        rules_version: row.get(5),
        platform: row.get(6),
        user_id: row.get(7),
        attributes: row.get(8),
        token: ClaimToken(row.get(9)),
        version: row.get(10),
        mode: rows::word(row, 11, DialogueMode::parse)?,
        state: row.get(12),
        timer_at: row.get::<_, Option<Time>>(13).map(|Time(at)| at),
        events,
    })
}
