//! Figures of this machine, as ratios wherever a ratio is possible.

mod bot;
mod campaign;
mod cases;
mod content;
mod database;
mod dialogue;
mod dispatch;
mod fairness;
mod floor;
mod ingest;
mod judgement;
mod pacing;
mod photos;
mod queue;
mod rig;
mod saboteurs;
mod sandbox;
mod sim;

use std::io::Write;

use clap::Subcommand;
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    Bot(bot::BotBench),
    Campaign(campaign::CampaignBench),
    Content(content::Content),
    Dialogue(dialogue::Dialogue),
    Judgement(judgement::Judgement),
    Fit(judgement::Fit),
    Queue(queue::Queue),
    Ingest(ingest::Ingest),
    Dispatch(dispatch::Dispatch),
    Fairness(fairness::Fairness),
    Pacing(pacing::Pacing),
    Photos(photos::Photos),
    Sim(sim::Sim),
    Saboteurs(saboteurs::Saboteurs),
    #[command(hide = true)]
    Sandbox(sandbox::Serve),
}

pub(crate) fn run(what: &What) -> anyhow::Result<()> {
    match what {
        What::Bot(args) => bot::run(args),
        What::Campaign(args) => campaign::run(args),
        What::Content(args) => content::run(args),
        What::Dialogue(args) => dialogue::run(args),
        What::Judgement(args) => judgement::judge(args),
        What::Fit(args) => judgement::fit(args),
        What::Queue(args) => queue::run(args),
        What::Ingest(args) => ingest::run(args),
        What::Dispatch(args) => dispatch::run(args),
        What::Fairness(args) => fairness::run(args),
        What::Pacing(args) => pacing::run(args),
        What::Photos(args) => photos::run(args),
        What::Sim(args) => sim::run(args),
        What::Saboteurs(args) => saboteurs::run(args),
        What::Sandbox(args) => sandbox::run(args),
    }
}

/// One JSON object for tools, an indented one for people.
fn print(json: bool, figures: &Value) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match json {
        true => writeln!(out, "{figures}")?,
        false => writeln!(out, "{figures:#}")?,
    }
    Ok(())
}
