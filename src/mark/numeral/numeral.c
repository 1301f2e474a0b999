#include "mark/numeral/numeral.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/numeral/internal.h"

#include "base/banned.h"

#define RUNS_MAX 24u

/* ---- pieces ---- */

size_t numerals_skip_space(const struct numerals *n, size_t i)
{
    unsigned lines = 0;

    for (;; i++) {
        if (numerals_is(n, i, GLYPH_LINE) && numerals_code(n, i) != '\r')
            lines++;
        if (lines > 1 || !(numerals_is(n, i, GLYPH_SPACE) || numerals_is(n, i, GLYPH_THIN) ||
                           numerals_is(n, i, GLYPH_LINE)))
            return i;
    }
}

size_t numerals_run(const struct numerals *n, size_t i, int *ret_value)
{
    size_t start = i;
    int value = 0;

    for (; numerals_is(n, i, GLYPH_DIGIT); i++)
        if (i - start < 9)
            value = value * 10 + n->glyphs[i].digit;
    *ret_value = i - start <= 9 ? value : -1;
    return i;
}

static void word_copy(const struct numerals *n, size_t from, size_t to, char *word, size_t size)
{
    size_t start = n->glyphs[from].at, len = n->glyphs[to].at - start;

    word[0] = '\0';
    if (len >= size) /* none of the words that anyone looks for */
        return;
    for (size_t i = 0; i < len; i++) {
        char c = n->text[start + i];

        word[i] = c >= 'A' && c <= 'Z' ? (char) (c | 0x20) : c;
    }
    word[len] = '\0';
}

size_t numerals_word(const struct numerals *n, size_t i, char *word, size_t size)
{
    size_t end = i;

    while (numerals_is(n, end, GLYPH_LETTER) && end - i <= size)
        end++;
    word_copy(n, i < n->len ? i : n->len, end < n->len ? end : n->len, word, size);
    while (numerals_is(n, end, GLYPH_LETTER))
        end++;
    return end;
}

size_t numerals_word_before(const struct numerals *n, size_t i, char *word, size_t size)
{
    size_t start = i;

    while (start > 0 && numerals_is(n, start - 1, GLYPH_LETTER) && i - start <= size)
        start--;
    word_copy(n, start, i, word, size);
    return start;
}

#define HASH_START 0xcbf29ce484222325u
static uint64_t hash_add(uint64_t hash, unsigned char c)
{
    return (hash ^ (c >= 'A' && c <= 'Z' ? c | 0x20u : c)) * 0x100000001b3u;
}

uint64_t numeral_hash(const char *text, size_t len)
{
    uint64_t hash = HASH_START;

    for (size_t i = 0; i < len; i++)
        hash = hash_add(hash, (unsigned char) text[i]);
    return hash ? hash : 1;
}

/* ---- digits and separators ---- */

/* Runs of digits with one separator before each but the first. */
struct chain {
    struct run {
        size_t from, to;
    } runs[RUNS_MAX];
    char separators[RUNS_MAX]; /* [i] is before runs[i]: , . ' _ space, d: a decimal separator */
    size_t len;
    bool odd; /* digits of several scripts, or too many runs */
};

static size_t run_len(const struct chain *chain, size_t i)
{
    return chain->runs[i].to - chain->runs[i].from;
}

/* The separator at @i and where the run after it starts; 0: none. */
static char separator_at(const struct numerals *n, size_t i, size_t *ret_next)
{
    uint32_t code = numerals_code(n, i);

    *ret_next = i + 1;
    switch (code) {
    case ',':
    case 0xff0c:
        return ',';
    case '.':
    case 0xff0e:
        return '.';
    case '\'':
    case 0x2019:
    case 0x2bc:
    case 0x66c:
        return '\'';
    case '_':
        return '_';
    case 0x66b:
        return 'd';
    default:
        break;
    }
    if (numerals_is(n, i, GLYPH_THIN))
        return ' ';
    if (n->mode == NUMERALS_STORY &&
        (numerals_is(n, i, GLYPH_SPACE) || numerals_is(n, i, GLYPH_LINE))) {
        *ret_next = numerals_skip_space(n, i);
        return ' ';
    }
    return 0;
}

/* Whether a comma in the output of a program separates values: in a list or a line of CSV. */
static bool is_list(const struct numerals *n, size_t start, size_t end)
{
    uint32_t before = start > 0 ? numerals_code(n, start - 1) : 0;

    if (glyph_is_minus(before) && start > 1)
        before = numerals_code(n, start - 2);
    return before == '[' || before == '{' || before == ':' || before == ',' || before == '"' ||
           (numerals_code(n, end) == ',' && !numerals_is(n, end + 1, GLYPH_SPACE));
}

static bool may_append(const struct numerals *n, const struct chain *chain, char separator,
                       size_t len)
{
    if (separator == ' ') {
        if (len != 3 || run_len(chain, 0) > 3)
            return false;
        for (size_t i = 1; i < chain->len; i++)
            if (chain->separators[i] != ' ')
                return false;
    }
    return n->mode == NUMERALS_STORY || separator != ',' || len == 3;
}

static void chain_read(const struct numerals *n, size_t i, struct chain *chain)
{
    int ignored;

    *chain = (struct chain){ .len = 1 };
    chain->runs[0] = (struct run){ i, numerals_run(n, i, &ignored) };
    while (chain->len < RUNS_MAX && i >= n->list_end) {
        size_t next, end;
        char separator = separator_at(n, chain->runs[chain->len - 1].to, &next);

        if (!separator || !numerals_is(n, next, GLYPH_DIGIT))
            break;
        end = numerals_run(n, next, &ignored);
        if (!may_append(n, chain, separator, end - next))
            break;
        chain->separators[chain->len] = separator;
        chain->runs[chain->len++] = (struct run){ next, end };
    }
    if (n->mode == NUMERALS_PRINTED && chain->len > 1 && strchr(chain->separators + 1, ',') &&
        is_list(n, i, chain->runs[chain->len - 1].to)) {
        size_t k = 1;

        while (k < chain->len && chain->separators[k] != ',')
            k++;
        chain->len = k;
    }
    chain->odd = n->mode == NUMERALS_STORY && chain->len == RUNS_MAX;
    for (size_t k = 0; k < chain->len; k++)
        for (size_t at = chain->runs[k].from; at < chain->runs[k].to; at++)
            if (n->glyphs[at].script != n->glyphs[i].script)
                chain->odd = true;
}

/* ---- what a chain says ---- */

/* Whether the first @len runs are groups of thousands with the same separator. */
static bool is_grouped(const struct chain *chain, size_t len)
{
    if (len < 2 || run_len(chain, 0) > 3)
        return false;
    for (size_t i = 1; i < len; i++)
        if (run_len(chain, i) != 3 || chain->separators[i] != chain->separators[1])
            return false;
    return chain->separators[1] != 'd';
}

/* 12,03,411 */
static bool is_indian(const struct chain *chain, size_t len)
{
    if (len < 3 || run_len(chain, 0) > 2 || run_len(chain, len - 1) != 3)
        return false;
    for (size_t i = 1; i < len; i++)
        if (chain->separators[i] != ',' || (i < len - 1 && run_len(chain, i) != 2))
            return false;
    return true;
}

static bool all_separators(const struct chain *chain, char separator)
{
    for (size_t i = 1; i < chain->len; i++)
        if (chain->separators[i] != separator)
            return false;
    return true;
}

/* A power of ten; powl() for each number is what takes most of the time. */
static long double ten_to(int exponent)
{
    static const long double powers[] = { 1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                          1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                          1e14L, 1e15L, 1e16L, 1e17L, 1e18L };
    size_t size = (size_t) abs(exponent);

    if (size >= ARRAY_LEN(powers))
        return powl(10, exponent);
    return exponent < 0 ? 1 / powers[size] : powers[size];
}

/* The value of the first @len runs, the last of which is behind the decimal separator if there are
 * @decimals. */
static void chain_value(const struct numerals *n, const struct chain *chain, size_t len,
                        bool decimals, double *ret_value, double *ret_unit, unsigned *ret_digits)
{
    uint64_t value = 0;
    int exponent = 0, behind = 0;
    unsigned digits = 0;

    for (size_t k = 0; k < len; k++) {
        for (size_t at = chain->runs[k].from; at < chain->runs[k].to; at++) {
            if (digits > 0 || n->glyphs[at].digit > 0)
                digits++;
            if (digits <= 18)
                value = value * 10 + n->glyphs[at].digit;
            else if (exponent < 300)
                exponent++;
        }
        if (decimals && k == len - 1)
            behind = run_len(chain, k) < 300 ? (int) run_len(chain, k) : 300;
    }
    exponent -= behind;
    *ret_value = (double) (exponent < 0 ? (long double) value / ten_to(-exponent)
                                        : (long double) value * ten_to(exponent));
    *ret_unit = (double) (1 / ten_to(behind));
    *ret_digits = digits;
}

static uint64_t chain_hash(const struct numerals *n, const struct chain *chain, size_t len,
                           bool decimals)
{
    uint64_t hash = HASH_START;

    for (size_t k = 0; k < len; k++) {
        if (decimals && k == len - 1)
            hash = hash_add(hash, '.');
        for (size_t at = chain->runs[k].from; at < chain->runs[k].to; at++)
            hash = hash_add(hash, (unsigned char) ('0' + n->glyphs[at].digit));
    }
    return hash ? hash : 1;
}

static size_t say(const struct numerals *n, const struct chain *chain, size_t len, bool decimals,
                  enum numeral_style style, struct numeral *numeral)
{
    numeral->kind = NUMERAL_NUMBER;
    numeral->style = style;
    numeral->whole = !decimals;
    chain_value(n, chain, len, decimals, &numeral->value, &numeral->unit, &numeral->digits);
    numeral->text = chain_hash(n, chain, len, decimals);
    return chain->runs[len - 1].to;
}

/* One point or comma with three digits behind it. */
static size_t say_either(const struct numerals *n, const struct chain *chain,
                         struct numeral *numeral)
{
    bool point = chain->separators[1] == '.';
    unsigned digits;
    size_t end;

    if (n->glyphs[chain->runs[0].from].digit == 0) /* 0.203: no thousands */
        return say(n, chain, 2, true, point ? NUMERAL_STYLE_POINT : NUMERAL_STYLE_COMMA, numeral);
    if (n->mode == NUMERALS_PRINTED)
        return say(n, chain, 2, point, NUMERAL_STYLE_POINT, numeral);
    end = say(n, chain, 2, point, NUMERAL_STYLE_EITHER, numeral);
    chain_value(n, chain, 2, !point, &numeral->comma_value, &numeral->comma_unit, &digits);
    return end;
}

/* Groups and decimals, such as 1,203.5; 0: it is not that. */
static size_t say_decimals(const struct numerals *n, const struct chain *chain,
                           struct numeral *numeral)
{
    char last = chain->separators[chain->len - 1], group = chain->separators[1];
    enum numeral_style style = last == '.'   ? NUMERAL_STYLE_POINT
                               : last == ',' ? NUMERAL_STYLE_COMMA
                                             : NUMERAL_STYLE_NONE;

    if (last != '.' && last != ',' && last != 'd')
        return 0;
    if (chain->len == 2)
        return say(n, chain, 2, true, style, numeral);
    if (group == last || !(is_grouped(chain, chain->len - 1) || is_indian(chain, chain->len - 1)))
        return 0;
    return say(n, chain, chain->len, true, style, numeral);
}

static size_t say_odd(const struct chain *chain, struct numeral *numeral)
{
    numeral->kind = NUMERAL_ODD;
    return chain->runs[chain->len - 1].to;
}

/* Returns the end of what belongs to the numeral. */
static size_t chain_say(const struct numerals *n, const struct chain *chain,
                        struct numeral *numeral)
{
    size_t end;

    if (chain->len == 1)
        return say(n, chain, 1, false, NUMERAL_STYLE_NONE, numeral);
    if (is_grouped(chain, chain->len)) {
        char separator = chain->separators[1];

        if (chain->len == 2 && (separator == '.' || separator == ','))
            return say_either(n, chain, numeral);
        return say(n, chain, chain->len, false,
                   separator == ','   ? NUMERAL_STYLE_POINT
                   : separator == '.' ? NUMERAL_STYLE_COMMA
                                      : NUMERAL_STYLE_NONE,
                   numeral);
    }
    if (is_indian(chain, chain->len))
        return say(n, chain, chain->len, false, NUMERAL_STYLE_POINT, numeral);
    end = say_decimals(n, chain, numeral);
    if (end)
        return end;
    if (all_separators(chain, '.')) {
        size_t from = n->glyphs[chain->runs[0].from].at, to = chain->runs[chain->len - 1].to;

        numeral->kind = NUMERAL_WORD;
        numeral->text = numeral_hash(n->text + from, n->glyphs[to].at - from);
        return to;
    }
    if (n->mode == NUMERALS_PRINTED) {
        bool decimals = chain->separators[1] == '.';

        return say(n, chain, decimals ? 2 : 1, decimals, NUMERAL_STYLE_NONE, numeral);
    }
    for (size_t i = 1; i < chain->len; i++)
        if (chain->separators[i] != ',' || run_len(chain, i) == 3)
            return say_odd(chain, numeral);
    return say(n, chain, 1, false, NUMERAL_STYLE_NONE, numeral); /* 1,2,3 */
}

/* ---- before and after ---- */

/* The first glyph of the numeral with its sign. */
static size_t sign_read(const struct numerals *n, size_t start, struct numeral *numeral)
{
    size_t at = start, before;
    uint32_t code;

    if (at > 0 && numerals_is(n, at - 1, GLYPH_CURRENCY))
        at--;
    if (at == 0)
        return start;
    code = numerals_code(n, at - 1);
    if (numerals_is(n, at - 1, GLYPH_SPACE) && at > 1 && glyph_is_minus(numerals_code(n, at - 2))) {
        /* "- 5": a sign only where no dash can be meant */
        uint32_t sign = numerals_code(n, at - 2);

        before = at - 2;
        while (before > 0 && numerals_is(n, before - 1, GLYPH_SPACE))
            before--;
        if (before == 0 ||
            !(sign == 0x2212 || (numerals_code(n, before - 1) < 0x80 &&
                                 strchr(":(=|", (int) numerals_code(n, before - 1)))))
            return start;
        numeral->sign = -1;
        return at - 2;
    }
    if (!glyph_is_minus(code) && !glyph_is_plus(code))
        return start;
    before = at - 1;
    if (before > 0 &&
        (numerals_is(n, before - 1, GLYPH_DIGIT) || numerals_is(n, before - 1, GLYPH_LETTER) ||
         glyph_is_percent(numerals_code(n, before - 1)) || numerals_code(n, before - 1) == ')' ||
         glyph_is_minus(numerals_code(n, before - 1))))
        return start; /* a range, a word with a hyphen, a dash */
    numeral->sign = glyph_is_minus(code) ? -1 : 1;
    return before;
}

/* ".5" */
static size_t bare_decimals(const struct numerals *n, size_t i, struct numeral *numeral)
{
    struct chain chain = { .len = 2, .separators = { 0, '.' } };
    int ignored;

    if (i == 0 || numerals_code(n, i - 1) != '.')
        return 0;
    if (i > 1 && (numerals_is(n, i - 2, GLYPH_DIGIT) || numerals_is(n, i - 2, GLYPH_LETTER) ||
                  numerals_code(n, i - 2) == '.' || numerals_code(n, i - 2) == ')'))
        return 0;
    chain.runs[0] = (struct run){ i, i };
    chain.runs[1] = (struct run){ i, numerals_run(n, i, &ignored) };
    return say(n, &chain, 2, true, NUMERAL_STYLE_POINT, numeral);
}

/* Letters that pass for digits, next to the digits and by themselves. */
static bool has_lookalikes(const struct numerals *n, size_t start, size_t end)
{
    size_t at = start;

    while (at > 0 && glyph_is_like_digit(numerals_code(n, at - 1)))
        at--;
    if (at < start && (at == 0 || !numerals_is(n, at - 1, GLYPH_LETTER)) &&
        numerals_code(n, at) != '|')
        return true;
    at = end;
    while (at < n->len && glyph_is_like_digit(numerals_code(n, at)))
        at++;
    return at > end && !numerals_is(n, at, GLYPH_LETTER) && numerals_code(n, end) != '|';
}

/* Whether rendering could join more digits to those that end at @digits_end, other than
 * those up to @end, which are an exponent; remembers which. */
static bool joins(struct numerals *n, size_t digits_end, size_t end)
{
    size_t seam = numerals_skip(n, digits_end), next, at;
    char separator;
    int ignored;

    if (n->mode != NUMERALS_STORY)
        return false;
    if ((seam > digits_end && numerals_is(n, seam, GLYPH_DIGIT)) ||
        numerals_is(n, seam, GLYPH_ODD)) {
        n->joined = seam;
        return seam >= end;
    }
    separator = separator_at(n, seam, &next);
    at = numerals_skip(n, next);
    if (!separator || (seam == digits_end && at == next) || !numerals_is(n, at, GLYPH_DIGIT))
        return false;
    if (separator == ' ' && numerals_run(n, at, &ignored) - at != 3)
        return false;
    n->joined = at;
    return at >= end;
}

static size_t ratio_read(const struct numerals *n, size_t i, size_t end, struct numeral *numeral)
{
    int part, total;
    size_t stop;

    if (n->mode != NUMERALS_STORY || !numeral->whole ||
        (numerals_code(n, end) != '/' && numerals_code(n, end) != 0x2044) ||
        !numerals_is(n, end + 1, GLYPH_DIGIT) || numerals_run(n, i, &part) != end)
        return end;
    stop = numerals_run(n, end + 1, &total);
    if (part < 0 || total <= 0 || numerals_code(n, stop) == '/')
        return end;
    numeral->kind = NUMERAL_RATIO;
    numeral->part = part;
    numeral->total = total;
    numeral->value = (double) part / total;
    numeral->unit = 0.01;
    numeral->whole = false;
    return stop;
}

/* "2½", "2 ½" */
static size_t fraction_read(const struct numerals *n, size_t end, struct numeral *numeral)
{
    size_t at = numerals_is(n, end, GLYPH_SPACE) || numerals_is(n, end, GLYPH_THIN) ? end + 1 : end;

    if (!numerals_is(n, at, GLYPH_FRACTION) || !numeral->whole)
        return end;
    numeral->value += glyph_fraction(numerals_code(n, at));
    numeral->unit = 0.01;
    numeral->whole = false;
    return at + 1;
}

/* ---- numerals ---- */

static void finish(struct numerals *n, size_t start, size_t end, struct numeral *numeral)
{
    numeral->start = n->glyphs[start < n->done ? n->done : start].at;
    numeral->end = n->glyphs[end].at;
    n->at = n->done = end;
}

static bool read_number(struct numerals *n, size_t i, struct numeral *numeral)
{
    struct chain chain;
    size_t start = i, digits_end, end = bare_decimals(n, i, numeral);
    bool odd = n->joined == i;
    double scale;

    if (end) {
        start = i - 1;
    } else {
        chain_read(n, i, &chain);
        end = chain_say(n, &chain, numeral);
        odd = odd || chain.odd;
        if (chain.len > 2 && end == chain.runs[0].to)
            n->list_end = chain.runs[chain.len - 1].to;
    }
    digits_end = end;
    if (numeral->kind == NUMERAL_NUMBER) {
        end = ratio_read(n, i, end, numeral);
        end = fraction_read(n, end, numeral);
    }
    if (numeral->kind == NUMERAL_NUMBER) {
        end = numerals_suffix(n, end, numeral);
        scale = numerals_prefix_scale(n, start);
        if (scale > 0)
            numeral->scale *= scale;
    }
    if (numeral->kind != NUMERAL_WORD)
        start = sign_read(n, start, numeral);
    odd = has_lookalikes(n, i, digits_end) || joins(n, digits_end, end) || odd;
    if (odd)
        numeral->kind = NUMERAL_ODD;
    numerals_context(n, i, digits_end, numeral);
    if (!odd && numerals_is_label(n, i, digits_end, numeral)) {
        n->at = end;
        return false;
    }
    finish(n, start, end, numeral);
    return true;
}

static bool read_digit(struct numerals *n, size_t i, struct numeral *numeral)
{
    size_t start = i, end;
    bool odd = n->joined == i;

    end = numerals_date(n, i, numeral, &start);
    if (!end)
        return read_number(n, i, numeral);
    for (size_t at = i; at < end; at++)
        if (numerals_is(n, at, GLYPH_DIGIT) && n->glyphs[at].script != n->glyphs[i].script)
            odd = true;
    if (has_lookalikes(n, i, end) || joins(n, end, end) || odd)
        numeral->kind = NUMERAL_ODD;
    numerals_context(n, i, end, numeral);
    finish(n, start, end, numeral);
    return true;
}

/* Enclosed, raised and other digits, in a row. */
static bool read_odd(struct numerals *n, size_t i, struct numeral *numeral)
{
    size_t end = i;

    while (numerals_is(n, end, GLYPH_ODD) || numerals_is(n, end, GLYPH_RAISED) ||
           numerals_is(n, end, GLYPH_DIGIT))
        end++;
    /* "m²", "CO₂", a footnote's "¹" */
    if (end == i + 1 && numerals_is(n, i, GLYPH_RAISED) && i > 0 &&
        (numerals_is(n, i - 1, GLYPH_LETTER) || numerals_code(n, i - 1) == '.')) {
        n->at = end;
        return false;
    }
    numeral->kind = NUMERAL_ODD;
    (void) joins(n, end, end);
    finish(n, i, end, numeral);
    return true;
}

static bool read_fraction(struct numerals *n, size_t i, struct numeral *numeral)
{
    size_t end = i + 1;

    numeral->kind =
        n->joined == i || numerals_is(n, end, GLYPH_DIGIT) ? NUMERAL_ODD : NUMERAL_NUMBER;
    numeral->value = glyph_fraction(numerals_code(n, i));
    numeral->unit = 0.01;
    numeral->digits = 1;
    if (numeral->kind == NUMERAL_NUMBER)
        end = numerals_suffix(n, end, numeral);
    numerals_context(n, i, i + 1, numeral);
    finish(n, sign_read(n, i, numeral), end, numeral);
    return true;
}

/* "lOO", which reads as 100. Leaves the scanner behind the word. */
static bool read_word(struct numerals *n, size_t i, struct numeral *numeral)
{
    size_t end = i;
    bool like = glyph_is_like_one(numerals_code(n, i));

    while (numerals_is(n, end, GLYPH_LETTER)) {
        if (end > i)
            like = like && glyph_is_like_zero(numerals_code(n, end));
        end++;
    }
    n->at = end;
    if (n->mode != NUMERALS_STORY || !like || end - i < 3 || numerals_is(n, end, GLYPH_DIGIT) ||
        (i > 0 && numerals_is(n, i - 1, GLYPH_DIGIT)))
        return false;
    numeral->kind = NUMERAL_ODD;
    finish(n, i, end, numeral);
    return true;
}

bool numerals_next(struct numerals *n, struct numeral *ret_numeral)
{
    while (n->at < n->len) {
        size_t i = n->at;
        struct numeral numeral = { .scale = 1, .second = -1 };
        bool found = false;

        n->at = i + 1;
        switch ((enum glyph_kind) n->glyphs[i].kind) {
        case GLYPH_DIGIT:
            found = read_digit(n, i, &numeral);
            break;
        case GLYPH_FRACTION:
            found = read_fraction(n, i, &numeral);
            break;
        case GLYPH_RAISED:
        case GLYPH_ODD:
            found = read_odd(n, i, &numeral);
            break;
        case GLYPH_LETTER:
            found = read_word(n, i, &numeral);
            break;
        case GLYPH_OTHER:
        case GLYPH_SPACE:
        case GLYPH_LINE:
        case GLYPH_THIN:
        case GLYPH_MARKUP:
        case GLYPH_HIDDEN:
        case GLYPH_CURRENCY:
            break;
        }
        if (found) {
            *ret_numeral = numeral;
            return true;
        }
    }
    return false;
}

int numerals_open(const char *text, size_t len, enum numerals_mode mode,
                  struct numerals **ret_numerals)
{
    struct numerals *n = calloc(1, sizeof(*n));
    int r;

    if (!n)
        return -ENOMEM;
    n->text = text;
    n->mode = mode;
    n->joined = SIZE_MAX;
    r = glyphs_read(text, len, mode == NUMERALS_STORY, &n->glyphs, &n->len);
    if (r == 0 && mode == NUMERALS_STORY)
        r = numerals_find_seams(n);
    if (r == 0 && mode == NUMERALS_STORY)
        r = numerals_find_falls(n);
    if (r < 0) {
        numerals_close(n);
        return r;
    }
    *ret_numerals = n;
    return 0;
}

void numerals_close(struct numerals *n)
{
    if (!n)
        return;
    free(n->glyphs);
    free(n->seam);
    free(n->falls);
    free(n);
}
