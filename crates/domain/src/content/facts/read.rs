//! Reads a post from end to end: normalise, cut, then every rule family in its order.

use jiff::civil::Date;

use super::{accounts, animal, city, kind, names, phones, place, sex, traits, when};
use crate::content::clean::clean;
use crate::content::normalise::normalise;
use crate::content::tokens::{Reading, TEXTS_MAX};
use crate::content::{Cleaned, FACTS_VERSION, Facts, Post, TextRef};

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
    let (originals, normals) = texts(post);
    let dates = dates(post);
    let reading = Reading::new(originals, normals);
    let home = post.home.city.as_deref();
    let numbers = phones::numbers(&reading);
    let verdict = kind::kind(&reading, &numbers);
    let kind = verdict.kind.value;
    let subject = animal::subject(&reading, kind, &verdict.event);
    let cities = city::mentions(&reading, home);
    let named = names::names(&reading, kind, subject.noun, &cities, &numbers.spans);
    let sex = sex::sex(&reading, kind, subject.animal.value, subject.noun, &named.genders);
    let places = place::places(&reading, kind, &verdict.event, &cities, &named.taken, &numbers.spans);
    let cleaned = clean(&reading, &numbers.spans);
    let animal = subject.animal.value;
    let facts = Facts {
        version: FACTS_VERSION,
        breed: traits::breed(&reading, subject.noun, animal),
        age: traits::age(&reading),
        colours: traits::colours(&reading, kind),
        city: city::city(&reading, &cities),
        place: places.best,
        other_places: places.others,
        when: when::when(&reading, kind, &verdict.event, &dates),
        vk_accounts: accounts::accounts(&reading),
        reward: traits::reward(&reading),
        flags: traits::flags(&reading, animal),
        home_city: post.home.city.clone(),
        contact_names: named.contacts,
        pet_names: named.pets,
        phones: numbers.phones,
        kind: verdict.kind,
        animal: subject.animal,
        sex,
    };
    Analysis { facts, cleaned, steps: reading.steps() }
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
