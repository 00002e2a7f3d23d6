//! Everything that reads foreign bytes, driven with seeded mutation: a short walk in every build, a long one on demand.
//!
//! `RUPOR_FUZZ_RUNS=1000000 RUPOR_FUZZ_SEED=7 cargo test --release -p rupor --bin rupor fuzz:: -- --nocapture`
//! An input that brings an entry down is written to `fuzz/crashes/ENTRY`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;
use store::{
    AccountSettings, Address, ChannelSettings, Clock, Keyring, NewAccount, NewChannel, NewMessage, Store,
    StoreError,
};

use mutate::Mutator;

#[path = "../../../fuzz/entries/answers.rs"]
mod answers;
#[path = "../../../fuzz/entries/content.rs"]
mod content;
#[path = "../../../fuzz/entries/feeds.rs"]
mod feeds;
#[path = "../../../fuzz/entries/guard.rs"]
mod guard;
#[path = "../../../fuzz/entries/incoming.rs"]
mod incoming;
#[path = "../../../fuzz/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/entries/pictures.rs"]
mod pictures;
#[path = "../../../fuzz/entries/render.rs"]
mod render;

/// Executions of each entry in an ordinary build.
const RUNS: usize = 2_000;

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(of)
}

fn corpus(entry: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder("corpus").join(entry)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(seeds.len() >= 4, "the corpus of {entry} is gone");
    seeds
}

/// Runs an entry on its seeds and on what becomes of them.
fn drive(entry: &str, seeds: Vec<Vec<u8>>, mut run: impl FnMut(&[u8])) {
    let runs = number("RUPOR_FUZZ_RUNS").unwrap_or(RUNS);
    let seed = number("RUPOR_FUZZ_SEED").unwrap_or(1);
    let mut mutator = Mutator::new(seed as u64, seeds.clone());
    let started = Instant::now();
    let mut once = |input: Vec<u8>| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&input))) {
            std::fs::create_dir_all(folder("crashes")).unwrap();
            std::fs::write(folder("crashes").join(entry), &input).unwrap();
            resume_unwind(panic);
        }
    };
    seeds.into_iter().for_each(&mut once);
    for _ in 0..runs {
        once(mutator.next_input());
    }
    if runs > RUNS {
        let seconds = started.elapsed().as_secs_f64();
        tell(&format!("fuzz {entry}: {runs} executions, seed {seed}, {seconds:.0} s, no failure"));
    }
}

fn tell(text: &str) {
    eprintln!("{text}");
}

#[test]
fn feeds() {
    drive("feeds", corpus("feeds"), feeds::run);
}

#[test]
fn addresses_before_the_guard() {
    drive("guard", corpus("guard"), guard::run);
}

#[test]
fn pictures() {
    drive("pictures", corpus("pictures"), pictures::run);
}

#[test]
fn updates_and_hooks_of_platforms() {
    drive("incoming", corpus("incoming"), incoming::run);
}

#[test]
fn answers_of_platforms() {
    drive("answers", corpus("answers"), answers::run);
}

#[test]
fn posts_on_their_way_out() {
    drive("render", corpus("render"), render::run);
}

#[test]
fn words_of_people() {
    drive("content", corpus("content"), content::run);
}

#[test]
fn bodies_of_webhooks() {
    drive("webhook", corpus("webhook"), |bytes| {
        let Ok(posts) = crate::http::api::posts(bytes, 1_763_190_000) else { return };
        assert!((1..=100).contains(&posts.len()));
        for post in posts {
            assert!(post.photos.iter().chain(&post.url).all(|url| domain::message::is_web_address(url)));
            assert!(post.text.chars().count() <= 50_000 && post.date.is_none_or(|date| date >= 0));
        }
    });
}

#[test]
fn forms_with_photos() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut headers = axum::http::HeaderMap::new();
    let kind = axum::http::HeaderValue::from_static("multipart/form-data; boundary=one");
    headers.insert(axum::http::header::CONTENT_TYPE, kind);
    let (mut n_read, mut n_photos) = (0, 0);
    drive("form", corpus("form"), |bytes| {
        let read = runtime.block_on(crate::http::api::form(&headers, bytes.to_vec()));
        let Ok((fields, photos)) = read else { return };
        assert!(fields.is_object() && photos.len() <= 10);
        for (name, bytes) in &photos {
            assert!((1..=200).contains(&name.chars().count()) && !name.chars().any(char::is_control));
            assert!(engine::ingest::check_bytes(name, bytes).is_ok());
        }
        (n_read, n_photos) = (n_read + 1, n_photos + photos.len());
    });
    assert!(n_read > 5 && n_photos > 3, "the seeds themselves are read: {n_read}, {n_photos}");
}

#[test]
fn lines_of_the_control_socket() {
    drive("verbs", corpus("verbs"), |bytes| {
        let line = String::from_utf8_lossy(bytes);
        let Ok(verb) = serde_json::from_str::<crate::operate::verb::Verb>(&line) else { return };
        let again = serde_json::to_string(&verb).unwrap();
        assert_eq!(serde_json::from_str::<crate::operate::verb::Verb>(&again).unwrap(), verb, "{again}");
    });
}

#[test]
fn configuration_files() {
    let example = include_str!("../../../rupor.example.toml").as_bytes().to_vec();
    let city = include_str!("demo/city.toml").as_bytes().to_vec();
    let pieces = example.chunks(700).map(<[u8]>::to_vec).chain([example.clone(), city]);
    // Names that tell how a node runs hold no secrets, and may be shown.
    let is_secret = |name: &str| name.len() < 40 && !name.starts_with("RUPOR_PLATFORM");
    let variables = |name: &str| is_secret(name).then(|| "invented-0123456789-0123456789".to_owned());
    drive("config", pieces.collect(), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let shown = match crate::config::from_text(&text, "rupor.toml", &variables) {
            Ok(config) => format!("{config:?}"),
            Err(problems) => problems.to_string(),
        };
        assert!(!shown.contains("invented-0123456789"), "a secret is shown: {shown}");
    });
}

/// Whatever is handed to the ledger as JSON is kept as it is or refused; the ledger stays sound.
fn json_for_the_ledger(address: &str, batch: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (store, workspace) = runtime.block_on(async {
        let address = Address::parse(address).unwrap();
        Store::migrate(&address).await.unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let workspace = store.create_workspace(&format!("fuzz {}", uuid::Uuid::new_v4())).await.unwrap();
        let account = NewAccount {
            platform: "telegram".into(),
            name: "бот".into(),
            token: "42:invented".into(),
            settings: AccountSettings::default(),
        };
        let account_id = store.create_account(workspace, account).await.unwrap();
        let settings = ChannelSettings::default();
        let new = NewChannel { account_id, name: "канал".into(), target: "-1001".into(), settings };
        store.create_channel(workspace, new).await.unwrap();
        (store, workspace)
    });
    let channel = runtime.block_on(store.channels(workspace)).unwrap()[0].channel_id;
    let mut waiting: Vec<NewMessage> = Vec::new();
    let mut n = 0_u64;
    drive("enqueue", corpus("enqueue"), |bytes| {
        let Ok(mut message) = serde_json::from_slice::<NewMessage>(bytes) else { return };
        n += 1;
        message.origin_id = format!("{n} {}", message.origin_id);
        message.channels.iter_mut().filter(|id| id.0 == 1).for_each(|id| *id = channel);
        waiting.push(message);
        if waiting.len() >= batch {
            runtime.block_on(enqueued(&store, workspace, std::mem::take(&mut waiting)));
        }
    });
    let wrong = runtime.block_on(store.audit(workspace)).unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
}

async fn enqueued(store: &Store, workspace: domain::ids::WorkspaceId, batch: Vec<NewMessage>) {
    match store.enqueue(workspace, batch.clone()).await {
        Ok(_) => {
            for message in batch {
                let kept =
                    store.message_by_origin(workspace, &message.source, &message.origin_id).await.unwrap();
                let kept: Value = kept.unwrap_or_else(|| panic!("{message:?} is gone")).payload;
                assert_eq!(kept, message.payload);
            }
        }
        Err(StoreError::Database(problem)) if !is_about_the_input(&problem) => panic!("{problem}: {batch:?}"),
        Err(_) => {}
    }
}

/// Refused by a type or a CHECK: numbers beyond the column, NUL in a text, a word that is not in a list.
fn is_about_the_input(problem: &str) -> bool {
    let codes = ["(22", "(23", "constraint failed", "out of range"];
    codes.iter().any(|code| problem.contains(code))
}

#[test]
fn json_for_sqlite() {
    json_for_the_ledger("sqlite::memory:", 1);
}

/// The same through the functions of PostgreSQL, which take it as JSON.
#[test]
fn json_for_postgres() {
    let Ok(server) = std::env::var("RUPOR_TEST_POSTGRES") else { return };
    let name = format!("fuzz_{}", uuid::Uuid::new_v4().simple());
    let (base, _) = server.rsplit_once('/').unwrap();
    let on_server = |sql: String| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
            let talking = tokio::spawn(connection);
            client.batch_execute(&sql).await.unwrap();
            talking.abort();
        });
    };
    on_server(format!("CREATE DATABASE {name}"));
    let done = catch_unwind(|| json_for_the_ledger(&format!("{base}/{name}"), 4));
    on_server(format!("DROP DATABASE {name} WITH (FORCE)"));
    if let Err(panic) = done {
        resume_unwind(panic);
    }
}
