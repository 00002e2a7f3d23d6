//! The case part of `rupor-bench content`: what one lookup costs with few and with many known cases.
//! The posts are invented by number; nothing is read or written.

use std::io::Write;
use std::time::Instant;

use anyhow::bail;
use clap::Args;
use domain::content::cases::invented::invented;
use domain::content::cases::{CaseBook, assign};
use serde::Serialize;

/// How many cases are known, and how many posts are looked up among them.
#[derive(Debug, Args)]
pub(super) struct Lookups {
    /// Known cases of the small run
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    few: u64,
    /// Known cases of the large run
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    many: u64,
    /// Posts looked up in each run
    #[arg(long, value_name = "N", default_value_t = 3_000)]
    lookups: u64,
}

/// Both runs and their ratios.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    few: Run,
    many: Run,
    /// Candidates scored per lookup, 99th percentile, many to few.
    candidates_p99_ratio: f64,
    latency_p50_ratio: f64,
    latency_p99_ratio: f64,
}

#[derive(Debug, Serialize)]
struct Run {
    known_cases: u64,
    lookups: u64,
    candidates_p50: u64,
    candidates_p99: u64,
    candidates_max: u64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    /// Of the repeats among the lookups, how many found their case.
    repeats_found: u64,
    repeats: u64,
}

/// Measures both runs.
pub(super) fn figures(args: &Lookups) -> anyhow::Result<Figures> {
    if args.few == 0 || args.many == 0 || args.lookups == 0 {
        bail!("nothing to measure: --few, --many and --lookups must be at least 1");
    }
    let few = measure(args.few, args.lookups);
    let many = measure(args.many, args.lookups);
    Ok(Figures {
        candidates_p99_ratio: many.candidates_p99 as f64 / few.candidates_p99.max(1) as f64,
        latency_p50_ratio: many.latency_p50_us / few.latency_p50_us.max(f64::MIN_POSITIVE),
        latency_p99_ratio: many.latency_p99_us / few.latency_p99_us.max(f64::MIN_POSITIVE),
        few,
        many,
    })
}

/// Every third lookup repeats a known post, the others are new.
fn measure(known_cases: u64, lookups: u64) -> Run {
    let mut book = CaseBook::new();
    for number in 0..known_cases {
        book.remember(None, invented(number));
    }
    let (mut candidates, mut nanos) = (Vec::new(), Vec::new());
    let (mut repeats, mut repeats_found) = (0, 0);
    for number in 0..lookups {
        let repeat = number % 3 == 0;
        let mut post =
            invented(if repeat { known_cases - 1 - number / 3 % known_cases } else { known_cases + number });
        post.origin.post_id += NEW_POSTS;
        post.date = invented(known_cases).date;
        let start = Instant::now();
        let Ok(decision) = assign(&post, &book);
        nanos.push(start.elapsed().as_nanos() as u64);
        let same = decision.as_ref().and_then(|decision| decision.same_as()).is_some();
        candidates.push(decision.map_or(0, |decision| decision.weighed as u64));
        repeats += u64::from(repeat);
        repeats_found += u64::from(repeat && same);
    }
    candidates.sort_unstable();
    nanos.sort_unstable();
    Run {
        known_cases,
        lookups,
        candidates_p50: percentile(&candidates, 50),
        candidates_p99: percentile(&candidates, 99),
        candidates_max: percentile(&candidates, 100),
        latency_p50_us: percentile(&nanos, 50) as f64 / 1_000.0,
        latency_p99_us: percentile(&nanos, 99) as f64 / 1_000.0,
        repeats_found,
        repeats,
    }
}

/// Ids beyond every invented post, so that a repeat is another post.
const NEW_POSTS: i64 = 1 << 40;

/// Of sorted values.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

/// A line for each run.
pub(super) fn write(figures: &Figures, out: &mut impl Write) -> std::io::Result<()> {
    for run in [&figures.few, &figures.many] {
        writeln!(
            out,
            "{} known cases: {} of them weighed for a post, 99 % within {}; median {:.0} µs, 99 % within {:.0} µs",
            run.known_cases, run.candidates_p50, run.candidates_p99, run.latency_p50_us, run.latency_p99_us
        )?;
    }
    writeln!(out, "candidates at 99 %, many to few: {:.2}", figures.candidates_p99_ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidates_of_a_lookup_do_not_grow_with_the_known_cases() {
        let figures = figures(&Lookups { few: 300, many: 3_000, lookups: 200 }).unwrap();
        assert!(figures.candidates_p99_ratio <= 2.0, "{figures:?}");
        assert_eq!(figures.many.repeats_found, figures.many.repeats, "{figures:?}");
    }

    #[test]
    fn nothing_to_measure_is_an_error() {
        assert!(figures(&Lookups { few: 0, many: 1, lookups: 1 }).is_err());
    }
}
