-- Who is told of trouble, and who may ask.

-- One row for each trouble from its beginning to its end, with what was told of it.
CREATE TABLE alerts (
    alert_id     INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    key          TEXT    NOT NULL,                  -- what it is about, by ids; of one node with @ and the name of its machine
    kind         TEXT    NOT NULL,
    severity     TEXT    NOT NULL CHECK (severity IN ('act', 'heals')),
    words        TEXT    NOT NULL,                  -- headline, cause, next, help
    opened_at    INTEGER NOT NULL,
    seen_at      INTEGER NOT NULL,                  -- when it was last so
    told_at      INTEGER,
    n_told       INTEGER NOT NULL DEFAULT 0,
    ended_at     INTEGER,
    cleared_at   INTEGER                            -- when its end was told, or needed no telling
) STRICT;
CREATE UNIQUE INDEX alerts_open ON alerts (workspace_id, key) WHERE ended_at IS NULL;
CREATE INDEX alerts_unsettled ON alerts (workspace_id, alert_id) WHERE cleared_at IS NULL;

-- What the watch looks for among the events: few, so that looking costs what went wrong and not what was said.
CREATE INDEX events_of_trouble ON events (workspace_id, at)
 WHERE name = 'dead_letter' OR name = 'failed_permanent' OR name = 'requeued' OR name = 'retry_scheduled' OR name = 'lease_recovered';

CREATE TABLE api_tokens (
    token_id     INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    name         TEXT    NOT NULL,
    secret_hash  TEXT    NOT NULL UNIQUE,           -- hex of SHA-256; the token is long and random
    scopes       TEXT    NOT NULL,                  -- a JSON array
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER,
    UNIQUE (workspace_id, name)
) STRICT;

-- Deliveries that ended and of which programs are still to be told.
CREATE TABLE outcomes (
    outcome_id   INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    delivery_id  INTEGER NOT NULL
) STRICT;
CREATE INDEX outcomes_of_workspace ON outcomes (workspace_id, outcome_id);
CREATE INDEX accounts_of_callbacks ON accounts (workspace_id) WHERE tier = 'callbacks';

-- In the transaction that ends them. Only where an account of the workspace is in the tier of callbacks; what became of
-- alerts and of callbacks themselves is told to nobody. Whoever ends a claim with a success notes it himself, a batch at a
-- time: that is what a queue does all day.
CREATE TRIGGER deliveries_outcome
AFTER UPDATE OF status ON deliveries
WHEN NEW.channel_id IS NOT NULL AND OLD.status <> NEW.status
 AND (NEW.status = 'sent' OR NEW.status = 'failed_permanent' OR NEW.status = 'dead')
 AND NOT (OLD.status = 'sending' AND NEW.status = 'sent')
BEGIN
    INSERT INTO outcomes (workspace_id, delivery_id)
    SELECT NEW.workspace_id, NEW.delivery_id
     WHERE EXISTS (SELECT 1 FROM accounts AS a WHERE a.workspace_id = NEW.workspace_id AND a.tier = 'callbacks')
       AND NOT EXISTS (SELECT 1 FROM accounts AS a
                        WHERE a.account_id = NEW.account_id AND (a.tier = 'alerts' OR a.tier = 'callbacks'));
END;
