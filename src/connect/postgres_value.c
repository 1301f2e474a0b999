/*
 * Values of PostgreSQL in its text format, read strictly: what is not such a value is -EPROTO,
 * because then the server is none. Arrays and records become JSON, as result.h says. Pure
 * functions.
 */
#include "connect/postgres_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define NUMBER_MAX 400 /* bytes of an int or a float */
#define DAY_US     INT64_C(86400000000)

/* ---- scalars ---- */

static int int_of(const char *text, size_t len, int64_t *ret_value)
{
    char buf[24], *end;

    if (len == 0 || len >= sizeof buf || !(text[0] == '-' || (text[0] >= '0' && text[0] <= '9')))
        return -EPROTO;
    memcpy(buf, text, len);
    buf[len] = '\0';
    errno = 0;
    *ret_value = strtoll(buf, &end, 10);
    return errno || end != buf + len ? -EPROTO : 0;
}

static bool is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

static bool is_special(const char *text, size_t len)
{
    return is(text, len, "NaN") || is(text, len, "Infinity") || is(text, len, "-Infinity");
}

static int float_of(const char *text, size_t len, double *ret_value)
{
    char buf[NUMBER_MAX], *end;

    if (len == 0 || len >= sizeof buf)
        return -EPROTO;
    memcpy(buf, text, len);
    buf[len] = '\0';
    if (!is_special(text, len) && strspn(buf, "0123456789+-.eE") < len)
        return -EPROTO;
    *ret_value = strtod(buf, &end);
    return end != buf + len ? -EPROTO : 0;
}

static bool is_decimal(const char *text, size_t len)
{
    size_t at = len > 0 && text[0] == '-', digits = 0, dots = 0;

    if (is_special(text, len))
        return true;
    for (; at < len; at++) {
        if (text[at] == '.')
            dots++;
        else if (text[at] >= '0' && text[at] <= '9')
            digits++;
        else
            return false;
    }
    return digits > 0 && dots <= 1;
}

/* ---- dates and times ---- */

struct cursor {
    const char *at, *end;
};

/* Between @min and @max digits. */
static int digits(struct cursor *c, int min, int max, int64_t *ret_value)
{
    int n = 0;

    *ret_value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9' && n < max; n++)
        *ret_value = *ret_value * 10 + (*c->at++ - '0');
    return n < min ? -EPROTO : 0;
}

static bool take(struct cursor *c, char wanted)
{
    if (c->at >= c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* Days since 1970 of a date in the Gregorian calendar, by eras of 400 years. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t era, of_era, of_year;

    year -= month <= 2;
    era = (year >= 0 ? year : year - 399) / 400;
    of_era = year - era * 400;
    of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct date {
    int64_t year, month, day;
};

static int date_take(struct cursor *c, struct date *ret_date)
{
    if (digits(c, 4, 7, &ret_date->year) < 0 || !take(c, '-') ||
        digits(c, 2, 2, &ret_date->month) < 0 || !take(c, '-') ||
        digits(c, 2, 2, &ret_date->day) < 0 || ret_date->month < 1 || ret_date->month > 12 ||
        ret_date->day < 1 || ret_date->day > 31)
        return -EPROTO;
    return 0;
}

/* " BC" and the end: year 1 BC is 0. */
static int date_end(struct cursor *c, struct date *date)
{
    if (c->end - c->at == 3 && memcmp(c->at, " BC", 3) == 0) {
        date->year = 1 - date->year;
        c->at = c->end;
    }
    return c->at == c->end ? 0 : -EPROTO;
}

static int time_take(struct cursor *c, int64_t *ret_us)
{
    int64_t hour, minute, second, micros = 0;

    if (digits(c, 2, 2, &hour) < 0 || !take(c, ':') || digits(c, 2, 2, &minute) < 0 ||
        !take(c, ':') || digits(c, 2, 2, &second) < 0 || hour > 24 || minute > 59 || second > 60)
        return -EPROTO;
    if (take(c, '.')) {
        const char *start = c->at;

        if (digits(c, 1, 6, &micros) < 0)
            return -EPROTO;
        for (int64_t n = c->at - start; n < 6; n++)
            micros *= 10;
    }
    *ret_us = ((hour * 60 + minute) * 60 + second) * USEC_PER_SEC + micros;
    return 0;
}

/* "+02", "-03:30", "+00:53:28" */
static int zone_take(struct cursor *c, int64_t *ret_us)
{
    int64_t hour, minute = 0, second = 0;
    bool minus;

    if (c->at >= c->end || (*c->at != '+' && *c->at != '-'))
        return -EPROTO;
    minus = *c->at++ == '-';
    if (digits(c, 2, 2, &hour) < 0 || (take(c, ':') && digits(c, 2, 2, &minute) < 0) ||
        (take(c, ':') && digits(c, 2, 2, &second) < 0))
        return -EPROTO;
    *ret_us = ((hour * 60 + minute) * 60 + second) * USEC_PER_SEC * (minus ? -1 : 1);
    return 0;
}

static bool infinity_of(const char *text, size_t len, int64_t *ret_value)
{
    if (is(text, len, "infinity"))
        *ret_value = INT64_MAX;
    else if (is(text, len, "-infinity"))
        *ret_value = INT64_MIN;
    else
        return false;
    return true;
}

static int date_of(const char *text, size_t len, int64_t *ret_days)
{
    struct cursor c = { text, text + len };
    struct date date;

    if (infinity_of(text, len, ret_days))
        return 0;
    if (date_take(&c, &date) < 0 || date_end(&c, &date) < 0)
        return -EPROTO;
    *ret_days = days_of(date.year, date.month, date.day);
    return 0;
}

static int timestamp_of(const char *text, size_t len, bool zoned, int64_t *ret_us)
{
    struct cursor c = { text, text + len };
    struct date date;
    int64_t us, zone = 0;

    if (infinity_of(text, len, ret_us))
        return 0;
    if (date_take(&c, &date) < 0 || !take(&c, ' ') || time_take(&c, &us) < 0 ||
        (zoned && zone_take(&c, &zone) < 0) || date_end(&c, &date) < 0)
        return -EPROTO;
    if (__builtin_mul_overflow(days_of(date.year, date.month, date.day), DAY_US, ret_us) ||
        __builtin_add_overflow(*ret_us, us - zone, ret_us) || *ret_us == INT64_MAX ||
        *ret_us == INT64_MIN)
        return -ERANGE;
    return 0;
}

static int time_of(const char *text, size_t len, int64_t *ret_us)
{
    struct cursor c = { text, text + len };

    return time_take(&c, ret_us) < 0 || c.at != c.end ? -EPROTO : 0;
}

/* What the fixed types but FLOAT have in common. */
static int fixed_of(enum result_type type, const char *text, size_t len, int64_t *ret_value)
{
    if (type == RESULT_BOOL) {
        *ret_value = len == 1 && text[0] == 't';
        return len == 1 && (text[0] == 't' || text[0] == 'f') ? 0 : -EPROTO;
    }
    if (type == RESULT_INT)
        return int_of(text, len, ret_value);
    if (type == RESULT_DATE)
        return date_of(text, len, ret_value);
    if (type == RESULT_TIME)
        return time_of(text, len, ret_value);
    return timestamp_of(text, len, type == RESULT_TIMESTAMPTZ, ret_value);
}

/* ---- bytes ---- */

static char *bytes_of(const char *text, size_t len, size_t *ret_len)
{
    char *bytes;

    if (len < 2 || len % 2 != 0 || text[0] != '\\' || text[1] != 'x')
        return NULL;
    bytes = malloc(len / 2);
    for (size_t i = 2; bytes && i < len; i += 2) {
        int high = hex_value(text[i]), low = hex_value(text[i + 1]);

        if (high < 0 || low < 0) {
            free(bytes);
            return NULL;
        }
        bytes[i / 2 - 1] = (char) (high << 4 | low);
    }
    *ret_len = len / 2 - 1;
    return bytes;
}

static void write_base64(FILE *out, const char *bytes, size_t len)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        unsigned group = (unsigned) (unsigned char) bytes[i] << 16;

        if (i + 1 < len)
            group |= (unsigned) (unsigned char) bytes[i + 1] << 8;
        if (i + 2 < len)
            group |= (unsigned) (unsigned char) bytes[i + 2];
        fputc(alphabet[group >> 18], out);
        fputc(alphabet[group >> 12 & 63], out);
        fputc(i + 1 < len ? alphabet[group >> 6 & 63] : '=', out);
        fputc(i + 2 < len ? alphabet[group & 63] : '=', out);
    }
}

/* ---- JSON for what is nested ---- */

static int write_text(FILE *out, const char *text, size_t len)
{
    if (!utf8_valid(text, len))
        return -EILSEQ;
    fputc('"', out);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) text[i];

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
    return 0;
}

static int write_scalar(FILE *out, enum result_type type, const char *text, size_t len)
{
    int64_t value;
    double number;
    int r;

    if (type == RESULT_FLOAT)
        return float_of(text, len, &number) < 0 ? -EPROTO : write_text(out, text, len);
    if (type == RESULT_DECIMAL)
        return is_decimal(text, len) ? write_text(out, text, len) : -EPROTO;
    if (type == RESULT_BYTES) {
        size_t bytes_len;
        autofree char *bytes = bytes_of(text, len, &bytes_len);

        if (!bytes)
            return -EPROTO;
        fputc('"', out);
        write_base64(out, bytes, bytes_len);
        fputc('"', out);
        return 0;
    }
    if (type > RESULT_TIMESTAMPTZ)
        return write_text(out, text, len);
    if ((r = fixed_of(type, text, len, &value)) < 0)
        return r;
    if (type == RESULT_BOOL)
        fputs(value ? "true" : "false", out);
    else
        fprintf(out, "%lld", (long long) value);
    return 0;
}

struct nest {
    const struct pg_types *types;
    FILE *out;
};

static int write_value(const struct nest *nest, unsigned oid, unsigned depth, const char *text,
                       size_t len);

/* An item of an array or a record: in quotes, with backslashes and doubled quotes, or up to one of
 * @stops. Writes it unquoted to @item. */
static int item_take(struct cursor *c, const char *stops, char *item, size_t *ret_len,
                     bool *ret_quoted)
{
    size_t len = 0;
    bool inside = false;

    *ret_quoted = false;
    while (c->at < c->end) {
        char ch = *c->at;

        if (!inside && strchr(stops, ch) && ch)
            break;
        c->at++;
        if (ch == '\\') {
            if (c->at >= c->end)
                return -EPROTO;
            item[len++] = *c->at++;
        } else if (ch == '"') {
            if (inside && c->at < c->end && *c->at == '"') {
                item[len++] = '"';
                c->at++;
            } else {
                inside = !inside;
                *ret_quoted = true;
            }
        } else {
            item[len++] = ch;
        }
    }
    *ret_len = len;
    return inside || c->at >= c->end ? -EPROTO : 0;
}

static int write_element(const struct nest *nest, const struct pg_shape *shape, unsigned depth,
                         struct cursor *c, char *item)
{
    const char stops[] = { shape->delimiter ? shape->delimiter : ',', '}', '\0' };
    size_t len;
    bool quoted;

    if (item_take(c, stops, item, &len, &quoted) < 0 || (!quoted && len == 0))
        return -EPROTO;
    if (!quoted && is(item, len, "NULL")) {
        fputs("null", nest->out);
        return 0;
    }
    return write_value(nest, shape->element, depth + 1, item, len);
}

/* {1,2} or {{1,2},{3,4}}: the braces are JSON's brackets, whatever the number of dimensions. */
static int write_array(const struct nest *nest, const struct pg_shape *shape, unsigned depth,
                       const char *text, size_t len)
{
    struct cursor c = { text, text + len };
    autofree char *item = malloc(len + 1);
    const char *equal = len > 0 && text[0] == '[' ? memchr(text, '=', len) : NULL;
    int level = 0, r = 0;
    bool value_next = true; /* else a delimiter or the end */

    if (!item)
        return -ENOMEM;
    if (equal) /* bounds other than 1 are not kept */
        c.at = equal + 1;
    do {
        if (value_next && take(&c, '{')) {
            if (++level > 6)
                return -EPROTO;
            fputc('[', nest->out);
            value_next = !(c.at < c.end && *c.at == '}');
        } else if (!value_next && take(&c, '}')) {
            level--;
            fputc(']', nest->out);
        } else if (!value_next && take(&c, shape->delimiter ? shape->delimiter : ',')) {
            fputc(',', nest->out);
            value_next = true;
        } else if (value_next && level > 0) {
            r = write_element(nest, shape, depth, &c, item);
            value_next = false;
        } else {
            return -EPROTO;
        }
    } while (r == 0 && level > 0);
    return r < 0 ? r : c.at == c.end ? 0 : -EPROTO;
}

/* (1,"a b",): nothing at all between two commas is null. */
static int write_record(const struct nest *nest, const struct pg_shape *shape, unsigned depth,
                        const char *text, size_t len)
{
    struct cursor c = { text, text + len };
    autofree char *item = malloc(len + 1);
    int r = 0;

    if (!item)
        return -ENOMEM;
    if (!take(&c, '('))
        return -EPROTO;
    fputc('{', nest->out);
    for (size_t i = 0; i < shape->fields_len && r == 0; i++) {
        const char *name;
        unsigned oid;
        size_t item_len;
        bool quoted;

        if ((i > 0 && !take(&c, ',')) || item_take(&c, ",)", item, &item_len, &quoted) < 0)
            return -EPROTO;
        pg_shape_field(shape, i, &name, &oid);
        fputs(i > 0 ? "," : "", nest->out);
        if ((r = write_text(nest->out, name, strlen(name))) < 0)
            return r;
        fputc(':', nest->out);
        if (item_len == 0 && !quoted)
            fputs("null", nest->out);
        else
            r = write_value(nest, oid, depth + 1, item, item_len);
    }
    if (r < 0)
        return r;
    fputc('}', nest->out);
    return take(&c, ')') && c.at == c.end ? 0 : -EPROTO;
}

static int write_value(const struct nest *nest, unsigned oid, unsigned depth, const char *text,
                       size_t len)
{
    struct pg_shape shape, element;

    pg_shape(nest->types, oid, depth, &shape);
    if (shape.array) {
        pg_shape(nest->types, shape.element, depth + 1, &element);
        if (element.array) /* as postgres_types.c describes it */
            return write_array(nest, &shape, SHAPE_DEPTH, text, len);
        return write_array(nest, &shape, depth, text, len);
    }
    if (shape.type == RESULT_RECORD)
        return write_record(nest, &shape, depth, text, len);
    return write_scalar(nest->out, shape.type, text, len);
}

static int put_nested(const struct pg_types *types, unsigned oid, struct result *result,
                      const char *text, size_t len)
{
    struct nest nest = { .types = types };
    autofree char *json = NULL;
    size_t json_len = 0;
    int r;

    nest.out = open_memstream(&json, &json_len);
    if (!nest.out)
        return -ENOMEM;
    r = write_value(&nest, oid, 0, text, len);
    if (fclose(nest.out) != 0 || !json)
        return -ENOMEM;
    return r < 0 ? r : result_put_text(result, json, json_len);
}

int pg_value_put(const struct pg_types *types, unsigned oid, struct result *result,
                 const char *text, size_t len)
{
    struct pg_shape shape;
    int64_t value;
    double number;
    int r;

    pg_shape(types, oid, 0, &shape);
    if (shape.array || shape.type == RESULT_RECORD)
        return put_nested(types, oid, result, text, len);
    if (shape.type == RESULT_FLOAT)
        return float_of(text, len, &number) < 0 ? -EPROTO : result_put_float(result, number);
    if (shape.type == RESULT_BYTES) {
        size_t bytes_len = 0;
        autofree char *bytes = bytes_of(text, len, &bytes_len);

        return bytes ? result_put_text(result, bytes, bytes_len) : -EPROTO;
    }
    if (shape.type == RESULT_DECIMAL && !is_decimal(text, len))
        return -EPROTO;
    if (shape.type > RESULT_TIMESTAMPTZ)
        return result_put_text(result, text, len);
    r = fixed_of(shape.type, text, len, &value);
    return r < 0 ? r : result_put_int(result, value);
}
