//! Makes a post's text comparable without losing the way back to the user's own words.
//!
//! NFC, stress marks and invisible characters dropped, look-alike Latin letters turned to Cyrillic inside
//! Russian words, `ё`→`е`, key-cap digits made plain, emoji reduced to one marker, mentions reduced to their
//! label, white space unified. Case is kept: names need it. Linear in the text; must not know any word.

use std::iter::once;

use unicode_normalization::UnicodeNormalization;

use super::letters::is_letter;
use super::{TextRef, VkAccount};

/// What every run of emoji becomes: one character that no rule takes for a letter.
pub const EMOJI: char = '◦';

/// Marks kept per base character before NFC; the rest of a pile is dropped.
const MARKS_PER_BASE: usize = 3;

/// A text made comparable, with the way back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Normal {
    pub source: TextRef,
    pub text: String,
    /// Mentions of the form `[id1|Name]`; the range covers the label that stayed in `text`.
    pub mentions: Vec<Mention>,
    runs: Vec<Run>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    pub start: u32,
    pub end: u32,
    pub account: VkAccount,
}

/// A stretch of `text` and the stretch of the original it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    normal: u32,
    original: u32,
    original_len: u32,
    /// Byte for byte the same, so offsets inside can be carried over.
    verbatim: bool,
}

impl Normal {
    /// The original byte range behind a range of `text`.
    pub fn original(&self, start: usize, end: usize) -> (u32, u32) {
        if start >= end || self.runs.is_empty() {
            let at = self.run_at(start).map_or(0, |run| run.original);
            return (at, at);
        }
        let from = self.run_at(start).map_or(0, |run| {
            if run.verbatim { run.original + (start as u32 - run.normal) } else { run.original }
        });
        let to = self.run_at(end - 1).map_or(from, |run| {
            if run.verbatim {
                run.original + (end as u32 - run.normal)
            } else {
                run.original + run.original_len
            }
        });
        (from, to.max(from))
    }

    fn run_at(&self, position: usize) -> Option<&Run> {
        let after = self.runs.partition_point(|run| run.normal as usize <= position);
        self.runs.get(after.checked_sub(1)?)
    }
}

/// Normalises one text of a post.
pub fn normalise(source: TextRef, original: &str) -> Normal {
    let mut writer = Writer::new(source, original);
    writer.read();
    writer.finish()
}

struct Writer<'a> {
    original: &'a str,
    out: Normal,
    /// Start of the word being written, in `out.text`, if one is open.
    word: Option<Word>,
    /// Wholly Latin words made of look-alikes only; folded at the end if the text mixes alphabets elsewhere.
    doubtful: Vec<(usize, usize)>,
    mixed_seen: bool,
    /// The emoji marker, a space or a line break was written last, so another one adds nothing.
    last_break: LastBreak,
    /// Labels of open mentions: where they began and what they name.
    open_mention: Option<(usize, VkAccount)>,
    /// The closing bracket and the line break that come next: a label ends on the line that it began on.
    closing: Ahead,
    line_end: Ahead,
}

/// Where the next character of a sort stands; looked for again only when the reading has passed it.
#[derive(Debug, Default)]
struct Ahead {
    /// `None` before the first look, the length of the text when there is none.
    found: Option<usize>,
}

impl Ahead {
    fn from(&mut self, text: &str, at: usize, sort: impl Fn(char) -> bool) -> usize {
        match self.found {
            Some(found) if found >= at => found,
            _ => *self.found.insert(text[at..].find(sort).map_or(text.len(), |offset| at + offset)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastBreak {
    None,
    Space,
    Line,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    start: usize,
    cyrillic: bool,
    latin: bool,
    foldable: bool,
}

impl<'a> Writer<'a> {
    fn new(source: TextRef, original: &'a str) -> Writer<'a> {
        let out = Normal {
            source,
            text: String::with_capacity(original.len()),
            mentions: Vec::new(),
            runs: Vec::new(),
        };
        Writer {
            original,
            out,
            word: None,
            doubtful: Vec::new(),
            mixed_seen: false,
            last_break: LastBreak::Line,
            open_mention: None,
            closing: Ahead::default(),
            line_end: Ahead::default(),
        }
    }

    fn read(&mut self) {
        let original = self.original;
        let mut at = 0;
        while let Some(character) = original[at..].chars().next() {
            if compatible(character) == '['
                && let Some((label, account)) = mention_at(&original[at..])
                && self.closes(at + label)
            {
                self.close_word(self.out.text.len());
                self.close_mention();
                self.part(at, label);
                at += label;
                self.open_mention = Some((self.out.text.len(), account));
                continue;
            }
            if compatible(character) == ']' && self.open_mention.is_some() {
                self.close_word(self.out.text.len());
                self.close_mention();
                self.part(at, character.len_utf8());
                at += character.len_utf8();
                continue;
            }
            let plain = self.plain_run(at);
            if plain > 0 {
                at += plain;
                continue;
            }
            let length = self.cluster_len(at, character);
            self.cluster(at, length, character);
            at += length;
        }
        self.close_word(self.out.text.len());
        self.close_mention();
    }

    /// Without its closing bracket on the same line a mention is only text.
    fn closes(&mut self, label: usize) -> bool {
        let closing = self.closing.from(self.original, label, |character| compatible(character) == ']');
        closing < self.original.len() && closing < self.line_end.from(self.original, label, is_line_break)
    }

    /// Copies a stretch in which nothing needs repair: the short way for nearly all text. Gives its length.
    fn plain_run(&mut self, at: usize) -> usize {
        let base = self.out.text.len();
        let mut length = 0;
        let mut last = 0;
        for (offset, character) in self.original[at..].char_indices() {
            match character {
                'а'..='я' | 'А'..='Я' | 'a'..='z' | 'A'..='Z' => {
                    note_letter(&mut self.word, base + offset, character);
                }
                '0'..='9'
                | '.'
                | ','
                | '!'
                | '?'
                | ':'
                | ';'
                | '('
                | ')'
                | '-'
                | '«'
                | '»'
                | '"'
                | '#'
                | '/'
                | '+'
                | '—' => {
                    self.close_word(base + offset);
                }
                ' ' if self.last_break == LastBreak::None => {
                    self.close_word(base + offset);
                    self.last_break = LastBreak::Space;
                    (last, length) = (offset, offset + 1);
                    continue;
                }
                // The mark belongs to the character before it, which goes the long way.
                mark if is_mark(mark) && self.last_break == LastBreak::None => {
                    length = last;
                    break;
                }
                _ => break,
            }
            self.last_break = LastBreak::None;
            (last, length) = (offset, offset + character.len_utf8());
        }
        if length > 0 {
            self.out.text.push_str(&self.original[at..at + length]);
            let (normal, original, original_len) = (base as u32, at as u32, length as u32);
            append_run(&mut self.out.runs, Run { normal, original, original_len, verbatim: true });
        }
        length
    }

    /// A bracket of a mention parts words; as a space, so that reading the result again changes nothing.
    fn part(&mut self, at: usize, length: usize) {
        if self.last_break == LastBreak::None {
            self.space(at, length, ' ');
        }
    }

    /// A base character with the marks that follow it.
    fn cluster_len(&self, at: usize, base: char) -> usize {
        let rest = &self.original[at + base.len_utf8()..];
        // No mark is written below U+0300, and none of those bytes begins one.
        if rest.as_bytes().first().is_none_or(|byte| *byte < 0xcc || matches!(byte, 0xd0 | 0xd1)) {
            return base.len_utf8();
        }
        let marks: usize = rest.chars().take_while(|mark| is_mark(*mark)).map(char::len_utf8).sum();
        base.len_utf8() + marks
    }

    fn cluster(&mut self, at: usize, length: usize, base: char) {
        if length == base.len_utf8() {
            let plain = if base.is_ascii() { base } else { compatible(base) };
            return self.character(at, length, base, plain);
        }
        let text = &self.original[at..at + length];
        if base.is_ascii_digit() && text.contains('\u{20e3}') {
            return self.character(at, length, '\0', base);
        }
        let composed = text.chars().filter(|mark| !is_invisible(*mark)).take(MARKS_PER_BASE + 1).nfc();
        let composed = composed.into_iter().next().unwrap_or(base);
        self.character(at, length, '\0', compatible(composed));
    }

    fn character(&mut self, at: usize, length: usize, seen: char, character: char) {
        if is_invisible(character) || is_mark(character) {
            return;
        }
        if is_line_break(character) {
            return self.line_break(at, length);
        }
        if character.is_whitespace() || character.is_control() {
            return self.space(at, length, ' ');
        }
        if character == EMOJI || is_emoji(character) {
            self.space(at, length, EMOJI);
            return;
        }
        self.last_break = LastBreak::None;
        let written = if is_letter(character) { self.letter(character) } else { self.other(character) };
        self.push(at, length, seen, written);
    }

    fn letter(&mut self, character: char) -> char {
        note_letter(&mut self.word, self.out.text.len(), character);
        match character {
            'ё' => 'е',
            'Ё' => 'Е',
            other => other,
        }
    }

    fn other(&mut self, character: char) -> char {
        self.close_word(self.out.text.len());
        character
    }

    fn line_break(&mut self, at: usize, length: usize) {
        self.close_word(self.out.text.len());
        match self.last_break {
            LastBreak::Line => {}
            LastBreak::Space if self.out.text.ends_with(' ') => {
                self.pop_space();
                self.push(at, length, '\0', '\n');
            }
            _ => self.push(at, length, '\0', '\n'),
        }
        self.last_break = LastBreak::Line;
    }

    /// A space, or the emoji marker, which swallows the spaces and markers around it.
    fn space(&mut self, at: usize, length: usize, written: char) {
        self.close_word(self.out.text.len());
        if written == ' ' {
            if self.last_break == LastBreak::None {
                self.push(at, length, '\0', ' ');
                self.last_break = LastBreak::Space;
            }
            return;
        }
        if self.last_break == LastBreak::Space {
            if self.out.text.ends_with(EMOJI) {
                return;
            }
            self.pop_space();
        }
        self.push(at, length, '\0', EMOJI);
        self.last_break = LastBreak::Space;
    }

    fn pop_space(&mut self) {
        self.out.text.pop();
        let length = self.out.text.len() as u32;
        while self.out.runs.last().is_some_and(|run| run.normal >= length) {
            self.out.runs.pop();
        }
    }

    fn push(&mut self, at: usize, length: usize, seen: char, written: char) {
        let normal = self.out.text.len() as u32;
        let (original, original_len) = (at as u32, length as u32);
        let verbatim = seen == written;
        self.out.text.push(written);
        append_run(&mut self.out.runs, Run { normal, original, original_len, verbatim });
    }

    fn close_word(&mut self, end: usize) {
        let Some(word) = self.word.take() else { return };
        if !word.latin || !word.foldable {
            return;
        }
        if word.cyrillic {
            self.mixed_seen = true;
            self.doubtful.push((word.start, end));
        } else if end - word.start <= 24 {
            self.doubtful.push((word.start, end));
        }
    }

    fn close_mention(&mut self) {
        if let Some((start, account)) = self.open_mention.take() {
            let end = self.out.text.len().max(start);
            self.out.mentions.push(Mention { start: start as u32, end: end as u32, account });
        }
    }

    fn finish(mut self) -> Normal {
        while self.out.text.ends_with([' ', '\n']) {
            self.pop_space();
        }
        let length = self.out.text.len() as u32;
        for mention in &mut self.out.mentions {
            mention.start = mention.start.min(length);
            mention.end = mention.end.min(length);
        }
        if self.mixed_seen {
            self.fold_doubtful();
        }
        self.out
    }

    /// Rewrites the doubtful words. Latin letters take one byte and Cyrillic two, so the runs are rebuilt.
    fn fold_doubtful(&mut self) {
        let old = std::mem::take(&mut self.out);
        let mut shifts: Vec<(u32, u32)> = Vec::new();
        let mut text = String::with_capacity(old.text.len() + self.doubtful.len() * 4);
        let mut runs = Vec::with_capacity(old.runs.len() + self.doubtful.len() * 4);
        let mut words = self.doubtful.iter().copied().peekable();
        let mut run_index = 0;
        for (at, character) in old.text.char_indices() {
            while words.next_if(|word| word.1 <= at).is_some() {}
            let inside = words.peek().is_some_and(|word| word.0 <= at);
            while old.runs.get(run_index + 1).is_some_and(|next| next.normal as usize <= at) {
                run_index += 1;
            }
            let folded = if inside { look_alike(character) } else { None };
            let Some(run) = old.runs.get(run_index) else { continue };
            let offset = at as u32 - run.normal;
            let original = if run.verbatim { run.original + offset } else { run.original };
            let original_len = if run.verbatim { character.len_utf8() as u32 } else { run.original_len };
            let verbatim = run.verbatim && folded.is_none();
            shifts.push((at as u32, text.len() as u32));
            append_run(&mut runs, Run { normal: text.len() as u32, original, original_len, verbatim });
            text.push(folded.unwrap_or(character));
        }
        shifts.push((old.text.len() as u32, text.len() as u32));
        let moved =
            |at: u32| shifts.binary_search_by_key(&at, |shift| shift.0).map_or(0, |index| shifts[index].1);
        let mentions = old
            .mentions
            .into_iter()
            .map(|mention| Mention { start: moved(mention.start), end: moved(mention.end), ..mention })
            .collect();
        self.out = Normal { source: old.source, text, mentions, runs };
    }
}

/// Opens a word or adds to the open one what its alphabets are.
fn note_letter(word: &mut Option<Word>, start: usize, character: char) {
    let word = word.get_or_insert(Word { start, cyrillic: false, latin: false, foldable: true });
    if is_cyrillic(character) {
        word.cyrillic = true;
    } else {
        word.latin = true;
        word.foldable &= look_alike(character).is_some();
    }
}

fn append_run(runs: &mut Vec<Run>, run: Run) {
    let follows = |last: &Run| {
        run.verbatim && last.verbatim && last.original + (run.normal - last.normal) == run.original
    };
    match runs.last_mut() {
        Some(last) if follows(last) => last.original_len = run.original + run.original_len - last.original,
        _ => runs.push(run),
    }
}

/// `[id1|`, `[club1|`, `[public1|`, `[event1|`: the length up to the label, and who is meant.
/// It reads what would be written, so that a text read again holds no mention that was missed at first.
fn mention_at(text: &str) -> Option<(usize, VkAccount)> {
    let mut inside = String::new();
    for (at, character) in text.char_indices().skip(1) {
        if is_invisible(character) || is_mark(character) {
            continue;
        }
        let plain = if character.is_ascii() { character } else { once(character).nfc().next()? };
        match compatible(plain) {
            '|' => return account_of(&inside).map(|account| (at + character.len_utf8(), account)),
            letter if inside.len() < ACCOUNT_MAX && is_of_account(letter) => inside.push(letter),
            _ => return None,
        }
    }
    None
}

/// Longer than any name or number of an account.
const ACCOUNT_MAX: usize = 40;

fn is_of_account(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.')
}

fn is_line_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' | '\u{b}' | '\u{c}')
}

/// `id1`, `club1`, `public1`, `event1` or a screen name.
pub fn account_of(word: &str) -> Option<VkAccount> {
    let number = |prefix: &str| word.strip_prefix(prefix).and_then(|digits| digits.parse::<u64>().ok());
    if let Some(id) = number("id") {
        return Some(VkAccount::User(id));
    }
    if let Some(id) = number("club").or_else(|| number("public")).or_else(|| number("event")) {
        return Some(VkAccount::Community(id));
    }
    let named = (3..=32).contains(&word.len())
        && word.chars().all(is_of_account)
        && word.bytes().any(|byte| byte.is_ascii_alphabetic());
    named.then(|| VkAccount::Name(word.to_ascii_lowercase()))
}

/// Compatibility forms that people paste: full-width and mathematical letters and digits.
fn compatible(character: char) -> char {
    match character {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - 0xff01 + 0x21).unwrap_or(character),
        '\u{1d7ce}'..='\u{1d7ff}' => {
            char::from_u32((character as u32 - 0x1d7ce) % 10 + u32::from(b'0')).unwrap_or(character)
        }
        '\u{1d400}'..='\u{1d6a3}' => once(character).nfkc().next().unwrap_or(character),
        '\u{2212}' | '\u{2010}'..='\u{2012}' | '➖' => '-',
        _ => character,
    }
}

/// The Russian letter that looks like this Latin one.
fn look_alike(character: char) -> Option<char> {
    Some(match character {
        'a' => 'а',
        'b' => 'в',
        'c' => 'с',
        'e' => 'е',
        'h' => 'н',
        'i' => 'і',
        'k' => 'к',
        'm' => 'м',
        'o' => 'о',
        'p' => 'р',
        't' => 'т',
        'x' => 'х',
        'y' => 'у',
        'A' => 'А',
        'B' => 'В',
        'C' => 'С',
        'E' => 'Е',
        'H' => 'Н',
        'I' => 'І',
        'K' => 'К',
        'M' => 'М',
        'O' => 'О',
        'P' => 'Р',
        'T' => 'Т',
        'X' => 'Х',
        'Y' => 'У',
        _ => return None,
    })
}

/// Nothing in the text that normalising would repair, so it can be shown as the user wrote it.
pub fn is_plain(text: &str) -> bool {
    let odd = |character: char| {
        character.is_ascii_alphabetic()
            || is_mark(character)
            || is_invisible(character)
            || is_emoji(character)
    };
    !text.chars().any(odd)
}

pub fn is_cyrillic(character: char) -> bool {
    matches!(character, '\u{400}'..='\u{52f}')
}

fn is_mark(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{e0100}'..='\u{e01ef}')
}

fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' | '\u{fe00}'..='\u{fe0f}')
}

fn is_emoji(character: char) -> bool {
    matches!(character,
        '\u{1f000}'..='\u{1faff}' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{2460}'..='\u{24ff}'
        | '\u{25a0}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
        | '\u{3297}' | '\u{3299}' | '\u{203c}' | '\u{2049}' | '\u{e000}'..='\u{f8ff}')
}
