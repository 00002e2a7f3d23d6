//! A text as the bot hears it: words in lower case, look-alike letters folded, nothing but words.

use crate::content::TextRef;
use crate::content::normalise::normalise;

/// Characters and words of one message that are looked at; who writes more has said what they want by then.
pub const CHARACTERS_MAX: usize = 4_096;
pub const WORDS_MAX: usize = 400;

/// One message, ready to be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// What was written, without the spaces around it, as far as it is looked at.
    pub text: String,
    /// Its words apart by one space.
    pub folded: String,
    /// Where each word ends in `folded`.
    ends: Vec<u32>,
}

impl Heard {
    pub fn new(text: &str) -> Heard {
        let text = text.trim();
        let cut = text.char_indices().nth(CHARACTERS_MAX).map_or(text.len(), |(at, _)| at);
        let text = &text[..cut];
        let normal = normalise(TextRef::Own, text);
        let mut heard = Heard { text: text.to_owned(), ..Heard::default() };
        let mut inside = false;
        for c in normal.text.chars() {
            if !c.is_alphanumeric() && c != '*' {
                heard.close(&mut inside);
            } else {
                if !inside && !heard.folded.is_empty() {
                    heard.folded.push(' ');
                }
                inside = true;
                push_lower(&mut heard.folded, c);
            }
            if heard.ends.len() >= WORDS_MAX {
                break;
            }
        }
        heard.close(&mut inside);
        heard
    }

    fn close(&mut self, inside: &mut bool) {
        if std::mem::take(inside) {
            self.ends.push(self.folded.len() as u32);
        }
    }

    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.folded.split(' ').filter(|word| !word.is_empty())
    }

    fn word(&self, place: usize) -> &str {
        let end = self.ends.get(place).map_or(0, |end| *end as usize);
        let start =
            place.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize + 1);
        self.folded.get(start..end).unwrap_or_default()
    }

    /// Whether «не» stands just before the word.
    pub fn is_denied(&self, place: u16) -> bool {
        usize::from(place).checked_sub(1).is_some_and(|before| self.word(before) == "не")
    }

    /// The name of a command and what follows it; `/start@shop_bot x` is `start` with `x`.
    pub fn command(&self) -> Option<(String, &str)> {
        let rest = self.text.strip_prefix('/')?;
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let name = name.split('@').next().unwrap_or_default();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        is_name.then(|| (name.to_lowercase(), argument.trim()))
    }
}

fn push_lower(out: &mut String, c: char) {
    match c {
        'ё' | 'Ё' => out.push('е'),
        'а'..='я' | 'a'..='z' | '0'..='9' | '*' => out.push(c),
        other => out.extend(other.to_lowercase()),
    }
}
