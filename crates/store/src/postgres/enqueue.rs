//! Messages and deliveries in, in one call; the function decides who hears it and who has heard it already.

use domain::ids::WorkspaceId;
use domain::limits::PAYLOAD_BYTES_MAX;
use serde::Serialize;
use tokio_postgres::types::Json;

use super::{Again, As, Postgres};
use crate::error::{Result, StoreError};
use crate::queue::{Enqueued, NewMessage};

pub(super) const ENQUEUE: &str = "SELECT enqueue_messages_and_deliveries($1, $2)";

pub(super) const STATEMENTS: &[&str] = &[ENQUEUE];

/// A message with the hash of the whole request, the same on both databases.
#[derive(Debug, Serialize)]
pub(super) struct Item<'a> {
    #[serde(flatten)]
    message: &'a NewMessage,
    request_hash: String,
}

impl Postgres {
    /// The natural keys make it safe to do again: after an unanswered COMMIT the same call finds what it wrote.
    pub async fn enqueue(&self, workspace: WorkspaceId, batch: Vec<NewMessage>) -> Result<Vec<Enqueued>> {
        check(&batch)?;
        let items = Json(items(&batch));
        let row = self
            .one(As::App(workspace), Again::Safe, ENQUEUE, &[&workspace.0, &items])
            .await
            .map_err(named)?;
        let Json(enqueued) = row.get(0);
        let enqueued: Vec<Enqueued> = enqueued;
        if let (Some(message), Some(stored)) = (batch.last(), enqueued.last()) {
            self.accepted(workspace, message, stored.message_id);
        }
        self.ring();
        Ok(enqueued)
    }
}

pub(super) fn items(batch: &[NewMessage]) -> Vec<Item<'_>> {
    batch.iter().map(|message| Item { message, request_hash: message.request_hash() }).collect()
}

/// The same for a client that makes the call itself.
pub(crate) fn message_items(batch: &[NewMessage]) -> Result<serde_json::Value> {
    check(batch)?;
    serde_json::to_value(items(batch)).map_err(|error| StoreError::invalid("enqueue", error.to_string()))
}

/// The size is counted here as SQLite counts it; everything else the function refuses itself.
pub(super) fn check(batch: &[NewMessage]) -> Result<()> {
    for message in batch {
        let size = message.payload.to_string().len();
        if size > PAYLOAD_BYTES_MAX {
            let name = format!("message {}/{}", message.source, message.origin_id);
            let problem = format!("{name}: payload of {size} bytes, at most {PAYLOAD_BYTES_MAX}");
            return Err(StoreError::invalid("enqueue", problem));
        }
    }
    Ok(())
}

pub(super) fn named(error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { what: "workspace", name } => {
            StoreError::unknown_workspace(WorkspaceId(name.parse().unwrap_or_default()))
        }
        StoreError::Invalid { what: "text", problem } => StoreError::invalid("enqueue", problem),
        other => other,
    }
}
