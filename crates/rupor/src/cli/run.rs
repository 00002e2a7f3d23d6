//! `rupor run`: the node. Starts the loops, listens, and stops in order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use domain::limits::LEASE;
use domain::time::Span;

use super::database::Database;
use crate::config::plan::Absent;
use engine::addresses::ApiBases;
use engine::span;

use crate::config::{self, environment};
use crate::node;

/// Run a node: read walls and feeds, send what is queued, until it is told to stop
///
/// SIGTERM or Ctrl-C stops it in order: no new work, what is out is finished, the rest is handed back.
#[derive(Debug, Args)]
pub(super) struct Run {
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
    /// Hears people and answers them
    Bot,
}

pub(super) fn run(args: &Run) -> anyhow::Result<()> {
    super::log::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(node(args));
    // A request that outlived the drain must not hold the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

async fn node(args: &Run) -> anyhow::Result<()> {
    let address = args.database.address()?;
    let mut told = std::pin::pin!(node::told_to_stop());
    let starting = node::start(node::Settings {
        key_path: args.database.key_path(&address),
        address,
        config: args.config()?,
        switched_off: args.switched_off(),
        listen: args.listen,
        bases: ApiBases::from_env(|name| std::env::var(name).ok()),
        platform_limits: environment::platform_limits(&config::process_variables)
            .map_err(|problem| anyhow::anyhow!("{}: {}", problem.place, problem.text))?
            == config::PlatformLimits::On,
        lease: args.lease()?,
        poll_interval: positive("--poll-interval (RUPOR_POLL_INTERVAL)", &args.poll_interval)?,
        drain: positive("--drain", &args.drain)?,
        dispatch: args.starts(Loop::Dispatch),
        sources: args.starts(Loop::Sources),
        bot: args.starts(Loop::Bot),
    });
    // A database that is away is waited for; a stop is heard meanwhile.
    let mut node = tokio::select! {
        started = starting => started?,
        () = &mut told => return Ok(()),
    };
    tokio::select! {
        () = told => {}
        ended = node.ended() => return ended,
    }
    tracing::info!("stopping: no new work; what is out is finished");
    let drained = node.stop().await?;
    tracing::info!(drained, "stopped");
    Ok(())
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

    /// A file says by itself what it wants; without one a variable that says no counts, also when it was the last.
    fn switched_off(&self) -> Vec<&'static str> {
        let variables = &config::process_variables;
        match self.config.is_some() || environment::is_used(variables) {
            true => Vec::new(),
            false => environment::switched_off(variables),
        }
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
