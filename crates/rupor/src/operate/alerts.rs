//! A test of the ways by which people are told of trouble.

use domain::delivery::Priority;
use domain::message::Message;
use serde_json::{Value, json};
use store::{NewMessage, Store};

/// Queues one message for every way of alerts; stop-all and holds do not keep it back.
pub(crate) async fn test(store: &Store, workspace: &str, key: &str) -> anyhow::Result<Value> {
    let ws = super::verb::find_workspace(store, workspace).await?;
    let channels = store.channels(ws).await?;
    let ways: Vec<_> = channels.iter().filter(|channel| channel.is_of_alerts()).collect();
    if ways.is_empty() {
        return Ok(json!({"deliveries": []}));
    }
    let text = format!("🔔 this is a test: trouble of workspace {workspace} is told here");
    let at = store.now().await?.rfc3339();
    let data = json!({
        "type": "alert.test",
        "timestamp": at,
        "data": {"workspace": workspace, "kind": "test", "severity": "heals", "headline": text},
    });
    let message = Message { data: Some(data), ..Message::text(&text) };
    let new = NewMessage {
        channels: ways.iter().map(|way| way.channel_id).collect(),
        priority: Priority::Urgent,
        ..NewMessage::new("alerts", format!("test:{key}"), format!("test {key}"), json!(message))
    };
    let enqueued = store.enqueue(ws, vec![new]).await?;
    let deliveries = enqueued.iter().flat_map(|message| &message.deliveries).map(|delivery| {
        let way = ways.iter().find(|way| way.channel_id == delivery.channel_id);
        json!({"channel": way.map(|way| &way.name), "delivery_id": delivery.delivery_id, "status": delivery.status})
    });
    Ok(json!({"deliveries": deliveries.collect::<Vec<_>>()}))
}
