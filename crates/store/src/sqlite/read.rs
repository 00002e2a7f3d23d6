//! Reading: what people and the dispatcher ask for. Never on the writer's connection when there is a file.

use domain::ids::{DeliveryId, LaneId, MessageId, WorkspaceId};
use serde_json::{Value, json};

use super::{Sqlite, rows};
use crate::error::{Result, StoreError};
use crate::queue::{Attempt, Delivery, DeliveryFilter, Event, Lane, ListOrder};

const SELECT_PAYLOAD: &str = "SELECT payload FROM messages WHERE workspace_id = ?1 AND message_id = ?2";
pub(super) const SELECT_PAYLOADS: &str = "
SELECT message_id, payload
  FROM messages
 WHERE workspace_id = ?1 AND message_id IN (SELECT value FROM json_each(?2))";
/// What kept a repeat from being said: the delivery before it with the same key. A look back for people; it may read
/// every message of the workspace.
const SAID_BEFORE: &str = "
SELECT max(before.delivery_id)
  FROM deliveries AS this
  JOIN channels AS c ON c.channel_id = this.channel_id
  JOIN messages AS own ON own.message_id = this.message_id
  JOIN messages AS other
    ON other.workspace_id = own.workspace_id
   AND CASE
       WHEN c.dedup = 'case' AND own.case_id IS NOT NULL THEN other.case_id = own.case_id AND other.kind = own.kind
       WHEN c.dedup = 'fingerprint' THEN other.fingerprint = own.fingerprint AND other.kind = own.kind
       ELSE other.content_hash = own.content_hash END
  JOIN deliveries AS before
    ON before.message_id = other.message_id AND before.channel_id = this.channel_id
 WHERE this.workspace_id = ?1 AND this.delivery_id = ?2
   AND before.delivery_id < this.delivery_id AND before.action = 'send' AND before.status <> 'deduped'";

/// By the index of each lane, from its end. A person hears from several: campaigns, their dialogue, a channel that is their
/// chat.
const SAID_LATELY: &str = "
WITH person AS (
    SELECT r.recipient_id, r.account_id, r.address
      FROM deliveries AS d JOIN recipients AS r ON r.recipient_id = d.recipient_id
     WHERE d.delivery_id = ?3
), lanes AS (
    SELECT ?2 AS lane_id
    UNION
    SELECT h.lane_id FROM person AS p JOIN lane_heads AS h ON h.recipient_id = p.recipient_id
    UNION
    SELECT h.lane_id
      FROM person AS p
      JOIN channels AS c ON c.account_id = p.account_id AND c.target = p.address
      JOIN lane_heads AS h ON h.channel_id = c.channel_id
)
SELECT d.provider_message_id, d.parts
  FROM lanes AS l CROSS JOIN deliveries AS d
    ON d.delivery_id IN (SELECT x.delivery_id FROM deliveries AS x
                          WHERE x.lane_id = l.lane_id AND x.delivery_id <> ?3
                          ORDER BY x.delivery_id DESC
                          LIMIT ?4)
 WHERE d.workspace_id = ?1
UNION ALL
SELECT coalesce(d.provider_message_id, m.provider_message_id), coalesce(d.parts, '[]')
  FROM person AS p
  JOIN campaign_recipients AS m ON m.recipient_id = p.recipient_id
  LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
 WHERE m.workspace_id = ?1 AND m.delivery_id IS NOT ?3";

/// By the key of the message and the channel.
const EARLIER_EDIT: &str = "
SELECT 1
  FROM deliveries AS d JOIN deliveries AS e
    ON e.message_id = d.message_id AND e.channel_id = d.channel_id AND e.action = d.action
 WHERE d.workspace_id = ?1 AND d.delivery_id = ?2
   AND e.delivery_id < d.delivery_id AND e.target_delivery = d.target_delivery AND e.status = 'sending'
 LIMIT 1";

/// The same words to the same chat, on their way before this one: in flight, or of an outcome that nobody knows yet. Who
/// was asked for before comes first, then who was claimed first.
pub(super) const ALIKE_IS_AHEAD: &str = "
WITH me AS (
    SELECT d.delivery_id, d.account_id, d.channel_id, d.recipient_id, d.claimed_at, d.unknowns > 0 AS asked, m.payload
      FROM deliveries AS d JOIN messages AS m ON m.message_id = d.message_id
     WHERE d.workspace_id = ?1 AND d.delivery_id = ?2
), ahead AS (
    SELECT o.message_id
      FROM me CROSS JOIN inflight AS i ON i.account_id = me.account_id CROSS JOIN deliveries AS o ON o.delivery_id = i.delivery_id
     WHERE o.delivery_id <> me.delivery_id AND (o.channel_id = me.channel_id OR o.recipient_id = me.recipient_id)
       AND (i.requested_at IS NOT NULL
            OR CASE WHEN me.asked THEN o.unknowns > 0 AND o.delivery_id < me.delivery_id
                    ELSE o.unknowns > 0 OR (o.claimed_at, o.delivery_id) < (me.claimed_at, me.delivery_id) END)
    UNION ALL
    SELECT o.message_id
      FROM me CROSS JOIN deliveries AS o ON o.channel_id = me.channel_id
     WHERE o.unknowns > 0 AND o.status = 'retry' AND (NOT me.asked OR o.delivery_id < me.delivery_id)
       AND o.delivery_id <> me.delivery_id
    UNION ALL
    SELECT o.message_id
      FROM me CROSS JOIN deliveries AS o ON o.channel_id IS NULL AND o.recipient_id = me.recipient_id
     WHERE o.unknowns > 0 AND o.status = 'retry' AND (NOT me.asked OR o.delivery_id < me.delivery_id)
       AND o.delivery_id <> me.delivery_id
)
SELECT 1
  FROM me CROSS JOIN ahead JOIN messages AS m ON m.message_id = ahead.message_id
 WHERE m.payload ->> 'text' IS me.payload ->> 'text' AND m.payload ->> 'title' IS me.payload ->> 'title'
 LIMIT 1";

impl Sqlite {
    pub async fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Delivery> {
        let sql = format!(
            "SELECT {} FROM deliveries WHERE workspace_id = ?1 AND delivery_id = ?2",
            rows::DELIVERY_COLUMNS
        );
        let found = self.read(move |tx| tx.first(&sql, (workspace.0, id.0), rows::delivery)).await?;
        found.ok_or_else(|| StoreError::unknown_delivery(id))
    }

    pub async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: DeliveryFilter,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        let order = match filter.order {
            ListOrder::OldestFirst => "ASC",
            ListOrder::NewestFirst => "DESC",
        };
        // A condition that is not given is always true; ids come from the index, the rest filters.
        let sql = format!(
            "SELECT {} FROM deliveries
              WHERE workspace_id = ?1
                AND delivery_id > ?2 AND delivery_id < ?8
                AND (?3 IS NULL OR status = ?3)
                AND (?4 IS NULL OR channel_id = ?4)
                AND (?5 IS NULL OR message_id = ?5)
                AND (?6 IS NULL OR last_error ->> 'code' = ?6)
              ORDER BY delivery_id {order}
              LIMIT ?7",
            rows::DELIVERY_COLUMNS
        );
        self.read(move |tx| {
            let params = rusqlite::params![
                workspace.0,
                filter.after.map_or(0, |id| id.0),
                filter.status.map(|status| status.as_str()),
                filter.channel_id.map(|id| id.0),
                filter.message_id.map(|id| id.0),
                filter.code,
                limit as i64,
                filter.before.map_or(i64::MAX, |id| id.0)
            ];
            tx.all(&sql, params, rows::delivery)
        })
        .await
    }

    pub async fn said_before(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Option<Delivery>> {
        let found = self
            .read(move |tx| tx.first(SAID_BEFORE, (workspace.0, id.0), |row| row.get::<_, Option<i64>>(0)))
            .await?;
        match found.flatten() {
            Some(before) => self.delivery(workspace, DeliveryId(before)).await.map(Some),
            None => Ok(None),
        }
    }

    pub async fn deliveries_of(
        &self,
        workspace: WorkspaceId,
        messages: Vec<MessageId>,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        let sql = format!(
            "SELECT {} FROM deliveries
              WHERE workspace_id = ?1
                AND message_id IN (SELECT value FROM json_each(?2)) AND channel_id IS NOT NULL
              ORDER BY delivery_id
              LIMIT ?3",
            rows::DELIVERY_COLUMNS
        );
        let ids = json!(messages.iter().map(|id| id.0).collect::<Vec<i64>>()).to_string();
        self.read(move |tx| tx.all(&sql, (workspace.0, ids, limit as i64), rows::delivery)).await
    }

    pub async fn deliveries_to_people(
        &self,
        workspace: WorkspaceId,
        message: MessageId,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        let sql = format!(
            "SELECT {} FROM deliveries
              WHERE workspace_id = ?1 AND message_id = ?2 AND recipient_id IS NOT NULL
              ORDER BY delivery_id
              LIMIT ?3",
            rows::DELIVERY_COLUMNS
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, message.0, limit as i64), rows::delivery)).await
    }

    pub async fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
        limit: usize,
    ) -> Result<Vec<String>> {
        let key = (workspace.0, lane.0, but.0, limit as i64);
        let rows = self
            .read(move |tx| {
                tx.all(SAID_LATELY, key, |row| Ok((row.get::<_, Option<String>>(0)?, rows::json(row, 1)?)))
            })
            .await?;
        Ok(rows
            .into_iter()
            .flat_map(|(id, parts)| id.into_iter().chain(rows::parts(&parts).into_values()))
            .collect())
    }

    pub async fn earlier_edit_leaves(&self, workspace: WorkspaceId, edit: DeliveryId) -> Result<bool> {
        let found = self.read(move |tx| tx.first(EARLIER_EDIT, (workspace.0, edit.0), |_| Ok(()))).await?;
        Ok(found.is_some())
    }

    pub async fn alike_is_ahead(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<bool> {
        let found = self.read(move |tx| tx.first(ALIKE_IS_AHEAD, (workspace.0, id.0), |_| Ok(()))).await?;
        Ok(found.is_some())
    }

    pub async fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Vec<Attempt>> {
        let sql = format!(
            "SELECT {} FROM attempts WHERE delivery_id = ?2 AND workspace_id = ?1 ORDER BY attempt",
            rows::ATTEMPT_COLUMNS
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, id.0), rows::attempt)).await
    }

    pub async fn events(&self, workspace: WorkspaceId, after: i64, limit: usize) -> Result<Vec<Event>> {
        let sql = format!(
            "SELECT {} FROM events WHERE workspace_id = ?1 AND event_id > ?2 ORDER BY event_id LIMIT ?3",
            rows::EVENT_COLUMNS
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, after, limit as i64), rows::event)).await
    }

    pub async fn recent_events(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<Event>> {
        let sql = format!(
            "SELECT {} FROM events WHERE workspace_id = ?1 ORDER BY event_id DESC LIMIT ?2",
            rows::EVENT_COLUMNS
        );
        self.read(move |tx| tx.all(&sql, (workspace.0, limit as i64), rows::event)).await
    }

    pub async fn payload(&self, workspace: WorkspaceId, id: MessageId) -> Result<Value> {
        let found = self
            .read(move |tx| tx.first(SELECT_PAYLOAD, (workspace.0, id.0), |row| rows::json(row, 0)))
            .await?;
        found.ok_or_else(|| StoreError::not_found("message", id))
    }

    pub async fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, Value)>> {
        let ids = rows::id_list(ids.iter().map(|id| id.0));
        self.read(move |tx| {
            tx.all(SELECT_PAYLOADS, (workspace.0, ids), |row| {
                Ok((MessageId(row.get(0)?), rows::json(row, 1)?))
            })
        })
        .await
    }

    pub async fn lanes(&self, workspace: WorkspaceId) -> Result<Vec<Lane>> {
        self.read(move |tx| tx.all(&lanes(), [workspace.0], rows::lane)).await
    }
}

/// Dialogues are not among them; there may be a million.
pub(super) fn lanes() -> String {
    format!(
        "SELECT {} FROM lane_heads INDEXED BY lane_heads_listed
          WHERE workspace_id = ?1 AND recipient_id IS NULL ORDER BY lane_id",
        rows::LANE_COLUMNS
    )
}
