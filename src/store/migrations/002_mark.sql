-- Mark: users, chats, messages, attachments, feedback. Owners are principal_text(): of a user, an
-- API key, or "local". JSON is text; ids are UUIDs.

CREATE TABLE mark_users (
    id TEXT PRIMARY KEY NOT NULL,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    password TEXT NOT NULL,
    is_operator BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    valid_from_us BIGINT NOT NULL
);

-- One row, whose value grows with every user that is added, changed or removed. Whoever adds a user
-- updates it first, so only one can be the first user.
CREATE TABLE mark_users_generation (
    value BIGINT NOT NULL
);
INSERT INTO mark_users_generation (value) VALUES (1);

-- A sign-in is a family of refresh tokens. Only the hash of the youngest is kept: a token names its
-- family, so any other token of the family is a spent one, however long ago that was.
CREATE TABLE mark_sign_ins (
    family TEXT PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES mark_users (id) ON DELETE CASCADE,
    hash TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    used_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL
);
CREATE INDEX mark_sign_ins_by_user ON mark_sign_ins (user_id, used_us);
CREATE INDEX mark_sign_ins_by_end ON mark_sign_ins (expires_us);

CREATE TABLE mark_invitations (
    hash TEXT PRIMARY KEY NOT NULL,
    created_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL
);

-- words is what a search looks at: the title, or the text of a message, in lower case. Large columns
-- come last, so that reading the others does not read them.
CREATE TABLE mark_chats (
    id TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    title TEXT NOT NULL,
    words TEXT NOT NULL,
    session_id TEXT,
    model TEXT,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    bytes BIGINT NOT NULL -- what its messages and traces take, about
);
CREATE INDEX mark_chats_by_owner ON mark_chats (owner, updated_us, id);

CREATE TABLE mark_messages (
    id TEXT PRIMARY KEY NOT NULL,
    chat_id TEXT NOT NULL REFERENCES mark_chats (id) ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    reply_to TEXT,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'ok', 'error', 'stopped', 'needs_input')),
    prompt_version TEXT,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    words TEXT NOT NULL,
    parts TEXT NOT NULL,
    attachments TEXT,
    usage TEXT,
    details TEXT,
    response TEXT,
    UNIQUE (chat_id, seq)
);
CREATE INDEX mark_messages_pending ON mark_messages (created_us) WHERE status = 'pending';

CREATE TABLE mark_traces (
    message_id TEXT NOT NULL REFERENCES mark_messages (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    exchange TEXT NOT NULL,
    PRIMARY KEY (message_id, n)
);

CREATE TABLE mark_feedback (
    message_id TEXT PRIMARY KEY NOT NULL REFERENCES mark_messages (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    rating TEXT NOT NULL CHECK (rating IN ('up', 'down')),
    reasons TEXT,
    comment TEXT,
    created_us BIGINT NOT NULL
);
CREATE INDEX mark_feedback_by_time ON mark_feedback (created_us, message_id);

CREATE TABLE mark_attachments (
    id TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    profile TEXT,
    created_us BIGINT NOT NULL
);
CREATE INDEX mark_attachments_by_owner ON mark_attachments (owner, created_us);
CREATE INDEX mark_attachments_by_content ON mark_attachments (sha256);

-- Sessions belong to users too, so their owner is no longer a reference to a key.
CREATE TABLE sessions_002 (
    id TEXT PRIMARY KEY NOT NULL,
    owner TEXT, -- principal_record(); NULL: made without credentials
    created_us BIGINT NOT NULL,
    last_used_us BIGINT NOT NULL,
    ended_us BIGINT,
    end_reason TEXT CHECK (end_reason IN ('expired', 'deleted', 'lost', 'shutdown')),
    CHECK ((ended_us IS NULL) = (end_reason IS NULL))
);
INSERT INTO sessions_002 (id, owner, created_us, last_used_us, ended_us, end_reason)
SELECT id, key_id, created_us, last_used_us, ended_us, end_reason FROM sessions;
DROP TABLE sessions;
ALTER TABLE sessions_002 RENAME TO sessions;
CREATE INDEX sessions_by_end ON sessions (ended_us);
