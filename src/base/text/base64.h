/* Base64 on the heap, with libsodium: only for modules that link it. */
#pragma once

#include <sodium.h>
#include <stdlib.h>

/* The standard alphabet with padding; the caller frees it. NULL: out of memory. */
static inline char *base64_encode(const void *data, size_t len)
{
    size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL);
    char *text = malloc(size);

    if (text)
        (void) sodium_bin2base64(text, size, data, len, sodium_base64_VARIANT_ORIGINAL);
    return text;
}
