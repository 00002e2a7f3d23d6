//! The audit: do the narrow tables, the counters and the heads agree with what people read?
//! It reads everything, so it is for tests and `rupor check`, never for the hot path.

use domain::ids::WorkspaceId;

use super::{Again, As, Postgres};
use crate::error::Result;

/// Each query returns one sentence per row that is wrong. The same as SQLite's, but for the dialect; a parent in
/// another workspace is invisible here, so the last one asks for it to be there.
pub(super) const CHECKS: &[&str] = &[
    "SELECT format('delivery %s is %s but %s', d.delivery_id, d.status, CASE WHEN r.delivery_id IS NULL THEN 'not ready' ELSE 'ready' END)
       FROM deliveries AS d
       LEFT JOIN ready AS r ON r.delivery_id = d.delivery_id AND r.lane_id = d.lane_id AND r.priority = d.priority
                           AND r.position = d.position AND r.run_at = d.run_at AND r.workspace_id = d.workspace_id
      WHERE d.workspace_id = $1
        AND (d.status IN ('queued', 'retry')) <> (r.delivery_id IS NOT NULL)",
    "SELECT format('delivery %s is %s but its claim is %s', d.delivery_id, d.status, CASE WHEN i.delivery_id IS NULL THEN 'missing' ELSE 'still there' END)
       FROM deliveries AS d
       LEFT JOIN inflight AS i ON i.delivery_id = d.delivery_id AND i.claim_token = d.claim_token AND i.claim_seq = d.claim_seq
                              AND i.attempt = d.attempt AND i.lease_until = d.lease_until AND i.workspace_id = d.workspace_id
      WHERE d.workspace_id = $1
        AND (d.status = 'sending') <> (i.delivery_id IS NOT NULL)",
    "SELECT format('%s of delivery %s has no delivery', n.kind, n.delivery_id)
       FROM (SELECT 'ready row' AS kind, r.delivery_id FROM ready AS r WHERE r.workspace_id = $1
             UNION ALL
             SELECT 'claim', i.delivery_id FROM inflight AS i WHERE i.workspace_id = $1) AS n
      WHERE NOT EXISTS (SELECT FROM deliveries AS d WHERE d.delivery_id = n.delivery_id)",
    "SELECT format('delivery %s is seen as claimed', d.delivery_id)
       FROM deliveries AS d
      WHERE d.workspace_id = $1 AND d.status = 'claimed'",
    "SELECT format('lane %s counts %s/%s/%s but holds %s/%s/%s', h.lane_id, h.n_queued, h.n_retry, h.n_sending,
                   count(*) FILTER (WHERE d.status = 'queued'), count(*) FILTER (WHERE d.status = 'retry'),
                   count(*) FILTER (WHERE d.status = 'sending'))
       FROM lane_heads AS h LEFT JOIN deliveries AS d ON d.lane_id = h.lane_id
      WHERE h.workspace_id = $1
      GROUP BY h.lane_id
     HAVING h.n_queued <> count(*) FILTER (WHERE d.status = 'queued')
         OR h.n_retry <> count(*) FILTER (WHERE d.status = 'retry')
         OR h.n_sending <> count(*) FILTER (WHERE d.status = 'sending')
         OR h.n_sent < count(*) FILTER (WHERE d.status = 'sent')
         OR h.n_deduped < count(*) FILTER (WHERE d.status = 'deduped')
         OR h.n_failed < count(*) FILTER (WHERE d.status = 'failed_permanent')
         OR h.n_dead < count(*) FILTER (WHERE d.status = 'dead')",
    "SELECT format('lane %s points at %s instead of %s', h.lane_id, h.next_at, n.next_at)
       FROM lane_heads AS h
      CROSS JOIN LATERAL (
            SELECT coalesce(
                (SELECT greatest(r.run_at, h.blocked_until, h.closed_until, h.put_off_until, h.next_slot, h.served_at)
                   FROM ready AS r
                  WHERE r.lane_id = h.lane_id
                    AND h.open
                    AND (SELECT count(*) FROM inflight AS i WHERE i.lane_id = h.lane_id) < h.max_parallel
                    AND (h.max_parallel = 1 OR r.priority = h.head_priority)
                  ORDER BY r.priority, r.position, r.delivery_id
                  LIMIT 1),
                'infinity') AS next_at) AS n
      WHERE h.workspace_id = $1 AND h.next_at <> n.next_at",
    "SELECT format('account %s sleeps beside a lane that is due at %s', h.account_id, min(l.next_at))
       FROM account_heads AS h JOIN lane_heads AS l ON l.account_id = h.account_id
      WHERE h.workspace_id = $1
        AND h.open
        AND h.next_at = 'infinity'
        AND l.next_at < 'infinity'
        AND (SELECT count(*) FROM inflight AS i WHERE i.account_id = h.account_id) < h.max_parallel
      GROUP BY h.account_id",
    "SELECT format('key %s is held for delivery %s which is %s', k.key, k.delivery_id, coalesce(d.status, 'gone'))
       FROM dedup_index AS k LEFT JOIN deliveries AS d ON d.delivery_id = k.delivery_id
      WHERE k.workspace_id = $1
        AND k.sent_at IS NULL
        AND coalesce(d.status, 'gone') NOT IN ('queued', 'retry', 'sending', 'sent')",
    "SELECT format('delivery %s has attempt %s but %s attempts ended', d.delivery_id, d.attempt, count(a.attempt))
       FROM deliveries AS d LEFT JOIN attempts AS a ON a.delivery_id = d.delivery_id
      WHERE d.workspace_id = $1
      GROUP BY d.delivery_id
     HAVING d.attempt <> count(a.attempt) + (d.status = 'sending')::integer",
    "SELECT format('delivery %s belongs to another workspace than its parent', d.delivery_id)
       FROM deliveries AS d
       LEFT JOIN messages AS m ON m.message_id = d.message_id
       LEFT JOIN lane_heads AS h ON h.lane_id = d.lane_id
       LEFT JOIN accounts AS a ON a.account_id = d.account_id
      WHERE d.workspace_id = $1
        AND (m.workspace_id IS DISTINCT FROM $1 OR h.workspace_id IS DISTINCT FROM $1 OR a.workspace_id IS DISTINCT FROM $1)",
];

impl Postgres {
    pub async fn audit(&self, workspace: WorkspaceId) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for check in CHECKS {
            let rows = self.all(As::App(workspace), Again::Safe, check, &[&workspace.0]).await?;
            wrong.extend(rows.iter().map(|row| row.get::<_, String>(0)));
        }
        Ok(wrong)
    }
}
