-- A channel that goes on with another account: its queue, and what it has said, go along.

-- Only what is still to be said moves: what was published is edited by who published it. What failures or a platform had
-- shut is open again: that was the other account's. The id of the channel as it goes on; null: no such channel here.
CREATE FUNCTION move_channel(workspace_id bigint, channel_id bigint, account_id bigint, target text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at        timestamptz := rupor_now();
    ws        CONSTANT bigint := move_channel.workspace_id;
    here      CONSTANT bigint := move_channel.account_id;
    old       channels;
    old_lane  lane_heads;
    of_here   text;
    made      bigint;
    new_lane  bigint;
    queued    bigint;
    retried   bigint;
BEGIN
    PERFORM rupor_guard(ws);
    SELECT c.* INTO old
      FROM channels AS c
     WHERE c.workspace_id = ws AND c.channel_id = move_channel.channel_id AND c.removed_at IS NULL;
    IF old.channel_id IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT a.platform INTO of_here FROM accounts AS a WHERE a.workspace_id = ws AND a.account_id = here;
    IF of_here IS NULL THEN
        RAISE EXCEPTION 'account % is not known in this workspace', here
            USING ERRCODE = 'RU001', DETAIL = 'account', HINT = here::text;
    ELSIF of_here <> old.platform THEN
        RAISE EXCEPTION 'channel: the account is one of another platform; make a new channel there' USING ERRCODE = 'RU004';
    END IF;
    PERFORM rupor_lock_accounts(array(SELECT DISTINCT a FROM unnest(ARRAY[old.account_id, here]) AS a ORDER BY a));
    -- As they are now that nobody can change them.
    SELECT c.* INTO old FROM channels AS c WHERE c.channel_id = old.channel_id;
    SELECT h.* INTO old_lane FROM lane_heads AS h WHERE h.channel_id = old.channel_id;
    -- The name is taken until the old one is removed.
    INSERT INTO channels (workspace_id, account_id, name, target, target_since, chat_kind, enabled, disabled_by, paused_until,
                          paused_why, rate, max_parallel, ambiguity, dedup, dedup_ttl_us, max_age_us, template, parse_mode,
                          body_max, overflow, max_media, route, quiet_hours, time_zone, settings, created_at)
    VALUES (ws, here, format('%s (moving %s)', old.name, old.channel_id), move_channel.target,
            CASE WHEN old.target = move_channel.target THEN old.target_since ELSE at END, old.chat_kind,
            old.disabled_by IS DISTINCT FROM 'operator', CASE old.disabled_by WHEN 'operator' THEN 'operator' END,
            CASE WHEN isfinite(old.paused_until) THEN 'epoch' ELSE old.paused_until END,
            CASE WHEN isfinite(old.paused_until) THEN NULL ELSE old.paused_why END, old.rate, old.max_parallel, old.ambiguity,
            old.dedup, old.dedup_ttl_us, old.max_age_us, old.template, old.parse_mode, old.body_max, old.overflow,
            old.max_media, old.route, old.quiet_hours, old.time_zone, old.settings, at)
    RETURNING channel_id INTO made;
    -- The trigger has made the lane.
    UPDATE lane_heads AS h SET closed_until = old_lane.closed_until WHERE h.channel_id = made RETURNING h.lane_id INTO new_lane;
    -- Half of a post by another is no beginning.
    WITH moved AS (
        UPDATE deliveries AS d
           SET lane_id = new_lane, account_id = here, channel_id = made, parts = '[]'
         WHERE d.lane_id = old_lane.lane_id AND d.status IN ('queued', 'retry') AND d.action = 'send'
        RETURNING d.delivery_id, d.status
    ), followed AS (
        UPDATE ready AS r
           SET lane_id = new_lane
          FROM moved AS m
         WHERE r.lane_id = old_lane.lane_id AND r.delivery_id = m.delivery_id
    )
    SELECT count(*) FILTER (WHERE m.status = 'queued'), count(*) FILTER (WHERE m.status = 'retry') INTO queued, retried
      FROM moved AS m;
    UPDATE lane_heads AS h
       SET n_queued = h.n_queued + s.sign * queued, n_retry = h.n_retry + s.sign * retried
      FROM (VALUES (old_lane.lane_id, -1), (new_lane, 1)) AS s (lane_id, sign)
     WHERE h.lane_id = s.lane_id;
    -- In another chat only what is still to be said counts as said.
    UPDATE dedup_index AS k
       SET channel_id = made
     WHERE k.workspace_id = ws AND k.channel_id = old.channel_id
       AND (old.target = move_channel.target
            OR EXISTS (SELECT FROM deliveries AS d WHERE d.delivery_id = k.delivery_id AND d.lane_id = new_lane));
    UPDATE held_posts AS p
       SET channel_id = made
     WHERE p.workspace_id = ws AND p.channel_id = old.channel_id AND p.decision IS NULL;
    PERFORM rupor_hurry(ARRAY[new_lane], at);
    PERFORM remove_channel(ws, old.channel_id);
    UPDATE channels AS c SET name = old.name WHERE c.channel_id = made;
    PERFORM rupor_refresh_lanes(ARRAY[new_lane]);
    PERFORM rupor_refresh_accounts(ARRAY[here]);
    INSERT INTO events (workspace_id, at, name, detail)
    VALUES (ws, at, 'config_changed', jsonb_build_object('channel', made, 'name', old.name, 'moved_from', old.channel_id,
                                                         'waiting', queued + retried));
    RETURN made;
END $$;
