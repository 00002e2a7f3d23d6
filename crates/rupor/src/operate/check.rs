//! Whether everything is as it should be: database, clock, tokens, rights. Looks, and changes nothing.
//!
//! Every finding names what was looked at, what was found, and the fix where there is something to fix.

use anyhow::bail;
use domain::ids::WorkspaceId;
use domain::outcome::Failure;
use domain::shown::line;
use platforms::part::ChannelSettings;
use platforms::platform::{ChannelProbe, Network, Probe};
use platforms::walls::{Place, WallReader};
use serde::Serialize;
use store::{Account, Channel, Clock, Store};

use super::words::{cause, counted};
use crate::config::{self, Config, Secret};
use engine::addresses::{self, ApiBases};

/// How far the clocks of machine and database may be apart; leases and slots are counted in seconds.
const CLOCK_MILLIS_MAX: i64 = 2_000;

const WALL_DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub ok: bool,
    pub what: String,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    pub(crate) fn good(what: impl Into<String>, found: impl Into<String>) -> Finding {
        Finding { ok: true, what: what.into(), found: found.into(), fix: None }
    }

    pub(crate) fn bad(what: impl Into<String>, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { ok: false, what: what.into(), found: found.into(), fix: Some(fix.into()) }
    }
}

/// An account to ask about, with the channels on it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub account: Account,
    pub token: Secret,
    pub channels: Vec<Channel>,
    /// Walls that it reads: their names and addresses.
    pub walls: Vec<(String, String)>,
}

/// The subjects of a configuration that need not be applied yet.
pub(crate) fn subjects_of_config(config: &Config) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for workspace in &config.workspaces {
        for account in &workspace.accounts {
            let on_it = workspace.channels.iter().filter(|channel| channel.account == account.name);
            let read =
                workspace.sources.iter().filter(|source| source.account.as_ref() == Some(&account.name));
            subjects.push(Subject {
                account: account.as_row(),
                token: account.token.clone(),
                channels: on_it.map(|channel| channel.as_row(account)).collect(),
                walls: read.map(|source| (source.name.clone(), source.address.clone())).collect(),
            });
        }
    }
    subjects
}

/// The subjects of a workspace as the rows are.
pub(crate) async fn subjects_of_store(store: &Store, ws: WorkspaceId) -> anyhow::Result<Vec<Subject>> {
    let channels = store.channels(ws).await?;
    let sources = store.sources(ws).await?;
    let mut subjects = Vec::new();
    for account in store.accounts(ws).await? {
        let token = store.account_token(ws, account.account_id).await?;
        let on_it = channels.iter().filter(|channel| channel.account_id == account.account_id);
        let channels = on_it.cloned().collect();
        let read = sources.iter().filter(|source| source.account_id == Some(account.account_id));
        let walls = read.map(|source| (source.name.clone(), source.address.clone())).collect();
        subjects.push(Subject { account, token: Secret::from(token), channels, walls });
    }
    Ok(subjects)
}

/// The database and its clock.
pub(crate) async fn database(store: &Store, shown: &str) -> Vec<Finding> {
    let now = match store.now().await {
        Ok(now) => now,
        Err(error) => {
            return vec![Finding::bad(format!("database {shown}"), error.to_string(), "see the message")];
        }
    };
    let mut findings = vec![Finding::good(format!("database {shown}"), "can be read, schema is current")];
    let apart = (Clock::system().now() - now).millis().abs();
    findings.push(match apart {
        0..=CLOCK_MILLIS_MAX => Finding::good("clock", format!("{apart} ms from the database's")),
        _ => Finding::bad(
            "clock",
            format!("{apart} ms from the database's"),
            "keep both machines' time with NTP",
        ),
    });
    if let Ok(Some(why)) = store.held().await {
        findings.push(Finding::bad("sending", format!("everything is held: {why}"), "$ rupor release"));
    }
    findings
}

/// Asks the platform about one account and each of its channels.
pub(crate) async fn subject(network: &Network, bases: &ApiBases, subject: &Subject) -> Vec<Finding> {
    let row = &subject.account;
    let what = format!("account {}", row.name);
    let account = match addresses::account(row, subject.token.reveal(), bases) {
        Ok(account) => account,
        Err(error) => {
            return vec![Finding::bad(what, format!("{:#}", error), "correct it in the configuration")];
        }
    };
    let Ok(platform) = addresses::platform(&row.platform) else {
        return Vec::new();
    };
    network.admit(&account);
    let probe = platform.probe(network, &account, None).await;
    let mut findings = vec![token_finding(&what, row, &probe)];
    if probe.identity.is_err() {
        return findings;
    }
    for channel in &subject.channels {
        findings.push(match addresses::channel(channel, row) {
            Err(error) => Finding::bad(
                format!("channel {}", channel.name),
                format!("{error:#}"),
                "correct it in the configuration",
            ),
            Ok(settings) => look_at_channel(network, &account, platform, channel, &settings).await,
        });
    }
    if let Some(walls) = platform.walls() {
        for (name, address) in &subject.walls {
            findings.push(look_at_wall(network, &account, walls, name, address).await);
        }
    }
    findings
}

/// What is wrong with the ways of alerts, in words: told when they are configured, not when they are needed.
pub(crate) async fn alert_ways(config: &Config, bases: &ApiBases) -> Vec<String> {
    let network = Network::default();
    let mut words = Vec::new();
    for ways in subjects_of_config(config) {
        if ways.account.settings.tier != store::TIER_ALERTS {
            continue;
        }
        let found = subject(&network, bases, &ways).await;
        words.extend(found.into_iter().filter(|finding| !finding.ok).map(|finding| {
            let fix = finding.fix.map(|fix| format!("; {fix}")).unwrap_or_default();
            format!("alerts cannot be told there: {}: {}{fix}", finding.what, finding.found)
        }));
    }
    words
}

/// One post of a wall is enough to know that it can be read.
async fn look_at_wall(
    network: &Network,
    account: &platforms::platform::Account,
    walls: &dyn WallReader,
    name: &str,
    address: &str,
) -> Finding {
    let what = format!("source {name}");
    let Some(wall) = walls.wall(address) else {
        let fix = "write an id such as -123, a name, or its address";
        return Finding::bad(what, format!("{address} is not a wall"), fix);
    };
    let place = Place { offset: 0, count: 1, deadline: WALL_DEADLINE };
    match walls.page(network, account, &wall, place).await {
        Ok(page) => Finding::good(what, format!("wall {address} can be read, {} posts", page.total)),
        Err(failure) => {
            let fix = "check the id or name; a closed wall needs the token of a member";
            Finding::bad(
                what,
                format!("wall {address} cannot be read: {} ({})", failure.message, failure.code),
                fix,
            )
        }
    }
}

/// One channel and the account it is on.
pub(crate) async fn channel(
    store: &Store,
    ws: WorkspaceId,
    channel: &Channel,
) -> anyhow::Result<Vec<Finding>> {
    let mut subjects = subjects_of_store(store, ws).await?;
    subjects.retain(|subject| subject.account.account_id == channel.account_id);
    let Some(mut about) = subjects.pop() else {
        bail!("channel {}: its account is gone", channel.name);
    };
    about.channels = vec![channel.clone()];
    about.walls = Vec::new();
    let bases = ApiBases::from_env(config::process_variables);
    Ok(subject(&Network::default(), &bases, &about).await)
}

async fn look_at_channel(
    network: &Network,
    account: &platforms::platform::Account,
    platform: &dyn platforms::platform::Platform,
    channel: &Channel,
    settings: &ChannelSettings,
) -> Finding {
    let what = format!("channel {}", channel.name);
    match platform.probe(network, account, Some(settings)).await {
        Probe { channel: Some(probe), .. } => rights_finding(&what, channel, &probe),
        Probe { identity: Err(failure), .. } => refused(&what, &failure),
        Probe { channel: None, .. } => {
            Finding::good(what, "the platform says nothing about it before the first post")
        }
    }
}

fn token_finding(what: &str, row: &Account, probe: &Probe) -> Finding {
    match &probe.identity {
        Ok(identity) => {
            let name = identity.username.as_ref().map_or(identity.name.clone(), |name| format!("@{name}"));
            let found = format!("{} as {name}; {}; {}", row.platform, probe.connection, probe.limits);
            match &row.paused {
                true => Finding::bad(
                    what,
                    format!("{found}; but it is paused: {}", row.paused_why.as_deref().unwrap_or_default()),
                    format!("$ rupor account resume {}", super::words::quoted(&row.name)),
                ),
                false => Finding::good(what, found),
            }
        }
        Err(failure) => refused(what, failure),
    }
}

fn refused(what: &str, failure: &Failure) -> Finding {
    let found = cause(&failure.code, &failure.message);
    // Whoever reads this has run the check already.
    let remedy = found.remedy.replace(": `$ rupor check`", "").replace(", or run `$ rupor check`", "");
    let fix = if remedy.is_empty() { "see the platform's message".to_owned() } else { remedy };
    Finding::bad(what, found.sentence, fix)
}

fn rights_finding(what: &str, channel: &Channel, probe: &ChannelProbe) -> Finding {
    let title = probe.title.as_deref().map_or(String::new(), |title| format!(" «{title}»"));
    let remarks = probe.remarks.join("; ");
    let noted = if remarks.is_empty() { String::new() } else { format!("; {remarks}") };
    match probe.may_post {
        Some(true) => Finding::good(what, format!("{}{title}: may post{noted}", channel.target)),
        None => Finding::good(
            what,
            format!("{}{title}: whether it may post shows with the first post{noted}", channel.target),
        ),
        Some(false) => {
            let why = if remarks.is_empty() { "may not post there".to_owned() } else { remarks };
            let fix = "let the account post there (in a channel: as an administrator), or correct the target and `$ rupor apply`";
            Finding::bad(what, format!("{}{title}: {why}", channel.target), fix)
        }
    }
}

/// The list as people read it.
pub(crate) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let sign = if finding.ok { "ok  " } else { "FAIL" };
        text += &format!("{sign} {}: {}\n", line(&finding.what), line(&finding.found));
        if let Some(fix) = &finding.fix {
            text += &format!("     fix: {}\n", line(fix));
        }
    }
    text
}

/// Fails if anything did.
pub(crate) fn verdict(findings: &[Finding]) -> anyhow::Result<()> {
    let failed = findings.iter().filter(|finding| !finding.ok).count();
    match failed {
        0 => Ok(()),
        n => bail!("{} of {}", counted(n, "check failed", "checks failed"), findings.len()),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
