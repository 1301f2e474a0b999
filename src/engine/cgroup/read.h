/* Finding and reading the cgroups of a host; for the backends, and for the doctor. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

enum cgroup_controller {
    CG_MEMORY = 1 << 0,
    CG_PIDS = 1 << 1,
    CG_CPU = 1 << 2,
    CG_CPUACCT = 1 << 3, /* v1 only; on v2 it needs no controller */
};

/* A mount of cgroupfs; the strings point into the line it was parsed from. */
struct cgroup_mount {
    bool v2;
    const char *root, *point, *options;
};

/* Parses one line of mountinfo in place; false if it is not a cgroup mount. */
bool cgroup_mount_parse(char *line, struct cgroup_mount *ret_mount);

/* The path in a line of /proc/self/cgroup if it is about @controller (NULL: v2), else NULL. */
const char *cgroup_self_parse(char *line, const char *controller);

/* The path of group @own relative to a mount with @root; NULL when the mount does not show it. */
static inline const char *cgroup_path_below(const char *root, const char *own)
{
    size_t len = strlen(root);

    /* In a cgroup namespace, paths above its root begin like this. */
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
 * (the one above it if we are in an engine's leaf), or the topmost group that the mount shows.
 * -ENOENT when the hierarchy is not mounted. */
int cgroup_place_open(const char *controller, enum cgroup_place place, int *ret_fd,
                      unsigned *ret_controllers);

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
