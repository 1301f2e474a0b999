/* The read-only root file system that builder, templates and all boxes share. */
#pragma once

#include "base/err.h"
#include "engine/shelf.h"

/* Of builder, templates and boxes alike. */
#define SKELETON_HOSTNAME "glovebox"

/* Directory of the skeleton that hides other directories. */
#define SKELETON_EMPTY "/.empty"

/* Moves the calling process (single-threaded) into new mount, network, IPC and UTS namespaces whose
 * root is a fresh tmpfs with nothing but what programs need; afterwards no path of the host can be
 * reached but /usr. Unless it is "", @disk_dir is taken along: @ret_disk is a mount of it that is
 * attached nowhere. Likewise the directories that @shelf_fds are. */
int skeleton_enter(const char *disk_dir, int *ret_disk, struct shelf_set *shelves,
                   const int *shelf_fds, size_t shelf_fds_len, struct gb_err *err);
