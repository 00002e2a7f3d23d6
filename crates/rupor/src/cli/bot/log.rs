//! `rupor bot log`: what the bot did and why, a line for each thing, and what no dialogue heard.

use std::collections::HashMap;

use clap::Args;
use domain::ids::{AccountId, RecipientId, WorkspaceId};
use domain::shown::line;
use domain::time::{Span, Timestamp};
use serde_json::json;
use store::{Bot, BotLog, BotSkipped, Store};

use super::live::{PAGE, span};
use crate::cli::operator::OperatorArgs;
use crate::operate::bots::find_bot;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;

#[derive(Debug, Args)]
pub(super) struct Log {
    /// Name of the bot
    bot: String,
    /// How far back
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = span)]
    since: Span,
    /// Only this dialogue, by its number at the operators' desk, such as #A17
    #[arg(long, value_name = "NUMBER", value_parser = dialogue)]
    dialogue: Option<RecipientId>,
    #[command(flatten)]
    operator: OperatorArgs,
}

fn dialogue(text: &str) -> Result<RecipientId, String> {
    let digits = text.trim_start_matches('#').trim_start_matches('A');
    digits.parse().map(RecipientId).map_err(|_| "write its number, such as #A17 or 17".to_owned())
}

pub(super) async fn run(args: &Log) -> anyhow::Result<()> {
    let operator = &args.operator;
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let bot = find_bot(&store, ws, &args.bot).await?;
    let since = store.now().await? - args.since;
    let mut lines = lines(&store, ws, &bot, args.dialogue, since).await?;
    hide_answers(&mut lines);
    let skipped = match args.dialogue {
        Some(_) => Vec::new(),
        None => skipped(&store, ws, &bot, since).await?,
    };
    let accounts = store.accounts(ws).await?;
    let names: HashMap<AccountId, &str> =
        accounts.iter().map(|account| (account.account_id, account.name.as_str())).collect();
    operator.print(&json!({"lines": lines, "skipped": skipped}), || {
        if lines.is_empty() && skipped.is_empty() {
            return "nothing was heard in that time; --since looks further back".to_owned();
        }
        let mut text = String::new();
        if !lines.is_empty() {
            text += &table(&LINES, lines.iter().map(cells).collect());
        }
        if !skipped.is_empty() {
            let name = |id| names.get(&id).copied().unwrap_or("?").to_owned();
            let row = |one: &BotSkipped| {
                vec![clock(one.at), name(one.account_id), one.kind.clone(), one.why.clone()]
            };
            text +=
                &format!("\n\nNo dialogue heard:\n{}", table(&SKIPPED, skipped.iter().map(row).collect()));
        }
        text.trim_start().to_owned()
    })
}

const LINES: [&str; 7] = ["at (UTC)", "dialogue", "what", "rule", "state", "note", "said"];
const SKIPPED: [&str; 4] = ["at (UTC)", "account", "kind", "why"];

async fn lines(
    store: &Store,
    ws: WorkspaceId,
    bot: &Bot,
    of: Option<RecipientId>,
    since: Timestamp,
) -> anyhow::Result<Vec<BotLog>> {
    let mut lines: Vec<BotLog> = Vec::new();
    let mut after = 0;
    loop {
        let page = store.bot_logs(ws, of, since, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.log_id;
        lines.extend(page.into_iter().filter(|log| is_its(bot, log.account_id)));
    }
    Ok(lines)
}

async fn skipped(
    store: &Store,
    ws: WorkspaceId,
    bot: &Bot,
    since: Timestamp,
) -> anyhow::Result<Vec<BotSkipped>> {
    let mut skipped: Vec<BotSkipped> = Vec::new();
    let mut after = 0;
    loop {
        let page = store.bot_skipped(ws, since, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.inbox_id;
        skipped.extend(page.into_iter().filter(|one| is_its(bot, one.account_id)));
    }
    Ok(skipped)
}

fn is_its(bot: &Bot, account: AccountId) -> bool {
    bot.accounts.iter().any(|own| own.account_id == account)
}

/// An answer to a question may be masked, and so may one that was taken for none: only what else was said is shown, once.
fn hide_answers(lines: &mut [BotLog]) {
    let mut last = 0;
    for log in lines {
        if log.inbox_id == last || ["slot", "invalid"].contains(&log.verdict.as_str()) {
            log.event = None;
        }
        last = log.inbox_id;
    }
}

fn cells(log: &BotLog) -> Vec<String> {
    let detail = |key: &str| log.detail[key].as_str().map(|text| line(text).into_owned()).unwrap_or_default();
    let (from, to) = (detail("from"), detail("to"));
    let state = if from == to || from.is_empty() { to } else { format!("{from} → {to}") };
    let said = log.event.as_ref().map(|event| {
        let words = event["text"].as_str().filter(|text| !text.trim().is_empty());
        words.map_or_else(
            || event["what"].as_str().unwrap_or_default().to_owned(),
            |text| line(text).into_owned(),
        )
    });
    vec![
        clock(log.at),
        engine::bot::hear::ticket(log.recipient_id),
        log.verdict.clone(),
        log.rule.clone().unwrap_or_default(),
        state,
        detail("note"),
        said.unwrap_or_default(),
    ]
}

fn clock(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => at.0.to_string(),
    }
}
