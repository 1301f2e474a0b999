/*
 * A migration runs in one transaction, so a failure leaves the old tables. What the transaction
 * cannot undo is a migration that succeeds and turns out to be unwanted: the older program does not
 * read the newer tables. So the file is copied first, with SQLite's own backup call, which knows
 * about the write-ahead log.
 *
 * The copy is written under a temporary name, synced, and then renamed.
 */
#include "store/db_sqlite_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"

#include "base/banned.h"

#define TRIES_MSEC 20000

static int fail_backup(struct gb_err *err, int code, const char *path, const char *why)
{
    return gb_fail_plain(err, code,
                         "the store was not updated, because its backup '%.100s' cannot be "
                         "written: %s",
                         path, why);
}

/* Holds both connections of a copy. */
struct copy {
    sqlite3 *from, *to;
};

static void copy_release(struct copy *copy)
{
    (void) sqlite3_close(copy->from);
    (void) sqlite3_close(copy->to);
}

static int errno_of_copy(int rc)
{
    return (rc & 0xff) == SQLITE_FULL ? ENOSPC : EIO;
}

/* All pages in one go: nobody writes meanwhile, and the store is small. */
static int copy_pages(const char *from, const char *to, struct gb_err *err)
{
    __attribute__((cleanup(copy_release))) struct copy copy = { NULL, NULL };
    sqlite3_backup *backup;
    int rc = sqlite3_open_v2(from, &copy.from, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_open_v2(to, &copy.to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);
    /* A copy that fails is thrown away, and a complete one is synced once, by us. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(copy.to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL,
                          NULL, NULL);
    if (rc != SQLITE_OK)
        return fail_backup(err, errno_of_copy(rc), to, sqlite3_errstr(rc));
    (void) sqlite3_busy_timeout(copy.from, TRIES_MSEC);
    backup = sqlite3_backup_init(copy.to, "main", copy.from, "main");
    if (!backup)
        return fail_backup(err, EIO, to, sqlite3_errmsg(copy.to));
    rc = sqlite3_backup_step(backup, -1);
    if (rc == SQLITE_DONE)
        rc = sqlite3_backup_finish(backup);
    else
        (void) sqlite3_backup_finish(backup);
    if (rc != SQLITE_OK)
        return fail_backup(err, errno_of_copy(rc), to, sqlite3_errstr(rc));
    return 0;
}

static int sync_path(const char *path, int flags, struct gb_err *err)
{
    autoclose int fd = open(path, flags | O_CLOEXEC);

    if (fd < 0 || fsync(fd) < 0)
        return fail_backup(err, errno, path, strerror(errno));
    return 0;
}

static int sync_dir_of(const char *path, struct gb_err *err)
{
    autofree char *dir = strdup(path);
    char *slash = dir ? strrchr(dir, '/') : NULL;

    if (!slash)
        return dir ? 0 : gb_fail(err, ENOMEM, "copy the store");
    *slash = '\0';
    return sync_path(dir[0] ? dir : "/", O_RDONLY | O_DIRECTORY, err);
}

static int make_copy(const char *path, const char *temporary, const char *copy, struct gb_err *err)
{
    autoclose int fd = -EBADF;
    int r;

    (void) unlink(temporary); /* of a process that ended in the middle */
    fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail_backup(err, errno, copy, strerror(errno));
    r = copy_pages(path, temporary, err);
    if (r == 0 && fsync(fd) < 0)
        r = fail_backup(err, errno, copy, strerror(errno));
    if (r == 0 && rename(temporary, copy) < 0)
        r = fail_backup(err, errno, copy, strerror(errno));
    if (r < 0)
        (void) unlink(temporary);
    return r;
}

int db_sqlite_backup(const char *path, int64_t version, struct gb_err *err)
{
    autofree char *copy = NULL, *temporary = NULL;
    int r;

    if (asprintf(&copy, "%s.v%lld-backup", path, (long long) version) < 0) {
        copy = NULL;
        return gb_fail(err, ENOMEM, "copy the store");
    }
    if (asprintf(&temporary, "%s.part", copy) < 0) {
        temporary = NULL;
        return gb_fail(err, ENOMEM, "copy the store");
    }
    r = make_copy(path, temporary, copy, err);
    return r == 0 ? sync_dir_of(copy, err) : r;
}
