//! The one pass over a normalised text: words, numbers, hashtags and links, and the gaps between them.

use super::{Gap, Letters, Reading, SENTENCE_TOKENS_MAX, Token, TokenKind};
use crate::content::VkAccount;
use crate::content::letters::{
    is_letter, is_letter_or_digit, is_lower, is_plain_lower, is_upper, push_lower,
};
use crate::content::lexicon::morph::{Morph, known};
use crate::content::lexicon::{self, Lexicon};
use crate::content::normalise::{EMOJI, Normal, account_of};

pub(super) struct Cutter<'r, 'a, 'n> {
    reading: &'r mut Reading<'a>,
    text: &'n str,
    normal: &'n Normal,
    index: u8,
    at: usize,
    gap: Gap,
    quoted: bool,
    next_mention: usize,
    in_sentence: u32,
    lexicon: &'static Lexicon,
}

impl<'r, 'a, 'n> Cutter<'r, 'a, 'n> {
    pub(super) fn new(reading: &'r mut Reading<'a>, normal: &'n Normal, index: u8) -> Cutter<'r, 'a, 'n> {
        reading.questions.push(false);
        Cutter {
            reading,
            text: &normal.text,
            normal,
            index,
            at: 0,
            gap: Gap::Line,
            quoted: false,
            next_mention: 0,
            in_sentence: 0,
            lexicon: lexicon::lexicon(),
        }
    }

    pub(super) fn cut(mut self) {
        while let Some(character) = self.text[self.at..].chars().next() {
            if is_letter(character) {
                self.word();
            } else if character.is_ascii_digit() {
                self.number();
            } else if character == '#' {
                self.hashtag();
            } else if character == '@' || character == '*' {
                self.at_name();
            } else {
                self.separator(character);
            }
        }
        for mention in &self.normal.mentions {
            self.reading.accounts.push((mention.account.clone(), self.index, mention.start, mention.end));
        }
    }

    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    fn separator(&mut self, character: char) {
        let next = self.text[self.at + character.len_utf8()..].chars().next();
        match character {
            ' ' => self.widen(Gap::Space),
            '\n' => self.widen(Gap::Line),
            EMOJI => self.widen(Gap::Emoji),
            '.' | '…' => self.dot(next),
            '!' => self.widen(Gap::Stop),
            '?' => {
                self.widen(Gap::Stop);
                if let Some(last) = self.reading.questions.last_mut() {
                    *last = true;
                }
            }
            ',' | ';' => self.widen(Gap::Comma),
            ':' => self.widen(Gap::Colon),
            '(' | ')' | '[' | ']' => self.widen(Gap::Bracket),
            '—' | '–' | '-' => self.dash(next),
            '«' | '„' | '“' => self.quote(true),
            '»' | '”' => self.quote(false),
            '"' | '\'' => self.quote(!self.quoted),
            '/' | '\\' | '_' | '|' => self.widen(Gap::Slash),
            '&' | '+' | '%' | '~' => self.widen(Gap::Space),
            _ => self.widen(Gap::Comma),
        }
        self.at += character.len_utf8();
    }

    fn quote(&mut self, open: bool) {
        self.quoted = open;
        self.widen(Gap::Quote);
    }

    fn dash(&mut self, next: Option<char>) {
        let glued = self.gap == Gap::Joined && next.is_some_and(is_letter_or_digit);
        self.widen(if glued { Gap::Joined } else { Gap::Dash });
    }

    /// A full stop ends a sentence unless it ends an abbreviation or stands inside a number.
    fn dot(&mut self, next: Option<char>) {
        if self.gap != Gap::Joined {
            return self.widen(Gap::Stop);
        }
        let Some(last) = self.reading.tokens.last().filter(|token| token.text == self.index) else {
            return self.widen(Gap::Stop);
        };
        if last.is_number() && next.is_some_and(|next| next.is_ascii_digit()) {
            return self.widen(Gap::Comma);
        }
        let one_letter = last.is_word() && last.end - last.start <= 2;
        let upper_next =
            self.text[self.at..].chars().skip(1).find(|c| !c.is_whitespace()).is_some_and(is_upper);
        let counted =
            self.reading.tokens.len() >= 2 && self.reading.tokens[self.reading.tokens.len() - 2].is_number();
        let unit = last.is(lexicon::UNIT) && upper_next && counted;
        if (last.is(lexicon::ABBREVIATION) || one_letter) && !unit {
            return self.widen(Gap::Space);
        }
        self.widen(Gap::Stop);
    }

    /// Letters, with inner hyphens and apostrophes; cut at a border from lower to upper case.
    fn word(&mut self) {
        if self.link() {
            return;
        }
        let start = self.at;
        let end = self.word_end(start);
        self.at = end;
        self.emit_word(start, end, false);
    }

    fn word_end(&self, start: usize) -> usize {
        let mut characters = self.text[start..].char_indices().peekable();
        let mut before = ' ';
        while let Some((offset, character)) = characters.next() {
            let here = start + offset;
            if is_letter(character) {
                if is_lower(before) && is_upper(character) {
                    return here;
                }
                before = character;
                continue;
            }
            let joins = matches!(character, '-' | '\'' | '’')
                && characters.peek().is_some_and(|(_, next)| is_letter(*next));
            if !joins {
                return here;
            }
            before = character;
        }
        self.text.len()
    }

    fn emit_word(&mut self, start: usize, end: usize, tag: bool) {
        let word = &self.text[start..end];
        let entry = self.emit(TokenKind::Word, start, end, tag);
        if entry || !(word.contains('-') || tag || end - start > 12) {
            return;
        }
        if word.contains('-') {
            return self.split_hyphen(start, end, tag);
        }
        self.split_glued(start, end, tag);
    }

    /// `кот-обормот` is two words unless the dictionary knows it as one.
    fn split_hyphen(&mut self, start: usize, end: usize, tag: bool) {
        let Some(whole) = self.reading.tokens.pop() else { return };
        let mut from = start;
        for part in self.text[start..end].split('-') {
            let to = from + part.len();
            if to > from {
                self.emit(TokenKind::Word, from, to, tag);
                if from == start {
                    self.stand_in_for(&whole);
                }
            }
            from = to + 1;
            self.gap = Gap::Joined;
        }
    }

    /// `пропалкот` is two words of the dictionary without a space; hashtags are often three.
    fn split_glued(&mut self, start: usize, end: usize, tag: bool) {
        let Some(whole) = self.reading.tokens.last().copied() else { return };
        let cuts = {
            let lower = &self.reading.lower[whole.lower.0 as usize..whole.lower.1 as usize];
            match self.lexicon.unglue(lower, tag) {
                Some(cuts) => cuts,
                None => return,
            }
        };
        // Lower and upper case have the same length in the alphabets that the dictionary knows.
        if (whole.lower.1 - whole.lower.0) as usize != end - start {
            return;
        }
        self.reading.tokens.pop();
        let mut from = start;
        for cut in cuts.iter().map(|cut| start + cut).chain([end]) {
            if !self.text.is_char_boundary(cut) || cut <= from {
                continue;
            }
            self.emit(TokenKind::Word, from, cut, tag);
            if from == start {
                self.stand_in_for(&whole);
            }
            from = cut;
            self.gap = Gap::Joined;
        }
    }

    /// The first part of a word that was cut keeps the place of the whole.
    fn stand_in_for(&mut self, whole: &Token) {
        if let Some(first) = self.reading.tokens.last_mut() {
            first.gap = whole.gap;
            first.sentence = whole.sentence;
        }
    }

    fn number(&mut self) {
        let start = self.at;
        let length = self.text[start..].bytes().take_while(u8::is_ascii_digit).count();
        self.at += length;
        self.emit(TokenKind::Number, start, start + length, false);
    }

    /// `#пропала_собака_Пермь@group`: words of their own sentence; what follows `@` names the group only.
    fn hashtag(&mut self) {
        let start = self.at + 1;
        let body: usize = self.text[start..]
            .chars()
            .take_while(|c| is_letter_or_digit(*c) || *c == '_')
            .map(char::len_utf8)
            .sum();
        if body == 0 {
            self.widen(Gap::Space);
            self.at += 1;
            return;
        }
        self.gap = Gap::Line;
        self.at = start;
        let end = start + body;
        while self.at < end {
            let character = self.text[self.at..].chars().next().unwrap_or('_');
            if is_letter(character) {
                let from = self.at;
                let to = self.word_end(from).min(end);
                self.at = to;
                self.emit_word(from, to, true);
            } else if character.is_ascii_digit() {
                let from = self.at;
                self.number();
                self.at = self.at.max(from + 1);
                if let Some(last) = self.reading.tokens.last_mut() {
                    last.tag = true;
                }
            } else {
                self.at += character.len_utf8();
            }
            self.gap = self.gap.min(Gap::Space);
        }
        if self.text[self.at..].starts_with('@') {
            let tail = self.text[self.at + 1..]
                .bytes()
                .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'.');
            self.at += 1 + tail.count();
        }
        self.gap = Gap::Line;
    }

    fn at_name(&mut self) {
        let start = self.at + 1;
        let length = self.text[start..]
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
            .count();
        let name = self.text[start..start + length].trim_end_matches('.');
        match account_of(name) {
            Some(account) if name.bytes().any(|byte| byte.is_ascii_alphabetic()) => {
                let end = start + name.len();
                self.reading.accounts.push((account, self.index, self.at as u32, end as u32));
                self.emit(TokenKind::Link, self.at, end, false);
                self.at = end;
            }
            _ => {
                self.widen(Gap::Space);
                self.at = start;
            }
        }
    }

    /// A web address: everything up to white space or a closing mark.
    fn link(&mut self) -> bool {
        let rest = &self.text[self.at..];
        if !rest.as_bytes()[0].is_ascii() {
            return false;
        }
        let known = [
            "http://",
            "https://",
            "www.",
            "vk.com/",
            "m.vk.com/",
            "vk.cc/",
            "t.me/",
            "wa.me/",
            "ok.ru/",
            "max.ru/",
            "youtu.be/",
            "viber://",
            "whatsapp://",
            "tg://",
            "tel:",
        ];
        if !known
            .iter()
            .any(|start| rest.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)))
        {
            return false;
        }
        let length: usize = rest
            .chars()
            .take_while(|c| {
                !c.is_whitespace() && *c != EMOJI && !matches!(c, '»' | '"' | '>' | '<' | '|' | ']')
            })
            .map(char::len_utf8)
            .sum();
        let link = rest[..length].trim_end_matches(['.', ',', ')', '!', '?', ';', ':']);
        let end = self.at + link.len();
        if let Some(account) = account_in_link(link) {
            self.reading.accounts.push((account, self.index, self.at as u32, end as u32));
        }
        self.emit(TokenKind::Link, self.at, end, false);
        self.at = end.max(self.at + 1);
        true
    }

    /// Adds a token; says whether the dictionary knows it.
    fn emit(&mut self, kind: TokenKind, start: usize, end: usize, tag: bool) -> bool {
        self.in_sentence += 1;
        let full = self.in_sentence > SENTENCE_TOKENS_MAX;
        if (self.gap >= Gap::Stop || full) && !self.reading.tokens.is_empty() {
            self.reading.questions.push(false);
            self.in_sentence = 0;
        }
        let sentence = self.reading.questions.len() as u32 - 1;
        let mention = self.in_mention(start);
        let text = &self.text[start..end];
        let from = self.reading.lower.len();
        push_lower_all(&mut self.reading.lower, text);
        let lower = (from as u32, self.reading.lower.len() as u32);
        let letters = letters_of(kind, text);
        // A capital inside a sentence is more likely a name than a misspelled word.
        let strict = tag || letters == Letters::Title && self.gap < Gap::Emoji;
        let word = &self.reading.lower[from..];
        let known = (kind == TokenKind::Word).then(|| known(self.lexicon, word));
        let entry = known.and_then(|known| if strict { known.exact } else { known.likely });
        let morph = known.map_or_else(Morph::default, |known| known.morph);
        self.reading.tokens.push(Token {
            kind,
            letters,
            gap: self.gap,
            text: self.index,
            sentence,
            quoted: self.quoted,
            tag,
            mention,
            start: start as u32,
            end: end as u32,
            lower,
            entry,
            morph,
        });
        self.gap = Gap::Joined;
        entry.is_some()
    }

    fn in_mention(&mut self, start: usize) -> bool {
        let mentions = &self.normal.mentions;
        while mentions.get(self.next_mention).is_some_and(|mention| mention.end as usize <= start) {
            self.next_mention += 1;
        }
        mentions.get(self.next_mention).is_some_and(|mention| mention.start as usize <= start)
    }
}

fn push_lower_all(out: &mut String, text: &str) {
    if is_plain_lower(text) {
        out.push_str(text);
    } else {
        text.chars().for_each(|character| push_lower(out, character));
    }
}

fn letters_of(kind: TokenKind, text: &str) -> Letters {
    if kind != TokenKind::Word {
        return Letters::None;
    }
    let mut letters = text.chars().filter(|character| is_letter(*character));
    let Some(first) = letters.next() else { return Letters::None };
    if !is_upper(first) {
        return Letters::Lower;
    }
    match letters.next() {
        Some(second) if is_upper(second) => Letters::Upper,
        _ => Letters::Title,
    }
}

fn account_in_link(link: &str) -> Option<VkAccount> {
    let after = link.split_once("vk.com/")?.1;
    let name = after.split(['?', '/', '#']).next()?;
    let posts = ["wall", "photo", "album", "market", "video", "topic", "app", "doc", "feed", "im"];
    if posts.iter().any(|start| name.starts_with(start)) {
        return None;
    }
    account_of(name)
}
