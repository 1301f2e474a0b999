/* Volumes (volumes.h), the builder's side: mounts of the host's directories. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/seal/init.h"
#include "engine/volumes.h"

struct volume_tree {
    int fd; /* a detached mount; or -errno: why there is none */
    bool writable;
};

struct volume_trees {
    struct volume_tree items[VOLUME_ROOTS_MAX];
    size_t len;
};

/* Opens mounts of the operator's directories while they are still visible. A missing directory is
 * not a failure here; requests for it fail later. @list_fd as volume_roots_list() makes it. */
int volume_trees_take(struct volume_trees *trees, int list_fd, struct gb_err *err);
void volume_trees_close(struct volume_trees *trees);

/* The mounts for one box, from a list as volumes_list() makes it. @host_id 0: the box has the
 * caller's own id. EADDRNOTAVAIL: one of them is not available, for the reason in the message. */
int box_volumes_open(struct volume_trees *trees, int list_fd, uint32_t host_id,
                     struct box_volumes *ret_volumes, struct gb_err *err);
void box_volumes_close(struct box_volumes *volumes);
