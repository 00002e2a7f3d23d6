//! What people read, in their language: one catalogue, and phrases that can be said in any language it has.
//!
//! `catalogue/*.txt` holds every text under an id: the English line, then the Russian one, with the same placeholders.
//! Code makes a `Phrase` with `say!("id", name = value)` and whoever shows it says in which language:
//! `phrase.in_language(language)`. What programs read never changes with the language: a phrase is serialised, logged and
//! compared in English. `heard` finds the Russian of sentences that other crates write in English.
//!
//! A placeholder is `{name}`; `{name:one|many}` (English) and `{name:один|два|пять}` (Russian) choose a word by a number.

mod catalogue;
mod heard;
mod phrase;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

pub(crate) use heard::heard;
pub(crate) use phrase::{Phrase, moment, span};

/// A language that the catalogue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, clap::ValueEnum)]
pub(crate) enum Language {
    #[default]
    En,
    Ru,
}

impl Language {
    /// `ru`, `ru_RU.UTF-8`, `Russian` are Russian, and so on; `None`: not one of ours.
    pub(crate) fn parse(text: &str) -> Option<Language> {
        let text = text.trim().to_ascii_lowercase();
        match text.split(['_', '.', '-', '@']).next()? {
            "ru" | "russian" => Some(Language::Ru),
            "en" | "english" | "c" | "posix" => Some(Language::En),
            _ => None,
        }
    }

    /// As the environment wants it: `RUPOR_LANG`, else what all programs read.
    pub(crate) fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Language {
        let set = |name: &&str| variable(name).filter(|value| !value.trim().is_empty());
        let named = ["RUPOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(set);
        named.and_then(|value| Language::parse(&value)).unwrap_or_default()
    }
}

static CHOSEN: OnceLock<Language> = OnceLock::new();

/// Chooses the language of this process, once, before anything is said.
pub(crate) fn choose(language: Language) {
    // A second choice would change words in the middle of a page.
    let _ = CHOSEN.set(language);
}

/// The language of this process; English until somebody chooses.
pub(crate) fn chosen() -> Language {
    CHOSEN.get().copied().unwrap_or_default()
}

/// Every text whose id begins with `prefix`, as an object of id and text: for pages that speak for themselves.
pub(crate) fn as_json(language: Language, prefix: &str) -> serde_json::Value {
    let of_page = catalogue::all().filter(|text| text.id.starts_with(prefix));
    let texts = of_page.map(|text| (text.id.to_owned(), text.in_language(language).into()));
    serde_json::Value::Object(texts.collect())
}

/// A phrase of the catalogue: `say!("channel.paused", name = channel.name)`. Values are texts, numbers, moments, spans
/// and other phrases.
macro_rules! say {
    ($id:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::language::Phrase::known($id, vec![$((stringify!($name), $crate::language::Phrase::from($value))),*])
    };
}
pub(crate) use say;
