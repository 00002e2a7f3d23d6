//! `rupor delivery`: look at deliveries, queue them again, cancel them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use anyhow::bail;
use clap::{Args, Subcommand};
use domain::delivery::Status;
use domain::destination::Destination;
use domain::ids::{DeliveryId, MessageId, WorkspaceId};
use domain::shown;
use serde_json::{Value, json};
use store::{Delivery, DeliveryFilter, ListOrder, Store, StoredMessage};

use super::operator::{Newest, OperatorArgs, block_on};
use crate::language::{chosen, heard, say};
use crate::operate::Verb;
use crate::operate::facts::{self, Facts, gather};
use crate::operate::status::table;
use crate::operate::verb::{Which, find_channel, find_workspace};
use crate::operate::words::{self, counted, moment, words_of};
use crate::why::words::status_words;

/// Look at deliveries, queue failed ones again, cancel waiting ones
#[derive(Debug, Args)]
pub(super) struct DeliveryArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List deliveries, the newest first, with the words of the post and the link
    List(List),
    /// Show one delivery: where it is, why, since when, what happens next and what helps
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
    /// Only deliveries of this message
    #[arg(long, value_name = "ID")]
    message: Option<i64>,
    /// Only ids below this one: go on where a listing ended
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
    #[command(flatten)]
    newest: Newest,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Show {
    /// Id of the delivery
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

pub(super) fn run(args: &DeliveryArgs) -> anyhow::Result<()> {
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
        before: list.before.map(DeliveryId),
        order: ListOrder::NewestFirst,
        ..DeliveryFilter::default()
    };
    let channels = store.channels(ws).await?;
    let found = newest(&store, ws, list, filter).await?;
    let values: Vec<Value> =
        found.iter().map(|(row, message)| listed(row, message.as_ref(), &channels)).collect();
    list.operator.print(&values, || {
        let rows = found.iter().zip(&values).map(|((row, _), value)| line(row, value)).collect();
        let heads = ["id", "status", "reason", "to", "queued", "attempts", "code", "message", "text", "link"];
        let mut text = table(&heads, rows);
        if let Some((last, _)) = found.last().filter(|_| found.len() == list.newest.last()) {
            text += &format!("there may be more: --before {}", last.delivery_id);
        }
        text
    })
}

/// Deliveries of one reading, and readings of one listing.
const WINDOW: usize = 500;
const READINGS_MAX: usize = 40;

/// The newest first, with their messages; words are looked for in a bounded part of the past.
async fn newest(
    store: &Store,
    ws: WorkspaceId,
    list: &List,
    mut filter: DeliveryFilter,
) -> anyhow::Result<Vec<(Delivery, Option<StoredMessage>)>> {
    let (begin, words, wanted) = (list.newest.begin(store).await?, list.newest.words(), list.newest.last());
    let mut messages: HashMap<MessageId, Option<StoredMessage>> = HashMap::new();
    let mut found = Vec::new();
    for _ in 0..READINGS_MAX {
        let window = if words.is_some() { WINDOW } else { wanted.min(WINDOW) };
        let page = store.deliveries(ws, filter.clone(), window).await?;
        let is_last = page.len() < window;
        for row in page {
            filter.before = Some(row.delivery_id);
            if row.queued_at < begin {
                return Ok(found);
            }
            if let Entry::Vacant(unread) = messages.entry(row.message_id) {
                unread.insert(store.message(ws, row.message_id).await.ok());
            }
            let message = messages.get(&row.message_id).cloned().flatten();
            if words.as_ref().is_none_or(|words| message.as_ref().is_some_and(|message| words.fit(message))) {
                found.push((row, message));
            }
            if found.len() == wanted {
                return Ok(found);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// A delivery as programs read it in a listing: the row, and what people look for beside it.
fn listed(delivery: &Delivery, message: Option<&StoredMessage>, channels: &[store::Channel]) -> Value {
    let channel = match delivery.destination {
        Destination::Channel(id) => channels.iter().find(|channel| channel.channel_id == id),
        Destination::Recipient(_) => None,
    };
    let published = delivery.provider_message_id.as_deref();
    let text = message.and_then(|message| message.payload["text"].as_str());
    let mut value = json!(delivery);
    value["channel"] = json!(channel.map(|channel| channel.name.as_str()));
    value["text"] = json!(text.map(words_of));
    value["link"] =
        json!(channel.zip(published).and_then(|(channel, id)| engine::addresses::link(channel, id)));
    value
}

fn line(delivery: &Delivery, value: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let person = || delivery.destination.recipient().map_or("-".to_owned(), |id| format!("person {id}"));
    let error = delivery.last_error.as_ref().map(|error| word(&error["code"]));
    vec![
        delivery.delivery_id.to_string(),
        delivery.status.to_string(),
        delivery.reason.clone().unwrap_or_default(),
        value["channel"].as_str().map_or_else(person, str::to_owned),
        moment(delivery.queued_at),
        delivery.counters.attempt.to_string(),
        error.unwrap_or_default(),
        delivery.message_id.to_string(),
        word(&value["text"]),
        word(&value["link"]),
    ]
}

async fn show_one(show: &Show) -> anyhow::Result<()> {
    let look = show.operator.look().await?;
    let known = gather(&look.store, &show.operator.workspace(&look.store).await?, look.node).await?;
    let about = facts::delivery(&look.store, known.workspace.workspace_id, DeliveryId(show.id)).await?;
    let explained = words::delivery(&known, &about);
    let message = look.store.message(known.workspace.workspace_id, about.delivery.message_id).await.ok();
    let left_out = match (known.channel_of(&about.delivery), &message) {
        (Some(channel), Some(message)) => crate::why::left_out(&known, channel, message),
        _ => Vec::new(),
    };
    let value = json!({
        "delivery": about.delivery, "attempts": about.attempts, "person": about.person, "explanation": explained,
        "left_out": left_out,
    });
    show.operator.print(&value, || {
        let told = left_out.iter().map(|what| say!("why.left_out", what = heard(what)).in_language(chosen()));
        let told: Vec<String> = told.collect();
        format!("{}\n{}\n{}", explained.page(chosen()), past(&known, &about), told.join("\n"))
    })
}

/// Where it goes, and every attempt.
fn past(known: &Facts, about: &facts::DeliveryFacts) -> String {
    let delivery = &about.delivery;
    let called = known.called(about);
    let place = shown::line(&called).into_owned();
    let (message, status) = (delivery.message_id.0, status_words(delivery.status));
    let line = say!("why.past", message = message, to = place, status = status, at = delivery.queued_at);
    let mut text = line.in_language(chosen()) + "\n";
    if about.attempts.is_empty() {
        return text + &say!("why.past.none").in_language(chosen());
    }
    let rows = about.attempts.iter().map(|attempt| {
        let error =
            |key: &str| attempt.error.as_ref().and_then(|error| error[key].as_str()).unwrap_or_default();
        let words = format!("{} {}", error("code"), heard(error("message")).in_language(chosen()));
        let outcome = Status::parse(&attempt.outcome).map(status_words);
        vec![
            attempt.attempt.to_string(),
            moment(attempt.started_at),
            outcome.map_or_else(|| attempt.outcome.clone(), |words| words.in_language(chosen())),
            words.trim().to_owned(),
        ]
    });
    let heads = [
        say!("why.past.attempt"),
        say!("why.past.started"),
        say!("why.past.outcome"),
        say!("why.past.answer"),
    ];
    let heads = heads.map(|head| head.in_language(chosen()));
    text += &table(&heads.each_ref().map(String::as_str), rows.collect());
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
