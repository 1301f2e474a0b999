/*
 * Control groups, the part that does not depend on the version.
 *
 * An engine has a directory `glovebox.<random hex>` in each hierarchy it uses, and the groups of
 * its boxes beneath it. As long as the engine lives, the builder, or the supervisor with a
 * duplicate descriptor, holds flock(LOCK_SH) on that directory. An engine that opens a root checks
 * its neighbours: a directory that can be locked with LOCK_EX belongs to a dead engine, and is
 * removed with everything in it. A process that is cloned without exec must close these
 * descriptors, or its engine seems to be alive.
 *
 * Between mkdir and flock a sweeper may remove a new directory, so its creator checks after locking
 * it whether the directory still has that name.
 *
 * Everything is found by path once, in cgroup_root_open() or cgroup_root_reopen(); after that only
 * directory descriptors are used.
 */
#include "engine/cgroup/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "engine/cgroup/internal.h"

#include "base/banned.h"

#define LOCK_TRIES    200
#define SWEEP_WAIT_US (2 * USEC_PER_SEC)
#define CLOSE_WAIT_US (5 * USEC_PER_SEC)
#define TREE_DEPTH    8

/* ---- finding hierarchies ---- */

bool cgroup_mount_parse(char *line, struct cgroup_mount *ret_mount)
{
    char *fields[6], *tail, *type, *options;
    bool v2;

    line[strcspn(line, "\n")] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        fields[i] = strsep(&line, " ");
        if (!fields[i] || !line)
            return false;
    }
    /* Any number of optional fields, ended by a dash. */
    do {
        tail = strsep(&line, " ");
        if (!tail || !line)
            return false;
    } while (strcmp(tail, "-") != 0);
    type = strsep(&line, " ");
    if (!line || !strsep(&line, " ")) /* the source is of no interest */
        return false;
    options = line;
    v2 = strcmp(type, "cgroup2") == 0;
    if (!options || (!v2 && strcmp(type, "cgroup") != 0))
        return false;
    parse_unescape_mount(fields[3]);
    parse_unescape_mount(fields[4]);
    *ret_mount = (struct cgroup_mount){
        .v2 = v2,
        .root = fields[3],
        .point = fields[4],
        .options = options,
    };
    return true;
}

const char *cgroup_self_parse(char *line, const char *controller)
{
    const char *id, *controllers;

    line[strcspn(line, "\n")] = '\0';
    id = strsep(&line, ":");
    controllers = strsep(&line, ":");
    if (!controllers || !line || line[0] != '/')
        return NULL;
    if (!controller)
        return strcmp(id, "0") == 0 && controllers[0] == '\0' ? line : NULL;
    return cgroup_list_has(controllers, ',', controller) ? line : NULL;
}

static int self_path(const char *controller, char *buf, size_t size)
{
    autofclose FILE *f = fopen("/proc/self/cgroup", "re");
    autofree char *line = NULL;
    size_t cap = 0;

    if (!f)
        return -errno;
    while (getline(&line, &cap, f) > 0) {
        const char *path = cgroup_self_parse(line, controller);
        char *last;

        if (!path)
            continue;
        if (strlen(path) >= size)
            return -ENAMETOOLONG;
        snprintf(buf, size, "%s", path);
        last = strrchr(buf, '/');
        if (strncmp(last + 1, CGROUP_LEAF_PREFIX, strlen(CGROUP_LEAF_PREFIX)) == 0)
            last[last == buf] = '\0'; /* keeps the slash of the root */
        return 0;
    }
    return -ENOENT;
}

static int mount_open(const struct cgroup_mount *mount, const char *own, enum cgroup_place place,
                      int *ret_fd)
{
    const char *below = cgroup_path_below(mount->root, own);
    autoclose int top = open(mount->point, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct statfs fs;

    if (top < 0 || fstatfs(top, &fs) < 0)
        return -errno;
    /* Something else may be mounted over it. */
    if (fs.f_type != (mount->v2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
        return -ENOENT;
    if (place == PLACE_OWN && !below)
        return -ENOENT;
    if (place == PLACE_OWN && below[0] != '\0') {
        int fd = openat(top, below, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
            return -errno;
        *ret_fd = fd;
        return 0;
    }
    *ret_fd = TAKE_FD(top);
    return 0;
}

int cgroup_place_open(const char *controller, enum cgroup_place place, int *ret_fd,
                      unsigned *ret_controllers)
{
    autofclose FILE *f = NULL;
    autofree char *line = NULL;
    char own[PATH_MAX];
    size_t cap = 0;
    int r;

    r = self_path(controller, own, sizeof own);
    if (r < 0)
        return r;
    f = fopen("/proc/self/mountinfo", "re");
    if (!f)
        return -errno;
    r = -ENOENT;
    while (getline(&line, &cap, f) > 0) {
        struct cgroup_mount mount;

        if (!cgroup_mount_parse(line, &mount) || mount.v2 != !controller)
            continue;
        if (controller && !cgroup_list_has(mount.options, ',', controller))
            continue;
        r = mount_open(&mount, own, place, ret_fd);
        if (r == 0) {
            *ret_controllers = cgroup_list_controllers(mount.options, ',');
            return 0;
        }
    }
    return r;
}

/* ---- files ---- */

int cgroup_each_pid(int dir_fd, int (*each)(pid_t pid, void *data), void *data)
{
    autofree pid_t *pids = NULL;
    autofclose FILE *f = NULL;
    size_t n = 0, cap = 0;
    int fd, pid, r = 0;

    fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    f = fdopen(fd, "r");
    if (!f) {
        (void) close(fd);
        return -ENOMEM;
    }
    /* Read to the end first: @each may remove a process from the list. */
    while (fscanf(f, "%d", &pid) == 1) {
        pid_t *grown = grow(pids, &cap, n + 1, sizeof *pids, 64);

        if (!grown)
            return -ENOMEM;
        pids = grown;
        pids[n++] = pid;
    }
    for (size_t i = 0; i < n && r == 0; i++)
        r = each(pids[i], data);
    return r;
}

/* ---- directories ---- */

int cgroup_each_dir(int dir_fd, int (*each)(int dir_fd, const char *name, void *data), void *data)
{
    autoclosedir DIR *dir = NULL;
    const struct dirent *entry;
    int r = dir_open_at(dir_fd, ".", &dir);

    while (r == 0 && (entry = readdir(dir))) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            r = each(dirfd(dir), entry->d_name, data);
    }
    return r;
}

static void sleep_us(int64_t us)
{
    struct timespec ts = { .tv_sec = us / USEC_PER_SEC, .tv_nsec = us % USEC_PER_SEC * 1000 };

    (void) nanosleep(&ts, NULL);
}

int cgroup_rmdir_wait(int parent_fd, const char *name, int64_t deadline_us)
{
    /* The last process is gone for wait() a moment before it leaves the group. */
    for (int64_t pause_us = 100;; pause_us = pause_us < 3200 ? pause_us * 2 : pause_us) {
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY || clock_now_us() >= deadline_us)
            return -errno;
        sleep_us(pause_us);
    }
}

static bool same_dir(int parent_fd, const char *name, int fd)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && fstatat(parent_fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int cgroup_engine_open(int parent_fd, const char *name, bool reopen, int *ret_fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        autoclose int fd = -EBADF;

        /* 0700: others cannot open it and so cannot tamper with its lock. */
        if (!reopen && mkdirat(parent_fd, name, 0700) < 0 && (errno != EEXIST || i == 0))
            return -errno;
        fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (reopen || errno != ENOENT))
            return -errno;
        if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && same_dir(parent_fd, name, fd)) {
            *ret_fd = TAKE_FD(fd);
            return 0;
        }
        sleep_us(1000); /* a sweeper has locked it */
    }
    return -ETIMEDOUT;
}

/* ---- sweeping ---- */

static bool pid_is_in(pid_t pid, const char *engine)
{
    char path[40], text[8192], part[CGROUP_NAME_MAX + 2];

    snprintf(path, sizeof path, "/proc/%d/cgroup", (int) pid);
    snprintf(part, sizeof part, "/%s/", engine);
    return io_read_text_at(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, part);
}

static int pid_kill(pid_t pid, void *data)
{
    autoclose int fd = -EBADF;

    if (pid <= 0)
        return 0;
    /* The pid may belong to another process by now. If the process behind the pidfd still exists
     * when the signal is sent, it also existed when we checked its group. */
    fd = (int) syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && pid_is_in(pid, *(const char **) data))
        (void) syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    return 0;
}

struct tree_clear {
    const char *engine;
    bool kill_all;
    int depth;
    int64_t deadline_us;
};

static int tree_clear_one(int dir_fd, const char *name, void *data)
{
    struct tree_clear clear = *(struct tree_clear *) data;
    autoclose int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || clear.depth-- == 0)
        return 0;
    if (clear.kill_all)
        (void) cgroup_each_pid(fd, pid_kill, &clear.engine);
    (void) cgroup_each_dir(fd, tree_clear_one, &clear);
    (void) cgroup_rmdir_wait(dir_fd, name, clear.deadline_us);
    return 0;
}

static void sweep_engine(int parent_fd, const char *name)
{
    autoclose int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    /* Twice: a process may have forked between the listing and the kill. */
    for (int i = 0; i < 2; i++) {
        struct tree_clear clear = {
            .engine = name,
            .kill_all = true,
            .depth = TREE_DEPTH,
            .deadline_us = clock_now_us() + SWEEP_WAIT_US,
        };

        (void) io_write_text_at(fd, "cgroup.kill", "1");
        (void) cgroup_each_dir(fd, tree_clear_one, &clear);
        if (cgroup_rmdir_wait(parent_fd, name, 0) == 0)
            return;
    }
}

static int sweep_one(int parent_fd, const char *name, void *own_name)
{
    if (strcmp(name, own_name) == 0)
        return 0;
    if (cgroup_engine_name_ok(name))
        sweep_engine(parent_fd, name);
    else if (cgroup_leaf_name_ok(name)) /* processes in a leaf do not belong to a box */
        (void) unlinkat(parent_fd, name, AT_REMOVEDIR);
    return 0;
}

/* ---- the root ---- */

void cgroup_note(struct cgroup_root *root, const char *fmt, ...)
{
    size_t used = strlen(root->note);
    va_list ap;

    if (used > 0 && used + 3 < sizeof root->note) {
        snprintf(root->note + used, sizeof root->note - used, "; ");
        used += 2;
    }
    va_start(ap, fmt);
    vsnprintf(root->note + used, sizeof root->note - used, fmt, ap);
    va_end(ap);
}

int cgroup_name_draw(char *buf, size_t size)
{
    uint64_t number;

    if (getrandom(&number, sizeof number, 0) != (ssize_t) sizeof number)
        return -EIO;
    snprintf(buf, size, CGROUP_ENGINE_PREFIX "%016" PRIx64, number);
    return 0;
}

static void hiers_release(struct cgroup_root *root)
{
    for (int i = 0; i < CGROUP_FDS_MAX; i++) {
        gb_closep(&root->hiers[i].parent_fd);
        gb_closep(&root->hiers[i].engine_fd);
        root->hiers[i] = (struct cgroup_hier){ .parent_fd = -EBADF, .engine_fd = -EBADF };
    }
    root->n_hiers = 0;
}

static void root_remove(struct cgroup_root *root)
{
    for (int i = 0; i < root->n_hiers; i++) {
        const struct cgroup_hier *hier = &root->hiers[i];
        struct tree_clear clear = { .depth = 1, .deadline_us = clock_now_us() + CLOSE_WAIT_US };

        (void) cgroup_each_dir(hier->engine_fd, tree_clear_one, &clear);
        (void) cgroup_rmdir_wait(hier->parent_fd, root->name, clear.deadline_us);
    }
    root->ops->close(root);
}

static int root_try(struct cgroup_root *root, const struct cgroup_ops *ops, bool reopen,
                    struct gb_err *err)
{
    int r;

    root->ops = ops;
    root->note[0] = '\0';
    r = ops->open(root, reopen, err);
    if (r == 0)
        return 0;
    /* Directories that another builder created are not ours to remove. */
    if (!reopen)
        root_remove(root);
    hiers_release(root);
    return r;
}

static const char *advice(int v2, int v1)
{
    if (v2 == EACCES || v2 == EPERM || v2 == EBUSY)
        return "start it as `systemd-run --user --scope -p Delegate=yes glovebox ...`";
    if (v2 == EROFS || v1 == EROFS)
        return "mount the cgroup file system writable in this container";
    if (v1 == EACCES || v1 == EPERM)
        return "start it as root, or have root create a cgroup for this user in every v1 hierarchy";
    return "mount cgroup v2 with the memory and pids controllers (kernel parameter "
           "cgroup_enable=memory)";
}

static int root_choose(struct cgroup_root *root, enum cgroup_mode wanted, bool reopen,
                       struct gb_err *err)
{
    struct gb_err v2 = { 0 }, v1 = { 0 };
    int r;

    if (wanted == CGROUP_OFF)
        return root_try(root, &cgroup_none_ops, reopen, err);
    if (wanted != CGROUP_V1 && root_try(root, &cgroup_v2_ops, reopen, &v2) == 0)
        return 0;
    if (wanted == CGROUP_V2)
        return gb_fail_plain(err, v2.code, "cgroup v2 cannot be used: %s", v2.msg);
    if (root_try(root, &cgroup_v1_ops, reopen, &v1) == 0)
        return 0;
    if (wanted == CGROUP_V1)
        return gb_fail_plain(err, v1.code, "cgroup v1 cannot be used: %s", v1.msg);
    if (reopen)
        return gb_fail_plain(err, v2.code, "no cgroup of engine '%s' is left", root->name);
    r = root_try(root, &cgroup_none_ops, false, err);
    cgroup_note(root, "no control groups (v2: %s; v1: %s): %s", v2.msg, v1.msg,
                advice(v2.code, v1.code));
    return r;
}

static int root_open(enum cgroup_mode wanted, const char *name, struct cgroup_root **ret_root,
                     struct gb_err *err)
{
    struct cgroup_root *root = calloc(1, sizeof *root);
    int r;

    if (!root)
        return gb_fail(err, ENOMEM, "open control groups");
    for (int i = 0; i < CGROUP_FDS_MAX; i++)
        root->hiers[i] = (struct cgroup_hier){ .parent_fd = -EBADF, .engine_fd = -EBADF };
    if (name)
        snprintf(root->name, sizeof root->name, "%s", name);
    else if (cgroup_name_draw(root->name, sizeof root->name) < 0) {
        free(root);
        return gb_fail(err, EIO, "generate a random name");
    }
    r = root_choose(root, wanted, name != NULL, err);
    if (r < 0) {
        free(root);
        return r;
    }
    for (int i = 0; i < root->n_hiers; i++)
        (void) cgroup_each_dir(root->hiers[i].parent_fd, sweep_one, root->name);
    *ret_root = root;
    return 0;
}

int cgroup_root_open(enum cgroup_mode wanted, struct cgroup_root **ret_root, struct gb_err *err)
{
    return root_open(wanted, NULL, ret_root, err);
}

int cgroup_root_reopen(enum cgroup_mode mode, const char *name, struct cgroup_root **ret_root,
                       struct gb_err *err)
{
    if (!cgroup_engine_name_ok(name))
        return gb_fail_plain(err, EINVAL, "'%.64s' is not a valid name for an engine's cgroup",
                             name);
    return root_open(mode, name, ret_root, err);
}

void cgroup_root_close(struct cgroup_root *root)
{
    if (!root)
        return;
    root_remove(root);
    hiers_release(root);
    while (root->seen) {
        struct cgroup_seen *next = root->seen->next;

        free(root->seen);
        root->seen = next;
    }
    free(root);
}

enum cgroup_mode cgroup_root_mode(const struct cgroup_root *root)
{
    return root->ops->mode;
}

const char *cgroup_root_note(const struct cgroup_root *root)
{
    return root->note;
}

const char *cgroup_root_name(const struct cgroup_root *root)
{
    return root->name;
}

int cgroup_root_lock_fds(const struct cgroup_root *root, int ret_fds[CGROUP_FDS_MAX])
{
    for (int i = 0; i < root->n_hiers; i++)
        ret_fds[i] = root->hiers[i].engine_fd;
    return root->n_hiers;
}

/* ---- one group ---- */

static bool box_name_ok(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len < CGROUP_NAME_MAX && name[0] != '.' && !strchr(name, '/') &&
           !strchr(name, '\n') && strncmp(name, "cgroup.", 7) != 0;
}

static struct cgroup_seen *seen_find(const struct cgroup_root *root, const char *name)
{
    struct cgroup_seen *seen = root->seen;

    while (seen && strcmp(seen->name, name) != 0)
        seen = seen->next;
    return seen;
}

static int seen_add(struct cgroup_root *root, const char *name)
{
    struct cgroup_seen *seen = calloc(1, sizeof *seen);

    if (!seen)
        return -ENOMEM;
    snprintf(seen->name, sizeof seen->name, "%s", name);
    seen->next = root->seen;
    root->seen = seen;
    return 0;
}

static void seen_drop(struct cgroup_root *root, const char *name)
{
    for (struct cgroup_seen **at = &root->seen; *at; at = &(*at)->next) {
        struct cgroup_seen *seen = *at;

        if (strcmp(seen->name, name) == 0) {
            *at = seen->next;
            free(seen);
            return;
        }
    }
}

static void cg_init(struct cgroup *cg, const char *name)
{
    memset(cg, 0, sizeof *cg);
    snprintf(cg->name, sizeof cg->name, "%s", name);
    for (int i = 0; i < CGROUP_FDS_MAX; i++)
        cg->dir_fds[i] = -EBADF;
}

/* Closes the descriptors, and removes the first @made directories. */
static void cg_undo(struct cgroup_root *root, struct cgroup *cg, int made)
{
    for (int i = 0; i < CGROUP_FDS_MAX; i++) {
        gb_closep(&cg->dir_fds[i]);
        cg->dir_fds[i] = -EBADF;
    }
    for (int i = 0; i < made; i++)
        (void) unlinkat(root->hiers[i].engine_fd, cg->name, AT_REMOVEDIR);
    seen_drop(root, cg->name);
}

static int cg_open_dirs(struct cgroup_root *root, struct cgroup *cg, struct gb_err *err)
{
    for (int i = 0; i < root->n_hiers; i++) {
        cg->dir_fds[i] = openat(root->hiers[i].engine_fd, cg->name,
                                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (cg->dir_fds[i] < 0)
            return gb_fail(err, errno, "open cgroup '%s'", cg->name);
    }
    return 0;
}

int cgroup_make(struct cgroup_root *root, const char *name, const struct limits *limits,
                struct cgroup *ret_cg, struct gb_err *err)
{
    struct cgroup cg;
    int made = 0, r;

    if (!box_name_ok(name))
        return gb_fail_plain(err, EINVAL, "'%.64s' is not a valid name for a cgroup", name);
    if (seen_find(root, name))
        return gb_fail(err, EEXIST, "create cgroup '%s'", name);
    cg_init(&cg, name);
    if (seen_add(root, name) < 0)
        return gb_fail(err, ENOMEM, "create cgroup '%s'", name);
    for (; made < root->n_hiers; made++) {
        if (mkdirat(root->hiers[made].engine_fd, name, 0755) < 0) {
            r = gb_fail(err, errno, "create cgroup '%s'", name);
            cg_undo(root, &cg, made);
            return r;
        }
    }
    r = cg_open_dirs(root, &cg, err);
    if (r == 0)
        r = root->ops->limit(root, &cg, limits, err);
    if (r < 0) {
        cg_undo(root, &cg, made);
        return r;
    }
    *ret_cg = cg;
    return 0;
}

int cgroup_adopt(struct cgroup_root *root, const char *name, struct cgroup *ret_cg,
                 struct gb_err *err)
{
    struct cgroup cg;
    int r;

    if (!box_name_ok(name))
        return gb_fail_plain(err, EINVAL, "'%.64s' is not a valid name for a cgroup", name);
    cg_init(&cg, name);
    if (!seen_find(root, name) && seen_add(root, name) < 0)
        return gb_fail(err, ENOMEM, "open cgroup '%s'", name);
    r = cg_open_dirs(root, &cg, err);
    if (r < 0) {
        cg_undo(root, &cg, 0);
        return r;
    }
    *ret_cg = cg;
    return 0;
}

int cgroup_clone_fd(const struct cgroup_root *root, const struct cgroup *cg)
{
    return root->ops->clone_into ? cg->dir_fds[0] : -EBADF;
}

int cgroup_open_procs(const struct cgroup_root *root, const struct cgroup *cg,
                      int ret_fds[CGROUP_FDS_MAX], struct gb_err *err)
{
    int fds[CGROUP_FDS_MAX];

    if (root->ops->clone_into)
        return 0;
    for (int i = 0; i < root->n_hiers; i++) {
        /* Not cgroup.procs: to move whole processes the kernel stops all forks and exits, and after
         * an idle period it waits for an RCU grace period first. A thread that moves itself (5.5
         * and later) needs neither, and the processes that move here have one thread. */
        fds[i] = openat(cg->dir_fds[i], "tasks", O_WRONLY | O_CLOEXEC);
        if (fds[i] < 0) {
            int r = gb_fail(err, errno, "open the process list of cgroup '%s'", cg->name);

            while (i > 0)
                (void) close(fds[--i]);
            return r;
        }
    }
    memcpy(ret_fds, fds, (size_t) root->n_hiers * sizeof *fds);
    return root->n_hiers;
}

/* If the kernel records no peak, the highest value that we saw is used. */
static void usage_track(struct cgroup_seen *seen, struct cgroup_usage *usage)
{
    if (usage->memory_peak_bytes < 0 && usage->memory_bytes >= 0) {
        if (usage->memory_bytes > seen->memory_bytes)
            seen->memory_bytes = usage->memory_bytes;
        usage->memory_peak_bytes = seen->memory_bytes;
    }
    if (usage->pids_peak < 0 && usage->pids >= 0) {
        if (usage->pids > seen->pids)
            seen->pids = usage->pids;
        usage->pids_peak = seen->pids;
    }
}

int cgroup_usage(const struct cgroup_root *root, const struct cgroup *cg,
                 struct cgroup_usage *ret_usage)
{
    struct cgroup_usage usage = { -1, -1, -1, -1, -1, -1, -1, -1 };
    struct cgroup_seen *seen;
    int r;

    r = root->ops->usage(root, cg, &usage);
    if (r < 0)
        return r;
    seen = seen_find(root, cg->name);
    if (seen)
        usage_track(seen, &usage);
    *ret_usage = usage;
    return 0;
}

int cgroup_remove(struct cgroup_root *root, struct cgroup *cg, int64_t wait_us)
{
    int64_t deadline_us = clock_now_us() + wait_us;
    int r = 0;

    for (int i = 0; i < root->n_hiers; i++) {
        int s = cgroup_rmdir_wait(root->hiers[i].engine_fd, cg->name, deadline_us);

        if (s < 0 && r == 0)
            r = s;
    }
    /* Directories that could not be removed are tried again when the root is closed. */
    cg_undo(root, cg, 0);
    return r;
}
