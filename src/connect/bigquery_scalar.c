#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "connect/bigquery.h"

#include "base/banned.h"

#define NUMBER_MAX 128 /* BIGNUMERIC has 77 digits */
#define DAY_US     (INT64_C(86400) * USEC_PER_SEC)

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool bigquery_int(const char *text, size_t len, int64_t *ret_value)
{
    bool negative = len > 0 && text[0] == '-';
    int64_t value = 0;

    if (len == (negative ? 1u : 0u) || len > 20)
        return false;
    for (size_t i = negative; i < len; i++) {
        int digit = text[i] - '0';

        if (!is_digit(text[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digit, &value)) /* downwards: INT64_MIN has no opposite */
            return false;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *ret_value = negative ? value : -value;
    return true;
}

/* [-]digits[.digits][e[+-]digits], as of BigQuery and no locale. */
bool bigquery_decimal(const char *text, size_t len)
{
    size_t i = len > 0 && text[0] == '-', digits = 0;

    if (len > NUMBER_MAX)
        return false;
    for (; i < len && is_digit(text[i]); i++)
        digits++;
    if (i < len && text[i] == '.')
        for (i++; i < len && is_digit(text[i]); i++)
            digits++;
    if (digits == 0)
        return false;
    if (i < len && (text[i] == 'e' || text[i] == 'E')) {
        size_t from;

        i++;
        i += i < len && (text[i] == '-' || text[i] == '+');
        from = i;
        while (i < len && is_digit(text[i]))
            i++;
        if (i == from || i - from > 6)
            return false;
    }
    return i == len;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

bool bigquery_float(const char *text, size_t len, double *ret_value)
{
    char buf[NUMBER_MAX + 1];

    if (is_word(text, len, "NaN")) {
        *ret_value = NAN;
    } else if (is_word(text, len, "Infinity") || is_word(text, len, "-Infinity")) {
        *ret_value = text[0] == '-' ? -INFINITY : INFINITY;
    } else {
        if (!bigquery_decimal(text, len))
            return false;
        memcpy(buf, text, len);
        buf[len] = '\0';
        *ret_value = strtod(buf, NULL);
        return isfinite(*ret_value);
    }
    return true;
}

/* ---- times ---- */

/* Exactly @n digits at *@p. */
static bool take(const char **p, const char *end, int n, int *ret_value)
{
    int value = 0;

    for (int i = 0; i < n; i++, (*p)++) {
        if (*p == end || !is_digit(**p))
            return false;
        value = value * 10 + (**p - '0');
    }
    *ret_value = value;
    return true;
}

static bool take_char(const char **p, const char *end, char c)
{
    if (*p == end || **p != c)
        return false;
    (*p)++;
    return true;
}

/* Days since 1970 of a date in the proleptic Gregorian calendar, years from 1 on. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t m = month > 2 ? month - 3 : month + 9; /* from March: a leap day is the last */

    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static bool take_date(const char **p, const char *end, int64_t *ret_days)
{
    static const int lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int year, month, day;

    if (!take(p, end, 4, &year) || !take_char(p, end, '-') || !take(p, end, 2, &month) ||
        !take_char(p, end, '-') || !take(p, end, 2, &day) || year < 1 || month < 1 || month > 12 ||
        day < 1 || day > lengths[month - 1])
        return false;
    if (month == 2 && day == 29 && (year % 4 != 0 || (year % 100 == 0 && year % 400 != 0)))
        return false;
    *ret_days = days_of(year, month, day);
    return true;
}

static bool take_clock(const char **p, const char *end, int64_t *ret_us, bool *ret_cut)
{
    int hour, minute, second, digit, digits = 0;
    int64_t us = 0;

    if (!take(p, end, 2, &hour) || !take_char(p, end, ':') || !take(p, end, 2, &minute) ||
        !take_char(p, end, ':') || !take(p, end, 2, &second) || hour > 23 || minute > 59 ||
        second > 59)
        return false;
    if (take_char(p, end, '.')) {
        for (; take(p, end, 1, &digit); digits++) {
            if (digits < 6)
                us = us * 10 + digit;
            else if (digit != 0)
                *ret_cut = true;
        }
        if (digits == 0 || digits > 12)
            return false;
    }
    for (; digits < 6; digits++)
        us *= 10;
    *ret_us = (((int64_t) hour * 60 + minute) * 60 + second) * USEC_PER_SEC + us;
    return true;
}

bool bigquery_date(const char *text, size_t len, int64_t *ret_days)
{
    const char *p = text;

    return take_date(&p, text + len, ret_days) && p == text + len;
}

bool bigquery_time(const char *text, size_t len, int64_t *ret_us)
{
    const char *p = text;
    bool cut = false;

    return take_clock(&p, text + len, ret_us, &cut) && p == text + len && !cut;
}

static bool read_datetime(const char *text, const char *end, int64_t *ret_us, bool *ret_cut)
{
    const char *p = text;
    int64_t days, us;

    if (!take_date(&p, end, &days) || (!take_char(&p, end, 'T') && !take_char(&p, end, ' ')) ||
        !take_clock(&p, end, &us, ret_cut) || p != end)
        return false;
    *ret_us = days * DAY_US + us;
    return true;
}

bool bigquery_datetime(const char *text, size_t len, int64_t *ret_us, bool *ret_cut)
{
    return read_datetime(text, text + len, ret_us, ret_cut);
}

bool bigquery_timestamp(const char *text, size_t len, bool fine, int64_t *ret_us, bool *ret_cut)
{
    static const int64_t first = INT64_C(-62135596800) * USEC_PER_SEC; /* year 1 */
    static const int64_t last = INT64_C(253402300800) * USEC_PER_SEC;  /* year 10000 */

    if (bigquery_int(text, len, ret_us))
        return *ret_us >= first && *ret_us < last;
    return fine && len > 0 && text[len - 1] == 'Z' &&
           read_datetime(text, text + len - 1, ret_us, ret_cut);
}

void bigquery_timestamp_text(int64_t us, char buf[BIGQUERY_TIMESTAMP_MAX])
{
    int64_t part = us % USEC_PER_SEC;
    time_t seconds = (time_t) (us / USEC_PER_SEC);
    char fraction[16] = "";
    struct tm tm = { 0 };

    if (part < 0) {
        part += USEC_PER_SEC;
        seconds--;
    }
    (void) gmtime_r(&seconds, &tm); /* the year of any int64_t of microseconds fits */
    if (part != 0)
        (void) snprintf(fraction, sizeof fraction, ".%06d", (int) part);
    (void) snprintf(buf, BIGQUERY_TIMESTAMP_MAX, "%04d-%02d-%02d %02d:%02d:%02d%s+00",
                    tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                    fraction);
}

/* ---- bytes ---- */

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (is_digit(c))
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool bigquery_bytes(const char *text, size_t len, char **ret_data, size_t *ret_len)
{
    size_t padding = 0, used = 0;
    uint32_t bits = 0;
    char *data;

    if (len % 4 != 0)
        return false;
    while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
        padding++;
    data = malloc(len / 4 * 3 + 1);
    for (size_t i = 0; data && i < len - padding; i++) {
        int value = base64_value(text[i]);

        if (value < 0) {
            free(data);
            return false;
        }
        bits = bits << 6 | (uint32_t) value;
        if (i % 4 == 0)
            continue;
        data[used++] = (char) (bits >> (6 - 2 * (i % 4)) & 255);
    }
    if (!data)
        return false;
    *ret_data = data;
    *ret_len = used;
    return true;
}

/* ---- members of replies ---- */

const char *bigquery_text(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

int64_t bigquery_count(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    int64_t number = -1;

    if (json_is_integer(value))
        number = json_integer_value(value);
    else if (json_is_string(value) &&
             !bigquery_int(json_string_value(value), json_string_length(value), &number))
        number = -1;
    return number < 0 ? -1 : number;
}
