/* The builder's hands on shelves (shelf.h). */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "engine/shelf.h"

struct shelf_set {
    int trees[SHELVES_MAX]; /* a mount of each, attached nowhere; -EBADF: none */
};

#define SHELF_SET_NONE                                                                             \
    {                                                                                              \
        .trees = { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF }                                        \
    }

/* In a new mount namespace while the host is still in sight: takes along the
 * directories that @fds are. */
int shelf_take(struct shelf_set *set, const int *fds, size_t fds_len, struct gb_err *err);
void shelf_close(struct shelf_set *set);

/* Later: puts the directory @name of a shelf ("": all of the shelf) on top of what a box has at
 * @place (0: SHELF_PLACE; others: in it, under the number with a dot in front). @pidfd is the box's
 * PID 1. */
int shelf_mount(struct shelf_set *set, unsigned shelf, const char *name, int pidfd, unsigned place,
                struct gb_err *err);
