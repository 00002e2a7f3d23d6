-- Messages and deliveries in, in one transaction: who hears it, and who has heard it already.
--
-- Two phases. The long one inserts rows that nobody else can see yet and holds no head. The short one locks the
-- heads, settles what met an earlier message, and moves the pointers; so a large batch never makes an account wait.

-- What can be refused without looking at the tables.
CREATE FUNCTION rupor_check_items(items jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    known CONSTANT text[] := '{source,origin_id,idempotency_key,request_hash,payload,content_hash,hash_version,fingerprint,
        kind,facts,facts_version,tags,origin,case_id,channels,priority,run_at,skipped}';
    bad   record;
BEGIN
    IF items IS NULL OR jsonb_typeof(items) <> 'array' THEN
        RAISE EXCEPTION 'enqueue: items must be a JSON array of messages' USING ERRCODE = 'RU004';
    ELSIF jsonb_array_length(items) > rupor_rule_enqueue_batch_max() THEN
        RAISE EXCEPTION 'enqueue: % messages in one call, at most %; split the batch', jsonb_array_length(items),
            rupor_rule_enqueue_batch_max()
            USING ERRCODE = 'RU004';
    END IF;
    SELECT i.value ->> 'source' AS source, i.value ->> 'origin_id' AS origin_id, p.problem INTO bad
      FROM jsonb_array_elements(items) WITH ORDINALITY AS i (value, ord)
     CROSS JOIN LATERAL (SELECT CASE
               WHEN jsonb_typeof(i.value) <> 'object' THEN 'a message is a JSON object'
               WHEN i.value - known <> '{}' THEN format('unknown field %s', (SELECT min(k) FROM jsonb_object_keys(i.value - known) AS k))
               WHEN coalesce(i.value ->> 'source', '') = '' OR coalesce(i.value ->> 'origin_id', '') = ''
                 OR coalesce(i.value ->> 'content_hash', '') = '' THEN 'source, origin_id and content_hash must not be empty'
               WHEN NOT i.value ? 'payload' THEN 'payload is missing'
               WHEN pg_column_size(i.value) > 262144 AND octet_length((i.value -> 'payload')::text) > 2 * rupor_rule_payload_bytes_max()
                    THEN format('payload of %s bytes, at most %s', octet_length((i.value -> 'payload')::text), rupor_rule_payload_bytes_max())
               WHEN jsonb_typeof(i.value -> 'channels') IS DISTINCT FROM 'array' THEN 'channels must be a list of ids'
               WHEN coalesce(i.value ->> 'priority', 'urgent') NOT IN ('urgent', 'bulk') THEN 'priority is urgent or bulk'
               END AS problem) AS p
     WHERE p.problem IS NOT NULL
     ORDER BY i.ord
     LIMIT 1;
    IF bad.problem IS NOT NULL THEN
        RAISE EXCEPTION 'enqueue: message %/%: %', bad.source, bad.origin_id, bad.problem USING ERRCODE = 'RU004';
    END IF;
END $$;

-- Takes messages with their channels and returns, in the same order, what became of each:
-- [{"message_id", "created", "deliveries": [{"delivery_id", "channel_id", "status"}], "skipped": [channel ids]}].
-- The same call again gives the same ids; the same key with another body raises and nothing is written.
CREATE FUNCTION enqueue_messages_and_deliveries(workspace_id bigint, items jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    ws        CONSTANT bigint := enqueue_messages_and_deliveries.workspace_id;
    at        timestamptz := rupor_now();
    -- messages, by their place in the call
    m_id      bigint[];
    m_made    boolean[];
    m_hash    text[];
BEGIN
    PERFORM rupor_guard(ws);
    PERFORM rupor_check_items(items);
    PERFORM FROM workspaces AS w WHERE w.workspace_id = ws;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'workspace % is not known', ws USING ERRCODE = 'RU001', DETAIL = 'workspace', HINT = ws::text;
    END IF;
    PERFORM rupor_require_cases(ws, items);

    -- -- phase one: rows of our own

    -- The ids are drawn in the order of the call, the rows go in by key, so that two callers meet in one order.
    SELECT array_agg(coalesce(i.value ->> 'request_hash', encode(sha256(convert_to(i.value::text, 'UTF8')), 'hex')) ORDER BY i.ord)
      INTO m_hash
      FROM jsonb_array_elements(items) WITH ORDINALITY AS i (value, ord);
    IF m_hash IS NULL THEN
        RETURN '[]';
    END IF;
    m_id := array(SELECT nextval('messages_message_id_seq') FROM generate_series(1, cardinality(m_hash)));
    WITH made AS (
        INSERT INTO messages (message_id, workspace_id, source, origin_id, idempotency_key, request_hash, payload,
                              content_hash, hash_version, fingerprint, kind, facts, facts_version, tags, origin, case_id,
                              skipped, last_seen_at, created_at)
        SELECT m_id[i.ord], ws, i.source, i.origin_id, i.idempotency_key, m_hash[i.ord], i.payload,
               i.content_hash, coalesce(i.hash_version, 1), i.fingerprint, coalesce(i.kind, 'other'),
               coalesce(i.facts, '{}'), coalesce(i.facts_version, 0), coalesce(i.tags, '[]'), coalesce(i.origin, '{}'),
               i.case_id, i.skipped, at, at
          FROM ROWS FROM (jsonb_to_recordset(items) AS (
                   source text, origin_id text, idempotency_key text, payload jsonb, content_hash text,
                   hash_version integer, fingerprint text, kind text, facts jsonb, facts_version integer, tags jsonb,
                   origin jsonb, case_id bigint, skipped text)) WITH ORDINALITY
               AS i (source, origin_id, idempotency_key, payload, content_hash, hash_version, fingerprint, kind, facts,
                     facts_version, tags, origin, case_id, skipped, ord)
         ORDER BY i.source, i.origin_id, i.ord
        ON CONFLICT DO NOTHING
        RETURNING message_id
    )
    SELECT CASE count(*) WHEN cardinality(m_id) THEN array_fill(true, ARRAY[cardinality(m_id)])
                ELSE rupor_among(m_id, array_agg(made.message_id)) END
      INTO m_made
      FROM made;
    IF NOT (true = ALL (m_made)) THEN
        -- Somebody was here before: another call (seen now, after waiting for it), or an earlier item of this one.
        SELECT array_agg(coalesce(known.message_id, w.message_id) ORDER BY w.ord) INTO m_id
          FROM unnest(m_id, m_made) WITH ORDINALITY AS w (message_id, made, ord)
          LEFT JOIN LATERAL rupor_known_message(ws, items -> (w.ord - 1)::integer, m_hash[w.ord]) AS known (message_id)
            ON NOT w.made;
        UPDATE messages AS m
           SET seen_count = m.seen_count + again.n, last_seen_at = at
          FROM (SELECT w.message_id, count(*) AS n
                  FROM unnest(m_id, m_made) AS w (message_id, made)
                 WHERE NOT w.made
                 GROUP BY w.message_id
                 ORDER BY w.message_id) AS again
         WHERE m.message_id = again.message_id;
    END IF;

    RETURN rupor_deliver(ws, at, items, m_id, m_made, true);
END $$;

-- Deliveries of messages that stand already, for those that are marked; the second half of the call above, and of
-- `deliver_message`, which runs under the same settings. fresh: the marked ones have no deliveries but those made here.
CREATE FUNCTION rupor_deliver(ws bigint, at timestamptz, items jsonb, m_id bigint[], m_made boolean[], fresh boolean)
RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- what the items say of when and how, by their place in the call
    m_bulk    boolean[];
    m_run_at  timestamptz[];
    -- new deliveries, in the order of their ids
    d_id      bigint[];
    d_ord     integer[];
    d_channel bigint[];
    d_account bigint[];
    d_lane    bigint[];
    d_ordered boolean[];
    d_key     text[];
    d_free    boolean[];
    accounts  bigint[];
    lanes     bigint[];
    n_wanted  bigint;
    answer    jsonb;
BEGIN
    PERFORM rupor_require_channels(ws, items, m_made);
    -- Who should hear the new ones. Channels an operator has disabled are not eligible.
    SELECT array_agg(t.ord), array_agg(t.channel_id), array_agg(t.account_id), array_agg(t.lane_id), array_agg(t.ordered),
           array_agg(t.key)
      INTO d_ord, d_channel, d_account, d_lane, d_ordered, d_key
      FROM (SELECT w.ord::integer, c.channel_id, h.account_id, h.lane_id, h.max_parallel = 1 AS ordered,
                   CASE rupor_dedup_mode(c.dedup, m.case_id)
                       WHEN 'content' THEN m.content_hash WHEN 'fingerprint' THEN m.fingerprint
                       WHEN 'case' THEN m.case_id::text END AS key
              FROM unnest(m_id, m_made) WITH ORDINALITY AS w (message_id, made, ord)
             CROSS JOIN LATERAL (SELECT x.* FROM messages AS x WHERE x.message_id = w.message_id OFFSET 0) AS m
             CROSS JOIN LATERAL (SELECT DISTINCT e::bigint AS channel_id
                                   FROM jsonb_array_elements_text(items -> (w.ord - 1)::integer -> 'channels') AS e) AS wanted
             -- Looked up one by one: a planner that thinks there is one channel would go through the batch for each.
             CROSS JOIN LATERAL (SELECT x.* FROM channels AS x
                                  WHERE x.workspace_id = ws AND x.channel_id = wanted.channel_id
                                    AND x.disabled_by IS DISTINCT FROM 'operator' OFFSET 0) AS c
             CROSS JOIN LATERAL (SELECT x.* FROM lane_heads AS x WHERE x.channel_id = c.channel_id OFFSET 0) AS h
             WHERE w.made
             -- once for all columns: an order inside each of them would be a sort for each
             ORDER BY w.ord, c.channel_id) AS t;

    IF d_ord IS NOT NULL THEN
        -- Taken out once: each look into an item copies it, and it may be large and have forty channels.
        SELECT array_agg(i.priority = 'bulk'), array_agg(greatest(at, rupor_time(i.run_at))), sum(jsonb_array_length(i.channels))
          INTO m_bulk, m_run_at, n_wanted
          FROM (SELECT r.*
                  FROM ROWS FROM (jsonb_to_recordset(items) AS (priority text, run_at jsonb, channels jsonb)) WITH ORDINALITY
                       AS r (priority, run_at, channels, ord)
                 ORDER BY r.ord) AS i;
        d_id := array(SELECT nextval('deliveries_delivery_id_seq') FROM generate_series(1, cardinality(d_ord)));
        -- The first of each key takes it if it is free; whom it meets is settled in phase two.
        WITH taken AS (
            INSERT INTO dedup_index (workspace_id, channel_id, mode, version, key, kind, delivery_id, first_origin, last_seen_at)
            SELECT DISTINCT ON (d.channel_id, mode, m.hash_version, d.key, kind)
                   ws, d.channel_id, rupor_dedup_mode(c.dedup, m.case_id) AS mode, m.hash_version, d.key,
                   CASE rupor_dedup_mode(c.dedup, m.case_id) WHEN 'content' THEN '' ELSE m.kind END AS kind,
                   d.delivery_id, m.origin, at
              FROM unnest(d_id, d_ord, d_channel, d_key) AS d (delivery_id, ord, channel_id, key)
             CROSS JOIN LATERAL (SELECT x.* FROM messages AS x WHERE x.message_id = m_id[d.ord] OFFSET 0) AS m
              JOIN channels AS c ON c.channel_id = d.channel_id
             WHERE d.key IS NOT NULL
             ORDER BY d.channel_id, mode, m.hash_version, d.key, kind, d.delivery_id
            ON CONFLICT DO NOTHING
            RETURNING delivery_id
        )
        SELECT CASE count(*) WHEN cardinality(d_id) THEN array_fill(true, ARRAY[cardinality(d_id)])
                    ELSE rupor_among(d_id, array_agg(taken.delivery_id)) END
          INTO d_free
          FROM taken;
        d_free := array(SELECT d.free OR d.key IS NULL FROM unnest(d_free, d_key) AS d (free, key));
        PERFORM rupor_put_deliveries(ws, at, m_id, m_bulk, m_run_at, d_id, d_ord, d_channel, d_account, d_lane, d_ordered,
                                     d_free, true);

        -- -- phase two: the heads

        accounts := array(SELECT DISTINCT a FROM unnest(d_account) AS a ORDER BY a);
        lanes := array(SELECT DISTINCT l FROM unnest(d_lane) AS l ORDER BY l);
        PERFORM FROM account_heads AS h WHERE h.account_id = ANY (accounts) ORDER BY h.account_id FOR NO KEY UPDATE;
        -- The channels as they are now that nobody can change them.
        PERFORM rupor_still_there(ws, d_channel);
        PERFORM rupor_reposition(h.lane_id, h.max_parallel = 1)
           FROM (SELECT DISTINCT d.lane_id, d.ordered FROM unnest(d_lane, d_ordered) AS d (lane_id, ordered)) AS d
           JOIN lane_heads AS h ON h.lane_id = d.lane_id
          WHERE (h.max_parallel = 1) <> d.ordered;
        IF NOT (true = ALL (d_free)) THEN
            d_free := rupor_take_keys(ws, at, m_id, d_id, d_ord, d_channel, d_key, d_free);
            PERFORM rupor_put_deliveries(ws, at, m_id, m_bulk, m_run_at, d_id, d_ord, d_channel, d_account, d_lane, d_ordered,
                                         d_free, false);
        END IF;
        UPDATE lane_heads AS h
           SET n_queued = h.n_queued + c.queued, n_deduped = h.n_deduped + c.deduped
          FROM (SELECT d.lane_id, count(*) FILTER (WHERE d.free) AS queued, count(*) FILTER (WHERE NOT d.free) AS deduped
                  FROM unnest(d_lane, d_free) AS d (lane_id, free)
                 GROUP BY d.lane_id) AS c
         WHERE h.lane_id = c.lane_id;
        PERFORM rupor_refresh_lanes(lanes);
        PERFORM rupor_refresh_accounts(accounts);
        -- Our own driver merges its wake-ups and switches this one off.
        IF coalesce(current_setting('rupor.quiet', true), '') <> 'on' THEN
            PERFORM pg_notify('rupor_ready', ws::text);
        END IF;
    END IF;

    PERFORM rupor_tell_enqueued(ws, at, items, m_id, m_made, d_id, d_ord, d_channel, d_free);
    IF fresh AND n_wanted = cardinality(d_id) AND true = ALL (m_made) THEN
        -- All was made here, and every channel that was named got one.
        SELECT jsonb_agg(jsonb_build_object('message_id', w.message_id, 'created', true, 'deliveries', coalesce(w.deliveries, '[]'),
                                            'skipped', '[]'::jsonb) ORDER BY w.ord)
          INTO answer
          FROM (SELECT u.ord, max(u.message_id) AS message_id,
                       jsonb_agg(jsonb_build_object('delivery_id', u.delivery_id, 'channel_id', u.channel_id,
                                                    'status', CASE WHEN u.free THEN 'queued' ELSE 'deduped' END)
                                 ORDER BY u.delivery_id) FILTER (WHERE u.delivery_id IS NOT NULL) AS deliveries
                  FROM (SELECT m.ord, m.message_id, NULL::bigint AS delivery_id, NULL::bigint AS channel_id, NULL::boolean AS free
                          FROM unnest(m_id) WITH ORDINALITY AS m (message_id, ord)
                        UNION ALL
                        SELECT d.ord, NULL, d.delivery_id, d.channel_id, d.free
                          FROM unnest(d_id, d_ord, d_channel, d_free) AS d (delivery_id, ord, channel_id, free)) AS u
                 GROUP BY u.ord) AS w;
        RETURN answer;
    END IF;
    -- What was made here is known; the tables are asked about the others alone, and about channels that got nothing.
    SELECT jsonb_agg(jsonb_build_object('message_id', w.message_id, 'created', w.made,
                                        'deliveries', coalesce(w.deliveries, s.deliveries, '[]'),
                                        'skipped', coalesce(k.skipped, '[]'))
                     ORDER BY w.ord)
      INTO answer
      FROM (SELECT u.ord, max(u.message_id) AS message_id, bool_or(u.made) AS made,
                   fresh AND bool_or(u.made) AS known, count(u.delivery_id) AS n,
                   CASE WHEN fresh THEN jsonb_agg(jsonb_build_object('delivery_id', u.delivery_id, 'channel_id', u.channel_id,
                                                                     'status', CASE WHEN u.free THEN 'queued' ELSE 'deduped' END)
                                                  ORDER BY u.delivery_id) FILTER (WHERE u.delivery_id IS NOT NULL) END AS deliveries
              FROM (SELECT m.ord, m.message_id, m.made, NULL::bigint AS delivery_id, NULL::bigint AS channel_id, NULL::boolean AS free
                      FROM unnest(m_id, m_made) WITH ORDINALITY AS m (message_id, made, ord)
                    UNION ALL
                    SELECT d.ord, NULL, NULL, d.delivery_id, d.channel_id, d.free
                      FROM unnest(d_id, d_ord, d_channel, d_free) AS d (delivery_id, ord, channel_id, free)) AS u
             GROUP BY u.ord) AS w
      LEFT JOIN LATERAL (SELECT jsonb_agg(jsonb_build_object('delivery_id', d.delivery_id, 'channel_id', d.channel_id,
                                                             'status', d.status) ORDER BY d.delivery_id) AS deliveries
                           FROM deliveries AS d
                          WHERE NOT w.known AND d.message_id = w.message_id AND d.action = 'send' AND d.generation = 0
                            AND d.channel_id IS NOT NULL) AS s ON true
      LEFT JOIN LATERAL (SELECT jsonb_agg(e.channel ORDER BY e.channel) AS skipped
                           FROM (SELECT DISTINCT c::bigint AS channel
                                   FROM jsonb_array_elements_text(items -> (w.ord - 1)::integer -> 'channels') AS c
                                  WHERE NOT w.known OR w.n <> jsonb_array_length(items -> (w.ord - 1)::integer -> 'channels')) AS e
                          WHERE NOT EXISTS (SELECT FROM deliveries AS d
                                             WHERE d.message_id = w.message_id AND d.channel_id = e.channel
                                               AND d.action = 'send' AND d.generation = 0)) AS k ON true;
    RETURN answer;
END $$;

-- The channels of the marked items. A repeat asks for nothing new: it may name a channel that is gone since.
CREATE FUNCTION rupor_require_channels(ws bigint, items jsonb, made boolean[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    missing bigint;
BEGIN
    SELECT wanted.channel_id INTO missing
      FROM (SELECT DISTINCT e::bigint AS channel_id
              FROM jsonb_array_elements(items) WITH ORDINALITY AS i (value, ord)
             CROSS JOIN LATERAL jsonb_array_elements_text(i.value -> 'channels') AS e
             WHERE made[i.ord]) AS wanted
      LEFT JOIN channels AS c
        ON c.workspace_id = ws AND c.channel_id = wanted.channel_id AND c.removed_at IS NULL
     WHERE c.channel_id IS NULL
     ORDER BY wanted.channel_id
     LIMIT 1;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'channel % is not known in this workspace', missing
            USING ERRCODE = 'RU001', DETAIL = 'channel', HINT = missing::text;
    END IF;
END $$;

-- The channels of deliveries that were made a moment ago.
CREATE FUNCTION rupor_still_there(ws bigint, channel_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    missing bigint;
BEGIN
    SELECT w.channel_id INTO missing
      FROM (SELECT DISTINCT u.channel_id FROM unnest(channel_ids) AS u (channel_id)) AS w
     WHERE NOT EXISTS (SELECT FROM channels AS c
                        WHERE c.workspace_id = ws AND c.channel_id = w.channel_id AND c.removed_at IS NULL)
     ORDER BY w.channel_id
     LIMIT 1;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'channel % is not known in this workspace', missing
            USING ERRCODE = 'RU001', DETAIL = 'channel', HINT = missing::text;
    END IF;
END $$;

CREATE FUNCTION rupor_require_cases(ws bigint, items jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    missing bigint;
BEGIN
    SELECT wanted.case_id INTO missing
      FROM (SELECT DISTINCT (i ->> 'case_id')::bigint AS case_id
              FROM jsonb_array_elements(items) AS i
             WHERE i ->> 'case_id' IS NOT NULL) AS wanted
     WHERE NOT EXISTS (SELECT FROM cases AS c WHERE c.workspace_id = ws AND c.case_id = wanted.case_id)
     ORDER BY wanted.case_id
     LIMIT 1;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'case % is not known in this workspace', missing
            USING ERRCODE = 'RU001', DETAIL = 'case', HINT = missing::text;
    END IF;
END $$;

-- The message that an item repeats; the same key with another body is an error.
CREATE FUNCTION rupor_known_message(ws bigint, item jsonb, hash text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    found_id   bigint;
    found_hash text;
    n          integer;
BEGIN
    SELECT min(f.message_id), min(f.request_hash), count(*) INTO found_id, found_hash, n
      FROM (SELECT m.message_id, m.request_hash FROM messages AS m
             WHERE m.workspace_id = ws AND m.source = item ->> 'source' AND m.origin_id = item ->> 'origin_id'
            UNION
            SELECT m.message_id, m.request_hash FROM messages AS m
             WHERE m.workspace_id = ws AND m.idempotency_key = item ->> 'idempotency_key') AS f;
    IF n = 0 THEN
        RAISE EXCEPTION 'enqueue: a message of the same key vanished' USING ERRCODE = 'serialization_failure';
    ELSIF n > 1 OR found_hash <> hash THEN
        RAISE EXCEPTION 'key % was used before with another body',
            coalesce(item ->> 'idempotency_key', concat(item ->> 'source', '/', item ->> 'origin_id'))
            USING ERRCODE = 'RU002',
                  DETAIL = coalesce(item ->> 'idempotency_key', concat(item ->> 'source', '/', item ->> 'origin_id'));
    END IF;
    RETURN found_id;
END $$;

-- What met a key that was there before: free again when its window is over, else a repeat, which is counted but
-- never prolongs the window. The caller holds the accounts, so nobody else moves these keys.
CREATE FUNCTION rupor_take_keys(
    ws bigint, at timestamptz, m_id bigint[], d_id bigint[], d_ord integer[], d_channel bigint[], d_key text[], d_free boolean[]
) RETURNS boolean[]
LANGUAGE plpgsql AS $$
DECLARE
    taken  bigint[];
    n_met  integer;
    n_seen integer;
BEGIN
    WITH met AS MATERIALIZED (
        SELECT d.delivery_id, d.channel_id, rupor_dedup_mode(c.dedup, m.case_id) AS mode, m.hash_version AS version, d.key,
               CASE rupor_dedup_mode(c.dedup, m.case_id) WHEN 'content' THEN '' ELSE m.kind END AS kind, m.origin,
               at - rupor_span(c.dedup_ttl_us) AS free_before
          FROM unnest(d_id, d_ord, d_channel, d_key, d_free) AS d (delivery_id, ord, channel_id, key, free)
         CROSS JOIN LATERAL (SELECT x.* FROM messages AS x WHERE x.message_id = m_id[d.ord] OFFSET 0) AS m
          JOIN channels AS c ON c.channel_id = d.channel_id
         WHERE NOT d.free
    ), first AS (
        SELECT DISTINCT ON (channel_id, mode, version, key, kind)
               met.*, count(*) OVER (PARTITION BY channel_id, mode, version, key, kind) AS n
          FROM met
         ORDER BY channel_id, mode, version, key, kind, delivery_id
    ), moved AS (
        UPDATE dedup_index AS k
           SET delivery_id = CASE WHEN again.yes THEN f.delivery_id ELSE k.delivery_id END,
               first_origin = CASE WHEN again.yes THEN f.origin ELSE k.first_origin END,
               sent_at = CASE WHEN again.yes THEN NULL ELSE k.sent_at END,
               count = CASE WHEN again.yes THEN f.n ELSE k.count + f.n END,
               last_seen_at = at
          FROM first AS f
         -- NULL while it is on its way: not free
         CROSS JOIN LATERAL (SELECT coalesce(o.sent_at, (SELECT d.sent_at FROM deliveries AS d WHERE d.delivery_id = o.delivery_id))
                                    <= f.free_before AS yes
                               FROM dedup_index AS o
                              WHERE o.workspace_id = ws AND o.channel_id = f.channel_id AND o.mode = f.mode
                                AND o.version = f.version AND o.key = f.key AND o.kind = f.kind) AS again
         WHERE k.workspace_id = ws AND k.channel_id = f.channel_id AND k.mode = f.mode AND k.version = f.version
           AND k.key = f.key AND k.kind = f.kind
        RETURNING k.delivery_id
    )
    SELECT (SELECT array_agg(moved.delivery_id) FROM moved), (SELECT count(*) FROM first), (SELECT count(*) FROM moved)
      INTO taken, n_met, n_seen;
    IF n_seen < n_met THEN
        -- Its owner failed in this very moment and gave the key back: start over.
        RAISE EXCEPTION 'enqueue: a key became free while we looked' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN array(SELECT d.free OR d.taken FROM unnest(d_free, rupor_among(d_id, taken)) AS d (free, taken));
END $$;

-- News and ads belong to no case: where cases are counted, they are known by their words.
CREATE FUNCTION rupor_dedup_mode(dedup text, case_id bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN dedup = 'case' AND case_id IS NULL THEN 'content' ELSE dedup END
$$;

-- Writes deliveries and their places in the queue: first those whose way is free, later the rest.
CREATE FUNCTION rupor_put_deliveries(
    ws bigint, at timestamptz, m_id bigint[], m_bulk boolean[], m_run_at timestamptz[], d_id bigint[], d_ord integer[],
    d_channel bigint[], d_account bigint[], d_lane bigint[], d_ordered boolean[], d_free boolean[], early boolean
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH put AS (
        INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, revision, priority, status,
                                reason, run_at, position, expires_at, idempotency_key, queued_at, ended_at)
        SELECT d.delivery_id, ws, d.lane_id, d.account_id, d.channel_id, m_id[d.ord], m.revision,
               CASE WHEN m_bulk[d.ord] THEN 1 ELSE 0 END,
               CASE WHEN d.free THEN 'queued' ELSE 'deduped' END,
               CASE WHEN NOT d.free THEN 'duplicate' END,
               CASE WHEN d.free THEN m_run_at[d.ord] END,
               CASE WHEN NOT d.free THEN NULL WHEN d.ordered THEN d.delivery_id ELSE rupor_micros(m_run_at[d.ord]) END,
               at + rupor_span(c.max_age_us),
               rupor_key((SELECT k.history FROM control AS k), d.delivery_id, m.request_hash, m.content_hash, m.revision),
               at, CASE WHEN NOT d.free THEN at END
          FROM unnest(d_id, d_ord, d_channel, d_account, d_lane, d_ordered, d_free)
               AS d (delivery_id, ord, channel_id, account_id, lane_id, ordered, free)
         CROSS JOIN LATERAL (SELECT x.request_hash, x.content_hash, x.revision FROM messages AS x
                              WHERE x.message_id = m_id[d.ord] OFFSET 0) AS m
          JOIN channels AS c ON c.channel_id = d.channel_id
         WHERE CASE WHEN early THEN d.free
                    ELSE NOT EXISTS (SELECT FROM deliveries AS there WHERE there.delivery_id = d.delivery_id) END
         ORDER BY d.delivery_id
        RETURNING delivery_id, lane_id, priority, position, run_at, expires_at
    )
    INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at, expires_at)
    SELECT p.lane_id, p.priority, p.position, p.delivery_id, ws, p.run_at, p.expires_at
      FROM put AS p
     WHERE p.run_at IS NOT NULL;
END $$;

CREATE FUNCTION rupor_tell_enqueued(
    ws bigint, at timestamptz, items jsonb, m_id bigint[], m_made boolean[], d_id bigint[], d_ord integer[],
    d_channel bigint[], d_free boolean[]
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, detail)
    SELECT ws, rupor_tell_enqueued.at, e.name, m_id[e.ord], e.delivery_id, e.channel_id, e.detail
      FROM (SELECT d.ord, d.channel_id, 0 AS last, 'deduped' AS name, d.delivery_id, '{}'::jsonb AS detail
              FROM unnest(d_id, d_ord, d_channel, d_free) AS d (delivery_id, ord, channel_id, free)
             WHERE NOT d.free
            UNION ALL
            SELECT w.ord, c.channel_id, 0, 'ingest_skipped', NULL,
                   '{"why": "the channel is disabled by an operator"}'
              FROM unnest(m_made) WITH ORDINALITY AS w (made, ord)
             CROSS JOIN LATERAL (SELECT DISTINCT e::bigint AS channel_id
                                   FROM jsonb_array_elements_text(items -> (w.ord - 1)::integer -> 'channels') AS e) AS wanted
              JOIN channels AS c ON c.workspace_id = ws AND c.channel_id = wanted.channel_id
             WHERE w.made AND c.disabled_by = 'operator'
            UNION ALL
            SELECT n.ord, NULL, 1, 'enqueued', NULL,
                   jsonb_build_object('deliveries', count(n.free), 'deduped', count(*) FILTER (WHERE NOT n.free))
              FROM (SELECT w.ord, NULL::boolean AS free FROM unnest(m_made) WITH ORDINALITY AS w (made, ord) WHERE w.made
                    UNION ALL
                    SELECT d.ord, d.free FROM unnest(d_ord, d_free) AS d (ord, free)) AS n
             GROUP BY n.ord) AS e
     ORDER BY e.ord, e.last, e.channel_id;
END $$;
