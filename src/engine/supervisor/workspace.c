/*
 * Copies files between the host and a workspace, and finds changes in it.
 *
 * The workspace is hostile: names are arbitrary bytes, files may be links, pipes, sparse or
 * changing. Everything in it is opened by the builder beneath the workspace's directory, without
 * following links; everything written on the host is opened beneath the directory that the user
 * named, likewise.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

/* ---- snapshots ---- */

struct entry {
    struct scan_record record;
    const char *path; /* record.path_len bytes, in the snapshot */
};

int snapshot_map(const struct builder_reply *reply, const int *fds, size_t fds_len,
                 struct snapshot *ret_snapshot, struct gb_err *err)
{
    struct snapshot snapshot = { .count = reply->usage.files,
                                 .incomplete = reply->usage.files_incomplete != 0 };
    struct stat st;
    int r = 0;

    if (fds_len != 1 || fstat(fds[0], &st) < 0) {
        wire_close_fds(fds, fds_len);
        return gb_fail_plain(err, EPROTO, "the builder sent no list of files");
    }
    snapshot.len = (size_t) st.st_size;
    if (snapshot.len > 0) {
        snapshot.data = mmap(NULL, snapshot.len, PROT_READ, MAP_PRIVATE, fds[0], 0);
        snapshot.mapped = true;
        if (snapshot.data == MAP_FAILED)
            r = gb_fail(err, errno, "map the list of files");
    }
    (void) close(fds[0]);
    if (r == 0)
        *ret_snapshot = snapshot;
    return r;
}

int snapshot_take(struct box *box, struct snapshot *ret_snapshot, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_SCAN, .box = box->id };
    struct builder_reply reply;
    int fds[WIRE_FDS_MAX];
    size_t fds_len = 0;
    int r = engine_call(box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);

    return r < 0 ? r : snapshot_map(&reply, fds, fds_len, ret_snapshot, err);
}

void snapshot_release(struct snapshot *snapshot)
{
    if (snapshot->mapped)
        (void) munmap(snapshot->data, snapshot->len);
    else
        free(snapshot->data);
    *snapshot = (struct snapshot){ 0 };
}

static int entry_compare(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    size_t len = a->record.path_len < b->record.path_len ? a->record.path_len : b->record.path_len;
    int order = memcmp(a->path, b->path, len);

    if (order != 0)
        return order;
    return (a->record.path_len > b->record.path_len) - (a->record.path_len < b->record.path_len);
}

/* Finds the records and sorts them; the caller frees. */
static int entries_make(const struct snapshot *snapshot, struct entry **ret_entries,
                        size_t *ret_len)
{
    /* The count is only a claim of the builder; the size of the data is the bound. */
    size_t fit = snapshot->len / sizeof(struct scan_record);
    size_t most = snapshot->count < fit ? snapshot->count : fit;
    struct entry *entries = calloc(most + 1, sizeof *entries);
    const char *at = snapshot->data;
    size_t left = snapshot->len, n = 0;

    if (!entries)
        return -ENOMEM;
    while (n < most && left >= sizeof entries[n].record) {
        struct entry *entry = &entries[n];

        memcpy(&entry->record, at, sizeof entry->record);
        at += sizeof entry->record;
        left -= sizeof entry->record;
        if (entry->record.path_len > left)
            break;
        entry->path = at;
        at += entry->record.path_len;
        left -= entry->record.path_len;
        n++;
    }
    qsort(entries, n, sizeof *entries, entry_compare);
    *ret_entries = entries;
    *ret_len = n;
    return 0;
}

static bool entry_same(const struct entry *a, const struct entry *b)
{
    return a->record.size == b->record.size && a->record.mtime_ns == b->record.mtime_ns &&
           a->record.inode == b->record.inode;
}

static int file_add(struct file_entry *files, size_t *len, const struct entry *entry,
                    enum file_change change)
{
    struct file_entry *file = &files[*len];

    file->path = strndup(entry->path, entry->record.path_len);
    if (!file->path)
        return -ENOMEM;
    file->size = change == FILE_DELETED ? 0 : entry->record.size;
    file->change = change;
    (*len)++;
    return 0;
}

/* Both lists are sorted: one walk finds what is new, gone or different. */
static int entries_diff(const struct entry *old, size_t old_len, const struct entry *new,
                        size_t new_len, struct file_entry *files, size_t *files_len)
{
    size_t i = 0, j = 0;
    int r = 0;

    while (r == 0 && (i < old_len || j < new_len)) {
        int order = i == old_len ? 1 : j == new_len ? -1 : entry_compare(&old[i], &new[j]);

        if (order < 0) {
            r = file_add(files, files_len, &old[i++], FILE_DELETED);
        } else if (order > 0) {
            r = file_add(files, files_len, &new[j++], FILE_CREATED);
        } else {
            if (!entry_same(&old[i], &new[j]))
                r = file_add(files, files_len, &new[j], FILE_MODIFIED);
            i++;
            j++;
        }
    }
    return r;
}

int snapshot_diff(const struct snapshot *before, const struct snapshot *after,
                  struct file_entry **ret_files, size_t *ret_len, struct gb_err *err)
{
    autofree struct entry *old = NULL;
    autofree struct entry *new = NULL;
    struct file_entry *files = NULL;
    size_t old_len = 0, new_len = 0, len = 0;
    int r;

    if ((r = entries_make(before, &old, &old_len)) < 0 ||
        (r = entries_make(after, &new, &new_len)) < 0)
        return gb_fail(err, -r, "compare files");
    files = calloc(old_len + new_len + 1, sizeof *files);
    if (!files)
        return gb_fail(err, ENOMEM, "compare files");
    r = entries_diff(old, old_len, new, new_len, files, &len);
    if (r < 0) {
        for (size_t i = 0; i < len; i++)
            free(files[i].path);
        free(files);
        return gb_fail(err, -r, "compare files");
    }
    *ret_files = files;
    *ret_len = len;
    return 0;
}

int64_t files_largest(const struct file_entry *files, size_t files_len)
{
    int64_t largest = 0;

    for (size_t i = 0; i < files_len; i++)
        if (files[i].size > largest)
            largest = files[i].size;
    return largest;
}

/* ---- in and out ---- */

static int copy_bytes(int from, int to, int64_t most)
{
    char chunk[65536];
    ssize_t n;

    while (most > 0 && (n = io_read_all(from, chunk, sizeof chunk)) != 0) {
        int r;

        if (n < 0)
            return (int) n;
        if (n > most)
            n = most;
        r = io_write_all(to, chunk, (size_t) n);
        if (r < 0)
            return r;
        most -= n;
    }
    return 0;
}

int workspace_put(struct box *box, const char *from, const char *name, struct gb_err *err)
{
    autoclose int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    autoclose int out = -EBADF;
    struct stat st;
    int r;

    if (in < 0)
        return gb_fail(err, errno, "read '%s'", from);
    if (fstat(in, &st) < 0)
        return gb_fail(err, errno, "read '%s'", from);
    if (!S_ISREG(st.st_mode))
        return gb_fail_plain(err, EINVAL, "'%s' is not a regular file", from);
    if ((r = box_open_new(box, name, st.st_mode & 0755, &out, err)) < 0)
        return r;
    r = copy_bytes(in, out, INT64_MAX);
    if (r == -ENOSPC)
        return gb_fail_plain(err, ENOSPC, "'%s' does not fit into the workspace: raise --disk",
                             from);
    return r < 0 ? gb_fail(err, -r, "copy '%s' into the workspace", from) : 0;
}

static int open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t) (flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int) syscall(SYS_openat2, dir_fd, path, &how, sizeof how);

    return fd < 0 ? -errno : fd;
}

/* Creates the directories that lead to @path, each beneath the one before. */
static int make_parents(int dir_fd, const char *path)
{
    autoclose int at = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    if (at < 0)
        return -errno;
    for (; (slash = strchr(path, '/')); path = slash + 1) {
        autofree char *name = strndup(path, (size_t) (slash - path));
        int next;

        if (!name)
            return -ENOMEM;
        if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
            return -errno;
        next = open_beneath(at, name, O_RDONLY | O_DIRECTORY, 0);
        if (next < 0)
            return next;
        (void) close(at);
        at = next;
    }
    return 0;
}

static int fetch_one(struct box *box, const struct file_entry *file, int dir_fd, struct gb_err *err)
{
    autoclose int in = -EBADF, out = -EBADF;
    struct stat st;
    int r = box_open_read(box, file->path, &in, err);

    if (r < 0)
        return r;
    if (fstat(in, &st) < 0 || !S_ISREG(st.st_mode))
        return gb_fail_plain(err, EINVAL, "not a regular file");
    if ((r = make_parents(dir_fd, file->path)) < 0)
        return gb_fail(err, -r, "create directories for '%s'", file->path);
    out =
        open_beneath(dir_fd, file->path, O_WRONLY | O_CREAT | O_TRUNC, 0666 | (st.st_mode & 0111));
    if (out < 0)
        return gb_fail(err, -out, "write '%s'", file->path);
    r = copy_bytes(in, out, st.st_size);
    return r < 0 ? gb_fail(err, -r, "write '%s'", file->path) : 0;
}

int workspace_fetch(struct box *box, const struct file_entry *files, size_t files_len,
                    const char *dir, struct gb_err *err)
{
    autoclose int dir_fd = -EBADF;

    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return gb_fail(err, errno, "create '%s'", dir);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return gb_fail(err, errno, "open '%s'", dir);
    for (size_t i = 0; i < files_len; i++) {
        int r = 0;

        if (files[i].change != FILE_DELETED)
            r = fetch_one(box, &files[i], dir_fd, err);
        if (r < 0)
            return r;
    }
    return 0;
}
