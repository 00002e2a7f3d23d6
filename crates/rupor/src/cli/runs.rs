//! `rupor runs`: what was read lately, and how it went.

use clap::Args;

use super::operator::{OperatorArgs, block_on, fits};
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::moment;

/// Show what was read lately from each source, the newest first
#[derive(Debug, Args)]
pub(super) struct Runs {
    /// Only sources with this name; `*` fits any text
    #[arg(long, value_name = "NAME", default_value = "*")]
    source: String,
    /// At most so many of the newest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    last: u32,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Runs) -> anyhow::Result<()> {
    block_on(async {
        let store = args.operator.look().await?.store;
        let ws = find_workspace(&store, &args.operator.workspace(&store).await?).await?;
        let mut runs = store.runs(ws, args.last as usize).await?;
        runs.retain(|run| fits(&args.source, &run.source));
        args.operator.print(&runs, || {
            let rows = runs.iter().map(|run| {
                let ended = run.finished_at.map_or_else(|| "-".to_owned(), moment);
                let counts = [run.counts.seen, run.counts.stored, run.counts.skipped, run.counts.enqueued];
                let mut row = vec![run.source.clone(), moment(run.started_at), ended];
                row.extend(counts.map(|n| n.to_string()));
                row.push(run.error.clone().unwrap_or_default());
                row
            });
            let heads = ["source", "started", "ended", "seen", "new", "not published", "queued", "failure"];
            table(&heads, rows.collect())
        })
    })
}
