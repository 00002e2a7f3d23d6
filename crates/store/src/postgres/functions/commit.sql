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

-- Whether the lane of a campaign's delivery is open and its person still wants to hear. A pause that commits in this very
-- moment is not seen here, but then it sees the claim: whoever pauses waits until nothing is in flight.
CREATE FUNCTION rupor_may_leave(id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT h.open AND coalesce(d.expires_at > rupor_now(), true) AND rupor_unheard(r) IS NULL
              FROM deliveries AS d
              JOIN lane_heads AS h ON h.lane_id = d.lane_id
              JOIN recipients AS r ON r.recipient_id = d.recipient_id
             WHERE d.delivery_id = id);
END $$;

-- Progress of claims. Each item names the claim and either nothing more (a request is about to leave: if we die now,
-- the outcome is unknown) or "part" with its "provider_message_id" (that part is visible) or "absent": true (before any
-- request of this claim: what earlier claims may have sent was looked for and is not there). One boolean per item, in
-- order: false if the claim is not the caller's any more.
CREATE FUNCTION record_parts(items jsonb) RETURNS SETOF boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := rupor_now();
    -- the items, in order
    c_ord    bigint[];
    c_ws     bigint[];
    c_id     bigint[];
    c_token  uuid[];
    c_part   integer[];
    c_name   text[];
    c_absent boolean[];
    bad      integer;
    marks    boolean;
    parts    boolean;
    -- those whose claims are still theirs, and where those stand
    ours     bigint[];
    accounts bigint[];
    lanes    bigint[];
BEGIN
    SELECT array_agg(i.ord), array_agg(i.workspace_id), array_agg(i.delivery_id), array_agg(i.claim_token), array_agg(i.part),
           array_agg(i.provider_message_id), array_agg(i.absent IS TRUE), max(i.part) FILTER (WHERE i.part NOT BETWEEN 0 AND rupor_rule_recorded_parts_max() - 1),
           bool_or(i.part IS NULL), bool_or(i.part IS NOT NULL)
      INTO c_ord, c_ws, c_id, c_token, c_part, c_name, c_absent, bad, marks, parts
      FROM (SELECT r.*
              FROM ROWS FROM (jsonb_to_recordset(items) AS (workspace_id bigint, delivery_id bigint, claim_token uuid, part integer,
                                                            provider_message_id text, absent boolean))
                   WITH ORDINALITY AS r (workspace_id, delivery_id, claim_token, part, provider_message_id, absent, ord)
             ORDER BY r.ord) AS i;
    IF c_ws IS NULL THEN
        RETURN;
    ELSIF bad IS NOT NULL THEN
        RAISE EXCEPTION 'record_part: part %, at most %', bad, rupor_rule_recorded_parts_max() - 1 USING ERRCODE = 'RU004';
    END IF;
    PERFORM rupor_guard(CASE WHEN c_ws[1] = ALL (c_ws) THEN c_ws[1] END);
    -- The claims that are still theirs, held until we are done.
    SELECT array_agg(l.ord), array_agg(l.account_id), array_agg(l.lane_id) INTO ours, accounts, lanes
      FROM (SELECT c.ord, c.account_id, c.lane_id
              FROM (SELECT i.ord, i.claim_token, i.part, i.absent, d.account_id, d.lane_id, d.delivery_id, d.campaign_id
                      FROM unnest(c_ws, c_id, c_token, c_part, c_absent) WITH ORDINALITY
                           AS i (workspace_id, delivery_id, claim_token, part, absent, ord)
                      JOIN deliveries AS d ON d.delivery_id = i.delivery_id AND d.workspace_id = i.workspace_id
                     ORDER BY d.delivery_id) AS c
              JOIN inflight AS i
                ON i.account_id = c.account_id AND i.lane_id = c.lane_id AND i.delivery_id = c.delivery_id
               AND i.claim_token = c.claim_token
             WHERE i.lease_until > at AND (c.campaign_id IS NULL OR c.part IS NOT NULL OR c.absent OR rupor_may_leave(c.delivery_id))
               FOR NO KEY UPDATE OF i) AS l;
    IF marks AND ours IS NOT NULL THEN
        UPDATE inflight AS i
           SET requested_at = CASE WHEN c.requested THEN at END, absent = i.absent OR c.absent
          FROM (SELECT o.account_id, o.lane_id, c_id[o.ord] AS delivery_id, bool_or(c_absent[o.ord]) AS absent,
                       bool_or(NOT c_absent[o.ord]) AS requested
                  FROM unnest(ours, accounts, lanes) AS o (ord, account_id, lane_id)
                 WHERE c_part[o.ord] IS NULL
                 GROUP BY o.account_id, o.lane_id, c_id[o.ord]) AS c
         WHERE i.account_id = c.account_id AND i.lane_id = c.lane_id AND i.delivery_id = c.delivery_id
           AND i.requested_at IS NULL;
    END IF;
    IF parts AND ours IS NOT NULL THEN
        UPDATE deliveries AS d
           SET parts = rupor_merge_parts(d.parts, c.done)
          FROM (SELECT c_id[o.ord] AS delivery_id, jsonb_object_agg(c_part[o.ord], c_name[o.ord] ORDER BY o.ord) AS done
                  FROM unnest(ours) AS o (ord)
                 WHERE c_part[o.ord] IS NOT NULL
                 GROUP BY c_id[o.ord]) AS c
         WHERE d.delivery_id = c.delivery_id;
    END IF;
    RETURN QUERY
    SELECT unnest(CASE cardinality(ours) WHEN cardinality(c_ord) THEN array_fill(true, ARRAY[cardinality(c_ord)])
                                         ELSE rupor_among(c_ord, ours) END);
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
CREATE FUNCTION renew_leases(items jsonb, lease_ms bigint DEFAULT rupor_rule_lease_us() / 1000) RETURNS SETOF boolean
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
