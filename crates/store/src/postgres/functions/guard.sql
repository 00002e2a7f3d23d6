-- Who may call, and who waits for whom. No twin: SQLite has one user and one writer, which is its own lock.
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

-- Locks a rate group and every account on it: what a change of the budget touches.
CREATE FUNCTION rupor_lock_groups(group_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM rate_groups AS g WHERE g.group_id = ANY (group_ids) ORDER BY g.group_id FOR NO KEY UPDATE;
    PERFORM FROM account_heads AS h WHERE h.group_id = ANY (group_ids) ORDER BY h.account_id FOR NO KEY UPDATE;
END $$;

-- Functions of triggers believe the row they are given, so they run on our tables alone: anybody may make a table of
-- their own with columns of the same names.
CREATE FUNCTION rupor_require_table(is_on oid, wanted text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
BEGIN
    IF is_on IS DISTINCT FROM to_regclass('public.' || wanted)::oid THEN
        RAISE EXCEPTION 'this trigger belongs to the table %', wanted USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;
