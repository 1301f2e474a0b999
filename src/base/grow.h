/* Growing arrays. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

/* Makes room for @need items of @size bytes. *@cap, in items, starts at @first and doubles. Returns
 * the array, which may have moved; NULL if out of memory, with nothing changed. */
static inline void *grow(void *items, size_t *cap, size_t need, size_t size, size_t first)
{
    size_t wanted = *cap > 0 ? *cap : first;
    void *grown;

    if (items && need <= *cap)
        return items;
    while (wanted < need)
        if (__builtin_mul_overflow(wanted, 2, &wanted))
            return NULL;
    grown = reallocarray(items, wanted, size);
    if (grown)
        *cap = wanted;
    return grown;
}
