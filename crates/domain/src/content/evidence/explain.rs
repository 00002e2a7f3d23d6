//! Says why an answer won, in words that a volunteer understands: the words of the post with their points.

use std::fmt;

use super::{POINT, Question, Table, Tally, Trail};
use crate::content::tokens::Reading;

/// How many reasons are shown on either side.
const FOR_MAX: usize = 4;
const AGAINST_MAX: usize = 3;
/// Less than this many points is not worth a word.
const LEAST: f32 = 0.1;

/// Why one answer was preferred to the next best.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    pub question: Question,
    pub answer: &'static str,
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

/// Sums up the features that stand on the same words.
pub fn explain(
    question: Question,
    table: &Table,
    trail: &Trail<'_>,
    verdict: &Tally,
    reading: &Reading<'_>,
) -> Explained {
    let mut said: Vec<Said> = Vec::new();
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
                let words = reading.evidence("", first as usize, last as usize).words;
                format!("«{}»", words.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            None => layout(name),
        };
        match said.iter_mut().find(|known| known.what == what) {
            Some(known) => known.points += points,
            None => said.push(Said { what, points }),
        }
    }
    let bias = |answer: usize| f32::from(table.bias().get(answer).copied().unwrap_or(0)) / POINT;
    said.push(Said {
        what: "how common it is".to_owned(),
        points: bias(verdict.best) - bias(verdict.second),
    });
    said.retain(|item| item.points.abs() >= LEAST);
    said.sort_by(|left, right| {
        right.points.abs().total_cmp(&left.points.abs()).then(left.what.cmp(&right.what))
    });
    let (answer, second) = (question.answers()[verdict.best], question.answers()[verdict.second]);
    Explained {
        question,
        answer,
        second,
        margin: verdict.margin,
        unsure: verdict.margin < super::UNSURE,
        said,
    }
}

/// Features without words of their own, in plain language.
fn layout(name: &str) -> String {
    let family = name.split(':').next().unwrap_or_default();
    match family {
        "sum" | "raw" | "rules" | "votes" | "top" | "second" | "both" | "explicit" | "litter"
        | "rules-of-kind" | "rules-of-animal" => "the rules together",
        "stated" => "that the sex is said in so many words",
        "own-words" | "all-words" => "how long it is",
        "names" | "named" => "the names in it",
        "count" | "has" | "only" => "what the verbs and adjectives agree with",
        "kind" | "animal" => "what kind of post it is",
        _ => match name {
            "is:phones" => "the telephone numbers",
            "is:no-phone" => "that no telephone is given",
            "is:card" | "is:purse" => "the numbers for money",
            "is:male" | "is:female" | "is:difference" | "is:mixed-names" => "the rules together",
            "is:link" => "the link",
            "is:copied" => "that it is a repost",
            _ => "who speaks and how",
        },
    }
    .to_owned()
}

impl fmt::Display for Explained {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let margin = self.margin;
        write!(out, "{margin:.1} points ahead of {}", self.second)?;
        if self.unsure {
            write!(out, ", which is close: unsure")?;
        }
        let list = |out: &mut fmt::Formatter<'_>, title: &str, items: &mut dyn Iterator<Item = &Said>| {
            for (at, item) in items.enumerate() {
                let lead = if at == 0 { title } else { ", " };
                write!(out, "{lead}{} {:+.1}", item.what, item.points)?;
            }
            fmt::Result::Ok(())
        };
        list(out, "; for it: ", &mut self.said.iter().filter(|item| item.points > 0.0).take(FOR_MAX))?;
        list(out, "; against: ", &mut self.said.iter().filter(|item| item.points < 0.0).take(AGAINST_MAX))
    }
}
