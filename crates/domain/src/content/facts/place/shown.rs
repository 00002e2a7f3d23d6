//! A place as readers are shown it: the fact keeps the post's own words, which lean on a preposition that is gone.

/// Forms that need a preposition, and what stands well without one. `район` takes the same case after it as `в районе`
/// does; an abbreviation hides the case.
const LEADS: [(&[&str], &str); 7] = [
    (&["районе", "района", "району", "районом", "р-не", "р-на"], "район"),
    (&["улице", "улицы", "улицу", "улицей"], "ул."),
    (&["проспекте", "проспекта", "проспекту"], "пр."),
    (&["переулке", "переулка", "переулку"], "пер."),
    (&["площади", "площадью"], "пл."),
    (&["бульваре", "бульвара", "бульвару"], "б-р"),
    (&["микрорайоне", "микрорайона", "мкр-не"], "мкр."),
];

/// `районе парка Победы` is shown as `район парка Победы`, `улицы Садовой` as `ул. Садовой`.
pub fn shown_place(place: &str) -> String {
    let (first, rest) = place.split_once(' ').unwrap_or((place, ""));
    let word = first.to_lowercase();
    let lead = LEADS.iter().find(|(forms, _)| forms.contains(&word.as_str())).map(|(_, lead)| *lead);
    match (lead, rest.trim()) {
        (Some(lead), rest) if !rest.is_empty() => format!("{lead} {rest}"),
        _ => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shown_place;

    #[test]
    fn a_place_does_not_begin_with_a_word_that_wants_its_preposition() {
        for (place, shown) in [
            ("районе парка Победы", "район парка Победы"),
            ("районе ул. Мира", "район ул. Мира"),
            ("Р-не автовокзала", "район автовокзала"),
            ("улицы Садовой, дом 5", "ул. Садовой, дом 5"),
            ("проспекте Ленина", "пр. Ленина"),
            ("улица Ямская", "улица Ямская"),
            ("район Заречный", "район Заречный"),
            ("парк Победы", "парк Победы"),
            ("районе", "районе"),
            ("", ""),
        ] {
            assert_eq!(shown_place(place), shown);
        }
    }
}
