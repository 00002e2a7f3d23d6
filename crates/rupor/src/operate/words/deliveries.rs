//! Why one delivery is where it is, to a channel or to a person.

use domain::delivery::{AmbiguityPolicy, Status};
use domain::destination::Destination;
use domain::limits::ATTEMPTS_MAX;
use domain::time::{Span, Timestamp};
use store::{Channel, Delivery, RecipientStatus};

use super::channels::{channel_next, channel_trouble, quiet};
use super::{
    Explanation, account_trouble, cause, command, done, everything, how_long, moment, plain, quoted,
};
use crate::operate::facts::{DeliveryFacts, Facts, Person};

/// Why a delivery is where it is.
pub(crate) fn delivery(facts: &Facts, about: &DeliveryFacts) -> Explanation {
    let delivery = &about.delivery;
    match delivery.status {
        Status::Queued | Status::Retry => waiting(facts, about),
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
        Status::FailedPermanent | Status::Dead => failed(facts, about),
    }
}

fn waiting(facts: &Facts, about: &DeliveryFacts) -> Explanation {
    let delivery = &about.delivery;
    let channel = facts.channel_of(delivery);
    let account = facts.accounts.iter().find(|account| account.account_id == delivery.account_id);
    let wider = everything(facts)
        .or_else(|| account.and_then(|account| account_trouble(facts, account)))
        .or_else(|| channel.and_then(|channel| channel_trouble(facts, channel)))
        .or_else(|| channel.and_then(|channel| quiet(facts, channel)))
        .or_else(|| about.person.as_ref().and_then(|person| person_trouble(facts, person)));
    let id = delivery.delivery_id;
    if let Some(wider) = wider {
        return Explanation { headline: format!("delivery {id} waits: {}", wider.headline), ..wider };
    }
    match (&delivery.last_error, delivery.run_at) {
        (Some(_), Some(run_at)) if run_at > facts.now => waits_to_retry(facts, about, run_at),
        (_, Some(run_at)) if run_at > facts.now => {
            let headline = format!("delivery {id} waits for its time");
            let next = format!("it is sent after {} (in {})", moment(run_at), how_long(run_at - facts.now));
            plain(facts, headline, next)
        }
        _ => in_line(facts, delivery, channel),
    }
}

/// It failed for a moment, on its own account, and is tried again.
fn waits_to_retry(facts: &Facts, about: &DeliveryFacts, run_at: Timestamp) -> Explanation {
    let delivery = &about.delivery;
    let (code, message) = error_of(delivery);
    let found = cause(&code, &message);
    let policy = policy(facts, about);
    let goes_on = match (delivery.counters.unknowns, policy) {
        (1.., AmbiguityPolicy::ResendOnce | AmbiguityPolicy::Reconcile) => {
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
fn failed(facts: &Facts, about: &DeliveryFacts) -> Explanation {
    let delivery = &about.delivery;
    let id = delivery.delivery_id;
    let headline = match (delivery.status, delivery.reason.as_deref()) {
        (_, Some("channel_removed")) => format!("delivery {id} was not sent: its channel was removed"),
        (Status::Dead, _) => format!("delivery {id} is dead: it was given up"),
        _ => format!("delivery {id} failed for good"),
    };
    let (cause, remedy) = why_failed(delivery);
    let mut help: Vec<String> = [remedy].into_iter().filter(|remedy| !remedy.is_empty()).collect();
    let is_channels = delivery.last_error.as_ref().is_some_and(|error| error["scope"] == "channel");
    let is_gone = about.person.as_ref().is_some_and(|person| person.status == RecipientStatus::Gone);
    let next = match (delivery.destination, facts.channel_of(delivery)) {
        (_, Some(channel)) if is_channels => {
            let resume = format!("rupor channel resume {} --with-failed", quoted(&channel.name));
            help.push(format!("$ {}", command(facts, &resume)));
            format!("this one stays failed; {}", channel_next(facts, channel))
        }
        (Destination::Channel(_), None) => "nothing: it cannot be queued again".to_owned(),
        (Destination::Recipient(_), _) if is_gone => {
            "nothing: this person is not written to any more unless they come back".to_owned()
        }
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

fn error_of(delivery: &Delivery) -> (String, String) {
    let text = |key: &str| {
        delivery.last_error.as_ref().and_then(|error| error[key].as_str()).unwrap_or_default().to_owned()
    };
    (text("code"), text("message"))
}

/// What keeps one person from being written to.
fn person_trouble(facts: &Facts, person: &Person) -> Option<Explanation> {
    let called = facts.person_called(person);
    if person.status == RecipientStatus::Gone {
        let why = person.status_why.as_deref().unwrap_or_default();
        return Some(Explanation {
            headline: format!("{called} is gone"),
            cause: cause(why, "").sentence,
            since: Some(person.status_at),
            next: "it ends without being sent when its turn comes, unless they come back before".to_owned(),
            help: Vec::new(),
            now: facts.now,
        });
    }
    let until = person.paused_until;
    (until > facts.now).then(|| Explanation {
        headline: format!("{called} is left alone for a while"),
        cause: "the platform asks to write less to this person (flood limit)".to_owned(),
        since: None,
        next: format!("it goes on by itself at {} (in {})", moment(until), how_long(until - facts.now)),
        help: Vec::new(),
        now: facts.now,
    })
}

/// What is done about an outcome that nobody knows: a channel says it, a person's platform.
fn policy(facts: &Facts, about: &DeliveryFacts) -> AmbiguityPolicy {
    let of_channel = facts.channel_of(&about.delivery).map(|channel| channel.settings.ambiguity);
    let of_person = || {
        let platform = platforms::registry::platform(&about.person.as_ref()?.platform)?;
        Some(platform.facts().ambiguity)
    };
    of_channel.or_else(of_person).unwrap_or(AmbiguityPolicy::ResendOnce)
}
