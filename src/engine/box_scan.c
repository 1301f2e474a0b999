/*
 * What is in a workspace: a walk with the builder's eyes, since a tenant may have made directories
 * that the supervisor's user cannot enter.
 *
 * The tree is hostile and may change while it is walked. Directories are opened by descriptor, one
 * component at a time, never through a link or onto another file system; depth, entries and bytes
 * are bounded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/box.h"
#include "engine/wire.h"

#include "base/banned.h"

#define SCAN_ENTRIES_MAX 20000
#define SCAN_DEPTH_MAX   32

struct scan {
    int out;
    uint32_t count, entries;
    bool incomplete;
    dev_t device;
    char path[WIRE_PATH_MAX];
};

static int record_put(struct scan *scan, const struct stat *st)
{
    struct scan_record record = {
        .size = st->st_size,
        .mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
        .inode = st->st_ino,
        .mode = st->st_mode & 0777,
        .path_len = (uint32_t) strlen(scan->path),
    };
    int r = io_write_all(scan->out, &record, sizeof record);

    if (r == 0)
        r = io_write_all(scan->out, scan->path, record.path_len);
    scan->count += r == 0;
    return r;
}

static int scan_directory(struct scan *scan, int fd, size_t prefix, int depth);

/* One entry, whose name already stands in scan->path. */
static int scan_entry(struct scan *scan, int dir_fd, const char *name, size_t len, int depth)
{
    struct stat st;
    int sub;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone in the meantime */
    if (S_ISREG(st.st_mode))
        return record_put(scan, &st);
    if (!S_ISDIR(st.st_mode) || st.st_dev != scan->device)
        return 0;
    if (depth <= 0 || len + 2 >= sizeof scan->path) {
        scan->incomplete = true;
        return 0;
    }
    sub = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (sub < 0) {
        /* Gone or replaced in the meantime is as good as never there; anything else is a gap. */
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            scan->incomplete = true;
        return 0;
    }
    scan->path[len] = '/';
    return scan_directory(scan, sub, len + 1, depth - 1);
}

/* Takes over @fd; the first @prefix bytes of scan->path name the directory. */
static int scan_directory(struct scan *scan, int fd, size_t prefix, int depth)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    int r = 0;

    if (!dir) {
        r = -errno;
        (void) close(fd);
        return r;
    }
    while (r == 0 && (entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (++scan->entries > SCAN_ENTRIES_MAX || prefix + len + 1 > sizeof scan->path) {
            scan->incomplete = true;
            break;
        }
        memcpy(scan->path + prefix, entry->d_name, len + 1);
        r = scan_entry(scan, dirfd(dir), entry->d_name, prefix + len, depth);
    }
    (void) closedir(dir);
    return r;
}

int box_scan(const struct box_entry *box, int *ret_fd, uint32_t *ret_count, bool *ret_incomplete,
             struct gb_err *err)
{
    autoclose int out = memfd_create("glovebox-scan", MFD_CLOEXEC);
    struct scan scan = { .out = out };
    struct stat st;
    int fd, r;

    if (out < 0)
        return gb_fail(err, errno, "make a memory file");
    fd = openat(box->workspace, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gb_fail(err, errno, "open the workspace");
    if (fstat(fd, &st) == 0)
        scan.device = st.st_dev;
    r = scan_directory(&scan, fd, 0, SCAN_DEPTH_MAX);
    if (r < 0)
        return gb_fail(err, -r, "scan the workspace");
    *ret_fd = TAKE_FD(out);
    *ret_count = scan.count;
    *ret_incomplete = scan.incomplete;
    return 0;
}
