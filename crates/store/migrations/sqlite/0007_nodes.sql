-- Who sends, and which history of the database each of them acts on.

-- A file has one node and no other server; here it says the same as on PostgreSQL.
CREATE TABLE nodes (
    run_id  TEXT PRIMARY KEY CHECK (length(CAST(run_id AS BLOB)) BETWEEN 1 AND 200),
    seen_at INTEGER NOT NULL,
    history TEXT NOT NULL,                       -- as in control; whoever writes it here has told all that it remembers
    server  TEXT NOT NULL                        -- always empty
) STRICT;
