/*
 * UTF-8, strictly: no surrogates, no overlong forms, nothing above U+10FFFF.
 *
 * Invalid bytes are read in the units that the Unicode standard recommends for replacement: the
 * longest piece that could have begun a character, else one byte.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT     "\xef\xbf\xbd" /* U+FFFD */
#define UTF8_REPLACEMENT_LEN 3u

enum utf8_kind {
    UTF8_CHAR,    /* one whole character */
    UTF8_INVALID, /* to be replaced by one U+FFFD */
    UTF8_PARTIAL, /* the data end inside what may yet become a character; invalid if they end here
                   */
};

/* Reads the unit at the start of @data; @len is at least 1. @ret_len is 1 to 4, and less than 4
 * unless the unit is a character. */
enum utf8_kind utf8_next(const char *data, size_t len, size_t *ret_len);

/* The code point of a whole character of @len bytes. */
uint32_t utf8_decode(const char *unit, size_t len);

bool utf8_valid(const char *data, size_t len);

/* How many bytes at the end of @data are a character that is not complete: 0 to 3. */
size_t utf8_partial_end(const char *data, size_t len);

/* Copies @in to @out with every invalid unit replaced, as far as whole characters fit into @size.
 * Returns the bytes written, never more than 3 * @len, and in @ret_used the bytes of @in they stand
 * for. Adds no NUL. */
size_t utf8_replace(const char *in, size_t len, char *out, size_t size, size_t *ret_used);
