/*
 * Secrets that a server sends back are overwritten before the box sees them: byte for byte, so that
 * no length changes. A last resort: a server that encodes a value otherwise gets around it.
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

/* The values, and of "Bearer TOKEN" the token too. Borrows them. */
void mask_init(struct mask *mask, const struct secret *const *secrets, size_t len);

/* Overwrites whole occurrences in @data with '*', and returns how many bytes at its start are sure:
 * the rest may be the beginning of one, and must be shown again with what follows. At the end of
 * the stream all are sure. */
size_t mask_apply(const struct mask *mask, char *data, size_t len, bool end);
