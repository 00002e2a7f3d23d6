-- The rule-driven bot.

CREATE TABLE bot_rules (
    rule_id      INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    rules        TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id),
    UNIQUE (workspace_id, account_id, version)
) STRICT;

CREATE TABLE bot_inbox (
    inbox_id     INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    event_key    TEXT    NOT NULL,                  -- the platform's own key of the update: applied once
    chat         TEXT    NOT NULL,
    body         TEXT    NOT NULL,
    received_at  INTEGER NOT NULL,
    done_at      INTEGER,
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id),
    UNIQUE (workspace_id, account_id, event_key)
) STRICT;

CREATE TABLE bot_state (
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    chat         TEXT    NOT NULL,
    version      INTEGER NOT NULL DEFAULT 0,
    state        TEXT    NOT NULL DEFAULT '{}',
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, account_id, chat),
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE bot_outbox (
    outbox_id    INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    inbox_id     INTEGER,
    chat         TEXT    NOT NULL,
    body         TEXT    NOT NULL,
    status       TEXT    NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'sending', 'sent', 'failed_permanent', 'dead')),
    attempt      INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id)
) STRICT;

CREATE TABLE bot_logs (
    log_id       INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    chat         TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    rule         TEXT,
    detail       TEXT    NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX bot_logs_of_workspace ON bot_logs (workspace_id, log_id);
