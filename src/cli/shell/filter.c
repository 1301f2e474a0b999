#include "cli/shell/filter.h"

#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

enum { TEXT, AFTER_ESC, AFTER_C2, ENCODING, STRING, STRING_ESC, STRING_C2 };

#define ESC 0x1b

/* After ESC: P, X, ], ^, _ begin a string, and k does in screen and tmux. As one character of UTF-8
 * (C2 and this) the first five are 0x90, 0x98, 0x9d, 0x9e, 0x9f; 0x9c ends one. */
static bool begins_string(unsigned char c)
{
    return c && strchr("PX]^_k", c);
}

static bool begins_string_c1(unsigned char c)
{
    return c == 0x90 || c == 0x98 || (c >= 0x9d && c <= 0x9f);
}

/* Terminals execute these within a sequence and go on with it; CAN and SUB end it. */
static bool is_executed(unsigned char c)
{
    return (c < 0x20 || c == 0x7f) && c != 0x18 && c != 0x1a;
}

static int rest_of_character(unsigned char c)
{
    return c < 0xc3 || c > 0xf7 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
}

/* ESC and C2 are held back until it is clear what they begin. A control character of one byte,
 * which is not UTF-8, is left out. */
static size_t in_text(struct shell_filter *filter, unsigned char c, char *out)
{
    bool of_character = filter->rest > 0 && (c & 0xc0) == 0x80;

    filter->rest = of_character ? filter->rest - 1 : rest_of_character(c);
    filter->state = c == ESC ? AFTER_ESC : c == 0xc2 ? AFTER_C2 : TEXT;
    if (filter->state != TEXT || (c >= 0x80 && c < 0xa0 && !of_character))
        return 0;
    out[0] = (char) c;
    return 1;
}

static size_t after_esc(struct shell_filter *filter, unsigned char c, char *out)
{
    if (begins_string(c)) {
        filter->state = STRING;
        return 0;
    }
    if (c == '%') { /* leaves UTF-8: a part of any character could begin a string then */
        filter->state = ENCODING;
        return 0;
    }
    /* Only the last one counts, and half of something must not stay: some terminals ignore what
     * cannot follow ESC and wait for the rest. */
    if (c == ESC || c >= 0x80)
        return in_text(filter, c, out);
    if (is_executed(c)) {
        filter->state = AFTER_ESC;
        out[0] = (char) c;
        return 1;
    }
    filter->state = TEXT;
    out[0] = ESC;
    out[1] = (char) c;
    return 2;
}

static size_t after_c2(struct shell_filter *filter, unsigned char c, char *out)
{
    if (begins_string_c1(c)) {
        filter->state = STRING;
        return 0;
    }
    if ((c & 0xc0) != 0x80)
        return in_text(filter, c, out);
    filter->state = TEXT;
    out[0] = (char) 0xc2;
    out[1] = (char) c;
    return 2;
}

/* Between ESC % and its end. */
static size_t in_encoding(struct shell_filter *filter, unsigned char c, char *out)
{
    if (c == ESC || c >= 0x80 || is_executed(c)) {
        size_t len = in_text(filter, c, out);

        if (is_executed(c) && c != ESC)
            filter->state = ENCODING;
        return len;
    }
    filter->state = c >= 0x20 && c < 0x30 ? ENCODING : TEXT;
    return 0;
}

static size_t in_string(struct shell_filter *filter, unsigned char c, char *out)
{
    if (filter->state == STRING_ESC && c != '\\')
        return after_esc(filter, c, out); /* another sequence ends it too */
    if (filter->state == STRING_ESC || (filter->state == STRING_C2 && c == 0x9c) || c == 0x07 ||
        c == 0x18 || c == 0x1a)
        filter->state = TEXT;
    else
        filter->state = c == ESC ? STRING_ESC : c == 0xc2 ? STRING_C2 : STRING;
    return 0;
}

size_t shell_filter(struct shell_filter *filter, const char *data, size_t len, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) data[i];

        if (filter->state == TEXT)
            used += in_text(filter, c, out + used);
        else if (filter->state == AFTER_ESC)
            used += after_esc(filter, c, out + used);
        else if (filter->state == AFTER_C2)
            used += after_c2(filter, c, out + used);
        else if (filter->state == ENCODING)
            used += in_encoding(filter, c, out + used);
        else
            used += in_string(filter, c, out + used);
    }
    return used;
}
