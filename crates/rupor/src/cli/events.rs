//! `rupor events`: what happened, as the audit tells it.

use std::time::Duration;

use clap::Args;
use domain::destination::Destination;
use store::{Event, Store};

use super::operator::{OperatorArgs, block_on, say};
use crate::operate::verb::{find_channel, find_workspace};
use crate::operate::words::moment;

/// How often a follower looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Events of one look.
const PAGE: usize = 1_000;

/// Show what happened
///
/// With --json one event a line.
#[derive(Debug, Args)]
pub(super) struct Events {
    /// Go on and show new ones as they come
    #[arg(long)]
    follow: bool,
    /// The last so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    limit: u32,
    /// Only events of this name, such as dead_letter
    #[arg(long)]
    name: Option<String>,
    /// Only events of this channel
    #[arg(long)]
    channel: Option<String>,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Events) -> anyhow::Result<()> {
    block_on(show(args))
}

async fn show(args: &Events) -> anyhow::Result<()> {
    let store = args.operator.look().await?.store;
    let workspace = args.operator.workspace(&store).await?;
    let ws = find_workspace(&store, &workspace).await?;
    let channel = match &args.channel {
        Some(name) => Some(find_channel(&store, &workspace, name).await?.1.channel_id),
        None => None,
    };
    let wanted = |event: &Event| {
        args.name.as_ref().is_none_or(|name| *name == event.name)
            && (channel.is_none() || event.destination == channel.map(Destination::Channel))
    };
    let recent = store.recent_events(ws, PAGE.max(args.limit as usize)).await?;
    let mut last = recent.first().map_or(0, |event| event.event_id);
    let mut shown: Vec<&Event> =
        recent.iter().filter(|event| wanted(event)).take(args.limit as usize).collect();
    shown.reverse();
    for event in shown {
        print(args, event)?;
    }
    if !args.follow {
        return Ok(());
    }
    loop {
        last = follow(args, &store, ws, last, &wanted).await?;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn follow(
    args: &Events,
    store: &Store,
    ws: domain::ids::WorkspaceId,
    last: i64,
    wanted: &impl Fn(&Event) -> bool,
) -> anyhow::Result<i64> {
    let new = store.events(ws, last, PAGE).await?;
    for event in new.iter().filter(|event| wanted(event)) {
        print(args, event)?;
    }
    Ok(new.last().map_or(last, |event| event.event_id))
}

fn print(args: &Events, event: &Event) -> anyhow::Result<()> {
    if args.json() {
        return say(&serde_json::to_string(event)?);
    }
    let subject = [
        event.destination.map(|destination| destination.to_string()),
        event.account_id.map(|id| format!("account {id}")),
        event.message_id.map(|id| format!("message {id}")),
        event.delivery_id.map(|id| format!("delivery {id}")),
    ];
    let subject: Vec<String> = subject.into_iter().flatten().collect();
    let detail = if event.detail.is_null() { String::new() } else { event.detail.to_string() };
    let line = format!("{}  {:<18} {}  {detail}", moment(event.at), event.name, subject.join(" "));
    say(&domain::shown::line(line.trim_end()))
}

impl Events {
    fn json(&self) -> bool {
        self.operator.json
    }
}
