//! `rupor-bench content`: posts a second on one core for normalise, facts and fingerprint, and what a case lookup costs.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use domain::content::fingerprint::fingerprint;
use domain::content::{Post, analyse};
use serde_json::json;

use super::cases;
use crate::judge::corpus::writers;

/// The first development corpus; the others are longer and odder.
const FIRST: &str = "first";

/// Reads the development corpora over and over on one core
#[derive(Debug, Args)]
pub(crate) struct Content {
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Read the first corpus only
    #[arg(long)]
    first: bool,
    #[command(flatten)]
    lookups: cases::Lookups,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Accepted like in every bench; this one uses no database
    #[arg(long, value_name = "URL", hide = true)]
    db: Option<String>,
}

pub(super) fn run(command: &Content) -> anyhow::Result<()> {
    let posts = corpus(command.first)?;
    ensure!(!posts.is_empty(), "the corpus holds no posts");
    // The first round builds the dictionary and fills the caches; it is not measured.
    posts.iter().for_each(read);
    let cpu = cpu_seconds();
    let mut times = measure(&posts, Duration::from_secs(command.seconds));
    let cpu = cpu.zip(cpu_seconds()).map(|(before, after)| after - before).filter(|seconds| *seconds > 0.0);
    times.sort_unstable();
    let total: Duration = times.iter().sum();
    // A second of a core is a second of its work, not of waiting for it behind other programs.
    let per_second = times.len() as f64 / cpu.unwrap_or(total.as_secs_f64());
    let percentile = |share: f64| {
        let index = ((times.len() - 1) as f64 * share) as usize;
        times[index].as_secs_f64() * 1e6
    };
    let lookups = cases::figures(&command.lookups)?;
    let mut out = anstream::stdout();
    if command.json {
        let figures = json!({
            "bench": "content",
            "posts": times.len(),
            "corpus_posts": posts.len(),
            "seconds": total.as_secs_f64(),
            "cpu_seconds": cpu,
            "posts_per_second_per_core": per_second.round(),
            "posts_per_second_of_the_clock": (times.len() as f64 / total.as_secs_f64()).round(),
            "post_us_mean": total.as_secs_f64() * 1e6 / times.len() as f64,
            "post_us_p50": percentile(0.50),
            "post_us_p99": percentile(0.99),
            "cases": lookups,
        });
        return writeln!(out, "{figures}").context("writing the figures");
    }
    writeln!(out, "{per_second:.0} posts a second on one core, {} posts read", times.len())?;
    writeln!(out, "one post: median {:.0} µs, 99 % within {:.0} µs", percentile(0.50), percentile(0.99))?;
    cases::write(&lookups, &mut out).context("writing the figures")
}

/// Invented posts in the style of the walls that Rupor reads.
fn corpus(first: bool) -> anyhow::Result<Vec<Post>> {
    let read = writers()?.into_iter().filter(|writer| writer.judged && (!first || writer.name == FIRST));
    Ok(read.flat_map(|writer| writer.posts).map(|labelled| labelled.post).collect())
}

/// Processor time of this process so far; only Linux tells it in a file.
pub(super) fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may hold spaces; user and system time are the 12th and 13th fields behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

fn read(post: &Post) {
    let analysis = analyse(black_box(post));
    black_box(fingerprint(&analysis.facts, &analysis.cleaned, false));
}

fn measure(posts: &[Post], at_least: Duration) -> Vec<Duration> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < at_least {
        for post in posts {
            let start = Instant::now();
            read(post);
            times.push(start.elapsed());
        }
    }
    times
}
