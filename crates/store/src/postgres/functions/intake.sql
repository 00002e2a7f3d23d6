-- What a known post changes: its revision, its follow-ups, the channels that hear it now.
-- Unlike SQLite the rest of an intake (which case, which post) is told by Rust in the same transaction (intake.rs).

-- A message whose source changed it: a new revision with the new words. What still waits takes it.
CREATE FUNCTION revise_message(workspace_id bigint, message_id bigint, item jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_at integer;
BEGIN
    PERFORM rupor_guard(revise_message.workspace_id);
    UPDATE messages AS m
       SET payload = coalesce(item -> 'payload', m.payload),
           content_hash = coalesce(item ->> 'content_hash', m.content_hash),
           fingerprint = CASE WHEN item ? 'content_hash' THEN item ->> 'fingerprint' ELSE m.fingerprint END,
           kind = coalesce(item ->> 'kind', m.kind),
           facts = coalesce(item -> 'facts', m.facts),
           tags = coalesce(item -> 'tags', m.tags),
           origin = coalesce(item -> 'origin', m.origin),
           case_id = coalesce((item ->> 'case_id')::bigint, m.case_id),
           skipped = CASE WHEN item ? 'content_hash' THEN item ->> 'skipped' ELSE m.skipped END,
           revision = m.revision + 1, seen_count = m.seen_count + (item ? 'content_hash')::integer,
           last_seen_at = rupor_now(), gone_at = NULL
     WHERE m.workspace_id = revise_message.workspace_id AND m.message_id = revise_message.message_id
    RETURNING m.revision INTO now_at;
    IF now_at IS NULL THEN
        RETURN NULL;
    END IF;
    -- An edit that was half done begins again: the parts it has changed say the words before. Of several edits that wait the
    -- last one takes the number; whichever is sent brings the words of its time.
    UPDATE deliveries AS d
       SET revision = CASE WHEN EXISTS (SELECT FROM deliveries AS later
                                         WHERE later.message_id = d.message_id AND later.channel_id = d.channel_id
                                           AND later.action = d.action AND later.generation = d.generation
                                           AND later.delivery_id > d.delivery_id)
                           THEN d.revision ELSE now_at END,
           parts = CASE WHEN d.action = 'edit' THEN '[]' ELSE d.parts END
     WHERE d.workspace_id = revise_message.workspace_id AND d.message_id = revise_message.message_id
       AND d.channel_id IS NOT NULL AND d.status IN ('queued', 'retry');
    RETURN now_at;
END $$;

-- Deliveries that follow what was said: an edit of it, or an answer to it. They repeat nothing, so no key is taken.
-- Items: {"message_id", "channel_id", "revision", "action", "target_delivery"}; ids in order, null where there was one.
CREATE FUNCTION follow_up(workspace_id bigint, items jsonb) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws     CONSTANT bigint := follow_up.workspace_id;
    at     timestamptz := rupor_now();
    item   jsonb;
    head   record;
    made   bigint;
    answer bigint[] := '{}';
BEGIN
    PERFORM rupor_guard(ws);
    PERFORM rupor_lock_accounts(array(
        SELECT DISTINCT h.account_id
          FROM jsonb_array_elements(items) AS i
          JOIN lane_heads AS h ON h.workspace_id = ws AND h.channel_id = (i ->> 'channel_id')::bigint));
    -- What is edited or answered was said in this workspace and in that channel, about that message.
    PERFORM FROM jsonb_array_elements(items) AS i
      WHERE NOT EXISTS (SELECT FROM deliveries AS d
                         WHERE d.workspace_id = ws AND d.delivery_id = (i ->> 'target_delivery')::bigint
                           AND d.channel_id = (i ->> 'channel_id')::bigint)
         OR NOT EXISTS (SELECT FROM messages AS m
                         WHERE m.workspace_id = ws AND m.message_id = (i ->> 'message_id')::bigint);
    IF FOUND THEN
        RAISE EXCEPTION 'follow-up: a message or a delivery is not known in this workspace and channel'
            USING ERRCODE = 'RU004';
    END IF;
    FOR item IN SELECT i.value FROM jsonb_array_elements(items) WITH ORDINALITY AS i (value, ord) ORDER BY i.ord LOOP
        SELECT h.lane_id, h.account_id, h.max_parallel = 1 AS ordered INTO head
          FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
         WHERE c.workspace_id = ws AND c.channel_id = (item ->> 'channel_id')::bigint AND c.removed_at IS NULL;
        made := NULL;
        IF head.lane_id IS NOT NULL THEN
            made := nextval('deliveries_delivery_id_seq');
            INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, channel_id, message_id, revision, action,
                                    target_delivery, status, run_at, position, idempotency_key, queued_at)
            VALUES (made, ws, head.lane_id, head.account_id, (item ->> 'channel_id')::bigint, (item ->> 'message_id')::bigint,
                    (item ->> 'revision')::integer, item ->> 'action', (item ->> 'target_delivery')::bigint, 'queued', at,
                    CASE WHEN head.ordered THEN made ELSE rupor_micros(at) END,
                    (SELECT rupor_key(k.history, made, m.request_hash, m.content_hash, m.revision)
                       FROM control AS k CROSS JOIN messages AS m WHERE m.message_id = (item ->> 'message_id')::bigint),
                    at)
            ON CONFLICT DO NOTHING
            RETURNING delivery_id INTO made;
        END IF;
        IF made IS NOT NULL THEN
            INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at)
            SELECT d.lane_id, d.priority, d.position, d.delivery_id, ws, d.run_at FROM deliveries AS d WHERE d.delivery_id = made;
            UPDATE lane_heads AS h SET n_queued = h.n_queued + 1 WHERE h.lane_id = head.lane_id;
            PERFORM rupor_refresh_lanes(ARRAY[head.lane_id]);
            PERFORM rupor_refresh_accounts(ARRAY[head.account_id]);
        END IF;
        answer := answer || made;
    END LOOP;
    RETURN answer;
END $$;

-- A post that its source does not show any more: what waits is cancelled, and a copy that kept silent because of it is said
-- instead; what was said is deleted where the channel wants it (`on_gone`). False if it was known to be gone, or not known at all.
CREATE FUNCTION post_gone(workspace_id bigint, source text, origin_id text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws      CONSTANT bigint := post_gone.workspace_id;
    gone    record;
    waiting bigint[];
    silent  bigint[];
    ended   boolean[];
    deletes jsonb;
    n_ended integer := 0;
    n_made  integer := 0;
BEGIN
    PERFORM rupor_guard(ws);
    PERFORM lock_workspace(ws);
    UPDATE messages AS m
       SET gone_at = rupor_now()
     WHERE m.workspace_id = ws AND m.source = post_gone.source AND m.origin_id = post_gone.origin_id AND m.gone_at IS NULL
    RETURNING m.message_id, m.revision INTO gone;
    IF gone.message_id IS NULL THEN
        RETURN false;
    END IF;
    -- What fails from now on sees that its source is gone, and what failed before stands here.
    PERFORM rupor_lock_accounts(array(SELECT DISTINCT d.account_id FROM deliveries AS d WHERE d.message_id = gone.message_id));
    SELECT array_agg(d.delivery_id ORDER BY d.delivery_id) FILTER (WHERE d.status IN ('queued', 'retry') AND d.parts = '[]' AND d.unknowns = 0),
           jsonb_agg(jsonb_build_object('message_id', d.message_id, 'channel_id', d.channel_id, 'revision', gone.revision,
                                        'action', 'delete', 'target_delivery', d.delivery_id) ORDER BY d.delivery_id)
               FILTER (WHERE c.settings ->> 'on_gone' = 'delete'
                               AND (d.status IN ('claimed', 'sending', 'sent')
                                    OR d.status IN ('queued', 'retry') AND (d.parts <> '[]' OR d.unknowns > 0)))
      INTO waiting, deletes
      FROM deliveries AS d JOIN channels AS c ON c.channel_id = d.channel_id
     WHERE d.message_id = gone.message_id AND d.action = 'send' AND c.removed_at IS NULL;
    IF waiting IS NOT NULL THEN
        silent := array(SELECT rupor_silent_copy(w.id) FROM unnest(waiting) WITH ORDINALITY AS w (id, ord) ORDER BY w.ord);
        ended := cancel_deliveries(ws, waiting);
        n_ended := (SELECT count(*) FROM unnest(ended) AS e (done) WHERE e.done);
        FOR n IN 1 .. cardinality(silent) LOOP
            CONTINUE WHEN silent[n] IS NULL OR NOT ended[n];
            PERFORM rupor_next_generation(
                silent[n], jsonb_build_object('parent', silent[n], 'instead_of', waiting[n]), rupor_now());
            PERFORM rupor_refresh_lanes(ARRAY[d.lane_id]), rupor_refresh_accounts(ARRAY[d.account_id])
               FROM deliveries AS d WHERE d.delivery_id = silent[n];
        END LOOP;
    END IF;
    IF deletes IS NOT NULL THEN
        n_made := (SELECT count(f.id) FROM unnest(follow_up(ws, deletes)) AS f (id));
    END IF;
    UPDATE held_posts AS h
       SET decision = 'withdrawn', decided_at = rupor_now()
     WHERE h.workspace_id = ws AND h.message_id = gone.message_id AND h.decision IS NULL;
    INSERT INTO events (workspace_id, at, name, message_id, detail)
    VALUES (ws, rupor_now(), 'gone', gone.message_id,
            jsonb_build_object('source', post_gone.source, 'origin_id', post_gone.origin_id,
                               'cancelled', n_ended, 'deleted', n_made));
    RETURN true;
END $$;

-- A known message to channels that did not have it yet: its new words made it theirs.
CREATE FUNCTION deliver_message(workspace_id bigint, message_id bigint, item jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    items CONSTANT jsonb := jsonb_build_array(item);
BEGIN
    PERFORM rupor_guard(deliver_message.workspace_id);
    PERFORM rupor_require_cases(deliver_message.workspace_id, items);
    PERFORM FROM messages AS m
      WHERE m.workspace_id = deliver_message.workspace_id AND m.message_id = deliver_message.message_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'message % is not known in this workspace', deliver_message.message_id USING ERRCODE = 'RU004';
    END IF;
    RETURN rupor_deliver(deliver_message.workspace_id, rupor_now(), items, ARRAY[deliver_message.message_id], ARRAY[true],
                         false) -> 0;
END $$;
