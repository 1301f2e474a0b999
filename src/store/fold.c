#include "store/fold.h"

#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"

#include "base/banned.h"

/* Not the process's own locale: what is stored must not depend on the environment. */
static locale_t unicode;
static pthread_once_t unicode_once = PTHREAD_ONCE_INIT;

static void unicode_open(void)
{
    unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0);
}

static size_t encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char) c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char) (0xc0 | c >> 6);
        out[1] = (char) (0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char) (0xe0 | c >> 12);
        out[1] = (char) (0x80 | (c >> 6 & 0x3f));
        out[2] = (char) (0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char) (0xf0 | c >> 18);
    out[1] = (char) (0x80 | (c >> 12 & 0x3f));
    out[2] = (char) (0x80 | (c >> 6 & 0x3f));
    out[3] = (char) (0x80 | (c & 0x3f));
    return 4;
}

static uint32_t lower(uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return unicode ? (uint32_t) towlower_l((wint_t) c, unicode) : c;
}

char *store_fold(const char *text, size_t max)
{
    size_t len = strnlen(text, max), at = 0, out = 0, unit;
    char *folded = malloc(2 * len + 5); /* a character may grow by a byte */

    if (!folded)
        return NULL;
    (void) pthread_once(&unicode_once, unicode_open);
    for (; at < len; at += unit) {
        uint32_t c;

        if (utf8_next(text + at, len - at, &unit) != UTF8_CHAR)
            continue;
        c = lower(utf8_decode(text + at, unit));
        if (c < 0x20 || c == 0x7f)
            c = ' ';
        out += encode(c, folded + out);
    }
    folded[out] = '\0';
    return folded;
}

char *store_like(const char *q, size_t max)
{
    autofree char *folded = store_fold(q, max);
    char *pattern, *out;

    pattern = folded ? malloc(2 * strlen(folded) + 3) : NULL;
    if (!pattern)
        return NULL;
    out = pattern;
    *out++ = '%';
    for (const char *in = folded; *in; in++) {
        if (*in == '%' || *in == '_' || *in == '!')
            *out++ = '!';
        *out++ = *in;
    }
    *out++ = '%';
    *out = '\0';
    return pattern;
}
