//! Recovery: claims whose lease has ended. It bypasses the parallelism gate, or leaked places would block it.

use domain::ids::DeliveryId;
use domain::time::Timestamp;
use rusqlite::Connection;

use super::commit::{Settling, Token};
use super::settle::{held, lease_expired};
use super::{Sqlite, Urgency};
use crate::error::Result;
use crate::intake::RUN_ABANDONED;
use crate::queue::{Recovered, Whose};

/// Reads all that is in flight, which is never more than the nodes can carry; an index would be written by every claim.
pub(super) const EXPIRED: &str = "
SELECT delivery_id, workspace_id, claim_token
  FROM inflight
 WHERE lease_until <= ?1 AND (?2 IS NULL OR workspace_id = ?2)
 ORDER BY lease_until, delivery_id
 LIMIT ?3";

/// What is in flight at the moment the file changes hands; what people read tells the same.
const ABANDONED: &str = "
UPDATE deliveries SET lease_until = min(lease_until, ?1) WHERE delivery_id IN (SELECT delivery_id FROM inflight)";
const ABANDONED_CLAIMS: &str = "UPDATE inflight SET lease_until = min(lease_until, ?1)";
/// A wall that was being read is read again: what was taken in is known.
const ABANDONED_SOURCES: &str =
    "UPDATE pull_cursors SET lease_until = 0, lease_owner = NULL WHERE lease_owner IS NOT NULL";
const ABANDONED_RUNS: &str = "
UPDATE ingest_runs SET finished_at = ?1, error = ?2 WHERE finished_at IS NULL";
/// Of bots: who polled, who took a turn (its lease is a short one, so the index of what is due leads there), who called.
const ABANDONED_BOTS: &[&str] = &[
    "UPDATE bot_accounts SET leased_until = 0 WHERE leased_until > ?1",
    "UPDATE bot_state SET token = NULL, due_at = ?1
      WHERE due_at > ?1 AND due_at < ?1 + 600000000 AND token IS NOT NULL",
    // One that waits after a failure goes on waiting: it has the reason of that.
    "UPDATE bot_outbox SET due_at = ?1 WHERE status = 'waiting' AND due_at > ?1 AND tries > 0 AND reason IS NULL",
];

/// The lock on the file says that whoever held these is gone: nobody waits for a lease that nobody holds. Where a
/// request may have left, recovery makes the outcome unknown, and the policy of the channel decides.
pub(super) fn end_abandoned(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let tx = connection.unchecked_transaction()?;
    tx.execute(ABANDONED, [now.0])?;
    tx.execute(ABANDONED_CLAIMS, [now.0])?;
    tx.execute(ABANDONED_SOURCES, [])?;
    tx.execute(ABANDONED_RUNS, (now.0, RUN_ABANDONED))?;
    for sql in ABANDONED_BOTS {
        tx.execute(sql, [now.0])?;
    }
    tx.commit()
}

impl Sqlite {
    pub async fn recover(&self, whose: Whose, limit: usize) -> Result<Vec<Recovered>> {
        let recovered = self
            .write(Urgency::Maintenance, move |tx| {
                let workspace = match whose {
                    Whose::Everyone => None,
                    Whose::Workspace(id) => Some(id.0),
                };
                let expired = tx.all(EXPIRED, (tx.now.0, workspace, limit as i64), |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Token>(2)?))
                })?;
                let mut settling = Settling::default();
                let mut recovered = Vec::with_capacity(expired.len());
                for (delivery_id, workspace_id, token) in expired {
                    if let Some(held) = held(tx, delivery_id, workspace_id, token)? {
                        let status = lease_expired(tx, &mut settling, &held)?;
                        recovered.push(Recovered { delivery_id: DeliveryId(delivery_id), status });
                    }
                }
                settling.write(tx)?;
                Ok(recovered)
            })
            .await?;
        if !recovered.is_empty() {
            self.bell.ring();
        }
        Ok(recovered)
    }
}
