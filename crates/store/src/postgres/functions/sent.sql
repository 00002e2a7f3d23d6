-- The short way of a success: it moves nothing but its own lane, so all of a batch are looked up and ended together.

-- All plain successes of a batch at once: which they were, and what that moved. One statement finds the claims, ends them
-- and tells of them. OFFSET 0 keeps the planner from turning a walk of the batch into a walk of the table when it thinks
-- the table empty.
CREATE FUNCTION rupor_end_sent(
    ws bigint[], ids bigint[], tokens uuid[], accounts bigint[], lanes bigint[], provider_ids text[], sent timestamptz[],
    outcomes jsonb[], at timestamptz, OUT plain boolean[], OUT moves rupor_moves
) LANGUAGE plpgsql AS $$
DECLARE
    ords       bigint[];
    done_ids   bigint[];
    done_lanes bigint[];
    n_plain    integer;
    n_gone     integer;
    n_ended    integer;
    ord        bigint;
BEGIN
    WITH held AS MATERIALIZED (
        SELECT c.ord, c.workspace_id, c.delivery_id, c.claim_token, c.lane_id, c.provider_message_id, c.sent_at, i.*
          FROM unnest(ws, ids, tokens, accounts, lanes, provider_ids, rupor_end_sent.sent, outcomes)
               WITH ORDINALITY AS c (workspace_id, delivery_id, claim_token, account_id, lane_id, provider_message_id, sent_at,
                                     outcome, ord)
         CROSS JOIN LATERAL (SELECT x.ctid AS place, x.claim_seq, x.attempt, x.run_id, x.claimed_at, x.slot_at, x.requested_at
                               FROM inflight AS x
                              WHERE x.account_id = c.account_id AND x.lane_id = c.lane_id AND x.delivery_id = c.delivery_id
                                AND x.workspace_id = c.workspace_id AND x.claim_token = c.claim_token
                                AND x.lease_until > at AND c.outcome IS NULL
                             OFFSET 0) AS i
    ), gone AS (
        DELETE FROM inflight AS i WHERE i.ctid = ANY (array(SELECT h.place FROM held AS h)) RETURNING 1
    ), ended AS (
        UPDATE deliveries AS d
           SET status = 'sent', reason = NULL, claim_token = NULL, lease_until = NULL,
               sent_at = least(coalesce(h.sent_at, at), at), ended_at = at,
               provider_message_id = coalesce(h.provider_message_id, d.provider_message_id)
          FROM held AS h
         WHERE d.delivery_id = h.delivery_id AND d.status = 'sending'
        RETURNING 1
    ), told AS (
        INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, slot_at,
                              requested_at, finished_at, outcome, provider_message_id)
        SELECT h.delivery_id, h.attempt, h.workspace_id, h.claim_token, h.claim_seq, h.run_id, h.claimed_at, h.slot_at,
               h.requested_at, at, 'sent', h.provider_message_id
          FROM held AS h
    )
    SELECT array_agg(h.ord), array_agg(h.delivery_id), array_agg(h.lane_id), count(*),
           (SELECT count(*) FROM gone), (SELECT count(*) FROM ended)
      INTO ords, done_ids, done_lanes, n_plain, n_gone, n_ended
      FROM held AS h;
    plain := array_fill(n_plain = cardinality(ids), ARRAY[cardinality(ids)]);
    IF n_plain = 0 THEN
        RETURN;
    END IF;
    IF n_gone <> n_plain OR n_ended <> n_plain THEN
        -- A renewal in this very moment moved the row; if it is not that, it will be said again.
        RAISE EXCEPTION 'commit: % claims, % in flight, % sending', n_plain, n_gone, n_ended
            USING ERRCODE = 'serialization_failure';
    END IF;
    IF n_plain < cardinality(ids) THEN
        FOREACH ord IN ARRAY ords LOOP
            plain[ord] := true;
        END LOOP;
    END IF;
    PERFORM rupor_note_outcomes(ws, done_ids);
    SELECT array_agg(c.lane_id), array_agg(-c.n), array_agg(c.n) INTO moves.lane_id, moves.sending, moves.sent
      FROM (SELECT l.lane_id, count(*) AS n FROM unnest(done_lanes) AS l (lane_id) GROUP BY l.lane_id) AS c;
    PERFORM rupor_count_hours(moves.lane_id, moves.sent, at);
    -- The streaks of channels end by their lanes; a recipient's ends by the delivery.
    IF EXISTS (SELECT FROM unnest(moves.lane_id) AS l (lane_id)
                CROSS JOIN LATERAL (SELECT FROM lane_heads AS h WHERE h.lane_id = l.lane_id AND h.channel_id IS NULL OFFSET 0) AS h) THEN
        UPDATE recipients AS r
           SET error_streak = 0
          FROM unnest(done_ids) AS g (delivery_id)
         CROSS JOIN LATERAL (SELECT x.recipient_id FROM deliveries AS x WHERE x.delivery_id = g.delivery_id OFFSET 0) AS d
         WHERE r.recipient_id = d.recipient_id AND r.error_streak <> 0;
    END IF;
END $$;

-- Nothing but successes. A lane or an account whose head points somewhere was not full, so one claim less does not move
-- its head; only what was full is pointed anew.
CREATE FUNCTION rupor_count_sent(m rupor_moves, accounts bigint[], at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    n    integer;
    full_lanes rupor_moves;
BEGIN
    UPDATE lane_heads AS h
       SET n_sending = h.n_sending + w.sending, n_sent = h.n_sent + w.sent
      FROM unnest(m.lane_id, m.sending, m.sent) AS w (lane_id, sending, sent)
     WHERE h.lane_id = w.lane_id AND h.next_at < 'infinity';
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n = cardinality(m.lane_id) THEN
        accounts := array(SELECT h.account_id FROM account_heads AS h
                           WHERE h.account_id = ANY (accounts) AND h.next_at = 'infinity');
    ELSE
        SELECT array_agg(w.lane_id), array_agg(w.sending), array_agg(w.sent)
          INTO full_lanes.lane_id, full_lanes.sending, full_lanes.sent
          FROM unnest(m.lane_id, m.sending, m.sent) AS w (lane_id, sending, sent)
          JOIN lane_heads AS h ON h.lane_id = w.lane_id
         WHERE h.next_at = 'infinity';
        PERFORM rupor_move_lanes(full_lanes, at);
    END IF;
    IF cardinality(accounts) > 0 THEN
        PERFORM rupor_refresh_accounts(accounts);
    END IF;
END $$;

-- What works ends its streaks; written only where there is one.
CREATE FUNCTION rupor_healthy(lane_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(cardinality(lane_ids), 0) = 0 THEN
        RETURN;
    END IF;
    UPDATE channels AS c
       SET error_streak = 0
      FROM unnest(lane_ids) AS l (lane_id)
      JOIN lane_heads AS h ON h.lane_id = l.lane_id
     WHERE c.channel_id = h.channel_id AND c.error_streak <> 0;
    UPDATE rate_groups AS g
       SET trouble_streak = 0
      FROM (SELECT DISTINCT a.group_id
              FROM unnest(lane_ids) AS l (lane_id)
              JOIN lane_heads AS h ON h.lane_id = l.lane_id
              JOIN account_heads AS a ON a.account_id = h.account_id) AS s
     WHERE g.group_id = s.group_id AND g.trouble_streak <> 0;
END $$;
