//! A place as readers are shown it: the fact keeps the post's own words, which lean on a preposition and its case.

use crate::content::lexicon::nominative::{Stance, nominative};

/// Prepositions that vanish with the case they ask for. Others (`у`, `около`, `за`) say where and stay.
const LED_BY: [(&[&str], &[&str]); 2] =
    [(&["в", "во", "на"], &["Loc", "Acc"]), (&["с", "со", "из", "от"], &["Gen"])];
/// Without one the words may stand in any of these.
const OBLIQUE: [&str; 4] = ["Loc", "Gen", "Dat", "Ins"];

/// Abbreviations and words whose names the dictionary does not know, and what stands well without a preposition.
/// `район` takes the same case after it as `в районе` does; an abbreviation hides the case.
const LEADS: [(&[&str], &str); 7] = [
    (&["районе", "района", "району", "районом", "р-не", "р-на"], "район"),
    (&["улице", "улицы", "улицу", "улицей"], "ул."),
    (&["проспекте", "проспекта", "проспекту"], "пр."),
    (&["переулке", "переулка", "переулку"], "пер."),
    (&["площади", "площадью"], "пл."),
    (&["бульваре", "бульвара", "бульвару"], "б-р"),
    (&["микрорайоне", "микрорайона", "мкр-не"], "мкр."),
];

/// `районе парка Победы` is shown as `район парка Победы`, `на Тобольском тракте` as `Тобольский тракт`.
pub fn shown_place(place: &str) -> String {
    let (first, rest) = place.split_once(' ').unwrap_or((place, ""));
    let word = first.to_lowercase();
    let led = LED_BY.iter().find(|(prepositions, _)| prepositions.contains(&word.as_str()));
    let shown = match led {
        Some((_, cases)) => in_nominative(rest.trim(), cases, true),
        None => in_nominative(place, &OBLIQUE, false),
    };
    if let Some(shown) = shown {
        return shown;
    }
    match (lead(first), rest.trim()) {
        (Some(lead), rest) if !rest.is_empty() => format!("{lead} {rest}"),
        _ => place.to_owned(),
    }
}

fn lead(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    LEADS.iter().find(|(forms, _)| forms.contains(&word.as_str())).map(|(_, lead)| *lead)
}

/// The noun that the words begin with, in the nominative with its adjectives; what follows it keeps its case.
fn in_nominative(place: &str, cases: &[&str], led: bool) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = place;
    while let Some(length) = rest.find(|c: char| !c.is_alphabetic() && c != '-').or(Some(rest.len())) {
        let word = &rest[..length];
        let next = rest[length..].strip_prefix(' ');
        if !word.is_empty() {
            words.push(word);
        }
        match next {
            Some(next) if !word.is_empty() => rest = next,
            _ => {
                rest = &rest[length..];
                break;
            }
        }
    }
    // `остановки «Пионер»`, `школы №3`: what has a name or a number is one. A capital with a number is an address.
    let first = *words.first()?;
    let (street, capital) = (lead(first).is_some(), first.starts_with(char::is_uppercase));
    let one =
        words.len() == 1 && rest.starts_with(|c: char| "«\"№".contains(c) || c.is_ascii_digit() && !capital);
    let changed = nominative(&words, Stance { cases, leans: led || one || street, named: street })?;
    if changed.len() == 1 && capital && !one && !street {
        return None;
    }
    // A name after its kind, as `Садовой` after `улицы`, is understood or the whole is left as it is.
    let unknown = words.get(changed.len()).is_some_and(|name| name.ends_with("ой") || name.ends_with("ей"));
    if unknown && street {
        return None;
    }
    let kept = words[..changed.len()].join(" ").len();
    Some(format!("{}{}", changed.join(" "), &place[kept..]))
}

#[cfg(test)]
mod tests {
    use super::shown_place;

    #[test]
    fn a_place_is_shown_in_the_nominative() {
        for (place, shown) in [
            ("районе парка Победы", "район парка Победы"),
            ("районе ул. Мира", "район ул. Мира"),
            ("районе Липовой горы", "район Липовой горы"),
            ("улицы Садовой, дом 5", "улица Садовая, дом 5"),
            ("улице Мира", "улица Мира"),
            ("улице Ыргызской", "улица Ыргызская"),
            ("улице Богдана Хмельницкого", "улица Богдана Хмельницкого"),
            ("проспекте Ленина", "проспект Ленина"),
            ("на Осеннем бульваре", "Осенний бульвар"),
            ("на Тобольском тракте, 19 км", "Тобольский тракт, 19 км"),
            ("в Балатовском лесу", "Балатовский лес"),
            ("с Комсомольского парка", "Комсомольский парк"),
            ("от Андреевского озера", "Андреевское озеро"),
            ("парковке у ТЦ «Солнечный»", "парковка у ТЦ «Солнечный»"),
            ("остановки «Пионер»", "остановка «Пионер»"),
            ("школы 12", "школа 12"),
            ("дачах Тобольского тракта", "дачи Тобольского тракта"),
            ("районе", "район"),
            ("УЛИЦЫ КЛУБНОЙ", "УЛИЦА КЛУБНАЯ"),
            ("на Усть-Курдюмском шоссе", "Усть-Курдюмское шоссе"),
            ("остановке Цветной проезд", "остановка Цветной проезд"),
        ] {
            assert_eq!(shown_place(place), shown);
        }
    }

    #[test]
    fn what_is_not_sure_or_stands_well_is_left() {
        for place in [
            "улица Ямская",
            "район Заречный",
            "парк Победы",
            "Заречный район",
            "у Комсомольского парка",
            "около «Солнечного»",
            "на Рахова",
            "с Мильчакова",
            "на Гайве, возле школы",
            "Широтная 156",
            "Ленина",
            "Свободы 9",
            "ПРОХОДНОЙ КОБЕЛЬ",
            "дачи Тобольского тракта",
            "",
        ] {
            assert_eq!(shown_place(place), place);
        }
        assert_eq!(shown_place("Р-не автовокзала"), "район автовокзала");
        assert_eq!(shown_place("улице Костей"), "ул. Костей");
    }
}
