//! `rupor-bench ingest`: posts with facts, cases and deliveries to many channels, beside the bare insert of the same rows.

use std::time::Instant;

use anyhow::Context;
use clap::Args;
use domain::ids::WorkspaceId;
use domain::message::Origin;
use platforms::platform::Network;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::*;

use super::database::Database;
use engine::ingest::{POSTS_PER_TRANSACTION, Preset, PublishRules, RawPost, SourceSettings, take_in};

/// Measure the intake of posts against the bare insert of the same rows, in the same run
///
/// The intake is all of it: facts, cases, deduplication, messages and deliveries to every channel, in its own transactions.
/// The floor inserts every row that the intake left (messages, cases and their keys, deliveries, the queue, the index of
/// what is said, events) into a scratch database of the same kind beside the first: the same tables with the same indexes,
/// checks and references, rows ready made in batches of 1000, as many commits as the intake had, and no rule at all.
/// `ratio` is floor_seconds / seconds: 1 would mean that thinking costs nothing. Uses a workspace of its own in the given
/// database, which nobody else may have open; take a scratch one, on PostgreSQL as a user that may create databases.
#[derive(Debug, Args)]
pub(crate) struct Ingest {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Posts to take in; one in seven is a copy of an earlier one
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    posts: usize,
    /// Channels that each case goes to, spread over the three platforms
    #[arg(long, value_name = "N", default_value_t = 40)]
    channels: usize,
}

/// Posts handed over at once, as a file gives them.
const PIECE: usize = 500;
const COPY_EVERY: usize = 7;
/// A delivery, its place in the queue and its key: for the size of a commit of the floor.
const ROWS_PER_DELIVERY: u64 = 3;

pub(super) fn run(args: &Ingest) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    super::print(args.json, &figures)
}

async fn measure(args: &Ingest) -> anyhow::Result<Value> {
    let address = args.database.address()?;
    Store::migrate(&address).await?;
    let store = Store::open(&address, args.database.keyring(&address)?, Clock::system()).await?;
    let workspace = workspace(&store, args.channels).await?;
    let rules = PublishRules::load(&store, workspace, "bench", &SourceSettings::default()).await?;
    let now_s = store.now().await?.0 / 1_000_000;
    let posts: Vec<RawPost> = (0..args.posts).map(|n| post(n, now_s)).collect();
    let (network, started) = (Network::default(), Instant::now());
    let mut counts = RunCounts::default();
    for piece in posts.chunks(PIECE) {
        let step = take_in(&store, &network, workspace, &rules, piece, None).await?;
        counts.stored += step.stored;
        counts.enqueued += step.enqueued;
    }
    let seconds = started.elapsed().as_secs_f64();
    closed(&address, store).await?;
    let commits = args.posts.div_ceil(POSTS_PER_TRANSACTION).max(1) as u64;
    let rows_written = u64::try_from(counts.enqueued)? * ROWS_PER_DELIVERY;
    let floor = refill::refill(&address, workspace, (rows_written / commits).max(1)).await?;
    let floor_seconds = floor.write.as_secs_f64();
    Ok(json!({
        "posts": counts.stored,
        "deliveries": counts.enqueued,
        "rows": floor.rows,
        "seconds": seconds,
        "posts_per_second": f64::from(counts.stored) / seconds,
        "rows_per_second": floor.rows as f64 / seconds,
        "floor_seconds": floor_seconds,
        "floor_rows_per_second": floor.rows as f64 / floor_seconds,
        "ratio": floor_seconds / seconds,
    }))
}

/// The writer thread lets go of a file a moment after the last handle is dropped.
async fn closed(address: &Address, store: Store) -> anyhow::Result<()> {
    drop(store);
    if let Address::Sqlite(store::address::SqlitePath::File(file)) = address {
        let mut name = file.clone().into_os_string();
        name.push(".lock");
        let lock = std::fs::File::open(name)?;
        tokio::task::spawn_blocking(move || lock.lock()).await??;
    }
    Ok(())
}

async fn workspace(store: &Store, channels: usize) -> anyhow::Result<WorkspaceId> {
    let workspace = store.create_workspace(&format!("bench {}", uuid::Uuid::new_v4())).await?;
    let mut accounts = Vec::new();
    for platform in ["telegram", "vk", "max"] {
        let token = SecretString::from(format!("1:{}", uuid::Uuid::new_v4()));
        let (platform, name, settings) =
            (platform.to_owned(), platform.to_owned(), AccountSettings::default());
        accounts.push(store.create_account(workspace, NewAccount { platform, name, token, settings }).await?);
    }
    let (dedup, dedup_ttl) = Preset::Pets.dedup();
    for n in 0..channels {
        let settings = ChannelSettings { dedup, dedup_ttl, ..ChannelSettings::default() };
        let (name, target) = (format!("channel {n}"), format!("-{}", 1_000 + n));
        let account_id = accounts[n % accounts.len()];
        store.create_channel(workspace, NewChannel { account_id, name, target, settings }).await?;
    }
    Ok(workspace)
}

/// An invented search; a copy has the words of an earlier one on another wall.
fn post(n: usize, now_s: i64) -> RawPost {
    let told = if n % COPY_EVERY == COPY_EVERY - 1 { n / 2 } else { n };
    let pick = |list: [&'static str; 8], step: usize| list[told / step % list.len()];
    let name = pick(["Буся", "Рекс", "Мурка", "Барсик", "Найда", "Филя", "Тузик", "Соня"], 1);
    let town = pick(["Тюмень", "Омск", "Пермь", "Курган", "Уфа", "Казань", "Тверь", "Томск"], 8);
    let street = pick(["Ямская", "Садовая", "Лесная", "Речная", "Мира", "Полевая", "Новая", "Южная"], 64);
    let text = format!(
        "Пропала собака {name}! {town}, улица {street}, дом {}. Телефон 8 901 {:03}-{:02}-{:02}, вознаграждение.",
        told % 200 + 1,
        told / 10_000 % 1_000,
        told / 100 % 100,
        told % 100
    );
    let (owner, id) = (-1 - (n % 18) as i64, n as i64 + 1);
    RawPost {
        source: format!("{}:{owner}", platforms::vk::NAME),
        origin_id: id.to_string(),
        origin: Origin {
            source: platforms::vk::NAME.into(),
            owner_id: Some(owner),
            post_id: Some(id),
            date: Some(now_s - 60),
            ..Origin::default()
        },
        text,
        ..RawPost::default()
    }
}
