//! Four people use Rupor for a while, as processes against the sandbox: a volunteer with variables alone, an operator of
//! forty channels in two workspaces, an integrator, and an onlooker.
//!
//! What is judged is the sandbox's ledger: through renaming, retargeting, removing and switching off no post is lost and
//! none is said twice. `case` puts judgements right, `log` looks for people in what the program writes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};

mod case;
mod changes;
mod json;
mod log;
mod place;

use place::*;

fn lost(id: i64, name: &str, phone: i64) -> Value {
    let streets = ["Садовая", "Озёрная", "Кленовая"];
    let street = streets[usize::try_from(id).unwrap() % streets.len()];
    json!({"id": id, "text": format!("Пропала собака {name}! Улица {street}, дом {id}. Телефон +7 975 000-00-{phone}")})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volunteer_with_variables_switches_off_and_on_again() {
    let mut place = Place::new().await;
    let put = |place: &Place, posts: Value| drop(place.sandbox.put_on_wall(-500, posts).unwrap());
    put(&place, json!([lost(1, "Буся", 11), lost(2, "Рекс", 12)]));
    for (name, value) in [
        ("VK_TOKEN", "invented-token-of-the-reader"),
        ("VK_GROUPS", "https://vk.com/club500"),
        ("TG_ENABLED", "true"),
        ("TG_TOKEN", TOKEN),
        ("TG_CHAT", "-1001234567890"),
        ("TG_RATE_PER_SEC", "1000"),
    ] {
        place.set(name, value);
    }
    let before = place.ok(&["check"]).await;
    assert!(before.contains("is not there yet") && before.contains("would read 1 source"), "{before}");
    assert!(before.trim_end().ends_with("checks passed."), "{before}");
    let russian = place.ok(&["check", "--lang", "ru"]).await;
    assert!(russian.contains("Всё в порядке"), "{russian}");

    let node = place.node(&[]);
    place.until_told(2).await;
    node.terminate();

    assert_eq!(place.json(&["source", "list"]).await[0]["name"], "vk/club500");
    assert!(place.ok(&["case", "list"]).await.contains("буся"));
    assert!(place.ok(&["runs", "--last", "5"]).await.contains("vk/club500"));
    let paused = place.json(&["source", "pause", "vk/*"]).await;
    assert_eq!(paused[0]["enabled"], false, "{paused}");
    place.ok(&["source", "resume", "vk/club500"]).await;

    // What is written now is checked, not what was applied before.
    let well = place.ok(&["check"]).await;
    assert!(well.contains("ok   variables: these are checked, not what is in the database"), "{well}");
    for (name, wrong, good, told) in [
        ("TG_TOKEN", "zzz", TOKEN, "account"),
        ("TG_CHAT", "nochat", "-1001234567890", "channel telegram"),
        ("TG_ENABLED", "ja", "true", "TG_ENABLED"),
    ] {
        place.set(name, wrong);
        let checked = place.run(&["check"]).await;
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert_eq!(checked.status.code(), Some(1), "{name}={wrong}: {said}");
        assert!(said.lines().any(|line| line.starts_with("FAIL") && line.contains(told)), "{said}");
        place.set(name, good);
    }

    // Off: the last variable says no, and nothing else asks for anything.
    let groups = place.variables.remove("VK_GROUPS").unwrap();
    place.set("TG_ENABLED", "false");
    let node = place.node(&[]);
    place
        .until("the channel is off", async |place| {
            let listed = place.run(&["channel", "list", "--json"]).await;
            let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            listed[0]["enabled"] == false
        })
        .await;
    node.terminate();
    assert_eq!(place.told().len(), 2, "off is off");
    let stored = place.ok(&["check"]).await;
    assert!(stored.contains("ok   configuration: what is in the database is checked"), "{stored}");

    place.set("VK_GROUPS", &groups);
    place.set("TG_ENABLED", "true");
    put(&place, json!([lost(3, "Мурка", 13)]));
    let node = place.node(&[]);
    place.until_told(3).await;
    node.terminate();
    for name in ["Буся", "Рекс", "Мурка"] {
        let times = place.told().iter().filter(|(_, text)| text.contains(name)).count();
        assert_eq!(times, 1, "{name}: {:?}", place.told());
    }
    assert_eq!(place.told().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_starts_without_a_configuration_hears_what_to_do() {
    let place = Place::new().await;
    let nothing = place.run(&["check"]).await;
    let said = String::from_utf8_lossy(&nothing.stdout).into_owned();
    assert_eq!(nothing.status.code(), Some(1), "{said}");
    assert!(said.contains("$ rupor init"), "{said}");
    let node = place.node(&[]);
    place.until("the log says what to do", async |place| place.log().contains("rupor init")).await;
    node.terminate();
    let made = place.ok(&["init", "--read", "-500", "--to", "telegram=t.me/lost_city"]).await;
    assert!(made.contains("rupor check rupor.toml") && made.contains("TG_TOKEN=…"), "{made}");
    assert!(place.refused(&["init", "--to", "telegram=@other"]).await.contains("--force"));
}

/// Channels `{prefix}1` to `{prefix}20`, each in a chat of its own.
fn twenty(workspace: &str, prefix: &str, from: i64) -> String {
    let mut text = format!(
        "[workspaces.{workspace}]\npreset = \"mirror\"\n\
         [workspaces.{workspace}.accounts.bot]\nplatform = \"telegram\"\ntoken = {{ env = \"TG_TOKEN\" }}\n"
    );
    for n in 1..=20 {
        text += &format!(
            "[workspaces.{workspace}.channels.{prefix}{n}]\naccount = \"bot\"\ntarget = {}\nrate = 1000\n",
            chat(from + n)
        );
    }
    text
}

fn chat(n: i64) -> i64 {
    -1_001_234_560_000 - n
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_forty_channels_renames_retargets_removes_and_stops() {
    let mut place = Place::new().await;
    place.set("TG_TOKEN", TOKEN);
    let (north, south) = (twenty("north", "n", 0), twenty("south", "s", 100));
    place.write(&format!("{north}{south}"));
    place.ok(&["apply"]).await;
    for workspace in ["north", "south"] {
        let said = place.json(&["post", "Ярмарка в субботу", "--workspace", workspace]).await;
        assert_eq!(said["deliveries"].as_array().unwrap().len(), 20, "{said}");
    }

    // Many at once, by a pattern.
    let paused = place.json(&["channel", "pause", "n1*", "--workspace", "north"]).await;
    assert_eq!(paused.as_array().unwrap().len(), 11, "{paused}");
    let said = place.ok(&["channel", "resume", "n1*", "--workspace", "north"]).await;
    assert!(said.contains("Channel n11 resumed"), "{said}");
    let known = place.json(&["workspace", "list"]).await;
    assert_eq!((&known[0]["channels"], &known[1]["channels"]), (&json!(20), &json!(20)), "{known}");

    // n1 gets another name, n2 another chat, n3 goes, and the whole south leaves the file.
    let old = |n: i64| chat(n).to_string();
    let changed = north
        .replace("channels.n1]", "channels.first]\nwas = \"n1\"")
        .replace(&format!("target = {}\n", old(2)), &format!("target = {}\n", old(999)));
    let gone =
        format!("[workspaces.north.channels.n3]\naccount = \"bot\"\ntarget = {}\nrate = 1000\n", old(3));
    assert!(changed.contains(&gone));
    let changed = changed.replace(&gone, "");
    place.write(&changed);
    let dry = place.ok(&["apply", "--dry-run"]).await;
    assert!(dry.contains("it was called n1; its queue and history stay"), "{dry}");
    assert!(dry.contains("remove  channel   north/n3: 1 waiting post will be dropped"), "{dry}");
    let refused = place.refused(&["apply"]).await;
    assert!(
        refused.contains("1 channel would be removed, 1 thing that left the file would stop"),
        "{refused}"
    );
    place.ok(&["apply", "--yes"]).await;
    assert_eq!(place.ok(&["apply"]).await, "nothing to do\n");

    let node = place.node(&[]);
    place.until_told(19).await;
    // The south comes back, and says what it kept.
    place.write(&format!("{changed}{south}"));
    place.ok(&["apply"]).await;
    place.until_told(39).await;
    node.terminate();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (chat, _) in place.told() {
        *times.entry(chat).or_default() += 1;
    }
    let mut wanted: Vec<String> = (1..=20).chain(101..=120).chain([999]).map(old).collect();
    wanted.retain(|chat| ![old(2), old(3)].contains(chat));
    assert_eq!(times.len(), wanted.len(), "{times:?}");
    assert!(wanted.iter().all(|chat| times.get(chat) == Some(&1)), "each chat once: {times:?}");
}

/// A request as a program makes it; the answer's code and body.
fn call(at: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

pub(crate) fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

const ONE: &str = r#"
[accounts.bot]
platform = "telegram"
token = { env = "TG_TOKEN" }

[channels.news]
account = "bot"
target = -1001234567890
preset = "mirror"
rate = 1000
"#;

async fn one_channel() -> (Place, Node, SocketAddr) {
    let mut place = Place::new().await;
    place.set("TG_TOKEN", TOKEN);
    place.write(ONE);
    let at = free_port();
    let node = place.node(&["--config", "rupor.toml", "--listen", &at.to_string()]);
    place.until("it listens", async |_| TcpStream::connect(at).is_ok()).await;
    // The address is taken first, and the file applied after it.
    place.until("it is applied", async |place| place.run(&["channel", "list"]).await.status.success()).await;
    (place, node, at)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_integrator_pushes_repeats_and_is_told_of_mistakes() {
    let (place, node, at) = one_channel().await;
    let token = place.json(&["token", "new", "shop", "--scope", "ingest"]).await;
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let push = async |key: &str, secret: &str, body: &str| {
        let (key, secret, body) = (key.to_owned(), secret.to_owned(), body.to_owned());
        tokio::task::spawn_blocking(move || {
            let headers = [
                ("Authorization", secret.as_str()),
                ("Content-Type", "application/json"),
                ("Idempotency-Key", &key),
            ];
            call(at, "POST", "/v1/messages", &headers, &body)
        })
        .await
        .unwrap()
    };
    let body = r#"{"text": "Заказ 17 готов", "kind": "other"}"#;
    let first = push("order-17", &bearer, body).await;
    assert!((200..300).contains(&first.0), "{first:?}");
    let again = push("order-17", &bearer, body).await;
    assert!((200..300).contains(&again.0), "a repeat of the same call is no mistake: {again:?}");
    let wrong = push("order-18", "Bearer wrong", body).await;
    assert_eq!(wrong.0, 401, "{wrong:?}");
    let broken = push("order-19", &bearer, "{").await;
    assert!((400..500).contains(&broken.0), "{broken:?}");
    // A renamed channel in between loses nothing and repeats nothing.
    place.write(&ONE.replace("[channels.news]", "[channels.board]"));
    place.ok(&["apply"]).await;
    let second = push("order-20", &bearer, r#"{"text": "Заказ 20 готов", "kind": "other"}"#).await;
    assert!((200..300).contains(&second.0), "{second:?}");
    place.until_told(2).await;
    node.terminate();
    let told = place.told();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].1.contains("Заказ 17") && told[1].1.contains("Заказ 20"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_onlooker_sees_everything_and_changes_nothing() {
    let (place, node, at) = one_channel().await;
    place.ok(&["post", "Ярмарка в субботу"]).await;
    place.until_told(1).await;
    let page = tokio::task::spawn_blocking(move || call(at, "GET", "/", &[], "")).await.unwrap();
    assert_eq!(page.0, 200, "{page:?}");
    assert!(page.1.contains("<html"), "{}", page.1);
    let mut state = Value::Null;
    place
        .until("the board shows it as sent", async |_| {
            let asked = tokio::task::spawn_blocking(move || call(at, "GET", "/board/state", &[], ""));
            state = serde_json::from_str(&asked.await.unwrap().1).unwrap();
            let posts = state["posts"].as_object().unwrap();
            posts.len() == 1 && posts.values().all(|post| post["went"] == json!([1, 0, 0, 0]))
        })
        .await;
    let shown = state["posts"].as_object().unwrap().values().next().unwrap();
    assert_eq!((&shown["text"], &state["trouble"]), (&json!("Ярмарка в субботу"), &json!({})), "{state}");
    let pushed = tokio::task::spawn_blocking(move || call(at, "POST", "/", &[], "{}")).await.unwrap();
    assert!((400..500).contains(&pushed.0), "{pushed:?}");
    let (english, russian) = (place.ok(&["why", "1"]).await, place.ok(&["why", "1", "--lang", "ru"]).await);
    assert!(english.contains("recognised") && russian.contains("распознано"), "{english}{russian}");
    // The language changes what people read, and nothing that programs read.
    let mut json = [place.json(&["why", "1"]).await, place.json(&["why", "1", "--lang", "ru"]).await];
    for story in &mut json {
        without_time(story);
    }
    assert_eq!(json[0], json[1]);
    let check =
        [place.run(&["status", "--check"]).await, place.run(&["status", "--check", "--lang", "ru"]).await];
    assert_eq!(check.map(|done| done.status.code()), [Some(0), Some(0)], "all is well");
    node.terminate();
    assert_eq!(place.run(&["status", "--check"]).await.status.code(), Some(1), "nobody sends");
    assert_eq!(place.run(&["status"]).await.status.code(), Some(0), "who only looks is not told off");
    assert_eq!(place.told().len(), 1, "looking says nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volunteer_has_the_first_alert_in_a_chat_by_variables_alone() {
    let mut place = Place::new().await;
    let ops = "-1009750000077";
    for (name, value) in [("TG_ENABLED", "true"), ("TG_TOKEN", TOKEN), ("TG_CHAT", "-1009750000011")] {
        place.set(name, value);
    }
    place.set("RUPOR_ALERT_TG_CHAT", ops);
    let node = place.node(&[]);
    place
        .until("the way is there", async |place| {
            let channels = place.run(&["channel", "list", "--json"]).await;
            channels.status.success() && String::from_utf8_lossy(&channels.stdout).contains("alerts/")
        })
        .await;
    let sent = place.ok(&["alert", "test"]).await;
    place.until_told(1).await;
    let told = place.told();
    assert!(told[0].0 == ops && told[0].1.contains("test"), "{told:?} {sent}");
    node.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_looks_at_a_workspace_and_its_door_and_stops_it() {
    let mut place = Place::new().await;
    place.set("TG_TOKEN", TOKEN);
    place.set("DOOR", "secret-of-the-door-0123456789");
    place.write(&format!("{ONE}[endpoints.site]\nkind = \"push\"\nsecret = {{ env = \"DOOR\" }}\n"));
    place.ok(&["apply", "--yes"]).await;
    let shown = place.ok(&["workspace", "show", "default"]).await;
    assert!(shown.contains("channels   news") && shown.contains("sending    open"), "{shown}");
    let stopped = place.ok(&["workspace", "pause", "default", "--reason", "пожар"]).await;
    assert!(stopped.contains("stopped for workspace default (пожар)"), "{stopped}");
    let shown = place.ok(&["workspace", "show", "default"]).await;
    assert!(
        shown.contains("sending    stopped") && shown.contains("$ rupor workspace resume default"),
        "{shown}"
    );
    place.ok(&["workspace", "resume", "default"]).await;
    assert_eq!(place.json(&["workspace", "show", "default"]).await["held"], false);
    place.ok(&["endpoint", "pause", "site"]).await;
    let door = place.ok(&["endpoint", "show", "site"]).await;
    assert!(door.contains("endpoint  site") && door.contains("$ rupor endpoint resume site"), "{door}");
    let made = place.ok(&["token", "new", "n8n", "--scope", "adapter"]).await;
    assert!(made.contains("warning: the scope adapter") && made.contains("in every workspace"), "{made}");
}

/// Two looks are at two moments.
fn without_time(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("now");
            fields.values_mut().for_each(without_time);
        }
        Value::Array(items) => items.iter_mut().for_each(without_time),
        _ => {}
    }
}
