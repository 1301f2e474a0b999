/*
 * WebSockets of the server. A handler that wants one calls ws_accept(); from then on the
 * connection's thread reads, and calls back. ws.c describes the life of a socket.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "server/http/ws_protocol.h"

struct request;
struct server;
struct ws;

/* All except free() are called on the connection's thread, one at a time. */
struct ws_handlers {
    const char *const
        *protocols;           /* subprotocols beside that of pages, ends with NULL; NULL: none */
    size_t message_bytes_max; /* of a received message */
    size_t queue_bytes_max;   /* of the send queue */

    /* The handshake is done. May start threads that send. Below 0: the socket is closed. */
    int (*open)(struct ws *ws, void *arg);

    /* @data ends with a NUL that is not counted. Must not wait in ws_send(). */
    void (*message)(struct ws *ws, enum ws_kind kind, const char *data, size_t len, void *arg);

    /* Whether messages are welcome now; while false nothing is read from the client, and it is
     * asked again after ws_wake() or a second. NULL: always. */
    bool (*reads)(struct ws *ws, void *arg);

    /* No more messages come and ws_send() fails: the place to join threads. Called only after
     * open(). */
    void (*close)(struct ws *ws, enum ws_code code, void *arg);

    /* The last call, and the only one if the socket never opened. */
    void (*free)(void *arg);
};

/* Replies with 101 and the socket, or refuses: 400, 426, 429, 503. Takes @arg in any case. As for
 * every handler, the route was found and the caller is known. */
void ws_accept(struct request *rq, const struct ws_handlers *handlers, void *arg);

/* From any thread. Waits at most @wait_us while the queue is full; then -EAGAIN. -EPIPE once the
 * socket closes, -ENOMEM. */
int ws_send(struct ws *ws, enum ws_kind kind, const void *data, size_t len, int64_t wait_us);

/* From any thread: has reads() called again. */
void ws_wake(struct ws *ws);

/* From any thread: closes after all queued messages. @reason may be NULL. */
void ws_close(struct ws *ws, enum ws_code code, const char *reason);

/* ---- for http.c ---- */

/* The request has ended: frees its socket, if it has one. Accepts NULL. */
void ws_free(struct ws *ws);

/* Accepts no more, tells every client that the server is going away, and waits for all of them. */
void ws_stop(struct server *server);
