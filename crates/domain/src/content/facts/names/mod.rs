//! Names of pets and of the people to call.
//! A pet's name needs a reason: a naming word, a noun before it, or a sentence that is about it.
//! Streets, towns and people are not pets; with doubt there is no name.

mod forms;
mod people;
mod reasons;

use std::sync::LazyLock;

use forms::{fold, guess_gender, straighten, title_case};

use super::read::Spans;
use super::sex::NameGender;
use super::{city, district};
use crate::content::lexicon::morph::{self, Pos, bit};
use crate::content::lexicon::{Group, Species, case, lexicon};
use crate::content::tokens::{Gap, Letters, Reading, Token, within};
use crate::content::{Fact, Kind, Sex};

/// Enough reason for a name, and for one given to somebody else's animal.
const ENOUGH: f32 = 4.0;
const ENOUGH_FOUND: f32 = 6.0;
/// A second name needs a reason of its own.
const SECOND: f32 = 5.0;
const NAMES_MAX: usize = 12;
/// Candidates compared with each other: the strongest ones.
const CANDIDATES_MAX: usize = 100;
const CONTACTS_MAX: usize = 16;
/// A town with this score is the source's own or has a marker.
const SURE_CITY: i32 = 6;

#[derive(Debug, Default)]
pub(super) struct Named {
    pub pets: Vec<Fact<String>>,
    pub contacts: Vec<Fact<String>>,
    pub genders: Vec<NameGender>,
    /// Tokens that are names of pets or people, which no place may take.
    pub taken: Vec<usize>,
}

/// Towns and districts that are no names of pets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Towns<'r> {
    pub cities: &'r [city::Mention],
    pub districts: &'r [district::Mention],
}

#[derive(Debug, Clone)]
struct Candidate {
    first: usize,
    last: usize,
    weight: f32,
    rule: &'static str,
    name: String,
    /// The name in lower case, for comparison.
    key: String,
    sex: Sex,
    known: bool,
}

struct Groups {
    named: Option<Group>,
    called: Option<Group>,
    answers: Option<Group>,
    by_name: Option<Group>,
    our: Option<Group>,
    meet: Option<Group>,
    owner: Option<Group>,
    organisation: Option<Group>,
    male: Option<Group>,
    female: Option<Group>,
    agreeing: Option<Group>,
    streets: [Option<Group>; 3],
    verbs: [Option<Group>; 9],
}

pub(super) fn names(
    reading: &Reading<'_>,
    kind: Kind,
    noun: Option<(usize, Species)>,
    towns: Towns<'_>,
    phones: &Spans,
) -> Named {
    static GROUPS: LazyLock<Groups> = LazyLock::new(groups);
    let Towns { cities, districts } = towns;
    let finder = Finder { reading, kind, noun, cities, districts, groups: &GROUPS };
    let people: Vec<usize> = finder.people(phones);
    let mut named = Named { contacts: finder.contacts(&people), ..Named::default() };
    let mut candidates = Vec::new();
    for index in 0..reading.tokens.len() {
        let token = &reading.tokens[index];
        if token.tag || token.mention || reading.in_footer(token) {
            continue;
        }
        finder.at(index, &people, &mut candidates);
    }
    finder.choose(candidates, &mut named);
    named.taken.extend(people);
    named.taken.sort_unstable();
    named.taken.dedup();
    named
}

fn groups() -> Groups {
    let group = |name: &str| lexicon().group(name);
    Groups {
        named: group("named"),
        called: group("called"),
        answers: group("answers"),
        by_name: group("by_name"),
        our: group("our"),
        meet: group("meet"),
        owner: group("owner"),
        organisation: group("organisation"),
        male: group("male"),
        female: group("female"),
        agreeing: group("agreeing"),
        streets: ["street", "avenue", "district"].map(group),
        verbs: [
            "lost_v",
            "escape_v",
            "leave_v",
            "returned_v",
            "adopted_p",
            "went_home",
            "stray_v",
            "keep_v",
            "see_v",
        ]
        .map(group),
    }
}

/// A word of the dictionary in a form that cannot be its first one: `Боцмана`, `Сардельку`.
fn is_declined(token: &Token) -> bool {
    token.morph.is(bit::KNOWN)
        && matches!(token.morph.pos, Pos::Noun | Pos::Name)
        && !token.morph.is(bit::NOM)
        && token.morph.is(bit::SING)
}

fn is(token: &Token, group: Option<Group>) -> bool {
    group.is_some_and(|group| token.is(group))
}

struct Finder<'r, 'a> {
    reading: &'r Reading<'a>,
    kind: Kind,
    noun: Option<(usize, Species)>,
    cities: &'r [city::Mention],
    districts: &'r [district::Mention],
    groups: &'static Groups,
}

impl Finder<'_, '_> {
    fn token(&self, index: usize) -> Option<&Token> {
        self.reading.tokens.get(index)
    }

    fn word(&self, index: usize) -> &str {
        self.token(index).map_or("", |token| self.reading.word(token))
    }

    /// The token before, in the same sentence.
    fn before(&self, index: usize) -> Option<&Token> {
        let token = self.token(index.checked_sub(1)?)?;
        (token.sentence == self.reading.tokens[index].sentence).then_some(token)
    }

    fn after(&self, index: usize) -> Option<&Token> {
        self.token(index + 1).filter(|next| next.sentence == self.reading.tokens[index].sentence)
    }

    /// A word that could be a name: it has a capital and is no everyday word.
    fn could_be_name(&self, index: usize) -> bool {
        let Some(token) = self.token(index) else { return false };
        if !token.is_word() || token.tag || token.mention || !token.capital() {
            return false;
        }
        let word = self.reading.word(token);
        if word.chars().count() < 2 || word.is_ascii() || self.house_name(index) {
            return false;
        }
        token.entry().is_none_or(|entry| {
            entry.pet.is_some()
                || entry.person.is_some()
                || (entry.groups().is_empty()
                    && entry.number.is_none()
                    && entry.month.is_none()
                    && entry.species.is_none_or(|species| !species.noun))
        })
    }

    /// `приют «Верный»`: the name of a house.
    fn house_name(&self, index: usize) -> bool {
        let before = self.before(index).filter(|_| self.reading.tokens[index].quoted);
        before.is_some_and(|before| is(before, self.groups.organisation))
    }

    fn is_pet(&self, index: usize) -> bool {
        self.token(index).and_then(|token| token.entry()).is_some_and(|entry| entry.pet.is_some())
    }

    fn is_person(&self, index: usize) -> bool {
        self.token(index).and_then(|token| token.entry()).is_some_and(|entry| entry.person.is_some())
    }

    fn is_city(&self, index: usize) -> bool {
        within(self.cities, index, |mention| (mention.first, mention.last))
    }

    fn is_district(&self, index: usize) -> bool {
        within(self.districts, index, |mention| (mention.first, mention.last))
    }

    /// Named as the town of the post, though it may also be called so: `Чита`.
    fn is_surely_city(&self, index: usize) -> bool {
        let covers = |mention: &&city::Mention| mention.first <= index && index <= mention.last;
        self.cities.iter().find(covers).is_some_and(|mention| mention.score >= SURE_CITY)
    }

    fn at(&self, index: usize, people: &[usize], out: &mut Vec<Candidate>) {
        let token = &self.reading.tokens[index];
        if token.entry().is_none() && !token.capital() {
            return;
        }
        if is(token, self.groups.named) {
            self.after_word(index, 3, 10.0, "names.nickname", out);
        } else if is(token, self.groups.answers) {
            self.answers(index, out);
        } else if is(token, self.groups.called) {
            self.called(index, out);
        } else if is(token, self.groups.by_name)
            && matches!(self.word(index), "имени" | "имя")
            && !self.word_before_is(index, &["свое", "мое"])
        {
            self.after_word(index, 1, 9.0, "names.by_name", out);
        } else if self.word(index) == "кто" && self.after(index).is_some_and(|next| next.gap == Gap::Colon)
        {
            self.after_word(index, 1, 9.0, "names.form", out);
        } else if is(token, self.groups.meet) {
            self.after_word(index, 3, 7.0, "names.meet", out);
        }
        if !self.could_be_name(index)
            || people.binary_search(&index).is_ok()
            || (self.is_city(index) || self.is_district(index)) && !self.is_pet(index)
            || self.is_surely_city(index)
        {
            return;
        }
        self.after_noun(index, out);
        self.opening(index, out);
        self.said_of(index, out);
    }

    fn word_before_is(&self, index: usize, words: &[&str]) -> bool {
        self.before(index).is_some_and(|before| words.contains(&self.reading.word(before)))
    }

    /// A title before the name belongs to it: `Капитан Сильвер`.
    fn last_of_name(&self, index: usize) -> usize {
        let next = index + 1;
        let joined = self.after(index).is_some_and(|token| {
            token.gap <= Gap::Space && token.letters == self.reading.tokens[index].letters
        });
        let title = self.word(index);
        let titled = matches!(
            title,
            "капитан"
                | "мистер"
                | "мисс"
                | "леди"
                | "сэр"
                | "граф"
                | "барон"
                | "лорд"
                | "принц"
                | "принцесса"
                | "княжна"
                | "мадам"
                | "баба"
                | "дядя"
                | "тетя"
                | "дон"
        );
        if joined && titled && self.could_be_name(next) { next } else { index }
    }

    /// A name, and the one joined to it: `братья Тим и Том`, `Чук и Гек`.
    fn push(&self, index: usize, weight: f32, rule: &'static str, out: &mut Vec<Candidate>) {
        self.push_one(index, weight, rule, out);
        let last = self.last_of_name(index);
        let second = last + 2;
        let joined = self.word(last + 1) == "и"
            && self.token(second).is_some_and(|token| {
                token.gap <= Gap::Space
                    && token.letters == Letters::Title
                    && token.sentence == self.reading.tokens[index].sentence
            });
        let paired = matches!(
            rule,
            "names.after_noun" | "names.opening" | "names.nickname" | "names.called" | "names.our"
        );
        if joined && paired && self.could_be_name(second) && !self.street_like(second) {
            self.push_one(second, weight, "names.joined", out);
        }
    }

    fn push_one(&self, index: usize, weight: f32, rule: &'static str, out: &mut Vec<Candidate>) {
        let last = self.last_of_name(index);
        let (mut name, sex, known) = self.nominative(last, rule);
        if last > index {
            name = format!("{} {name}", title_case(&self.shown(index)));
        }
        let key = fold(&name);
        out.push(Candidate { first: index, last, weight, rule, name, key, sex, known });
    }

    fn shown(&self, index: usize) -> String {
        let token = &self.reading.tokens[index];
        let words = self.reading.evidence("", index, index).words;
        let plain = words.chars().all(|letter| letter.is_alphabetic() && !letter.is_ascii() || letter == '-');
        if plain { words } else { self.reading.text(token).to_owned() }
    }

    /// The dictionary form: known names from the dictionary, others by the case their place asks for.
    fn nominative(&self, index: usize, rule: &str) -> (String, Sex, bool) {
        let token = &self.reading.tokens[index];
        let shown = title_case(&self.shown(index));
        // After a naming word the name stands in the nominative, whatever else its form could be.
        let naming = matches!(
            rule,
            "names.nickname"
                | "names.by_name"
                | "names.heading"
                | "names.meet"
                | "names.described"
                | "names.called"
        );
        let stated = naming && !self.renamed(index);
        if let Some(entry) = token.entry() {
            let other = entry.pet.is_some_and(|(name, _)| fold(name) != fold(&shown));
            if stated && other {
                let sex = guess_gender(&shown);
                return (shown, sex, false);
            }
            if let Some(found) = entry.pet.and_then(|(_, sex)| self.feminine(index, sex)) {
                return found;
            }
            if let Some((name, sex)) = entry.pet {
                let name = if fold(name) == fold(&shown) { shown } else { name.to_owned() };
                return (name, sex, true);
            }
            if let Some((name, sex)) = entry.person {
                let name = if fold(name) == fold(&shown) { shown } else { name.to_owned() };
                return (name, sex, true);
            }
        }
        let oblique = match rule {
            "names.after_noun" | "names.our" => {
                self.before(index).is_some_and(|before| self.is_oblique(before))
            }
            "names.answers" | "names.about" | "names.turned_out" => true,
            "names.called" => self.renamed(index),
            _ => false,
        };
        let male = self.noun.is_some_and(|(_, species)| species.sex == Sex::M || species.gender == Sex::M);
        let declined = !stated && is_declined(token);
        let name = match () {
            () if declined => title_case(&morph::lemma(self.word(index))),
            () if oblique => straighten(&shown, male),
            () => shown,
        };
        let sex = guess_gender(&name);
        (name, sex, false)
    }

    /// `Маркизу`, `Маркизы`: of two names with one form the feminine is meant, unless a dative is asked for.
    fn feminine(&self, index: usize, sex: Sex) -> Option<(String, Sex, bool)> {
        let stem = self.word(index).strip_suffix(['у', 'ы']).filter(|_| sex == Sex::M)?;
        let dative = self.word_before_is(index, &["к", "ко", "по"]);
        let (name, sex) = lexicon().exact(&format!("{stem}а"))?.pet.filter(|(_, sex)| *sex == Sex::F)?;
        (!dative && fold(name) == format!("{stem}а")).then(|| (name.to_owned(), sex, true))
    }

    /// `назвали Угольком`: the instrumental.
    fn renamed(&self, index: usize) -> bool {
        let named = |at: usize| {
            let word = self.word(at);
            word.starts_with("назвал") || word.starts_with("прозвал")
        };
        (1..=2).any(|back| index.checked_sub(back).is_some_and(named))
    }

    fn is_oblique(&self, token: &Token) -> bool {
        if is(token, self.groups.our) {
            return matches!(
                self.reading.word(token),
                "нашу" | "нашего" | "нашей" | "мою" | "моего" | "нашим" | "любимого" | "любимую"
            );
        }
        token.entry().is_some_and(|entry| entry.cases & case::NOM == 0)
    }

    fn choose(&self, mut candidates: Vec<Candidate>, named: &mut Named) {
        let enough = if matches!(self.kind, Kind::Found) { ENOUGH_FOUND } else { ENOUGH };
        if matches!(self.kind, Kind::Ad | Kind::News | Kind::Link | Kind::Empty) {
            return;
        }
        candidates
            .sort_by(|left, right| right.weight.total_cmp(&left.weight).then(left.first.cmp(&right.first)));
        candidates.truncate(CANDIDATES_MAX);
        let mut keys: Vec<(String, f32)> = Vec::new();
        for candidate in &candidates {
            match keys.iter_mut().find(|(key, _)| *key == candidate.key) {
                Some((_, total)) => *total += candidate.weight * 0.5,
                None => keys.push((candidate.key.clone(), candidate.weight)),
            }
        }
        let total = |key: &str| keys.iter().find(|(known, _)| known == key).map_or(0.0, |(_, total)| *total);
        let Some(best) = candidates.iter().max_by(|left, right| {
            total(&left.key).total_cmp(&total(&right.key)).then(right.first.cmp(&left.first))
        }) else {
            return;
        };
        if total(&best.key) < enough {
            return;
        }
        let mut chosen: Vec<&Candidate> = Vec::new();
        for candidate in &candidates {
            let same = chosen.iter().any(|other| other.key == candidate.key);
            let strong = matches!(
                candidate.rule,
                "names.after_noun" | "names.joined" | "names.nickname" | "names.described" | "names.called"
            );
            let with_best = candidate.key == best.key
                || (strong && candidate.weight >= SECOND)
                || self.joined(candidate, best);
            if !same && with_best && chosen.len() < NAMES_MAX {
                chosen.push(candidate);
            }
        }
        chosen.sort_by_key(|candidate| candidate.first);
        for candidate in chosen {
            let evidence = self.reading.evidence(candidate.rule, candidate.first, candidate.last);
            named.pets.push(Fact::new(candidate.name.clone(), evidence));
            named.genders.push(NameGender {
                index: candidate.last,
                sex: candidate.sex,
                known: candidate.known,
            });
        }
        let chosen_keys: Vec<String> = named.pets.iter().map(|pet| fold(&pet.value)).collect();
        let used = candidates.iter().filter(|candidate| chosen_keys.contains(&candidate.key));
        named.taken.extend(used.flat_map(|candidate| candidate.first..=candidate.last));
    }

    /// `Тим и Том`: two names side by side.
    fn joined(&self, candidate: &Candidate, best: &Candidate) -> bool {
        let (left, right) = if candidate.first < best.first { (candidate, best) } else { (best, candidate) };
        right.first == left.last + 2 && self.word(left.last + 1) == "и" && candidate.known
            || right.first == left.last + 1
                && self.reading.tokens[right.first].gap == Gap::Comma
                && candidate.known
                && best.known
                && candidate.weight >= ENOUGH
    }
}
