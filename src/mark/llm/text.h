/* Text that grows up to a limit, always with a NUL behind it. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

struct text {
    char *data; /* NULL while empty; see text_str() */
    size_t len, cap;
};

/* 0, -ENOMEM, or -EMSGSIZE if it would be longer than @max; then nothing is changed. */
static inline int text_add(struct text *text, const char *data, size_t len, size_t max)
{
    char *grown;

    if (len > max || text->len > max - len)
        return -EMSGSIZE;
    grown = grow(text->data, &text->cap, text->len + len + 1, 1, 256);
    if (!grown)
        return -ENOMEM;
    text->data = grown;
    if (len > 0)
        memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
    return 0;
}

static inline const char *text_str(const struct text *text)
{
    return text->data ? text->data : "";
}

static inline void text_release(struct text *text)
{
    free(text->data);
    *text = (struct text){ 0 };
}
