//! The mailbox of the bot: what people did comes in, turns are taken one at a time for each dialogue, and what a turn
//! decides is written whole or not at all.

use std::collections::BTreeSet;

use domain::delivery::Priority;
use domain::ids::{AccountId, BotId, ChannelId, ClaimToken, RecipientId, WorkspaceId};
use domain::time::{Span, Timestamp};
use rusqlite::Row;
use serde_json::json;

use super::enqueue::{enqueue, insert_message};
use super::feed::leave_alone;
use super::recipients::{enqueue_for, open_lane};
use super::{Sqlite, Tx, Urgency, rows};
use crate::bot::*;
use crate::error::{Result, StoreError};
use crate::recipients::{ForRecipients, LaneOf, LaneSettings, RecipientStatus};

const ACCOUNT_PLATFORM: &str = "SELECT platform FROM accounts WHERE workspace_id = ?1 AND account_id = ?2";
const WAITING: &str = "SELECT count(*) FROM (SELECT 1 FROM bot_inbox WHERE done_at IS NULL LIMIT ?1)";
const FIND_PERSON: &str = "
SELECT recipient_id, address, attributes, status, status_at
  FROM recipients
 WHERE account_id = ?1 AND user_id = ?2 AND workspace_id = ?3";
const INSERT_PERSON: &str = "
INSERT INTO recipients (workspace_id, account_id, platform, user_id, address, attributes, status, status_why, status_at,
                        source, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'bot', ?10)";
const MOVE_PERSON: &str = "UPDATE recipients SET address = ?2, attributes = ?3 WHERE recipient_id = ?1";
const LEAVE_OR_RETURN: &str = "
UPDATE recipients
   SET status = ?2, status_why = ?3, status_at = ?4, error_streak = CASE WHEN ?2 = 'gone' THEN error_streak ELSE 0 END
 WHERE recipient_id = ?1";
const PERSON_EXISTS: &str = "SELECT 1 FROM recipients WHERE workspace_id = ?1 AND recipient_id = ?2";
/// A repeat says nothing new of who is there either: somebody may have left since.
const IS_KNOWN: &str =
    "SELECT 1 FROM bot_inbox WHERE account_id = ?1 AND event_key = ?2 AND workspace_id = ?3";
pub(super) const INSERT_EVENT: &str = "
INSERT INTO bot_inbox (workspace_id, account_id, recipient_id, event_key, kind, body, happened_at, received_at, done_at, verdict)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT DO NOTHING";
/// While a turn is being taken due_at is its lease, and stays; who commits the turn sees what came meanwhile.
pub(super) const WAKE: &str = "
INSERT INTO bot_state (recipient_id, workspace_id, account_id, due_at, updated_at)
SELECT r.recipient_id, r.workspace_id, r.account_id, ?2, ?2 FROM recipients AS r WHERE r.recipient_id = ?1
ON CONFLICT (recipient_id) DO UPDATE
   SET due_at = excluded.due_at
 WHERE bot_state.due_at > excluded.due_at AND bot_state.token IS NULL";
const PUT_CHAT: &str = "
INSERT INTO bot_chats (workspace_id, account_id, chat, title, seen_at, left_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (account_id, chat) DO UPDATE
   SET title = coalesce(excluded.title, title), seen_at = excluded.seen_at, left_at = excluded.left_at";
const HEARD: &str = "
UPDATE bot_accounts
   SET heard_at = ?3, problem = NULL, cursor = CASE WHEN ?4 IS NOT NULL AND owner = ?4 THEN ?5 ELSE cursor END
 WHERE account_id = ?2 AND workspace_id = ?1";
pub(super) const DUE: &str = "
SELECT recipient_id
  FROM bot_state
 WHERE due_at <= ?1 AND due_at < 9223372036854775807
 ORDER BY due_at, recipient_id
 LIMIT ?2";
pub(super) const NEXT: &str = "SELECT min(due_at) FROM bot_state WHERE due_at < 9223372036854775807";
const TAKE: &str = "UPDATE bot_state SET token = ?2, due_at = ?3 WHERE recipient_id = ?1";
const SELECT_TURN: &str = "
SELECT s.workspace_id, s.account_id, s.recipient_id, b.bot_id, b.operators_id, coalesce(b.active_version, 0), r.platform,
       r.user_id, r.attributes, s.token, s.version, s.mode, s.state, s.timer_at
  FROM bot_state AS s
  JOIN recipients AS r ON r.recipient_id = s.recipient_id
  LEFT JOIN bot_accounts AS l ON l.account_id = s.account_id
  LEFT JOIN bots AS b ON b.bot_id = l.bot_id
 WHERE s.recipient_id = ?1";
pub(super) const SELECT_EVENTS: &str = "
SELECT inbox_id, account_id, kind, body, happened_at, received_at
  FROM bot_inbox
 WHERE recipient_id = ?1 AND done_at IS NULL
 ORDER BY inbox_id
 LIMIT ?2";
const STANDS: &str =
    "SELECT token, version, account_id FROM bot_state WHERE workspace_id = ?1 AND recipient_id = ?2";
const STILL_WAITS: &str =
    "SELECT 1 FROM bot_inbox WHERE inbox_id = ?1 AND recipient_id = ?2 AND done_at IS NULL";
/// Who waits for nobody's turn is in nobody's dialogue.
pub(super) const SELECT_DECISIONS: &str = "
SELECT workspace_id, account_id, inbox_id, body
  FROM bot_inbox
 WHERE recipient_id IS NULL AND done_at IS NULL
 ORDER BY inbox_id
 LIMIT ?1";
const DECIDED: &str = "
UPDATE bot_inbox
   SET done_at = ?3, verdict = ?4
 WHERE workspace_id = ?1 AND inbox_id = ?2 AND recipient_id IS NULL AND done_at IS NULL";
const DONE: &str = "UPDATE bot_inbox SET done_at = ?2, verdict = ?3 WHERE inbox_id = ?1";
const SUBSCRIBE: &str = "
UPDATE recipients
   SET status = ?2, status_why = ?3, status_at = ?4
 WHERE recipient_id = ?1 AND status <> ?2 AND status <> 'gone'";
const INSERT_LOG: &str = "
INSERT INTO bot_logs (workspace_id, account_id, recipient_id, inbox_id, at, version, rule, verdict, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const INSERT_OUTBOX: &str = "
INSERT INTO bot_outbox (workspace_id, recipient_id, inbox_id, n, kind, delivery_id, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const INSERT_CALL: &str = "
INSERT INTO bot_outbox (workspace_id, recipient_id, inbox_id, n, kind, created_at, bot_id, service, fields, status, due_at)
VALUES (?1, ?2, ?3, ?4, 'call', ?5, (SELECT a.bot_id FROM bot_accounts AS a WHERE a.account_id = ?6), ?7, ?8, 'waiting', ?5)";
const CHANNEL_THERE: &str =
    "SELECT 1 FROM channels WHERE workspace_id = ?1 AND channel_id = ?2 AND removed_at IS NULL";
pub(super) const SETTLE: &str = "
UPDATE bot_state
   SET version = version + 1, mode = ?2, state = ?3, timer_at = ?4, token = NULL, updated_at = ?5,
       due_at = CASE WHEN EXISTS (SELECT 1 FROM bot_inbox AS i WHERE i.recipient_id = ?1 AND i.done_at IS NULL) THEN ?5
                     ELSE coalesce(?4, 9223372036854775807) END
 WHERE recipient_id = ?1";

impl Sqlite {
    pub async fn bot_receive(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        updates: Vec<Update>,
        polled: Option<Polled>,
    ) -> Result<Received> {
        let received = self
            .write(Urgency::Enqueue, move |tx| receive(tx, workspace, account, &updates, polled.as_ref()))
            .await?;
        if received != (Received::Taken { fresh: 0 }) {
            self.bell.ring();
        }
        Ok(received)
    }

    pub async fn bot_claim_turns(&self, limit: usize, lease: Span) -> Result<Vec<Turn>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.write(Urgency::Claim, move |tx| {
            let due = tx.all(DUE, (tx.now.0, limit), |row| row.get::<_, i64>(0))?;
            due.into_iter().map(|id| take(tx, id, lease)).collect()
        })
        .await
    }

    pub async fn bot_next_turn(&self) -> Result<Option<Timestamp>> {
        let next = self.read(|tx| tx.first(NEXT, [], |row| row.get::<_, Option<i64>>(0))).await?;
        Ok(next.flatten().map(Timestamp).filter(|at| *at != Timestamp::NEVER))
    }

    pub async fn bot_decisions(&self, limit: usize) -> Result<Vec<WaitingDecision>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let decision = |row: &Row<'_>| {
            Ok(WaitingDecision {
                workspace_id: WorkspaceId(row.get(0)?),
                account_id: AccountId(row.get(1)?),
                inbox_id: row.get(2)?,
                body: row
                    .get::<_, Option<String>>(3)?
                    .map_or_else(Default::default, |body| serde_json::from_str(&body).unwrap_or_default()),
            })
        };
        self.read(move |tx| tx.all(SELECT_DECISIONS, [limit], decision)).await
    }

    pub async fn bot_decided(&self, workspace: WorkspaceId, inbox_id: i64, verdict: &str) -> Result<bool> {
        let verdict = verdict.to_owned();
        self.write(Urgency::Enqueue, move |tx| {
            Ok(tx.execute(DECIDED, (workspace.0, inbox_id, tx.now.0, verdict))? == 1)
        })
        .await
    }

    pub async fn bot_commit_turns(&self, workspace: WorkspaceId, turns: Vec<TurnTaken>) -> Result<Vec<bool>> {
        let kept = self
            .write(Urgency::Outcome, move |tx| turns.iter().map(|turn| commit(tx, workspace, turn)).collect())
            .await?;
        self.bell.ring();
        Ok(kept)
    }
}

fn receive(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    account: AccountId,
    updates: &[Update],
    polled: Option<&Polled>,
) -> Result<Received> {
    let platform: String = tx
        .first(ACCOUNT_PLATFORM, (workspace.0, account.0), |row| row.get(0))?
        .ok_or_else(|| StoreError::unknown_account(account))?;
    let waiting = tx.first(WAITING, [BOT_WAITING_MAX], |row| row.get::<_, i64>(0))?;
    if waiting.unwrap_or(0) >= BOT_WAITING_MAX {
        return Ok(Received::Full);
    }
    let (mut fresh, mut woken) = (0, BTreeSet::new());
    for update in updates {
        if tx.first(IS_KNOWN, (account.0, &update.key, workspace.0), |_| Ok(()))?.is_some() {
            continue;
        }
        let at = update.at.unwrap_or(tx.now).min(tx.now);
        let dialogue = match &update.of {
            UpdateOf::Person { user_id, address, name } => {
                let who = Person { user_id, address, name: name.as_deref(), left: false, at };
                Some(meet(tx, workspace, account, &platform, &who)?)
            }
            UpdateOf::Left { user_id, address } => {
                let who = Person { user_id, address, name: None, left: true, at };
                Some(meet(tx, workspace, account, &platform, &who)?)
            }
            UpdateOf::Operator(id) => {
                tx.first(PERSON_EXISTS, (workspace.0, id.0), |_| Ok(()))?.map(|()| id.0)
            }
            UpdateOf::Chat { address, title, .. } => {
                tx.execute(PUT_CHAT, (workspace.0, account.0, address, title, tx.now.0, None::<i64>))?;
                None
            }
            UpdateOf::ChatLeft { address } => {
                let row = (workspace.0, account.0, address, None::<String>, tx.now.0, Some(tx.now.0));
                tx.execute(PUT_CHAT, row)?;
                None
            }
            UpdateOf::Decision | UpdateOf::Skipped(_) => None,
        };
        let is_to_nobody = matches!(update.of, UpdateOf::Operator(_)) && dialogue.is_none();
        let verdict = update.of.verdict().or(is_to_nobody.then_some(TO_NOBODY));
        let row = (
            workspace.0,
            account.0,
            dialogue,
            &update.key,
            &update.kind,
            update.body.to_string(),
            at.0,
            tx.now.0,
            verdict.map(|_| tx.now.0),
            verdict,
        );
        if tx.execute(INSERT_EVENT, row)? == 1 {
            fresh += 1;
            woken.extend(dialogue);
        }
    }
    for id in woken {
        tx.execute(WAKE, (id, tx.now.0))?;
    }
    if polled.is_some() || fresh > 0 {
        let (owner, cursor) =
            (polled.map(|polled| &polled.owner), polled.and_then(|polled| polled.cursor.as_ref()));
        tx.execute(HEARD, (workspace.0, account.0, tx.now.0, owner, cursor))?;
    }
    Ok(Received::Taken { fresh })
}

/// Somebody of whom an update tells.
struct Person<'a> {
    user_id: &'a str,
    address: &'a str,
    name: Option<&'a str>,
    left: bool,
    at: Timestamp,
}

/// A moment that platforms round away.
const ROUNDED: Span = Span::from_secs(1);

/// Who is gone and writes is back, unless it was written before and comes late.
fn meet(
    tx: &Tx<'_>,
    workspace: WorkspaceId,
    account: AccountId,
    platform: &str,
    who: &Person<'_>,
) -> Result<i64> {
    let name = who.name.map_or_else(|| json!({}), |name| json!({"name": name}));
    let found = tx.first(FIND_PERSON, (account.0, who.user_id, workspace.0), |row| {
        let (attributes, gone) = (rows::json(row, 2)?, row.get_ref(3)?.as_str()? == "gone");
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, attributes, gone, Timestamp(row.get(4)?)))
    })?;
    let Some((id, address, mut attributes, gone, since)) = found else {
        let (status, why) = if who.left { ("gone", Some("blocked")) } else { ("known", None) };
        let row = (
            workspace.0,
            account.0,
            platform,
            who.user_id,
            who.address,
            name.to_string(),
            status,
            why,
            who.at.0,
            tx.now.0,
        );
        return tx.insert(INSERT_PERSON, row);
    };
    if gone != who.left {
        if who.at < since - ROUNDED {
            return Ok(id);
        }
        let (status, why) = if who.left { ("gone", "blocked") } else { ("known", "came back") };
        tx.execute(LEAVE_OR_RETURN, (id, status, why, who.at.0))?;
    }
    let known = attributes.get("name").and_then(|name| name.as_str());
    if address != who.address || (who.name.is_some() && known != who.name) {
        if let (Some(attributes), Some(name)) = (attributes.as_object_mut(), who.name) {
            attributes.insert("name".into(), json!(name));
        }
        tx.execute(MOVE_PERSON, (id, who.address, attributes.to_string()))?;
    }
    Ok(id)
}

fn take(tx: &Tx<'_>, id: i64, lease: Span) -> Result<Turn> {
    let token = ClaimToken(uuid::Uuid::new_v4());
    tx.execute(TAKE, (id, token.0.as_bytes(), (tx.now + lease).0))?;
    let turn = tx.first(SELECT_TURN, [id], turn)?;
    let mut turn = turn.ok_or_else(|| StoreError::not_found("dialogue", id))?;
    turn.events = tx.all(SELECT_EVENTS, (id, BOT_EVENTS_MAX), inbox_event)?;
    Ok(turn)
}

fn turn(row: &Row<'_>) -> rusqlite::Result<Turn> {
    let token: Vec<u8> = row.get(9)?;
    Ok(Turn {
        workspace_id: WorkspaceId(row.get(0)?),
        account_id: AccountId(row.get(1)?),
        recipient_id: RecipientId(row.get(2)?),
        bot_id: row.get::<_, Option<i64>>(3)?.map(BotId),
        operators: row.get::<_, Option<i64>>(4)?.map(ChannelId),
        rules_version: row.get(5)?,
        platform: row.get(6)?,
        user_id: row.get(7)?,
        attributes: rows::json(row, 8)?,
        token: ClaimToken(uuid::Uuid::from_slice(&token).unwrap_or_default()),
        version: row.get(10)?,
        mode: rows::word(row, 11, DialogueMode::parse)?,
        state: rows::json(row, 12)?,
        timer_at: rows::time(row, 13)?,
        events: Vec::new(),
    })
}

fn inbox_event(row: &Row<'_>) -> rusqlite::Result<InboxEvent> {
    let body: Option<String> = row.get(3)?;
    Ok(InboxEvent {
        inbox_id: row.get(0)?,
        account_id: AccountId(row.get(1)?),
        kind: row.get(2)?,
        body: body.and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default(),
        happened_at: Timestamp(row.get(4)?),
        received_at: Timestamp(row.get(5)?),
    })
}

/// One turn, unless it is another's by now.
fn commit(tx: &Tx<'_>, workspace: WorkspaceId, turn: &TurnTaken) -> Result<bool> {
    let who = turn.recipient_id.0;
    let stands = tx.first(STANDS, (workspace.0, who), |row| {
        Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, i32>(1)?, row.get::<_, i64>(2)?))
    })?;
    let Some((token, version, account)) = stands else {
        return Ok(false);
    };
    if token.as_deref() != Some(turn.token.0.as_bytes().as_slice()) || version != turn.version {
        return Ok(false);
    }
    for (id, _) in &turn.events {
        if tx.first(STILL_WAITS, (id, who), |_| Ok(()))?.is_none() {
            return Ok(false);
        }
    }
    let mut events: Vec<i64> = turn.events.iter().map(|(id, _)| *id).collect();
    for (id, verdict) in &turn.events {
        tx.execute(DONE, (id, tx.now.0, verdict))?;
    }
    if turn.fired {
        let (key, now) = (format!("timer:{who}:{version}"), tx.now.0);
        let row = (workspace.0, account, who, key, "timer", None::<String>, now, now, now, "timer");
        events.push(tx.insert(INSERT_EVENT, row)?);
    }
    if let Some((status, why)) = turn.subscription {
        tx.execute(SUBSCRIBE, (who, status.as_str(), why, tx.now.0))?;
        if status != RecipientStatus::Active {
            leave_alone(tx, workspace, who, "stopped")?;
        }
    }
    for log in &turn.logs {
        let (event, detail) = (events.get(log.event), log.detail.to_string());
        let version = turn.rules_version;
        let row = (workspace.0, account, who, event, tx.now.0, version, &log.rule, &log.verdict, detail);
        tx.execute(INSERT_LOG, row)?;
    }
    let numbers = turn.numbers();
    for (say, n) in turn.says.iter().zip(&numbers) {
        let delivery = speak(tx, workspace, turn, say, *n)?;
        let kind = if say.channel.is_some() { "forward" } else { "reply" };
        tx.execute(INSERT_OUTBOX, (workspace.0, who, events.get(say.event), n, kind, delivery, tx.now.0))?;
    }
    for (call, n) in turn.calls.iter().zip(&numbers[turn.says.len()..]) {
        let (event, fields) = (events.get(call.event), json!(call.fields).to_string());
        tx.execute(INSERT_CALL, (workspace.0, who, event, n, tx.now.0, account, &call.service, fields))?;
    }
    let timer = turn.timer_at.map(|at| at.0);
    tx.execute(SETTLE, (who, turn.mode.as_str(), turn.state.to_string(), timer, tx.now.0))?;
    Ok(true)
}

/// The delivery of one say; `None`: nobody is there to hear it.
fn speak(tx: &Tx<'_>, workspace: WorkspaceId, turn: &TurnTaken, say: &Say, n: i32) -> Result<Option<i64>> {
    let message = turn.message(say, n);
    if let Some(channel) = say.channel {
        // Removed meanwhile: nobody hears it there, and the dialogue goes on.
        if tx.first(CHANNEL_THERE, (workspace.0, channel.0), |_| Ok(()))?.is_none() {
            return Ok(None);
        }
        let made = enqueue(tx, workspace, std::slice::from_ref(&message))?;
        return Ok(made[0].deliveries.first().map(|delivery| delivery.delivery_id.0));
    }
    let settings = LaneSettings { max_parallel: 1, rate: None, ambiguity: turn.ambiguity };
    let lane_id = open_lane(tx, workspace, LaneOf::Dialogue(turn.recipient_id), settings)?;
    let message_id = insert_message(tx, workspace, &message, &message.request_hash())?;
    let (recipients, priority) = (vec![turn.recipient_id], Priority::Urgent);
    let new = ForRecipients { message_id, lane_id, recipients, priority, run_at: None };
    Ok(enqueue_for(tx, workspace, &new)?.into_iter().flatten().next().map(|id| id.0))
}
