/*
 * The reader of our output may be slow, and deadlines must be kept all the same: so we write only
 * when poll() says that the write will not block, in pieces that a pipe takes at once, and keep the
 * rest until it can be written. Meanwhile nothing is read from the tenant, which then blocks
 * itself. O_NONBLOCK would be simpler, but it belongs to the open file, which we share with the
 * shell.
 *
 * A terminal is writable for poll() while it has room for one byte, and a write would wait for the
 * rest: it is opened again, and that open file can be non-blocking. Where it may not be opened (it
 * belongs to another user) it is treated like a pipe.
 */
#include "cli/terminal/out_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "cli/terminal/term_filter.h"

#include "base/banned.h"

#define CHUNK_MAX 65536u

enum { PUSH_NOW = 0, PUSH_ALL = -1 }; /* timeouts of poll() */

struct out_stream {
    int fd;
    int own_fd; /* the terminal, opened again; -EBADF: fd is not ours to close */
    bool terminal, broken;
    int error; /* why it is broken */
    struct term_filter filter;
    size_t start, len;
    char pending[TERM_FILTER_OUT_SIZE(CHUNK_MAX)];
};

struct out_streams {
    struct out_stream stream[2];
};

static int terminal_reopen(int fd)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int out_streams_new(struct out_streams **ret_streams)
{
    struct out_streams *streams = calloc(1, sizeof *streams);

    if (!streams)
        return -ENOMEM;
    for (int i = 0; i < 2; i++) {
        struct out_stream *out = &streams->stream[i];

        out->terminal = isatty(i + 1);
        out->own_fd = out->terminal ? terminal_reopen(i + 1) : -EBADF;
        out->fd = out->own_fd >= 0 ? out->own_fd : i + 1;
        term_filter_init(&out->filter);
    }
    *ret_streams = streams;
    return 0;
}

/* PUSH_NOW: whatever can be written without waiting. PUSH_ALL: everything, even where someone else
 * has made the open file non-blocking. */
static int push(struct out_stream *out, int timeout)
{
    while (out->len > 0) {
        struct pollfd ready = { .fd = out->fd, .events = POLLOUT };
        size_t piece = out->len < PIPE_BUF ? out->len : PIPE_BUF;
        ssize_t n;

        if (poll(&ready, 1, timeout) <= 0 && timeout == PUSH_NOW)
            return 0;
        n = write(out->fd, out->pending + out->start, piece);
        if (n < 0 && errno == EAGAIN && timeout == PUSH_NOW)
            return 0;
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0) {
            out->broken = true;
            out->error = errno;
            out->len = 0;
            return -errno;
        }
        out->start += (size_t) n;
        out->len -= (size_t) n;
    }
    return 0;
}

static int sink_write(void *arg, enum stream stream, const char *data, size_t len)
{
    struct out_stream *out = &((struct out_streams *) arg)->stream[stream];

    while (len > 0) {
        size_t part = len < CHUNK_MAX ? len : CHUNK_MAX;
        int r;

        if (out->broken)
            return -EPIPE;
        /* Only when draining after the end: waiting no longer does any harm. */
        r = push(out, PUSH_ALL);
        if (r < 0)
            return r;
        out->start = 0;
        if (out->terminal) {
            out->len = term_filter_run(&out->filter, data, part, out->pending);
        } else {
            memcpy(out->pending, data, part);
            out->len = part;
        }
        r = push(out, PUSH_NOW);
        if (r < 0)
            return r;
        data += part;
        len -= part;
    }
    return 0;
}

static int sink_blocked_fd(void *arg, enum stream stream)
{
    const struct out_stream *out = &((struct out_streams *) arg)->stream[stream];

    return out->len > 0 ? out->fd : -1;
}

static int sink_flush(void *arg, enum stream stream)
{
    return push(&((struct out_streams *) arg)->stream[stream], PUSH_NOW);
}

struct run_sink out_streams_sink(struct out_streams *streams)
{
    return (struct run_sink){
        .arg = streams, .write = sink_write, .blocked_fd = sink_blocked_fd, .flush = sink_flush
    };
}

int out_streams_free(struct out_streams *streams)
{
    int lost = 0;

    if (!streams)
        return 0;
    for (int i = 0; i < 2; i++) {
        struct out_stream *out = &streams->stream[i];

        (void) push(out, PUSH_ALL);
        if (out->terminal && !out->broken) {
            out->start = 0;
            out->len = term_filter_end(&out->filter, out->pending);
            (void) push(out, PUSH_ALL);
        }
        gb_closep(&out->own_fd);
        if (out->broken && out->error != EPIPE)
            lost = -out->error;
    }
    free(streams);
    return lost;
}
