//! One screen: the channels with what waits and how fast it goes, then the trouble in words. Pure.

use std::borrow::Cow;

use domain::shown;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use store::{BotSnapshot, Channel, DisabledBy, HeldPost, PEOPLE_COUNTED_MAX, PeopleOfAccount, Snapshot};

use super::facts::Facts;
use super::trouble::{Trouble, troubles};
use crate::config::show_rate;
use crate::language::{self, Language, Phrase, say};

/// What `rupor status --json` and the board show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Status {
    pub at: Timestamp,
    pub workspace: String,
    pub node: Option<bool>,
    pub held: Option<String>,
    pub channels: Vec<ChannelLine>,
    /// Campaigns and dialogues in sums, for each account that has people.
    pub people: Vec<PeopleLine>,
    /// Posts that wait for a person.
    pub held_posts: Vec<HeldPost>,
    pub trouble: Vec<Trouble>,
    /// `monitor_snapshot`.
    pub snapshot: Snapshot,
    /// The bots together; `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bot: Option<BotSnapshot>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ChannelLine {
    pub channel: String,
    pub platform: String,
    pub target: String,
    pub state: &'static str,
    pub waiting: i64,
    pub sending: i64,
    /// How long the first of the queue has been due.
    pub lag_ms: Option<i64>,
    pub sent: i64,
    pub deduped: i64,
    pub failed: i64,
    /// Messages a second; `None`: as fast as the account may.
    pub rate: Option<f64>,
    /// What the queue takes at that rate, with its share of the account.
    pub eta_ms: Option<i64>,
}

/// The people of an account; from `PEOPLE_COUNTED_MAX` on a number means "at least".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PeopleLine {
    pub account: String,
    pub waiting: i64,
    pub sending: i64,
    pub gone: i64,
}

pub(crate) fn status(facts: &Facts) -> Status {
    Status {
        at: facts.now,
        workspace: facts.workspace.name.clone(),
        node: facts.node,
        held: facts.held.clone(),
        channels: facts.channels.iter().map(|channel| line(facts, channel)).collect(),
        people: facts.people.iter().map(|people| of_people(facts, people)).collect(),
        held_posts: facts.held_posts.clone(),
        trouble: troubles(facts),
        snapshot: facts.snapshot.clone(),
        bot: (!facts.bots.is_empty()).then_some(facts.bot),
    }
}

fn of_people(facts: &Facts, people: &PeopleOfAccount) -> PeopleLine {
    let account = facts.accounts.iter().find(|account| account.account_id == people.account_id);
    PeopleLine {
        account: account.map_or_else(|| people.account_id.to_string(), |account| account.name.clone()),
        waiting: people.waiting,
        sending: people.sending,
        gone: people.gone,
    }
}

/// `people: 12 waiting, 3 gone`; `None`: there is nobody to tell of.
pub(crate) fn people_words(people: &[PeopleLine]) -> Option<Phrase> {
    let sum = |of: fn(&PeopleLine) -> i64| people.iter().map(of).sum::<i64>();
    let number = |n: i64| if n >= PEOPLE_COUNTED_MAX { Phrase::from(format!("{n}+")) } else { n.into() };
    let (waiting, sending, gone) = (sum(|p| p.waiting), sum(|p| p.sending), sum(|p| p.gone));
    let told = [
        (waiting > 0).then(|| say!("status.people_waiting", n = number(waiting))),
        (sending > 0).then(|| say!("status.people_sending", n = number(sending))),
        (gone > 0).then(|| say!("status.people_gone", n = number(gone))),
    ];
    let told = Phrase::list(told.into_iter().flatten(), ", ");
    (!told.is_empty()).then(|| say!("status.people", what = told))
}

/// `bots, last hour: 40 answers, 2 not understood, 1 person waits for a human`.
fn bot_words(bot: &BotSnapshot) -> Phrase {
    let told = [
        Some(say!("status.bot_answers", n = bot.turns)),
        Some(say!("status.bot_lost", n = bot.fallbacks)),
        (bot.errors > 0).then(|| say!("status.bot_broke", n = bot.errors)),
        (bot.waiting > 0).then(|| say!("status.bot_waiting", n = bot.waiting)),
        (bot.handoffs > 0).then(|| say!("status.bot_handoffs", n = bot.handoffs)),
        (bot.handoffs_waiting > 0).then(|| say!("status.bot_handoffs_waiting", n = bot.handoffs_waiting)),
    ];
    say!("status.bot", what = Phrase::list(told.into_iter().flatten(), ", "))
}

fn line(facts: &Facts, channel: &Channel) -> ChannelLine {
    let lane = facts.lane_of(channel);
    let counts = lane.map(|lane| lane.counts).unwrap_or_default();
    let waiting = counts.queued + counts.retry;
    let due = lane.and_then(|lane| lane.next_at).filter(|at| waiting > 0 && *at <= facts.now);
    let account = facts.account_of(channel);
    let rate = match (channel.settings.rate, account.and_then(|account| account.settings.rate)) {
        (Some(own), Some(all)) => Some(own.min(all)),
        (own, all) => own.or(all),
    };
    ChannelLine {
        channel: channel.name.clone(),
        platform: channel.platform.clone(),
        target: channel.shown_target(),
        state: state(facts, channel),
        waiting,
        sending: counts.sending,
        lag_ms: due.map(|at| (facts.now - at).millis()),
        sent: counts.sent,
        deduped: counts.deduped,
        failed: counts.failed_permanent + counts.dead - counts.requeued,
        rate,
        eta_ms: facts.lane_now(channel).and_then(|lane| lane.eta_ms),
    }
}

/// A channel in one word.
pub(crate) fn state(facts: &Facts, channel: &Channel) -> &'static str {
    let account = facts.account_of(channel);
    match (channel.enabled, channel.disabled_by) {
        _ if facts.held.is_some() || facts.workspace.held => "held",
        (false, Some(DisabledBy::Auto)) => "shut",
        (false, _) => "disabled",
        _ if account.is_some_and(|account| account.paused) => "no account",
        _ if channel.paused_until > facts.now => "paused",
        _ if account.is_some_and(|account| account.cooldown_until > facts.now) => "resting",
        _ if crate::config::quiet::closed_until(&channel.settings, facts.now).is_some() => "quiet",
        _ => "open",
    }
}

/// A state of a channel as people call it.
pub(crate) fn state_words(state: &str) -> Phrase {
    match state {
        "held" => say!("state.held"),
        "shut" => say!("state.shut"),
        "disabled" => say!("state.disabled"),
        "no account" => say!("state.no_account"),
        "paused" => say!("state.paused"),
        "resting" => say!("state.resting"),
        "quiet" => say!("state.quiet"),
        "open" => say!("state.open"),
        other => other.into(),
    }
}

impl Status {
    /// The screen, for people.
    pub(crate) fn page(&self, language: Language) -> String {
        let say = |phrase: Phrase| phrase.in_language(language);
        let node = match self.node {
            Some(true) => format!(" · {}", say(say!("status.node_running"))),
            Some(false) => format!(" · {}", say(say!("status.no_node"))),
            None => String::new(),
        };
        let name = shown::line(&self.workspace).into_owned();
        let mut page = say(say!("status.workspace", name = name, at = self.at)) + &node + "\n\n";
        let headings = headings().map(say);
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        page += &table(&headings, self.channels.iter().map(|line| cells(line, language)).collect());
        if self.channels.is_empty() {
            page += &(say(say!("status.no_channels")) + "\n");
        }
        if let Some(people) = people_words(&self.people) {
            page += &format!("\n{}\n", say(people));
        }
        if let Some(bot) = &self.bot {
            page += &format!("\n{}\n", say(bot_words(bot)));
        }
        page + "\n" + &self.trouble_page(language)
    }

    /// Only what is wrong, and what helps.
    pub(crate) fn trouble_page(&self, language: Language) -> String {
        if self.trouble.is_empty() {
            return say!("status.no_trouble").in_language(language) + "\n";
        }
        let mut page = say!("status.trouble").in_language(language) + "\n";
        for trouble in &self.trouble {
            page += &format!("\n{}", trouble.page(language));
        }
        page
    }
}

fn headings() -> [Phrase; 9] {
    [
        say!("status.head.channel"),
        say!("status.head.platform"),
        say!("status.head.state"),
        say!("status.head.waiting"),
        say!("status.head.lag"),
        say!("status.head.eta"),
        say!("status.head.sent"),
        say!("status.head.failed"),
        say!("status.head.rate"),
    ]
}

fn cells(line: &ChannelLine, language: Language) -> Vec<String> {
    let span = |ms: Option<i64>| {
        ms.map_or_else(|| "-".to_owned(), |ms| language::span(Span::from_millis(ms), language))
    };
    vec![
        line.channel.clone(),
        line.platform.clone(),
        state_words(line.state).in_language(language),
        line.waiting.to_string(),
        span(line.lag_ms),
        span(line.eta_ms),
        line.sent.to_string(),
        line.failed.to_string(),
        show_rate(line.rate),
    ]
}

/// Aligned columns without lines, so that they can be cut and searched. A cell stays on its line, whoever wrote it.
pub(crate) fn table(headings: &[&str], mut rows: Vec<Vec<String>>) -> String {
    for cell in rows.iter_mut().flatten() {
        if let Cow::Owned(shown) = shown::line(cell) {
            *cell = shown;
        }
    }
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|heading| heading.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    let heading = headings.iter().map(|heading| (*heading).to_owned()).collect();
    for row in std::iter::once(heading).chain(rows) {
        let row: Vec<String> = row;
        let padded: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}
