/* API keys. */
#include "store/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/utf8.h"
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
    "note the use of a key",
};
static const struct db_statement read_generation = {
    DB_READ,
    "SELECT value FROM api_keys_generation",
    "read the generation of keys",
};
static const struct db_statement next_generation = {
    DB_WRITE,
    "UPDATE api_keys_generation SET value = value + 1",
    "note that keys changed",
};

static int check_key(const struct store_key *key, struct gb_err *err)
{
    const int64_t limits[] = { key->sessions, key->executions, key->rate_per_minute };
    size_t len = strnlen(key->name, STORE_NAME_MAX);

    if (len == STORE_NAME_MAX || !utf8_valid(key->name, len))
        return gb_fail_plain(err, EINVAL, "a key's name is UTF-8 of at most %d bytes",
                             STORE_NAME_MAX - 1);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) key->name[i] < ' ' || key->name[i] == 127)
            return gb_fail_plain(err, EINVAL, "a key's name has no control characters");
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (limits[i] < 1 && limits[i] != STORE_LIMIT_DEFAULT)
            return gb_fail_plain(err, EINVAL, "a key's limits are 1 or more");
    return store_check_id(key->id, err);
}

static int key_changed(struct db *db, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &next_generation);

    return db_query_run(&q, err);
}

int store_key_add(struct store *store, const struct store_key *key, struct gb_err *err)
{
    struct db *db = store->db;
    int r = check_key(key, err);
    struct db_query q;

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    q = db_query_begin(db, &add_key);
    db_bind_text(&q, key->id);
    db_bind_text(&q, key->name);
    db_bind_hash(&q, key->hash);
    db_bind_int(&q, key->created_us);
    db_bind_optional(&q, key->last_used_us, 0);
    db_bind_optional(&q, key->revoked_us, 0);
    db_bind_optional(&q, key->sessions, STORE_LIMIT_DEFAULT);
    db_bind_optional(&q, key->executions, STORE_LIMIT_DEFAULT);
    db_bind_optional(&q, key->rate_per_minute, STORE_LIMIT_DEFAULT);
    r = db_query_run(&q, err);
    if (r >= 0)
        r = key_changed(db, err);
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
    q = db_query_begin(store->db, &list_keys);
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
    struct db_query q = db_query_begin(db, &find_key);
    int r;

    db_bind_text(&q, id);
    r = db_query_step(&q, err);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "there is no key '%s'", id);
    else if (r > 0 && !db_column_is_null(&q, 0))
        r = gb_fail_plain(err, EALREADY, "key '%s' is revoked already", id);
    db_query_end(&q);
    return r;
}

int store_key_revoke(struct store *store, const char *id, int64_t now_us, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(id, err);
    struct db_query q;

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = key_find_living(db, id, err);
    if (r >= 0) {
        q = db_query_begin(db, &revoke_key);
        db_bind_text(&q, id);
        db_bind_int(&q, now_us);
        r = db_query_run(&q, err);
    }
    if (r >= 0)
        r = key_changed(db, err);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_key_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(id, err);
    struct db_query q;

    if (r == 0)
        r = db_write_begin(db, false, err);
    if (r < 0)
        return r;
    q = db_query_begin(db, &touch_key);
    db_bind_text(&q, id);
    db_bind_int(&q, used_us);
    r = db_write_end(db, db_query_run(&q, err), err);
    return r < 0 ? r : 0;
}

int store_key_generation(struct store *store, int64_t *ret_generation, struct gb_err *err)
{
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &read_generation);
    r = db_query_step(&q, err);
    if (r == 0 || (r > 0 && !db_column_int(&q, 0, ret_generation)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}
