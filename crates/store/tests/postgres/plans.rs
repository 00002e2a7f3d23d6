//! Cost guards: what the hot functions do does not depend on what lies behind the rows they touch.
//!
//! The plans are those of the statements inside the functions, as the server itself reports them while they run
//! (auto_explain), at 1 000 and at 200 000 rows of which nine in ten belong to one cooling account and are the oldest.

use std::sync::{Arc, Mutex};

use domain::time::Span;
use serde_json::Value;
use store::*;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::world::*;

const SMALL: i64 = 1_000;
const LARGE: i64 = 200_000;
/// Rows of one claim, and so of one commit.
const BATCH: i64 = 50;
/// More rows than a statement of a batch of 50 has any business with.
const ROWS_MAX: f64 = 1_000.0;
const BIG_TABLES: &[&str] =
    &["deliveries", "ready", "inflight", "messages", "attempts", "dedup_index", "events"];

const FILL: &str = "
INSERT INTO messages (message_id, workspace_id, source, origin_id, request_hash, payload, content_hash, hash_version, last_seen_at, created_at)
SELECT -i, 1, 'plans', i::text, '', '{}', i::text, 1, rupor_now(), rupor_now() FROM generate_series(1, ROWS) AS i;
INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, status, run_at, position, idempotency_key, queued_at)
SELECT i, 1, h.lane_id, h.account_id, h.channel_id, -i, 'queued', rupor_now() + i * interval '1 microsecond' - interval '1 hour', i, 'd' || i, rupor_now()
  FROM generate_series(1, ROWS) AS i
  -- the first channel belongs to the cooling account
  JOIN (SELECT l.*, row_number() OVER (ORDER BY lane_id) - 1 AS n, count(*) OVER () - 1 AS others FROM lane_heads AS l) AS h
    ON h.n = CASE WHEN i <= ROWS * 0.9 THEN 0 ELSE 1 + i % h.others END;
SELECT setval('deliveries_delivery_id_seq', ROWS);
INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at)
SELECT lane_id, priority, position, delivery_id, workspace_id, run_at FROM deliveries;
INSERT INTO dedup_index (workspace_id, channel_id, mode, version, key, kind, delivery_id, last_seen_at)
SELECT 1, channel_id, 'content', 1, delivery_id::text, '', delivery_id, rupor_now() FROM deliveries;
UPDATE lane_heads AS h SET n_queued = c.n FROM (SELECT lane_id, count(*) AS n FROM ready GROUP BY lane_id) AS c WHERE c.lane_id = h.lane_id;
UPDATE rate_groups SET cooldown_until = rupor_now() + interval '1 day'
 WHERE group_id = (SELECT group_id FROM account_heads ORDER BY account_id LIMIT 1);";

const REFRESH: &str = "
SELECT rupor_refresh_lanes(array(SELECT lane_id FROM lane_heads));
SELECT rupor_refresh_accounts(array(SELECT account_id FROM account_heads));";

/// A session whose server tells the plan of every statement inside a function.
struct Told {
    client: Client,
    plans: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Told {
    async fn new(url: &str) -> Told {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let plans = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&plans);
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message
                    && let Some((_, json)) = notice.message().split_once("plan:\n")
                {
                    let json: Value = serde_json::from_str(json).unwrap();
                    let text = json["Query Text"].as_str().unwrap_or_default().to_owned();
                    heard.lock().unwrap().push((text, json["Plan"].clone()));
                }
            }
        });
        Told { client, plans }
    }

    async fn listen(&self) {
        let on = "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
                  SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; SET auto_explain.log_format = json;
                  SET auto_explain.log_level = notice";
        self.client.batch_execute(on).await.unwrap();
        self.plans.lock().unwrap().clear();
    }
}

fn check(text: &str, node: &Value) {
    let number = |key: &str| node[key].as_f64().unwrap_or(0.0);
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let touched =
        (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops").max(1.0);
    if let Some(table) = node["Relation Name"].as_str().filter(|table| BIG_TABLES.contains(table)) {
        assert_ne!(kind, "Seq Scan", "{table} in {text}");
        assert!(touched <= ROWS_MAX, "{kind} touches {touched} rows of {table} in {text}");
    }
    if kind.contains("Sort") {
        assert!(touched <= ROWS_MAX, "{kind} of {touched} rows in {text}");
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        check(text, child);
    }
}

/// Blocks that a call touches, itself and everything inside it; undone afterwards.
async fn blocks(client: &Client, call: &str) -> i64 {
    client.batch_execute("BEGIN").await.unwrap();
    let row = client
        .query_one(&format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {call}"), &[])
        .await
        .unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    let json: Value = row.get(0);
    ["Shared Hit Blocks", "Shared Read Blocks"].iter().filter_map(|key| json[0]["Plan"][*key].as_i64()).sum()
}

/// What a call costs on the plans that a session keeps: the first one makes them, and what other databases of the server do may
/// have them made again, which reads the catalogue once more.
async fn cost(client: &Client, call: &str) -> i64 {
    blocks(client, call).await;
    let mut least = i64::MAX;
    for _ in 0..3 {
        least = least.min(blocks(client, call).await);
    }
    least
}

struct Cost {
    claim: i64,
    commit: i64,
    enqueue: i64,
}

fn claim_call() -> String {
    format!("SELECT * FROM claim_deliveries(NULL, 'plans', {BATCH}, 0, true)")
}

const COMMIT: &str = "
SELECT c.*
  FROM (SELECT array_agg(workspace_id) AS w, array_agg(delivery_id) AS d, array_agg(claim_token) AS t,
               array_agg(delivery_id::text) AS p, array_fill(NULL::jsonb, ARRAY[count(*)::integer]) AS o
          FROM inflight) AS i
 CROSS JOIN LATERAL commit_outcomes(i.w, i.d, i.t, i.p, NULL, i.o) AS c";

const ENQUEUE: &str = r#"
SELECT enqueue_messages_and_deliveries(1, (
           SELECT jsonb_agg(jsonb_build_object('source', 'again', 'origin_id', i, 'content_hash', 'again ' || i, 'payload', '{}'::jsonb,
                                               'channels', (SELECT jsonb_agg(channel_id) FROM channels)))
             FROM generate_series(1, 5) AS i))"#;

/// Fills a database, checks the plans of every statement inside the hot functions and returns what they cost.
async fn measure(rows: i64) -> Cost {
    let world = World::postgres().await;
    for _ in 0..10 {
        let account =
            world.account_with(AccountSettings { max_parallel: 100, ..AccountSettings::default() }).await;
        let settings = ChannelSettings { max_parallel: 100, ..ChannelSettings::default() };
        world.channel_with(account, settings).await;
    }
    let told = Told::new(&world.url()).await;
    told.client.batch_execute(&FILL.replace("ROWS", &rows.to_string())).await.unwrap();
    told.client.batch_execute("VACUUM ANALYZE").await.unwrap();
    // A session that made an account before it claims has pointed the heads outside of a claim, and kept that plan.
    told.client.batch_execute(REFRESH).await.unwrap();

    let claim = cost(&told.client, &claim_call()).await;
    let enqueue = cost(&told.client, ENQUEUE).await;
    told.listen().await;
    let claimed = told.client.query(&claim_call(), &[]).await.unwrap();
    assert_eq!(claimed.len(), BATCH as usize);
    let commit = cost(&told.client, COMMIT).await;
    told.client.query(COMMIT, &[]).await.unwrap();
    told.client.query(ENQUEUE, &[]).await.unwrap();
    let plans = told.plans.lock().unwrap().clone();
    assert!(plans.len() > 30, "{} statements were told", plans.len());
    // Our own statements around the functions may read what they like.
    let ours = |text: &str| text.starts_with("EXPLAIN") || text == COMMIT || text == ENQUEUE;
    for (text, plan) in plans.iter().filter(|(text, _)| !ours(text)) {
        check(text, plan);
    }
    world.check().await;
    world.drop_database().await;
    Cost { claim, commit, enqueue }
}

#[tokio::test]
async fn a_blocked_front_of_a_long_backlog_costs_the_others_nothing() {
    let (small, large) = (measure(SMALL).await, measure(LARGE).await);
    for (what, small, large) in [
        ("claim", small.claim, large.claim),
        ("commit", small.commit, large.commit),
        ("enqueue", small.enqueue, large.enqueue),
    ] {
        assert!(large <= 2 * small, "{what}: {small} blocks beside {SMALL} rows, {large} beside {LARGE}");
    }
}

/// What a bot hears of so many people at once, told under these names.
fn hear(account: i64, from: i64) -> String {
    format!(
        "SELECT bot_receive(1, {account}, (SELECT jsonb_agg(jsonb_build_object('as', 'person', 'user', i::text, 'address', i::text,
                'key', 'k' || i, 'kind', 'text', 'body', '{{}}'::jsonb)) FROM generate_series({from}, {from} + 9) AS i), NULL, NULL, 50000)"
    )
}

#[tokio::test]
async fn what_is_heard_does_not_cost_what_was_heard_before() {
    let world = World::postgres().await;
    let account = world.account().await.0;
    let client = connect(&world.url()).await;
    // The session keeps the plan that it made of an empty inbox.
    client.query(&hear(account, 1), &[]).await.unwrap();
    let small = cost(&client, &hear(account, 101)).await;
    let earlier = format!(
        "INSERT INTO bot_inbox (workspace_id, account_id, event_key, kind, body, happened_at, received_at, done_at, verdict)
         SELECT 1, {account}, 'before ' || i, 'text', '{{}}', rupor_now(), rupor_now(), rupor_now(), 'skip' FROM generate_series(1, 20000) AS i"
    );
    client.batch_execute(&earlier).await.unwrap();
    let large = cost(&client, &hear(account, 201)).await;
    assert!(large <= 2 * small, "{small} blocks in an empty inbox, {large} beside 20000 updates");
}

/// Nothing waits in these dialogues but in one.
const DIALOGUES: &str = "
INSERT INTO recipients (workspace_id, account_id, platform, user_id, address)
SELECT a.workspace_id, a.account_id, a.platform, i::text, i::text FROM accounts AS a CROSS JOIN generate_series(1, 30000) AS i;
INSERT INTO lane_heads (workspace_id, account_id, recipient_id, max_parallel)
SELECT r.workspace_id, r.account_id, r.recipient_id, 1 FROM recipients AS r;
UPDATE lane_heads SET next_at = rupor_now() WHERE recipient_id = 7;";

#[tokio::test]
async fn a_status_never_walks_the_dialogues() {
    let world = World::postgres().await;
    world.channels(1).await;
    connect(&world.url()).await.batch_execute(DIALOGUES).await.unwrap();
    let told = Told::new(&world.url()).await;
    told.listen().await;
    let mut statements = store::postgres::STATEMENTS.iter().copied().flatten();
    let lanes = statements.find(|sql| sql.contains("FROM lane_heads WHERE workspace_id")).unwrap();
    assert_eq!(told.client.query(*lanes, &[&1_i64]).await.unwrap().len(), 1);
    let people = told.client.query("SELECT * FROM people_of_accounts(1, 10000)", &[]).await.unwrap();
    assert_eq!(people.iter().map(|row| row.get("waiting")).collect::<Vec<i64>>(), [1]);
    let plans = told.plans.lock().unwrap().clone();
    assert!(plans.len() >= 2, "{plans:?}");
    for (text, plan) in &plans {
        few_rows(&["lane_heads", "recipients"], text, plan);
    }
    world.drop_database().await;
}

fn few_rows(of: &[&str], text: &str, node: &Value) {
    let number = |key: &str| node[key].as_f64().unwrap_or(0.0);
    let touched = (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops");
    if of.iter().any(|table| node["Relation Name"] == *table) {
        assert!(touched < 10.0, "{touched} rows of {} in {text}", node["Relation Name"]);
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        few_rows(of, text, child);
    }
}

/// One who has written thirty thousand times, beside others who have not; one word of his waits.
const TALKED: &str = "
INSERT INTO recipients (workspace_id, account_id, platform, user_id, address)
SELECT a.workspace_id, a.account_id, a.platform, i::text, i::text FROM accounts AS a CROSS JOIN generate_series(1, 30) AS i;
INSERT INTO bot_state (recipient_id, workspace_id, account_id, due_at, updated_at)
SELECT r.recipient_id, r.workspace_id, r.account_id, CASE WHEN r.user_id = '7' THEN rupor_now() ELSE 'infinity' END, rupor_now()
  FROM recipients AS r;
INSERT INTO bot_inbox (workspace_id, account_id, recipient_id, event_key, kind, happened_at, received_at, done_at, verdict)
SELECT r.workspace_id, r.account_id, r.recipient_id, i::text, 'message', rupor_now(), rupor_now(),
       CASE WHEN i < 30000 THEN rupor_now() END, CASE WHEN i < 30000 THEN 'said' END
  FROM recipients AS r CROSS JOIN generate_series(1, 30000) AS i
 WHERE r.user_id = '7';";
const CLAIM_TURNS: &str =
    "SELECT recipient_id, jsonb_array_length(events) FROM bot_claim_turns(64, 60000000, 20)";
const COMMIT_TURNS: &str = r#"
SELECT bot_commit_turns(1, (
           SELECT jsonb_agg(jsonb_build_object('recipient_id', s.recipient_id, 'token', s.token, 'version', s.version, 'mode', 'bot',
                                               'state', '{}'::jsonb, 'rules_version', 0, 'fired', false, 'says', '[]'::jsonb,
                                               'logs', '[]'::jsonb, 'events', (
                     SELECT jsonb_agg(jsonb_build_object('inbox_id', i.inbox_id, 'verdict', 'said'))
                       FROM bot_inbox AS i WHERE i.done_at IS NULL)))
             FROM bot_state AS s WHERE s.token IS NOT NULL))"#;

/// The plan of such a function is kept from the first call of a session, when there is little or nothing yet.
#[tokio::test]
async fn a_turn_never_walks_what_was_said_before() {
    let world = World::postgres().await;
    world.channels(1).await;
    let told = Told::new(&world.url()).await;
    for statement in [CLAIM_TURNS, COMMIT_TURNS] {
        told.client.query(statement, &[]).await.unwrap();
    }
    told.client.batch_execute(TALKED).await.unwrap();
    told.listen().await;
    let claimed = told.client.query(CLAIM_TURNS, &[]).await.unwrap();
    assert_eq!(claimed.iter().map(|row| row.get(1)).collect::<Vec<i32>>(), [1]);
    let kept = told.client.query_one(COMMIT_TURNS, &[]).await.unwrap();
    assert_eq!(kept.get::<_, Vec<bool>>(0), [true]);
    let plans = told.plans.lock().unwrap().clone();
    assert!(plans.len() >= 10, "{plans:?}");
    for (text, plan) in plans.iter().filter(|(text, _)| text != COMMIT_TURNS) {
        few_rows(&["bot_inbox", "bot_state"], text, plan);
    }
    world.drop_database().await;
}

#[tokio::test]
async fn a_claim_beside_a_cooling_account_says_when_there_is_more() {
    let world = World::postgres().await;
    let channels = world.channels(1).await;
    world.post("раз", &channels).await;
    let until = world.now().await + Span::from_hours(24);
    let admin = connect(&world.url()).await;
    let cool = "UPDATE rate_groups SET cooldown_until = rupor_now() + interval '1 day'";
    admin.batch_execute(cool).await.unwrap();
    let claimed = world.claim_ahead(10, Span::ZERO).await;
    assert_eq!(
        (claimed.claims.len(), claimed.next_at),
        (0, Some(until)),
        "a head that did not know has learnt it"
    );
    world.drop_database().await;
}

/// A foreign key is checked by a plan that a session may have made while the table was empty. So what the keys of a table
/// that grows share with its other indexes must not be the beginning of one: any such index might have been taken.
#[tokio::test]
async fn a_foreign_key_can_only_be_checked_by_its_own_index() {
    const GROWING: &[&str] = &["messages", "cases", "deliveries", "recipients", "media_origin"];
    const MISLEADING: &str = "
SELECT i.indexrelid::regclass::text, k.conrelid::regclass::text
  FROM pg_constraint AS k
  JOIN pg_index AS i ON i.indrelid = k.confrelid AND i.indpred IS NULL AND i.indkey[0] = ANY (k.confkey)
 WHERE k.contype = 'f' AND k.confrelid::regclass::text = ANY ($1)
   AND NOT (i.indkey::smallint[] <@ k.confkey)
 ORDER BY 1, 2";
    let world = World::postgres().await;
    let (client, connection) = tokio_postgres::connect(&world.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let found = client.query(MISLEADING, &[&GROWING]).await.unwrap();
    let found: Vec<(String, String)> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(found, [], "(index, table whose foreign key might walk it)");
    world.drop_database().await;
}
