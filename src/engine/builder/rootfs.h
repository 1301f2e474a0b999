/* The read-only root file system that builder, templates and all boxes share. */
#pragma once

#include "base/err.h"
#include "engine/builder/package_mounts.h"

struct volume_trees;

/* Of builder, templates and boxes alike. */
#define SKELETON_HOSTNAME "glovebox"

/* Moves the calling process (single-threaded) into a new mount namespace whose root is a fresh
 * tmpfs with nothing but what programs need; afterwards no path of the host can be reached but /usr
 * and those in @binds (absolute, resolved, NULL-terminated; may be NULL), all read-only. Unless it
 * is "", @packages is such a path too, of a directory that is put at SHELF_PLACE instead. Unless it
 * is "", @disk_dir is taken along: @ret_disk is a mount of it that is attached nowhere. So are the
 * operator's directories for volumes, unless @volumes_fd, their list, is negative;
 * and the directories that @shelf_fds are. */
int skeleton_enter(const char *disk_dir, const char *const *binds, const char *packages,
                   int *ret_disk, int volumes_fd, struct volume_trees *volumes,
                   struct shelf_set *shelves, const int *shelf_fds, size_t shelf_fds_len,
                   struct gb_err *err);

/* New network, IPC and UTS namespaces for the calling process. */
int skeleton_isolate(struct gb_err *err);
