//! The disk under a SQLite file: who may read it, damage to it, and what can be saved.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::sqlite::damage;
use store::*;

use crate::world::message;

fn path(folder: &Path) -> address::SqlitePath {
    address::SqlitePath::File(folder.join("rupor.db"))
}

async fn open(path: &address::SqlitePath, folder: &Path) -> Result<Store> {
    let address = Address::Sqlite(path.clone());
    loop {
        let key = Keyring::at(&folder.join("rupor.key")).unwrap();
        match Store::open(&address, key, Clock::system()).await {
            // The writer thread lets go of the lock a moment after the last handle is dropped.
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            opened => return opened,
        }
    }
}

/// A set-up with so many posts, one picture and a channel.
async fn filled(folder: &Path, posts: usize) -> (Store, domain::ids::WorkspaceId) {
    Store::migrate(&Address::Sqlite(path(folder))).await.unwrap();
    let store = open(&path(folder), folder).await.unwrap();
    let ws = store.create_workspace("приют").await.unwrap();
    let token = secrecy::SecretString::from("42:токен");
    let new =
        NewAccount {
            platform: "telegram".into(), name: "бот".into(), token, settings: Default::default()
        };
    let account_id = store.create_account(ws, new).await.unwrap();
    let new =
        NewChannel {
            account_id, name: "канал".into(), target: "@к".into(), settings: Default::default()
        };
    let channel = store.create_channel(ws, new).await.unwrap();
    for n in 0..posts {
        let payload = serde_json::json!({"text": format!("пост {n} {}", "ы".repeat(1_500))});
        let post = NewMessage { payload, ..message(&format!("пост {n}"), &[channel]) };
        store.enqueue(ws, vec![post]).await.unwrap();
    }
    (store, ws)
}

fn exposed(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            found.push(format!("{} {mode:o}", entry.path().display()));
        }
        if entry.path().is_dir() {
            found.extend(exposed(&entry.path()));
        }
    }
    found
}

#[tokio::test]
async fn nobody_else_can_read_or_lock_a_file_of_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (store, ws) = filled(folder.path(), 3).await;
    store.put_media_origin(ws, crate::media::media(7)).await.unwrap();
    store.watch_space().await.unwrap();
    sqlite::backup::backup(&path(folder.path()), &folder.path().join("backup.db")).await.unwrap();
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    for name in ["rupor.db", "rupor.db-wal", "rupor.db.lock", "rupor.db.media", "rupor.key", "backup.db"] {
        assert!(names.iter().any(|found| found == name), "{name} is missing in {names:?}");
    }
    assert_eq!(exposed(folder.path()), Vec::<String>::new());
    drop(store);
}

/// Overwrites a page in the middle of the table of messages, as a failing disk does.
fn damage_messages(folder: &Path) {
    let file = folder.join("rupor.db");
    let raw = rusqlite::Connection::open(&file).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'messages'";
    let root: i64 = raw.query_row(root, [], |row| row.get(0)).unwrap();
    drop(raw);
    let mut bytes = std::fs::read(&file).unwrap();
    let start = (root as usize - 1) * 4_096;
    assert_eq!(bytes[start], 5, "the root of a table that has grown");
    // The cell pointers follow the head of twelve bytes; the page of the third child is thrown away.
    let cell = start + usize::from(u16::from_be_bytes([bytes[start + 16], bytes[start + 17]]));
    let child = u32::from_be_bytes(bytes[cell..cell + 4].try_into().unwrap()) as usize;
    bytes[(child - 1) * 4_096..child * 4_096].fill(0xAA);
    std::fs::write(&file, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_seen_and_what_can_be_read_is_saved_and_held() {
    let folder = tempfile::tempdir().unwrap();
    let (store, ws) = filled(folder.path(), 60).await;
    store.look_for_damage().await.expect("it is sound");
    assert_eq!(damage::check(&path(folder.path())).await.unwrap(), Vec::<String>::new());
    drop(store);
    drop(open(&path(folder.path()), folder.path()).await.unwrap());
    damage_messages(folder.path());

    let store = open(&path(folder.path()), folder.path()).await.unwrap();
    let seen = store.look_for_damage().await.unwrap_err();
    assert!(matches!(seen, StoreError::Corrupt { .. }), "{seen:?}");
    assert!(seen.to_string().contains("rupor db repair"), "{seen}");
    let Health::Ill(illness) = store.health() else { panic!("{:?}", store.health()) };
    assert_eq!(illness.kind, "the database is damaged");
    store.probe().await.unwrap();
    assert!(matches!(store.health(), Health::Ill(_)), "a write does not mend it");
    drop(store);
    assert!(!damage::check(&path(folder.path())).await.unwrap().is_empty());

    let saved = address::SqlitePath::File(folder.path().join("saved.db"));
    let repaired = loop {
        match damage::repair(&path(folder.path()), &folder.path().join("saved.db")).await {
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            done => break done.unwrap(),
        }
    };
    assert!(repaired.broken.contains(&"messages"), "{repaired:?}");
    let store = open(&saved, folder.path()).await.unwrap();
    let kept = store.messages(ws, 0, 100).await.unwrap().len();
    assert!((40..60).contains(&kept), "one page of messages is lost, and only that: {kept}");
    assert!(store.held().await.unwrap().unwrap().contains("rupor release"));
    assert_eq!(store.accounts(ws).await.unwrap().len(), 1);
    assert_eq!(damage::check(&saved).await.unwrap(), Vec::<String>::new(), "nothing refers to what is lost");
}

#[tokio::test]
async fn a_probe_writes_for_real() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = filled(folder.path(), 1).await;
    let wal = || std::fs::metadata(folder.path().join("rupor.db-wal")).unwrap().len();
    let before = wal();
    store.look().await.unwrap();
    assert_eq!(wal(), before, "a look writes nothing");
    store.probe().await.unwrap();
    assert!(wal() > before);
}

#[tokio::test]
async fn a_file_laid_out_where_a_backup_is_written_gets_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = filled(folder.path(), 1).await;
    let (victim, to) = (folder.path().join("victim"), folder.path().join("backup.db"));
    std::fs::write(&victim, "nothing of yours").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o666)).unwrap();
    std::os::unix::fs::symlink(&victim, folder.path().join("backup.db.new")).unwrap();
    sqlite::backup::backup(&path(folder.path()), &to).await.unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "nothing of yours");
    let made = std::fs::symlink_metadata(&to).unwrap();
    assert!(made.is_file(), "{made:?}");
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
    drop(store);
}
