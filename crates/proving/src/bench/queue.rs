//! `rupor-bench queue`: what the promises of the queue cost above bare SQL, and that a long backlog costs nothing.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use domain::ids::{AccountId, ChannelId, WorkspaceId};
use domain::outcome::{Category, Failure, Outcome, Scope, Sent};
use domain::retry::Chance;
use domain::time::Span;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use store::*;

use super::database::Database;
use super::floor::Floor;

/// Measure enqueue, claim and commit against bare SQL in the same run
///
/// Uses a workspace of its own in the given database; take a scratch one.
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Deliveries to drain
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least::<1>)]
    rows: usize,
    /// The large backlog, of which nine in ten belong to one cooling account
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = at_least::<10>)]
    backlog: usize,
    /// Rows of one claim and of one commit
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=500))]
    batch: u16,
}

fn at_least<const MIN: usize>(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(n) if n >= MIN => Ok(n),
        _ => Err(format!("a number of {MIN} or more")),
    }
}

/// Accounts and channels that the rows are spread over.
const ACCOUNTS: usize = 25;
const CHANNELS_OF_ACCOUNT: usize = 2;
const LEASE: Span = Span::from_secs(600);

pub(super) fn run(args: &Queue) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    print(args, &figures)
}

/// What one drain showed, piece by piece, beside as many bare rows.
#[derive(Default)]
struct Drain {
    rows: usize,
    took: Duration,
    floor_took: Duration,
    /// Ours to the bare rows, of each piece.
    ratios: Vec<f64>,
    claims: Vec<Duration>,
}

/// Pieces of a drain. The bare rows are drained between them, and the middle one of their ratios counts: a machine that
/// is slow for a second then slows both.
const PIECES: usize = 10;

async fn measure(args: &Queue) -> anyhow::Result<Value> {
    let batch = usize::from(args.batch);
    let address = args.database.address()?;
    Store::migrate(&address).await?;
    let rows_large = args.backlog / 10;
    let progress = bar((4 * args.rows + args.backlog + 2 * rows_large) as u64);
    let store = Store::open(&address, args.database.keyring(&address)?, Clock::system()).await?;
    let bench = Bench::create(&store, args.batch).await?;
    progress.set_message("enqueue");
    let enqueue = bench.enqueue("small", &bench.channels, args.rows, batch, &progress).await?;
    let small = bench.drain(&address, args.rows, batch, &progress).await?;

    progress.set_message("large backlog");
    let cooling = bench.cool_down().await?;
    bench.enqueue("cooling", &[cooling], args.backlog - rows_large, batch, &progress).await?;
    bench.enqueue("large", &bench.channels, rows_large, batch, &progress).await?;
    let large = bench.drain(&address, rows_large, batch, &progress).await?;
    progress.finish_and_clear();

    Ok(json!({
        "database": address.to_string(),
        "rows": args.rows,
        "backlog": args.backlog,
        "batch": batch,
        "enqueue_per_second": enqueue,
        "small": small.figures(),
        "large": large.figures(),
        "ratios": {
            "drain_to_floor": middle(&small.ratios),
            "large_drain_to_floor": middle(&large.ratios),
            "large_to_small_drain": middle(&large.ratios) / middle(&small.ratios),
            "large_to_small_per_second": large.per_second() / small.per_second(),
            "large_to_small_claim_p99": large.claim_at(0.99) / small.claim_at(0.99),
        },
    }))
}

fn middle(ratios: &[f64]) -> f64 {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

impl Drain {
    fn per_second(&self) -> f64 {
        self.rows as f64 / self.took.as_secs_f64()
    }

    /// Milliseconds of a claim that this share of them did not exceed.
    fn claim_at(&self, share: f64) -> f64 {
        let mut sorted = self.claims.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
    }

    fn figures(&self) -> Value {
        json!({
            "rows": self.rows,
            "drain_per_second": self.per_second(),
            "floor_per_second": self.rows as f64 / self.floor_took.as_secs_f64(),
            "drain_to_floor_of_each_piece": self.ratios,
            "claim_p50_ms": self.claim_at(0.5),
            "claim_p99_ms": self.claim_at(0.99),
        })
    }
}

struct Bench<'a> {
    store: &'a Store,
    ws: WorkspaceId,
    channels: Vec<ChannelId>,
    run_id: String,
}

impl<'a> Bench<'a> {
    async fn create(store: &'a Store, batch: u16) -> anyhow::Result<Bench<'a>> {
        let run_id = uuid::Uuid::new_v4().to_string();
        let ws = store.create_workspace(&format!("bench {run_id}")).await?;
        let mut bench = Bench { store, ws, channels: Vec::new(), run_id };
        for n in 0..ACCOUNTS {
            let account = bench.account(n, batch).await?;
            for m in 0..CHANNELS_OF_ACCOUNT {
                let channel = bench.channel(account, n * CHANNELS_OF_ACCOUNT + m, batch).await?;
                bench.channels.push(channel);
            }
        }
        Ok(bench)
    }

    async fn account(&self, n: usize, batch: u16) -> anyhow::Result<AccountId> {
        let token = format!("{}:{n}", self.run_id).into();
        let settings = AccountSettings { max_parallel: i32::from(batch), ..AccountSettings::default() };
        let new = NewAccount { platform: "bench".into(), name: format!("account {n}"), token, settings };
        Ok(self.store.create_account(self.ws, new).await?)
    }

    async fn channel(&self, account_id: AccountId, n: usize, batch: u16) -> anyhow::Result<ChannelId> {
        let settings = ChannelSettings { max_parallel: i32::from(batch), ..ChannelSettings::default() };
        let new = NewChannel { account_id, name: format!("channel {n}"), target: format!("-{n}"), settings };
        Ok(self.store.create_channel(self.ws, new).await?)
    }

    /// One message for one channel each, in batches; returns deliveries a second.
    /// The phase keeps the names apart: a name that was enqueued before would be recognised and not counted again.
    async fn enqueue(
        &self,
        phase: &str,
        channels: &[ChannelId],
        rows: usize,
        batch: usize,
        progress: &ProgressBar,
    ) -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut done = 0;
        while done < rows {
            let n = batch.min(rows - done);
            let messages = (done..done + n)
                .map(|i| message(&format!("{}-{phase}-{i}", self.run_id), channels[i % channels.len()]));
            self.store.enqueue(self.ws, messages.collect()).await?;
            done += n;
            progress.inc(n as u64);
        }
        Ok(rows as f64 / started.elapsed().as_secs_f64())
    }

    /// Claims and commits until these rows are done, and as many bare ones.
    async fn drain(
        &self,
        address: &Address,
        rows: usize,
        batch: usize,
        progress: &ProgressBar,
    ) -> anyhow::Result<Drain> {
        progress.set_message("floor");
        let floor = Floor::fill(address, rows, batch).await?;
        progress.inc(rows as u64);
        progress.set_message("drain");
        let mut drain = Drain::default();
        let piece = rows.div_ceil(PIECES).next_multiple_of(batch);
        while drain.rows < rows {
            let wanted = piece.min(rows - drain.rows);
            // First the one, then the other: what a drain leaves to be done later falls on both.
            let ours_first = drain.ratios.len() % 2 == 0;
            let before = if ours_first { None } else { Some(floor.drain(wanted).await?) };
            let took = self.drain_piece(wanted, batch, &mut drain.claims).await?;
            let bare = match before {
                Some(bare) => bare,
                None => floor.drain(wanted).await?,
            };
            drain.rows += wanted;
            drain.took += took;
            drain.floor_took += bare;
            drain.ratios.push(bare.as_secs_f64() / took.as_secs_f64());
            progress.inc(wanted as u64);
        }
        floor.remove().await?;
        Ok(drain)
    }

    async fn drain_piece(
        &self,
        rows: usize,
        batch: usize,
        claims: &mut Vec<Duration>,
    ) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let mut done = 0;
        while done < rows {
            let asked = Instant::now();
            let claimed = self.claim(batch.min(rows - done)).await?;
            claims.push(asked.elapsed());
            anyhow::ensure!(!claimed.is_empty(), "nothing is due; take a database that nobody else uses");
            done += claimed.len();
            self.store.commit(claimed.iter().map(sent).collect()).await?;
        }
        Ok(started.elapsed())
    }

    async fn claim(&self, limit: usize) -> anyhow::Result<Vec<Claim>> {
        let request = ClaimRequest {
            whose: Whose::Everyone,
            run_id: self.run_id.clone(),
            limit,
            ahead: Span::ZERO,
            lease: LEASE,
        };
        Ok(self.store.claim(request).await?.claims)
    }

    /// An account that a flood reply has sent to sleep for a day; everything for it stays blocked.
    async fn cool_down(&self) -> anyhow::Result<ChannelId> {
        let account = self.account(ACCOUNTS, 1).await?;
        let channel = self.channel(account, ACCOUNTS * CHANNELS_OF_ACCOUNT, 1).await?;
        self.store.enqueue(self.ws, vec![message(&format!("{}-flood", self.run_id), channel)]).await?;
        for claim in self.claim(1).await? {
            let flood = Failure::new(Category::Transient, Scope::Platform, "429", "").retry_after(86_400_000);
            self.store.commit(vec![finish(&claim, Outcome::Failed(flood))]).await?;
        }
        Ok(channel)
    }
}

fn message(name: &str, channel: ChannelId) -> NewMessage {
    let payload = json!({"text": "Пропала собака, звоните +7 900 000-00-00"});
    NewMessage {
        kind: "lost".into(),
        channels: vec![channel],
        ..NewMessage::new("bench", name, name, payload)
    }
}

fn sent(claim: &Claim) -> Finish {
    let provider_message_id = Some(claim.delivery_id.to_string());
    finish(claim, Outcome::Sent(Sent { provider_message_id, raw: Value::Null }))
}

fn finish(claim: &Claim, outcome: Outcome) -> Finish {
    Finish { claim: claim.reference(), ending: FinishKind::Outcome(outcome), chance: Chance::NONE }
}

fn bar(rows: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:16} {wide_bar} {human_pos}/{human_len} {eta}");
    ProgressBar::new(rows).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[expect(clippy::print_stdout, reason = "the figures are what this command is for")]
fn print(args: &Queue, figures: &Value) -> anyhow::Result<()> {
    if args.json {
        println!("{}", serde_json::to_string(figures)?);
        return Ok(());
    }
    let number = |path: &str| figures.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
    println!("enqueue                {:>10.0} deliveries/s", number("/enqueue_per_second"));
    println!("bare SQL, the floor    {:>10.0} deliveries/s", number("/small/floor_per_second"));
    println!("drain, {:>7} rows    {:>10.0} deliveries/s", args.rows, number("/small/drain_per_second"));
    println!("bare SQL, again        {:>10.0} deliveries/s", number("/large/floor_per_second"));
    println!("drain, {:>7} behind  {:>10.0} deliveries/s", args.backlog, number("/large/drain_per_second"));
    println!("drain to floor         {:>10.2}   (promised: 0.35 or more)", number("/ratios/drain_to_floor"));
    println!(
        "large to small drain   {:>10.2}   (promised: 0.8 or more; each to its floor, as seconds differ; {:.2} a second)",
        number("/ratios/large_to_small_drain"),
        number("/ratios/large_to_small_per_second")
    );
    println!(
        "large to small p99     {:>10.2}   (promised: 3 or less)",
        number("/ratios/large_to_small_claim_p99")
    );
    Ok(())
}
