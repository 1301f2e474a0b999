/*
 * What is in a database, as its own catalogue says it: tables and columns that this login and role
 * may read, comments, keys, and a few values of each column.
 *
 * Samples are read like anybody would read them, with a short time limit for each table. There are
 * none of masked columns, none of tables with row security (they would be one caller's rows, shown
 * to all), and none of views if the database has either of these, because a view may show the same
 * under another name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "connect/postgres_internal.h"

#include "base/banned.h"

#define TABLES_MAX      5000
#define COLUMNS_MAX     100000
#define COMMENT_BYTES   2000
#define SAMPLE_BYTES    100
#define SAMPLES_MAX     5
#define SAMPLE_ROWS     "50"
#define SAMPLED_TABLES  300
#define SAMPLED_COLUMNS 100
#define SAMPLE_MS       "1500"

struct reader {
    struct pg pg;
    json_t *tables, *by_oid; /* by_oid borrows the tables, by the text of their oid */
    json_t *hidden;
    int64_t samples, start_us;
    bool guarded; /* masks or row security somewhere */
};

/* ---- pieces ---- */

/* Text of a server, cut at a whole character; null if there is none. */
static json_t *text_json(const PGresult *rows, int row, int column, size_t max)
{
    const char *text = PQgetvalue(rows, row, column);
    size_t len = (size_t) PQgetlength(rows, row, column);

    if (PQgetisnull(rows, row, column))
        return json_null();
    if (len > max) {
        len = max;
        len -= utf8_partial_end(text, len);
    }
    return utf8_valid(text, len) ? json_stringn(text, len) : json_null();
}

static bool is_true(const PGresult *rows, int row, int column)
{
    return strcmp(PQgetvalue(rows, row, column), "t") == 0;
}

static json_t *number_json(const PGresult *rows, int row, int column)
{
    double value = strtod(PQgetvalue(rows, row, column), NULL);

    if (PQgetisnull(rows, row, column) || !(value >= 0) || value > 9e15)
        return json_null();
    return json_integer((json_int_t) value);
}

/* ---- tables ---- */

static const char tables_sql[] =
    "SELECT c.oid, pg_catalog.concat(n.nspname, '.', c.relname), CASE c.relkind WHEN 'r' THEN "
    "'table' "
    "WHEN 'p' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' ELSE 'foreign "
    "table' END, pg_catalog.obj_description(c.oid, 'pg_class'), CASE WHEN c.relrowsecurity OR "
    "c.relkind = 'v' THEN NULL ELSE c.reltuples END, CASE WHEN c.relrowsecurity OR c.relkind IN "
    "('v', "
    "'f') THEN NULL ELSE pg_catalog.pg_total_relation_size(c.oid) END, c.relrowsecurity, CASE WHEN "
    "c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END FROM pg_catalog.pg_class c JOIN "
    "pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', "
    "'f') "
    "AND NOT c.relispartition AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND "
    "pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND "
    "pg_catalog.has_any_column_privilege(c.oid, "
    "'SELECT') AND ($1::pg_catalog.text[] IS NULL OR n.nspname = ANY ($1::pg_catalog.text[])) "
    "ORDER "
    "BY n.nspname, c.relname LIMIT 5001";

char *pg_schemas(const struct pg *pg)
{
    const json_t *schemas = json_object_get(pg->source, "schemas");
    char *text = NULL;
    size_t len = 0, i;
    json_t *schema;
    FILE *out;

    if (json_array_size(schemas) == 0 || !(out = open_memstream(&text, &len)))
        return NULL;
    json_array_foreach ((json_t *) schemas, i, schema) {
        fputs(i > 0 ? ",\"" : "{\"", out);
        for (const char *p = json_string_value(schema); p && *p; p++) {
            if (*p == '"' || *p == '\\')
                fputc('\\', out);
            fputc(*p, out);
        }
        fputc('"', out);
    }
    fputc('}', out);
    return fclose(out) == 0 ? text : NULL;
}

static int add_table(struct reader *reader, const PGresult *rows, int row)
{
    json_t *table = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:[]}", "name", text_json(rows, row, 1, 200), "kind",
        text_json(rows, row, 2, 40), "comment", text_json(rows, row, 3, COMMENT_BYTES), "rows",
        number_json(rows, row, 4), "bytes", number_json(rows, row, 5), "row_security",
        (int) is_true(rows, row, 6), "partitioning", text_json(rows, row, 7, 200), "columns");

    if (!table || json_array_append_new(reader->tables, table) < 0 ||
        json_object_set(reader->by_oid, PQgetvalue(rows, row, 0), table) < 0)
        return driver_fail(reader->pg.error, CONNECT_INTERNAL, "out of memory");
    if (is_true(rows, row, 6))
        reader->guarded = true;
    return 0;
}

static int read_tables(struct reader *reader)
{
    autofree char *schemas = pg_schemas(&reader->pg);
    PGresult *rows = NULL;
    int r = 0;

    if (pg_ask(&reader->pg, tables_sql, 1, (const char *const[]){ schemas }, &rows) < 0)
        return -1;
    if (PQntuples(rows) > TABLES_MAX)
        r = driver_fail(reader->pg.error, CONNECT_TOO_LARGE,
                        "the database has more than %d tables that can be read; name the schemas "
                        "that are needed",
                        TABLES_MAX);
    else if (PQnfields(rows) != 8)
        r = driver_fail(reader->pg.error, CONNECT_BROKEN, "the server does not list its tables");
    for (int i = 0; i < PQntuples(rows) && r == 0; i++)
        r = add_table(reader, rows, i);
    PQclear(rows);
    return r;
}

/* ---- columns ---- */

static const char columns_sql[] =
    "SELECT a.attrelid, a.attname, a.atttypid, pg_catalog.format_type(a.atttypid, a.atttypmod), "
    "a.attnotnull, pg_catalog.col_description(a.attrelid, a.attnum), EXISTS (SELECT FROM "
    "pg_catalog.pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'p' AND a.attnum = "
    "ANY "
    "(k.conkey)), (SELECT pg_catalog.concat(rn.nspname, '.', rc.relname, '.', ra.attname) FROM "
    "pg_catalog.pg_constraint k JOIN pg_catalog.pg_class rc ON rc.oid = k.confrelid JOIN "
    "pg_catalog.pg_namespace rn ON rn.oid = rc.relnamespace JOIN pg_catalog.pg_attribute ra ON "
    "ra.attrelid = k.confrelid AND ra.attnum = k.confkey[pg_catalog.array_position(k.conkey, "
    "a.attnum)] WHERE k.conrelid = a.attrelid AND k.contype = 'f' AND a.attnum = ANY (k.conkey) "
    "AND "
    "pg_catalog.has_any_column_privilege(k.confrelid, 'SELECT') ORDER BY k.conname LIMIT 1) FROM "
    "pg_catalog.pg_attribute a WHERE a.attrelid = ANY ($1::pg_catalog.oid[]) AND a.attnum > 0 AND "
    "NOT "
    "a.attisdropped AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT') ORDER BY "
    "a.attrelid, a.attnum LIMIT 100001";

static char *table_oids(const struct reader *reader)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    const char *oid;
    json_t *table;
    bool first = true;

    if (!out)
        return NULL;
    fputc('{', out);
    json_object_foreach (reader->by_oid, oid, table) {
        fprintf(out, "%s%s", first ? "" : ",", oid);
        first = false;
    }
    fputc('}', out);
    return fclose(out) == 0 ? text : NULL;
}

static unsigned type_at(const PGresult *rows, int row)
{
    return (unsigned) strtoul(PQgetvalue(rows, row, 2), NULL, 10);
}

static int load_types(struct reader *reader, const PGresult *rows, struct pg_types **ret_types)
{
    size_t len = (size_t) PQntuples(rows);
    autofree unsigned *oids = calloc(len + 1, sizeof *oids);

    if (!oids)
        return driver_fail(reader->pg.error, CONNECT_INTERNAL, "out of memory");
    for (size_t i = 0; i < len; i++)
        oids[i] = type_at(rows, (int) i);
    return pg_types_load(&reader->pg, oids, len, ret_types);
}

static int add_column(struct reader *reader, const PGresult *rows, int row,
                      const struct pg_types *types)
{
    const json_t *table = json_object_get(reader->by_oid, PQgetvalue(rows, row, 0));
    struct result_column column = { 0 };
    json_t *json;

    if (!table)
        return 0;
    if (pg_types_column(types, type_at(rows, row), &column) < 0)
        column = (struct result_column){ .type = RESULT_TEXT };
    free(column.fields);
    json =
        json_pack("{s:o, s:s, s:o, s:b, s:b, s:o, s:b, s:o}", "name", text_json(rows, row, 1, 200),
                  "type", result_type_word(column.type), "source_type",
                  text_json(rows, row, 3, 200), "repeated", column.repeated, "nullable",
                  (int) !is_true(rows, row, 4), "comment", text_json(rows, row, 5, COMMENT_BYTES),
                  "key", (int) is_true(rows, row, 6), "references", text_json(rows, row, 7, 400));
    if (!json || json_array_append_new(json_object_get(table, "columns"), json) < 0)
        return driver_fail(reader->pg.error, CONNECT_INTERNAL, "out of memory");
    return 0;
}

static int read_columns(struct reader *reader)
{
    autofree char *oids = table_oids(reader);
    struct pg_types *types = NULL;
    PGresult *rows = NULL;
    int r = 0;

    if (!oids)
        return driver_fail(reader->pg.error, CONNECT_INTERNAL, "out of memory");
    if (pg_ask(&reader->pg, columns_sql, 1, (const char *const[]){ oids }, &rows) < 0)
        return -1;
    if (PQntuples(rows) > COLUMNS_MAX)
        r = driver_fail(reader->pg.error, CONNECT_TOO_LARGE,
                        "the tables have more than %d columns; name the schemas that are needed",
                        COLUMNS_MAX);
    else if (PQnfields(rows) != 8)
        r = driver_fail(reader->pg.error, CONNECT_BROKEN, "the server does not list its columns");
    else
        r = load_types(reader, rows, &types);
    for (int i = 0; i < PQntuples(rows) && r == 0; i++)
        r = add_column(reader, rows, i, types);
    pg_types_free(types);
    PQclear(rows);
    return r;
}

/* ---- samples ---- */

static bool is_hidden(const struct reader *reader, const char *table, const char *column)
{
    json_t *name;
    size_t i;

    json_array_foreach (json_object_get(reader->hidden, table), i, name)
        if (json_is_string(name) && strcmp(json_string_value(name), column) == 0)
            return true;
    return false;
}

static const char *member(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static bool is_sampled(const struct reader *reader, const json_t *table)
{
    const char *kind = member(table, "kind");

    if (json_is_true(json_object_get(table, "row_security")))
        return false;
    return !reader->guarded || strcmp(kind, "table") == 0;
}

static void write_name(struct pg *pg, FILE *out, const char *name, size_t len)
{
    char *quoted = PQescapeIdentifier(pg->conn, name, len);

    fputs(quoted ? quoted : "\"\"", out);
    PQfreemem(quoted);
}

/* SELECT of the columns that may be sampled, which are put into @chosen. NULL: there are none. */
static char *samples_sql(struct reader *reader, const json_t *table, json_t *chosen)
{
    const char *full = member(table, "name"), *dot = strchr(full, '.');
    char *sql = NULL;
    size_t len = 0, i;
    FILE *out = dot ? open_memstream(&sql, &len) : NULL;
    json_t *column;

    if (!out)
        return NULL;
    fputs("SELECT ", out);
    json_array_foreach (json_object_get(table, "columns"), i, column) {
        const char *name = member(column, "name");

        if (is_hidden(reader, full, name) || strcmp(member(column, "type"), "bytes") == 0 ||
            json_array_size(chosen) >= SAMPLED_COLUMNS)
            continue;
        fputs(json_array_size(chosen) > 0 ? ", pg_catalog.left((" : "pg_catalog.left((", out);
        write_name(&reader->pg, out, name, strlen(name));
        fputs(")::pg_catalog.text, 100)", out);
        (void) json_array_append(chosen, column);
    }
    fputs(" FROM ", out);
    write_name(&reader->pg, out, full, (size_t) (dot - full));
    fputc('.', out);
    write_name(&reader->pg, out, dot + 1, strlen(dot + 1));
    fputs(" LIMIT " SAMPLE_ROWS, out);
    if (fclose(out) == 0 && json_array_size(chosen) > 0)
        return sql;
    free(sql);
    return NULL;
}

static bool has_text(const json_t *list, const json_t *text)
{
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *) list, i, item)
        if (json_equal(item, text))
            return true;
    return false;
}

static void keep_samples(struct reader *reader, const PGresult *rows, const json_t *chosen)
{
    for (int column = 0; column < PQnfields(rows); column++) {
        json_t *list = json_array();

        for (int row = 0; row < PQntuples(rows); row++) {
            json_t *text = text_json(rows, row, column, SAMPLE_BYTES);

            if (json_is_string(text) && !has_text(list, text) &&
                json_array_size(list) < (size_t) reader->samples)
                (void) json_array_append(list, text);
            json_decref(text);
        }
        (void) json_object_set_new(json_array_get(chosen, (size_t) column), "samples", list);
    }
}

/* Samples are values as others are: where a query would be refused, because the rows come from
 * another schema or a masked column of a child, there are none. */
static bool may_sample(struct reader *reader, const char *sql)
{
    autofree char *explain = NULL;
    struct pg_plan plan;
    json_t *json = NULL;
    bool may;

    if (!pg_is_guarded(&reader->pg))
        return true;
    if (asprintf(&explain, PG_EXPLAIN "%s", sql) < 0) {
        explain = NULL;
        return false;
    }
    if (pg_explain(&reader->pg, explain, &plan, &json) < 0)
        return false;
    may = pg_guard_plan(&reader->pg, sql, &plan, json) == 0;
    plan_release(&plan);
    json_decref(json);
    return may;
}

/* A table that cannot be read, or not in time, has no samples: that is no reason to fail. */
static int sample_table(struct reader *reader, const json_t *table)
{
    json_t *chosen = json_array();
    autofree char *sql = samples_sql(reader, table, chosen);
    PGresult *rows = NULL;
    int r = 0;

    if (sql) {
        r = pg_do(&reader->pg, "SAVEPOINT sample; SET LOCAL statement_timeout = " SAMPLE_MS);
        if (r == 0 && may_sample(reader, sql) && pg_ask(&reader->pg, sql, 0, NULL, &rows) == 0) {
            keep_samples(reader, rows, chosen);
            PQclear(rows);
        }
        if (r == 0)
            r = reader->pg.lost ? -1 : pg_do(&reader->pg, "ROLLBACK TO sample; RELEASE sample");
    }
    json_decref(chosen);
    return r;
}

static int read_samples(struct reader *reader)
{
    int64_t until_us =
        reader->start_us + (reader->pg.order->deadline_us - reader->start_us) * 6 / 10;
    const json_t *masked = json_object_get(reader->pg.order->json, "masked");
    json_t *table;
    size_t i, done = 0;

    if (reader->samples <= 0)
        return 0;
    if (json_array_size(masked) > 0) {
        reader->guarded = true;
        if (pg_hidden(&reader->pg, masked, &reader->hidden) < 0)
            return -1;
    }
    json_array_foreach (reader->tables, i, table) {
        if (clock_now_us() > until_us || done >= SAMPLED_TABLES)
            break;
        if (!is_sampled(reader, table))
            continue;
        if (sample_table(reader, table) < 0)
            return -1;
        done++;
    }
    return 0;
}

/* ---- the whole ---- */

static const char guarded_sql[] =
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relrowsecurity)";

static int read_all(struct reader *reader)
{
    PGresult *rows = NULL;

    if (pg_ask(&reader->pg, guarded_sql, 0, NULL, &rows) < 0)
        return -1;
    reader->guarded = PQntuples(rows) != 1 || is_true(rows, 0, 0);
    PQclear(rows);
    if (read_tables(reader) < 0 || read_columns(reader) < 0)
        return -1;
    return read_samples(reader);
}

int pg_catalogue(const struct order *order, json_t **ret_catalogue, json_t **ret_done,
                 struct driver_error *error)
{
    struct reader reader = { .start_us = clock_now_us() };
    json_t *readable = NULL, *table;
    size_t i;
    int r;

    reader.samples = json_integer_value(json_object_get(order->json, "samples"));
    if (reader.samples > SAMPLES_MAX)
        reader.samples = SAMPLES_MAX;
    if (pg_open(&reader.pg, order, error) < 0)
        return -1;
    reader.tables = json_array();
    reader.by_oid = json_object();
    readable = json_array();
    r = read_all(&reader);
    if (r == 0) {
        json_array_foreach (reader.tables, i, table)
            (void) json_array_append(readable, json_object_get(table, "name"));
        *ret_catalogue = json_pack("{s:O, s:O}", "tables", reader.tables, "readable", readable);
        *ret_done = json_pack("{s:I, s:O}", "tables", (json_int_t) json_array_size(reader.tables),
                              "notices", reader.pg.notices);
        if (!*ret_catalogue)
            r = driver_fail(error, CONNECT_INTERNAL, "out of memory");
    }
    json_decref(readable);
    json_decref(reader.by_oid);
    json_decref(reader.tables);
    json_decref(reader.hidden);
    pg_close(&reader.pg);
    return r;
}
