/* Boxes as the builder keeps them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/cgroup.h"
#include "engine/ids.h"
#include "engine/limits.h"

struct box_entry {
    uint32_t id;
    uint32_t host_id;
    int pidfd;    /* of PID 1 */
    int lifeline; /* our end; the supervisor holds a copy, so that a box outlives its builder */
    int root;     /* the box's root directory, O_PATH */
    int workspace;
    struct limits limits;
    struct cgroup cgroup;
    struct cgroup_usage peak; /* what the watch saw, where no cgroup keeps count */
};

/* Makes a box: its cgroup, its namespaces, its PID 1; returns when PID 1 is ready. When that fails
 * after the clone, @ret_dead is the pidfd of a dead process which the supervisor, its parent, has
 * to collect; else it is not touched. */
int box_make(struct cgroup_root *cgroups, struct id_pool *ids, uint32_t id,
             const struct limits *limits, struct box_entry *ret_box, int *ret_dead,
             struct gb_err *err);

/* Takes over a box that a dead builder made. The descriptors become the box's on success. */
int box_adopt(struct cgroup_root *cgroups, uint32_t id, uint32_t host_id,
              const struct limits *limits, const int fds[3], struct box_entry *ret_box,
              struct gb_err *err);

/* Kills PID 1, waits for its end, removes the cgroup, closes everything. */
int box_end(struct cgroup_root *cgroups, struct id_pool *ids, struct box_entry *box,
            struct gb_err *err);

/* SIGKILL to all but PID 1, and word back that it was sent. */
int box_kill(const struct box_entry *box, struct gb_err *err);

int box_signal(const struct box_entry *box, pid_t pgid, int sig);

/* Usage from the cgroup's counters or, without cgroups, from the box's own /proc. @template_anon is
 * the anonymous memory that clones share with their template. */
void box_usage(const struct cgroup_root *cgroups, struct box_entry *box, int64_t template_anon,
               struct cgroup_usage *ret_usage);

/* The limit that a file system of the box has reached, or LIMIT_NONE. */
enum limit_kind box_disk_full(const struct box_entry *box);

/* Opens beneath the workspace, for reading, or newly created for writing. Regular files and
 * directories only; no link is ever followed. */
int box_open(const struct box_entry *box, const char *path, int flags, mode_t mode, int *ret_fd,
             struct gb_err *err);
int box_mkdir(const struct box_entry *box, const char *path, struct gb_err *err);

/* box_scan.c: lists the regular files of the workspace into a memory file of struct scan_record.
 * Stops at its bounds and says so. */
int box_scan(const struct box_entry *box, int *ret_fd, uint32_t *ret_count, bool *ret_incomplete,
             struct gb_err *err);

/* box_watch.c: memory, processes and CPU time of a box, read from its /proc. */
void box_watch(const struct box_entry *box, int64_t template_anon, struct cgroup_usage *ret_usage);
