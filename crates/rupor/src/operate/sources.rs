//! Sources that operators stop and start.

use anyhow::Context;
use serde_json::{Value, json};
use store::Store;

use super::verb::find_workspace;

/// The next `rupor apply` makes it as the file says again.
pub(super) async fn enable(
    store: &Store,
    workspace: &str,
    name: &str,
    enabled: bool,
) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    let sources = store.sources(ws).await?;
    let source = sources.iter().find(|source| source.name == name);
    let source = source.with_context(|| format!("source {name:?} is not known"))?;
    store.enable_source(ws, source.source_id, enabled).await?;
    Ok(json!({"source": source.name, "enabled": enabled}))
}
