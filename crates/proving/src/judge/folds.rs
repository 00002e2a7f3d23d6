//! Leave one writer out: fit on the others, judge on the one.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use domain::content::evidence::{Question, Table, Weights};
use domain::content::shown;

use super::corpus::{Label, Writer};
use super::fit::{Example, Settings, fit};

/// What every post of every writer shows for a question.
#[derive(Debug)]
pub(crate) struct Lessons {
    question: Question,
    examples: Vec<Vec<Example>>,
}

impl Lessons {
    /// The questions before this one are answered by `weights`.
    pub(crate) fn new(question: Question, writers: &[Writer], weights: &Weights) -> Lessons {
        let of = |writer: &Writer| {
            let posts = writer.posts.iter();
            let examples = posts.filter_map(|labelled| {
                let answer = wanted(question, &labelled.label)?;
                let answer = question.answers().iter().position(|known| *known == answer)?;
                Some(Example {
                    trail: shown(&labelled.post, question, weights),
                    answer,
                    weight: writer.weight,
                })
            });
            examples.collect()
        };
        Lessons { question, examples: writers.iter().map(of).collect() }
    }

    /// The table without one writer, or with all.
    pub(crate) fn table(&self, without: Option<usize>) -> String {
        let others = self.examples.iter().enumerate().filter(|(at, _)| Some(*at) != without);
        let examples: Vec<&Example> = others.flat_map(|(_, examples)| examples).collect();
        fit(self.question, &examples, Settings::of(self.question))
    }
}

/// The tables without one writer, or with all: each is fitted with the answers of those before it.
pub(crate) fn fitted(writers: &[Writer], without: Option<usize>) -> anyhow::Result<[String; 3]> {
    let mut texts: [String; 3] = Default::default();
    for question in Question::ALL {
        let before = weights(&texts).map_err(|error| anyhow!(error))?;
        texts[question as usize] = Lessons::new(question, writers, &before).table(without);
    }
    Ok(texts)
}

fn wanted(question: Question, label: &Label) -> Option<&str> {
    match question {
        Question::Kind => Some(&label.kind),
        Question::Animal => label.animal.as_deref(),
        Question::Sex => label.sex.as_deref(),
    }
}

/// The weights of three tables.
pub(crate) fn weights(texts: &[String; 3]) -> Result<Weights, String> {
    let read = |question: Question| Table::read(question, &texts[question as usize]);
    let [kind, animal, sex] = Question::ALL;
    Ok(Weights::new(read(kind)?, read(animal)?, read(sex)?))
}

/// The tables of one fold, as `fit --folds` wrote them.
pub(crate) fn read_fold(dir: &Path, writer: &str) -> anyhow::Result<Weights> {
    let mut texts: [String; 3] = Default::default();
    for question in Question::ALL {
        let path = dir.join(format!("without-{writer}.{}.weights", question.name()));
        texts[question as usize] =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    weights(&texts).map_err(|error| anyhow!(error))
}
