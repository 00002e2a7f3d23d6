-- What one ended claim means, written down: the delivery, its attempt, its key, its events, and what it says about its
-- lane, its destination and its account. The rules come from rules.sql; the caller has passed the fence.

-- Ends a claim whose lease is over; no wait after that depends on chance.
CREATE FUNCTION rupor_end_lease(held inflight, at timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN rupor_end_claim(held, CASE WHEN held.requested_at IS NULL THEN 'lost' ELSE 'unknown' END, NULL, NULL, NULL, NULL, 0, at);
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
    who   recipients;
    grp   rate_groups;
    why   text := coalesce(failure ->> 'code', '');
    place bigint;
    copy  bigint;
BEGIN
    SELECT x.* INTO d FROM deliveries AS x WHERE x.delivery_id = held.delivery_id;
    SELECT x.* INTO lane FROM lane_heads AS x WHERE x.lane_id = held.lane_id;
    IF d.channel_id IS NOT NULL THEN
        SELECT x.* INTO chan FROM channels AS x WHERE x.channel_id = d.channel_id;
    ELSE
        SELECT x.* INTO who FROM recipients AS x WHERE x.recipient_id = d.recipient_id;
    END IF;
    SELECT g.* INTO grp
      FROM account_heads AS h JOIN rate_groups AS g ON g.group_id = h.group_id
     WHERE h.account_id = held.account_id;
    s.charged := d.charged; s.flood_waits := d.flood_waits; s.not_ready_waits := d.not_ready_waits;
    s.attempt := d.attempt; s.unknowns := d.unknowns; s.lost_claims := d.lost_claims;
    s.lost_requests := d.lost_requests; s.flood_since := d.flood_since; s.absent := held.absent;
    s := rupor_settle(s, lane.ambiguity, d.channel_id, d.recipient_id, coalesce(chan.error_streak, who.error_streak, 0),
                      grp.flood_channel, grp.flood_recipient, grp.flood_until, grp.trouble_streak, ending, failure, at, chance);
    IF s.run_at IS NOT NULL AND not_before IS NOT NULL THEN
        s.run_at := greatest(not_before, at + rupor_span(coalesce(rupor_wait_us(failure), 0)));
    END IF;
    -- A removed channel has no queue to go back to.
    IF s.status = 'retry' AND chan.removed_at IS NOT NULL THEN
        s.status := 'failed_permanent'; s.reason := 'channel_removed'; s.run_at := NULL;
    END IF;
    -- A post that vanished while it was being sent, and certainly was not said, is not tried again. After an unknown outcome
    -- it may be visible: then it goes on, so that what is there is known and can be taken back.
    IF s.status = 'retry' AND d.channel_id IS NOT NULL AND d.action = 'send' AND d.parts = '[]' AND s.unknowns = 0
       AND (SELECT m.gone_at FROM messages AS m WHERE m.message_id = d.message_id) IS NOT NULL THEN
        s.status := 'dead'; s.reason := 'cancelled'; s.run_at := NULL;
        copy := rupor_silent_copy(held.delivery_id);
    END IF;
    -- Nobody waits for the next try of a campaign that is cancelled, or that its person stopped.
    IF s.status = 'retry' AND d.campaign_id IS NOT NULL THEN
        IF (SELECT k.status FROM campaigns AS k WHERE k.campaign_id = d.campaign_id) IN ('cancelling', 'cancelled', 'aborted') THEN
            s.status := 'dead'; s.reason := 'cancelled'; s.run_at := NULL;
        ELSIF rupor_unheard(who) IS NOT NULL THEN
            s.status := 'dead'; s.reason := 'stopped'; s.run_at := NULL;
        END IF;
    END IF;
    place := CASE WHEN s.run_at IS NULL THEN NULL WHEN lane.max_parallel = 1 THEN d.delivery_id ELSE rupor_micros(s.run_at) END;

    DELETE FROM inflight AS i
     WHERE i.account_id = held.account_id AND i.lane_id = held.lane_id AND i.delivery_id = held.delivery_id;
    UPDATE deliveries AS x
       SET status = s.status, reason = s.reason, claim_token = NULL, lease_until = NULL, charged = s.charged,
           flood_waits = s.flood_waits, not_ready_waits = s.not_ready_waits, unknowns = s.unknowns,
           lost_claims = s.lost_claims, lost_requests = s.lost_requests, flood_since = s.flood_since, run_at = s.run_at, position = place,
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
    IF s.status IN ('failed_permanent', 'dead') AND d.campaign_id IS NOT NULL THEN
        PERFORM rupor_count_ending(held.workspace_id, d.campaign_id, s.reason, failure ->> 'code', 1);
    END IF;
    IF s.status IN ('failed_permanent', 'dead') THEN
        DELETE FROM dedup_index AS k WHERE k.delivery_id = held.delivery_id;
    END IF;
    IF s.status = 'sent' THEN
        PERFORM rupor_note_outcomes(ARRAY[held.workspace_id], ARRAY[held.delivery_id]);
        PERFORM rupor_count_hours(ARRAY[held.lane_id], ARRAY[1], at);
    END IF;
    IF copy IS NOT NULL THEN
        PERFORM rupor_next_generation(copy, jsonb_build_object('parent', copy, 'instead_of', held.delivery_id), at);
    END IF;
    UPDATE lane_heads AS h
       SET n_sending = h.n_sending - 1,
           n_sent = h.n_sent + (s.status = 'sent')::integer, n_retry = h.n_retry + (s.status = 'retry')::integer,
           n_failed = h.n_failed + (s.status = 'failed_permanent')::integer, n_dead = h.n_dead + (s.status = 'dead')::integer
     WHERE h.lane_id = held.lane_id;

    INSERT INTO events (workspace_id, at, name, message_id, delivery_id, channel_id, recipient_id, account_id, detail)
    SELECT held.workspace_id, rupor_end_claim.at, e.name, d.message_id, held.delivery_id, d.channel_id, d.recipient_id, held.account_id,
           jsonb_build_object('reason', s.reason, 'code', failure ->> 'code', 'attempt', held.attempt)
      FROM unnest(ARRAY[
               CASE WHEN ending IN ('lost', 'unknown') THEN 'lease_recovered' END,
               CASE WHEN s.unknowns > d.unknowns THEN 'outcome_unknown' END,
               CASE WHEN s.status = 'retry' AND ending = 'failed' THEN 'retry_scheduled' END,
               CASE WHEN s.status = 'failed_permanent' THEN 'failed_permanent' END,
               CASE WHEN s.destination_effect = 'gone' OR (s.disable AND d.recipient_id IS NOT NULL) THEN 'recipient_gone' END,
               CASE WHEN s.status = 'dead' AND s.reason = 'attempts_exhausted' THEN 'retry_exhausted' END,
               CASE WHEN s.status = 'dead' THEN CASE WHEN s.reason IN ('cancelled', 'stopped') THEN 'cancelled' ELSE 'dead_letter' END END]) WITH ORDINALITY AS e (name, ord)
     WHERE e.name IS NOT NULL
     ORDER BY e.ord;
    IF d.channel_id IS NOT NULL THEN
        PERFORM rupor_channel_effect(held, d.channel_id, s, why, at);
    ELSE
        PERFORM rupor_recipient_effect(who, s, why, at);
    END IF;
    PERFORM rupor_account_effect(held, d, s, grp, failure, why, at);
    RETURN s.status;
END $$;

-- The lane follows its channel by trigger.
CREATE FUNCTION rupor_channel_effect(held inflight, channel bigint, s rupor_settlement, why text, at timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF s.destination_effect = 'healthy' THEN
        UPDATE channels AS c SET error_streak = 0 WHERE c.channel_id = channel AND c.error_streak <> 0;
        RETURN;
    ELSIF s.lane_until IS NULL THEN
        RETURN;
    END IF;
    UPDATE channels AS c
       SET paused_until = greatest(c.paused_until, s.lane_until), paused_why = why, error_streak = s.error_streak
     WHERE c.channel_id = channel;
    INSERT INTO events (workspace_id, at, name, channel_id, detail)
    VALUES (held.workspace_id, at, 'channel_paused', channel,
            jsonb_build_object('until', rupor_micros(s.lane_until), 'why', why, 'streak', s.error_streak));
    IF s.disable THEN
        UPDATE channels AS c SET enabled = false, disabled_by = 'auto' WHERE c.channel_id = channel;
        INSERT INTO events (workspace_id, at, name, channel_id, detail)
        VALUES (held.workspace_id, at, 'channel_disabled', channel, '{"by": "auto"}'),
               (held.workspace_id, at, 'alert', channel,
                jsonb_build_object('text', format('channel %s is disabled after %s failures in a row', channel, s.error_streak),
                                   'code', why));
    END IF;
END $$;

-- A person who cannot be reached is no alarm.
CREATE FUNCTION rupor_recipient_effect(who recipients, s rupor_settlement, why text, at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF s.destination_effect = 'pause' THEN
        UPDATE recipients AS r SET paused_until = greatest(r.paused_until, s.destination_until)
         WHERE r.recipient_id = who.recipient_id;
    ELSIF s.destination_effect = 'gone' OR s.disable THEN
        UPDATE recipients AS r
           SET status = 'gone', status_why = why, status_at = at, error_streak = s.error_streak
         WHERE r.recipient_id = who.recipient_id;
    ELSIF s.destination_effect = 'strike' THEN
        UPDATE recipients AS r SET error_streak = s.error_streak WHERE r.recipient_id = who.recipient_id;
    ELSIF s.destination_effect = 'healthy' THEN
        UPDATE recipients AS r SET error_streak = 0 WHERE r.recipient_id = who.recipient_id AND r.error_streak <> 0;
    END IF;
END $$;

CREATE FUNCTION rupor_account_effect(
    held inflight, d deliveries, s rupor_settlement, grp rate_groups, failure jsonb, why text, at timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    reason text := left(concat(why, ': ', failure ->> 'message'), rupor_rule_error_text_max()::integer);
BEGIN
    IF s.account_effect = 'healthy' AND grp.trouble_streak <> 0 THEN
        UPDATE rate_groups AS g SET trouble_streak = 0 WHERE g.group_id = grp.group_id;
    ELSIF s.account_effect = 'flood' THEN
        UPDATE rate_groups AS g
           SET flood_channel = d.channel_id, flood_recipient = d.recipient_id, flood_until = s.account_until
         WHERE g.group_id = grp.group_id;
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
