-- Calls to a shop's own services: claimed like turns, settled together with the event that tells the dialogue.
--
-- Lock order: bot_outbox is taken after recipients and before bot_state; a claim never waits.

-- Calls that are due, none of the services in `busy` ("BOT/SERVICE"). Whoever settles one names the number of its try.
CREATE FUNCTION bot_claim_calls(
    "limit" integer, lease_us bigint, busy text[],
    OUT workspace_id bigint, OUT outbox_id bigint, OUT recipient_id bigint, OUT platform text, OUT bot_id bigint,
    OUT account_id bigint, OUT service text, OUT fields jsonb, OUT tries integer, OUT key text
) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := rupor_now();
BEGIN
    PERFORM rupor_guard(NULL);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT o.outbox_id FROM bot_outbox AS o
         WHERE o.status = 'waiting' AND o.due_at <= at AND concat(o.bot_id, '/', o.service) <> ALL (busy)
         ORDER BY o.due_at, o.outbox_id
         LIMIT "limit"
           FOR NO KEY UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE bot_outbox AS o
           SET tries = o.tries + 1, due_at = at + rupor_span(lease_us), reason = NULL
          FROM due AS d
         WHERE o.outbox_id = d.outbox_id
        RETURNING o.*
    )
    SELECT m.workspace_id, m.outbox_id, m.recipient_id, r.platform, m.bot_id,
           (SELECT (b.services ->> m.service)::bigint FROM bots AS b WHERE b.bot_id = m.bot_id),
           m.service, m.fields, m.tries, concat(c.history, '.call.', m.inbox_id, '.', m.n)
      FROM mine AS m
      JOIN recipients AS r ON r.recipient_id = m.recipient_id
     CROSS JOIN control AS c
     ORDER BY m.outbox_id;
END $$;

-- When the next call is due; NULL: none waits.
CREATE FUNCTION bot_next_call() RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_guard(NULL);
    RETURN (SELECT o.due_at FROM bot_outbox AS o WHERE o.status = 'waiting' ORDER BY o.due_at LIMIT 1);
END $$;

-- How a call went: `waiting` is made again after so long, `done` and `failed` are told to the dialogue as this event.
-- False: it is another's by now, and nothing was written.
CREATE FUNCTION bot_settle_call(
    workspace_id bigint, outbox_id bigint, tries integer, status text, after_us bigint, reason text, event jsonb
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ws  CONSTANT bigint := bot_settle_call.workspace_id;
    at  timestamptz := rupor_now();
    who recipients;
    key text;
    is_over CONSTANT boolean := bot_settle_call.status <> 'waiting';
BEGIN
    PERFORM rupor_guard(ws);
    SELECT r.* INTO who FROM recipients AS r
     WHERE r.recipient_id = (SELECT o.recipient_id FROM bot_outbox AS o
                              WHERE o.workspace_id = ws AND o.outbox_id = bot_settle_call.outbox_id)
       FOR NO KEY UPDATE;
    UPDATE bot_outbox AS o
       SET status = bot_settle_call.status, reason = bot_settle_call.reason,
           fields = CASE WHEN NOT is_over THEN o.fields END,
           due_at = CASE WHEN NOT is_over THEN at + rupor_span(after_us) END
     WHERE o.workspace_id = ws AND o.outbox_id = bot_settle_call.outbox_id AND o.tries = bot_settle_call.tries
       AND o.status = 'waiting' AND o.recipient_id = who.recipient_id
    RETURNING concat('call:', o.inbox_id, '.', o.n) INTO key;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF is_over THEN
        INSERT INTO bot_inbox (workspace_id, account_id, recipient_id, event_key, kind, body, happened_at, received_at)
        VALUES (ws, who.account_id, who.recipient_id, key, 'answer', event, at, at)
        ON CONFLICT DO NOTHING;
        INSERT INTO bot_state AS s (recipient_id, workspace_id, account_id, due_at, updated_at)
        VALUES (who.recipient_id, ws, who.account_id, at, at)
        ON CONFLICT (recipient_id) DO UPDATE
           SET due_at = excluded.due_at
         WHERE s.due_at > excluded.due_at AND s.token IS NULL;
    END IF;
    RETURN true;
END $$;
