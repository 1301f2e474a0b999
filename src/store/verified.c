/* Verified answers. Their contents are long, so lists leave them out. */
#include "store/verified.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "store/fold.h"
#include "store/internal.h"

#include "base/banned.h"

#define WORDS_MAX 4096

#define SELECT_VERIFIED                                                                            \
    "SELECT id, message_id, owner, shared, created_us, checked_us, passed, question"
#define BRIEF_VERIFIED SELECT_VERIFIED ", NULL FROM mark_verified "
/* The newest, in pages: those that come after a time and an id. */
#define PAGE       "(created_us < ?1 OR (created_us = ?1 AND id < ?2)) "
#define PAGE_ORDER "ORDER BY created_us DESC, id DESC LIMIT ?3"

static const struct db_statement count_verified = {
    DB_WRITE,
    "SELECT COUNT(*) FROM mark_verified WHERE owner = ?1",
    "count verified answers",
};
/* The same content of several answers is there once. */
static const struct db_statement sum_inputs = {
    DB_WRITE,
    "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM (SELECT DISTINCT i.kind, i.sha256, i.size "
    "FROM mark_verified_inputs i JOIN mark_verified v ON v.id = i.verified_id "
    "WHERE v.owner = ?1) AS inputs",
    "sum the inputs of verified answers",
};
static const struct db_statement add_verified = {
    DB_WRITE,
    "INSERT INTO mark_verified (id, message_id, owner, shared, created_us, checked_us, passed, "
    "question, words, content) VALUES (?1, ?2, ?3, ?4, ?5, NULL, NULL, ?6, ?7, ?8)",
    "add a verified answer",
};
static const struct db_statement add_input = {
    DB_WRITE,
    "INSERT INTO mark_verified_inputs (verified_id, kind, sha256, size) VALUES (?1, ?2, ?3, ?4) "
    "ON CONFLICT (verified_id, kind, sha256) DO NOTHING",
    "add an input of a verified answer",
};
static const struct db_statement get_verified = {
    DB_READ,
    SELECT_VERIFIED ", content FROM mark_verified WHERE id = ?1",
    "find a verified answer",
};
static const struct db_statement get_verified_of = {
    DB_READ,
    BRIEF_VERIFIED "WHERE message_id = ?1",
    "find a verified answer",
};
static const struct db_statement get_time = {
    DB_READ,
    "SELECT created_us FROM mark_verified WHERE id = ?1",
    "find a verified answer",
};
static const struct db_statement list_own = {
    DB_READ,
    BRIEF_VERIFIED "WHERE " PAGE "AND owner = ?4 " PAGE_ORDER,
    "list verified answers",
};
static const struct db_statement list_shared_too = {
    DB_READ,
    BRIEF_VERIFIED "WHERE " PAGE "AND (owner = ?4 OR shared = 1) " PAGE_ORDER,
    "list verified answers",
};
static const struct db_statement list_all = {
    DB_READ,
    BRIEF_VERIFIED "WHERE " PAGE PAGE_ORDER,
    "list verified answers",
};
static const struct db_statement delete_verified = {
    DB_WRITE,
    "DELETE FROM mark_verified WHERE id = ?1 AND owner = ?2",
    "delete a verified answer",
};
static const struct db_statement delete_verified_any = {
    DB_WRITE,
    "DELETE FROM mark_verified WHERE id = ?1",
    "delete a verified answer",
};
static const struct db_statement set_checked = {
    DB_WRITE,
    "UPDATE mark_verified SET checked_us = ?2, passed = ?3 WHERE id = ?1",
    "note a check of a verified answer",
};

static const char *const input_kinds[] = {
    [STORE_INPUT_FILE] = "file", [STORE_INPUT_RESULT] = "result"
};

void store_verified_release(struct store_verified *verified)
{
    free(verified->question);
    free(verified->content);
    verified->question = verified->content = NULL;
}

void store_verified_free(struct store_verified *verified, size_t len)
{
    for (size_t i = 0; verified && i < len; i++)
        store_verified_release(&verified[i]);
    free(verified);
}

static int fail_unknown(const char *id, struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no verified answer '%s'", id);
}

/* ---- writing ---- */

static int check_text(const char *text, size_t max, struct gb_err *err)
{
    size_t len = text ? strnlen(text, max + 1) : 0;

    if (len > max)
        return gb_fail_plain(err, E2BIG, "a verified answer is too long");
    if (len == 0 || !utf8_valid(text, len))
        return gb_fail_plain(err, EINVAL, "not a verified answer");
    return 0;
}

static int check_verified(const struct store_verified *verified, const struct store_input *inputs,
                          size_t inputs_len, struct gb_err *err)
{
    int r = store_check_id(verified->id, err);

    if (r == 0)
        r = store_check_id(verified->message_id, err);
    if (r == 0)
        r = store_check_id(verified->owner, err);
    if (r == 0)
        r = check_text(verified->question, STORE_VERIFIED_QUESTION_MAX, err);
    if (r == 0)
        r = check_text(verified->content, STORE_VERIFIED_BYTES_MAX, err);
    if (r == 0 && inputs_len > STORE_VERIFIED_INPUTS_MAX)
        r = gb_fail_plain(err, E2BIG, "a verified answer has too many inputs");
    for (size_t i = 0; r == 0 && i < inputs_len; i++)
        if (inputs[i].size < 0)
            r = gb_fail_plain(err, EINVAL, "not an input of a verified answer");
    return r;
}

static int read_number(struct db *db, const struct db_statement *statement, const char *owner,
                       int64_t *ret_number, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, statement, "t", owner);
    int r = db_query_step(&q, err);

    if (r == 0 || (r > 0 && !db_column_int(&q, 0, ret_number)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    return r < 0 ? r : 0;
}

/* In the transaction, after the rows were added: what is too much is rolled back. */
static int check_share(struct db *db, const char *owner, int64_t bytes_max, struct gb_err *err)
{
    int64_t count, bytes;
    int r = read_number(db, &count_verified, owner, &count, err);

    if (r == 0)
        r = read_number(db, &sum_inputs, owner, &bytes, err);
    if (r < 0)
        return r;
    if (count > STORE_VERIFIED_MAX)
        return gb_fail_plain(err, EDQUOT, "there can be at most %d verified answers of one owner",
                             STORE_VERIFIED_MAX);
    if (bytes_max >= 0 && bytes > bytes_max)
        return gb_fail_plain(err, EDQUOT,
                             "the inputs of verified answers of one owner take too much room");
    return 0;
}

int store_verified_add(struct store *store, const struct store_verified *verified,
                       const struct store_input *inputs, size_t inputs_len, int64_t bytes_max,
                       struct gb_err *err)
{
    autofree char *words = NULL;
    struct db *db = store->db;
    int r = check_verified(verified, inputs, inputs_len, err);

    if (r < 0)
        return r;
    words = store_fold(verified->question, WORDS_MAX);
    if (!words)
        return gb_fail(err, ENOMEM, "add a verified answer");
    r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = db_run(db, err, &add_verified, "tttiittt", verified->id, verified->message_id,
               verified->owner, (int64_t) verified->shared, verified->created_us,
               verified->question, words, verified->content);
    for (size_t i = 0; r >= 0 && i < inputs_len; i++)
        r = db_run(db, err, &add_input, "tthi", verified->id, input_kinds[inputs[i].kind],
                   inputs[i].sha256, inputs[i].size);
    if (r >= 0)
        r = check_share(db, verified->owner, bytes_max, err);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_verified_delete(struct store *store, const char *owner, const char *id,
                          struct gb_err *err)
{
    int r = store_check_id(id, err);

    if (r == 0 && owner)
        r = store_check_id(owner, err);
    if (r < 0)
        return r;
    r = owner ? db_write(store->db, true, err, &delete_verified, "tt", id, owner)
              : db_write(store->db, true, err, &delete_verified_any, "t", id);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

int store_verified_checked(struct store *store, const char *id, int64_t now_us, bool passed,
                           struct gb_err *err)
{
    int r = store_check_id(id, err);

    if (r < 0)
        return r;
    r = db_write(store->db, false, err, &set_checked, "tii", id, now_us, (int64_t) passed);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

/* ---- reading ---- */

static int verified_read(struct db_query *q, struct store_verified *ret_verified,
                         struct gb_err *err)
{
    struct store_verified verified = { 0 };
    int64_t shared;
    int r;

    if (!db_column_copy(q, 0, verified.id, sizeof verified.id) ||
        !db_column_copy(q, 1, verified.message_id, sizeof verified.message_id) ||
        !db_column_copy(q, 2, verified.owner, sizeof verified.owner) ||
        !db_column_int(q, 3, &shared) || !db_column_int(q, 4, &verified.created_us))
        return db_fail_row(q, err);
    verified.shared = shared == 1;
    verified.checked_us = db_column_optional(q, 5, 0);
    verified.passed = (int) db_column_optional(q, 6, -1);
    r = db_column_dup(q, 7, STORE_VERIFIED_QUESTION_MAX, &verified.question);
    if (r == 0)
        r = db_column_dup(q, 8, STORE_VERIFIED_BYTES_MAX, &verified.content);
    if (r == 0 && !verified.question)
        r = -EUCLEAN;
    if (r < 0) {
        store_verified_release(&verified);
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read a verified answer") : db_fail_row(q, err);
    }
    *ret_verified = verified;
    return 0;
}

/* The row of a statement with one parameter, which belongs to @owner. */
static int read_one(struct store *store, const struct db_statement *statement, const char *owner,
                    const char *id, struct store_verified *ret_verified, struct gb_err *err)
{
    struct store_verified verified = { 0 };
    struct db_query q;
    int r = store_check_id(id, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, statement, "t", id);
    r = db_query_step(&q, err);
    if (r > 0)
        r = verified_read(&q, &verified, err);
    else if (r == 0)
        r = fail_unknown(id, err);
    db_query_end(&q);
    db_read_end(store->db);
    if (r == 0 && owner && strcmp(owner, verified.owner) != 0) {
        store_verified_release(&verified);
        r = fail_unknown(id, err);
    }
    if (r == 0)
        *ret_verified = verified;
    return r;
}

int store_verified_get(struct store *store, const char *owner, const char *id,
                       struct store_verified *ret_verified, struct gb_err *err)
{
    return read_one(store, &get_verified, owner, id, ret_verified, err);
}

int store_verified_of(struct store *store, const char *owner, const char *message_id,
                      struct store_verified *ret_verified, struct gb_err *err)
{
    return read_one(store, &get_verified_of, owner, message_id, ret_verified, err);
}

/* When the one was added after which a page begins. */
static int page_begin(struct db *db, const char *after, int64_t *ret_us, struct gb_err *err)
{
    struct db_query q;
    int r;

    *ret_us = INT64_MAX;
    if (!after)
        return 0;
    q = db_query_begin(db, &get_time, "t", after);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_unknown(after, err);
    else if (r > 0 && !db_column_int(&q, 0, ret_us))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    return r < 0 ? r : 0;
}

static int read_page(struct db_query *q, struct store_verified **ret_verified, size_t *ret_len,
                     struct gb_err *err)
{
    struct store_verified *verified = NULL;
    size_t len = 0;
    int r;

    while ((r = db_query_step(q, err)) > 0) {
        if (db_grow(&verified, len, sizeof *verified) < 0)
            r = gb_fail(err, ENOMEM, "list verified answers");
        else
            r = verified_read(q, &verified[len], err);
        if (r < 0)
            break;
        len++;
    }
    if (r < 0) {
        store_verified_free(verified, len);
        return r;
    }
    *ret_verified = verified;
    *ret_len = len;
    return 0;
}

int store_verified_list(struct store *store, const char *owner, bool shared_too, const char *after,
                        size_t limit, struct store_verified **ret_verified, size_t *ret_len,
                        struct gb_err *err)
{
    int64_t before_us;
    struct db_query q;
    int r = owner ? store_check_id(owner, err) : 0;

    if (r == 0 && after)
        r = store_check_id(after, err);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    r = page_begin(store->db, after, &before_us, err);
    if (r == 0) {
        const char *from = after ? after : "";

        if (!owner)
            q = db_query_begin(store->db, &list_all, "iti", before_us, from, (int64_t) limit);
        else
            q = db_query_begin(store->db, shared_too ? &list_shared_too : &list_own, "itit",
                               before_us, from, (int64_t) limit, owner);
        r = read_page(&q, ret_verified, ret_len, err);
        db_query_end(&q);
    }
    db_read_end(store->db);
    return r;
}
