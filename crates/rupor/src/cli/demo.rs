//! `rupor demo`: the whole job on an invented city, without tokens and without the internet.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::operator::say;
use crate::demo::{self, World};
use crate::node;

/// Show the whole job on an invented city: no tokens, no internet
///
/// The platforms are those of the sandbox, the database is new and goes away at the end; the node is the real one.
/// Posts keep appearing, copies are recognised, one channel is banned and comes back, cases are closed, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rupor demo\n  rupor demo --once")]
pub(super) struct Demo {
    /// Play a fixed set of posts, compare what readers saw with what they should, and end: 0 right, 1 not
    #[arg(long)]
    once: bool,
    /// Address of the board [default: 127.0.0.1:7878, with --once a free port]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address of the sandbox and its page [default: 127.0.0.1:7900, with --once a free port]
    #[arg(long, value_name = "ADDRESS")]
    sandbox: Option<SocketAddr>,
}

pub(super) fn run(args: &Demo) -> anyhow::Result<()> {
    super::log::start_at("error");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(show(args));
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

async fn show(args: &Demo) -> anyhow::Result<()> {
    let at = |given: Option<SocketAddr>, port: u16| {
        given.unwrap_or(SocketAddr::from(([127, 0, 0, 1], if args.once { 0 } else { port })))
    };
    let world = World::start(at(args.listen, 7878), at(args.sandbox, 7900)).await?;
    announce(&world)?;
    let done = tokio::select! {
        done = perform(&world, args) => done,
        () = node::told_to_stop() => say("stopping"),
    };
    world.end().await?;
    done
}

/// The first line is for scripts: they wait for it and read the address.
fn announce(world: &World) -> anyhow::Result<()> {
    say(&format!("sandbox listens on {}", world.sandbox.origin()))?;
    say(&format!("  what readers see    {}/", world.sandbox.origin()))?;
    if let Some(board) = world.node.listening {
        say(&format!("  what the node does  http://{board}/"))?;
    }
    say(&format!("  ask it yourself     rupor status --db {}\n", world.address))
}

async fn perform(world: &World, args: &Demo) -> anyhow::Result<()> {
    demo::play(world).await?;
    let verdict = demo::judge_all(world).await?;
    say(&verdict.summary)?;
    let difference = &verdict.difference;
    if difference.is_none() {
        say("right: readers saw each case once, with its photos, phone and link")?;
    } else {
        difference.missing.iter().try_for_each(|line| say(&format!("missing    {line}")))?;
        difference.unexpected.iter().try_for_each(|line| say(&format!("unexpected {line}")))?;
    }
    match (args.once, difference.is_none()) {
        (true, true) => Ok(()),
        (true, false) => bail!(
            "the ledger of the sandbox differs from the expected list: {} missing, {} unexpected",
            difference.missing.len(),
            difference.unexpected.len()
        ),
        (false, _) => {
            say("\nthe city goes on; Ctrl-C ends it\n")?;
            demo::go_on(world, say).await
        }
    }
}
