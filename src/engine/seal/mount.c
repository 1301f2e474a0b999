/*
 * The mounts of a box on top of its copy of the skeleton: a workspace, two memory-backed file
 * systems, pseudo-terminals, and a private /proc, read-only, with files about the host masked or,
 * with /sys, replaced by the box's own numbers (machine.c). A workspace on disk is passed in as a
 * detached mount; otherwise it is memory-backed too. Volumes, if any, are handled in volumes.c.
 *
 * Runs in PID 1 between clone and seal: no malloc, no locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/seal/init.h"
#include "engine/seal/skeleton.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

/* Readable by everyone, and about the host: its hardware, its other programs, its boot line. */
static const char *const masked_files[] = {
    "/proc/iomem",    "/proc/ioports",       "/proc/key-users",  "/proc/version_signature",
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
    int64_t bytes = spec->limits.disk_bytes;
    char options[160];

    /* The quota of a workspace on disk may far exceed the memory that these use. */
    if (spec->workspace >= 0 && bytes > spec->limits.memory_bytes / 2)
        bytes = spec->limits.memory_bytes / 2;
    snprintf(options, sizeof options, "size=%lld,nr_inodes=%lld,mode=%o,uid=%u,gid=%u",
             (long long) bytes, (long long) spec->limits.disk_inodes, mode, spec->host_id,
             spec->host_id);
    if (mount(name, path, "tmpfs", MS_NOSUID | MS_NODEV | flags, options) < 0)
        return -errno;
    return 0;
}

static int mount_workspace(const struct box_spec *spec)
{
    if (spec->workspace < 0)
        return mount_tmpfs(spec, "workspace", "/workspace", 0755, 0);
    return syscall(SYS_move_mount, spec->workspace, "", AT_FDCWD, "/workspace",
                   MOVE_MOUNT_F_EMPTY_PATH) < 0
               ? -errno
               : 0;
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

/* Mounts the box's own /proc over the builder's. In that order: a user namespace may create a new
 * instance only while another is visible. Read-only: no process in the box can write to
 * /proc/PID/mem. */
static int mount_proc(void)
{
    const unsigned flags =
        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    autoclose int context = (int) syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);
    autoclose int made = -EBADF;

    if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    made = (int) syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, flags);
    if (made < 0 || umount2("/proc", MNT_DETACH) < 0)
        return -errno;
    if (syscall(SYS_move_mount, made, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

int box_mount_all(const struct box_spec *spec)
{
    int r;

    if ((r = box_volumes_root(spec)) < 0 || (r = mount_workspace(spec)) < 0 ||
        (r = mount_tmpfs(spec, "tmp", "/tmp", 01777, 0)) < 0 ||
        (r = mount_tmpfs(spec, "shm", "/dev/shm", 01777, MS_NOEXEC)) < 0)
        return r;
    /* The kernel has about 3,000 terminals for all boxes together. */
    if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620,max=16") < 0)
        return -errno;
    if ((r = mount_proc()) < 0 || (r = mount_masks()) < 0 || (r = box_machine_mount(spec)) < 0)
        return r;
    return box_volumes_mount(spec);
}
