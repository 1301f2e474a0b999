/*
 * Control groups behind one small interface: v2, v1 (and hybrid), and none.
 *
 * The builder owns all of it. One `struct cgroup_root` is the place under which this engine creates
 * its groups; one `struct cgroup` belongs to one box. All paths are resolved once, when the root is
 * opened, and kept as directory descriptors: the builder later lives in a root file system where
 * /sys does not exist.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/host.h"
#include "engine/limits.h"

struct cgroup_root; /* opaque */

struct cgroup {
    char name[CGROUP_NAME_MAX];  /* of the directory beneath the root's */
    int dir_fds[CGROUP_FDS_MAX]; /* one per controller on v1, one on v2; -EBADF if unused */
};

/* Finds or creates a place for this engine's groups: its own cgroup if permitted, else (as root)
 * below the root of the hierarchy. CGROUP_AUTO chooses v2 if memory and pids can be controlled
 * there, else v1 if memory can, else none. Removes groups that dead engines left there (a live one
 * holds a lock). @ret_root is never NULL on success; its mode says what was found. */
int cgroup_root_open(enum cgroup_mode wanted, struct cgroup_root **ret_root, struct gb_err *err);

/* For a builder that is about to enter a PID namespace, from which it could not see the processes
 * that block cgroup v2: moves us and the supervisor into a leaf of our group and enables the
 * controllers for its children, if no other process is in that group. Returns a descriptor for
 * cgroup_step_back(), which the caller closes, or -errno: then no process was moved, and the
 * builder has to find another place. */
int cgroup_step_aside(void);

/* Moves them back, unless another engine still needs the place. Waits only for the kernel. */
void cgroup_step_back(int parent_fd);

/* Removes the engine's own (by now empty) directory too. Accepts NULL. */
void cgroup_root_close(struct cgroup_root *root);

enum cgroup_mode cgroup_root_mode(const struct cgroup_root *root);

/* Why no better mode is used, for `doctor`; "" if all is well. */
const char *cgroup_root_note(const struct cgroup_root *root);

/* The engine's directory name, to be handed to a builder that takes over with
 * cgroup_root_reopen(). */
const char *cgroup_root_name(const struct cgroup_root *root);

/* Opens the groups of an engine whose builder died; @name as cgroup_root_name() gave it. */
int cgroup_root_reopen(enum cgroup_mode mode, const char *name, struct cgroup_root **ret_root,
                       struct gb_err *err);

/* Creates a group for one box and sets the limits. @name is unique within the engine. */
int cgroup_make(struct cgroup_root *root, const char *name, const struct limits *limits,
                struct cgroup *ret_cg, struct gb_err *err);

/* Opens a group that exists already (after a builder was replaced). */
int cgroup_adopt(struct cgroup_root *root, const char *name, struct cgroup *ret_cg,
                 struct gb_err *err);

/* The directory descriptor for CLONE_INTO_CGROUP on v2; -EBADF on v1 and none. Borrowed. */
int cgroup_clone_fd(const struct cgroup_root *root, const struct cgroup *cg);

/* Opens, for writing, the files into which a process writes "0" to move itself: none on v2 (see
 * cgroup_clone_fd) and without cgroups, one per hierarchy on v1. Returns how many; the caller
 * closes. */
int cgroup_open_procs(const struct cgroup_root *root, const struct cgroup *cg,
                      int ret_fds[CGROUP_FDS_MAX], struct gb_err *err);

int cgroup_usage(const struct cgroup_root *root, const struct cgroup *cg,
                 struct cgroup_usage *ret_usage);

/* Opens the counters that this host has, in the order of enum cgroup_meter; returns their bits.
 * Without cgroups there are none. The caller closes. */
unsigned cgroup_open_meters(const struct cgroup_root *root, const struct cgroup *cg,
                            int ret_fds[METER_COUNT], size_t *ret_fds_len);

/* Removes the directories, waiting up to @wait_us for the last process to be gone, and closes the
 * descriptors. -EBUSY if a process is still running there. */
int cgroup_remove(struct cgroup_root *root, struct cgroup *cg, int64_t wait_us);

/* The locked descriptors of the engine's directories, borrowed; returns how many. The supervisor
 * keeps duplicates, so that the engine counts as alive while its builder is being replaced. */
int cgroup_root_lock_fds(const struct cgroup_root *root, int ret_fds[CGROUP_FDS_MAX]);

/* ---- directories of engines; the vault (box/vault.c) uses the same scheme ---- */

/* Creates the engine's directory beneath @parent_fd, or opens it with @reopen, and locks it. */
int cgroup_engine_open(int parent_fd, const char *name, bool reopen, int *ret_fd);

/* Calls @each with every group directly beneath @dir_fd until it returns non-zero, and returns
 * that. */
int cgroup_each_dir(int dir_fd, int (*each)(int dir_fd, const char *name, void *data), void *data);
