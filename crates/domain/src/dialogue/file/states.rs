//! States: what entering one says, what it asks, and where it goes on.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::super::rules::{Ask, Idle, Next, PressAct, Slot, SlotKind, StateRules, When};
use super::super::texts::Texts;
use super::Reader;
use super::buttons::laid_out;
use super::tree::{Table, Value};

const KEYS: &[&str] = &[
    "say",
    "reply",
    "ask",
    "next",
    "idle",
    "rules",
    "buttons",
    "photo",
    "set",
    "clear",
    "subscribe",
    "call",
    "handoff",
    "log",
    "end",
];

/// Wrong answers that are borne before somebody else takes over.
const TRIES: u32 = 3;

impl Reader<'_> {
    pub(super) fn states(
        &mut self,
        root: &Table<'_>,
        slots: &BTreeMap<String, Slot>,
        texts: &Texts,
    ) -> BTreeMap<String, StateRules> {
        let mut states = BTreeMap::new();
        for (name, at, value) in self.named_tables(root, "states") {
            let what = format!("states.{name}");
            let Some(table) = self.faults.table(value, &what, KEYS) else { continue };
            let mut state = StateRules {
                line: self.faults.line(at),
                acts: self.acts(&table, "say", Some(&name), &what),
                next: table.get("next").map(|value| self.next(value)).unwrap_or_default(),
                idle: table.get("idle").and_then(|value| self.idle(value)),
                ..StateRules::default()
            };
            if let Some(value) = table.get("ask") {
                self.ask(value, &name, &mut state, slots, texts);
            }
            if let Some(value) = table.get("rules") {
                state.rules = self.read_rules(value, Some(&name));
            }
            if !state.acts.buttons.is_empty() && !state.acts.speaks_words() {
                self.faults.add(at, format!("{what} shows buttons under no words; add say = \"…\""));
            }
            states.insert(name, state);
        }
        states
    }

    fn ask(
        &mut self,
        value: Value<'_>,
        name: &str,
        state: &mut StateRules,
        slots: &BTreeMap<String, Slot>,
        texts: &Texts,
    ) {
        if let DeValue::String(_) = value.get_ref() {
            state.acts.reply.extend(self.said(value, "ask"));
            return;
        }
        let known = &["slot", "say", "invalid", "tries", "buttons", "skip", "photo", "failed"];
        let Some(table) = self.faults.table(value, "ask", known) else { return };
        let Some(say) = table.get("say").and_then(|value| self.said(value, "say")) else {
            self.faults.add(
                value.span().start,
                format!("states.{name}: ask needs its words, such as say = \"Номер заказа?\""),
            );
            return;
        };
        let mut buttons =
            table.get("buttons").map(|value| self.buttons(value, Some(name))).unwrap_or_default();
        let photo = table.get("photo").and_then(|value| self.photo(value, "ask"));
        let Some(slot_value) = table.get("slot") else {
            // Words that wait for no slot: the rules of the state, and global ones, hear the answer.
            state.acts.reply.push(say);
            state.acts.buttons.append(&mut buttons);
            state.acts.photo = state.acts.photo.take().or(photo);
            return;
        };
        let Some(slot) = self.faults.string(slot_value, "ask.slot") else { return };
        self.used.slots.push((slot.clone(), slot_value.span().start));
        if buttons.is_empty() {
            let titles = slots.get(&slot).map(|slot| usual_titles(&slot.kind, texts)).unwrap_or_default();
            let at = slot_value.span().start;
            let press = |title: &String| self.press(at, title, None, Some(name), PressAct::Say);
            buttons = laid_out(titles.iter().filter_map(press).collect());
        }
        if let Some(value) = table.get("skip")
            && let Some(title) = self.faults.string(value, "skip")
        {
            let skip = self.press(value.span().start, &title, Some("_skip"), Some(name), PressAct::Skip);
            buttons.extend(skip.map(|skip| vec![skip]));
        }
        state.ask = Some(Ask {
            slot,
            say,
            invalid: table.get("invalid").and_then(|value| self.said(value, "invalid")),
            tries: table.get("tries").and_then(|value| self.faults.count(value, "tries")).unwrap_or(TRIES),
            buttons,
            photo,
            failed: table.get("failed").and_then(|value| self.goto(value, "failed")),
        });
    }

    fn next(&mut self, value: Value<'_>) -> Vec<Next> {
        if let DeValue::String(_) = value.get_ref() {
            let goto = self.goto(value, "next");
            return goto.map(|goto| Next { when: When::default(), goto }).into_iter().collect();
        }
        let mut ways = Vec::new();
        for item in self.faults.items(value, "next") {
            if let DeValue::String(_) = item.get_ref() {
                ways.extend(self.goto(item, "next").map(|goto| Next { when: When::default(), goto }));
                continue;
            }
            let Some(table) = self.faults.table(item, "next", &["when", "goto"]) else { continue };
            let when = table.get("when").map(|value| self.when(value)).unwrap_or_default();
            match table.get("goto").and_then(|value| self.goto(value, "goto")) {
                Some(goto) => ways.push(Next { when, goto }),
                None => self.faults.add(item.span().start, "next needs goto = \"…\""),
            }
        }
        ways
    }

    fn idle(&mut self, value: Value<'_>) -> Option<Idle> {
        let table = self.faults.table(value, "idle", &["after", "goto"])?;
        let after = table.get("after").and_then(|value| self.faults.span(value, "idle.after"));
        let goto = table.get("goto").and_then(|value| self.goto(value, "idle.goto"));
        if after.is_none() || goto.is_none() {
            let text = "idle needs both, such as idle = { after = \"30m\", goto = \"menu\" }";
            self.faults.add(value.span().start, text);
        }
        Some(Idle { after: after?, goto: goto? })
    }
}

/// Answers that a question has by itself.
fn usual_titles(kind: &SlotKind, texts: &Texts) -> Vec<String> {
    match kind {
        SlotKind::Choice(choices) => choices.iter().map(|choice| choice.title.clone()).collect(),
        SlotKind::YesNo => vec![texts.yes.clone(), texts.no.clone()],
        _ => Vec::new(),
    }
}
