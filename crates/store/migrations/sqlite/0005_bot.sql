-- The rule-driven bot: who writes to it, where each dialogue stands, and what is answered.
-- A dialogue is a person on an account (recipients). Replies are ordinary deliveries; what stands here is the mailbox.

CREATE TABLE bots (
    bot_id         INTEGER PRIMARY KEY,
    workspace_id   INTEGER     NOT NULL REFERENCES workspaces,
    name           TEXT        NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    operators_id   INTEGER,                            -- the channel where people answer for it
    active_version INTEGER     NOT NULL DEFAULT 0,    -- of its rules; 0: none yet
    services       TEXT        NOT NULL DEFAULT '{}', -- by name, the account that has its address and signs
    created_at     INTEGER     NOT NULL,
    FOREIGN KEY (workspace_id, operators_id) REFERENCES channels (workspace_id, channel_id),
    UNIQUE (workspace_id, name),
    UNIQUE (workspace_id, bot_id)
) STRICT;

-- How an account hears. The row outlives its bot: where it stopped listening, it goes on.
CREATE TABLE bot_accounts (
    account_id       INTEGER PRIMARY KEY,
    workspace_id     INTEGER     NOT NULL,
    bot_id           INTEGER,                          -- NULL: of no bot now
    receive          TEXT        NOT NULL CHECK (receive IN ('poll', 'webhook')),
    hook_key         TEXT        UNIQUE,              -- the random last part of the webhook's address
    hook_secret_hash TEXT,                            -- hex of SHA-256; the platform shows the secret with every call
    hook_settings    TEXT        NOT NULL DEFAULT '{}',
    cursor           TEXT,                            -- where the next poll begins; moves with what it brought
    owner            TEXT,                            -- the node that polls, and until when it may
    leased_until     INTEGER     NOT NULL DEFAULT 0,
    heard_at         INTEGER,                     -- when the platform last answered or called
    problem          TEXT,                            -- why it does not hear now
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id),
    FOREIGN KEY (workspace_id, bot_id) REFERENCES bots (workspace_id, bot_id)
) STRICT;

CREATE TABLE bot_rules (
    workspace_id INTEGER     NOT NULL,
    bot_id       INTEGER     NOT NULL,
    version      INTEGER     NOT NULL CHECK (version >= 1),
    rules        TEXT        NOT NULL,
    created_at   INTEGER     NOT NULL,
    PRIMARY KEY (bot_id, version),
    FOREIGN KEY (workspace_id, bot_id) REFERENCES bots (workspace_id, bot_id)
) STRICT;

CREATE TABLE bot_inbox (
    inbox_id     INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given again: replies are named by it
    workspace_id INTEGER     NOT NULL,
    account_id   INTEGER     NOT NULL,
    recipient_id INTEGER,                              -- whose dialogue; NULL: of nobody, recorded only
    event_key    TEXT        NOT NULL,                -- the platform's own key of the update: it acts once
    kind         TEXT        NOT NULL,
    body         TEXT,                               -- forgotten after a while; the key stays longer
    happened_at  INTEGER     NOT NULL,
    received_at  INTEGER     NOT NULL,
    done_at      INTEGER,
    verdict      TEXT,                                -- what became of it, once it is done
    CHECK ((done_at IS NULL) = (verdict IS NULL)),
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id),
    FOREIGN KEY (workspace_id, recipient_id) REFERENCES recipients (workspace_id, recipient_id),
    UNIQUE (account_id, event_key, workspace_id)
) STRICT;
-- No event is in both: who looks for what waits can never walk all that a person has ever said.
CREATE INDEX bot_inbox_waiting ON bot_inbox (recipient_id, inbox_id) WHERE done_at IS NULL;
CREATE INDEX bot_inbox_of_person ON bot_inbox (recipient_id, inbox_id) WHERE done_at IS NOT NULL AND recipient_id IS NOT NULL;
CREATE INDEX bot_inbox_skipped ON bot_inbox (workspace_id, inbox_id) WHERE recipient_id IS NULL AND done_at IS NOT NULL;
CREATE INDEX bot_inbox_worded ON bot_inbox (inbox_id) WHERE body IS NOT NULL;

-- Where a dialogue stands. due_at is queue, timer and lease in one: when somebody has to look at it.
CREATE TABLE bot_state (
    recipient_id INTEGER PRIMARY KEY,
    workspace_id INTEGER     NOT NULL,
    account_id   INTEGER     NOT NULL,
    mode         TEXT        NOT NULL DEFAULT 'bot' CHECK (mode IN ('bot', 'human', 'stopped')),
    version      INTEGER     NOT NULL DEFAULT 0,      -- + 1 with every commit
    state        TEXT        NOT NULL DEFAULT '{}',
    timer_at     INTEGER,
    due_at       INTEGER     NOT NULL DEFAULT 9223372036854775807,
    token        BLOB,                                -- of the turn that is being taken, until due_at
    updated_at   INTEGER     NOT NULL,
    FOREIGN KEY (workspace_id, recipient_id) REFERENCES recipients (workspace_id, recipient_id),
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id)
) STRICT;
-- Who waits for nothing is not in it, however many they are.
CREATE INDEX bot_state_due ON bot_state (due_at, recipient_id) WHERE due_at < 9223372036854775807;
CREATE INDEX bot_state_human ON bot_state (workspace_id, recipient_id) WHERE mode = 'human';

-- What a turn said or asked for: (event, n) leads to one delivery, or to one call of a service.
CREATE TABLE bot_outbox (
    outbox_id    INTEGER PRIMARY KEY,
    workspace_id INTEGER     NOT NULL,
    recipient_id INTEGER     NOT NULL,
    inbox_id     INTEGER     NOT NULL,
    n            INTEGER     NOT NULL,
    kind         TEXT        NOT NULL CHECK (kind IN ('reply', 'forward', 'call')),
    delivery_id  INTEGER,                              -- NULL: the person is gone
    created_at   INTEGER     NOT NULL,
    bot_id       INTEGER,                              -- of a call: whose service
    service      TEXT,
    fields       TEXT,                              -- what it is told; forgotten when it has answered
    status       TEXT CHECK (status IN ('waiting', 'done', 'failed')),
    tries        INTEGER NOT NULL DEFAULT 0,            -- calls made; who settles one names its number
    due_at       INTEGER,                          -- when to call, or until when somebody does
    reason       TEXT,                              -- why it failed
    CHECK ((kind = 'call') = (status IS NOT NULL)),
    UNIQUE (inbox_id, n),
    FOREIGN KEY (workspace_id, recipient_id) REFERENCES recipients (workspace_id, recipient_id)
) STRICT;
CREATE INDEX bot_outbox_of_delivery ON bot_outbox (delivery_id);
CREATE INDEX bot_outbox_of_person ON bot_outbox (recipient_id);
CREATE INDEX bot_outbox_calls ON bot_outbox (due_at, outbox_id) WHERE status = 'waiting';
CREATE INDEX bot_outbox_called ON bot_outbox (workspace_id, outbox_id) WHERE kind = 'call';

CREATE TABLE bot_logs (
    log_id       INTEGER PRIMARY KEY,
    workspace_id INTEGER     NOT NULL,
    account_id   INTEGER     NOT NULL,
    recipient_id INTEGER     NOT NULL,
    inbox_id     INTEGER     NOT NULL,
    at           INTEGER     NOT NULL,
    version      INTEGER     NOT NULL,                -- of the rules
    rule         TEXT,
    verdict      TEXT        NOT NULL,
    detail       TEXT        NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX bot_logs_of_workspace ON bot_logs (workspace_id, log_id);
CREATE INDEX bot_logs_of_person ON bot_logs (recipient_id);

-- Chats that a bot was added to or taken out of; there is no other way to learn of them on some platforms.
CREATE TABLE bot_chats (
    workspace_id INTEGER     NOT NULL,
    account_id   INTEGER     NOT NULL,
    chat         TEXT        NOT NULL,
    title        TEXT,
    seen_at      INTEGER     NOT NULL,
    left_at      INTEGER,
    PRIMARY KEY (account_id, chat),
    FOREIGN KEY (workspace_id, account_id) REFERENCES accounts (workspace_id, account_id)
) STRICT;

