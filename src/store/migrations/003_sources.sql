-- Data sources of Mark, their catalogues, kept results of queries, what people spent, and answers that
-- somebody verified. Owners are principal_text(); JSON is text; ids are UUIDs unless said otherwise.

-- settings: what the kind needs, without secrets. secret: sealed with the key in the data directory,
-- base64; NULL: none. notes: joins and example questions, which people edit.
CREATE TABLE mark_sources (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('postgresql', 'bigquery', 'files')),
    settings TEXT NOT NULL,
    secret TEXT,
    notes TEXT,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    synced_us BIGINT,          -- NULL: never
    sync_error TEXT            -- why the last sync failed; NULL: it did not
);

-- Who may use a source, and as whom. who is an email, 'key:ID', or '*'. Without a row for a caller the
-- source does not exist for it. role, login and the sealed secret are of the database.
CREATE TABLE mark_source_access (
    source_id TEXT NOT NULL REFERENCES mark_sources (id) ON DELETE CASCADE,
    who TEXT NOT NULL,
    role TEXT,
    login TEXT,
    secret TEXT,
    PRIMARY KEY (source_id, who)
);

-- info is what the source says about the table, replaced by every sync; notes is what people wrote,
-- kept. A table that is gone keeps its notes, with gone_us.
CREATE TABLE mark_source_tables (
    source_id TEXT NOT NULL REFERENCES mark_sources (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    gone_us BIGINT,
    synced_us BIGINT NOT NULL,
    notes TEXT,
    info TEXT NOT NULL,
    PRIMARY KEY (source_id, name)
);

-- Results of queries that an answer used, by their content; the files are in mark/results/. One row
-- for each query of an answer: what is needed to run the answer again without the source.
CREATE TABLE mark_results (
    message_id TEXT NOT NULL REFERENCES mark_messages (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,         -- place of the query in the answer, from 1
    owner TEXT NOT NULL,
    key TEXT NOT NULL,         -- SHA-256 of source, SQL and parameters, as the broker makes it
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    query TEXT NOT NULL,       -- JSON as in MarkResponse, with the parameters
    created_us BIGINT NOT NULL,
    PRIMARY KEY (message_id, n)
);
CREATE INDEX mark_results_by_content ON mark_results (sha256);
CREATE INDEX mark_results_by_owner ON mark_results (owner, created_us);

-- What an owner has spent on one day (UTC, '2026-11-16'). Money is in millionths of a US dollar.
CREATE TABLE mark_spent (
    owner TEXT NOT NULL,
    day TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    us BIGINT NOT NULL,
    PRIMARY KEY (owner, day)
);

-- Budgets of single owners, where they differ from the service's. NULL: the service's.
CREATE TABLE mark_budgets (
    who TEXT PRIMARY KEY NOT NULL, -- an email, or 'key:ID'
    bytes BIGINT,
    cost BIGINT,
    tokens BIGINT,
    us BIGINT
);

-- Answers that a person has verified. They outlive their chat: all that is needed to run them again is
-- in here (content by hash in mark/files and mark/results).
CREATE TABLE mark_verified (
    id TEXT PRIMARY KEY NOT NULL,
    message_id TEXT NOT NULL UNIQUE, -- not a reference: the message may be deleted
    owner TEXT NOT NULL,
    shared BIGINT NOT NULL,          -- an operator's, an example for everybody who may use its sources
    created_us BIGINT NOT NULL,
    checked_us BIGINT,               -- when it was last run again
    passed BIGINT,                   -- and whether everything was equal
    question TEXT NOT NULL,
    words TEXT NOT NULL,             -- of the question, in lower case, to find it by
    content TEXT NOT NULL            -- JSON: code, inputs, values, tables, story, model, prompts
);
CREATE INDEX mark_verified_by_owner ON mark_verified (owner, created_us);

-- The contents that verified answers need: they stay while an answer has them, whoever deletes the
-- attachment or the message that they came from.
CREATE TABLE mark_verified_inputs (
    verified_id TEXT NOT NULL REFERENCES mark_verified (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('file', 'result')), -- in mark/files, in mark/results
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    PRIMARY KEY (verified_id, kind, sha256)
);
CREATE INDEX mark_verified_inputs_by_content ON mark_verified_inputs (sha256);
