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
/// First posts from walls: copies are recognised, one channel is banned and comes back, a case is closed. Then a campaign
/// to the subscribers of two bots, one of which is told to slow down. Then a customer and the bot of a shop.
/// After that the city goes on, and you can write to the shop yourself, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rupor demo\n  rupor demo --once")]
pub(super) struct Demo {
    /// Play it once, compare what everybody saw with what they should, and end: 0 right, 1 not
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
    // The trouble of the play is part of it, and told in its own words.
    super::log::start_at("error,rupor::watch=off");
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
    let mut wrong = posts(world).await?;
    say("")?;
    demo::campaign::run(world, say).await?;
    let sums = demo::campaign::judge(world).await?;
    say(&format!("\n{}", sums.summary))?;
    conclude(&sums.wrong, &demo::campaign::sum_in_words())?;
    wrong += sums.wrong.len();
    say("")?;
    let misread = demo::shop::run(world, say).await?;
    conclude(
        &misread,
        "right: the customer was answered by the rules, and by a human where they asked for one",
    )?;
    wrong += misread.len();
    match (args.once, wrong) {
        (true, 0) => Ok(()),
        (true, _) => bail!("the demo did not go as it should: {wrong} differences, listed above"),
        (false, _) => {
            say(&format!(
                "\nwrite to the shop yourself: {}/, chat «Ольга» on any platform; the operators answer there too",
                world.sandbox.origin()
            ))?;
            say("the city goes on; Ctrl-C ends it\n")?;
            demo::go_on(world, say).await
        }
    }
}

/// The main job: posts from walls to channels. How many lines differ from what readers should have seen.
async fn posts(world: &World) -> anyhow::Result<usize> {
    demo::play(world).await?;
    let verdict = demo::judge_all(world).await?;
    say(&verdict.summary)?;
    let difference = &verdict.difference;
    let missing = difference.missing.iter().map(|line| format!("missing    {line}"));
    let unexpected = difference.unexpected.iter().map(|line| format!("unexpected {line}"));
    let wrong: Vec<String> = missing.chain(unexpected).collect();
    conclude(&wrong, "right: readers saw each case once, with its photos, phone and link")?;
    Ok(wrong.len())
}

/// What is wrong, or in one line that nothing is.
fn conclude(wrong: &[String], right: &str) -> anyhow::Result<()> {
    if wrong.is_empty() {
        return say(right);
    }
    wrong.iter().try_for_each(|line| say(line))
}
