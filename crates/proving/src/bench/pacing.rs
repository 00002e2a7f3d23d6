//! `rupor-bench pacing`: how much of the allowed rate is used, and how often the platform still says no.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use domain::chat::ChatKind;
use domain::limits::effective_rate;
use platforms::registry;
use serde_json::{Value, json};

use super::database::Database;
use super::rig::Rig;

/// Measure the share of the allowed rate that is used, against the sandbox's real limits
#[derive(Debug, Args)]
pub(crate) struct Pacing {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 15)]
    seconds: u64,
    /// Nodes that share the budget
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    nodes: u8,
    /// Rates to measure, a second, up to 30; what is paid for is sent by campaigns: `rupor-bench campaign`
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [30], value_parser = clap::value_parser!(u32).range(1..=30))]
    rates: Vec<u32>,
}

pub(super) fn run(args: &Pacing) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    super::print(args.json, &figures)
}

async fn measure(args: &Pacing) -> anyhow::Result<Value> {
    let mut rates = Vec::new();
    for &rate in &args.rates {
        rates.push(one_rate(args, rate).await?);
    }
    Ok(json!({
        "database": args.database.address()?.to_string(),
        "nodes": args.nodes,
        "seconds": args.seconds,
        "rates": rates,
    }))
}

async fn one_rate(args: &Pacing, rate: u32) -> anyhow::Result<Value> {
    let rig = Rig::new(&args.database, "real").await?;
    let telegram = registry::platform("telegram").expect("it is in the registry").facts();
    let paced = effective_rate(Some(f64::from(rate)), telegram.account_rate("bot", "standard"));
    let account = rig.account(0, paced, 512).await?;
    let chat = effective_rate(Some(1.0), telegram.chat_rate(ChatKind::Channel));
    // A chat takes one a second: enough of them that the account is the limit, and each gets less than its share.
    let n_channels = (rate * 2) as usize;
    let mut channels = Vec::new();
    for n in 0..n_channels {
        channels.push(rig.channel(account, n, chat, 1).await?);
    }
    let rows = rate as usize * (args.seconds as usize + 5);
    for first in (0..rows).step_by(500) {
        let texts = (first..rows.min(first + 500)).map(|i| (format!("pacing {i}"), channels[i % n_channels]));
        rig.enqueue(texts.collect()).await?;
    }
    let nodes: Vec<_> = (0..usize::from(args.nodes)).map(|n| rig.node(n)).collect();
    tokio::time::sleep(Duration::from_secs(args.seconds + 3)).await;
    let mut missed = 0;
    for node in nodes {
        missed += node.meters.slots_missed.get();
        node.stop().await?;
    }
    let sent: Vec<Value> = rig
        .emulator
        .rows("telegram")
        .await?
        .into_iter()
        .filter(|row| row["method"] == "sendMessage")
        .collect();
    let times: Vec<i64> =
        sent.iter().filter(|row| row["accepted"] == true).filter_map(|row| row["at"].as_i64()).collect();
    // From the second second on: the first one is the start.
    let from = times.first().copied().unwrap_or_default() + 1_000;
    let until = from + i64::try_from(args.seconds).unwrap_or(i64::MAX) * 1_000;
    let used = times.iter().filter(|at| (from..until).contains(at)).count();
    let refused = sent.iter().filter(|row| row["accepted"] == false).count();
    Ok(json!({
        "rate": rate,
        "share_of_rate_used": used as f64 / (f64::from(rate) * args.seconds as f64),
        "requests": sent.len(),
        "flood_answers": refused,
        "slots_missed": missed,
        "most_in_a_second": most_in_a_second(&times),
        "share_flooded": refused as f64 / sent.len().max(1) as f64,
    }))
}

/// The busiest sliding second, as the sandbox counts it.
fn most_in_a_second(times: &[i64]) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (n, at) in times.iter().enumerate() {
        while times[first] + 1_000 <= *at {
            first += 1;
        }
        most = most.max(n + 1 - first);
    }
    most
}
