//! `rupor workspace`: who shares this database, and the kill switch of one of them.

use clap::{Args, Subcommand};
use domain::shown::line;
use serde_json::{Value, json};
use store::{Store, Workspace};

use super::operator::{OperatorArgs, block_on};
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::quoted;

/// Look at the workspaces of the database, stop one and let it go on
#[derive(Debug, Args)]
pub(super) struct WorkspaceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List workspaces with what they have
    List(OperatorArgs),
    /// Show what one workspace has, by name
    Show(One),
    /// Stop all sending of one workspace; new posts keep queueing
    Pause(One),
    /// Let one workspace send again
    Resume(One),
}

#[derive(Debug, Args)]
struct One {
    /// Name of the workspace
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &WorkspaceArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(operator) => list(operator).await,
            Command::Show(one) => show(one).await,
            Command::Pause(one) => pause(one).await,
            Command::Resume(one) => resume(one).await,
        }
    })
}

async fn list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let store = operator.look().await?.store;
    let mut found: Vec<Value> = Vec::new();
    for workspace in store.workspaces().await? {
        let ws = workspace.workspace_id;
        found.push(json!({
            "workspace_id": ws,
            "name": workspace.name,
            "held": workspace.held,
            "accounts": store.accounts(ws).await?.len(),
            "channels": store.channels(ws).await?.len(),
            "sources": store.sources(ws).await?.len(),
        }));
    }
    operator.print(&found, || {
        let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let row = |one: &Value| {
            ["name", "accounts", "channels", "sources", "held"].map(|key| cell(&one[key])).to_vec()
        };
        table(&["workspace", "accounts", "channels", "sources", "held"], found.iter().map(row).collect())
    })
}

async fn found(store: &Store, name: &str) -> anyhow::Result<Workspace> {
    let ws = find_workspace(store, name).await?;
    let known = store.workspaces().await?.into_iter().find(|workspace| workspace.workspace_id == ws);
    known.ok_or_else(|| anyhow::anyhow!("the workspace was removed meanwhile; run it again"))
}

async fn show(one: &One) -> anyhow::Result<()> {
    let store = one.operator.look().await?.store;
    let workspace = found(&store, &one.name).await?;
    let ws = workspace.workspace_id;
    let accounts: Vec<String> = store.accounts(ws).await?.into_iter().map(|account| account.name).collect();
    let channels: Vec<String> = store.channels(ws).await?.into_iter().map(|channel| channel.name).collect();
    let sources: Vec<String> = store.sources(ws).await?.into_iter().map(|source| source.name).collect();
    let endpoints: Vec<String> = store.endpoints(ws).await?.into_iter().map(|door| door.name).collect();
    let told = json!({
        "workspace_id": ws, "name": workspace.name, "held": workspace.held, "accounts": accounts, "channels": channels,
        "sources": sources, "endpoints": endpoints,
    });
    one.operator.print(&told, || {
        let names = |names: &[String]| match names {
            [] => "-".to_owned(),
            names => names.join(", "),
        };
        let rows = [
            ("workspace", workspace.name.clone()),
            ("sending", if workspace.held { "stopped" } else { "open" }.to_owned()),
            ("accounts", names(&accounts)),
            ("channels", names(&channels)),
            ("sources", names(&sources)),
            ("endpoints", names(&endpoints)),
        ];
        let mut page = String::new();
        for (what, words) in rows {
            page += &format!("{what:<9}  {}\n", line(&words));
        }
        if workspace.held {
            page += &format!("$ rupor workspace resume {}\n", quoted(&workspace.name));
        }
        page
    })
}

async fn pause(one: &One) -> anyhow::Result<()> {
    let why = one.operator.why("stopped by an operator");
    let verb = Verb::Hold { workspace: Some(one.name.clone()), why: why.clone() };
    let done = one.operator.perform(verb).await?;
    one.operator.print(&done, || {
        format!(
            "Sending is stopped for workspace {} ({}); new posts keep queueing\n$ rupor workspace resume {}",
            line(&one.name),
            line(&why),
            quoted(&one.name)
        )
    })
}

async fn resume(one: &One) -> anyhow::Result<()> {
    let done = one.operator.perform(Verb::Release { workspace: Some(one.name.clone()) }).await?;
    one.operator.print(&done, || format!("Sending goes on for workspace {}", line(&one.name)))
}
