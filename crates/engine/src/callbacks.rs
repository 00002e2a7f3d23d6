//! Programs hear what became of deliveries: each outcome is a call to their webhook, and a call is a delivery like any other.
//!
//! The transaction that ends a delivery notes it (the trigger `deliveries_outcome`, or the batch that ends sends), where somebody wants to hear; here the
//! notes become messages in the lanes of the callbacks, a page at a time. A message has the delivery and its status for a
//! name, so that a node that dies in between, or a second one beside it, queues nothing twice. What became of a call is told
//! to nobody.

use std::time::Duration;

use domain::ids::{ChannelId, WorkspaceId};
use domain::message::Message;
use serde_json::{Value, json};
use store::{Channel, Delivery, NewMessage, Store, StoreError};
use tokio::sync::watch;

use crate::addresses::{self, ChannelExtras};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Notes of one step: what it costs does not depend on what waits behind them.
const PAGE: usize = 100;

/// Where callbacks come from, in their messages.
pub const SOURCE: &str = "callbacks";
/// The outcomes that can be told; all of them, unless a channel names some.
pub const OUTCOMES: [&str; 3] = ["sent", "failed_permanent", "dead"];

/// Runs until told to stop.
pub async fn run(store: Store, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if let Err(error) = look(&store, &stop).await {
            tracing::warn!(%error, "callbacks could not be queued; they are tried again");
        }
    }
}

/// What stands in the way of one workspace costs the others nothing.
async fn look(store: &Store, stop: &watch::Receiver<bool>) -> store::Result<()> {
    for workspace in store.workspaces().await? {
        if let Err(error) = queue_all(store, workspace.workspace_id, stop).await {
            let error = format!("{error:#}");
            tracing::warn!(
                workspace = workspace.name,
                error,
                "callbacks could not be queued; they are tried again"
            );
        }
    }
    Ok(())
}

async fn queue_all(
    store: &Store,
    workspace: WorkspaceId,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    while !*stop.borrow() && step(store, workspace).await? == PAGE {}
    Ok(())
}

/// Queues the callbacks of the next outcomes of a workspace; how many outcomes there were.
pub async fn step(store: &Store, workspace: WorkspaceId) -> anyhow::Result<usize> {
    let notes = store.outcomes(workspace, PAGE).await?;
    if notes.is_empty() {
        return Ok(0);
    }
    let channels = store.channels(workspace).await?;
    let mut batch = Vec::with_capacity(notes.len());
    for (_, id) in &notes {
        let delivery = match store.delivery(workspace, *id).await {
            // Retention was faster; there is nothing left to tell.
            Err(StoreError::NotFound { .. }) => continue,
            delivery => delivery?,
        };
        let listeners = listeners(&channels, &delivery);
        if !listeners.is_empty() {
            let message = store.message(workspace, delivery.message_id).await?;
            batch.push(callback(&delivery, &message, &channels, listeners));
        }
    }
    if !batch.is_empty() {
        store.enqueue(workspace, batch).await?;
    }
    store.outcomes_told(workspace, notes.iter().map(|(note, _)| *note).collect()).await?;
    Ok(notes.len())
}

/// The channels that want to hear of this outcome.
fn listeners(channels: &[Channel], delivery: &Delivery) -> Vec<ChannelId> {
    let wants = |channel: &&Channel| {
        let extras = serde_json::from_value::<ChannelExtras>(channel.settings.settings.clone());
        let named = extras.ok().and_then(|extras| extras.outcomes);
        channel.is_of_callbacks()
            && named.is_none_or(|named| named.iter().any(|it| it == delivery.status.as_str()))
    };
    channels.iter().filter(wants).map(|channel| channel.channel_id).collect()
}

fn callback(
    delivery: &Delivery,
    message: &store::StoredMessage,
    channels: &[Channel],
    listeners: Vec<ChannelId>,
) -> NewMessage {
    let status = delivery.status.as_str();
    let name = format!("{}:{status}", delivery.delivery_id);
    let ended_at = delivery.ended_at.or(delivery.sent_at).unwrap_or(delivery.queued_at);
    let data = json!({
        "type": format!("delivery.{status}"),
        "timestamp": ended_at.rfc3339(),
        "data": shown(delivery, message, channels),
    });
    let said = Message {
        data: Some(data),
        ..Message::text(format!("delivery {} is {status}", delivery.delivery_id))
    };
    NewMessage {
        channels: listeners,
        ..NewMessage::new(SOURCE, &name, format!("callback {name}"), json!(said))
    }
}

/// A delivery as `/v1` shows it, with the names that its message has at its source.
fn shown(delivery: &Delivery, message: &store::StoredMessage, channels: &[Channel]) -> Value {
    let channel = channels.iter().find(|channel| Some(channel.channel_id) == delivery.destination.channel());
    let url = channel.zip(delivery.provider_message_id.as_deref());
    let error = delivery.last_error.as_ref().filter(|_| delivery.sent_at.is_none());
    json!({
        "id": delivery.delivery_id,
        "message_id": delivery.message_id,
        "source": message.source,
        "origin_id": message.origin_id,
        "channel": channel.map(|channel| &channel.name),
        "action": delivery.action,
        "status": delivery.status,
        "reason": delivery.reason,
        "attempt": delivery.counters.attempt,
        "provider_message_id": delivery.provider_message_id,
        "url": url.and_then(|(channel, id)| addresses::link(channel, id)),
        "error": error.map(|error| json!({"code": error["code"], "message": error["message"]})),
    })
}

#[cfg(test)]
mod tests;
