//! A story in words: seen, recognised, which case, which rule, what became of it in each channel, what comes next.
//! Pure; the sentences about deliveries are those of `operate::words`.

use std::fmt::Write as _;

use domain::delivery::{Action, Status};
use domain::ids::DeliveryId;
use domain::shown;
use domain::time::Timestamp;
use serde_json::Value;
use store::{Case, Channel, DedupMode, HeldPost, RecipientStatus, StoredMessage};

use super::{Heard, Story, Told};
use crate::operate::words::{counted, how_long, moment};

/// Words quoted as evidence of one fact.
const QUOTES_MAX: usize = 3;

/// The whole story.
pub(crate) fn story(story: &Story) -> String {
    let message = &story.message;
    let called = name(message);
    let mut text =
        format!("{} is message {}, kind {}\n", shown::line(&called), message.message_id, message.kind);
    section(&mut text, "seen", seen(story));
    section(&mut text, "recognised", recognised(&message.facts));
    section(&mut text, "case", case(story));
    for heard in &story.channels {
        let Channel { name, platform, target, .. } = &heard.channel;
        section(&mut text, &format!("channel {name} ({platform} {target})"), channel(story, heard));
    }
    if !story.elsewhere.is_empty() {
        let lines = story.elsewhere.iter().flat_map(|told| delivery(None, told)).collect();
        section(&mut text, "channels that were removed since", lines);
    }
    for person in &story.people {
        let mut lines = delivery(None, &person.told);
        if person.told.about.delivery.status == Status::FailedPermanent
            && let Some(gone) = gone(&person.told)
        {
            lines.push(format!("  {gone}"));
        }
        section(&mut text, &person.called, lines);
    }
    if story.more_people {
        let line = "each has a delivery of their own; `$ rupor delivery list --message ID` lists them, and \
                    `$ rupor why dID` tells about one";
        section(
            &mut text,
            "and more people",
            vec![line.replace("--message ID", &format!("--message {}", message.message_id))],
        );
    }
    section(&mut text, "next", next(story));
    text
}

/// Since when this person cannot be reached.
fn gone(told: &Told) -> Option<String> {
    let person = told.about.person.as_ref().filter(|person| person.status == RecipientStatus::Gone)?;
    Some(format!("they are gone since {}", moment(person.status_at)))
}

fn section(text: &mut String, heading: &str, lines: Vec<String>) {
    let _ = writeln!(text, "\n{}", shown::line(heading));
    for line in lines {
        let _ = writeln!(text, "  {}", shown::line(&line));
    }
}

/// What people call the post.
pub(crate) fn name(message: &StoredMessage) -> String {
    let url = message.origin["url"].as_str().or_else(|| message.payload["origin"]["url"].as_str());
    url.map_or_else(|| format!("{}/{}", message.source, message.origin_id), str::to_owned)
}

fn seen(story: &Story) -> Vec<String> {
    let message = &story.message;
    let source = story.source.as_ref().map_or_else(
        || format!("on {}", message.source),
        |source| format!("on {} (source {})", message.source, source.name),
    );
    let mut lines = vec![format!("first {} {source}", moment(message.created_at))];
    if let Some(date) = message.origin["date"].as_i64() {
        let posted = Timestamp(date.saturating_mul(1_000_000));
        lines.push(format!("posted {}", moment(posted)));
    }
    if message.seen_count > 1 {
        lines.push(format!("read {} times, last {}", message.seen_count, moment(message.last_seen_at)));
    }
    if message.revision > 1 {
        lines.push(format!("its words or its end have changed: revision {}", message.revision));
    }
    if let Some(gone) = message.gone_at {
        lines.push(format!("gone from its source since {}", moment(gone)));
    }
    for note in message.facts["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        lines.push(format!("note: {note}"));
    }
    lines
}

/// The facts that people ask about, in the order they are read.
const FACTS: [(&str, &str); 9] = [
    ("kind", "kind"),
    ("animal", "animal"),
    ("sex", "sex"),
    ("breed", "breed"),
    ("pet_names", "name"),
    ("phones", "phone"),
    ("city", "city"),
    ("place", "place"),
    ("when", "day"),
];

fn recognised(facts: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, label) in FACTS {
        match &facts[key] {
            Value::Array(several) => {
                lines.extend(several.iter().filter_map(|fact| recognised_one(label, fact)));
            }
            fact => lines.extend(recognised_one(label, fact)),
        }
    }
    if facts["unsure"] == Value::Bool(true) {
        lines.push(
            "unsure: another kind is nearly as likely; `$ rupor analyse --text` shows the points".to_owned(),
        );
    }
    match lines.is_empty() {
        true => vec!["nothing".to_owned()],
        false => lines,
    }
}

fn recognised_one(label: &str, fact: &Value) -> Option<String> {
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
    let from = match words.is_empty() {
        true if value == "other" => "; no words speak for anything else".to_owned(),
        true => " from the post as a whole".to_owned(),
        false => format!(" from {}", words.join(", ")),
    };
    Some(format!("{label} {value}{from}"))
}

fn case(story: &Story) -> Vec<String> {
    let Some(case) = &story.case else {
        return vec![format!("none: a post of kind {} is about no case", story.message.kind)];
    };
    let title = if case.title.is_empty() { String::new() } else { format!(" ({})", case.title) };
    let decision = &story.message.facts["case"];
    let mut lines = vec![match decision["verdict"].as_str() {
        Some("same") => {
            format!("{}{title}: the same story as posts before, {} points", case.case_id, decision["score"])
        }
        _ => format!("{}{title}: a new story, opened {}", case.case_id, moment(case.opened_at)),
    }];
    lines.extend(reasons("because", &decision["reasons"]));
    let nearest = &decision["nearest"];
    if !nearest.is_null() {
        lines.push(format!("nearest was case {} with {} points", nearest["case"], nearest["score"]));
        lines.extend(reasons("because", &nearest["reasons"]));
    }
    lines.extend(told_elsewhere(case));
    if let (Some(closed_at), ending) = (case.closed_at, &story.ending) {
        let by = ending.as_ref().map_or("a post that is gone".to_owned(), name);
        lines.push(format!("closed {} by {by}", moment(closed_at)));
    }
    lines
}

fn reasons(lead: &str, reasons: &Value) -> Vec<String> {
    let reasons = reasons.as_array().into_iter().flatten().filter_map(Value::as_str);
    reasons.map(|reason| format!("  {lead} {reason}")).collect()
}

fn told_elsewhere(case: &Case) -> Option<String> {
    let copies = case.facts["copies"].as_u64().filter(|n| *n > 0)?;
    let first = case.facts["first"].as_str().unwrap_or_default();
    let sources = case.facts["sources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let places: Vec<&str> = sources.collect();
    let copies = counted(usize::try_from(copies).unwrap_or(usize::MAX), "time", "times");
    Some(format!("first told in {first}, then {copies} more: {}", places.join(", ")))
}

fn channel(story: &Story, heard: &Heard) -> Vec<String> {
    let mut lines = vec![format!(
        "rule: {}: {}",
        if heard.rule.passes { "it should hear of this" } else { "it should not hear of this" },
        heard.rule.because
    )];
    if let Some(post) = &heard.held {
        lines.extend(held(story.now, post));
    } else if heard.deliveries.is_empty() {
        lines.push(match (&story.message.skipped, heard.rule.passes) {
            (Some(why), _) => format!("nothing was queued: {why}"),
            (None, true) => {
                "nothing was queued: the channel was not there or not enabled when the post came".to_owned()
            }
            (None, false) => "nothing was queued".to_owned(),
        });
    }
    for told in &heard.deliveries {
        lines.extend(delivery(Some(&heard.channel), told));
        lines.extend(again(heard, told).map(|id| format!("  queued again as delivery {id}")));
    }
    lines
}

fn delivery(channel: Option<&Channel>, told: &Told) -> Vec<String> {
    let row = &told.about.delivery;
    let what = match row.action {
        Action::Send => String::new(),
        action => format!(" ({} of what was published)", action.as_str()),
    };
    let slot = row.slot_at.map_or(String::new(), |at| format!(", slot {}", moment(at)));
    let mut lines = vec![format!(
        "delivery {}{what}: {}, queued {}{slot}",
        row.delivery_id,
        row.status,
        moment(row.queued_at)
    )];
    for attempt in &told.about.attempts {
        let error = |key: &str| attempt.error.as_ref().and_then(|error| error[key].as_str());
        let why = match (error("code"), error("message")) {
            (Some(code), Some(message)) => format!(" ({code}: {message})"),
            (Some(code), None) => format!(" ({code})"),
            _ => String::new(),
        };
        lines.push(format!(
            "  attempt {} {}: {}{why}",
            attempt.attempt,
            moment(attempt.started_at),
            attempt.outcome
        ));
    }
    lines.extend(published(channel, told).map(|line| format!("  {line}")));
    let repeated = channel.map(|channel| repeat(channel, told)).unwrap_or_default();
    lines.extend(repeated.into_iter().map(|line| format!("  {line}")));
    let says_more = !matches!(row.status, Status::Sent | Status::Deduped);
    if says_more {
        lines.push(format!("  {}", told.explanation.headline));
        if !told.explanation.cause.is_empty() {
            lines.push(format!("  cause: {}", told.explanation.cause));
        }
    }
    lines
}

/// What a person was asked, and what became of it.
fn held(now: Timestamp, post: &HeldPost) -> Vec<String> {
    let mut lines = vec![format!("held for a person since {}: {}", moment(post.held_at), post.why)];
    let decided = post.decided_at.map_or(String::new(), moment);
    lines.push(match (post.decision.as_deref(), post.expires_at) {
        (Some("approved"), _) => format!("  approved {decided}"),
        (Some("rejected"), _) => format!("  rejected {decided}: it is not published here"),
        (Some(_), _) => {
            format!("  withdrawn {decided}: its words changed, its story ended or its source took it away")
        }
        (None, Some(at)) if at <= now => {
            format!("  nobody decided before {}, the max_age of the channel: it is over", moment(at))
        }
        (None, Some(at)) => format!("  nobody has decided yet; it is over at {}", moment(at)),
        (None, None) => "  nobody has decided yet".to_owned(),
    });
    lines
}

/// The delivery that took the place of a failed one.
fn again(heard: &Heard, told: &Told) -> Option<DeliveryId> {
    let id = told.about.delivery.delivery_id;
    let child = heard.deliveries.iter().find(|other| other.about.delivery.parent_delivery == Some(id));
    child.map(|child| child.about.delivery.delivery_id)
}

/// Where readers find it.
fn published(channel: Option<&Channel>, told: &Told) -> Option<String> {
    let id = told.about.delivery.provider_message_id.as_deref()?;
    Some(match channel.and_then(|channel| engine::addresses::link(channel, id)) {
        Some(link) => format!("published as message {id}: {link}"),
        None => format!("published as message {id}"),
    })
}

/// What a repeat would have repeated.
fn repeat(channel: &Channel, told: &Told) -> Vec<String> {
    if told.about.delivery.reason.as_deref() != Some("duplicate") {
        return Vec::new();
    }
    let rule = match channel.settings.dedup {
        DedupMode::Case => "one case and kind",
        DedupMode::Fingerprint => "one fingerprint and kind",
        DedupMode::Content => "the same words",
        DedupMode::Off => "nothing",
    };
    let window = how_long(channel.settings.dedup_ttl);
    let mut lines = vec![format!("held back: this channel says {rule} once within {window}")];
    if let Some(before) = &told.said_before {
        let when = before.delivery.sent_at.map_or_else(
            || format!("{} since {}", before.delivery.status, moment(before.delivery.queued_at)),
            |at| format!("sent {}", moment(at)),
        );
        let at = before
            .delivery
            .provider_message_id
            .as_deref()
            .and_then(|id| engine::addresses::link(channel, id));
        let at = at.map_or(String::new(), |link| format!(", {link}"));
        lines.push(format!(
            "said before: delivery {} of {}, {when}{at}",
            before.delivery.delivery_id,
            name(&before.message)
        ));
    }
    lines
}

/// What happens if nobody does anything, and what a person can do.
fn next(story: &Story) -> Vec<String> {
    if let Some(why) = &story.message.skipped {
        return vec![unpublished(why)];
    }
    if story.channels.iter().filter_map(|heard| heard.held.as_ref()).any(|post| post.is_waiting(story.now)) {
        let id = story.message.message_id;
        return vec![format!(
            "a person decides: `$ rupor message approve {id}` or `$ rupor message reject {id}`"
        )];
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
    let words = match (all.is_empty(), was_said, is_closed) {
        (true, _, _) => "nothing: no channel is to hear of it",
        (false, true, false) => {
            "nothing: it is done; an edit of the post or the end of the story changes what is published"
        }
        (false, true, true) => "nothing: the story has ended, and what was published says so",
        (false, false, _) => {
            "nothing: readers know the story already; when the window is over, the next post about it is said again"
        }
    };
    vec![words.to_owned()]
}

fn goes_on(told: &Told) -> Vec<String> {
    let mut lines = vec![format!("delivery {}: {}", told.about.delivery.delivery_id, told.explanation.next)];
    let help = told.explanation.help.iter().filter(|help| !help.is_empty());
    lines.extend(help.map(|help| format!("  {help}")));
    lines
}

/// What helps with a post that was kept and not published.
fn unpublished(why: &str) -> String {
    let help = match why.split(':').next().unwrap_or_default() {
        "no route" => {
            "to publish such posts, give a channel a route (such as any = [\"kind:found\"]), then `$ rupor apply`; \
             it counts for posts that come from then on"
        }
        "too old" => "to publish older posts, set `horizon` of the source, then `$ rupor apply`",
        "closed" => "nothing: the story had ended before",
        "unreadable" => "nothing: edit the post at its source, and it is read again",
        _ => "nothing: such posts are kept and never published",
    };
    help.to_owned()
}
