/*
 * Control groups v2: one hierarchy, and one rule that shapes all of this: a group with processes in
 * it cannot enable controllers for its children (except the root).
 *
 * Places, in order: our own group if it was delegated to us, then the root of the mount, which only
 * root may change, then the nearest group above ours that is delegated to us too. In our own group
 * we are usually the process that is in the way. If no other process is, we move into a leaf
 * `glovebox.self.<hex>` beneath it, enable the controllers for its children, and move back when the
 * engine is closed. The layout is then
 *
 *     own group                  subtree_control: memory pids cpu
 *     ├── glovebox.self.<hex>    builder, supervisor, templates
 *     └── glovebox.<hex>         subtree_control: memory pids cpu
 *         ├── <box>
 *         └── <box>
 *
 * In a group that we share with others, such as the shell that started us, no process is moved.
 * systemd delegates the whole tree of a user's manager to the user, so the slice above a scope is
 * just as good: it has no processes, and the scope's group becomes a sibling of the engine's.
 *
 * A rootless builder cannot see its supervisor from its PID namespace, and cannot move processes
 * that it does not see. So the process that creates that namespace moves them before
 * (cgroup_step_aside), and back at the end: it outlives the builder.
 *
 * A box's first process is created in its group with CLONE_INTO_CGROUP; no process ever moves
 * there.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "engine/cgroup/internal.h"

#include "base/banned.h"

#define MOVES_MAX       3 /* a process of ours may fork while it is being moved */
#define LEAF_WAIT_US    (100 * USEC_PER_MSEC)
#define V2_REQUIRED     (CG_MEMORY | CG_PIDS)
#define V2_WANTED       (V2_REQUIRED | CG_CPU)
#define SUBTREE_CONTROL "cgroup.subtree_control"

/* ---- controllers ---- */

static unsigned v2_list(int dir_fd, const char *file)
{
    char text[512];

    if (io_read_text_at(dir_fd, file, text, sizeof text) < 0)
        return 0;
    return cgroup_list_controllers(text, ' ');
}

/* Enables @wanted for the children, all or nothing; controllers already enabled need no write. */
static int v2_enable(int dir_fd, unsigned wanted)
{
    unsigned missing = wanted & ~v2_list(dir_fd, SUBTREE_CONTROL);
    char text[64];

    if (missing == 0)
        return 0;
    snprintf(text, sizeof text, "%s%s%s", missing & CG_MEMORY ? "+memory " : "",
             missing & CG_PIDS ? "+pids " : "", missing & CG_CPU ? "+cpu" : "");
    return io_write_text_at(dir_fd, SUBTREE_CONTROL, text);
}

static int v2_disable(int dir_fd)
{
    unsigned on = v2_list(dir_fd, SUBTREE_CONTROL);
    char text[64];

    snprintf(text, sizeof text, "%s%s%s", on & CG_MEMORY ? "-memory " : "",
             on & CG_PIDS ? "-pids " : "", on & CG_CPU ? "-cpu" : "");
    return io_write_text_at(dir_fd, SUBTREE_CONTROL, text);
}

/* ---- the leaf ---- */

static void leaf_name(const char *engine, char *buf, size_t size)
{
    snprintf(buf, size, CGROUP_LEAF_PREFIX "%s", engine + strlen(CGROUP_ENGINE_PREFIX));
}

static pid_t parent_of(pid_t pid)
{
    char path[40], text[1024];
    const char *p;
    int parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int) pid);
    if (io_read_text_at(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    /* The name in parentheses may contain anything, so look for the last parenthesis. */
    p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %*c %d", &parent) != 1)
        return 0;
    return parent;
}

static bool is_ancestor(pid_t pid)
{
    pid_t p = getppid();

    for (int depth = 0; p > 0 && depth < 64; depth++) {
        if (p == pid)
            return true;
        p = parent_of(p);
    }
    return false;
}

static bool runs_our_program(pid_t pid)
{
    struct stat ours, theirs;
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/exe", (int) pid);
    return stat("/proc/self/exe", &ours) == 0 && stat(path, &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Only ourselves and those that started us as part of the same program; a shell is not ours. */
static int pid_check_ours(pid_t pid, void *data)
{
    (void) data;
    if (pid == getpid() || (is_ancestor(pid) && runs_our_program(pid)))
        return 0;
    return -EBUSY;
}

static int pid_move(pid_t pid, void *data)
{
    int r;

    if (pid <= 0)
        return 0; /* not visible in our PID namespace; and 0 would mean ourselves */
    r = cgroup_write_int(*(int *) data, "cgroup.procs", pid);
    return r == -ESRCH ? 0 : r;
}

static int leaf_enter(const char *engine, int parent_fd)
{
    autoclose int fd = -EBADF;
    char name[CGROUP_NAME_MAX];
    int r;

    r = cgroup_each_pid(parent_fd, pid_check_ours, NULL);
    if (r < 0)
        return r;
    leaf_name(engine, name, sizeof name);
    if (mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return cgroup_each_pid(parent_fd, pid_move, &fd);
}

static int pid_is_hidden(pid_t pid, void *data)
{
    (void) data;
    return pid <= 0;
}

static int leaf_leave(int parent_fd, const char *name, void *data)
{
    autoclose int fd = -EBADF;

    (void) data;
    if (!cgroup_leaf_name_ok(name))
        return 0;
    fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && cgroup_each_pid(fd, pid_is_hidden, NULL) > 0)
        return 0; /* for a process that can see all of them */
    /* Controllers were enabled only after a process had moved to a leaf, so they may be disabled.
     * The kernel refuses while another engine needs them: then that engine cleans up. */
    if (fd < 0 || v2_disable(parent_fd) < 0)
        return -EBUSY;
    (void) cgroup_each_pid(fd, pid_move, &parent_fd);
    (void) cgroup_rmdir_wait(parent_fd, name, clock_now_us() + LEAF_WAIT_US);
    return 0;
}

/* ---- opening ---- */

static int v2_hand_down(const char *engine, int parent_fd, struct gb_err *err)
{
    int r = v2_enable(parent_fd, V2_REQUIRED);

    for (int i = 0; r == -EBUSY && i < MOVES_MAX; i++) {
        r = leaf_enter(engine, parent_fd);
        if (r == -EBUSY)
            return gb_fail_plain(err, EBUSY, "other processes share our cgroup");
        if (r < 0)
            return gb_fail(err, -r, "move into a leaf of our cgroup");
        r = v2_enable(parent_fd, V2_REQUIRED);
    }
    if (r < 0)
        return gb_fail(err, -r, "delegate the memory and pids controllers");
    return 0;
}

static int v2_check_place(int parent_fd, struct gb_err *err)
{
    unsigned has = v2_list(parent_fd, "cgroup.controllers");

    if ((has & V2_REQUIRED) != V2_REQUIRED)
        return gb_fail_plain(err, ENOTSUP, "our cgroup does not have the %s controller",
                             has & CG_MEMORY ? "pids" : "memory");
    if (faccessat(parent_fd, ".", W_OK, AT_EACCESS) < 0 ||
        faccessat(parent_fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
        return gb_fail_about(err, errno, "our cgroup is not delegated to this user");
    return 0;
}

static int v2_prepare(struct cgroup_root *root, int parent_fd, struct gb_err *err)
{
    struct cgroup_hier *hier = &root->hiers[0];
    int r;

    r = v2_hand_down(root->name, parent_fd, err);
    if (r < 0)
        return r;
    (void) v2_enable(parent_fd, CG_CPU);
    r = cgroup_engine_open(parent_fd, root->name, false, &hier->engine_fd);
    if (r < 0)
        return gb_fail(err, -r, "create a cgroup");
    r = v2_enable(hier->engine_fd, V2_REQUIRED);
    if (r < 0)
        return gb_fail(err, -r, "delegate controllers to the engine's cgroup");
    (void) v2_enable(hier->engine_fd, CG_CPU);
    return 0;
}

static void v2_undo(struct cgroup_root *root, int parent_fd)
{
    struct cgroup_hier *hier = &root->hiers[0];

    if (hier->engine_fd >= 0) {
        (void) unlinkat(parent_fd, root->name, AT_REMOVEDIR);
        (void) close(TAKE_FD(hier->engine_fd));
    }
    (void) cgroup_each_dir(parent_fd, leaf_leave, NULL);
}

/* Consumes @parent_fd when it succeeds. */
static int v2_try_at(struct cgroup_root *root, int *parent_fd, bool reopen, struct gb_err *err)
{
    struct cgroup_hier *hier = &root->hiers[0];
    int r;

    r = v2_check_place(*parent_fd, err);
    if (r < 0)
        return r;
    if (reopen) {
        r = cgroup_engine_open(*parent_fd, root->name, true, &hier->engine_fd);
        if (r < 0)
            return gb_fail(err, -r, "open the cgroup of this engine");
    } else {
        r = v2_prepare(root, *parent_fd, err);
        if (r < 0) {
            v2_undo(root, *parent_fd);
            return r;
        }
    }
    hier->controllers = v2_list(hier->engine_fd, SUBTREE_CONTROL) & V2_WANTED;
    hier->parent_fd = TAKE_FD(*parent_fd);
    root->n_hiers = 1;
    if (!(hier->controllers & CG_CPU))
        cgroup_note(root, "cgroup v2 without the cpu controller: the CPU share is not limited");
    return 0;
}

static int v2_try(struct cgroup_root *root, enum cgroup_place place, bool reopen,
                  struct gb_err *err)
{
    autoclose int parent_fd = -EBADF;
    unsigned unused;
    int r;

    r = cgroup_place_open(NULL, place, &parent_fd, &unused);
    if (r == -ENOENT)
        return gb_fail_plain(err, ENOENT, "the hierarchy is not mounted");
    if (r < 0)
        return gb_fail(err, -r, "open our cgroup");
    return v2_try_at(root, &parent_fd, reopen, err);
}

/* The groups above ours, upwards, as far as the mount shows them. */
static int v2_try_above(struct cgroup_root *root, bool reopen)
{
    autoclose int fd = -EBADF;
    unsigned unused;
    int r;

    r = cgroup_place_open(NULL, PLACE_OWN, &fd, &unused);
    if (r < 0)
        return r;
    for (;;) {
        struct statfs fs;
        int above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (above < 0)
            return -errno;
        (void) close(fd);
        fd = above;
        if (fstatfs(fd, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
            return -ENOENT; /* that was the root of the mount */
        if (v2_try_at(root, &fd, reopen, NULL) == 0)
            return 0;
    }
}

static int v2_open(struct cgroup_root *root, bool reopen, struct gb_err *err)
{
    int r = v2_try(root, PLACE_OWN, reopen, err);

    /* The error about our own group is the better message: the others are rarely delegated to
     * us. */
    if (r < 0 && (v2_try(root, PLACE_TOP, reopen, NULL) == 0 || v2_try_above(root, reopen) == 0))
        return 0;
    return r;
}

int cgroup_step_aside(void)
{
    autoclose int parent_fd = -EBADF;
    char name[CGROUP_NAME_MAX];
    unsigned unused;
    int r;

    r = cgroup_place_open(NULL, PLACE_OWN, &parent_fd, &unused);
    if (r == 0)
        r = v2_check_place(parent_fd, NULL);
    if (r == 0)
        r = cgroup_name_draw(name, sizeof name);
    if (r < 0)
        return r;
    r = v2_hand_down(name, parent_fd, NULL);
    if (r < 0) {
        cgroup_step_back(parent_fd);
        return r;
    }
    return TAKE_FD(parent_fd);
}

void cgroup_step_back(int parent_fd)
{
    (void) cgroup_each_dir(parent_fd, leaf_leave, NULL);
}

/* At the root there is no leaf, and the controllers stay enabled: others may use them too. */
static void v2_close(struct cgroup_root *root)
{
    if (root->n_hiers > 0)
        (void) cgroup_each_dir(root->hiers[0].parent_fd, leaf_leave, NULL);
}

/* ---- one group ---- */

/* For files that not every kernel has. */
static int v2_write_if_there(int dir_fd, const char *file, int64_t value)
{
    int r = cgroup_write_int(dir_fd, file, value);

    return r == -ENOENT ? 0 : r;
}

static int v2_limit_cpu(int dir_fd, int64_t milli)
{
    char text[64];

    snprintf(text, sizeof text, "%" PRId64 " %" PRId64, milli * CGROUP_PERIOD_US / 1000,
             CGROUP_PERIOD_US);
    return io_write_text_at(dir_fd, "cpu.max", text);
}

static int v2_limit(const struct cgroup_root *root, const struct cgroup *cg,
                    const struct limits *limits, struct gb_err *err)
{
    int fd = cg->dir_fds[0];
    int r;

    r = cgroup_write_int(fd, "memory.max", limits->memory_bytes);
    if (r == 0)
        r = v2_write_if_there(fd, "memory.swap.max", 0);
    /* The box's PID 1 must survive: it reports how the rest ended. */
    if (r == 0)
        r = v2_write_if_there(fd, "memory.oom.group", 0);
    if (r < 0)
        return gb_fail(err, -r, "limit the memory of cgroup '%s'", cg->name);
    r = cgroup_write_int(fd, "pids.max", limits->pids + CGROUP_OWN_PIDS);
    if (r < 0)
        return gb_fail(err, -r, "limit the processes of cgroup '%s'", cg->name);
    r = root->hiers[0].controllers & CG_CPU ? v2_limit_cpu(fd, limits->cpu_milli) : 0;
    if (r < 0)
        return gb_fail(err, -r, "limit the CPU share of cgroup '%s'", cg->name);
    return 0;
}

static int v2_usage(const struct cgroup_root *root, const struct cgroup *cg,
                    struct cgroup_usage *usage)
{
    int fd = cg->dir_fds[0];

    (void) root;
    usage->memory_bytes = cgroup_read_int(fd, "memory.current");
    if (usage->memory_bytes < 0)
        return -ENODEV;
    usage->memory_peak_bytes = cgroup_read_int(fd, "memory.peak"); /* 5.19 and later */
    usage->cpu_us = cgroup_read_key(fd, "cpu.stat", "usage_usec");
    usage->pids = cgroup_read_int(fd, "pids.current");
    usage->pids_peak = cgroup_read_int(fd, "pids.peak"); /* 6.1 and later */
    usage->pids_refused = cgroup_read_key(fd, "pids.events", "max");
    /* A victim that was dying already counts as `oom` but not as `oom_kill`. */
    usage->oom_kills = cgroup_read_key(fd, "memory.events", "oom_kill");
    usage->ooms = cgroup_read_key(fd, "memory.events", "oom");
    if (usage->ooms < usage->oom_kills)
        usage->ooms = usage->oom_kills;
    return 0;
}

const struct cgroup_ops cgroup_v2_ops = {
    .mode = CGROUP_V2,
    .name = "v2",
    .clone_into = true,
    .open = v2_open,
    .close = v2_close,
    .limit = v2_limit,
    .usage = v2_usage,
};
