-- Commit: what an ended send means, written down behind the fence.
--
-- The fence is the `inflight` row with the very token of the claim. Who does not hold it changes nothing; a success
-- that comes too late is still evidence, and adopted if nothing was sent since.

-- Ends claims. Each item: {"workspace_id", "delivery_id", "claim_token"} and one of
--   "ok": true, "provider_message_id"?, "sent_at"?
--   "ok": false, "error": {"category", "scope", "code", "retry_after_ms"?, "message"?, "certainty"?}, "retry_at"?
--   "released": true
-- and "chance"? (0 … 999999) for the jitter of a backoff. One row comes back per item, in order: result is done,
-- repeated (this very claim was ended before), adopted (too late, but the only success) or lost_claim; status is
-- where the delivery stands, NULL for a lost claim.
CREATE FUNCTION commit_outcomes(items jsonb) RETURNS TABLE (result text, status text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.result, c.status
      FROM (SELECT array_agg(i.workspace_id ORDER BY i.ord) AS workspaces, array_agg(i.delivery_id ORDER BY i.ord) AS deliveries,
                   array_agg(i.claim_token ORDER BY i.ord) AS tokens,
                   array_agg(i.provider_message_id ORDER BY i.ord) AS provider_ids,
                   array_agg(CASE WHEN i.ok THEN rupor_time(i.sent_at) END ORDER BY i.ord) AS sent_ats,
                   array_agg(CASE WHEN NOT coalesce(i.ok, false) OR i.released THEN items -> (i.ord - 1)::integer END ORDER BY i.ord) AS others
              FROM ROWS FROM (jsonb_to_recordset(items) AS (
                       workspace_id bigint, delivery_id bigint, claim_token uuid, ok boolean, released boolean,
                       provider_message_id text, sent_at jsonb))
                   WITH ORDINALITY AS i (workspace_id, delivery_id, claim_token, ok, released, provider_message_id, sent_at, ord)
            HAVING count(*) > 0) AS a
     CROSS JOIN LATERAL commit_outcomes(a.workspaces, a.deliveries, a.tokens, a.provider_ids, a.sent_ats, a.others) AS c;
END $$;

-- The same with columns instead of items, for large batches. outcomes[n] NULL: sent, with its provider id and time.
-- Who claimed knows account and lane of each delivery, and saves us looking them up.
CREATE FUNCTION commit_outcomes(
    workspace_ids bigint[], delivery_ids bigint[], claim_tokens uuid[], provider_message_ids text[],
    sent_ats timestamptz[], outcomes jsonb[], account_ids bigint[] DEFAULT NULL, lane_ids bigint[] DEFAULT NULL
) RETURNS TABLE (result text, status text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := rupor_now();
    n        CONSTANT integer := coalesce(cardinality(delivery_ids), 0);
    known    CONSTANT boolean := account_ids IS NOT NULL AND lane_ids IS NOT NULL;
    accounts bigint[];
    plain    boolean[];             -- a success behind an unbroken fence: these move together
    moves    rupor_moves;
    touched  bigint[] := '{}';
    answers  text[];
    statuses text[];
    item     record;
    reached  integer := 0;
    done     record;
BEGIN
    IF n = 0 THEN
        RETURN;
    END IF;
    PERFORM rupor_guard(CASE WHEN workspace_ids[1] = ALL (workspace_ids) THEN workspace_ids[1] END);
    IF NOT known THEN
        -- They never change, so they may be read before the lock. NULL for a delivery that is not there.
        SELECT array_agg(b.account_id), array_agg(b.lane_id)
          INTO account_ids, lane_ids
          FROM (SELECT d.lane_id, d.account_id
                  FROM unnest(delivery_ids, workspace_ids) WITH ORDINALITY AS c (delivery_id, workspace_id, ord)
                  LEFT JOIN LATERAL (SELECT x.lane_id, x.account_id FROM deliveries AS x
                                      WHERE x.delivery_id = c.delivery_id AND x.workspace_id = c.workspace_id
                                      OFFSET 0) AS d ON true
                 ORDER BY c.ord) AS b;
    END IF;
    accounts := array(SELECT DISTINCT a FROM unnest(account_ids) AS a WHERE a IS NOT NULL);
    PERFORM rupor_lock_accounts(accounts);

    answers := array_fill('done'::text, ARRAY[n]);
    statuses := array_fill('sent'::text, ARRAY[n]);
    -- The first of several endings of one claim counts, whatever it is; then all go one by one.
    IF n > 1 AND n > (SELECT count(DISTINCT u) FROM unnest(delivery_ids) AS u) THEN
        plain := array_fill(false, ARRAY[n]);
    ELSE
        SELECT e.plain, e.moves INTO done
          FROM rupor_end_sent(workspace_ids, delivery_ids, claim_tokens, account_ids, lane_ids, provider_message_ids, sent_ats,
                              outcomes, at) AS e;
        plain := done.plain;
        moves := done.moves;
    END IF;
    IF true = ALL (plain) THEN
        PERFORM rupor_healthy(moves.lane_id);
        PERFORM rupor_count_sent(moves, accounts, at);
    ELSE
        IF known THEN
            PERFORM rupor_check_lanes(delivery_ids, account_ids, lane_ids);
        END IF;
        FOR item IN
            SELECT p.ord::integer AS ord
              FROM unnest(plain) WITH ORDINALITY AS p (plain, ord)
             WHERE NOT p.plain
             ORDER BY p.ord
        LOOP
            -- Successes and failures of one channel count in the order of the batch.
            PERFORM rupor_healthy(array(SELECT DISTINCT l.lane_id
                                          FROM unnest(lane_ids[reached + 1 : item.ord - 1], plain[reached + 1 : item.ord - 1])
                                               AS l (lane_id, plain)
                                         WHERE l.plain));
            reached := item.ord;
            SELECT f.result, f.status, f.lane_id INTO done
              FROM rupor_finish(workspace_ids[item.ord], delivery_ids[item.ord], claim_tokens[item.ord],
                                account_ids[item.ord], lane_ids[item.ord],
                                coalesce(outcomes[item.ord], jsonb_build_object(
                                    'ok', true, 'provider_message_id', provider_message_ids[item.ord],
                                    'sent_at', sent_ats[item.ord])), at) AS f;
            answers[item.ord] := done.result;
            statuses[item.ord] := done.status;
            touched := touched || done.lane_id;
        END LOOP;
        PERFORM rupor_healthy(array(SELECT DISTINCT l.lane_id
                                      FROM unnest(lane_ids[reached + 1 :], plain[reached + 1 :]) AS l (lane_id, plain)
                                     WHERE l.plain));
        PERFORM rupor_refresh_lanes(array(SELECT DISTINCT l FROM unnest(touched) AS l WHERE l IS NOT NULL ORDER BY l));
        PERFORM rupor_move_lanes(moves, at);
        PERFORM rupor_refresh_accounts(accounts);
    END IF;
    RETURN QUERY SELECT a.result, a.status FROM unnest(answers, statuses) AS a (result, status);
END $$;

-- A claim that is not found where the caller says may be gone, or he is wrong about the place; then nobody holds the lock.
CREATE FUNCTION rupor_check_lanes(ids bigint[], accounts bigint[], lanes bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    wrong bigint;
BEGIN
    SELECT c.delivery_id INTO wrong
      FROM unnest(ids, accounts, lanes) AS c (delivery_id, account_id, lane_id)
     CROSS JOIN LATERAL (SELECT x.account_id, x.lane_id FROM deliveries AS x WHERE x.delivery_id = c.delivery_id OFFSET 0) AS d
     WHERE (d.account_id, d.lane_id) IS DISTINCT FROM (c.account_id, c.lane_id)
     LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'commit: delivery %: it belongs to another lane', wrong USING ERRCODE = 'RU004';
    END IF;
END $$;

-- All plain successes of a batch at once: which they were, and what that moved. OFFSET 0 keeps the planner from turning
-- a walk of the batch into a walk of the table when it thinks the table empty.
CREATE FUNCTION rupor_end_sent(
    ws bigint[], ids bigint[], tokens uuid[], accounts bigint[], lanes bigint[], provider_ids text[], sent timestamptz[],
    outcomes jsonb[], at timestamptz, OUT plain boolean[], OUT moves rupor_moves
) LANGUAGE plpgsql AS $$
DECLARE
    places    tid[];
    seqs      bigint[];
    attempts  integer[];
    runs      text[];
    claimed   timestamptz[];
    slots     timestamptz[];
    requested timestamptz[];
    n_plain   integer;
    n_gone    integer;
    n_ended   integer;
BEGIN
    SELECT array_agg(b.place), array_agg(b.claim_seq), array_agg(b.attempt), array_agg(b.run_id), array_agg(b.claimed_at),
           array_agg(b.slot_at), array_agg(b.requested_at), array_agg(b.place IS NOT NULL), count(b.place)
      INTO places, seqs, attempts, runs, claimed, slots, requested, plain, n_plain
      FROM (SELECT i.*
              FROM unnest(ws, ids, tokens, accounts, lanes, outcomes)
                   WITH ORDINALITY AS c (workspace_id, delivery_id, claim_token, account_id, lane_id, outcome, ord)
              LEFT JOIN LATERAL (SELECT x.ctid AS place, x.claim_seq, x.attempt, x.run_id, x.claimed_at, x.slot_at, x.requested_at
                                   FROM inflight AS x
                                  WHERE x.account_id = c.account_id AND x.lane_id = c.lane_id AND x.delivery_id = c.delivery_id
                                    AND x.workspace_id = c.workspace_id AND x.claim_token = c.claim_token
                                    AND x.lease_until > at AND c.outcome IS NULL
                                 OFFSET 0) AS i ON true
             ORDER BY c.ord) AS b;
    IF n_plain = 0 THEN
        RETURN;
    END IF;
    DELETE FROM inflight AS i WHERE i.ctid = ANY (places);
    GET DIAGNOSTICS n_gone = ROW_COUNT;
    UPDATE deliveries AS d
       SET status = 'sent', reason = NULL, claim_token = NULL, lease_until = NULL,
           sent_at = least(coalesce(g.sent_at, at), at), ended_at = at,
           provider_message_id = coalesce(g.provider_message_id, d.provider_message_id)
      FROM unnest(ids, plain, provider_ids, sent) AS g (delivery_id, plain, provider_message_id, sent_at)
     WHERE g.plain AND d.delivery_id = g.delivery_id AND d.status = 'sending';
    GET DIAGNOSTICS n_ended = ROW_COUNT;
    IF n_gone <> n_plain OR n_ended <> n_plain THEN
        -- A renewal in this very moment moved the row; if it is not that, it will be said again.
        RAISE EXCEPTION 'commit: % claims, % in flight, % sending', n_plain, n_gone, n_ended
            USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, slot_at,
                          requested_at, finished_at, outcome, provider_message_id)
    SELECT g.delivery_id, g.attempt, g.workspace_id, g.claim_token, g.claim_seq, g.run_id, g.claimed_at, g.slot_at,
           g.requested_at, at, 'sent', g.provider_message_id
      FROM unnest(ids, plain, attempts, ws, tokens, seqs, runs, claimed, slots, requested, provider_ids)
           AS g (delivery_id, plain, attempt, workspace_id, claim_token, claim_seq, run_id, claimed_at, slot_at, requested_at,
                 provider_message_id)
     WHERE g.plain;
    SELECT array_agg(c.lane_id), array_agg(-c.n), array_agg(c.n) INTO moves.lane_id, moves.sending, moves.sent
      FROM (SELECT l.lane_id, count(*) AS n
              FROM unnest(lanes, plain) AS l (lane_id, plain)
             WHERE l.plain
             GROUP BY l.lane_id) AS c;
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

-- One item that is not a plain success. The caller holds the accounts and refreshes the heads.
CREATE FUNCTION rupor_finish(
    ws bigint, id bigint, token uuid, account bigint, lane bigint, item jsonb, at timestamptz,
    OUT result text, OUT status text, OUT lane_id bigint
) LANGUAGE plpgsql AS $$
DECLARE
    held     inflight;
    failure  jsonb;
    ending   text;
    chance   integer := coalesce((item ->> 'chance')::integer, floor(random() * 1000000)::integer);
BEGIN
    IF item -> 'released' = 'true' THEN
        ending := 'released';
    ELSIF item -> 'ok' = 'true' THEN
        ending := 'sent';
    ELSIF item -> 'ok' = 'false' THEN
        ending := 'failed';
        failure := rupor_failure(item -> 'error', NULL);
    ELSE
        RAISE EXCEPTION 'delivery %: an outcome says "ok": true, "ok": false or "released": true', id USING ERRCODE = 'RU004';
    END IF;
    SELECT i.* INTO held
      FROM inflight AS i
     WHERE i.account_id = account AND i.lane_id = lane AND i.delivery_id = id AND i.workspace_id = ws AND i.claim_token = token;
    lane_id := held.lane_id;
    IF held.lease_until > at THEN
        result := 'done';
        status := rupor_end_claim(held, ending, failure, item ->> 'provider_message_id', rupor_time(item -> 'sent_at'),
                                  rupor_time(item -> 'retry_at'), chance, at);
        RETURN;
    END IF;
    IF held.delivery_id IS NOT NULL THEN
        -- Nobody noticed yet that the lease is over: it ends now, and what we bring comes too late.
        PERFORM rupor_end_lease(held, at);
    END IF;
    SELECT l.result, l.status, coalesce(l.lane_id, rupor_finish.lane_id) INTO result, status, lane_id
      FROM rupor_too_late(ws, id, token, ending, item ->> 'provider_message_id', at) AS l;
END $$;

-- Ends a claim whose lease is over. Chance is drawn from the row itself, so that every node would draw the same.
CREATE FUNCTION rupor_end_lease(held inflight, at timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN rupor_end_claim(held, CASE WHEN held.requested_at IS NULL THEN 'lost' ELSE 'unknown' END, NULL, NULL, NULL, NULL,
                           ((held.delivery_id::numeric * 7919 + held.attempt * 104729) % 1000000)::integer, at);
END $$;

-- Settles one claim and writes all that follows from it. Returns where the delivery went.
CREATE FUNCTION rupor_end_claim(
    held inflight, ending text, failure jsonb, provider_id text, sent timestamptz, not_before timestamptz,
    chance integer, at timestamptz
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    d     deliveries;
    s     rupor_settlement;
    lane  lane_heads;
    chan  channels;
    grp   rate_groups;
    why   text := coalesce(failure ->> 'code', '');
    place bigint;
BEGIN
    SELECT x.* INTO d FROM deliveries AS x WHERE x.delivery_id = held.delivery_id;
    SELECT x.* INTO lane FROM lane_heads AS x WHERE x.lane_id = held.lane_id;
    SELECT x.* INTO chan FROM channels AS x WHERE x.channel_id = d.channel_id;
    SELECT g.* INTO grp
      FROM account_heads AS h JOIN rate_groups AS g ON g.group_id = h.group_id
     WHERE h.account_id = held.account_id;
    s.charged := d.charged; s.flood_waits := d.flood_waits; s.not_ready_waits := d.not_ready_waits;
    s.unknowns := d.unknowns; s.lost_claims := d.lost_claims; s.flood_since := d.flood_since;
    s := rupor_settle(s, coalesce(chan.ambiguity, 'resend_once'), d.channel_id, coalesce(chan.error_streak, 0),
                      grp.flood_channel, grp.flood_until, grp.trouble_streak, ending, failure, at, chance);
    IF s.run_at IS NOT NULL AND not_before IS NOT NULL THEN
        s.run_at := greatest(not_before, at + rupor_span(coalesce(rupor_wait_us(failure), 0)));
    END IF;
    -- A removed channel has no queue to go back to.
    IF s.status = 'retry' AND chan.removed_at IS NOT NULL THEN
        s.status := 'failed_permanent'; s.reason := 'channel_removed'; s.run_at := NULL;
    END IF;
    place := CASE WHEN s.run_at IS NULL THEN NULL WHEN lane.max_parallel = 1 THEN d.delivery_id ELSE rupor_micros(s.run_at) END;

    DELETE FROM inflight AS i
     WHERE i.account_id = held.account_id AND i.lane_id = held.lane_id AND i.delivery_id = held.delivery_id;
    UPDATE deliveries AS x
       SET status = s.status, reason = s.reason, claim_token = NULL, lease_until = NULL, charged = s.charged,
           flood_waits = s.flood_waits, not_ready_waits = s.not_ready_waits, unknowns = s.unknowns,
           lost_claims = s.lost_claims, flood_since = s.flood_since, run_at = s.run_at, position = place,
           retry_at = CASE s.status WHEN 'retry' THEN at ELSE x.retry_at END,
           sent_at = CASE s.status WHEN 'sent' THEN least(coalesce(sent, at), at) END,
           ended_at = CASE WHEN s.status <> 'retry' THEN at END,
           provider_message_id = coalesce(provider_id, x.provider_message_id), last_error = coalesce(failure, x.last_error)
     WHERE x.delivery_id = held.delivery_id AND x.status = 'sending';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'delivery % is in flight but not sending', held.delivery_id;
    END IF;
    IF s.status = 'retry' THEN
        INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at, expires_at, suspect, retried)
        VALUES (held.lane_id, d.priority, place, held.delivery_id, held.workspace_id, s.run_at, d.expires_at, s.lost_claims > 0,
                true);
    END IF;
    INSERT INTO attempts (delivery_id, attempt, workspace_id, claim_token, claim_seq, run_id, started_at, slot_at,
                          requested_at, finished_at, outcome, error, provider_message_id)
    VALUES (held.delivery_id, held.attempt, held.workspace_id, held.claim_token, held.claim_seq, held.run_id, held.claimed_at,
            held.slot_at, held.requested_at, at,
            CASE ending WHEN 'lost' THEN 'lease_expired' WHEN 'unknown' THEN 'lease_expired' WHEN 'released' THEN 'released'
                        ELSE s.status END,
            failure, provider_id);
    IF s.status IN ('failed_permanent', 'dead') THEN
        DELETE FROM dedup_index AS k WHERE k.delivery_id = held.delivery_id;
    END IF;
    UPDATE lane_heads AS h
       SET n_sending = h.n_sending - 1,
           n_sent = h.n_sent + (s.status = 'sent')::integer, n_retry = h.n_retry + (s.status = 'retry')::integer,
           n_failed = h.n_failed + (s.status = 'failed_permanent')::integer, n_dead = h.n_dead + (s.status = 'dead')::integer
     WHERE h.lane_id = held.lane_id;

    INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, account_id, detail)
    SELECT held.workspace_id, rupor_end_claim.at, e.name, d.message_id, held.delivery_id, d.channel_id, held.account_id,
           jsonb_build_object('reason', s.reason, 'code', failure ->> 'code', 'attempt', held.attempt)
      FROM unnest(ARRAY[
               CASE WHEN ending IN ('lost', 'unknown') THEN 'lease_recovered' END,
               CASE WHEN s.unknowns > d.unknowns THEN 'outcome_unknown' END,
               CASE WHEN s.status = 'retry' AND ending = 'failed' THEN 'retry_scheduled' END,
               CASE WHEN s.status = 'failed_permanent' THEN 'failed_permanent' END,
               CASE WHEN s.status = 'dead' AND s.reason = 'attempts_exhausted' THEN 'retry_exhausted' END,
               CASE WHEN s.status = 'dead' THEN 'dead_letter' END]) WITH ORDINALITY AS e (name, ord)
     WHERE e.name IS NOT NULL
     ORDER BY e.ord;
    PERFORM rupor_channel_effect(held, d.channel_id, s, coalesce(chan.error_streak, 0), why, at);
    PERFORM rupor_account_effect(held, d.channel_id, s, grp, failure, why, at);
    RETURN s.status;
END $$;

-- The lane follows its channel by trigger.
CREATE FUNCTION rupor_channel_effect(held inflight, channel bigint, s rupor_settlement, streak integer, why text, at timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF channel IS NULL OR s.channel_effect = 'none' THEN
        RETURN;
    ELSIF s.channel_effect = 'healthy' THEN
        UPDATE channels AS c SET error_streak = 0 WHERE c.channel_id = channel AND c.error_streak <> 0;
        RETURN;
    END IF;
    UPDATE channels AS c
       SET paused_until = greatest(c.paused_until, s.channel_until), paused_why = why, error_streak = s.error_streak
     WHERE c.channel_id = channel;
    INSERT INTO events (workspace_id, at, name, channel_id, detail)
    VALUES (held.workspace_id, at, 'channel_paused', channel,
            jsonb_build_object('until', rupor_micros(s.channel_until), 'why', why, 'streak', s.error_streak));
    IF s.disable THEN
        UPDATE channels AS c SET enabled = false, disabled_by = 'auto' WHERE c.channel_id = channel;
        INSERT INTO events (workspace_id, at, name, channel_id, detail)
        VALUES (held.workspace_id, at, 'channel_disabled', channel, '{"by": "auto"}'),
               (held.workspace_id, at, 'alert', channel,
                jsonb_build_object('text', format('channel %s is disabled after %s failures in a row', channel, s.error_streak),
                                   'code', why));
    END IF;
END $$;

CREATE FUNCTION rupor_account_effect(
    held inflight, channel bigint, s rupor_settlement, grp rate_groups, failure jsonb, why text, at timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    reason text := left(concat(why, ': ', failure ->> 'message'), 500);
BEGIN
    IF s.account_effect = 'healthy' AND grp.trouble_streak <> 0 THEN
        UPDATE rate_groups AS g SET trouble_streak = 0 WHERE g.group_id = grp.group_id;
    ELSIF s.account_effect = 'flood' THEN
        UPDATE rate_groups AS g SET flood_channel = channel, flood_until = s.account_until WHERE g.group_id = grp.group_id;
    ELSIF s.account_effect = 'cooldown' THEN
        UPDATE rate_groups AS g
           SET cooldown_until = greatest(g.cooldown_until, s.account_until),
               trouble_streak = g.trouble_streak + (NOT rupor_is_flood(failure))::integer
         WHERE g.group_id = grp.group_id;
        INSERT INTO events (workspace_id, at, name, account_id, detail)
        VALUES (held.workspace_id, at, 'cooldown', held.account_id,
                jsonb_build_object('until', rupor_micros(s.account_until), 'why', why));
    ELSIF s.account_effect = 'pause' THEN
        UPDATE accounts AS a
           SET paused = true, paused_why = reason, paused_at = at
         WHERE a.account_id = held.account_id AND (NOT a.paused OR a.paused_why IS DISTINCT FROM reason);
        IF FOUND THEN
            INSERT INTO events (workspace_id, at, name, account_id, detail)
            VALUES (held.workspace_id, at, 'account_paused', held.account_id, jsonb_build_object('why', reason));
        END IF;
        INSERT INTO events (workspace_id, at, name, account_id, detail)
        VALUES (held.workspace_id, at, 'alert', held.account_id,
                jsonb_build_object('text', format('account %s cannot send and is paused', held.account_id), 'why', reason));
    END IF;
END $$;

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
    VALUES (id, d.attempt, ws, d.claim_token, d.claim_seq, 'adopted', at, at, 'late_success', provider_id);
    UPDATE lane_heads AS h SET n_retry = h.n_retry - 1, n_sent = h.n_sent + 1 WHERE h.lane_id = d.lane_id;
    result := 'adopted'; status := 'sent'; lane_id := d.lane_id;
END $$;

-- -- the single forms: one item each. They return where the delivery stands now, or NULL if the claim is not the
-- -- caller's (wrong token, another workspace, lease over), and then nothing has changed but a lease that was over.

-- raw_meta is part of the contract with clients; the ledger keeps the id, not the platform's whole answer.
CREATE FUNCTION mark_sent(
    workspace_id bigint, delivery_id bigint, claim_token uuid, provider_message_id text,
    sent_at timestamptz DEFAULT NULL, raw_meta jsonb DEFAULT '{}'
) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT c.status
      FROM commit_outcomes(jsonb_build_array(jsonb_build_object(
               'workspace_id', workspace_id, 'delivery_id', delivery_id, 'claim_token', claim_token, 'ok', true,
               'provider_message_id', provider_message_id, 'sent_at', sent_at))) AS c
$$;

-- next_retry_at NULL: the standard backoff. A wait that the platform asked for is never undercut.
CREATE FUNCTION schedule_retry(
    workspace_id bigint, delivery_id bigint, claim_token uuid, next_retry_at timestamptz, error_json jsonb
) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT c.status
      FROM commit_outcomes(jsonb_build_array(jsonb_build_object(
               'workspace_id', workspace_id, 'delivery_id', delivery_id, 'claim_token', claim_token, 'ok', false,
               'error', rupor_failure(error_json, 'TRANSIENT'), 'retry_at', next_retry_at))) AS c
$$;

-- Scope platform keeps the delivery (retry) and pauses the account: one revoked token must not kill a backlog.
CREATE FUNCTION fail_permanent(workspace_id bigint, delivery_id bigint, claim_token uuid, error_json jsonb) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT c.status
      FROM commit_outcomes(jsonb_build_array(jsonb_build_object(
               'workspace_id', workspace_id, 'delivery_id', delivery_id, 'claim_token', claim_token, 'ok', false,
               'error', rupor_failure(error_json, 'PERMANENT')))) AS c
$$;

-- Progress of claims. Each item names the claim and either nothing more (a request is about to leave: if we die now,
-- the outcome is unknown) or "part" with its "provider_message_id" (that part is visible). One boolean per item, in
-- order: false if the claim is not the caller's any more.
CREATE FUNCTION record_parts(items jsonb) RETURNS SETOF boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at   timestamptz := rupor_now();
    c_ws bigint[];
    bad  integer;
    ids  bigint[];
    ours bigint[];
BEGIN
    SELECT array_agg(i.workspace_id ORDER BY i.ord), array_agg(i.ord ORDER BY i.ord), max(i.part) FILTER (WHERE i.part NOT BETWEEN 0 AND 999)
      INTO c_ws, ids, bad
      FROM ROWS FROM (jsonb_to_recordset(items) AS (workspace_id bigint, part integer)) WITH ORDINALITY
           AS i (workspace_id, part, ord);
    IF c_ws IS NULL THEN
        RETURN;
    ELSIF bad IS NOT NULL THEN
        RAISE EXCEPTION 'record_part: part %, at most 999', bad USING ERRCODE = 'RU004';
    END IF;
    PERFORM rupor_guard(CASE WHEN c_ws[1] = ALL (c_ws) THEN c_ws[1] END);
    -- The claims that are still theirs, held until we are done.
    SELECT array_agg(l.ord) INTO ours
      FROM (SELECT c.ord
              FROM (SELECT i.ord, i.claim_token, d.workspace_id, d.account_id, d.lane_id, d.delivery_id
                      FROM ROWS FROM (jsonb_to_recordset(items) AS (workspace_id bigint, delivery_id bigint, claim_token uuid))
                           WITH ORDINALITY AS i (workspace_id, delivery_id, claim_token, ord)
                      JOIN deliveries AS d ON d.delivery_id = i.delivery_id AND d.workspace_id = i.workspace_id
                     ORDER BY d.delivery_id) AS c
              JOIN inflight AS i
                ON i.account_id = c.account_id AND i.lane_id = c.lane_id AND i.delivery_id = c.delivery_id
               AND i.claim_token = c.claim_token
             WHERE i.lease_until > at
               FOR NO KEY UPDATE OF i) AS l;
    UPDATE inflight AS i
       SET requested_at = at
      FROM (SELECT DISTINCT d.account_id, d.lane_id, d.delivery_id
              FROM unnest(ours) AS o (ord)
             CROSS JOIN LATERAL jsonb_to_record(items -> (o.ord - 1)::integer) AS c (delivery_id bigint, part integer)
              JOIN deliveries AS d ON d.delivery_id = c.delivery_id
             WHERE c.part IS NULL) AS c
     WHERE i.account_id = c.account_id AND i.lane_id = c.lane_id AND i.delivery_id = c.delivery_id
       AND i.requested_at IS NULL;
    UPDATE deliveries AS d
       SET parts = rupor_merge_parts(d.parts, c.done)
      FROM (SELECT p.delivery_id, jsonb_object_agg(p.part, p.provider_message_id ORDER BY o.ord) AS done
              FROM unnest(ours) AS o (ord)
             CROSS JOIN LATERAL jsonb_to_record(items -> (o.ord - 1)::integer)
                   AS p (delivery_id bigint, part integer, provider_message_id text)
             WHERE p.part IS NOT NULL
             GROUP BY p.delivery_id) AS c
     WHERE d.delivery_id = c.delivery_id;
    RETURN QUERY SELECT unnest(rupor_among(ids, ours));
END $$;

-- Parts stand in an array by their number; a gap is null.
CREATE FUNCTION rupor_merge_parts(parts jsonb, done jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_agg(coalesce(done -> n::text, parts -> n, 'null') ORDER BY n)
      FROM generate_series(0, greatest(jsonb_array_length(parts) - 1,
                                       (SELECT max(k::integer) FROM jsonb_object_keys(done) AS k))) AS n
$$;

-- part NULL: a request is about to leave. False: the claim is not the caller's any more.
CREATE FUNCTION record_part(
    workspace_id bigint, delivery_id bigint, claim_token uuid, part integer, provider_message_id text
) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT r
      FROM record_parts(jsonb_build_array(jsonb_build_object(
               'workspace_id', workspace_id, 'delivery_id', delivery_id, 'claim_token', claim_token, 'part', part,
               'provider_message_id', provider_message_id))) AS r
$$;

-- Prolongs leases that still run; one boolean per item, in order.
CREATE FUNCTION renew_leases(items jsonb, lease_ms bigint DEFAULT 60000) RETURNS SETOF boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at    timestamptz := rupor_now();
    until timestamptz := at + lease_ms * interval '1 millisecond';
    c_ws  bigint[];
    c_id  bigint[];
    c_tok uuid[];
    ours  bigint[];
BEGIN
    IF lease_ms IS NULL OR lease_ms <= 0 THEN
        RAISE EXCEPTION 'renew: the lease must be positive' USING ERRCODE = 'RU004';
    END IF;
    SELECT array_agg(i.workspace_id ORDER BY i.ord), array_agg(i.delivery_id ORDER BY i.ord), array_agg(i.claim_token ORDER BY i.ord)
      INTO c_ws, c_id, c_tok
      FROM ROWS FROM (jsonb_to_recordset(items) AS (workspace_id bigint, delivery_id bigint, claim_token uuid))
           WITH ORDINALITY AS i (workspace_id, delivery_id, claim_token, ord);
    IF c_id IS NULL THEN
        RETURN;
    END IF;
    PERFORM rupor_guard(CASE WHEN c_ws[1] = ALL (c_ws) THEN c_ws[1] END);
    WITH renewed AS (
        UPDATE inflight AS i
           SET lease_until = until
          FROM (SELECT d.account_id, d.lane_id, d.delivery_id, u.claim_token, u.ord
                  FROM unnest(c_ws, c_id, c_tok) WITH ORDINALITY AS u (workspace_id, delivery_id, claim_token, ord)
                  JOIN deliveries AS d ON d.delivery_id = u.delivery_id AND d.workspace_id = u.workspace_id
                 ORDER BY d.delivery_id) AS c
         WHERE i.account_id = c.account_id AND i.lane_id = c.lane_id AND i.delivery_id = c.delivery_id
           AND i.claim_token = c.claim_token AND i.lease_until > at
        RETURNING i.delivery_id
    ), told AS (
        UPDATE deliveries AS d SET lease_until = until FROM renewed AS r WHERE d.delivery_id = r.delivery_id
    )
    SELECT array_agg(r.delivery_id) INTO ours FROM renewed AS r;
    -- The same delivery may be named twice, with the right token and with a wrong one.
    RETURN QUERY
    SELECT o.ours AND EXISTS (SELECT FROM deliveries AS d
                               WHERE d.delivery_id = o.delivery_id AND d.workspace_id = o.workspace_id AND d.claim_token = o.claim_token)
      FROM unnest(rupor_among(c_id, ours), c_ws, c_id, c_tok) AS o (ours, workspace_id, delivery_id, claim_token);
END $$;
