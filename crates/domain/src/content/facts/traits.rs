//! The smaller facts: breed, age, colours, reward and flags.

use std::sync::LazyLock;

use crate::content::lexicon::{Species, lexicon};
use crate::content::pattern::{self, Matcher, Rule};
use crate::content::tokens::{Gap, Reading};
use crate::content::{Age, Animal, Colour, Fact, Flag, Kind};

/// The table of the flags.
pub(super) const TABLE: &str = include_str!("rules/flags.rules");

static RULES: LazyLock<Vec<Rule<Flag>>> = LazyLock::new(|| pattern::rules(TABLE, flag));
static MATCHER: LazyLock<Matcher> = LazyLock::new(|| Matcher::new(lexicon(), &RULES));

fn flag(name: &str) -> Option<Flag> {
    Some(match name {
        "repeat" => Flag::Repeat,
        "follow_up" => Flag::FollowUp,
        "wanted" => Flag::Wanted,
        "litter" => Flag::Litter,
        "many_animals" => Flag::ManyAnimals,
        "injured" => Flag::Injured,
        "dead" => Flag::Dead,
        "on_behalf" => Flag::OnBehalf,
        _ => return None,
    })
}

pub(super) fn flags(reading: &Reading<'_>, animal: Animal) -> Vec<Fact<Flag>> {
    let mut flags: Vec<Fact<Flag>> = Vec::new();
    for hit in MATCHER.hits(reading) {
        let rule = &RULES[hit.rule];
        if flags.iter().any(|fact| fact.value == rule.value) {
            continue;
        }
        flags.push(Fact::new(rule.value, reading.evidence(rule.name, hit.first, hit.last)));
    }
    if animal == Animal::Several && !flags.iter().any(|fact| fact.value == Flag::ManyAnimals) {
        flags.push(Fact::silent(Flag::ManyAnimals));
    }
    flags.sort_by_key(|fact| fact.value);
    flags
}

/// The breed noun, with the adjective that narrows it (`немецкая овчарка`).
pub(super) fn breed(
    reading: &Reading<'_>,
    noun: Option<(usize, Species)>,
    animal: Animal,
) -> Option<Fact<String>> {
    let named = |index: usize| {
        let species = reading.tokens[index].entry()?.species?;
        let breed = species.breed?;
        (animal == Animal::Several || species.animal == animal).then_some((index, breed))
    };
    let first = noun.and_then(|(index, _)| named(index));
    let (index, breed) = first.or_else(|| (0..reading.tokens.len()).find_map(named))?;
    let lemma = lexicon().breeds.get(usize::from(breed))?;
    let mut start = index;
    let mut name = (*lemma).to_owned();
    if index > 0
        && reading.tokens[index].gap <= Gap::Space
        && let Some(stem) = narrowing(reading.word(&reading.tokens[index - 1]))
    {
        start = index - 1;
        name = format!("{stem} {lemma}");
    }
    Some(Fact::new(name, reading.evidence("breed.noun", start, index)))
}

fn narrowing(word: &str) -> Option<&'static str> {
    const ADJECTIVES: &[(&str, &str)] = &[
        ("немецк", "немецкая"),
        ("восточноевропейск", "восточноевропейская"),
        ("кавказск", "кавказская"),
        ("среднеазиатск", "среднеазиатская"),
        ("западносибирск", "западносибирская"),
        ("русск", "русская"),
        ("карельск", "карельская"),
        ("французск", "французский"),
        ("английск", "английский"),
        ("йоркширск", "йоркширский"),
        ("померанск", "померанский"),
        ("шотландск", "шотландская"),
        ("китайск", "китайская"),
        ("канадск", "канадский"),
        ("донск", "донской"),
        ("золотист", "золотистый"),
        ("тибетск", "тибетский"),
    ];
    ADJECTIVES.iter().find(|(stem, _)| word.starts_with(stem)).map(|(_, name)| *name)
}

/// `2 года`, `8 месяцев`, `2,5 года`, `полтора года`.
pub(super) fn age(reading: &Reading<'_>) -> Option<Fact<Age>> {
    for (index, token) in reading.tokens.iter().enumerate() {
        if token.tag || token.mention {
            continue;
        }
        let half = matches!(reading.word(token), "полтора" | "полутора");
        let number = if token.is_number() {
            reading.text(token).parse::<u16>().ok()
        } else {
            token.entry().and_then(|e| e.number)
        };
        let value = match (half, number) {
            (true, _) => 1,
            (false, Some(value)) if value < 30 => value,
            _ => continue,
        };
        let Some(next) = reading.tokens.get(index + 1).filter(|next| next.sentence == token.sentence) else {
            continue;
        };
        let months = match reading.word(next) {
            "год" | "года" | "лет" | "годик" | "годика" | "годиков" => 12,
            "мес" | "месяц" | "месяца" | "месяцев" => 1,
            _ => continue,
        };
        let elapsed =
            reading.tokens.get(index + 2).is_some_and(|after| matches!(reading.word(after), "назад" | "без"));
        if elapsed || value == 0 {
            continue;
        }
        let mut from_months = value * months + if half { 6 } else { 0 };
        let before = index.checked_sub(1).map(|before| &reading.tokens[before]);
        let whole = before.filter(|before| before.is_number() && token.gap == Gap::Comma && value == 5);
        if let Some(years) = whole.and_then(|whole| reading.text(whole).parse::<u16>().ok()) {
            from_months = years.min(30) * months + months / 2;
        }
        let age = Age { from_months, to_months: from_months + if months == 12 { 11 } else { 0 } };
        return Some(Fact::new(age, reading.evidence("age.number", index, index + 1)));
    }
    None
}

/// Colours kept: more than these describe nothing.
const COLOURS_MAX: usize = 6;

pub(super) fn colours(reading: &Reading<'_>, kind: Kind) -> Vec<Fact<Colour>> {
    let mut colours: Vec<Fact<Colour>> = Vec::new();
    if matches!(kind, Kind::Ad | Kind::News | Kind::Other | Kind::Link | Kind::Empty) {
        return colours;
    }
    for (index, token) in reading.tokens.iter().enumerate() {
        let Some(colour) = token.entry().and_then(|entry| entry.colour) else { continue };
        let thing = reading
            .tokens
            .get(index + 1)
            .filter(|next| next.gap <= Gap::Space)
            .map_or("", |next| reading.word(next));
        let worn = [
            "ошейник",
            "шлейк",
            "поводо",
            "комбинезон",
            "куртк",
            "адресник",
            "бант",
            "глаз",
            "резинк",
            "свитер",
            "попон",
            "платок",
        ];
        if token.tag
            || worn.iter().any(|stem| thing.starts_with(stem))
            || colours.iter().any(|fact| fact.value == colour)
        {
            continue;
        }
        if colours.len() < COLOURS_MAX {
            colours.push(Fact::new(colour, reading.evidence("colour.word", index, index)));
        }
    }
    colours
}

/// `вознаграждение 15 тыс`, `кто вернёт — 20 000 р`.
pub(super) fn reward(reading: &Reading<'_>) -> Option<Fact<Option<u64>>> {
    let group = lexicon().group("reward")?;
    let index = reading.tokens.iter().position(|token| token.is(group) && !token.tag)?;
    let sentence = reading.tokens[index].sentence;
    let mut sum = None;
    let mut last = index;
    for (at, token) in reading.tokens.iter().enumerate().skip(index + 1).take(5) {
        if token.sentence != sentence || !token.is_number() {
            continue;
        }
        let mut digits = reading.text(token).to_owned();
        last = at;
        let next = reading.tokens.get(at + 1).filter(|next| next.is_number() && next.gap <= Gap::Space);
        if let Some(thousands) = next.map(|next| reading.text(next)).filter(|digits| digits.len() == 3) {
            digits.push_str(thousands);
            last = at + 1;
        }
        let thousand = reading
            .tokens
            .get(last + 1)
            .is_some_and(|next| matches!(reading.word(next), "тыс" | "тысяч" | "т" | "тр" | "к"));
        sum = digits
            .parse::<u64>()
            .ok()
            .filter(|sum| *sum < 100_000_000)
            .map(|sum| if thousand { sum * 1000 } else { sum });
        break;
    }
    Some(Fact::new(sum, reading.evidence("reward.word", index, last)))
}
