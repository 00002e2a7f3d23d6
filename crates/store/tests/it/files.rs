//! The SQLite file: locks, permissions, damage, a full disk, and what survives a restart.

use std::path::Path;

use domain::delivery::Status;
use domain::time::Span;
use store::*;

use crate::bot::{echo, said};
use crate::world::{START, message, request};

fn address(folder: &Path) -> Address {
    Address::parse(&format!("sqlite:{}", folder.join("rupor.db").display())).unwrap()
}

fn key(folder: &Path) -> Keyring {
    Keyring::at(&folder.join("rupor.key")).unwrap()
}

async fn open(folder: &Path) -> Result<Store> {
    Store::open(&address(folder), key(folder), Clock::hand(START)).await
}

async fn fresh(folder: &Path) -> Store {
    Store::migrate(&address(folder)).await.unwrap();
    open(folder).await.unwrap()
}

/// The writer thread lets go of the lock a moment after the last handle is dropped.
async fn reopen(folder: &Path) -> Store {
    loop {
        match open(folder).await {
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            other => return other.unwrap(),
        }
    }
}

async fn one_post(store: &Store) -> (domain::ids::WorkspaceId, Enqueued) {
    let ws = store.create_workspace("приют").await.unwrap();
    let token = secrecy::SecretString::from("секретный токен");
    let settings = AccountSettings { proxy: Some("http://u:canary@10.0.0.1:1".into()), ..Default::default() };
    let new = NewAccount { platform: "telegram".into(), name: "бот".into(), token, settings };
    let account_id = store.create_account(ws, new).await.unwrap();
    let new =
        NewChannel {
            account_id, name: "канал".into(), target: "@к".into(), settings: Default::default()
        };
    let channel = store.create_channel(ws, new).await.unwrap();
    (ws, store.enqueue(ws, vec![message("Пропал пёс", &[channel])]).await.unwrap().remove(0))
}

async fn request_leaves(store: &Store, claim: &Claim) {
    let left = store.record_parts(vec![(claim.reference(), PartProgress::Requested)]).await.unwrap();
    assert_eq!(left, [true]);
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (ws, enqueued) = one_post(&store).await;
    let claimed = store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap();
    request_leaves(&store, &claimed.claims[0]).await;
    drop(store);
    let store = reopen(folder.path()).await;
    let id = enqueued.deliveries[0].delivery_id;
    assert_eq!(store.delivery(ws, id).await.unwrap().status, Status::Sending);
    let recovered = store.recover(Whose::Everyone, 10).await.unwrap();
    assert_eq!(recovered, [Recovered { delivery_id: id, status: Status::Retry }], "nobody holds it any more");
    let delivery = store.delivery(ws, id).await.unwrap();
    assert_eq!((delivery.counters.unknowns, delivery.counters.lost_claims), (1, 0), "its request had left");
    assert!(store.audit(ws).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wall_that_a_killed_node_was_reading_is_read_at_once_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let ws = store.create_workspace("приют").await.unwrap();
    let (kind, name, address) = ("vk".to_owned(), "стена".to_owned(), "-101".to_owned());
    let wall = NewSource { kind, name, address, account_id: None, settings: serde_json::json!({}) };
    let id = store.create_source(ws, wall).await.unwrap();
    let lease = Span::from_secs(60);
    assert_eq!(store.due_sources("первый", Seats::any(10), lease).await.unwrap().len(), 1);
    store.start_run(ws, "vk:стена").await.unwrap();
    drop(store);
    let store = reopen(folder.path()).await;
    let due = store.due_sources("второй", Seats::any(10), lease).await.unwrap();
    assert_eq!(due.iter().map(|source| source.source_id).collect::<Vec<_>>(), [id]);
    let run = store.runs(ws, None, 10).await.unwrap().remove(0);
    assert!(run.finished_at.is_some() && run.error.is_some(), "{run:?}");
}

#[tokio::test]
async fn what_had_not_left_goes_on_at_once_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (ws, enqueued) = one_post(&store).await;
    store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap();
    drop(store);
    let store = reopen(folder.path()).await;
    assert_eq!(store.recover(Whose::Everyone, 10).await.unwrap().len(), 1, "nobody holds it any more");
    let again = store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap();
    assert_eq!(again.claims[0].delivery_id, enqueued.deliveries[0].delivery_id);
    assert!(store.audit(ws).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_killed_node_did_for_a_bot_is_taken_up_at_once_and_a_backoff_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (ws, _) = one_post(&store).await;
    let account = store.accounts(ws).await.unwrap()[0].account_id;
    let bot = NewBot {
        name: "магазин".into(),
        accounts: vec![account],
        receive: Receive::Poll,
        operators: None,
        services: Default::default(),
    };
    store.put_bot(ws, bot).await.unwrap();
    let lease = Span::from_secs(30);
    let (calls, turns) = (
        async |store: &Store| store.bot_claim_calls(10, lease, Vec::new()).await.unwrap(),
        async |store: &Store| store.bot_claim_turns(10, lease).await.unwrap(),
    );
    store.bot_receive(ws, account, vec![said("1", "70", "где заказ?")], None).await.unwrap();
    let turn = turns(&store).await.remove(0);
    let call = |service: &str| NewCall { event: 0, service: service.into(), fields: Default::default() };
    let asking = TurnTaken { calls: vec![call("orders"), call("stock"), call("price")], ..echo(&turn) };
    assert_eq!(store.bot_commit_turns(ws, vec![asking]).await.unwrap(), [true]);
    // One call has failed and waits, one has failed and is made again, one is made for the first time.
    let made = calls(&store).await;
    let again = |after| CallEnd::Again { after, reason: "503".into() };
    assert!(store.bot_settle_call(&made[0], again(Span::from_secs(300))).await.unwrap());
    assert!(store.bot_settle_call(&made[1], again(Span::ZERO)).await.unwrap());
    assert_eq!(calls(&store).await.len(), 1);
    assert_eq!(store.lease_bot_accounts("первый", lease, 10).await.unwrap().len(), 1);
    store.bot_receive(ws, account, vec![said("2", "71", "ау")], None).await.unwrap();
    let dead = turns(&store).await.remove(0);
    drop(store);

    let store = reopen(folder.path()).await;
    assert_eq!(store.lease_bot_accounts("второй", lease, 10).await.unwrap().len(), 1, "somebody listens");
    let taken = turns(&store).await;
    assert_eq!(taken.iter().map(|turn| turn.recipient_id).collect::<Vec<_>>(), [dead.recipient_id]);
    assert_eq!(store.bot_commit_turns(ws, vec![echo(&dead)]).await.unwrap(), [false], "the dead one is late");
    let mut services: Vec<_> = calls(&store).await.into_iter().map(|call| call.service).collect();
    services.sort();
    assert_eq!(services, ["price", "stock"], "the service that asked for a wait gets it");
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _store = fresh(folder.path()).await;
    let refused = open(folder.path()).await.unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("stop that one first"), "{refused}");
}

#[tokio::test]
async fn a_reader_looks_on_beside_the_node_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (ws, enqueued) = one_post(&store).await;
    let reader = Store::open_reading(&address(folder.path()), key(folder.path())).await.unwrap();
    let id = enqueued.deliveries[0].delivery_id;
    assert_eq!(reader.delivery(ws, id).await.unwrap().status, Status::Queued);
    store.cancel(ws, vec![id]).await.unwrap();
    assert_eq!(reader.delivery(ws, id).await.unwrap().status, Status::Dead);
    let refused = reader.hold_all(Some("нет")).await.unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused}");
    assert_eq!(store.held().await.unwrap(), None);
    let memory = Address::parse("sqlite::memory:").unwrap();
    assert!(Store::open_reading(&memory, Keyring::ephemeral([7; 32])).await.is_err());
}

#[tokio::test]
async fn tokens_do_not_stand_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    one_post(&store).await;
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let feed = NewSource {
        kind: "feed".into(),
        name: "лента".into(),
        address: "https://u:canary@feed.example/rss?key=canary".into(),
        account_id: None,
        settings: serde_json::json!({}),
    };
    store.create_source(ws, feed).await.unwrap();
    drop(store);
    let store = reopen(folder.path()).await;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for needle in ["секретный токен".as_bytes(), b"canary"] {
            assert!(!bytes.windows(needle.len()).any(|window| window == needle));
        }
    }
    drop(store);
}

#[tokio::test]
async fn a_lost_or_changed_key_is_told_clearly() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    one_post(&store).await;
    drop(store);
    drop(reopen(folder.path()).await);
    let path = folder.path().join("rupor.key");
    let old = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, "11".repeat(32)).unwrap();
    let wrong = eventually(folder.path()).await;
    assert!(wrong.to_string().contains("does not open the tokens"), "{wrong}");
    std::fs::remove_file(&path).unwrap();
    let missing = eventually(folder.path()).await;
    assert!(missing.to_string().contains("put the old key back"), "{missing}");
    std::fs::write(&path, old).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    drop(reopen(folder.path()).await);
}

/// The error of an open that is refused for another reason than a lock that is just being let go.
async fn eventually(folder: &Path) -> StoreError {
    loop {
        match open(folder).await {
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            other => return other.map(drop).unwrap_err(),
        }
    }
}

#[tokio::test]
async fn a_schema_that_is_not_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rupor.db");
    let old = open(folder.path()).await.unwrap_err();
    assert!(old.to_string().contains("rupor migrate"), "{old}");
    let applied = Store::migrate(&address(folder.path())).await.unwrap();
    assert_eq!(applied.len(), migrations::ALL.len());
    assert!(
        Store::migrate(&address(folder.path())).await.unwrap().is_empty(),
        "a second time there is nothing to do"
    );
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE schema_migrations SET checksum = 'x' WHERE version = 2", []).unwrap();
    let drift = Store::migrate(&address(folder.path())).await.unwrap_err();
    assert!(drift.to_string().contains("0002_ledger was changed"), "{drift}");
    raw.execute("INSERT INTO schema_migrations (version, name, checksum) VALUES (99, 'будущее', '')", [])
        .unwrap();
    let newer = Store::migrate(&address(folder.path())).await.unwrap_err();
    assert!(newer.to_string().contains("install the newer rupor"), "{newer}");
}

#[tokio::test]
async fn two_migrators_at_once_apply_each_step_once() {
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let address = address.clone();
        tasks.spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(Store::migrate(&address)).unwrap()
        });
    }
    let mut applied: Vec<i32> = tasks.join_all().await.into_iter().flatten().collect();
    applied.sort_unstable();
    assert_eq!(applied, migrations::ALL.iter().map(|migration| migration.version).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_migration_that_broke_off_goes_on() {
    let (whole, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Store::migrate(&address(whole.path())).await.unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("rupor.db")).unwrap();
    // As if the process had died after the second step.
    raw.execute("ATTACH ? AS whole", [whole.path().join("rupor.db").to_str().unwrap()]).unwrap();
    let steps: String = raw
        .query_row("SELECT sql FROM whole.sqlite_master WHERE name = 'schema_migrations'", [], |row| {
            row.get(0)
        })
        .unwrap();
    raw.execute_batch(&steps).unwrap();
    raw.execute_batch(include_str!("../../migrations/sqlite/0001_workspaces.sql")).unwrap();
    raw.execute_batch(include_str!("../../migrations/sqlite/0002_ledger.sql")).unwrap();
    raw.execute(
        "INSERT INTO main.schema_migrations SELECT * FROM whole.schema_migrations WHERE version <= 2",
        [],
    )
    .unwrap();
    drop(raw);
    assert_eq!(
        Store::migrate(&address(folder.path())).await.unwrap(),
        (3..=migrations::known()).collect::<Vec<_>>()
    );
    drop(open(folder.path()).await.unwrap());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rupor.db"), "это не база данных, а письмо".repeat(100)).unwrap();
    let refused = Store::migrate(&address(folder.path())).await.unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    let nowhere = Address::parse("sqlite:/nowhere/at/all/rupor.db").unwrap();
    let refused = Store::migrate(&nowhere).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoFile { .. }), "{refused}");
    assert!(!refused.to_string().contains("server"), "a file has no server: {refused}");
}

#[tokio::test]
async fn a_full_disk_undoes_the_step_and_goes_on_with_space() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (ws, _) = one_post(&store).await;
    let channel = store.channels(ws).await.unwrap()[0].channel_id;
    let Store::Sqlite(sqlite) = &store else { unreachable!("opened as SQLite") };
    // The same limit that a full disk is: SQLite answers SQLITE_FULL and rolls back by itself.
    sqlite.limit_pages(200).await.unwrap();
    let big = |n: usize| {
        let payload = serde_json::json!("ы".repeat(100_000));
        NewMessage { payload, ..message(&format!("большое {n}"), &[channel]) }
    };
    let mut stored = 0;
    let full = loop {
        match store.enqueue(ws, vec![big(stored)]).await {
            Ok(_) => stored += 1,
            Err(full) => break full,
        }
        assert!(stored < 100, "the limit does not bite");
    };
    assert!(matches!(full, StoreError::DiskFull { .. }), "{full}");
    assert!(store.audit(ws).await.unwrap().is_empty(), "nothing half-written");
    assert_eq!(store.lanes(ws).await.unwrap()[0].counts.queued, 1 + stored as i64);
    sqlite.limit_pages(100_000).await.unwrap();
    store.enqueue(ws, vec![big(stored)]).await.expect("with space it goes on");
}

#[tokio::test]
async fn a_rotated_key_is_found_after_a_crash_at_any_step() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path(), |name: &str| folder.path().join(name));
    let store = fresh(path).await;
    let (ws, _) = one_post(&store).await;
    let old = std::fs::read(file("rupor.key")).unwrap();
    store.rotate_key().await.unwrap();
    let new = std::fs::read(file("rupor.key")).unwrap();
    assert_ne!(old, new);
    assert_eq!(std::fs::read(file("rupor.key.old")).unwrap(), old);
    assert!(!file("rupor.key.next").exists());
    drop(store);
    let token = async |store: &Store| {
        let id = store.accounts(ws).await.unwrap()[0].account_id;
        secrecy::ExposeSecret::expose_secret(&store.account_token(ws, id).await.unwrap()).to_owned()
    };
    assert_eq!(token(&reopen(path).await).await, "секретный токен");
    // Killed when the database had the new key and the files did not.
    std::fs::rename(file("rupor.key"), file("rupor.key.next")).unwrap();
    std::fs::rename(file("rupor.key.old"), file("rupor.key")).unwrap();
    assert_eq!(token(&reopen(path).await).await, "секретный токен");
    assert_eq!(std::fs::read(file("rupor.key")).unwrap(), new, "the files are put right");
    // Killed between the two renames.
    std::fs::rename(file("rupor.key"), file("rupor.key.next")).unwrap();
    assert_eq!(token(&reopen(path).await).await, "секретный токен");
    // A next key that was prepared and never used does no harm.
    let next = key(path).prepare().unwrap();
    assert_eq!(token(&reopen(path).await).await, "секретный токен");
    assert!(next.exists());
}

#[tokio::test]
async fn a_file_that_is_deleted_under_a_running_node_takes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (ws, enqueued) = one_post(&store).await;
    let claimed = store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap();
    let (file, aside) = (folder.path().join("rupor.db"), folder.path().join("aside.db"));
    std::fs::rename(&file, &aside).unwrap();

    let gone = |error: StoreError| assert!(matches!(error, StoreError::FileGone { .. }), "{error}");
    gone(store.now().await.unwrap_err());
    let channel = enqueued.deliveries[0].channel_id;
    let refused = store.enqueue(ws, vec![message("Пропал кот", &[channel])]).await.unwrap_err();
    assert!(refused.to_string().contains("was deleted or replaced"), "{refused}");
    gone(refused);
    gone(store.claim(request(Whose::Everyone, 10, Span::ZERO)).await.unwrap_err());
    let finish = crate::world::finish(&claimed.claims[0], crate::world::sent(&claimed.claims[0]));
    gone(store.commit(vec![finish.clone()]).await.unwrap_err());
    std::fs::copy(&aside, &file).unwrap();
    gone(store.now().await.unwrap_err());

    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(
        store.commit(vec![finish]).await.unwrap(),
        [Finished::Done(Status::Sent)],
        "the very file is back"
    );
}

async fn reopen_at(folder: &Path, at: domain::time::Timestamp) -> Store {
    loop {
        match Store::open(&address(folder), key(folder), Clock::hand(at)).await {
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            other => return other.unwrap(),
        }
    }
}

#[tokio::test]
async fn posts_go_on_after_a_restart_with_a_clock_that_stepped_back_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (ws, first) = one_post(&store).await;
    let (channel, id) = (first.deliveries[0].channel_id, first.deliveries[0].delivery_id);
    let slow = ChannelSettings { rate: Some(0.1), ..ChannelSettings::default() };
    store.change_channel(ws, channel, slow).await.unwrap();
    // One is sent and takes the slot, one fails and waits for its backoff, one is only due, one has a time of its own.
    let claim = store.claim(request(Whose::Everyone, 1, Span::ZERO)).await.unwrap().claims.remove(0);
    store.commit(vec![crate::world::finish(&claim, crate::world::sent(&claim))]).await.unwrap();
    let later = START + Span::from_hours(24);
    let timed = NewMessage { run_at: Some(later), ..message("завтра", &[channel]) };
    let posts = vec![message("Пропал кот", &[channel]), timed];
    let posted = store.enqueue(ws, posts).await.unwrap();
    drop(store);

    let back = START - Span::from_hours(1);
    let store = reopen_at(folder.path(), back).await;
    assert!(store.audit(ws).await.unwrap().is_empty(), "{:?}", store.audit(ws).await);
    let due = store.lanes(ws).await.unwrap()[0].next_at.unwrap();
    assert!(due <= back + Span::from_secs(10), "its slot is one interval away at most, not an hour: {due:?}");
    let clock = Span::from_secs(10);
    drop(store);
    let store = reopen_at(folder.path(), back + clock).await;
    let claim = store.claim(request(Whose::Everyone, 5, Span::ZERO)).await.unwrap().claims;
    assert_eq!(claim.len(), 1, "the one that is due goes at once");
    assert_ne!(claim[0].delivery_id, id);
    let timed = store.delivery(ws, posted[1].deliveries[0].delivery_id).await.unwrap();
    assert_eq!(timed.run_at, Some(later), "a time that somebody named stays");
    let events = store.events(ws, 0, 1_000).await.unwrap();
    let alerts: Vec<_> = events.iter().filter(|event| event.name == "alert").collect();
    assert_eq!(alerts.len(), 1, "said once: {events:?}");
    assert!(alerts[0].detail.to_string().contains("went back by 3600 s"), "{:?}", alerts[0]);
}
