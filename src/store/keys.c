/* API keys. */
#include "store/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

static const struct db_statement add_key = {
    DB_WRITE,
    "INSERT INTO api_keys (id, name, hash, created_us, last_used_us, revoked_us, sessions, "
    "executions, rate_per_minute) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    "add a key",
};
static const struct db_statement list_keys = {
    DB_READ,
    "SELECT id, name, hash, created_us, last_used_us, revoked_us, sessions, executions, "
    "rate_per_minute FROM api_keys ORDER BY created_us, id",
    "list keys",
};
static const struct db_statement find_key = {
    DB_WRITE,
    "SELECT revoked_us FROM api_keys WHERE id = ?1",
    "find a key",
};
static const struct db_statement revoke_key = {
    DB_WRITE,
    "UPDATE api_keys SET revoked_us = ?2 WHERE id = ?1",
    "revoke a key",
};
static const struct db_statement touch_key = {
    DB_WRITE,
    "UPDATE api_keys SET last_used_us = ?2 WHERE id = ?1 AND "
    "(last_used_us IS NULL OR last_used_us < ?2)",
    "record the use of a key",
};
static const struct db_statement read_generation = {
    DB_READ,
    "SELECT value FROM api_keys_generation",
    "read the generation of keys",
};
static const struct db_statement next_generation = {
    DB_WRITE,
    "UPDATE api_keys_generation SET value = value + 1",
    "record that keys changed",
};

static int check_key(const struct store_key *key, struct gb_err *err)
{
    const int64_t limits[] = { key->sessions, key->executions, key->rate_per_minute };
    size_t len = strnlen(key->name, STORE_NAME_MAX);

    if (len == STORE_NAME_MAX || !utf8_valid(key->name, len))
        return gb_fail_plain(err, EINVAL, "a key's name must be UTF-8 of at most %d bytes",
                             STORE_NAME_MAX - 1);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) key->name[i] < ' ' || key->name[i] == 127)
            return gb_fail_plain(err, EINVAL, "a key's name must not contain control characters");
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (limits[i] < 1 && limits[i] != STORE_LIMIT_DEFAULT)
            return gb_fail_plain(err, EINVAL, "a key's limits must be 1 or more");
    return store_check_id(key->id, err);
}

int store_key_add(struct store *store, const struct store_key *key, struct gb_err *err)
{
    struct db *db = store->db;
    int r = check_key(key, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = db_run(db, err, &add_key, "tthiIIIII", key->id, key->name, key->hash, key->created_us,
               key->last_used_us, INT64_C(0), key->revoked_us, INT64_C(0), key->sessions,
               STORE_LIMIT_DEFAULT, key->executions, STORE_LIMIT_DEFAULT, key->rate_per_minute,
               STORE_LIMIT_DEFAULT);
    if (r >= 0)
        r = db_run(db, err, &next_generation, "");
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

static bool key_read(struct db_query *q, struct store_key *ret_key)
{
    struct store_key key = {
        .last_used_us = db_column_optional(q, 4, 0),
        .revoked_us = db_column_optional(q, 5, 0),
        .sessions = db_column_optional(q, 6, STORE_LIMIT_DEFAULT),
        .executions = db_column_optional(q, 7, STORE_LIMIT_DEFAULT),
        .rate_per_minute = db_column_optional(q, 8, STORE_LIMIT_DEFAULT),
    };

    if (!db_column_copy(q, 0, key.id, sizeof key.id) ||
        !db_column_copy(q, 1, key.name, sizeof key.name) || !db_column_hash(q, 2, key.hash) ||
        !db_column_int(q, 3, &key.created_us))
        return false;
    *ret_key = key;
    return true;
}

int store_key_list(struct store *store, struct store_key **ret_keys, size_t *ret_len,
                   struct gb_err *err)
{
    autofree struct store_key *keys = NULL;
    size_t len = 0;
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_keys, "");
    while ((r = db_query_step(&q, err)) > 0) {
        if (db_grow(&keys, len, sizeof *keys) < 0)
            r = gb_fail(err, ENOMEM, "list keys");
        else if (!key_read(&q, &keys[len]))
            r = db_fail_row(&q, err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0)
        return r;
    *ret_keys = TAKE_PTR(keys);
    *ret_len = len;
    return 0;
}

static int key_find_living(struct db *db, const char *id, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &find_key, "t", id);
    int r = db_query_step(&q, err);

    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "key '%s' does not exist", id);
    else if (r > 0 && !db_column_is_null(&q, 0))
        r = gb_fail_plain(err, EALREADY, "key '%s' is already revoked", id);
    db_query_end(&q);
    return r;
}

int store_key_revoke(struct store *store, const char *id, int64_t now_us, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(id, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = key_find_living(db, id, err);
    if (r >= 0)
        r = db_run(db, err, &revoke_key, "ti", id, now_us);
    if (r >= 0)
        r = db_run(db, err, &next_generation, "");
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_key_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err)
{
    int r = store_check_id(id, err);

    if (r == 0)
        r = db_write(store->db, false, err, &touch_key, "ti", id, used_us);
    return r < 0 ? r : 0;
}

int store_key_generation(struct store *store, int64_t *ret_generation, struct gb_err *err)
{
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &read_generation, "");
    r = db_query_step(&q, err);
    if (r == 0 || (r > 0 && !db_column_int(&q, 0, ret_generation)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}
