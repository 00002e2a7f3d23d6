//! What the animal is and looks like: species, sex, breed, age, coat and marks.

use super::super::sketch::Sketch;
use super::super::weights::*;
use super::identity::OTHER_SEX;
use super::{Case, Ground, Weighing};
use crate::content::{Animal, Kind, Sex};

pub(super) fn weigh_look(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    weigh_species(weighing, sketch, case);
    let marks: Vec<_> = sketch
        .marks
        .iter()
        .filter(|mark| case.any(|member| member.marks.contains(mark)))
        .take(MARKS_COUNTED)
        .collect();
    // Two animals of one street may look alike, but the same announcement would not be made twice by strangers;
    // a sighting and a search for the same look at the same place are one story.
    let placed = weighing.has(Ground::NamedPlace);
    let other_voice = !case.announced(sketch.kind);
    if other_voice && (marks.len() >= 2 || (placed && !marks.is_empty())) {
        weighing.identified = true;
    }
    for mark in marks {
        weighing.add(
            Ground::Mark,
            MARK,
            format!("same mark: {} {}", mark.thing, mark.look).trim_end().to_owned(),
        );
    }
    if case.any(|member| member.coat.shares(sketch.coat)) {
        weighing.add(Ground::Look, COAT, "same colour");
    } else if case.any(|member| member.coat.contradicts(sketch.coat)) {
        weighing.add(Ground::Look, OTHER_COAT, "another colour");
    }
    weigh_breed(weighing, sketch, case);
    let told = |kind: Kind| kind != Kind::Reunited;
    let apart = |member: &Sketch| match (sketch.age_months, member.age_months) {
        (Some(own), Some(known)) => ages_apart(own, known) >= OTHER_AGE_MONTHS,
        _ => false,
    };
    if told(sketch.kind) && case.any(|member| told(member.kind) && apart(member)) {
        weighing.add(Ground::Look, OTHER_AGE, "another age");
    }
    if sketch.animal != Animal::Unknown && case.members().all(|member| member.litter != sketch.litter) {
        weighing.add(Ground::Look, OTHER_COUNT, "one animal against several");
    }
}

fn ages_apart(one: (u16, u16), other: (u16, u16)) -> i32 {
    let gap = i32::from(one.0.max(other.0)) - i32::from(one.1.min(other.1));
    gap.max(0)
}

pub(super) fn weigh_species(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    match (sketch.animal, case.animal()) {
        (Animal::Unknown, _) | (_, Animal::Unknown) => {}
        (own, known) if own == known => weighing.add(Ground::Look, ANIMAL, format!("both {}", own.name())),
        (Animal::Several, _) | (_, Animal::Several) => {
            weighing.add(Ground::Look, OTHER_COUNT, "one species against several");
        }
        _ if weighing.reposted => {}
        (own, known) => weighing.forbid(format!("{} against {}", own.name(), known.name())),
    }
    match (sketch.sex, case.sex()) {
        (Sex::Unknown, _) | (_, Sex::Unknown) => {}
        (own, known) if own == known => weighing.add(Ground::Look, SEX, "same sex"),
        _ if weighing.reposted => {}
        _ => weighing.forbid(OTHER_SEX),
    }
}

pub(super) fn weigh_breed(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let Some(own) = &sketch.breed else { return };
    let known: Vec<&String> = case.members().filter_map(|member| member.breed.as_ref()).collect();
    if known.iter().any(|breed| same_breed(own, breed)) {
        weighing.add(Ground::Look, BREED, format!("both {own}"));
    } else if !known.is_empty() {
        weighing.add(Ground::Look, OTHER_BREED, "another breed");
    }
}

/// "метис лабрадора" and "лабрадор" may be one dog.
fn same_breed(one: &str, other: &str) -> bool {
    one == other || one.contains(other) || other.contains(one)
}
