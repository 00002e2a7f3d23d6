//! A failover that loses two seconds of commits: two PostgreSQL servers, two nodes, two workspaces.
//!
//! The standby is cut off, the nodes go on for two seconds, the primary falls, the standby is promoted. It gives ids
//! again that were used, and what was sent in those seconds looks unsent. Judged by what readers see and by what the
//! database says in the end. The same with nodes that do not look must be found out, or the judge is worth nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use domain::delivery::{AmbiguityPolicy, Status};
use domain::ids::{AccountId, ChannelId, DeliveryId, LaneId, MessageId, WorkspaceId};
use domain::message::Message;
use domain::time::{Span, Timestamp};
use engine::addresses::ApiBases;
use engine::dispatch::ports::{Dice, Ledger, Platforms};
use engine::dispatch::{self, EmptyShelf, Meters, Ports, Settings};
use engine::epoch::Note;
use futures_util::future::BoxFuture;
use sandbox::{Name, Sandbox};
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{
    Account, AccountSettings, Address, Attempt, Channel, ChannelSettings, Claim, ClaimRef, ClaimRequest,
    Claimed, Clock, DedupMode, Delivery, DeliveryFilter, Finish, Finished, HISTORY_LOST, History, Keyring,
    NewAccount, NewChannel, NewMessage, NodeRow, PartProgress, Recovered, Remembered, Replayed, Result,
    Store, StoreError, WakeUp, Whose,
};
use tokio::sync::watch;

/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(90);
/// What is promised, and judged where nothing else keeps the machine busy: with `RUPOR_FIGURES=1`.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);
/// Posts of each workspace that the standby has, and whose sends it loses.
const BACKLOG: usize = 60;
/// Posts of each workspace that it never hears of: more than a sequence keeps in hand, so that ids are given again.
const UNHEARD: usize = 80;
/// How long commits are lost.
const LOST: Duration = Duration::from_secs(2);
/// Requests a second of one account: the backlog goes out within the lost seconds.
const RATE: f64 = 40.0;

// -- the two servers

/// A primary and its standby as plain files, gone with the test.
struct Servers {
    bin: PathBuf,
    folder: tempfile::TempDir,
    ports: [u16; 2],
}

const NAMES: [&str; 2] = ["primary", "standby"];

impl Servers {
    fn start() -> Servers {
        let folder = tempfile::Builder::new().prefix("rupor-failover.").tempdir_in("/tmp").unwrap();
        let servers = Servers { bin: bin(), folder, ports: [free_port(), free_port()] };
        if is_root() {
            let owner = format!("{}:", owner());
            run(Command::new("chown").arg(owner).arg(servers.folder.path()));
        }
        run(Command::new("chmod").arg("755").arg(servers.folder.path()));
        let primary = servers.data(0);
        servers.tool(
            "initdb",
            &[
                "-D",
                &primary,
                "-U",
                "postgres",
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
            ],
        );
        servers.up(0);
        let port = servers.ports[0].to_string();
        servers.tool(
            "pg_basebackup",
            &[
                "-D",
                &servers.data(1),
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                "postgres",
                "-R",
                "-c",
                "fast",
                "--no-sync",
            ],
        );
        servers.up(1);
        servers
    }

    fn data(&self, which: usize) -> String {
        self.folder.path().join(NAMES[which]).display().to_string()
    }

    fn up(&self, which: usize) {
        let options = format!(
            "-h 127.0.0.1 -p {} -k {} -c max_connections=60 -c jit=off -c fsync=off -c shared_buffers=32MB",
            self.ports[which],
            self.folder.path().display()
        );
        let (data, log) = (self.data(which), format!("{}/log", self.data(which)));
        self.tool("pg_ctl", &["-D", &data, "-w", "-t", "60", "-l", &log, "-o", &options, "start"]);
    }

    /// PostgreSQL refuses to run as root; then a plain user owns the servers.
    fn tool(&self, name: &str, arguments: &[&str]) -> String {
        let program = self.bin.join(name);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", owner(), "--"]).arg(&program);
                command
            }
            false => Command::new(&program),
        };
        // What a server inherits it keeps open: nobody may wait for the end of its output.
        command.stdin(std::process::Stdio::null()).current_dir("/tmp");
        if name == "pg_ctl" {
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        }
        String::from_utf8_lossy(&run(command.args(arguments)).stdout).trim().to_owned()
    }

    fn sql(&self, which: usize, sql: &str) -> String {
        let port = self.ports[which].to_string();
        self.tool(
            "psql",
            &["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-X", "-A", "-t", "-q", "-c", sql],
        )
    }

    /// Whichever of the two takes writes.
    fn url(&self) -> String {
        let [first, second] = self.ports;
        format!(
            "postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres?target_session_attrs=read-write"
        )
    }

    async fn until(&self, what: &str, which: usize, sql: &str) {
        let started = Instant::now();
        while self.sql(which, sql) != "t" {
            assert!(started.elapsed() < PATIENCE, "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn caught_up(&self) {
        let at = self.sql(0, "SELECT pg_current_wal_lsn()");
        self.until("the standby catches up", 1, &format!("SELECT pg_last_wal_replay_lsn() >= '{at}'")).await;
    }

    /// From here on the standby hears nothing.
    async fn cut(&self) {
        self.sql(1, "ALTER SYSTEM SET primary_conninfo = ''");
        self.sql(1, "SELECT pg_reload_conf()");
        self.until("the standby is cut off", 1, "SELECT count(*) = 0 FROM pg_stat_wal_receiver").await;
    }

    /// The primary falls and the standby takes over.
    fn fail_over(&self) {
        self.tool("pg_ctl", &["-D", &self.data(0), "-m", "immediate", "-w", "stop"]);
        self.tool("pg_ctl", &["-D", &self.data(1), "-w", "-t", "60", "promote"]);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for which in 0..2 {
            let data = self.data(which);
            if Path::new(&data).join("postmaster.pid").exists() {
                self.tool("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]);
            }
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0)
}

fn owner() -> &'static str {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    if known.lines().any(|line| line.starts_with("postgres:")) { "postgres" } else { "nobody" }
}

fn bin() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists());
    let number = |bin: &PathBuf| {
        let version =
            bin.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u32>().ok());
        version.unwrap_or(0)
    };
    found.max_by_key(number).expect(
        "no PostgreSQL server under /usr/lib/postgresql: run `./test`, which installs one, or `apt-get install postgresql`",
    )
}

fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

// -- the world

struct World {
    servers: Servers,
    sandbox: Sandbox,
    store: Store,
    shelters: Vec<Shelter>,
    posts: usize,
}

/// One workspace with a Telegram channel and a VK wall of its own.
struct Shelter {
    ws: WorkspaceId,
    name: &'static str,
    channels: Vec<ChannelId>,
}

fn token(name: &str) -> String {
    format!("42:token-of-{}", if name == "север" { "north" } else { "south" })
}

async fn open(servers: &Servers) -> Store {
    let address = Address::parse(&servers.url()).unwrap();
    Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap()
}

impl World {
    async fn new() -> World {
        World::with(ChannelSettings::default().max_parallel).await
    }

    async fn with(max_parallel: i32) -> World {
        let servers = Servers::start();
        Store::migrate(&Address::parse(&servers.url()).unwrap()).await.unwrap();
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let store = open(&servers).await;
        let mut world = World { servers, sandbox, store, shelters: Vec::new(), posts: 0 };
        for (n, name) in ["север", "юг"].into_iter().enumerate() {
            let ws = world.store.create_workspace(name).await.unwrap();
            let mut channels = Vec::new();
            for (platform, target) in [(Name::Telegram, "-10012345678"), (Name::Vk, "-2000000")] {
                let settings = AccountSettings {
                    kind: if platform == Name::Vk { "user" } else { "bot" }.into(),
                    api_base: Some(world.sandbox.base(platform).into()),
                    rate: Some(RATE),
                    max_parallel: max_parallel.max(8),
                    ..AccountSettings::default()
                };
                let token = SecretString::from(token(name));
                let new = NewAccount {
                    platform: platform.as_str().into(),
                    name: platform.as_str().into(),
                    token,
                    settings,
                };
                let account_id = world.store.create_account(ws, new).await.unwrap();
                let ambiguity =
                    if platform == Name::Vk { AmbiguityPolicy::Resend } else { AmbiguityPolicy::ResendOnce };
                let settings = ChannelSettings {
                    ambiguity,
                    max_parallel,
                    dedup: DedupMode::Off,
                    ..ChannelSettings::default()
                };
                let target = format!("{target}{n}");
                let new = NewChannel { account_id, name: platform.as_str().into(), target, settings };
                channels.push(world.store.create_channel(ws, new).await.unwrap());
            }
            world.shelters.push(Shelter { ws, name, channels });
        }
        world
    }

    /// So many posts for each workspace, one here and one there; ids that are given again meet another workspace.
    async fn post(&mut self, n: usize) {
        for _ in 0..n {
            self.shelters.reverse();
            for shelter in &self.shelters {
                self.posts += 1;
                let text = format!("{} пост {} конец", shelter.name, self.posts);
                let new = message(&text, self.posts, &shelter.channels);
                self.store.enqueue(shelter.ws, vec![new]).await.unwrap();
            }
        }
    }

    fn node(&self, run_id: &str, ledger: Arc<dyn Ledger>) -> Node {
        self.node_with(run_id, ledger, Span::from_secs(10))
    }

    fn node_with(&self, run_id: &str, ledger: Arc<dyn Ledger>, lease: Span) -> Node {
        let (stop, stopped) = watch::channel(false);
        let ports = Ports {
            ledger,
            outlet: Arc::new(Platforms { network: platforms::platform::Network::default() }),
            shelf: Arc::new(EmptyShelf),
            dice: Dice::seeded(1),
            bases: ApiBases::default(),
            meters: Arc::new(Meters::default()),
        };
        let mut settings = Settings::new(run_id.into());
        settings.lease = lease;
        settings.drain = Duration::from_secs(10);
        Node { task: tokio::spawn(dispatch::run(settings, ports, stopped)), stop }
    }

    /// What readers have seen: the words, and by whose token they came.
    fn seen(&self) -> Vec<(Name, String, String)> {
        let rows = [Name::Telegram, Name::Vk].into_iter().flat_map(|name| {
            let rows = self.sandbox.core().ledger.rows(name);
            rows.into_iter().map(move |row| (name, row))
        });
        let seen = rows.filter(|(_, row)| row.accepted);
        seen.filter_map(|(name, row)| Some((name, row.account?, row.text?))).collect()
    }

    async fn until_seen(&self, n: usize) {
        let started = Instant::now();
        while self.seen().len() < n {
            assert!(started.elapsed() < PATIENCE, "{} of {n} were seen", self.seen().len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn deliveries(&self, shelter: &Shelter) -> Vec<Delivery> {
        self.store.deliveries(shelter.ws, DeliveryFilter::default(), 10_000).await.unwrap()
    }

    async fn until_ended(&self) {
        let started = Instant::now();
        for shelter in &self.shelters {
            while let Some(waiting) =
                self.deliveries(shelter).await.into_iter().find(|delivery| !delivery.status.is_terminal())
            {
                assert!(started.elapsed() < PATIENCE, "never ended: {waiting:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// The scenario up to the moment when the standby has taken over.
    async fn lose_two_seconds(&mut self) {
        self.post(BACKLOG).await;
        self.servers.caught_up().await;
        self.servers.cut().await;
        let started = Instant::now();
        self.post(UNHEARD).await;
        tokio::time::sleep(LOST.saturating_sub(started.elapsed())).await;
        // Every row of the backlog was sent, and the standby does not know of most of it.
        self.until_seen(4 * BACKLOG).await;
        self.servers.fail_over();
    }

    async fn judge(&self) -> Judgement {
        let mut verdict = Judgement::default();
        let seen = self.seen();
        let mut times: BTreeMap<(Name, &str), usize> = BTreeMap::new();
        for (platform, account, text) in &seen {
            *times.entry((*platform, label(text))).or_default() += 1;
            let own = self.shelters.iter().find(|shelter| text.contains(shelter.name)).unwrap();
            verdict.wrong_channel += usize::from(*account != token(own.name));
        }
        verdict.repeated = times.values().filter(|n| **n > 1).count();
        for shelter in &self.shelters {
            for delivery in self.deliveries(shelter).await {
                if delivery.status != Status::Sent {
                    verdict.not_sent += 1;
                    continue;
                }
                let payload = self.store.payload(shelter.ws, delivery.message_id).await.unwrap();
                let text = payload["text"].as_str().unwrap().to_owned();
                let platform = if Some(shelter.channels[0]) == delivery.destination.channel() {
                    Name::Telegram
                } else {
                    Name::Vk
                };
                verdict.unseen += usize::from(!times.contains_key(&(platform, label(&text))));
            }
        }
        verdict
    }
}

/// The words that tell one post from every other.
fn label(text: &str) -> &str {
    let start = text.find("пост ").unwrap_or_else(|| panic!("not one of ours: {text:?}"));
    &text[start..start + text[start..].find(" конец").unwrap()]
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Judgement {
    wrong_channel: usize,
    /// `sent`, and no reader saw it.
    unseen: usize,
    /// Seen twice.
    repeated: usize,
    /// Ended in another way.
    not_sent: usize,
}

struct Node {
    task: tokio::task::JoinHandle<Result<bool>>,
    stop: watch::Sender<bool>,
}

impl Node {
    async fn stop(self) {
        let _ = self.stop.send(true);
        self.task.await.unwrap().unwrap();
    }
}

fn message(text: &str, n: usize, channels: &[ChannelId]) -> NewMessage {
    NewMessage {
        source: "test".into(),
        origin_id: n.to_string(),
        idempotency_key: None,
        payload: serde_json::to_value(Message::text(text)).unwrap(),
        content_hash: text.into(),
        hash_version: 1,
        fingerprint: None,
        kind: "lost".into(),
        facts: json!({}),
        facts_version: 1,
        tags: Vec::new(),
        origin: json!({}),
        case_id: None,
        channels: channels.to_vec(),
        priority: domain::delivery::Priority::Urgent,
        run_at: None,
        skipped: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_lost_two_seconds_is_noticed_and_nothing_is_said_wrongly() {
    let mut world = World::new().await;
    let mut nodes = Vec::new();
    for name in ["узел-1", "узел-2"] {
        nodes.push(world.node(name, Arc::new(open(&world.servers).await)));
    }
    world.lose_two_seconds().await;
    let taken_over = Instant::now();
    // Others post at once: their messages get ids that were given before.
    world.post(UNHEARD).await;

    let held = loop {
        if let Some(why) = world.store.held().await.unwrap() {
            break why;
        }
        assert!(taken_over.elapsed() < PATIENCE, "nobody noticed that history was lost");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let noticed = taken_over.elapsed();
    println!("noticed {} ms after the standby took over", noticed.as_millis());
    if std::env::var_os("RUPOR_FIGURES").is_some() {
        assert!(noticed < NOTICED_WITHIN, "noticed after {noticed:?}");
    }
    assert!(held.starts_with(HISTORY_LOST), "{held}");
    assert!(held.contains("rupor release"), "{held}");
    let told = loop {
        let why = world.store.held().await.unwrap().unwrap();
        if why.contains("were written again") {
            break why;
        }
        assert!(taken_over.elapsed() < PATIENCE, "nobody said what is remembered: {why}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    println!("{told}");
    // Held means held: after one look of every node nothing leaves any more.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = world.seen().len();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.seen().len(), before, "something was sent while everything is held");

    world.store.hold_all(None).await.unwrap();
    world.until_ended().await;
    let verdict = world.judge().await;
    println!("{verdict:?}");
    assert_eq!(verdict, Judgement::default());
    assert_eq!(world.store.held().await.unwrap(), None, "released once is released");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_only_accepted_posts_notices_that_they_were_lost() {
    let mut world = World::new().await;
    let note = Note::beside(&world.servers.folder.path().join("node.key"));
    assert_eq!(note.check(&world.store).await.unwrap(), None);
    world.post(1).await;
    world.servers.caught_up().await;
    world.servers.cut().await;
    world.post(1).await;
    assert_eq!(note.compare(&world.store).await.unwrap(), None);
    world.servers.fail_over();
    let begun = Instant::now();
    let why = loop {
        match note.compare(&world.store).await {
            Ok(why) => break why.expect("what was accepted is missing"),
            Err(_) => assert!(begun.elapsed() < PATIENCE, "the standby does not answer"),
        }
    };
    assert!(why.contains("what was accepted then is missing"), "{why}");
    let held = world.store.held().await.unwrap().expect("everything is held");
    assert!(held.starts_with(HISTORY_LOST), "{held}");
    assert_eq!(note.compare(&world.store).await.unwrap(), None, "said once");
    // What was accepted before it fell speaks for nobody any more, what is accepted now does.
    world.post(1).await;
    assert_eq!(note.compare(&world.store).await.unwrap(), None);
}

/// One node has sent, and could not write it down before the primary fell. Nobody knows of it but that node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_waits_for_a_node_that_has_not_told_yet_what_it_sent() {
    // Where order is kept, one outcome that is not written down would keep all the others waiting.
    let mut world = World::with(100).await;
    let mute = Arc::new(AtomicBool::new(false));
    // Nobody waits longer than a lease.
    let lease = Span::from_secs(60);
    let speaking = world.node_with("узел-1", Arc::new(open(&world.servers).await), lease);
    let silent = world.node_with("узел-2", Bent::mute(&world.servers, &mute).await, lease);
    let started = Instant::now();
    while world.store.nodes().await.unwrap().len() < 2 {
        assert!(started.elapsed() < PATIENCE, "the nodes never signed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.servers.caught_up().await;
    mute.store(true, Ordering::Relaxed);
    world.lose_two_seconds().await;
    let started = Instant::now();
    while world.store.held().await.unwrap().is_none() {
        assert!(started.elapsed() < PATIENCE, "nobody noticed that history was lost");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.store.hold_all(None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    mute.store(false, Ordering::Relaxed);
    let started = Instant::now();
    loop {
        // Whoever finds the loss after a release holds again: that is his duty.
        if world.store.held().await.unwrap().is_some() {
            world.store.hold_all(None).await.unwrap();
        }
        let mut waiting = 0;
        for shelter in &world.shelters {
            let deliveries = world.deliveries(shelter).await;
            waiting += deliveries.iter().filter(|delivery| !delivery.status.is_terminal()).count();
        }
        if waiting == 0 {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{waiting} never ended");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(world.judge().await, Judgement::default());
    for node in [speaking, silent] {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_do_not_look_are_found_out_by_the_same_judge() {
    let mut world = World::new().await;
    let mut nodes = Vec::new();
    for name in ["узел-1", "узел-2"] {
        nodes.push(world.node(name, Bent::blind(&world.servers).await));
    }
    world.lose_two_seconds().await;
    world.post(UNHEARD).await;
    assert_eq!(world.store.held().await.unwrap(), None);
    world.until_ended().await;
    let verdict = world.judge().await;
    println!("{verdict:?}");
    assert!(
        verdict.repeated + verdict.unseen + verdict.wrong_channel > 0,
        "the judge saw nothing: {verdict:?}"
    );
    for node in nodes {
        node.stop().await;
    }
}

// -- the planted bug

/// A ledger that is not as it should be.
#[derive(Debug)]
struct Bent {
    store: Store,
    /// As it was: new connections are not told apart, and a row says nothing of the words it stands for.
    blind: bool,
    /// While it is set, no outcome gets through.
    mute: Arc<AtomicBool>,
}

impl Bent {
    async fn blind(servers: &Servers) -> Arc<Bent> {
        Arc::new(Bent { store: open(servers).await, blind: true, mute: Arc::default() })
    }

    async fn mute(servers: &Servers, mute: &Arc<AtomicBool>) -> Arc<Bent> {
        Arc::new(Bent { store: open(servers).await, blind: false, mute: Arc::clone(mute) })
    }
}

impl Ledger for Bent {
    fn connections(&self) -> u64 {
        if self.blind { 0 } else { self.store.connections() }
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async {
            let mut claimed = self.store.claim(request).await?;
            if !self.blind {
                return Ok(claimed);
            }
            let blur = |claim: &mut Claim| claim.idempotency_key = format!("d{}", claim.delivery_id);
            claimed.claims.iter_mut().for_each(blur);
            Ok(claimed)
        })
    }

    fn history(&self) -> BoxFuture<'_, Result<History>> {
        Box::pin(async {
            match self.blind {
                true => Ok(History { id: String::new(), server: String::new() }),
                false => self.store.history().await,
            }
        })
    }

    fn lose_history(&self, why: String) -> BoxFuture<'_, Result<()>> {
        Ledger::lose_history(&self.store, why)
    }

    fn tell_of_lost_history(&self, what: String) -> BoxFuture<'_, Result<()>> {
        Ledger::tell_of_lost_history(&self.store, what)
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeRow>>> {
        Ledger::nodes(&self.store)
    }

    fn sign_on(&self, run_id: String, history: History) -> BoxFuture<'_, Result<bool>> {
        Ledger::sign_on(&self.store, run_id, history)
    }

    fn sign_off(&self, run_id: String) -> BoxFuture<'_, Result<()>> {
        Ledger::sign_off(&self.store, run_id)
    }

    fn replay(&self, batch: Vec<Remembered>) -> BoxFuture<'_, Result<Vec<Replayed>>> {
        Ledger::replay(&self.store, batch)
    }

    fn commit(&self, batch: Vec<Finish>) -> BoxFuture<'_, Result<Vec<Finished>>> {
        Box::pin(async {
            if self.mute.load(Ordering::Relaxed) {
                let problem = "planted".to_owned();
                return Err(StoreError::Unreachable { address: "postgres".into(), problem });
            }
            self.store.commit(batch).await
        })
    }

    fn record_parts(&self, batch: Vec<(ClaimRef, PartProgress)>) -> BoxFuture<'_, Result<Vec<bool>>> {
        Ledger::record_parts(&self.store, batch)
    }

    fn renew(&self, batch: Vec<ClaimRef>, lease: Span) -> BoxFuture<'_, Result<Vec<bool>>> {
        Ledger::renew(&self.store, batch, lease)
    }

    fn recover(&self, whose: Whose, limit: usize) -> BoxFuture<'_, Result<Vec<Recovered>>> {
        Ledger::recover(&self.store, whose, limit)
    }

    fn reserve_for(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        lanes: Vec<Option<LaneId>>,
        lead: Span,
    ) -> BoxFuture<'_, Result<Vec<Timestamp>>> {
        Ledger::reserve_for(&self.store, workspace, account, lanes, lead)
    }

    fn reserve_lane(&self, workspace: WorkspaceId, lane: LaneId) -> BoxFuture<'_, Result<Timestamp>> {
        Ledger::reserve_lane(&self.store, workspace, lane)
    }

    fn held(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Ledger::held(&self.store)
    }

    fn now(&self) -> BoxFuture<'_, Result<Timestamp>> {
        Ledger::now(&self.store)
    }

    fn wake_up(&self) -> BoxFuture<'_, Result<WakeUp>> {
        Ledger::wake_up(&self.store)
    }

    fn payloads(
        &self,
        workspace: WorkspaceId,
        ids: Vec<MessageId>,
    ) -> BoxFuture<'_, Result<Vec<(MessageId, Value)>>> {
        Ledger::payloads(&self.store, workspace, ids)
    }

    fn delivery(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Delivery>> {
        Ledger::delivery(&self.store, workspace, id)
    }

    fn attempts(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<Vec<Attempt>>> {
        Ledger::attempts(&self.store, workspace, id)
    }

    fn said_lately(
        &self,
        workspace: WorkspaceId,
        lane: LaneId,
        but: DeliveryId,
    ) -> BoxFuture<'_, Result<Vec<String>>> {
        Ledger::said_lately(&self.store, workspace, lane, but)
    }

    fn earlier_edit_leaves(&self, workspace: WorkspaceId, edit: DeliveryId) -> BoxFuture<'_, Result<bool>> {
        Ledger::earlier_edit_leaves(&self.store, workspace, edit)
    }

    fn alike_is_ahead(&self, workspace: WorkspaceId, id: DeliveryId) -> BoxFuture<'_, Result<bool>> {
        Ledger::alike_is_ahead(&self.store, workspace, id)
    }

    fn accounts(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Account>>> {
        Ledger::accounts(&self.store, workspace)
    }

    fn account_token(&self, workspace: WorkspaceId, id: AccountId) -> BoxFuture<'_, Result<SecretString>> {
        Ledger::account_token(&self.store, workspace, id)
    }

    fn channels(&self, workspace: WorkspaceId) -> BoxFuture<'_, Result<Vec<Channel>>> {
        Ledger::channels(&self.store, workspace)
    }

    fn approach(
        &self,
        workspace: WorkspaceId,
        recipient: domain::ids::RecipientId,
        interval: Span,
        not_before: Timestamp,
    ) -> BoxFuture<'_, Result<store::Approach>> {
        Ledger::approach(&self.store, workspace, recipient, interval, not_before)
    }
}
