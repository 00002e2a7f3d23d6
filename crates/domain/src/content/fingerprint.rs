//! The fingerprint, version 1: equal for the same announcement however it is spelled.
//!
//! The exact bytes are `phones=P|animal=A|sex=S|loc=L|t=sha1:T`; the stored value is the hex SHA-1 of them.
//! It must not depend on anything that a person may change without meaning to.

use sha1::{Digest, Sha1};

use super::clean::LETTERS_MAX;
use super::{Animal, Cleaned, Facts, Sex};

/// The string that is hashed, or `None` where the post must never be suppressed by it.
///
/// With `strict_no_phone` a post without phones needs both an animal and a location.
pub fn fingerprint_source(facts: &Facts, cleaned: &Cleaned, strict_no_phone: bool) -> Option<String> {
    let phones: Vec<&str> = facts.phone_numbers().collect();
    let animal = match facts.animal.value {
        Animal::Unknown => "",
        known => known.name(),
    };
    let sex = match facts.sex.value {
        Sex::Unknown => "",
        known => known.name(),
    };
    let location =
        facts.city.as_ref().or(facts.place.as_ref()).map(|fact| fold(&fact.value)).unwrap_or_default();
    if strict_no_phone && phones.is_empty() && (animal.is_empty() || location.is_empty()) {
        return None;
    }
    let text = if phones.is_empty() { token_hash(cleaned) } else { String::new() };
    Some(format!("phones={}|animal={animal}|sex={sex}|loc={location}|t=sha1:{text}", phones.join(",")))
}

/// The stored value: forty hexadecimal digits.
pub fn fingerprint(facts: &Facts, cleaned: &Cleaned, strict_no_phone: bool) -> Option<String> {
    fingerprint_source(facts, cleaned, strict_no_phone).map(|source| hex_sha1(source.as_bytes()))
}

/// SHA-1 of the sorted unique tokens of the first characters, joined by one space.
fn token_hash(cleaned: &Cleaned) -> String {
    let text = &cleaned.letters;
    let end = text.char_indices().nth(LETTERS_MAX).map_or(text.len(), |(index, _)| index);
    let mut tokens: Vec<&str> = text[..end].split(' ').filter(|token| !token.is_empty()).collect();
    tokens.sort_unstable();
    tokens.dedup();
    hex_sha1(tokens.join(" ").as_bytes())
}

fn hex_sha1(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(40);
    for byte in Sha1::digest(bytes) {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    hex
}

/// Lower case, `ё`→`е`, letters, digits and single spaces only.
fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars().flat_map(char::to_lowercase) {
        match character {
            'ё' => out.push('е'),
            'і' | 'ї' => out.push('и'),
            letter if letter.is_alphanumeric() => out.push(letter),
            _ if !out.is_empty() && !out.ends_with(' ') => out.push(' '),
            _ => {}
        }
    }
    out.truncate(out.trim_end().len());
    out
}
