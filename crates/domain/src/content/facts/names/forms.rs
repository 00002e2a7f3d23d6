//! The shapes of names: their dictionary form, their gender, and what only looks like one.

use crate::content::Sex;
use crate::content::lexicon::morph;

pub(super) fn is_preposition(word: &str) -> bool {
    matches!(word, "в" | "во" | "на" | "по" | "у" | "с" | "со" | "из" | "к" | "от" | "до" | "за" | "под")
}

/// Verbs, adjectives and abstract nouns open sentences too; names of pets do not end like them.
pub(super) fn looks_inflected(word: &str) -> bool {
    const ENDINGS: &[&str] = &[
        "ть", "ться", "ем", "им", "ите", "ете", "йте", "ют", "ят", "ет", "ит", "аю", "яю", "ую", "ого",
        "ому", "ые", "ие", "ых", "их", "ами", "ями", "ение", "ание", "ость", "ство", "тся", "ся", "сь",
        "ишь", "ешь", "ний", "ный", "ный", "ная", "ное", "ой", "ском", "еро", "ждый", "ский", "ская", "ли",
        "лись", "ла", "лась", "ло", "лось", "но", "то",
    ];
    ENDINGS.iter().any(|ending| word.ends_with(ending))
}

pub(super) fn ends_like_adjective(word: &str) -> bool {
    ["ая", "яя", "ой", "ого", "ую", "ские", "ский"].iter().any(|ending| word.ends_with(ending))
}

pub(super) fn fold(name: &str) -> String {
    name.to_lowercase().replace('ё', "е")
}

pub(super) fn title_case(word: &str) -> String {
    let mut letters = word.chars();
    let Some(first) = letters.next() else { return String::new() };
    first.to_uppercase().chain(letters.flat_map(char::to_lowercase)).collect()
}

/// The nominative of a name that stands in another case.
pub(super) fn straighten(name: &str, male: bool) -> String {
    let end = |ending: &str, instead: &str| name.strip_suffix(ending).map(|stem| format!("{stem}{instead}"));
    let fixed = end("у", "а").or_else(|| end("ю", "я")).or_else(|| end("ом", "")).or_else(|| end("ой", "а"));
    let fixed = fixed.or_else(|| if male { end("а", "") } else { end("и", "а").or_else(|| end("ы", "а")) });
    fixed.filter(|fixed| fixed.chars().count() >= 2).unwrap_or_else(|| name.to_owned())
}

/// What the dictionary knows the word as (`Пельмень`, `Тиша`), or else its ending.
pub(super) fn guess_gender(name: &str) -> Sex {
    if let Some(sex) = morph::gender(&fold(name)) {
        return sex;
    }
    match name.chars().last() {
        Some('а' | 'я') => Sex::F,
        Some(letter) if "бвгджзйклмнпрстфхцчшщ".contains(letter) => Sex::M,
        _ => Sex::Unknown,
    }
}
