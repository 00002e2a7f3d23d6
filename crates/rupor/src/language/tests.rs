//! The catalogue is complete, and phrases are said as people say them.

use std::collections::BTreeSet;
use std::path::Path;

use super::phrase::next_place;
use super::*;

/// Names of the places, each once; a choice of words counts as its number.
fn places(mut text: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    while let Some((_, place, rest)) = next_place(text) {
        names.insert(place.split(':').next().unwrap_or(place));
        text = rest;
    }
    names
}

/// How many words each choice of a text offers.
fn choices(mut text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    while let Some((_, place, rest)) = next_place(text) {
        found.extend(place.split_once(':').map(|(_, forms)| forms.split('|').count()));
        text = rest;
    }
    found
}

/// Whether anything is said besides what stands in the places.
fn has_words(mut text: &str) -> bool {
    let mut words = String::new();
    while let Some((before, _, rest)) = next_place(text) {
        words += before;
        text = rest;
    }
    (words + text).chars().any(char::is_alphabetic)
}

#[test]
fn every_text_is_there_in_both_languages_with_the_same_places() {
    let mut wrong = Vec::new();
    let mut ids = BTreeSet::new();
    for (name, file) in catalogue::FILES {
        let blocks =
            file.split("\n\n").map(|block| block.lines().filter(|line| !line.trim_start().starts_with('#')));
        let blocks = blocks.map(|lines| lines.filter(|line| !line.trim().is_empty()).count());
        for (at, _) in blocks.enumerate().filter(|(_, lines)| ![0, 3].contains(lines)) {
            wrong.push(format!("{name}.txt: block {at} is not an id and two texts"));
        }
        for text in catalogue::read(file) {
            if !ids.insert(text.id) {
                wrong.push(format!("{} is there twice", text.id));
            }
            if places(text.en) != places(text.ru) {
                wrong.push(format!(
                    "{}: the places differ: {:?} {:?}",
                    text.id,
                    places(text.en),
                    places(text.ru)
                ));
            }
            if choices(text.en).iter().any(|n| *n != 2) || choices(text.ru).iter().any(|n| *n != 3) {
                wrong.push(format!("{}: English has two forms of a word, Russian three", text.id));
            }
            if has_words(text.en) && !text.ru.to_lowercase().chars().any(|c| ('а'..='я').contains(&c)) {
                wrong.push(format!("{}: the second text is not Russian", text.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sources of this crate, but for the catalogue.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        match path.is_dir() {
            true if path.ends_with("catalogue") => {}
            false if path.ends_with("language/tests.rs") => {}
            true => sources(&path, found),
            false if ["rs", "html", "js"].contains(&name) => {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.push(code.collect::<Vec<_>>().join(
                    "
",
                ));
            }

            false => {}
        }
    }
}

#[test]
fn every_text_is_used_and_every_id_that_is_used_is_there() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let all = files.join("\n");
    let quoted = |id: &str| ['"', '\'', '`'].iter().any(|mark| all.contains(&format!("{mark}{id}{mark}")));
    // Of the board's words its own tests know which are said.
    let elsewhere = |id: &str| id.starts_with("heard.") || id.starts_with("board.");
    let unused = catalogue::all().filter(|text| !elsewhere(text.id) && !quoted(text.id));
    let unused: Vec<&str> = unused.map(|text| text.id).collect();
    assert!(unused.is_empty(), "nothing says {unused:?}");
    let mut unknown = Vec::new();
    for (at, _) in all.match_indices("say!(") {
        let from = all[at + "say!(".len()..].trim_start();
        if let Some(id) = from.strip_prefix('"').and_then(|from| from.split('"').next()) {
            unknown.extend(catalogue::find(id).is_none().then_some(id));
        }
    }
    assert!(unknown.is_empty(), "not in the catalogue: {unknown:?}");
}

#[test]
fn numbers_choose_their_words() {
    let said = |n: i64| {
        let phrase = say!("status.n_troubles", n = n);
        (phrase.in_language(Language::En), phrase.in_language(Language::Ru))
    };
    let cases = [
        (1, "1 trouble", "1 неполадка"),
        (2, "2 troubles", "2 неполадки"),
        (5, "5 troubles", "5 неполадок"),
        (11, "11 troubles", "11 неполадок"),
        (21, "21 troubles", "21 неполадка"),
        (112, "112 troubles", "112 неполадок"),
        (0, "0 troubles", "0 неполадок"),
    ];
    for (n, en, ru) in cases {
        assert_eq!(said(n), (en.to_owned(), ru.to_owned()));
    }
}

#[test]
fn programs_always_get_english() {
    let phrase = say!("status.n_troubles", n = 2_i64);
    assert_eq!(serde_json::json!(phrase), "2 troubles");
    assert_eq!(phrase.to_string(), "2 troubles");
}

#[test]
fn a_language_is_found_as_other_programs_find_it() {
    let of = |set: &[(&str, &str)]| {
        Language::of_environment(&|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(of(&[]), Language::En);
    assert_eq!(of(&[("LANG", "ru_RU.UTF-8")]), Language::Ru);
    assert_eq!(of(&[("LANG", "ru_RU.UTF-8"), ("RUPOR_LANG", "en")]), Language::En);
    assert_eq!(of(&[("LANG", "ru_RU.UTF-8"), ("LC_ALL", "C")]), Language::En);
    assert_eq!(of(&[("LANG", "de_DE"), ("LC_ALL", "")]), Language::En);
}

#[test]
fn spans_are_said_in_both_languages() {
    use domain::time::Span;
    assert_eq!(span(Span::from_secs(90), Language::En), "1 min 30 s");
    assert_eq!(span(Span::from_secs(90), Language::Ru), "1 мин 30 с");
    assert_eq!(span(Span::from_secs(90_000), Language::Ru), "1 д 1 ч");
}

#[test]
fn a_page_gets_its_words_as_json() {
    let words = as_json(Language::Ru, "state.");
    assert_eq!(words["state.open"], "открыт");
    assert!(words.get("status.trouble").is_none());
}
