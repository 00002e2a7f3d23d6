//! A virtual node: one life after another of the real dispatcher, with a switch that kills it.
//!
//! A dead life's calls of its ports never return, so whatever its tasks still wait for, nothing more comes out of
//! them. That is what death looks like from the outside, and it needs no help of the dispatcher.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::campaigns;
use super::ledger::SimLedger;
use super::log::{Micros, RunLog, StopLog};
use super::platform::SimOutlet;
use super::world::{World, lock};
use engine::addresses::ApiBases;
use engine::dispatch::ports::Dice;
use engine::dispatch::{self, EmptyShelf, Meters, Ports, Settings};

/// One life of a node.
#[derive(Debug)]
pub(super) struct Run {
    pub world: Arc<World>,
    pub name: String,
    index: usize,
    dead: AtomicBool,
    died: Notify,
    paused_until: Mutex<Instant>,
}

impl Run {
    fn new(world: &Arc<World>, node: usize, life: usize) -> Run {
        let name = format!("n{node}.{life}");
        let mut logs = world.logs();
        logs.nodes.push(RunLog {
            run: name.clone(),
            started_at: world.at(),
            crashed_at: None,
            pauses: Vec::new(),
            ledger_trouble: Vec::new(),
            empty_claims: 0,
            calls: 0,
            stop: None,
        });
        let index = logs.nodes.len() - 1;
        drop(logs);
        Run {
            world: Arc::clone(world),
            name,
            index,
            dead: AtomicBool::new(false),
            died: Notify::new(),
            paused_until: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Returns when the node runs; never when it is dead.
    pub(super) async fn alive(&self) {
        loop {
            if self.is_dead() {
                std::future::pending::<()>().await;
            }
            let until = *lock(&self.paused_until);
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// The end of this life; whoever calls it is gone too.
    pub(super) async fn crash(&self, how: &'static str) -> std::convert::Infallible {
        if !self.dead.swap(true, Ordering::AcqRel) {
            let at = self.world.at();
            self.world.run_log(self.index, |log| log.crashed_at = Some(at));
            self.world.sometimes(how);
            self.world.trace(format_args!("{} {how}", self.name));
            self.died.notify_one();
        }
        std::future::pending().await
    }

    /// Stands still for longer than a lease.
    pub(super) fn pause(&self) {
        let lease = self.world.options.lease;
        let length = self.world.between(lease + Duration::from_secs(1), lease * 3);
        self.world.sometimes("node: stood still past its lease");
        self.world.trace(format_args!("{} stands still for {} ms", self.name, length.as_millis()));
        let at = self.world.at();
        let until = at + length.as_micros() as Micros;
        self.world.run_log(self.index, |log| log.pauses.push((at, until)));
        *lock(&self.paused_until) = Instant::now() + length;
    }

    /// Writes into the log of this life.
    pub(super) fn log<T>(&self, change: impl FnOnce(&mut RunLog) -> T) -> Option<T> {
        self.world.run_log(self.index, change)
    }

    /// The ledger did not answer, or so late that a lease may have ended.
    pub(super) fn ledger_trouble(&self) {
        let at = self.world.at();
        self.world.run_log(self.index, |log| log.ledger_trouble.push(at));
    }
}

/// Lives again and again until it is told to end; an orderly end of the last life is part of it.
pub(super) async fn live(world: Arc<World>, node: usize, mut end: watch::Receiver<bool>) {
    for life in 0.. {
        if *end.borrow() {
            return;
        }
        let run = Arc::new(Run::new(&world, node, life));
        world.trace(format_args!("{} starts", run.name));
        let (stop, stopped) = watch::channel(false);
        let (store, settings, ports) = (world.store.clone(), settings(&run), ports(&run, node, life));
        let mut task = tokio::spawn(async move {
            // As a node does: what must not leave any more is kept back before anything is sent.
            engine::campaigns::catch_up(&store).await?;
            dispatch::run(settings, ports, stopped).await
        });
        let campaigns = tokio::spawn(campaigns::bring_on(Arc::clone(&run)));
        let stop_in = world.options.node.stop_every.map(|every| world.between(every / 2, every * 2));
        let stop_asked = async {
            let calm = world.is_calm();
            match stop_in {
                Some(after) if !calm => tokio::time::sleep(after).await,
                _ => std::future::pending().await,
            }
        };
        let ends = async { end.wait_for(|end| *end).await.map(|_| ()).unwrap_or_default() };
        let asked = tokio::select! {
            biased;
            () = run.died.notified() => {
                task.abort();
                false
            }
            _ = &mut task => false,
            () = ends => true,
            () = stop_asked => true,
        };
        if asked {
            campaigns.abort();
            stop_in_order(&world, &run, &stop, &mut task).await;
        }
        campaigns.abort();
        tokio::time::sleep(world.between(Duration::from_millis(200), Duration::from_secs(5))).await;
    }
}

type Task = tokio::task::JoinHandle<store::Result<bool>>;

async fn stop_in_order(world: &World, run: &Run, stop: &watch::Sender<bool>, task: &mut Task) {
    let asked_at = world.at();
    let log = |over_at, drained| {
        world.run_log(run.index, |log| log.stop = Some(StopLog { asked_at, over_at, drained }))
    };
    log(None, false);
    world.trace(format_args!("{} is asked to stop", run.name));
    let _ = stop.send(true);
    // Twice what it may take: a stop that hangs is the checker's business.
    let patience = world.options.drain() * 2 + Duration::from_secs(5);
    tokio::select! {
        biased;
        () = run.died.notified() => task.abort(),
        ended = &mut *task => {
            let drained = matches!(ended, Ok(Ok(true)));
            log(Some(world.at()), drained);
            world.trace(format_args!("{} has stopped, drained: {drained}", run.name));
            if drained {
                world.sometimes("node: stopped in order and drained");
            }
        }
        () = tokio::time::sleep(patience) => task.abort(),
    }
    // Whatever is left of it must not go on as a ghost.
    run.dead.store(true, Ordering::Release);
}

fn settings(run: &Run) -> Settings {
    let options = &run.world.options;
    let lease = domain::time::Span(i64::try_from(options.lease.as_micros()).unwrap_or(i64::MAX));
    Settings {
        lease,
        in_flight_max: options.in_flight_max,
        media_max: options.in_flight_max.div_ceil(2),
        drain: options.drain(),
        ..Settings::new(run.name.clone())
    }
}

fn ports(run: &Arc<Run>, node: usize, life: usize) -> Ports {
    let dice = run.world.options.seed ^ ((node as u64) << 32) ^ ((life as u64) << 40);
    Ports {
        ledger: Arc::new(SimLedger { run: Arc::clone(run) }),
        outlet: Arc::new(SimOutlet { run: Arc::clone(run) }),
        shelf: Arc::new(EmptyShelf),
        dice: Dice::seeded(dice),
        bases: ApiBases::default(),
        meters: Arc::new(Meters::default()),
    }
}
