//! The cost guard: what the hot statements do is counted, with a thousand rows and with two hundred thousand,
//! of which nine in ten belong to one blocked account and are the oldest.

use rusqlite::{Connection, StatementStatus};

use super::{
    bot, claim, commit, enqueue, front, heads, migrate, overview, read, recipients, sent, settle, watch,
};
use crate::address::SqlitePath;

/// Fifty accounts with two lanes each; account 1 is cooling and holds nine tenths of the rows, and its first lane is full.
const FILL: &str = "
INSERT INTO workspaces (workspace_id, name, created_at) VALUES (1, 'w', 0);
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
INSERT INTO rate_groups (group_id, platform, fingerprint, cooldown_until)
SELECT i, 'p', i, CASE i WHEN 1 THEN 9000000000000000 ELSE 0 END FROM n;
INSERT INTO accounts (account_id, workspace_id, platform, name, token_sealed, fingerprint, group_id, created_at)
SELECT group_id, 1, 'p', 'a' || group_id, x'', fingerprint, group_id, 0 FROM rate_groups;
INSERT INTO account_heads (account_id, workspace_id, group_id, max_parallel, retry_parallel)
SELECT account_id, 1, group_id, 100, 2 FROM accounts;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
INSERT INTO channels (channel_id, workspace_id, account_id, platform, name, target, max_parallel, created_at)
SELECT i, 1, (i + 1) / 2, 'p', 'c' || i, 't', 10, 0 FROM n;
INSERT INTO lane_heads (lane_id, workspace_id, account_id, channel_id, max_parallel)
SELECT channel_id, 1, account_id, channel_id, 10 FROM channels;
INSERT INTO messages (message_id, workspace_id, source, origin_id, request_hash, payload, content_hash, hash_version, last_seen_at, created_at)
VALUES (1, 1, 's', 'o', 'h', '{}', 'c', 1, 0, 0);
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, generation, status, run_at, position, idempotency_key, queued_at)
SELECT i, 1, lane, (lane + 1) / 2, lane, 1, i, 'queued', i, i, 'd' || i, i
  FROM (SELECT i, CASE WHEN i % 10 THEN 1 + i % 2 ELSE 3 + i / 10 % 98 END AS lane FROM n);
INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at)
SELECT lane_id, priority, position, delivery_id, 1, run_at FROM deliveries;
UPDATE lane_heads SET max_parallel = 1 WHERE lane_id = 1;
INSERT INTO inflight (delivery_id, workspace_id, account_id, lane_id, claim_token, claim_seq, attempt, run_id, claimed_at, slot_at, lease_until)
VALUES (0, 1, 1, 1, x'74', 1, 1, 'r', 0, 0, 1);";

fn database(rows: i64) -> Connection {
    let path = SqlitePath::Memory;
    let mut connection = super::connect::connect(&path).unwrap();
    migrate::migrate_connection(&mut connection, &path).unwrap();
    connection.execute_batch(&FILL.replace("?1", &rows.to_string())).unwrap();
    for lane_id in 1..=100 {
        connection.execute(heads::MOVE_LANE, unmoved(lane_id)).unwrap();
    }
    for account_id in 1..=50 {
        connection.execute(heads::REFRESH_ACCOUNT, [account_id]).unwrap();
    }
    connection
}

/// Steps of the virtual machine: the same on every machine, whatever else it is doing.
fn steps(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> i32 {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(params).unwrap();
    while rows.next().unwrap().is_some() {}
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

/// A lane in which nothing moved, to be pointed anew.
fn unmoved(lane_id: i64) -> [Option<i64>; 12] {
    let mut params = [Some(0); 12];
    params[0] = Some(lane_id);
    params[8..11].fill(None);
    params
}

const NOW: i64 = 1_000_000;

fn claim_steps(connection: &Connection) -> [(&'static str, i32); 6] {
    [
        ("due accounts", steps(connection, claim::DUE_ACCOUNTS, (NOW, 256))),
        ("due lanes", steps(connection, claim::DUE_LANES, (2, 0, NOW, 20, NOW))),
        ("next row", steps(connection, front::NEXT_ROWS, (3, 1))),
        ("a lane's head", steps(connection, heads::MOVE_LANE, unmoved(3))),
        ("a full lane's head", steps(connection, heads::MOVE_LANE, unmoved(1))),
        ("an account's head", steps(connection, heads::REFRESH_ACCOUNT, [2])),
    ]
}

#[test]
fn a_claim_costs_the_same_behind_a_blocked_backlog() {
    let (small, large) = (claim_steps(&database(1_000)), claim_steps(&database(200_000)));
    for ((name, before), (_, after)) in small.into_iter().zip(large) {
        assert!(after <= 2 * before, "{name}: {before} steps with 1 000 rows, {after} with 200 000");
    }
}

/// A bot of account 2 that so many people have talked to; nothing waits for them but for one, and ten are gone.
const DIALOGUES: &str = "
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO recipients (recipient_id, workspace_id, account_id, platform, user_id, address, status, status_at, created_at)
SELECT i, 1, 2, 'p', 'u' || i, 'c' || i, CASE WHEN i <= 10 THEN 'gone' ELSE 'known' END, 0, 0 FROM n;
INSERT INTO lane_heads (workspace_id, account_id, recipient_id, max_parallel) SELECT 1, 2, recipient_id, 1 FROM recipients;
UPDATE lane_heads SET next_at = 5 WHERE recipient_id = 20;";

#[test]
fn a_status_costs_the_same_beside_twenty_thousand_dialogues() {
    let steps_beside = |dialogues: i64| {
        let connection = database(1_000);
        connection.execute_batch(&DIALOGUES.replace("?1", &dialogues.to_string())).unwrap();
        let people = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let found: Vec<(i64, i64, i64, i64)> = connection
            .prepare(recipients::PEOPLE)
            .unwrap()
            .query_map((1, 10_000), people)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(found, [(2, 1, 0, 10)]);
        [
            steps(&connection, &read::lanes(), [1]),
            steps(&connection, recipients::PEOPLE, (1, 10_000)),
            steps(&connection, overview::SELECT_COUNTS, (1, 0)),
            steps(&connection, overview::SELECT_LAST_SENT, [1]),
        ]
    };
    let (few, many) = (steps_beside(100), steps_beside(20_000));
    assert_eq!(few, many, "steps to list the lanes, to count the people, and for the bars");
}

/// Half of them wait for nothing, half for a timer that is far away; ten are due.
const ASLEEP: &str = "
INSERT INTO bot_state (recipient_id, workspace_id, account_id, due_at, updated_at)
SELECT recipient_id, 1, 2, CASE WHEN recipient_id <= 10 THEN 5 WHEN recipient_id % 2 = 0 THEN 9223372036854775807
                           ELSE 1000000000 + recipient_id END, 0
  FROM recipients;";

#[test]
fn turns_cost_the_same_beside_twenty_thousand_sleeping_dialogues() {
    let steps_beside = |dialogues: i64| {
        let connection = database(1_000);
        connection.execute_batch(&DIALOGUES.replace("?1", &dialogues.to_string())).unwrap();
        connection.execute_batch(ASLEEP).unwrap();
        [steps(&connection, bot::DUE, (NOW, 64)), steps(&connection, bot::NEXT, [])]
    };
    assert_eq!(steps_beside(100), steps_beside(20_000), "steps to find who is due, and who is next");
}

/// One who has written often; the last word waits.
const TALKED: &str = "
INSERT INTO bot_state (recipient_id, workspace_id, account_id, due_at, updated_at) VALUES (20, 1, 2, 5, 0);
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO bot_inbox (inbox_id, workspace_id, account_id, recipient_id, event_key, kind, happened_at, received_at, done_at, verdict)
SELECT i, 1, 2, 20, 'k' || i, 'message', 0, 0, CASE WHEN i < ?1 THEN 0 END, CASE WHEN i < ?1 THEN 'said' END FROM n;";

#[test]
fn a_turn_costs_the_same_after_ten_words_and_after_ten_thousand() {
    let steps_after = |words: i64| {
        let connection = database(1_000);
        connection.execute_batch(&DIALOGUES.replace("?1", "20")).unwrap();
        connection.execute_batch(&TALKED.replace("?1", &words.to_string())).unwrap();
        [
            steps(&connection, bot::SELECT_EVENTS, (20, 20)),
            steps(&connection, bot::SETTLE, (20, "bot", "{}", None::<i64>, NOW)),
        ]
    };
    assert_eq!(steps_after(10), steps_after(10_000), "steps to find what waits, and to end a turn");
}

#[test]
fn hot_statements_search_by_index_and_never_sort() {
    let connection = database(1_000);
    for sql in [
        claim::DUE_ACCOUNTS,
        claim::DUE_ACCOUNTS_OF_WORKSPACE,
        claim::DUE_LANES,
        front::NEXT_ROWS,
        front::NEXT_BULK_ROWS,
        front::DELETE_READY,
        claim::MARK_SENDING,
        claim::ACCOUNT_IN_FLIGHT,
        claim::LANE_IN_FLIGHT,
        front::DELETE_FRONT,
        heads::COUNT_ENDED,
        heads::COUNT_SENT,
        heads::IDLE_ACCOUNT_OF_LANE,
        heads::MOVE_LANE,
        heads::REFRESH_ACCOUNT,
        sent::SELECT_CLAIMS,
        sent::DELETE_CLAIMS,
        settle::SELECT_HELD,
        commit::SELECT_PARTS,
        commit::ABSENT,
        commit::REQUESTED,
        commit::RENEW,
        sent::END_SENT,
        watch::NOTE_OUTCOMES,
        settle::END_SENDING,
        enqueue::FIND_BY_ORIGIN,
        enqueue::FIND_BY_KEY,
        enqueue::TAKE_KEY,
        read::ALIKE_IS_AHEAD,
        bot::DUE,
        bot::NEXT,
        bot::SELECT_EVENTS,
        bot::SETTLE,
    ] {
        for step in plan(&connection, sql) {
            // What is scanned are subqueries of one or two rows, and the batch itself.
            let small = [
                "SCAN (",
                "SCAN lane",
                "SCAN ahead",
                "SCAN me",
                "SCAN json_each ",
                "SCAN first",
                "SCAN CONSTANT ROW",
            ];
            let walks = step.starts_with("SCAN ") && !small.iter().any(|start| step.starts_with(start));
            let sorts = step.contains("TEMP B-TREE");
            assert!(!walks && !sorts, "{step}\n{sql}");
        }
    }
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let n = statement.parameter_count();
    let params = rusqlite::params_from_iter(std::iter::repeat_n(1, n));
    statement.query_map(params, |row| row.get(3)).unwrap().map(Result::unwrap).collect()
}
