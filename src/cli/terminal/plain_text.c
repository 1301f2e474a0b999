#include "cli/terminal/plain_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "cli/terminal/term_filter.h"

#include "base/banned.h"

struct span {
    uint32_t first, last;
};

static bool in_spans(const struct span *spans, size_t len, uint32_t c)
{
    for (size_t i = 0; i < len; i++)
        if (c >= spans[i].first && c <= spans[i].last)
            return true;
    return false;
}

/* Controls, marks and overrides of direction, separators of lines, tags, the byte order mark. */
static bool is_active(uint32_t c)
{
    static const struct span spans[] = {
        { 0x00, 0x08 },     { 0x0b, 0x1f },       { 0x7f, 0x9f },     { 0x061c, 0x061c },
        { 0x200e, 0x200f }, { 0x2028, 0x202e },   { 0x2066, 0x2069 }, { 0xfeff, 0xfeff },
        { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
    };

    return in_spans(spans, ARRAY_LEN(spans), c);
}

/* Of the characters that are not one column wide, those that data really has. */
static size_t columns_of(uint32_t c)
{
    static const struct span none[] = { { 0x0300, 0x036f },
                                        { 0x200b, 0x200d },
                                        { 0xfe00, 0xfe0f } };
    static const struct span two[] = {
        { 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },
        { 0xfe30, 0xfe6f }, { 0xff00, 0xff60 }, { 0x1f300, 0x1faff }, { 0x20000, 0x3fffd },
    };

    return in_spans(none, ARRAY_LEN(none), c) ? 0 : in_spans(two, ARRAY_LEN(two), c) ? 2 : 1;
}

static uint32_t code_point(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *) text;
    uint32_t c = len == 1 ? p[0] : len == 2 ? p[0] & 0x1fu : len == 3 ? p[0] & 0x0fu : p[0] & 0x07u;

    for (size_t i = 1; i < len; i++)
        c = c << 6 | (p[i] & 0x3fu);
    return c;
}

/* The length of a control sequence at @text, which begins with ESC: only those with "[" are left
 * by the filter. */
static size_t sequence_len(const char *text, size_t len)
{
    size_t i = 2;

    if (len < 2 || text[1] != '[')
        return 1;
    while (i < len && (unsigned char) text[i] < 0x40)
        i++;
    return i < len ? i + 1 : len;
}

char *plain_text(const char *text, size_t len)
{
    autofree char *clean = malloc(TERM_FILTER_OUT_SIZE(len) + 1);
    struct term_filter filter;
    size_t clean_len, used = 0;

    if (!clean)
        return NULL;
    term_filter_init(&filter);
    clean_len = term_filter_run(&filter, text, len, clean);
    for (size_t i = 0, part; i < clean_len; i += part) {
        part = 1;
        if (clean[i] == '\033') {
            part = sequence_len(clean + i, clean_len - i);
        } else if (utf8_next(clean + i, clean_len - i, &part) == UTF8_CHAR &&
                   !is_active(code_point(clean + i, part))) {
            memmove(clean + used, clean + i, part);
            used += part;
        }
    }
    clean[used] = '\0';
    return TAKE_PTR(clean);
}

size_t plain_fit(const char *text, size_t len, size_t columns)
{
    size_t at = 0, part = 1;

    for (; at < len; at += part) {
        size_t wide = utf8_next(text + at, len - at, &part) == UTF8_CHAR
                          ? columns_of(code_point(text + at, part))
                          : 1;

        if (wide > columns)
            break;
        columns -= wide;
    }
    return at;
}

size_t plain_columns(const char *text, size_t len)
{
    size_t columns = 0, part = 1;

    for (size_t at = 0; at < len; at += part)
        columns += utf8_next(text + at, len - at, &part) == UTF8_CHAR
                       ? columns_of(code_point(text + at, part))
                       : 1;
    return columns;
}
