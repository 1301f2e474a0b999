/*
 * A copy of the skeleton, for a box with volumes: it needs mount points that the shared one does
 * not have.
 *
 * Runs in PID 1 between clone and seal: no malloc, no locks.
 */
#include "engine/seal/skeleton.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/host.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

#define COPY_DEPTH_MAX 32

const struct skeleton_directory skeleton_directories[SKELETON_DIRECTORIES] = {
    { "usr", 0755, true },
    { "proc", 0555, true },
    { "dev", 0755, true },
    { "dev/shm", 0755, true },
    { "dev/pts", 0755, true },
    { "etc", 0755, true },
    { "tmp", 0755, false },
    { "workspace", 0755, false },
    { "var", 0755, true },
    { "run", 0755, false },
    { "root", 0755, false },
    { "home", 0755, false },
    { "mnt", 0755, false },
    { ".empty", 0555, false },
    { "sys", 0755, false },
    { "sys/devices", 0755, false },
    { "sys/devices/system", 0755, false },
    { "sys/devices/system/cpu", 0755, false },
    { "opt", 0755, false },
    { &BOX_BIN[1], 0755, false },
    { &BOX_LOCALES[1], 0755, false },
    { "packages", 0755, false },
    { "packages/.1", 0555, false },
    { "packages/.2", 0555, false },
    { "packages/.3", 0555, false },
    { "packages/.4", 0555, false },
    { "packages/.5", 0555, false },
};

const char *const skeleton_aliases[SKELETON_ALIASES] = { "mnt/data", "home/user" };

static int again_tree(int from, int to, unsigned depth);

/* A file or directory of the skeleton, with everything mounted in it. */
static int copy_mounts(int from, int to, const char *name)
{
    autoclose int tree =
        (int) syscall(SYS_open_tree, from, name,
                      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW);

    if (tree < 0)
        return -errno;
    if (syscall(SYS_move_mount, tree, "", to, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* A directory of the skeleton with files, all of which a box may see. */
static bool is_whole(const char *name, unsigned depth)
{
    for (size_t i = 0; depth == 0 && i < SKELETON_DIRECTORIES; i++)
        if (strcmp(skeleton_directories[i].path, name) == 0)
            return skeleton_directories[i].filled;
    return false;
}

static int again_link(int from, int to, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int again_entry(int from, int to, const char *name, unsigned depth)
{
    autoclose int below = -EBADF, copy = -EBADF;
    struct statx stx;
    bool mounted;

    if (statx(from, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MODE, &stx) < 0)
        return -errno;
    mounted = stx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
    if (S_ISLNK(stx.stx_mode))
        return again_link(from, to, name);
    if (S_ISREG(stx.stx_mode)) {
        /* A mount point for the file. */
        copy = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        return copy < 0 ? -errno : copy_mounts(from, to, name);
    }
    if (!S_ISDIR(stx.stx_mode))
        return -EINVAL;
    if (mkdirat(to, name, stx.stx_mode & 0777) < 0)
        return -errno;
    if (depth == 0 && strcmp(name, &SKELETON_EMPTY[1]) == 0)
        return 0; /* the new root is mounted there */
    if (depth == 0 && strcmp(name, "sys") == 0)
        return 0; /* only for templates */
    if (mounted || is_whole(name, depth))
        return copy_mounts(from, to, name);
    below = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    copy = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return below < 0 || copy < 0 ? -errno : again_tree(below, copy, depth + 1);
}

/* Directories are created again, so that the box can have its own mount points in them; mounts in
 * them, which can be anywhere in a template's skeleton, are repeated. */
static int again_tree(int from, int to, unsigned depth)
{
    char buf[1024] __attribute__((aligned(8)));
    long n;
    int r = 0;

    if (depth > COPY_DEPTH_MAX)
        return -ELOOP;
    while (r == 0 && (n = syscall(SYS_getdents64, from, buf, sizeof buf)) != 0) {
        if (n < 0)
            return -errno;
        for (long at = 0; at < n && r == 0;) {
            const struct dirent64 *entry = (const struct dirent64 *) (buf + at);

            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                r = again_entry(from, to, entry->d_name, depth);
            at += entry->d_reclen;
        }
    }
    return r;
}

int skeleton_copy(int root)
{
    autoclose int from = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return from < 0 ? -errno : again_tree(from, root, 0);
}
