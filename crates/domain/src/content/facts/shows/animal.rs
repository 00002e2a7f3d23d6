//! What speaks for a species: the nouns that the rules weighed, their grammar and neighbours, and every other word.

use super::Seen;
use crate::content::evidence::Trail;
use crate::content::facts::animal::Subject;
use crate::content::lexicon::morph::{bit, key};
use crate::content::tokens::TokenKind;
use crate::content::{Animal, Kind};

pub fn animal(seen: &Seen<'_, '_>, kind: Kind, subject: &Subject, trail: &mut Trail<'_>) {
    voted(subject, trail);
    trail.shape_of("kind", kind.name());
    let mut first = true;
    for (index, token) in seen.reading.tokens.iter().enumerate() {
        if token.kind != TokenKind::Word || token.mention || seen.reading.in_footer(token) {
            continue;
        }
        seen.say(trail, if token.tag { "tag" } else { "word" }, index);
        let class = token.entry().and_then(|entry| entry.species).filter(|species| species.noun);
        // The word itself beside its class: `кошка` and `кот` may weigh differently.
        if class.is_some() {
            let lemma = || crate::content::lexicon::morph::lemma(seen.word(index));
            trail.add("noun", &[token.morph.lemma], 1.0, Some((index, index)), lemma);
            noun(seen, index, first && !token.tag, trail);
            first &= token.tag;
        }
    }
}

/// What the rules' votes look like.
fn voted(subject: &Subject, trail: &mut Trail<'_>) {
    let mut order: Vec<(Animal, f32)> =
        Animal::ALL[..5].iter().map(|animal| (*animal, subject.total(*animal))).collect();
    order.retain(|(_, total)| *total > 0.0);
    order.sort_by(|left, right| right.1.total_cmp(&left.1));
    for (animal, total) in &order {
        trail.add("votes", &[key(animal.name())], (total / 8.0).min(2.0), None, || animal.name().to_owned());
    }
    trail.shape_of("rules", subject.animal.value.name());
    trail.shape_of("top", order.first().map_or("none", |(animal, _)| animal.name()));
    if let [(one, more), (two, less), ..] = order[..] {
        trail.shape_of(
            "second",
            match (less / more * 4.0).round() as u32 {
                0 => "faint",
                1 => "weak",
                2 => "half",
                3 => "strong",
                _ => "equal",
            },
        );
        let (one, two) = if one < two { (one, two) } else { (two, one) };
        let name = || format!("{}+{}", one.name(), two.name());
        trail.add("both", &[key(one.name()), key(two.name())], 1.0, None, name);
    }
}

fn noun(seen: &Seen<'_, '_>, index: usize, first: bool, trail: &mut Trail<'_>) {
    let token = &seen.reading.tokens[index];
    let bits = token.morph.bits;
    let state = match () {
        () if bits & bit::PLUR != 0 && bits & bit::SING == 0 => {
            if bits & bit::NOM != 0 {
                "many"
            } else {
                "among-many"
            }
        }
        () if bits & bit::NOM != 0 => "one",
        () if bits & bit::ACC != 0 => "object",
        () => "oblique",
    };
    seen.say_as(trail, "stands", index, state);
    seen.say_as(trail, "scope", index, seen.clauses.scope[index].name());
    let before =
        index.checked_sub(1).filter(|before| seen.reading.tokens[*before].sentence == token.sentence);
    match before {
        Some(before) => {
            let name = || format!("{}+{}", seen.label(index), seen.label(before));
            trail.add("after", &[seen.labels[index], seen.labels[before]], 1.0, Some((before, index)), name);
            seen.say(trail, "before-animal", before);
        }
        None => seen.say_as(trail, "after", index, "nothing"),
    }
    if first {
        seen.say(trail, "first", index);
    }
    if seen.reading.opens(index) {
        seen.say(trail, "opens", index);
    }
}
