/*
 * The store in one SQLite file, in WAL mode.
 *
 * Theory of operation. There are two connections, each with its statements prepared and a lock of
 * its own: one reads, one writes. In WAL mode a reader never waits for a writer, so a question is
 * not held up by a commit that waits for the disk. Writers of this process queue at the lock, those
 * of other processes at SQLite's own, for BUSY_MSEC at most. Every call that writes is one
 * immediate transaction.
 *
 * What must survive a power cut (keys, the audit log) is synced when it is committed; records of
 * sessions, which a restart ends anyway, are not. A crash of the process loses neither.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "store/migrations.h"
#include "store/store_sqlite_internal.h"

#include "base/banned.h"

#define FILE_NAME      "glovebox.db"
#define BUSY_MSEC      20000
#define APPLICATION_ID 0x676c6f76 /* "glov", in the file's header */
#define VALUE_MAX      (1 << 20)  /* no value is larger, whatever somebody put into the file */

#define AUDIT_SELECT                                                                               \
    "SELECT seq, time_us, session_id, prev_hash, hash, fields FROM audit_log "                     \
    "WHERE seq > ?1 AND time_us >= ?2"

static const struct {
    enum conn_id conn;
    const char *sql;
} statements[] = {
    [BEGIN] = { CONN_WRITE, "BEGIN IMMEDIATE" },
    [COMMIT] = { CONN_WRITE, "COMMIT" },
    [ROLLBACK] = { CONN_WRITE, "ROLLBACK" },
    [KEY_ADD] = { CONN_WRITE, "INSERT INTO api_keys (id, name, hash, created_us, last_used_us, "
                              "revoked_us, sessions, executions, rate_per_minute) "
                              "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)" },
    [KEY_LIST] = { CONN_READ, "SELECT id, name, hash, created_us, last_used_us, revoked_us, "
                              "sessions, executions, rate_per_minute FROM api_keys "
                              "ORDER BY created_us, id" },
    [KEY_FIND] = { CONN_WRITE, "SELECT revoked_us FROM api_keys WHERE id = ?1" },
    [KEY_REVOKE] = { CONN_WRITE, "UPDATE api_keys SET revoked_us = ?2 WHERE id = ?1" },
    [KEY_TOUCH] = { CONN_WRITE, "UPDATE api_keys SET last_used_us = ?2 WHERE id = ?1 AND "
                                "(last_used_us IS NULL OR last_used_us < ?2)" },
    [KEY_GENERATION] = { CONN_READ, "SELECT value FROM api_keys_generation" },
    [KEY_CHANGED] = { CONN_WRITE, "UPDATE api_keys_generation SET value = value + 1" },
    [SESSION_ADD] = { CONN_WRITE, "INSERT INTO sessions (id, key_id, created_us, last_used_us) "
                                  "VALUES (?1, ?2, ?3, ?4)" },
    [SESSION_GET] = { CONN_READ, "SELECT id, key_id, created_us, last_used_us, ended_us, "
                                 "end_reason FROM sessions WHERE id = ?1" },
    [SESSION_TOUCH] = { CONN_WRITE, "UPDATE sessions SET last_used_us = ?2 WHERE id = ?1 AND "
                                    "ended_us IS NULL" },
    [SESSION_FIND] = { CONN_WRITE, "SELECT 1 FROM sessions WHERE id = ?1" },
    [SESSION_END] = { CONN_WRITE, "UPDATE sessions SET ended_us = ?2, end_reason = ?3 "
                                  "WHERE id = ?1 AND ended_us IS NULL" },
    [SESSION_END_ALL] = { CONN_WRITE, "UPDATE sessions SET ended_us = ?1, end_reason = ?2 "
                                      "WHERE ended_us IS NULL" },
    [SESSION_PRUNE] = { CONN_WRITE, "DELETE FROM sessions WHERE ended_us < ?1" },
    [AUDIT_HEAD] = { CONN_READ, "SELECT seq, hash FROM audit_head" },
    [AUDIT_HEAD_LOCKED] = { CONN_WRITE, "SELECT seq, hash FROM audit_head" },
    [AUDIT_ADD] = { CONN_WRITE, "INSERT INTO audit_log (seq, time_us, session_id, prev_hash, hash, "
                                "fields) VALUES (?1, ?2, ?3, ?4, ?5, ?6)" },
    [AUDIT_MOVE_HEAD] = { CONN_WRITE, "UPDATE audit_head SET seq = ?1, hash = ?2" },
    [AUDIT_FIRST] = { CONN_READ, AUDIT_SELECT " ORDER BY seq LIMIT ?3" },
    [AUDIT_LAST] = { CONN_READ, AUDIT_SELECT " ORDER BY seq DESC LIMIT ?3" },
    [AUDIT_FIRST_OF_SESSION] = { CONN_READ,
                                 AUDIT_SELECT " AND session_id = ?4 ORDER BY seq LIMIT ?3" },
    [AUDIT_LAST_OF_SESSION] = { CONN_READ,
                                AUDIT_SELECT " AND session_id = ?4 ORDER BY seq DESC LIMIT ?3" },
};
_Static_assert(ARRAY_LEN(statements) == STATEMENT_COUNT, "every statement has its text");

/* ---- errors ---- */

static int errno_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_READONLY:
        return EROFS;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return EACCES;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return EUCLEAN;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_PRIMARYKEY   ? EEXIST
               : rc == SQLITE_CONSTRAINT_FOREIGNKEY ? ENOENT
                                                    : EPERM;
    default:
        return EIO;
    }
}

static int fail_sqlite(sqlite3 *db, int rc, const char *what, struct gb_err *err)
{
    return gb_fail_plain(err, errno_of(rc), "store: %s: %s", what,
                         db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
}

static int exec(sqlite3 *db, const char *sql, const char *what, struct gb_err *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : fail_sqlite(db, rc, what, err);
}

/* ---- statements ---- */

struct query db_query_begin(struct sqlite_store *s, enum statement which)
{
    return (struct query){ s->prepared[which], 1, SQLITE_OK };
}

static void query_note(struct query *q, int rc)
{
    if (q->rc == SQLITE_OK)
        q->rc = rc;
    q->next++;
}

void db_query_text(struct query *q, const char *text)
{
    query_note(q, sqlite3_bind_text(q->stmt, q->next, text, -1, SQLITE_STATIC));
}

void db_query_optional_text(struct query *q, const char *text)
{
    if (*text)
        db_query_text(q, text);
    else
        query_note(q, sqlite3_bind_null(q->stmt, q->next));
}

void db_query_int(struct query *q, int64_t value)
{
    query_note(q, sqlite3_bind_int64(q->stmt, q->next, value));
}

void db_query_optional(struct query *q, int64_t value, int64_t none)
{
    query_note(q, value == none ? sqlite3_bind_null(q->stmt, q->next)
                                : sqlite3_bind_int64(q->stmt, q->next, value));
}

void db_query_hash(struct query *q, const uint8_t hash[STORE_HASH_BYTES])
{
    char hex[STORE_HEX_MAX];

    store_hex(hash, hex);
    query_note(q, sqlite3_bind_text(q->stmt, q->next, hex, -1, SQLITE_TRANSIENT));
}

int db_query_step(struct query *q, const char *what, struct gb_err *err)
{
    if (q->rc == SQLITE_OK) {
        int rc = sqlite3_step(q->stmt);

        if (rc == SQLITE_ROW || rc == SQLITE_DONE)
            return rc == SQLITE_ROW;
        q->rc = rc;
    }
    return fail_sqlite(sqlite3_db_handle(q->stmt), q->rc, what, err);
}

void db_query_end(struct query *q)
{
    (void) sqlite3_reset(q->stmt); /* tells once more what step told */
    (void) sqlite3_clear_bindings(q->stmt);
}

int db_query_run(struct query *q, const char *what, struct gb_err *err)
{
    int r = db_query_step(q, what, err);

    db_query_end(q);
    return r < 0 ? r : sqlite3_changes(sqlite3_db_handle(q->stmt));
}

static int run_plain(struct sqlite_store *s, enum statement which, struct gb_err *err)
{
    struct query q = db_query_begin(s, which);
    int r = db_query_run(&q, statements[which].sql, err);

    return r < 0 ? r : 0;
}

/* ---- columns ---- */

bool db_column_copy(sqlite3_stmt *stmt, int column, char *buf, size_t size)
{
    const char *text;
    size_t len;

    if (sqlite3_column_type(stmt, column) != SQLITE_TEXT)
        return false;
    text = (const char *) sqlite3_column_text(stmt, column);
    len = (size_t) sqlite3_column_bytes(stmt, column);
    if (!text || len >= size || memchr(text, 0, len))
        return false;
    memcpy(buf, text, len + 1);
    return true;
}

bool db_column_copy_optional(sqlite3_stmt *stmt, int column, char *buf, size_t size)
{
    buf[0] = '\0';
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ||
           db_column_copy(stmt, column, buf, size);
}

bool db_column_hash(sqlite3_stmt *stmt, int column, uint8_t ret_hash[STORE_HASH_BYTES])
{
    char hex[STORE_HEX_MAX];

    return db_column_copy(stmt, column, hex, sizeof hex) && store_unhex(hex, ret_hash);
}

bool db_column_int(sqlite3_stmt *stmt, int column, int64_t *ret_value)
{
    if (sqlite3_column_type(stmt, column) != SQLITE_INTEGER)
        return false;
    *ret_value = sqlite3_column_int64(stmt, column);
    return true;
}

int64_t db_column_optional(sqlite3_stmt *stmt, int column, int64_t none)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? none
                                                            : sqlite3_column_int64(stmt, column);
}

/* ---- transactions ---- */

void db_lock(struct sqlite_store *s, enum conn_id id)
{
    (void) pthread_mutex_lock(&s->conns[id].lock);
}

void db_unlock(struct sqlite_store *s, enum conn_id id)
{
    (void) pthread_mutex_unlock(&s->conns[id].lock);
}

int db_write_begin(struct sqlite_store *s, bool durable, struct gb_err *err)
{
    int r = 0;

    db_lock(s, CONN_WRITE);
    if (s->durable != durable)
        /* Not prepared: SQLite acts on this one while it compiles it. */
        r = exec(s->conns[CONN_WRITE].db,
                 durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", "set up",
                 err);
    if (r == 0) {
        s->durable = durable;
        r = run_plain(s, BEGIN, err);
    }
    if (r < 0)
        db_unlock(s, CONN_WRITE);
    return r;
}

int db_write_end(struct sqlite_store *s, int r, struct gb_err *err)
{
    if (r >= 0) {
        int committed = run_plain(s, COMMIT, err);

        r = committed < 0 ? committed : r;
    }
    /* After some errors SQLite has rolled back by itself. */
    if (r < 0 && !sqlite3_get_autocommit(s->conns[CONN_WRITE].db))
        (void) run_plain(s, ROLLBACK, NULL);
    db_unlock(s, CONN_WRITE);
    return r;
}

/* ---- opening and closing ---- */

void store_sqlite_close(struct store *store)
{
    struct sqlite_store *s = sqlite_of(store);

    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        (void) sqlite3_finalize(s->prepared[i]);
    /* The writer last: it may have to fold the log into the file. */
    for (size_t i = 0; i < CONN_COUNT; i++) {
        (void) sqlite3_close(s->conns[i].db);
        (void) pthread_mutex_destroy(&s->conns[i].lock);
    }
    gb_closep(&s->lock_fd);
    free(s);
}

/* The one number that @sql gives. */
static int ask(sqlite3 *db, const char *sql, int64_t *ret_value, struct gb_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret_value = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : fail_sqlite(db, rc, sql, err);
}

static int conn_open(struct conn *conn, const char *path, struct gb_err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    int rc = sqlite3_open_v2(path, &conn->db, flags, NULL);

    if (rc != SQLITE_OK)
        return gb_fail_plain(err, errno_of(rc), "store: open '%s': %s", path, sqlite3_errstr(rc));
    (void) sqlite3_extended_result_codes(conn->db, 1);
    (void) sqlite3_busy_timeout(conn->db, BUSY_MSEC);
    (void) sqlite3_limit(conn->db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    (void) sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return exec(conn->db,
                "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; "
                "PRAGMA temp_store = MEMORY; PRAGMA synchronous = NORMAL",
                "set up", err);
}

static int fail_foreign(const char *path, struct gb_err *err)
{
    return gb_fail_plain(err, EUCLEAN, "'%s' is not a store of glovebox", path);
}

/* Refuses another program's file, which is not ours to write to, and what we would not understand.
 */
static int check_version(sqlite3 *db, const char *path, int64_t *ret_version, struct gb_err *err)
{
    int64_t id, version, tables;
    int r = ask(db, "PRAGMA application_id", &id, err);

    if (r == 0)
        r = ask(db, "PRAGMA user_version", &version, err);
    if (r == 0)
        r = ask(db, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (r < 0)
        return r;
    if (id != APPLICATION_ID && (id != 0 || version != 0 || tables != 0))
        return fail_foreign(path, err);
    if (version < 0 || version > (int64_t) migrations_len)
        return gb_fail_plain(err, EPROTONOSUPPORT,
                             "'%s' was made by a newer glovebox: its version is %lld, and this one "
                             "knows up to %zu",
                             path, (long long) version, migrations_len);
    *ret_version = version;
    return 0;
}

static int migrate_step(sqlite3 *db, size_t from, struct gb_err *err)
{
    char version[96];
    int r = exec(db, migrations[from].tables, "make tables", err);

    (void) snprintf(version, sizeof version,
                    "PRAGMA application_id = %d; PRAGMA user_version = %zu", APPLICATION_ID,
                    from + 1);
    if (r == 0)
        r = exec(db, migrations[from].sqlite, "make triggers", err);
    return r < 0 ? r : exec(db, version, "note the version", err);
}

static int migrate(sqlite3 *db, const char *path, struct gb_err *err)
{
    int64_t version;
    int r = check_version(db, path, &version, err);

    if (r < 0 || version == (int64_t) migrations_len)
        return r;
    r = exec(db, "BEGIN IMMEDIATE", "begin", err);
    if (r < 0)
        return r;
    for (size_t from = (size_t) version; r == 0 && from < migrations_len; from++)
        r = migrate_step(db, from, err);
    if (r == 0)
        r = exec(db, "COMMIT", "commit", err);
    if (r < 0)
        (void) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

/* Without WAL readers and writers would wait for each other. */
static int set_wal(sqlite3 *db, const char *path, struct gb_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);
    char mode[16] = "";

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        (void) db_column_copy(stmt, 0, mode, sizeof mode);
    (void) sqlite3_finalize(stmt);
    if (rc != SQLITE_ROW)
        return fail_sqlite(db, rc, "switch to WAL", err);
    if (strcmp(mode, "wal") != 0)
        return gb_fail_plain(err, EOPNOTSUPP,
                             "the file system of '%s' cannot hold a store; choose a local one with "
                             "--data",
                             path);
    return 0;
}

static int prepare_all(struct sqlite_store *s, struct gb_err *err)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3 *db = s->conns[statements[i].conn].db;
        int rc = sqlite3_prepare_v3(db, statements[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
                                    &s->prepared[i], NULL);

        if (rc != SQLITE_OK)
            return fail_sqlite(db, rc, "prepare", err);
    }
    return 0;
}

static int open_file(struct sqlite_store *s, const char *path, struct gb_err *err)
{
    sqlite3 *writer;
    int r = conn_open(&s->conns[CONN_WRITE], path, err);
    int64_t version;

    if (r < 0)
        return r == -EUCLEAN ? fail_foreign(path, err) : r;
    writer = s->conns[CONN_WRITE].db;
    r = check_version(writer, path, &version, err); /* before the first byte is written */
    if (r == 0)
        r = set_wal(writer, path, err);
    if (r == 0)
        r = migrate(writer, path, err);
    if (r == 0)
        r = conn_open(&s->conns[CONN_READ], path, err);
    if (r == 0)
        r = exec(s->conns[CONN_READ].db, "PRAGMA query_only = ON", "set up", err);
    return r < 0 ? r : prepare_all(s, err);
}

static struct sqlite_store *sqlite_new(void)
{
    struct sqlite_store *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->base.ops = &store_sqlite_ops;
    s->lock_fd = -EBADF;
    for (size_t i = 0; i < CONN_COUNT; i++)
        (void) pthread_mutex_init(&s->conns[i].lock, NULL); /* of the default kind it cannot fail */
    return s;
}

int store_sqlite_open(const struct store_config *config, struct store **ret_store,
                      struct gb_err *err)
{
    __attribute__((cleanup(store_dir_release))) struct store_dir dir = { NULL, -EBADF, -EBADF };
    autofree char *path = NULL;
    struct sqlite_store *s;
    int r = store_dir_open(config, &dir, err);

    if (r == 0)
        r = store_dir_check_file(&dir, FILE_NAME, config->must_exist, err);
    if (r < 0)
        return r;
    if (asprintf(&path, "%s/" FILE_NAME, dir.path) < 0) {
        path = NULL;
        return gb_fail(err, ENOMEM, "open the store");
    }
    s = sqlite_new();
    if (!s)
        return gb_fail(err, ENOMEM, "open the store");
    s->lock_fd = TAKE_FD(dir.lock_fd);
    r = open_file(s, path, err);
    if (r < 0) {
        store_sqlite_close(&s->base);
        return r;
    }
    *ret_store = &s->base;
    return 0;
}
