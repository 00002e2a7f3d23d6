//! The little language of the rules: a line of words and groups, matched over the tokens of a sentence.
//!
//! | Written | Means |
//! |---|---|
//! | `word` | this word form |
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

#[derive(Debug, Default, Clone)]
struct Alternatives {
    groups: Vec<Group>,
    animal: bool,
    number: bool,
    capital: bool,
    name: bool,
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
    /// Patterns that begin with `@animal`, `@number` or `@capital`.
    by_shape: Vec<u16>,
    negations: Alternatives,
}

impl Matcher {
    pub fn new<T>(lexicon: &Lexicon, rules: &[Rule<T>]) -> Matcher {
        let mut matcher = Matcher {
            patterns: Vec::with_capacity(rules.len()),
            by_group: Vec::new(),
            by_shape: Vec::new(),
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
            for group in &first.alternatives.groups {
                let group = usize::from(group.0);
                if self.by_group.len() <= group {
                    self.by_group.resize(group + 1, Vec::new());
                }
                self.by_group[group].push(index);
            }
            if first.alternatives.animal
                || first.alternatives.number
                || first.alternatives.capital
                || first.alternatives.name
            {
                self.by_shape.push(index);
            }
        }
        self.patterns.push(pattern);
    }

    /// Every match in the order of the text. Hashtags are read like sentences of their own.
    pub fn hits(&self, reading: &Reading<'_>) -> Vec<Hit> {
        let mut hits: Vec<Hit> = Vec::new();
        for (index, token) in reading.tokens.iter().enumerate() {
            let from = hits.len();
            if let Some(entry) = token.entry() {
                for group in entry.groups() {
                    for pattern in self.by_group.get(usize::from(group.0)).into_iter().flatten() {
                        self.attempt(reading, index, *pattern, from, &mut hits);
                    }
                }
            }
            for pattern in &self.by_shape {
                let first = &self.patterns[usize::from(*pattern)].elements[0];
                if matches(token, &first.alternatives) {
                    self.attempt(reading, index, *pattern, from, &mut hits);
                }
            }
        }
        hits
    }

    fn attempt(&self, reading: &Reading<'_>, index: usize, pattern: u16, from: usize, hits: &mut Vec<Hit>) {
        let rule = usize::from(pattern);
        reading.count(1 + hits.len() - from);
        if hits[from..].iter().any(|hit| hit.rule == rule) {
            return;
        }
        if let Some(last) = self.match_at(&reading.tokens, index, &self.patterns[rule]) {
            hits.push(Hit { rule, first: index, last });
        }
    }

    fn match_at(&self, tokens: &[Token], first: usize, pattern: &Pattern) -> Option<usize> {
        let before = first.checked_sub(1).and_then(|before| tokens.get(before));
        let before = before.filter(|before| before.sentence == tokens[first].sentence);
        if pattern.opens_sentence && before.is_some() {
            return None;
        }
        let touching = before.filter(|_| tokens[first].gap < Gap::Comma);
        if touching.is_some_and(|before| !pattern.negation_allowed && matches(before, &self.negations)) {
            return None;
        }
        let (back, forbidden) = (pattern.not_before.0, &pattern.not_before.1);
        let lead = tokens[first.saturating_sub(back)..first].iter();
        if lead
            .filter(|token| token.sentence == tokens[first].sentence)
            .any(|token| matches(token, forbidden))
        {
            return None;
        }
        let mut at = first;
        for element in &pattern.elements[1..] {
            at = self.next(tokens, at, element, pattern.negation_allowed)?;
        }
        let (within, forbidden) = match &pattern.not_after {
            Some((within, forbidden)) => (*within, forbidden),
            None => return Some(at),
        };
        let sentence = tokens[at].sentence;
        let follows = tokens[at + 1..].iter().take(within).take_while(|token| token.sentence == sentence);
        (!follows.into_iter().any(|token| matches(token, forbidden))).then_some(at)
    }

    fn next(&self, tokens: &[Token], at: usize, element: &Element, negation: bool) -> Option<usize> {
        let sentence = tokens[at].sentence;
        let window = tokens.iter().enumerate().skip(at + 1).take(element.gap + 1);
        window
            .take_while(|(_, token)| token.sentence == sentence && token.gap < Gap::Stop)
            .take_while(|(_, token)| {
                let barred = matches(token, &element.barred) || !negation && matches(token, &self.negations);
                matches(token, &element.alternatives) || !barred
            })
            .find(|(_, token)| matches(token, &element.alternatives))
            .map(|(index, _)| index)
    }
}

const NEGATIONS: &str = "не|ни|нет|без";

fn matches(token: &Token, alternatives: &Alternatives) -> bool {
    if let Some(entry) = token.entry() {
        if alternatives.groups.iter().any(|group| entry.has(*group)) {
            return true;
        }
        if alternatives.animal && entry.species.is_some_and(|species| species.noun) {
            return true;
        }
    }
    (alternatives.number && token.is_number())
        || (alternatives.capital && token.is_word() && token.capital())
        || (alternatives.name && can_be_name(token))
}

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
            Some("animal") => found.animal = true,
            Some("number") => found.number = true,
            Some("capital") => found.capital = true,
            Some("name") => found.name = true,
            Some(group) => found.groups.extend(lexicon.group(group)),
            None => found.groups.extend(lexicon.group(&format!("'{word}"))),
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
