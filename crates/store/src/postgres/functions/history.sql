-- Keys that no other database repeats, and what is written again after commits were lost.

-- The key that platforms recognise repeats by: this history of this database, the delivery, the words it stands for.
-- STABLE, though it never changes: its parts are marked so, and only then is it inlined. A hash of a few characters that
-- nobody has to withstand, so the quickest one: it is worked out for every delivery.
CREATE FUNCTION rupor_key(history text, id bigint, request_hash text, content_hash text, revision integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT concat(history, '.', id, '.',
                  to_hex(hashtextextended(concat(request_hash, '/', content_hash, '/', revision), 0) & 281474976710655))
$$;

-- Successes that a node remembers, offered again after commits were lost. Each item: {"workspace_id", "delivery_id",
-- "idempotency_key", "provider_message_id"?, "parts": {"0": …}}. The key tells the delivery from another one that was
-- given its id. In order: known, adopted, gone, or elsewhere (it ended another way). A claim that somebody holds ends with it:
-- readers have seen it, so he must not send it.
CREATE FUNCTION replay_outcomes(items jsonb) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := rupor_now();
    item     jsonb;
    d        record;
    held     inflight;
    lanes    bigint[] := '{}';
    accounts bigint[];
BEGIN
    PERFORM rupor_guard(NULL);
    accounts := array(
        SELECT DISTINCT x.account_id
          FROM jsonb_array_elements(items) AS i
          JOIN deliveries AS x ON x.delivery_id = (i ->> 'delivery_id')::bigint);
    PERFORM rupor_lock_accounts(accounts);
    FOR item IN SELECT i.value FROM jsonb_array_elements(items) WITH ORDINALITY AS i (value, ord) ORDER BY i.ord LOOP
        SELECT x.delivery_id, x.workspace_id, x.message_id, x.channel_id, x.lane_id, x.account_id, x.status INTO d
          FROM deliveries AS x
         WHERE x.delivery_id = (item ->> 'delivery_id')::bigint AND x.workspace_id = (item ->> 'workspace_id')::bigint
           AND x.idempotency_key = item ->> 'idempotency_key';
        IF d.delivery_id IS NULL THEN
            RETURN NEXT 'gone';
        ELSIF d.status = 'sent' THEN
            RETURN NEXT 'known';
        ELSIF d.status NOT IN ('queued', 'retry', 'sending') THEN
            RETURN NEXT 'elsewhere';
        ELSE
            IF d.status = 'sending' THEN
                SELECT i.* INTO STRICT held
                  FROM inflight AS i
                 WHERE i.account_id = d.account_id AND i.lane_id = d.lane_id AND i.delivery_id = d.delivery_id;
                PERFORM rupor_end_claim(held, 'sent', NULL, item ->> 'provider_message_id', NULL, NULL, 0, at);
            ELSE
                PERFORM rupor_adopt(d.delivery_id, item ->> 'provider_message_id', at);
            END IF;
            UPDATE deliveries AS x
               SET parts = coalesce(rupor_merge_parts(x.parts, item -> 'parts'), x.parts)
             WHERE x.delivery_id = d.delivery_id;
            INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, detail)
            VALUES (d.workspace_id, at, 'late_success', d.message_id, d.delivery_id, d.channel_id,
                    jsonb_build_object('adopted', true, 'remembered', true,
                                       'provider_message_id', item ->> 'provider_message_id'));
            lanes := lanes || d.lane_id;
            RETURN NEXT 'adopted';
        END IF;
    END LOOP;
    PERFORM rupor_refresh_lanes(array(SELECT DISTINCT l FROM unnest(lanes) AS l ORDER BY l));
    PERFORM rupor_refresh_accounts(accounts);
END $$;
