/* Shared by the cgroup backends. */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/text/hex.h"
#include "engine/cgroup/cgroup.h"
#include "engine/cgroup/read.h"

#define CGROUP_ENGINE_PREFIX "glovebox."
#define CGROUP_LEAF_PREFIX   "glovebox.self."
#define CGROUP_HEX_LEN       16
#define CGROUP_PERIOD_US     INT64_C(100000)

/* One hierarchy: v2 has one, v1 as many as the controllers are spread over. */
struct cgroup_hier {
    unsigned controllers; /* of enum cgroup_controller */
    int parent_fd;        /* where engines have their directories */
    int engine_fd;        /* ours, with flock(LOCK_SH) for as long as this engine lives */
};

/* The highest values that we saw, for kernels that do not record peaks. */
struct cgroup_seen {
    struct cgroup_seen *next;
    char name[CGROUP_NAME_MAX];
    int64_t memory_bytes, pids;
};

struct cgroup_root {
    const struct cgroup_ops *ops;
    char name[CGROUP_NAME_MAX];
    char note[CGROUP_NOTE_MAX];
    struct cgroup_hier hiers[CGROUP_FDS_MAX];
    int n_hiers;
    struct cgroup_seen *seen;
};

struct cgroup_ops {
    enum cgroup_mode mode;
    const char *name;
    bool clone_into; /* a process is created in its group, instead of moving there */

    /* Fills root->hiers and the note. With @reopen the engine's directories exist already. After a
     * failure cgroup_root_close() undoes partial work. */
    int (*open)(struct cgroup_root *root, bool reopen, struct gb_err *err);
    /* After the engine's directories are removed, before the descriptors are closed. */
    void (*close)(struct cgroup_root *root);
    int (*limit)(const struct cgroup_root *root, const struct cgroup *cg,
                 const struct limits *limits, struct gb_err *err);
    /* All members are -1 before the call. */
    int (*usage)(const struct cgroup_root *root, const struct cgroup *cg,
                 struct cgroup_usage *usage);
};

extern const struct cgroup_ops cgroup_v2_ops, cgroup_v1_ops, cgroup_none_ops;

/* ---- directories ---- */

/* A new name for an engine. */
int cgroup_name_draw(char *buf, size_t size);

static inline bool cgroup_is_hex(const char *text)
{
    return hex_is(text, CGROUP_HEX_LEN);
}

static inline bool cgroup_engine_name_ok(const char *name)
{
    size_t len = strlen(CGROUP_ENGINE_PREFIX);

    return strncmp(name, CGROUP_ENGINE_PREFIX, len) == 0 && cgroup_is_hex(name + len);
}

static inline bool cgroup_leaf_name_ok(const char *name)
{
    size_t len = strlen(CGROUP_LEAF_PREFIX);

    return strncmp(name, CGROUP_LEAF_PREFIX, len) == 0 && cgroup_is_hex(name + len);
}

/* rmdir, retried while it fails with EBUSY, until @deadline_us; 0 if it does not exist. */
int cgroup_rmdir_wait(int parent_fd, const char *name, int64_t deadline_us);

/* Adds to the note. */
void cgroup_note(struct cgroup_root *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- files ---- */

/* Calls @each with every process in the group until it returns non-zero, and returns that. */
int cgroup_each_pid(int dir_fd, int (*each)(pid_t pid, void *data), void *data);

static inline int cgroup_write_int(int dir_fd, const char *file, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, value);
    return io_write_text_at(dir_fd, file, text);
}

/* The descriptor of the hierarchy that has @controller; -EBADF if none has. */
static inline int cgroup_dir_of(const struct cgroup_root *root, const struct cgroup *cg,
                                enum cgroup_controller controller)
{
    for (int i = 0; i < root->n_hiers; i++) {
        if (root->hiers[i].controllers & controller)
            return cg->dir_fds[i];
    }
    return -EBADF;
}
