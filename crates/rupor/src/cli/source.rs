//! `rupor source`: look at what is read, stop and start it.

use clap::{Args, Subcommand};
use domain::shown::line;
use serde_json::{Value, json};

use super::operator::{OperatorArgs, block_on, fits};
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::{moment, quoted};

/// Look at walls and feeds that are read, stop and start them
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rupor source list\n  rupor source pause 'city/*' --reason \"пожар\"")]
pub(super) struct SourceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List sources with their state, the next look and the last failure
    List(OperatorArgs),
    /// Show one source with how far it was read
    Show(Named),
    /// Read nothing there until it is resumed; `*` in a name fits any text
    Pause(Named),
    /// Read it again, from where it was left
    Resume(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// Name of the source; `*` fits any text
    source: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &SourceArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(operator) => list(operator, "*").await,
            Command::Show(named) => show(named).await,
            Command::Pause(named) => switch(named, false).await,
            Command::Resume(named) => switch(named, true).await,
        }
    })
}

async fn found(operator: &OperatorArgs, pattern: &str) -> anyhow::Result<(String, Vec<store::Source>)> {
    let store = operator.look().await?.store;
    let workspace = operator.workspace(&store).await?;
    let mut sources = store.sources(find_workspace(&store, &workspace).await?).await?;
    let known: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
    sources.retain(|source| fits(pattern, &source.name));
    if sources.is_empty() && pattern != "*" {
        anyhow::bail!("source {pattern:?} is not known; known are {}", known.join(", "));
    }
    Ok((workspace, sources))
}

async fn list(operator: &OperatorArgs, pattern: &str) -> anyhow::Result<()> {
    let (_, sources) = found(operator, pattern).await?;
    operator.print(&sources, || {
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
                address,
                state.to_owned(),
                moment(source.next_poll_at),
                error,
            ]
        });
        table(&["source", "kind", "address", "state", "next look", "last failure"], rows.collect())
    })
}

async fn show(named: &Named) -> anyhow::Result<()> {
    let (_, sources) = found(&named.operator, &named.source).await?;
    named.operator.print(&sources, || {
        let told = sources.iter().map(|source| {
            let address = domain::shown::addresses(&source.address).to_string();
            format!(
                "source {} ({}) {}\n  read up to {}\n",
                line(&source.name),
                source.kind,
                line(&address),
                source.cursor
            )
        });
        told.collect()
    })
}

async fn switch(named: &Named, enabled: bool) -> anyhow::Result<()> {
    let operator = &named.operator;
    let (workspace, sources) = found(operator, &named.source).await?;
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
