//! A node: the database open, the configuration applied, the loops running, and an orderly end.
//!
//! `rupor run` and `rupor demo` both come through here, so that a rehearsal is the real thing. It knows nothing of the
//! command line and of signals; who starts a node also tells it to stop. Start with `start`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use domain::time::Span;
use platforms::platform::Network;
use store::{Address, Health, Store, StoreError};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::Config;
use crate::config::plan::{self, Absent};
use engine::addresses::ApiBases;
use engine::dispatch::ports::{Dice, Outlet, Platforms};
use engine::dispatch::{self, Meters, Ports};
use engine::epoch::Note;
use engine::upkeep::kept_up;
use engine::{bot, callbacks, campaigns, monitor, sources, vitals};

use crate::{http, operate};

/// How often a running node looks whether the database has gone back or the clock was set.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// After so many looks the boot epoch goes on: what may be lost at most without being noticed by it. A file is fsynced
/// for it and can only go back by a backup; a server may be replaced by one that lags.
const FILE_LOOKS: u32 = 15;
const SERVER_LOOKS: u32 = 2;

/// How long the end of the loops may take beyond the drain, and the last word to a database that is well.
const STOP_SLACK: Duration = Duration::from_millis(200);
const LAST_WORD: Duration = Duration::from_secs(2);

/// Between two tries to reach the database or to start sending.
const START_AGAIN: Duration = Duration::from_secs(1);

/// How long a node that starts waits for a server that is not there.
const DATABASE_WAIT: Duration = Duration::from_secs(60);

/// How often a node looks for the key that another one is just making, and how long it waits between two looks.
const KEY_TRIES: u32 = 20;
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// The workspace of the quick start.
const QUICK_START: &str = "default";

/// Everything a node is told at its start.
#[derive(Debug)]
pub(crate) struct Settings {
    pub address: Address,
    /// The key that seals tokens; the notes that must not be part of a backup lie beside it.
    pub key_path: PathBuf,
    /// What the rows should say, and what happens to those it does not name.
    pub config: Option<(Config, Absent)>,
    /// Channels of the quick start whose variable says no, while no other asks for anything.
    pub switched_off: Vec<&'static str>,
    pub listen: Option<SocketAddr>,
    pub bases: ApiBases,
    /// Whether the platforms' own limits of private chats are obeyed.
    pub platform_limits: bool,
    pub lease: Span,
    /// Usual time between two looks at a wall or feed.
    pub poll_interval: Span,
    /// How long an orderly stop waits for requests that are out.
    pub drain: Span,
    pub dispatch: bool,
    pub sources: bool,
    /// Hears people and answers them.
    pub bot: bool,
}

/// A running node. Dropping it leaves the loops alone; `stop` ends them in order.
#[derive(Debug)]
pub(crate) struct Running {
    note: Note,
    pub store: Store,
    /// Where it listens, with the port it was given.
    pub listening: Option<SocketAddr>,
    ready: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    drain: Duration,
    loops: JoinHandle<store::Result<bool>>,
    beside: Vec<JoinHandle<()>>,
    // Operators' verbs are taken until the node ends.
    _operators: Option<operate::socket::Serving>,
}

/// Brings the schema up to date, applies the configuration and starts the loops.
pub(crate) async fn start(settings: Settings) -> anyhow::Result<Running> {
    // A door that must not be opened is refused before anything is changed.
    let door = settings.listen.map(|at| http::Door::from_env(at.ip())).transpose()?;
    let listener = match settings.listen {
        Some(at) => Some(bind(at).await?),
        None => None,
    };
    let address = &settings.address;
    let store = open(address, &settings).await?;
    let note = Note::beside(&settings.key_path);
    if let Some(why) = note.check(&store).await? {
        tracing::error!(why, "all sending is held");
    }
    if let Some((config, absent)) = &settings.config {
        let starter =
            operate::who::own(Some("the configuration was applied when the node started".to_owned()));
        apply(&store.by(starter), config, *absent).await?;
        // Nobody waits for the platforms: a node starts without them.
        let (config, bases) = (config.clone(), settings.bases.clone());
        tokio::spawn(async move {
            for problem in operate::check::alert_ways(&config, &bases).await {
                tracing::warn!("{problem}");
            }
        });
    }
    if settings.config.is_none() {
        look_around(&store, &settings.switched_off).await?;
    }
    let operators = match operate::socket_path(address) {
        Some(path) => Some(operate::serve(store.clone(), &path)?),
        None => None,
    };
    let shown = http::Node::new(store.clone());
    let mut beside = vec![
        keep("quiet hours", &store, operate::quiet::keep),
        keep("watch", &store, {
            let bases = settings.bases.clone();
            move |store| crate::watch::keep(store, bases.clone())
        }),
        keep("boot epoch", &store, {
            let note = note.clone();
            move |store| keep_epoch(note.clone(), store)
        }),
    ];
    if settings.bot {
        let bases = settings.bases.clone();
        beside.push(keep("desk", &store, move |store| crate::desk::keep(store, bases.clone())));
    }
    let mut listening = None;
    if let (Some(listener), Some(door)) = (listener, door) {
        let bound = listener.local_addr()?;
        tracing::info!(address = %bound, "listening");
        listening = Some(bound);
        beside.push(tokio::spawn(http::serve(listener, shown.clone(), door)));
    }
    let (stop, stopped) = watch::channel(false);
    let ready = Arc::clone(&shown.ready);
    let drain = settings.drain.into();
    let loops = tokio::spawn(run_loops(settings, store.clone(), shown.meters, stopped));
    Ok(Running { store, note, listening, ready, stop, drain, loops, beside, _operators: operators })
}

impl Running {
    /// No new work; what is out is finished, the rest is handed back. Says whether all of it was written down in time.
    pub(crate) async fn stop(self) -> anyhow::Result<bool> {
        self.ready.store(false, Ordering::Release);
        // Nobody left to tell means the loops have ended already.
        let _ = self.stop.send(true);
        let mut loops = self.loops;
        // Whatever hangs (a database that is gone, most likely) must not outlast the stop by much.
        let drained = match tokio::time::timeout(self.drain + STOP_SLACK, &mut loops).await {
            Ok(ended) => ended.context("the loops ended badly")??,
            Err(_) => {
                loops.abort();
                tracing::warn!(
                    "some loops did not end in time; what they held is taken up when its lease ends"
                );
                false
            }
        };
        self.beside.iter().for_each(JoinHandle::abort);
        if let Health::Ill(_) = self.store.health() {
            tracing::warn!("the boot epoch could not go on: the database is in trouble");
            return Ok(drained);
        }
        // A backup of an earlier moment of this run must stand behind what was sent in it.
        match tokio::time::timeout(LAST_WORD, self.note.advance(&self.store)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(error = format!("{error:#}"), "the boot epoch could not go on"),
            Err(_) => tracing::warn!("the boot epoch could not go on: the database does not answer"),
        }
        Ok(drained)
    }

    /// Waits until the loops end by themselves, which only a failure makes them do.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.loops).await.context("the loops ended badly")??;
        Ok(())
    }
}

/// A start without a configuration: what variables switched off is shut and keeps its queue, and who starts without
/// anything to do hears what to do.
async fn look_around(store: &Store, switched_off: &[&str]) -> anyhow::Result<()> {
    let workspaces = store.workspaces().await?;
    if workspaces.is_empty() {
        tracing::warn!(
            "nothing is configured yet: `rupor init` writes a first rupor.toml, `rupor apply` puts it to work while this \
             runs, `rupor run --config rupor.toml` does both at the start"
        );
    }
    let Some(workspace) = workspaces.iter().find(|workspace| workspace.name == QUICK_START) else {
        return Ok(());
    };
    let ws = workspace.workspace_id;
    let starter = operate::who::own(Some("its variable switched it off".to_owned()));
    let accounts = store.accounts(ws).await?;
    for channel in store.channels(ws).await? {
        let account = accounts.iter().find(|account| account.account_id == channel.account_id);
        // The quick start gives the account and the channel one name.
        let of_variables = account.is_some_and(|account| account.name == channel.name);
        if channel.enabled && of_variables && switched_off.contains(&channel.name.as_str()) {
            let by = store::DisabledBy::Operator;
            store.by(starter.clone()).disable_channel(ws, channel.channel_id, by).await?;
            tracing::warn!(
                channel = channel.name,
                "the channel was switched off by its variable; what waits is kept"
            );
        }
    }
    Ok(())
}

/// Waits for a server that is just being restarted: a node that gave up at once would need somebody to start it.
async fn open(address: &Address, settings: &Settings) -> store::Result<Store> {
    let asked = tokio::time::Instant::now();
    let mut said = false;
    loop {
        match open_now(address, settings).await {
            Err(away @ StoreError::Unreachable { .. }) if asked.elapsed() < DATABASE_WAIT => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!("{away}; trying again for {} s", DATABASE_WAIT.as_secs());
                }
                tokio::time::sleep(START_AGAIN).await;
            }
            opened => return opened,
        }
    }
}

async fn open_now(address: &Address, settings: &Settings) -> store::Result<Store> {
    let applied = Store::migrate(address).await?;
    if !applied.is_empty() {
        tracing::info!(?applied, "the schema was brought up to date");
    }
    // Of nodes that start together on nothing, one makes the key; the others find it a moment later.
    let mut tries = if settings.key_path.exists() { 1 } else { KEY_TRIES };
    loop {
        tries = tries.saturating_sub(1);
        match engine::opening::open_when_free(address, &settings.key_path).await {
            Err(StoreError::Key(_)) if tries > 0 && settings.key_path.exists() => {
                tokio::time::sleep(TRY_AGAIN).await;
            }
            opened => {
                let store = opened?;
                // A damaged file is refused before anything is sent from it.
                store.look_for_damage().await?;
                return Ok(store);
            }
        }
    }
}

/// Another node that starts in this moment may make the same rows; then what is left is planned anew.
async fn apply(store: &Store, config: &Config, absent: Absent) -> anyhow::Result<()> {
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    let rows = config.workspaces.iter().map(|w| 1 + w.accounts.len() + w.channels.len() + w.sources.len());
    let mut done = plan::apply(store, config, absent).await;
    for _ in 0..rows.sum() {
        match &done {
            Err(error) if was_made_meanwhile(error) => done = plan::apply(store, config, absent).await,
            _ => break,
        }
    }
    for step in &done.context("the configuration cannot be applied")?.steps {
        let verb = step.verb.as_str();
        tracing::info!(verb, what = step.what, name = step.name, detail = step.detail, "applied");
    }
    Ok(())
}

fn was_made_meanwhile(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.into_iter().any(|cause: &StoreError| matches!(cause, StoreError::Exists { .. }))
}

async fn run_loops(
    settings: Settings,
    store: Store,
    meters: Arc<Meters>,
    stopped: watch::Receiver<bool>,
) -> store::Result<bool> {
    let mut sending = dispatch::Settings::new(uuid::Uuid::new_v4().simple().to_string());
    sending.lease = settings.lease;
    sending.platform_limits = settings.platform_limits;
    sending.drain = settings.drain.into();
    tracing::info!(database = %settings.address, run = sending.run_id, "running");
    let reading = sources::Settings {
        owner: sending.run_id.clone(),
        interval: settings.poll_interval,
        bases: settings.bases.clone(),
        lease: settings.lease,
        deadline: sources::DEADLINE,
        grace: sources::GRACE.min(settings.drain.into()),
    };
    // A task for each: a loop that is busy, or is telling of its panic, holds up no other.
    let mut loops = JoinSet::new();
    let with = || (store.clone(), stopped.clone());
    if settings.sources {
        let (store, stopped) = with();
        add(&mut loops, "sources", move || {
            sources::run(store.clone(), Network::default(), reading.clone(), stopped.clone())
        });
    }
    if settings.bot {
        let (store, stopped) = with();
        let talking = bot::Settings { owner: sending.run_id.clone(), bases: settings.bases.clone() };
        add(&mut loops, "bot", move || {
            bot::run(store.clone(), Network::default(), talking.clone(), stopped.clone())
        });
    }
    if settings.dispatch {
        let (store, stopped) = with();
        store.expect_work();
        add(&mut loops, "campaigns", move || campaigns::run(store.clone(), stopped.clone()));
        loops.spawn(dispatching(&settings, sending, with(), meters));
    }
    let ((store, stopped), lease) = (with(), settings.lease);
    add(&mut loops, "monitor", move || monitor::run(store.clone(), lease, stopped.clone()));
    let (store, stopped) = with();
    add(&mut loops, "callbacks", move || callbacks::run(store.clone(), stopped.clone()));
    let (store, stopped) = with();
    add(&mut loops, "vitals", move || vitals::run(store.clone(), stopped.clone()));
    let mut drained = Ok(true);
    while let Some(ended) = loops.join_next().await {
        match ended {
            Ok(Ok(true)) => {}
            Ok(other) => drained = other,
            Err(broke) => tracing::error!(%broke, "a loop ended badly"),
        }
    }
    drained
}

/// One more loop, started again should it panic.
fn add<F: Future<Output = ()> + Send + 'static>(
    loops: &mut JoinSet<store::Result<bool>>,
    name: &'static str,
    start: impl FnMut() -> F + Send + 'static,
) {
    loops.spawn(async move {
        kept_up(name, start).await;
        Ok(true)
    });
}

/// The loop that sends; its connections to the platforms outlive a panic.
fn dispatching(
    settings: &Settings,
    sending: dispatch::Settings,
    (store, stopped): (Store, watch::Receiver<bool>),
    meters: Arc<Meters>,
) -> impl Future<Output = store::Result<bool>> + Send + 'static {
    let outlet = Arc::new(Platforms { network: Network::default() });
    let bases = settings.bases.clone();
    let behind = store.clone();
    let ports = Arc::new(move || Ports {
        ledger: Arc::new(store.clone()),
        outlet: Arc::clone(&outlet) as Arc<dyn Outlet>,
        shelf: Arc::new(store.clone()),
        dice: Dice::seeded(rand::random()),
        bases: bases.clone(),
        meters: Arc::clone(&meters),
    });
    kept_up("dispatch", move || {
        let ports = Arc::clone(&ports);
        dispatch_until_stopped(sending.clone(), behind.clone(), move || ports(), stopped.clone())
    })
}

/// A dispatcher cannot start while the database does not say what time it is. It tries again: a node without one would
/// look well and send nothing. What must not leave any more is kept back before it sends anything.
async fn dispatch_until_stopped(
    sending: dispatch::Settings,
    store: Store,
    ports: impl Fn() -> Ports,
    mut stopped: watch::Receiver<bool>,
) -> store::Result<bool> {
    loop {
        let ended = match campaigns::catch_up(&store).await {
            Ok(()) => dispatch::run(sending.clone(), ports(), stopped.clone()).await,
            Err(error) => Err(error),
        };
        match ended {
            Err(error) if !*stopped.borrow() => {
                tracing::warn!(%error, "sending cannot start; trying again");
                let _ = tokio::time::timeout(START_AGAIN, stopped.wait_for(|stop| *stop)).await;
            }
            ended => return ended,
        }
    }
}

/// A loop beside the others, started again should it panic.
fn keep<F: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    store: &Store,
    start: impl Fn(Store) -> F + Send + 'static,
) -> JoinHandle<()> {
    let store = store.clone();
    tokio::spawn(kept_up(name, move || start(store.clone())))
}

async fn bind(at: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    let bound = tokio::net::TcpListener::bind(at).await;
    bound.with_context(|| format!("--listen {at}: the address cannot be used; choose a free port"))
}

async fn keep_epoch(note: Note, store: Store) {
    let every = if matches!(store, Store::Sqlite(_)) { FILE_LOOKS } else { SERVER_LOOKS };
    for look in 1_u32.. {
        tokio::time::sleep(LOOK_EVERY).await;
        let looked = match look.is_multiple_of(every) {
            true => note.advance(&store).await,
            false => note.compare(&store).await,
        };
        match looked {
            Ok(None) => {}
            Ok(Some(why)) => tracing::error!(why, "all sending is held"),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the boot epoch could not go on"),
        }
        // The store says it by itself, in the log and as an event.
        if let Err(error) = store.clock_stepped().await {
            tracing::warn!(%error, "a step of the clock could not be told");
        }
    }
}

/// SIGTERM or Ctrl-C. Both are heard from the call on, not only when the answer is waited for: a stop that comes while a
/// node starts must not end it in the middle of a request.
pub(crate) fn told_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (terminated, interrupted) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let told = async |signal: std::io::Result<tokio::signal::unix::Signal>| match signal {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    };
    async move {
        tokio::select! {
            () = told(interrupted) => {}
            () = told(terminated) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_that_comes_before_anybody_waits_for_it_is_heard() {
        let told = told_to_stop();
        let id = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        tokio::time::timeout(Duration::from_secs(30), told).await.unwrap();
    }
}
