/* What follows the digits of a number and changes it: exponents, scales, percent signs. */

#include <math.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/numeral/internal.h"

#include "base/banned.h"

/* In lower case, except single letters, whose case matters. */
static const struct {
    const char *word;
    double scale;
} scales[] = {
    { "k", 1e3 },
    { "K", 1e3 },
    { "M", 1e6 },
    { "B", 1e9 },
    { "T", 1e12 },
    { "m", 1e6 },
    { "b", 1e9 },
    { "thousand", 1e3 },
    { "thousands", 1e3 },
    { "tsd", 1e3 },
    { "tausend", 1e3 },
    { "mille", 1e3 },
    { "mil", 1e3 },
    { "hundred", 100 },
    { "hundreds", 100 },
    { "dozen", 12 },
    { "lakh", 1e5 },
    { "lakhs", 1e5 },
    { "lac", 1e5 },
    { "crore", 1e7 },
    { "crores", 1e7 },
    { "mn", 1e6 },
    { "mln", 1e6 },
    { "mio", 1e6 },
    { "mill", 1e6 },
    { "million", 1e6 },
    { "millions", 1e6 },
    { "millionen", 1e6 },
    { "millones", 1e6 },
    { "milioni", 1e6 },
    { "miljoen", 1e6 },
    { "bn", 1e9 },
    { "bln", 1e9 },
    { "billion", 1e9 },
    { "billions", 1e9 },
    { "mrd", 1e9 },
    { "milliarde", 1e9 },
    { "milliarden", 1e9 },
    { "milliard", 1e9 },
    { "milliards", 1e9 },
    { "miliardi", 1e9 },
    { "tn", 1e12 },
    { "trn", 1e12 },
    { "trillion", 1e12 },
    { "trillions", 1e12 },
    { "bio", 1e12 },
    { "billionen", 1e12 },
    { "teur", 1e3 },
    { "keur", 1e3 },
    { "kusd", 1e3 },
    { "meur", 1e6 },
    { "musd", 1e6 },
    { "quadrillion", 1e15 },
    { "gazillion", 1e30 },
};

static double scale_of(const char *word, uint32_t first)
{
    char single[2] = { (char) first, '\0' };
    const char *wanted = strlen(word) == 1 ? single : word;

    for (size_t i = 0; i < ARRAY_LEN(scales); i++)
        if (strcmp(scales[i].word, wanted) == 0)
            return scales[i].scale;
    return 0;
}

/* Characters that are a scale by themselves. */
static double wide_scale(uint32_t code)
{
    switch (code) {
    case 0x767e: /* 百 */
        return 100;
    case 0x5343: /* 千 */
        return 1e3;
    case 0x4e07: /* 万 */
    case 0x842c: /* 萬 */
    case 0xb9cc: /* 만 */
        return 1e4;
    case 0x5104: /* 億 */
    case 0x4ebf: /* 亿 */
    case 0xc5b5: /* 억 */
        return 1e8;
    case 0x5146: /* 兆 */
    case 0xc870: /* 조 */
        return 1e12;
    default:
        return 0;
    }
}

/* ---- exponents ---- */

static double power_of_ten(int exponent)
{
    return exponent > 300 ? 1e300 : exponent < -300 ? 1e-300 : pow(10, exponent);
}

/* "e6" */
static size_t letter_exponent(const struct numerals *n, size_t i, struct numeral *numeral)
{
    bool minus = false;
    int exponent;
    size_t at = i + 1, end;

    if (numerals_code(n, i) != 'e' && numerals_code(n, i) != 'E')
        return i;
    if (glyph_is_minus(numerals_code(n, at)) || glyph_is_plus(numerals_code(n, at)))
        minus = glyph_is_minus(numerals_code(n, at++));
    if (!numerals_is(n, at, GLYPH_DIGIT))
        return i;
    end = numerals_run(n, at, &exponent);
    if (end - at > 3 || numerals_is(n, end, GLYPH_LETTER)) {
        numeral->kind = NUMERAL_ODD;
        return end;
    }
    numeral->scale *= power_of_ten(minus ? -exponent : exponent);
    return end;
}

static bool is_times(const struct numerals *n, size_t i, size_t *ret_end)
{
    uint32_t code = numerals_code(n, i);
    char word[8];
    size_t end;

    *ret_end = i + 1;
    if (code == 0xd7 || code == 0xb7 || code == 0x22c5 || code == '*' || code == 0x2062)
        return true;
    if (code == '\\') {
        *ret_end = numerals_word(n, i + 1, word, sizeof(word));
        return strcmp(word, "times") == 0 || strcmp(word, "cdot") == 0;
    }
    end = numerals_word(n, i, word, sizeof(word));
    return end == i + 1 && (code == 'x' || code == 'X');
}

/* The exponent after "10" in one of its notations: ^6, ^{-6}, **6, <sup>6</sup>, ⁶. */
static size_t power_after(const struct numerals *n, size_t i, int *ret_exponent)
{
    bool minus = false, raised;
    int value = 0;
    size_t at = numerals_skip(n, i), from;

    if (at == i && !numerals_is(n, i, GLYPH_RAISED) && !glyph_is_minus(numerals_code(n, i)))
        return i;
    if (glyph_is_minus(numerals_code(n, at)) || glyph_is_plus(numerals_code(n, at)) ||
        numerals_code(n, at) == 0x207a)
        minus = glyph_is_minus(numerals_code(n, at++));
    raised = numerals_is(n, at, GLYPH_RAISED);
    if (at == i && !raised)
        return i;
    for (from = at; numerals_is(n, at, raised ? GLYPH_RAISED : GLYPH_DIGIT) && at - from < 3; at++)
        value = value * 10 + n->glyphs[at].digit;
    if (at == from || numerals_is(n, at, raised ? GLYPH_RAISED : GLYPH_DIGIT))
        return i;
    *ret_exponent = minus ? -value : value;
    if (!raised) /* braces and tags that belong to it */
        at = numerals_skip(n, at);
    return at;
}

/* " × 10^6". Something like it that cannot be read makes the number odd. */
static size_t times_ten(const struct numerals *n, size_t i, struct numeral *numeral)
{
    int ten, exponent;
    size_t at = numerals_skip_space(n, i), end, stop;

    if (at >= n->len || !is_times(n, at, &end))
        return i;
    at = numerals_skip_space(n, end);
    if (!numerals_is(n, at, GLYPH_DIGIT))
        return i;
    end = numerals_run(n, at, &ten);
    if (ten != 10)
        return i;
    stop = power_after(n, end, &exponent);
    if (stop == end) {
        numeral->kind = NUMERAL_ODD;
        return end;
    }
    numeral->scale *= power_of_ten(exponent);
    return stop;
}

/* A power: "10^6" is a number that can be read, other bases are not. */
static size_t own_power(const struct numerals *n, size_t i, struct numeral *numeral)
{
    int exponent;
    uint32_t code = numerals_code(n, i);
    size_t end;

    if (code != '^' && !numerals_is(n, i, GLYPH_RAISED) && code != 0x207b &&
        !(code == '*' && numerals_code(n, i + 1) == '*' && numerals_is(n, i + 2, GLYPH_DIGIT)))
        return i;
    end = power_after(n, i, &exponent);
    if (end == i || numeral->value != 10 || !numeral->whole) {
        numeral->kind = NUMERAL_ODD;
        return end == i ? i + 1 : end;
    }
    numeral->value = numeral->unit = power_of_ten(exponent);
    numeral->whole = false;
    numeral->digits = 1;
    return end;
}

/* ---- scales and percent ---- */

/* Where a word may follow the number: directly, or after one space, hyphen or parenthesis. */
static size_t word_position(const struct numerals *n, size_t i)
{
    size_t at = numerals_skip(n, i), next = at;

    if (numerals_is(n, at, GLYPH_SPACE) || numerals_is(n, at, GLYPH_THIN) ||
        numerals_is(n, at, GLYPH_LINE))
        next = numerals_skip_space(n, at);
    else if (glyph_is_minus(numerals_code(n, at)))
        next = at + 1;
    next = numerals_skip(n, next);
    if (numerals_code(n, next) == '(')
        next = numerals_skip(n, next + 1);
    return next;
}

static bool has_currency(const struct numerals *n, size_t start, size_t end)
{
    for (size_t back = 1; back <= 3 && back <= start; back++)
        if (numerals_is(n, start - back, GLYPH_CURRENCY))
            return true;
    return numerals_is(n, end, GLYPH_CURRENCY) || numerals_is(n, end + 1, GLYPH_CURRENCY);
}

static size_t one_scale(const struct numerals *n, size_t i, struct numeral *numeral)
{
    char word[24];
    size_t at = word_position(n, i), end;
    double scale = wide_scale(numerals_code(n, at));

    if (scale > 0) {
        numeral->scale *= scale;
        return at + 1;
    }
    end = numerals_word(n, at, word, sizeof(word));
    scale = end > at ? scale_of(word, numerals_code(n, at)) : 0;
    if (scale == 0 || numerals_is(n, end, GLYPH_DIGIT))
        return i;
    /* "5 m" may be metres, unless it is money. */
    if (end == at + 1 && (word[0] == 'm' || word[0] == 'b') && numerals_code(n, at) >= 'a') {
        size_t start = i;

        while (start > 0 &&
               (numerals_is(n, start - 1, GLYPH_DIGIT) ||
                strchr(".,", (int) (numerals_code(n, start - 1) < 0x80 ? numerals_code(n, start - 1)
                                                                       : ' '))) &&
               i - start < 40)
            start--;
        if (!has_currency(n, start, end))
            numeral->other_scale = numeral->scale;
    }
    numeral->scale *= scale;
    return end;
}

static const struct {
    const char *first, *second; /* of two words; NULL: one */
    double percent;
} percents[] = {
    { "percent", NULL, 100 },       { "percentage", NULL, 100 },     { "pct", NULL, 100 },
    { "prozent", NULL, 100 },       { "procent", NULL, 100 },        { "pp", NULL, 100 },
    { "ppt", NULL, 100 },           { "per", "cent", 100 },          { "pour", "cent", 100 },
    { "por", "ciento", 100 },       { "per", "mille", 1000 },        { "bp", NULL, 10000 },
    { "bps", NULL, 10000 },         { "basis", "points", 10000 },    { "basis", "point", 10000 },
    { "prozentpunkte", NULL, 100 }, { "prozentpunkten", NULL, 100 },
};

static size_t percent_read(const struct numerals *n, size_t i, struct numeral *numeral)
{
    char first[16], second[16];
    size_t at = word_position(n, i), end, stop;
    uint32_t code = numerals_code(n, at);

    if (glyph_is_percent(code) || code == 0x2030 || code == 0x2031) {
        numeral->percent = code == 0x2030 ? 1000 : code == 0x2031 ? 10000 : 100;
        return at + 1;
    }
    end = numerals_word(n, at, first, sizeof(first));
    if (end == at)
        return i;
    stop = numerals_word(n, numerals_skip_space(n, end), second, sizeof(second));
    for (size_t k = 0; k < ARRAY_LEN(percents); k++) {
        if (strcmp(percents[k].first, first) != 0 ||
            (percents[k].second && strcmp(percents[k].second, second) != 0))
            continue;
        numeral->percent = percents[k].percent;
        return percents[k].second ? stop : end;
    }
    return i;
}

size_t numerals_suffix(const struct numerals *n, size_t i, struct numeral *numeral)
{
    size_t end = own_power(n, i, numeral);

    if (end == i)
        end = letter_exponent(n, i, numeral);
    if (end == i)
        end = times_ten(n, i, numeral);
    for (int count = 0; count < 3; count++) {
        size_t next = one_scale(n, end, numeral);

        if (next == end)
            break;
        end = next;
    }
    return percent_read(n, end, numeral);
}

double numerals_prefix_scale(const struct numerals *n, size_t i)
{
    char word[24];
    size_t at = i, from;

    while (at > 0 && i - at < 3 &&
           (numerals_is(n, at - 1, GLYPH_SPACE) || numerals_is(n, at - 1, GLYPH_THIN) ||
            numerals_is(n, at - 1, GLYPH_CURRENCY) || numerals_code(n, at - 1) == '.'))
        at--;
    from = numerals_word_before(n, at, word, sizeof(word));
    if (from == at || strlen(word) < 2) {
        /* "k€ 5", "M$ 5" */
        bool money = at < i && from + 1 == at && numerals_is(n, at, GLYPH_CURRENCY);

        return money ? scale_of(word, numerals_code(n, from)) : 0;
    }
    if (strcmp(word, "mil") == 0 || strcmp(word, "bio") == 0 || strcmp(word, "lac") == 0)
        return 0;
    return scale_of(word, numerals_code(n, from));
}
