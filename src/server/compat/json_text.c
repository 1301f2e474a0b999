#include "server/compat/json_text.h"

#include <string.h>

#include "base/text/utf8.h"

#include "base/banned.h"

#define DEPTH_MAX 256

/* The rest of the text. Each function below consumes what it recognises at its start, or fails. */
struct rest {
    const char *at, *end;
};

/* Whether there is a byte and it is in @set. A NUL is in no set. */
static bool is_at(const struct rest *rest, const char *set)
{
    return rest->at < rest->end && *rest->at && strchr(set, *rest->at);
}

static void skip_blanks(struct rest *rest)
{
    while (is_at(rest, " \t\r\n"))
        rest->at++;
}

static bool take_byte(struct rest *rest, char byte)
{
    if (rest->at == rest->end || *rest->at != byte)
        return false;
    rest->at++;
    return true;
}

static bool take_word(struct rest *rest, const char *word)
{
    size_t len = strlen(word);

    if ((size_t) (rest->end - rest->at) < len || memcmp(rest->at, word, len) != 0)
        return false;
    rest->at += len;
    return true;
}

static bool take_digits(struct rest *rest)
{
    const char *start = rest->at;

    while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
        rest->at++;
    return rest->at > start;
}

static bool take_number(struct rest *rest)
{
    (void) take_byte(rest, '-');
    if (!take_byte(rest, '0') && !take_digits(rest))
        return false;
    if (take_byte(rest, '.') && !take_digits(rest))
        return false;
    if (take_byte(rest, 'e') || take_byte(rest, 'E')) {
        if (!take_byte(rest, '+'))
            (void) take_byte(rest, '-');
        return take_digits(rest);
    }
    return true;
}

static bool take_escape(struct rest *rest)
{
    if (!is_at(rest, "\"\\/bfnrtu"))
        return false;
    if (*rest->at++ != 'u')
        return true;
    for (int i = 0; i < 4; i++, rest->at++)
        if (!is_at(rest, "0123456789abcdefABCDEF"))
            return false;
    return true;
}

static bool take_string(struct rest *rest)
{
    if (!take_byte(rest, '"'))
        return false;
    while (rest->at < rest->end) {
        unsigned char c = (unsigned char) *rest->at++;

        if (c == '"')
            return true;
        if (c < 0x20 || (c == '\\' && !take_escape(rest)))
            return false;
    }
    return false;
}

static bool take_value(struct rest *rest, int depth);

static bool take_member(struct rest *rest, int depth)
{
    skip_blanks(rest);
    if (!take_string(rest))
        return false;
    skip_blanks(rest);
    return take_byte(rest, ':') && take_value(rest, depth);
}

/* The content of brackets, after the opening one. */
static bool take_items(struct rest *rest, char close, int depth)
{
    bool object = close == '}';

    skip_blanks(rest);
    if (take_byte(rest, close))
        return true;
    do {
        if (object ? !take_member(rest, depth) : !take_value(rest, depth))
            return false;
        skip_blanks(rest);
    } while (take_byte(rest, ','));
    return take_byte(rest, close);
}

static bool take_value(struct rest *rest, int depth)
{
    if (depth == 0)
        return false;
    skip_blanks(rest);
    if (take_byte(rest, '{'))
        return take_items(rest, '}', depth - 1);
    if (take_byte(rest, '['))
        return take_items(rest, ']', depth - 1);
    if (rest->at < rest->end && *rest->at == '"')
        return take_string(rest);
    return take_word(rest, "true") || take_word(rest, "false") || take_word(rest, "null") ||
           take_number(rest);
}

bool json_text_is_object(const char *text, size_t len)
{
    struct rest rest = { text, text + len };

    if (!utf8_valid(text, len))
        return false;
    skip_blanks(&rest);
    if (rest.at == rest.end || *rest.at != '{' || !take_value(&rest, DEPTH_MAX))
        return false;
    skip_blanks(&rest);
    return rest.at == rest.end;
}
