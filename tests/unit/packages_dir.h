/* For tests with a data directory: what packages_open() makes in it, removed when it is empty. */
#pragma once

#include <stdio.h>
#include <unistd.h>

#include "base/autoclean.h"

static inline void packages_remove(const char *dir)
{
    static const char *const names[] = { "layers", "records", "requests", "sets", "work",
                                         "locks",  "trees",   "tools",    "" };
    char path[512];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void) snprintf(path, sizeof path, "%s/packages/%s", dir, names[i]);
        (void) rmdir(path);
    }
}
