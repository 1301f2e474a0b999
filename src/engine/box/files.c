/*
 * Operations on the files of a box that the builder performs for the supervisor.
 *
 * The workspace belongs to the tenant, who may place links, pipes and other surprises at any
 * moment. So a path is resolved by the kernel beneath the workspace, without links; entries are
 * created, removed and renamed by their directory's descriptor and one component; new ones are
 * given to the tenant by descriptor. The tenant can move files around while we work and gains
 * nothing: wherever we end up is its own workspace.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/box/box.h"
#include "engine/shared/beneath.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

#define REMOVE_BUDGET 2000 /* entries per request: others wait for the builder meanwhile */
#define REMOVE_DEPTH  128

/* Files that we create are given to the tenant; by descriptor, never by name. */
static int give_away(const struct box_entry *box, int fd)
{
    return fchown(fd, box->host_id, box->host_id) < 0 ? -errno : 0;
}

/* An entry of the workspace: the descriptor of its directory, and its name there. */
struct place {
    int dir; /* owned */
    char name[NAME_MAX + 1];
};

/* Splits off the last component. Returns the length of the part before it, or -errno. */
static int path_split(const char *path, const char **ret_name, size_t *ret_name_len)
{
    size_t len = strlen(path), start;

    while (len > 0 && path[len - 1] == '/')
        len--;
    start = len;
    while (start > 0 && path[start - 1] != '/')
        start--;
    *ret_name = path + start;
    *ret_name_len = len - start;
    if (*ret_name_len > NAME_MAX)
        return -ENAMETOOLONG;
    if (*ret_name_len == 0 || (*ret_name_len == 1 && path[start] == '.') ||
        (*ret_name_len == 2 && path[start] == '.' && path[start + 1] == '.'))
        return -EINVAL;
    return (int) start;
}

/* The next directory below @at, created if missing. */
static int step_into(const struct box_entry *box, int at, const char *name, bool *made)
{
    int fd, r;

    *made = mkdirat(at, name, 0755) == 0;
    if (!*made && errno != EEXIST)
        return -errno;
    fd = beneath_open(at, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0 && *made && (r = give_away(box, fd)) < 0) {
        (void) close(fd);
        return r;
    }
    return fd;
}

/* Opens the first @len bytes of @path as a directory; creates missing ones. */
static int make_directories(const struct box_entry *box, const char *path, size_t len)
{
    int at = beneath_open(box->workspace, ".", O_RDONLY | O_DIRECTORY, 0);
    const char *end = path + len;

    while (at >= 0 && path < end) {
        const char *slash = memchr(path, '/', (size_t) (end - path));
        size_t part = (size_t) ((slash ? slash : end) - path);
        char name[NAME_MAX + 1];
        int next;
        bool made;

        if (part > NAME_MAX || (part == 2 && path[0] == '.' && path[1] == '.')) {
            (void) close(at);
            return part > NAME_MAX ? -ENAMETOOLONG : -EINVAL;
        }
        if (part > 0) {
            memcpy(name, path, part);
            name[part] = '\0';
            next = step_into(box, at, name, &made);
            (void) close(at);
            at = next;
        }
        path += part + (slash != NULL);
    }
    return at;
}

static int place_open(const struct box_entry *box, const char *path, bool parents,
                      struct place *ret_place)
{
    const char *name;
    char head[WIRE_PATH_MAX];
    size_t name_len;
    int fd, len = path_split(path, &name, &name_len);

    if (len < 0)
        return len;
    memcpy(head, path, (size_t) len);
    head[len] = '\0';
    if (path[0] == '/')
        return -EXDEV;
    if (parents)
        fd = make_directories(box, path, (size_t) len);
    else
        fd = beneath_open(box->workspace, len ? head : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    ret_place->dir = fd;
    memcpy(ret_place->name, name, name_len);
    ret_place->name[name_len] = '\0';
    return 0;
}

int entry_open(const struct box_entry *box, const char *path, int flags, mode_t mode, int *ret_fd,
               struct gb_err *err)
{
    autoclose int fd = -EBADF;
    struct stat st;
    int r;

    if (flags != O_RDONLY && flags != (O_WRONLY | O_CREAT | O_EXCL) &&
        flags != (O_WRONLY | O_TMPFILE))
        return gb_fail_plain(err, EINVAL, "files of a box can only be read or created");
    fd = beneath_open(box->workspace, path, flags, flags == O_RDONLY ? 0 : mode & 0777);
    if (fd < 0)
        return gb_fail(err, -fd, "open a file in the workspace");
    if (fstat(fd, &st) < 0)
        return gb_fail(err, errno, "stat a file in the workspace");
    if (S_ISDIR(st.st_mode))
        return gb_fail_plain(err, EISDIR, "is a directory");
    if (!S_ISREG(st.st_mode))
        return gb_fail_plain(err, EINVAL, "not a regular file");
    if (flags != O_RDONLY && (r = give_away(box, fd)) < 0)
        return gb_fail(err, -r, "change the owner of a file in the workspace");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int entry_mkdir(const struct box_entry *box, const char *path, bool parents, struct gb_err *err)
{
    autoclose int made_fd = -EBADF;
    struct place place;
    bool made;
    int r = place_open(box, path, parents, &place);

    if (r < 0)
        return gb_fail(err, -r, "create a directory in the workspace");
    made_fd = step_into(box, place.dir, place.name, &made);
    (void) close(place.dir);
    if (made_fd < 0)
        return gb_fail(err, -made_fd, "create a directory in the workspace");
    return made || parents ? 0 : gb_fail(err, EEXIST, "create a directory in the workspace");
}

int entry_stat(const struct box_entry *box, const char *path, struct scan_record *ret_record,
               struct gb_err *err)
{
    struct stat st;
    int r;

    if (path[strspn(path, "./")] == '\0' && !strstr(path, "..")) {
        r = fstat(box->workspace, &st) < 0 ? -errno : 0;
    } else {
        struct place place;

        r = place_open(box, path, false, &place);
        if (r == 0) {
            r = fstatat(place.dir, place.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
            (void) close(place.dir);
        }
    }
    if (r < 0)
        return gb_fail(err, -r, "stat a file in the workspace");
    *ret_record = (struct scan_record){
        .size = st.st_size,
        .mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
        .inode = st.st_ino,
        .mode = st.st_mode,
    };
    return 0;
}

/* A directory that a volume is mounted on. We are in another mount namespace, so the kernel would
 * let us remove it and take the volume from the box. */
static bool is_volume(int dir, const char *name)
{
    autoclose int fd = beneath_open(dir, name, O_PATH | O_DIRECTORY, 0);

    return fd == -EXDEV;
}

int entry_rename(const struct box_entry *box, const char *from, const char *to, bool replace,
                 struct gb_err *err)
{
    struct place old, new;
    struct stat st;
    int r = place_open(box, from, false, &old);

    if (r < 0)
        return gb_fail(err, -r, "rename a file in the workspace");
    /* Before directories are created for it. */
    if (fstatat(old.dir, old.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    if (r == 0 && is_volume(old.dir, old.name))
        r = -EXDEV;
    if (r == 0)
        r = place_open(box, to, true, &new);
    if (r == 0) {
        if (is_volume(new.dir, new.name))
            r = -EXDEV;
        else if (renameat2(old.dir, old.name, new.dir, new.name, replace ? 0 : RENAME_NOREPLACE) <
                 0)
            r = -errno;
        (void) close(new.dir);
    }
    (void) close(old.dir);
    return r < 0 ? gb_fail(err, -r, "rename a file in the workspace") : 0;
}

/* Replaces the file @path with the unnamed file @fd. A link cannot replace a file, a rename can: so
 * it gets a temporary name first. */
int entry_link(const struct box_entry *box, int fd, const char *path, struct gb_err *err)
{
    struct stat st, home;
    struct place place;
    char self[48], name[48];
    int r;

    if (fstat(fd, &st) < 0 || fstat(box->workspace, &home) < 0 || !S_ISREG(st.st_mode) ||
        st.st_dev != home.st_dev)
        return gb_fail_plain(err, EINVAL, "not a file made for this workspace");
    r = place_open(box, path, true, &place);
    if (r < 0)
        return gb_fail(err, -r, "create a file in the workspace");
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    snprintf(name, sizeof name, ".glovebox-upload-%llu", (unsigned long long) st.st_ino);
    (void) unlinkat(place.dir, name, 0);
    if (linkat(AT_FDCWD, self, place.dir, name, AT_SYMLINK_FOLLOW) < 0) {
        r = -errno;
    } else if (renameat(place.dir, name, place.dir, place.name) < 0) {
        r = -errno;
        (void) unlinkat(place.dir, name, 0);
    }
    (void) close(place.dir);
    return r < 0 ? gb_fail(err, -r, "create a file in the workspace") : 0;
}

/* ---- removing ---- */

static int remove_entry(int dir, const char *name, int depth, int *budget);

/* Empties a directory, which it takes over. */
static int remove_inside(int fd, int depth, int *budget)
{
    struct dirent *entry;
    DIR *dir;
    int r = dir_open_fd(fd, &dir);

    if (r < 0)
        return r;
    while (r == 0 && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = remove_entry(dirfd(dir), entry->d_name, depth, budget);
    (void) closedir(dir);
    return r;
}

/* Entries that have vanished count as removed. Returns -EAGAIN when the budget is used up. */
static int remove_entry(int dir, const char *name, int depth, int *budget)
{
    int fd, r;

    if ((*budget)-- <= 0)
        return -EAGAIN;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (is_volume(dir, name))
        return -EXDEV;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    if (depth <= 0)
        return -ENAMETOOLONG;
    fd = beneath_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
    r = fd < 0 ? fd : remove_inside(fd, depth - 1, budget);
    if (r < 0)
        return r;
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

int entry_remove(const struct box_entry *box, const char *path, bool tree, bool *ret_more,
                 struct gb_err *err)
{
    int budget = REMOVE_BUDGET, r;
    struct place place;
    struct stat st;

    r = place_open(box, path, false, &place);
    if (r == 0) {
        r = fstatat(place.dir, place.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
        if (r == 0 && S_ISDIR(st.st_mode) && is_volume(place.dir, place.name))
            r = -EXDEV;
        else if (r == 0 && tree)
            r = remove_entry(place.dir, place.name, REMOVE_DEPTH, &budget);
        else if (r == 0 &&
                 unlinkat(place.dir, place.name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
            r = -errno;
        (void) close(place.dir);
    }
    *ret_more = r == -EAGAIN;
    return r < 0 && r != -EAGAIN ? gb_fail(err, -r, "remove a file from the workspace") : 0;
}
