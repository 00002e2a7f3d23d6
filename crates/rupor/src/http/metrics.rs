//! `/metrics`: the meters of this process, and what the ledger maintains, by the conventions of Prometheus.
//!
//! A label has one meaning everywhere: `workspace`, `channel`, `campaign`, `account`, `platform` (by name), `status` (of a
//! delivery), `state` (of people), `health` (of sources), `kind` (of trouble), `code` (of a failure), `result` (of a poll),
//! `door`. None is a person, a post or a dialogue, so there are never more series than the configuration has rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use domain::time::{Span, Timestamp};
use engine::dispatch::Meters;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use store::{Campaign, Health, Store};

use super::api::ApiError;
use super::{Node, Site};
use crate::operate::facts::{Facts, gather};
use crate::operate::trouble::{KINDS, Reach, troubles};

/// What a scraper asks for when it can read it, and what it gets.
const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_ANSWER: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What everybody can read.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Prometheus waits for ten seconds, unless it is told otherwise.
const LEDGER_MAX: Duration = Duration::from_secs(5);
/// Campaigns that are shown: those that are not over, and the latest of the others.
const CAMPAIGNS_OVER: usize = 20;
/// The span of the bots' figures.
const HOUR: Span = Span::from_hours(1);

pub(super) async fn metrics(State(site): State<Site>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match exposition(&site.node).await {
        Ok(open) if accept.contains(OPEN_METRICS) => {
            ([(header::CONTENT_TYPE, OPEN_METRICS_ANSWER)], open).into_response()
        }
        Ok(open) => ([(header::CONTENT_TYPE, CLASSIC)], classic(&open)).into_response(),
        Err(error) => ApiError::inside(&error.into()).into_response(),
    }
}

/// Everything, in the format of OpenMetrics. What only the ledger knows is left out while it does not answer: what this
/// process knows, and that the database is gone, is told all the same.
async fn exposition(node: &Node) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    node.meters.write(&mut out)?;
    match tokio::time::timeout(LEDGER_MAX, of_ledger(node)).await {
        Ok(Ok(ledger)) => text::encode_registry(&mut out, &ledger.registry)?,
        Ok(Err(error)) => {
            tracing::warn!(error = format!("{error:#}"), "the ledger could not be read for the metrics");
        }
        Err(_) => tracing::warn!("the ledger took too long to be read for the metrics"),
    }
    let mut sheet = Sheet::new();
    of_process(&mut sheet, node);
    text::encode(&mut out, &sheet.registry)?;
    Ok(out)
}

/// What the ledger knows of each workspace. What concerns everybody is counted with the first.
async fn of_ledger(node: &Node) -> anyhow::Result<Sheet> {
    let mut sheet = Sheet::new();
    let shown = Shown::new(&mut sheet);
    for (n, workspace) in node.store.workspaces().await?.iter().enumerate() {
        let facts = gather(&node.store, &workspace.name, Some(true)).await?;
        shown.workspace(&facts, n == 0);
        shown.campaigns(&facts, &node.store.campaigns(workspace.workspace_id).await?, &node.meters);
        shown.bots(&node.store, &facts).await?;
    }
    Ok(sheet)
}

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// A registry that is written anew for each scrape.
#[derive(Debug)]
struct Sheet {
    registry: Registry,
}

impl Sheet {
    fn new() -> Sheet {
        Sheet { registry: Registry::with_prefix("rupor") }
    }

    fn gauges(&mut self, name: &str, help: &str) -> Gauges {
        let family = Gauges::default();
        self.registry.register(name, help, family.clone());
        family
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        self.registry.register(name, help, counter);
    }

    fn counters(&mut self, name: &str, help: &str) -> Family<Labels, Counter> {
        let family = Family::<Labels, Counter>::default();
        self.registry.register(name, help, family.clone());
        family
    }
}

fn set(family: &Gauges, labels: Labels, value: impl Into<f64>) {
    family.get_or_create(&labels).set(value.into());
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1_000_000.0
}

/// What this process knows by itself.
fn of_process(sheet: &mut Sheet, node: &Node) {
    let kind = match node.store {
        Store::Sqlite(_) => "sqlite",
        Store::Postgres(_) => "postgres",
    };
    let build = sheet.gauges("build_info", "Which program this is; always 1");
    set(&build, vec![("version", env!("CARGO_PKG_VERSION").into()), ("database", kind.into())], 1);
    sheet.gauge("start_time_seconds", "When this process started, in seconds since 1970", node.started);
    let ready = node.ready.load(Ordering::Acquire) && node.store.health() == Health::Good;
    sheet.gauge("database_up", "Whether the database answers and takes writes", f64::from(u8::from(ready)));
    let pool = node.store.pool();
    for (name, help, value) in [
        ("database_connections_max", "Connections that this process may have", pool.most),
        ("database_connections_busy", "Connections that are being used", pool.busy),
        ("database_connections_idle", "Connections that wait to be used", pool.idle),
        ("database_connection_waiters", "Calls that wait for a connection", pool.waiting),
    ] {
        sheet.gauge(name, help, value as f64);
    }
    let written = node.store.written();
    for (name, help, value) in [
        ("deliveries_enqueued", "Deliveries that were queued", written.enqueued),
        ("deliveries_deduped", "Deliveries that were left out as repeats", written.deduped),
        ("posts_stored", "Posts that were taken in", written.posts_stored),
        ("posts_revised", "New words of known posts", written.posts_revised),
        ("posts_seen", "Known posts that had not changed", written.posts_seen),
        ("posts_skipped", "Posts that were taken in and that nobody should hear", written.posts_skipped),
        ("bot_turns", "Turns of dialogues that were taken", written.turns),
    ] {
        sheet.counter(name, help, value);
    }
    let polls = sheet.counters("source_polls", "Polls of sources by how they ended");
    for (result, n) in [("well", written.polls_well), ("failed", written.polls_failed)] {
        polls.get_or_create(&vec![("result", result.to_owned())]).inc_by(n);
    }
}

/// What is shown of each workspace.
#[derive(Debug)]
struct Shown {
    deliveries: Gauges,
    lag: Gauges,
    eta: Gauges,
    open: Gauges,
    expired_leases: Gauges,
    paused_accounts: Gauges,
    resting_accounts: Gauges,
    sources: Gauges,
    people: Gauges,
    trouble: Gauges,
    campaign_deliveries: Gauges,
    campaign_dequeued: Family<Labels, Counter>,
    campaign_retry_scheduled: Family<Labels, Counter>,
    campaign_retry_exhausted: Family<Labels, Counter>,
    campaign_failures: Family<Labels, Counter>,
    bot_waiting: Gauges,
    bot_oldest: Gauges,
    bot_handoffs: Gauges,
    bot_handoffs_waiting: Gauges,
    bot_turns: Gauges,
    bot_fallbacks: Gauges,
    bot_errors: Gauges,
}

impl Shown {
    fn new(sheet: &mut Sheet) -> Shown {
        Shown {
            deliveries: sheet
                .gauges("channel_deliveries", "Deliveries of a channel by status, as the ledger has them"),
            lag: sheet.gauges("channel_lag_seconds", "How long the first delivery that may go has been due"),
            eta: sheet.gauges(
                "channel_eta_seconds",
                "How long what waits takes at the pace of channel and account",
            ),
            open: sheet.gauges("channel_open", "1 if the channel may send: not paused, shut or disabled"),
            expired_leases: sheet
                .gauges("leases_expired", "Claims whose lease has ended and that nobody has taken up"),
            paused_accounts: sheet.gauges("accounts_paused", "Accounts that may not send"),
            resting_accounts: sheet
                .gauges("accounts_resting", "Accounts that wait because their platform asked"),
            sources: sheet.gauges("sources", "Sources by health"),
            people: sheet
                .gauges("people", "People of an account by state; dialogues and the gone count up to 10000"),
            trouble: sheet.gauges(
                "trouble",
                "What is wrong by kind: the list of `rupor status --check` and the alerts",
            ),
            campaign_deliveries: sheet
                .gauges("campaign_deliveries", "Deliveries of a campaign by account and status"),
            campaign_dequeued: sheet.counters(
                "campaign_dequeued",
                "Deliveries of a campaign that were claimed here to be sent, by account",
            ),
            campaign_retry_scheduled: sheet.counters(
                "campaign_retry_scheduled",
                "Attempts of a campaign that failed here and are made again, by account",
            ),
            campaign_retry_exhausted: sheet.counters(
                "campaign_retry_exhausted",
                "Deliveries of a campaign that ended dead here because all their attempts failed, by account",
            ),
            campaign_failures: sheet.counters(
                "campaign_failures",
                "Deliveries of a campaign that ended unsent here, by account and code",
            ),
            bot_waiting: sheet
                .gauges("bot_events_waiting", "Events that no bot has looked at yet; up to 10000"),
            bot_oldest: sheet
                .gauges("bot_oldest_event_age_seconds", "How long the oldest of them has waited"),
            bot_handoffs: sheet
                .gauges("bot_handoffs_open", "Dialogues that people have taken over; up to 10000"),
            bot_handoffs_waiting: sheet
                .gauges("bot_handoffs_waiting", "Of them those whose person waits for an answer"),
            bot_turns: sheet.gauges("bot_turns_last_hour", "Turns within an hour; up to 10000"),
            bot_fallbacks: sheet
                .gauges("bot_fallbacks_last_hour", "Of them those in which no rule knew an answer"),
            bot_errors: sheet.gauges("bot_errors_last_hour", "Of them those that failed"),
        }
    }

    fn workspace(&self, facts: &Facts, is_first: bool) {
        let of = |more: &[(&'static str, &str)]| -> Labels {
            let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
            [("workspace", facts.workspace.name.clone())].into_iter().chain(more).collect()
        };
        for channel in &facts.channels {
            let labels = of(&[("channel", &channel.name)]);
            let lane = facts.lane_of(channel);
            for (status, n) in lane.map(|lane| by_status(&lane.counts)).unwrap_or_default() {
                set(&self.deliveries, of(&[("channel", &channel.name), ("status", status)]), n as f64);
            }
            let state = crate::operate::status::state(facts, channel);
            set(&self.open, labels.clone(), u8::from(state == "open"));
            let waiting = facts.lane_now(channel);
            let due = waiting.and_then(|lane| lane.due_at).filter(|due| *due < facts.now);
            set(&self.lag, labels.clone(), due.map_or(0.0, |due| seconds((facts.now - due).0)));
            let eta = waiting.and_then(|lane| lane.eta_ms).unwrap_or_default();
            set(&self.eta, labels, eta as f64 / 1_000.0);
        }
        set(&self.expired_leases, of(&[]), facts.snapshot.expired_leases as f64);
        set(&self.paused_accounts, of(&[]), facts.snapshot.paused_accounts as f64);
        set(&self.resting_accounts, of(&[]), facts.snapshot.cooling_accounts as f64);
        let failing = facts.snapshot.failing_sources;
        for (health, n) in [("well", facts.snapshot.sources - failing), ("failing", failing)] {
            set(&self.sources, of(&[("health", health)]), n as f64);
        }
        for people in &facts.people {
            let account = self.account(facts, people.account_id);
            for (state, n) in
                [("waiting", people.waiting), ("sending", people.sending), ("gone", people.gone)]
            {
                set(&self.people, of(&[("account", &account), ("state", state)]), n as f64);
            }
        }
        let found = troubles(facts);
        for (kind, _) in KINDS {
            let told = |trouble: &&crate::operate::trouble::Trouble| {
                let is_here = is_first || trouble.reach == Reach::Workspace;
                trouble.kind == *kind && is_here && trouble.weight.severity().is_some()
            };
            set(&self.trouble, of(&[("kind", kind)]), found.iter().filter(told).count() as f64);
        }
    }

    fn account(&self, facts: &Facts, id: domain::ids::AccountId) -> String {
        let account = facts.accounts.iter().find(|account| account.account_id == id);
        account.map_or_else(|| id.to_string(), |account| account.name.clone())
    }

    /// Never a recipient: a lane stands for all of an account.
    fn campaigns(&self, facts: &Facts, campaigns: &[Campaign], meters: &Arc<Meters>) {
        let mut over: Vec<_> = campaigns.iter().filter(|campaign| campaign.status.is_over()).collect();
        over.sort_unstable_by_key(|campaign| std::cmp::Reverse(campaign.campaign_id));
        let live = campaigns.iter().filter(|campaign| !campaign.status.is_over());
        for campaign in live.chain(over.into_iter().take(CAMPAIGNS_OVER)) {
            let of = |account, more: Option<(&'static str, String)>| -> Labels {
                let account = self.account(facts, account);
                let named = [
                    ("workspace", facts.workspace.name.clone()),
                    ("campaign", campaign.name.clone()),
                    ("account", account),
                ];
                named.into_iter().chain(more).collect()
            };
            for lane in facts.lanes.iter().filter(|lane| lane.campaign_id == Some(campaign.campaign_id)) {
                for (status, n) in by_status(&lane.counts) {
                    let labels = of(lane.account_id, Some(("status", status.to_owned())));
                    set(&self.campaign_deliveries, labels, n as f64);
                }
            }
            for (account, part) in meters.of_campaign(campaign.campaign_id) {
                for (family, n) in [
                    (&self.campaign_dequeued, part.dequeued),
                    (&self.campaign_retry_scheduled, part.retry_scheduled),
                    (&self.campaign_retry_exhausted, part.retry_exhausted),
                ] {
                    family.get_or_create(&of(account, None)).inc_by(n);
                }
                for (code, n) in part.failures {
                    self.campaign_failures.get_or_create(&of(account, Some(("code", code)))).inc_by(n);
                }
            }
        }
    }

    /// Nothing where there is no bot.
    async fn bots(&self, store: &Store, facts: &Facts) -> store::Result<()> {
        let ws = facts.workspace.workspace_id;
        if store.bots(ws).await?.is_empty() {
            return Ok(());
        }
        let figures = store.bot_snapshot(ws, HOUR).await?;
        let oldest = figures.oldest.map_or(0, |at: Timestamp| (facts.now - at).0.max(0));
        for (family, value) in [
            (&self.bot_waiting, figures.waiting as f64),
            (&self.bot_oldest, seconds(oldest)),
            (&self.bot_handoffs, figures.handoffs as f64),
            (&self.bot_handoffs_waiting, figures.handoffs_waiting as f64),
            (&self.bot_turns, figures.turns as f64),
            (&self.bot_fallbacks, figures.fallbacks as f64),
            (&self.bot_errors, figures.errors as f64),
        ] {
            set(family, vec![("workspace", facts.workspace.name.clone())], value);
        }
        Ok(())
    }
}

fn by_status(counts: &store::Counts) -> Vec<(&'static str, i64)> {
    vec![
        ("queued", counts.queued),
        ("retry", counts.retry),
        ("sending", counts.sending),
        ("sent", counts.sent),
        ("deduped", counts.deduped),
        ("failed_permanent", counts.failed_permanent),
        ("dead", counts.dead),
    ]
}

/// The same in the older text format, in which a counter is named like its samples, and which knows neither units nor an
/// end.
fn classic(open: &str) -> String {
    let counters: std::collections::HashSet<&str> =
        open.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(open.len());
    for line in open.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let named = ["# HELP ", "# TYPE "].iter().find_map(|mark| Some((*mark, line.strip_prefix(mark)?)));
        match named.and_then(|(mark, rest)| Some((mark, rest.split_once(' ')?))) {
            Some((mark, (name, rest))) if counters.contains(name) => {
                text.extend([mark, name, "_total ", rest]);
            }
            _ => text += line,
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
