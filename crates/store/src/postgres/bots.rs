//! The rows around the mailbox: bots, how their accounts hear, versions of rules, logs, figures, and forgetting.

use std::collections::BTreeMap;

use domain::ids::{AccountId, BotId, ChannelId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::rows::Time;
use super::{Again, As, Postgres, Query, rows};
use crate::bot::*;
use crate::bot_log::{BotLog, BotSkipped};
use crate::error::{Result, StoreError};
use crate::queue::BotWalk;

/// Unlike SQLite all of it is one statement: it is sent and answered at once.
const PUT_BOT: &str = "
WITH bot AS (
    INSERT INTO bots (workspace_id, name, operators_id, services) VALUES ($1, $2, $3, $6)
    ON CONFLICT (workspace_id, name) DO UPDATE SET operators_id = excluded.operators_id, services = excluded.services
    RETURNING bot_id
), rested AS (
    UPDATE bot_accounts AS a
       SET bot_id = NULL, owner = NULL, leased_until = 'epoch'
      FROM bot
     WHERE a.workspace_id = $1 AND a.bot_id = bot.bot_id AND a.account_id <> ALL ($4)
), listening AS (
    INSERT INTO bot_accounts (account_id, workspace_id, bot_id, receive)
    SELECT a.account_id, $1, bot.bot_id, $5 FROM bot CROSS JOIN unnest($4::bigint[]) AS a (account_id) ORDER BY a.account_id
    ON CONFLICT (account_id) DO UPDATE SET bot_id = excluded.bot_id, receive = excluded.receive
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('bot', bot.bot_id, 'name', $2::text) FROM bot
)
SELECT bot_id FROM bot";
const REST: &str = "
UPDATE bot_accounts SET bot_id = NULL, owner = NULL, leased_until = 'epoch' WHERE workspace_id = $1 AND bot_id = $2";
const TELL: &str =
    "INSERT INTO events (workspace_id, at, name, detail) VALUES ($1, rupor_now(), 'config_changed', $2)";
const SELECT_BOTS: &str = "
SELECT bot_id, name, operators_id, active_version, services FROM bots WHERE workspace_id = $1 ORDER BY name, bot_id";
const SELECT_ACCOUNTS: &str = "
SELECT bot_id, account_id, receive, hook_key, heard_at, problem
  FROM bot_accounts
 WHERE workspace_id = $1 AND bot_id IS NOT NULL
 ORDER BY account_id";
/// The row of the bot is held, so that two who change its rules get two versions.
const PUT_RULES: &str = "
WITH bot AS (
    SELECT b.bot_id, b.active_version FROM bots AS b WHERE b.workspace_id = $1 AND b.bot_id = $2 FOR UPDATE
), same AS (
    SELECT bot.active_version AS version
      FROM bot JOIN bot_rules AS r ON r.bot_id = bot.bot_id AND r.version = bot.active_version
     WHERE r.rules = $3
), made AS (
    INSERT INTO bot_rules (workspace_id, bot_id, version, rules)
    SELECT $1, bot.bot_id, coalesce((SELECT max(r.version) FROM bot_rules AS r WHERE r.bot_id = bot.bot_id), 0) + 1, $3
      FROM bot
     WHERE NOT EXISTS (SELECT FROM same)
    RETURNING version
), active AS (
    UPDATE bots AS b SET active_version = made.version FROM made WHERE b.bot_id = $2
), told AS (
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT $1, rupor_now(), 'config_changed', jsonb_build_object('bot', $2::bigint, 'version', made.version) FROM made
)
SELECT version FROM made UNION ALL SELECT version FROM same";
const SELECT_RULES: &str = "
SELECT version, rules, created_at FROM bot_rules WHERE workspace_id = $1 AND bot_id = $2 ORDER BY version DESC";
const ACTIVATE: &str = "
UPDATE bots AS b SET active_version = $3, operators_id = $4
 WHERE b.workspace_id = $1 AND b.bot_id = $2
   AND EXISTS (SELECT FROM bot_rules AS r WHERE r.bot_id = $2 AND r.version = $3)
RETURNING b.bot_id";
const STANDING: &str = "
SELECT coalesce(s.state ->> 'name', '') AS name, count(*)
  FROM bot_state AS s JOIN bot_accounts AS a ON a.account_id = s.account_id
 WHERE s.workspace_id = $1 AND a.bot_id = $2
 GROUP BY name
 ORDER BY name";
const SET_HOOK: &str = "
UPDATE bot_accounts SET hook_key = $3, hook_secret_hash = $4, hook_settings = $5
 WHERE workspace_id = $1 AND account_id = $2
RETURNING account_id";
const HOOK: &str = "SELECT workspace_id, account_id, hook_secret_hash, hook_settings FROM bot_hook($1)";
const LEASE: &str = "SELECT workspace_id, account_id, cursor FROM bot_lease_accounts($1, $2, $3)";
const KEEP: &str = "
UPDATE bot_accounts
   SET leased_until = rupor_now() + rupor_span($4)
 WHERE workspace_id = $1 AND account_id = $2 AND owner = $3 AND bot_id IS NOT NULL AND receive = 'poll'
RETURNING account_id";
const PROBLEM: &str = "UPDATE bot_accounts SET problem = $3 WHERE workspace_id = $1 AND account_id = $2";
const SNAPSHOT: &str = "
SELECT waiting, oldest, handoffs, handoffs_waiting, handoff_since, turns, fallbacks, errors
  FROM bot_snapshot($1, rupor_span($2), $3)";
const FORGET: &str = "SELECT bot_forget($1, $2, $3)";
const SELECT_CHATS: &str = "
SELECT account_id, chat, title, seen_at, left_at FROM bot_chats WHERE workspace_id = $1 ORDER BY account_id, chat";
const SELECT_LOGS: &str = "
SELECT l.log_id, l.account_id, l.recipient_id, l.inbox_id, l.at, l.version, l.rule, l.verdict, l.detail, i.body, i.happened_at
  FROM bot_logs AS l LEFT JOIN bot_inbox AS i ON i.inbox_id = l.inbox_id
 WHERE l.workspace_id = $1 AND l.at >= $2 AND l.log_id > $3 AND ($5::bigint IS NULL OR l.recipient_id = $5)
 ORDER BY l.log_id
 LIMIT $4";
const SELECT_SKIPPED: &str = "
SELECT inbox_id, account_id, received_at, kind, verdict
  FROM bot_inbox
 WHERE workspace_id = $1 AND recipient_id IS NULL AND done_at IS NOT NULL AND inbox_id > $3 AND received_at >= $2
 ORDER BY inbox_id
 LIMIT $4";
/// Among the last of the channel; a delivery of several messages names them all.
const DIALOGUE_OF: &str = "
SELECT o.recipient_id
  FROM (SELECT d.delivery_id, d.provider_message_id
          FROM deliveries AS d JOIN lane_heads AS h ON h.lane_id = d.lane_id
         WHERE h.channel_id = $2 AND d.workspace_id = $1
         ORDER BY d.delivery_id DESC
         LIMIT 5000) AS d
  JOIN bot_outbox AS o ON o.delivery_id = d.delivery_id
 WHERE $3 = ANY (string_to_array(d.provider_message_id, ','))
 ORDER BY d.delivery_id DESC
 LIMIT 1";
const RETAIN: &str = "
SELECT changed, next_words, next_keys FROM bot_retain(rupor_span($1), rupor_span($2), $3, $4, $5)";

pub(super) const STATEMENTS: &[&str] = &[
    PUT_BOT,
    REST,
    TELL,
    SELECT_BOTS,
    SELECT_ACCOUNTS,
    PUT_RULES,
    SELECT_RULES,
    ACTIVATE,
    STANDING,
    SET_HOOK,
    HOOK,
    LEASE,
    KEEP,
    PROBLEM,
    SNAPSHOT,
    FORGET,
    SELECT_CHATS,
    SELECT_LOGS,
    SELECT_SKIPPED,
    DIALOGUE_OF,
    RETAIN,
];

impl Postgres {
    pub async fn put_bot(&self, workspace: WorkspaceId, new: NewBot) -> Result<BotId> {
        let accounts: Vec<i64> = new.accounts.iter().map(|id| id.0).collect();
        let (operators, receive) = (new.operators.map(|id| id.0), new.receive.as_str());
        let services = json!(new.services);
        let params: [&(dyn ToSql + Sync); 6] =
            [&workspace.0, &new.name, &operators, &accounts, &receive, &services];
        let row = self.one(As::App(workspace), Again::Safe, PUT_BOT, &params).await?;
        Ok(BotId(row.get(0)))
    }

    pub async fn bots(&self, workspace: WorkspaceId) -> Result<Vec<Bot>> {
        let params: [&(dyn ToSql + Sync); 1] = [&workspace.0];
        let ask = |sql| Query { sql, params: &params };
        let asked = [ask(SELECT_ACCOUNTS), ask(SELECT_BOTS)];
        let answers = self.run(As::App(workspace), Again::Safe, &asked).await?;
        let [heard, bots] = answers.as_slice() else {
            return Err(StoreError::Database("two questions had another number of answers".into()));
        };
        let mut accounts: BTreeMap<i64, Vec<BotAccount>> = BTreeMap::new();
        for row in heard {
            accounts.entry(row.get(0)).or_default().push(bot_account(row)?);
        }
        let bot = |row: &Row| {
            let id = row.get(0);
            Bot {
                bot_id: BotId(id),
                name: row.get(1),
                operators: row.get::<_, Option<i64>>(2).map(ChannelId),
                active_version: row.get(3),
                accounts: accounts.remove(&id).unwrap_or_default(),
                services: serde_json::from_value(row.get(4)).unwrap_or_default(),
            }
        };
        Ok(bots.iter().map(bot).collect())
    }

    pub async fn rest_bot(&self, workspace: WorkspaceId, id: BotId) -> Result<()> {
        let detail = json!({"bot": id, "accounts": []});
        let (rest, tell): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 2]) =
            ([&workspace.0, &id.0], [&workspace.0, &detail]);
        let queries = [Query { sql: REST, params: &rest }, Query { sql: TELL, params: &tell }];
        self.run(As::App(workspace), Again::Safe, &queries).await.map(drop)
    }

    pub async fn put_bot_rules(&self, workspace: WorkspaceId, id: BotId, rules: &str) -> Result<i32> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.0, &rules];
        let row = self.first(As::App(workspace), Again::Safe, PUT_RULES, &params).await?;
        Ok(row.ok_or_else(|| StoreError::not_found("bot", id))?.get(0))
    }

    pub async fn bot_rules(&self, workspace: WorkspaceId, id: BotId) -> Result<Vec<BotRules>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_RULES, &[&workspace.0, &id.0]).await?;
        let rules =
            |row: &Row| BotRules { version: row.get(0), rules: row.get(1), created_at: rows::at(row, 2) };
        Ok(rows.iter().map(rules).collect())
    }

    pub async fn activate_bot_rules(
        &self,
        workspace: WorkspaceId,
        id: BotId,
        version: i32,
        operators: Option<ChannelId>,
    ) -> Result<()> {
        let operators = operators.map(|id| id.0);
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &id.0, &version, &operators];
        let row = self.first(As::App(workspace), Again::Safe, ACTIVATE, &params).await?;
        row.ok_or_else(|| StoreError::not_found("version of the rules", version))?;
        let detail = json!({"bot": id, "version": version});
        self.all(As::App(workspace), Again::Safe, TELL, &[&workspace.0, &detail]).await.map(drop)
    }

    pub async fn bot_standing(&self, workspace: WorkspaceId, id: BotId) -> Result<Vec<(String, i64)>> {
        let rows = self.all(As::App(workspace), Again::Safe, STANDING, &[&workspace.0, &id.0]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    pub async fn set_bot_hook(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        key: &str,
        secret_hash: Option<&str>,
        settings: Value,
    ) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &account.0, &key, &secret_hash, &settings];
        let row = self.first(As::App(workspace), Again::Safe, SET_HOOK, &params).await?;
        row.ok_or_else(|| StoreError::unknown_account(account))?;
        let detail = json!({"account": account, "webhook": "changed"});
        self.all(As::App(workspace), Again::Safe, TELL, &[&workspace.0, &detail]).await.map(drop)
    }

    pub async fn bot_hook(&self, key: &str) -> Result<Option<BotHook>> {
        let row = self.first(As::Dispatcher, Again::Safe, HOOK, &[&key]).await?;
        Ok(row.map(|row| BotHook {
            workspace_id: WorkspaceId(row.get(0)),
            account_id: AccountId(row.get(1)),
            secret_hash: row.get(2),
            settings: row.get(3),
        }))
    }

    pub async fn lease_bot_accounts(
        &self,
        owner: &str,
        lease: Span,
        limit: usize,
    ) -> Result<Vec<LeasedAccount>> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows = self.all(As::Dispatcher, Again::Never, LEASE, &[&owner, &lease.0, &limit]).await?;
        let leased = |row: &Row| LeasedAccount {
            workspace_id: WorkspaceId(row.get(0)),
            account_id: AccountId(row.get(1)),
            cursor: row.get(2),
        };
        Ok(rows.iter().map(leased).collect())
    }

    pub async fn keep_bot_account(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        owner: &str,
        lease: Span,
    ) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &account.0, &owner, &lease.0];
        Ok(self.first(As::App(workspace), Again::Safe, KEEP, &params).await?.is_some())
    }

    pub async fn bot_account_problem(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        problem: Option<&str>,
    ) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &account.0, &problem];
        self.all(As::App(workspace), Again::Safe, PROBLEM, &params).await.map(drop)
    }

    pub async fn bot_snapshot(&self, workspace: WorkspaceId, since: Span) -> Result<BotSnapshot> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &since.0, &BOT_COUNTED_MAX];
        let row = self.one(As::App(workspace), Again::Safe, SNAPSHOT, &params).await?;
        Ok(BotSnapshot {
            waiting: row.get(0),
            oldest: rows::time(&row, 1),
            handoffs: row.get(2),
            handoffs_waiting: row.get(3),
            handoff_since: rows::time(&row, 4),
            turns: row.get(5),
            fallbacks: row.get(6),
            errors: row.get(7),
        })
    }

    pub async fn bot_forget(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        user_id: &str,
    ) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &account.0, &user_id];
        Ok(self.one(As::App(workspace), Again::Safe, FORGET, &params).await?.get(0))
    }

    pub async fn bot_chats(&self, workspace: WorkspaceId) -> Result<Vec<BotChat>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_CHATS, &[&workspace.0]).await?;
        let chat = |row: &Row| BotChat {
            account_id: AccountId(row.get(0)),
            chat: row.get(1),
            title: row.get(2),
            seen_at: rows::at(row, 3),
            left_at: rows::time(row, 4),
        };
        Ok(rows.iter().map(chat).collect())
    }

    pub async fn bot_logs(
        &self,
        workspace: WorkspaceId,
        of: Option<RecipientId>,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BotLog>> {
        let (since, limit) = (Time(since), i64::try_from(limit).unwrap_or(i64::MAX));
        let of = of.map(|id| id.0);
        let params: [&(dyn ToSql + Sync); 5] = [&workspace.0, &since, &after, &limit, &of];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_LOGS, &params).await?;
        Ok(rows.iter().map(log).collect())
    }

    pub async fn bot_skipped(
        &self,
        workspace: WorkspaceId,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BotSkipped>> {
        let (since, limit) = (Time(since), i64::try_from(limit).unwrap_or(i64::MAX));
        let params: [&(dyn ToSql + Sync); 4] = [&workspace.0, &since, &after, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_SKIPPED, &params).await?;
        let skipped = |row: &Row| BotSkipped {
            inbox_id: row.get(0),
            account_id: AccountId(row.get(1)),
            at: rows::at(row, 2),
            kind: row.get(3),
            why: row.get::<_, Option<String>>(4).unwrap_or_default(),
        };
        Ok(rows.iter().map(skipped).collect())
    }

    pub async fn bot_dialogue_of(
        &self,
        workspace: WorkspaceId,
        channel: ChannelId,
        provider_message_id: &str,
    ) -> Result<Option<RecipientId>> {
        let params: [&(dyn ToSql + Sync); 3] = [&workspace.0, &channel.0, &provider_message_id];
        let row = self.first(As::App(workspace), Again::Safe, DIALOGUE_OF, &params).await?;
        Ok(row.map(|row| RecipientId(row.get(0))))
    }

    pub async fn bot_retain(
        &self,
        keep_text: Span,
        keep_keys: Span,
        limit: usize,
        walk: BotWalk,
    ) -> Result<(u64, BotWalk)> {
        let limit = i32::try_from(limit.max(1)).unwrap_or(i32::MAX);
        let params: [&(dyn ToSql + Sync); 5] = [&keep_text.0, &keep_keys.0, &limit, &walk.words, &walk.keys];
        let row = self.one(As::Dispatcher, Again::Safe, RETAIN, &params).await?;
        let next = BotWalk { words: row.get(1), keys: row.get(2) };
        Ok((row.get::<_, i64>(0).unsigned_abs(), next))
    }
}

fn bot_account(row: &Row) -> Result<BotAccount> {
    Ok(BotAccount {
        account_id: AccountId(row.get(1)),
        receive: rows::word(row, 2, Receive::parse)?,
        hook_key: row.get(3),
        heard_at: rows::time(row, 4),
        problem: row.get(5),
    })
}

fn log(row: &Row) -> BotLog {
    BotLog {
        log_id: row.get(0),
        account_id: AccountId(row.get(1)),
        recipient_id: RecipientId(row.get(2)),
        inbox_id: row.get(3),
        at: rows::at(row, 4),
        version: row.get(5),
        rule: row.get(6),
        verdict: row.get(7),
        detail: row.get(8),
        event: row.get(9),
        happened_at: rows::time(row, 10),
    }
}
