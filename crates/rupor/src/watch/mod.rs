//! Tells people of trouble: looks every few seconds, keeps a row for each trouble, and queues what is to be said.
//!
//! ```text
//! facts ─► operate::trouble ─► Store::watch (one row per trouble) ─► said ─► deliveries in the lanes of alerts
//!                                                          └─ the ledger is in trouble itself: sent once without it
//! ```
//!
//! What is wrong is decided by `operate::trouble`, the same list that `rupor status` shows. Several nodes may watch at
//! once: a trouble is one row, and what is said of it has one key. `said` has the words, `direct` sends without a ledger.

mod direct;
pub(crate) mod said;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use domain::delivery::Priority;
use domain::ids::{AccountId, ChannelId, WorkspaceId};
use domain::time::{Span, Timestamp};
use engine::addresses::{AlertExtras, ApiBases};
use platforms::platform::Network;
use store::{Alert, Channel, Health, NewAlert, NewMessage, Severity, Store, StoreError, Workspace};

use crate::config::quiet::Hours;
use crate::language::{self, Language};
use crate::operate::facts::{Facts, gather};
use crate::operate::trouble::{Reach, troubles};
use said::{How, Said};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A look that takes longer is given up; the database is slow, and other loops say so.
const LOOK_MAX: Duration = Duration::from_secs(20);
/// What was not so for this long is over.
const OVER_AFTER: Span = Span::from_secs(10);
/// A database in trouble for less than this may be back before anybody reads.
const ILL_PATIENCE: Duration = Duration::from_secs(5);
/// How often what is still so is told again, unless the configuration says otherwise.
const REMIND: Span = Span::from_hours(12);

/// Watches until it is dropped.
pub(crate) async fn keep(store: Store, bases: ApiBases) {
    let network = Network::default();
    bases.admit(&network);
    let mut watch = Watch::new(store, bases, network, OVER_AFTER);
    loop {
        match tokio::time::timeout(LOOK_MAX, watch.look()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = format!("{error:#}"), "trouble could not be looked for");
            }
            Err(_) => tracing::warn!("looking for trouble took too long; the next look tries again"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// One way to tell: a channel of alerts.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    workspace: WorkspaceId,
    channel: Channel,
    extras: AlertExtras,
}

impl Way {
    fn of(channel: &Channel) -> Option<Way> {
        let how = channel.settings.settings.get("alerts").cloned().unwrap_or_default();
        let extras = serde_json::from_value(how).unwrap_or_default();
        channel.is_of_alerts().then(|| Way {
            workspace: channel.workspace_id,
            channel: channel.clone(),
            extras,
        })
    }

    /// Whether this is what the trouble is about: then it cannot tell of it.
    fn is_about(&self, key: &str) -> bool {
        let of = |what: &str, id: i64| key == format!("{what}:{id}");
        let ChannelId(channel) = self.channel.channel_id;
        let AccountId(account) = self.channel.account_id;
        of("channel", channel) || of("failing", channel) || of("late", channel) || of("account", account)
    }
}

#[derive(Debug)]
pub(crate) struct Watch {
    store: Store,
    host: String,
    over_after: Span,
    ill_patience: Duration,
    direct: direct::Direct,
    /// What tests say of the database.
    #[cfg(test)]
    pretend: Option<crate::operate::facts::Ailment>,
}

impl Watch {
    pub(crate) fn new(store: Store, bases: ApiBases, network: Network, over_after: Span) -> Watch {
        let direct = direct::Direct::new(bases, network);
        Watch {
            store,
            host: host(),
            over_after,
            ill_patience: ILL_PATIENCE,
            direct,
            #[cfg(test)]
            pretend: None,
        }
    }

    /// One look at everything.
    pub(crate) async fn look(&mut self) -> anyhow::Result<()> {
        if let Health::Ill(illness) = self.store.health() {
            if illness.lasts >= self.ill_patience {
                self.direct.tell(&illness).await;
            }
            // Where only claims and outcomes do not go through, the rest can be written down.
            if illness.kind != store::STANDS_STILL {
                return Ok(());
            }
        }
        let workspaces = self.store.workspaces().await?;
        let mut ways: HashMap<WorkspaceId, Vec<Way>> = HashMap::new();
        for workspace in &workspaces {
            let channels = self.store.channels(workspace.workspace_id).await?;
            ways.insert(workspace.workspace_id, channels.iter().filter_map(Way::of).collect());
        }
        let Some(node) = of_node(&workspaces, &ways) else {
            return Ok(());
        };
        self.direct.remember(&self.store, &ways[&node]).await;
        for workspace in &workspaces {
            let own = &ways[&workspace.workspace_id];
            let told = if own.is_empty() { &ways[&node] } else { own };
            // What stands in the way of one must not keep the others from hearing of their trouble.
            let looked = self.look_at(workspace, workspace.workspace_id == node, told, own.is_empty()).await;
            if let Err(error) = looked {
                let error = format!("{error:#}");
                tracing::warn!(workspace = workspace.name, error, "trouble could not be looked for");
            }
        }
        Ok(())
    }

    async fn look_at(
        &mut self,
        workspace: &Workspace,
        is_node: bool,
        ways: &[Way],
        named: bool,
    ) -> anyhow::Result<()> {
        let facts = gather(&self.store, &workspace.name, Some(true)).await?;
        #[cfg(test)]
        let facts = Facts { database: self.pretend.clone().or(facts.database.clone()), ..facts };
        let mut seen = self.seen(&facts, is_node);
        for (kind, words) in self.direct.told().into_iter().filter(|_| is_node) {
            let key = format!("{kind}@{}", self.host);
            seen.retain(|alert| alert.key != key);
            seen.push(NewAlert { key, kind: kind.into(), severity: Severity::Act, words, told: true });
        }
        let open = self.store.watch(workspace.workspace_id, seen, &self.host, self.over_after).await?;
        if is_node && !matches!(self.store.health(), Health::Ill(_)) {
            self.direct.recorded();
        }
        let how = How { language: language_of(ways), named };
        let mut looked = Ok(());
        for alert in open {
            let settled = self.settle(workspace, &alert, ways, facts.now, how).await;
            looked = looked.and(settled);
        }
        looked
    }

    /// What is wrong now, as rows. What concerns everybody is told once, where the node tells.
    fn seen(&self, facts: &Facts, is_node: bool) -> Vec<NewAlert> {
        let mine = |reach: Reach| is_node || reach == Reach::Workspace;
        let row = |trouble: crate::operate::trouble::Trouble| {
            let severity = trouble.weight.severity()?;
            let key = match trouble.reach {
                Reach::Node => format!("{}@{}", trouble.key, self.host),
                _ => trouble.key.clone(),
            };
            let words = said::words(&trouble);
            Some(NewAlert { key, kind: trouble.kind.to_owned(), severity, words, told: false })
        };
        troubles(facts).into_iter().filter(|trouble| mine(trouble.reach)).filter_map(row).collect()
    }

    /// Tells what is to be told of one trouble now.
    async fn settle(
        &self,
        workspace: &Workspace,
        alert: &Alert,
        ways: &[Way],
        now: Timestamp,
        how: How,
    ) -> anyhow::Result<()> {
        let ws = workspace.workspace_id;
        let said = match due(alert, ways, now) {
            Due::Nothing => return Ok(()),
            Due::Forget => return Ok(self.store.alert_cleared(ws, alert.alert_id).await?),
            Due::Tell => Said::Opened,
            Due::Remind => Said::Reminder,
            Due::Clear => Said::Cleared,
        };
        let told: Vec<&Way> = ways.iter().filter(|way| !way.is_about(&alert.key)).collect();
        self.enqueue(&told, said::message(workspace, alert, said, now, how), ws, alert, said).await?;
        let headline = alert.words["headline"].as_str().unwrap_or_default();
        match said {
            Said::Cleared => {
                tracing::info!(kind = alert.kind, headline, "trouble is over");
                self.store.alert_cleared(ws, alert.alert_id).await?;
            }
            _ => {
                tracing::error!(kind = alert.kind, headline, ways = told.len(), "trouble");
                self.store.alert_told(ws, alert.alert_id, alert.n_told).await?;
            }
        }
        Ok(())
    }

    /// The same words have the same key, so that a second node or a second try says nothing twice.
    async fn enqueue(
        &self,
        ways: &[&Way],
        message: domain::message::Message,
        of: WorkspaceId,
        alert: &Alert,
        said: Said,
    ) -> anyhow::Result<()> {
        let Some(first) = ways.first() else {
            return Ok(());
        };
        let n = if said == Said::Cleared { "over".to_owned() } else { alert.n_told.to_string() };
        let origin = format!("{of}:{}:{n}", alert.alert_id);
        let new = NewMessage {
            channels: ways.iter().map(|way| way.channel.channel_id).collect(),
            priority: Priority::Urgent,
            ..NewMessage::new("alerts", &origin, format!("alert {origin}"), serde_json::json!(message))
        };
        match self.store.enqueue(first.workspace, vec![new]).await {
            // Somebody was faster, with words of another second.
            Ok(_) | Err(StoreError::KeyConflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The language of alerts: as the configuration says, else as the node's environment.
fn language_of(ways: &[Way]) -> Language {
    let written = ways.iter().find_map(|way| Language::parse(way.extras.lang.as_deref()?));
    written.unwrap_or_else(language::chosen)
}

/// Where trouble of the whole node is told: by the alerts of the top level, else by the first that there are.
fn of_node(workspaces: &[Workspace], ways: &HashMap<WorkspaceId, Vec<Way>>) -> Option<WorkspaceId> {
    let with = |fits: &dyn Fn(&Way) -> bool| {
        workspaces.iter().find(|workspace| ways[&workspace.workspace_id].iter().any(fits))
    };
    let found = with(&|way| way.extras.node).or_else(|| with(&|_| true)).or_else(|| workspaces.first());
    found.map(|workspace| workspace.workspace_id)
}

/// What is to be done about one trouble now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    Tell,
    Remind,
    Clear,
    /// It ended before anybody was told.
    Forget,
}

fn due(alert: &Alert, ways: &[Way], now: Timestamp) -> Due {
    if alert.ended_at.is_some() {
        return if alert.n_told == 0 { Due::Forget } else { Due::Clear };
    }
    if alert.severity == Severity::Heals && ways.iter().all(|way| is_quiet(way, now)) && !ways.is_empty() {
        return Due::Nothing;
    }
    let Some(told_at) = alert.told_at else {
        return Due::Tell;
    };
    let remind = ways.iter().find_map(|way| engine::span::parse(way.extras.remind.as_deref()?));
    let again = alert.severity == Severity::Act && now - told_at > remind.unwrap_or(REMIND);
    if again { Due::Remind } else { Due::Nothing }
}

fn is_quiet(way: &Way, now: Timestamp) -> bool {
    let hours = way.extras.quiet_hours.as_deref().and_then(Hours::parse);
    let zone = way.channel.settings.time_zone.as_deref();
    let zone = zone.and_then(|name| jiff::tz::TimeZone::get(name).ok()).unwrap_or(jiff::tz::TimeZone::UTC);
    hours.is_some_and(|hours| hours.closed_until(&zone, now).is_some())
}

/// The name of this machine, for troubles that are its own.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(|c| c.is_alphanumeric() || ".-_".contains(*c)).collect();
    if name.is_empty() { "node".to_owned() } else { name }
}
