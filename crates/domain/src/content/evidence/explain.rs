//! Says why an answer won, in words that a volunteer understands: the words of the post with their points.

use std::fmt;

use super::{POINT, Question, Table, Tally, Trail};
use crate::content::Evidence;
use crate::content::lexicon::morph::Pos;
use crate::content::tokens::Reading;

/// How many reasons are shown on either side.
const FOR_MAX: usize = 4;
const AGAINST_MAX: usize = 3;
/// Less than this many points is not worth a word.
const LEAST: f32 = 0.1;
/// `в`, `на` tell a reader nothing unless they weigh this much.
const LEAST_OF_SMALL: f32 = 0.5;

/// Why one answer was preferred to the next best.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    pub question: Question,
    /// What the facts say.
    pub answer: &'static str,
    /// Why that is not what the sum says, where it is not.
    pub instead: Option<&'static str>,
    /// What has the most points, and what comes next.
    pub best: &'static str,
    pub second: &'static str,
    /// Points that the answer is ahead.
    pub margin: f32,
    pub unsure: bool,
    /// What spoke for the answer and against it, strongest first.
    pub said: Vec<Said>,
}

/// One thing and what it gave to the answer rather than to the next best.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub what: String,
    pub points: f32,
}

/// What the facts made of a sum: the answer, why it is not the best one of the sum, and the words of the rules for it.
#[derive(Debug)]
pub struct Settled<'e> {
    pub answer: &'static str,
    pub instead: Option<&'static str>,
    pub unsure: bool,
    pub by_rules: &'e [Evidence],
}

/// Sums up the features that stand on the same words.
pub fn explain(
    question: Question,
    table: &Table,
    trail: &Trail<'_>,
    verdict: &Tally,
    reading: &Reading<'_>,
    settled: &Settled<'_>,
) -> Explained {
    let rules = rules_by(settled.by_rules);
    let mut said: Vec<Said> = Vec::new();
    let mut small: Vec<String> = Vec::new();
    for (at, feature) in trail.features.iter().enumerate() {
        let weight = |answer: usize| {
            let weights = table.points(table.line(feature.key)).iter();
            weights
                .filter(|(of, _)| usize::from(*of) == answer)
                .map(|(_, points)| f32::from(*points))
                .sum::<f32>()
        };
        let points = (weight(verdict.best) - weight(verdict.second)) / POINT * feature.value;
        if points == 0.0 {
            continue;
        }
        let name = trail.names.as_ref().and_then(|names| names.get(at)).map_or("", String::as_str);
        let what = match feature.span {
            Some((first, last)) => {
                let words = quoted(&reading.evidence("", first as usize, last as usize).words);
                if first == last && reading.tokens[first as usize].morph.pos == Pos::Small {
                    small.push(words.clone());
                }
                words
            }
            None => Some(layout(name)).filter(|what| *what != RULES).unwrap_or(&rules).to_owned(),
        };
        match said.iter_mut().find(|known| known.what == what) {
            Some(known) => known.points += points,
            None => said.push(Said { what, points }),
        }
    }
    // Their words speak for the answer; where their sum speaks against it, it comes from other words.
    if settled.instead.is_none() {
        let against = said.iter_mut().filter(|item| item.what == rules && item.points < 0.0);
        against.for_each(|item| RULES.clone_into(&mut item.what));
    }
    let bias = |answer: usize| f32::from(table.bias().get(answer).copied().unwrap_or(0)) / POINT;
    said.push(Said {
        what: "how common it is".to_owned(),
        points: bias(verdict.best) - bias(verdict.second),
    });
    said.retain(|item| item.points.abs() >= if small.contains(&item.what) { LEAST_OF_SMALL } else { LEAST });
    said.sort_by(|left, right| {
        right.points.abs().total_cmp(&left.points.abs()).then(left.what.cmp(&right.what))
    });
    let (best, second) = (question.answers()[verdict.best], question.answers()[verdict.second]);
    let Settled { answer, instead, unsure, .. } = *settled;
    Explained { question, answer, instead, best, second, margin: verdict.margin, unsure, said }
}

fn quoted(words: &str) -> String {
    format!("«{}»", words.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What all rules gave, in words.
const RULES: &str = "the rules together";

/// `the rules, by «Кто потерял», «Прибилась»`: what most of the points usually come from.
fn rules_by(evidence: &[Evidence]) -> String {
    let mut words: Vec<String> = evidence.iter().map(|item| quoted(&item.words)).collect();
    words.dedup();
    if words.is_empty() { RULES.to_owned() } else { format!("the rules, by {}", words.join(", ")) }
}

/// Features without words of their own, in plain language.
fn layout(name: &str) -> &'static str {
    let family = name.split(':').next().unwrap_or_default();
    match family {
        "sum" | "raw" | "rules" | "votes" | "top" | "second" | "both" | "explicit" | "litter"
        | "rules-of-kind" | "rules-of-animal" => RULES,
        "stated" => "that the sex is said in so many words",
        "own-words" | "all-words" => "how long it is",
        "names" | "named" => "the names in it",
        "count" | "has" | "only" => "what the verbs and adjectives agree with",
        "kind" | "animal" => "what kind of post it is",
        _ => match name {
            "is:phones" => "the telephone numbers",
            "is:no-phone" => "that no telephone is given",
            "is:card" | "is:purse" => "the numbers for money",
            "is:male" | "is:female" | "is:difference" | "is:mixed-names" => RULES,
            "is:link" => "the link",
            "is:copied" => "that it is a repost",
            _ => "who speaks and how",
        },
    }
}

impl Explained {
    /// What spoke most for the best answer of the sum.
    pub fn for_it(&self) -> impl Iterator<Item = &Said> {
        self.said.iter().filter(|item| item.points > 0.0).take(FOR_MAX)
    }

    /// What spoke most against it.
    pub fn against(&self) -> impl Iterator<Item = &Said> {
        self.said.iter().filter(|item| item.points < 0.0).take(AGAINST_MAX)
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let margin = self.margin;
        if let Some(why) = self.instead {
            write!(out, "{why}; the sum alone says {}, ", self.best)?;
        }
        write!(out, "{margin:.1} points ahead of {}", self.second)?;
        if self.unsure && self.instead.is_none() {
            write!(out, ", which is close: unsure")?;
        }
        let list = |out: &mut fmt::Formatter<'_>, title: &str, items: &mut dyn Iterator<Item = &Said>| {
            for (at, item) in items.enumerate() {
                let lead = if at == 0 { title } else { ", " };
                write!(out, "{lead}{} {:+.1}", item.what, item.points)?;
            }
            fmt::Result::Ok(())
        };
        list(out, "; for it: ", &mut self.for_it())?;
        list(out, "; against: ", &mut self.against())
    }
}
