/*
 * Control groups v1: each controller may have its own hierarchy, or several share one
 * (cpu,cpuacct). A box has a directory in each hierarchy that we use, and its first process moves
 * itself into them one after the other. Every such move waits for an RCU grace period, so the
 * engine itself never moves and hierarchies that we do not need are left alone.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/cgroup/internal.h"

#include "base/banned.h"

#define V1_SHARES 1024 /* of a process */

static const struct v1_want {
    enum cgroup_controller bit;
    const char *name;
    const char *without; /* what its absence means */
} v1_wants[] = {
    { CG_MEMORY, "memory", NULL }, /* required */
    { CG_PIDS, "pids", "the number of processes is limited by resource limits only" },
    { CG_CPU, "cpu", "the CPU share is not limited" },
    { CG_CPUACCT, "cpuacct", "CPU time is measured for each process only" },
};

static unsigned v1_controllers(const struct cgroup_root *root)
{
    unsigned all = 0;

    for (int i = 0; i < root->n_hiers; i++)
        all |= root->hiers[i].controllers;
    return all;
}

static int v1_open_at(struct cgroup_root *root, const char *controller, enum cgroup_place place,
                      bool reopen)
{
    struct cgroup_hier *hier = &root->hiers[root->n_hiers];
    autoclose int parent_fd = -EBADF;
    unsigned controllers;
    int fd, r;

    r = cgroup_place_open(controller, place, &parent_fd, &controllers);
    if (r < 0)
        return r;
    r = cgroup_engine_open(parent_fd, root->name, reopen, &fd);
    if (r < 0)
        return r;
    *hier = (struct cgroup_hier){
        .controllers = controllers,
        .parent_fd = TAKE_FD(parent_fd),
        .engine_fd = fd,
    };
    root->n_hiers++;
    return 0;
}

static int v1_open_hier(struct cgroup_root *root, const char *controller, bool reopen)
{
    int r = v1_open_at(root, controller, PLACE_OWN, reopen);

    if (r < 0 && v1_open_at(root, controller, PLACE_TOP, reopen) == 0)
        return 0;
    return r;
}

/* A group's weight is divided among the CPUs it runs on, and all boxes are in one group. With the
 * default they would weigh half a process on each of two CPUs, and on a busy host starve next to
 * the threads that wait for them. So on every CPU they weigh as much as one process of the host. */
static void v1_weigh(const struct cgroup_root *root)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    for (int i = 0; i < root->n_hiers; i++)
        if (root->hiers[i].controllers & CG_CPU && cpus > 1)
            (void) cgroup_write_int(root->hiers[i].engine_fd, "cpu.shares", V1_SHARES * cpus);
}

static int v1_open(struct cgroup_root *root, bool reopen, struct gb_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(v1_wants); i++) {
        const struct v1_want *want = &v1_wants[i];
        int r;

        if (v1_controllers(root) & want->bit)
            continue; /* shares a hierarchy that we have already */
        r = v1_open_hier(root, want->name, reopen);
        if (r == 0)
            continue;
        if (!want->without && r == -ENOENT)
            return gb_fail_plain(err, ENOENT,
                                 reopen ? "no cgroup of this engine in the memory "
                                          "hierarchy"
                                        : "the memory controller is not mounted");
        if (!want->without)
            return gb_fail(err, -r, "create a cgroup in the memory hierarchy");
        cgroup_note(root, "cgroup v1 without the %s controller (%s): %s", want->name,
                    r == -ENOENT ? "not mounted" : strerror(-r), want->without);
    }
    v1_weigh(root);
    return 0;
}

static void v1_close(struct cgroup_root *root)
{
    (void) root;
}

static int v1_limit_memory(int dir_fd, int64_t bytes)
{
    int r, s;

    /* The kernel requires limit <= memsw at all times: when lowering, set the limit first; when
     * raising, memsw. */
    r = cgroup_write_int(dir_fd, "memory.limit_in_bytes", bytes);
    s = cgroup_write_int(dir_fd, "memory.memsw.limit_in_bytes", bytes);
    if (r == -EINVAL && s == 0)
        r = cgroup_write_int(dir_fd, "memory.limit_in_bytes", bytes);
    if (r < 0)
        return r;
    if (s != -ENOENT)
        return s;
    /* Swap is not accounted on this kernel: at least do not prefer it. */
    (void) cgroup_write_int(dir_fd, "memory.swappiness", 0);
    return 0;
}

static int v1_limit_cpu(int dir_fd, int64_t milli)
{
    int64_t quota = milli * CGROUP_PERIOD_US / 1000;
    int r = cgroup_write_int(dir_fd, "cpu.cfs_period_us", CGROUP_PERIOD_US);

    if (r == 0)
        r = cgroup_write_int(dir_fd, "cpu.cfs_quota_us", quota);
    /* More than the parent group has: then without its own limit, the parent's applies. */
    if (r == -EINVAL)
        r = cgroup_write_int(dir_fd, "cpu.cfs_quota_us", -1);
    return r == -ENOENT ? 0 : r; /* a kernel without CFS bandwidth control */
}

static int v1_limit(const struct cgroup_root *root, const struct cgroup *cg,
                    const struct limits *limits, struct gb_err *err)
{
    int memory = cgroup_dir_of(root, cg, CG_MEMORY), cpu = cgroup_dir_of(root, cg, CG_CPU);
    int pids = cgroup_dir_of(root, cg, CG_PIDS);
    int r;

    r = v1_limit_memory(memory, limits->memory_bytes);
    if (r < 0)
        return gb_fail(err, -r, "limit the memory of cgroup '%s'", cg->name);
    r = pids < 0 ? 0 : cgroup_write_int(pids, "pids.max", limits->pids + CGROUP_OWN_PIDS);
    if (r < 0)
        return gb_fail(err, -r, "limit the processes of cgroup '%s'", cg->name);
    r = cpu < 0 ? 0 : v1_limit_cpu(cpu, limits->cpu_milli);
    if (r < 0)
        return gb_fail(err, -r, "limit the CPU share of cgroup '%s'", cg->name);
    return 0;
}

static int v1_usage(const struct cgroup_root *root, const struct cgroup *cg,
                    struct cgroup_usage *usage)
{
    int memory = cgroup_dir_of(root, cg, CG_MEMORY);
    int pids = cgroup_dir_of(root, cg, CG_PIDS), cpuacct = cgroup_dir_of(root, cg, CG_CPUACCT);

    usage->memory_bytes = cgroup_read_int(memory, "memory.usage_in_bytes");
    if (usage->memory_bytes < 0)
        return -ENODEV;
    usage->memory_peak_bytes = cgroup_read_int(memory, "memory.max_usage_in_bytes");
    usage->oom_kills = cgroup_read_key(memory, "memory.oom_control", "oom_kill");
    usage->ooms = usage->oom_kills;
    if (pids >= 0) {
        usage->pids = cgroup_read_int(pids, "pids.current");
        usage->pids_peak = cgroup_read_int(pids, "pids.peak"); /* 6.11 and later */
        usage->pids_refused = cgroup_read_key(pids, "pids.events", "max");
    }
    if (cpuacct >= 0) {
        int64_t ns = cgroup_read_int(cpuacct, "cpuacct.usage");

        usage->cpu_us = ns < 0 ? -1 : ns / 1000;
    }
    return 0;
}

const struct cgroup_ops cgroup_v1_ops = {
    .mode = CGROUP_V1,
    .name = "v1",
    .clone_into = false,
    .open = v1_open,
    .close = v1_close,
    .limit = v1_limit,
    .usage = v1_usage,
};
