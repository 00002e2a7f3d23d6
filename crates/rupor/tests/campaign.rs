//! A campaign by real processes: people from files, three bots, nodes killed and the campaign paused on its way.
//! What is judged is the ledger of the sandbox and the report: everybody has exactly one end, who got it twice had an outcome
//! that nobody heard of, and nothing is received between the return of `pause` and `resume`.
//!
//! A short form is part of `./test`; the long one stands in CONTRIBUTING.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::prelude::*;
use sandbox::{Name, Sandbox};
use serde_json::{Value, json};
use store::{AccountSettings, Address, Clock, Keyring, NewAccount, Store};

/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(1_800);
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
        for n in 1..=3 {
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

    /// Those of whom it was once unknown whether they got it.
    async fn unknown(&self) -> HashSet<String> {
        let keyring = Keyring::at(&self.folder.join("rupor.key")).unwrap();
        let store =
            Store::open(&Address::parse(&self.address).unwrap(), keyring, Clock::system()).await.unwrap();
        let ws = store.workspaces().await.unwrap()[0].workspace_id;
        let words = store.campaigns(ws).await.unwrap()[0].variants[0].message_id;
        let all = store.deliveries_to_people(ws, words, usize::MAX >> 1).await.unwrap();
        let unknown = all.iter().filter(|one| one.counters.unknowns > 0);
        let ids: HashSet<_> = unknown.filter_map(|one| one.destination.recipient()).collect();
        let mut found = HashSet::new();
        for account in store.accounts(ws).await.unwrap() {
            let mut after = None;
            loop {
                let page = store.recipients(ws, account.account_id, after, 5_000).await.unwrap();
                let Some(last) = page.last() else { break };
                after = Some(last.recipient_id);
                found.extend(
                    page.into_iter().filter(|one| ids.contains(&one.recipient_id)).map(|one| one.address),
                );
            }
        }
        found
    }

    fn command(&self, args: &[&str]) -> Command {
        // A long run may use a copy, so that a build meanwhile does not exchange it.
        let binary = std::env::var("RUPOR_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_rupor").into());
        let mut command = Command::new(binary);
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

    /// Three files that share some people; one line of each cannot be used.
    fn import(&self, people: usize) -> usize {
        let third = people / 3;
        for (n, ids) in [(1, 0..third), (2, third - 5..2 * third), (3, 2 * third - 5..people)] {
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

/// What happens to a campaign on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Blow {
    Kill,
    Pause,
    /// Throws the server of the database off its feet.
    Fall,
}

/// Kills, pauses and falls in an order that the seed gives.
fn blows(dice: &mut StdRng, falls: usize) -> Vec<Blow> {
    let (kills, pauses) = (number("RUPOR_KILLS", 2), number("RUPOR_PAUSES", 1));
    let mut all = [vec![Blow::Kill; kills], vec![Blow::Pause; pauses], vec![Blow::Fall; falls]].concat();
    all.shuffle(dice);
    all
}

fn arm(w: &World) {
    // A few for certain, so that the short form meets each; in the long one they never end.
    for (times, kind) in [(3, "500"), (2, "429"), (2, "accept_then_reset")] {
        let fault = json!({"platform": "telegram", "method": "sendMessage", "kind": kind, "times": times, "retry_after": 1});
        assert!(w.sandbox.arm(&fault).is_ok());
    }
    if std::env::var_os("RUPOR_PEOPLE").is_none() {
        return;
    }
    for (kind, probability) in [
        ("502", 0.01),
        ("reset_before_read", 0.004),
        ("accept_then_500", 0.002),
        ("429", 0.0005),
        ("blocked", 0.002),
    ] {
        let fault = json!({"platform": "telegram", "method": "sendMessage", "kind": kind, "probability": probability, "retry_after": 1});
        assert!(w.sandbox.arm(&fault).is_ok());
    }
}

#[expect(clippy::print_stderr, reason = "a long run says how far it is")]
async fn a_campaign_through_kills_and_pauses(address: String, folder: &Path, nodes: usize, falls: usize) {
    let mut dice = StdRng::seed_from_u64(number("RUPOR_SEED", 18) as u64);
    let w = World::new(address, folder).await;
    let people = w.import(number("RUPOR_PEOPLE", 240));
    w.tell(&["audience", "suppress", &FIRST.to_string(), "--account", "bot1"]).unwrap();
    w.tell(&["campaign", "new", "осень", "--account", "bot1,bot2,bot3", "--text", TEXT]).unwrap();
    let preview = w.json(&["campaign", "preview", "осень"]);
    assert_eq!(preview["audience"], people - 1, "{preview}");
    assert_eq!(preview["excluded"], json!({"suppressed": 1}));
    assert!(preview["samples"].to_string().contains("Здравствуйте, друг!"), "{preview}");
    assert!(preview["duration_s"].as_f64().unwrap() > 0.0);
    arm(&w);
    let mut running = Vec::new();
    for _ in 0..nodes {
        running.push(w.node().await);
    }
    w.tell(&["campaign", "start", "осень", "--yes"]).unwrap();
    assert!(
        w.tell(&["campaign", "start", "осень", "--yes"]).unwrap_err().contains("only a draft can be started")
    );
    let edit = ["campaign", "edit", "осень", "--text", "другое"];
    assert!(w.tell(&edit).unwrap_err().contains("campaign pause"), "an edit while it runs");
    let blows = blows(&mut dice, falls);
    for (n, blow) in blows.iter().enumerate() {
        let goal = (people * (n + 1) / (blows.len() + 2)) as u64;
        w.wait("nothing is sent", || w.received() >= goal).await;
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..300))).await;
        eprintln!("{} received: {blow:?} {} of {}", w.received(), n + 1, blows.len());
        match blow {
            Blow::Kill => {
                drop(running.remove(dice.random_range(0..running.len())));
                running.push(w.node().await);
            }
            Blow::Fall => assert!(restart_server(), "the server does not come back"),
            Blow::Pause => {
                let paused = w.json(&["campaign", "pause", "осень"]);
                let received = w.received();
                assert_eq!((&paused["state"], &paused["in_flight"]), (&json!("paused"), &json!(0)));
                if dice.random_range(0..2) == 0 {
                    drop(running.remove(0));
                    running.push(w.node().await);
                }
                tokio::time::sleep(Duration::from_millis(dice.random_range(0..1_500))).await;
                assert_eq!(w.status()["state"], "paused");
                assert_eq!(w.received(), received, "something was received after the pause");
                w.tell(&["campaign", "resume", "осень"]).unwrap();
            }
        }
    }
    w.wait("it does not finish", || w.status()["state"] == "finished").await;
    drop(running);
    judge(&w, people).await;
}

/// `false` where nobody said how.
fn restart_server() -> bool {
    std::env::var("RUPOR_TEST_POSTGRES_RESTART")
        .is_ok_and(|script| Command::new(script).status().unwrap().success())
}

#[expect(clippy::print_stderr, reason = "the figures of a long run are read by a person")]
async fn judge(w: &World, people: usize) {
    let status = w.status();
    assert_eq!(status["total"], people, "{status}");
    assert_eq!(status["excluded"], 1, "{status}");
    let report = w.tell(&["campaign", "report", "осень", "--json"]).unwrap();
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for line in report.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (who, state) = (line["address"].as_str().unwrap(), line["state"].as_str().unwrap());
        assert_eq!(seen.insert(who.into(), state.into()), None, "{who} has two ends");
        let code = line["code"].as_str().unwrap_or_default();
        let told = if state == "sent" { state.to_owned() } else { format!("{state} {code}") };
        *states.entry(told).or_default() += 1;
    }
    assert_eq!(seen.len(), people);
    assert!(
        seen.values().all(|end| matches!(end.as_str(), "sent" | "dead" | "gone" | "excluded")),
        "{states:?}"
    );
    let unknown = w.unknown().await;
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    for row in w.sandbox.core().ledger.rows(Name::Telegram) {
        if row.method == "sendMessage" && row.accepted {
            let chat = row.chat.as_str().map_or_else(|| row.chat.to_string(), str::to_owned);
            *copies.entry(chat).or_default() += 1;
        }
    }
    for (who, state) in &seen {
        let n = copies.get(who).copied().unwrap_or(0);
        // One request more than outcomes that nobody heard of, and the policy of the platform sends once more at most.
        let most = 1 + usize::from(unknown.contains(who));
        match state.as_str() {
            "excluded" => assert_eq!(n, 0, "{who} was suppressed"),
            "sent" => assert!((1..=most).contains(&n), "{who} got {n} copies"),
            "gone" => assert!(n < most, "{who} blocked the bot and got {n} copies"),
            _ => assert!(n <= most, "{who} got {n} copies"),
        }
    }
    let twice = copies.values().filter(|n| **n > 1).count();
    eprintln!(
        "{people} people: {states:?}, unknown outcomes {}, twice {twice}, requests {}",
        unknown.len(),
        w.received()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_on_sqlite_is_killed_and_paused_and_everybody_has_one_end() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("rupor.db").display());
    a_campaign_through_kills_and_pauses(address, folder.path(), 1, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_on_postgres_is_killed_and_paused_and_everybody_has_one_end() {
    let server = std::env::var("RUPOR_TEST_POSTGRES_DURABLE").expect("`./test` starts a durable server");
    let name = format!("rupor_{}", uuid::Uuid::new_v4().simple());
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let mut url = url::Url::parse(&server).unwrap();
    url.set_path(&name);
    let folder = tempfile::tempdir().unwrap();
    let falls = number("RUPOR_FALLS", 0);
    a_campaign_through_kills_and_pauses(url.to_string(), folder.path(), 2, falls).await;
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
    std::fs::write(folder.path().join("rupor.toml"), &config).unwrap();
    std::fs::write(folder.path().join("people.csv"), block(page, "csv", 0)).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_rupor"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(folder.path()).env("PATH", &path).env("RUPOR_LOG", "info");
        command
    };
    let tokens = block(page, "sh", 1);
    let [apply, run] = [0, 1].map(|n| block(page, "sh", 2).lines().nth(n).unwrap());
    assert!(shell(&format!("{tokens}\n{apply}")).status().unwrap().success());
    let node =
        Node(shell(&format!("exec {run}")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let socket = folder.path().join("rupor.db.sock");
    let begun = Instant::now();
    while !socket.exists() {
        assert!(begun.elapsed() < PATIENCE, "the node does not start");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let script = block(page, "sh", 3).to_owned();
    let output = tokio::task::block_in_place(|| shell(&script).output().unwrap());
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert!(told.contains("3 new, 0 known before, 1 rejected"), "{told}");
    assert!(told.contains("is finished: 3 of 3 sent"), "{told}");
    assert!(told.contains("nobody hears the button «Отписаться» on news, shelter"), "{told}");
    // With the rules of the page the button is heard.
    std::fs::write(folder.path().join("listen.toml"), block(page, "toml", 1)).unwrap();
    let bot = "[bots.shelter]\naccounts = [\"shelter\", \"news\"]\nrules = \"listen.toml\"\n";
    std::fs::write(folder.path().join("rupor.toml"), format!("{config}\n{bot}")).unwrap();
    let again = tokio::task::block_in_place(|| shell(&format!("{tokens}\n{apply}")).output().unwrap());
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let messages = sandbox.core().chats.messages(Name::Telegram, "700101");
    let stop = messages.iter().flat_map(|message| message.buttons.iter().flatten()).next().unwrap();
    assert_eq!(stop.text, "Отписаться");
    assert!(sandbox.inject(Name::Telegram, stop.press.as_ref().unwrap()).is_ok());
    let begun = Instant::now();
    let count = || tokio::task::block_in_place(|| shell("rupor audience count people").output().unwrap());
    while !String::from_utf8_lossy(&count().stdout).contains("3 people, 2 of them may be written to") {
        assert!(begun.elapsed() < PATIENCE, "the press is not heard: {:?}", count());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(node);
    let rejected = std::fs::read_to_string(folder.path().join("people.csv.rejected")).unwrap();
    assert!(rejected.contains("@masha") && rejected.contains("is a name"), "{rejected}");
    let rows = sandbox.core().ledger.rows(Name::Telegram);
    let texts: Vec<&str> =
        rows.iter().filter(|row| row.accepted).filter_map(|row| row.text.as_deref()).collect();
    let all = texts.join("\n");
    assert!(all.contains("Здравствуйте, Анна!") && all.contains("Здравствуйте, друг!"), "{all}");
}
