//! `rupor status`: one screen about everything.

use anyhow::bail;
use clap::Args;

use super::operator::{OperatorArgs, block_on};
use crate::language::{chosen, say};
use crate::operate::facts::gather;
use crate::operate::status::{Status, status};
use crate::operate::trouble::Weight;

/// Show channels, queues and trouble, and what to do about it
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Exit with 1 if there is trouble that somebody is told of
    #[arg(long)]
    check: bool,
    /// Show only what is wrong, and what helps
    #[arg(long)]
    trouble: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    block_on(async {
        let look = args.operator.look().await?;
        let names: Vec<String> = match &args.operator.workspace {
            Some(name) => vec![name.clone()],
            None => look.store.workspaces().await?.into_iter().map(|workspace| workspace.name).collect(),
        };
        let mut all = Vec::new();
        for name in &names {
            let mut facts = gather(&look.store, name, look.node).await?;
            facts.database.clone_from(&look.database);
            all.push(status(&facts));
        }
        args.operator.print(&all, || match all.is_empty() {
            true => say!("status.no_workspace").in_language(chosen()),
            false if args.trouble => {
                all.iter().map(|one| one.trouble_page(chosen())).collect::<Vec<_>>().join("\n")
            }
            false => all.iter().map(|one| one.page(chosen())).collect::<Vec<_>>().join("\n"),
        })?;
        match args.check {
            true => check(&all),
            false => Ok(()),
        }
    })
}

/// What an operator wanted so is no trouble.
fn check(all: &[Status]) -> anyhow::Result<()> {
    let told =
        all.iter().flat_map(|status| &status.trouble).filter(|trouble| trouble.weight != Weight::Meant);
    match told.count() {
        0 => Ok(()),
        n => bail!("{}", say!("status.n_troubles", n = n).in_language(chosen())),
    }
}
