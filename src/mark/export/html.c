/*
 * As one page: opens offline, and asks for nothing from anywhere.
 *
 * Its policy lets in two scripts, by their hashes: plotly.js, which comes from the Plotly package
 * of the box's template (plotly.c), and page.js. Charts are data in a script element that is not
 * run, in ASCII and without "<". So nothing that a model, a file or a cell says can run here,
 * whatever it looks like. Without Plotly, charts are tables.
 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/base64.h"
#include "base/text/parse.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define ROWS_MAX       1000
#define CHART_ROWS_MAX 200

extern const char page_style[], page_script[]; /* page.css, page.js */

struct page {
    struct out *out;
    json_t *charts; /* of all answers; NULL: without Plotly */
};

/* ---- tables ---- */

static bool is_number(const json_t *column)
{
    const char *type = member_text(column, "type");

    return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
}

static void put_cells(struct out *out, const json_t *cells, const json_t *columns)
{
    const json_t *cell;
    char buf[CELL_MAX];
    size_t i;

    out_puts(out, "<tr>");
    json_array_foreach (cells, i, cell) {
        out_puts(out, is_number(json_array_get(columns, i)) ? "<td class=\"n\">" : "<td>");
        out_html(out, cell_text(cell, buf));
        out_puts(out, "</td>");
    }
    out_puts(out, "</tr>\n");
}

void html_table(struct out *out, const json_t *table, size_t rows_max)
{
    const json_t *columns = json_object_get(table, "columns"), *column, *row;
    const json_t *rows = json_object_get(table, "rows");
    json_int_t count = json_integer_value(json_object_get(table, "row_count"));
    size_t shown = json_array_size(rows) < rows_max ? json_array_size(rows) : rows_max, i;

    out_puts(out, "<table><caption>");
    out_html(out, member_text(table, "title"));
    if (count > (json_int_t) shown)
        out_printf(out, " (the first %zu of %lld rows)", shown, (long long) count);
    out_puts(out, "</caption>\n<thead><tr>");
    json_array_foreach (columns, i, column) {
        out_puts(out, is_number(column) ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
        out_html(out, member_text(column, "name"));
        out_puts(out, "</th>");
    }
    out_puts(out, "</tr></thead>\n<tbody>\n");
    json_array_foreach (rows, i, row) {
        if (i == shown)
            break;
        put_cells(out, row, columns);
    }
    out_puts(out, "</tbody></table>\n");
}

/* ---- an answer ---- */

static void put_chart(struct page *page, const json_t *chart)
{
    json_t *table = chart_table(chart);
    const char *title = chart_title(chart);

    out_puts(page->out, "<figure>\n");
    if (page->charts) {
        out_printf(page->out, "<div class=\"chart\" role=\"img\" data-chart=\"%zu\" aria-label=\"",
                   json_array_size(page->charts));
        out_html(page->out, *title ? title : "Chart");
        out_puts(page->out, "\"></div>\n");
        (void) json_array_append(page->charts, (json_t *) chart);
    } else {
        out_puts(page->out, "<figcaption>Chart: ");
        out_html(page->out, title);
        out_puts(page->out, "</figcaption>\n");
    }
    if (table) {
        out_printf(page->out,
                   "<details%s><summary>Data of the chart</summary><div class=\"wide\">\n",
                   page->charts ? "" : " open");
        html_table(page->out, table, CHART_ROWS_MAX);
        out_puts(page->out, "</div></details>\n");
    }
    out_puts(page->out, "</figure>\n");
    json_decref(table);
}

static void put_numbers(struct out *out, const json_t *numbers)
{
    json_int_t checked = json_integer_value(json_object_get(numbers, "checked"));
    const json_t *unsupported = json_object_get(numbers, "unsupported"), *text;
    size_t i;

    if (checked == 0 && json_array_size(unsupported) == 0)
        return;
    out_printf(out, "<p class=\"note\">Numbers that were computed: %lld.", (long long) checked);
    if (json_array_size(unsupported) > 0) {
        out_puts(out, " <strong>No program computed: ");
        json_array_foreach (unsupported, i, text) {
            out_puts(out, i > 0 ? ", " : "");
            out_html(out, json_is_string(text) ? json_string_value(text) : "");
        }
        out_puts(out, ".</strong>");
    }
    out_puts(out, "</p>\n");
}

static void put_queries(struct out *out, const json_t *step)
{
    const json_t *query;
    char buf[CELL_MAX];
    size_t i;

    json_array_foreach (json_object_get(step, "queries"), i, query) {
        out_puts(out, "<p class=\"note\">Query of ");
        out_html(out, member_text(query, "source"));
        out_puts(out, ", ");
        out_html(out, member_text(query, "status"));
        out_puts(out, ", rows: ");
        out_html(out, cell_text(json_object_get(query, "rows"), buf));
        out_puts(out, "</p><pre><code>");
        out_html(out, member_text(query, "sql"));
        out_puts(out, "</code></pre>\n");
    }
}

static void put_steps(struct out *out, const json_t *answer)
{
    const json_t *step;
    size_t i;

    json_array_foreach (json_object_get(answer, "steps"), i, step) {
        const json_t *receipt = json_object_get(step, "receipt");

        out_printf(out, "<details><summary>Step %zu: ", i + 1);
        out_html(out, member_text(receipt, "status"));
        out_puts(out, "</summary>\n<pre><code>");
        out_html(out, member_text(step, "code"));
        out_puts(out, "</code></pre>\n");
        put_queries(out, step);
        if (*member_text(receipt, "stdout")) {
            out_puts(out, "<pre class=\"output\">");
            out_html(out, member_text(receipt, "stdout"));
            out_puts(out, "</pre>\n");
        }
        out_puts(out, "</details>\n");
    }
}

static int put_item(void *arg, struct item *item, struct fault *fault)
{
    struct page *page = arg;
    struct out *out = page->out;
    const json_t *answer = item->answer, *thing;
    size_t i;

    (void) fault;
    out_puts(out, "<article>\n<h2>");
    out_html(out, item->question);
    out_puts(out, "</h2>\n<div class=\"story\">\n");
    prose_html(out, member_text(answer, "answer_story"), json_object_get(answer, "numbers"),
               json_object_get(answer, "values"));
    out_puts(out, "</div>\n");
    put_numbers(out, json_object_get(answer, "numbers"));
    json_array_foreach (json_object_get(answer, "notices"), i, thing) {
        out_puts(out, "<p class=\"note\">");
        out_html(out, json_is_string(thing) ? json_string_value(thing) : "");
        out_puts(out, "</p>\n");
    }
    json_array_foreach (json_object_get(answer, "visualizations"), i, thing)
        put_chart(page, thing);
    json_array_foreach (json_object_get(answer, "data"), i, thing) {
        out_puts(out, "<div class=\"wide\" tabindex=\"0\">");
        html_table(out, thing, ROWS_MAX);
        out_puts(out, "</div>\n");
    }
    put_steps(out, answer);
    out_puts(out, "<footer>");
    out_html(out, member_text(answer, "model"));
    out_puts(out, json_is_true(json_object_get(answer, "demo")) ? " (a demo), " : ", ");
    out_printf(out, "%.16sZ", member_text(item->message, "created"));
    out_puts(out, "</footer>\n</article>\n");
    return 0;
}

/* ---- the page ---- */

/* 'sha256-…' of a script, as a policy names it. */
static void put_hash(struct out *out, const char *script, size_t len)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    autofree char *text = NULL;

    crypto_hash_sha256(hash, (const unsigned char *) script, len);
    text = base64_encode(hash, sizeof hash);
    if (text)
        out_printf(out, " 'sha256-%s'", text);
    else
        out->error = out->error ? out->error : ENOMEM;
}

static void put_head(struct selection *selection, struct out *out, const char *plotly,
                     size_t plotly_len)
{
    const char *title = selection->chat.title[0] ? selection->chat.title : "Chat";
    char now[FORMAT_UTC_MAX];

    format_utc(clock_wall_us(), now);
    out_puts(out,
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; "
             "form-action 'none'; script-src");
    put_hash(out, page_script, strlen(page_script));
    if (plotly)
        put_hash(out, plotly, plotly_len);
    out_puts(out, "\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<meta name=\"generator\" content=\"Glovebox Mark\">\n<title>");
    out_html(out, title);
    out_printf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<header><h1>", page_style);
    out_html(out, title);
    out_printf(out, "</h1><p class=\"note\">Exported from Mark %.16sZ</p></header>\n<main>\n", now);
}

int export_write_html(struct selection *selection, struct out *out, struct fault *fault)
{
    autofree char *plotly = NULL;
    size_t plotly_len = 0;
    struct page page = { .out = out };
    int r;

    plotly = plotly_script(selection->exports, &plotly_len);
    page.charts = plotly ? json_array() : NULL;
    put_head(selection, out, plotly, plotly_len);
    r = selection_each(selection, false, put_item, &page, fault);
    out_puts(out, "</main>\n");
    if (page.charts && json_array_size(page.charts) > 0) {
        out_puts(out, "<script type=\"application/json\" id=\"charts\">");
        out_json(out, page.charts);
        out_puts(out, "</script>\n<script>");
        out_add(out, plotly, plotly_len);
        out_puts(out, "</script>\n");
    }
    out_printf(out, "<script>%s</script>\n</body>\n</html>\n", page_script);
    json_decref(page.charts);
    return r;
}
