/*
 * Copies from an installer box into the store: regular files and directories, nothing else. Anybody
 * may have made the content of the box, so the builder opens it beneath the workspace, and it is
 * counted while it is copied.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "service/package/installer.h"

#include "base/banned.h"

#define FILES_MAX 20000u /* as many as the engine lists */
#define CHUNK     65536u

static int copy_bytes(int from, int to, int64_t *room)
{
    char chunk[CHUNK];
    ssize_t n;
    int r = 0;

    while (r == 0 && (n = io_read_all(from, chunk, sizeof chunk)) > 0) {
        *room -= n;
        r = *room < 0 ? -EFBIG : io_write_all(to, chunk, (size_t) n);
    }
    return r < 0 ? r : n < 0 ? (int) n : 0;
}

/* Makes the directories above @path, in a tree that only we have ever written to. */
static int make_parents(int dir, const char *path)
{
    autofree char *copy = strdup(path);

    if (!copy)
        return -ENOMEM;
    for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(dir, copy, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

static int copy_file(struct box *box, const struct file_info *info, const char *name, int dir,
                     int64_t *room, struct gb_err *err)
{
    autoclose int from = -EBADF, to = -EBADF;
    int r = box_open_read(box, info->path, &from, err);

    if (r < 0)
        return r;
    r = make_parents(dir, name);
    if (r == 0) {
        to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = to < 0 ? -errno : copy_bytes(from, to, room);
    }
    if (r == 0 && fchmod(to, info->mode & 0100 ? 0755 : 0644) < 0)
        r = -errno;
    return r < 0 ? gb_fail(err, -r, "copy a file of a package") : 0;
}

int layer_copy(struct box *box, const char *tree, int dir, int64_t bytes_max, int64_t *ret_bytes,
               int64_t *ret_files, struct gb_err *err)
{
    struct file_list list = { 0 };
    int64_t room = bytes_max, files = 0;
    size_t prefix = strlen(tree) + 1;
    int r = box_file_list(box, tree, true, NULL, FILES_MAX, &list, err);

    if (r < 0)
        return r;
    if (list.more || list.incomplete)
        r = gb_fail_plain(err, E2BIG, "these packages have more than %u files", FILES_MAX);
    for (size_t i = 0; i < list.len && r == 0; i++) {
        const struct file_info *info = &list.items[i];

        if (info->kind == FILE_DIRECTORY || strlen(info->path) <= prefix)
            continue;
        if (info->kind != FILE_REGULAR)
            r = gb_fail_plain(
                err, EINVAL,
                "a package contains something other than regular files and directories");
        else
            r = copy_file(box, info, info->path + prefix, dir, &room, err);
        files++;
    }
    file_list_release(&list);
    if (r < 0)
        return r;
    *ret_bytes = bytes_max - room;
    *ret_files = files;
    return 0;
}
