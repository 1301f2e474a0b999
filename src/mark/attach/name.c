#include "mark/attach/name.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define EXTENSION_MAX 16 /* bytes, with its dot: a longer one is part of the name */

/* Ranges of characters that nobody sees or that change how others are shown: left out. */
static const struct {
    uint32_t first, last;
} hidden[] = {
    { 0x00, 0x1f },       { 0x7f, 0x9f },        { 0xad, 0xad },     { 0x061c, 0x061c },
    { 0x180e, 0x180e },   { 0x200b, 0x200f },    { 0x2028, 0x202e }, { 0x2060, 0x206f },
    { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },    { 0xfff0, 0xffff }, { 0xe000, 0xf8ff },
    { 0x1d173, 0x1d17a }, { 0xe0000, 0x10ffff },
};

static bool is_hidden(uint32_t c)
{
    for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
        if (c >= hidden[i].first && c <= hidden[i].last)
            return true;
    return false;
}

static bool is_blank(uint32_t c)
{
    return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Copies @in without what a name must not have. Returns the bytes written, fewer than @size. */
static size_t clean(const char *in, size_t len, char *out, size_t size)
{
    size_t used = 0, unit;

    for (size_t at = 0; at < len; at += unit) {
        bool is_char = utf8_next(in + at, len - at, &unit) == UTF8_CHAR;
        uint32_t c = is_char ? utf8_decode(in + at, unit) : '_';

        if (is_hidden(c))
            continue;
        if (is_blank(c))
            c = ' ';
        else if (c < 0x80 && strchr("\"`<>:|?*$", (int) c))
            c = '_';
        /* The start of a name, or a second blank */
        if ((c == ' ' || c == '.') && used == 0)
            continue;
        if (c == ' ' && out[used - 1] == ' ')
            continue;
        if (used + unit >= size)
            break;
        if (c < 0x80)
            out[used++] = (char) c;
        else {
            memcpy(out + used, in + at, unit);
            used += unit;
        }
    }
    while (used > 0 && (out[used - 1] == ' ' || out[used - 1] == '.'))
        used--;
    out[used] = '\0';
    return used;
}

/* The extension of @name with its dot; "" if there is none, or it is too long to be one. */
static const char *extension_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && dot != name && strlen(dot) <= EXTENSION_MAX ? dot : "";
}

/* Whether Windows takes @name for a device, whatever its extension. */
static bool is_device(const char *name)
{
    static const char *const devices[] = { "con", "prn", "aux", "nul", "com", "lpt" };
    size_t stem = strcspn(name, ".");

    for (size_t i = 0; i < ARRAY_LEN(devices); i++)
        if (strncasecmp(name, devices[i], 3) == 0 &&
            (i < 4 ? stem == 3 : stem == 4 && name[3] >= '0' && name[3] <= '9'))
            return true;
    return false;
}

/* Cuts @name to @max bytes, between characters and before its extension. */
static void shorten(char *name, size_t max)
{
    char extension[EXTENSION_MAX + 1];
    size_t keep;

    if (strlen(name) <= max)
        return;
    (void) snprintf(extension, sizeof extension, "%s", extension_of(name));
    keep = max - strlen(extension);
    keep -= utf8_partial_end(name, keep);
    while (keep > 0 && (name[keep - 1] == ' ' || name[keep - 1] == '.'))
        keep--;
    (void) snprintf(name + keep, sizeof extension, "%s", extension);
}

void attach_name_make(const char *name, size_t len, const char *extension,
                      char ret_name[STORE_FILE_NAME_MAX])
{
    /* Long enough that the extension of a long name is still there. */
    char buf[4096], prefixed[STORE_FILE_NAME_MAX];
    size_t start = 0;

    for (size_t i = 0; i < len; i++)
        if (name[i] == '/' || name[i] == '\\')
            start = i + 1;
    if (len - start >= sizeof buf)
        start = len - (sizeof buf - 1); /* its end says more than its start */
    if (clean(name + start, len - start, buf, sizeof buf) == 0)
        (void) snprintf(buf, sizeof buf, "attachment%s%s", extension ? "." : "",
                        extension ? extension : "");
    shorten(buf, ATTACH_NAME_BYTES_MAX);
    (void) snprintf(prefixed, sizeof prefixed, "%s%.*s", is_device(buf) ? "_" : "",
                    STORE_FILE_NAME_MAX - 2, buf);
    (void) snprintf(ret_name, STORE_FILE_NAME_MAX, "%s", prefixed);
}
