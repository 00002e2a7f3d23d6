//! The scorer of labelled posts: field by field, kinds as macro-F1, cases as pairs, with ranges of confidence.

use std::collections::{BTreeMap, BTreeSet};

use domain::content::cases::CaseBook;
use domain::content::evidence::Weights;
use domain::content::{Casework, Facts, Kind, analyse_with};
use serde::Serialize;

use super::corpus::{Label, Labelled};

pub(crate) const FIELDS: [&str; 8] = ["kind", "animal", "sex", "phones", "city", "place", "pet_name", "when"];

/// What was made of one post.
#[derive(Debug)]
struct Judged<'p> {
    label: &'p Label,
    kind: &'static str,
    right: [bool; FIELDS.len()],
    case: Option<String>,
}

/// The lower and the upper end.
pub(crate) type Range = (f64, f64);

/// The figures of one writer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Score {
    pub writer: String,
    pub posts: usize,
    pub kind_macro_f1: f64,
    /// Nine of ten samples of the same size fall between these; the other ranges are meant alike.
    pub kind_range: Range,
    pub fields: BTreeMap<&'static str, f64>,
    pub field_ranges: BTreeMap<&'static str, Range>,
    pub place_on_incidents: f64,
    pub pair_precision: f64,
    pub pair_recall: f64,
    pub pair_precision_range: Range,
    pub pair_recall_range: Range,
    pub wrong_merges: usize,
    #[serde(skip)]
    pub wrong: Vec<String>,
}

pub(crate) fn score(writer: &str, posts: &[Labelled], weights: &Weights) -> Score {
    let mut book = CaseBook::new();
    let mut wrong = Vec::new();
    let judged: Vec<Judged<'_>> =
        posts.iter().map(|post| judge(post, weights, &mut book, &mut wrong)).collect();
    let all: Vec<&Judged<'_>> = judged.iter().collect();
    let fields = FIELDS.iter().enumerate().map(|(at, field)| (*field, right(&all, at))).collect();
    let placed: Vec<&&Judged<'_>> =
        all.iter().filter(|post| post.label.place.is_some() && is_incident(&post.label.kind)).collect();
    let placed_right = placed.iter().filter(|post| post.right[5]).count() as f64;
    let field_ranges =
        ranges(&all, |posts| std::array::from_fn::<f64, { FIELDS.len() }, _>(|at| right(posts, at)));
    let [kind_range] = ranges(&all, |posts| [macro_f1(posts)]);
    let (good, wrong_merges, missed) = pairs(&all);
    let of_cases: Vec<&Judged<'_>> = all.iter().copied().filter(|post| post.label.case.is_some()).collect();
    let [pair_precision_range, pair_recall_range] = ranges(&of_cases, |posts| {
        let (good, wrong, missed) = pairs(posts);
        [share(good, wrong), share(good, missed)]
    });
    Score {
        writer: writer.to_owned(),
        posts: posts.len(),
        kind_macro_f1: macro_f1(&all),
        kind_range,
        fields,
        field_ranges: FIELDS.into_iter().zip(field_ranges).collect(),
        place_on_incidents: placed_right / placed.len().max(1) as f64,
        pair_precision: share(good, wrong_merges),
        pair_recall: share(good, missed),
        pair_precision_range,
        pair_recall_range,
        wrong_merges,
        wrong,
    }
}

fn judge<'p>(
    labelled: &'p Labelled,
    weights: &Weights,
    book: &mut CaseBook,
    wrong: &mut Vec<String>,
) -> Judged<'p> {
    let analysis = analyse_with(&labelled.post, weights);
    let decision = book.assign(&labelled.post, &analysis.facts, &analysis.cleaned);
    let mut right = [false; FIELDS.len()];
    for (slot, field) in right.iter_mut().zip(FIELDS) {
        let (is, got) = field_right(field, &analysis.facts, &labelled.label);
        *slot = is;
        if !is {
            wrong.push(format!("{field} {}_{}: {got}", labelled.post.owner_id, labelled.post.post_id));
        }
    }
    let kind = analysis.facts.kind.value.name();
    Judged { label: &labelled.label, kind, right, case: decision.map(|decision| decision.case) }
}

fn is_incident(kind: &str) -> bool {
    Kind::ALL.iter().any(|known| known.name() == kind && known.is_incident())
}

fn field_right(field: &str, facts: &Facts, label: &Label) -> (bool, String) {
    let plain = |got: &str, want: &str| (got == want, format!("got {got}, want {want}"));
    match field {
        "kind" => plain(facts.kind.value.name(), &label.kind),
        "animal" => plain(facts.animal.value.name(), label.animal.as_deref().unwrap_or_default()),
        "sex" => plain(facts.sex.value.name(), label.sex.as_deref().unwrap_or_default()),
        "phones" => {
            let got: BTreeSet<&str> = facts.phone_numbers().collect();
            let want: BTreeSet<&str> = label.phones.iter().map(String::as_str).collect();
            (got == want, format!("got {got:?}, want {want:?}"))
        }
        "city" => {
            let got = facts.city.as_ref().map(|fact| fact.value.as_str());
            (got.map(fold) == label.city.as_deref().map(fold), format!("got {got:?}, want {:?}", label.city))
        }
        "when" => {
            let got = facts.when.as_ref().map(|fact| fact.value.to_string());
            // Readers disagree whether the loss or the return is meant.
            (label.kind == "reunited" || got == label.when, format!("got {got:?}, want {:?}", label.when))
        }
        "place" => {
            let got = facts.place.as_ref().map(|fact| fact.value.as_str());
            (right_place(got, label), format!("got {got:?}, want {:?}", label.place))
        }
        _ => {
            let names: Vec<&str> = facts.pet_names.iter().map(|fact| fact.value.as_str()).collect();
            (right_name(&names, label), format!("got {names:?}, want {:?}", label.pet_name))
        }
    }
}

/// A place is right when one contains the other, within 3 to 120 characters.
fn right_place(got: Option<&str>, label: &Label) -> bool {
    let Some(want) = &label.place else { return got.is_none() };
    let Some(got) = got.map(fold).filter(|got| (3..=120).contains(&got.chars().count())) else {
        return false;
    };
    let mut wanted = std::iter::once(want).chain(&label.place_alt).map(|want| fold(want));
    wanted.any(|want| !want.is_empty() && (want.contains(&got) || got.contains(&want)))
}

fn right_name(got: &[&str], label: &Label) -> bool {
    let Some(want) = &label.pet_name else { return got.is_empty() };
    let joined = fold(&got.join(", "));
    let names: BTreeSet<String> = want.split(',').map(fold).collect();
    let single = names.contains(&joined) || label.pet_name_alt.iter().any(|alt| fold(alt) == joined);
    let all: BTreeSet<String> = got.iter().map(|name| fold(name)).collect();
    single || fold(want) == joined || (!all.is_empty() && all == names)
}

/// Case, `ё`, look-alikes, invisible marks, quotes and punctuation do not matter.
pub(crate) fn fold(text: &str) -> String {
    let lower = text.to_lowercase().replace('ё', "е");
    let russian = lower.chars().any(|letter| ('а'..='я').contains(&letter));
    let mut out = String::new();
    for letter in lower.chars() {
        if matches!(
            letter,
            '\u{ad}' | '\u{301}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe0f}' | '\u{feff}'
        ) {
            continue;
        }
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

fn macro_f1(posts: &[&Judged<'_>]) -> f64 {
    let pairs: Vec<(&str, &str)> = posts.iter().map(|post| (post.label.kind.as_str(), post.kind)).collect();
    f1(&pairs)
}

/// The mean over the kinds that were wanted; a pair is what was wanted and what was got.
pub(crate) fn f1(pairs: &[(&str, &str)]) -> f64 {
    let classes: BTreeSet<&str> = pairs.iter().map(|(want, _)| *want).collect();
    let of = |class: &str| {
        let both = pairs.iter().filter(|(want, got)| *want == class && *got == class).count();
        let either = pairs.iter().map(|(want, got)| usize::from(*want == class) + usize::from(*got == class));
        2.0 * both as f64 / either.sum::<usize>().max(1) as f64
    };
    classes.iter().map(|class| of(class)).sum::<f64>() / classes.len().max(1) as f64
}

/// How many posts have this field right.
fn right(posts: &[&Judged<'_>], at: usize) -> f64 {
    posts.iter().filter(|post| post.right[at]).count() as f64 / posts.len().max(1) as f64
}

fn share(good: usize, bad: usize) -> f64 {
    good as f64 / (good + bad).max(1) as f64
}

/// The bootstrap: the same figures on samples drawn from the posts with fixed dice.
fn ranges<'p, 'l, const N: usize>(
    posts: &[&'p Judged<'l>],
    figures: impl Fn(&[&'p Judged<'l>]) -> [f64; N],
) -> [Range; N] {
    const SAMPLES: usize = 200;
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice % posts.len().max(1) as u64) as usize
    };
    let mut drawn: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(SAMPLES));
    for _ in 0..SAMPLES {
        let sample: Vec<&'p Judged<'l>> = posts.iter().map(|_| posts[draw()]).collect();
        drawn.iter_mut().zip(figures(&sample)).for_each(|(of, figure)| of.push(figure));
    }
    drawn.map(|mut figures| {
        figures.sort_by(f64::total_cmp);
        (figures[SAMPLES / 20], figures[SAMPLES - 1 - SAMPLES / 20])
    })
}

/// Pairs put together rightly, wrongly, and missed; over the posts that belong to a case. A post that a sample holds
/// twice is no pair with itself.
fn pairs(posts: &[&Judged<'_>]) -> (usize, usize, usize) {
    let (mut good, mut wrong, mut missed) = (0, 0, 0);
    for (at, one) in posts.iter().enumerate() {
        for other in &posts[at + 1..] {
            if std::ptr::eq(*one, *other) {
                continue;
            }
            let (Some(left), Some(right)) = (&one.label.case, &other.label.case) else { continue };
            match (left == right, one.case.is_some() && one.case == other.case) {
                (true, true) => good += 1,
                (false, true) => wrong += 1,
                (true, false) => missed += 1,
                (false, false) => {}
            }
        }
    }
    (good, wrong, missed)
}
