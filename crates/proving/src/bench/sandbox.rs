//! The sandbox as a process of its own, so that what it costs is not in the figures. Started by the benches themselves.

use std::io::Write;
use std::net::SocketAddr;

use ::sandbox::{LimitsMode, Options, Sandbox};
use anyhow::Context;
use clap::Args;

/// Serve the platforms for a bench
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    any_token: bool,
    #[arg(long)]
    ledger_max: usize,
    #[arg(long)]
    limits: String,
}

/// Serves until it is killed; its first line names its address.
pub(super) fn run(args: &Serve) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let options = Options {
            listen: args.listen,
            any_token: args.any_token,
            limits: if args.limits == "real" { LimitsMode::Real } else { LimitsMode::Off },
            ledger_max: args.ledger_max,
            messages_max: args.ledger_max,
            ..Options::default()
        };
        let sandbox = Sandbox::start(options).await?;
        let mut out = anstream::stdout().lock();
        writeln!(out, "sandbox listens on {}", sandbox.origin())?;
        out.flush()?;
        drop(out);
        tokio::signal::ctrl_c().await?;
        sandbox.shutdown().await;
        Ok(())
    })
}
