-- Accounts and the rate groups that their tokens share.
-- Unlike SQLite the heads follow the rows by trigger, so that any client may write an account and the queue obeys.

-- The slowest of everybody who shares the token; nobody may outrun another's setting.
CREATE FUNCTION rupor_fit_group(wanted_group bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rate_groups AS g
       SET interval_us = rupor_interval_us(s.rate), burst = coalesce(s.burst, 1)
      FROM (SELECT min(rate) AS rate, min(burst) AS burst
              FROM (SELECT rate, burst FROM accounts WHERE group_id = wanted_group
                    UNION ALL
                    SELECT rate, burst FROM platform_limits WHERE group_id = wanted_group) AS everybody) AS s
     WHERE g.group_id = wanted_group;
    PERFORM rupor_refresh_accounts(array(SELECT h.account_id FROM account_heads AS h
                                          WHERE h.group_id = wanted_group ORDER BY h.account_id));
END $$;

CREATE OR REPLACE FUNCTION rupor_account_group() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'accounts');
    PERFORM set_config('rupor.span', 'on', true);
    INSERT INTO rate_groups (platform, fingerprint) VALUES (NEW.platform, NEW.fingerprint) ON CONFLICT DO NOTHING;
    SELECT g.group_id INTO NEW.group_id
      FROM rate_groups AS g
     WHERE g.platform = NEW.platform AND g.fingerprint = NEW.fingerprint;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER accounts_group BEFORE INSERT OR UPDATE OF platform, fingerprint, group_id ON accounts
FOR EACH ROW EXECUTE FUNCTION rupor_account_group();

CREATE OR REPLACE FUNCTION rupor_account_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    held boolean;
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'accounts');
    PERFORM set_config('rupor.span', 'on', true);
    -- Against a hold that is put on in this moment: one of the two waits for the other.
    SELECT w.held INTO held FROM workspaces AS w WHERE w.workspace_id = NEW.workspace_id FOR SHARE;
    -- Who speaks of trouble is not held.
    held := held AND NEW.tier <> 'alerts';
    IF TG_OP = 'INSERT' THEN
        PERFORM rupor_lock_groups(ARRAY[NEW.group_id]);
        INSERT INTO account_heads (account_id, workspace_id, group_id, open, max_parallel, retry_parallel)
        VALUES (NEW.account_id, NEW.workspace_id, NEW.group_id, NOT (NEW.paused OR held), NEW.max_parallel, NEW.retry_parallel);
        PERFORM rupor_fit_group(NEW.group_id);
        RETURN NULL;
    END IF;
    PERFORM rupor_lock_groups(ARRAY[OLD.group_id, NEW.group_id]);
    UPDATE account_heads
       SET group_id = NEW.group_id, open = NOT (NEW.paused OR held), max_parallel = NEW.max_parallel,
           retry_parallel = NEW.retry_parallel
     WHERE account_id = NEW.account_id;
    IF OLD.group_id <> NEW.group_id THEN
        PERFORM rupor_fit_group(OLD.group_id);
    END IF;
    PERFORM rupor_fit_group(NEW.group_id);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER accounts_inserted AFTER INSERT ON accounts
FOR EACH ROW EXECUTE FUNCTION rupor_account_changed();

CREATE OR REPLACE TRIGGER accounts_changed AFTER UPDATE ON accounts
FOR EACH ROW
WHEN ((OLD.group_id, OLD.rate, OLD.burst, OLD.max_parallel, OLD.retry_parallel, OLD.paused, OLD.tier)
   IS DISTINCT FROM (NEW.group_id, NEW.rate, NEW.burst, NEW.max_parallel, NEW.retry_parallel, NEW.paused, NEW.tier))
EXECUTE FUNCTION rupor_account_changed();

CREATE OR REPLACE FUNCTION rupor_limit_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed bigint := coalesce(NEW.group_id, OLD.group_id);
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'platform_limits');
    PERFORM set_config('rupor.span', 'on', true);
    PERFORM rupor_lock_groups(ARRAY[changed]);
    PERFORM rupor_fit_group(changed);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER platform_limits_changed AFTER INSERT OR UPDATE OR DELETE ON platform_limits
FOR EACH ROW EXECUTE FUNCTION rupor_limit_changed();

CREATE FUNCTION lock_account(workspace_id bigint, account_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    grp bigint;
BEGIN
    PERFORM rupor_guard(lock_account.workspace_id);
    SELECT a.group_id INTO grp
      FROM accounts AS a
     WHERE a.workspace_id = lock_account.workspace_id AND a.account_id = lock_account.account_id;
    PERFORM rupor_lock_groups(ARRAY[grp]);
    RETURN grp IS NOT NULL;
END $$;

-- Slots for requests whose slots were missed, one for each of these lanes (0: for none), in order. A chat's next request
-- keeps its distance from the new slot. None comes sooner than lead_ms: it takes a while until the answer is heard.
-- NULL: no such account.
CREATE FUNCTION reserve_slots_for(workspace_id bigint, account_id bigint, lane_ids bigint[], lead_ms integer) RETURNS timestamptz[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at    timestamptz := rupor_now();
    n     CONSTANT integer := coalesce(cardinality(lane_ids), 0);
    g     rate_groups;
    slot  timestamptz;
    slots timestamptz[] := '{}';
    moved bigint[];
BEGIN
    PERFORM rupor_guard(reserve_slots_for.workspace_id);
    IF n NOT BETWEEN 1 AND rupor_rule_slots_reserved_max() THEN
        RAISE EXCEPTION 'reserve: 1 to % slots, not %', rupor_rule_slots_reserved_max(), n USING ERRCODE = 'RU004';
    ELSIF lead_ms IS NULL OR lead_ms NOT BETWEEN 0 AND rupor_rule_slot_lead_max_us() / 1000 THEN
        RAISE EXCEPTION 'reserve: % ms ahead, at most %', lead_ms, rupor_rule_slot_lead_max_us() / 1000 USING ERRCODE = 'RU004';
    END IF;
    PERFORM FROM accounts AS a
      WHERE a.workspace_id = reserve_slots_for.workspace_id AND a.account_id = reserve_slots_for.account_id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[reserve_slots_for.account_id]);
    SELECT x.* INTO g
      FROM account_heads AS h JOIN rate_groups AS x ON x.group_id = h.group_id
     WHERE h.account_id = reserve_slots_for.account_id;
    at := greatest(at + lead_ms * interval '1 millisecond', g.cooldown_until);
    FOR taken IN 1 .. n LOOP
        slot := greatest(at, g.next_slot - rupor_span((g.burst - 1) * g.interval_us));
        g.next_slot := greatest(g.next_slot, slot) + rupor_span(g.interval_us);
        slots := slots || slot;
    END LOOP;
    UPDATE rate_groups AS x SET next_slot = g.next_slot WHERE x.group_id = g.group_id;
    WITH moved AS (
        UPDATE lane_heads AS h
           SET next_slot = greatest(h.next_slot, s.slot + rupor_span(h.interval_us))
          FROM (SELECT u.lane_id, max(u.slot) AS slot FROM unnest(lane_ids, slots) AS u (lane_id, slot) GROUP BY u.lane_id) AS s
         WHERE h.lane_id = s.lane_id AND h.account_id = reserve_slots_for.account_id AND h.interval_us > 0
        RETURNING h.lane_id
    )
    SELECT array_agg(m.lane_id) INTO moved FROM moved AS m;
    PERFORM rupor_refresh_lanes(moved);
    PERFORM rupor_refresh_accounts(ARRAY[reserve_slots_for.account_id]);
    RETURN slots;
END $$;

-- Pays for n requests outside the claim and returns when the last of them may start. NULL: no such account.
CREATE FUNCTION reserve_slots(workspace_id bigint, account_id bigint, n integer DEFAULT 1) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    slots timestamptz[];
BEGIN
    -- Bounded before it is an array; the callee refuses what is too many.
    n := least(greatest(coalesce(n, 0), 0), rupor_rule_slots_reserved_max() + 1);
    slots := reserve_slots_for(workspace_id, account_id, array_fill(0::bigint, ARRAY[n]), 0);
    RETURN slots[n];
END $$;

-- One more request to the chat of a lane, at the lane's own pace; NULL: no such lane.
CREATE FUNCTION reserve_lane_slot(workspace_id bigint, lane_id bigint) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    lane lane_heads;
    slot timestamptz;
BEGIN
    PERFORM rupor_guard(reserve_lane_slot.workspace_id);
    SELECT h.* INTO lane
      FROM lane_heads AS h
     WHERE h.workspace_id = reserve_lane_slot.workspace_id AND h.lane_id = reserve_lane_slot.lane_id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[lane.account_id]);
    UPDATE lane_heads AS h
       SET next_slot = greatest(h.next_slot, rupor_now()) + rupor_span(h.interval_us)
     WHERE h.lane_id = lane.lane_id
    RETURNING h.next_slot - rupor_span(h.interval_us) INTO slot;
    PERFORM rupor_refresh_lanes(ARRAY[lane.lane_id]);
    PERFORM rupor_refresh_accounts(ARRAY[lane.account_id]);
    RETURN slot;
END $$;

-- Ends a pause of an account and the cooldown of its budget; what waits to be tried again is due. False: no such account in this workspace.
CREATE FUNCTION resume_account(workspace_id bigint, account_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at  timestamptz := rupor_now();
    grp bigint;
    lanes bigint[];
BEGIN
    PERFORM rupor_guard(resume_account.workspace_id);
    SELECT a.group_id INTO grp
      FROM accounts AS a
     WHERE a.workspace_id = resume_account.workspace_id AND a.account_id = resume_account.account_id;
    IF grp IS NULL THEN
        RETURN false;
    END IF;
    PERFORM rupor_lock_groups(ARRAY[grp]);
    UPDATE accounts AS a
       SET paused = false, paused_why = NULL, paused_at = NULL
     WHERE a.account_id = resume_account.account_id AND (a.paused OR a.paused_why IS NOT NULL);
    UPDATE rate_groups AS g
       SET cooldown_until = 'epoch', flood_until = 'epoch', flood_channel = NULL, flood_recipient = NULL, trouble_streak = 0
     WHERE g.group_id = grp;
    -- Those in which something may wait: of a dialogue that points nowhere only one that is full.
    lanes := array(SELECT h.lane_id FROM lane_heads AS h
                    WHERE h.workspace_id = resume_account.workspace_id AND h.recipient_id IS NULL
                      AND h.account_id = resume_account.account_id
                   UNION
                   SELECT h.lane_id FROM lane_heads AS h
                    WHERE h.account_id = resume_account.account_id AND h.head_priority IN (0, 1) AND h.next_at < 'infinity'
                   UNION
                   SELECT i.lane_id FROM inflight AS i WHERE i.account_id = resume_account.account_id
                    ORDER BY 1);
    PERFORM rupor_hurry(lanes, at);
    PERFORM rupor_refresh_lanes(lanes);
    PERFORM rupor_refresh_accounts(array(SELECT h.account_id FROM account_heads AS h WHERE h.group_id = grp));
    INSERT INTO events (workspace_id, at, name, account_id)
    VALUES (resume_account.workspace_id, at, 'account_resumed', resume_account.account_id);
    RETURN true;
END $$;

-- Everything sealed with the next key, in one go. Refused with RU006 if the key, the accounts or the sources are not those
-- that the caller has read: it reads again. Nobody writes a token or an address meanwhile.
CREATE FUNCTION rotate_key(
    check_before bytea, check_after bytea,
    account_ids bigint[], tokens_before bytea[], addresses_before bytea[], tokens bytea[], addresses bytea[],
    fingerprints text[], untouched bigint,
    source_ids bigint[], sources_before bytea[], sources bytea[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_guard(NULL);
    LOCK TABLE accounts, pull_sources IN SHARE ROW EXCLUSIVE MODE;
    UPDATE control SET key_check = check_after WHERE key_check = check_before;
    IF NOT FOUND
       OR (SELECT count(*) FROM accounts) <> cardinality(account_ids) + untouched
       OR EXISTS (SELECT FROM unnest(account_ids, tokens_before, addresses_before) AS n (id, token, addresses)
                   WHERE NOT EXISTS (SELECT FROM accounts AS a
                                      WHERE a.account_id = n.id AND a.token_sealed = n.token
                                        AND a.addresses_sealed IS NOT DISTINCT FROM n.addresses))
       OR (SELECT count(*) FROM pull_sources AS s WHERE s.address_sealed IS NOT NULL) <> cardinality(source_ids)
       OR EXISTS (SELECT FROM unnest(source_ids, sources_before) AS n (id, sealed)
                   WHERE NOT EXISTS (SELECT FROM pull_sources AS s WHERE s.source_id = n.id AND s.address_sealed = n.sealed)) THEN
        RAISE EXCEPTION 'the key, the accounts or the sources have changed meanwhile' USING ERRCODE = 'RU006';
    END IF;
    UPDATE rate_groups AS g
       SET fingerprint = n.fingerprint
      FROM unnest(account_ids, fingerprints) AS n (id, fingerprint) JOIN accounts AS a ON a.account_id = n.id
     WHERE g.group_id = a.group_id;
    UPDATE accounts AS a
       SET token_sealed = n.token, addresses_sealed = n.addresses, fingerprint = n.fingerprint
      FROM unnest(account_ids, tokens, addresses, fingerprints) AS n (id, token, addresses, fingerprint)
     WHERE a.account_id = n.id;
    UPDATE pull_sources AS s
       SET address_sealed = n.sealed
      FROM unnest(source_ids, sources) AS n (id, sealed)
     WHERE s.source_id = n.id;
    INSERT INTO events (workspace_id, at, name, detail)
    SELECT w.workspace_id, rupor_now(), 'config_changed',
           jsonb_build_object('key', 'rotated', 'accounts', cardinality(account_ids))
      FROM workspaces AS w
     ORDER BY w.workspace_id;
END $$;
