//! Districts of the large cities by the names that people call them: `Эльмаш`, `на Уралмаше`.
//! The post's own words make the place; a district never fills in the city.

use std::sync::LazyLock;

use super::city;
use crate::content::lexicon::{District, Group, lexicon};
use crate::content::tokens::{Gap, Reading, Token};

/// Mentions looked at: a list of all districts is no place.
const MENTIONS_MAX: usize = 100;

/// A district in the tokens `first..=last`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mention {
    pub first: usize,
    pub last: usize,
}

static STREETS: LazyLock<[Option<Group>; 2]> = LazyLock::new(|| ["street", "avenue"].map(group));
static DISTRICT: LazyLock<Option<Group>> = LazyLock::new(|| group("district"));
static LEADING: LazyLock<[Option<Group>; 2]> = LazyLock::new(|| ["in_prep", "near_prep"].map(group));

fn group(name: &str) -> Option<Group> {
    lexicon().group(name)
}

fn is_one_of(token: &Token, groups: &[Option<Group>]) -> bool {
    groups.iter().flatten().any(|group| token.is(*group))
}

pub(super) fn mentions(reading: &Reading<'_>, home: Option<&str>, cities: &[city::Mention]) -> Vec<Mention> {
    let mut found = Vec::new();
    for (index, token) in reading.tokens.iter().enumerate() {
        let Some(entry) = token.entry().filter(|entry| !entry.districts.is_empty()) else { continue };
        let whole = entry.districts.iter().filter_map(|at| {
            let district = &lexicon().districts[usize::from(*at)];
            Some((city::first_token(reading, index, &district.words)?, district))
        });
        let Some((first, district)) = whole.max_by_key(|(_, district)| district.words.len()) else {
            continue;
        };
        if names(reading, first, index, district, home, cities) {
            found.push(Mention { first, last: index });
        }
        if found.len() == MENTIONS_MAX {
            break;
        }
    }
    found
}

fn names(
    reading: &Reading<'_>,
    first: usize,
    last: usize,
    district: &District,
    home: Option<&str>,
    cities: &[city::Mention],
) -> bool {
    let start = &reading.tokens[first];
    if !start.capital() || start.tag || start.quoted || start.mention || reading.in_footer(start) {
        return false;
    }
    let before =
        first.checked_sub(1).map(|at| &reading.tokens[at]).filter(|before| before.sentence == start.sentence);
    let near = before.filter(|_| start.gap <= Gap::Space);
    let after =
        reading.tokens.get(last + 1).filter(|next| next.sentence == start.sentence && next.gap <= Gap::Space);
    let beside =
        |groups: &[Option<Group>]| [near, after].into_iter().flatten().any(|token| is_one_of(token, groups));
    if beside(STREETS.as_slice()) {
        return false;
    }
    if !district.needs_marker || beside(&[*DISTRICT]) {
        return true;
    }
    let of_post = |city: &u16| {
        let name = lexicon().cities[usize::from(*city)].name;
        home == Some(name)
            || cities.iter().any(|mention| lexicon().cities[usize::from(mention.city)].name == name)
    };
    let led = near.is_some_and(|token| is_one_of(token, LEADING.as_slice()));
    let listed = before.is_some() && start.gap == Gap::Comma;
    district.cities.iter().any(of_post) && (led || listed)
}
