//! The overview as JSON: what a page is told whole once, in the shape in which a change of it is small.
//!
//! Things stand under their ids. What moves all the time stands apart in `moving`, a column each in the order of `ids`,
//! so that a post to forty channels is a few hundred bytes and not forty objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use domain::ids::ChannelId;
use domain::time::{Span, Timestamp};
use serde_json::{Map, Value, json};
use store::{Bot, BotSnapshot, Channel, LaneCount, Source, Store};

use super::{millis, said};
use crate::config::show_rate;
use crate::language::Language;
use crate::operate::facts::Facts;
use crate::operate::status::{ChannelLine, Status, status};
use crate::operate::trouble::Trouble;

/// Hours of a strip of bars, the present one included.
const HOURS: i64 = 24;
const HOUR: Span = Span::from_hours(1);
/// Campaigns that are shown; the latest first.
const CAMPAIGNS_MAX: usize = 12;
/// How long a campaign that is over stays on the overview.
const CAMPAIGN_SHOWN: Span = Span::from_hours(7 * 24);
/// What bots did within this is counted.
const BOTS_LATELY: Span = Span::from_hours(24);

/// Everything the overview is made of.
#[derive(Debug)]
pub(super) struct Seen {
    pub facts: Facts,
    pub workspaces: Vec<String>,
    pub bars: Vec<LaneCount>,
    pub last_sent: Vec<(ChannelId, Timestamp)>,
    /// By id.
    pub posts: Map<String, Value>,
    pub beside: Arc<Beside>,
}

/// Campaigns and bots: they change slowly and cost more to read.
#[derive(Debug)]
pub(super) struct Beside {
    campaigns: Map<String, Value>,
    bots: Vec<Bot>,
    bot_figures: Option<BotSnapshot>,
}

/// When the oldest bar begins.
pub(super) fn since(now: Timestamp) -> Timestamp {
    Timestamp((hour_of(now) - HOURS + 1) * HOUR.0)
}

/// Hours since 1970.
fn hour_of(at: Timestamp) -> i64 {
    at.0.div_euclid(HOUR.0)
}

pub(super) async fn beside(store: &Store, facts: &Facts) -> anyhow::Result<Beside> {
    let ws = facts.workspace.workspace_id;
    let mut campaigns = Map::new();
    let shown = |ended: Option<Timestamp>| ended.is_none_or(|at| facts.now - at < CAMPAIGN_SHOWN);
    let known = store.campaigns(ws).await?;
    for campaign in known.iter().rev().filter(|campaign| shown(campaign.ended_at)).take(CAMPAIGNS_MAX) {
        let stands = crate::operate::campaigns::how_it_stands(store, campaign).await?;
        campaigns.insert(campaign.campaign_id.to_string(), a_campaign(facts, campaign, &stands));
    }
    let bots = store.bots(ws).await?;
    let bot_figures = match bots.is_empty() {
        true => None,
        false => Some(store.bot_snapshot(ws, BOTS_LATELY).await?),
    };
    Ok(Beside { campaigns, bots, bot_figures })
}

pub(super) fn a_campaign(facts: &Facts, campaign: &store::Campaign, stands: &Value) -> Value {
    let number = |name: &str| stands[name].as_i64().unwrap_or(0);
    // To the minute: a second less is no news.
    let eta = stands["eta_seconds"].as_f64().filter(|_| !campaign.status.is_over());
    let eta = eta.map(|s| (facts.now.0 / 1_000_000 + s as i64 + 59) / 60 * 60_000);
    json!({
        "name": campaign.name,
        "state": campaign.status,
        "why": campaign.why,
        "total": number("total") - number("excluded"),
        "sent": number("sent"),
        "failed": number("failed") + number("dead") - number("cancelled"),
        "waiting": number("waiting") + number("queued") + number("in_flight"),
        "excluded": number("excluded"),
        "eta": eta,
        "starts": campaign.starts_at.map(millis),
        "started": campaign.started_at.map(millis),
        "ended": campaign.ended_at.map(millis),
    })
}

pub(super) fn state(seen: &Seen, language: Language) -> Value {
    let status = status(&seen.facts);
    let trouble: Map<String, Value> = status
        .trouble
        .iter()
        .enumerate()
        .map(|(n, trouble)| (trouble_id(trouble), explained(n, trouble, language)))
        .collect();
    let sources: Map<String, Value> =
        seen.facts.sources.iter().map(|source| (source.source_id.to_string(), a_source(source))).collect();
    json!({
        "at": millis(seen.facts.now),
        "workspace": seen.facts.workspace.name,
        "workspaces": seen.workspaces,
        "trouble": trouble,
        "channels": channels(seen, &status),
        "moving": moving(seen, &status),
        "hours": hours(&seen.bars),
        "sources": sources,
        "campaigns": seen.beside.campaigns,
        "bots": bots(seen),
        "people": people(&seen.facts),
        "posts": seen.posts,
    })
}

/// A database without a workspace.
pub(super) fn nothing() -> Value {
    let none = json!({});
    json!({"at": 0, "workspace": null, "workspaces": [], "trouble": none, "channels": none, "moving": {"ids": []},
           "hours": none, "sources": none, "campaigns": none, "bots": none, "people": none, "posts": none})
}

/// A key and its kind: an account may have two troubles at once.
fn trouble_id(trouble: &Trouble) -> String {
    format!("{}/{}", trouble.key, trouble.kind)
}

fn explained(rank: usize, trouble: &Trouble, language: Language) -> Value {
    json!({
        "rank": rank,
        "kind": trouble.kind,
        "weight": trouble.weight,
        "headline": trouble.headline.in_language(language),
        "cause": trouble.cause.in_language(language),
        "since": trouble.since.map(millis),
        "next": trouble.next.in_language(language),
        "help": said(&trouble.help, language),
    })
}

/// The channels of posts, each with its line. What tells of trouble or of deliveries is none: only its trouble is shown.
fn of_posts<'a>(seen: &'a Seen, status: &'a Status) -> Vec<(&'a Channel, &'a ChannelLine)> {
    let all = seen.facts.channels.iter().zip(&status.channels);
    all.filter(|(channel, _)| !channel.is_of_alerts() && !channel.is_of_callbacks()).collect()
}

fn channels(seen: &Seen, status: &Status) -> Map<String, Value> {
    let rows = of_posts(seen, status).into_iter();
    rows.map(|(channel, line)| {
        let account = seen.facts.account_of(channel).map(|account| account.name.as_str());
        let told = json!({
            "name": line.channel,
            "platform": line.platform,
            "target": line.target,
            "account": account,
            "state": line.state,
            "rate": line.rate.map(|_| show_rate(line.rate)),
            "per_s": line.rate,
        });
        (channel.channel_id.to_string(), told)
    })
    .collect()
}

/// Columns in the order of `ids`; times in seconds, 0: none. Of this hour and of the one before, so that what ended in its
/// last second is told too.
fn moving(seen: &Seen, status: &Status) -> Value {
    let hour = hour_of(seen.facts.now);
    let mut counted: HashMap<(ChannelId, i64), [i64; 3]> = HashMap::new();
    for bar in &seen.bars {
        counted.insert((bar.channel_id, hour_of(bar.at)), [bar.sent, bar.deduped, bar.failed]);
    }
    let last: HashMap<ChannelId, Timestamp> = seen.last_sent.iter().copied().collect();
    let lanes = of_posts(seen, status);
    let ids: Vec<ChannelId> = lanes.iter().map(|(channel, _)| channel.channel_id).collect();
    let of_hour = |hour: i64, n: usize| -> Vec<i64> {
        ids.iter().map(|id| counted.get(&(*id, hour)).map_or(0, |bar| bar[n])).collect()
    };
    let seconds = |at: Option<Timestamp>| at.map_or(0, |at| at.0 / 1_000_000);
    let due: Vec<i64> = lanes
        .iter()
        .map(|(channel, line)| {
            let due = seen.facts.lane_of(channel).and_then(|lane| lane.next_at);
            seconds(due.filter(|at| line.waiting > 0 && *at <= seen.facts.now))
        })
        .collect();
    let column =
        |of: &dyn Fn(&ChannelLine) -> i64| -> Vec<i64> { lanes.iter().map(|(_, line)| of(line)).collect() };
    json!({
        "ids": ids,
        "hour": hour,
        "waiting": column(&|line| line.waiting + line.sending),
        "unsent": column(&|line| line.failed),
        "due": due,
        "last": ids.iter().map(|id| seconds(last.get(id).copied())).collect::<Vec<_>>(),
        "sent": of_hour(hour, 0),
        "deduped": of_hour(hour, 1),
        "failed": of_hour(hour, 2),
        "sent_before": of_hour(hour - 1, 0),
        "deduped_before": of_hour(hour - 1, 1),
        "failed_before": of_hour(hour - 1, 2),
    })
}

/// Channel, hour, what ended in it.
fn hours(bars: &[LaneCount]) -> BTreeMap<String, BTreeMap<String, [i64; 3]>> {
    let mut hours: BTreeMap<String, BTreeMap<String, [i64; 3]>> = BTreeMap::new();
    for bar in bars {
        let own = hours.entry(bar.channel_id.to_string()).or_default();
        own.insert(hour_of(bar.at).to_string(), [bar.sent, bar.deduped, bar.failed]);
    }
    hours
}

fn a_source(source: &Source) -> Value {
    json!({
        "name": source.name,
        "kind": source.kind,
        "address": domain::shown::addresses(&source.address),
        "health": health(source),
    })
}

pub(super) fn health(source: &Source) -> &'static str {
    match source {
        source if !source.enabled => "off",
        source if source.last_error.is_some() => "failing",
        source if source.next_poll_at.0 <= 0 => "new",
        _ => "well",
    }
}

fn bots(seen: &Seen) -> Value {
    let Some(figures) = seen.beside.bot_figures else {
        return json!({});
    };
    let name = |id| {
        let account = seen.facts.accounts.iter().find(|account| account.account_id == id);
        account.map_or("?", |account| account.name.as_str())
    };
    let list: Map<String, Value> = seen
        .beside
        .bots
        .iter()
        .map(|bot| {
            let accounts: Vec<Value> = bot
                .accounts
                .iter()
                // To the minute: every poll is an answer.
                .map(|own| {
                    json!({"name": name(own.account_id), "receive": own.receive, "problem": own.problem,
                           "heard": own.heard_at.map(|at| millis(at) / 60_000 * 60_000)})
                })
                .collect();
            (
                bot.bot_id.to_string(),
                json!({"name": bot.name, "version": bot.active_version, "accounts": accounts}),
            )
        })
        .collect();
    json!({
        "list": list,
        "waiting": figures.waiting,
        "oldest": figures.oldest.map(millis),
        "handoffs": figures.handoffs,
        "turns": figures.turns,
        "fallbacks": figures.fallbacks,
        "errors": figures.errors,
    })
}

/// Campaigns and dialogues in sums.
fn people(facts: &Facts) -> Value {
    let sum = |of: fn(&store::PeopleOfAccount) -> i64| facts.people.iter().map(of).sum::<i64>();
    json!({"waiting": sum(|p| p.waiting), "sending": sum(|p| p.sending), "gone": sum(|p| p.gone)})
}
