//! The floor under `rupor-bench queue`: the same rows through bare batched SQL, without a single rule.
//!
//! One wide table with the columns of `deliveries` and nothing but them: no check, no trigger, no reference. An index to
//! fetch by; claim and finish write the columns that ours write; the same batch size, one connection and the same
//! durability. What the queue costs above this is what its promises cost.

use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::Connection;
use store::address::{Address, PostgresUrl};
use store::{postgres, sqlite};

/// A table of bare rows, drained piece by piece beside the queue it is compared with.
#[derive(Debug)]
pub(super) struct Floor {
    bare: Bare,
    batch: usize,
}

enum Bare {
    Sqlite(Connection),
    Postgres { client: tokio_postgres::Client, url: PostgresUrl },
}

/// What a fresh row has in `deliveries`; the values follow in each dialect.
const COLUMNS: &str = "delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, revision, action, \
     generation, priority, status, claim_seq, attempt, charged, flood_waits, not_ready_waits, unknowns, lost_claims, \
     lost_requests, run_at, position, idempotency_key, parts, queued_at";

impl Floor {
    /// Fills the table.
    pub(super) async fn fill(address: &Address, rows: usize, batch: usize) -> anyhow::Result<Floor> {
        let bare = match address {
            Address::Sqlite(path) => Bare::Sqlite(sqlite::bare_connection(path)?),
            Address::Postgres(url) => {
                Bare::Postgres { client: postgres::bare_connection(url).await?, url: url.clone() }
            }
        };
        match &bare {
            Bare::Sqlite(connection) => {
                connection.execute_batch(SQLITE_TABLE)?;
                insert_sqlite(connection, rows, batch)?;
            }
            Bare::Postgres { client, url, .. } => {
                client.batch_execute(POSTGRES_TABLE).await.with_context(|| lost(url))?;
                insert_postgres(client, rows, batch).await.with_context(|| lost(url))?;
                client.batch_execute("ANALYZE bench_floor").await.with_context(|| lost(url))?;
            }
        }
        Ok(Floor { bare, batch })
    }

    /// Claims and finishes this many of its rows, in batches.
    pub(super) async fn drain(&self, rows: usize) -> anyhow::Result<Duration> {
        let batches = rows.div_ceil(self.batch);
        let started = Instant::now();
        match &self.bare {
            Bare::Sqlite(connection) => {
                drain_sqlite(connection, self.batch, batches)?;
            }
            Bare::Postgres { client, url, .. } => {
                let drained = drain_postgres(client, self.batch, batches).await;
                drained.with_context(|| lost(url))?;
            }
        }
        Ok(started.elapsed())
    }

    /// Leaves nothing behind.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        const DROP: &str = "DROP TABLE bench_floor";
        match self.bare {
            Bare::Sqlite(connection) => Ok(connection.execute_batch(DROP)?),
            Bare::Postgres { client, url } => client.batch_execute(DROP).await.with_context(|| lost(&url)),
        }
    }
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Bare::Sqlite(_) => "Sqlite",
            Bare::Postgres { .. } => "Postgres",
        })
    }
}

fn lost(url: &PostgresUrl) -> String {
    format!("the floor on {url}")
}

const SQLITE_TABLE: &str = "
DROP TABLE IF EXISTS bench_floor;
CREATE TABLE bench_floor (
    delivery_id INTEGER PRIMARY KEY, workspace_id INTEGER, lane_id INTEGER, account_id INTEGER,
    channel_id INTEGER, recipient_id INTEGER, message_id INTEGER, revision INTEGER, action TEXT,
    target_delivery INTEGER, generation INTEGER, parent_delivery INTEGER, priority INTEGER, status TEXT,
    reason TEXT, claim_token TEXT, claim_seq INTEGER, attempt INTEGER, charged INTEGER, flood_waits INTEGER,
    not_ready_waits INTEGER, unknowns INTEGER, lost_claims INTEGER, lost_requests INTEGER, flood_since INTEGER, run_at INTEGER,
    position INTEGER, lease_until INTEGER, slot_at INTEGER, expires_at INTEGER, parts TEXT,
    provider_message_id TEXT, idempotency_key TEXT, last_error TEXT, queued_at INTEGER, claimed_at INTEGER,
    sending_at INTEGER, retry_at INTEGER, sent_at INTEGER, ended_at INTEGER
) STRICT;
CREATE INDEX bench_floor_due ON bench_floor (run_at, delivery_id) WHERE status = 'queued';";

fn insert_sqlite(connection: &Connection, rows: usize, batch: usize) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT INTO bench_floor ({COLUMNS})
         VALUES (?1, 1, ?1 % 100, ?1 % 50, ?1 % 100, ?1, 1, 'send', 0, 0, 'queued', 0, 0, 0, 0, 0, 0, 0, 0, ?2, ?2, 'd' || ?1,
                 '[]', ?2)"
    );
    let mut id = 0_i64;
    while (id as usize) < rows {
        let tx = connection.unchecked_transaction()?;
        {
            let mut statement = tx.prepare_cached(&sql)?;
            for _ in 0..batch.min(rows - id as usize) {
                id += 1;
                statement.execute((id, 1_794_744_000_000_000 + id))?;
            }
        }
        tx.commit()?;
    }
    Ok(())
}

fn drain_sqlite(connection: &Connection, batch: usize, batches: usize) -> rusqlite::Result<()> {
    const CLAIM: &str = "
        UPDATE bench_floor
           SET status = 'sending', claim_token = 'a38f25dc-7a04-4a8a-9d6b-4f5b6cf2f1c7', claim_seq = claim_seq + 1,
               attempt = attempt + 1, run_at = NULL, position = NULL, lease_until = ?1, slot_at = ?3, claimed_at = ?3,
               sending_at = ?3
         WHERE delivery_id IN (SELECT delivery_id FROM bench_floor WHERE status = 'queued'
                                ORDER BY run_at, delivery_id LIMIT ?2)
        RETURNING delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, idempotency_key";
    const FINISH: &str = "
        UPDATE bench_floor
           SET status = 'sent', claim_token = NULL, lease_until = NULL, provider_message_id = ?2, sent_at = ?3, ended_at = ?3
         WHERE delivery_id = ?1 AND status = 'sending'";
    for _ in 0..batches {
        let tx = connection.unchecked_transaction()?;
        let ids: Vec<(i64, String)> = tx
            .prepare_cached(CLAIM)?
            .query_map((1_794_744_060_000_000_i64, batch as i64, 1_794_744_000_000_000_i64), |row| {
                Ok((row.get(0)?, row.get(6)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        tx.commit()?;
        let tx = connection.unchecked_transaction()?;
        {
            let mut finish = tx.prepare_cached(FINISH)?;
            for (id, key) in &ids {
                finish.execute((id, key, 1_794_744_001_000_000_i64))?;
            }
        }
        tx.commit()?;
    }
    Ok(())
}

const POSTGRES_TABLE: &str = "
-- Ours is planned like this as well; left alone, the first five finishes scan the table.
SET plan_cache_mode = force_generic_plan;
DROP TABLE IF EXISTS bench_floor;
CREATE TABLE bench_floor (
    delivery_id bigint PRIMARY KEY, workspace_id bigint, lane_id bigint, account_id bigint,
    channel_id bigint, recipient_id bigint, message_id bigint, revision integer, action text,
    target_delivery bigint, generation integer, parent_delivery bigint, priority integer, status text,
    reason text, claim_token uuid, claim_seq bigint, attempt integer, charged integer, flood_waits integer,
    not_ready_waits integer, unknowns integer, lost_claims integer, lost_requests integer, flood_since timestamptz,
    run_at timestamptz, position bigint, lease_until timestamptz, slot_at timestamptz,
    expires_at timestamptz, parts jsonb, provider_message_id text, idempotency_key text, last_error jsonb,
    queued_at timestamptz, claimed_at timestamptz, sending_at timestamptz, retry_at timestamptz,
    sent_at timestamptz, ended_at timestamptz
) WITH (fillfactor = 45);
CREATE INDEX bench_floor_due ON bench_floor (run_at, delivery_id) WHERE status = 'queued';";

async fn insert_postgres(
    client: &tokio_postgres::Client,
    rows: usize,
    batch: usize,
) -> std::result::Result<(), tokio_postgres::Error> {
    let sql = format!(
        "INSERT INTO bench_floor ({COLUMNS})
         SELECT id, 1, id % 100, id % 50, id % 100, id, 1, 'send', 0, 0, 'queued', 0, 0, 0, 0, 0, 0, 0, 0, clock_timestamp(),
                1794744000000000 + id, 'd' || id, '[]', clock_timestamp()
           FROM unnest($1::bigint[]) AS id"
    );
    let insert = client.prepare(&sql).await?;
    let ids: Vec<i64> = (1..).take(rows).collect();
    for ids in ids.chunks(batch) {
        client.execute(&insert, &[&ids]).await?;
    }
    Ok(())
}

/// Ids travel as an array: a LIMIT parameter beside an UPDATE FROM makes the planner scan everything.
async fn drain_postgres(
    client: &tokio_postgres::Client,
    batch: usize,
    batches: usize,
) -> std::result::Result<(), tokio_postgres::Error> {
    let claim = client
        .prepare(&format!(
            "UPDATE bench_floor
                SET status = 'sending', claim_token = gen_random_uuid(), claim_seq = claim_seq + 1, attempt = attempt + 1,
                    run_at = NULL, position = NULL, lease_until = now() + interval '60 s', slot_at = now(),
                    claimed_at = now(), sending_at = now()
              WHERE delivery_id = ANY (ARRAY(SELECT delivery_id FROM bench_floor WHERE status = 'queued'
                                              ORDER BY run_at, delivery_id LIMIT {batch}
                                                FOR UPDATE SKIP LOCKED))
              RETURNING delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, idempotency_key"
        ))
        .await?;
    let finish = client
        .prepare(
            "UPDATE bench_floor AS b
                SET status = 'sent', claim_token = NULL, lease_until = NULL, provider_message_id = f.provider_id,
                    sent_at = now(), ended_at = now()
               FROM unnest($1::bigint[], $2::text[]) AS f (id, provider_id)
              WHERE b.delivery_id = f.id AND b.status = 'sending'",
        )
        .await?;
    for _ in 0..batches {
        let claimed = client.query(&claim, &[]).await?;
        let ids: Vec<i64> = claimed.iter().map(|row| row.get(0)).collect();
        let keys: Vec<String> = claimed.iter().map(|row| row.get(6)).collect();
        client.execute(&finish, &[&ids, &keys]).await?;
    }
    Ok(())
}
