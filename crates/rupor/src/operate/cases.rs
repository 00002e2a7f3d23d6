//! Cases that a person puts right.

use domain::ids::{CaseId, MessageId};
use domain::message::Origin;
use engine::ingest::stands_at;
use serde_json::{Value, json};
use store::{MovedPost, Store};

use super::verb::find_workspace;

pub(super) async fn join(
    store: &Store,
    workspace: &str,
    keep: CaseId,
    other: CaseId,
) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    Ok(json!(store.merge_cases(ws, keep, other).await?))
}

pub(super) async fn split(
    store: &Store,
    workspace: &str,
    case: CaseId,
    messages: &[MessageId],
) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    let mut posts = Vec::new();
    for &message_id in messages {
        let message = store.message(ws, message_id).await?;
        let origin: Origin = serde_json::from_value(message.origin.clone()).unwrap_or_default();
        let origin = stands_at(&message.source, &message.origin_id, &origin);
        posts.push(MovedPost { message_id, origin });
    }
    Ok(json!(store.split_case(ws, case, posts).await?))
}
