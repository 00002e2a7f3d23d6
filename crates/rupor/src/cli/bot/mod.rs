//! `rupor bot`: the bot's rules, from the first line to the running dialogue. One file per verb.

mod chat;
mod explain;
mod graph;
mod hooks;
mod lint;
mod live;
mod log;
mod replay;
mod status;
mod test;

use clap::{Args, Subcommand};

/// Check, try and run the bot's rules
#[derive(Debug, Args)]
pub(super) struct BotArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Lint(lint::Lint),
    Test(test::Test),
    Chat(chat::Chat),
    Graph(graph::Graph),
    Explain(explain::Explain),
    #[command(flatten)]
    Live(live::Live),
}

pub(super) fn run(args: &BotArgs) -> anyhow::Result<()> {
    match &args.verb {
        Verb::Lint(args) => lint::run(args),
        Verb::Test(args) => test::run(args),
        Verb::Chat(args) => chat::run(args),
        Verb::Graph(args) => graph::run(args),
        Verb::Explain(args) => explain::run(args),
        Verb::Live(args) => live::run(args),
    }
}
