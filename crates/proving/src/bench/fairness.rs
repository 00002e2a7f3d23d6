//! `rupor-bench fairness`: what a hanging, flooding or overloaded account costs twenty small ones.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use domain::ids::ChannelId;
use serde_json::{Value, json};

use super::database::Database;
use super::rig::{Rig, now_ms, quantile};

/// Measure small accounts alone and beside a hanging, a flooding and an overloaded one
#[derive(Debug, Args)]
pub(crate) struct Fairness {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// Backlog of the overloaded account
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    backlog: usize,
}

/// Small accounts, each with one channel, a rate and half of it to do.
const SMALL: usize = 20;
const RATE: f64 = 10.0;
/// Rows of the account that makes trouble, when it is not the backlog that makes it.
const TROUBLE_ROWS: usize = 2_000;

pub(super) fn run(args: &Fairness) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    super::print(args.json, &figures)
}

async fn measure(args: &Fairness) -> anyhow::Result<Value> {
    let alone = one(args, "alone").await?;
    let mut beside = Vec::new();
    for trouble in ["hang", "flood", "backlog"] {
        let figures = one(args, trouble).await?;
        let lag = (figures.p99_ms - 1_000).max(0) as f64 / (alone.p99_ms.max(1)) as f64;
        beside.push(json!({
            "trouble": trouble,
            "p50_ms": figures.p50_ms,
            "p99_ms": figures.p99_ms,
            "p99_less_a_second_to_alone": lag,
            "throughput_to_alone": figures.per_second / alone.per_second,
        }));
    }
    Ok(json!({
        "database": args.database.address()?.to_string(),
        "seconds": args.seconds,
        "backlog": args.backlog,
        "alone": {"p50_ms": alone.p50_ms, "p99_ms": alone.p99_ms, "per_second": alone.per_second},
        "beside": beside,
    }))
}

struct Figures {
    p50_ms: i64,
    p99_ms: i64,
    per_second: f64,
}

async fn one(args: &Fairness, trouble: &str) -> anyhow::Result<Figures> {
    let rig = Rig::new(&args.database, "off").await?;
    let mut small = Vec::new();
    for n in 0..SMALL {
        let account = rig.account(n, Some(RATE), 8).await?;
        small.push(rig.channel(account, n, None, 4).await?);
    }
    make_trouble(&rig, args, trouble).await?;
    let node = rig.node(1);
    let due = keep_busy(&rig, &small, args.seconds).await?;
    rig.emptied(&small, Duration::from_secs(60)).await?;
    let arrivals = rig.emulator.arrivals().await?;
    rig.emulator.control("DELETE", "/_/faults", None).await?;
    node.stop().await?;
    let mut lags: Vec<i64> = due.iter().filter_map(|(text, due)| Some(arrivals.get(text)? - due)).collect();
    let last = due.keys().filter_map(|text| arrivals.get(text)).max().copied().unwrap_or_default();
    let first = due.values().min().copied().unwrap_or_default();
    // What this run leaves must not burden the next one.
    rig.store.hold_workspace(rig.workspace, true).await?;
    Ok(Figures {
        p50_ms: quantile(&mut lags, 500),
        p99_ms: quantile(&mut lags, 990),
        per_second: lags.len() as f64 * 1e3 / (last - first).max(1) as f64,
    })
}

async fn make_trouble(rig: &Rig, args: &Fairness, trouble: &str) -> anyhow::Result<()> {
    let rows = match trouble {
        "alone" => return Ok(()),
        "backlog" => args.backlog,
        _ => TROUBLE_ROWS,
    };
    let account = rig.account(SMALL, if trouble == "backlog" { Some(RATE) } else { None }, 8).await?;
    let mut channels = Vec::new();
    for n in 0..8 {
        channels.push(rig.channel(account, SMALL + n, None, 4).await?);
    }
    for first in (0..rows).step_by(5_000) {
        let texts =
            (first..rows.min(first + 5_000)).map(|i| (format!("trouble {i}"), channels[i % channels.len()]));
        rig.enqueue(texts.collect()).await?;
    }
    let fault = match trouble {
        "hang" => json!({"platform": "telegram", "account": rig.token(SMALL), "kind": "hang"}),
        "flood" => {
            json!({"platform": "telegram", "account": rig.token(SMALL), "kind": "429", "retry_after": 1})
        }
        _ => return Ok(()),
    };
    rig.emulator.control("POST", "/_/faults", Some(&fault)).await?;
    Ok(())
}

/// Half of what each small account may send, evenly; returns when each text was due.
async fn keep_busy(rig: &Rig, small: &[ChannelId], seconds: u64) -> anyhow::Result<BTreeMap<String, i64>> {
    let every = Duration::from_secs_f64(2.0 / RATE);
    let mut due = BTreeMap::new();
    let started = Instant::now();
    let mut round = 0;
    while started.elapsed() < Duration::from_secs(seconds) {
        let texts: Vec<(String, ChannelId)> =
            small.iter().enumerate().map(|(n, channel)| (format!("small {n} {round}"), *channel)).collect();
        let now = now_ms();
        due.extend(texts.iter().map(|(text, _)| (text.clone(), now)));
        rig.enqueue(texts).await?;
        round += 1;
        tokio::time::sleep((every * round).saturating_sub(started.elapsed())).await;
    }
    Ok(due)
}
