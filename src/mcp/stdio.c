/*
 * MCP over stdio: one message per line, in both directions.
 *
 * The calling thread reads. Calls that end at once are answered from there; a call that takes time
 * has a separate thread. All output passes through the peer's outbox to one writing thread, so
 * lines do not mix and a client that does not read does not block the reader. When the client has
 * closed its side, running calls get a moment to finish, for scripts that pipe their requests in;
 * then they are cancelled.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define LINE_MAX_BYTES ((size_t) 16 * 1024 * 1024)
#define READ_BYTES     65536
#define FULL_POLL_MS   100
#define GRACE_US       USEC_PER_SEC /* clients send SIGTERM after two seconds */

struct stdio {
    struct mcp *mcp;
    struct mcp_peer *peer;
    struct caller caller;
    int in_fd, out_fd, stop_fd;
    int gone_fd;                 /* readable once nothing more can be written */
    _Atomic int64_t deadline_us; /* until when the client may read the rest; 0: forever */
    char *line;
    size_t len, size;
    bool too_long; /* the rest of the line is discarded */
};

/* ---- out ---- */

static bool is_late(void *arg)
{
    struct stdio *s = arg;
    int64_t deadline = atomic_load(&s->deadline_us);

    return deadline != 0 && clock_now_us() > deadline;
}

static void *writer_main(void *arg)
{
    struct stdio *s = arg;
    struct outbox *outbox = s->peer->outbox;
    unsigned claim = outbox_claim(outbox);
    uint64_t pos = 0, one = 1;
    char *text;
    int r;

    while ((r = outbox_next(outbox, claim, &pos, USEC_PER_SEC, &text)) >= 0) {
        autofree char *line = NULL;
        int len;

        if (r == 0)
            continue;
        len = asprintf(&line, "%s\n", text);
        free(text);
        if (len < 0 || io_write_patiently(s->out_fd, line, (size_t) len, is_late, s) < 0)
            break;
    }
    (void) outbox_claim(outbox); /* anything put there now is discarded */
    outbox_close(outbox);
    (void) !write(s->gone_fd, &one, sizeof one);
    return NULL;
}

/* ---- in ---- */

static void deliver(struct stdio *s, struct mcp_call *call)
{
    char *text;

    if (mcp_call_takes_time(call)) {
        mcp_call_detach(call);
        return;
    }
    while (mcp_call_next(call, 0, &text) > 0)
        (void) outbox_put(s->peer->outbox, text, PUT_FORCE);
    mcp_call_unref(call);
}

static void take_line(struct stdio *s, const char *line, size_t len)
{
    const struct mcp_arrival arrival = { .transport = MCP_STDIO,
                                         .caller = &s->caller,
                                         .peer = s->peer };
    struct mcp_call *call;

    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
        len--;
    if (len == 0)
        return;
    call = mcp_receive(s->mcp, &arrival, line, len);
    if (call)
        deliver(s, call);
}

static void refuse_long(struct stdio *s)
{
    const struct mcp_arrival arrival = { .transport = MCP_STDIO,
                                         .caller = &s->caller,
                                         .peer = s->peer };
    struct mcp_call *call = call_new(s->mcp, &arrival);

    if (!call)
        return;
    call_fail(call, MCP_INVALID_REQUEST, "the message is longer than %zu bytes", LINE_MAX_BYTES);
    deliver(s, call);
}

static int keep(struct stdio *s, const char *data, size_t len)
{
    char *grown;

    if (s->too_long)
        return 0;
    if (s->len + len > LINE_MAX_BYTES) {
        s->too_long = true;
        s->len = 0;
        refuse_long(s);
        return 0;
    }
    if (s->len + len > s->size) {
        size_t size = (s->len + len) * 2;

        grown = realloc(s->line, size);
        if (!grown)
            return -ENOMEM;
        s->line = grown;
        s->size = size;
    }
    memcpy(s->line + s->len, data, len);
    s->len += len;
    return 0;
}

static int take_data(struct stdio *s, const char *data, size_t len)
{
    const char *end;

    while ((end = memchr(data, '\n', len))) {
        size_t part = (size_t) (end - data);

        if (keep(s, data, part) < 0)
            return -ENOMEM;
        if (!s->too_long)
            take_line(s, s->line ? s->line : "", s->len);
        s->too_long = false;
        s->len = 0;
        data = end + 1;
        len -= part + 1;
    }
    return keep(s, data, len);
}

/* 1 at the end of the input, 0 when told to stop. */
static int read_all(struct stdio *s)
{
    char buf[READ_BYTES];
    struct pollfd fds[] = { { s->in_fd, POLLIN, 0 },
                            { s->gone_fd, POLLIN, 0 },
                            { s->stop_fd, POLLIN, 0 } };

    for (;;) {
        /* While a client does not read, nothing is read from it, but it may still disconnect. */
        bool full = outbox_is_full(s->peer->outbox);
        ssize_t n;

        fds[0].events = full ? 0 : POLLIN;
        if (poll(fds, ARRAY_LEN(fds), full ? FULL_POLL_MS : -1) < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (fds[1].revents || fds[2].revents)
            return 0;
        if (full) {
            if (fds[0].revents)
                return 1;
            continue;
        }
        n = read(s->in_fd, buf, sizeof buf);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        if (take_data(s, buf, (size_t) n) < 0)
            return -ENOMEM;
    }
    if (s->len > 0 && !s->too_long)
        take_line(s, s->line, s->len); /* the last line may lack its newline */
    return 1;
}

int mcp_stdio(struct mcp *mcp, int in_fd, int out_fd, int stop_fd, struct gb_err *err)
{
    struct stdio s = { .mcp = mcp, .in_fd = in_fd, .out_fd = out_fd, .stop_fd = stop_fd };
    pthread_t writer;
    int r;

    s.caller = (struct caller){ .listener = "stdio", .limits = { -1, -1, -1 } };
    s.gone_fd = eventfd(0, EFD_CLOEXEC);
    if (s.gone_fd < 0)
        return gb_fail(err, errno, "serve stdio");
    r = mcp_peer_new(mcp, MCP_STDIO, &s.caller, true, &s.peer);
    if (r == 0) {
        r = pthread_create(&writer, NULL, writer_main, &s);
        if (r == 0) {
            r = read_all(&s);
            if (r > 0)
                peer_wait_idle(mcp, GRACE_US);
            atomic_store(&s.deadline_us, clock_now_us() + GRACE_US);
            mcp_peer_end(s.peer);
            pthread_join(writer, NULL);
        } else {
            r = -r;
            mcp_peer_end(s.peer);
        }
        mcp_peer_unref(s.peer);
    }
    free(s.line);
    (void) close(s.gone_fd);
    return r < 0 ? gb_fail(err, -r, "serve stdio") : 0;
}
