//! A campaign by real processes: people from a file, two bots, the node killed and the campaign paused in the middle.
//! What is judged is the ledger of the sandbox and the report: everybody has exactly one end, and nothing is received
//! between the return of `pause` and `resume`.
//!
//! A short form is part of `./test`. The long one:
//! `RUPOR_PEOPLE=100000 RUPOR_KILLS=50 ./test -p rupor --release --test campaign -- --nocapture`

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Name, Sandbox};
use serde_json::{Value, json};
use store::{AccountSettings, Address, Clock, Keyring, NewAccount, Store};

/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(600);
/// The ids of the first bot's people begin here; some are the second one's too.
const FIRST: usize = 500_000;

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

struct World {
    address: String,
    folder: PathBuf,
    sandbox: Sandbox,
}

struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl World {
    async fn new(address: String, folder: &Path) -> World {
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let parsed = Address::parse(&address).unwrap();
        Store::migrate(&parsed).await.unwrap();
        let keyring = Keyring::at(&folder.join("rupor.key")).unwrap();
        let store = Store::open(&parsed, keyring, Clock::system()).await.unwrap();
        let ws = store.create_workspace("Приют").await.unwrap();
        for n in 1..=2 {
            let new = NewAccount {
                platform: "telegram".into(),
                name: format!("bot{n}"),
                token: secrecy::SecretString::from(format!("4{n}:token-of-the-shelter")),
                settings: AccountSettings {
                    rate: Some(number("RUPOR_RATE", 60) as f64),
                    api_base: Some(sandbox.base(Name::Telegram).into()),
                    ..AccountSettings::default()
                },
            };
            store.create_account(ws, new).await.unwrap();
        }
        World { address, folder: folder.to_owned(), sandbox }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
        command.args(args).args(["--db", &self.address]);
        command.envs([("RUPOR_KEY_FILE", self.folder.join("rupor.key"))]);
        command.envs([("RUPOR_PLATFORM_LIMITS", "off"), ("RUPOR_LEASE", "2s"), ("RUPOR_LOG", "info")]);
        command
    }

    fn tell(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned());
        if output.status.success() { Ok(out) } else { Err(err) }
    }

    fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["--json"]].concat();
        serde_json::from_str(&self.tell(&args).unwrap_or_else(|problem| panic!("{args:?}: {problem}")))
            .unwrap()
    }

    async fn node(&self) -> Node {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let before = self.starts();
        let child = self.command(&["run"]).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let node = Node(child);
        self.wait("the node does not start", || self.starts() > before).await;
        node
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn starts(&self) -> usize {
        self.log().lines().filter(|line| line.contains("running") && line.contains("run=")).count()
    }

    async fn wait(&self, problem: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{problem}; {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn received(&self) -> u64 {
        self.sandbox.core().ledger.received(Name::Telegram)
    }

    fn status(&self) -> Value {
        let status = self.json(&["campaign", "status", "осень"]);
        let parts = ["waiting", "queued", "in_flight", "sent", "failed", "dead", "excluded"];
        let sum: i64 = parts.iter().map(|key| status[key].as_i64().unwrap()).sum();
        assert_eq!(status["total"], sum, "{status}");
        status
    }

    /// Two files that share some people; one line of each cannot be used.
    fn import(&self, people: usize) -> usize {
        let half = people / 2;
        for (n, ids) in [(1, 0..half), (2, half - 5..people)] {
            let path = self.folder.join(format!("people{n}.csv"));
            let mut file = String::from("\u{feff}address;name;time_zone\r\n");
            let count = ids.len();
            for id in ids {
                let name = if id % 3 == 0 { "" } else { "Анна" };
                file += &format!("{};{name};Europe/Moscow\r\n", FIRST + id);
            }
            file += "1,23E+11;Пётр;\r\n";
            std::fs::write(&path, file).unwrap();
            let account = format!("bot{n}");
            let done = self.json(&["audience", "import", path.to_str().unwrap(), "--account", &account]);
            assert_eq!(done["rows"], count + 1, "{done}");
            assert_eq!(
                (&done["imported"], &done["updated"], &done["rejected"]),
                (&json!(count), &json!(0), &json!(1))
            );
            let rejected = std::fs::read_to_string(done["rejects_file"].as_str().unwrap()).unwrap();
            assert!(rejected.contains("rounded by a spreadsheet"), "{rejected}");
        }
        people
    }
}

const TEXT: &str = "Здравствуйте, {{ r.name | default(\"друг\") }}! В субботу день открытых дверей.";

async fn a_campaign_through_kills_and_pauses(address: String, folder: &Path) {
    let w = World::new(address, folder).await;
    let people = w.import(number("RUPOR_PEOPLE", 240));
    w.tell(&["audience", "suppress", &FIRST.to_string(), "--account", "bot1"]).unwrap();
    w.tell(&["campaign", "new", "осень", "--account", "bot1,bot2", "--text", TEXT]).unwrap();
    let preview = w.json(&["campaign", "preview", "осень"]);
    assert_eq!(preview["audience"], people - 1, "{preview}");
    assert_eq!(preview["excluded"], json!({"suppressed": 1}));
    assert!(preview["samples"].to_string().contains("Здравствуйте, друг!"), "{preview}");
    assert!(preview["duration_s"].as_f64().unwrap() > 0.0);
    for (times, kind) in [(3, "500"), (2, "429"), (2, "accept_then_reset")] {
        let fault = json!({"platform": "telegram", "method": "sendMessage", "kind": kind, "times": times, "retry_after": 1});
        assert!(w.sandbox.arm(&fault).is_ok());
    }
    let mut node = w.node().await;
    w.tell(&["campaign", "start", "осень", "--yes"]).unwrap();
    assert!(
        w.tell(&["campaign", "start", "осень", "--yes"]).unwrap_err().contains("only a draft can be started")
    );
    let edit = ["campaign", "edit", "осень", "--text", "другое"];
    assert!(w.tell(&edit).unwrap_err().contains("campaign pause"), "an edit while it runs");
    let kills = number("RUPOR_KILLS", 2);
    for kill in 0..kills {
        let goal = (people * (kill + 1) / (kills + 2)) as i64;
        w.wait("nothing is sent", || w.status()["sent"].as_i64().unwrap() >= goal).await;
        if kill == 0 {
            let paused = w.json(&["campaign", "pause", "осень"]);
            let received = w.received();
            assert_eq!((&paused["state"], &paused["in_flight"]), (&json!("paused"), &json!(0)));
            drop(node);
            node = w.node().await;
            assert_eq!(w.status()["state"], "paused");
            assert_eq!(w.received(), received, "something was received after the pause");
            w.tell(&["campaign", "resume", "осень"]).unwrap();
        } else {
            drop(node);
            node = w.node().await;
        }
    }
    w.wait("it does not finish", || w.status()["state"] == "finished").await;
    drop(node);
    judge(&w, people);
}

#[expect(clippy::print_stderr, reason = "the figures of a long run are read by a person")]
fn judge(w: &World, people: usize) {
    let status = w.status();
    assert_eq!(status["total"], people, "{status}");
    assert_eq!((&status["excluded"], &status["failed"]), (&json!(1), &json!(0)), "{status}");
    let report = w.tell(&["campaign", "report", "осень", "--json"]).unwrap();
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for line in report.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (who, state) = (line["address"].as_str().unwrap(), line["state"].as_str().unwrap());
        assert_eq!(seen.insert(who.into(), state.into()), None, "{who} has two ends");
        *states.entry(state.into()).or_default() += 1;
    }
    assert_eq!(seen.len(), people);
    assert_eq!(states.get("excluded"), Some(&1), "{states:?}");
    let ended = states.get("sent").copied().unwrap_or(0) + states.get("dead").copied().unwrap_or(0);
    assert_eq!(ended, people - 1, "{states:?}");
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    for row in w.sandbox.core().ledger.rows(Name::Telegram) {
        if row.method == "sendMessage" && row.accepted {
            let chat = row.chat.as_str().map_or_else(|| row.chat.to_string(), str::to_owned);
            *copies.entry(chat).or_default() += 1;
        }
    }
    for (who, state) in &seen {
        let n = copies.get(who).copied().unwrap_or(0);
        match state.as_str() {
            "excluded" => assert_eq!(n, 0, "{who} was suppressed"),
            "sent" => assert!((1..=2).contains(&n), "{who} got {n} copies"),
            _ => assert!(n <= 2, "{who} got {n} copies"),
        }
    }
    let twice = copies.values().filter(|n| **n > 1).count();
    eprintln!("{people} people: {states:?}, twice {twice}, requests {}", w.received());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_on_sqlite_is_killed_and_paused_and_everybody_has_one_end() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("rupor.db").display());
    a_campaign_through_kills_and_pauses(address, folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_on_postgres_is_killed_and_paused_and_everybody_has_one_end() {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_{}", uuid::Uuid::new_v4().simple());
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let mut url = url::Url::parse(&server).unwrap();
    url.set_path(&name);
    let folder = tempfile::tempdir().unwrap();
    a_campaign_through_kills_and_pauses(url.to_string(), folder.path()).await;
    client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

/// A block of the page, by its language and number.
fn block<'a>(page: &'a str, language: &str, n: usize) -> &'a str {
    page.split(&format!("```{language}\n")).nth(n + 1).and_then(|rest| rest.split("```").next()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_takes_a_newcomer_from_a_list_to_a_finished_campaign() {
    let page = include_str!("../../../docs/campaigns.md");
    let folder = tempfile::tempdir().unwrap();
    let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
    let sandbox = Sandbox::start(options).await.unwrap();
    let config = block(page, "toml", 0).replace("http://127.0.0.1:7900", sandbox.origin());
    std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
    std::fs::write(folder.path().join("people.csv"), block(page, "csv", 0)).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_rupor"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(folder.path()).env("PATH", &path).env("RUPOR_LOG", "info");
        command
    };
    let [tokens, apply, run] = [0, 1, 2].map(|n| block(page, "sh", 1).lines().nth(n).unwrap());
    assert!(shell(&format!("{tokens}\n{apply}")).status().unwrap().success());
    let node =
        Node(shell(&format!("exec {run}")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let socket = folder.path().join("rupor.db.sock");
    let begun = Instant::now();
    while !socket.exists() {
        assert!(begun.elapsed() < PATIENCE, "the node does not start");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let script = block(page, "sh", 2).to_owned();
    let output = tokio::task::block_in_place(|| shell(&script).output().unwrap());
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert!(told.contains("3 new, 0 known before, 1 rejected"), "{told}");
    assert!(told.contains("is finished: 3 of 3 sent"), "{told}");
    drop(node);
    let rejected = std::fs::read_to_string(folder.path().join("people.csv.rejected")).unwrap();
    assert!(rejected.contains("@masha") && rejected.contains("is a name"), "{rejected}");
    let rows = sandbox.core().ledger.rows(Name::Telegram);
    let texts: Vec<&str> =
        rows.iter().filter(|row| row.accepted).filter_map(|row| row.text.as_deref()).collect();
    let all = texts.join("\n");
    assert!(all.contains("Здравствуйте, Анна!") && all.contains("Здравствуйте, друг!"), "{all}");
}
