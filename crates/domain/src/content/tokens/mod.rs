//! Cuts normalised texts into words, numbers and links, and marks what stands between them.
//!
//! One pass, one dictionary look-up a word. Rules read the result and never the text itself.
//! It must not know what any word means for a post; only which dictionary entry it is.

mod cut;
mod parts;

use std::cell::Cell;

use super::lexicon::morph::Morph;
use super::lexicon::{self, Entry};
use super::normalise::Normal;
use super::{Evidence, Span, VkAccount};

pub use parts::Part;

/// Texts of a post that are read; deeper reposts add nothing but time.
pub const TEXTS_MAX: usize = 8;

/// Longer sentences are cut: rules look at whole sentences, and must stay linear on texts without full stops.
pub const SENTENCE_TOKENS_MAX: u32 = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Word,
    Number,
    /// A web address or an `@name`.
    Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    Lower,
    Title,
    Upper,
    None,
}

/// The strongest thing between a token and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// Nothing but a hyphen, a camel-case border or a letter–digit border.
    Joined,
    Space,
    Slash,
    Quote,
    Comma,
    Bracket,
    Colon,
    Dash,
    Emoji,
    Stop,
    Line,
}

#[derive(Debug, Clone, Copy)]
pub struct Token {
    pub kind: TokenKind,
    pub letters: Letters,
    pub gap: Gap,
    /// Index of the text in the reading.
    pub text: u8,
    /// Sentences never cross texts, lines or hashtags.
    pub sentence: u32,
    pub quoted: bool,
    pub tag: bool,
    pub mention: bool,
    pub start: u32,
    pub end: u32,
    lower: (u32, u32),
    entry: Option<&'static Entry>,
    pub morph: Morph,
}

impl Token {
    pub fn is_word(&self) -> bool {
        self.kind == TokenKind::Word
    }

    pub fn is_number(&self) -> bool {
        self.kind == TokenKind::Number
    }

    pub fn capital(&self) -> bool {
        matches!(self.letters, Letters::Title | Letters::Upper)
    }

    pub fn entry(&self) -> Option<&'static Entry> {
        self.entry
    }

    pub fn is(&self, group: lexicon::Group) -> bool {
        self.entry.is_some_and(|entry| entry.has(group))
    }
}

/// Whether one of the ranges, sorted and apart, covers the token.
pub fn within<T>(ranges: &[T], index: usize, range: impl Fn(&T) -> (usize, usize)) -> bool {
    let after = ranges.partition_point(|item| range(item).0 <= index);
    after.checked_sub(1).is_some_and(|at| range(&ranges[at]).1 >= index)
}

/// A post cut into tokens: what every rule family reads.
#[derive(Debug)]
pub struct Reading<'a> {
    pub originals: Vec<&'a str>,
    pub normals: Vec<Normal>,
    pub tokens: Vec<Token>,
    /// Accounts named by links and mentions, with the range in the normalised text.
    pub accounts: Vec<(VkAccount, u8, u32, u32)>,
    /// Sentences that end with a question mark.
    pub questions: Vec<bool>,
    /// Which part of its text every sentence belongs to.
    pub parts: Vec<Part>,
    /// The first sentence of every text that is not a hashtag.
    pub openings: Vec<u32>,
    lower: String,
    /// Tokens that the rules have looked at: the measure of work, for the proof that it is linear.
    steps: Cell<u64>,
}

impl<'a> Reading<'a> {
    pub fn new(originals: Vec<&'a str>, normals: Vec<Normal>) -> Reading<'a> {
        let bytes: usize = normals.iter().map(|normal| normal.text.len()).sum();
        let mut reading = Reading {
            originals,
            normals: Vec::new(),
            tokens: Vec::with_capacity(bytes / 9 + 4),
            accounts: Vec::new(),
            questions: Vec::new(),
            parts: Vec::new(),
            openings: Vec::new(),
            lower: String::with_capacity(bytes),
            steps: Cell::new(0),
        };
        for (index, normal) in normals.iter().enumerate().take(TEXTS_MAX) {
            cut::Cutter::new(&mut reading, normal, index as u8).cut();
            let opening = reading.tokens.iter().find(|token| token.text == index as u8 && !token.tag);
            let opening = opening.map_or(0, |token| token.sentence);
            reading.openings.push(opening);
        }
        reading.parts = parts::parts(&reading, &normals);
        reading.normals = normals;
        reading
    }

    /// The token in lower case.
    pub fn word(&self, token: &Token) -> &str {
        &self.lower[token.lower.0 as usize..token.lower.1 as usize]
    }

    /// The token as normalised, case kept.
    pub fn text(&self, token: &Token) -> &str {
        &self.normals[usize::from(token.text)].text[token.start as usize..token.end as usize]
    }

    /// Evidence for a rule that fired on the tokens `first..=last` of one text.
    pub fn evidence(&self, rule: &'static str, first: usize, last: usize) -> Evidence {
        let (text, start, end) = self.range(first, last);
        self.evidence_range(rule, text, start, end)
    }

    /// The text and the bytes from the first token to the last one; a range never crosses texts.
    pub fn range(&self, first: usize, last: usize) -> (u8, usize, usize) {
        let (from, to) = (&self.tokens[first], &self.tokens[last]);
        let end = if to.text == from.text { to.end.max(from.end) } else { from.end };
        (from.text, from.start as usize, end as usize)
    }

    pub fn evidence_range(&self, rule: &'static str, text: u8, start: usize, end: usize) -> Evidence {
        let normal = &self.normals[usize::from(text)];
        let (start, end) = normal.original(start, end);
        let words = self.originals[usize::from(text)].get(start as usize..end as usize).unwrap_or_default();
        Evidence {
            rule: rule.into(),
            span: Span { text: normal.source, start, end },
            words: words.to_owned(),
        }
    }

    /// Counts work done on behalf of a rule.
    pub fn count(&self, steps: usize) {
        self.steps.set(self.steps.get() + steps as u64);
    }

    pub fn steps(&self) -> u64 {
        self.steps.get() + self.tokens.len() as u64
    }

    /// The indices of the tokens of the sentence around `index`.
    pub fn sentence(&self, index: usize) -> std::ops::Range<usize> {
        let sentence = self.tokens[index].sentence;
        let start = self.tokens[..index].iter().rev().take_while(|token| token.sentence == sentence).count();
        let end = self.tokens[index..].iter().take_while(|token| token.sentence == sentence).count();
        self.count(start + end);
        index - start..index + end
    }

    /// The first two sentences of a text: people open with what matters.
    pub fn opens(&self, index: usize) -> bool {
        let token = &self.tokens[index];
        let opening = self.openings.get(usize::from(token.text)).copied().unwrap_or(0);
        token.sentence <= opening + 1
    }

    pub fn part(&self, token: &Token) -> Part {
        self.parts.get(token.sentence as usize).copied().unwrap_or_default()
    }

    /// What the group writes under every post says nothing of this one.
    pub fn in_footer(&self, token: &Token) -> bool {
        self.part(token) == Part::Footer
    }

    /// Whether the post asks anything.
    pub fn asks_at_all(&self) -> bool {
        self.questions.iter().zip(&self.parts).any(|(asks, part)| *asks && *part != Part::Footer)
    }

    pub fn asks(&self, index: usize) -> bool {
        self.questions.get(self.tokens[index].sentence as usize).copied().unwrap_or(false)
    }
}
