/*
 * The machine as a box sees it: its limits, in the files where programs look for the size of their
 * machine. Without them DuckDB, Arrow, polars, joblib or a pool of processes would choose their
 * memory and threads by the host, and be killed or throttled for it.
 *
 * A small read-only tmpfs on /sys has the control groups' files in both layouts (libraries choose
 * one by /proc/self/cgroup, which shows the layout of the host) and the list of CPUs, from which
 * the C library answers sysconf(_SC_NPROCESSORS_ONLN). One more file of it covers /proc/meminfo.
 * The limits of a box never change, so neither do the files; only /proc/meminfo could, and says how
 * much a program has when it starts. What comes from system calls stays the host's: sysinfo(2), and
 * sched_getaffinity(2), because a box is not tied to particular CPUs: its quota holds on all, and
 * one tied to a busy CPU would wait beside an idle one.
 *
 * Runs in PID 1 between clone and seal: no malloc, no locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/seal/init.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

#define MEMINFO   ".meminfo"
#define PERIOD_US 100000
#define CPUS_MAX  8192

struct machine {
    const struct limits *limits;
    int cpus;    /* that the box can keep busy */
    int cpu_end; /* no CPU of the host that may run it has this number or a higher one */
};

static const char *const directories[] = {
    "fs",      "fs/cgroup",      "fs/cgroup/memory",   "fs/cgroup/cpu",
    "devices", "devices/system", "devices/system/cpu",
};

static const struct {
    const char *path, *target;
} links[] = {
    { "fs/cgroup/memory/memory.limit_in_bytes", "../memory.max" },
    { "fs/cgroup/cpu,cpuacct", "cpu" },
    { "devices/system/cpu/present", "possible" },
};

static void text_memory(const struct machine *m, char *text, size_t size)
{
    snprintf(text, size, "%lld\n", (long long) m->limits->memory_bytes);
}

static void text_controllers(const struct machine *m, char *text, size_t size)
{
    (void) m;
    snprintf(text, size, "cpu memory\n");
}

static void text_quota(const struct machine *m, char *text, size_t size)
{
    snprintf(text, size, "%lld\n", (long long) m->limits->cpu_milli * (PERIOD_US / 1000));
}

static void text_period(const struct machine *m, char *text, size_t size)
{
    (void) m;
    snprintf(text, size, "%d\n", PERIOD_US);
}

static void text_cpu_max(const struct machine *m, char *text, size_t size)
{
    snprintf(text, size, "%lld %d\n", (long long) m->limits->cpu_milli * (PERIOD_US / 1000),
             PERIOD_US);
}

static void text_cpus(int count, char *text, size_t size)
{
    if (count > 1)
        snprintf(text, size, "0-%d\n", count - 1);
    else
        snprintf(text, size, "0\n");
}

static void text_online(const struct machine *m, char *text, size_t size)
{
    text_cpus(m->cpus, text, size);
}

/* For arrays with one element per CPU: a program may find itself on any of them. */
static void text_possible(const struct machine *m, char *text, size_t size)
{
    text_cpus(m->cpu_end, text, size);
}

static void text_meminfo(const struct machine *m, char *text, size_t size)
{
    long long kb = (long long) m->limits->memory_bytes / 1024;

    snprintf(text, size,
             "MemTotal: %lld kB\nMemFree: %lld kB\nMemAvailable: %lld kB\nBuffers: 0 kB\n"
             "Cached: 0 kB\nSwapCached: 0 kB\nActive: 0 kB\nInactive: 0 kB\nSwapTotal: 0 kB\n"
             "SwapFree: 0 kB\nShmem: 0 kB\nSlab: 0 kB\nSReclaimable: 0 kB\nSUnreclaim: 0 kB\n",
             kb, kb, kb);
}

static const struct {
    const char *path;
    void (*text)(const struct machine *m, char *text, size_t size);
} files[] = {
    { "fs/cgroup/cgroup.controllers", text_controllers },
    { "fs/cgroup/memory.max", text_memory },
    { "fs/cgroup/cpu.max", text_cpu_max },
    { "fs/cgroup/cpu/cpu.cfs_quota_us", text_quota },
    { "fs/cgroup/cpu/cpu.cfs_period_us", text_period },
    { "devices/system/cpu/online", text_online },
    { "devices/system/cpu/possible", text_possible },
    { MEMINFO, text_meminfo },
};

/* As many CPUs as the limit allows to keep busy, and no more than may run us. */
static void count_cpus(struct machine *m)
{
    unsigned long mask[CPUS_MAX / (8 * sizeof(long))];
    const int bits = 8 * sizeof *mask;
    long len = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    int allowed = 0;

    m->cpus = (int) ((m->limits->cpu_milli + 999) / 1000);
    m->cpu_end = m->cpus;
    if (len <= 0)
        return;
    for (int cpu = 0; cpu < (int) len * 8; cpu++) {
        if (mask[cpu / bits] >> (cpu % bits) & 1) {
            allowed++;
            m->cpu_end = cpu + 1;
        }
    }
    if (allowed > 0 && m->cpus > allowed)
        m->cpus = allowed;
}

static int put_file(int dir, const char *path, const char *text)
{
    autoclose int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

    return fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
}

static int fill(int dir, const struct machine *m)
{
    char text[512];
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(directories); i++)
        if (mkdirat(dir, directories[i], 0755) < 0)
            return -errno;
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i].target, dir, links[i].path) < 0)
            return -errno;
    for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++) {
        files[i].text(m, text, sizeof text);
        r = put_file(dir, files[i].path, text);
    }
    return r;
}

int box_machine_mount(const struct box_spec *spec)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
    struct machine machine = { .limits = &spec->limits };
    autoclose int dir = -EBADF;
    int r;

    if (mount("sys", "/sys", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "mode=0755,size=128k,nr_inodes=64") < 0)
        return -errno;
    dir = open("/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    count_cpus(&machine);
    if ((r = fill(dir, &machine)) < 0)
        return r;
    /* Before the bind, which inherits it. */
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/sys", 0, &attr, sizeof attr) < 0)
        return -errno;
    return mount("/sys/" MEMINFO, "/proc/meminfo", NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}
