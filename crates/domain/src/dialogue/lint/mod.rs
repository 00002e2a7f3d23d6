//! What is suspicious about rules that can be read: states nobody reaches or leaves, rules that never answer or answer
//! by luck, examples that fail. Each finding says what a person would notice, and how to mend it.

mod order;
mod places;

use super::event::{Event, What};
use super::fault::Fault;
use super::rules::{ButtonRule, Rules, Subscribe};
use super::state::State;
use super::step::step;
use crate::message::{Button, Press};
use crate::time::Timestamp;

/// Everything that is suspicious, in the order of the lines.
pub fn lint(rules: &Rules) -> Vec<Fault> {
    let mut faults = places::check(rules);
    faults.extend(order::check(rules));
    faults.extend(unused(rules));
    faults.extend(untitled(rules));
    faults.extend(people(rules));
    faults.sort();
    faults.dedup();
    faults
}

/// A keyboard of the file; platforms say whether they can show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyboard {
    pub line: usize,
    pub place: String,
    pub rows: Vec<Vec<Button>>,
}

pub fn keyboards(rules: &Rules) -> Vec<Keyboard> {
    let mut found = Vec::new();
    let mut add = |line: usize, place: String, rows: &[Vec<ButtonRule>]| {
        if !rows.is_empty() {
            found.push(Keyboard { line, place, rows: shown(rows) });
        }
    };
    for rule in &rules.rules {
        add(rule.line, format!("rule {}", rule.name), &rule.acts.buttons);
    }
    for (name, state) in &rules.states {
        add(state.line, format!("state {name}"), &state.acts.buttons);
        if let Some(ask) = &state.ask {
            add(state.line, format!("the question of state {name}"), &ask.buttons);
        }
    }
    for rung in &rules.fallback {
        add(1, "fallback".to_owned(), &rung.buttons);
    }
    found.extend(greeting(rules));
    found
}

/// The first words of a dialogue, with the button that the bot puts under them by itself.
fn greeting(rules: &Rules) -> Option<Keyboard> {
    if rules.subscribe != Subscribe::Ask || rules.subscribes {
        return None;
    }
    let opened = Event::new(Timestamp(0), What::Started { payload: String::new() });
    let last = step(rules, &State::default(), &opened, Timestamp(0)).replies.pop()?;
    let place = format!("the greeting with the button «{}» below it", rules.texts.subscribe);
    Some(Keyboard {
        line: rules.states.get(&rules.start).map_or(1, |state| state.line),
        place,
        rows: last.buttons,
    })
}

fn shown(rows: &[Vec<ButtonRule>]) -> Vec<Vec<Button>> {
    let press = |button: &ButtonRule| match &button.url {
        Some(url) => Press::Url(url.clone()),
        None => Press::Callback(button.carries.clone()),
    };
    let button = |button: &ButtonRule| Button { text: button.title.clone(), press: press(button) };
    rows.iter().map(|row| row.iter().map(button).collect()).collect()
}

/// Words that nearly fit are asked about by a button, and a button needs words.
fn untitled(rules: &Rules) -> Vec<Fault> {
    let listens = rules.rules.iter().filter(|rule| !rule.on.intents.is_empty());
    let untitled = listens.filter(|rule| rules.title_of(rule).is_none());
    untitled
        .map(|rule| {
            let text = format!(
                "the rule `{}` has no title, so a slip in its words is not asked about; write title = \"…\" at the rule or its intent",
                rule.name
            );
            Fault::warning(rule.line, text)
        })
        .collect()
}

fn unused(rules: &Rules) -> Vec<Fault> {
    let listens = |place: usize| rules.rules.iter().any(|rule| rule.on.intents.contains(&place));
    let idle = rules.intents.iter().enumerate().filter(|(place, _)| !listens(*place));
    idle.map(|(_, intent)| {
        let text = format!(
            "no rule listens for the intent `{0}`; write on = {{ intent = \"{0}\" }} or remove it",
            intent.name
        );
        Fault::warning(intent.line, text)
    })
    .collect()
}

/// Handoff without people, and hours without a zone.
fn people(rules: &Rules) -> Vec<Fault> {
    let mut faults = Vec::new();
    let hands = rules.rules.iter().any(|rule| rule.acts.handoff.is_some())
        || rules.states.values().any(|state| state.acts.handoff.is_some())
        || rules.fallback.iter().any(|rung| rung.handoff);
    if hands && rules.operators.is_none() {
        let text = "there is a handoff but nobody to hand to; write operators = { channel = \"…\" }, or people only hear that nobody can help";
        faults.push(Fault::warning(1, text));
    }
    if rules.hours.is_some() && rules.zone == jiff::tz::TimeZone::UTC {
        let text = "hours are read in UTC because there is no time_zone; write one such as time_zone = \"Europe/Moscow\"";
        faults.push(Fault::warning(1, text));
    }
    faults
}
