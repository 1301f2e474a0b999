/*
 * A profile as a short text for a model. Everything in it was written by strangers: names and
 * values are in quotes, on one line, with control characters and marks of direction escaped, so
 * that none looks like a line of ours.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/attach/internal.h"

#include "base/banned.h"

#define NAME_MAX_  80
#define VALUE_MAX_ 48
#define QUOTED_MAX (6 * 80 + 8)
#define LINE_BYTES ((size_t) 2048)
#define MORE_BYTES 64 /* kept free for the line that says what is missing */

/* Text within a bound; a line is there completely or not at all. */
struct sheet {
    char *text;
    size_t len, max;
    bool full;
};

static void add(struct sheet *sheet, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct sheet *sheet, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (sheet->full || len < 0 || (size_t) len >= sizeof line ||
        (size_t) len + MORE_BYTES > sheet->max - sheet->len) {
        sheet->full = true;
        return;
    }
    memcpy(sheet->text + sheet->len, line, (size_t) len + 1);
    sheet->len += (size_t) len;
}

static bool is_odd(const unsigned char *u, size_t len)
{
    if (len == 1)
        return u[0] < 0x20 || u[0] == 0x7f;
    if (len == 2)
        return (u[0] == 0xc2 && u[1] < 0xa0) || (u[0] == 0xd8 && u[1] == 0x9c);
    return len == 3 && ((u[0] == 0xe2 && (u[1] == 0x80 || u[1] == 0x81)) ||
                        (u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf));
}

/* @text in quotes, at most @max bytes of it. */
static const char *quote(const char *text, size_t max, char buf[QUOTED_MAX])
{
    size_t len = strlen(text), out = 0, unit, at = 0;

    buf[out++] = '"';
    for (; at < len && at < max && out + 16 < QUOTED_MAX; at += unit) {
        const unsigned char *u = (const unsigned char *) text + at;

        if (utf8_next(text + at, len - at, &unit) != UTF8_CHAR) {
            buf[out++] = '?';
        } else if (is_odd(u, unit)) {
            unsigned code = unit == 1 ? u[0]
                            : unit == 2
                                ? (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu)
                                : (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);

            out += (size_t) snprintf(buf + out, 8, "\\u%04x", code);
        } else {
            if (*u == '"' || *u == '\\')
                buf[out++] = '\\';
            memcpy(buf + out, u, unit);
            out += unit;
        }
    }
    (void) snprintf(buf + out, QUOTED_MAX - out, "%s\"", at < len ? "\u2026" : "");
    return buf;
}

/* A value of JSON as text. */
static const char *scalar(const json_t *value, char buf[QUOTED_MAX])
{
    if (json_is_string(value))
        return quote(json_string_value(value), VALUE_MAX_, buf);
    if (json_is_integer(value))
        (void) snprintf(buf, QUOTED_MAX, "%lld", (long long) json_integer_value(value));
    else if (json_is_real(value))
        (void) snprintf(buf, QUOTED_MAX, "%.15g", json_real_value(value));
    else
        (void) snprintf(buf, QUOTED_MAX, "%s", json_is_true(value) ? "true" : "false");
    return buf;
}

static long long count_of(const json_t *object, const char *name)
{
    return (long long) json_integer_value(json_object_get(object, name));
}

/* "; NAME a, b, c" of a list, into @line. */
static void put_list(char *line, size_t size, const char *words, const json_t *list)
{
    char buf[QUOTED_MAX];
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item) {
        size_t at = strlen(line);

        (void) snprintf(line + at, size - at, "%s%s", i == 0 ? words : ", ", scalar(item, buf));
    }
}

static void add_column(struct sheet *sheet, const json_t *column)
{
    const json_t *low = json_object_get(column, "min"), *high = json_object_get(column, "max");
    const char *name = json_string_value(json_object_get(column, "name"));
    const char *type = json_string_value(json_object_get(column, "type"));
    const json_t *values = json_object_get(column, "values");
    char line[LINE_BYTES - 64] = "", a[QUOTED_MAX], b[QUOTED_MAX];
    size_t at;

    (void) snprintf(line, sizeof line, "%s %s", quote(name ? name : "", NAME_MAX_, a),
                    type ? type : "text");
    if (low && high) {
        at = strlen(line);
        (void) snprintf(line + at, sizeof line - at, ", %s to %s", scalar(low, a), scalar(high, b));
    }
    at = strlen(line);
    if (count_of(column, "nulls") > 0)
        (void) snprintf(line + at, sizeof line - at, ", %lld missing", count_of(column, "nulls"));
    at = strlen(line);
    if (count_of(column, "odd") > 0)
        (void) snprintf(line + at, sizeof line - at, ", %lld not of that type",
                        count_of(column, "odd"));
    at = strlen(line);
    if (json_object_get(column, "distinct"))
        (void) snprintf(line + at, sizeof line - at, ", %s%lld distinct",
                        json_is_false(json_object_get(column, "distinct_exact")) ? "over " : "",
                        count_of(column, "distinct"));
    put_list(line, sizeof line, "; formats ", json_object_get(column, "formats"));
    if (json_array_size(values) > 0)
        put_list(line, sizeof line, "; values ", values);
    else
        put_list(line, sizeof line, "; e.g. ", json_object_get(column, "examples"));
    put_list(line, sizeof line, "; note ", json_object_get(column, "notes"));
    at = strlen(line);
    line[at - utf8_partial_end(line, at)] = '\0'; /* it may be full */
    add(sheet, "- %s\n", line);
}

static void add_table(struct sheet *sheet, const char *what, const json_t *table)
{
    const json_t *columns = json_object_get(table, "columns"), *item;
    const char *name = json_string_value(json_object_get(table, "name"));
    long long sampled = count_of(table, "sampled"), rows = count_of(table, "rows");
    char buf[QUOTED_MAX];
    size_t i;

    if (name)
        add(sheet, "%s %s: ", what, quote(name, NAME_MAX_, buf));
    if (json_object_get(table, "rows"))
        add(sheet, "%s%lld rows, %lld columns",
            json_is_false(json_object_get(table, "rows_exact")) ? "more than " : "", rows,
            count_of(table, "columns_total"));
    if (sampled > 0 && sampled < rows)
        add(sheet, "; what follows is of the first %lld rows", sampled);
    if (count_of(table, "duplicate_rows") > 0)
        add(sheet, "; %lld duplicate rows", count_of(table, "duplicate_rows"));
    if (json_is_false(json_object_get(table, "header")))
        add(sheet, "; no header row");
    if (name || json_object_get(table, "rows"))
        add(sheet, "\n");
    json_array_foreach (columns, i, item) {
        add_column(sheet, item);
        if (sheet->full)
            break;
    }
    if (!sheet->full && count_of(table, "columns_total") > (long long) i)
        add(sheet, "- (%lld more columns)\n", count_of(table, "columns_total") - (long long) i);
    json_array_foreach (json_object_get(table, "notes"), i, item)
        add(sheet, "note: %s\n", scalar(item, buf));
}

static void add_shape(struct sheet *sheet, const json_t *shape)
{
    autofree char *text = shape ? json_dumps(shape, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    if (text)
        add(sheet, "shape: %.1500s\n", text);
}

static void add_profile(struct sheet *sheet, const json_t *profile)
{
    const char *error = json_string_value(json_object_get(profile, "error"));
    const char *encoding = json_string_value(json_object_get(profile, "encoding"));
    const char *delimiter = json_string_value(json_object_get(profile, "delimiter"));
    const json_t *item;
    char buf[QUOTED_MAX];
    size_t i;

    add(sheet, "format %s", json_string_value(json_object_get(profile, "format")));
    if (encoding)
        add(sheet, ", encoding %s", quote(encoding, VALUE_MAX_, buf));
    if (delimiter)
        add(sheet, ", delimiter %s", quote(delimiter, VALUE_MAX_, buf));
    add(sheet, "\n");
    if (error)
        add(sheet, "not profiled: %s\n", quote(error, 2 * NAME_MAX_, buf));
    add_table(sheet, "", profile);
    json_array_foreach (json_object_get(profile, "sheets"), i, item)
        add_table(sheet, "sheet", item);
    json_array_foreach (json_object_get(profile, "tables"), i, item)
        add_table(sheet, "table", item);
    add_shape(sheet, json_object_get(profile, "shape"));
}

char *attachment_describe(const struct store_attachment *attachment, size_t max)
{
    struct sheet sheet = { .max = max };
    json_t *profile = attachment->profile ? json_loads(attachment->profile, 0, NULL) : NULL;

    sheet.text = malloc(max > 0 ? max : 1);
    if (sheet.text) {
        sheet.text[0] = '\0';
        if (json_is_object(profile))
            add_profile(&sheet, profile);
        else
            add(&sheet, "no profile\n");
        if (sheet.full && max - sheet.len > MORE_BYTES / 2)
            (void) snprintf(sheet.text + sheet.len, max - sheet.len, "%s(cut: there is more)\n",
                            sheet.len > 0 && sheet.text[sheet.len - 1] != '\n' ? "\n" : "");
    }
    json_decref(profile);
    return sheet.text;
}
