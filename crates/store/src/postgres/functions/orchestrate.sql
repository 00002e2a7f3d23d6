-- Whole steps for another orchestrator: it triggers, calls one of these, calls the adapter over HTTP, and commits.
-- No twin: nobody but its own node can claim from a SQLite file.
--
-- Nothing here has a rule of its own. A step claims, begins, takes in or raises by the functions that nodes call, so both
-- may work on one database at the same time.

-- -- sending: dispatcher_tick, then POST /v1/adapter/send (which calls begin_send), then commit_outcomes

-- Ends leases that are over and claims what is due, of everybody. Ticks that overlap do not stand in each other's way: who
-- comes while another one claims gets nothing. What nobody begins to send is merely lost when its lease ends.
CREATE FUNCTION dispatcher_tick(
    run_id text, "limit" integer DEFAULT 20, OUT workspace_id bigint, OUT delivery_id bigint, OUT claim_token uuid
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('rupor dispatcher tick', 0)) THEN
        RETURN;
    END IF;
    PERFORM recover_leases(NULL);
    RETURN QUERY
    SELECT c.workspace_id, c.delivery_id, c.claim_token
      FROM claim_deliveries(NULL, dispatcher_tick.run_id, "limit", 0, true) AS c;
END $$;

-- Says that a request is about to leave, once for each claim. No row: the claim is not the caller's any more. `begun` false:
-- somebody has begun it before, so nobody knows whether it was said, and whoever asks must not send.
CREATE FUNCTION begin_send(
    workspace_id bigint, delivery_id bigint, claim_token uuid, OUT begun boolean, OUT claim claimed_delivery
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at   timestamptz := rupor_now();
    held inflight;
BEGIN
    PERFORM rupor_guard(begin_send.workspace_id);
    SELECT i.* INTO held
      FROM deliveries AS d
      JOIN inflight AS i ON i.account_id = d.account_id AND i.lane_id = d.lane_id AND i.delivery_id = d.delivery_id
     WHERE d.delivery_id = begin_send.delivery_id AND d.workspace_id = begin_send.workspace_id
       AND i.claim_token = begin_send.claim_token AND i.lease_until > at
       FOR NO KEY UPDATE OF i;
    IF held.delivery_id IS NULL THEN
        RETURN;
    END IF;
    UPDATE inflight AS i
       SET requested_at = at
     WHERE i.account_id = held.account_id AND i.lane_id = held.lane_id AND i.delivery_id = held.delivery_id
       AND i.requested_at IS NULL;
    begun := FOUND;
    SELECT d.delivery_id, d.workspace_id, d.lane_id, d.account_id, d.channel_id, d.recipient_id, d.message_id, d.revision,
           d.action, d.target_delivery, d.status, d.claim_token, d.claim_seq, d.attempt, d.charged, d.flood_waits,
           d.not_ready_waits, d.unknowns, d.lost_claims, d.lost_requests, d.flood_since, held.slot_at, held.lease_until, d.parts,
           d.idempotency_key, held.claimed_at, d.campaign_id, (SELECT h.paid FROM lane_heads AS h WHERE h.lane_id = d.lane_id)
      INTO claim
      FROM deliveries AS d
     WHERE d.delivery_id = held.delivery_id;
    RETURN NEXT;
END $$;

-- -- taking in: begin_ingest, then POST /v1/analyse, then finish_ingest

-- Opens the door that a secret opens (by its SHA-256: secrets do not belong into statements) and reserves the key of the
-- call. `state`, and what to answer over HTTP:
--   new       202  go on; `base` names posts that have no id of their own
--   repeat    202  done before: `answer` is what was answered then
--   conflict  422  the key was used for another body
--   refused   401  no endpoint of this workspace has that secret
CREATE FUNCTION begin_ingest(
    secret_hash text, key text, body_hash text,
    OUT state text, OUT status integer, OUT workspace_id bigint, OUT endpoint_id bigint, OUT source text, OUT base text,
    OUT run_id bigint, OUT answer jsonb
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    door   workspace_endpoints;
    before ingress_receipts;
BEGIN
    SELECT e.* INTO door FROM endpoint_by_secret(begin_ingest.secret_hash) AS e WHERE e.kind = 'push';
    IF door.endpoint_id IS NULL OR rupor_workspace() <> door.workspace_id THEN
        state := 'refused';
        status := 401;
        answer := '{"error": {"code": "unauthorized", "message": "give the secret of an endpoint as Authorization: Bearer …"}}';
        RETURN;
    END IF;
    PERFORM rupor_guard(door.workspace_id);
    state := 'new';
    status := 202;
    workspace_id := door.workspace_id;
    endpoint_id := door.endpoint_id;
    source := 'push:' || door.name;
    base := coalesce(left(encode(sha256(convert_to(begin_ingest.key, 'UTF8')), 'hex'), 16) || '-' || left(begin_ingest.body_hash, 16),
                     replace(gen_random_uuid()::text, '-', ''));
    IF begin_ingest.key IS NOT NULL THEN
        INSERT INTO ingress_receipts (workspace_id, endpoint_id, key, request_hash, response, received_at)
        VALUES (door.workspace_id, door.endpoint_id, begin_ingest.key, begin_ingest.body_hash, '{}', rupor_now())
        ON CONFLICT DO NOTHING;
        SELECT r.* INTO before
          FROM ingress_receipts AS r
         WHERE r.workspace_id = door.workspace_id AND r.endpoint_id = door.endpoint_id AND r.key = begin_ingest.key;
        IF before.request_hash <> begin_ingest.body_hash THEN
            state := 'conflict';
            status := 422;
            answer := '{"error": {"code": "idempotency_conflict", "message": "this Idempotency-Key was used for another body; draw a new key for each new call"}}';
            INSERT INTO events (workspace_id, at, name, detail)
            VALUES (door.workspace_id, rupor_now(), 'ingress_rejected',
                    jsonb_build_object('endpoint', door.endpoint_id, 'why', 'the idempotency key was used for another body'));
            RETURN;
        ELSIF before.response ? 'accepted' THEN
            state := 'repeat';
            answer := before.response;
            RETURN;
        END IF;
    END IF;
    INSERT INTO ingest_runs (workspace_id, source, started_at)
    VALUES (door.workspace_id, begin_ingest.source, rupor_now())
    RETURNING ingest_runs.run_id INTO begin_ingest.run_id;
END $$;

-- Messages, deliveries, the end of the run and the answer to the key, together or not at all. Called again it gives the same.
CREATE FUNCTION finish_ingest(workspace_id bigint, endpoint_id bigint, run_id bigint, key text, items jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws     CONSTANT bigint := finish_ingest.workspace_id;
    made   jsonb;
    answer jsonb;
BEGIN
    PERFORM rupor_guard(ws);
    PERFORM FROM ingest_runs AS r WHERE r.workspace_id = ws AND r.run_id = finish_ingest.run_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % is not known in this workspace', finish_ingest.run_id
            USING ERRCODE = 'RU001', DETAIL = 'run', HINT = finish_ingest.run_id::text;
    END IF;
    made := enqueue_messages_and_deliveries(ws, items);
    SELECT jsonb_build_object('accepted', coalesce(jsonb_agg(jsonb_build_object(
               'message_id', m.value -> 'message_id', 'origin_id', items -> (m.ord - 1)::integer -> 'origin_id') ORDER BY m.ord), '[]'))
      INTO answer
      FROM jsonb_array_elements(made) WITH ORDINALITY AS m (value, ord);
    UPDATE ingest_runs AS r
       SET finished_at = rupor_now(), seen = c.seen, stored = c.stored, skipped = c.skipped, enqueued = c.enqueued
      FROM (SELECT count(*) AS seen, count(*) FILTER (WHERE (m.value ->> 'created')::boolean) AS stored,
                   count(*) FILTER (WHERE (m.value ->> 'created')::boolean AND items -> (m.ord - 1)::integer ->> 'skipped' IS NOT NULL) AS skipped,
                   coalesce(sum((SELECT count(*) FROM jsonb_array_elements(m.value -> 'deliveries') AS d WHERE d ->> 'status' = 'queued')), 0) AS enqueued
              FROM jsonb_array_elements(made) WITH ORDINALITY AS m (value, ord)) AS c
     WHERE r.workspace_id = ws AND r.run_id = finish_ingest.run_id AND r.finished_at IS NULL;
    UPDATE ingress_receipts AS r
       SET response = answer
     WHERE r.workspace_id = ws AND r.endpoint_id = finish_ingest.endpoint_id AND r.key = finish_ingest.key;
    RETURN answer;
END $$;

-- -- the bot: POST /v1/bot/read, then bot_hear; bot_tick, then POST /v1/bot/decide, then bot_commit_turns

-- NULL: too many wait, and nothing was taken.
CREATE FUNCTION bot_hear(workspace_id bigint, account_id bigint, updates jsonb) RETURNS integer
LANGUAGE sql VOLATILE AS $$
    SELECT bot_receive(workspace_id, account_id, updates, NULL, NULL, rupor_rule_bot_waiting_max())
$$;

-- Dialogues that are due, as `/v1/bot/decide` wants them. The lease is that of a delivery: there is a network between.
CREATE FUNCTION bot_tick("limit" integer DEFAULT 20, OUT workspace_id bigint, OUT turn jsonb) RETURNS SETOF record
LANGUAGE sql VOLATILE AS $$
    SELECT t.workspace_id, to_jsonb(t) || jsonb_build_object('timer_at', rupor_micros(t.timer_at))
      FROM bot_claim_turns("limit", rupor_rule_lease_us(), rupor_rule_bot_events_max()::integer) AS t
$$;

-- -- watching: monitor_snapshot and bot_snapshot show, these tell

-- What is wrong in a workspace and was not told yet, and what is right again: each once. With the rights of the caller.
-- The same rules as those of a node that watches (crates/rupor/src/operate/trouble.rs), but for what only a node can know of
-- itself and its machine; a test makes each trouble and compares what both say.
CREATE FUNCTION raise_alerts(
    workspace_id bigint,
    OUT alert_id bigint, OUT state text, OUT kind text, OUT severity text, OUT headline text, OUT next text
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ws       CONSTANT bigint := raise_alerts.workspace_id;
    today    timestamptz := rupor_now();
    -- A longer wait is told, although it ends by itself.
    long     CONSTANT interval := rupor_span(rupor_rule_alert_wait_us());
    seen     jsonb := monitor_snapshot(ws);
    stopped  boolean;
    troubles jsonb;
BEGIN
    SELECT w.held INTO stopped FROM workspaces AS w WHERE w.workspace_id = ws;
    WITH account AS (
        SELECT a.account_id, a.name, a.paused, a.paused_why, g.cooldown_until,
               -- The way of alerts on the same token has the same trouble, which is told once.
               a.tier = 'alerts' AND EXISTS (
                   SELECT FROM accounts AS o JOIN rate_groups AS r ON r.group_id = o.group_id
                    WHERE o.workspace_id = ws AND o.fingerprint = a.fingerprint AND o.tier <> 'alerts'
                      AND (o.paused OR r.cooldown_until > today)) AS is_said
          FROM accounts AS a JOIN rate_groups AS g ON g.group_id = a.group_id
         WHERE a.workspace_id = ws
    ), channel AS (
        SELECT c.channel_id, c.account_id, c.name, c.enabled, c.disabled_by, c.error_streak, c.paused_until, c.paused_why,
               coalesce(h.n_queued + h.n_retry, 0) AS waiting, coalesce(h.n_retry, 0) AS retries, h.next_at,
               a.paused OR a.cooldown_until > today AS account_rests, coalesce(h.closed_until > today, false) AS quiet
          FROM channels AS c
          JOIN account AS a ON a.account_id = c.account_id
          LEFT JOIN lane_heads AS h ON h.workspace_id = ws AND h.channel_id = c.channel_id
         WHERE c.workspace_id = ws AND c.removed_at IS NULL
    ), of_channel AS (
        SELECT c.*,
               CASE WHEN NOT c.enabled AND c.disabled_by = 'auto' THEN 'channel_shut'
                    WHEN NOT c.enabled THEN 'meant'
                    WHEN c.error_streak > 0 THEN
                        CASE WHEN c.paused_why IN ('kicked', 'not_a_member', 'chat_deleted') THEN 'channel_kicked'
                             WHEN c.paused_why IN ('no_rights', 'chat.denied', '403') THEN 'channel_no_rights'
                             ELSE 'channel_failing' END
                    WHEN c.paused_until = 'infinity' THEN 'meant'
                    WHEN c.paused_until > today + long THEN 'channel_waits'
                    WHEN c.paused_until > today THEN 'meant'
                    WHEN c.retries > 0 AND isfinite(c.next_at) AND c.next_at > today + long AND NOT c.account_rests AND NOT c.quiet
                        THEN 'channel_waits' END AS trouble
          FROM channel AS c
    ), failing AS (
        SELECT f.channel_id, f.failed, f.last_code, f.retries_10min
          FROM jsonb_to_recordset(seen -> 'failures') AS f (channel_id bigint, failed bigint, last_code text, retries_10min bigint)
    ), open_channel AS (
        SELECT c.channel_id, c.name, c.waiting, c.next_at, (l ->> 'due_at')::bigint AS due_at
          FROM of_channel AS c
          LEFT JOIN jsonb_array_elements(seen -> 'lanes') AS l ON (l ->> 'channel_id')::bigint = c.channel_id
         WHERE c.trouble IS NULL AND NOT c.account_rests AND NOT c.quiet AND NOT stopped
           AND NOT EXISTS (SELECT FROM control AS k WHERE k.held)
    ), told AS (
        SELECT t.kind AS about, t.kind, 'act' AS severity, format('everything is held: %s', k.held_why) AS headline,
               '`rupor release` lets it go on' AS next
          FROM control AS k CROSS JOIN LATERAL (SELECT CASE WHEN starts_with(k.held_why, 'history was lost') THEN 'history_lost' ELSE 'held' END AS kind) AS t
         WHERE k.held
        UNION ALL
        SELECT 'workspace_held' AS about, 'workspace_held' AS kind, 'act' AS severity, 'all sending of the workspace is held' AS headline,
               '`rupor release --workspace NAME` lets it go on' AS next
         WHERE stopped AND NOT EXISTS (SELECT FROM control AS k WHERE k.held)
        UNION ALL
        SELECT concat('account:', a.account_id, ':account_paused'), 'account_paused', 'act',
               format('account %s cannot send: %s', a.name, coalesce(a.paused_why, 'it is paused')),
               format('give it a working token with `rupor apply`, then `rupor account resume %s`', a.name)
          FROM account AS a
         -- What a platform says begins with a code; other words are an operator's, who knows.
         WHERE a.paused AND a.paused_why ~ '^[^[:space:]]+: ' AND NOT a.is_said
        UNION ALL
        SELECT concat('account:', a.account_id, ':account_rests'), 'account_rests', 'heals',
               format('account %s rests until %s because the platform asked', a.name, to_char(a.cooldown_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')),
               'it goes on by itself'
          FROM account AS a
         WHERE NOT a.paused AND a.cooldown_until > today + rupor_span(rupor_rule_alert_rest_us()) AND NOT a.is_said
           AND (a.cooldown_until > today + long OR EXISTS (SELECT FROM channel AS c WHERE c.account_id = a.account_id AND c.waiting > 0))
        UNION ALL
        SELECT concat('channel:', c.channel_id, ':', c.trouble), c.trouble, CASE c.trouble WHEN 'channel_waits' THEN 'heals' ELSE 'act' END,
               CASE c.trouble
                   WHEN 'channel_shut' THEN format('channel %s was shut after three failures in a row: %s', c.name, coalesce(c.paused_why, 'no reason was kept'))
                   WHEN 'channel_waits' THEN format('channel %s waits for longer than an hour because the platform asked', c.name)
                   ELSE format('channel %s refuses posts: %s', c.name, coalesce(c.paused_why, 'no reason was kept')) END,
               CASE c.trouble
                   WHEN 'channel_waits' THEN format('it goes on by itself; `rupor channel resume %s` tries at once', c.name)
                   ELSE format('mend it there, then `rupor channel resume %s`', c.name) END
          FROM of_channel AS c WHERE c.trouble <> 'meant'
        UNION ALL
        SELECT concat('channel:', c.channel_id, ':dead_letters'), 'dead_letters', 'act',
               format('%s posts of channel %s ended unsent within a day, the last with %s', f.failed, c.name, f.last_code),
               'look with `rupor delivery list --status dead,failed_permanent`; `rupor delivery requeue ID` sends one again'
          FROM failing AS f JOIN channel AS c ON c.channel_id = f.channel_id
         WHERE f.failed > 0 AND NOT (c.error_streak > 0 AND c.paused_why IS NOT DISTINCT FROM f.last_code)
        UNION ALL
        SELECT concat('channel:', c.channel_id, ':failures'), 'failures', 'heals',
               format('%s attempts of channel %s failed within ten minutes and are made again', f.retries_10min, c.name),
               '`rupor check` asks the platform'
          FROM failing AS f JOIN channel AS c ON c.channel_id = f.channel_id
         WHERE f.retries_10min > rupor_rule_alert_retries_max() AND (f.failed = 0 OR c.error_streak > 0 AND c.paused_why IS NOT DISTINCT FROM f.last_code)
        UNION ALL
        SELECT concat('source:', s.source_id, ':source_failing'), 'source_failing',
               CASE WHEN today - c.failing_since > rupor_span(rupor_rule_alert_source_us()) THEN 'act' ELSE 'heals' END,
               format('source %s cannot be read: %s', s.name, coalesce(c.last_error, 'no reason was kept')),
               'it is tried again by itself; `rupor source list` shows it'
          FROM pull_sources AS s JOIN pull_cursors AS c ON c.source_id = s.source_id
         WHERE s.workspace_id = ws AND s.enabled AND c.failing_since IS NOT NULL
        UNION ALL
        -- Two leases are ordinary: somebody may have died with the claim.
        SELECT concat('channel:', c.channel_id, ':stuck'), 'stuck', 'act', format('posts of channel %s are due and nobody takes them', c.name),
               'see whether a dispatcher runs: a Rupor node or workflow 02'
          FROM open_channel AS c
         WHERE c.waiting > 0 AND c.next_at < today - rupor_span(rupor_rule_alert_stuck_us())
        UNION ALL
        SELECT concat('channel:', c.channel_id, ':lag'), 'lag', 'heals', format('posts of channel %s wait for more than 15 minutes', c.name),
               'more comes in than its rate lets out'
          FROM open_channel AS c
         WHERE c.due_at < rupor_micros(today - rupor_span(rupor_rule_alert_lag_us()))
           AND NOT (c.waiting > 0 AND c.next_at < today - rupor_span(rupor_rule_alert_stuck_us()))
        UNION ALL
        SELECT 'leases_missed', 'leases_missed', 'heals',
               format('%s claims within ten minutes were lost by whoever held them', seen ->> 'lost_leases_10min'),
               'whoever sends is killed or loses its way to the database'
         WHERE (seen ->> 'lost_leases_10min')::bigint >= rupor_rule_alert_lost_leases_min()
        UNION ALL
        -- What a guard says begins with its name; other words are an operator's.
        SELECT concat('campaign:', c.campaign_id, ':campaign_guard'), 'campaign_guard', 'act', format('campaign %s was stopped by its %s', c.name, c.why),
               format('look with `rupor campaign report %s`; `rupor campaign resume %s` goes on', c.name, c.name)
          FROM campaigns AS c WHERE c.workspace_id = ws AND c.status = 'paused' AND starts_with(c.why, 'guard: ')
        UNION ALL
        SELECT concat('campaign:', c.campaign_id, ':', r.key, ':campaign_guard'), 'campaign_guard', 'act',
               format('campaign %s rests on account %s, stopped by its %s', c.name, a.name, r.value),
               format('`rupor campaign resume %s --account %s` goes on', c.name, a.name)
          FROM campaigns AS c CROSS JOIN LATERAL jsonb_each_text(c.resting) AS r JOIN accounts AS a ON a.account_id = r.key::bigint
         WHERE c.workspace_id = ws AND c.status = 'running' AND starts_with(r.value, 'guard: ')
        UNION ALL
        SELECT 'posts_wait', 'posts_wait', 'act', format('%s posts wait for a person', count(DISTINCT p.message_id)),
               '`rupor message list` shows them; `rupor message approve ID` or `rupor message reject ID`'
          FROM held_posts AS p JOIN channels AS c ON c.channel_id = p.channel_id AND c.removed_at IS NULL
         WHERE p.workspace_id = ws AND p.decision IS NULL AND (p.expires_at IS NULL OR p.expires_at > today)
        HAVING count(*) > 0
    )
    SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') INTO troubles FROM told AS t;
    RETURN QUERY SELECT t.* FROM rupor_tell(ws, 'monitor', troubles) AS t;
END $$;

-- The same for the bots of a workspace.
CREATE FUNCTION raise_bot_alerts(
    workspace_id bigint,
    OUT alert_id bigint, OUT state text, OUT kind text, OUT severity text, OUT headline text, OUT next text
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ws       CONSTANT bigint := raise_bot_alerts.workspace_id;
    seen     record;
    troubles jsonb;
BEGIN
    SELECT s.* INTO seen FROM bot_snapshot(ws, interval '1 hour', rupor_rule_bot_counted_max()) AS s;
    SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') INTO troubles
      FROM (SELECT 'bot_waits' AS about, 'bot_waits' AS kind, 'act' AS severity,
                   format('%s messages to the bot wait for more than a minute', seen.waiting) AS headline,
                   'see whether anybody takes turns: a Rupor node or workflow 12' AS next
             WHERE seen.oldest < rupor_now() - rupor_span(rupor_rule_alert_bot_wait_us())
            UNION ALL
            SELECT 'bot_errors', 'bot_errors', 'act', format('the rules of a bot broke %s times within an hour', seen.errors),
                   '`rupor bot status` shows where; `rupor bot activate NAME VERSION` goes back'
             WHERE seen.errors > 0
            UNION ALL
            SELECT 'bot_lost', 'bot_lost', 'heals',
                   format('the bot did not understand %s of %s messages within an hour', seen.fallbacks, seen.turns),
                   '`rupor bot status` shows what was asked; add a rule for it'
             WHERE seen.turns >= rupor_rule_alert_bot_messages_min() AND rupor_rule_alert_bot_lost_share() * seen.fallbacks > seen.turns
            UNION ALL
            SELECT 'bot_handoffs', 'bot_handoffs', 'act',
                   format('%s people wait for a human, the first for more than half an hour', seen.handoffs_waiting),
                   'answer in the channel of the operators, by reply or #A and the number'
             WHERE seen.handoff_since < rupor_now() - rupor_span(rupor_rule_alert_bot_handoff_us())
            UNION ALL
            SELECT concat('account:', b.account_id, ':bot_deaf'), 'bot_deaf', 'act',
                   format('account %s does not hear: %s', a.name, b.problem), '`rupor bot hooks show NAME` shows what the platform says'
              FROM bot_accounts AS b JOIN accounts AS a ON a.account_id = b.account_id
             WHERE b.workspace_id = ws AND b.bot_id IS NOT NULL AND b.problem IS NOT NULL
               AND (b.heard_at IS NULL OR b.heard_at <= rupor_now() - rupor_span(rupor_rule_alert_bot_deaf_us()))
               AND (b.receive = 'poll' OR b.hook_key IS NOT NULL)
            UNION ALL
            SELECT concat('account:', b.account_id, ':bot_deaf'), 'bot_deaf', 'act',
                   format('account %s does not hear: the platform was never told where to call', a.name),
                   '`rupor bot hooks set NAME --url https://HOST`'
              FROM bot_accounts AS b JOIN accounts AS a ON a.account_id = b.account_id
             WHERE b.workspace_id = ws AND b.bot_id IS NOT NULL AND b.receive = 'webhook' AND b.hook_key IS NULL) AS t;
    RETURN QUERY SELECT t.* FROM rupor_tell(ws, 'bot-monitor', troubles) AS t;
END $$;

-- Opens what is new, ends what is over, and returns both. The name behind the @ keeps a family to itself: neither the other
-- one nor a node that watches ends what it does not see.
CREATE FUNCTION rupor_tell(
    ws bigint, family text, troubles jsonb,
    OUT alert_id bigint, OUT state text, OUT kind text, OUT severity text, OUT headline text, OUT next text
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := rupor_now();
BEGIN
    PERFORM pg_advisory_xact_lock(7077, (ws % 2147483647)::integer);
    UPDATE alerts AS a
       SET seen_at = at, severity = t.severity,
           words = jsonb_build_object('headline', t.headline, 'cause', '', 'next', t.next, 'help', '')
      FROM jsonb_to_recordset(troubles) AS t (about text, severity text, headline text, next text)
     WHERE a.workspace_id = ws AND a.key = t.about || '@' || family AND a.ended_at IS NULL;
    RETURN QUERY
    WITH ended AS (
        UPDATE alerts AS a
           SET ended_at = at, cleared_at = at
         WHERE a.workspace_id = ws AND a.ended_at IS NULL AND split_part(a.key, '@', 2) = family
           AND NOT EXISTS (SELECT FROM jsonb_array_elements(troubles) AS t WHERE t ->> 'about' || '@' || family = a.key)
        RETURNING a.alert_id, 'ended'::text AS state, a.kind, a.severity, a.words ->> 'headline' AS headline, ''::text AS next
    ), opened AS (
        INSERT INTO alerts AS a (workspace_id, key, kind, severity, words, opened_at, seen_at, told_at, n_told)
        SELECT ws, t.about || '@' || family, t.kind, t.severity,
               jsonb_build_object('headline', t.headline, 'cause', '', 'next', t.next, 'help', ''), at, at, at, 1
          FROM jsonb_to_recordset(troubles) AS t (about text, kind text, severity text, headline text, next text)
         ORDER BY t.about
        ON CONFLICT DO NOTHING
        RETURNING a.alert_id, 'raised'::text, a.kind, a.severity, a.words ->> 'headline', a.words ->> 'next'
    )
    SELECT e.* FROM ended AS e UNION ALL SELECT o.* FROM opened AS o;
END $$;
