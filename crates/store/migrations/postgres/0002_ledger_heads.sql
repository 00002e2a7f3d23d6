-- The heads of lanes and accounts: the pointers that make a claim find work without searching.
--
-- Lock order of everything that waits for locks: rate_groups, account_heads, then the rest of an account's queue
-- (lane_heads, ready, inflight, deliveries, dedup_index), each in ascending order. The account head is the lock of
-- all that stands below it, so below it nobody has to lock anything. A claim never waits: it skips locked heads.

-- The door of every boundary function. They run as the owner of the tables (SECURITY DEFINER), because they move
-- tables that no client may write by hand; so they ask here whether the caller may act for this workspace.
-- A session that has set rupor.workspace may act for that workspace alone. One that has not may act only if it
-- belongs to the dispatcher or owns the tables; everybody else is refused. NULL means every workspace.
CREATE FUNCTION rupor_guard(workspace_id bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    mine   bigint := rupor_workspace();
    caller name   := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    IF mine IS NOT NULL AND workspace_id IS DISTINCT FROM mine THEN
        RAISE EXCEPTION 'workspace %: this session is set to workspace %', coalesce(workspace_id::text, '(all)'), mine
            USING ERRCODE = 'insufficient_privilege';
    ELSIF mine IS NULL AND NOT rupor_may_span(caller) THEN
        RAISE EXCEPTION 'workspace: not set for this session'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Run SET rupor.workspace = ''ID'' first.';
    END IF;
    PERFORM set_config('rupor.span', 'on', true);
END $$;

-- In plpgsql, which keeps its plan: an SQL function that is not inlined is planned with every call.
CREATE FUNCTION rupor_may_span(caller name) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN caller = current_user
        OR EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = caller AND r.rolsuper)
        OR EXISTS (SELECT FROM pg_roles AS d WHERE d.rolname = 'rupor_dispatcher' AND pg_has_role(caller, d.oid, 'USAGE'));
END $$;

-- Locks what a change of these accounts may touch, in the one order.
CREATE FUNCTION rupor_lock_accounts(account_ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM FROM rate_groups AS g
      WHERE g.group_id IN (SELECT h.group_id FROM account_heads AS h WHERE h.account_id = ANY (account_ids))
      ORDER BY g.group_id
        FOR NO KEY UPDATE;
    PERFORM FROM account_heads AS h
      WHERE h.account_id = ANY (account_ids)
      ORDER BY h.account_id
        FOR NO KEY UPDATE;
END $$;

-- What a transaction did to lanes, each named once: how its counters change, and for a claim its slot and its run.
-- NULL columns change nothing.
CREATE TYPE rupor_moves AS (
    lane_id  bigint[],
    queued   bigint[],
    retry    bigint[],
    sending  bigint[],
    sent     bigint[],
    deduped  bigint[],
    failed   bigint[],
    dead     bigint[],
    slot_at  timestamptz[],     -- the last slot it was given: it was served
    run      integer[],         -- its urgent run afterwards
    -- told by whoever knows it, else looked up: what is in flight now, and the row that is first now if there is one
    in_flight      bigint[],
    first_priority integer[],
    first_run_at   timestamptz[]
);

-- Writes the moves and, in the same stroke, when each lane's first row may go by everything that can hold it back.
-- The caller holds the accounts. Here too the settings pin the plan: a session that was the first to call this while it
-- made an account, of nothing but empty tables, claims with the same plan. OFFSET 0 computes each head once.
CREATE FUNCTION rupor_move_lanes(m rupor_moves, at timestamptz) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    UPDATE lane_heads AS h
       SET next_at = n.next_at, head_priority = n.head_priority, served_at = n.served_at, next_slot = n.next_slot,
           urgent_run = coalesce(n.run, h.urgent_run),
           n_queued = h.n_queued + coalesce(n.queued, 0), n_retry = h.n_retry + coalesce(n.retry, 0),
           n_sending = h.n_sending + coalesce(n.sending, 0), n_sent = h.n_sent + coalesce(n.sent, 0),
           n_deduped = h.n_deduped + coalesce(n.deduped, 0), n_failed = h.n_failed + coalesce(n.failed, 0),
           n_dead = h.n_dead + coalesce(n.dead, 0)
      FROM (SELECT w.*, s.served_at, s.next_slot,
                   coalesce(first.priority, 0) AS head_priority,
                   CASE WHEN l.open AND first.run_at IS NOT NULL
                         AND coalesce(w.in_flight, (SELECT count(*) FROM inflight AS i
                                                     WHERE i.account_id = l.account_id AND i.lane_id = l.lane_id)) < l.max_parallel
                        THEN greatest(first.run_at, l.blocked_until, l.closed_until, s.next_slot, s.served_at)
                        ELSE 'infinity' END AS next_at
              FROM unnest(m.lane_id, m.queued, m.retry, m.sending, m.sent, m.deduped, m.failed, m.dead, m.slot_at, m.run,
                          m.in_flight, m.first_priority, m.first_run_at)
                   AS w (lane_id, queued, retry, sending, sent, deduped, failed, dead, slot_at, run,
                         in_flight, first_priority, first_run_at)
              JOIN lane_heads AS l ON l.lane_id = w.lane_id
             -- A lane's own slot never lies behind the one it got, so its next is one interval after its last.
             CROSS JOIN LATERAL (SELECT CASE WHEN w.slot_at IS NULL THEN l.served_at ELSE at END AS served_at,
                                        coalesce(w.slot_at + rupor_span(l.interval_us), l.next_slot) AS next_slot) AS s
              LEFT JOIN LATERAL (SELECT r.priority, r.run_at
                                   FROM ready AS r
                                  WHERE r.lane_id = l.lane_id AND w.in_flight IS NULL
                                  ORDER BY r.priority, r.position, r.delivery_id
                                  LIMIT 1) AS found ON true
             CROSS JOIN LATERAL (SELECT coalesce(w.first_priority, found.priority) AS priority,
                                        coalesce(w.first_run_at, found.run_at) AS run_at) AS first
            OFFSET 0) AS n
     WHERE h.lane_id = n.lane_id
       -- what was only looked at, and stands as it stood, is not written
       AND (h.next_at <> n.next_at OR h.head_priority <> n.head_priority OR n.slot_at IS NOT NULL
            OR coalesce(n.queued, 0) <> 0 OR coalesce(n.retry, 0) <> 0 OR coalesce(n.sending, 0) <> 0
            OR coalesce(n.deduped, 0) <> 0);
END $$;

CREATE FUNCTION rupor_refresh_lanes(lane_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    m rupor_moves;
BEGIN
    m.lane_id := lane_ids;
    PERFORM rupor_move_lanes(m, NULL);
END $$;

-- When each account may next be served: its earliest lane, its budget, its parallelism. A claim that served it says so.
CREATE FUNCTION rupor_move_accounts(account_ids bigint[], served boolean[], runs integer[], at timestamptz) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    UPDATE account_heads AS h
       SET next_at = n.next_at, served_at = n.served_at, urgent_run = coalesce(n.run, h.urgent_run)
      FROM (SELECT a.account_id, w.run, s.served_at,
                   CASE WHEN a.open AND least(urgent.next_at, bulk.next_at) < 'infinity'
                         AND (SELECT count(*) FROM inflight AS i WHERE i.account_id = a.account_id) < a.max_parallel
                        THEN greatest(least(urgent.next_at, bulk.next_at), g.cooldown_until, s.served_at,
                                      g.next_slot - rupor_span((g.burst - 1) * g.interval_us))
                        ELSE 'infinity' END AS next_at
              FROM unnest(account_ids, served, runs) AS w (account_id, served, run)
              JOIN account_heads AS a ON a.account_id = w.account_id
              JOIN rate_groups AS g ON g.group_id = a.group_id
             CROSS JOIN LATERAL (SELECT CASE WHEN w.served THEN at ELSE a.served_at END AS served_at) AS s
              LEFT JOIN LATERAL (SELECT l.next_at FROM lane_heads AS l
                                  WHERE l.account_id = a.account_id AND l.head_priority = 0
                                  ORDER BY l.next_at LIMIT 1) AS urgent ON true
              LEFT JOIN LATERAL (SELECT l.next_at FROM lane_heads AS l
                                  WHERE l.account_id = a.account_id AND l.head_priority = 1
                                  ORDER BY l.next_at LIMIT 1) AS bulk ON true
            OFFSET 0) AS n
     WHERE h.account_id = n.account_id
       AND (h.next_at <> n.next_at OR h.served_at <> n.served_at OR h.urgent_run <> n.run);
END $$;

CREATE FUNCTION rupor_refresh_accounts(account_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM rupor_move_accounts(account_ids, NULL, NULL, NULL);
END $$;

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

-- Locks a rate group and every account on it: what a change of the budget touches.
CREATE FUNCTION rupor_lock_groups(group_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM rate_groups AS g WHERE g.group_id = ANY (group_ids) ORDER BY g.group_id FOR NO KEY UPDATE;
    PERFORM FROM account_heads AS h WHERE h.group_id = ANY (group_ids) ORDER BY h.account_id FOR NO KEY UPDATE;
END $$;

-- -- config rows move the heads

-- A held workspace shows no heads, so a claim does not even see it.
CREATE FUNCTION rupor_workspace_held() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    account_ids bigint[];
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    account_ids := array(SELECT h.account_id FROM account_heads AS h WHERE h.workspace_id = NEW.workspace_id);
    PERFORM rupor_lock_accounts(account_ids);
    UPDATE account_heads AS h
       SET open = NOT (NEW.held OR a.paused)
      FROM accounts AS a
     WHERE h.account_id = ANY (account_ids) AND a.account_id = h.account_id;
    PERFORM rupor_refresh_accounts(account_ids);
    RETURN NULL;
END $$;

CREATE TRIGGER workspaces_held AFTER UPDATE OF held ON workspaces
FOR EACH ROW WHEN (OLD.held <> NEW.held) EXECUTE FUNCTION rupor_workspace_held();

CREATE FUNCTION rupor_account_group() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    INSERT INTO rate_groups (platform, fingerprint) VALUES (NEW.platform, NEW.fingerprint) ON CONFLICT DO NOTHING;
    SELECT g.group_id INTO NEW.group_id
      FROM rate_groups AS g
     WHERE g.platform = NEW.platform AND g.fingerprint = NEW.fingerprint;
    RETURN NEW;
END $$;

CREATE TRIGGER accounts_group BEFORE INSERT OR UPDATE OF platform, fingerprint, group_id ON accounts
FOR EACH ROW EXECUTE FUNCTION rupor_account_group();

CREATE FUNCTION rupor_account_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    held boolean;
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    -- Against a hold that is put on in this moment: one of the two waits for the other.
    SELECT w.held INTO held FROM workspaces AS w WHERE w.workspace_id = NEW.workspace_id FOR SHARE;
    IF TG_OP = 'INSERT' THEN
        PERFORM rupor_lock_groups(ARRAY[NEW.group_id]);
        INSERT INTO account_heads (account_id, workspace_id, group_id, open, max_parallel)
        VALUES (NEW.account_id, NEW.workspace_id, NEW.group_id, NOT (NEW.paused OR held), NEW.max_parallel);
        PERFORM rupor_fit_group(NEW.group_id);
        RETURN NULL;
    END IF;
    PERFORM rupor_lock_groups(ARRAY[OLD.group_id, NEW.group_id]);
    UPDATE account_heads
       SET group_id = NEW.group_id, open = NOT (NEW.paused OR held), max_parallel = NEW.max_parallel
     WHERE account_id = NEW.account_id;
    IF OLD.group_id <> NEW.group_id THEN
        PERFORM rupor_fit_group(OLD.group_id);
    END IF;
    PERFORM rupor_fit_group(NEW.group_id);
    RETURN NULL;
END $$;

CREATE TRIGGER accounts_inserted AFTER INSERT ON accounts
FOR EACH ROW EXECUTE FUNCTION rupor_account_changed();
CREATE TRIGGER accounts_changed AFTER UPDATE ON accounts
FOR EACH ROW
WHEN ((OLD.group_id, OLD.rate, OLD.burst, OLD.max_parallel, OLD.paused)
   IS DISTINCT FROM (NEW.group_id, NEW.rate, NEW.burst, NEW.max_parallel, NEW.paused))
EXECUTE FUNCTION rupor_account_changed();

CREATE FUNCTION rupor_limit_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed bigint := coalesce(NEW.group_id, OLD.group_id);
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    PERFORM rupor_lock_groups(ARRAY[changed]);
    PERFORM rupor_fit_group(changed);
    RETURN NULL;
END $$;

CREATE TRIGGER platform_limits_changed AFTER INSERT OR UPDATE OR DELETE ON platform_limits
FOR EACH ROW EXECUTE FUNCTION rupor_limit_changed();

CREATE FUNCTION rupor_channel_platform() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    SELECT a.platform INTO NEW.platform
      FROM accounts AS a
     WHERE a.workspace_id = NEW.workspace_id AND a.account_id = NEW.account_id;
    RETURN NEW;
END $$;

CREATE TRIGGER channels_platform BEFORE INSERT ON channels
FOR EACH ROW EXECUTE FUNCTION rupor_channel_platform();

CREATE FUNCTION rupor_channel_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    lane bigint;
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    IF TG_OP = 'INSERT' THEN
        INSERT INTO lane_heads (workspace_id, account_id, channel_id, open, blocked_until, max_parallel, interval_us)
        VALUES (NEW.workspace_id, NEW.account_id, NEW.channel_id, NEW.enabled AND NEW.removed_at IS NULL,
                NEW.paused_until, NEW.max_parallel, rupor_interval_us(NEW.rate));
        RETURN NULL;
    END IF;
    IF NEW.account_id <> OLD.account_id OR NEW.workspace_id <> OLD.workspace_id THEN
        RAISE EXCEPTION 'channel %: a channel stays on its account', OLD.channel_id
            USING ERRCODE = 'check_violation', HINT = 'Create a channel on the other account.';
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[NEW.account_id]);
    UPDATE lane_heads
       SET open = NEW.enabled AND NEW.removed_at IS NULL, blocked_until = NEW.paused_until,
           max_parallel = NEW.max_parallel, interval_us = rupor_interval_us(NEW.rate)
     WHERE channel_id = NEW.channel_id
    RETURNING lane_id INTO lane;
    IF (OLD.max_parallel = 1) <> (NEW.max_parallel = 1) THEN
        PERFORM rupor_reposition(lane, NEW.max_parallel = 1);
    END IF;
    PERFORM rupor_refresh_lanes(ARRAY[lane]);
    PERFORM rupor_refresh_accounts(ARRAY[NEW.account_id]);
    RETURN NULL;
END $$;

CREATE TRIGGER channels_inserted AFTER INSERT ON channels
FOR EACH ROW EXECUTE FUNCTION rupor_channel_changed();
CREATE TRIGGER channels_changed AFTER UPDATE ON channels
FOR EACH ROW
WHEN ((OLD.workspace_id, OLD.account_id, OLD.enabled, OLD.removed_at, OLD.paused_until, OLD.rate, OLD.max_parallel)
   IS DISTINCT FROM (NEW.workspace_id, NEW.account_id, NEW.enabled, NEW.removed_at, NEW.paused_until, NEW.rate, NEW.max_parallel))
EXECUTE FUNCTION rupor_channel_changed();

-- An ordered lane's place is the delivery id, an unordered one's is the due time.
CREATE FUNCTION rupor_reposition(lane bigint, ordered boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE deliveries AS d
       SET position = CASE WHEN ordered THEN d.delivery_id ELSE rupor_micros(d.run_at) END
      FROM ready AS r
     WHERE r.lane_id = lane AND d.delivery_id = r.delivery_id;
    UPDATE ready
       SET position = CASE WHEN ordered THEN delivery_id ELSE rupor_micros(run_at) END
     WHERE lane_id = lane;
END $$;

-- Whoever changes a channel or an account by hand calls these first in the same transaction: they take the queue's locks
-- before the row's, as a commit does. Without them the change is still right, but may meet a commit half-way, and the
-- server ends the deadlock by refusing one of the two. False: no such channel or account in this workspace.
CREATE FUNCTION lock_channel(workspace_id bigint, channel_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    account bigint;
BEGIN
    PERFORM rupor_guard(lock_channel.workspace_id);
    SELECT c.account_id INTO account
      FROM channels AS c
     WHERE c.workspace_id = lock_channel.workspace_id AND c.channel_id = lock_channel.channel_id;
    PERFORM rupor_lock_accounts(ARRAY[account]);
    RETURN account IS NOT NULL;
END $$;

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

-- Quiet hours: the lane stays shut until then. False: no such channel in this workspace.
CREATE FUNCTION close_channel_until(workspace_id bigint, channel_id bigint, until timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    found_lane    bigint;
    found_account bigint;
BEGIN
    PERFORM rupor_guard(close_channel_until.workspace_id);
    SELECT h.lane_id, h.account_id INTO found_lane, found_account
      FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
     WHERE c.workspace_id = close_channel_until.workspace_id
       AND c.channel_id = close_channel_until.channel_id AND c.removed_at IS NULL;
    IF found_lane IS NULL THEN
        RETURN false;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[found_account]);
    UPDATE lane_heads AS h SET closed_until = until WHERE h.lane_id = found_lane;
    PERFORM rupor_refresh_lanes(ARRAY[found_lane]);
    PERFORM rupor_refresh_accounts(ARRAY[found_account]);
    RETURN true;
END $$;
