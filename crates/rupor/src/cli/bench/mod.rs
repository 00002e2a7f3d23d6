//! `rupor bench`: figures about this machine and this build, one JSON object a run.

mod content;

use clap::{Args, Subcommand};

/// Measures parts of Rupor and prints the figures
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    name: Name,
}

#[derive(Debug, Subcommand)]
enum Name {
    Content(content::Content),
}

pub fn run(command: &Bench) -> anyhow::Result<()> {
    match &command.name {
        Name::Content(command) => content::run(command),
    }
}
