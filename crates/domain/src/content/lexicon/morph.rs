//! What a Russian word form is: lemma, part of speech and grammar, also of words nobody has listed.
//!
//! The analysis comes from `rumorph` and its dictionary, which is part of the program. A word costs it about a
//! microsecond, and posts repeat their words, so every thread keeps the answers that it has had.
//! It must not know what any word means for a post.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use rumorph::{Dictionary, Source};

use super::{Entry, Lexicon, WordHasher};
use crate::content::Sex;

/// Answers kept per thread; when they are more, all are forgotten. Bounds the memory whatever is sent.
const KEPT_MAX: usize = 1 << 15;
/// Longer words are nobody's language.
const WORD_BYTES_MAX: usize = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pos {
    Noun,
    Name,
    Verb,
    Adjective,
    Adverb,
    Pronoun,
    Numeral,
    Small,
    #[default]
    Unknown,
}

/// Grammar as bits; a form that can be two things has the bits of both.
pub mod bit {
    pub const MASC: u32 = 1;
    pub const FEM: u32 = 1 << 1;
    pub const NEUT: u32 = 1 << 2;
    pub const SING: u32 = 1 << 3;
    pub const PLUR: u32 = 1 << 4;
    pub const NOM: u32 = 1 << 5;
    pub const GEN: u32 = 1 << 6;
    pub const DAT: u32 = 1 << 7;
    pub const ACC: u32 = 1 << 8;
    pub const INS: u32 = 1 << 9;
    pub const LOC: u32 = 1 << 10;
    pub const PAST: u32 = 1 << 11;
    pub const PRESENT: u32 = 1 << 12;
    pub const FUTURE: u32 = 1 << 13;
    pub const FIRST: u32 = 1 << 14;
    pub const SECOND: u32 = 1 << 15;
    pub const THIRD: u32 = 1 << 16;
    pub const IMPERATIVE: u32 = 1 << 17;
    pub const PARTICIPLE: u32 = 1 << 18;
    pub const INFINITIVE: u32 = 1 << 19;
    pub const ANIMATE: u32 = 1 << 20;
    pub const SHORT: u32 = 1 << 21;
    /// The dictionary has the form; otherwise the ending was asked.
    pub const KNOWN: u32 = 1 << 22;
    /// The dictionary has it as something else than a name.
    pub const COMMON: u32 = 1 << 23;
    /// The dictionary has it as a name of a person, a family or a place.
    pub const FIRST_NAME: u32 = 1 << 24;
    pub const SURNAME: u32 = 1 << 25;
    pub const PLACE_NAME: u32 = 1 << 26;
    /// A verb that nobody does to anybody: `сидела`, `нашлась`.
    pub const INTRANSITIVE: u32 = 1 << 27;
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Morph {
    /// The lemma as a number: equal lemmas, equal numbers.
    pub lemma: u64,
    pub pos: Pos,
    pub bits: u32,
}

impl Morph {
    pub fn is(self, bits: u32) -> bool {
        self.bits & bits != 0
    }
}

/// All that is looked up of a word form.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub morph: Morph,
    /// Its entry exactly as written, and also through a common spelling mistake.
    pub exact: Option<&'static Entry>,
    pub likely: Option<&'static Entry>,
}

type Kept = HashMap<Box<str>, Known, BuildHasherDefault<WordHasher>>;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

struct Grammar {
    dictionary: Dictionary,
    /// Part of speech and bits by the number of the tag.
    tags: Vec<(Pos, u32)>,
}

static GRAMMAR: LazyLock<Result<Grammar, String>> = LazyLock::new(load);

fn load() -> Result<Grammar, String> {
    let dictionary = Dictionary::bundled().map_err(|error| {
        format!("the Russian dictionary inside this program is damaged ({error}); install it again")
    })?;
    let tags = dictionary
        .ud_tags()
        .map(|tag| {
            let mut bits = 0;
            for (_, value) in tag.feats() {
                bits |= feature(value);
            }
            for (label, bit) in [("Geox", bit::PLACE_NAME), ("intr", bit::INTRANSITIVE)] {
                bits |= if tag.has_label(label) { bit } else { 0 };
            }
            (part_of_speech(tag.pos()), bits)
        })
        .collect();
    Ok(Grammar { dictionary, tags })
}

fn feature(value: &str) -> u32 {
    match value {
        "Masc" => bit::MASC,
        "Fem" => bit::FEM,
        "Neut" => bit::NEUT,
        "Sing" => bit::SING,
        "Plur" => bit::PLUR,
        "Nom" => bit::NOM,
        "Gen" | "Par" => bit::GEN,
        "Dat" => bit::DAT,
        "Acc" => bit::ACC,
        "Ins" => bit::INS,
        "Loc" => bit::LOC,
        "Past" => bit::PAST,
        "Pres" => bit::PRESENT,
        "Fut" => bit::FUTURE,
        "1" => bit::FIRST,
        "2" => bit::SECOND,
        "3" => bit::THIRD,
        "Imp" => bit::IMPERATIVE,
        "Part" => bit::PARTICIPLE,
        "Inf" => bit::INFINITIVE,
        "Anim" => bit::ANIMATE,
        "Short" => bit::SHORT,
        "Giv" => bit::FIRST_NAME,
        "Sur" => bit::SURNAME,
        "Geo" => bit::PLACE_NAME,
        _ => 0,
    }
}

fn part_of_speech(name: &str) -> Pos {
    match name {
        "NOUN" => Pos::Noun,
        "PROPN" => Pos::Name,
        "VERB" | "AUX" => Pos::Verb,
        "ADJ" => Pos::Adjective,
        "ADV" => Pos::Adverb,
        "PRON" | "DET" => Pos::Pronoun,
        "NUM" => Pos::Numeral,
        "ADP" | "CCONJ" | "SCONJ" | "PART" | "INTJ" => Pos::Small,
        _ => Pos::Unknown,
    }
}

/// Whether the dictionary can be used.
pub fn ready() -> Result<(), &'static str> {
    GRAMMAR.as_ref().map(|_| ()).map_err(String::as_str)
}

/// The dictionary itself, for grammar that needs more than the bits.
pub(super) fn dictionary() -> Option<&'static Dictionary> {
    GRAMMAR.as_ref().ok().map(|grammar| &grammar.dictionary)
}

/// What a lower-case word form is. Words that are not Russian are unknown, with their own form as lemma.
/// Posts say the same words over and over: whatever was looked up once is remembered together.
pub fn known(lexicon: &'static Lexicon, word: &str) -> Known {
    KEPT.with_borrow_mut(|kept| {
        if let Some(known) = kept.get(word) {
            return *known;
        }
        let found = Known { morph: analyse(word), exact: lexicon.exact(word), likely: lexicon.find(word) };
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        if word.len() <= WORD_BYTES_MAX {
            kept.insert(word.into(), found);
        }
        found
    })
}

fn is_russian(word: &str) -> bool {
    word.len() <= WORD_BYTES_MAX && word.chars().all(|letter| matches!(letter, 'а'..='я' | '-'))
}

/// What only the dictionary may say: the ending of an unknown word proves no name.
const NAMES: u32 = bit::FIRST_NAME | bit::SURNAME | bit::PLACE_NAME;

fn analyse(word: &str) -> Morph {
    let unknown = Morph { lemma: key(word), ..Morph::default() };
    let Ok(grammar) = GRAMMAR.as_ref() else { return unknown };
    if !is_russian(word) {
        return unknown;
    }
    let analyses = grammar.dictionary.analyze(word);
    let tag = |number: u16| grammar.tags.get(usize::from(number)).copied().unwrap_or_default();
    let Some(first) = analyses.first() else { return unknown };
    let (pos, mut bits) = tag(first.ud);
    bits &= !NAMES;
    for other in &analyses {
        let (other_pos, other_bits) = tag(other.ud);
        if other.lemma == first.lemma && other_pos == pos {
            bits |= other_bits & !NAMES;
        }
        if other.source == Source::Dictionary {
            bits |= bit::KNOWN | other_bits & NAMES;
            bits |= if other_pos == Pos::Name { 0 } else { bit::COMMON };
        }
    }
    Morph { lemma: key(&fold(&first.lemma)), pos, bits }
}

/// The lemma in letters, for people and for the fitting of weights.
pub fn lemma(word: &str) -> String {
    match GRAMMAR.as_ref() {
        Ok(grammar) if is_russian(word) => {
            let analyses = grammar.dictionary.analyze(word);
            analyses.first().map_or_else(|| word.to_owned(), |first| fold(&first.lemma))
        }
        _ => word.to_owned(),
    }
}

/// The gender of a word in its dictionary form, where the dictionary has it with one gender only.
pub fn gender(word: &str) -> Option<Sex> {
    let grammar = GRAMMAR.as_ref().ok().filter(|_| is_russian(word))?;
    let mut genders = 0;
    for analysis in grammar.dictionary.analyze(word) {
        let (pos, bits) = grammar.tags.get(usize::from(analysis.ud)).copied().unwrap_or_default();
        let named = matches!(pos, Pos::Noun | Pos::Name) && bits & bit::NOM != 0 && bits & bit::SING != 0;
        if analysis.source == Source::Dictionary && named {
            genders |= bits & (bit::MASC | bit::FEM | bit::NEUT);
        }
    }
    match genders {
        bit::MASC => Some(Sex::M),
        bit::FEM => Some(Sex::F),
        _ => None,
    }
}

/// Every form of a word of the dictionary, and the word itself.
pub fn forms(lemma: &str) -> Vec<String> {
    let mut forms = vec![lemma.to_owned()];
    if let Ok(grammar) = GRAMMAR.as_ref() {
        let analyses = grammar.dictionary.analyze(lemma);
        let own = analyses.iter().filter(|analysis| fold(&analysis.lemma) == fold(lemma));
        forms.extend(own.flat_map(|own| grammar.dictionary.forms(own)).map(|form| fold(&form.word)));
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// The other gender of a past tense, and all forms of a short participle: `забрал` for `забрала`, `найдены` for
/// `найден`. Rules that list one of them mean all; the plural of a deed is left out, because people do it.
pub fn same_deed(word: &str) -> Vec<String> {
    let own = analyse(word);
    let short = |morph: Morph| morph.is(bit::PARTICIPLE) && morph.is(bit::SHORT);
    let past = |morph: Morph| {
        morph.is(bit::PAST)
            && !morph.is(bit::PARTICIPLE)
            && morph.is(bit::MASC | bit::FEM)
            && !morph.is(bit::PLUR)
    };
    let deed = |morph: Morph| morph.pos == Pos::Verb && morph.is(bit::KNOWN) && (short(morph) || past(morph));
    if !deed(own) {
        return Vec::new();
    }
    let (plain, itself) = match word.strip_suffix("ся").or_else(|| word.strip_suffix("сь")) {
        Some(plain) => (plain, true),
        None => (word, false),
    };
    let core = plain.strip_suffix(['а', 'о', 'ы']).unwrap_or(plain);
    let forms = ["", "а", "о", "ы"].map(|ending| match (itself, ending) {
        (false, _) => format!("{core}{ending}"),
        (true, "") => format!("{core}ся"),
        (true, _) => format!("{core}{ending}сь"),
    });
    let same = |form: &String| {
        let other = analyse(form);
        form != word && other.lemma == own.lemma && deed(other)
    };
    forms.into_iter().filter(same).collect()
}

/// Every lemma that a form can belong to; the form itself if no dictionary knows it.
pub fn every_lemma(word: &str) -> Vec<String> {
    match GRAMMAR.as_ref() {
        Ok(grammar) if is_russian(word) => {
            let analyses = grammar.dictionary.analyze(word);
            analyses.iter().map(|analysis| fold(&analysis.lemma)).collect()
        }
        _ => vec![word.to_owned()],
    }
}

fn fold(lemma: &str) -> String {
    lemma.to_lowercase().replace('ё', "е")
}

/// A word as a number.
pub fn key(word: &str) -> u64 {
    let mut hasher = WordHasher::default();
    hasher.write(word.as_bytes());
    hasher.finish()
}
