-- A success that comes too late is still evidence: recorded, and adopted if nothing was sent since.

-- The claim is gone. A repeat of what was written changes nothing; a late success may be adopted, under a claim of
-- its own: the fence is never bypassed.
CREATE FUNCTION rupor_too_late(
    ws bigint, id bigint, token uuid, ending text, provider_id text, at timestamptz,
    OUT result text, OUT status text, OUT lane_id bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    tried   record;
    d       deliveries;
    adopted boolean;
BEGIN
    result := 'lost_claim';
    SELECT a.attempt, a.outcome INTO tried
      FROM attempts AS a
     WHERE a.delivery_id = id AND a.workspace_id = ws AND a.claim_token = token;
    SELECT x.* INTO d FROM deliveries AS x WHERE x.delivery_id = id AND x.workspace_id = ws;
    IF tried.outcome IS NULL OR d.delivery_id IS NULL THEN
        RETURN;
    ELSIF tried.outcome <> 'lease_expired' THEN
        result := 'repeated'; status := d.status;
        RETURN;
    ELSIF ending <> 'sent' THEN
        RETURN;
    END IF;
    adopted := d.status = 'retry' AND d.attempt = tried.attempt;
    INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, detail)
    VALUES (ws, at, 'late_success', d.message_id, id, d.channel_id,
            jsonb_build_object('adopted', adopted, 'provider_message_id', provider_id));
    IF NOT adopted THEN
        RETURN;
    END IF;
    PERFORM rupor_adopt(id, provider_id, at);
    result := 'adopted'; status := 'sent'; lane_id := d.lane_id;
END $$;

-- A success of which no claim is left: it goes the ordinary way, under a claim of its own.
CREATE FUNCTION rupor_adopt(id bigint, provider_id text, at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    d   deliveries;
    was text;
BEGIN
    SELECT x.* INTO d FROM deliveries AS x WHERE x.delivery_id = id;
    was := d.status;
    DELETE FROM ready AS r
     WHERE r.lane_id = d.lane_id AND r.priority = d.priority AND r.position = d.position AND r.delivery_id = id;
    UPDATE deliveries AS x
       SET status = 'sending', claim_token = gen_random_uuid(), claim_seq = x.claim_seq + 1, attempt = x.attempt + 1,
           run_at = NULL, position = NULL, lease_until = at, claimed_at = at, sending_at = at
     WHERE x.delivery_id = id
    RETURNING x.* INTO d;
    UPDATE deliveries AS x
       SET status = 'sent', reason = 'late_success', claim_token = NULL, lease_until = NULL, sent_at = at, ended_at = at,
           provider_message_id = coalesce(provider_id, x.provider_message_id)
     WHERE x.delivery_id = id;
    INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, finished_at,
                          outcome, provider_message_id)
    VALUES (id, d.attempt, d.workspace_id, d.claim_token, d.claim_seq, 'adopted', at, at, 'late_success', provider_id);
    UPDATE lane_heads AS h
       SET n_retry = h.n_retry - (was = 'retry')::integer, n_queued = h.n_queued - (was = 'queued')::integer,
           n_sent = h.n_sent + 1
     WHERE h.lane_id = d.lane_id;
    PERFORM rupor_note_outcomes(ARRAY[d.workspace_id], ARRAY[id]);
END $$;
