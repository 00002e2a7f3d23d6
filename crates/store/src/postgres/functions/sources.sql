-- Who reads which source now.

-- Leases sources that are due, so that one node polls a source at a time, and returns them with their cursors.
CREATE FUNCTION lease_sources(owner text, "limit" integer, lease interval) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_guard(NULL);
    RETURN QUERY
    UPDATE pull_cursors AS c
       SET lease_owner = owner, lease_until = rupor_now() + lease
     WHERE c.source_id IN (
               SELECT d.source_id
                 FROM pull_cursors AS d JOIN pull_sources AS s ON s.source_id = d.source_id
                WHERE s.enabled AND d.next_poll_at <= rupor_now() AND d.lease_until <= rupor_now()
                ORDER BY d.next_poll_at, d.source_id
                LIMIT "limit"
                  FOR UPDATE OF d SKIP LOCKED)
    RETURNING c.source_id;
END $$;
