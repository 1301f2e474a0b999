/*
 * Text as a reader sees it, one glyph after the other, as far as numbers are concerned: which
 * characters look like digits, which are not seen at all, and which vanish when Markdown or HTML is
 * rendered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum glyph_kind {
    GLYPH_OTHER,    /* punctuation and symbols; see its code */
    GLYPH_DIGIT,    /* of any script */
    GLYPH_LETTER,   /* of any script */
    GLYPH_SPACE,    /* space, tab */
    GLYPH_LINE,     /* end of a line */
    GLYPH_THIN,     /* a space that does not break or is narrow, as between groups of digits */
    GLYPH_MARKUP,   /* may vanish when the text is rendered: * ` [ ... */
    GLYPH_HIDDEN,   /* is not seen, or only changes the character before it */
    GLYPH_CURRENCY, /* a sign such as € */
    GLYPH_FRACTION, /* ½; its value is glyph_fraction() */
    GLYPH_RAISED,   /* a superscript or subscript digit */
    GLYPH_ODD,      /* shows a number in another way: ①, ㏠, 💯, &#49; */
};

struct glyph {
    uint32_t code; /* of the character, the decoded one of an entity */
    uint32_t at;   /* its first byte; it ends where the next begins */
    uint8_t kind;
    uint8_t digit;  /* 0 to 9 of digits and raised digits */
    uint8_t script; /* of digits: numbers of one script have the same; 0: ASCII */
};

/* Reads @len bytes, at most UINT32_MAX. The array is for free() and has one more element at its
 * end, of kind GLYPH_LINE, code 0 and at == @len. Bytes that are not UTF-8 are glyphs with code
 * U+FFFD. With @rendered the entities of HTML are read as what they stand for. */
int glyphs_read(const char *text, size_t len, bool rendered, struct glyph **ret_glyphs,
                size_t *ret_len);

/* The value of a GLYPH_FRACTION. */
double glyph_fraction(uint32_t code);

/* Letters that look like 0 or 1. */
bool glyph_is_like_zero(uint32_t code);
bool glyph_is_like_one(uint32_t code);
/* And others that look like some digit. */
bool glyph_is_like_digit(uint32_t code);

/* - and its relatives; + and its. */
bool glyph_is_minus(uint32_t code);
bool glyph_is_plus(uint32_t code);
bool glyph_is_percent(uint32_t code);
