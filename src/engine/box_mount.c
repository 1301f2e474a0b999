/*
 * What a box mounts on top of its copy of the skeleton: three memory-backed file systems of its
 * own, pseudo-terminals, and a private /proc, read-only, with the host's business masked.
 *
 * Runs in PID 1 between clone and seal: no malloc, no locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/box_init.h"
#include "engine/skeleton.h"

#include "base/banned.h"

/* Readable by everyone, and about the host: its hardware, its other programs, its boot line. */
static const char *const masked_files[] = {
    "/proc/cmdline",  "/proc/config.gz",     "/proc/diskstats",  "/proc/interrupts",
    "/proc/kallsyms", "/proc/kcore",         "/proc/keys",       "/proc/locks",
    "/proc/mdstat",   "/proc/modules",       "/proc/partitions", "/proc/sched_debug",
    "/proc/swaps",    "/proc/sysrq-trigger", "/proc/timer_list",
};

static const char *const masked_directories[] = {
    "/proc/acpi", "/proc/asound", "/proc/bus",  "/proc/driver",
    "/proc/fs",   "/proc/irq",    "/proc/scsi", "/proc/pressure",
};

static int mount_tmpfs(const struct box_spec *spec, const char *name, const char *path, int mode,
                       unsigned long flags)
{
    char options[160];

    snprintf(options, sizeof options, "size=%lld,nr_inodes=%lld,mode=%o,uid=%u,gid=%u",
             (long long) spec->limits.disk_bytes, (long long) spec->limits.disk_inodes, mode,
             spec->host_id, spec->host_id);
    if (mount(name, path, "tmpfs", MS_NOSUID | MS_NODEV | flags, options) < 0)
        return -errno;
    return 0;
}

static int mount_masks(void)
{
    for (size_t i = 0; i < ARRAY_LEN(masked_files); i++)
        if (mount("/dev/null", masked_files[i], NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
            return -errno;
    for (size_t i = 0; i < ARRAY_LEN(masked_directories); i++)
        if (mount(SKELETON_EMPTY, masked_directories[i], NULL, MS_BIND, NULL) < 0 &&
            errno != ENOENT)
            return -errno;
    return 0;
}

int box_mount_all(const struct box_spec *spec)
{
    unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    int r;

    if ((r = mount_tmpfs(spec, "workspace", "/workspace", 0755, 0)) < 0 ||
        (r = mount_tmpfs(spec, "tmp", "/tmp", 01777, 0)) < 0 ||
        (r = mount_tmpfs(spec, "shm", "/dev/shm", 01777, MS_NOEXEC)) < 0)
        return r;
    if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620") < 0)
        return -errno;
    /* Read-only: nobody in the box writes to anybody's /proc/PID/mem. */
    if (mount("proc", "/proc", "proc", plain | MS_RDONLY, NULL) < 0)
        return -errno;
    return mount_masks();
}
