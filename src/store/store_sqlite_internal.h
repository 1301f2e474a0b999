/* The SQLite backend's own: statements, transactions and columns, for the calls built of them. */
#pragma once

#include <pthread.h>
#include <sqlite3.h>

#include "store/store_internal.h"

enum conn_id { CONN_READ, CONN_WRITE, CONN_COUNT };

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    KEY_ADD,
    KEY_LIST,
    KEY_FIND,
    KEY_REVOKE,
    KEY_TOUCH,
    KEY_GENERATION,
    KEY_CHANGED,
    SESSION_ADD,
    SESSION_GET,
    SESSION_TOUCH,
    SESSION_FIND,
    SESSION_END,
    SESSION_END_ALL,
    SESSION_PRUNE,
    AUDIT_HEAD,
    AUDIT_HEAD_LOCKED,
    AUDIT_ADD,
    AUDIT_MOVE_HEAD,
    AUDIT_FIRST,
    AUDIT_LAST,
    AUDIT_FIRST_OF_SESSION,
    AUDIT_LAST_OF_SESSION,
    STATEMENT_COUNT,
};

struct conn {
    sqlite3 *db;
    pthread_mutex_t lock;
};

struct sqlite_store {
    struct store base;
    struct conn conns[CONN_COUNT];
    sqlite3_stmt *prepared[STATEMENT_COUNT];
    bool durable; /* what the writing connection is set to */
    int lock_fd;  /* of an exclusive opener */
};

static inline struct sqlite_store *sqlite_of(struct store *store)
{
    return (struct sqlite_store *) store;
}

/* One use of a prepared statement, under its connection's lock. */
struct query {
    sqlite3_stmt *stmt;
    int next; /* parameter to be bound */
    int rc;   /* of the first thing that failed */
};

/* Parameters are bound in their order. The first failure is kept and told by the next step. */
struct query db_query_begin(struct sqlite_store *s, enum statement which);
void db_query_text(struct query *q, const char *text);          /* stays until the end */
void db_query_optional_text(struct query *q, const char *text); /* the same; an empty one is NULL */
void db_query_int(struct query *q, int64_t value);
void db_query_optional(struct query *q, int64_t value, int64_t none); /* @none is NULL */
void db_query_hash(struct query *q, const uint8_t hash[STORE_HASH_BYTES]);

/* 1: a row, 0: no more. */
int db_query_step(struct query *q, const char *what, struct gb_err *err);
void db_query_end(struct query *q);

/* Steps a query that gives no rows, and ends it. Returns how many rows it changed. */
int db_query_run(struct query *q, const char *what, struct gb_err *err);

/* Copy the text of a column; false when it is no text, or does not fit whole. NULL is the empty
 * text for the second. */
bool db_column_copy(sqlite3_stmt *stmt, int column, char *buf, size_t size);
bool db_column_copy_optional(sqlite3_stmt *stmt, int column, char *buf, size_t size);
bool db_column_hash(sqlite3_stmt *stmt, int column, uint8_t ret_hash[STORE_HASH_BYTES]);
bool db_column_int(sqlite3_stmt *stmt, int column, int64_t *ret_value);
int64_t db_column_optional(sqlite3_stmt *stmt, int column, int64_t none);

void db_lock(struct sqlite_store *s, enum conn_id id);
void db_unlock(struct sqlite_store *s, enum conn_id id);

/* Begins a transaction; holds the lock of the writing connection unless it fails. @durable: the
 * commit waits for the disk. */
int db_write_begin(struct sqlite_store *s, bool durable, struct gb_err *err);

/* Commits if @r says that all went well, else takes everything back; gives the lock back. Returns
 * @r, or the failure to commit. */
int db_write_end(struct sqlite_store *s, int r, struct gb_err *err);

extern const struct store_ops store_sqlite_ops;
void store_sqlite_close(struct store *store);
