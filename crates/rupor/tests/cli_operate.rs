//! The operator's commands as processes: on a file of their own, and beside a running node.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use sandbox::{Name, Options, Sandbox};
use serde_json::{Value, json};

/// A folder with a configuration, a database to be, and a sandbox to send to.
struct Place {
    folder: tempfile::TempDir,
    sandbox: Sandbox,
}

const TOKEN: &str = "7700:AAF-canary_0123456789abcdef";
const FILE: &str = r#"
[accounts.bot]
platform = "telegram"
token = { env = "TG_TOKEN" }

[channels.lost]
account = "bot"
target = -1001234567890
preset = "mirror"

[channels.found]
account = "bot"
target = -1001234567891
"#;

impl Place {
    async fn new() -> Place {
        let sandbox = Sandbox::start(Options { any_token: true, ..Options::default() }).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rupor.toml"), FILE).unwrap();
        Place { folder, sandbox }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
        command.args(arguments).current_dir(self.path()).env_clear().env("TG_TOKEN", TOKEN);
        command.env("RUPOR_TELEGRAM_API", self.sandbox.base(Name::Telegram));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command on a thread of its own, so that the sandbox goes on answering.
    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// What a command that has to succeed says.
    async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat()).await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments:?}: {text}"))
    }

    async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A node that ends with the test.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_shows_a_plan_makes_the_database_and_then_has_nothing_to_do() {
    let place = Place::new().await;
    let unread = place.refused(&["apply", "--dry-run"]).await;
    assert!(unread.contains("there is no database at"), "{unread}");
    let said = place.ok(&["apply"]).await;
    assert!(said.contains("create  channel   default/lost: -1001234567890 on bot"), "{said}");
    assert!(said.ends_with("done: 4 steps\n"), "{said}");
    assert_eq!(place.ok(&["apply"]).await, "nothing to do\n");
    assert!(!said.contains("canary"), "{said}");
    let file = std::fs::read(place.path().join("rupor.db")).unwrap();
    assert!(!String::from_utf8_lossy(&file).contains("canary"), "tokens are sealed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_left_the_file_goes_only_with_yes() {
    let place = Place::new().await;
    place.ok(&["apply"]).await;
    let less = FILE.split("[channels.found]").next().unwrap();
    std::fs::write(place.path().join("rupor.toml"), less).unwrap();
    let refused = place.refused(&["apply"]).await;
    assert!(refused.contains("1 channel would be removed") && refused.contains("--yes"), "{refused}");
    assert_eq!(place.json(&["channel", "list"]).await.as_array().unwrap().len(), 2);
    let done = place.json(&["apply", "--yes"]).await;
    assert_eq!((&done["applied"], &done["steps"][0]["verb"]), (&json!(true), &json!("remove")));
    assert_eq!(place.json(&["channel", "list"]).await.as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typo_names_file_line_and_the_known_keys() {
    let place = Place::new().await;
    std::fs::write(place.path().join("rupor.toml"), FILE.replace("preset", "prset")).unwrap();
    let refused = place.refused(&["apply"]).await;
    assert!(
        refused.starts_with(
            "rupor: rupor.toml:9: unknown key `prset`; did you mean `preset`? known are `account`"
        ),
        "{refused}"
    );
    assert!(!place.path().join("rupor.db").exists(), "bad input changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_node_commands_change_the_file_themselves() {
    let place = Place::new().await;
    place.ok(&["apply"]).await;
    let said = place.ok(&["channel", "pause", "lost", "--why", "ремонт"]).await;
    assert_eq!(
        said,
        "channel lost is paused until it is resumed; its queue is kept\n$ rupor channel resume lost\n"
    );
    let status = place.ok(&["status"]).await;
    assert!(status.contains("no node is running") && status.contains("$ rupor run"), "{status}");
    assert!(status.contains("an operator paused it: ремонт"), "{status}");
    place.ok(&["channel", "resume", "lost"]).await;
    place.ok(&["stop-all", "--reason", "проверка"]).await;
    assert_eq!(place.json(&["status"]).await[0]["held"], "проверка");
    assert_eq!(place.ok(&["release"]).await, "Sending goes on for everything\n");
    let events = place.ok(&["events", "--name", "channel_paused"]).await;
    assert!(events.contains("channel_paused") && events.contains("ремонт"), "{events}");
    let unknown = place.refused(&["channel", "pause", "lots"]).await;
    assert_eq!(unknown, "rupor: channel \"lots\" is not known; known are found, lost\n");
    let everything = place.refused(&["delivery", "requeue"]).await;
    assert!(everything.contains("which ones?"), "{everything}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_is_green_against_the_sandbox_and_red_with_a_wrong_target() {
    let place = Place::new().await;
    place.ok(&["apply"]).await;
    let said = place.ok(&["check"]).await;
    assert!(said.contains("ok   account bot: telegram as @"), "{said}");
    assert!(said.contains("ok   channel lost: -1001234567890"), "{said}");
    std::fs::write(place.path().join("wrong.toml"), FILE.replace("-1001234567891", "\"@nobody_at_all\""))
        .unwrap();
    let wrong = place.run(&["check", "wrong.toml"]).await;
    let said = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.contains("FAIL channel found: @nobody_at_all: Bad Request: chat not found"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_running_node_commands_look_and_have_it_change_things() {
    let place = Place::new().await;
    place.ok(&["apply"]).await;
    let mut command = place.command(&["run"]);
    let node = Node(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let mut tries = 0..200;
    while place.json(&["status"]).await[0]["node"] != true {
        assert!(tries.next().is_some(), "the node does not come up");
    }
    let before = std::fs::read(place.path().join("rupor.key")).unwrap();
    assert_eq!(place.json(&["key", "rotate", "--reason", "учения"]).await, json!({"accounts": 1}));
    assert_ne!(std::fs::read(place.path().join("rupor.key")).unwrap(), before);
    let queued = place.json(&["channel", "test", "lost", "--send", "Проверка связи"]).await;
    let id = queued["queued"]["delivery_id"].to_string();
    let mut tries = 0..200;
    while place.json(&["delivery", "show", &id]).await["delivery"]["status"] != "sent" {
        assert!(tries.next().is_some(), "{}", place.ok(&["delivery", "show", &id]).await);
    }
    let shown = place.ok(&["delivery", "show", &id]).await;
    assert!(shown.starts_with(&format!("delivery {id} was sent as message ")), "{shown}");
    let said = place.json(&["channel", "disable", "found"]).await;
    assert_eq!(said, json!({"channel": "found", "enabled": false}));
    let refused = place.refused(&["channel", "disable", "нет"]).await;
    assert!(refused.contains("known are"), "{refused}");
    let events = place.ok(&["events", "--name", "config_changed"]).await;
    let rotated = events.lines().find(|line| line.contains("rotated")).unwrap();
    assert!(rotated.contains("user ") && rotated.contains("учения"), "{rotated}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(place.path().join("rupor.db.sock")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    drop(node);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quick_start_runs_from_variables_alone() {
    let place = Place::new().await;
    let mut command = place.command(&["run"]);
    command.env("TG_ENABLED", "true").env("TG_CHAT", "-1001234567890");
    let node = Node(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let mut tries = 0..200;
    while !place.run(&["channel", "show", "telegram"]).await.status.success() {
        assert!(tries.next().is_some(), "the channel does not appear");
    }
    let channels = place.json(&["channel", "list"]).await;
    assert_eq!(channels[0]["target"], "-1001234567890");
    drop(node);
    let mut wrong = place.command(&["run"]);
    wrong.env("TG_ENABLED", "true").env("TG_CHAT", "чат");
    let ended = tokio::task::spawn_blocking(move || wrong.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        said.contains("TG_CHAT: \"чат\" cannot be used; write @name of a public channel, or the numeric id"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_says_where_it_goes_and_a_mistake_what_to_do() {
    let place = Place::new().await;
    let early = place.refused(&["post", "Привет"]).await;
    assert!(early.contains("there is no database at"), "{early}");
    place.ok(&["apply"]).await;
    let said = place.ok(&["post", "Ярмарка в субботу", "--channel", "lost"]).await;
    assert!(said.starts_with("post 1 (") && said.contains("  lost: queued (delivery 1)"), "{said}");
    assert!(said.contains("no node is running"), "{said}");
    let nobody = place.json(&["post", "Ещё ярмарка", "--kind", "news", "--channel", "found"]).await;
    assert_eq!((&nobody["kind"], &nobody["deliveries"][0]["channel"]), (&json!("news"), &json!("found")));
    for (arguments, problem) in [
        (&["post", "a", "--channel", "lots"][..], "channel \"lots\" is not known; known are found, lost"),
        (&["post"], "nothing to post: give a text, --title or --photo FILE"),
        (&["post", "a", "--photo", "нет.jpg"], "--photo нет.jpg: cannot be opened"),
        (&["post", "a", "--photo", "rupor.toml"], "rupor.toml: not a jpeg, png"),
        (&["post", "a", "--url", "vk"], "--url must be an http or https address"),
        (&["import", "нет.jsonl"], "cannot open нет.jsonl"),
        (&["import", "."], ". is not a file"),
        (&["import", "rupor.toml"], "no line is a post"),
    ] {
        let said = place.refused(arguments).await;
        assert!(said.contains(problem), "{arguments:?}: {said}");
    }
    place.ok(&["channel", "disable", "lost"]).await;
    let shut = place.refused(&["post", "a", "--channel", "lost"]).await;
    assert!(
        shut.contains("takes no posts: it is disabled") && shut.contains("channel enable lost"),
        "{shut}"
    );
    let usage = place.run(&["post", "a", "--kind", "lots"]).await;
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("known are lost, found"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_and_a_photo_go_through_the_running_node() {
    let place = Place::new().await;
    place.ok(&["apply"]).await;
    let mut command = place.command(&["run"]);
    let node = Node(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let mut tries = 0..200;
    while place.json(&["status"]).await[0]["node"] != true {
        assert!(tries.next().is_some(), "the node does not come up");
    }
    // The configuration was written a moment ago.
    let now = std::fs::metadata(place.path().join("rupor.toml")).unwrap().modified().unwrap();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let line =
        |id: u64| json!({"owner_id": -5, "post_id": id, "date": now - 60, "text": format!("Новость {id}")});
    let mut lines: Vec<String> = (1..=450).map(|id| line(id).to_string()).collect();
    lines.insert(3, "это не пост".to_owned());
    std::fs::write(place.path().join("wall.jsonl"), lines.join("\n")).unwrap();
    let done = place.json(&["import", "wall.jsonl"]).await;
    assert_eq!((&done["seen"], &done["stored"], &done["bad_lines"]), (&json!(450), &json!(450), &json!(1)));
    assert_eq!(done["enqueued"], 450, "the mirror takes everything, the other only what is lost");
    let again = place.ok(&["import", "wall.jsonl"]).await;
    assert!(
        again.starts_with("450 posts read: 0 new, 0 of them not published; 0 queued to channels\n"),
        "{again}"
    );
    assert!(again.contains("passed over: ") && again.contains("not a post"), "{again}");
    std::fs::write(place.path().join("dot.png"), PNG).unwrap();
    let said = place.json(&["post", "С картинкой", "--photo", "dot.png", "--channel", "found"]).await;
    let id = said["deliveries"][0]["delivery_id"].to_string();
    let mut tries = 0..200;
    while place.json(&["delivery", "show", &id]).await["delivery"]["status"] != "sent" {
        assert!(tries.next().is_some(), "{}", place.ok(&["delivery", "show", &id]).await);
    }
    drop(node);
}

/// A small grey square.
const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x08\x00\x00\x00\x08\x08\x00\x00\x00\x00\xe1\x64\xe1\x57\x00\x00\x00\x0e\x49\x44\x41\x54\x78\x9c\x63\x68\x80\x02\x06\xca\x18\x00\x80\x84\x20\x01\x0d\x80\x24\x61\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_others_could_read_does_not_start_without_a_token() {
    let place = Place::new().await;
    let refused = place.refused(&["run", "--listen", "0.0.0.0:0"]).await;
    assert!(refused.contains("set RUPOR_HTTP_TOKEN to 32 random characters"), "{refused}");
    assert!(!place.path().join("rupor.db").exists(), "bad input changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_tells_of_a_message_and_says_what_it_does_not_know() {
    let place = Place::new().await;
    place.ok(&["apply"]).await;
    place.ok(&["channel", "test", "lost", "--send", "Проверка связи"]).await;
    let told = place.ok(&["why", "1"]).await;
    assert!(told.contains("is message 1") && told.contains("delivery 1: waiting, queued"), "{told}");
    let story = place.json(&["why", "d1", "lost"]).await;
    assert_eq!(story["channels"][0]["deliveries"][0]["delivery"]["status"], "queued");
    let unknown = place.refused(&["why", "https://vk.com/wall-1_2"]).await;
    assert!(unknown.contains("wall-1_2 was never seen here"), "{unknown}");
    let nowhere = place.refused(&["why", "1", "nowhere"]).await;
    assert!(nowhere.contains("known are"), "{nowhere}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_name_who_changed_something_and_why() {
    let place = Place::new().await;
    place.ok(&["apply", "--reason", "первый запуск"]).await;
    place.ok(&["channel", "pause", "lost", "--reason", "ремонт"]).await;
    place.ok(&["stop-all", "--workspace", "default", "--reason", "тревога"]).await;
    let status = place.ok(&["status"]).await;
    assert!(status.contains("stopped all sending of this workspace: тревога"), "{status}");
    let events = place.ok(&["events", "--json"]).await;
    let mut told = 0;
    for event in events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let who = event["detail"]["by"].as_str().unwrap_or_default();
        assert!(who.starts_with("user "), "{event}");
        let expected = match event["name"].as_str().unwrap() {
            "channel_paused" => "ремонт",
            "held" => "тревога",
            _ => "первый запуск",
        };
        assert_eq!(event["detail"]["reason"], expected, "{event}");
        told += 1;
    }
    assert!(told >= 5, "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_door_opens_with_the_new_secret_and_for_a_while_with_the_old() {
    let place = Place::new().await;
    let file = format!("{FILE}\n[endpoints.site]\nkind = \"push\"\nsecret = {{ env = \"TG_TOKEN\" }}\n");
    std::fs::write(place.path().join("rupor.toml"), file).unwrap();
    place.ok(&["apply"]).await;
    let first = place.json(&["endpoint", "rotate", "site", "--overlap", "1h"]).await;
    assert_eq!(first["secret"].as_str().unwrap().len(), 64, "{first}");
    assert_eq!(place.ok(&["apply"]).await, "nothing to do\n", "the old secret still opens");
    let second = place.json(&["endpoint", "rotate", "site", "--overlap", "0s"]).await;
    assert_ne!(first["secret"], second["secret"]);
    let listed = place.ok(&["endpoint", "list"]).await;
    let events = place.ok(&["events"]).await;
    for secret in [&first["secret"], &second["secret"], &json!(TOKEN)] {
        assert!(!listed.contains(secret.as_str().unwrap()) && !events.contains(secret.as_str().unwrap()));
    }
}

/// Lets the last channel of the file ask a person about kinds that are unsure.
const HOLD: &str = "unsure = \"hold\"\nmax_age = \"24h\"\nroute = { all = [{ not = \"kind:lost\" }] }\n";

/// What strangers write to make a terminal or a log lie.
const HOSTILE: &str = "кот\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}gpj.exe\u{2069}\u{9b}31m";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_and_posts_act_on_no_terminal_and_forge_no_line() {
    let place = Place::new().await;
    let name = format!("{HOSTILE}\nFAIL forged\r");
    let key = serde_json::to_string(&name).unwrap();
    let file = FILE.replace("[channels.found]", &format!("[channels.{key}]"));
    std::fs::write(place.path().join("rupor.toml"), format!("{file}{HOLD}")).unwrap();
    let post = json!({"owner_id": -1, "post_id": 1, "date": 1_794_744_000, "text": format!("Пропал {name}. +7 900 000-00-00")});
    std::fs::write(place.path().join("posts.jsonl"), format!("{post}\n{{\"{HOSTILE}\": 1}}\n")).unwrap();
    std::fs::write(
        place.path().join("people.jsonl"),
        format!("{}\n{}\n", json!({"address": "41", "name": name}), json!({"address": name})),
    )
    .unwrap();
    let rules = format!(
        "engine = 1\nstart = \"menu\"\n[[rules]]\nname = {key}\non = {{ text = {key} }}\nreply = {key}\n[states.menu]\ntypo = {key}\n"
    );
    std::fs::write(place.path().join("shop.toml"), rules).unwrap();
    let commands: &[&[&str]] = &[
        &["apply", "--yes"],
        &["audience", "import", "people.jsonl", "--account", "bot", "--name", &name],
        &["audience", "new", &name, "--filter", &name],
        &["audience", "list"],
        &["audience", "show", &name],
        &["audience", "count", &name],
        &["audience", "suppress", &name, "--account", &name],
        &["campaign", "new", &name, "--account", "bot", "--text", &name],
        &["campaign", "new", "ok", "--account", "bot", "--text", "Привет, {{ r.name }}"],
        &["campaign", "list"],
        &["campaign", "preview", &name],
        &["campaign", "preview", "ok"],
        &["campaign", "status", &name],
        &["campaign", "report", "ok"],
        &["campaign", "start", &name],
        &["bot", "lint", "shop.toml"],
        &["bot", "test", "shop.toml"],
        &["bot", "explain", "shop.toml", &name],
        &["bot", "graph", "shop.toml", "--mermaid"],
        &["bot", "status"],
        &["bot", "versions", &name],
        &["bot", "activate", &name, "3"],
        &["chats"],
        &["alert", "list"],
        &["alert", "kinds"],
        &["alert", "test"],
        &["token", "new", &name, "--scope", "read"],
        &["token", "list"],
        &["token", "revoke", &name],
        &["import", "posts.jsonl", "--horizon-hours", "900000"],
        &["post", &name, "--channel", &name],
        &["status"],
        &["channel", "list"],
        &["channel", "show", &name],
        &["channel", "pause", &name, "--reason", &name],
        &["channel", "test", &name],
        &["channel", "pause", "нет"],
        &["account", "list"],
        &["delivery", "list"],
        &["delivery", "show", "1"],
        &["delivery", "cancel", "--channel", &name],
        &["endpoint", "list"],
        &["why", "1"],
        &["why", &name],
        &["post", "Наша собака у подъезда"],
        &["init", "other.toml", "--force", "--read", &name, "--to", &name],
        &["source", "list"],
        &["source", "pause", &name],
        &["case", "list"],
        &["workspace", "list"],
        &["runs"],
        &["status", "--trouble"],
        &["message", "list"],
        &["message", "approve", "9"],
        &["message", "reject", "9"],
        &["events"],
        &["check"],
        &["stop-all", "--reason", &name],
        &["release"],
        &["analyse", "--text", &name],
        &["analyse", "posts.jsonl"],
        &["backup", "copy.db"],
        &["key", "prepare"],
        &["key", "rotate"],
        &["migrate"],
    ];
    for command in commands {
        for json in [false, true] {
            let mut arguments = command.to_vec();
            arguments.extend(json.then_some("--json"));
            let done = place.run(&arguments).await;
            for said in [&done.stdout, &done.stderr] {
                let said = String::from_utf8(said.clone()).unwrap();
                let acting =
                    said.chars().find(|c| c.is_control() && *c != '\n' || "\u{202e}\u{2069}".contains(*c));
                // Wrong usage repeats what the operator typed; clap has its own rules for that.
                let own = done.status.code() == Some(2);
                assert!(own || acting.is_none(), "{arguments:?}: {acting:?} in {said:?}");
                assert!(!said.lines().any(|line| line.starts_with("FAIL forged")), "{arguments:?}: {said}");
            }
        }
    }
    let held = place.ok(&["message", "list"]).await;
    assert!(held.contains(r"кот\u001b]0;owned\u0007"), "{held}");
    let listed = place.ok(&["channel", "list"]).await;
    assert!(listed.contains(r"кот\u001b]0;owned\u0007") && listed.contains(r"\nFAIL forged\r"), "{listed}");
    let help = place.ok(&["--help"]).await;
    let first =
        |line: &'_ str| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).map(str::to_owned);
    let lines: Vec<String> = help.lines().filter_map(first).collect();
    let known = lines.iter().filter_map(|line| line.split_whitespace().next());
    let known: Vec<&str> = known.filter(|word| !word.starts_with('-') && *word != "help").collect();
    // These print nothing that strangers wrote: the log of a node has a test of its own.
    let silent = ["demo", "run", "sandbox", "db"];
    for command in known {
        let tried = silent.contains(&command) || commands.iter().any(|tried| tried[0] == command);
        assert!(tried, "`rupor {command}` is not tried with hostile names: add it to the list");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_that_nobody_is_sure_of_waits_until_a_person_says_yes() {
    let place = Place::new().await;
    std::fs::write(place.path().join("rupor.toml"), format!("{FILE}{HOLD}")).unwrap();
    place.ok(&["apply"]).await;
    let posted = place.json(&["post", "Собака. Фото"]).await;
    assert_eq!(posted["deliveries"].as_array().unwrap().len(), 1, "the mirror has it: {posted}");
    place.ok(&["post", "Наша собака у подъезда"]).await;
    let status = place.ok(&["status"]).await;
    assert!(status.contains("2 posts wait for a person to decide"), "{status}");
    assert!(status.contains("$ rupor message approve 1"), "{status}");
    let list = place.json(&["message", "list"]).await;
    assert_eq!((&list[0]["message_id"], &list[0]["channel"]), (&json!(1), &json!("found")));
    assert!(list[0]["why"].as_str().unwrap().starts_with("unsure: it reads as "), "{list}");
    let why = place.ok(&["why", "1"]).await;
    assert!(why.contains("held for a person since") && why.contains("`$ rupor message reject 1`"), "{why}");
    let told = place.ok(&["message", "approve", "1"]).await;
    assert!(told.starts_with("message 1 is approved: queued in found"), "{told}");
    assert_eq!(place.ok(&["message", "reject", "2"]).await.trim(), "message 2 is not published");
    let again = place.refused(&["message", "approve", "2"]).await;
    assert!(again.contains("message 2 does not wait for anybody"), "{again}");
    assert_eq!(place.ok(&["message", "list"]).await.trim(), "no post waits for a person");
    let why = place.ok(&["why", "2"]).await;
    assert!(why.contains("decided by user "), "{why}");
    let went = place.json(&["delivery", "list", "--channel", "found"]).await;
    assert_eq!((went.as_array().unwrap().len(), &went[0]["message_id"]), (1, &json!(1)));
}
