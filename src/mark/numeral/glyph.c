/* What a character looks like to somebody who reads numbers. */

#include "mark/numeral/glyph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"

#include "base/banned.h"

struct range {
    uint32_t first, last;
};

#define DIGITS(zero)
#define ODD(first, last)
#define HIDDEN(first, last)

#undef DIGITS
#define DIGITS(zero) { zero, zero + 9 },
static const struct range digits[] = {
#include "mark/numeral/glyphs.def"
};
#undef DIGITS
#define DIGITS(zero)

#undef ODD
#define ODD(first, last) { first, last },
static const struct range odd[] = {
#include "mark/numeral/glyphs.def"
};
#undef ODD
#define ODD(first, last)

#undef HIDDEN
#define HIDDEN(first, last) { first, last },
static const struct range hidden[] = {
#include "mark/numeral/glyphs.def"
};

/* The index of the range that has it, or -1. */
static int range_find(const struct range *ranges, size_t len, uint32_t code)
{
    size_t low = 0, high = len;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < len && code >= ranges[low].first ? (int) low : -1;
}

static const struct {
    uint32_t code;
    double value;
} fractions[] = {
    { 0xbc, 1. / 4 },   { 0xbd, 1. / 2 },   { 0xbe, 3. / 4 },   { 0x2150, 1. / 7 },
    { 0x2151, 1. / 9 }, { 0x2152, .1 },     { 0x2153, 1. / 3 }, { 0x2154, 2. / 3 },
    { 0x2155, .2 },     { 0x2156, .4 },     { 0x2157, .6 },     { 0x2158, .8 },
    { 0x2159, 1. / 6 }, { 0x215a, 5. / 6 }, { 0x215b, .125 },   { 0x215c, .375 },
    { 0x215d, .625 },   { 0x215e, .875 },   { 0x2189, 0 },
};

double glyph_fraction(uint32_t code)
{
    for (size_t i = 0; i < ARRAY_LEN(fractions); i++)
        if (fractions[i].code == code)
            return fractions[i].value;
    return 0;
}

static bool is_fraction(uint32_t code)
{
    return code == 0xbc || code == 0xbd || code == 0xbe || (code >= 0x2150 && code <= 0x215e) ||
           code == 0x2189;
}

/* The digit of a superscript or subscript, or -1. */
static int raised_digit(uint32_t code)
{
    if (code == 0xb9)
        return 1;
    if (code == 0xb2 || code == 0xb3)
        return (int) (code - 0xb0);
    if (code == 0x2070 || (code >= 0x2074 && code <= 0x2079))
        return (int) (code - 0x2070);
    if (code >= 0x2080 && code <= 0x2089)
        return (int) (code - 0x2080);
    return -1;
}

static bool is_listed(const uint32_t *codes, uint32_t code)
{
    for (; *codes; codes++)
        if (*codes == code)
            return true;
    return false;
}

/* Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic, Indic, full-width and mathematical forms. */
bool glyph_is_like_zero(uint32_t code)
{
    static const uint32_t codes[] = { 'O',    'o',    0x39f,  0x3bf,  0x41e,  0x43e,  0x555,
                                      0x585,  0x5e1,  0x647,  0x6be,  0x6c1,  0x6d5,  0xb20,
                                      0xd20,  0x101d, 0x1d0f, 0x2134, 0x25cb, 0x25ef, 0x2b58,
                                      0x3007, 0xff2f, 0xff4f, 0xd8,   0xf8,   0 };

    if (code >= 0x1d400 && code <= 0x1d6a3) { /* mathematical alphabets of 52 letters */
        uint32_t letter = (code - 0x1d400) % 52;

        return letter == 'O' - 'A' || letter == 26 + 'o' - 'a';
    }
    return is_listed(codes, code);
}

bool glyph_is_like_one(uint32_t code)
{
    static const uint32_t codes[] = { 'I',    'l',    '|',    0x399,  0x3b9,  0x406,  0x4c0,
                                      0x4cf,  0x5c0,  0x5d5,  0x5df,  0x627,  0x7ca,  0x1c0,
                                      0x2110, 0x2111, 0x2113, 0x2160, 0x217c, 0x2223, 0x2758,
                                      0xff29, 0xff4c, 0xff5c, 0x2d4f, 0x16c1, 0xa4f2, 0 };

    if (code >= 0x1d400 && code <= 0x1d6a3) {
        uint32_t letter = (code - 0x1d400) % 52;

        return letter == 'I' - 'A' || letter == 26 + 'l' - 'a';
    }
    return is_listed(codes, code);
}

bool glyph_is_like_digit(uint32_t code)
{
    static const uint32_t codes[] = { 0x1a7, 0x1a8, 0x417,  0x437,  0x4e0,  0x4e1,  0x1b7,  0x292,
                                      0x21c, 0x21d, 0x431,  0x1bc,  0x1bd,  0x13ce, 0x13ee, 0x222,
                                      0x223, 0x3e8, 0x14bf, 0xa76a, 0xa76e, 0x3ed,  0x2c6c, 0 };

    return glyph_is_like_zero(code) || glyph_is_like_one(code) || is_listed(codes, code);
}

bool glyph_is_minus(uint32_t code)
{
    return code == '-' || code == 0x2212 || code == 0x2013 || code == 0x2010 || code == 0x2011 ||
           code == 0x2012 || code == 0xfe63 || code == 0xff0d || code == 0x2796 || code == 0x207b;
}

bool glyph_is_plus(uint32_t code)
{
    return code == '+' || code == 0xff0b || code == 0xfe62 || code == 0x2795;
}

bool glyph_is_percent(uint32_t code)
{
    return code == '%' || code == 0x66a || code == 0xff05 || code == 0xfe6a;
}

static enum glyph_kind ascii_kind(uint32_t code)
{
    if (code >= '0' && code <= '9')
        return GLYPH_DIGIT;
    if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z'))
        return GLYPH_LETTER;
    if (code == ' ' || code == '\t')
        return GLYPH_SPACE;
    if (code == '\n' || code == '\r')
        return GLYPH_LINE;
    if (code == '$')
        return GLYPH_CURRENCY;
    if (code < ' ' || code == 0x7f)
        return GLYPH_HIDDEN;
    return strchr("*`~\\^{}[]", (int) code) ? GLYPH_MARKUP : GLYPH_OTHER;
}

static enum glyph_kind wide_kind(uint32_t code)
{
    if (code == 0xa0 || code == 0x202f || code == 0x205f || code == 0x3000 ||
        (code >= 0x2000 && code <= 0x200a))
        return GLYPH_THIN;
    if (code == 0x2028 || code == 0x2029 || code == 0x85)
        return GLYPH_LINE;
    if (is_fraction(code))
        return GLYPH_FRACTION;
    if (raised_digit(code) >= 0)
        return GLYPH_RAISED;
    if (range_find(hidden, ARRAY_LEN(hidden), code) >= 0 || code < 0xa0)
        return GLYPH_HIDDEN;
    if (range_find(odd, ARRAY_LEN(odd), code) >= 0)
        return GLYPH_ODD;
    if (code == 0xa3 || code == 0xa5 || code == 0xa2 || (code >= 0x20a0 && code <= 0x20cf) ||
        code == 0xff04 || code == 0xffe5 || code == 0xffe1)
        return GLYPH_CURRENCY;
    if (code < 0xc0 ? (code == 0xaa || code == 0xb5 || code == 0xba) : code != 0xd7 && code != 0xf7)
        return (code >= 0x2010 && code < 0x2c00) || (code >= 0x3001 && code <= 0x3004) ||
                       (code >= 0x3008 && code <= 0x3020) || (code >= 0xfe10 && code <= 0xfe6f) ||
                       (code >= 0xff01 && code <= 0xff20) || code >= 0x1f000 || code == 0xfffd
                   ? GLYPH_OTHER
                   : GLYPH_LETTER;
    return GLYPH_OTHER;
}

static void classify(struct glyph *glyph)
{
    uint32_t code = glyph->code;
    int found;

    glyph->digit = glyph->script = 0;
    if (code < 0x80) {
        glyph->kind = (uint8_t) ascii_kind(code);
        if (glyph->kind == GLYPH_DIGIT)
            glyph->digit = (uint8_t) (code - '0');
        return;
    }
    found = range_find(digits, ARRAY_LEN(digits), code);
    if (found >= 0) {
        glyph->kind = GLYPH_DIGIT;
        glyph->digit = (uint8_t) (code - digits[found].first);
        glyph->script = (uint8_t) (found + 1);
        return;
    }
    glyph->kind = (uint8_t) wide_kind(code);
    if (glyph->kind == GLYPH_RAISED)
        glyph->digit = (uint8_t) raised_digit(code);
}

/* ---- entities ---- */

static const struct {
    const char *name;
    uint32_t code;
} entities[] = {
    { "nbsp", 0xa0 },     { "thinsp", 0x2009 }, { "ensp", 0x2002 },   { "emsp", 0x2003 },
    { "numsp", 0x2007 },  { "minus", 0x2212 },  { "ndash", 0x2013 },  { "mdash", 0x2014 },
    { "times", 0xd7 },    { "middot", 0xb7 },   { "plus", '+' },      { "comma", ',' },
    { "period", '.' },    { "percnt", '%' },    { "permil", 0x2030 }, { "euro", 0x20ac },
    { "pound", 0xa3 },    { "yen", 0xa5 },      { "cent", 0xa2 },     { "dollar", '$' },
    { "frac12", 0xbd },   { "half", 0xbd },     { "frac14", 0xbc },   { "frac34", 0xbe },
    { "frac13", 0x2153 }, { "frac23", 0x2154 }, { "sup1", 0xb9 },     { "sup2", 0xb2 },
    { "sup3", 0xb3 },     { "amp", '&' },       { "lt", '<' },        { "gt", '>' },
    { "quot", '"' },      { "apos", '\'' },     { "deg", 0xb0 },      { "shy", 0xad },
    { "NewLine", '\n' },  { "Tab", '\t' },      { "lowbar", '_' },    { "ast", '*' },
};

/* "#49", "#x31" between & and ; */
static bool number_entity(const char *text, size_t len, uint32_t *ret_code)
{
    bool hex = len > 1 && (text[1] == 'x' || text[1] == 'X');
    uint32_t code = 0;

    for (size_t i = hex ? 2 : 1; i < len; i++) {
        int c = text[i] | 0x20;
        uint32_t digit;

        if (text[i] >= '0' && text[i] <= '9')
            digit = (uint32_t) (text[i] - '0');
        else if (hex && c >= 'a' && c <= 'f')
            digit = (uint32_t) (c - 'a' + 10);
        else
            return false;
        code = code * (hex ? 16 : 10) + digit;
        if (code > 0x10ffff)
            code = 0x10ffff;
    }
    *ret_code = code;
    return len > (hex ? 2u : 1u);
}

/* The bytes of the entity at @text, which starts with &, or 0. */
static size_t entity_read(const char *text, size_t len, struct glyph *glyph)
{
    size_t end = 1;

    while (end < len && end < 40 && text[end] != ';' && text[end] != '&' && text[end] > ' ')
        end++;
    if (end >= len || text[end] != ';' || end < 2)
        return 0;
    if (text[1] == '#') {
        if (!number_entity(text + 1, end - 1, &glyph->code))
            return 0;
        classify(glyph);
        /* Nobody who means well writes a digit like this; and where it is not rendered, one reads
         * another number. */
        if (glyph->kind == GLYPH_DIGIT || glyph->kind == GLYPH_RAISED ||
            glyph->kind == GLYPH_FRACTION)
            glyph->kind = GLYPH_ODD;
        return end + 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        if (strlen(entities[i].name) == end - 1 &&
            memcmp(entities[i].name, text + 1, end - 1) == 0) {
            glyph->code = entities[i].code;
            classify(glyph);
            return end + 1;
        }
    }
    for (size_t i = 1; i < end; i++)
        if (!((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z') &&
            !(text[i] >= '0' && text[i] <= '9'))
            return 0;
    glyph->code = 0xfffc; /* some character or other, perhaps one without width */
    glyph->kind = GLYPH_HIDDEN;
    return end + 1;
}

/* ---- reading ---- */

static size_t glyph_read(const char *text, size_t len, bool rendered, struct glyph *glyph)
{
    size_t used = 1;

    glyph->digit = glyph->script = 0;
    if (rendered && text[0] == '&' && (used = entity_read(text, len, glyph)) > 0)
        return used;
    glyph->code = (unsigned char) text[0];
    used = 1;
    if (glyph->code >= 0x80)
        glyph->code = utf8_next(text, len, &used) == UTF8_CHAR ? utf8_decode(text, used) : 0xfffd;
    classify(glyph);
    return used;
}

int glyphs_read(const char *text, size_t len, bool rendered, struct glyph **ret_glyphs,
                size_t *ret_len)
{
    struct glyph *glyphs;
    size_t count = 0;

    if (len > UINT32_MAX - 1 || len > SIZE_MAX / sizeof(*glyphs) - 1)
        return -ENOMEM;
    glyphs = malloc((len + 1) * sizeof(*glyphs));
    if (!glyphs)
        return -ENOMEM;
    for (size_t i = 0; i < len; count++) {
        glyphs[count].at = (uint32_t) i;
        i += glyph_read(text + i, len - i, rendered, &glyphs[count]);
    }
    glyphs[count] = (struct glyph){ .at = (uint32_t) len, .kind = GLYPH_LINE };
    *ret_glyphs = glyphs;
    *ret_len = count;
    return 0;
}
