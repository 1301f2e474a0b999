/* What all backends have in common: binding, columns and ending transactions. */
#include "store/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "store/store.h"

#include "base/banned.h"

#define HEX_MAX (2 * STORE_HASH_BYTES + 1)

/* ---- hashes as text ---- */

static void hex_write(const uint8_t *hash, char ret_hex[HEX_MAX])
{
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        hex_put(hash[i], ret_hex + 2 * i);
    ret_hex[HEX_MAX - 1] = '\0';
}

/* Upper-case digits are refused: a hash has only one spelling. */
static bool hex_read(const char *hex, uint8_t *ret_hash)
{
    if (!hex_is(hex, HEX_MAX - 1))
        return false;
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        ret_hash[i] = (uint8_t) (hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
    return true;
}

/* ---- queries ---- */

static void note(struct db_query *q, int code)
{
    if (!q->failed)
        q->failed = code;
    q->next++;
}

static void bind_text(struct db_query *q, const char *text)
{
    if (text && !q->failed && !utf8_valid(text, strlen(text)))
        note(q, DB_BAD_TEXT);
    else
        note(q, q->failed ? 0 : q->db->ops->bind_text(q, text));
}

static void bind_int(struct db_query *q, int64_t value)
{
    note(q, q->failed ? 0 : q->db->ops->bind_int(q, value));
}

static void bind_hash(struct db_query *q, const uint8_t *hash)
{
    char hex[HEX_MAX];

    hex_write(hash, hex);
    bind_text(q, hex);
}

static void bind_optional_int(struct db_query *q, int64_t value, int64_t none)
{
    if (value == none)
        bind_text(q, NULL);
    else
        bind_int(q, value);
}

static struct db_query query_begin(struct db *db, const struct db_statement *statement,
                                   const char *types, va_list values)
{
    struct db_query q = { .db = db, .statement = statement, .types = types, .next = 1 };
    const char *text;
    int64_t value;

    db->ops->prepare(&q);
    for (; *types; types++)
        switch (*types) {
        case 't':
            bind_text(&q, va_arg(values, const char *));
            break;
        case 'T':
            text = va_arg(values, const char *);
            bind_text(&q, *text ? text : NULL);
            break;
        case 'i':
            bind_int(&q, va_arg(values, int64_t));
            break;
        case 'I':
            value = va_arg(values, int64_t);
            bind_optional_int(&q, value, va_arg(values, int64_t));
            break;
        case 'h':
            bind_hash(&q, va_arg(values, const uint8_t *));
            break;
        default:
            abort(); /* a bug in our own source, which its tests always hit */
        }
    return q;
}

struct db_query db_query_begin(struct db *db, const struct db_statement *statement,
                               const char *types, ...)
{
    struct db_query q;
    va_list values;

    va_start(values, types);
    q = query_begin(db, statement, types, values);
    va_end(values);
    return q;
}

int db_query_step(struct db_query *q, struct gb_err *err)
{
    int r = q->failed ? -1 : q->db->ops->step(q);

    if (r >= 0)
        return r;
    if (q->failed == DB_BAD_TEXT)
        return gb_fail_plain(err, EINVAL, "store: %s: a text is not UTF-8", q->statement->what);
    return q->db->ops->fail(q->db, q->statement->side, q->failed, q->statement->what, err);
}

void db_query_end(struct db_query *q)
{
    if (q->prepared)
        q->db->ops->end(q);
}

static int run(struct db *db, struct gb_err *err, const struct db_statement *statement,
               const char *types, va_list values)
{
    struct db_query q = query_begin(db, statement, types, values);
    int r = db_query_step(&q, err);

    if (r >= 0)
        r = db->ops->changes(&q);
    db_query_end(&q);
    return r;
}

int db_run(struct db *db, struct gb_err *err, const struct db_statement *statement,
           const char *types, ...)
{
    va_list values;
    int r;

    va_start(values, types);
    r = run(db, err, statement, types, values);
    va_end(values);
    return r;
}

int db_write(struct db *db, bool durable, struct gb_err *err, const struct db_statement *statement,
             const char *types, ...)
{
    int r = db_write_begin(db, durable, err);
    va_list values;

    if (r < 0)
        return r;
    va_start(values, types);
    r = db_write_end(db, run(db, err, statement, types, values), err);
    va_end(values);
    return r;
}

int db_fail_row(const struct db_query *q, struct gb_err *err)
{
    return gb_fail_plain(err, EUCLEAN, "store: %s: a row is damaged", q->statement->what);
}

/* ---- columns ---- */

bool db_column_copy(struct db_query *q, int column, char *buf, size_t size)
{
    const char *text;
    size_t len;

    if (q->db->ops->column_type(q, column) != DB_TEXT)
        return false;
    text = q->db->ops->column_text(q, column, &len);
    if (!text || len >= size || memchr(text, 0, len))
        return false;
    memcpy(buf, text, len);
    buf[len] = '\0';
    return true;
}

bool db_column_copy_optional(struct db_query *q, int column, char *buf, size_t size)
{
    buf[0] = '\0';
    return db_column_is_null(q, column) || db_column_copy(q, column, buf, size);
}

bool db_column_hash(struct db_query *q, int column, uint8_t *ret_hash)
{
    char hex[HEX_MAX];

    return db_column_copy(q, column, hex, sizeof hex) && hex_read(hex, ret_hash);
}

bool db_column_int(struct db_query *q, int column, int64_t *ret_value)
{
    if (q->db->ops->column_type(q, column) != DB_INTEGER)
        return false;
    *ret_value = q->db->ops->column_int(q, column);
    return true;
}

int64_t db_column_optional(struct db_query *q, int column, int64_t none)
{
    return db_column_is_null(q, column) ? none : q->db->ops->column_int(q, column);
}

bool db_column_is_null(struct db_query *q, int column)
{
    return q->db->ops->column_type(q, column) == DB_NULL;
}

int db_column_dup(struct db_query *q, int column, size_t max, char **ret_text)
{
    const char *text;
    size_t len;
    char *copy;

    if (db_column_is_null(q, column)) {
        *ret_text = NULL;
        return 0;
    }
    if (q->db->ops->column_type(q, column) != DB_TEXT)
        return -EUCLEAN;
    text = q->db->ops->column_text(q, column, &len);
    if (!text)
        return -ENOMEM;
    if (len > max || memchr(text, 0, len))
        return -EUCLEAN;
    copy = strndup(text, len);
    if (!copy)
        return -ENOMEM;
    *ret_text = copy;
    return 0;
}

int db_grow(void *array, size_t len, size_t size)
{
    void **rows = array, *more;

    if (len != 0 && (len < 16 || (len & (len - 1)) != 0))
        return 0;
    more = reallocarray(*rows, len ? 2 * len : 16, size);
    if (!more)
        return -ENOMEM;
    *rows = more;
    return 0;
}

/* ---- connections and transactions ---- */

void db_read_begin(struct db *db)
{
    db->ops->lock(db, DB_READ);
}

void db_read_end(struct db *db)
{
    db->ops->unlock(db, DB_READ);
}

int db_write_begin(struct db *db, bool durable, struct gb_err *err)
{
    int r;

    db->ops->lock(db, DB_WRITE);
    r = db->ops->begin(db, durable, err);
    if (r < 0)
        db->ops->unlock(db, DB_WRITE);
    return r;
}

int db_write_end(struct db *db, int r, struct gb_err *err)
{
    if (r >= 0) {
        int committed = db->ops->commit(db, err);

        r = committed < 0 ? committed : r;
    }
    if (r < 0)
        db->ops->rollback(db);
    db->ops->unlock(db, DB_WRITE);
    return r;
}
