/*
 * The data of a chart as a table, for where no chart can be drawn. Arrays of a figure are lists, or
 * numbers in base64 with their type, as Plotly 6 writes long ones.
 */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define ROWS_MAX   1000
#define TRACES_MAX 50

const char *chart_title(const json_t *spec)
{
    const json_t *title = json_object_get(json_object_get(spec, "layout"), "title");

    if (json_is_object(title))
        title = json_object_get(title, "text");
    return json_is_string(title) ? json_string_value(title) : "";
}

/* ---- arrays ---- */

static json_t *number_at(const char *type, const unsigned char *at)
{
#define NUMBER(word, ctype, make)                                                                  \
    if (strcmp(type, word) == 0) {                                                                 \
        ctype n;                                                                                   \
        memcpy(&n, at, sizeof n);                                                                  \
        return make(n);                                                                            \
    }
    NUMBER("f8", double, json_real)
    NUMBER("f4", float, json_real)
    NUMBER("i1", int8_t, json_integer)
    NUMBER("u1", uint8_t, json_integer)
    NUMBER("i2", int16_t, json_integer)
    NUMBER("u2", uint16_t, json_integer)
    NUMBER("i4", int32_t, json_integer)
    NUMBER("u4", uint32_t, json_integer)
#undef NUMBER
    return NULL;
}

/* {"dtype": "f8", "bdata": base64}, in the order of bytes of all machines that we run on. */
static json_t *unpack(const json_t *packed)
{
    const char *type = member_text(packed, "dtype"), *data = member_text(packed, "bdata");
    size_t width = type[0] && type[1] ? (size_t) (type[1] - '0') : 0, size = strlen(data), len = 0;
    autofree unsigned char *bytes = malloc(size + 1);
    json_t *list = json_array();

    if (!bytes || width == 0 || width > 8 ||
        sodium_base642bin(bytes, size, data, size, "\r\n", &len, NULL,
                          sodium_base64_VARIANT_ORIGINAL) < 0)
        len = 0;
    for (size_t i = 0; i + width <= len && width > 0 && i / width < ROWS_MAX; i += width) {
        json_t *number = number_at(type, bytes + i);

        if (json_array_append_new(list, number ? number : json_null()) < 0)
            break;
    }
    return list;
}

/* The array under @name of a trace, for json_decref(); NULL: it has none. */
static json_t *array_of(const json_t *trace, const char *name)
{
    json_t *value = json_object_get(trace, name);

    if (json_is_array(value))
        return json_incref(value);
    return json_is_object(value) && json_object_get(value, "bdata") ? unpack(value) : NULL;
}

/* ---- rows ---- */

/* Pairs of members that say what is drawn. */
static const char *const pairs[][2] = {
    { "x", "y" }, { "labels", "values" }, { "theta", "r" }, { "lon", "lat" }, { "locations", "z" },
};

static json_t *simple(json_t *cell)
{
    return !cell || json_is_object(cell) || json_is_array(cell) ? json_null() : json_incref(cell);
}

static size_t add_trace(json_t *rows, const json_t *trace, const char *ret_names[2])
{
    for (size_t p = 0; p < ARRAY_LEN(pairs); p++) {
        json_t *a = array_of(trace, pairs[p][0]), *b = array_of(trace, pairs[p][1]);
        size_t len =
            json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);

        for (size_t i = 0; i < len && json_array_size(rows) < ROWS_MAX; i++)
            (void) json_array_append_new(rows, json_pack("[s, o, o]", member_text(trace, "name"),
                                                         simple(json_array_get(a, i)),
                                                         simple(json_array_get(b, i))));
        json_decref(a);
        json_decref(b);
        if (len > 0) {
            ret_names[0] = pairs[p][0];
            ret_names[1] = pairs[p][1];
            return len;
        }
    }
    return 0;
}

static const char *type_of_column(const json_t *rows, size_t column)
{
    const json_t *row;
    size_t i;

    json_array_foreach (rows, i, row)
        if (json_is_string(json_array_get(row, column)))
            return "text";
    return "number";
}

/* Whether the traces have names. */
static bool has_series(const json_t *rows)
{
    const json_t *row;
    size_t i;

    json_array_foreach (rows, i, row)
        if (json_string_length(json_array_get(row, 0)) > 0)
            return true;
    return false;
}

static json_t *columns_of(json_t *rows, const char *const names[2])
{
    json_t *columns = json_array(), *row;
    size_t from = has_series(rows), i;

    json_array_foreach (rows, i, row)
        if (!from)
            (void) json_array_remove(row, 0);
    if (from)
        (void) json_array_append_new(columns,
                                     json_pack("{s:s, s:s}", "name", "series", "type", "text"));
    for (i = 0; i < 2; i++)
        (void) json_array_append_new(columns, json_pack("{s:s, s:s}", "name", names[i], "type",
                                                        type_of_column(rows, from + i)));
    return columns;
}

json_t *chart_table(const json_t *spec)
{
    const char *names[2] = { "x", "y" };
    json_t *rows = json_array(), *columns;
    const json_t *trace;
    size_t i, count = 0;

    json_array_foreach (json_object_get(spec, "data"), i, trace)
        if (i < TRACES_MAX)
            count += add_trace(rows, trace, names);
    if (count == 0) {
        json_decref(rows);
        return NULL;
    }
    columns = columns_of(rows, names);
    return json_pack("{s:s, s:o, s:o, s:I}", "title", chart_title(spec), "columns", columns, "rows",
                     rows, "row_count", (json_int_t) count);
}
