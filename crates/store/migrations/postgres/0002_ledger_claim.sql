-- Claim: point at work instead of searching for it.
--
-- Heads say which account and which lane may be served next, and by their order who has waited longest. The cost
-- depends on the lanes served and the rows returned, never on what lies behind them.
--
-- A claim goes in rounds. Each round locks some due accounts (skipping those that somebody else holds), reads the
-- first rows of their due lanes in one statement, deals out slots, and moves all rows of the round with a handful of
-- statements. The first rounds give everybody their share; later ones hand out what is left.
--
-- The planner settings pin the shape (index walks driven by arrays): a plan made while the tables were small would
-- otherwise live on in the session when they are large.

-- What a claim hands out: everything a sender needs to know about the delivery.
CREATE TYPE claimed_delivery AS (
    delivery_id     bigint,
    workspace_id    bigint,
    lane_id         bigint,
    account_id      bigint,
    channel_id      bigint,
    recipient_id    bigint,
    message_id      bigint,
    revision        integer,
    action          text,
    target_delivery bigint,
    status          text,
    claim_token     uuid,
    claim_seq       bigint,
    attempt         integer,
    charged         integer,
    flood_waits     integer,
    not_ready_waits integer,
    unknowns        integer,
    lost_claims     integer,
    flood_since     timestamptz,
    slot_at         timestamptz,
    lease_until     timestamptz,
    parts           jsonb,
    idempotency_key text
);

-- What a round decided, as columns: the rows it takes, and the lanes it looked at.
CREATE TYPE rupor_dealt AS (
    id         bigint[],
    place      tid[],            -- of the ready row; nobody moves it while the account is held
    slot_at    timestamptz[],    -- NULL: all of them now
    moves      rupor_moves,      -- of the lanes
    account_id bigint[],         -- of each lane
    turn       integer[],
    old        bigint[],         -- lanes whose next rows are too old
    odd        boolean,          -- something that needs care: dealt row by row
    closed     boolean           -- a suspect row was taken: it goes alone
);

-- Returns rows that are already sending, leased and slotted. workspace_id NULL: everybody's (dispatcher only).
-- marks = false: the caller sends right away and an ended lease means an unknown outcome. A caller with marks = true
-- says by record_part(…, NULL, NULL) when a request is about to leave; a lease that ends before is merely lost.
CREATE FUNCTION claim_deliveries(
    workspace_id bigint, run_id text, "limit" integer,
    ahead_ms integer DEFAULT 0, marks boolean DEFAULT false, lease_ms bigint DEFAULT 60000
) RETURNS SETOF claimed_delivery
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
    -- A token is new with every claim of a delivery: the claim by its first half, the delivery by the end.
    claim_head   CONSTANT text := left(gen_random_uuid()::text, 24);
    accounts_max CONSTANT integer := 256;    -- CLAIM_ACCOUNTS_MAX
    budget       integer := "limit";         -- rows this claim may still take
    took         integer := 0;               -- rows of the last round
    rounds_left  integer := 8;               -- of those that hand out the rest
    -- the candidates in fair order, and how far they were offered their share
    due          bigint[];
    shares       integer[];
    offered      integer := 0;
    -- one round
    wanted       bigint[];
    wanted_share integer[];
    seen         bigint[] := '{}';           -- accounts that this claim holds
    paced        boolean;                    -- one of them has a rate, or needs care
    t            rupor_dealt;
    sorted       record;                     -- its rows by id, and where each stands in the deal
    served       boolean[];
    runs         integer[];
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

    WHILE budget > 0 AND NOT coalesce(t.closed, false) LOOP
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
            EXIT WHEN n = 0 OR rounds_left = 0 OR (took = 0 AND cardinality(t.old) = 0);
            rounds_left := rounds_left - 1;
            wanted := wanted[1 : budget];
            wanted_share := array_fill(greatest(1, ceil(budget::numeric / n))::integer, ARRAY[least(n, budget)]);
        END IF;

        -- Its result is at the newest version of the heads; the rows below them are read by a later statement,
        -- whose snapshot is newer than these locks.
        SELECT array_agg(locked.account_id ORDER BY locked.ord), array_agg(locked.share ORDER BY locked.ord),
               bool_or(locked.interval_us > 0 OR locked.cooldown_until > at)
          INTO wanted, wanted_share, paced
          FROM (SELECT w.ord, w.share, h.account_id, g.interval_us, g.cooldown_until
                  FROM unnest(wanted, wanted_share) WITH ORDINALITY AS w (account_id, share, ord)
                  JOIN account_heads AS h ON h.account_id = w.account_id
                  JOIN rate_groups AS g ON g.group_id = h.group_id
                 WHERE h.next_at <= until
                   FOR NO KEY UPDATE OF h, g SKIP LOCKED) AS locked;
        CONTINUE WHEN wanted IS NULL AND offered < cardinality(due);
        EXIT WHEN wanted IS NULL;
        seen := seen || wanted;

        t := NULL;
        IF NOT paced THEN
            t := rupor_deal(wanted, wanted_share, budget, at);
            paced := t.odd;
        END IF;
        IF paced THEN
            t := rupor_deal_with_care(wanted, wanted_share, budget, budget = "limit", at, until,
                                      claim_deliveries.run_id);
        END IF;
        took := coalesce(cardinality(t.id), 0);
        budget := budget - took;
        IF took > 0 THEN
            DELETE FROM ready AS r WHERE r.ctid = ANY (t.place);
            GET DIAGNOSTICS n = ROW_COUNT;
            IF n <> took THEN
                RAISE EXCEPTION 'claim: % of % rows were taken by somebody else', took - n, took
                    USING ERRCODE = 'serialization_failure';
            END IF;
            SELECT array_agg(k.id ORDER BY k.id) AS id, array_agg(k.ord::integer ORDER BY k.id) AS ord
              INTO sorted
              FROM unnest(t.id) WITH ORDINALITY AS k (id, ord);
            -- By ANY and not by a join, whose order a planner that thinks a table empty might turn round; width_bucket
            -- finds a row's place by halving.
            RETURN QUERY
            WITH marked AS (
                UPDATE deliveries AS d
                   SET status = 'sending', reason = NULL,
                       claim_token = (claim_head || to_hex((d.delivery_id & 140737488355327) + 140737488355328))::uuid,
                       claim_seq = d.claim_seq + 1, attempt = d.attempt + 1, run_at = NULL, position = NULL,
                       lease_until = lease + CASE WHEN paced THEN t.slot_at[sorted.ord[width_bucket(d.delivery_id, sorted.id)]]
                                                  ELSE at END,
                       slot_at = CASE WHEN paced THEN t.slot_at[sorted.ord[width_bucket(d.delivery_id, sorted.id)]] ELSE at END,
                       claimed_at = at, sending_at = at
                 WHERE d.delivery_id = ANY (t.id)
                RETURNING d.delivery_id, d.workspace_id, d.lane_id, d.account_id, d.channel_id, d.recipient_id, d.message_id,
                          d.revision, d.action, d.target_delivery, d.status, d.claim_token, d.claim_seq, d.attempt,
                          d.charged, d.flood_waits, d.not_ready_waits, d.unknowns, d.lost_claims, d.flood_since,
                          d.slot_at, d.lease_until, d.parts, d.idempotency_key
            ), held AS (
                INSERT INTO inflight (delivery_id, workspace_id, account_id, lane_id, claim_token, claim_seq, attempt,
                                      run_id, claimed_at, slot_at, lease_until, requested_at)
                SELECT m.delivery_id, m.workspace_id, m.account_id, m.lane_id, m.claim_token, m.claim_seq, m.attempt,
                       claim_deliveries.run_id, at, m.slot_at, m.lease_until, CASE WHEN marks THEN NULL ELSE at END
                  FROM marked AS m
            )
            -- in the order they were dealt, which is the order of each lane
            SELECT m.* FROM marked AS m ORDER BY sorted.ord[width_bucket(m.delivery_id, sorted.id)];
        END IF;
        IF cardinality(t.old) > 0 THEN
            PERFORM rupor_expire_heads(t.old, at);
        END IF;

        -- The heads: lanes that were looked at, budgets that were drawn on, accounts.
        PERFORM rupor_move_lanes(t.moves, at);
        IF paced AND took > 0 THEN
            -- Each row taken moves its budget on by one interval from now, or from where it stood.
            UPDATE rate_groups AS g
               SET next_slot = greatest(g.next_slot, at) + rupor_span(c.n * g.interval_us)
              FROM (SELECT h.group_id, sum(k.n)::bigint AS n
                      FROM unnest(t.account_id, (t.moves).sending) AS k (account_id, n)
                      JOIN account_heads AS h ON h.account_id = k.account_id
                     GROUP BY h.group_id) AS c
             WHERE g.group_id = c.group_id AND g.interval_us > 0 AND c.n > 0;
        END IF;
        SELECT array_agg(c.account_id), array_agg(c.n > 0),
               array_agg(CASE WHEN c.n = 0 OR c.last_bulk THEN 0 WHEN c.first_bulk THEN c.urgent
                              ELSE c.urgent + (SELECT h.urgent_run FROM account_heads AS h WHERE h.account_id = c.account_id) END)
          INTO wanted, served, runs
          FROM (SELECT k.account_id, sum(k.n) AS n, coalesce(sum(k.n) FILTER (WHERE k.turn = 1), 0) AS urgent,
                       bool_or(k.turn = 0 AND k.n > 0) AS first_bulk, bool_or(k.turn = 2 AND k.n > 0) AS last_bulk
                  FROM (SELECT u.* FROM unnest(t.account_id, t.turn, (t.moves).sending) AS u (account_id, turn, n)
                        UNION ALL
                        SELECT w, NULL, 0 FROM unnest(wanted) AS w) AS k
                 GROUP BY k.account_id) AS c;
        PERFORM rupor_move_accounts(wanted, served, array(SELECT CASE WHEN u.served THEN u.run END
                                                            FROM unnest(served, runs) AS u (served, run)), at);
    END LOOP;
END $$;

-- The due lanes of these accounts, and how many rows each may give; by ord, turn, lane_next and lane_id they stand in the
-- order they are served.
CREATE FUNCTION rupor_due_lanes(accounts bigint[], shares integer[], at timestamptz, until timestamptz)
RETURNS TABLE (
    ord bigint, account_id bigint, account_room integer, group_id bigint, group_interval bigint, group_slot timestamptz,
    tolerance interval, cooldown_until timestamptz,
    turn integer, lane_next timestamptz, lane_id bigint, lane_room integer, lane_interval bigint, lane_slot timestamptz,
    lane_run integer, mixed boolean, lane_held bigint
)
LANGUAGE sql STABLE AS $$
    SELECT o.ord, h.account_id, room.n, g.group_id, g.interval_us, g.next_slot,
           rupor_span((g.burst - 1) * g.interval_us), g.cooldown_until,
           l.turn, l.next_at, l.lane_id, l.room, l.interval_us, l.next_slot, l.urgent_run, l.mixed, l.held
      FROM unnest(accounts, shares) WITH ORDINALITY AS o (account_id, share, ord)
     CROSS JOIN LATERAL (SELECT x.* FROM account_heads AS x WHERE x.account_id = o.account_id OFFSET 0) AS h
     CROSS JOIN LATERAL (SELECT x.* FROM rate_groups AS x WHERE x.group_id = h.group_id OFFSET 0) AS g
     -- lanes beyond the last slot would be looked at for nothing
     CROSS JOIN LATERAL (SELECT greatest(0, least(o.share::bigint, h.max_parallel - count(*), CASE WHEN g.interval_us > 0 THEN
                                    (rupor_micros(until) - rupor_micros(greatest(g.next_slot, at))) / g.interval_us + g.burst
                                END))::integer AS n
                           FROM inflight AS i
                          WHERE i.account_id = h.account_id) AS room
     CROSS JOIN LATERAL (
           SELECT d.lane_id, d.next_at, d.interval_us, d.next_slot, d.urgent_run, d.mixed, i.held,
                  -- after nine urgent rows in a row one bulk lane comes first
                  CASE WHEN d.head_priority = 1 AND d.nth = 1 AND h.urgent_run >= 9 THEN 0 ELSE 1 + d.head_priority END AS turn,
                  greatest(0, least(d.max_parallel - i.held, ceil(room.n::numeric / count(*) OVER ())))::integer AS room
             FROM ((SELECT u.lane_id, u.next_at, u.interval_us, u.next_slot, u.urgent_run, u.max_parallel, u.head_priority,
                           EXISTS (SELECT FROM ready AS b WHERE b.lane_id = u.lane_id AND b.priority = 1) AS mixed, 0 AS nth
                      FROM lane_heads AS u
                     WHERE u.account_id = h.account_id AND u.head_priority = 0 AND u.next_at <= at
                     ORDER BY u.next_at, u.lane_id
                     -- a few more than could be used: some may have nothing to give
                     LIMIT room.n + 8)
                   UNION ALL
                   (SELECT b.lane_id, b.next_at, b.interval_us, b.next_slot, b.urgent_run, b.max_parallel, b.head_priority,
                           false, row_number() OVER (ORDER BY b.next_at, b.lane_id)
                      FROM lane_heads AS b
                     WHERE b.account_id = h.account_id AND b.head_priority = 1 AND b.next_at <= at
                     ORDER BY b.next_at, b.lane_id
                     LIMIT room.n + 8)) AS d
            CROSS JOIN LATERAL (SELECT count(*) AS held FROM inflight AS f
                                 WHERE f.account_id = h.account_id AND f.lane_id = d.lane_id) AS i) AS l
$$;

-- The ordinary round of accounts without a rate, all at once: how many rows each lane gives is said before any row is
-- read. It says `odd`, and what it decided is void, where rows must be taken one by one: a lane with its own rate or with
-- both priorities, a suspect row, one that is too old, one that is not due and keeps others waiting.
CREATE FUNCTION rupor_deal(accounts bigint[], shares integer[], budget integer, at timestamptz) RETURNS rupor_dealt
LANGUAGE plpgsql AS $$
DECLARE
    t     rupor_dealt;
    m     rupor_moves;
    rooms bigint[];
    runs  integer[];
BEGIN
    t.old := '{}'; t.closed := false;
    SELECT array_agg(s.lane_id), array_agg(s.account_id), array_agg(s.turn), array_agg(s.lane_run),
           array_agg(greatest(0, least(s.room, budget - s.before))), array_agg(s.lane_held), bool_or(s.odd)
      INTO m.lane_id, t.account_id, t.turn, runs, rooms, m.in_flight, t.odd
      FROM (SELECT a.*, sum(a.room) OVER (ORDER BY a.ord, a.turn, a.lane_next, a.lane_id ROWS UNBOUNDED PRECEDING) - a.room AS before
              FROM (SELECT f.ord, f.turn, f.lane_next, f.lane_id, f.account_id, f.lane_run, f.lane_held,
                           f.lane_interval > 0 OR f.mixed OR f.group_slot > at AS odd,
                           greatest(0, least(f.lane_room, f.account_room + f.lane_room - sum(f.lane_room) OVER (
                               PARTITION BY f.ord ORDER BY f.turn, f.lane_next, f.lane_id ROWS UNBOUNDED PRECEDING))) AS room
                      FROM rupor_due_lanes(accounts, shares, at, at) AS f) AS a
             ORDER BY a.ord, a.turn, a.lane_next, a.lane_id) AS s;
    IF t.odd THEN
        RETURN t;
    END IF;
    -- One row more than the lane gives: what is not taken begins its queue afterwards.
    WITH front AS MATERIALIZED (
        SELECT l.nth, l.run, l.held, r.place, r.delivery_id, r.retried, r.priority, r.run_at, r.rank,
               r.rank <= l.room AND r.run_at <= at AS due,
               r.rank <= l.room AND (r.suspect OR r.expires_at <= at OR (r.run_at > at AND r.position = r.delivery_id)) AS odd
          FROM unnest(m.lane_id, rooms, runs, m.in_flight) WITH ORDINALITY AS l (lane_id, room, run, held, nth)
          LEFT JOIN LATERAL (SELECT q.ctid AS place, q.*,
                                    row_number() OVER (ORDER BY q.priority, q.position, q.delivery_id) AS rank
                               FROM ready AS q
                              WHERE q.lane_id = l.lane_id
                              ORDER BY q.priority, q.position, q.delivery_id
                              LIMIT l.room + 1) AS r ON true
    )
    SELECT f.id, f.place, f.odd, c.queued, c.retry, c.sending, c.slot_at, c.run, c.in_flight, c.first_priority, c.first_run_at
      INTO t.id, t.place, t.odd, m.queued, m.retry, m.sending, m.slot_at, m.run, m.in_flight, m.first_priority, m.first_run_at
      FROM (SELECT array_agg(f.delivery_id) FILTER (WHERE f.due) AS id, array_agg(f.place) FILTER (WHERE f.due) AS place,
                   coalesce(bool_or(f.odd), false) AS odd
              FROM front AS f) AS f
     CROSS JOIN (SELECT array_agg(l.retries - l.n ORDER BY l.nth) AS queued, array_agg(-l.retries ORDER BY l.nth) AS retry,
                        array_agg(l.n ORDER BY l.nth) AS sending,
                        array_agg(CASE WHEN l.n > 0 THEN at END ORDER BY l.nth) AS slot_at,
                        array_agg(CASE WHEN l.n = 0 THEN NULL WHEN l.priority = 0 THEN l.run + l.n ELSE 0 END::integer
                                  ORDER BY l.nth) AS run,
                        array_agg(l.held + l.n ORDER BY l.nth) AS in_flight,
                        array_agg(l.left_priority[1] ORDER BY l.nth) AS first_priority,
                        array_agg(l.left_run_at[1] ORDER BY l.nth) AS first_run_at
                   FROM (SELECT f.nth, count(*) FILTER (WHERE f.due) AS n, count(*) FILTER (WHERE f.due AND f.retried) AS retries,
                                min(f.priority) AS priority, min(f.run) AS run, min(f.held) AS held,
                                array_agg(f.priority ORDER BY f.rank) FILTER (WHERE NOT f.due) AS left_priority,
                                array_agg(f.run_at ORDER BY f.rank) FILTER (WHERE NOT f.due) AS left_run_at
                           FROM front AS f
                          GROUP BY f.nth) AS l) AS c;
    t.moves := m;
    RETURN t;
END $$;

-- The same with care, row by row.
CREATE FUNCTION rupor_deal_with_care(
    accounts bigint[], shares integer[], budget integer, first boolean, at timestamptz, until timestamptz, claimer text
) RETURNS rupor_dealt
LANGUAGE plpgsql AS $$
DECLARE
    t            rupor_dealt;
    m            rupor_moves;
    visited      integer := 0;               -- lanes so far; the last of them is the one being dealt
    urgent_max   CONSTANT integer := 9;      -- URGENT_RUN_MAX
    patience     CONSTANT interval := '10 s'; -- SUSPECT_PATIENCE
    o            record;
    b            record;                     -- the lane's next bulk row
    account      bigint;
    account_left integer;
    group_at     integer;                    -- index into groups
    groups       bigint[] := '{}';
    group_slots  timestamptz[] := '{}';
    lane         bigint;
    lane_left    integer;
    lane_slot    timestamptz;
    lane_run     integer;
    lane_over    boolean;
    bulk_after   bigint;
    bulk_id      bigint;
    bulk_over    boolean;
    take_bulk    boolean;
    retried      boolean;
    slot         timestamptz;
BEGIN
    t.id := '{}'; t.place := '{}'; t.slot_at := '{}'; t.account_id := '{}'; t.turn := '{}'; t.old := '{}'; t.closed := false;
    m.lane_id := '{}'; m.queued := '{}'; m.retry := '{}'; m.sending := '{}'; m.slot_at := '{}'; m.run := '{}';
    FOR o IN
        -- A lane without rows comes as one row without a delivery, so that its head is set right.
        SELECT l.*, r.*
          FROM rupor_due_lanes(accounts, shares, at, until) AS l
          LEFT JOIN LATERAL (SELECT q.ctid AS place, q.priority, q.position, q.delivery_id, q.run_at, q.expires_at, q.suspect,
                                    q.retried, row_number() OVER (ORDER BY q.priority, q.position, q.delivery_id) AS nth
                               FROM ready AS q
                              WHERE q.lane_id = l.lane_id
                              ORDER BY q.priority, q.position, q.delivery_id
                              LIMIT l.lane_room) AS r ON true
         ORDER BY l.ord, l.turn, l.lane_next, l.lane_id, r.nth
    LOOP
        IF account IS DISTINCT FROM o.account_id THEN
            account := o.account_id;
            -- A head may not know that another account of the group earned a cooldown.
            account_left := CASE WHEN o.cooldown_until > at THEN 0 ELSE least(o.account_room, budget) END;
            group_at := array_position(groups, o.group_id);
            IF group_at IS NULL THEN
                groups := groups || o.group_id;
                group_slots := group_slots || o.group_slot;
                group_at := cardinality(groups);
            END IF;
        END IF;
        IF lane IS DISTINCT FROM o.lane_id THEN
            lane := o.lane_id;
            lane_left := o.lane_room;
            lane_slot := o.lane_slot;
            lane_run := o.lane_run;
            lane_over := o.delivery_id IS NULL;
            bulk_after := -9223372036854775808; bulk_id := 0; bulk_over := false;
            visited := visited + 1;
            m.lane_id[visited] := lane; m.queued[visited] := 0; m.retry[visited] := 0; m.sending[visited] := 0;
            m.slot_at[visited] := NULL; m.run[visited] := NULL;
            t.account_id[visited] := account; t.turn[visited] := o.turn;
        END IF;
        CONTINUE WHEN lane_over OR lane_left <= 0 OR account_left <= 0;
        -- taken before its turn, below
        CONTINUE WHEN o.priority = 1 AND (o.position, o.delivery_id) <= (bulk_after, bulk_id);
        LOOP
            take_bulk := false;
            IF o.priority = 0 AND lane_run >= urgent_max AND NOT bulk_over THEN
                SELECT q.ctid AS place, q.* INTO b
                  FROM ready AS q
                 WHERE q.lane_id = lane AND q.priority = 1 AND (q.position, q.delivery_id) > (bulk_after, bulk_id)
                 ORDER BY q.position, q.delivery_id
                 LIMIT 1;
                take_bulk := coalesce(b.run_at <= at AND NOT b.suspect AND (b.expires_at > at OR b.expires_at IS NULL), false);
                bulk_over := NOT take_bulk;
            END IF;
            slot := greatest(at, group_slots[group_at] - o.tolerance);
            IF slot > until THEN
                account_left := 0;
                EXIT;
            END IF;
            -- A lane whose own slot lies behind the account's would waste account slots: it waits for its turn.
            lane_over := greatest(at, lane_slot) > slot OR (NOT take_bulk AND o.run_at > at);
            EXIT WHEN lane_over;
            IF NOT take_bulk AND o.expires_at <= at THEN
                t.old := t.old || lane;
                lane_over := true;
                EXIT;
            END IF;
            IF NOT take_bulk AND o.suspect THEN
                -- Beside rows of which no request has left yet it might be blamed for what they do; it waits, but
                -- not for ever.
                lane_over := NOT first OR cardinality(t.id) > 0
                    OR (o.run_at > at - patience
                        AND EXISTS (SELECT FROM inflight AS i WHERE i.run_id = claimer AND i.requested_at IS NULL));
                EXIT WHEN lane_over;
                t.closed := true;
            END IF;

            lane_slot := greatest(lane_slot, slot) + rupor_span(o.lane_interval);
            group_slots[group_at] := greatest(group_slots[group_at], slot) + rupor_span(o.group_interval);
            IF take_bulk THEN
                bulk_after := b.position; bulk_id := b.delivery_id;
                t.id := t.id || bulk_id; t.place := t.place || b.place; retried := b.retried;
                lane_run := 0;
            ELSE
                t.id := t.id || o.delivery_id; t.place := t.place || o.place; retried := o.retried;
                lane_run := CASE o.priority WHEN 0 THEN lane_run + 1 ELSE 0 END;
            END IF;
            t.slot_at := t.slot_at || slot;
            IF retried THEN
                m.retry[visited] := m.retry[visited] - 1;
            ELSE
                m.queued[visited] := m.queued[visited] - 1;
            END IF;
            m.sending[visited] := m.sending[visited] + 1; m.slot_at[visited] := slot; m.run[visited] := lane_run;
            account_left := account_left - 1; lane_left := lane_left - 1; budget := budget - 1;
            -- the urgent row that had to wait for a bulk one comes next
            EXIT WHEN NOT take_bulk OR account_left = 0 OR lane_left = 0 OR budget = 0;
        END LOOP;
        EXIT WHEN budget = 0 OR t.closed;
    END LOOP;
    t.moves := m;
    RETURN t;
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
        SELECT r.place,
               bool_and(coalesce(r.expires_at <= at, false) AND r.run_at <= at)
                   OVER (PARTITION BY r.lane_id ORDER BY r.priority, r.position, r.delivery_id) AS old
          FROM unnest(lane_ids) AS l (lane_id)
         CROSS JOIN LATERAL (SELECT q.ctid AS place, q.*
                               FROM ready AS q
                              WHERE q.lane_id = l.lane_id
                              ORDER BY q.priority, q.position, q.delivery_id
                              LIMIT 1000) AS r
    ), gone AS (
        DELETE FROM ready AS r
         WHERE r.ctid = ANY (array(SELECT f.place FROM front AS f WHERE f.old))
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
         WHERE k.delivery_id = g.delivery_id
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

-- Stands in line for the account that has waited longest, if one is due; the claim that follows in the same transaction
-- finds it free. Only for a transaction that holds nothing yet.
CREATE FUNCTION await_due_account(workspace_id bigint, ahead_ms integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    until timestamptz := rupor_now() + ahead_ms * interval '1 millisecond';
BEGIN
    PERFORM rupor_guard(await_due_account.workspace_id);
    PERFORM rupor_lock_accounts(array(
        SELECT d.account_id FROM rupor_due_accounts(await_due_account.workspace_id, until, 1) AS d));
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
