/*
 * Finds the numerals in a text: everything that a reader takes for a number, with what it may mean.
 *
 * Theory of operation. The text is read as glyphs (glyph.h), and each numeral that starts at a
 * digit is parsed as far as it goes: a date or time (dates.c), or digits with separators
 * (numeral.c); then its exponent, scale and percent sign (suffix.c), its sign, and what stands
 * around it. Where a notation is ambiguous the readings are all kept, and the caller decides.
 *
 * The story of a model is hostile. A numeral whose digits could look different when the text is
 * rendered is NUMERAL_ODD, which nobody supports: digits of two scripts, digits that are joined by
 * markup, tags or characters of no width ("1**2**3"), letters that pass for digits ("1O0"), circled
 * and enclosed digits. Words ("three", "VII", "三") are not numerals.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum numeral_kind {
    NUMERAL_NUMBER,
    NUMERAL_RATIO, /* "3/4": value is the quotient, and part and whole are its sides */
    NUMERAL_DATE,  /* a day, a month of a year, or a day of any year */
    NUMERAL_TIME,  /* of a day, or a duration */
    NUMERAL_WORD,  /* digits that are no number: a version, "1.2.3" */
    NUMERAL_ODD,
};

/* Which of point and comma divides the decimals, as far as this numeral says. */
enum numeral_style {
    NUMERAL_STYLE_NONE,
    NUMERAL_STYLE_POINT,  /* 1,203.5 */
    NUMERAL_STYLE_COMMA,  /* 1.203,5 */
    NUMERAL_STYLE_EITHER, /* 1,203 or 1.203: value is in the style with a point, comma_value in the
                             other */
};

struct numeral {
    enum numeral_kind kind;
    size_t start, end; /* in bytes, with its sign, scale and percent sign */
    int sign;          /* -1 or 1 as written, 0: none */
    enum numeral_style style;
    double value, unit;             /* without sign and scale, and what its last digit counts */
    double comma_value, comma_unit; /* the same in the other style; of STYLE_EITHER */
    double scale;                   /* 1e6 of "million", of "e6"; 1 */
    double other_scale;             /* "m" may be metres; 0: none */
    double percent;                 /* 100 of "%", 1000, 10000; 0: none */
    bool whole;                     /* without decimals */
    bool about;                     /* "about", "~" */
    bool falls;                     /* its sentence says that something went down */
    unsigned digits;                /* significant ones */
    double part, total;             /* of RATIO */
    int year, month, day;           /* of DATE; 0: not said */
    int swapped_day, swapped_month; /* 3/1/2024; 0: no other reading */
    int hour, minute, second;       /* of TIME; second -1: not said */
    uint64_t text; /* hash of its digits, for those that a double cannot hold, or of
                      the text of WORD */
    uint64_t word; /* hash of the word around it ("SKU-123"); 0: there is none */
};

enum numerals_mode {
    NUMERALS_STORY,   /* Markdown by a model: as it is rendered; list markers are skipped */
    NUMERALS_PRINTED, /* by a program: a point is a decimal point, a space separates */
};

struct numerals;

/* @text must stay valid. 0 or -ENOMEM. */
int numerals_open(const char *text, size_t len, enum numerals_mode mode,
                  struct numerals **ret_numerals);
void numerals_close(struct numerals *numerals); /* accepts NULL */
/* The next one, in order; false: there are no more. */
bool numerals_next(struct numerals *numerals, struct numeral *ret_numeral);

/* Hashes of words, as in struct numeral: letters in lower case. Never 0. */
uint64_t numeral_hash(const char *text, size_t len);
