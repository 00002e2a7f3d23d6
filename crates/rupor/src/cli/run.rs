//! `rupor run`: the node. Starts the loops, listens, and stops in order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use domain::limits::LEASE;
use domain::time::Span;
use platforms::platform::Network;
use store::{Clock, Store};
use tokio::sync::watch;

use super::database::Database;
use crate::addresses::ApiBases;
use crate::config::plan::{self, Absent};
use crate::config::{self, environment, span};
use crate::dispatch::ports::{Dice, Platforms};
use crate::dispatch::{self, Meters, Ports};
use crate::epoch::Note;
use crate::http;
use crate::{monitor, operate, sources};

/// How often the boot epoch goes on while running: what a backup may lose at most without being noticed.
const EPOCH_EVERY: Duration = Duration::from_secs(30);

/// Runs a node: reads walls and feeds, sends what is queued, until it is told to stop
///
/// SIGTERM or Ctrl-C stops it in order: no new work, what is out is finished, the rest is handed back.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    database: Database,
    /// Apply this configuration file at the start [default: the variables of the quick start, if any are set]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start only these loops
    #[arg(long, value_name = "LOOP", value_delimiter = ',')]
    only: Vec<Loop>,
    /// Address for the board at /, /v1, /metrics, /healthz and /readyz [default: none]
    ///
    /// Beyond loopback the board and the metrics need the token in RUPOR_HTTP_TOKEN.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How long a claim is held; a rehearsal may shorten it
    #[arg(long, value_name = "TIME", env = "RUPOR_LEASE")]
    lease: Option<String>,
    /// Usual time between two looks at a wall or feed
    #[arg(long, value_name = "TIME", env = "RUPOR_POLL_INTERVAL", default_value = "60s")]
    poll_interval: String,
    /// How long an orderly stop waits for requests that are out
    #[arg(long, value_name = "TIME", default_value = "30s")]
    drain: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Loop {
    /// Claims and sends
    Dispatch,
    /// Reads walls and feeds
    Sources,
}

pub fn run(args: &Run) -> anyhow::Result<()> {
    super::log::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(node(args));
    // A request that outlived the drain must not hold the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

async fn node(args: &Run) -> anyhow::Result<()> {
    let (lease, drain) = (args.lease()?, positive("--drain", &args.drain)?);
    let interval = positive("--poll-interval (RUPOR_POLL_INTERVAL)", &args.poll_interval)?;
    let config = args.config()?;
    // A door that must not be opened is refused before anything is changed.
    args.listen.map(|at| http::Door::from_env(at.ip())).transpose()?;
    let address = args.database.address()?;
    let applied = Store::migrate(&address).await?;
    if !applied.is_empty() {
        tracing::info!(?applied, "the schema was brought up to date");
    }
    let keyring = args.database.keyring(&address)?;
    let store = Store::open(&address, keyring, Clock::system()).await?;
    let note = Note::beside(&args.database.key_path(&address));
    if let Some(why) = note.check(&store).await? {
        tracing::error!(why, "all sending is held");
    }
    if let Some((config, absent)) = &config {
        let done =
            plan::apply(&store, config, *absent).await.context("the configuration cannot be applied")?;
        for step in &done.steps {
            let verb = step.verb.as_str();
            tracing::info!(verb, what = step.what, name = step.name, detail = step.detail, "applied");
        }
    }
    let _operators = match operate::socket_path(&address) {
        Some(path) => Some(operate::serve(store.clone(), &path)?),
        None => None,
    };
    tokio::spawn(operate::quiet::keep(store.clone()));
    let node = http::Node {
        store: store.clone(),
        meters: Arc::new(Meters::default()),
        ready: Arc::new(AtomicBool::new(true)),
    };
    let listening = match args.listen {
        Some(at) => Some(listen(at, node.clone()).await?),
        None => None,
    };
    tokio::spawn(advance(note, store.clone()));

    let (stop, stopped) = watch::channel(false);
    let ready = Arc::clone(&node.ready);
    tokio::spawn(async move {
        told_to_stop().await;
        tracing::info!("stopping: no new work; what is out is finished");
        ready.store(false, Ordering::Release);
        // Nobody left to tell means the loops have ended already.
        let _ = stop.send(true);
    });
    let mut settings = dispatch::Settings::new(uuid::Uuid::new_v4().simple().to_string());
    settings.lease = lease;
    settings.drain = drain.into();
    tracing::info!(database = %address, run = settings.run_id, "running");
    let bases = ApiBases::from_env(|name| std::env::var(name).ok());
    let reading = sources::Settings { owner: settings.run_id.clone(), interval, bases: bases.clone() };
    let sources = async {
        if args.starts(Loop::Sources) {
            sources::run(store.clone(), Network::default(), reading, stopped.clone()).await;
        }
    };
    let ports = Ports {
        ledger: Arc::new(store.clone()),
        outlet: Arc::new(Platforms { network: Network::default() }),
        shelf: Arc::new(store.clone()),
        dice: Dice::seeded(rand::random()),
        bases,
        meters: node.meters,
    };
    let dispatch = async {
        match args.starts(Loop::Dispatch) {
            true => dispatch::run(settings, ports, stopped.clone()).await,
            false => Ok(stopped.clone().wait_for(|stop| *stop).await.is_ok()),
        }
    };
    let monitor = monitor::run(store.clone(), lease, stopped.clone());
    let ((), drained, ()) = tokio::join!(sources, dispatch, monitor);
    let drained = drained?;
    if let Some(listening) = listening {
        listening.abort();
    }
    tracing::info!(drained, "stopped");
    Ok(())
}

async fn listen(at: SocketAddr, node: http::Node) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let door = http::Door::from_env(at.ip())?;
    let listener = tokio::net::TcpListener::bind(at)
        .await
        .with_context(|| format!("--listen {at}: the address cannot be used; choose a free port"))?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    Ok(tokio::spawn(http::serve(listener, node, door)))
}

async fn advance(note: Note, store: Store) {
    loop {
        tokio::time::sleep(EPOCH_EVERY).await;
        if let Err(error) = note.advance(&store).await {
            tracing::warn!(error = format!("{error:#}"), "the boot epoch could not go on");
        }
    }
}

async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminated) => {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
        }
        Err(_) => drop(interrupted.await),
    }
}

impl Run {
    /// A missing variable must not cost a backlog, so what the quick start does not name is only shut;
    /// a file says everything, but removing is for `rupor apply`, which asks.
    fn config(&self) -> anyhow::Result<Option<(config::Config, Absent)>> {
        let variables = &config::process_variables;
        Ok(match &self.config {
            Some(file) => Some((config::from_file(file, variables)?, Absent::Disable)),
            None if environment::is_used(variables) => Some((config::from_env(variables)?, Absent::Disable)),
            None => None,
        })
    }

    fn starts(&self, which: Loop) -> bool {
        self.only.is_empty() || self.only.contains(&which)
    }

    fn lease(&self) -> anyhow::Result<Span> {
        match &self.lease {
            Some(text) => positive("--lease (RUPOR_LEASE)", text),
            None => Ok(LEASE),
        }
    }
}

fn positive(name: &str, text: &str) -> anyhow::Result<Span> {
    match span::parse(text) {
        Some(span) if span.0 > 0 => Ok(span),
        _ => bail!("{name} {text:?} is not a time; write {}", span::FORM),
    }
}
