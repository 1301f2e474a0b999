/*
 * The supervisor's calls on the files of a workspace: requests to the builder (box/files.c), which
 * alone has the view and the ids for it. A listing is sorted and split into pages here, from a
 * bounded walk that is repeated for each page: a cursor into a directory that a tenant rewrites
 * would be meaningless.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/shared/walk.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

#define REMOVE_ROUNDS 10000

struct upload {
    struct box *box;
    char *path;
    int fd;
};

static int path_put(char *to, size_t size, const char *path, struct gb_err *err)
{
    size_t len = strlen(path);

    if (len >= size)
        return gb_fail_about(err, ENAMETOOLONG, "a name in the workspace");
    memcpy(to, path, len + 1);
    return 0;
}

static int request_init(struct builder_request *request, struct box *box, enum builder_op op,
                        const char *path, int flags, struct gb_err *err)
{
    *request = (struct builder_request){ .op = op, .box = box->id };
    request->file.flags = flags;
    return path_put(request->file.path, sizeof request->file.path, path, err);
}

/* Invalidates snapshots that were taken before this. */
static void files_touch(struct box *box)
{
    (void) __atomic_add_fetch(&box->files_changed, 1, __ATOMIC_RELEASE);
}

static int change(struct box *box, const struct builder_request *request, const int *fds,
                  size_t fds_len, struct builder_reply *reply, struct gb_err *err)
{
    int r = engine_call(box->engine, request, fds, fds_len, reply, NULL, NULL, err);

    files_touch(box); /* also when it failed: part of it may have been done */
    return r;
}

/* ---- reading ---- */

static enum file_kind kind_of(uint32_t mode)
{
    if (S_ISREG(mode))
        return FILE_REGULAR;
    if (S_ISDIR(mode))
        return FILE_DIRECTORY;
    return S_ISLNK(mode) ? FILE_LINK : FILE_OTHER;
}

void file_info_release(struct file_info *info)
{
    free(info->path);
    *info = (struct file_info){ 0 };
}

int box_file_stat(struct box *box, const char *path, struct file_info *ret_info, struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply = { 0 };
    char *copy;
    int r = request_init(&request, box, BOX_STAT, path, 0, err);

    if (r == 0)
        r = engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, err);
    if (r < 0)
        return r;
    copy = strdup(path);
    if (!copy)
        return gb_fail(err, ENOMEM, "stat a file in the workspace");
    *ret_info = (struct file_info){
        .path = copy,
        .kind = kind_of(reply.stat.mode),
        .size = reply.stat.size,
        .mtime_ns = reply.stat.mtime_ns,
        .inode = reply.stat.inode,
        .mode = reply.stat.mode & 0777,
    };
    return 0;
}

static int info_compare(const void *left, const void *right)
{
    const struct file_info *a = left, *b = right;

    return strcmp(a->path, b->path);
}

void file_list_release(struct file_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        free(list->items[i].path);
    free(list->items);
    *list = (struct file_list){ 0 };
}

/* All records that sort after @after, unsorted. */
static int list_fill(struct file_list *list, const struct snapshot *from, const char *after)
{
    const char *at = from->data;
    size_t left = from->len;

    list->items = calloc((size_t) from->count + 1, sizeof *list->items);
    if (!list->items)
        return -ENOMEM;
    while (list->len < from->count && left >= sizeof(struct scan_record)) {
        struct scan_record record;
        struct file_info *info = &list->items[list->len];

        memcpy(&record, at, sizeof record);
        at += sizeof record;
        left -= sizeof record;
        if (record.path_len > left)
            break;
        *info = (struct file_info){
            .path = strndup(at, record.path_len),
            .kind = kind_of(record.mode),
            .size = record.size,
            .mtime_ns = record.mtime_ns,
            .inode = record.inode,
            .mode = record.mode & 0777,
        };
        if (!info->path)
            return -ENOMEM;
        at += record.path_len;
        left -= record.path_len;
        if (after && strcmp(info->path, after) <= 0)
            free(info->path);
        else
            list->len++;
    }
    return 0;
}

static void list_cut(struct file_list *list, size_t limit)
{
    qsort(list->items, list->len, sizeof *list->items, info_compare);
    list->more = list->len > limit;
    while (list->len > limit)
        free(list->items[--list->len].path);
}

int box_file_list(struct box *box, const char *dir, bool recursive, const char *after, size_t limit,
                  struct file_list *ret_list, struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply;
    struct snapshot snapshot;
    struct file_list list = { 0 };
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0, len = strlen(dir);

    while (len > 0 && (dir[len - 1] == '/' || (len == 1 && dir[0] == '.')))
        len--; /* paths in the list begin with it */
    {
        autofree char *clean = strndup(dir, len);

        if (!clean)
            return gb_fail(err, ENOMEM, "list the workspace");
        r = request_init(&request, box, BOX_LIST, clean, WALK_ALL | (recursive ? 0 : WALK_FLAT),
                         err);
    }
    if (r == 0)
        r = engine_call(box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);
    if (r == 0)
        r = snapshot_map(&reply, fds, fds_len, &snapshot, err);
    if (r < 0)
        return r;
    list.incomplete = snapshot.incomplete;
    r = list_fill(&list, &snapshot, after);
    snapshot_release(&snapshot);
    if (r < 0) {
        file_list_release(&list);
        return gb_fail(err, -r, "list the workspace");
    }
    list_cut(&list, limit);
    *ret_list = list;
    return 0;
}

/* ---- changing ---- */

int box_file_mkdir(struct box *box, const char *path, bool parents, struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply;
    int r = request_init(&request, box, BOX_MKDIR, path, parents, err);

    if (r == 0)
        r = disk_room(box, 0, err);
    return r < 0 ? r : change(box, &request, NULL, 0, &reply, err);
}

int box_file_remove(struct box *box, const char *path, bool tree, struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply = { 0 };
    int r = request_init(&request, box, BOX_REMOVE, path, tree, err);

    for (int round = 0; r == 0 && round < REMOVE_ROUNDS; round++) {
        r = change(box, &request, NULL, 0, &reply, err);
        if (r == 0 && !reply.usage.files_incomplete)
            return 0;
        /* Gone between two rounds counts as removed. */
        if (r == -ENOENT && round > 0)
            return 0;
    }
    return r < 0
               ? r
               : gb_fail_plain(err, EBUSY, "the directory fills up faster than it can be emptied");
}

int box_file_rename(struct box *box, const char *from, const char *to, bool replace,
                    struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply;
    int r = request_init(&request, box, BOX_RENAME, from, replace, err);

    if (r == 0)
        r = path_put(request.file.to, sizeof request.file.to, to, err);
    return r < 0 ? r : change(box, &request, NULL, 0, &reply, err);
}

/* ---- uploads ---- */

int upload_begin(struct box *box, const char *path, mode_t mode, struct upload **ret_upload,
                 struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply;
    struct upload *upload;
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0;

    /* The name is used at the end; an invalid one is refused now. */
    if ((r = request_init(&request, box, BOX_OPEN, path, 0, err)) < 0 ||
        (r = disk_room(box, 0, err)) < 0)
        return r;
    r = request_init(&request, box, BOX_OPEN, ".", O_WRONLY | O_TMPFILE, err);
    request.file.mode = mode;
    if (r == 0)
        r = engine_call(box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);
    if (r < 0)
        return r;
    upload = calloc(1, sizeof *upload);
    if (fds_len != 1 || !upload || !(upload->path = strdup(path))) {
        wire_close_fds(fds, fds_len);
        free(upload);
        return gb_fail(err, fds_len == 1 ? ENOMEM : EPROTO, "begin an upload");
    }
    upload->box = box;
    upload->fd = fds[0];
    *ret_upload = upload;
    return 0;
}

int upload_fd(const struct upload *upload)
{
    return upload->fd;
}

int upload_commit(struct upload *upload, struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply;
    int r = request_init(&request, upload->box, BOX_LINK, upload->path, 0, err);
    struct stat st;

    /* There was no quota while it was written. */
    if (r == 0 && fstat(upload->fd, &st) == 0)
        r = disk_room(upload->box, st.st_blocks * 512, err);
    return r < 0 ? r : change(upload->box, &request, &upload->fd, 1, &reply, err);
}

void upload_free(struct upload *upload)
{
    if (!upload)
        return;
    gb_closep(&upload->fd);
    free(upload->path);
    free(upload);
}
