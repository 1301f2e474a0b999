/*
 * The result of one execution, as plain data; src/service/execution/receipt.c turns it into the
 * JSON that users see. Every verdict in it is ours: from wait(), from the cgroup's counters, from
 * our clock. Only the members under "reported by the tenant" are its own claims.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/limits.h"

enum run_status {
#define STATUS(name, ...) RUN_##name,
#include "base/words/status.def"
};

/* The exit codes of statuses that have a fixed one; the others are -1. */
enum {
#define STATUS(name, word, exit_code, ...) RUN_EXIT_##name = (exit_code),
#include "base/words/status.def"
};

/* "ok", "error", ... as in the receipt. */
const char *run_status_name(enum run_status status);

enum file_change { FILE_CREATED, FILE_MODIFIED, FILE_DELETED };

struct file_entry {
    char *path; /* beneath the workspace; any bytes but NUL */
    int64_t size;
    enum file_change change;
};

/* One stream of output, cut to the reply's budget: @head, then @left_out bytes that are missing,
 * then @tail. Raw bytes. */
struct stream_cut {
    char *head, *tail;
    size_t head_len, tail_len;
    int64_t left_out;
};

/* A MIME bundle as the tenant sent it: bytes that claim to be JSON. */
struct bundle {
    char *json;
    size_t len;
    int64_t out, err; /* of a display: how many bytes of each stream came before it */
};

struct outcome {
    enum run_status status;
    enum limit_kind limit; /* the limit that stopped the run */
    int exit_code;
    int64_t wall_us; /* -1 below: unknown on this host */
    int64_t cpu_us;
    int64_t memory_peak_bytes;
    int64_t oom_kills;       /* processes that the kernel killed for memory */
    int64_t processes;       /* most at one time, or 1 if unknown on this host */
    bool memory_peak_is_box; /* the peak is that of the box's whole lifetime: it cannot be reset on
                                this host */
    bool lost;               /* of a resident or a shell: it has exited, and its state is gone */
    struct stream_cut out, err;
    struct file_entry *files;
    size_t files_len;
    bool files_incomplete; /* the scan stopped at its bound */

    /* reported by the tenant; NULL if it did not */
    char *error_name, *error_value, *error_traceback;
    size_t error_name_len, error_value_len, error_traceback_len;
    struct bundle result; /* of a cell; json is NULL if there is none */
    struct bundle *outputs;
    size_t outputs_len, outputs_bytes; /* outputs_bytes: with the result */
    int64_t outputs_left_out;          /* displays that exceeded a cap, here or in the tenant */
};

/* Keep a copy of a bundle, within the caps of frame.h; bundles beyond them are only counted. The
 * first result wins. Return 0 or -ENOMEM. */
int outcome_add_output(struct outcome *outcome, const void *json, size_t len);
int outcome_set_result(struct outcome *outcome, const void *json, size_t len);

/* Frees what the members own; accepts a half-filled outcome. */
void outcome_release(struct outcome *outcome);
