/*
 * The supervisor's side of workspaces on disk: which kind this host supports, and the watch over
 * those whose quota the kernel does not enforce.
 *
 * The watch measures a workspace before, during and after each run, and when a file is put into it.
 * Walking through a large tree takes long, so between two measurements it asks the file system how
 * much is free: as long as that has not changed much, the last measurement is used, for a second. A
 * run may use the quota, or as much as there was when it began if that is more: so in a session
 * that has too much, a program can still delete files.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/shared/caller.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

#define LOOK_BYTES    (INT64_C(1) << 20) /* if this much less is free, look again */
#define LOOK_INODES   256
#define LOOK_US       (1 * USEC_PER_SEC)
#define LOOK_REST     10 /* a look may take this fraction of our time */
#define OVERSHOOT_MIN (INT64_C(16) << 20)
#define START_US      (2 * USEC_PER_SEC)
#define SWEEP_ROUNDS  100000

struct disk {
    enum disk_kind kind;
    char note[200];
    char *path;
    int dir;
    struct disk_images *images;
    bool rubbish; /* leftovers of dead engines remain; atomic */
};

/* Of a watched box. */
struct disk_watch {
    pthread_mutex_t lock;
    struct disk_usage usage; /* at the last look */
    int64_t free_bytes, free_inodes;
    int64_t looked_us, took_us;
};

/* ---- opening ---- */

/* In memory, and lost at a reboot: not what was asked for. */
static bool is_memory(const struct statfs *fs)
{
    return fs->f_type == TMPFS_MAGIC || fs->f_type == RAMFS_MAGIC || fs->f_type == HUGETLBFS_MAGIC;
}

static int directory_open(const char *path, int *ret_fd, struct gb_err *err)
{
    autoclose int fd = -EBADF, try = -EBADF;
    struct statfs fs;
    struct stat st;

    if (path[0] != '/' || strlen(path) >= WIRE_PATH_MAX)
        return gb_fail_plain(err, EINVAL, "the directory for workspaces must be an absolute path");
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return gb_fail(err, errno, "create the directory for workspaces '%.100s'", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return gb_fail(err, errno, "open the directory for workspaces '%.100s'", path);
    if (st.st_uid != geteuid() || st.st_mode & 077)
        return gb_fail_plain(
            err, EPERM,
            "the directory for workspaces must be owned by this user and private to it: "
            "chmod 700 '%.100s'",
            path);
    if (is_memory(&fs))
        return gb_fail_plain(err, EINVAL,
                             "the directory for workspaces '%.100s' is in memory: "
                             "choose one on disk",
                             path);
    try = openat(fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (try < 0)
        return gb_fail_about(
            err, errno, "the file system of '%.100s' cannot hold workspaces (O_TMPFILE)", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static void choose_kind(struct disk *disk, enum disk_kind wanted)
{
    struct gb_err err = { 0 };

    disk->kind = DISK_WATCHED;
    if (wanted == DISK_WATCHED)
        snprintf(disk->note, sizeof disk->note, "watched, as configured");
    else if (geteuid() != 0 || !caller_is_privileged())
        snprintf(disk->note, sizeof disk->note, "only root can mount images");
    else if (disk_images_open(disk->dir, &disk->images, &err) < 0)
        snprintf(disk->note, sizeof disk->note, "%s", err.msg);
    else
        disk->kind = DISK_IMAGE;
}

int disk_open(const char *path, enum disk_kind wanted, struct disk **ret_disk, struct gb_err *err)
{
    struct disk *disk;
    int r;

    if (!path) {
        *ret_disk = NULL;
        return 0;
    }
    disk = calloc(1, sizeof *disk);
    if (!disk || !(disk->path = strdup(path))) {
        free(disk);
        return gb_fail(err, ENOMEM, "keep workspaces on disk");
    }
    disk->dir = -EBADF;
    r = directory_open(path, &disk->dir, err);
    if (r == 0)
        choose_kind(disk, wanted);
    if (r == 0 && wanted == DISK_IMAGE && disk->kind != DISK_IMAGE)
        r = gb_fail_plain(err, ENOTSUP, "images cannot be used here: %.150s", disk->note);
    if (r < 0) {
        disk_close(disk);
        return r;
    }
    *ret_disk = disk;
    return 0;
}

void disk_close(struct disk *disk)
{
    if (!disk)
        return;
    disk_images_close(disk->images);
    gb_closep(&disk->dir);
    free(disk->path);
    free(disk);
}

enum disk_kind disk_kind_of(const struct disk *disk)
{
    return disk ? disk->kind : DISK_NONE;
}

const char *disk_path(const struct disk *disk)
{
    return disk ? disk->path : "";
}

const char *disk_note(const struct disk *disk)
{
    return disk ? disk->note : "";
}

/* ---- trash ---- */

static void sweep(struct engine *engine, struct disk *disk, int64_t until_us)
{
    struct builder_request request = { .op = BUILDER_SWEEP };
    struct builder_reply reply;
    struct gb_err ignored;

    for (int i = 0; i < SWEEP_ROUNDS && clock_now_us() < until_us; i++) {
        if (engine_call(engine, &request, NULL, 0, &reply, NULL, NULL, &ignored) < 0)
            return;
        __atomic_store_n(&disk->rubbish, reply.usage.files_incomplete != 0, __ATOMIC_RELAXED);
        if (!reply.usage.files_incomplete)
            return;
    }
}

void disk_sweep_start(struct engine *engine, struct disk *disk)
{
    if (disk)
        sweep(engine, disk, clock_now_us() + START_US);
}

void disk_sweep_box(struct box *box)
{
    struct disk *disk = engine_get_disk(box->engine);

    if (disk && box->disk != DISK_NONE &&
        (box->disk == DISK_WATCHED || __atomic_load_n(&disk->rubbish, __ATOMIC_RELAXED)))
        sweep(box->engine, disk, INT64_MAX);
}

/* ---- boxes ---- */

int disk_prepare(struct disk *disk, const struct limits *limits, int *ret_mount, struct gb_err *err)
{
    struct statfs fs;
    int64_t room;

    if (!disk)
        return gb_fail_plain(err, EINVAL, "this engine has no directory for workspaces on disk");
    if (fstatfs(disk->dir, &fs) < 0)
        return gb_fail(err, errno, "inspect the directory for workspaces");
    room = (int64_t) fs.f_bavail * fs.f_bsize;
    if (limits->disk_bytes > room)
        return gb_fail_plain(err, ENOSPC,
                             "a workspace of %lld MiB was requested, but only %lld MiB are free "
                             "in '%.80s'",
                             (long long) (limits->disk_bytes >> 20), (long long) (room >> 20),
                             disk->path);
    return disk->kind == DISK_IMAGE ? disk_image_make(disk->images, limits->disk_bytes,
                                                      limits->disk_inodes, ret_mount, err)
                                    : 0;
}

int disk_watch_new(struct disk_watch **ret_watch)
{
    struct disk_watch *watch = calloc(1, sizeof *watch);

    if (!watch)
        return -ENOMEM;
    pthread_mutex_init(&watch->lock, NULL);
    *ret_watch = watch;
    return 0;
}

void disk_watch_free(struct disk_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

int64_t disk_slack(const struct box *box)
{
    return box->disk == DISK_IMAGE ? disk_image_slack(box->limits.disk_bytes) : 0;
}

/* ---- the watch ---- */

/* We look ourselves; the builder does if we lack permission. */
static int usage_take(struct box *box, struct disk_usage *ret_usage, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_DISK, .box = box->id };
    struct builder_reply reply;
    struct disk_usage usage;
    int r = disk_count_box(box->root, &box->limits, &usage);

    if (r == 0 && !usage.denied) {
        *ret_usage = usage;
        return 0;
    }
    r = engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, err);
    if (r < 0)
        return r;
    *ret_usage = (struct disk_usage){
        .bytes = reply.disk.bytes,
        .inodes = reply.disk.inodes,
        .deep = reply.disk.deep != 0,
    };
    return 0;
}

/* Whether the last look is recent enough. */
static bool still_holds(const struct disk_watch *watch, int64_t now, int64_t free_bytes,
                        int64_t free_inodes)
{
    int64_t age = now - watch->looked_us;

    if (watch->looked_us == 0)
        return false;
    if (age < watch->took_us * LOOK_REST)
        return true;
    return age < LOOK_US && watch->free_bytes - free_bytes < LOOK_BYTES &&
           watch->free_inodes - free_inodes < LOOK_INODES;
}

/* The usage of the workspace; -errno if it is unknown, which counts as too much. */
static int look(struct box *box, bool anew, struct disk_usage *ret_usage, struct gb_err *err)
{
    struct disk_watch *watch = box->disk_watch;
    autoclose int dir = openat(box->root, "workspace", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct statfs fs = { 0 };
    int64_t now = clock_now_us(), free_bytes, free_inodes;
    int r = 0;

    if (dir >= 0)
        (void) fstatfs(dir, &fs);
    free_bytes = (int64_t) fs.f_bfree * fs.f_bsize;
    free_inodes = (int64_t) fs.f_ffree;
    pthread_mutex_lock(&watch->lock);
    if (anew || !still_holds(watch, now, free_bytes, free_inodes)) {
        r = usage_take(box, &watch->usage, err);
        watch->looked_us = clock_now_us();
        watch->took_us = watch->looked_us - now;
        watch->free_bytes = free_bytes;
        watch->free_inodes = free_inodes;
    }
    *ret_usage = watch->usage;
    pthread_mutex_unlock(&watch->lock);
    return r;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int disk_allow(struct box *box, struct disk_allowance *ret_allowance, struct gb_err *err)
{
    const struct limits *limits = &box->limits;
    struct disk_usage usage;
    int r;

    if (!box->disk_watch)
        return 0;
    r = look(box, false, &usage, err);
    if (r < 0)
        return r;
    ret_allowance->bytes = larger(limits->disk_bytes, usage.bytes);
    ret_allowance->inodes = larger(limits->disk_inodes, usage.inodes);
    return 0;
}

enum disk_verdict disk_check(struct box *box, const struct disk_allowance *allowance, bool last,
                             enum limit_kind *ret_limit)
{
    struct disk_usage usage;
    struct gb_err ignored;

    if (!box->disk_watch)
        return DISK_FITS;
    if (look(box, last, &usage, &ignored) < 0 || usage.deep || usage.inodes > allowance->inodes)
        *ret_limit = LIMIT_DISK_INODES;
    else if (usage.bytes > allowance->bytes)
        *ret_limit = LIMIT_DISK_BYTES;
    else
        return DISK_FITS;
    return usage.bytes > allowance->bytes + larger(allowance->bytes / 4, OVERSHOOT_MIN)
               ? DISK_BURSTS
               : DISK_OVER;
}

int disk_room(struct box *box, int64_t more_bytes, struct gb_err *err)
{
    struct disk_usage usage;
    int r;

    if (!box->disk_watch)
        return 0;
    r = look(box, false, &usage, err);
    if (r < 0)
        return r;
    if (usage.deep || usage.inodes >= box->limits.disk_inodes ||
        usage.bytes + more_bytes > box->limits.disk_bytes)
        return gb_fail_about(err, ENOSPC, "the workspace is full");
    return 0;
}
