//! The little language of the rules: a line of words and groups, matched over the tokens of a sentence.
//!
//! | Written | Means |
//! |---|---|
//! | `word` | this word form; of a past tense both genders, of a short participle all forms |
//! | `@group` | any word of a group of the dictionary |
//! | `a\|b` | one or the other |
//! | `~3` | up to three other words may stand before the next element |
//! | `~3-a\|b` | the same, but none of these among them |
//! | `^` | the next element opens its sentence |
//! | `<!a\|b`, `<3!a\|b` | none of these stands right before the first element, or within three words before |
//! | `!3:a\|b` | none of these follows within three words |
//! | `@animal`, `@number`, `@capital`, `@name` | a noun that names an animal, a number, a capital, a word that can be a name |
//!
//! A negation right before a match or inside its gaps forbids it, unless the pattern says `не` itself.
//! Matching is bounded per token, so a text is read in linear time.

use super::lexicon::{Group, Lexicon};
use super::tokens::{Gap, Reading, Token};

/// The widest gap a pattern may ask for: it bounds the work per token.
pub const GAP_MAX: usize = 6;

/// A pattern and what it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Rule<T> {
    pub name: &'static str,
    pub value: T,
    pub weight: i32,
    pub pattern: &'static str,
}

/// The columns of every line of a table: name, what it stands for, weight, pattern.
pub type Line = (&'static str, &'static str, i32, &'static str);

/// Reads a table line by line; a line that is no rule is given back.
pub fn lines(table: &'static str) -> impl Iterator<Item = Result<Line, &'static str>> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let cut = |text: &'static str| text.split_once(' ').map(|(head, tail)| (head, tail.trim_start()));
        let read = || {
            let (name, rest) = cut(line)?;
            let (value, rest) = cut(rest)?;
            let (weight, pattern) = cut(rest)?;
            Some((name, value, weight.parse().ok()?, pattern))
        };
        read().ok_or(line)
    })
}

/// The rules of a table. Lines that are no rules are skipped here and found by a test.
pub fn rules<T>(table: &'static str, value: impl Fn(&str) -> Option<T>) -> Vec<Rule<T>> {
    let lines = lines(table).filter_map(Result::ok);
    lines
        .filter_map(|(name, of, weight, pattern)| Some(Rule { name, value: value(of)?, weight, pattern }))
        .collect()
}

/// A rule that fired on the tokens `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    pub rule: usize,
    pub first: usize,
    pub last: usize,
}

/// Shapes of a token that a pattern can ask for, as bits.
mod shape {
    pub(super) const ANIMAL: u8 = 1;
    pub(super) const NUMBER: u8 = 2;
    pub(super) const CAPITAL: u8 = 4;
    pub(super) const NAME: u8 = 8;
    pub(super) const NEGATION: u8 = 16;
    /// Shapes that a pattern can begin with.
    pub(super) const LEADING: [u8; 4] = [ANIMAL, NUMBER, CAPITAL, NAME];
}

/// What a pattern sees of a token: asked thousands of times a post, so it is worked out once.
#[derive(Debug, Clone, Copy)]
struct Seen {
    groups: &'static [Group],
    shape: u8,
    gap: Gap,
    sentence: u32,
}

#[derive(Debug, Default, Clone)]
struct Alternatives {
    /// A bit per group.
    mask: Vec<u64>,
    shape: u8,
}

impl Alternatives {
    fn add(&mut self, group: Group) {
        let word = usize::from(group.0) / 64;
        if self.mask.len() <= word {
            self.mask.resize(word + 1, 0);
        }
        self.mask[word] |= 1 << (group.0 % 64);
    }

    fn groups(&self) -> impl Iterator<Item = Group> {
        let set = |index: &u16| self.mask[usize::from(*index) / 64] >> (index % 64) & 1 == 1;
        (0..self.mask.len() as u16 * 64).filter(set).map(Group)
    }

    fn is_empty(&self) -> bool {
        self.shape == 0 && self.mask.is_empty()
    }

    fn fit(&self, seen: &Seen) -> bool {
        self.shape & seen.shape != 0
            || seen.groups.iter().any(|group| {
                self.mask.get(usize::from(group.0) / 64).is_some_and(|word| word >> (group.0 % 64) & 1 == 1)
            })
    }
}

#[derive(Debug, Clone)]
struct Element {
    alternatives: Alternatives,
    gap: usize,
    /// Words that may not stand in the gap.
    barred: Alternatives,
}

#[derive(Debug, Clone, Default)]
struct Pattern {
    opens_sentence: bool,
    /// Not within this many words before the match.
    not_before: (usize, Alternatives),
    /// The pattern itself begins with a negation.
    negation_allowed: bool,
    elements: Vec<Element>,
    /// Not within this many words after the match.
    not_after: Option<(usize, Alternatives)>,
}

/// A table of rules made ready for matching.
#[derive(Debug)]
pub struct Matcher {
    patterns: Vec<Pattern>,
    /// Patterns by a group of their first element.
    by_group: Vec<Vec<u16>>,
    /// Patterns by the shape that they begin with, in the order of `shape::LEADING`.
    by_shape: [Vec<u16>; 4],
    negations: Alternatives,
}

impl Matcher {
    pub fn new<T>(lexicon: &Lexicon, rules: &[Rule<T>]) -> Matcher {
        let mut matcher = Matcher {
            patterns: Vec::with_capacity(rules.len()),
            by_group: Vec::new(),
            by_shape: Default::default(),
            negations: alternatives(lexicon, NEGATIONS),
        };
        for rule in rules {
            matcher.add(parse(lexicon, rule.pattern));
        }
        matcher
    }

    fn add(&mut self, pattern: Pattern) {
        let index = self.patterns.len() as u16;
        if let Some(first) = pattern.elements.first() {
            for group in first.alternatives.groups() {
                let group = usize::from(group.0);
                if self.by_group.len() <= group {
                    self.by_group.resize(group + 1, Vec::new());
                }
                self.by_group[group].push(index);
            }
            for (list, shape) in self.by_shape.iter_mut().zip(shape::LEADING) {
                if first.alternatives.shape & shape != 0 {
                    list.push(index);
                }
            }
        }
        self.patterns.push(pattern);
    }

    /// Every match in the order of the text. Hashtags are read like sentences of their own.
    pub fn hits(&self, reading: &Reading<'_>) -> Vec<Hit> {
        let seen: Vec<Seen> = reading.tokens.iter().map(|token| self.see(token)).collect();
        let mut hits: Vec<Hit> = Vec::new();
        let mut steps = 0;
        for (index, token) in seen.iter().enumerate() {
            let from = hits.len();
            for group in token.groups {
                let Some(patterns) = self.by_group.get(usize::from(group.0)) else { continue };
                steps += patterns.len();
                patterns.iter().for_each(|pattern| self.attempt(&seen, index, *pattern, from, &mut hits));
            }
            for (patterns, shape) in self.by_shape.iter().zip(shape::LEADING) {
                if token.shape & shape != 0 {
                    steps += patterns.len();
                    patterns.iter().for_each(|pattern| self.attempt(&seen, index, *pattern, from, &mut hits));
                }
            }
        }
        reading.count(steps);
        hits
    }

    fn see(&self, token: &Token) -> Seen {
        let entry = token.entry();
        let groups = entry.map_or(&[][..], |entry| entry.groups());
        let mut seen = Seen { groups, shape: 0, gap: token.gap, sentence: token.sentence };
        let animal = entry.is_some_and(|entry| entry.species.is_some_and(|species| species.noun));
        for (is, shape) in [
            (animal, shape::ANIMAL),
            (token.is_number(), shape::NUMBER),
            (token.is_word() && token.capital(), shape::CAPITAL),
            (can_be_name(token), shape::NAME),
            (self.negations.fit(&seen), shape::NEGATION),
        ] {
            seen.shape |= if is { shape } else { 0 };
        }
        seen
    }

    fn attempt(&self, seen: &[Seen], index: usize, pattern: u16, from: usize, hits: &mut Vec<Hit>) {
        let rule = usize::from(pattern);
        if let Some(last) = match_at(seen, index, &self.patterns[rule])
            && !hits[from..].iter().any(|hit| hit.rule == rule)
        {
            hits.push(Hit { rule, first: index, last });
        }
    }
}

/// The last token of a match that begins at `first`. Most attempts end at the second element, so it is asked first.
fn match_at(seen: &[Seen], first: usize, pattern: &Pattern) -> Option<usize> {
    let mut last = first;
    for element in &pattern.elements[1..] {
        last = next(seen, last, element, pattern.negation_allowed)?;
    }
    let sentence = seen[first].sentence;
    let before =
        first.checked_sub(1).map(|before| &seen[before]).filter(|before| before.sentence == sentence);
    if pattern.opens_sentence && before.is_some() {
        return None;
    }
    let touching = before.filter(|_| seen[first].gap < Gap::Comma);
    if touching.is_some_and(|before| !pattern.negation_allowed && before.shape & shape::NEGATION != 0) {
        return None;
    }
    let (back, forbidden) = (pattern.not_before.0, &pattern.not_before.1);
    let mut lead = seen[first.saturating_sub(back)..first].iter().filter(|token| token.sentence == sentence);
    if !forbidden.is_empty() && lead.any(|token| forbidden.fit(token)) {
        return None;
    }
    if let Some((within, forbidden)) = &pattern.not_after {
        let mut follows =
            seen[last + 1..].iter().take(*within).take_while(|token| token.sentence == sentence);
        if follows.any(|token| forbidden.fit(token)) {
            return None;
        }
    }
    Some(last)
}

fn next(seen: &[Seen], at: usize, element: &Element, negation: bool) -> Option<usize> {
    let sentence = seen[at].sentence;
    let window = seen[at + 1..].iter().take(element.gap + 1);
    for (step, token) in window.enumerate() {
        if token.sentence != sentence || token.gap >= Gap::Stop {
            return None;
        }
        if element.alternatives.fit(token) {
            return Some(at + 1 + step);
        }
        let denied = !negation && token.shape & shape::NEGATION != 0;
        if denied || !element.barred.is_empty() && element.barred.fit(token) {
            return None;
        }
    }
    None
}

const NEGATIONS: &str = "не|ни|нет|без";

fn can_be_name(token: &Token) -> bool {
    let usual = token.entry().is_none_or(|entry| entry.pet.is_some() || entry.person.is_some());
    token.is_word() && token.capital() && usual && token.end - token.start > 4
}

fn parse(lexicon: &Lexicon, text: &str) -> Pattern {
    let mut pattern = Pattern::default();
    let mut gap = 0;
    let mut barred = Alternatives::default();
    for part in text.split_whitespace() {
        if part == "^" {
            pattern.opens_sentence = true;
        } else if let Some((back, words)) = part.strip_prefix('<').and_then(|rest| rest.split_once('!')) {
            pattern.not_before = (back.parse().unwrap_or(1).min(GAP_MAX), alternatives(lexicon, words));
        } else if let Some((within, words)) = part.strip_prefix('!').and_then(|rest| rest.split_once(':')) {
            let within = within.parse().unwrap_or(1).min(GAP_MAX);
            pattern.not_after = Some((within, alternatives(lexicon, words)));
        } else if let Some(width) = part.strip_prefix('~') {
            let (width, words) = width.split_once('-').unwrap_or((width, ""));
            gap = width.parse().unwrap_or(0).min(GAP_MAX);
            barred = alternatives(lexicon, words);
        } else {
            let barred = std::mem::take(&mut barred);
            pattern.elements.push(Element { alternatives: alternatives(lexicon, part), gap, barred });
            gap = 0;
        }
    }
    pattern.negation_allowed =
        text.split_whitespace().any(|part| NEGATIONS.split('|').any(|word| word == part));
    pattern
}

fn alternatives(lexicon: &Lexicon, text: &str) -> Alternatives {
    let mut found = Alternatives::default();
    for word in text.split('|') {
        match word.strip_prefix('@') {
            Some("animal") => found.shape |= shape::ANIMAL,
            Some("number") => found.shape |= shape::NUMBER,
            Some("capital") => found.shape |= shape::CAPITAL,
            Some("name") => found.shape |= shape::NAME,
            Some(group) => lexicon.group(group).into_iter().for_each(|group| found.add(group)),
            None => lexicon.group(&format!("'{word}")).into_iter().for_each(|group| found.add(group)),
        }
    }
    found
}

/// Every word that stands in a pattern as itself; the dictionary must know them.
pub fn literals() -> Vec<&'static str> {
    let mut words: Vec<&'static str> = Vec::new();
    let tables = super::facts::patterns().chain([NEGATIONS]);
    for part in tables.flat_map(str::split_whitespace) {
        let part = match part.strip_prefix('<').and_then(|rest| rest.split_once('!')) {
            Some((_, words)) => words,
            None => part,
        };
        let part = match part.strip_prefix('!') {
            Some(rest) => rest.split_once(':').map_or("", |(_, words)| words),
            None => part,
        };
        let part = match part.strip_prefix('~') {
            Some(gap) => gap.split_once('-').map_or("", |(_, words)| words),
            None => part,
        };
        if part == "^" {
            continue;
        }
        words.extend(part.split('|').filter(|word| !word.is_empty() && !word.starts_with('@')));
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// Groups named by patterns that no data file fills; a test holds this list empty.
pub fn unknown_groups(lexicon: &Lexicon) -> Vec<&'static str> {
    let mut unknown = Vec::new();
    for part in super::facts::patterns().flat_map(str::split_whitespace) {
        for word in part.split(['|', ':', '!', '<', '-', '~']) {
            if let Some(group) = word.strip_prefix('@') {
                let shape = matches!(group, "animal" | "number" | "capital" | "name");
                if !shape && lexicon.group(group).is_none() {
                    unknown.push(group);
                }
            }
        }
    }
    unknown
}
