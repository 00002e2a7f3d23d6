//! Rules: what wakes them, what must hold, what they do.

use toml::de::DeValue;

use super::super::fault::nearest;
use super::super::rules::{Acts, CallRule, Intent, On, Rule, When};
use super::super::words::fold;
use super::tree::{Table, Value};
use super::{Reader, THINGS_MAX};
use crate::message::is_web_address;

const KEYS: &[&str] = &[
    "name",
    "title",
    "on",
    "when",
    "priority",
    "interrupt",
    "set",
    "clear",
    "reply",
    "say",
    "buttons",
    "photo",
    "subscribe",
    "call",
    "handoff",
    "log",
    "goto",
    "end",
    "examples",
    "counter",
];

/// Events that a rule may listen for by name; answers of services are `NAME.ok` and `NAME.failed`.
pub(super) const EVENTS: &[&str] = &["start", "stop", "return", "photo", "other"];

impl Reader<'_> {
    pub(super) fn global_rules(&mut self, root: &Table<'_>) {
        if let Some(value) = root.get("rules") {
            self.read_rules(value, None);
        }
    }

    /// Reads a list of rules and returns their places in `self.rules`.
    pub(super) fn read_rules(&mut self, value: Value<'_>, state: Option<&str>) -> Vec<usize> {
        let mut places = Vec::new();
        for item in self.faults.items(value, "rules") {
            if self.rules.len() >= THINGS_MAX {
                self.faults.add(item.span().start, format!("more than {THINGS_MAX} rules"));
                break;
            }
            if let Some(rule) = self.rule(item, state) {
                places.push(self.rules.len());
                self.rules.push(rule);
            }
        }
        places
    }

    fn rule(&mut self, value: Value<'_>, state: Option<&str>) -> Option<Rule> {
        let table = self.faults.table(value, "a rule", KEYS)?;
        let at = self.rule_place(&table, value);
        let line = self.faults.line(at);
        let name = table.get("name").and_then(|value| self.faults.string(value, "name"));
        let name = name.unwrap_or_else(|| format!("line-{line}"));
        let what = format!("rule {name}");
        let on = self.on(&table, at, &name);
        // Buttons under a rule that leads somewhere are pressed there.
        let stands = table.get("goto").and_then(|value| match value.get_ref() {
            DeValue::String(goto) => Some(goto.to_string()),
            _ => None,
        });
        let acts = self.acts(&table, "reply", stands.as_deref().or(state), &what);
        let flag = |reader: &mut Self, key: &str| {
            table.get(key).and_then(|value| reader.faults.boolean(value, key)).unwrap_or(false)
        };
        let rule = Rule {
            line,
            state: state.map(str::to_owned),
            title: table.get("title").and_then(|value| self.faults.string(value, "title")),
            on,
            when: table.get("when").map(|value| self.when(value)).unwrap_or_default(),
            priority: table
                .get("priority")
                .and_then(|value| self.faults.integer(value, "priority"))
                .unwrap_or(0),
            interrupt: flag(self, "interrupt"),
            acts,
            name,
        };
        if rule.acts == Acts::default() {
            self.faults.add(at, format!("{what} does nothing; give it a reply, a goto or another act"));
        }
        if table.get("on").is_none() {
            self.faults.add(
                at,
                format!("{what} is never woken; write on = {{ intent = \"…\" }} or another of its forms"),
            );
        }
        Some(rule)
    }

    /// Where a reader looks for a rule: at its first key. The header `[[rules]]` stands above it.
    fn rule_place(&self, table: &Table<'_>, value: Value<'_>) -> usize {
        table.entries().first().map_or(value.span().start, |(_, at, _)| *at)
    }

    fn on(&mut self, table: &Table<'_>, at: usize, rule: &str) -> On {
        let known = &["intent", "words", "text", "regex", "command", "button", "event"];
        let Some(value) = table.get("on") else { return On::default() };
        let Some(on) = self.faults.table(value, "on", known) else { return On::default() };
        let mut found = On::default();
        let strings = |reader: &mut Self, key: &str| {
            on.get(key).map(|value| reader.faults.strings(value, key)).unwrap_or_default()
        };
        for (name, at) in strings(self, "intent") {
            found.intents.extend(self.intent(&name, at));
        }
        if let Some(words) = on.get("words") {
            found.intents.push(self.words_as_intent(table, words, at, rule));
        }
        found.texts = strings(self, "text").into_iter().map(|(text, _)| whole(&text)).collect();
        for (text, at) in strings(self, "regex") {
            found.regexes.extend(self.regex(&format!("(?i){text}"), at, &format!("rule {rule}")));
        }
        let bare = |(text, _): (String, usize)| text.trim_start_matches('/').to_lowercase();
        found.commands = strings(self, "command").into_iter().map(bare).collect();
        found.buttons = strings(self, "button").into_iter().map(|(id, _)| id).collect();
        for (event, at) in strings(self, "event") {
            if !EVENTS.contains(&event.as_str()) && !event.ends_with(".ok") && !event.ends_with(".failed") {
                let known = EVENTS.join(", ");
                let text = format!(
                    "no event is called `{event}`; known are {known}, and SERVICE.ok or SERVICE.failed"
                );
                self.faults.add(at, text);
            }
            found.events.push(event);
        }
        found
    }

    fn intent(&mut self, name: &str, at: usize) -> Option<usize> {
        let place = self.intents.iter().position(|intent| intent.name == name);
        if place.is_none() {
            let known: Vec<String> = self.intents.iter().map(|intent| intent.name.clone()).collect();
            let hint = match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write [intents.{name}]"),
            };
            self.faults.add(at, format!("no intent is called `{name}`; {hint}"));
        }
        place
    }

    fn words_as_intent(&mut self, table: &Table<'_>, words: Value<'_>, at: usize, rule: &str) -> usize {
        let intent = Intent {
            name: rule.to_owned(),
            line: self.faults.line(at),
            title: None,
            offer: None,
            any: self.patterns(words, &format!("rule {rule}")),
            not: Vec::new(),
            examples: table.get("examples").map(|value| self.examples(value)).unwrap_or_default(),
            counter: table.get("counter").map(|value| self.examples(value)).unwrap_or_default(),
        };
        self.intents.push(intent);
        self.intents.len() - 1
    }

    pub(super) fn when(&mut self, value: Value<'_>) -> When {
        let known = &["open", "has", "slot", "platform", "not"];
        let Some(table) = self.faults.table(value, "when", known) else { return When::default() };
        let mut when = When {
            open: table.get("open").and_then(|value| self.faults.boolean(value, "when.open")),
            has: table.get("has").map(|value| self.slot_names(value, "when.has")).unwrap_or_default(),
            not: table.get("not").map(|value| Box::new(self.when(value))),
            ..When::default()
        };
        if let Some(value) = table.get("platform") {
            when.platform =
                self.faults.strings(value, "when.platform").into_iter().map(|(name, _)| name).collect();
        }
        if let Some(slots) = table.get("slot").and_then(|value| self.faults.named(value, "when.slot")) {
            for (name, at, value) in slots.entries() {
                self.used.slots.push((name.clone(), at));
                when.slot.push((name, self.slot_values(value)));
            }
        }
        when
    }

    /// What a slot may be compared with: texts, numbers, yes or no.
    fn slot_values(&mut self, value: Value<'_>) -> Vec<String> {
        match value.get_ref() {
            DeValue::Boolean(yes) => vec![if *yes { "yes" } else { "no" }.to_owned()],
            DeValue::Integer(number) => vec![number.as_str().to_owned()],
            _ => self.faults.strings(value, "when.slot").into_iter().map(|(text, _)| text).collect(),
        }
    }

    /// What is done, by a rule or on entering a state.
    pub(super) fn acts(&mut self, table: &Table<'_>, say: &str, state: Option<&str>, what: &str) -> Acts {
        let mut acts = Acts {
            clear: table.get("clear").map(|value| self.slot_names(value, "clear")).unwrap_or_default(),
            buttons: table.get("buttons").map(|value| self.buttons(value, state)).unwrap_or_default(),
            photo: table.get("photo").and_then(|value| self.photo(value, what)),
            subscribe: table.get("subscribe").and_then(|value| self.faults.boolean(value, "subscribe")),
            call: table.get("call").and_then(|value| self.call(value)),
            handoff: table.get("handoff").and_then(|value| self.handoff(value)),
            log: table.get("log").and_then(|value| self.said(value, "log")),
            goto: table.get("goto").and_then(|value| self.goto(value, "goto")),
            end: table.get("end").and_then(|value| self.faults.boolean(value, "end")).unwrap_or(false),
            ..Acts::default()
        };
        // `reply` in a rule and `say` in a state are the same act; either word is understood in both.
        if let Some(value) = table.get("reply").or_else(|| table.get("say")) {
            for (text, at) in self.faults.strings(value, say) {
                self.note_text(&text, at, say);
                acts.reply.push(text);
            }
        }
        if let Some(set) = table.get("set").and_then(|value| self.faults.named(value, "set")) {
            for (name, at, value) in set.entries() {
                self.used.slots.push((name.clone(), at));
                let text = self.slot_values(value).into_iter().next().unwrap_or_default();
                self.used.texts.push((text.clone(), at));
                acts.set.push((name, text));
            }
        }
        if acts.reply.is_empty() && !acts.buttons.is_empty() && table.get("ask").is_none() {
            self.faults.add(table.at, format!("{what} shows buttons under no words; add {say} = \"…\""));
        }
        if acts.goto.is_some() && acts.end {
            self.faults.add(table.at, format!("{what} has both goto and end; keep one"));
        }
        acts
    }

    pub(super) fn photo(&mut self, value: Value<'_>, what: &str) -> Option<String> {
        let url = self.faults.string(value, "photo")?;
        if !is_web_address(&url) {
            let text = format!("{what}: photo must be an http or https address that the platforms can read");
            self.faults.add(value.span().start, text);
        }
        Some(url)
    }

    fn handoff(&mut self, value: Value<'_>) -> Option<String> {
        match value.get_ref() {
            // Without a reason it has the usual one.
            DeValue::Boolean(yes) => yes.then(String::new),
            DeValue::String(_) => self.said(value, "handoff"),
            other => self.faults.wrong(value, "handoff", "true, or why in a text", other),
        }
    }

    fn call(&mut self, value: Value<'_>) -> Option<CallRule> {
        if let DeValue::String(service) = value.get_ref() {
            return Some(CallRule { service: service.to_string(), send: Vec::new(), take: Vec::new() });
        }
        let table = self.faults.table(value, "call", &["service", "send", "take"])?;
        let Some(service) = table.get("service") else {
            self.faults
                .add(value.span().start, "call needs the name of a service, such as service = \"orders\"");
            return None;
        };
        Some(CallRule {
            service: self.faults.string(service, "service")?,
            send: table.get("send").map(|value| self.slot_names(value, "send")).unwrap_or_default(),
            take: table.get("take").map(|value| self.slot_names(value, "take")).unwrap_or_default(),
        })
    }
}

/// A whole text as it is compared: its words, or, where it has none («?»), itself.
pub(super) fn whole(text: &str) -> String {
    let folded = fold(text);
    if folded.is_empty() { text.trim().to_owned() } else { folded }
}
