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
    // Of what ended since the oldest hour that is kept, and with what the lane counts in all.
    "SELECT format('lane %s has hours with %s/%s/%s of %s/%s/%s', h.lane_id, n.sent, n.deduped, n.failed,
                   h.n_sent, h.n_deduped, h.n_failed + h.n_dead)
       FROM lane_heads AS h
       JOIN (SELECT c.lane_id, min(c.at) AS since, sum(c.n_sent) AS sent, sum(c.n_deduped) AS deduped, sum(c.n_failed) AS failed
               FROM lane_counts AS c GROUP BY c.lane_id) AS n ON n.lane_id = h.lane_id
       LEFT JOIN deliveries AS d ON d.lane_id = h.lane_id AND d.ended_at >= n.since
      WHERE h.workspace_id = $1
      GROUP BY h.lane_id, n.sent, n.deduped, n.failed
     HAVING n.sent > h.n_sent OR n.deduped > h.n_deduped OR n.failed > h.n_failed + h.n_dead
         OR n.sent < count(*) FILTER (WHERE d.status = 'sent')
         OR n.deduped < count(*) FILTER (WHERE d.status = 'deduped')
         OR n.failed < count(*) FILTER (WHERE d.status IN ('failed_permanent', 'dead'))",
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
    // K1
    "SELECT 'campaign ' || k.campaign_id || ' counts ' || k.n_total || ' people, ' || k.n_excluded || ' of them left out, but has '
            || count(m.member_id) || ' and ' || count(CASE m.state WHEN 'excluded' THEN 1 END)
       FROM campaigns AS k LEFT JOIN campaign_recipients AS m ON m.campaign_id = k.campaign_id
      WHERE k.workspace_id = $1
      GROUP BY k.campaign_id
     HAVING k.n_total <> count(m.member_id) OR k.n_excluded <> count(CASE m.state WHEN 'excluded' THEN 1 END)",
    "SELECT 'cohort ' || c.cohort_id || ' counts ' || c.n_waiting || ' who wait, but has ' || count(m.member_id)
       FROM campaign_cohorts AS c
       LEFT JOIN campaign_recipients AS m ON m.cohort_id = c.cohort_id AND m.state = 'waiting'
      WHERE c.workspace_id = $1
      GROUP BY c.cohort_id
     HAVING c.n_waiting <> count(m.member_id)",
    // K2
    "SELECT 'member ' || m.member_id || ' is queued without a delivery of its own'
       FROM campaign_recipients AS m
       LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
      WHERE m.workspace_id = $1 AND m.state = 'queued'
        AND (d.delivery_id IS NULL OR d.campaign_id IS DISTINCT FROM m.campaign_id OR d.recipient_id <> m.recipient_id
             OR d.generation <> m.generation)",
    "SELECT 'delivery ' || d.delivery_id || ' belongs to nobody of its campaign'
       FROM deliveries AS d
      WHERE d.workspace_id = $1 AND d.campaign_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM campaign_recipients AS m
                         WHERE m.recipient_id = d.recipient_id AND m.campaign_id = d.campaign_id
                           AND (m.delivery_id = d.delivery_id OR d.generation < m.generation))",
    "SELECT 'member ' || m.member_id || ' is ' || m.state || ' while delivery ' || d.delivery_id || ' is ' || d.status
       FROM campaign_recipients AS m
       JOIN deliveries AS d ON d.campaign_id = m.campaign_id AND d.recipient_id = m.recipient_id
      WHERE m.workspace_id = $1 AND d.ended_at IS NULL AND (m.state <> 'queued' OR m.delivery_id <> d.delivery_id)",
    // K4
    "SELECT 'member ' || m.member_id || ' waits behind the cursor of its cohort'
       FROM campaign_recipients AS m JOIN campaign_cohorts AS c ON c.cohort_id = m.cohort_id
      WHERE m.workspace_id = $1 AND m.state = 'waiting' AND m.member_id <= c.cursor",
    "SELECT 'lane ' || h.lane_id || ' of campaign ' || h.campaign_id || ' holds ' || h.n_queued || ' who were not tried yet'
       FROM lane_heads AS h
      WHERE h.workspace_id = $1 AND h.campaign_id IS NOT NULL AND h.n_queued > 10000",
    // K5
    "SELECT 'campaign ' || n.campaign_id || ' has ' || n.queued || ' with a delivery, but its lanes count ' || n.lanes
       FROM (SELECT k.campaign_id,
                    (SELECT count(*) FROM campaign_recipients AS m
                      WHERE m.campaign_id = k.campaign_id AND m.state IN ('queued', 'settled')) AS queued,
                    (SELECT coalesce(sum(h.n_queued + h.n_retry + h.n_sending + h.n_sent + h.n_failed + h.n_dead), 0)
                       FROM lane_heads AS h WHERE h.campaign_id = k.campaign_id)
                    - k.n_failed_again - k.n_dead_again AS lanes
               FROM campaigns AS k WHERE k.workspace_id = $1) AS n
      WHERE n.queued <> n.lanes",
    "SELECT 'campaign ' || k.campaign_id || ' is ' || k.status || ' while somebody is on the way'
       FROM campaigns AS k
      WHERE k.workspace_id = $1 AND k.status IN ('finished', 'cancelled', 'aborted')
        AND (EXISTS (SELECT 1 FROM deliveries AS d WHERE d.campaign_id = k.campaign_id AND d.ended_at IS NULL)
             OR (k.status = 'finished' AND EXISTS (SELECT 1 FROM campaign_recipients AS m
                                                    WHERE m.campaign_id = k.campaign_id AND m.state = 'waiting')))",
    "SELECT 'lane ' || h.lane_id || ' is ' || CASE WHEN h.open THEN 'open' ELSE 'closed' END || ' while its campaign is ' || k.status
       FROM lane_heads AS h JOIN campaigns AS k ON k.campaign_id = h.campaign_id
      WHERE h.workspace_id = $1 AND h.open <> (k.status IN ('running', 'finishing')
             AND coalesce(jsonb_typeof(k.resting -> h.account_id::text) <> 'string', true)) AND k.started_at IS NOT NULL",
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
