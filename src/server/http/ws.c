/*
 * The life of a WebSocket.
 *
 * The request arrives like any other: framing, Host, Origin and key are checked, the route is
 * found, its handler calls ws_accept(). The library writes the 101 and calls on_upgrade() on the
 * connection's thread, which stays there until the socket ends: it reads, writes and handles
 * timeouts. Other threads only put messages into the codec's queue and wake it through an eventfd.
 *
 * Nothing grows without bound. The handler limits the size of a message and of the send queue; if
 * the queue is full, senders wait. While too many frames are queued (a client that sends pings and
 * does not read the pongs) nothing is read.
 *
 * Time. A client that is silent for keepalive_us gets a ping; if it sends nothing for idle_us, not
 * even a pong, or reads nothing for that long, it is closed. After a close the other side has
 * CLOSE_US for its own. A caller who would not be let in any more is closed, too: who has lost a
 * key or an account must not keep a shell.
 *
 * The library must not be stopped while a socket is upgraded (it would free the connection while
 * our thread uses it), so ws_stop() waits until it has taken them all back.
 */
#include "server/http/ws.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define READ_BYTES   4096
#define WRITE_BYTES  16384
#define FRAMES_MAX   64 /* queued frames above which nothing is read */
#define CHECK_US     (2 * USEC_PER_SEC)
#define CLOSE_US     (2 * USEC_PER_SEC)
#define UNSENT_BYTES (64 * 1024)
#define LINGER_US    USEC_PER_SEC
#define LINGER_MAX   (1 << 20) /* bytes */

struct ws {
    struct ws *prev, *next; /* in the server's ring, under its lock */
    struct request *rq;
    const struct ws_handlers *handlers;
    void *arg;
    bool runs; /* under the server's lock: the connection's thread is in on_upgrade() */

    int fd, wake_fd;
    pthread_mutex_t lock; /* guards codec, ended */
    pthread_cond_t room;
    struct ws_codec *codec;
    bool ended;

    int64_t heard_us, pinged_us, moved_us, checked_us;
    int64_t closing_us; /* 0 while open */
    char out[WRITE_BYTES];
    size_t out_len, out_used;
};

/* ---- from any thread ---- */

void ws_wake(struct ws *ws)
{
    uint64_t one = 1;

    (void) !write(ws->wake_fd, &one, sizeof one);
}

static bool has_room(const struct ws *ws, size_t len)
{
    size_t queued = ws_codec_queued_bytes(ws->codec);

    /* One message always fits, of any size. */
    return queued == 0 ||
           (len <= ws->handlers->queue_bytes_max && queued <= ws->handlers->queue_bytes_max - len);
}

int ws_send(struct ws *ws, enum ws_kind kind, const void *data, size_t len, int64_t wait_us)
{
    int64_t until_us = clock_now_us() + wait_us;
    struct timespec until = { .tv_sec = until_us / USEC_PER_SEC,
                              .tv_nsec = until_us % USEC_PER_SEC * 1000 };
    int r = 0;

    pthread_mutex_lock(&ws->lock);
    while (r == 0 && !ws->ended && !ws_codec_is_closing(ws->codec) && !has_room(ws, len))
        r = wait_us > 0 ? pthread_cond_timedwait(&ws->room, &ws->lock, &until) : ETIMEDOUT;
    if (ws->ended)
        r = -EPIPE;
    else if (r != 0)
        r = -EAGAIN;
    else
        r = ws_codec_send(ws->codec, kind, data, len);
    pthread_mutex_unlock(&ws->lock);
    if (r == 0)
        ws_wake(ws);
    return r;
}

void ws_close(struct ws *ws, enum ws_code code, const char *reason)
{
    pthread_mutex_lock(&ws->lock);
    ws_codec_close(ws->codec, code, reason);
    pthread_cond_broadcast(&ws->room);
    pthread_mutex_unlock(&ws->lock);
    ws_wake(ws);
}

/* ---- on the connection's thread ---- */

/* Prepares bytes to write, if there are any. Returns false when everything is done. */
static bool prepare(struct ws *ws, short *ret_events)
{
    bool reads, goes_on, welcome = !ws->handlers->reads || ws->handlers->reads(ws, ws->arg);

    pthread_mutex_lock(&ws->lock);
    if (ws->out_used == ws->out_len) {
        ws->out_used = 0;
        ws->out_len = ws_codec_output(ws->codec, ws->out, sizeof ws->out);
        pthread_cond_broadcast(&ws->room);
    }
    reads = ws_codec_reads(ws->codec);
    goes_on = reads || ws->out_len > ws->out_used || ws_codec_writes(ws->codec);
    /* Once we close, only the client's answer to that matters. */
    welcome = welcome || ws_codec_is_closing(ws->codec);
    if (!welcome)
        ws->heard_us = clock_now_us(); /* it is we who do not listen, to answers to pings either */
    reads = reads && welcome && ws_codec_queued_frames(ws->codec) <= FRAMES_MAX;
    if (ws->closing_us == 0 && ws_codec_is_closing(ws->codec))
        ws->closing_us = clock_now_us();
    pthread_mutex_unlock(&ws->lock);
    *ret_events = (short) ((reads ? POLLIN : 0) | (ws->out_used < ws->out_len ? POLLOUT : 0));
    return goes_on;
}

/* Returns false when the socket has timed out. */
static bool keep_time(struct ws *ws)
{
    const struct server_config *config = &ws->rq->server->config;
    int64_t now = clock_now_us();

    if (ws->closing_us != 0)
        return now - ws->closing_us < CLOSE_US;
    if (now - ws->checked_us > CHECK_US) {
        ws->checked_us = now;
        if (!authenticate_stands(ws->rq))
            ws_close(ws, WS_POLICY, "the key or account is no longer valid");
    }
    if (ws->out_used < ws->out_len && now - ws->moved_us > config->idle_us)
        return false;
    if (now - ws->heard_us > config->idle_us) {
        ws_close(ws, WS_INTERNAL, "no answer to pings");
    } else if (now - ws->heard_us > config->keepalive_us &&
               now - ws->pinged_us > config->keepalive_us) {
        ws->pinged_us = now;
        pthread_mutex_lock(&ws->lock);
        (void) ws_codec_ping(ws->codec);
        pthread_mutex_unlock(&ws->lock);
    }
    return true;
}

/* Feeds the codec and delivers the messages that result. */
static void receive(struct ws *ws, const char *data, size_t len)
{
    struct ws_message *message;
    int r;

    ws->heard_us = clock_now_us();
    pthread_mutex_lock(&ws->lock);
    r = ws_codec_feed(ws->codec, data, len);
    if (r == -ENOMEM)
        ws_codec_close(ws->codec, WS_INTERNAL, "out of memory");
    message = ws_codec_take(ws->codec);
    while (message) {
        pthread_mutex_unlock(&ws->lock);
        ws->handlers->message(ws, message->kind, message->data, message->len, ws->arg);
        free(message);
        pthread_mutex_lock(&ws->lock);
        message = ws_codec_take(ws->codec);
    }
    pthread_mutex_unlock(&ws->lock);
}

static bool read_some(struct ws *ws)
{
    char buf[READ_BYTES];
    ssize_t n = recv(ws->fd, buf, sizeof buf, MSG_DONTWAIT);

    if (n > 0)
        receive(ws, buf, (size_t) n);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool write_some(struct ws *ws)
{
    ssize_t n = send(ws->fd, ws->out + ws->out_used, ws->out_len - ws->out_used,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n > 0) {
        ws->out_used += (size_t) n;
        ws->moved_us = clock_now_us();
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* One round; false when the socket has ended. */
static bool turn(struct ws *ws)
{
    int64_t slice_us = ws->rq->server->config.keepalive_us;
    struct pollfd p[2] = { { ws->fd, 0, 0 }, { ws->wake_fd, POLLIN, 0 } };
    bool was_idle = ws->out_used == ws->out_len;
    uint64_t count;

    if (!prepare(ws, &p[0].events) || !keep_time(ws))
        return false;
    if (was_idle && ws->out_len > 0)
        ws->moved_us = clock_now_us();
    slice_us = slice_us < USEC_PER_SEC ? slice_us : USEC_PER_SEC;
    if (poll(p, 2, (int) (slice_us / 1000)) < 0)
        return errno == EINTR;
    if (p[1].revents)
        (void) !read(ws->wake_fd, &count, sizeof count);
    if (p[0].revents & POLLOUT && !write_some(ws))
        return false;
    if (p[0].revents & POLLIN)
        return read_some(ws);
    return !(p[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* If a socket is closed with unread bytes it is reset, and the client may not see the reason; so
 * they are read, for a moment. A client that floods us gets the reset. */
static void linger(int fd)
{
    int64_t until = clock_now_us() + LINGER_US, left;
    struct pollfd p = { fd, POLLIN, 0 };
    char buf[READ_BYTES];
    size_t total = 0;
    ssize_t n = 1;

    (void) shutdown(fd, SHUT_WR);
    while (n != 0 && total < LINGER_MAX && (left = until - clock_now_us()) > 0 &&
           poll(&p, 1, (int) (left / 1000)) > 0) {
        n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            break;
        total += n > 0 ? (size_t) n : 0;
    }
}

static void prepare_socket(int fd)
{
    int flags = fcntl(fd, F_GETFL), off = 0, on = 1, unsent = UNSENT_BYTES;

    (void) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    /* These fail on a Unix socket, which does not need them. */
    (void) setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* What the kernel has queued is old by the time that a slow client gets it. */
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static void on_upgrade(void *cls, struct MHD_Connection *mhd, void *request, const char *extra,
                       size_t extra_len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    struct ws *ws = cls;
    struct server *server = ws->rq->server;
    enum ws_code code;

    (void) mhd;
    (void) request;
    ws->fd = fd;
    ws->heard_us = ws->moved_us = ws->checked_us = clock_now_us();
    pthread_mutex_lock(&server->lock);
    ws->runs = ws->rq->conn->upgraded = true;
    server->upgraded++;
    pthread_mutex_unlock(&server->lock);
    prepare_socket(fd);
    if (ws->handlers->open(ws, ws->arg) < 0)
        ws_close(ws, WS_INTERNAL, NULL);
    if (extra_len > 0)
        receive(ws, extra, extra_len);
    while (turn(ws))
        ;
    pthread_mutex_lock(&ws->lock);
    ws->ended = true;
    code = ws_codec_code(ws->codec);
    pthread_cond_broadcast(&ws->room);
    pthread_mutex_unlock(&ws->lock);
    ws->handlers->close(ws, code, ws->arg);
    if (ws->closing_us == 0 || clock_now_us() - ws->closing_us < CLOSE_US)
        linger(fd);
    (void) MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
}

/* ---- accepting ---- */

/* Callers without a key count as one caller per address. */
static bool is_same_caller(const struct request *a, const struct request *b)
{
    return principal_equal(&a->caller.principal, &b->caller.principal) &&
           (!principal_is_local(&a->caller.principal) || a->listener == b->listener);
}

/* Adds @ws to the ring, or refuses. */
static int enter(struct ws *ws)
{
    struct request *rq = ws->rq;
    struct server *server = rq->server;
    int64_t count = 0;
    bool stops;

    pthread_mutex_lock(&server->lock);
    stops = server->stops_sockets;
    for (struct ws *one = server->sockets; one; one = one->next)
        count += is_same_caller(one->rq, rq);
    if (!stops && count < server->config.sockets_per_caller) {
        ws->next = server->sockets;
        if (ws->next)
            ws->next->prev = ws;
        server->sockets = ws;
        rq->ws = ws;
    }
    pthread_mutex_unlock(&server->lock);
    if (rq->ws)
        return 0;
    rq->refusal.retry_after_s = 1;
    if (stops)
        return refuse(rq, PROBLEM_STOPPING, "the server is shutting down");
    return refuse(rq, PROBLEM_TOO_MANY_SOCKETS,
                  "you already have %lld open WebSockets, the maximum; close one",
                  (long long) count);
}

static int check_hello(struct request *rq)
{
    const struct headers *h = &rq->headers;
    struct ws_hello hello = { h->upgrade, h->connection, h->ws_key, h->ws_version };
    const char *why = NULL;
    int status = ws_hello_check(&hello, &why);

    if (status != 0)
        return refuse(rq,
                      status == MHD_HTTP_UPGRADE_REQUIRED ? PROBLEM_UPGRADE_REQUIRED
                                                          : PROBLEM_BAD_HANDSHAKE,
                      "%s", why);
    if (rq->method != METHOD_GET || !rq->is_http_1_1 || rq->declared != 0)
        return refuse(rq, PROBLEM_BAD_HANDSHAKE,
                      "open a WebSocket with GET over HTTP/1.1, without a body");
    return 0;
}

/* Takes @arg only on success. */
static struct ws *ws_new(struct request *rq, const struct ws_handlers *handlers, void *arg)
{
    struct ws *ws = calloc(1, sizeof *ws);

    if (!ws)
        return NULL;
    ws->rq = rq;
    ws->handlers = handlers;
    ws->fd = -1;
    ws->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ws->wake_fd < 0 || ws_codec_new(handlers->message_bytes_max, &ws->codec) < 0) {
        if (ws->wake_fd >= 0)
            (void) close(ws->wake_fd);
        free(ws);
        return NULL;
    }
    pthread_mutex_init(&ws->lock, NULL);
    cond_init(&ws->room);
    ws->arg = arg;
    return ws;
}

/* Only for one that is not in the ring. */
static void destroy(struct ws *ws)
{
    ws->handlers->free(ws->arg);
    ws_codec_free(ws->codec);
    pthread_cond_destroy(&ws->room);
    pthread_mutex_destroy(&ws->lock);
    (void) close(ws->wake_fd);
    free(ws);
}

static void switch_protocols(struct request *rq, const char *protocol)
{
    struct MHD_Response *response = MHD_create_response_for_upgrade(on_upgrade, rq->ws);
    char answer[WS_ANSWER_MAX];

    if (response && ws_hello_answer(rq->headers.ws_key, answer) < 0) {
        MHD_destroy_response(response);
        reply_problem(rq, PROBLEM_INTERNAL, "the handshake cannot be answered");
        return;
    }
    if (response) {
        reply_header(response, "Upgrade", "websocket");
        reply_header(response, "Sec-WebSocket-Accept", answer);
        if (protocol)
            reply_header(response, "Sec-WebSocket-Protocol", protocol);
    }
    reply_send(rq, MHD_HTTP_SWITCHING_PROTOCOLS, response);
}

void ws_accept(struct request *rq, const struct ws_handlers *handlers, void *arg)
{
    static const char *const of_pages[] = { WS_PROTOCOL_PAGE, NULL };
    const char *protocol;
    struct ws *ws;

    if (check_hello(rq) < 0) {
        handlers->free(arg);
        reply_refusal(rq);
        return;
    }
    ws = ws_new(rq, handlers, arg);
    if (!ws) {
        handlers->free(arg);
        reply_no_memory(rq);
        return;
    }
    if (enter(ws) < 0) {
        destroy(ws);
        reply_refusal(rq);
        return;
    }
    protocol = ws_hello_protocol(rq->headers.ws_protocol, handlers->protocols);
    if (!protocol)
        protocol = ws_hello_protocol(rq->headers.ws_protocol, of_pages);
    switch_protocols(rq, protocol);
}

void ws_free(struct ws *ws)
{
    struct server *server;

    if (!ws)
        return;
    server = ws->rq->server;
    pthread_mutex_lock(&server->lock);
    if (ws->prev)
        ws->prev->next = ws->next;
    else
        server->sockets = ws->next;
    if (ws->next)
        ws->next->prev = ws->prev;
    pthread_cond_broadcast(&server->emptied);
    pthread_mutex_unlock(&server->lock);
    destroy(ws);
}

void ws_stop(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    server->stops_sockets = true;
    for (struct ws *ws = server->sockets; ws; ws = ws->next)
        ws_close(ws, WS_GOING_AWAY, "the server is shutting down");
    while (server->sockets || server->upgraded > 0) {
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += CLOSE_US / USEC_PER_SEC;
        if (pthread_cond_timedwait(&server->emptied, &server->lock, &until) != ETIMEDOUT)
            continue;
        /* The client does not even read the 101. */
        for (struct ws *ws = server->sockets; ws; ws = ws->next)
            if (!ws->runs)
                (void) shutdown(ws->rq->conn->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&server->lock);
}
