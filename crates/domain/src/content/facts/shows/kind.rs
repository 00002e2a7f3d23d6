//! What speaks for a kind: the rules and their sums, the words in their scope and role, the layout.

use super::Seen;
use crate::content::Kind;
use crate::content::evidence::Trail;
use crate::content::evidence::clauses::{People, Scope, Who, roles};
use crate::content::facts::kind::{ByRules, Sums};
use crate::content::facts::phones::Numbers;
use crate::content::lexicon::morph::{Pos, bit, key};
use crate::content::tokens::TokenKind;

/// Sums of rules are divided by this: a rule that nearly decides has about as many points.
const SUM: f32 = 8.0;

pub fn kind(seen: &Seen<'_, '_>, rules: &ByRules, numbers: &Numbers, trail: &mut Trail<'_>) {
    for (text, sums) in [("own", &rules.own), ("all", &rules.all)] {
        summed(text, sums, trail);
    }
    for hit in rules.hits() {
        let (name, first, last) = hit;
        let span = Some((first, last));
        trail.add("rule", &[key(name)], 1.0, span, || name.to_owned());
        if seen.reading.tokens[first].text == 0 {
            trail.add("own-rule", &[key(name)], 1.0, span, || name.to_owned());
        }
    }
    words(seen, trail);
    layout(seen, rules, numbers, trail);
}

fn summed(text: &str, sums: &Sums, trail: &mut Trail<'_>) {
    let mut add = |family: &str, name: &str, value: f32| {
        let label = || format!("{text}+{name}");
        trail.add(family, &[key(text), key(name)], value, None, label);
    };
    for (name, value) in sums.settled() {
        add("sum", name, (value / SUM).clamp(-1.0, 2.0));
    }
    for kind in Kind::ALL {
        add("raw", kind.name(), (sums.of(kind) / SUM).min(2.0));
    }
    add("rules", sums.kind.name(), 1.0);
}

fn words(seen: &Seen<'_, '_>, trail: &mut Trail<'_>) {
    let people = People::new(&[]);
    for (index, token) in seen.reading.tokens.iter().enumerate() {
        if token.kind == TokenKind::Link || token.mention {
            continue;
        }
        let scope = seen.clauses.scope[index];
        if scope == Scope::Footer {
            continue;
        }
        let own = token.text == 0;
        if own {
            seen.say(trail, scope.name(), index);
        } else {
            seen.say_as(trail, "copied", index, scope.name());
        }
        // What an update has overtaken counts by its rules only.
        if matches!(scope, Scope::Tag | Scope::Old) {
            continue;
        }
        seen.say(trail, "any", index);
        if own && seen.reading.opens(index) {
            seen.say(trail, "opens", index);
        }
        pair(seen, index, trail);
        if token.morph.pos == Pos::Verb {
            verb(seen, people, index, trail);
        }
    }
}

fn pair(seen: &Seen<'_, '_>, index: usize, trail: &mut Trail<'_>) {
    let Some(before) = index.checked_sub(1) else { return };
    let (left, right) = (&seen.reading.tokens[before], &seen.reading.tokens[index]);
    if left.sentence != right.sentence || left.kind == TokenKind::Link || left.mention {
        return;
    }
    let name = || format!("{}+{}", seen.label(before), seen.label(index));
    trail.add("pair", &[seen.labels[before], seen.labels[index]], 1.0, Some((before, index)), name);
}

fn verb(seen: &Seen<'_, '_>, people: People<'_>, index: usize, trail: &mut Trail<'_>) {
    let morph = seen.reading.tokens[index].morph;
    let form = match () {
        () if morph.is(bit::FIRST) => "first",
        () if morph.is(bit::SECOND | bit::IMPERATIVE) => "second",
        () if morph.is(bit::PAST | bit::PARTICIPLE) && morph.is(bit::PLUR) => "past-many",
        () if morph.is(bit::PAST | bit::PARTICIPLE) => "past",
        () if morph.is(bit::INFINITIVE) => "infinitive",
        () => "present",
    };
    seen.say_as(trail, "form", index, form);
    let (subject, object) = roles(seen.reading, seen.clauses, people, index);
    if subject != Who::Nobody {
        seen.say_as(trail, "does", index, subject.name());
    }
    if object != Who::Nobody {
        seen.say_as(trail, "done", index, object.name());
    }
}

fn layout(seen: &Seen<'_, '_>, rules: &ByRules, numbers: &Numbers, trail: &mut Trail<'_>) {
    let tokens = &seen.reading.tokens;
    trail.shape("phones", numbers.phones.len().min(2) as f32);
    trail.shape("no-phone", f32::from(u8::from(numbers.phones.is_empty())));
    trail.shape("card", f32::from(u8::from(!numbers.cards.is_empty())));
    trail.shape("purse", f32::from(u8::from(!numbers.money.is_empty())));
    trail.shape_of("own-words", size(rules.own_words));
    trail.shape_of("all-words", size(rules.all_words));
    trail.shape("copied", f32::from(u8::from(rules.all_words > rules.own_words)));
    trail.shape("link", f32::from(u8::from(tokens.iter().any(|token| token.kind == TokenKind::Link))));
    trail.shape("asks", f32::from(u8::from(seen.reading.asks_at_all())));
    let said = || tokens.iter().filter(|token| !seen.reading.in_footer(token));
    let share = |bits: u32| said().filter(|token| token.morph.is(bits)).take(3).count() as f32 / 3.0;
    trail.shape("first-person", share(bit::FIRST));
    trail.shape("imperative", share(bit::IMPERATIVE));
    let animal = |entry: &crate::content::lexicon::Entry| entry.species.is_some_and(|species| species.noun);
    trail.shape("animal", f32::from(u8::from(said().any(|token| token.entry().is_some_and(animal)))));
    let named = said().any(|token| token.capital() && token.entry().is_some_and(|entry| entry.pet.is_some()));
    trail.shape("name", f32::from(u8::from(named)));
}

/// How many words, in steps of a factor of two.
fn size(words: usize) -> &'static str {
    match words {
        0 => "0",
        1..=2 => "1",
        3..=6 => "3",
        7..=14 => "7",
        15..=30 => "15",
        31..=62 => "31",
        _ => "63",
    }
}
