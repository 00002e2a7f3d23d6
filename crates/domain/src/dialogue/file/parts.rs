//! The small tables of a rules file: hours, limits, operators, fallback, texts, intents and slots.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use regex::{Regex, RegexBuilder};
use toml::de::DeValue;

use super::super::hours::Hours;
use super::super::placeholders;
use super::super::rules::{Choice, Example, Intent, Limits, Operators, Rung, Slot, SlotKind, Subscribe};
use super::super::texts::{Texts, with};
use super::super::words::Pattern;
use super::tree::{Table, Value};
use super::{Reader, THINGS_MAX};
use crate::time::Span;

/// Characters of one message that every platform takes.
pub(super) const TEXT_CHARACTERS_MAX: usize = 4_000;
/// Characters of an answer that a text slot keeps.
const SLOT_CHARACTERS_MAX: usize = 1_000;
const REGEX_CHARACTERS_MAX: usize = 500;
/// Bytes that a compiled expression may take; its time is linear in the text in any case.
const REGEX_BYTES_MAX: usize = 1 << 18;

const SLOT_KINDS: &[&str] =
    &["text", "number", "phone", "email", "date", "choice", "yes_no", "photo", "pattern"];

impl Reader<'_> {
    pub(super) fn zone(&mut self, root: &Table<'_>) -> TimeZone {
        let Some(value) = root.get("time_zone") else { return TimeZone::UTC };
        let Some(name) = self.faults.string(value, "time_zone") else { return TimeZone::UTC };
        TimeZone::get(&name).unwrap_or_else(|_| {
            let text = format!("time_zone: no zone is called `{name}`; write one such as \"Europe/Moscow\"");
            self.faults.add(value.span().start, text);
            TimeZone::UTC
        })
    }

    pub(super) fn hours(&mut self, root: &Table<'_>) -> Option<Hours> {
        let value = root.get("hours")?;
        let table = self.faults.named(value, "hours")?;
        let mut hours = Hours::default();
        for (days, at, value) in table.entries() {
            for (text, text_at) in self.faults.strings(value, &format!("hours.{days}")) {
                let added = if days == "closed" { hours.close(&text) } else { hours.open(&days, &text) };
                if let Err(wrong) = added {
                    let at = if days == "closed" { text_at } else { at };
                    self.faults.add(at, format!("hours: {wrong}"));
                }
            }
        }
        Some(hours)
    }

    pub(super) fn limits(&mut self, root: &Table<'_>) -> Limits {
        let mut limits = Limits::default();
        let known = &["turns", "steps", "idle", "messages"];
        let Some(table) = root.get("limits").and_then(|value| self.faults.table(value, "limits", known))
        else {
            return limits;
        };
        if let Some(turns) = table.get("turns").and_then(|value| self.faults.count(value, "limits.turns")) {
            limits.turns = turns;
        }
        if let Some(steps) = table.get("steps").and_then(|value| self.faults.count(value, "limits.steps")) {
            limits.steps = steps.min(100);
        }
        if let Some(idle) = table.get("idle").and_then(|value| self.faults.span(value, "limits.idle")) {
            limits.idle = idle;
        }
        if let Some(value) = table.get("messages")
            && let Some(text) = self.faults.string(value, "limits.messages")
        {
            match messages(&text) {
                Some((count, per)) => (limits.messages, limits.messages_per) = (count, per),
                None => {
                    let wrong =
                        format!("limits.messages: `{text}` is not a number and a time, such as \"20/1m\"");
                    self.faults.add(value.span().start, wrong);
                }
            }
        }
        limits
    }

    pub(super) fn operators(&mut self, root: &Table<'_>) -> Option<Operators> {
        let value = root.get("operators")?;
        let table = self.faults.table(value, "operators", &["channel", "wait", "back"])?;
        let Some(channel) = table.get("channel") else {
            self.faults.add(
                value.span().start,
                "operators: name the channel where they read, such as channel = \"support\"",
            );
            return None;
        };
        let span = |reader: &mut Self, key: &str, usual: Span| {
            table
                .get(key)
                .and_then(|value| reader.faults.span(value, &format!("operators.{key}")))
                .unwrap_or(usual)
        };
        Some(Operators {
            channel: self.faults.string(channel, "operators.channel")?,
            wait: span(self, "wait", Span::from_secs(600)),
            back: span(self, "back", Span::from_hours(12)),
        })
    }

    pub(super) fn subscribe(&mut self, root: &Table<'_>) -> Subscribe {
        let Some(value) = root.get("subscribe") else { return Subscribe::Ask };
        match self.faults.string(value, "subscribe").as_deref() {
            Some("start") => Subscribe::Start,
            Some("never") => Subscribe::Never,
            Some("ask") | None => Subscribe::Ask,
            Some(other) => {
                self.faults
                    .add(value.span().start, format!("subscribe: `{other}` is not one of ask, start, never"));
                Subscribe::Ask
            }
        }
    }

    pub(super) fn fallback(&mut self, root: &Table<'_>, texts: &Texts) -> Vec<Rung> {
        let mut rungs = Vec::new();
        let value = root.get("fallback");
        let items = match value.map(|value| (value, value.get_ref())) {
            Some((value, DeValue::Array(_))) => self.faults.items(value, "fallback"),
            Some((value, _)) => vec![value],
            None => Vec::new(),
        };
        for item in items {
            rungs.extend(self.rung(item));
        }
        if rungs.is_empty() {
            rungs.push(Rung { say: Some(texts.fallback.clone()), ..Rung::default() });
        }
        rungs
    }

    fn rung(&mut self, value: Value<'_>) -> Option<Rung> {
        if let DeValue::String(_) = value.get_ref() {
            return Some(Rung { say: self.said(value, "fallback"), ..Rung::default() });
        }
        let known = &["say", "menu", "buttons", "handoff", "goto"];
        let table = self.faults.table(value, "a rung of fallback", known)?;
        let flag = |reader: &mut Self, key: &str| {
            table.get(key).and_then(|value| reader.faults.boolean(value, key)).unwrap_or(false)
        };
        let rung = Rung {
            say: table.get("say").and_then(|value| self.said(value, "say")),
            menu: flag(self, "menu"),
            buttons: table.get("buttons").map(|value| self.buttons(value, None)).unwrap_or_default(),
            handoff: flag(self, "handoff"),
            goto: table.get("goto").and_then(|value| self.goto(value, "goto")),
        };
        if rung == Rung::default() {
            self.faults.add(
                value.span().start,
                "this rung of fallback does nothing; write a text, menu, handoff or goto",
            );
        }
        Some(rung)
    }

    pub(super) fn texts(&mut self, root: &Table<'_>) -> Texts {
        let mut texts = Texts::default();
        let Some(value) = root.get("texts") else { return texts };
        let known: Vec<&str> = texts.by_key().iter().map(|(key, ..)| *key).collect();
        if let Some(table) = self.faults.table(value, "[texts]", &known) {
            for (key, text, own) in texts.by_key() {
                if let Some(written) = table.get(key).and_then(|value| self.own_text(value, key, own)) {
                    *text = written;
                }
            }
        }
        texts
    }

    /// Like any other text, but for the names that only it may have.
    fn own_text(&mut self, value: Value<'_>, key: &str, own: &[&str]) -> Option<String> {
        let text = self.faults.string(value, key)?;
        let at = value.span().start;
        let others = own.iter().fold(text.clone(), |text, name| with(&text, name, "…"));
        if Texts::is_for_desk(key)
            && let Some(name) = placeholders::names(&others).first()
        {
            let may = own.first().map_or_else(|| "none".to_owned(), |own| format!("`{{{own}}}`"));
            self.faults
                .add(at, format!("{key}: `{{{name}}}` is not known at the operators' desk; known is {may}"));
            return None;
        }
        self.note_text(&others, at, key);
        Some(text)
    }

    pub(super) fn read_intents(&mut self, root: &Table<'_>) {
        for (name, at, value) in self.named_tables(root, "intents") {
            let what = format!("intents.{name}");
            let known = &["any", "not", "examples", "counter", "title", "offer"];
            let Some(table) = self.faults.table(value, &what, known) else { continue };
            let intent = Intent {
                line: self.faults.line(at),
                title: table.get("title").and_then(|value| self.faults.string(value, "title")),
                offer: table.get("offer").and_then(|value| self.said(value, "offer")),
                any: table.get("any").map(|value| self.patterns(value, &what)).unwrap_or_default(),
                not: table.get("not").map(|value| self.patterns(value, &what)).unwrap_or_default(),
                examples: table.get("examples").map(|value| self.examples(value)).unwrap_or_default(),
                counter: table.get("counter").map(|value| self.examples(value)).unwrap_or_default(),
                name,
            };
            if table.get("any").is_none() {
                self.faults.add(at, format!("{what} listens for no words; write any = [\"…\"]"));
            }
            self.intents.push(intent);
        }
    }

    pub(super) fn patterns(&mut self, value: Value<'_>, what: &str) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        let texts = self.faults.strings(value, what);
        if texts.len() > THINGS_MAX {
            self.faults.add(value.span().start, format!("{what} has more than {THINGS_MAX} patterns"));
        }
        for (text, at) in texts {
            match self.vocabulary.read(&text) {
                Ok(pattern) => patterns.push(pattern),
                Err(wrong) => self.faults.add(at, format!("{what}: the words `{text}`: {wrong}")),
            }
        }
        patterns
    }

    pub(super) fn examples(&mut self, value: Value<'_>) -> Vec<Example> {
        let texts = self.faults.strings(value, "examples");
        texts.into_iter().map(|(text, at)| Example { text, line: self.faults.line(at) }).collect()
    }

    pub(super) fn slots(&mut self, root: &Table<'_>) -> BTreeMap<String, Slot> {
        let mut slots = BTreeMap::new();
        for (name, at, value) in self.named_tables(root, "slots") {
            let what = format!("slots.{name}");
            let known = &["kind", "pattern", "choices", "options", "min", "max", "mask"];
            let Some(table) = self.faults.table(value, &what, known) else { continue };
            let mask =
                table.get("mask").and_then(|value| self.faults.boolean(value, "mask")).unwrap_or(false);
            // A kind that cannot be read is told once, and not again wherever the slot is used.
            let kind = self.slot_kind(&table, at, &what);
            let kind = kind.unwrap_or(SlotKind::Text { max: SLOT_CHARACTERS_MAX });
            slots.insert(name, Slot { line: self.faults.line(at), kind, mask });
        }
        slots
    }

    fn slot_kind(&mut self, table: &Table<'_>, at: usize, what: &str) -> Option<SlotKind> {
        let written = table.get("kind").and_then(|value| Some((self.faults.string(value, "kind")?, value)));
        let (kind, kind_at) = match &written {
            Some((kind, value)) => (kind.as_str(), value.span().start),
            None if table.get("pattern").is_some() => ("pattern", at),
            None if choices(table).is_some() => ("choice", at),
            None => ("text", at),
        };
        let bound =
            |reader: &mut Self, key: &str| table.get(key).and_then(|value| reader.faults.number(value, key));
        Some(match kind {
            "text" => {
                let max = table.get("max").and_then(|value| self.faults.count(value, "max"));
                SlotKind::Text {
                    max: max.map_or(SLOT_CHARACTERS_MAX, |max| (max as usize).min(SLOT_CHARACTERS_MAX)),
                }
            }
            "number" => SlotKind::Number { min: bound(self, "min"), max: bound(self, "max") },
            "phone" => SlotKind::Phone,
            "email" => SlotKind::Email,
            "date" => SlotKind::Date,
            "yes_no" => SlotKind::YesNo,
            "photo" => SlotKind::Photo,
            "choice" => SlotKind::Choice(self.choices(table, at, what)?),
            "pattern" => {
                let Some(value) = table.get("pattern") else {
                    self.faults.add(at, format!("{what} needs its pattern, such as pattern = '^\\d{{6}}$'"));
                    return None;
                };
                let text = self.faults.string(value, "pattern")?;
                SlotKind::Pattern(self.regex(&text, value.span().start, what)?)
            }
            other => {
                let known = SLOT_KINDS.join(", ");
                self.faults
                    .add(kind_at, format!("{what}: no kind is called `{other}`; known kinds are {known}"));
                return None;
            }
        })
    }

    fn choices(&mut self, table: &Table<'_>, at: usize, what: &str) -> Option<Vec<Choice>> {
        let Some(value) = choices(table) else {
            self.faults
                .add(at, format!("{what} needs its choices, such as choices = [\"Размер\", \"Брак\"]"));
            return None;
        };
        let mut choices = Vec::new();
        for item in self.faults.items(value, "choices") {
            if let DeValue::String(title) = item.get_ref() {
                choices.push(Choice { value: title.to_string(), title: title.to_string(), any: Vec::new() });
                continue;
            }
            let Some(table) = self.faults.table(item, "a choice", &["value", "title", "any"]) else {
                continue;
            };
            let text = |reader: &mut Self, key: &str| {
                table.get(key).and_then(|value| reader.faults.string(value, key))
            };
            let (value, title) = (text(self, "value"), text(self, "title"));
            let any = table.get("any").map(|value| self.patterns(value, what)).unwrap_or_default();
            match title.clone().or_else(|| value.clone()) {
                Some(title) => {
                    choices.push(Choice { value: value.unwrap_or_else(|| title.clone()), title, any });
                }
                None => self.faults.add(item.span().start, "a choice needs a title"),
            }
        }
        if choices.is_empty() {
            self.faults.add(value.span().start, format!("{what} has no choices"));
        }
        Some(choices)
    }

    /// An expression whose time is linear and whose size is bounded.
    pub(super) fn regex(&mut self, text: &str, at: usize, what: &str) -> Option<Regex> {
        if text.chars().count() > REGEX_CHARACTERS_MAX {
            self.faults
                .add(at, format!("{what}: the expression is longer than {REGEX_CHARACTERS_MAX} characters"));
            return None;
        }
        match RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build() {
            Ok(regex) => Some(regex),
            Err(error) => {
                let reason = match error {
                    regex::Error::CompiledTooBig(_) => "it is too large; use smaller repetitions".to_owned(),
                    other => last_line(&other.to_string()),
                };
                self.faults.add(at, format!("{what}: the expression `{text}` cannot be used: {reason}"));
                None
            }
        }
    }
}

/// The answers of a choice, by either name that people give them.
fn choices<'a>(table: &Table<'a>) -> Option<Value<'a>> {
    table.get("choices").or_else(|| table.get("options"))
}

fn messages(text: &str) -> Option<(u32, Span)> {
    let (count, per) = text.split_once('/')?;
    let count = count.trim().parse().ok().filter(|count| *count > 0)?;
    Some((count, crate::span::parse(per)?)).filter(|(_, per)| *per > Span::ZERO)
}

/// What the reader of expressions says in the end, without the drawing above it.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}
