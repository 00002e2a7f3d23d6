-- A campaign and its life: moved from state to state, frozen, paced. What moves its deliveries stands in feed.sql.
-- On SQLite freezing has a file of its own, freeze.rs.
--
-- Lock order: accounts (guard.sql), then the campaign, then its cohorts and members.

CREATE FUNCTION rupor_campaign_open(status text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT status IN ('running', 'finishing') $$;

-- domain::campaign, said in SQL; a test compares the two.
CREATE FUNCTION rupor_campaign_arrow(was text, next text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE was
           WHEN 'draft' THEN next IN ('scheduled', 'preparing', 'cancelled')
           WHEN 'scheduled' THEN next IN ('preparing', 'draft', 'cancelled', 'aborted')
           WHEN 'preparing' THEN next IN ('running', 'paused', 'cancelling')
           WHEN 'running' THEN next IN ('paused', 'finishing', 'cancelling')
           WHEN 'paused' THEN next IN ('preparing', 'running', 'cancelling')
           WHEN 'finishing' THEN next IN ('finished', 'running', 'paused', 'cancelling')
           WHEN 'finished' THEN next = 'preparing'
           WHEN 'aborted' THEN next IN ('preparing', 'scheduled')
           WHEN 'cancelling' THEN next IN ('cancelled', 'aborted')
           ELSE false END
$$;

-- Why somebody must not be written to by a campaign; NULL: nothing stands against it.
CREATE FUNCTION rupor_unheard(who recipients) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN who.status = 'gone' THEN 'gone' WHEN who.status <> 'active' THEN 'stopped'
                WHEN EXISTS (SELECT FROM suppressions AS s
                              WHERE s.workspace_id = who.workspace_id AND s.platform = who.platform
                                AND s.user_id = who.user_id AND s.account_id IN (0, who.account_id)) THEN 'suppressed' END
$$;

-- The lot of a person in a campaign, out of ten thousand.
CREATE FUNCTION rupor_lot(seed text, what text, user_id text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (get_byte(h, 0)::bigint * 16777216 + get_byte(h, 1) * 65536 + get_byte(h, 2) * 256 + get_byte(h, 3)) % 10000
      FROM (SELECT sha256(convert_to(concat(seed, '/', what, '/', user_id), 'UTF8')) AS h) AS d
$$;

CREATE FUNCTION rupor_lock_campaign(ws bigint, id bigint) RETURNS campaigns
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    k campaigns;
BEGIN
    PERFORM rupor_lock_accounts(array(SELECT h.account_id FROM lane_heads AS h WHERE h.campaign_id = rupor_lock_campaign.id));
    SELECT c.* INTO k FROM campaigns AS c
     WHERE c.workspace_id = rupor_lock_campaign.ws AND c.campaign_id = rupor_lock_campaign.id
       FOR NO KEY UPDATE;
    IF k.campaign_id IS NULL THEN
        RAISE EXCEPTION 'campaign % is not known in this workspace', rupor_lock_campaign.id
            USING ERRCODE = 'RU001', DETAIL = 'campaign', HINT = rupor_lock_campaign.id::text;
    END IF;
    RETURN k;
END $$;

-- One statement, so that all of it is of one moment.
CREATE FUNCTION campaign_counts(
    workspace_id bigint, campaign_id bigint, OUT total bigint, OUT waiting bigint, OUT queued bigint, OUT retry bigint,
    OUT in_flight bigint, OUT sent bigint, OUT failed bigint, OUT dead bigint, OUT excluded bigint
) LANGUAGE sql STABLE AS $$
    SELECT k.n_total,
           (SELECT coalesce(sum(c.n_waiting), 0)::bigint FROM campaign_cohorts AS c WHERE c.campaign_id = k.campaign_id),
           coalesce(sum(h.n_queued), 0)::bigint, coalesce(sum(h.n_retry), 0)::bigint, coalesce(sum(h.n_sending), 0)::bigint,
           coalesce(sum(h.n_sent), 0)::bigint, (coalesce(sum(h.n_failed), 0) - k.n_failed_again)::bigint,
           (coalesce(sum(h.n_dead), 0) - k.n_dead_again)::bigint, k.n_excluded
      FROM campaigns AS k LEFT JOIN lane_heads AS h ON h.campaign_id = k.campaign_id
     WHERE k.workspace_id = campaign_counts.workspace_id AND k.campaign_id = campaign_counts.campaign_id
     GROUP BY k.campaign_id
$$;

-- How far it is now, beside what it was before.
CREATE FUNCTION rupor_note_progress(ws bigint, id bigint) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO campaign_progress AS p (workspace_id, campaign_id, at, waiting, on_their_way, sent, failed, dead, excluded)
    SELECT ws, id, rupor_now(), c.waiting, c.queued + c.retry + c.in_flight, c.sent, c.failed, c.dead, c.excluded
      FROM campaign_counts(ws, id) AS c
     WHERE c.total IS NOT NULL
    ON CONFLICT (campaign_id, at) DO UPDATE
       SET waiting = excluded.waiting, on_their_way = excluded.on_their_way, sent = excluded.sent, failed = excluded.failed,
           dead = excluded.dead, excluded = excluded.excluded
$$;

CREATE FUNCTION note_progress(workspace_id bigint, campaign_id bigint, every_us bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(note_progress.workspace_id);
    IF NOT EXISTS (SELECT FROM campaign_progress AS p
                    WHERE p.workspace_id = note_progress.workspace_id AND p.campaign_id = note_progress.campaign_id
                      AND p.at > rupor_now() - rupor_span(every_us)) THEN
        PERFORM rupor_note_progress(note_progress.workspace_id, note_progress.campaign_id);
    END IF;
END $$;

-- From state to state, if it stands where the caller saw it. Lanes are open exactly while it runs.
CREATE FUNCTION move_campaign(
    workspace_id bigint, campaign_id bigint, version bigint, next text, why text,
    starts_at timestamptz DEFAULT NULL, ends_as text DEFAULT NULL, retries jsonb DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws   CONSTANT bigint := move_campaign.workspace_id;
    id   CONSTANT bigint := move_campaign.campaign_id;
    want text := move_campaign.next;
    today timestamptz := rupor_now();
    k    campaigns;
    c    record;
BEGIN
    PERFORM rupor_guard(ws);
    k := rupor_lock_campaign(ws, id);
    -- What waits for its time has nothing to take back.
    IF move_campaign.ends_as = 'aborted' AND want = 'cancelling' AND k.status = 'scheduled' THEN
        want := 'aborted';
    END IF;
    IF k.version <> move_campaign.version OR NOT rupor_campaign_arrow(k.status, want)
       OR (want = 'running' AND k.frozen_at IS NULL)
       OR (move_campaign.retries IS NOT NULL AND k.status NOT IN ('finished', 'aborted')) THEN
        RETURN false;
    END IF;
    IF want = 'finished' THEN
        SELECT * INTO c FROM campaign_counts(ws, id);
        IF c.waiting + c.queued + c.retry + c.in_flight > 0 OR c.total <> c.excluded + c.sent + c.failed + c.dead THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE campaigns AS x
       SET status = want, why = nullif(move_campaign.why, ''), version = x.version + 1,
           started_at = CASE WHEN want = 'preparing' THEN coalesce(x.started_at, today) ELSE x.started_at END,
           ended_at = CASE WHEN want IN ('finished', 'cancelled', 'aborted') THEN today END,
           starts_at = coalesce(move_campaign.starts_at, x.starts_at),
           -- A wave has a deadline of its own; who goes on after a pause has the one it had.
           deadline = CASE WHEN want = 'preparing' AND k.status <> 'paused' THEN today + rupor_span(nullif(x.deadline_us, 0))
                           ELSE x.deadline END,
           ends_as = CASE WHEN want = 'preparing' THEN 'cancelled' ELSE coalesce(move_campaign.ends_as, x.ends_as) END
     WHERE x.campaign_id = id;
    IF move_campaign.retries IS NOT NULL THEN
        UPDATE campaigns AS x
           SET wave = x.wave + 1, retries = move_campaign.retries, at_platform = '', at_user = '', frozen_at = NULL
         WHERE x.campaign_id = id;
    END IF;
    UPDATE lane_heads AS h SET open = rupor_campaign_open(want) AND NOT rupor_rests(k.resting, h.account_id) WHERE h.campaign_id = id;
    PERFORM rupor_refresh_lanes(array(SELECT h.lane_id FROM lane_heads AS h WHERE h.campaign_id = id ORDER BY h.lane_id));
    PERFORM rupor_refresh_accounts(array(SELECT h.account_id FROM lane_heads AS h WHERE h.campaign_id = id));
    PERFORM rupor_tell_campaign(k, jsonb_build_object('name', k.name, 'from', k.status, 'to', want, 'why', move_campaign.why));
    IF k.frozen_at IS NOT NULL THEN
        PERFORM rupor_note_progress(ws, id);
    END IF;
    RETURN true;
END $$;

-- A part that rests has a reason; one that went on has the time.
CREATE FUNCTION rupor_rests(resting jsonb, account_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(jsonb_typeof(resting -> account_id::text) = 'string', false) $$;

-- Pauses the part of one account, or lets it go on (NULL); the others are not touched.
CREATE FUNCTION rest_part(workspace_id bigint, campaign_id bigint, account_id bigint, why text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    part CONSTANT text := rest_part.account_id::text;
    k    campaigns;
BEGIN
    PERFORM rupor_guard(rest_part.workspace_id);
    k := rupor_lock_campaign(rest_part.workspace_id, rest_part.campaign_id);
    k.resting := k.resting || jsonb_build_object(part, coalesce(to_jsonb(why), to_jsonb(rupor_micros(rupor_now()))));
    UPDATE campaigns AS x SET resting = k.resting WHERE x.campaign_id = k.campaign_id;
    UPDATE lane_heads AS h SET open = rupor_campaign_open(k.status) AND NOT rupor_rests(k.resting, h.account_id)
     WHERE h.campaign_id = k.campaign_id;
    PERFORM rupor_refresh_campaign(k.campaign_id);
    PERFORM rupor_tell_campaign(k, jsonb_build_object('name', k.name, 'account', rest_part.account_id, 'rests', why));
END $$;

-- What has ended by now is no matter for its guards any more.
CREATE FUNCTION judge_campaign_from(workspace_id bigint, campaign_id bigint, version bigint, ended jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(judge_campaign_from.workspace_id);
    UPDATE campaigns AS x SET judged_from = judge_campaign_from.ended
     WHERE x.workspace_id = judge_campaign_from.workspace_id AND x.campaign_id = judge_campaign_from.campaign_id
       AND x.version = judge_campaign_from.version;
END $$;

CREATE FUNCTION rupor_tell_campaign(k campaigns, detail jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (workspace_id, at, name, detail)
    VALUES (k.workspace_id, rupor_now(), 'campaign_changed', detail || jsonb_build_object('campaign', k.campaign_id));
END $$;

-- Writes down who gets it, from where the campaign stands up to a person, or as many as fit into a step: one row a person,
-- on the first account by preference on which they can be written to. True: everybody is written down.
CREATE FUNCTION freeze_campaign(
    workspace_id bigint, campaign_id bigint, after_platform text, after_user text, upto_platform text, upto_user text,
    is_last boolean, left_out bigint[], missing bigint[], canary bigint, by_zone boolean, step bigint, at_once bigint
) RETURNS boolean
-- Every step walks the index: tables that were filled a moment ago have no statistics.
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    ws       CONSTANT bigint := freeze_campaign.workspace_id;
    id       CONSTANT bigint := freeze_campaign.campaign_id;
    today    timestamptz := rupor_now();
    k        campaigns;
    audience bigint;
    up_p     text := freeze_campaign.upto_platform;
    up_u     text := freeze_campaign.upto_user;
    low      text;
    done     boolean := freeze_campaign.is_last;
    weights  bigint[];
    total    bigint;
    plain    boolean;
    n        bigint;
    gone     bigint;
BEGIN
    PERFORM rupor_guard(ws);
    SELECT c.* INTO k FROM campaigns AS c WHERE c.workspace_id = ws AND c.campaign_id = id FOR NO KEY UPDATE;
    IF k.campaign_id IS NULL THEN
        RAISE EXCEPTION 'campaign % is not known in this workspace', id USING ERRCODE = 'RU001', DETAIL = 'campaign', HINT = id::text;
    ELSIF k.status <> 'preparing' OR k.frozen_at IS NOT NULL THEN
        RETURN k.frozen_at IS NOT NULL;
    ELSIF (k.at_platform, k.at_user) <> (after_platform, after_user) THEN
        RETURN false;
    END IF;
    SELECT a.audience_id INTO audience FROM audiences AS a WHERE a.audience_id = k.audience_id AND a.filter IS NULL;
    SELECT array_agg(s.passed ORDER BY s.variant), max(s.passed) INTO weights, total
      FROM (SELECT v.variant, sum(v.weight) OVER (ORDER BY v.variant) AS passed
              FROM campaign_variants AS v WHERE v.campaign_id = id) AS s;
    plain := canary = 0 AND NOT by_zone AND cardinality(weights) = 1 AND cardinality(left_out) = 0 AND cardinality(missing) = 0;
    -- A step stays on one platform, and both its ends are plain conditions on the user id. PostgreSQL walks on to the last
    -- person of the platform where the upper end is a pair.
    IF up_p IS NULL AND NOT done THEN
        SELECT r.platform INTO up_p
          FROM recipients AS r
         WHERE r.workspace_id = ws AND (r.platform, r.user_id) > (after_platform, after_user)
         ORDER BY r.platform, r.user_id
         LIMIT 1;
        done := up_p IS NULL;
    END IF;
    low := CASE WHEN up_p = after_platform THEN after_user ELSE '' END;
    IF up_p IS NOT NULL AND up_u IS NULL THEN
        SELECT r.user_id INTO up_u
          FROM recipients AS r
         WHERE r.workspace_id = ws AND r.platform = up_p AND r.user_id > low
         ORDER BY r.user_id
         LIMIT 1 OFFSET CASE WHEN plain THEN at_once ELSE step END - 1;
        IF up_u IS NULL THEN
            SELECT max(r.user_id) INTO up_u FROM recipients AS r WHERE r.workspace_id = ws AND r.platform = up_p;
            done := NOT EXISTS (SELECT FROM recipients AS r WHERE r.workspace_id = ws AND r.platform > up_p);
        END IF;
    END IF;
    IF plain THEN
        SELECT w.n, w.gone INTO n, gone FROM rupor_freeze_at_once(k, audience, up_p, low, up_u) AS w;
    ELSE
    WITH chosen AS MATERIALIZED (
        SELECT DISTINCT ON (p.platform, p.user_id)
               p.recipient_id, p.account_id, p.platform, p.user_id, p.zone, p.reason,
               CASE WHEN canary > 0 AND rupor_lot(k.seed, 'stage', p.user_id) < canary THEN 'first' ELSE 'rest' END AS stage,
               CASE WHEN cardinality(weights) = 1 THEN 0 ELSE coalesce(
                   (SELECT min(w.ord) - 1 FROM unnest(weights) WITH ORDINALITY AS w (passed, ord)
                     WHERE rupor_lot(k.seed, 'variant', p.user_id) * total < w.passed * 10000), 0) END AS variant
          FROM (SELECT r.recipient_id, r.account_id, r.platform, r.user_id,
                       CASE WHEN by_zone THEN coalesce(r.time_zone, '') ELSE '' END AS zone, w.ord,
                       coalesce(CASE WHEN r.status = 'gone' THEN 'gone' WHEN r.status <> 'active' THEN 'stopped'
                                     WHEN EXISTS (SELECT FROM suppressions AS s
                                                   WHERE s.workspace_id = ws AND s.platform = r.platform
                                                     AND s.user_id = r.user_id AND s.account_id IN (0, r.account_id))
                                     THEN 'suppressed' END,
                                CASE WHEN r.recipient_id = ANY (missing) THEN 'missing_attribute'
                                     WHEN k.min_gap_us > 0 AND r.contacted_at > today - rupor_span(k.min_gap_us)
                                     THEN 'too_soon' END) AS reason
                  FROM recipients AS r
                  JOIN jsonb_array_elements_text(k.accounts) WITH ORDINALITY AS w (account_id, ord)
                    ON w.account_id::bigint = r.account_id
                 WHERE r.workspace_id = ws AND r.platform = up_p AND r.user_id > low AND r.user_id <= up_u
                   AND r.status <> 'known' AND r.recipient_id <> ALL (left_out)
                   AND (audience IS NULL OR EXISTS (SELECT FROM audience_recipients AS a
                                                     WHERE a.audience_id = audience AND a.recipient_id = r.recipient_id))) AS p
         ORDER BY p.platform, p.user_id, p.reason IS NOT NULL, p.ord
    ), cohorts AS (
        INSERT INTO campaign_cohorts AS c (workspace_id, campaign_id, account_id, zone, stage, n_total, n_waiting)
        SELECT ws, id, f.account_id, f.zone, f.stage, count(*), count(*)
          FROM chosen AS f WHERE f.reason IS NULL
         GROUP BY f.account_id, f.zone, f.stage
         ORDER BY f.account_id, f.zone, f.stage
        ON CONFLICT (campaign_id, account_id, zone, stage) DO UPDATE
           SET n_total = c.n_total + excluded.n_total, n_waiting = c.n_waiting + excluded.n_waiting
        RETURNING c.cohort_id, c.account_id, c.zone, c.stage
    ), members AS (
        INSERT INTO campaign_recipients (workspace_id, campaign_id, cohort_id, recipient_id, account_id, platform, user_id,
                                         variant, state, reason)
        SELECT ws, id, c.cohort_id, f.recipient_id, f.account_id, f.platform, f.user_id, f.variant,
               CASE WHEN f.reason IS NULL THEN 'waiting' ELSE 'excluded' END, f.reason
          FROM chosen AS f
          LEFT JOIN cohorts AS c
            ON f.reason IS NULL AND c.account_id = f.account_id AND c.zone = f.zone AND c.stage = f.stage
         ORDER BY f.platform, f.user_id
    ), codes AS (
        INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n)
        SELECT ws, id, f.reason, count(*) FROM chosen AS f WHERE f.reason IS NOT NULL GROUP BY f.reason
        ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + excluded.n
    )
    SELECT count(*), count(f.reason) INTO n, gone FROM chosen AS f;
    END IF;
    UPDATE campaigns AS x
       SET n_total = x.n_total + n, n_excluded = x.n_excluded + gone, at_platform = coalesce(up_p, after_platform),
           at_user = coalesce(up_u, after_user), frozen_at = CASE WHEN done THEN today END
     WHERE x.campaign_id = id;
    IF NOT done THEN
        -- A step that a crash takes with it is made again: its people and its cursor go together. The last one waits for all.
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSE
        -- Accounts that reach nobody have nobody to feed.
        DELETE FROM campaign_cohorts AS c WHERE c.campaign_id = id AND c.n_total = 0;
        PERFORM rupor_tell_campaign(k, jsonb_build_object('name', k.name, 'frozen', true));
    END IF;
    RETURN done;
END $$;

-- The same where nothing has to be drawn nor read of anybody but their row, in one statement. Of who has rows on several
-- accounts the best one is taken: where they can be written to, then by preference.
CREATE FUNCTION rupor_freeze_at_once(
    k campaigns, audience bigint, up_p text, low text, up_u text, OUT n bigint, OUT gone bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ws         CONSTANT bigint := k.workspace_id;
    accounts   CONSTANT bigint[] := array(SELECT a.id::bigint FROM jsonb_array_elements_text(k.accounts) WITH ORDINALITY AS a (id, ord)
                                           ORDER BY a.ord);
    suppressed CONSTANT boolean := EXISTS (SELECT FROM suppressions AS s WHERE s.workspace_id = ws);
    recent     CONSTANT timestamptz := CASE WHEN k.min_gap_us > 0 THEN rupor_now() - rupor_span(k.min_gap_us) ELSE 'infinity' END;
    cohorts    bigint[];
BEGIN
    INSERT INTO campaign_cohorts (workspace_id, campaign_id, account_id, zone, stage)
    SELECT ws, k.campaign_id, a.id, '', 'rest' FROM unnest(accounts) AS a (id)
    ON CONFLICT DO NOTHING;
    cohorts := array(SELECT c.cohort_id
                       FROM unnest(accounts) WITH ORDINALITY AS a (id, ord)
                       JOIN campaign_cohorts AS c ON c.campaign_id = k.campaign_id AND c.account_id = a.id AND c.zone = '' AND c.stage = 'rest'
                      ORDER BY a.ord);
    WITH put AS (
        INSERT INTO campaign_recipients (workspace_id, campaign_id, cohort_id, recipient_id, account_id, platform, user_id,
                                         variant, state, reason)
        SELECT ws, k.campaign_id,
               CASE WHEN p.reason IS NULL THEN cohorts[array_position(accounts, p.account_id)] END,
               p.recipient_id, p.account_id, p.platform, p.user_id, 0,
               CASE WHEN p.reason IS NULL THEN 'waiting' ELSE 'excluded' END, p.reason
          FROM (SELECT r.recipient_id, r.account_id, r.platform, r.user_id,
                       CASE WHEN r.status = 'gone' THEN 'gone' WHEN r.status <> 'active' THEN 'stopped'
                            WHEN suppressed AND rupor_is_suppressed(ws, r.platform, r.user_id, r.account_id) THEN 'suppressed'
                            WHEN r.contacted_at > recent THEN 'too_soon' END AS reason
                  FROM recipients AS r
                 WHERE r.workspace_id = ws AND r.platform = up_p AND r.user_id > low AND r.user_id <= up_u
                   AND r.status <> 'known' AND r.account_id = ANY (accounts)
                   AND (audience IS NULL OR EXISTS (SELECT FROM audience_recipients AS a
                                                     WHERE a.audience_id = audience AND a.recipient_id = r.recipient_id))
                 ORDER BY r.platform, r.user_id
                OFFSET 0) AS p
         WHERE cardinality(accounts) = 1
            OR NOT EXISTS (
               SELECT FROM recipients AS o
                WHERE o.workspace_id = ws AND o.platform = p.platform AND o.user_id = p.user_id
                  AND o.account_id <> p.account_id AND o.status <> 'known' AND o.account_id = ANY (accounts)
                  AND (audience IS NULL OR EXISTS (SELECT FROM audience_recipients AS a
                                                    WHERE a.audience_id = audience AND a.recipient_id = o.recipient_id))
                  AND (o.status <> 'active' OR coalesce(o.contacted_at > recent, false)
                       OR (suppressed AND rupor_is_suppressed(ws, o.platform, o.user_id, o.account_id)),
                       array_position(accounts, o.account_id))
                      < (p.reason IS NOT NULL, array_position(accounts, p.account_id)))
        RETURNING account_id, reason
    ), counted AS MATERIALIZED (
        SELECT p.account_id, p.reason, count(*) AS n FROM put AS p GROUP BY p.account_id, p.reason
    ), told AS (
        UPDATE campaign_cohorts AS c SET n_total = c.n_total + t.n, n_waiting = c.n_waiting + t.n
          FROM counted AS t
         WHERE t.reason IS NULL AND c.campaign_id = k.campaign_id AND c.account_id = t.account_id AND c.zone = '' AND c.stage = 'rest'
    ), codes AS (
        INSERT INTO campaign_codes AS c (workspace_id, campaign_id, code, n)
        SELECT ws, k.campaign_id, t.reason, sum(t.n) FROM counted AS t WHERE t.reason IS NOT NULL GROUP BY t.reason
        ON CONFLICT (campaign_id, code) DO UPDATE SET n = c.n + excluded.n
    )
    SELECT coalesce(sum(t.n), 0), coalesce(sum(t.n) FILTER (WHERE t.reason IS NOT NULL), 0) INTO n, gone FROM counted AS t;
END $$;

CREATE FUNCTION rupor_is_suppressed(ws bigint, platform text, user_id text, account_id bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM suppressions AS s
                    WHERE s.workspace_id = ws AND s.platform = rupor_is_suppressed.platform
                      AND s.user_id = rupor_is_suppressed.user_id AND s.account_id IN (0, rupor_is_suppressed.account_id))
$$;

CREATE FUNCTION pace_campaign(
    workspace_id bigint, campaign_id bigint, account_id bigint, rate double precision, paid boolean
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    wanted bigint := rupor_interval_us(pace_campaign.rate);
BEGIN
    PERFORM rupor_guard(pace_campaign.workspace_id);
    PERFORM rupor_lock_accounts(ARRAY[pace_campaign.account_id]);
    UPDATE lane_heads AS h
       SET interval_us = wanted, next_slot = least(h.next_slot, rupor_now() + rupor_span(wanted)), paid = pace_campaign.paid
     WHERE h.workspace_id = pace_campaign.workspace_id AND h.campaign_id = pace_campaign.campaign_id
       AND h.account_id = pace_campaign.account_id AND (h.interval_us, h.paid) <> (wanted, pace_campaign.paid);
    IF FOUND THEN
        PERFORM rupor_refresh_lanes(array(SELECT h.lane_id FROM lane_heads AS h
                                           WHERE h.campaign_id = pace_campaign.campaign_id AND h.account_id = pace_campaign.account_id));
        PERFORM rupor_refresh_accounts(ARRAY[pace_campaign.account_id]);
    END IF;
END $$;

-- The first ones have it: the others get it from then on. The first word counts.
CREATE FUNCTION let_rest_follow(workspace_id bigint, campaign_id bigint, from_when timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(let_rest_follow.workspace_id);
    UPDATE campaigns AS x SET rest_at = from_when
     WHERE x.workspace_id = let_rest_follow.workspace_id AND x.campaign_id = let_rest_follow.campaign_id AND x.rest_at IS NULL;
END $$;
