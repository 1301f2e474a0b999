/*
 * Workspaces on disk.
 *
 * A box can have its /workspace on disk instead of in memory. There are two kinds; which one a host
 * supports is determined once, when an engine is opened:
 *
 *   - image: the workspace is a small separate ext4 file system, in a sparse file without a name
 *     that is mounted through a loop device. The kernel enforces the quota. With the last
 *     mount everything disappears, and nothing is left to remove. Needs real root.
 *   - watched: the workspace is a directory, bound into the box. We count what is in it, and stop
 *     a run that has used too much.
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

/* ---- tree.c: counting and removing hostile trees; any process ---- */

struct disk_usage {
    int64_t bytes, inodes;
    bool deep;   /* deeper than we follow: counts as too much */
    bool denied; /* something could not be read for lack of permission */
};

/* Counts everything below directory @dir_fd, which it takes over; stops after @most_inodes. */
int disk_count(int dir_fd, int64_t most_inodes, struct disk_usage *ret_usage);

/* Adds deleted files that are still open in a process of the box. @root is the box's root
 * directory, @device that of its workspace. */
void disk_count_nameless(int root, dev_t device, struct disk_usage *usage);

/* Both, for a box. */
int disk_count_box(int root, const struct limits *limits, struct disk_usage *ret_usage);

/* Directories named DISK_TRASH-something in @dir_fd are trash. This removes some of it, at most
 * @budget entries; @ret_more: there is more. Links are not followed, memory does not grow with the
 * tree, depth does not matter. What cannot be removed is set aside and left. */
int disk_trash_empty(int dir_fd, int budget, bool *ret_more);

/* Moves @name in @from_fd to the trash, on the same file system. */
int disk_trash_put(int trash_fd, int from_fd, const char *name);

#define DISK_TRASH "trash-"

/* ---- image.c: in the supervisor ---- */

struct disk_images;

/* Images are files without a name in directory @dir_fd, which stays the caller's. Tries to create
 * and mount one, and fails if that does not work. */
int disk_images_open(int dir_fd, struct disk_images **ret_images, struct gb_err *err);
void disk_images_close(struct disk_images *images); /* accepts NULL */

/* A new, empty file system with this much room, as a detached mount: a descriptor for
 * move_mount(2). */
int disk_image_make(struct disk_images *images, int64_t bytes, int64_t inodes, int *ret_mount,
                    struct gb_err *err);

/* An image counts as full when no more than this many bytes are free: a write of several pages is
 * refused as a whole, and a program that failed because of it leaves that much. */
int64_t disk_image_slack(int64_t bytes);
