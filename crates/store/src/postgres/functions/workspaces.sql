-- The kill switch of a workspace, its lock and its doors.

-- A held workspace shows no heads but of who speaks of trouble, so a claim does not even see it.
CREATE OR REPLACE FUNCTION rupor_workspace_held() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    account_ids bigint[];
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'workspaces');
    PERFORM set_config('rupor.span', 'on', true);
    account_ids := array(SELECT h.account_id FROM account_heads AS h WHERE h.workspace_id = NEW.workspace_id);
    PERFORM rupor_lock_accounts(account_ids);
    UPDATE account_heads AS h
       SET open = NOT (NEW.held AND a.tier <> 'alerts' OR a.paused)
      FROM accounts AS a
     WHERE h.account_id = ANY (account_ids) AND a.account_id = h.account_id;
    PERFORM rupor_refresh_accounts(account_ids);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER workspaces_held AFTER UPDATE OF held ON workspaces
FOR EACH ROW WHEN (OLD.held <> NEW.held) EXECUTE FUNCTION rupor_workspace_held();

-- The door a secret opens, found by nothing else; so it looks across workspaces.
CREATE FUNCTION endpoint_by_secret(hash text) RETURNS SETOF workspace_endpoints
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('rupor.span', 'on', true);
    RETURN QUERY
        SELECT e.* FROM workspace_endpoints AS e
         WHERE e.enabled
           AND (e.secret_hash = hash OR (e.old_secret_hash = hash AND e.old_secret_until > rupor_now()));
END $$;

-- A door is found by its secret alone, so no secret opens two: neither as the current one nor as the one before it.
CREATE OR REPLACE FUNCTION rupor_secret_is_free() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_require_table(TG_RELID, 'workspace_endpoints');
    PERFORM set_config('rupor.span', 'on', true);
    IF EXISTS (SELECT FROM workspace_endpoints AS e
                WHERE e.endpoint_id <> NEW.endpoint_id
                  AND (e.secret_hash IN (NEW.secret_hash, NEW.old_secret_hash)
                       OR e.old_secret_hash IN (NEW.secret_hash, NEW.old_secret_hash))) THEN
        RAISE EXCEPTION 'the secret of endpoint % belongs to another one', NEW.endpoint_id USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER endpoints_secret BEFORE INSERT OR UPDATE OF secret_hash, old_secret_hash ON workspace_endpoints
FOR EACH ROW EXECUTE FUNCTION rupor_secret_is_free();

-- The queue's locks of everything in the workspace, before a step that cancels, revises and enqueues in one go.
CREATE FUNCTION lock_workspace(workspace_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rupor_guard(lock_workspace.workspace_id);
    PERFORM rupor_lock_accounts(array(SELECT a.account_id FROM accounts AS a WHERE a.workspace_id = lock_workspace.workspace_id));
END $$;
