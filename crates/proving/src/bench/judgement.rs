//! `rupor-bench judgement`: how well posts are read that the weights were not fitted on, and `rupor-bench fit`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use domain::content::evidence::Question;
use serde_json::json;

use crate::judge::corpus::writers;
use crate::judge::folds::{fitted, read_fold, weights};
use crate::judge::real;
use crate::judge::score::{FIELDS, Range, Score, score};

/// Leave one writer out: read the posts of each with weights fitted on all the others
#[derive(Debug, Args)]
pub(crate) struct Judgement {
    /// Use the tables of this directory instead of fitting them again
    #[arg(long, value_name = "DIR")]
    folds: Option<PathBuf>,
    /// Name up to this many wrong answers of each writer
    #[arg(long, value_name = "N", default_value_t = 0)]
    show: usize,
    /// Read real posts instead: a JSON list with `text`, `MessageType` (L, F, …), `Species` (D, C) and `Sex` (M, F)
    #[arg(long, value_name = "FILE", conflicts_with = "folds")]
    real: Option<PathBuf>,
    /// The file of --real is the dump of a wall (`id`, `text`), and this one says what its posts are: {"ID": "lost", …}
    #[arg(long, value_name = "FILE", requires = "real")]
    labels: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Fit the weights of evidence from the labelled posts: same posts, same tables
#[derive(Debug, Args)]
pub(crate) struct Fit {
    /// Where the tables are written
    #[arg(long, value_name = "DIR", default_value = "crates/domain/src/content/evidence/weights")]
    to: PathBuf,
    /// Also write the tables that leave one writer out
    #[arg(long, value_name = "DIR")]
    folds: Option<PathBuf>,
}

pub(super) fn judge(command: &Judgement) -> anyhow::Result<()> {
    if let Some(file) = &command.real {
        let read = |file: &PathBuf| {
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        let text = read(file)?;
        let figures = match &command.labels {
            Some(labels) => real::judge_wall(&text, &read(labels)?, command.show)?,
            None => real::judge(&text, command.show)?,
        };
        return writeln!(anstream::stdout(), "{figures}").context("writing the figures");
    }
    let writers = writers()?;
    let mut scores = Vec::new();
    for (at, writer) in writers.iter().enumerate().filter(|(_, writer)| writer.judged) {
        let fold = match &command.folds {
            Some(dir) => read_fold(dir, writer.name)?,
            None => weights(&fitted(&writers, Some(at))?).map_err(|error| anyhow!(error))?,
        };
        scores.push(score(writer.name, &writer.posts, &fold));
    }
    print(command, &scores)
}

fn print(command: &Judgement, scores: &[Score]) -> anyhow::Result<()> {
    let mean = |of: &dyn Fn(&Score) -> f64| scores.iter().map(of).sum::<f64>() / scores.len().max(1) as f64;
    let mut out = anstream::stdout().lock();
    if command.json {
        let fields: serde_json::Map<String, serde_json::Value> = FIELDS
            .iter()
            .map(|field| ((*field).to_owned(), json!(mean(&|score| score.fields[field]))))
            .collect();
        let figures = json!({
            "bench": "judgement",
            "writers": scores,
            "kind_macro_f1": mean(&|score| score.kind_macro_f1),
            "fields": fields,
            "pair_precision": mean(&|score| score.pair_precision),
            "pair_recall": mean(&|score| score.pair_recall),
            "wrong_merges": scores.iter().map(|score| score.wrong_merges).sum::<usize>(),
        });
        return writeln!(out, "{figures}").context("writing the figures");
    }
    writeln!(
        out,
        "writer  kind F1 (90 % range)    {}  pairs P      R  wrong",
        FIELDS.map(|field| format!("{field:>8}")).concat()
    )?;
    for score in scores {
        let fields: String = FIELDS.iter().map(|field| format!("{:>8.3}", score.fields[field])).collect();
        let (low, high) = score.kind_range;
        writeln!(
            out,
            "{:<6}  {:.3} ({low:.3} to {high:.3})  {fields}    {:.3}  {:.3}  {:>5}",
            score.writer, score.kind_macro_f1, score.pair_precision, score.pair_recall, score.wrong_merges
        )?;
        let range = |(low, high): Range| format!("{low:.2}–{high:.2}");
        let ranges: String =
            FIELDS.iter().map(|field| format!("{:>11}", range(score.field_ranges[field]))).collect();
        let pairs =
            [score.pair_precision_range, score.pair_recall_range].map(|of| format!("{:>11}", range(of)));
        writeln!(out, "        90 % ranges{ranges}  {}", pairs.concat())?;
        score.wrong.iter().take(command.show).try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    let fields: String =
        FIELDS.iter().map(|field| format!("{:>8.3}", mean(&|score| score.fields[field]))).collect();
    let wrong: usize = scores.iter().map(|score| score.wrong_merges).sum();
    writeln!(
        out,
        "mean    {:.3}                   {fields}    {:.3}  {:.3}  {wrong:>5}",
        mean(&|score| score.kind_macro_f1),
        mean(&|score| score.pair_precision),
        mean(&|score| score.pair_recall),
    )?;
    Ok(())
}

pub(super) fn fit(command: &Fit) -> anyhow::Result<()> {
    let writers = writers()?;
    let write = |path: PathBuf, text: String| {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let write_all = |texts: [String; 3], path: &dyn Fn(&str) -> PathBuf| {
        Question::ALL
            .into_iter()
            .zip(texts)
            .try_for_each(|(question, text)| write(path(question.name()), text))
    };
    write_all(fitted(&writers, None)?, &|question| command.to.join(format!("{question}.weights")))?;
    let Some(dir) = &command.folds else { return Ok(()) };
    for (at, writer) in writers.iter().enumerate().filter(|(_, writer)| writer.judged) {
        let path = |question: &str| dir.join(format!("without-{}.{question}.weights", writer.name));
        write_all(fitted(&writers, Some(at))?, &path)?;
    }
    Ok(())
}
