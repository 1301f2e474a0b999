/*
 * What is in a BigQuery project: datasets, tables, their schemas, and samples.
 *
 * Everything comes from metadata calls and tabledata.list, which are free; nothing here is a query.
 * Tables that are one for each day (events_20261116) are one table of the catalogue, events_*, with
 * the schema of the newest. Nested columns are listed with dots, as SQL names them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "connect/bigquery.h"

#include "base/banned.h"

#define DATASETS_MAX   1000
#define TABLES_MAX     5000
#define LISTED_MAX     200000 /* tables before days are put together */
#define COLUMNS_MAX    3000   /* of one table, with nested ones */
#define PAGES_MAX      1000
#define SAMPLES_MAX    5
#define SAMPLE_MAX     100 /* bytes */
#define SAMPLE_ROWS    20
#define COMMENT_MAX    4000
#define DAY_SUFFIX_LEN 9 /* _20261116 */

static int no_memory(struct driver_error *error)
{
    return driver_fail(error, CONNECT_INTERNAL, "out of memory");
}

/* A GET of "PROJECT/..." as printf() makes it; what is in it is escaped already. */
static int get(struct bigquery *bq, char *path, json_t **ret_reply,
               struct bigquery_refusal *refusal, struct driver_error *error)
{
    int r = path ? bigquery_call(bq, path, NULL, ret_reply, refusal, error) : no_memory(error);

    free(path);
    return r;
}

static char *print_path(const char *format, const char *a, const char *b, const char *c)
{
    autofree char *one = bigquery_escape(a);
    autofree char *two = bigquery_escape(b ? b : "");
    autofree char *three = bigquery_escape(c ? c : "");
    char *path = NULL;

    if (!one || !two || !three)
        return NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (asprintf(&path, format, one, two, three) < 0)
        path = NULL;
#pragma GCC diagnostic pop
    return path;
}

/* ---- lists with pages ---- */

/* Appends the items of all pages of a list to @items. */
static int list_all(struct bigquery *bq, const char *what, const char *dataset, json_t *items,
                    size_t max, struct driver_error *error)
{
    autofree char *token = NULL;

    for (int page = 0; page < PAGES_MAX; page++) {
        char *path = dataset ? print_path("%s/datasets/%s/tables?maxResults=1000&pageToken=%s",
                                          bq->project, dataset, token)
                             : print_path("%s/datasets?maxResults=1000&pageToken=%s%s", bq->project,
                                          token, NULL);
        json_t *reply = NULL;
        const char *next;

        if (get(bq, path, &reply, NULL, error) < 0)
            return -1;
        (void) json_array_extend(items, json_object_get(reply, what));
        next = bigquery_text(reply, "nextPageToken");
        free(token);
        token = next && *next ? strdup(next) : NULL;
        json_decref(reply);
        if (!token)
            return 0;
        if (json_array_size(items) > max)
            break;
    }
    return driver_fail(error, CONNECT_TOO_LARGE,
                       "there are more than %zu %s; name the dataset in the source", max, what);
}

/* ---- columns ---- */

/* "STRUCT" stays short: its fields are listed by themselves. */
static json_t *column_of(const json_t *field, const char *name)
{
    const char *mode = bigquery_text(field, "mode"), *type = bigquery_text(field, "type");
    const char *comment = bigquery_text(field, "description");
    bool repeated = mode && strcmp(mode, "REPEATED") == 0;
    enum result_type kind = bigquery_type(type);
    struct bigquery_field *parsed = NULL;
    struct driver_error ignored = { 0 };
    json_t *schema, *one, *shown, *column;
    size_t len = 0;

    /* By the reader of results, so that both have the same words. */
    one = json_pack("{s:s, s:s, s:s*, s:O*}", "name", "x", "type",
                    kind == RESULT_RECORD || kind == RESULT_TYPE_COUNT ? "STRING" : type, "mode",
                    mode, "rangeElementType", json_object_get(field, "rangeElementType"));
    schema = json_pack("{s:[o]}", "fields", one);
    (void) bigquery_schema_read(schema, 1, &parsed, &len, &ignored);
    shown = bigquery_fields_json(parsed, len);
    column = json_pack("{s:s, s:O*, s:O*, s:b, s:s#, s:b, s:n}", "name", name, "type",
                       json_object_get(json_array_get(shown, 0), "type"), "source_type",
                       json_object_get(json_array_get(shown, 0), "source_type"), "nullable",
                       !mode || strcmp(mode, "REQUIRED") != 0, "comment", comment ? comment : "",
                       (int) strnlen(comment ? comment : "", COMMENT_MAX), "key", 0, "references");
    if (column && kind == RESULT_RECORD) {
        (void) json_object_set_new(column, "type", json_string("record"));
        (void) json_object_set_new(column, "source_type",
                                   json_string(repeated ? "ARRAY<STRUCT>" : "STRUCT"));
    } else if (column && kind == RESULT_TYPE_COUNT) {
        (void) json_object_set_new(column, "source_type", json_string(type ? type : ""));
    }
    bigquery_fields_free(parsed, len);
    json_decref(shown);
    json_decref(schema);
    return column;
}

/* Appends the columns of @fields, nested ones with @prefix. */
static void add_columns(json_t *columns, const json_t *fields, const char *prefix, int depth)
{
    if (depth > BIGQUERY_NEST_MAX)
        return;
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const json_t *field = json_array_get(fields, i);
        const char *name = bigquery_text(field, "name");
        autofree char *full = NULL;
        json_t *column;

        if (!name || json_array_size(columns) >= COLUMNS_MAX ||
            asprintf(&full, "%s%s%s", prefix, *prefix ? "." : "", name) < 0)
            continue;
        if (strlen(full) >= RESULT_NAME_MAX)
            continue;
        column = column_of(field, full);
        if (column)
            (void) json_array_append_new(columns, column);
        if (bigquery_type(bigquery_text(field, "type")) == RESULT_RECORD)
            add_columns(columns, json_object_get(field, "fields"), full, depth + 1);
    }
}

static json_t *find_column(json_t *columns, const char *name)
{
    for (size_t i = 0; name && i < json_array_size(columns); i++) {
        json_t *column = json_array_get(columns, i);

        if (strcmp(bigquery_text(column, "name"), name) == 0)
            return column;
    }
    return NULL;
}

static void add_foreign_key(json_t *columns, const json_t *key)
{
    const json_t *table = json_object_get(key, "referencedTable");
    const json_t *pairs = json_object_get(key, "columnReferences");
    const char *dataset = bigquery_text(table, "datasetId");
    const char *name = bigquery_text(table, "tableId");

    for (size_t i = 0; dataset && name && i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i);
        const char *to = bigquery_text(pair, "referencedColumn");
        json_t *column = find_column(columns, bigquery_text(pair, "referencingColumn"));

        if (column && to)
            (void) json_object_set_new(column, "references",
                                       json_sprintf("%s.%s.%s", dataset, name, to));
    }
}

static void add_keys(json_t *columns, const json_t *table)
{
    const json_t *constraints = json_object_get(table, "tableConstraints");
    const json_t *own = json_object_get(json_object_get(constraints, "primaryKey"), "columns");
    const json_t *foreign = json_object_get(constraints, "foreignKeys");

    for (size_t i = 0; i < json_array_size(own); i++) {
        json_t *column = find_column(columns, json_string_value(json_array_get(own, i)));

        if (column)
            (void) json_object_set_new(column, "key", json_true());
    }
    for (size_t i = 0; i < json_array_size(foreign); i++)
        add_foreign_key(columns, json_array_get(foreign, i));
}

/* ---- samples ---- */

/* The masked columns of "dataset.table"; NULL: none. */
static const json_t *masked_of(const struct bigquery *bq, const char *table)
{
    const json_t *masked = json_object_get(bq->order->json, "masked");

    for (size_t i = 0; i < json_array_size(masked); i++) {
        const json_t *mask = json_array_get(masked, i);
        const char *name = bigquery_text(mask, "table");

        if (name && strcasecmp(name, table) == 0)
            return json_object_get(mask, "columns");
    }
    return NULL;
}

/* Whether @name, or a field in it, is among @masked. */
static bool is_masked(const json_t *masked, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < json_array_size(masked); i++) {
        const char *one = json_string_value(json_array_get(masked, i));

        if (!one || (strncasecmp(one, name, len) == 0 && (one[len] == '\0' || one[len] == '.')))
            return true;
    }
    return false;
}

/* The fields that may be shown, and their names for selectedFields. */
static json_t *shown_fields(const json_t *fields, const json_t *masked, char **ret_names)
{
    json_t *shown = json_array();
    char *names = strdup(""), *longer;

    for (size_t i = 0; i < json_array_size(fields); i++) {
        json_t *field = json_array_get(fields, i);
        const char *name = bigquery_text(field, "name");

        if (!name || is_masked(masked, name) ||
            bigquery_type(bigquery_text(field, "type")) == RESULT_TYPE_COUNT)
            continue;
        if (!names || asprintf(&longer, "%s%s%s", names, *names ? "," : "", name) < 0)
            break;
        free(names);
        names = longer;
        (void) json_array_append(shown, field);
    }
    *ret_names = names;
    return shown;
}

static void keep_sample(json_t *column, char *text)
{
    json_t *samples = json_object_get(column, "samples");

    if (text && !samples && json_object_set_new(column, "samples", json_array()) == 0)
        samples = json_object_get(column, "samples");
    for (size_t i = 0; text && i < json_array_size(samples); i++)
        if (strcmp(json_string_value(json_array_get(samples, i)), text) == 0) {
            free(text);
            return;
        }
    if (text && *text && json_array_size(samples) < SAMPLES_MAX)
        (void) json_array_append_new(samples, json_string(text));
    free(text);
}

static void keep_samples(json_t *columns, const json_t *shown, const json_t *rows)
{
    json_t *schema = json_pack("{s:O}", "fields", shown);
    struct bigquery_field *fields = NULL;
    struct driver_error ignored = { 0 };
    size_t len = 0;

    (void) bigquery_schema_read(schema, 0, &fields, &len, &ignored);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *cells = json_object_get(json_array_get(rows, i), "f");

        for (size_t j = 0; j < len && json_array_size(cells) == len; j++)
            keep_sample(find_column(columns, fields[j].name),
                        bigquery_sample(&fields[j], json_array_get(cells, j), SAMPLE_MAX));
    }
    bigquery_fields_free(fields, len);
    json_decref(schema);
}

/* Adds samples to @columns. 1: the account may see the table and not its rows, as with row
 * policies. */
static int add_samples(struct bigquery *bq, const char *dataset, const char *table,
                       const char *name, const json_t *info, json_t *columns,
                       struct driver_error *error)
{
    const json_t *all = json_object_get(json_object_get(info, "schema"), "fields");
    const json_t *masked = masked_of(bq, name);
    autofree char *names = NULL;
    autofree char *start = NULL;
    autofree char *fields = NULL;
    json_t *shown = shown_fields(all, masked, &names), *reply = NULL;
    struct bigquery_refusal refusal;
    char *path = NULL;
    int r;

    start = print_path("%s/datasets/%s/tables/%s/data", bq->project, dataset, table);
    fields = json_array_size(shown) < json_array_size(all) && names ? bigquery_escape(names)
                                                                    : strdup("");
    if (json_array_size(shown) == 0 || !start || !fields ||
        asprintf(&path, "%s?maxResults=%d&formatOptions.useInt64Timestamp=true%s%s", start,
                 SAMPLE_ROWS, *fields ? "&selectedFields=" : "", fields) < 0) {
        json_decref(shown);
        return 0;
    }
    r = get(bq, path, &reply, &refusal, error);
    if (r == 0)
        keep_samples(columns, shown, json_object_get(reply, "rows"));
    json_decref(shown);
    json_decref(reply);
    return r == 1 && refusal.status != 403 ? 0 : r;
}

/* ---- tables ---- */

static json_t *partitioning_of(const json_t *info)
{
    const json_t *by_time = json_object_get(info, "timePartitioning");
    const json_t *by_range = json_object_get(info, "rangePartitioning");
    const json_t *clusters = json_object_get(json_object_get(info, "clustering"), "fields");
    const char *field = bigquery_text(by_time ? by_time : by_range, "field");
    const char *type = bigquery_text(by_time, "type");
    bool needed = json_is_true(json_object_get(info, "requirePartitionFilter")) ||
                  json_is_true(json_object_get(by_time, "requirePartitionFilter"));
    char text[600] = "";
    size_t len = 0;

    if (by_time || by_range)
        (void) snprintf(text, sizeof text, "by %.200s%s%.20s%s", field ? field : "_PARTITIONTIME",
                        type ? ", " : "", type ? type : "", needed ? ", a filter is needed" : "");
    for (size_t i = 0; i < json_array_size(clusters) && i < 4; i++) {
        const char *name = json_string_value(json_array_get(clusters, i));

        len = strlen(text);
        if (name && len < sizeof text - 120)
            (void) snprintf(text + len, sizeof text - len, "%s%.100s",
                            i > 0     ? ", "
                            : len > 0 ? "; clustered by "
                                      : "clustered by ",
                            name);
    }
    return *text ? json_string(text) : json_null();
}

static const char *kind_of(const json_t *info)
{
    static const char *const kinds[][2] = {
        { "TABLE", "table" },       { "VIEW", "view" },      { "MATERIALIZED_VIEW", "view" },
        { "EXTERNAL", "external" }, { "SNAPSHOT", "table" },
    };
    const char *type = bigquery_text(info, "type");

    for (size_t i = 0; type && i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i][0], type) == 0)
            return kinds[i][1];
    return "other";
}

static json_t *count_of(const json_t *info, const char *name)
{
    int64_t count = bigquery_count(info, name);

    return count < 0 ? json_null() : json_integer(count);
}

/* One table in full; @days above 1: it stands for that many. */
static int add_table(struct bigquery *bq, json_t *tables, const char *dataset, const char *id,
                     size_t days, struct driver_error *error)
{
    bool wanted = json_integer_value(json_object_get(bq->order->json, "samples")) > 0;
    struct bigquery_refusal refusal;
    autofree char *name = NULL;
    json_t *info = NULL, *columns, *table;
    const char *comment;
    bool counted;
    int r = get(bq, print_path("%s/datasets/%s/tables/%s", bq->project, dataset, id), &info,
                &refusal, error);

    if (r != 0)
        return r == 1 ? 0 : r; /* gone meanwhile, or not ours to see */
    if ((days > 1 ? asprintf(&name, "%s.%.*s_*", dataset, (int) strlen(id) - DAY_SUFFIX_LEN, id)
                  : asprintf(&name, "%s.%s", dataset, id)) < 0) {
        json_decref(info);
        return no_memory(error);
    }
    columns = json_array();
    add_columns(columns, json_object_get(json_object_get(info, "schema"), "fields"), "", 0);
    add_keys(columns, info);
    counted = strcmp(kind_of(info), "table") == 0;
    if (wanted && counted)
        r = add_samples(bq, dataset, id, name, info, columns, error);
    comment = bigquery_text(info, "description");
    table = json_pack(
        "{s:s, s:s, s:s#, s:o, s:o, s:b, s:o, s:o}", "name", name, "kind", kind_of(info), "comment",
        comment ? comment : "", (int) strnlen(comment ? comment : "", COMMENT_MAX), "rows",
        counted && days <= 1 && r == 0 ? count_of(info, "numRows") : json_null(), "bytes",
        counted && days <= 1 ? count_of(info, "numBytes") : json_null(), "row_security", r == 1,
        "partitioning", partitioning_of(info), "columns", columns);
    json_decref(info);
    if (r >= 0 && !table)
        return no_memory(error);
    (void) json_array_append_new(tables, table);
    return r < 0 ? r : 0;
}

static bool is_of_a_day(const char *id)
{
    size_t len = strlen(id);

    return len > DAY_SUFFIX_LEN && id[len - DAY_SUFFIX_LEN] == '_' &&
           strspn(id + len - DAY_SUFFIX_LEN + 1, "0123456789") == DAY_SUFFIX_LEN - 1;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* How many of @ids from @i on are days of the same family; they are sorted. */
static size_t family(const char **ids, size_t len, size_t i)
{
    size_t n = 1, stem;

    if (!is_of_a_day(ids[i]))
        return 1;
    stem = strlen(ids[i]) - DAY_SUFFIX_LEN + 1;
    while (i + n < len && strlen(ids[i + n]) == strlen(ids[i]) && is_of_a_day(ids[i + n]) &&
           strncmp(ids[i], ids[i + n], stem) == 0)
        n++;
    return n;
}

static int add_dataset(struct bigquery *bq, json_t *tables, const char *dataset,
                       struct driver_error *error)
{
    json_t *items = json_array();
    int r = items ? list_all(bq, "tables", dataset, items, LISTED_MAX, error) : no_memory(error);
    size_t len = 0, n;
    autofree const char **ids = calloc(json_array_size(items) + 1, sizeof *ids);

    for (size_t i = 0; r == 0 && ids && i < json_array_size(items); i++) {
        const json_t *ref = json_object_get(json_array_get(items, i), "tableReference");
        const char *id = bigquery_text(ref, "tableId");

        if (id && *id && strlen(id) <= BIGQUERY_ID_MAX)
            ids[len++] = id;
    }
    if (ids && len > 1)
        qsort(ids, len, sizeof *ids, by_id);
    for (size_t i = 0; r == 0 && i < len; i += n) {
        n = family(ids, len, i);
        if (json_array_size(tables) >= TABLES_MAX)
            r = driver_fail(error, CONNECT_TOO_LARGE,
                            "there are more than %d tables; name the dataset in the source",
                            TABLES_MAX);
        else
            r = add_table(bq, tables, dataset, ids[i + n - 1], n, error);
    }
    json_decref(items);
    return r;
}

static int add_all(struct bigquery *bq, json_t *tables, struct driver_error *error)
{
    json_t *items = json_array();
    int r;

    if (bq->dataset) {
        json_decref(items);
        return add_dataset(bq, tables, bq->dataset, error);
    }
    r = list_all(bq, "datasets", NULL, items, DATASETS_MAX, error);
    for (size_t i = 0; r == 0 && i < json_array_size(items); i++) {
        const json_t *ref = json_object_get(json_array_get(items, i), "datasetReference");
        const char *id = bigquery_text(ref, "datasetId");

        if (id && *id && strlen(id) <= BIGQUERY_ID_MAX)
            r = add_dataset(bq, tables, id, error);
    }
    json_decref(items);
    return r;
}

int bigquery_catalogue(const struct order *order, json_t **ret_catalogue, json_t **ret_done,
                       struct driver_error *error)
{
    json_t *tables = json_array(), *done = json_object();
    struct bigquery bq = { 0 };
    int r = bigquery_open(order, &bq, error);

    if (r == 0)
        r = add_all(&bq, tables, error);
    if (r == 0) {
        (void) json_object_set_new(done, "rows",
                                   json_integer((json_int_t) json_array_size(tables)));
        bigquery_tell_token(&bq, done);
        *ret_catalogue = json_pack("{s:O, s:n}", "tables", tables, "readable");
        *ret_done = json_incref(done);
    }
    json_decref(tables);
    json_decref(done);
    bigquery_close(&bq);
    return r;
}

/* ---- check ---- */

static void add_check(json_t *checks, const char *name, int r, const char *good,
                      const struct driver_error *error)
{
    (void) json_array_append_new(checks, json_pack("{s:s, s:b, s:s}", "name", name, "ok", r == 0,
                                                   "text", r == 0 ? good : error->text));
}

/* Whether the account may run queries: a dry run is free. */
static int check_jobs(struct bigquery *bq, struct driver_error *error)
{
    json_t *reply = NULL,
           *body = json_pack("{s:{s:s, s:s*}, s:{s:b, s:{s:s, s:b}}}", "jobReference", "projectId",
                             bq->project, "location", bq->location, "configuration", "dryRun", 1,
                             "query", "query", "SELECT 1", "useLegacySql", 0);
    autofree char *path = print_path("%s/jobs%s%s", bq->project, NULL, NULL);
    int r = body && path ? bigquery_call(bq, path, body, &reply, NULL, error) : no_memory(error);

    json_decref(body);
    json_decref(reply);
    return r;
}

static bool is_final(const struct driver_error *error)
{
    return error->word == CONNECT_UNREACHABLE || error->word == CONNECT_CANCELLED ||
           error->word == CONNECT_TIMEOUT || error->word == CONNECT_BROKEN;
}

int bigquery_check(const struct order *order, json_t **ret_done, struct driver_error *error)
{
    json_t *checks = json_array(), *reply = NULL;
    struct bigquery bq = { 0 };
    bool listed = false;
    int r = bigquery_open(order, &bq, error), jobs = -1, data = -1;

    if (r == 0) {
        jobs = check_jobs(&bq, error);
        r = jobs < 0 && (is_final(error) || !bq.token) ? -1 : 0;
    }
    if (r == 0) {
        add_check(checks, "jobs", jobs, "the service account may run queries", error);
        listed = !bq.dataset;
        data = get(&bq,
                   listed ? print_path("%s/datasets?maxResults=1%s%s", bq.project, NULL, NULL)
                          : print_path("%s/datasets/%s%s", bq.project, bq.dataset, NULL),
                   &reply, NULL, error);
        r = data < 0 && is_final(error) ? -1 : 0;
        add_check(checks, "data", data,
                  listed ? "the project can be listed" : "the dataset can be read", error);
        if (data == 0 && listed && json_array_size(json_object_get(reply, "datasets")) == 0)
            add_check(checks, "datasets", 0,
                      "no dataset is visible; give the account READER of those that it may read",
                      error);
    }
    if (r == 0) {
        *ret_done = json_pack("{s:b, s:O}", "ok", jobs == 0 && data == 0, "checks", checks);
        if (*ret_done)
            bigquery_tell_token(&bq, *ret_done);
    }
    json_decref(reply);
    json_decref(checks);
    bigquery_close(&bq);
    return r;
}
