/* Which answers used which results of queries. */
#include "store/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

/* The row is made of the answer, so that nobody can add to another's. */
static const struct db_statement add_result = {
    DB_WRITE,
    "INSERT INTO mark_results (message_id, n, owner, key, sha256, size, query, created_us) "
    "SELECT m.id, CAST(?3 AS BIGINT), c.owner, CAST(?4 AS TEXT), CAST(?5 AS TEXT), "
    "CAST(?6 AS BIGINT), CAST(?7 AS TEXT), CAST(?8 AS BIGINT) "
    "FROM mark_messages m JOIN mark_chats c ON c.id = m.chat_id "
    "WHERE m.id = ?1 AND c.owner = ?2 AND m.role = 'assistant'",
    "keep the result of a query",
};
/* The same content of several answers is there once. */
static const struct db_statement sum_results = {
    DB_WRITE,
    "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM (SELECT DISTINCT sha256, size "
    "FROM mark_results WHERE owner = ?1 AND sha256 <> ?2) AS contents",
    "sum the results of queries",
};
static const struct db_statement list_results = {
    DB_READ,
    "SELECT message_id, owner, n, key, sha256, size, created_us, query FROM mark_results "
    "WHERE message_id = ?1 AND owner = ?2 ORDER BY n",
    "list the results of queries",
};
static const struct db_statement list_of_chat = {
    DB_READ,
    "SELECT DISTINCT r.sha256 FROM mark_results r JOIN mark_messages m ON m.id = r.message_id "
    "WHERE m.chat_id = ?1 AND r.owner = ?2 AND m.seq >= ?3 AND r.size > 0",
    "list the results of a chat",
};
static const struct db_statement drop_result = {
    DB_WRITE,
    "DELETE FROM mark_results WHERE message_id = ?1 AND owner = ?2 AND n = ?3",
    "forget the result of a query",
};
static const struct db_statement has_content = {
    DB_READ,
    "SELECT 1 FROM mark_results WHERE sha256 = ?1 UNION ALL "
    "SELECT 1 FROM mark_verified_inputs WHERE kind = 'result' AND sha256 = ?1 LIMIT 1",
    "find the result of a query",
};

void store_results_free(struct store_result *results, size_t len)
{
    for (size_t i = 0; results && i < len; i++)
        free(results[i].query);
    free(results);
}

static int check_ids(const char *owner, const char *message_id, struct gb_err *err)
{
    int r = store_check_id(owner, err);

    return r < 0 ? r : store_check_id(message_id, err);
}

static int check_result(const struct store_result *result, struct gb_err *err)
{
    size_t len = result->query ? strnlen(result->query, STORE_QUERY_JSON_MAX + 1) : 0;
    int r = check_ids(result->owner, result->message_id, err);

    if (r == 0 && (len == 0 || len > STORE_QUERY_JSON_MAX || !utf8_valid(result->query, len) ||
                   result->n < 1 || result->size < 0))
        r = gb_fail_plain(err, EINVAL, "not the result of a query");
    return r;
}

static int sum_others(struct db *db, const struct store_result *result, int64_t *ret_bytes,
                      struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &sum_results, "th", result->owner, result->sha256);
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, ret_bytes)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    return r < 0 ? r : 0;
}

int store_result_add(struct store *store, const struct store_result *result, int64_t bytes_max,
                     struct gb_err *err)
{
    struct db *db = store->db;
    int64_t others = 0;
    int r = check_result(result, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = sum_others(db, result, &others, err);
    if (r == 0 && (result->size > bytes_max || others > bytes_max - result->size))
        r = gb_fail_plain(err, EDQUOT, "the owner has no room for the result of another query");
    if (r == 0)
        r = db_run(db, err, &add_result, "ttihhiti", result->message_id, result->owner, result->n,
                   result->key, result->sha256, result->size, result->query, result->created_us);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "no answer '%s'", result->message_id);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_result_drop(struct store *store, const char *owner, const char *message_id, int64_t n,
                      struct gb_err *err)
{
    int r = check_ids(owner, message_id, err);

    if (r == 0)
        r = db_write(store->db, false, err, &drop_result, "tti", message_id, owner, n);
    return r < 0 ? r : 0;
}

static int result_read(struct db_query *q, struct store_result *ret_result, struct gb_err *err)
{
    struct store_result result = { 0 };
    int r;

    if (!db_column_copy(q, 0, result.message_id, sizeof result.message_id) ||
        !db_column_copy(q, 1, result.owner, sizeof result.owner) ||
        !db_column_int(q, 2, &result.n) || !db_column_hash(q, 3, result.key) ||
        !db_column_hash(q, 4, result.sha256) || !db_column_int(q, 5, &result.size) ||
        !db_column_int(q, 6, &result.created_us))
        return db_fail_row(q, err);
    r = db_column_dup(q, 7, STORE_QUERY_JSON_MAX, &result.query);
    if (r < 0)
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read the result of a query")
                            : db_fail_row(q, err);
    *ret_result = result;
    return 0;
}

int store_result_list(struct store *store, const char *owner, const char *message_id,
                      struct store_result **ret_results, size_t *ret_len, struct gb_err *err)
{
    struct store_result *results = NULL;
    struct db_query q;
    size_t len = 0;
    int r = check_ids(owner, message_id, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_results, "tt", message_id, owner);
    while ((r = db_query_step(&q, err)) > 0) {
        if (db_grow(&results, len, sizeof *results) < 0)
            r = gb_fail(err, ENOMEM, "read the results of queries");
        else
            r = result_read(&q, &results[len], err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        store_results_free(results, len);
        return r;
    }
    *ret_results = results;
    *ret_len = len;
    return 0;
}

int store_hashes_of_chat(struct store *store, const struct db_statement *list, const char *owner,
                         const char *chat_id, int64_t from_seq, uint8_t **ret_hashes,
                         size_t *ret_len, struct gb_err *err)
{
    uint8_t(*hashes)[STORE_HASH_BYTES] = NULL;
    struct db_query q;
    size_t len = 0;
    int r = check_ids(owner, chat_id, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, list, "tti", chat_id, owner, from_seq);
    while ((r = db_query_step(&q, err)) > 0) {
        if (db_grow(&hashes, len, sizeof *hashes) < 0)
            r = gb_fail(err, ENOMEM, "%s", list->what);
        else if (!db_column_hash(&q, 0, hashes[len]))
            r = db_fail_row(&q, err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        free(hashes);
        return r;
    }
    *ret_hashes = (uint8_t *) hashes;
    *ret_len = len;
    return 0;
}

int store_result_of_chat(struct store *store, const char *owner, const char *chat_id,
                         int64_t from_seq, uint8_t **ret_hashes, size_t *ret_len,
                         struct gb_err *err)
{
    return store_hashes_of_chat(store, &list_of_chat, owner, chat_id, from_seq, ret_hashes, ret_len,
                                err);
}

int store_result_has(struct store *store, const uint8_t sha256[STORE_HASH_BYTES], bool *ret_has,
                     struct gb_err *err)
{
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &has_content, "h", sha256);
    r = db_query_step(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0)
        return r;
    *ret_has = r > 0;
    return 0;
}
