-- What an ended send means: domain::settle and domain::retry, said in SQL. Pure; a test compares the two on random cases.
-- No twin: SQLite asks domain itself. The numbers come from domain::limits (`rupor_rule_…`, see functions.rs).

CREATE TYPE rupor_settlement AS (
    status          text,
    reason          text,
    charged         integer,
    flood_waits     integer,
    not_ready_waits integer,
    unknowns        integer,
    lost_claims     integer,
    lost_requests   integer,
    flood_since     timestamptz,
    run_at          timestamptz,   -- set exactly when the status is retry
    lane_until      timestamptz,   -- set when the lane pauses
    destination_effect text,       -- none, healthy, pause, strike, gone
    destination_until timestamptz,
    error_streak    integer,
    disable         boolean,
    account_effect  text,          -- none, healthy, flood, cooldown, pause
    account_until   timestamptz,
    attempt         integer,       -- claims so far, this one included
    absent          boolean        -- what earlier claims may have sent was looked for and is not there
);

-- `base` × 2^`times`, at most `cap`; a negative `times` counts as zero.
CREATE FUNCTION rupor_doubled(base bigint, times integer, cap bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT least(base::numeric * (1::bigint << least(greatest(times, 0), 30)), cap)::bigint
$$;

-- The base × 2^(charged−1), at most the longest one, give or take the jitter.
CREATE FUNCTION rupor_backoff_us(charged integer, chance integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT d - d * rupor_rule_backoff_jitter_per_mille() / 1000
           + 2 * (d * rupor_rule_backoff_jitter_per_mille() / 1000) * chance / 1000000
      FROM (SELECT rupor_doubled(rupor_rule_backoff_base_us(), charged - 1, rupor_rule_backoff_max_us()) AS d) AS delay
$$;

-- Whether the policy of the lane allows no further try of an outcome that nobody knows.
CREATE FUNCTION rupor_given_up(s rupor_settlement, policy text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE policy
               WHEN 'resend' THEN false
               WHEN 'hold' THEN true
               WHEN 'reconcile' THEN s.unknowns - CASE WHEN s.absent THEN s.lost_requests ELSE 0 END > rupor_rule_unknowns_max()
               ELSE s.unknowns > rupor_rule_unknowns_max()
           END
$$;

-- The wait a platform asked for, in microseconds, as it stands in an error; NULL if it named none.
CREATE FUNCTION rupor_wait_us(failure jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (least(greatest(trunc((failure ->> 'retry_after_ms')::numeric), 0), 9000000000000) * 1000)::bigint
$$;

-- An error as the functions understand it: complete, known words only, its text cut.
CREATE FUNCTION rupor_failure(error jsonb, category text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    e jsonb := CASE WHEN jsonb_typeof(error -> 'error') = 'object' THEN error -> 'error' ELSE error END;
BEGIN
    IF e IS NULL OR jsonb_typeof(e) <> 'object' THEN
        RAISE EXCEPTION 'error: a JSON object {"category","scope","code","retry_after_ms"?,"message"} is needed'
            USING ERRCODE = 'RU004';
    END IF;
    e := '{"category": "TRANSIENT", "scope": "delivery", "code": "error", "message": "", "raw": null, "certainty": "not_sent"}' || e;
    IF category IS NOT NULL THEN
        e := e || jsonb_build_object('category', category);
    END IF;
    IF e ->> 'category' NOT IN ('TRANSIENT', 'PERMANENT') OR e ->> 'scope' NOT IN ('delivery', 'channel', 'platform')
       OR e ->> 'certainty' NOT IN ('not_sent', 'unknown')
       OR coalesce(jsonb_typeof(e -> 'retry_after_ms'), 'null') NOT IN ('number', 'null') THEN
        RAISE EXCEPTION 'error: category is TRANSIENT or PERMANENT, scope delivery, channel or platform, certainty not_sent or unknown, retry_after_ms a number'
            USING ERRCODE = 'RU004';
    END IF;
    IF char_length(e ->> 'message') > rupor_rule_error_text_max() THEN
        e := e || jsonb_build_object('message', left(e ->> 'message', rupor_rule_error_text_max()::integer));
    END IF;
    -- Twice: jsonb writes spaces between its parts.
    IF octet_length((e -> 'raw')::text) > 2 * rupor_rule_error_raw_bytes_max() THEN
        e := e || '{"raw": null}';
    END IF;
    RETURN e;
END $$;

-- A flood reply: the platform named a wait for more than this one delivery.
CREATE FUNCTION rupor_is_flood(failure jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(failure ->> 'category' = 'TRANSIENT' AND failure ->> 'scope' <> 'delivery'
                    AND failure ->> 'certainty' = 'not_sent' AND failure ->> 'retry_after_ms' IS NOT NULL, false)
$$;

-- A channel has a lane of its own, which waits; of a recipient's lane only this recipient does.
CREATE FUNCTION rupor_waits(s rupor_settlement, channel_id bigint, until timestamptz) RETURNS rupor_settlement
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF channel_id IS NOT NULL THEN
        s.lane_until := until;
    ELSE
        s.destination_effect := 'pause'; s.destination_until := until;
    END IF;
    RETURN s;
END $$;

-- How long a delivery waits that was handed back unsent, by how many of its claims came to nothing.
CREATE FUNCTION rupor_release_wait_us(s rupor_settlement) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN c.idle <= rupor_rule_releases_free() THEN 0
                ELSE rupor_doubled(rupor_rule_release_wait_us(), (c.idle - rupor_rule_releases_free() - 1)::integer,
                                   rupor_rule_release_wait_max_us())
           END
      FROM (SELECT s.attempt - s.charged - s.flood_waits - s.not_ready_waits - s.lost_claims - s.lost_requests AS idle) AS c
$$;

-- ending: sent, failed (with failure), lost (lease over, no request recorded), unknown (lease over after a request),
-- released (handed back unsent). `s` comes in with the delivery's counters.
CREATE FUNCTION rupor_settle(
    s rupor_settlement, policy text, channel_id bigint, recipient_id bigint, error_streak integer, flood_channel bigint,
    flood_recipient bigint, flood_until timestamptz, trouble_streak integer, ending text, failure jsonb, at timestamptz,
    chance integer
) RETURNS rupor_settlement
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    wait_us  bigint := least(rupor_wait_us(failure), rupor_rule_retry_after_max_us());
    scope    text   := failure ->> 'scope';
    until    timestamptz;
    cooldown bigint;
BEGIN
    s.status := 'retry'; s.run_at := NULL; s.reason := NULL;
    s.lane_until := NULL; s.destination_effect := 'none'; s.destination_until := NULL; s.account_effect := 'none';
    s.error_streak := error_streak; s.disable := false;
    IF ending = 'sent' THEN
        s.status := 'sent'; s.destination_effect := 'healthy'; s.account_effect := 'healthy';
    ELSIF ending = 'released' THEN
        s.reason := 'released'; s.run_at := at + rupor_span(rupor_release_wait_us(s));
    ELSIF ending = 'lost' THEN
        -- Nothing was sent, but the row may be what kills.
        s.lost_claims := s.lost_claims + 1;
        IF s.lost_claims >= rupor_rule_lost_claims_max() THEN
            s.status := 'dead'; s.reason := 'poison';
        ELSE
            s.reason := 'lease_expired'; s.run_at := at;
        END IF;
    ELSIF ending = 'unknown' THEN
        -- The platform has refused nothing, so this is no attempt; but the row may be what kills.
        s.unknowns := s.unknowns + 1;
        s.lost_requests := s.lost_requests + 1;
        IF rupor_given_up(s, policy) THEN
            s.status := 'dead'; s.reason := 'outcome_unknown';
        ELSIF s.lost_requests >= rupor_rule_lost_requests_max() THEN
            s.status := 'dead'; s.reason := 'poison';
        ELSE
            s.reason := 'lease_expired'; s.run_at := at + rupor_span(rupor_rule_lost_request_wait_us());
        END IF;
    ELSIF failure ->> 'category' = 'TRANSIENT' AND failure ->> 'certainty' = 'unknown' THEN
        s.unknowns := s.unknowns + 1;
        s.charged := s.charged + 1;
        IF rupor_given_up(s, policy) THEN
            s.status := 'dead'; s.reason := 'outcome_unknown';
        ELSIF s.charged >= rupor_rule_attempts_max() THEN
            s.status := 'dead'; s.reason := 'attempts_exhausted';
        ELSE
            s.reason := 'outcome_unknown';
            s.run_at := at + rupor_span(greatest(rupor_backoff_us(s.charged, chance), wait_us));
        END IF;
        IF ending = 'failed' AND scope = 'platform' THEN
            s.account_effect := 'cooldown';
        END IF;
    ELSIF failure ->> 'category' = 'PERMANENT' THEN
        IF scope = 'platform' THEN
            -- One revoked token must not kill a backlog: the row waits for the account, uncharged.
            s.reason := 'account_trouble'; s.run_at := at; s.account_effect := 'pause';
        ELSIF recipient_id IS NOT NULL AND coalesce((failure ->> 'recipient_gone')::boolean, false) THEN
            s.status := 'failed_permanent'; s.reason := 'recipient_gone'; s.destination_effect := 'gone';
        ELSE
            s.status := 'failed_permanent'; s.reason := 'refused';
            IF scope = 'channel' THEN
                s.destination_effect := 'strike';
                s.error_streak := error_streak + 1;
                s.disable := s.error_streak >= rupor_rule_channel_streak_max();
                -- the others of a recipient's lane have nothing to do with it
                IF channel_id IS NOT NULL THEN
                    s.lane_until := at + rupor_span(rupor_doubled(
                        rupor_rule_channel_pause_us(), error_streak, rupor_rule_channel_pause_max_us()));
                END IF;
            END IF;
        END IF;
    ELSIF scope = 'delivery' THEN
        IF failure ->> 'code' = 'attachment.not.ready' AND s.not_ready_waits < rupor_rule_not_ready_waits_max() THEN
            s.not_ready_waits := s.not_ready_waits + 1;
            s.reason := 'not_ready';
            s.run_at := at + rupor_span(greatest(wait_us, rupor_doubled(
                rupor_rule_not_ready_wait_us(), s.not_ready_waits - 1, rupor_rule_not_ready_wait_max_us())));
        ELSE
            s.charged := s.charged + 1;
            IF s.charged >= rupor_rule_attempts_max() THEN
                s.status := 'dead'; s.reason := 'attempts_exhausted';
            ELSE
                s.reason := 'failed';
                s.run_at := at + rupor_span(greatest(rupor_backoff_us(s.charged, chance), wait_us));
            END IF;
        END IF;
    ELSIF rupor_is_flood(failure) THEN
        until := at + rupor_span(wait_us);
        -- Nobody was asked: the chat's own pause lasts, and that is no news about it or its account.
        IF failure ->> 'code' = 'chat_waits' THEN
            s.reason := 'flood'; s.run_at := until;
            RETURN s;
        END IF;
        s.flood_waits := s.flood_waits + 1;
        s.flood_since := coalesce(s.flood_since, at);
        IF s.flood_waits >= rupor_rule_flood_waits_max() OR at - s.flood_since >= rupor_span(rupor_rule_flood_total_max_us()) THEN
            s.status := 'dead'; s.reason := 'flood_cap';
        ELSE
            s.reason := 'flood'; s.run_at := until;
        END IF;
        s.account_effect := 'cooldown'; s.account_until := until;
        IF scope = 'channel' THEN
            s := rupor_waits(s, channel_id, until);
            -- A second chat that floods while the first still waits: it is the account that is too fast.
            IF coalesce(flood_until <= at, true) OR num_nonnulls(flood_channel, flood_recipient) = 0
               OR (flood_channel, flood_recipient) IS NOT DISTINCT FROM (channel_id, recipient_id) THEN
                s.account_effect := 'flood';
            END IF;
        END IF;
        RETURN s;
    ELSIF scope = 'channel' THEN
        until := at + rupor_span(rupor_rule_channel_wait_us());
        s.reason := 'failed'; s.run_at := until;
        s := rupor_waits(s, channel_id, until);
    ELSE
        s.reason := 'account_trouble'; s.run_at := at; s.account_effect := 'cooldown';
    END IF;
    IF s.account_effect = 'cooldown' THEN
        cooldown := rupor_doubled(rupor_rule_account_cooldown_us(), trouble_streak, rupor_rule_account_cooldown_max_us());
        s.account_until := at + rupor_span(greatest(cooldown, wait_us));
    END IF;
    RETURN s;
END $$;
