//! What operators change from day to day, on both databases: another name, another chat, another account, off and on, gone.
//! After each the ledger of the platform is read: every post once where it belongs, and nowhere else.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::place::*;

const FIRST: i64 = -1_001_700_000_001;
const SECOND: i64 = -1_001_700_000_002;
const THIRD: i64 = -1_001_700_000_003;

/// Two bots, and the channels that are named.
fn file(channels: &[String]) -> String {
    let bots = "[accounts.bot]\nplatform = \"telegram\"\ntoken = { env = \"TG_TOKEN\" }\n\
                [accounts.other]\nplatform = \"telegram\"\ntoken = { env = \"OTHER_TOKEN\" }\n";
    format!("preset = \"mirror\"\n{bots}{}", channels.concat())
}

fn channel(name: &str, account: &str, target: i64, more: &str) -> String {
    format!("[channels.{name}]\naccount = \"{account}\"\ntarget = {target}\nrate = 1000\n{more}\n")
}

/// How often each text stands in each chat.
fn tally(place: &Place) -> BTreeMap<(i64, String), usize> {
    let mut times = BTreeMap::new();
    for (chat, text) in place.told() {
        *times.entry((chat.parse().unwrap(), text)).or_default() += 1;
    }
    times
}

fn wanted(told: &[(i64, &str)]) -> BTreeMap<(i64, String), usize> {
    told.iter().map(|(chat, text)| ((*chat, (*text).to_owned()), 1)).collect()
}

/// The states of the deliveries of a post by hand.
async fn post(place: &Place, text: &str) -> Vec<String> {
    let said = place.json(&["post", text]).await;
    let deliveries = said["deliveries"].as_array().unwrap().iter();
    deliveries.map(|delivery| delivery["status"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A node works off what waits and ends.
async fn work_off(place: &Place, told: usize) {
    let node = place.node(&[]);
    place.until_told(told).await;
    let nothing_waits = async |place: &Place| {
        let status = place.json(&["status"]).await;
        let idle =
            |line: &Value| line["state"] == "disabled" || (line["waiting"] == 0 && line["sending"] == 0);
        status[0]["channels"].as_array().unwrap().iter().all(idle)
    };
    place.until("nothing waits", nothing_waits).await;
    node.terminate();
}

async fn everyday_changes(mut place: Place) {
    place.set("TG_TOKEN", TOKEN);
    place.set("OTHER_TOKEN", "7701:AAF-canary_0123456789abcdef");
    place.write(&file(&[channel("city", "bot", FIRST, ""), channel("news", "bot", SECOND, "")]));
    place.ok(&["apply"]).await;
    assert_eq!(post(&place, "Первый").await, ["queued", "queued"]);
    work_off(&place, 2).await;
    let mut told = vec![(FIRST, "Первый"), (SECOND, "Первый")];
    assert_eq!(tally(&place), wanted(&told));

    // Another name: what was said is known, what waits is said.
    assert_eq!(post(&place, "Второй").await, ["queued", "queued"]);
    place.write(&file(&[channel("town", "bot", FIRST, ""), channel("news", "bot", SECOND, "")]));
    let renamed = place.ok(&["apply"]).await;
    assert!(renamed.contains("it was called city; its queue and history stay"), "{renamed}");
    assert_eq!(post(&place, "Первый").await, ["deduped", "deduped"]);

    // Another chat: what waits goes there, and nothing more to the old one.
    place.write(&file(&[channel("town", "bot", FIRST, ""), channel("news", "bot", THIRD, "")]));
    let moved = place.ok(&["apply"]).await;
    assert!(moved.contains("1 waiting post will go there"), "{moved}");
    work_off(&place, 4).await;
    told.extend([(FIRST, "Второй"), (THIRD, "Второй")]);
    assert_eq!(tally(&place), wanted(&told));

    // Another account: what waits is sent by that one, and what was said in the chat counts as said.
    assert_eq!(post(&place, "Третий").await, ["queued", "queued"]);
    place.write(&file(&[channel("town", "other", FIRST, ""), channel("news", "bot", THIRD, "")]));
    let moved = place.ok(&["apply"]).await;
    assert!(moved.contains("it moves to account other; 1 waiting post will go out there"), "{moved}");
    assert_eq!(place.ok(&["apply"]).await, "nothing to do\n");
    for text in ["Второй", "Третий"] {
        assert_eq!(post(&place, text).await, ["deduped", "deduped"], "{text}");
    }
    work_off(&place, 6).await;
    told.extend([(FIRST, "Третий"), (THIRD, "Третий")]);
    assert_eq!(tally(&place), wanted(&told));
    let channels = place.json(&["channel", "list"]).await;
    assert_ne!(channels[0]["account_id"], channels[1]["account_id"], "{channels}");

    // Off, and on again: what waited waits, what comes meanwhile is not for it.
    assert_eq!(post(&place, "Четвёртый").await, ["queued", "queued"]);
    let off = channel("news", "bot", THIRD, "enabled = false");
    place.write(&file(&[channel("town", "other", FIRST, ""), off]));
    place.ok(&["apply"]).await;
    assert_eq!(post(&place, "Пятый").await, ["queued"]);
    work_off(&place, 8).await;
    told.extend([(FIRST, "Четвёртый"), (FIRST, "Пятый")]);
    assert_eq!(tally(&place), wanted(&told));
    let on = channel("news", "bot", THIRD, "enabled = true");
    place.write(&file(&[channel("town", "other", FIRST, ""), on]));
    place.ok(&["apply"]).await;
    work_off(&place, 9).await;
    told.push((THIRD, "Четвёртый"));
    assert_eq!(tally(&place), wanted(&told));

    // Gone: what is dropped is counted first, and the others hear everything.
    assert_eq!(post(&place, "Шестой").await, ["queued", "queued"]);
    place.write(&file(&[channel("town", "other", FIRST, "")]));
    let asked = place.refused(&["apply"]).await;
    assert!(asked.contains("1 channel would be removed"), "{asked}");
    let removed = place.ok(&["apply", "--yes"]).await;
    assert!(removed.contains("1 waiting post will be dropped"), "{removed}");
    work_off(&place, 10).await;
    told.push((FIRST, "Шестой"));
    assert_eq!(tally(&place), wanted(&told));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_changes_lose_and_repeat_nothing_on_sqlite() {
    everyday_changes(Place::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_changes_lose_and_repeat_nothing_on_postgres() {
    let mut place = Place::new().await;
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let name = format!("changes_{}", uuid::Uuid::new_v4().simple());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    place.set("RUPOR_DB", &format!("{base}/{name}"));
    place.ok(&["migrate"]).await;
    everyday_changes(place).await;
}
