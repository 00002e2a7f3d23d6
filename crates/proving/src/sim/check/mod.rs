//! The checker: reads the logs of a run and judges the invariants of docs/simulation.md.
//!
//! It knows nothing of the engine: not its types, not its rules for what comes next, only what must never be seen.
//! Every finding names the invariant, what kind of harm it is, and the whole history of the delivery.

mod campaigns;
mod claims;
mod intake;
mod people;
mod readers;
mod sends;
mod timing;

use std::collections::{BTreeMap, BTreeSet};

use super::log::{Answer, DeliveryLog, Heard, Logs, Post, Request, SendLog};
use super::options::Options;

/// Something that must never be seen.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    /// `V1` to `V22`, and `K3` to `K9` of campaigns.
    pub invariant: &'static str,
    pub harm: Harm,
    pub delivery: Option<i64>,
    pub what: String,
    pub history: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// Accepted, and not there or never ended.
    Lost,
    /// There, and nobody asked for it; or in a way nobody allowed.
    Unexpected,
    /// Shown more often than the policy allows.
    Duplicated,
}

/// What a run did, in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub messages: u64,
    pub deliveries: u64,
    pub sent: u64,
    pub requests: u64,
    /// Shown more than once, as their policy allows after an outcome nobody could know.
    pub duplicated: u64,
    /// Sent although a claim was lost or an outcome unknown on the way.
    pub recovered: u64,
    /// Dead because nobody knows the outcome, for a person to look at.
    pub held: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.messages += other.messages;
        self.deliveries += other.deliveries;
        self.sent += other.sent;
        self.requests += other.requests;
        self.duplicated += other.duplicated;
        self.recovered += other.recovered;
        self.held += other.held;
    }
}

pub(super) fn check(
    logs: &Logs,
    options: &Options,
    sometimes: &mut dyn FnMut(&'static str),
) -> (Vec<Violation>, Tally) {
    let mut judge = Judge::new(logs, options);
    intake::check(&mut judge);
    claims::check(&mut judge);
    sends::check(&mut judge);
    timing::check(&mut judge);
    people::check(&mut judge);
    campaigns::check(&mut judge);
    readers::check(&mut judge);
    people::happened(&judge, sometimes);
    campaigns::happened(&judge, sometimes);
    readers::happened(&judge, sometimes);
    let tally = judge.tally(sometimes);
    (judge.violations, tally)
}

/// A destination, and how its lane queues.
struct Place<'a> {
    workspace: i64,
    account: i64,
    target: &'a str,
    policy: &'static str,
    /// One at a time: what was accepted first is said first.
    ordered: bool,
    /// The platform recognises repeats by their key.
    keyed: bool,
    /// Long texts go out in several parts instead of being cut.
    split: bool,
}

struct Judge<'a> {
    logs: &'a Logs,
    options: &'a Options,
    /// The requests of each delivery in the order of their arrival.
    sends: BTreeMap<i64, Vec<(&'a Request, &'a SendLog)>>,
    /// How far the ledger's clock may have gone back in all.
    back_us: i64,
    violations: Vec<Violation>,
}

impl<'a> Judge<'a> {
    fn new(logs: &'a Logs, options: &'a Options) -> Judge<'a> {
        let mut sends: BTreeMap<i64, Vec<(&Request, &SendLog)>> = BTreeMap::new();
        for request in &logs.platform {
            if let Some(send) = &request.send {
                sends.entry(send.delivery).or_default().push((request, send));
            }
        }
        let back_us = logs.jumps.iter().map(|(_, by)| (-by).max(0)).sum();
        Judge { logs, options, sends, back_us, violations: Vec::new() }
    }

    fn deliveries(&self) -> impl Iterator<Item = &'a DeliveryLog> + use<'a> {
        self.logs.ledger.deliveries.values()
    }

    /// Where a delivery goes: a channel or a person.
    fn place(&self, row: &DeliveryLog) -> Option<Place<'a>> {
        if let Some(person) = self.logs.world.people.get(&row.person) {
            return Some(Place {
                workspace: person.workspace,
                account: person.account,
                target: &person.target,
                policy: person.policy,
                ordered: self.logs.world.dialogues.contains_key(&row.lane),
                keyed: person.keyed,
                split: false,
            });
        }
        let channel = self.logs.world.channels.get(&row.channel)?;
        Some(Place {
            workspace: channel.workspace,
            account: channel.account,
            target: &channel.target,
            policy: channel.policy,
            ordered: channel.ordered,
            keyed: channel.keyed,
            split: channel.split,
        })
    }

    /// The post that a delivery carries.
    fn post(&self, row: &DeliveryLog) -> Option<&'a Post> {
        self.logs.client.iter().find(
            |post| matches!(post.heard.last(), Some(Heard::Ok { message, .. }) if *message == row.message),
        )
    }

    /// An edit that was half done when newer words came changes all parts once more, which no reader sees twice.
    fn began_again(&self, row: &DeliveryLog) -> bool {
        let first = self.sends(row.id).iter().filter(|(_, send)| send.part == 0);
        let wordings: BTreeSet<&str> = first.map(|(_, send)| send.text.as_str()).collect();
        row.action == "edit" && wordings.len() > 1
    }

    fn sends(&self, delivery: i64) -> &[(&'a Request, &'a SendLog)] {
        self.sends.get(&delivery).map_or(&[], Vec::as_slice)
    }

    fn find(&mut self, invariant: &'static str, harm: Harm, delivery: Option<i64>, what: String) {
        let history = delivery.map(|id| self.history(id)).unwrap_or_default();
        self.violations.push(Violation { invariant, harm, delivery, what, history });
    }

    /// Everything known of one delivery, in order.
    fn history(&self, id: i64) -> Vec<String> {
        let Some(row) = self.logs.ledger.deliveries.get(&id) else {
            return vec![format!("delivery {id} has no row")];
        };
        let mut lines = vec![format!(
            "d{id} {} message {} channel {} person {} ({}) generation {}: {} {} after {} attempts, charged {} unknowns {} lost {}",
            row.action,
            row.message,
            row.channel,
            row.person,
            self.place(row).map_or("?", |place| place.policy),
            row.generation,
            row.status,
            row.reason,
            row.attempt,
            row.charged,
            row.unknowns,
            row.lost_claims
        )];
        for attempt in &row.attempts {
            lines.push(format!(
                "  attempt {} by {} at {} asked {:?} ended {} {}: {:?} {:?}",
                attempt.attempt,
                attempt.run,
                since_start(attempt.started_at),
                attempt.requested_at.map(since_start),
                since_start(attempt.finished_at),
                attempt.outcome,
                attempt.error.as_ref().map(|error| (&error.code, error.unknown, error.retry_after_ms)),
                attempt.provider_id
            ));
        }
        for (request, send) in self.sends(id) {
            lines.push(format!(
                "  request at {:.3} s by {} part {} attempt {} accepted {:?} as {:?} heard {:?}{}",
                request.at as f64 / 1e6,
                request.run,
                send.part,
                send.attempt,
                send.accepted_at.map(|at| at as f64 / 1e6),
                send.visible,
                send.answer,
                if request.delayed { " (held up)" } else { "" }
            ));
        }
        lines
    }

    fn tally(&self, sometimes: &mut dyn FnMut(&'static str)) -> Tally {
        let mut tally = Tally {
            messages: self.logs.ledger.messages.len() as u64,
            deliveries: self.logs.ledger.deliveries.len() as u64,
            requests: self.logs.platform.len() as u64,
            ..Tally::default()
        };
        for row in self.deliveries() {
            let sent = row.status == "sent";
            tally.sent += u64::from(sent);
            tally.recovered += u64::from(sent && (row.unknowns > 0 || row.lost_claims > 0));
            tally.held += u64::from(row.reason == "outcome_unknown" && row.status == "dead");
            if self.shown(row.id).values().any(|ids| ids.len() > 1) {
                tally.duplicated += 1;
                sometimes("delivery: shown twice after an unknown outcome");
            }
            if row.reason == "poison" {
                sometimes("delivery: dead as poison");
            }
            if self.resumed(row.id) {
                sometimes("delivery: a later claim sent only the missing parts");
            }
        }
        if self.logs.ledger.events.iter().any(|event| event.name == "cooldown") && self.escalated() {
            sometimes("delivery: flood of a second chat cooled the account");
        }
        tally
    }

    /// What a reader sees of each part: different ids are different posts.
    fn shown(&self, id: i64) -> BTreeMap<usize, Vec<&'a [String]>> {
        let mut shown: BTreeMap<usize, Vec<&[String]>> = BTreeMap::new();
        for (_, send) in self.sends(id) {
            if send.accepted_at.is_some() {
                let ids = shown.entry(send.part).or_default();
                if !ids.contains(&send.visible.as_slice()) {
                    ids.push(&send.visible);
                }
            }
        }
        shown
    }

    /// A later attempt began behind the first part.
    fn resumed(&self, id: i64) -> bool {
        let sends = self.sends(id);
        sends.iter().any(|(_, send)| {
            let first_of_attempt = sends.iter().find(|(_, other)| other.attempt == send.attempt);
            send.attempt > 1 && first_of_attempt.is_some_and(|(_, first)| first.part > 0)
        })
    }

    /// Two chats of one account flooded within the wait of the first.
    fn escalated(&self) -> bool {
        let floods: Vec<_> = self
            .logs
            .platform
            .iter()
            .filter_map(|request| match request.send.as_ref() {
                Some(SendLog {
                    answer: Some(Answer::Flood { retry_after_us, .. }),
                    target,
                    answered_at,
                    ..
                }) => Some((request.account, target, answered_at.unwrap_or(0), *retry_after_us)),
                _ => None,
            })
            .collect();
        floods.iter().enumerate().any(|(n, (account, target, at, wait))| {
            floods[n + 1..].iter().any(|(other_account, other, later, _)| {
                account == other_account && target != other && later < &(at + wait)
            })
        })
    }
}

fn since_start(ledger_at: i64) -> f64 {
    (ledger_at - super::world::START.0) as f64 / 1e6
}
