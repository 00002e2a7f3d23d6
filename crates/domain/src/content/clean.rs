//! The words of a post made comparable, for the fingerprint and for near-duplicates.

use super::Cleaned;
use super::facts::read::Spans;
use super::normalise::EMOJI;
use super::tokens::{Reading, TokenKind};

/// Lower case, `ё`→`е`, look-alikes folded; links, mentions and telephone numbers left out.
pub fn clean(reading: &Reading<'_>, phones: &Spans) -> Cleaned {
    let mut text = String::new();
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
        push_folded(&mut text, reading.word(token));
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
        let mut community = false;
        for (at, character) in normal.text.char_indices() {
            while removed.next_if(|cut| (usize::from(cut.0), cut.2 as usize) <= (index, at)).is_some() {}
            let cut = removed.peek().is_some_and(|cut| usize::from(cut.0) == index && cut.1 as usize <= at);
            // What follows `@` in a hashtag names a community, as a mention does.
            community =
                character == '@' || community && (character.is_ascii_alphanumeric() || character == '_');
            if character.is_whitespace() || matches!(character, EMOJI | '_') {
                push_space(&mut out);
            } else if !cut && !community {
                push_lower(&mut out, character);
            }
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn push_space(out: &mut String) {
    if !out.is_empty() && !out.ends_with(' ') {
        out.push(' ');
    }
}

fn push_lower(out: &mut String, character: char) {
    if character.is_alphanumeric() {
        for lower in character.to_lowercase() {
            push_folded(out, lower.encode_utf8(&mut [0; 4]));
        }
    }
}

fn push_folded(out: &mut String, word: &str) {
    for character in word.chars() {
        match character {
            'і' | 'ї' => out.push('и'),
            letter if letter.is_alphanumeric() => out.push(letter),
            _ => {}
        }
    }
}
