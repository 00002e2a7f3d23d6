//! Facts in, sentences out: why something does not move, since when, what happens by itself, and what helps.
//!
//! Pure, and written for someone who has never seen the code. The command line, the board and `rupor why` all speak
//! with these words. Here is what concerns everything, an account or a source; deliveries, channels and the causes themselves
//! have their own files.

pub(crate) mod bots;
mod causes;
mod channels;
mod deliveries;
mod late;
mod waits;

use domain::shown::line;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use store::{Account, Event};

use super::facts::{Facts, StoppedCampaign};
pub(crate) use crate::language::moment;
use crate::language::{Language, Phrase, heard, say};
pub(crate) use causes::cause;
pub(crate) use channels::{channel_failures, channel_trouble};
pub(crate) use deliveries::delivery;
pub(crate) use domain::shown::quoted;
pub(crate) use late::{channel_doubtful, failing_often, lagging, lost_leases, stuck};
pub(crate) use waits::{held_posts, is_long, put_off};

/// One thing explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Explanation {
    /// What is the matter, in one line.
    pub headline: Phrase,
    pub cause: Phrase,
    /// Since when, as far as it is known.
    pub since: Option<Timestamp>,
    /// What happens next if nobody does anything.
    pub next: Phrase,
    /// What helps, in order; commands stand after a `$`.
    pub help: Vec<Phrase>,
    /// When this was true.
    pub now: Timestamp,
}

impl Explanation {
    /// As people read it, in lines.
    pub(crate) fn page(&self, language: Language) -> String {
        let say = |phrase: &Phrase| line(&phrase.in_language(language)).into_owned();
        let labels = [
            say!("explained.cause"),
            say!("explained.since"),
            say!("explained.next"),
            say!("explained.help"),
        ];
        let labels = labels.map(|label| say(&label));
        let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let [cause, since, next, help] = labels.map(|label| format!("  {label:<width$} "));
        let mut page = say(&self.headline) + "\n";
        if !self.cause.is_empty() {
            page += &format!("{cause}{}\n", say(&self.cause));
        }
        if let Some(at) = self.since {
            page += &format!("{since}{}\n", say(&say!("explained.ago", at = at, span = self.now - at)));
        }
        page += &format!("{next}{}\n", say(&self.next));
        for (n, one) in self.help.iter().filter(|help| !help.is_empty()).enumerate() {
            let label = if n == 0 { help.clone() } else { " ".repeat(width + 3) };
            page += &format!("{label}{}\n", say(one));
        }
        page
    }
}

/// The database as a whole; nothing moves without it.
pub(crate) fn database(facts: &Facts) -> Option<Explanation> {
    let ailment = facts.database.as_ref()?;
    let since = ailment.seconds.map(|seconds| facts.now - Span::from_secs(seconds as i64));
    let (headline, next) = match ailment.only_soon {
        _ if ailment.stands_still => (say!("trouble.standstill"), say!("trouble.standstill.next")),
        _ if ailment.slow => (say!("trouble.database_slow"), say!("trouble.database_slow.next")),
        true => (say!("trouble.disk"), say!("trouble.disk.next")),
        false => (say!("trouble.database"), say!("trouble.database.next")),
    };
    let (cause, help) = ill_words(&ailment.words);
    Some(Explanation { headline, cause, since, next, help: vec![help], now: facts.now })
}

/// What ails the database, and what helps: its words stand in one line.
pub(crate) fn ill_words(words: &str) -> (Phrase, Phrase) {
    match words.split_once("; ") {
        Some((cause, help)) => (heard(cause), heard(help)),
        None => (heard(words), say!("help.node_log")),
    }
}

pub(crate) fn source_trouble(facts: &Facts, source: &store::Source) -> Option<Explanation> {
    let since = source.failing_since.filter(|_| source.enabled)?;
    let next = match source.next_poll_at {
        at if at > facts.now => say!("trouble.source.at", when = in_time(facts, at)),
        _ => say!("trouble.source.soon"),
    };
    Some(Explanation {
        headline: say!("trouble.source", name = &source.name, kind = &source.kind),
        cause: source.last_error.as_deref().map_or_else(|| say!("cause.none"), heard),
        since: Some(since),
        next: say!("trouble.source.next", then = next),
        help: vec!["$ rupor check".into()],
        now: facts.now,
    })
}

/// `at 2026-11-15 12:05:00 UTC (in 4 min)`.
fn in_time(facts: &Facts, at: Timestamp) -> Phrase {
    say!("explained.in", at = at, span = at - facts.now)
}

/// Who stopped a workspace and why, as far as the event says.
fn stopped_by(held: Option<&Event>) -> Phrase {
    let said = |key: &str| held.and_then(|event| event.detail[key].as_str());
    let who = said("by").map_or_else(|| say!("somebody"), Phrase::from);
    match said("reason") {
        Some(reason) => say!("trouble.workspace_held.why", who = who, why = reason),
        None => say!("trouble.workspace_held.by", who = who),
    }
}

/// What stops everything: no node, a kill switch.
pub(crate) fn everything(facts: &Facts) -> Option<Explanation> {
    let since = None;
    if let Some(why) = &facts.held {
        return Some(Explanation {
            headline: say!("trouble.held"),
            cause: if why.is_empty() { say!("trouble.held.cause") } else { heard(why) },
            since,
            next: say!("trouble.held.next"),
            help: vec!["$ rupor release".into()],
            now: facts.now,
        });
    }
    if facts.workspace.held {
        let name = quoted(&facts.workspace.name);
        let held = facts.events.iter().find(|event| event.name == "held");
        return Some(Explanation {
            headline: say!("trouble.workspace_held", name = &facts.workspace.name),
            cause: stopped_by(held),
            since: held.map(|event| event.at),
            next: say!("trouble.workspace_held.next"),
            help: vec![format!("$ rupor release --workspace {name}").into()],
            now: facts.now,
        });
    }
    (facts.node == Some(false)).then(|| Explanation {
        headline: say!("trouble.no_node"),
        cause: say!("trouble.no_node.cause"),
        since,
        next: say!("trouble.no_node.next"),
        help: vec!["$ rupor run".into()],
        now: facts.now,
    })
}

pub(crate) fn account_trouble(facts: &Facts, account: &Account) -> Option<Explanation> {
    let name = quoted(&account.name);
    let resume = || Phrase::from(format!("$ {}", command(facts, &format!("rupor account resume {name}"))));
    if account.paused {
        let why = account.paused_why.clone().unwrap_or_default();
        let (code, message) = why.split_once(": ").unwrap_or((why.as_str(), ""));
        let found = cause(code, message);
        return Some(Explanation {
            headline: say!("trouble.account_paused", name = &account.name, platform = &account.platform),
            cause: found.sentence,
            since: account.paused_at,
            next: say!("trouble.account_paused.next"),
            help: [found.remedy, resume()].into_iter().filter(|help| !help.is_empty()).collect(),
            now: facts.now,
        });
    }
    if account.cooldown_until <= facts.now {
        return None;
    }
    let event = facts.account_event(account, "cooldown");
    let code = event.and_then(|event| event.detail["why"].as_str()).unwrap_or_default();
    let found = cause(code, "");
    let until = account.cooldown_until;
    let mut help = vec![found.remedy];
    if is_long(facts, until) {
        help.push(resume());
    }
    Some(Explanation {
        headline: say!("trouble.account_rests", name = &account.name, platform = &account.platform),
        cause: found.sentence,
        since: event.map(|event| event.at),
        next: say!("next.goes_on", when = in_time(facts, until)),
        help,
        now: facts.now,
    })
}

/// A campaign, or the part of one account, that a guard has stopped.
pub(crate) fn guarded(facts: &Facts, stopped: &StoppedCampaign) -> Explanation {
    let account = stopped.account_id.and_then(|id| facts.accounts.iter().find(|row| row.account_id == id));
    let name = quoted(&stopped.name);
    let resume = match account {
        Some(account) => format!("rupor campaign resume {name} --account {}", quoted(&account.name)),
        None => format!("rupor campaign resume {name}"),
    };
    let (report, resume) =
        (command(facts, &format!("rupor campaign report {name}")), command(facts, &resume));
    Explanation {
        headline: match account {
            Some(account) => say!("trouble.campaign_part", name = &stopped.name, account = &account.name),
            None => say!("trouble.campaign", name = &stopped.name),
        },
        cause: heard(&stopped.why),
        since: None,
        next: say!("trouble.campaign.next"),
        help: vec![format!("$ {report}").into(), format!("$ {resume}").into()],
        now: facts.now,
    }
}

fn done(facts: &Facts, headline: Phrase, cause: Phrase, since: Option<Timestamp>) -> Explanation {
    Explanation { headline, cause, since, next: say!("next.done"), help: Vec::new(), now: facts.now }
}

fn plain(facts: &Facts, headline: Phrase, next: Phrase) -> Explanation {
    Explanation { headline, cause: Phrase::none(), since: None, next, help: Vec::new(), now: facts.now }
}

/// A command as it has to be typed here.
fn command(facts: &Facts, text: &str) -> String {
    match facts.only_workspace {
        true => text.to_owned(),
        false => format!("{text} --workspace {}", quoted(&facts.workspace.name)),
    }
}

/// Characters of a post in a listing.
const WORDS_MAX: usize = 60;

/// The first words of a post, on one line.
pub(crate) fn words_of(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(WORDS_MAX) {
        None => words,
        Some((end, _)) => format!("{}…", &words[..end]),
    }
}

pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// A span in English, for what programs and logs get.
pub(crate) fn how_long(span: Span) -> String {
    crate::language::span(span, Language::En)
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
