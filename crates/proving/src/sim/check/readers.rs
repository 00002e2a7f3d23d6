//! V12 for posts that live on: readers see the newest words, in the same place, and not what was taken back.

use std::collections::BTreeMap;

use super::{Harm, Judge};
use crate::sim::log::{Act, AttemptLog, DeliveryLog, Micros, Post, SendLog};

pub(super) fn check(judge: &mut Judge<'_>) {
    let seen = Seen::of(judge);
    for row in judge.deliveries() {
        in_its_place(judge, row);
        if row.action == "reply" {
            answers(judge, row);
        }
        if row.action == "send" && row.channel != 0 && row.generation == 0 && row.status == "sent" {
            newest_words(judge, &seen, row);
            taken_back(judge, &seen, row);
        }
        not_after_it_vanished(judge, row);
    }
}

/// What stands in the chats in the end: the words under each id, or nothing any more.
struct Seen<'a>(BTreeMap<(&'a str, &'a str), Option<&'a str>>);

impl<'a> Seen<'a> {
    fn of(judge: &Judge<'a>) -> Seen<'a> {
        let mut sends: Vec<(Micros, &SendLog)> = judge
            .logs
            .platform
            .iter()
            .filter_map(|request| request.send.as_ref())
            .filter_map(|send| Some((send.accepted_at?, send)))
            .collect();
        sends.sort_by_key(|(at, _)| *at);
        let mut seen = BTreeMap::new();
        for (_, send) in sends {
            let target = send.target.as_str();
            match &send.act {
                // A repeated key shows the earlier post as it is.
                Act::Say { .. } if send.repeated => {}
                Act::Say { .. } => {
                    for (n, id) in send.visible.iter().enumerate() {
                        let text = if n == 0 { send.text.as_str() } else { "" };
                        seen.insert((target, id.as_str()), Some(text));
                    }
                }
                Act::Change(id) => {
                    if let Some(place) = seen.get_mut(&(target, id.as_str())).filter(|text| text.is_some()) {
                        *place = Some(send.text.as_str());
                    }
                }
                Act::Remove(ids) => {
                    for id in ids {
                        seen.insert((target, id.as_str()), None);
                    }
                }
                Act::Pin => {}
            }
        }
        Seen(seen)
    }

    fn text(&self, target: &str, id: &str) -> Option<&'a str> {
        self.0.get(&(target, id)).copied().flatten()
    }
}

/// An edit and a deletion change what is there: neither ever shows something new.
fn in_its_place(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let new = |send: &SendLog| matches!(send.act, Act::Say { .. });
    let is_new = judge.sends(row.id).iter().any(|(_, send)| new(send));
    let may = matches!(row.action, "send" | "reply");
    if is_new && !may {
        let what = format!("an {} became a post of its own", row.action);
        judge.find("V12", Harm::Duplicated, Some(row.id), what);
    }
}

/// An answer stands under the search that it answers, and only its first part does.
fn answers(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let search = judge.post(row).and_then(|post| post.life.answers);
    let Some(search) = search.and_then(|number| judge.logs.client.iter().find(|post| post.number == number))
    else {
        judge.find("V12", Harm::Unexpected, Some(row.id), "an answer to nothing".into());
        return;
    };
    let targets: Vec<&String> = judge
        .deliveries()
        .filter(|other| other.channel == row.channel && other.action == "send")
        .filter(|other| judge.post(other).is_some_and(|post| post.number == search.number))
        .flat_map(|other| judge.sends(other.id))
        .flat_map(|(_, send)| &send.visible)
        .collect();
    let astray = judge.sends(row.id).iter().find(|(_, send)| match &send.act {
        Act::Say { reply_to: Some(id) } => !targets.contains(&id),
        Act::Say { reply_to: None } => send.part == 0,
        _ => true,
    });
    if let Some((_, send)) = astray {
        let what = format!("an answer under {:?}, the search stands at {targets:?}", send.act);
        judge.find("V12", Harm::Unexpected, Some(row.id), what);
    }
}

/// The deliveries that follow a post in its channel.
fn followers<'a>(judge: &Judge<'a>, row: &DeliveryLog) -> Vec<&'a DeliveryLog> {
    let same = |other: &&DeliveryLog| other.message == row.message && other.channel == row.channel;
    judge.deliveries().filter(same).filter(|other| other.id != row.id).collect()
}

/// A post whose every request had an answer, so that each id in the chat is known to the ledger.
fn is_plain(judge: &Judge<'_>, row: &DeliveryLog, followers: &[&DeliveryLog]) -> bool {
    let known = |row: &DeliveryLog| row.status == "sent" && row.unknowns == 0 && row.generation == 0;
    let there = judge.logs.world.channels.get(&row.channel).is_some_and(|c| c.removed_at.is_none());
    there && known(row) && followers.iter().all(|other| known(other))
}

fn ids<'a>(judge: &Judge<'a>, row: &DeliveryLog) -> Vec<(&'a str, &'a str)> {
    let accepted = judge.sends(row.id).iter().filter(|(_, send)| send.accepted_at.is_some());
    let ids =
        accepted.flat_map(|(_, send)| send.visible.iter().map(|id| (send.target.as_str(), id.as_str())));
    ids.collect()
}

/// When everything has come to an end, the newest words are what a reader finds.
fn newest_words(judge: &mut Judge<'_>, seen: &Seen<'_>, row: &DeliveryLog) {
    let Some(post) = judge.post(row).filter(|post| post.life.revision > 0 && post.life.gone_at.is_none())
    else {
        return;
    };
    let followers = followers(judge, row);
    if !is_plain(judge, row, &followers) {
        return;
    }
    let shown: Vec<&str> = ids(judge, row).iter().filter_map(|(target, id)| seen.text(target, id)).collect();
    let shown = shown.join(" ");
    if let Some(what) = stale(&shown, post) {
        judge.find("V12", Harm::Lost, Some(row.id), what);
    }
}

fn stale(shown: &str, post: &Post) -> Option<String> {
    let newest = format!("правка{}", post.life.revision);
    let mut words = shown.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("правка"));
    match words.next() {
        Some(word) if word == newest => None,
        word => Some(format!("a reader finds {word:?} of {}, the newest is {newest}", post.marker)),
    }
}

/// What vanished at its source is not there any more where the channel wants that.
fn taken_back(judge: &mut Judge<'_>, seen: &Seen<'_>, row: &DeliveryLog) {
    let takes_back = judge.logs.world.channels.get(&row.channel).is_some_and(|c| c.takes_back);
    let gone = judge.post(row).is_some_and(|post| post.life.gone_at.is_some());
    let followers = followers(judge, row);
    if !takes_back || !gone || !is_plain(judge, row, &followers) {
        return;
    }
    if let Some((_, id)) = ids(judge, row).iter().find(|(target, id)| seen.text(target, id).is_some()) {
        let what = format!("its source is gone, but readers still find {id}");
        judge.find("V12", Harm::Unexpected, Some(row.id), what);
    }
}

/// A claim that began after its source had vanished says nothing, unless a person asked for it, or something of it may be
/// visible already: then it goes on, so that what is there is known.
fn not_after_it_vanished(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let gone_at = judge.post(row).and_then(|post| post.life.gone_at);
    let Some(gone_at) = gone_at.filter(|_| row.action == "send" && row.generation == 0) else {
        return;
    };
    let sends = judge.sends(row.id);
    let first = row.attempts.iter().find(|attempt| attempt.started_at > gone_at + judge.back_us);
    let visible = |attempt: i32| {
        let unknown = row.attempts.iter().any(|earlier| earlier.attempt < attempt && is_unknown(earlier));
        unknown || sends.iter().any(|(_, send)| send.attempt < attempt && send.accepted_at.is_some())
    };
    let late = first.is_some_and(|first| {
        sends.iter().any(|(_, send)| send.attempt >= first.attempt) && !visible(first.attempt)
    });
    if late {
        judge.find("V12", Harm::Unexpected, Some(row.id), "sent after its source had vanished".into());
    }
}

fn is_unknown(attempt: &AttemptLog) -> bool {
    let lost = attempt.outcome == "lease_expired" && attempt.requested_at.is_some();
    lost || attempt.error.as_ref().is_some_and(|error| error.unknown)
}

/// What must happen to posts now and then.
pub(super) fn happened(judge: &Judge<'_>, sometimes: &mut dyn FnMut(&'static str)) {
    for row in judge.deliveries() {
        let sent = row.status == "sent";
        match row.action {
            "edit" if sent => sometimes("post: new words took the place of the old"),
            "reply" if sent => sometimes("post: the end of a story was answered"),
            "delete" if sent => sometimes("post: what vanished was taken back"),
            _ => {}
        }
        if row.parts.len() > 1 && row.action == "edit" && sent {
            sometimes("post: new words for a post of several parts");
        }
        let post = judge.post(row);
        if row.action == "send" && row.reason == "cancelled" && post.is_some_and(|p| p.life.gone_at.is_some())
        {
            sometimes("post: vanished before it was said");
        }
        let newest = |post: &Post| {
            let newest = format!("правка{}", post.life.revision);
            post.life.revision > 1 && judge.sends(row.id).iter().any(|(_, send)| send.text.contains(&newest))
        };
        if row.action == "send" && post.is_some_and(newest) {
            sometimes("post: changed before it was said");
        }
    }
}
