//! `rupor check`: a green and red list of everything that has to be right.

use std::path::PathBuf;

use clap::Args;
use platforms::platform::Network;

use super::operator::{OperatorArgs, block_on};
use crate::config::{self, Config, ConfigError, environment};
use crate::language::{Phrase, chosen, say};
use crate::operate::check::{self, Finding, Subject};
use crate::operate::verb::find_workspace;
use engine::addresses::ApiBases;

/// Check configuration, database, clock, tokens and the rights in every channel
///
/// With a file, what it says is checked, also before it is applied.
/// Without one, what is in the database; where there is none yet, the variables of the quick start.
/// Nothing is sent. Ends with 1 if anything is wrong.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// A configuration file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Check) -> anyhow::Result<()> {
    block_on(async {
        let mut findings = Vec::new();
        let subjects = subjects(args, &mut findings).await?;
        let bases = ApiBases::from_env(config::process_variables);
        let network = Network::default();
        for subject in &subjects {
            findings.extend(check::subject(&network, &bases, subject).await);
        }
        args.operator.print(&findings, || check::text(&findings, chosen()))?;
        check::verdict(&findings, chosen())
    })
}

async fn subjects(args: &Check, findings: &mut Vec<Finding>) -> anyhow::Result<Vec<Subject>> {
    let look = args.operator.look().await;
    let shown = args.operator.database.address()?.to_string();
    match &look {
        Ok(look) => findings.extend(check::database(&look.store, &shown).await),
        Err(error) => {
            let what = say!("check.database", name = shown);
            findings.push(Finding::bad(what, format!("{error:#}"), say!("check.database.fix")));
        }
    }
    if let Some(file) = &args.file {
        let what = say!("check.file", name = file.display().to_string());
        return Ok(read(findings, &what, config::from_file(file, &config::process_variables)));
    }
    let mut subjects = Vec::new();
    if let Ok(look) = &look {
        for workspace in look.store.workspaces().await? {
            if args.operator.workspace.as_ref().is_none_or(|name| *name == workspace.name) {
                let ws = find_workspace(&look.store, &workspace.name).await?;
                subjects.extend(check::subjects_of_store(&look.store, ws).await?);
            }
        }
    }
    if subjects.is_empty() && environment::is_used(&config::process_variables) {
        return Ok(read(findings, &say!("check.variables"), config::from_env(&config::process_variables)));
    }
    if subjects.is_empty() {
        let what = say!("check.configuration");
        findings.push(Finding::bad(what, say!("check.nothing"), say!("check.nothing.fix")));
    }
    Ok(subjects)
}

fn read(findings: &mut Vec<Finding>, what: &Phrase, config: Result<Config, ConfigError>) -> Vec<Subject> {
    match config {
        Ok(config) => {
            findings.push(Finding::good(what, say!("check.can_be_read")));
            findings.extend(config.notes.iter().map(|note| Finding::good(what, note)));
            check::subjects_of_config(&config)
        }
        Err(error) => {
            let bad = |problem: config::Problem| {
                Finding::bad(problem.place, problem.text, say!("check.see_message"))
            };
            findings.extend(error.problems.into_iter().map(bad));
            Vec::new()
        }
    }
}
