/* What the cgroup backends share. Only cgroup*.c, the builder and the tests include this. */
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
#include "engine/cgroup/cgroup.h"

#define CGROUP_ENGINE_PREFIX "glovebox."
#define CGROUP_LEAF_PREFIX   "glovebox.self."
#define CGROUP_HEX_LEN       16
#define CGROUP_NOTE_MAX      600
#define CGROUP_PERIOD_US     INT64_C(100000)

enum cgroup_controller {
    CG_MEMORY = 1 << 0,
    CG_PIDS = 1 << 1,
    CG_CPU = 1 << 2,
    CG_CPUACCT = 1 << 3, /* v1 only; on v2 it needs no controller */
};

/* One hierarchy: v2 has one, v1 as many as the controllers are spread over. */
struct cgroup_hier {
    unsigned controllers; /* of enum cgroup_controller */
    int parent_fd;        /* where engines have their directories */
    int engine_fd;        /* ours, with flock(LOCK_SH) for as long as this engine lives */
};

/* Peaks as far as we saw them, for kernels that do not keep them. */
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
    bool clone_into; /* a process is born in its group, instead of moving there */

    /* Fills root->hiers and the note. With @reopen the engine's directories exist already. What is
     * half done on failure is undone by cgroup_root_close(). */
    int (*open)(struct cgroup_root *root, bool reopen, struct gb_err *err);
    /* After the engine's directories are gone, before the descriptors are. */
    void (*close)(struct cgroup_root *root);
    int (*limit)(const struct cgroup_root *root, const struct cgroup *cg,
                 const struct limits *limits, struct gb_err *err);
    /* All members are -1 before the call. */
    int (*usage)(const struct cgroup_root *root, const struct cgroup *cg,
                 struct cgroup_usage *usage);
    int (*kill)(const struct cgroup *cg);
};

extern const struct cgroup_ops cgroup_v2_ops, cgroup_v1_ops, cgroup_none_ops;

/* The locked descriptors of the engine's directories, borrowed; returns how many. The supervisor
 * keeps duplicates, so that the engine counts as alive while its builder is being replaced. */
int cgroup_root_lock_fds(const struct cgroup_root *root, int ret_fds[CGROUP_FDS_MAX]);

/* ---- finding hierarchies ---- */

/* A mount of cgroupfs; the strings point into the line it was parsed from. */
struct cgroup_mount {
    bool v2;
    const char *root, *point, *options;
};

/* Parses one line of mountinfo in place; false when it is no cgroup mount. */
bool cgroup_mount_parse(char *line, struct cgroup_mount *ret_mount);

/* The path in a line of /proc/self/cgroup if it is about @controller (NULL: v2), else NULL. */
const char *cgroup_self_parse(char *line, const char *controller);

/* The path of group @own relative to a mount with @root; NULL when the mount does not show it. */
static inline const char *cgroup_path_below(const char *root, const char *own)
{
    size_t len = strlen(root);

    /* In a cgroup namespace, what lies above its root begins so. */
    if (strncmp(own, "/..", 3) == 0 || strncmp(root, "/..", 3) == 0)
        return NULL;
    if (strcmp(root, "/") == 0)
        len = 0;
    if (strncmp(root, own, len) != 0 || (own[len] != '/' && own[len] != '\0'))
        return NULL;
    return own + len + strspn(own + len, "/");
}

static inline bool cgroup_list_has(const char *list, char separator, const char *word)
{
    size_t len = strlen(word);

    while (list) {
        if (strncmp(list, word, len) == 0 && (list[len] == '\0' || list[len] == separator))
            return true;
        list = strchr(list, separator);
        if (list)
            list++;
    }
    return false;
}

/* The controllers of enum cgroup_controller in a list of names. */
static inline unsigned cgroup_list_controllers(const char *list, char separator)
{
    return (cgroup_list_has(list, separator, "memory") ? (unsigned) CG_MEMORY : 0) |
           (cgroup_list_has(list, separator, "pids") ? (unsigned) CG_PIDS : 0) |
           (cgroup_list_has(list, separator, "cpu") ? (unsigned) CG_CPU : 0) |
           (cgroup_list_has(list, separator, "cpuacct") ? (unsigned) CG_CPUACCT : 0);
}

enum cgroup_place { PLACE_OWN, PLACE_TOP };

/* Opens (O_PATH) a place in the hierarchy of @controller, or of v2 if that is NULL: our own group
 * (the one above it if we sit in an engine's leaf), or the top as far as the mount shows it.
 * -ENOENT when the hierarchy is not mounted. */
int cgroup_place_open(const char *controller, enum cgroup_place place, int *ret_fd,
                      unsigned *ret_controllers);

/* ---- directories ---- */

/* A new name for an engine. */
int cgroup_name_draw(char *buf, size_t size);

/* Makes the engine's directory beneath @parent_fd, or opens it with @reopen, and locks it. */
int cgroup_engine_open(int parent_fd, const char *name, bool reopen, int *ret_fd);

static inline bool cgroup_is_hex(const char *text)
{
    return strlen(text) == CGROUP_HEX_LEN && strspn(text, "0123456789abcdef") == CGROUP_HEX_LEN;
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

/* Calls @each with every group right beneath @dir_fd until it returns non-zero, and returns that.
 */
int cgroup_each_dir(int dir_fd, int (*each)(int dir_fd, const char *name, void *data), void *data);

/* rmdir, tried again while it answers EBUSY until @deadline_us; 0 when it is not there. */
int cgroup_rmdir_wait(int parent_fd, const char *name, int64_t deadline_us);

/* Adds to the note. */
void cgroup_note(struct cgroup_root *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- files ---- */

/* Calls @each with every process in the group until it returns non-zero, and returns that. */
int cgroup_each_pid(int dir_fd, int (*each)(pid_t pid, void *data), void *data);

/* The number in @file; -1 when there is none. */
static inline int64_t cgroup_read_int(int dir_fd, const char *file)
{
    char text[64], *end;
    int64_t value;

    if (io_read_text_at(dir_fd, file, text, sizeof text) <= 0)
        return -1;
    errno = 0;
    value = strtoll(text, &end, 10);
    return errno != 0 || *end != '\0' || value < 0 ? -1 : value;
}

/* The number after @key in a file of "key value" lines; -1 when there is none. */
static inline int64_t cgroup_read_key(int dir_fd, const char *file, const char *key)
{
    char text[4096];
    size_t len = strlen(key);
    char *rest = text, *line;

    if (io_read_text_at(dir_fd, file, text, sizeof text) < 0)
        return -1;
    while ((line = strsep(&rest, "\n"))) {
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return strtoll(line + len + 1, NULL, 10);
    }
    return -1;
}

static inline int cgroup_write_int(int dir_fd, const char *file, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, value);
    return io_write_text_at(dir_fd, file, text);
}

/* The descriptor of the hierarchy that has @controller; -EBADF without one. */
static inline int cgroup_dir_of(const struct cgroup_root *root, const struct cgroup *cg,
                                enum cgroup_controller controller)
{
    for (int i = 0; i < root->n_hiers; i++) {
        if (root->hiers[i].controllers & controller)
            return cg->dir_fds[i];
    }
    return -EBADF;
}
