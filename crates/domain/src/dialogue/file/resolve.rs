//! Looks whether every name that a rules file uses exists, and joins what is known only at the end.

use std::collections::BTreeSet;

use super::super::fault::nearest;
use super::super::placeholders;
use super::super::rules::{ButtonRule, PressAct, Pressed, Rules, SlotKind, When};
use super::super::slots::{self, Around};
use super::super::{OFFER_MARK, SUBSCRIBE_ID, heard::Heard};
use super::Reader;
use super::buttons::{carries, laid_out};
use crate::time::Timestamp;

/// Buttons of a menu that is made of the titles of rules.
const MENU_MAX: usize = 8;

impl Reader<'_> {
    pub(super) fn resolve(&mut self, rules: &mut Rules) {
        self.names_exist(rules);
        self.names_are_unique(rules);
        rules.rules.sort_by_key(|rule| rule.line);
        for state in rules.states.values_mut() {
            state.rules.clear();
        }
        for (place, rule) in rules.rules.iter().enumerate() {
            let state = rule.state.as_ref().and_then(|state| rules.states.get_mut(state));
            state.into_iter().for_each(|state| state.rules.push(place));
        }
        rules.subscribes = rules.rules.iter().any(|rule| rule.acts.subscribe == Some(true))
            || rules.states.values().any(|state| state.acts.subscribe == Some(true));
        rules.vocabulary.index(&rules.intents);
        canonical(rules);
        offers(rules);
        menu(rules);
    }

    fn names_exist(&mut self, rules: &Rules) {
        let used = std::mem::take(&mut self.used);
        let states: Vec<&str> = rules.states.keys().map(String::as_str).collect();
        let slots: Vec<&str> = rules.slots.keys().map(String::as_str).collect();
        let names: Vec<&str> = rules.rules.iter().map(|rule| rule.name.as_str()).collect();
        self.look_up("state", "states", &used.states, &states);
        self.look_up("slot", "slots", &used.slots, &slots);
        self.look_up("rule", "rules", &used.rules, &names);
        let placeholders = used.texts.iter().flat_map(|(text, at)| {
            placeholders::names(text).into_iter().map(move |name| (name.to_owned(), *at))
        });
        self.look_up("slot", "slots", &placeholders.collect::<Vec<_>>(), &slots);
        for (old, new) in &rules.moved {
            if rules.states.contains_key(old) {
                self.faults.add(
                    0,
                    format!("[moved]: the state `{old}` still exists, so nobody can be moved to `{new}`"),
                );
            }
        }
    }

    fn look_up(&mut self, what: &str, table: &str, used: &[(String, usize)], known: &[&str]) {
        for (name, at) in used.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write [{table}.{name}] or use a name that exists"),
            };
            self.faults.add(*at, format!("no {what} is called `{name}`; {hint}"));
        }
    }

    fn names_are_unique(&mut self, rules: &Rules) {
        let mut seen = BTreeSet::new();
        for rule in &rules.rules {
            if !seen.insert(rule.name.as_str()) {
                let text = format!("two rules are called `{}`; logs could not tell them apart", rule.name);
                self.faults.list.push(super::Fault::error(rule.line, text));
            }
        }
    }
}

/// Values that conditions compare with are brought into the form in which slots keep them: «да» is `yes`.
fn canonical(rules: &mut Rules) {
    let slots = std::mem::take(&mut rules.slots);
    let vocabulary = std::mem::take(&mut rules.vocabulary);
    let around = Around { zone: &rules.zone.clone(), now: Timestamp(0), vocabulary: &vocabulary };
    let visit = |when: &mut When| {
        for (name, values) in &mut when.slot {
            let Some(slot) = slots.get(name).filter(|slot| !matches!(slot.kind, SlotKind::Date)) else {
                continue;
            };
            for value in values {
                let kept = slots::parse(&slot.kind, &Heard::new(value), around);
                *value = kept.unwrap_or_else(|| std::mem::take(value));
            }
        }
    };
    let mut whens: Vec<&mut When> = rules.rules.iter_mut().map(|rule| &mut rule.when).collect();
    whens.extend(rules.states.values_mut().flat_map(|state| &mut state.next).map(|next| &mut next.when));
    for when in whens {
        let mut open = Some(when);
        while let Some(when) = open {
            visit(when);
            open = when.not.as_deref_mut();
        }
    }
    rules.slots = slots;
    rules.vocabulary = vocabulary;
}

/// Every rule that listens for words and has a title can be offered by a button.
fn offers(rules: &mut Rules) {
    for rule in rules.rules.iter().filter(|rule| !rule.on.intents.is_empty()) {
        let Some(title) = rules.title_of(rule) else { continue };
        let id = format!("{OFFER_MARK}{}", rule.name);
        let pressed = Pressed {
            state: rule.state.clone(),
            title: title.to_owned(),
            act: PressAct::Rule(rule.name.clone()),
            id: id.clone(),
        };
        rules.presses.insert(carries(&id, rule.state.as_deref()), pressed);
    }
    let subscribe = Pressed {
        state: None,
        id: SUBSCRIBE_ID.to_owned(),
        title: rules.texts.subscribe.clone(),
        act: PressAct::Subscribe,
    };
    rules.presses.insert(SUBSCRIBE_ID.to_owned(), subscribe);
}

/// The buttons of the start once more, so that they work wherever a fallback shows them.
fn menu(rules: &mut Rules) {
    let Some(start) = rules.states.get(&rules.start) else { return };
    let asked = start.ask.iter().flat_map(|ask| &ask.buttons);
    let rows: Vec<&Vec<ButtonRule>> = start.acts.buttons.iter().chain(asked).collect();
    let mut twins = Vec::new();
    let mut menu: Vec<Vec<ButtonRule>> = Vec::new();
    for row in rows {
        let mut copied = Vec::new();
        for button in row {
            let Some(pressed) = rules.presses.get(&button.carries) else {
                copied.push(button.clone());
                continue;
            };
            let carried = carries(&pressed.id, None);
            copied.push(ButtonRule { carries: carried.clone(), ..button.clone() });
            twins.push((carried, Pressed { state: None, ..pressed.clone() }));
        }
        menu.push(copied);
    }
    if menu.is_empty() {
        let titled = rules.rules.iter().filter(|rule| rule.state.is_none() && !rule.on.intents.is_empty());
        let named = titled.filter_map(|rule| Some((rule, rules.title_of(rule)?))).take(MENU_MAX);
        let button = |(rule, title): (&super::Rule, &str)| ButtonRule {
            title: title.to_owned(),
            carries: carries(&format!("{OFFER_MARK}{}", rule.name), None),
            url: None,
        };
        menu = laid_out(named.map(button).collect());
    }
    for (carried, pressed) in twins {
        rules.presses.entry(carried).or_insert(pressed);
    }
    rules.menu = menu;
}
