//! What was acknowledged is there after `kill -9`, and after the server was thrown off its feet.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use domain::ids::{ChannelId, DeliveryId, WorkspaceId};
use store::*;

use crate::world::Scratch;

/// A process of its own, so that it can be killed.
fn writer(address: &str, run: usize) -> Child {
    Command::new(env!("CARGO_BIN_EXE_acknowledged"))
        .args([address, &run.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads `n` acknowledged ids and then whatever was printed before `end` took effect.
fn acknowledged(child: &mut Child, n: usize, end: impl FnOnce(&mut Child)) -> Vec<i64> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ids: Vec<i64> = lines.by_ref().take(n).map(|line| line.unwrap().parse().unwrap()).collect();
    end(child);
    // The last line may be cut off in the middle.
    ids.extend(lines.map_while(|line| line.ok()?.parse::<i64>().ok()));
    child.wait().unwrap();
    ids
}

async fn set_up(store: &Store) -> (WorkspaceId, ChannelId) {
    let ws = store.create_workspace("приют").await.unwrap();
    let token = secrecy::SecretString::from("токен");
    let new =
        NewAccount {
            platform: "telegram".into(), name: "бот".into(), token, settings: Default::default()
        };
    let account_id = store.create_account(ws, new).await.unwrap();
    let new =
        NewChannel {
            account_id, name: "канал".into(), target: "@к".into(), settings: Default::default()
        };
    (ws, store.create_channel(ws, new).await.unwrap())
}

async fn all_there(store: &Store, ws: WorkspaceId, ids: &[i64]) {
    let mut found = HashSet::new();
    let mut filter = DeliveryFilter::default();
    loop {
        let page = store.deliveries(ws, filter.clone(), 1_000).await.unwrap();
        found.extend(page.iter().map(|delivery| delivery.delivery_id));
        match page.last() {
            Some(last) => filter.after = Some(last.delivery_id),
            None => break,
        }
    }
    let lost: Vec<_> = ids.iter().filter(|&&id| !found.contains(&DeliveryId(id))).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(store.audit(ws).await.unwrap().is_empty());
}

#[tokio::test]
async fn sqlite_keeps_what_it_acknowledged_before_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("sqlite:{}", folder.path().join("rupor.db").display());
    let address = Address::parse(&text).unwrap();
    Store::migrate(&address).await.unwrap();
    let open = || Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system());
    let (ws, _) = set_up(&open().await.unwrap()).await;
    let mut ids = Vec::new();
    for run in 0..8 {
        wait_for_lock(folder.path());
        let mut child = writer(&text, run);
        ids.extend(acknowledged(&mut child, 3 + 5 * run, |child| child.kill().unwrap()));
    }
    wait_for_lock(folder.path());
    assert!(ids.len() > 100);
    all_there(&open().await.unwrap(), ws, &ids).await;
}

/// The writer thread of a dropped store lets go of the file a moment later.
fn wait_for_lock(folder: &std::path::Path) {
    let lock = std::fs::File::options().write(true).open(folder.join("rupor.db.lock")).unwrap();
    lock.lock().unwrap();
}

#[tokio::test]
async fn postgres_keeps_what_it_acknowledged_before_an_immediate_restart() {
    let server =
        std::env::var("RUPOR_TEST_POSTGRES_DURABLE").expect("RUPOR_TEST_POSTGRES_DURABLE is set by `./test`");
    let scratch = Scratch::create_on(&server).await;
    let address = Address::parse(&scratch.url()).unwrap();
    let open = || Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system());
    let (ws, _) = set_up(&open().await.unwrap()).await;
    let settings = scratch.settings(["fsync", "synchronous_commit"]).await;
    assert_eq!(settings, ["on", "on"], "the durable server is not durable");
    let mut child = writer(&scratch.url(), 0);
    let ids = acknowledged(&mut child, 50, |child| match std::env::var("RUPOR_TEST_POSTGRES_RESTART") {
        Ok(restart) => assert!(Command::new(restart).status().unwrap().success()),
        // A server that is not ours is not thrown off its feet; the writer is.
        Err(_) => child.kill().unwrap(),
    });
    all_there(&open().await.unwrap(), ws, &ids).await;
    Scratch::drop_by_name(&server, &scratch.name).await;
}
