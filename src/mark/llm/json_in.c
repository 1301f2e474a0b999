#include "mark/llm/json_in.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define COUNT_MAX INT64_C(1000000000000)

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The value of an escape \uXXXX at @p, or -1. */
static int escape_at(const char *p, const char *end)
{
    int value = 0;

    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(p[i]);

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Replaces escapes that stand for no character by U+FFFD, in place. */
static void mend_escapes(char *text, size_t len)
{
    char *end = text + len;

    for (char *p = text; p < end; p++) {
        int unit = escape_at(p, end), next;

        if (*p != '\\')
            continue;
        if (unit < 0) {
            p++; /* another escape: \\u is not ours */
            continue;
        }
        next = unit >= 0xd800 && unit < 0xdc00 ? escape_at(p + 6, end) : -1;
        if (next >= 0xdc00 && next < 0xe000) {
            p += 11;
            continue;
        }
        if (unit == 0 || (unit >= 0xd800 && unit < 0xe000)) {
            p[2] = p[3] = p[4] = 'f';
            p[5] = 'd';
        }
        p += 5;
    }
}

static json_t *load_mended(const char *data, size_t len)
{
    size_t size = len * 3 + 1, used, mended_len;
    autofree char *mended = len < SIZE_MAX / 4 ? malloc(size) : NULL;

    if (!mended)
        return NULL;
    mended_len = utf8_replace(data, len, mended, size, &used);
    mend_escapes(mended, mended_len);
    return json_loadb(mended, mended_len, 0, NULL);
}

json_t *json_in_object(const char *data, size_t len)
{
    json_t *json;

    if (json_too_deep(data, len, JSON_IN_DEPTH_MAX))
        return NULL;
    json = json_loadb(data, len, 0, NULL);
    if (!json)
        json = load_mended(data, len);
    if (json_is_object(json))
        return json;
    json_decref(json);
    return NULL;
}

bool json_in_is_cut(const char *text, size_t len)
{
    bool in_string = false;
    size_t depth = 0;

    for (size_t i = 0; i < len; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && (text[i] == '{' || text[i] == '['))
            depth++;
        else if (!in_string && (text[i] == '}' || text[i] == ']') && depth > 0)
            depth--;
    }
    return in_string || depth > 0;
}

const char *json_in_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int64_t json_in_count(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);

    return json_is_integer(value) && number >= 0 && number <= COUNT_MAX ? number : -1;
}
