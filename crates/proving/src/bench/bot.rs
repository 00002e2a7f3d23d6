//! `rupor-bench bot`: turns a second, the way of one message through an idle node, and what sleeping dialogues cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use domain::ids::AccountId;
use domain::time::{Span, Timestamp};
use engine::addresses::ApiBases;
use engine::bot::{Settings, Together};
use platforms::incoming::{Event, Incoming, Said};
use platforms::platform::{Network, Platform};
use serde_json::{Value, json};
use store::{NewBot, Polled, Receive, postgres, sqlite};
use tokio::sync::watch;

use super::database::Database;
use super::rig::{Rig, now_ms, quantile};

const SHOP: &str = include_str!("../../../../examples/shop/shop.toml");
/// Webhook calls that a platform has open at a time.
const CALLS: usize = 64;
/// Updates of one poll.
const POLLED: usize = 100;
/// Dialogues of one claim, like the engine's.
const CLAIMED: usize = 64;

/// Measure the bot: turns a second, the way of one message through an idle node, and the cost of sleeping dialogues
///
/// Takes a scratch database; the sandbox runs as a second process on the same machine.
#[derive(Debug, Args)]
pub(crate) struct BotBench {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// People who write
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    people: usize,
    /// Messages of each
    #[arg(long, value_name = "N", default_value_t = 4)]
    messages: usize,
    /// Dialogues that sleep while others are claimed
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    sleeping: usize,
    /// Only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',', default_values = ["hooked", "polled", "idle", "claim"])]
    parts: Vec<String>,
}

pub(crate) fn run(args: &BotBench) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    super::print(args.json, &figures)
}

async fn measure(args: &BotBench) -> anyhow::Result<Value> {
    let mut figures = json!({"bench": "bot", "database": args.database.address()?.to_string()});
    for part in &args.parts {
        figures[part] = match part.as_str() {
            "hooked" => turns(args, false).await?,
            "polled" => turns(args, true).await?,
            "idle" => idle(args).await?,
            "claim" => claim(args).await?,
            other => anyhow::bail!("no part {other}; known are hooked, polled, idle, claim"),
        };
    }
    Ok(figures)
}

/// A shop on one account, and the loop that answers for it.
struct Shop {
    rig: Rig,
    account: AccountId,
    platform: &'static dyn Platform,
    heard: Together,
    stop: watch::Sender<bool>,
    answering: Option<tokio::task::JoinHandle<()>>,
}

impl Shop {
    async fn open(args: &BotBench) -> anyhow::Result<Shop> {
        let rig = Rig::new(&args.database, "off").await?;
        let account = rig.account(0, None, 64).await?;
        let (accounts, receive) = (vec![account], Receive::Webhook);
        let new =
            NewBot { name: "shop".into(), accounts, receive, operators: None, services: Default::default() };
        let bot = rig.store.put_bot(rig.workspace, new).await?;
        rig.store.put_bot_rules(rig.workspace, bot, SHOP).await?;
        let platform = platforms::registry::platform("telegram").context("no platform telegram")?;
        let (heard, stop) = (Together::default(), watch::channel(false).0);
        Ok(Shop { rig, account, platform, heard, stop, answering: None })
    }

    fn answer(&mut self) {
        let settings = Settings { owner: "bench".into(), bases: ApiBases::default() };
        let (store, network) = (self.rig.store.clone(), Network::default());
        let answering = engine::bot::run(store, network, settings, self.stop.subscribe());
        self.answering = Some(tokio::spawn(answering));
    }

    async fn close(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        if let Some(answering) = self.answering {
            answering.await?;
        }
        // What this part leaves must not burden the next one.
        Ok(self.rig.store.hold_workspace(self.rig.workspace, true).await?)
    }

    async fn hear(&self, said: &[Incoming], polled: Option<Polled>) -> anyhow::Result<()> {
        let (store, ws) = (&self.rig.store, self.rig.workspace);
        engine::bot::receive(store, ws, self.account, self.platform, said, polled).await?;
        Ok(())
    }

    /// As the door of webhooks does it.
    async fn called(&self, said: Incoming) -> anyhow::Result<()> {
        let (store, ws) = (&self.rig.store, self.rig.workspace);
        self.heard.receive(store, ws, self.account, self.platform, vec![said]).await?;
        Ok(())
    }

    /// Events that nobody has answered yet; it counts no further than ten thousand.
    async fn waiting(&self) -> anyhow::Result<i64> {
        Ok(self.rig.store.bot_snapshot(self.rig.workspace, Span::from_secs(1)).await?.waiting)
    }
}

/// One question, as the platform tells it.
fn question(person: usize, n: usize) -> Incoming {
    let words = ["сколько стоит доставка?", "как оплатить?", "когда вы работаете?", "какие есть размеры?"];
    let said = Said {
        chat: (700_000_000 + person).to_string(),
        from: Some((700_000_000 + person).to_string()),
        name: Some("Анна".into()),
        message_id: (n + 1).to_string(),
        text: words[n % words.len()].into(),
        private: true,
        ..Said::default()
    };
    Incoming { key: format!("{person}.{n}"), at_ms: None, event: Event::Message(said) }
}

// -- turns a second

/// From the first update handed in to the last answer on the disk.
async fn turns(args: &BotBench, by_poll: bool) -> anyhow::Result<Value> {
    let mut shop = Shop::open(args).await?;
    let total = args.people * args.messages;
    let all: Vec<Incoming> = (0..total).map(|at| question(at % args.people, at / args.people)).collect();
    shop.answer();
    let (shop, begun) = (Arc::new(shop), Instant::now());
    match by_poll {
        true => {
            for batch in all.chunks(POLLED) {
                let polled = Polled { owner: "bench".into(), cursor: None };
                shop.hear(batch, Some(polled)).await?;
            }
        }
        false => call_in(&shop, all).await?,
    }
    let received = begun.elapsed().as_secs_f64();
    // Asking is work for the database too.
    while shop.waiting().await? > 0 {
        ensure!(begun.elapsed() < Duration::from_secs(600), "they are not answered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = begun.elapsed().as_secs_f64();
    let answered = answers(args, shop.rig.workspace.0).await?;
    ensure!(answered == total as i64, "{answered} answers to {total} messages");
    if let Some(shop) = Arc::into_inner(shop) {
        shop.close().await?;
    }
    Ok(json!({
        "people": args.people,
        "messages": total,
        "received_per_second": total as f64 / received,
        "turns_per_second": total as f64 / took,
    }))
}

/// A platform with a number of calls open, each of one update; those of a person in order.
async fn call_in(shop: &Arc<Shop>, all: Vec<Incoming>) -> anyhow::Result<()> {
    let (all, next) = (Arc::new(all), Arc::new(AtomicUsize::new(0)));
    let callers = (0..CALLS).map(|_| {
        let (shop, all, next) = (Arc::clone(shop), Arc::clone(&all), Arc::clone(&next));
        tokio::spawn(async move {
            while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                shop.called(one.clone()).await?;
            }
            anyhow::Ok(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await??;
    }
    Ok(())
}

/// Deliveries that the mailbox leads to.
async fn answers(args: &BotBench, workspace: i64) -> anyhow::Result<i64> {
    let count = format!(
        "SELECT count(DISTINCT inbox_id) FROM bot_outbox WHERE workspace_id = {workspace} AND delivery_id IS NOT NULL"
    );
    match args.database.address()? {
        store::Address::Sqlite(path) => {
            Ok(sqlite::bare_connection(&path)?.query_row(&count, [], |row| row.get(0))?)
        }
        store::Address::Postgres(url) => {
            Ok(postgres::bare_connection(&url).await?.query_one(&count, &[]).await?.get(0))
        }
    }
}

// -- one message through an idle node

const IDLE_MESSAGES: usize = 200;

/// From the update handed in to the request at the platform.
async fn idle(args: &BotBench) -> anyhow::Result<Value> {
    let mut shop = Shop::open(args).await?;
    shop.answer();
    let node = shop.rig.node(1);
    let mut asked = Vec::with_capacity(IDLE_MESSAGES);
    for person in 0..IDLE_MESSAGES {
        tokio::time::sleep(Duration::from_millis(100)).await;
        asked.push(now_ms());
        shop.called(question(person, 0)).await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let rows = shop.rig.emulator.rows("telegram").await?;
    let mut took = Vec::new();
    for row in rows.iter().filter(|row| row["method"] == "sendMessage") {
        let chat = row["chat"].as_str().map_or_else(|| row["chat"].to_string(), str::to_owned);
        let person = chat.parse::<usize>().ok().and_then(|chat| chat.checked_sub(700_000_000));
        let (Some(asked), Some(at)) = (person.and_then(|n| asked.get(n)), row["at"].as_i64()) else {
            continue;
        };
        took.push(at - asked);
    }
    node.stop().await?;
    shop.close().await?;
    ensure!(took.len() == IDLE_MESSAGES, "{} requests for {IDLE_MESSAGES} messages", took.len());
    // The first ones meet cold statements and connections.
    let mut took = took.split_off(IDLE_MESSAGES / 10);
    Ok(json!({
        "messages": took.len(),
        "update_to_request_p50_ms": quantile(&mut took, 500),
        "update_to_request_p99_ms": quantile(&mut took, 990),
    }))
}

// -- a claim beside many who sleep

const CLAIMS: usize = 300;

/// The same claims before and after so many dialogues were laid to sleep.
async fn claim(args: &BotBench) -> anyhow::Result<Value> {
    let shop = Shop::open(args).await?;
    let mut alone = claims(&shop, 0).await?;
    let begun = Instant::now();
    lay_to_sleep(args, &shop).await?;
    let laid = begun.elapsed().as_secs_f64();
    let mut beside = claims(&shop, CLAIMS).await?;
    shop.close().await?;
    // The quick tenth is what a claim costs by itself, also where other processes want the machine.
    let (quick_alone, quick_beside) = (quantile(&mut alone, 100), quantile(&mut beside, 100));
    let (alone, beside) = (quantile(&mut alone, 500), quantile(&mut beside, 500));
    Ok(json!({
        "dialogues_claimed": CLAIMED,
        "sleeping": args.sleeping,
        "laid_to_sleep_seconds": laid,
        "claim_p50_us_alone": alone,
        "claim_p50_us_beside_sleeping": beside,
        "claim_p10_us_alone": quick_alone,
        "claim_p10_us_beside_sleeping": quick_beside,
        "dearer": beside as f64 / alone as f64 - 1.0,
        "dearer_p10": quick_beside as f64 / quick_alone as f64 - 1.0,
    }))
}

/// Microseconds of claims of so many due dialogues each; every turn is committed without a word.
async fn claims(shop: &Shop, first: usize) -> anyhow::Result<Vec<i64>> {
    let (store, ws) = (&shop.rig.store, shop.rig.workspace);
    let mut took = Vec::with_capacity(CLAIMS);
    for round in first..first + CLAIMS {
        let all: Vec<Incoming> = (0..CLAIMED).map(|person| question(person, round)).collect();
        shop.hear(&all, None).await?;
        let begun = Instant::now();
        let turns = store.bot_claim_turns(CLAIMED, Span::from_secs(60)).await?;
        took.push(begun.elapsed().as_micros() as i64);
        ensure!(turns.len() == CLAIMED, "{} dialogues were due", turns.len());
        let now: Timestamp = store.now().await?;
        let silent = turns.iter().map(|turn| engine::bot::take(turn, None, now).0);
        let kept = store.bot_commit_turns(ws, silent.collect()).await?;
        ensure!(kept.iter().all(|kept| *kept), "a turn was another's");
    }
    // The first ones meet cold statements.
    Ok(took.split_off(CLAIMS / 6))
}

/// Half of them wait for nothing, half for a timer within the next days.
async fn lay_to_sleep(args: &BotBench, shop: &Shop) -> anyhow::Result<()> {
    let (ws, account, n) = (shop.rig.workspace.0, shop.account.0, args.sleeping);
    match args.database.address()? {
        store::Address::Sqlite(path) => {
            let now = shop.rig.store.now().await?.0;
            let connection = sqlite::bare_connection(&path)?;
            connection.execute_batch(&format!(
                "BEGIN;
                 INSERT INTO recipients (workspace_id, account_id, platform, user_id, address, status, status_at, source, created_at)
                 WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {n})
                 SELECT {ws}, {account}, 'telegram', 'sleeps' || n, n, 'known', {now}, 'bench', {now} FROM numbers;
                 INSERT INTO bot_state (recipient_id, workspace_id, account_id, due_at, updated_at)
                 SELECT recipient_id, {ws}, {account},
                        CASE WHEN recipient_id % 2 = 0 THEN 9223372036854775807 ELSE {now} + 3600000000 + recipient_id * 100000 END, {now}
                   FROM recipients WHERE account_id = {account} AND source = 'bench';
                 COMMIT"
            ))?;
            // As on PostgreSQL: what is measured is the claim, not a log that nobody has brought into the file yet.
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        store::Address::Postgres(url) => {
            let client = postgres::bare_connection(&url).await?;
            client
                .batch_execute(&format!(
                    "INSERT INTO recipients (workspace_id, account_id, platform, user_id, address, status, status_at, source)
                     SELECT {ws}, {account}, 'telegram', 'sleeps' || n, n::text, 'known', rupor_now(), 'bench'
                       FROM generate_series(1, {n}) AS n;
                     INSERT INTO bot_state (recipient_id, workspace_id, account_id, due_at, updated_at)
                     SELECT recipient_id, {ws}, {account},
                            CASE WHEN recipient_id % 2 = 0 THEN 'infinity'
                                 ELSE rupor_now() + interval '1 hour' + recipient_id * interval '100 ms' END, rupor_now()
                       FROM recipients WHERE account_id = {account} AND source = 'bench'"
                ))
                .await?;
            // Not in one call: several statements are a transaction, in which nothing is vacuumed.
            client.batch_execute("VACUUM ANALYZE recipients, bot_state").await?;
            client.batch_execute("CHECKPOINT").await?;
        }
    }
    Ok(())
}
