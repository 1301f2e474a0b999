/* Numbers and hashes in order, each with a tag that says where it came from. Of several that are
 * equal only the one with the lowest tag is kept, so a lower tag is a better place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SORTED_MAX   ((size_t) 1 << 20) /* of each */
#define EPSILON      1e-9
#define FROM_NOWHERE UINT64_MAX
#define FROM_INEXACT (UINT64_C(1) << 63) /* set by numbers_find(); no tag has it */
#define FROM_RANK    60u                 /* the bits from here on are the kind of the place */

struct numbers {
    struct number {
        double value;
        uint64_t from;
    } * items;
    size_t len, room, sorted; /* the first @sorted are in order */
    bool full;                /* something was left out */
};

struct hashes {
    struct hash {
        uint64_t value, from;
    } * items;
    size_t len, room, sorted;
    bool full;
};

void numbers_sort(struct numbers *numbers);
void hashes_sort(struct hashes *hashes);

/* 0 or -ENOMEM; what is not finite or beyond SORTED_MAX is left out. */
int numbers_add(struct numbers *numbers, double value, uint64_t from);
int hashes_add(struct hashes *hashes, uint64_t value, uint64_t from);

/* Whether one is from @low to @high; of those that are sorted, as below. */
bool numbers_have(const struct numbers *numbers, double low, double high);
/* The tag of the one from @low to @high that is most likely meant by @value, which is between them:
 * one that is equal before one that is rounded, then by the kind of its place, then the nearest.
 * With FROM_INEXACT if it is not equal; FROM_NOWHERE: there is none. */
uint64_t numbers_find(const struct numbers *numbers, double low, double high, double value);

bool hashes_have(const struct hashes *hashes, uint64_t value);
uint64_t hashes_find(const struct hashes *hashes, uint64_t value);

/* The better one of two tags. */
static inline uint64_t from_better(uint64_t a, uint64_t b)
{
    return b >> FROM_RANK < a >> FROM_RANK ? b : a;
}
