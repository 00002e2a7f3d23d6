//! `rupor apply`: makes the rows equal to a configuration file.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use engine::addresses::ApiBases;
use store::Store;

use super::operator::{OperatorArgs, block_on, say};
use crate::config::plan::{Absent, Plan, plan};
use crate::config::{self, Config};
use crate::operate::Verb;
use crate::operate::check::alert_ways;
use crate::operate::words::counted;

/// Make accounts, channels and doors equal to a configuration file
///
/// Shows what changes first. A second run says that there is nothing to do.
/// A channel that left the file is removed, after a question or with --yes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rupor apply\n  rupor apply rupor.toml --dry-run\n  rupor apply --yes --json"
)]
pub(super) struct Apply {
    /// The configuration file
    #[arg(value_name = "FILE", default_value = "rupor.toml")]
    file: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before channels are removed
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Apply) -> anyhow::Result<()> {
    let config = config::from_file(&args.file, &config::process_variables)?;
    block_on(apply(args, config))
}

async fn apply(args: &Apply, config: Config) -> anyhow::Result<()> {
    create_database(args).await?;
    let look = args.operator.look().await?;
    let planned = plan(&look.store, &config, Absent::Remove).await?;
    if !args.operator.json {
        for note in &config.notes {
            say(&format!("note    {}", domain::shown::line(note)))?;
        }
    }
    let bases = ApiBases::from_env(|name| std::env::var(name).ok());
    let trouble = alert_ways(&config, &bases).await;
    if !args.operator.json {
        for problem in &trouble {
            say(&format!("warning {}", domain::shown::line(problem)))?;
        }
    }
    let notes: Vec<String> = config.notes.iter().cloned().chain(trouble).collect();
    if planned.steps.is_empty() {
        return args.operator.print(&outcome(&planned, false, &notes), || "nothing to do".to_owned());
    }
    if args.dry_run {
        return args.operator.print(&outcome(&planned, false, &notes), || {
            format!("{planned}would change: {}", steps(&planned))
        });
    }
    if !args.operator.json {
        say(planned.to_string().trim_end())?;
    }
    confirm(args, &planned)?;
    let answer = args.operator.perform(Verb::Apply { config, absent: Absent::Remove }).await?;
    let done: Plan = serde_json::from_value(answer)?;
    args.operator.print(&outcome(&done, true, &notes), || format!("done: {}", steps(&done)))
}

/// A file that is not there yet is made; an old one is brought up to date by `rupor migrate`, on purpose.
async fn create_database(args: &Apply) -> anyhow::Result<()> {
    let address = args.operator.database.address()?;
    if let store::Address::Sqlite(store::address::SqlitePath::File(file)) = &address
        && !file.exists()
        && !args.dry_run
    {
        Store::migrate(&address).await?;
    }
    Ok(())
}

fn confirm(args: &Apply, planned: &Plan) -> anyhow::Result<()> {
    let removals = planned.removals();
    if args.yes || removals == 0 {
        return Ok(());
    }
    let what = counted(removals, "channel would be removed", "channels would be removed");
    if args.operator.json || !std::io::stdin().is_terminal() {
        bail!("{what}; nothing was changed: run it again with --yes");
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{what}. Go on? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}

fn steps(plan: &Plan) -> String {
    counted(plan.steps.len(), "step", "steps")
}

fn outcome(plan: &Plan, applied: bool, notes: &[String]) -> serde_json::Value {
    serde_json::json!({"applied": applied, "steps": plan.steps, "notes": notes})
}
