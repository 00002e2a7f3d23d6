//! The main job in bulk: posts from a JSONL file into 40 channels over the three platforms, by real processes against
//! the sandbox, with rates lifted. What is judged is the ledger of the sandbox: each case once in each channel.
//!
//! A short form is part of `./test`. The long one, with the figures at its end:
//! `RUPOR_POSTS=10000 ./test -p rupor --release --test main_job -- --nocapture --test-threads 1`

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use domain::delivery::{AmbiguityPolicy, Priority, Status};
use domain::ids::{CampaignId, DeliveryId, WorkspaceId};
use domain::message::Message;
use sandbox::{Name, Sandbox};
use serde_json::json;
use store::{
    AccountSettings, Address, ChannelSettings, Clock, DedupMode, ForRecipients, Keyring, LaneOf,
    LaneSettings, NewAccount, NewChannel, NewMessage, NewRecipient, RecipientStatus, Store, StoreError,
};

/// Posts of one test unless RUPOR_POSTS says otherwise.
const POSTS: usize = 100;
const CHANNELS: usize = 40;
/// One post in so many tells again what an earlier one told.
const COPY_EVERY: usize = 7;
/// What a process may use at most, in kibibytes.
const MEMORY_MAX_KIB: u64 = 250 * 1_024;
/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(7_200);

fn n_posts() -> usize {
    std::env::var("RUPOR_POSTS").ok().and_then(|n| n.parse().ok()).unwrap_or(POSTS)
}

/// Which story the n-th post tells.
fn story(n: usize) -> usize {
    if n % COPY_EVERY == COPY_EVERY - 1 { n / 2 } else { n }
}

/// The phone of a story, as the file has it; no other has the same.
fn phone(story: usize) -> String {
    format!("8 901 {:03}-{:02}-{:02}", story / 10_000 % 1_000, story / 100 % 100, story % 100)
}

fn text(story: usize) -> String {
    let pick = |list: [&'static str; 8], step: usize| list[story / step % list.len()];
    let name = pick(["Буся", "Рекс", "Мурка", "Барсик", "Найда", "Филя", "Тузик", "Соня"], 1);
    let town = pick(["Тюмень", "Омск", "Пермь", "Курган", "Уфа", "Казань", "Тверь", "Томск"], 8);
    let street = pick(["Ямская", "Садовая", "Лесная", "Речная", "Мира", "Полевая", "Новая", "Южная"], 64);
    format!(
        "Пропала собака {name}! {town}, улица {street}, дом {}. Телефон {}, вознаграждение.",
        story % 200 + 1,
        phone(story)
    )
}

struct World {
    sandbox: Sandbox,
    folder: PathBuf,
    /// The chats of all channels.
    chats: Vec<(Name, String)>,
}

impl World {
    async fn new(folder: &Path) -> World {
        let options = sandbox::Options {
            any_token: true,
            ledger_max: 1_000_000,
            messages_max: 1_000_000,
            ..sandbox::Options::default()
        };
        let sandbox = Sandbox::start(options).await.unwrap();
        World { sandbox, folder: folder.to_owned(), chats: Vec::new() }
    }

    /// One account on each platform and the channels spread over them.
    async fn furnish(&mut self, address: &str) -> WorkspaceId {
        Store::migrate(&Address::parse(address).unwrap()).await.unwrap();
        let store = self.open(address).await;
        let workspace = store.create_workspace("Приют").await.unwrap();
        let mut accounts = Vec::new();
        for platform in Name::ALL {
            let kind = if platform == Name::Vk { "user" } else { "bot" };
            let settings = AccountSettings {
                kind: kind.into(),
                api_base: Some(self.sandbox.base(platform).into()),
                max_parallel: 32,
                ..AccountSettings::default()
            };
            let (name, token) =
                (format!("бот {}", platform.as_str()), "42:token-of-the-shelter".to_owned().into());
            let new = NewAccount { platform: platform.as_str().into(), name, token, settings };
            accounts.push((platform, store.create_account(workspace, new).await.unwrap()));
        }
        for n in 0..CHANNELS {
            let (platform, account_id) = accounts[n % accounts.len()];
            let target = match platform {
                Name::Telegram => format!("-1001234567{n:03}"),
                Name::Vk => format!("-20000{n:03}"),
                Name::Max => format!("-70000000000{n:03}"),
            };
            let settings = ChannelSettings { dedup: DedupMode::Case, ..ChannelSettings::default() };
            let new =
                NewChannel { account_id, name: format!("канал {n}"), target: target.clone(), settings };
            store.create_channel(workspace, new).await.unwrap();
            self.chats.push((platform, target));
        }
        workspace
    }

    async fn open(&self, address: &str) -> Store {
        let address = Address::parse(address).unwrap();
        let started = Instant::now();
        loop {
            // The lock of a process that has ended goes a moment after it.
            match Store::open(&address, self.keyring(), Clock::system()).await {
                Ok(store) => return store,
                Err(StoreError::InUse { .. }) if started.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn keyring(&self) -> Keyring {
        Keyring::at(&self.key_file()).unwrap()
    }

    fn key_file(&self) -> PathBuf {
        self.folder.join("rupor.key")
    }

    fn rupor(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
        command
            .args(args)
            .env("RUPOR_KEY_FILE", self.key_file())
            .env("RUPOR_PLATFORM_LIMITS", "off")
            .env("RUPOR_LOG", "warn")
            .current_dir(&self.folder);
        command
    }

    /// Runs a command to its end, and returns the most memory that it was seen to use.
    async fn run(&self, args: &[&str]) -> (Output, u64) {
        let mut child =
            Process(self.rupor(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut memory = 0;
        while child.0.try_wait().unwrap().is_none() {
            memory = memory.max(child.memory_kib());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (out, err) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
        let status = child.0.wait().unwrap();
        let (stdout, stderr) = (std::io::read_to_string(out).unwrap(), std::io::read_to_string(err).unwrap());
        (Output { status, stdout: stdout.into(), stderr: stderr.into() }, memory)
    }

    /// A node that has begun: on SQLite it answers at its socket, and who comes before that finds the file locked.
    async fn node(&self, address: &str) -> Process {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("node.log"));
        let mut command = self.rupor(&["run", "--db", address, "--only", "dispatch"]);
        let node = Process(command.stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap());
        if let Some(file) = address.strip_prefix("sqlite:") {
            let (socket, started) = (format!("{file}.sock"), Instant::now());
            while std::os::unix::net::UnixStream::connect(&socket).is_err() {
                assert!(started.elapsed() < PATIENCE, "the node never began\n{}", self.log());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        node
    }

    /// Takes in the posts from `from` to `to`; the memory of the command.
    async fn import(&self, address: &str, from: usize, to: usize) -> u64 {
        let store = Store::open_reading(&Address::parse(address).unwrap(), self.keyring()).await.unwrap();
        let now_s = store.now().await.unwrap().0 / 1_000_000;
        drop(store);
        let mut lines = String::new();
        for n in from..to {
            let (owner, id) = (-1 - (n % 18) as i64, n + 1);
            let post = json!({"owner_id": owner, "post_id": id, "date": now_s - 60, "text": text(story(n))});
            lines.push_str(&format!("{post}\n"));
        }
        let path = self.folder.join("posts.jsonl");
        std::fs::write(&path, lines).unwrap();
        let (output, memory) = self.run(&["import", path.to_str().unwrap(), "--db", address, "--json"]).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&done["stored"], &done["bad_lines"]), (&json!(to - from), &json!(0)), "{done}");
        memory
    }

    /// Waits until nothing waits any more.
    async fn settled(&self, address: &str, workspace: WorkspaceId) {
        let address = Address::parse(address).unwrap();
        let store = Store::open_reading(&address, self.keyring()).await.unwrap();
        let started = Instant::now();
        loop {
            let lanes = store.lanes(workspace).await.unwrap();
            let waiting: i64 =
                lanes.iter().map(|lane| lane.counts.queued + lane.counts.retry + lane.counts.sending).sum();
            if waiting == 0 {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{waiting} deliveries never ended\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("node.log")).unwrap_or_default()
    }

    /// Each story of the first `posts` posts once in each channel, and nothing else anywhere; how much was said.
    fn judge(&self, posts: usize) -> usize {
        let stories: BTreeSet<String> = (0..posts).map(|n| digits(&phone(story(n)))).collect();
        let mut said: BTreeMap<(Name, String), BTreeMap<String, usize>> = BTreeMap::new();
        for platform in Name::ALL {
            assert_eq!(
                self.sandbox.core().ledger.kept(platform) as u64,
                self.sandbox.core().ledger.received(platform),
                "the ledger has everything"
            );
            for row in self.sandbox.core().ledger.rows(platform) {
                let sends = matches!(row.method.as_str(), "sendMessage" | "wall.post" | "POST /messages");
                let Some(text) = row.text.as_deref().filter(|_| sends) else {
                    continue;
                };
                assert!(row.accepted, "{row:#?}");
                let chat = row.chat.to_string().trim_matches('"').to_owned();
                let phone = digits(text.split("Телефон").nth(1).unwrap().split(',').next().unwrap());
                *said.entry((platform, chat)).or_default().entry(phone).or_default() += 1;
            }
        }
        assert_eq!(said.len(), self.chats.len());
        for (platform, chat) in &self.chats {
            let told = &said[&(*platform, chat.clone())];
            let twice: Vec<_> = told.iter().filter(|(_, n)| **n != 1).collect();
            assert!(twice.is_empty(), "said more than once in {chat}: {twice:?}");
            let missing: Vec<_> = stories.iter().filter(|phone| !told.contains_key(*phone)).take(5).collect();
            assert!(missing.is_empty(), "never said in {chat}: {missing:?}");
            assert_eq!(told.len(), stories.len(), "nothing else in {chat}");
        }
        stories.len() * self.chats.len()
    }

    /// The rows say the same as the ledger, and agree with each other.
    async fn check_rows(&self, address: &str, workspace: WorkspaceId, posts: usize, sent: usize) {
        let store = self.open(address).await;
        let lanes = store.lanes(workspace).await.unwrap();
        let sum =
            |of: fn(&store::Counts) -> i64| lanes.iter().map(|lane| of(&lane.counts)).sum::<i64>() as usize;
        assert_eq!(sum(|counts| counts.sent), sent);
        assert_eq!(sum(|counts| counts.deduped), posts * CHANNELS - sent);
        assert_eq!(sum(|counts| counts.failed_permanent) + sum(|counts| counts.dead), 0);
        assert_eq!(store.audit(workspace).await.unwrap(), [""; 0]);
    }
}

fn digits(text: &str) -> String {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits[digits.len() - 10..].to_owned()
}

/// A process of ours; ended for good when it goes out of sight.
struct Process(Child);

impl Process {
    /// The most memory that it has had at any time.
    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
    }

    /// An orderly stop; the most memory that it has had.
    fn terminate(mut self) -> u64 {
        let memory = self.memory_kib();
        let id = self.0.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "an orderly stop ends with 0, not {status}");
        memory
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn in_bulk(address: String, folder: &Path, nodes: usize) {
    let mut world = World::new(folder).await;
    let workspace = world.furnish(&address).await;
    let mut processes = Vec::new();
    for _ in 0..nodes {
        processes.push(world.node(&address).await);
    }
    let started = Instant::now();
    let import_kib = world.import(&address, 0, n_posts()).await;
    let imported = started.elapsed();
    world.settled(&address, workspace).await;
    let ended = started.elapsed();
    let nodes_kib: Vec<u64> = processes.into_iter().map(Process::terminate).collect();
    let said = world.judge(n_posts());
    world.check_rows(&address, workspace, n_posts(), said).await;
    report(said, imported, ended, import_kib, &nodes_kib);
    assert!(
        nodes_kib.iter().chain([&import_kib]).all(|kib| *kib <= MEMORY_MAX_KIB),
        "{nodes_kib:?} {import_kib}"
    );
}

#[expect(clippy::print_stderr, reason = "the figures of a long run are read by a person")]
fn report(said: usize, imported: Duration, ended: Duration, import_kib: u64, nodes_kib: &[u64]) {
    eprintln!(
        "{} posts × {CHANNELS} channels: {said} deliveries sent, imported after {:.1} s, all ended after {:.1} s; \
         memory at most: import {} MiB, nodes {:?} MiB",
        n_posts(),
        imported.as_secs_f64(),
        ended.as_secs_f64(),
        import_kib / 1_024,
        nodes_kib.iter().map(|kib| kib / 1_024).collect::<Vec<_>>()
    );
}

fn file(folder: &Path, name: &str) -> String {
    format!("sqlite:{}", folder.join(name).display())
}

async fn scratch_database() -> String {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let name = format!("main_job_{}", uuid::Uuid::new_v4().simple());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_posts_goes_to_forty_channels_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    in_bulk(file(folder.path(), "rupor.db"), folder.path(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_posts_goes_to_forty_channels_by_two_nodes_on_postgres() {
    let folder = tempfile::tempdir().unwrap();
    in_bulk(scratch_database().await, folder.path(), 2).await;
}

/// From SQLite to PostgreSQL and back to a file: what was sent stays sent, what waited is sent, copies are known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_up_that_moves_to_postgres_and_back_says_everything_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path()).await;
    let (old, server, new) =
        (file(folder.path(), "old.db"), scratch_database().await, file(folder.path(), "new.db"));
    let workspace = world.furnish(&old).await;
    let node = world.node(&old).await;
    world.import(&old, 0, 10).await;
    world.settled(&old, workspace).await;
    let refused = world.run(&["db", "copy", &old, &server]).await.0;
    assert_eq!(refused.status.code(), Some(1), "a node is running");
    let problem = String::from_utf8(refused.stderr).unwrap();
    assert!(problem.contains("nothing was changed") && problem.contains("stop that one first"), "{problem}");
    node.terminate();
    world.judge(10);
    world.import(&old, 10, 20).await;

    let moved = world.run(&["db", "copy", &old, &server]).await.0;
    let told = String::from_utf8(moved.stdout).unwrap();
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    assert!(told.contains("rows copied from sqlite:") && told.contains("is held now"), "{told}");
    let node = world.node(&server).await;
    world.settled(&server, workspace).await;
    node.terminate();
    world.judge(20);

    assert!(world.run(&["db", "copy", &server, &new, "--json"]).await.0.status.success());
    let node = world.node(&new).await;
    world.import(&new, 20, 30).await;
    world.settled(&new, workspace).await;
    node.terminate();
    let said = world.judge(30);
    world.check_rows(&new, workspace, 30, said).await;

    // Somebody starts the first one by mistake: it stands still, and so does what is still in its queue.
    let node = world.node(&old).await;
    let occupied = world.run(&["db", "copy", &new, &old]).await.0;
    assert_eq!(occupied.status.code(), Some(1), "it is in use, and not empty");
    node.terminate();
    let status = world.run(&["status", "--db", &old]).await.0;
    let told = String::from_utf8(status.stdout).unwrap();
    assert!(told.contains("was copied to") || told.contains("has gone back"), "{told}");
    world.judge(30);
}

/// Three people on a bot of each platform: a campaign writes to all of them, a dialogue to the first. The deliveries.
async fn furnish_people(world: &World, store: &Store, workspace: WorkspaceId) -> Vec<DeliveryId> {
    let mut queued = Vec::new();
    for platform in Name::ALL {
        let kind = if platform == Name::Vk { "community" } else { "bot" };
        let settings = AccountSettings {
            kind: kind.into(),
            api_base: Some(world.sandbox.base(platform).into()),
            ..AccountSettings::default()
        };
        let (name, token) = (platform.as_str().to_owned(), "42:token-of-the-shelter".to_owned().into());
        let new = NewAccount { platform: platform.as_str().into(), name, token, settings };
        let account = store.create_account(workspace, new).await.unwrap();
        let person = |n: usize| NewRecipient {
            user_id: format!("{}", 7_001 + n),
            address: if platform == Name::Max {
                format!("user:{}", 7_001 + n)
            } else {
                format!("{}", 7_001 + n)
            },
            attributes: json!({}),
            time_zone: None,
            status: RecipientStatus::Active,
            source: "файл".into(),
        };
        let people = store.put_recipients(workspace, account, (0..3).map(person).collect()).await.unwrap();
        let ids: Vec<_> = people.iter().map(|put| put.recipient_id).collect();
        for (words, of, max_parallel, recipients, priority) in [
            ("Скидки", LaneOf::Campaign(CampaignId(1), account), 4, ids.clone(), Priority::Bulk),
            ("Ваш ответ", LaneOf::Dialogue(ids[0]), 1, vec![ids[0]], Priority::Urgent),
        ] {
            let settings = LaneSettings { max_parallel, rate: None, ambiguity: AmbiguityPolicy::ResendOnce };
            let lane_id = store.open_lane(workspace, of, settings).await.unwrap();
            let new = NewMessage {
                source: "test".into(),
                origin_id: format!("{words} {}", platform.as_str()),
                idempotency_key: None,
                payload: serde_json::to_value(Message::text(words)).unwrap(),
                content_hash: words.into(),
                hash_version: 1,
                fingerprint: None,
                kind: "other".into(),
                facts: json!({}),
                facts_version: 1,
                tags: Vec::new(),
                origin: json!({}),
                case_id: None,
                channels: Vec::new(),
                priority,
                run_at: None,
                skipped: None,
            };
            let message_id = store.enqueue(workspace, vec![new]).await.unwrap()[0].message_id;
            let new = ForRecipients { message_id, lane_id, recipients, priority, run_at: None };
            queued.extend(store.enqueue_for(workspace, new).await.unwrap().into_iter().map(Option::unwrap));
        }
    }
    queued
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_writes_to_people_on_all_three_platforms() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path()).await;
    let address = format!("sqlite:{}", folder.path().join("rupor.db").display());
    Store::migrate(&Address::parse(&address).unwrap()).await.unwrap();
    let store = world.open(&address).await;
    let workspace = store.create_workspace("Магазин").await.unwrap();
    let queued = furnish_people(&world, &store, workspace).await;
    drop(store);
    let node = world.node(&address).await;
    let store = Store::open_reading(&Address::parse(&address).unwrap(), world.keyring()).await.unwrap();
    for id in &queued {
        let started = Instant::now();
        loop {
            let delivery = store.delivery(workspace, *id).await.unwrap();
            if delivery.status.is_terminal() {
                assert_eq!(delivery.status, Status::Sent, "{delivery:#?}");
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{delivery:#?}\n{}", world.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    node.terminate();
    for platform in Name::ALL {
        let mut said: Vec<(String, String)> = Vec::new();
        for row in world.sandbox.core().ledger.rows(platform) {
            if let Some(text) = row.text.filter(|_| row.accepted) {
                said.push((row.chat.to_string(), text));
            }
        }
        let told = |words: &str| {
            let chats: Vec<&String> =
                said.iter().filter(|(_, text)| text == words).map(|(chat, _)| chat).collect();
            (chats.len(), chats.iter().collect::<BTreeSet<_>>().len())
        };
        assert_eq!(told("Скидки"), (3, 3), "{platform:?}: {said:?}");
        assert_eq!(told("Ваш ответ"), (1, 1), "{platform:?}: {said:?}");
    }
}
