/* Dates and times in the notations that people and programs use. */

#include <string.h>

#include "base/autoclean.h"
#include "mark/numeral/internal.h"

#include "base/banned.h"

/* Names of months in lower case; those of other languages than English as they are written there. A
 * name stands for itself and, from three letters on and with @shortens, for its first three. */
static const struct {
    const char *name;
    int month;
    bool shortens;
} months[] = {
    { "january", 1, true },     { "february", 2, true },    { "march", 3, true },
    { "april", 4, true },       { "may", 5, true },         { "june", 6, true },
    { "july", 7, true },        { "august", 8, true },      { "september", 9, true },
    { "october", 10, true },    { "november", 11, true },   { "december", 12, true },
    { "sept", 9, false },       { "januar", 1, false },     { "februar", 2, false },
    { "märz", 3, false },       { "mai", 5, false },        { "juni", 6, false },
    { "juli", 7, false },       { "oktober", 10, true },    { "dezember", 12, true },
    { "janvier", 1, false },    { "février", 2, false },    { "mars", 3, false },
    { "avril", 4, false },      { "juin", 6, false },       { "juillet", 7, false },
    { "août", 8, false },       { "septembre", 9, false },  { "octobre", 10, false },
    { "novembre", 11, false },  { "décembre", 12, false },  { "enero", 1, false },
    { "febrero", 2, false },    { "marzo", 3, false },      { "abril", 4, false },
    { "mayo", 5, false },       { "junio", 6, false },      { "julio", 7, false },
    { "agosto", 8, false },     { "septiembre", 9, false }, { "octubre", 10, false },
    { "noviembre", 11, false }, { "diciembre", 12, false },
};

/* 0: not a month. "may" and "march" are months only with a capital letter. */
static int month_of(const char *word, uint32_t first)
{
    bool lower = first >= 'a' && first <= 'z';

    if (lower && (strcmp(word, "may") == 0 || strncmp(word, "mar", 3) == 0) &&
        strcmp(word, "mars") != 0 && strcmp(word, "marzo") != 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(months); i++) {
        if (strcmp(months[i].name, word) == 0)
            return months[i].month;
        if (months[i].shortens && strlen(word) == 3 && strncmp(months[i].name, word, 3) == 0)
            return months[i].month;
    }
    return 0;
}

static bool is_day(int month, int day)
{
    static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
}

static bool is_year(int year)
{
    return year >= 1000 && year <= 2999;
}

static bool date_set(struct numeral *numeral, int year, int month, int day)
{
    numeral->kind = NUMERAL_DATE;
    numeral->year = year;
    numeral->month = month;
    numeral->day = day;
    numeral->swapped_day = numeral->swapped_month = 0;
    return true;
}

/* ---- with separators ---- */

struct part {
    int value;
    size_t len;
};

/* Up to three runs of digits with the same separator between them. */
static size_t parts_read(const struct numerals *n, size_t i, struct part *parts, size_t *ret_count,
                         uint32_t *ret_separator)
{
    uint32_t separator = 0;
    size_t count = 0, end = i;

    while (count < 3) {
        size_t next = numerals_run(n, end, &parts[count].value);

        parts[count].len = next - end;
        end = next;
        count++;
        if (count == 1)
            separator = numerals_code(n, end);
        if (count == 3 || numerals_code(n, end) != separator || !separator ||
            !strchr("-/.", (int) (separator < 0x80 ? separator : ' ')) ||
            !numerals_is(n, end + 1, GLYPH_DIGIT))
            break;
        end++;
    }
    *ret_count = count;
    *ret_separator = separator;
    return end;
}

static bool year_first(const struct part *p, size_t count, uint32_t separator,
                       struct numeral *numeral)
{
    if (p[0].len != 4 || !is_year(p[0].value))
        return false;
    if (count == 3 && p[1].len <= 2 && p[2].len <= 2 && is_day(p[1].value, p[2].value))
        return date_set(numeral, p[0].value, p[1].value, p[2].value);
    if (count == 2 && separator == '-' && p[1].len == 2 && p[1].value >= 1 && p[1].value <= 12)
        return date_set(numeral, p[0].value, p[1].value, 0);
    return false;
}

static bool year_last(const struct part *p, size_t count, uint32_t separator,
                      struct numeral *numeral)
{
    int year = p[2].value;
    bool short_year =
        p[2].len == 2 && separator != '-' && (separator == '/' || (p[0].len == 2 && p[1].len == 2));

    if (count != 3 || p[0].len > 2 || p[1].len > 2)
        return false;
    if (short_year)
        year += year < 70 ? 2000 : 1900;
    else if (p[2].len != 4 || !is_year(year))
        return false;
    if (is_day(p[1].value, p[0].value)) {
        (void) date_set(numeral, year, p[1].value, p[0].value);
        if (separator == '/' && is_day(p[0].value, p[1].value)) {
            numeral->swapped_day = p[1].value;
            numeral->swapped_month = p[0].value;
        }
        return true;
    }
    return separator != '.' && is_day(p[0].value, p[1].value) &&
           date_set(numeral, year, p[0].value, p[1].value);
}

/* ---- times ---- */

static size_t half_of_day(const struct numerals *n, size_t i, struct numeral *numeral)
{
    char word[4];
    size_t at = numerals_is(n, i, GLYPH_SPACE) || numerals_is(n, i, GLYPH_THIN) ? i + 1 : i;
    size_t end = numerals_word(n, at, word, sizeof(word));

    if (strcmp(word, "am") != 0 && strcmp(word, "pm") != 0)
        return i;
    if (numeral->hour >= 1 && numeral->hour <= 12)
        numeral->hour = numeral->hour % 12 + (word[0] == 'p' ? 12 : 0);
    return end;
}

static size_t time_read(const struct numerals *n, size_t i, struct numeral *numeral)
{
    int hour, minute, second = -1, ignored;
    size_t end = numerals_run(n, i, &hour), from;

    if (end - i > 2 || numerals_code(n, end) != ':' || hour > 24)
        return 0;
    from = end + 1;
    end = numerals_run(n, from, &minute);
    if (end - from != 2 || minute > 59)
        return 0;
    if (numerals_code(n, end) == ':' && numerals_is(n, end + 1, GLYPH_DIGIT)) {
        from = end + 1;
        end = numerals_run(n, from, &second);
        if (end - from != 2 || second > 60)
            return 0;
        if (numerals_code(n, end) == '.' && numerals_is(n, end + 1, GLYPH_DIGIT))
            end = numerals_run(n, end + 1, &ignored);
    }
    numeral->kind = NUMERAL_TIME;
    numeral->hour = hour;
    numeral->minute = minute;
    numeral->second = second;
    return half_of_day(n, end, numeral);
}

/* ---- with the name of a month ---- */

/* A year of four digits after @i, with ", " or " " before it; returns its end or @i. */
static size_t year_after(const struct numerals *n, size_t i, int *ret_year)
{
    size_t at = i, end;
    int year;

    if (numerals_code(n, at) == ',' || numerals_code(n, at) == '.')
        at++;
    at = numerals_skip_space(n, at);
    if (at == i || !numerals_is(n, at, GLYPH_DIGIT))
        return i;
    end = numerals_run(n, at, &year);
    if (end - at != 4 || !is_year(year) || numerals_is(n, end, GLYPH_LETTER))
        return i;
    *ret_year = year;
    return end;
}

static size_t ordinal_end(const struct numerals *n, size_t i)
{
    static const char *const endings[] = { "st", "nd", "rd", "th", "er" };
    char word[8];
    size_t end = numerals_word(n, i, word, sizeof(word));

    for (size_t k = 0; k < ARRAY_LEN(endings); k++)
        if (strcmp(word, endings[k]) == 0)
            return end;
    return numerals_code(n, i) == '.' ? i + 1 : i;
}

/* "1 March 2024", "1st of March", "1. Mai" */
static size_t day_then_month(const struct numerals *n, size_t i, struct numeral *numeral)
{
    int day, month, year = 0;
    char word[24];
    size_t end = numerals_run(n, i, &day), at, stop;

    if (end - i > 2)
        return 0;
    at = numerals_skip_space(n, ordinal_end(n, end));
    stop = numerals_word(n, at, word, sizeof(word));
    if (strcmp(word, "of") == 0 || strcmp(word, "de") == 0) {
        at = numerals_skip_space(n, stop);
        stop = numerals_word(n, at, word, sizeof(word));
    }
    month = stop > at ? month_of(word, numerals_code(n, at)) : 0;
    if (!is_day(month, day))
        return 0;
    if (numerals_code(n, stop) == '.')
        stop++;
    end = year_after(n, stop, &year);
    (void) date_set(numeral, year, month, day);
    return end;
}

/* "March 1, 2024", "March 2024", "Mar 1st" */
static size_t month_then_day(const struct numerals *n, size_t i, struct numeral *numeral,
                             size_t *start)
{
    int month, value, year = 0;
    char word[24];
    size_t end = numerals_run(n, i, &value), at = i, from;

    while (at > 0 && i - at < 3 &&
           (numerals_is(n, at - 1, GLYPH_SPACE) || numerals_is(n, at - 1, GLYPH_THIN) ||
            numerals_code(n, at - 1) == '.' || numerals_code(n, at - 1) == ','))
        at--;
    if (at == i)
        return 0;
    from = numerals_word_before(n, at, word, sizeof(word));
    month = from < at ? month_of(word, numerals_code(n, from)) : 0;
    if (!month || from < n->done || (from > 0 && numerals_is(n, from - 1, GLYPH_DIGIT)))
        return 0;
    if (end - i == 4 && is_year(value)) {
        *start = from;
        (void) date_set(numeral, value, month, 0);
        return end;
    }
    if (end - i > 2 || !is_day(month, value))
        return 0;
    *start = from;
    if (numerals_code(n, end) != '.')
        end = ordinal_end(n, end);
    end = year_after(n, end, &year);
    (void) date_set(numeral, year, month, value);
    return end;
}

size_t numerals_date(const struct numerals *n, size_t i, struct numeral *numeral, size_t *start)
{
    struct part parts[3] = { { 0, 0 } };
    uint32_t separator;
    size_t count, end;

    end = time_read(n, i, numeral);
    if (end)
        return end;
    end = parts_read(n, i, parts, &count, &separator);
    if (count > 1 && !numerals_is(n, end, GLYPH_DIGIT) &&
        (year_first(parts, count, separator, numeral) ||
         year_last(parts, count, separator, numeral)))
        return end;
    end = day_then_month(n, i, numeral);
    return end ? end : month_then_day(n, i, numeral, start);
}
