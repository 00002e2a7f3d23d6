//! A volunteer's node, killed at any moment: walls with photos in, three channels out, on SQLite, with the leases, batches
//! and retries that it has by itself. So that many kills fit into a test the wall is read every 300 ms, nothing is paced
//! (`RUPOR_PLATFORM_LIMITS=off`, a rate of 1000) and platforms are given up on after 2 s.
//!
//! A short form is part of `./test`. The long one, which also judges how soon after a restart the next request came:
//! `RUPOR_KILLS=100 ./test -p rupor --test kill_walls -- --nocapture`
//!
//! Each post stands on the wall before the node is killed, so it may be lost while it is read, while its photo is
//! fetched, uploaded, or while it is said. What is judged is what readers see.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use domain::delivery::Status;
use domain::ids::WorkspaceId;
use rand::{RngExt, SeedableRng};
use sandbox::{Name, Sandbox};
use serde_json::json;
use store::{Address, DeliveryFilter, Keyring, Store};

/// Kills unless RUPOR_KILLS says otherwise.
const KILLS: usize = 5;
/// From so many on the time to the next request is judged: the long form, by the median.
const JUDGED_FROM: usize = 20;
const NEXT_WITHIN: Duration = Duration::from_secs(2);
const WALL: i64 = -97_611;
const TELEGRAM: i64 = -1_009_761_000_001;
const VK: i64 = -97_610;
const MAX: i64 = -97_610_000_000_003;
const CHANNELS: [(Name, i64); 3] = [(Name::Telegram, TELEGRAM), (Name::Vk, VK), (Name::Max, MAX)];
/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Requests that can stay open when the node dies: uploads and posts.
const OPEN: [(&str, &str); 6] = [
    ("telegram", "sendPhoto"),
    ("vk", "wall.post"),
    ("max", "POST /messages"),
    ("vk", "photos.getWallUploadServer"),
    ("vk", "photos.saveWallPhoto"),
    ("max", "POST /uploads"),
];

struct World {
    sandbox: Sandbox,
    folder: tempfile::TempDir,
    posts: usize,
    dice: rand::rngs::StdRng,
}

impl World {
    async fn new() -> World {
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        World {
            sandbox: Sandbox::start(options).await.unwrap(),
            folder: tempfile::tempdir().unwrap(),
            posts: 0,
            dice: rand::rngs::StdRng::seed_from_u64(11),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self) -> String {
        format!("sqlite:{}", self.file("node.db").display())
    }

    /// One lost pet with a photo. No two share a name, a street or a phone: a shared one would make them one story.
    fn post(&mut self) {
        self.posts += 1;
        let n = self.posts;
        let text = format!("Пропал кот, ушёл из дома. Звоните {}", phone(n));
        let post = json!([{"id": n, "text": text, "photos": [format!("кот {n}")]}]);
        self.sandbox.put_on_wall(WALL, post).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    }

    fn node(&self) -> Node {
        let log = std::fs::File::options().create(true).append(true).open(self.file("node.log")).unwrap();
        let api = |name: Name| self.sandbox.base(name);
        let child = Command::new(env!("CARGO_BIN_EXE_rupor"))
            .args(["run", "--db", &self.address()])
            .envs([
                ("RUPOR_TELEGRAM_API", api(Name::Telegram)),
                ("RUPOR_VK_API", api(Name::Vk)),
                ("RUPOR_MAX_API", api(Name::Max)),
                ("VK_GROUPS", WALL.to_string()),
                ("TG_CHAT", TELEGRAM.to_string()),
                ("VK_OUT_OWNER_ID", VK.to_string()),
                ("MAX_CHAT", MAX.to_string()),
            ])
            .envs([
                ("VK_TOKEN", "invented-token-of-the-reader"),
                ("TG_ENABLED", "true"),
                ("TG_TOKEN", "97610:invented-token-of-the-bot-aaaaaaaa"),
                ("TG_RATE_PER_SEC", "1000"),
                ("TG_HTTP_TIMEOUT", "2s"),
                ("VK_OUT_ENABLED", "true"),
                ("VK_OUT_TOKEN", "invented-token-of-the-writer"),
                ("VK_OUT_RATE_PER_SEC", "1000"),
                ("VK_OUT_HTTP_TIMEOUT", "2s"),
                ("MAX_ENABLED", "true"),
                ("MAX_TOKEN", "invented-token-of-max"),
                ("MAX_RATE_PER_SEC", "1000"),
                ("MAX_HTTP_TIMEOUT", "2s"),
                ("RUPOR_POLL_INTERVAL", "300ms"),
                ("RUPOR_PLATFORM_LIMITS", "off"),
                ("RUPOR_LOG", "info"),
            ])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Node(child)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.file("node.log")).unwrap_or_default()
    }

    /// Requests that the platforms have received.
    fn received(&self) -> u64 {
        Name::ALL.map(|platform| self.sandbox.core().ledger.received(platform)).iter().sum()
    }

    /// Requests that would show something to readers.
    fn sends(&self) -> usize {
        CHANNELS.iter().map(|(platform, _)| self.said(*platform).count()).sum()
    }

    fn said(&self, platform: Name) -> impl Iterator<Item = sandbox::ledger::Row> + use<> {
        let says = move |row: &sandbox::ledger::Row| match platform {
            Name::Telegram => row.method.starts_with("send"),
            Name::Vk => row.method == "wall.post",
            Name::Max => row.method == "POST /messages",
        };
        self.sandbox.core().ledger.rows(platform).into_iter().filter(says)
    }

    fn hanging(&self) -> usize {
        let hangs = |row: &sandbox::ledger::Row| matches!(row.fault, Some("hang" | "accept_then_hang"));
        Name::ALL
            .map(|platform| self.sandbox.core().ledger.rows(platform).iter().filter(|row| hangs(row)).count())
            .iter()
            .sum()
    }

    /// Waits until the platform holds a request open, or a random while.
    async fn moment(&mut self, n: usize) {
        if n % 5 > 3 {
            let wait = self.dice.random_range(0..1_500);
            return tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        let (platform, method) = OPEN[self.dice.random_range(0..OPEN.len())];
        let kind = if self.dice.random() { "accept_then_hang" } else { "hang" };
        let before = self.hanging();
        self.sandbox.arm(&json!({"platform": platform, "method": method, "kind": kind, "times": 1})).unwrap();
        self.post();
        let armed = Instant::now();
        while self.hanging() == before {
            assert!(armed.elapsed() < PATIENCE, "no {method} came\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The rows, read beside the node; none while the node is still making its database.
    async fn deliveries(&self) -> Vec<Told> {
        let keyring = Keyring::at(&self.file("node.key")).unwrap();
        let Ok(store) = Store::open_reading(&Address::parse(&self.address()).unwrap(), keyring).await else {
            return Vec::new();
        };
        let accounts = store.accounts(WorkspaceId(1)).await.unwrap();
        let platform = |delivery: &store::Delivery| {
            let account = accounts.iter().find(|account| account.account_id == delivery.account_id).unwrap();
            Name::ALL.into_iter().find(|name| name.as_str() == account.platform).unwrap()
        };
        let mut all: Vec<Told> = Vec::new();
        loop {
            let after = all.last().map(|told| told.delivery.delivery_id);
            let filter = DeliveryFilter { after, ..DeliveryFilter::default() };
            let page = store.deliveries(WorkspaceId(1), filter, 500).await.unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page.into_iter().map(|delivery| Told { platform: platform(&delivery), delivery }));
        }
    }

    /// No more trouble: a node works until every post has an end in every channel.
    async fn calm(&self, posts: usize) -> Vec<Told> {
        self.sandbox.core().faults.clear();
        let node = self.node();
        let started = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let deliveries = self.deliveries().await;
            let ended = deliveries.iter().filter(|told| told.delivery.status.is_terminal()).count();
            if ended == posts * CHANNELS.len() && deliveries.len() == ended {
                node.terminate();
                return deliveries;
            }
            assert!(started.elapsed() < PATIENCE, "{ended} of {} ended\n{}", deliveries.len(), self.log());
        }
    }

    /// Every post of these stands in every channel: on VK once, elsewhere twice only after an unknown outcome. None is
    /// given up where repeats are recognised or the channel can be read; where neither is so, by its policy only.
    fn judge(&self, posts: std::ops::RangeInclusive<usize>, deliveries: &[Told]) {
        assert!(deliveries.iter().all(|told| matches!(told.delivery.status, Status::Sent | Status::Dead)));
        for (platform, chat) in CHANNELS {
            let here: Vec<_> = deliveries.iter().filter(|told| told.platform == platform).collect();
            let unknowns = here.iter().filter(|told| told.delivery.counters.unknowns > 0).count();
            let given_up: Vec<_> = here.iter().filter(|told| told.delivery.status == Status::Dead).collect();
            let by_policy = |told: &Told| {
                platform == Name::Telegram && told.delivery.reason.as_deref() == Some("outcome_unknown")
            };
            assert!(given_up.iter().all(|told| by_policy(told)), "{given_up:#?}");
            let (mut missing, mut repeated) = (0, 0);
            let shown = self.sandbox.core().chats.messages(platform, &chat.to_string());
            for n in posts.clone() {
                let copies = shown.iter().filter(|message| message.text.contains(&phone(n))).count();
                missing += usize::from(copies == 0);
                repeated += copies.saturating_sub(1);
                let most = if platform == Name::Vk { 1 } else { 2 };
                assert!(copies <= most, "post {n} stands {copies} times on {}", platform.as_str());
            }
            let name = platform.as_str();
            assert!(missing <= given_up.len(), "{name}: {missing} are nowhere, {} given up", given_up.len());
            assert!(repeated <= unknowns, "{name}: {repeated} repeats, {unknowns} unknown outcomes");
        }
    }
}

/// One delivery, and where it went.
#[derive(Debug)]
struct Told {
    platform: Name,
    delivery: store::Delivery,
}

fn phone(n: usize) -> String {
    format!("+7976000{n:04}")
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
async fn a_node_that_reads_walls_is_killed_and_no_post_is_lost_or_swallowed() {
    let kills = std::env::var("RUPOR_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let mut world = World::new().await;
    let mut waits: Vec<Duration> = Vec::new();
    for n in 0..kills {
        world.post();
        let (sends, started) = (world.sends(), Instant::now());
        let node = world.node();
        // Something always waits to be said: what the kill before left, or the new post on the wall.
        while world.sends() == sends {
            assert!(started.elapsed() < PATIENCE, "nothing is said after a restart\n{}", world.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        waits.push(started.elapsed());
        world.moment(n).await;
        node.kill();
    }
    let deliveries = world.calm(world.posts).await;
    world.judge(1..=world.posts, &deliveries);
    report(&mut waits, world.posts, &deliveries, world.received());

    // Starting over within the hour: ids begin again, and VK still remembers the keys of the first database.
    for n in 1..=world.posts {
        world
            .sandbox
            .remove_from_wall(WALL, i64::try_from(n).unwrap())
            .unwrap_or_else(|r| panic!("{}", r.message));
    }
    for entry in std::fs::read_dir(world.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    let first = world.posts + 1;
    for _ in 0..kills.min(20) {
        world.post();
    }
    let again = world.posts + 1 - first;
    let deliveries = world.calm(again).await;
    assert!(deliveries.iter().all(|told| told.delivery.status == Status::Sent), "{deliveries:#?}");
    world.judge(first..=world.posts, &deliveries);
}

#[expect(clippy::print_stderr, reason = "the figures of a long run are read by a person")]
fn report(waits: &mut [Duration], posts: usize, deliveries: &[Told], received: u64) {
    waits.sort_unstable();
    eprintln!(
        "{} kills, {posts} posts, {received} requests; start to next send: median {:?}, longest {:?}",
        waits.len(),
        waits[waits.len() / 2],
        waits[waits.len() - 1]
    );
    if waits.len() >= JUDGED_FROM {
        let median = waits[waits.len() / 2];
        assert!(median <= NEXT_WITHIN, "half of the starts take longer than {median:?} to send again");
    }
    for (platform, _) in CHANNELS {
        let here = || deliveries.iter().filter(|told| told.platform == platform).map(|told| &told.delivery);
        eprintln!(
            "{}: {} posts with requests that died with the node, {} at most for one; {} given up",
            platform.as_str(),
            here().filter(|delivery| delivery.counters.lost_requests > 0).count(),
            here().map(|delivery| delivery.counters.lost_requests).max().unwrap_or(0),
            here().filter(|delivery| delivery.status == Status::Dead).count(),
        );
    }
}
