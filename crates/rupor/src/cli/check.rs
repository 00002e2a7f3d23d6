//! `rupor check`: a green and red list of everything that has to be right.

use std::path::{Path, PathBuf};

use clap::Args;
use platforms::platform::Network;
use store::Address;
use store::address::SqlitePath;

use super::operator::{OperatorArgs, block_on};
use crate::config::{self, Config, ConfigError, environment};
use crate::language::{Phrase, chosen, say};
use crate::operate::check::{self, Finding, Subject};
use crate::operate::verb::find_workspace;
use engine::addresses::ApiBases;

/// Check configuration, database, clock, tokens and the rights in every channel
///
/// With a file, what it says is checked, also before it is applied.
/// Without one, what is in the database; before the first run the variables of the quick start, or rupor.toml.
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
        findings.extend(check::all(&Network::default(), &bases, &subjects).await);
        args.operator.print(&findings, || check::text(&findings, chosen()))?;
        check::verdict(&findings, chosen())
    })
}

async fn subjects(args: &Check, findings: &mut Vec<Finding>) -> anyhow::Result<Vec<Subject>> {
    let address = args.operator.database.address()?;
    let what = say!("check.database", name = address.to_string());
    let is_new = matches!(&address, Address::Sqlite(SqlitePath::File(file)) if !file.exists());
    let look = match is_new {
        // Before the first run there is none, and nothing is wrong.
        true => None,
        false => match args.operator.look().await {
            Ok(look) => Some(look),
            Err(error) => {
                findings.push(Finding::bad(what.clone(), format!("{error:#}"), say!("check.database.fix")));
                None
            }
        },
    };
    match &look {
        Some(look) => findings.extend(check::database(&look.store, &address.to_string()).await),
        None if is_new => findings.push(Finding::good(what, say!("check.database.new"))),
        None => {}
    }
    if let Some(file) = &args.file {
        return Ok(of_file(findings, file));
    }
    let mut subjects = Vec::new();
    if let Some(look) = &look {
        for workspace in look.store.workspaces().await? {
            if args.operator.workspace.as_ref().is_none_or(|name| *name == workspace.name) {
                let ws = find_workspace(&look.store, &workspace.name).await?;
                subjects.extend(check::subjects_of_store(&look.store, ws, &workspace.name).await?);
            }
        }
    }
    if !subjects.is_empty() {
        return Ok(subjects);
    }
    if environment::is_used(&config::process_variables) {
        let what = say!("check.variables");
        return Ok(read(findings, &what, config::from_env(&config::process_variables)));
    }
    let usual = Path::new("rupor.toml");
    if usual.exists() {
        findings.push(Finding::good(say!("check.configuration"), say!("check.not_applied")));
        return Ok(of_file(findings, usual));
    }
    let what = say!("check.configuration");
    findings.push(Finding::bad(what, say!("check.nothing"), say!("check.nothing.fix")));
    Ok(subjects)
}

fn of_file(findings: &mut Vec<Finding>, file: &Path) -> Vec<Subject> {
    let what = say!("check.file", name = file.display().to_string());
    read(findings, &what, config::from_file(file, &config::process_variables))
}

fn read(findings: &mut Vec<Finding>, what: &Phrase, config: Result<Config, ConfigError>) -> Vec<Subject> {
    match config {
        Ok(config) => {
            findings.push(Finding::good(what, say!("check.can_be_read")));
            findings.extend(config.notes.iter().map(|note| Finding::good(what, note)));
            findings.extend(check::would_do(&config));
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
