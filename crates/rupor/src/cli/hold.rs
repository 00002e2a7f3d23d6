//! `rupor stop-all` and `rupor release`: the kill switch.

use clap::Args;
use domain::shown::line;

use super::desk::{Desk, block_on};
use crate::operate::Verb;

/// Stop all sending within seconds; nothing is lost
///
/// New posts keep queueing. With --workspace only that one is stopped.
#[derive(Debug, Args)]
pub struct StopAll {
    #[command(flatten)]
    desk: Desk,
}

/// Let sending go on after stop-all, or after a start that held everything
#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    desk: Desk,
}

pub fn stop(args: &StopAll) -> anyhow::Result<()> {
    block_on(async {
        let why = args.desk.why("stopped by an operator");
        let verb = Verb::Hold { workspace: args.desk.workspace.clone(), why: why.clone() };
        let done = args.desk.perform(verb).await?;
        let what = what(&args.desk);
        args.desk.print(&done, || format!("{what} is held: {}\n$ rupor release", line(&why)))
    })
}

pub fn release(args: &Release) -> anyhow::Result<()> {
    block_on(async {
        let done = args.desk.perform(Verb::Release { workspace: args.desk.workspace.clone() }).await?;
        let what = what(&args.desk);
        args.desk.print(&done, || format!("{what} goes on"))
    })
}

fn what(desk: &Desk) -> String {
    desk.workspace.as_ref().map_or("everything".to_owned(), |name| format!("workspace {name}"))
}
