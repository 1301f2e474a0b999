/* Bundles of the module mark and of plotly: checked and copied. */
#include <string.h>

#include "mark/agent/receipts.h"

#include "base/banned.h"

#define MARK_TYPE   "application/vnd.glovebox.mark+json"
#define PLOTLY_TYPE "application/vnd.plotly.v1+json"

#define NAME_MAX_BYTES  64
#define UNIT_MAX        64
#define FORMAT_MAX      64
#define TITLE_MAX       500
#define WORD_VALUE_MAX  2000 /* of a value that is text */
#define COLUMNS_MAX     1000
#define COLUMN_NAME_MAX 1000

static const char *const column_types[] = { "integer", "number", "text",
                                            "boolean", "date",   "datetime" };

static bool name_valid(const char *name)
{
    size_t len = name ? strlen(name) : 0;

    if (len == 0 || len > NAME_MAX_BYTES || strchr("0123456789.", name[0]))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == len;
}

/* A string of at most @max bytes, or null; NULL if it is neither. The reference is borrowed. */
static json_t *optional_text(const json_t *object, const char *key, size_t max)
{
    json_t *text = json_object_get(object, key);

    if (!text || json_is_null(text))
        return json_null();
    return json_is_string(text) && json_string_length(text) <= max ? text : NULL;
}

static bool scalar(const json_t *value, size_t text_max)
{
    return json_is_number(value) || json_is_boolean(value) || json_is_null(value) ||
           (json_is_string(value) && json_string_length(value) <= text_max);
}

/* The line of the program that handed it over, as the program says: whoever has the program looks
 * whether it has so many. */
static json_t *with_line(json_t *item, const json_t *object)
{
    json_t *line = json_object_get(object, "line");

    if (item && json_is_integer(line) && json_integer_value(line) > 0)
        (void) json_object_set(item, "line", line);
    return item;
}

static json_t *value_read(const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    json_t *value = json_object_get(object, "value");
    json_t *unit = optional_text(object, "unit", UNIT_MAX);
    json_t *format = optional_text(object, "format", FORMAT_MAX);

    if (!name_valid(name) || !value || !scalar(value, WORD_VALUE_MAX) || !unit || !format)
        return NULL;
    return with_line(json_pack("{s:s, s:O, s:O, s:O}", "name", name, "value", value, "unit", unit,
                               "format", format),
                     object);
}

static bool column_type_valid(const char *type)
{
    for (size_t i = 0; type && i < sizeof column_types / sizeof column_types[0]; i++)
        if (strcmp(type, column_types[i]) == 0)
            return true;
    return false;
}

static json_t *columns_read(const json_t *columns)
{
    json_t *copy = json_array();
    const json_t *column;
    size_t i;

    json_array_foreach (columns, i, column) {
        json_t *name = json_object_get(column, "name"), *type = json_object_get(column, "type");

        if (i >= COLUMNS_MAX || !json_is_string(name) ||
            json_string_length(name) > COLUMN_NAME_MAX ||
            !column_type_valid(json_string_value(type)) ||
            json_array_append_new(copy, json_pack("{s:O, s:O}", "name", name, "type", type)) < 0) {
            json_decref(copy);
            return NULL;
        }
    }
    return copy;
}

static bool rows_valid(const json_t *rows, size_t columns)
{
    const json_t *row, *cell;
    size_t i, j;

    if (!json_is_array(rows) || json_array_size(rows) > TABLE_ROWS_MAX)
        return false;
    json_array_foreach (rows, i, row) {
        if (!json_is_array(row) || json_array_size(row) != columns)
            return false;
        json_array_foreach (row, j, cell)
            if (!scalar(cell, TABLE_BYTES_MAX))
                return false;
    }
    return true;
}

static json_t *table_read(const json_t *object)
{
    json_t *title = optional_text(object, "title", TITLE_MAX);
    json_t *rows = json_object_get(object, "rows");
    json_t *count = json_object_get(object, "row_count"), *columns = NULL, *table = NULL;

    if (title && json_is_array(json_object_get(object, "columns")))
        columns = columns_read(json_object_get(object, "columns"));
    if (columns && rows_valid(rows, json_array_size(columns)) && json_is_integer(count) &&
        json_integer_value(count) >= (json_int_t) json_array_size(rows))
        table = json_pack("{s:O, s:O, s:O, s:O}", "title", title, "columns", columns, "rows", rows,
                          "row_count", count);
    json_decref(columns);
    return with_line(table, object);
}

static json_t *chart_read(const json_t *object)
{
    json_t *data = json_object_get(object, "data"), *layout = json_object_get(object, "layout");
    json_t *frames = json_object_get(object, "frames"), *chart;

    if (!json_is_array(data) || (layout && !json_is_object(layout)))
        return NULL;
    chart = json_pack("{s:O, s:O?}", "data", data, "layout", layout);
    if (chart && !layout)
        (void) json_object_set_new(chart, "layout", json_object());
    if (chart && json_is_array(frames) && json_array_size(frames) > 0)
        (void) json_object_set(chart, "frames", frames);
    return chart;
}

/* A JSON type of a bundle is an object, or its text. */
static json_t *object_of(const json_t *data, const char *type)
{
    json_t *value = json_object_get(data, type);

    if (json_is_string(value))
        return json_loadb(json_string_value(value), json_string_length(value), 0, NULL);
    return json_incref(value);
}

bool json_is_deep(const json_t *json, int max)
{
    const char *key;
    json_t *item;
    size_t i;

    if (!json_is_object(json) && !json_is_array(json))
        return false;
    if (max == 0)
        return true;
    json_object_foreach ((json_t *) json, key, item)
        if (json_is_deep(item, max - 1))
            return true;
    json_array_foreach (json, i, item)
        if (json_is_deep(item, max - 1))
            return true;
    return false;
}

static enum handed bounded(enum handed kind, size_t max, json_t *item, json_t **ret_item,
                           size_t *ret_bytes)
{
    size_t bytes = item ? json_dumpb(item, NULL, 0, JSON_COMPACT) : 0;

    if (bytes == 0 || bytes > max || json_is_deep(item, ITEM_DEPTH_MAX)) {
        json_decref(item);
        return HANDED_BAD;
    }
    *ret_item = item;
    *ret_bytes = bytes;
    return kind;
}

/* A figure of plotly, which mark.chart() sends with @about it. */
static enum handed figure_read(const json_t *data, const json_t *about, json_t **ret_item,
                               size_t *ret_bytes)
{
    json_t *object = object_of(data, PLOTLY_TYPE);
    json_t *chart = with_line(chart_read(object), about);

    json_decref(object);
    return bounded(HANDED_CHART, CHART_BYTES_MAX, chart, ret_item, ret_bytes);
}

enum handed bundle_read(const json_t *data, json_t **ret_item, size_t *ret_bytes)
{
    enum handed kind = HANDED_NOTHING;
    const char *word;
    json_t *object;

    if (!json_object_get(data, MARK_TYPE))
        return json_object_get(data, PLOTLY_TYPE) ? figure_read(data, NULL, ret_item, ret_bytes)
                                                  : HANDED_NOTHING;
    object = object_of(data, MARK_TYPE);
    word = json_string_value(json_object_get(object, "kind"));
    if (word && strcmp(word, "value") == 0)
        kind = bounded(HANDED_VALUE, TABLE_BYTES_MAX, value_read(object), ret_item, ret_bytes);
    else if (word && strcmp(word, "table") == 0)
        kind = bounded(HANDED_TABLE, TABLE_BYTES_MAX, table_read(object), ret_item, ret_bytes);
    else if (word && strcmp(word, "chart") == 0)
        kind = figure_read(data, object, ret_item, ret_bytes);
    else
        kind = HANDED_BAD;
    json_decref(object);
    return kind;
}
