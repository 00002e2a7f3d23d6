//! Which history of the database this is: keys that no other one repeats, and what happens when commits are lost.

use domain::delivery::Status;
use domain::outcome::{Outcome, Sent};
use domain::retry::Chance;
use domain::settle::{Ending, settle};
use domain::time::Timestamp;
use serde_json::json;

use super::commit::{Settling, Token};
use super::heads::{NewEvent, event};
use super::late::{Late, adopt, late};
use super::settle::{held, write};
use super::{Sqlite, Tx, Urgency, rows};
use crate::error::{Result, StoreError};
use crate::history::{
    HISTORY_LOST, History, NODE_FORGOTTEN_AFTER, NodeRow, Remembered, Replayed, delivery_key, wording,
};

const SELECT_HISTORY: &str = "SELECT history FROM control";
const SELECT_WORDING: &str =
    "SELECT request_hash, content_hash, revision FROM messages WHERE message_id = ?1";
/// Whoever comes second finds it held and adds what he knows.
const LOSE_HISTORY: &str = "
UPDATE control
   SET history = CASE WHEN held = 1 AND held_why LIKE ?1 || '%' THEN history ELSE lower(hex(randomblob(8))) END,
       held_why = CASE WHEN held = 1 AND held_why LIKE ?1 || '%' THEN substr(held_why || '; ' || ?2, 1, 4000)
                       ELSE ?1 || ': ' || ?2 END,
       held = 1";
const ADD_TO_HOLD: &str = "
UPDATE control SET held_why = substr(held_why || '; ' || ?2, 1, 4000) WHERE held = 1 AND held_why LIKE ?1 || '%'";
const SELECT_NODES: &str = "SELECT run_id, seen_at, history, server FROM nodes ORDER BY run_id";
const SIGN_ON: &str = "
INSERT INTO nodes (run_id, seen_at, history, server)
SELECT ?1, ?2, ?3, ?4 FROM control WHERE history = ?3
ON CONFLICT (run_id) DO UPDATE SET seen_at = excluded.seen_at, history = excluded.history, server = excluded.server";
const FORGET_NODES: &str = "DELETE FROM nodes WHERE seen_at < ?1";
const SIGN_OFF: &str = "DELETE FROM nodes WHERE run_id = ?1";
const TELL_ALL: &str = "
INSERT INTO events (workspace_id, at, name, detail)
SELECT w.workspace_id, ?1, n.name, ?2
  FROM workspaces AS w CROSS JOIN (SELECT 'held' AS name UNION ALL SELECT 'alert') AS n
 ORDER BY w.workspace_id, n.name DESC";
const SELECT_REMEMBERED: &str = "
SELECT status, attempt, lane_id, priority, position, claim_seq, channel_id, message_id, parts, claim_token
  FROM deliveries
 WHERE delivery_id = ?1 AND workspace_id = ?2 AND idempotency_key = ?3";
const SET_PARTS: &str = "UPDATE deliveries SET parts = ?2 WHERE delivery_id = ?1";

pub(super) fn id(tx: &Tx<'_>) -> Result<String> {
    let found = tx.first(SELECT_HISTORY, [], |row| row.get(0))?;
    found.ok_or_else(|| StoreError::Database("the row of control is missing".into()))
}

pub(super) fn wording_of(tx: &Tx<'_>, message_id: i64) -> Result<String> {
    let found = tx.first(SELECT_WORDING, [message_id], |row| {
        Ok(wording(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?, row.get(2)?))
    })?;
    found.ok_or_else(|| StoreError::not_found("message", message_id))
}

pub(super) fn key_of(tx: &Tx<'_>, delivery_id: i64, message_id: i64) -> Result<String> {
    Ok(delivery_key(&id(tx)?, delivery_id, &wording_of(tx, message_id)?))
}

impl Sqlite {
    pub async fn history(&self) -> Result<History> {
        Ok(History { id: self.read(id).await?, server: String::new() })
    }

    pub async fn lose_history(&self, why: &str) -> Result<()> {
        let why = why.to_owned();
        self.write(Urgency::Outcome, move |tx| {
            tx.execute(LOSE_HISTORY, (HISTORY_LOST, &why))?;
            let text = format!("{HISTORY_LOST}: {why}");
            let detail = json!({"everything": true, "why": text, "text": text}).to_string();
            tx.execute(TELL_ALL, (tx.now.0, detail)).map(drop)
        })
        .await?;
        self.bell.ring();
        Ok(())
    }

    pub async fn tell_of_lost_history(&self, what: &str) -> Result<()> {
        let what = what.to_owned();
        self.write(Urgency::Outcome, move |tx| tx.execute(ADD_TO_HOLD, (HISTORY_LOST, &what)).map(drop)).await
    }

    pub async fn nodes(&self) -> Result<Vec<NodeRow>> {
        self.read(|tx| {
            tx.all(SELECT_NODES, [], |row| {
                Ok(NodeRow {
                    run_id: row.get(0)?,
                    seen_at: Timestamp(row.get(1)?),
                    history: History { id: row.get(2)?, server: row.get(3)? },
                })
            })
        })
        .await
    }

    pub async fn sign_on(&self, run_id: &str, history: &History) -> Result<bool> {
        let (run_id, history) = (run_id.to_owned(), history.clone());
        self.write(Urgency::Maintenance, move |tx| {
            tx.execute(FORGET_NODES, [(tx.now - NODE_FORGOTTEN_AFTER).0])?;
            Ok(tx.execute(SIGN_ON, (&run_id, tx.now.0, &history.id, &history.server))? == 1)
        })
        .await
    }

    pub async fn sign_off(&self, run_id: &str) -> Result<()> {
        let run_id = run_id.to_owned();
        self.write(Urgency::Maintenance, move |tx| tx.execute(SIGN_OFF, [&run_id]).map(drop)).await
    }

    pub async fn replay(&self, batch: Vec<Remembered>) -> Result<Vec<Replayed>> {
        self.write(Urgency::Outcome, move |tx| {
            let mut settling = Settling::default();
            let replayed = batch.iter().map(|one| replay(tx, &mut settling, one)).collect::<Result<_>>()?;
            settling.write(tx)?;
            Ok(replayed)
        })
        .await
    }
}

fn replay(tx: &Tx<'_>, settling: &mut Settling, remembered: &Remembered) -> Result<Replayed> {
    let (id, workspace) = (remembered.delivery_id.0, remembered.workspace_id.0);
    let found = tx.first(SELECT_REMEMBERED, (id, workspace, &remembered.idempotency_key), |row| {
        Ok((late(row)?, rows::json(row, 8)?, row.get(9)?))
    })?;
    let Some((late, parts, token)): Option<(Late, _, Option<Token>)> = found else {
        return Ok(Replayed::Gone);
    };
    let provider_id = remembered.provider_message_id.as_deref();
    match (late.status, token) {
        (Status::Sent, _) => return Ok(Replayed::Known),
        (Status::Queued | Status::Retry, _) => adopt(tx, settling, (id, workspace), &late, provider_id)?,
        (Status::Claimed | Status::Sending, Some(token)) => end_for_holder(tx, settling, remembered, token)?,
        _ => return Ok(Replayed::Elsewhere),
    }
    let mut parts = rows::parts(&parts);
    parts.extend(remembered.parts.clone());
    tx.execute(SET_PARTS, (id, rows::parts_json(&parts).to_string()))?;
    event(
        tx,
        NewEvent {
            workspace_id: workspace,
            name: "late_success",
            message_id: Some(late.message_id),
            delivery_id: Some(id),
            channel_id: late.channel_id,
            detail: json!({"adopted": true, "remembered": true, "provider_message_id": provider_id}),
            ..NewEvent::default()
        },
    )?;
    Ok(Replayed::Adopted)
}

/// Readers have seen it, so whoever holds it must not send it: his claim ends as what it is about has ended.
fn end_for_holder(tx: &Tx<'_>, settling: &mut Settling, remembered: &Remembered, token: Token) -> Result<()> {
    let (id, workspace) = (remembered.delivery_id.0, remembered.workspace_id.0);
    let Some(held) = held(tx, id, workspace, token)? else {
        return Err(StoreError::Database(format!("delivery {id} is being sent, and nobody holds it")));
    };
    let provider_message_id = remembered.provider_message_id.clone();
    let sent = Sent { provider_message_id, raw: serde_json::Value::Null };
    let ending = Ending::Outcome(Outcome::Sent(sent));
    let settlement = settle(&held.standing, &ending, tx.now, Chance::NONE);
    write(tx, settling, &held, &ending, settlement).map(drop)
}
