#include "schema/fields.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define ERRORS_MAX 20
#define MSG_MAX    200

/* The value of a field on its way to the handler's struct. */
struct slot {
    const struct field *field;
    const char *where; /* "body" or "query" */
    void *target;
    json_t *errors;
};

void fields_add_error(json_t *errors, const char *where, const char *name, const char *type,
                      const char *msg)
{
    if (json_array_size(errors) < ERRORS_MAX)
        (void) json_array_append_new(
            errors, json_pack("{s:[s,s*],s:s,s:s}", "loc", where, name, "msg", msg, "type", type));
}

static int refuse(const struct slot *slot, const char *type, const char *msg)
{
    fields_add_error(slot->errors, slot->where, slot->field->name, type, msg);
    return -EINVAL;
}

static void set_absent(const struct field *field, void *target)
{
    switch (field->type) {
    case FIELD_BOOL:
        *(bool *) target = false;
        break;
    case FIELD_INT:
    case FIELD_SECONDS:
    case FIELD_SIZE:
        *(int64_t *) target = FIELD_ABSENT;
        break;
    case FIELD_CHOICE:
        *(int *) target = -1;
        break;
    case FIELD_TEXT:
    case FIELD_OBJECT:
    case FIELD_MAP:
    case FIELD_LIST:
    case FIELD_NUMBER:
    case FIELD_ROWS:
    case FIELD_ANY:
        *(const void **) target = NULL;
        break;
    }
}

static void describe_range(const struct field *field, char buf[MSG_MAX])
{
    char low[FORMAT_NUMBER_MAX], high[FORMAT_NUMBER_MAX];

    if (field->type == FIELD_SECONDS) {
        format_fixed(field->min, 1000000, low);
        format_fixed(field->max, 1000000, high);
    } else if (field->type == FIELD_SIZE) {
        format_size(field->min, low);
        format_size(field->max, high);
    } else {
        snprintf(low, sizeof low, "%lld", (long long) field->min);
        snprintf(high, sizeof high, "%lld", (long long) field->max);
    }
    if (field->type == FIELD_SECONDS && field->min == FIELD_ABOVE_ZERO)
        snprintf(buf, MSG_MAX, "must be above 0 and at most %s", high);
    else if (field->max == INT64_MAX)
        snprintf(buf, MSG_MAX, "must be at least %s", low);
    else
        snprintf(buf, MSG_MAX, "must be from %s to %s", low, high);
}

static int set_number(const struct slot *slot, int64_t value)
{
    const struct field *field = slot->field;
    char msg[MSG_MAX];

    if ((field->min != 0 || field->max != 0) && (value < field->min || value > field->max)) {
        describe_range(field, msg);
        return refuse(slot, "out_of_range", msg);
    }
    *(int64_t *) slot->target = value;
    return 0;
}

static int set_text(const struct slot *slot, const char *text, size_t len)
{
    const struct field *field = slot->field;
    char msg[MSG_MAX];

    if (field->max != 0 && len > (size_t) field->max) {
        snprintf(msg, sizeof msg, "has %zu bytes; the limit is %lld", len, (long long) field->max);
        return refuse(slot, "too_long", msg);
    }
    if (len < (size_t) field->min)
        return refuse(slot, "too_short", "must not be empty");
    *(const char **) slot->target = text;
    return 0;
}

static int set_choice(const struct slot *slot, const char *text)
{
    char msg[MSG_MAX] = "must be one of";
    size_t used = strlen(msg);

    for (int i = 0; slot->field->choices[i]; i++) {
        if (strcmp(slot->field->choices[i], text) == 0) {
            *(int *) slot->target = i;
            return 0;
        }
        used += (size_t) snprintf(msg + used, sizeof msg - used, "%s \"%s\"", i ? "," : "",
                                  slot->field->choices[i]);
        if (used >= sizeof msg)
            break;
    }
    return refuse(slot, "not_a_choice", msg);
}

/* ---- bodies ---- */

static int set_seconds(const struct slot *slot, const json_t *value)
{
    double seconds = json_number_value(value);

    if (!json_is_number(value))
        return refuse(slot, "not_a_number", "must be a number of seconds");
    /* Also keeps values that do not fit an int64_t out of the cast. */
    if (!(seconds >= 0 && seconds < 1e12))
        return set_number(slot, -1);
    /* A value above zero must not become zero. */
    return set_number(slot, seconds > 0 && seconds < 1e-6 ? 1 : (int64_t) llround(seconds * 1e6));
}

static int set_size(const struct slot *slot, const json_t *value)
{
    int64_t bytes;

    if (json_is_integer(value))
        return set_number(slot, json_integer_value(value));
    if (json_is_string(value) && parse_size(json_string_value(value), &bytes) == 0)
        return set_number(slot, bytes);
    return refuse(slot, "not_a_size", "must be a number of bytes, or a string such as \"512m\"");
}

static int set_map(const struct slot *slot, const json_t *value)
{
    const char *name;
    json_t *item;

    if (!json_is_object(value))
        return refuse(slot, "not_an_object", "must be an object whose values are strings");
    if (slot->field->max != 0 && json_object_size(value) > (size_t) slot->field->max)
        return refuse(slot, "too_long", "has too many entries");
    json_object_foreach ((json_t *) value, name, item)
        if (!json_is_string(item))
            return refuse(slot, "not_a_text", "must be an object whose values are strings");
    *(const json_t **) slot->target = value;
    return 0;
}

static int set_list(const struct slot *slot, const json_t *value)
{
    if (!json_is_array(value))
        return refuse(slot, "not_a_list", "must be a list");
    if (slot->field->max != 0 && json_array_size(value) > (size_t) slot->field->max)
        return refuse(slot, "too_long", "has too many entries");
    if (json_array_size(value) < (size_t) slot->field->min)
        return refuse(slot, "too_short", "has too few entries");
    for (size_t i = 0; !slot->field->of && i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            return refuse(slot, "not_a_text", "must be a list of strings");
    *(const json_t **) slot->target = value;
    return 0;
}

static int set_from_json(const struct slot *slot, const json_t *value)
{
    switch (slot->field->type) {
    case FIELD_TEXT:
        return json_is_string(value)
                   ? set_text(slot, json_string_value(value), json_string_length(value))
                   : refuse(slot, "not_a_text", "must be a string");
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return refuse(slot, "not_a_bool", "must be true or false");
        *(bool *) slot->target = json_is_true(value);
        return 0;
    case FIELD_INT:
        return json_is_integer(value)
                   ? set_number(slot, json_integer_value(value))
                   : refuse(slot, "not_a_whole_number", "must be a whole number");
    case FIELD_SECONDS:
        return set_seconds(slot, value);
    case FIELD_SIZE:
        return set_size(slot, value);
    case FIELD_CHOICE:
        return json_is_string(value) ? set_choice(slot, json_string_value(value))
                                     : refuse(slot, "not_a_text", "must be a string");
    case FIELD_OBJECT:
        if (!json_is_object(value))
            return refuse(slot, "not_an_object", "must be an object");
        *(const json_t **) slot->target = value;
        return 0;
    case FIELD_MAP:
        return set_map(slot, value);
    case FIELD_LIST:
        return set_list(slot, value);
    case FIELD_NUMBER:
        if (!json_is_number(value))
            return refuse(slot, "not_a_number", "must be a number");
        *(const json_t **) slot->target = value;
        return 0;
    case FIELD_ROWS:
    case FIELD_ANY:
        break;
    }
    return refuse(slot, "unknown", "cannot be set");
}

static const struct field *find_field(const struct schema *schema, const char *name)
{
    for (const struct field *field = schema->fields; field->name; field++)
        if (strcmp(field->name, name) == 0)
            return field;
    return NULL;
}

/* "unknown; did you mean …" */
static void refuse_unknown(const struct schema *schema, const char *where, const char *name,
                           json_t *errors)
{
    const char *near = NULL;
    char msg[MSG_MAX], loc[WORD_MAX * 2];
    size_t best = 3;

    for (const struct field *field = schema->fields; strlen(name) < WORD_MAX && field->name;
         field++) {
        size_t miss = word_miss(name, field->name);

        if (miss < best) {
            best = miss;
            near = field->name;
        }
    }
    if (near)
        snprintf(msg, sizeof msg, "is not a known field; did you mean \"%s\"?", near);
    else
        snprintf(msg, sizeof msg, "is not a known field");
    snprintf(loc, sizeof loc, "%.60s", name);
    loc[strlen(loc) - utf8_partial_end(loc, strlen(loc))] = '\0';
    fields_add_error(errors, where, loc, "unknown_field", msg);
}

static void refuse_missing(const struct field *field, const char *where, json_t *errors)
{
    fields_add_error(errors, where, field->name, "missing", "is required");
}

int fields_read_body(const struct schema *schema, const json_t *body, bool strict, void *ret,
                     json_t *errors)
{
    const char *name;
    json_t *value;

    for (const struct field *field = schema->fields; field->name; field++)
        set_absent(field, (char *) ret + field->offset);
    if (!json_is_object(body)) {
        fields_add_error(errors, "body", NULL, "not_an_object", "the body must be a JSON object");
        return -EINVAL;
    }
    json_object_foreach ((json_t *) body, name, value) {
        const struct field *field = find_field(schema, name);

        if (!field && strict)
            refuse_unknown(schema, "body", name, errors);
        if (field && !json_is_null(value))
            (void) set_from_json(
                &(struct slot){ field, "body", (char *) ret + field->offset, errors }, value);
    }
    for (const struct field *field = schema->fields; field->name; field++) {
        value = json_object_get(body, field->name);
        if ((field->flags & FIELD_REQUIRED) && (!value || json_is_null(value)))
            refuse_missing(field, "body", errors);
    }
    return json_array_size(errors) > 0 ? -EINVAL : 0;
}

/* ---- queries ---- */

static int set_from_text(const struct slot *slot, const char *text)
{
    int64_t value;

    switch (slot->field->type) {
    case FIELD_TEXT:
        return set_text(slot, text, strlen(text));
    case FIELD_BOOL:
        return parse_bool(*text ? text : "yes", slot->target) < 0
                   ? refuse(slot, "not_a_bool", "must be true or false")
                   : 0;
    case FIELD_INT:
        return parse_int(text, &value) < 0
                   ? refuse(slot, "not_a_whole_number", "must be a whole number")
                   : set_number(slot, value);
    case FIELD_SIZE:
        return parse_size(text, &value) < 0
                   ? refuse(slot, "not_a_size", "must be a number of bytes, or a size such as 512m")
                   : set_number(slot, value);
    case FIELD_SECONDS:
        return parse_seconds(text, &value) < 0
                   ? refuse(slot, "not_a_number", "must be a number of seconds")
                   : set_number(slot, value);
    case FIELD_CHOICE:
        return set_choice(slot, text);
    case FIELD_OBJECT:
    case FIELD_MAP:
    case FIELD_LIST:
    case FIELD_NUMBER:
    case FIELD_ROWS:
    case FIELD_ANY:
        break;
    }
    return refuse(slot, "unknown", "cannot be set in a URL");
}

/* The first of that name; NULL if there is none. */
static const struct param *find_param(const struct param *params, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++)
        if (strcmp(params[i].name, name) == 0)
            return &params[i];
    return NULL;
}

int fields_read_query(const struct schema *schema, const struct param *params, size_t len,
                      void *ret, json_t *errors)
{
    static const struct field none = { 0 };
    static const struct schema nothing = { .fields = &none };

    schema = schema ? schema : &nothing;
    for (const struct field *field = schema->fields; field->name; field++)
        set_absent(field, (char *) ret + field->offset);
    for (size_t i = 0; i < len; i++) {
        const struct field *field = find_field(schema, params[i].name);

        if (!field)
            refuse_unknown(schema, "query", params[i].name, errors);
        else if (find_param(params, len, field->name) != &params[i])
            fields_add_error(errors, "query", field->name, "repeated", "is given twice");
        else
            (void) set_from_text(
                &(struct slot){ field, "query", (char *) ret + field->offset, errors },
                params[i].value);
    }
    for (const struct field *field = schema->fields; field->name; field++)
        if ((field->flags & FIELD_REQUIRED) && !find_param(params, len, field->name))
            refuse_missing(field, "query", errors);
    return json_array_size(errors) > 0 ? -EINVAL : 0;
}
