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
    let counted = sketch.animal != Animal::Unknown && !sketch.remaining;
    if counted && case.members().all(|member| member.litter != sketch.litter) {
        weighing.add(Ground::Look, OTHER_COUNT, "one animal against several");
    }
}

fn ages_apart(one: (u16, u16), other: (u16, u16)) -> i32 {
    let gap = i32::from(one.0.max(other.0)) - i32::from(one.1.min(other.1));
    gap.max(0)
}

pub(super) fn weigh_species(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    if let Some(known) = case.animal().filter(|_| sketch.animal != Animal::Unknown) {
        let several = sketch.animal == Animal::Several || known.animal == Animal::Several;
        if sketch.animal == known.animal {
            let rare = !matches!(sketch.animal, Animal::Dog | Animal::Cat | Animal::Several);
            let points = if rare { RARE_ANIMAL } else { ANIMAL };
            weighing.rare = rare;
            weighing.add(Ground::Look, points, format!("both {}", sketch.animal.name()));
        } else if several {
            weighing.add(Ground::Look, OTHER_COUNT, "one species against several");
        } else if sketch.animal_sure && known.animal_sure && !weighing.reposted {
            weighing.forbid(format!("{} against {}", sketch.animal.name(), known.animal.name()));
        } else {
            weighing.guessed += OTHER_SPECIES_GUESS;
            weighing.add(Ground::Look, OTHER_SPECIES_GUESS, "probably another species");
        }
    }
    if let Some(known) = case.sex().filter(|_| sketch.sex != Sex::Unknown) {
        if sketch.sex == known.sex {
            weighing.add(Ground::Look, SEX, "same sex");
        } else if sketch.sex_sure && known.sex_sure && !weighing.reposted {
            weighing.forbid(OTHER_SEX);
        } else {
            weighing.guessed += OTHER_SEX_GUESS;
            weighing.add(Ground::Look, OTHER_SEX_GUESS, "probably another sex");
        }
    }
}

pub(super) fn weigh_breed(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let Some(own) = &sketch.breed else { return };
    let known: Vec<&String> = case.members().filter_map(|member| member.breed.as_ref()).collect();
    if known.iter().any(|breed| same_breed(own, breed)) {
        weighing.add(Ground::Breed, BREED, format!("both {own}"));
    } else if !known.is_empty() {
        weighing.add(Ground::Breed, OTHER_BREED, "another breed");
    }
}

/// "метис лабрадора" and "лабрадор" may be one dog.
fn same_breed(one: &str, other: &str) -> bool {
    one == other || one.contains(other) || other.contains(one)
}
