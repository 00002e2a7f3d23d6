-- Where posts come from, the bytes they bring, and how a known case is found again.

-- A case stands under every integer that may lead to it. A shelf holds the latest few: the writer throws the rest out,
-- so a volunteer's phone costs no more to look up than a rare name.
CREATE TABLE case_keys (
    workspace_id INTEGER NOT NULL,
    key          INTEGER NOT NULL,
    case_id      INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, key, case_id)
) STRICT, WITHOUT ROWID;

-- The same for the bands of a picture, with the whole look, which decides.
CREATE TABLE case_pictures (
    workspace_id INTEGER NOT NULL,
    key          INTEGER NOT NULL,
    across       INTEGER NOT NULL,
    down         INTEGER NOT NULL,
    case_id      INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, key, across, down, case_id)
) STRICT, WITHOUT ROWID;

-- Posts that nobody is sure of, where the channel wants a person to look first: no delivery and no key until then.
-- One that nobody decided by `expires_at` (the channel's max_age) is over.
CREATE TABLE held_posts (
    workspace_id INTEGER NOT NULL,
    message_id   INTEGER NOT NULL,
    channel_id   INTEGER NOT NULL,
    why          TEXT NOT NULL,
    held_at      INTEGER NOT NULL,
    expires_at   INTEGER,
    decision     TEXT CHECK (decision = 'approved' OR decision = 'rejected' OR decision = 'withdrawn'),
    decided_at   INTEGER,
    decided_by   TEXT,                              -- who, where somebody is named
    PRIMARY KEY (workspace_id, message_id, channel_id),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    FOREIGN KEY (workspace_id, message_id) REFERENCES messages (workspace_id, message_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX held_posts_undecided ON held_posts (workspace_id, message_id, channel_id) WHERE decision IS NULL;

CREATE TABLE media_origin (
    sha256       TEXT    NOT NULL,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    mime         TEXT    NOT NULL,
    bytes_count  INTEGER NOT NULL CHECK (bytes_count >= 0),
    width        INTEGER,
    height       INTEGER,
    picture_hash TEXT,
    source_url   TEXT,
    bytes        BLOB,                              -- NULL here: the bytes lie in a folder; PostgreSQL keeps them in the row
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, sha256)
) STRICT, WITHOUT ROWID;

CREATE INDEX media_origin_source ON media_origin (workspace_id, source_url) WHERE source_url IS NOT NULL;

-- Pictures that are being decoded: what stands here at a start was being decoded when a node ended.
CREATE TABLE media_looks (
    workspace_id INTEGER NOT NULL,
    key          TEXT    NOT NULL,
    begun        INTEGER NOT NULL,
    last_at      INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, key)
) STRICT, WITHOUT ROWID;

-- Which messages show which bytes: what is shown is not thrown away.
CREATE TABLE message_media (
    workspace_id INTEGER NOT NULL,
    sha256       TEXT NOT NULL,
    message_id   INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, sha256, message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE media_blobs (
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    sha256       TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    handle       TEXT    NOT NULL,
    expires_at   INTEGER,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, account_id, sha256, kind),
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pull_sources (
    source_id    INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    kind         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    address      TEXT    NOT NULL,
    address_sealed BLOB,          -- all of it, where `address` is shown without its keys
    account_id   INTEGER,
    enabled      INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    settings     TEXT    NOT NULL DEFAULT '{}',
    created_at   INTEGER NOT NULL,
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id),
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, source_id)
) STRICT;

CREATE TABLE pull_cursors (
    source_id    INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    cursor       TEXT    NOT NULL DEFAULT '{}',
    next_poll_at INTEGER NOT NULL DEFAULT 0,
    lease_until  INTEGER NOT NULL DEFAULT 0,        -- one node polls a source at a time
    lease_owner  TEXT,
    failing_since INTEGER,
    last_error   TEXT,
    updated_at   INTEGER NOT NULL,
    FOREIGN KEY (workspace_id, source_id) REFERENCES pull_sources (workspace_id, source_id)
) STRICT;

CREATE TABLE ingest_runs (
    run_id       INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    source       TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER,
    seen         INTEGER NOT NULL DEFAULT 0,
    stored       INTEGER NOT NULL DEFAULT 0,
    skipped      INTEGER NOT NULL DEFAULT 0,
    enqueued     INTEGER NOT NULL DEFAULT 0,
    error        TEXT
) STRICT;
CREATE INDEX ingest_runs_of_workspace ON ingest_runs (workspace_id, run_id);
CREATE INDEX ingest_runs_open ON ingest_runs (started_at) WHERE finished_at IS NULL;

CREATE TABLE ingress_receipts (
    workspace_id INTEGER NOT NULL,
    endpoint_id  INTEGER NOT NULL,
    key          TEXT    NOT NULL,
    request_hash TEXT    NOT NULL,
    response     TEXT    NOT NULL,
    received_at  INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, endpoint_id, key),
    FOREIGN KEY (workspace_id, endpoint_id) REFERENCES workspace_endpoints (workspace_id, endpoint_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ingress_receipts_age ON ingress_receipts (received_at);
