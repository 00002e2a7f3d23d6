//! A story in words: seen, recognised, which case, which rule, what became of it in each channel, what comes next.
//! Pure; the sentences about deliveries are those of `operate::words`.

use std::fmt::Write as _;

use domain::content::evidence::{Explained, Said};
use domain::content::{FACTS_VERSION, Home, Post, explained};
use domain::delivery::{Action, Status};
use domain::ids::DeliveryId;
use domain::shown;
use domain::time::Timestamp;
use serde_json::Value;
use store::{Case, Channel, DedupMode, HeldPost, RecipientStatus, Source, StoredMessage};

use super::{Heard, Story, Told};
use crate::language::{Language, Phrase, heard, say};
use crate::operate::words::words_of;

/// Words quoted as evidence of one fact.
const QUOTES_MAX: usize = 3;

/// The whole story.
pub(crate) fn story(story: &Story, language: Language) -> String {
    let message = &story.message;
    let (called, id) = (name(message), message.message_id.0);
    let title = say!("why.is", name = called, id = id, kind = heard(&message.kind));
    let mut text = shown::line(&title.in_language(language)).into_owned() + "\n";
    let mut section = |heading: Phrase, lines: Vec<Phrase>| {
        let _ = writeln!(text, "\n{}", shown::line(&heading.in_language(language)));
        for line in lines {
            let _ = writeln!(text, "  {}", shown::line(&line.in_language(language)));
        }
    };
    section(say!("why.seen"), seen(story));
    section(say!("why.recognised"), recognised(message));
    section(say!("why.case"), case(story));
    for heard in &story.channels {
        let Channel { name, platform, target, .. } = &heard.channel;
        let heading = say!("why.channel", name = name, platform = platform, target = target);
        section(heading, channel(story, heard));
    }
    if !story.elsewhere.is_empty() {
        let lines = story.elsewhere.iter().flat_map(|told| delivery(None, told)).collect();
        section(say!("why.removed"), lines);
    }
    for person in &story.people {
        let mut lines = delivery(None, &person.told);
        if person.told.about.delivery.status == Status::FailedPermanent
            && let Some(gone) = gone(&person.told)
        {
            lines.push(under(gone));
        }
        section(Phrase::from(&person.called), lines);
    }
    if story.more_people {
        section(say!("why.more_people"), vec![say!("why.more_people.how", id = id)]);
    }
    section(say!("why.next"), next(story));
    text
}

/// A line that belongs to the one above it.
fn under(line: Phrase) -> Phrase {
    Phrase::from("  ").and(line)
}

/// Since when this person cannot be reached.
fn gone(told: &Told) -> Option<Phrase> {
    let person = told.about.person.as_ref().filter(|person| person.status == RecipientStatus::Gone)?;
    Some(say!("why.gone_since", at = person.status_at))
}

/// What people call the post.
pub(crate) fn name(message: &StoredMessage) -> String {
    let url = message.origin["url"].as_str().or_else(|| message.payload["origin"]["url"].as_str());
    let words = message.payload["text"].as_str().map(words_of).filter(|words| !words.is_empty());
    match (url, words) {
        (Some(url), _) => url.to_owned(),
        // What somebody posted by hand has an id that nobody knows.
        (None, Some(words)) if message.source.starts_with("cli:") => format!("«{words}»"),
        (None, _) => format!("{}/{}", message.source, message.origin_id),
    }
}

fn seen(story: &Story) -> Vec<Phrase> {
    let message = &story.message;
    let (at, on) = (message.created_at, &message.source);
    let mut lines = vec![match &story.source {
        None => say!("why.first", at = at, source = on),
        Some(source) => say!("why.first_from", at = at, source = on, name = titled(source)),
    }];
    if let Some(date) = message.origin["date"].as_i64() {
        lines.push(say!("why.posted", at = Timestamp(date.saturating_mul(1_000_000))));
    }
    if message.seen_count > 1 {
        lines.push(say!("why.read_times", n = i64::from(message.seen_count), at = message.last_seen_at));
    }
    if message.revision > 1 {
        lines.push(say!("why.revision", n = i64::from(message.revision)));
    }
    if let Some(gone) = message.gone_at {
        lines.push(say!("why.gone_from", at = gone));
    }
    for note in message.facts["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        lines.push(say!("why.note", note = heard(note)));
    }
    lines
}

/// `city/-101 «Потеряшки»`: how it is configured, and what it calls itself.
fn titled(source: &Source) -> String {
    match engine::sources::title(source) {
        Some(title) => format!("{} «{title}»", source.name),
        None => source.name.clone(),
    }
}

/// The facts that people ask about, in the order they are read.
fn facts_asked() -> [(&'static str, Phrase); 9] {
    [
        ("kind", say!("why.fact.kind")),
        ("animal", say!("why.fact.animal")),
        ("sex", say!("why.fact.sex")),
        ("breed", say!("why.fact.breed")),
        ("pet_names", say!("why.fact.name")),
        ("phones", say!("why.fact.phone")),
        ("city", say!("why.fact.city")),
        ("place", say!("why.fact.place")),
        ("when", say!("why.fact.day")),
    ]
}

fn recognised(message: &StoredMessage) -> Vec<Phrase> {
    let facts = &message.facts;
    let sums = sums(message);
    let mut lines = Vec::new();
    for (key, label) in facts_asked() {
        match &facts[key] {
            Value::Array(several) => {
                lines.extend(several.iter().filter_map(|fact| recognised_one(&label, fact)));
            }
            fact => lines.extend(recognised_one(&label, fact)),
        }
        // What was given with the post, or told by a text that it reposts, has another sum or none.
        let value = facts[key]["value"].as_str().filter(|value| *value != "unknown");
        let sum = sums.iter().find(|sum| sum.question.name() == key && Some(sum.answer) == value);
        lines.extend(sum.map(points).unwrap_or_default().into_iter().map(under));
    }
    if facts["unsure"] == Value::Bool(true) {
        lines.push(say!("why.unsure"));
    }
    match lines.is_empty() {
        true => vec![say!("why.nothing")],
        false if is_read(facts) && !is_of_these_rules(facts) => {
            lines.push(say!("why.points.version"));
            lines
        }
        false => lines,
    }
}

/// Whether it was read as a post; what people are sent is not.
fn is_read(facts: &Value) -> bool {
    facts["kind"]["value"].is_string()
}

fn is_of_these_rules(facts: &Value) -> bool {
    facts["version"] == FACTS_VERSION
}

/// The sums behind kind, animal and sex, worked out again: the rows keep the words of the answers only.
fn sums(message: &StoredMessage) -> Vec<Explained> {
    let facts = &message.facts;
    if !is_read(facts) || !is_of_these_rules(facts) {
        return Vec::new();
    }
    let city = facts["home_city"].as_str().map(str::to_owned);
    explained(&Post {
        text: message.payload["text"].as_str().unwrap_or_default().to_owned(),
        date: message.origin["date"].as_i64().unwrap_or_default(),
        home: Home { city, ..Home::default() },
        ..Post::default()
    })
}

/// What spoke for an answer and against it.
fn points(sum: &Explained) -> Vec<Phrase> {
    let (margin, second) = (format!("{:.1}", sum.margin), heard(sum.second));
    let lead = match sum.instead {
        None => say!("why.points", margin = margin, second = second),
        Some(why) => {
            say!(
                "why.points.instead",
                why = heard(why),
                best = heard(sum.best),
                margin = margin,
                second = second
            )
        }
    };
    let list = |items: Vec<&Said>| {
        let items = items.into_iter().map(|item| what_spoke(&item.what).and(format!(" {:+.1}", item.points)));
        items.reduce(|list, item| list.and(", ").and(item))
    };
    let mut lines = vec![lead];
    lines.extend(list(sum.for_it().collect()).map(|list| say!("why.points.for", list = list)));
    lines.extend(list(sum.against().collect()).map(|list| say!("why.points.against", list = list)));
    lines
}

/// Words of the post stand as they are.
fn what_spoke(what: &str) -> Phrase {
    if what.starts_with('«') { Phrase::from(what) } else { heard(what) }
}

fn recognised_one(label: &Phrase, fact: &Value) -> Option<Phrase> {
    let value = match &fact["value"] {
        Value::Null => return None,
        Value::String(text) if text == "unknown" => return None,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let evidence = fact["evidence"].as_array().into_iter().flatten();
    let mut words: Vec<String> =
        evidence.filter_map(|one| one["words"].as_str()).map(|words| format!("«{}»", words.trim())).collect();
    words.dedup();
    words.truncate(QUOTES_MAX);
    Some(match words.is_empty() {
        true if value == "other" => say!("why.fact.other", what = label, value = heard(&value)),
        true => say!("why.fact.whole", what = label, value = heard(&value)),
        false => say!("why.fact", what = label, value = heard(&value), words = words.join(", ")),
    })
}

fn case(story: &Story) -> Vec<Phrase> {
    let Some(case) = &story.case else {
        return vec![say!("why.no_case", kind = heard(&story.message.kind))];
    };
    let title = if case.title.is_empty() { String::new() } else { format!(" ({})", case.title) };
    let called = format!("{}{title}", case.case_id);
    let decision = &story.message.facts["case"];
    let mut lines = vec![match decision["verdict"].as_str() {
        Some("same") => say!("why.case.same", case = called, score = decision["score"].to_string()),
        Some("by_hand") => say!("why.case.by_hand", case = called, was = decision["was"].to_string()),
        _ => say!("why.case.new", case = called, at = case.opened_at),
    }];
    lines.extend(reasons(&decision["reasons"]));
    let nearest = &decision["nearest"];
    if !nearest.is_null() {
        let (case, score) = (nearest["case"].to_string(), nearest["score"].to_string());
        lines.push(say!("why.nearest", case = case, score = score));
        lines.extend(reasons(&nearest["reasons"]));
    }
    lines.extend(told_elsewhere(case));
    if let (Some(closed_at), ending) = (case.closed_at, &story.ending) {
        let by = ending.as_ref().map_or_else(|| say!("why.closed.gone"), |message| name(message).into());
        lines.push(say!("why.closed", at = closed_at, who = by));
    }
    lines
}

fn reasons(reasons: &Value) -> Vec<Phrase> {
    let reasons = reasons.as_array().into_iter().flatten().filter_map(Value::as_str);
    reasons.map(|reason| under(say!("why.because", why = heard(reason)))).collect()
}

fn told_elsewhere(case: &Case) -> Option<Phrase> {
    let copies = case.facts["copies"].as_i64().filter(|n| *n > 0)?;
    let first = case.facts["first"].as_str().unwrap_or_default();
    let sources = case.facts["sources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let places: Vec<&str> = sources.collect();
    Some(say!("why.told_elsewhere", first = first, n = copies, places = places.join(", ")))
}

fn channel(story: &Story, heard_by: &Heard) -> Vec<Phrase> {
    let because = heard_by.rule.because.clone();
    let mut lines = vec![match heard_by.rule.passes {
        true => say!("why.rule.yes", why = because),
        false => say!("why.rule.no", why = because),
    }];
    if let Some(post) = &heard_by.held {
        lines.extend(held(story.now, post));
    } else if heard_by.deliveries.is_empty() {
        lines.push(match (&story.message.skipped, heard_by.rule.passes) {
            (Some(why), _) => say!("why.not_queued.why", why = heard(why)),
            (None, true) => say!("why.not_queued.absent"),
            (None, false) => say!("why.not_queued"),
        });
    }
    let left_out = heard_by.left_out.iter().map(|what| say!("why.left_out", what = heard(what)));
    for told in &heard_by.deliveries {
        lines.extend(delivery(Some(&heard_by.channel), told));
        lines.extend(again(heard_by, told).map(|id| under(say!("why.again", id = id.0))));
    }
    lines.extend(left_out);
    lines
}

/// A state of a delivery as people call it.
pub(crate) fn status_words(status: Status) -> Phrase {
    match status {
        Status::Queued => say!("why.status.queued"),
        Status::Retry => say!("why.status.retry"),
        Status::Claimed => say!("why.status.claimed"),
        Status::Sending => say!("why.status.sending"),
        Status::Sent => say!("why.status.sent"),
        Status::Deduped => say!("why.status.deduped"),
        Status::FailedPermanent => say!("why.status.failed_permanent"),
        Status::Dead => say!("why.status.dead"),
    }
}

fn delivery(channel: Option<&Channel>, told: &Told) -> Vec<Phrase> {
    let row = &told.about.delivery;
    let (id, status, at) = (row.delivery_id.0, status_words(row.status), row.queued_at);
    let line = match row.action {
        Action::Send => say!("why.delivery", id = id, status = status, at = at),
        action => {
            say!("why.delivery.action", id = id, action = action.as_str(), status = status, at = at)
        }
    };
    let slot = row.slot_at.map_or_else(Phrase::none, |at| say!("why.slot", at = at));
    let mut lines = vec![line.and(slot)];
    for attempt in &told.about.attempts {
        let error = |key: &str| attempt.error.as_ref().and_then(|error| error[key].as_str());
        let why = match (error("code"), error("message")) {
            (Some(code), Some(message)) => format!(" ({code}: {message})"),
            (Some(code), None) => format!(" ({code})"),
            _ => String::new(),
        };
        let outcome = Status::parse(&attempt.outcome);
        let outcome = outcome.map_or_else(|| Phrase::from(&attempt.outcome), status_words);
        let n = i64::from(attempt.attempt);
        lines.push(under(say!("why.attempt", n = n, at = attempt.started_at, outcome = outcome.and(why))));
    }
    lines.extend(published(channel, told).map(under));
    let repeated = channel.map(|channel| repeat(channel, told)).unwrap_or_default();
    lines.extend(repeated.into_iter().map(under));
    let says_more = !matches!(row.status, Status::Sent | Status::Deduped);
    if says_more {
        lines.push(under(told.explanation.headline.clone()));
        if !told.explanation.cause.is_empty() {
            lines.push(under(say!("why.cause", cause = &told.explanation.cause)));
        }
    }
    lines
}

/// What a person was asked, and what became of it.
fn held(now: Timestamp, post: &HeldPost) -> Vec<Phrase> {
    let decided = post.decided_at.map_or_else(Phrase::none, Phrase::from);
    let became = match (post.decision.as_deref(), post.expires_at) {
        (Some("approved"), _) => say!("why.approved", at = decided),
        (Some("rejected"), _) => say!("why.rejected", at = decided),
        (Some(_), _) => say!("why.withdrawn", at = decided),
        (None, Some(at)) if at <= now => say!("why.undecided.over", at = at),
        (None, Some(at)) => say!("why.undecided.until", at = at),
        (None, None) => say!("why.undecided"),
    };
    let by = post.decided_by.as_deref().map(|who| under(say!("why.decided.by", who = who)));
    let mut lines = vec![say!("why.held", at = post.held_at, why = heard(&post.why)), under(became)];
    lines.extend(by);
    lines
}

/// The delivery that took the place of a failed one.
fn again(heard: &Heard, told: &Told) -> Option<DeliveryId> {
    let id = told.about.delivery.delivery_id;
    let child = heard.deliveries.iter().find(|other| other.about.delivery.parent_delivery == Some(id));
    child.map(|child| child.about.delivery.delivery_id)
}

/// Where readers find it.
fn published(channel: Option<&Channel>, told: &Told) -> Option<Phrase> {
    let id = told.about.delivery.provider_message_id.as_deref()?;
    Some(match channel.and_then(|channel| engine::addresses::link(channel, id)) {
        Some(link) => say!("why.published.link", id = id, link = link),
        None => say!("why.published", id = id),
    })
}

/// What a repeat would have repeated.
fn repeat(channel: &Channel, told: &Told) -> Vec<Phrase> {
    if told.about.delivery.reason.as_deref() != Some("duplicate") {
        return Vec::new();
    }
    let rule = match channel.settings.dedup {
        DedupMode::Case => say!("why.repeat.case"),
        DedupMode::Fingerprint => say!("why.repeat.fingerprint"),
        DedupMode::Content => say!("why.repeat.content"),
        DedupMode::Off => say!("why.repeat.off"),
    };
    let mut lines = vec![say!("why.repeat", rule = rule, span = channel.settings.dedup_ttl)];
    if let Some(before) = &told.said_before {
        let row = &before.delivery;
        let when = match row.sent_at {
            Some(at) => say!("why.said_before.sent", at = at),
            None => say!("why.said_before.since", status = status_words(row.status), at = row.queued_at),
        };
        let link = row.provider_message_id.as_deref().and_then(|id| engine::addresses::link(channel, id));
        let when = when.and(link.map_or(String::new(), |link| format!(", {link}")));
        let (id, called) = (row.delivery_id.0, name(&before.message));
        lines.push(say!("why.said_before", id = id, name = called, when = when));
    }
    lines
}

/// What happens if nobody does anything, and what a person can do.
fn next(story: &Story) -> Vec<Phrase> {
    if let Some(why) = &story.message.skipped {
        return vec![unpublished(why)];
    }
    if story.channels.iter().filter_map(|heard| heard.held.as_ref()).any(|post| post.is_waiting(story.now)) {
        return vec![say!("why.decide", id = story.message.message_id.0)];
    }
    let last = |heard: &'_ Heard, told: &Told| again(heard, told).is_none();
    let all: Vec<&Told> = story
        .channels
        .iter()
        .flat_map(|heard| heard.deliveries.iter().filter(move |told| last(heard, told)))
        .chain(story.people.iter().map(|person| &person.told))
        .collect();
    let is_done = |told: &&&Told| matches!(told.about.delivery.status, Status::Sent | Status::Deduped);
    let open: Vec<&&Told> = all.iter().filter(|told| !is_done(told)).collect();
    if !open.is_empty() {
        return open.into_iter().flat_map(|told| goes_on(told)).collect();
    }
    let is_closed = story.case.as_ref().is_some_and(|case| case.closed_at.is_some());
    let was_said = all.iter().any(|told| told.about.delivery.status == Status::Sent);
    vec![match (all.is_empty(), was_said, is_closed) {
        (true, _, _) => say!("why.next.nobody"),
        (false, true, false) => say!("why.next.done"),
        (false, true, true) => say!("why.next.ended"),
        (false, false, _) => say!("why.next.known"),
    }]
}

fn goes_on(told: &Told) -> Vec<Phrase> {
    let id = told.about.delivery.delivery_id.0;
    let mut lines = vec![say!("why.next.delivery", id = id, next = &told.explanation.next)];
    let help = told.explanation.help.iter().filter(|help| !help.is_empty());
    lines.extend(help.cloned().map(under));
    lines
}

/// What helps with a post that was kept and not published.
fn unpublished(why: &str) -> Phrase {
    match why.split(':').next().unwrap_or_default() {
        "no route" => say!("why.unpublished.route"),
        "too old" => say!("why.unpublished.old"),
        "closed" => say!("why.unpublished.closed"),
        "unreadable" => say!("why.unpublished.unreadable"),
        _ => say!("why.unpublished.kept"),
    }
}
