/*
 * What a PostgreSQL server sends, after libpq: values in the text format by type, plans of EXPLAIN
 * with the rules about masks and schemas, and the words of SQL, with names of parameters replaced.
 *
 * The first byte chooses. A value that is accepted must leave a result that can be finished.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "connect/postgres_internal.h"
#include "connect/sql_lex.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Types of every shape: see fixture(). */
static const unsigned oids[] = { 16,   17,   20,   25,   701,  114,  1082, 1083, 1114, 1184,
                                 1186, 1700, 2950, 9001, 9002, 9003, 9004, 9005, 9006, 9007 };

/* Nothing here has a server. */
int pg_ask(struct pg *pg, const char *sql, int params, const char *const *values,
           PGresult **ret_result)
{
    (void) pg;
    (void) sql;
    (void) params;
    (void) values;
    (void) ret_result;
    abort();
}

static struct pg_types *fixture(void)
{
    struct pg_types *types = pg_types_builtin();

    if (!types || pg_types_add(types, 9001, 'b', 0, 20, ',') < 0 || /* int8[] */
        pg_types_add(types, 9002, 'b', 0, 25, ',') < 0 ||           /* text[] */
        pg_types_add(types, 9003, 'c', 0, 0, ',') < 0 ||            /* a record */
        pg_types_add_field(types, 9003, "a", 20) < 0 ||
        pg_types_add_field(types, 9003, "b \"quoted\"", 9002) < 0 ||
        pg_types_add_field(types, 9003, "c", 9003) < 0 ||   /* of itself: a server may lie */
        pg_types_add(types, 9004, 'b', 0, 9003, ',') < 0 || /* records */
        pg_types_add(types, 9005, 'd', 9006, 0, ',') < 0 || /* domains in a circle */
        pg_types_add(types, 9006, 'd', 9005, 0, ',') < 0 ||
        pg_types_add(types, 9007, 'b', 0, 9001, ';') < 0) /* an array of arrays */
        abort();
    return types;
}

static void fuzz_value(const char *data, size_t len)
{
    struct pg_types *types = fixture();
    struct result_column *column = calloc(1, sizeof *column);
    unsigned oid = oids[(uint8_t) data[0] % ARRAY_LEN(oids)];
    autoclose int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct result *result = NULL;
    int64_t size;
    int r;

    if (!column || fd < 0 || !(column->name = strdup("x")))
        abort();
    r = pg_types_column(types, oid, column);
    if (r < 0 && r != -E2BIG)
        abort();
    if (result_new(fd, 1 << 22, column, 1, &result) < 0)
        abort();
    r = pg_value_put(types, oid, result, data + 1, len - 1);
    if (r == 0 && (result_end_row(result) < 0 || result_finish(result, &size) < 0))
        abort();
    if (r == -EINVAL) /* the column is not what the value was made for */
        abort();
    result_free(result);
    pg_types_free(types);
}

static void fuzz_plan(const char *data, size_t len)
{
    json_t *schemas = json_pack("[s]", "app");
    json_t *hidden = json_pack("{s:[s, s]}", "app.people", "email", "Odd Name");
    struct driver_error error = { 0 };
    struct pg_plan plan;
    json_t *json = NULL, *estimate;

    if (plan_read(data, len, &plan, &json, &error) == 0) {
        (void) plan_check_relations(&plan, schemas, &error);
        (void) plan_check_functions(plan.functions, &error);
        (void) plan_check_masks(&plan, json, hidden, &error);
        (void) plan_check_aliases(json, hidden, "SELECT p.a FROM app.people AS p(a, b)", &error);
        estimate = plan_estimate(&plan);
        if (!estimate)
            abort();
        json_decref(estimate);
        plan_release(&plan);
        json_decref(json);
    }
    json_decref(schemas);
    json_decref(hidden);
}

static void fuzz_sql(const char *data, size_t len)
{
    autofree char *sql = strndup(data, len);
    struct sql_lexer lexer = { .text = sql, .len = sql ? strlen(sql) : 0 };
    json_t *params = json_pack("{s:i, s:[s, n]}", "a", 1, "b", "x\"y"), *functions = json_array();
    json_t *names = json_pack("{s:b}", "email", 1);
    json_t *plan = json_pack("[{s:{s:s}}]", "Plan", "Subplan Name", "SubPlan 1");
    struct driver_error error = { 0 };
    struct pg_params read;
    struct sql_piece piece;
    size_t last = 0;

    do {
        sql_next(&lexer, &piece);
        if (piece.start < last || lexer.at > lexer.len || piece.start + piece.len > lexer.len)
            abort();
        last = piece.start + piece.len;
    } while (piece.kind != SQL_END && piece.kind != SQL_BROKEN);
    if (pg_params_read(params, sql, &read, &error) == 0)
        pg_params_release(&read);
    (void) plan_add_called(sql, functions, &error);
    (void) plan_check_unseen(sql, names, plan, false, &error);
    json_decref(names);
    json_decref(plan);
    json_decref(params);
    json_decref(functions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2)
        return 0;
    if (data[0] == 'p')
        fuzz_plan((const char *) data + 1, len - 1);
    else if (data[0] == 's')
        fuzz_sql((const char *) data + 1, len - 1);
    else
        fuzz_value((const char *) data + 1, len - 1);
    return 0;
}
