//! `rupor-bench photos`: how often the platforms refuse a request for its pace, when posts bring photos.

use std::time::{Duration, Instant};

use ::sandbox::pictures::Pictures;
use anyhow::Context;
use clap::Args;
use domain::chat::ChatKind;
use domain::ids::ChannelId;
use domain::limits::effective_rate;
use domain::message::{Media, MediaKind, Message};
use serde_json::{Value, json};
use store::{ChannelSettings, DedupMode, NewMedia};

use super::database::Database;
use super::rig::{Rig, known};

/// Platform, kind of token, channels, photos of each post, and calls to the API that a post costs.
const SIDES: [(&str, &str, usize, usize, usize); 3] =
    [("telegram", "bot", 40, 2, 1), ("vk", "user", 4, 2, 5), ("max", "bot", 16, 2, 3)];

/// Measure how many requests are refused for their pace when posts bring photos, against the sandbox's real limits
#[derive(Debug, Args)]
pub(crate) struct Photos {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Requests to all three platforms together, at least; VK takes three a second
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(30..=20_000))]
    requests: u32,
    /// Nodes that share the budgets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    nodes: u8,
}

pub(super) fn run(args: &Photos) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    super::print(args.json, &figures)
}

async fn measure(args: &Photos) -> anyhow::Result<Value> {
    let rig = Rig::new(&args.database, "real").await?;
    let mut channels = Vec::new();
    for (platform, kind, n_channels, n_photos, n_calls) in SIDES {
        let side = open(&rig, platform, kind, n_channels).await?;
        let posts = (args.requests as usize / SIDES.len()).div_ceil(n_calls);
        enqueue(&rig, platform, &side, posts, n_photos).await?;
        channels.extend(side);
    }
    let started = Instant::now();
    let nodes: Vec<_> = (0..usize::from(args.nodes)).map(|n| rig.node(n)).collect();
    let patience = Duration::from_secs(60 + u64::from(args.requests));
    rig.emptied(&channels, patience).await?;
    let seconds = started.elapsed().as_secs_f64();
    for node in nodes {
        node.stop().await?;
    }
    let counts = rig.counts(&channels).await?;
    let mut figures = json!({
        "database": args.database.address()?.to_string(),
        "nodes": args.nodes,
        "seconds": seconds,
        "posts_sent": counts.sent,
        "posts_not_sent": counts.dead + counts.failed_permanent,
    });
    let (mut requests, mut refused) = (0, 0);
    for (platform, ..) in SIDES {
        let mut rows = rig.emulator.rows(platform).await?;
        // The hosts that take the bytes are not the API, and count nothing.
        rows.retain(|row| row["method"].as_str().is_some_and(|method| !is_upload_host(method)));
        let no = rows.iter().filter(|row| row["accepted"] == false).count();
        figures[platform] = json!({"requests": rows.len(), "refused": no});
        requests += rows.len();
        refused += no;
    }
    figures["requests"] = json!(requests);
    figures["refused"] = json!(refused);
    figures["share_refused"] = json!(refused as f64 / requests.max(1) as f64);
    Ok(figures)
}

/// An account with the pace that its platform allows, and its chats with theirs.
async fn open(rig: &Rig, platform: &str, kind: &str, n_channels: usize) -> anyhow::Result<Vec<ChannelId>> {
    let account = rig.account_on(platform, kind).await?;
    let mut channels = Vec::new();
    for n in 0..n_channels {
        let settings = ChannelSettings {
            rate: effective_rate(None, known(platform)?.chat_rate(ChatKind::Channel)),
            dedup: DedupMode::Off,
            ..ChannelSettings::default()
        };
        let target = match platform {
            "telegram" => format!("-100{:010}", 1_000_000 + n),
            "vk" => format!("-{}", 200_000_001 + n),
            _ => format!("-{}", 70_000_001 + n),
        };
        channels.push(rig.channel_at(account, &target, settings).await?);
    }
    Ok(channels)
}

/// Every post has photos of its own: none is known to a platform beforehand.
async fn enqueue(
    rig: &Rig,
    platform: &str,
    channels: &[ChannelId],
    posts: usize,
    n_photos: usize,
) -> anyhow::Result<()> {
    let picture = Pictures::new(7).jpeg("the same for all");
    let mut messages = Vec::new();
    for post in 0..posts {
        let mut message = Message::text(format!("{platform} {post}"));
        for photo in 0..n_photos {
            // What stands after the end of a picture makes other bytes of it, and nobody sees it.
            let bytes = [&picture[..], format!("{platform} {post} {photo}").as_bytes()].concat();
            let name = blake3::hash(&bytes).to_hex().to_string();
            let new = NewMedia {
                sha256: name.clone(),
                mime: "image/jpeg".into(),
                bytes: bytes.into(),
                width: None,
                height: None,
                picture_hash: None,
                source_url: None,
            };
            rig.store.put_media_origin(rig.workspace, new).await?;
            message.media.push(Media { kind: MediaKind::Photo, blob: Some(name), ..Media::default() });
        }
        messages.push((message, channels[post % channels.len()]));
    }
    rig.enqueue_messages(messages).await
}

fn is_upload_host(method: &str) -> bool {
    method.starts_with("upload.") || method.starts_with("POST /upload/")
}
