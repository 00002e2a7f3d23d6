//! `rupor sandbox`: the three platforms on loopback, for rehearsals and for other people's bots.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;

use ::sandbox::{LimitsMode, Name, Options, Sandbox, StartError};
use anyhow::Context;
use clap::{Args, ValueEnum};

/// Serve Telegram, VK and MAX on loopback, with a page that shows what readers see.
///
/// Point any bot library at the printed API bases.
/// Without --any-token only tokens registered with POST /_/accounts work.
/// The page is at /, the control calls are under /_/ (GET /_/faults lists what can go wrong on command).
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    rupor sandbox --any-token\n  \
    rupor sandbox --listen 127.0.0.1:0 --any-token --limits real\n  \
    curl -d '{\"platform\":\"telegram\",\"kind\":\"429\",\"retry_after\":5,\"times\":3}' http://127.0.0.1:7900/_/faults")]
pub(super) struct SandboxArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7900")]
    listen: SocketAddr,
    /// Listen beyond loopback too: everybody who can reach it sees and changes everything
    #[arg(long)]
    expose: bool,
    /// Seed of chance: faults with a probability, sample pictures, made-up ids
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Accept every token with full rights, and any numeric chat id on first use
    #[arg(long)]
    any_token: bool,
    /// Enforce the platforms' speed limits
    #[arg(long, value_enum, default_value_t = Limits::Off)]
    limits: Limits,
    /// Ledger rows and visible messages kept per platform; the oldest go first
    #[arg(long, value_name = "ROWS", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    ledger_max: u32,
    /// Megabytes of uploaded media kept; the oldest go first
    #[arg(long, value_name = "MB", default_value_t = 512)]
    media_max: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Limits {
    /// Everything is let through
    Off,
    /// Telegram 30/s per bot, 1/s per chat, 20/min per group; VK 3 to 20/s; MAX 30/s and 2/s per chat
    Real,
}

/// Serves until it is interrupted.
pub(super) fn run(args: &SandboxArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(serve(args))
}

async fn serve(args: &SandboxArgs) -> anyhow::Result<()> {
    let sandbox = Sandbox::start(options(args)).await.map_err(explained)?;
    // Asked for first: whoever reads the address may end it at once.
    let interrupted = interrupted()?;
    announce(&sandbox)?;
    interrupted.await?;
    sandbox.shutdown().await;
    Ok(())
}

fn options(args: &SandboxArgs) -> Options {
    Options {
        listen: args.listen,
        exposed: args.expose,
        seed: args.seed,
        any_token: args.any_token,
        limits: match args.limits {
            Limits::Off => LimitsMode::Off,
            Limits::Real => LimitsMode::Real,
        },
        ledger_max: args.ledger_max as usize,
        messages_max: args.ledger_max as usize,
        media_bytes_max: args.media_max as usize * 1_000_000,
        ..Options::default()
    }
}

/// The usual mistake gets its remedy along.
fn explained(error: StartError) -> anyhow::Error {
    match &error {
        StartError::Listen { address, error: cause } if cause.kind() == ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "{address} is in use: another sandbox may be running; choose another with --listen, or port 0 for a free one"
            )
        }
        StartError::Exposed { .. } => {
            anyhow::anyhow!("{error}; add --expose if that is meant, or listen on 127.0.0.1")
        }
        _ => error.into(),
    }
}

/// Says where everything is. The first line is for scripts: they wait for it and read the address.
fn announce(sandbox: &Sandbox) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "sandbox listens on {}", sandbox.origin())?;
    for platform in Name::ALL {
        let variable = platform.as_str().to_uppercase();
        writeln!(out, "  {:<9} {}  (RUPOR_{variable}_API)", platform.as_str(), sandbox.base(platform))?;
    }
    writeln!(out, "  {:<9} {}/", "page", sandbox.origin())?;
    out.flush()?;
    Ok(())
}

/// Hears both signals from this call on, not only from the first wait.
fn interrupted() -> anyhow::Result<impl Future<Output = anyhow::Result<()>>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut pressed = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    Ok(async move {
        tokio::select! {
            _ = pressed.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    })
}
