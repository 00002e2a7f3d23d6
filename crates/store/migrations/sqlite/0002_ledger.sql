-- Messages, deliveries and the queue.
--
-- `deliveries` is the row people read. The hot path walks `ready` and `inflight`: a delivery is in one of them
-- or terminal, and every move is one transaction that also writes `deliveries.status`.
-- No index stands on a column that the hot path updates.

CREATE TABLE cases (
    case_id      INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces,
    kind         TEXT    NOT NULL,
    title        TEXT    NOT NULL DEFAULT '',
    facts        TEXT    NOT NULL DEFAULT '{}',     -- how many copies, and where they were seen
    record       TEXT    NOT NULL DEFAULT '{}',     -- what later posts are weighed against
    opened_at    INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    closed_at    INTEGER,
    closed_by    INTEGER,                           -- the message that told the end
    n_messages   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (workspace_id, case_id)
) STRICT;

CREATE TABLE messages (
    message_id      INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id    INTEGER NOT NULL REFERENCES workspaces,
    source          TEXT    NOT NULL,               -- e.g. vk:-123, push:door, cli
    origin_id       TEXT    NOT NULL,               -- the source's own id of the post
    idempotency_key TEXT,
    request_hash    TEXT    NOT NULL,               -- the same key with another body is an error
    payload         TEXT    NOT NULL,
    content_hash    TEXT    NOT NULL,
    hash_version    INTEGER NOT NULL,
    fingerprint     TEXT,
    kind            TEXT    NOT NULL DEFAULT 'other',
    facts           TEXT    NOT NULL DEFAULT '{}',
    facts_version   INTEGER NOT NULL DEFAULT 0,
    tags            TEXT    NOT NULL DEFAULT '[]',
    origin          TEXT    NOT NULL DEFAULT '{}',  -- owner id, post id, url, date, edited
    case_id         INTEGER,
    revision        INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
    seen_count      INTEGER NOT NULL DEFAULT 1,
    last_seen_at    INTEGER NOT NULL,
    skipped         TEXT,                           -- why nothing was delivered
    gone_at         INTEGER,                        -- when the source no longer showed it
    created_at      INTEGER NOT NULL,
    FOREIGN KEY (workspace_id, case_id) REFERENCES cases (workspace_id, case_id),
    UNIQUE (workspace_id, source, origin_id),
    UNIQUE (workspace_id, message_id)
) STRICT;
-- Most posts have none.
CREATE UNIQUE INDEX messages_key ON messages (workspace_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX messages_fingerprint ON messages (workspace_id, fingerprint) WHERE fingerprint IS NOT NULL;
CREATE INDEX messages_case ON messages (workspace_id, case_id) WHERE case_id IS NOT NULL;
-- Posts without what a bot answers: there may be a million answers between two posts.
CREATE INDEX messages_posts ON messages (workspace_id, message_id) WHERE substr(source, 1, 4) <> 'bot:';

CREATE TABLE deliveries (
    delivery_id     INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused, also after retention
    workspace_id    INTEGER NOT NULL,
    lane_id         INTEGER NOT NULL,
    account_id      INTEGER NOT NULL,
    channel_id      INTEGER,
    recipient_id    INTEGER,
    message_id      INTEGER NOT NULL,
    revision        INTEGER NOT NULL DEFAULT 1,
    action          TEXT    NOT NULL DEFAULT 'send' CHECK (action = 'send' OR action = 'edit' OR action = 'reply' OR action = 'delete'),
    target_delivery INTEGER,
    generation      INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
    parent_delivery INTEGER,                        -- the one an operator requeued
    priority        INTEGER NOT NULL DEFAULT 0 CHECK (priority IN (0, 1)),
    status          TEXT    NOT NULL,
    reason          TEXT,
    claim_token     BLOB,
    claim_seq       INTEGER NOT NULL DEFAULT 0,
    attempt         INTEGER NOT NULL DEFAULT 0,
    charged         INTEGER NOT NULL DEFAULT 0,
    flood_waits     INTEGER NOT NULL DEFAULT 0,
    not_ready_waits INTEGER NOT NULL DEFAULT 0,
    unknowns        INTEGER NOT NULL DEFAULT 0,
    lost_claims     INTEGER NOT NULL DEFAULT 0,
    lost_requests   INTEGER NOT NULL DEFAULT 0,
    flood_since     INTEGER,
    run_at          INTEGER,                        -- when it is due, while pending
    position        INTEGER,                        -- its place in `ready`, while pending
    lease_until     INTEGER,
    slot_at         INTEGER,
    expires_at      INTEGER,
    parts           TEXT    NOT NULL DEFAULT '[]',  -- provider ids of the parts done, in order
    provider_message_id TEXT,
    idempotency_key TEXT    NOT NULL,               -- given to platforms that recognise repeats; new in every generation
    last_error      TEXT,
    queued_at       INTEGER NOT NULL,
    claimed_at      INTEGER,
    sending_at      INTEGER,
    retry_at        INTEGER,                        -- when it last came back to wait
    sent_at         INTEGER,
    ended_at        INTEGER,
    FOREIGN KEY (workspace_id, message_id) REFERENCES messages (workspace_id, message_id),
    FOREIGN KEY (workspace_id, channel_id) REFERENCES channels (workspace_id, channel_id),
    FOREIGN KEY (workspace_id, recipient_id) REFERENCES recipients (workspace_id, recipient_id),
    -- Few and large instead of many and small: every one of them is evaluated with every update. By = and not by IN, of
    -- which SQLite builds a table for every row; the most frequent first.
    CONSTRAINT deliveries_state CHECK (
        (status = 'sent' AND sent_at IS NOT NULL AND ended_at IS NOT NULL
         AND run_at IS NULL AND position IS NULL AND claim_token IS NULL AND lease_until IS NULL)
        OR ((status = 'sending' OR status = 'claimed') AND claim_token IS NOT NULL AND lease_until IS NOT NULL
            AND run_at IS NULL AND position IS NULL AND sent_at IS NULL AND ended_at IS NULL)
        OR ((status = 'queued' OR status = 'retry') AND run_at IS NOT NULL AND position IS NOT NULL
            AND claim_token IS NULL AND lease_until IS NULL AND sent_at IS NULL AND ended_at IS NULL)
        OR ((status = 'deduped' OR status = 'failed_permanent' OR status = 'dead')
            AND ended_at IS NOT NULL AND reason IS NOT NULL AND run_at IS NULL AND position IS NULL
            AND claim_token IS NULL AND lease_until IS NULL AND sent_at IS NULL)),
    CONSTRAINT deliveries_counters CHECK (
        charged BETWEEN 0 AND attempt AND unknowns BETWEEN 0 AND attempt AND lost_claims BETWEEN 0 AND attempt
        AND lost_requests BETWEEN 0 AND unknowns
        AND attempt <= claim_seq),
    CONSTRAINT deliveries_target CHECK ((channel_id IS NULL) <> (recipient_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX deliveries_of_channel ON deliveries (message_id, channel_id, action, revision, generation) WHERE channel_id IS NOT NULL;
-- Whether somebody still wants to change or answer a post.
CREATE INDEX deliveries_target ON deliveries (target_delivery) WHERE target_delivery IS NOT NULL;
CREATE UNIQUE INDEX deliveries_of_recipient ON deliveries (message_id, recipient_id, action, revision, generation) WHERE recipient_id IS NOT NULL;
-- Of whom it was once unknown whether the post arrived: few, and asked for by who says the same words to the same chat.
CREATE INDEX deliveries_unknown ON deliveries (channel_id, recipient_id) WHERE unknowns > 0;
CREATE INDEX deliveries_of_lane ON deliveries (lane_id, delivery_id);
CREATE INDEX deliveries_of_workspace ON deliveries (workspace_id, delivery_id);

-- A CHECK cannot see the old row; this can. A claim performs both of its arrows in one statement
-- (queued|retry → claimed → sending), which shows in attempt and claim_seq.
CREATE TRIGGER deliveries_transition
AFTER UPDATE OF status ON deliveries
WHEN OLD.status <> NEW.status
 AND NOT (
      (OLD.status = 'sending' AND NEW.attempt = OLD.attempt
       AND (NEW.status = 'sent' OR NEW.status = 'retry' OR NEW.status = 'failed_permanent' OR NEW.status = 'dead'))
   OR (NEW.status = 'sending' AND NEW.attempt = OLD.attempt + 1 AND NEW.claim_seq = OLD.claim_seq + 1
       AND (OLD.status = 'queued' OR OLD.status = 'retry'))
   OR (NEW.status = 'sending' AND NEW.attempt = OLD.attempt + 1 AND OLD.status = 'claimed')
   OR (NEW.status = 'claimed' AND (OLD.status = 'queued' OR OLD.status = 'retry'))
   OR ((OLD.status = 'queued' OR OLD.status = 'retry') AND NEW.attempt = OLD.attempt
       AND (NEW.status = 'deduped' OR NEW.status = 'failed_permanent' OR NEW.status = 'dead'))
 )
BEGIN
    SELECT RAISE(ABORT, 'deliveries: illegal transition');
END;

-- Waiting rows. First by (priority, position) is next: an ordered lane's position is the delivery id,
-- an unordered lane's is run_at.
CREATE TABLE ready (
    lane_id      INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    delivery_id  INTEGER NOT NULL,
    workspace_id INTEGER NOT NULL,
    run_at       INTEGER NOT NULL,
    expires_at   INTEGER,
    suspect      INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)),  -- lost a claim before: claimed alone
    PRIMARY KEY (lane_id, priority, position, delivery_id)
) STRICT, WITHOUT ROWID;

-- Rows that somebody holds. Parallelism is derived from here, never from counters that strangers move: one tree
-- counts the lane and the account and finds the claim, for a delivery's lane and account never change.
-- No index on lease_until: every claim would write it, and recovery may read all that is in flight.
CREATE TABLE inflight (
    delivery_id  INTEGER NOT NULL,
    workspace_id INTEGER NOT NULL,
    account_id   INTEGER NOT NULL,
    lane_id      INTEGER NOT NULL,
    claim_token  BLOB    NOT NULL,
    claim_seq    INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    run_id       TEXT    NOT NULL,
    claimed_at   INTEGER NOT NULL,
    slot_at      INTEGER NOT NULL,
    lease_until  INTEGER NOT NULL,
    requested_at INTEGER,                           -- a request may have left us from here on
    absent       INTEGER NOT NULL DEFAULT 0 CHECK (absent IN (0, 1)),  -- before that, what earlier claims may have sent was not there
    PRIMARY KEY (account_id, lane_id, delivery_id)
) STRICT, WITHOUT ROWID;

-- One row per ended attempt; the open one is the `inflight` row.
CREATE TABLE attempts (
    delivery_id  INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    workspace_id INTEGER NOT NULL,
    claim_token  BLOB    NOT NULL,
    claim_seq    INTEGER NOT NULL,
    run_id       TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    slot_at      INTEGER,
    requested_at INTEGER,
    finished_at  INTEGER NOT NULL,
    outcome      TEXT    NOT NULL,
    error        TEXT,
    provider_message_id TEXT,
    PRIMARY KEY (delivery_id, attempt),
    CONSTRAINT attempts_outcome CHECK (
        outcome = 'sent' OR outcome = 'retry' OR outcome = 'failed_permanent' OR outcome = 'dead' OR outcome = 'released'
        OR outcome = 'lease_expired' OR outcome = 'late_success')
) STRICT, WITHOUT ROWID;

-- What was said in a channel, or is on its way: the guard against saying it twice. The delivery that took the key
-- tells which of the two, since when and under what id, so that a success writes nothing here; one that fails or is
-- dropped gives its key back.
CREATE TABLE dedup_index (
    workspace_id  INTEGER NOT NULL,
    channel_id    INTEGER NOT NULL,
    mode          TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    key           TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    delivery_id   INTEGER NOT NULL,
    first_origin  TEXT    NOT NULL DEFAULT '{}',
    sent_at       INTEGER,                          -- written when retention takes the delivery and the window still runs
    last_seen_at  INTEGER NOT NULL,
    count         INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (workspace_id, channel_id, mode, version, key, kind)
) STRICT, WITHOUT ROWID;
-- Retention walks by delivery, which is by age as well.
CREATE UNIQUE INDEX dedup_index_delivery ON dedup_index (delivery_id);

CREATE TABLE events (
    event_id     INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    -- by = and not by IN, as above
    name         TEXT    NOT NULL CHECK (
        name = 'enqueued' OR name = 'deduped' OR name = 'retry_scheduled' OR name = 'retry_exhausted'
        OR name = 'dead_letter' OR name = 'failed_permanent' OR name = 'outcome_unknown' OR name = 'late_success'
        OR name = 'lease_recovered' OR name = 'channel_paused' OR name = 'channel_resumed'
        OR name = 'channel_disabled' OR name = 'channel_removed' OR name = 'account_paused'
        OR name = 'account_resumed' OR name = 'cooldown' OR name = 'ingest_skipped' OR name = 'ingress_rejected'
        OR name = 'edited' OR name = 'gone' OR name = 'recipient_gone' OR name = 'closed' OR name = 'cancelled' OR name = 'expired'
        OR name = 'requeued' OR name = 'config_changed' OR name = 'held' OR name = 'released'
        OR name = 'unsure' OR name = 'approved' OR name = 'rejected' OR name = 'campaign_changed' OR name = 'case_changed'
        OR name = 'alert'),
    message_id   INTEGER,
    delivery_id  INTEGER,
    channel_id   INTEGER,
    recipient_id INTEGER,
    account_id   INTEGER,
    detail       TEXT    NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX events_of_workspace ON events (workspace_id, event_id);
CREATE INDEX events_of_delivery ON events (delivery_id) WHERE delivery_id IS NOT NULL;
CREATE TRIGGER events_append_only BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events: append only');
END;
