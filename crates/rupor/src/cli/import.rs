//! `rupor import`: posts from a JSONL file, in steps, so that it can be watched and made again.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::operator::{OperatorArgs, block_on};
use crate::operate::Verb;
use engine::ingest::Preset;
use engine::sources::ImportStep;

/// Take in posts from a JSONL file, one post a line
///
/// Each line has owner_id, post_id, date (Unix seconds) and text, and may have photos and copy_history. A line that is
/// no post is named and passed over. Posts that are known already are only counted, so a second run adds nothing.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// What goes to channels that have no route of their own: pets or mirror
    #[arg(long, default_value = "pets", value_parser = preset)]
    preset: Preset,
    /// Publish posts up to this age in hours; older ones are kept and not published
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    horizon_hours: i64,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Lines that are told one by one.
const BAD_SHOWN: usize = 10;

#[derive(Debug, Default, Serialize)]
struct Done {
    seen: i64,
    stored: i64,
    skipped: i64,
    enqueued: i64,
    bad_lines: usize,
    bad: Vec<String>,
}

pub(super) fn run(args: &Import) -> anyhow::Result<()> {
    block_on(import(args))
}

async fn import(args: &Import) -> anyhow::Result<()> {
    let shown = args.path.display();
    if args.horizon_hours <= 0 {
        bail!("--horizon-hours {}: must be above 0", args.horizon_hours);
    }
    let path = args.path.canonicalize().with_context(|| format!("cannot open {shown}"))?;
    let about = std::fs::metadata(&path).with_context(|| format!("cannot open {shown}"))?;
    if !about.is_file() {
        bail!("{shown} is not a file; give a .jsonl file with one post a line");
    }
    let look = args.operator.look().await?;
    let workspace = args.operator.workspace(&look.store).await?;
    drop(look.store);
    let hand = args.operator.hand().await?;
    let bar = bar(about.len());
    let (mut done, mut at) = (Done::default(), 0);
    loop {
        let verb = Verb::Import {
            workspace: workspace.clone(),
            path: path.clone(),
            at,
            preset: args.preset,
            horizon_hours: Some(args.horizon_hours),
        };
        let answer = hand.perform(verb).await.with_context(|| {
            format!(
                "{shown}: stopped after {} posts; run it again to go on: nothing is taken in twice",
                done.seen
            )
        })?;
        let step: ImportStep = serde_json::from_value(answer).context("the node is of another version")?;
        at = step.end;
        let more = step.more;
        done.add(step);
        bar.set_position(at);
        bar.set_message(format!("{} posts", done.seen));
        if !more {
            break;
        }
    }
    bar.finish_and_clear();
    if done.seen == 0 && done.bad_lines > 0 {
        bail!("{shown}: no line is a post; {}", done.bad.first().map_or("", String::as_str));
    }
    args.operator.print(&done, || done.summary(look.node))
}

impl Done {
    fn add(&mut self, step: ImportStep) {
        self.seen += i64::from(step.seen);
        self.stored += i64::from(step.stored);
        self.skipped += i64::from(step.skipped);
        self.enqueued += i64::from(step.enqueued);
        self.bad_lines += step.bad.len();
        self.bad.extend(step.bad);
        self.bad.truncate(BAD_SHOWN);
    }

    fn summary(&self, node: Option<bool>) -> String {
        let mut lines = vec![format!(
            "{} posts read: {} new, {} of them not published; {} queued to channels",
            self.seen, self.stored, self.skipped, self.enqueued
        )];
        lines.extend(self.bad.iter().map(|bad| format!("  passed over: {}", domain::shown::line(bad))));
        if self.bad_lines > self.bad.len() {
            lines.push(format!("  and {} more lines", self.bad_lines - self.bad.len()));
        }
        if self.skipped > 0 {
            lines.push(
                "skipped posts are kept with their reason: `rupor events --name ingest_skipped`".to_owned(),
            );
        }
        if node == Some(false) && self.enqueued > 0 {
            lines.push("no node is running: they are sent when one is started with `rupor run`".to_owned());
        }
        lines.join("\n")
    }
}

fn bar(bytes: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    let style = ProgressStyle::with_template("{bar:30} {percent}% · {msg} · {eta} left");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn preset(text: &str) -> Result<Preset, String> {
    [Preset::Pets, Preset::Mirror]
        .into_iter()
        .find(|preset| preset.name() == text)
        .ok_or_else(|| "known are pets, mirror".to_owned())
}
