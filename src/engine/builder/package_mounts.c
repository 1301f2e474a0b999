/*
 * Package directories ("shelves") in boxes, the builder's side.
 *
 * Theory of operation. As with workspaces on disk (box/vault.c), the builder opens a detached mount
 * of each directory before it leaves the host's file system. To mount a part of one into a box it
 * attaches that mount for a moment, clones a mount of the part and a new one of the whole, and
 * detaches the first again. The part is made read-only, nosuid and nodev before it is attached
 * where anybody can see it. Then the builder, which has one thread, enters the box's mount
 * namespace, attaches the part there, and returns. That namespace belongs to the builder's user
 * namespace, so nobody in the box can unmount it, and all processes of the box see it at once,
 * including those sealed before: Landlock rules cover only writing, and nothing can be written
 * there.
 *
 * Mounts at the first place are stacked. The one below stays for processes with open files in it.
 */
#include "engine/builder/package_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/seal/skeleton.h"

#include "base/banned.h"

static int sys_open_tree(const char *path)
{
    int fd = (int) syscall(SYS_open_tree, AT_FDCWD, path,
                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

    return fd < 0 ? -errno : fd;
}

/* ---- before leaving the host's file system ---- */

/* A descriptor of another mount namespace cannot be cloned; its path in ours can, if it is still
 * the same directory. */
static int take_one(int fd, int *ret_tree, struct gb_err *err)
{
    char name[64], place[PATH_MAX];
    struct stat wanted, found;
    autoclose int tree = -EBADF;
    ssize_t n;

    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    n = readlink(name, place, sizeof place - 1);
    if (n < 0)
        return gb_fail(err, errno, "find a directory of packages");
    place[n] = '\0';
    tree = sys_open_tree(place);
    if (tree < 0)
        return gb_fail(err, -tree, "open the mount of %.100s (open_tree)", place);
    if (fstat(fd, &wanted) < 0 || fstat(tree, &found) < 0)
        return gb_fail(err, errno, "stat %.100s", place);
    if (wanted.st_dev != found.st_dev || wanted.st_ino != found.st_ino)
        return gb_fail_plain(err, EXDEV, "%.100s was replaced while the builder started", place);
    *ret_tree = TAKE_FD(tree);
    return 0;
}

int shelf_take(struct shelf_set *set, const int *fds, size_t fds_len, struct gb_err *err)
{
    int r = 0;

    if (fds_len > SHELVES_MAX)
        return gb_fail_plain(err, EPROTO, "too many package directories");
    for (size_t i = 0; i < fds_len && r == 0; i++)
        r = take_one(fds[i], &set->trees[i], err);
    return r;
}

void shelf_close(struct shelf_set *set)
{
    for (size_t i = 0; i < SHELVES_MAX; i++) {
        gb_closep(&set->trees[i]);
        set->trees[i] = -EBADF;
    }
}

/* ---- into a box ---- */

/* With the shelf attached: clones a mount of the part, and one of the whole for the next time. */
static int take_mounts(const char *path, int *ret_part, int *ret_tree)
{
    struct mount_attr attr = { .attr_set =
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
    autoclose int part = sys_open_tree(path), tree = -EBADF;

    tree = sys_open_tree(SKELETON_EMPTY);
    if (tree < 0)
        return tree;
    *ret_tree = TAKE_FD(tree); /* even if there is no such part */
    if (part < 0)
        return part;
    if (syscall(SYS_mount_setattr, part, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    *ret_part = TAKE_FD(part);
    return 0;
}

static int take_part(int *tree, const char *name, int *ret_part)
{
    char path[sizeof SKELETON_EMPTY + 1 + SHELF_NAME_MAX];
    int whole = -EBADF, r;

    snprintf(path, sizeof path, "%s%s%s", SKELETON_EMPTY, name[0] ? "/" : "", name);
    if (syscall(SYS_move_mount, *tree, "", AT_FDCWD, SKELETON_EMPTY, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    r = take_mounts(path, ret_part, &whole);
    if (umount2(SKELETON_EMPTY, MNT_DETACH) < 0 && r == 0)
        r = -errno;
    if (whole >= 0) {
        (void) close(*tree);
        *tree = whole;
    }
    return r;
}

/* Enters the box's mount namespace and returns. */
static int attach(int part, int pidfd, const char *place)
{
    autoclose int own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    int r = 0;

    if (own < 0 || setns(pidfd, CLONE_NEWNS) < 0)
        return -errno;
    if (syscall(SYS_move_mount, part, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        r = -errno;
    if (setns(own, CLONE_NEWNS) < 0)
        _exit(125); /* the next box would be a copy of this one */
    return r;
}

int shelf_mount(struct shelf_set *set, unsigned shelf, const char *name, int pidfd, unsigned place,
                struct gb_err *err)
{
    autoclose int part = -EBADF;
    char path[32];
    int r;

    if (shelf >= SHELVES_MAX || place >= SHELVES_MAX || set->trees[shelf] < 0 ||
        (name[0] && !shelf_name_valid(name)))
        return gb_fail_plain(err, EINVAL, "no such package directory or mount point");
    r = take_part(&set->trees[shelf], name, &part);
    if (r < 0)
        return gb_fail(err, -r, "mount the package directory '%s'", name);
    if (place == 0)
        snprintf(path, sizeof path, "%s", SHELF_PLACE);
    else
        snprintf(path, sizeof path, "%s/.%u", SHELF_PLACE, place);
    r = attach(part, pidfd, path);
    return r < 0 ? gb_fail(err, -r, "mount packages into a box") : 0;
}
