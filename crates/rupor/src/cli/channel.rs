//! `rupor channel`: look at channels, stop and start them, try them out.

use clap::{Args, Subcommand};
use domain::shown::line;
use domain::time::Span;
use serde_json::{Value, json};

use super::operator::{OperatorArgs, Several, Tagged, block_on, fits};
use crate::config::show_rate;
use crate::language::chosen;
use crate::operate::facts::{Facts, gather};
use crate::operate::status::{state, status, table};
use crate::operate::verb::{find_channel, find_workspace};
use crate::operate::words::{how_long, quoted};
use crate::operate::{Verb, words};
use engine::span;

/// Look at channels, stop and start them, try them out
#[derive(Debug, Args)]
pub(super) struct ChannelArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List channels with their state
    List(List),
    /// Show one channel: settings, counts, and what is the matter with it
    Show(Named),
    /// Send nothing for a while; the queue is kept
    Pause(Pause),
    /// Go on: end a pause, enable again, forget failures
    Resume(Resume),
    /// Take no new posts and send nothing
    Disable(Bulk),
    /// Do the same as resume
    Enable(Resume),
    /// Ask the platform about the token and its rights, and queue a test post with --send
    Test(Test),
}

#[derive(Debug, Args)]
struct Named {
    /// Name or id of the channel
    channel: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct List {
    /// Name, or a pattern: `*` fits any text
    #[arg(default_value = "*")]
    channel: String,
    #[command(flatten)]
    tagged: Tagged,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Bulk {
    #[command(flatten)]
    which: Several,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Pause {
    #[command(flatten)]
    bulk: Bulk,
    /// How long, such as 30m or 2h [default: until it is resumed]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    length: Option<Span>,
}

#[derive(Debug, Args)]
struct Resume {
    #[command(flatten)]
    bulk: Bulk,
    /// Also queue again what failed because of the channel
    #[arg(long)]
    with_failed: bool,
}

#[derive(Debug, Args)]
struct Test {
    #[command(flatten)]
    named: Named,
    /// Also queue this post to the channel
    #[arg(long, value_name = "TEXT")]
    send: Option<String>,
}

pub(super) fn time(text: &str) -> Result<Span, String> {
    span::parse(text).filter(|span| span.0 > 0).ok_or_else(|| format!("write {}", span::FORM))
}

pub(super) fn run(args: &ChannelArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(list) => show_list(list).await,
            Command::Show(named) => show(named).await,
            Command::Pause(pause) => stop(pause).await,
            Command::Resume(resume) | Command::Enable(resume) => go_on(resume).await,
            Command::Disable(named) => disable(named).await,
            Command::Test(test) => try_out(test).await,
        }
    })
}

async fn show_list(list: &List) -> anyhow::Result<()> {
    let operator = &list.operator;
    let look = operator.look().await?;
    let mut facts = gather(&look.store, &operator.workspace(&look.store).await?, look.node).await?;
    facts
        .channels
        .retain(|channel| fits(&list.channel, &channel.name) && list.tagged.fit(&channel.settings.settings));
    let lines: Vec<Vec<String>> = facts
        .channels
        .iter()
        .map(|channel| {
            vec![
                channel.channel_id.to_string(),
                channel.name.clone(),
                channel.platform.clone(),
                channel.shown_target(),
                state(&facts, channel).to_owned(),
                facts.waiting(channel).to_string(),
                show_rate(channel.settings.rate),
                channel.paused_why.clone().unwrap_or_default(),
            ]
        })
        .collect();
    operator.print(&facts.channels, || {
        table(&["id", "channel", "platform", "target", "state", "waiting", "rate", "why"], lines)
    })
}

async fn show(named: &Named) -> anyhow::Result<()> {
    let look = named.operator.look().await?;
    let workspace = named.operator.workspace(&look.store).await?;
    let (_, channel) = find_channel(&look.store, &workspace, &named.channel).await?;
    let facts = gather(&look.store, &workspace, look.node).await?;
    // The trouble of this channel alone, and what is wider than a channel.
    let about = Facts { channels: vec![channel.clone()], ..facts };
    let status = status(&about);
    let value = json!({"channel": channel, "status": status});
    named.operator.print(&value, || {
        let lane = about.lane_of(&channel).map(|lane| lane.counts).unwrap_or_default();
        let settings = json!(channel.settings);
        let set = settings.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let settings: Vec<Vec<String>> =
            set.map(|(key, value)| vec![key.clone(), shown(key, value)]).collect();
        format!(
            "{}\n{} to {} · sent {}, repeats {}, failed {}, dead {}\n\n{}",
            status.page(chosen()),
            line(&channel.name),
            line(&channel.shown_target()),
            lane.sent,
            lane.deduped,
            lane.failed_permanent,
            lane.dead,
            table(&["setting", "value"], settings)
        )
    })
}

fn shown(key: &str, value: &Value) -> String {
    match (key, value) {
        ("dedup_ttl" | "max_age", Value::Number(us)) => how_long(Span(us.as_i64().unwrap_or_default())),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

/// Carries a verb out for every channel that a pattern fits, and shows them together.
async fn each(
    bulk: &Bulk,
    verb: impl Fn(String, String) -> Verb,
    told: impl Fn(&Value) -> String,
) -> anyhow::Result<()> {
    let operator = &bulk.operator;
    let store = operator.look().await?.store;
    let workspace = operator.workspace(&store).await?;
    if let Some(only) = bulk.which.only() {
        let done = operator.perform(verb(workspace, only.to_owned())).await?;
        return operator.print(&done, || told(&done));
    }
    let channels = store.channels(find_workspace(&store, &workspace).await?).await?;
    let hand = operator.hand().await?;
    let mut done = Vec::new();
    let fit = |channel: &&store::Channel| bulk.which.fit(&channel.name, &channel.settings.settings);
    for channel in channels.iter().filter(fit) {
        done.push(hand.perform(verb(workspace.clone(), channel.name.clone())).await?);
    }
    if done.is_empty() {
        anyhow::bail!("no channel fits {}; `rupor channel list` shows them", bulk.which);
    }
    operator.print(&done, || done.iter().map(&told).collect::<Vec<_>>().join("\n"))
}

async fn stop(pause: &Pause) -> anyhow::Result<()> {
    let why = pause.bulk.operator.why("");
    let millis = pause.length.map(Span::millis);
    let verb = |workspace, channel| Verb::PauseChannel { workspace, channel, millis, why: why.clone() };
    each(&pause.bulk, verb, |done| {
        let name = done["channel"].as_str().unwrap_or_default();
        let until =
            pause.length.map_or("until it is resumed".to_owned(), |span| format!("for {}", how_long(span)));
        format!(
            "channel {} is paused {until}; its queue is kept\n$ rupor channel resume {}",
            line(name),
            quoted(name)
        )
    })
    .await
}

async fn go_on(resume: &Resume) -> anyhow::Result<()> {
    let with_failed = resume.with_failed;
    each(
        &resume.bulk,
        |workspace, channel| Verb::ResumeChannel { workspace, channel, with_failed },
        |done| {
            let name = done["channel"].as_str().unwrap_or_default();
            let mut text = format!("Channel {} resumed", line(name));
            match (done["requeued"].as_u64().unwrap_or(0), done["failed"].as_u64().unwrap_or(0)) {
                (0, 0) => {}
                (0, n) => {
                    let what = words::counted(n as usize, "post", "posts");
                    let again = format!("rupor channel resume {} --with-failed", quoted(name));
                    text +=
                        &format!("; {what} failed because of the channel; to queue them again:\n$ {again}");
                }
                (n, _) => {
                    text += &format!(
                        "; {} queued again",
                        words::counted(n as usize, "failed post", "failed posts")
                    );
                }
            }
            text
        },
    )
    .await
}

async fn disable(bulk: &Bulk) -> anyhow::Result<()> {
    each(
        bulk,
        |workspace, channel| Verb::DisableChannel { workspace, channel },
        |done| {
            let name = done["channel"].as_str().unwrap_or_default();
            format!(
                "channel {} takes no new posts; what waits is kept\n$ rupor channel enable {}",
                line(name),
                quoted(name)
            )
        },
    )
    .await
}

async fn try_out(test: &Test) -> anyhow::Result<()> {
    let operator = &test.named.operator;
    let look = operator.look().await?;
    let workspace = operator.workspace(&look.store).await?;
    let (ws, channel) = find_channel(&look.store, &workspace, &test.named.channel).await?;
    let findings = crate::operate::check::channel(&look.store, ws, &channel).await?;
    let queued = match &test.send {
        None => None,
        Some(text) => {
            let key = uuid::Uuid::new_v4().to_string();
            let verb =
                Verb::TestChannel { workspace, channel: channel.name.clone(), text: text.clone(), key };
            Some(operator.perform(verb).await?)
        }
    };
    operator.print(&json!({"findings": findings, "queued": queued}), || {
        let mut text = crate::operate::check::text(&findings, chosen());
        if let Some(queued) = &queued {
            text += &format!("\nthe post is queued\n$ rupor delivery show {}", queued["delivery_id"]);
        }
        text
    })?;
    crate::operate::check::verdict(&findings, chosen())
}
