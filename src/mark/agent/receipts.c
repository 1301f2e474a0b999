#include "mark/agent/receipts.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define STREAM_BYTES_MAX  ((size_t) 8 * 1024)  /* of each stream, in a response */
#define OUTPUT_BYTES_MAX  ((size_t) 64 * 1024) /* of one display that is nothing else */
#define OUTPUTS_BYTES_MAX ((size_t) 256 * 1024)
#define TRACEBACK_MAX     ((size_t) 16 * 1024)
#define FIGURE_BYTES_MAX  ((size_t) 16 * 1024 * 1024)
#define FIGURES_MAX       20

int gathered_init(struct gathered *gathered)
{
    *gathered = (struct gathered){ .steps = json_array(),
                                   .values = json_array(),
                                   .tables = json_array(),
                                   .charts = json_array(),
                                   .artifacts = json_array(),
                                   .notices = json_array() };
    if (gathered->steps && gathered->values && gathered->tables && gathered->charts &&
        gathered->artifacts && gathered->notices)
        return 0;
    gathered_release(gathered);
    return -ENOMEM;
}

void gathered_release(struct gathered *gathered)
{
    json_decref(gathered->steps);
    json_decref(gathered->values);
    json_decref(gathered->tables);
    json_decref(gathered->charts);
    json_decref(gathered->artifacts);
    json_decref(gathered->notices);
    *gathered = (struct gathered){ 0 };
}

struct gathered_mark gathered_mark(const struct gathered *gathered)
{
    return (struct gathered_mark){ .values = json_array_size(gathered->values),
                                   .tables = json_array_size(gathered->tables),
                                   .charts = json_array_size(gathered->charts),
                                   .artifacts = json_array_size(gathered->artifacts),
                                   .dropped = gathered->dropped };
}

/* ---- values, tables, charts ---- */

/* A later value of the same name replaces the earlier one. */
static int value_add(struct gathered *gathered, json_t *value)
{
    const char *name = json_string_value(json_object_get(value, "name"));
    const json_t *before;
    size_t i;

    json_array_foreach (gathered->values, i, before)
        if (strcmp(json_string_value(json_object_get(before, "name")), name) == 0) {
            (void) json_array_remove(gathered->values, i);
            break;
        }
    if (json_array_size(gathered->values) >= VALUES_MAX)
        return -E2BIG;
    return json_array_append(gathered->values, value) < 0 ? -ENOMEM : 0;
}

static int table_add(struct gathered *gathered, json_t *table, size_t bytes)
{
    if (json_array_size(gathered->tables) >= TABLES_MAX ||
        bytes > TABLES_BYTES_MAX - gathered->table_bytes)
        return -E2BIG;
    gathered->table_bytes += bytes;
    return json_array_append(gathered->tables, table) < 0 ? -ENOMEM : 0;
}

static int chart_add(struct gathered *gathered, json_t *chart, size_t bytes)
{
    if (json_array_size(gathered->charts) >= CHARTS_MAX ||
        bytes > CHARTS_BYTES_MAX - gathered->chart_bytes)
        return -E2BIG;
    gathered->chart_bytes += bytes;
    return json_array_append(gathered->charts, chart) < 0 ? -ENOMEM : 0;
}

/* The step whose receipt is read. */
struct gathering {
    struct answer *answer;
    struct session *session; /* or NULL, as the next */
    struct evidence *evidence;
    int64_t n, lines; /* of its code */
};

/* Where it comes from. A line that the code does not have is a lie, and left out. */
static void item_place(const struct gathering *g, json_t *item)
{
    if (json_integer_value(json_object_get(item, "line")) > g->lines)
        (void) json_object_del(item, "line");
    (void) json_object_set_new(item, "step", json_integer(g->n));
}

/* Adds @item under the answer's lock, and tells readers of tables and charts. */
static void item_add(const struct gathering *g, enum handed kind, json_t *item, size_t bytes)
{
    struct answer *answer = g->answer;
    struct evidence *evidence = g->evidence;
    struct gathered *gathered = &answer->gathered;
    json_t *event = NULL;
    int r;

    item_place(g, item);
    (void) pthread_mutex_lock(&answer->lock);
    if (kind == HANDED_VALUE)
        r = value_add(gathered, item);
    else if (kind == HANDED_TABLE)
        r = table_add(gathered, item, bytes);
    else
        r = chart_add(gathered, item, bytes);
    if (r < 0)
        gathered->dropped++;
    (void) pthread_mutex_unlock(&answer->lock);
    if (r < 0)
        return;
    if (kind == HANDED_TABLE) {
        event = json_copy(item);
        (void) json_object_set_new(event, "n",
                                   json_integer((json_int_t) json_array_size(gathered->tables)));
        answer_event(answer, EV_TABLE, event);
    } else if (kind == HANDED_CHART) {
        event = json_pack("{s:I, s:I, s:O}", "n", (json_int_t) json_array_size(gathered->charts),
                          "step", (json_int_t) g->n, "spec", item);
        answer_event(answer, EV_CHART, event);
    }
    if (evidence && kind == HANDED_VALUE)
        (void) evidence_add_value(evidence, item);
    else if (evidence && kind == HANDED_TABLE)
        (void) evidence_add_table(evidence, item);
}

/* ---- figures and files ---- */

static const char *media_type_of(const char *path)
{
    static const char *const types[][2] = {
        { ".csv", "text/csv" },
        { ".png", "image/png" },
        { ".jpg", "image/jpeg" },
        { ".svg", "image/svg+xml" },
        { ".json", "application/json" },
        { ".txt", "text/plain" },
        { ".html", "text/html" },
        { ".pdf", "application/pdf" },
        { ".md", "text/markdown" },
        { ".parquet", "application/vnd.apache.parquet" },
        { ".zip", "application/zip" },
        { ".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
    };
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < ARRAY_LEN(types); i++)
        if (strcmp(dot, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

static void url_add(struct text *url, const char *path)
{
    for (const char *p = path; *p; p++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/", *p))
            text_add(url, p, 1);
        else
            text_printf(url, "%%%02X", (unsigned) (unsigned char) *p);
}

/* A file of the session; one of the same name replaces it. */
static void artifact_add(const struct gathering *g, const char *session_id, const char *path,
                         json_int_t size)
{
    struct answer *answer = g->answer;
    struct gathered *gathered = &answer->gathered;
    struct text url = { 0 };
    const json_t *before;
    json_t *artifact = NULL;
    size_t i;

    text_printf(&url, "/v1/sessions/%s/files/", session_id);
    url_add(&url, path);
    if (!url.failed)
        artifact = json_pack("{s:s, s:I, s:s, s:s, s:I}", "name", path, "size", size, "media_type",
                             media_type_of(path), "url", url.data, "step", (json_int_t) g->n);
    text_release(&url);
    (void) pthread_mutex_lock(&answer->lock);
    json_array_foreach (gathered->artifacts, i, before)
        if (strcmp(json_string_value(json_object_get(before, "name")), path) == 0) {
            (void) json_array_remove(gathered->artifacts, i);
            break;
        }
    if (!artifact || json_array_size(gathered->artifacts) >= ARTIFACTS_MAX) {
        gathered->dropped++;
        json_decref(artifact);
    } else {
        (void) json_array_append_new(gathered->artifacts, artifact);
    }
    (void) pthread_mutex_unlock(&answer->lock);
}

/* Results of queries on their way into the program are not what it wrote. */
static bool is_ours(const char *path)
{
    return strcmp(path, ".mark") == 0 || strncmp(path, ".mark/", 6) == 0;
}

static void files_hide(json_t *receipt)
{
    json_t *files = json_object_get(receipt, "files"), *kept, *file;
    size_t i;

    if (!files)
        return;
    kept = json_array();
    json_array_foreach (files, i, file) {
        const char *path = json_string_value(json_object_get(file, "path"));

        if (!path || !is_ours(path))
            (void) json_array_append(kept, file);
    }
    (void) json_object_set_new(receipt, "files", kept);
}

static void files_gather(const struct gathering *g, const json_t *receipt)
{
    const char *session_id = json_string_value(json_object_get(receipt, "session_id"));
    const json_t *file;
    size_t i;

    json_array_foreach (json_object_get(receipt, "files"), i, file) {
        const char *path = json_string_value(json_object_get(file, "path"));
        const char *change = json_string_value(json_object_get(file, "change"));

        if (session_id && path && change && strcmp(change, "deleted") != 0)
            artifact_add(g, session_id, path, json_integer_value(json_object_get(file, "size")));
    }
}

/* Writes a figure into the workspace; its size, or below 0. */
static int64_t figure_write(struct session *session, const char *path, const char *base64,
                            size_t len)
{
    autofree unsigned char *bytes = malloc(len + 1);
    struct file_upload *upload;
    struct fault fault;
    size_t size;
    bool created;

    if (!bytes || sodium_base642bin(bytes, len + 1, base64, len, "\r\n", &size, NULL,
                                    sodium_base64_VARIANT_ORIGINAL) < 0)
        return -1;
    if (files_upload_begin(session, path, strlen(path), (int64_t) size, &upload, &fault) < 0)
        return -1;
    if (files_upload_write(upload, bytes, size, &fault) < 0) {
        files_upload_abort(upload);
        return -1;
    }
    return files_upload_commit(upload, &created, &fault) < 0 ? -1 : (int64_t) size;
}

/* An image of a display becomes a file; true if it did. */
static bool figure_take(const struct gathering *g, size_t i, json_t *data)
{
    const json_t *image = json_object_get(data, "image/png");
    char path[64];
    int64_t size;

    if (!g->session || !json_is_string(image) || i > FIGURES_MAX ||
        json_string_length(image) > FIGURE_BYTES_MAX * 4 / 3)
        return false;
    (void) snprintf(path, sizeof path, "figures/step-%lld-%zu.png", (long long) g->n, i);
    size = figure_write(g->session, path, json_string_value(image), json_string_length(image));
    if (size < 0)
        return false;
    artifact_add(g, session_id(g->session), path, size);
    return true;
}

/* ---- the receipt as it is kept ---- */

json_t *json_text_cut(const char *text, size_t len, size_t max)
{
    struct text cut = { 0 };
    json_t *json;

    text_add_cut(&cut, text, len, max);
    json = cut.failed ? NULL : json_stringn(cut.data, cut.len);
    text_release(&cut);
    return json;
}

json_t *json_text(const char *text)
{
    size_t len = strlen(text), used;
    json_t *json = json_stringn(text, len);
    autofree char *mended = json ? NULL : malloc(3 * len + 1);

    if (json || !mended)
        return json;
    len = utf8_replace(text, len, mended, 3 * len + 1, &used);
    return json_stringn(mended, len);
}

static void text_member_cut(json_t *object, const char *key, size_t max)
{
    const json_t *text = json_object_get(object, key);

    if (json_is_string(text) && json_string_length(text) > max)
        (void) json_object_set_new(
            object, key, json_text_cut(json_string_value(text), json_string_length(text), max));
}

/* Drops the types of a bundle that are too long to be kept; the plain text is cut. */
static void bundle_shrink(json_t *data, size_t max)
{
    const char *type;
    json_t *value;
    void *next;

    text_member_cut(data, "text/plain", STREAM_BYTES_MAX);
    json_object_foreach_safe (data, next, type, value)
        if (json_is_deep(value, ITEM_DEPTH_MAX) ||
            json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) > max)
            (void) json_object_del(data, type);
}

/* How many figures there were. */
static size_t outputs_gather(const struct gathering *g, json_t *receipt)
{
    json_t *outputs = json_object_get(receipt, "outputs"), *kept = json_array(), *output;
    size_t i, bytes, total = 0, figures = 0;

    json_array_foreach (outputs, i, output) {
        json_t *data = json_object_get(output, "data"), *item = NULL;
        const json_t *plain = json_object_get(data, "text/plain");
        enum handed kind = bundle_read(data, &item, &bytes);

        if (kind == HANDED_NOTHING) {
            if (figure_take(g, figures + 1, data)) {
                figures++;
                (void) json_object_del(data, "image/png");
            }
            if (g->evidence && json_is_string(plain))
                (void) evidence_add_output(g->evidence, json_string_value(plain),
                                           json_string_length(plain));
            bundle_shrink(data, OUTPUT_BYTES_MAX);
            total += json_dumpb(data, NULL, 0, JSON_COMPACT);
            if (total <= OUTPUTS_BYTES_MAX)
                (void) json_array_append(kept, output);
        } else if (kind == HANDED_BAD) {
            (void) pthread_mutex_lock(&g->answer->lock);
            g->answer->gathered.dropped++;
            (void) pthread_mutex_unlock(&g->answer->lock);
        } else {
            item_add(g, kind, item, bytes);
        }
        json_decref(item);
    }
    (void) json_object_set_new(receipt, "outputs", kept);
    return figures;
}

/* The value of the last expression, which may be a chart or a figure too. */
static void result_gather(const struct gathering *g, size_t figures, json_t *receipt)
{
    json_t *data = json_object_get(receipt, "result"), *item = NULL;
    const json_t *plain = json_object_get(data, "text/plain");
    size_t bytes;
    enum handed kind;

    if (!json_is_object(data))
        return;
    kind = bundle_read(data, &item, &bytes);
    if (kind == HANDED_CHART || kind == HANDED_TABLE || kind == HANDED_VALUE)
        item_add(g, kind, item, bytes);
    else if (g->evidence && json_is_string(plain))
        (void) evidence_add_output(g->evidence, json_string_value(plain),
                                   json_string_length(plain));
    json_decref(item);
    if (figure_take(g, figures + 1, data))
        (void) json_object_del(data, "image/png");
    (void) json_object_del(data, "application/vnd.plotly.v1+json");
    bundle_shrink(data, OUTPUT_BYTES_MAX);
}

static void stream_evidence(struct evidence *evidence, const json_t *receipt, const char *key)
{
    const json_t *text = json_object_get(receipt, key);

    if (evidence && json_is_string(text))
        (void) evidence_add_output(evidence, json_string_value(text), json_string_length(text));
}

/* Displays that did not even get into the receipt. */
static void count_left_out(struct answer *answer, const json_t *receipt)
{
    const json_t *truncated = json_object_get(receipt, "truncated");

    (void) pthread_mutex_lock(&answer->lock);
    answer->gathered.dropped += json_integer_value(json_object_get(truncated, "outputs"));
    (void) pthread_mutex_unlock(&answer->lock);
}

static int64_t lines_of(const char *code)
{
    int64_t lines = 1;

    for (; (code = strchr(code, '\n')); code++)
        lines++;
    return lines;
}

int receipts_gather(struct answer *answer, struct session *session, struct evidence *evidence,
                    int64_t n, const char *code, json_t *receipt)
{
    struct gathering g = { answer, session, evidence, n, lines_of(code) };
    json_t *queries = json_object_get(receipt, "queries"), *kept, *step;
    size_t figures;

    files_hide(receipt);
    kept = json_copy(receipt);
    if (!kept)
        return -ENOMEM;
    if (evidence) {
        evidence_set_step(evidence, n);
        (void) evidence_add_code(evidence, code, strlen(code));
    }
    stream_evidence(evidence, receipt, "stdout");
    figures = outputs_gather(&g, kept);
    count_left_out(answer, kept);
    result_gather(&g, figures, kept);
    files_gather(&g, kept);
    text_member_cut(kept, "stdout", STREAM_BYTES_MAX);
    text_member_cut(kept, "stderr", STREAM_BYTES_MAX);
    text_member_cut(json_object_get(kept, "error"), "traceback", TRACEBACK_MAX);
    text_member_cut(json_object_get(kept, "error"), "value", STREAM_BYTES_MAX);
    answer_event(answer, EV_RECEIPT, json_pack("{s:I, s:O}", "n", (json_int_t) n, "receipt", kept));
    step = json_pack("{s:I, s:s, s:o, s:o}", "n", (json_int_t) n, "code", code, "receipt", kept,
                     "queries", queries ? json_incref(queries) : json_array());
    (void) pthread_mutex_lock(&answer->lock);
    if (step)
        (void) json_array_append_new(answer->gathered.steps, step);
    (void) pthread_mutex_unlock(&answer->lock);
    return step ? 0 : -ENOMEM;
}
