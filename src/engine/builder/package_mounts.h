/* Package directories (shelf.h), the builder's side. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "engine/shelf.h"

struct shelf_set {
    int trees[SHELVES_MAX]; /* a detached mount of each; -EBADF: none */
};

#define SHELF_SET_NONE                                                                             \
    {                                                                                              \
        .trees = { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF }                                        \
    }

/* In a new mount namespace while the host's files are still visible: opens mounts of the
 * directories @fds. */
int shelf_take(struct shelf_set *set, const int *fds, size_t fds_len, struct gb_err *err);
void shelf_close(struct shelf_set *set);

/* Later: mounts the directory @name of a shelf ("": the whole shelf) over what a box has at @place
 * (0: SHELF_PLACE; others: in it, under the number with a leading dot). @pidfd is the box's PID
 * 1. */
int shelf_mount(struct shelf_set *set, unsigned shelf, const char *name, int pidfd, unsigned place,
                struct gb_err *err);
