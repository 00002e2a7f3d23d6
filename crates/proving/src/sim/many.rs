//! Many seeds on all cores, and what they add up to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;

use super::check::Tally;
use super::saboteur::Saboteur;
use super::sometimes::Sometimes;
use super::world::lock;
use super::{SeedReport, Tracing, run_seed};

/// One seed in this many is run twice: the traces must be equal.
pub(crate) const TWICE_EVERY: u64 = 50;
/// A run of at least this many seeds in which something never happened is invalid.
pub(crate) const LONG_RUN: u64 = 500;
/// Violations kept; the first ones say enough.
const KEPT_MAX: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub seeds: u64,
    pub run_twice: u64,
    /// Seeds whose second run differed from the first.
    pub unequal: Vec<u64>,
    /// The runs that broke an invariant, by seed; at most `KEPT_MAX`.
    pub broken: Vec<SeedReport>,
    pub n_broken: u64,
    pub tally: Tally,
    pub sometimes: Sometimes,
    pub virtual_time: Duration,
}

impl Summary {
    /// Nothing violated, nothing unequal, and in a long run nothing that never happened.
    pub(crate) fn is_good(&self) -> bool {
        self.n_broken == 0 && self.unequal.is_empty() && !self.is_invalid()
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.seeds >= LONG_RUN && !self.sometimes.never().is_empty()
    }

    fn add(&mut self, outcome: SeedReport) {
        self.seeds += 1;
        self.tally.add(&outcome.tally);
        self.sometimes.add(&outcome.sometimes);
        self.virtual_time += outcome.virtual_time;
        if !outcome.violations.is_empty() {
            self.n_broken += 1;
            if self.broken.len() < KEPT_MAX {
                self.broken.push(outcome);
            }
        }
    }
}

/// Runs `n` seeds from `from` on.
pub(crate) fn run_many(from: u64, n: u64, told: &(dyn Fn(u64) + Sync)) -> anyhow::Result<Summary> {
    let next = AtomicU64::new(from);
    let end = from.saturating_add(n);
    let summary = Mutex::new(Summary::default());
    let work = || -> anyhow::Result<()> {
        loop {
            let seed = next.fetch_add(1, Ordering::AcqRel);
            if seed >= end {
                return Ok(());
            }
            let outcome = run_seed(seed, None, Tracing::HashOnly)?;
            let again = match seed % TWICE_EVERY {
                0 => Some(run_seed(seed, None, Tracing::HashOnly)?.trace_hash),
                _ => None,
            };
            let mut summary = lock(&summary);
            if let Some(hash) = again {
                summary.run_twice += 1;
                if hash != outcome.trace_hash {
                    summary.unequal.push(seed);
                }
            }
            summary.add(outcome);
            told(summary.seeds);
        }
    };
    on_all_cores(&work)?;
    let mut summary = summary.into_inner().unwrap_or_default();
    summary.broken.sort_by_key(|outcome| outcome.seed);
    Ok(summary)
}

/// Runs seeds against one planted bug until the checker speaks; `None` if it stays silent for `n` seeds.
pub(crate) fn hunt(saboteur: Saboteur, from: u64, n: u64) -> anyhow::Result<Option<SeedReport>> {
    for seed in from..from.saturating_add(n) {
        let outcome = run_seed(seed, Some(saboteur), Tracing::HashOnly)?;
        if !outcome.violations.is_empty() {
            return Ok(Some(outcome));
        }
    }
    Ok(None)
}

fn on_all_cores(work: &(dyn Fn() -> anyhow::Result<()> + Sync)) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(_) => bail!("a seed panicked; run fewer seeds with --from to find it"),
            }
        }
        Ok(())
    })
}
