//! Where it happened, as a short fragment in the post's own words.
//! Marker words (`ул.`, `СНТ`, `возле`) and capitals after prepositions make candidates; the best one is kept.
//! It must not know towns beyond where they stand; none is better than a wrong one.

use super::city;
use super::read::Spans;
use crate::content::lexicon::{Group, lexicon};
use crate::content::tokens::{Gap, Letters, Reading, Token, within};
use crate::content::{Fact, Kind};

const STREET: f32 = 10.0;
const HOUSE: f32 = 3.0;
const NAMED_LANDMARK: f32 = 9.0;
const SETTLEMENT: f32 = 9.0;
const DISTRICT: f32 = 8.0;
const BARE_ADDRESS: f32 = 9.0;
const AFTER_PREPOSITION: f32 = 7.0;
const LISTED: f32 = 6.0;
const LANDMARK: f32 = 4.0;
const LONE_CAPITAL: f32 = 2.6;
/// In a sentence that tells the event.
const EVENT: f32 = 4.0;
/// `в сторону …`, `могла уйти к …`: where it may be, not where it was.
const AWAY: f32 = -5.0;
const LATER: f32 = -0.6;
const ENOUGH: f32 = 2.5;
/// Characters of a fragment at most.
const FRAGMENT_MAX: usize = 110;
/// Tokens looked at after a marker word.
const NAME_TOKENS: usize = 4;
const OTHERS_MAX: usize = 6;
/// Candidates looked at: a list of a hundred places is no place.
const CANDIDATES_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct Places {
    pub best: Option<Fact<String>>,
    pub others: Vec<Fact<String>>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    first: usize,
    last: usize,
    weight: f32,
    rule: &'static str,
}

struct Groups {
    street: Option<Group>,
    avenue: Option<Group>,
    district: Option<Group>,
    settlement: Option<Group>,
    garden: Option<Group>,
    landmark: Option<Group>,
    brand: Option<Group>,
    house: Option<Group>,
    near: Option<Group>,
    inside: Option<Group>,
    answers: Option<Group>,
}

struct Finder<'r, 'a> {
    reading: &'r Reading<'a>,
    cities: &'r [city::Mention],
    taken: &'r [usize],
    phones: &'r Spans,
    groups: Groups,
    /// Sentences written in capitals, where a capital says nothing.
    shouted: Vec<bool>,
}

pub fn places(
    reading: &Reading<'_>,
    kind: Kind,
    event: &[u32],
    cities: &[city::Mention],
    taken: &[usize],
    phones: &Spans,
) -> Places {
    if !kind.is_incident() {
        return Places::default();
    }
    let group = |name: &str| lexicon().group(name);
    let groups = Groups {
        street: group("street"),
        avenue: group("avenue"),
        district: group("district"),
        settlement: group("settlement"),
        garden: group("garden"),
        landmark: group("landmark"),
        brand: group("place_brand"),
        house: group("house"),
        near: group("near_prep"),
        inside: group("in_prep"),
        answers: group("answers"),
    };
    let finder = Finder { reading, cities, taken, phones, groups, shouted: shouted(reading) };
    finder.places(kind, event)
}

fn shouted(reading: &Reading<'_>) -> Vec<bool> {
    let mut counts = vec![(0_u32, 0_u32); reading.questions.len()];
    for token in reading.tokens.iter().filter(|token| token.is_word() && token.end - token.start > 4) {
        let (upper, all) = &mut counts[token.sentence as usize];
        *upper += u32::from(token.letters == Letters::Upper);
        *all += 1;
    }
    counts.into_iter().map(|(upper, all)| all > 0 && upper * 10 >= all * 6).collect()
}

fn is(token: &Token, group: Option<Group>) -> bool {
    group.is_some_and(|group| token.is(group))
}

impl Finder<'_, '_> {
    fn token(&self, index: usize) -> Option<&Token> {
        self.reading.tokens.get(index)
    }

    fn word(&self, index: usize) -> &str {
        self.token(index).map_or("", |token| self.reading.word(token))
    }

    fn same_sentence(&self, index: usize, other: usize) -> bool {
        self.token(other).is_some_and(|token| token.sentence == self.reading.tokens[index].sentence)
    }

    fn before(&self, index: usize) -> Option<usize> {
        index.checked_sub(1).filter(|before| self.same_sentence(index, *before))
    }

    fn in_phone(&self, index: usize) -> bool {
        within(self.phones, index, |span| *span)
    }

    fn is_city(&self, index: usize) -> bool {
        within(self.cities, index, |mention| (mention.first, mention.last))
    }

    fn shouts(&self, index: usize) -> bool {
        self.shouted[self.reading.tokens[index].sentence as usize]
    }

    /// A word that can be part of a place name.
    fn proper(&self, index: usize) -> bool {
        let Some(token) = self.token(index) else { return false };
        let plain = token.is_word() && !token.tag && !token.mention && token.capital();
        plain && self.taken.binary_search(&index).is_err() && !self.stop_word(index)
    }

    fn stop_word(&self, index: usize) -> bool {
        let word = self.word(index);
        matches!(
            word,
            "контакте"
                | "вк"
                | "вконтакте"
                | "авито"
                | "лс"
                | "россии"
                | "боже"
                | "бога"
                | "сбер"
                | "сбербанк"
                | "одноклассниках"
                | "инстаграм"
                | "телеграм"
                | "вы"
                | "вас"
                | "вам"
        ) || word.is_ascii()
    }

    fn places(&self, kind: Kind, event: &[u32]) -> Places {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut index = 0;
        while index < self.reading.tokens.len() && candidates.len() < CANDIDATES_MAX {
            let found = self.at(index);
            index += 1;
            if let Some(candidate) = found {
                index = index.max(candidate.last.min(candidate.first + NAME_TOKENS + 4));
                candidates.push(candidate);
            }
        }
        let mut merged = self.merge(candidates);
        self.listed(&mut merged);
        let mut merged = self.merge(merged);
        for (order, candidate) in merged.iter_mut().enumerate() {
            candidate.weight += self.context(candidate, event) + order as f32 * LATER;
        }
        // After a happy end a nameless landmark only decorates the story.
        merged.retain(|candidate| {
            candidate.weight >= ENOUGH && !(kind == Kind::Reunited && candidate.rule == "place.landmark")
        });
        self.facts(&merged)
    }

    fn facts(&self, candidates: &[Candidate]) -> Places {
        let mut best: Option<usize> = None;
        for (index, candidate) in candidates.iter().enumerate() {
            if best.is_none_or(|best| candidate.weight > candidates[best].weight) {
                best = Some(index);
            }
        }
        let Some(best) = best else { return Places::default() };
        let others = candidates.iter().enumerate().filter(|(index, _)| *index != best).take(OTHERS_MAX);
        Places {
            best: Some(self.fact(&candidates[best])),
            others: others.map(|(_, candidate)| self.fact(candidate)).collect(),
        }
    }

    fn fact(&self, candidate: &Candidate) -> Fact<String> {
        let evidence = self.reading.evidence(candidate.rule, candidate.first, candidate.last);
        let repaired = evidence.words.bytes().any(|byte| byte.is_ascii_alphabetic());
        let token = &self.reading.tokens[candidate.first];
        let end = self.reading.tokens[candidate.last].end as usize;
        let normal = &self.reading.normals[usize::from(token.text)].text[token.start as usize..end];
        let text = if repaired { normal.to_owned() } else { evidence.words.clone() };
        Fact::new(balanced(&text), evidence)
    }

    fn at(&self, index: usize) -> Option<Candidate> {
        let token = &self.reading.tokens[index];
        if token.tag || token.mention || self.in_phone(index) || !(token.is_word() || token.is_number()) {
            return None;
        }
        if is(token, self.groups.street) || is(token, self.groups.avenue) && self.abbreviation_holds(index) {
            return self.street(index);
        }
        let marker = is(token, self.groups.garden)
            || is(token, self.groups.district)
            || is(token, self.groups.settlement);
        if marker && self.abbreviation_holds(index) {
            return self.area(index);
        }
        if is(token, self.groups.landmark)
            || is(token, self.groups.brand) && (token.quoted || token.capital())
        {
            return self.landmark(index);
        }
        if is(token, self.groups.inside) || is(token, self.groups.near) {
            return self.after_preposition(index);
        }
        self.bare_address(index)
    }

    /// `с`, `п`, `д` are markers only when abbreviated before a capital: `с. Култаево`.
    fn abbreviation_holds(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        let letters = self.word(index).chars().count();
        if letters > 3 || matches!(self.word(index), "снт" | "днт" | "жк" | "кп" | "тсн" | "пгт" | "мкр")
        {
            return true;
        }
        let text = &self.reading.normals[usize::from(token.text)].text;
        let dotted = text[token.end as usize..].starts_with('.') || letters >= 2;
        let named = self.proper(index + 1) && self.same_sentence(index, index + 1);
        let prepositional = letters == 1 && !text[token.end as usize..].starts_with('.');
        (dotted || self.word(index) == "д") && named && !prepositional
    }

    /// The last token of a name that follows a marker: `8 Марта`, `Богдана Хмельницкого`, `«Надежда»`.
    fn name_after(&self, index: usize) -> Option<usize> {
        let mut last = index;
        let mut named = false;
        for at in index + 1..=index + NAME_TOKENS {
            let Some(token) = self.token(at).filter(|_| self.same_sentence(index, at)) else { break };
            if token.gap > Gap::Quote || self.in_phone(at) {
                break;
            }
            let number = token.is_number() && token.end - token.start <= 4 && !named;
            let quoted = token.quoted && token.is_word();
            let of_number = last > index
                && self.reading.tokens[last].is_number()
                && matches!(
                    self.word(at),
                    "лет"
                        | "летия"
                        | "года"
                        | "й"
                        | "я"
                        | "го"
                        | "е"
                        | "марта"
                        | "мая"
                        | "января"
                        | "октября"
                        | "июля"
                );
            let shouted = self.shouts(index)
                && token.is_word()
                && at == index + 1
                && token.entry().is_none_or(|entry| entry.groups().is_empty());
            let proper = if self.shouts(index) { shouted } else { self.proper(at) };
            if !(number || quoted || proper || of_number) {
                break;
            }
            named |= quoted || proper || of_number;
            last = at;
            if (quoted && !self.token(at + 1).is_some_and(|next| next.quoted)) && token.quoted {
                break;
            }
        }
        named.then_some(last)
    }

    /// Adjectives with a capital before a marker: `Осенний бульвар`, `Большой Садовой улице`.
    fn adjectives_before(&self, index: usize) -> Option<usize> {
        let mut first = index;
        while let Some(before) = self.before(first) {
            let token = &self.reading.tokens[before];
            let adjective = ends_like_adjective(self.word(before)) || token.quoted;
            let close = self.reading.tokens[first].gap <= Gap::Quote;
            if index - before > 2
                || !close
                || !self.proper(before)
                || !adjective
                || self.shouts(index) && before + 1 != index
            {
                break;
            }
            first = before;
        }
        (first < index).then_some(first)
    }

    /// `31`, `, 18/40`, ` д. 5`, ` 12а` after an address.
    fn with_house(&self, last: usize) -> (usize, bool) {
        let mut end = last;
        let mut at = last + 1;
        if self.token(at).is_some_and(|token| is(token, self.groups.house) && token.gap <= Gap::Comma)
            && self.token(at + 1).is_some_and(|token| token.is_number())
        {
            at += 1;
        }
        let number = self.token(at).filter(|token| {
            token.is_number()
                && token.gap <= Gap::Comma
                && token.end - token.start <= 3
                && self.same_sentence(last, at)
        });
        if number.is_none() || self.in_phone(at) || self.measures(at) {
            return (last, false);
        }
        end = end.max(at);
        while let Some(next) =
            self.token(end + 1).filter(|next| next.gap <= Gap::Slash && next.gap != Gap::Space)
        {
            let suffix = next.is_number() || next.is_word() && next.end - next.start <= 2;
            if !suffix || end > at + 2 || self.in_phone(end + 1) {
                break;
            }
            end += 1;
        }
        (end, true)
    }

    /// The number counts years, weight, hours or days, or opens a date: no house.
    fn measures(&self, index: usize) -> bool {
        let next = self.word(index + 1);
        let stems = [
            "год",
            "лет",
            "мес",
            "кг",
            "см",
            "тыс",
            "руб",
            "час",
            "утра",
            "вечер",
            "км",
            "минут",
            "январ",
            "феврал",
            "март",
            "апрел",
            "мая",
            "июн",
            "июл",
            "август",
            "сентябр",
            "октябр",
            "ноябр",
            "декабр",
            "этаж",
            "недел",
            "дня",
            "дней",
            "день",
            "числа",
            "грам",
            "челов",
            "штук",
        ];
        let unit = stems.iter().any(|stem| next.starts_with(stem))
            || matches!(next, "р" | "ч" | "г" | "м" | "т" | "го");
        let close = self.token(index + 1).is_some_and(|token| token.gap <= Gap::Space);
        let dated = self.token(index + 1).is_some_and(|token| {
            let text = &self.reading.normals[usize::from(token.text)].text;
            token.is_number() && text[..token.start as usize].ends_with('.') && token.end - token.start == 2
        });
        unit && close || dated
    }

    fn street(&self, index: usize) -> Option<Candidate> {
        let after = self.name_after(index);
        let before = self.adjectives_before(index);
        let marked = Candidate { first: index, last: index, weight: STREET, rule: "place.street" };
        // `Садовая ул. Мамин…`: the adjective before wins over a word that begins the next thing.
        let (first, last) = match (before, after) {
            (Some(first), None) => (first, index),
            (Some(first), Some(_)) if !is_prepositional_start(self.word(first)) => (first, index),
            (_, Some(last)) => (index, last),
            // `на улице` alone is out of doors, not a place.
            (None, None) if is(&self.reading.tokens[index], self.groups.street) => return None,
            (None, None) => return self.lower_landmark(index),
        };
        let (end, house) = self.with_house(last);
        Some(Candidate {
            first,
            last: end,
            weight: marked.weight + if house { HOUSE } else { 0.0 },
            ..marked
        })
    }

    fn area(&self, index: usize) -> Option<Candidate> {
        let token = &self.reading.tokens[index];
        let (weight, rule) = if is(token, self.groups.district) {
            (DISTRICT, "place.district")
        } else if is(token, self.groups.garden) {
            (SETTLEMENT, "place.garden")
        } else {
            (SETTLEMENT, "place.settlement")
        };
        let numbered = self.number_before(index);
        if let Some(first) = self.adjectives_before(index) {
            return Some(Candidate { first, last: self.with_house(index).0, weight, rule });
        }
        if let Some(last) = self.name_after(index) {
            let (end, house) = self.with_house(self.with_noun(last));
            return Some(Candidate {
                first: index,
                last: end,
                weight: weight + if house { 1.0 } else { 0.0 },
                rule,
            });
        }
        if let Some(first) = numbered {
            return Some(Candidate { first, last: index, weight: weight - 1.0, rule });
        }
        // `в районе автовокзала`: the landmark that follows tells the place.
        if matches!(self.word(index), "районе" | "район") {
            let next = index + 1;
            let landmark = self.token(next).is_some_and(|token| is(token, self.groups.landmark))
                && self.same_sentence(index, next);
            return landmark.then_some(Candidate {
                first: index,
                last: next,
                weight: LANDMARK + 1.0,
                rule: "place.landmark",
            });
        }
        None
    }

    /// `Липовой горы`, `Андреевского озера`: an adjective takes the noun behind it.
    fn with_noun(&self, last: usize) -> usize {
        let next = last + 1;
        let noun = self
            .token(next)
            .filter(|token| token.gap <= Gap::Space && token.is_word() && self.same_sentence(last, next));
        let geographic = noun.is_some_and(|token| {
            is(token, self.groups.landmark)
                || is(token, self.groups.district)
                || is(token, self.groups.avenue)
                || geographic(self.word(next))
        });
        if ends_like_adjective(self.word(last)) && geographic { next } else { last }
    }

    /// `7-й больницей`, `43 комплексе`.
    fn number_before(&self, index: usize) -> Option<usize> {
        let mut at = self.before(index)?;
        if matches!(self.word(at), "й" | "я" | "го" | "м" | "ой" | "ом" | "ая" | "ый")
            && self.reading.tokens[at].gap == Gap::Joined
        {
            at = self.before(at)?;
        }
        let token = &self.reading.tokens[at];
        (token.is_number() && token.end - token.start <= 3 && !self.in_phone(at)).then_some(at)
    }

    /// `школы 12`, `маршрутке 284`, `садика № 5`.
    fn number_after(&self, index: usize) -> Option<usize> {
        let next = self.token(index + 1)?;
        let fits = next.is_number()
            && next.gap <= Gap::Comma
            && next.end - next.start <= 3
            && !self.in_phone(index + 1);
        (fits && self.same_sentence(index, index + 1) && !self.measures(index + 1) && next.gap != Gap::Comma
            || fits && self.numero(index + 1))
        .then_some(index + 1)
    }

    fn numero(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        self.reading.normals[usize::from(token.text)].text[..token.start as usize].trim_end().ends_with('№')
    }

    fn landmark(&self, index: usize) -> Option<Candidate> {
        let named = |first: usize, last: usize, weight: f32| {
            Some(Candidate { first, last, weight, rule: "place.named_landmark" })
        };
        let brand = is(&self.reading.tokens[index], self.groups.brand)
            && !is(&self.reading.tokens[index], self.groups.landmark);
        if brand {
            return named(index, index, NAMED_LANDMARK - 2.0);
        }
        if let Some(first) = self.adjectives_before(index) {
            let last =
                self.name_after(index).filter(|last| self.reading.tokens[*last].quoted).unwrap_or(index);
            return named(first, last, NAMED_LANDMARK);
        }
        if let Some(last) = self.name_after(index) {
            let (end, _) = self.with_house(self.with_noun(last));
            return named(index, end, NAMED_LANDMARK);
        }
        if let Some(last) = self.number_after(index) {
            return Some(Candidate {
                first: index,
                last,
                weight: LANDMARK + 2.0,
                rule: "place.numbered_landmark",
            });
        }
        if let Some(first) = self.number_before(index) {
            let first = self
                .before(first)
                .filter(|at| is(&self.reading.tokens[*at], self.groups.near))
                .unwrap_or(first);
            return Some(Candidate {
                first,
                last: index,
                weight: LANDMARK + 2.0,
                rule: "place.numbered_landmark",
            });
        }
        self.lower_landmark(index)
    }

    /// `возле рынка`, `на трамвайной остановке`: needs the preposition.
    fn lower_landmark(&self, index: usize) -> Option<Candidate> {
        let mut at = index;
        for _ in 0..3 {
            let before = self.before(at)?;
            let token = &self.reading.tokens[before];
            if self.reading.tokens[at].gap > Gap::Quote {
                return self.listed_landmark(index, at);
            }
            if is(token, self.groups.near)
                || is(token, self.groups.inside)
                || matches!(self.word(before), "районе" | "с")
            {
                let near = is(token, self.groups.near);
                let first = if near { before } else { before + 1 };
                let weight = LANDMARK + if near { 0.5 } else { 0.0 };
                let away = matches!(self.word(before), "до" | "к" | "по" | "через" | "под" | "от");
                let weight = if away { weight - 1.5 } else { weight };
                return Some(Candidate { first, last: index, weight, rule: "place.landmark" });
            }
            let adjective =
                token.is_number() || ends_like_adjective(self.word(before)) || token.gap == Gap::Joined;
            if !adjective {
                return None;
            }
            at = before;
        }
        None
    }

    /// `Энгельс, набережная, вчера …`: a landmark in a list after a town.
    fn listed_landmark(&self, index: usize, first: usize) -> Option<Candidate> {
        let before = self.before(first)?;
        let closed = self.token(index + 1).is_none_or(|next| next.gap >= Gap::Comma);
        let town = self.is_city(before) && self.reading.tokens[first].gap == Gap::Comma;
        (town && closed).then_some(Candidate {
            first,
            last: index,
            weight: LANDMARK + 1.0,
            rule: "place.listed",
        })
    }

    /// `на Рахова`, `в Плеханово`, `из Лесной Поляны`.
    fn after_preposition(&self, index: usize) -> Option<Candidate> {
        let at = index + 1;
        let token =
            self.token(at).filter(|token| token.gap <= Gap::Quote && self.same_sentence(index, at))?;
        let word = self.word(index);
        let with = word == "рядом" && self.word(at) == "с";
        if with {
            return None;
        }
        if !self.proper(at)
            || self.shouts(index)
            || self.is_city(at)
            || token.letters == Letters::Upper && !token.quoted
        {
            return None;
        }
        let entry = token.entry();
        let person = entry.is_some_and(|entry| entry.person.is_some() || entry.pet.is_some());
        let more = self.proper(at + 1) && self.token(at + 1).is_some_and(|next| next.gap <= Gap::Space);
        if person && !more && !matches!(word, "в" | "во" | "на") {
            return None;
        }
        if entry
            .is_some_and(|entry| entry.species.is_some_and(|species| species.noun) || entry.month.is_some())
        {
            return None;
        }
        if self.answered(index) {
            return None;
        }
        let mut last = at;
        while self.proper(last + 1) && self.same_sentence(index, last + 1) && last < index + 3 {
            let next = &self.reading.tokens[last + 1];
            if next.gap > Gap::Quote || self.is_city(last + 1) {
                break;
            }
            last += 1;
        }
        let (end, house) = self.with_house(self.with_noun(last));
        let quoted = if token.quoted { 1.0 } else { 0.0 };
        let weight = AFTER_PREPOSITION + quoted + if house { HOUSE } else { 0.0 };
        let away = matches!(word, "до" | "к" | "ко" | "через" | "под" | "от" | "с" | "со" | "из");
        let weight = if away { weight - 1.0 } else { weight };
        Some(Candidate { first: index, last: end, weight, rule: "place.after_preposition" })
    }

    /// `откликается на Лео`, `похож на Лиса`.
    fn answered(&self, index: usize) -> bool {
        let mut at = index;
        for _ in 0..2 {
            let Some(before) = self.before(at) else { return false };
            if is(&self.reading.tokens[before], self.groups.answers) || self.word(before).starts_with("похож")
            {
                return true;
            }
            at = before;
        }
        false
    }

    /// `Весенняя 14`, `Соколовая, 18/40`.
    fn bare_address(&self, index: usize) -> Option<Candidate> {
        let token = &self.reading.tokens[index];
        if !self.proper(index) || self.shouts(index) || self.is_city(index) {
            return None;
        }
        let known = token.entry().is_some_and(|entry| {
            entry.person.is_some()
                || entry.pet.is_some()
                || entry.species.is_some()
                || !entry.groups().is_empty()
                || entry.month.is_some()
        });
        // `Пушкина 30`: a name in another case with a house behind it is a street.
        let named = token.entry().is_some_and(|entry| entry.person.is_some() || entry.pet.is_some());
        let oblique =
            ["а", "я", "ой", "ы", "и", "ого"].iter().any(|ending| self.word(index).ends_with(ending));
        let known = known && !(named && oblique && self.plain_name(index));
        let genitive_street =
            token.entry().is_some_and(|entry| entry.person.is_some()) && self.proper(index + 1);
        let (end, house) = self.with_house(index);
        if house && !known && self.word(index).chars().count() >= 4 {
            return Some(Candidate { first: index, last: end, weight: BARE_ADDRESS, rule: "place.address" });
        }
        if genitive_street {
            let (end, house) = self.with_house(index + 1);
            if house {
                return Some(Candidate {
                    first: index,
                    last: end,
                    weight: BARE_ADDRESS,
                    rule: "place.address",
                });
            }
        }
        let inside = token.gap <= Gap::Space && token.letters == Letters::Title && !token.quoted;
        let unknown = token.entry().is_none() && self.word(index).chars().count() >= 5;
        let follows_name = self.before(index).is_some_and(|before| {
            let before = &self.reading.tokens[before];
            before.capital() || before.entry().is_some_and(|entry| entry.species.is_some())
        });
        let gone = (1..=3).any(|step| self.word(index + step) == "нет");
        (inside && unknown && !follows_name && !gone).then_some(Candidate {
            first: index,
            last: index,
            weight: LONE_CAPITAL,
            rule: "place.capital",
        })
    }

    /// Neither an animal nor an everyday word.
    fn plain_name(&self, index: usize) -> bool {
        self.reading.tokens[index]
            .entry()
            .is_none_or(|entry| entry.groups().is_empty() && entry.species.is_none())
    }

    /// `Верхняя Курья.`, `Тургенева`: a sentence that is nothing but a name of a place.
    fn lone_sentence(&self, first: usize, last: usize) -> bool {
        let start = &self.reading.tokens[first];
        let ended = self.token(last + 1).is_none_or(|next| next.gap >= Gap::Stop);
        let two = last > first && ends_like_adjective(self.word(first)) && start.letters == Letters::Title;
        let ending = [
            "ово", "ево", "ино", "ова", "ева", "ина", "ого", "ская", "ской", "иха", "овка", "евка", "инка",
            "щина",
        ];
        let one = last == first && ending.iter().any(|ending| self.word(first).ends_with(ending));
        start.gap >= Gap::Stop && ended && (two || one)
    }

    /// `Пермь, Закамск`, `Карачиха, Садовая ул.`: capitals between commas beside a town or a place.
    fn listed(&self, candidates: &mut Vec<Candidate>) {
        let mut added = Vec::new();
        let mut index = 0;
        while index < self.reading.tokens.len() && added.len() < CANDIDATES_MAX {
            let at = index;
            index += 1;
            let token = &self.reading.tokens[at];
            if !self.proper(at)
                || token.gap < Gap::Comma
                || self.is_city(at)
                || token.letters == Letters::Upper
            {
                continue;
            }
            let mut last = at;
            if self.proper(last + 1) && self.token(last + 1).is_some_and(|next| next.gap <= Gap::Space) {
                last += 1;
            }
            let closed = self.token(last + 1).is_none_or(|next| next.gap >= Gap::Comma);
            let known = token.entry().is_some_and(|entry| {
                entry.person.is_some()
                    || entry.species.is_some()
                    || entry.groups().iter().any(|_| true)
                    || entry.pet.is_some()
            });
            let covered = candidates.iter().any(|candidate| candidate.first <= at && at <= candidate.last);
            if !closed || known || covered {
                continue;
            }
            if self.beside_place(at, last, candidates) {
                added.push(Candidate { first: at, last, weight: LISTED, rule: "place.listed" });
            } else if self.lone_sentence(at, last) {
                added.push(Candidate { first: at, last, weight: LANDMARK, rule: "place.alone" });
            }
        }
        candidates.extend(added);
        candidates.sort_by_key(|candidate| candidate.first);
    }

    fn beside_place(&self, first: usize, last: usize, candidates: &[Candidate]) -> bool {
        let place = |at: usize| {
            self.is_city(at)
                || candidates.iter().any(|candidate| {
                    candidate.rule != "place.capital" && candidate.first <= at && at <= candidate.last
                })
        };
        let before = self.before(first).is_some_and(&place);
        let next = last + 1;
        let next = if self
            .token(next)
            .is_some_and(|token| is(token, self.groups.inside) || is(token, self.groups.near))
        {
            next + 1
        } else {
            next
        };
        let after = self.same_sentence(first, next) && place(next);
        let ending = ["ово", "ево", "ино", "ёво"].iter().any(|ending| self.word(first).ends_with(ending));
        before || after || ending
    }

    /// Neighbours joined by nothing but prepositions and commas are one fragment.
    fn merge(&self, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let mut merged: Vec<Candidate> = Vec::new();
        for candidate in candidates {
            let Some(last) = merged.last_mut() else {
                merged.push(candidate);
                continue;
            };
            if candidate.first <= last.last {
                last.last = last.last.max(candidate.last);
                if candidate.weight > last.weight {
                    (last.weight, last.rule) = (candidate.weight, candidate.rule);
                }
                continue;
            }
            if self.adjacent(last, &candidate) {
                let rule = if candidate.weight > last.weight { candidate.rule } else { last.rule };
                *last = Candidate {
                    first: last.first,
                    last: candidate.last,
                    weight: last.weight.max(candidate.weight) + 1.0,
                    rule,
                };
            } else {
                merged.push(candidate);
            }
        }
        merged
    }

    fn adjacent(&self, left: &Candidate, right: &Candidate) -> bool {
        if left.rule == "place.capital"
            || right.rule == "place.capital"
            || !self.same_sentence(left.first, right.last)
        {
            return false;
        }
        let between = left.last + 1..right.first;
        let filler = |at: usize| {
            let token = &self.reading.tokens[at];
            (is(token, self.groups.inside) || is(token, self.groups.near) || is(token, self.groups.house))
                && !matches!(self.word(at), "до" | "к" | "через" | "от")
        };
        let (start, end) =
            (self.reading.tokens[left.first].start as usize, self.reading.tokens[right.last].end as usize);
        let text = &self.reading.normals[usize::from(self.reading.tokens[left.first].text)].text;
        let short = text[start..end].chars().count() <= FRAGMENT_MAX;
        short && between.len() <= 2 && between.clone().all(filler)
    }

    fn context(&self, candidate: &Candidate, event: &[u32]) -> f32 {
        let sentence = self.reading.tokens[candidate.first].sentence;
        let mut score = 0.0;
        if event.binary_search(&sentence).is_ok() {
            score += EVENT;
        }
        let from = candidate.first.saturating_sub(4);
        let lead = (from..candidate.first).filter(|at| self.same_sentence(candidate.first, *at));
        for at in lead {
            let word = self.word(at);
            if matches!(
                word,
                "сторону"
                    | "направлении"
                    | "завтра"
                    | "отвезу"
                    | "вез"
                    | "маме"
                    | "могла"
                    | "привезем"
                    | "груминг"
                    | "доставка"
            ) || word == "мог"
            {
                score += AWAY;
                break;
            }
            if matches!(word, "живем" | "живу" | "проживаем") {
                score += 1.0;
            }
        }
        score
    }
}

/// Nouns that finish a name begun by an adjective.
fn geographic(word: &str) -> bool {
    [
        "гор",
        "озер",
        "полян",
        "рощ",
        "слобод",
        "ключ",
        "бор",
        "лог",
        "пруд",
        "реч",
        "рек",
        "остров",
        "мыс",
        "ручь",
        "балк",
        "луг",
        "пол",
        "сторон",
        "берег",
        "пустош",
        "дол",
        "мост",
        "холм",
        "высот",
        "бугор",
        "бугр",
        "горк",
        "дач",
        "угл",
        "уголок",
        "гай",
        "хутор",
    ]
    .iter()
    .any(|stem| word.starts_with(stem) && word.chars().count() <= stem.chars().count() + 4)
}

fn is_prepositional_start(word: &str) -> bool {
    matches!(word, "на" | "в" | "по")
}

fn ends_like_adjective(word: &str) -> bool {
    [
        "ая", "яя", "ой", "ей", "ого", "его", "ом", "ем", "ую", "юю", "ый", "ий", "ое", "ее", "ым", "им",
        "ых", "их", "ые", "ие", "ому",
    ]
    .iter()
    .any(|ending| word.ends_with(ending))
}

/// Quotation marks and brackets that the cut left open are closed or dropped.
fn balanced(text: &str) -> String {
    let mut text = text.replace('\n', " ");
    if text.contains('«') && !text.contains('»') {
        text.push('»');
    }
    if text.contains('(') != text.contains(')') {
        text = text.replace(['(', ')'], "");
    }
    text
}
