/*
 * The complete text of one output stream, kept during and after an execution, for any number of
 * readers.
 *
 * One thread appends, in the middle of a run; it must never wait for a reader. Small output stays
 * in memory. Larger output goes to an unnamed file, so nothing is left behind however the process
 * ends. Bytes for which a budget or the disk has no room are counted but not kept, except for the
 * beginning and the end of the stream, which the receipt shows in any case.
 *
 * @lock guards the members. The bytes of the file below @kept never change, so they are read and
 * written without it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/outbuf.h"

#define OUTPUT_LOG_MEMORY ((size_t) 64 * 1024)

/* The disk space that several logs share. Any thread. */
struct output_budget {
    _Atomic int64_t disk_used;
    int64_t disk_max;
};

struct output_log {
    pthread_mutex_t *lock;
    const char *dir;                  /* for the file */
    struct output_budget *budgets[2]; /* all must have room; NULL: none */
    char *mem;                        /* all of it, until there is a file */
    size_t mem_cap;
    int fd;        /* -1: no file yet */
    int64_t total; /* bytes received */
    int64_t kept;  /* bytes that can be read, from the start */
    bool stopped;  /* nothing more is kept */
    /* of the appending thread */
    size_t reply_bytes; /* how much of the stream is in the receipt */
    struct outbuf ends; /* that part of the stream, once stopped */
};

/* @lock and @dir must outlive the log. */
void output_log_init(struct output_log *log, pthread_mutex_t *lock, const char *dir,
                     struct output_budget *own, struct output_budget *shared, size_t reply_bytes);
/* Returns its budget too. */
void output_log_release(struct output_log *log);

/* Appends bytes; never fails and never waits for more than a write to the disk. Without @lock. */
void output_log_append(struct output_log *log, const void *data, size_t len);

/* After the last byte, by the appending thread, once: the stream as the receipt shows it, cut like
 * outbuf_take() does. A stream that is entirely in memory is not copied: @ret_cut->head is then
 * @log->mem and still belongs to the log. 0 or -ENOMEM. */
int output_log_cut(struct output_log *log, struct stream_cut *ret_cut);

/* Reads up to @size bytes from @offset, without @lock; 0 where nothing is kept (yet), or -errno. */
ssize_t output_log_read(struct output_log *log, int64_t offset, char *buf, size_t size);
