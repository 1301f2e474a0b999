/*
 * PostgreSQL as a source.
 *
 * Theory of operation. A query has its own connection and one transaction that only reads. The
 * statement goes by the extended protocol, which takes exactly one, and is prepared before anything
 * of it runs: the server says what it returns, EXPLAIN says what it would cost and read, and rules
 * about schemas, masks and cost are checked on that plan. What has no plan (DO, CALL, COPY, SET) is
 * refused. Then rows come one by one, as fast as they are decoded; a limit, a deadline or a broker
 * that hangs up cancels the statement at the server.
 *
 * What the caller may see is the database's own business: its login, or a role that is taken on and
 * held (postgres_guard.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "connect/postgres_internal.h"

#include "base/banned.h"

#define STATEMENT   "glovebox"
#define LOOK_ROWS   1024 /* between two looks at the broker and the clock */
#define PROGRESS_US USEC_PER_SEC

struct query {
    struct pg pg;
    struct pg_params params;
    struct pg_types *types;
    unsigned *oids;
    size_t columns_len;
    json_t *columns, *estimate;
    struct result *result;
    int64_t bytes; /* of the values, as received */
    double cost;
    int64_t told_us; /* when the last progress was told */
};

/* ---- before it runs ---- */

static int prepare_statement(struct query *q, PGresult **ret_description)
{
    struct pg *pg = &q->pg;
    PGresult *result = NULL;

    if (!PQsendPrepare(pg->conn, STATEMENT, q->params.sql, 0, NULL))
        return pg_refused(pg, NULL, NULL);
    if (pg_outcome(pg, q->params.sql, &result) < 0)
        return -1;
    PQclear(result);
    if (!PQsendDescribePrepared(pg->conn, STATEMENT))
        return pg_refused(pg, NULL, NULL);
    if (pg_outcome(pg, q->params.sql, ret_description) < 0)
        return -1;
    if ((size_t) PQnparams(*ret_description) != q->params.len)
        return driver_fail(pg->error, CONNECT_SQL,
                           "the statement has %d parameters, and %zu values were given",
                           PQnparams(*ret_description), q->params.len);
    if (PQnfields(*ret_description) == 0)
        return driver_fail(
            pg->error, CONNECT_READ_ONLY,
            "only one statement that returns rows can be run: SELECT, WITH, VALUES or "
            "TABLE");
    if (PQnfields(*ret_description) > pg->order->columns_max)
        return driver_fail(pg->error, CONNECT_TOO_LARGE,
                           "the result has %d columns; at most %lld are carried: select fewer",
                           PQnfields(*ret_description), (long long) pg->order->columns_max);
    return 0;
}

/* EXPLAIN EXECUTE takes literals, not parameters. */
static char *explain_sql(struct query *q)
{
    char *sql = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&sql, &len);
    bool ok = true;

    if (!out)
        return NULL;
    fputs(PG_EXPLAIN "EXECUTE " STATEMENT, out);
    for (size_t i = 0; i < q->params.len; i++) {
        autofree char *literal =
            q->params.values[i] ? pg_literal(&q->pg, q->params.values[i]) : strdup("NULL");

        ok = ok && literal;
        fprintf(out, "%s%s", i == 0 ? " (" : ", ", literal ? literal : "");
    }
    if (q->params.len > 0)
        fputc(')', out);
    if (fclose(out) == 0 && ok)
        return sql;
    free(sql);
    return NULL;
}

static int check_plan(struct query *q, const struct pg_plan *plan, const json_t *json)
{
    struct pg *pg = &q->pg;

    if (!plan->is_query)
        return driver_fail(pg->error, CONNECT_READ_ONLY,
                           "only SELECT, WITH, VALUES and TABLE can be run here");
    if (plan->writes)
        return driver_fail(pg->error, CONNECT_READ_ONLY,
                           "the statement writes or locks rows; sources are only read");
    if (pg_guard_plan(pg, q->params.sql, plan, json) < 0)
        return -1;
    q->cost = plan->cost;
    q->estimate = plan_estimate(plan);
    if (pg->order->cost_max < 0 || plan->cost <= pg->order->cost_max)
        return 0;
    pg->error->estimate = json_incref(q->estimate);
    return driver_fail(
        pg->error, CONNECT_TOO_EXPENSIVE,
        "the server expects a cost of %.0f for this statement, and %.0f is the limit; "
        "filter more, or aggregate less",
        plan->cost, pg->order->cost_max);
}

static int explain(struct query *q)
{
    autofree char *sql = explain_sql(q);
    struct pg_plan plan;
    json_t *json = NULL;
    int r;

    if (!sql)
        return driver_fail(q->pg.error, CONNECT_UNSUPPORTED, "a parameter is not valid UTF-8 text");
    if (pg_guard_text(&q->pg, q->params.sql) < 0 || pg_explain(&q->pg, sql, &plan, &json) < 0)
        return -1;
    r = check_plan(q, &plan, json);
    plan_release(&plan);
    json_decref(json);
    return r;
}

/* ---- columns ---- */

/* What the server calls the types, with their modifiers: numeric(10,2). */
static int type_names(struct query *q, const PGresult *description, PGresult **ret_names)
{
    static const char sql[] =
        "SELECT pg_catalog.format_type(u.o, u.m) FROM ROWS FROM "
        "(pg_catalog.unnest($1::pg_catalog.oid[]), pg_catalog.unnest($2::pg_catalog.int4[])) WITH "
        "ORDINALITY AS u(o, m, n) ORDER BY u.n";
    autofree char *oids = NULL, *mods = NULL;
    size_t oids_size = 0, mods_size = 0;
    FILE *a = open_memstream(&oids, &oids_size), *b = open_memstream(&mods, &mods_size);

    for (size_t i = 0; a && b && i < q->columns_len; i++) {
        fprintf(a, "%s%u", i > 0 ? "," : "{", q->oids[i]);
        fprintf(b, "%s%d", i > 0 ? "," : "{", PQfmod(description, (int) i));
    }
    if (a) {
        fputc('}', a);
        fclose(a);
    }
    if (b) {
        fputc('}', b);
        fclose(b);
    }
    if (!oids || !mods)
        return driver_fail(q->pg.error, CONNECT_INTERNAL, "out of memory");
    if (pg_ask(&q->pg, sql, 2, (const char *const[]){ oids, mods }, ret_names) < 0)
        return -1;
    if ((size_t) PQntuples(*ret_names) == q->columns_len && PQnfields(*ret_names) == 1)
        return 0;
    PQclear(*ret_names);
    return driver_fail(q->pg.error, CONNECT_BROKEN, "the server does not name its types");
}

static int fill_columns(struct query *q, const PGresult *description, const PGresult *names,
                        struct result_column *columns)
{
    for (size_t i = 0; i < q->columns_len; i++) {
        int r;

        columns[i].name = strdup(PQfname(description, (int) i));
        columns[i].source_type = strdup(PQgetvalue(names, (int) i, 0));
        r = pg_types_column(q->types, q->oids[i], &columns[i]);
        if (r == -E2BIG)
            return driver_fail(q->pg.error, CONNECT_UNSUPPORTED,
                               "column %zu is a record of too many fields; select its parts",
                               i + 1);
        if (r < 0 || !columns[i].name || !columns[i].source_type)
            return driver_fail(q->pg.error, CONNECT_INTERNAL, "out of memory");
    }
    return 0;
}

/* @columns is taken. */
static int start_result(struct query *q, struct result_column *columns)
{
    const struct order *order = q->pg.order;
    int r;

    q->columns = result_columns_json(columns, q->columns_len);
    r = result_new(order->result_fd, order->bytes_max, columns, q->columns_len, &q->result);
    if (r == -EINVAL)
        return driver_fail(
            q->pg.error, CONNECT_UNSUPPORTED,
            "a column has a name that is too long or not UTF-8; give it another with "
            "AS");
    if (r == -EFBIG)
        return driver_fail(q->pg.error, CONNECT_TOO_LARGE, "the result is larger than allowed");
    if (r < 0 || !q->columns)
        return driver_fail(q->pg.error, CONNECT_INTERNAL, "cannot start the result: %s",
                           strerror(-r));
    return 0;
}

static int read_columns(struct query *q, const PGresult *description)
{
    struct result_column *columns;
    PGresult *names = NULL;

    q->columns_len = (size_t) PQnfields(description);
    q->oids = calloc(q->columns_len, sizeof *q->oids);
    if (!q->oids)
        return driver_fail(q->pg.error, CONNECT_INTERNAL, "out of memory");
    for (size_t i = 0; i < q->columns_len; i++)
        q->oids[i] = PQftype(description, (int) i);
    if (pg_types_load(&q->pg, q->oids, q->columns_len, &q->types) < 0 ||
        type_names(q, description, &names) < 0)
        return -1;
    columns = calloc(q->columns_len, sizeof *columns);
    if (!columns || fill_columns(q, description, names, columns) < 0) {
        result_columns_free(columns, q->columns_len);
        PQclear(names);
        return columns ? -1 : driver_fail(q->pg.error, CONNECT_INTERNAL, "out of memory");
    }
    PQclear(names);
    return start_result(q, columns);
}

/* ---- rows ---- */

static int value_failed(struct query *q, int column, int error)
{
    const char *name =
        json_string_value(json_object_get(json_array_get(q->columns, (size_t) column), "name"));

    if (error == -EFBIG)
        return driver_fail(q->pg.error, CONNECT_TOO_LARGE,
                           "the result is larger than %lld bytes after %lld rows; select less, or "
                           "aggregate",
                           (long long) q->pg.order->bytes_max, (long long) result_rows(q->result));
    if (error == -EILSEQ)
        return driver_fail(q->pg.error, CONNECT_UNSUPPORTED,
                           "column '%.60s' has text that is not UTF-8; convert it, as in "
                           "convert_from(%.60s::bytea, 'LATIN1')",
                           name, name);
    if (error == -ERANGE)
        return driver_fail(q->pg.error, CONNECT_UNSUPPORTED,
                           "column '%.60s' has a time beyond what can be carried; cast it to text",
                           name);
    if (error == -EPROTO)
        return driver_fail(q->pg.error, CONNECT_BROKEN,
                           "the server sent a value of column '%.60s' that is none of its type",
                           name);
    return driver_fail(q->pg.error, CONNECT_INTERNAL, "cannot keep the result: %s",
                       strerror(-error));
}

static int put_row(struct query *q, const PGresult *row)
{
    int r = 0, column = 0;

    if ((size_t) PQnfields(row) != q->columns_len)
        return driver_fail(q->pg.error, CONNECT_BROKEN,
                           "the server sent a row of %d columns instead of %zu", PQnfields(row),
                           q->columns_len);
    if (result_rows(q->result) >= q->pg.order->rows_max)
        return driver_fail(q->pg.error, CONNECT_TOO_LARGE,
                           "the result has more than %lld rows; add a LIMIT, or aggregate",
                           (long long) q->pg.order->rows_max);
    for (column = 0; column < PQnfields(row) && r == 0; column++) {
        int len = PQgetlength(row, 0, column);

        q->bytes += len;
        r = PQgetisnull(row, 0, column) ? result_put_null(q->result)
                                        : pg_value_put(q->types, q->oids[column], q->result,
                                                       PQgetvalue(row, 0, column), (size_t) len);
    }
    if (r < 0)
        return value_failed(q, column - 1, r);
    r = result_end_row(q->result);
    return r < 0 ? value_failed(q, 0, r) : 0;
}

static int look_up(struct query *q)
{
    int64_t now_us = clock_now_us();

    if (pg_still_wanted(&q->pg) < 0)
        return -1;
    if (now_us - q->told_us < PROGRESS_US)
        return 0;
    q->told_us = now_us;
    order_tell(q->pg.order, "progress",
               json_pack("{s:I, s:I}", "rows", (json_int_t) result_rows(q->result), "bytes",
                         (json_int_t) q->bytes));
    return 0;
}

/* The end: the server says how many there were. */
static int all_rows(struct query *q, const PGresult *end)
{
    const char *count = PQcmdTuples((PGresult *) end);

    if (*count && strtoll(count, NULL, 10) != result_rows(q->result))
        return driver_fail(q->pg.error, CONNECT_BROKEN,
                           "the server says that it sent %.20s rows, and %lld arrived", count,
                           (long long) result_rows(q->result));
    return 0;
}

static int one_row(struct query *q, const PGresult *row)
{
    ExecStatusType status = PQresultStatus(row);
    int r;

    if (status == PGRES_TUPLES_OK)
        return all_rows(q, row);
    if (status != PGRES_SINGLE_TUPLE || PQntuples(row) != 1)
        return pg_refused(&q->pg, row, q->params.sql);
    r = put_row(q, row);
    if (r == 0 && result_rows(q->result) % LOOK_ROWS == 0)
        r = look_up(q);
    if (r < 0)
        pg_cancel(&q->pg);
    return r;
}

static int fetch(struct query *q)
{
    struct pg *pg = &q->pg;
    PGresult *row = NULL;
    int r;

    if (!PQsendQueryPrepared(pg->conn, STATEMENT, (int) q->params.len,
                             (const char *const *) q->params.values, NULL, NULL, 0) ||
        !PQsetSingleRowMode(pg->conn))
        return pg_refused(pg, NULL, NULL);
    do {
        r = pg_next(pg, &row);
        if (r == 0 && row)
            r = one_row(q, row);
        if (r == 0 && !row)
            break;
        PQclear(row);
        row = NULL;
    } while (r == 0);
    return r;
}

/* ---- the whole ---- */

static int run_query(struct query *q, json_t **ret_done)
{
    struct pg *pg = &q->pg;
    PGresult *description = NULL;
    int64_t size = 0;
    int r = prepare_statement(q, &description);

    if (r == 0)
        r = explain(q);
    if (r == 0)
        r = read_columns(q, description);
    PQclear(description);
    if (r < 0)
        return r;
    q->told_us = clock_now_us();
    order_tell(pg->order, "estimate", json_incref(q->estimate));
    if (pg_still_wanted(pg) < 0 || fetch(q) < 0)
        return -1;
    r = result_finish(q->result, &size);
    if (r < 0)
        return value_failed(q, 0, r);
    *ret_done = json_pack("{s:I, s:I, s:I, s:f, s:n, s:b, s:O, s:O}", "rows",
                          (json_int_t) result_rows(q->result), "bytes", (json_int_t) q->bytes,
                          "size", (json_int_t) size, "cost", q->cost, "money", "cache_hit", 0,
                          "columns", q->columns, "notices", pg->notices);
    return *ret_done ? 0 : driver_fail(pg->error, CONNECT_INTERNAL, "out of memory");
}

static int pg_query(const struct order *order, json_t **ret_done, struct driver_error *error)
{
    struct query q = { 0 };
    const char *sql = json_string_value(json_object_get(order->json, "sql"));
    int r;

    if (pg_params_read(json_object_get(order->json, "params"), sql, &q.params, error) < 0)
        return -1;
    r = pg_open(&q.pg, order, error);
    if (r == 0) {
        r = run_query(&q, ret_done);
        pg_close(&q.pg);
    }
    result_free(q.result);
    pg_types_free(q.types);
    pg_params_release(&q.params);
    json_decref(q.columns);
    json_decref(q.estimate);
    free(q.oids);
    return r;
}

const struct driver driver_postgres = {
    .kind = "postgresql",
    .prepare = pg_prepare,
    .query = pg_query,
    .catalogue = pg_catalogue,
    .check = pg_check,
};
