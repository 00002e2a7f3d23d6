-- The heads of lanes and accounts: the pointers that make a claim find work without searching.
-- Unlike SQLite it moves all lanes of a transaction in one statement: each one costs as much as its rows.

-- What a transaction did to lanes, each named once: how its counters change, and for a claim its slot and its run.
-- NULL columns change nothing.
CREATE TYPE rupor_moves AS (
    lane_id  bigint[],
    queued   bigint[],
    retry    bigint[],
    sending  bigint[],
    sent     bigint[],
    deduped  bigint[],
    failed   bigint[],
    dead     bigint[],
    slot_at  timestamptz[],     -- the last slot it was given: it was served
    run      integer[],         -- its urgent run afterwards
    -- told by whoever knows it, else looked up: what is in flight now, and the row that is first now if there is one
    in_flight      bigint[],
    first_priority integer[],
    first_run_at   timestamptz[]
);

-- Writes the moves and, in the same stroke, when each lane's first row may go by everything that can hold it back.
-- The caller holds the accounts. Here too the settings pin the plan: a session that was the first to call this while it
-- made an account, of nothing but empty tables, claims with the same plan. OFFSET 0 computes each head once.
CREATE FUNCTION rupor_move_lanes(m rupor_moves, at timestamptz) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    today timestamptz := coalesce(at, rupor_now());
BEGIN
    UPDATE lane_heads AS h
       SET next_at = n.next_at, head_priority = n.head_priority, served_at = n.served_at, next_slot = n.next_slot,
           urgent_run = coalesce(n.run, h.urgent_run),
           n_queued = h.n_queued + coalesce(n.queued, 0), n_retry = h.n_retry + coalesce(n.retry, 0),
           n_sending = h.n_sending + coalesce(n.sending, 0), n_sent = h.n_sent + coalesce(n.sent, 0),
           n_deduped = h.n_deduped + coalesce(n.deduped, 0), n_failed = h.n_failed + coalesce(n.failed, 0),
           n_dead = h.n_dead + coalesce(n.dead, 0)
      FROM (SELECT w.*, s.served_at, s.next_slot,
                   coalesce(first.priority, 0) AS head_priority,
                   CASE WHEN l.open AND first.run_at IS NOT NULL
                         AND coalesce(w.in_flight, (SELECT count(*) FROM inflight AS i
                                                     WHERE i.account_id = l.account_id AND i.lane_id = l.lane_id)) < l.max_parallel
                        THEN greatest(first.run_at, l.blocked_until, l.closed_until, l.put_off_until, s.next_slot, s.served_at)
                        ELSE 'infinity' END AS next_at
              FROM unnest(m.lane_id, m.queued, m.retry, m.sending, m.sent, m.deduped, m.failed, m.dead, m.slot_at, m.run,
                          m.in_flight, m.first_priority, m.first_run_at)
                   AS w (lane_id, queued, retry, sending, sent, deduped, failed, dead, slot_at, run,
                         in_flight, first_priority, first_run_at)
              JOIN lane_heads AS l ON l.lane_id = w.lane_id
             -- A lane's own slot never lies behind the one it got, so its next is one interval after its last.
             CROSS JOIN LATERAL (SELECT CASE WHEN w.slot_at IS NULL THEN l.served_at ELSE at END AS served_at,
                                        coalesce(w.slot_at + rupor_span(l.interval_us), l.next_slot) AS next_slot) AS s
             -- Order is kept by the first row; without order, an urgent one that waits does not hide a bulk one that is due.
              LEFT JOIN LATERAL (SELECT f.priority, f.run_at
                                   FROM ((SELECT r.priority, r.run_at FROM ready AS r
                                           WHERE r.lane_id = l.lane_id AND r.priority = 0 AND w.in_flight IS NULL
                                           ORDER BY r.position, r.delivery_id LIMIT 1)
                                         UNION ALL
                                         (SELECT r.priority, r.run_at FROM ready AS r
                                           WHERE r.lane_id = l.lane_id AND r.priority = 1 AND w.in_flight IS NULL
                                           ORDER BY r.position, r.delivery_id LIMIT 1)) AS f
                                  ORDER BY CASE WHEN l.max_parallel > 1 THEN greatest(f.run_at, today) END, f.priority
                                  LIMIT 1) AS found ON true
             CROSS JOIN LATERAL (SELECT coalesce(w.first_priority, found.priority) AS priority,
                                        coalesce(w.first_run_at, found.run_at) AS run_at) AS first
            OFFSET 0) AS n
     WHERE h.lane_id = n.lane_id
       -- what was only looked at, and stands as it stood, is not written
       AND (h.next_at <> n.next_at OR h.head_priority <> n.head_priority OR n.slot_at IS NOT NULL
            OR coalesce(n.queued, 0) <> 0 OR coalesce(n.retry, 0) <> 0 OR coalesce(n.sending, 0) <> 0
            OR coalesce(n.deduped, 0) <> 0);
END $$;

CREATE FUNCTION rupor_refresh_lanes(lane_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    m rupor_moves;
BEGIN
    m.lane_id := lane_ids;
    PERFORM rupor_move_lanes(m, NULL);
END $$;

-- When each account may next be served: its earliest lane, its budget, its parallelism. A claim that served it says so.
CREATE FUNCTION rupor_move_accounts(account_ids bigint[], served boolean[], runs integer[], at timestamptz) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    UPDATE account_heads AS h
       SET next_at = n.next_at, served_at = n.served_at, urgent_run = coalesce(n.run, h.urgent_run)
      FROM (SELECT a.account_id, w.run, s.served_at,
                   CASE WHEN a.open AND least(urgent.next_at, bulk.next_at) < 'infinity'
                         AND (SELECT count(*) FROM inflight AS i WHERE i.account_id = a.account_id) < a.max_parallel
                        THEN greatest(least(urgent.next_at, bulk.next_at), g.cooldown_until, s.served_at,
                                      g.next_slot - rupor_span((g.burst - 1) * g.interval_us))
                        ELSE 'infinity' END AS next_at
              FROM unnest(account_ids, served, runs) AS w (account_id, served, run)
              JOIN account_heads AS a ON a.account_id = w.account_id
              JOIN rate_groups AS g ON g.group_id = a.group_id
             CROSS JOIN LATERAL (SELECT CASE WHEN w.served THEN at ELSE a.served_at END AS served_at) AS s
              LEFT JOIN LATERAL (SELECT l.next_at FROM lane_heads AS l
                                  WHERE l.account_id = a.account_id AND l.head_priority = 0
                                  ORDER BY l.next_at LIMIT 1) AS urgent ON true
              LEFT JOIN LATERAL (SELECT l.next_at FROM lane_heads AS l
                                  WHERE l.account_id = a.account_id AND l.head_priority = 1
                                  ORDER BY l.next_at LIMIT 1) AS bulk ON true
            OFFSET 0) AS n
     WHERE h.account_id = n.account_id
       AND (h.next_at <> n.next_at OR h.served_at <> n.served_at OR h.urgent_run <> n.run);
END $$;

CREATE FUNCTION rupor_refresh_accounts(account_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM rupor_move_accounts(account_ids, NULL, NULL, NULL);
END $$;

-- What was tried before and waits to be tried again is due now. The caller holds the accounts and refreshes the lanes.
CREATE FUNCTION rupor_hurry(lane_ids bigint[], at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH due AS (
        UPDATE ready AS r
           SET run_at = rupor_hurry.at,
               position = CASE WHEN h.max_parallel = 1 THEN r.position ELSE rupor_micros(rupor_hurry.at) END
          FROM lane_heads AS h
         WHERE h.lane_id = r.lane_id AND r.lane_id = ANY (lane_ids) AND r.retried AND r.run_at > rupor_hurry.at
        RETURNING r.delivery_id, r.position
    )
    UPDATE deliveries AS d
       SET run_at = rupor_hurry.at, position = u.position
      FROM due AS u
     WHERE d.delivery_id = u.delivery_id;
END $$;

-- The bars of the board. Whoever moves the counters of a lane holds its account, and nobody else asks for the hour of that
-- lane meanwhile: no second wait, no new order of locks. For channels only: campaigns note how far they are by themselves.

-- Claims that ended as sent: all lanes of a batch at once, by whoever ends them.
CREATE FUNCTION rupor_count_hours(lane_ids bigint[], sent bigint[], at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO lane_counts AS c (lane_id, at, workspace_id, n_sent, sent_at)
    SELECT l.lane_id, date_trunc('hour', rupor_count_hours.at, 'UTC'), h.workspace_id, l.n, rupor_count_hours.at
      FROM unnest(lane_ids, sent) AS l (lane_id, n)
     CROSS JOIN LATERAL (SELECT x.workspace_id FROM lane_heads AS x
                          WHERE x.lane_id = l.lane_id AND x.channel_id IS NOT NULL OFFSET 0) AS h
    ON CONFLICT (lane_id, at) DO UPDATE SET n_sent = c.n_sent + excluded.n_sent, sent_at = excluded.sent_at;
END $$;

-- Whatever else ends, lane by lane.
CREATE OR REPLACE FUNCTION rupor_lane_counted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    now timestamptz := rupor_now();
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'lane_heads');
    INSERT INTO lane_counts AS c (lane_id, at, workspace_id, n_sent, n_deduped, n_failed, sent_at)
    VALUES (NEW.lane_id, date_trunc('hour', now, 'UTC'),
            NEW.workspace_id, NEW.n_sent - OLD.n_sent, NEW.n_deduped - OLD.n_deduped,
            NEW.n_failed - OLD.n_failed + NEW.n_dead - OLD.n_dead, CASE WHEN NEW.n_sent > OLD.n_sent THEN now END)
    ON CONFLICT (lane_id, at) DO UPDATE
       SET n_sent = c.n_sent + excluded.n_sent, n_deduped = c.n_deduped + excluded.n_deduped,
           n_failed = c.n_failed + excluded.n_failed, sent_at = coalesce(excluded.sent_at, c.sent_at);
    RETURN NULL;
END $$;

-- A success out of flight is not among them: a call for each lane would cost a commit a tenth.
CREATE OR REPLACE TRIGGER lane_heads_counted AFTER UPDATE ON lane_heads
FOR EACH ROW
WHEN (NEW.channel_id IS NOT NULL
  AND (OLD.n_deduped <> NEW.n_deduped OR OLD.n_failed <> NEW.n_failed OR OLD.n_dead <> NEW.n_dead
       OR NEW.n_sent - OLD.n_sent <> OLD.n_sending - NEW.n_sending AND OLD.n_sent <> NEW.n_sent))
EXECUTE FUNCTION rupor_lane_counted();
