/* Volumes (volumes.h), the builder's side: mounts of the host's directories. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/seal/init.h"
#include "engine/volumes.h"

struct volume_tree {
    int fd; /* a mount that is attached nowhere; or -errno: why there is none */
    bool writable;
};

struct volume_trees {
    struct volume_tree items[VOLUME_ROOTS_MAX];
    size_t len;
};

/* Takes mounts of the operator's directories along, while they are in sight. One that is not there
 * any more is no failure: who asks for it is told. @list_fd as volume_roots_list() makes it. */
int volume_trees_take(struct volume_trees *trees, int list_fd, struct gb_err *err);
void volume_trees_close(struct volume_trees *trees);

/* The mounts for one box, from a list as volumes_list() makes it. @host_id 0: the box has the
 * caller's own id. EADDRNOTAVAIL: one of them cannot be had, which the message explains. */
int box_volumes_open(struct volume_trees *trees, int list_fd, uint32_t host_id,
                     struct box_volumes *ret_volumes, struct gb_err *err);
void box_volumes_close(struct box_volumes *volumes);
