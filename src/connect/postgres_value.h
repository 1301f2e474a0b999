/* Between the list of types and the decoder of values: what one type looks like. */
#pragma once

#include "connect/postgres_internal.h"

#define SHAPE_DEPTH 8 /* of records in arrays in records; what is deeper is text */

struct type;

struct pg_shape {
    enum result_type type;
    bool array; /* then of @element */
    unsigned element;
    char delimiter;
    const struct type *record;
    size_t fields_len;
};

void pg_shape(const struct pg_types *types, unsigned oid, unsigned depth,
              struct pg_shape *ret_shape);
void pg_shape_field(const struct pg_shape *shape, size_t i, const char **ret_name,
                    unsigned *ret_type);
