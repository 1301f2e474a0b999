/* The calls of the store as SQL: each takes its connection's lock, runs its statements, and gives
 * it back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "store/store_sqlite_internal.h"

#include "base/banned.h"

static int fail_row(const char *what, struct gb_err *err)
{
    return gb_fail_plain(err, EUCLEAN, "store: %s: a row is damaged", what);
}

/* ---- API keys ---- */

static int key_changed(struct sqlite_store *s, struct gb_err *err)
{
    struct query q = db_query_begin(s, KEY_CHANGED);

    return db_query_run(&q, "note that keys changed", err);
}

static int key_add(struct store *store, const struct store_key *key, struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r = db_write_begin(s, true, err);
    struct query q;

    if (r < 0)
        return r;
    q = db_query_begin(s, KEY_ADD);
    db_query_text(&q, key->id);
    db_query_text(&q, key->name);
    db_query_hash(&q, key->hash);
    db_query_int(&q, key->created_us);
    db_query_optional(&q, key->last_used_us, 0);
    db_query_optional(&q, key->revoked_us, 0);
    db_query_optional(&q, key->sessions, STORE_LIMIT_DEFAULT);
    db_query_optional(&q, key->executions, STORE_LIMIT_DEFAULT);
    db_query_optional(&q, key->rate_per_minute, STORE_LIMIT_DEFAULT);
    r = db_query_run(&q, "add a key", err);
    if (r >= 0)
        r = key_changed(s, err);
    r = db_write_end(s, r, err);
    return r < 0 ? r : 0;
}

static bool key_read(sqlite3_stmt *stmt, struct store_key *ret_key)
{
    struct store_key key = {
        .last_used_us = db_column_optional(stmt, 4, 0),
        .revoked_us = db_column_optional(stmt, 5, 0),
        .sessions = db_column_optional(stmt, 6, STORE_LIMIT_DEFAULT),
        .executions = db_column_optional(stmt, 7, STORE_LIMIT_DEFAULT),
        .rate_per_minute = db_column_optional(stmt, 8, STORE_LIMIT_DEFAULT),
    };

    if (!db_column_copy(stmt, 0, key.id, sizeof key.id) ||
        !db_column_copy(stmt, 1, key.name, sizeof key.name) || !db_column_hash(stmt, 2, key.hash) ||
        !db_column_int(stmt, 3, &key.created_us))
        return false;
    *ret_key = key;
    return true;
}

/* Room for one row more; the arrays double. */
static int grow(void *array, size_t len, size_t size)
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

static int key_list(struct store *store, struct store_key **ret_keys, size_t *ret_len,
                    struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    autofree struct store_key *keys = NULL;
    size_t len = 0;
    struct query q;
    int r;

    db_lock(s, CONN_READ);
    q = db_query_begin(s, KEY_LIST);
    while ((r = db_query_step(&q, "list keys", err)) > 0) {
        if (grow(&keys, len, sizeof *keys) < 0)
            r = gb_fail(err, ENOMEM, "list keys");
        else if (!key_read(q.stmt, &keys[len]))
            r = fail_row("list keys", err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_unlock(s, CONN_READ);
    if (r < 0)
        return r;
    *ret_keys = TAKE_PTR(keys);
    *ret_len = len;
    return 0;
}

static int key_find_living(struct sqlite_store *s, const char *id, struct gb_err *err)
{
    struct query q = db_query_begin(s, KEY_FIND);
    int r;

    db_query_text(&q, id);
    r = db_query_step(&q, "find a key", err);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "there is no key '%s'", id);
    else if (r > 0 && sqlite3_column_type(q.stmt, 0) != SQLITE_NULL)
        r = gb_fail_plain(err, EALREADY, "key '%s' is revoked already", id);
    db_query_end(&q);
    return r;
}

static int key_revoke(struct store *store, const char *id, int64_t now_us, struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r = db_write_begin(s, true, err);
    struct query q;

    if (r < 0)
        return r;
    r = key_find_living(s, id, err);
    if (r >= 0) {
        q = db_query_begin(s, KEY_REVOKE);
        db_query_text(&q, id);
        db_query_int(&q, now_us);
        r = db_query_run(&q, "revoke a key", err);
    }
    if (r >= 0)
        r = key_changed(s, err);
    r = db_write_end(s, r, err);
    return r < 0 ? r : 0;
}

/* A statement that sets a time of one row; returns the number of rows. */
static int run_touch(struct sqlite_store *s, enum statement which, const char *id, int64_t time_us,
                     struct gb_err *err)
{
    int r = db_write_begin(s, false, err);
    struct query q;

    if (r < 0)
        return r;
    q = db_query_begin(s, which);
    db_query_text(&q, id);
    db_query_int(&q, time_us);
    return db_write_end(s, db_query_run(&q, "note a use", err), err);
}

static int key_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err)
{
    int r = run_touch(sqlite_of(store), KEY_TOUCH, id, used_us, err);

    return r < 0 ? r : 0;
}

static int key_generation(struct store *store, int64_t *ret_generation, struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct query q;
    int r;

    db_lock(s, CONN_READ);
    q = db_query_begin(s, KEY_GENERATION);
    r = db_query_step(&q, "ask for the generation of keys", err);
    if (r == 0 || (r > 0 && !db_column_int(q.stmt, 0, ret_generation)))
        r = fail_row("ask for the generation of keys", err);
    db_query_end(&q);
    db_unlock(s, CONN_READ);
    return r < 0 ? r : 0;
}

/* ---- session records ---- */

static int session_add(struct store *store, const struct store_session *session, struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r = db_write_begin(s, false, err);
    struct query q;

    if (r < 0)
        return r;
    q = db_query_begin(s, SESSION_ADD);
    db_query_text(&q, session->id);
    db_query_optional_text(&q, session->key_id);
    db_query_int(&q, session->created_us);
    db_query_int(&q, session->last_used_us);
    r = db_write_end(s, db_query_run(&q, "add a session", err), err);
    return r < 0 ? r : 0;
}

static bool session_read(sqlite3_stmt *stmt, struct store_session *ret_session)
{
    struct store_session session = { .ended_us = db_column_optional(stmt, 4, 0) };
    char end[16];

    if (!db_column_copy(stmt, 0, session.id, sizeof session.id) ||
        !db_column_copy_optional(stmt, 1, session.key_id, sizeof session.key_id) ||
        !db_column_int(stmt, 2, &session.created_us) ||
        !db_column_int(stmt, 3, &session.last_used_us) ||
        !db_column_copy_optional(stmt, 5, end, sizeof end))
        return false;
    if (end[0])
        session.end = store_end_from_name(end);
    *ret_session = session;
    return true;
}

static int session_get(struct store *store, const char *id, struct store_session *ret_session,
                       struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct query q;
    int r;

    db_lock(s, CONN_READ);
    q = db_query_begin(s, SESSION_GET);
    db_query_text(&q, id);
    r = db_query_step(&q, "find a session", err);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "there is no record of session '%s'", id);
    else if (r > 0 && !session_read(q.stmt, ret_session))
        r = fail_row("find a session", err);
    db_query_end(&q);
    db_unlock(s, CONN_READ);
    return r < 0 ? r : 0;
}

static int session_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err)
{
    int r = run_touch(sqlite_of(store), SESSION_TOUCH, id, used_us, err);

    if (r == 0)
        return gb_fail_plain(err, ENOENT, "there is no living session '%s'", id);
    return r < 0 ? r : 0;
}

static int session_exists(struct sqlite_store *s, const char *id, struct gb_err *err)
{
    struct query q = db_query_begin(s, SESSION_FIND);
    int r;

    db_query_text(&q, id);
    r = db_query_step(&q, "find a session", err);
    db_query_end(&q);
    return r == 0 ? gb_fail_plain(err, ENOENT, "there is no record of session '%s'", id) : r;
}

static int session_end(struct store *store, const char *id, int64_t now_us, enum store_end end,
                       struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r = db_write_begin(s, false, err);
    struct query q;

    if (r < 0)
        return r;
    r = session_exists(s, id, err);
    if (r > 0) {
        q = db_query_begin(s, SESSION_END);
        db_query_text(&q, id);
        db_query_int(&q, now_us);
        db_query_text(&q, store_end_name(end));
        r = db_query_run(&q, "end a session", err);
    }
    r = db_write_end(s, r, err);
    return r < 0 ? r : 0;
}

static int64_t session_end_all(struct store *store, int64_t now_us, enum store_end end,
                               struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r = db_write_begin(s, false, err);
    struct query q;

    if (r < 0)
        return r;
    q = db_query_begin(s, SESSION_END_ALL);
    db_query_int(&q, now_us);
    db_query_text(&q, store_end_name(end));
    return db_write_end(s, db_query_run(&q, "end all sessions", err), err);
}

static int64_t session_prune(struct store *store, int64_t before_us, struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r = db_write_begin(s, false, err);
    struct query q;

    if (r < 0)
        return r;
    q = db_query_begin(s, SESSION_PRUNE);
    db_query_int(&q, before_us);
    return db_write_end(s, db_query_run(&q, "forget old sessions", err), err);
}

/* ---- audit log ---- */

static int head_read(struct sqlite_store *s, enum statement which, struct store_head *ret_head,
                     struct gb_err *err)
{
    struct query q = db_query_begin(s, which);
    struct store_head head;
    int r = db_query_step(&q, "read the head of the audit log", err);

    if (r == 0 ||
        (r > 0 && (!db_column_int(q.stmt, 0, &head.seq) || !db_column_hash(q.stmt, 1, head.hash))))
        r = fail_row("read the head of the audit log", err);
    db_query_end(&q);
    if (r < 0)
        return r;
    *ret_head = head;
    return 0;
}

static int audit_head(struct store *store, struct store_head *ret_head, struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r;

    db_lock(s, CONN_READ);
    r = head_read(s, AUDIT_HEAD, ret_head, err);
    db_unlock(s, CONN_READ);
    return r;
}

static int audit_add(struct sqlite_store *s, const struct store_audit *entry,
                     struct store_head *head, struct gb_err *err)
{
    struct query q;
    int r;

    if (entry->seq != head->seq + 1 || memcmp(entry->prev, head->hash, sizeof head->hash) != 0)
        return gb_fail_plain(err, ESTALE, "entry %lld does not follow the head of the audit log",
                             (long long) entry->seq);
    q = db_query_begin(s, AUDIT_ADD);
    db_query_int(&q, entry->seq);
    db_query_int(&q, entry->time_us);
    db_query_optional_text(&q, entry->session_id);
    db_query_hash(&q, entry->prev);
    db_query_hash(&q, entry->hash);
    db_query_text(&q, entry->fields);
    r = db_query_run(&q, "add to the audit log", err);
    if (r < 0)
        return r;
    head->seq = entry->seq;
    memcpy(head->hash, entry->hash, sizeof head->hash);
    return 0;
}

static int audit_append(struct store *store, const struct store_audit *entries, size_t len,
                        struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    int r = db_write_begin(s, true, err);
    struct store_head head;
    struct query q;

    if (r < 0)
        return r;
    r = head_read(s, AUDIT_HEAD_LOCKED, &head, err);
    for (size_t i = 0; r == 0 && i < len; i++)
        r = audit_add(s, &entries[i], &head, err);
    if (r == 0) {
        q = db_query_begin(s, AUDIT_MOVE_HEAD);
        db_query_int(&q, head.seq);
        db_query_hash(&q, head.hash);
        r = db_query_run(&q, "move the head of the audit log", err);
    }
    r = db_write_end(s, r, err);
    return r < 0 ? r : 0;
}

/* A row that somebody else has written may hold anything. */
static int audit_read(sqlite3_stmt *stmt, struct store_audit *ret_entry)
{
    struct store_audit entry = { 0 };
    char *fields = malloc(STORE_AUDIT_FIELDS_MAX);
    bool good;

    if (!fields)
        return -ENOMEM;
    good = db_column_int(stmt, 0, &entry.seq);
    good &= db_column_int(stmt, 1, &entry.time_us);
    good &= db_column_copy_optional(stmt, 2, entry.session_id, sizeof entry.session_id);
    if (entry.session_id[0] && !store_id_valid(entry.session_id)) {
        good = false;
        entry.session_id[0] = '\0';
    }
    good &= db_column_hash(stmt, 3, entry.prev);
    good &= db_column_hash(stmt, 4, entry.hash);
    if (!db_column_copy(stmt, 5, fields, STORE_AUDIT_FIELDS_MAX)) {
        good = false;
        fields[0] = '\0';
    }
    entry.malformed = !good;
    entry.fields = strdup(fields); /* as long as it is, not as it may be */
    free(fields);
    if (!entry.fields)
        return -ENOMEM;
    *ret_entry = entry;
    return 0;
}

static void audit_reverse(struct store_audit *entries, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        struct store_audit swap = entries[i];

        entries[i] = entries[len - 1 - i];
        entries[len - 1 - i] = swap;
    }
}

static int audit_list(struct store *store, const struct store_audit_query *query,
                      struct store_audit **ret_entries, size_t *ret_len, struct gb_err *err)
{
    struct sqlite_store *s = sqlite_of(store);
    struct store_audit *entries = NULL;
    size_t len = 0;
    struct query q;
    int r;

    db_lock(s, CONN_READ);
    if (query->session_id)
        q = db_query_begin(s, query->newest ? AUDIT_LAST_OF_SESSION : AUDIT_FIRST_OF_SESSION);
    else
        q = db_query_begin(s, query->newest ? AUDIT_LAST : AUDIT_FIRST);
    db_query_int(&q, query->after_seq);
    db_query_int(&q, query->since_us);
    db_query_int(&q, (int64_t) query->limit);
    if (query->session_id)
        db_query_text(&q, query->session_id);
    while ((r = db_query_step(&q, "read the audit log", err)) > 0) {
        if (grow(&entries, len, sizeof *entries) < 0 || audit_read(q.stmt, &entries[len]) < 0) {
            r = gb_fail(err, ENOMEM, "read the audit log");
            break;
        }
        len++;
    }
    db_query_end(&q);
    db_unlock(s, CONN_READ);
    if (r < 0) {
        store_audit_free(entries, len);
        return r;
    }
    if (query->newest)
        audit_reverse(entries, len);
    *ret_entries = entries;
    *ret_len = len;
    return 0;
}

const struct store_ops store_sqlite_ops = {
    .close = store_sqlite_close,
    .key_add = key_add,
    .key_list = key_list,
    .key_revoke = key_revoke,
    .key_touch = key_touch,
    .key_generation = key_generation,
    .session_add = session_add,
    .session_get = session_get,
    .session_touch = session_touch,
    .session_end = session_end,
    .session_end_all = session_end_all,
    .session_prune = session_prune,
    .audit_head = audit_head,
    .audit_append = audit_append,
    .audit_list = audit_list,
};
