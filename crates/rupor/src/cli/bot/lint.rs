//! `rupor bot lint`: what is wrong or suspicious with a rules file.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::super::operator::say;
use crate::bot;

/// Look for mistakes in a rules file
///
/// Finds what cannot be read, states nobody reaches or leaves, rules that never answer or answer by luck, examples that
/// fail, a form without a way out, keyboards that a platform refuses. Needs no database. Warnings do not fail.
#[derive(Debug, Args)]
pub(super) struct Lint {
    /// The rules file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Lint) -> anyhow::Result<()> {
    let (rules, faults) = bot::check(&bot::source(&args.file)?);
    if args.json {
        let weight = |is_error| if is_error { "error" } else { "warning" };
        let row = |fault: &domain::dialogue::Fault| json!({ "line": fault.line, "weight": weight(fault.is_error()), "text": fault.text });
        say(&json!(faults.iter().map(row).collect::<Vec<_>>()).to_string())?;
    } else {
        for fault in &faults {
            say(&bot::at(&args.file, fault))?;
        }
    }
    let errors = faults.iter().filter(|fault| fault.is_error()).count();
    if errors > 0 {
        bail!("{} has {errors} {}", args.file.display(), if errors == 1 { "error" } else { "errors" });
    }
    if let Some(rules) = rules.filter(|_| !args.json) {
        let (n_rules, n_states, n_intents) = (rules.rules.len(), rules.states.len(), rules.intents.len());
        say(&format!(
            "{}: {n_rules} rules, {n_states} states, {n_intents} intents: no mistakes",
            args.file.display()
        ))?;
    }
    Ok(())
}
