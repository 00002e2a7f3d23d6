//! The dictionary: one look-up tells everything that the rules want to know of a word form.
//!
//! The data files beside this module list words in their dictionary form; the forms are made here, once.
//! What the groups are for is the business of the rules.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use super::{Animal, Colour, Sex};

pub mod inflect;
mod load;
pub mod morph;
pub mod nominative;
mod typos;

pub use inflect::case;

/// A named set of word forms. Rules name groups; the data files fill them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group(pub u16);

/// Ends with a full stop that ends no sentence.
pub const ABBREVIATION: Group = Group(0);
/// An abbreviated unit: before a capital its full stop does end the sentence.
pub const UNIT: Group = Group(1);

/// What a word says about the species.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Species {
    pub animal: Animal,
    /// A noun that names the animal itself; otherwise only a hint (`лоток`, `будка`).
    pub noun: bool,
    /// The word alone tells the sex (`кот`, `сука`, `алабаиха`).
    pub sex: Sex,
    /// Grammatical gender of the noun; says nothing of the sex unless a rule wants it.
    pub gender: Sex,
    /// Index into the table of breeds, if the word names one.
    pub breed: Option<u16>,
    /// The young (`щенок`, `котёнок`): masculine by grammar only.
    pub young: bool,
}

/// Everything known of one word form.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    groups: Vec<Group>,
    bits: Vec<u64>,
    pub species: Option<Species>,
    /// Cases of the noun reading, as bits of `case`.
    pub cases: u8,
    pub colour: Option<Colour>,
    /// First names of people: the nominative and the gender.
    pub person: Option<(&'static str, Sex)>,
    /// Usual names of pets: the nominative and the gender.
    pub pet: Option<(&'static str, Sex)>,
    /// The species that the name is usual for.
    pub pet_animal: Animal,
    /// Index into the table of cities, for one-word names and last words of longer ones.
    pub cities: Vec<u16>,
    /// The same for the table of districts.
    pub districts: Vec<u16>,
    /// Value of a numeral (`девятьсот`, `пять`).
    pub number: Option<u16>,
    pub month: Option<u8>,
    /// Monday is 1.
    pub weekday: Option<u8>,
    /// Reached by a spelling mistake.
    pub typo: bool,
}

impl Entry {
    pub fn has(&self, group: Group) -> bool {
        let (word, bit) = (usize::from(group.0) / 64, group.0 % 64);
        self.bits.get(word).is_some_and(|bits| bits >> bit & 1 == 1)
    }

    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    fn add(&mut self, group: Group) {
        if self.has(group) {
            return;
        }
        self.groups.push(group);
        let word = usize::from(group.0) / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (group.0 % 64);
    }
}

/// A settlement of the gazetteer.
#[derive(Debug, Clone)]
pub struct City {
    pub name: &'static str,
    /// Lower-case words of the name, `ё` folded.
    pub words: Vec<String>,
    /// A name that is also a common word, a person's name or an adjective: needs a marker.
    pub needs_marker: bool,
}

/// A district of large cities.
#[derive(Debug, Clone)]
pub struct District {
    /// Lower-case words of the name, `ё` folded.
    pub words: Vec<String>,
    /// The cities that have one of this name, as indices into the table of cities.
    pub cities: Vec<u16>,
    /// A name that is also another word: needs a marker.
    pub needs_marker: bool,
}

#[derive(Debug, Default)]
pub struct Lexicon {
    forms: HashMap<Box<str>, u32, BuildHasherDefault<WordHasher>>,
    sounds: HashMap<Box<str>, u32, BuildHasherDefault<WordHasher>>,
    slips: HashMap<Box<str>, u32, BuildHasherDefault<WordHasher>>,
    entries: Vec<Entry>,
    group_names: HashMap<String, Group, BuildHasherDefault<WordHasher>>,
    /// How the words that people glue to the next one begin.
    glued_heads: HashSet<u64, BuildHasherDefault<WordHasher>>,
    pub breeds: Vec<&'static str>,
    pub cities: Vec<City>,
    pub districts: Vec<District>,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(load::load);

/// The one dictionary, built on first use.
pub fn lexicon() -> &'static Lexicon {
    &LEXICON
}

/// The first three letters of a Russian word as a number.
fn head_of(word: &str) -> u64 {
    word.bytes().take(6).fold(0, |head, byte| head << 8 | u64::from(byte))
}

/// Words shorter than this are taken as written: a slip in them could be anything.
const TYPO_LETTERS_MIN: usize = 5;

impl Lexicon {
    /// The entry of a lower-case word form, also through a common spelling mistake.
    pub fn find(&'static self, word: &str) -> Option<&'static Entry> {
        if let Some(index) = self.forms.get(word) {
            return self.entries.get(*index as usize);
        }
        if word.len() < TYPO_LETTERS_MIN * 2 || word.len() > 48 {
            return None;
        }
        let sound = typos::sound(word);
        let slip = self.slips.get(word);
        slip.or_else(|| self.sounds.get(sound.as_str())).and_then(|index| self.entries.get(*index as usize))
    }

    /// The entry of a word exactly as written.
    pub fn exact(&'static self, word: &str) -> Option<&'static Entry> {
        self.forms.get(word).and_then(|index| self.entries.get(*index as usize))
    }

    /// A group by its name in the data files; rules ask once, when they are built.
    pub fn group(&self, name: &str) -> Option<Group> {
        self.group_names.get(name).copied()
    }

    /// Cuts of a word glued from words of the dictionary, as byte offsets.
    /// In running text the first part must be one that people glue (`пропал…`); hashtags may glue anything.
    pub fn unglue(&'static self, word: &str, tag: bool) -> Option<Vec<usize>> {
        const LETTERS_MAX: usize = 40;
        if word.len() > LETTERS_MAX * 2 {
            return None;
        }
        if !tag && !self.glued_heads.contains(&head_of(word)) {
            return None;
        }
        let glued = self.group("glued_start")?;
        let starts: Vec<usize> =
            word.char_indices().map(|(index, _)| index).filter(|index| *index >= 4).collect();
        for cut in starts.iter().rev() {
            let Some(head) = self.exact(&word[..*cut]) else { continue };
            if !tag && !head.has(glued) {
                continue;
            }
            let tail = &word[*cut..];
            if tail.len() >= 6 && self.exact(tail).is_some() {
                return Some(vec![*cut]);
            }
            if !tag {
                continue;
            }
            let second = starts.iter().filter(|next| **next > *cut + 1);
            for next in second.rev() {
                let last = &word[*next..];
                if self.exact(&word[*cut..*next]).is_some() && last.len() >= 6 && self.exact(last).is_some() {
                    return Some(vec![*cut, *next]);
                }
            }
        }
        None
    }
}

/// Multiply and rotate, eight bytes at a time: words are short, and a read-only table of our own has no enemy that
/// could gain by collisions.
#[derive(Debug, Default)]
pub struct WordHasher(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl WordHasher {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut eight = [0; 8];
            eight.copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(eight));
        }
        let mut tail = [0; 8];
        let rest = chunks.remainder();
        tail[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(tail) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, value: u8) {
        self.0 ^= u64::from(value);
    }
}
