//! V14, V16, V18, V21, V22: waits, rates, order, and an end in time.

use std::collections::{BTreeMap, BTreeSet};

use domain::limits::{LOST_CLAIMS_MAX, LOST_REQUEST_WAIT};

use super::{Harm, Judge};
use crate::sim::log::{Answer, AttemptLog, DeliveryLog, Micros, Request, RequestKind, RunLog, SendLog, Verb};
use crate::sim::people;
use crate::sim::world::START;

/// The timer of the runtime has whole milliseconds.
const TICK_US: i64 = 2_000;
/// A slot may be used late (`dispatch::gait`), a node's reading of the ledger's clock may be old, and the way to the wire
/// takes a moment; together they have no more than this.
const SLOT_LATE_US: i64 = 120_000;
/// How long the kill switch may take (reliability S35).
const KILL_US: i64 = 5_000_000;

pub(super) fn check(judge: &mut Judge<'_>) {
    for row in judge.deliveries() {
        waits(judge, row);
        leases_end_for_a_cause(judge, row);
    }
    paced(judge);
    kill_switch(judge);
    ordered(judge);
    parallel(judge);
    retries(judge);
    no_storms(judge);
    ended_in_time(judge);
    stops(judge);
}

/// V14: a wait that was asked for is kept, and charged failures back off, unless a person resumes what waits.
fn waits(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let mut found = Vec::new();
    let sends = judge.sends(row.id);
    for (n, (_, send)) in sends.iter().enumerate() {
        let (Some(Answer::Flood { retry_after_us, .. }), Some(at)) = (&send.answer, send.answered_at) else {
            continue;
        };
        // The answer came too late for its claim: nobody wrote the wait down.
        if row.attempts.iter().any(|a| a.attempt == send.attempt && a.outcome == "lease_expired") {
            continue;
        }
        for (next, later) in sends.iter().skip(n + 1) {
            let jumped = judge.logs.jumps.iter().any(|(when, _)| *when >= at && *when <= next.at);
            // An answer that a node heard late binds nobody who had gone on before.
            let stale = later.attempt <= send.attempt || next.at < at;
            let written = row.attempts.iter().find(|a| a.attempt == send.attempt).map(|a| a.finished_at);
            let resumed = written.is_some_and(|written| was_resumed(judge, row, written, next.ledger_at));
            if !jumped && !stale && !resumed && next.at + TICK_US < at + retry_after_us {
                found.push(format!(
                    "asked to wait {} ms, tried again after {} ms",
                    retry_after_us / 1_000,
                    (next.at - at) / 1_000
                ));
            }
        }
    }
    let mut charged = 0;
    for pair in row.attempts.windows(2) {
        let (is_charged, lost) = (is_charged(&pair[0]), is_lost_request(&pair[0]));
        if is_charged || lost {
            charged += i64::from(is_charged);
            let floor = if lost { LOST_REQUEST_WAIT.0 } else { 1_600_000_i64 << (charged - 1).min(8) };
            let early = pair[1].started_at - pair[0].finished_at + judge.back_us < floor;
            let resumed = was_resumed(judge, row, pair[0].finished_at, pair[1].started_at);
            if pair[1].run != "adopted" && early && !resumed {
                found.push(format!(
                    "attempt {} began {} ms after charged or lost attempt {}",
                    pair[1].attempt,
                    (pair[1].started_at - pair[0].finished_at) / 1_000,
                    pair[0].attempt
                ));
            }
        }
    }
    for what in found {
        judge.find("V14", Harm::Unexpected, Some(row.id), what);
    }
}

/// A person resumed the channel or the account after the wait was written down: that ends it.
fn was_resumed(judge: &Judge<'_>, row: &DeliveryLog, written_at: i64, until: i64) -> bool {
    judge.logs.operator.iter().any(|act| {
        let ours =
            act.verb == Verb::ResumeChannel(row.channel) || act.verb == Verb::ResumeAccount(row.account);
        ours && act.ledger_at + judge.back_us >= written_at && act.ledger_at <= until + judge.back_us
    })
}

fn is_charged(attempt: &AttemptLog) -> bool {
    attempt.error.as_ref().is_some_and(|error| {
        let unready = error.code == "attachment.not.ready";
        error.transient && (error.unknown || (error.scope == "delivery" && !unready))
    })
}

fn is_lost_request(attempt: &AttemptLog) -> bool {
    attempt.outcome == "lease_expired" && attempt.requested_at.is_some()
}

/// V21: where nothing died, stood still or was cut off, no lease ends.
fn leases_end_for_a_cause(judge: &mut Judge<'_>, row: &DeliveryLog) {
    if !judge.logs.jumps.is_empty() {
        return;
    }
    for attempt in row.attempts.iter().filter(|attempt| attempt.outcome == "lease_expired") {
        let Some(run) = judge.logs.nodes.iter().find(|run| run.run == attempt.run) else {
            continue;
        };
        let (from, until) = (attempt.started_at - START.0, attempt.finished_at - START.0);
        if !was_disturbed(judge, run, from, until) {
            let what = format!("the lease of attempt {} ended though {} was well", attempt.attempt, run.run);
            judge.find("V21", Harm::Unexpected, Some(row.id), what);
        }
    }
}

fn was_disturbed(judge: &Judge<'_>, run: &RunLog, from: Micros, until: Micros) -> bool {
    let within = |at: Micros| at >= from && at <= until;
    run.crashed_at.is_some_and(|at| at <= until)
        || run.pauses.iter().any(|(start, end)| *start <= until && *end >= from)
        || run.ledger_trouble.iter().any(|at| within(*at))
        || run.stop.is_some_and(|stop| stop.over_at.is_none() || !stop.drained)
        || judge.options.ledger.outages.iter().any(|(start, length)| {
            let start = start.as_micros() as Micros;
            start <= until && start + length.as_micros() as Micros >= from
        })
}

/// V16: in every window an account gets no more requests than its rate and its burst allow.
fn paced(judge: &mut Judge<'_>) {
    let mut found = Vec::new();
    for (id, account) in &judge.logs.world.accounts {
        let requests: Vec<&Request> =
            judge.logs.platform.iter().filter(|request| request.account == *id && !request.delayed).collect();
        // The theoretical arrival time runs ahead of the requests by what they overdraw.
        let mut ahead = Micros::MIN;
        for request in requests {
            let jumped = judge.logs.jumps.iter().any(|(at, _)| (request.at - at).abs() < 10_000_000);
            ahead = ahead.max(request.at) + account.interval_us;
            let allowed = request.at + account.interval_us * account.burst + SLOT_LATE_US;
            if jumped {
                ahead = request.at;
            } else if ahead > allowed {
                found.push(format!(
                    "account {id}: a request at {:.3} s comes {} ms too early",
                    request.at as f64 / 1e6,
                    (ahead - allowed + SLOT_LATE_US) / 1_000
                ));
                break;
            }
        }
    }
    for what in found {
        judge.find("V16", Harm::Unexpected, None, what);
    }
}

/// V16: nothing leaves while everything is held.
fn kill_switch(judge: &mut Judge<'_>) {
    let acts = &judge.logs.operator;
    let Some(held_at) = acts.iter().find(|act| act.verb == Verb::HoldAll).map(|act| act.at) else {
        return;
    };
    let released = acts.iter().find(|act| act.verb == Verb::ReleaseAll);
    let until = released.map_or(Micros::MAX, |act| act.at);
    // A node that hears of it late by a slow ledger is late by that much.
    let slow = 2 * judge.options.ledger.slow_max.as_micros() as Micros;
    let late = |request: &&Request| {
        let well = judge
            .logs
            .nodes
            .iter()
            .find(|run| run.run == request.run)
            .is_some_and(|run| !was_disturbed_by_pause(run, held_at, request.at));
        request.kind == RequestKind::Send
            && request.at > held_at + KILL_US + slow
            && request.at < until
            && !request.delayed
            && well
    };
    if let Some(request) = judge.logs.platform.iter().find(late) {
        let what = format!("a request left {} ms after the kill switch", (request.at - held_at) / 1_000);
        let delivery = request.send.as_ref().map(|send| send.delivery);
        judge.find("V16", Harm::Unexpected, delivery, what);
    }
}

fn was_disturbed_by_pause(run: &RunLog, from: Micros, until: Micros) -> bool {
    run.pauses.iter().any(|(start, end)| *start <= until && *end >= from)
}

/// V18: an ordered channel shows what was accepted first, first, and the parts of one delivery together.
fn ordered(judge: &mut Judge<'_>) {
    let mut found = Vec::new();
    let lanes: BTreeSet<i64> = judge
        .deliveries()
        .filter(|row| judge.place(row).is_some_and(|place| place.ordered))
        .map(|row| row.lane)
        .collect();
    for lane in lanes {
        for bulk in [false, true] {
            let first = |row: &DeliveryLog| accepted(judge.sends(row.id)).min();
            let last = |row: &DeliveryLog| accepted(judge.sends(row.id)).max();
            let clean = |row: &&DeliveryLog| {
                row.lane == lane && row.bulk == bulk && row.unknowns == 0 && row.status == "sent"
            };
            let mut shown: Vec<(i64, Micros, Micros)> = judge
                .deliveries()
                .filter(clean)
                .filter_map(|row| Some((row.id, first(row)?, last(row)?)))
                .collect();
            shown.sort_unstable();
            for pair in shown.windows(2) {
                if pair[1].1 < pair[0].2 {
                    found.push((pair[1].0, format!("shown before delivery {} was complete", pair[0].0)));
                }
            }
        }
    }
    for (id, what) in found {
        judge.find("V18", Harm::Unexpected, Some(id), what);
    }
    let mut found = Vec::new();
    for row in judge.deliveries().filter(|row| row.unknowns == 0 && !judge.began_again(row)) {
        let parts: Vec<usize> = judge
            .sends(row.id)
            .iter()
            .filter(|(_, send)| send.accepted_at.is_some())
            .map(|(_, send)| send.part)
            .collect();
        if !parts.is_sorted() {
            found.push((row.id, format!("the parts were shown in the order {parts:?}")));
        }
    }
    for (id, what) in found {
        judge.find("V18", Harm::Unexpected, Some(id), what);
    }
}

fn accepted<'a>(sends: &'a [(&Request, &SendLog)]) -> impl Iterator<Item = Micros> + 'a {
    sends.iter().filter_map(|(_, send)| send.accepted_at)
}

/// V22: an account never has more requests open than it may.
fn parallel(judge: &mut Judge<'_>) {
    let mut moves: BTreeMap<i64, Vec<(Micros, i32)>> = BTreeMap::new();
    for request in &judge.logs.platform {
        let (Some(send), Some(over_at)) = (&request.send, request.over_at) else {
            continue;
        };
        let row = judge.logs.ledger.deliveries.get(&send.delivery);
        let attempt = row.and_then(|row| row.attempts.iter().find(|attempt| attempt.attempt == send.attempt));
        // A holder that lost its lease is counted by nobody.
        if attempt.is_some_and(|attempt| attempt.outcome != "lease_expired") {
            let moves = moves.entry(request.account).or_default();
            moves.push((request.at, 1));
            moves.push((over_at, -1));
        }
    }
    for (id, mut moves) in moves {
        let most = judge.logs.world.accounts.get(&id).map_or(0, |account| account.max_parallel);
        moves.sort_unstable();
        let mut open = 0;
        for (at, change) in moves {
            open += change;
            if open > i32::try_from(most).unwrap_or(i32::MAX) {
                let what = format!("account {id} has {open} requests open at {at} us, {most} at most");
                judge.find("V22", Harm::Unexpected, None, what);
                break;
            }
        }
    }
}

/// V22: of what an account has out, no more are retries than it allows.
fn retries(judge: &mut Judge<'_>) {
    if !judge.logs.jumps.is_empty() {
        return;
    }
    let mut moves: BTreeMap<i64, Vec<(i64, i32)>> = BTreeMap::new();
    for row in judge.deliveries() {
        let again = row.attempts.iter().filter(|attempt| attempt.attempt > 1 && attempt.run != "adopted");
        let moves = moves.entry(row.account).or_default();
        moves.extend(again.flat_map(|attempt| [(attempt.started_at, 1), (attempt.finished_at, -1)]));
    }
    for (id, mut moves) in moves {
        let most = judge.logs.world.accounts.get(&id).map_or(0, |account| account.retry_parallel);
        moves.sort_unstable();
        let mut out = 0;
        for (at, change) in moves {
            out += change;
            if out > i32::try_from(most).unwrap_or(i32::MAX) {
                let what = format!(
                    "account {id} has {out} retries out at {:.3} s, {most} at most",
                    (at - START.0) as f64 / 1e6
                );
                judge.find("V22", Harm::Unexpected, None, what);
                break;
            }
        }
    }
}

/// V22: asking for work in vain stays rare, whatever the lanes wait for.
fn no_storms(judge: &mut Judge<'_>) {
    let end = judge.logs.platform.iter().map(|request| request.at).max().unwrap_or(0).max(judge.logs.calm_at);
    let mut found = Vec::new();
    for run in &judge.logs.nodes {
        let lived_us = run.crashed_at.or(run.stop.map(|stop| stop.asked_at)).unwrap_or(end) - run.started_at;
        let allowed = 100 + 40 * u64::try_from(lived_us / 1_000_000).unwrap_or(0);
        if run.empty_claims > allowed {
            let seconds = lived_us / 1_000_000;
            found.push(format!("{} asked {} times in vain in {seconds} s", run.run, run.empty_claims));
        }
    }
    for what in found {
        judge.find("V22", Harm::Unexpected, None, what);
    }
}

/// V21: once the troubles are over, everything ends within a bound. Poison goes on killing in the calm until it is
/// found out, and each time its account has one place less until the lease ends.
fn ended_in_time(judge: &mut Judge<'_>) {
    let options = judge.options;
    let killers = judge.deliveries().filter(|row| row.reason == "poison").count() as Micros;
    let bound = 180_000_000
        + Micros::from(LOST_CLAIMS_MAX) * killers * options.lease.as_micros() as Micros
        + options.platform.flood_max.as_micros() as Micros
        + 4 * options.lease.as_micros() as Micros
        + people::patience(options.mailings).as_micros() as Micros
        + 5_000_000 * options.messages as Micros
        + 60_000_000 * options.campaigns as Micros;
    match judge.logs.drained_at {
        Some(at) if at - judge.logs.calm_at <= bound => {}
        Some(at) => {
            let what = format!("it took {} s of calm to drain", (at - judge.logs.calm_at) / 1_000_000);
            judge.find("V21", Harm::Lost, None, what);
        }
        None => judge.find("V21", Harm::Lost, None, "it never drained".into()),
    }
}

/// V21: an orderly stop of a node that is well is over in time, with everything written down.
fn stops(judge: &mut Judge<'_>) {
    let drain = judge.options.drain().as_micros() as Micros;
    let mut found = Vec::new();
    for run in &judge.logs.nodes {
        let Some(stop) = run.stop.filter(|_| run.crashed_at.is_none()) else {
            continue;
        };
        let over_at = stop.over_at.unwrap_or(Micros::MAX);
        let disturbed = was_disturbed(
            judge,
            &RunLog { stop: None, ..run.clone() },
            stop.asked_at - judge.options.lease.as_micros() as Micros,
            over_at,
        );
        let in_time = over_at <= stop.asked_at.saturating_add(drain + 5_000_000);
        let good = stop.drained && in_time;
        if !disturbed && !good {
            found.push(format!(
                "{} was asked to stop at {} ms, over at {:?}, drained: {}",
                run.run,
                stop.asked_at / 1_000,
                stop.over_at.map(|at| at / 1_000),
                stop.drained
            ));
        }
    }
    for what in found {
        judge.find("V21", Harm::Unexpected, None, what);
    }
}
