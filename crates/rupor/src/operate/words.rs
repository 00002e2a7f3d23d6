//! Facts in, sentences out: why something does not move, since when, what happens by itself, and what helps.
//!
//! Pure, and written for someone who has never seen the code. The command line, the board and `rupor why` all speak
//! with these words. Here is what concerns everything, an account or a source; deliveries, channels and the causes themselves
//! have their own files.

mod causes;
mod channels;
mod deliveries;
mod late;
mod waits;

use domain::shown::line;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use store::{Account, Event};

use super::facts::Facts;
use crate::language::Language;
pub(crate) use crate::language::moment;
pub(crate) use causes::cause;
pub(crate) use channels::{channel_failures, channel_trouble};
pub(crate) use deliveries::delivery;
pub(crate) use late::{channel_doubtful, failing_often, lagging, lost_leases, stuck};
pub(crate) use waits::{held_posts, is_long, put_off};

/// One thing explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Explanation {
    /// What is the matter, in one line.
    pub headline: String,
    pub cause: String,
    /// Since when, as far as it is known.
    pub since: Option<Timestamp>,
    /// What happens next if nobody does anything.
    pub next: String,
    /// What helps, in order; commands stand after a `$`.
    pub help: Vec<String>,
    /// When this was true.
    pub now: Timestamp,
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", line(&self.headline))?;
        if !self.cause.is_empty() {
            writeln!(f, "  cause: {}", line(&self.cause))?;
        }
        if let Some(since) = self.since {
            writeln!(f, "  since: {} ({} ago)", moment(since), how_long(self.now - since))?;
        }
        writeln!(f, "  next:  {}", line(&self.next))?;
        for (n, help) in self.help.iter().enumerate() {
            writeln!(f, "  {} {}", if n == 0 { "help: " } else { "      " }, line(help))?;
        }
        Ok(())
    }
}

/// The database as a whole; nothing moves without it.
pub(crate) fn database(facts: &Facts) -> Option<Explanation> {
    let ailment = facts.database.as_ref()?;
    let since = ailment.seconds.map(|seconds| facts.now - Span::from_secs(seconds as i64));
    let (headline, next) = match ailment.only_soon {
        _ if ailment.slow => ("the database is slow", "posts are still taken and sent, late"),
        true => ("the disk is nearly full", "posts are still taken and sent"),
        false => (
            "the database is in trouble",
            "nothing is lost: the node tries again every second, and goes on when the cause is gone",
        ),
    };
    let (cause, help) =
        ailment.words.split_once("; ").unwrap_or((&ailment.words, "look at the log of the node"));
    Some(Explanation {
        headline: headline.to_owned(),
        cause: cause.to_owned(),
        since,
        next: next.to_owned(),
        help: vec![help.to_owned()],
        now: facts.now,
    })
}

pub(crate) fn source_trouble(facts: &Facts, source: &store::Source) -> Option<Explanation> {
    let since = source.failing_since.filter(|_| source.enabled)?;
    let next = match source.next_poll_at {
        at if at > facts.now => {
            format!("it is tried again at {} (in {})", moment(at), how_long(at - facts.now))
        }
        _ => "it is tried again with the next look".to_owned(),
    };
    Some(Explanation {
        headline: format!("source {} ({}) cannot be read", source.name, source.kind),
        cause: source.last_error.clone().unwrap_or_else(|| "no reason was recorded".to_owned()),
        since: Some(since),
        next: format!(
            "{next}; the other sources are not touched, and what was posted meanwhile is caught up"
        ),
        help: vec!["$ rupor check".to_owned()],
        now: facts.now,
    })
}

/// Who stopped a workspace and why, as far as the event says.
fn stopped_by(held: Option<&Event>) -> String {
    let said = |key: &str| held.and_then(|event| event.detail[key].as_str());
    let who = said("by").unwrap_or("somebody");
    let why = said("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{who} stopped all sending of this workspace{why}")
}

/// What stops everything: no node, a kill switch.
pub(crate) fn everything(facts: &Facts) -> Option<Explanation> {
    let since = None;
    if let Some(why) = &facts.held {
        return Some(Explanation {
            headline: "everything is held".to_owned(),
            cause: if why.is_empty() { "somebody stopped all sending".to_owned() } else { why.clone() },
            since,
            next: "nothing is sent until somebody releases it; new posts keep queueing".to_owned(),
            help: vec!["$ rupor release".to_owned()],
            now: facts.now,
        });
    }
    if facts.workspace.held {
        let name = quoted(&facts.workspace.name);
        let held = facts.events.iter().find(|event| event.name == "held");
        return Some(Explanation {
            headline: format!("workspace {} is held", facts.workspace.name),
            cause: stopped_by(held),
            since: held.map(|event| event.at),
            next: "nothing of it is sent until somebody releases it; new posts keep queueing".to_owned(),
            help: vec![format!("$ rupor release --workspace {name}")],
            now: facts.now,
        });
    }
    (facts.node == Some(false)).then(|| Explanation {
        headline: "no node is running".to_owned(),
        cause: "no `rupor run` works on this database".to_owned(),
        since,
        next: "nothing is sent until one is started; nothing is lost meanwhile".to_owned(),
        help: vec!["$ rupor run".to_owned()],
        now: facts.now,
    })
}

pub(crate) fn account_trouble(facts: &Facts, account: &Account) -> Option<Explanation> {
    let name = quoted(&account.name);
    if account.paused {
        let why = account.paused_why.clone().unwrap_or_default();
        let (code, message) = why.split_once(": ").unwrap_or((why.as_str(), ""));
        let found = cause(code, message);
        let resume = format!("$ {}", command(facts, &format!("rupor account resume {name}")));
        let mut help: Vec<String> =
            vec![found.remedy].into_iter().filter(|remedy| !remedy.is_empty()).collect();
        help.push(resume);
        return Some(Explanation {
            headline: format!("account {} ({}) is paused", account.name, account.platform),
            cause: found.sentence,
            since: account.paused_at,
            next:
                "nothing by itself: what waits is kept, new posts keep queueing, until the account is resumed"
                    .to_owned(),
            help,
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
        help.push(format!("$ {}", command(facts, &format!("rupor account resume {name}"))));
    }
    Some(Explanation {
        headline: format!("account {} ({}) rests", account.name, account.platform),
        cause: found.sentence,
        since: event.map(|event| event.at),
        next: format!("it goes on by itself at {} (in {})", moment(until), how_long(until - facts.now)),
        help,
        now: facts.now,
    })
}

fn done(facts: &Facts, headline: String, cause: String, since: Option<Timestamp>) -> Explanation {
    Explanation {
        headline,
        cause,
        since,
        next: "nothing: it is done".to_owned(),
        help: Vec::new(),
        now: facts.now,
    }
}

fn plain(facts: &Facts, headline: String, next: String) -> Explanation {
    Explanation { headline, cause: String::new(), since: None, next, help: Vec::new(), now: facts.now }
}

/// A command as it has to be typed here.
fn command(facts: &Facts, text: &str) -> String {
    match facts.only_workspace {
        true => text.to_owned(),
        false => format!("{text} --workspace {}", quoted(&facts.workspace.name)),
    }
}

/// A name as a shell takes it. One with characters that cannot be seen has to be given by its id instead.
pub(crate) fn quoted(name: &str) -> String {
    let name = &*line(name);
    let plain = |c: char| c.is_alphanumeric() || "-_./@:".contains(c);
    match !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
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
