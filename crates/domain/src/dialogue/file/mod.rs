//! Reads a rules file: TOML in, `Rules` out, or everything that is wrong with it, line by line.
//!
//! `tree` takes values out of the document, `parts` reads the small tables, `rule` the rules and `states` the states;
//! `resolve` looks whether every name that is used exists. Nothing is filled in silently that a typo could hide.

mod buttons;
mod parts;
mod resolve;
mod rule;
mod states;
mod tree;

pub(super) use buttons::carries;

use std::collections::{BTreeMap, HashMap};

use toml::de::{DeTable, DeValue};

use super::fault::Fault;
use super::rules::{Intent, Pressed, Rule, Rules, StateRules};
use super::words::Vocabulary;
use tree::{Faults, Table, Value};

/// Bytes of a rules file, and how many of a thing it may hold.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
pub(super) const THINGS_MAX: usize = 2_000;

const KEYS: &[&str] = &[
    "engine",
    "start",
    "time_zone",
    "hours",
    "limits",
    "operators",
    "subscribe",
    "fallback",
    "texts",
    "intents",
    "slots",
    "rules",
    "states",
    "moved",
];

impl Rules {
    /// Reads a rules file. All that is wrong with it comes back, in the order of the lines.
    pub fn read(source: &str) -> Result<Rules, Vec<Fault>> {
        if source.len() > FILE_BYTES_MAX {
            let text = format!(
                "the file is larger than {FILE_BYTES_MAX} bytes; a bot of this size cannot be tested"
            );
            return Err(vec![Fault::error(1, text)]);
        }
        let document = DeTable::parse(source);
        let mut reader = Reader::new(source);
        let rules = reader.faults.root(&document).and_then(|root| reader.read(root));
        reader.faults.list.sort();
        reader.faults.list.dedup();
        match rules {
            Some(rules) if reader.faults.list.is_empty() => Ok(rules),
            _ => Err(reader.faults.list),
        }
    }
}

/// What is gathered while a file is read.
struct Reader<'s> {
    faults: Faults<'s>,
    vocabulary: Vocabulary,
    intents: Vec<Intent>,
    rules: Vec<Rule>,
    presses: HashMap<String, Pressed>,
    used: Used,
}

/// Names that something uses, each with its place: looked up when everything is read.
#[derive(Default)]
struct Used {
    states: Vec<(String, usize)>,
    slots: Vec<(String, usize)>,
    rules: Vec<(String, usize)>,
    /// Texts with placeholders.
    texts: Vec<(String, usize)>,
}

impl<'s> Reader<'s> {
    fn new(source: &'s str) -> Reader<'s> {
        Reader {
            faults: Faults::new(source),
            vocabulary: Vocabulary::default(),
            intents: Vec::new(),
            rules: Vec::new(),
            presses: HashMap::new(),
            used: Used::default(),
        }
    }

    fn read(&mut self, root: Table<'_>) -> Option<Rules> {
        self.faults.check_keys(&root, "a rules file", KEYS);
        self.engine(&root);
        let texts = self.texts(&root);
        let slots = self.slots(&root);
        self.read_intents(&root);
        let start = self.start(&root);
        self.global_rules(&root);
        let mut states = self.states(&root, &slots, &texts);
        // The start always exists: a bot of nothing but global rules needs no states.
        states.entry(start.clone()).or_insert_with(|| StateRules { line: 1, ..StateRules::default() });
        let zone = self.zone(&root);
        let mut rules = Rules {
            version: 0,
            zone,
            hours: self.hours(&root),
            limits: self.limits(&root),
            operators: self.operators(&root),
            subscribe: self.subscribe(&root),
            fallback: self.fallback(&root, &texts),
            intents: std::mem::take(&mut self.intents),
            slots,
            rules: std::mem::take(&mut self.rules),
            states,
            moved: self.moved(&root),
            subscribes: false,
            texts,
            start,
            vocabulary: std::mem::take(&mut self.vocabulary),
            presses: std::mem::take(&mut self.presses),
            menu: Vec::new(),
        };
        self.resolve(&mut rules);
        Some(rules)
    }

    fn engine(&mut self, root: &Table<'_>) {
        if let Some(value) = root.get("engine")
            && self.faults.integer(value, "engine").is_some_and(|engine| engine != 1)
        {
            self.faults.add(value.span().start, "this rupor reads rules with `engine = 1`");
        }
    }

    fn start(&mut self, root: &Table<'_>) -> String {
        let written = root.get("start").and_then(|value| self.faults.string(value, "start"));
        let first = || {
            let DeValue::Table(states) = root.get("states")?.get_ref() else { return None };
            states.keys().min_by_key(|name| name.span().start).map(|name| name.get_ref().to_string())
        };
        written.or_else(first).unwrap_or_else(|| "start".to_owned())
    }

    /// A text that people read: remembered, so that its placeholders are checked.
    fn said(&mut self, value: Value<'_>, what: &str) -> Option<String> {
        let text = self.faults.string(value, what)?;
        self.note_text(&text, value.span().start, what);
        Some(text)
    }

    fn note_text(&mut self, text: &str, at: usize, what: &str) {
        if text.trim().is_empty() {
            self.faults.add(at, format!("{what} is empty; platforms do not send empty messages"));
        }
        if text.chars().count() > parts::TEXT_CHARACTERS_MAX {
            let most = parts::TEXT_CHARACTERS_MAX;
            self.faults
                .add(at, format!("{what} is longer than {most} characters, which one message cannot hold"));
        }
        self.used.texts.push((text.to_owned(), at));
    }

    fn goto(&mut self, value: Value<'_>, what: &str) -> Option<String> {
        let name = self.faults.string(value, what)?;
        self.used.states.push((name.clone(), value.span().start));
        Some(name)
    }

    fn slot_names(&mut self, value: Value<'_>, what: &str) -> Vec<String> {
        let names = self.faults.strings(value, what);
        self.used.slots.extend(names.iter().cloned());
        names.into_iter().map(|(name, _)| name).collect()
    }

    fn named_tables<'a>(&mut self, root: &Table<'a>, key: &str) -> Vec<(String, usize, Value<'a>)> {
        let table = root.get(key).and_then(|value| self.faults.named(value, key));
        let entries = table.map(|table| table.entries()).unwrap_or_default();
        if entries.len() > THINGS_MAX {
            self.faults.add(entries[0].1, format!("more than {THINGS_MAX} {key}"));
        }
        for (name, at, _) in &entries {
            if !is_name(name) {
                let text = format!(
                    "{key}: `{name}` is no good name; use letters, digits, `_`, `-` and `.`, up to 40"
                );
                self.faults.add(*at, text);
            }
        }
        entries
    }

    fn moved(&mut self, root: &Table<'_>) -> BTreeMap<String, String> {
        let entries = root.get("moved").and_then(|value| self.faults.named(value, "[moved]"));
        let mut moved = BTreeMap::new();
        for (old, _, value) in entries.map(|table| table.entries()).unwrap_or_default() {
            moved.extend(self.goto(value, "[moved]").map(|new| (old, new)));
        }
        moved
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().count() <= 40 && name.chars().all(fits)
}
