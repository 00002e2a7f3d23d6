-- What moves the deliveries of a campaign: the next few are made, what was never claimed is taken back, those who failed
-- wait again, and who stops is left alone at once. The lock order stands in campaigns.sql. On SQLite the waves of those who failed
-- have a file of their own, waves.rs.

-- One more who ended so, or one less who is tried anew: of what a platform refused also by the code that it gave. There
-- are only so many kinds: what comes after them counts as another one, also when it is taken away again.
CREATE FUNCTION rupor_count_ending(ws bigint, campaign bigint, reason text, code text, n bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    is_told CONSTANT boolean := reason IN ('refused', 'recipient_gone');
    kind    text := 'ended.' || reason || CASE WHEN is_told THEN coalesce('/' || code, '') ELSE '' END;
BEGIN
    IF is_told AND NOT EXISTS (SELECT FROM campaign_codes AS c WHERE c.campaign_id = campaign AND c.code = kind)
       AND (SELECT count(*) FROM campaign_codes AS c WHERE c.campaign_id = campaign) >= 64 THEN
        kind := 'ended.' || reason || '/other';
    END IF;
    INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n) VALUES (ws, campaign, kind, rupor_count_ending.n)
    ON CONFLICT ON CONSTRAINT campaign_codes_pkey DO UPDATE SET n = c.n + excluded.n;
END $$;

-- Whether a wave takes a member: who failed, and who never got their turn because it was aborted.
CREATE FUNCTION rupor_goes_again(m campaign_recipients, d deliveries, retries jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(CASE m.state
        WHEN 'queued' THEN d.status IN ('failed_permanent', 'dead') AND d.reason NOT IN ('recipient_gone', 'stopped', 'cancelled')
             AND (retries ->> 'code' IS NULL OR coalesce(d.last_error ->> 'code', d.reason) = retries ->> 'code'
                  OR d.reason = retries ->> 'code')
             AND (coalesce((retries ->> 'unknown')::boolean, false) OR d.unknowns = 0)
        WHEN 'settled' THEN (m.outcome IN ('failed', 'dead') AND m.code <> 'stopped' OR m.outcome = 'cancelled' AND m.code = 'aborted')
             AND (retries ->> 'code' IS NULL OR m.code = retries ->> 'code')
             AND (coalesce((retries ->> 'unknown')::boolean, false) OR m.unknowns = 0)
        WHEN 'waiting' THEN retries ->> 'code' IS NULL OR coalesce(d.last_error ->> 'code', d.reason) = retries ->> 'code'
                            OR d.reason = retries ->> 'code' END, false)
$$;

-- Whether a wave would reach anybody.
CREATE FUNCTION anybody_again(workspace_id bigint, campaign_id bigint, retries jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(anybody_again.workspace_id);
    RETURN EXISTS (SELECT FROM campaign_recipients AS m LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
                    WHERE m.workspace_id = anybody_again.workspace_id AND m.campaign_id = anybody_again.campaign_id
                      AND rupor_goes_again(m, d, anybody_again.retries));
END $$;

-- Lets the next of those who failed wait again. Where a code is asked for, who never got their turn and has not failed with it
-- comes to an end. True: nobody is left.
CREATE FUNCTION prepare_wave(workspace_id bigint, campaign_id bigint, step bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ws   CONSTANT bigint := prepare_wave.workspace_id;
    id   CONSTANT bigint := prepare_wave.campaign_id;
    k    campaigns;
    r    record;
BEGIN
    PERFORM rupor_guard(ws);
    k := rupor_lock_campaign(ws, id);
    IF k.status <> 'preparing' OR k.frozen_at IS NOT NULL OR k.wave = 0 THEN
        RETURN k.frozen_at IS NOT NULL;
    END IF;
    WITH seen AS MATERIALIZED (
        SELECT m.member_id, m.cohort_id, m.platform, m.user_id, d.delivery_id,
               CASE m.state WHEN 'queued' THEN d.status ELSE m.outcome END AS ended,
               CASE WHEN m.state = 'queued' THEN d.reason WHEN m.outcome = 'failed' THEN 'refused' ELSE m.code END AS reason,
               CASE WHEN m.state = 'queued' THEN d.last_error ->> 'code' ELSE nullif(m.code, 'refused') END AS code,
               m.state <> 'waiting' AND rupor_goes_again(m, d, k.retries) AS taken,
               m.state = 'waiting' AND NOT rupor_goes_again(m, d, k.retries) AS aside
          FROM campaign_recipients AS m
          LEFT JOIN deliveries AS d ON d.delivery_id = m.delivery_id
         WHERE m.campaign_id = id AND (m.platform, m.user_id) > (k.at_platform, k.at_user)
         ORDER BY m.platform, m.user_id
         LIMIT step
    ), uncounted AS MATERIALIZED (
        SELECT rupor_count_ending(ws, id, s.reason, s.code, -1) FROM seen AS s WHERE s.taken AND s.ended <> 'cancelled'
    ), again AS (
        UPDATE campaign_recipients AS m
           SET state = 'waiting', delivery_id = s.delivery_id, generation = m.generation + (s.ended <> 'cancelled')::integer
          FROM seen AS s WHERE s.taken AND m.member_id = s.member_id
    ), put_aside AS (
        UPDATE campaign_recipients AS m SET state = 'settled', outcome = 'cancelled', code = 'aborted', at = rupor_now()
          FROM seen AS s WHERE s.aside AND m.member_id = s.member_id
    ), back AS (
        UPDATE campaign_cohorts AS c
           SET cursor = least(c.cursor, b.first - 1), n_waiting = c.n_waiting + b.n
          FROM (SELECT s.cohort_id, min(s.member_id) FILTER (WHERE s.taken) AS first,
                       count(*) FILTER (WHERE s.taken) - count(*) FILTER (WHERE s.aside) AS n
                  FROM seen AS s WHERE s.taken OR s.aside GROUP BY s.cohort_id) AS b
         WHERE c.cohort_id = b.cohort_id
    )
    SELECT count(*) AS n, count(*) FILTER (WHERE s.taken AND s.ended = 'dead') AS dead,
           count(*) FILTER (WHERE s.taken AND s.ended IN ('failed', 'failed_permanent')) AS failed,
           count(*) FILTER (WHERE s.aside) - count(*) FILTER (WHERE s.taken AND s.ended = 'cancelled') AS aside,
           (array_agg(s.platform ORDER BY s.platform DESC, s.user_id DESC))[1] AS platform,
           (array_agg(s.user_id ORDER BY s.platform DESC, s.user_id DESC))[1] AS user_id,
           (SELECT count(*) FROM uncounted) AS uncounted
      INTO r FROM seen AS s;
    IF r.aside <> 0 THEN
        INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n) VALUES (ws, id, 'ended.cancelled', r.aside)
        ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + excluded.n;
    END IF;
    -- Whoever is put aside counts as dead, though none of the lanes does.
    UPDATE campaigns AS x
       SET at_platform = coalesce(r.platform, x.at_platform), at_user = coalesce(r.user_id, x.at_user),
           n_failed_again = x.n_failed_again + r.failed, n_dead_again = x.n_dead_again + r.dead - r.aside,
           frozen_at = CASE WHEN r.n < step THEN rupor_now() END
     WHERE x.campaign_id = id;
    RETURN r.n < step;
END $$;

-- Makes deliveries of the next who wait until their lane holds so many; who may not be written to any more is left out.
CREATE FUNCTION feed_campaign(
    workspace_id bigint, cohort_id bigint, urgent boolean, step bigint, ahead bigint, OUT queued bigint, OUT excluded bigint
)
-- A chunk is found by keys alone. Tables that were filled a moment ago have no statistics, and a planner that believes them
-- small reads them whole for every chunk, while the account is locked.
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    ws      CONSTANT bigint := feed_campaign.workspace_id;
    today   timestamptz := rupor_now();
    cohort  campaign_cohorts;
    k       campaigns;
    lane    lane_heads;
    room    bigint;
    past    text;
    last    bigint;
    n       bigint;
    reasons jsonb;
BEGIN
    PERFORM rupor_guard(ws);
    queued := 0; excluded := 0;
    SELECT c.* INTO cohort FROM campaign_cohorts AS c WHERE c.workspace_id = ws AND c.cohort_id = feed_campaign.cohort_id;
    IF cohort.cohort_id IS NULL THEN
        RAISE EXCEPTION 'cohort % is not known in this workspace', feed_campaign.cohort_id
            USING ERRCODE = 'RU001', DETAIL = 'cohort', HINT = feed_campaign.cohort_id::text;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[cohort.account_id]);
    SELECT c.* INTO k FROM campaigns AS c WHERE c.campaign_id = cohort.campaign_id FOR NO KEY UPDATE;
    IF k.status <> 'running' OR k.deadline <= today THEN
        RETURN;
    END IF;
    SELECT c.* INTO cohort FROM campaign_cohorts AS c WHERE c.cohort_id = feed_campaign.cohort_id;
    SELECT h.* INTO lane FROM lane_heads AS h WHERE h.campaign_id = k.campaign_id AND h.account_id = cohort.account_id;
    room := least(step, greatest(0, feed_campaign.ahead - lane.n_queued - lane.n_retry - lane.n_sending));
    SELECT c.history INTO past FROM control AS c;
    WITH seen AS MATERIALIZED (
        SELECT s.*, CASE WHEN s.reason IS NULL THEN nextval('deliveries_delivery_id_seq') END AS new_id
          FROM (SELECT m.member_id, m.recipient_id, m.generation, m.delivery_id, v.message_id,
                       coalesce(rupor_unheard(r),
                                CASE WHEN m.generation = 0 AND k.min_gap_us > 0
                                          AND r.contacted_at > today - rupor_span(k.min_gap_us) THEN 'too_soon' END) AS reason
                  FROM campaign_recipients AS m
                  JOIN recipients AS r ON r.recipient_id = m.recipient_id
                  JOIN campaign_variants AS v ON v.campaign_id = m.campaign_id AND v.variant = m.variant
                 -- As a pair, so that the index of the cohort serves it and not the one of all members.
                 WHERE m.cohort_id = feed_campaign.cohort_id AND m.state = 'waiting'
                   AND (m.cohort_id, m.member_id) > (feed_campaign.cohort_id, cohort.cursor)
                 ORDER BY m.member_id
                 LIMIT room) AS s
    ), put AS (
        INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, recipient_id, message_id, revision, generation,
                                parent_delivery, priority, status, run_at, position, expires_at, idempotency_key, queued_at,
                                campaign_id)
        SELECT w.new_id, ws, lane.lane_id, lane.account_id, w.recipient_id, m.message_id, m.revision, w.generation, w.delivery_id,
               (NOT urgent)::integer, 'queued', today, rupor_micros(today), k.deadline,
               rupor_key(past, w.new_id, m.request_hash, m.content_hash, m.revision), today, k.campaign_id
          FROM seen AS w JOIN messages AS m ON m.message_id = w.message_id
         WHERE w.new_id IS NOT NULL
         ORDER BY w.new_id
        RETURNING delivery_id
    ), ready_now AS (
        INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at, expires_at)
        SELECT lane.lane_id, (NOT urgent)::integer, rupor_micros(today), p.delivery_id, ws, today, k.deadline FROM put AS p
    ), told AS (
        UPDATE campaign_recipients AS m
           SET state = CASE WHEN s.reason IS NULL THEN 'queued' ELSE 'excluded' END, reason = s.reason,
               delivery_id = coalesce(s.new_id, m.delivery_id)
          FROM seen AS s
         WHERE m.member_id = s.member_id
    )
    SELECT max(s.member_id), count(*), count(*) FILTER (WHERE s.reason IS NULL), count(s.reason),
           (SELECT jsonb_object_agg(g.reason, g.n) FROM (SELECT x.reason, count(*) AS n FROM seen AS x
                                                          WHERE x.reason IS NOT NULL GROUP BY x.reason) AS g)
      INTO last, n, queued, excluded, reasons
      FROM seen AS s;
    IF n = 0 THEN
        RETURN;
    END IF;
    UPDATE campaign_cohorts AS c SET cursor = last, n_waiting = c.n_waiting - n WHERE c.cohort_id = cohort.cohort_id;
    IF excluded > 0 THEN
        PERFORM rupor_count_excluded(k, reasons);
    END IF;
    IF queued > 0 THEN
        UPDATE lane_heads AS h SET n_queued = h.n_queued + queued WHERE h.lane_id = lane.lane_id;
        PERFORM rupor_refresh_lanes(ARRAY[lane.lane_id]);
        PERFORM rupor_refresh_accounts(ARRAY[lane.account_id]);
        INSERT INTO events (workspace_id, at, name, account_id, detail)
        VALUES (ws, today, 'enqueued', lane.account_id,
                jsonb_build_object('deliveries', queued, 'lane', lane.lane_id, 'campaign', k.campaign_id));
    END IF;
END $$;

CREATE FUNCTION rupor_count_excluded(k campaigns, reasons jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n)
    SELECT k.workspace_id, k.campaign_id, r.key, r.value::bigint FROM jsonb_each_text(reasons) AS r
    ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + excluded.n;
    UPDATE campaigns AS x
       SET n_excluded = x.n_excluded + (SELECT sum(r.value::bigint) FROM jsonb_each_text(reasons) AS r)
     WHERE x.campaign_id = k.campaign_id;
END $$;

-- Takes back what was never claimed: its people wait again. How many.
CREATE FUNCTION recall_campaign(workspace_id bigint, campaign_id bigint, step bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    k campaigns;
BEGIN
    PERFORM rupor_guard(recall_campaign.workspace_id);
    k := rupor_lock_campaign(recall_campaign.workspace_id, recall_campaign.campaign_id);
    RETURN rupor_take_back(k, array(
        SELECT d.delivery_id
          FROM lane_heads AS h
          JOIN ready AS r ON r.lane_id = h.lane_id
          JOIN deliveries AS d ON d.delivery_id = r.delivery_id
         WHERE h.campaign_id = k.campaign_id AND d.claim_seq = 0
         LIMIT step));
END $$;

-- The caller holds the campaign.
CREATE FUNCTION rupor_take_back(k campaigns, ids bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    n bigint;
BEGIN
    WITH found AS MATERIALIZED (
        SELECT d.delivery_id, d.lane_id, d.parent_delivery, m.member_id, m.cohort_id
          FROM deliveries AS d
          JOIN campaign_recipients AS m ON m.recipient_id = d.recipient_id AND m.campaign_id = d.campaign_id
         WHERE d.delivery_id = ANY (ids)
    ), unready AS (
        DELETE FROM ready AS r USING found AS f WHERE r.lane_id = f.lane_id AND r.delivery_id = f.delivery_id
    ), gone AS (
        DELETE FROM deliveries AS d USING found AS f WHERE d.delivery_id = f.delivery_id
    ), again AS (
        UPDATE campaign_recipients AS m SET state = 'waiting', delivery_id = f.parent_delivery
          FROM found AS f WHERE m.member_id = f.member_id
    ), back AS (
        UPDATE campaign_cohorts AS c
           SET cursor = least(c.cursor, b.first - 1), n_waiting = c.n_waiting + b.n
          FROM (SELECT f.cohort_id, min(f.member_id) AS first, count(*) AS n FROM found AS f GROUP BY f.cohort_id) AS b
         WHERE c.cohort_id = b.cohort_id
    ), counted AS (
        UPDATE lane_heads AS h SET n_queued = h.n_queued - b.n
          FROM (SELECT f.lane_id, count(*) AS n FROM found AS f GROUP BY f.lane_id) AS b
         WHERE h.lane_id = b.lane_id
    )
    SELECT count(*) INTO n FROM found;
    IF n > 0 THEN
        PERFORM rupor_refresh_campaign(k.campaign_id);
        PERFORM rupor_tell_campaign(k, jsonb_build_object('recalled', n));
    END IF;
    RETURN n;
END $$;

CREATE FUNCTION rupor_refresh_campaign(id bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM rupor_refresh_lanes(array(SELECT h.lane_id FROM lane_heads AS h WHERE h.campaign_id = id ORDER BY h.lane_id));
    PERFORM rupor_refresh_accounts(array(SELECT h.account_id FROM lane_heads AS h WHERE h.campaign_id = id));
END $$;

-- The window of these people is closed until then: what was never claimed is taken back, and what was tried before is not
-- tried again sooner. How many. Nearly always there is nothing to do, and whoever looks locks nothing.
CREATE FUNCTION shut_cohorts(
    workspace_id bigint, campaign_id bigint, cohorts bigint[], until timestamptz[], step bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    k     campaigns;
    fresh bigint[];
    later bigint;
BEGIN
    PERFORM rupor_guard(shut_cohorts.workspace_id);
    IF NOT EXISTS (SELECT FROM rupor_in_shut(shut_cohorts.workspace_id, shut_cohorts.campaign_id, cohorts, until)) THEN
        RETURN 0;
    END IF;
    k := rupor_lock_campaign(shut_cohorts.workspace_id, shut_cohorts.campaign_id);
    fresh := array(SELECT s.delivery_id FROM rupor_in_shut(k.workspace_id, k.campaign_id, cohorts, until) AS s
                    WHERE s.fresh LIMIT step);
    WITH held AS MATERIALIZED (
        SELECT s.delivery_id, s.lane_id, s.opens FROM rupor_in_shut(k.workspace_id, k.campaign_id, cohorts, until) AS s
         WHERE NOT s.fresh LIMIT step
    ), put_off AS (
        UPDATE ready AS r SET run_at = s.opens, position = rupor_micros(s.opens)
          FROM held AS s WHERE r.lane_id = s.lane_id AND r.delivery_id = s.delivery_id
    ), told AS (
        UPDATE deliveries AS d SET run_at = s.opens, position = rupor_micros(s.opens)
          FROM held AS s WHERE d.delivery_id = s.delivery_id
    )
    SELECT count(*) INTO later FROM held;
    IF later > 0 THEN
        PERFORM rupor_refresh_campaign(k.campaign_id);
    END IF;
    RETURN later + rupor_take_back(k, fresh);
END $$;

CREATE FUNCTION rupor_in_shut(ws bigint, campaign bigint, cohorts bigint[], until timestamptz[])
RETURNS TABLE (delivery_id bigint, lane_id bigint, opens timestamptz, fresh boolean)
LANGUAGE sql STABLE AS $$
    SELECT d.delivery_id, d.lane_id, s.opens, d.claim_seq = 0
      FROM lane_heads AS h
      JOIN ready AS r ON r.lane_id = h.lane_id
      JOIN deliveries AS d ON d.delivery_id = r.delivery_id
      JOIN campaign_recipients AS m ON m.recipient_id = d.recipient_id AND m.campaign_id = d.campaign_id
      JOIN unnest(cohorts, until) AS s (cohort_id, opens) ON s.cohort_id = m.cohort_id
     WHERE h.workspace_id = ws AND h.campaign_id = campaign AND (d.claim_seq = 0 OR r.run_at < s.opens)
$$;

-- Ends what waits to be tried again in a campaign that is being cancelled. How many.
CREATE FUNCTION end_retries(workspace_id bigint, campaign_id bigint, step bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ws  CONSTANT bigint := end_retries.workspace_id;
    k   campaigns;
    ids bigint[];
BEGIN
    PERFORM rupor_guard(ws);
    k := rupor_lock_campaign(ws, end_retries.campaign_id);
    IF k.status <> 'cancelling' THEN
        RETURN 0;
    END IF;
    ids := array(
        SELECT d.delivery_id
          FROM lane_heads AS h
          JOIN ready AS r ON r.lane_id = h.lane_id
          JOIN deliveries AS d ON d.delivery_id = r.delivery_id
         WHERE h.campaign_id = k.campaign_id AND d.claim_seq > 0
         LIMIT step);
    PERFORM cancel_deliveries(ws, ids);
    RETURN cardinality(ids);
END $$;

-- Other words for a variant of a campaign that rests.
CREATE FUNCTION edit_campaign(
    workspace_id bigint, campaign_id bigint, version bigint, variant integer, message_id bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ws CONSTANT bigint := edit_campaign.workspace_id;
    k  campaigns;
BEGIN
    PERFORM rupor_guard(ws);
    k := rupor_lock_campaign(ws, edit_campaign.campaign_id);
    IF k.version <> edit_campaign.version OR k.status NOT IN ('draft', 'scheduled', 'paused')
       OR EXISTS (SELECT FROM lane_heads AS h WHERE h.campaign_id = k.campaign_id AND (h.n_queued > 0 OR h.n_sending > 0)) THEN
        RETURN false;
    END IF;
    UPDATE campaign_variants AS v SET message_id = edit_campaign.message_id
     WHERE v.campaign_id = k.campaign_id AND v.variant = edit_campaign.variant;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'variant % is not known in this campaign', edit_campaign.variant
            USING ERRCODE = 'RU001', DETAIL = 'variant', HINT = edit_campaign.variant::text;
    END IF;
    UPDATE campaigns AS x SET revision = x.revision + 1, version = x.version + 1 WHERE x.campaign_id = k.campaign_id;
    -- What may be visible already keeps its words: a platform recognises the repeat by them.
    UPDATE deliveries AS d
       SET message_id = m.message_id, revision = m.revision,
           idempotency_key = rupor_key((SELECT c.history FROM control AS c), d.delivery_id, m.request_hash, m.content_hash, m.revision)
      FROM lane_heads AS h, ready AS r, campaign_recipients AS w, messages AS m
     WHERE h.campaign_id = k.campaign_id AND r.lane_id = h.lane_id AND d.delivery_id = r.delivery_id
       AND w.recipient_id = d.recipient_id AND w.campaign_id = d.campaign_id AND w.variant = edit_campaign.variant
       AND m.workspace_id = ws AND m.message_id = edit_campaign.message_id AND d.unknowns = 0 AND d.parts = '[]';
    PERFORM rupor_tell_campaign(k, jsonb_build_object('name', k.name, 'revision', k.revision + 1));
    RETURN true;
END $$;

-- Somebody does not want to hear any more: what is on its way to them in campaigns and has not left ends here. What is
-- out right now ends when it comes back. The caller holds the accounts.
CREATE FUNCTION rupor_leave_alone(ws bigint, who bigint, why text) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    today timestamptz := rupor_now();
    u  record;
    k  campaigns;
BEGIN
    IF why = 'stopped' THEN
        INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n)
        SELECT ws, x.campaign_id, 'ended.stops', 1
          FROM campaign_recipients AS m JOIN campaigns AS x ON x.campaign_id = m.campaign_id
         WHERE m.workspace_id = ws AND m.recipient_id = who AND m.state <> 'excluded'
           AND x.status IN ('running', 'paused', 'finishing')
         ORDER BY x.campaign_id
        ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + excluded.n;
    END IF;
    FOR u IN
        SELECT d.delivery_id, d.lane_id, d.account_id, d.message_id, d.status, m.member_id, m.campaign_id,
               d.claim_seq = 0 AND d.parent_delivery IS NULL AS fresh
          FROM campaign_recipients AS m JOIN deliveries AS d ON d.delivery_id = m.delivery_id
         WHERE m.workspace_id = ws AND m.recipient_id = who AND m.state = 'queued' AND d.status IN ('queued', 'retry')
         ORDER BY m.campaign_id
    LOOP
        SELECT c.* INTO k FROM campaigns AS c WHERE c.campaign_id = u.campaign_id FOR NO KEY UPDATE;
        DELETE FROM ready AS r WHERE r.lane_id = u.lane_id AND r.delivery_id = u.delivery_id;
        IF u.fresh THEN
            DELETE FROM deliveries AS d WHERE d.delivery_id = u.delivery_id;
            UPDATE campaign_recipients AS m SET state = 'excluded', reason = why, delivery_id = NULL WHERE m.member_id = u.member_id;
            PERFORM rupor_count_excluded(k, jsonb_build_object(why, 1));
        ELSE
            UPDATE deliveries AS d
               SET status = 'dead', reason = 'stopped', run_at = NULL, position = NULL, ended_at = today
             WHERE d.delivery_id = u.delivery_id;
            INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n) VALUES (ws, u.campaign_id, 'ended.stopped', 1)
            ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + 1;
            INSERT INTO events (workspace_id, at, name, message_id, delivery_id, recipient_id, account_id, detail)
            VALUES (ws, today, 'cancelled', u.message_id, u.delivery_id, who, u.account_id, '{"reason": "stopped"}');
        END IF;
        UPDATE lane_heads AS h
           SET n_queued = h.n_queued - (u.status = 'queued')::integer, n_retry = h.n_retry - (u.status = 'retry')::integer,
               n_dead = h.n_dead + (NOT u.fresh)::integer
         WHERE h.lane_id = u.lane_id;
        PERFORM rupor_refresh_lanes(ARRAY[u.lane_id]);
        PERFORM rupor_refresh_accounts(ARRAY[u.account_id]);
    END LOOP;
END $$;

CREATE FUNCTION set_recipient_status(workspace_id bigint, recipient_id bigint, status text, why text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws CONSTANT bigint := set_recipient_status.workspace_id;
    id CONSTANT bigint := set_recipient_status.recipient_id;
BEGIN
    PERFORM rupor_guard(ws);
    -- Who comes has nothing on its way that would have to end.
    IF set_recipient_status.status <> 'active' THEN
        PERFORM rupor_lock_accounts(array(SELECT r.account_id FROM recipients AS r WHERE r.workspace_id = ws AND r.recipient_id = id));
    END IF;
    -- Who is gone stays so until they come back: a stop that is heard late, or said by an operator, does not make them
    -- reachable again.
    UPDATE recipients AS r
       SET (status, status_why, status_at, error_streak) =
           (SELECT CASE WHEN w.stays THEN r.status ELSE set_recipient_status.status END,
                   CASE WHEN w.stays THEN r.status_why ELSE set_recipient_status.why END,
                   CASE WHEN w.stays THEN r.status_at ELSE rupor_now() END,
                   CASE WHEN w.stays OR set_recipient_status.status = 'gone' THEN r.error_streak ELSE 0 END
              FROM (SELECT r.status = 'gone' AND set_recipient_status.status = 'stopped') AS w (stays))
     WHERE r.workspace_id = ws AND r.recipient_id = id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF set_recipient_status.status <> 'active' THEN
        PERFORM rupor_leave_alone(ws, id, CASE set_recipient_status.status WHEN 'gone' THEN 'gone' ELSE 'stopped' END);
    END IF;
    RETURN true;
END $$;

-- Nobody writes to these people unasked any more; how many of them were not suppressed so before.
CREATE FUNCTION suppress_people(
    workspace_id bigint, platform text, user_ids text[], account_id bigint, reason text, origin text
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws         CONSTANT bigint := suppress_people.workspace_id;
    whose      CONSTANT bigint := suppress_people.account_id;
    suppressed text[];
    who        record;
BEGIN
    PERFORM rupor_guard(ws);
    -- All accounts at once and in order, or two calls could wait for each other.
    PERFORM rupor_lock_accounts(array(
        SELECT DISTINCT r.account_id FROM recipients AS r
         WHERE r.workspace_id = ws AND r.platform = suppress_people.platform AND r.user_id = ANY (user_ids)
           AND whose IN (0, r.account_id)));
    WITH put AS (
        INSERT INTO suppressions (workspace_id, platform, user_id, account_id, reason, origin)
        SELECT DISTINCT ws, suppress_people.platform, u.user_id, whose, suppress_people.reason, suppress_people.origin
          FROM unnest(user_ids) AS u (user_id)
         ORDER BY u.user_id
        ON CONFLICT DO NOTHING
        RETURNING user_id
    )
    SELECT coalesce(array_agg(p.user_id), '{}') INTO suppressed FROM put AS p;
    IF suppressed = '{}' THEN
        RETURN 0;
    END IF;
    FOR who IN
        SELECT r.recipient_id FROM recipients AS r
         WHERE r.workspace_id = ws AND r.platform = suppress_people.platform AND r.user_id = ANY (suppressed)
           AND whose IN (0, r.account_id)
         ORDER BY r.recipient_id
    LOOP
        PERFORM rupor_leave_alone(ws, who.recipient_id, 'suppressed');
    END LOOP;
    INSERT INTO events (workspace_id, at, name, account_id, detail)
    VALUES (ws, rupor_now(), 'config_changed', nullif(whose, 0),
            jsonb_build_object('suppressed', cardinality(suppressed), 'platform', suppress_people.platform,
                               'reason', suppress_people.reason));
    RETURN cardinality(suppressed);
END $$;
