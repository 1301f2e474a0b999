/*
 * A reader of ours may be slow, and our deadlines must be kept all the same: so a write is made only
 * when poll() says that it will not wait, in pieces that a pipe takes whole, and what does not go
 * out is kept until it does. Meanwhile nothing is read from the tenant, which then waits itself.
 * O_NONBLOCK would be simpler, but it belongs to the open file, which we share with the shell.
 */
#include "cli/out_stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "cli/term_filter.h"

#include "base/banned.h"

#define CHUNK_MAX 65536u

struct out_stream {
    int fd;
    bool terminal, broken;
    struct term_filter filter;
    size_t start, len;
    char pending[TERM_FILTER_OUT_SIZE(CHUNK_MAX)];
};

struct out_streams {
    struct out_stream stream[2];
};

int out_streams_new(struct out_streams **ret_streams)
{
    struct out_streams *streams = calloc(1, sizeof *streams);

    if (!streams)
        return -ENOMEM;
    for (int i = 0; i < 2; i++) {
        streams->stream[i].fd = i + 1;
        streams->stream[i].terminal = isatty(i + 1);
        term_filter_init(&streams->stream[i].filter);
    }
    *ret_streams = streams;
    return 0;
}

static int push(struct out_stream *out)
{
    while (out->len > 0) {
        struct pollfd ready = { .fd = out->fd, .events = POLLOUT };
        size_t piece = out->len < PIPE_BUF ? out->len : PIPE_BUF;
        ssize_t n;

        if (poll(&ready, 1, 0) <= 0)
            return 0;
        n = write(out->fd, out->pending + out->start, piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0) {
            out->broken = true;
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
        /* Only when draining after the end: there is nothing left that a wait could harm. */
        if (out->len > 0 && io_write_all(out->fd, out->pending + out->start, out->len) < 0)
            out->broken = true;
        out->start = 0;
        if (out->terminal) {
            out->len = term_filter_run(&out->filter, data, part, out->pending);
        } else {
            memcpy(out->pending, data, part);
            out->len = part;
        }
        r = push(out);
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
    return push(&((struct out_streams *) arg)->stream[stream]);
}

struct run_sink out_streams_sink(struct out_streams *streams)
{
    return (struct run_sink){
        .arg = streams, .write = sink_write, .blocked_fd = sink_blocked_fd, .flush = sink_flush
    };
}

void out_streams_free(struct out_streams *streams)
{
    char restore[TERM_FILTER_SLACK];

    if (!streams)
        return;
    for (int i = 0; i < 2; i++) {
        struct out_stream *out = &streams->stream[i];

        if (out->len > 0 && !out->broken)
            (void) io_write_all(out->fd, out->pending + out->start, out->len);
        if (out->terminal && !out->broken)
            (void) io_write_all(out->fd, restore, term_filter_end(&out->filter, restore));
    }
    free(streams);
}
