//! V1, V13, V14 for people and chats: who is gone is left alone, a flood slows what it is about and no more.

use super::{Harm, Judge};
use crate::sim::log::{Answer, AttemptLog, DeliveryLog, Heard, Request, SendLog, Verb, Whole};

pub(super) fn check(judge: &mut Judge<'_>) {
    everybody_is_served(judge);
    gone_is_left_alone(judge);
    a_chat_that_flooded_is_left_alone(judge);
    accounts_cool_for_a_cause(judge);
}

/// V1: everybody who wants to hear has exactly one delivery of a mailing.
fn everybody_is_served(judge: &mut Judge<'_>) {
    for post in &judge.logs.client {
        let Some(Heard::Ok { message, deliveries, .. }) = post.heard.last() else {
            continue;
        };
        for who in &post.people {
            let rows: Vec<i64> = judge
                .deliveries()
                .filter(|row| row.message == *message && row.person == *who && row.generation == 0)
                .map(|row| row.id)
                .collect();
            let told = deliveries.iter().find(|(_, of)| of == who).map(|(id, _)| *id);
            let unwilling = rows.is_empty() && told.is_none() && was_away(judge, *who);
            // Who asked twice is told of no delivery that the first call made.
            let right = rows.len() == 1 && told.is_none_or(|id| rows == [id]);
            if !right && !unwilling {
                let what = format!(
                    "{} for person {who}: the client was told {told:?}, the ledger has {rows:?}",
                    post.marker
                );
                judge.find("V1", Harm::Lost, told, what);
            }
        }
    }
}

/// At some time they were gone or had said stop.
fn was_away(judge: &Judge<'_>, who: i64) -> bool {
    let stopped = judge.logs.operator.iter().any(|act| act.verb == Verb::Stop(who));
    let gone =
        |event: &crate::sim::log::EventLog| event.name == "recipient_gone" && event.person == Some(who);
    stopped || judge.logs.ledger.events.iter().any(gone)
}

/// The attempt that a request belongs to, if what it heard was written down.
fn written<'a>(row: &'a DeliveryLog, send: &SendLog) -> Option<&'a AttemptLog> {
    let attempt = row.attempts.iter().find(|attempt| attempt.attempt == send.attempt)?;
    (attempt.outcome != "lease_expired").then_some(attempt)
}

/// Requests to the same chat, of attempts that began after this instant.
fn later_requests<'a>(
    judge: &'a Judge<'_>,
    to: &'a DeliveryLog,
    since: i64,
) -> impl Iterator<Item = (&'a DeliveryLog, &'a Request)> {
    let same = move |row: &&DeliveryLog| (row.channel, row.person) == (to.channel, to.person);
    judge.deliveries().filter(same).flat_map(move |row| {
        let began = move |send: &SendLog| {
            row.attempts.iter().any(|a| a.attempt == send.attempt && a.started_at > since + judge.back_us)
        };
        let sends = judge.sends(row.id).iter();
        sends.filter(move |(_, send)| began(send)).map(move |(request, _)| (row, *request))
    })
}

/// V13: once it is written down that somebody is gone, no claim writes to them until they come back.
fn gone_is_left_alone(judge: &mut Judge<'_>) {
    let mut found = Vec::new();
    for row in judge.deliveries().filter(|row| row.person != 0) {
        for (_, send) in judge.sends(row.id).iter().filter(|(_, send)| send.answer == Some(Answer::Gone)) {
            let Some(attempt) = written(row, send) else {
                continue;
            };
            let since = attempt.finished_at;
            let returned = |until: i64| {
                judge.logs.operator.iter().any(|act| {
                    act.verb == Verb::Return(row.person)
                        && act.ledger_at + judge.back_us >= since
                        && act.ledger_at <= until + judge.back_us
                })
            };
            let again = later_requests(judge, row, since).find(|(_, request)| !returned(request.ledger_at));
            if let Some((other, _)) = again {
                found.push((other.id, format!("person {} is gone and is written to again", row.person)));
            }
        }
    }
    for (id, what) in found {
        judge.find("V13", Harm::Unexpected, Some(id), what);
    }
}

/// V14: while the wait of a chat lasts, no other delivery is sent there either, unless a person resumes it.
fn a_chat_that_flooded_is_left_alone(judge: &mut Judge<'_>) {
    if !judge.logs.jumps.is_empty() {
        return;
    }
    let mut found = Vec::new();
    for row in judge.deliveries() {
        for (_, send) in judge.sends(row.id) {
            let Some(Answer::Flood { retry_after_us, of: Whole::Chat }) = send.answer else {
                continue;
            };
            let Some(attempt) = written(row, send) else {
                continue;
            };
            let until = attempt.finished_at + retry_after_us;
            let resumed = judge.logs.operator.iter().any(|act| {
                let ours = act.verb == Verb::ResumeChannel(row.channel)
                    || act.verb == Verb::ResumeAccount(row.account)
                    || act.verb == Verb::Return(row.person);
                ours && act.ledger_at >= attempt.finished_at && act.ledger_at <= until
            });
            let early =
                later_requests(judge, row, attempt.finished_at).find(|(_, r)| r.ledger_at + 2_000 < until);
            if let Some((other, request)) = early.filter(|_| !resumed) {
                let left = (until - request.ledger_at) / 1_000;
                found.push((
                    other.id,
                    format!("sent to a chat that d{} made wait for {left} ms more", row.id),
                ));
            }
        }
    }
    for (id, what) in found {
        judge.find("V14", Harm::Unexpected, Some(id), what);
    }
}

/// V13: an account cools because the platform said so, or because a second of its chats flooded within the wait.
fn accounts_cool_for_a_cause(judge: &mut Judge<'_>) {
    let mut found = Vec::new();
    for event in judge.logs.ledger.events.iter().filter(|event| event.name == "cooldown") {
        let ended = |row: &&DeliveryLog| {
            Some(row.account) == event.account && row.attempts.iter().any(|a| a.finished_at == event.at)
        };
        let causes: Vec<&DeliveryLog> = judge.deliveries().filter(ended).collect();
        if !causes.iter().any(|row| cools(judge, row, event.at)) {
            let what = format!("account {:?} cools down at {} for no cause", event.account, event.at);
            found.push((causes.first().map(|row| row.id), what));
        }
    }
    for (id, what) in found {
        judge.find("V13", Harm::Unexpected, id, what);
    }
}

/// Whether what a delivery met in the attempt that ended at this instant is a reason to slow the whole account.
fn cools(judge: &Judge<'_>, row: &DeliveryLog, at: i64) -> bool {
    let Some(attempt) = row.attempts.iter().find(|attempt| attempt.finished_at == at) else {
        return false;
    };
    let answers: Vec<&SendLog> = judge
        .sends(row.id)
        .iter()
        .map(|(_, send)| *send)
        .filter(|send| send.attempt == attempt.attempt)
        .collect();
    match answers.last().and_then(|send| send.answer.as_ref()) {
        Some(Answer::Flood { of: Whole::Chat, .. }) => second_flood(judge, row, at),
        // A pause that a chat has asked for is no news about the account.
        None => attempt.error.as_ref().is_some_and(|error| error.scope == "platform"),
        Some(_) => true,
    }
}

/// Another chat of the account had flooded, and its wait was not over.
fn second_flood(judge: &Judge<'_>, row: &DeliveryLog, at: i64) -> bool {
    let others = judge.deliveries().filter(|other| {
        other.account == row.account && (other.channel, other.person) != (row.channel, row.person)
    });
    others.flat_map(|other| &other.attempts).any(|attempt| {
        let flood = attempt.error.as_ref().and_then(|error| error.retry_after_ms);
        let lasts = |ms: i64| attempt.finished_at + ms * 1_000 + judge.back_us > at;
        attempt.finished_at <= at + judge.back_us && flood.is_some_and(lasts)
    })
}

/// What must happen to people now and then.
pub(super) fn happened(judge: &Judge<'_>, sometimes: &mut dyn FnMut(&'static str)) {
    for row in judge.deliveries().filter(|row| row.person != 0) {
        let dialogue = judge.logs.world.dialogues.contains_key(&row.lane);
        match (row.status.as_str(), dialogue) {
            ("sent", true) => sometimes("people: somebody was answered in a dialogue"),
            ("sent", false) => sometimes("people: somebody was reached by a campaign"),
            _ => {}
        }
        if row.status == "sent" && row.flood_waits > 0 {
            sometimes("people: a chat that flooded was written to after its wait");
        }
        if row.reason == "recipient_gone" {
            sometimes("people: a delivery ended because its person is gone");
        }
    }
}
