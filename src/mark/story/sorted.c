#include "mark/story/sorted.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/banned.h"

/* Of a range that holds more, the nearest are looked at: a story with many round numbers about a
 * long table must not take forever. */
#define NEAREST_MAX 256

static int compare_numbers(const void *a, const void *b)
{
    const struct number *x = a, *y = b;

    if (x->value != y->value)
        return (x->value > y->value) - (x->value < y->value);
    return (x->from > y->from) - (x->from < y->from);
}

static int compare_hashes(const void *a, const void *b)
{
    const struct hash *x = a, *y = b;

    if (x->value != y->value)
        return (x->value > y->value) - (x->value < y->value);
    return (x->from > y->from) - (x->from < y->from);
}

void numbers_sort(struct numbers *numbers)
{
    size_t len = 0;

    if (numbers->sorted == numbers->len)
        return;
    qsort(numbers->items, numbers->len, sizeof(struct number), compare_numbers);
    for (size_t i = 0; i < numbers->len; i++)
        if (len == 0 || numbers->items[len - 1].value != numbers->items[i].value)
            numbers->items[len++] = numbers->items[i];
    numbers->len = numbers->sorted = len;
}

void hashes_sort(struct hashes *hashes)
{
    size_t len = 0;

    if (hashes->sorted == hashes->len)
        return;
    qsort(hashes->items, hashes->len, sizeof(struct hash), compare_hashes);
    for (size_t i = 0; i < hashes->len; i++)
        if (len == 0 || hashes->items[len - 1].value != hashes->items[i].value)
            hashes->items[len++] = hashes->items[i];
    hashes->len = hashes->sorted = len;
}

/* Makes room for one more. 1: there is room, 0: it is full. */
static int room_make(void **items, size_t len, size_t *room, size_t size)
{
    size_t more = *room ? *room * 2 : 256;
    void *grown;

    if (len < *room)
        return 1;
    if (*room >= SORTED_MAX)
        return 0;
    grown = realloc(*items, more * size);
    if (!grown)
        return -ENOMEM;
    *items = grown;
    *room = more;
    return 1;
}

int numbers_add(struct numbers *numbers, double value, uint64_t from)
{
    int r;

    if (!isfinite(value))
        return 0;
    if (numbers->len >= SORTED_MAX && !numbers->full) { /* once: sorting each time would be slow */
        numbers_sort(numbers);
        numbers->full = numbers->len > SORTED_MAX / 2;
    }
    r = room_make((void **) &numbers->items, numbers->len, &numbers->room, sizeof(struct number));
    if (r <= 0) {
        numbers->full = true;
        return r;
    }
    numbers->items[numbers->len++] = (struct number){ value, from };
    return 0;
}

int hashes_add(struct hashes *hashes, uint64_t value, uint64_t from)
{
    int r;

    if (hashes->len >= SORTED_MAX && !hashes->full) {
        hashes_sort(hashes);
        hashes->full = hashes->len > SORTED_MAX / 2;
    }
    r = room_make((void **) &hashes->items, hashes->len, &hashes->room, sizeof(struct hash));
    if (r <= 0) {
        hashes->full = true;
        return r;
    }
    hashes->items[hashes->len++] = (struct hash){ value, from };
    return 0;
}

/* The place of the first that is not below @low. */
static size_t first_from(const struct numbers *numbers, double low)
{
    size_t first = 0, last = numbers->sorted;

    while (first < last) {
        size_t middle = first + (last - first) / 2;

        if (numbers->items[middle].value < low)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

bool numbers_have(const struct numbers *numbers, double low, double high)
{
    size_t first = first_from(numbers, low);

    return first < numbers->sorted && numbers->items[first].value <= high;
}

uint64_t numbers_find(const struct numbers *numbers, double low, double high, double value)
{
    size_t above = first_from(numbers, value), below = above;
    uint64_t best = FROM_NOWHERE;

    /* Outwards, so that of two of one kind the nearer comes first. */
    for (int i = 0; i < NEAREST_MAX; i++) {
        bool up = above < numbers->sorted && numbers->items[above].value <= high;
        bool down = below > 0 && numbers->items[below - 1].value >= low;
        const struct number *item;
        uint64_t from;

        if (!up && !down)
            break;
        if (!down ||
            (up && numbers->items[above].value - value <= value - numbers->items[below - 1].value))
            item = &numbers->items[above++];
        else
            item = &numbers->items[--below];
        from = item->from;
        if (fabs(item->value - value) > fabs(value) * EPSILON)
            from |= FROM_INEXACT;
        best = from_better(best, from);
    }
    return best;
}

static const struct hash *hash_at(const struct hashes *hashes, uint64_t value)
{
    size_t first = 0, last = hashes->sorted;

    while (first < last) {
        size_t middle = first + (last - first) / 2;

        if (hashes->items[middle].value < value)
            first = middle + 1;
        else
            last = middle;
    }
    return first < hashes->sorted && hashes->items[first].value == value ? &hashes->items[first]
                                                                         : NULL;
}

bool hashes_have(const struct hashes *hashes, uint64_t value)
{
    return hash_at(hashes, value) != NULL;
}

uint64_t hashes_find(const struct hashes *hashes, uint64_t value)
{
    const struct hash *hash = hash_at(hashes, value);

    return hash ? hash->from : FROM_NOWHERE;
}
