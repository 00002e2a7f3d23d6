//! `rupor workspace`: who shares this database.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::operator::{OperatorArgs, block_on};
use crate::operate::status::table;

/// Look at the workspaces of the database
#[derive(Debug, Args)]
pub(super) struct WorkspaceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List workspaces with what they have; stop-all and release take --workspace
    List(OperatorArgs),
}

pub(super) fn run(args: &WorkspaceArgs) -> anyhow::Result<()> {
    let Command::List(operator) = &args.command;
    block_on(async {
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
    })
}
