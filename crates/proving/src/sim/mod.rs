//! The simulator: the real dispatcher and the real store in a world where everything that can go wrong does.
//!
//! One to five virtual nodes run `dispatch::run` on one SQLite database in memory, with tokio's time driven by hand
//! and one seeded source of chance; a simulated platform accepts, refuses, floods and loses answers. First chaos, then
//! calm, in which everything must come to an end. Afterwards `check` reads three logs and judges. The same seed gives
//! the same run, to the microsecond. Start reading at `run_seed`; docs/simulation.md says how to use it.

mod campaigns;
mod check;
mod client;
mod collect;
mod ledger;
pub(crate) mod log;
pub(crate) mod many;
mod node;
mod options;
mod people;
mod platform;
pub(crate) mod saboteur;
pub(crate) mod sometimes;
mod walls;
mod world;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::delivery::Status;
use store::DeliveryFilter;
use tokio::sync::watch;

pub(crate) use check::Violation;
use options::Options;
use saboteur::Saboteur;
use sometimes::Sometimes;
use world::World;

/// What one seed gave.
#[derive(Debug)]
pub(crate) struct SeedReport {
    pub seed: u64,
    pub options: String,
    pub violations: Vec<Violation>,
    pub tally: check::Tally,
    pub sometimes: Sometimes,
    pub trace_hash: u64,
    pub trace: Vec<String>,
    pub virtual_time: Duration,
    /// Calls of the ledger, and those of them that asked for work and got none.
    pub calls: (u64, u64),
}

/// Whether the lines of the trace are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracing {
    HashOnly,
    Lines,
}

/// Runs one seed from the first row to the verdict.
pub(crate) fn run_seed(
    seed: u64,
    saboteur: Option<Saboteur>,
    tracing: Tracing,
) -> anyhow::Result<SeedReport> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(simulate(Options::of(seed, saboteur), saboteur, tracing))
}

async fn simulate(
    options: Options,
    saboteur: Option<Saboteur>,
    tracing: Tracing,
) -> anyhow::Result<SeedReport> {
    let world = Arc::new(World::new(options, saboteur, tracing == Tracing::Lines).await?);
    if world.options.nodes > 1 {
        world.sometimes("node: one of several on one ledger");
    }
    // One channel each: several listeners on one would be woken in an order of their own.
    let nodes: Vec<_> = (0..world.options.nodes)
        .map(|node| {
            let (end, ended) = watch::channel(false);
            (end, tokio::spawn(node::live(Arc::clone(&world), node, ended)))
        })
        .collect();
    let client = tokio::spawn(client::post_all(Arc::clone(&world)));
    let mail = tokio::spawn(people::write_all(Arc::clone(&world)));
    tokio::spawn(campaigns::operate(Arc::clone(&world)));
    tokio::spawn(client::operate(Arc::clone(&world)));
    let hold = tokio::spawn(client::hold(Arc::clone(&world)));
    tokio::spawn(jump(Arc::clone(&world)));

    tokio::time::sleep(world.options.chaos).await;
    world.become_calm();
    let _ = client.await;
    let _ = mail.await;
    let _ = hold.await;
    wait_until_drained(&world).await?;
    for (end, node) in nodes {
        let _ = end.send(true);
        let _ = node.await;
    }
    wait_for_ghosts(&world).await;

    let logs = collect::collect(&world).await?;
    let (violations, tally) = check::check(&logs, &world.options, &mut |what| world.sometimes(what));
    Ok(SeedReport {
        seed: world.options.seed,
        options: format!("{:?}", world.options),
        violations,
        tally,
        sometimes: world.counted(),
        trace_hash: world.trace_hash(),
        trace: world.trace_lines(),
        virtual_time: world.elapsed(),
        calls: logs.nodes.iter().fold((0, 0), |sum, run| (sum.0 + run.calls, sum.1 + run.empty_claims)),
    })
}

async fn jump(world: Arc<World>) {
    for (at, by_us) in world.options.ledger.jumps.clone() {
        tokio::time::sleep(at.saturating_sub(world.elapsed())).await;
        world.jump(by_us);
    }
}

/// Waits until nothing is pending or out, or until it has taken longer than V21 allows any run.
async fn wait_until_drained(world: &World) -> store::Result<()> {
    let patience = Duration::from_secs(3_600);
    let started = world.elapsed();
    while world.elapsed() - started < patience {
        if !anything_waits(world).await? {
            let at = world.at();
            world.logs().drained_at = Some(at);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// The lanes first, which cost little; dialogues are not among them.
async fn anything_waits(world: &World) -> store::Result<bool> {
    if world.campaigns.load(Ordering::Acquire) > 0 {
        return Ok(true);
    }
    for workspace in &world.workspaces {
        for lane in world.store.lanes(*workspace).await? {
            if lane.counts.queued + lane.counts.retry + lane.counts.sending > 0 {
                return Ok(true);
            }
        }
    }
    for workspace in &world.workspaces {
        for status in [Status::Queued, Status::Retry, Status::Sending] {
            let waiting = DeliveryFilter { status: Some(status), ..DeliveryFilter::default() };
            if !world.store.deliveries(*workspace, waiting, 1).await?.is_empty() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Requests that the simulator still holds up for nodes that stand still.
async fn wait_for_ghosts(world: &World) {
    let last = world.logs().nodes.iter().flat_map(|run| &run.pauses).map(|(_, until)| *until).max();
    let wait = last.unwrap_or(0) - world.at();
    if wait > 0 {
        tokio::time::sleep(Duration::from_micros(wait.unsigned_abs())).await;
    }
    tokio::time::sleep(world.options.lease).await;
}
