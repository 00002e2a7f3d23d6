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
use store::{Account, BotChat, Channel, Clock, Store};

use super::words::cause;
use crate::config::{self, Config, Secret};
use crate::language::{Language, Phrase, heard, say};
use engine::addresses::{self, ApiBases};

/// How far the clocks of machine and database may be apart; leases and slots are counted in seconds.
const CLOCK_MILLIS_MAX: i64 = 2_000;

const WALL_DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Finding {
    pub ok: bool,
    pub what: Phrase,
    pub found: Phrase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Phrase>,
}

impl Finding {
    pub(crate) fn good(what: impl Into<Phrase>, found: impl Into<Phrase>) -> Finding {
        Finding { ok: true, what: what.into(), found: found.into(), fix: None }
    }

    pub(crate) fn bad(what: impl Into<Phrase>, found: impl Into<Phrase>, fix: impl Into<Phrase>) -> Finding {
        Finding { ok: false, what: what.into(), found: found.into(), fix: Some(fix.into()) }
    }
}

/// An account to ask about, with the channels on it.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Named where there are several.
    pub workspace: String,
    pub account: Account,
    pub token: Secret,
    pub channels: Vec<Channel>,
    /// Walls that it reads: their names and addresses.
    pub walls: Vec<(String, String)>,
    /// Of the channels, those where people answer for a bot.
    pub desks: Vec<String>,
    /// Chats where a bot of this account is, as its platform told.
    pub chats: Vec<BotChat>,
}

/// Chats of one account that are named.
const CHATS_MAX: usize = 20;

/// Adds what the platforms told of chats, whether a configuration is checked or what is stored.
pub(crate) async fn add_chats(store: &Store, subjects: &mut [Subject]) -> anyhow::Result<()> {
    for workspace in store.workspaces().await? {
        let accounts = store.accounts(workspace.workspace_id).await?;
        for chat in store.bot_chats(workspace.workspace_id).await? {
            let account = accounts.iter().find(|account| account.account_id == chat.account_id);
            let meant = subjects.iter_mut().find(|subject| {
                subject.workspace == workspace.name
                    && account.is_some_and(|account| account.name == subject.account.name)
            });
            if let Some(subject) = meant.filter(|_| chat.left_at.is_none()) {
                subject.chats.push(chat);
            }
        }
    }
    Ok(())
}

/// Where a bot is, with the ids that a channel needs.
fn chats_finding(what: Phrase, chats: &[BotChat]) -> Option<Finding> {
    let name = |chat: &BotChat| match &chat.title {
        Some(title) => format!("«{}» {}", line(title), line(&chat.chat)),
        None => line(&chat.chat).into_owned(),
    };
    let mut names: Vec<String> = chats.iter().take(CHATS_MAX).map(name).collect();
    names.extend((chats.len() > CHATS_MAX).then(|| "…".to_owned()));
    (!chats.is_empty()).then(|| Finding::good(what, say!("check.chats", chats = names.join(", "))))
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
                workspace: workspace.name.clone(),
                account: account.as_row(),
                token: account.token.clone(),
                channels: on_it.map(|channel| channel.as_row(account)).collect(),
                walls: read.map(|source| (source.name.clone(), source.address.clone())).collect(),
                desks: workspace.bots.iter().filter_map(|bot| bot.operators.clone()).collect(),
                chats: Vec::new(),
            });
        }
    }
    subjects
}

/// The subjects of a workspace as the rows are.
pub(crate) async fn subjects_of_store(
    store: &Store,
    ws: WorkspaceId,
    workspace: &str,
) -> anyhow::Result<Vec<Subject>> {
    let channels = store.channels(ws).await?;
    let sources = store.sources(ws).await?;
    let operators: Vec<_> = store.bots(ws).await?.into_iter().filter_map(|bot| bot.operators).collect();
    let is_desk = |channel: &&Channel| operators.contains(&channel.channel_id);
    let desks: Vec<String> = channels.iter().filter(is_desk).map(|channel| channel.name.clone()).collect();
    let mut subjects = Vec::new();
    for account in store.accounts(ws).await? {
        let token = store.account_token(ws, account.account_id).await?;
        let on_it = channels.iter().filter(|channel| channel.account_id == account.account_id);
        let channels = on_it.cloned().collect();
        let read = sources.iter().filter(|source| source.account_id == Some(account.account_id));
        let walls = read.map(|source| (source.name.clone(), source.address.clone())).collect();
        let (workspace, desks) = (workspace.to_owned(), desks.clone());
        let (token, chats) = (Secret::from(token), Vec::new());
        subjects.push(Subject { workspace, account, token, channels, walls, desks, chats });
    }
    Ok(subjects)
}

/// What a configuration would do, workspace by workspace.
pub(crate) fn would_do(config: &Config) -> Vec<Finding> {
    let told = config.workspaces.iter().map(|workspace| {
        let what = say!("check.would.workspace", name = &workspace.name);
        let found = say!(
            "check.would",
            sources = workspace.sources.len(),
            channels = workspace.channels.len(),
            accounts = workspace.accounts.len(),
        );
        Finding::good(what, found)
    });
    told.collect()
}

/// Asks about every subject; where there are several workspaces, each finding says of which.
pub(crate) async fn all(network: &Network, bases: &ApiBases, subjects: &[Subject]) -> Vec<Finding> {
    let first = subjects.first().map(|subject| &subject.workspace);
    let several = subjects.iter().any(|subject| Some(&subject.workspace) != first);
    let mut findings = Vec::new();
    for about in subjects {
        let found = subject(network, bases, about).await.into_iter();
        findings.extend(found.map(|finding| match several {
            true => {
                let what = say!("check.in_workspace", workspace = &about.workspace, what = finding.what);
                Finding { what, ..finding }
            }
            false => finding,
        }));
    }
    findings
}

/// The database and its clock.
pub(crate) async fn database(store: &Store, shown: &str) -> Vec<Finding> {
    let what = say!("check.database", name = shown);
    let now = match store.now().await {
        Ok(now) => now,
        Err(error) => return vec![Finding::bad(what, error.to_string(), say!("check.database.fix"))],
    };
    let mut findings = vec![Finding::good(what, say!("check.database.good"))];
    let apart = (Clock::system().now() - now).millis().abs();
    let (clock, found) = (say!("check.clock"), say!("check.clock.apart", ms = apart));
    findings.push(match apart {
        0..=CLOCK_MILLIS_MAX => Finding::good(clock, found),
        _ => Finding::bad(clock, found, say!("check.clock.fix")),
    });
    if let Ok(Some(why)) = store.held().await {
        let found = say!("check.sending.held", why = heard(&why));
        findings.push(Finding::bad(say!("check.sending"), found, "$ rupor release"));
    }
    findings
}

/// Asks the platform about one account and each of its channels.
pub(crate) async fn subject(network: &Network, bases: &ApiBases, subject: &Subject) -> Vec<Finding> {
    let row = &subject.account;
    let what = say!("check.account", name = &row.name);
    let account = match addresses::account(row, subject.token.reveal(), bases) {
        Ok(account) => account,
        Err(error) => {
            return vec![Finding::bad(what, format!("{error:#}"), say!("check.correct"))];
        }
    };
    let Ok(platform) = addresses::platform(&row.platform) else {
        return Vec::new();
    };
    network.admit(&account);
    let probe = platform.probe(network, &account, None).await;
    let elsewhere =
        Some(account.base()).filter(|base| *base != platform.facts().api_base.trim_end_matches('/'));
    let mut findings = vec![token_finding(what.clone(), row, &probe, elsewhere)];
    if probe.identity.is_err() {
        return findings;
    }
    findings.extend(chats_finding(what, &subject.chats));
    for channel in &subject.channels {
        findings.push(match addresses::channel(channel, row) {
            Err(error) => {
                let what = say!("check.channel", name = &channel.name);
                Finding::bad(what, format!("{error:#}"), say!("check.correct"))
            }
            Ok(settings) => {
                let is_desk = subject.desks.contains(&channel.name);
                look_at_channel(network, &account, platform, channel, &settings, is_desk).await
            }
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
    let what = say!("check.source", name = name);
    let Some(wall) = walls.wall(address) else {
        let found = say!("check.wall.not", address = address);
        return Finding::bad(what, found, say!("check.wall.not.fix"));
    };
    let place = Place { offset: 0, count: 1, deadline: WALL_DEADLINE };
    match walls.page(network, account, &wall, place).await {
        Ok(page) => Finding::good(what, say!("check.wall.good", address = address, n = page.total)),
        Err(failure) => {
            let (message, code) = (&failure.message, &failure.code);
            let found = say!("check.wall.bad", address = address, message = message, code = code);
            Finding::bad(what, found, say!("check.wall.fix"))
        }
    }
}

/// One channel and the account it is on.
pub(crate) async fn channel(
    store: &Store,
    ws: WorkspaceId,
    channel: &Channel,
) -> anyhow::Result<Vec<Finding>> {
    let mut subjects = subjects_of_store(store, ws, "").await?;
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
    is_desk: bool,
) -> Finding {
    let what = say!("check.channel", name = &channel.name);
    match platform.probe(network, account, Some(settings)).await {
        Probe { channel: Some(ChannelProbe { deaf: Some(why), .. }), .. } if is_desk => {
            let (found, fix) = why.split_once("; ").unwrap_or((&why, ""));
            let found = say!("check.channel.deaf", target = &channel.target, why = found);
            Finding::bad(what, found, fix)
        }
        Probe { channel: Some(probe), .. } => rights_finding(what, channel, &probe),
        Probe { identity: Err(failure), .. } => refused(what, &failure, None),
        Probe { channel: None, .. } => Finding::good(what, say!("check.channel.silent")),
    }
}

/// `elsewhere`: where it was asked, if not at the platform's own address.
fn token_finding(what: Phrase, row: &Account, probe: &Probe, elsewhere: Option<&str>) -> Finding {
    let identity = match &probe.identity {
        Ok(identity) => identity,
        Err(failure) => return refused(what, failure, elsewhere),
    };
    let name = identity.username.as_ref().map_or(identity.name.clone(), |name| format!("@{name}"));
    let found = say!(
        "check.account.as",
        platform = &row.platform,
        name = name,
        connection = heard(probe.connection),
        limits = heard(probe.limits),
    );
    match row.paused {
        false => Finding::good(what, found),
        true => {
            let why = row.paused_why.as_deref().unwrap_or_default();
            let resume = format!("$ rupor account resume {}", super::words::quoted(&row.name));
            Finding::bad(what, say!("check.account.paused", found = found, why = why), resume)
        }
    }
}

fn refused(what: Phrase, failure: &Failure, elsewhere: Option<&str>) -> Finding {
    let found = cause(&failure.code, &failure.message);
    // Whoever reads this has run the check already.
    let fix = match found.remedy {
        Phrase::Known("remedy.token_or_address", _) if elsewhere.is_some() => {
            say!("remedy.address_or_token", address = elsewhere.unwrap_or_default())
        }
        Phrase::Known("remedy.network", _) => say!("remedy.network.checked"),
        Phrase::Known("remedy.server", _) => say!("remedy.server.checked"),
        Phrase::Known("remedy.tls", _) => say!("remedy.tls.checked"),
        remedy if remedy.is_empty() => say!("check.platform_message"),
        remedy => remedy,
    };
    Finding::bad(what, found.sentence, fix)
}

fn rights_finding(what: Phrase, channel: &Channel, probe: &ChannelProbe) -> Finding {
    let title = probe.title.as_deref().map_or(String::new(), |title| format!(" «{title}»"));
    let target = domain::shown::addresses(&channel.target).into_owned();
    let remarks = Phrase::list(probe.remarks.iter().map(|remark| heard(remark)), "; ");
    let noted = if remarks.is_empty() { Phrase::none() } else { Phrase::from("; ").and(&remarks) };
    match probe.may_post {
        Some(true) => {
            Finding::good(what, say!("check.channel.may", target = target, title = title, noted = noted))
        }
        None => {
            Finding::good(what, say!("check.channel.later", target = target, title = title, noted = noted))
        }
        Some(false) => {
            let why = if remarks.is_empty() { say!("check.channel.no") } else { remarks };
            let found = say!("check.channel.may_not", target = target, title = title, why = why);
            Finding::bad(what, found, say!("check.channel.fix"))
        }
    }
}

/// The list as people read it, with the verdict at its end.
pub(crate) fn text(findings: &[Finding], language: Language) -> String {
    let say = |phrase: &Phrase| line(&phrase.in_language(language)).into_owned();
    let (good, bad) = (say(&say!("check.ok")), say(&say!("check.fail")));
    let width = good.chars().count().max(bad.chars().count());
    let mut text = String::new();
    for finding in findings {
        let sign = if finding.ok { &good } else { &bad };
        text += &format!("{sign:<width$} {}: {}\n", say(&finding.what), say(&finding.found));
        if let Some(fix) = &finding.fix {
            let fix = say(&say!("check.fix", fix = fix));
            text += &format!("{:width$} {fix}\n", "");
        }
    }
    // What failed is counted in the error that follows.
    if findings.iter().all(|finding| finding.ok) {
        text += &format!("\n{}\n", say(&say!("check.all_good", n = findings.len())));
    }
    text
}

/// Fails if anything did.
pub(crate) fn verdict(findings: &[Finding], language: Language) -> anyhow::Result<()> {
    let failed = findings.iter().filter(|finding| !finding.ok).count();
    match failed {
        0 => Ok(()),
        n => bail!("{}", say!("check.failed", n = n, all = findings.len()).in_language(language)),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
