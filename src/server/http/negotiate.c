#include "server/http/negotiate.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/banned.h"

/* q in thousandths: "1", "0.5", "0.123"; a malformed value counts as 1, as if it were absent. */
static int parse_q(const char *text, size_t len)
{
    int value, unit = 100;

    if (len == 0 || (text[0] != '0' && text[0] != '1'))
        return 1000;
    value = (text[0] - '0') * 1000;
    for (size_t i = 2; len > 2 && text[1] == '.' && i < len && unit > 0; i++, unit /= 10) {
        if (text[i] < '0' || text[i] > '9')
            return 1000;
        value += (text[i] - '0') * unit;
    }
    return value > 1000 ? 1000 : value;
}

static const char *skip_blank(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

/* The q of one element, "type/sub;a=b;q=0.5". */
static int element_q(const char *p, const char *end)
{
    int q = 1000;

    for (; p < end; p++) {
        const char *stop, *last;

        if (*p != ';')
            continue;
        p = skip_blank(p + 1, end);
        for (stop = p; stop < end && *stop != ';';)
            stop++;
        for (last = stop; last > p && (last[-1] == ' ' || last[-1] == '\t');)
            last--;
        if (last - p >= 2 && (*p | 32) == 'q' && p[1] == '=')
            q = parse_q(p + 2, (size_t) (last - p - 2));
        p = stop - 1;
    }
    return q;
}

/* The q that @accept gives @type: its own, or that of "family/", or that of the wildcard; -1: not
 * covered. */
static int type_q(const char *accept, const char *type, bool *ret_exact)
{
    size_t family = (size_t) (strchr(type, '/') - type) + 1;
    int exact = -1, wide = -1, any = -1;

    for (const char *p = accept; p && *p;) {
        const char *end = p + strcspn(p, ",");
        const char *name = skip_blank(p, end);
        size_t len = strcspn(name, ";, \t");

        if (name < end && len == strlen(type) && strncasecmp(name, type, len) == 0)
            exact = element_q(name, end);
        else if (name < end && len == family + 1 && name[family] == '*' &&
                 strncasecmp(name, type, family) == 0)
            wide = element_q(name, end);
        else if (name < end && len == 3 && memcmp(name, "*/*", 3) == 0)
            any = element_q(name, end);
        p = *end ? end + 1 : end;
    }
    *ret_exact = exact >= 0;
    return exact >= 0 ? exact : wide >= 0 ? wide : any;
}

enum media negotiate_media(const char *accept)
{
    static const char *const streams[] = { "text/event-stream", "application/x-ndjson",
                                           "application/ndjson" };
    static const enum media media[] = { MEDIA_SSE, MEDIA_NDJSON, MEDIA_NDJSON };
    enum media best = MEDIA_JSON;
    bool exact;
    int best_q;

    if (!accept)
        return MEDIA_JSON;
    best_q = type_q(accept, "application/json", &exact);
    best_q = best_q < 0 ? 0 : best_q;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        int q = type_q(accept, streams[i], &exact);

        /* A wildcard does not ask for a stream. */
        if (exact && q > best_q) {
            best = media[i];
            best_q = q;
        }
    }
    return best;
}

bool negotiate_html(const char *accept)
{
    bool exact;

    return accept && type_q(accept, "text/html", &exact) > 0 && exact;
}

bool negotiate_gzip(const char *accept_encoding)
{
    int named = -1, any = -1;

    for (const char *p = accept_encoding; p && *p;) {
        const char *end = p + strcspn(p, ",");
        const char *name = skip_blank(p, end);
        size_t len = strcspn(name, ";, \t");

        if (name < end && ((len == 4 && strncasecmp(name, "gzip", 4) == 0) ||
                           (len == 6 && strncasecmp(name, "x-gzip", 6) == 0)))
            named = element_q(name, end);
        else if (name < end && len == 1 && *name == '*')
            any = element_q(name, end);
        p = *end ? end + 1 : end;
    }
    return named >= 0 ? named > 0 : any > 0;
}

bool negotiate_etag(const char *list, const char *etag)
{
    size_t len = strlen(etag);

    for (const char *p = list; *p;) {
        p += strspn(p, " \t,");
        if (*p == '*')
            return true;
        if (p[0] == 'W' && p[1] == '/')
            p += 2;
        if (*p != '"')
            return false;
        if (strncmp(p, etag, len) == 0)
            return true;
        p++;
        p += strcspn(p, "\"");
        p += *p == '"';
    }
    return false;
}

/* Digits at *@p, which is moved behind them; -1 if there are none or too many. */
static long long parse_position(const char **p)
{
    long long value = 0;
    size_t len = strspn(*p, "0123456789");

    if (len == 0 || len > 18)
        return -1;
    for (size_t i = 0; i < len; i++)
        value = value * 10 + ((*p)[i] - '0');
    *p += len;
    return value;
}

enum range_kind negotiate_range(const char *header, long long size, long long *ret_first,
                                long long *ret_last)
{
    long long first, last = size - 1;
    const char *p;

    if (!header || strncasecmp(header, "bytes=", 6) != 0)
        return RANGE_NONE;
    p = header + 6 + strspn(header + 6, " ");
    if (*p == '-') {
        p++;
        first = parse_position(&p);
        if (first < 0 || *p)
            return RANGE_NONE;
        if (first == 0 || size == 0)
            return RANGE_UNSATISFIABLE;
        first = first > size ? 0 : size - first;
    } else {
        first = parse_position(&p);
        if (first < 0 || *p++ != '-')
            return RANGE_NONE;
        if (*p) {
            long long end = parse_position(&p);

            if (end < first || *p)
                return RANGE_NONE;
            last = end < last ? end : last;
        }
        if (first >= size)
            return RANGE_UNSATISFIABLE;
    }
    *ret_first = first;
    *ret_last = last;
    return RANGE_ONE;
}
