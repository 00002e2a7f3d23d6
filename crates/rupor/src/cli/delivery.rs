//! `rupor delivery`: look at deliveries, queue them again, cancel them.

use anyhow::bail;
use clap::{Args, Subcommand};
use domain::delivery::Status;
use domain::destination::Destination;
use domain::ids::{DeliveryId, MessageId};
use domain::shown;
use serde_json::json;
use store::{Delivery as Row, DeliveryFilter};

use super::operator::{OperatorArgs, block_on};
use crate::language::chosen;
use crate::operate::Verb;
use crate::operate::facts::{self, Facts, gather};
use crate::operate::status::table;
use crate::operate::verb::{Which, find_channel, find_workspace};
use crate::operate::words::{self, counted, moment};

/// Look at deliveries, queue failed ones again, cancel waiting ones
#[derive(Debug, Args)]
pub(super) struct Delivery {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Deliveries by cause, in order of id
    List(List),
    /// One delivery: where it is, why, since when, what happens next and what helps
    Show(Show),
    /// Queue failed deliveries again, by id or by cause
    Requeue(Bulk),
    /// End waiting deliveries, by id or by cause
    Cancel(Bulk),
}

#[derive(Debug, Args)]
struct Causes {
    /// queued, retry, sending, sent, deduped, failed_permanent or dead
    #[arg(long, value_parser = status)]
    status: Option<Status>,
    /// Code of the last error, such as 429 or kicked
    #[arg(long)]
    code: Option<String>,
    /// Name or id of the channel
    #[arg(long)]
    channel: Option<String>,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    causes: Causes,
    /// Deliveries of one message
    #[arg(long, value_name = "ID")]
    message: Option<i64>,
    /// Only ids above this one
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Show {
    id: i64,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Bulk {
    /// Ids of deliveries; without them the cause decides
    ids: Vec<i64>,
    #[command(flatten)]
    causes: Causes,
    #[command(flatten)]
    operator: OperatorArgs,
}

fn status(text: &str) -> Result<Status, String> {
    let known = || Status::ALL.map(Status::as_str).join(", ");
    Status::parse(text).ok_or_else(|| format!("known are {}", known()))
}

pub(super) fn run(args: &Delivery) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(list) => show_list(list).await,
            Command::Show(show) => show_one(show).await,
            Command::Requeue(bulk) => requeue(bulk).await,
            Command::Cancel(bulk) => cancel(bulk).await,
        }
    })
}

async fn show_list(list: &List) -> anyhow::Result<()> {
    let store = list.operator.look().await?.store;
    let workspace = list.operator.workspace(&store).await?;
    let ws = find_workspace(&store, &workspace).await?;
    let channel_id = match &list.causes.channel {
        Some(name) => Some(find_channel(&store, &workspace, name).await?.1.channel_id),
        None => None,
    };
    let filter = DeliveryFilter {
        status: list.causes.status,
        code: list.causes.code.clone(),
        channel_id,
        message_id: list.message.map(MessageId),
        after: list.after.map(DeliveryId),
    };
    let found = store.deliveries(ws, filter, list.limit as usize).await?;
    let channels = store.channels(ws).await?;
    list.operator.print(&found, || {
        let rows = found.iter().map(|delivery| line(delivery, &channels)).collect();
        let mut text =
            table(&["id", "status", "reason", "to", "message", "attempts", "code", "queued"], rows);
        if let Some(last) = found.last().filter(|_| found.len() == list.limit as usize) {
            text += &format!("there may be more: --after {}", last.delivery_id);
        }
        text
    })
}

fn line(delivery: &Row, channels: &[store::Channel]) -> Vec<String> {
    let to = match delivery.destination {
        Destination::Channel(id) => channels.iter().find(|channel| channel.channel_id == id),
        Destination::Recipient(_) => None,
    };
    let gone = || delivery.destination.recipient().map_or("-".to_owned(), |id| format!("person {id}"));
    let code = delivery.last_error.as_ref().and_then(|error| error["code"].as_str());
    vec![
        delivery.delivery_id.to_string(),
        delivery.status.to_string(),
        delivery.reason.clone().unwrap_or_default(),
        to.map_or_else(gone, |channel| channel.name.clone()),
        delivery.message_id.to_string(),
        delivery.counters.attempt.to_string(),
        code.unwrap_or_default().to_owned(),
        moment(delivery.queued_at),
    ]
}

async fn show_one(show: &Show) -> anyhow::Result<()> {
    let look = show.operator.look().await?;
    let known = gather(&look.store, &show.operator.workspace(&look.store).await?, look.node).await?;
    let about = facts::delivery(&look.store, known.workspace.workspace_id, DeliveryId(show.id)).await?;
    let explained = words::delivery(&known, &about);
    let value = json!({
        "delivery": about.delivery, "attempts": about.attempts, "person": about.person, "explanation": explained,
    });
    show.operator.print(&value, || format!("{}\n{}", explained.page(chosen()), past(&known, &about)))
}

/// Where it goes, and every attempt.
fn past(known: &Facts, about: &facts::DeliveryFacts) -> String {
    let delivery = &about.delivery;
    let called = known.called(about);
    let place = shown::line(&called);
    let mut text = format!(
        "message {} to {place}, {} · queued {}\n",
        delivery.message_id,
        delivery.status,
        moment(delivery.queued_at)
    );
    if about.attempts.is_empty() {
        return text + "no attempts yet";
    }
    let rows = about.attempts.iter().map(|attempt| {
        let error =
            |key: &str| attempt.error.as_ref().and_then(|error| error[key].as_str()).unwrap_or_default();
        let words = format!("{} {}", error("code"), error("message"));
        vec![
            attempt.attempt.to_string(),
            moment(attempt.started_at),
            attempt.outcome.clone(),
            words.trim().to_owned(),
        ]
    });
    text += &table(&["attempt", "started", "outcome", "answer"], rows.collect());
    text
}

/// Ids, or at least one condition: a bulk verb without either would mean everything.
fn which(bulk: &Bulk) -> anyhow::Result<Which> {
    let Causes { status, code, channel } = &bulk.causes;
    let has_cause = status.is_some() || code.is_some() || channel.is_some();
    match (bulk.ids.is_empty(), has_cause) {
        (false, false) => Ok(Which::Ids(bulk.ids.iter().copied().map(DeliveryId).collect())),
        (true, true) => Ok(Which::Cause { status: *status, code: code.clone(), channel: channel.clone() }),
        (false, true) => bail!("give ids or a cause (--status, --code, --channel), not both"),
        (true, false) => bail!("which ones? give ids, or a cause with --status, --code, --channel"),
    }
}

async fn requeue(bulk: &Bulk) -> anyhow::Result<()> {
    let which = which(bulk)?;
    let workspace = bulk.operator.workspace(&bulk.operator.look().await?.store).await?;
    let done = bulk.operator.perform(Verb::Requeue { workspace, which }).await?;
    bulk.operator.print(&done, || {
        let n = done["requeued"].as_array().map_or(0, Vec::len);
        let mut text = format!("{} queued again", counted(n, "delivery", "deliveries"));
        if let Some(already) = done["already"].as_u64().filter(|n| *n > 0) {
            text += &format!("; {already} had been queued again before and were left alone");
        }
        text
    })
}

async fn cancel(bulk: &Bulk) -> anyhow::Result<()> {
    let which = which(bulk)?;
    let workspace = bulk.operator.workspace(&bulk.operator.look().await?.store).await?;
    let done = bulk.operator.perform(Verb::Cancel { workspace, which }).await?;
    bulk.operator.print(&done, || {
        let n = done["cancelled"].as_array().map_or(0, Vec::len);
        let mut text = format!("{} cancelled", counted(n, "delivery", "deliveries"));
        if let Some(others) = done["not_waiting"].as_u64().filter(|n| *n > 0) {
            text += &format!("; {others} were out or ended already");
        }
        text
    })
}
