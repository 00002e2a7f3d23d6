//! `rupor account`: look at accounts, stop and start them.

use clap::{Args, Subcommand};
use domain::shown::line;

use super::operator::{OperatorArgs, block_on};
use crate::config::show_rate;
use crate::operate::Verb;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::{moment, quoted};

/// Look at accounts, stop and start them
#[derive(Debug, Args)]
pub(super) struct AccountArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List accounts with their state
    List(OperatorArgs),
    /// Send nothing through an account; what waits is kept
    Pause(Pause),
    /// Send through it again: end a pause, and a wait that the platform asked for
    Resume(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// Name or id of the account
    account: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Pause {
    #[command(flatten)]
    named: Named,
}

pub(super) fn run(args: &AccountArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            Command::List(operator) => list(operator).await,
            Command::Pause(pause) => stop(pause).await,
            Command::Resume(named) => go_on(named).await,
        }
    })
}

async fn list(operator: &OperatorArgs) -> anyhow::Result<()> {
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let now = store.now().await?;
    let accounts = store.accounts(ws).await?;
    let mut limits = Vec::new();
    for account in &accounts {
        let tier = store.platform_limit(ws, account.account_id).await?.and_then(|limit| limit.rate);
        limits.push(match (account.settings.rate, tier) {
            (Some(own), Some(tier)) => Some(own.min(tier)),
            (own, tier) => own.or(tier),
        });
    }
    let shown: Vec<serde_json::Value> = accounts
        .iter()
        .zip(&limits)
        .map(|(account, limit)| {
            let mut shown = serde_json::json!(account);
            shown["effective_rate"] = serde_json::json!(limit);
            shown
        })
        .collect();
    operator.print(&shown, || {
        let row = |(account, limit): (&store::Account, &Option<f64>)| {
            let state = match account {
                account if account.paused => "paused".to_owned(),
                account if account.cooldown_until > now => {
                    format!("rests until {}", moment(account.cooldown_until))
                }
                _ => "open".to_owned(),
            };
            vec![
                account.account_id.to_string(),
                account.name.clone(),
                account.platform.clone(),
                account.settings.kind.clone(),
                account.settings.tier.clone(),
                show_rate(*limit),
                state,
                account.paused_why.clone().unwrap_or_default(),
            ]
        };
        table(
            &["id", "account", "platform", "kind", "tier", "limit", "state", "why"],
            accounts.iter().zip(&limits).map(row).collect(),
        )
    })
}

async fn stop(pause: &Pause) -> anyhow::Result<()> {
    let operator = &pause.named.operator;
    let workspace = operator.workspace(&operator.look().await?.store).await?;
    let verb = Verb::PauseAccount {
        workspace,
        account: pause.named.account.clone(),
        why: operator.why("paused by an operator"),
    };
    let done = operator.perform(verb).await?;
    operator.print(&done, || {
        let name = done["account"].as_str().unwrap_or_default();
        format!(
            "account {} is paused; what waits is kept\n$ rupor account resume {}",
            line(name),
            quoted(name)
        )
    })
}

async fn go_on(named: &Named) -> anyhow::Result<()> {
    let operator = &named.operator;
    let workspace = operator.workspace(&operator.look().await?.store).await?;
    let done = operator.perform(Verb::ResumeAccount { workspace, account: named.account.clone() }).await?;
    operator.print(&done, || {
        format!("Account {} sends again", line(done["account"].as_str().unwrap_or_default()))
    })
}
