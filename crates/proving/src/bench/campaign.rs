//! `rupor-bench campaign`: what a broadcast to many costs, and what it costs others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use domain::campaign::CampaignStatus;
use domain::ids::AccountId;
use domain::message::Message;
use engine::addresses::TIER_PAID;
use engine::campaigns::forecast;
use engine::campaigns::life::{self, Draft};
use engine::campaigns::people::Judge;
use engine::campaigns::policy::{Paid, Policy};
use serde_json::{Value, json};
use store::{Campaign, NewRecipient, RecipientStatus, Store, postgres, sqlite};
use tokio::sync::watch;

use super::database::Database;
use super::rig::{Node, Rig, now_ms, quantile};

/// Measure campaigns: freeze, first send, status, the rate used, the forecast, and what a bot in trouble costs another
///
/// Takes a scratch database; the sandbox runs as a second process on the same machine.
#[derive(Debug, Args)]
pub(crate) struct CampaignBench {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// People of the large campaign
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    people: usize,
    /// The words of the large campaign name each person, so that the rows of people are read for the freeze
    #[arg(long)]
    personal: bool,
    /// Bots of the large campaign; everybody is known on each of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=10))]
    bots: u8,
    /// Seconds of each measurement by the clock
    #[arg(long, value_name = "N", default_value_t = 20)]
    seconds: u64,
    /// Only these parts; `import` takes as many people in from a CSV with the binary of --rupor, and watches its memory
    #[arg(long, value_name = "PART", value_delimiter = ',', default_values = ["large", "rate", "isolation", "urgent"])]
    parts: Vec<String>,
    /// The binary that the part `import` runs
    #[arg(long, value_name = "FILE")]
    rupor: Option<PathBuf>,
    /// Bytes of a line of the CSV, at least
    #[arg(long, value_name = "N", default_value_t = 0)]
    line_bytes: usize,
}

pub(crate) fn run(args: &CampaignBench) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let figures = runtime.block_on(measure(args))?;
    super::print(args.json, &figures)
}

async fn measure(args: &CampaignBench) -> anyhow::Result<Value> {
    let mut figures = json!({"database": args.database.address()?.to_string()});
    for part in &args.parts {
        figures[part] = match part.as_str() {
            "large" => large(args).await?,
            "rate" => json!([rate(args, 30).await?, rate(args, 1_000).await?]),
            "isolation" => isolation(args).await?,
            "urgent" => urgent(args).await?,
            "import" => {
                import(args, args.rupor.as_deref().context("import: give the binary with --rupor")?).await?
            }
            other => anyhow::bail!("no part {other}; known are large, rate, isolation, urgent, import"),
        };
    }
    Ok(figures)
}

/// A dispatcher and the loop that brings campaigns on.
struct Running {
    node: Node,
    stop: watch::Sender<bool>,
    campaigns: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(rig: &Rig) -> Running {
        let (stop, stopped) = watch::channel(false);
        let campaigns = tokio::spawn(engine::campaigns::run(rig.store.clone(), stopped));
        Running { node: rig.node(1), stop, campaigns }
    }

    async fn stop(self, rig: &Rig) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        self.campaigns.await?;
        self.node.stop().await?;
        // What this run leaves must not burden the next one.
        Ok(rig.store.hold_workspace(rig.workspace, true).await?)
    }
}

async fn put_people(rig: &Rig, account: AccountId, first: usize, n: usize) -> anyhow::Result<()> {
    for from in (first..first + n).step_by(5_000) {
        let some = (from..(from + 5_000).min(first + n)).map(|id| NewRecipient {
            user_id: (100_000_000 + id).to_string(),
            address: (100_000_000 + id).to_string(),
            attributes: json!({"name": "Анна", "city": "Пермь"}),
            time_zone: None,
            status: RecipientStatus::Active,
            source: "bench".into(),
        });
        rig.store.put_recipients(rig.workspace, account, some.collect()).await?;
    }
    Ok(())
}

async fn draft(rig: &Rig, name: &str, accounts: Vec<AccountId>) -> anyhow::Result<Campaign> {
    draft_of(rig, name, accounts, format!("campaign {name}")).await
}

async fn draft_of(
    rig: &Rig,
    name: &str,
    accounts: Vec<AccountId>,
    words: String,
) -> anyhow::Result<Campaign> {
    let known = rig.store.accounts(rig.workspace).await?;
    let is_paid =
        known.iter().any(|one| accounts.contains(&one.account_id) && one.settings.tier == TIER_PAID);
    let paid = is_paid.then_some(Paid { stars: 1e6 });
    let draft = Draft {
        name: name.into(),
        accounts,
        audience: None,
        variants: vec![("a".into(), 1, Message::text(words))],
        policy: Policy { paid, ..Policy::default() },
        key: name.into(),
    };
    life::create(&rig.store, rig.workspace, draft).await
}

async fn again(rig: &Rig, campaign: &Campaign) -> anyhow::Result<Campaign> {
    life::by_name(&rig.store, rig.workspace, &campaign.name).await
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

// -- a million

async fn large(args: &CampaignBench) -> anyhow::Result<Value> {
    let rig = Rig::new(&args.database, "off").await?;
    let mut accounts = Vec::new();
    let begun = Instant::now();
    for n in 0..usize::from(args.bots) {
        let account = rig.account(n, Some(1_000.0), 64).await?;
        put_people(&rig, account, 0, args.people).await?;
        accounts.push(account);
    }
    let put = seconds(begun);
    let large = async |name: &str| {
        let whom = if args.personal { ", {{ r.name }}" } else { "" };
        draft_of(&rig, name, accounts.clone(), format!("campaign {name}{whom}")).await
    };
    // One of each, alternating, so that both meet the same machine; the first pair is thrown away.
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..3 {
        bare.push(bare_freeze(args, &rig, round, accounts[0]).await?);
        let campaign = large(&format!("frozen {round}")).await?;
        ours.push(freeze(&rig, &campaign).await?);
    }
    let ratio = |n: usize| ours[n] / bare[n];
    let ratio = (ratio(1) + ratio(2)) / 2.0;
    let last = life::by_name(&rig.store, rig.workspace, "frozen 2").await?;
    let status = status(&rig, &last).await?;

    let running = Running::start(&rig);
    let campaign = large("first send").await?;
    let (asked_ms, begun) = (now_ms(), Instant::now());
    life::start(&rig.store, &campaign, None).await?;
    let returned = seconds(begun);
    let first = first_arrival(&rig, Duration::from_secs(180)).await?;
    let campaign = again(&rig, &campaign).await?;
    life::pause(&rig.store, &campaign, "measured").await?;
    running.stop(&rig).await?;
    Ok(json!({
        "people": args.people,
        "bots": args.bots,
        "personal": args.personal,
        "put_per_second": (args.people * accounts.len()) as f64 / put,
        "freeze_seconds": ours,
        "bare_insert_select_seconds": bare,
        "freeze_to_bare": ratio,
        "status_p50_us": status.0,
        "status_p99_us": status.1,
        "start_returned_after_seconds": returned,
        "first_send_after_seconds": (first - asked_ms) as f64 / 1e3,
    }))
}

/// From the draft to the moment everybody is written down, by the engine's own steps.
async fn freeze(rig: &Rig, campaign: &Campaign) -> anyhow::Result<f64> {
    let (ws, id) = (rig.workspace, campaign.campaign_id);
    rig.store.move_campaign(ws, id, campaign.version, CampaignStatus::Preparing, "").await?;
    let begun = Instant::now();
    loop {
        let now = again(rig, campaign).await?;
        let step = Judge::of(&rig.store, now).await?.step(&rig.store).await?;
        if rig.store.freeze_campaign(ws, id, step).await? {
            break;
        }
    }
    let took = seconds(begun);
    let now = again(rig, campaign).await?;
    life::cancel(&rig.store, &now, "measured").await?;
    Ok(took)
}

/// The same columns and keys by one statement, without a single rule; into a table that holds the same earlier campaigns.
async fn bare_freeze(args: &CampaignBench, rig: &Rig, round: i32, account: AccountId) -> anyhow::Result<f64> {
    const COLUMNS: &str = "workspace_id, campaign_id, cohort_id, recipient_id, account_id, platform, user_id, variant, generation, state";
    let ws = rig.workspace.0;
    let insert = format!(
        "INSERT INTO bench_freeze ({COLUMNS})
         SELECT workspace_id, {round}, {round}, recipient_id, account_id, platform, user_id, 0, 0, 'waiting'
           FROM recipients WHERE workspace_id = {ws} AND account_id = {account} ORDER BY platform, user_id"
    );
    match args.database.address()? {
        store::Address::Sqlite(path) => {
            let connection = sqlite::bare_connection(&path)?;
            if round == 0 {
                connection.execute_batch(SQLITE_BARE)?;
            }
            let begun = Instant::now();
            connection.execute_batch(&insert)?;
            Ok(seconds(begun))
        }
        store::Address::Postgres(url) => {
            let client = postgres::bare_connection(&url).await?;
            if round == 0 {
                client.batch_execute(POSTGRES_BARE).await?;
            }
            let begun = Instant::now();
            client.batch_execute(&insert).await?;
            Ok(seconds(begun))
        }
    }
}

const SQLITE_BARE: &str = "
DROP TABLE IF EXISTS bench_freeze;
CREATE TABLE bench_freeze (
    member_id INTEGER PRIMARY KEY AUTOINCREMENT, workspace_id INTEGER NOT NULL, campaign_id INTEGER NOT NULL, cohort_id INTEGER,
    recipient_id INTEGER NOT NULL, account_id INTEGER NOT NULL, platform TEXT NOT NULL, user_id TEXT NOT NULL,
    variant INTEGER NOT NULL DEFAULT 0, generation INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL, reason TEXT,
    delivery_id INTEGER, outcome TEXT, code TEXT, provider_message_id TEXT, at INTEGER, UNIQUE (campaign_id, platform, user_id)
) STRICT;
CREATE INDEX bench_freeze_of_cohort ON bench_freeze (cohort_id, member_id);
CREATE INDEX bench_freeze_of_recipient ON bench_freeze (recipient_id);";
const POSTGRES_BARE: &str = "
DROP TABLE IF EXISTS bench_freeze;
CREATE TABLE bench_freeze (
    member_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workspace_id bigint NOT NULL, campaign_id bigint NOT NULL,
    cohort_id bigint, recipient_id bigint NOT NULL, account_id bigint NOT NULL, platform text NOT NULL, user_id text NOT NULL,
    variant integer NOT NULL DEFAULT 0, generation integer NOT NULL DEFAULT 0, state text NOT NULL, reason text,
    delivery_id bigint, outcome text, code text, provider_message_id text, at timestamptz,
    UNIQUE (campaign_id, platform, user_id)
);
CREATE INDEX ON bench_freeze (cohort_id, member_id);
CREATE INDEX ON bench_freeze (recipient_id);";

/// Microseconds of what `campaign status` asks for: the middle, and the worst of a hundred.
async fn status(rig: &Rig, campaign: &Campaign) -> anyhow::Result<(i64, i64)> {
    let mut took = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        let now = again(rig, campaign).await?;
        let counts = rig.store.campaign_counts(rig.workspace, now.campaign_id).await?;
        std::hint::black_box((counts, forecast::of(&rig.store, &now).await?));
        rig.store.campaign_exclusions(rig.workspace, now.campaign_id).await?;
        took.push(begun.elapsed().as_micros() as i64);
    }
    Ok((quantile(&mut took, 500), quantile(&mut took, 990)))
}

async fn first_arrival(rig: &Rig, at_most: Duration) -> anyhow::Result<i64> {
    let begun = Instant::now();
    loop {
        let rows = rig.emulator.rows("telegram").await?;
        let sent =
            rows.iter().filter(|row| row["method"] == "sendMessage").filter_map(|row| row["at"].as_i64());
        if let Some(at) = sent.min() {
            return Ok(at);
        }
        ensure!(begun.elapsed() < at_most, "nothing was sent within {at_most:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// -- the rate, and the forecast

/// Accepted and refused requests of the sandbox, with the bot and the time of each.
async fn sends(rig: &Rig) -> anyhow::Result<Vec<(String, i64, bool)>> {
    let rows = rig.emulator.rows("telegram").await?;
    let sends = rows.iter().filter(|row| row["method"] == "sendMessage");
    let text = |row: &Value| row["text"].as_str().unwrap_or_default().to_owned();
    Ok(sends
        .map(|row| (text(row), row["at"].as_i64().unwrap_or_default(), row["accepted"] == true))
        .collect())
}

/// Of what a bot may send from its second second on, how much it sent.
fn share_used(times: &[i64], rate: f64, seconds: u64) -> f64 {
    let from = times.iter().min().copied().unwrap_or_default() + 1_000;
    let until = from + i64::try_from(seconds).unwrap_or(i64::MAX) * 1_000;
    let used = times.iter().filter(|at| (from..until).contains(*at)).count();
    used as f64 / (rate * seconds as f64)
}

async fn rate(args: &CampaignBench, rate: u32) -> anyhow::Result<Value> {
    let rig = Rig::new(&args.database, "real").await?;
    if rate > 30 {
        let paid = json!({"platform": "telegram", "token": rig.token(0), "paid_broadcast": true});
        rig.emulator.control("POST", "/_/accounts", Some(&paid)).await?;
    }
    let tier = if rate > 30 { TIER_PAID } else { "standard" };
    let limit = super::rig::known("telegram")?.account_rate("bot", tier);
    let paced = domain::limits::effective_rate(Some(f64::from(rate)), limit);
    let account = rig.account(0, paced, 512).await?;
    let people = rate as usize * (args.seconds as usize + 4);
    put_people(&rig, account, 0, people).await?;
    let running = Running::start(&rig);
    let campaign = draft(&rig, &format!("rate {rate}"), vec![account]).await?;
    life::start(&rig.store, &campaign, None).await?;
    let mut forecasts: Vec<i64> = Vec::new();
    let begun = Instant::now();
    loop {
        let now = again(&rig, &campaign).await?;
        let counts = rig.store.campaign_counts(rig.workspace, now.campaign_id).await?;
        if now.status.is_over() {
            break;
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(20 * args.seconds + 60),
            "it does not finish: {counts:?}"
        );
        let done = counts.sent as f64 / counts.total.max(1) as f64;
        let forecast = forecast::of(&rig.store, &now).await?.and_then(|forecast| forecast.expected_at);
        if let Some(at) = forecast.filter(|_| (0.1..0.9).contains(&done)) {
            forecasts.push(at.millis());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let sends = sends(&rig).await?;
    running.stop(&rig).await?;
    let times: Vec<i64> = sends.iter().filter(|(_, _, accepted)| *accepted).map(|(_, at, _)| *at).collect();
    let refused = sends.len() - times.len();
    // The end is when the last one was received: the campaign notices within a second more.
    let last_ms = times.iter().max().copied().unwrap_or_default();
    let length = (last_ms - times.iter().min().copied().unwrap_or_default()).max(1) as f64;
    let wrong = forecasts.iter().map(|at| (at - last_ms).abs() as f64 / length);
    Ok(json!({
        "rate": rate,
        "people": people,
        "share_of_rate_used": share_used(&times, f64::from(rate), args.seconds),
        "flood_answers": refused,
        "share_flooded": refused as f64 / sends.len().max(1) as f64,
        "forecasts": forecasts.len(),
        "forecast_off_at_most": wrong.reduce(f64::max),
    }))
}

// -- one bot in trouble beside another

const BOT_RATE: f64 = 30.0;

async fn isolation(args: &CampaignBench) -> anyhow::Result<Value> {
    let alone = beside(args, None).await?;
    let mut figures = json!({"alone": alone});
    for trouble in ["429", "hang"] {
        let share = beside(args, Some(trouble)).await?;
        figures[trouble] = json!({"share_of_rate_used": share, "to_alone": share / alone});
    }
    Ok(figures)
}

/// The share of its rate that bot B uses while bot A is in this trouble; both send the same campaign.
async fn beside(args: &CampaignBench, trouble: Option<&str>) -> anyhow::Result<f64> {
    let rig = Rig::new(&args.database, "off").await?;
    let (a, b) = (rig.account(0, Some(BOT_RATE), 16).await?, rig.account(1, Some(BOT_RATE), 16).await?);
    let n = (BOT_RATE as usize) * (args.seconds as usize + 6);
    put_people(&rig, a, 0, n).await?;
    put_people(&rig, b, n, n).await?;
    if let Some(kind) = trouble {
        let fault = json!({"platform": "telegram", "account": rig.token(0), "kind": kind, "retry_after": 1});
        rig.emulator.control("POST", "/_/faults", Some(&fault)).await?;
    }
    let running = Running::start(&rig);
    let campaign = draft(&rig, "two bots", vec![a, b]).await?;
    life::start(&rig.store, &campaign, None).await?;
    tokio::time::sleep(Duration::from_secs(args.seconds + 5)).await;
    let rows = rig.emulator.rows("telegram").await?;
    // People of B have the later ids.
    let first_of_b = (100_000_000 + n) as i64;
    let id = |row: &Value| row["chat"].as_i64().or_else(|| row["chat"].as_str()?.parse().ok()).unwrap_or(0);
    let times: Vec<i64> = rows
        .iter()
        .filter(|row| row["method"] == "sendMessage" && row["accepted"] == true && id(row) >= first_of_b)
        .filter_map(|row| row["at"].as_i64())
        .collect();
    rig.emulator.control("DELETE", "/_/faults", None).await?;
    let now = again(&rig, &campaign).await?;
    drop(life::cancel(&rig.store, &now, "measured").await);
    running.stop(&rig).await?;
    Ok(share_used(&times, BOT_RATE, args.seconds))
}

/// Posts on a bot that a campaign keeps busy: from due to received.
async fn urgent(args: &CampaignBench) -> anyhow::Result<Value> {
    let rig = Rig::new(&args.database, "off").await?;
    let account = rig.account(0, Some(BOT_RATE), 16).await?;
    let channel = rig.channel(account, 1, None, 1).await?;
    put_people(&rig, account, 0, (BOT_RATE as usize) * (args.seconds as usize + 15)).await?;
    let running = Running::start(&rig);
    let campaign = draft(&rig, "saturated", vec![account]).await?;
    life::start(&rig.store, &campaign, None).await?;
    first_arrival(&rig, Duration::from_secs(60)).await?;
    let mut due = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(args.seconds) {
        let text = format!("urgent {}", due.len());
        due.push((text.clone(), now_ms()));
        rig.enqueue(vec![(text, channel)]).await?;
        tokio::time::sleep(Duration::from_millis(230)).await;
    }
    rig.emptied(&[channel], Duration::from_secs(30)).await?;
    let arrivals = rig.emulator.arrivals().await?;
    let now = again(&rig, &campaign).await?;
    drop(life::cancel(&rig.store, &now, "measured").await);
    running.stop(&rig).await?;
    let mut lags: Vec<i64> = due.iter().filter_map(|(text, due)| Some(arrivals.get(text)? - due)).collect();
    let posts = lags.len();
    Ok(json!({"posts": posts, "p50_ms": quantile(&mut lags, 500), "p99_ms": quantile(&mut lags, 990)}))
}

// -- a file

/// The product's own binary takes a file in; the kernel says how much memory it had.
async fn import(args: &CampaignBench, rupor: &Path) -> anyhow::Result<Value> {
    let address = args.database.address()?;
    let folder = std::env::temp_dir().join(format!("rupor-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("people.csv");
    let bytes = write_people(&file, args)?;
    let name = format!("import {}", now_ms());
    {
        let store = open(args, &address).await?;
        let workspace = store.create_workspace(&name).await?;
        let new = store::NewAccount {
            platform: "telegram".into(),
            name: "bot".into(),
            token: format!("77:{}", now_ms()).into(),
            settings: store::AccountSettings::default(),
        };
        store.create_account(workspace, new).await?;
    }
    let begun = Instant::now();
    let mut child = tokio::process::Command::new(rupor)
        .args(["audience", "import"])
        .arg(&file)
        .args(["--account", "bot", "--workspace", &name, "--db", args.database.written(), "--json"])
        .env("RUPOR_KEY_FILE", args.database.key_path(&address))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .context("the binary cannot be started")?;
    let pid = child.id().context("it is gone already")?;
    let mut most_kb = 0_u64;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let told = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let peak = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        most_kb = most_kb.max(peak.trim().trim_end_matches(" kB").parse().unwrap_or(0));
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let took = seconds(begun);
    std::fs::remove_dir_all(&folder)?;
    ensure!(status.success(), "the import failed");
    Ok(json!({
        "rows": args.people,
        "megabytes": bytes as f64 / 1e6,
        "seconds": took,
        "rows_per_second": args.people as f64 / took,
        "resident_peak_mb": most_kb as f64 / 1_024.0,
    }))
}

async fn open(args: &CampaignBench, address: &store::Address) -> anyhow::Result<Store> {
    Store::migrate(address).await?;
    Ok(engine::opening::open_when_free(address, &args.database.key_path(address)).await?)
}

/// Writes the list and says how long it is.
fn write_people(file: &Path, args: &CampaignBench) -> anyhow::Result<u64> {
    use std::io::Write;
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    writeln!(out, "address;name;city;about;time_zone")?;
    for id in 0..args.people {
        let line = format!("{};Анна;Пермь;;Asia/Yekaterinburg", 300_000_000 + id);
        let about = "x".repeat(args.line_bytes.saturating_sub(line.len()));
        writeln!(out, "{};Анна;Пермь;{about};Asia/Yekaterinburg", 300_000_000 + id)?;
    }
    out.flush()?;
    Ok(out.get_ref().metadata()?.len())
}
