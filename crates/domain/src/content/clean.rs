//! The words of a post made comparable, for the fingerprint and for near-duplicates.

use super::Cleaned;
use super::facts::read::Spans;
use super::letters::{is_letter_or_digit, is_plain_lower, push_lower};
use super::normalise::EMOJI;
use super::tokens::{Reading, TokenKind};

/// Characters of the cleaned letters: the fingerprint looks at no more.
pub const LETTERS_MAX: usize = 400;

/// Lower case, `ё`→`е`, look-alikes folded; links, mentions and telephone numbers left out, and in the
/// words that are compared also what the group writes under every post.
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
        if reading.in_footer(token) {
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
    let mut letters = Letters { out: String::with_capacity(LETTERS_MAX * 2), left: LETTERS_MAX };
    let mut removed = removed.iter().copied().peekable();
    for (index, normal) in reading.normals.iter().enumerate() {
        letters.space();
        let mut at = 0;
        while let Some((_, start, end)) = removed.next_if(|cut| usize::from(cut.0) == index) {
            letters.add(normal.text.get(at..start as usize).unwrap_or_default());
            at = end as usize;
        }
        letters.add(normal.text.get(at..).unwrap_or_default());
    }
    letters.out.truncate(letters.out.trim_end().len());
    letters.out
}

struct Letters {
    out: String,
    /// Characters that may still be written.
    left: usize,
}

impl Letters {
    fn add(&mut self, text: &str) {
        let mut community = false;
        for character in text.chars() {
            if self.left == 0 {
                return;
            }
            match character {
                'а'..='я' => {
                    self.out.push(character);
                    self.left -= 1;
                    community = false;
                    continue;
                }
                ' ' => {
                    self.space();
                    community = false;
                    continue;
                }
                _ => {}
            }
            // What follows `@` in a hashtag names a community, as a mention does.
            community =
                character == '@' || community && (character.is_ascii_alphanumeric() || character == '_');
            if character.is_whitespace() || matches!(character, EMOJI | '_') {
                self.space();
            } else if !community && is_letter_or_digit(character) {
                push_folded(&mut self.out, character);
                self.left -= 1;
            }
        }
    }

    fn space(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with(' ') && self.left > 0 {
            self.out.push(' ');
            self.left -= 1;
        }
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
