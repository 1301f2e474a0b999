#include "cli/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/disk/disk.h"

#include "base/banned.h"

#define PREFIX_NEW   "new-" /* not locked yet */
#define PREFIX_RUN   "run-"
#define INSIDE       "data" /* its own directory is locked, which a store in it would do too */
#define NEW_AGE_S    60     /* nobody takes as long from creating to locking */
#define TRASH_BUDGET 10000

static void empty_trash(int base_fd)
{
    bool more = true;

    while (more && disk_trash_empty(base_fd, TRASH_BUDGET, &more) == 0)
        ;
}

static bool is_old(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && time(NULL) - st.st_mtime > NEW_AGE_S;
}

/* Moves those whose owner is gone to the trash. */
static void sweep(int base_fd)
{
    int fd = openat(base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir && fd >= 0)
        (void) close(fd);
    while (dir && (entry = readdir(dir))) {
        bool run = strncmp(entry->d_name, PREFIX_RUN, strlen(PREFIX_RUN)) == 0;
        bool fresh = strncmp(entry->d_name, PREFIX_NEW, strlen(PREFIX_NEW)) == 0;
        autoclose int one = -EBADF;

        if (!run && !fresh)
            continue;
        one = openat(base_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (one >= 0 && (run || is_old(one)) && flock(one, LOCK_EX | LOCK_NB) == 0)
            (void) disk_trash_put(base_fd, base_fd, entry->d_name);
    }
    if (dir)
        (void) closedir(dir);
    empty_trash(base_fd);
}

/* Locked under one name, then renamed to the one that others sweep. */
static int make(struct scratch *scratch, struct gb_err *err)
{
    char temp[sizeof scratch->name];
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return gb_fail(err, errno, "read random bytes");
    snprintf(temp, sizeof temp, PREFIX_NEW "%016llx", (unsigned long long) random);
    if (mkdirat(scratch->base_fd, temp, 0700) < 0)
        return gb_fail(err, errno, "create a temporary directory");
    scratch->fd = openat(scratch->base_fd, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (scratch->fd < 0 || flock(scratch->fd, LOCK_EX | LOCK_NB) < 0)
        return gb_fail(err, errno, "lock a temporary directory");
    snprintf(scratch->name, sizeof scratch->name, PREFIX_RUN "%016llx",
             (unsigned long long) random);
    if (renameat(scratch->base_fd, temp, scratch->base_fd, scratch->name) < 0) {
        scratch->name[0] = '\0';
        return gb_fail(err, errno, "create a temporary directory");
    }
    return 0;
}

int scratch_open(const char *base, struct scratch *ret_scratch, struct gb_err *err)
{
    int r;

    ret_scratch->base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret_scratch->base_fd < 0)
        return gb_fail(err, errno, "open the data directory '%s'", base);
    sweep(ret_scratch->base_fd);
    r = make(ret_scratch, err);
    if (r == 0 && mkdirat(ret_scratch->fd, INSIDE, 0700) < 0)
        r = gb_fail(err, errno, "create a temporary directory");
    if (r == 0 && asprintf(&ret_scratch->path, "%s/%s/" INSIDE, base, ret_scratch->name) < 0) {
        ret_scratch->path = NULL;
        r = gb_fail(err, ENOMEM, "create a temporary directory");
    }
    return r;
}

void scratch_close(struct scratch *scratch)
{
    if (scratch->base_fd >= 0 && scratch->name[0] &&
        disk_trash_put(scratch->base_fd, scratch->base_fd, scratch->name) == 0)
        empty_trash(scratch->base_fd);
    if (scratch->fd >= 0)
        (void) close(scratch->fd);
    if (scratch->base_fd >= 0)
        (void) close(scratch->base_fd);
    free(scratch->path);
    *scratch = (struct scratch) SCRATCH_INIT;
}
