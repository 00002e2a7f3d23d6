//! Words that a rule listens for, and how a text is held against them.
//!
//! A bare word means every form of it (equal lemma or stem), `x*` every word that begins so, `a|b` either, a space all of them
//! in any order, `"a b"` side by side. «не» just before a hit forbids it, unless the pattern says «не» itself.
//! All patterns of a file share one vocabulary, so that a text is looked up once, not once a rule.

use std::collections::{BTreeMap, HashMap};

use super::heard::Heard;
use super::rules::Intent;
use crate::content::lexicon::lexicon;
use crate::content::lexicon::morph::{self, bit};
use crate::content::may_be_one;
use crate::content::similarity::stem;

/// Words of one pattern, alternatives of one word, and letters of one word.
pub const TERMS_MAX: usize = 12;
pub const ALTERNATIVES_MAX: usize = 40;
pub const LETTERS_MAX: usize = 40;

/// Shorter words are too alike for their slips to be told apart (measured: 47 of 52 right from six letters on).
const TYPO_LETTERS_MIN: usize = 6;

/// Letters of a stem that is too short to tell words apart by itself.
const SHORT_STEM: usize = 3;

const NOT: &str = "не";

/// One pattern: every term must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    terms: Vec<Vec<Alternative>>,
    /// It says «не» itself.
    says_not: bool,
    pub text: String,
}

/// Atoms that stand side by side; one, unless it was quoted.
type Alternative = Vec<Atom>;

/// A word of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Atom(u32);

/// All words of a rules file.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    stems: HashMap<String, Atom>,
    /// Words by their lemma, as posts are read: «шёл» is «идти», whatever their stems look like.
    lemmas: HashMap<u64, Vec<Atom>>,
    /// Short stems are shared by words that have nothing to do with each other («меню», «меня»): the dictionary must
    /// know both as forms of one word.
    short: HashMap<String, Vec<(String, Atom)>>,
    prefixes: HashMap<String, Atom>,
    /// Lengths of the prefixes in bytes, so that only these are looked up.
    prefix_bytes: Vec<usize>,
    /// Whole words by their first letter, as they are written: only these forgive a slip.
    whole: BTreeMap<char, Vec<(String, Atom)>>,
    n_atoms: u32,
    /// Intents one of whose patterns begins with the atom: only these are held against a text that has it.
    intents: Vec<Vec<u32>>,
}

/// Where a text has words of the vocabulary.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    found: Vec<(Atom, u16)>,
    /// Hits that need a slip of one letter to be forgiven.
    typos: Vec<(Atom, u16)>,
}

/// How a pattern was met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Met {
    /// Places of the words in the text, sorted and distinct.
    pub places: Vec<u16>,
    pub typos: usize,
}

impl Vocabulary {
    /// Reads a pattern and remembers its words. The error says what is wrong with it.
    pub fn read(&mut self, text: &str) -> Result<Pattern, String> {
        let mut terms = Vec::new();
        let mut says_not = false;
        for term in split(text, |c| c.is_whitespace())? {
            let mut alternatives = Vec::new();
            for alternative in split(&term, |c| c == '|')? {
                let atoms = self.alternative(&alternative)?;
                says_not |= fold(&alternative).split(' ').any(|word| word == NOT);
                alternatives.push(atoms);
            }
            if alternatives.len() > ALTERNATIVES_MAX {
                return Err(format!(
                    "more than {ALTERNATIVES_MAX} alternatives joined by `|`; write a second pattern"
                ));
            }
            terms.push(alternatives);
        }
        if terms.is_empty() {
            return Err("there is no word in it".to_owned());
        }
        if terms.len() > TERMS_MAX {
            return Err(format!("more than {TERMS_MAX} words; all of them would have to be said"));
        }
        Ok(Pattern { terms, says_not, text: text.to_owned() })
    }

    fn alternative(&mut self, text: &str) -> Result<Alternative, String> {
        let inner = text.trim_matches('"');
        let words: Vec<&str> = inner.split_whitespace().collect();
        if words.is_empty() {
            return Err("there is nothing on one side of `|`, or between two quotes".to_owned());
        }
        let mut atoms = Vec::new();
        for word in words {
            atoms.extend(self.atoms(word)?);
        }
        Ok(atoms)
    }

    fn atoms(&mut self, word: &str) -> Result<Vec<Atom>, String> {
        let prefix = word.strip_suffix('*');
        let folded = fold(prefix.unwrap_or(word));
        if folded.is_empty() || folded.contains('*') {
            return Err(format!("`{word}` is not a word; a star may only stand at the end of one"));
        }
        if folded.chars().count() > LETTERS_MAX {
            return Err(format!("`{word}` is longer than {LETTERS_MAX} letters"));
        }
        // What punctuation cuts in two (`e-mail`) is two words side by side, as in the text.
        let parts: Vec<&str> = folded.split(' ').collect();
        let last = parts.len() - 1;
        let atom = |(index, part): (usize, &&str)| match prefix {
            Some(_) if index == last => self.prefix(part),
            _ => self.stem(part),
        };
        Ok(parts.iter().enumerate().map(atom).collect())
    }

    fn prefix(&mut self, prefix: &str) -> Atom {
        let next = Atom(self.n_atoms);
        let atom = *self.prefixes.entry(prefix.to_owned()).or_insert(next);
        self.n_atoms += u32::from(atom == next);
        if !self.prefix_bytes.contains(&prefix.len()) {
            self.prefix_bytes.push(prefix.len());
            self.prefix_bytes.sort_unstable();
        }
        atom
    }

    fn stem(&mut self, word: &str) -> Atom {
        let next = Atom(self.n_atoms);
        let stem = stem(word);
        let atom = match is_short(&stem) {
            true => {
                let same = self.short.entry(stem).or_default();
                let known = same.iter().find(|(known, _)| known == word).map(|(_, atom)| *atom);
                known.unwrap_or_else(|| {
                    same.push((word.to_owned(), next));
                    next
                })
            }
            false => *self.stems.entry(stem).or_insert(next),
        };
        self.n_atoms += u32::from(atom == next);
        if let Some(lemma) = lemma(word) {
            let atoms = self.lemmas.entry(lemma).or_default();
            if !atoms.contains(&atom) {
                atoms.push(atom);
            }
        }
        if let Some(first) = word.chars().next()
            && word.chars().count() >= TYPO_LETTERS_MIN
            && word.chars().all(char::is_alphabetic)
        {
            let words = self.whole.entry(first).or_default();
            if !words.iter().any(|(known, _)| known == word) {
                words.push((word.to_owned(), atom));
            }
        }
        atom
    }

    /// Remembers which intents a word may mean; called once, when all are read.
    pub(super) fn index(&mut self, intents: &[Intent]) {
        self.intents = vec![Vec::new(); self.n_atoms as usize];
        for (place, intent) in intents.iter().enumerate() {
            let first = intent.any.iter().filter_map(|pattern| pattern.terms.first()).flatten();
            for atom in first.filter_map(|atoms| atoms.first()) {
                self.intents[atom.0 as usize].push(place as u32);
            }
        }
    }

    /// Intents that a text may mean, each once.
    pub(super) fn candidates(&self, hits: &Hits) -> Vec<usize> {
        let atoms = hits.found.iter().chain(&hits.typos).map(|(atom, _)| atom.0 as usize);
        let mut places: Vec<usize> =
            atoms.filter_map(|atom| self.intents.get(atom)).flatten().map(|place| *place as usize).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Looks every word of a text up.
    pub fn hits(&self, heard: &Heard) -> Hits {
        let mut found = Vec::new();
        for (place, word) in heard.words().enumerate() {
            let place = place as u16;
            let stem = stem(word);
            if is_short(&stem) {
                let same = self.short.get(&stem).into_iter().flatten();
                let meant = same.filter(|(written, _)| written == word || may_be_one(written, word));
                found.extend(meant.map(|(_, atom)| (*atom, place)));
            } else {
                found.extend(self.stems.get(&stem).map(|atom| (*atom, place)));
            }
            let same = lemma(word).and_then(|lemma| self.lemmas.get(&lemma)).into_iter().flatten();
            found.extend(same.map(|atom| (*atom, place)));
            for bytes in self.prefix_bytes.iter().take_while(|bytes| **bytes <= word.len()) {
                let prefix = word.get(..*bytes).and_then(|start| self.prefixes.get(start));
                found.extend(prefix.map(|atom| (*atom, place)));
            }
        }
        found.sort_unstable();
        found.dedup();
        Hits { found, typos: Vec::new() }
    }

    /// The same, and words that are one slip away from a whole word of the vocabulary.
    pub fn hits_with_typos(&self, heard: &Heard) -> Hits {
        let mut hits = self.hits(heard);
        for (place, word) in heard.words().enumerate() {
            let letters = word.chars().count();
            let Some(first) = word.chars().next().filter(|_| letters + 1 >= TYPO_LETTERS_MIN) else {
                continue;
            };
            let near =
                self.whole.get(&first).into_iter().flatten().filter(|(whole, _)| is_one_slip(whole, word));
            hits.typos.extend(near.map(|(_, atom)| (*atom, place as u16)));
        }
        hits.typos.sort_unstable();
        hits
    }
}

impl Hits {
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.typos.is_empty()
    }

    fn places<'a>(list: &'a [(Atom, u16)], atom: Atom) -> impl Iterator<Item = u16> + 'a {
        let from = list.partition_point(|(known, _)| *known < atom);
        list[from..].iter().take_while(move |(known, _)| *known == atom).map(|(_, place)| *place)
    }

    fn is_at(&self, atom: Atom, place: u16) -> Option<usize> {
        if Self::places(&self.found, atom).any(|at| at == place) {
            return Some(0);
        }
        Self::places(&self.typos, atom).any(|at| at == place).then_some(1)
    }
}

impl Pattern {
    /// Whether every word of the pattern is in the text, each at a place of its own.
    pub fn met(&self, heard: &Heard, hits: &Hits) -> Option<Met> {
        let mut met = Met::default();
        for term in &self.terms {
            let (mut places, typos) =
                term.iter().find_map(|atoms| self.place(atoms, heard, hits, &met.places))?;
            met.places.append(&mut places);
            met.typos += typos;
        }
        met.places.sort_unstable();
        met.places.dedup();
        Some(met)
    }

    /// The first free place where these atoms stand side by side and are not denied; places without a slip come first.
    fn place(&self, atoms: &[Atom], heard: &Heard, hits: &Hits, taken: &[u16]) -> Option<(Vec<u16>, usize)> {
        let first = *atoms.first()?;
        let starts = Hits::places(&hits.found, first).chain(Hits::places(&hits.typos, first));
        let free = starts.filter(|place| !taken.contains(place));
        for place in free.filter(|place| self.says_not || !heard.is_denied(*place)) {
            let mut typos = 0;
            let fits = atoms.iter().zip(place..).all(|(atom, at)| {
                let slip = hits.is_at(*atom, at);
                typos += slip.unwrap_or(0);
                slip.is_some()
            });
            if fits {
                return Some(((place..).take(atoms.len()).collect(), typos));
            }
        }
        None
    }
}

/// The lemma of a word that the dictionary has; a guess is no lemma.
fn lemma(word: &str) -> Option<u64> {
    let morph = morph::known(lexicon(), word).morph;
    morph.is(bit::KNOWN).then_some(morph.lemma)
}

fn is_short(stem: &str) -> bool {
    stem.chars().nth(SHORT_STEM).is_none()
}

/// Lower case, `ё` as `е`, words apart by one space: what is compared, in patterns and in texts.
pub fn fold(text: &str) -> String {
    Heard::new(text).folded
}

/// Splits at a sort of character outside of quotes; empty pieces between spaces are left out.
fn split(text: &str, at: impl Fn(char) -> bool) -> Result<Vec<String>, String> {
    let mut pieces = vec![String::new()];
    let mut quoted = false;
    for c in text.trim().chars() {
        match c {
            '"' => {
                quoted = !quoted;
                pieces.last_mut().into_iter().for_each(|piece| piece.push('"'));
            }
            c if at(c) && !quoted => pieces.push(String::new()),
            c => pieces.last_mut().into_iter().for_each(|piece| piece.push(c)),
        }
    }
    if quoted {
        return Err("a quote is opened and not closed".to_owned());
    }
    let keeps_empty = at('|');
    Ok(pieces.into_iter().filter(|piece| keeps_empty || !piece.is_empty()).collect())
}

/// One letter missed, added, wrong, or two swapped. The first letters are equal already.
pub fn is_one_slip(meant: &str, written: &str) -> bool {
    let (meant, written): (Vec<char>, Vec<char>) = (meant.chars().collect(), written.chars().collect());
    let same_front = meant.iter().zip(&written).take_while(|(a, b)| a == b).count();
    let most = meant.len().min(written.len()) - same_front.min(meant.len().min(written.len()));
    let same_back =
        meant.iter().rev().zip(written.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let rest = (meant.len() - same_front - same_back, written.len() - same_front - same_back);
    match rest {
        (1, 0) | (0, 1) | (1, 1) => true,
        (2, 2) => {
            meant[same_front] == written[same_front + 1] && meant[same_front + 1] == written[same_front]
        }
        _ => false,
    }
}
