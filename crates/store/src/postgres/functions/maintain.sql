-- What operators and the janitor do: requeue, cancel, retention.
-- On SQLite retention has a file of its own, retain.rs.

-- A new row of the next generation; everything else of the old one, nothing of its history. The caller has locked the
-- account and refreshes the heads.
CREATE FUNCTION rupor_next_generation(ended bigint, detail jsonb, at timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    old  record;
    made bigint := nextval('deliveries_delivery_id_seq');
BEGIN
    SELECT d.*, h.max_parallel = 1 AS ordered INTO old
      FROM deliveries AS d JOIN lane_heads AS h ON h.lane_id = d.lane_id
     WHERE d.delivery_id = ended;
    INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, channel_id, recipient_id, message_id, revision,
                            action, target_delivery, generation, parent_delivery, priority, status, run_at, position,
                            idempotency_key, queued_at)
    VALUES (made, old.workspace_id, old.lane_id, old.account_id, old.channel_id, old.recipient_id, old.message_id, old.revision,
            old.action, old.target_delivery,
            1 + (SELECT max(s.generation) FROM deliveries AS s
                  WHERE s.message_id = old.message_id AND s.channel_id IS NOT DISTINCT FROM old.channel_id
                    AND s.recipient_id IS NOT DISTINCT FROM old.recipient_id
                    AND s.action = old.action AND s.revision = old.revision),
            ended, old.priority, 'queued', at, CASE WHEN old.ordered THEN made ELSE rupor_micros(at) END,
            (SELECT rupor_key(k.history, made, m.request_hash, m.content_hash, m.revision)
               FROM control AS k CROSS JOIN messages AS m WHERE m.message_id = old.message_id),
            at);
    INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at)
    VALUES (old.lane_id, old.priority, CASE WHEN old.ordered THEN made ELSE rupor_micros(at) END, made, old.workspace_id, at);
    -- The old delivery's key, if nobody took it since.
    INSERT INTO dedup_index (workspace_id, channel_id, mode, version, key, kind, delivery_id, first_origin, last_seen_at)
    SELECT old.workspace_id, c.channel_id, k.mode, m.hash_version, k.key, CASE k.mode WHEN 'content' THEN '' ELSE m.kind END,
           made, m.origin, at
      FROM messages AS m
      JOIN channels AS c ON c.channel_id = old.channel_id
     CROSS JOIN LATERAL (SELECT e.mode, CASE e.mode WHEN 'content' THEN m.content_hash WHEN 'fingerprint' THEN m.fingerprint
                                                    WHEN 'case' THEN m.case_id::text END AS key
                           FROM (SELECT rupor_dedup_mode(c.dedup, m.case_id) AS mode) AS e) AS k
     WHERE m.message_id = old.message_id AND k.key IS NOT NULL
    ON CONFLICT DO NOTHING;
    -- From now on the new one tells how it ends; what was kept back had not failed.
    UPDATE lane_heads AS h
       SET n_queued = h.n_queued + 1,
           n_requeued = h.n_requeued + (SELECT (x.generation = old.generation + 1 AND old.status <> 'deduped')::integer
                                          FROM deliveries AS x WHERE x.delivery_id = made)
     WHERE h.lane_id = old.lane_id;
    INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, detail)
    VALUES (old.workspace_id, at, 'requeued', old.message_id, made, old.channel_id, detail);
    RETURN made;
END $$;

-- The first delivery of the lane that was kept back by the key of this one and is still shown by its source; asked before
-- the delivery forgets its key. Copies come after what they repeat, so nothing before it is looked at.
CREATE FUNCTION rupor_silent_copy(ended bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT d.delivery_id
      FROM dedup_index AS k
      JOIN deliveries AS x ON x.delivery_id = k.delivery_id
      JOIN channels AS c ON c.channel_id = x.channel_id
      JOIN deliveries AS d ON d.lane_id = x.lane_id AND d.delivery_id > coalesce(x.parent_delivery, x.delivery_id)
      JOIN messages AS m ON m.message_id = d.message_id
     WHERE k.delivery_id = ended AND c.removed_at IS NULL AND d.status = 'deduped' AND d.action = 'send' AND m.gone_at IS NULL
       AND m.hash_version = k.version
       AND k.kind = CASE k.mode WHEN 'content' THEN '' ELSE m.kind END
       AND k.key = CASE k.mode WHEN 'case' THEN m.case_id::text WHEN 'fingerprint' THEN m.fingerprint
                               ELSE CASE WHEN c.dedup <> 'case' OR m.case_id IS NULL THEN m.content_hash END END
       AND NOT EXISTS (SELECT FROM deliveries AS n
                        WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = 'send'
                          AND n.generation > d.generation)
     ORDER BY d.delivery_id
     LIMIT 1;
$$;

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
        SELECT d.delivery_id, d.status, d.lane_id, d.campaign_id, c.removed_at INTO old
          FROM deliveries AS d
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
        ELSIF old.campaign_id IS NOT NULL THEN
            RAISE EXCEPTION 'delivery % is %: it belongs to a campaign', wanted, old.status
                USING ERRCODE = 'RU009', DETAIL = wanted::text, HINT = old.status;
        END IF;
        made := rupor_next_generation(wanted, jsonb_build_object('parent', wanted), at);
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
        SELECT d.delivery_id, d.lane_id, d.priority, d.position, d.status, d.message_id, d.channel_id, d.campaign_id
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
    ), counted_apart AS (
        INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n)
        SELECT ws, w.campaign_id, 'ended.cancelled', count(*) FROM waiting AS w WHERE w.campaign_id IS NOT NULL GROUP BY w.campaign_id
        ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + excluded.n
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

-- One step of retention: looks at "limit" rows of each kind from where the walk stands, and removes what is old and not
-- needed any more: ended deliveries with their attempts (repeats by their own span), messages, keys beyond the longest
-- window, cases and what posts are compared with, events, runs. What has to stay is passed over: "next_walk" says where to go
-- on, null where a lap has come to what is young.
CREATE FUNCTION retain_rows(
    workspace_id bigint, keep_deliveries interval, keep_deduped interval, keep_events interval, "limit" integer DEFAULT 1000,
    walk jsonb DEFAULT '{"deliveries": 0, "messages": 0, "keys": 0, "cases": 0, "case_keys": [0, 0, 0], "case_pictures": [0, 0, 0, 0, 0], "lanes": 0}',
    OUT deliveries bigint, OUT messages bigint, OUT events bigint, OUT dedup bigint, OUT cases bigint, OUT case_keys bigint,
    OUT runs bigint, OUT lanes bigint, OUT next_walk jsonb
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    today timestamptz := rupor_now();
    ws    CONSTANT bigint := retain_rows.workspace_id;
    from_delivery CONSTANT bigint := (walk ->> 'deliveries')::bigint;
    from_message  CONSTANT bigint := (walk ->> 'messages')::bigint;
    from_key      CONSTANT bigint := (walk ->> 'keys')::bigint;
    from_case     CONSTANT bigint := (walk ->> 'cases')::bigint;
    from_lane     CONSTANT bigint := (walk ->> 'lanes')::bigint;
    old   bigint[];
    last  bigint;
    is_over boolean;
    n     bigint;
    place jsonb;
BEGIN
    PERFORM rupor_guard(ws);
    next_walk := walk;
    -- A waiting edit or reply still needs the post that it points at.
    IF ws IS NULL THEN
        SELECT array_agg(l.delivery_id) FILTER (WHERE l.old), max(l.delivery_id),
               count(*) < "limit" OR max(l.queued_at) >= today - least(keep_deliveries, keep_deduped)
          INTO old, last, is_over
          FROM (SELECT d.delivery_id, d.queued_at,
                       d.ended_at < today - CASE d.status WHEN 'deduped' THEN keep_deduped ELSE keep_deliveries END
                       AND NOT EXISTS (SELECT FROM public.deliveries AS w
                                        WHERE w.target_delivery = d.delivery_id AND w.ended_at IS NULL) AS old
                  FROM public.deliveries AS d
                 WHERE d.delivery_id > from_delivery
                 ORDER BY d.delivery_id LIMIT "limit") AS l;
    ELSE
        SELECT array_agg(l.delivery_id) FILTER (WHERE l.old), max(l.delivery_id),
               count(*) < "limit" OR max(l.queued_at) >= today - least(keep_deliveries, keep_deduped)
          INTO old, last, is_over
          FROM (SELECT d.delivery_id, d.queued_at,
                       d.ended_at < today - CASE d.status WHEN 'deduped' THEN keep_deduped ELSE keep_deliveries END
                       AND NOT EXISTS (SELECT FROM public.deliveries AS w
                                        WHERE w.target_delivery = d.delivery_id AND w.ended_at IS NULL) AS old
                  FROM public.deliveries AS d
                 WHERE d.workspace_id = ws AND d.delivery_id > from_delivery
                 ORDER BY d.workspace_id, d.delivery_id LIMIT "limit") AS l;
    END IF;
    next_walk := next_walk || jsonb_build_object('deliveries', CASE WHEN NOT is_over THEN last END);
    -- The delivery was the evidence of its key; what the window is counted from stays.
    UPDATE dedup_index AS k
       SET sent_at = d.sent_at
      FROM public.deliveries AS d
     WHERE k.delivery_id = ANY (old) AND d.delivery_id = k.delivery_id;
    -- What became of somebody in a campaign is told by their own row from now on.
    UPDATE campaign_recipients AS m
       SET state = 'settled', at = d.ended_at, provider_message_id = d.provider_message_id, unknowns = d.unknowns,
           outcome = CASE WHEN d.status = 'sent' THEN 'sent' WHEN d.reason = 'recipient_gone' THEN 'gone'
                          WHEN d.status = 'failed_permanent' THEN 'failed'
                          WHEN d.reason = 'cancelled' THEN 'cancelled' ELSE 'dead' END,
           code = CASE WHEN d.status = 'sent' THEN NULL WHEN d.status = 'dead' THEN d.reason
                       ELSE coalesce(d.last_error ->> 'code', d.reason) END
      FROM public.deliveries AS d
     WHERE d.delivery_id = ANY (old) AND d.campaign_id IS NOT NULL
       AND m.recipient_id = d.recipient_id AND m.campaign_id = d.campaign_id AND m.delivery_id = d.delivery_id
       AND m.state = 'queued';
    DELETE FROM attempts AS a WHERE a.delivery_id = ANY (old);
    DELETE FROM public.deliveries AS d WHERE d.delivery_id = ANY (old);
    GET DIAGNOSTICS deliveries = ROW_COUNT;

    -- By when it was last seen: what its source still shows would be new again, and published again.
    SELECT array_agg(l.message_id) FILTER (WHERE l.old), max(l.message_id),
           count(*) < "limit" OR max(l.created_at) >= today - keep_deliveries
      INTO old, last, is_over
      FROM (SELECT m.message_id, m.created_at,
                   m.created_at < today - keep_deliveries AND coalesce(m.last_seen_at < today - keep_deliveries, true)
                   AND NOT EXISTS (SELECT FROM public.deliveries AS d WHERE d.message_id = m.message_id)
                   AND NOT EXISTS (SELECT FROM campaign_variants AS c WHERE c.message_id = m.message_id) AS old
              FROM public.messages AS m
             WHERE (ws IS NULL OR m.workspace_id = ws) AND m.message_id > from_message
             ORDER BY m.message_id LIMIT "limit") AS l;
    next_walk := next_walk || jsonb_build_object('messages', CASE WHEN NOT is_over THEN last END);
    DELETE FROM public.messages AS m WHERE m.message_id = ANY (old);
    GET DIAGNOSTICS messages = ROW_COUNT;

    SELECT array_agg(l.delivery_id) FILTER (WHERE l.old), max(l.delivery_id),
           count(*) < "limit"
           OR coalesce(max(l.sent_at) >= today - rupor_span((SELECT min(c.dedup_ttl_us) FROM channels AS c)), false)
      INTO old, last, is_over
      FROM (SELECT i.delivery_id, i.sent_at,
                   i.sent_at < today - rupor_span((SELECT max(c.dedup_ttl_us) FROM channels AS c
                                                    WHERE c.workspace_id = i.workspace_id)) AS old
              FROM (SELECT k.delivery_id, k.workspace_id,
                           coalesce(k.sent_at, (SELECT d.sent_at FROM public.deliveries AS d
                                                 WHERE d.delivery_id = k.delivery_id)) AS sent_at
                      FROM dedup_index AS k
                     WHERE (ws IS NULL OR k.workspace_id = ws) AND k.delivery_id > from_key
                     ORDER BY k.delivery_id LIMIT "limit") AS i) AS l;
    next_walk := next_walk || jsonb_build_object('keys', CASE WHEN NOT is_over THEN last END);
    -- By delivery: not one that was taken again in this very moment.
    DELETE FROM dedup_index AS k WHERE k.delivery_id = ANY (old);
    GET DIAGNOSTICS dedup = ROW_COUNT;

    -- A case outlives its last message and every window in which it could be a key.
    SELECT array_agg(l.case_id) FILTER (WHERE l.old), max(l.case_id),
           count(*) < "limit" OR max(l.opened_at) >= today - keep_deliveries
      INTO old, last, is_over
      FROM (SELECT k.case_id, k.opened_at,
                   k.last_seen_at < today - keep_deliveries - rupor_span(coalesce(
                       (SELECT max(c.dedup_ttl_us) FROM channels AS c WHERE c.workspace_id = k.workspace_id), 0))
                   AND NOT EXISTS (SELECT FROM public.messages AS m
                                    WHERE m.workspace_id = k.workspace_id AND m.case_id = k.case_id) AS old
              FROM public.cases AS k
             WHERE (ws IS NULL OR k.workspace_id = ws) AND k.case_id > from_case
             ORDER BY k.case_id LIMIT "limit") AS l;
    next_walk := next_walk || jsonb_build_object('cases', CASE WHEN NOT is_over THEN last END);
    DELETE FROM public.cases AS k WHERE k.case_id = ANY (old);
    GET DIAGNOSTICS cases = ROW_COUNT;

    -- Of dialogues, idle, and nothing in the history points at them. One is opened again when the person comes back.
    SELECT array_agg(l.lane_id) FILTER (WHERE l.old), max(l.lane_id), count(*) < "limit"
      INTO old, last, is_over
      FROM (SELECT h.lane_id, h.served_at < today - keep_deliveries AND h.next_at = 'infinity' AS old
              FROM lane_heads AS h
             WHERE (ws IS NULL OR h.workspace_id = ws) AND h.lane_id > from_lane AND h.recipient_id IS NOT NULL
             ORDER BY h.lane_id LIMIT "limit") AS l;
    next_walk := next_walk || jsonb_build_object('lanes', CASE WHEN NOT is_over THEN last END);
    PERFORM rupor_lock_accounts(array(SELECT DISTINCT h.account_id FROM lane_heads AS h WHERE h.lane_id = ANY (old)));
    DELETE FROM lane_heads AS h
     WHERE h.lane_id = ANY (old) AND h.served_at < today - keep_deliveries AND h.next_at = 'infinity'
       AND NOT EXISTS (SELECT FROM ready AS r WHERE r.lane_id = h.lane_id)
       AND NOT EXISTS (SELECT FROM inflight AS i WHERE i.account_id = h.account_id AND i.lane_id = h.lane_id)
       AND NOT EXISTS (SELECT FROM public.deliveries AS d WHERE d.lane_id = h.lane_id);
    GET DIAGNOSTICS lanes = ROW_COUNT;

    case_keys := 0;
    place := nullif(walk -> 'case_keys', 'null');
    IF place IS NOT NULL THEN
        WITH seen AS MATERIALIZED (
            SELECT k.workspace_id, k.key, k.case_id, k.last_seen_at < today - keep_deliveries AS old
              FROM public.case_keys AS k
             WHERE (ws IS NULL OR k.workspace_id = ws)
               AND (k.workspace_id, k.key, k.case_id) > ((place ->> 0)::bigint, (place ->> 1)::bigint, (place ->> 2)::bigint)
             ORDER BY k.workspace_id, k.key, k.case_id LIMIT "limit"
        ), gone AS (
            DELETE FROM public.case_keys AS k USING seen AS s
             WHERE s.old AND k.workspace_id = s.workspace_id AND k.key = s.key AND k.case_id = s.case_id
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM gone),
               CASE WHEN count(*) = "limit"
                    THEN (array_agg(jsonb_build_array(s.workspace_id, s.key, s.case_id)
                                    ORDER BY s.workspace_id DESC, s.key DESC, s.case_id DESC))[1] END
          INTO n, place
          FROM seen AS s;
        case_keys := n;
        next_walk := next_walk || jsonb_build_object('case_keys', place);
    END IF;
    place := nullif(walk -> 'case_pictures', 'null');
    IF place IS NOT NULL THEN
        WITH seen AS MATERIALIZED (
            SELECT k.workspace_id, k.key, k.across, k.down, k.case_id, k.last_seen_at < today - keep_deliveries AS old
              FROM case_pictures AS k
             WHERE (ws IS NULL OR k.workspace_id = ws)
               AND (k.workspace_id, k.key, k.across, k.down, k.case_id)
                   > ((place ->> 0)::bigint, (place ->> 1)::bigint, (place ->> 2)::bigint, (place ->> 3)::bigint, (place ->> 4)::bigint)
             ORDER BY k.workspace_id, k.key, k.across, k.down, k.case_id LIMIT "limit"
        ), gone AS (
            DELETE FROM case_pictures AS k USING seen AS s
             WHERE s.old AND k.workspace_id = s.workspace_id AND k.key = s.key AND k.across = s.across AND k.down = s.down
               AND k.case_id = s.case_id
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM gone),
               CASE WHEN count(*) = "limit"
                    THEN (array_agg(jsonb_build_array(s.workspace_id, s.key, s.across, s.down, s.case_id)
                                    ORDER BY s.workspace_id DESC, s.key DESC, s.across DESC, s.down DESC, s.case_id DESC))[1] END
          INTO n, place
          FROM seen AS s;
        case_keys := case_keys + n;
        next_walk := next_walk || jsonb_build_object('case_pictures', place);
    END IF;

    -- Events and runs are never needed longer than others, so the oldest are always the first.
    DELETE FROM public.events AS e
     WHERE e.event_id = ANY (array(
               SELECT l.event_id
                 FROM (SELECT x.event_id, x.at FROM public.events AS x
                        WHERE ws IS NULL OR x.workspace_id = ws
                        ORDER BY x.event_id LIMIT "limit") AS l
                WHERE l.at < today - keep_events));
    GET DIAGNOSTICS events = ROW_COUNT;
    DELETE FROM ingest_runs AS r
     WHERE r.run_id = ANY (array(
               SELECT l.run_id
                 FROM (SELECT x.run_id, x.started_at FROM ingest_runs AS x
                        WHERE ws IS NULL OR x.workspace_id = ws
                        ORDER BY x.run_id LIMIT "limit") AS l
                WHERE l.started_at < today - keep_events));
    GET DIAGNOSTICS runs = ROW_COUNT;
    -- Bars as old as the oldest delivery, and never those that the board shows.
    DELETE FROM lane_counts AS c
     USING (SELECT x.lane_id, x.at FROM lane_counts AS x
             WHERE x.at < today - greatest(keep_deliveries, interval '2 days') AND (ws IS NULL OR x.workspace_id = ws)
             ORDER BY x.at LIMIT "limit") AS l
     WHERE c.lane_id = l.lane_id AND c.at = l.at;
END $$;
