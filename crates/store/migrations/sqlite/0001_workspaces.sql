-- Who sends, where to, and how fast. Times are microseconds since the epoch; money, sizes and counts are integers.
-- The PostgreSQL twin has the same number, tables, columns and order.

CREATE TABLE workspaces (
    workspace_id INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 200),
    held         INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),  -- kill switch of one workspace
    created_at   INTEGER NOT NULL
) STRICT;

-- One row: the kill switch of everything, and the boot epoch that a restored backup does not share.
CREATE TABLE control (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    held       INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),
    held_why   TEXT,
    epoch      TEXT,
    history    TEXT    NOT NULL DEFAULT (lower(hex(randomblob(8)))),  -- in every idempotency key; copied with the rows, new after a restore
    key_check  BLOB    -- a known text sealed with the key: tells a wrong key file from a damaged token
) STRICT;
INSERT INTO control (one) VALUES (1);

CREATE TABLE workspace_endpoints (
    endpoint_id  INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    name         TEXT    NOT NULL,
    kind         TEXT    NOT NULL,                  -- push, or the platform whose webhook it is
    -- hex of SHA-256: the door is found by its secret and by nothing else. Not salted, for the secret is long and random.
    secret_hash  TEXT    NOT NULL UNIQUE,
    old_secret_hash  TEXT    UNIQUE,             -- the secret before, and until when it opens the door too
    old_secret_until INTEGER NOT NULL DEFAULT 0,
    enabled      INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    settings     TEXT    NOT NULL DEFAULT '{}',
    created_at   INTEGER NOT NULL,
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, endpoint_id)
) STRICT;

-- The shared budget of everybody who uses one token; not scoped, because a token may stand in two workspaces.
CREATE TABLE rate_groups (
    group_id       INTEGER PRIMARY KEY,
    platform       TEXT    NOT NULL,
    fingerprint    TEXT    NOT NULL,
    interval_us    INTEGER NOT NULL DEFAULT 0 CHECK (interval_us >= 0),
    burst          INTEGER NOT NULL DEFAULT 1 CHECK (burst >= 1),
    next_slot      INTEGER NOT NULL DEFAULT 0,
    cooldown_until INTEGER NOT NULL DEFAULT 0,
    flood_channel  INTEGER,                         -- the chat that flooded last (one of the two), and until when
    flood_recipient INTEGER,
    flood_until    INTEGER NOT NULL DEFAULT 0,
    trouble_streak INTEGER NOT NULL DEFAULT 0,
    UNIQUE (platform, fingerprint)
) STRICT;

CREATE TABLE accounts (
    account_id     INTEGER PRIMARY KEY,
    workspace_id   INTEGER NOT NULL REFERENCES workspaces,
    platform       TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    kind           TEXT    NOT NULL DEFAULT 'bot',  -- VK: user, community, service
    tier           TEXT    NOT NULL DEFAULT 'standard',
    token_sealed   BLOB    NOT NULL,                -- XChaCha20-Poly1305; workspace and account are bound in
    fingerprint    TEXT    NOT NULL,                -- keyed hash of the token: equal tokens share a budget
    group_id       INTEGER NOT NULL REFERENCES rate_groups,
    rate           REAL    CHECK (rate > 0),        -- requests a second; NULL: only the platform's own limit
    burst          INTEGER NOT NULL DEFAULT 1 CHECK (burst >= 1),
    max_parallel   INTEGER NOT NULL DEFAULT 8 CHECK (max_parallel >= 1),
    retry_parallel INTEGER NOT NULL DEFAULT 2 CHECK (retry_parallel >= 1),
    paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    paused_why     TEXT,
    paused_at      INTEGER,
    api_base       TEXT,
    proxy          TEXT,
    extra_roots    TEXT,
    addresses_sealed BLOB ,  -- api_base and proxy whole, where they carry credentials; the columns show them masked
    settings       TEXT    NOT NULL DEFAULT '{}',
    created_at     INTEGER NOT NULL,
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, account_id)
) STRICT;

CREATE TABLE channels (
    channel_id       INTEGER PRIMARY KEY,
    workspace_id     INTEGER NOT NULL,
    account_id       INTEGER NOT NULL,
    platform         TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    target           TEXT    NOT NULL,
    target_since     INTEGER NOT NULL DEFAULT 0,    -- what was said before stands in another chat
    chat_kind        TEXT    NOT NULL DEFAULT 'channel' CHECK (chat_kind IN ('private', 'group', 'channel')),
    enabled          INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    disabled_by      TEXT    CHECK (disabled_by IN ('operator', 'auto')),
    removed_at       INTEGER,
    paused_until     INTEGER NOT NULL DEFAULT 0,    -- 9223372036854775807: until somebody resumes it
    paused_why       TEXT,
    error_streak     INTEGER NOT NULL DEFAULT 0 CHECK (error_streak >= 0),
    rate             REAL    CHECK (rate > 0),
    max_parallel     INTEGER NOT NULL DEFAULT 1 CHECK (max_parallel >= 1),
    ambiguity        TEXT    NOT NULL DEFAULT 'resend_once' CHECK (ambiguity IN ('resend', 'resend_once', 'hold', 'reconcile')),
    dedup            TEXT    NOT NULL DEFAULT 'content' CHECK (dedup IN ('content', 'fingerprint', 'case', 'off')),
    dedup_ttl_us     INTEGER NOT NULL DEFAULT 604800000000 CHECK (dedup_ttl_us >= 0),
    max_age_us       INTEGER CHECK (max_age_us > 0),
    template         TEXT,
    parse_mode       TEXT,
    body_max         INTEGER NOT NULL DEFAULT 3500 CHECK (body_max > 0),
    overflow         TEXT    NOT NULL DEFAULT 'cut' CHECK (overflow IN ('cut', 'split')),
    max_media        INTEGER NOT NULL DEFAULT 10 CHECK (max_media >= 0),
    route            TEXT,                          -- the filter as the operator wrote it
    quiet_hours      TEXT,
    time_zone        TEXT,
    settings         TEXT    NOT NULL DEFAULT '{}',
    created_at       INTEGER NOT NULL,
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id),
    CHECK ((enabled = 1) = (disabled_by IS NULL)),
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, channel_id)
) STRICT;
-- Whether a chat that somebody writes to is a channel's as well: then the channel's lane keeps its pace.
CREATE INDEX channels_of_chat ON channels (account_id, target);

-- A person on a bot. The status decides who may be written to unasked: only who is active is in an audience.
CREATE TABLE recipients (
    recipient_id INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    platform     TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,                  -- the platform's own id of the person
    address      TEXT    NOT NULL,                  -- the chat to write to
    attributes   TEXT    NOT NULL DEFAULT '{}',
    time_zone    TEXT,
    -- Written out: for a list of more than two, SQLite makes a table of it anew at every row.
    status       TEXT    NOT NULL DEFAULT 'known' CHECK (status = 'known' OR status = 'active' OR status = 'stopped' OR status = 'gone'),
    status_why   TEXT,
    status_at    INTEGER NOT NULL,
    source       TEXT    NOT NULL DEFAULT '',       -- where we know them from
    contacted_at INTEGER,
    error_streak INTEGER NOT NULL DEFAULT 0 CHECK (error_streak >= 0),
    paused_until INTEGER NOT NULL DEFAULT 0,        -- a flood of this chat
    next_slot    INTEGER NOT NULL DEFAULT 0,        -- the pace of this chat, whatever lane asks
    created_at   INTEGER NOT NULL,
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id),
    UNIQUE (workspace_id, account_id, user_id),
    UNIQUE (workspace_id, recipient_id)
) STRICT;
-- With the status: who gets a campaign is found without reading the wide rows.
CREATE INDEX recipients_of_person ON recipients (workspace_id, platform, user_id, account_id, status);
CREATE INDEX recipients_gone ON recipients (account_id) WHERE status = 'gone';

-- Who must not be written to, on one account or on all; survives every import.
CREATE TABLE suppressions (
    suppression_id INTEGER PRIMARY KEY,
    workspace_id   INTEGER NOT NULL REFERENCES workspaces,
    platform       TEXT    NOT NULL,
    user_id        TEXT    NOT NULL,
    account_id     INTEGER NOT NULL DEFAULT 0,      -- 0: all accounts
    reason         TEXT    NOT NULL CHECK (reason IN ('stopped', 'blocked', 'deactivated', 'complaint', 'manual', 'imported')),
    origin         TEXT    NOT NULL CHECK (origin IN ('recipient', 'platform', 'operator')),
    at             INTEGER NOT NULL,
    UNIQUE (workspace_id, platform, user_id, account_id)
) STRICT;

-- What a workspace sets for a rate group; the group itself keeps the slots.
CREATE TABLE platform_limits (
    workspace_id   INTEGER NOT NULL REFERENCES workspaces,
    platform       TEXT    NOT NULL,
    group_id       INTEGER NOT NULL REFERENCES rate_groups,
    rate           REAL    CHECK (rate > 0),
    burst          INTEGER NOT NULL DEFAULT 1 CHECK (burst >= 1),
    PRIMARY KEY (workspace_id, platform, group_id)
) STRICT, WITHOUT ROWID;

-- The head of an account in the queue: when it may next be served.
CREATE TABLE account_heads (
    account_id     INTEGER PRIMARY KEY,
    workspace_id   INTEGER NOT NULL,
    group_id       INTEGER NOT NULL,
    next_at        INTEGER NOT NULL DEFAULT 9223372036854775807,
    open           INTEGER NOT NULL DEFAULT 1 CHECK (open IN (0, 1)),
    max_parallel   INTEGER NOT NULL,
    retry_parallel INTEGER NOT NULL,                -- of those in flight, retries
    served_at      INTEGER NOT NULL DEFAULT 0,      -- next_at is never before it: the least recently served come first
    urgent_run     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX account_heads_due ON account_heads (next_at, account_id);
CREATE INDEX account_heads_due_of_workspace ON account_heads (workspace_id, next_at, account_id);

-- The head of a lane, which says how deliveries queue: one per channel, per campaign and account, per dialogue.
-- There may be a million dialogues: whoever lists lanes goes by lane_heads_listed.
CREATE TABLE lane_heads (
    lane_id        INTEGER PRIMARY KEY,
    workspace_id   INTEGER NOT NULL,
    account_id     INTEGER NOT NULL,
    channel_id     INTEGER UNIQUE,
    campaign_id    INTEGER,
    recipient_id   INTEGER UNIQUE,                  -- a dialogue
    next_at        INTEGER NOT NULL DEFAULT 9223372036854775807,
    head_priority  INTEGER NOT NULL DEFAULT 0 CHECK (head_priority IN (0, 1)),
    open           INTEGER NOT NULL DEFAULT 1 CHECK (open IN (0, 1)),
    blocked_until  INTEGER NOT NULL DEFAULT 0,      -- pause of the channel
    closed_until   INTEGER NOT NULL DEFAULT 0,      -- quiet hours
    put_off_until  INTEGER NOT NULL DEFAULT 0,      -- its next row is a retry that found no room
    ambiguity      TEXT    NOT NULL DEFAULT 'resend_once' CHECK (ambiguity IN ('resend', 'resend_once', 'hold', 'reconcile')),
    max_parallel   INTEGER NOT NULL,                -- 1 keeps the order
    interval_us    INTEGER NOT NULL DEFAULT 0 CHECK (interval_us >= 0),
    next_slot      INTEGER NOT NULL DEFAULT 0,
    served_at      INTEGER NOT NULL DEFAULT 0,      -- next_at is never before it: the least recently served come first
    urgent_run     INTEGER NOT NULL DEFAULT 0,
    -- maintained counters; never counted on request
    n_queued       INTEGER NOT NULL DEFAULT 0,
    n_retry        INTEGER NOT NULL DEFAULT 0,
    n_sending      INTEGER NOT NULL DEFAULT 0,
    n_sent         INTEGER NOT NULL DEFAULT 0,
    n_deduped      INTEGER NOT NULL DEFAULT 0,
    n_failed       INTEGER NOT NULL DEFAULT 0,
    n_dead         INTEGER NOT NULL DEFAULT 0,
    n_requeued     INTEGER NOT NULL DEFAULT 0,      -- of those that failed, how many a new generation speaks for
    CHECK ((channel_id IS NOT NULL) + (campaign_id IS NOT NULL) + (recipient_id IS NOT NULL) = 1),
    UNIQUE (campaign_id, account_id)
) STRICT;
CREATE INDEX lane_heads_due ON lane_heads (account_id, head_priority, next_at, lane_id);
CREATE INDEX lane_heads_listed ON lane_heads (workspace_id, lane_id) WHERE recipient_id IS NULL;

-- The bars of the board: what ended in the lane of a channel, by the hour. Moved together with the counters of the lane, by
-- whoever holds that row already. Campaigns and dialogues are not in it.
CREATE TABLE lane_counts (
    lane_id        INTEGER NOT NULL,
    at             INTEGER NOT NULL,                -- when the hour began
    workspace_id   INTEGER NOT NULL,
    n_sent         INTEGER NOT NULL DEFAULT 0,
    n_deduped      INTEGER NOT NULL DEFAULT 0,
    n_failed       INTEGER NOT NULL DEFAULT 0,      -- and given up
    sent_at        INTEGER,                         -- the last success of it
    PRIMARY KEY (lane_id, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX lane_counts_age ON lane_counts (at);
