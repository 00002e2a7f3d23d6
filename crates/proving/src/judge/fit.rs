//! Fits the weights of evidence: a linear model with one sum per answer, trained by small steps in a fixed order.
//!
//! Only additions, multiplications, divisions and square roots are used, which every machine rounds alike, and the
//! result is written in hundredths: the same posts give the same table, byte by byte.

use std::collections::BTreeMap;
use std::fmt::Write;

use domain::content::evidence::{POINT, Question, Trail};

/// What one labelled post teaches about a question.
#[derive(Debug)]
pub(crate) struct Example {
    pub trail: Trail<'static>,
    pub answer: usize,
    /// Posts that the rules were written on say less about posts that nobody has seen.
    pub weight: f64,
}

/// How hard a question is pulled towards zero, and how often a feature must have been seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub pull: f64,
    pub seen_min: usize,
    pub rounds: usize,
    /// Whether rare answers count more: for kinds all are worth the same, a sex is right or wrong.
    pub balanced: bool,
}

impl Settings {
    pub(crate) fn of(question: Question) -> Settings {
        match question {
            Question::Kind => Settings { pull: 2.0, seen_min: 3, rounds: 30, balanced: true },
            Question::Animal => Settings { pull: 1.5, seen_min: 2, rounds: 30, balanced: true },
            Question::Sex => Settings { pull: 1.5, seen_min: 2, rounds: 30, balanced: false },
        }
    }
}

/// A step of this size at first; AdaGrad makes them smaller.
const STEP: f64 = 0.2;
/// Weights below this many hundredths change nothing and are left out.
const LEAST: f64 = 4.0;

struct Model<'e> {
    names: Vec<&'e str>,
    answers: usize,
    /// Weights, their averages and the squares of the steps so far: one row a feature, the last row is the bias.
    weights: Vec<f64>,
    sums: Vec<f64>,
    squares: Vec<f64>,
    seen: Vec<f64>,
}

/// The table of a question, as text.
pub(crate) fn fit(question: Question, examples: &[&Example], settings: Settings) -> String {
    let answers = question.answers().len();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for example in examples {
        for name in example.trail.names.iter().flatten() {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count >= settings.seen_min);
    let index: BTreeMap<&str, usize> = counts.keys().enumerate().map(|(at, name)| (*name, at)).collect();
    let rows: Vec<Vec<(usize, f64)>> = examples.iter().map(|example| row(example, &index)).collect();
    let size = (index.len() + 1) * answers;
    let mut seen: Vec<f64> = counts.values().map(|count| *count as f64).collect();
    seen.push(examples.len() as f64);
    let names = index.keys().copied().collect();
    let mut model = Model {
        names,
        answers,
        weights: vec![0.0; size],
        sums: vec![0.0; size],
        squares: vec![1e-3; size],
        seen,
    };
    let balance = if settings.balanced { balance(examples, answers) } else { vec![1.0; answers] };
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let averaged = settings.rounds / 2;
    for round in 0..settings.rounds {
        shuffle(&mut order, &mut dice);
        for &at in &order {
            let (example, weight) = (examples[at], examples[at].weight * balance[examples[at].answer]);
            model.learn(&rows[at], example.answer, weight, settings.pull);
        }
        if round >= averaged {
            model.sums.iter_mut().zip(&model.weights).for_each(|(sum, weight)| *sum += weight);
        }
    }
    let rounds = (settings.rounds - averaged) as f64;
    model.sums.iter_mut().for_each(|sum| *sum /= rounds);
    model.write(question)
}

fn row(example: &Example, index: &BTreeMap<&str, usize>) -> Vec<(usize, f64)> {
    let names = example.trail.names.iter().flatten();
    let features = names.zip(&example.trail.features);
    features
        .filter_map(|(name, feature)| Some((*index.get(name.as_str())?, f64::from(feature.value))))
        .collect()
}

/// Rare answers count more, by the square root of how rare they are.
fn balance(examples: &[&Example], answers: usize) -> Vec<f64> {
    let mut counts = vec![0.0; answers];
    examples.iter().for_each(|example| counts[example.answer] += example.weight);
    let mean = counts.iter().sum::<f64>() / answers as f64;
    counts.iter().map(|count| if *count > 0.0 { (mean / count).sqrt() } else { 0.0 }).collect()
}

fn shuffle(order: &mut [usize], dice: &mut u64) {
    for last in (1..order.len()).rev() {
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        order.swap(last, (*dice % (last as u64 + 1)) as usize);
    }
}

impl Model<'_> {
    fn learn(&mut self, row: &[(usize, f64)], answer: usize, weight: f64, pull: f64) {
        let bias = self.names.len();
        let mut points = vec![0.0; self.answers];
        for &(feature, value) in row.iter().chain(&[(bias, 1.0)]) {
            let from = feature * self.answers;
            for (sum, learnt) in points.iter_mut().zip(&self.weights[from..from + self.answers]) {
                *sum += learnt * value;
            }
        }
        let best = points.iter().copied().fold(f64::MIN, f64::max);
        let mut total = 0.0;
        for sum in &mut points {
            *sum = exponential(*sum - best);
            total += *sum;
        }
        for (at, share) in points.iter_mut().enumerate() {
            *share = (*share / total - f64::from(u8::from(at == answer))) * weight;
        }
        for &(feature, value) in row.iter().chain(&[(bias, 1.0)]) {
            let from = feature * self.answers;
            let pull = if feature == bias { 0.0 } else { pull / self.seen[feature] };
            for (at, share) in points.iter().enumerate() {
                let slot = from + at;
                let slope = share * value + pull * self.weights[slot];
                self.squares[slot] += slope * slope;
                self.weights[slot] -= STEP * slope / self.squares[slot].sqrt();
            }
        }
    }

    fn write(&self, question: Question) -> String {
        let mut out = String::from(
            "# Written by `rupor-bench fit`: hundredths of a point that each feature gives to each answer.\n",
        );
        let bias = self.names.len();
        for (feature, name) in std::iter::once((bias, "bias")).chain(self.names.iter().copied().enumerate()) {
            let from = feature * self.answers;
            let weights = &self.sums[from..from + self.answers];
            // What all answers get alike decides nothing.
            let mean = weights.iter().sum::<f64>() / self.answers as f64;
            let mut line = String::new();
            for (answer, weight) in question.answers().iter().zip(weights) {
                let points = ((weight - mean) * f64::from(POINT)).round().clamp(-30_000.0, 30_000.0);
                if points.abs() >= LEAST {
                    let _ = write!(line, " {answer}={points}");
                }
            }
            if !line.is_empty() {
                let _ = writeln!(out, "{name}{line}");
            }
        }
        out
    }
}

/// e to the power of a number that is not above zero, by halving until a short series is exact.
fn exponential(power: f64) -> f64 {
    if power < -40.0 {
        return 0.0;
    }
    let small = power / 1024.0;
    let mut value = 1.0 + small * (1.0 + small / 2.0 * (1.0 + small / 3.0 * (1.0 + small / 4.0)));
    for _ in 0..10 {
        value *= value;
    }
    value
}
