//! Reads a post from end to end: normalise, cut, then every rule family in its order.

use jiff::civil::Date;

use super::shows::{self, Seen};
use super::{accounts, animal, city, district, kind, names, phones, place, sex, traits, when};
use crate::content::clean::clean;
use crate::content::evidence::clauses::{Clauses, clauses};
use crate::content::evidence::{
    Explained, Question, Settled, Table, Tally, Trail, UNSURE, Weights, decide, explain, strongest, weights,
};
use crate::content::normalise::normalise;
use crate::content::tokens::{Reading, TEXTS_MAX};
use crate::content::{Animal, Cleaned, Evidence, FACTS_VERSION, Fact, Facts, Kind, Post, Sex, TextRef};

/// Token ranges of telephone numbers.
pub type Spans = [(usize, usize)];

/// What a post says, and its words made comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    pub facts: Facts,
    pub cleaned: Cleaned,
    /// Tokens looked at by the rules: what the reading cost.
    pub steps: u64,
}

/// Everything that can be known from the post alone.
pub fn analyse(post: &Post) -> Analysis {
    analyse_with(post, weights())
}

/// The same with other weights: how they are judged on posts that they were not fitted on.
pub fn analyse_with(post: &Post, weights: &Weights) -> Analysis {
    let first = First::of(post);
    let kind = first.kind_sum(weights);
    let (told, nearly) = first.kind(&kind.tally);
    let second = first.with_kind(told);
    let animal = second.animal_sum(weights);
    let third = second.with_animal(Animal::ALL[animal.tally.best]);
    let sex = third.sex_sum(weights);
    third.facts(post, nearly, [kind, animal, sex])
}

/// An unknown sex that leads by less gives way to one that is stated.
const HESITATES: f32 = 1.5;

/// Words shown for an answer that no rule speaks for.
const WORDS_SHOWN: usize = 3;

/// What speaks for each answer of a question, and the points.
struct Sum<'t> {
    table: &'t Table,
    trail: Trail<'t>,
    tally: Tally,
}

impl<'t> Sum<'t> {
    fn of(question: Question, weights: &'t Weights, shown: impl Fn(Trail<'t>) -> Trail<'t>) -> Sum<'t> {
        let table = weights.of(question);
        let trail = shown(Trail::of_table(table));
        let tally = decide(question, table, &trail, |_| false);
        Sum { table, trail, tally }
    }

    /// The words of the rules, or else those that gave most to the sum.
    /// An answer with a small lead is told as a sum first, whatever rule speaks for it: it is a guess.
    fn spoken(&self, reading: &Reading<'_>, by_rules: Vec<Evidence>, rule: &'static str) -> Vec<Evidence> {
        if !by_rules.is_empty() && self.tally.margin >= UNSURE {
            return by_rules;
        }
        let words = strongest(self.table, &self.trail, &self.tally, WORDS_SHOWN);
        let sum = words.into_iter().map(|(first, last)| reading.evidence(rule, first, last));
        sum.chain(by_rules).collect()
    }
}

const SEXES: [Sex; 3] = [Sex::M, Sex::F, Sex::Unknown];

fn kind_named(answer: usize) -> Kind {
    let name = Question::Kind.answers()[answer];
    Kind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
}

/// What a post shows for a question, with the names of the features: what weights are fitted on.
/// The animal is asked when the kind is known, and the sex when both are: `weights` answer the questions before.
pub fn shown(post: &Post, question: Question, weights: &Weights) -> Trail<'static> {
    let first = First::of(post);
    if question == Question::Kind {
        return first.kind_trail(Trail::with_names());
    }
    let (kind, _) = first.kind(&first.kind_sum(weights).tally);
    let second = first.with_kind(kind);
    if question == Question::Animal {
        return second.animal_trail(Trail::with_names());
    }
    let animal = second.animal_sum(weights).tally.best;
    second.with_animal(Animal::ALL[animal]).sex_trail(Trail::with_names())
}

/// Why kind, animal and sex are what they are; the kind of a post without words is told by its form and has no sum.
pub fn explained(post: &Post) -> Vec<Explained> {
    let weights = weights();
    let first = First::of(post);
    let why = |question, trail: &Trail<'_>, tally: &Tally, settled: &Settled<'_>| {
        explain(question, weights.of(question), trail, tally, &first.reading, settled)
    };
    let sum = |question, trail: &Trail<'_>| decide(question, weights.of(question), trail, |_| false);
    let mut reasons = Vec::new();
    let trail = first.kind_trail(Trail::with_names());
    let tally = sum(Question::Kind, &trail);
    let (kind, nearly) = first.kind(&tally);
    let second = first.with_kind(kind);
    if first.rules.plain.is_none() {
        let settled = Settled {
            answer: kind.name(),
            instead: (kind != kind_named(tally.best))
                .then_some("no rule knows it, so it is something else and unsure"),
            unsure: nearly.is_some(),
            by_rules: &second.verdict.kind.evidence,
        };
        reasons.push(why(Question::Kind, &trail, &tally, &settled));
    }
    let trail = second.animal_trail(Trail::with_names());
    let tally = sum(Question::Animal, &trail);
    let animal = Animal::ALL[tally.best];
    let third = second.with_animal(animal);
    let settled = Settled {
        answer: animal.name(),
        instead: None,
        unsure: tally.margin < UNSURE,
        by_rules: &third.second.subject.animal.evidence,
    };
    reasons.push(why(Question::Animal, &trail, &tally, &settled));
    let trail = third.sex_trail(Trail::with_names());
    let tally = sum(Question::Sex, &trail);
    let sex = third.sex(&tally);
    let settled = Settled {
        answer: sex.name(),
        instead: (sex != SEXES[tally.best]).then_some(match animal {
            Animal::Several => "several animals have no one sex",
            _ => "the post states it, and the sum only hesitates",
        }),
        unsure: tally.margin < UNSURE,
        by_rules: &third.votes.evidence(&first.reading, sex),
    };
    reasons.push(why(Question::Sex, &trail, &tally, &settled));
    reasons
}

/// Whether the kind of a post is told by its form alone, so that no weight is asked.
pub fn is_plain(post: &Post) -> bool {
    First::of(post).rules.plain.is_some()
}

/// What the rules make of a post before anything is weighed.
struct First<'a> {
    reading: Reading<'a>,
    numbers: phones::Numbers,
    rules: kind::ByRules,
    cities: Vec<city::Mention>,
    districts: Vec<district::Mention>,
    clauses: Clauses,
    labels: Vec<u64>,
}

/// What follows when the kind is known.
struct Second<'f, 'a> {
    first: &'f First<'a>,
    verdict: kind::KindReading,
    subject: animal::Subject,
}

/// What follows when the animal is known too.
struct Third<'f, 'a> {
    second: Second<'f, 'a>,
    named: names::Named,
    votes: sex::Votes,
}

impl<'a> First<'a> {
    fn of(post: &'a Post) -> First<'a> {
        let (originals, normals) = texts(post);
        let reading = Reading::new(originals, normals);
        let numbers = phones::numbers(&reading);
        let rules = kind::by_rules(&reading, &numbers);
        let cities = city::mentions(&reading, post.home.city.as_deref());
        let districts = district::mentions(&reading, post.home.city.as_deref(), &cities);
        let (clauses, labels) = (clauses(&reading), shows::labels(&reading));
        First { reading, numbers, rules, cities, districts, clauses, labels }
    }

    fn seen(&self) -> Seen<'_, 'a> {
        Seen { reading: &self.reading, clauses: &self.clauses, labels: &self.labels }
    }

    /// The same feature counts once, and what it cost to find them is counted too.
    fn settled<'t>(&self, mut trail: Trail<'t>) -> Trail<'t> {
        trail.settle();
        self.reading.count(trail.shown());
        trail
    }

    fn kind_trail<'t>(&self, mut trail: Trail<'t>) -> Trail<'t> {
        shows::kind(&self.seen(), &self.rules, &self.numbers, &mut trail);
        self.settled(trail)
    }

    fn kind_sum<'t>(&self, weights: &'t Weights) -> Sum<'t> {
        Sum::of(Question::Kind, weights, |trail| self.kind_trail(trail))
    }

    /// The animals that are spoken of in a post of this kind.
    fn with_kind(&self, kind: Kind) -> Second<'_, 'a> {
        let verdict = kind::with_evidence(&self.reading, &self.rules, kind);
        let subject = animal::subject(&self.reading, kind, &verdict.event);
        Second { first: self, verdict, subject }
    }

    /// The kind, and the one that is nearly as likely. News are not told by words alone: a post that no rule knows is
    /// something else, and unsure.
    fn kind(&self, tally: &Tally) -> (Kind, Option<Kind>) {
        if let Some(plain) = self.rules.plain {
            return (plain, None);
        }
        let (best, second) = (kind_named(tally.best), kind_named(tally.second));
        if best == Kind::News && self.rules.hits().next().is_none() {
            return (Kind::Other, Some(best));
        }
        (best, (tally.margin < UNSURE).then_some(second))
    }
}

impl<'f, 'a> Second<'f, 'a> {
    fn kind(&self) -> Kind {
        self.verdict.kind.value
    }

    fn animal_trail<'t>(&self, mut trail: Trail<'t>) -> Trail<'t> {
        shows::animal(&self.first.seen(), self.kind(), &self.subject, &mut trail);
        self.first.settled(trail)
    }

    fn animal_sum<'t>(&self, weights: &'t Weights) -> Sum<'t> {
        Sum::of(Question::Animal, weights, |trail| self.animal_trail(trail))
    }

    /// Names, and what speaks for a sex.
    fn with_animal(self, animal: Animal) -> Third<'f, 'a> {
        let First { reading, cities, districts, numbers, .. } = self.first;
        let subject = self.subject.about(reading, animal);
        let kind = self.verdict.kind.value;
        let named =
            names::names(reading, kind, subject.noun, names::Towns { cities, districts }, &numbers.spans);
        let votes = sex::votes(reading, kind, animal, subject.noun, &named.genders);
        Third { second: Second { subject, ..self }, named, votes }
    }
}

impl Third<'_, '_> {
    fn animal(&self) -> Animal {
        self.second.subject.animal.value
    }

    fn sex_trail<'t>(&self, mut trail: Trail<'t>) -> Trail<'t> {
        let first = self.second.first;
        shows::sex(&first.seen(), self.second.kind(), self.animal(), &self.votes, &mut trail);
        first.settled(trail)
    }

    fn sex_sum<'t>(&self, weights: &'t Weights) -> Sum<'t> {
        Sum::of(Question::Sex, weights, |trail| self.sex_trail(trail))
    }

    /// The sex that the sum says, or the one that the post states while the sum only hesitates.
    fn sex(&self, tally: &Tally) -> Sex {
        if self.animal() == Animal::Several {
            return Sex::Unknown;
        }
        let hesitates = SEXES[tally.best] == Sex::Unknown && tally.margin < HESITATES;
        let of_one = !matches!(self.second.kind(), Kind::Ad | Kind::News | Kind::Other);
        self.votes.stated_or_named().filter(|_| hesitates && of_one).unwrap_or(SEXES[tally.best])
    }

    fn facts(self, post: &Post, nearly: Option<Kind>, sums: [Sum<'_>; 3]) -> Analysis {
        let sex = self.sex(&sums[2].tally);
        let Third { second: Second { first, mut verdict, mut subject }, named, votes } = self;
        let First { reading, numbers, cities, districts, .. } = first;
        let (kind, animal) = (verdict.kind.value, subject.animal.value);
        verdict.kind.evidence = sums[0].spoken(reading, verdict.kind.evidence, "kind.sum");
        if animal != Animal::Unknown {
            subject.animal.evidence = sums[1].spoken(reading, subject.animal.evidence, "animal.sum");
        }
        let evidence = match sex {
            Sex::Unknown => Vec::new(),
            sex => sums[2].spoken(reading, votes.evidence(reading, sex), "sex.sum"),
        };
        let sex = Fact { value: sex, evidence };
        let known = place::Known { cities, districts, taken: &named.taken, phones: &numbers.spans };
        let places = place::places(reading, kind, &verdict.event, known);
        let cleaned = clean(reading, &numbers.spans);
        let facts = Facts {
            version: FACTS_VERSION,
            breed: traits::breed(reading, subject.noun, animal),
            age: traits::age(reading),
            colours: traits::colours(reading, kind),
            city: city::city(reading, cities),
            place: places.best,
            other_places: places.others,
            when: when::when(reading, kind, &verdict.event, &dates(post)),
            vk_accounts: accounts::accounts(reading),
            reward: traits::reward(reading),
            flags: traits::flags(reading, animal),
            home_city: post.home.city.clone(),
            contact_names: named.contacts,
            pet_names: named.pets,
            phones: numbers.phones.clone(),
            kind: verdict.kind,
            unsure: nearly.is_some(),
            nearly,
            animal: subject.animal,
            sex,
        };
        Analysis { facts, cleaned, steps: reading.steps() }
    }
}

fn texts(post: &Post) -> (Vec<&str>, Vec<crate::content::normalise::Normal>) {
    let own = std::iter::once((TextRef::Own, post.text.as_str()));
    let copies =
        post.copy_history.iter().enumerate().map(|(index, copy)| {
            (TextRef::Copy(u16::try_from(index).unwrap_or(u16::MAX)), copy.text.as_str())
        });
    own.chain(copies).take(TEXTS_MAX).map(|(source, text)| (text, normalise(source, text))).unzip()
}

/// Relative days count from the text they stand in.
fn dates(post: &Post) -> Vec<Option<Date>> {
    let offset = post.home.utc_offset_minutes;
    let copies = post.copy_history.iter().map(|copy| if copy.date > 0 { copy.date } else { post.date });
    std::iter::once(post.date)
        .chain(copies)
        .take(TEXTS_MAX)
        .map(|date| when::local_date(date, offset))
        .collect()
}
