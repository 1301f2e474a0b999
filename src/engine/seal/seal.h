/*
 * Sealing: turns a fresh clone of a template into a tenant, and a fresh clone of the builder into
 * the PID 1 of a box.
 *
 * Theory of operation. The child calls seal_tenant() first after the clone. Its steps are in a
 * table, in the only order that works: the cgroup while its files are visible, the namespaces while
 * it has the capabilities for that, ids before capabilities, and the filter that forbids all of it
 * last. Until the last step only this code runs: no malloc, no locks, no Python. If a step fails,
 * the child sends a fixed record that names the step over the control socket and exits, before it
 * has read any user data. On success the same record, with step SEAL_DONE, is the first packet on
 * that socket.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/limits.h"
#include "engine/shared/seal_report.h"

#define BOX_UID 1000 /* inside every box, for PID 1 and tenants */
#define BOX_GID 1000

struct seal_spec {
    int box_pidfd;
    int stdio[3];
    int control;
    int cgroup_fds[6];
    unsigned cgroup_fds_len; /* files to write "0" to; none with CLONE_INTO_CGROUP */
    bool landlock;
    bool cgroups;
    bool exec; /* a program is executed next; until then the memory is a copy of the builder's, and
                  hidden */
    struct limits limits;
};

/* Descriptor of the control socket in a sealed tenant. */
#define SEAL_CONTROL_FD 3

/* In the child: applies every step and returns with a sealed process, or does not return. All
 * descriptors in @spec must be above SEAL_CONTROL_FD. */
void seal_tenant(const struct seal_spec *spec);

/* ---- parts that PID 1 uses too ---- */

/* Drops all capabilities except those in @keep (a mask), also from the bounding set. */
int seal_caps(uint64_t keep);

/* Forbids gaining privileges by exec. */
int seal_no_new_privs(void);

/* Allows writing only beneath /workspace, /tmp, /dev and writable volumes; with @scoped, and if the
 * kernel supports it, no signals and abstract sockets across the domain. -EOPNOTSUPP if there is no
 * Landlock. */
int seal_landlock(bool scoped);
