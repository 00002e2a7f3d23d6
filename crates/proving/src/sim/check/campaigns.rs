//! K1 to K9: nobody twice, nobody skipped, nothing while it rests. K1, K2, K4 and half of K5 are the store's own audit,
//! which is asked on the way and in the end; K7 is V22.

use std::collections::{BTreeMap, BTreeSet};

use domain::campaign::{CampaignStatus, Window};
use domain::time::Timestamp;

use super::{Harm, Judge};
use crate::sim::log::{CampaignLog, DeliveryLog, MemberLog, Micros, Verb};

pub(crate) fn check(judge: &mut Judge<'_>) {
    for (id, campaign) in &judge.logs.ledger.campaigns {
        one_each(judge, *id, campaign);
        accounted_for(judge, *id, campaign);
        rests(judge, *id);
        waves(judge, *id);
        in_its_window(judge, *id, campaign);
        before_its_deadline(judge, *id, campaign);
        asleep_when_it_goes_on(judge, *id, campaign);
    }
    marked_while_open(judge);
    stopped_is_left_alone(judge);
    same_lots(judge);
}

fn of<'a>(judge: &Judge<'a>, campaign: i64) -> impl Iterator<Item = &'a DeliveryLog> + use<'a> {
    judge.deliveries().filter(move |row| row.campaign == Some(campaign))
}

/// K2, K3: one row a person, and one delivery in each wave, from one bot.
fn one_each(judge: &mut Judge<'_>, id: i64, campaign: &CampaignLog) {
    let mut found = Vec::new();
    let people: BTreeSet<_> = campaign.members.iter().map(|member| &member.who).collect();
    if people.len() != campaign.members.len() || campaign.total != campaign.members.len() as i64 {
        found.push((None, format!("campaign {id} has somebody twice, or not at all")));
    }
    let mut rows: BTreeMap<(&str, i64), Vec<&DeliveryLog>> = BTreeMap::new();
    for row in of(judge, id) {
        if let Some(person) = judge.logs.world.people.get(&row.person) {
            rows.entry((person.user.as_str(), row.account)).or_default().push(row);
        }
    }
    let mut accounts: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for ((user, account), rows) in &rows {
        accounts.entry(user).or_default().insert(*account);
        let waves: BTreeSet<i32> = rows.iter().map(|row| row.generation).collect();
        if waves.len() < rows.len() {
            let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
            found.push((ids.last().copied(), format!("{user} has the deliveries {ids:?} of campaign {id}")));
        }
        let reached = rows.iter().filter(|row| row.status == "sent").count();
        if reached > 1 && rows.iter().all(|row| row.unknowns == 0) {
            found.push((rows.last().map(|row| row.id), format!("{user} got campaign {id} {reached} times")));
        }
    }
    // Ids of different platforms are different people, with bots of their own.
    for member in &campaign.members {
        let of_member = accounts.get(member.who.1.as_str()).is_some_and(|all| all.contains(&member.account));
        if matches!(member.state.as_str(), "sent" | "failed" | "dead") && !of_member {
            found.push((None, format!("{:?} is {} without a delivery", member.who, member.state)));
        }
    }
    for (delivery, what) in found {
        judge.find("K3", Harm::Duplicated, delivery, what);
    }
}

/// K5: what is over has ended for everybody, and nothing of it ends later.
fn accounted_for(judge: &mut Judge<'_>, id: i64, campaign: &CampaignLog) {
    if !campaign.status.is_over() {
        let what = format!("campaign {id} never ended: {}", campaign.status);
        judge.find("K5", Harm::Lost, None, what);
        return;
    }
    let open =
        |member: &&MemberLog| matches!(member.state.as_str(), "waiting" | "queued" | "retry" | "sending");
    if let Some(member) = campaign.members.iter().find(open) {
        let what = format!("campaign {id} is {}, but {:?} is {}", campaign.status, member.who, member.state);
        judge.find("K5", Harm::Lost, None, what);
    }
    let Some(ended_at) = campaign.ended_at.filter(|_| judge.back_us == 0) else {
        return;
    };
    // A success that came after its lease had ended is adopted whenever it comes.
    let late = of(judge, id)
        .find(|row| row.reason != "late_success" && row.ended_at.is_some_and(|at| at > ended_at));
    if let Some(row) = late {
        let what = format!("campaign {id} was over while somebody was on the way");
        judge.find("K5", Harm::Unexpected, Some(row.id), what);
    }
}

/// What it became, and when.
fn moves(judge: &Judge<'_>, campaign: i64) -> Vec<(i64, CampaignStatus)> {
    let became = judge.logs.ledger.events.iter();
    became
        .filter_map(|event| event.became.filter(|(id, _)| *id == campaign).map(|(_, to)| (event.at, to)))
        .collect()
}

/// K6: between the return of a pause and what lets it go on, the platform receives nothing.
fn rests(judge: &mut Judge<'_>, id: i64) {
    let acts = &judge.logs.operator;
    let mut found = Vec::new();
    for (n, act) in acts.iter().enumerate().filter(|(_, act)| act.verb == Verb::CampaignRests(id)) {
        let goes_on = |verb: &Verb| match verb {
            Verb::ResumeCampaign(other) => *other == id,
            Verb::RetryCampaign { campaign, .. } => *campaign == id,
            _ => false,
        };
        let until = acts[n..].iter().find(|act| goes_on(&act.verb)).map_or(Micros::MAX, |act| act.at);
        for row in of(judge, id) {
            // A node that stood still wakes without knowing; the simulator itself held up some requests.
            let early = judge.sends(row.id).iter().find(|(request, _)| {
                let run = judge.logs.nodes.iter().find(|run| run.run == request.run);
                let stood = run.is_some_and(|run| {
                    run.pauses.iter().any(|(from, to)| *from <= request.at && *to + 1_000_000 >= act.at)
                });
                request.at > act.at && request.at < until && !request.delayed && !stood
            });
            if let Some((request, _)) = early {
                let after = (request.at - act.at) / 1_000;
                found.push((row.id, format!("campaign {id} sent {after} ms after its pause had returned")));
            }
        }
    }
    for (delivery, what) in found {
        judge.find("K6", Harm::Unexpected, Some(delivery), what);
    }
}

/// K6: no request is marked while the campaign is anything but open.
fn marked_while_open(judge: &mut Judge<'_>) {
    if !judge.logs.jumps.is_empty() {
        return;
    }
    let mut found = Vec::new();
    for row in judge.deliveries() {
        let Some(campaign) = row.campaign else {
            continue;
        };
        let moves = moves(judge, campaign);
        for at in row.attempts.iter().filter_map(|attempt| attempt.requested_at) {
            // What happens in the same microsecond may have happened before or after.
            let before = moves.iter().rev().find(|(when, _)| *when < at);
            let same = moves.iter().any(|(when, _)| *when == at);
            if !same && before.is_none_or(|(_, status)| !status.is_open()) {
                found.push((row.id, format!("marked while its campaign was {before:?}")));
            }
        }
    }
    for (delivery, what) in found {
        judge.find("K6", Harm::Unexpected, Some(delivery), what);
    }
}

/// K6: once a stop is on paper, nothing is made for this person and no request to them is marked.
fn stopped_is_left_alone(judge: &mut Judge<'_>) {
    if !judge.logs.jumps.is_empty() {
        return;
    }
    let mut found = Vec::new();
    let acts = &judge.logs.operator;
    for (n, act) in acts.iter().enumerate() {
        let Verb::Stop(person) = act.verb else {
            continue;
        };
        let back = acts[n..].iter().find(|later| later.verb == Verb::Return(person));
        let until = back.map_or(i64::MAX, |act| act.ledger_at);
        let while_stopped = |at: i64| at > act.ledger_at && at < until;
        for row in judge.deliveries().filter(|row| row.person == person && row.campaign.is_some()) {
            if while_stopped(row.queued_at) {
                found.push((row.id, format!("made for person {person} after they had stopped")));
            }
            if row.attempts.iter().filter_map(|attempt| attempt.requested_at).any(while_stopped) {
                found.push((row.id, format!("marked for person {person} after they had stopped")));
            }
        }
    }
    for (delivery, what) in found {
        judge.find("K6", Harm::Unexpected, Some(delivery), what);
    }
}

/// A new wave is for who failed for certain, or also for the unknown where somebody wanted that.
fn waves(judge: &mut Judge<'_>, id: i64) {
    let asks = |row: &DeliveryLog| {
        judge.logs.operator.iter().rev().find_map(|act| match act.verb {
            Verb::RetryCampaign { campaign, unknown } if campaign == id && act.ledger_at <= row.queued_at => {
                Some(unknown)
            }
            _ => None,
        })
    };
    let mut found = Vec::new();
    for row in of(judge, id).filter(|row| row.generation > 0) {
        let parent = row.parent.and_then(|parent| judge.logs.ledger.deliveries.get(&parent));
        let failed = parent.is_some_and(|parent| {
            matches!(parent.status.as_str(), "dead" | "failed_permanent")
                && !matches!(parent.reason.as_str(), "recipient_gone" | "stopped" | "cancelled")
        });
        let unknown = parent.is_some_and(|parent| parent.unknowns > 0);
        let asked = judge.back_us > 0 || asks(row).is_some_and(|also_unknown| also_unknown || !unknown);
        // An outcome that came too late makes a parent sent, and nobody could know.
        let late = parent.is_some_and(|parent| parent.reason == "late_success");
        if !late && (!failed || !asked) {
            found.push((row.id, format!("a new wave of campaign {id} for who did not fail")));
        }
    }
    for (delivery, what) in found {
        judge.find("K3", Harm::Duplicated, Some(delivery), what);
    }
}

/// K8: nobody is written to long after their window closed, neither for the first time nor again. The loop that takes them
/// back runs on nodes that die and stand still.
fn in_its_window(judge: &mut Judge<'_>, id: i64, campaign: &CampaignLog) {
    let Some(window) = campaign.window.as_deref().and_then(Window::parse) else {
        return;
    };
    if !judge.logs.jumps.is_empty() {
        return;
    }
    let grace = 4 * judge.options.lease.as_micros() as i64 + 10_000_000;
    let mut found = Vec::new();
    for row in of(judge, id) {
        let zone = judge.logs.world.people.get(&row.person).map_or("", |person| person.zone);
        for (n, at) in row.attempts.iter().enumerate().filter_map(|(n, one)| Some((n, one.requested_at?))) {
            if !window.is_open(zone, Timestamp(at)) && !window.is_open(zone, Timestamp(at - grace)) {
                let what = format!("campaign {id} writes to {zone:?} outside its window, try {n}");
                found.push((row.id, what));
            }
        }
    }
    for (delivery, what) in found {
        judge.find("K8", Harm::Unexpected, Some(delivery), what);
    }
}

/// K8: no request is marked after the deadline of its wave.
fn before_its_deadline(judge: &mut Judge<'_>, id: i64, campaign: &CampaignLog) {
    let Some(length) = campaign.deadline_us.filter(|_| judge.logs.jumps.is_empty()) else {
        return;
    };
    let (mut begun, mut was) = (Vec::new(), CampaignStatus::Draft);
    for (at, next) in moves(judge, id) {
        if next == CampaignStatus::Preparing && was != CampaignStatus::Paused {
            begun.push(at);
        }
        was = next;
    }
    let mut found = Vec::new();
    for row in of(judge, id) {
        for at in row.attempts.iter().filter_map(|one| one.requested_at) {
            let wave = begun.iter().rev().find(|begun| **begun <= at);
            if wave.is_none_or(|begun| at >= begun + length) {
                found.push((row.id, format!("campaign {id} writes to somebody after its deadline")));
            }
        }
    }
    for (delivery, what) in found {
        judge.find("K8", Harm::Unexpected, Some(delivery), what);
    }
}

/// K8: who sleeps when a paused campaign goes on is not written to before somebody looks: no grace here. What came back from
/// a node at that very moment is taken back by the next look.
fn asleep_when_it_goes_on(judge: &mut Judge<'_>, id: i64, campaign: &CampaignLog) {
    let window = campaign.window.as_deref().and_then(Window::parse);
    let Some(window) = window.filter(|_| judge.logs.jumps.is_empty()) else {
        return;
    };
    let moves = moves(judge, id);
    let goes_on = moves
        .windows(2)
        .filter(|pair| pair[0].1 == CampaignStatus::Paused && pair[1].1 == CampaignStatus::Running);
    let mut found = Vec::new();
    for at in goes_on.map(|pair| pair[1].0) {
        for row in of(judge, id).filter(|row| row.queued_at < at) {
            let zone = judge.logs.world.people.get(&row.person).map_or("", |person| person.zone);
            let opens = window.next_change(zone, Timestamp(at));
            if window.is_open(zone, Timestamp(at)) {
                continue;
            }
            let came_back =
                row.attempts.iter().any(|one| one.started_at <= at && one.finished_at > at - 2_000_000);
            let woken =
                row.attempts.iter().filter_map(|one| one.requested_at).any(|requested| {
                    requested > at && opens.is_none_or(|opens| Timestamp(requested) < opens)
                });
            if woken && !came_back {
                found.push((
                    row.id,
                    format!("campaign {id} went on and wrote to {zone:?} outside its window"),
                ));
            }
        }
    }
    for (delivery, what) in found {
        judge.find("K8", Harm::Unexpected, Some(delivery), what);
    }
}

/// K9: the same seed gives a person the same variant.
fn same_lots(judge: &mut Judge<'_>) {
    let mut lots: BTreeMap<(&str, &(String, String)), i32> = BTreeMap::new();
    let mut found = Vec::new();
    for (id, campaign) in &judge.logs.ledger.campaigns {
        for member in &campaign.members {
            let lot = *lots.entry((&campaign.seed, &member.who)).or_insert(member.variant);
            if lot != member.variant {
                found.push(format!("{:?} drew {lot} and in campaign {id} {}", member.who, member.variant));
            }
        }
    }
    for what in found {
        judge.find("K9", Harm::Unexpected, None, what);
    }
}

/// What must happen to campaigns now and then.
pub(crate) fn happened(judge: &Judge<'_>, sometimes: &mut dyn FnMut(&'static str)) {
    for (id, campaign) in &judge.logs.ledger.campaigns {
        if campaign.status == CampaignStatus::Finished {
            sometimes("campaign: finished, everybody accounted for");
        }
        let mut bots: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
        for person in judge.logs.world.people.values() {
            bots.entry(&person.user).or_default().insert(person.account);
        }
        for row in of(judge, *id) {
            if row.status == "sent" && row.generation > 0 {
                sometimes("campaign: a later wave reached somebody");
            }
            if row.reason == "stopped" {
                sometimes("campaign: somebody stopped between two tries");
            }
            let user = judge.logs.world.people.get(&row.person).map_or("", |person| person.user.as_str());
            if row.status == "sent" && bots.get(user).is_some_and(|bots| bots.len() > 1) {
                sometimes("campaign: somebody on several bots got it from one");
            }
        }
    }
}
