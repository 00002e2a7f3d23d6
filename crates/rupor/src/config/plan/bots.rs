//! The part of a plan that is about bots. New rules are a new version; dialogues that stand in a state that is gone are told.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use domain::dialogue::Rules;
use domain::ids::{AccountId, ChannelId, WorkspaceId};
use store::{NewBot, Receive, Store};

use super::{Act, Listing, Rows, StepVerb};
use crate::config::{Bot, Workspace};

pub(super) async fn acts(
    store: &Store,
    workspace: &Workspace,
    rows: &Rows,
    list: &mut Listing<'_>,
) -> anyhow::Result<()> {
    for row in &rows.bots {
        if !row.accounts.is_empty() && !workspace.bots.iter().any(|bot| bot.name == row.name) {
            let detail = "not in the configuration; its accounts listen no more";
            list.push(StepVerb::Disable, "bot", &row.name, detail, Act::RestBot(row.bot_id));
        }
    }
    for bot in &workspace.bots {
        let Some(row) = rows.bots.iter().find(|row| row.name == bot.name) else {
            let mut detail = format!("on {}, {}, rules 1", bot.accounts.join(", "), bot.receive.as_str());
            if bot.receive == Receive::Webhook {
                detail += &to_be_called(bot);
            }
            list.push(StepVerb::Create, "bot", &bot.name, detail, Act::PutBot(bot.clone()));
            continue;
        };
        let mut changes = Vec::new();
        let (wanted, there) = (names(rows, row), bot.accounts.clone());
        if sorted(wanted.clone()) != sorted(there.clone()) {
            changes.push(format!("accounts {} → {}", wanted.join(", "), there.join(", ")));
        }
        let heard = row.accounts.iter().find(|account| account.receive != bot.receive);
        if let Some(account) = heard {
            let mut change = format!("receive {} → {}", account.receive.as_str(), bot.receive.as_str());
            if bot.receive == Receive::Webhook && account.hook_key.is_none() {
                change += &to_be_called(bot);
            }
            changes.push(change);
        }
        if operators(rows, bot) != row.operators || bot.operators.is_some() != row.operators.is_some() {
            changes.push(format!("operators {}", bot.operators.as_deref().unwrap_or("none")));
        }
        if services(rows, bot) != row.services.iter().map(|(name, id)| (name.clone(), Some(*id))).collect() {
            let names: Vec<&str> = bot.services.keys().map(String::as_str).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            changes.push(format!("services {names}"));
        }
        changes.extend(rules(store, rows, bot, row).await?);
        if !changes.is_empty() {
            list.push(StepVerb::Change, "bot", &bot.name, changes.join("; "), Act::PutBot(bot.clone()));
        }
    }
    Ok(())
}

fn to_be_called(bot: &Bot) -> String {
    let name = domain::shown::line(&bot.name);
    format!(
        ", heard once `rupor bot hooks set {name} --url https://HOST` has told the platforms where to call"
    )
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn names(rows: &Rows, bot: &store::Bot) -> Vec<String> {
    let name = |id: AccountId| rows.accounts.iter().find(|account| account.account_id == id);
    bot.accounts.iter().filter_map(|account| name(account.account_id)).map(|row| row.name.clone()).collect()
}

fn operators(rows: &Rows, bot: &Bot) -> Option<ChannelId> {
    let wanted = bot.operators.as_ref()?;
    rows.channels.iter().find(|channel| channel.name == *wanted).map(|channel| channel.channel_id)
}

/// Its services and their accounts; `None`: not made yet.
fn services(rows: &Rows, bot: &Bot) -> BTreeMap<String, Option<AccountId>> {
    let id = |name: &String| rows.accounts.iter().find(|account| account.name == *name);
    bot.services
        .iter()
        .map(|(service, account)| (service.clone(), id(account).map(|account| account.account_id)))
        .collect()
}

/// `+2 rules (gift, card), −1 rules (sale)`: what is there by name, not by number.
fn differ(what: &str, before: &BTreeSet<&String>, after: &BTreeSet<&String>) -> Vec<String> {
    let told = |sign: &str, names: Vec<&str>| {
        let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
        let more = if names.len() > NAMES_MAX { ", …" } else { "" };
        (!names.is_empty()).then(|| format!("{sign}{} {what} ({shown}{more})", names.len()))
    };
    let new = after.difference(before).map(|name| name.as_str()).collect();
    let gone = before.difference(after).map(|name| name.as_str()).collect();
    [told("+", new), told("−", gone)].into_iter().flatten().collect()
}

/// Names that one change tells.
const NAMES_MAX: usize = 5;

fn names_of_rules(rules: &Rules) -> BTreeSet<&String> {
    rules.rules.iter().map(|rule| &rule.name).collect()
}

/// `rules 3 → 4: +2 rules, −1 state; 12 dialogues stand in return_photo → menu`
async fn rules(store: &Store, rows: &Rows, bot: &Bot, row: &store::Bot) -> anyhow::Result<Option<String>> {
    let Some(ws) = rows.id else {
        return Ok(None);
    };
    let versions = store.bot_rules(ws, row.bot_id).await?;
    let active = versions.iter().find(|rules| rules.version == row.active_version);
    if active.is_some_and(|rules| rules.rules == bot.rules) {
        return Ok(None);
    }
    let next = versions.first().map_or(1, |rules| rules.version + 1);
    let mut words = vec![format!("rules {} → {next}", row.active_version)];
    let read = |text: &str| Rules::read(text).ok();
    if let (Some(old), Some(new)) = (active.and_then(|rules| read(&rules.rules)), read(&bot.rules)) {
        words.extend(differ("rules", &names_of_rules(&old), &names_of_rules(&new)));
        words.extend(differ("states", &old.states.keys().collect(), &new.states.keys().collect()));
        for (state, n) in store.bot_standing(ws, row.bot_id).await? {
            if !state.is_empty() && !new.states.contains_key(&state) {
                words.push(format!("{n} dialogues stand in {state} → {}", new.state_or_start(&state)));
            }
        }
    }
    let (version, changes) = words.split_at(1);
    let changes = changes.join(", ");
    Ok(Some(if changes.is_empty() { version.concat() } else { format!("{}: {changes}", version.concat()) }))
}

pub(super) async fn put(store: &Store, ws: WorkspaceId, rows: &Rows, bot: Bot) -> anyhow::Result<()> {
    let account = |name: &String| {
        let found = rows.accounts.iter().find(|account| account.name == *name);
        Ok(found.with_context(|| format!("account {name} was removed meanwhile; run it again"))?.account_id)
    };
    let accounts = bot.accounts.iter().map(account).collect::<anyhow::Result<_>>()?;
    let operators = operators(rows, &bot);
    let services = bot.services.iter().map(|(service, name)| Ok((service.clone(), account(name)?)));
    let services = services.collect::<anyhow::Result<_>>()?;
    let new = NewBot { name: bot.name, accounts, receive: bot.receive, operators, services };
    let id = store.put_bot(ws, new).await?;
    store.put_bot_rules(ws, id, &bot.rules).await?;
    Ok(())
}
