//! `rupor events`: what happened, as the audit tells it.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use domain::destination::Destination;
use domain::time::{Span, Timestamp};
use store::{Event, Store};

use super::operator::{OperatorArgs, block_on, say};
use crate::operate::search::Words;
use crate::operate::verb::{find_channel, find_workspace};
use crate::operate::words::moment;

/// How often a follower looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Events of one look.
const PAGE: usize = 1_000;
/// Events that are looked through for those that are wanted.
const LOOKED_MAX: usize = 10_000;

/// Show what happened
///
/// With --json one event a line.
#[derive(Debug, Args)]
pub(super) struct Events {
    /// Go on and show new ones as they come
    #[arg(long)]
    follow: bool,
    /// Show at most this many of the newest
    #[arg(long, visible_alias = "limit", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    last: u32,
    /// Only what is younger than this, such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = super::channel::time)]
    since: Option<Span>,
    /// Only what has all these words, in any order
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
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
    let begin = match args.since {
        Some(span) => store.now().await? - span,
        None => Timestamp(i64::MIN),
    };
    let words = Words::of(args.search.as_deref().unwrap_or_default());
    let wanted = |event: &Event| {
        event.at >= begin
            && words.as_ref().is_none_or(|words| words.fit_line(&format!("{} {}", event.name, event.detail)))
            && args.name.as_ref().is_none_or(|name| *name == event.name)
            && (channel.is_none() || event.destination == channel.map(Destination::Channel))
    };
    let narrowed = words.is_some() || args.since.is_some() || args.name.is_some() || channel.is_some();
    let looked = if narrowed { LOOKED_MAX } else { PAGE.max(args.last as usize) };
    let recent = store.recent_events(ws, looked).await?;
    let mut last = recent.first().map_or(0, |event| event.event_id);
    let mut shown: Vec<&Event> =
        recent.iter().filter(|event| wanted(event)).take(args.last as usize).collect();
    shown.reverse();
    let names: BTreeSet<&str> = recent.iter().map(|event| event.name.as_str()).collect();
    if let (false, Some(name)) = (args.json(), &args.name)
        && !names.contains(name.as_str())
    {
        let there = names.into_iter().collect::<Vec<_>>().join(", ");
        say(&format!("no {name:?} among the last {} events; there are {there}", recent.len()))?;
    }
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
        return say(&crate::operate::style::styled(event)?.to_string());
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
