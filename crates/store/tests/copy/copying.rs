//! One database into another: everything arrives as it was, or nothing does.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use domain::content::cases::Sketch;
use domain::content::{Post, analyse};
use domain::outcome::Scope;
use rusqlite::types::Value as Sql;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store::copy::{TABLES, copy};
use store::*;

use crate::world::*;

fn file(folder: &Path, name: &str) -> Address {
    Address::parse(&format!("sqlite:{}", folder.join(name).display())).unwrap()
}

async fn opened(address: &Address) -> Store {
    Store::open(address, Keyring::ephemeral([7; 32]), Clock::hand(START)).await.unwrap()
}

/// Both schemas, as they are, have the tables of the list and no others, and the same columns but for the named ones.
#[tokio::test]
async fn the_list_of_tables_is_that_of_both_schemas() {
    let folder = tempfile::tempdir().unwrap();
    Store::migrate(&file(folder.path(), "r.db")).await.unwrap();
    let sqlite = rusqlite::Connection::open(folder.path().join("r.db")).unwrap();
    let scratch = Scratch::create().await;
    let postgres = connect(&scratch.url()).await;
    let mut listed: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    listed.sort_unstable();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
                  AND name NOT IN ('schema_migrations', 'nodes') ORDER BY name";
    assert_eq!(names(&sqlite, sql), listed);
    let sql = "SELECT relname::text FROM pg_class
                WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
                  AND relname NOT IN ('schema_migrations', 'schema_functions', 'nodes', 'test_clock') ORDER BY relname COLLATE \"C\"";
    let rows = postgres.query(sql, &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), listed);
    for table in TABLES {
        let sql = format!("SELECT name FROM pragma_table_info('{}') ORDER BY name", table.name);
        let mut expected = names(&sqlite, &sql);
        expected.extend(table.derived.iter().map(|(name, _)| (*name).to_owned()));
        expected.sort_unstable();
        let sql = "SELECT attname::text FROM pg_attribute
                    WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname COLLATE \"C\"";
        let rows = postgres.query(sql, &[&table.name]).await.unwrap();
        let columns: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(columns, expected, "{}", table.name);
    }
    drop(postgres);
    scratch.drop_database().await;
}

fn names(connection: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect()
}

/// A database that has seen everything that may happen to one.
async fn lived(path: &Path) {
    let w = World::sqlite_at(path).await;
    let account = w.account().await;
    w.account_with(AccountSettings { rate: Some(2.5), ..Default::default() }).await;
    // A program wants to hear what becomes of deliveries.
    w.account_with(AccountSettings { tier: store::TIER_CALLBACKS.into(), ..Default::default() }).await;
    let case = ChannelSettings { dedup: DedupMode::Case, ..Default::default() };
    let (first, second) = (w.channel_with(account, case.clone()).await, w.channel_with(account, case).await);
    let (plain, paused) = (w.channel(account).await, w.channel(account).await);
    let channels = [first, second];
    w.store.put_media_origin(w.ws, media(7)).await.unwrap();
    w.store.put_media_origin(w.ws, media(9)).await.unwrap();
    w.store.put_media_handles(w.ws, account, vec![handle(7)]).await.unwrap();
    w.store.begin_look(w.ws, "https://фото.example/1.jpg").await.unwrap();
    let posts = vec![
        post(-1, 10, "Пропала собака, такса Буся, Тюмень, улица Ямская. 8 901 000-00-11", &channels),
        post(-2, 20, "Пропала собака, такса Буся, Тюмень, улица Ямская. 8 901 000-00-11", &channels),
        post(-1, 11, "Найден кот, серый, Омск, улица Садовая. Ищем хозяев. 8 901 000-00-22", &channels),
    ];
    w.store.ingest(w.ws, posts, None).await.unwrap();
    let held = Some(Held { channels: vec![first], why: "в чём дело, неясно".into() });
    let unsure = NewPost { held, ..post(-1, 12, "Собака. Фото", &[]) };
    w.store.ingest(w.ws, vec![unsure], None).await.unwrap();
    // Sent, to be tried again, dead and requeued, out at this moment, and waiting for ever.
    w.post("раз", &[plain]).await;
    let claims = w.claim(10).await;
    w.sent(&claims[0]).await;
    w.fail(&claims[1], transient(Scope::Delivery)).await;
    let failed = w.fail(&claims[2], permanent(Scope::Delivery)).await;
    assert_eq!(failed, Finished::Done(domain::delivery::Status::FailedPermanent));
    w.store.requeue(w.ws, vec![claims[2].delivery_id]).await.unwrap();
    w.store.pause_channel(w.ws, paused, domain::time::Timestamp::NEVER, "ремонт").await.unwrap();
    w.post("два", &[paused, plain]).await;
    w.claim_one().await;
    let wall = NewSource {
        kind: "vk".into(),
        name: "стена".into(),
        address: "-1".into(),
        account_id: Some(account),
        settings: json!({"city": "Тюмень", "ё": [1, 2.5, null, true]}),
    };
    w.store.create_source(w.ws, wall).await.unwrap();
    let trouble = NewAlert {
        key: "channel:1".into(),
        kind: "channel_kicked".into(),
        severity: Severity::Act,
        words: json!({"headline": "канал закрыт", "help": ["$ rupor channel resume"]}),
        told: true,
    };
    w.store.watch(w.ws, vec![trouble], "узел", domain::time::Span::ZERO).await.unwrap();
    let token = secrecy::SecretString::from("rupor_длинный-и-случайный");
    w.store.create_api_token(w.ws, "касса", &token, vec![ApiScope::Read]).await.unwrap();
    let run = w.store.start_run(w.ws, "vk:-1").await.unwrap();
    w.store.finish_run(w.ws, run, RunCounts { seen: 3, ..Default::default() }, None).await.unwrap();
    let door = NewEndpoint {
        name: "дверь".into(),
        kind: "push".into(),
        secret: "секрет двери, которого никто не знает".to_owned().into(),
        settings: json!({}),
    };
    let door = w.store.create_endpoint(w.ws, door).await.unwrap();
    w.store.keep_receipt(w.ws, door, "42", "хэш", json!({"ids": [1]})).await.unwrap();
    w.store.advance_epoch(7).await.unwrap();
    w.check().await;
    close(w, path).await;
    fill_the_rest(path);
}

/// Rows of tables that no verb of the store writes yet, and ids that are given and gone.
fn fill_the_rest(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(
            "INSERT INTO platform_limits (workspace_id, platform, group_id, rate) VALUES (1, 'telegram', 1, 0.1);
             INSERT INTO case_pictures (workspace_id, key, across, down, case_id, last_seen_at) VALUES (1, -5, -9223372036854775808, 3, 1, 4);
             INSERT INTO message_media (workspace_id, sha256, message_id) VALUES (1, 'ab', 1) ON CONFLICT DO NOTHING;
             INSERT INTO audiences (audience_id, workspace_id, name, filter, created_at) VALUES (1, 1, 'свои', '{\"all\": [\"город:Тверь\"]}', 5);
             INSERT INTO audience_recipients (workspace_id, audience_id, recipient_id) VALUES (1, 1, 77);
             INSERT INTO campaigns (campaign_id, workspace_id, name, audience_id, accounts, seed, created_at, n_total, n_excluded)
             VALUES (1, 1, 'рассылка', 1, '[1]', 'семя', 5, 1, 1);
             INSERT INTO campaign_variants (workspace_id, campaign_id, variant, name, message_id) VALUES (1, 1, 0, 'a', 1);
             INSERT INTO campaign_cohorts (workspace_id, campaign_id, account_id, zone, stage) VALUES (1, 1, 1, '', 'rest');
             INSERT INTO campaign_recipients (workspace_id, campaign_id, recipient_id, account_id, platform, user_id, state, reason)
             VALUES (1, 1, 77, 1, 'telegram', '77', 'excluded', 'stopped');
             INSERT INTO campaign_codes (workspace_id, campaign_id, code, n) VALUES (1, 1, 'stopped', 1);
             INSERT INTO campaign_progress VALUES (1, 1, 5, 0, 0, 0, 0, 0, 1);
             INSERT INTO recipients (workspace_id, account_id, platform, user_id, address, status, status_at, created_at)
             VALUES (1, 1, 'telegram', '77', '77', 'active', 6, 6), (1, 1, 'telegram', '78', '78', 'gone', 8, 6);
             INSERT INTO suppressions (workspace_id, platform, user_id, reason, origin, at) VALUES (1, 'telegram', '78', 'blocked', 'platform', 8);
             INSERT INTO bots (workspace_id, name, active_version, created_at) VALUES (1, 'магазин', 1, 7);
             INSERT INTO bot_accounts (account_id, workspace_id, bot_id, receive, cursor) VALUES (1, 1, 1, 'poll', '5');
             INSERT INTO bot_rules (workspace_id, bot_id, version, rules, created_at) VALUES (1, 1, 1, 'если', 7);
             INSERT INTO bot_inbox (workspace_id, account_id, recipient_id, event_key, kind, body, happened_at, received_at)
             VALUES (1, 1, 1, 'к', 'text', '{\"a\": \"я\"}', 8, 8);
             INSERT INTO bot_state (recipient_id, workspace_id, account_id, updated_at, token) VALUES (1, 1, 1, 9, x'000102030405060708090a0b0c0d0e0f');
             INSERT INTO bot_outbox (workspace_id, recipient_id, inbox_id, n, kind, created_at) VALUES (1, 1, 1, 0, 'reply', 10);
             INSERT INTO bot_logs (workspace_id, account_id, recipient_id, inbox_id, at, version, verdict) VALUES (1, 1, 1, 1, 11, 1, 'rule');
             INSERT INTO bot_chats (workspace_id, account_id, chat, seen_at) VALUES (1, 1, '-5', 12);
             UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'deliveries';",
        )
        .unwrap();
}

fn media(byte: u8) -> NewMedia {
    NewMedia {
        sha256: format!("{byte:02x}").repeat(32),
        mime: "image/jpeg".into(),
        bytes: Bytes::from(vec![byte; 300]),
        width: Some(20),
        height: None,
        picture_hash: Some("00ff".into()),
        source_url: None,
    }
}

fn handle(byte: u8) -> StoredHandle {
    let sha256 = media(byte).sha256;
    StoredHandle { sha256, kind: "photo".into(), handle: "AgAC".into(), expires_at: None }
}

fn post(owner: i64, id: i64, text: &str, channels: &[domain::ids::ChannelId]) -> NewPost {
    let date = START.0 / 1_000_000;
    let read = Post { owner_id: owner, post_id: id, date, text: text.into(), ..Post::default() };
    let analysis = analyse(&read);
    let sketch = Sketch::new(&read, &analysis.facts, &analysis.cleaned, &[]);
    let message = NewMessage {
        source: format!("vk:{owner}"),
        origin_id: id.to_string(),
        content_hash: format!("hash of {text}"),
        kind: sketch.kind.name().into(),
        payload: json!({"text": text}),
        ..message("", channels)
    };
    NewPost { message, sketch: Some(sketch), held: None }
}

/// The writer thread lets go of the lock a moment after the last handle is dropped.
async fn close(world: World, path: &Path) {
    drop(world);
    let lock = std::fs::File::open(path.with_extension("db.lock")).unwrap();
    tokio::task::spawn_blocking(move || lock.lock().unwrap()).await.unwrap();
}

/// Every row of every table, in an order of its own; JSON by what it says.
fn dump(path: &Path) -> BTreeMap<&'static str, Vec<Vec<String>>> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut tables = BTreeMap::new();
    for table in TABLES {
        let mut statement = connection.prepare(&format!("SELECT * FROM {}", table.name)).unwrap();
        let width = statement.column_count();
        let cell = |value: Sql| match value {
            Sql::Text(text) => match serde_json::from_str::<Value>(&text) {
                Ok(json @ (Value::Object(_) | Value::Array(_))) => json.to_string(),
                _ => format!("{text:?}"),
            },
            other => format!("{other:?}"),
        };
        let rows = statement
            .query_map([], |row| (0..width).map(|n| Ok(cell(row.get::<_, Sql>(n)?))).collect())
            .unwrap();
        let mut rows: Vec<Vec<String>> = rows.map(|row| row.unwrap()).collect();
        rows.sort_unstable();
        tables.insert(table.name, rows);
    }
    tables
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_and_back_again_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    lived(&old).await;
    let before = dump(&old);
    let empty: Vec<_> = before.iter().filter(|(_, rows)| rows.is_empty()).map(|(name, _)| name).collect();
    assert!(empty.is_empty(), "tables that prove nothing: {empty:?}");
    let scratch = Scratch::create().await;
    let server = Address::parse(&scratch.url()).unwrap();
    let mut told = Vec::new();
    let there = copy(&file(folder.path(), "old.db"), &server, |progress| told.push(progress)).await.unwrap();
    assert_eq!(there.tables.len(), TABLES.len());
    assert_eq!(there.rows(), before.values().map(|rows| rows.len() as u64).sum::<u64>());
    assert_eq!((there.media_missing, &there.source_not_held), (0, &None));
    assert!(told.iter().any(|progress| progress.table == "deliveries" && progress.rows == progress.of));

    // Somebody may still be sending: the lease has not ended.
    let early = copy(&server, &file(folder.path(), "new.db"), |_| ()).await.unwrap_err().to_string();
    assert!(early.contains("are being sent; stop every node"), "{early}");
    assert!(!new.exists() && !new.with_extension("db.lock").exists(), "nothing is left behind");
    let client = connect(&scratch.url()).await;
    client.batch_execute("UPDATE test_clock SET at = at + interval '2 minutes'").await.unwrap();
    drop(client);
    let back = copy(&server, &file(folder.path(), "new.db"), |_| ()).await.unwrap();
    assert_eq!(back.tables, there.tables);
    let after = dump(&new);
    for (name, rows) in &before {
        assert_eq!(&after[name], rows, "{name}");
    }
    let bytes = std::fs::read(folder.path().join("new.db.media/09").join(media(9).sha256)).unwrap();
    assert_eq!(bytes, media(9).bytes);
    goes_on(&server).await;
    goes_on(&file(folder.path(), "new.db")).await;
    scratch.drop_database().await;
}

/// The key opens the tokens, everything agrees with everything, and new rows get ids that were never given.
async fn goes_on(address: &Address) {
    let store = opened(address).await;
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    assert!(store.audit(ws).await.unwrap().is_empty());
    let account = store.accounts(ws).await.unwrap().remove(0);
    let token = store.account_token(ws, account.account_id).await.unwrap();
    assert_eq!(token.expose_secret(), format!("{ws}:0:токен"));
    let channels: Vec<_> =
        store.channels(ws).await.unwrap().iter().map(|channel| channel.channel_id).collect();
    let made = store.enqueue(ws, vec![message("после переезда", &channels)]).await.unwrap().remove(0);
    let ids: Vec<i64> = made.deliveries.iter().map(|delivery| delivery.delivery_id.0).collect();
    assert!(ids.iter().all(|id| *id > 5_000), "{ids:?}");
    let repeat =
        post(-3, 1, "Пропала собака, такса Буся, Тюмень, улица Ямская. 8 901 000-00-11", &channels[..1]);
    let repeat = store.ingest(ws, vec![repeat], None).await.unwrap().remove(0);
    assert_eq!(repeat.deliveries[0].status, domain::delivery::Status::Deduped, "the case is known");
    assert_eq!(store.media_bytes(ws, &media(7).sha256).await.unwrap(), Some(media(7).bytes));
    assert!(store.audit(ws).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_source_is_held_afterwards_and_the_copy_is_not() {
    let folder = tempfile::tempdir().unwrap();
    lived(&folder.path().join("old.db")).await;
    copy(&file(folder.path(), "old.db"), &file(folder.path(), "new.db"), |_| ()).await.unwrap();
    let held = async |name: &str| {
        let store = opened(&file(folder.path(), name)).await;
        (store.held().await.unwrap(), store.epoch().await.unwrap().unwrap())
    };
    let (old, new) = (held("old.db").await, held("new.db").await);
    let why = old.0.expect("two that send would say everything twice");
    assert!(why.contains("was copied to sqlite:") && why.contains("rupor release"), "{why}");
    assert_eq!((new.0, new.1), (None, old.1), "the epoch goes along: who stays behind is noticed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_holds_something_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    lived(&folder.path().join("old.db")).await;
    let (from, to) = (file(folder.path(), "old.db"), folder.path().join("other.db"));
    close(World::sqlite_at(&to).await, &to).await;
    let before = (dump(&folder.path().join("old.db")), dump(&to));
    let refused = copy(&from, &file(folder.path(), "other.db"), |_| ()).await.unwrap_err().to_string();
    assert!(refused.contains("is not empty: there are rows in workspaces"), "{refused}");
    let w = World::postgres().await;
    let server = Address::parse(&w.url()).unwrap();
    let running = copy(&from, &server, |_| ()).await.unwrap_err();
    assert!(matches!(running, StoreError::InUse { .. }), "{running}");
    let url = w.url();
    let World { store, .. } = w.clone();
    drop((store, w));
    let client = connect(&url).await;
    let n_before: i64 = client.query_one("SELECT count(*) FROM workspaces", &[]).await.unwrap().get(0);
    let mut refused = copy(&from, &server, |_| ()).await.unwrap_err();
    for _ in 0..20 {
        if !matches!(refused, StoreError::InUse { .. }) {
            break;
        }
        refused = copy(&from, &server, |_| ()).await.unwrap_err();
    }
    assert!(refused.to_string().contains("is not empty: there are rows in workspaces"), "{refused}");
    let n_after: i64 = client.query_one("SELECT count(*) FROM workspaces", &[]).await.unwrap().get(0);
    assert_eq!((n_before, n_after), (1, 1));
    assert_eq!(
        (dump(&folder.path().join("old.db")), dump(&to)),
        before,
        "nothing was held and nothing written"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_copied_says_why_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.db");
    lived(&old).await;
    let (from, to) = (file(folder.path(), "old.db"), file(folder.path(), "new.db"));
    let before = dump(&old);
    let nowhere = Address::parse("postgres://postgres@127.0.0.1:1/nowhere").unwrap();
    let memory = Address::parse("sqlite::memory:").unwrap();
    for (from, to, problem) in [
        (&from, &nowhere, "cannot be reached"),
        (&nowhere, &to, "cannot be reached"),
        (&file(folder.path(), "none.db"), &to, "there is no such file"),
        (&from, &from, "is both the source and the target"),
        (&from, &memory, "belongs to the process that opened it"),
        (&memory, &to, "belongs to the process that opened it"),
    ] {
        let refused = copy(from, to, |_| ()).await.unwrap_err().to_string();
        assert!(refused.contains(problem), "{from} → {to}: {refused}");
    }
    assert!(!folder.path().join("new.db").exists() && !folder.path().join("none.db.lock").exists());
    let w = World::sqlite_at(&folder.path().join("busy.db")).await;
    let running = copy(&file(folder.path(), "busy.db"), &to, |_| ()).await.unwrap_err().to_string();
    assert!(running.contains("is in use by another process, usually a `rupor run`"), "{running}");
    drop(w);

    let connection = rusqlite::Connection::open(&old).unwrap();
    connection.execute("DELETE FROM schema_migrations WHERE version = 4", []).unwrap();
    let older = copy(&from, &to, |_| ()).await.unwrap_err().to_string();
    assert!(older.contains("source: sqlite:") && older.contains("run `rupor migrate` on it"), "{older}");
    assert_eq!(dump(&old), before);
    assert!(!folder.path().join("new.db").exists());
}

/// A value that PostgreSQL cannot hold is met in the middle of the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_half_way_leaves_an_empty_target_that_may_be_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.db");
    lived(&old).await;
    let connection = rusqlite::Connection::open(&old).unwrap();
    connection.execute("UPDATE bot_logs SET detail = 'не JSON'", []).unwrap();
    let scratch = Scratch::create().await;
    let (from, to) = (file(folder.path(), "old.db"), Address::parse(&scratch.url()).unwrap());
    let refused = copy(&from, &to, |_| ()).await.unwrap_err().to_string();
    assert!(refused.contains("bot_logs") && refused.contains("json"), "{refused}");
    let held: bool = connection.query_row("SELECT held FROM control", [], |row| row.get(0)).unwrap();
    assert!(!held, "the source goes on as if nothing had been");
    connection.execute("UPDATE bot_logs SET detail = '{}'", []).unwrap();
    copy(&from, &to, |_| ()).await.unwrap();
    scratch.drop_database().await;
}

/// A migrated schema is made where there is none; the triggers are on again afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_server_gets_the_schema_and_keeps_its_triggers() {
    let folder = tempfile::tempdir().unwrap();
    lived(&folder.path().join("old.db")).await;
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
    let name = format!("rupor_copy_{}", uuid::Uuid::new_v4().simple());
    connect(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let url = with_database(&server, &name);
    copy(&file(folder.path(), "old.db"), &Address::parse(&url).unwrap(), |_| ()).await.unwrap();
    let client = connect(&url).await;
    let off = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'O'";
    assert_eq!(client.query_one(off, &[]).await.unwrap().get::<_, i64>(0), 0);
    let illegal = client.batch_execute("UPDATE deliveries SET status = 'dead' WHERE status = 'sent'").await;
    assert!(illegal.is_err(), "transitions are guarded");
    drop(client);
    Scratch::drop_by_name(&server, &name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_made_beside_the_running_node_and_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.db");
    lived(&old).await;
    let store = opened(&file(folder.path(), "old.db")).await;
    // After the opening, which ends the leases of claims that nobody holds any more.
    let expected = dump(&old);
    let Address::Sqlite(path) = file(folder.path(), "old.db") else { panic!("a file") };
    let to = folder.path().join("backup.db");
    let done = sqlite::backup::backup(&path, &to).await.unwrap();
    assert_eq!((done.media, done.media_missing), (2, 0));
    let again = sqlite::backup::backup(&path, &to).await.unwrap_err().to_string();
    assert!(again.contains("is there already; choose another name"), "{again}");
    assert_eq!(dump(&to), expected);
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let copy = opened(&file(folder.path(), "backup.db")).await;
    assert_eq!(copy.media_bytes(ws, &media(7).sha256).await.unwrap(), Some(media(7).bytes));
    store.post_gone(ws, "vk:-1", "10").await.unwrap();
    assert!(copy.audit(ws).await.unwrap().is_empty());
    let names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.ends_with(".key") || name.ends_with(".new")), "{names:?}");
    let none = sqlite::backup::backup(&path, &folder.path().join("нет/такой/папки.db")).await.unwrap_err();
    assert!(none.to_string().contains("папки.db"), "{none}");
}
