//! The town of the incident, by gazetteer: named in the text or a hashtag, in any case.
//! Towns that are only passed through lose; with doubt there is none rather than a wrong one.

use std::sync::LazyLock;

use crate::content::Fact;
use crate::content::lexicon::morph::bit;
use crate::content::lexicon::{Group, case, lexicon};
use crate::content::tokens::{Gap, Letters, Reading, Token};

const NAMED: i32 = 3;
const HASHTAG: i32 = 3;
/// `г. Пермь`, `город Орёл`.
const MARKER: i32 = 4;
/// `Пермь, Закамск!!!` at the start of a sentence.
const HEADING: i32 = 4;
/// `в Перми`.
const IN: i32 = 3;
/// `(Тюмень)`, `…, Ярославль, …`.
const APART: i32 = 2;
/// The source's own town.
const HOME: i32 = 3;
const OPENING: i32 = 1;
/// `из Кунгура`, `под Кунгуром`, `до Кунгура`, `в Кунгур`.
const PASSING: i32 = -4;
/// Each further mention.
const AGAIN: i32 = 2;
const ENOUGH: i32 = 4;
/// Mentions compared with each other; a list of all towns names none.
const MENTIONS_MAX: usize = 100;

/// A mention of a town in the tokens `first..=last`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mention {
    pub city: u16,
    pub first: usize,
    pub last: usize,
    pub score: i32,
}

pub(super) fn mentions(reading: &Reading<'_>, home: Option<&str>) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut left = MENTIONS_MAX;
    for (index, token) in reading.tokens.iter().enumerate() {
        let Some(entry) = token.entry() else { continue };
        if entry.cities.is_empty() || token.mention {
            continue;
        }
        let whole =
            |city: &&u16| first_token(reading, index, &lexicon().cities[usize::from(**city)].words).is_some();
        let longest = entry
            .cities
            .iter()
            .filter(whole)
            .max_by_key(|city| lexicon().cities[usize::from(**city)].words.len());
        let Some(city) = longest else { continue };
        let Some(first) = first_token(reading, index, &lexicon().cities[usize::from(*city)].words) else {
            continue;
        };
        if let Some(score) = score(reading, *city, first, index, home) {
            found.push(Mention { city: *city, first, last: index, score });
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    found
}

/// The first token of a name that ends at `index`, if the words before it fit.
pub(super) fn first_token(reading: &Reading<'_>, index: usize, words: &[String]) -> Option<usize> {
    let extra = words.len() - 1;
    let first = index.checked_sub(extra)?;
    for (offset, word) in words[..extra].iter().enumerate() {
        let token = &reading.tokens[first + offset];
        let letters = word.chars().count().saturating_sub(2).max(2);
        let stem: String = word.chars().take(letters).collect();
        let next = &reading.tokens[first + offset + 1];
        if !reading.word(token).starts_with(&stem) || next.gap > Gap::Slash {
            return None;
        }
    }
    Some(first)
}

fn score(reading: &Reading<'_>, city: u16, first: usize, last: usize, home: Option<&str>) -> Option<i32> {
    let known = &lexicon().cities[usize::from(city)];
    let (start, end) = (&reading.tokens[first], &reading.tokens[last]);
    let is_home = home == Some(known.name);
    let next = reading.tokens.get(last + 1).filter(|next| next.text == start.text);
    let heads = reading.openings.get(usize::from(start.text)) == Some(&start.sentence)
        && start.gap == Gap::Line
        && next.is_none_or(|next| next.gap >= Gap::Comma || is_street_word(next));
    let common = end.morph.is(bit::COMMON) && !end.morph.is(bit::PLACE_NAME);
    if !start.tag && start.letters == Letters::Lower && !is_home && (!heads || common) {
        return None;
    }
    // A capital that the sentence asks for makes no town of an everyday word: `Короче, …`.
    let nominative = end.entry().is_some_and(|entry| entry.cases & case::NOM != 0);
    if !start.tag && start.gap >= Gap::Stop && common && !nominative && !is_home && first == last {
        return None;
    }
    if start.quoted && !start.tag {
        return None;
    }
    let before =
        first.checked_sub(1).map(|at| &reading.tokens[at]).filter(|before| before.sentence == start.sentence);
    let near = before.filter(|_| start.gap <= Gap::Space);
    let word_before = near.map_or("", |before| reading.word(before));
    let marker =
        matches!(word_before, "г" | "гор" | "город" | "города" | "городе" | "городу" | "м" | "місто");
    if is_of_district(reading, last)
        || is_street(reading, near, last)
        || near.is_some_and(|before| is_smaller(reading, before))
    {
        return None;
    }
    let tagged = start.tag && tag_alone(reading, first, last);
    let person = end.entry().is_some_and(|entry| entry.person.is_some() || entry.pet.is_some());
    let sure = marker || is_home || (tagged || heads && nominative) && !person;
    if known.needs_marker && !sure {
        return None;
    }
    let mut score = NAMED;
    if start.tag {
        score += HASHTAG;
    } else {
        score += context(reading, first, last, word_before, end.entry().map_or(0, |entry| entry.cases));
        if reading.opens(first) {
            score += OPENING;
        }
    }
    if marker {
        score += MARKER;
    }
    if is_home {
        score += HOME;
    }
    Some(score)
}

fn is_street_word(token: &Token) -> bool {
    is_one_of(token, STREETS.as_slice())
}

static STREETS: LazyLock<[Option<Group>; 2]> =
    LazyLock::new(|| ["street", "avenue"].map(|name| lexicon().group(name)));
static SMALLER: LazyLock<[Option<Group>; 4]> =
    LazyLock::new(|| ["settlement", "garden", "district", "organisation"].map(|name| lexicon().group(name)));

fn is_one_of(token: &Token, groups: &[Option<Group>]) -> bool {
    groups.iter().flatten().any(|group| token.is(*group))
}

/// `посёлок Сосновый Бор`, `ЖК Москва`: something smaller that bears the name of a town.
fn is_smaller(reading: &Reading<'_>, before: &Token) -> bool {
    let one_letter = reading.word(before).chars().count() < 2;
    !one_letter && is_one_of(before, SMALLER.as_slice())
}

/// `в Октябрьском районе`: an adjective that a town is called by too.
fn is_of_district(reading: &Reading<'_>, last: usize) -> bool {
    let word = reading.word(&reading.tokens[last]);
    let next = reading.tokens.get(last + 1).filter(|next| next.gap <= Gap::Space);
    let district = next.is_some_and(|next| {
        let word = reading.word(next);
        ["район", "округ", "поселен", "рынк", "рынок"].iter().any(|noun| word.starts_with(noun))
            || word == "р-н"
    });
    district && ["ом", "ого", "ому", "ый", "ий", "ой"].iter().any(|ending| word.ends_with(ending))
}

fn is_street(reading: &Reading<'_>, before: Option<&Token>, last: usize) -> bool {
    let after = reading.tokens.get(last + 1).filter(|next| next.gap <= Gap::Space);
    before.is_some_and(is_street_word)
        || after.is_some_and(|next| {
            is_street_word(next)
                && !matches!(reading.word(next), "ул" | "улица" | "пр" | "проспект" | "улице")
        })
}

fn tag_alone(reading: &Reading<'_>, first: usize, last: usize) -> bool {
    let sentence = reading.tokens[first].sentence;
    let same = |at: Option<usize>| {
        at.and_then(|at| reading.tokens.get(at))
            .is_some_and(|token| token.sentence == sentence && token.is_word())
    };
    !same(first.checked_sub(1)) && !same(Some(last + 1))
}

fn context(reading: &Reading<'_>, first: usize, last: usize, word_before: &str, cases: u8) -> i32 {
    let start = &reading.tokens[first];
    let next = reading.tokens.get(last + 1).filter(|next| next.text == start.text);
    let closed = next.is_none_or(|next| next.gap >= Gap::Comma);
    match word_before {
        "в" | "во" if cases & case::LOC != 0 && cases & case::ACC == 0 => return IN,
        // `в Кемерово` is said for the place as well as for the way there.
        "в" | "во" if cases & case::LOC == 0 && ends_in_o(reading, last) => return 1,
        "в" | "во" | "из" | "под" | "до" | "от" | "у" | "с" | "из-под" | "через" | "на" | "за" | "около" =>
        {
            return PASSING;
        }
        "по" => return -1,
        _ => {}
    }
    let mut score = 0;
    if start.gap >= Gap::Stop && closed {
        score += HEADING;
    } else if start.gap >= Gap::Comma && closed {
        score += APART;
    } else if start.gap == Gap::Joined && first > 0 {
        score -= 2;
    }
    if !(cases & case::NOM != 0 || start.letters == Letters::Upper) && score == 0 {
        score -= 2;
    }
    score
}

fn ends_in_o(reading: &Reading<'_>, index: usize) -> bool {
    reading.word(&reading.tokens[index]).ends_with('о')
}

/// `котёнок из Исилькуля`: where nothing else is named, where it comes from is where it is.
fn only_from<'m>(reading: &Reading<'_>, mentions: &'m [Mention]) -> Option<(i32, &'m Mention)> {
    let [mention, rest @ ..] = mentions else { return None };
    let from = mention.first.checked_sub(1).map(|before| reading.word(&reading.tokens[before]));
    let same = rest.iter().all(|other| other.city == mention.city);
    (from == Some("из") && same).then_some((ENOUGH, mention))
}

pub(super) fn city(reading: &Reading<'_>, mentions: &[Mention]) -> Option<Fact<String>> {
    let name = |mention: &Mention| lexicon().cities[usize::from(mention.city)].name;
    let mut best: Option<(i32, &Mention)> = None;
    for mention in mentions {
        let same =
            mentions.iter().filter(|other| name(other) == name(mention) && other.first != mention.first);
        let total = mention.score + same.take(2).count() as i32 * AGAIN;
        if mention.score >= ENOUGH - 1 && total >= ENOUGH && best.is_none_or(|(score, _)| total > score) {
            best = Some((total, mention));
        }
    }
    let (_, mention) = best.or_else(|| only_from(reading, mentions))?;
    let name = name(mention).to_owned();
    let rule = if reading.tokens[mention.first].tag { "city.hashtag" } else { "city.name" };
    Some(Fact::new(name, reading.evidence(rule, mention.first, mention.last)))
}
