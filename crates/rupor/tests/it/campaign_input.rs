//! What people get wrong with lists and campaigns, by the binary and against a sandbox: each time the message names the
//! thing and the fix, nothing is half done, and nothing is sent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Name, Sandbox};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(300);

fn parsed(told: &str) -> Value {
    serde_json::from_str(told).unwrap()
}

pub(super) struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

pub(super) struct World {
    pub(super) folder: tempfile::TempDir,
    pub(super) sandbox: Sandbox,
}

impl World {
    pub(super) async fn new() -> World {
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let w = World { folder: tempfile::tempdir().unwrap(), sandbox };
        let base = w.sandbox.base(Name::Telegram);
        let account = |name: &str| {
            format!(
                "[accounts.{name}]\nplatform = \"telegram\"\ntoken = {{ env = \"{name}\" }}\napi_base = \"{base}\"\n"
            )
        };
        w.write("rupor.toml", format!("{}{}", account("shelter"), account("news")).as_bytes());
        w.well(&["apply", "rupor.toml", "--yes"]);
        w
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
        command.args(args).args(["--db", "sqlite:rupor.db"]).current_dir(self.folder.path());
        for (name, n) in [("shelter", 1), ("news", 2)] {
            command.env(name, format!("{n}:invented-token-of-a-bot-aaaaaaaaaaaaaa"));
        }
        command
    }

    /// What it says when it goes well.
    pub(super) fn well(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// It fails, and says all of this.
    pub(super) fn refused(&self, args: &[&str], expected: &[&str]) {
        let output = self.command(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} went well: {}", String::from_utf8_lossy(&output.stdout));
        for words in expected {
            assert!(told.contains(words), "{args:?}: no «{words}» in «{told}»");
        }
    }

    pub(super) fn import(&self, name: &str, bytes: &[u8]) -> Value {
        self.write(name, bytes);
        let told = self.well(&["audience", "import", name, "--account", "shelter", "--json"]);
        serde_json::from_str(&told).unwrap()
    }

    pub(super) fn rejected(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{name}.rejected"))).unwrap()
    }

    pub(super) fn audiences(&self) -> usize {
        let all: Value = serde_json::from_str(&self.well(&["audience", "list", "--json"])).unwrap();
        all.as_array().unwrap().len()
    }

    pub(super) fn state(&self, campaign: &str) -> Value {
        let told = self.well(&["campaign", "status", campaign, "--json"]);
        serde_json::from_str::<Value>(&told).unwrap()["state"].clone()
    }

    pub(super) fn new_campaign(&self, name: &str, text: &str, more: &[&str]) {
        let args = ["campaign", "new", name, "--account", "shelter", "--text", text];
        self.well(&[&args, more].concat());
    }

    pub(super) fn requests(&self) -> u64 {
        self.sandbox.core().ledger.received(Name::Telegram)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_wrong_is_told_with_the_fix_and_leaves_nothing_behind() {
    let w = World::new().await;
    let import = |name| ["audience", "import", name, "--account", "shelter"];

    // Another delimiter than spreadsheets use, and a first line that is not UTF-8.
    w.write("pipes.csv", "address|name\n1|Анна\n".as_bytes());
    w.refused(&import("pipes.csv"), &["pipes.csv", "commas, semicolons or tabs", "'|'"]);
    w.write("old.csv", b"address;\xe8\xec\xff\n101;\xc0\xed\xed\xe0\n");
    w.refused(&import("old.csv"), &["old.csv", "the first line is not UTF-8", "CSV UTF-8"]);
    w.write("people.xlsx", b"PK");
    w.refused(&import("people.xlsx"), &["people.xlsx", ".csv or .jsonl"]);
    w.write("ids.csv", "id,name\n101,Анна\n".as_bytes());
    w.refused(&import("ids.csv"), &["its columns are id, name", "--map address=COLUMN"]);
    w.refused(&["audience", "import", "ids.csv", "--account", "nobody"], &["nobody", "shelter"]);
    assert_eq!(w.audiences(), 0, "nothing is half done");

    // A byte order mark does no harm, an unknown column is an attribute, a person twice is one person.
    let done =
        w.import("people.csv", "\u{feff}address;name;любимец\n101;Анна;кот\n101;Анна;пёс\n".as_bytes());
    assert_eq!((&done["imported"], &done["updated"], &done["rejected"]), (&json!(1), &json!(1), &json!(0)));
    let shown = w.well(&["audience", "show", "people"]);
    assert!(shown.contains("пёс") && !shown.contains("кот"), "{shown}");

    // Lines that cannot be used, each with its reason; the others are taken in.
    let mut file = "address;name;time_zone\n".as_bytes().to_vec();
    for line in ["102;Пётр;Mars/Base", "@masha;Маша;", "+7 912 345-67-89;Игорь;", "1,23E+11;Вера;", "103;Ия"]
    {
        file.extend(format!("{line}\n").as_bytes());
    }
    file.extend(b"104;\xc0\xed\xed\xe0;\n105;OK;Europe/Moscow\n");
    let done = w.import("mixed.csv", &file);
    assert_eq!((&done["imported"], &done["rejected"]), (&json!(1), &json!(6)), "{done}");
    let rejected = w.rejected("mixed.csv");
    for words in [
        "row 1: \"Mars/Base\" is no time zone; write a name such as Europe/Moscow",
        "row 2: \"@masha\" is a name; bots know people by number",
        "row 3: \"+7 912 345-67-89\" is a phone",
        "row 4: \"1,23E+11\" was rounded by a spreadsheet, the id is lost; format the column as text",
        "row 5: 2 fields where the first line has 3; is the delimiter the same in every line?",
        "row 6: not UTF-8; save the file as \"CSV UTF-8\"",
    ] {
        assert!(rejected.contains(words), "no «{words}» in\n{rejected}");
    }
    assert_eq!(w.requests(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_is_killed_goes_on_where_it_stopped() {
    const LINES: usize = 60_000;
    const STEP: u64 = 5_000;
    let w = World::new().await;
    // A few lines cannot be used: one of the first step, and the last of all.
    let lines = (1..=LINES).map(|n| match n {
        10 | LINES => format!("@person{n};Анна\n"),
        _ => format!("{};Анна {n}\n", 100_000 + n),
    });
    w.write(
        "long.csv",
        ["address;name\n".to_owned()].into_iter().chain(lines).collect::<String>().as_bytes(),
    );
    let import = ["audience", "import", "long.csv", "--account", "shelter", "--json"];
    let mut first = Node(w.command(&import).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    let taken_in = || parsed(&w.well(&["audience", "list", "--json"]))[0]["people"].as_u64().unwrap_or(0);
    // More than a step, so that one that begins anew is told from one that goes on.
    while taken_in() <= STEP {
        assert!(begun.elapsed() < PATIENCE, "nobody is taken in");
    }
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let before = taken_in();
    assert!(before < LINES as u64 - 2, "it was to be killed in the middle: {before}");

    let done = parsed(&w.well(&import));
    assert_eq!((&done["rows"], &done["rejected"]), (&json!(LINES), &json!(2)), "{done}");
    assert_eq!(done["imported"].as_u64().unwrap() + done["updated"].as_u64().unwrap(), LINES as u64 - 2);
    // What became of the people of its last step was told to nobody; nobody else is read again.
    assert!(done["updated"].as_u64().unwrap() <= STEP, "{done}");
    assert_eq!(taken_in(), LINES as u64 - 2);
    let told = w.rejected("long.csv");
    let rows: Vec<&str> = told.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(rows, ["row 10", "row 60000"], "each of them is told once");
    assert_eq!(w.requests(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_wrong_is_told_with_the_fix_and_sends_nothing() {
    let w = World::new().await;
    let start = |name| ["campaign", "start", name, "--yes"];

    // Nobody to write to, an audience and a campaign that nobody made.
    w.new_campaign("empty", "Здравствуйте!", &[]);
    w.refused(&start("empty"), &["empty has nobody to write to", "rupor audience import"]);
    let unknown = ["campaign", "new", "x", "--account", "shelter", "--audience", "peple", "--text", "а"];
    w.refused(&unknown, &["audience \"peple\" is not known", "rupor audience import"]);
    w.refused(&start("nothing"), &["campaign \"nothing\" is not known", "known are empty"]);

    let done = w.import("people.csv", "address;name\n101;Анна\n102;\n".as_bytes());
    assert_eq!(done["imported"], 2);
    w.refused(&unknown, &["audience \"peple\" is not known", "known are people"]);

    // An attribute that nobody has: told by name, before and at the start.
    w.new_campaign("typo", "Здравствуйте, {{ r.nmae }}!", &[]);
    let preview = w.well(&["campaign", "preview", "typo"]);
    assert!(preview.contains("2 do not: missing attribute"), "{preview}");
    assert!(preview.contains("nobody hears the button «Отписаться» on shelter"), "{preview}");
    assert!(preview.contains("nobody has r.nmae; what is known of people is name"), "{preview}");
    w.refused(
        &start("typo"),
        &["nobody has r.nmae", "what is known of people is name", "campaign edit typo"],
    );
    w.refused(
        &["campaign", "new", "broken", "--account", "shelter", "--text", "{{ r.name"],
        &["cannot be filled in", "{{ r.name | default(\"друг\") }}"],
    );

    // In the past, and on a bot that is paused.
    w.new_campaign("autumn", "Здравствуйте, {{ r.name | default(\"друг\") }}!", &["--audience", "people"]);
    let past = ["campaign", "start", "autumn", "--yes", "--at", "2020-01-01T10:00+03:00"];
    w.refused(&past, &["campaign autumn: its start lies in the past", "a later time"]);
    w.refused(&["campaign", "start", "autumn", "--yes", "--at", "завтра"], &["2026-12-01"]);
    w.well(&["account", "pause", "shelter", "--why", "ремонт"]);
    w.refused(&start("autumn"), &["account shelter is paused (ремонт)", "rupor account resume shelter"]);
    w.well(&["account", "resume", "shelter"]);
    for name in ["empty", "typo", "autumn"] {
        assert_eq!(w.state(name), "draft", "{name}");
    }
    assert_eq!(w.requests(), 0, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_starts_are_one_and_who_never_started_the_bot_is_told_in_the_report() {
    let w = World::new().await;
    let stranger = json!({"platform": "telegram", "id": 102, "type": "private", "first_name": "Игорь", "not_started": true});
    assert!(w.sandbox.add_chat(&stranger).is_ok());
    w.import("people.csv", b"address\n101\n102\n");
    w.new_campaign("autumn", "Здравствуйте!", &[]);
    let _node = node(&w).await;
    // Both at the same moment.
    let both: Vec<Child> = (0..2)
        .map(|_| {
            let mut start = w.command(&["campaign", "start", "autumn", "--yes"]);
            start.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let told: Vec<_> = both.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let well = told.iter().filter(|output| output.status.success()).count();
    let words: String =
        told.iter().map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).collect();
    assert_eq!(well, 1, "{words}");
    // The second one came a little later, or in the very same moment.
    let late = words.contains("campaign autumn is") && words.contains("only a draft can be started");
    let same =
        words.contains("campaign autumn was changed by somebody else") && words.contains("campaign status");
    assert!(late || same, "{words}");
    let edit = ["campaign", "edit", "autumn", "--text", "другое"];
    w.refused(&edit, &["campaign autumn is", "only while it rests", "rupor campaign pause autumn"]);

    let begun = Instant::now();
    while w.state("autumn") != "finished" {
        assert!(begun.elapsed() < PATIENCE, "{}", w.well(&["campaign", "status", "autumn"]));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let report = w.well(&["campaign", "report", "autumn", "--json"]);
    let ends: Vec<Value> = report.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ends.len(), 2, "{report}");
    assert_eq!((&ends[0]["address"], &ends[0]["state"]), (&json!("101"), &json!("sent")), "{report}");
    assert_eq!((&ends[1]["address"], &ends[1]["state"]), (&json!("102"), &json!("failed")), "{report}");
    assert_eq!(ends[1]["code"], "never_started", "{report}");
    let csv = w.well(&["campaign", "report", "autumn", "--csv"]);
    let id = ends[0]["provider_message_id"].as_str().unwrap();
    let lines: Vec<&str> = csv.lines().map(|line| line.rsplit_once(',').unwrap().0).collect();
    let got = format!("101,shelter,sent,,{id}");
    let expected =
        ["address,account,state,code,provider_message_id", &got, "102,shelter,failed,never_started,"];
    assert_eq!(lines, expected, "{csv}");
    assert!(csv.lines().nth(1).unwrap().ends_with('Z'), "the time: {csv}");
    let rows = w.sandbox.core().ledger.rows(Name::Telegram);
    let sent = rows.iter().filter(|row| row.method == "sendMessage" && row.accepted).count();
    assert_eq!(sent, 1, "two starts are one");
}

pub(super) async fn node(w: &World) -> Node {
    let log = w.folder.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let node = Node(w.command(&["run"]).stdout(Stdio::null()).stderr(file).spawn().unwrap());
    let begun = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains("running") {
        assert!(begun.elapsed() < PATIENCE, "the node does not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node
}
