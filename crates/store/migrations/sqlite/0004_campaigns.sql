-- Broadcasts to long lists. A row per recipient is the truth; cursors only speed up.

-- People who are written to together: those who were imported into it, or those on whom a filter fits.
CREATE TABLE audiences (
    audience_id  INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    name         TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    filter       TEXT,                              -- as the operator wrote it; NULL: who was imported
    import       TEXT    NOT NULL DEFAULT '{}',     -- of which file, and how far it has come
    n_people     INTEGER NOT NULL DEFAULT 0,        -- imported
    created_at   INTEGER NOT NULL,
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, audience_id)
) STRICT;

CREATE TABLE audience_recipients (
    workspace_id INTEGER NOT NULL,
    audience_id  INTEGER NOT NULL,
    recipient_id INTEGER NOT NULL,
    PRIMARY KEY (audience_id, recipient_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE campaigns (
    campaign_id  INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    name         TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    status       TEXT    NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'scheduled', 'preparing', 'running', 'paused',
                     'finishing', 'finished', 'cancelling', 'cancelled', 'aborted')),
    why          TEXT,
    version      INTEGER NOT NULL DEFAULT 0,        -- every change of the status is one more
    ends_as      TEXT    NOT NULL DEFAULT 'cancelled' CHECK (ends_as IN ('cancelled', 'aborted')),  -- what cancelling leads to
    audience_id  INTEGER,                           -- NULL: everybody on its accounts
    accounts     TEXT    NOT NULL,                  -- ids, the preferred first
    settings     TEXT    NOT NULL DEFAULT '{}',
    seed         TEXT    NOT NULL,                  -- of the lots that decide variant and stage
    revision     INTEGER NOT NULL DEFAULT 1,        -- of its words
    wave         INTEGER NOT NULL DEFAULT 0,        -- how often those who failed were tried anew
    retries      TEXT    NOT NULL DEFAULT '{}',     -- whom the wave that is being prepared takes
    at_platform  TEXT    NOT NULL DEFAULT '',       -- how far the freeze, or the wave, has come
    at_user      TEXT    NOT NULL DEFAULT '',
    min_gap_us   INTEGER NOT NULL DEFAULT 0,        -- since the last contact
    starts_at    INTEGER,
    deadline_us  INTEGER NOT NULL DEFAULT 0,        -- after the start, and after the start of each wave; 0: none
    deadline     INTEGER,
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,
    frozen_at    INTEGER,
    ended_at     INTEGER,
    rest_at      INTEGER,                           -- the first ones have it; the others get it from then on
    resting      TEXT    NOT NULL DEFAULT '{}',     -- accounts whose part alone is paused, and why
    judged_from  TEXT    NOT NULL DEFAULT '{}',     -- what had ended when it last went on: its guards judge what came later
    n_total      INTEGER NOT NULL DEFAULT 0,
    n_excluded   INTEGER NOT NULL DEFAULT 0,
    n_failed_again INTEGER NOT NULL DEFAULT 0,      -- of those that failed, how many a later wave took up
    n_dead_again   INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (workspace_id, audience_id) REFERENCES audiences (workspace_id, audience_id),
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, campaign_id)
) STRICT;

-- What it says; several where the better one is looked for.
CREATE TABLE campaign_variants (
    workspace_id INTEGER NOT NULL,
    campaign_id  INTEGER NOT NULL,
    variant      INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    weight       INTEGER NOT NULL DEFAULT 1 CHECK (weight >= 0),
    message_id   INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, variant),
    FOREIGN KEY (workspace_id, campaign_id) REFERENCES campaigns (workspace_id, campaign_id),
    FOREIGN KEY (workspace_id, message_id) REFERENCES messages (workspace_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX campaign_variants_message ON campaign_variants (message_id);

-- Those who are fed together: of one account, one time zone, one stage. Nobody waits behind the cursor.
CREATE TABLE campaign_cohorts (
    cohort_id    INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    campaign_id  INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    zone         TEXT    NOT NULL,
    stage        TEXT    NOT NULL CHECK (stage IN ('first', 'rest')),
    cursor       INTEGER NOT NULL DEFAULT 0,
    n_total      INTEGER NOT NULL DEFAULT 0,
    n_waiting    INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (workspace_id, campaign_id) REFERENCES campaigns (workspace_id, campaign_id),
    UNIQUE (campaign_id, account_id, zone, stage)
) STRICT;

-- One row per person and campaign. While it is queued, its newest delivery says how far it is; retention writes that here.
CREATE TABLE campaign_recipients (
    member_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL,
    campaign_id  INTEGER NOT NULL,
    cohort_id    INTEGER,                           -- NULL: left out from the beginning
    recipient_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    platform     TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    variant      INTEGER NOT NULL DEFAULT 0,
    generation   INTEGER NOT NULL DEFAULT 0,
    -- Written out: for a list of more than two, SQLite makes a table of it anew at every row.
    state        TEXT    NOT NULL CHECK (state = 'waiting' OR state = 'queued' OR state = 'settled' OR state = 'excluded'),
    reason       TEXT,                              -- why they are left out
    delivery_id  INTEGER,                           -- the newest
    outcome      TEXT,                              -- how it ended, when the delivery is gone
    code         TEXT,
    unknowns     INTEGER NOT NULL DEFAULT 0,        -- of its requests, how many may have arrived
    provider_message_id TEXT,
    at           INTEGER,
    CHECK ((state = 'excluded') = (reason IS NOT NULL)),
    UNIQUE (campaign_id, platform, user_id)
) STRICT;
CREATE INDEX campaign_recipients_of_cohort ON campaign_recipients (cohort_id, member_id);
CREATE INDEX campaign_recipients_of_recipient ON campaign_recipients (recipient_id);

-- Maintained counts by reason: why people were left out.
CREATE TABLE campaign_codes (
    workspace_id INTEGER NOT NULL,
    campaign_id  INTEGER NOT NULL,
    code         TEXT    NOT NULL,
    n            INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, code)
) STRICT, WITHOUT ROWID;

-- How far it was, now and then while it runs and at every change of its status.
CREATE TABLE campaign_progress (
    workspace_id INTEGER NOT NULL,
    campaign_id  INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    waiting      INTEGER NOT NULL,
    on_their_way INTEGER NOT NULL,
    sent         INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    dead         INTEGER NOT NULL,
    excluded     INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, at)
) STRICT, WITHOUT ROWID;

-- How often an account had to cool down lately.
CREATE INDEX events_of_cooldowns ON events (account_id, at) WHERE name = 'cooldown';

-- A person gets one delivery of a campaign in each wave, whatever revision of its words.
ALTER TABLE deliveries ADD COLUMN campaign_id INTEGER;
CREATE UNIQUE INDEX deliveries_of_campaign ON deliveries (campaign_id, recipient_id, action, generation) WHERE campaign_id IS NOT NULL;

-- What it sends may be paid for: of a campaign whose policy says so, and which can afford it.
ALTER TABLE lane_heads ADD COLUMN paid INTEGER NOT NULL DEFAULT 0;
