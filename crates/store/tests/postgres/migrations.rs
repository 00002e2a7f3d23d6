//! Migrations on a server: once each, together, and through a crash.

use store::*;

use crate::world::*;

/// An empty database of our own.
pub(crate) struct Empty {
    server: String,
    name: String,
    pub(crate) address: Address,
}

impl Empty {
    pub(crate) async fn new() -> Empty {
        let server =
            std::env::var("RUPOR_TEST_POSTGRES").expect("RUPOR_TEST_POSTGRES is not set: run `./test`");
        let name = format!("rupor_empty_{}", uuid::Uuid::new_v4().simple());
        connect(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let address = Address::parse(&with_database(&server, &name)).unwrap();
        Empty { server, name, address }
    }

    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        connect(&with_database(&self.server, &self.name)).await
    }

    async fn open(&self) -> std::result::Result<Store, String> {
        let opened = Store::open(&self.address, Keyring::ephemeral([7; 32]), Clock::system()).await;
        opened.map_err(|error| error.to_string())
    }

    pub(crate) async fn end(self) {
        Scratch::drop_by_name(&self.server, &self.name).await;
    }
}

/// Every step that this binary knows, from one on.
pub(crate) fn steps_from(first: i32) -> Vec<i32> {
    (first..=store::migrations::known()).collect()
}

#[tokio::test]
async fn each_step_is_applied_once() {
    let empty = Empty::new().await;
    assert!(empty.open().await.unwrap_err().contains("run `rupor migrate`"));
    assert_eq!(Store::migrate(&empty.address).await.unwrap(), steps_from(1));
    assert_eq!(Store::migrate(&empty.address).await.unwrap(), [0; 0]);
    drop(empty.open().await.unwrap());
    empty.end().await;
}

#[tokio::test]
async fn a_schema_that_is_not_ours_is_refused() {
    let empty = Empty::new().await;
    Store::migrate(&empty.address).await.unwrap();
    let client = empty.client().await;
    client.batch_execute("UPDATE schema_migrations SET checksum = 'другая' WHERE version = 2").await.unwrap();
    assert!(empty.open().await.unwrap_err().contains("was changed after it was applied"));
    let drift = Store::migrate(&empty.address).await.unwrap_err();
    assert!(matches!(drift, StoreError::Schema(SchemaError::Drift { version: 2, .. })), "{drift}");
    client
        .batch_execute("INSERT INTO schema_migrations (version, name, checksum) VALUES (999, 'завтра', '')")
        .await
        .unwrap();
    let newer = Store::migrate(&empty.address).await.unwrap_err();
    assert!(matches!(newer, StoreError::Schema(SchemaError::Newer { found: 999, .. })), "{newer}");
    assert!(empty.open().await.unwrap_err().contains("install the newer rupor"));
    empty.end().await;
}

#[tokio::test]
async fn two_migrators_at_once_apply_each_step_once() {
    let empty = Empty::new().await;
    let mut migrators = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let address = empty.address.clone();
        migrators.spawn(async move { Store::migrate(&address).await.unwrap() });
    }
    let mut applied: Vec<i32> = migrators.join_all().await.into_iter().flatten().collect();
    applied.sort_unstable();
    assert_eq!(applied, steps_from(1));
    empty.end().await;
}

#[tokio::test]
async fn a_step_that_fails_is_undone_and_goes_on_when_the_cause_is_gone() {
    let empty = Empty::new().await;
    let client = empty.client().await;
    client.batch_execute("CREATE TABLE inflight (чужая integer)").await.unwrap();
    let failed = Store::migrate(&empty.address).await.unwrap_err();
    assert!(matches!(failed, StoreError::Schema(SchemaError::Failed { version: 2, .. })), "{failed}");
    let half = client.query("SELECT 1 FROM pg_class WHERE relname = 'deliveries'", &[]).await.unwrap();
    assert!(half.is_empty(), "nothing of the step is left behind");
    client.batch_execute("DROP TABLE inflight").await.unwrap();
    assert_eq!(Store::migrate(&empty.address).await.unwrap(), steps_from(2));
    empty.end().await;
}

#[tokio::test]
async fn a_migrator_that_is_killed_leaves_whole_steps_behind() {
    let empty = Empty::new().await;
    let client = empty.client().await;
    // Step 3 has to wait for this name, and dies waiting.
    client.batch_execute("BEGIN; CREATE TABLE media_origin (чужая integer)").await.unwrap();
    let address = empty.address.clone();
    let migrator = tokio::spawn(async move { Store::migrate(&address).await });
    let admin = connect(&empty.server).await;
    // Whoever waits for this very name, and not for something that another test holds for a moment.
    let holder: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = $1 AND application_name = 'rupor' AND $2 = ANY (pg_blocking_pids(pid))";
    for _ in 0..100_000 {
        if migrator.is_finished() || !admin.query(kill, &[&empty.name, &holder]).await.unwrap().is_empty() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let killed = migrator.await.unwrap();
    assert!(killed.is_err(), "{killed:?}");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(Store::migrate(&empty.address).await.unwrap(), steps_from(3));
    empty.end().await;
}

#[tokio::test]
async fn functions_are_made_anew_when_their_text_has_changed() {
    let empty = Empty::new().await;
    Store::migrate(&empty.address).await.unwrap();
    let client = empty.client().await;
    // As an older rupor would have left it: another text, a function that is no more, and one of somebody else.
    client
        .batch_execute(
            "CREATE FUNCTION rupor_yesterday() RETURNS integer LANGUAGE sql AS 'SELECT 1';
             CREATE FUNCTION of_somebody_else() RETURNS integer LANGUAGE sql AS 'SELECT 2';
             CREATE OR REPLACE FUNCTION rupor_refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
             UPDATE schema_functions SET checksum = 'вчера', functions = array_append(functions, 'rupor_yesterday()')",
        )
        .await
        .unwrap();
    assert!(empty.open().await.unwrap_err().contains("run `rupor migrate`"));
    assert_eq!(Store::migrate(&empty.address).await.unwrap(), [0; 0]);
    drop(empty.open().await.unwrap());
    let there = client
        .query_one(
            "SELECT to_regprocedure('rupor_yesterday()') IS NULL, to_regprocedure('of_somebody_else()') IS NOT NULL,
                    prosrc LIKE '%append only%' FROM pg_proc WHERE proname = 'rupor_refuse_change'",
            &[],
        )
        .await
        .unwrap();
    assert_eq!((there.get(0), there.get(1), there.get(2)), (true, true, true));
    // The roles still may call what was made anew.
    let may =
        "SELECT has_function_privilege('rupor_dispatcher', 'recover_leases(bigint, integer)', 'EXECUTE'),
                      has_function_privilege('public', 'recover_leases(bigint, integer)', 'EXECUTE')";
    let row = client.query_one(may, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, false));
    empty.end().await;
}

#[tokio::test]
async fn functions_that_fail_leave_those_from_before() {
    let empty = Empty::new().await;
    Store::migrate(&empty.address).await.unwrap();
    let client = empty.client().await;
    client
        .batch_execute(
            "CREATE VIEW of_somebody_else AS SELECT rupor_micros(clock_timestamp());
             UPDATE schema_functions SET checksum = 'вчера'",
        )
        .await
        .unwrap();
    let failed = Store::migrate(&empty.address).await.unwrap_err().to_string();
    assert!(failed.contains("could not be brought up to date"), "{failed}");
    assert!(failed.contains("of_somebody_else"), "{failed}");
    let row = client.query_one("SELECT to_regprocedure('recover_leases(bigint, integer)') IS NOT NULL", &[]);
    assert!(row.await.unwrap().get::<_, bool>(0));
    empty.end().await;
}

/// `domain::limits` is the only place where the number stands.
#[tokio::test]
async fn a_limit_that_changes_in_domain_changes_in_sql() {
    let from_domain = format!(
        "rupor_rule_attempts_max() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT {}::bigint'",
        domain::limits::ATTEMPTS_MAX
    );
    assert_eq!(postgres::functions::text().matches(&from_domain).count(), 1);
    let scratch = Scratch::create().await;
    let client = connect(&scratch.url()).await;
    let dead_at = "SELECT min(n)::integer FROM generate_series(0, 20) AS n
                    CROSS JOIN LATERAL rupor_settle(
                        ROW(NULL, NULL, n, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, n, false)::rupor_settlement,
                        'resend', 1, NULL, 0, NULL, NULL, 'epoch', 0, 'failed',
                        '{\"category\": \"TRANSIENT\", \"scope\": \"delivery\", \"code\": \"503\", \"certainty\": \"not_sent\"}',
                        now(), 0) AS s
                    WHERE s.status = 'dead'";
    let before: i32 = client.query_one(dead_at, &[]).await.unwrap().get(0);
    assert_eq!(before + 1, domain::limits::ATTEMPTS_MAX);
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION rupor_rule_attempts_max() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 9::bigint'",
        )
        .await
        .unwrap();
    let after: i32 = client.query_one(dead_at, &[]).await.unwrap().get(0);
    assert_eq!(after + 1, 9);
    scratch.drop_database().await;
}
