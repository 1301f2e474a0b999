/*
 * BigQuery, over its REST API.
 *
 * Theory of operation. A query is first a dry run (jobs.insert with dryRun): it is not billed, and
 * says what kind of statement it is, which tables it reads, and how many bytes. Only SELECT goes
 * on: scripts, DML, DDL, CALL and EXPORT DATA are refused, as is a statement that reads a table
 * with masked columns or outside of the source's dataset, or that would bill more than the ceiling.
 * The cache is off in the dry run: a cached result would hide the tables.
 *
 * Then jobs.insert starts the job under an id that we made. So a request that was lost can be sent
 * again without a second bill (the answer is then 409), and the job can be cancelled at any time;
 * jobs.query with its requestId promises neither for SELECT. The job has maximumBytesBilled, and a
 * timeout of its own should we die. getQueryResults waits for it, ten seconds at a time, and pages
 * through the rows. At the end jobs.get says what was billed.
 *
 * If the broker hangs up, or the time is over, or the result is too large, a job that is still
 * running is cancelled, within two seconds.
 *
 * Other files: bigquery_http.c (requests, retries, signing in), bigquery_types.c and
 * bigquery_scalar.c (schemas and values), bigquery_params.c, bigquery_catalogue.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "connect/bigquery.h"

#include "base/banned.h"

#define MIB              (INT64_C(1) << 20)
#define TIB              ((double) (INT64_C(1) << 40))
#define TABLE_BILLED_MIN (10 * MIB) /* of each table that is read */
#define TABLES_KNOWN_MAX 50         /* "more than 50 tables will not have a complete list" */
#define WAIT_MS          10000
#define PAGE_CELLS       200000
#define PAGE_ROWS_MAX    20000
#define PAGE_ROWS_MIN    20
#define EMPTY_PAGES_MAX  5
#define CANCEL_US        (2 * USEC_PER_SEC) /* less than the grace of order_arm() */
#define JOB_ID_MAX       48
#define NOT_YET_MAX      5

struct job {
    struct bigquery bq;
    char id[JOB_ID_MAX];
    bool started, ended;
    json_t *config; /* of the query, for both runs */
    int64_t bytes;  /* of the dry run; -1: not told */
    int64_t billed;
    size_t columns; /* as far as the dry run tells */
    double price;
    /* the result */
    struct bigquery_field *fields;
    size_t len;
    struct result *result;
    int64_t rows_total;
    int64_t processed;
    bool cache_hit;
};

static int no_memory(struct driver_error *error)
{
    return driver_fail(error, CONNECT_INTERNAL, "out of memory");
}

static int is_cancelled(const struct order *order, struct driver_error *error)
{
    return order_cancelled(order) ? driver_fail(error, CONNECT_CANCELLED, "the query was cancelled")
                                  : 0;
}

/* ---- what it costs ---- */

static json_t *money_of(const struct job *job, int64_t bytes)
{
    return job->price < 0 ? json_null() : json_real((double) bytes / TIB * job->price);
}

static json_t *estimate_of(const struct job *job)
{
    return json_pack("{s:I, s:n, s:I, s:o}", "cost", (json_int_t) job->billed, "rows", "bytes",
                     (json_int_t) job->bytes, "money", money_of(job, job->billed));
}

/* 1536 as "1.5 KiB" */
static void size_text(double bytes, char *buf, size_t size)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;

    while (bytes >= 1024 && unit + 1 < ARRAY_LEN(units)) {
        bytes /= 1024;
        unit++;
    }
    (void) snprintf(buf, size, bytes < 100 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

static int check_cost(struct job *job, struct driver_error *error)
{
    double ceiling = job->bq.order->cost_max;
    char would[32], limit[32], money[64] = "";

    if (ceiling < 0 || (double) job->billed <= ceiling)
        return 0;
    size_text((double) job->billed, would, sizeof would);
    size_text(ceiling, limit, sizeof limit);
    if (job->price >= 0)
        (void) snprintf(money, sizeof money, " (%.2f USD at %.2f USD per TiB)",
                        (double) job->billed / TIB * job->price, job->price);
    (void) driver_fail(error, CONNECT_TOO_EXPENSIVE,
                       "the query would be billed for %s%s, and the limit is %s; it was not run. "
                       "Read fewer columns, or filter by the column that the table is "
                       "partitioned by",
                       would, money, limit);
    error->estimate = estimate_of(job);
    return -1;
}

/* ---- the dry run ---- */

static int make_config(struct job *job, struct driver_error *error)
{
    const json_t *json = job->bq.order->json;

    job->config = json_pack("{s:O, s:b}", "query", json_object_get(json, "sql"), "useLegacySql", 0);
    if (!job->config)
        return no_memory(error);
    if (job->bq.dataset)
        (void) json_object_set_new(
            job->config, "defaultDataset",
            json_pack("{s:s, s:s}", "projectId", job->bq.project, "datasetId", job->bq.dataset));
    return bigquery_params(json_object_get(json, "params"), job->config, error);
}

/* The path and body of jobs.insert. Takes @configuration. */
static int insert(struct job *job, json_t *configuration, bool named, json_t **ret_reply,
                  struct bigquery_refusal *refusal, struct driver_error *error)
{
    struct bigquery *bq = &job->bq;
    autofree char *project = bigquery_escape(bq->project);
    autofree char *path = NULL;
    json_t *body =
        json_pack("{s:{s:s, s:s*, s:s*}, s:o}", "jobReference", "projectId", bq->project, "jobId",
                  named ? job->id : NULL, "location", bq->location, "configuration", configuration);
    int r;

    if (!body || !project || asprintf(&path, "%s/jobs", project) < 0) {
        json_decref(body);
        return no_memory(error);
    }
    r = bigquery_call(bq, path, body, ret_reply, refusal, error);
    json_decref(body);
    return r;
}

/* Whether "dataset.table" of a mask is @table, which may have a decorator or be a wildcard. When in
 * doubt it is. */
static bool is_masked_by(const char *mask, const char *dataset, const char *table)
{
    const char *dot = strrchr(mask, '.');
    size_t dataset_len = strlen(dataset), len = strcspn(table, "$@*");

    if (!dot)
        return true;
    if ((size_t) (dot - mask) < dataset_len ||
        strncasecmp(dot - dataset_len, dataset, dataset_len) != 0 ||
        ((size_t) (dot - mask) > dataset_len && dot[-1 - (ptrdiff_t) dataset_len] != '.'))
        return false;
    dot++;
    if (table[len] == '*')
        return strncasecmp(dot, table, len) == 0;
    if (dot[0] && dot[strlen(dot) - 1] == '*') /* a family of tables in the catalogue */
        return strncasecmp(dot, table, strlen(dot) - 1) == 0;
    return strlen(dot) == len && strncasecmp(dot, table, len) == 0;
}

static int check_masks(const json_t *masked, const char *dataset, const char *table,
                       struct driver_error *error)
{
    for (size_t i = 0; i < json_array_size(masked); i++) {
        const json_t *mask = json_array_get(masked, i);
        const char *name = bigquery_text(mask, "table");
        const char *column = json_string_value(json_array_get(json_object_get(mask, "columns"), 0));

        if (json_array_size(json_object_get(mask, "columns")) == 0)
            continue;
        if (!name || is_masked_by(name, dataset, table))
            return driver_fail(error, CONNECT_MASKED,
                               "table %.200s.%.200s has masked columns (%.100s), so queries cannot "
                               "read it, not even through a view; ask the operator for a table "
                               "without them",
                               dataset, table, column ? column : "?");
    }
    return 0;
}

static int check_table(struct job *job, const json_t *masked, const json_t *ref,
                       struct driver_error *error)
{
    const char *project = bigquery_text(ref, "projectId");
    const char *dataset = bigquery_text(ref, "datasetId"), *table = bigquery_text(ref, "tableId");

    if (!project || !dataset || !table)
        return driver_fail(error, CONNECT_BROKEN,
                           "BigQuery's reply is not valid: a table without a name");
    if (job->bq.dataset &&
        (strcmp(project, job->bq.project) != 0 || strcmp(dataset, job->bq.dataset) != 0))
        return driver_fail(error, CONNECT_DENIED,
                           "the query reads %.100s.%.100s.%.100s, and this source is dataset "
                           "%.100s only",
                           project, dataset, table, job->bq.dataset);
    return check_masks(masked, dataset, table, error);
}

/* EXTERNAL_QUERY() runs SQL in another database, of which the dry run tells no table. A name in
 * backquotes can be spelled with escapes, so those are refused as well. */
static bool may_ask_elsewhere(const char *sql)
{
    if (strcasestr(sql, "external_query"))
        return true;
    for (const char *at = strchr(sql, '`') ? strchr(sql, '\\') : NULL; at;
         at = strchr(at + 1, '\\'))
        if (strchr("xXuU01234567", at[1]))
            return true;
    return false;
}

static int check_tables(struct job *job, const json_t *statistics, struct driver_error *error)
{
    const json_t *tables = json_object_get(statistics, "referencedTables");
    const json_t *masked = json_object_get(job->bq.order->json, "masked");
    bool fenced = job->bq.dataset || json_array_size(masked) > 0;
    size_t len = json_array_size(tables);

    if (fenced && may_ask_elsewhere(bigquery_text(job->bq.order->json, "sql")))
        return driver_fail(error, CONNECT_DENIED,
                           "the query asks another database, or might: this source reads only its "
                           "own tables. Write it without EXTERNAL_QUERY, and without escapes such "
                           "as \\x or \\u beside names in backquotes");
    if (fenced && (len >= TABLES_KNOWN_MAX || (!json_is_array(tables) && job->bytes != 0)))
        return driver_fail(error, CONNECT_DENIED,
                           "BigQuery does not tell all tables that the query reads; read fewer "
                           "than %d",
                           TABLES_KNOWN_MAX);
    if (json_array_size(masked) > 0 &&
        json_array_size(json_object_get(statistics, "referencedRoutines")) > 0)
        return driver_fail(error, CONNECT_MASKED,
                           "the query calls functions that are stored in BigQuery, and this source "
                           "has masked columns that they could read; write what they do in the "
                           "query");
    for (size_t i = 0; i < len; i++)
        if (check_table(job, masked, json_array_get(tables, i), error) < 0)
            return -1;
    return 0;
}

/* What BigQuery bills for: whole MiB, and at least ten of each table. */
static int64_t billed_for(int64_t bytes, size_t tables)
{
    int64_t least = TABLE_BILLED_MIN * (int64_t) (tables > 0 ? tables : 1);

    if (bytes <= 0)
        return 0;
    if (bytes > INT64_MAX - MIB)
        return INT64_MAX;
    bytes = (bytes + MIB - 1) / MIB * MIB;
    return bytes > least ? bytes : least;
}

static int read_dry_run(struct job *job, const json_t *reply, struct driver_error *error)
{
    const json_t *statistics = json_object_get(reply, "statistics");
    const json_t *query = json_object_get(statistics, "query");
    const char *type = bigquery_text(query, "statementType");

    if (!type || strcmp(type, "SELECT") != 0)
        return driver_fail(error, CONNECT_READ_ONLY,
                           "only one SELECT statement can be run here; BigQuery says that this is "
                           "%.60s",
                           type ? type : "something else");
    job->bytes = bigquery_count(statistics, "totalBytesProcessed");
    if (job->bytes < 0)
        job->bytes = bigquery_count(query, "totalBytesProcessed");
    if (job->bytes < 0)
        return driver_fail(error, CONNECT_BROKEN,
                           "BigQuery's reply is not valid: the dry run does not say how much it "
                           "would read");
    job->columns = json_array_size(json_object_get(json_object_get(query, "schema"), "fields"));
    job->billed =
        billed_for(job->bytes, json_array_size(json_object_get(query, "referencedTables")));
    if ((int64_t) job->columns > job->bq.order->columns_max)
        return driver_fail(error, CONNECT_TOO_LARGE,
                           "the result would have %zu columns, and at most %lld are taken; select "
                           "fewer",
                           job->columns, (long long) job->bq.order->columns_max);
    return check_tables(job, query, error);
}

static int dry_run(struct job *job, struct driver_error *error)
{
    json_t *query = json_copy(job->config), *reply = NULL;
    int r;

    (void) json_object_set_new(query, "useQueryCache", json_false());
    r = insert(
        job,
        json_pack("{s:b, s:{s:s}, s:o}", "dryRun", 1, "labels", "tool", "glovebox", "query", query),
        false, &reply, NULL, error);
    if (r == 0)
        r = read_dry_run(job, reply, error);
    if (r == 0)
        r = check_cost(job, error);
    json_decref(reply);
    return r;
}

/* ---- the job ---- */

static int job_failed(const json_t *result, struct driver_error *error)
{
    struct bigquery_refusal refusal = { .status = 400 };
    const char *reason = bigquery_text(result, "reason"), *text = bigquery_text(result, "message");

    (void) snprintf(refusal.reason, sizeof refusal.reason, "%s", reason ? reason : "");
    (void) snprintf(refusal.text, sizeof refusal.text, "%s", text ? text : "the job failed");
    return bigquery_refused(&refusal, error);
}

static int make_id(char id[JOB_ID_MAX], struct driver_error *error)
{
    uint8_t random[16];
    size_t len = (size_t) snprintf(id, JOB_ID_MAX, "glovebox_");

    if (getrandom(random, sizeof random, 0) != (ssize_t) sizeof random)
        return driver_fail(error, CONNECT_INTERNAL, "the kernel has no random numbers");
    for (size_t i = 0; i < sizeof random; i++, len += 2)
        hex_put(random[i], id + len);
    id[len] = '\0';
    return 0;
}

static json_t *job_configuration(const struct job *job)
{
    json_t *query = json_copy(job->config);
    int64_t left_ms = (job->bq.order->deadline_us - clock_now_us()) / USEC_PER_MSEC;
    char ms[32], bytes[32];

    (void) snprintf(ms, sizeof ms, "%lld", (long long) (left_ms > 1000 ? left_ms : 1000));
    (void) snprintf(bytes, sizeof bytes, "%.0f", job->bq.order->cost_max);
    if (job->bq.order->cost_max >= 0)
        (void) json_object_set_new(query, "maximumBytesBilled", json_string(bytes));
    return json_pack("{s:s, s:{s:s}, s:o}", "jobTimeoutMs", ms, "labels", "tool", "glovebox",
                     "query", query);
}

static int start(struct job *job, struct driver_error *error)
{
    struct bigquery_refusal refusal;
    json_t *reply = NULL;
    const json_t *failure;
    const char *where;
    int r;

    if (make_id(job->id, error) < 0)
        return -1;
    job->started = true; /* perhaps, from the first byte on */
    r = insert(job, job_configuration(job), true, &reply, &refusal, error);
    if (r == 1)
        /* 409: an earlier try has come through after all. */
        return refusal.status == 409 ? 0 : bigquery_refused(&refusal, error);
    if (r < 0)
        return r;
    where = bigquery_text(json_object_get(reply, "jobReference"), "location");
    if (where && strlen(where) <= BIGQUERY_ID_MAX)
        job->bq.job_location = strdup(where);
    failure = json_object_get(json_object_get(reply, "status"), "errorResult");
    if (json_is_object(failure)) {
        job->ended = true;
        r = job_failed(failure, error);
    }
    json_decref(reply);
    return r;
}

/* "projects/p/WHAT/ID[END]?location=..[&REST]" */
static char *job_path(const struct job *job, const char *what, const char *end, const char *rest)
{
    const char *where = job->bq.job_location ? job->bq.job_location : job->bq.location;
    autofree char *project = bigquery_escape(job->bq.project);
    autofree char *location = bigquery_escape(where ? where : "");
    char *path = NULL;

    if (!project || !location ||
        asprintf(&path, "%s/%s/%s%s?%s%s%s%s", project, what, job->id, end,
                 where ? "location=" : "", location, where && *rest ? "&" : "", rest) < 0)
        return NULL;
    return path;
}

static void cancel(struct job *job)
{
    struct driver_error ignored = { 0 };
    autofree char *path = job_path(job, "jobs", "/cancel", "");
    json_t *body = json_object(), *reply = NULL;

    job->bq.cancelling = true;
    job->bq.cancel_deadline_us = clock_now_us() + CANCEL_US;
    if (path && body)
        (void) bigquery_call(&job->bq, path, body, &reply, NULL, &ignored);
    json_decref(body);
    json_decref(reply);
}

/* ---- rows ---- */

static int64_t page_rows(const struct job *job)
{
    int64_t rows = PAGE_CELLS / (int64_t) (job->columns > 0 ? job->columns : 1);

    return rows > PAGE_ROWS_MAX ? PAGE_ROWS_MAX : rows < PAGE_ROWS_MIN ? PAGE_ROWS_MIN : rows;
}

/* One call of getQueryResults; 1: there is no such job. */
static int fetch(struct job *job, const char *token, json_t **ret_reply,
                 struct bigquery_refusal *refusal, struct driver_error *error)
{
    autofree char *escaped = bigquery_escape(token ? token : "");
    autofree char *rest = NULL;
    autofree char *path = NULL;

    if (!escaped ||
        asprintf(&rest, "timeoutMs=%d&maxResults=%lld&formatOptions.useInt64Timestamp=true%s%s",
                 WAIT_MS, (long long) page_rows(job), token ? "&pageToken=" : "", escaped) < 0)
        return no_memory(error);
    path = job_path(job, "queries", "", rest);
    if (!path)
        return no_memory(error);
    return bigquery_call(&job->bq, path, NULL, ret_reply, refusal, error);
}

/* Waits until the job has ended, and returns the first page. */
static int wait_for_it(struct job *job, json_t **ret_page, struct driver_error *error)
{
    int64_t pause_us = 50 * USEC_PER_MSEC;
    int missing = 0;

    for (;;) {
        struct bigquery_refusal refusal;
        json_t *reply = NULL;
        int64_t since_us = clock_now_us();
        int r = fetch(job, NULL, &reply, &refusal, error);

        if (r < 0)
            return r;
        if (r == 1 && (refusal.status != 404 || ++missing > NOT_YET_MAX)) {
            job->ended = refusal.status != 404;
            return bigquery_refused(&refusal, error);
        }
        if (r == 0 && json_is_true(json_object_get(reply, "jobComplete"))) {
            job->ended = true;
            *ret_page = reply;
            return 0;
        }
        json_decref(reply);
        if (r == 0)
            order_tell(job->bq.order, "progress",
                       json_pack("{s:i, s:i, s:s}", "rows", 0, "bytes", 0, "job", job->id));
        /* A server that waits as it was asked to is asked again at once. */
        if (clock_now_us() - since_us < USEC_PER_SEC) {
            if (bigquery_wait(&job->bq, pause_us, error) < 0)
                return -1;
            pause_us = pause_us * 2 > USEC_PER_SEC ? USEC_PER_SEC : pause_us * 2;
        }
    }
}

static int open_result(struct job *job, const json_t *page, struct driver_error *error)
{
    const struct order *order = job->bq.order;
    struct result_column *columns;
    int r = bigquery_schema_read(json_object_get(page, "schema"), order->columns_max, &job->fields,
                                 &job->len, error);

    if (r < 0)
        return r;
    job->rows_total = bigquery_count(page, "totalRows");
    if (job->rows_total < 0)
        return driver_fail(
            error, CONNECT_BROKEN,
            "BigQuery's reply is not valid: it does not say how many rows there are");
    if (job->rows_total > order->rows_max)
        return driver_fail(error, CONNECT_TOO_LARGE,
                           "the result has %lld rows, and at most %lld are taken; aggregate in the "
                           "query, or add a LIMIT",
                           (long long) job->rows_total, (long long) order->rows_max);
    columns = bigquery_columns(job->fields, job->len);
    r = columns ? result_new(order->result_fd, order->bytes_max, columns, job->len, &job->result)
                : -ENOMEM;
    if (r < 0)
        return driver_fail(error, CONNECT_INTERNAL, "cannot write the result: %s", strerror(-r));
    return 0;
}

static int put_page(struct job *job, const json_t *page, struct driver_error *error)
{
    const json_t *rows = json_object_get(page, "rows");
    size_t len = json_array_size(rows);

    if (rows && !json_is_array(rows))
        return driver_fail(error, CONNECT_BROKEN,
                           "BigQuery's reply is not valid: rows are no list");
    if (result_rows(job->result) + (int64_t) len > job->rows_total)
        return driver_fail(error, CONNECT_BROKEN,
                           "BigQuery's reply is not valid: there are more rows than it says");
    for (size_t i = 0; i < len; i++)
        if (bigquery_row_put(job->fields, job->len, json_array_get(rows, i), job->result, error) <
            0)
            return -1;
    return 0;
}

static int next_page(struct job *job, const char *token, json_t **ret_page,
                     struct driver_error *error)
{
    json_t *page = NULL;
    int r = fetch(job, token, &page, NULL, error);

    if (r < 0)
        return r;
    order_tell(job->bq.order, "progress",
               json_pack("{s:I, s:I, s:s}", "rows", (json_int_t) result_rows(job->result), "bytes",
                         (json_int_t) job->bytes, "job", job->id));
    *ret_page = page;
    return 0;
}

/* Takes @page, the first. */
static int read_pages(struct job *job, json_t *page, struct driver_error *error)
{
    int empty = 0, r = open_result(job, page, error);

    job->processed = bigquery_count(page, "totalBytesProcessed");
    job->cache_hit = json_is_true(json_object_get(page, "cacheHit"));
    while (r == 0) {
        const char *token = bigquery_text(page, "pageToken");
        json_t *next = NULL;

        r = put_page(job, page, error);
        if (r < 0 || !token || !*token)
            break;
        empty = json_array_size(json_object_get(page, "rows")) == 0 ? empty + 1 : 0;
        if (empty > EMPTY_PAGES_MAX) {
            r = driver_fail(error, CONNECT_BROKEN,
                            "BigQuery's reply is not valid: one page after the other is empty");
            break;
        }
        r = next_page(job, token, &next, error);
        if (r == 0) {
            json_decref(page);
            page = next;
        }
    }
    json_decref(page);
    if (r == 0 && result_rows(job->result) != job->rows_total)
        r = driver_fail(error, CONNECT_BROKEN,
                        "BigQuery's reply is not valid: it has %lld rows, and said %lld",
                        (long long) result_rows(job->result), (long long) job->rows_total);
    return r;
}

/* ---- the end ---- */

/* What was billed: not worth failing for. */
static void read_bill(struct job *job)
{
    struct driver_error ignored = { 0 };
    struct bigquery_refusal refusal;
    autofree char *path = job_path(job, "jobs", "", "");
    json_t *reply = NULL;
    const json_t *statistics;

    job->billed = job->cache_hit ? 0 : job->processed >= 0 ? job->processed : job->billed;
    if (!path || bigquery_call(&job->bq, path, NULL, &reply, &refusal, &ignored) != 0)
        return;
    statistics = json_object_get(json_object_get(reply, "statistics"), "query");
    if (bigquery_count(statistics, "totalBytesBilled") >= 0)
        job->billed = bigquery_count(statistics, "totalBytesBilled");
    if (json_is_true(json_object_get(statistics, "cacheHit")))
        job->cache_hit = true;
    json_decref(reply);
}

static json_t *notices_of(const struct job *job)
{
    json_t *list = json_array();

    for (size_t i = 0; i < job->len; i++)
        if (job->fields[i].was_cut)
            (void) json_array_append_new(
                list, json_sprintf("column %s has picoseconds, which were cut to microseconds",
                                   job->fields[i].name));
    return list;
}

static int finish(struct job *job, json_t **ret_done, struct driver_error *error)
{
    int64_t rows = result_rows(job->result), size;
    int r = result_finish(job->result, &size);

    if (r < 0)
        return driver_fail(error, r == -EFBIG ? CONNECT_TOO_LARGE : CONNECT_INTERNAL,
                           "cannot write the result: %s",
                           r == -EFBIG ? "it is larger than the limit" : strerror(-r));
    read_bill(job);
    if (is_cancelled(job->bq.order, error) < 0)
        return -1;
    *ret_done = json_pack("{s:I, s:I, s:I, s:I, s:o, s:b, s:o, s:o}", "rows", (json_int_t) rows,
                          "bytes", (json_int_t) job->billed, "size", (json_int_t) size, "cost",
                          (json_int_t) job->billed, "money", money_of(job, job->billed),
                          "cache_hit", (int) job->cache_hit, "columns",
                          bigquery_fields_json(job->fields, job->len), "notices", notices_of(job));
    if (!*ret_done)
        return no_memory(error);
    bigquery_tell_token(&job->bq, *ret_done);
    return 0;
}

static int run(struct job *job, json_t **ret_done, struct driver_error *error)
{
    json_t *page = NULL;
    int r = make_config(job, error);

    if (r == 0)
        r = dry_run(job, error);
    if (r < 0)
        return r;
    order_tell(job->bq.order, "estimate", estimate_of(job));
    r = is_cancelled(job->bq.order, error);
    if (r == 0)
        r = start(job, error);
    if (r == 0)
        r = wait_for_it(job, &page, error);
    if (r == 0)
        r = read_pages(job, page, error);
    return r == 0 ? finish(job, ret_done, error) : r;
}

static int query(const struct order *order, json_t **ret_done, struct driver_error *error)
{
    const json_t *price = json_object_get(json_object_get(order->json, "source"), "price");
    struct job job = { .price = json_is_number(price) ? json_number_value(price) : -1,
                       .processed = -1 };
    int r = bigquery_open(order, &job.bq, error);

    if (r == 0)
        r = run(&job, ret_done, error);
    if (r < 0 && job.started && !job.ended)
        cancel(&job);
    result_free(job.result);
    bigquery_fields_free(job.fields, job.len);
    json_decref(job.config);
    bigquery_close(&job.bq);
    return r;
}

const struct driver driver_bigquery = {
    .kind = "bigquery",
    .query = query,
    .catalogue = bigquery_catalogue,
    .check = bigquery_check,
};
