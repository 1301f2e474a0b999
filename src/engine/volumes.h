/*
 * Directories of the host in boxes.
 *
 * The operator lists directories. A box may have any directory beneath one of them, at a place of
 * its own choice, and writes to it only where the operator's entry says so. volumes.c has the
 * rules, box/volumes.c the mounts, seal/volumes.c what PID 1 of a box does with them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VOLUMES_MAX       16 /* of one box */
#define VOLUME_ROOTS_MAX  64
#define VOLUME_SOURCE_MAX 4096 /* with its end */
#define VOLUME_TARGET_MAX 256

/* One of the operator's entries. */
struct volume_root {
    const char *path; /* absolute, without "." and ".." in it; may end in a slash */
    bool writable;
};

enum volume_mode {
    VOLUME_RO,
    VOLUME_RW,
    VOLUME_AUTO, /* what the operator's entry says */
};

/* What a box is to have. */
struct volume {
    const char *source; /* on the host: absolute, beneath one of the operator's */
    const char *target; /* in the box */
    enum volume_mode mode;
};

/* Reads an entry such as "/srv/data" or "/srv/data:rw"; the text is cut short for it. */
void volume_root_parse(char *text, struct volume_root *ret_root);

/* Checks a list against the operator's entries and settles VOLUME_AUTO. It does not look at the
 * host's files. @ret_at (may be NULL) is the one at fault. -EINVAL: a path is malformed, or the
 * place in the box is not for this; -EACCES: the operator does not allow it; -E2BIG: too many. */
int volumes_settle(const struct volume_root *roots, size_t roots_len, struct volume *list,
                   size_t len, size_t *ret_at, struct gb_err *err);

/* Whether these can be an operator's entries: see volume_roots_open(). Refuses those that lie in
 * each other too: who has the outer one writable would have the inner one so. */
int volume_roots_check(const struct volume_root *roots, size_t len, struct gb_err *err);

/* ---- the engine's own ---- */

/* The operator's entries as they were found when the engine was opened. */
struct volume_roots;

/* Refuses what is no directory, is "/" or one of the kernel's own file systems or holds one.
 * @ret_roots is NULL when there are none. */
int volume_roots_open(const struct volume_root *roots, size_t len, struct volume_roots **ret_roots,
                      struct gb_err *err);
void volume_roots_close(struct volume_roots *roots); /* accepts NULL */

/* A memory file that tells a builder of all of them; -EBADF when there are none. */
int volume_roots_list(const struct volume_roots *roots, int *ret_fd, struct gb_err *err);

/* The same of what one box is to have. */
int volumes_list(const struct volume_roots *roots, const struct volume *volumes, size_t len,
                 int *ret_fd, struct gb_err *err);

/* In those files: each record is followed by its strings, which end with NUL. */
struct volume_root_record {
    uint64_t dev, ino; /* which directory it was */
    uint32_t writable;
    uint32_t path_len; /* without the end */
};

struct volume_record {
    uint32_t root; /* index into the operator's */
    uint32_t writable;
    uint32_t path_len, target_len; /* beneath the root, "." for itself; in the box */
};
