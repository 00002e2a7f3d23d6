//! What operators do with bots: another version of the rules, a webhook, a person who wants to be forgotten.

use anyhow::{Context, bail};
use domain::dialogue::Rules;
use domain::ids::{ChannelId, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Bot, BotRules, Store};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum BotOrder {
    /// These rules answer from now on.
    Activate { version: i32 },
    /// Erases a person.
    Forget { account: String, user: String },
    /// What proves a platform that calls; the secret itself stays with the platform.
    SetHook { account: String, key: String, secret_hash: String, settings: Value },
}

pub(crate) async fn find_bot(store: &Store, ws: WorkspaceId, name: &str) -> anyhow::Result<Bot> {
    let bots = store.bots(ws).await?;
    let names: Vec<String> = bots.iter().map(|bot| bot.name.clone()).collect();
    match bots.into_iter().find(|bot| bot.name == name) {
        Some(bot) => Ok(bot),
        None if names.is_empty() => bail!("there is no bot yet; write [bots.NAME] and run `rupor apply`"),
        None => bail!("there is no bot {name:?}; known are {}", domain::shown::line(&names.join(", "))),
    }
}

pub(crate) async fn perform_on_bot(
    store: &Store,
    ws: WorkspaceId,
    name: &str,
    order: BotOrder,
) -> anyhow::Result<Value> {
    let bot = find_bot(store, ws, name).await?;
    let account_of = async |wanted: &str| {
        let accounts = store.accounts(ws).await?;
        let found = accounts.into_iter().find(|account| account.name == wanted);
        let found =
            found.filter(|account| bot.accounts.iter().any(|own| own.account_id == account.account_id));
        anyhow::Ok(found.with_context(|| format!("bot {name} has no account {wanted}"))?.account_id)
    };
    match order {
        BotOrder::Activate { version } => {
            let known = store.bot_rules(ws, bot.bot_id).await?;
            let Some(wanted) = known.iter().find(|rules| rules.version == version) else {
                let known: Vec<String> = known.iter().rev().map(|rules| rules.version.to_string()).collect();
                bail!("bot {name} has no version {version} of its rules; there is {}", known.join(", "));
            };
            let operators = operators(store, ws, wanted).await?;
            store.activate_bot_rules(ws, bot.bot_id, version, operators).await?;
            Ok(json!({"bot": name, "version": version, "before": bot.active_version}))
        }
        BotOrder::Forget { account, user } => {
            let id = account_of(&account).await?;
            if !store.bot_forget(ws, id, &user).await? {
                bail!("nobody with the id {user} has written to {account}");
            }
            Ok(json!({"bot": name, "forgotten": 1}))
        }
        BotOrder::SetHook { account, key, secret_hash, settings } => {
            let id = account_of(&account).await?;
            store.set_bot_hook(ws, id, &key, Some(&secret_hash), settings).await?;
            Ok(json!({"bot": name, "account": account}))
        }
    }
}

/// Where people answer, by what a version says.
async fn operators(store: &Store, ws: WorkspaceId, wanted: &BotRules) -> anyhow::Result<Option<ChannelId>> {
    let version = wanted.version;
    let Ok(rules) = Rules::read(&wanted.rules) else {
        bail!("version {version} cannot be read by this program any more; activate another one");
    };
    let Some(operators) = rules.operators else {
        return Ok(None);
    };
    let channels = store.channels(ws).await?;
    let Some(channel) = channels.iter().find(|channel| channel.name == operators.channel) else {
        bail!(
            "in version {version} people answer in the channel {}, and there is no such channel any more; put it back \
             into the configuration and run `rupor apply`, or activate another version",
            domain::shown::line(&operators.channel)
        );
    };
    Ok(Some(channel.channel_id))
}
