/* Answers of tenants to looks, as replies for clients. Everything in an answer is hostile: a member
 * that is not what it should be is left out, or the whole answer is empty. Pure functions. */
#include "service/session/look.h"

#include <string.h>

#include "base/autoclean.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define DEPTH_MAX     8
#define OBJECTS_MAX   4096u /* and arrays, of an answer */
#define MATCHES_MAX   200u
#define VARIABLES_MAX 500u
#define NAME_CHARS    200u /* of a name, a match or a summary */
#define HELP_CHARS    16384u
#define DIMENSIONS    32u

json_t *look_reply_empty(enum look_op op, int64_t cursor, bool busy)
{
    switch (op) {
    case LOOK_COMPLETE:
        return json_pack("{s:[], s:I, s:I, s:b}", "matches", "start", (json_int_t) cursor, "end",
                         (json_int_t) cursor, "busy", busy);
    case LOOK_INSPECT:
        return json_pack("{s:b, s:s, s:b}", "found", 0, "text", "", "busy", busy);
    case LOOK_VARIABLES:
        break;
    }
    return json_pack("{s:[], s:b, s:b}", "variables", "truncated", 0, "busy", busy);
}

/* The text of a member, or NULL if it is none or has more than @chars characters. */
static const char *text_of(const json_t *object, const char *key, size_t chars)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    size_t len = json_string_length(value), count = 0, n;

    if (!text || strlen(text) != len)
        return NULL;
    for (size_t at = 0; at < len; at += n, count++)
        (void) utf8_next(text + at, len - at, &n);
    return count <= chars ? text : NULL;
}

/* ---- completions ---- */

static const char *type_of(const json_t *match)
{
    static const char *const types[] = { "function", "class",     "module", "property",
                                         "instance", "keyword",   "param",  "key",
                                         "path",     "directory", "magic" };
    const char *type = text_of(match, "type", NAME_CHARS);

    for (size_t i = 0; type && i < ARRAY_LEN(types); i++)
        if (strcmp(types[i], type) == 0)
            return types[i];
    return "instance";
}

static json_t *matches_take(const json_t *list)
{
    json_t *taken = json_array(), *match;
    size_t i;

    json_array_foreach (list, i, match) {
        const char *text = text_of(match, "text", NAME_CHARS);

        if (text && text[0] && json_array_size(taken) < MATCHES_MAX)
            (void) json_array_append_new(
                taken, json_pack("{s:s, s:s}", "text", text, "type", type_of(match)));
    }
    return taken;
}

static json_t *completion(const json_t *answer, int64_t offset, int64_t cursor)
{
    const json_t *start = json_object_get(answer, "start");
    int64_t at = (int64_t) json_integer_value(start);

    if (!json_is_integer(start) || at < 0 || at > cursor - offset)
        return look_reply_empty(LOOK_COMPLETE, cursor, false);
    at += offset;
    return json_pack("{s:o, s:I, s:I, s:b}", "matches",
                     matches_take(json_object_get(answer, "matches")), "start", (json_int_t) at,
                     "end", (json_int_t) cursor, "busy", 0);
}

/* ---- help ---- */

static json_t *help(const json_t *answer)
{
    const char *text = text_of(answer, "text", HELP_CHARS);
    bool found = text && text[0] && json_is_true(json_object_get(answer, "found"));

    return json_pack("{s:b, s:s, s:b}", "found", found, "text", found ? text : "", "busy", 0);
}

/* ---- variables ---- */

static json_t *shape_take(const json_t *list)
{
    const json_t *number;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) > DIMENSIONS)
        return NULL;
    json_array_foreach (list, i, number) {
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            return NULL;
    }
    return json_deep_copy(list);
}

static json_t *variable_take(const json_t *from)
{
    const char *name = text_of(from, "name", NAME_CHARS), *type = text_of(from, "type", NAME_CHARS);
    const char *summary = text_of(from, "summary", NAME_CHARS);
    const json_t *size = json_object_get(from, "size_bytes");
    json_t *taken, *shape;

    if (!name || !type)
        return NULL;
    taken =
        json_pack("{s:s, s:s, s:s}", "name", name, "type", type, "summary", summary ? summary : "");
    shape = shape_take(json_object_get(from, "shape"));
    if (shape)
        (void) json_object_set_new(taken, "shape", shape);
    if (json_is_integer(size) && json_integer_value(size) >= 0)
        (void) json_object_set_new(taken, "size_bytes", json_integer(json_integer_value(size)));
    return taken;
}

static json_t *variables(const json_t *answer)
{
    json_t *taken = json_array(), *from, *one;
    size_t i;

    json_array_foreach (json_object_get(answer, "variables"), i, from) {
        one = json_array_size(taken) < VARIABLES_MAX ? variable_take(from) : NULL;
        if (one)
            (void) json_array_append_new(taken, one);
    }
    return json_pack("{s:o, s:b, s:b}", "variables", taken, "truncated",
                     (int) json_is_true(json_object_get(answer, "truncated")), "busy", 0);
}

json_t *look_reply(enum look_op op, const char *text, size_t len, int64_t offset, int64_t cursor)
{
    json_t *answer = NULL, *reply = NULL;

    if (text && !json_too_deep(text, len, DEPTH_MAX) && !json_too_many(text, len, OBJECTS_MAX))
        answer = json_loadb(text, len, 0, NULL);
    if (!json_is_object(answer))
        reply = look_reply_empty(op, cursor, false);
    else if (op == LOOK_COMPLETE)
        reply = completion(answer, offset, cursor);
    else
        reply = op == LOOK_INSPECT ? help(answer) : variables(answer);
    json_decref(answer);
    return reply;
}
