/*
 * What a program asks for: the requests of the module mark, each answered by a thread of its own.
 *
 * The engine lets a run ask one at a time, but a request whose reader is gone may still be under
 * way, cancelling its query, when the next one comes; so there are a few threads at most.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/text/json_depth.h"
#include "base/text/strv.h"
#include "base/thread.h"
#include "mark/broker/internal.h"

#include "base/banned.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ASK_STACK (4u * 1024 * 1024)
#else
#define ASK_STACK (512u * 1024)
#endif

#define UNDER_WAY_MAX  4
#define RECORDS_MAX    100
#define TEXT_BYTES_MAX ((size_t) 512 * 1024) /* of SQL and parameters of all queries of a run */
#define SQL_BYTES_MAX  ((size_t) 100 * 1024)
#define PARAMS_MAX     1000
#define DEPTH_MAX      8
#define TABLES_BYTES   ((size_t) 48 * 1024) /* of an answer that lists tables */
#define WORKSPACE_DIR  ".mark"

void query_record_release(struct query_record *record)
{
    json_decref(record->json);
    *record = (struct query_record){ 0 };
}

void query_records_free(struct query_record *records, size_t len)
{
    for (size_t i = 0; records && i < len; i++)
        query_record_release(&records[i]);
    free(records);
}

int query_records_load(struct store *store, const char *owner, const char *message_id,
                       struct query_record **records, size_t *len, struct gb_err *err)
{
    struct store_result *rows = NULL;
    struct query_record *more;
    size_t rows_len = 0;
    int r = store_result_list(store, owner, message_id, &rows, &rows_len, err);

    if (r < 0 || rows_len == 0)
        return r;
    more = reallocarray(*records, *len + rows_len, sizeof *more);
    if (!more) {
        store_results_free(rows, rows_len);
        return gb_fail(err, ENOMEM, "read the queries of an answer");
    }
    *records = more;
    for (size_t i = 0; i < rows_len; i++) {
        struct query_record record = { .json = json_loads(rows[i].query, 0, NULL),
                                       .kept = true,
                                       .n = rows[i].n,
                                       .size = rows[i].size };

        memcpy(record.key, rows[i].key, sizeof record.key);
        memcpy(record.sha256, rows[i].sha256, sizeof record.sha256);
        if (record.json)
            (*records)[(*len)++] = record;
    }
    store_results_free(rows, rows_len);
    return 0;
}

json_t *answer_refuse(const char *word, const char *message)
{
    return json_pack("{s:b, s:s, s:s}", "success", 0, "word", word, "message", message);
}

bool scope_has_source(const struct scope *scope, const char *name)
{
    for (size_t i = 0; scope->names && scope->names[i]; i++)
        if (strcmp(scope->names[i], name) == 0)
            return true;
    return false;
}

/* ---- queries ---- */

static bool is_scalar(const json_t *json)
{
    return !json_is_array(json) && !json_is_object(json);
}

/* Values, and one level of lists of them. */
static bool params_valid(const json_t *params)
{
    const json_t *value, *item;
    const char *key;
    size_t i, j;

    if (!params || json_is_null(params))
        return true;
    if (json_is_object(params)) {
        json_object_foreach ((json_t *) params, key, value)
            if (!is_scalar(value) && !json_is_array(value))
                return false;
        return json_object_size(params) <= PARAMS_MAX;
    }
    if (!json_is_array(params) || json_array_size(params) > PARAMS_MAX)
        return false;
    json_array_foreach (params, i, value) {
        if (json_is_object(value))
            return false;
        json_array_foreach (value, j, item)
            if (!is_scalar(item))
                return false;
    }
    return true;
}

/* Takes room for the record of one more, and its number; false: there is none. */
static bool room_take(struct scope *scope, size_t bytes, int64_t *ret_n)
{
    struct query_record *grown;
    bool room;

    (void) pthread_mutex_lock(&scope->lock);
    grown = grow(scope->records, &scope->records_cap, RECORDS_MAX, sizeof *grown, RECORDS_MAX);
    if (grown)
        scope->records = grown;
    room = grown && scope->asked < RECORDS_MAX && bytes <= TEXT_BYTES_MAX - scope->text_bytes;
    if (room) {
        scope->text_bytes += bytes;
        *ret_n = scope->config.queries + ++scope->asked;
    }
    (void) pthread_mutex_unlock(&scope->lock);
    return room;
}

static json_t *ask_query(struct scope *scope, int fd, const json_t *wish, size_t wish_len)
{
    const json_t *sql = json_object_get(wish, "sql");
    struct query_job job = { .scope = scope,
                             .fd = fd,
                             .source = json_string_value(json_object_get(wish, "source")),
                             .sql = json_string_value(sql),
                             .sql_len = json_string_length(sql),
                             .params = json_object_get(wish, "params") };
    json_t *answer;

    if (!job.source || !job.sql || strlen(job.source) >= STORE_ID_MAX || !params_valid(job.params))
        return answer_refuse("unsupported",
                             "a query needs a source, SQL, and parameters that are numbers, texts "
                             "or lists of them, at most 1,000");
    if (job.sql_len > SQL_BYTES_MAX)
        return answer_refuse("unsupported", "the SQL is too long: at most 100 KiB");
    if (!room_take(scope, wish_len, &job.record.n))
        return answer_refuse("too-large",
                             "one program can ask at most 100 queries; ask for more at once, with "
                             "a join, or with a list as a parameter");
    answer = query_run(&job);
    json_decref(job.notices);
    (void) pthread_mutex_lock(&scope->lock);
    if (job.record.json && scope->records_len < RECORDS_MAX)
        scope->records[scope->records_len++] = job.record;
    else
        query_record_release(&job.record);
    (void) pthread_mutex_unlock(&scope->lock);
    return answer;
}

/* ---- looking ---- */

static json_t *ask_sources(struct scope *scope)
{
    const struct broker_config *config = &scope->config.broker->config;
    json_t *list = json_array();

    for (size_t i = 0; scope->names && scope->names[i]; i++) {
        json_t *source = NULL;
        struct fault ignored;

        if (scope->config.replay_only || !config->calls.get ||
            config->calls.get(config->sources, &scope->config.caller, scope->names[i], &source,
                              &ignored) < 0)
            source = NULL;
        (void) json_array_append_new(list,
                                     json_pack("{s:s, s:O?, s:O?}", "name", scope->names[i], "kind",
                                               json_object_get(source, "kind"), "description",
                                               json_object_get(source, "description")));
        json_decref(source);
    }
    return json_pack("{s:b, s:o}", "success", 1, "sources", list);
}

static json_t *column_short(const json_t *column)
{
    static const char *const names[] = { "name", "type", "description", "unit" };
    json_t *brief = json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(column, names[i]);

        if (value && !json_is_null(value))
            (void) json_object_set(brief, names[i], value);
    }
    return brief;
}

static json_t *table_short(const char *source, const json_t *table, bool columns)
{
    static const char *const names[] = { "name", "kind", "description", "comment", "rows" };
    json_t *brief = json_pack("{s:s}", "source", source), *list;
    const json_t *column;
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(table, names[i]);

        if (value && !json_is_null(value))
            (void) json_object_set(brief, names[i], value);
    }
    if (!columns)
        return brief;
    list = json_array();
    json_array_foreach (json_object_get(table, "columns"), i, column)
        (void) json_array_append_new(list, column_short(column));
    (void) json_object_set_new(brief, "columns", list);
    return brief;
}

/* What fits, first with columns and then without. */
static void tables_add(const char *source, const json_t *tables, json_t *list, size_t *bytes,
                       int64_t *left_out)
{
    const json_t *table;
    size_t i;

    json_array_foreach (tables, i, table) {
        json_t *brief = table_short(source, table, true);
        size_t len = json_dumpb(brief, NULL, 0, JSON_COMPACT);

        if (*bytes + len > TABLES_BYTES / 2) {
            json_decref(brief);
            brief = table_short(source, table, false);
            len = json_dumpb(brief, NULL, 0, JSON_COMPACT);
        }
        if (*bytes + len > TABLES_BYTES) {
            json_decref(brief);
            (*left_out)++;
            continue;
        }
        *bytes += len;
        (void) json_array_append_new(list, brief);
    }
}

void scope_list_sources(const struct scope *scope, char *buf, size_t size)
{
    size_t len;

    if (!scope->names || !scope->names[0]) {
        (void) snprintf(buf, size, "there is no data source that this program may ask");
        return;
    }
    (void) snprintf(buf, size, "there is no such data source; there are: ");
    for (size_t i = 0; scope->names[i]; i++) {
        len = strlen(buf);
        if (len + strlen(scope->names[i]) + 8 > size)
            break;
        (void) snprintf(buf + len, size - len, "%s%s", i > 0 ? ", " : "", scope->names[i]);
    }
}

static json_t *ask_tables(struct scope *scope, const json_t *wish)
{
    const struct broker_config *config = &scope->config.broker->config;
    const char *only = json_string_value(json_object_get(wish, "source"));
    json_t *list, *answer;
    int64_t left_out = 0;
    size_t bytes = 0;
    char text[400];

    if (only && !scope_has_source(scope, only)) {
        scope_list_sources(scope, text, sizeof text);
        return answer_refuse("no-such-source", text);
    }
    list = json_array();
    for (size_t i = 0; scope->names && scope->names[i] && !scope->config.replay_only; i++) {
        struct fault ignored;
        json_t *tables = NULL;

        if ((only && strcmp(only, scope->names[i]) != 0) || !config->calls.tables ||
            config->calls.tables(config->sources, &scope->config.caller, scope->names[i], NULL,
                                 &tables, &ignored) < 0)
            continue;
        tables_add(scope->names[i], json_object_get(tables, "tables"), list, &bytes, &left_out);
        json_decref(tables);
    }
    answer = json_pack("{s:b, s:o}", "success", 1, "tables", list);
    if (left_out > 0)
        (void) json_object_set_new(answer, "left_out", json_integer(left_out));
    return answer;
}

/* ---- asking ---- */

struct ask {
    struct scope *scope;
    int fd;
    char *text;
    size_t len;
};

static json_t *ask_answer(struct ask *ask)
{
    json_t *wish = json_too_deep(ask->text, ask->len, DEPTH_MAX)
                       ? NULL
                       : json_loadb(ask->text, ask->len, 0, NULL);
    const char *op = json_string_value(json_object_get(wish, "op"));
    json_t *answer;

    if (op && strcmp(op, "query") == 0)
        answer = ask_query(ask->scope, ask->fd, wish, ask->len);
    else if (op && strcmp(op, "sources") == 0)
        answer = ask_sources(ask->scope);
    else if (op && strcmp(op, "tables") == 0)
        answer = ask_tables(ask->scope, wish);
    else
        answer = answer_refuse("unsupported", "malformed request; use mark.query(source, sql)");
    json_decref(wish);
    return answer;
}

static void ask_end(struct ask *ask)
{
    struct scope *scope = ask->scope;

    gb_closep(&ask->fd);
    free(ask->text);
    free(ask);
    (void) pthread_mutex_lock(&scope->lock);
    scope->under_way--;
    (void) pthread_cond_broadcast(&scope->idle);
    (void) pthread_mutex_unlock(&scope->lock);
}

static void *ask_main(void *arg)
{
    struct ask *ask = arg;
    json_t *answer = ask_answer(ask);
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;

    if (text && strlen(text) <= ASK_ANSWER_MAX)
        (void) io_write_all(ask->fd, text, strlen(text));
    free(text);
    json_decref(answer);
    ask_end(ask);
    return NULL;
}

static int ask_start(struct ask *ask)
{
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    (void) pthread_attr_init(&attr);
    (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) pthread_attr_setstacksize(&attr, ASK_STACK);
    r = pthread_create(&thread, &attr, ask_main, ask);
    (void) pthread_attr_destroy(&attr);
    return -r;
}

int scope_ask(void *arg, const char *json, size_t len)
{
    struct scope *scope = arg;
    struct ask *ask = calloc(1, sizeof *ask);
    int ends[2], r = 0;

    if (!ask)
        return -ENOMEM;
    ask->text = malloc(len + 1);
    if (!ask->text || pipe2(ends, O_CLOEXEC) < 0) {
        free(ask->text);
        free(ask);
        return -ENOMEM;
    }
    memcpy(ask->text, json, len);
    ask->text[len] = '\0';
    ask->len = len;
    ask->scope = scope;
    ask->fd = ends[1];
    (void) pthread_mutex_lock(&scope->lock);
    if (scope->under_way >= UNDER_WAY_MAX)
        r = -EAGAIN;
    scope->under_way++;
    (void) pthread_mutex_unlock(&scope->lock);
    if (r == 0)
        r = ask_start(ask);
    if (r < 0) {
        (void) close(ends[0]);
        ask_end(ask);
        return r;
    }
    return ends[0];
}

/* ---- scopes ---- */

int scope_new(const struct scope_config *config, struct scope **ret_scope, struct fault *fault)
{
    struct scope *scope = calloc(1, sizeof *scope);

    if (!scope)
        return fault_no_memory(fault);
    scope->config = *config;
    (void) pthread_mutex_init(&scope->lock, NULL);
    cond_init(&scope->idle);
    scope->used = calloc(config->replay_len + 1, sizeof *scope->used);
    if (!scope->used || strv_copy((const char *const *) config->names, &scope->names) < 0) {
        scope_free(scope);
        return fault_no_memory(fault);
    }
    *ret_scope = scope;
    return 0;
}

void scope_free(struct scope *scope)
{
    struct fault ignored;

    if (!scope)
        return;
    (void) pthread_mutex_lock(&scope->lock);
    while (scope->under_way > 0)
        (void) pthread_cond_wait(&scope->idle, &scope->lock);
    (void) pthread_mutex_unlock(&scope->lock);
    /* Of a program that was interrupted before it had read its result. */
    if (scope->files > 0)
        (void) files_delete(scope->config.session, WORKSPACE_DIR, strlen(WORKSPACE_DIR), true,
                            &ignored);
    query_records_free(scope->records, scope->records_len);
    strv_free(scope->names);
    free(scope->used);
    (void) pthread_cond_destroy(&scope->idle);
    (void) pthread_mutex_destroy(&scope->lock);
    free(scope);
}

size_t scope_records(struct scope *scope, const struct query_record **ret_records)
{
    size_t len;

    (void) pthread_mutex_lock(&scope->lock);
    while (scope->under_way > 0)
        (void) pthread_cond_wait(&scope->idle, &scope->lock);
    *ret_records = scope->records;
    len = scope->records_len;
    (void) pthread_mutex_unlock(&scope->lock);
    return len;
}
