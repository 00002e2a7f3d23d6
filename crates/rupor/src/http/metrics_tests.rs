//! What Prometheus is told, and what its rules and the dashboard ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use domain::delivery::AmbiguityPolicy;
use futures_util::StreamExt;
use serde_json::Value;
use store::{LaneOf, LaneSettings, NewRecipient, RecipientStatus};

use super::*;
use crate::http::tests::Server;

const OPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops");

/// promtool of the distribution's package `prometheus`; `./test` installs it.
fn promtool(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut tool = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is not here: `./test` installs it (package prometheus)");
    tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = tool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(said) } else { Err(said) }
}

/// A node whose families all have a sample.
async fn touched() -> (Server, String) {
    let server = Server::start(None).await;
    let node = Node::new(server.store.clone());
    let open = exposition(&node).await.unwrap();
    (server, open)
}

/// Every family with a sample in it, also those that need a campaign or a bot.
fn every_name() -> BTreeSet<String> {
    let mut sheet = Sheet::new();
    let shown = Shown::new(&mut sheet);
    for family in [
        &shown.deliveries,
        &shown.lag,
        &shown.eta,
        &shown.open,
        &shown.expired_leases,
        &shown.paused_accounts,
        &shown.resting_accounts,
        &shown.sources,
        &shown.people,
        &shown.trouble,
        &shown.campaign_deliveries,
        &shown.bot_waiting,
        &shown.bot_oldest,
        &shown.bot_handoffs,
        &shown.bot_handoffs_waiting,
        &shown.bot_turns,
        &shown.bot_fallbacks,
        &shown.bot_errors,
    ] {
        set(family, Vec::new(), 0);
    }
    for family in [
        &shown.campaign_dequeued,
        &shown.campaign_retry_scheduled,
        &shown.campaign_retry_exhausted,
        &shown.campaign_failures,
    ] {
        drop(family.get_or_create(&Vec::new()));
    }
    let meters = Meters::default();
    let mut open = String::new();
    meters.write(&mut open).unwrap();
    text::encode(&mut open, &sheet.registry).unwrap();
    families(&classic(&open)).into_keys().collect()
}

/// Name to type.
fn families(classic: &str) -> BTreeMap<String, String> {
    let types = classic.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// Every label name of a text with the values it has.
fn labels(classic: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in classic.lines().filter(|line| !line.starts_with('#')) {
        let Some((_, rest)) = line.split_once('{') else { continue };
        for pair in rest.rsplit_once('}').unwrap().0.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap();
            labels.entry(name.to_owned()).or_default().insert(value.to_owned());
        }
    }
    labels
}

#[tokio::test]
async fn promtool_accepts_the_metrics_and_every_counter_is_there_from_the_start() {
    let (server, open) = touched().await;
    let asked = server.ask("GET", "/metrics", &[], "").await;
    assert!(asked.head.contains("text/plain; version=0.0.4"), "{}", asked.head);
    let said = promtool(&["check", "metrics"], &asked.body).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(said.trim(), "", "promtool has something to say");
    for line in [
        "rupor_deliveries_enqueued_total 0",
        "rupor_deliveries_dequeued_total 0",
        "rupor_deliveries_sent_total{platform=\"telegram\"} 0",
        "rupor_deliveries_retry_scheduled_total{code=\"other\"} 0",
        "rupor_deliveries_retry_exhausted_total 0",
        "rupor_deliveries_failed_total{code=\"other\"} 0",
        "rupor_due_to_sent_seconds_count{platform=\"vk\"} 0",
        "rupor_claim_duration_seconds_count 0",
        "rupor_commit_duration_seconds_count 0",
        "rupor_request_duration_seconds_count{platform=\"max\"} 0",
        "rupor_posts_stored_total 0",
        "rupor_source_polls_total{result=\"failed\"} 0",
        "rupor_secrets_refused_total{door=\"/v1/ingest\"} 0",
        "rupor_database_up 1.0",
        "rupor_build_info{version=\"0.1.0\",database=\"sqlite\"} 1.0",
    ] {
        assert!(asked.body.lines().any(|found| found == line), "{line}\n{}", asked.body);
    }
    let open_metrics = server.ask("GET", "/metrics", &[("Accept", OPEN_METRICS)], "").await;
    assert!(open_metrics.head.contains(OPEN_METRICS_ANSWER), "{}", open_metrics.head);
    assert!(open_metrics.body.ends_with("# EOF\n") && open.ends_with("# EOF\n"));
    assert!(open_metrics.body.contains("# TYPE rupor_deliveries_sent counter\n"));
}

#[tokio::test]
async fn trouble_of_everybody_is_counted_once() {
    let server = Server::start(None).await;
    server.store.create_workspace("shop").await.unwrap();
    server.store.hold_all(Some("пожар")).await.unwrap();
    let body = server.ask("GET", "/metrics", &[], "").await.body;
    let held = |line: &&str| line.starts_with("rupor_trouble{") && line.contains("kind=\"held\"");
    let mut counts: Vec<&str> =
        body.lines().filter(held).filter_map(|line| line.rsplit(' ').next()).collect();
    counts.sort_unstable();
    assert_eq!(counts, ["0.0", "1.0"], "{body}");
}

#[tokio::test]
async fn a_thousand_channels_and_a_hundred_thousand_dialogues_leave_the_labels_bounded() {
    let (channels, people) = (1_000, 100_000);
    let server = Server::start(None).await;
    let (store, ws) = (&server.store, server.ws);
    let account_id = store.accounts(ws).await.unwrap()[0].account_id;
    for n in 1..channels {
        let (name, target) = (format!("канал {n}"), format!("-100{n:010}"));
        let settings = store::ChannelSettings::default();
        let new = store::NewChannel { account_id, name, target, settings };
        store.create_channel(ws, new).await.unwrap();
    }
    let mut lanes = Vec::new();
    for first in (0..people).step_by(10_000) {
        let new = |n: i64| NewRecipient {
            user_id: n.to_string(),
            address: n.to_string(),
            attributes: serde_json::json!({}),
            time_zone: None,
            status: RecipientStatus::Active,
            source: "bot".into(),
        };
        let batch = (first..first + 10_000).map(|n| new(n + 1)).collect();
        let put = store.put_recipients(ws, account_id, batch).await.unwrap();
        lanes.extend(put.into_iter().map(|put| put.recipient_id));
    }
    let settings = LaneSettings { max_parallel: 1, rate: None, ambiguity: AmbiguityPolicy::Hold };
    let opened = futures_util::stream::iter(lanes).map(|id| async move {
        store.open_lane(ws, LaneOf::Dialogue(id), settings).await.unwrap();
    });
    opened.buffer_unordered(256).collect::<Vec<()>>().await;
    let body = server.ask("GET", "/metrics", &[], "").await.body;
    let labels = labels(&body);
    let known = [
        "workspace",
        "channel",
        "campaign",
        "account",
        "platform",
        "status",
        "state",
        "health",
        "kind",
        "code",
        "result",
        "door",
        "version",
        "database",
        "le",
    ];
    for (name, values) in &labels {
        assert!(known.contains(&name.as_str()), "{name} is a new label: say what it means in metrics.rs");
        let most = if name == "channel" { channels } else { 60 };
        assert!(values.len() <= most, "{name} has {} values", values.len());
    }
    let samples = body.lines().filter(|line| !line.starts_with('#')).count();
    assert!(samples <= 10 * channels + 1_000, "{samples} series");
    promtool(&["check", "metrics"], &body).unwrap_or_else(|said| panic!("{said}"));
}

#[tokio::test]
async fn the_dashboard_and_the_rules_ask_only_for_what_there_is() {
    let mut known = every_name();
    known.extend(families(&classic(&touched().await.1)).into_keys());
    let histograms: Vec<String> = known.iter().filter(|name| name.ends_with("_seconds")).cloned().collect();
    known.extend(
        histograms.iter().flat_map(|name| ["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}"))),
    );
    let board: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{OPS}/grafana.json")).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let of_board = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked: Vec<String> = of_board.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    asked.extend(
        board["templating"]["list"].as_array().unwrap().iter().map(|variable| variable["query"].to_string()),
    );
    let n_of_board = asked.len();
    let rules = std::fs::read_to_string(format!("{OPS}/alerts.yml")).unwrap();
    asked.extend(rules.lines().filter_map(|line| Some(line.trim().strip_prefix("expr: ")?.to_owned())));
    assert!(n_of_board > 20 && asked.len() >= n_of_board + 10, "{} queries", asked.len());
    for query in asked {
        let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| word.starts_with("rupor_")) {
            assert!(known.contains(name), "{query} asks for {name}, which nobody counts");
        }
    }
}

#[tokio::test]
async fn the_page_lists_every_metric_and_no_other() {
    let page = include_str!("../../../../docs/operating.md");
    let (_server, open) = touched().await;
    let mut names = every_name();
    names.extend(families(&classic(&open)).into_keys());
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `rupor_")?.split_once('`'));
    let told: BTreeSet<String> = rows.map(|(name, _)| format!("rupor_{name}")).collect();
    assert_eq!(told, names.into_iter().collect());
}

#[test]
fn promtool_accepts_the_rules_and_their_tests() {
    let rules = format!("{OPS}/alerts.yml");
    promtool(&["check", "rules", &rules], "").unwrap_or_else(|said| panic!("{said}"));
    promtool(&["test", "rules", &format!("{OPS}/alerts_test.yml")], "")
        .unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn the_classic_format_names_a_counter_like_its_samples() {
    let open = "# HELP a_b Help.\n# TYPE a_b counter\na_b_total{x=\"1\"} 2\n# HELP c_seconds C.\n# TYPE c_seconds histogram\n\
                # UNIT c_seconds seconds\nc_seconds_sum 0.0\n# EOF\n";
    let expected = "# HELP a_b_total Help.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 2\n# HELP c_seconds C.\n\
                    # TYPE c_seconds histogram\nc_seconds_sum 0.0\n";
    assert_eq!(classic(open), expected);
}
