//! Evidence that adds up: every word, rule and trait of the layout speaks for or against, and the points are summed.
//!
//! A *question* (which kind, which animal, which sex) has a few answers. What a post shows is a list of features; the
//! table beside this module says how many points each gives to each answer. The table is fitted offline from labelled
//! posts by `rupor-bench fit` and can be read by people: no layer, no hidden state, one sum.
//! It must not know how features are found; only what they weigh.

pub mod clauses;
mod explain;
mod table;

pub use explain::{Explained, Said, Settled, explain};
pub use table::{Line, Table, Weights, ready, texts, weights};

/// Hundredths of a point: what a weight in the table is written in.
pub const POINT: f32 = 100.0;

/// The best answer must be this many points ahead to be sure.
pub const UNSURE: f32 = 0.7;

/// A question that evidence answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    Kind,
    Animal,
    Sex,
}

impl Question {
    pub const ALL: [Question; 3] = [Question::Kind, Question::Animal, Question::Sex];

    pub fn name(self) -> &'static str {
        match self {
            Question::Kind => "kind",
            Question::Animal => "animal",
            Question::Sex => "sex",
        }
    }

    /// The answers, in the order of their weights.
    pub fn answers(self) -> &'static [&'static str] {
        match self {
            Question::Kind => {
                &["lost", "found", "sighting", "reunited", "adoption", "fundraising", "news", "ad", "other"]
            }
            Question::Animal => &["dog", "cat", "bird", "rodent", "other", "several", "unknown"],
            Question::Sex => &["m", "f", "unknown"],
        }
    }
}

/// The most answers that a question has.
pub const ANSWERS_MAX: usize = 9;

/// One thing that a post shows, and the tokens that show it.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    pub key: u64,
    pub value: f32,
    /// First and last token; `None` when it is the shape of the whole.
    pub span: Option<(u32, u32)>,
    /// Its line in the table, where it is summed up at once.
    line: Option<Line>,
}

/// Everything a post shows for one question. Names are kept only where the weights are fitted or looked at; where
/// they are only summed up, what weighs nothing is left out at once.
#[derive(Debug, Default)]
pub struct Trail<'t> {
    pub features: Vec<Feature>,
    pub names: Option<Vec<String>>,
    table: Option<&'t Table>,
    /// How many there were, with those that were left out.
    shown: usize,
}

/// The most features that a post may show; the rest of a very long one adds nothing.
const FEATURES_MAX: usize = 6_000;
/// Room for those of a usual post that weigh something.
const USUAL_HITS: usize = 256;

impl<'t> Trail<'t> {
    pub fn with_names() -> Trail<'t> {
        Trail { names: Some(Vec::new()), ..Trail::default() }
    }

    /// Only what this table weighs.
    pub fn of_table(table: &'t Table) -> Trail<'t> {
        Trail { table: Some(table), features: Vec::with_capacity(USUAL_HITS), ..Trail::default() }
    }

    /// The points of one of its features.
    fn points<'a>(&self, table: &'a Table, feature: &Feature) -> &'a [(u8, i16)] {
        table.points(if self.table.is_some() { feature.line } else { table.line(feature.key) })
    }

    /// What it cost to find.
    pub fn shown(&self) -> usize {
        self.shown
    }

    /// Adds `family:first+second`; the name is only written where somebody wants it.
    pub fn add(
        &mut self,
        family: &str,
        parts: &[u64],
        value: f32,
        span: Option<(usize, usize)>,
        name: impl Fn() -> String,
    ) {
        if self.shown >= FEATURES_MAX || value == 0.0 {
            return;
        }
        self.shown += 1;
        let key = table::join(family, parts);
        let line = self.table.and_then(|table| table.line(key));
        if self.table.is_some() && line.is_none() {
            return;
        }
        let span = span.map(|(first, last)| (first as u32, last as u32));
        self.features.push(Feature { key, value, span, line });
        if let Some(names) = &mut self.names {
            names.push(format!("{family}:{}", name()));
        }
    }

    /// A trait of the whole, which has no words of its own.
    pub fn shape(&mut self, name: &str, value: f32) {
        self.add("is", &[crate::content::lexicon::morph::key(name)], value, None, || name.to_owned());
    }

    /// A trait that takes one of a few values.
    pub fn shape_of(&mut self, family: &str, value: &str) {
        self.add(family, &[crate::content::lexicon::morph::key(value)], 1.0, None, || value.to_owned());
    }

    /// The same feature counts once: the strongest, at its first place.
    pub fn settle(&mut self) {
        if self.names.is_none() {
            return self.settle_unnamed();
        }
        let mut order: Vec<usize> = (0..self.features.len()).collect();
        let strength = |index: &usize| self.features[*index].value.abs();
        order.sort_by(|left, right| {
            let keys = self.features[*left].key.cmp(&self.features[*right].key);
            keys.then(strength(right).total_cmp(&strength(left))).then(left.cmp(right))
        });
        order.dedup_by_key(|index| self.features[*index].key);
        let features = order.iter().map(|index| self.features[*index]).collect();
        if let Some(names) = &mut self.names {
            *names = order.iter().map(|index| std::mem::take(&mut names[*index])).collect();
        }
        self.features = features;
    }
}

impl Trail<'_> {
    /// The same without names, where it is asked for every post: numbers are sorted, the features stand still.
    fn settle_unnamed(&mut self) {
        let keys = self.features.iter().map(|feature| feature.key);
        let mut order: Vec<(u64, u32)> = keys.zip(0..).collect();
        order.sort_unstable();
        let mut settled: Vec<Feature> = Vec::with_capacity(order.len());
        for (key, at) in order {
            let feature = self.features[at as usize];
            match settled.last_mut() {
                Some(last) if last.key == key => {
                    // Of equals the first stays.
                    if feature.value.abs() > last.value.abs() {
                        *last = feature;
                    }
                }
                _ => settled.push(feature),
            }
        }
        self.features = settled;
    }
}

/// The points of every answer, and the share that the best one has.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    pub points: [f32; ANSWERS_MAX],
    pub best: usize,
    pub second: usize,
    /// How many points the best answer is ahead.
    pub margin: f32,
}

/// The words that gave most to the best answer: their first and last tokens.
pub fn strongest(table: &Table, trail: &Trail<'_>, verdict: &Tally, count: usize) -> Vec<(usize, usize)> {
    let mut found: Vec<(f32, (u32, u32))> = Vec::new();
    for feature in &trail.features {
        let Some(span) = feature.span else { continue };
        let weights =
            trail.points(table, feature).iter().find(|(answer, _)| usize::from(*answer) == verdict.best);
        let points = weights.map_or(0.0, |(_, points)| f32::from(*points) * feature.value);
        let known = found.iter().position(|known| known.1 == span);
        match known {
            Some(at) => found[at].0 += points,
            None if points > 0.0 && found.len() < SPANS_MAX => found.push((points, span)),
            None => {}
        }
    }
    found.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    found.truncate(count);
    found.into_iter().map(|(_, (first, last))| (first as usize, last as usize)).collect()
}

/// Stretches of words compared with each other.
const SPANS_MAX: usize = 64;

/// Sums up. `bars` says which answers are not possible.
pub fn decide(question: Question, table: &Table, trail: &Trail<'_>, bars: impl Fn(usize) -> bool) -> Tally {
    let count = question.answers().len();
    let mut points = [0.0; ANSWERS_MAX];
    table.bias().iter().enumerate().for_each(|(answer, weight)| points[answer] = f32::from(*weight) / POINT);
    for feature in &trail.features {
        for (answer, weight) in trail.points(table, feature) {
            points[usize::from(*answer)] += f32::from(*weight) / POINT * feature.value;
        }
    }
    let mut order: Vec<usize> = (0..count).filter(|answer| !bars(*answer)).collect();
    order.sort_by(|left, right| points[*right].total_cmp(&points[*left]).then(left.cmp(right)));
    let best = order.first().copied().unwrap_or(count - 1);
    let second = order.get(1).copied().unwrap_or(best);
    Tally { points, best, second, margin: points[best] - points[second] }
}
