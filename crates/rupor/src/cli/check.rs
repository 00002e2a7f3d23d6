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
/// Without one, the variables of the quick start if they ask for anything, as `rupor run` does; else what is in the
/// database; before there is one, rupor.toml. What was checked is named.
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
        let mut subjects = subjects(args, &mut findings).await?;
        if let Ok(look) = args.operator.look().await {
            check::add_chats(&look.store, &mut subjects).await?;
        }
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
    let mut stored = Vec::new();
    if let Some(look) = &look {
        for workspace in look.store.workspaces().await? {
            if args.is_meant(&workspace.name) {
                let ws = find_workspace(&look.store, &workspace.name).await?;
                stored.extend(check::subjects_of_store(&look.store, ws, &workspace.name).await?);
            }
        }
    }
    if environment::is_used(&config::process_variables) && args.is_meant(config::DEFAULT_WORKSPACE) {
        let what = say!("check.variables");
        let written = read(findings, &what, config::from_env(&config::process_variables));
        if stored.is_empty() {
            return Ok(written);
        }
        findings.push(Finding::good(what, say!("check.variables.next")));
        return Ok(instead_of_stored(written, stored));
    }
    if !stored.is_empty() {
        findings.push(Finding::good(say!("check.configuration"), say!("check.stored")));
        return Ok(stored);
    }
    let usual = Path::new("rupor.toml");
    if usual.exists() {
        findings.push(Finding::good(say!("check.configuration"), say!("check.not_applied")));
        return Ok(of_file(findings, usual));
    }
    let what = say!("check.configuration");
    findings.push(Finding::bad(what, say!("check.nothing"), say!("check.nothing.fix")));
    Ok(Vec::new())
}

impl Check {
    fn is_meant(&self, workspace: &str) -> bool {
        self.operator.workspace.as_ref().is_none_or(|name| name == workspace)
    }
}

/// What the variables say of their workspace; other workspaces as they are stored. Whether an account rests is no
/// matter of the configuration.
fn instead_of_stored(mut written: Vec<Subject>, stored: Vec<Subject>) -> Vec<Subject> {
    for known in stored {
        if known.workspace != config::DEFAULT_WORKSPACE {
            written.push(known);
        } else if let Some(same) = written.iter_mut().find(|one| one.account.name == known.account.name) {
            same.account.paused = known.account.paused;
            same.account.paused_why = known.account.paused_why;
        }
    }
    written
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
            let bad = |problem: config::Problem| match problem.text.rsplit_once("; ") {
                Some((found, fix)) => Finding::bad(problem.place, found, fix),
                None => Finding::bad(problem.place, problem.text, say!("check.correct")),
            };
            findings.extend(error.problems.into_iter().map(bad));
            Vec::new()
        }
    }
}
