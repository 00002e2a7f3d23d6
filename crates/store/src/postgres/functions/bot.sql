-- The mailbox of the bot: what people did comes in, turns are taken one at a time for each dialogue, and what a turn
-- decides is written whole or not at all.
--
-- Lock order: accounts (guard.sql), then recipients, then bot_state, each ascending. A claim never waits.

-- Updates of one account in the order in which they came: {"key", "kind", "as", "user"?, "address"?, "name"?, "dialogue"?,
-- "at"?, "body", "verdict"?}. `as` says whose they are: `person` writes, `left` has blocked the bot, `operator` answers in
-- the dialogue that is named, `decision` is one of people about a post that waits for them, `chat` and `chat_left` tell
-- where the bot is, `skip` is only written down.
-- A key that is known acts no more. NULL: too many wait already, and nothing was taken.
CREATE FUNCTION bot_receive(workspace_id bigint, account_id bigint, updates jsonb, owner text, cursor text, waiting_max bigint)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
-- The plan is made once for a session, perhaps while nothing was ever heard: it must not be one that reads the whole inbox.
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_material = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    ws      CONSTANT bigint := bot_receive.workspace_id;
    account CONSTANT bigint := bot_receive.account_id;
    at      timestamptz := rupor_now();
    of_platform text;
    ids     bigint[];
    fresh   bigint[];
    n       integer;
BEGIN
    PERFORM rupor_guard(ws);
    SELECT a.platform INTO of_platform FROM accounts AS a WHERE a.workspace_id = ws AND a.account_id = account;
    IF of_platform IS NULL THEN
        RAISE EXCEPTION 'account % is not known in this workspace', account
            USING ERRCODE = 'RU001', DETAIL = 'account', HINT = account::text;
    END IF;
    IF (SELECT count(*) FROM (SELECT FROM bot_inbox AS b WHERE b.done_at IS NULL LIMIT waiting_max) AS w) >= waiting_max THEN
        RETURN NULL;
    END IF;

    -- A repeat says nothing new of who is there either: somebody may have left since.
    updates := (SELECT coalesce(jsonb_agg(i.value ORDER BY i.ord), '[]')
                  FROM jsonb_array_elements(updates) WITH ORDINALITY AS i (value, ord)
                 WHERE NOT EXISTS (SELECT FROM bot_inbox AS b
                                    WHERE b.account_id = account AND b.event_key = i.value ->> 'key' AND b.workspace_id = ws));

    -- People. The row is locked whether it changes or not: what follows is in the order of their ids in the inbox.
    -- Who is gone and writes is back, unless he wrote before he left and it comes late.
    INSERT INTO recipients AS r (workspace_id, account_id, platform, user_id, address, attributes, status, status_why,
                                 status_at, source)
    SELECT ws, account, of_platform, u.user_id, u.address,
           CASE WHEN u.name IS NULL THEN '{}' ELSE jsonb_build_object('name', u.name) END,
           CASE WHEN u.has_left THEN 'gone' ELSE 'known' END, CASE WHEN u.has_left THEN 'blocked' END,
           least(bot_receive_now.at, u.at), 'bot'
      FROM (SELECT at) AS bot_receive_now
     CROSS JOIN LATERAL (
            SELECT x.user_id, (array_agg(x.address ORDER BY x.ord DESC))[1] AS address,
                   (array_agg(x.name ORDER BY x.ord DESC) FILTER (WHERE x.name IS NOT NULL))[1] AS name,
                   (array_agg(x.is = 'left' ORDER BY x.at DESC, x.ord DESC))[1] AS has_left, max(x.at) AS at
              FROM (SELECT i.value ->> 'user' AS user_id, i.value ->> 'address' AS address, i.value ->> 'name' AS name,
                           i.value ->> 'as' AS is, coalesce(rupor_time(i.value -> 'at'), bot_receive_now.at) AS at, i.ord
                      FROM jsonb_array_elements(updates) WITH ORDINALITY AS i (value, ord)
                     WHERE i.value ->> 'as' IN ('person', 'left')) AS x
             GROUP BY x.user_id) AS u
     ORDER BY u.user_id
    ON CONFLICT (account_id, user_id, workspace_id) DO UPDATE
       SET address = excluded.address,
           attributes = r.attributes || excluded.attributes,
           status = CASE WHEN excluded.status = 'gone' THEN 'gone' WHEN r.status = 'gone' THEN 'known' ELSE r.status END,
           status_why = CASE WHEN excluded.status = 'gone' THEN 'blocked' WHEN r.status = 'gone' THEN 'came back' ELSE r.status_why END,
           status_at = CASE WHEN (excluded.status = 'gone') <> (r.status = 'gone') THEN excluded.status_at ELSE r.status_at END,
           error_streak = CASE WHEN excluded.status <> 'gone' AND r.status = 'gone' THEN 0 ELSE r.error_streak END
     WHERE (r.address <> excluded.address OR NOT r.attributes @> excluded.attributes
            OR (excluded.status = 'gone') <> (r.status = 'gone'))
       AND (excluded.status_at >= r.status_at - interval '1 second' OR (excluded.status = 'gone') = (r.status = 'gone'));
    PERFORM FROM recipients AS r
      WHERE r.workspace_id = ws
        AND r.recipient_id IN (SELECT (i ->> 'dialogue')::bigint FROM jsonb_array_elements(updates) AS i WHERE i ->> 'as' = 'operator')
      ORDER BY r.recipient_id
        FOR NO KEY UPDATE;

    -- Ids are drawn under the locks, so in each dialogue they are in the order in which anybody can see them.
    ids := array(SELECT nextval('bot_inbox_inbox_id_seq') FROM generate_series(1, jsonb_array_length(updates)));
    WITH put AS (
        INSERT INTO bot_inbox (inbox_id, workspace_id, account_id, recipient_id, event_key, kind, body, happened_at, received_at,
                               done_at, verdict)
        SELECT ids[i.ord], ws, account,
               CASE i.value ->> 'as'
                   WHEN 'operator' THEN (SELECT r.recipient_id FROM recipients AS r
                                          WHERE r.workspace_id = ws AND r.recipient_id = (i.value ->> 'dialogue')::bigint)
                   ELSE (SELECT r.recipient_id FROM recipients AS r
                          WHERE r.account_id = account AND r.user_id = i.value ->> 'user' AND r.workspace_id = ws
                            AND i.value ->> 'as' IN ('person', 'left')) END,
               i.value ->> 'key', i.value ->> 'kind', i.value -> 'body',
               least(coalesce(rupor_time(i.value -> 'at'), bot_receive_now.at), bot_receive_now.at), bot_receive_now.at,
               CASE WHEN v.verdict IS NOT NULL THEN bot_receive_now.at END, v.verdict
          FROM (SELECT at) AS bot_receive_now
         CROSS JOIN jsonb_array_elements(updates) WITH ORDINALITY AS i (value, ord)
         -- An answer of people that names nobody waits for nobody.
         CROSS JOIN LATERAL (
                SELECT CASE WHEN i.value ->> 'as' IN ('person', 'left', 'decision') THEN NULL
                            WHEN i.value ->> 'as' <> 'operator' THEN coalesce(i.value ->> 'verdict', i.value ->> 'as')
                            WHEN NOT EXISTS (SELECT FROM recipients AS r
                                              WHERE r.workspace_id = ws AND r.recipient_id = (i.value ->> 'dialogue')::bigint)
                            THEN 'answer to nobody' END AS verdict) AS v
         ORDER BY i.value ->> 'key'
        ON CONFLICT DO NOTHING
        RETURNING inbox_id, recipient_id, done_at
    )
    SELECT count(*), array_agg(DISTINCT p.recipient_id) FILTER (WHERE p.recipient_id IS NOT NULL AND p.done_at IS NULL)
      INTO n, fresh
      FROM put AS p;

    -- While a turn is being taken due_at is its lease, and stays; who commits the turn sees what came meanwhile.
    INSERT INTO bot_state AS s (recipient_id, workspace_id, account_id, due_at, updated_at)
    SELECT r.recipient_id, ws, r.account_id, at, at FROM recipients AS r WHERE r.recipient_id = ANY (fresh) ORDER BY r.recipient_id
    ON CONFLICT (recipient_id) DO UPDATE
       SET due_at = least(s.due_at, excluded.due_at)
     WHERE s.due_at > excluded.due_at AND s.token IS NULL;

    INSERT INTO bot_chats AS c (workspace_id, account_id, chat, title, seen_at, left_at)
    SELECT DISTINCT ON (i.value ->> 'address')
           ws, account, i.value ->> 'address', i.value ->> 'name', at, CASE WHEN i.value ->> 'as' = 'chat_left' THEN at END
      FROM jsonb_array_elements(updates) WITH ORDINALITY AS i (value, ord)
     WHERE i.value ->> 'as' IN ('chat', 'chat_left') AND i.value ->> 'address' IS NOT NULL
     ORDER BY i.value ->> 'address', i.ord DESC
    ON CONFLICT (account_id, chat) DO UPDATE
       SET title = coalesce(excluded.title, c.title), seen_at = excluded.seen_at, left_at = excluded.left_at;

    UPDATE bot_accounts AS b
       SET heard_at = at, problem = NULL,
           cursor = CASE WHEN bot_receive.owner IS NOT NULL AND b.owner = bot_receive.owner THEN bot_receive.cursor ELSE b.cursor END
     WHERE b.account_id = account AND b.workspace_id = ws
       AND (bot_receive.owner IS NOT NULL OR n > 0);
    RETURN coalesce(n, 0);
END $$;

-- Dialogues that are due, each with what waits in it. They are locked first and their events are read in a later
-- statement: in one statement the events would be those of before the lock, which another node may just have finished.
CREATE FUNCTION bot_claim_turns(
    "limit" integer, lease_us bigint, events_max integer,
    OUT workspace_id bigint, OUT account_id bigint, OUT recipient_id bigint, OUT bot_id bigint, OUT operators_id bigint,
    OUT rules_version integer, OUT platform text, OUT user_id text, OUT attributes jsonb, OUT token uuid, OUT version integer,
    OUT mode text, OUT state jsonb, OUT timer_at timestamptz, OUT events jsonb
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at      timestamptz := rupor_now();
    claimed bigint[];
BEGIN
    PERFORM rupor_guard(NULL);
    WITH due AS MATERIALIZED (
        SELECT s.recipient_id FROM bot_state AS s
         WHERE s.due_at <= at AND s.due_at < 'infinity'
         ORDER BY s.due_at, s.recipient_id
         LIMIT "limit"
           FOR NO KEY UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE bot_state AS s
           SET token = gen_random_uuid(), due_at = at + rupor_span(lease_us)
          FROM due AS d
         WHERE s.recipient_id = d.recipient_id
        RETURNING s.recipient_id
    )
    SELECT array_agg(m.recipient_id) INTO claimed FROM mine AS m;
    RETURN QUERY
    SELECT s.workspace_id, s.account_id, s.recipient_id, b.bot_id, b.operators_id, coalesce(b.active_version, 0), r.platform,
           r.user_id, r.attributes, s.token, s.version, s.mode, s.state, s.timer_at,
           coalesce((SELECT jsonb_agg(jsonb_build_object(
                                'inbox_id', e.inbox_id, 'account_id', e.account_id, 'kind', e.kind, 'body', e.body,
                                'happened_at', rupor_micros(e.happened_at), 'received_at', rupor_micros(e.received_at))
                                ORDER BY e.inbox_id)
                       FROM (SELECT i.* FROM bot_inbox AS i
                              WHERE i.recipient_id = s.recipient_id AND i.done_at IS NULL
                              ORDER BY i.inbox_id
                              LIMIT events_max) AS e), '[]')
      FROM unnest(claimed) AS c (recipient_id)
      JOIN bot_state AS s ON s.recipient_id = c.recipient_id
      JOIN recipients AS r ON r.recipient_id = c.recipient_id
      LEFT JOIN bot_accounts AS l ON l.account_id = s.account_id
      LEFT JOIN bots AS b ON b.bot_id = l.bot_id
     ORDER BY s.recipient_id;
END $$;

-- When the next dialogue is due; NULL: none will be by itself.
CREATE FUNCTION bot_next_turn() RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_guard(NULL);
    RETURN (SELECT s.due_at FROM bot_state AS s WHERE s.due_at < 'infinity' ORDER BY s.due_at LIMIT 1);
END $$;

-- What people decided about posts and nobody has carried out, in order. A decision acts once however often it is carried
-- out, so nothing is claimed. Who waits for nobody's turn is in nobody's dialogue.
CREATE FUNCTION bot_decisions(
    "limit" integer, OUT workspace_id bigint, OUT account_id bigint, OUT inbox_id bigint, OUT body jsonb
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(NULL);
    RETURN QUERY
    SELECT i.workspace_id, i.account_id, i.inbox_id, i.body FROM bot_inbox AS i
     WHERE i.recipient_id IS NULL AND i.done_at IS NULL
     ORDER BY i.inbox_id
     LIMIT "limit";
END $$;

-- A decision was carried out, with this end. False: somebody has said so before.
CREATE FUNCTION bot_decided(workspace_id bigint, inbox_id bigint, verdict text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(bot_decided.workspace_id);
    UPDATE bot_inbox AS i
       SET done_at = rupor_now(), verdict = bot_decided.verdict
     WHERE i.workspace_id = bot_decided.workspace_id AND i.inbox_id = bot_decided.inbox_id AND i.recipient_id IS NULL
       AND i.done_at IS NULL;
    RETURN FOUND;
END $$;

-- Turns that were taken: {"recipient_id", "token", "version", "rules_version", "mode", "state", "timer_at", "fired", "status",
-- "status_why", "rate", "ambiguity", "events": [{"inbox_id", "verdict"}], "says": [{"event", "n", "channel"?, "message"}],
-- "calls"?: [{"event", "n", "service", "fields"}], "logs": [{"event", "rule", "verdict", "detail"}]}. `event` is the place of the event in `events`; of a timer that fired, the
-- place after the last. False, in order: the turn is not this caller's any more, and nothing of it was written.
CREATE FUNCTION bot_commit_turns(workspace_id bigint, turns jsonb) RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    ws       CONSTANT bigint := bot_commit_turns.workspace_id;
    at       timestamptz := rupor_now();
    people   bigint[];
    accounts bigint[];
    -- the turns that are their callers', in order: place, item, and the event of a timer that fired
    kept     integer[];
    taken    jsonb[];
    timers   bigint[];
    turn     jsonb;
BEGIN
    PERFORM rupor_guard(ws);
    people := array(SELECT DISTINCT (t ->> 'recipient_id')::bigint AS id FROM jsonb_array_elements(turns) AS t ORDER BY id);
    accounts := array(
        SELECT r.account_id FROM recipients AS r WHERE r.workspace_id = ws AND r.recipient_id = ANY (people)
        UNION
        SELECT c.account_id
          FROM jsonb_array_elements(turns) AS t
         CROSS JOIN LATERAL jsonb_array_elements(t -> 'says') AS s
          JOIN channels AS c ON c.channel_id = (s ->> 'channel')::bigint AND c.workspace_id = ws);
    PERFORM rupor_lock_accounts(accounts);
    PERFORM FROM recipients AS r WHERE r.recipient_id = ANY (people) ORDER BY r.recipient_id FOR NO KEY UPDATE;
    PERFORM FROM bot_state AS s WHERE s.recipient_id = ANY (people) ORDER BY s.recipient_id FOR NO KEY UPDATE;

    SELECT array_agg(k.ord ORDER BY k.ord), array_agg(k.value ORDER BY k.ord),
           array_agg(CASE WHEN (k.value ->> 'fired')::boolean THEN nextval('bot_inbox_inbox_id_seq') END ORDER BY k.ord)
      INTO kept, taken, timers
      FROM (SELECT DISTINCT ON (s.recipient_id) t.ord, t.value
              FROM jsonb_array_elements(turns) WITH ORDINALITY AS t (value, ord)
              JOIN bot_state AS s ON s.recipient_id = (t.value ->> 'recipient_id')::bigint
             WHERE s.workspace_id = ws AND s.token = (t.value ->> 'token')::uuid AND s.version = (t.value ->> 'version')::integer
               AND (SELECT count(DISTINCT i.inbox_id)
                      FROM jsonb_array_elements(t.value -> 'events') AS e
                      JOIN bot_inbox AS i ON i.inbox_id = (e ->> 'inbox_id')::bigint
                     WHERE i.recipient_id = s.recipient_id AND i.done_at IS NULL) = jsonb_array_length(t.value -> 'events')
             ORDER BY s.recipient_id, t.ord) AS k;
    IF kept IS NULL THEN
        RETURN array(SELECT false FROM jsonb_array_elements(turns));
    END IF;

    UPDATE bot_inbox AS i
       SET done_at = at, verdict = e.verdict
      FROM unnest(taken) AS t (value)
     CROSS JOIN LATERAL jsonb_to_recordset(t.value -> 'events') AS e (inbox_id bigint, verdict text)
     WHERE i.inbox_id = e.inbox_id;
    INSERT INTO bot_inbox (inbox_id, workspace_id, account_id, recipient_id, event_key, kind, happened_at, received_at, done_at, verdict)
    SELECT t.timer, ws, s.account_id, s.recipient_id, concat('timer:', s.recipient_id, ':', s.version), 'timer', at, at, at, 'timer'
      FROM unnest(taken, timers) AS t (value, timer)
      JOIN bot_state AS s ON s.recipient_id = (t.value ->> 'recipient_id')::bigint
     WHERE t.timer IS NOT NULL;
    -- Few of many subscribe or stop, and whoever stops is taken out of the queues one at a time.
    FOREACH turn IN ARRAY taken LOOP
        CONTINUE WHEN turn ->> 'status' IS NULL;
        UPDATE recipients AS r
           SET status = turn ->> 'status', status_why = turn ->> 'status_why', status_at = at
         WHERE r.recipient_id = (turn ->> 'recipient_id')::bigint AND r.status <> turn ->> 'status' AND r.status <> 'gone';
        IF turn ->> 'status' <> 'active' THEN
            PERFORM rupor_leave_alone(ws, (turn ->> 'recipient_id')::bigint, 'stopped');
        END IF;
    END LOOP;
    INSERT INTO bot_logs (workspace_id, account_id, recipient_id, inbox_id, at, version, rule, verdict, detail)
    SELECT ws, s.account_id, s.recipient_id, rupor_bot_event(t.value, t.timer, (l.value ->> 'event')::integer), at,
           (t.value ->> 'rules_version')::integer, l.value ->> 'rule', l.value ->> 'verdict', coalesce(l.value -> 'detail', '{}')
      FROM unnest(taken, timers) WITH ORDINALITY AS t (value, timer, ord)
      JOIN bot_state AS s ON s.recipient_id = (t.value ->> 'recipient_id')::bigint
     CROSS JOIN LATERAL jsonb_array_elements(t.value -> 'logs') WITH ORDINALITY AS l (value, ord)
     ORDER BY t.ord, l.ord;
    PERFORM rupor_bot_say(ws, at, accounts, taken, timers);
    INSERT INTO bot_outbox (workspace_id, recipient_id, inbox_id, n, kind, created_at, bot_id, service, fields, status, due_at)
    SELECT ws, s.recipient_id, rupor_bot_event(t.value, t.timer, (c.value ->> 'event')::integer), (c.value ->> 'n')::integer, 'call',
           at, (SELECT b.bot_id FROM bot_accounts AS b WHERE b.account_id = s.account_id), c.value ->> 'service',
           coalesce(c.value -> 'fields', '{}'), 'waiting', at
      FROM unnest(taken, timers) WITH ORDINALITY AS t (value, timer, ord)
      JOIN bot_state AS s ON s.recipient_id = (t.value ->> 'recipient_id')::bigint
     CROSS JOIN LATERAL jsonb_array_elements(t.value -> 'calls') WITH ORDINALITY AS c (value, ord)
     ORDER BY t.ord, c.ord;
    UPDATE bot_state AS s
       SET version = s.version + 1, mode = t.value ->> 'mode', state = t.value -> 'state', timer_at = rupor_time(t.value -> 'timer_at'),
           token = NULL, updated_at = at,
           due_at = CASE WHEN EXISTS (SELECT FROM bot_inbox AS i WHERE i.recipient_id = s.recipient_id AND i.done_at IS NULL) THEN at
                         ELSE coalesce(rupor_time(t.value -> 'timer_at'), 'infinity') END
      FROM unnest(taken) AS t (value)
     WHERE s.recipient_id = (t.value ->> 'recipient_id')::bigint;
    RETURN array(SELECT t.ord = ANY (kept) FROM generate_series(1, jsonb_array_length(turns)) AS t (ord) ORDER BY t.ord);
END $$;

-- The event at a place of a turn; after the last one stands the timer that fired.
CREATE FUNCTION rupor_bot_event(turn jsonb, timer bigint, place integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce((turn -> 'events' -> place ->> 'inbox_id')::bigint, timer)
$$;

-- What turns say: replies at the end of their dialogues' lanes, forwards like any other message. Everything is locked.
-- Nobody hears it where the person is gone or the operators' channel was removed meanwhile; the dialogue goes on.
CREATE FUNCTION rupor_bot_say(ws bigint, at timestamptz, accounts bigint[], taken jsonb[], timers bigint[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    today    CONSTANT timestamptz := rupor_bot_say.at;
    past     text;
    -- the says in order: whose, on which account, the event and its number, what, whether anybody is there, its delivery
    s_who      bigint[];
    s_account  bigint[];
    s_event    bigint[];
    s_n        integer[];
    s_channel  bigint[];
    s_item     jsonb[];
    s_turn     jsonb[];
    s_heard    boolean[];
    s_delivery bigint[];
    made       jsonb;
    m          rupor_moves;
BEGIN
    SELECT array_agg(s.recipient_id ORDER BY t.ord, w.ord), array_agg(s.account_id ORDER BY t.ord, w.ord),
           array_agg(rupor_bot_event(t.value, t.timer, (w.value ->> 'event')::integer) ORDER BY t.ord, w.ord),
           array_agg((w.value ->> 'n')::integer ORDER BY t.ord, w.ord),
           array_agg((w.value ->> 'channel')::bigint ORDER BY t.ord, w.ord),
           array_agg(w.value -> 'message' ORDER BY t.ord, w.ord),
           array_agg(jsonb_build_object('rate', t.value -> 'rate', 'ambiguity', t.value -> 'ambiguity') ORDER BY t.ord, w.ord),
           array_agg(CASE WHEN w.value ->> 'channel' IS NULL THEN r.status <> 'gone'
                          ELSE EXISTS (SELECT FROM channels AS c
                                        WHERE c.channel_id = (w.value ->> 'channel')::bigint AND c.workspace_id = ws
                                          AND c.removed_at IS NULL) END
                     ORDER BY t.ord, w.ord)
      INTO s_who, s_account, s_event, s_n, s_channel, s_item, s_turn, s_heard
      FROM unnest(taken, timers) WITH ORDINALITY AS t (value, timer, ord)
      JOIN bot_state AS s ON s.recipient_id = (t.value ->> 'recipient_id')::bigint
      JOIN recipients AS r ON r.recipient_id = s.recipient_id
     CROSS JOIN LATERAL jsonb_array_elements(t.value -> 'says') WITH ORDINALITY AS w (value, ord);
    IF s_who IS NULL THEN
        RETURN;
    END IF;

    -- Replies: a lane for each dialogue that has none, then message, delivery and place in the queue.
    SELECT c.history INTO past FROM control AS c;
    INSERT INTO lane_heads (workspace_id, account_id, recipient_id, max_parallel, interval_us, ambiguity, served_at)
    SELECT DISTINCT ON (w.who) ws, w.account, w.who, 1, rupor_interval_us((w.turn ->> 'rate')::double precision),
           w.turn ->> 'ambiguity', today
      FROM unnest(s_who, s_account, s_channel, s_heard, s_turn) AS w (who, account, channel, heard, turn)
     WHERE w.channel IS NULL AND w.heard AND NOT EXISTS (SELECT FROM lane_heads AS h WHERE h.recipient_id = w.who)
     ORDER BY w.who;
    s_delivery := array(SELECT CASE WHEN w.channel IS NULL AND w.heard THEN nextval('deliveries_delivery_id_seq') END
                          FROM unnest(s_channel, s_heard) WITH ORDINALITY AS w (channel, heard, ord) ORDER BY w.ord);
    WITH said AS MATERIALIZED (
        SELECT w.ord, w.who, w.account, w.item, w.delivery, nextval('messages_message_id_seq') AS message, h.lane_id
          FROM unnest(s_who, s_account, s_item, s_delivery) WITH ORDINALITY AS w (who, account, item, delivery, ord)
          JOIN lane_heads AS h ON h.recipient_id = w.who
         WHERE w.delivery IS NOT NULL
    ), worded AS (
        INSERT INTO messages (message_id, workspace_id, source, origin_id, request_hash, payload, content_hash, hash_version, kind,
                              last_seen_at, created_at)
        SELECT w.message, ws, w.item ->> 'source', w.item ->> 'origin_id', w.item ->> 'request_hash', w.item -> 'payload',
               w.item ->> 'content_hash', 1, w.item ->> 'kind', today, today
          FROM said AS w
    ), made AS (
        INSERT INTO deliveries (delivery_id, workspace_id, lane_id, account_id, recipient_id, message_id, revision, priority,
                                status, run_at, position, idempotency_key, queued_at)
        SELECT w.delivery, ws, w.lane_id, w.account, w.who, w.message, 1, 0, 'queued', today, w.delivery,
               rupor_key(past, w.delivery, w.item ->> 'request_hash', w.item ->> 'content_hash', 1), today
          FROM said AS w
    ), waiting AS (
        INSERT INTO ready (lane_id, priority, position, delivery_id, workspace_id, run_at)
        SELECT w.lane_id, 0, w.delivery, w.delivery, ws, today FROM said AS w
    ), told AS (
        INSERT INTO events (workspace_id, at, name, message_id, account_id, detail)
        SELECT ws, today, 'enqueued', w.message, w.account, jsonb_build_object('deliveries', 1, 'lane', w.lane_id)
          FROM said AS w
         ORDER BY w.ord
    )
    SELECT array_agg(l.lane_id ORDER BY l.lane_id), array_agg(l.n ORDER BY l.lane_id)
      INTO m.lane_id, m.queued
      FROM (SELECT w.lane_id, count(*) AS n FROM said AS w GROUP BY w.lane_id) AS l;
    IF m.lane_id IS NOT NULL THEN
        PERFORM rupor_move_lanes(m, NULL);
        PERFORM rupor_refresh_accounts(accounts);
    END IF;

    -- Forwards.
    SELECT enqueue_messages_and_deliveries(ws, jsonb_agg(w.item ORDER BY w.ord)) INTO made
      FROM unnest(s_item, s_channel, s_heard) WITH ORDINALITY AS w (item, channel, heard, ord)
     WHERE w.channel IS NOT NULL AND w.heard
    HAVING count(*) > 0;

    INSERT INTO bot_outbox (workspace_id, recipient_id, inbox_id, n, kind, delivery_id, created_at)
    SELECT ws, w.who, w.event, w.n, CASE WHEN w.channel IS NULL THEN 'reply' ELSE 'forward' END,
           coalesce(w.delivery, CASE WHEN w.channel IS NOT NULL AND w.heard
                                     THEN (made -> (w.forward - 1)::integer #>> '{deliveries,0,delivery_id}')::bigint END),
           today
      FROM (SELECT x.*, count(*) FILTER (WHERE x.channel IS NOT NULL AND x.heard) OVER (ORDER BY x.ord) AS forward
              FROM unnest(s_who, s_event, s_n, s_channel, s_heard, s_delivery) WITH ORDINALITY
                   AS x (who, event, n, channel, heard, delivery, ord)) AS w
     ORDER BY w.ord;
END $$;

-- Accounts that somebody should listen to, and nobody does: one node polls an account at a time.
CREATE FUNCTION bot_lease_accounts(
    owner text, lease_us bigint, "limit" integer, OUT workspace_id bigint, OUT account_id bigint, OUT cursor text
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM rupor_guard(NULL);
    RETURN QUERY
    UPDATE bot_accounts AS b
       SET owner = bot_lease_accounts.owner, leased_until = rupor_now() + rupor_span(lease_us)
     WHERE b.account_id IN (SELECT l.account_id FROM bot_accounts AS l
                             WHERE l.bot_id IS NOT NULL AND l.receive = 'poll' AND l.leased_until <= rupor_now()
                             ORDER BY l.leased_until, l.account_id
                             LIMIT "limit"
                               FOR UPDATE SKIP LOCKED)
    RETURNING b.workspace_id, b.account_id, b.cursor;
END $$;

-- The account whose webhook has this address; who calls proves himself by the secret.
CREATE FUNCTION bot_hook(key text) RETURNS SETOF bot_accounts
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    RETURN QUERY SELECT b.* FROM bot_accounts AS b WHERE b.hook_key = bot_hook.key AND b.receive = 'webhook' AND b.bot_id IS NOT NULL;
END $$;

-- How the bots of a workspace do, in numbers that are cheap to ask for.
CREATE FUNCTION bot_snapshot(
    workspace_id bigint, since interval, counted_max bigint,
    OUT waiting bigint, OUT oldest timestamptz, OUT handoffs bigint, OUT handoffs_waiting bigint, OUT handoff_since timestamptz,
    OUT turns bigint, OUT fallbacks bigint, OUT errors bigint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws CONSTANT bigint := bot_snapshot.workspace_id;
BEGIN
    PERFORM rupor_guard(ws);
    SELECT count(*), min(w.received_at) INTO waiting, oldest
      FROM (SELECT i.received_at FROM bot_inbox AS i WHERE i.done_at IS NULL AND i.workspace_id = ws LIMIT counted_max) AS w;
    SELECT count(*), count(h.since), rupor_time(to_jsonb(min(h.since))) INTO handoffs, handoffs_waiting, handoff_since
      FROM (SELECT (s.state ->> 'waits_since')::bigint AS since
              FROM bot_state AS s WHERE s.workspace_id = ws AND s.mode = 'human' LIMIT counted_max) AS h;
    SELECT count(*), count(*) FILTER (WHERE l.verdict = 'fallback'), count(*) FILTER (WHERE l.verdict = 'error')
      INTO turns, fallbacks, errors
      FROM (SELECT x.verdict, x.at FROM bot_logs AS x WHERE x.workspace_id = ws ORDER BY x.log_id DESC LIMIT counted_max) AS l
     WHERE l.at > rupor_now() - since;
END $$;

-- Erases a person: what they wrote, where their dialogue stood, what was said to them, and who they were. False: not known.
CREATE FUNCTION bot_forget(workspace_id bigint, account_id bigint, user_id text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws  CONSTANT bigint := bot_forget.workspace_id;
    who bigint;
BEGIN
    PERFORM rupor_guard(ws);
    PERFORM rupor_lock_accounts(ARRAY[bot_forget.account_id]);
    SELECT r.recipient_id INTO who FROM recipients AS r
     WHERE r.workspace_id = ws AND r.account_id = bot_forget.account_id AND r.user_id = bot_forget.user_id
       FOR NO KEY UPDATE;
    IF who IS NULL THEN
        RETURN false;
    END IF;
    PERFORM cancel_deliveries(ws, array(
        SELECT d.delivery_id FROM deliveries AS d
         WHERE d.workspace_id = ws AND d.recipient_id = who AND d.status IN ('queued', 'retry')));
    DELETE FROM bot_logs AS l WHERE l.recipient_id = who;
    DELETE FROM bot_outbox AS o WHERE o.recipient_id = who;
    DELETE FROM bot_inbox AS i WHERE i.recipient_id = who AND i.done_at IS NULL;
    DELETE FROM bot_inbox AS i WHERE i.recipient_id = who AND i.done_at IS NOT NULL;
    DELETE FROM bot_state AS s WHERE s.recipient_id = who;
    UPDATE messages AS m SET payload = '{"text": ""}' WHERE m.workspace_id = ws AND m.source = concat('bot:', who);
    UPDATE recipients AS r
       SET user_id = concat('forgotten:', who), address = concat('forgotten:', who), attributes = '{}', time_zone = NULL,
           status = 'gone', status_why = 'forgotten', status_at = rupor_now()
     WHERE r.recipient_id = who;
    UPDATE campaign_recipients AS m SET user_id = concat('forgotten:', who) WHERE m.recipient_id = who;
    RETURN true;
END $$;

-- Bodies go after a while, keys and logs after longer. One step: looks at "limit" rows of each kind from where the walk stands,
-- so that what was never answered is passed over and keeps nothing behind it; null where a lap has come to what is young.
CREATE FUNCTION bot_retain(
    keep_text interval, keep_keys interval, "limit" integer, words bigint, keys bigint,
    OUT changed bigint, OUT next_words bigint, OUT next_keys bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    today   timestamptz := rupor_now();
    old     bigint[];
    last    bigint;
    is_over boolean;
    n       bigint;
BEGIN
    PERFORM rupor_guard(NULL);
    changed := 0;
    IF words IS NOT NULL THEN
        SELECT array_agg(l.inbox_id) FILTER (WHERE l.done_at IS NOT NULL AND l.received_at < today - keep_text),
               max(l.inbox_id), count(*) < "limit" OR max(l.received_at) >= today - keep_text
          INTO old, last, is_over
          FROM (SELECT i.inbox_id, i.done_at, i.received_at FROM bot_inbox AS i
                 WHERE i.body IS NOT NULL AND i.inbox_id > words
                 ORDER BY i.inbox_id LIMIT "limit") AS l;
        UPDATE bot_inbox AS i SET body = NULL WHERE i.inbox_id = ANY (old);
        GET DIAGNOSTICS changed = ROW_COUNT;
        next_words := CASE WHEN NOT is_over THEN last END;
    END IF;

    -- These are never needed longer than others, so the oldest are always the first.
    DELETE FROM bot_outbox AS o
     WHERE o.outbox_id IN (SELECT x.outbox_id
                             FROM (SELECT y.outbox_id, y.created_at FROM bot_outbox AS y ORDER BY y.outbox_id LIMIT "limit") AS x
                            WHERE x.created_at < today - keep_keys);
    GET DIAGNOSTICS n = ROW_COUNT;
    changed := changed + n;
    DELETE FROM bot_logs AS l
     WHERE l.log_id IN (SELECT x.log_id FROM (SELECT y.log_id, y.at FROM bot_logs AS y ORDER BY y.log_id LIMIT "limit") AS x
                         WHERE x.at < today - keep_keys);
    GET DIAGNOSTICS n = ROW_COUNT;
    changed := changed + n;

    IF keys IS NOT NULL THEN
        SELECT array_agg(l.inbox_id) FILTER (WHERE l.done_at IS NOT NULL AND l.received_at < today - keep_keys),
               max(l.inbox_id), count(*) < "limit" OR max(l.received_at) >= today - keep_keys
          INTO old, last, is_over
          FROM (SELECT i.inbox_id, i.done_at, i.received_at FROM bot_inbox AS i
                 WHERE i.inbox_id > keys
                 ORDER BY i.inbox_id LIMIT "limit") AS l;
        DELETE FROM bot_inbox AS i WHERE i.inbox_id = ANY (old);
        GET DIAGNOSTICS n = ROW_COUNT;
        changed := changed + n;
        next_keys := CASE WHEN NOT is_over THEN last END;
    END IF;
END $$;
