//! Rules: examples that fail, ties that only the order in the file decides, rules that never get to answer.

use super::super::choose::{Candidate, Tier, understand, woken_in};
use super::super::fault::Fault;
use super::super::heard::Heard;
use super::super::rules::{Intent, Rule, Rules, When};

pub(super) fn check(rules: &Rules) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (place, intent) in rules.intents.iter().enumerate() {
        examples(rules, place, intent, &mut faults);
    }
    faults.extend(shadowed(rules));
    faults
}

fn examples(rules: &Rules, place: usize, intent: &Intent, faults: &mut Vec<Fault>) {
    let states: Vec<&str> = states_of(rules, place);
    for example in &intent.examples {
        let heard = Heard::new(&example.text);
        let understood = understand(rules, &heard);
        if !understood.intents.iter().any(|(met, _)| *met == place) {
            let text = format!(
                "the example «{}» is not understood as `{}`; add its words to any",
                example.text, intent.name
            );
            faults.push(Fault::error(example.line, text));
            continue;
        }
        for state in &states {
            let found = first_tier(rules, state, &heard);
            faults.extend(tie(rules, &found, &example.text));
            if let Some(winner) = found.first().map(|first| &rules.rules[first.rule])
                && !winner.on.intents.contains(&place)
            {
                let (text, name) = (&example.text, &intent.name);
                let wrong = format!(
                    "the example «{text}» of `{name}` is answered by the rule `{}` instead; \
                     give one of them a priority, or more exact words",
                    winner.name
                );
                faults.push(Fault::error(example.line, wrong));
            }
        }
    }
    for example in &intent.counter {
        let heard = Heard::new(&example.text);
        let met = understand(rules, &heard).intents.iter().any(|(met, _)| *met == place);
        let answers = states.iter().any(|state| {
            first_tier(rules, state, &heard).first().is_some_and(|first| first.intent == Some(place))
        });
        if met && (answers || states.is_empty()) {
            let text = format!(
                "the counter-example «{}» is answered by `{}` all the same; write what tells them apart into not",
                example.text, intent.name
            );
            faults.push(Fault::error(example.line, text));
        }
    }
}

/// Where an intent may be answered: the states whose rules listen for it, or the start for global ones.
fn states_of(rules: &Rules, intent: usize) -> Vec<&str> {
    let listening = rules.rules.iter().filter(|rule| rule.on.intents.contains(&intent));
    let mut states: Vec<&str> =
        listening.map(|rule| rule.state.as_deref().unwrap_or(rules.start.as_str())).collect();
    states.sort_unstable();
    states.dedup();
    states
}

/// Who would answer first, whatever conditions hold.
fn first_tier(rules: &Rules, state: &str, heard: &Heard) -> Vec<Candidate> {
    let understood = understand(rules, heard);
    let tiers = Tier::ALL.into_iter().map(|tier| woken_in(rules, state, tier, heard, &understood));
    tiers.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

fn tie(rules: &Rules, found: &[Candidate], example: &str) -> Option<Fault> {
    let (first, rest) = found.split_first()?;
    let winner = &rules.rules[first.rule];
    let equal = rest.iter().take_while(|other| other.key.ties(&first.key));
    let rival =
        equal.map(|other| &rules.rules[other.rule]).find(|other| !exclude(&winner.when, &other.when))?;
    let text = format!(
        "on «{example}» the rules `{}` (line {}) and `{}` are equally good, and only their order in the file decides; \
         give one of them a priority, or more exact words",
        winner.name, winner.line, rival.name
    );
    Some(Fault::error(rival.line, text))
}

/// Whether two conditions can never hold together.
fn exclude(a: &When, b: &When) -> bool {
    let open = a.open.is_some() && b.open.is_some() && a.open != b.open;
    let disjoint =
        |a: &[String], b: &[String]| !a.is_empty() && !b.is_empty() && !a.iter().any(|one| b.contains(one));
    let slots = a
        .slot
        .iter()
        .any(|(name, values)| b.slot.iter().any(|(other, others)| name == other && disjoint(values, others)));
    let denies = |one: &When, other: &When| {
        one.not.as_deref().is_some_and(|not| !not.is_empty() && is_within(not, other))
    };
    open || disjoint(&a.platform, &b.platform) || slots || denies(a, b) || denies(b, a)
}

/// Whether `wide` holds wherever `narrow` does.
fn is_within(wide: &When, narrow: &When) -> bool {
    wide.not.is_none()
        && wide.open.is_none_or(|open| narrow.open == Some(open))
        && wide.has.iter().all(|name| narrow.has.contains(name))
        && wide.slot.iter().all(|slot| narrow.slot.contains(slot))
        && (wide.platform.is_empty()
            || (!narrow.platform.is_empty() && narrow.platform.iter().all(|one| wide.platform.contains(one))))
}

fn shadowed(rules: &Rules) -> Vec<Fault> {
    let mut faults = Vec::new();
    for rule in &rules.rules {
        let first = rules.rules.iter().find(|other| other.name != rule.name && hides(other, rule));
        if let Some(first) = first {
            let text = format!(
                "the rule `{}` never answers: `{}` (line {}) listens for the same and comes first; \
                 remove one, or give this one a priority or a condition",
                rule.name, first.name, first.line
            );
            faults.push(Fault::error(rule.line, text));
        }
    }
    faults
}

/// Whether everything that wakes `rule` is answered by `other` before.
fn hides(other: &Rule, rule: &Rule) -> bool {
    let same_place =
        other.state == rule.state || (other.state.is_none() && other.interrupt && !rule.interrupt);
    let earlier = match (other.interrupt, rule.interrupt) {
        (true, false) => true,
        (false, true) => false,
        _ => (-other.priority, other.line) < (-rule.priority, rule.line),
    };
    let on = (&other.on, &rule.on);
    let regexes =
        |on: &super::super::rules::On| on.regexes.iter().map(|regex| regex.to_string()).collect::<Vec<_>>();
    let within = on.1.intents.iter().all(|one| on.0.intents.contains(one))
        && on.1.texts.iter().all(|one| on.0.texts.contains(one))
        && on.1.commands.iter().all(|one| on.0.commands.contains(one))
        && on.1.buttons.iter().all(|one| on.0.buttons.contains(one))
        && on.1.events.iter().all(|one| on.0.events.contains(one))
        && regexes(on.1).iter().all(|one| regexes(on.0).contains(one));
    same_place && earlier && within && is_within(&other.when, &rule.when)
}
