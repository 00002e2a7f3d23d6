//! V5 to V8, V19: one holder at a time, behind the fence, every claim counted and told.

use domain::limits::{ATTEMPTS_MAX, LOST_CLAIMS_MAX, LOST_REQUESTS_MAX};

use super::{Harm, Judge};
use crate::sim::log::{AttemptLog, DeliveryLog};

pub(super) fn check(judge: &mut Judge<'_>) {
    for row in judge.deliveries() {
        one_at_a_time(judge, row);
        behind_the_fence(judge, row);
        counted(judge, row);
        the_unusual_has_events(judge, row);
    }
    poison(judge);
    for wrong in judge.logs.ledger.audit.clone() {
        judge.find("V19", Harm::Unexpected, None, format!("the store's own audit: {wrong}"));
    }
}

/// V5: claims of one delivery follow one another.
fn one_at_a_time(judge: &mut Judge<'_>, row: &DeliveryLog) {
    for pair in row.attempts.windows(2) {
        if pair[1].started_at + judge.back_us < pair[0].finished_at {
            let what =
                format!("attempt {} began before attempt {} was over", pair[1].attempt, pair[0].attempt);
            judge.find("V5", Harm::Unexpected, Some(row.id), what);
        }
        if pair[1].claim_seq <= pair[0].claim_seq {
            let what = format!("claim {} came after claim {}", pair[1].claim_seq, pair[0].claim_seq);
            judge.find("V6", Harm::Unexpected, Some(row.id), what);
        }
    }
    if row.claim_seq != row.attempts.last().map_or(0, |attempt| attempt.claim_seq) {
        judge.find("V6", Harm::Unexpected, Some(row.id), format!("its last claim is {}", row.claim_seq));
    }
    let known = |run: &str| run == "adopted" || judge.logs.nodes.iter().any(|node| node.run == run);
    if let Some(stranger) = row.attempts.iter().find(|attempt| !known(&attempt.run)) {
        let what = format!("attempt {} was made by nobody: {}", stranger.attempt, stranger.run);
        judge.find("V5", Harm::Unexpected, Some(row.id), what);
    }
}

/// V6: an attempt is ended by its own holder, after its own request, or by its lease.
fn behind_the_fence(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let mut found = Vec::new();
    for (request, send) in judge.sends(row.id) {
        let Some(attempt) = row.attempts.iter().find(|attempt| attempt.attempt == send.attempt) else {
            continue;
        };
        if attempt.run != request.run {
            found.push(format!("{} sent in attempt {} of {}", request.run, attempt.attempt, attempt.run));
        }
        if attempt.outcome == "lease_expired" {
            continue;
        }
        let heard_at = send.answered_at.map(|at| super::super::world::START.0 + at);
        let too_late = request.ledger_at > attempt.finished_at + judge.back_us;
        let too_early =
            judge.logs.jumps.is_empty() && heard_at.is_some_and(|heard_at| heard_at > attempt.finished_at);
        if too_late || too_early {
            found.push(format!(
                "attempt {} ended as {} while its own request was still to be made or answered",
                attempt.attempt, attempt.outcome
            ));
        }
    }
    for attempt in &row.attempts {
        if let Some(what) = foreign_id(judge, row, attempt) {
            found.push(what);
        }
    }
    for what in found {
        judge.find("V6", Harm::Unexpected, Some(row.id), what);
    }
}

/// The id of another attempt's post can only come from the parts that were written down, or from looking.
fn foreign_id(judge: &Judge<'_>, row: &DeliveryLog, attempt: &AttemptLog) -> Option<String> {
    let id = attempt.provider_id.as_ref().filter(|_| attempt.outcome == "sent")?;
    let own = judge.sends(row.id).iter().any(|(_, send)| {
        send.attempt == attempt.attempt && send.visible.contains(id) && send.accepted_at.is_some()
    });
    let written = row.parts.values().any(|line| line.split(' ').any(|word| word == id));
    (!own && !written)
        .then(|| format!("attempt {} brought id {id}, which it did not get itself", attempt.attempt))
}

/// V8: the counters are the sum of the attempts.
fn counted(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let count = |which: &dyn Fn(&AttemptLog) -> bool| {
        i32::try_from(row.attempts.iter().filter(|attempt| which(attempt)).count()).unwrap_or(i32::MAX)
    };
    let failed = |attempt: &AttemptLog, which: &dyn Fn(&crate::sim::log::ErrorLog) -> bool| {
        attempt.error.as_ref().is_some_and(|error| error.transient && which(error))
    };
    let expired = |attempt: &AttemptLog| attempt.outcome == "lease_expired";
    let lost_requests = count(&|attempt| expired(attempt) && attempt.requested_at.is_some());
    let unanswered = count(&|attempt| failed(attempt, &|error| error.unknown));
    let floods = count(&|attempt| {
        failed(attempt, &|error| {
            let asked = error.scope != "delivery" && error.retry_after_ms.is_some();
            !error.unknown && asked && error.code != "chat_waits"
        })
    });
    let lost = count(&|attempt| expired(attempt) && attempt.requested_at.is_none());
    let plain = count(&|attempt| failed(attempt, &|error| !error.unknown && error.scope == "delivery"));
    let charged = unanswered + plain - row.not_ready_waits;
    let expected = [
        ("attempt", row.attempt, count(&|_| true)),
        ("unknowns", row.unknowns, unanswered + lost_requests),
        ("lost_requests", row.lost_requests, lost_requests),
        ("flood_waits", row.flood_waits, floods),
        ("lost_claims", row.lost_claims, lost),
        ("charged", row.charged, charged),
    ];
    for (name, kept, summed) in expected {
        if kept != summed {
            let what = format!("{name} is {kept}, the attempts say {summed}");
            judge.find("V8", Harm::Unexpected, Some(row.id), what);
        }
    }
    if row.charged > ATTEMPTS_MAX {
        judge.find("V8", Harm::Unexpected, Some(row.id), format!("charged {} times", row.charged));
    }
    let unsent = |attempt: &&AttemptLog| {
        let charged = |error: &crate::sim::log::ErrorLog| {
            error.scope == "delivery" && error.code != "attachment.not.ready"
        };
        attempt.requested_at.is_none() && failed(attempt, &charged)
    };
    if let Some(attempt) = row.attempts.iter().find(unsent) {
        let what = format!("attempt {} asked nobody and was charged", attempt.attempt);
        judge.find("V8", Harm::Unexpected, Some(row.id), what);
    }
}

/// V19: what is unusual has its event, once.
fn the_unusual_has_events(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let events = |name: &str| {
        let of = |event: &&crate::sim::log::EventLog| event.delivery == Some(row.id) && event.name == name;
        judge.logs.ledger.events.iter().filter(of).count()
    };
    let expired = row.attempts.iter().filter(|attempt| attempt.outcome == "lease_expired").count();
    let one = |yes: bool| usize::from(yes);
    let is = |status: &str, reason: &str| row.status == status && row.reason == reason;
    let dead_letter =
        row.status == "dead" && !matches!(row.reason.as_str(), "cancelled" | "expired" | "stopped");
    let expected = [
        ("outcome_unknown", usize::try_from(row.unknowns).unwrap_or(0)),
        ("lease_recovered", expired),
        ("dead_letter", one(dead_letter)),
        ("retry_exhausted", one(is("dead", "attempts_exhausted"))),
        // What waits for a channel that is removed ends with one event of the channel.
        ("failed_permanent", one(was_refused(row) || ended_by_removal(row))),
        ("deduped", one(row.status == "deduped")),
        ("cancelled", one(is("dead", "cancelled") || is("dead", "stopped"))),
        // A wave of a campaign has one event for all.
        ("requeued", one(row.generation > 0 && row.campaign.is_none())),
    ];
    let wrong: Vec<String> = expected
        .into_iter()
        .filter(|(name, n)| events(name) != *n)
        .map(|(name, n)| format!("{} events {name}, {n} expected", events(name)))
        .collect();
    for what in wrong {
        judge.find("V19", Harm::Unexpected, Some(row.id), what);
    }
}

fn was_refused(row: &DeliveryLog) -> bool {
    row.status == "failed_permanent" && matches!(row.reason.as_str(), "refused" | "recipient_gone")
}

/// It was out when its channel was removed, and came back.
fn ended_by_removal(row: &DeliveryLog) -> bool {
    let last = row.attempts.last().map_or(0, |attempt| attempt.finished_at);
    row.reason == "channel_removed" && row.ended_at == Some(last)
}

/// V7: who kills every reader ends as poison, and nobody else does.
fn poison(judge: &mut Judge<'_>) {
    let mut found = Vec::new();
    for row in judge.deliveries() {
        if row.lost_claims > LOST_CLAIMS_MAX {
            found.push((row.id, format!("{} claims were lost", row.lost_claims)));
        }
        if row.lost_requests > LOST_REQUESTS_MAX {
            found.push((row.id, format!("{} requests were lost", row.lost_requests)));
        }
        let worn_out = row.lost_claims == LOST_CLAIMS_MAX || row.lost_requests == LOST_REQUESTS_MAX;
        if row.reason == "poison" && !worn_out {
            let lost = (row.lost_claims, row.lost_requests);
            found.push((row.id, format!("poison after {lost:?} lost claims and requests")));
        }
        if !judge.options.poison {
            continue;
        }
        let planted = judge.post(row).is_some_and(|post| post.poison);
        let stopped = matches!(row.reason.as_str(), "cancelled" | "channel_removed" | "duplicate");
        if planted && !stopped && row.reason != "poison" {
            found.push((row.id, format!("the planted poison ended as {} {}", row.status, row.reason)));
        }
        if !planted && row.reason == "poison" {
            found.push((row.id, "an innocent delivery ended as poison".into()));
        }
    }
    for (id, what) in found {
        judge.find("V7", Harm::Unexpected, Some(id), what);
    }
}
