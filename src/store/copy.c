/*
 * Moving everything from one store to another.
 *
 * The tables are listed here, each with all of its columns, parents before children;
 * tests/unit/test_store_copy.c compares the list with the tables that there are. Rows are read in
 * the order of their keys, which is the same on both sides, so a digest over all values tells
 * whether what arrived is what was sent.
 */
#include "store/copy.h"

#include <errno.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

#define PROGRESS_ROWS 1000

#define VALUES_4  "?1, ?2, ?3, ?4"
#define VALUES_3  "?1, ?2, ?3"
#define VALUES_5  VALUES_4 ", ?5"
#define VALUES_6  VALUES_5 ", ?6"
#define VALUES_7  VALUES_6 ", ?7"
#define VALUES_8  VALUES_7 ", ?8"
#define VALUES_9  VALUES_8 ", ?9"
#define VALUES_10 VALUES_9 ", ?10"
#define VALUES_15 VALUES_10 ", ?11, ?12, ?13, ?14, ?15"

#define READ(table, columns, order) "SELECT " columns " FROM " table " ORDER BY " order

/* One row per table: its name, its columns and how many they are, its key. */
#define TABLE(table, len, columns, order)                                                          \
    {                                                                                              \
        table, table ": " columns, len, false,                                                     \
            { DB_READ, READ(table, columns, order), "read " table },                               \
            { DB_WRITE, READ(table, columns, order), "read " table },                              \
            { DB_WRITE, "INSERT INTO " table " (" columns ") VALUES (" VALUES_##len ")",           \
              "write " table },                                                                    \
        {                                                                                          \
            DB_WRITE, "SELECT 1 FROM " table " LIMIT 1", "look into " table                        \
        }                                                                                          \
    }
/* One that has a row from the start. @fresh: it is still as it was made. */
#define SINGLE(table, len, columns, set, fresh)                                                    \
    {                                                                                              \
        table, table ": " columns, len, true,                                                      \
            { DB_READ, READ(table, columns, "1"), "read " table },                                 \
            { DB_WRITE, READ(table, columns, "1"), "read " table },                                \
            { DB_WRITE, "UPDATE " table " SET " set, "write " table },                             \
        {                                                                                          \
            DB_WRITE, "SELECT 1 FROM " table " WHERE NOT (" fresh ")", "look into " table          \
        }                                                                                          \
    }

static const struct table {
    const char *name, *text;
    int columns;
    bool single;
    struct db_statement read, read_back, write, find;
} tables[] = {
    TABLE("api_keys", 9,
          "id, name, hash, created_us, last_used_us, revoked_us, sessions, executions, "
          "rate_per_minute",
          "id"),
    TABLE("sessions", 6, "id, owner, created_us, last_used_us, ended_us, end_reason", "id"),
    TABLE("audit_log", 6, "seq, time_us, session_id, prev_hash, hash, fields", "seq"),
    TABLE("mark_users", 7, "id, email, name, password, is_operator, created_us, valid_from_us",
          "id"),
    TABLE("mark_sign_ins", 6, "family, user_id, hash, created_us, used_us, expires_us", "family"),
    TABLE("mark_invitations", 3, "hash, created_us, expires_us", "hash"),
    TABLE("mark_chats", 9,
          "id, owner, title, words, session_id, model, created_us, updated_us, bytes", "id"),
    TABLE("mark_messages", 15,
          "id, chat_id, seq, reply_to, role, status, prompt_version, created_us, updated_us, "
          "words, parts, attachments, usage, details, response",
          "id"),
    TABLE("mark_traces", 3, "message_id, n, exchange", "message_id, n"),
    TABLE("mark_feedback", 6, "message_id, owner, rating, reasons, comment, created_us",
          "message_id"),
    TABLE("mark_attachments", 8, "id, owner, name, media_type, sha256, size, profile, created_us",
          "id"),
    TABLE("mark_sources", 10,
          "id, name, kind, settings, secret, notes, created_us, updated_us, synced_us, sync_error",
          "id"),
    TABLE("mark_source_access", 5, "source_id, who, role, login, secret", "source_id, who"),
    TABLE("mark_source_tables", 6, "source_id, name, gone_us, synced_us, notes, info",
          "source_id, name"),
    TABLE("mark_results", 8, "message_id, n, owner, key, sha256, size, query, created_us",
          "message_id, n"),
    TABLE("mark_artifacts", 7, "message_id, n, owner, name, sha256, size, created_us",
          "message_id, n"),
    TABLE("mark_spent", 6, "owner, day, bytes, cost, tokens, us", "owner, day"),
    TABLE("mark_budgets", 5, "who, bytes, cost, tokens, us", "who"),
    TABLE("mark_verified", 10,
          "id, message_id, owner, shared, created_us, checked_us, passed, question, words, content",
          "id"),
    TABLE("mark_verified_inputs", 4, "verified_id, kind, sha256, size",
          "verified_id, kind, sha256"),
    TABLE("shares", 7, "id, owner, title, size, created_us, expires_us, notebook", "id"),
    SINGLE("api_keys_generation", 1, "value", "value = ?1", "value = 1"),
    SINGLE("mark_users_generation", 1, "value", "value = ?1", "value = 1"),
    SINGLE("audit_head", 2, "seq, hash", "seq = ?1, hash = ?2", "seq = 0"),
};

const char *store_copy_table(size_t i)
{
    return i < ARRAY_LEN(tables) ? tables[i].text : NULL;
}

/* ---- digests ---- */

struct digest {
    uint64_t hash; /* FNV-1a: against accidents, not against anybody */
    int64_t rows;
};

static void digest_add(struct digest *digest, const void *data, size_t len)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < len; i++)
        digest->hash = (digest->hash ^ bytes[i]) * UINT64_C(1099511628211);
}

/* ---- rows ---- */

/* Adds the value of a column to @digest, and binds it to @to unless that is NULL. */
static int value_copy(struct db_query *from, int column, struct db_query *to, struct digest *digest,
                      struct gb_err *err)
{
    const struct db_ops *ops = from->db->ops;
    enum db_type type = ops->column_type(from, column);
    const char *text = NULL;
    int64_t number = 0;
    size_t len = 0;
    int failed = 0;

    if (type == DB_INTEGER)
        number = ops->column_int(from, column);
    else if (type == DB_TEXT)
        text = ops->column_text(from, column, &len);
    if (type == DB_OTHER ||
        (type == DB_TEXT && (!text || memchr(text, 0, len) || !utf8_valid(text, len))))
        return db_fail_row(from, err);
    digest_add(digest, &type, sizeof type);
    digest_add(digest, &number, sizeof number);
    digest_add(digest, &len, sizeof len);
    digest_add(digest, text, len);
    if (!to || to->failed)
        return 0;
    failed =
        type == DB_INTEGER ? to->db->ops->bind_int(to, number) : to->db->ops->bind_text(to, text);
    to->failed = failed;
    to->next++;
    return 0;
}

static int row_copy(const struct table *table, struct db_query *from, struct db *to,
                    struct digest *digest, struct gb_err *err)
{
    struct db_query write = { .db = to, .statement = &table->write, .next = 1 };
    int r = 0;

    to->ops->prepare(&write);
    for (int i = 0; r == 0 && i < table->columns; i++)
        r = value_copy(from, i, &write, digest, err);
    if (r == 0)
        r = db_query_step(&write, err);
    db_query_end(&write);
    digest->rows++;
    return r < 0 ? r : 0;
}

/* The head of an empty log cannot be set: it only grows. */
static bool is_unchanged(const struct table *table, struct db_query *from)
{
    int64_t value;

    return table->single && table->columns == 2 && db_column_int(from, 0, &value) && value == 0;
}

static int table_copy(struct store_copy *copy, const struct table *table, struct digest *ret_digest,
                      struct gb_err *err)
{
    struct digest digest = { .hash = UINT64_C(14695981039346656037) };
    struct db_query read;
    int r;

    db_read_begin(copy->from->db);
    read = db_query_begin(copy->from->db, &table->read, "");
    while ((r = db_query_step(&read, err)) > 0) {
        if (is_unchanged(table, &read)) {
            r = 0;
            for (int i = 0; r == 0 && i < table->columns; i++)
                r = value_copy(&read, i, NULL, &digest, err);
            digest.rows++;
        } else {
            r = row_copy(table, &read, copy->to->db, &digest, err);
        }
        if (r < 0)
            break;
        copy->rows++;
        if (copy->progress && digest.rows % PROGRESS_ROWS == 0)
            copy->progress(copy->arg, table->name, digest.rows);
    }
    db_query_end(&read);
    db_read_end(copy->from->db);
    *ret_digest = digest;
    return r;
}

/* ---- checks, in the transaction of the target ---- */

static int check_empty(struct db *db, struct gb_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        struct db_query q = db_query_begin(db, &tables[i].find, "");
        int r = db_query_step(&q, err);

        db_query_end(&q);
        if (r > 0)
            return gb_fail_plain(err, ENOTEMPTY,
                                 "the target is not empty: it has rows in %s; choose a new schema "
                                 "or directory",
                                 tables[i].name);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_arrived(struct db *db, const struct table *table, const struct digest *sent,
                         struct gb_err *err)
{
    struct digest digest = { .hash = UINT64_C(14695981039346656037) };
    struct db_query q = { .db = db, .statement = &table->read_back, .streams = true, .next = 1 };
    int r;

    db->ops->prepare(&q);
    while ((r = db_query_step(&q, err)) > 0) {
        r = 0;
        for (int i = 0; r == 0 && i < table->columns; i++)
            r = value_copy(&q, i, NULL, &digest, err);
        if (r < 0)
            break;
        digest.rows++;
    }
    db_query_end(&q);
    if (r == 0 && (digest.rows != sent->rows || digest.hash != sent->hash))
        r = gb_fail_plain(err, EUCLEAN,
                          "what was written to %s is not what was read: %lld of %lld rows",
                          table->name, (long long) digest.rows, (long long) sent->rows);
    return r;
}

int store_copy(struct store_copy *copy, struct gb_err *err)
{
    struct digest digests[ARRAY_LEN(tables)];
    struct db *to = copy->to->db;
    int r = db_write_begin(to, true, err);

    if (r < 0)
        return r;
    copy->rows = 0;
    r = check_empty(to, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(tables); i++)
        r = table_copy(copy, &tables[i], &digests[i], err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(tables); i++) {
        if (copy->progress)
            copy->progress(copy->arg, tables[i].name, -1);
        r = check_arrived(to, &tables[i], &digests[i], err);
    }
    r = db_write_end(to, r, err);
    return r < 0 ? r : 0;
}
