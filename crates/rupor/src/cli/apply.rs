//! `rupor apply`: makes the rows equal to a configuration file.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
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
/// A channel that left the file is removed, and a workspace that left it is stopped, after a question or with --yes.
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
    /// Do not ask before anything is removed or stopped
    #[arg(long)]
    yes: bool,
    /// Leave workspaces alone that the file does not name: they have a file of their own
    #[arg(long)]
    keep_others: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Apply) -> anyhow::Result<()> {
    let config = config::from_file(&args.file, &config::process_variables)?;
    block_on(apply(args, config))
}

async fn apply(args: &Apply, mut config: Config) -> anyhow::Result<()> {
    create_database(args).await?;
    let look = args.operator.look().await?;
    if !args.keep_others {
        let known = look.store.workspaces().await?;
        config.stops(&known.into_iter().map(|workspace| workspace.name).collect::<Vec<_>>());
    }
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
        show(&planned)?;
    }
    confirm(args, &config, &planned)?;
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

/// The plan; what ends is red where colours are seen.
fn show(plan: &Plan) -> anyhow::Result<()> {
    let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
    let mut out = anstream::stdout().lock();
    for (line, ends) in plan.lines() {
        match ends {
            true => writeln!(out, "{red}{line}{red:#}")?,
            false => writeln!(out, "{line}")?,
        }
    }
    Ok(out.flush()?)
}

fn confirm(args: &Apply, config: &Config, planned: &Plan) -> anyhow::Result<()> {
    let removed = planned.removals();
    let stopped = planned.stops();
    let mut what = Vec::new();
    if removed > 0 {
        what.push(counted(removed, "channel would be removed", "channels would be removed"));
    }
    if stopped > 0 {
        what.push(counted(
            stopped,
            "thing that left the file would stop",
            "things that left the file would stop",
        ));
    }
    // An account or a door that left the file has always been closed without a question.
    if args.yes || removed == 0 && !stops_a_workspace(config, planned) {
        return Ok(());
    }
    let what = what.join(", ");
    if args.operator.json || !std::io::stdin().is_terminal() {
        bail!("{what}; nothing was changed: run it again with --yes");
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{what}. Go on? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" | "д" | "да" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}

/// Whether a workspace that left the file still does something.
fn stops_a_workspace(config: &Config, plan: &Plan) -> bool {
    let gone =
        |name: &str| config.workspaces.iter().any(|workspace| workspace.gone && workspace.name == name);
    plan.steps.iter().any(|step| gone(&step.workspace))
}

fn steps(plan: &Plan) -> String {
    counted(plan.steps.len(), "step", "steps")
}

fn outcome(plan: &Plan, applied: bool, notes: &[String]) -> serde_json::Value {
    serde_json::json!({"applied": applied, "steps": plan.steps, "notes": notes})
}
