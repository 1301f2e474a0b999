/*
 * Secrets that a server echoes are overwritten before the box sees them: byte for byte, so that
 * lengths do not change. A last resort: a server that encodes a value differently defeats it.
 */
#pragma once

#include "egress/policy.h"

#define MASK_WORDS_MAX 16
#define MASK_MIN       8 /* shorter ones would match by chance */

struct mask {
    struct {
        const char *text;
        size_t len;
    } words[MASK_WORDS_MAX];
    size_t words_len;
};

/* The values, and for "Bearer TOKEN" the token too. Borrows them. */
void mask_init(struct mask *mask, const struct secret *const *secrets, size_t len);

/* Overwrites whole occurrences in @data with '*', and returns how many bytes at its start are
 * final: the rest may be the beginning of one, and must be passed in again with the bytes that
 * follow. At the end of the stream all are final. */
size_t mask_apply(const struct mask *mask, char *data, size_t len, bool end);
