/*
 * A database, as far as the store uses one: statements with parameters, rows, transactions.
 *
 * Subjects (keys.c, sessions.c, audit.c) are written once, in SQL that SQLite and PostgreSQL both
 * understand, over these calls. A backend is a const table of functions: a dozen small ones,
 * however many subjects there are. There are db_sqlite.c and postgres/; both have to pass
 * tests/unit/test_store*.c.
 *
 * A statement is a constant with an address: a backend prepares it when it is first used and keeps
 * it. Parameters are written ?1, ?2, ... and bound in their order. Values are 64-bit integers, text
 * and NULL. Reading takes a connection for the time between db_read_begin() and db_read_end(), and
 * so does writing; neither may be nested. One query reads at a time: db_query_end() comes before
 * the next one begins.
 *
 * There is one writer at a time, of all processes: what a transaction has read stays true until it
 * ends. After a statement of it has failed, it can only be rolled back. Text is UTF-8, or refused
 * (-EINVAL), and compares by its bytes. Where a column may be NULL, ORDER BY says NULLS FIRST or
 * NULLS LAST.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct db;

/* Which of the two connections a statement runs on. */
enum db_side { DB_READ, DB_WRITE, DB_SIDES };

struct db_statement {
    enum db_side side;
    const char *sql;
    const char *what; /* for errors: "store: <what>: ..." */
};

/* A failure before the backend saw it: a text that is not UTF-8. */
#define DB_BAD_TEXT INT32_MIN

enum db_type { DB_NULL, DB_INTEGER, DB_TEXT, DB_OTHER };

/* One use of a statement. The first failure is kept and returned by the next step. */
struct db_query {
    struct db *db;
    const struct db_statement *statement;
    void *prepared;    /* the backend's; NULL: could not be prepared */
    const char *types; /* of the parameters, as in db_query_begin(); NULL: not known */
    bool streams;      /* on the writing side: rows are read one by one, and the caller promises to
                          begin no other query meanwhile; the reading side always does */
    int next;          /* parameter to be bound, from 1 */
    int failed;        /* the backend's code of the first failure, DB_BAD_TEXT, or 0 */
};

/* The functions of a backend. Failure codes are its own; only fail() understands them. */
struct db_ops {
    void (*close)(struct db *db);

    void (*lock)(struct db *db, enum db_side side);
    void (*unlock)(struct db *db, enum db_side side);

    /* A transaction on the writing side, which is locked. @durable: the commit waits for the disk.
     */
    int (*begin)(struct db *db, bool durable, struct gb_err *err);
    int (*commit)(struct db *db, struct gb_err *err);
    void (*rollback)(struct db *db);

    /* Sets prepared or failed. */
    void (*prepare)(struct db_query *q);
    /* Return 0 or a code. A NULL text is NULL; the text need not outlive the call. */
    int (*bind_int)(struct db_query *q, int64_t value);
    int (*bind_text)(struct db_query *q, const char *text);
    /* 1: a row, 0: no more, else -1 with failed set. */
    int (*step)(struct db_query *q);
    int (*changes)(struct db_query *q);
    void (*end)(struct db_query *q);

    enum db_type (*column_type)(struct db_query *q, int column);
    int64_t (*column_int)(struct db_query *q, int column);
    const char *(*column_text)(struct db_query *q, int column, size_t *ret_len);

    /* -errno for the code, with the backend's own message. */
    int (*fail)(struct db *db, enum db_side side, int code, const char *what, struct gb_err *err);
};

/* The first member of every backend's own struct. */
struct db {
    const struct db_ops *ops;
};

/* ---- queries ---- */

/* Begins a statement and binds its parameters, of which @types names one after the other:
 *
 *   t  const char *       text
 *   T  const char *       text; an empty one is NULL
 *   i  int64_t            integer
 *   I  int64_t, int64_t   integer; one that equals the second is NULL
 *   h  const uint8_t *    STORE_HASH_BYTES of a hash */
struct db_query db_query_begin(struct db *db, const struct db_statement *statement,
                               const char *types, ...);

/* 1: a row, 0: no more. */
int db_query_step(struct db_query *q, struct gb_err *err);
void db_query_end(struct db_query *q);

/* Runs a statement that returns no rows, inside a transaction. Returns how many rows it changed. */
int db_run(struct db *db, struct gb_err *err, const struct db_statement *statement,
           const char *types, ...);

/* The same as a separate transaction. */
int db_write(struct db *db, bool durable, struct gb_err *err, const struct db_statement *statement,
             const char *types, ...);

/* For a row with an invalid value. */
int db_fail_row(const struct db_query *q, struct gb_err *err);

/* Copy the text of a column; false if it is not text, or does not fit. For the second, NULL is the
 * empty string. */
bool db_column_copy(struct db_query *q, int column, char *buf, size_t size);
bool db_column_copy_optional(struct db_query *q, int column, char *buf, size_t size);
bool db_column_hash(struct db_query *q, int column, uint8_t *ret_hash);
bool db_column_int(struct db_query *q, int column, int64_t *ret_value);
int64_t db_column_optional(struct db_query *q, int column, int64_t none);
bool db_column_is_null(struct db_query *q, int column);
/* A copy of a column's text, for free(); of NULL it is NULL. 0, -ENOMEM, or -EUCLEAN if it is
 * something else, longer than @max, or contains a NUL. */
int db_column_dup(struct db_query *q, int column, size_t max, char **ret_text);

/* Room for one more row in an array of @len; the arrays double. 0 or -ENOMEM. */
int db_grow(void *array, size_t len, size_t size);

/* ---- connections and transactions ---- */

void db_read_begin(struct db *db);
void db_read_end(struct db *db);

/* Begins a transaction; holds the writing connection unless it fails. @durable: the commit waits
 * for the disk. */
int db_write_begin(struct db *db, bool durable, struct gb_err *err);

/* Commits if @r is a success, otherwise rolls back; releases the connection. Returns @r, or the
 * failure to commit. */
int db_write_end(struct db *db, int r, struct gb_err *err);

/* ---- backends ---- */

/* Opens the file at @path, which must exist, and updates its tables; -EBUSY if they have to be
 * updated and another process serves from it. */
int db_sqlite_open(const char *path, bool is_served, struct db **ret_db, struct gb_err *err);

struct db_postgres_config {
    const char *url;           /* postgresql://user@host/name?schema=glovebox&sslmode=... */
    const char *password_file; /* may be NULL */
    bool must_exist;           /* -ENOENT instead of making the tables */
    bool exclusive;            /* -EBUSY if another process has it so */
};

/* Connects, and creates or updates the tables. No error contains the password. */
int db_postgres_open(const struct db_postgres_config *config, struct db **ret_db,
                     struct gb_err *err);
