/* Workspaces on disk that are watched (disk/disk.h), the builder's side. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "engine/host.h"

/* The host's directory, as the builder sees it. */
struct disk_vault {
    int tree; /* a detached mount of it */
    int base; /* the directory itself */
    int dir;  /* this engine's directory in it, locked while the engine lives */
    char name[DISK_NAME_MAX];
};

#define DISK_VAULT_NONE                                                                            \
    {                                                                                              \
        .tree = -EBADF, .base = -EBADF, .dir = -EBADF                                              \
    }

/* Takes over @tree. @name is "" or that of a builder that died. Directories of dead engines are
 * moved to this one's trash. */
int disk_vault_open(struct disk_vault *vault, int tree, const char *name, struct gb_err *err);

/* Removes everything that is left, and the engine's directory. */
void disk_vault_close(struct disk_vault *vault);

/* Creates a workspace that belongs to @host_id; @ret_mount is for move_mount(2). */
int disk_vault_make(struct disk_vault *vault, uint32_t box, uint32_t host_id, int *ret_mount,
                    struct gb_err *err);

/* The box is gone: moves its workspace to the trash. */
void disk_vault_drop(struct disk_vault *vault, uint32_t box);
