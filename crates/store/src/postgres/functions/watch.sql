-- The picture of a moment, and who asks.

-- What a workspace looks like now; times in microseconds. With the rights of the caller: row-level security filters.
CREATE FUNCTION monitor_snapshot(workspace_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ws     bigint      := monitor_snapshot.workspace_id;
    today  timestamptz := rupor_now();
    lanes  jsonb;
    etas   jsonb;
    failed jsonb;
    sums   jsonb;
    rest   jsonb;
BEGIN
    SELECT jsonb_build_object('queued', coalesce(sum(h.n_queued), 0), 'retry', coalesce(sum(h.n_retry), 0),
               'sending', coalesce(sum(h.n_sending), 0), 'sent', coalesce(sum(h.n_sent), 0),
               'deduped', coalesce(sum(h.n_deduped), 0), 'failed_permanent', coalesce(sum(h.n_failed), 0),
               'dead', coalesce(sum(h.n_dead), 0))
      INTO sums
      FROM lane_heads AS h
      JOIN accounts AS a ON a.account_id = h.account_id
     WHERE h.workspace_id = ws AND h.recipient_id IS NULL AND a.tier NOT IN ('alerts', 'callbacks');
    -- Lanes of one budget share it fairly: a lane waits for as many of each other as it has itself.
    WITH busy AS (
        SELECT h.lane_id, h.account_id, h.channel_id, h.campaign_id, h.n_queued + h.n_retry AS waiting, h.interval_us,
               a.group_id, g.interval_us AS group_interval
          FROM lane_heads AS h
          JOIN account_heads AS a ON a.account_id = h.account_id
          JOIN rate_groups AS g ON g.group_id = a.group_id
         WHERE h.workspace_id = ws AND h.recipient_id IS NULL AND h.n_queued + h.n_retry > 0
    )
    SELECT coalesce(jsonb_agg(jsonb_build_object('lane_id', b.lane_id, 'account_id', b.account_id, 'channel_id', b.channel_id,
               'campaign_id', b.campaign_id, 'waiting', b.waiting,
               'due_at', (SELECT rupor_micros(r.run_at) FROM ready AS r WHERE r.lane_id = b.lane_id
                           ORDER BY r.priority, r.position, r.delivery_id LIMIT 1),
               'eta_ms', nullif(greatest(b.waiting * b.interval_us,
                   (SELECT sum(least(o.waiting, b.waiting))::bigint FROM busy AS o WHERE o.group_id = b.group_id) * b.group_interval),
                   0) / 1000) ORDER BY b.lane_id), '[]')
      INTO lanes
      FROM busy AS b;
    SELECT coalesce(jsonb_agg(jsonb_build_object('account_id', e.account_id, 'waiting', e.waiting,
               'eta_ms', nullif(greatest(e.slowest, e.waiting * e.group_interval), 0) / 1000) ORDER BY e.account_id), '[]')
      INTO etas
      FROM (SELECT h.account_id, sum(h.n_queued + h.n_retry)::bigint AS waiting,
                   max((h.n_queued + h.n_retry) * h.interval_us)::bigint AS slowest, g.interval_us AS group_interval
              FROM lane_heads AS h
              JOIN account_heads AS a ON a.account_id = h.account_id
              JOIN rate_groups AS g ON g.group_id = a.group_id
             WHERE h.workspace_id = ws AND h.recipient_id IS NULL
             GROUP BY h.account_id, g.interval_us
            HAVING sum(h.n_queued + h.n_retry) > 0) AS e;
    -- Events of trouble within a day, without failures that were queued again.
    WITH trouble AS MATERIALIZED (
        SELECT e.event_id, e.name, e.at, e.channel_id, e.delivery_id, e.detail
          FROM events AS e
         WHERE e.workspace_id = ws AND e.at > today - interval '24 hours'
           AND (e.name = 'dead_letter' OR e.name = 'failed_permanent' OR e.name = 'requeued' OR e.name = 'retry_scheduled' OR e.name = 'lease_recovered')
    ), ended AS MATERIALIZED (
        SELECT t.*
          FROM trouble AS t
         WHERE t.name IN ('dead_letter', 'failed_permanent')
           AND NOT EXISTS (SELECT FROM trouble AS q WHERE q.name = 'requeued' AND (q.detail ->> 'parent')::bigint = t.delivery_id)
    ), channel AS (
        SELECT c.channel_id, n.failed, n.first_at, l.at, l.name, coalesce(l.detail ->> 'code', l.detail ->> 'reason') AS code, r.retries
          FROM (SELECT DISTINCT t.channel_id FROM trouble AS t WHERE t.channel_id IS NOT NULL) AS c
         CROSS JOIN LATERAL (SELECT count(*) AS failed, min(f.at) AS first_at FROM ended AS f WHERE f.channel_id = c.channel_id) AS n
          LEFT JOIN LATERAL (SELECT f.at, f.name, f.detail FROM ended AS f WHERE f.channel_id = c.channel_id
                              ORDER BY f.at DESC, f.event_id DESC LIMIT 1) AS l ON true
         CROSS JOIN LATERAL (SELECT count(*) AS retries FROM trouble AS t
                              WHERE t.channel_id = c.channel_id AND t.name = 'retry_scheduled'
                                AND t.at > today - interval '10 minutes') AS r
    )
    SELECT (SELECT coalesce(jsonb_agg(jsonb_build_object('channel_id', c.channel_id, 'failed', c.failed,
                       'first_at', rupor_micros(c.first_at), 'last_at', rupor_micros(c.at), 'last_name', c.name,
                       'last_code', c.code, 'retries_10min', c.retries) ORDER BY c.channel_id), '[]')
              FROM channel AS c WHERE c.failed > 0 OR c.retries > 0),
           jsonb_build_object(
               'failures_10min', (SELECT count(*) FROM ended AS e WHERE e.at > today - interval '10 minutes'),
               'failures_24h', (SELECT count(*) FROM ended),
               'retries_10min', (SELECT count(*) FROM trouble AS t WHERE t.name = 'retry_scheduled' AND t.at > today - interval '10 minutes'),
               'lost_leases_10min', (SELECT count(*) FROM trouble AS t WHERE t.name = 'lease_recovered' AND t.at > today - interval '10 minutes'))
      INTO failed, rest;
    RETURN rest || jsonb_build_object(
        'at', rupor_micros(today), 'counts', sums, 'lanes', lanes, 'accounts_eta', etas, 'failures', failed,
        'oldest_due', (SELECT min((l ->> 'due_at')::bigint) FROM jsonb_array_elements(lanes) AS l
                        WHERE (l ->> 'due_at')::bigint <= rupor_micros(today)))
        || (SELECT jsonb_build_object('in_flight', count(*), 'expired_leases', count(*) FILTER (WHERE i.lease_until <= today))
              FROM inflight AS i WHERE i.workspace_id = ws)
        -- The channels of alerts are no channels of posts.
        || (SELECT jsonb_build_object('channels', count(*), 'paused_channels', count(*) FILTER (WHERE c.paused_until > today),
                                      'disabled_channels', count(*) FILTER (WHERE NOT c.enabled))
              FROM channels AS c JOIN accounts AS a ON a.account_id = c.account_id
             WHERE c.workspace_id = ws AND c.removed_at IS NULL AND a.tier NOT IN ('alerts', 'callbacks'))
        || (SELECT jsonb_build_object('accounts', count(*), 'paused_accounts', count(*) FILTER (WHERE a.paused),
                                      'cooling_accounts', count(*) FILTER (WHERE g.cooldown_until > today))
              FROM accounts AS a JOIN rate_groups AS g ON g.group_id = a.group_id
             WHERE a.workspace_id = ws AND a.tier NOT IN ('alerts', 'callbacks'))
        || (SELECT jsonb_build_object('sources', count(*),
                                      'failing_sources', count(*) FILTER (WHERE s.enabled AND c.failing_since IS NOT NULL))
              FROM pull_sources AS s LEFT JOIN pull_cursors AS c ON c.source_id = s.source_id
             WHERE s.workspace_id = ws)
        || (SELECT jsonb_build_object('open_alerts', count(*)) FROM alerts AS a WHERE a.workspace_id = ws AND a.ended_at IS NULL)
        -- What a guard says begins with its name; other words are an operator's.
        || (SELECT jsonb_build_object('campaigns', jsonb_build_object(
                       'draft', count(*) FILTER (WHERE k.status = 'draft'), 'scheduled', count(*) FILTER (WHERE k.status = 'scheduled'),
                       'preparing', count(*) FILTER (WHERE k.status = 'preparing'), 'running', count(*) FILTER (WHERE k.status = 'running'),
                       'paused', count(*) FILTER (WHERE k.status = 'paused'), 'finishing', count(*) FILTER (WHERE k.status = 'finishing'),
                       'finished', count(*) FILTER (WHERE k.status = 'finished'), 'cancelling', count(*) FILTER (WHERE k.status = 'cancelling'),
                       'cancelled', count(*) FILTER (WHERE k.status = 'cancelled'), 'aborted', count(*) FILTER (WHERE k.status = 'aborted'),
                       'guarded', count(*) FILTER (WHERE k.status = 'paused' AND starts_with(k.why, 'guard: ')
                           OR k.status = 'running' AND EXISTS (
                               SELECT FROM jsonb_each_text(k.resting) AS r WHERE starts_with(r.value, 'guard: ')))))
              FROM campaigns AS k WHERE k.workspace_id = ws)
        || (SELECT jsonb_build_object('bots', jsonb_build_object(
                       'waiting', b.waiting, 'oldest', rupor_micros(b.oldest), 'handoffs', b.handoffs,
                       'handoffs_waiting', b.handoffs_waiting, 'handoff_since', rupor_micros(b.handoff_since),
                       'turns', b.turns, 'fallbacks', b.fallbacks, 'errors', b.errors))
              FROM bot_snapshot(ws, interval '1 hour', rupor_rule_bot_counted_max()) AS b);
END $$;

-- Whose token this is, found by nothing but its secret; so it looks across workspaces.
CREATE FUNCTION api_token_by_secret(hash text) RETURNS SETOF api_tokens
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    RETURN QUERY SELECT t.* FROM api_tokens AS t WHERE t.secret_hash = hash AND t.revoked_at IS NULL;
END $$;

-- What became of deliveries to channels, noted for the programs that want to hear of it, in the transaction that ends them.
-- Only where an account of the workspace is in the tier of callbacks; what became of alerts and of callbacks themselves is
-- told to nobody. Runs with the rights of the function that ends the delivery.
CREATE FUNCTION rupor_note_outcomes(workspaces bigint[], ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM accounts AS a WHERE a.workspace_id = ANY (workspaces) AND a.tier = 'callbacks') THEN
        RETURN;
    END IF;
    INSERT INTO outcomes (workspace_id, delivery_id)
    SELECT d.workspace_id, d.delivery_id
      FROM unnest(ids) WITH ORDINALITY AS u (delivery_id, ord)
     CROSS JOIN LATERAL (SELECT x.workspace_id, x.delivery_id, x.account_id
                           FROM deliveries AS x
                          WHERE x.delivery_id = u.delivery_id AND x.channel_id IS NOT NULL
                         OFFSET 0) AS d
     WHERE EXISTS (SELECT FROM accounts AS a WHERE a.workspace_id = d.workspace_id AND a.tier = 'callbacks')
       AND NOT EXISTS (SELECT FROM accounts AS a WHERE a.account_id = d.account_id AND a.tier IN ('alerts', 'callbacks'))
     ORDER BY u.ord;
END $$;

CREATE OR REPLACE FUNCTION rupor_note_outcome() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM rupor_note_outcomes(ARRAY[NEW.workspace_id], ARRAY[NEW.delivery_id]);
    RETURN NULL;
END $$;

-- Whoever ends a claim with a success notes it himself, a batch at a time (rupor_end_sent, rupor_end_claim, rupor_adopt): that is what a
-- queue does all day, and a call for each row would cost it a tenth.
CREATE OR REPLACE TRIGGER deliveries_outcome
AFTER UPDATE OF status ON deliveries
FOR EACH ROW
WHEN (NEW.channel_id IS NOT NULL AND NEW.status IN ('sent', 'failed_permanent', 'dead') AND OLD.status <> NEW.status
  AND NOT (OLD.status = 'sending' AND NEW.status = 'sent'))
EXECUTE FUNCTION rupor_note_outcome();
