//! `rupor runs`: what was read lately, and how it went.

use clap::Args;

use super::operator::{Newest, OperatorArgs, block_on, fits};
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::moment;

/// Runs that a listing looks through.
const RUNS_MAX: usize = 10_000;

/// Show what was read lately from each source, the newest first
#[derive(Debug, Args)]
pub(super) struct Runs {
    /// Only sources with this name; `*` fits any text
    #[arg(long, value_name = "NAME", default_value = "*")]
    source: String,
    #[command(flatten)]
    newest: Newest,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Runs) -> anyhow::Result<()> {
    block_on(async {
        let store = args.operator.look().await?.store;
        let ws = find_workspace(&store, &args.operator.workspace(&store).await?).await?;
        let (begin, words) = (args.newest.begin(&store).await?, args.newest.words());
        let mut runs = store.runs(ws, None, RUNS_MAX).await?;
        runs.retain(|run| {
            let told = format!("{} {}", run.source, run.error.as_deref().unwrap_or_default());
            fits(&args.source, &run.source)
                && run.started_at >= begin
                && words.as_ref().is_none_or(|words| words.fit_line(&told))
        });
        runs.truncate(args.newest.last());
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
