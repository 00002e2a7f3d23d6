//! The labelled corpora: the floors that the product promises.

use domain::content::{Post, analyse};

use super::score::{Score, load, score};

const DEVELOPMENT: &str = include_str!("../../testdata/pets-dev.jsonl");
const DEVELOPMENT_GROUPS: &str = include_str!("../../testdata/groups.json");
const OWN: &str = include_str!("../../testdata/pets-own.jsonl");
const OWN_GROUPS: &str = include_str!("../../testdata/groups-own.json");

fn check(score: &Score, floors: &[(&'static str, f64)]) {
    for (field, floor) in floors {
        let got = match *field {
            "kind" => score.kind_macro_f1,
            "place_on_incidents" => score.place_on_incidents,
            field => score.accuracy(field),
        };
        assert!(got >= *floor, "{field}: {got:.3} is below {floor}\n{}", score.wrong.join("\n"));
    }
}

#[test]
fn the_development_corpus_is_read_above_its_floors() {
    let floors = [
        ("kind", 0.94),
        ("animal", 0.95),
        ("sex", 0.92),
        ("phones", 0.98),
        ("city", 0.95),
        ("place", 0.85),
        ("place_on_incidents", 0.85),
        ("pet_name", 0.88),
        ("when", 0.90),
    ];
    check(&score(&load(DEVELOPMENT, DEVELOPMENT_GROUPS)), &floors);
}

#[test]
fn the_own_corpus_is_read_above_its_floors() {
    let floors = [
        ("kind", 0.94),
        ("animal", 0.95),
        ("sex", 0.92),
        ("phones", 0.98),
        ("city", 0.95),
        ("place", 0.90),
        ("place_on_incidents", 0.90),
        ("pet_name", 0.92),
        ("when", 0.92),
    ];
    check(&score(&load(OWN, OWN_GROUPS)), &floors);
}

#[test]
fn reading_a_post_twice_gives_the_same_facts() {
    for labelled in load(DEVELOPMENT, DEVELOPMENT_GROUPS).iter().step_by(7) {
        let first = analyse(&labelled.post);
        assert_eq!(first, analyse(&labelled.post));
    }
}

/// Invented openings and jokes, one a line as `kind|text`: a wider net for the kinds alone.
#[test]
fn the_kinds_of_many_short_posts_are_told() {
    let lines: Vec<(&str, &str)> = include_str!("../../testdata/kinds-own.txt")
        .lines()
        .filter_map(|line| line.split_once('|'))
        .collect();
    let mut wrong = Vec::new();
    for (kind, text) in &lines {
        let post = Post { text: (*text).to_owned(), date: 1_780_000_000, ..Post::default() };
        let got = analyse(&post).facts.kind.value.name();
        if got != *kind {
            wrong.push(format!("{kind}, got {got}: {text}"));
        }
    }
    let right = 1.0 - wrong.len() as f64 / lines.len() as f64;
    assert!(lines.len() > 300 && right >= 0.92, "{right:.3}\n{}", wrong.join("\n"));
}
