//! The command line: one file per command, each with its arguments on top and a `run` below.
//! Exit codes are part of the interface: 0 done, 1 failed, 2 wrong usage.

mod account;
mod alert;
mod analyse;
mod apply;
mod audience;
mod backup;
mod bot;
mod campaign;
mod case;
mod channel;
mod chats;
mod check;
mod database;
mod db;
mod delivery;
mod demo;
mod endpoint;
mod events;
mod hold;
mod import;
mod init;
mod key;
mod log;
mod message;
mod migrate;
mod operator;
mod post;
mod run;
mod runs;
mod sandbox;
mod source;
mod status;
mod token;
mod why;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config;
use crate::language::{self, Language};

/// Rupor takes posts in and says each thing once, in every channel that should hear it.
#[derive(Debug, Parser)]
#[command(name = "rupor", version, about, arg_required_else_help = true)]
struct Cli {
    /// Language of what people read (else RUPOR_LANG, else LANG); JSON, logs and exit codes never change
    #[arg(long, global = true, value_name = "LANGUAGE")]
    lang: Option<Language>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Init(init::Init),
    Run(run::Run),
    Analyse(analyse::Analyse),
    Sandbox(sandbox::SandboxArgs),
    Migrate(migrate::Migrate),
    Db(db::Db),
    Backup(backup::Backup),
    Apply(apply::Apply),
    Post(post::Post),
    Import(import::Import),
    Bot(bot::BotArgs),
    Chats(chats::Chats),
    Check(check::Check),
    Status(status::StatusArgs),
    Why(why::Why),
    Channel(channel::ChannelArgs),
    Source(source::SourceArgs),
    Case(case::CaseArgs),
    Workspace(workspace::WorkspaceArgs),
    Runs(runs::Runs),
    Account(account::AccountArgs),
    Delivery(delivery::DeliveryArgs),
    Audience(audience::AudienceArgs),
    Campaign(campaign::CampaignArgs),
    Message(message::MessageArgs),
    Endpoint(endpoint::EndpointArgs),
    Key(key::Key),
    Events(events::Events),
    Alert(alert::AlertArgs),
    Token(token::TokenArgs),
    StopAll(hold::StopAll),
    Release(hold::Release),
}

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && is_for_programs() => {
            let text = error.to_string();
            let words = text.split("\n\n").next().unwrap_or_default();
            tell_program(words.trim_start_matches("error: ").trim());
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    language::choose(cli.lang.unwrap_or_else(|| Language::of_environment(&config::process_variables)));
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    if reads_posts(&cli.command) {
        domain::content::ready().map_err(anyhow::Error::msg)?;
    }
    match &cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Init(args) => init::run(args),
        Command::Run(args) => run::run(args),
        Command::Analyse(args) => analyse::run(args),
        Command::Sandbox(args) => sandbox::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Db(args) => db::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Apply(args) => apply::run(args),
        Command::Post(args) => post::run(args),
        Command::Import(args) => import::run(args),
        Command::Bot(args) => bot::run(args),
        Command::Chats(args) => chats::run(args),
        Command::Check(args) => check::run(args),
        Command::Status(args) => status::run(args),
        Command::Why(args) => why::run(args),
        Command::Channel(args) => channel::run(args),
        Command::Source(args) => source::run(args),
        Command::Case(args) => case::run(args),
        Command::Workspace(args) => workspace::run(args),
        Command::Runs(args) => runs::run(args),
        Command::Account(args) => account::run(args),
        Command::Delivery(args) => delivery::run(args),
        Command::Audience(args) => audience::run(args),
        Command::Campaign(args) => campaign::run(args),
        Command::Message(args) => message::run(args),
        Command::Endpoint(args) => endpoint::run(args),
        Command::Key(args) => key::run(args),
        Command::Events(args) => events::run(args),
        Command::Alert(args) => alert::run(args),
        Command::Token(args) => token::run(args),
        Command::StopAll(args) => hold::stop(args),
        Command::Release(args) => hold::release(args),
    }
}

/// Commands that understand what people write: with a damaged dictionary or damaged weights they say so at once.
fn reads_posts(command: &Command) -> bool {
    matches!(
        command,
        Command::Demo(_)
            | Command::Run(_)
            | Command::Analyse(_)
            | Command::Post(_)
            | Command::Import(_)
            | Command::Bot(_)
            | Command::Why(_)
    )
}

/// Whether a program reads the answer: then it reads the error too.
fn is_for_programs() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}

#[expect(clippy::print_stderr, reason = "standard output is for answers")]
fn tell_program(error: &str) {
    eprintln!("{}", serde_json::json!({"error": domain::shown::page(error)}));
}

/// Prints an error with its causes on one line, where a person will look for it.
#[expect(clippy::print_stderr, reason = "this is the one place that reports to the terminal")]
fn report(error: &anyhow::Error) {
    if is_for_programs() {
        return tell_program(&error_text(error));
    }
    eprintln!("rupor: {}", domain::shown::page(&error_text(error)));
}

/// An error with its causes. Some say their cause in their own words; it is not said again.
fn error_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if text.is_empty() {
            text = words;
        } else if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}

#[cfg(test)]
#[path = "said_tests.rs"]
mod said_tests;

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn every_command_can_be_asked_for() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn an_error_says_each_cause_once() {
        let schema = store::SchemaError::Older { found: 3, known: 4 };
        let error = Err::<(), _>(store::StoreError::from(schema)).context("rupor.db").unwrap_err();
        assert_eq!(
            error_text(&error),
            "rupor.db: schema: the database is at version 3, this rupor needs 4; run `rupor migrate`"
        );
    }
}
