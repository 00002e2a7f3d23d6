//! `rupor-bench sim`: the dispatcher through seeded disasters, judged by a checker that knows only the logs.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::sim::many::{Summary, run_many};
use crate::sim::saboteur::Saboteur;
use crate::sim::{SeedReport, Tracing, run_seed};

/// Run the dispatcher through seeded disasters in virtual time
///
/// Each seed is a world of its own: nodes that die, a ledger that stalls, platforms that flood and lose answers.
/// The same seed gives the same run. See docs/simulation.md.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 500)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// Run this one seed alone
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// With --seed: print everything that happened
    #[arg(long, requires = "seed")]
    trace: bool,
    /// With --seed: plant this bug; `rupor-bench saboteurs` lists them
    #[arg(long, value_name = "NAME", requires = "seed")]
    saboteur: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Sim) -> anyhow::Result<()> {
    match args.seed {
        Some(seed) => one(args, seed),
        None => many(args),
    }
}

fn one(args: &Sim, seed: u64) -> anyhow::Result<()> {
    let saboteur = match &args.saboteur {
        None => None,
        Some(name) => match Saboteur::named(name) {
            Some(saboteur) => Some(saboteur),
            None => bail!("saboteur {name:?} is not known; `rupor-bench saboteurs` lists them"),
        },
    };
    let tracing = if args.trace { Tracing::Lines } else { Tracing::HashOnly };
    let outcome = run_seed(seed, saboteur, tracing)?;
    let mut out = anstream::stdout();
    if args.json {
        writeln!(out, "{}", outcome_json(&outcome))?;
    } else {
        writeln!(out, "{}", outcome.options)?;
        for line in &outcome.trace {
            writeln!(out, "{line}")?;
        }
        let (calls, empty) = outcome.calls;
        writeln!(
            out,
            "trace {:016x}, {:.0} s of virtual time, {calls} ledger calls, {empty} empty claims, {:?}",
            outcome.trace_hash,
            outcome.virtual_time.as_secs_f64(),
            outcome.tally
        )?;
        print_violations(&mut out, &outcome)?;
    }
    match outcome.violations.len() {
        0 => Ok(()),
        n => bail!("seed {seed}: {n} violations"),
    }
}

fn many(args: &Sim) -> anyhow::Result<()> {
    if args.seeds == 0 {
        bail!("nothing to run: --seeds must be at least 1");
    }
    let style = ProgressStyle::with_template("{pos}/{len} seeds {wide_bar} {elapsed}")?;
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new(args.seeds).with_style(style) };
    let started = Instant::now();
    let summary = run_many(args.from, args.seeds, &|done| bar.set_position(done))?;
    let took = started.elapsed();
    bar.finish_and_clear();
    let mut out = anstream::stdout();
    if args.json {
        writeln!(out, "{}", summary_json(&summary, took))?;
    } else {
        print_summary(&mut out, &summary, took)?;
    }
    if summary.n_broken > 0 {
        let seeds: Vec<u64> = summary.broken.iter().map(|outcome| outcome.seed).collect();
        bail!("{} seeds broke an invariant, the first are {seeds:?}", summary.n_broken);
    }
    if !summary.unequal.is_empty() {
        bail!("seeds {:?} gave another trace the second time", summary.unequal);
    }
    if summary.is_invalid() {
        bail!("the run is invalid, it never saw: {}", summary.sometimes.never().join(", "));
    }
    Ok(())
}

fn print_summary(out: &mut impl Write, summary: &Summary, took: Duration) -> std::io::Result<()> {
    let tally = &summary.tally;
    writeln!(
        out,
        "{} seeds in {:.1} s ({} of them twice), {:.1} days of virtual time",
        summary.seeds,
        took.as_secs_f64(),
        summary.run_twice,
        summary.virtual_time.as_secs_f64() / 86_400.0
    )?;
    writeln!(
        out,
        "{} messages, {} deliveries, {} requests; {} sent, {} recovered, {} shown more than once within policy, {} held",
        tally.messages,
        tally.deliveries,
        tally.requests,
        tally.sent,
        tally.recovered,
        tally.duplicated,
        tally.held
    )?;
    for (what, n) in summary.sometimes.counts() {
        writeln!(out, "{n:>9}  {what}")?;
    }
    writeln!(out, "{} seeds with violations", summary.n_broken)?;
    for outcome in summary.broken.iter().take(3) {
        writeln!(out, "\nseed {}: {}", outcome.seed, outcome.options)?;
        print_violations(out, outcome)?;
    }
    Ok(())
}

fn print_violations(out: &mut impl Write, outcome: &SeedReport) -> std::io::Result<()> {
    for violation in outcome.violations.iter().take(5) {
        writeln!(out, "{} {:?}: {}", violation.invariant, violation.harm, violation.what)?;
        for line in &violation.history {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

fn summary_json(summary: &Summary, took: Duration) -> Value {
    let sometimes: serde_json::Map<String, Value> =
        summary.sometimes.counts().map(|(what, n)| (what.to_owned(), n.into())).collect();
    let tally = &summary.tally;
    json!({
        "seeds": summary.seeds,
        "seconds": took.as_secs_f64(),
        "virtual_seconds": summary.virtual_time.as_secs_f64(),
        "run_twice": summary.run_twice,
        "unequal": summary.unequal,
        "broken_seeds": summary.n_broken,
        "violations": summary.broken.iter().map(outcome_json).collect::<Vec<_>>(),
        "messages": tally.messages,
        "deliveries": tally.deliveries,
        "requests": tally.requests,
        "sent": tally.sent,
        "recovered": tally.recovered,
        "duplicated_within_policy": tally.duplicated,
        "held": tally.held,
        "sometimes": sometimes,
        "never": summary.sometimes.never(),
        "good": summary.is_good(),
    })
}

fn outcome_json(outcome: &SeedReport) -> Value {
    let violations: Vec<Value> = outcome
        .violations
        .iter()
        .map(|violation| {
            json!({
                "invariant": violation.invariant,
                "harm": format!("{:?}", violation.harm).to_lowercase(),
                "delivery": violation.delivery,
                "what": violation.what,
                "history": violation.history,
            })
        })
        .collect();
    json!({
        "seed": outcome.seed,
        "trace": format!("{:016x}", outcome.trace_hash),
        "options": outcome.options,
        "violations": violations,
    })
}
