/*
 * uv, which resolves requirements several times faster than pip. Where it comes from: the operator
 * names it, or it is in /usr, which boxes see, or elsewhere in the PATH, or it is fetched once, by
 * the hashes in uv.lock. In the last three cases a copy is in tools/ of the store and is mounted
 * into installer boxes. It runs nowhere else.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "engine/disk/disk.h"
#include "service/package/installer_internal.h"
#include "service/package/layers_internal.h"

#include "base/banned.h"

#define TOOL_PLACE   5 /* at SHELF_PLACE/.5 in the box */
#define TOOL_SHELF   1
#define FILE_NAME    "uv"
#define FILE_MAX     (INT64_C(512) << 20)
#define CHUNK        (256u << 10)
#define AGAIN_US     (3600 * USEC_PER_SEC) /* after a failure to fetch it */
#define BOX_PATH     SHELF_PLACE "/.5/" FILE_NAME
#define NAME_FETCHED "uv-%.32s"
#define NAME_COPIED  "host-%.32s"

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* ---- the copy in the store ---- */

/* Takes tools/@name into use: the lock keeps it. */
static int tool_use(struct tool *tool, struct layers *layers, const char *name)
{
    int dir = layers->dirs[DIR_TOOLS];
    autoclose int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (fd < 0)
        return -errno;
    r = layers_lock_shared(dir, name, fd);
    if (r == 0 && faccessat(fd, FILE_NAME, X_OK, 0) < 0)
        r = -errno;
    if (r < 0)
        return r;
    snprintf(tool->name, sizeof tool->name, "%s", name);
    tool->fd = TAKE_FD(fd);
    return 0;
}

/* Removes older ones that no process uses. */
static void tools_sweep(struct layers *layers, const char *keep)
{
    autoclosedir DIR *dir = NULL;
    struct dirent *entry;

    if (dir_open_at(layers->dirs[DIR_TOOLS], ".", &dir) < 0)
        return;
    while ((entry = readdir(dir))) {
        autoclose int fd = -EBADF;

        if (entry->d_name[0] == '.' || strcmp(entry->d_name, keep) == 0)
            continue;
        fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void) disk_trash_put(layers->dirs[DIR_WORK], layers->dirs[DIR_TOOLS], entry->d_name);
    }
    layers_rubbish_empty(layers);
}

/* Ends the work in any case. */
static int tool_publish(struct tool *tool, struct layer_work *work, const char *name,
                        struct gb_err *err)
{
    struct layers *layers = work->layers;
    int r = syncfs(work->fd) < 0 ? -errno : 0;

    if (r == 0 &&
        renameat(layers->dirs[DIR_WORK], work->name, layers->dirs[DIR_TOOLS], name) == 0) {
        gb_closep(&work->fd);
        work->fd = -EBADF;
    } else if (r == 0 && errno != EEXIST && errno != ENOTEMPTY)
        r = -errno;
    layer_work_abort(work);
    if (r == 0)
        r = tool_use(tool, layers, name);
    if (r == 0)
        tools_sweep(layers, name);
    return r < 0 ? gb_fail(err, -r, "store uv") : 0;
}

static int copy_bytes(int from, int to)
{
    autofree char *buf = malloc(CHUNK);
    int64_t room = FILE_MAX;
    ssize_t n = 0;
    int r = buf ? 0 : -ENOMEM;

    while (r == 0 && (n = io_read_all(from, buf, CHUNK)) > 0)
        r = (room -= n) < 0 ? -EFBIG : io_write_all(to, buf, (size_t) n);
    return r < 0 ? r : n < 0 ? (int) n : 0;
}

/* A program of the host that boxes do not see. */
static int tool_copy(struct tool *tool, struct layers *layers, const char *path, struct gb_err *err)
{
    autoclose int from = open(path, O_RDONLY | O_CLOEXEC), to = -EBADF;
    char text[4400], hash[LAYER_KEY_MAX], name[80];
    struct layer_work work = { .fd = -EBADF };
    struct stat st;
    int r;

    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return gb_fail(err, from < 0 ? errno : EINVAL, "open %.100s", path);
    snprintf(text, sizeof text, "%.4000s %lld %lld.%09ld %llu", path, (long long) st.st_size,
             (long long) st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (unsigned long long) st.st_ino);
    layers_hash(text, strlen(text), hash);
    snprintf(name, sizeof name, NAME_COPIED, hash);
    if (tool_use(tool, layers, name) == 0)
        return 0;
    r = layer_work_begin(layers, &work, err);
    if (r < 0)
        return r;
    to = openat(work.fd, FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    r = to < 0 ? -errno : copy_bytes(from, to);
    if (r == 0 && fchmod(to, 0755) < 0)
        r = -errno;
    gb_closep(&to); /* a program that is open for writing cannot be executed */
    to = -EBADF;
    if (r == 0)
        return tool_publish(tool, &work, name, err);
    layer_work_abort(&work);
    return gb_fail(err, -r, "copy %.100s", path);
}

/* ---- finding it ---- */

static bool path_search(char ret_path[4096])
{
    const char *path = getenv("PATH");

    while (path && *path) {
        size_t len = strcspn(path, ":");

        if (len > 0 && path[0] == '/' && len < 4000) {
            snprintf(ret_path, 4096, "%.*s/" FILE_NAME, (int) len, path);
            if (is_program(ret_path))
                return true;
        }
        path += len + (path[len] == ':');
    }
    return false;
}

static void fetched_name(char ret_name[80])
{
    char hash[LAYER_KEY_MAX];

    layers_hash(installer_uv_lock, strlen(installer_uv_lock), hash);
    snprintf(ret_name, 80, NAME_FETCHED, hash);
}

int installer_tool_find(struct installer *installer, struct gb_err *err)
{
    static const char *const usual[] = { "/usr/local/bin/" FILE_NAME, "/usr/bin/" FILE_NAME };
    const char *asked = installer->config->uv;
    struct tool *tool = &installer->tool;
    char path[4096], name[80];
    int r;

    tool->fd = -EBADF;
    if (asked && strcmp(asked, "none") == 0) {
        tool->none = true;
        return 0;
    }
    if (asked && strcmp(asked, "auto") != 0)
        return tool_copy(tool, installer->layers, asked, err);
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (is_program(usual[i])) {
            tool->path = usual[i];
            return 0;
        }
    if (path_search(path)) {
        r = tool_copy(tool, installer->layers, path, err);
        if (r < 0)
            installer_log(installer, LOG_LEVEL_WARNING, "packages: %s", err->msg);
        return 0; /* pip can do it all */
    }
    fetched_name(name);
    (void) tool_use(tool, installer->layers, name);
    return 0;
}

/* ---- fetching it ---- */

static int tool_take(struct installer *installer, struct job *job, struct gb_err *err)
{
    struct tree_room room = { .bytes = FILE_MAX, .files = 1 };
    struct layer_work work = { .fd = -EBADF };
    autoclose int pack = -EBADF;
    char name[80];
    int r = box_open_read(job->box, "packs/tool.pack", &pack, err);

    if (r == 0)
        r = layer_work_begin(installer->layers, &work, err);
    if (r < 0)
        return r;
    r = tree_unpack(pack, work.fd, &room, err);
    if (r < 0) {
        layer_work_abort(&work);
        return r;
    }
    fetched_name(name);
    return tool_publish(&installer->tool, &work, name, err);
}

/* The hash of the wheel was checked in the box, by pip, which had nothing else to do there. */
static bool tool_fetch(struct installer *installer, const struct install_request *request)
{
    const struct install_request own = { .cancel_fd = request->cancel_fd, .watch = request->watch };
    struct job job = { .installer = installer, .request = &own };
    struct fault fault = { 0 };
    struct gb_err err = { 0 };
    bool good;

    job.deadline_us = clock_now_us() + installer->config->timeout_us;
    good =
        installer_box_open(&job, &fault) == 0 &&
        installer_phase(&job, "tool", json_pack("{s:s}", "tool", installer_uv_lock), &fault) == 0;
    if (good && tool_take(installer, &job, &err) < 0) {
        good = false;
        snprintf(fault.detail, sizeof fault.detail, "%.190s", err.msg);
    }
    installer_box_close(&job);
    json_decref(job.result);
    installer_log(installer, LOG_LEVEL_INFO, "packages: uv %s%s",
                  good ? "was fetched" : "could not be fetched, pip is used instead: ",
                  good ? "" : fault.detail);
    return good;
}

void installer_tool_fetch(struct installer *installer, const struct install_request *request)
{
    struct tool *tool = &installer->tool;

    pthread_mutex_lock(&tool->lock);
    if (!tool->none && !tool->path && tool->fd < 0 && installer->pip->index_url &&
        clock_now_us() >= tool->again_us && !tool_fetch(installer, request))
        tool->again_us = clock_now_us() + AGAIN_US;
    pthread_mutex_unlock(&tool->lock);
}

const char *installer_tool_mount(struct installer *installer, struct box *box)
{
    struct tool *tool = &installer->tool;
    struct gb_err err;

    if (tool->none)
        return NULL;
    if (tool->path)
        return tool->path;
    if (tool->fd < 0)
        return NULL;
    if (box_mount_shelf(box, TOOL_SHELF, tool->name, TOOL_PLACE, &err) == 0)
        return BOX_PATH;
    installer_log(installer, LOG_LEVEL_WARNING, "packages: %s", err.msg);
    return NULL;
}
