/*
 * Counting and removing trees that a tenant created.
 *
 * A live tree is counted by descriptors, one component at a time and never through a link. A file
 * counts by its allocated blocks, divided evenly among its names. Trees deeper than we follow are
 * reported as such, and the caller treats that as too much. Deleted files still use space as long
 * as a process has them open; they are found in the box's /proc.
 *
 * A dead tree is removed without recursion: a directory that is not empty is moved up to the trash,
 * as a separate item. So one directory is open at a time, whatever the depth. Several threads and
 * processes may empty the same trash: an entry that no longer exists was removed by another.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/disk/disk.h"
#include "engine/shared/beneath.h"

#include "base/banned.h"

#define COUNT_DEPTH  128
#define BLOCK_BYTES  512
#define NAMELESS_MAX 512 /* beyond that many, files shared by two processes count twice */
#define TRASH_STUCK  "stuck-"
#define TRASH_TRIES  1000000
#define TRASH_NAME   (sizeof DISK_TRASH + 24)

struct count {
    struct disk_usage usage;
    int64_t most_inodes;
};

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- counting ---- */

static int count_directory(struct count *count, int fd, int depth);

static int count_entry(struct count *count, int dir, const char *name, int depth)
{
    struct stat st;
    int fd;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        count->usage.denied |= errno == EACCES;
        return 0; /* or it has vanished */
    }
    count->usage.inodes++;
    if (!S_ISDIR(st.st_mode)) {
        count->usage.bytes +=
            st.st_blocks * BLOCK_BYTES / (st.st_nlink ? (int64_t) st.st_nlink : 1);
        return 0;
    }
    count->usage.bytes += st.st_blocks * BLOCK_BYTES;
    if (depth <= 0) {
        count->usage.deep = true;
        return 0;
    }
    fd = beneath_open(dir, name, O_RDONLY | O_DIRECTORY, 0); /* not into a volume */
    if (fd < 0) {
        count->usage.denied |= fd == -EACCES;
        return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM ? fd : 0;
    }
    return count_directory(count, fd, depth - 1);
}

/* Takes over @fd. */
static int count_directory(struct count *count, int fd, int depth)
{
    struct dirent *entry;
    DIR *dir;
    int r = dir_open_fd(fd, &dir);

    if (r < 0)
        return r;
    while (r == 0 && count->usage.inodes < count->most_inodes && (entry = readdir(dir)))
        if (!is_dot(entry->d_name))
            r = count_entry(count, dirfd(dir), entry->d_name, depth);
    (void) closedir(dir);
    return r;
}

int disk_count(int dir_fd, int64_t most_inodes, struct disk_usage *ret_usage)
{
    struct count count = { .most_inodes = most_inodes };
    int r = count_directory(&count, dir_fd, COUNT_DEPTH);

    if (r == 0)
        *ret_usage = count.usage;
    return r;
}

struct nameless {
    dev_t device;
    ino_t seen[NAMELESS_MAX];
    size_t seen_len;
    struct disk_usage *usage;
};

static void nameless_add(struct nameless *nameless, const struct stat *st)
{
    if (!S_ISREG(st->st_mode) || st->st_nlink != 0 || st->st_dev != nameless->device)
        return;
    for (size_t i = 0; i < nameless->seen_len; i++)
        if (nameless->seen[i] == st->st_ino)
            return;
    if (nameless->seen_len < NAMELESS_MAX)
        nameless->seen[nameless->seen_len++] = st->st_ino;
    nameless->usage->inodes++;
    nameless->usage->bytes += st->st_blocks * BLOCK_BYTES;
}

/* The descriptors of one process. Its links lead to open files, not to names. */
static void nameless_process(struct nameless *nameless, int proc, const char *pid)
{
    autoclosedir DIR *dir = NULL;
    char path[32];
    struct dirent *entry;
    struct stat st;
    int r;

    snprintf(path, sizeof path, "%.16s/fd", pid);
    r = dir_open_at(proc, path, &dir);
    if (r < 0) {
        nameless->usage->denied |= r == -EACCES;
        return;
    }
    while ((entry = readdir(dir))) {
        if (!isdigit((unsigned char) entry->d_name[0]))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
            nameless_add(nameless, &st);
        else
            nameless->usage->denied |= errno == EACCES;
    }
}

void disk_count_nameless(int root, dev_t device, struct disk_usage *usage)
{
    struct nameless nameless = { .device = device, .usage = usage };
    autoclosedir DIR *dir = NULL;
    struct dirent *entry;

    if (dir_open_at(root, "proc", &dir) < 0)
        return;
    while ((entry = readdir(dir)))
        if (isdigit((unsigned char) entry->d_name[0]) && strcmp(entry->d_name, "1") != 0)
            nameless_process(&nameless, dirfd(dir), entry->d_name);
}

int disk_count_box(int root, const struct limits *limits, struct disk_usage *ret_usage)
{
    int fd = openat(root, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct disk_usage usage;
    struct stat st;
    int r;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0) {
        r = -errno;
        (void) close(fd);
        return r;
    }
    /* Counts beyond the quota, so that progress can be seen in a session that has too much. */
    r = disk_count(fd, 2 * limits->disk_inodes + 4096, &usage);
    if (r < 0)
        return r;
    disk_count_nameless(root, st.st_dev, &usage);
    *ret_usage = usage;
    return 0;
}

/* ---- removing ---- */

/* Renames to the first free name that begins with @prefix. */
static int move_aside(int from_dir, const char *from, int to_dir, const char *prefix)
{
    static atomic_uint next; /* only the starting point: every name is tried */

    for (int i = 0; i < TRASH_TRIES; i++) {
        char name[TRASH_NAME];

        snprintf(name, sizeof name, "%s%u", prefix, next++);
        if (renameat2(from_dir, from, to_dir, name, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return -errno;
    }
    return -EEXIST;
}

int disk_trash_put(int trash_fd, int from_fd, const char *name)
{
    return move_aside(from_fd, name, trash_fd, DISK_TRASH);
}

/* Removes @name, which may be a directory; one that is not empty becomes a separate trash item. */
static int drop_entry(int top, int dir, const char *name)
{
    int r;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    r = disk_trash_put(top, dir, name);
    return r == -ENOENT ? 0 : r;
}

/* Empties the directory @fd, which it takes over. -EAGAIN: the budget is used up. */
static int drop_inside(int top, int fd, int *budget)
{
    struct dirent *entry;
    bool found = true;
    DIR *dir;
    int r = dir_open_fd(fd, &dir);

    if (r < 0)
        return r;
    /* Reading a directory that changes meanwhile may miss entries. */
    while (r == 0 && found) {
        found = false;
        rewinddir(dir);
        while (r == 0 && (entry = readdir(dir))) {
            if (is_dot(entry->d_name))
                continue;
            found = true;
            r = (*budget)-- > 0 ? drop_entry(top, dirfd(dir), entry->d_name) : -EAGAIN;
        }
    }
    (void) closedir(dir);
    return r;
}

static int drop_tree(int top, const char *name, int *budget)
{
    int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int r;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? drop_entry(top, top, name) : -errno;
    r = drop_inside(top, fd, budget);
    if (r < 0)
        return r;
    return unlinkat(top, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

int disk_trash_empty(int dir_fd, int budget, bool *ret_more)
{
    autoclosedir DIR *dir = NULL;
    struct dirent *entry;
    bool found = true;
    int r = dir_open_at(dir_fd, ".", &dir);

    if (r < 0)
        return r;
    while (r == 0 && found) {
        found = false;
        rewinddir(dir);
        while (r == 0 && (entry = readdir(dir))) {
            if (strncmp(entry->d_name, DISK_TRASH, strlen(DISK_TRASH)) != 0)
                continue;
            found = true;
            r = budget-- > 0 ? drop_tree(dirfd(dir), entry->d_name, &budget) : -EAGAIN;
            /* One that cannot be removed must not block the others, nor keep us busy forever. */
            if (r < 0 && r != -EAGAIN && r != -EMFILE && r != -ENFILE && r != -ENOMEM)
                r = move_aside(dirfd(dir), entry->d_name, dirfd(dir), TRASH_STUCK);
        }
    }
    *ret_more = r == -EAGAIN;
    return r == -EAGAIN ? 0 : r;
}
