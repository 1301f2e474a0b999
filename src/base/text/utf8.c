#include "base/text/utf8.h"

#include <stdint.h>
#include <string.h>

#include "base/autoclean.h"

#include "base/banned.h"

/* Only the second byte has a range that depends on the first: that is where overlong forms,
 * surrogates and code points above U+10FFFF are detected. */
struct utf8_lead {
    uint8_t first, last; /* of the lead byte */
    uint8_t low, high;   /* of the second byte */
    uint8_t len;
};

static const struct utf8_lead utf8_leads[] = {
    { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
    { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
    { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

static const struct utf8_lead *utf8_find_lead(uint8_t byte)
{
    for (size_t i = 0; i < ARRAY_LEN(utf8_leads); i++)
        if (byte >= utf8_leads[i].first && byte <= utf8_leads[i].last)
            return &utf8_leads[i];
    return NULL;
}

enum utf8_kind utf8_next(const char *data, size_t len, size_t *ret_len)
{
    const uint8_t *p = (const uint8_t *) data;
    const struct utf8_lead *lead;

    *ret_len = 1;
    if (p[0] < 0x80)
        return UTF8_CHAR;
    lead = utf8_find_lead(p[0]);
    if (!lead)
        return UTF8_INVALID;

    for (size_t i = 1; i < lead->len; i++) {
        uint8_t low = i == 1 ? lead->low : 0x80, high = i == 1 ? lead->high : 0xbf;

        *ret_len = i;
        if (i == len)
            return UTF8_PARTIAL;
        if (p[i] < low || p[i] > high)
            return UTF8_INVALID;
    }
    *ret_len = lead->len;
    return UTF8_CHAR;
}

bool utf8_valid(const char *data, size_t len)
{
    size_t unit;

    for (size_t pos = 0; pos < len; pos += unit)
        if (utf8_next(data + pos, len - pos, &unit) != UTF8_CHAR)
            return false;
    return true;
}

uint32_t utf8_decode(const char *unit, size_t len)
{
    const unsigned char *u = (const unsigned char *) unit;

    switch (len) {
    case 1:
        return u[0];
    case 2:
        return (uint32_t) (u[0] & 0x1f) << 6 | (u[1] & 0x3f);
    case 3:
        return (uint32_t) (u[0] & 0x0f) << 12 | (uint32_t) (u[1] & 0x3f) << 6 | (u[2] & 0x3f);
    default:
        return (uint32_t) (u[0] & 0x07) << 18 | (uint32_t) (u[1] & 0x3f) << 12 |
               (uint32_t) (u[2] & 0x3f) << 6 | (u[3] & 0x3f);
    }
}

size_t utf8_partial_end(const char *data, size_t len)
{
    size_t unit;

    /* A lead byte is never a continuation byte, so at most one of the three can match. */
    for (size_t back = 1; back <= 3 && back <= len; back++)
        if (utf8_next(data + len - back, back, &unit) == UTF8_PARTIAL)
            return back;
    return 0;
}

size_t utf8_replace(const char *in, size_t len, char *out, size_t size, size_t *ret_used)
{
    size_t used = 0, written = 0;

    while (used < len) {
        size_t unit, put;
        bool whole = utf8_next(in + used, len - used, &unit) == UTF8_CHAR;

        put = whole ? unit : UTF8_REPLACEMENT_LEN;
        if (put > size - written)
            break;
        memcpy(out + written, whole ? in + used : UTF8_REPLACEMENT, put);
        written += put;
        used += unit;
    }
    *ret_used = used;
    return written;
}
