//! V9 to V12, V15: how often the platforms got something, whether it was on paper before, and what readers see.

use std::collections::{BTreeMap, BTreeSet};

use super::{Harm, Judge};
use crate::sim::log::{DeliveryLog, Post, SendLog};

pub(super) fn check(judge: &mut Judge<'_>) {
    let strangers: Vec<i64> =
        judge.sends.keys().filter(|id| !judge.logs.ledger.deliveries.contains_key(id)).copied().collect();
    for id in strangers {
        judge.find(
            "V10",
            Harm::Unexpected,
            Some(id),
            format!("a request for delivery {id}, which has no row"),
        );
    }
    for row in judge.deliveries() {
        bounded(judge, row);
        on_paper_first(judge, row);
        truly_sent(judge, row);
        faithful(judge, row);
        at_home(judge, row);
    }
}

/// V9: copies only after an outcome nobody could know, and as many as the policy allows.
fn bounded(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let Some(place) = judge.place(row) else {
        return;
    };
    let mut accepted: BTreeMap<usize, i32> = BTreeMap::new();
    let mut asked: BTreeMap<(usize, i32), u32> = BTreeMap::new();
    for (_, send) in judge.sends(row.id) {
        *accepted.entry(send.part).or_default() += i32::from(send.accepted_at.is_some());
        *asked.entry((send.part, send.attempt)).or_default() += 1;
    }
    let most = match place.policy {
        "hold" => 1,
        "resend_once" | "reconcile" => 2,
        _ => i32::MAX,
    };
    if judge.began_again(row) {
        accepted.clear();
    }
    for (part, n) in &accepted {
        if *n > most.min(1 + row.unknowns) {
            let what = format!(
                "part {part} was accepted {n} times under {} with {} unknown outcomes",
                place.policy, row.unknowns
            );
            judge.find("V9", Harm::Duplicated, Some(row.id), what);
        }
        if row.status == "sent" && row.unknowns == 0 && *n != 1 {
            let what = format!("part {part} was accepted {n} times and nothing was unknown");
            judge.find("V9", Harm::Duplicated, Some(row.id), what);
        }
    }
    for ((part, attempt), n) in asked {
        if n > 1 {
            let what = format!("part {part} was requested {n} times in attempt {attempt}");
            judge.find("V9", Harm::Duplicated, Some(row.id), what);
        }
    }
}

/// V10: a request leaves after its mark is durable.
fn on_paper_first(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let mut found = Vec::new();
    for (request, send) in judge.sends(row.id) {
        let attempt = row.attempts.iter().find(|attempt| attempt.attempt == send.attempt);
        let marked = attempt
            .and_then(|attempt| attempt.requested_at)
            .is_some_and(|marked_at| marked_at <= request.ledger_at + judge.back_us);
        if !marked {
            found.push(format!("a request of attempt {} left without its mark", send.attempt));
        }
    }
    for what in found {
        judge.find("V10", Harm::Unexpected, Some(row.id), what);
    }
}

/// V11: `sent` means that the platform gave this id for this very delivery.
fn truly_sent(judge: &mut Judge<'_>, row: &DeliveryLog) {
    if row.status != "sent" {
        return;
    }
    let mut family = vec![row.id];
    let mut parent = row.parent;
    while let Some(id) = parent {
        family.push(id);
        parent = judge.logs.ledger.deliveries.get(&id).and_then(|row| row.parent);
    }
    let issued: BTreeSet<&String> = family
        .iter()
        .flat_map(|id| judge.sends(*id))
        .filter(|(_, send)| send.accepted_at.is_some())
        .flat_map(|(_, send)| &send.visible)
        .collect();
    match &row.provider_id {
        Some(id) if issued.contains(id) => {}
        id => {
            let what = format!("sent with id {id:?}, the platform gave {issued:?}");
            judge.find("V11", Harm::Lost, Some(row.id), what);
        }
    }
}

/// V12: a reader finds the marker and all words in order; where keys are honoured, once.
fn faithful(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let Some(place) = judge.place(row) else {
        return;
    };
    let shown = judge.shown(row.id);
    if place.keyed && shown.values().any(|ids| ids.len() > 1) {
        judge.find("V12", Harm::Duplicated, Some(row.id), "two posts under one key".into());
    }
    let Some(post) = judge.post(row).filter(|_| matches!(row.action, "send" | "reply")) else {
        return;
    };
    // What an earlier generation shows may have been found and adopted.
    if row.status != "sent" || row.generation > 0 {
        return;
    }
    let mut latest: BTreeMap<usize, &SendLog> = BTreeMap::new();
    for (_, send) in judge.sends(row.id) {
        if send.accepted_at.is_some() {
            latest.insert(send.part, send);
        }
    }
    let text: Vec<&str> = latest.values().map(|send| send.text.as_str()).collect();
    let text = text.join(" ");
    let whole = place.split || post.words < 50;
    if let Some(missing) = missing(&text, post, whole) {
        let what = format!("a reader does not find {missing:?} in {} parts", latest.len());
        judge.find("V12", Harm::Lost, Some(row.id), what);
    }
}

fn missing(text: &str, post: &Post, whole: bool) -> Option<String> {
    let mut seen = text.split(|c: char| !c.is_alphanumeric());
    if !seen.any(|word| word == post.marker) {
        return Some(post.marker.clone());
    }
    let expected = if whole { post.words } else { 50 };
    (0..expected).map(|n| format!("слово{n}из{}", post.number)).find(|word| !seen.any(|seen| seen == word))
}

/// V15: every request used the account, the chat and the workspace of its delivery.
fn at_home(judge: &mut Judge<'_>, row: &DeliveryLog) {
    let Some(place) = judge.place(row) else {
        return;
    };
    let account = judge.logs.world.accounts.get(&row.account);
    let closed = account.is_some_and(|account| account.workspace == row.workspace)
        && place.workspace == row.workspace
        && place.account == row.account;
    let strayed = judge
        .sends(row.id)
        .iter()
        .any(|(request, send)| request.account != row.account || send.target != place.target);
    if !closed || strayed {
        let what = "a request left its workspace, its account or its chat".to_owned();
        judge.find("V15", Harm::Unexpected, Some(row.id), what);
    }
}
