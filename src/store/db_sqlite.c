/*
 * The store in one SQLite file, in WAL mode.
 *
 * Theory of operation. There are two connections, each with its own prepared statements and lock:
 * one reads, one writes. In WAL mode a reader never waits for a writer, so a query is not delayed
 * by a commit that waits for the disk. Writers of this process queue at the lock, those of other
 * processes at SQLite's own, for at most BUSY_MSEC. Every call that writes is one immediate
 * transaction.
 *
 * Data that must survive a power failure (keys, the audit log) is synced when it is committed;
 * records of sessions, which a restart ends anyway, are not. A crash of the process loses neither.
 */
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "store/db.h"
#include "store/db_sqlite_backup.h"
#include "store/migrations.h"

#include "base/banned.h"

#define BUSY_MSEC      20000
#define APPLICATION_ID 0x676c6f76 /* "glov", in the file's header */
#define VALUE_MAX      (64 << 20) /* no value or row is larger, even in a forged file */
#define STATEMENTS_MAX 256        /* of one connection; far more than the store has */

struct prepared {
    const struct db_statement *statement;
    sqlite3_stmt *stmt;
};

struct conn {
    sqlite3 *db;
    pthread_mutex_t lock;
    struct prepared prepared[STATEMENTS_MAX]; /* by the statement's address, open addressing */
};

struct sqlite_db {
    struct db base;
    struct conn conns[DB_SIDES];
    bool durable; /* the current setting of the writing connection */
};

static struct sqlite_db *sqlite_of(struct db *db)
{
    return (struct sqlite_db *) db;
}

/* ---- errors ---- */

static int errno_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_TOOBIG:
        return E2BIG;
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
        return rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_UNIQUE ? EEXIST
               : rc == SQLITE_CONSTRAINT_FOREIGNKEY                                 ? ENOENT
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

static int sqlite_fail(struct db *db, enum db_side side, int code, const char *what,
                       struct gb_err *err)
{
    return fail_sqlite(sqlite_of(db)->conns[side].db, code, what, err);
}

/* ---- statements ---- */

/* The slot of a statement in the table, or the free one where it belongs; NULL: the table is full.
 */
static struct prepared *prepared_find(struct conn *conn, const struct db_statement *statement)
{
    size_t start = ((uintptr_t) statement / sizeof(void *)) % STATEMENTS_MAX;

    for (size_t i = 0; i < STATEMENTS_MAX; i++) {
        struct prepared *place = &conn->prepared[(start + i) % STATEMENTS_MAX];

        if (!place->statement || place->statement == statement)
            return place;
    }
    return NULL;
}

static void sqlite_prepare(struct db_query *q)
{
    struct conn *conn = &sqlite_of(q->db)->conns[q->statement->side];
    struct prepared *place = prepared_find(conn, q->statement);
    int rc;

    if (!place) {
        q->failed = SQLITE_NOMEM;
        return;
    }
    if (!place->statement) {
        rc = sqlite3_prepare_v3(conn->db, q->statement->sql, -1, SQLITE_PREPARE_PERSISTENT,
                                &place->stmt, NULL);
        if (rc != SQLITE_OK) {
            q->failed = rc;
            return;
        }
        place->statement = q->statement;
    }
    q->prepared = place->stmt;
}

static int sqlite_bind_int(struct db_query *q, int64_t value)
{
    return sqlite3_bind_int64(q->prepared, q->next, value);
}

static int sqlite_bind_text(struct db_query *q, const char *text)
{
    return text ? sqlite3_bind_text(q->prepared, q->next, text, -1, SQLITE_TRANSIENT)
                : sqlite3_bind_null(q->prepared, q->next);
}

static int sqlite_step(struct db_query *q)
{
    int rc = sqlite3_step(q->prepared);

    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return rc == SQLITE_ROW;
    q->failed = rc;
    return -1;
}

static int sqlite_changes(struct db_query *q)
{
    return sqlite3_changes(sqlite3_db_handle(q->prepared));
}

static void sqlite_end(struct db_query *q)
{
    (void) sqlite3_reset(q->prepared); /* returns the error of the last step again */
    (void) sqlite3_clear_bindings(q->prepared);
}

/* ---- columns ---- */

static enum db_type sqlite_column_type(struct db_query *q, int column)
{
    switch (sqlite3_column_type(q->prepared, column)) {
    case SQLITE_NULL:
        return DB_NULL;
    case SQLITE_INTEGER:
        return DB_INTEGER;
    case SQLITE_TEXT:
        return DB_TEXT;
    default:
        return DB_OTHER;
    }
}

static int64_t sqlite_column_int(struct db_query *q, int column)
{
    return sqlite3_column_int64(q->prepared, column);
}

static const char *sqlite_column_text(struct db_query *q, int column, size_t *ret_len)
{
    const char *text = (const char *) sqlite3_column_text(q->prepared, column);

    *ret_len = (size_t) sqlite3_column_bytes(q->prepared, column);
    return text;
}

/* ---- transactions ---- */

static void sqlite_lock(struct db *db, enum db_side side)
{
    (void) pthread_mutex_lock(&sqlite_of(db)->conns[side].lock);
}

static void sqlite_unlock(struct db *db, enum db_side side)
{
    (void) pthread_mutex_unlock(&sqlite_of(db)->conns[side].lock);
}

static int run_plain(struct db *db, const struct db_statement *statement, struct gb_err *err)
{
    int r = db_run(db, err, statement, "");

    return r < 0 ? r : 0;
}

static int sqlite_begin(struct db *db, bool durable, struct gb_err *err)
{
    static const struct db_statement begin = { DB_WRITE, "BEGIN IMMEDIATE", "begin" };
    struct sqlite_db *s = sqlite_of(db);
    int r = 0;

    if (s->durable != durable)
        /* Not prepared: SQLite executes this one while it compiles it. */
        r = exec(s->conns[DB_WRITE].db,
                 durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", "set up",
                 err);
    if (r < 0)
        return r;
    s->durable = durable;
    return run_plain(db, &begin, err);
}

static int sqlite_commit(struct db *db, struct gb_err *err)
{
    static const struct db_statement commit = { DB_WRITE, "COMMIT", "commit" };

    return run_plain(db, &commit, err);
}

static void sqlite_rollback(struct db *db)
{
    static const struct db_statement rollback = { DB_WRITE, "ROLLBACK", "roll back" };

    /* After some errors SQLite has rolled back by itself. */
    if (!sqlite3_get_autocommit(sqlite_of(db)->conns[DB_WRITE].db))
        (void) run_plain(db, &rollback, NULL);
}

/* ---- opening and closing ---- */

static void sqlite_close(struct db *db)
{
    struct sqlite_db *s = sqlite_of(db);

    /* The writer last: it may have to checkpoint the log into the file. */
    for (size_t side = 0; side < DB_SIDES; side++) {
        struct conn *conn = &s->conns[side];

        for (size_t i = 0; i < STATEMENTS_MAX; i++)
            (void) sqlite3_finalize(conn->prepared[i].stmt);
        (void) sqlite3_close(conn->db);
        (void) pthread_mutex_destroy(&conn->lock);
    }
    free(s);
}

/* The one number that @sql returns. */
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
                "PRAGMA secure_delete = ON; " /* what people delete is overwritten */
                "PRAGMA temp_store = MEMORY; PRAGMA synchronous = NORMAL",
                "set up", err);
}

static int fail_foreign(const char *path, struct gb_err *err)
{
    return gb_fail_plain(err, EUCLEAN, "'%s' is not a Glovebox database", path);
}

/* Refuses files of other programs, which we must not write to, and versions that we do not
 * understand. */
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
                             "'%s' was created by a newer Glovebox: its version is %lld, and this "
                             "one supports up to %zu",
                             path, (long long) version, migrations_len);
    *ret_version = version;
    return 0;
}

static int migrate_step(sqlite3 *db, size_t from, struct gb_err *err)
{
    char version[96];
    int r = exec(db, migrations[from].tables, "create tables", err);

    (void) snprintf(version, sizeof version,
                    "PRAGMA application_id = %d; PRAGMA user_version = %zu", APPLICATION_ID,
                    from + 1);
    if (r == 0)
        r = exec(db, migrations[from].sqlite, "create triggers", err);
    return r < 0 ? r : exec(db, version, "record the version", err);
}

static int migrate(sqlite3 *db, const char *path, bool is_served, struct gb_err *err)
{
    int64_t version;
    int r = check_version(db, path, &version, err);

    if (r < 0 || version == (int64_t) migrations_len)
        return r;
    if (is_served)
        return gb_fail_plain(err, EBUSY,
                             "an older Glovebox is serving from this data directory, and would not "
                             "understand its tables after an update; stop it first");
    r = exec(db, "BEGIN IMMEDIATE", "begin", err);
    if (r < 0)
        return r;
    /* In the transaction: nobody else can write between the copy and the change. It has changed
     * nothing yet, so another connection reads what is there. */
    if (version > 0)
        r = db_sqlite_backup(path, version, err);
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
        (void) snprintf(mode, sizeof mode, "%s", (const char *) sqlite3_column_text(stmt, 0));
    (void) sqlite3_finalize(stmt);
    if (rc != SQLITE_ROW)
        return fail_sqlite(db, rc, "switch to WAL", err);
    if (strcmp(mode, "wal") != 0)
        return gb_fail_plain(err, EOPNOTSUPP,
                             "the file system of '%s' does not support SQLite's WAL mode; choose a "
                             "local one with --data",
                             path);
    return 0;
}

static int open_file(struct sqlite_db *s, const char *path, bool is_served, struct gb_err *err)
{
    sqlite3 *writer;
    int r = conn_open(&s->conns[DB_WRITE], path, err);
    int64_t version;

    if (r < 0)
        return r == -EUCLEAN ? fail_foreign(path, err) : r;
    writer = s->conns[DB_WRITE].db;
    r = check_version(writer, path, &version, err); /* before the first byte is written */
    if (r == 0)
        r = set_wal(writer, path, err);
    if (r == 0)
        r = migrate(writer, path, is_served, err);
    if (r == 0)
        r = conn_open(&s->conns[DB_READ], path, err);
    if (r == 0)
        r = exec(s->conns[DB_READ].db, "PRAGMA query_only = ON", "set up", err);
    return r;
}

static const struct db_ops sqlite_ops = {
    .close = sqlite_close,
    .lock = sqlite_lock,
    .unlock = sqlite_unlock,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .prepare = sqlite_prepare,
    .bind_int = sqlite_bind_int,
    .bind_text = sqlite_bind_text,
    .step = sqlite_step,
    .changes = sqlite_changes,
    .end = sqlite_end,
    .column_type = sqlite_column_type,
    .column_int = sqlite_column_int,
    .column_text = sqlite_column_text,
    .fail = sqlite_fail,
};

int db_sqlite_open(const char *path, bool is_served, struct db **ret_db, struct gb_err *err)
{
    struct sqlite_db *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return gb_fail(err, ENOMEM, "open the store");
    s->base.ops = &sqlite_ops;
    for (size_t i = 0; i < DB_SIDES; i++)
        (void) pthread_mutex_init(&s->conns[i].lock, NULL); /* cannot fail with defaults */
    r = open_file(s, path, is_served, err);
    if (r < 0) {
        sqlite_close(&s->base);
        return r;
    }
    *ret_db = &s->base;
    return 0;
}
