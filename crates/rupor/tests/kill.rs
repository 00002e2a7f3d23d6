//! Real processes, killed at any moment: `rupor run` against the sandbox with faults on.
//!
//! A short form is part of `./test`. The long one:
//! `RUPOR_KILLS=200 ./test -p rupor --test kill -- --nocapture`
//!
//! A third of the kills and more happen while a request is open: the sandbox has read it, has taken it or not, and
//! answers nothing; only then the process is ended. What is judged is the ledger of the sandbox: nothing lost, no more
//! copies than the policy allows, and on VK one visible post for each delivery.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use domain::delivery::{AmbiguityPolicy, Priority, Status};
use domain::ids::{ChannelId, DeliveryId, WorkspaceId};
use domain::message::Message;
use rand::{RngExt, SeedableRng};
use sandbox::{Name, Sandbox};
use serde_json::json;
use store::{
    AccountSettings, Address, ChannelSettings, Clock, DedupMode, DeliveryFilter, Keyring, NewAccount,
    NewChannel, NewMessage, Store, StoreError,
};

/// Kills of one test unless RUPOR_KILLS says otherwise.
const KILLS: usize = 6;
const LEASE: &str = "2s";
/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(120);

fn kills() -> usize {
    std::env::var("RUPOR_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS)
}

struct World {
    address: String,
    key_file: PathBuf,
    log: PathBuf,
    sandbox: Sandbox,
    workspace: WorkspaceId,
    channels: Vec<(Name, ChannelId)>,
    posts: usize,
    /// What was accepted for delivery, with the platform it goes to.
    accepted: BTreeMap<DeliveryId, (Name, String)>,
    dice: rand::rngs::StdRng,
}

/// How the kills went.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    with_a_request_open: usize,
    restarts_of_the_server: usize,
}

impl World {
    async fn new(address: String, folder: &Path) -> World {
        let key_file = folder.join("kill.key");
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        Store::migrate(&Address::parse(&address).unwrap()).await.unwrap();
        let store = open(&address, &key_file).await;
        let workspace = store.create_workspace("Приют").await.unwrap();
        let mut channels = Vec::new();
        for platform in Name::ALL {
            let kind = if platform == Name::Vk { "user" } else { "bot" };
            let new = NewAccount {
                platform: platform.as_str().into(),
                name: format!("бот {}", platform.as_str()),
                token: secrecy::SecretString::from("42:token-of-the-shelter"),
                settings: AccountSettings {
                    kind: kind.into(),
                    api_base: Some(sandbox.base(platform).into()),
                    ..AccountSettings::default()
                },
            };
            let account_id = store.create_account(workspace, new).await.unwrap();
            let (target, ambiguity) = match platform {
                Name::Telegram => ("-100123456789", AmbiguityPolicy::ResendOnce),
                Name::Vk => ("-20000000", AmbiguityPolicy::Resend),
                Name::Max => ("-7000000000000", AmbiguityPolicy::Reconcile),
            };
            for n in 0..3 {
                let new = NewChannel {
                    account_id,
                    name: format!("{} {n}", platform.as_str()),
                    target: format!("{target}{n}"),
                    settings: ChannelSettings {
                        ambiguity,
                        dedup: DedupMode::Off,
                        settings: json!({"timeout": "1s"}),
                        ..ChannelSettings::default()
                    },
                };
                channels.push((platform, store.create_channel(workspace, new).await.unwrap()));
            }
        }
        World {
            address,
            key_file,
            log: folder.join("kill.log"),
            sandbox,
            workspace,
            channels,
            posts: 0,
            accepted: BTreeMap::new(),
            dice: rand::rngs::StdRng::seed_from_u64(5),
        }
    }

    /// One post for every channel, each copy with a marker of its own.
    async fn post(&mut self, store: &Store) {
        self.posts += 1;
        for (platform, channel) in self.channels.clone() {
            let marker = format!("пост-{}-{}-", self.posts, channel);
            let enqueued = enqueue(store, self.workspace, channel, &marker).await;
            self.accepted.insert(enqueued, (platform, marker));
        }
    }

    fn node(&self) -> Node {
        let child = Command::new(env!("CARGO_BIN_EXE_rupor"))
            .args(["run", "--db", &self.address, "--lease", LEASE, "--only", "dispatch"])
            .env("RUPOR_KEY_FILE", &self.key_file)
            .env("RUPOR_LOG", "info")
            .stdout(Stdio::null())
            .stderr(std::fs::File::options().create(true).append(true).open(&self.log).unwrap())
            .spawn()
            .unwrap();
        Node(child)
    }

    /// Before there is work: for three kills of five a request that will stay open.
    fn plan(&mut self, n: usize) -> Option<(Name, usize)> {
        if n % 5 > 2 {
            return None;
        }
        let platform = Name::ALL[self.dice.random_range(0..3)];
        let kind = if self.dice.random() { "accept_then_hang" } else { "hang" };
        let method = match platform {
            Name::Telegram => "sendMessage",
            Name::Vk => "wall.post",
            Name::Max => "POST /messages",
        };
        let fault = json!({"platform": platform.as_str(), "method": method, "kind": kind, "times": 1});
        let before = self.open_requests(platform);
        self.sandbox.arm(&fault).unwrap();
        Some((platform, before))
    }

    /// Waits until the sandbox has read the planned request, or a random while.
    async fn moment(&mut self, plan: Option<(Name, usize)>, tally: &mut Tally) {
        let Some((platform, before)) = plan else {
            let wait = self.dice.random_range(0..400);
            tokio::time::sleep(Duration::from_millis(wait)).await;
            return;
        };
        let started = Instant::now();
        while self.open_requests(platform) == before {
            let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
            assert!(started.elapsed() < PATIENCE, "no request came\n{}", log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tally.with_a_request_open += 1;
    }

    /// Requests that were read and never answered.
    fn open_requests(&self, platform: Name) -> usize {
        let rows = self.sandbox.core().ledger.rows(platform);
        rows.iter().filter(|row| matches!(row.fault, Some("hang" | "accept_then_hang"))).count()
    }

    /// Faults off; everything must end.
    async fn calm(&mut self, store: Option<&Store>) -> Vec<store::Delivery> {
        self.sandbox.core().faults.clear();
        let node = self.node();
        let started = Instant::now();
        // A file belongs to the node while it runs, so it is looked at through the sandbox's quiet and then directly.
        if store.is_none() {
            self.quiet().await;
            node.terminate();
        }
        loop {
            let opened = match store {
                Some(store) => store.clone(),
                None => open(&self.address, &self.key_file).await,
            };
            let deliveries = all(&opened, self.workspace).await;
            let waiting = deliveries.iter().filter(|delivery| !delivery.status.is_terminal()).count();
            if waiting == 0 {
                return deliveries;
            }
            assert!(started.elapsed() < PATIENCE, "{waiting} deliveries never ended");
            drop(opened);
            if store.is_none() {
                let node = self.node();
                self.quiet().await;
                node.terminate();
            } else {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }

    /// Waits until no request has come for longer than a lease and the longest first backoff.
    async fn quiet(&self) {
        let count =
            || Name::ALL.map(|platform| self.sandbox.core().ledger.received(platform)).iter().sum::<u64>();
        let (mut last, mut since) = (count(), Instant::now());
        while since.elapsed() < Duration::from_secs(6) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if count() != last {
                (last, since) = (count(), Instant::now());
            }
        }
    }

    fn judge(&self, deliveries: &[store::Delivery]) {
        let mut copies: BTreeMap<(Name, String), usize> = BTreeMap::new();
        for platform in Name::ALL {
            for row in self.sandbox.core().ledger.rows(platform) {
                let sends = matches!(row.method.as_str(), "sendMessage" | "wall.post" | "POST /messages");
                if let (true, true, Some(text)) = (row.accepted, sends, &row.text) {
                    let marker = text.split_whitespace().find(|word| word.starts_with("пост-"));
                    if let Some(marker) = marker {
                        *copies.entry((platform, marker.to_owned())).or_default() += 1;
                    }
                }
            }
        }
        for (id, (platform, marker)) in &self.accepted {
            let delivery = deliveries.iter().find(|delivery| delivery.delivery_id == *id);
            let delivery = delivery.unwrap_or_else(|| panic!("delivery {id} is lost"));
            let accepted = copies.get(&(*platform, marker.clone())).copied().unwrap_or_default();
            let unknowns = usize::try_from(delivery.counters.unknowns).unwrap();
            match delivery.status {
                Status::Sent => assert!(accepted >= 1, "said to be sent, but nobody saw it: {delivery:#?}"),
                Status::Dead => {
                    // Where a repeat is harmless, only attempts end it that the platform left unanswered; not kills.
                    let counters = &delivery.counters;
                    let unanswered_to_the_end = delivery.reason.as_deref() == Some("attempts_exhausted")
                        && counters.unknowns - counters.lost_requests == domain::limits::ATTEMPTS_MAX;
                    let unknown = delivery.reason.as_deref() == Some("outcome_unknown");
                    assert!(unknown || unanswered_to_the_end, "{delivery:#?}");
                }
                _ => panic!("{delivery:#?}"),
            }
            let allowed = match platform {
                Name::Telegram | Name::Max => (1 + unknowns).min(2),
                Name::Vk => 1 + unknowns,
            };
            assert!(accepted <= allowed, "{accepted} copies, {allowed} allowed: {delivery:#?}");
        }
        for n in 0..3 {
            let wall = format!("-20000000{n}");
            let posts = self.sandbox.core().chats.messages(Name::Vk, &wall);
            let mut texts: Vec<&str> = posts.iter().map(|post| post.text.as_str()).collect();
            texts.sort_unstable();
            let visible = texts.len();
            texts.dedup();
            assert_eq!(visible, texts.len(), "a wall shows a post twice");
        }
    }
}

async fn open(address: &str, key_file: &Path) -> Store {
    let address = Address::parse(address).unwrap();
    let started = Instant::now();
    loop {
        // The lock of a process that was killed goes a moment after it.
        match Store::open(&address, Keyring::at(key_file).unwrap(), Clock::system()).await {
            Ok(store) => return store,
            Err(StoreError::InUse { .. } | StoreError::Unreachable { .. })
                if started.elapsed() < PATIENCE =>
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

async fn enqueue(store: &Store, workspace: WorkspaceId, channel: ChannelId, marker: &str) -> DeliveryId {
    let new = NewMessage {
        source: "test".into(),
        origin_id: marker.into(),
        idempotency_key: None,
        payload: serde_json::to_value(Message::text(format!("Пропал кот {marker}"))).unwrap(),
        content_hash: marker.into(),
        hash_version: 1,
        fingerprint: None,
        kind: "lost".into(),
        facts: json!({}),
        facts_version: 1,
        tags: Vec::new(),
        origin: json!({}),
        case_id: None,
        channels: vec![channel],
        priority: Priority::Urgent,
        run_at: None,
        skipped: None,
    };
    let started = Instant::now();
    loop {
        // The same call again gives the same ids, so an answer that was lost costs nothing.
        match store.enqueue(workspace, vec![new.clone()]).await {
            Ok(enqueued) => return enqueued[0].deliveries[0].delivery_id,
            Err(error) if started.elapsed() < PATIENCE => {
                assert!(!matches!(error, StoreError::Invalid { .. }), "{error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

async fn all(store: &Store, workspace: WorkspaceId) -> Vec<store::Delivery> {
    let mut deliveries: Vec<store::Delivery> = Vec::new();
    loop {
        let after = deliveries.last().map(|delivery| delivery.delivery_id);
        let page =
            store.deliveries(workspace, DeliveryFilter { after, ..DeliveryFilter::default() }, 500).await;
        match page {
            Ok(page) if page.is_empty() => return deliveries,
            Ok(page) => deliveries.extend(page),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// A node of its own; ended for good when it goes out of sight.
struct Node(Child);

impl Node {
    /// SIGKILL: no handler runs, nothing is flushed.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn terminate(mut self) {
        let id = self.0.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "an orderly stop ends with 0, not {status}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_sqlite_is_killed_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut world =
        World::new(format!("sqlite:{}", folder.path().join("kill.db").display()), folder.path()).await;
    let mut tally = Tally::default();
    for n in 0..kills() {
        let plan = world.plan(n);
        let store = open(&world.address, &world.key_file).await;
        for _ in 0..3 {
            world.post(&store).await;
        }
        drop(store);
        let node = started(&world).await;
        world.moment(plan, &mut tally).await;
        node.kill();
        tally.kills += 1;
    }
    let deliveries = world.calm(None).await;
    world.judge(&deliveries);
    report(&tally, &deliveries);
    assert!(tally.with_a_request_open * 3 >= tally.kills, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_on_postgres_are_killed_the_server_falls_and_nothing_is_lost() {
    let server = std::env::var("RUPOR_TEST_POSTGRES_DURABLE").expect("`./test` starts a durable server");
    let folder = tempfile::tempdir().unwrap();
    let address = scratch_database(&server).await;
    let mut world = World::new(address, folder.path()).await;
    let store = open(&world.address, &world.key_file).await;
    let mut tally = Tally::default();
    let mut nodes = vec![world.node(), world.node()];
    let restart_every = (kills() / 12).max(3);
    for n in 0..kills() {
        let plan = world.plan(n);
        for _ in 0..3 {
            world.post(&store).await;
        }
        if n % restart_every == restart_every - 1 && restart_server() {
            tally.restarts_of_the_server += 1;
        }
        world.moment(plan, &mut tally).await;
        // Nobody tells which of them has the open request, so both go; otherwise one, and the other goes on.
        let going = if plan.is_some() { 2 } else { 1 };
        for _ in 0..going {
            nodes.remove(world.dice.random_range(0..nodes.len())).kill();
        }
        nodes.resize_with(2, || world.node());
        tally.kills += 1;
    }
    let deliveries = world.calm(Some(&store)).await;
    world.judge(&deliveries);
    report(&tally, &deliveries);
    assert!(tally.with_a_request_open * 3 >= tally.kills, "{tally:?}");
}

/// A node that has begun: before that there is nothing to kill.
async fn started(world: &World) -> Node {
    let said = || std::fs::read_to_string(&world.log).unwrap_or_default().matches("running").count();
    let before = said();
    let mut node = world.node();
    let begun = Instant::now();
    while said() == before {
        let gone = node.0.try_wait().unwrap();
        let log = || std::fs::read_to_string(&world.log).unwrap_or_default();
        assert!(gone.is_none() && begun.elapsed() < PATIENCE, "the node did not begin: {gone:?}\n{}", log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    node
}

/// Throws the server off its feet: immediate mode, no checkpoint, no goodbye. `false` where nobody said how.
fn restart_server() -> bool {
    match std::env::var("RUPOR_TEST_POSTGRES_RESTART") {
        Ok(script) => Command::new(script).status().unwrap().success(),
        Err(_) => false,
    }
}

async fn scratch_database(server: &str) -> String {
    let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let name = format!("kill_{}", uuid::Uuid::new_v4().simple());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

#[expect(clippy::print_stderr, reason = "the figures of a long run are read by a person")]
fn report(tally: &Tally, deliveries: &[store::Delivery]) {
    let count = |status| deliveries.iter().filter(|delivery| delivery.status == status).count();
    let unknown = deliveries.iter().filter(|delivery| delivery.counters.unknowns > 0).count();
    eprintln!(
        "{tally:?}; {} deliveries: {} sent, {} dead, {unknown} of unknown outcome at some time",
        deliveries.len(),
        count(Status::Sent),
        count(Status::Dead)
    );
}
