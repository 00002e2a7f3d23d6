//! A person's own post, to the channels they name or those whose routes want it.

use anyhow::{Context, bail};
use domain::ids::WorkspaceId;
use domain::message::Origin;
use engine::ingest::{Preset, PublishRules, RawPost, SourceSettings, keep_bytes, take_in};
use serde_json::{Value, json};
use store::{DisabledBy, Store, StoredMessage};

use super::Verb;
use super::verb::{PAGE, find_channel, find_workspace, network};

pub(super) async fn perform_post(store: &Store, verb: Verb) -> anyhow::Result<Value> {
    let Verb::Post { workspace, title, text, photos, channels, kind, url, key } = verb else {
        bail!("{verb:?} is not a post");
    };
    let ws = find_workspace(store, &workspace).await?;
    let mut named = Vec::new();
    for name in &channels {
        let (_, channel) = find_channel(store, &workspace, name).await?;
        if !channel.enabled && channel.disabled_by == Some(DisabledBy::Operator) {
            let name = super::words::quoted(name);
            bail!("channel {name} takes no posts: it is disabled; run `rupor channel enable {name}`");
        }
        named.push(channel.channel_id);
    }
    let mut files = Vec::new();
    for path in &photos {
        let opened = tokio::fs::read(path).await;
        let bytes = opened.with_context(|| {
            format!("cannot open {}; the node must be allowed to read it", path.display())
        })?;
        let name = path.file_name().map_or_else(|| "photo".into(), |name| name.to_string_lossy());
        files.push((name.into_owned(), bytes.into()));
    }
    let kept = keep_bytes(store, ws, files).await?;
    let raw = RawPost {
        source: "cli:post".into(),
        origin_id: key,
        origin: Origin { source: "cli".into(), url, ..Origin::default() },
        title,
        text,
        kept,
        kind,
        channels: (!named.is_empty()).then_some(named),
        ..RawPost::default()
    };
    let settings = SourceSettings { preset: Preset::Mirror, ..SourceSettings::default() };
    let rules = PublishRules::load(store, ws, "cli", &settings).await?;
    let counts = take_in(store, &network(), ws, &rules, std::slice::from_ref(&raw), None).await?;
    let message = store.message_by_origin(ws, &raw.source, &raw.origin_id).await?;
    let message = message.context("the post was stored, but cannot be read back; run it again")?;
    told_post(store, ws, &message, counts.enqueued).await
}

/// Where the post goes, by name.
async fn told_post(store: &Store, ws: WorkspaceId, message: &StoredMessage, n: i32) -> anyhow::Result<Value> {
    let channels = store.channels(ws).await?;
    let deliveries = store.deliveries_of(ws, vec![message.message_id], PAGE).await?;
    let went: Vec<Value> = deliveries
        .iter()
        .map(|delivery| {
            let name =
                channels.iter().find(|channel| Some(channel.channel_id) == delivery.destination.channel());
            let name = name.map(|channel| channel.name.as_str());
            json!({"delivery_id": delivery.delivery_id, "channel": name, "status": delivery.status})
        })
        .collect();
    Ok(json!({
        "message_id": message.message_id,
        "kind": message.kind,
        "enqueued": n,
        "skipped": message.skipped,
        "deliveries": went,
    }))
}
