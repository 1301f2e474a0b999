/* Which answers have which files. */
#include "store/artifacts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

/* The row is made of the answer, so that nobody can add to another's. */
static const struct db_statement add_artifact = {
    DB_WRITE,
    "INSERT INTO mark_artifacts (message_id, n, owner, name, sha256, size, created_us) "
    "SELECT m.id, CAST(?3 AS BIGINT), c.owner, CAST(?4 AS TEXT), CAST(?5 AS TEXT), "
    "CAST(?6 AS BIGINT), CAST(?7 AS BIGINT) "
    "FROM mark_messages m JOIN mark_chats c ON c.id = m.chat_id "
    "WHERE m.id = ?1 AND c.owner = ?2 AND m.role = 'assistant'",
    "keep a file of an answer",
};
static const struct db_statement sum_files = {
    DB_WRITE,
    "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM (SELECT DISTINCT sha256, size "
    "FROM mark_artifacts WHERE owner = ?1 AND sha256 <> ?2 UNION ALL SELECT id, size "
    "FROM mark_attachments WHERE owner = ?1) AS contents",
    "sum files",
};
static const struct db_statement get_artifact = {
    DB_READ,
    "SELECT message_id, owner, n, name, sha256, size, created_us FROM mark_artifacts "
    "WHERE message_id = ?1 AND owner = ?2 AND n = ?3",
    "find a file of an answer",
};
static const struct db_statement list_of_chat = {
    DB_READ,
    "SELECT DISTINCT a.sha256 FROM mark_artifacts a JOIN mark_messages m ON m.id = a.message_id "
    "WHERE m.chat_id = ?1 AND a.owner = ?2 AND m.seq >= ?3",
    "list the files of a chat",
};

void store_artifact_release(struct store_artifact *artifact)
{
    free(artifact->name);
    artifact->name = NULL;
}

static int check_ids(const char *owner, const char *id, struct gb_err *err)
{
    int r = store_check_id(owner, err);

    return r < 0 ? r : store_check_id(id, err);
}

static int check_artifact(const struct store_artifact *artifact, struct gb_err *err)
{
    size_t len = artifact->name ? strnlen(artifact->name, STORE_ARTIFACT_NAME_MAX) : 0;
    int r = check_ids(artifact->owner, artifact->message_id, err);

    if (r == 0 && (len == 0 || len >= STORE_ARTIFACT_NAME_MAX || !utf8_valid(artifact->name, len) ||
                   artifact->n < 1 || artifact->size < 0))
        r = gb_fail_plain(err, EINVAL, "not a file of an answer");
    return r;
}

static int sum_others(struct db *db, const struct store_artifact *artifact, int64_t *ret_bytes,
                      struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &sum_files, "th", artifact->owner, artifact->sha256);
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, ret_bytes)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    return r < 0 ? r : 0;
}

int store_artifact_add(struct store *store, const struct store_artifact *artifact,
                       int64_t bytes_max, struct gb_err *err)
{
    struct db *db = store->db;
    int64_t others = 0;
    int r = check_artifact(artifact, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = sum_others(db, artifact, &others, err);
    if (r == 0 && (artifact->size > bytes_max || others > bytes_max - artifact->size))
        r = gb_fail_plain(err, EDQUOT, "the owner has no room for another file");
    if (r == 0)
        r = db_run(db, err, &add_artifact, "ttithii", artifact->message_id, artifact->owner,
                   artifact->n, artifact->name, artifact->sha256, artifact->size,
                   artifact->created_us);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "no answer '%s'", artifact->message_id);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

static int artifact_read(struct db_query *q, struct store_artifact *ret_artifact,
                         struct gb_err *err)
{
    struct store_artifact artifact = { 0 };
    int r;

    if (!db_column_copy(q, 0, artifact.message_id, sizeof artifact.message_id) ||
        !db_column_copy(q, 1, artifact.owner, sizeof artifact.owner) ||
        !db_column_int(q, 2, &artifact.n) || !db_column_hash(q, 4, artifact.sha256) ||
        !db_column_int(q, 5, &artifact.size) || !db_column_int(q, 6, &artifact.created_us))
        return db_fail_row(q, err);
    r = db_column_dup(q, 3, STORE_ARTIFACT_NAME_MAX, &artifact.name);
    if (r == 0 && !artifact.name)
        r = -EUCLEAN;
    if (r < 0)
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read a file of an answer")
                            : db_fail_row(q, err);
    *ret_artifact = artifact;
    return 0;
}

int store_artifact_get(struct store *store, const char *owner, const char *message_id, int64_t n,
                       struct store_artifact *ret_artifact, struct gb_err *err)
{
    struct db_query q;
    int r = check_ids(owner, message_id, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_artifact, "tti", message_id, owner, n);
    r = db_query_step(&q, err);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "no such file of an answer");
    else if (r > 0)
        r = artifact_read(&q, ret_artifact, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

int store_artifact_of_chat(struct store *store, const char *owner, const char *chat_id,
                           int64_t from_seq, uint8_t **ret_hashes, size_t *ret_len,
                           struct gb_err *err)
{
    return store_hashes_of_chat(store, &list_of_chat, owner, chat_id, from_seq, ret_hashes, ret_len,
                                err);
}
