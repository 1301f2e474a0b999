/*
 * Values against a JSON Schema, for the part of it that src/schema renders: type, properties,
 * required, additionalProperties, enum, items, and bounds of numbers and strings. The rest is
 * ignored.
 */
#include "schema_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"

#include "base/banned.h"

struct check {
    char *why;
    size_t size;
};

__attribute__((format(printf, 3, 4))) static bool wrong(const struct check *check, const char *name,
                                                        const char *fmt, ...)
{
    int used = *name ? snprintf(check->why, check->size, "%.100s: ", name) : 0;
    va_list ap;

    if (used < 0 || (size_t) used >= check->size)
        return false;
    va_start(ap, fmt);
    (void) vsnprintf(check->why + used, check->size - (size_t) used, fmt, ap);
    va_end(ap);
    return false;
}

static bool is_type(const json_t *value, const char *type)
{
    static const struct {
        const char *name;
        json_type type;
    } rows[] = { { "object", JSON_OBJECT }, { "array", JSON_ARRAY },     { "string", JSON_STRING },
                 { "null", JSON_NULL },     { "integer", JSON_INTEGER }, { "number", JSON_REAL },
                 { "number", JSON_INTEGER } };

    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, type) == 0 && json_typeof(value) == rows[i].type)
            return true;
    return false;
}

static bool check_type(const struct check *check, const char *name, const json_t *type,
                       const json_t *value)
{
    json_t *item;
    size_t i;

    if (json_is_string(type) && !is_type(value, json_string_value(type)))
        return wrong(check, name, "must be of type %s", json_string_value(type));
    json_array_foreach (type, i, item)
        if (is_type(value, json_string_value(item)))
            return true;
    return !json_is_array(type) || wrong(check, name, "has a type that is not allowed");
}

static bool check_bounds(const struct check *check, const char *name, const json_t *schema,
                         const json_t *value)
{
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum");
    const json_t *max = json_object_get(schema, "maximum");
    const json_t *shortest = json_object_get(schema, "minLength");
    const json_t *longest = json_object_get(schema, "maxLength");
    double number = json_number_value(value);
    json_int_t len = (json_int_t) json_string_length(value);

    if (json_is_number(value) && min && number < json_number_value(min))
        return wrong(check, name, "must be at least %g", json_number_value(min));
    if (json_is_number(value) && above && number <= json_number_value(above))
        return wrong(check, name, "must be above %g", json_number_value(above));
    if (json_is_number(value) && max && number > json_number_value(max))
        return wrong(check, name, "must be at most %g", json_number_value(max));
    if (json_is_string(value) && shortest && len < json_integer_value(shortest))
        return wrong(check, name, "must not be empty");
    if (json_is_string(value) && longest && len > json_integer_value(longest))
        return wrong(check, name, "is longer than %lld bytes",
                     (long long) json_integer_value(longest));
    return true;
}

static bool check_enum(const struct check *check, const char *name, const json_t *list,
                       const json_t *value)
{
    char text[200] = "";
    size_t used = 0, i;
    json_t *item;

    json_array_foreach (list, i, item) {
        if (json_equal(item, value))
            return true;
        if (json_is_string(item) && used < sizeof text)
            used += (size_t) snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                      json_string_value(item));
    }
    return !list || wrong(check, name, "must be one of: %s", text);
}

static bool check_value(const struct check *check, const char *name, const json_t *schema,
                        const json_t *value);

static bool check_object(const struct check *check, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    bool closed = json_is_false(json_object_get(schema, "additionalProperties"));
    json_t *item;
    const char *key;
    size_t i;

    json_array_foreach (json_object_get(schema, "required"), i, item) {
        if (!json_object_get(value, json_string_value(item)))
            return wrong(check, json_string_value(item), "is required");
    }
    json_object_foreach ((json_t *) value, key, item) {
        const json_t *row = json_object_get(properties, key);

        if (!row && closed)
            return wrong(check, key, "is not known here");
        if (row && !check_value(check, key, row, item))
            return false;
    }
    return true;
}

static bool check_value(const struct check *check, const char *name, const json_t *schema,
                        const json_t *value)
{
    json_t *item;
    size_t i;

    if (!check_type(check, name, json_object_get(schema, "type"), value) ||
        !check_enum(check, name, json_object_get(schema, "enum"), value) ||
        !check_bounds(check, name, schema, value))
        return false;
    json_array_foreach (value, i, item) {
        if (!check_value(check, name, json_object_get(schema, "items"), item))
            return false;
    }
    return !json_is_object(value) || check_object(check, schema, value);
}

bool schema_check(const json_t *schema, const json_t *value, char *why, size_t size)
{
    struct check check = { why, size };

    return check_value(&check, "", schema, value);
}
