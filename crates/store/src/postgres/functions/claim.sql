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
    lost_requests   integer,
    flood_since     timestamptz,
    slot_at         timestamptz,
    lease_until     timestamptz,
    parts           jsonb,
    idempotency_key text,
    due_at          timestamptz,        -- since when it could have gone
    campaign_id     bigint,
    paid            boolean             -- what it sends may be paid for
);

-- What a round decided, as columns: the rows it takes, and the lanes it looked at.
CREATE TYPE rupor_dealt AS (
    id         bigint[],
    place      tid[],            -- of the ready row; nobody moves it while the account is held
    due_at     timestamptz[],    -- since when it could have gone
    slot_at    timestamptz[],    -- NULL: all of them now
    moves      rupor_moves,      -- of the lanes
    account_id bigint[],         -- of each lane
    turn       integer[],
    old        bigint[],         -- lanes whose next rows are too old
    odd        boolean,          -- something that needs care: dealt row by row
    put_off    bigint[],         -- lanes whose next row is a retry that found no room
    closed     boolean           -- a suspect row was taken: it goes alone
);

-- Returns rows that are already sending, leased and slotted. workspace_id NULL: everybody's (dispatcher only).
-- marks = false: the caller sends right away and an ended lease means an unknown outcome. A caller with marks = true
-- says by record_part(…, NULL, NULL) when a request is about to leave; a lease that ends before is merely lost.
CREATE FUNCTION claim_deliveries(
    workspace_id bigint, run_id text, "limit" integer,
    ahead_ms integer DEFAULT 0, marks boolean DEFAULT false, lease_ms bigint DEFAULT rupor_rule_lease_us() / 1000
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
    accounts_max CONSTANT integer := rupor_rule_claim_accounts_max();
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
    held         boolean;
BEGIN
    PERFORM rupor_guard(claim_deliveries.workspace_id);
    PERFORM rupor_check_claim(claim_deliveries.run_id, "limit", ahead_ms, lease_ms);
    SELECT c.held INTO held FROM control AS c;

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
                      FROM rupor_due_accounts(claim_deliveries.workspace_id, until, accounts_max, held) AS a) AS d) AS c;

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
            EXIT WHEN n = 0 OR rounds_left = 0;
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
                          d.charged, d.flood_waits, d.not_ready_waits, d.unknowns, d.lost_claims, d.lost_requests,
                          d.flood_since, d.slot_at, d.lease_until, d.parts, d.idempotency_key,
                          t.due_at[sorted.ord[width_bucket(d.delivery_id, sorted.id)]] AS due_at, d.campaign_id
            ), held AS (
                INSERT INTO inflight (delivery_id, workspace_id, account_id, lane_id, claim_token, claim_seq, attempt,
                                      run_id, claimed_at, slot_at, lease_until, requested_at)
                SELECT m.delivery_id, m.workspace_id, m.account_id, m.lane_id, m.claim_token, m.claim_seq, m.attempt,
                       claim_deliveries.run_id, at, m.slot_at, m.lease_until, CASE WHEN marks THEN NULL ELSE at END
                  FROM marked AS m
            )
            -- in the order they were dealt, which is the order of each lane
            SELECT m.*, CASE WHEN m.campaign_id IS NULL THEN false
                             ELSE (SELECT h.paid FROM lane_heads AS h WHERE h.lane_id = m.lane_id) END
              FROM marked AS m ORDER BY sorted.ord[width_bucket(m.delivery_id, sorted.id)];
        END IF;
        IF cardinality(t.old) > 0 THEN
            PERFORM rupor_expire_heads(t.old, at);
        END IF;

        IF cardinality(t.put_off) > 0 THEN
            UPDATE lane_heads AS h SET put_off_until = at + rupor_span(rupor_rule_retry_look_us())
             WHERE h.lane_id = ANY (t.put_off);
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
        -- Who gave nothing now will not give more, and must not stand before those who have something.
        IF false = ANY (served) AND coalesce(cardinality(t.old), 0) = 0 THEN
            seen := array(SELECT s FROM unnest(seen) AS s
                          EXCEPT
                          SELECT w.account_id FROM unnest(wanted, served) AS w (account_id, served) WHERE NOT w.served);
        END IF;
    END LOOP;
END $$;

-- The due lanes of these accounts, and how many rows each may give; by ord, turn, lane_next and lane_id they stand in the
-- order they are served.
CREATE FUNCTION rupor_due_lanes(accounts bigint[], shares integer[], at timestamptz, until timestamptz)
RETURNS TABLE (
    ord bigint, account_id bigint, account_room integer, group_id bigint, group_interval bigint, group_slot timestamptz,
    tolerance interval, cooldown_until timestamptz,
    turn integer, lane_next timestamptz, lane_id bigint, lane_room integer, lane_interval bigint, lane_slot timestamptz,
    lane_run integer, mixed boolean, lane_held bigint, ordered boolean, account_retries integer
)
LANGUAGE sql STABLE AS $$
    SELECT o.ord, h.account_id, room.n, g.group_id, g.interval_us, g.next_slot,
           rupor_span((g.burst - 1) * g.interval_us), g.cooldown_until,
           l.turn, l.next_at, l.lane_id, l.room, l.interval_us, l.next_slot, l.urgent_run, l.mixed, l.held, l.ordered,
           room.retries
      FROM unnest(accounts, shares) WITH ORDINALITY AS o (account_id, share, ord)
     CROSS JOIN LATERAL (SELECT x.* FROM account_heads AS x WHERE x.account_id = o.account_id OFFSET 0) AS h
     CROSS JOIN LATERAL (SELECT x.* FROM rate_groups AS x WHERE x.group_id = h.group_id OFFSET 0) AS g
     -- lanes beyond the last slot would be looked at for nothing
     CROSS JOIN LATERAL (SELECT greatest(0, least(o.share::bigint, h.max_parallel - count(*), CASE WHEN g.interval_us > 0 THEN
                                    (rupor_micros(until) - rupor_micros(greatest(g.next_slot, at))) / g.interval_us + g.burst
                                END))::integer AS n,
                                (h.retry_parallel - count(*) FILTER (WHERE i.attempt > 1))::integer AS retries,
                                -- Up to the last slot of the account that may be given: a lane whose own slot comes
                                -- before it is served, while one that anything else keeps waiting is not.
                                CASE WHEN g.interval_us > 0 THEN rupor_due_lanes.until ELSE at END AS until
                           FROM inflight AS i
                          WHERE i.account_id = h.account_id) AS room
     CROSS JOIN LATERAL (
           SELECT d.lane_id, d.next_at, d.interval_us, d.next_slot, d.urgent_run, d.mixed, i.held, d.max_parallel = 1 AS ordered,
                  -- after so many urgent rows in a row one bulk lane comes first
                  CASE WHEN d.head_priority = 1 AND d.nth = 1 AND h.urgent_run >= rupor_rule_urgent_run_max() THEN 0 ELSE 1 + d.head_priority END AS turn,
                  greatest(0, least(d.max_parallel - i.held, ceil(room.n::numeric / count(*) OVER ())))::integer AS room
             FROM ((SELECT u.lane_id, u.next_at, u.interval_us, u.next_slot, u.urgent_run, u.max_parallel, u.head_priority,
                           EXISTS (SELECT FROM ready AS b WHERE b.lane_id = u.lane_id AND b.priority = 1) AS mixed, 0 AS nth
                      FROM lane_heads AS u
                     WHERE u.account_id = h.account_id AND u.head_priority = 0 AND u.next_at <= room.until
                       AND greatest(u.blocked_until, u.closed_until, u.put_off_until) <= at
                     ORDER BY u.next_at, u.lane_id
                     -- a few more than could be used: some may have nothing to give
                     LIMIT room.n + 8)
                   UNION ALL
                   (SELECT b.lane_id, b.next_at, b.interval_us, b.next_slot, b.urgent_run, b.max_parallel, b.head_priority,
                           false, row_number() OVER (ORDER BY b.next_at, b.lane_id)
                      FROM lane_heads AS b
                     WHERE b.account_id = h.account_id AND b.head_priority = 1 AND b.next_at <= room.until
                       AND greatest(b.blocked_until, b.closed_until, b.put_off_until) <= at
                     ORDER BY b.next_at, b.lane_id
                     LIMIT room.n + 8)) AS d
            CROSS JOIN LATERAL (SELECT count(*) AS held FROM inflight AS f
                                 WHERE f.account_id = h.account_id AND f.lane_id = d.lane_id) AS i) AS l
$$;

CREATE FUNCTION rupor_check_claim(run_id text, wanted integer, ahead_ms integer, lease_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    problem text := CASE
        WHEN wanted IS NULL OR wanted NOT BETWEEN 0 AND rupor_rule_claim_batch_max()
            THEN format('%s rows at once, at most %s', wanted, rupor_rule_claim_batch_max())
        WHEN ahead_ms IS NULL OR ahead_ms NOT BETWEEN 0 AND rupor_rule_claim_ahead_max_us() / 1000
            THEN format('%s ms ahead, at most %s', ahead_ms, rupor_rule_claim_ahead_max_us() / 1000)
        WHEN lease_ms IS NULL OR lease_ms <= 0 THEN 'the lease must be positive'
        WHEN run_id IS NULL OR octet_length(run_id) NOT BETWEEN 1 AND 200 THEN 'a run id has 1 to 200 bytes'
        END;
BEGIN
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'claim: %', problem USING ERRCODE = 'RU004';
    END IF;
END $$;

-- The accounts that have waited longest. While everything is held, only those that speak of trouble.
CREATE FUNCTION rupor_due_accounts(wanted_workspace bigint, until timestamptz, at_most integer, held boolean)
RETURNS TABLE (account_id bigint, workspace_id bigint, next_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF held THEN
        RETURN QUERY
        SELECT h.account_id, h.workspace_id, h.next_at
          FROM account_heads AS h JOIN accounts AS a ON a.account_id = h.account_id
         WHERE a.tier = 'alerts' AND h.next_at <= until AND (wanted_workspace IS NULL OR h.workspace_id = wanted_workspace)
         ORDER BY h.next_at, h.account_id
         LIMIT at_most;
    ELSIF wanted_workspace IS NULL THEN
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

-- Stands in line for the account that has waited longest, if one is due; the claim that follows in the same transaction
-- finds it free. Only for a transaction that holds nothing yet.
CREATE FUNCTION await_due_account(workspace_id bigint, ahead_ms integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    until timestamptz := rupor_now() + ahead_ms * interval '1 millisecond';
BEGIN
    PERFORM rupor_guard(await_due_account.workspace_id);
    PERFORM rupor_lock_accounts(array(
        SELECT d.account_id
          FROM rupor_due_accounts(await_due_account.workspace_id, until, 1, (SELECT c.held FROM control AS c)) AS d));
END $$;

-- The earliest time at which another claim could give anything; NULL: nothing is waiting, or all of it is held.
CREATE FUNCTION next_claim_at(workspace_id bigint) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz;
BEGIN
    PERFORM rupor_guard(next_claim_at.workspace_id);
    IF (SELECT c.held FROM control AS c) THEN
        SELECT min(h.next_at) INTO at
          FROM account_heads AS h JOIN accounts AS a ON a.account_id = h.account_id
         WHERE a.tier = 'alerts' AND (next_claim_at.workspace_id IS NULL OR h.workspace_id = next_claim_at.workspace_id);
    ELSIF next_claim_at.workspace_id IS NULL THEN
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
