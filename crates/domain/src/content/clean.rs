//! The words of a post made comparable, for the fingerprint and for near-duplicates.

use super::Cleaned;
use super::facts::read::Spans;
use super::letters::{is_letter_or_digit, is_plain_lower, push_lower};
use super::normalise::EMOJI;
use super::tokens::{Reading, TokenKind};

/// More than the fingerprint ever looks at: its four hundred characters take four bytes each at most.
const LETTERS_BYTES: usize = 400 * 4;

/// Lower case, `ё`→`е`, look-alikes folded; links, mentions and telephone numbers left out.
pub fn clean(reading: &Reading<'_>, phones: &Spans) -> Cleaned {
    let mut text = String::with_capacity(reading.tokens.len() * 12);
    let mut removed: Vec<(u8, u32, u32)> = Vec::new();
    let mut spans = phones.iter().copied().peekable();
    for (index, token) in reading.tokens.iter().enumerate() {
        while spans.next_if(|span| span.1 < index).is_some() {}
        let phone = spans.peek().is_some_and(|span| span.0 <= index);
        if phone || token.mention || token.kind == TokenKind::Link {
            removed.push((token.text, token.start, token.end));
            continue;
        }
        let start = text.len();
        if !text.is_empty() {
            text.push(' ');
        }
        let word = reading.word(token);
        if is_plain_lower(word) {
            text.push_str(word);
        } else {
            word.chars().for_each(|character| push_folded(&mut text, character));
        }
        if text.ends_with(' ') {
            text.truncate(start);
        }
    }
    Cleaned { text, letters: letters(reading, &removed) }
}

/// Every text in turn, without the removed tokens: letters and digits kept, white space and emoji part, the rest
/// is dropped.
fn letters(reading: &Reading<'_>, removed: &[(u8, u32, u32)]) -> String {
    let mut out = String::new();
    let mut removed = removed.iter().copied().peekable();
    for (index, normal) in reading.normals.iter().enumerate() {
        push_space(&mut out);
        let mut at = 0;
        while let Some((_, start, end)) = removed.next_if(|cut| usize::from(cut.0) == index) {
            push_letters(&mut out, normal.text.get(at..start as usize).unwrap_or_default());
            if out.len() > LETTERS_BYTES {
                return out;
            }
            at = end as usize;
        }
        push_letters(&mut out, normal.text.get(at..).unwrap_or_default());
    }
    out.truncate(out.trim_end().len());
    out
}

fn push_letters(out: &mut String, text: &str) {
    let mut community = false;
    for character in text.chars() {
        if out.len() > LETTERS_BYTES {
            return;
        }
        // What follows `@` in a hashtag names a community, as a mention does.
        community = character == '@' || community && (character.is_ascii_alphanumeric() || character == '_');
        if character.is_whitespace() || matches!(character, EMOJI | '_') {
            push_space(out);
        } else if !community {
            push_folded(out, character);
        }
    }
}

fn push_space(out: &mut String) {
    if !out.is_empty() && !out.ends_with(' ') {
        out.push(' ');
    }
}

/// Letters of one look are one letter here, whichever alphabet they come from.
fn push_folded(out: &mut String, character: char) {
    match character {
        'і' | 'ї' | 'І' | 'Ї' => out.push('и'),
        letter if is_letter_or_digit(letter) => push_lower(out, letter),
        _ => {}
    }
}
