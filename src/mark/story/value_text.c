/*
 * The text of a value.
 *
 * Formats are a part of Python's: [+][,|_][.precision][d|f|F|e|E|g|G|%|s]. One that would hide the
 * value (0.4 as "0") gets more decimals until it is off by no more than 5 percent: the check of a
 * story holds for what a reader sees.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/numeral/glyph.h"
#include "mark/story/story.h"

#include "base/banned.h"

#define DIGITS_MAX   400u /* of 1e308 with decimals */
#define DECIMALS_MAX 20
#define UNIT_BYTES   64u
#define DISTORTED    0.05L

/* ---- formats ---- */

struct spec {
    bool plus, group;
    int precision; /* -1: none */
    char type;     /* 0: none */
};

static bool spec_parse(const char *text, struct spec *ret_spec)
{
    struct spec spec = { .precision = -1 };

    if (*text == '+' || *text == ' ')
        spec.plus = *text++ == '+';
    if (*text == ',' || *text == '_') {
        spec.group = true;
        text++;
    }
    if (*text == '.') {
        if (text[1] < '0' || text[1] > '9')
            return false;
        spec.precision = text[1] - '0';
        text += 2;
        if (*text >= '0' && *text <= '9')
            spec.precision = spec.precision * 10 + *text++ - '0';
        if (spec.precision > DECIMALS_MAX)
            spec.precision = DECIMALS_MAX;
    }
    if (*text && strchr("deEfFgGs%", *text))
        spec.type = *text++;
    if (*text)
        return false;
    *ret_spec = spec;
    return true;
}

/* ---- digits ---- */

/* @text is a number by printf: the decimal separator of the locale, whatever it is, becomes a
 * point. */
static void repair_point(char *text)
{
    char *out = text;
    bool point = false;

    for (const char *c = text; *c; c++) {
        if ((*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || *c == 'e' || *c == 'E') {
            *out++ = *c;
            point = false;
        } else if (!point) {
            *out++ = '.';
            point = true;
        }
    }
    *out = '\0';
}

/* Copies @digits to @out with a comma between thousands. */
static void group_digits(const char *digits, char *out)
{
    size_t whole = strspn(digits, "-"), start = whole;

    whole += strspn(digits + start, "0123456789");
    memcpy(out, digits, start);
    out += start;
    for (size_t i = start; i < whole; i++) {
        *out++ = digits[i];
        if ((whole - i - 1) % 3 == 0 && i + 1 < whole)
            *out++ = ',';
    }
    memcpy(out, digits + whole, strlen(digits + whole) + 1);
}

static void drop_zeros(char *text)
{
    size_t len = strlen(text);

    if (!strchr(text, '.') || strchr(text, 'e'))
        return;
    while (text[len - 1] == '0')
        text[--len] = '\0';
    if (text[len - 1] == '.')
        text[--len] = '\0';
    if (strcmp(text, "-0") == 0)
        memcpy(text, "0", 2);
}

/* A number that is read back, without the locale: only what print_number() writes. */
static long double read_back(const char *text)
{
    long double value = 0, scale = 1;
    bool minus = *text == '-';
    int exponent = 0;

    for (text += minus || *text == '+'; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++) {
            value = value * 10 + (*text - '0');
            scale *= 10;
        }
    if (*text == 'e' || *text == 'E') {
        bool down = text[1] == '-';

        for (text += 2; *text >= '0' && *text <= '9' && exponent < 5000; text++)
            exponent = exponent * 10 + (*text - '0');
        value *= powl(10, down ? -exponent : exponent);
    }
    return (minus ? -value : value) / scale;
}

static void print_number(char *out, size_t size, char type, int precision, long double value)
{
    int n = -1;

    switch (type) {
    case 'e':
        n = snprintf(out, size, "%.*Le", precision, value);
        break;
    case 'E':
        n = snprintf(out, size, "%.*LE", precision, value);
        break;
    case 'g':
    case 'G':
        n = snprintf(out, size, "%.*Lg", precision, value);
        break;
    default:
        n = snprintf(out, size, "%.*Lf", precision, value);
        break;
    }
    if (n < 0 || (size_t) n >= size)
        (void) snprintf(out, size, "?");
    else
        repair_point(out);
}

/* With more decimals if it would be another number otherwise. */
static void print_faithfully(char *out, size_t size, char type, int precision, long double value)
{
    for (;; precision++) {
        print_number(out, size, type, precision, value);
        if (value == 0 || precision >= DECIMALS_MAX ||
            fabsl(read_back(out) - value) <= fabsl(value) * DISTORTED)
            return;
    }
}

/* ---- numbers ---- */

/* Two decimals from 1 on, four significant digits below. */
static int default_decimals(long double value)
{
    long double size = fabsl(value);

    if (size >= 1 || size == 0)
        return 2;
    return (int) fminl(4 - ceill(log10l(size)), DECIMALS_MAX);
}

static void default_number(char *digits, size_t size, long double value, bool money)
{
    long double magnitude = fabsl(value);

    if (magnitude != 0 && (magnitude >= 1e15L || magnitude < 1e-6L)) {
        print_number(digits, size, 'e', 3, value);
        return;
    }
    print_number(digits, size, 'f', default_decimals(value), value);
    if (!money || value == truncl(value))
        drop_zeros(digits);
}

static bool is_percent_unit(const char *unit)
{
    return strcmp(unit, "%") == 0 || strcmp(unit, "percent") == 0 || strcmp(unit, "pct") == 0;
}

/* By a format. Returns what is to follow the digits: "" or "%". */
static const char *format_number(char *digits, size_t size, const struct spec *spec,
                                 long double value, bool whole, const char *unit)
{
    int precision = spec->precision;
    bool percent = spec->type == '%' && !is_percent_unit(unit);

    if (spec->type == '%') {
        print_faithfully(digits, size, 'f', precision < 0 ? (percent ? 1 : 2) : precision,
                         percent ? value * 100 : value);
        if (precision < 0)
            drop_zeros(digits);
        return percent ? "%" : "";
    }
    if (spec->type == 'e' || spec->type == 'E' || spec->type == 'g' || spec->type == 'G')
        print_faithfully(digits, size, spec->type, precision < 0 ? 6 : precision, value);
    else if (spec->type == 'f' || spec->type == 'F')
        print_faithfully(digits, size, 'f', precision < 0 ? 6 : precision, value);
    else if (spec->type == 'd' || whole)
        print_faithfully(digits, size, 'f', precision < 0 ? 0 : precision, value);
    else if (precision >= 0)
        print_faithfully(digits, size, 'g', precision < 1 ? 1 : precision, value);
    else
        default_number(digits, size, value, false);
    return "";
}

/* ---- units ---- */

/* A unit is shown next to the digits: it must not be able to pass for more of them. */
static bool unit_is_safe(const char *unit)
{
    struct glyph *glyphs;
    size_t len;
    bool safe = true;

    if (!*unit || strlen(unit) > UNIT_BYTES || !utf8_valid(unit, strlen(unit)) ||
        strchr(".,'_", *unit) || glyphs_read(unit, strlen(unit), true, &glyphs, &len) < 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        enum glyph_kind kind = (enum glyph_kind) glyphs[i].kind;
        bool behind_letter = i > 0 && glyphs[i - 1].kind == GLYPH_LETTER;

        if (kind == GLYPH_ODD || kind == GLYPH_FRACTION || kind == GLYPH_HIDDEN ||
            kind == GLYPH_LINE || kind == GLYPH_MARKUP ||
            ((kind == GLYPH_DIGIT || kind == GLYPH_RAISED) && !behind_letter) ||
            (i == 0 && glyph_is_like_digit(glyphs[i].code) && len == 1))
            safe = false;
    }
    free(glyphs);
    return safe;
}

/* The unit without spaces around it, or "". */
static void unit_copy(const json_t *value, char *unit, size_t size)
{
    const char *text = json_string_value(json_object_get(value, "unit"));
    size_t len;

    unit[0] = '\0';
    if (!text)
        return;
    text += strspn(text, " ");
    len = strlen(text);
    while (len > 0 && text[len - 1] == ' ')
        len--;
    if (len >= size)
        return;
    memcpy(unit, text, len);
    unit[len] = '\0';
    if (!unit_is_safe(unit))
        unit[0] = '\0';
}

static bool is_currency_sign(const char *unit)
{
    static const char *const signs[] = { "$", "€", "£", "¥", "₹", "₩", "US$", "A$", "C$", NULL };

    for (const char *const *sign = signs; *sign; sign++)
        if (strcmp(*sign, unit) == 0)
            return true;
    return false;
}

static bool is_money(const char *unit)
{
    static const char *const codes[] = { "EUR", "USD", "GBP", "CHF", "JPY", "CAD", "AUD",
                                         "SEK", "NOK", "DKK", "PLN", "CNY", "INR", NULL };

    for (const char *const *code = codes; *code; code++)
        if (strcmp(*code, unit) == 0)
            return true;
    return is_currency_sign(unit);
}

/* ---- the text ---- */

static char *join_number(const char *sign, const char *digits, const char *after, const char *unit)
{
    char *text = NULL;
    const char *space = *unit && strcmp(unit, "%") != 0 && strcmp(unit, "°") != 0 ? " " : "";
    int n;

    if (is_currency_sign(unit))
        n = asprintf(&text, "%s%s%s%s", sign, unit, digits, after);
    else
        n = asprintf(&text, "%s%s%s%s%s", sign, digits, after, space, unit);
    return n < 0 ? NULL : text;
}

static char *number_text(const json_t *value, const json_t *number, const char *format)
{
    char digits[DIGITS_MAX], grouped[DIGITS_MAX * 2], unit[UNIT_BYTES + 1];
    long double x = json_is_integer(number) ? (long double) json_integer_value(number)
                                            : (long double) json_real_value(number);
    const char *after = "", *shown = digits;
    struct spec spec = { .precision = -1 };
    bool whole = json_is_integer(number), given, group;

    unit_copy(value, unit, sizeof(unit));
    given = format && spec_parse(format, &spec) && spec.type != 's' &&
            (spec.type || spec.precision >= 0 || spec.group || spec.plus);
    if (given && (spec.type || spec.precision >= 0))
        after = format_number(digits, sizeof(digits), &spec, x, whole, unit);
    else if (whole)
        print_number(digits, sizeof(digits), 'f', 0, x);
    else
        default_number(digits, sizeof(digits), x, is_money(unit));
    /* A bare whole number of four digits is as often a year as not. */
    group = given ? spec.group : !(fabsl(x) < 10000 && !*unit);
    if (group && !strchr(digits, 'e') && !strchr(digits, 'E')) {
        group_digits(digits, grouped);
        shown = grouped;
    }
    if (*shown == '-')
        return join_number("-", shown + 1, after, unit);
    return join_number(spec.plus ? "+" : "", shown, after, unit);
}

static char *plain_text(const json_t *value, const char *format)
{
    const json_t *item = json_object_get(value, "value");

    if (json_is_number(item))
        return number_text(value, item, format);
    if (json_is_true(item))
        return strdup("yes");
    if (json_is_false(item))
        return strdup("no");
    if (json_is_string(item)) {
        char unit[UNIT_BYTES + 1], *text = NULL;

        unit_copy(value, unit, sizeof(unit));
        return asprintf(&text, "%s%s%s", json_string_value(item), *unit ? " " : "", unit) < 0
                   ? NULL
                   : text;
    }
    return strdup("no value");
}

char *value_text(const json_t *value)
{
    return plain_text(value, json_string_value(json_object_get(value, "format")));
}

/* ---- Markdown ---- */

/* What starts something at the beginning of a line: "# ", "- ", "12. ". */
static size_t line_start_mark(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    if (digits > 0 && digits < 10 && (text[digits] == '.' || text[digits] == ')') &&
        (text[digits + 1] == ' ' || !text[digits + 1]))
        return digits;
    return strchr("#>+-=", *text) && *text && (text[1] == ' ' || text[1] == *text || !text[1])
               ? 0
               : SIZE_MAX;
}

/* A dollar sign in front of a number is money to anyone; in other text it may open a formula. */
static bool needs_escape(const char *text, size_t i, bool number)
{
    if (strchr("\\`*_[]<>&~|^{}@", text[i]) || (text[i] == '$' && !number))
        return true;
    if (text[i] == ':')
        return text[i + 1] == '/';
    return text[i] == '.' && i >= 3 && (memcmp(text + i - 3, "www", 3) == 0);
}

static char *escape(const char *text, bool number)
{
    size_t len = strlen(text), mark = line_start_mark(text);
    char *out = malloc(len * 2 + 1), *end = out;

    if (!out)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) text[i];

        if (c < ' ' || c == 0x7f) {
            *end++ = ' ';
            continue;
        }
        if (i == mark || needs_escape(text, i, number))
            *end++ = '\\';
        *end++ = text[i];
    }
    *end = '\0';
    return out;
}

char *value_markdown(const json_t *value, const char *format)
{
    const char *own = json_string_value(json_object_get(value, "format"));
    struct spec ignored;
    autofree char *text = plain_text(value, format && spec_parse(format, &ignored) ? format : own);

    if (!text)
        return NULL;
    return escape(text, json_is_number(json_object_get(value, "value")));
}
