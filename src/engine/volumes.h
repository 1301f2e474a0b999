/*
 * Directories of the host in boxes.
 *
 * The operator lists directories. A box may mount any directory beneath one of them, wherever it
 * likes, and may write to it only if the operator's entry says so. volumes.c has the rules,
 * box/volumes.c the mounts, seal/volumes.c what PID 1 of a box does with them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VOLUMES_MAX       16 /* of one box */
#define VOLUME_ROOTS_MAX  64
#define VOLUME_SOURCE_MAX 4096 /* with its NUL */
#define VOLUME_TARGET_MAX 256

/* One of the operator's entries. */
struct volume_root {
    const char *path; /* absolute, without "." and ".." in it; may end in a slash */
    bool writable;
};

enum volume_mode {
    VOLUME_RO,
    VOLUME_RW,
    VOLUME_AUTO, /* as the operator's entry says */
};

/* A volume of a box. */
struct volume {
    const char *source; /* on the host: absolute, beneath one of the operator's directories */
    const char *target; /* in the box */
    enum volume_mode mode;
};

/* Parses an entry such as "/srv/data" or "/srv/data:rw"; cuts off the suffix in the text. */
void volume_root_parse(char *text, struct volume_root *ret_root);

/* Checks a list against the operator's entries and resolves VOLUME_AUTO. It does not look at the
 * host's files. @ret_at (may be NULL) is the one at fault. -EINVAL: a path is malformed, or the
 * place in the box is reserved; -EACCES: the operator does not allow it; -E2BIG: too many. */
int volumes_settle(const struct volume_root *roots, size_t roots_len, struct volume *list,
                   size_t len, size_t *ret_at, struct gb_err *err);

/* Whether these can be an operator's entries: see volume_roots_open(). Also refuses entries that
 * contain each other: if the outer one is writable, the inner one would be too. */
int volume_roots_check(const struct volume_root *roots, size_t len, struct gb_err *err);

/* ---- internal to the engine ---- */

/* The operator's entries as they were found when the engine was opened. */
struct volume_roots;

/* Refuses anything that is not a directory, and "/", kernel file systems and directories that
 * contain one. @ret_roots is NULL when there are none. */
int volume_roots_open(const struct volume_root *roots, size_t len, struct volume_roots **ret_roots,
                      struct gb_err *err);
void volume_roots_close(struct volume_roots *roots); /* accepts NULL */

/* A memory file that lists all of them for the builder; -EBADF if there are none. */
int volume_roots_list(const struct volume_roots *roots, int *ret_fd, struct gb_err *err);

/* The same for the volumes of one box. */
int volumes_list(const struct volume_roots *roots, const struct volume *volumes, size_t len,
                 int *ret_fd, struct gb_err *err);

/* In those files: each record is followed by its strings, which end with NUL. */
struct volume_root_record {
    uint64_t dev, ino; /* identifies the directory */
    uint32_t writable;
    uint32_t path_len; /* without the NUL */
};

struct volume_record {
    uint32_t root; /* index into the operator's entries */
    uint32_t writable;
    uint32_t path_len, target_len; /* beneath the root, "." for itself; in the box */
};
