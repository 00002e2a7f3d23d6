//! A clock that was set back while nobody ran: what the database remembers then lies in the future.
//!
//! A slot further away than its interval would silence a channel for as long as the clock went back. Waits that were
//! counted from the clock of then are shortened by the step; a time that somebody named stays.

use domain::time::{Span, Timestamp};
use rusqlite::Connection;
use serde_json::json;

use super::heads::Touched;
use super::{Sqlite, Tx, Urgency};
use crate::address::SqlitePath;
use crate::error::Result;

/// A clock that is corrected by less is left alone.
const TOLERATED: Span = Span::from_secs(5);

/// The latest instant that somebody wrote down as "now". All of it is newer once the step was told: a second start
/// finds nothing, and does not shorten the waits of the first one.
const LATEST: &str = "
SELECT max((SELECT coalesce(max(served_at), 0) FROM account_heads),
           (SELECT coalesce(max(served_at), 0) FROM lane_heads),
           coalesce((SELECT at FROM events ORDER BY event_id DESC LIMIT 1), 0))";

/// ?1 is now, ?2 the step. Retries first, by what the delivery says; then what was due when it came.
const FORGET: [&str; 12] = [
    "UPDATE rate_groups
        SET next_slot = min(next_slot, ?1 + burst * interval_us),
            cooldown_until = CASE WHEN cooldown_until > ?1 THEN max(?1, cooldown_until - ?2) ELSE cooldown_until END,
            flood_until = CASE WHEN flood_until > ?1 THEN max(?1, flood_until - ?2) ELSE flood_until END",
    "UPDATE lane_heads
        SET next_slot = min(next_slot, ?1 + interval_us), served_at = min(served_at, ?1),
            put_off_until = min(put_off_until, ?1),
            blocked_until = CASE WHEN blocked_until > ?1 AND blocked_until < 9223372036854775807
                                 THEN max(?1, blocked_until - ?2) ELSE blocked_until END",
    "UPDATE channels SET paused_until = max(?1, paused_until - ?2)
      WHERE paused_until > ?1 AND paused_until < 9223372036854775807",
    "UPDATE recipients
        SET next_slot = min(next_slot, ?1),
            paused_until = CASE WHEN paused_until > ?1 THEN max(?1, paused_until - ?2) ELSE paused_until END
      WHERE next_slot > ?1 OR paused_until > ?1",
    "UPDATE account_heads SET served_at = ?1 WHERE served_at > ?1 AND ?2 > 0",
    "UPDATE deliveries SET run_at = max(?1, run_at - ?2) WHERE status = 'retry' AND run_at > ?1",
    "UPDATE deliveries SET run_at = ?1 WHERE status = 'queued' AND run_at > ?1 AND run_at <= queued_at AND ?2 > 0",
    "UPDATE ready
        SET run_at = (SELECT d.run_at FROM deliveries AS d WHERE d.delivery_id = ready.delivery_id)
      WHERE run_at > ?1 AND ?2 > 0",
    "UPDATE deliveries SET lease_until = max(?1, lease_until - ?2) WHERE status = 'sending' AND lease_until > ?1",
    "UPDATE inflight SET lease_until = max(?1, lease_until - ?2) WHERE lease_until > ?1",
    "UPDATE pull_cursors SET next_poll_at = max(?1, next_poll_at - ?2) WHERE next_poll_at > ?1",
    "UPDATE pull_cursors SET lease_until = max(?1, lease_until - ?2) WHERE lease_until > ?1",
];
const LANES: &str = "SELECT lane_id, account_id FROM lane_heads";
const TELL_ALL: &str = "
INSERT INTO events (workspace_id, at, name, detail) SELECT workspace_id, ?1, 'alert', ?2 FROM workspaces ORDER BY workspace_id";

/// At the start, before anybody is served: how far the clock went back since the database was last used.
pub(super) fn forget(connection: &Connection, path: &SqlitePath, now: Timestamp) -> Result<Option<Span>> {
    let tx = Tx::new(connection, path, now);
    let latest = tx.first(LATEST, [], |row| row.get(0))?.unwrap_or(0);
    let step = Timestamp(latest) - now;
    if step <= TOLERATED {
        return Ok(None);
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| tx.failure(error))?;
    let done = rewrite(&tx, step);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.execute_batch(end).map_err(|error| tx.failure(error))?;
    done.map(|()| Some(step))
}

fn rewrite(tx: &Tx<'_>, step: Span) -> Result<()> {
    for sql in FORGET {
        tx.execute(sql, (tx.now.0, step.0))?;
    }
    let mut touched = Touched::default();
    for (lane, account) in tx.all(LANES, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))? {
        touched.lane(lane);
        touched.account(account);
    }
    touched.refresh(tx)?;
    tell(tx, step, "since the database was last used; waits and slots were moved back with it")
}

fn tell(tx: &Tx<'_>, step: Span, since: &str) -> Result<()> {
    let text = format!(
        "the clock of this machine went back by {} s {since}; check its time service (`timedatectl`)",
        step.0 / 1_000_000
    );
    tracing::error!("{text}");
    let detail = json!({"text": text, "step_ms": step.0 / 1_000}).to_string();
    tx.execute(TELL_ALL, (tx.now.0, detail)).map(drop)
}

impl Sqlite {
    /// Tells everybody of a clock that was set back while we ran. Our own goes on as if nothing had happened.
    pub async fn clock_stepped(&self) -> Result<Option<Span>> {
        let Some(step) = self.clock.take_step() else {
            return Ok(None);
        };
        self.write(Urgency::Maintenance, move |tx| {
            tell(tx, step, "while this node ran; it goes on by its own count until it is started again")
        })
        .await?;
        Ok(Some(step))
    }
}
