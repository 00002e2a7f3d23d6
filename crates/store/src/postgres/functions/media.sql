-- Bytes and receipts that nobody needs any more.

-- Throws out bytes that no message shows and nobody used for so long, with what the platforms called them.
CREATE FUNCTION collect_media(unused_for interval, "limit" integer, OUT media bigint, OUT handles bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    expired bigint;
BEGIN
    PERFORM rupor_guard(NULL);
    DELETE FROM message_media AS s WHERE NOT EXISTS (SELECT FROM messages AS m WHERE m.message_id = s.message_id);
    WITH gone AS (DELETE FROM media_blobs AS b WHERE b.expires_at <= rupor_now() RETURNING 1)
    SELECT count(*) INTO expired FROM gone;
    WITH unused AS (
        SELECT o.workspace_id, o.sha256
          FROM media_origin AS o
         WHERE o.last_used_at < rupor_now() - unused_for
           AND NOT EXISTS (SELECT FROM message_media AS s WHERE s.workspace_id = o.workspace_id AND s.sha256 = o.sha256)
         ORDER BY o.last_used_at, o.workspace_id, o.sha256
         LIMIT "limit"
    ), blobs AS (
        DELETE FROM media_blobs AS b USING unused AS u WHERE b.workspace_id = u.workspace_id AND b.sha256 = u.sha256 RETURNING 1
    ), bytes AS (
        DELETE FROM media_origin AS o USING unused AS u WHERE o.workspace_id = u.workspace_id AND o.sha256 = u.sha256 RETURNING 1
    )
    SELECT (SELECT count(*) FROM bytes), expired + (SELECT count(*) FROM blobs) INTO media, handles;
END $$;

CREATE FUNCTION forget_receipts(older_than interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    n bigint;
BEGIN
    PERFORM rupor_guard(NULL);
    DELETE FROM media_looks AS l WHERE l.last_at < rupor_now() - older_than;
    WITH gone AS (DELETE FROM ingress_receipts AS r WHERE r.received_at < rupor_now() - older_than RETURNING 1)
    SELECT count(*) INTO n FROM gone;
    RETURN n;
END $$;
