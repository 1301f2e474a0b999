/* PID 1 of a box. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/host.h"
#include "engine/limits.h"
#include "engine/volumes.h"

/* A directory of the host for the box. */
struct box_volume {
    int mount; /* attached nowhere */
    bool writable;
    const char *target;
};

struct box_volumes {
    struct box_volume items[VOLUMES_MAX];
    size_t len;
    char *text; /* contains the targets */
};

/* Everything that PID 1 needs; plain data, filled in before the clone. */
struct box_spec {
    struct limits limits;
    uint32_t host_id; /* uid and gid, as the builder's user namespace sees them */
    int lifeline;
    int cgroup_fds[CGROUP_FDS_MAX]; /* files to write "0" to; none with CLONE_INTO_CGROUP */
    int cgroup_fds_len;
    int workspace; /* a detached mount for it; or -EBADF: it is in memory */
    const struct box_volumes *volumes;
    int proc_self; /* filled by PID 1 itself */
};

/* The first packet on the lifeline; on success the root directory's descriptor is attached. */
struct box_report {
    uint32_t step; /* index into the table of steps, or BOX_READY */
    int32_t error;
};

#define BOX_READY 0xffu

/* The commands of the builder to PID 1. */
enum box_op {
    BOX_OP_KILL = 1,    /* SIGKILL to all; answered */
    BOX_OP_SIGNAL,      /* to a process group */
    BOX_OP_SIGNAL_SOME, /* to the processes in the list; answered */
};

#define BOX_PIDS_MAX 128

struct box_command {
    uint32_t op;
    int32_t pgid, signal;
    uint32_t pids_len;
    int32_t pids[BOX_PIDS_MAX];
};

/* Runs in the child of clone3; never returns. */
_Noreturn void box_init_main(const struct box_spec *spec);

const char *box_step_name(uint32_t step);

/* Steps that others use too; async-signal-safe. 0 or -errno. */

/* Changes to @host_id and keeps the capabilities. */
int box_take_ids(uint32_t host_id);

/* Creates a user namespace and enters it; in it @host_id, the caller's id, is @uid and @gid.
 * @proc_self is the caller's directory in /proc. */
int box_user_namespace(int proc_self, uint32_t uid, uint32_t gid, uint32_t host_id);

/* Mounts of one box on top of the skeleton (mount.c); async-signal-safe. 0 or -errno. */
int box_mount_all(const struct box_spec *spec);

/* /sys and /proc/meminfo, after /proc was mounted (machine.c); likewise. */
int box_machine_mount(const struct box_spec *spec);

/* ---- volumes.c: async-signal-safe, 0 or -errno ---- */

/* Links to the volumes outside /workspace that may be written to: 0, 1, ... For seal_landlock(). */
#define VOLUMES_LINKS "/.volumes"

/* Before all other mounts: creates a separate root directory for the box, with the mount points of
 * volumes in it. */
int box_volumes_root(const struct box_spec *spec);

/* After them. */
int box_volumes_mount(const struct box_spec *spec);
