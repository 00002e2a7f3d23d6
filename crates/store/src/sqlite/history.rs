//! Which history of the database this is: keys that no other one repeats, and what happens when commits are lost.

use domain::delivery::Status;
use serde_json::json;

use super::commit::Settling;
use super::heads::{NewEvent, event};
use super::late::{Late, adopt, late};
use super::{Sqlite, Tx, Urgency, rows};
use crate::error::{Result, StoreError};
use crate::history::{HISTORY_LOST, History, Remembered, Replayed, delivery_key, wording};

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
const TELL_ALL: &str = "
INSERT INTO events (workspace_id, at, name, detail)
SELECT w.workspace_id, ?1, n.name, ?2
  FROM workspaces AS w CROSS JOIN (SELECT 'held' AS name UNION ALL SELECT 'alert') AS n
 ORDER BY w.workspace_id, n.name DESC";
const SELECT_REMEMBERED: &str = "
SELECT status, attempt, lane_id, priority, position, claim_seq, channel_id, message_id, parts
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
        Ok((late(row)?, rows::json(row, 8)?))
    })?;
    let Some((late, parts)): Option<(Late, _)> = found else {
        return Ok(Replayed::Gone);
    };
    match late.status {
        Status::Sent => return Ok(Replayed::Known),
        Status::Queued | Status::Retry => {}
        _ => return Ok(Replayed::Elsewhere),
    }
    let provider_id = remembered.provider_message_id.as_deref();
    adopt(tx, settling, (id, workspace), &late, provider_id)?;
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
