/*
 * The store in PostgreSQL.
 *
 * Theory of operation. There are two connections, as with SQLite: one reads, one writes. A read is
 * one statement, whose rows are taken from the socket one by one, so that a caller who stops early
 * has not loaded the rest. If the connection turns out to be gone (the server was restarted), the
 * statement is sent again on a new one; it has delivered nothing yet.
 *
 * A transaction begins by locking the table glovebox_version against other writers. So there is one
 * writer at a time, of all processes, just as there is in SQLite: a caller that looks first and
 * then writes (the first user, a share, the head of the audit log, a budget) needs to know about
 * no isolation level, and no transaction ever has to be repeated. That costs nothing here: one
 * process has one writing connection anyway, and one process serves. Readers never wait for it.
 *
 * If the connection is lost before a transaction has begun, it begins on a new one. Later the
 * transaction is gone, and the caller gets the error. If it is lost while committing, a new
 * connection asks the server what became of the transaction, by its number, so "failed" means
 * that it did not happen.
 *
 * Statements are prepared when they are first used, with the types of their parameters as db.h
 * spells them; their names end with the connection.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/internal.h"

#include "base/banned.h"

/* Of PostgreSQL's catalogue, the same in every version. */
enum { OID_BOOL = 16, OID_NAME = 19, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23, OID_TEXT = 25 };
enum { OID_UNKNOWN = 705, OID_VARCHAR = 1043, OID_NUMERIC = 1700 };

struct pg_db {
    struct db base;
    struct pg_target target;
    struct pg_conn conns[DB_SIDES];
};

/* One use of a statement. */
struct pg_query {
    struct pg_conn *conn;
    char *values[PG_PARAMS_MAX];
    int len;
    bool streams, sent, done;
    PGresult *result; /* one row if it streams, else all */
    int row;
};

static struct pg_db *pg_of(struct db *db)
{
    return (struct pg_db *) db;
}

static int pg_fail(struct db *db, enum db_side side, int code, const char *what, struct gb_err *err)
{
    struct pg_conn *conn = &pg_of(db)->conns[side];

    if (conn->code != code)
        return gb_fail_about(err, code, "store: %s", what);
    return conn_error(conn, what, err);
}

/* ---- preparing ---- */

/* "?12" becomes "$12". Texts in quotes are left alone. */
static char *translate(const char *sql)
{
    char *copy = strdup(sql);
    bool quoted = false;

    for (char *c = copy; c && *c; c++) {
        if (*c == '\'')
            quoted = !quoted;
        if (*c == '?' && !quoted)
            *c = '$';
    }
    return copy;
}

/* The place of a statement, whether it is there or not; PG_STATEMENTS_MAX: none is free. */
static size_t place_find(const struct pg_conn *conn, const struct db_statement *statement)
{
    size_t start = ((uintptr_t) statement / sizeof(void *)) % PG_STATEMENTS_MAX;

    for (size_t i = 0; i < PG_STATEMENTS_MAX; i++) {
        size_t place = (start + i) % PG_STATEMENTS_MAX;

        if (!conn->prepared[place] || conn->prepared[place] == statement)
            return place;
    }
    return PG_STATEMENTS_MAX;
}

static int types_fill(const char *types, Oid ret_types[PG_PARAMS_MAX])
{
    int len = 0;

    for (; types && *types && len < PG_PARAMS_MAX; types++)
        ret_types[len++] = *types == 'i' || *types == 'I' ? OID_INT8 : OID_TEXT;
    return len;
}

/* Prepares the statement unless it is, and fills its name. */
static int ready(struct db_query *q, char ret_name[16])
{
    struct pg_query *query = q->prepared;
    struct pg_conn *conn = query->conn;
    size_t place = place_find(conn, q->statement);
    Oid types[PG_PARAMS_MAX];
    PGresult *result = NULL;
    char *sql;
    int r;

    if (place == PG_STATEMENTS_MAX)
        return conn_fail(conn, ENOMEM, "too many statements");
    (void) snprintf(ret_name, 16, "s%zu", place);
    if (conn->prepared[place])
        return 0;
    sql = translate(q->statement->sql);
    if (!sql)
        return conn_fail(conn, ENOMEM, "out of memory");
    r = types_fill(q->types, types);
    if (!PQsendPrepare(conn->pg, ret_name, sql, r, types)) {
        conn_drop(conn);
        r = conn_fail(conn, ECONNRESET, "the connection to the database was lost");
    } else {
        r = conn_result(conn, PG_HANG_MSEC, &result);
        PQclear(result);
        if (conn->pg) /* the end of the statement, also of a failed one */
            conn_drain(conn);
    }
    free(sql);
    if (r == 0)
        conn->prepared[place] = q->statement;
    return r;
}

static void pg_prepare(struct db_query *q)
{
    struct pg_query *query = calloc(1, sizeof *query);

    if (!query) {
        q->failed = ENOMEM;
        return;
    }
    query->conn = &pg_of(q->db)->conns[q->statement->side];
    query->streams = q->streams || q->statement->side == DB_READ;
    q->prepared = query;
}

static int bind(struct db_query *q, const char *text)
{
    struct pg_query *query = q->prepared;
    char *copy = NULL;

    if (query->len == PG_PARAMS_MAX)
        return conn_fail(query->conn, E2BIG, "too many parameters");
    if (text) {
        copy = strdup(text);
        if (!copy)
            return conn_fail(query->conn, ENOMEM, "out of memory");
    }
    query->values[query->len++] = copy;
    return 0;
}

static int pg_bind_int(struct db_query *q, int64_t value)
{
    char text[24];

    (void) snprintf(text, sizeof text, "%lld", (long long) value);
    return bind(q, text);
}

static int pg_bind_text(struct db_query *q, const char *text)
{
    return bind(q, text);
}

/* ---- running ---- */

static int send_query(struct db_query *q)
{
    struct pg_query *query = q->prepared;
    struct pg_conn *conn = query->conn;
    char name[16];
    int r = ready(q, name);

    if (r != 0)
        return r;
    if (!PQsendQueryPrepared(conn->pg, name, query->len, (const char *const *) query->values, NULL,
                             NULL, 0)) {
        conn_drop(conn);
        return conn_fail(conn, ECONNRESET, "the connection to the database was lost");
    }
    if (query->streams)
        (void) PQsetSingleRowMode(conn->pg);
    conn->streams = true;
    r = conn_result(conn, PG_HANG_MSEC, &query->result);
    if (r != 0 && conn->pg) {
        char words[sizeof conn->words];

        memcpy(words, conn->words, sizeof words);
        conn_drain(conn);
        memcpy(conn->words, words, sizeof words);
        conn->code = r;
    }
    return r;
}

/* Reading: on a new connection if need be. Writing: only on the one that has the transaction. */
static int first(struct db_query *q)
{
    struct pg_query *query = q->prepared;
    struct pg_conn *conn = query->conn;
    int r;

    if (conn->side == DB_WRITE && (!conn->pg || !conn->xid[0]))
        return conn->code ? conn->code
                          : conn_fail(conn, ECONNRESET, "the connection to the database was lost");
    if (conn->streams)
        return conn_fail(conn, EBUSY, "another query is under way on this connection");
    for (int tries = 0;; tries++) {
        r = conn_connect(conn, true);
        if (r == 0)
            r = send_query(q);
        if (r == 0 || conn->pg || conn->side == DB_WRITE || tries > 0 || conn->tried_us ||
            r == ETIMEDOUT)
            return r;
    }
}

static int next_result(struct pg_query *query)
{
    struct pg_conn *conn = query->conn;
    int r;

    PQclear(query->result);
    query->result = NULL;
    query->row = 0;
    if (!conn->pg)
        return conn_fail(conn, ECONNRESET, "the connection to the database was lost");
    r = conn_result(conn, PG_HANG_MSEC, &query->result);
    if (r != 0)
        conn->streams = conn->pg != NULL;
    return r;
}

static int pg_step(struct db_query *q)
{
    struct pg_query *query = q->prepared;
    int r = 0;

    if (query->done)
        return 0;
    if (!query->sent) {
        query->sent = true;
        r = first(q);
    } else if (query->row + 1 < PQntuples(query->result)) {
        query->row++;
        return 1;
    } else if (query->streams) {
        r = next_result(query);
    } else {
        query->done = true;
        return 0;
    }
    if (r != 0) {
        query->done = true;
        q->failed = r;
        return -1;
    }
    if (!query->streams)
        conn_drain(query->conn); /* all rows are here; others may be asked for meanwhile */
    query->done = !query->result || PQntuples(query->result) == 0;
    return !query->done;
}

static bool read_int(const char *text, int64_t *ret_value)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end)
        return false;
    *ret_value = value;
    return true;
}

static int pg_changes(struct db_query *q)
{
    const struct pg_query *query = q->prepared;
    int64_t count = 0;

    if (!query->result || !read_int(PQcmdTuples(query->result), &count) || count > INT32_MAX)
        return 0;
    return (int) count;
}

static void pg_end(struct db_query *q)
{
    struct pg_query *query = q->prepared;

    PQclear(query->result);
    if (query->sent && query->streams && query->conn->streams)
        conn_drain(query->conn);
    for (int i = 0; i < query->len; i++)
        free(query->values[i]);
    free(query);
    q->prepared = NULL;
}

/* ---- columns ---- */

static bool in_range(const struct pg_query *query, int column)
{
    return query->result && query->row < PQntuples(query->result) &&
           column < PQnfields(query->result);
}

/* The sum of a BIGINT is a NUMERIC, and a comparison a BOOLEAN: integers in SQLite. */
static bool number_of(const struct pg_query *query, int column, int64_t *ret_value)
{
    const char *text = PQgetvalue(query->result, query->row, column);

    switch (PQftype(query->result, column)) {
    case OID_BOOL:
        *ret_value = text[0] == 't';
        return true;
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
    case OID_NUMERIC:
        return read_int(text, ret_value);
    default:
        return false;
    }
}

static enum db_type pg_column_type(struct db_query *q, int column)
{
    const struct pg_query *query = q->prepared;
    int64_t value;

    if (!in_range(query, column) || PQgetisnull(query->result, query->row, column))
        return DB_NULL;
    switch (PQftype(query->result, column)) {
    case OID_TEXT:
    case OID_VARCHAR:
    case OID_NAME:
    case OID_UNKNOWN:
        return DB_TEXT;
    default:
        return number_of(query, column, &value) ? DB_INTEGER : DB_OTHER;
    }
}

static int64_t pg_column_int(struct db_query *q, int column)
{
    const struct pg_query *query = q->prepared;
    int64_t value = 0;

    return in_range(query, column) && number_of(query, column, &value) ? value : 0;
}

static const char *pg_column_text(struct db_query *q, int column, size_t *ret_len)
{
    const struct pg_query *query = q->prepared;

    *ret_len = 0;
    if (!in_range(query, column))
        return NULL;
    *ret_len = (size_t) PQgetlength(query->result, query->row, column);
    return PQgetvalue(query->result, query->row, column);
}

/* ---- transactions ---- */

static void pg_lock(struct db *db, enum db_side side)
{
    (void) pthread_mutex_lock(&pg_of(db)->conns[side].lock);
}

static void pg_unlock(struct db *db, enum db_side side)
{
    (void) pthread_mutex_unlock(&pg_of(db)->conns[side].lock);
}

static int begin_once(struct pg_conn *conn, bool durable)
{
    PGresult *result = NULL;
    char sql[256];
    int r = conn_connect(conn, true);

    (void) snprintf(sql, sizeof sql,
                    "BEGIN; SET LOCAL synchronous_commit TO %s; "
                    "LOCK TABLE glovebox_version IN EXCLUSIVE MODE; "
                    "SELECT txid_current()",
                    durable ? "on" : "off");
    if (r == 0)
        r = conn_exec(conn, PG_HANG_MSEC, sql, &result);
    if (r == 0)
        (void) snprintf(conn->xid, sizeof conn->xid, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return r;
}

static void pg_rollback(struct db *db)
{
    struct pg_conn *conn = &pg_of(db)->conns[DB_WRITE];

    conn->xid[0] = '\0';
    if (conn->pg && conn_exec(conn, PG_HANG_MSEC, "ROLLBACK", NULL) != 0)
        conn_drop(conn);
}

static int pg_begin(struct db *db, bool durable, struct gb_err *err)
{
    struct pg_conn *conn = &pg_of(db)->conns[DB_WRITE];
    int r = begin_once(conn, durable);

    conn->code = r;
    if (r != 0 && !conn->pg && !conn->tried_us && r != ETIMEDOUT)
        r = begin_once(conn, durable);
    if (r == 0)
        return 0;
    r = conn_error(conn, "begin", err);
    pg_rollback(db);
    return r;
}

/* What became of a transaction whose end we did not hear of. */
static int ask_outcome(struct pg_conn *conn, const char *xid)
{
    PGresult *result = NULL;
    char sql[96];
    int r = conn_connect(conn, true);

    (void) snprintf(sql, sizeof sql, "SELECT txid_status(%s)", xid);
    if (r == 0)
        r = conn_exec(conn, PG_HANG_MSEC, sql, &result);
    if (r == 0 && strcmp(PQgetvalue(result, 0, 0), "committed") != 0)
        r = conn_fail(conn, ECONNRESET,
                      "the connection to the database was lost; nothing was written");
    else if (r != 0)
        r = conn_fail(conn, ECONNRESET,
                      "the connection to the database was lost while committing; whether it was "
                      "written is not known");
    PQclear(result);
    return r;
}

static int pg_commit(struct db *db, struct gb_err *err)
{
    struct pg_conn *conn = &pg_of(db)->conns[DB_WRITE];
    PGresult *result = NULL;
    char xid[sizeof conn->xid];
    int r;

    memcpy(xid, conn->xid, sizeof xid);
    conn->xid[0] = '\0';
    r = conn_exec(conn, PG_HANG_MSEC, "COMMIT", &result);
    if (r == 0 && strcmp(PQcmdStatus(result), "COMMIT") != 0)
        r = conn_fail(conn, EIO, "a statement of the transaction had failed");
    else if (r != 0 && !conn->pg && xid[0])
        r = ask_outcome(conn, xid);
    PQclear(result);
    return r == 0 ? 0 : conn_error(conn, "commit", err);
}

/* ---- opening and closing ---- */

static void pg_close(struct db *db)
{
    struct pg_db *pg = pg_of(db);

    for (size_t side = 0; side < DB_SIDES; side++) {
        conn_drop(&pg->conns[side]);
        (void) pthread_mutex_destroy(&pg->conns[side].lock);
    }
    target_release(&pg->target);
    free(pg);
}

static const struct db_ops pg_ops = {
    .close = pg_close,
    .lock = pg_lock,
    .unlock = pg_unlock,
    .begin = pg_begin,
    .commit = pg_commit,
    .rollback = pg_rollback,
    .prepare = pg_prepare,
    .bind_int = pg_bind_int,
    .bind_text = pg_bind_text,
    .step = pg_step,
    .changes = pg_changes,
    .end = pg_end,
    .column_type = pg_column_type,
    .column_int = pg_column_int,
    .column_text = pg_column_text,
    .fail = pg_fail,
};

static int open_all(struct pg_db *pg, const struct db_postgres_config *config, struct gb_err *err)
{
    struct pg_conn *writer = &pg->conns[DB_WRITE], *reader = &pg->conns[DB_READ];
    int r = target_open(config->url, config->password_file, &pg->target, err);

    if (r < 0)
        return r;
    writer->serves = config->exclusive;
    if (conn_connect(writer, false) != 0)
        return writer->code == EBUSY ? gb_fail_plain(err, EBUSY, "%s", writer->words)
                                     : conn_error(writer, "connect to PostgreSQL", err);
    r = migrate_run(writer, config->must_exist, err);
    if (r == 0 && conn_connect(reader, false) != 0)
        r = conn_error(reader, "connect to PostgreSQL", err);
    return r;
}

int db_postgres_open(const struct db_postgres_config *config, struct db **ret_db,
                     struct gb_err *err)
{
    struct pg_db *pg = calloc(1, sizeof *pg);
    int r;

    if (!pg)
        return gb_fail(err, ENOMEM, "open the store");
    pg->base.ops = &pg_ops;
    for (size_t side = 0; side < DB_SIDES; side++) {
        pg->conns[side].side = (enum db_side) side;
        pg->conns[side].target = &pg->target;
        (void) pthread_mutex_init(&pg->conns[side].lock, NULL); /* cannot fail with defaults */
    }
    r = open_all(pg, config, err);
    if (r < 0) {
        pg_close(&pg->base);
        return r;
    }
    *ret_db = &pg->base;
    return 0;
}
