//! Reads a post from end to end: normalise, cut, then every rule family in its order.

use jiff::civil::Date;

use super::shows::{self, Seen};
use super::{accounts, animal, city, kind, names, phones, place, sex, traits, when};
use crate::content::clean::clean;
use crate::content::evidence::clauses::{Clauses, clauses};
use crate::content::evidence::{
    Explained, Question, Table, Tally, Trail, UNSURE, Weights, decide, explain, strongest, weights,
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
    let sums = Question::ALL.map(|question| {
        let table = weights.of(question);
        let trail = first.trail(question, Trail::of_table(table));
        let tally = decide(question, table, &trail, |_| false);
        Sum { table, trail, tally }
    });
    let [kind, animal, sex] = sums.each_ref().map(|sum| sum.tally);
    let (told, nearly) = first.kind(&kind);
    let judged = Judged {
        nearly,
        kind: told,
        animal: Animal::ALL[animal.best],
        sex: match Animal::ALL[animal.best] {
            Animal::Several => Sex::Unknown,
            _ => first.sex(told, &sex),
        },
        sums,
    };
    first.facts(post, judged)
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

impl Sum<'_> {
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

/// What the sums say.
struct Judged<'t> {
    kind: Kind,
    nearly: Option<Kind>,
    animal: Animal,
    sex: Sex,
    /// For the words of answers that no rule speaks for.
    sums: [Sum<'t>; 3],
}

const SEXES: [Sex; 3] = [Sex::M, Sex::F, Sex::Unknown];

fn kind_named(answer: usize) -> Kind {
    let name = Question::Kind.answers()[answer];
    Kind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
}

/// What a post shows for a question, with the names of the features: what weights are fitted on.
pub fn shown(post: &Post, question: Question) -> Trail<'static> {
    First::of(post).trail(question, Trail::with_names())
}

/// Why kind, animal and sex are what they are; the kind of a post without words is told by its form and has no sum.
pub fn explained(post: &Post) -> Vec<Explained> {
    let first = First::of(post);
    let asked = Question::ALL
        .into_iter()
        .filter(|question| *question != Question::Kind || first.rules.plain.is_none());
    asked
        .map(|question| {
            let table = weights().of(question);
            let trail = first.trail(question, Trail::with_names());
            let verdict = decide(question, table, &trail, |_| false);
            explain(question, table, &trail, &verdict, &first.reading)
        })
        .collect()
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
    subject: animal::Subject,
    cities: Vec<city::Mention>,
    named: names::Named,
    votes: sex::Votes,
    clauses: Clauses,
    labels: Vec<u64>,
}

impl<'a> First<'a> {
    fn of(post: &'a Post) -> First<'a> {
        let (originals, normals) = texts(post);
        let reading = Reading::new(originals, normals);
        let numbers = phones::numbers(&reading);
        let rules = kind::by_rules(&reading, &numbers);
        let event = kind::with_evidence(&reading, &rules, rules.kind).event;
        let subject = animal::subject(&reading, rules.kind, &event);
        let cities = city::mentions(&reading, post.home.city.as_deref());
        let named = names::names(&reading, rules.kind, subject.noun, &cities, &numbers.spans);
        let votes = sex::votes(&reading, rules.kind, subject.animal.value, subject.noun, &named.genders);
        let (clauses, labels) = (clauses(&reading), shows::labels(&reading));
        First { reading, numbers, rules, subject, cities, named, votes, clauses, labels }
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

    /// The sex that the sum says, or the one that the post states while the sum only hesitates.
    fn sex(&self, kind: Kind, tally: &Tally) -> Sex {
        let hesitates = SEXES[tally.best] == Sex::Unknown && tally.margin < HESITATES;
        let of_one = !matches!(kind, Kind::Ad | Kind::News | Kind::Other);
        self.votes.stated_or_named().filter(|_| hesitates && of_one).unwrap_or(SEXES[tally.best])
    }

    fn trail<'t>(&self, question: Question, mut trail: Trail<'t>) -> Trail<'t> {
        let seen = Seen { reading: &self.reading, clauses: &self.clauses, labels: &self.labels };
        let animal = self.subject.animal.value;
        match question {
            Question::Kind => shows::kind(&seen, &self.rules, &self.numbers, &mut trail),
            Question::Animal => shows::animal(&seen, self.rules.kind, &self.subject, &mut trail),
            Question::Sex => shows::sex(&seen, self.rules.kind, animal, &self.votes, &mut trail),
        }
        trail.settle();
        self.reading.count(trail.shown());
        trail
    }

    fn facts(self, post: &Post, judged: Judged<'_>) -> Analysis {
        let Judged { kind, nearly, animal, sex, sums } = judged;
        let First { reading, numbers, rules, subject, cities, named, votes, .. } = self;
        let mut verdict = kind::with_evidence(&reading, &rules, kind);
        let noun = subject.noun;
        let mut subject = subject.about(&reading, animal);
        verdict.kind.evidence = sums[0].spoken(&reading, verdict.kind.evidence, "kind.sum");
        if animal != Animal::Unknown {
            subject.animal.evidence = sums[1].spoken(&reading, subject.animal.evidence, "animal.sum");
        }
        let evidence = match sex {
            Sex::Unknown => Vec::new(),
            sex => sums[2].spoken(&reading, votes.evidence(&reading, sex), "sex.sum"),
        };
        let sex = Fact { value: sex, evidence };
        let named = if kind == rules.kind && subject.noun == noun {
            named
        } else {
            names::names(&reading, kind, subject.noun, &cities, &numbers.spans)
        };
        let places = place::places(&reading, kind, &verdict.event, &cities, &named.taken, &numbers.spans);
        let cleaned = clean(&reading, &numbers.spans);
        let facts = Facts {
            version: FACTS_VERSION,
            breed: traits::breed(&reading, subject.noun, animal),
            age: traits::age(&reading),
            colours: traits::colours(&reading, kind),
            city: city::city(&reading, &cities),
            place: places.best,
            other_places: places.others,
            when: when::when(&reading, kind, &verdict.event, &dates(post)),
            vk_accounts: accounts::accounts(&reading),
            reward: traits::reward(&reading),
            flags: traits::flags(&reading, animal),
            home_city: post.home.city.clone(),
            contact_names: named.contacts,
            pet_names: named.pets,
            phones: numbers.phones,
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
