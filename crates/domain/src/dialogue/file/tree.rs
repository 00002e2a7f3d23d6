//! A TOML document with the place of every value: takes values out by kind, and says at which line one is not what it
//! should be. It knows nothing of bots.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::fault::{Fault, nearest};
use crate::span;
use crate::time::Span;

pub(super) type Value<'a> = &'a Spanned<DeValue<'a>>;

/// A table whose keys are known to be right.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    table: &'a DeTable<'a>,
    pub at: usize,
}

impl<'a> Table<'a> {
    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Its entries in the order of the file: name, place of the name, value.
    pub(super) fn entries(&self) -> Vec<(String, usize, Value<'a>)> {
        let mut entries: Vec<_> = self
            .table
            .iter()
            .map(|(name, value)| (name.get_ref().to_string(), name.span().start, value))
            .collect();
        entries.sort_by_key(|(_, at, _)| *at);
        entries
    }
}

/// Where faults are gathered.
pub(super) struct Faults<'s> {
    source: &'s str,
    pub list: Vec<Fault>,
}

impl<'s> Faults<'s> {
    pub(super) fn new(source: &'s str) -> Faults<'s> {
        Faults { source, list: Vec::new() }
    }

    pub(super) fn line(&self, at: usize) -> usize {
        let before = self.source.as_bytes().get(..at.min(self.source.len())).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    pub(super) fn add(&mut self, at: usize, text: impl Into<String>) {
        let line = self.line(at);
        self.list.push(Fault::error(line, text));
    }

    /// The whole document, if it is TOML at all.
    pub(super) fn root<'a>(
        &mut self,
        document: &'a Result<Spanned<DeTable<'a>>, toml::de::Error>,
    ) -> Option<Table<'a>> {
        match document {
            Ok(table) => Some(Table { table: table.get_ref(), at: 0 }),
            Err(error) => {
                let message = error.message().replace('\n', ", ");
                self.add(error.span().map_or(0, |span| span.start), format!("this is not TOML: {message}"));
                None
            }
        }
    }

    /// A table with names of the author's own.
    pub(super) fn named<'a>(&mut self, value: Value<'a>, what: &str) -> Option<Table<'a>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(Table { table, at: value.span().start }),
            other => self.wrong(value, what, "a table", other),
        }
    }

    /// A table with these keys and no others.
    pub(super) fn table<'a>(&mut self, value: Value<'a>, what: &str, known: &[&str]) -> Option<Table<'a>> {
        let table = self.named(value, what)?;
        self.check_keys(&table, what, known);
        Some(table)
    }

    pub(super) fn check_keys(&mut self, table: &Table<'_>, what: &str, known: &[&str]) {
        for (key, at, _) in table.entries() {
            if known.contains(&key.as_str()) {
                continue;
            }
            let hint = match nearest(&key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys are {}", known.join(", ")),
            };
            self.add(at, format!("{what} has no key `{key}`; {hint}"));
        }
    }

    pub(super) fn string(&mut self, value: Value<'_>, what: &str) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            other => self.wrong(value, what, "a text in quotes", other),
        }
    }

    /// One text, or a list of them, each with its place.
    pub(super) fn strings(&mut self, value: Value<'_>, what: &str) -> Vec<(String, usize)> {
        let list: Vec<Value<'_>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let text = |item: Value<'_>| Some((self.string(item, what)?, item.span().start));
        list.into_iter().filter_map(text).collect()
    }

    pub(super) fn boolean(&mut self, value: Value<'_>, what: &str) -> Option<bool> {
        match value.get_ref() {
            DeValue::Boolean(yes) => Some(*yes),
            other => self.wrong(value, what, "true or false", other),
        }
    }

    pub(super) fn integer(&mut self, value: Value<'_>, what: &str) -> Option<i64> {
        match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            other => self.wrong(value, what, "a whole number", other),
        }
    }

    /// A count from one up.
    pub(super) fn count(&mut self, value: Value<'_>, what: &str) -> Option<u32> {
        let number = self.integer(value, what)?;
        let count = u32::try_from(number).ok().filter(|count| (1..=1_000_000).contains(count));
        if count.is_none() {
            self.add(value.span().start, format!("{what} must be between 1 and 1000000, not {number}"));
        }
        count
    }

    pub(super) fn number(&mut self, value: Value<'_>, what: &str) -> Option<f64> {
        match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(_) => self.integer(value, what).map(|number| number as f64),
            other => self.wrong(value, what, "a number", other),
        }
    }

    pub(super) fn span(&mut self, value: Value<'_>, what: &str) -> Option<Span> {
        let text = self.string(value, what)?;
        let span = span::parse(&text).filter(|span| *span > Span::ZERO);
        if span.is_none() {
            self.add(value.span().start, format!("{what}: `{text}` is not {}", span::FORM));
        }
        span
    }

    pub(super) fn items<'a>(&mut self, value: Value<'a>, what: &str) -> Vec<Value<'a>> {
        match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            other => self.wrong(value, what, "a list in square brackets", other).unwrap_or_default(),
        }
    }

    pub(super) fn wrong<T>(
        &mut self,
        value: Value<'_>,
        what: &str,
        expected: &str,
        found: &DeValue<'_>,
    ) -> Option<T> {
        let found = match found {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date without quotes",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.add(value.span().start, format!("{what} must be {expected}, but it is {found}"));
        None
    }
}
