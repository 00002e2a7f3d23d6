//! The PostgreSQL boundary as any other client meets it: plain roles, `psql`, and the schema as it stands.

use std::process::Command;

use crate::world::{Scratch, connect};

/// What `psql` says to a script, as the plain application role in workspace 1.
fn psql(scratch: &Scratch, script: &str) -> String {
    let set_up = "SET client_min_messages = warning; SET ROLE rupor_app; SET rupor.workspace = '1';";
    let output = Command::new("psql")
        .args(["-XqAt", "-d", &scratch.url(), "-c", set_up, "-c", script])
        .output()
        .expect("psql is installed by `./test`");
    let told = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&told).trim().to_owned()
}

async fn seeded() -> Scratch {
    let scratch = Scratch::create().await;
    let seed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../db/seed.sql")).unwrap();
    connect(&scratch.url()).await.batch_execute(&seed).await.expect("the example workspace loads");
    scratch
}

const CLAIM: &str = "SELECT delivery_id || ' ' || claim_token FROM claim_deliveries(1, 'psql', 1)";

#[tokio::test]
async fn from_psql_a_delivery_goes_from_enqueue_to_sent() {
    let scratch = seeded().await;
    let item = r#"[{"source":"psql","origin_id":"1","payload":{"text":"Пропал кот"},"content_hash":"h1","channels":[1]}]"#;
    let told = psql(&scratch, &format!("SELECT enqueue_messages_and_deliveries(1, '{item}')"));
    assert!(told.contains("\"status\": \"queued\""), "{told}");
    let claimed = psql(&scratch, CLAIM);
    let (id, token) = claimed.split_once(' ').unwrap_or_else(|| panic!("{claimed}"));
    let status =
        |id: &str| psql(&scratch, &format!("SELECT status FROM deliveries WHERE delivery_id = {id}"));
    assert_eq!(status(id), "sending");

    let wrong = "00000000-0000-0000-0000-000000000001";
    for (call, expected) in [
        (format!("SELECT mark_sent(1, {id}, '{wrong}', '77', now(), '{{}}')"), ""),
        (format!("SELECT fail_permanent(1, {id}, '{wrong}', '{{}}')"), ""),
        (format!("SELECT schedule_retry(1, {id}, '{wrong}', NULL, '{{}}')"), ""),
        (format!("SELECT record_part(1, {id}, '{wrong}', 0, '77')"), "f"),
    ] {
        assert_eq!(psql(&scratch, &call), expected, "a wrong token: {call}");
    }
    let foreign = psql(&scratch, &format!("SELECT mark_sent(2, {id}, '{token}', '77', now(), '{{}}')"));
    assert!(foreign.contains("this session is set to workspace 1"), "{foreign}");
    let by_hand = psql(&scratch, &format!("UPDATE deliveries SET status = 'sent' WHERE delivery_id = {id}"));
    assert!(by_hand.contains("permission denied"), "{by_hand}");
    assert_eq!(status(id), "sending", "nothing of all that changed it");

    assert_eq!(psql(&scratch, &format!("SELECT record_part(1, {id}, '{token}', 0, '77')")), "t");
    assert_eq!(psql(&scratch, &format!("SELECT mark_sent(1, {id}, '{token}', '77', now(), '{{}}')")), "sent");
    assert_eq!(status(id), "sent");
    scratch.drop_database().await;
}

#[tokio::test]
async fn from_psql_an_expired_lease_and_an_illegal_transition_are_refused() {
    let scratch = seeded().await;
    let owner = connect(&scratch.url()).await;
    let claimed = psql(&scratch, CLAIM);
    let (id, token) = claimed.split_once(' ').unwrap_or_else(|| panic!("{claimed}"));
    owner.batch_execute("UPDATE test_clock SET at = at + interval '61 s'").await.unwrap();
    let late = psql(&scratch, &format!("SELECT fail_permanent(1, {id}, '{token}', '{{}}')"));
    assert_eq!(late, "", "the lease is over: the failure comes too late");
    // Even the owner of the tables cannot make a transition that does not exist.
    for to in ["sent", "queued", "claimed"] {
        let sql = format!("UPDATE deliveries SET status = '{to}' WHERE delivery_id = {id}");
        assert!(owner.batch_execute(&sql).await.is_err(), "retry → {to}");
    }
    scratch.drop_database().await;
}

#[tokio::test]
async fn a_plain_role_without_a_workspace_sees_nothing() {
    let scratch = seeded().await;
    let client = connect(&scratch.url()).await;
    client.batch_execute("SET ROLE rupor_app").await.unwrap();
    for table in ["workspaces", "accounts", "channels", "messages", "deliveries", "events"] {
        let rows = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap();
        assert_eq!(rows.get::<_, i64>(0), 0, "{table}");
    }
    let refused = client.batch_execute("SELECT * FROM claim_deliveries(1, 'x', 1)").await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("not set"), "{refused}");
    client.batch_execute("SET rupor.workspace = '2'").await.unwrap();
    let rows = client.query_one("SELECT count(*) FROM deliveries", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 0, "another workspace's rows");
    assert!(client.batch_execute("UPDATE events SET name = 'alert'").await.is_err());
    assert!(client.batch_execute("DELETE FROM events").await.is_err());
    scratch.drop_database().await;
}

#[tokio::test]
async fn every_table_with_a_workspace_has_a_forced_policy() {
    let scratch = Scratch::create().await;
    let client = connect(&scratch.url()).await;
    let open = client
        .query(
            "SELECT c.relname
               FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'workspace_id'
              WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
                AND NOT (c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid))",
            &[],
        )
        .await
        .unwrap();
    let open: Vec<String> = open.iter().map(|row| row.get(0)).collect();
    assert!(open.is_empty(), "no forced policy on {open:?}");
    scratch.drop_database().await;
}

/// The schema from the catalogue, in words that do not depend on the server's version.
const DUMP: &str = "
SELECT line FROM (
    SELECT 1 AS part, c.relname::text AS thing, a.attnum::int AS n,
           format('%s.%s %s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END) AS line
      FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
     WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 2, conrelid::regclass::text || conname, 0,
           format('%s CONSTRAINT %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND contype IN ('c', 'f', 'p', 'u')
    UNION ALL
    SELECT 3, indexname::text, 0, indexdef || ';' FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 4, tgrelid::regclass::text || tgname, 0, pg_get_triggerdef(oid) || ';' FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 5, tablename::text || policyname, 0,
           format('POLICY %s ON %s TO %s USING %s', policyname, tablename, roles, coalesce(qual, '-'))
      FROM pg_policies WHERE schemaname = 'public'
    UNION ALL
    SELECT 6, p.proname::text || pg_get_function_identity_arguments(p.oid), 0,
           format('FUNCTION %s(%s) RETURNS %s%s', p.proname, pg_get_function_arguments(p.oid),
                  coalesce(pg_get_function_result(p.oid), 'nothing'), CASE WHEN p.prosecdef THEN ' SECURITY DEFINER' ELSE '' END)
      FROM pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace
) AS dump
WHERE line NOT LIKE 'test_clock%'
ORDER BY part, thing COLLATE \"C\", n";

#[tokio::test]
async fn the_golden_dump_is_todays_schema() {
    let scratch = Scratch::create().await;
    let rows = connect(&scratch.url()).await.query(DUMP, &[]).await.unwrap();
    let lines: Vec<String> =
        rows.iter().map(|row| format!("-- {}", row.get::<_, String>(0).replace('\n', " "))).collect();
    let dump = format!(
        "-- Today's PostgreSQL schema, read from the catalogue of a migrated database.\n-- To renew: RUPOR_RENEW=1 ./test -p store golden\n{}\n",
        lines.join("\n")
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../db/schema.sql");
    if std::env::var_os("RUPOR_RENEW").is_some() {
        std::fs::write(path, &dump).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let stale = dump.lines().find(|line| !golden.lines().any(|known| known == *line));
    assert!(
        dump == golden,
        "db/schema.sql is stale, e.g. {stale:?}; renew it with RUPOR_RENEW=1 ./test -p store golden"
    );
    scratch.drop_database().await;
}
