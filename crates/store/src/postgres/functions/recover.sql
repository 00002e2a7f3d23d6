-- Recovery: claims whose lease has ended.

-- Takes up claims whose lease has ended. It bypasses the parallelism gate, or leaked places would block it.
CREATE FUNCTION recover_leases(workspace_id bigint, "limit" integer DEFAULT 1000)
RETURNS TABLE (delivery_id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := rupor_now();
    accounts bigint[];
    lanes    bigint[] := '{}';
    held     inflight;
BEGIN
    PERFORM rupor_guard(recover_leases.workspace_id);
    SELECT array_agg(DISTINCT e.account_id) INTO accounts
      FROM rupor_expired(recover_leases.workspace_id, at, "limit") AS e;
    IF accounts IS NULL THEN
        RETURN;
    END IF;
    PERFORM rupor_lock_accounts(accounts);
    -- What is still over now that nobody else can end it.
    FOR held IN
        SELECT e.* FROM rupor_expired(recover_leases.workspace_id, at, "limit") AS e WHERE e.account_id = ANY (accounts)
    LOOP
        delivery_id := held.delivery_id;
        status := rupor_end_lease(held, at);
        lanes := lanes || held.lane_id;
        RETURN NEXT;
    END LOOP;
    PERFORM rupor_refresh_lanes(array(SELECT DISTINCT l FROM unnest(lanes) AS l ORDER BY l));
    PERFORM rupor_refresh_accounts(accounts);
END $$;

CREATE FUNCTION rupor_expired(ws bigint, at timestamptz, at_most integer) RETURNS SETOF inflight
LANGUAGE sql STABLE AS $$
    SELECT i.*
      FROM inflight AS i
     WHERE i.lease_until <= at AND (ws IS NULL OR i.workspace_id = ws)
     ORDER BY i.lease_until, i.delivery_id
     LIMIT at_most
$$;
