//! One screen: the channels with what waits and how fast it goes, then the trouble in words. Pure.

use std::borrow::Cow;

use domain::shown;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use store::{Channel, DisabledBy, HeldPost, PEOPLE_COUNTED_MAX, PeopleOfAccount, Snapshot};

use super::facts::Facts;
use super::trouble::{Trouble, troubles};
use super::words::{how_long, moment};
use crate::config::show_rate;

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
    /// What the queue takes at that rate.
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
pub(crate) fn people_words(people: &[PeopleLine]) -> Option<String> {
    let sum = |of: fn(&PeopleLine) -> i64| people.iter().map(of).sum::<i64>();
    let told = [
        (sum(|p| p.waiting), "waiting"),
        (sum(|p| p.sending), "being written to"),
        (sum(|p| p.gone), "gone"),
    ];
    let more = |n: i64| if n >= PEOPLE_COUNTED_MAX { "+" } else { "" };
    let told: Vec<String> =
        told.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n}{} {what}", more(*n))).collect();
    (!told.is_empty()).then(|| format!("people: {}", told.join(", ")))
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
        target: channel.target.clone(),
        state: state(facts, channel),
        waiting,
        sending: counts.sending,
        lag_ms: due.map(|at| (facts.now - at).millis()),
        sent: counts.sent,
        deduped: counts.deduped,
        failed: counts.failed_permanent + counts.dead - counts.requeued,
        rate,
        eta_ms: rate.filter(|_| waiting > 0).map(|rate| (waiting as f64 / rate * 1_000.0) as i64),
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

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = match self.node {
            Some(true) => " · node running",
            Some(false) => " · no node running",
            None => "",
        };
        writeln!(f, "workspace {} · {}{node}\n", shown::line(&self.workspace), moment(self.at))?;
        write!(f, "{}", table(&HEADINGS, self.channels.iter().map(cells).collect()))?;
        if self.channels.is_empty() {
            writeln!(f, "no channels yet: write rupor.toml and run `rupor apply`")?;
        }
        if let Some(people) = people_words(&self.people) {
            writeln!(f, "\n{people}")?;
        }
        if self.trouble.is_empty() {
            return writeln!(f, "\nno trouble");
        }
        writeln!(f, "\ntrouble")?;
        for trouble in &self.trouble {
            write!(f, "\n{trouble}")?;
        }
        Ok(())
    }
}

const HEADINGS: [&str; 9] =
    ["channel", "platform", "state", "waiting", "lag", "eta", "sent", "failed", "rate"];

fn cells(line: &ChannelLine) -> Vec<String> {
    let span = |ms: Option<i64>| ms.map_or_else(|| "-".to_owned(), |ms| how_long(Span::from_millis(ms)));
    vec![
        line.channel.clone(),
        line.platform.clone(),
        line.state.to_owned(),
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
        cells.chain(headings.get(column).map(|heading| heading.len())).max().unwrap_or(0)
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
