/*
 * As a notebook (nbformat 4.5): runs in plain Jupyter with the packages that the programs import,
 * and compares what it computes with what the answer had.
 *
 * The first code cell (notebook.py) unpacks the inputs into a temporary directory, defines the
 * module mark, and changes into that directory, so that data/sales.csv is where it was; a path that
 * begins with /workspace, as in the box, is translated when a cell is compiled. Programs stay as
 * the model wrote them. Those that failed are shown and not run, as in a session that is rebuilt.
 */
#include <archive.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define OUTPUT_ROWS_MAX 200
#define MARK_MIME       "application/vnd.glovebox.mark+json"
#define PLOTLY_MIME     "application/vnd.plotly.v1+json"

extern const char notebook_program[]; /* notebook.py */

struct notebook {
    struct selection *selection;
    struct out *out;
    int cells, executions;
    bool before; /* the cells so far are of earlier answers */
};

/* ---- cells ---- */

/* Begins a cell, whose source is what is added until cell_end(). */
static void cell_begin(struct notebook *nb, const char *type, const char *id, const char *metadata)
{
    out_printf(nb->out,
               "%s\n  {\"cell_type\": \"%s\", \"id\": \"%s\", \"metadata\": {%s}, \"source\": \"",
               nb->cells++ > 0 ? "," : "", type, id, metadata);
    nb->out->quoted = true;
}

static void cell_end(struct notebook *nb)
{
    nb->out->quoted = false;
    out_puts(nb->out, "\"}");
}

/* The same for code, whose outputs follow until outputs_end(). */
static void outputs_begin(struct notebook *nb, bool ran)
{
    nb->out->quoted = false;
    if (ran)
        out_printf(nb->out, "\", \"execution_count\": %d, \"outputs\": [", ++nb->executions);
    else
        out_puts(nb->out, "\", \"execution_count\": null, \"outputs\": [");
}

static void outputs_end(struct notebook *nb)
{
    out_puts(nb->out, "]}");
}

/* ---- outputs ---- */

static void put_stream(struct notebook *nb, const char *name, const char *text, bool *any)
{
    if (!*text)
        return;
    out_printf(nb->out, "%s{\"output_type\": \"stream\", \"name\": \"%s\", \"text\": \"",
               *any ? ", " : "", name);
    nb->out->quoted = true;
    out_puts(nb->out, text);
    nb->out->quoted = false;
    out_puts(nb->out, "\"}");
    *any = true;
}

static bool is_json_type(const char *type)
{
    size_t len = strlen(type);

    return strcmp(type, "application/json") == 0 ||
           (len > 5 && strcmp(type + len - 5, "+json") == 0);
}

/* Scripts are not kept. */
static bool is_kept(const char *type, const json_t *content)
{
    if (strcmp(type, MARK_MIME) == 0 || strstr(type, "javascript") || strstr(type, "widget"))
        return false;
    return is_json_type(type) || json_is_string(content);
}

static void put_bundle(struct notebook *nb, const json_t *data)
{
    const char *type, *separator = "";
    json_t *content;

    out_puts(nb->out, "{");
    json_object_foreach ((json_t *) data, type, content) {
        json_t *name = json_string(type);

        if (name && is_kept(type, content)) {
            out_puts(nb->out, separator);
            out_json(nb->out, name);
            out_puts(nb->out, ": ");
            out_json(nb->out, content);
            separator = ", ";
        }
        json_decref(name);
    }
    out_puts(nb->out, "}");
}

static void display_begin(struct notebook *nb, bool *any)
{
    out_printf(nb->out, "%s{\"output_type\": \"display_data\", \"metadata\": {}, \"data\": ",
               *any ? ", " : "");
    *any = true;
}

/* What the step handed over: values, and those tables that the answer shows. */
static void put_handed(struct notebook *nb, const json_t *answer, json_int_t n, bool *any)
{
    const json_t *value, *table;
    char buf[CELL_MAX];
    size_t i;

    json_array_foreach (json_object_get(answer, "values"), i, value) {
        json_t *bundle = NULL;

        if (json_integer_value(json_object_get(value, "step")) != n)
            continue;
        display_begin(nb, any);
        bundle = json_pack("{s:s++++}", "text/plain", member_text(value, "name"), " = ",
                           cell_text(json_object_get(value, "value"), buf),
                           *member_text(value, "unit") ? " " : "", member_text(value, "unit"));
        out_json(nb->out, bundle);
        out_puts(nb->out, "}");
        json_decref(bundle);
    }
    json_array_foreach (json_object_get(answer, "data"), i, table) {
        if (json_integer_value(json_object_get(table, "step")) != n)
            continue;
        display_begin(nb, any);
        out_puts(nb->out, "{\"text/plain\": \"");
        nb->out->quoted = true;
        out_puts(nb->out, member_text(table, "title"));
        nb->out->quoted = false;
        out_puts(nb->out, "\", \"text/html\": \"");
        nb->out->quoted = true;
        html_table(nb->out, table, OUTPUT_ROWS_MAX);
        nb->out->quoted = false;
        out_puts(nb->out, "\"}}");
    }
}

static void put_charts(struct notebook *nb, const json_t *answer, bool *any)
{
    const json_t *chart;
    size_t i;

    json_array_foreach (json_object_get(answer, "visualizations"), i, chart) {
        json_t *plain = json_pack("s+", "Chart: ", chart_title(chart));

        display_begin(nb, any);
        out_puts(nb->out, "{\"text/plain\": ");
        out_json(nb->out, plain);
        out_puts(nb->out, ", \"" PLOTLY_MIME "\": ");
        out_json(nb->out, chart);
        out_puts(nb->out, "}}");
        json_decref(plain);
    }
}

/* @last: of the answer's programs that ended well. Which of them drew a chart is not kept, so all
 * are shown there. */
static void put_outputs(struct notebook *nb, const json_t *answer, const json_t *step, bool last)
{
    const json_t *receipt = json_object_get(step, "receipt"), *output;
    const json_t *result = json_object_get(receipt, "result");
    bool any = false;
    size_t i;

    put_stream(nb, "stdout", member_text(receipt, "stdout"), &any);
    put_stream(nb, "stderr", member_text(receipt, "stderr"), &any);
    json_array_foreach (json_object_get(receipt, "outputs"), i, output) {
        display_begin(nb, &any);
        put_bundle(nb, json_object_get(output, "data"));
        out_puts(nb->out, "}");
    }
    put_handed(nb, answer, json_integer_value(json_object_get(step, "n")), &any);
    if (last)
        put_charts(nb, answer, &any);
    if (json_is_object(result)) {
        out_printf(nb->out,
                   "%s{\"output_type\": \"execute_result\", \"execution_count\": %d, \"metadata\": "
                   "{}, \"data\": ",
                   any ? ", " : "", nb->executions);
        put_bundle(nb, result);
        out_puts(nb->out, "}");
    }
}

/* ---- an answer ---- */

static bool ended_well(const json_t *step)
{
    return strcmp(member_text(json_object_get(step, "receipt"), "status"), "ok") == 0;
}

static void put_step(struct notebook *nb, const struct item *item, size_t i, bool last)
{
    const json_t *step = json_array_get(json_object_get(item->answer, "steps"), i);
    const json_t *receipt = json_object_get(step, "receipt");
    char id[48];

    (void) snprintf(id, sizeof id, "a%d-step-%zu", item->n, i + 1);
    if (ended_well(step)) {
        cell_begin(nb, "code", id, "");
        out_puts(nb->out, member_text(step, "code"));
        outputs_begin(nb, true);
        put_outputs(nb, item->answer, step, last);
        outputs_end(nb);
        return;
    }
    cell_begin(nb, "markdown", id, "");
    out_puts(nb->out, "This program failed (");
    md_text(nb->out, member_text(receipt, "status"), false);
    out_puts(nb->out, ") and is not run here:\n\n");
    md_fence(nb->out, "python", member_text(step, "code"));
    cell_end(nb);
}

static void put_text(struct notebook *nb, const struct item *item, const char *what)
{
    autofree char *story = prose_markdown(member_text(item->answer, "answer_story"), 2);
    char id[48];

    (void) snprintf(id, sizeof id, "a%d-%s", item->n, what);
    cell_begin(nb, "markdown", id, "");
    if (strcmp(what, "question") == 0) {
        md_question(nb->out, item->question);
        if (item->before)
            out_puts(nb->out,
                     "An earlier answer of this chat, whose variables the next may use.\n");
    } else if (story) {
        out_puts(nb->out, story);
    } else {
        nb->out->error = nb->out->error ? nb->out->error : ENOMEM;
    }
    cell_end(nb);
}

static void put_call(struct notebook *nb, const char *id, const char *code)
{
    cell_begin(nb, "code", id, "\"tags\": [\"check\"]");
    out_puts(nb->out, code);
    outputs_begin(nb, false);
    outputs_end(nb);
}

static int put_item(void *arg, struct item *item, struct fault *fault)
{
    struct notebook *nb = arg;
    const json_t *steps = json_object_get(item->answer, "steps");
    size_t last = json_array_size(steps);
    char id[48], code[128];

    (void) fault;
    if (nb->before && !item->before)
        put_call(nb, "forget", "_mark_notebook.forget()  # what came before is not compared");
    nb->before = item->before;
    put_text(nb, item, "question");
    while (last > 0 && !ended_well(json_array_get(steps, last - 1)))
        last--;
    for (size_t i = 0; i < json_array_size(steps); i++)
        put_step(nb, item, i, i + 1 == last);
    if (item->before)
        return 0;
    put_text(nb, item, "story");
    (void) snprintf(id, sizeof id, "a%d-check", item->n);
    (void) snprintf(code, sizeof code, "_mark_notebook.check(\"%s\")", item->id);
    put_call(nb, id, code);
    return 0;
}

/* ---- the whole ---- */

static void put_head(struct notebook *nb, const struct inputs *inputs)
{
    const char *packages;
    json_t *unused;

    out_puts(nb->out, "{\"cells\": [");
    cell_begin(nb, "markdown", "title", "");
    out_puts(nb->out, "# ");
    md_text(nb->out, nb->selection->chat.title[0] ? nb->selection->chat.title : "Chat", false);
    out_puts(nb->out, "\n\nRun all cells: the last one says whether the values are those of the "
                      "answer.\n\n");
    json_object_foreach (inputs->packages, packages, unused) {
        (void) unused;
        out_puts(nb->out, "Computed with ");
        md_text(nb->out, packages, false);
        out_puts(nb->out, ".\n\n");
    }
    cell_end(nb);
}

static void put_setup(struct notebook *nb, int embedded)
{
    cell_begin(nb, "code", "setup",
               "\"tags\": [\"setup\"], \"jupyter\": {\"source_hidden\": true}");
    out_puts(nb->out, notebook_program);
    if (embedded < 0) {
        out_puts(nb->out, "_mark_notebook = _MarkNotebook(None)\nimport mark");
    } else {
        out_puts(nb->out, "_mark_notebook = _MarkNotebook(\"\"\"\n");
        out_base64(nb->out, embedded);
        out_puts(nb->out, "\"\"\")\nimport mark");
    }
    outputs_begin(nb, false);
    outputs_end(nb);
}

static void put_tail(struct notebook *nb, const struct inputs *inputs)
{
    const char *packages;
    json_t *list = json_array(), *about, *unused;

    json_object_foreach (inputs->packages, packages, unused) {
        (void) unused;
        (void) json_array_append_new(list, json_string(packages));
    }
    about = json_pack("{s:s, s:s?, s:o}", "chat_id", nb->selection->chat.id, "message_id",
                      nb->selection->message_id[0] ? nb->selection->message_id : NULL, "packages",
                      list);
    put_call(nb, "summary", "_mark_notebook.summary()");
    out_puts(nb->out, "\n ],\n \"metadata\": {\"kernelspec\": {\"display_name\": \"Python 3\", "
                      "\"language\": \"python\", \"name\": \"python3\"}, \"language_info\": "
                      "{\"name\": \"python\"}, \"glovebox\": ");
    out_json(nb->out, about);
    out_puts(nb->out, "},\n \"nbformat\": 4, \"nbformat_minor\": 5}\n");
    json_decref(about);
}

int notebook_write(struct selection *selection, const struct inputs *inputs, int embedded,
                   struct out *out, struct fault *fault)
{
    struct notebook nb = { .selection = selection, .out = out };

    put_head(&nb, inputs);
    put_setup(&nb, embedded);
    if (selection_each(selection, true, put_item, &nb, fault) < 0)
        return -1;
    put_tail(&nb, inputs);
    return 0;
}

/* The inputs as a zip in a scratch file, at its start. */
static int pack_inputs(struct selection *selection, const struct inputs *inputs, int *ret_fd,
                       struct fault *fault)
{
    autoclose int fd = nameless_open(selection->exports);
    struct archive *zip = fd < 0 ? NULL : zip_open(fd);
    int r;

    if (!zip)
        return zip_fault(fault);
    r = inputs_pack(selection, inputs, zip, "", fault);
    if (zip_close(zip) < 0 && r == 0)
        r = zip_fault(fault);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = zip_fault(fault);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

int export_write_ipynb(struct selection *selection, struct out *out, struct fault *fault)
{
    struct inputs inputs;
    autoclose int fd = -1;
    int r;

    if (inputs_collect(selection, &inputs, fault) < 0)
        return -1;
    if (inputs.bytes > EMBEDDED_MAX)
        r = fault_set(fault, PROBLEM_EXPORT_TOO_LARGE, "format",
                      "the files and query results of this notebook take %lld MB, and at most %lld "
                      "fit into one; take format=zip, which has them beside it",
                      (long long) (inputs.bytes >> 20), (long long) (EMBEDDED_MAX >> 20));
    else
        r = pack_inputs(selection, &inputs, &fd, fault);
    if (r == 0)
        r = notebook_write(selection, &inputs, fd, out, fault);
    inputs_release(&inputs);
    return r;
}

/* The notebook first goes to a file of its own: a zip wants to know how long it is. */
static int zip_notebook(struct selection *selection, const struct inputs *inputs,
                        struct archive *zip, struct fault *fault)
{
    struct export_file file = { .fd = -1 };
    autoclose int fd = -1;
    struct out out;

    if (out_open(selection->exports, EXPORT_BYTES_MAX, &out, fault) < 0)
        return -1;
    if (notebook_write(selection, inputs, -1, &out, fault) < 0) {
        out_release(&out);
        return -1;
    }
    if (out_finish(&out, &file, fault) < 0)
        return -1;
    fd = file.fd;
    return zip_add_fd(zip, "notebook.ipynb", fd, file.size) < 0 ? zip_fault(fault) : 0;
}

int export_write_zip(struct selection *selection, struct out *out, struct fault *fault)
{
    struct inputs inputs;
    struct archive *zip = NULL;
    off_t size;
    int r;

    if (inputs_collect(selection, &inputs, fault) < 0)
        return -1;
    zip = zip_open(fileno(out->file));
    if (inputs.bytes > out->max)
        r = fault_set(fault, PROBLEM_EXPORT_TOO_LARGE, NULL,
                      "the files and query results of this chat are too large for one archive");
    else
        r = zip ? zip_notebook(selection, &inputs, zip, fault) : zip_fault(fault);
    if (r == 0)
        r = inputs_pack(selection, &inputs, zip, "inputs/", fault);
    if (zip && zip_close(zip) < 0 && r == 0)
        r = zip_fault(fault);
    inputs_release(&inputs);
    size = lseek(fileno(out->file), 0, SEEK_END);
    out->bytes = size;
    return r;
}
