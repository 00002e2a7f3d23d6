//! Clauses, what holds in them, and who does what: how a word is meant before anybody asks what it means.
//!
//! A clause ends at a comma, a dash or a word that opens another. A word in it is denied, supposed, asked, quoted or
//! plain, or stands in a heading, an old post or the footer of the group. A verb has somebody who does it and somebody it is done to, told by case and agreement.

use std::sync::LazyLock;

use crate::content::lexicon::morph::{Pos, bit};
use crate::content::lexicon::{Group, lexicon};
use crate::content::tokens::{Gap, Part, Reading, Token};

/// How a word is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Plain,
    Denied,
    Supposed,
    Asked,
    Quoted,
    Heading,
    Old,
    Footer,
    Tag,
}

impl Scope {
    pub fn name(self) -> &'static str {
        match self {
            Scope::Plain => "says",
            Scope::Denied => "denies",
            Scope::Supposed => "supposes",
            Scope::Asked => "asks",
            Scope::Quoted => "quotes",
            Scope::Heading => "heads",
            Scope::Old => "told",
            Scope::Footer => "footer",
            Scope::Tag => "tags",
        }
    }
}

/// Who stands beside a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Nobody,
    Animal,
    /// Another animal than the one that the post is about.
    Other,
    Pet,
    Owner,
    Person,
    Author,
    Thing,
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Who::Nobody => "nobody",
            Who::Animal => "animal",
            Who::Other => "other-animal",
            Who::Pet => "pet",
            Who::Owner => "owner",
            Who::Person => "person",
            Who::Author => "author",
            Who::Thing => "thing",
        }
    }
}

#[derive(Debug)]
pub struct Clauses {
    /// The clause of every token.
    pub of: Vec<u32>,
    pub scope: Vec<Scope>,
}

/// A denial reaches this many words.
const DENIED_WORDS: u32 = 3;
/// A verb looks this far for its subject and its object.
const REACH: usize = 7;

pub fn clauses(reading: &Reading<'_>) -> Clauses {
    let count = reading.tokens.len();
    reading.count(count);
    let mut out = Clauses { of: Vec::with_capacity(count), scope: Vec::with_capacity(count) };
    let (mut clause, mut sentence, mut denied, mut supposed) = (0, u32::MAX, 0_u32, false);
    for (index, token) in reading.tokens.iter().enumerate() {
        let (word, part) = (reading.word(token), reading.part(token));
        if token.sentence != sentence {
            (sentence, denied, supposed) = (token.sentence, 0, false);
            clause += 1;
        } else if token.gap >= Gap::Comma || opens_clause(word) {
            denied = 0;
            clause += 1;
        }
        supposed |= matches!(word, "если" | "вдруг" | "чтобы" | "чтоб" | "кабы" | "ежели");
        out.of.push(clause);
        out.scope.push(match () {
            () if token.tag => Scope::Tag,
            () if part == Part::Footer => Scope::Footer,
            () if part == Part::Old => Scope::Old,
            () if token.quoted => Scope::Quoted,
            () if reading.asks(index) => Scope::Asked,
            () if denied > 0 => Scope::Denied,
            () if supposed => Scope::Supposed,
            () if part == Part::Heading => Scope::Heading,
            () => Scope::Plain,
        });
        denied = if matches!(word, "не" | "нет" | "ни" | "без") {
            DENIED_WORDS
        } else {
            denied.saturating_sub(1)
        };
    }
    out
}

fn opens_clause(word: &str) -> bool {
    matches!(
        word,
        "а" | "но"
            | "если"
            | "когда"
            | "чтобы"
            | "пока"
            | "хотя"
            | "что"
            | "который"
            | "которая"
            | "которого"
            | "которую"
    )
}

/// Groups that tell who somebody is.
#[derive(Debug, Clone, Copy)]
pub struct People<'n> {
    owner: Option<Group>,
    /// Tokens that are the pet's name.
    called: &'n [usize],
}

impl<'n> People<'n> {
    pub fn new(called: &'n [usize]) -> People<'n> {
        static OWNER: LazyLock<Option<Group>> = LazyLock::new(|| lexicon().group("owner"));
        People { owner: *OWNER, called }
    }

    fn who(self, token: &Token, index: usize, word: &str) -> Who {
        if self.called.contains(&index) {
            return Who::Pet;
        }
        let entry = token.entry();
        if self.owner.is_some_and(|group| token.is(group)) {
            return Who::Owner;
        }
        if entry.is_some_and(|entry| entry.species.is_some_and(|species| species.noun)) {
            return Who::Animal;
        }
        if token.capital() && entry.is_some_and(|entry| entry.pet.is_some()) {
            return Who::Pet;
        }
        if token.capital() && entry.is_some_and(|entry| entry.person.is_some()) {
            return Who::Person;
        }
        match word {
            "я" | "мы" | "меня" | "нас" | "мне" | "нам" => Who::Author,
            "он" | "она" | "его" | "ее" | "её" | "малыш" | "малышка" | "мальчик" | "девочка" => {
                Who::Animal
            }
            "кто" | "кто-то" | "люди" | "сосед" | "соседка" | "соседи" | "мужчина" | "женщина"
            | "девушка" | "парень" | "волонтер" | "волонтеры" | "дети" | "ребенок" | "семья" => {
                Who::Person
            }
            _ if token.morph.is(bit::ANIMATE) => Who::Person,
            _ => Who::Thing,
        }
    }
}

/// Who does what the verb at `index` says, and to whom.
pub fn roles(reading: &Reading<'_>, clauses: &Clauses, people: People<'_>, index: usize) -> (Who, Who) {
    let verb = reading.tokens[index].morph;
    let clause = clauses.of[index];
    reading.count(2 * REACH + people.called.len());
    let (mut subject, mut object) = (Who::Nobody, Who::Nobody);
    let meant = |who: Who, at: usize| {
        if who == Who::Animal && is_another(reading, clauses, at) { Who::Other } else { who }
    };
    for step in 1..=REACH {
        let around = [index.checked_sub(step), Some(index + step)];
        for at in around.into_iter().flatten() {
            let Some(token) = reading.tokens.get(at).filter(|_| clauses.of[at] == clause) else { continue };
            if !matches!(token.morph.pos, Pos::Noun | Pos::Name | Pos::Pronoun)
                && token.entry().is_none_or(|entry| entry.species.is_none())
                && !people.called.contains(&at)
            {
                continue;
            }
            let word = reading.word(token);
            let who = people.who(token, at, word);
            let agrees = agrees(verb.bits, token.morph.bits);
            let stands = token.morph.is(bit::NOM) || who == Who::Pet && !token.morph.is(bit::KNOWN);
            if subject == Who::Nobody && stands && agrees {
                subject = meant(who, at);
            } else if object == Who::Nobody && token.morph.is(bit::ACC) {
                object = meant(who, at);
            }
        }
    }
    if subject == Who::Nobody && verb.is(bit::FIRST) {
        subject = Who::Author;
    }
    (subject, object)
}

/// `чужой кот`, `похожую собаку`, `ещё один пёс`: not the animal that the post is about.
fn is_another(reading: &Reading<'_>, clauses: &Clauses, noun: usize) -> bool {
    let own = reading.tokens[noun].morph.bits;
    let cases = bit::NOM | bit::GEN | bit::DAT | bit::ACC | bit::INS | bit::LOC;
    (1..=2)
        .filter_map(|step| noun.checked_sub(step))
        .take_while(|at| clauses.of[*at] == clauses.of[noun])
        .any(|at| {
            let token = &reading.tokens[at];
            let word = reading.word(token);
            let one_more = word.starts_with("одн") || word == "один";
            let another = ["чуж", "соседск", "похож", "другой", "друга", "друго", "другу", "други"];
            let another = another.iter().any(|stem| word.starts_with(stem))
                || one_more
                    && at.checked_sub(1).is_some_and(|before| reading.word(&reading.tokens[before]) == "еще");
            another && token.morph.pos != Pos::Noun && token.morph.bits & own & cases != 0
        })
}

fn agrees(verb: u32, noun: u32) -> bool {
    let past = verb & (bit::PAST | bit::PARTICIPLE) != 0;
    if verb & bit::PLUR != 0 && verb & bit::SING == 0 {
        return noun & bit::PLUR != 0;
    }
    let genders = bit::MASC | bit::FEM | bit::NEUT;
    !past || verb & genders == 0 || noun & genders == 0 || verb & noun & genders != 0
}
