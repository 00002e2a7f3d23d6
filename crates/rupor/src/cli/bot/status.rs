//! `rupor bot status`: how the bots do, and how the services that their rules call answer.

use std::collections::BTreeSet;

use domain::dialogue::Rules;
use domain::ids::WorkspaceId;
use domain::shown::line;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use serde_json::json;
use store::{Account, Bot, Store};

use crate::cli::operator::OperatorArgs;
use crate::operate::status::table;
use crate::operate::verb::find_workspace;
use crate::operate::words::how_long;

/// The figures are those of this long.
const LATELY: Span = Span::from_hours(24);

pub(super) async fn run(operator: &OperatorArgs) -> anyhow::Result<()> {
    let store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let (bots, accounts, now) = (store.bots(ws).await?, store.accounts(ws).await?, store.now().await?);
    let figures = store.bot_snapshot(ws, LATELY).await?;
    let services = services(&store, ws, &bots, &accounts).await?;
    let name =
        |id| accounts.iter().find(|account| account.account_id == id).map_or("?", |account| &account.name);
    operator.print(&json!({"bots": bots, "figures": figures, "services": services}), || {
        let mut rows = Vec::new();
        for bot in &bots {
            for account in &bot.accounts {
                let heard = account.heard_at.map_or_else(|| "never".to_owned(), |at| how_long(now - at) + " ago");
                let problem = account.problem.clone().unwrap_or_default();
                let rules = bot.active_version.to_string();
                let how = account.receive.as_str().to_owned();
                rows.push(vec![bot.name.clone(), rules, name(account.account_id).to_owned(), how, heard, problem]);
            }
        }
        let oldest = figures.oldest.map_or_else(String::new, |at| format!(" (the oldest for {})", how_long(now - at)));
        let mut text = table(&["bot", "rules", "account", "hears by", "heard", "problem"], rows);
        if !services.is_empty() {
            let rows = services.iter().map(|service| service.cells(now)).collect();
            text += "\n";
            text += &table(&["service of", "name", "address", "last asked", "asked", "failed", "last failure"], rows);
        }
        format!(
            "{text}\n{} messages wait to be answered{oldest}; {} people wait for a human\nin the last 24 hours: {} events, {} not \
             understood, {} errors",
            figures.waiting,
            figures.handoffs,
            figures.turns,
            figures.fallbacks,
            figures.errors
        )
    })
}

/// A service as the rules, the configuration and the calls know it.
#[derive(Debug, Serialize)]
struct Service {
    bot: String,
    service: String,
    /// Without what opens doors. `None`: nobody has told where it is.
    address: Option<String>,
    /// Whether a rule that answers now calls it.
    called: bool,
    last_at: Option<Timestamp>,
    calls: i64,
    failures: i64,
    waiting: i64,
    reason: Option<String>,
}

impl Service {
    fn cells(&self, now: Timestamp) -> Vec<String> {
        let address = match (&self.address, self.called) {
            (Some(address), true) => address.clone(),
            (Some(address), false) => format!("{address} (no rule calls it)"),
            (None, _) => "none: its rules hear that it failed".to_owned(),
        };
        let last = self.last_at.map_or_else(|| "never".to_owned(), |at| how_long(now - at) + " ago");
        let waiting = if self.waiting > 0 { format!(" ({} wait)", self.waiting) } else { String::new() };
        let asked = format!("{}{waiting}", self.calls);
        let reason = self.reason.as_deref().map(|reason| line(reason).into_owned()).unwrap_or_default();
        vec![self.bot.clone(), self.service.clone(), address, last, asked, self.failures.to_string(), reason]
    }
}

async fn services(
    store: &Store,
    ws: WorkspaceId,
    bots: &[Bot],
    accounts: &[Account],
) -> anyhow::Result<Vec<Service>> {
    let figures = store.bot_services(ws, LATELY).await?;
    let mut services = Vec::new();
    for bot in bots {
        let versions = store.bot_rules(ws, bot.bot_id).await?;
        let active = versions.iter().find(|rules| rules.version == bot.active_version);
        let rules = active.and_then(|active| Rules::read(&active.rules).ok());
        let called: BTreeSet<&str> = rules.iter().flat_map(Rules::services).collect();
        let asked = figures.iter().filter(|figures| figures.bot_id == bot.bot_id);
        let mut names: BTreeSet<&str> = asked.map(|figures| figures.service.as_str()).collect();
        names.extend(&called);
        names.extend(bot.services.keys().map(String::as_str));
        for name in names {
            let id = bot.services.get(name);
            let account = accounts.iter().find(|account| Some(&account.account_id) == id);
            let own = figures.iter().find(|own| own.bot_id == bot.bot_id && own.service == name);
            services.push(Service {
                bot: bot.name.clone(),
                service: name.to_owned(),
                address: account
                    .and_then(|account| account.settings.api_base.as_ref())
                    .map(store::PrivateUrl::masked),
                called: called.contains(name),
                last_at: own.map(|own| own.last_at),
                calls: own.map_or(0, |own| own.calls),
                failures: own.map_or(0, |own| own.failures),
                waiting: own.map_or(0, |own| own.waiting),
                reason: own.and_then(|own| own.reason.clone()),
            });
        }
    }
    Ok(services)
}
