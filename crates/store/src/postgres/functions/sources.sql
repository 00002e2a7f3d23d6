-- Who reads which source now.

-- Leases sources that are due, so that one node polls a source at a time. The longest due come first; of those that
-- failed the last time only `failing`, or a few that hang would take all places.
CREATE FUNCTION lease_sources(owner text, "limit" integer, failing integer, lease interval) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_guard(NULL);
    RETURN QUERY
    UPDATE pull_cursors AS c
       SET lease_owner = owner, lease_until = rupor_now() + lease
     WHERE c.source_id IN (
               SELECT l.source_id
                 FROM pull_cursors AS l
                WHERE l.lease_until <= rupor_now()
                  AND l.source_id IN (
                      SELECT w.source_id
                        FROM (SELECT d.source_id, d.next_poll_at, d.failing_since IS NOT NULL AS fails,
                                     row_number() OVER (PARTITION BY d.failing_since IS NOT NULL
                                                            ORDER BY d.next_poll_at, d.source_id) AS place
                                FROM pull_cursors AS d JOIN pull_sources AS s ON s.source_id = d.source_id
                               WHERE s.enabled AND d.next_poll_at <= rupor_now() AND d.lease_until <= rupor_now()) AS w
                       WHERE NOT w.fails OR w.place <= failing
                       ORDER BY w.next_poll_at, w.source_id
                       LIMIT "limit")
                  FOR UPDATE OF l SKIP LOCKED)
    RETURNING c.source_id;
END $$;

-- Ends runs that nobody will end any more.
CREATE FUNCTION close_runs(older_than interval, why text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    n bigint;
BEGIN
    PERFORM rupor_guard(NULL);
    UPDATE ingest_runs AS r
       SET finished_at = rupor_now(), error = why
     WHERE r.finished_at IS NULL AND r.started_at < rupor_now() - older_than;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
