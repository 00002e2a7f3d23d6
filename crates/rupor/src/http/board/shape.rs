//! From rows to what the page shows. Pure; people's numbers are masked here, so that they never reach a browser.

use domain::content::Facts as PostFacts;
use domain::delivery::Status;
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::{Case, Channel, Delivery, HeldPost, Source, StoredMessage};

use super::Seen;
use crate::config::show_rate;
use crate::operate::status::{people_words, status};
use crate::operate::trouble::Trouble;
use crate::operate::words::{cause, quoted};

/// Characters of a post on the page.
const TEXT_MAX: usize = 400;

pub(super) fn state(seen: &Seen) -> Value {
    let status = status(&seen.facts);
    let mut trouble: Vec<Value> = status.trouble.iter().map(explained).collect();
    trouble.extend(seen.sources.iter().filter_map(|source| source_trouble(seen, source)));
    let channels: Vec<Value> = status
        .channels
        .iter()
        .map(|line| {
            json!({
                "name": line.channel,
                "platform": line.platform,
                "target": line.target,
                "state": line.state,
                "waiting": line.waiting,
                "sending": line.sending,
                "sent": line.sent,
                "deduped": line.deduped,
                "failed": line.failed,
                "lag_ms": line.lag_ms,
                "eta_ms": line.eta_ms,
                "rate": line.rate.map(|_| show_rate(line.rate)),
            })
        })
        .collect();
    json!({
        "at": millis(seen.facts.now),
        "workspace": seen.facts.workspace.name,
        "workspaces": seen.workspaces,
        "trouble": trouble,
        "channels": channels,
        "people": people_words(&status.people),
        "sources": seen.sources.iter().map(|source| a_source(seen, source)).collect::<Vec<_>>(),
        "posts": seen.messages.iter().map(|message| a_post(seen, message)).collect::<Vec<_>>(),
    })
}

/// A database without a workspace.
pub(super) fn nothing() -> Value {
    json!({"at": 0, "workspace": null, "workspaces": [], "trouble": [], "channels": [], "people": null, "sources": [], "posts": []})
}

/// Whether two states differ only in what the clock changes by itself: the time, and how long things still take.
pub(super) fn is_same(last: Option<&str>, state: &str) -> bool {
    let without_time = |text: &str| -> Option<Value> {
        let mut value: Value = serde_json::from_str(text).ok()?;
        value.as_object_mut()?.remove("at");
        for (list, field) in [("trouble", "next"), ("channels", "lag_ms"), ("sources", "next_min")] {
            for item in value[list].as_array_mut().into_iter().flatten() {
                item.as_object_mut()?.remove(field);
            }
        }
        Some(value)
    };
    last.is_some_and(|last| without_time(last) == without_time(state))
}

fn explained(trouble: &Trouble) -> Value {
    json!({
        "headline": trouble.headline,
        "cause": trouble.cause,
        "since": trouble.since.map(millis),
        "next": trouble.next,
        "help": trouble.help,
    })
}

fn source_trouble(seen: &Seen, source: &Source) -> Option<Value> {
    let told = source.last_error.as_ref().filter(|_| source.enabled)?;
    // A refusal ends in its code in brackets, then in what helps.
    let (why, help) = match told.split_once("); ") {
        Some((why, help)) => (format!("{why})"), vec![help]),
        None => (told.clone(), Vec::new()),
    };
    let next = if source.next_poll_at <= seen.facts.now {
        "it is tried again now; the other sources go on".to_owned()
    } else {
        let wait = crate::operate::words::how_long(source.next_poll_at - seen.facts.now);
        format!("it is tried again by itself in {wait}; the other sources go on")
    };
    Some(json!({
        "headline": format!("source {} cannot be read", source.name),
        "cause": why,
        "since": source.failing_since.map(millis),
        "next": next,
        "help": help,
    }))
}

fn a_source(seen: &Seen, source: &Source) -> Value {
    let health = match source {
        source if !source.enabled => "off",
        source if source.last_error.is_some() => "failing",
        source if source.next_poll_at.0 <= 0 => "new",
        _ => "well",
    };
    let wait_ms = (source.next_poll_at - seen.facts.now).millis().max(0);
    json!({
        "name": source.name,
        "kind": source.kind,
        "address": domain::shown::addresses(&source.address),
        "health": health,
        // To the minute: a second less is no news.
        "next_min": if source.enabled { Some((wait_ms + 59_999) / 60_000) } else { None },
    })
}

fn a_post(seen: &Seen, message: &StoredMessage) -> Value {
    let facts: Option<PostFacts> = serde_json::from_value(message.facts.clone()).ok();
    let case = message.case_id.and_then(|id| seen.cases.iter().find(|case| case.case_id == id));
    let own = seen.deliveries.iter().filter(|delivery| delivery.message_id == message.message_id);
    let held = seen.facts.held_posts.iter().filter(|post| post.message_id == message.message_id);
    let text = message.payload["text"].as_str().unwrap_or_default();
    let url = message.origin["url"].as_str().filter(|url| domain::message::is_web_address(url));
    json!({
        "id": message.message_id,
        "at": millis(message.created_at),
        "source": source_name(seen, message),
        "url": url,
        "text": masked(&cut(text, TEXT_MAX)),
        "photos": message.payload["media"].as_array().map_or(0, Vec::len),
        "kind": message.kind,
        "facts": facts.as_ref().map(recognised),
        "case": case.map(a_case),
        "why": message.case_id.and(message.facts["case"]["reasons"].as_str()),
        "closes": case.is_some_and(|case| case.closed_by == Some(message.message_id)),
        "edited": message.revision > 1,
        "gone": message.gone_at.is_some(),
        "skipped": message.skipped,
        "held": held.map(|post| a_hold(seen, post)).collect::<Vec<_>>(),
        "went": own.map(|delivery| a_delivery(seen, delivery)).collect::<Vec<_>>(),
    })
}

/// Where it waits for a person.
fn a_hold(seen: &Seen, post: &HeldPost) -> Value {
    let channel = seen.facts.channel(post.channel_id);
    json!({
        "channel": channel.map_or("removed channel", |channel| channel.name.as_str()),
        "why": post.why,
        "until": post.expires_at.map(millis),
        "help": format!("rupor message approve {}", post.message_id),
    })
}

/// The name an operator gave, where the source is configured; else what the post says.
fn source_name(seen: &Seen, message: &StoredMessage) -> String {
    let address = message.source.split_once(':').map_or("", |(_, address)| address);
    let known = seen.sources.iter().find(|source| source.address == address);
    known.map_or_else(|| message.source.clone(), |source| source.name.clone())
}

fn recognised(facts: &PostFacts) -> Value {
    let words = |value: &Value| value.as_str().filter(|word| *word != "unknown").map(str::to_owned);
    json!({
        "animal": words(&json!(facts.animal.value)),
        "sex": words(&json!(facts.sex.value)),
        "names": facts.pet_names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>(),
        "city": facts.city.as_ref().map(|city| city.value.as_str()).or(facts.home_city.as_deref()),
        "place": facts.place.as_ref().map(|place| place.value.as_str()),
        "when": facts.when.as_ref().map(|when| when.value.to_string()),
        "phones": facts.phone_numbers().map(last_two).collect::<Vec<_>>(),
    })
}

fn a_case(case: &Case) -> Value {
    json!({
        "id": case.case_id,
        "title": case.title,
        "posts": case.n_messages,
        "copies": case.facts["copies"].as_i64().unwrap_or(0),
        "closed": case.closed_at.is_some(),
    })
}

fn a_delivery(seen: &Seen, delivery: &Delivery) -> Value {
    let channel = seen.facts.channel_of(delivery);
    let code = delivery.last_error.as_ref().and_then(|error| error["code"].as_str());
    let why = match (delivery.status, code) {
        (Status::Deduped, _) => Some("said here already".to_owned()),
        (Status::Retry | Status::FailedPermanent | Status::Dead, Some(code)) => {
            Some(cause(code, "").sentence.to_string())
        }
        (Status::FailedPermanent | Status::Dead, None) => delivery.reason.clone(),
        _ => None,
    };
    let help = matches!(delivery.status, Status::FailedPermanent | Status::Dead)
        .then(|| format!("rupor delivery show {}", quoted(&delivery.delivery_id.to_string())));
    json!({
        "id": delivery.delivery_id,
        "channel": channel.map_or("removed channel", |channel| channel.name.as_str()),
        "platform": channel.map(|channel| channel.platform.as_str()),
        "action": delivery.action,
        "status": delivery.status,
        "why": why,
        "help": help,
        "link": channel.and_then(|channel| link(channel, delivery)),
        "at": delivery.sent_at.or(delivery.ended_at).map(millis),
    })
}

/// Where readers see it.
fn link(channel: &Channel, delivery: &Delivery) -> Option<String> {
    let id = delivery.provider_message_id.as_deref().filter(|_| delivery.status == Status::Sent)?;
    engine::addresses::link(channel, id)
}

/// `+79010000011` as `…11`: enough to tell two numbers apart on a shared screen.
fn last_two(phone: &str) -> String {
    let tail: String = phone.chars().skip(phone.chars().count().saturating_sub(2)).collect();
    format!("…{tail}")
}

/// Digits of anything that may be a phone number, all but the last two, become dots.
pub(super) fn masked(text: &str) -> String {
    const DIGITS_MIN: usize = 7;
    // Dates have full stops and eight digits.
    const DIGITS_MIN_DOTTED: usize = 10;
    let is_part = |c: char| c.is_ascii_digit() || " -–—()+.\u{a0}".contains(c);
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let starts = characters[at].is_ascii_digit() || characters[at] == '+';
        let run = characters[at..].iter().take_while(|c| starts && is_part(**c)).count();
        let digits = characters[at..at + run].iter().filter(|c| c.is_ascii_digit()).count();
        let dotted = characters[at..at + run].contains(&'.');
        if digits < if dotted { DIGITS_MIN_DOTTED } else { DIGITS_MIN } {
            let step = run.max(1);
            out.extend(&characters[at..at + step]);
            at += step;
            continue;
        }
        let mut left = digits;
        for character in &characters[at..at + run] {
            if !character.is_ascii_digit() {
                out.push(*character);
                continue;
            }
            out.push(if left > 2 { '•' } else { *character });
            left -= 1;
        }
        at += run;
    }
    out
}

fn cut(text: &str, characters: usize) -> String {
    let mut head: String = text.chars().take(characters).collect();
    if text.chars().nth(characters).is_some() {
        head.push('…');
    }
    head
}

fn millis(at: Timestamp) -> i64 {
    at.0 / 1_000
}
