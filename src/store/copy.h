/* Moving everything from one store to another, of whatever kind. */
#pragma once

#include "store/store.h"

struct store_copy {
    struct store *from, *to;                                      /* both open exclusively */
    void (*progress)(void *arg, const char *table, int64_t rows); /* now and then; may be NULL */
    void *arg;
    int64_t rows; /* set: how many there were */
};

/* One transaction on the side of @copy->to, which must be empty (-ENOTEMPTY). Before it is
 * committed, everything is read back and compared. */
int store_copy(struct store_copy *copy, struct gb_err *err);

/* The tables and columns that are copied, for a test: "table: column, column", or NULL. */
const char *store_copy_table(size_t i);
