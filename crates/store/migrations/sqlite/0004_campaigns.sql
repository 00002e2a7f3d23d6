-- Broadcasts to long lists.

CREATE TABLE campaigns (
    campaign_id  INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    name         TEXT    NOT NULL,
    message_id   INTEGER,
    status       TEXT    NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'running', 'paused', 'done', 'cancelled')),
    settings     TEXT    NOT NULL DEFAULT '{}',
    cursor       TEXT    NOT NULL DEFAULT '{}',     -- how far the list is expanded into deliveries
    created_at   INTEGER NOT NULL,
    FOREIGN KEY (workspace_id, message_id) REFERENCES messages (workspace_id, message_id),
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, campaign_id)
) STRICT;
