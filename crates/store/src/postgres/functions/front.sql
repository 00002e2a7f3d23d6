-- The front of the lanes: which of their waiting rows a round takes.
-- Unlike SQLite whole rounds are dealt in one statement where nothing needs care; the careful way is SQLite's.

-- The ordinary round of accounts without a rate, all at once: how many rows each lane gives is said before any row is
-- read. It says `odd`, and what it decided is void, where rows must be taken one by one: a lane with its own rate or with
-- both priorities, a suspect row, a retry, one that is too old, one that is not due and keeps others waiting. A lane whose
-- head is a bulk row has both when an urgent row, which waits, stands first.
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
               r.rank <= l.room AND (r.suspect OR r.expires_at <= at OR (r.run_at > at AND r.position = r.delivery_id)
                                     OR (r.retried AND r.run_at <= at))
                   OR (l.turn <> 1 AND r.priority = 0) AS odd
          FROM unnest(m.lane_id, rooms, runs, m.in_flight, t.turn) WITH ORDINALITY AS l (lane_id, room, run, held, turn, nth)
          LEFT JOIN LATERAL (SELECT q.ctid AS place, q.*,
                                    row_number() OVER (ORDER BY q.priority, q.position, q.delivery_id) AS rank
                               FROM ready AS q
                              WHERE q.lane_id = l.lane_id
                              ORDER BY q.priority, q.position, q.delivery_id
                              LIMIT l.room + 1) AS r ON true
    )
    SELECT f.id, f.place, f.due_at, f.odd, c.queued, c.retry, c.sending, c.slot_at, c.run, c.in_flight, c.first_priority, c.first_run_at
      INTO t.id, t.place, t.due_at, t.odd, m.queued, m.retry, m.sending, m.slot_at, m.run, m.in_flight, m.first_priority, m.first_run_at
      FROM (SELECT array_agg(f.delivery_id) FILTER (WHERE f.due) AS id, array_agg(f.place) FILTER (WHERE f.due) AS place,
                   array_agg(f.run_at) FILTER (WHERE f.due) AS due_at, coalesce(bool_or(f.odd), false) AS odd
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
                                array_agg(f.priority) FILTER (WHERE NOT f.due) AS left_priority,
                                array_agg(f.run_at) FILTER (WHERE NOT f.due) AS left_run_at
                           FROM (SELECT x.* FROM front AS x ORDER BY x.nth, x.rank) AS f
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
    urgent_max   CONSTANT integer := rupor_rule_urgent_run_max();
    patience     CONSTANT interval := rupor_span(rupor_rule_suspect_patience_us());
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
    retries_left integer;                    -- of the account
    waits        boolean;
    slot         timestamptz;
BEGIN
    t.id := '{}'; t.place := '{}'; t.due_at := '{}'; t.slot_at := '{}'; t.account_id := '{}'; t.turn := '{}'; t.old := '{}'; t.put_off := '{}'; t.closed := false;
    m.lane_id := '{}'; m.queued := '{}'; m.retry := '{}'; m.sending := '{}'; m.slot_at := '{}'; m.run := '{}';
    FOR o IN
        -- A lane without rows comes as one row without a delivery, so that its head is set right.
        SELECT l.*, r.*
          FROM rupor_due_lanes(accounts, shares, at, until) AS l
          LEFT JOIN LATERAL (SELECT q.ctid AS place, q.priority, q.position, q.delivery_id, q.run_at, q.expires_at, q.suspect,
                                    q.retried, row_number() OVER (ORDER BY q.priority, q.position, q.delivery_id) AS nth
                               FROM ready AS q
                              -- without order, rows that wait are passed over, and some of those that find no room
                              WHERE q.lane_id = l.lane_id AND (l.ordered OR q.run_at <= at)
                              ORDER BY q.priority, q.position, q.delivery_id
                              LIMIT l.lane_room + CASE WHEN l.ordered THEN 0 ELSE 32 END) AS r ON true
         ORDER BY l.ord, l.turn, l.lane_next, l.lane_id, r.nth
    LOOP
        IF account IS DISTINCT FROM o.account_id THEN
            account := o.account_id;
            retries_left := o.account_retries;
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
                take_bulk := coalesce(b.run_at <= at AND NOT b.suspect AND (b.expires_at > at OR b.expires_at IS NULL)
                                      AND (NOT b.retried OR retries_left > 0), false);
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
            IF NOT take_bulk AND o.retried AND retries_left <= 0 THEN
                -- Order waits for it; without order the others pass.
                t.put_off := t.put_off || lane;
                lane_over := o.ordered;
                EXIT;
            END IF;
            IF NOT take_bulk AND o.suspect THEN
                -- Beside rows of which no request has left yet it might be blamed for what they do; it waits, but
                -- not for ever, and without order the others pass.
                waits := NOT first OR cardinality(t.id) > 0
                    OR (o.run_at > at - patience
                        AND EXISTS (SELECT FROM inflight AS i WHERE i.run_id = claimer AND i.requested_at IS NULL));
                lane_over := waits AND o.ordered;
                EXIT WHEN waits;
                t.closed := true;
            END IF;

            lane_slot := greatest(lane_slot, slot) + rupor_span(o.lane_interval);
            group_slots[group_at] := greatest(group_slots[group_at], slot) + rupor_span(o.group_interval);
            IF take_bulk THEN
                bulk_after := b.position; bulk_id := b.delivery_id;
                t.id := t.id || bulk_id; t.place := t.place || b.place; t.due_at := t.due_at || b.run_at; retried := b.retried;
                lane_run := 0;
            ELSE
                t.id := t.id || o.delivery_id; t.place := t.place || o.place; t.due_at := t.due_at || o.run_at; retried := o.retried;
                lane_run := CASE o.priority WHEN 0 THEN lane_run + 1 ELSE 0 END;
            END IF;
            t.slot_at := t.slot_at || slot;
            IF retried THEN
                retries_left := retries_left - 1;
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
    -- Who gave something looks again at once.
    IF cardinality(t.put_off) > 0 THEN
        t.put_off := array(SELECT DISTINCT l.lane_id FROM unnest(m.lane_id, m.sending) AS l (lane_id, n)
                            WHERE l.n = 0 AND l.lane_id = ANY (t.put_off));
    END IF;
    t.moves := m;
    RETURN t;
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
        RETURNING d.delivery_id, d.workspace_id, d.lane_id, d.channel_id, d.recipient_id, d.message_id, d.retry_at, g.expires_at,
                  d.campaign_id
    ), of_campaigns AS (
        INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n)
        SELECT e.workspace_id, e.campaign_id, 'ended.expired', count(*) FROM ended AS e
         WHERE e.campaign_id IS NOT NULL GROUP BY e.workspace_id, e.campaign_id ORDER BY e.campaign_id
        ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + excluded.n
    ), forgotten AS (
        DELETE FROM dedup_index AS k
         USING gone AS g
         WHERE k.delivery_id = g.delivery_id
    ), told AS (
        INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, recipient_id, detail)
        SELECT e.workspace_id, rupor_expire_heads.at, 'expired', e.message_id, e.delivery_id, e.channel_id, e.recipient_id,
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
