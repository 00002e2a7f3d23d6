//! What the program writes about its work names channels and sources, and never a person: posts with sample phones go
//! through a real node, well and badly, and their numbers are looked for in everything that is not a post.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::place::*;

const GOOD: i64 = -1_001_700_000_081;
const REFUSED: i64 = -1_001_700_000_082;
const OPS: i64 = -1_001_700_000_083;
const CORPORA: [&str; 3] = [
    include_str!("../../../domain/testdata/pets-own-second.jsonl"),
    include_str!("../../../domain/testdata/v2/writer-a.jsonl"),
    include_str!("../../../domain/testdata/v2/writer-d.jsonl"),
];
/// Of the longer corpora every so many posts are sent.
const EVERY: usize = 2;

/// A post of a corpus, and the last ten digits of its phones.
struct Sample {
    line: String,
    phones: Vec<String>,
    people: Vec<String>,
}

fn samples(now_s: i64) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (corpus, text) in CORPORA.iter().enumerate() {
        for (n, line) in text.lines().enumerate().filter(|(n, _)| corpus == 0 || n % EVERY == 0) {
            let post: Value = serde_json::from_str(line).unwrap();
            let label = if post["label"].is_object() { &post["label"] } else { &post };
            let phones = label["phones"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let phones: Vec<String> = phones.map(tail).filter(|phone| phone.len() == 10).collect();
            if phones.is_empty() {
                continue;
            }
            let id = 1 + corpus * 10_000 + n;
            let line =
                json!({"owner_id": -700, "post_id": id, "date": now_s, "text": post["text"]}).to_string();
            let people = people(post["text"].as_str().unwrap());
            samples.push(Sample { line, phones, people });
        }
    }
    samples
}

fn tail(phone: &str) -> String {
    let digits: String = phone.chars().filter(char::is_ascii_digit).collect();
    digits.chars().skip(digits.chars().count().saturating_sub(10)).collect()
}

/// Names with a patronymic: those are people.
fn people(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
    let is_patronymic = |word: &str| ["овна", "евна", "ович", "евич"].iter().any(|end| word.ends_with(end));
    words.windows(2).filter(|pair| is_patronymic(pair[1])).map(|pair| pair.join(" ")).collect()
}

/// Digits stay together however they are written: a number is found in any dress.
fn undressed(text: &str) -> String {
    text.chars().filter(|c| !" \u{a0}-–—().+".contains(*c)).collect()
}

fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_named_in_logs_events_metrics_and_alerts() {
    let mut place = Place::new().await;
    place.set("BOT", TOKEN);
    place.set("RUPOR_LOG", "trace");
    // Every channel counts its own failures, so that what is refused is told as an alert.
    place.write(&format!(
        "preset = \"mirror\"\n\
         [accounts.bot]\nplatform = \"telegram\"\ntoken = {{ env = \"BOT\" }}\nrate = 1000\n\
         [channels.good]\naccount = \"bot\"\ntarget = {GOOD}\nrate = 1000\ndedup = \"off\"\n\
         [channels.refused]\naccount = \"bot\"\ntarget = {REFUSED}\nrate = 1000\ndedup = \"off\"\n\
         [channels.ops]\naccount = \"bot\"\ntarget = {OPS}\n\
         [alerts]\nchannel = \"ops\"\n"
    ));
    place.sandbox.arm(&json!({"platform": "telegram", "chat": REFUSED, "kind": "kicked"})).unwrap();
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let samples = samples(i64::try_from(now_s).unwrap());
    assert!(samples.len() > 100, "{}", samples.len());
    let lines: Vec<&str> = samples.iter().map(|sample| sample.line.as_str()).collect();
    std::fs::write(place.folder.path().join("posts.jsonl"), lines.join("\n") + "\n").unwrap();
    place.ok(&["apply", "rupor.toml", "--yes"]).await;
    let at = crate::free_port();
    let node = place.node(&["--listen", &at.to_string()]);
    place.until("the node runs", async |place| place.log().contains(" running ")).await;
    let counts = place.json(&["import", "posts.jsonl", "--preset", "mirror"]).await;
    assert_eq!(counts["stored"].as_u64(), Some(samples.len() as u64), "{counts}");
    let said =
        |place: &Place, chat: i64| place.told().into_iter().filter(|(to, _)| *to == chat.to_string()).count();
    // Two stories may be one of which the other tells the end: then what waits is not said any more.
    let n_told = usize::try_from(counts["enqueued"].as_u64().unwrap()).unwrap() / 2;
    place.until("nearly all are said", async |place| said(place, GOOD) + 5 >= n_told).await;
    place.until("trouble is told", async |place| said(place, OPS) >= 1).await;
    let metrics = tokio::task::spawn_blocking(move || get(at, "/metrics")).await.unwrap();
    assert!(metrics.contains("rupor_"), "{metrics}");
    let events = place.ok(&["events", "--json", "--last", "10000"]).await;
    let alerts = place.ok(&["alert", "list", "--json"]).await;
    let runs = place.ok(&["runs", "--json"]).await;
    let told: Vec<String> =
        place.told().into_iter().filter(|(to, _)| *to == OPS.to_string()).map(|(_, text)| text).collect();
    node.terminate();
    let log = place.log();

    // It says what was read, what it is, and where it went, by names.
    for said in [
        "a post was read source=\"import\"",
        "what=\"lost, ",
        "to=\"good, refused\"",
        "sent to=\"good\"",
        "not sent to=\"refused\"",
    ] {
        assert!(log.contains(said), "{said:?} is not in\n{}", &log[..log.len().min(4_000)]);
    }
    let refused: Vec<&str> = log.lines().filter(|line| line.contains("not sent")).collect();
    assert!(refused.iter().all(|line| line.contains("WARN")), "a failure is a warning: {refused:?}");

    // And of whom nothing is said.
    let written =
        [("log", &log), ("events", &events), ("metrics", &metrics), ("alerts", &alerts), ("runs", &runs)];
    let chat = told.join("\n");
    let sent: String =
        place.told().into_iter().filter(|(to, _)| *to == GOOD.to_string()).map(|(_, text)| text).collect();
    let sent = undressed(&sent);
    let mut n_seen = 0;
    for (what, text) in written.into_iter().chain([("chat of alerts", &chat)]) {
        let text = undressed(text);
        for sample in &samples {
            for phone in &sample.phones {
                assert!(!text.contains(phone.as_str()), "{what} has …{} of {}", &phone[6..], sample.line);
                n_seen += usize::from(sent.contains(phone.as_str()));
            }
            for person in &sample.people {
                assert!(!text.contains(&undressed(person)), "{what} names {person}");
            }
        }
    }
    assert!(n_seen > 100, "the phones were sent to readers, so they were there to be found: {n_seen}");
}
