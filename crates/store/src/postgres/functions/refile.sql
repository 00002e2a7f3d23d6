-- Cases put right by a person: what moves the queue. The rest is told by Rust in the same transaction (refile.rs).

-- Posts have moved from one case to another: what they hold in channels that count cases goes with them. A waiting repeat is
-- ended; if the old case has posts left, those that kept silent for the wrong story are said. The caller has locked the queue.
CREATE FUNCTION refile_keys(workspace_id bigint, message_ids bigint[], from_case bigint, into_case bigint) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws      CONSTANT bigint := refile_keys.workspace_id;
    at      CONSTANT timestamptz := rupor_now();
    whole   CONSTANT boolean := NOT EXISTS (SELECT FROM messages AS m WHERE m.workspace_id = ws AND m.case_id = from_case);
    held    record;
    there   record;
    silent  record;
    repeats bigint[] := '{}';
    freed   jsonb[] := '{}';
    n_ended integer := 0;
    n_said  integer := 0;
BEGIN
    PERFORM rupor_guard(ws);
    FOR held IN
        SELECT k.channel_id, k.version, k.kind, k.delivery_id, d.message_id,
               coalesce(d.status IN ('queued', 'retry') AND d.parts = '[]' AND d.unknowns = 0, false) AS waits
          FROM channels AS c
         CROSS JOIN (SELECT DISTINCT m.hash_version AS version FROM messages AS m
                      WHERE m.workspace_id = ws AND m.message_id = ANY (message_ids)) AS v
          JOIN dedup_index AS k ON k.workspace_id = c.workspace_id AND k.channel_id = c.channel_id AND k.mode = 'case'
                               AND k.version = v.version AND k.key = from_case::text
          LEFT JOIN deliveries AS d ON d.delivery_id = k.delivery_id
         WHERE c.workspace_id = ws
         ORDER BY k.channel_id, k.version, k.kind
    LOOP
        CONTINUE WHEN NOT whole AND NOT coalesce(held.message_id = ANY (message_ids), false);
        SELECT k.delivery_id,
               coalesce(d.status IN ('queued', 'retry') AND d.parts = '[]' AND d.unknowns = 0, false) AS waits INTO there
          FROM dedup_index AS k LEFT JOIN deliveries AS d ON d.delivery_id = k.delivery_id
         WHERE k.workspace_id = ws AND k.channel_id = held.channel_id AND k.mode = 'case' AND k.version = held.version
           AND k.key = into_case::text AND k.kind = held.kind;
        IF there.delivery_id IS NOT NULL AND held.waits THEN
            repeats := repeats || held.delivery_id;
        ELSIF there.delivery_id IS NOT NULL AND NOT there.waits THEN
            -- Both were said: the one that the case had is the one that repeats are measured by.
            DELETE FROM dedup_index AS k WHERE k.delivery_id = held.delivery_id;
        ELSE
            IF there.delivery_id IS NOT NULL THEN
                repeats := repeats || there.delivery_id;
                DELETE FROM dedup_index AS k WHERE k.delivery_id = there.delivery_id;
            END IF;
            UPDATE dedup_index AS k SET key = into_case::text WHERE k.delivery_id = held.delivery_id;
        END IF;
        freed := freed || jsonb_build_array(held.channel_id, held.kind);
    END LOOP;
    IF cardinality(repeats) > 0 THEN
        n_ended := (SELECT count(*) FROM unnest(cancel_deliveries(ws, repeats)) AS e (done) WHERE e.done);
    END IF;
    IF NOT whole THEN
        -- Joined and split again: each has a key of its own once more. What was sent comes first.
        INSERT INTO dedup_index (workspace_id, channel_id, mode, version, key, kind, delivery_id, first_origin, last_seen_at)
        SELECT DISTINCT ON (d.channel_id, m.hash_version, m.case_id, m.kind)
               ws, d.channel_id, 'case', m.hash_version, m.case_id::text, m.kind, d.delivery_id, m.origin, at
          FROM messages AS m
          JOIN deliveries AS d ON d.message_id = m.message_id
          JOIN channels AS c ON c.channel_id = d.channel_id
         WHERE m.workspace_id = ws AND m.case_id IN (into_case, from_case) AND d.action = 'send' AND c.dedup = 'case'
           AND c.removed_at IS NULL AND d.status IN ('queued', 'retry', 'claimed', 'sending', 'sent')
         ORDER BY d.channel_id, m.hash_version, m.case_id, m.kind, d.sent_at IS NULL, d.delivery_id
        ON CONFLICT DO NOTHING;
        FOR silent IN
            SELECT min(d.delivery_id) AS delivery_id, d.lane_id, d.account_id
              FROM messages AS m
              JOIN cases AS s ON s.workspace_id = m.workspace_id AND s.case_id = m.case_id
              JOIN deliveries AS d ON d.message_id = m.message_id
              JOIN channels AS c ON c.channel_id = d.channel_id
             WHERE m.workspace_id = ws AND m.gone_at IS NULL AND m.skipped IS NULL
               AND (m.case_id = into_case
                    OR m.case_id = from_case AND jsonb_build_array(d.channel_id, m.kind) = ANY (freed))
               AND (s.closed_at IS NULL OR m.kind NOT IN ('lost', 'found', 'sighting'))
               AND d.status = 'deduped' AND d.action = 'send' AND (d.expires_at IS NULL OR d.expires_at > at)
               AND c.dedup = 'case' AND c.removed_at IS NULL AND c.disabled_by IS DISTINCT FROM 'operator'
               AND NOT EXISTS (SELECT FROM deliveries AS n
                                WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = 'send'
                                  AND n.generation > d.generation)
               AND NOT EXISTS (SELECT FROM dedup_index AS k
                                WHERE k.workspace_id = ws AND k.channel_id = d.channel_id AND k.mode = 'case'
                                  AND k.version = m.hash_version AND k.key = m.case_id::text AND k.kind = m.kind)
             GROUP BY m.case_id, d.channel_id, m.kind, d.lane_id, d.account_id
             ORDER BY 1
        LOOP
            PERFORM rupor_next_generation(
                silent.delivery_id, jsonb_build_object('parent', silent.delivery_id, 'split_from', from_case), at);
            PERFORM rupor_refresh_lanes(ARRAY[silent.lane_id]), rupor_refresh_accounts(ARRAY[silent.account_id]);
            n_said := n_said + 1;
        END LOOP;
    END IF;
    RETURN jsonb_build_object('cancelled', n_ended, 'said', n_said);
END $$;
