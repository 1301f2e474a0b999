/*
 * What a host offers an engine: types shared by the public header, the messages between our
 * processes and all parts of the engine.
 */
#pragma once

#include <stdint.h>

/* Which host ids the engine's processes have. */
enum id_mode {
    ID_ROOT,   /* real root: every box has its own host id */
    ID_RANGE,  /* a range of subordinate ids: the same, within the user's range */
    ID_SINGLE, /* one id: all boxes share the user's */
};

enum cgroup_mode { CGROUP_AUTO, CGROUP_V2, CGROUP_V1, CGROUP_OFF };

#define CGROUP_FDS_MAX  6
#define CGROUP_NAME_MAX 48
#define CGROUP_NOTE_MAX 600 /* why cgroups are not better: two errors and advice */

/* Our own processes in a box's group, in addition to those that its limit is for: PID 1, and the
 * holder of the tenant's memory (seal/seal.c). */
#define CGROUP_OWN_PIDS 2

/* Resource usage of a box so far. A member that is unknown on this host is -1. */
struct cgroup_usage {
    int64_t cpu_us;
    int64_t memory_bytes; /* now */
    int64_t memory_peak_bytes;
    int64_t pids; /* now */
    int64_t pids_peak;
    int64_t oom_kills;    /* processes that the kernel killed for memory */
    int64_t ooms;         /* at least as many: also times when a victim was dying already */
    int64_t pids_refused; /* forks refused by the limit */
};

/* The counters of a group as open files. */
enum cgroup_meter {
    METER_CPU,
    METER_MEMORY_PEAK,
    METER_OOM,
    METER_PIDS,
    METER_PIDS_PEAK,
    METER_PIDS_EVENTS,
    METER_COUNT,
};

/* Where a workspace is; see disk/disk.h. */
enum disk_kind {
    DISK_NONE, /* in memory */
    DISK_IMAGE,
    DISK_WATCHED,
};

/* The names of the modules that a template imports, as one text with its NUL. */
#define PRELOAD_MAX 4096

#define DISK_NAME_MAX 64 /* of an engine's directory for workspaces */

/* A directory of boxes, the last in PATH, for names that people expect and /usr does not have. */
#define BOX_BIN "/opt/bin"

/* Where locales are mounted that are not beneath /usr. */
#define BOX_LOCALES "/opt/locales"
