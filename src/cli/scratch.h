/*
 * A directory for the time of one command: the store and the files of a Mark without a service.
 *
 * It has a random name below a directory that several processes share, and is locked as long as its
 * owner lives. Whoever opens one removes those whose owner is gone, so that not even a killed
 * process leaves something for long.
 */
#pragma once

#include <errno.h>

#include "base/err.h"

struct scratch {
    int base_fd, fd; /* below 0: not open */
    char name[32];
    char *path;
};

#define SCRATCH_INIT                                                                               \
    {                                                                                              \
        .base_fd = -EBADF, .fd = -EBADF                                                            \
    }

/* @base must exist. The caller closes it, also after a failure. */
int scratch_open(const char *base, struct scratch *ret_scratch, struct gb_err *err);

/* Removes it with everything in it. */
void scratch_close(struct scratch *scratch);
