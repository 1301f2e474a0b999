-- Notebooks that somebody shares with everyone who may use the service. Owners are principal_text().
-- The notebook comes last, so that reading the others does not read it.
CREATE TABLE shares (
    id TEXT PRIMARY KEY NOT NULL, -- 'shr_' and 128 random bits: who knows it may read
    owner TEXT NOT NULL,
    title TEXT NOT NULL,
    size BIGINT NOT NULL,         -- bytes of the notebook
    created_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    notebook TEXT NOT NULL        -- JSON
);
CREATE INDEX shares_by_owner ON shares (owner, created_us);
CREATE INDEX shares_by_end ON shares (expires_us);
