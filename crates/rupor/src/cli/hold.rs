//! `rupor stop-all` and `rupor release`: the kill switch.

use clap::Args;
use domain::shown::line;

use super::operator::{OperatorArgs, block_on};
use crate::operate::Verb;

/// Stop all sending within seconds; nothing is lost
///
/// New posts keep queueing. With --workspace only that one is stopped.
#[derive(Debug, Args)]
pub(super) struct StopAll {
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Let sending go on after stop-all, or after a start that held everything
#[derive(Debug, Args)]
pub(super) struct Release {
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn stop(args: &StopAll) -> anyhow::Result<()> {
    block_on(async {
        let why = args.operator.why("stopped by an operator");
        let verb = Verb::Hold { workspace: args.operator.workspace.clone(), why: why.clone() };
        let done = args.operator.perform(verb).await?;
        let what = what(&args.operator);
        args.operator.print(&done, || {
            format!(
                "Sending is stopped for {what} ({}); new posts keep queueing\n$ rupor release",
                line(&why)
            )
        })
    })
}

pub(super) fn release(args: &Release) -> anyhow::Result<()> {
    block_on(async {
        let done =
            args.operator.perform(Verb::Release { workspace: args.operator.workspace.clone() }).await?;
        let what = what(&args.operator);
        args.operator.print(&done, || format!("Sending goes on for {what}"))
    })
}

fn what(operator: &OperatorArgs) -> String {
    operator.workspace.as_ref().map_or("everything".to_owned(), |name| format!("workspace {name}"))
}
