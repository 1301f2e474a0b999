/*
 * A table of an answer with all of its rows.
 *
 * The answer has the first thousand. Its programs run once more, from the kept inputs, in a fresh
 * box; before them runs table.py, which has mark.table() write the whole frame as a file. Of the
 * tables with the wanted title, the one whose first rows are those of the answer is taken. If none
 * is, the programs depend on something else than their inputs (the clock, random numbers, versions
 * of packages), and the caller decides whether it wants the table nevertheless.
 *
 * All that comes out of the box was written by a tenant: it is sent as a file and not looked at,
 * except for the rows that are compared.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"
#include "mark/agent/text.h"
#include "mark/export/internal.h"
#include "mark/story/compare.h"

#include "base/banned.h"

#define CANDIDATES_MAX 5 /* as in table.py */
#define FOLDER         ".mark-export"
#define ROWS_BYTES_MAX ((size_t) 2 << 20)
#define DEPTH_MAX      100
#define COPY_BYTES     ((size_t) 256 * 1024)
#define LOOK_US        (60 * USEC_PER_SEC)

extern const char table_program[]; /* table.py */

static const char *const words[] = EXPORT_TABLE_FORMAT_WORDS;
static const char *const media_types[] = {
    [EXPORT_TABLE_CSV] = "text/csv; charset=utf-8; header=present",
    [EXPORT_TABLE_XLSX] = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    [EXPORT_TABLE_PARQUET] = "application/vnd.apache.parquet",
    [EXPORT_TABLE_JSON] = "application/json",
};

struct table_export {
    struct exports *exports;
    const struct caller *caller;
    enum export_table_format format;
    const json_t *table; /* of the answer */
    size_t rank;         /* among those of its title */
    bool changed;
    struct export_file file;
};

/* ---- before ---- */

/* Whether the box can write Parquet. */
static bool has_pyarrow(struct table_export *t, struct session *session)
{
    static const char look[] = "import importlib.util\n"
                               "print(importlib.util.find_spec('pyarrow') is not None)\n";
    struct execution_request request;
    struct execution *execution = NULL;
    struct fault ignored = { 0 };
    json_t *receipt = NULL;
    bool found;

    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = look;
    request.code_len = strlen(look);
    request.limits.wall_us = LOOK_US;
    if (execution_run_here(t->exports->config.service, t->caller, session, &request, &execution,
                           &ignored) == 0)
        (void) execution_receipt(execution, &receipt, &ignored);
    found = strncmp(member_text(receipt, "stdout"), "True", 4) == 0;
    json_decref(receipt);
    execution_unref(execution);
    return found;
}

/* Without it the box is given it, where packages can be had. If that fails, table.py says so. */
static int prepare(void *arg, struct session *session, struct fault *fault)
{
    /* The newest wants NumPy 2, which a system's Python may not have. */
    static const char *const versions[] = { "pyarrow", "pyarrow<19" };
    struct table_export *t = arg;
    struct fault why = { 0 };
    int r = -1;

    (void) fault;
    if (t->format != EXPORT_TABLE_PARQUET || has_pyarrow(t, session))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(versions) && r < 0; i++) {
        const char *const wanted[] = { versions[i], NULL };
        struct install_order order = { .wanted = wanted, .cancel_fd = -1 };
        json_t *result = NULL;

        r = packages_install(t->exports->config.service, t->caller, session, &order, &result, &why);
        json_decref(result);
    }
    if (r < 0)
        service_log(t->exports->config.service, LOG_LEVEL_INFO,
                    "exports: pyarrow could not be installed: %s", why.detail);
    return 0;
}

/* ---- after ---- */

/* A small file of the box; for free(). NULL: there is none. */
static char *read_small(struct session *session, size_t n, const char *end, size_t max,
                        size_t *ret_len)
{
    struct file_reader reader;
    struct fault ignored = { 0 };
    char path[64], *text;
    ssize_t len = -1;

    (void) snprintf(path, sizeof path, FOLDER "/%zu.%s", n, end);
    if (files_open(session, path, strlen(path), &reader, &ignored) < 0)
        return NULL;
    text = reader.size <= (int64_t) max ? malloc((size_t) reader.size + 1) : NULL;
    if (text)
        len = io_read_all(reader.fd, text, (size_t) reader.size);
    (void) close(reader.fd);
    if (len < 0) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    *ret_len = (size_t) len;
    return text;
}

/* The rows that were handed over this time, as an array of one table; NULL: there are none. */
static json_t *read_rows(struct session *session, size_t n)
{
    size_t len;
    autofree char *text = read_small(session, n, "json", ROWS_BYTES_MAX, &len);
    json_t *table = text && !json_too_deep(text, len, DEPTH_MAX)
                        ? json_loadb(text, len, JSON_ALLOW_NUL, NULL)
                        : NULL;

    return table ? json_pack("[o]", table) : NULL;
}

/* The number of the table that is the answer's; else of the one in its place, or 0. */
static size_t choose(struct table_export *t, struct session *session)
{
    json_t *before = json_pack("[O]", t->table), *after;
    size_t n, chosen = 0;

    for (n = 1; n <= CANDIDATES_MAX && (after = read_rows(session, n)); n++) {
        json_t *result = compare_tables(before, after);
        bool equal = json_is_true(json_object_get(json_array_get(result, 0), "equal"));

        json_decref(result);
        json_decref(after);
        if (equal) {
            json_decref(before);
            return n;
        }
        if (n <= t->rank)
            chosen = n;
    }
    json_decref(before);
    t->file.differs = true;
    return chosen;
}

static int copy_data(struct table_export *t, struct session *session, size_t n, struct fault *fault)
{
    autofree char *buf = malloc(COPY_BYTES);
    struct file_reader reader;
    struct out out;
    char path[64];
    ssize_t len = 0;

    (void) snprintf(path, sizeof path, FOLDER "/%zu.data", n);
    if (!buf)
        return fault_no_memory(fault);
    if (files_open(session, path, strlen(path), &reader, fault) < 0)
        return fault_set(fault, PROBLEM_EXPORT_FORMAT, NULL,
                         "the table could not be written; it may need more memory or disk than a "
                         "box has");
    if (out_open(t->exports, ARCHIVE_BYTES_MAX, &out, fault) < 0) {
        (void) close(reader.fd);
        return -1;
    }
    while (!out.error && (len = io_read_all(reader.fd, buf, COPY_BYTES)) > 0)
        out_add(&out, buf, (size_t) len);
    if (len < 0)
        out.error = EIO;
    (void) close(reader.fd);
    return out_finish(&out, &t->file, fault);
}

static int collect(void *arg, struct session *session, struct fault *fault)
{
    struct table_export *t = arg;
    size_t n = choose(t, session), len;
    autofree char *error = n > 0 ? read_small(session, n, "error", 1024, &len) : NULL;

    if (n == 0)
        return fault_set(fault, PROBLEM_EXPORT_DIFFERS, NULL,
                         "the programs of this answer do not make that table any more; recheck "
                         "tells what is different");
    if (t->file.differs && !t->changed)
        return fault_set(fault, PROBLEM_EXPORT_DIFFERS, NULL,
                         "the table is not the one that the answer shows: its programs use the "
                         "clock, random numbers or other packages; take it nevertheless with "
                         "changed=true");
    if (error)
        return fault_set(fault, PROBLEM_EXPORT_FORMAT, "format", "%s",
                         utf8_valid(error, len) ? error : "the table could not be written");
    return copy_data(t, session, n, fault);
}

/* ---- the whole ---- */

/* The case of the answer, with table.py before its own programs. */
static int add_program(json_t *json, const struct table_export *t)
{
    autofree char *title = NULL, *code = NULL;
    json_t *before = json_object_get(json, "before");
    struct text text = { 0 };

    /* A string of JSON in ASCII is one of Python. */
    title = json_dumps(json_object_get(t->table, "title"), JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    text_puts(&text, table_program);
    text_printf(&text, "_mark_export(%s, \"%s\")\ndel _mark_export\n", title ? title : "\"\"",
                words[t->format]);
    code = text_take(&text);
    return title && code ? json_array_append_new(before, json_string(code)) : -1;
}

static size_t rank_of(const json_t *tables, size_t n)
{
    const char *title = member_text(json_array_get(tables, n - 1), "title");
    size_t rank = 0;

    for (size_t i = 0; i < n; i++)
        rank += strcmp(member_text(json_array_get(tables, i), "title"), title) == 0;
    return rank;
}

static int run(struct table_export *t, json_t *json, struct fault *fault)
{
    struct agent_case_hooks hooks = { .begin = prepare, .end = collect, .arg = t };
    json_t *result = NULL;
    int r;

    t->file = (struct export_file){ .fd = -1, .media_type = media_types[t->format] };
    if (add_program(json, t) < 0)
        return fault_no_memory(fault);
    r = agent_case_run_with(t->exports->config.agent, t->caller, json, 0, &hooks, &result, fault);
    json_decref(result);
    if (r < 0 && t->file.fd >= 0)
        (void) close(t->file.fd);
    if (r < 0 && fault->problem == PROBLEM_ATTACHMENT_UNKNOWN)
        return fault_set(fault, PROBLEM_INPUTS_GONE, NULL,
                         "a file that this answer was computed from was deleted; the rows that "
                         "the answer shows are in its html, md and json exports");
    return r;
}

int export_table(struct exports *exports, const struct caller *caller, const char *message_id,
                 int64_t n, enum export_table_format format, bool changed,
                 struct export_file *ret_file, struct fault *fault)
{
    struct export_turn *turn = NULL;
    struct table_export t = {
        .exports = exports, .caller = caller, .format = format, .changed = changed
    };
    const json_t *tables;
    json_t *json = NULL;
    int r;

    if (agent_case(exports->config.agent, caller, message_id, &json, fault) < 0)
        return -1;
    tables = json_object_get(json, "data");
    if (n < 1 || (size_t) n > json_array_size(tables)) {
        (void) fault_set(fault, PROBLEM_ANSWER_TABLE, "n",
                         "there is no table %lld; this answer has %zu", (long long) n,
                         json_array_size(tables));
        json_decref(json);
        return -1;
    }
    t.table = json_array_get(tables, (size_t) n - 1);
    t.rank = rank_of(tables, (size_t) n);
    r = export_turn_begin(exports, principal_text(&caller->principal), true, &turn, fault);
    if (r == 0) {
        r = run(&t, json, fault);
        export_turn_end(turn, r == 0, &t.file);
    }
    if (r == 0) {
        export_name(member_text(t.table, "title"), "", words[format], t.file.name);
        *ret_file = t.file;
    }
    json_decref(json);
    return r;
}
