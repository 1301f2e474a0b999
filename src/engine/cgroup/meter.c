/* The counters of a box as open files, so that their holder can read them without a request. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/cgroup/internal.h"

#include "base/banned.h"

struct meter_file {
    unsigned controller;
    const char *name;
    int flags;
};

/* Writing to a peak resets it: on v1 for all, on v2 (6.12 and later) for this open file. */
static const struct meter_file v1_files[METER_COUNT] = {
    [METER_CPU] = { CG_CPUACCT, "cpuacct.usage", O_RDONLY },
    [METER_MEMORY_PEAK] = { CG_MEMORY, "memory.max_usage_in_bytes", O_RDWR },
    [METER_OOM] = { CG_MEMORY, "memory.oom_control", O_RDONLY },
    [METER_PIDS] = { CG_PIDS, "pids.current", O_RDONLY },
    [METER_PIDS_PEAK] = { CG_PIDS, "pids.peak", O_RDONLY },
    [METER_PIDS_EVENTS] = { CG_PIDS, "pids.events", O_RDONLY },
};

static const struct meter_file v2_files[METER_COUNT] = {
    [METER_CPU] = { 0, "cpu.stat", O_RDONLY },
    [METER_MEMORY_PEAK] = { 0, "memory.peak", O_RDWR },
    [METER_OOM] = { 0, "memory.events", O_RDONLY },
    [METER_PIDS] = { 0, "pids.current", O_RDONLY },
    [METER_PIDS_PEAK] = { 0, "pids.peak", O_RDONLY },
    [METER_PIDS_EVENTS] = { 0, "pids.events", O_RDONLY },
};

unsigned cgroup_open_meters(const struct cgroup_root *root, const struct cgroup *cg,
                            int ret_fds[METER_COUNT], size_t *ret_fds_len)
{
    const struct meter_file *files = root->ops->mode == CGROUP_V2 ? v2_files : v1_files;
    unsigned present = 0;

    *ret_fds_len = 0;
    if (root->ops->mode == CGROUP_OFF)
        return 0;
    for (unsigned i = 0; i < METER_COUNT; i++) {
        int dir =
            files[i].controller ? cgroup_dir_of(root, cg, files[i].controller) : cg->dir_fds[0];
        int fd;

        if (dir < 0)
            continue;
        fd = openat(dir, files[i].name, files[i].flags | O_CLOEXEC);
        if (fd < 0 && files[i].flags == O_RDWR)
            fd = openat(dir, files[i].name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        present |= 1u << i;
        ret_fds[(*ret_fds_len)++] = fd;
    }
    return present;
}
