//! Whether somebody who lost an animal should look at one that was found. For people's eyes: it never merges anything.
//!
//! `decide` joins what is certainly one story; this is about what it left apart because wrong merges are worse than missed
//! ones. Animal, town and time have to fit and nothing may contradict; then every hint has points, and a few are needed.

use serde::Serialize;

use super::index::CaseRecord;
use super::sketch::Sketch;
use crate::content::{Animal, Kind, Sex};

/// Points that are worth a look.
pub const SUGGEST_MIN: u32 = 4;
/// An animal may be seen a little before its owner misses it, and be found weeks later.
const DAYS_BEFORE: i64 = 1;
const DAYS_AFTER: i64 = 45;
const DAYS_NEAR: i64 = 4;
const DAY_S: i64 = 86_400;
/// Marks that count; a long description shares many.
const MARKS_COUNTED: usize = 2;

/// Two cases that may be one animal, and what speaks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    pub points: u32,
    /// The strongest first.
    pub hints: Vec<Hint>,
}

/// One thing that both sides say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "hint", content = "what", rename_all = "snake_case")]
pub enum Hint {
    /// A photo that looks the same.
    Picture,
    /// The pet's name.
    Name(String),
    /// A distinctive mark, as the rules know it.
    Mark(String),
    Breed(String),
    /// A street or another place that both name.
    Place(String),
    Colour,
    Sex,
    /// Days from the loss to the find.
    Days(i64),
}

impl Hint {
    fn points(&self) -> u32 {
        match self {
            Hint::Picture => 6,
            Hint::Name(_) => 4,
            Hint::Mark(_) => 3,
            Hint::Breed(_) | Hint::Place(_) | Hint::Colour => 2,
            Hint::Days(days) if days.abs() <= DAYS_NEAR => 1,
            Hint::Sex => 1,
            Hint::Days(_) => 0,
        }
    }
}

/// `None`: they cannot be one animal, or too little speaks for it.
pub fn suggest(lost: &CaseRecord, found: &CaseRecord) -> Option<Suggestion> {
    let is_found = |kind: Kind| matches!(kind, Kind::Found | Kind::Sighting);
    let told =
        |record: &CaseRecord, is: &dyn Fn(Kind) -> bool| record.members.iter().any(|member| is(member.kind));
    let is_lost = |kind: Kind| kind == Kind::Lost;
    if !told(lost, &is_lost) || told(lost, &is_found) || !told(found, &is_found) || told(found, &is_lost) {
        return None;
    }
    let over = |record: &CaseRecord| record.closed_at.is_some();
    let days = day_of(found)? - day_of(lost)?;
    if over(lost) || over(found) || !(-DAYS_BEFORE..=DAYS_AFTER).contains(&days) {
        return None;
    }
    let pairs: Vec<(&Sketch, &Sketch)> =
        lost.members.iter().flat_map(|ours| found.members.iter().map(move |theirs| (ours, theirs))).collect();
    if !pairs.iter().any(|(ours, theirs)| fits(ours, theirs))
        || pairs.iter().any(|(ours, theirs)| contradicts(ours, theirs))
    {
        return None;
    }
    let mut hints = vec![Hint::Days(days)];
    hints.extend(hints_of(&pairs));
    hints.sort_by_key(|hint| std::cmp::Reverse(hint.points()));
    let points = hints.iter().map(Hint::points).sum();
    (points >= SUGGEST_MIN).then_some(Suggestion { points, hints })
}

/// The day of the incident; else the day of the first post.
fn day_of(record: &CaseRecord) -> Option<i64> {
    let named = record.members.iter().filter_map(|member| member.when_day).min();
    named.or_else(|| Some(record.members.iter().map(|member| member.date).min()?.div_euclid(DAY_S)))
}

fn fits(ours: &Sketch, theirs: &Sketch) -> bool {
    let one_animal =
        !matches!(ours.animal, Animal::Unknown | Animal::Several) && ours.animal == theirs.animal;
    one_animal && ours.any_city().is_some() && ours.any_city() == theirs.any_city()
}

fn contradicts(ours: &Sketch, theirs: &Sketch) -> bool {
    let other_sex = ours.sex != Sex::Unknown && theirs.sex != Sex::Unknown && ours.sex != theirs.sex;
    let other_animal = ours.animal_sure
        && theirs.animal_sure
        && ours.animal != theirs.animal
        && theirs.animal != Animal::Unknown;
    let other_breed = ours
        .breed
        .as_deref()
        .zip(theirs.breed.as_deref())
        .is_some_and(|(one, other)| !same_breed(one, other));
    (other_sex && ours.sex_sure && theirs.sex_sure)
        || other_animal
        || other_breed
        || ours.coat.contradicts(theirs.coat)
        || ours.litter != theirs.litter
}

fn hints_of(pairs: &[(&Sketch, &Sketch)]) -> Vec<Hint> {
    let mut hints = Vec::new();
    let any = |is: &dyn Fn(&Sketch, &Sketch) -> bool| pairs.iter().any(|(ours, theirs)| is(ours, theirs));
    let near = |ours: &Sketch, theirs: &Sketch| {
        ours.pictures.iter().any(|one| theirs.pictures.iter().any(|other| one.is_near(*other)))
    };
    if any(&near) {
        hints.push(Hint::Picture);
    }
    let name = |(ours, theirs): &(&Sketch, &Sketch)| {
        let same = ours.names.iter().find(|one| theirs.names.iter().any(|other| other.stems == one.stems));
        same.map(|name| Hint::Name(name.name.clone()))
    };
    hints.extend(pairs.iter().find_map(name));
    let mut marks: Vec<String> = pairs
        .iter()
        .flat_map(|(ours, theirs)| ours.marks.iter().filter(|mark| theirs.marks.contains(mark)))
        .map(|mark| format!("{} {}", mark.thing, mark.look).trim_end().to_owned())
        .collect();
    marks.sort();
    marks.dedup();
    hints.extend(marks.into_iter().take(MARKS_COUNTED).map(Hint::Mark));
    let breed = |(ours, theirs): &(&Sketch, &Sketch)| {
        let (one, other) = (ours.breed.as_deref()?, theirs.breed.as_deref()?);
        same_breed(one, other).then(|| Hint::Breed(one.to_owned()))
    };
    hints.extend(pairs.iter().find_map(breed));
    let place = |(ours, theirs): &(&Sketch, &Sketch)| {
        let theirs: Vec<&String> = theirs.places.iter().flat_map(|place| &place.words).collect();
        let shared = ours.places.iter().flat_map(|place| &place.words).find(|word| theirs.contains(word));
        shared.map(|word| Hint::Place(word.clone()))
    };
    hints.extend(pairs.iter().find_map(place));
    if any(&|ours, theirs| ours.coat.shares(theirs.coat)) {
        hints.push(Hint::Colour);
    }
    if any(&|ours, theirs| ours.sex != Sex::Unknown && ours.sex == theirs.sex) {
        hints.push(Hint::Sex);
    }
    hints
}

/// "метис лабрадора" and "лабрадор" may be one dog.
fn same_breed(one: &str, other: &str) -> bool {
    one.contains(other) || other.contains(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::cases::CaseBook;
    use crate::content::{Casework, Post, analyse};
    use crate::ids::CaseId;

    const LOST: &str =
        "Пропала собака в Тюмени на улице Ямской 12 ноября, такса, рыжая, в красном ошейнике, кличка Буся.";

    fn record(text: &str, days_later: i64) -> CaseRecord {
        let date = 1_794_700_000 + days_later * DAY_S;
        let post = Post { owner_id: -1, post_id: 1, date, text: text.into(), ..Post::default() };
        let analysed = analyse(&post);
        let mut book = CaseBook::new();
        book.assign(&post, &analysed.facts, &analysed.cleaned);
        book.record(CaseId(1)).unwrap_or_else(|| panic!("about no case: {text}")).clone()
    }

    fn check(found: &str, days_later: i64, expected: Option<&[&str]>) {
        let suggestion = suggest(&record(LOST, 0), &record(found, days_later));
        let told = suggestion.as_ref().map(|suggestion| {
            let hints = suggestion.hints.iter().map(|hint| serde_json::to_value(hint).unwrap());
            hints.map(|hint| hint["hint"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        });
        assert_eq!(
            told.as_deref(),
            expected.map(|hints| hints.iter().map(|hint| (*hint).to_owned()).collect::<Vec<_>>()).as_deref(),
            "{found}: {suggestion:?}"
        );
    }

    #[test]
    fn what_both_sides_say_is_told() {
        check(
            "Найдена такса в Тюмени, рыжая, в красном ошейнике. Ищем хозяев!",
            2,
            Some(&["mark", "breed", "colour", "days"]),
        );
    }

    #[test]
    fn another_animal_town_colour_or_time_is_not_suggested() {
        check("Найдена кошка в Тюмени, рыжая, в красном ошейнике. Ищем хозяев!", 2, None);
        check("Найдена такса в Омске, рыжая, в красном ошейнике. Ищем хозяев!", 2, None);
        check("Найдена такса в Тюмени, чёрная, в красном ошейнике. Ищем хозяев!", 2, None);
        check("Найдена такса в Тюмени, рыжая, в красном ошейнике. Ищем хозяев!", 90, None);
        check("Найдена собака в Тюмени, ищем хозяев!", 2, None);
    }

    #[test]
    fn two_searches_are_not_each_other() {
        assert_eq!(suggest(&record(LOST, 0), &record(LOST, 1)), None);
    }
}
