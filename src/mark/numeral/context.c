/* What stands around a numeral: words that make it approximate or a decrease, the word that it is
 * part of, and the places where a number states nothing. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/numeral/internal.h"

#include "base/banned.h"

#define WORD_GLYPHS_MAX 64u

static bool word_in(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

/* ---- approximations ---- */

/* In the two words before. */
static bool is_about(const struct numerals *n, size_t start)
{
    static const char *const words[] = {
        "about",  "approximately", "approx",    "around",   "roughly",
        "nearly", "almost",        "over",      "than",     "ca",
        "circa",  "rund",          "etwa",      "ungefähr", "knapp",
        "über",   "environ",       "presque",   "casi",     "aproximadamente",
        "unos",   "some",          "exceeding", NULL,
    };
    char word[24];
    size_t at = start, limit = start > 40 ? start - 40 : 0;

    for (int count = 0; count < 2; count++) {
        while (at > limit && !numerals_is(n, at - 1, GLYPH_LETTER)) {
            uint32_t code = numerals_code(n, at - 1);

            if (numerals_is(n, at - 1, GLYPH_DIGIT) || numerals_is(n, at - 1, GLYPH_LINE) ||
                (code < 0x80 && strchr(".;:!?", (int) code) && at != start))
                return false;
            if (code == '~' || code == 0x2248 || code == 0x223c)
                return true;
            at--;
        }
        at = numerals_word_before(n, at, word, sizeof(word));
        if (word_in(word, words))
            return true;
    }
    return false;
}

/* ---- decreases ---- */

/* Starts of words. */
static const char *const falling[] = {
    "fell",     "fall",     "drop",     "declin",  "decreas", "down",     "lower",   "less",
    "fewer",    "loss",     "lose",     "losing",  "lost",    "minus",    "negativ", "shrank",
    "shrink",   "shrunk",   "reduc",    "below",   "behind",  "under",    "cut",     "dip",
    "slump",    "deficit",  "contract", "worse",   "short",   "sank",     "sink",    "sunk",
    "slid",     "slip",     "slow",     "weak",    "off",     "gesunken", "fiel",    "fallen",
    "gefallen", "rück",     "weniger",  "verlust", "verlor",  "niedrig",  "abnahm",  "abgenommen",
    "unter",    "schrumpf", "schwäch",  "baiss",   "diminu",  "recul",    "perte",   "chut",
    "moins",    "cay",      "baj",      "disminu", "descend", "menos",    "pérdid",  "reduj",
    "perdi",    NULL,
};

static bool word_falls(const char *word)
{
    for (const char *const *stem = falling; *stem; stem++)
        if (word[0] == **stem && strncmp(word, *stem, strlen(*stem)) == 0)
            return true;
    return false;
}

/* The end of a sentence: a point only where no digit follows. */
static bool ends_sentence(const struct numerals *n, size_t i)
{
    uint32_t code = numerals_code(n, i);

    if (code == '!' || code == '?' || code == 0x3002)
        return true;
    if (numerals_is(n, i, GLYPH_LINE))
        return numerals_is(n, i + 1, GLYPH_LINE) || i + 1 >= n->len;
    return code == '.' && (numerals_is(n, i + 1, GLYPH_SPACE) || numerals_is(n, i + 1, GLYPH_LINE));
}

int numerals_find_falls(struct numerals *n)
{
    char word[24];
    size_t start = 0;
    bool falls_here = false;

    n->falls = calloc(n->len + 1, sizeof(*n->falls));
    if (!n->falls)
        return -ENOMEM;
    for (size_t i = 0; i < n->len;) {
        if (ends_sentence(n, i)) {
            memset(n->falls + start, falls_here, i - start);
            falls_here = false;
            start = ++i;
        } else if (numerals_is(n, i, GLYPH_LETTER)) {
            i = numerals_word(n, i, word, sizeof(word));
            falls_here = falls_here || word_falls(word);
        } else {
            i++;
        }
    }
    memset(n->falls + start, falls_here, n->len - start);
    return 0;
}

/* ---- the word around it ---- */

static bool in_word(const struct numerals *n, size_t i)
{
    uint32_t code = numerals_code(n, i);

    if (numerals_is(n, i, GLYPH_LETTER) || numerals_is(n, i, GLYPH_DIGIT))
        return true;
    return (code == '_' || code == '-' || code == '.' || code == '/') && i > 0 &&
           (numerals_is(n, i - 1, GLYPH_LETTER) || numerals_is(n, i - 1, GLYPH_DIGIT)) &&
           (numerals_is(n, i + 1, GLYPH_LETTER) || numerals_is(n, i + 1, GLYPH_DIGIT));
}

/* Its bytes, if it has letters and is not only a number with a unit. */
static uint64_t word_around(const struct numerals *n, size_t start, size_t end)
{
    size_t from = start, to = end;
    bool letters = false;

    while (from > 0 && start - from < WORD_GLYPHS_MAX && in_word(n, from - 1))
        from--;
    while (to < n->len && to - end < WORD_GLYPHS_MAX && in_word(n, to))
        to++;
    for (size_t i = from; i < to && !letters; i++)
        letters = numerals_is(n, i, GLYPH_LETTER);
    if (!letters || start - from >= WORD_GLYPHS_MAX || to - end >= WORD_GLYPHS_MAX)
        return 0;
    return numeral_hash(n->text + n->glyphs[from].at, n->glyphs[to].at - n->glyphs[from].at);
}

void numerals_context(const struct numerals *n, size_t start, size_t end, struct numeral *numeral)
{
    numeral->word = word_around(n, start, end);
    if (n->mode != NUMERALS_STORY)
        return;
    numeral->about = is_about(n, start);
    numeral->falls = n->falls[start];
}

/* ---- labels ---- */

/* The indentation of the line if nothing but marks of Markdown is between its start and @i, else
 * -1. */
static int line_indent(const struct numerals *n, size_t i)
{
    int indent = 0;

    for (size_t k = 0; i > 0 && k < 40; k++, i--) {
        const struct glyph *glyph = numerals_glyph(n, i - 1);

        if (glyph->kind == GLYPH_LINE)
            return indent;
        if (glyph->kind == GLYPH_SPACE)
            indent++;
        else if (glyph->code != '>' && glyph->code != '#' && glyph->code != '*')
            return -1;
    }
    return i == 0 ? indent : -1;
}

/* "1." or "1)" at the start of a line, if it counts on: a list shows the number that it starts
 * with. */
static bool is_marker(struct numerals *n, size_t start, size_t end, const struct numeral *numeral)
{
    uint32_t code = numerals_code(n, end);
    size_t next = numerals_skip(n, end + 1);
    int indent, value, depth;

    if (code != '.' && code != ')' && code != 0xfe0f && code != 0x20e3)
        return false;
    if (!numerals_is(n, next, GLYPH_SPACE) && !numerals_is(n, next, GLYPH_LINE) && next < n->len)
        return false;
    indent = line_indent(n, start);
    if (indent < 0 || !numeral->whole || numeral->sign || numeral->value > 999)
        return false;
    value = (int) numeral->value;
    depth = indent / 2 < MARKER_DEPTHS ? indent / 2 : MARKER_DEPTHS - 1;
    if (value != 1 && value != n->markers[depth] + 1)
        return false;
    n->markers[depth] = value;
    return true;
}

static bool has_label_before(const struct numerals *n, size_t start, const struct numeral *numeral)
{
    static const char *const words[] = { "table",   "figure",  "fig",       "chart",    "step",
                                         "section", "tabelle", "abbildung", "appendix", "footnote",
                                         "tableau", "tabla",   "part",      NULL };
    char word[16];
    size_t at = start;

    while (at > 0 && start - at < 2 &&
           (numerals_is(n, at - 1, GLYPH_SPACE) || numerals_is(n, at - 1, GLYPH_THIN) ||
            numerals_code(n, at - 1) == '.'))
        at--;
    if (at == start || numeral->value > 50 || numeral->percent > 0 || numeral->scale != 1)
        return false;
    (void) numerals_word_before(n, at, word, sizeof(word));
    return word_in(word, words);
}

static bool is_plain_word(const struct numerals *n, size_t start, size_t end,
                          const struct numeral *numeral)
{
    static const char *const words[] = { "q1",  "q2", "q3", "q4", "h1", "h2", "co2",  "h2o", "b2b",
                                         "b2c", "3d", "2d", "5g", "4g", "4k", "24/7", NULL };

    if (!numeral->word && numerals_code(n, end) != '/')
        return false;
    if (start > 0 && end == start + 1 && (numerals_code(n, start - 1) | 0x20) == 'q' &&
        n->glyphs[start].digit >= 1 && n->glyphs[start].digit <= 4 &&
        !numerals_is(n, end, GLYPH_LETTER) &&
        (start < 2 || !numerals_is(n, start - 2, GLYPH_LETTER)))
        return true;
    for (const char *const *word = words; *word; word++)
        if (numeral_hash(*word, strlen(*word)) == numeral->word)
            return true;
    return false;
}

/* "[^1]", not right after a digit */
static bool is_footnote(const struct numerals *n, size_t start, size_t end)
{
    return start >= 2 && numerals_code(n, start - 1) == '^' && numerals_code(n, start - 2) == '[' &&
           numerals_code(n, end) == ']' &&
           (start < 3 ||
            (!numerals_is(n, start - 3, GLYPH_DIGIT) && numerals_skip(n, start - 3) == start - 3));
}

bool numerals_is_label(struct numerals *n, size_t start, size_t end, const struct numeral *numeral)
{
    if (n->mode != NUMERALS_STORY || numeral->kind == NUMERAL_ODD)
        return false;
    if (is_footnote(n, start, end) || is_plain_word(n, start, end, numeral))
        return true;
    if (numeral->kind != NUMERAL_NUMBER || !numeral->whole)
        return false;
    return is_marker(n, start, end, numeral) || has_label_before(n, start, numeral);
}
