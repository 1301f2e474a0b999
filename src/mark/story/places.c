#include "mark/story/places.h"

#include <stdlib.h>

#include "base/grow.h"

#include "base/banned.h"

#define PLACES_MAX  ((size_t) 1 << 16)
#define PLACE_SHIFT 32u
#define PLACE_MASK  ((UINT64_C(1) << (FROM_RANK - PLACE_SHIFT)) - 1)
#define ROW_SHIFT   16u
#define CELL_MASK   UINT64_C(0xffff)

void places_release(struct places *places)
{
    free(places->items);
    json_decref(places->messages);
    *places = (struct places){ 0 };
}

const char *places_message(struct places *places, const char *id)
{
    if (!id || json_object_set_new(places->messages, id, json_true()) < 0)
        return NULL;
    return json_object_iter_key(json_object_iter_at(places->messages, id));
}

static bool place_equal(const struct place *a, const struct place *b)
{
    return a->rank == b->rank && a->message_id == b->message_id && a->step == b->step &&
           a->line == b->line && a->table == b->table;
}

uint64_t places_tag(struct places *places, const struct place *place)
{
    uint64_t rank = (uint64_t) place->rank << FROM_RANK;

    /* Displays of one step come one after the other. */
    if (places->len == 0 || !place_equal(&places->items[places->len - 1], place)) {
        struct place *grown = places->len < PLACES_MAX ? grow(places->items, &places->cap,
                                                              places->len + 1, sizeof *grown, 16)
                                                       : NULL;

        if (!grown)
            return rank;
        places->items = grown;
        places->items[places->len++] = *place;
    }
    return rank | (uint64_t) places->len << PLACE_SHIFT; /* 0: not known */
}

uint64_t places_cell(uint64_t from, size_t row, size_t column)
{
    if (row >= CELL_MASK || column >= CELL_MASK)
        return from;
    return from | (row + 1) << ROW_SHIFT | (column + 1);
}

struct origin places_origin(const struct places *places, uint64_t from)
{
    static const char *const words[] = {
        [RANK_VALUE] = "value",      [RANK_TABLE] = "table",   [RANK_OUTPUT] = "output",
        [RANK_QUERY] = "query",      [RANK_EARLIER] = "value", [RANK_DATA] = "data",
        [RANK_QUESTION] = "question"
    };
    size_t place = from >> PLACE_SHIFT & PLACE_MASK;
    struct origin origin = { .where = words[(from & ~FROM_INEXACT) >> FROM_RANK] };

    if (place > 0) {
        const struct place *known = &places->items[place - 1];

        origin.message_id = known->message_id;
        origin.step = known->step;
        origin.line = known->line;
        origin.table = known->table;
        origin.row = (int64_t) (from >> ROW_SHIFT & CELL_MASK);
        origin.column = (int64_t) (from & CELL_MASK);
    }
    return origin;
}
