/* What the parts of the scanner share: see numeral.h. Positions are indexes of glyphs. */
#pragma once

#include "mark/numeral/glyph.h"
#include "mark/numeral/numeral.h"

#define MARKER_DEPTHS 8

struct numerals {
    const char *text;
    enum numerals_mode mode;
    struct glyph *glyphs; /* with one more at the end */
    size_t len;
    size_t at;
    size_t done;     /* where the last numeral ended */
    uint32_t *seam;  /* of stories: where the glyph is that a reader sees next, when what
                        starts here vanishes */
    bool *falls;     /* of stories: whether the sentence of the glyph has a word for less */
    size_t joined;   /* the glyph that is joined to the numeral before; SIZE_MAX: none */
    size_t list_end; /* up to here numbers are separated by commas: 1,2,3 */
    int markers[MARKER_DEPTHS]; /* the last list marker by indentation */
};

static inline const struct glyph *numerals_glyph(const struct numerals *n, size_t i)
{
    return &n->glyphs[i < n->len ? i : n->len];
}

static inline bool numerals_is(const struct numerals *n, size_t i, enum glyph_kind kind)
{
    return i < n->len && n->glyphs[i].kind == kind;
}

static inline uint32_t numerals_code(const struct numerals *n, size_t i)
{
    return i < n->len ? n->glyphs[i].code : 0;
}

/* Past characters that vanish, if there are any at @i. */
static inline size_t numerals_skip(const struct numerals *n, size_t i)
{
    return n->seam && i < n->len ? n->seam[i] : i;
}

/* Past spaces, but not into another paragraph. */
size_t numerals_skip_space(const struct numerals *n, size_t i);

/* The end of the run of digits at @i; its value as far as an int holds it, else -1. */
size_t numerals_run(const struct numerals *n, size_t i, int *ret_value);

/* The run of letters at @i in lower case (only ASCII is changed), cut to fit; returns its end. */
size_t numerals_word(const struct numerals *n, size_t i, char *word, size_t size);
/* The same for the run that ends before @i; returns its start. */
size_t numerals_word_before(const struct numerals *n, size_t i, char *word, size_t size);

/* seam.c */
int numerals_find_seams(struct numerals *n);

/* dates.c: a date or time at digit @i, whose end is returned; 0: there is none. *@start is moved if
 * it begins before, as in "March 2024". */
size_t numerals_date(const struct numerals *n, size_t i, struct numeral *numeral, size_t *start);

/* suffix.c: the exponent, scale and percent sign after @i, the end of the digits; returns the end.
 * Turns the numeral into NUMERAL_ODD if it cannot be read. */
size_t numerals_suffix(const struct numerals *n, size_t i, struct numeral *numeral);
/* A scale before the number: "MEUR 5". */
double numerals_prefix_scale(const struct numerals *n, size_t i);

/* context.c: fills in @n->falls. */
int numerals_find_falls(struct numerals *n);
/* What stands around glyphs @start to @end. */
void numerals_context(const struct numerals *n, size_t start, size_t end, struct numeral *numeral);
/* Whether the numeral is no statement: a list marker, a footnote, "Table 1". */
bool numerals_is_label(struct numerals *n, size_t start, size_t end, const struct numeral *numeral);
