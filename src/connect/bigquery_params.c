/*
 * Parameters of a query. A list is positional (?), an object named (@name). Types follow from JSON:
 * an integer is INT64, another number FLOAT64, text STRING, which GoogleSQL itself coerces to DATE,
 * DATETIME, TIME and TIMESTAMP; null is a STRING that is NULL. Another type is told by
 * {"type": "NUMERIC", "value": "1.50"}. A list is an ARRAY of the type of its elements.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "connect/bigquery.h"

#include "base/banned.h"

#define PARAMS_MAX 1000
#define NAME_MAX_  128

static int wrong(struct driver_error *error, const char *which, const char *why)
{
    return driver_fail(error, CONNECT_UNSUPPORTED, "parameter %.100s %s", which, why);
}

static const char *type_of(const json_t *value)
{
    if (json_is_boolean(value))
        return "BOOL";
    if (json_is_integer(value))
        return "INT64";
    if (json_is_real(value))
        return "FLOAT64";
    return json_is_string(value) || json_is_null(value) ? "STRING" : NULL;
}

/* {"value": text} of a scalar; NULL: it is none. */
static json_t *value_of(const json_t *value)
{
    char buf[64];

    if (json_is_null(value))
        return json_pack("{s:n}", "value");
    if (json_is_boolean(value))
        return json_pack("{s:s}", "value", json_is_true(value) ? "true" : "false");
    if (json_is_integer(value))
        (void) snprintf(buf, sizeof buf, "%lld", (long long) json_integer_value(value));
    else if (json_is_real(value))
        (void) snprintf(buf, sizeof buf, "%.17g", json_real_value(value));
    else
        return json_is_string(value) ? json_pack("{s:O}", "value", value) : NULL;
    return json_pack("{s:s}", "value", buf);
}

/* {"type": ..., "value": ...} */
static int typed(const json_t *json, const char *which, json_t **ret_type, json_t **ret_value,
                 struct driver_error *error)
{
    static const char *const known[] = { "INT64",     "FLOAT64",  "NUMERIC",   "BIGNUMERIC",
                                         "BOOL",      "STRING",   "BYTES",     "DATE",
                                         "TIME",      "DATETIME", "TIMESTAMP", "JSON",
                                         "GEOGRAPHY", "INTERVAL" };
    const char *type = bigquery_text(json, "type");

    if (json_object_size(json) != 2 || !type || !json_object_get(json, "value"))
        return wrong(error, which, "must be a value, a list, or {\"type\": ..., \"value\": ...}");
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i], type) != 0)
            continue;
        *ret_type = json_pack("{s:s}", "type", type);
        *ret_value = value_of(json_object_get(json, "value"));
        return *ret_value ? 0 : wrong(error, which, "has a value that is no text or number");
    }
    return wrong(error, which, "has a type that is not supported");
}

/* Integers and other numbers together are numbers; nulls fit to everything. */
static const char *common_type(const json_t *list)
{
    const char *type = NULL;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *one = type_of(item);

        if (!one)
            return NULL;
        if (json_is_null(item))
            continue;
        if (type && strcmp(one, type) != 0) {
            if ((strcmp(one, "INT64") != 0 && strcmp(one, "FLOAT64") != 0) ||
                (strcmp(type, "INT64") != 0 && strcmp(type, "FLOAT64") != 0))
                return NULL;
            one = "FLOAT64";
        }
        type = one;
    }
    return type ? type : "STRING";
}

static int listed(const json_t *list, const char *which, json_t **ret_type, json_t **ret_value,
                  struct driver_error *error)
{
    const char *type = common_type(list);
    json_t *values;

    if (!type)
        return wrong(error, which, "is a list whose elements do not have one type");
    values = json_array();
    for (size_t i = 0; i < json_array_size(list); i++)
        (void) json_array_append_new(values, value_of(json_array_get(list, i)));
    *ret_type = json_pack("{s:s, s:{s:s}}", "type", "ARRAY", "arrayType", "type", type);
    *ret_value = json_pack("{s:o}", "arrayValues", values);
    return 0;
}

static int add(json_t *list, const char *name, const char *which, const json_t *value,
               struct driver_error *error)
{
    json_t *type = NULL, *wire = NULL, *one;
    int r = 0;

    if (json_is_object(value)) {
        r = typed(value, which, &type, &wire, error);
    } else if (json_is_array(value)) {
        r = listed(value, which, &type, &wire, error);
    } else {
        type = json_pack("{s:s}", "type", type_of(value));
        wire = value_of(value);
    }
    one = json_pack("{s:s*, s:o*, s:o*}", "name", name, "parameterType", type, "parameterValue",
                    wire);
    if (r == 0 && (!type || !wire || !one))
        r = driver_fail(error, CONNECT_INTERNAL, "out of memory");
    (void) json_array_append_new(list, one);
    return r;
}

static bool is_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= NAME_MAX_ && (name[0] < '0' || name[0] > '9') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len;
}

int bigquery_params(const json_t *params, json_t *config, struct driver_error *error)
{
    bool named = json_is_object(params);
    size_t len = named ? json_object_size(params) : json_array_size(params);
    json_t *list, *value;
    const char *name;
    char which[24];
    int r = 0;

    if (len == 0)
        return 0;
    if (len > PARAMS_MAX)
        return driver_fail(error, CONNECT_UNSUPPORTED, "a query has at most %d parameters",
                           PARAMS_MAX);
    list = json_array();
    json_object_foreach ((json_t *) params, name, value) {
        if (r == 0)
            r = is_name(name) ? add(list, name, name, value, error)
                              : wrong(error, name, "has a name that is no identifier");
    }
    for (size_t i = 0; !named && i < len && r == 0; i++) {
        (void) snprintf(which, sizeof which, "%zu", i + 1);
        r = add(list, NULL, which, json_array_get(params, i), error);
    }
    (void) json_object_set_new(config, "parameterMode",
                               json_string(named ? "NAMED" : "POSITIONAL"));
    (void) json_object_set_new(config, "queryParameters", list);
    return r;
}
