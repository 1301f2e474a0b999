/* Hexadecimal digits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* As we write them: hashes and ids have only one spelling. */
#define HEX_DIGITS "0123456789abcdef"

/* The value of a digit of either case, or -1. */
static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Whether @text is exactly @len digits as we write them. */
static inline bool hex_is(const char *text, size_t len)
{
    return strlen(text) == len && strspn(text, HEX_DIGITS) == len;
}

/* The two digits of a byte. */
static inline void hex_put(uint8_t byte, char *to)
{
    to[0] = HEX_DIGITS[byte >> 4];
    to[1] = HEX_DIGITS[byte & 15];
}
