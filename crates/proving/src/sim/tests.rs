//! The short run of every commit: many seeds, each fiftieth twice, and every planted bug.

use super::many::{TWICE_EVERY, hunt, run_many};
use super::saboteur::Saboteur;
use super::{Tracing, run_seed};

/// Seeds of the short run; `rupor-bench sim` runs more.
const SEEDS: u64 = 500;
/// Seeds one planted bug may live through.
const HUNT_MAX: u64 = 60;

#[test]
fn five_hundred_seeds_lose_nothing_and_see_everything() {
    let summary = run_many(1, SEEDS, &|_| {}).unwrap();
    for outcome in &summary.broken {
        for violation in outcome.violations.iter().take(2) {
            println!("seed {}: {} {}", outcome.seed, violation.invariant, violation.what);
            violation.history.iter().for_each(|line| println!("    {line}"));
        }
    }
    assert_eq!(summary.n_broken, 0, "`rupor-bench sim --seed SEED --trace` tells the story");
    assert_eq!(summary.unequal, Vec::<u64>::new(), "a seed must give the same trace again");
    assert_eq!(summary.run_twice, SEEDS / TWICE_EVERY);
    assert_eq!(summary.sometimes.never(), Vec::<&str>::new(), "a run that never saw these proves nothing");
}

/// Seeds that once showed a broken promise; `./explore` adds what it finds.
const REGRESSIONS: &str = include_str!("regressions.txt");

#[test]
fn what_was_found_once_stays_mended() {
    for seed in REGRESSIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let outcome = run_seed(seed.parse().expect("a seed"), None, Tracing::HashOnly).unwrap();
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let escaped: Vec<&str> = Saboteur::ALL
        .into_iter()
        .filter(|saboteur| hunt(*saboteur, 1, HUNT_MAX).unwrap().is_none())
        .map(Saboteur::name)
        .collect();
    assert_eq!(escaped, Vec::<&str>::new());
}

#[test]
fn the_lines_of_a_trace_do_not_change_the_run() {
    let told = run_seed(7, None, Tracing::Lines).unwrap();
    let silent = run_seed(7, None, Tracing::HashOnly).unwrap();
    assert!(told.trace.len() > 100 && silent.trace.is_empty());
    assert_eq!(told.trace_hash, silent.trace_hash);
}
