//! What the benches of the dispatcher stand on: a sandbox in a process of its own, a scratch workspace, nodes in this one.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use domain::ids::{AccountId, ChannelId, WorkspaceId};
use domain::limits::effective_rate;
use domain::message::Message;
use serde_json::Value;
use store::{AccountSettings, ChannelSettings, Counts, DedupMode, NewAccount, NewChannel, NewMessage, Store};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;

use super::database::Database;
use engine::addresses::{ApiBases, TIER_PAID};
use engine::dispatch::ports::{Dice, Platforms};
use engine::dispatch::{self, Meters, Ports, Settings};
use engine::opening::open_when_free;

/// The sandbox as a child process; ends with it.
#[derive(Debug)]
pub(super) struct Emulator {
    origin: String,
    _process: Child,
    /// Kept open: a sandbox that cannot say the rest of its lines ends.
    _output: BufReader<ChildStdout>,
}

impl Emulator {
    pub(super) async fn start(limits: &str) -> anyhow::Result<Emulator> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([
                "sandbox",
                "--listen",
                "127.0.0.1:0",
                "--any-token",
                "--ledger-max",
                "400000",
                "--limits",
                limits,
            ])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the sandbox cannot be started")?;
        let output = process.stdout.take().context("the sandbox has no output")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).await?;
        let Some(origin) = line.trim().strip_prefix("sandbox listens on ") else {
            bail!("the sandbox said {line:?} instead of its address");
        };
        Ok(Emulator { origin: origin.to_owned(), _process: process, _output: output })
    }

    /// A control call; the one HTTP client of the product belongs to the platforms, and this is none of them.
    pub(super) async fn control(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let host = self.origin.trim_start_matches("http://");
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(host).await?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, rest) = answer.split_once("\r\n\r\n").context("the sandbox did not answer")?;
        ensure!(head.contains(" 200 "), "{method} {path}: {}", head.lines().next().unwrap_or_default());
        let text = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunked(rest)
        } else {
            rest.to_owned()
        };
        Ok(serde_json::from_str(&text)?)
    }

    /// Arrivals of accepted messages: the text and when, in milliseconds since the epoch.
    pub(super) async fn arrivals(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        let ledger = self.control("GET", "/_/ledger", None).await?;
        let rows = ledger["telegram"].as_array().context("the ledger has no telegram")?;
        let accepted = rows.iter().filter(|row| row["accepted"] == true && row["text"].is_string());
        Ok(accepted
            .map(|row| {
                (row["text"].as_str().unwrap_or_default().to_owned(), row["at"].as_i64().unwrap_or_default())
            })
            .collect())
    }

    pub(super) async fn rows(&self, platform: &str) -> anyhow::Result<Vec<Value>> {
        let mut ledger = self.control("GET", "/_/ledger", None).await?;
        match ledger[platform].take() {
            Value::Array(rows) => Ok(rows),
            _ => bail!("the ledger has no {platform}"),
        }
    }
}

fn unchunked(text: &str) -> String {
    let (mut rest, mut whole) = (text, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || size > after.len() || !after.is_char_boundary(size) {
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}

/// A scratch workspace with its accounts and channels.
#[derive(Debug)]
pub(super) struct Rig {
    pub store: Store,
    pub workspace: WorkspaceId,
    pub emulator: Emulator,
    run: String,
}

impl Rig {
    pub(super) async fn new(database: &Database, limits: &str) -> anyhow::Result<Rig> {
        let address = database.address()?;
        Store::migrate(&address).await?;
        let store = open_when_free(&address, &database.key_path(&address)).await?;
        let run = uuid::Uuid::new_v4().simple().to_string();
        let workspace = store.create_workspace(&format!("bench {run}")).await?;
        Ok(Rig { store, workspace, emulator: Emulator::start(limits).await?, run })
    }

    /// An account of any platform with the pace that its platform allows.
    pub(super) async fn account_on(&self, platform: &str, kind: &str) -> anyhow::Result<AccountId> {
        let settings = AccountSettings {
            kind: kind.into(),
            rate: effective_rate(None, known(platform)?.account_rate(kind, "standard")),
            burst: 1,
            max_parallel: 64,
            api_base: Some(format!("{}/{platform}", self.emulator.origin).into()),
            ..AccountSettings::default()
        };
        let token = self.token(0).into();
        let new = NewAccount { platform: platform.into(), name: platform.into(), token, settings };
        Ok(self.store.create_account(self.workspace, new).await?)
    }

    /// A Telegram bot; its token tells it from those of other runs.
    pub(super) async fn account(
        &self,
        n: usize,
        rate: Option<f64>,
        max_parallel: i32,
    ) -> anyhow::Result<AccountId> {
        let settings = AccountSettings {
            rate,
            burst: 1,
            max_parallel,
            tier: if rate.is_some_and(|rate| rate > 30.0) { TIER_PAID } else { "standard" }.into(),
            api_base: Some(format!("{}/telegram", self.emulator.origin).into()),
            ..AccountSettings::default()
        };
        let token = self.token(n).into();
        let new = NewAccount { platform: "telegram".into(), name: format!("bot {n}"), token, settings };
        Ok(self.store.create_account(self.workspace, new).await?)
    }

    pub(super) fn token(&self, n: usize) -> String {
        format!("{}:{}", 1_000 + n, self.run)
    }

    pub(super) async fn channel(
        &self,
        account_id: AccountId,
        n: usize,
        rate: Option<f64>,
        max_parallel: i32,
    ) -> anyhow::Result<ChannelId> {
        let settings =
            ChannelSettings { rate, max_parallel, dedup: DedupMode::Off, ..ChannelSettings::default() };
        self.channel_at(account_id, &format!("-100{:010}", 1_000_000 + n), settings).await
    }

    pub(super) async fn channel_at(
        &self,
        account_id: AccountId,
        target: &str,
        settings: ChannelSettings,
    ) -> anyhow::Result<ChannelId> {
        let new =
            NewChannel { account_id, name: format!("channel {target}"), target: target.into(), settings };
        Ok(self.store.create_channel(self.workspace, new).await?)
    }

    /// One message for each of these channels, each with a text of its own.
    pub(super) async fn enqueue(&self, texts: Vec<(String, ChannelId)>) -> anyhow::Result<()> {
        self.enqueue_messages(texts.into_iter().map(|(text, to)| (Message::text(text), to)).collect()).await
    }

    /// The same with whole messages; their texts tell them apart.
    pub(super) async fn enqueue_messages(&self, messages: Vec<(Message, ChannelId)>) -> anyhow::Result<()> {
        let batch = messages.into_iter().map(|(message, channel)| {
            let payload = serde_json::to_value(&message).unwrap_or_default();
            let new = NewMessage::new("bench", message.text.clone(), message.text, payload);
            NewMessage { channels: vec![channel], ..new }
        });
        self.store.enqueue(self.workspace, batch.collect()).await?;
        Ok(())
    }

    pub(super) fn node(&self, n: usize) -> Node {
        let (stop, stopped) = watch::channel(false);
        let meters = Arc::new(Meters::default());
        let ports = Ports {
            ledger: Arc::new(self.store.clone()),
            outlet: Arc::new(Platforms { network: platforms::platform::Network::default() }),
            shelf: Arc::new(self.store.clone()),
            dice: Dice::seeded(n as u64),
            bases: ApiBases::default(),
            meters: Arc::clone(&meters),
        };
        let settings = Settings { drain: Duration::from_secs(5), ..Settings::new(format!("bench {n}")) };
        Node { task: tokio::spawn(dispatch::run(settings, ports, stopped)), meters, stop }
    }

    pub(super) async fn counts(&self, of: &[ChannelId]) -> anyhow::Result<Counts> {
        let mut sum = Counts::default();
        for lane in self.store.lanes(self.workspace).await? {
            if lane.channel_id.is_some_and(|id| of.contains(&id)) {
                sum.sent += lane.counts.sent;
                sum.queued += lane.counts.queued;
                sum.retry += lane.counts.retry;
                sum.sending += lane.counts.sending;
                sum.dead += lane.counts.dead;
                sum.failed_permanent += lane.counts.failed_permanent;
            }
        }
        Ok(sum)
    }

    /// Waits until these channels have nothing left.
    pub(super) async fn emptied(&self, of: &[ChannelId], at_most: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let counts = self.counts(of).await?;
            if counts.queued + counts.retry + counts.sending == 0 {
                return Ok(());
            }
            ensure!(started.elapsed() < at_most, "not drained after {at_most:?}: {counts:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub meters: Arc<Meters>,
    task: tokio::task::JoinHandle<store::Result<bool>>,
    stop: watch::Sender<bool>,
}

impl Node {
    pub(super) async fn stop(self) -> anyhow::Result<bool> {
        self.stop.send_replace(true);
        Ok(self.task.await??)
    }
}

/// What is known of a platform.
pub(super) fn known(platform: &str) -> anyhow::Result<&'static platforms::facts::Facts> {
    Ok(platforms::registry::platform(platform).with_context(|| format!("no platform {platform}"))?.facts())
}

/// Milliseconds since the epoch, as the sandbox stamps them.
#[expect(clippy::disallowed_methods, reason = "compared with the stamps of another process")]
pub(super) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The p-th of a thousand.
pub(super) fn quantile(values: &mut [i64], per_mille: usize) -> i64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) * per_mille / 1_000).copied().unwrap_or_default()
}

/// Processor seconds and the most memory of this process so far, as the kernel tells them.
pub(super) fn usage() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let peak_kb: f64 = peak.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    ((ticks(11) + ticks(12)) / 100.0, peak_kb / 1_024.0)
}
