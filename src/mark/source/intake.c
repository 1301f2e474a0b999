#include "mark/source/intake.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"
#include "store/sources.h"

#include "base/banned.h"

#define DEEP_MAX    16
#define COLUMNS_MAX 1600
#define SAMPLES_MAX 5
#define COUNT_MAX   (INT64_C(1) << 60)

/* A text of at most @max bytes, cut between characters; NULL if it is none, or has a NUL, which
 * names and notes cannot have. */
static json_t *text_cut(const json_t *json, size_t max)
{
    const char *text = json_string_value(json);
    size_t len = json_string_length(json);

    if (!text || len == 0 || strlen(text) != len)
        return NULL;
    if (len > max)
        len = max - utf8_partial_end(text, max);
    return json_stringn(text, len);
}

static int put_text(json_t *to, const json_t *from, const char *name, size_t max)
{
    json_t *text = text_cut(json_object_get(from, name), max);

    return text ? json_object_set_new(to, name, text) : 0;
}

static int put_bool(json_t *to, const json_t *from, const char *name)
{
    const json_t *json = json_object_get(from, name);

    return json_is_boolean(json) ? json_object_set_new(to, name, json_boolean(json_is_true(json)))
                                 : 0;
}

static int put_count(json_t *to, const json_t *from, const char *name)
{
    const json_t *json = json_object_get(from, name);
    json_int_t value = json_integer_value(json);

    if (!json_is_integer(json) || value < 0 || value > COUNT_MAX)
        return 0;
    return json_object_set_new(to, name, json_integer(value));
}

static int put_samples(json_t *to, const json_t *from)
{
    json_t *list = json_object_get(from, "samples"), *item, *made;
    size_t i;
    int r = 0;

    if (!json_is_array(list))
        return 0;
    made = json_array();
    json_array_foreach (list, i, item) {
        json_t *text = i < SAMPLES_MAX ? text_cut(item, 100) : NULL;

        if (text && r == 0)
            r = json_array_append_new(made, text);
    }
    if (r == 0)
        r = json_object_set(to, "samples", made);
    json_decref(made);
    return r;
}

static json_t *column_copy(const json_t *raw, bool row_security)
{
    json_t *column = json_object();
    int r = column ? put_text(column, raw, "name", 1024) : -1;

    if (r == 0)
        r = put_text(column, raw, "type", 32);
    if (r == 0)
        r = put_text(column, raw, "source_type", 500);
    if (r == 0)
        r = put_text(column, raw, "comment", 2000);
    if (r == 0)
        r = put_text(column, raw, "references", 1400);
    if (r == 0)
        r = put_bool(column, raw, "nullable");
    if (r == 0)
        r = put_bool(column, raw, "key");
    if (r == 0 && !row_security)
        r = put_samples(column, raw);
    if (r < 0) {
        json_decref(column);
        return NULL;
    }
    return column;
}

/* A name that was cut is not the column's. */
static bool is_name(const json_t *json, size_t max)
{
    return json_is_string(json) && json_string_length(json) > 0 &&
           json_string_length(json) <= max &&
           strlen(json_string_value(json)) == json_string_length(json);
}

static int put_columns(json_t *info, const json_t *raw, bool row_security)
{
    json_t *columns = json_object_get(raw, "columns"), *column, *made = json_array();
    int r = made ? 0 : -1;
    size_t i;

    json_array_foreach (columns, i, column) {
        if (r < 0 || i >= COLUMNS_MAX)
            break;
        if (is_name(json_object_get(column, "name"), 1024))
            r = json_array_append_new(made, column_copy(column, row_security));
    }
    if (r == 0)
        r = json_object_set(info, "columns", made);
    json_decref(made);
    return r;
}

/* How many rows there are, and what is in them, is what row policies hide. */
static json_t *info_copy(const json_t *raw)
{
    bool row_security = !json_is_false(json_object_get(raw, "row_security")) &&
                        json_object_get(raw, "row_security");
    json_t *info = json_object();
    int r = info ? put_text(info, raw, "kind", 32) : -1;

    if (r == 0)
        r = put_text(info, raw, "comment", 4000);
    if (r == 0)
        r = put_text(info, raw, "partitioning", 500);
    if (r == 0 && !row_security)
        r = put_count(info, raw, "rows");
    if (r == 0 && !row_security)
        r = put_count(info, raw, "bytes");
    if (r == 0 && row_security)
        r = json_object_set_new(info, "row_security", json_true());
    if (r == 0)
        r = put_columns(info, raw, row_security);
    if (r < 0) {
        json_decref(info);
        return NULL;
    }
    return info;
}

/* 1: taken, 0: left out. */
static int table_take(json_t *tables, const json_t *raw)
{
    const json_t *name = json_object_get(raw, "name");
    json_t *info;
    size_t size;

    if (!is_name(name, STORE_TABLE_NAME_MAX - 1) || json_object_size(tables) >= STORE_TABLES_MAX ||
        json_object_get(tables, json_string_value(name)))
        return 0;
    info = info_copy(raw);
    if (!info)
        return -1;
    size = json_dumpb(info, NULL, 0, JSON_COMPACT);
    if (size == 0 || size > STORE_INFO_MAX - 65536) { /* room for who may read it */
        json_decref(info);
        return 0;
    }
    return json_object_set_new(tables, json_string_value(name), info) < 0 ? -1 : 1;
}

static json_t *readable_copy(const json_t *raw)
{
    json_t *made = json_object(), *name;
    size_t i;

    json_array_foreach ((json_t *) raw, i, name) {
        if (!made || i >= 4 * STORE_TABLES_MAX)
            break;
        if (is_name(name, STORE_TABLE_NAME_MAX - 1) &&
            json_object_set_new(made, json_string_value(name), json_true()) < 0) {
            json_decref(made);
            return NULL;
        }
    }
    return made;
}

int intake_json(const json_t *raw, json_t **ret_catalogue, struct gb_err *err)
{
    json_t *list = json_object_get(raw, "tables"), *readable = json_object_get(raw, "readable");
    json_t *tables = json_object(), *table, *made = NULL;
    json_int_t left_out = 0;
    size_t i;
    int r = tables ? 0 : -1;

    if (!json_is_array(list) || (readable && !json_is_null(readable) && !json_is_array(readable))) {
        json_decref(tables);
        return gb_fail_plain(err, EBADMSG, "what the source sent is not a catalogue");
    }
    json_array_foreach (list, i, table) {
        r = r < 0 ? r : table_take(tables, table);
        left_out += r == 0;
    }
    if (r >= 0)
        made = json_pack("{s:O,s:o,s:I}", "tables", tables, "readable",
                         json_is_array(readable) ? readable_copy(readable) : json_null(),
                         "left_out", left_out);
    json_decref(tables);
    if (!made)
        return gb_fail(err, ENOMEM, "read a catalogue");
    *ret_catalogue = made;
    return 0;
}

int intake_parse(const char *text, size_t len, json_t **ret_catalogue, struct gb_err *err)
{
    json_t *raw = len > INTAKE_BYTES_MAX || json_too_deep(text, len, DEEP_MAX)
                      ? NULL
                      : json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    int r;

    if (!raw)
        return gb_fail_plain(err, EBADMSG, "what the source sent is not JSON, or is too large");
    r = intake_json(raw, ret_catalogue, err);
    json_decref(raw);
    return r;
}
