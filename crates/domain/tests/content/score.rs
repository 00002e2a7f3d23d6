//! The scorer of the labelled corpora: the same rules as the published one, field by field.

use std::collections::{BTreeMap, BTreeSet};

use domain::content::{Facts, Home, Kind, Post, analyse};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Labelled {
    #[serde(flatten)]
    pub post: Post,
    pub label: Label,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Label {
    pub kind: String,
    pub animal: String,
    pub sex: String,
    pub phones: Vec<String>,
    pub city: Option<String>,
    pub place: Option<String>,
    pub pet_name: Option<String>,
    pub when: Option<String>,
    #[serde(default)]
    pub place_alt: Vec<String>,
    #[serde(default)]
    pub pet_name_alt: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Group {
    city: String,
    utc_offset: i32,
}

/// Posts of a corpus with the home of their groups filled in.
pub(crate) fn load(corpus: &str, groups: &str) -> Vec<Labelled> {
    let groups: BTreeMap<String, Group> = serde_json::from_str(groups).expect("groups");
    let mut posts: Vec<Labelled> =
        corpus.lines().map(|line| serde_json::from_str(line).expect("a labelled post")).collect();
    for labelled in &mut posts {
        let group = &groups[&labelled.post.owner_id.to_string()];
        let utc_offset_minutes = group.utc_offset * 60;
        labelled.post.home = Home { city: Some(group.city.clone()), utc_offset_minutes };
    }
    posts
}

/// Accuracy per field, and the wrong answers for people to read.
#[derive(Debug, Default)]
pub(crate) struct Score {
    pub right: BTreeMap<&'static str, usize>,
    pub posts: usize,
    pub kind_macro_f1: f64,
    pub place_on_incidents: f64,
    pub wrong: Vec<String>,
}

impl Score {
    pub(crate) fn accuracy(&self, field: &'static str) -> f64 {
        self.right.get(field).copied().unwrap_or(0) as f64 / self.posts as f64
    }
}

const FIELDS: [&str; 8] = ["kind", "animal", "sex", "phones", "city", "place", "pet_name", "when"];

pub(crate) fn score(posts: &[Labelled]) -> Score {
    let mut score = Score { posts: posts.len(), ..Score::default() };
    let mut kinds: Vec<(String, &str)> = Vec::new();
    let (mut placed, mut placed_right) = (0, 0);
    for labelled in posts {
        let facts = analyse(&labelled.post).facts;
        kinds.push((labelled.label.kind.clone(), facts.kind.value.name()));
        for field in FIELDS {
            let (right, got) = judge(field, &facts, &labelled.label);
            *score.right.entry(field).or_default() += usize::from(right);
            if field == "place" && labelled.label.place.is_some() && is_incident(&labelled.label.kind) {
                placed += 1;
                placed_right += usize::from(right);
            }
            if !right {
                let (owner, post) = (labelled.post.owner_id, labelled.post.post_id);
                score.wrong.push(format!("{field} {owner}_{post}: got {got}"));
            }
        }
    }
    score.kind_macro_f1 = macro_f1(&kinds);
    score.place_on_incidents = f64::from(placed_right as u32) / f64::from(placed.max(1));
    score
}

fn is_incident(kind: &str) -> bool {
    Kind::ALL.iter().any(|known| known.name() == kind && known.is_incident())
}

fn judge(field: &str, facts: &Facts, label: &Label) -> (bool, String) {
    match field {
        "kind" => same(facts.kind.value.name(), &label.kind),
        "animal" => same(facts.animal.value.name(), &label.animal),
        "sex" => same(facts.sex.value.name(), &label.sex),
        "phones" => {
            let got: BTreeSet<&str> = facts.phone_numbers().collect();
            let want: BTreeSet<&str> = label.phones.iter().map(String::as_str).collect();
            (got == want, format!("{got:?}, want {want:?}"))
        }
        "city" => optional(facts.city.as_ref().map(|fact| fact.value.as_str()), label.city.as_deref()),
        "when" => {
            let got = facts.when.as_ref().map(|fact| fact.value.to_string());
            (got == label.when, format!("{got:?}, want {:?}", label.when))
        }
        "place" => {
            let got = facts.place.as_ref().map(|fact| fact.value.as_str());
            (right_place(got, label), format!("{got:?}, want {:?}", label.place))
        }
        _ => {
            let names: Vec<&str> = facts.pet_names.iter().map(|fact| fact.value.as_str()).collect();
            (right_name(&names, label), format!("{names:?}, want {:?}", label.pet_name))
        }
    }
}

fn same(got: &str, want: &str) -> (bool, String) {
    (got == want, format!("{got}, want {want}"))
}

fn optional(got: Option<&str>, want: Option<&str>) -> (bool, String) {
    (got.map(fold) == want.map(fold), format!("{got:?}, want {want:?}"))
}

/// A place is right when one contains the other, within 3 to 120 characters.
fn right_place(got: Option<&str>, label: &Label) -> bool {
    let Some(want) = &label.place else { return got.is_none() };
    let Some(got) = got.map(fold).filter(|got| (3..=120).contains(&got.chars().count())) else {
        return false;
    };
    let mut wanted = std::iter::once(want).chain(&label.place_alt).map(|want| fold(want));
    wanted.any(|want| want.contains(&got) || got.contains(&want))
}

fn right_name(got: &[&str], label: &Label) -> bool {
    let Some(want) = &label.pet_name else { return got.is_empty() };
    let joined = fold(&got.join(", "));
    let names: BTreeSet<String> = want.split(',').map(fold).collect();
    let single = names.contains(&joined) || label.pet_name_alt.iter().any(|alt| fold(alt) == joined);
    let all: BTreeSet<String> = got.iter().map(|name| fold(name)).collect();
    single || fold(want) == joined || (!all.is_empty() && all == names)
}

fn macro_f1(pairs: &[(String, &str)]) -> f64 {
    let classes: BTreeSet<&str> = pairs.iter().map(|(want, _)| want.as_str()).collect();
    let f1 = |class: &str| {
        let both = pairs.iter().filter(|(want, got)| want == class && *got == class).count() as f64;
        let either = pairs.iter().map(|(want, got)| usize::from(want == class) + usize::from(*got == class));
        2.0 * both / either.sum::<usize>() as f64
    };
    classes.iter().map(|class| f1(class)).sum::<f64>() / classes.len() as f64
}

/// Case, `ё`, look-alikes, quotes and punctuation do not matter.
pub(crate) fn fold(text: &str) -> String {
    let lower = text.to_lowercase().replace('ё', "е");
    let russian = lower.chars().any(|letter| ('а'..='я').contains(&letter));
    let mut out = String::new();
    for letter in lower.chars() {
        let alike = "aeopcyxkmthbiі".chars().zip("аеорсухкмтнвии".chars());
        let letter = match alike.into_iter().find(|(latin, _)| russian && *latin == letter) {
            Some((_, russian)) => russian,
            None => letter,
        };
        if letter.is_whitespace() || ".,;:!?()[]«»„“”\"'".contains(letter) {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.push(letter);
        }
    }
    out.trim().to_owned()
}
