/* A bounded walk through a workspace, for the builder and for a supervisor that can see enough. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/limits.h"

/* Records as struct scan_record (wire.h), each followed by its path. */
struct walk {
    char *data; /* owned */
    size_t len, cap;
    uint32_t count;
    bool incomplete; /* hit a bound or a directory that it could not enter */
    bool denied;     /* because of a missing permission, which another process may have */
};

enum {
    WALK_FILES = 0,     /* regular files only, in the whole tree; modes are permission bits */
    WALK_ALL = 1 << 0,  /* every kind of entry; modes include the type */
    WALK_FLAT = 1 << 1, /* not into directories */
};

/* Walks through the directory @dir_fd, which it takes over. Paths begin with @prefix ("" or a path
 * without a slash at its end). Returns 0 or -errno. */
int walk_tree(int dir_fd, const char *prefix, unsigned flags, struct walk *ret_walk);
void walk_release(struct walk *walk);

/* The limit that one of the file systems below @root (a box's root directory) has reached;
 * LIMIT_NONE if there is none. The workspace counts as full when no more than @slack bytes are
 * left. */
enum limit_kind walk_disk_full(int root, int64_t slack);
