//! The rows around the mailbox: bots, how their accounts hear, versions of rules, logs, figures, and forgetting.

use std::collections::BTreeMap;

use domain::ids::{AccountId, BotId, ChannelId, DeliveryId, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use serde_json::{Value, json};

use super::heads::Touched;
use super::maintain::cancel_one;
use super::workspaces::config_changed;
use super::{Sqlite, Tx, Urgency, rows};
use crate::bot::*;
use crate::bot_log::{BotLog, BotSkipped};
use crate::error::{Result, StoreError};

const PUT_BOT: &str = "
INSERT INTO bots (workspace_id, name, operators_id, services, created_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (workspace_id, name) DO UPDATE SET operators_id = excluded.operators_id, services = excluded.services
RETURNING bot_id";
const REST: &str = "UPDATE bot_accounts SET bot_id = NULL, owner = NULL, leased_until = 0 WHERE workspace_id = ?1 AND bot_id = ?2";
const PUT_ACCOUNT: &str = "
INSERT INTO bot_accounts (account_id, workspace_id, bot_id, receive)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (account_id) DO UPDATE SET bot_id = excluded.bot_id, receive = excluded.receive";
const SELECT_BOTS: &str = "
SELECT bot_id, name, operators_id, active_version, services FROM bots WHERE workspace_id = ?1 ORDER BY name, bot_id";
const SELECT_ACCOUNTS: &str = "
SELECT bot_id, account_id, receive, hook_key, heard_at, problem
  FROM bot_accounts
 WHERE workspace_id = ?1 AND bot_id IS NOT NULL
 ORDER BY account_id";
const ACTIVE: &str = "
SELECT b.active_version, r.rules, (SELECT max(v.version) FROM bot_rules AS v WHERE v.bot_id = b.bot_id)
  FROM bots AS b LEFT JOIN bot_rules AS r ON r.bot_id = b.bot_id AND r.version = b.active_version
 WHERE b.workspace_id = ?1 AND b.bot_id = ?2";
const INSERT_RULES: &str =
    "INSERT INTO bot_rules (workspace_id, bot_id, version, rules, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
const SELECT_RULES: &str = "
SELECT version, rules, created_at FROM bot_rules WHERE workspace_id = ?1 AND bot_id = ?2 ORDER BY version DESC";
const ACTIVATE: &str = "
UPDATE bots SET active_version = ?3
 WHERE workspace_id = ?1 AND bot_id = ?2
   AND EXISTS (SELECT 1 FROM bot_rules AS r WHERE r.bot_id = ?2 AND r.version = ?3)";
const ANSWERED_BY: &str = "UPDATE bots SET operators_id = ?3 WHERE workspace_id = ?1 AND bot_id = ?2";
const STANDING: &str = "
SELECT coalesce(json_extract(s.state, '$.name'), ''), count(*)
  FROM bot_state AS s JOIN bot_accounts AS a ON a.account_id = s.account_id
 WHERE s.workspace_id = ?1 AND a.bot_id = ?2
 GROUP BY 1
 ORDER BY 1";
const SET_HOOK: &str = "
UPDATE bot_accounts SET hook_key = ?3, hook_secret_hash = ?4, hook_settings = ?5 WHERE workspace_id = ?1 AND account_id = ?2";
const HOOK: &str = "
SELECT workspace_id, account_id, hook_secret_hash, hook_settings
  FROM bot_accounts
 WHERE hook_key = ?1 AND receive = 'webhook' AND bot_id IS NOT NULL";
const LEASE: &str = "
UPDATE bot_accounts
   SET owner = ?1, leased_until = ?2
 WHERE account_id IN (SELECT l.account_id FROM bot_accounts AS l
                       WHERE l.bot_id IS NOT NULL AND l.receive = 'poll' AND l.leased_until <= ?3
                       ORDER BY l.leased_until, l.account_id
                       LIMIT ?4)
RETURNING workspace_id, account_id, cursor";
const KEEP: &str = "
UPDATE bot_accounts
   SET leased_until = ?4
 WHERE workspace_id = ?1 AND account_id = ?2 AND owner = ?3 AND bot_id IS NOT NULL AND receive = 'poll'";
const PROBLEM: &str = "UPDATE bot_accounts SET problem = ?3 WHERE workspace_id = ?1 AND account_id = ?2";
const SNAPSHOT: &str = "
SELECT (SELECT count(*) FROM (SELECT 1 FROM bot_inbox WHERE done_at IS NULL AND workspace_id = ?1 LIMIT ?3)),
       (SELECT min(w.received_at) FROM (SELECT received_at FROM bot_inbox WHERE done_at IS NULL AND workspace_id = ?1 LIMIT ?3) AS w),
       h.handoffs, h.waiting, h.since, count(l.at), count(CASE l.verdict WHEN 'fallback' THEN 1 END), count(CASE l.verdict WHEN 'error' THEN 1 END)
  FROM (SELECT count(*) AS handoffs, count(s.since) AS waiting, min(s.since) AS since
          FROM (SELECT json_extract(state, '$.waits_since') AS since FROM bot_state
                 WHERE workspace_id = ?1 AND mode = 'human' LIMIT ?3) AS s) AS h
  LEFT JOIN (SELECT verdict, at FROM bot_logs WHERE workspace_id = ?1 ORDER BY log_id DESC LIMIT ?3) AS l ON l.at > ?2";
const FIND_PERSON: &str =
    "SELECT recipient_id FROM recipients WHERE workspace_id = ?1 AND account_id = ?2 AND user_id = ?3";
const PENDING: &str = "
SELECT delivery_id FROM deliveries WHERE workspace_id = ?1 AND recipient_id = ?2 AND status IN ('queued', 'retry')";
const FORGET: &[&str] = &[
    "DELETE FROM bot_logs WHERE recipient_id = ?1",
    "DELETE FROM bot_outbox WHERE recipient_id = ?1",
    "DELETE FROM bot_inbox WHERE recipient_id = ?1 AND done_at IS NULL",
    "DELETE FROM bot_inbox WHERE recipient_id = ?1 AND done_at IS NOT NULL",
    "DELETE FROM bot_state WHERE recipient_id = ?1",
];
const FORGET_WORDS: &str =
    "UPDATE messages SET payload = '{\"text\": \"\"}' WHERE workspace_id = ?1 AND source = 'bot:' || ?2";
const FORGET_PERSON: &str = "
UPDATE recipients
   SET user_id = 'forgotten:' || ?1, address = 'forgotten:' || ?1, attributes = '{}', time_zone = NULL, status = 'gone',
       status_why = 'forgotten', status_at = ?2
 WHERE recipient_id = ?1";
const FORGET_MEMBER: &str =
    "UPDATE campaign_recipients SET user_id = 'forgotten:' || ?1 WHERE recipient_id = ?1";
const SELECT_CHATS: &str = "
SELECT account_id, chat, title, seen_at, left_at FROM bot_chats WHERE workspace_id = ?1 ORDER BY account_id, chat";
const SELECT_LOGS: &str = "
SELECT l.log_id, l.account_id, l.recipient_id, l.inbox_id, l.at, l.version, l.rule, l.verdict, l.detail, i.body, i.happened_at
  FROM bot_logs AS l LEFT JOIN bot_inbox AS i ON i.inbox_id = l.inbox_id
 WHERE l.workspace_id = ?1 AND l.at >= ?2 AND l.log_id > ?3 AND (?5 IS NULL OR l.recipient_id = ?5)
 ORDER BY l.log_id
 LIMIT ?4";
const SELECT_SKIPPED: &str = "
SELECT inbox_id, account_id, received_at, kind, verdict
  FROM bot_inbox
 WHERE workspace_id = ?1 AND recipient_id IS NULL AND done_at IS NOT NULL AND inbox_id > ?3 AND received_at >= ?2
 ORDER BY inbox_id
 LIMIT ?4";
/// Among the last of the channel; a delivery of several messages names them all.
const DIALOGUE_OF: &str = "
SELECT o.recipient_id
  FROM (SELECT d.delivery_id, d.provider_message_id
          FROM deliveries AS d JOIN lane_heads AS h ON h.lane_id = d.lane_id
         WHERE h.channel_id = ?2 AND d.workspace_id = ?1
         ORDER BY d.delivery_id DESC
         LIMIT 5000) AS d
  JOIN bot_outbox AS o ON o.delivery_id = d.delivery_id
 WHERE instr(',' || d.provider_message_id || ',', ',' || ?3 || ',') > 0
 ORDER BY d.delivery_id DESC
 LIMIT 1";
pub(super) fn snapshot(tx: &Tx<'_>, workspace: WorkspaceId, since: Span) -> Result<BotSnapshot> {
    let found = tx.first(SNAPSHOT, (workspace.0, (tx.now - since).0, BOT_COUNTED_MAX), |row| {
        Ok(BotSnapshot {
            waiting: row.get(0)?,
            oldest: rows::time(row, 1)?,
            handoffs: row.get(2)?,
            handoffs_waiting: row.get(3)?,
            handoff_since: rows::time(row, 4)?,
            turns: row.get(5)?,
            fallbacks: row.get(6)?,
            errors: row.get(7)?,
        })
    })?;
    Ok(found.unwrap_or_default())
}

impl Sqlite {
    pub async fn put_bot(&self, workspace: WorkspaceId, new: NewBot) -> Result<BotId> {
        self.write(Urgency::Maintenance, move |tx| {
            let operators = new.operators.map(|id| id.0);
            let row = (workspace.0, &new.name, operators, json!(new.services).to_string(), tx.now.0);
            let id = tx.first(PUT_BOT, row, |row| row.get::<_, i64>(0))?;
            let id = id.ok_or_else(|| StoreError::not_found("bot", &new.name))?;
            tx.execute(REST, (workspace.0, id))?;
            for account in &new.accounts {
                tx.execute(PUT_ACCOUNT, (account.0, workspace.0, id, new.receive.as_str()))?;
            }
            config_changed(tx, workspace, json!({"bot": id, "name": new.name}))?;
            Ok(BotId(id))
        })
        .await
    }

    pub async fn bots(&self, workspace: WorkspaceId) -> Result<Vec<Bot>> {
        self.read(move |tx| {
            let mut accounts: BTreeMap<i64, Vec<BotAccount>> = BTreeMap::new();
            for (bot, account) in tx.all(SELECT_ACCOUNTS, [workspace.0], bot_account)? {
                accounts.entry(bot).or_default().push(account);
            }
            tx.all(SELECT_BOTS, [workspace.0], |row| {
                let id = row.get(0)?;
                Ok(Bot {
                    bot_id: BotId(id),
                    name: row.get(1)?,
                    operators: row.get::<_, Option<i64>>(2)?.map(ChannelId),
                    active_version: row.get(3)?,
                    accounts: accounts.remove(&id).unwrap_or_default(),
                    services: serde_json::from_value(rows::json(row, 4)?).unwrap_or_default(),
                })
            })
        })
        .await
    }

    pub async fn rest_bot(&self, workspace: WorkspaceId, id: BotId) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            tx.execute(REST, (workspace.0, id.0))?;
            config_changed(tx, workspace, json!({"bot": id, "accounts": []}))
        })
        .await
    }

    pub async fn put_bot_rules(&self, workspace: WorkspaceId, id: BotId, rules: &str) -> Result<i32> {
        let rules = rules.to_owned();
        self.write(Urgency::Maintenance, move |tx| put_rules(tx, workspace, id, &rules)).await
    }

    pub async fn bot_rules(&self, workspace: WorkspaceId, id: BotId) -> Result<Vec<BotRules>> {
        self.read(move |tx| {
            tx.all(SELECT_RULES, (workspace.0, id.0), |row| {
                Ok(BotRules { version: row.get(0)?, rules: row.get(1)?, created_at: Timestamp(row.get(2)?) })
            })
        })
        .await
    }

    pub async fn activate_bot_rules(
        &self,
        workspace: WorkspaceId,
        id: BotId,
        version: i32,
        operators: Option<ChannelId>,
    ) -> Result<()> {
        self.write(Urgency::Maintenance, move |tx| {
            if tx.execute(ACTIVATE, (workspace.0, id.0, version))? == 0 {
                return Err(StoreError::not_found("version of the rules", version));
            }
            tx.execute(ANSWERED_BY, (workspace.0, id.0, operators.map(|id| id.0)))?;
            config_changed(tx, workspace, json!({"bot": id, "version": version}))
        })
        .await
    }

    pub async fn bot_standing(&self, workspace: WorkspaceId, id: BotId) -> Result<Vec<(String, i64)>> {
        self.read(move |tx| tx.all(STANDING, (workspace.0, id.0), |row| Ok((row.get(0)?, row.get(1)?)))).await
    }

    pub async fn set_bot_hook(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        key: &str,
        secret_hash: Option<&str>,
        settings: Value,
    ) -> Result<()> {
        let (key, hash) = (key.to_owned(), secret_hash.map(str::to_owned));
        self.write(Urgency::Maintenance, move |tx| {
            match tx.execute(SET_HOOK, (workspace.0, account.0, key, hash, settings.to_string()))? {
                0 => Err(StoreError::unknown_account(account)),
                _ => config_changed(tx, workspace, json!({"account": account, "webhook": "changed"})),
            }
        })
        .await
    }

    pub async fn bot_hook(&self, key: &str) -> Result<Option<BotHook>> {
        let key = key.to_owned();
        self.read(move |tx| {
            tx.first(HOOK, [key], |row| {
                Ok(BotHook {
                    workspace_id: WorkspaceId(row.get(0)?),
                    account_id: AccountId(row.get(1)?),
                    secret_hash: row.get(2)?,
                    settings: rows::json(row, 3)?,
                })
            })
        })
        .await
    }

    pub async fn lease_bot_accounts(
        &self,
        owner: &str,
        lease: Span,
        limit: usize,
    ) -> Result<Vec<LeasedAccount>> {
        let (owner, limit) = (owner.to_owned(), i64::try_from(limit).unwrap_or(i64::MAX));
        self.write(Urgency::Maintenance, move |tx| {
            tx.all(LEASE, (owner, (tx.now + lease).0, tx.now.0, limit), |row| {
                Ok(LeasedAccount {
                    workspace_id: WorkspaceId(row.get(0)?),
                    account_id: AccountId(row.get(1)?),
                    cursor: row.get(2)?,
                })
            })
        })
        .await
    }

    pub async fn keep_bot_account(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        owner: &str,
        lease: Span,
    ) -> Result<bool> {
        let owner = owner.to_owned();
        self.write(Urgency::Maintenance, move |tx| {
            Ok(tx.execute(KEEP, (workspace.0, account.0, owner, (tx.now + lease).0))? == 1)
        })
        .await
    }

    pub async fn bot_account_problem(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        problem: Option<&str>,
    ) -> Result<()> {
        let problem = problem.map(str::to_owned);
        self.write(Urgency::Maintenance, move |tx| {
            tx.execute(PROBLEM, (workspace.0, account.0, problem)).map(drop)
        })
        .await
    }

    pub async fn bot_snapshot(&self, workspace: WorkspaceId, since: Span) -> Result<BotSnapshot> {
        self.read(move |tx| snapshot(tx, workspace, since)).await
    }

    pub async fn bot_forget(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        user_id: &str,
    ) -> Result<bool> {
        let user_id = user_id.to_owned();
        self.write(Urgency::Maintenance, move |tx| forget(tx, workspace, account, &user_id)).await
    }

    pub async fn bot_chats(&self, workspace: WorkspaceId) -> Result<Vec<BotChat>> {
        self.read(move |tx| {
            tx.all(SELECT_CHATS, [workspace.0], |row| {
                Ok(BotChat {
                    account_id: AccountId(row.get(0)?),
                    chat: row.get(1)?,
                    title: row.get(2)?,
                    seen_at: Timestamp(row.get(3)?),
                    left_at: rows::time(row, 4)?,
                })
            })
        })
        .await
    }

    pub async fn bot_logs(
        &self,
        workspace: WorkspaceId,
        of: Option<RecipientId>,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BotLog>> {
        let (limit, of) = (i64::try_from(limit).unwrap_or(i64::MAX), of.map(|id| id.0));
        self.read(move |tx| tx.all(SELECT_LOGS, (workspace.0, since.0, after, limit, of), log)).await
    }

    pub async fn bot_skipped(
        &self,
        workspace: WorkspaceId,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BotSkipped>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let skipped = |row: &Row<'_>| {
            Ok(BotSkipped {
                inbox_id: row.get(0)?,
                account_id: AccountId(row.get(1)?),
                at: Timestamp(row.get(2)?),
                kind: row.get(3)?,
                why: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            })
        };
        self.read(move |tx| tx.all(SELECT_SKIPPED, (workspace.0, since.0, after, limit), skipped)).await
    }

    pub async fn bot_dialogue_of(
        &self,
        workspace: WorkspaceId,
        channel: ChannelId,
        provider_message_id: &str,
    ) -> Result<Option<RecipientId>> {
        let id = provider_message_id.to_owned();
        self.read(move |tx| {
            tx.first(DIALOGUE_OF, (workspace.0, channel.0, id), |row| Ok(RecipientId(row.get(0)?)))
        })
        .await
    }
}

fn put_rules(tx: &Tx<'_>, workspace: WorkspaceId, id: BotId, rules: &str) -> Result<i32> {
    let active = tx.first(ACTIVE, (workspace.0, id.0), |row| {
        Ok((row.get::<_, i32>(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, Option<i32>>(2)?))
    })?;
    let (active, text, last) = active.ok_or_else(|| StoreError::not_found("bot", id))?;
    if text.as_deref() == Some(rules) {
        return Ok(active);
    }
    let version = last.unwrap_or(0) + 1;
    tx.execute(INSERT_RULES, (workspace.0, id.0, version, rules, tx.now.0))?;
    tx.execute(ACTIVATE, (workspace.0, id.0, version))?;
    config_changed(tx, workspace, json!({"bot": id, "version": version}))?;
    Ok(version)
}

fn forget(tx: &Tx<'_>, workspace: WorkspaceId, account: AccountId, user_id: &str) -> Result<bool> {
    let found = tx.first(FIND_PERSON, (workspace.0, account.0, user_id), |row| row.get::<_, i64>(0))?;
    let Some(who) = found else {
        return Ok(false);
    };
    let pending = tx.all(PENDING, (workspace.0, who), |row| Ok(DeliveryId(row.get(0)?)))?;
    let mut touched = Touched::default();
    for id in pending {
        cancel_one(tx, &mut touched, workspace, id)?;
    }
    touched.refresh(tx)?;
    for sql in FORGET {
        tx.execute(sql, [who])?;
    }
    tx.execute(FORGET_WORDS, (workspace.0, who.to_string()))?;
    tx.execute(FORGET_PERSON, (who, tx.now.0))?;
    tx.execute(FORGET_MEMBER, [who])?;
    Ok(true)
}

fn bot_account(row: &Row<'_>) -> rusqlite::Result<(i64, BotAccount)> {
    let account = BotAccount {
        account_id: AccountId(row.get(1)?),
        receive: rows::word(row, 2, Receive::parse)?,
        hook_key: row.get(3)?,
        heard_at: rows::time(row, 4)?,
        problem: row.get(5)?,
    };
    Ok((row.get(0)?, account))
}

fn log(row: &Row<'_>) -> rusqlite::Result<BotLog> {
    let event: Option<String> = row.get(9)?;
    Ok(BotLog {
        log_id: row.get(0)?,
        account_id: AccountId(row.get(1)?),
        recipient_id: RecipientId(row.get(2)?),
        inbox_id: row.get(3)?,
        at: Timestamp(row.get(4)?),
        version: row.get(5)?,
        rule: row.get(6)?,
        verdict: row.get(7)?,
        detail: rows::json(row, 8)?,
        event: event.and_then(|event| serde_json::from_str(&event).ok()),
        happened_at: rows::time(row, 10)?,
    })
}
