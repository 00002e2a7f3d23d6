-- People on bots: their lanes, what is queued for them, and how they are approached.

-- The lane of a campaign on an account, or of a dialogue; made when it is not there. NULL: no such account or recipient.
-- Its policy comes from the platform, which the caller knows.
CREATE FUNCTION open_lane(
    workspace_id bigint, campaign_id bigint, recipient_id bigint, account_id bigint, max_parallel integer,
    rate double precision, ambiguity text
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at      timestamptz := rupor_now();
    account bigint;
    lane    bigint;
BEGIN
    PERFORM rupor_guard(open_lane.workspace_id);
    IF open_lane.recipient_id IS NOT NULL THEN
        SELECT r.account_id INTO account FROM recipients AS r
         WHERE r.workspace_id = open_lane.workspace_id AND r.recipient_id = open_lane.recipient_id;
    ELSE
        SELECT a.account_id INTO account FROM accounts AS a
         WHERE a.workspace_id = open_lane.workspace_id AND a.account_id = open_lane.account_id;
    END IF;
    IF account IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO lane_heads (workspace_id, account_id, campaign_id, recipient_id, max_parallel, interval_us, ambiguity, served_at)
    VALUES (open_lane.workspace_id, account, CASE WHEN open_lane.recipient_id IS NULL THEN open_lane.campaign_id END,
            open_lane.recipient_id, open_lane.max_parallel, rupor_interval_us(open_lane.rate), open_lane.ambiguity, at)
    ON CONFLICT DO NOTHING
    RETURNING lane_id INTO lane;
    IF lane IS NULL THEN
        SELECT h.lane_id INTO lane FROM lane_heads AS h
         WHERE h.workspace_id = open_lane.workspace_id
           AND CASE WHEN open_lane.recipient_id IS NOT NULL THEN h.recipient_id = open_lane.recipient_id
                    ELSE h.campaign_id = open_lane.campaign_id AND h.account_id = account END;
        -- An idle lane that somebody is about to use is not an old one.
        UPDATE lane_heads AS h SET served_at = at
         WHERE h.lane_id = lane AND h.next_at = 'infinity' AND h.served_at < at - rupor_span(rupor_rule_lane_kept_every_us());
    END IF;
    RETURN lane;
END $$;

-- The people of each account in sums. Idle dialogues point nowhere, so the index of what is due leads past them; the
-- settings pin the plan, which must not walk a million of them because a session saw few.
CREATE FUNCTION people_of_accounts(
    workspace_id bigint, counted_max bigint,
    OUT account_id bigint, OUT waiting bigint, OUT sending bigint, OUT gone bigint
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(people_of_accounts.workspace_id);
    RETURN QUERY
    SELECT p.*
      FROM (SELECT a.account_id,
                   coalesce(c.waiting, 0)
                   + (SELECT count(*) FROM (SELECT FROM lane_heads AS l
                                             WHERE l.account_id = a.account_id AND l.head_priority = 0
                                               AND l.next_at < 'infinity' AND l.recipient_id IS NOT NULL
                                             LIMIT counted_max) AS urgent)
                   + (SELECT count(*) FROM (SELECT FROM lane_heads AS l
                                             WHERE l.account_id = a.account_id AND l.head_priority = 1
                                               AND l.next_at < 'infinity' AND l.recipient_id IS NOT NULL
                                             LIMIT counted_max) AS bulk) AS waiting,
                   (SELECT count(*) FROM inflight AS i
                     WHERE i.account_id = a.account_id
                       AND (SELECT l.channel_id IS NULL FROM lane_heads AS l WHERE l.lane_id = i.lane_id)) AS sending,
                   (SELECT count(*) FROM (SELECT FROM recipients AS r
                                           WHERE r.account_id = a.account_id AND r.status = 'gone'
                                           LIMIT counted_max) AS left_us) AS gone
              FROM account_heads AS a
              LEFT JOIN (SELECT l.account_id, sum(l.n_queued + l.n_retry)::bigint AS waiting
                           FROM lane_heads AS l
                          WHERE l.workspace_id = people_of_accounts.workspace_id AND l.recipient_id IS NULL
                            AND l.campaign_id IS NOT NULL
                          GROUP BY l.account_id) AS c ON c.account_id = a.account_id
             WHERE a.workspace_id = people_of_accounts.workspace_id) AS p
     WHERE p.waiting > 0 OR p.sending > 0 OR p.gone > 0
     ORDER BY p.account_id;
END $$;

-- Queues one message for recipients, in the order they are named, and returns their deliveries in that order. NULL where
-- nothing is queued: not of this lane's account, gone, the same delivery is there already; and in the lane of a campaign
-- also who is not active or is suppressed.
CREATE FUNCTION enqueue_for_recipients(
    workspace_id bigint, message_id bigint, lane_id bigint, recipient_ids bigint[], bulk boolean, run_at timestamptz
) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ws     CONSTANT bigint := enqueue_for_recipients.workspace_id;
    at     timestamptz := rupor_now();
    due    timestamptz := greatest(coalesce(enqueue_for_recipients.run_at, at), at);
    lane   lane_heads;
    m      messages;
    past   text;
    answer bigint[];
    n      bigint;
BEGIN
    PERFORM rupor_guard(ws);
    SELECT h.* INTO lane FROM lane_heads AS h WHERE h.workspace_id = ws AND h.lane_id = enqueue_for_recipients.lane_id;
    IF lane.lane_id IS NULL OR lane.channel_id IS NOT NULL THEN
        RAISE EXCEPTION 'lane % is not known in this workspace', enqueue_for_recipients.lane_id
            USING ERRCODE = 'RU001', DETAIL = 'lane', HINT = enqueue_for_recipients.lane_id::text;
    END IF;
    SELECT x.* INTO m FROM messages AS x WHERE x.workspace_id = ws AND x.message_id = enqueue_for_recipients.message_id;
    SELECT c.history INTO past FROM control AS c;
    IF m.message_id IS NULL THEN
        RAISE EXCEPTION 'message % is not known in this workspace', enqueue_for_recipients.message_id
            USING ERRCODE = 'RU001', DETAIL = 'message', HINT = enqueue_for_recipients.message_id::text;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[lane.account_id]);
    -- Now that nobody else can: retention may have cleared it away meanwhile.
    SELECT h.* INTO lane FROM lane_heads AS h WHERE h.lane_id = enqueue_for_recipients.lane_id;
    IF lane.lane_id IS NULL THEN
        RAISE EXCEPTION 'lane % is not known in this workspace', enqueue_for_recipients.lane_id
            USING ERRCODE = 'RU001', DETAIL = 'lane', HINT = enqueue_for_recipients.lane_id::text;
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT w.recipient_id, w.ord, nextval('deliveries_delivery_id_seq') AS delivery_id
          FROM (SELECT u.recipient_id, u.ord
                  FROM (SELECT x.recipient_id, min(x.ord) AS ord
                          FROM unnest(recipient_ids) WITH ORDINALITY AS x (recipient_id, ord)
                         GROUP BY x.recipient_id) AS u
                  JOIN recipients AS r ON r.recipient_id = u.recipient_id
                 WHERE r.workspace_id = ws AND r.account_id = lane.account_id AND r.status <> 'gone'
                   AND (lane.recipient_id IS NULL OR lane.recipient_id = r.recipient_id)
                   AND (lane.campaign_id IS NULL OR (r.status = 'active' AND NOT EXISTS (
                            SELECT FROM suppressions AS s
                             WHERE s.workspace_id = ws AND s.platform = r.platform AND s.user_id = r.user_id
                               AND s.account_id IN (0, r.account_id))))
                 ORDER BY u.ord) AS w
    ), put AS (
        INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, recipient_id, message_id, revision, priority,
                                status, run_at, position, idempotency_key, queued_at)
        SELECT w.delivery_id, ws, lane.lane_id, lane.account_id, w.recipient_id, m.message_id, m.revision,
               bulk::integer, 'queued', due,
               CASE WHEN lane.max_parallel = 1 THEN w.delivery_id ELSE rupor_micros(due) END,
               rupor_key(past, w.delivery_id, m.request_hash, m.content_hash, m.revision), at
          FROM wanted AS w
         ORDER BY w.delivery_id
        ON CONFLICT DO NOTHING
        RETURNING delivery_id, recipient_id, priority, position
    ), queued AS (
        INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at)
        SELECT lane.lane_id, p.priority, p.position, p.delivery_id, ws, due FROM put AS p
    )
    SELECT array_agg(p.delivery_id ORDER BY x.ord), count(p.delivery_id) INTO answer, n
      FROM unnest(recipient_ids) WITH ORDINALITY AS x (recipient_id, ord)
      LEFT JOIN wanted AS w ON w.ord = x.ord
      LEFT JOIN put AS p ON p.delivery_id = w.delivery_id;
    IF n > 0 THEN
        UPDATE lane_heads AS h SET n_queued = h.n_queued + n WHERE h.lane_id = lane.lane_id;
        PERFORM rupor_refresh_lanes(ARRAY[lane.lane_id]);
        PERFORM rupor_refresh_accounts(ARRAY[lane.account_id]);
        INSERT INTO events (workspace_id, at, name, message_id, account_id, detail)
        VALUES (ws, at, 'enqueued', enqueue_for_recipients.message_id, lane.account_id,
                jsonb_build_object('deliveries', n, 'lane', lane.lane_id));
    END IF;
    RETURN coalesce(answer, '{}');
END $$;

-- Somebody is about to be written to: where, whether it may be, and the slot of their chat. The pace is the chat's own:
-- campaigns, dialogues and a channel that write to one chat share it.
CREATE FUNCTION approach_recipient(
    workspace_id bigint, recipient_id bigint, interval_us bigint, not_before timestamptz,
    OUT address text, OUT status text, OUT paused_until timestamptz, OUT slot_at timestamptz, OUT attributes jsonb
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at   timestamptz := rupor_now();
    who  recipients;
    lane lane_heads;
BEGIN
    PERFORM rupor_guard(approach_recipient.workspace_id);
    SELECT r.* INTO who FROM recipients AS r
     WHERE r.workspace_id = approach_recipient.workspace_id AND r.recipient_id = approach_recipient.recipient_id;
    IF who.recipient_id IS NULL THEN
        RETURN;
    END IF;
    -- The lane of a channel in the same chat; the account is its lock, and comes before the person.
    IF EXISTS (SELECT FROM channels AS c
                WHERE c.account_id = who.account_id AND c.target = who.address AND c.removed_at IS NULL) THEN
        PERFORM rupor_lock_accounts(ARRAY[who.account_id]);
        SELECT h.* INTO lane
          FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
         WHERE c.account_id = who.account_id AND c.target = who.address AND c.removed_at IS NULL
         ORDER BY h.next_slot DESC, h.lane_id
         LIMIT 1;
    END IF;
    SELECT r.* INTO who FROM recipients AS r WHERE r.recipient_id = who.recipient_id FOR UPDATE;
    address := who.address;
    attributes := who.attributes;
    status := who.status;
    paused_until := who.paused_until;
    slot_at := greatest(at, who.next_slot, lane.next_slot, approach_recipient.not_before);
    IF who.status = 'gone' OR who.paused_until > at THEN
        RETURN;
    END IF;
    UPDATE recipients AS r
       SET next_slot = slot_at + rupor_span(approach_recipient.interval_us), contacted_at = at
     WHERE r.recipient_id = who.recipient_id;
    IF lane.lane_id IS NOT NULL THEN
        UPDATE lane_heads AS h
           SET next_slot = greatest(h.next_slot, slot_at + rupor_span(approach_recipient.interval_us))
         WHERE h.lane_id = lane.lane_id;
        PERFORM rupor_refresh_lanes(ARRAY[lane.lane_id]);
        PERFORM rupor_refresh_accounts(ARRAY[lane.account_id]);
    END IF;
END $$;
