//! `rupor alert`: who is told of trouble, and what was told.

use anyhow::bail;
use clap::{Args, Subcommand};
use domain::shown::line;
use serde_json::{Value, json};

use super::operator::{OperatorArgs, block_on};
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::trouble::KINDS;
use crate::operate::words::moment;

/// Look at troubles that were told, and test the ways they are told by
#[derive(Debug, Args)]
pub(super) struct AlertArgs {
    #[command(subcommand)]
    command: AlertCommand,
}

#[derive(Debug, Subcommand)]
enum AlertCommand {
    /// Send a test by every way that the configuration names
    Test(OperatorArgs),
    /// Show every kind of trouble that is told
    Kinds,
    /// Show the latest troubles, the newest first
    List {
        /// How many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

pub(super) fn run(args: &AlertArgs) -> anyhow::Result<()> {
    match &args.command {
        AlertCommand::Kinds => {
            let rows = KINDS.iter().map(|(kind, when)| vec![(*kind).to_owned(), (*when).to_owned()]);
            super::operator::say(table(&["kind", "told when"], rows.collect()).trim_end())
        }
        AlertCommand::Test(operator) => block_on(test(operator)),
        AlertCommand::List { limit, operator } => block_on(list(operator, usize::from(*limit))),
    }
}

async fn test(operator: &OperatorArgs) -> anyhow::Result<()> {
    let look = operator.look().await?;
    let workspace = operator.workspace(&look.store).await?;
    let key = uuid::Uuid::new_v4().simple().to_string();
    let done = operator.perform(Verb::TestAlert { workspace, key }).await?;
    let ways: Vec<String> = done["deliveries"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|way| {
            let name = way["channel"].as_str().unwrap_or_default();
            format!("{}: delivery {}", line(name), way["delivery_id"])
        })
        .collect();
    if ways.is_empty() {
        bail!("nobody is told: write [alerts] with a channel or a webhook, then `rupor apply`");
    }
    operator.print(&done, || format!("queued\n{}\n$ rupor delivery list", ways.join("\n")))
}

async fn list(operator: &OperatorArgs, limit: usize) -> anyhow::Result<()> {
    let look = operator.look().await?;
    let workspace = operator.workspace(&look.store).await?;
    let ws = crate::operate::verb::find_workspace(&look.store, &workspace).await?;
    let alerts = look.store.alerts(ws, None, limit).await?;
    let rows: Vec<Value> = alerts.iter().map(|alert| json!(alert)).collect();
    operator.print(&rows, || match alerts.is_empty() {
        true => "no trouble was seen yet".to_owned(),
        false => {
            let cells = alerts.iter().map(|alert| {
                let state = match (alert.ended_at, alert.told_at) {
                    (Some(at), _) => format!("over since {}", moment(at)),
                    (None, Some(at)) => format!("told {}", moment(at)),
                    (None, None) => "not told".to_owned(),
                };
                let headline = alert.words["headline"].as_str().unwrap_or_default().to_owned();
                vec![alert.alert_id.to_string(), moment(alert.opened_at), alert.kind.clone(), state, headline]
            });
            table(&["id", "since", "kind", "state", "trouble"], cells.collect())
        }
    })
}
