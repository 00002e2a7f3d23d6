//! Cases on labelled posts, from words to decision: the development corpus with its floors, and the invented sets,
//! of which each is a trap or a story (`set` names it).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::CaseBook;
use crate::content::{Casework, Home, Post, analyse};

/// The least share of pairs put together that belong together, and of pairs that belong together put together.
struct Floors {
    precision: f64,
    recall: f64,
    wrong_max: usize,
}

const DEVELOPMENT: Floors = Floors { precision: 0.98, recall: 0.88, wrong_max: 0 };
const INVENTED: Floors = Floors { precision: 0.98, recall: 0.85, wrong_max: 0 };

struct Labelled {
    key: (i64, i64),
    set: String,
    case: Option<String>,
    linked: Option<String>,
    got: Option<String>,
    related: Vec<String>,
}

#[test]
fn the_development_corpus_keeps_its_cases_apart() {
    let posts =
        run(include_str!("../../../testdata/pets-dev.jsonl"), include_str!("../../../testdata/groups.json"));
    check(&posts, &DEVELOPMENT);
}

#[test]
fn the_invented_sets_keep_their_cases_apart() {
    let posts = run(
        include_str!("../../../testdata/cases-own.jsonl"),
        include_str!("../../../testdata/groups-cases.json"),
    );
    let sets: BTreeSet<&str> = posts.iter().map(|post| post.set.as_str()).collect();
    assert!(sets.len() >= 25, "{} sets", sets.len());
    check(&posts, &INVENTED);
}

#[test]
fn lost_and_found_posts_of_one_animal_are_suggested_to_each_other() {
    let posts = run(
        include_str!("../../../testdata/cases-own.jsonl"),
        include_str!("../../../testdata/groups-cases.json"),
    );
    let names: BTreeMap<&str, &str> =
        posts.iter().filter_map(|post| Some((post.got.as_deref()?, post.case.as_deref()?))).collect();
    let mut wanted = BTreeSet::new();
    let mut suggested = BTreeSet::new();
    for post in &posts {
        let Some(own) = post.case.as_deref() else { continue };
        wanted.extend(post.linked.as_deref().map(|other| unordered(own, other)));
        suggested
            .extend(post.related.iter().filter_map(|case| Some(unordered(own, names.get(case.as_str())?))));
    }
    let missed: Vec<_> = wanted.difference(&suggested).collect();
    assert!(missed.is_empty(), "not suggested: {missed:?}");
}

fn unordered<'a>(one: &'a str, other: &'a str) -> (&'a str, &'a str) {
    if one < other { (one, other) } else { (other, one) }
}

fn check(posts: &[Labelled], floors: &Floors) {
    let (mut together, mut wrong, mut missed) = (0usize, Vec::new(), Vec::new());
    for (index, one) in posts.iter().enumerate() {
        for other in &posts[index + 1..] {
            let (Some(own), Some(theirs)) = (&one.case, &other.case) else { continue };
            let joined = one.got.is_some() && one.got == other.got;
            match (own == theirs, joined) {
                (true, true) => together += 1,
                (false, true) => wrong.push((own, one.key, theirs, other.key)),
                (true, false) => missed.push((own, one.key, other.key)),
                (false, false) => {}
            }
        }
    }
    let precision = together as f64 / (together + wrong.len()) as f64;
    let recall = together as f64 / (together + missed.len()) as f64;
    assert!(wrong.len() <= floors.wrong_max, "wrong merges: {wrong:?}");
    assert!(precision >= floors.precision, "precision {precision}: {wrong:?}");
    assert!(recall >= floors.recall, "recall {recall}: {missed:?}");
}

fn run(posts: &str, groups: &str) -> Vec<Labelled> {
    let groups: BTreeMap<String, Value> = serde_json::from_str(groups).unwrap();
    let mut book = CaseBook::new();
    posts.lines().map(|line| assign(&mut book, &groups, &serde_json::from_str(line).unwrap())).collect()
}

fn assign(book: &mut CaseBook, groups: &BTreeMap<String, Value>, line: &Value) -> Labelled {
    let mut post: Post = serde_json::from_value(line.clone()).unwrap();
    let group = &groups[&post.owner_id.to_string()];
    post.home = Home {
        city: group["city"].as_str().map(str::to_owned),
        utc_offset_minutes: group["utc_offset"].as_i64().unwrap() as i32 * 60,
    };
    let analysis = analyse(&post);
    let decision = book.assign(&post, &analysis.facts, &analysis.cleaned);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Labelled {
        key: (post.owner_id, post.post_id),
        set: text(&line["set"]).unwrap_or_default(),
        case: text(&line["label"]["case"]),
        linked: text(&line["label"]["linked"]),
        related: decision
            .iter()
            .flat_map(|decision| &decision.related)
            .map(|related| related.case.clone())
            .collect(),
        got: decision.map(|decision| decision.case),
    }
}
