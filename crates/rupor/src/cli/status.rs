//! `rupor status`: one screen about everything.

use clap::Args;

use super::operator::{OperatorArgs, block_on};
use crate::operate::facts::gather;
use crate::operate::status::status;

/// Show channels, queues and trouble, and what to do about it
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    operator: OperatorArgs,
}

pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
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
            true => "no workspace yet: write rupor.toml and run `rupor apply`".to_owned(),
            false => all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        })
    })
}
