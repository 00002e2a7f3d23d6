//! What speaks for a sex: the rules' votes, and what agrees with whom.

use super::Seen;
use crate::content::evidence::Trail;
use crate::content::evidence::clauses::{People, Who, roles};
use crate::content::facts::sex::Votes;
use crate::content::lexicon::Species;
use crate::content::lexicon::morph::{Pos, bit, key};
use crate::content::tokens::{Token, TokenKind};
use crate::content::{Animal, Kind, Sex};

pub fn sex(seen: &Seen<'_, '_>, kind: Kind, animal: Animal, votes: &Votes, trail: &mut Trail<'_>) {
    voted(kind, animal, votes, trail);
    let called: Vec<usize> = votes.names.iter().map(|name| name.index).collect();
    let people = People::new(&called);
    let mut counts = Counts::default();
    for (index, token) in seen.reading.tokens.iter().enumerate() {
        if token.kind != TokenKind::Word || token.mention || token.tag || seen.reading.in_footer(token) {
            continue;
        }
        if let Some(species) = token.entry().and_then(|entry| entry.species).filter(|species| species.noun) {
            noun(seen, index, trail);
            counts.noun(species);
        }
        if token.morph.pos == Pos::Numeral {
            seen.say(trail, "numeral", index);
        }
        let Some(gender) = gender(token) else { continue };
        match token.morph.pos {
            Pos::Verb if token.morph.is(bit::PAST | bit::PARTICIPLE) => {
                counts.add("verb", gender);
                let (subject, _) = roles(seen.reading, seen.clauses, people, index);
                if subject != Who::Thing {
                    seen.say_as(trail, "verb", index, gender);
                }
                trail.add("verb-of", &[key(subject.name()), key(gender)], 1.0, Some((index, index)), || {
                    format!("{}+{gender}", subject.name())
                });
                counts.verb(token, subject, gender);
            }
            Pos::Adjective if of_thing(seen, index) => {}
            Pos::Adjective => {
                counts.add("adjective", gender);
                seen.say_as(trail, "adjective", index, gender);
                if free(seen, index) {
                    counts.add("free-adjective", gender);
                }
            }
            Pos::Pronoun => {
                let word = seen.word(index);
                trail.add("pronoun", &[key(word)], 1.0, Some((index, index)), || word.to_owned());
                counts.pronoun(word);
            }
            // The gender of a thing says nothing of an animal.
            Pos::Noun if is_being(token) => seen.say_as(trail, "noun", index, gender),
            Pos::Name => counts.add("name", gender),
            _ => {}
        }
    }
    if crowd(seen) {
        let flag = |set: bool| if set { "yes" } else { "no" };
        let both = format!("{}-{}", flag(votes.explicit[0]), flag(votes.explicit[1]));
        trail.shape_of("crowd", &both);
        trail.shape("counted", 1.0);
    }
    counts.tell(trail);
}

/// Several animals are counted: `двое`, `четыре штуки`, `6 котят`.
fn crowd(seen: &Seen<'_, '_>) -> bool {
    let tokens = &seen.reading.tokens;
    let several = |token: &Token| token.morph.is(bit::PLUR) && !token.morph.is(bit::SING);
    let counted = |token: &Token, word: &str| {
        matches!(word, "шт" | "штук" | "штуки")
            || several(token)
                && token.entry().is_some_and(|entry| entry.species.is_some_and(|kind| kind.noun))
    };
    tokens.iter().enumerate().any(|(index, token)| {
        let word = seen.reading.word(token);
        if matches!(
            word,
            "двое"
                | "трое"
                | "четверо"
                | "пятеро"
                | "шестеро"
                | "семеро"
                | "оба"
                | "обе"
        ) {
            return true;
        }
        let number = token.is_number() && !matches!(seen.reading.text(token), "1" | "0")
            || token
                .entry()
                .is_some_and(|entry| entry.number.is_some_and(|number| (2..20).contains(&number)));
        number
            && (1..=2).any(|step| {
                let next = tokens.get(index + step).filter(|next| next.sentence == token.sentence);
                next.is_some_and(|next| counted(next, seen.reading.word(next)))
            })
    })
}

/// What is said in so many words counts more than what agrees by chance.
const STATED: f32 = 2.0;

fn voted(kind: Kind, animal: Animal, votes: &Votes, trail: &mut Trail<'_>) {
    trail.shape("male", (votes.male / 6.0).min(2.0));
    trail.shape("female", (votes.female / 6.0).min(2.0));
    trail.shape("difference", ((votes.male - votes.female) / 6.0).clamp(-1.5, 1.5));
    let flag = |set: bool| if set { "yes" } else { "no" };
    let both = format!("{}-{}", flag(votes.explicit[0]), flag(votes.explicit[1]));
    trail.shape_of("explicit", &both);
    let litter = format!("{}-{}", flag(votes.litter[0]), flag(votes.litter[1]));
    trail.shape_of("litter", &litter);
    if let Some(stated) = votes.stated() {
        let name = || stated.name().to_owned();
        trail.add("stated", &[key(stated.name())], STATED, None, name);
    }
    trail.shape_of("explicit-of-kind", &format!("{both}-{}", kind.name()));
    let rules = votes.rules().name();
    trail.shape_of("rules", rules);
    trail.shape_of("kind", kind.name());
    trail.shape_of("animal", animal.name());
    trail.shape_of("rules-of-kind", &format!("{rules}-{}", kind.name()));
    trail.shape_of("rules-of-animal", &format!("{rules}-{}", animal.name()));
    for name in &votes.names {
        let known = if name.known { "known" } else { "guessed" };
        trail.shape_of("named", &format!("{}-{known}", name.sex.name()));
    }
    let names = ["none", "one", "two", "many"][votes.names.len().min(3)];
    trail.shape_of("names", names);
    if votes.names.iter().any(|name| name.sex == Sex::M) && votes.names.iter().any(|name| name.sex == Sex::F)
    {
        trail.shape("mixed-names", 1.0);
    }
}

/// Masculine, feminine or many; forms that could be either say nothing.
fn gender(token: &Token) -> Option<&'static str> {
    let bits = token.morph.bits;
    if bits & bit::PLUR != 0 && bits & bit::SING == 0 {
        return Some("many");
    }
    match (bits & bit::MASC != 0, bits & bit::FEM != 0) {
        (true, false) => Some("m"),
        (false, true) => Some("f"),
        _ => None,
    }
}

fn noun(seen: &Seen<'_, '_>, index: usize, trail: &mut Trail<'_>) {
    let token = &seen.reading.tokens[index];
    let Some(species) = token.entry().and_then(|entry| entry.species) else { return };
    let many = token.morph.is(bit::PLUR) && !token.morph.is(bit::SING);
    let number = if many { "many" } else { "one" };
    let young = if species.young { "young" } else { "grown" };
    let state = format!("{}-{}-{young}-{number}", species.sex.name(), species.gender.name());
    trail.add("animal-noun", &[key(&state)], 1.0, Some((index, index)), || state.clone());
    if seen.reading.opens(index) {
        trail.add("opening-noun", &[key(&state)], 1.0, Some((index, index)), || state.clone());
    }
    let lemma = || format!("{}+{number}", crate::content::lexicon::morph::lemma(seen.word(index)));
    trail.add("animal-word", &[token.morph.lemma, key(number)], 1.0, Some((index, index)), lemma);
}

/// An animal, a person or a name, not a thing.
fn is_being(token: &Token) -> bool {
    let entry = token.entry();
    token.morph.is(bit::ANIMATE)
        || entry.is_some_and(|entry| entry.species.is_some_and(|species| species.noun))
        || token.capital() && entry.is_some_and(|entry| entry.pet.is_some() || entry.person.is_some())
}

/// `красный ошейник`, `грудь белая`: the adjective agrees with a thing beside it.
fn of_thing(seen: &Seen<'_, '_>, index: usize) -> bool {
    let tokens = &seen.reading.tokens;
    let own = &tokens[index].morph;
    let agrees = |noun: &Token| {
        let both = own.bits & noun.morph.bits;
        let cases = bit::NOM | bit::GEN | bit::DAT | bit::ACC | bit::INS | bit::LOC;
        both & cases != 0 && both & (bit::MASC | bit::FEM | bit::NEUT | bit::PLUR) != 0
    };
    let thing = |noun: &Token| noun.morph.pos == Pos::Noun && !is_being(noun) && agrees(noun);
    let clause = seen.clauses.of[index];
    let beside = |at: usize| tokens.get(at).filter(|_| seen.clauses.of[at] == clause);
    // Other adjectives may stand between: `красный кожаный ошейник`.
    let next = (index + 1..=index + 2).find_map(|at| {
        let token = beside(at)?;
        (token.morph.pos != Pos::Adjective).then_some(token)
    });
    next.is_some_and(thing) || index.checked_sub(1).and_then(beside).is_some_and(thing)
}

/// No noun beside it that it could belong to.
fn free(seen: &Seen<'_, '_>, index: usize) -> bool {
    let clause = seen.clauses.of[index];
    let beside = |at: Option<usize>| {
        at.and_then(|at| seen.reading.tokens.get(at).filter(|_| seen.clauses.of[at] == clause))
            .is_some_and(|token| token.morph.pos == Pos::Noun)
    };
    !beside(Some(index + 1)) && !beside(index.checked_sub(1))
}

/// What agrees with somebody who is not named beside it, and the nouns that may force it.
#[derive(Default)]
struct Counts {
    seen: Vec<(&'static str, &'static str, u32)>,
    /// Nouns that tell the sex, that force the masculine, that force the feminine.
    nouns: [bool; 3],
}

/// Families of agreement that are told together with the nouns of the post.
const AGREEING: [&str; 7] =
    ["verb", "free-verb", "own-verb", "adjective", "free-adjective", "pronoun", "alone"];

impl Counts {
    fn add(&mut self, what: &'static str, gender: &'static str) {
        match self.seen.iter_mut().find(|known| (known.0, known.1) == (what, gender)) {
            Some(known) => known.2 += 1,
            None => self.seen.push((what, gender, 1)),
        }
    }

    fn has(&self, what: &str, gender: &str) -> bool {
        self.seen.iter().any(|known| (known.0, known.1) == (what, gender))
    }

    fn noun(&mut self, species: Species) {
        let slot = match (species.sex, species.gender) {
            (Sex::Unknown, Sex::M) => 1,
            (Sex::Unknown, Sex::F) => 2,
            (Sex::Unknown, Sex::Unknown) => return,
            _ => 0,
        };
        self.nouns[slot] = true;
    }

    /// Who writes `забрала` means herself; who writes `сидела` means the animal.
    fn verb(&mut self, token: &Token, subject: Who, gender: &'static str) {
        match subject {
            Who::Nobody if token.morph.is(bit::INTRANSITIVE) => self.add("own-verb", gender),
            Who::Pet => self.add("own-verb", gender),
            Who::Author => self.add("author", gender),
            _ => {}
        }
        if matches!(subject, Who::Nobody | Who::Pet) {
            self.add("free-verb", gender);
        }
    }

    fn pronoun(&mut self, word: &str) {
        match word {
            "он" | "его" | "ему" | "него" | "нему" | "ним" | "нем" => {
                self.add("pronoun", "m");
            }
            "она" | "ее" | "ей" | "нее" | "ней" | "ею" => self.add("pronoun", "f"),
            "сам" | "один" => self.add("alone", "m"),
            "сама" | "одна" => self.add("alone", "f"),
            _ => {}
        }
    }

    fn tell(&self, trail: &mut Trail<'_>) {
        for (what, gender, count) in &self.seen {
            let value = (*count).min(3) as f32 / 3.0;
            trail.add("count", &[key(what), key(gender)], value, None, || format!("{what}+{gender}"));
            trail.add("has", &[key(what), key(gender)], 1.0, None, || format!("{what}+{gender}"));
        }
        let nouns = match self.nouns {
            [true, ..] => "sexed",
            [_, true, true] => "both",
            [_, true, _] => "masculine",
            [_, _, true] => "feminine",
            _ => "none",
        };
        for what in AGREEING {
            for (gender, other) in [("m", "f"), ("f", "m")] {
                if self.has(what, gender) && !self.has(what, other) {
                    trail.add("only", &[key(what), key(gender)], 1.0, None, || format!("{what}+{gender}"));
                    trail.add("beside", &[key(nouns), key(what), key(gender)], 1.0, None, || {
                        format!("{nouns}+{what}+{gender}")
                    });
                }
            }
        }
    }
}
