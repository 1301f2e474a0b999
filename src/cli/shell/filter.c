#include "cli/shell/filter.h"

#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

enum { TEXT, AFTER_ESC, AFTER_C2, STRING, STRING_ESC, STRING_C2 };

#define ESC 0x1b

/* After ESC: P, X, ], ^, _ begin a string. As one character of UTF-8 (C2 and this) they are 0x90,
 * 0x98, 0x9d, 0x9e, 0x9f; 0x9c ends one. */
static bool begins_string(unsigned char c)
{
    return c && strchr("PX]^_", c);
}

static bool begins_string_c1(unsigned char c)
{
    return c == 0x90 || c == 0x98 || (c >= 0x9d && c <= 0x9f);
}

/* The byte after ESC, or after the first byte of a C1 control, both of which were held back. */
static size_t second(struct shell_filter *filter, char held, unsigned char c, char *out)
{
    bool after_esc = held == ESC;

    filter->state = TEXT;
    if (after_esc ? begins_string(c) : begins_string_c1(c)) {
        filter->state = STRING;
        return 0;
    }
    if (c == ESC || c == 0xc2) { /* only the last one counts; half of something must not stay */
        filter->state = c == ESC ? AFTER_ESC : AFTER_C2;
        return 0;
    }
    /* Terminals execute these within a sequence and go on with it; CAN and SUB end it. */
    if (after_esc && (c < 0x20 || c == 0x7f) && c != 0x18 && c != 0x1a) {
        filter->state = AFTER_ESC;
        out[0] = (char) c;
        return 1;
    }
    out[0] = held;
    out[1] = (char) c;
    return 2;
}

static size_t in_string(struct shell_filter *filter, unsigned char c, char *out)
{
    if (filter->state == STRING_ESC && c != '\\')
        return second(filter, ESC, c, out); /* another sequence ends it too */
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

        if (filter->state == AFTER_ESC)
            used += second(filter, ESC, c, out + used);
        else if (filter->state == AFTER_C2)
            used += second(filter, (char) 0xc2, c, out + used);
        else if (filter->state != TEXT)
            used += in_string(filter, c, out + used);
        else if (c == ESC)
            filter->state = AFTER_ESC;
        else if (c == 0xc2)
            filter->state = AFTER_C2;
        else
            out[used++] = (char) c;
    }
    return used;
}
