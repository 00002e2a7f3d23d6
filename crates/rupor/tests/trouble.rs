//! A real node in trouble with its database: what it says, how long it takes to notice and to go on, and that nothing is lost.
//!
//! Posts are pushed all the while, each until it is accepted; the ledger of the sandbox is the judge: every accepted post is
//! visible once. Each test prints its row of the table in docs/operating.md:
//! `./test -p rupor --test trouble -- --nocapture --test-threads 1`

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sandbox::{Name, Sandbox};
use store::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[path = "../../store/tests/postgres/server.rs"]
#[allow(dead_code, reason = "the tests of the store need more of it")]
mod server;

/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(120);
/// A stop takes five seconds of draining and a moment; it was 45 seconds and more.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const SECRET: &str = "secret-of-the-site-0123456789abcdef";
const CONFIG: &str = r#"
preset = "mirror"
[accounts.bot]
platform = "telegram"
token = { env = "TROUBLE_TOKEN" }
[channels.news]
account = "bot"
target = -1009750000001
dedup = "off"
[endpoints.site]
kind = "push"
secret = { env = "TROUBLE_SECRET" }
rate = 1000
"#;

/// A node, its folder and what its readers see.
struct Stage {
    folder: tempfile::TempDir,
    sandbox: Sandbox,
    port: u16,
    node: Child,
    started: Instant,
    pushed: Arc<AtomicUsize>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

impl Stage {
    /// Starts a node; `through` wraps its command line, `DB` in it stands for the address.
    async fn start(database: Option<&str>, through: impl FnOnce(&Path) -> Vec<String>) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        std::fs::write(folder.path().join("rupor.toml"), CONFIG).unwrap();
        let port = server::free_port();
        let own = format!("sqlite:{}", folder.path().join("data/rupor.db").display());
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let mut words = through(folder.path());
        words.extend(
            [env!("CARGO_BIN_EXE_rupor"), "run", "--lease", "10s", "--drain", "5s", "--config", "rupor.toml"]
                .map(str::to_owned),
        );
        words.push("--listen".to_owned());
        words.push(format!("127.0.0.1:{port}"));
        let log = std::fs::File::create(folder.path().join("node.log")).unwrap();
        let node = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(folder.path())
            .env("RUPOR_DB", database.unwrap_or(&own))
            .env("RUPOR_KEY_FILE", folder.path().join("rupor.key"))
            .env("RUPOR_TELEGRAM_API", sandbox.base(Name::Telegram))
            .env("RUPOR_PLATFORM_LIMITS", "off")
            .env("TROUBLE_TOKEN", "424242:token-of-the-shelter")
            .env("TROUBLE_SECRET", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Stage { folder, sandbox, port, node, started: Instant::now(), pushed: Arc::default() }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("node.log")).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("data/rupor.db")
    }

    async fn ready(&self) -> (bool, String) {
        let answer = ask(self.port, "GET", "/readyz", "", "", Duration::from_secs(10)).await;
        answer.map_or((false, "no answer".into()), |(status, said)| (status == 200, said))
    }

    /// Waits for something about the node; how long that took.
    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
        let asked = Instant::now();
        while !is_so().await {
            assert!(asked.elapsed() < PATIENCE, "{what}: never\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        asked.elapsed()
    }

    /// Pushes posts, each until it is accepted, as long as nobody stops it; returns how many were accepted.
    fn push(&self) -> (Arc<AtomicBool>, tokio::task::JoinHandle<usize>) {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, port, n) = (Arc::clone(&stop), self.port, Arc::clone(&self.pushed));
        let pushing = async move {
            while !told.load(Ordering::SeqCst) {
                let k = n.load(Ordering::SeqCst);
                let (body, key) =
                    (format!(r#"{{"text": "post {k} end"}}"#), format!("Idempotency-Key: key-{k}\r\n"));
                let answer = ask(port, "POST", "/v1/ingest", &key, &body, Duration::from_secs(5)).await;
                if answer.is_some_and(|(status, _)| status == 202) {
                    n.fetch_add(1, Ordering::SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            n.load(Ordering::SeqCst)
        };
        (stop, tokio::spawn(pushing))
    }

    /// How often each post was shown.
    fn shown(&self) -> BTreeMap<String, usize> {
        let mut shown = BTreeMap::new();
        for row in self.sandbox.core().ledger.rows(Name::Telegram) {
            if let (true, Some(text)) = (row.accepted, &row.text) {
                *shown.entry(text.trim().to_owned()).or_default() += 1;
            }
        }
        shown
    }

    fn is_shown(&self, n: usize) -> bool {
        self.shown().contains_key(&format!("post {n} end"))
    }

    /// Makes trouble beside posts and ends it; prints what was seen.
    async fn trouble(&self, name: &str, says: &str, begin: impl AsyncFn(), end: impl AsyncFn()) {
        self.until("ready", async || self.ready().await.0).await;
        let (stop, pushing) = self.push();
        self.until("posts before", async || self.is_shown(3)).await;
        begin().await;
        let mut said = String::new();
        let noticed = self
            .until("noticed", async || {
                let (ready, words) = self.ready().await;
                said = words;
                !ready
            })
            .await;
        assert!(said.contains(says), "{name}: /readyz says {said:?}\n{}", self.log());
        // Prometheus hears of it from the node itself, ledger or no ledger.
        self.until("the metrics say it", async || {
            let told = ask(self.port, "GET", "/metrics", "", "", Duration::from_secs(9)).await;
            told.is_some_and(|(status, body)| status == 200 && body.contains("\nrupor_database_up 0.0\n"))
        })
        .await;
        // Long enough for the log to speak of it too.
        tokio::time::sleep(Duration::from_secs(5)).await;
        end().await;
        let again = self
            .until("goes on", async || {
                let next = self.pushed.load(Ordering::SeqCst);
                self.ready().await.0 && next > 0 && self.is_shown(next - 1)
            })
            .await;
        self.judge(name, &said, Some(noticed), again, (stop, pushing)).await;
    }

    /// Every accepted post is visible once.
    #[expect(clippy::print_stdout, reason = "the rows of the table are read by a person")]
    async fn judge(
        &self,
        name: &str,
        said: &str,
        noticed: Option<Duration>,
        again: Duration,
        (stop, pushing): (Arc<AtomicBool>, tokio::task::JoinHandle<usize>),
    ) {
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::SeqCst);
        let accepted = pushing.await.unwrap();
        self.until("every post", async || (0..accepted).all(|n| self.is_shown(n))).await;
        let twice: Vec<String> =
            self.shown().into_iter().filter(|(_, times)| *times > 1).map(|(text, _)| text).collect();
        assert!(twice.is_empty(), "{name}: shown twice: {twice:?}\n{}", self.log());
        let seconds = |span: Duration| format!("{:.1} s", span.as_secs_f64());
        println!(
            "| {name} | {} | {} | {} | 0 of {accepted} lost, 0 twice |",
            said.trim(),
            noticed.map_or("–".into(), seconds),
            seconds(again)
        );
    }
}

/// One request; `None`: nobody answered in time.
async fn ask(
    port: u16,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
    wait: Duration,
) -> Option<(u16, String)> {
    let talk = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {SECRET}\r\n\
             Content-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()))
    };
    tokio::time::timeout(wait, talk).await.ok().flatten()
}

/// A database of one's own on the shared server, with a connection beside it.
async fn database() -> (String, String, tokio_postgres::Client) {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_trouble_{}", uuid::Uuid::new_v4().simple());
    let Address::Postgres(admin) = Address::parse(&server).unwrap() else { panic!("{server}") };
    let admin = store::postgres::bare_connection(&admin).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (head, _) = server.rsplit_once('/').unwrap();
    (format!("{head}/{name}"), name, admin)
}

/// A wire to a server that can be told to carry nothing while it stays open, as when packets are dropped.
struct Wire {
    port: u16,
    /// Connections with a number below this carry nothing.
    frozen_below: Arc<watch::Sender<usize>>,
    opened: Arc<AtomicUsize>,
}

impl Wire {
    async fn to(server: &str) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (frozen_below, opened) = (Arc::new(watch::Sender::new(0)), Arc::<AtomicUsize>::default());
        let (frozen, counted, server) = (Arc::clone(&frozen_below), Arc::clone(&opened), server.to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let n = counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(carry(client, server.clone(), n, frozen.subscribe()));
            }
        });
        Wire { port, frozen_below, opened }
    }

    /// What is open carries nothing any more; what is opened from now on does.
    fn freeze(&self) {
        self.frozen_below.send_replace(self.opened.load(Ordering::SeqCst));
    }

    fn vanish(&self) {
        self.frozen_below.send_replace(usize::MAX);
    }

    fn come_back(&self) {
        self.frozen_below.send_replace(0);
    }
}

async fn carry(client: TcpStream, server: String, n: usize, mut frozen_below: watch::Receiver<usize>) {
    let _ = frozen_below.wait_for(|below| n >= *below).await;
    let Ok(server) = TcpStream::connect(&server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let both = async {
        tokio::select! {
            _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        }
    };
    tokio::select! {
        // Whoever thaws finds a wire that leads nowhere, as after a restart of a firewall.
        () = async { drop(frozen_below.wait_for(|below| n < *below).await) } => std::future::pending().await,
        () = both => {}
    }
}

/// `HOST:PORT` and the path of an address.
fn parts(url: &str) -> (String, String) {
    let rest = url.rsplit_once('@').unwrap().1;
    let (host, path) = rest.split_once('/').unwrap();
    (if host.contains(':') { host.to_owned() } else { format!("{host}:5432") }, path.to_owned())
}

fn plainly(_: &Path) -> Vec<String> {
    Vec::new()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_of_the_database_vanishes() {
    let (url, name, admin) = database().await;
    let (host, path) = parts(&url);
    let wire = Wire::to(&host).await;
    let stage =
        Stage::start(Some(&format!("postgres://postgres@127.0.0.1:{}/{path}", wire.port)), plainly).await;
    let says = "the database";
    stage
        .trouble("the host of the database vanishes", says, async || wire.vanish(), async || wire.come_back())
        .await;
    assert!(stage.log().contains("the database is well again"), "{}", stage.log());
    drop(stage);
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_stops_while_the_host_of_its_database_is_gone() {
    let (url, name, admin) = database().await;
    let (host, path) = parts(&url);
    let wire = Wire::to(&host).await;
    let mut stage =
        Stage::start(Some(&format!("postgres://postgres@127.0.0.1:{}/{path}", wire.port)), plainly).await;
    stage.until("ready", async || stage.ready().await.0).await;
    let (stop, pushing) = stage.push();
    stage.until("posts before", async || stage.is_shown(3)).await;
    wire.vanish();
    // Everything that asks the database hangs by now.
    stage.until("noticed", async || !stage.ready().await.0).await;
    let told = Command::new("kill").args(["-TERM", &stage.node.id().to_string()]).status().unwrap();
    assert!(told.success());
    let asked = Instant::now();
    while stage.node.try_wait().unwrap().is_none() {
        assert!(asked.elapsed() < STOP_PATIENCE, "it does not stop:\n{}", stage.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.store(true, Ordering::SeqCst);
    pushing.await.unwrap();
    drop(stage);
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_connections_freeze_and_new_ones_work() {
    let (url, name, admin) = database().await;
    let (host, path) = parts(&url);
    let wire = Wire::to(&host).await;
    let stage =
        Stage::start(Some(&format!("postgres://postgres@127.0.0.1:{}/{path}", wire.port)), plainly).await;
    stage.until("ready", async || stage.ready().await.0).await;
    let (stop, pushing) = stage.push();
    stage.until("posts before", async || stage.is_shown(3)).await;
    wire.freeze();
    let frozen = Instant::now();
    let before = stage.pushed.load(Ordering::SeqCst);
    // Nobody mends anything: it goes on by itself when what is silent has been dropped.
    let (mut noticed, mut said) = (None, String::from("nothing"));
    let again = stage
        .until("goes on", async || {
            let (ready, words) = stage.ready().await;
            if !ready && noticed.is_none() {
                (noticed, said) = (Some(frozen.elapsed()), words);
            }
            stage.is_shown(before + 2)
        })
        .await;
    stage.judge("open connections freeze", &said, noticed, again, (stop, pushing)).await;
    drop(stage);
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_several_hosts_swallows_everything() {
    let (url, name, admin) = database().await;
    let (host, path) = parts(&url);
    let black_hole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hosts = format!("127.0.0.1:{},{host}", black_hole.local_addr().unwrap().port());
    let stage = Stage::start(Some(&format!("postgres://postgres@{hosts}/{path}")), plainly).await;
    stage.until("ready", async || stage.ready().await.0).await;
    let again = stage.started.elapsed();
    let passed = stage.log().lines().find(|line| line.contains("passed over")).map(str::to_owned);
    let said = passed.unwrap_or_else(|| panic!("{}", stage.log()));
    let said = said.split("WARN").nth(1).unwrap_or("a database host is passed over").trim();
    let (stop, pushing) = stage.push();
    stage.until("posts", async || stage.is_shown(3)).await;
    stage.judge("the first of several hosts swallows everything", said, None, again, (stop, pushing)).await;
    drop(stage);
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_synchronous_standby_is_gone() {
    let server = server::Server::start("-c max_connections=60", |_| {});
    let Address::Postgres(address) = Address::parse(&server.url()).unwrap() else { unreachable!("a server") };
    let admin = store::postgres::bare_connection(&address).await.unwrap();
    admin.batch_execute("SET synchronous_commit = local").await.unwrap();
    let standby = async |names: &str| {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        admin.batch_execute(&set).await.unwrap();
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    };
    let stage = Stage::start(Some(&server.url()), plainly).await;
    let (begin, end) = (async || standby("nobody").await, async || standby("").await);
    stage.trouble("the synchronous standby is gone", "the database", begin, end).await;
    assert!(stage.log().contains("start the standby"), "{}", stage.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_may_only_be_read() {
    let (url, name, admin) = database().await;
    let stage = Stage::start(Some(&url), plainly).await;
    let set = async |yes: &str| {
        admin
            .batch_execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = {yes}"))
            .await
            .unwrap();
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
        admin.batch_execute(&end).await.unwrap();
    };
    let (begin, end) = (async || set("on").await, async || set("off").await);
    stage.trouble("the server may only be read", "the database cannot be written", begin, end).await;
    assert!(stage.log().contains("name the primary"), "{}", stage.log());
    drop(stage);
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

/// A limit on the size of files is what a disk that takes no more writes is to SQLite; it can be lifted while the node runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_takes_no_writes() {
    let through = |_: &Path| ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let stage = Stage::start(None, through).await;
    let limit = async |bytes: &str| {
        let pid = stage.node.id().to_string();
        let done = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status();
        assert!(done.unwrap().success(), "prlimit");
    };
    let (begin, end) = (async || limit("1024").await, async || limit("unlimited").await);
    stage.trouble("the file takes no writes", "the database cannot be written", begin, end).await;
}

/// A small disk of memory in a namespace of its own; it is filled from outside through `/proc`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_is_full() {
    let small = |folder: &Path| {
        let mount = format!("mount -t tmpfs -o size=40m none '{}/data' && exec \"$@\"", folder.display());
        ["unshare", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"].map(str::to_owned).to_vec()
    };
    let stage = Stage::start(None, small).await;
    let inside = PathBuf::from(format!("/proc/{}/root", stage.node.id()));
    let filler = inside.join(stage.folder.path().strip_prefix("/").unwrap()).join("data/filler");
    let fill = async || {
        // Until nothing more fits; what is smaller than a block fits a little longer.
        use std::io::Write;
        let mut file = std::fs::File::create(&filler).unwrap();
        for size in [1 << 20, 4096, 512] {
            while file.write_all(&vec![0_u8; size]).is_ok() {}
        }
    };
    let database = format!("sqlite:{}", filler.with_file_name("rupor.db").display());
    let verb = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_rupor"))
            .args(words)
            .env("RUPOR_DB", &database)
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}\n{}", stage.log());
    };
    let free = async || {
        // There is room for this one, whatever else is refused.
        verb(&["stop-all", "--reason", "the disk is full"]);
        std::fs::remove_file(&filler).unwrap();
        verb(&["release"]);
    };
    stage.trouble("the disk is full", "no space left", fill, free).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_is_deleted_and_put_back() {
    let stage = Stage::start(None, plainly).await;
    let aside = stage.file().with_extension("aside");
    let (begin, end) = (
        async || std::fs::rename(stage.file(), &aside).unwrap(),
        async || std::fs::rename(&aside, stage.file()).unwrap(),
    );
    stage.trouble("the file is deleted", "was deleted or replaced", begin, end).await;
}
