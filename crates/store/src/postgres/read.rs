//! Reading: what people and the dispatcher ask for.

use domain::ids::{DeliveryId, LaneId, MessageId, WorkspaceId};
use serde_json::Value;

use super::{Again, As, Postgres, rows};
use crate::error::{Result, StoreError};
use crate::queue::{Attempt, Delivery, DeliveryFilter, Event, Lane, ListOrder};

const SELECT_DELIVERY: &str = concat!(
    "SELECT ",
    rows::delivery_columns!(),
    " FROM deliveries WHERE workspace_id = $1 AND delivery_id = $2"
);
/// A condition that is not given is always true; ids come from the index, the rest filters.
/// One listing from either end.
macro_rules! select_deliveries {
    ($order:literal) => {
        concat!(
            "SELECT ",
            rows::delivery_columns!(),
            " FROM deliveries
      WHERE workspace_id = $1
        AND delivery_id > $2 AND delivery_id < $8
        AND ($3::text IS NULL OR status = $3)
        AND ($4::bigint IS NULL OR channel_id = $4)
        AND ($5::bigint IS NULL OR message_id = $5)
        AND ($6::text IS NULL OR last_error ->> 'code' = $6)
      ORDER BY delivery_id ",
            $order,
            "
      LIMIT $7"
        )
    };
}
const SELECT_DELIVERIES: &str = select_deliveries!("ASC");
const SELECT_LATEST_DELIVERIES: &str = select_deliveries!("DESC");
const SELECT_DELIVERIES_OF: &str = concat!(
    "SELECT ",
    rows::delivery_columns!(),
    " FROM deliveries
      WHERE workspace_id = $1
        AND message_id = ANY ($2) AND channel_id IS NOT NULL
      ORDER BY delivery_id
      LIMIT $3"
);
const SELECT_DELIVERIES_TO_PEOPLE: &str = concat!(
    "SELECT ",
    rows::delivery_columns!(),
    " FROM deliveries
      WHERE workspace_id = $1 AND message_id = $2 AND recipient_id IS NOT NULL
      ORDER BY delivery_id
      LIMIT $3"
);
const SELECT_ATTEMPTS: &str = concat!(
    "SELECT ",
    rows::attempt_columns!(),
    " FROM attempts WHERE delivery_id = $2 AND workspace_id = $1 ORDER BY attempt"
);
const SELECT_EVENTS: &str = concat!(
    "SELECT ",
    rows::event_columns!(),
    " FROM events WHERE workspace_id = $1 AND event_id > $2 ORDER BY event_id LIMIT $3"
);
const SELECT_RECENT_EVENTS: &str = concat!(
    "SELECT ",
    rows::event_columns!(),
    " FROM events WHERE workspace_id = $1 ORDER BY event_id DESC LIMIT $2"
);
const SELECT_PAYLOAD: &str = "SELECT payload FROM messages WHERE workspace_id = $1 AND message_id = $2";
/// One look per id: with `= ANY` a plan that was made while the table was small reads the whole workspace.
const SELECT_PAYLOADS: &str = "
SELECT m.message_id, m.payload
  FROM unnest($2::bigint[]) AS w (message_id)
 CROSS JOIN LATERAL (SELECT x.message_id, x.payload FROM messages AS x
                      WHERE x.workspace_id = $1 AND x.message_id = w.message_id
                     OFFSET 0) AS m";
const SELECT_LANES: &str = concat!(
    "SELECT ",
    rows::lane_columns!(),
    " FROM lane_heads WHERE workspace_id = $1 AND recipient_id IS NULL ORDER BY lane_id"
);
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
 WHERE this.workspace_id = $1 AND this.delivery_id = $2
   AND before.delivery_id < this.delivery_id AND before.action = 'send' AND before.status <> 'deduped'";

/// By the index of each lane, from its end. A person hears from several: campaigns, their dialogue, a channel that is their
/// chat.
const SAID_LATELY: &str = "
WITH person AS (
    SELECT r.recipient_id, r.account_id, r.address
      FROM deliveries AS d JOIN recipients AS r ON r.recipient_id = d.recipient_id
     WHERE d.workspace_id = $1 AND d.delivery_id = $3
), lanes AS (
    SELECT $2::bigint AS lane_id
    UNION
    SELECT h.lane_id FROM person AS p JOIN lane_heads AS h ON h.recipient_id = p.recipient_id
    UNION
    SELECT h.lane_id
      FROM person AS p
      JOIN channels AS c ON c.account_id = p.account_id AND c.target = p.address
      JOIN lane_heads AS h ON h.channel_id = c.channel_id
)
SELECT d.provider_message_id, d.parts
  FROM lanes AS l
 CROSS JOIN LATERAL (SELECT x.provider_message_id, x.parts FROM deliveries AS x
                      WHERE x.workspace_id = $1 AND x.lane_id = l.lane_id AND x.delivery_id <> $3
                      ORDER BY x.delivery_id DESC
                      LIMIT $4) AS d
UNION ALL
SELECT coalesce(d.provider_message_id, m.provider_message_id), coalesce(d.parts, '[]')
  FROM person AS p
  JOIN campaign_recipients AS m ON m.recipient_id = p.recipient_id
  LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
 WHERE m.workspace_id = $1 AND m.delivery_id IS DISTINCT FROM $3";

/// By the key of the message and the channel.
const EARLIER_EDIT: &str = "
SELECT 1
  FROM deliveries AS d JOIN deliveries AS e
    ON e.message_id = d.message_id AND e.channel_id = d.channel_id AND e.action = d.action
 WHERE d.workspace_id = $1 AND d.delivery_id = $2
   AND e.delivery_id < d.delivery_id AND e.target_delivery = d.target_delivery AND e.status = 'sending'
 LIMIT 1";

/// The same words to the same chat, on their way before this one: in flight, or of an outcome that nobody knows yet. Who
/// was asked for before comes first, then who was claimed first.
const ALIKE_IS_AHEAD: &str = "
WITH me AS (
    SELECT d.delivery_id, d.account_id, d.channel_id, d.recipient_id, d.claimed_at, d.unknowns > 0 AS asked, m.payload
      FROM deliveries AS d JOIN messages AS m ON m.message_id = d.message_id
     WHERE d.workspace_id = $1 AND d.delivery_id = $2
), ahead AS (
    SELECT o.message_id
      FROM me JOIN inflight AS i ON i.account_id = me.account_id JOIN deliveries AS o ON o.delivery_id = i.delivery_id
     WHERE o.delivery_id <> me.delivery_id AND (o.channel_id = me.channel_id OR o.recipient_id = me.recipient_id)
       AND (i.requested_at IS NOT NULL
            OR CASE WHEN me.asked THEN o.unknowns > 0 AND o.delivery_id < me.delivery_id
                    ELSE o.unknowns > 0 OR (o.claimed_at, o.delivery_id) < (me.claimed_at, me.delivery_id) END)
    UNION ALL
    SELECT o.message_id
      FROM me JOIN deliveries AS o ON o.channel_id = me.channel_id
     WHERE o.unknowns > 0 AND o.status = 'retry' AND (NOT me.asked OR o.delivery_id < me.delivery_id)
       AND o.delivery_id <> me.delivery_id
    UNION ALL
    SELECT o.message_id
      FROM me JOIN deliveries AS o ON o.channel_id IS NULL AND o.recipient_id = me.recipient_id
     WHERE o.unknowns > 0 AND o.status = 'retry' AND (NOT me.asked OR o.delivery_id < me.delivery_id)
       AND o.delivery_id <> me.delivery_id
)
SELECT 1
  FROM me CROSS JOIN ahead JOIN messages AS m ON m.message_id = ahead.message_id
 WHERE m.payload ->> 'text' IS NOT DISTINCT FROM me.payload ->> 'text' AND m.payload ->> 'title' IS NOT DISTINCT FROM me.payload ->> 'title'
 LIMIT 1";

pub(super) const STATEMENTS: &[&str] = &[
    ALIKE_IS_AHEAD,
    EARLIER_EDIT,
    SAID_BEFORE,
    SAID_LATELY,
    SELECT_DELIVERY,
    SELECT_DELIVERIES,
    SELECT_LATEST_DELIVERIES,
    SELECT_DELIVERIES_OF,
    SELECT_DELIVERIES_TO_PEOPLE,
    SELECT_ATTEMPTS,
    SELECT_EVENTS,
    SELECT_RECENT_EVENTS,
    SELECT_PAYLOAD,
    SELECT_PAYLOADS,
    SELECT_LANES,
];

impl Postgres {
    pub async fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Delivery> {
        let row =
            self.first(As::App(workspace), Again::Safe, SELECT_DELIVERY, &[&workspace.0, &id.0]).await?;
        rows::delivery(&row.ok_or_else(|| StoreError::unknown_delivery(id))?)
    }

    pub async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: DeliveryFilter,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        let sql = match filter.order {
            ListOrder::OldestFirst => SELECT_DELIVERIES,
            ListOrder::NewestFirst => SELECT_LATEST_DELIVERIES,
        };
        let rows = self
            .all(
                As::App(workspace),
                Again::Safe,
                sql,
                &[
                    &workspace.0,
                    &filter.after.map_or(0, |id| id.0),
                    &filter.status.map(|status| status.as_str()),
                    &filter.channel_id.map(|id| id.0),
                    &filter.message_id.map(|id| id.0),
                    &filter.code,
                    &i64::try_from(limit).unwrap_or(i64::MAX),
                    &filter.before.map_or(i64::MAX, |id| id.0),
                ],
            )
            .await?;
        rows.iter().map(rows::delivery).collect()
    }

    pub async fn said_before(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Option<Delivery>> {
        let row = self.first(As::App(workspace), Again::Safe, SAID_BEFORE, &[&workspace.0, &id.0]).await?;
        match row.and_then(|row| row.get::<_, Option<i64>>(0)) {
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
        let ids: Vec<i64> = messages.iter().map(|id| id.0).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] = &[&workspace.0, &ids, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_DELIVERIES_OF, params).await?;
        rows.iter().map(rows::delivery).collect()
    }

    pub async fn deliveries_to_people(
        &self,
        workspace: WorkspaceId,
        message: MessageId,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] = &[&workspace.0, &message.0, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_DELIVERIES_TO_PEOPLE, params).await?;
        rows.iter().map(rows::delivery).collect()
    }

    pub async fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
        limit: usize,
    ) -> Result<Vec<String>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] = &[&workspace.0, &lane.0, &but.0, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SAID_LATELY, params).await?;
        let told = rows.iter().flat_map(|row| {
            let id: Option<String> = row.get(0);
            id.into_iter().chain(rows::parts(&row.get(1)).into_values())
        });
        Ok(told.collect())
    }

    pub async fn earlier_edit_leaves(&self, workspace: WorkspaceId, edit: DeliveryId) -> Result<bool> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&workspace.0, &edit.0];
        Ok(self.first(As::App(workspace), Again::Safe, EARLIER_EDIT, &params).await?.is_some())
    }

    pub async fn alike_is_ahead(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<bool> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&workspace.0, &id.0];
        Ok(self.first(As::App(workspace), Again::Safe, ALIKE_IS_AHEAD, &params).await?.is_some())
    }

    pub async fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Vec<Attempt>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_ATTEMPTS, &[&workspace.0, &id.0]).await?;
        Ok(rows.iter().map(rows::attempt).collect())
    }

    pub async fn events(&self, workspace: WorkspaceId, after: i64, limit: usize) -> Result<Vec<Event>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows =
            self.all(As::App(workspace), Again::Safe, SELECT_EVENTS, &[&workspace.0, &after, &limit]).await?;
        Ok(rows.iter().map(rows::event).collect())
    }

    pub async fn recent_events(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<Event>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] = &[&workspace.0, &limit];
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_RECENT_EVENTS, params).await?;
        Ok(rows.iter().map(rows::event).collect())
    }

    pub async fn payload(&self, workspace: WorkspaceId, id: MessageId) -> Result<Value> {
        let row = self.first(As::App(workspace), Again::Safe, SELECT_PAYLOAD, &[&workspace.0, &id.0]).await?;
        Ok(row.ok_or_else(|| StoreError::not_found("message", id))?.get(0))
    }

    pub async fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, Value)>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_PAYLOADS, &[&workspace.0, &ids]).await?;
        Ok(rows.iter().map(|row| (MessageId(row.get(0)), row.get(1))).collect())
    }

    pub async fn lanes(&self, workspace: WorkspaceId) -> Result<Vec<Lane>> {
        let rows = self.all(As::App(workspace), Again::Safe, SELECT_LANES, &[&workspace.0]).await?;
        Ok(rows.iter().map(rows::lane).collect())
    }
}
