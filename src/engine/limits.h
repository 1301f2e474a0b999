/*
 * What a run may use. Plain data: filled from the option table, checked once, then copied to the
 * builder and the template as it is.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct limits {
    int64_t wall_us;
    int64_t cpu_us;       /* of all processes together; 0: no limit of its own */
    int64_t memory_bytes; /* everything: heap, tmpfs, page cache of the box, kernel memory */
    int64_t cpu_milli;    /* share of the machine, 1000 is one core */
    int64_t pids;         /* processes and threads of the tenant and its children */
    int64_t disk_bytes;   /* of /workspace; /tmp and /dev/shm have the same each */
    int64_t disk_inodes;
    int64_t file_bytes;   /* largest single file */
    int64_t open_files;   /* per process */
    int64_t output_bytes; /* of each stream, before the run is ended for it */
};

/* The limit that ended a run. */
enum limit_kind {
    LIMIT_NONE,
    LIMIT_WALL_TIME,
    LIMIT_CPU_TIME,
    LIMIT_MEMORY,
    LIMIT_PIDS,
    LIMIT_DISK_BYTES,
    LIMIT_DISK_INODES,
    LIMIT_FILE_SIZE,
    LIMIT_OUTPUT,
};

/* The name used in receipts, such as "wall_time"; NULL for LIMIT_NONE. */
const char *limit_kind_name(enum limit_kind kind);

/* The defaults of a one-shot run. */
void limits_default(struct limits *limits);

/* Refuses what cannot work; the message names the limit and the range. */
int limits_check(const struct limits *limits, struct gb_err *err);
