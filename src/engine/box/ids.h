/* Host ids for boxes: which exist, and which are free. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "engine/host.h"

struct id_pool {
    enum id_mode mode;
    uint32_t first, count; /* as the builder's user namespace sees them */
    uint32_t next;
    uint64_t *used; /* one bit per id */
    int lock_fd;    /* reserves the block of ids against other engines */
};

/* Inspects the caller's user namespace and reserves a block of ids in it. */
int id_pool_open(struct id_pool *pool, struct gb_err *err);
void id_pool_release(struct id_pool *pool);

/* Takes an id for a new box; -EAGAIN when all are in use. In ID_SINGLE mode it is always the
 * same. */
int id_take(struct id_pool *pool, uint32_t *ret_id);
void id_give_back(struct id_pool *pool, uint32_t id);
