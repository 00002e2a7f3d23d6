//! `rupor-bench dispatch`: from enqueue over HTTP to the sandbox to the committed outcome.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use domain::ids::ChannelId;
use serde_json::{Value, json};

use super::database::Database;
use super::rig::{Rig, now_ms, quantile, usage};

/// Measure deliveries a second end to end: enqueue, HTTP to the sandbox, committed
///
/// The sandbox runs as a second process on the same machine. Take a scratch database.
#[derive(Debug, Args)]
pub(crate) struct Dispatch {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Deliveries of the backlog that is drained
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    rows: usize,
    /// Seconds at half of that speed, for the latency
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
}

const ACCOUNTS: usize = 25;
const CHANNELS_OF_ACCOUNT: usize = 8;

pub(super) fn run(args: &Dispatch) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    super::print(args.json, &figures)
}

async fn measure(args: &Dispatch) -> anyhow::Result<Value> {
    let rig = Rig::new(&args.database, "off").await?;
    let mut channels = Vec::new();
    for n in 0..ACCOUNTS {
        let account = rig.account(n, None, 32).await?;
        for m in 0..CHANNELS_OF_ACCOUNT {
            channels.push(rig.channel(account, n * CHANNELS_OF_ACCOUNT + m, None, 8).await?);
        }
    }
    let node = rig.node(1);
    let (cpu_before, _) = usage();
    let started = Instant::now();
    enqueue(&rig, &channels, "drain", 0, args.rows).await?;
    rig.emptied(&channels, Duration::from_secs(600)).await?;
    let took = started.elapsed();
    let (cpu_after, peak_mb) = usage();
    let per_second = args.rows as f64 / took.as_secs_f64();

    let lags = at_half_speed(&rig, &channels, per_second / 2.0, args.seconds).await?;
    let counts = rig.counts(&channels).await?;
    anyhow::ensure!(counts.dead + counts.failed_permanent == 0, "not everything was sent: {counts:?}");
    node.stop().await?;
    let (_, peak_mb_after) = usage();
    let mut all: Vec<i64> = lags.values().copied().collect();
    Ok(json!({
        "database": args.database.address()?.to_string(),
        "rows": args.rows,
        "deliveries_per_second": per_second,
        "cpu_ms_per_delivery": (cpu_after - cpu_before) * 1e3 / args.rows as f64,
        "cores_used_by_this_process": (cpu_after - cpu_before) / took.as_secs_f64(),
        "memory_peak_mb": peak_mb.max(peak_mb_after),
        "half_speed": {
            "deliveries_per_second": per_second / 2.0,
            "deliveries": all.len(),
            "due_to_received_p50_ms": quantile(&mut all, 500),
            "due_to_received_p99_ms": quantile(&mut all, 990),
        },
    }))
}

/// Messages spread over the channels, in batches.
async fn enqueue(
    rig: &Rig,
    channels: &[ChannelId],
    name: &str,
    from: usize,
    rows: usize,
) -> anyhow::Result<()> {
    let mut done = 0;
    while done < rows {
        let n = (rows - done).min(500);
        let texts =
            (from + done..from + done + n).map(|i| (format!("{name} {i}"), channels[i % channels.len()]));
        rig.enqueue(texts.collect()).await?;
        done += n;
    }
    Ok(())
}

/// Keeps the node busy at a steady rate and returns what passed between due and received, by text.
async fn at_half_speed(
    rig: &Rig,
    channels: &[ChannelId],
    rate: f64,
    seconds: u64,
) -> anyhow::Result<BTreeMap<String, i64>> {
    const TICK: Duration = Duration::from_millis(20);
    let mut due = BTreeMap::new();
    let started = Instant::now();
    let mut done = 0;
    while started.elapsed() < Duration::from_secs(seconds) {
        let wanted = (started.elapsed().as_secs_f64() * rate) as usize;
        if wanted > done {
            let now = now_ms();
            due.extend((done..wanted).map(|i| (format!("steady {i}"), now)));
            enqueue(rig, channels, "steady", done, wanted - done).await?;
            done = wanted;
        }
        tokio::time::sleep(TICK).await;
    }
    rig.emptied(channels, Duration::from_secs(60)).await?;
    let arrivals = rig.emulator.arrivals().await?;
    let lags = due.iter().filter_map(|(text, due)| Some((text.clone(), arrivals.get(text)? - due)));
    Ok(lags.collect())
}
