/*
 * Notebooks that people share.
 *
 * A share ends with the key that made it, since nobody could take it back any more. A running
 * service takes a revoked key for another moment, so this is looked at when a share is read.
 */
#include "store/shares.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

#define REVOKED_KEYS "(SELECT id FROM api_keys WHERE revoked_us IS NOT NULL)"

static const struct db_statement sum_shares = {
    DB_WRITE,
    "SELECT CAST(COUNT(*) AS BIGINT), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM shares "
    "WHERE owner = ?1",
    "count shares",
};
static const struct db_statement add_share = {
    DB_WRITE,
    "INSERT INTO shares (id, owner, title, size, created_us, expires_us, notebook) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    "add a share",
};
static const struct db_statement get_share = {
    DB_READ,
    "SELECT id, owner, title, size, created_us, expires_us, notebook FROM shares "
    "WHERE id = ?1 AND expires_us > ?2 AND owner NOT IN " REVOKED_KEYS,
    "read a share",
};
static const struct db_statement list_shares = {
    DB_READ,
    "SELECT id, owner, title, size, created_us, expires_us, NULL FROM shares "
    "WHERE owner = ?1 AND expires_us > ?2 ORDER BY created_us DESC, id",
    "list shares",
};
static const struct db_statement delete_share = {
    DB_WRITE,
    "DELETE FROM shares WHERE id = ?1 AND owner = ?2",
    "delete a share",
};
static const struct db_statement prune_owner = {
    DB_WRITE,
    "DELETE FROM shares WHERE owner = ?1 AND expires_us <= ?2",
    "remove expired shares",
};
static const struct db_statement prune_all = {
    DB_WRITE,
    "DELETE FROM shares WHERE expires_us <= ?1 OR owner IN " REVOKED_KEYS,
    "remove expired shares",
};

void store_share_release(struct store_share *share)
{
    free(share->notebook);
    share->notebook = NULL;
}

static int fail_unknown(const char *id, struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no share '%s'", id);
}

static int check_ids(const char *owner, const char *id, struct gb_err *err)
{
    int r = store_check_id(owner, err);

    return r < 0 ? r : store_check_id(id, err);
}

static int check_share(const struct store_share *share, struct gb_err *err)
{
    size_t len = share->notebook ? strnlen(share->notebook, STORE_SHARE_NOTEBOOK_MAX + 1) : 0;
    int r = check_ids(share->owner, share->id, err);

    if (r == 0 &&
        (len == 0 || len > STORE_SHARE_NOTEBOOK_MAX || (int64_t) len != share->size ||
         !utf8_valid(share->notebook, len) || !utf8_valid(share->title, strlen(share->title)) ||
         share->expires_us <= share->created_us))
        r = gb_fail_plain(err, EINVAL, "not a notebook to share");
    return r;
}

/* ---- writing ---- */

static int check_room(struct db *db, const struct store_share *share, int64_t count_max,
                      int64_t bytes_max, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &sum_shares, "t", share->owner);
    int64_t count = 0, bytes = 0;
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, &count) || !db_column_int(&q, 1, &bytes)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r >= 0 &&
        (count >= count_max || share->size > bytes_max || bytes > bytes_max - share->size))
        r = gb_fail_plain(err, EDQUOT, "the owner has no room for another share");
    return r < 0 ? r : 0;
}

int store_share_add(struct store *store, const struct store_share *share, int64_t count_max,
                    int64_t bytes_max, struct gb_err *err)
{
    struct db *db = store->db;
    int r = check_share(share, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = db_run(db, err, &prune_owner, "ti", share->owner, share->created_us);
    if (r >= 0)
        r = check_room(db, share, count_max, bytes_max, err);
    if (r >= 0)
        r = db_run(db, err, &add_share, "tttiiit", share->id, share->owner, share->title,
                   share->size, share->created_us, share->expires_us, share->notebook);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_share_delete(struct store *store, const char *owner, const char *id, struct gb_err *err)
{
    int r = check_ids(owner, id, err);

    if (r < 0)
        return r;
    r = db_write(store->db, true, err, &delete_share, "tt", id, owner);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

int64_t store_share_prune(struct store *store, int64_t now_us, struct gb_err *err)
{
    return db_write(store->db, false, err, &prune_all, "i", now_us);
}

/* ---- reading ---- */

static int share_read(struct db_query *q, struct store_share *ret_share, struct gb_err *err)
{
    struct store_share share = { 0 };
    int r;

    if (!db_column_copy(q, 0, share.id, sizeof share.id) ||
        !db_column_copy(q, 1, share.owner, sizeof share.owner) ||
        !db_column_copy(q, 2, share.title, sizeof share.title) ||
        !db_column_int(q, 3, &share.size) || !db_column_int(q, 4, &share.created_us) ||
        !db_column_int(q, 5, &share.expires_us))
        return db_fail_row(q, err);
    r = db_column_dup(q, 6, STORE_SHARE_NOTEBOOK_MAX, &share.notebook);
    if (r == -EUCLEAN)
        return db_fail_row(q, err);
    if (r < 0)
        return gb_fail(err, -r, "read a share");
    *ret_share = share;
    return 0;
}

int store_share_get(struct store *store, const char *id, int64_t now_us,
                    struct store_share *ret_share, struct gb_err *err)
{
    struct db_query q;
    int r = store_check_id(id, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_share, "ti", id, now_us);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_unknown(id, err);
    else if (r > 0)
        r = share_read(&q, ret_share, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r;
}

int store_share_list(struct store *store, const char *owner, int64_t now_us,
                     struct store_share **ret_shares, size_t *ret_len, struct gb_err *err)
{
    struct store_share *shares = NULL;
    struct db_query q;
    size_t len = 0;
    int r = store_check_id(owner, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_shares, "ti", owner, now_us);
    while ((r = db_query_step(&q, err)) > 0) {
        r = db_grow(&shares, len, sizeof *shares);
        r = r < 0 ? gb_fail(err, -r, "list shares") : share_read(&q, &shares[len], err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        free(shares);
        return r;
    }
    *ret_shares = shares;
    *ret_len = len;
    return 0;
}
