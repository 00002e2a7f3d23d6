-- Channels, and the lane that each of them owns.
-- Unlike SQLite the lane follows the channel by trigger, so that any client may write a channel and the queue obeys.

CREATE OR REPLACE FUNCTION rupor_channel_platform() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'channels');
    PERFORM set_config('rupor.span', 'on', true);
    SELECT a.platform INTO NEW.platform
      FROM accounts AS a
     WHERE a.workspace_id = NEW.workspace_id AND a.account_id = NEW.account_id;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER channels_platform BEFORE INSERT ON channels
FOR EACH ROW EXECUTE FUNCTION rupor_channel_platform();

CREATE OR REPLACE FUNCTION rupor_channel_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    lane bigint;
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'channels');
    PERFORM set_config('rupor.span', 'on', true);
    IF TG_OP = 'INSERT' THEN
        INSERT INTO lane_heads (workspace_id, account_id, channel_id, open, blocked_until, max_parallel, interval_us, ambiguity)
        VALUES (NEW.workspace_id, NEW.account_id, NEW.channel_id, NEW.enabled AND NEW.removed_at IS NULL,
                NEW.paused_until, NEW.max_parallel, rupor_interval_us(NEW.rate), NEW.ambiguity);
        RETURN NULL;
    END IF;
    IF NEW.account_id <> OLD.account_id OR NEW.workspace_id <> OLD.workspace_id THEN
        RAISE EXCEPTION 'channel %: a channel stays on its account', OLD.channel_id
            USING ERRCODE = 'check_violation', HINT = 'Create a channel on the other account.';
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[NEW.account_id]);
    UPDATE lane_heads
       SET open = NEW.enabled AND NEW.removed_at IS NULL, blocked_until = NEW.paused_until,
           max_parallel = NEW.max_parallel, interval_us = rupor_interval_us(NEW.rate), ambiguity = NEW.ambiguity
     WHERE channel_id = NEW.channel_id
    RETURNING lane_id INTO lane;
    IF (OLD.max_parallel = 1) <> (NEW.max_parallel = 1) THEN
        PERFORM rupor_reposition(lane, NEW.max_parallel = 1);
    END IF;
    PERFORM rupor_refresh_lanes(ARRAY[lane]);
    PERFORM rupor_refresh_accounts(ARRAY[NEW.account_id]);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER channels_inserted AFTER INSERT ON channels
FOR EACH ROW EXECUTE FUNCTION rupor_channel_changed();

CREATE OR REPLACE TRIGGER channels_changed AFTER UPDATE ON channels
FOR EACH ROW
WHEN ((OLD.workspace_id, OLD.account_id, OLD.enabled, OLD.removed_at, OLD.paused_until, OLD.rate, OLD.max_parallel,
       OLD.ambiguity)
   IS DISTINCT FROM (NEW.workspace_id, NEW.account_id, NEW.enabled, NEW.removed_at, NEW.paused_until, NEW.rate,
                     NEW.max_parallel, NEW.ambiguity))
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

-- Ends a pause of a channel, opens it, and makes due what waits to be tried again. False: no such channel here.
CREATE FUNCTION resume_channel(workspace_id bigint, channel_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at            timestamptz := rupor_now();
    found_lane    bigint;
    found_account bigint;
BEGIN
    PERFORM rupor_guard(resume_channel.workspace_id);
    SELECT h.lane_id, h.account_id INTO found_lane, found_account
      FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
     WHERE c.workspace_id = resume_channel.workspace_id
       AND c.channel_id = resume_channel.channel_id AND c.removed_at IS NULL;
    IF found_lane IS NULL THEN
        RETURN false;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[found_account]);
    UPDATE channels AS c
       SET paused_until = 'epoch', paused_why = NULL, enabled = true, disabled_by = NULL, error_streak = 0
     WHERE c.channel_id = resume_channel.channel_id;
    PERFORM rupor_hurry(ARRAY[found_lane], at);
    PERFORM rupor_refresh_lanes(ARRAY[found_lane]);
    PERFORM rupor_refresh_accounts(ARRAY[found_account]);
    INSERT INTO events (workspace_id, at, name, channel_id)
    VALUES (resume_channel.workspace_id, at, 'channel_resumed', resume_channel.channel_id);
    RETURN true;
END $$;

-- The same channel in another chat: what waits goes there, what the old chat refused is queued again and answered, and what
-- was said in the old chat does not count in the new one. Opens what failures had shut. Null: no such channel here.
CREATE FUNCTION retarget_channel(workspace_id bigint, channel_id bigint, target text) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at            timestamptz := rupor_now();
    found_lane    bigint;
    found_account bigint;
    refused       bigint[];
    again         bigint[] := '{}';
BEGIN
    PERFORM rupor_guard(retarget_channel.workspace_id);
    SELECT h.lane_id, h.account_id INTO found_lane, found_account
      FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
     WHERE c.workspace_id = retarget_channel.workspace_id
       AND c.channel_id = retarget_channel.channel_id AND c.removed_at IS NULL;
    IF found_lane IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[found_account]);
    UPDATE channels AS c
       SET target = retarget_channel.target, target_since = at, error_streak = 0,
           enabled = c.enabled OR c.disabled_by = 'auto', disabled_by = nullif(c.disabled_by, 'auto'),
           paused_why = CASE WHEN isfinite(c.paused_until) THEN NULL ELSE c.paused_why END,
           paused_until = CASE WHEN isfinite(c.paused_until) THEN 'epoch' ELSE c.paused_until END
     WHERE c.channel_id = retarget_channel.channel_id;
    DELETE FROM dedup_index AS k
     WHERE k.workspace_id = retarget_channel.workspace_id AND k.channel_id = retarget_channel.channel_id
       AND NOT EXISTS (SELECT FROM deliveries AS d
                        WHERE d.delivery_id = k.delivery_id AND d.status IN ('queued', 'retry', 'sending'));
    -- Half of a post in another chat is no beginning here.
    UPDATE deliveries AS d
       SET parts = '[]'
     WHERE d.lane_id = found_lane AND d.status = 'retry' AND d.action = 'send' AND d.parts <> '[]';
    PERFORM rupor_hurry(ARRAY[found_lane], at);
    PERFORM rupor_refresh_lanes(ARRAY[found_lane]);
    PERFORM rupor_refresh_accounts(ARRAY[found_account]);
    refused := array(
        SELECT d.delivery_id
          FROM deliveries AS d
         WHERE d.lane_id = found_lane AND d.status = 'failed_permanent' AND d.last_error ->> 'scope' = 'channel'
           AND NOT EXISTS (SELECT FROM deliveries AS n
                            WHERE n.message_id = d.message_id AND n.channel_id = d.channel_id AND n.action = d.action
                              AND n.revision = d.revision AND n.generation > d.generation)
         ORDER BY d.delivery_id
         LIMIT 10000);
    IF refused <> '{}' THEN
        again := requeue_deliveries(retarget_channel.workspace_id, refused);
    END IF;
    INSERT INTO events (workspace_id, at, name, detail)
    VALUES (retarget_channel.workspace_id, at, 'config_changed',
            jsonb_build_object('channel', retarget_channel.channel_id, 'target', retarget_channel.target,
                               'requeued', cardinality(again)));
    RETURN again;
END $$;

-- What waits for the channel ends as failed_permanent(channel_removed). False: no such channel in this workspace.
CREATE FUNCTION remove_channel(workspace_id bigint, channel_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at     timestamptz := rupor_now();
    lane   lane_heads;
    n      bigint;
BEGIN
    PERFORM rupor_guard(remove_channel.workspace_id);
    SELECT h.* INTO lane
      FROM channels AS c JOIN lane_heads AS h ON h.channel_id = c.channel_id
     WHERE c.workspace_id = remove_channel.workspace_id AND c.channel_id = remove_channel.channel_id
       AND c.removed_at IS NULL;
    IF lane.lane_id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM rupor_lock_accounts(ARRAY[lane.account_id]);
    SELECT h.n_queued + h.n_retry INTO n FROM lane_heads AS h WHERE h.lane_id = lane.lane_id;
    WITH gone AS (
        DELETE FROM ready AS r WHERE r.lane_id = lane.lane_id RETURNING r.delivery_id
    ), forgotten AS (
        DELETE FROM dedup_index AS k USING gone AS g WHERE k.delivery_id = g.delivery_id
    )
    UPDATE deliveries AS d
       SET status = 'failed_permanent', reason = 'channel_removed', run_at = NULL, position = NULL, ended_at = at
      FROM gone AS g
     WHERE d.delivery_id = g.delivery_id;
    UPDATE lane_heads AS h
       SET n_queued = 0, n_retry = 0, n_failed = h.n_failed + n
     WHERE h.lane_id = lane.lane_id;
    -- The name is free again; the trigger shuts the lane.
    UPDATE channels AS c
       SET removed_at = at, enabled = false, disabled_by = 'operator', name = format('%s (removed %s)', c.name, c.channel_id)
     WHERE c.channel_id = remove_channel.channel_id;
    INSERT INTO events (workspace_id, at, name, channel_id, detail)
    VALUES (remove_channel.workspace_id, at, 'channel_removed', remove_channel.channel_id, jsonb_build_object('failed', n));
    RETURN true;
END $$;
