#include "base/text/json_depth.h"

#include <limits.h>
#include <stdint.h>

#include "base/banned.h"

/* Looks at each bracket outside of strings. */
static void brackets(const char *text, size_t len, unsigned deep_max, size_t many_max,
                     bool *ret_too_deep, bool *ret_too_many)
{
    bool in_string = false;
    unsigned depth = 0;
    size_t count = 0;

    *ret_too_deep = *ret_too_many = false;
    for (size_t i = 0; i < len; i++) {
        if (in_string) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                in_string = false;
            continue;
        }
        if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '{' || text[i] == '[') {
            *ret_too_deep = ++depth > deep_max;
            *ret_too_many = ++count > many_max;
            if (*ret_too_deep || *ret_too_many)
                return;
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        }
    }
}

bool json_too_deep(const char *text, size_t len, unsigned max)
{
    bool deep, many;

    brackets(text, len, max, SIZE_MAX, &deep, &many);
    return deep;
}

bool json_too_many(const char *text, size_t len, size_t max)
{
    bool deep, many;

    brackets(text, len, UINT_MAX, max, &deep, &many);
    return many;
}
