/*
 * Volumes, the builder's side: mounts of the host's directories, for boxes.
 *
 * Theory of operation. Before the builder leaves the host's file system it opens a detached mount
 * of each of the operator's directories, as box/vault.c does with workspaces. For a box it attaches
 * one for a moment, opens the requested directory beneath it (no links, no way out, not even by a
 * "..") and clones a mount of just that, from the descriptor: between the check and the mount there
 * is no path that anybody could change.
 *
 * Mounts are cloned with everything mounted beneath. Otherwise one would see the files under those
 * mounts, which the kernel does not allow an ordinary user. Attributes (read-only, nosuid, nodev)
 * are set on all of them. They are as they were when the builder started: file systems mounted
 * there later are not visible.
 *
 * Whose are the files? A box of an ordinary user that has volumes runs under that user's own id, so
 * they are its own. A box of root runs under an id that owns nothing; there the mount translates
 * ids (idmapped mounts, Linux 5.12, not on all file systems): files of the directory's owner and
 * group belong to the box's user in the box, and files that the box creates belong to them on the
 * host. All other files belong to nobody. Root's files are never translated, so no box acts as
 * root. Without a translation a directory can be read as far as everybody may.
 */
#include "engine/box/volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "engine/seal/skeleton.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

#define LIST_BYTES_MAX ((off_t) VOLUME_ROOTS_MAX * (VOLUME_SOURCE_MAX + 64))
#define NOBODY         65534u

static int sys_open_tree(int dir, const char *path)
{
    int fd = (int) syscall(SYS_open_tree, dir, path,
                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH |
                               AT_SYMLINK_NOFOLLOW);

    return fd < 0 ? -errno : fd;
}

static int set_attributes(int mount, bool writable)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                           (writable ? 0 : MOUNT_ATTR_RDONLY),
                               .propagation = MS_PRIVATE };

    return syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) <
                   0
               ? -errno
               : 0;
}

/* ---- lists ---- */

/* The whole list, followed by a NUL. */
static int list_read(int fd, char **ret_text, size_t *ret_len)
{
    struct stat st;
    char *text;

    if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    if (st.st_size > LIST_BYTES_MAX)
        return -EPROTO;
    text = malloc((size_t) st.st_size + 1);
    if (!text)
        return -ENOMEM;
    if (io_read_all(fd, text, (size_t) st.st_size) != st.st_size) {
        free(text);
        return -EPROTO;
    }
    text[st.st_size] = '\0';
    *ret_text = text;
    *ret_len = (size_t) st.st_size;
    return 0;
}

/* Takes @size bytes of a record off the list. */
static bool take_record(const char **at, const char *end, void *ret_record, size_t size)
{
    if ((size_t) (end - *at) < size)
        return false;
    memcpy(ret_record, *at, size);
    *at += size;
    return true;
}

static const char *take_text(const char **at, const char *end, uint32_t len)
{
    const char *text = *at;

    if (len >= (size_t) (end - text) || memchr(text, '\0', (size_t) len + 1) != text + len)
        return NULL;
    *at = text + len + 1;
    return text;
}

/* ---- the operator's directories ---- */

static int tree_take(const char *path, const struct volume_root_record *record)
{
    autoclose int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), tree = -EBADF;
    struct stat st;
    int r;

    if (dir < 0 || fstat(dir, &st) < 0)
        return -errno;
    if (st.st_dev != record->dev || st.st_ino != record->ino)
        return -ESTALE;
    tree = sys_open_tree(dir, "");
    if (tree < 0)
        return tree;
    r = set_attributes(tree, record->writable != 0);
    return r < 0 ? r : TAKE_FD(tree);
}

int volume_trees_take(struct volume_trees *trees, int list_fd, struct gb_err *err)
{
    autofree char *text = NULL;
    struct volume_root_record record;
    const char *at, *end, *path;
    size_t len;
    int r = list_read(list_fd, &text, &len);

    if (r < 0)
        return gb_fail(err, -r, "read the list of volumes");
    for (at = text, end = text + len; at < end; trees->len++) {
        if (trees->len == VOLUME_ROOTS_MAX || !take_record(&at, end, &record, sizeof record) ||
            !(path = take_text(&at, end, record.path_len)))
            return gb_fail_plain(err, EPROTO, "the list of volumes is broken");
        trees->items[trees->len] =
            (struct volume_tree){ tree_take(path, &record), record.writable != 0 };
    }
    return 0;
}

void volume_trees_close(struct volume_trees *trees)
{
    for (size_t i = 0; i < trees->len; i++)
        gb_closep(&trees->items[i].fd);
    trees->len = 0;
}

/* ---- ids ---- */

static _Noreturn void namespace_main(int socket, uint32_t uid, uint32_t gid, uint32_t host_id)
{
    int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC), space = -EBADF;
    int32_t answer = self < 0 ? -errno : 0;

    if (answer == 0)
        answer = box_take_ids(host_id);
    if (answer == 0)
        answer = box_user_namespace(self, uid, gid, host_id);
    if (answer == 0 && (space = openat(self, "ns/user", O_RDONLY | O_CLOEXEC)) < 0)
        answer = -errno;
    (void) wire_send(socket, &answer, sizeof answer, &space, space >= 0);
    _exit(0);
}

/* The translation of a mount is given by a user namespace. Creating one with a single id needs no
 * privileges, so a child does that and hands it over. */
static int namespace_make(uint32_t uid, uint32_t gid, uint32_t host_id, int *ret_fd)
{
    struct clone_args args = { .exit_signal = SIGCHLD };
    autoclose int ours = -EBADF, theirs = -EBADF;
    int pair[2], fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0;
    int32_t answer;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    pid = (pid_t) syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        namespace_main(theirs, uid, gid, host_id);
    if (pid < 0)
        return -errno;
    gb_closep(&theirs);
    theirs = -EBADF;
    r = wire_recv(ours, &answer, sizeof answer, fds, &fds_len);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (r == 0 && answer == 0 && fds_len == 1) {
        *ret_fd = fds[0];
        return 0;
    }
    if (r == 0)
        wire_close_fds(fds, fds_len);
    return r < 0 ? r : answer < 0 ? answer : -EPROTO;
}

static int translate(int mount, uint32_t uid, uint32_t gid, uint32_t host_id)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
    autoclose int space = -EBADF;
    int r = namespace_make(uid, gid, host_id, &space);

    if (r < 0)
        return r;
    attr.userns_fd = (uint64_t) space;
    return syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) <
                   0
               ? -errno
               : 0;
}

/* Maps the directory's owner to the box's user. */
static int give(int mount, bool writable, uint32_t host_id, const char *where, struct gb_err *err)
{
    struct stat st;
    int r;

    if (host_id == 0)
        return 0; /* the box has our own id */
    if (fstat(mount, &st) < 0)
        return gb_fail_about(err, EADDRNOTAVAIL, "volume %s", where);
    if (writable && (st.st_uid == 0 || st.st_gid == 0))
        return gb_fail_plain(err, EADDRNOTAVAIL,
                             "volume %s: the directory belongs to root, and no box acts as root: "
                             "chown it to an ordinary user and group, or ask for mode ro",
                             where);
    if (st.st_uid == 0)
        return 0;
    r = translate(mount, st.st_uid, st.st_gid ? st.st_gid : NOBODY, host_id);
    if (r < 0 && writable)
        return gb_fail_plain(err, EADDRNOTAVAIL,
                             "volume %s: ask for mode ro; the directory's file system, or this "
                             "kernel, has no idmapped mounts (%s), so nothing can be written there",
                             where, strerrorname_np(-r));
    return 0; /* world-readable files can still be read */
}

/* ---- one volume ---- */

/* With the tree attached: clones a mount of the requested directory. */
static int take_beneath(const char *path, int *ret_mount)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    autoclose int root = open(SKELETON_EMPTY, O_PATH | O_DIRECTORY | O_CLOEXEC), dir = -EBADF;
    int mount;

    if (root < 0)
        return -errno;
    dir = (int) syscall(SYS_openat2, root, path, &how, sizeof how);
    if (dir < 0)
        return -errno;
    mount = sys_open_tree(dir, "");
    if (mount < 0)
        return mount;
    *ret_mount = mount;
    return 0;
}

static int take_mount(struct volume_tree *tree, const char *path, int *ret_mount)
{
    autoclose int mount = -EBADF;
    int again = -EBADF, r;

    if (tree->fd < 0)
        return tree->fd;
    if (syscall(SYS_move_mount, tree->fd, "", AT_FDCWD, SKELETON_EMPTY, MOVE_MOUNT_F_EMPTY_PATH) <
        0)
        return -errno;
    r = take_beneath(path, &mount);
    /* A mount that was attached cannot be detached and kept: a new one is needed for the next
     * time. */
    again = sys_open_tree(AT_FDCWD, SKELETON_EMPTY);
    if (umount2(SKELETON_EMPTY, MNT_DETACH) < 0 && r == 0)
        r = -errno;
    (void) close(tree->fd);
    tree->fd = again;
    if (r == 0)
        *ret_mount = TAKE_FD(mount);
    return r;
}

static int explain(int code, const char *where, struct gb_err *err)
{
    switch (code) {
    case ELOOP:
        return gb_fail_plain(
            err, EADDRNOTAVAIL,
            "volume %s: the source path contains a symbolic link; name the directory itself",
            where);
    case ENOENT:
        return gb_fail_plain(err, EADDRNOTAVAIL, "volume %s: the source does not exist", where);
    case ENOTDIR:
        return gb_fail_plain(err, EADDRNOTAVAIL, "volume %s: the source is not a directory", where);
    case ESTALE:
        return gb_fail_plain(err, EADDRNOTAVAIL,
                             "volume %s: the operator's directory was replaced after glovebox "
                             "started; restart glovebox",
                             where);
    default:
        return gb_fail_plain(err, EADDRNOTAVAIL, "volume %s: the source cannot be mounted (%s)",
                             where, strerrorname_np(code));
    }
}

static int volume_open(struct volume_trees *trees, const struct volume_record *record,
                       const char *path, const char *target, uint32_t host_id, int *ret_mount,
                       struct gb_err *err)
{
    autoclose int mount = -EBADF;
    char where[FORMAT_QUOTED_MAX];
    int r;

    format_quoted(target, where);
    if (record->root >= trees->len || (record->writable && !trees->items[record->root].writable))
        return gb_fail_plain(err, EADDRNOTAVAIL, "volume %s is not allowed", where);
    r = take_mount(&trees->items[record->root], path, &mount);
    if (r < 0)
        return explain(-r, where, err);
    r = give(mount, record->writable != 0, host_id, where, err);
    if (r < 0)
        return r;
    r = set_attributes(mount, record->writable != 0);
    if (r < 0)
        return explain(-r, where, err);
    *ret_mount = TAKE_FD(mount);
    return 0;
}

int box_volumes_open(struct volume_trees *trees, int list_fd, uint32_t host_id,
                     struct box_volumes *ret_volumes, struct gb_err *err)
{
    struct box_volumes volumes = { 0 };
    struct volume_record record;
    const char *at, *end, *path;
    size_t len = 0;
    int r = list_read(list_fd, &volumes.text, &len);

    if (r < 0)
        return gb_fail(err, -r, "read the list of volumes");
    for (at = volumes.text, end = volumes.text + len; at < end && r == 0;) {
        struct box_volume *volume = &volumes.items[volumes.len];

        if (volumes.len == VOLUMES_MAX || !take_record(&at, end, &record, sizeof record) ||
            !(path = take_text(&at, end, record.path_len)) ||
            !(volume->target = take_text(&at, end, record.target_len))) {
            r = gb_fail_plain(err, EPROTO, "the list of volumes is broken");
            break;
        }
        volume->writable = record.writable != 0;
        r = volume_open(trees, &record, path, volume->target, host_id, &volume->mount, err);
        if (r == 0)
            volumes.len++;
    }
    if (r < 0) {
        box_volumes_close(&volumes);
        return r;
    }
    *ret_volumes = volumes;
    return 0;
}

void box_volumes_close(struct box_volumes *volumes)
{
    for (size_t i = 0; i < volumes->len; i++)
        gb_closep(&volumes->items[i].mount);
    free(volumes->text);
    *volumes = (struct box_volumes){ 0 };
}
