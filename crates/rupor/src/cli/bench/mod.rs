//! `rupor bench`: figures of this machine, as ratios wherever a ratio is possible.

mod cases;
mod content;
mod queue;
mod saboteurs;
mod sim;

use clap::{Args, Subcommand};

/// Measure this machine and print one object of figures
///
/// Machines differ and are noisy: compare the ratios, not the absolute numbers.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Content(content::Content),
    Queue(queue::Queue),
    Sim(sim::Sim),
    Saboteurs(saboteurs::Saboteurs),
}

pub fn run(args: &Bench) -> anyhow::Result<()> {
    match &args.what {
        What::Content(args) => content::run(args),
        What::Queue(args) => queue::run(args),
        What::Sim(args) => sim::run(args),
        What::Saboteurs(args) => saboteurs::run(args),
    }
}
