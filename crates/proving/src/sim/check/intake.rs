//! V1 to V4: what was accepted is there, once, and comes to an end.

use std::collections::BTreeMap;

use super::{Harm, Judge};
use crate::sim::log::{DeliveryLog, Heard, Post, Verb};

pub(super) fn check(judge: &mut Judge<'_>) {
    accepted_is_there(judge);
    nothing_else_is_there(judge);
    said_once(judge);
    everything_ends(judge);
    generations_have_parents(judge);
}

/// V1, V2: every accepted message has exactly one delivery for each of its channels.
fn accepted_is_there(judge: &mut Judge<'_>) {
    for post in &judge.logs.client {
        let Some(Heard::Ok { message, deliveries, skipped }) = post.heard.last() else {
            continue;
        };
        let text = judge.logs.ledger.messages.get(message);
        if !text.is_some_and(|text| text.contains(&post.marker)) {
            let what = format!("{} was accepted as message {message}, which is not stored", post.marker);
            judge.find("V2", Harm::Lost, None, what);
            continue;
        }
        if !skipped.is_empty() {
            let what = format!("{}: eligible channels {skipped:?} were passed over", post.marker);
            judge.find("V1", Harm::Lost, None, what);
        }
        for channel in &post.channels {
            let rows: Vec<&DeliveryLog> = judge
                .deliveries()
                .filter(|row| row.message == *message && row.channel == *channel)
                .filter(|row| row.generation == 0 && row.action == "send")
                .collect();
            let told = deliveries.iter().find(|(_, of)| of == channel).map(|(id, _)| *id);
            // A source that asked twice hears the second time only that the post is known.
            let unheard = post.life.revision > 0 && told.is_none();
            if rows.len() != 1 || (told != rows.first().map(|row| row.id) && !unheard) {
                let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
                let what = format!(
                    "{} for channel {channel}: the client was told {told:?}, the ledger has {ids:?}",
                    post.marker
                );
                judge.find("V1", Harm::Lost, told, what);
            }
        }
    }
}

/// V1, V2, V3: no delivery without a message that somebody posted, and no message twice.
fn nothing_else_is_there(judge: &mut Judge<'_>) {
    let mut stored: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let posts: Vec<&Post> = judge.logs.client.iter().collect();
    for (id, text) in &judge.logs.ledger.messages {
        let marker = text.split(' ').next().unwrap_or_default();
        match posts.iter().find(|post| post.marker == marker) {
            None => {
                let what = format!("message {id} was posted by nobody: {marker}");
                judge.find("V2", Harm::Unexpected, None, what);
            }
            // Unknown before the refusal: it may be either.
            Some(post) if post.heard == [Heard::Fail] => {
                let what = format!("{marker} was refused, but is stored as message {id}");
                judge.find("V2", Harm::Unexpected, None, what);
            }
            Some(_) => stored.entry(marker).or_default().push(*id),
        }
    }
    for (marker, ids) in stored {
        if ids.len() > 1 {
            judge.find("V3", Harm::Duplicated, None, format!("{marker} is stored as messages {ids:?}"));
        }
    }
}

/// V3: a channel hears the same content once, apart from what an operator sent again.
fn said_once(judge: &mut Judge<'_>) {
    let mut said: BTreeMap<(i64, &str), Vec<i64>> = BTreeMap::new();
    let first = |row: &&DeliveryLog| row.generation == 0 && row.status == "sent";
    let said_to_all = |row: &&DeliveryLog| row.channel != 0 && row.action == "send";
    for row in judge.deliveries().filter(first).filter(said_to_all) {
        if let Some(post) = judge.post(row) {
            said.entry((row.channel, post.content_hash.as_str())).or_default().push(row.id);
        }
    }
    for ((channel, hash), ids) in said {
        if ids.len() > 1 {
            let what = format!("channel {channel} heard {hash} in deliveries {ids:?}");
            judge.find("V3", Harm::Duplicated, ids.last().copied(), what);
        }
    }
}

/// V4: every delivery has ended, for a reason of the closed list, by a way that exists.
fn everything_ends(judge: &mut Judge<'_>) {
    for row in judge.deliveries() {
        let allowed: &[&str] = match row.status.as_str() {
            "sent" => &["", "late_success"],
            "deduped" => &["duplicate", "superseded"],
            "failed_permanent" => &["refused", "channel_removed", "recipient_gone"],
            "dead" => &[
                "attempts_exhausted",
                "flood_cap",
                "outcome_unknown",
                "poison",
                "cancelled",
                "expired",
                "stopped",
            ],
            status => {
                let what = format!("delivery {} never ended: {status}", row.id);
                judge.find("V4", Harm::Lost, Some(row.id), what);
                continue;
            }
        };
        if !allowed.contains(&row.reason.as_str()) {
            let what = format!("delivery {} is {} for {:?}", row.id, row.status, row.reason);
            judge.find("V4", Harm::Unexpected, Some(row.id), what);
        }
        if let Some(what) = wrong_way(row) {
            judge.find("V4", Harm::Unexpected, Some(row.id), what);
        }
    }
}

/// The outcomes of the attempts must be a path of the state machine that leads to the status.
fn wrong_way(row: &DeliveryLog) -> Option<String> {
    let goes_on = |outcome: &str| matches!(outcome, "retry" | "lease_expired" | "released");
    let (last, earlier) = match row.attempts.split_last() {
        Some((last, earlier)) => (last.outcome.as_str(), earlier),
        None => ("", &row.attempts[..]),
    };
    if let Some(attempt) = earlier.iter().find(|attempt| !goes_on(&attempt.outcome)) {
        return Some(format!(
            "attempt {} ended as {} and was not the last",
            attempt.attempt, attempt.outcome
        ));
    }
    let fits = match (row.status.as_str(), row.reason.as_str()) {
        ("sent", "late_success") => last == "late_success",
        ("sent", _) => last == "sent",
        ("deduped", _) => last.is_empty(),
        ("failed_permanent", "refused" | "recipient_gone") => last == "failed_permanent",
        ("dead", "outcome_unknown" | "attempts_exhausted") => last == "dead" || last == "lease_expired",
        ("failed_permanent", _) => last.is_empty() || goes_on(last) || last == "failed_permanent",
        ("dead", "poison") => last == "lease_expired",
        ("dead", "flood_cap") => last == "dead",
        // It was out when its source vanished, or its person stopped.
        ("dead", "cancelled" | "stopped") => last.is_empty() || goes_on(last) || last == "dead",
        _ => last.is_empty() || goes_on(last),
    };
    (!fits).then(|| format!("{} ({}) after an attempt that ended as {last:?}", row.status, row.reason))
}

/// V4: what is sent again was asked for, and names what it replaces.
fn generations_have_parents(judge: &mut Judge<'_>) {
    for row in judge.deliveries().filter(|row| row.generation > 0 && row.campaign.is_none()) {
        let asked = judge.logs.operator.iter().any(|act| act.verb == Verb::Requeue(row.id));
        let parent = row.parent.and_then(|id| judge.logs.ledger.deliveries.get(&id));
        let failed =
            parent.is_some_and(|parent| matches!(parent.status.as_str(), "dead" | "failed_permanent"));
        // A copy is said after all when what it repeated vanished unsaid.
        let instead = parent.is_some_and(|parent| parent.status == "deduped");
        let (asked, ended) = (asked || instead, failed || instead);
        if !asked || !ended {
            let what = format!("delivery {} of generation {} has no failed parent", row.id, row.generation);
            judge.find("V4", Harm::Unexpected, Some(row.id), what);
        }
    }
}
