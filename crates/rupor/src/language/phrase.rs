//! A phrase that has not been said yet, and how it is said.

use std::fmt;

use domain::time::{Span, Timestamp};
use serde::{Serialize, Serializer};

use super::{Language, catalogue};

/// Something that people are told, in whatever language they read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phrase {
    /// What is the same in every language: names, commands, what somebody else said.
    Text(String),
    Number(i64),
    Moment(Timestamp),
    Span(Span),
    /// A text of the catalogue with what stands in its places.
    Known(&'static str, Vec<(&'static str, Phrase)>),
    /// One after the other.
    Joined(Vec<Phrase>),
}

impl Phrase {
    pub(crate) fn known(id: &'static str, values: Vec<(&'static str, Phrase)>) -> Phrase {
        debug_assert!(catalogue::find(id).is_some(), "{id} is not in the catalogue");
        Phrase::Known(id, values)
    }

    pub(crate) fn none() -> Phrase {
        Phrase::Text(String::new())
    }

    /// With another phrase right behind it.
    pub(crate) fn and(self, next: impl Into<Phrase>) -> Phrase {
        Phrase::Joined(vec![self, next.into()])
    }

    /// Several, with something between them.
    pub(crate) fn list(phrases: impl IntoIterator<Item = Phrase>, between: &str) -> Phrase {
        let mut joined: Vec<Phrase> = Vec::new();
        for phrase in phrases.into_iter().filter(|phrase| !phrase.is_empty()) {
            if !joined.is_empty() {
                joined.push(between.into());
            }
            joined.push(phrase);
        }
        Phrase::Joined(joined)
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Phrase::Text(text) => text.is_empty(),
            Phrase::Joined(all) => all.iter().all(Phrase::is_empty),
            _ => false,
        }
    }

    pub(crate) fn in_language(&self, language: Language) -> String {
        match self {
            Phrase::Text(text) => text.clone(),
            Phrase::Number(number) => number.to_string(),
            Phrase::Moment(at) => moment(*at),
            Phrase::Span(length) => span(*length, language),
            Phrase::Joined(all) => all.iter().map(|one| one.in_language(language)).collect(),
            Phrase::Known(id, values) => match catalogue::find(id) {
                Some(text) => fill(text.in_language(language), values, language),
                None => (*id).to_owned(),
            },
        }
    }
}

/// In English: what programs and logs get.
impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_language(Language::En))
    }
}

impl Serialize for Phrase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialEq<&str> for Phrase {
    fn eq(&self, other: &&str) -> bool {
        self.in_language(Language::En) == *other
    }
}

impl From<&str> for Phrase {
    fn from(text: &str) -> Phrase {
        Phrase::Text(text.to_owned())
    }
}

impl From<&String> for Phrase {
    fn from(text: &String) -> Phrase {
        Phrase::Text(text.clone())
    }
}

impl From<String> for Phrase {
    fn from(text: String) -> Phrase {
        Phrase::Text(text)
    }
}

impl From<&Phrase> for Phrase {
    fn from(phrase: &Phrase) -> Phrase {
        phrase.clone()
    }
}

impl From<i64> for Phrase {
    fn from(number: i64) -> Phrase {
        Phrase::Number(number)
    }
}

impl From<u32> for Phrase {
    fn from(number: u32) -> Phrase {
        Phrase::Number(i64::from(number))
    }
}

impl From<i32> for Phrase {
    fn from(number: i32) -> Phrase {
        Phrase::Number(i64::from(number))
    }
}

impl From<usize> for Phrase {
    fn from(number: usize) -> Phrase {
        Phrase::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for Phrase {
    fn from(at: Timestamp) -> Phrase {
        Phrase::Moment(at)
    }
}

impl From<Span> for Phrase {
    fn from(length: Span) -> Phrase {
        Phrase::Span(length)
    }
}

/// The text with its places filled; a place that nobody fills stays as it is written, for everybody to see.
fn fill(text: &str, values: &[(&'static str, Phrase)], language: Language) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, place, after)) = next_place(rest) {
        filled += before;
        let (name, forms) = place.split_once(':').unwrap_or((place, ""));
        match values.iter().find(|(known, _)| *known == name) {
            None => filled += &format!("{{{place}}}"),
            Some((_, value)) if forms.is_empty() => filled += &value.in_language(language),
            Some((_, value)) => {
                let forms: Vec<&str> = forms.split('|').collect();
                let number = if let Phrase::Number(number) = value { *number } else { 0 };
                filled += forms.get(form(number, language)).or(forms.last()).copied().unwrap_or_default();
            }
        }
        rest = after;
    }
    filled + rest
}

/// What stands before the first place, the place, and the rest.
pub(super) fn next_place(text: &str) -> Option<(&str, &str, &str)> {
    let (before, from) = text.split_once('{')?;
    let (place, after) = from.split_once('}')?;
    Some((before, place, after))
}

/// Which word goes with a number: 1 post, 2 posts; 1 пост, 2 поста, 5 постов, 21 пост.
fn form(number: i64, language: Language) -> usize {
    let (tens, ones) = (number.unsigned_abs() % 100, number.unsigned_abs() % 10);
    match language {
        Language::En => usize::from(number != 1),
        Language::Ru if ones == 1 && tens != 11 => 0,
        Language::Ru if (2..=4).contains(&ones) && !(12..=14).contains(&tens) => 1,
        Language::Ru => 2,
    }
}

/// A moment in UTC, to the second.
pub(crate) fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        _ if at == Timestamp::NEVER => "never".to_owned(),
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "never".to_owned(),
    }
}

/// A span as people say it: the two largest units.
pub(crate) fn span(length: Span, language: Language) -> String {
    let seconds = (length.0.max(0) + 999_999) / 1_000_000;
    let [day, hour, minute, second] = match language {
        Language::En => ["d", "h", "min", "s"],
        Language::Ru => ["д", "ч", "мин", "с"],
    };
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let two = |large: i64, unit: &str, small: i64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match seconds {
        86_400.. => two(days, day, hours, hour),
        3_600.. => two(hours, hour, minutes, minute),
        60.. => two(minutes, minute, rest, second),
        _ => format!("{rest} {second}"),
    }
}
