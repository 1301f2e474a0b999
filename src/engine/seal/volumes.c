/*
 * Volumes, PID 1's side: mounts them in a box.
 *
 * All boxes share the skeleton's root directory, which is read-only. A box with volumes gets a
 * separate root: a small tmpfs with the same mounts and links, the mount points of its volumes, and
 * read-only like the other. Mount points in /workspace are created in the workspace. There is one
 * more directory in that root, with a link to each writable volume: tenants and commands add a
 * Landlock rule for each, whoever started them.
 *
 * Runs in PID 1 between clone and seal: no malloc, no locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/seal/init.h"
#include "engine/seal/skeleton.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

#define ROOT_OPTIONS "mode=0755,size=1m,nr_inodes=4096"
#define IN_WORKSPACE "/workspace/"

static bool in_workspace(const struct box_volume *volume)
{
    return strncmp(volume->target, IN_WORKSPACE, strlen(IN_WORKSPACE)) == 0;
}

/* Creates the directories of an absolute path beneath @root; new ones belong to @owner. */
static int make_path(int root, const char *path, uint32_t owner)
{
    char part[VOLUME_TARGET_MAX];
    size_t len = strlen(path);

    if (len >= sizeof part)
        return -ENAMETOOLONG;
    for (size_t at = 1; at <= len; at++) {
        if (path[at] != '/' && path[at] != '\0')
            continue;
        memcpy(part, path + 1, at - 1);
        part[at - 1] = '\0';
        if (mkdirat(root, part, 0755) == 0) {
            if (fchownat(root, part, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        } else if (errno != EEXIST) {
            return -errno;
        }
    }
    return 0;
}

/* A volume at the place of a link to /workspace, or beneath it, replaces the link. */
static int drop_aliases(const struct box_spec *spec, int root)
{
    for (size_t i = 0; i < SKELETON_ALIASES; i++) {
        const char *alias = skeleton_aliases[i];
        size_t len = strlen(alias);
        bool taken = false;

        for (size_t v = 0; v < spec->volumes->len && !taken; v++) {
            const char *target = spec->volumes->items[v].target + 1;

            taken = strncmp(target, alias, len) == 0 && (target[len] == '/' || target[len] == '\0');
        }
        /* If a template has something there, it is a directory. */
        if (taken && unlinkat(root, alias, 0) < 0 && errno != EISDIR)
            return -errno;
    }
    return 0;
}

/* Landlock's rule for /workspace includes everything beneath it. */
static int make_links(const struct box_spec *spec, int root)
{
    char name[32];
    unsigned count = 0;

    if (mkdirat(root, &VOLUMES_LINKS[1], 0755) < 0)
        return -errno;
    for (size_t i = 0; i < spec->volumes->len; i++) {
        const struct box_volume *volume = &spec->volumes->items[i];

        if (!volume->writable || in_workspace(volume))
            continue;
        snprintf(name, sizeof name, "%s/%u", &VOLUMES_LINKS[1], count++);
        if (symlinkat(volume->target, root, name) < 0)
            return -errno;
    }
    return 0;
}

int box_volumes_root(const struct box_spec *spec)
{
    struct mount_attr attr = { .attr_set =
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
    autoclose int root = -EBADF;
    int r;

    if (spec->volumes->len == 0)
        return 0;
    if (mount("glovebox", SKELETON_EMPTY, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_OPTIONS) < 0)
        return -errno;
    root = open(SKELETON_EMPTY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    if ((r = skeleton_copy(root)) < 0 || (r = drop_aliases(spec, root)) < 0 ||
        (r = make_links(spec, root)) < 0)
        return r;
    for (size_t i = 0; i < spec->volumes->len; i++)
        if (!in_workspace(&spec->volumes->items[i]) &&
            (r = make_path(root, spec->volumes->items[i].target, 0)) < 0)
            return r;
    /* New and old root at the same place: afterwards the old one is on top and is unmounted. */
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return -errno;
    return syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr) < 0 ? -errno : 0;
}

int box_volumes_mount(const struct box_spec *spec)
{
    for (size_t i = 0; i < spec->volumes->len; i++) {
        const struct box_volume *volume = &spec->volumes->items[i];
        int r;

        if (in_workspace(volume)) {
            autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

            if (root < 0)
                return -errno;
            r = make_path(root, volume->target, spec->host_id);
            if (r < 0)
                return r;
        }
        if (syscall(SYS_move_mount, volume->mount, "", AT_FDCWD, volume->target,
                    MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return -errno;
    }
    return 0;
}
