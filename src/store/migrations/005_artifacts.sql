-- Files that programs of answers wrote, kept when the session of the chat has ended. Contents are in
-- mark/files, once for each, with those of attachments.
CREATE TABLE mark_artifacts (
    message_id TEXT NOT NULL REFERENCES mark_messages (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,         -- place in the artifacts of the answer, from 1
    owner TEXT NOT NULL,
    name TEXT NOT NULL,        -- path in the workspace
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    PRIMARY KEY (message_id, n)
);
CREATE INDEX mark_artifacts_by_content ON mark_artifacts (sha256);
CREATE INDEX mark_artifacts_by_owner ON mark_artifacts (owner, created_us);
