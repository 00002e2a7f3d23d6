//! The examples of `docs/content.md` are true.

use domain::content::fingerprint::{fingerprint, fingerprint_source};
use domain::content::{Facts, Home, Post, analyse};

const PAGE: &str = include_str!("../../../../docs/content.md");

/// Blocks marked `post`: the text, and the facts that it must give.
fn examples() -> Vec<(String, Vec<(String, String)>)> {
    let mut examples = Vec::new();
    for block in PAGE.split("```post\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let (facts, text): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with("=> "));
        let facts = facts.iter().map(|line| {
            let (name, value) = line[3..].split_once(' ').expect("a fact and its value");
            (name.to_owned(), value.to_owned())
        });
        examples.push((text.join("\n"), facts.collect()));
    }
    examples
}

fn show(facts: &Facts, name: &str) -> String {
    let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let list = |values: Vec<String>| if values.is_empty() { "none".to_owned() } else { values.join(", ") };
    match name {
        "kind" => facts.kind.value.name().to_owned(),
        "animal" => facts.animal.value.name().to_owned(),
        "sex" => facts.sex.value.name().to_owned(),
        "phones" => list(facts.phone_numbers().map(str::to_owned).collect()),
        "pet_name" => list(facts.pet_names.iter().map(|fact| fact.value.clone()).collect()),
        "contact" => list(facts.contact_names.iter().map(|fact| fact.value.clone()).collect()),
        "city" => text(facts.city.as_ref().map(|fact| fact.value.clone())),
        "place" => text(facts.place.as_ref().map(|fact| fact.value.clone())),
        "when" => text(facts.when.as_ref().map(|fact| fact.value.to_string())),
        "breed" => text(facts.breed.as_ref().map(|fact| fact.value.clone())),
        "reward" => text(facts.reward.as_ref().and_then(|fact| fact.value).map(|sum| sum.to_string())),
        "flag" => list(facts.flags.iter().map(|fact| format!("{:?}", fact.value).to_lowercase()).collect()),
        other => panic!("the page names an unknown fact: {other}"),
    }
}

#[test]
fn every_example_of_the_page_is_true() {
    let home = Home { city: Some("Пермь".to_owned()), utc_offset_minutes: 300 };
    let examples = examples();
    assert!(examples.len() >= 25, "{} examples", examples.len());
    for (text, wanted) in examples {
        let post = Post { text: text.clone(), date: 1_763_190_000, home: home.clone(), ..Post::default() };
        let facts = analyse(&post).facts;
        for (name, value) in wanted {
            let got = show(&facts, &name);
            let right = if name == "place" && value != "none" { got.contains(&value) } else { got == value };
            assert!(right, "{text}\n{name}: got {got}, want {value}");
        }
    }
}

#[test]
fn the_fingerprints_of_the_page_are_true() {
    let rows: Vec<Vec<String>> = PAGE
        .lines()
        .filter(|line| line.contains("t=sha1:") && line.starts_with("| `"))
        .map(|line| line.replace("\\|", "\u{1}").split('|').map(|cell| cell.replace('\u{1}', "|")).collect())
        .collect();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let cell = |index: usize| row[index].trim().trim_matches('`').to_owned();
        let analysis = analyse(&Post { text: cell(1), ..Post::default() });
        assert_eq!(fingerprint_source(&analysis.facts, &analysis.cleaned, false), Some(cell(2)));
        assert_eq!(fingerprint(&analysis.facts, &analysis.cleaned, false), Some(cell(3)));
    }
}
