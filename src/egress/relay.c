/*
 * The loop: do everything that can be done without waiting; if there was nothing to do, wait for
 * the descriptors that would change that.
 *
 * Each direction has one buffer of fixed size, and is not read while the buffer holds data: a slow
 * side slows down the other. Only the body of a request is forwarded, never a byte after it. The
 * head of a reply is rewritten; its body is forwarded as is until the server closes.
 */
#include "egress/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/autoclean.h"
#include "base/clock.h"

#include "base/banned.h"

#define UP_BYTES   16384
#define DOWN_BYTES (REPLY_HEAD_MAX + 4096)

struct state {
    struct relay *relay;
    char *up; /* from the client */
    size_t up_at, up_len;
    bool up_done, up_finished; /* nothing more will come; and the server knows */
    char *down;                /* from the server */
    size_t down_len, down_sure;
    bool down_end;
    bool in_head;
    char *head; /* of the reply, rewritten */
    size_t head_at, head_len;
    bool moved;
};

/* ---- client to server ---- */

/* Takes the bytes that belong to the request; those after it are dropped. */
static int up_take(struct state *s, size_t len)
{
    ssize_t n = (ssize_t) len;

    if (!s->relay->tunnel) {
        n = body_reader_feed(&s->relay->body, s->up, len);
        if (n < 0)
            return -EPROTO;
        s->up_done = body_reader_done(&s->relay->body);
    }
    s->up_at = 0;
    s->up_len = (size_t) n;
    return 0;
}

static int up_read(struct state *s)
{
    ssize_t n;

    if (s->up_done || s->up_len > 0)
        return 0;
    n = recv(s->relay->client, s->up, UP_BYTES, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    s->moved = true;
    if (n == 0) {
        s->up_done = true;
        return s->relay->tunnel ? 0 : -EPIPE;
    }
    return up_take(s, (size_t) n);
}

static int up_write(struct state *s)
{
    struct relay *relay = s->relay;
    ssize_t n;

    if (s->up_len > 0) {
        n = upstream_write(relay->up, s->up + s->up_at, s->up_len);
        if (n == -EAGAIN || n == -EINTR)
            return 0;
        if (n < 0) {
            /* The server may have answered already and not want the rest. */
            s->up_len = 0;
            s->up_done = s->up_finished = true;
            return relay->tunnel ? (int) n : 0;
        }
        s->up_at += (size_t) n;
        s->up_len -= (size_t) n;
        s->moved = true;
        if (!proxy_count(relay->proxy, relay->host, relay->port, n, 0))
            return -EDQUOT;
    }
    if (s->up_done && s->up_len == 0 && !s->up_finished) {
        s->up_finished = true;
        if (relay->tunnel) /* the head of a request says where it ends */
            upstream_finish(relay->up);
    }
    return 0;
}

/* ---- server to client ---- */

static int down_read(struct state *s)
{
    struct relay *relay = s->relay;
    size_t room = DOWN_BYTES - s->down_len;
    ssize_t n;

    if (s->down_end || room == 0 || (!s->in_head && s->down_sure > 0))
        return 0;
    n = upstream_read(relay->up, s->down + s->down_len, room);
    if (n == -EAGAIN || n == -EINTR)
        return 0;
    if (n < 0)
        return (int) n;
    s->moved = true;
    s->down_end = n == 0;
    s->down_len += (size_t) n;
    s->down_sure = mask_apply(&relay->mask, s->down, s->down_len, s->down_end);
    /* Counted before the client sees it, so that everything a program has seen is in its
     * receipt. */
    return proxy_count(relay->proxy, relay->host, relay->port, 0, n) ? 0 : -EDQUOT;
}

static void down_drop(struct state *s, size_t len)
{
    memmove(s->down, s->down + len, s->down_len - len);
    s->down_len -= len;
    s->down_sure -= len;
}

static int down_head(struct state *s)
{
    int status, n;

    while (s->in_head) {
        n = reply_head_rewrite(s->down, s->down_sure, s->head, DOWN_BYTES, &status, &s->head_len);
        if (n == 0 && !s->down_end)
            return 0;
        if (n <= 0 || status == 101)
            return -EBADMSG;
        down_drop(s, (size_t) n);
        s->in_head = status < 200; /* 100 and its like: the real one follows */
        s->moved = true;
    }
    return 0;
}

static int client_write(struct state *s, const char *data, size_t len, size_t *ret_len)
{
    ssize_t n = send(s->relay->client, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

    *ret_len = 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    s->relay->answered = true;
    s->moved = true;
    *ret_len = (size_t) n;
    return 0;
}

static int down_write(struct state *s)
{
    size_t n;
    int r;

    if (s->in_head)
        return 0;
    if (s->head_at < s->head_len) {
        r = client_write(s, s->head + s->head_at, s->head_len - s->head_at, &n);
        s->head_at += n;
        return r;
    }
    if (s->down_sure == 0)
        return 0;
    r = client_write(s, s->down, s->down_sure, &n);
    down_drop(s, n);
    return r;
}

static bool down_flushed(const struct state *s)
{
    return s->down_end && !s->in_head && s->head_at == s->head_len && s->down_len == 0;
}

/* ---- both ---- */

static bool is_over(struct state *s)
{
    if (!down_flushed(s))
        return false;
    if (!s->relay->tunnel)
        return true;
    (void) shutdown(s->relay->client, SHUT_WR);
    return s->up_done && s->up_len == 0;
}

static int wait_more(struct state *s, int64_t deadline_us)
{
    bool to_client = !s->in_head && (s->head_at < s->head_len || s->down_sure > 0);
    bool from_server = !s->down_end && s->down_len < DOWN_BYTES && !to_client;
    short up_events = (short) ((from_server ? POLLIN : 0) | (s->up_len > 0 ? POLLOUT : 0));
    struct pollfd fds[3] = {
        { .fd = s->relay->client,
          .events =
              (short) ((!s->up_done && s->up_len == 0 ? POLLIN : 0) | (to_client ? POLLOUT : 0)) },
        /* A descriptor that only reports a hangup would wake us over and over. */
        { .fd = up_events ? s->relay->up->fd : -1, .events = up_events },
    };
    int r;

    if (from_server && upstream_pending(s->relay->up))
        return 0;
    r = proxy_wait(s->relay->proxy, fds, 2, deadline_us);
    if (r < 0)
        return r;
    if ((fds[0].revents & (POLLHUP | POLLERR)) && !(fds[0].revents & POLLIN))
        return -EPIPE; /* the client is gone */
    return 0;
}

static int step(struct state *s)
{
    int r;

    if ((r = up_read(s)) < 0 || (r = up_write(s)) < 0 || (r = down_read(s)) < 0 ||
        (r = down_head(s)) < 0)
        return r;
    return down_write(s);
}

static int loop(struct state *s)
{
    int64_t deadline_us = clock_now_us() + s->relay->proxy->limits.idle_us;
    int r;

    for (;;) {
        s->moved = false;
        if ((r = step(s)) < 0)
            return r;
        if (is_over(s))
            return 0;
        if (s->moved)
            deadline_us = clock_now_us() + s->relay->proxy->limits.idle_us;
        else if ((r = wait_more(s, deadline_us)) < 0)
            return r;
    }
}

int relay_run(struct relay *relay)
{
    autofree char *up = malloc(UP_BYTES), *down = malloc(DOWN_BYTES);
    autofree char *head = relay->tunnel ? NULL : malloc(DOWN_BYTES);
    struct state s = { .relay = relay,
                       .up = up,
                       .down = down,
                       .head = head,
                       .in_head = !relay->tunnel,
                       .up_done = !relay->tunnel && body_reader_done(&relay->body) };
    int r;

    if (!up || !down || (!relay->tunnel && !head))
        return -ENOMEM;
    if (relay->first_len > 0 && !s.up_done) {
        memcpy(up, relay->first, relay->first_len); /* no more than a head may have: UP_BYTES */
        if ((r = up_take(&s, relay->first_len)) < 0)
            return r;
    }
    return loop(&s);
}
