-- Claim: point at work instead of searching for it.
--
-- Heads say which account and which lane may be served next, and by their order who has waited longest. The cost
-- depends on the lanes served and the rows returned, never on what lies behind them.
--
-- A claim goes in rounds. Each round locks some due accounts (skipping those that somebody else holds), reads the
-- first rows of their due lanes in one statement, deals out slots in memory, and moves all rows of the round with a
-- handful of statements. The first rounds give everybody their share; later ones hand out what is left.
--
-- The planner settings pin the shape (index walks driven by arrays): a plan made while the tables were small would
-- otherwise live on in the session when they are large.

-- Returns rows that are already sending, leased and slotted. workspace_id NULL: everybody's (dispatcher only).
-- marks = false: the caller sends right away and an ended lease means an unknown outcome. A caller with marks = true
-- says by record_part(…, NULL, NULL) when a request is about to leave; a lease that ends before is merely lost.
CREATE FUNCTION claim_deliveries(
    workspace_id bigint, run_id text, "limit" integer,
    ahead_ms integer DEFAULT 0, marks boolean DEFAULT false, lease_ms bigint DEFAULT 60000
) RETURNS SETOF deliveries
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at           timestamptz := rupor_now();
    until        timestamptz := at + ahead_ms * interval '1 millisecond';
    lease        interval    := lease_ms * interval '1 millisecond';
    urgent_max   CONSTANT integer := 9;      -- URGENT_RUN_MAX
    accounts_max CONSTANT integer := 256;    -- CLAIM_ACCOUNTS_MAX
    passed_over  CONSTANT integer := 8;      -- lanes looked at beyond the share: some may have nothing to give
    budget       integer := "limit";         -- rows this claim may still take
    before       integer;                    -- … and could at the start of the last round
    rounds_left  integer := 8;               -- of those that hand out the rest
    closed       boolean := false;           -- a suspect row was taken: it goes alone
    -- the candidates in fair order, and how far they were offered their share
    due          bigint[];
    shares       integer[];
    offered      integer := 0;
    -- one round
    wanted       bigint[];
    wanted_share integer[];
    seen         bigint[] := '{}';           -- accounts that this claim holds
    visited      bigint[];
    row          record;
    next_bulk    record;
    account      bigint;
    account_left integer;
    account_run  integer;
    account_took integer;
    group_at     integer;                    -- index into groups
    groups       bigint[];
    group_slots  timestamptz[];
    lane         bigint;
    lane_left    integer;
    lane_slot    timestamptz;
    lane_run     integer;
    lane_over    boolean;
    bulk_after   bigint;
    bulk_id      bigint;
    bulk_over    boolean;
    slot         timestamptz;
    take_bulk    boolean;
    -- what the round decided, as columns
    t_id         bigint[];
    t_lane       bigint[];
    t_priority   integer[];
    t_position   bigint[];
    t_slot       timestamptz[];
    t_run        integer[];                  -- the lane's urgent run after this row
    a_id         bigint[];
    a_run        integer[];
    x_lane       bigint[];                   -- lanes whose next rows are too old
    n            integer;
BEGIN
    PERFORM rupor_guard(claim_deliveries.workspace_id);
    PERFORM rupor_check_claim(claim_deliveries.run_id, "limit", ahead_ms, lease_ms);
    IF (SELECT c.held FROM control AS c) THEN
        RETURN;
    END IF;

    -- Everyone's longest waiting account, then everyone's second, … each with its part of the workspace's part.
    SELECT array_agg(c.account_id ORDER BY c.rank, c.next_at, c.account_id),
           array_agg(greatest(1, ceil(ceil("limit"::numeric / c.n_workspaces) / c.n_accounts))::integer
                     ORDER BY c.rank, c.next_at, c.account_id)
      INTO due, shares
      FROM (SELECT d.*,
                   row_number() OVER (PARTITION BY d.workspace_id ORDER BY d.next_at, d.account_id) AS rank,
                   count(*) OVER (PARTITION BY d.workspace_id) AS n_accounts,
                   max(d.nth_workspace) OVER () AS n_workspaces
              FROM (SELECT a.*, dense_rank() OVER (ORDER BY a.workspace_id) AS nth_workspace
                      FROM rupor_due_accounts(claim_deliveries.workspace_id, until, accounts_max) AS a) AS d) AS c;

    WHILE budget > 0 AND NOT closed LOOP
        IF offered < coalesce(cardinality(due), 0) THEN
            -- As many accounts as could use up the budget; the others stay free for other claimers.
            n := least(budget, cardinality(due) - offered);
            wanted := due[offered + 1 : offered + n];
            wanted_share := shares[offered + 1 : offered + n];
            offered := offered + n;
        ELSE
            -- What is left goes in equal parts to those who still have due work.
            SELECT array_agg(h.account_id ORDER BY o.ord), count(*) INTO wanted, n
              FROM unnest(due) WITH ORDINALITY AS o (account_id, ord)
              JOIN account_heads AS h ON h.account_id = o.account_id
             WHERE h.account_id = ANY (seen) AND h.next_at <= until;
            -- A round that moved nothing will not move more.
            EXIT WHEN n = 0 OR rounds_left = 0 OR (budget = before AND cardinality(x_lane) = 0);
            rounds_left := rounds_left - 1;
            wanted := wanted[1 : budget];
            wanted_share := array_fill(greatest(1, ceil(budget::numeric / n))::integer, ARRAY[least(n, budget)]);
        END IF;

        before := budget;
        visited := '{}'; groups := '{}'; group_slots := '{}';
        t_id := '{}'; t_lane := '{}'; t_priority := '{}'; t_position := '{}'; t_slot := '{}';
        t_run := '{}'; a_id := '{}'; a_run := '{}'; x_lane := '{}';
        account := NULL; lane := NULL;

        -- Its result is at the newest version of the heads; the rows below them are read by a later statement,
        -- whose snapshot is newer than these locks.
        SELECT array_agg(locked.account_id ORDER BY locked.ord), array_agg(locked.share ORDER BY locked.ord)
          INTO wanted, wanted_share
          FROM (SELECT w.ord, w.share, h.account_id
                  FROM unnest(wanted, wanted_share) WITH ORDINALITY AS w (account_id, share, ord)
                  JOIN account_heads AS h ON h.account_id = w.account_id
                  JOIN rate_groups AS g ON g.group_id = h.group_id
                 WHERE h.next_at <= until
                   FOR NO KEY UPDATE OF h, g SKIP LOCKED) AS locked;
        CONTINUE WHEN wanted IS NULL AND offered < cardinality(due);
        EXIT WHEN wanted IS NULL;
        seen := seen || wanted;

        FOR row IN
            SELECT o.ord, o.share, h.account_id, h.urgent_run AS account_run,
                   g.group_id, g.interval_us AS group_interval, g.next_slot AS group_slot, g.cooldown_until,
                   rupor_span((g.burst - 1) * g.interval_us) AS tolerance,
                   room.n AS account_room,
                   l.lane_id, l.n_lanes, l.max_parallel - l.busy AS lane_room, l.interval_us AS lane_interval,
                   l.next_slot AS lane_slot, l.urgent_run AS lane_run, l.turn,
                   r.priority, r.position, r.delivery_id, r.run_at, r.expires_at, r.suspect
              FROM unnest(wanted, wanted_share) WITH ORDINALITY AS o (account_id, share, ord)
              JOIN account_heads AS h ON h.account_id = o.account_id
              JOIN rate_groups AS g ON g.group_id = h.group_id
             CROSS JOIN LATERAL (SELECT least(o.share::bigint, h.max_parallel - count(*))::integer AS n
                                   FROM inflight AS i
                                  WHERE i.account_id = h.account_id) AS room
             CROSS JOIN LATERAL (
                   SELECT d.*, count(*) OVER () AS n_lanes,
                          (SELECT count(*) FROM inflight AS i WHERE i.lane_id = d.lane_id)::integer AS busy,
                          -- after nine urgent rows in a row one bulk lane comes first
                          CASE WHEN d.head_priority = 1 AND d.nth = 1 AND h.urgent_run >= urgent_max
                               THEN 0 ELSE 1 + d.head_priority END AS turn
                     FROM ((SELECT u.*, 0 AS nth
                              FROM lane_heads AS u
                             WHERE u.account_id = h.account_id AND u.head_priority = 0 AND u.next_at <= at
                             ORDER BY u.next_at, u.lane_id
                             LIMIT greatest(room.n, 0) + passed_over)
                           UNION ALL
                           (SELECT b.*, row_number() OVER (ORDER BY b.next_at, b.lane_id) AS nth
                              FROM lane_heads AS b
                             WHERE b.account_id = h.account_id AND b.head_priority = 1 AND b.next_at <= at
                             ORDER BY b.next_at, b.lane_id
                             LIMIT greatest(room.n, 0) + passed_over)) AS d) AS l
              LEFT JOIN LATERAL (
                   SELECT q.priority, q.position, q.delivery_id, q.run_at, q.expires_at, q.suspect
                     FROM ready AS q
                    WHERE q.lane_id = l.lane_id
                    ORDER BY q.priority, q.position, q.delivery_id
                    LIMIT greatest(0, least(l.max_parallel - l.busy, ceil(room.n::numeric / l.n_lanes)))) AS r ON true
             ORDER BY o.ord, l.turn, l.next_at, l.lane_id, r.priority, r.position, r.delivery_id
        LOOP
            IF account IS DISTINCT FROM row.account_id THEN
                IF account_took > 0 THEN
                    a_id := a_id || account; a_run := a_run || account_run;
                END IF;
                account := row.account_id;
                account_took := 0;
                account_run := row.account_run;
                account_left := least(row.account_room, budget);
                IF row.cooldown_until > at THEN
                    account_left := 0;  -- its head did not know: another account of the group earned the cooldown
                END IF;
                group_at := array_position(groups, row.group_id);
                IF group_at IS NULL THEN
                    groups := groups || row.group_id;
                    group_slots := group_slots || row.group_slot;
                    group_at := cardinality(groups);
                END IF;
            END IF;
            CONTINUE WHEN account_left <= 0;
            IF lane IS DISTINCT FROM row.lane_id THEN
                lane := row.lane_id;
                lane_left := least(account_left, row.lane_room, ceil(row.account_room::numeric / row.n_lanes)::integer);
                lane_slot := row.lane_slot;
                lane_run := row.lane_run;
                lane_over := false;
                bulk_after := -9223372036854775808; bulk_id := 0; bulk_over := false;
                visited := visited || lane;
            END IF;
            CONTINUE WHEN lane_over OR lane_left <= 0 OR row.delivery_id IS NULL;
            -- taken before its turn, below
            CONTINUE WHEN row.priority = 1 AND (row.position, row.delivery_id) <= (bulk_after, bulk_id);

            LOOP
                take_bulk := false;
                IF row.priority = 0 AND lane_run >= urgent_max AND NOT bulk_over THEN
                    SELECT q.* INTO next_bulk
                      FROM ready AS q
                     WHERE q.lane_id = lane AND q.priority = 1
                       AND (q.position, q.delivery_id) > (bulk_after, bulk_id)
                     ORDER BY q.position, q.delivery_id
                     LIMIT 1;
                    bulk_over := next_bulk.run_at IS NULL OR next_bulk.run_at > at OR next_bulk.suspect
                              OR next_bulk.expires_at <= at;
                    take_bulk := NOT coalesce(bulk_over, true);
                END IF;
                -- A lane whose own slot lies behind the account's would waste account slots: it waits for its turn.
                slot := greatest(at, group_slots[group_at] - row.tolerance);
                IF slot > until THEN
                    account_left := 0;
                    EXIT;
                END IF;
                IF greatest(at, lane_slot) > slot OR (NOT take_bulk AND row.run_at > at) THEN
                    lane_over := true;
                    EXIT;
                END IF;
                IF NOT take_bulk AND row.expires_at <= at THEN
                    x_lane := x_lane || lane;
                    lane_over := true;
                    EXIT;
                END IF;
                IF NOT take_bulk AND row.suspect THEN
                    IF budget < "limit" THEN
                        lane_over := true;
                        EXIT;
                    END IF;
                    closed := true;
                END IF;

                lane_slot := greatest(lane_slot, slot) + rupor_span(row.lane_interval);
                group_slots[group_at] := greatest(group_slots[group_at], slot) + rupor_span(row.group_interval);
                IF take_bulk THEN
                    bulk_after := next_bulk.position; bulk_id := next_bulk.delivery_id;
                    t_id := t_id || bulk_id; t_priority := t_priority || 1; t_position := t_position || bulk_after;
                    lane_run := 0;
                ELSE
                    t_id := t_id || row.delivery_id;
                    t_priority := t_priority || row.priority; t_position := t_position || row.position;
                    lane_run := CASE row.priority WHEN 0 THEN lane_run + 1 ELSE 0 END;
                END IF;
                t_lane := t_lane || lane; t_slot := t_slot || slot; t_run := t_run || lane_run;
                account_run := CASE WHEN row.turn = 1 THEN account_run + 1 ELSE 0 END;
                account_took := account_took + 1;
                account_left := account_left - 1; lane_left := lane_left - 1; budget := budget - 1;
                -- the urgent row that had to wait for a bulk one comes next
                EXIT WHEN NOT take_bulk OR account_left = 0 OR lane_left = 0;
            END LOOP;
            EXIT WHEN budget = 0 OR closed;
        END LOOP;
        IF account_took > 0 THEN
            a_id := a_id || account; a_run := a_run || account_run;
        END IF;
        account_took := 0;

        IF cardinality(t_id) > 0 THEN
            DELETE FROM ready AS r
             USING unnest(t_lane, t_priority, t_position, t_id) AS t (lane_id, priority, position, delivery_id)
             WHERE r.lane_id = t.lane_id AND r.priority = t.priority AND r.position = t.position
               AND r.delivery_id = t.delivery_id;
            GET DIAGNOSTICS n = ROW_COUNT;
            IF n <> cardinality(t_id) THEN
                RAISE EXCEPTION 'claim: % of % rows were taken by somebody else', cardinality(t_id) - n, cardinality(t_id)
                    USING ERRCODE = 'serialization_failure';
            END IF;
            RETURN QUERY
            WITH marked AS (
                UPDATE deliveries AS d
                   SET status = 'sending', reason = NULL, claim_token = gen_random_uuid(),
                       claim_seq = d.claim_seq + 1, attempt = d.attempt + 1, run_at = NULL, position = NULL,
                       lease_until = t.slot_at + lease, slot_at = t.slot_at, claimed_at = at, sending_at = at
                  FROM unnest(t_id, t_slot, t_run) WITH ORDINALITY AS t (delivery_id, slot_at, run, ord)
                 WHERE d.delivery_id = t.delivery_id
                RETURNING d AS claimed, t.run, t.ord
            ), held AS (
                INSERT INTO inflight (delivery_id, workspace_id, account_id, lane_id, claim_token, claim_seq, attempt,
                                      run_id, claimed_at, slot_at, lease_until, requested_at)
                SELECT (m.claimed).delivery_id, (m.claimed).workspace_id, (m.claimed).account_id, (m.claimed).lane_id,
                       (m.claimed).claim_token, (m.claimed).claim_seq, (m.claimed).attempt, claim_deliveries.run_id, at,
                       (m.claimed).slot_at, (m.claimed).lease_until, CASE WHEN marks THEN NULL ELSE at END
                  FROM marked AS m
            ), served AS (
                -- A lane's own slot never lies behind the one it got, so its next is one interval after its last.
                UPDATE lane_heads AS h
                   SET next_slot = c.last_slot + rupor_span(h.interval_us), urgent_run = c.urgent_run, served_at = at,
                       n_queued = h.n_queued - c.queued, n_retry = h.n_retry - c.retry,
                       n_sending = h.n_sending + c.queued + c.retry
                  FROM (SELECT (m.claimed).lane_id, max((m.claimed).slot_at) AS last_slot,
                               (array_agg(m.run ORDER BY m.ord DESC))[1] AS urgent_run,
                               count(*) FILTER (WHERE (m.claimed).retry_at IS NULL) AS queued,
                               count(*) FILTER (WHERE (m.claimed).retry_at IS NOT NULL) AS retry
                          FROM marked AS m
                         GROUP BY 1) AS c
                 WHERE h.lane_id = c.lane_id
            )
            SELECT (m.claimed).* FROM marked AS m ORDER BY m.ord;
            UPDATE rate_groups AS g
               SET next_slot = s.next_slot
              FROM unnest(groups, group_slots) AS s (group_id, next_slot)
             WHERE g.group_id = s.group_id AND g.next_slot <> s.next_slot;
            UPDATE account_heads AS h
               SET urgent_run = s.urgent_run, served_at = at
              FROM unnest(a_id, a_run) AS s (account_id, urgent_run)
             WHERE h.account_id = s.account_id;
        END IF;
        IF cardinality(x_lane) > 0 THEN
            PERFORM rupor_expire_heads(x_lane, at);
        END IF;
        PERFORM rupor_refresh_lanes(visited);
        PERFORM rupor_refresh_accounts(wanted);
    END LOOP;
END $$;

CREATE FUNCTION rupor_check_claim(run_id text, wanted integer, ahead_ms integer, lease_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    problem text := CASE
        WHEN wanted IS NULL OR wanted NOT BETWEEN 0 AND 500 THEN format('%s rows at once, at most 500', wanted)
        WHEN ahead_ms IS NULL OR ahead_ms NOT BETWEEN 0 AND 250 THEN format('%s ms ahead, at most 250', ahead_ms)
        WHEN lease_ms IS NULL OR lease_ms <= 0 THEN 'the lease must be positive'
        WHEN run_id IS NULL OR octet_length(run_id) NOT BETWEEN 1 AND 200 THEN 'a run id has 1 to 200 bytes'
        END;
BEGIN
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'claim: %', problem USING ERRCODE = 'RU004';
    END IF;
END $$;

-- The accounts that have waited longest.
CREATE FUNCTION rupor_due_accounts(wanted_workspace bigint, until timestamptz, at_most integer)
RETURNS TABLE (account_id bigint, workspace_id bigint, next_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF wanted_workspace IS NULL THEN
        RETURN QUERY
        SELECT h.account_id, h.workspace_id, h.next_at
          FROM account_heads AS h
         WHERE h.next_at <= until
         ORDER BY h.next_at, h.account_id
         LIMIT at_most;
    ELSE
        RETURN QUERY
        SELECT h.account_id, h.workspace_id, h.next_at
          FROM account_heads AS h
         WHERE h.workspace_id = wanted_workspace AND h.next_at <= until
         ORDER BY h.next_at, h.account_id
         LIMIT at_most;
    END IF;
END $$;

-- Ends the run of too old rows at the front of each lane; bounded, so that a claim stays a claim.
CREATE FUNCTION rupor_expire_heads(lane_ids bigint[], at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH front AS (
        SELECT r.lane_id, r.priority, r.position, r.delivery_id, r.expires_at, r.run_at,
               bool_and(coalesce(r.expires_at <= at, false) AND r.run_at <= at)
                   OVER (PARTITION BY r.lane_id ORDER BY r.priority, r.position, r.delivery_id) AS old
          FROM unnest(lane_ids) AS l (lane_id)
         CROSS JOIN LATERAL (SELECT q.*
                               FROM ready AS q
                              WHERE q.lane_id = l.lane_id
                              ORDER BY q.priority, q.position, q.delivery_id
                              LIMIT 1000) AS r
    ), gone AS (
        DELETE FROM ready AS r
         USING front AS f
         WHERE f.old AND r.lane_id = f.lane_id AND r.priority = f.priority AND r.position = f.position
           AND r.delivery_id = f.delivery_id
        RETURNING r.delivery_id, r.expires_at
    ), ended AS (
        UPDATE deliveries AS d
           SET status = 'dead', reason = 'expired', run_at = NULL, position = NULL, ended_at = at
          FROM gone AS g
         WHERE d.delivery_id = g.delivery_id
        RETURNING d.delivery_id, d.workspace_id, d.lane_id, d.channel_id, d.message_id, d.retry_at, g.expires_at
    ), forgotten AS (
        DELETE FROM dedup_index AS k
         USING gone AS g
         WHERE k.delivery_id = g.delivery_id AND k.state = 'in_flight'
    ), told AS (
        INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, detail)
        SELECT e.workspace_id, rupor_expire_heads.at, 'expired', e.message_id, e.delivery_id, e.channel_id,
               jsonb_build_object('expired_at', rupor_micros(e.expires_at))
          FROM ended AS e
         ORDER BY e.delivery_id
    )
    UPDATE lane_heads AS h
       SET n_queued = h.n_queued - c.queued, n_retry = h.n_retry - c.retry, n_dead = h.n_dead + c.queued + c.retry
      FROM (SELECT e.lane_id, count(*) FILTER (WHERE e.retry_at IS NULL) AS queued,
                   count(*) FILTER (WHERE e.retry_at IS NOT NULL) AS retry
              FROM ended AS e
             GROUP BY e.lane_id) AS c
     WHERE h.lane_id = c.lane_id;
END $$;

-- The earliest time at which another claim could give anything; NULL: nothing is waiting, or all is held.
CREATE FUNCTION next_claim_at(workspace_id bigint) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz;
BEGIN
    PERFORM rupor_guard(next_claim_at.workspace_id);
    IF (SELECT c.held FROM control AS c) THEN
        RETURN NULL;
    END IF;
    IF next_claim_at.workspace_id IS NULL THEN
        SELECT h.next_at INTO at
          FROM account_heads AS h
         ORDER BY h.next_at, h.account_id
         LIMIT 1;
    ELSE
        SELECT h.next_at INTO at
          FROM account_heads AS h
         WHERE h.workspace_id = next_claim_at.workspace_id
         ORDER BY h.next_at, h.account_id
         LIMIT 1;
    END IF;
    RETURN nullif(at, 'infinity');
END $$;
