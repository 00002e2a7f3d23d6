//! The route language: which messages go to a channel.
//!
//! A route is a small tree of conditions over tags, facts and text, written in JSON or TOML.
//! It is parsed once, strictly: an unknown key, tag or value is an error that names the known ones, because a
//! misspelt condition that matched everything would publish everything.
//! Evaluation is pure, linear in the text, and says which condition decided.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::content::Facts;
use crate::content::tags::{TAG_KEYS, Values, tag_value, tag_values};

/// Conditions in one route.
pub const ROUTE_CONDITIONS_MAX: usize = 200;
/// Conditions inside conditions.
pub const ROUTE_DEPTH_MAX: usize = 8;
/// Characters of one regular expression.
pub const ROUTE_REGEX_MAX: usize = 1_000;
/// Bytes a compiled expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// Bytes of text that expressions look at.
pub const ROUTE_TEXT_MAX: usize = 100_000;

/// Which messages pass: every condition of `all`, at least one of `any`, none of `exclude`.
///
/// A route without conditions passes everything, and has to be written as `{}` on purpose.
#[derive(Debug, Clone, Default)]
pub struct Route {
    any: Vec<Condition>,
    all: Vec<Condition>,
    exclude: Vec<Condition>,
    written: Value,
}

#[derive(Debug, Clone)]
enum Condition {
    /// `kind:lost`, or `city:*` for any value.
    Tag(String),
    HasKey(String),
    Matches(Field, Regex),
    Phone(String),
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
}

/// What a regular expression is matched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Text,
    Place,
    Name,
    Breed,
}

const FIELDS: [(&str, Field); 4] =
    [("text", Field::Text), ("place", Field::Place), ("name", Field::Name), ("breed", Field::Breed)];

/// What a route looks at.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub tags: &'a BTreeSet<String>,
    pub facts: &'a Facts,
    /// Own text and reposted texts.
    pub text: &'a str,
}

/// The answer with the condition that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteAnswer {
    pub passes: bool,
    /// For example `any: kind:lost` or `exclude: text /щен/ found «щенок»`.
    pub because: String,
}

/// Why a route cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("route {at}: unknown key `{key}`; known are {known}")]
    UnknownKey { at: String, key: String, known: String },
    #[error("route {at}: unknown tag key `{key}` in `{tag}`; known are {known}")]
    UnknownTagKey { at: String, key: String, tag: String, known: String },
    #[error("route {at}: unknown value `{value}` of `{key}`; known are {known}")]
    UnknownValue { at: String, key: String, value: String, known: String },
    #[error("route {at}: expected {expected}, got {got}")]
    WrongType { at: String, expected: &'static str, got: String },
    #[error("route {at}: the list is empty, so nothing could ever match; remove it or fill it")]
    EmptyList { at: String },
    #[error("route {at}: the expression /{expression}/ is not valid: {cause}")]
    BadRegex { at: String, expression: String, cause: String },
    #[error("route {at}: more than {limit} {what}; split the route")]
    TooMuch { at: String, what: &'static str, limit: usize },
}

impl Route {
    /// Reads a route from its JSON form; TOML arrives here as the same value.
    pub fn parse(written: &Value) -> Result<Route, RouteError> {
        let mut parser = Parser { conditions: 0 };
        let Value::Object(entries) = written else {
            return Err(wrong_type("", "an object with `any`, `all` or `exclude`", written));
        };
        let mut route = Route { written: written.clone(), ..Route::default() };
        for (key, value) in entries {
            let list = match key.as_str() {
                "any" => &mut route.any,
                "all" => &mut route.all,
                "exclude" => &mut route.exclude,
                _ => return Err(unknown_key("", key, "any, all, exclude")),
            };
            *list = parser.list(key, value, 0)?;
        }
        Ok(route)
    }

    /// True when the route passes everything because it says nothing.
    pub fn is_open(&self) -> bool {
        self.any.is_empty() && self.all.is_empty() && self.exclude.is_empty()
    }

    /// Whether it lets posts pass for being of a kind, and of another one than lost.
    pub fn asks_beyond_lost(&self) -> bool {
        self.any.iter().chain(&self.all).any(Condition::asks_beyond_lost)
    }

    /// Decides about one message. Exclusion is asked first: it is what an operator added last and means most.
    pub fn check(&self, subject: &Subject<'_>) -> RouteAnswer {
        if let Some(reason) = self.exclude.iter().find_map(|condition| condition.holds(subject)) {
            return RouteAnswer { passes: false, because: format!("exclude: {reason}") };
        }
        let mut because = Vec::new();
        for condition in &self.all {
            match condition.holds(subject) {
                Some(reason) => because.push(format!("all: {reason}")),
                None => {
                    return RouteAnswer {
                        passes: false,
                        because: format!("all: {} does not hold", condition.spoken()),
                    };
                }
            }
        }
        if !self.any.is_empty() {
            match self.any.iter().find_map(|condition| condition.holds(subject)) {
                Some(reason) => because.push(format!("any: {reason}")),
                None => {
                    let wanted: Vec<String> = self.any.iter().map(Condition::spoken).collect();
                    return RouteAnswer {
                        passes: false,
                        because: format!("any: none of {} holds", wanted.join(", ")),
                    };
                }
            }
        }
        if because.is_empty() {
            because.push(if self.is_open() { "the route is open" } else { "nothing excludes it" }.to_owned());
        }
        RouteAnswer { passes: true, because: because.join("; ") }
    }
}

impl Condition {
    /// Why the condition holds, or nothing.
    fn holds(&self, subject: &Subject<'_>) -> Option<String> {
        match self {
            Condition::Tag(tag) => subject.tags.contains(tag).then(|| tag.clone()),
            Condition::HasKey(key) => {
                let mut tags = subject.tags.range(format!("{key}:")..);
                tags.next().filter(|tag| tag.starts_with(&format!("{key}:"))).cloned()
            }
            Condition::Matches(field, regex) => {
                let found = field
                    .texts(subject)
                    .into_iter()
                    .find_map(|text| regex.find(text).map(|found| found.as_str()));
                found.map(|words| format!("{} /{regex}/ found «{}»", field.name(), short(words)))
            }
            Condition::Phone(phone) => {
                subject.facts.phone_numbers().any(|known| known == phone).then(|| format!("phone {phone}"))
            }
            Condition::Any(conditions) => conditions.iter().find_map(|condition| condition.holds(subject)),
            Condition::All(conditions) => {
                let reasons: Option<Vec<String>> =
                    conditions.iter().map(|condition| condition.holds(subject)).collect();
                reasons.map(|reasons| reasons.join(" and "))
            }
            Condition::Not(condition) => {
                condition.holds(subject).is_none().then(|| format!("not {}", condition.spoken()))
            }
        }
    }

    fn asks_beyond_lost(&self) -> bool {
        match self {
            Condition::Tag(tag) => tag.strip_prefix("kind:").is_some_and(|kind| kind != "lost"),
            Condition::HasKey(key) => key == "kind",
            Condition::Any(conditions) | Condition::All(conditions) => {
                conditions.iter().any(Condition::asks_beyond_lost)
            }
            // Not this kind: any other.
            Condition::Not(condition) => condition.speaks_of_kind(),
            Condition::Matches(..) | Condition::Phone(_) => false,
        }
    }

    fn speaks_of_kind(&self) -> bool {
        match self {
            Condition::Tag(tag) => tag.starts_with("kind:"),
            Condition::HasKey(key) => key == "kind",
            Condition::Any(conditions) | Condition::All(conditions) => {
                conditions.iter().any(Condition::speaks_of_kind)
            }
            Condition::Not(condition) => condition.speaks_of_kind(),
            Condition::Matches(..) | Condition::Phone(_) => false,
        }
    }

    fn spoken(&self) -> String {
        let list = |conditions: &[Condition], word: &str| {
            let spoken: Vec<String> = conditions.iter().map(Condition::spoken).collect();
            format!("({})", spoken.join(word))
        };
        match self {
            Condition::Tag(tag) => tag.clone(),
            Condition::HasKey(key) => format!("{key}:*"),
            Condition::Matches(field, regex) => format!("{} /{regex}/", field.name()),
            Condition::Phone(phone) => format!("phone {phone}"),
            Condition::Any(conditions) => list(conditions, " or "),
            Condition::All(conditions) => list(conditions, " and "),
            Condition::Not(condition) => format!("not {}", condition.spoken()),
        }
    }
}

impl Field {
    fn name(self) -> &'static str {
        FIELDS.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }

    fn texts<'a>(self, subject: &Subject<'a>) -> Vec<&'a str> {
        let facts = subject.facts;
        match self {
            Field::Text => vec![&subject.text[..subject.text.floor_char_boundary(ROUTE_TEXT_MAX)]],
            Field::Place => {
                facts.place.iter().chain(&facts.other_places).map(|place| place.value.as_str()).collect()
            }
            Field::Name => facts.pet_names.iter().map(|name| name.value.as_str()).collect(),
            Field::Breed => facts.breed.iter().map(|breed| breed.value.as_str()).collect(),
        }
    }
}

/// Words quoted in an explanation are kept short.
fn short(words: &str) -> String {
    const QUOTED_MAX: usize = 40;
    if words.chars().count() <= QUOTED_MAX {
        return words.to_owned();
    }
    words.chars().take(QUOTED_MAX).chain(['…']).collect()
}

struct Parser {
    conditions: usize,
}

impl Parser {
    fn list(&mut self, at: &str, value: &Value, depth: usize) -> Result<Vec<Condition>, RouteError> {
        let Value::Array(values) = value else {
            return Err(wrong_type(at, "a list of conditions", value));
        };
        if values.is_empty() {
            return Err(RouteError::EmptyList { at: place(at) });
        }
        let conditions = values
            .iter()
            .enumerate()
            .map(|(index, value)| self.condition(&format!("{at}[{index}]"), value, depth + 1));
        conditions.collect()
    }

    fn condition(&mut self, at: &str, value: &Value, depth: usize) -> Result<Condition, RouteError> {
        self.conditions += 1;
        if self.conditions > ROUTE_CONDITIONS_MAX {
            return Err(RouteError::TooMuch {
                at: place(at),
                what: "conditions",
                limit: ROUTE_CONDITIONS_MAX,
            });
        }
        if depth > ROUTE_DEPTH_MAX {
            return Err(RouteError::TooMuch { at: place(at), what: "levels", limit: ROUTE_DEPTH_MAX });
        }
        match value {
            Value::String(tag) => parse_tag(at, tag),
            Value::Object(entries) => {
                let mut entries = entries.iter();
                match (entries.next(), entries.next()) {
                    (Some((key, value)), None) => self.keyed(at, key, value, depth),
                    _ => Err(wrong_type(at, "an object with exactly one key", value)),
                }
            }
            other => Err(wrong_type(at, "a tag such as \"kind:lost\" or an object", other)),
        }
    }

    fn keyed(&mut self, at: &str, key: &str, value: &Value, depth: usize) -> Result<Condition, RouteError> {
        let inner = format!("{at}.{key}");
        match key {
            "any" => self.list(&inner, value, depth).map(Condition::Any),
            "all" => self.list(&inner, value, depth).map(Condition::All),
            "not" => {
                self.condition(&inner, value, depth + 1).map(|condition| Condition::Not(Box::new(condition)))
            }
            "phone" => Ok(Condition::Phone(string(&inner, value)?.to_owned())),
            key if TAG_KEYS.contains(&key) && key != "breed" => tag_list(&inner, key, value),
            key => match FIELDS.iter().find(|(name, _)| *name == key) {
                Some((_, field)) => {
                    expression(&inner, string(&inner, value)?).map(|regex| Condition::Matches(*field, regex))
                }
                None => Err(unknown_key(at, key, &known_keys())),
            },
        }
    }
}

fn known_keys() -> String {
    let fields = FIELDS.iter().map(|(name, _)| *name);
    let tags = TAG_KEYS.into_iter().filter(|key| *key != "breed");
    let keys: Vec<&str> = ["any", "all", "not", "phone"].into_iter().chain(fields).chain(tags).collect();
    keys.join(", ")
}

/// `{ "kind": "lost" }` or `{ "kind": ["lost", "found"] }`.
fn tag_list(at: &str, key: &str, value: &Value) -> Result<Condition, RouteError> {
    match value {
        Value::String(one) => parse_tag(at, &format!("{key}:{one}")),
        Value::Array(values) if values.is_empty() => Err(RouteError::EmptyList { at: place(at) }),
        Value::Array(values) => {
            let tags = values.iter().map(|value| parse_tag(at, &format!("{key}:{}", string(at, value)?)));
            tags.collect::<Result<Vec<_>, _>>().map(Condition::Any)
        }
        other => Err(wrong_type(at, "a value or a list of values", other)),
    }
}

fn parse_tag(at: &str, tag: &str) -> Result<Condition, RouteError> {
    let Some((key, value)) = tag.split_once(':') else {
        return Err(RouteError::WrongType {
            at: place(at),
            expected: "a tag of the form `key:value`",
            got: format!("`{}`", short(tag)),
        });
    };
    let Some(values) = tag_values(key) else {
        let known = TAG_KEYS.join(", ");
        return Err(RouteError::UnknownTagKey { at: place(at), key: short(key), tag: short(tag), known });
    };
    let value = tag_value(value);
    if value == "*" {
        return Ok(Condition::HasKey(key.to_owned()));
    }
    match values {
        Values::OneOf(known) if !known.contains(&value.as_str()) => Err(RouteError::UnknownValue {
            at: place(at),
            key: key.to_owned(),
            value: short(&value),
            known: known.join(", "),
        }),
        _ if value.is_empty() => Err(RouteError::UnknownValue {
            at: place(at),
            key: key.to_owned(),
            value,
            known: "any word, or *".to_owned(),
        }),
        _ => Ok(Condition::Tag(format!("{key}:{value}"))),
    }
}

fn expression(at: &str, written: &str) -> Result<Regex, RouteError> {
    if written.chars().count() > ROUTE_REGEX_MAX {
        return Err(RouteError::TooMuch {
            at: place(at),
            what: "characters of an expression",
            limit: ROUTE_REGEX_MAX,
        });
    }
    let bad = |cause: String| RouteError::BadRegex { at: place(at), expression: short(written), cause };
    if written.is_empty() {
        return Err(bad("it is empty and would match everything".to_owned()));
    }
    let regex = RegexBuilder::new(written)
        .case_insensitive(true)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| bad(error.to_string().replace('\n', " ")))?;
    if regex.is_match("") && regex.is_match("слово") {
        return Err(bad("it matches every text".to_owned()));
    }
    Ok(regex)
}

fn string<'a>(at: &str, value: &'a Value) -> Result<&'a str, RouteError> {
    value.as_str().ok_or_else(|| wrong_type(at, "a string", value))
}

fn unknown_key(at: &str, key: &str, known: &str) -> RouteError {
    RouteError::UnknownKey { at: place(at), key: short(key), known: known.to_owned() }
}

fn wrong_type(at: &str, expected: &'static str, got: &Value) -> RouteError {
    let got = match got {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) => format!("the string `{}`", short(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(entries) => format!("an object with {} keys", entries.len()),
    };
    RouteError::WrongType { at: place(at), expected, got }
}

fn place(at: &str) -> String {
    if at.is_empty() { "at its top".to_owned() } else { format!("at `{at}`") }
}

/// As it was written.
impl Serialize for Route {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.written {
            Value::Null => Value::Object(serde_json::Map::new()).serialize(serializer),
            written => written.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Route, D::Error> {
        Route::parse(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        self.written == other.written
    }
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
