//! What a post shows: the features that speak for kinds, animals and sexes.
//! Only rules, words and the answers to earlier questions are asked here, never a weight.

mod animal;
mod kind;
mod sex;

pub use animal::animal;
pub use kind::kind;
pub use sex::sex;

use crate::content::evidence::Trail;
use crate::content::evidence::clauses::Clauses;
use crate::content::lexicon::morph::{self, key};
use crate::content::tokens::{Reading, Token};

/// What the rules made of a post before anything was weighed.
#[derive(Debug)]
pub struct Seen<'r, 'a> {
    pub reading: &'r Reading<'a>,
    pub clauses: &'r Clauses,
    pub labels: &'r [u64],
}

impl Seen<'_, '_> {
    fn word(&self, index: usize) -> &str {
        self.reading.word(&self.reading.tokens[index])
    }

    /// What stands for the word in a feature, in letters.
    fn label(&self, index: usize) -> String {
        let token = &self.reading.tokens[index];
        class(token).map_or_else(|| morph::lemma(self.word(index)), |class| class.to_owned())
    }

    /// A feature of one word: `family:lemma`.
    fn say(&self, trail: &mut Trail<'_>, family: &str, index: usize) {
        trail.add(family, &[self.labels[index]], 1.0, Some((index, index)), || self.label(index));
    }

    /// A feature of a word in a certain state: `family:lemma+state`.
    fn say_as(&self, trail: &mut Trail<'_>, family: &str, index: usize, state: &str) {
        let name = || format!("{}+{state}", self.label(index));
        trail.add(family, &[self.labels[index], key(state)], 1.0, Some((index, index)), name);
    }
}

/// Words that stand for their class: which animal, a name, a person, a number.
fn class(token: &Token) -> Option<&'static str> {
    if token.is_number() {
        return Some("@number");
    }
    let entry = token.entry()?;
    if let Some(species) = entry.species.filter(|species| species.noun) {
        return Some(match species.animal {
            crate::content::Animal::Dog => "@dog",
            crate::content::Animal::Cat => "@cat",
            crate::content::Animal::Bird => "@bird",
            crate::content::Animal::Rodent => "@rodent",
            _ => "@beast",
        });
    }
    if token.capital() && entry.pet.is_some() {
        return Some("@name");
    }
    (token.capital() && entry.person.is_some()).then_some("@person")
}

/// The numbers of the labels of all tokens.
pub fn labels(reading: &Reading<'_>) -> Vec<u64> {
    reading.tokens.iter().map(|token| class(token).map_or(token.morph.lemma, key)).collect()
}
