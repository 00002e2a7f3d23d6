//! The verbs that need the database: how bots do, versions of their rules, people who want to be forgotten.

use clap::{Args, Subcommand};
use domain::shown::line;
use domain::time::Span;
use serde_json::json;

use super::hooks;
use crate::cli::operator::{OperatorArgs, block_on};
use crate::operate::Verb;
use crate::operate::bots::{BotOrder, find_bot};
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::how_long;

#[derive(Debug, Subcommand)]
pub(super) enum Live {
    /// Show how the bots do: what waits, who waits for a human, what was not understood, how their services answer
    Status(OperatorArgs),
    /// List the versions of a bot's rules
    Versions(Named),
    /// Let another version of the rules answer: the way back from a mistake
    Activate(Activate),
    /// Erase a person: what they wrote, where their dialogue stood, what was said to them
    Forget(Forget),
    /// Show what the bot did and why, dialogue by dialogue, and what it left alone
    Log(super::log::Log),
    /// Show what other rules would have answered differently
    Replay(super::replay::Replay),
    /// Tell platforms where to call, for bots with receive = "webhook"
    Hooks(hooks::Hooks),
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// Name of the bot
    bot: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
pub(super) struct Activate {
    /// Name of the bot
    bot: String,
    /// One of those that `rupor bot versions` lists
    version: i32,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
pub(super) struct Forget {
    /// Name of the bot
    bot: String,
    /// The platform's id of the person
    user: String,
    /// Name of the account they wrote to
    #[arg(long, value_name = "NAME")]
    account: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn span(text: &str) -> Result<Span, String> {
    let span = engine::span::parse(text).filter(|span| span.0 > 0);
    span.ok_or_else(|| format!("write {}", engine::span::FORM))
}

/// Lines of the log that one question brings.
pub(super) const PAGE: usize = 1_000;

pub(super) fn run(args: &Live) -> anyhow::Result<()> {
    block_on(async {
        match args {
            Live::Status(operator) => super::status::run(operator).await,
            Live::Versions(named) => versions(named).await,
            Live::Activate(args) => {
                let order = BotOrder::Activate { version: args.version };
                let done = perform(&args.operator, &args.bot, order).await?;
                args.operator.print(&done, || {
                    format!(
                        "bot {} answers by version {} (before: {})",
                        line(&args.bot),
                        args.version,
                        done["before"]
                    )
                })
            }
            Live::Forget(args) => {
                let order = BotOrder::Forget { account: args.account.clone(), user: args.user.clone() };
                let done = perform(&args.operator, &args.bot, order).await?;
                args.operator.print(&done, || "forgotten".to_owned())
            }
            Live::Log(args) => super::log::run(args).await,
            Live::Replay(args) => super::replay::run(args).await,
            Live::Hooks(args) => hooks::run(args).await,
        }
    })
}

pub(super) async fn perform(
    operator: &OperatorArgs,
    bot: &str,
    order: BotOrder,
) -> anyhow::Result<serde_json::Value> {
    let store = operator.look().await?.store;
    let workspace = operator.workspace(&store).await?;
    drop(store);
    operator.perform(Verb::Bot { workspace, bot: bot.to_owned(), order }).await
}

async fn versions(named: &Named) -> anyhow::Result<()> {
    let operator = &named.operator;
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let bot = find_bot(&store, ws, &named.bot).await?;
    let (versions, now) = (store.bot_rules(ws, bot.bot_id).await?, store.now().await?);
    let list: Vec<_> = versions
        .iter()
        .map(|rules| {
            json!({"version": rules.version, "created_at": rules.created_at, "active": rules.version == bot.active_version})
        })
        .collect();
    operator.print(&list, || {
        let row = |rules: &store::BotRules| {
            let active = if rules.version == bot.active_version { "answers" } else { "" };
            let lines = rules.rules.lines().count().to_string();
            vec![
                rules.version.to_string(),
                how_long(now - rules.created_at) + " ago",
                lines,
                active.to_owned(),
            ]
        };
        table(&["version", "applied", "lines", ""], versions.iter().map(row).collect())
    })
}
