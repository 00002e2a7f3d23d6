//! The workflows for n8n, judged without n8n: what they may contain, and every statement prepared as the role that runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use tokio_postgres::Client;

use crate::world::*;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Node types with the versions that were run; nothing that waits, loops, or runs commands.
const NODES: &[(&str, &[f64])] = &[
    ("stickyNote", &[1.0]),
    ("scheduleTrigger", &[1.2]),
    ("manualTrigger", &[1.0]),
    ("webhook", &[2.0]),
    ("respondToWebhook", &[1.4]),
    ("set", &[3.4]),
    ("if", &[2.2]),
    ("crypto", &[1.0]),
    ("httpRequest", &[4.2]),
    ("postgres", &[2.6]),
    ("noOp", &[1.0]),
];
/// The credentials by their names: for the database, the role they log in as.
const CREDENTIALS: &[(&str, &str, Option<&str>)] = &[
    ("postgres", "Rupor workspace", Some("rupor_app")),
    ("postgres", "Rupor dispatcher", Some("rupor_dispatcher")),
    ("httpHeaderAuth", "Rupor adapter token", None),
];
/// What a workflow may call.
const FUNCTIONS: &[&str] = &[
    "begin_ingest",
    "finish_ingest",
    "dispatcher_tick",
    "commit_outcomes",
    "monitor_snapshot",
    "raise_alerts",
    "bot_hear",
    "bot_tick",
    "bot_commit_turns",
    "bot_snapshot",
    "raise_bot_alerts",
];
const BASE: &str = "={{ $('Where Rupor listens').first().json.base }}/v1/";

/// Sessions as the two roles.
struct Judge {
    scratch: Scratch,
    sessions: BTreeMap<&'static str, Client>,
}

impl Judge {
    async fn new() -> Judge {
        let scratch = Scratch::create().await;
        let mut sessions = BTreeMap::new();
        for role in ["rupor_app", "rupor_dispatcher"] {
            let client = connect(&scratch.url()).await;
            client.batch_execute(&format!("SET SESSION AUTHORIZATION {role}")).await.unwrap();
            sessions.insert(role, client);
        }
        Judge { scratch, sessions }
    }

    async fn problems(&self, path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let flow: Value = serde_json::from_str(&text).unwrap();
        let mut found = forbidden_text(&text);
        found.extend(wrong_nodes(&flow));
        found.extend(wrong_connections(&flow));
        for node in nodes(&flow).filter(|node| node["type"] == "n8n-nodes-base.postgres") {
            found.extend(self.statement(node).await);
        }
        found
    }

    /// Whether the statement calls one allowed function, and its role can prepare it.
    async fn statement(&self, node: &Value) -> Option<String> {
        let name = &node["name"];
        let query = node["parameters"]["query"].as_str().unwrap_or_default();
        let called: Vec<&str> = query
            .split('(')
            .rev()
            .skip(1)
            .filter_map(|before| before.rsplit(|c: char| !(c.is_ascii_lowercase() || c == '_')).next())
            .filter(|function| !function.is_empty())
            .collect();
        let [function] = called.as_slice() else {
            return Some(format!("{name}: a statement calls one function: {query}"));
        };
        if !FUNCTIONS.contains(function) {
            return Some(format!("{name}: unknown function {function}"));
        }
        let credential = node["credentials"]["postgres"]["name"].as_str().unwrap_or_default();
        let role = CREDENTIALS.iter().find(|known| known.1 == credential).and_then(|known| known.2);
        let Some(client) = role.and_then(|role| self.sessions.get(role)) else {
            return Some(format!("{name}: unknown credential {credential:?}"));
        };
        let prepared = client.prepare(query).await;
        prepared.err().map(|error| {
            let said =
                error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
            format!("{name}: cannot be prepared: {said}")
        })
    }

    async fn end(self) {
        drop(self.sessions);
        self.scratch.drop_database().await;
    }
}

fn nodes(flow: &Value) -> impl Iterator<Item = &Value> {
    flow["nodes"].as_array().into_iter().flatten()
}

/// Environment, secrets, addresses beyond this machine.
fn forbidden_text(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if text.contains("$env") || text.contains("process.env") {
        found.push("$env: the environment is not for workflows".to_owned());
    }
    // Long runs of letters and digits that are no words: tokens. Ids of nodes have dashes and are short between them.
    let run = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    for word in text.split(run).filter(|word| word.len() >= 24) {
        if word.chars().any(|c| c.is_ascii_digit()) {
            found.push(format!("a token inside: {}…", &word[..6]));
        }
    }
    for address in
        text.split("http").skip(1).filter(|rest| rest.starts_with("://") || rest.starts_with("s://"))
    {
        if !address.starts_with("://127.0.0.1:7878\"") {
            found.push(format!(
                "an address beyond loopback: {}",
                address.chars().take(30).collect::<String>()
            ));
        }
    }
    found
}

fn wrong_nodes(flow: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut bases = 0;
    for node in nodes(flow) {
        let kind = node["type"].as_str().unwrap_or_default().trim_start_matches("n8n-nodes-base.").to_owned();
        let version = node["typeVersion"].as_f64().unwrap_or_default();
        match NODES.iter().find(|(known, _)| *known == kind) {
            None => found.push(format!("{}: node type {kind} is not allowed", node["name"])),
            Some((_, versions)) if !versions.contains(&version) => {
                found.push(format!("{}: {kind} of version {version} was never run", node["name"]));
            }
            Some(_) => {}
        }
        for (of, credential) in node["credentials"].as_object().into_iter().flatten() {
            let keys: BTreeSet<&str> =
                credential.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            let known = CREDENTIALS.iter().any(|known| known.0 == of && credential["name"] == known.1);
            if !known || keys != BTreeSet::from(["id", "name"]) {
                found.push(format!("{}: a credential is named, never written", node["name"]));
            }
        }
        if kind == "httpRequest" && !node["parameters"]["url"].as_str().unwrap_or_default().starts_with(BASE)
        {
            found.push(format!("{}: calls go to the one address", node["name"]));
        }
        if node["retryOnFail"] == true {
            found.push(format!("{}: trying again is the ledger's business", node["name"]));
        }
        bases += usize::from(node["name"] == "Where Rupor listens");
    }
    let calls = nodes(flow).any(|node| node["type"] == "n8n-nodes-base.httpRequest");
    if bases != usize::from(calls) {
        found.push(format!("{bases} nodes hold the address"));
    }
    found
}

fn wrong_connections(flow: &Value) -> Vec<String> {
    let names: BTreeSet<&str> = nodes(flow).filter_map(|node| node["name"].as_str()).collect();
    let mut found = Vec::new();
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, outputs) in flow["connections"].as_object().into_iter().flatten() {
        let targets = outputs["main"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|output| output.as_array().into_iter().flatten());
        for to in targets.filter_map(|target| target["node"].as_str()) {
            if !names.contains(from.as_str()) || !names.contains(to) {
                found.push(format!("a broken connection: {from} → {to}"));
            }
            next.entry(from).or_default().push(to);
        }
    }
    for start in &names {
        let (mut seen, mut open) = (BTreeSet::new(), next.get(start).cloned().unwrap_or_default());
        while let Some(node) = open.pop() {
            if node == *start {
                found.push(format!("a loop through {start}"));
                break;
            }
            if seen.insert(node) {
                open.extend(next.get(node).into_iter().flatten());
            }
        }
    }
    found
}

fn files(folder: &str) -> Vec<std::path::PathBuf> {
    let listed = std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
    let mut files: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

#[tokio::test]
async fn the_workflows_only_orchestrate() {
    let judge = Judge::new().await;
    let flows = files("workflows");
    assert_eq!(flows.len(), 6);
    for path in flows {
        assert_eq!(judge.problems(&path).await, [""; 0], "{}", path.display());
        let text = std::fs::read_to_string(&path).unwrap();
        let flow: Value = serde_json::from_str(&text).unwrap();
        let is_note = |node: &&Value| node["type"] == "n8n-nodes-base.stickyNote";
        let (notes, steps) =
            (nodes(&flow).filter(is_note).count(), nodes(&flow).filter(|node| !is_note(node)).count());
        assert!(notes + 2 >= steps, "{}: {notes} notes explain {steps} steps", path.display());
        assert!(flow["id"].as_str().is_some_and(|id| id.len() <= 21), "n8n takes ids of 21 characters");
    }
    judge.end().await;
}

/// Each planted file has one thing wrong, and exactly that is found.
#[tokio::test]
async fn planted_workflows_are_refused() {
    let judge = Judge::new().await;
    let mut found = Vec::new();
    for path in files("tests/n8n/planted") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let problems = judge.problems(&path).await;
        found.push(format!("{name}: {}", problems.first().map_or("nothing", String::as_str)));
    }
    expect_test::expect![[r#"
        broken_connection: a broken connection: Send → commit_outcome
        env: $env: the environment is not for workflows
        loop: a loop through Send
        token_inside: a token inside: rupor_…
        unknown_function: "dispatcher_tick": unknown function dispatcher_tock
        wait: "Wait": node type wait is not allowed
        wrong_arity: "dispatcher_tick": cannot be prepared: function dispatcher_tick(unknown, integer, boolean, unknown) does not exist"#]].assert_eq(&found.join("\n"));
    judge.end().await;
}

/// `tests/n8n/draw.py` draws them: a box for every node, a line for every connection, the words of every note.
#[test]
fn every_workflow_has_its_picture_on_the_page() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/n8n.md")).unwrap();
    for file in std::fs::read_dir(Path::new(ROOT).join("workflows")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let flow: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let picture = std::fs::read_to_string(Path::new(ROOT).join(format!("docs/n8n/{name}.svg"))).unwrap();
        assert!(page.contains(&format!("(n8n/{name}.svg)")), "docs/n8n.md does not show {name}");
        let shown: String = picture
            .split('<')
            .filter_map(|tag| tag.split_once('>'))
            .map(|(_, words)| format!("{words} "))
            .collect();
        let shown = shown
            .replace("&#x27;", "'")
            .replace("&quot;", "\"")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        let shown: BTreeSet<&str> = shown.split_whitespace().collect();
        for node in flow["nodes"].as_array().unwrap() {
            let is_note = node["type"].as_str().unwrap().ends_with("stickyNote");
            let words = if is_note { &node["parameters"]["content"] } else { &node["name"] };
            let words = words.as_str().unwrap().replace(['*', '`', '#'], "");
            let missing: Vec<&str> = words.split_whitespace().filter(|word| !shown.contains(word)).collect();
            // Long words are broken at a hyphen or a slash.
            let missing: Vec<&&str> =
                missing.iter().filter(|word| word.chars().count() < 20 && !word.contains('-')).collect();
            assert!(missing.is_empty(), "{name}: draw it again, {missing:?} is not shown");
        }
        let outputs = flow["connections"].as_object().unwrap().values();
        let n_lines: usize = outputs
            .flat_map(|o| o["main"].as_array().unwrap())
            .filter_map(Value::as_array)
            .map(Vec::len)
            .sum();
        assert_eq!(picture.matches("<path class=\"w\"").count(), n_lines, "{name}: draw it again");
    }
}
