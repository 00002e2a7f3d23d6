//! What a post says: text in, facts with evidence out.
//!
//! The way through is `normalise` → `facts` → `fingerprint` → case.
//! Everything here is deterministic, versioned and linear in the length of the text.
//! It must not know where posts come from, where they go, or what time it is.

pub mod cases;
pub mod clean;
pub mod evidence;
pub mod facts;
pub mod fingerprint;
mod letters;
pub mod lexicon;
pub mod normalise;
pub mod pattern;
mod pet;
pub mod picture;
mod post;
mod seam;
pub mod similarity;
pub mod tags;
pub mod tokens;
mod words;

pub use facts::read::{Analysis, analyse, analyse_with, explained, is_plain, shown};
pub use facts::{
    Age, Animal, Colour, Evidence, Fact, Facts, Flag, Kind, Phone, Sex, Span, TextRef, VkAccount, shown_place,
};
pub use pet::pet;
pub use post::{Cleaned, Copied, Home, Post};
pub use seam::{Belonging, CaseDecision, Casework, RelatedCase, fill_from_case};
pub use words::{LEMMAS_MAX, lemmas, may_be_one};

/// Whether posts can be read: the dictionary and the weights inside the program are whole. Asked once when a program
/// starts, so that the error is read there.
pub fn ready() -> Result<(), &'static str> {
    lexicon::morph::ready().and_then(|()| evidence::ready())
}

/// Changes whenever the same post may yield other facts.
pub const FACTS_VERSION: u16 = 5;

/// Changes whenever the same facts may yield another fingerprint.
pub const HASH_VERSION: u16 = 1;
