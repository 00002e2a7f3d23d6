//! A reference model in plain Rust, and random sequences of operations that both databases must agree with.
//!
//! The model keeps everything in one list and searches it: slow and obviously right. It does not predict which of
//! several eligible rows a claim picks; it checks that each picked row was eligible, that its slot is the next one,
//! and that nothing eligible was left behind. Everything else it predicts exactly.
//!
//! Two accounts, four channels, and three people of the first account: a campaign writes to all of them, and each has a
//! dialogue of their own. `steps` is what happens, `claiming` and `ending` are the rules, `state` is what there is.
//!
//! 2 000 sequences of 50 operations run per database; `RUPOR_SEQUENCES` asks for more, `RUPOR_SEED` for others.

mod claiming;
mod ending;
mod operations;
mod state;
mod steps;

use std::ops::Range;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::world::*;
use operations::{Operation, operation};
use state::Model;

const OPERATIONS: usize = 50;

#[test]
fn sqlite_agrees_with_the_model() {
    agree(|runtime| runtime.block_on(World::sqlite()), 1, 0..sequences());
}

#[test]
fn postgres_agrees_with_the_model() {
    // Each worker has a database and a clock of its own; while one waits for the server, another works.
    let share = sequences() / 4;
    std::thread::scope(|scope| {
        for (seed, first) in [(2, 0), (2, share), (3, 0), (3, share)] {
            let cases = first..first + share;
            scope.spawn(move || agree(|runtime| runtime.block_on(World::postgres()), seed, cases));
        }
    });
}

fn sequences() -> u32 {
    std::env::var("RUPOR_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

/// Sequences that once broke a database, one `SEED CASE` a line; `./explore` adds what it finds.
const REGRESSIONS: &str = include_str!("regressions.txt");

fn regressions() -> impl Iterator<Item = (u64, u32)> {
    let words = |line: &'static str| line.split_once(' ').expect("a seed and a case");
    let lines = REGRESSIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(words).map(|(seed, case)| (seed.parse().expect("a seed"), case.trim().parse().expect("a case")))
}

/// The seed is fixed, so that a failure today is a failure tomorrow.
fn agree(world: impl Fn(&tokio::runtime::Runtime) -> World, worker: u64, cases: Range<u32>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let seed: u64 = std::env::var("RUPOR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let seed = seed * 1_000 + worker;
    let base = world(&runtime);
    let mut n_workspaces = 0;
    let mut run = |variant: usize, operations: &[Operation]| {
        n_workspaces += 1;
        runtime.block_on(async {
            let world = base.another_workspace(&format!("случай {n_workspaces}")).await;
            Model::new(&world, variant).await.run(&world, operations).await
        })
    };
    // Who begins with the first case plays the regressions.
    let known = regressions().filter(|_| cases.start == 0);
    for (seed, case) in known.chain(cases.clone().map(|case| (seed, case))) {
        let (variant, operations) = sequence(seed, case);
        if let Err(problem) = run(variant, &operations) {
            let fewer = fewest(operations, |operations| run(variant, operations).is_err());
            let again = run(variant, &fewer).err().unwrap_or(problem);
            panic!("regression: {seed} {case}\nvariant {variant}: {again}\n{fewer:#?}");
        }
    }
    runtime.block_on(base.drop_database());
}

/// Every case has a seed of its own, so that one alone can be run again.
fn sequence(seed: u64, case: u32) -> (usize, Vec<Operation>) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&case.to_le_bytes());
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let strategy = (0..12_usize, proptest::collection::vec(operation(), OPERATIONS));
    strategy.new_tree(&mut runner).unwrap().current()
}

/// Leaves out operations for as long as it still fails.
fn fewest(mut operations: Vec<Operation>, mut fails: impl FnMut(&[Operation]) -> bool) -> Vec<Operation> {
    let mut i = 0;
    while i < operations.len() {
        let mut fewer = operations.clone();
        fewer.remove(i);
        if fails(&fewer) {
            operations = fewer;
            i = 0;
        } else {
            i += 1;
        }
    }
    operations
}
