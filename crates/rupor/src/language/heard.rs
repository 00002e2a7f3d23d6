//! Sentences that other crates have written in English, found again in the catalogue.
//!
//! Rules, platforms and rows say their reasons in English, and know nothing of this catalogue. The texts whose ids begin
//! with `heard.` are those sentences with their places; what fits one of them can be said in every language, and what
//! fits none stays as it is.

use super::phrase::next_place;
use super::{Phrase, catalogue};

/// The phrase that a sentence is.
pub(crate) fn heard(sentence: &str) -> Phrase {
    let known = catalogue::all().filter(|text| text.id.starts_with("heard."));
    // The one with the most words of its own: `{what} is gone` fits more than was meant.
    let own = |text: &catalogue::Text| text.en.len() - text.en.matches('{').count() * 2;
    let fits = known.filter_map(|text| Some((own(text), text.id, taken(text.en, sentence)?)));
    match fits.max_by_key(|(own, id, _)| (*own, *id)) {
        Some((_, id, values)) => {
            let values = values.into_iter().map(|(name, value)| (name, number_or_text(value)));
            Phrase::Known(id, values.collect())
        }
        None => Phrase::Text(sentence.to_owned()),
    }
}

/// A value may be a number, for the form of the word behind it, or a sentence of its own.
fn number_or_text(value: &str) -> Phrase {
    match value.parse() {
        Ok(number) if value.bytes().all(|digit| digit.is_ascii_digit()) => Phrase::Number(number),
        _ => heard(value),
    }
}

/// What stands in the places of a pattern, if the sentence is one of its making.
fn taken<'a>(pattern: &'static str, sentence: &'a str) -> Option<Vec<(&'static str, &'a str)>> {
    let Some((before, place, after)) = next_place(pattern) else {
        return (pattern == sentence).then(Vec::new);
    };
    let rest = sentence.strip_prefix(before)?;
    if let Some((_, forms)) = place.split_once(':') {
        return forms.split('|').find_map(|form| taken(after, rest.strip_prefix(form)?));
    }
    let until = next_place(after).map_or(after, |(before, _, _)| before);
    let ends: Vec<usize> = match until {
        "" => vec![rest.len()],
        until => rest.match_indices(until).map(|(at, _)| at).filter(|at| *at > 0).collect(),
    };
    ends.into_iter().filter(|end| *end > 0).find_map(|end| {
        let mut values = vec![(place, &rest[..end])];
        values.extend(taken(after, &rest[end..])?);
        Some(values)
    })
}
