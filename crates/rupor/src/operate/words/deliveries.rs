//! Why one delivery is where it is, to a channel or to a person.

use domain::delivery::{AmbiguityPolicy, Status};
use domain::destination::Destination;
use domain::limits::{ATTEMPTS_MAX, LOST_REQUESTS_MAX};
use domain::time::{Span, Timestamp};
use store::{Channel, Delivery, RecipientStatus};

use super::channels::{channel_next, channel_trouble, quiet};
use super::{Explanation, account_trouble, cause, command, done, everything, in_time, plain, quoted};
use crate::language::{Phrase, say};
use crate::operate::facts::{DeliveryFacts, Facts, Person};

/// Why a delivery is where it is.
pub(crate) fn delivery(facts: &Facts, about: &DeliveryFacts) -> Explanation {
    let delivery = &about.delivery;
    let id = delivery.delivery_id.0;
    match delivery.status {
        Status::Queued | Status::Retry => waiting(facts, about),
        Status::Claimed | Status::Sending => sending(facts, delivery),
        Status::Sent => {
            let headline = match delivery.provider_message_id.as_deref() {
                Some(message) => say!("delivery.sent_as", id = id, message = message),
                None => say!("delivery.sent", id = id),
            };
            done(facts, headline, Phrase::none(), delivery.sent_at)
        }
        Status::Deduped => {
            let cause = match delivery.reason.as_deref() {
                Some("superseded") => say!("delivery.superseded"),
                _ => say!("delivery.repeat.cause"),
            };
            done(facts, say!("delivery.repeat", id = id), cause, Some(delivery.queued_at))
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
    let id = delivery.delivery_id.0;
    if let Some(wider) = wider {
        return Explanation { headline: say!("delivery.waits", id = id, why = &wider.headline), ..wider };
    }
    match (&delivery.last_error, delivery.run_at) {
        (Some(_), Some(run_at)) if run_at > facts.now => waits_to_retry(facts, about, run_at),
        (_, Some(run_at)) if run_at > facts.now => {
            let next = say!("delivery.waits_time.next", at = run_at, span = run_at - facts.now);
            plain(facts, say!("delivery.waits_time", id = id), next)
        }
        _ => in_line(facts, delivery, channel),
    }
}

/// It failed for a moment, on its own account, and is tried again.
fn waits_to_retry(facts: &Facts, about: &DeliveryFacts, run_at: Timestamp) -> Explanation {
    let delivery = &about.delivery;
    let (code, message) = error_of(delivery);
    let found = cause(&code, &message);
    let goes_on = match (delivery.counters.unknowns, policy(facts, about)) {
        (1.., AmbiguityPolicy::ResendOnce | AmbiguityPolicy::Reconcile) => say!("delivery.retry.once"),
        _ => say!("delivery.retry.times", n = ATTEMPTS_MAX - delivery.counters.charged),
    };
    let unknown =
        if delivery.counters.unknowns > 0 { say!("delivery.retry.unknown") } else { Phrase::none() };
    Explanation {
        headline: say!("delivery.retry", id = delivery.delivery_id.0),
        cause: found.sentence.and(unknown),
        since: delivery.sending_at,
        next: say!("delivery.retry.next", when = in_time(facts, run_at), then = goes_on),
        help: vec![found.remedy],
        now: facts.now,
    }
}

fn in_line(facts: &Facts, delivery: &Delivery, channel: Option<&Channel>) -> Explanation {
    let waiting = channel.map_or(0, |channel| facts.waiting(channel));
    let rate = channel.and_then(|channel| channel.settings.rate);
    let next = match rate {
        Some(rate) if waiting > 1 => {
            let takes = Span::from_secs((waiting as f64 / rate).ceil() as i64);
            say!("delivery.in_line.queue", n = waiting, span = takes)
        }
        _ => say!("delivery.in_line.short"),
    };
    let mut explanation = plain(facts, say!("delivery.in_line", id = delivery.delivery_id.0), next);
    explanation.since = Some(delivery.queued_at);
    explanation
}

fn sending(facts: &Facts, delivery: &Delivery) -> Explanation {
    let lease = delivery.lease_until.unwrap_or(facts.now);
    let next = match lease > facts.now {
        true => say!("delivery.sending.next", when = in_time(facts, lease)),
        false => say!("delivery.sending.over"),
    };
    Explanation {
        headline: say!("delivery.sending", id = delivery.delivery_id.0),
        cause: say!("delivery.sending.cause", n = delivery.counters.attempt),
        since: delivery.sending_at,
        next,
        help: vec![say!("delivery.sending.help")],
        now: facts.now,
    }
}

/// It ended without being sent.
fn failed(facts: &Facts, about: &DeliveryFacts) -> Explanation {
    let delivery = &about.delivery;
    let id = delivery.delivery_id.0;
    let headline = match (delivery.status, delivery.reason.as_deref()) {
        (_, Some("channel_removed")) => say!("delivery.channel_removed", id = id),
        (Status::Dead, _) => say!("delivery.dead", id = id),
        _ => say!("delivery.failed", id = id),
    };
    let (cause, remedy) = why_failed(delivery);
    let mut help: Vec<Phrase> = [remedy].into_iter().filter(|remedy| !remedy.is_empty()).collect();
    let is_channels = delivery.last_error.as_ref().is_some_and(|error| error["scope"] == "channel");
    let is_gone = about.person.as_ref().is_some_and(|person| person.status == RecipientStatus::Gone);
    let next = match (delivery.destination, facts.channel_of(delivery)) {
        (_, Some(channel)) if is_channels => {
            let resume = format!("rupor channel resume {} --with-failed", quoted(&channel.name));
            help.push(format!("$ {}", command(facts, &resume)).into());
            say!("delivery.failed.channel", next = channel_next(facts, channel))
        }
        (Destination::Channel(_), None) => say!("delivery.failed.gone"),
        (Destination::Recipient(_), _) if is_gone => say!("delivery.failed.person"),
        _ => {
            help.push(format!("$ {}", command(facts, &format!("rupor delivery requeue {id}"))).into());
            say!("delivery.failed.next")
        }
    };
    Explanation { headline, cause, since: delivery.ended_at, next, help, now: facts.now }
}

/// Why it ended, and what helps before any command.
fn why_failed(delivery: &Delivery) -> (Phrase, Phrase) {
    let (code, message) = error_of(delivery);
    let found = cause(&code, &message);
    let counters = &delivery.counters;
    match delivery.reason.as_deref() {
        Some("cancelled") => (say!("ended.cancelled"), Phrase::none()),
        Some("expired") => (say!("ended.expired"), Phrase::none()),
        Some("channel_removed") => (say!("ended.channel_removed"), say!("ended.channel_removed.help")),
        Some("poison") if counters.lost_requests >= LOST_REQUESTS_MAX => {
            (say!("ended.poison.sending", n = counters.lost_requests), say!("ended.poison.sending.help"))
        }
        Some("poison") => (say!("ended.poison", n = counters.lost_claims), say!("ended.poison.help")),
        Some("outcome_unknown") => {
            (say!("ended.unknown", cause = found.sentence), say!("ended.unknown.help"))
        }
        Some("attempts_exhausted") => {
            (say!("ended.attempts", cause = found.sentence, n = counters.charged), found.remedy)
        }
        Some("flood_cap") => {
            (say!("ended.floods", cause = found.sentence, n = counters.flood_waits), found.remedy)
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
            headline: say!("person.gone", who = called),
            cause: cause(why, "").sentence,
            since: Some(person.status_at),
            next: say!("person.gone.next"),
            help: Vec::new(),
            now: facts.now,
        });
    }
    let until = person.paused_until;
    (until > facts.now).then(|| Explanation {
        headline: say!("person.left_alone", who = called),
        cause: say!("person.left_alone.cause"),
        since: None,
        next: say!("next.goes_on", when = in_time(facts, until)),
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
