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
use engine::ingest::{Preset, PublishRules, RawPost, SourceSettings, take_in};

/// Measure the intake of posts against the bare insert of the same rows, in the same run
///
/// The intake is all of it: facts, cases, deduplication, messages and deliveries to every channel, in its own transactions.
/// The floor is `rupor db copy` of the database afterwards into a scratch one of the same kind beside it: the same rows
/// (messages, cases and their keys, deliveries, the queue, the index of what is said, events) into the same tables with
/// the same indexes, checks and references, ready made in batches of 1000, in one transaction, and no rule at all.
/// `ratio` is floor_seconds / seconds: 1 would mean that thinking costs nothing. The database must be new, is held
/// afterwards, and nobody else may have it open; on PostgreSQL the user must be allowed to create databases.
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
    let (rows, floor_seconds) = copied(&address, args.database.written()).await?;
    Ok(json!({
        "posts": counts.stored,
        "deliveries": counts.enqueued,
        "rows": rows,
        "seconds": seconds,
        "posts_per_second": f64::from(counts.stored) / seconds,
        "rows_per_second": rows as f64 / seconds,
        "floor_seconds": floor_seconds,
        "floor_rows_per_second": rows as f64 / floor_seconds,
        "ratio": floor_seconds / seconds,
    }))
}

/// The floor: everything once more, into a database beside this one that is gone afterwards.
async fn copied(address: &Address, written: &str) -> anyhow::Result<(u64, f64)> {
    let name = format!("rupor_floor_{}", uuid::Uuid::new_v4().simple());
    let (scratch, forget) = match address {
        Address::Sqlite(_) => {
            let scratch = format!("{written}.{name}");
            let file = scratch.trim_start_matches("sqlite:").to_owned();
            (scratch, Forget::Files(file))
        }
        Address::Postgres(url) => {
            let client = postgres::bare_connection(url).await?;
            client.batch_execute(&format!("CREATE DATABASE \"{name}\"")).await?;
            (beside(written, &name)?, Forget::Database(client, name))
        }
    };
    let (scratch, started) = (Address::parse(&scratch)?, Instant::now());
    let copied = store::copy::copy(address, &scratch, |_| {}).await;
    let seconds = started.elapsed().as_secs_f64();
    forget.now().await?;
    Ok((copied?.rows(), seconds))
}

/// What the floor leaves behind.
enum Forget {
    Files(String),
    Database(tokio_postgres::Client, String),
}

impl Forget {
    async fn now(self) -> anyhow::Result<()> {
        match self {
            Forget::Files(file) => {
                for suffix in ["", "-wal", "-shm", ".lock"] {
                    let _ = std::fs::remove_file(format!("{file}{suffix}"));
                }
                Ok(())
            }
            Forget::Database(client, name) => {
                let gone = format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)");
                Ok(client.batch_execute(&gone).await?)
            }
        }
    }
}

/// The same server, another database.
fn beside(written: &str, name: &str) -> anyhow::Result<String> {
    let (front, options) = written.split_once('?').map_or((written, ""), |(front, rest)| (front, rest));
    let (server, _) = front
        .rsplit_once('/')
        .filter(|(server, _)| !server.ends_with('/'))
        .with_context(|| format!("{front} names no database"))?;
    Ok(if options.is_empty() { format!("{server}/{name}") } else { format!("{server}/{name}?{options}") })
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
