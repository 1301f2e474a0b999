-- What every backend has. Types and syntax are those that SQLite and PostgreSQL share; hashes are
-- lower-case hex, times are microseconds since 1970.

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    last_used_us BIGINT,
    revoked_us BIGINT,
    sessions BIGINT,         -- NULL: the server's default; so are the next two
    executions BIGINT,
    rate_per_minute BIGINT
);

-- One row, whose value grows with every key that is added or revoked.
CREATE TABLE api_keys_generation (
    value BIGINT NOT NULL
);
INSERT INTO api_keys_generation (value) VALUES (1);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    key_id TEXT REFERENCES api_keys (id), -- NULL: made without a key
    created_us BIGINT NOT NULL,
    last_used_us BIGINT NOT NULL,
    ended_us BIGINT,
    end_reason TEXT CHECK (end_reason IN ('expired', 'deleted', 'lost', 'shutdown')),
    CHECK ((ended_us IS NULL) = (end_reason IS NULL))
);
CREATE INDEX sessions_by_end ON sessions (ended_us);

CREATE TABLE audit_log (
    seq BIGINT PRIMARY KEY NOT NULL,
    time_us BIGINT NOT NULL,
    session_id TEXT, -- not a reference: the record of a session is pruned, its entries are not
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    fields TEXT NOT NULL
);
CREATE INDEX audit_log_by_session ON audit_log (session_id, seq);

-- One row: the end of the log, noted apart from it, so that a tail that was cut off is missed.
CREATE TABLE audit_head (
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO audit_head (seq, hash)
VALUES (0, '0000000000000000000000000000000000000000000000000000000000000000');
