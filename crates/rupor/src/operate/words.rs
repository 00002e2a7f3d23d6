//! Facts in, sentences out: why something does not move, since when, what happens by itself, and what helps.
//!
//! Pure, and written for someone who has never seen the code. The command line, the board and `rupor why` all speak
//! with these words. The causes themselves stand in `causes`.

mod causes;
mod waits;

use domain::delivery::{AmbiguityPolicy, Status};
use domain::ids::DeliveryId;
use domain::limits::{ATTEMPTS_MAX, CHANNEL_STREAK_MAX};
use domain::shown::line;
use domain::time::{Span, Timestamp};
use serde::Serialize;
use store::{Account, Channel, Delivery, DisabledBy, Event};

use super::facts::{DeliveryFacts, Facts};
pub use causes::cause;
use waits::{is_long, put_off};

/// One thing explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
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

/// Why a delivery is where it is.
pub fn delivery(facts: &Facts, about: &DeliveryFacts) -> Explanation {
    let delivery = &about.delivery;
    match delivery.status {
        Status::Queued | Status::Retry => waiting(facts, delivery),
        Status::Claimed | Status::Sending => sending(facts, delivery),
        Status::Sent => {
            let id = delivery
                .provider_message_id
                .as_deref()
                .map_or(String::new(), |id| format!(" as message {id}"));
            let headline = format!("delivery {} was sent{id}", delivery.delivery_id);
            done(facts, headline, String::new(), delivery.sent_at)
        }
        Status::Deduped => {
            let headline =
                format!("delivery {} was not sent: it would have been a repeat", delivery.delivery_id);
            let cause = match delivery.reason.as_deref() {
                Some("superseded") => "a newer version of the post took its place before it was sent",
                _ => "the same thing was said in this channel within its window, or is on its way there",
            };
            done(facts, headline, cause.to_owned(), Some(delivery.queued_at))
        }
        Status::FailedPermanent | Status::Dead => failed(facts, delivery),
    }
}

/// Everything that keeps the channels of a workspace from moving, the widest first.
pub fn troubles(facts: &Facts) -> Vec<Explanation> {
    let mut troubles: Vec<Explanation> = database(facts).into_iter().chain(everything(facts)).collect();
    let has_work = |account: &Account| {
        facts
            .channels
            .iter()
            .any(|channel| channel.account_id == account.account_id && facts.waiting(channel) > 0)
    };
    for account in &facts.accounts {
        let rests = account.cooldown_until > facts.now;
        if account.paused || rests && (has_work(account) || is_long(facts, account.cooldown_until)) {
            troubles.extend(account_trouble(facts, account));
        }
    }
    for channel in &facts.channels {
        troubles.extend(channel_trouble(facts, channel).or_else(|| put_off(facts, channel)));
        troubles.extend(channel_failures(facts, channel));
    }
    troubles.extend(facts.sources.iter().filter_map(|source| source_trouble(facts, source)));
    troubles
}

/// The database as a whole; nothing moves without it.
fn database(facts: &Facts) -> Option<Explanation> {
    let ailment = facts.database.as_ref()?;
    let since = ailment.seconds.map(|seconds| facts.now - Span::from_secs(seconds as i64));
    let (headline, next) = match ailment.only_soon {
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

fn source_trouble(facts: &Facts, source: &store::Source) -> Option<Explanation> {
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

fn waiting(facts: &Facts, delivery: &Delivery) -> Explanation {
    let channel = delivery.channel_id.and_then(|id| facts.channel(id));
    let account = facts.accounts.iter().find(|account| account.account_id == delivery.account_id);
    let wider = everything(facts)
        .or_else(|| account.and_then(|account| account_trouble(facts, account)))
        .or_else(|| channel.and_then(|channel| channel_trouble(facts, channel)))
        .or_else(|| channel.and_then(|channel| quiet(facts, channel)));
    let id = delivery.delivery_id;
    if let Some(wider) = wider {
        return Explanation { headline: format!("delivery {id} waits: {}", wider.headline), ..wider };
    }
    match (&delivery.last_error, delivery.run_at) {
        (Some(_), Some(run_at)) if run_at > facts.now => waits_to_retry(facts, delivery, run_at),
        (_, Some(run_at)) if run_at > facts.now => {
            let headline = format!("delivery {id} waits for its time");
            let next = format!("it is sent after {} (in {})", moment(run_at), how_long(run_at - facts.now));
            plain(facts, headline, next)
        }
        _ => in_line(facts, delivery, channel),
    }
}

/// It failed for a moment, on its own account, and is tried again.
fn waits_to_retry(facts: &Facts, delivery: &Delivery, run_at: Timestamp) -> Explanation {
    let (code, message) = error_of(delivery);
    let found = cause(&code, &message);
    let policy =
        delivery.channel_id.and_then(|id| facts.channel(id)).map(|channel| channel.settings.ambiguity);
    let goes_on = match (delivery.counters.unknowns, policy) {
        (1.., Some(AmbiguityPolicy::ResendOnce | AmbiguityPolicy::Reconcile) | None) => {
            "; if nobody knows about that one either, it is given up".to_owned()
        }
        _ => {
            format!(", at most {} more times; then it is given up", ATTEMPTS_MAX - delivery.counters.charged)
        }
    };
    let unknown = if delivery.counters.unknowns > 0 {
        "; nobody knows whether it was shown, so it may appear twice"
    } else {
        ""
    };
    Explanation {
        headline: format!("delivery {} waits to be tried again", delivery.delivery_id),
        cause: format!("{}{unknown}", found.sentence),
        since: delivery.sending_at,
        next: format!(
            "it is tried again at {} (in {}){goes_on} and can be queued again by hand",
            moment(run_at),
            how_long(run_at - facts.now)
        ),
        help: vec![found.remedy],
        now: facts.now,
    }
}

fn in_line(facts: &Facts, delivery: &Delivery, channel: Option<&Channel>) -> Explanation {
    let id = delivery.delivery_id;
    let waiting = channel.map_or(0, |channel| facts.waiting(channel));
    let rate = channel.and_then(|channel| channel.settings.rate);
    let next = match rate {
        Some(rate) if waiting > 1 => {
            let seconds = Span::from_secs((waiting as f64 / rate).ceil() as i64);
            format!("it is sent in its turn; the whole queue of {waiting} takes about {}", how_long(seconds))
        }
        _ => "it is sent in its turn, within seconds if the queue is short".to_owned(),
    };
    let mut explanation = plain(facts, format!("delivery {id} waits in line"), next);
    explanation.since = Some(delivery.queued_at);
    explanation
}

fn sending(facts: &Facts, delivery: &Delivery) -> Explanation {
    let lease = delivery.lease_until.unwrap_or(facts.now);
    let next = if lease > facts.now {
        format!(
            "the answer comes, or the claim ends at {} (in {}) and it is taken up again",
            moment(lease),
            how_long(lease - facts.now)
        )
    } else {
        "its claim has ended without an answer; while `rupor run` runs it is taken up again within seconds"
            .to_owned()
    };
    Explanation {
        headline: format!(
            "delivery {} is being sent: the request is out, the answer is not here",
            delivery.delivery_id
        ),
        cause: format!("attempt {} is under way", delivery.counters.attempt),
        since: delivery.sending_at,
        next,
        help: vec!["nothing to do; `$ rupor status` shows whether the node runs".to_owned()],
        now: facts.now,
    }
}

/// It ended without being sent.
fn failed(facts: &Facts, delivery: &Delivery) -> Explanation {
    let id = delivery.delivery_id;
    let headline = match (delivery.status, delivery.reason.as_deref()) {
        (_, Some("channel_removed")) => format!("delivery {id} was not sent: its channel was removed"),
        (Status::Dead, _) => format!("delivery {id} is dead: it was given up"),
        _ => format!("delivery {id} failed for good"),
    };
    let (cause, remedy) = why_failed(delivery);
    let mut help: Vec<String> = [remedy].into_iter().filter(|remedy| !remedy.is_empty()).collect();
    let is_channels = delivery.last_error.as_ref().is_some_and(|error| error["scope"] == "channel");
    let channel = delivery.channel_id.and_then(|id| facts.channel(id));
    let next = match channel {
        Some(channel) if is_channels => {
            let resume = format!("rupor channel resume {} --with-failed", quoted(&channel.name));
            help.push(format!("$ {}", command(facts, &resume)));
            format!("this one stays failed; {}", channel_next(facts, channel))
        }
        None if delivery.channel_id.is_some() => "nothing: it cannot be queued again".to_owned(),
        _ => {
            help.push(format!("$ {}", command(facts, &format!("rupor delivery requeue {id}"))));
            "nothing: it stays as it is until somebody queues it again".to_owned()
        }
    };
    Explanation { headline, cause, since: delivery.ended_at, next, help, now: facts.now }
}

/// Why it ended, and what helps before any command.
fn why_failed(delivery: &Delivery) -> (String, String) {
    let (code, message) = error_of(delivery);
    let found = cause(&code, &message);
    let own = |why: &str, remedy: &str| (why.to_owned(), remedy.to_owned());
    match delivery.reason.as_deref() {
        Some("cancelled") => own("somebody cancelled it, or its case was closed", ""),
        Some("expired") => own("it waited longer than the channel's max_age allows", ""),
        Some("channel_removed") => own(
            "the channel was taken out of the configuration while this waited",
            "post the message to another channel",
        ),
        Some("poison") => (
            format!(
                "the process died or lost its claim {} times before it could send this; the post may be what kills it",
                delivery.counters.lost_claims
            ),
            "look into the log of the node around these times".to_owned(),
        ),
        Some("outcome_unknown") => (
            format!("{}; nobody knows whether readers see it", found.sentence),
            "look into the channel: if it is not there, queue it again".to_owned(),
        ),
        Some("attempts_exhausted") => {
            let attempts = delivery.counters.charged;
            (format!("{}; {attempts} attempts were made", found.sentence), found.remedy)
        }
        Some("flood_cap") => {
            let waits = delivery.counters.flood_waits;
            (format!("{}; it was put off {waits} times", found.sentence), found.remedy)
        }
        _ => (found.sentence, found.remedy),
    }
}

/// Who stopped a workspace and why, as far as the event says.
fn stopped_by(held: Option<&Event>) -> String {
    let said = |key: &str| held.and_then(|event| event.detail[key].as_str());
    let who = said("by").unwrap_or("somebody");
    let why = said("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{who} stopped all sending of this workspace{why}")
}

/// What stops everything: no node, a kill switch.
fn everything(facts: &Facts) -> Option<Explanation> {
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

fn account_trouble(facts: &Facts, account: &Account) -> Option<Explanation> {
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

fn channel_trouble(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let code = channel.paused_why.clone().unwrap_or_default();
    let found = cause(&code, "");
    let resume = command(facts, &format!("rupor channel resume {}", quoted(&channel.name)));
    let since = facts.channel_trouble_since(channel);
    let explained = |headline: String, cause: String, help: Vec<String>| Explanation {
        headline,
        cause,
        since,
        next: channel_next(facts, channel),
        help: help.into_iter().filter(|help| !help.is_empty()).collect(),
        now: facts.now,
    };
    let name = &channel.name;
    match (channel.enabled, channel.disabled_by) {
        (false, Some(DisabledBy::Auto)) => {
            let cause = format!("{} ({} failures in a row)", found.sentence, channel.error_streak);
            let help = vec![found.remedy, format!("$ {resume} --with-failed")];
            Some(explained(format!("channel {name} is shut after repeated failures"), cause, help))
        }
        (false, _) => {
            let help = vec![format!("$ {}", resume.replace("channel resume", "channel enable"))];
            Some(explained(format!("channel {name} is disabled"), "an operator disabled it".to_owned(), help))
        }
        (true, _) if channel.paused_until > facts.now && channel.error_streak > 0 => {
            let help = vec![found.remedy, format!("$ {resume} --with-failed")];
            let cause =
                format!("{} (failure {} of {CHANNEL_STREAK_MAX})", found.sentence, channel.error_streak);
            Some(explained(format!("channel {name} is paused"), cause, help))
        }
        (true, _) if channel.paused_until == Timestamp::NEVER => {
            let cause = if code.is_empty() {
                "an operator paused it".to_owned()
            } else {
                format!("an operator paused it: {code}")
            };
            Some(explained(format!("channel {name} is paused"), cause, vec![format!("$ {resume}")]))
        }
        (true, _) if channel.paused_until > facts.now => {
            // Words that are no code of ours are an operator's: they may end early what they began.
            let by_hand = found.remedy.is_empty() || is_long(facts, channel.paused_until);
            let resume = if by_hand { format!("$ {resume}") } else { String::new() };
            Some(explained(format!("channel {name} is paused"), found.sentence, vec![found.remedy, resume]))
        }
        _ => None,
    }
}

/// What a channel does next by itself.
fn channel_next(facts: &Facts, channel: &Channel) -> String {
    let waiting = facts.waiting(channel);
    let kept = match waiting {
        0 => String::new(),
        1 => "; 1 delivery waits and is kept".to_owned(),
        n => format!("; {n} deliveries wait and are kept"),
    };
    match (channel.enabled, channel.disabled_by) {
        (false, Some(DisabledBy::Auto)) => {
            format!("nothing is sent until somebody resumes the channel; new posts keep queueing{kept}")
        }
        (false, _) => {
            format!("nothing is sent and no new posts are taken until somebody enables the channel{kept}")
        }
        _ if channel.paused_until == Timestamp::NEVER => {
            format!("nothing is sent until somebody resumes the channel; new posts keep queueing{kept}")
        }
        _ if channel.paused_until > facts.now => {
            let until = channel.paused_until;
            let then = if channel.error_streak > 0 {
                format!(" and is shut after {CHANNEL_STREAK_MAX} failures in a row")
            } else {
                String::new()
            };
            format!(
                "the channel tries again by itself at {} (in {}){then}{kept}",
                moment(until),
                how_long(until - facts.now)
            )
        }
        _ => format!("the channel goes on{kept}"),
    }
}

fn quiet(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let until = crate::config::quiet::closed_until(&channel.settings, facts.now)?;
    let hours = channel.settings.quiet_hours.as_deref().unwrap_or_default();
    let zone = channel.settings.time_zone.as_deref().unwrap_or("UTC");
    let mut quiet = plain(
        facts,
        format!("channel {} has its quiet hours", channel.name),
        format!("it goes on by itself at {} (in {})", moment(until), how_long(until - facts.now)),
    );
    quiet.cause = format!("quiet_hours {hours} ({zone})");
    Some(quiet)
}

/// Deliveries that ended without being sent, if the newest events still speak of them.
fn channel_failures(facts: &Facts, channel: &Channel) -> Option<Explanation> {
    let gave_up = |name: &str| matches!(name, "dead_letter" | "failed_permanent");
    let of_channel = facts.events.iter().filter(|event| event.channel_id == Some(channel.channel_id));
    // What somebody queued again is told by its new delivery.
    let requeued = |id: DeliveryId| {
        facts.events.iter().any(|event| event.name == "requeued" && event.detail["parent"] == id.0)
    };
    let still = |event: &&Event| !event.delivery_id.is_some_and(requeued);
    let failed: Vec<_> = of_channel.filter(|event| gave_up(&event.name)).filter(still).collect();
    let (newest, oldest) = (failed.first()?, failed.last()?);
    let code = newest.detail["code"].as_str().unwrap_or_default();
    if channel.error_streak > 0 && channel.paused_why.as_deref() == Some(code) {
        // The trouble of the channel says it already, and resuming it offers these again.
        return None;
    }
    let words = if code.is_empty() {
        newest.detail["reason"].as_str().unwrap_or_default().to_owned()
    } else {
        cause(code, "").sentence
    };
    let status = if newest.name == "dead_letter" { "dead" } else { "failed_permanent" };
    let name = quoted(&channel.name);
    Some(Explanation {
        headline: format!(
            "channel {}: {} not sent lately",
            channel.name,
            counted(failed.len(), "delivery was", "deliveries were")
        ),
        cause: format!("the last one: {words}"),
        since: Some(oldest.at),
        next: "nothing: they stay as they are until somebody queues them again".to_owned(),
        help: vec![
            format!(
                "$ {}",
                command(facts, &format!("rupor delivery list --status {status} --channel {name}"))
            ),
            format!(
                "$ {}",
                command(facts, &format!("rupor delivery requeue --status {status} --channel {name}"))
            ),
        ],
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

fn error_of(delivery: &Delivery) -> (String, String) {
    let text = |key: &str| {
        delivery.last_error.as_ref().and_then(|error| error[key].as_str()).unwrap_or_default().to_owned()
    };
    (text("code"), text("message"))
}

/// A command as it has to be typed here.
fn command(facts: &Facts, text: &str) -> String {
    match facts.only_workspace {
        true => text.to_owned(),
        false => format!("{text} --workspace {}", quoted(&facts.workspace.name)),
    }
}

/// A name as a shell takes it. One with characters that cannot be seen has to be given by its id instead.
pub fn quoted(name: &str) -> String {
    let name = &*line(name);
    let plain = |c: char| c.is_alphanumeric() || "-_./@:".contains(c);
    match !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

pub fn counted(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// A moment in UTC, to the second.
pub fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        _ if at == Timestamp::NEVER => "never".to_owned(),
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "never".to_owned(),
    }
}

/// A span as people say it: the two largest units.
pub fn how_long(span: Span) -> String {
    let seconds = (span.0.max(0) + 999_999) / 1_000_000;
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let two = |large: i64, unit: &str, small: i64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match seconds {
        86_400.. => two(days, "d", hours, "h"),
        3_600.. => two(hours, "h", minutes, "min"),
        60.. => two(minutes, "min", rest, "s"),
        _ => format!("{rest} s"),
    }
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
