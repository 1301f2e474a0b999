/*
 * The parts of the PostgreSQL backend (theory of operation: backend.c).
 *
 * A function that fails in here returns an errno value above zero, which is the backend's failure
 * code, and leaves the words in the connection (conn_fail()).
 */
#pragma once

#include <libpq-fe.h>
#include <pthread.h>

#include "store/db.h"

#define PG_STATEMENTS_MAX 512 /* of one connection; far more than the store has */
#define PG_PARAMS_MAX     24
#define PG_SCHEMA_MAX     64

/* How long the store waits: for a connection, for another writer, for a statement. The server ends
 * the last two; if it does not answer at all, we hang up a little later. */
#define PG_CONNECT_MSEC   5000
#define PG_LOCK_MSEC      20000
#define PG_STATEMENT_MSEC 30000
#define PG_HANG_MSEC      (PG_STATEMENT_MSEC + 10000)

/* ---- where the database is (target.c) ---- */

struct pg_target {
    char schema[PG_SCHEMA_MAX];
    char **keywords, **values; /* for PQconnectStartParams(), NULL-terminated; complete, so that
                                  neither the environment nor a service file can change them */
    char *password;            /* also among the values, or NULL */
};

/* Parses and checks. @password_file may be NULL. */
int target_open(const char *url, const char *password_file, struct pg_target *ret_target,
                struct gb_err *err);
void target_release(struct pg_target *target);
/* For advisory locks: which one, and of which schema. */
enum pg_lock { PG_LOCK_SERVE, PG_LOCK_MIGRATE };
void target_lock_key(const struct pg_target *target, enum pg_lock lock, int ret_key[2]);

/* ---- one connection (conn.c) ---- */

struct pg_conn {
    const struct pg_target *target;
    enum db_side side;
    bool serves; /* takes the lock of the one who serves whenever it connects */
    PGconn *pg;  /* NULL: not connected */
    pthread_mutex_t lock;
    const struct db_statement *prepared[PG_STATEMENTS_MAX]; /* by address, open addressing; the
                                                               place is the statement's name */
    bool streams;                                           /* a query's rows are still arriving */
    char xid[24];     /* of the transaction that is under way, or "" */
    int64_t tried_us; /* when the last attempt to connect failed; 0: it did not */
    int code;         /* the last failure */
    char words[160];
};

/* Keeps the words for conn_error() and returns @code. */
int conn_fail(struct pg_conn *conn, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The last failure as -errno. */
int conn_error(const struct pg_conn *conn, const char *what, struct gb_err *err);

/* Connects unless it is connected. @patient: a server that restarts is waited for. */
int conn_connect(struct pg_conn *conn, bool patient);
void conn_drop(struct pg_conn *conn);

/* Whether a failure with that code means that the connection is gone. */
bool conn_is_lost(const struct pg_conn *conn);

/* The next result of what was sent; *@ret_result is NULL after the last. A result that is an error
 * is a failure. */
int conn_result(struct pg_conn *conn, int64_t timeout_ms, PGresult **ret_result);
/* Runs statements without parameters; the last result, for PQclear(), if @ret_result is not NULL.
 */
int conn_exec(struct pg_conn *conn, int64_t timeout_ms, const char *sql, PGresult **ret_result);
/* Reads what is left of the last query, or hangs up if that is much. */
void conn_drain(struct pg_conn *conn);

/* ---- tables (migrate.c) ---- */

/* Brings the tables up to date. @must_exist: -ENOENT instead of making them. */
int migrate_run(struct pg_conn *conn, bool must_exist, struct gb_err *err);
