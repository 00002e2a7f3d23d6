//! Every command that answers programs is asked, and its answer read as a program would: one style of times and lengths, and
//! mistakes as JSON too. The list is compared with the help, so that a new command cannot be forgotten.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::place::*;

/// Everything that the program can say; its first part is the help.
const SAID: &str = include_str!("../../src/cli/golden/said.txt");

/// In an order in which one makes what the next one asks for.
const ASKED: &[&[&str]] = &[
    &["migrate"],
    &["apply", "--dry-run"],
    &["apply", "--yes"],
    &["check", "rupor.toml"],
    &["chats"],
    &["post", "Пропала собака Буся, рыжая. Телефон +7 975 000-00-11"],
    &["import", "posts.jsonl"],
    &["status"],
    &["status", "--trouble"],
    &["why", "1"],
    &["why", "d1"],
    &["analyse", "--text", "Пропала собака Буся"],
    &["channel", "list"],
    &["channel", "show", "lost"],
    &["channel", "pause", "lost", "--for", "1h"],
    &["channel", "resume", "lost"],
    &["channel", "disable", "lost"],
    &["channel", "enable", "lost"],
    &["channel", "test", "lost"],
    &["source", "list"],
    &["source", "show", "city/-101"],
    &["source", "test", "city/-101"],
    &["source", "pause", "city/*"],
    &["source", "resume", "city/*"],
    &["case", "list"],
    &["case", "show", "1"],
    &["case", "merge", "1", "2"],
    &["case", "split", "1", "2"],
    &["workspace", "list"],
    &["workspace", "show", "default"],
    &["workspace", "pause", "default"],
    &["workspace", "resume", "default"],
    &["runs"],
    &["account", "list"],
    &["account", "pause", "bot"],
    &["account", "resume", "bot"],
    &["delivery", "list"],
    &["delivery", "show", "1"],
    &["delivery", "cancel", "1"],
    &["delivery", "requeue", "1"],
    &["audience", "import", "people.csv", "--account", "bot"],
    &["audience", "new", "perm", "--filter", "city:Пермь"],
    &["audience", "list"],
    &["audience", "show", "people"],
    &["audience", "count", "people"],
    &["audience", "suppress", "700102", "--account", "bot"],
    &["audience", "suppressed"],
    &["audience", "unsuppress", "700102", "--account", "bot"],
    &["campaign", "new", "autumn", "--account", "bot", "--audience", "people", "--text", "Здравствуйте!"],
    &["campaign", "list"],
    &["campaign", "preview", "autumn"],
    &["campaign", "test", "autumn", "--account", "bot", "--to", "700101"],
    &["campaign", "start", "autumn", "--at", "2100-01-01T10:00+03:00", "--yes"],
    &["campaign", "status", "autumn"],
    &["campaign", "report", "autumn"],
    &["campaign", "cancel", "autumn", "--yes"],
    &["message", "list"],
    &["endpoint", "list"],
    &["endpoint", "show", "site"],
    &["endpoint", "pause", "site"],
    &["endpoint", "resume", "site"],
    &["endpoint", "test", "site", "--secret-env", "PUSH_SECRET"],
    &["endpoint", "rotate", "site"],
    &["events"],
    &["alert", "kinds"],
    &["alert", "list"],
    &["alert", "test"],
    &["token", "new", "shop", "--scope", "read"],
    &["token", "list"],
    &["token", "revoke", "shop"],
    &["bot", "lint", "rules.toml"],
    &["bot", "explain", "rules.toml", "доставка"],
    &["bot", "status"],
    &["bot", "versions", "shop"],
    &["bot", "log", "shop"],
    &["bot", "activate", "shop", "1"],
    &["bot", "forget", "shop", "71"],
    &["bot", "replay", "shop", "--rules", "rules.toml"],
    &["stop-all", "--reason", "проба"],
    &["release"],
    &["backup", "copy.db"],
    &["db", "check"],
    &["key", "prepare"],
    &["key", "rotate"],
];

/// Mistakes of every kind; each is told as JSON on standard error, and on standard output stands nothing.
const MISTAKEN: &[&[&str]] = &[
    &["channel", "show", "lst"],
    &["channel", "pause", "nothing*"],
    &["source", "show", "lst"],
    &["account", "pause", "lst"],
    &["delivery", "show", "99"],
    &["delivery", "requeue"],
    &["why", "чепуха"],
    &["case", "show", "99"],
    &["campaign", "status", "lst"],
    &["audience", "show", "lst"],
    &["endpoint", "pause", "lst"],
    &["token", "revoke", "lst"],
    &["message", "approve", "99"],
    &["bot", "versions", "lst"],
    &["apply", "lst.toml"],
    &["import", "lst.jsonl"],
    &["post"],
    &["channel", "lst"],
    &["status", "--lst"],
    &["status", "--workspace", "lst"],
    &["status", "--db", "lst"],
];

/// What is not asked here, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("demo", "runs until it is stopped; told in lines"),
    ("init", "writes a file for people"),
    ("run", "its answers are its log"),
    ("sandbox", "serves"),
    ("bot test", "its words are those of a test run; `bot lint` shows the style"),
    ("bot chat", "a person talks"),
    ("bot graph", "draws"),
    ("bot hooks set", "asks platforms for webhooks"),
    ("bot hooks show", "asks platforms for webhooks"),
    ("bot hooks remove", "asks platforms for webhooks"),
    ("db copy", "needs another database; asked by the tests of moving"),
    ("db repair", "needs a damaged file; asked by the tests of damage"),
    ("campaign pause", "only what runs; asked by the tests of campaigns"),
    ("campaign resume", "only what rests; asked by the tests of campaigns"),
    ("campaign edit", "only what rests; asked by the tests of campaigns"),
    ("campaign retry", "only what is over; asked by the tests of campaigns"),
    ("campaign choose", "only with variants; asked by the tests of campaigns"),
    ("message approve", "only what waits; told as a mistake here"),
    ("message reject", "only what waits; asked by the tests of posts that wait"),
];

const FILE: &str = r#"
[accounts.bot]
platform = "telegram"
token = { env = "TG_TOKEN" }
[accounts.reader]
platform = "vk"
kind = "service"
token = { env = "TG_TOKEN" }
[channels.lost]
account = "bot"
target = -1001234567890
max_age = "72h"
[channels.support]
account = "bot"
target = -1001234567891
route = { any = ["source:nobody"] }
[sources.city]
kind = "vk"
account = "reader"
groups = [-101]
[endpoints.site]
kind = "push"
secret = { env = "PUSH_SECRET" }
[alerts]
channel = "support"
[bots.shop]
accounts = ["bot"]
rules = "rules.toml"
"#;
const RULES: &str = r#"
engine = 1
start = "menu"
fallback = ["Не понял вас."]
[intents.delivery]
any = ["доставка"]
[[rules]]
on = { intent = "delivery" }
reply = "Два дня."
[states.menu]
"#;

/// What does not fit the one style, by its path.
fn odd(path: &str, name: &str, value: &Value, found: &mut Vec<String>) {
    let is_moment = |text: &str| {
        let (date, time) = (text.get(..10).unwrap_or_default(), text.get(10..).unwrap_or_default());
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '-');
        date.len() == 10 && digits(date) && (time.starts_with('T') && time.ends_with('Z'))
    };
    let named_time = ["_at", "_until", "_since"].iter().any(|end| name.ends_with(end))
        || ["at", "now", "since", "until"].contains(&name);
    match value {
        Value::Array(items) => items.iter().for_each(|item| odd(path, name, item, found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| odd(&format!("{path}.{name}"), name, value, found));
        }
        Value::Number(number)
            if number.as_i64().is_some_and(|n| n > 100_000_000_000) && !name.ends_with("_id") =>
        {
            found.push(format!("{path}: {number} looks like a time that is no text"));
        }
        Value::Number(_) if named_time => found.push(format!("{path}: {value} is no moment")),
        Value::Number(_) if name.ends_with("_us") => {
            found.push(format!("{path}: nobody counts microseconds"));
        }
        Value::String(text) if named_time && !is_moment(text) => {
            found.push(format!("{path}: {text:?} is no moment"));
        }
        Value::String(text) if text.len() == 23 && text.ends_with(" UTC") => {
            found.push(format!("{path}: {text:?} is a moment for people"));
        }
        _ => {}
    }
}

/// The commands that do something, from the help.
fn commands() -> BTreeSet<&'static str> {
    let help = SAID.split("\n# ").next().unwrap();
    let named: Vec<&str> =
        help.lines().filter_map(|line| line.strip_prefix("rupor ")?.split(':').next()).collect();
    let leads = |one: &str| named.iter().any(|other| other.starts_with(&format!("{one} ")));
    named.iter().copied().filter(|one| !leads(one)).collect()
}

#[test]
fn every_command_is_asked_for_json_or_named_with_a_reason() {
    let known = commands();
    assert!(known.len() > 80, "{known:?}");
    let is_asked = |command: &str| {
        ASKED.iter().any(|words| {
            words.join(" ").split(' ').zip(command.split(' ')).filter(|(one, other)| one == other).count()
                == command.split(' ').count()
        })
    };
    let left: Vec<&&str> = known
        .iter()
        .filter(|command| !is_asked(command) && !ELSEWHERE.iter().any(|(name, _)| name == *command))
        .collect();
    assert!(left.is_empty(), "nobody reads the JSON of {left:?}");
    let gone: Vec<&str> =
        ELSEWHERE.iter().map(|(name, _)| *name).filter(|name| !known.contains(name)).collect();
    assert!(gone.is_empty(), "no such command: {gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_for_programs_has_one_style() {
    let mut place = Place::new().await;
    place.set("TG_TOKEN", TOKEN);
    place.set("PUSH_SECRET", "secret-of-the-site-0123456789abcdef");
    place.write(FILE);
    for (name, text) in [
        ("rules.toml", RULES),
        (
            "posts.jsonl",
            "{\"owner_id\": -101, \"post_id\": 1, \"date\": 1763000000, \"text\": \"Пропал кот Рыжик, улица Мира. +7 975 000-00-12\"}\n",
        ),
        ("people.csv", "address;name;city\n700101;Анна;Пермь\n700102;Пётр;Тверь\n"),
    ] {
        std::fs::write(place.folder.path().join(name), text).unwrap();
    }
    let mut found = Vec::new();
    for words in ASKED {
        let output = place.run(&[*words, &["--json"]].concat()).await;
        let (said, mistakes) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let called = words.join(" ");
        // A post that is not there, a bot nobody wrote to: said in JSON as well.
        if output.status.code() != Some(0) {
            match serde_json::from_str::<Value>(mistakes.lines().last().unwrap_or_default()) {
                Ok(told) if told["error"].is_string() => {}
                _ if !said.trim().is_empty() => {}
                _ => found
                    .push(format!("{called}: ends with {:?} and says {mistakes:?}", output.status.code())),
            }
        }
        for line in said.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(value) => odd(&called, "", &value, &mut found),
                Err(_) => found.push(format!("{called}: {line:?} is not JSON")),
            }
        }
    }
    for words in MISTAKEN {
        let output = place.run(&[*words, &["--json"]].concat()).await;
        let (said, mistakes) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let told: Value = serde_json::from_str(mistakes.trim()).unwrap_or_default();
        if output.status.success() || !told["error"].is_string() || !said.is_empty() {
            found.push(format!("{}: {:?} {mistakes:?} {said:?}", words.join(" "), output.status.code()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
