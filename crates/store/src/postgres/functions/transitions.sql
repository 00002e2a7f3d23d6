-- What no client may do by hand. No twin: SQLite says it in the migration, for its triggers have no functions.

-- A CHECK cannot see the old row; this can. The condition is evaluated without calling the function, and AFTER because a
-- BEFORE trigger locks every row once more: so a legal update pays next to nothing. A claim performs both of its arrows in one statement
-- (queued|retry → claimed → sending), which shows in attempt and claim_seq.
CREATE OR REPLACE FUNCTION rupor_refuse_transition() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'delivery %: illegal transition % → %', OLD.delivery_id, OLD.status, NEW.status
        USING ERRCODE = 'check_violation',
              HINT = 'Use the functions: claim_deliveries, mark_sent, schedule_retry, fail_permanent, requeue_deliveries.';
END $$;

CREATE OR REPLACE TRIGGER deliveries_transition
AFTER UPDATE OF status ON deliveries
FOR EACH ROW
WHEN (OLD.status <> NEW.status
 AND NOT (
      (OLD.status IN ('queued', 'retry') AND NEW.status = 'claimed')
   OR (OLD.status IN ('queued', 'retry') AND NEW.status = 'sending' AND NEW.attempt = OLD.attempt + 1 AND NEW.claim_seq = OLD.claim_seq + 1)
   OR (OLD.status = 'claimed' AND NEW.status = 'sending' AND NEW.attempt = OLD.attempt + 1)
   OR (OLD.status = 'sending' AND NEW.status IN ('sent', 'retry', 'failed_permanent', 'dead') AND NEW.attempt = OLD.attempt)
   OR (OLD.status IN ('queued', 'retry') AND NEW.status IN ('deduped', 'failed_permanent', 'dead') AND NEW.attempt = OLD.attempt)
 ))
EXECUTE FUNCTION rupor_refuse_transition();

CREATE OR REPLACE FUNCTION rupor_refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events: append only' USING ERRCODE = 'check_violation';
END $$;

CREATE OR REPLACE TRIGGER events_append_only BEFORE UPDATE ON events
FOR EACH ROW EXECUTE FUNCTION rupor_refuse_change();

-- Who asked for a change, and why: the transaction says so, every event in it tells.
CREATE OR REPLACE FUNCTION rupor_told_by() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.detail := NEW.detail || jsonb_strip_nulls(jsonb_build_object(
        'by', current_setting('rupor.by', true), 'reason', nullif(current_setting('rupor.reason', true), '')));
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER events_told_by BEFORE INSERT ON events
FOR EACH ROW WHEN (current_setting('rupor.by', true) <> '') EXECUTE FUNCTION rupor_told_by();
