#include "base/text/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"

#include "base/banned.h"

#define NANO UINT64_C(1000000000)

/* A decimal number before it is multiplied by its unit. */
struct decimal {
    uint64_t whole;
    uint64_t nano; /* the first nine digits after the point */
    bool nonzero;
    bool fraction;
    bool overflow;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits, and a point with more digits, from the start of @text; returns what follows them,
 * or NULL. */
static const char *decimal_read(const char *text, struct decimal *ret)
{
    struct decimal d = { 0 };
    const char *p = text;

    if (!is_digit(*p))
        return NULL;
    for (; is_digit(*p); p++) {
        d.nonzero |= *p != '0';
        d.overflow |= __builtin_mul_overflow(d.whole, UINT64_C(10), &d.whole);
        d.overflow |= __builtin_add_overflow(d.whole, (uint64_t) (*p - '0'), &d.whole);
    }
    if (*p == '.') {
        uint64_t place = NANO / 10;

        d.fraction = true;
        p++;
        if (!is_digit(*p))
            return NULL;
        for (; is_digit(*p); p++, place /= 10) {
            d.nonzero |= *p != '0';
            d.nano += place * (uint64_t) (*p - '0');
        }
    }
    *ret = d;
    return p;
}

static int decimal_scale(const struct decimal *d, uint64_t unit, int64_t *ret_value)
{
    unsigned __int128 value;

    if (d->overflow)
        return -ERANGE;
    value = (unsigned __int128) d->whole * unit + (unsigned __int128) d->nano * unit / NANO;
    if (value > INT64_MAX || (value == 0 && d->nonzero))
        return -ERANGE;
    *ret_value = (int64_t) value;
    return 0;
}

int parse_int(const char *text, int64_t *ret_value)
{
    struct decimal d;
    const char *rest = decimal_read(text, &d);

    if (!rest || *rest || d.fraction)
        return -EINVAL;
    return decimal_scale(&d, 1, ret_value);
}

int parse_size(const char *text, int64_t *ret_bytes)
{
    static const char letters[] = "kmgt";
    struct decimal d;
    const char *rest = decimal_read(text, &d);

    if (!rest || (!*rest && d.fraction))
        return -EINVAL;
    if (!*rest)
        return decimal_scale(&d, 1, ret_bytes);
    for (unsigned i = 0; letters[i]; i++) {
        if (strncasecmp(rest, &letters[i], 1) != 0)
            continue;
        rest++;
        if (*rest && strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0)
            return -EINVAL;
        return decimal_scale(&d, UINT64_C(1) << (10 * (i + 1)), ret_bytes);
    }
    return -EINVAL;
}

int parse_seconds(const char *text, int64_t *ret_us)
{
    static const struct {
        const char *suffix;
        uint64_t seconds;
    } units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 } };
    struct decimal d;
    const char *rest = decimal_read(text, &d);

    if (!rest)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strcasecmp(rest, units[i].suffix) == 0)
            return decimal_scale(&d, units[i].seconds * USEC_PER_SEC, ret_us);
    return -EINVAL;
}

int parse_cpus(const char *text, int64_t *ret_milli)
{
    struct decimal d;
    const char *rest = decimal_read(text, &d);

    if (!rest || *rest)
        return -EINVAL;
    return decimal_scale(&d, 1000, ret_milli);
}

/* Reads a digit for each '0' in @pattern; its other characters must match exactly. */
static bool match_digits(const char *text, const char *pattern, int *ret_numbers)
{
    int number = 0;

    for (; *pattern; text++, pattern++) {
        if (*pattern == '0' ? !is_digit(*text) : *text != *pattern)
            return false;
        if (*pattern == '0')
            number = number * 10 + (*text - '0');
        if (*pattern == '0' && pattern[1] != '0') {
            *ret_numbers++ = number;
            number = 0;
        }
    }
    return *text == '\0';
}

int parse_utc(const char *text, int64_t *ret_us)
{
    int n[6] = { 0 };
    struct tm tm, back;
    time_t seconds;

    if (!match_digits(text, "0000-00-00", n) && !match_digits(text, "0000-00-00T00:00Z", n) &&
        !match_digits(text, "0000-00-00T00:00:00Z", n))
        return -EINVAL;
    if (n[0] < 1970)
        return -ERANGE;
    tm = (struct tm){ .tm_year = n[0] - 1900,
                      .tm_mon = n[1] - 1,
                      .tm_mday = n[2],
                      .tm_hour = n[3],
                      .tm_min = n[4],
                      .tm_sec = n[5] };
    back = tm;
    seconds = timegm(&back);
    /* timegm() turns 31 April into 1 May. */
    if (back.tm_mon != tm.tm_mon || back.tm_mday != tm.tm_mday || back.tm_hour != tm.tm_hour ||
        back.tm_min != tm.tm_min || back.tm_sec != tm.tm_sec)
        return -EINVAL;
    *ret_us = (int64_t) seconds * USEC_PER_SEC;
    return 0;
}

int parse_bool(const char *text, bool *ret_value)
{
    static const char *const words[][2] = {
        { "no", "yes" },
        { "false", "true" },
        { "off", "on" },
        { "0", "1" },
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (int value = 0; value < 2; value++)
            if (strcasecmp(text, words[i][value]) == 0) {
                *ret_value = value;
                return 0;
            }
    return -EINVAL;
}

void format_utc(int64_t us, char buf[FORMAT_UTC_MAX])
{
    time_t seconds = (time_t) (us / USEC_PER_SEC);
    char day[24];
    struct tm tm;

    if (us < 0 || !gmtime_r(&seconds, &tm) || tm.tm_year > 9999 - 1900 ||
        strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        (void) snprintf(buf, FORMAT_UTC_MAX, "-");
    else
        (void) snprintf(buf, FORMAT_UTC_MAX, "%s.%06dZ", day, (int) (us % USEC_PER_SEC));
}

void format_quoted(const char *text, char buf[FORMAT_QUOTED_MAX])
{
    /* room for the longest character, the dots, the quote and the end */
    const size_t last = FORMAT_QUOTED_MAX - 4 - 3 - 2;
    size_t n = 0;

    buf[n++] = '\'';
    for (const unsigned char *p = (const unsigned char *) text; *p; p++) {
        if (n > last) {
            memcpy(buf + n, "...", 3);
            n += 3;
            break;
        }
        if (*p >= 0x20 && *p < 0x7f) {
            buf[n++] = (char) *p;
            continue;
        }
        buf[n++] = '\\';
        buf[n++] = 'x';
        hex_put(*p, buf + n);
        n += 2;
    }
    buf[n++] = '\'';
    buf[n] = '\0';
}

void format_fixed(int64_t value, int64_t one, char buf[FORMAT_NUMBER_MAX])
{
    int digits = 0;
    int64_t rest = value % one;

    for (int64_t i = one; i > 1; i /= 10)
        digits++;
    for (; rest > 0 && rest % 10 == 0; rest /= 10)
        digits--;
    if (rest == 0)
        snprintf(buf, FORMAT_NUMBER_MAX, "%lld", (long long) (value / one));
    else
        snprintf(buf, FORMAT_NUMBER_MAX, "%lld.%0*lld", (long long) (value / one), digits,
                 (long long) rest);
}

void format_size(int64_t value, char buf[FORMAT_NUMBER_MAX])
{
    static const char letters[] = "kmgt";
    int unit = -1;

    while (unit < 3 && value > 0 && value % 1024 == 0) {
        value /= 1024;
        unit++;
    }
    snprintf(buf, FORMAT_NUMBER_MAX, "%lld%.*s", (long long) value, unit >= 0,
             unit >= 0 ? &letters[unit] : "");
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of letters to add, drop, change or swap with a neighbour; both words are shorter than
 * WORD_MAX. */
static size_t word_distance(const char *a, const char *b)
{
    size_t d[WORD_MAX + 1][WORD_MAX + 1];
    size_t n = strlen(a), m = strlen(b);

    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1);
            d[i][j] = least(d[i][j], d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

size_t word_miss(const char *given, const char *name)
{
    size_t len = strlen(given), cost;

    if (len < 2 || len >= WORD_MAX || strlen(name) >= WORD_MAX)
        return SIZE_MAX;
    cost = word_distance(given, name);
    if (cost > 1 && strncmp(given, name, len) == 0)
        return 2;
    return cost <= (len <= 4 ? 1 : 2) ? cost : SIZE_MAX;
}

void parse_unescape_mount(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
            from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
            *to = (char) ((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}
