//! The words of a post made comparable, for the fingerprint and for near-duplicates.

use super::Cleaned;
use super::facts::read::Spans;
use super::tokens::{Reading, TokenKind};

/// Lower case, `ё`→`е`, look-alikes folded; links, mentions and telephone numbers left out.
pub fn clean(reading: &Reading<'_>, phones: &Spans) -> Cleaned {
    let mut text = String::new();
    let mut spans = phones.iter().copied().peekable();
    for (index, token) in reading.tokens.iter().enumerate() {
        while spans.next_if(|span| span.1 < index).is_some() {}
        let phone = spans.peek().is_some_and(|span| span.0 <= index);
        if phone || token.mention || token.kind == TokenKind::Link {
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
    Cleaned { text }
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
