//! Where it happened, as a short fragment in the post's own words.
//! Marker words (`ул.`, `СНТ`, `возле`) and capitals after prepositions make candidates; the best one is kept.
//! It must not know towns beyond where they stand; none is better than a wrong one.

mod find;
mod shown;
mod words;

use std::sync::LazyLock;

pub use shown::shown_place;

use words::ends_like_adjective;

use super::read::Spans;
use super::{city, district};
use crate::content::lexicon::{Group, lexicon};
use crate::content::normalise::is_plain;
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
pub(super) struct Places {
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

/// What is known of the words before places are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'r> {
    pub cities: &'r [city::Mention],
    pub districts: &'r [district::Mention],
    /// Tokens that are names of pets or people.
    pub taken: &'r [usize],
    pub phones: &'r Spans,
}

struct Finder<'r, 'a> {
    reading: &'r Reading<'a>,
    known: Known<'r>,
    groups: &'static Groups,
    /// Sentences written in capitals, where a capital says nothing.
    shouted: Vec<bool>,
}

pub(super) fn places(reading: &Reading<'_>, kind: Kind, event: &[u32], known: Known<'_>) -> Places {
    if !kind.is_incident() {
        return Places::default();
    }
    static GROUPS: LazyLock<Groups> = LazyLock::new(groups);
    let finder = Finder { reading, known, groups: &GROUPS, shouted: shouted(reading) };
    finder.places(kind, event)
}

fn groups() -> Groups {
    let group = |name: &str| lexicon().group(name);
    Groups {
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
    }
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
        within(self.known.phones, index, |span| *span)
    }

    fn is_city(&self, index: usize) -> bool {
        within(self.known.cities, index, |mention| (mention.first, mention.last))
    }

    fn shouts(&self, index: usize) -> bool {
        self.shouted[self.reading.tokens[index].sentence as usize]
    }

    /// A word that can be part of a place name.
    fn proper(&self, index: usize) -> bool {
        let Some(token) = self.token(index) else { return false };
        let said = !token.tag && !token.mention && !self.reading.in_footer(token);
        let plain = token.is_word() && said && token.capital();
        plain && self.known.taken.binary_search(&index).is_err() && !self.stop_word(index)
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
        merged.retain(|candidate| !self.denied(candidate));
        for (order, candidate) in merged.iter_mut().enumerate() {
            candidate.weight += self.context(candidate, event) + order as f32 * LATER;
        }
        // After a happy end a nameless landmark only decorates the story.
        merged.retain(|candidate| {
            candidate.weight >= ENOUGH
                && !(kind == Kind::Reunited && matches!(candidate.rule, "place.landmark" | "place.capital"))
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
        let repaired = !is_plain(&evidence.words);
        let (text, start, end) = self.reading.range(candidate.first, candidate.last);
        let normal = &self.reading.normals[usize::from(text)].text[start..end];
        let text = if repaired { normal.to_owned() } else { evidence.words.clone() };
        Fact::new(balanced(&text), evidence)
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
        let street = last == first && self.word(first).ends_with("ая") && !ended && self.plain_name(first);
        // `Родники, 2 декабря`: the place, then the day.
        let dated = last == first
            && self.plain_name(first)
            && self.token(last + 1).is_some_and(|next| next.is_number() && next.gap == Gap::Comma);
        start.gap >= Gap::Stop && (ended && (two || one) || street || dated)
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
            // `Старый Игерман`: an everyday adjective before a name of its own.
            let compound = last > at && ends_like_adjective(self.word(at)) && self.plain_name(last);
            if !closed || known && !compound || covered {
                continue;
            }
            if self.beside_place(at, last, candidates) {
                added.push(Candidate { first: at, last, weight: LISTED, rule: "place.listed" });
            } else if self.before(at).is_some() && token.gap == Gap::Comma && token.letters == Letters::Title
            {
                added.push(Candidate { first: at, last, weight: LANDMARK, rule: "place.in_list" });
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
        let mut between = left.last + 1..right.first;
        let filler = |at: usize| {
            let token = &self.reading.tokens[at];
            (is(token, self.groups.inside) || is(token, self.groups.near) || is(token, self.groups.house))
                && !matches!(self.word(at), "до" | "к" | "через" | "от")
        };
        let (text, start, end) = self.reading.range(left.first, right.last);
        let text = &self.reading.normals[usize::from(text)].text;
        let short = text[start..end].chars().count() <= FRAGMENT_MAX;
        short && between.len() <= 2 && between.all(filler)
    }

    /// `не на Рахова`, `кроме Закамска`, `в Закамске его нет`: where the animal was not.
    /// A verb in between is what is denied: `не вернулся на Рахова`.
    fn denied(&self, candidate: &Candidate) -> bool {
        let close = |at: usize| self.reading.tokens[at].gap < Gap::Comma;
        let mut at = candidate.first;
        for _ in 0..3 {
            let Some(before) = self.before(at).filter(|_| close(at)) else { break };
            let (token, word) = (&self.reading.tokens[before], self.word(before));
            if matches!(word, "не" | "ни" | "кроме") {
                return true;
            }
            let leads = is(token, self.groups.inside) || is(token, self.groups.near);
            if !leads && !matches!(word, "это" | "именно" | "районе" | "в") {
                break;
            }
            at = before;
        }
        let follows = |at: usize| self.same_sentence(candidate.first, at) && close(at);
        let mut at = candidate.last + 1;
        if follows(at) && matches!(self.word(at), "его" | "ее" | "их" | "там") {
            at += 1;
        }
        let denied = match self.word(at) {
            "нет" | "нету" => Some(at),
            "не" if matches!(self.word(at + 1), "было" | "был" | "была" | "видели" | "нашли") => {
                Some(at + 1)
            }
            _ => None,
        };
        // `на Мира нет кота с утра` is a loss; the denial of the place ends there.
        denied.is_some_and(|last| (at..=last).all(follows) && !follows(last + 1))
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
