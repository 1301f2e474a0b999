/* The read-only root file system that builder, templates and all boxes share. */
#pragma once

#include "base/err.h"
#include "engine/builder/package_mounts.h"
#include "engine/shared/wire.h"

struct volume_trees;

/* For builder, templates and boxes. */
#define SKELETON_HOSTNAME "glovebox"

/* What a skeleton has besides. For one template: files and directories of the host (absolute,
 * resolved, NULL-terminated), and a virtual environment (struct template_packages). */
struct skeleton_more {
    const char *binds[ROOT_BINDS_MAX + 1];
    const char *venv_lib, *packages; /* "": none */
    const char *locales;             /* mounted at BOX_LOCALES; "": none */
};

/* Moves the calling process (single-threaded) into a new mount namespace whose root is a fresh
 * tmpfs with only the files that programs need; afterwards no path of the host can be reached
 * except /usr and @more, all read-only. Unless @disk_dir is "", @ret_disk is a
 * detached mount of it. The operator's directories for volumes are opened likewise, unless
 * @volumes_fd, their list, is negative; and so are the directories @shelf_fds. */
int skeleton_enter(const char *disk_dir, const struct skeleton_more *more, int *ret_disk,
                   int volumes_fd, struct volume_trees *volumes, struct shelf_set *shelves,
                   const int *shelf_fds, size_t shelf_fds_len, struct gb_err *err);

/* New network, IPC and UTS namespaces for the calling process. */
int skeleton_isolate(struct gb_err *err);
