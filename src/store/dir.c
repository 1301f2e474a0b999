/*
 * The data directory: who may own it.
 *
 * It contains hashes of keys and the audit log, and the service may run as root. So the directory
 * must be ours and writable by nobody else; then no name in it can be swapped under us, and it is
 * enough to check a file before it is opened by its path.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/autoclean.h"
#include "store/internal.h"

#include "base/banned.h"

#define LOCK_TRIES      500
#define LOCK_PAUSE_NSEC 10000000 /* five seconds in all */

/* Like mkdir -p, but accessible only to us. */
static int make_dirs(const char *path, struct gb_err *err)
{
    autofree char *copy = strdup(path);
    char *slash = copy;

    if (!copy)
        return gb_fail(err, ENOMEM, "create '%s'", path);
    while (slash) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
            return gb_fail(err, errno, "create the data directory '%s'", copy);
        if (slash)
            *slash = '/';
    }
    return 0;
}

static int check_dir(int fd, const char *path, struct gb_err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return gb_fail(err, errno, "stat '%s'", path);
    if (st.st_uid != geteuid())
        return gb_fail_plain(err, EPERM,
                             "the data directory '%s' belongs to user id %u; run as that user, or "
                             "choose another with --data",
                             path, (unsigned) st.st_uid);
    if (st.st_mode & 022)
        return gb_fail_plain(
            err, EPERM, "the data directory '%s' is writable by other users; run chmod 700 on it",
            path);
    return 0;
}

/* Polled instead of blocking: any process that may read the directory could hold the lock forever.
 */
static int lock_dir(int fd, const char *path, struct gb_err *err)
{
    static const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NSEC };

    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return gb_fail(err, errno, "lock '%s'", path);
        (void) nanosleep(&pause, NULL);
    }
    return gb_fail_plain(err, EBUSY, "the data directory '%s' is locked by another process", path);
}

static int lock_exclusive(int dir_fd, const char *path, int *ret_fd, struct gb_err *err)
{
    autoclose int fd =
        openat(dir_fd, "serve.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return gb_fail(err, errno, "open '%s/serve.lock'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? gb_fail_plain(err, EBUSY,
                                                    "another glovebox is already serving from "
                                                    "'%s'; choose another directory with --data",
                                                    path)
                                    : gb_fail(err, errno, "lock '%s/serve.lock'", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int store_dir_open(const struct store_config *config, struct store_dir *ret_dir, struct gb_err *err)
{
    autoclose int fd = -EBADF, lock_fd = -EBADF;
    autofree char *path = NULL;
    int r;

    if (!config->must_exist) {
        r = make_dirs(config->dir, err);
        if (r < 0)
            return r;
    }
    fd = open(config->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gb_fail(err, errno, "open the data directory '%s'", config->dir);
    path = realpath(config->dir, NULL);
    if (!path)
        return gb_fail(err, errno, "resolve '%s'", config->dir);
    r = check_dir(fd, path, err);
    if (r == 0)
        r = lock_dir(fd, path, err);
    if (r == 0 && config->exclusive)
        r = lock_exclusive(fd, path, &lock_fd, err);
    if (r < 0)
        return r;
    *ret_dir = (struct store_dir){ TAKE_PTR(path), TAKE_FD(fd), TAKE_FD(lock_fd) };
    return 0;
}

void store_dir_release(struct store_dir *dir)
{
    free(dir->path);
    gb_closep(&dir->fd);
    gb_closep(&dir->lock_fd);
    *dir = (struct store_dir){ NULL, -EBADF, -EBADF };
}

bool store_dir_is_served(const struct store_dir *dir, int *ret_guard_fd)
{
    autoclose int fd = openat(dir->fd, "serve.lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return false; /* nobody ever had, and nobody gets it while we have the directory's lock */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK;
    *ret_guard_fd = TAKE_FD(fd);
    return false;
}

int store_dir_check_file(const struct store_dir *dir, const char *name, bool must_exist,
                         struct gb_err *err)
{
    autoclose int fd = -EBADF;
    struct stat st;

    if (!must_exist) {
        fd = openat(dir->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            return 0;
        if (errno != EEXIST)
            return gb_fail(err, errno, "create '%s/%s'", dir->path, name);
    }
    /* O_PATH: closing any other descriptor of the file would release the locks that SQLite holds on
     * it for this process. */
    fd = openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open '%s/%s'", dir->path, name);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return gb_fail_plain(err, EPERM, "'%s/%s' is not a regular file, or has hard links",
                             dir->path, name);
    if (st.st_uid != geteuid())
        return gb_fail_plain(err, EPERM, "'%s/%s' belongs to user id %u; run as that user",
                             dir->path, name, (unsigned) st.st_uid);
    if (st.st_mode & 077)
        return gb_fail_plain(err, EPERM,
                             "'%s/%s' is accessible to other users; run chmod 600 on it", dir->path,
                             name);
    return 0;
}
