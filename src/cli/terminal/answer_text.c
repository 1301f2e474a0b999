#include "cli/terminal/answer_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "cli/terminal/plain_text.h"

#include "base/banned.h"

#define CELL_COLUMNS_MAX  40
#define TABLE_COLUMNS_MAX 24
#define CELL_MAX          64 /* of a number as text */

#define BOLD   "\033[1m"
#define DIM    "\033[2m"
#define RED    "\033[31m"
#define NORMAL "\033[0m"

/* ---- the story ---- */

/* A copy of @text with ANSWER_UNSUPPORTED after each number that is so marked. The offsets are of
 * the text as it was checked, so this comes first. */
static char *mark_numbers(const char *text, const json_t *marks)
{
    size_t len = strlen(text), from = 0, size = 0, i;
    char *copy = NULL;
    json_t *mark;
    FILE *out = open_memstream(&copy, &size);

    if (!out)
        return NULL;
    json_array_foreach (marks, i, mark) {
        const char *kind = json_string_value(json_object_get(mark, "kind"));
        json_int_t end = json_integer_value(json_object_get(mark, "end"));

        if (!kind || strcmp(kind, "unsupported") != 0 || end < (json_int_t) from ||
            end > (json_int_t) len)
            continue;
        fwrite(text + from, 1, (size_t) end - from, out);
        fputs(ANSWER_UNSUPPORTED, out);
        from = (size_t) end;
    }
    fwrite(text + from, 1, len - from, out);
    if (fclose(out) != 0) {
        free(copy);
        return NULL;
    }
    return copy;
}

/* Bold, code and warnings within a line. What is not closed stays as it is. */
static void write_inline(FILE *out, const char *text, size_t len)
{
    static const struct {
        const char *word, *style;
    } kinds[] = { { "**", BOLD }, { "`", DIM } };

    while (len > 0) {
        size_t step = 1;

        if (len >= 3 && memcmp(text, ANSWER_UNSUPPORTED, 3) == 0) {
            fprintf(out, RED ANSWER_UNSUPPORTED NORMAL);
            step = 3;
        } else {
            for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                size_t word = strlen(kinds[i].word);
                const char *end = len > word && memcmp(text, kinds[i].word, word) == 0
                                      ? memmem(text + word, len - word, kinds[i].word, word)
                                      : NULL;

                if (!end || end == text + word)
                    continue;
                fprintf(out, "%s%.*s%s", kinds[i].style, (int) (end - text - (ptrdiff_t) word),
                        text + word, NORMAL);
                step = (size_t) (end - text) + word;
                break;
            }
            if (step == 1)
                fputc(*text, out);
        }
        text += step;
        len -= step;
    }
}

static void write_line(FILE *out, const char *line, size_t len, bool *in_code)
{
    size_t blanks = strspn(line, " "), hashes = strspn(line, "#");

    if (blanks < len && len - blanks >= 3 && memcmp(line + blanks, "```", 3) == 0) {
        *in_code = !*in_code;
        return;
    }
    if (*in_code) {
        fprintf(out, "    " DIM "%.*s" NORMAL "\n", (int) len, line);
    } else if (hashes > 0 && hashes <= 6 && hashes < len && line[hashes] == ' ') {
        fprintf(out, BOLD "%.*s" NORMAL "\n", (int) (len - hashes - 1), line + hashes + 1);
    } else if (blanks + 1 < len && strchr("-*", line[blanks]) && line[blanks + 1] == ' ') {
        fprintf(out, "%*s• ", (int) blanks, "");
        write_inline(out, line + blanks + 2, len - blanks - 2);
        fputc('\n', out);
    } else {
        write_inline(out, line, len);
        fputc('\n', out);
    }
}

int answer_write_story(FILE *out, const char *text, const json_t *marks, bool styled)
{
    autofree char *marked = mark_numbers(text, marks);
    autofree char *plain = marked ? plain_text(marked, strlen(marked)) : NULL;
    bool in_code = false;
    const char *line = plain;

    if (!plain)
        return -ENOMEM;
    while (*line) {
        size_t len = strcspn(line, "\n");

        if (styled)
            write_line(out, line, len, &in_code);
        else
            fprintf(out, "%.*s\n", (int) len, line);
        line += len + (line[len] == '\n');
    }
    return 0;
}

/* ---- tables ---- */

/* A cell as text on one line, for free(). */
static char *cell_text(const json_t *cell)
{
    char number[CELL_MAX], *text;

    if (json_is_string(cell)) {
        text = plain_text(json_string_value(cell), json_string_length(cell));
        for (char *p = text; p && *p; p++)
            if (*p == '\n' || *p == '\t')
                *p = ' ';
        return text;
    }
    if (json_is_integer(cell))
        snprintf(number, sizeof number, "%lld", (long long) json_integer_value(cell));
    else if (json_is_real(cell))
        snprintf(number, sizeof number, "%.10g", json_real_value(cell));
    else
        snprintf(number, sizeof number, "%s",
                 json_is_true(cell)    ? "true"
                 : json_is_false(cell) ? "false"
                                       : "");
    return strdup(number);
}

struct grid {
    size_t columns, rows; /* that are shown; rows without the heading */
    size_t widths[TABLE_COLUMNS_MAX];
    bool right[TABLE_COLUMNS_MAX]; /* numbers */
    char **cells;                  /* (rows + 1) * columns */
};

static void grid_release(struct grid *grid)
{
    for (size_t i = 0; grid->cells && i < (grid->rows + 1) * grid->columns; i++)
        free(grid->cells[i]);
    free(grid->cells);
}

static int grid_fill(struct grid *grid, const json_t *columns, const json_t *rows)
{
    for (size_t row = 0; row <= grid->rows; row++)
        for (size_t col = 0; col < grid->columns; col++) {
            const json_t *cell = row == 0 ? json_object_get(json_array_get(columns, col), "name")
                                          : json_array_get(json_array_get(rows, row - 1), col);
            char *text = cell_text(cell);
            size_t width;

            if (!text)
                return -ENOMEM;
            grid->cells[row * grid->columns + col] = text;
            width = plain_columns(text, strlen(text));
            width = width > CELL_COLUMNS_MAX ? CELL_COLUMNS_MAX : width;
            if (width > grid->widths[col])
                grid->widths[col] = width;
            if (row > 0 && json_is_number(cell))
                grid->right[col] = true;
        }
    return 0;
}

static void write_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
    size_t len = strlen(text), columns = plain_columns(text, len);
    bool cut = columns > CELL_COLUMNS_MAX;

    if (cut) {
        len = plain_fit(text, len, CELL_COLUMNS_MAX - 1);
        columns = plain_columns(text, len) + 1;
    }
    if (right)
        fprintf(out, "%*s", (int) (width - columns), "");
    fprintf(out, "%.*s%s", (int) len, text, cut ? "…" : "");
    if (!right && !last)
        fprintf(out, "%*s", (int) (width - columns), "");
}

static void grid_write(FILE *out, const struct grid *grid, bool styled)
{
    for (size_t row = 0; row <= grid->rows; row++) {
        if (styled && row == 0)
            fputs(DIM, out);
        for (size_t col = 0; col < grid->columns; col++) {
            fputs("  ", out);
            write_cell(out, grid->cells[row * grid->columns + col], grid->widths[col],
                       grid->right[col], col + 1 == grid->columns);
        }
        fprintf(out, "%s\n", styled && row == 0 ? NORMAL : "");
    }
}

int answer_write_table(FILE *out, const json_t *table, size_t rows_max, bool styled)
{
    const json_t *columns = json_object_get(table, "columns");
    const json_t *rows = json_object_get(table, "rows");
    long long all = json_integer_value(json_object_get(table, "row_count"));
    autofree char *title = cell_text(json_object_get(table, "title"));
    size_t shown = json_array_size(rows) < rows_max ? json_array_size(rows) : rows_max;
    size_t width = json_array_size(columns);
    struct grid grid = {
        width < TABLE_COLUMNS_MAX ? width : TABLE_COLUMNS_MAX, shown, { 0 }, { false }, NULL
    };
    int r = title ? 0 : -ENOMEM;

    if (r == 0 && grid.columns > 0) {
        grid.cells = calloc((grid.rows + 1) * grid.columns, sizeof *grid.cells);
        r = grid.cells ? grid_fill(&grid, columns, rows) : -ENOMEM;
    }
    if (r == 0) {
        fprintf(out, "%s%s%s\n", styled ? BOLD : "", title, styled ? NORMAL : "");
        if (grid.columns > 0)
            grid_write(out, &grid, styled);
        if (all > (long long) shown)
            fprintf(out, "  … %lld more rows\n", all - (long long) shown);
        if (width > grid.columns)
            fprintf(out, "  … %zu more columns\n", width - grid.columns);
    }
    grid_release(&grid);
    return r;
}

/* ---- CSV ---- */

static void write_field(FILE *out, const char *text, size_t len)
{
    if (!strpbrk(text, ",\"\r\n") && strlen(text) == len) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"')
            fputc('"', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

/* Numbers exactly, with as many digits as they need. */
static void write_value(FILE *out, const json_t *cell)
{
    if (json_is_string(cell))
        write_field(out, json_string_value(cell), json_string_length(cell));
    else if (json_is_integer(cell))
        fprintf(out, "%lld", (long long) json_integer_value(cell));
    else if (json_is_real(cell))
        fprintf(out, "%.17g", json_real_value(cell));
    else if (json_is_boolean(cell))
        fputs(json_is_true(cell) ? "true" : "false", out);
}

int answer_write_csv(FILE *out, const json_t *table)
{
    const json_t *columns = json_object_get(table, "columns"), *rows;
    json_t *row, *cell;
    size_t i, k;

    json_array_foreach (columns, i, cell) {
        fputs(i ? "," : "", out);
        write_value(out, json_object_get(cell, "name"));
    }
    fputs("\r\n", out);
    rows = json_object_get(table, "rows");
    json_array_foreach (rows, i, row) {
        json_array_foreach (row, k, cell) {
            fputs(k ? "," : "", out);
            write_value(out, cell);
        }
        fputs("\r\n", out);
    }
    return ferror(out) ? -EIO : 0;
}
