//! What people and the dispatcher ask for; nothing here changes anything.

use domain::ids::{DeliveryId, LaneId, MessageId, WorkspaceId};
use domain::time::Timestamp;
use serde_json::Value;

use super::Store;
use crate::*;

impl Store {
    pub async fn now(&self) -> Result<Timestamp> {
        each!(self, db => db.now())
    }

    pub async fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Delivery> {
        each!(self, db => db.delivery(workspace, id))
    }

    /// In order of id from the end that the filter says, at most `limit`; continue after the last one, or before it.
    pub async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: DeliveryFilter,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        each!(self, db => db.deliveries(workspace, filter, limit))
    }

    /// The delivery that a repeat would have repeated, if it is still here.
    pub async fn said_before(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Option<Delivery>> {
        each!(self, db => db.said_before(workspace, id))
    }

    /// The deliveries of these messages to channels in order of id, at most `limit`.
    pub async fn deliveries_of(
        &self,
        workspace: WorkspaceId,
        messages: Vec<MessageId>,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        each!(self, db => db.deliveries_of(workspace, messages, limit))
    }

    /// The deliveries of a message to people in order of id, at most `limit`: a broadcast has as many as its audience.
    pub async fn deliveries_to_people(
        &self,
        workspace: WorkspaceId,
        message: MessageId,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        each!(self, db => db.deliveries_to_people(workspace, message, limit))
    }

    /// What the last `limit` other deliveries of a lane are called on the platform, in the words of their parts; of a person
    /// also what other lanes said to them.
    pub async fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
        limit: usize,
    ) -> Result<Vec<String>> {
        each!(self, db => db.said_lately(workspace, lane, but, limit))
    }

    /// Whether an earlier edit of the same post is on its way: a later one that overtook it would be undone by it.
    pub async fn earlier_edit_leaves(&self, workspace: WorkspaceId, edit: DeliveryId) -> Result<bool> {
        each!(self, db => db.earlier_edit_leaves(workspace, edit))
    }

    /// Whether the same words are on their way to the same chat before this delivery, so that a look at the chat could
    /// not tell whose they are.
    pub async fn alike_is_ahead(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<bool> {
        each!(self, db => db.alike_is_ahead(workspace, id))
    }

    pub async fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> Result<Vec<Attempt>> {
        each!(self, db => db.attempts(workspace, id))
    }

    pub async fn events(&self, workspace: WorkspaceId, after: i64, limit: usize) -> Result<Vec<Event>> {
        each!(self, db => db.events(workspace, after, limit))
    }

    /// The last events, the newest first.
    pub async fn recent_events(&self, workspace: WorkspaceId, limit: usize) -> Result<Vec<Event>> {
        each!(self, db => db.recent_events(workspace, limit))
    }

    pub async fn payload(&self, workspace: WorkspaceId, id: MessageId) -> Result<Value> {
        each!(self, db => db.payload(workspace, id))
    }

    /// Those of them that are there, in no order.
    pub async fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, Value)>> {
        each!(self, db => db.payloads(workspace, ids))
    }

    pub async fn lanes(&self, workspace: WorkspaceId) -> Result<Vec<Lane>> {
        each!(self, db => db.lanes(workspace))
    }

    /// Compares the narrow tables with `deliveries` and the counters with the rows; empty means they agree.
    /// For tests and `rupor check`: it reads everything.
    pub async fn audit(&self, workspace: WorkspaceId) -> Result<Vec<String>> {
        each!(self, db => db.audit(workspace))
    }

    /// Registers for wake-ups; register before looking for work, and keep polling all the same.
    pub async fn wake_up(&self) -> Result<WakeUp> {
        each!(self, db => db.wake_up())
    }
}
