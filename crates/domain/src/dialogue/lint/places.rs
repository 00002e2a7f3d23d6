//! States: who gets there, who gets out, and who goes round without anybody saying a word.

use std::collections::{BTreeMap, BTreeSet};

use super::super::fault::Fault;
use super::super::graph::{ANYWHERE, Way, ways};
use super::super::rules::{Rules, StateRules};

pub(super) fn check(rules: &Rules) -> Vec<Fault> {
    let ways = ways(rules);
    let mut faults = unreachable(rules, &ways);
    faults.extend(dead_ends(rules, &ways));
    let by_itself = |way: &Way| way.by_itself;
    faults.extend(circle(rules, &ways, by_itself, "without waiting for an answer; give one of them an ask"));
    let by_clock = |way: &Way| way.by == "idle";
    faults.extend(circle(
        rules,
        &ways,
        by_clock,
        "by their idle clocks, and would write to a sleeping person again and again",
    ));
    faults.extend(no_cancel(rules));
    faults
}

fn unreachable(rules: &Rules, ways: &[Way]) -> Vec<Fault> {
    let mut reached: BTreeSet<&str> = BTreeSet::from([rules.start.as_str()]);
    reached.extend(ways.iter().filter(|way| way.from == ANYWHERE).map(|way| way.to.as_str()));
    let mut open: Vec<&str> = reached.iter().copied().collect();
    while let Some(from) = open.pop() {
        let next = ways.iter().filter(|way| way.from == from).map(|way| way.to.as_str());
        for to in next.collect::<Vec<_>>() {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    let lost = rules.states.iter().filter(|(name, _)| !reached.contains(name.as_str()));
    lost.map(|(name, state)| {
        let text = format!("nobody can reach the state `{name}`; lead to it with goto or next, or remove it");
        Fault::error(state.line, text)
    })
    .collect()
}

fn dead_ends(rules: &Rules, ways: &[Way]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let leaves_anywhere = |name: &str| ways.iter().any(|way| way.from == ANYWHERE && way.to != name);
    for (name, state) in rules.states.iter().filter(|(name, _)| **name != rules.start) {
        if state.acts.end || state.acts.handoff.is_some() {
            continue;
        }
        if state.ask.is_some() && state.next.is_empty() {
            let text = format!(
                "the state `{name}` asks, but does not say where to go with the answer; add next = \"…\""
            );
            faults.push(Fault::error(state.line, text));
        } else if state.ask.is_some() && !has_way_for_all(state) {
            let text = format!(
                "the state `{name}`: no way of `next` fits every answer; end the list with one that has no when"
            );
            faults.push(Fault::error(state.line, text));
        } else if !ways.iter().any(|way| way.from == **name) && !leaves_anywhere(name) {
            let text =
                format!("nobody gets out of the state `{name}`; add next, a rule with goto, or end = true");
            faults.push(Fault::error(state.line, text));
        }
    }
    faults
}

/// The last way is open to all, or a yes-or-no is answered both ways.
fn has_way_for_all(state: &StateRules) -> bool {
    if state.next.iter().any(|next| next.when.is_empty()) {
        return true;
    }
    let Some(ask) = &state.ask else { return true };
    let values: BTreeSet<&str> = state
        .next
        .iter()
        .flat_map(|next| &next.when.slot)
        .filter(|(slot, _)| *slot == ask.slot)
        .flat_map(|(_, values)| values.iter().map(String::as_str))
        .collect();
    values.contains("yes") && values.contains("no")
}

/// States that hand the dialogue round by ways of one sort.
fn circle(rules: &Rules, ways: &[Way], sort: impl Fn(&Way) -> bool, how: &str) -> Vec<Fault> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for way in ways.iter().filter(|way| sort(way)) {
        next.entry(way.from.as_str()).or_default().push(way.to.as_str());
    }
    let mut faults = Vec::new();
    for name in next.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), next[name].clone());
        while let Some(at) = open.pop() {
            if seen.insert(at) {
                open.extend(next.get(at).into_iter().flatten());
            }
        }
        if seen.contains(name) {
            let line = rules.states.get(*name).map_or(1, |state| state.line);
            let mut round: Vec<&str> = seen.into_iter().collect();
            round.sort_unstable();
            let text = format!("the states {} lead to each other {how}", round.join(", "));
            faults.push(Fault::error(line, text));
        }
    }
    faults
}

fn no_cancel(rules: &Rules) -> Option<Fault> {
    let asks =
        rules.states.iter().filter(|(_, state)| state.ask.is_some()).min_by_key(|(_, state)| state.line);
    let (name, state) = asks?;
    let leaves = |rule: &super::super::rules::Rule| rule.acts.goto.is_some() || rule.acts.end;
    let can_leave = rules.global().any(|(_, rule)| rule.interrupt && leaves(rule));
    (!can_leave).then(|| {
        let start = &rules.start;
        let text = format!(
            "a person in the state `{name}` cannot change their mind: no rule cancels; add one such as \
             on = {{ text = \"отмена\" }}, interrupt = true, goto = \"{start}\""
        );
        Fault::error(state.line, text)
    })
}
