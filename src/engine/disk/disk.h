/*
 * Workspaces on disk.
 *
 * A box can have its /workspace on disk instead of in memory. There are two kinds; which one a host
 * has is found out once, when an engine opens:
 *
 *   - image: the workspace is a small ext4 file system of its own, in a sparse file without a name
 *     that is mounted through a loop device. The kernel holds the quota. Everything goes when the
 *     last mount does: there is nothing to remove, whoever was killed. Needs real root.
 *   - watched: the workspace is a directory, bound into the box. We count what is in it, and end
 *     a run that has taken too much.
 *
 * A third, project quotas of the host's file system, would fit between them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/host.h"
#include "engine/limits.h"

/* ---- tree.c: counting and removing trees that somebody hostile made; any process ---- */

struct disk_usage {
    int64_t bytes, inodes;
    bool deep;   /* there is more below than we follow: counts as too much */
    bool denied; /* something could not be looked at for want of a permission */
};

/* Counts what is below directory @dir_fd, which it takes over; stops after @most_inodes. */
int disk_count(int dir_fd, int64_t most_inodes, struct disk_usage *ret_usage);

/* Adds files that have no name any more but are open in a process of the box. @root is the box's
 * root directory, @device that of its workspace. */
void disk_count_nameless(int root, dev_t device, struct disk_usage *usage);

/* Both, for a box. */
int disk_count_box(int root, const struct limits *limits, struct disk_usage *ret_usage);

/* Directories named DISK_TRASH-something in @dir_fd are rubbish. This removes some of it, at most
 * @budget entries; @ret_more: there is more. No link is followed, memory does not grow with the
 * tree, depth does not matter. What cannot be removed is put aside and left. */
int disk_trash_empty(int dir_fd, int budget, bool *ret_more);

/* Makes rubbish of @name in @from_fd, on the same file system. */
int disk_trash_put(int trash_fd, int from_fd, const char *name);

#define DISK_TRASH "trash-"

/* ---- image.c: in the supervisor ---- */

struct disk_images;

/* Images are files without a name in directory @dir_fd, which stays the caller's. Tries to make and
 * mount one: refuses where that does not work. */
int disk_images_open(int dir_fd, struct disk_images **ret_images, struct gb_err *err);
void disk_images_close(struct disk_images *images); /* accepts NULL */

/* A new, empty file system with this much room, mounted nowhere: a descriptor for move_mount(2). */
int disk_image_make(struct disk_images *images, int64_t bytes, int64_t inodes, int *ret_mount,
                    struct gb_err *err);

/* The free bytes with which an image counts as full: a write of several pages is refused as a
 * whole, and a program that failed of it leaves that much. */
int64_t disk_image_slack(int64_t bytes);
