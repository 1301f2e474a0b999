/* The steps from one version of the tables to the next, embedded as text. */
#pragma once

#include <stddef.h>

/* One step: the statements for all backends, then those that only one of them understands. Step i
 * leads from version i to version i + 1. */
struct migration {
    const char *tables;
    const char *sqlite, *postgres;
};

extern const struct migration migrations[];
extern const size_t migrations_len;
