//! The short run of every commit: many seeds, each 50th twice, and every planted bug.

use super::*;

#[test]
fn one_seed_runs() {
    let outcome = run_seed(1, None, Tracing::Lines).unwrap();
    println!("{:?} {:?} {:?}", outcome.tally, outcome.virtual_time, outcome.violations);
}
