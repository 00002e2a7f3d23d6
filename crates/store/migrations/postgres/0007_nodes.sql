-- Who sends, and which history of the database each of them acts on.

-- After a standby has taken over, nobody sends before everybody who sent lately has told what the standby does not know.
CREATE TABLE nodes (
    run_id  text PRIMARY KEY CHECK (octet_length(run_id) BETWEEN 1 AND 200),
    seen_at timestamptz NOT NULL,
    history text NOT NULL,                       -- as in control; whoever writes it here has told all that it remembers
    server  text NOT NULL                        -- the timeline; empty where it cannot be asked for
);
