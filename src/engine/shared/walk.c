/*
 * Lists a workspace. The supervisor walks by itself if it can, which saves a message; a tenant may
 * have created directories that only the builder can enter.
 *
 * The tree is hostile and may change while it is walked. Directories are opened by descriptor, one
 * component at a time, never through a link or onto another file system; depth, entries and bytes
 * are bounded.
 */
#include "engine/shared/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/grow.h"
#include "base/io.h"
#include "engine/shared/beneath.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

#define SCAN_ENTRIES_MAX 20000
#define SCAN_DEPTH_MAX   32

struct scan {
    struct walk out;
    unsigned flags;
    uint32_t entries;
    dev_t device;
    char path[WIRE_PATH_MAX];
};

static int scan_room(struct walk *out, size_t more)
{
    char *data = grow(out->data, &out->cap, out->len + more, 1, 1024);

    if (!data)
        return -ENOMEM;
    out->data = data;
    return 0;
}

static int record_put(struct scan *scan, const struct stat *st)
{
    struct walk *out = &scan->out;
    struct scan_record record = {
        .size = st->st_size,
        .mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
        .inode = st->st_ino,
        .mode = scan->flags & WALK_ALL ? st->st_mode : st->st_mode & 0777,
        .path_len = (uint32_t) strlen(scan->path),
    };
    int r = scan_room(out, sizeof record + record.path_len);

    if (r < 0)
        return r;
    memcpy(out->data + out->len, &record, sizeof record);
    memcpy(out->data + out->len + sizeof record, scan->path, record.path_len);
    out->len += sizeof record + record.path_len;
    out->count++;
    return 0;
}

static int scan_directory(struct scan *scan, int fd, size_t prefix, int depth);

/* One entry, whose name is already in scan->path. */
static int scan_entry(struct scan *scan, int dir_fd, const char *name, size_t len, int depth)
{
    struct stat st;
    int sub, r = 0;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone in the meantime */
    if (S_ISREG(st.st_mode) || scan->flags & WALK_ALL)
        r = record_put(scan, &st);
    if (r < 0 || !S_ISDIR(st.st_mode) || st.st_dev != scan->device || scan->flags & WALK_FLAT)
        return r;
    if (depth <= 0 || len + 2 >= sizeof scan->path) {
        scan->out.incomplete = true;
        return 0;
    }
    sub = beneath_open(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (sub < 0) {
        /* An entry that vanished or was replaced in the meantime counts as missing, and a volume is
         * not part of the workspace; anything else is a gap. */
        if (sub != -ENOENT && sub != -ENOTDIR && sub != -ELOOP && sub != -EXDEV)
            scan->out.incomplete = true;
        scan->out.denied |= sub == -EACCES;
        return 0;
    }
    scan->path[len] = '/';
    return scan_directory(scan, sub, len + 1, depth - 1);
}

/* Takes over @fd; the first @prefix bytes of scan->path name the directory. */
static int scan_directory(struct scan *scan, int fd, size_t prefix, int depth)
{
    struct dirent *entry;
    DIR *dir;
    int r = dir_open_fd(fd, &dir);

    if (r < 0)
        return r;
    while (r == 0 && (entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (++scan->entries > SCAN_ENTRIES_MAX || prefix + len + 1 > sizeof scan->path) {
            scan->out.incomplete = true;
            break;
        }
        memcpy(scan->path + prefix, entry->d_name, len + 1);
        r = scan_entry(scan, dirfd(dir), entry->d_name, prefix + len, depth);
    }
    (void) closedir(dir);
    return r;
}

int walk_tree(int dir_fd, const char *prefix, unsigned flags, struct walk *ret_walk)
{
    struct scan scan = { .flags = flags };
    size_t len = strlen(prefix);
    struct stat st;
    int r;

    if (fstat(dir_fd, &st) < 0 || len + 2 > sizeof scan.path) {
        (void) close(dir_fd);
        return -ENAMETOOLONG;
    }
    scan.device = st.st_dev;
    if (len > 0) {
        memcpy(scan.path, prefix, len);
        scan.path[len++] = '/';
    }
    r = scan_directory(&scan, dir_fd, len, SCAN_DEPTH_MAX);
    if (r < 0) {
        walk_release(&scan.out);
        return r;
    }
    *ret_walk = scan.out;
    return 0;
}

void walk_release(struct walk *walk)
{
    free(walk->data);
    *walk = (struct walk){ 0 };
}

enum limit_kind walk_disk_full(int root, int64_t slack)
{
    static const char *const places[] = { "workspace", "tmp", "dev/shm" };

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        autoclose int fd = openat(root, places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct statfs fs;

        if (fd < 0 || fstatfs(fd, &fs) < 0)
            continue;
        if ((int64_t) fs.f_bavail * fs.f_bsize <= (i == 0 ? slack : 0))
            return LIMIT_DISK_BYTES;
        if (fs.f_files > 0 && fs.f_ffree == 0) /* some file systems do not count inodes */
            return LIMIT_DISK_INODES;
    }
    return LIMIT_NONE;
}
