/*
 * Where numbers come from, as tags of eight bytes.
 *
 * The numbers of a table are many, its place is one: so a tag has how good such a place is (enum
 * rank) in its highest bits, then which one it is, then of a table the row and the column. A lower
 * tag is a better place; sorted.h relies on it.
 */
#pragma once

#include "mark/story/evidence.h"
#include "mark/story/sorted.h"

/* The best first: what this answer handed over says the most. */
enum rank {
    RANK_VALUE,
    RANK_TABLE,
    RANK_OUTPUT,
    RANK_QUERY,
    RANK_EARLIER, /* a value of an earlier answer */
    RANK_DATA,
    RANK_QUESTION,
};

struct place {
    enum rank rank;
    const char *message_id;    /* of places_message(), or NULL */
    int64_t step, line, table; /* from 1; 0: not known, or none */
};

struct places {
    struct place *items;
    size_t len, cap;
    json_t *messages; /* ids of earlier answers, as keys; made by whoever has it */
};

void places_release(struct places *places);
/* The id of an earlier answer, kept here. NULL for NULL, and without memory. */
const char *places_message(struct places *places, const char *id);
/* A tag for @place. If there are too many, or there is no memory, only its kind is in it. */
uint64_t places_tag(struct places *places, const struct place *place);
/* A cell of the table with tag @from; @row and @column are from 0. */
uint64_t places_cell(uint64_t from, size_t row, size_t column);
struct origin places_origin(const struct places *places, uint64_t from);
