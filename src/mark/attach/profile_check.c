/*
 * What a box says about a file, checked: the box ran a parser over a hostile file, and may have
 * been taken over by it. A profile is copied member by member, by the tables below; what is not in
 * them, of another type, or too long is left out or cut. What is copied is text, numbers and
 * booleans, never more than PROFILE_BYTES.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"
#include "mark/attach/internal.h"

#include "base/banned.h"

#define DEPTH_MAX       16
#define SHAPE_DEPTH_MAX 8
#define SHAPE_ITEMS_MAX 60

enum kind {
    TEXT,  /* at most @max bytes; a longer one is cut */
    COUNT, /* an integer from 0 */
    BOOL,
    SCALAR, /* text of at most @max bytes, a number or a boolean */
    TEXTS,  /* at most @items texts, of @max bytes each */
    SCALARS,
    TABLES, /* at most @items objects by @of; fewer if the whole is too large */
    SHAPE,  /* of nested JSON */
};

struct rule {
    const char *name;
    enum kind kind;
    size_t max, items;
    const struct rule *of;
};

static const struct rule column_rules[] = {
    { "name", TEXT, 200, 0, NULL },
    { "type", TEXT, 24, 0, NULL },
    { "nulls", COUNT, 0, 0, NULL },
    { "distinct", COUNT, 0, 0, NULL },
    { "distinct_exact", BOOL, 0, 0, NULL },
    { "odd", COUNT, 0, 0, NULL },
    { "min", SCALAR, 80, 0, NULL },
    { "max", SCALAR, 80, 0, NULL },
    { "min_length", COUNT, 0, 0, NULL },
    { "max_length", COUNT, 0, 0, NULL },
    { "formats", TEXTS, 40, 6, NULL },
    { "values", SCALARS, 60, 12, NULL },
    { "examples", SCALARS, 60, 5, NULL },
    { "notes", TEXTS, 160, 5, NULL },
    { 0 },
};

#define TABLE_RULES                                                                                \
    { "rows", COUNT, 0, 0, NULL }, { "rows_exact", BOOL, 0, 0, NULL },                             \
        { "sampled", COUNT, 0, 0, NULL }, { "columns_total", COUNT, 0, 0, NULL },                  \
        { "duplicate_rows", COUNT, 0, 0, NULL }, { "header", BOOL, 0, 0, NULL },                   \
        { "notes", TEXTS, 300, 20, NULL },                                                         \
    {                                                                                              \
        "columns", TABLES, 0, 300, column_rules                                                    \
    }

static const struct rule table_rules[] = { { "name", TEXT, 200, 0, NULL }, TABLE_RULES, { 0 } };

static const struct rule root_rules[] = {
    { "error", TEXT, 400, 0, NULL },       { "encoding", TEXT, 32, 0, NULL },
    { "delimiter", TEXT, 8, 0, NULL },     TABLE_RULES,
    { "sheets_total", COUNT, 0, 0, NULL }, { "sheets", TABLES, 0, 50, table_rules },
    { "tables_total", COUNT, 0, 0, NULL }, { "tables", TABLES, 0, 100, table_rules },
    { "shape", SHAPE, 80, 0, NULL },       { 0 },
};

/* ---- values ---- */

static json_t *copy_text(const json_t *value, size_t max)
{
    const char *text = json_string_value(value);
    size_t len = text ? strnlen(text, max + 1) : 0; /* a NUL ends it */

    if (!text)
        return NULL;
    if (len > max)
        len = max - utf8_partial_end(text, max);
    return json_stringn(text, len);
}

static json_t *copy_scalar(const json_t *value, size_t max)
{
    if (json_is_integer(value) || json_is_boolean(value))
        return json_copy((json_t *) value);
    if (json_is_real(value))
        return isfinite(json_real_value(value)) ? json_copy((json_t *) value) : NULL;
    return copy_text(value, max);
}

static json_t *copy_scalars(const json_t *value, const struct rule *rule)
{
    json_t *list, *item;
    size_t i;

    if (!json_is_array(value))
        return NULL;
    list = json_array();
    json_array_foreach (value, i, item) {
        json_t *copy =
            rule->kind == TEXTS ? copy_text(item, rule->max) : copy_scalar(item, rule->max);

        if (copy && json_array_size(list) < rule->items)
            (void) json_array_append(list, copy);
        json_decref(copy);
    }
    return list;
}

/* Objects, lists and words that say what is nested in what. */
static json_t *copy_shape(const json_t *value, size_t max, unsigned depth)
{
    const char *key;
    json_t *item, *copy;
    size_t i, len = 0;

    if (depth == 0)
        return json_string("...");
    if (json_is_array(value)) {
        json_t *list = json_array();

        json_array_foreach (value, i, item) {
            copy = i < SHAPE_ITEMS_MAX ? copy_shape(item, max, depth - 1) : NULL;
            if (copy)
                (void) json_array_append_new(list, copy);
        }
        return list;
    }
    if (json_is_object(value)) {
        json_t *object = json_object();

        json_object_foreach ((json_t *) value, key, item) {
            copy = len++ < SHAPE_ITEMS_MAX && strlen(key) <= max ? copy_shape(item, max, depth - 1)
                                                                 : NULL;
            if (copy)
                (void) json_object_set_new(object, key, copy);
        }
        return object;
    }
    return copy_scalar(value, max);
}

/* ---- objects ---- */

static json_t *copy_object(const json_t *from, const struct rule *rules, size_t share);

/* @share: lists of tables have one @share-th of what they may have. */
static json_t *copy_tables(const json_t *value, const struct rule *rule, size_t share)
{
    size_t i, most = rule->items / share;
    json_t *list, *item;

    if (!json_is_array(value))
        return NULL;
    list = json_array();
    json_array_foreach (value, i, item) {
        if (json_array_size(list) >= (most > 0 ? most : 1))
            break;
        if (json_is_object(item))
            (void) json_array_append_new(list, copy_object(item, rule->of, share));
    }
    return list;
}

static json_t *copy_value(const json_t *value, const struct rule *rule, size_t share)
{
    switch (rule->kind) {
    case TEXT:
        return copy_text(value, rule->max);
    case COUNT:
        return json_is_integer(value) && json_integer_value(value) >= 0
                   ? json_integer(json_integer_value(value))
                   : NULL;
    case BOOL:
        return json_is_boolean(value) ? json_boolean(json_is_true(value)) : NULL;
    case SCALAR:
        return copy_scalar(value, rule->max);
    case TEXTS:
    case SCALARS:
        return copy_scalars(value, rule);
    case TABLES:
        return copy_tables(value, rule, share);
    case SHAPE:
        return copy_shape(value, rule->max, SHAPE_DEPTH_MAX);
    }
    return NULL;
}

static json_t *copy_object(const json_t *from, const struct rule *rules, size_t share)
{
    json_t *object = json_object();

    for (; rules->name; rules++) {
        const json_t *value = json_object_get(from, rules->name);
        json_t *copy = value ? copy_value(value, rules, share) : NULL;

        if (copy)
            (void) json_object_set_new(object, rules->name, copy);
    }
    return object;
}

/* ---- the whole ---- */

/* The text of a copy that fits; takes nothing. NULL: out of memory, or it never fits. */
static char *dump_within(const json_t *from, const char *format)
{
    for (size_t share = 1; share <= 512; share *= 2) {
        json_t *object = json_pack("{s:s}", "format", format);
        json_t *rest = copy_object(from, root_rules, share);
        char *text;

        (void) json_object_update(object, rest);
        json_decref(rest);
        if (share > 64)
            (void) json_object_del(object, "shape");
        text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
        json_decref(object);
        if (!text || strlen(text) <= PROFILE_BYTES)
            return text;
        free(text);
    }
    return profile_error(format, "the profile is too large");
}

char *profile_error(const char *format, const char *reason)
{
    json_t *object = json_pack("{s:s,s:s}", "format", format, "error", reason);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    return text;
}

char *profile_check(const char *text, size_t len, const char *format)
{
    json_t *object = NULL;
    char *profile;

    if (!json_too_deep(text, len, DEPTH_MAX))
        object = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(object))
        profile = profile_error(format, "the file could not be looked at: its reader failed");
    else
        profile = dump_within(object, format);
    json_decref(object);
    return profile;
}
