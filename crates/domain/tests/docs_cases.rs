//! Runs every example of `docs/content-cases.md` and compares its table of points with the code.

#![expect(clippy::unwrap_used, reason = "an example that cannot be read fails the test")]

use std::collections::BTreeMap;

use domain::content::cases::CaseBook;
use domain::content::tags::{TagContext, tags};
use domain::content::{Belonging, Casework, Home, Post, analyse};
use domain::route::{Route, Subject};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/content-cases.md");
const WEIGHTS: &str = include_str!("../src/content/cases/weights.rs");

/// The fenced blocks of one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.match_indices(&fence)
        .map(|(at, _)| {
            let block = &PAGE[at + fence.len()..];
            &block[..block.find("```").expect("a block has an end")]
        })
        .collect()
}

#[test]
fn every_story_is_told_as_the_page_says() {
    let stories = blocks("cases");
    assert!(stories.len() >= 4);
    stories.into_iter().for_each(check_story);
}

fn check_story(block: &str) {
    let mut posts: Vec<Value> = block.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    posts.sort_by(|one, other| one["day"].as_f64().unwrap().total_cmp(&other["day"].as_f64().unwrap()));
    let mut book = CaseBook::new();
    let mut cases: BTreeMap<String, String> = BTreeMap::new();
    for (number, line) in posts.iter().enumerate() {
        let post = Post {
            owner_id: -1,
            post_id: number as i64 + 1,
            date: 1_760_000_000 + (line["day"].as_f64().unwrap() * 86_400.0) as i64,
            text: line["text"].as_str().unwrap().to_owned(),
            photos: serde_json::from_value(line["photos"].clone()).unwrap_or_default(),
            home: Home { city: Some("Самара".to_owned()), utc_offset_minutes: 240 },
            ..Post::default()
        };
        let analysis = analyse(&post);
        let decision = book.assign(&post, &analysis.facts, &analysis.cleaned).expect("the post has a case");
        let name =
            |case: &str| cases.iter().find(|(_, known)| *known == case).map(|(id, _)| id.clone()).unwrap();
        let mut told = match decision.verdict {
            Belonging::New => "new".to_owned(),
            Belonging::Same => format!("same as {}", name(&decision.case)),
        };
        for related in decision.related.iter().filter(|_| decision.verdict == Belonging::New) {
            told.push_str(&format!(", related to {}", name(&related.case)));
        }
        assert_eq!(told, line["expect"].as_str().unwrap(), "{line}\n{:#?}", decision.reasons);
        cases.entry(line["id"].as_str().unwrap().to_owned()).or_insert(decision.case);
    }
}

#[test]
fn every_route_decides_as_the_page_says() {
    let routes = blocks("route");
    assert!(routes.len() >= 2);
    for block in routes {
        let (written, lines) = block.split_once('\n').unwrap();
        let route = Route::parse(&serde_json::from_str(written).unwrap()).unwrap();
        for line in lines.lines() {
            let (expected, text) = line.split_once(" | ").expect(line);
            let analysis = analyse(&Post { text: text.to_owned(), ..Post::default() });
            let tags = tags(&analysis.facts, TagContext::default());
            let verdict = route.check(&Subject { tags: &tags, facts: &analysis.facts, text });
            let told = format!("{} {}", if verdict.passes { "pass" } else { "stop" }, verdict.because);
            assert_eq!(told, expected, "{text}");
        }
    }
}

#[test]
fn every_refused_route_says_what_the_page_says() {
    for block in blocks("route-error") {
        let (written, message) = block.split_once('\n').unwrap();
        let error = Route::parse(&serde_json::from_str(written).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), message.trim_end());
    }
}

#[test]
fn the_table_of_points_is_the_table_in_the_code() {
    let coded: BTreeMap<&str, &str> = WEIGHTS
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.strip_suffix(';')?.split_once(": i32 = "))
        .filter(|(name, _)| !name.ends_with("_DIVISOR") && !name.ends_with("_MONTHS"))
        .collect();
    let written: BTreeMap<&str, &str> = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter_map(|(name, rest)| Some((name, rest.split_once(" | ")?.0)))
        .filter(|(_, points)| points.parse::<i32>().is_ok())
        .collect();
    assert_eq!(written, coded);
}
