/*
 * Where characters meet when Markdown or HTML is rendered: "1**2**" and "1<b>2</b>" show "12".
 *
 * Nothing here renders. Whatever could vanish is taken to vanish, in any dialect: emphasis, code
 * spans, escapes, formulas, tags, comments, targets of links. The table is filled from the end, so
 * that a text of any shape takes linear time.
 */

#include <errno.h>
#include <stdlib.h>

#include "mark/numeral/internal.h"

#include "base/banned.h"

/* For each opening bracket the place of the one that closes it; 0: none. Those of "[" and "(" by
 * themselves, which is how links are read. */
static int match_brackets(const struct numerals *n, uint32_t *closes)
{
    uint32_t *stack = malloc((n->len + 1) * sizeof(*stack));
    size_t depth[2] = { 0, 0 };

    if (!stack)
        return -ENOMEM;
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < n->len; i++) {
            uint32_t code = n->glyphs[i].code;

            if (code == (kind ? '(' : '['))
                stack[depth[kind]++] = (uint32_t) i;
            else if (code == (kind ? ')' : ']') && depth[kind] > 0)
                closes[stack[--depth[kind]]] = (uint32_t) i;
        }
    }
    free(stack);
    return 0;
}

static bool vanishes(const struct numerals *n, size_t i)
{
    const struct glyph *glyph = &n->glyphs[i];

    return glyph->kind == GLYPH_MARKUP || glyph->kind == GLYPH_HIDDEN || glyph->code == '$' ||
           (glyph->code == '!' && numerals_code(n, i + 1) == '[') ||
           (glyph->code == '_' && !numerals_is(n, i + 1, GLYPH_DIGIT));
}

struct ahead {
    size_t less, greater, comment; /* the next "<", ">" and "-->"; SIZE_MAX: none */
};

/* The end of the tag or comment that starts at @i, or 0. */
static size_t tag_end(const struct numerals *n, size_t i, const struct ahead *ahead)
{
    if (numerals_code(n, i + 1) == '!' && numerals_code(n, i + 2) == '-' &&
        numerals_code(n, i + 3) == '-')
        return ahead->comment == SIZE_MAX ? 0 : ahead->comment + 3;
    if (ahead->greater == SIZE_MAX || ahead->greater > ahead->less)
        return 0;
    if (!numerals_is(n, i + 1, GLYPH_LETTER) && numerals_code(n, i + 1) != '/' &&
        numerals_code(n, i + 1) != '!' && numerals_code(n, i + 1) != '?')
        return 0;
    return ahead->greater + 1;
}

int numerals_find_seams(struct numerals *n)
{
    struct ahead ahead = { SIZE_MAX, SIZE_MAX, SIZE_MAX };
    uint32_t *closes = calloc(n->len + 1, sizeof(*closes));

    n->seam = malloc((n->len + 1) * sizeof(*n->seam));
    if (!n->seam || !closes || match_brackets(n, closes) < 0) {
        free(closes);
        return -ENOMEM;
    }
    n->seam[n->len] = (uint32_t) n->len;
    for (size_t i = n->len; i-- > 0;) {
        uint32_t code = n->glyphs[i].code, next = numerals_code(n, i + 1);
        size_t end = i;

        if (code == ']' && (next == '(' || next == '[') && closes[i + 1])
            end = closes[i + 1] + 1;
        else if (code == '<')
            end = tag_end(n, i, &ahead) ? tag_end(n, i, &ahead) : i;
        else if (vanishes(n, i))
            end = i + 1;
        n->seam[i] = end > i ? n->seam[end] : (uint32_t) i;
        if (code == '<')
            ahead.less = i;
        if (code == '>')
            ahead.greater = i;
        if (code == '-' && next == '-' && numerals_code(n, i + 2) == '>')
            ahead.comment = i;
    }
    free(closes);
    return 0;
}
