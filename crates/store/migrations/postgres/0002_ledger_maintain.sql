-- What operators and the janitor do: recovery, slots outside the claim, requeue, cancel, removal, retention.

-- Takes up claims whose lease has ended. It bypasses the parallelism gate, or leaked places would block it.
CREATE FUNCTION recover_leases(workspace_id bigint, "limit" integer DEFAULT 1000)
RETURNS TABLE (delivery_id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := rupor_now();
    accounts bigint[];
    lanes    bigint[] := '{}';
    held     inflight;
BEGIN
    PERFORM rupor_guard(recover_leases.workspace_id);
    SELECT array_agg(DISTINCT e.account_id) INTO accounts
      FROM rupor_expired(recover_leases.workspace_id, at, "limit") AS e;
    IF accounts IS NULL THEN
        RETURN;
    END IF;
    PERFORM rupor_lock_accounts(accounts);
    -- What is still over now that nobody else can end it.
    FOR held IN
        SELECT e.* FROM rupor_expired(recover_leases.workspace_id, at, "limit") AS e WHERE e.account_id = ANY (accounts)
    LOOP
        delivery_id := held.delivery_id;
        status := rupor_end_lease(held, at);
        lanes := lanes || held.lane_id;
        RETURN NEXT;
    END LOOP;
    PERFORM rupor_refresh_lanes(array(SELECT DISTINCT l FROM unnest(lanes) AS l ORDER BY l));
    PERFORM rupor_refresh_accounts(accounts);
END $$;

CREATE FUNCTION rupor_expired(ws bigint, at timestamptz, at_most integer) RETURNS SETOF inflight
LANGUAGE sql STABLE AS $$
    SELECT i.*
      FROM inflight AS i
     WHERE i.lease_until <= at AND (ws IS NULL OR i.workspace_id = ws)
     ORDER BY i.lease_until, i.delivery_id
     LIMIT at_most
$$;

-- Slots for requests whose slots were missed, one for each of these lanes (0: for none), in order. A chat's next request
-- keeps its distance from the new slot. None comes sooner than lead_ms: it takes a while until the answer is heard.
-- NULL: no such account.
CREATE FUNCTION reserve_slots_for(workspace_id bigint, account_id bigint, lane_ids bigint[], lead_ms integer) RETURNS timestamptz[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at    timestamptz := rupor_now();
    n     CONSTANT integer := coalesce(cardinality(lane_ids), 0);
    g     rate_groups;
    slot  timestamptz;
    slots timestamptz[] := '{}';
    moved bigint[];
BEGIN
    PERFORM rupor_guard(reserve_slots_for.workspace_id);
    IF n NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'reserve: 1 to 1000 slots, not %', n USING ERRCODE = 'RU004';
    ELSIF lead_ms IS NULL OR lead_ms NOT BETWEEN 0 AND 1000 THEN
        RAISE EXCEPTION 'reserve: % ms ahead, at most 1000', lead_ms USING ERRCODE = 'RU004';
    END IF;
    PERFORM FROM accounts AS a
      WHERE a.workspace_id = reserve_slots_for.workspace_id AND a.account_id = reserve_slots_for.account_id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[reserve_slots_for.account_id]);
    SELECT x.* INTO g
      FROM account_heads AS h JOIN rate_groups AS x ON x.group_id = h.group_id
     WHERE h.account_id = reserve_slots_for.account_id;
    at := greatest(at + lead_ms * interval '1 millisecond', g.cooldown_until);
    FOR taken IN 1 .. n LOOP
        slot := greatest(at, g.next_slot - rupor_span((g.burst - 1) * g.interval_us));
        g.next_slot := greatest(g.next_slot, slot) + rupor_span(g.interval_us);
        slots := slots || slot;
    END LOOP;
    UPDATE rate_groups AS x SET next_slot = g.next_slot WHERE x.group_id = g.group_id;
    WITH moved AS (
        UPDATE lane_heads AS h
           SET next_slot = greatest(h.next_slot, s.slot + rupor_span(h.interval_us))
          FROM (SELECT u.lane_id, max(u.slot) AS slot FROM unnest(lane_ids, slots) AS u (lane_id, slot) GROUP BY u.lane_id) AS s
         WHERE h.lane_id = s.lane_id AND h.account_id = reserve_slots_for.account_id AND h.interval_us > 0
        RETURNING h.lane_id
    )
    SELECT array_agg(m.lane_id) INTO moved FROM moved AS m;
    PERFORM rupor_refresh_lanes(moved);
    PERFORM rupor_refresh_accounts(ARRAY[reserve_slots_for.account_id]);
    RETURN slots;
END $$;

-- Pays for n requests outside the claim and returns when the last of them may start. NULL: no such account.
CREATE FUNCTION reserve_slots(workspace_id bigint, account_id bigint, n integer DEFAULT 1) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    slots timestamptz[];
BEGIN
    -- Bounded before it is an array; the callee refuses what is not 1 to 1000.
    n := least(greatest(coalesce(n, 0), 0), 1001);
    slots := reserve_slots_for(workspace_id, account_id, array_fill(0::bigint, ARRAY[n]), 0);
    RETURN slots[n];
END $$;

-- One more request to the chat of a lane, at the lane's own pace; NULL: no such lane.
CREATE FUNCTION reserve_lane_slot(workspace_id bigint, lane_id bigint) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    lane lane_heads;
    slot timestamptz;
BEGIN
    PERFORM rupor_guard(reserve_lane_slot.workspace_id);
    SELECT h.* INTO lane
      FROM lane_heads AS h
     WHERE h.workspace_id = reserve_lane_slot.workspace_id AND h.lane_id = reserve_lane_slot.lane_id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[lane.account_id]);
    UPDATE lane_heads AS h
       SET next_slot = greatest(h.next_slot, rupor_now()) + rupor_span(h.interval_us)
     WHERE h.lane_id = lane.lane_id
    RETURNING h.next_slot - rupor_span(h.interval_us) INTO slot;
    PERFORM rupor_refresh_lanes(ARRAY[lane.lane_id]);
    PERFORM rupor_refresh_accounts(ARRAY[lane.account_id]);
    RETURN slot;
END $$;

-- A new generation of failed deliveries, in order. Raises, and changes nothing, if one of them is not failed.
CREATE FUNCTION requeue_deliveries(workspace_id bigint, delivery_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := rupor_now();
    ws       CONSTANT bigint := requeue_deliveries.workspace_id;
    wanted   bigint;
    old      record;
    made     bigint;
    answer   bigint[] := '{}';
    accounts bigint[];
    lanes    bigint[] := '{}';
BEGIN
    PERFORM rupor_guard(ws);
    accounts := array(SELECT DISTINCT d.account_id FROM deliveries AS d
                       WHERE d.workspace_id = ws AND d.delivery_id = ANY (delivery_ids));
    PERFORM rupor_lock_accounts(accounts);
    FOREACH wanted IN ARRAY delivery_ids LOOP
        SELECT d.*, h.max_parallel = 1 AS ordered, c.removed_at INTO old
          FROM deliveries AS d
          JOIN lane_heads AS h ON h.lane_id = d.lane_id
          LEFT JOIN channels AS c ON c.channel_id = d.channel_id
         WHERE d.workspace_id = ws AND d.delivery_id = wanted;
        IF old.delivery_id IS NULL THEN
            RAISE EXCEPTION 'delivery % is not known in this workspace', wanted
                USING ERRCODE = 'RU001', DETAIL = 'delivery', HINT = wanted::text;
        ELSIF old.status NOT IN ('dead', 'failed_permanent') THEN
            RAISE EXCEPTION 'delivery % is %: requeue is not allowed', wanted, old.status
                USING ERRCODE = 'RU003', DETAIL = wanted::text, HINT = old.status;
        ELSIF old.removed_at IS NOT NULL THEN
            RAISE EXCEPTION 'delivery % is %: its channel was removed', wanted, old.status
                USING ERRCODE = 'RU005', DETAIL = wanted::text, HINT = old.status;
        END IF;
        made := nextval('deliveries_delivery_id_seq');
        INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, channel_id, recipient_id, message_id, revision,
                                action, target_delivery, generation, parent_delivery, priority, status, run_at, position,
                                idempotency_key, queued_at)
        VALUES (made, ws, old.lane_id, old.account_id, old.channel_id, old.recipient_id, old.message_id, old.revision,
                old.action, old.target_delivery,
                1 + (SELECT max(s.generation) FROM deliveries AS s
                      WHERE s.message_id = old.message_id AND s.channel_id IS NOT DISTINCT FROM old.channel_id
                        AND s.recipient_id IS NOT DISTINCT FROM old.recipient_id
                        AND s.action = old.action AND s.revision = old.revision),
                wanted, old.priority, 'queued', at, CASE WHEN old.ordered THEN made ELSE rupor_micros(at) END,
                concat('d', made), at);
        INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at)
        VALUES (old.lane_id, old.priority, CASE WHEN old.ordered THEN made ELSE rupor_micros(at) END, made, ws, at);
        -- The old delivery's key, if nobody took it since.
        INSERT INTO dedup_index (workspace_id, channel_id, mode, version, key, kind, delivery_id, first_origin, last_seen_at)
        SELECT ws, c.channel_id, c.dedup, m.hash_version, k.key, CASE c.dedup WHEN 'content' THEN '' ELSE m.kind END,
               made, m.origin, at
          FROM messages AS m
          JOIN channels AS c ON c.channel_id = old.channel_id
         CROSS JOIN LATERAL (SELECT CASE c.dedup WHEN 'content' THEN m.content_hash WHEN 'fingerprint' THEN m.fingerprint
                                                 WHEN 'case' THEN m.case_id::text END AS key) AS k
         WHERE m.message_id = old.message_id AND k.key IS NOT NULL
        ON CONFLICT DO NOTHING;
        UPDATE lane_heads AS h SET n_queued = h.n_queued + 1 WHERE h.lane_id = old.lane_id;
        INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, detail)
        VALUES (ws, at, 'requeued', old.message_id, made, old.channel_id, jsonb_build_object('parent', wanted));
        answer := answer || made;
        lanes := lanes || old.lane_id;
    END LOOP;
    PERFORM rupor_refresh_lanes(array(SELECT DISTINCT l FROM unnest(lanes) AS l ORDER BY l));
    PERFORM rupor_refresh_accounts(accounts);
    RETURN answer;
END $$;

-- Ends what still waits; false, in order, for what is out already or ended.
CREATE FUNCTION cancel_deliveries(workspace_id bigint, delivery_ids bigint[]) RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := rupor_now();
    ws       CONSTANT bigint := cancel_deliveries.workspace_id;
    missing  bigint;
    accounts bigint[];
    lanes    bigint[];
    ended    bigint[];
BEGIN
    PERFORM rupor_guard(ws);
    SELECT w.id INTO missing
      FROM unnest(delivery_ids) WITH ORDINALITY AS w (id, ord)
     WHERE NOT EXISTS (SELECT FROM deliveries AS d WHERE d.workspace_id = ws AND d.delivery_id = w.id)
     ORDER BY w.ord
     LIMIT 1;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'delivery % is not known in this workspace', missing
            USING ERRCODE = 'RU001', DETAIL = 'delivery', HINT = missing::text;
    END IF;
    accounts := array(SELECT DISTINCT d.account_id FROM deliveries AS d WHERE d.delivery_id = ANY (delivery_ids));
    PERFORM rupor_lock_accounts(accounts);
    WITH waiting AS (
        SELECT d.delivery_id, d.lane_id, d.priority, d.position, d.status, d.message_id, d.channel_id
          FROM deliveries AS d
         WHERE d.delivery_id = ANY (delivery_ids) AND d.status IN ('queued', 'retry')
    ), cancelled AS (
        UPDATE deliveries AS d
           SET status = 'dead', reason = 'cancelled', run_at = NULL, position = NULL, ended_at = at
          FROM waiting AS w
         WHERE d.delivery_id = w.delivery_id
    ), gone AS (
        DELETE FROM ready AS r
         WHERE r.ctid = ANY (array(
                   SELECT p.place
                     FROM waiting AS w
                    CROSS JOIN LATERAL (SELECT q.ctid AS place FROM ready AS q
                                         WHERE q.lane_id = w.lane_id AND q.priority = w.priority
                                           AND q.position = w.position AND q.delivery_id = w.delivery_id
                                         OFFSET 0) AS p))
    ), forgotten AS (
        DELETE FROM dedup_index AS k USING waiting AS w WHERE k.delivery_id = w.delivery_id
    ), counted AS (
        UPDATE lane_heads AS h
           SET n_queued = h.n_queued - c.queued, n_retry = h.n_retry - c.retry, n_dead = h.n_dead + c.queued + c.retry
          FROM (SELECT w.lane_id, count(*) FILTER (WHERE w.status = 'queued') AS queued,
                       count(*) FILTER (WHERE w.status = 'retry') AS retry
                  FROM waiting AS w GROUP BY w.lane_id) AS c
         WHERE h.lane_id = c.lane_id
    ), told AS (
        INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id)
        SELECT ws, at, 'cancelled', w.message_id, w.delivery_id, w.channel_id
          FROM waiting AS w
         ORDER BY w.delivery_id
    )
    SELECT array_agg(w.delivery_id), array_agg(DISTINCT w.lane_id) INTO ended, lanes FROM waiting AS w;
    PERFORM rupor_refresh_lanes(lanes);
    PERFORM rupor_refresh_accounts(accounts);
    -- The same id twice in one call is cancelled once.
    RETURN array(SELECT o.ended AND o.nth = 1
                   FROM (SELECT u.ended, u.ord, row_number() OVER (PARTITION BY u.id ORDER BY u.ord) AS nth
                           FROM unnest(rupor_among(delivery_ids, ended), delivery_ids) WITH ORDINALITY AS u (ended, id, ord)) AS o
                  ORDER BY o.ord);
END $$;

-- What waits for the channel ends as failed_permanent(channel_removed). False: no such channel in this workspace.
CREATE FUNCTION remove_channel(workspace_id bigint, channel_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at     timestamptz := rupor_now();
    lane   lane_heads;
    n      bigint;
BEGIN
    PERFORM rupor_guard(remove_channel.workspace_id);
    SELECT h.* INTO lane
      FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
     WHERE c.workspace_id = remove_channel.workspace_id AND c.channel_id = remove_channel.channel_id
       AND c.removed_at IS NULL;
    IF lane.lane_id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[lane.account_id]);
    SELECT h.n_queued + h.n_retry INTO n FROM lane_heads AS h WHERE h.lane_id = lane.lane_id;
    WITH gone AS (
        DELETE FROM ready AS r WHERE r.lane_id = lane.lane_id RETURNING r.delivery_id
    ), forgotten AS (
        DELETE FROM dedup_index AS k USING gone AS g WHERE k.delivery_id = g.delivery_id
    )
    UPDATE deliveries AS d
       SET status = 'failed_permanent', reason = 'channel_removed', run_at = NULL, position = NULL, ended_at = at
      FROM gone AS g
     WHERE d.delivery_id = g.delivery_id;
    UPDATE lane_heads AS h
       SET n_queued = 0, n_retry = 0, n_failed = h.n_failed + n
     WHERE h.lane_id = lane.lane_id;
    -- The name is free again; the trigger shuts the lane.
    UPDATE channels AS c
       SET removed_at = at, enabled = false, disabled_by = 'operator', name = format('%s (removed %s)', c.name, c.channel_id)
     WHERE c.channel_id = remove_channel.channel_id;
    INSERT INTO events (workspace_id, at, name, channel_id, detail)
    VALUES (remove_channel.workspace_id, at, 'channel_removed', remove_channel.channel_id, jsonb_build_object('failed', n));
    RETURN true;
END $$;

-- Ends a pause of an account and the cooldown of its budget. False: no such account in this workspace.
CREATE FUNCTION resume_account(workspace_id bigint, account_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at  timestamptz := rupor_now();
    grp bigint;
BEGIN
    PERFORM rupor_guard(resume_account.workspace_id);
    SELECT a.group_id INTO grp
      FROM accounts AS a
     WHERE a.workspace_id = resume_account.workspace_id AND a.account_id = resume_account.account_id;
    IF grp IS NULL THEN
        RETURN false;
    END IF;
    PERFORM rupor_lock_groups(ARRAY[grp]);
    UPDATE accounts AS a
       SET paused = false, paused_why = NULL, paused_at = NULL
     WHERE a.account_id = resume_account.account_id AND (a.paused OR a.paused_why IS NOT NULL);
    UPDATE rate_groups AS g
       SET cooldown_until = 'epoch', flood_until = 'epoch', flood_channel = NULL, trouble_streak = 0
     WHERE g.group_id = grp;
    PERFORM rupor_refresh_accounts(array(SELECT h.account_id FROM account_heads AS h WHERE h.group_id = grp));
    INSERT INTO events (workspace_id, at, name, account_id)
    VALUES (resume_account.workspace_id, at, 'account_resumed', resume_account.account_id);
    RETURN true;
END $$;

-- The door a secret opens, found by nothing else; so it looks across workspaces.
CREATE FUNCTION endpoint_by_secret(hash text) RETURNS SETOF workspace_endpoints
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    RETURN QUERY SELECT e.* FROM workspace_endpoints AS e WHERE e.secret_hash = hash AND e.enabled;
END $$;

-- Removes what is older than it needs to be, at most "limit" rows of each kind: ended deliveries with their attempts
-- (repeats by their own span), messages that nobody needs any more, events, and keys beyond the longest window.
-- It walks from the oldest id and looks at a few times "limit" rows, so that it never scans.
CREATE FUNCTION retain_rows(
    workspace_id bigint, keep_deliveries interval, keep_deduped interval, keep_events interval, "limit" integer DEFAULT 1000,
    OUT deliveries bigint, OUT messages bigint, OUT events bigint, OUT dedup bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    today timestamptz := rupor_now();
    ws    CONSTANT bigint := retain_rows.workspace_id;
    old   bigint[];
BEGIN
    PERFORM rupor_guard(ws);
    IF ws IS NULL THEN
        SELECT array_agg(o.delivery_id) INTO old
          FROM (SELECT l.delivery_id
                  FROM (SELECT d.delivery_id, d.status, d.ended_at FROM public.deliveries AS d
                         ORDER BY d.delivery_id LIMIT 4 * "limit") AS l
                 WHERE l.ended_at < today - CASE l.status WHEN 'deduped' THEN keep_deduped ELSE keep_deliveries END
                 ORDER BY l.delivery_id
                 LIMIT "limit") AS o;
    ELSE
        SELECT array_agg(o.delivery_id) INTO old
          FROM (SELECT l.delivery_id
                  FROM (SELECT d.delivery_id, d.status, d.ended_at FROM public.deliveries AS d
                         WHERE d.workspace_id = ws
                         ORDER BY d.workspace_id, d.delivery_id LIMIT 4 * "limit") AS l
                 WHERE l.ended_at < today - CASE l.status WHEN 'deduped' THEN keep_deduped ELSE keep_deliveries END
                 ORDER BY l.delivery_id
                 LIMIT "limit") AS o;
    END IF;
    -- The delivery was the evidence of its key; what the window is counted from stays.
    UPDATE dedup_index AS k
       SET sent_at = d.sent_at
      FROM public.deliveries AS d
     WHERE k.delivery_id = ANY (old) AND d.delivery_id = k.delivery_id;
    DELETE FROM attempts AS a WHERE a.delivery_id = ANY (old);
    DELETE FROM public.deliveries AS d WHERE d.delivery_id = ANY (old);
    GET DIAGNOSTICS deliveries = ROW_COUNT;
    DELETE FROM public.messages AS m
     WHERE m.message_id = ANY (array(
               SELECT l.message_id
                 FROM (SELECT x.message_id, x.created_at FROM public.messages AS x
                        WHERE ws IS NULL OR x.workspace_id = ws
                        ORDER BY x.message_id LIMIT "limit") AS l
                WHERE l.created_at < today - keep_deliveries
                  AND NOT EXISTS (SELECT FROM public.deliveries AS d WHERE d.message_id = l.message_id)
                  AND NOT EXISTS (SELECT FROM campaigns AS c WHERE c.message_id = l.message_id)));
    GET DIAGNOSTICS messages = ROW_COUNT;
    DELETE FROM public.events AS e
     WHERE e.event_id = ANY (array(
               SELECT l.event_id
                 FROM (SELECT x.event_id, x.at FROM public.events AS x
                        WHERE ws IS NULL OR x.workspace_id = ws
                        ORDER BY x.event_id LIMIT "limit") AS l
                WHERE l.at < today - keep_events));
    GET DIAGNOSTICS events = ROW_COUNT;
    DELETE FROM dedup_index AS k
     USING (SELECT i.workspace_id, i.channel_id, i.mode, i.version, i.key, i.kind, i.delivery_id,
                   coalesce(i.sent_at, (SELECT d.sent_at FROM public.deliveries AS d
                                         WHERE d.delivery_id = i.delivery_id)) AS sent_at
              FROM dedup_index AS i
             WHERE ws IS NULL OR i.workspace_id = ws
             ORDER BY i.delivery_id
             LIMIT 4 * "limit") AS o
     WHERE k.workspace_id = o.workspace_id AND k.channel_id = o.channel_id AND k.mode = o.mode AND k.version = o.version
       AND k.key = o.key AND k.kind = o.kind
       -- not one that was taken again in this very moment
       AND k.delivery_id = o.delivery_id
       AND o.sent_at < today - rupor_span((SELECT max(c.dedup_ttl_us) FROM channels AS c WHERE c.workspace_id = k.workspace_id));
    GET DIAGNOSTICS dedup = ROW_COUNT;
END $$;
