//! `rupor source`: look at what is read, stop and start it, try it out.

use clap::{Args, Subcommand};
use domain::ids::WorkspaceId;
use domain::shown::line;
use domain::time::Span;
use engine::addresses::ApiBases;
use engine::ingest::read;
use engine::sources::{DEADLINE, GRACE, PollError, Reader, Settings, look_at};
use platforms::platform::Network;
use serde_json::{Value, json};
use store::Store;

use super::operator::{OperatorArgs, Several, Tagged, block_on};
use crate::config;
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::{counted, moment, quoted, words_of};

/// Posts that a test tells about.
const SHOWN: usize = 3;

/// Look at walls and feeds that are read, stop and start them, try them out
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rupor source list\n  rupor source test city/-101\n  rupor source pause 'city/*' --reason \"пожар\""
)]
pub(super) struct SourceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List sources with their state, the next look and the last failure
    List(List),
    /// Show one source with how far it was read
    Show(Named),
    /// Read nothing there until it is resumed
    Pause(Bulk),
    /// Read it again, from where it was left
    Resume(Bulk),
    /// Read it once and keep nothing: tell what its latest posts are and where they would go
    Test(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// Name of the source
    source: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct List {
    /// Name, or a pattern: `*` fits any text
    #[arg(default_value = "*")]
    source: String,
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

pub(super) fn run(args: &SourceArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(list) => show_list(list).await,
            Command::Show(named) => show(named).await,
            Command::Pause(bulk) => switch(bulk, false).await,
            Command::Resume(bulk) => switch(bulk, true).await,
            Command::Test(named) => try_out(named).await,
        }
    })
}

/// The sources of the workspace that is meant.
async fn all(operator: &OperatorArgs) -> anyhow::Result<(Store, String, WorkspaceId, Vec<store::Source>)> {
    let store = operator.look().await?.store;
    let workspace = operator.workspace(&store).await?;
    let ws = find_workspace(&store, &workspace).await?;
    let sources = store.sources(ws).await?;
    Ok((store, workspace, ws, sources))
}

fn unknown(what: impl std::fmt::Display, known: &[store::Source]) -> anyhow::Error {
    let names: Vec<&str> = known.iter().map(|source| source.name.as_str()).collect();
    match names.is_empty() {
        true => anyhow::anyhow!("there are no sources; write one into rupor.toml and run `rupor apply`"),
        false => anyhow::anyhow!("no source fits {what}; there are {}", names.join(", ")),
    }
}

async fn show_list(list: &List) -> anyhow::Result<()> {
    let (_, _, _, mut sources) = all(&list.operator).await?;
    let fit = |source: &store::Source| {
        super::operator::fits(&list.source, &source.name) && list.tagged.fit(&source.settings)
    };
    sources.retain(fit);
    list.operator.print(&sources, || {
        let rows = sources.iter().map(|source| {
            let state = match source {
                source if !source.enabled => "paused",
                source if source.failing_since.is_some() => "failing",
                _ => "read",
            };
            let address = domain::shown::addresses(&source.address).to_string();
            let error = source.last_error.clone().unwrap_or_default();
            vec![
                source.name.clone(),
                source.kind.clone(),
                engine::sources::title(source).unwrap_or_default().to_owned(),
                address,
                state.to_owned(),
                moment(source.next_poll_at),
                error,
            ]
        });
        table(&["source", "kind", "title", "address", "state", "next look", "last failure"], rows.collect())
    })
}

async fn one(named: &Named) -> anyhow::Result<(Store, store::Source)> {
    let (store, _, _, sources) = all(&named.operator).await?;
    let found = sources.iter().find(|source| source.name == named.source).cloned();
    found.map(|source| (store, source)).ok_or_else(|| unknown(format!("{:?}", named.source), &sources))
}

async fn show(named: &Named) -> anyhow::Result<()> {
    let (_, source) = one(named).await?;
    named.operator.print(&source, || {
        let address = domain::shown::addresses(&source.address).to_string();
        format!(
            "source {} ({}) {}\n{}  {}\n  next look {}\n{}",
            line(&source.name),
            source.kind,
            line(&address),
            engine::sources::title(&source)
                .map_or(String::new(), |title| format!("  it calls itself {}\n", line(title))),
            how_far(&source),
            moment(source.next_poll_at),
            source
                .last_error
                .as_deref()
                .map_or(String::new(), |why| format!("  last failure: {}\n", line(why)))
        )
    })
}

/// How far it was read, as its kind counts.
fn how_far(source: &store::Source) -> String {
    let number = |name: &str| source.cursor[name].as_i64();
    match (number("last"), number("entries"), number("at")) {
        (Some(0), _, _) => "read; there are no posts yet".to_owned(),
        (Some(post), _, _) => format!("read up to post {post}"),
        (_, Some(entries), _) => {
            format!("{} at the last look", counted(entries as usize, "entry", "entries"))
        }
        (_, _, Some(at)) => format!("read up to byte {at}"),
        _ => "not read yet".to_owned(),
    }
}

async fn switch(bulk: &Bulk, enabled: bool) -> anyhow::Result<()> {
    let operator = &bulk.operator;
    let (_, workspace, _, known) = all(operator).await?;
    let sources: Vec<&store::Source> =
        known.iter().filter(|source| bulk.which.fit(&source.name, &source.settings)).collect();
    if sources.is_empty() {
        return Err(unknown(&bulk.which, &known));
    }
    let hand = operator.hand().await?;
    let mut done: Vec<Value> = Vec::new();
    for source in &sources {
        let (workspace, source) = (workspace.clone(), source.name.clone());
        done.push(hand.perform(Verb::EnableSource { workspace, source, enabled }).await?);
    }
    operator.print(&json!(done), || {
        let told = sources.iter().map(|source| {
            let name = line(&source.name);
            match enabled {
                true => format!("source {name} is read again\n"),
                false => {
                    format!("source {name} is paused\n$ rupor source resume {}\n", quoted(&source.name))
                }
            }
        });
        told.collect()
    })
}

async fn try_out(named: &Named) -> anyhow::Result<()> {
    let (store, source) = one(named).await?;
    let bases = ApiBases::from_env(config::process_variables);
    let network = Network::default();
    bases.admit(&network);
    let settings = Settings {
        owner: String::new(),
        interval: Span::from_secs(60),
        bases,
        lease: Span::from_secs(60),
        deadline: DEADLINE,
        grace: GRACE,
    };
    let reader = Reader { store: &store, network: &network, settings: &settings };
    let (posts, rules) = match look_at(&reader, &source).await {
        Ok(looked) => looked,
        Err(PollError::Other(error)) => return Err(error),
        Err(error) => anyhow::bail!("source {} cannot be read: {error}", line(&source.name)),
    };
    let (now, channels) = (store.now().await?, store.channels(source.workspace_id).await?);
    let name_of =
        |id| channels.iter().find(|channel| channel.channel_id == id).map(|channel| channel.name.as_str());
    let told: Vec<Value> = posts
        .iter()
        .rev()
        .take(SHOWN)
        .map(|post| {
            let reading = read(post, &rules, now);
            let goes: Vec<&str> = reading.channels.iter().filter_map(|id| name_of(*id)).collect();
            json!({
                "kind": reading.analysis.facts.kind.value,
                "date": post.origin.date,
                "text": words_of(&post.text),
                "url": post.origin.url,
                "channels": goes,
                "not_published": reading.skipped,
            })
        })
        .collect();
    let answer = json!({"source": source.name, "readable": true, "posts": posts.len(), "latest": told});
    named.operator.print(&answer, || {
        let mut text = format!(
            "source {} can be read: {} there now; nothing was kept\n",
            line(&source.name),
            counted(posts.len(), "post is", "posts are")
        );
        for post in &told {
            let word = |key: &str| line(post[key].as_str().unwrap_or_default()).into_owned();
            let channels: Vec<&str> =
                post["channels"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let goes = match channels.is_empty() {
                true => format!("goes nowhere: {}", word("not_published")),
                false => format!("goes to {}", line(&channels.join(", "))),
            };
            text += &format!("  {}: {} {}\n    {goes}\n", word("kind"), word("text"), word("url"));
        }
        text
    })
}
