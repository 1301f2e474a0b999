/*
 * As Markdown, for GitHub, Pandoc and people who read the file itself. What comes from elsewhere
 * stays in its place: text is escaped, code is in a fence longer than any in it, and stories are
 * written anew from their tree (prose.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define ROWS_MAX       100
#define CHART_ROWS_MAX 50
#define HEADING_MAX    160

/* ---- pieces ---- */

void md_text(struct out *out, const char *text, bool cell)
{
    size_t digits = strspn(text, "0123456789");
    /* At the begin of a line of a quote. */
    const char *list = digits > 0 && !cell ? text + digits : NULL;

    for (const char *p = text; *p; p++) {
        if (*p == '\n' && cell)
            out_puts(out, "<br>");
        else if ((unsigned char) *p < ' ' || *p == 127)
            out_add(out, " ", 1);
        else if (strchr("\\`*_{}[]<>#|~&$!", *p) || (p == text && !cell && strchr("+-=", *p)) ||
                 (p == list && strchr(".)", *p)))
            out_printf(out, "\\%c", *p);
        else
            out_add(out, p, 1);
    }
}

void md_fence(struct out *out, const char *language, const char *code)
{
    size_t longest = 0, run = 0, len = strlen(code);
    autofree char *fence = NULL;

    for (const char *p = code; *p; p++) {
        run = *p == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    fence = malloc(longest + 4);
    if (!fence) {
        out->error = out->error ? out->error : ENOMEM;
        return;
    }
    longest = longest < 3 ? 3 : longest + 1;
    memset(fence, '`', longest);
    fence[longest] = '\0';
    out_printf(out, "%s%s\n", fence, language);
    for (const char *p = code; *p; p++) /* one alone would be a line of its own to some readers */
        out_add(out, *p == '\r' ? "\n" : p, *p == '\r' && p[1] == '\n' ? 0 : 1);
    out_printf(out, "%s%s\n\n", len > 0 && code[len - 1] == '\n' ? "" : "\n", fence);
}

const char *cell_text(const json_t *cell, char buf[CELL_MAX])
{
    if (json_is_string(cell))
        return json_string_value(cell);
    if (json_is_integer(cell))
        (void) snprintf(buf, CELL_MAX, "%lld", (long long) json_integer_value(cell));
    else if (json_is_real(cell))
        (void) snprintf(buf, CELL_MAX, "%.15g", json_real_value(cell));
    else
        (void) snprintf(buf, CELL_MAX, "%s",
                        json_is_true(cell)    ? "true"
                        : json_is_false(cell) ? "false"
                                              : "");
    return buf;
}

static bool is_number(const json_t *column)
{
    const char *type = member_text(column, "type");

    return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
}

void md_table(struct out *out, const json_t *table, size_t rows_max)
{
    const json_t *columns = json_object_get(table, "columns"), *column;
    const json_t *rows = json_object_get(table, "rows"), *row, *cell;
    json_int_t count = json_integer_value(json_object_get(table, "row_count"));
    size_t shown = json_array_size(rows) < rows_max ? json_array_size(rows) : rows_max, i, j;
    char buf[CELL_MAX];

    if (json_array_size(columns) == 0)
        return;
    json_array_foreach (columns, i, column) {
        out_puts(out, "| ");
        md_text(out, member_text(column, "name"), true);
        out_puts(out, " ");
    }
    out_puts(out, "|\n");
    json_array_foreach (columns, i, column)
        out_puts(out, is_number(column) ? "|---:" : "|---");
    out_puts(out, "|\n");
    json_array_foreach (rows, i, row) {
        if (i == shown)
            break;
        json_array_foreach (row, j, cell) {
            out_puts(out, "| ");
            md_text(out, cell_text(cell, buf), true);
            out_puts(out, " ");
        }
        out_puts(out, "|\n");
    }
    out_puts(out, "\n");
    if (count > (json_int_t) shown)
        out_printf(out, "The first %zu of %lld rows.\n\n", shown, (long long) count);
}

/* ---- an answer ---- */

/* The question is the heading if it is a short line; else its begin is, and all of it is quoted. */
void md_question(struct out *out, const char *question)
{
    size_t len = strcspn(question, "\r\n");
    bool whole = !question[len] && len <= HEADING_MAX;
    autofree char *head = NULL;

    while (len > HEADING_MAX || (len > 0 && ((unsigned char) question[len] & 0xc0) == 0x80))
        len--;
    head = strndup(question, len);
    if (!head) {
        out->error = out->error ? out->error : ENOMEM;
        return;
    }
    out_puts(out, "## ");
    md_text(out, *head ? head : "Question", false);
    out_puts(out, whole ? "\n\n" : " …\n\n");
    for (const char *line = question; !whole && *line;) {
        size_t n = strcspn(line, "\r\n");
        autofree char *text = strndup(line, n);

        out_puts(out, "> ");
        md_text(out, text ? text : "", false);
        out_puts(out, "\\\n");
        line += n;
        line += strspn(line, "\r\n");
        if (!*line)
            out_puts(out, ">\n\n");
    }
}

static void put_story(struct out *out, const json_t *answer)
{
    const json_t *numbers = json_object_get(answer, "numbers"), *text;
    const json_t *unsupported = json_object_get(numbers, "unsupported");
    json_int_t checked = json_integer_value(json_object_get(numbers, "checked"));
    autofree char *story = prose_markdown(member_text(answer, "answer_story"), 2);
    size_t i;

    if (!story) {
        out->error = out->error ? out->error : ENOMEM;
        return;
    }
    out_printf(out, "%s\n", story);
    if (checked > 0)
        out_printf(out, "*Numbers that were computed: %lld.*\n", (long long) checked);
    if (json_array_size(unsupported) > 0) {
        out_puts(out, "**Numbers that no program computed:** ");
        json_array_foreach (unsupported, i, text) {
            out_puts(out, i > 0 ? ", " : "");
            md_text(out, json_is_string(text) ? json_string_value(text) : "", false);
        }
        out_puts(out, "\n");
    }
    out_puts(out, "\n");
}

static void put_tables(struct out *out, const json_t *answer)
{
    const json_t *item;
    json_t *table;
    size_t i;

    json_array_foreach (json_object_get(answer, "data"), i, item) {
        out_printf(out, "**Table %zu:** ", i + 1);
        md_text(out, member_text(item, "title"), false);
        out_puts(out, "\n\n");
        md_table(out, item, ROWS_MAX);
    }
    json_array_foreach (json_object_get(answer, "visualizations"), i, item) {
        out_printf(out, "**Chart %zu:** ", i + 1);
        md_text(out, chart_title(item), false);
        table = chart_table(item);
        out_puts(out, table ? "\n\n" : " (see the HTML export)\n\n");
        if (table)
            md_table(out, table, CHART_ROWS_MAX);
        json_decref(table);
    }
}

static void put_steps(struct out *out, const json_t *answer)
{
    const json_t *step;
    size_t i;

    json_array_foreach (json_object_get(answer, "steps"), i, step) {
        const json_t *receipt = json_object_get(step, "receipt");
        const char *output = member_text(receipt, "stdout");

        out_printf(out, "<details>\n<summary>Step %zu: ", i + 1);
        out_html(out, member_text(receipt, "status"));
        out_puts(out, "</summary>\n\n");
        md_fence(out, "python", member_text(step, "code"));
        if (*output)
            md_fence(out, "text", output);
        out_puts(out, "</details>\n\n");
    }
}

static int put_answer(void *arg, struct item *item, struct fault *fault)
{
    struct out *out = arg;
    const json_t *notice;
    size_t i;

    (void) fault;
    md_question(out, item->question);
    put_story(out, item->answer);
    json_array_foreach (json_object_get(item->answer, "notices"), i, notice) {
        out_puts(out, "> ");
        md_text(out, json_is_string(notice) ? json_string_value(notice) : "", false);
        out_puts(out, "\n\n");
    }
    put_tables(out, item->answer);
    put_steps(out, item->answer);
    out_puts(out, "Model: ");
    md_text(out, member_text(item->answer, "model"), false);
    out_printf(out, "%s. Answered ",
               json_is_true(json_object_get(item->answer, "demo")) ? " (a demo)" : "");
    out_printf(out, "%.16sZ.\n\n", member_text(item->message, "created"));
    return 0;
}

int export_write_md(struct selection *selection, struct out *out, struct fault *fault)
{
    char now[FORMAT_UTC_MAX];

    format_utc(clock_wall_us(), now);
    out_puts(out, "# ");
    md_text(out, selection->chat.title[0] ? selection->chat.title : "Chat", false);
    out_printf(out, "\n\nExported from Mark %.16sZ, chat `%s`.\n\n", now, selection->chat.id);
    return selection_each(selection, false, put_answer, out, fault);
}
