#include "mark/sample.h"

#include <errno.h>
#include <string.h>

#include "base/autoclean.h"

#include "base/banned.h"

/* Embedded, NUL-terminated. */
extern const char mark_sample_sales[], mark_sample_products[], mark_sample_regions[];
extern const char mark_sample_shop[], mark_sample_roles[];

const char mark_sample_names[] = "sales products regions sql sql-roles";

static const struct {
    const char *name, *text;
} samples[] = {
    { "sales", mark_sample_sales },     { "products", mark_sample_products },
    { "regions", mark_sample_regions }, { "sql", mark_sample_shop },
    { "sql-roles", mark_sample_roles },
};

/* The rows of a CSV file, without its header and its last line break. */
static int print_rows(const char *csv, FILE *out)
{
    const char *rows = strchr(csv, '\n') + 1;
    size_t len = strlen(rows);

    while (len > 0 && rows[len - 1] == '\n')
        len--;
    return fwrite(rows, 1, len, out) == len ? 0 : -EIO;
}

/* A line "@NAME@" of a script stands for the rows of that file. */
static int print_line(const char *line, size_t len, FILE *out)
{
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        size_t name = strlen(samples[i].name);

        if (len == name + 2 && line[0] == '@' && line[len - 1] == '@' &&
            memcmp(line + 1, samples[i].name, name) == 0)
            return print_rows(samples[i].text, out) < 0 || fputc('\n', out) == EOF ? -EIO : 0;
    }
    return fwrite(line, 1, len, out) == len && fputc('\n', out) != EOF ? 0 : -EIO;
}

int mark_sample_print(const char *name, FILE *out)
{
    const char *text = name ? NULL : samples[0].text;
    int r = 0;

    for (size_t i = 0; name && i < ARRAY_LEN(samples); i++)
        if (strcmp(samples[i].name, name) == 0)
            text = samples[i].text;
    if (!text)
        return -ENOENT;
    while (r == 0 && *text) {
        size_t len = strcspn(text, "\n");

        r = print_line(text, len, out);
        text += len + (text[len] ? 1 : 0);
    }
    return r == 0 && fflush(out) != 0 ? -EIO : r;
}
