/*
 * Watched workspaces on disk, the builder's side.
 *
 * Theory of operation. Before the builder leaves the host's file system it opens a detached mount
 * of the operator's directory. For a box it attaches that mount for a moment, clones a mount of the
 * box's own directory and a new one of the whole, and detaches the first again: so neither boxes
 * nor templates, whose mounts are copies of ours, ever see the directory. (Before Linux 6.15, a
 * part of a detached mount cannot be cloned.)
 *
 * In it each engine has its own directory, with a shared lock on it as cgroup/cgroup.c has on its
 * groups; the supervisor has a duplicate of the descriptor. An engine that opens a vault looks for
 * directories without such a lock and moves them to its own trash. Trash is removed in small
 * portions, since all other requests wait for the builder meanwhile.
 */
#include "engine/box/vault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/cgroup/cgroup.h"
#include "engine/disk/disk.h"
#include "engine/seal/skeleton.h"

#include "base/banned.h"

#define ENGINE_PREFIX "engine."
#define NAME_TRIES    100

static void box_name(uint32_t box, char name[DISK_NAME_MAX])
{
    snprintf(name, DISK_NAME_MAX, "box-%u", box);
}

static int sys_open_tree(int dir, const char *path)
{
    int fd = (int) syscall(SYS_open_tree, dir, path,
                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

    return fd < 0 ? -errno : fd;
}

/* ---- the engine's directory ---- */

/* One neighbour: ours now if no engine has a lock on it. */
static int adopt_dead(int base, const char *name, void *data)
{
    const struct disk_vault *vault = data;
    autoclose int fd = -EBADF;

    if (strncmp(name, ENGINE_PREFIX, strlen(ENGINE_PREFIX)) != 0 || strcmp(name, vault->name) == 0)
        return 0;
    fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void) disk_trash_put(vault->dir, base, name);
    return 0;
}

static int engine_directory(struct disk_vault *vault, const char *name)
{
    uint64_t random;
    int r = -EEXIST;

    if (name[0]) {
        snprintf(vault->name, sizeof vault->name, "%s", name);
        return cgroup_engine_open(vault->base, vault->name, true, &vault->dir);
    }
    for (int i = 0; i < NAME_TRIES && r == -EEXIST; i++) {
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return -EIO;
        snprintf(vault->name, sizeof vault->name, ENGINE_PREFIX "%016llx",
                 (unsigned long long) random);
        r = cgroup_engine_open(vault->base, vault->name, false, &vault->dir);
    }
    return r;
}

int disk_vault_open(struct disk_vault *vault, int tree, const char *name, struct gb_err *err)
{
    int r;

    vault->tree = tree;
    vault->base = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (vault->base < 0)
        return gb_fail(err, errno, "open the directory for workspaces");
    r = engine_directory(vault, name);
    if (r < 0)
        return gb_fail(err, -r, "create a directory for workspaces");
    (void) cgroup_each_dir(vault->base, adopt_dead, vault);
    return 0;
}

void disk_vault_close(struct disk_vault *vault)
{
    bool more = true;

    if (vault->dir >= 0) {
        while (more && disk_trash_empty(vault->dir, INT_MAX, &more) == 0)
            ;
        (void) unlinkat(vault->base, vault->name, AT_REMOVEDIR);
    }
    gb_closep(&vault->dir);
    gb_closep(&vault->base);
    gb_closep(&vault->tree);
    *vault = (struct disk_vault) DISK_VAULT_NONE;
}

/* ---- workspaces ---- */

static int make_directory(struct disk_vault *vault, const char *name, uint32_t host_id)
{
    autoclose int fd = -EBADF;

    if (mkdirat(vault->dir, name, 0700) < 0)
        return -errno;
    fd = openat(vault->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0755) < 0 || fchown(fd, host_id, host_id) < 0)
        return -errno;
    return 0;
}

/* With the vault attached: a mount of one directory in it, and one of the whole for next time. */
static int take_mounts(const char *path, int *ret_mount, int *ret_tree)
{
    autoclose int mount = sys_open_tree(AT_FDCWD, path), tree = -EBADF;
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };

    if (mount < 0)
        return mount;
    if (syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    tree = sys_open_tree(AT_FDCWD, SKELETON_EMPTY);
    if (tree < 0)
        return tree;
    *ret_mount = TAKE_FD(mount);
    *ret_tree = TAKE_FD(tree);
    return 0;
}

static int mount_directory(struct disk_vault *vault, const char *name, int *ret_mount)
{
    autoclose int mount = -EBADF;
    char path[sizeof SKELETON_EMPTY + 2 * DISK_NAME_MAX];
    int tree = -EBADF, r;

    snprintf(path, sizeof path, "%s/%s/%s", SKELETON_EMPTY, vault->name, name);
    if (syscall(SYS_move_mount, vault->tree, "", AT_FDCWD, SKELETON_EMPTY,
                MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    r = take_mounts(path, &mount, &tree);
    if (umount2(SKELETON_EMPTY, MNT_DETACH) < 0 && r == 0) {
        r = -errno;
        gb_closep(&tree);
    }
    if (r < 0)
        return r; /* without a tree this vault is unusable, and further calls fail */
    (void) close(vault->tree);
    vault->tree = tree;
    *ret_mount = TAKE_FD(mount);
    return 0;
}

int disk_vault_make(struct disk_vault *vault, uint32_t box, uint32_t host_id, int *ret_mount,
                    struct gb_err *err)
{
    char name[DISK_NAME_MAX];
    int r;

    if (vault->dir < 0)
        return gb_fail_plain(err, EINVAL, "there is no directory for workspaces");
    box_name(box, name);
    r = make_directory(vault, name, host_id);
    if (r == 0)
        r = mount_directory(vault, name, ret_mount);
    if (r < 0) {
        disk_vault_drop(vault, box);
        return gb_fail(err, -r, "create a workspace on disk");
    }
    return 0;
}

void disk_vault_drop(struct disk_vault *vault, uint32_t box)
{
    char name[DISK_NAME_MAX];

    box_name(box, name);
    if (vault->dir >= 0)
        (void) disk_trash_put(vault->dir, vault->dir, name);
}
