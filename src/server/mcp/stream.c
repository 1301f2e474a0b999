/*
 * Streams of MCP: messages as server-sent events, of a call or from a peer's outbox.
 *
 * As with the streams of executions the connection's own thread waits for the next message and
 * writes it. Each has an id, "CALL-NUMBER", by which a client that was cut off takes the stream up
 * again with GET /mcp; the outbox is call 0. In the era with sessions a stream that breaks leaves
 * its call alone, for the client may come back. In the era without it has cancelled the call. On
 * the older transport the connection is the peer, and both end together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/mcp.h"
#include "mcp/outbox.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define BLOCK_BYTES 16384
#define SLICE_US    USEC_PER_SEC

struct mcp_stream {
    struct server *server;
    struct MHD_Connection *mhd;
    int fd;

    struct mcp_call *call; /* or the outbox of the peer */
    struct mcp_peer *peer;
    bool own_peer; /* it ends with the stream */
    int number;    /* of the call; 0 is the outbox; below 0: no ids */
    unsigned claim;
    uint64_t pos;

    bool primed, ended;
    char *first; /* a message that was fetched before the stream began */
    int64_t quiet_since_us;
    struct pending pending;
};

/* ---- text ---- */

static int put_text(struct mcp_stream *s, char *text)
{
    if (!text)
        return -1;
    s->pending.text = text;
    s->pending.len = strlen(text);
    s->pending.used = 0;
    return 0;
}

/* Takes @message. */
static int put_message(struct mcp_stream *s, char *message)
{
    char *text = NULL;
    int len;

    if (s->number >= 0)
        len = asprintf(&text, "id: %d-%llu\nevent: message\ndata: %s\n\n", s->number,
                       (unsigned long long) (s->pos - 1), message);
    else
        len = asprintf(&text, "event: message\ndata: %s\n\n", message);
    free(message);
    return put_text(s, len < 0 ? NULL : text);
}

/* An event without a message: an id to come back with, before anything has happened. */
static int put_prime(struct mcp_stream *s)
{
    char *text = NULL;

    return put_text(s, asprintf(&text, "id: %d-0\nretry: 1000\ndata: \n\n", s->number) < 0 ? NULL
                                                                                           : text);
}

/* ---- the next one ---- */

static int fetch(struct mcp_stream *s, char **ret_message)
{
    if (!s->call)
        return outbox_next(mcp_peer_outbox(s->peer), s->claim, &s->pos, SLICE_US, ret_message);
    if (s->number < 0)
        return mcp_call_next(s->call, SLICE_US, ret_message);
    return mcp_call_read(s->call, s->claim, &s->pos, SLICE_US, ret_message);
}

/* 0 with text pending, 1 after the last, -1 when the stream cannot go on. */
static int next_text(struct mcp_stream *s)
{
    for (;;) {
        char *message = NULL;
        int r = fetch(s, &message);

        if (r < 0) {
            s->ended = true;
            return 1;
        }
        if (r > 0)
            return put_message(s, message);
        if (s->call && mcp_call_wants_close(s->call))
            return 1;
        switch (client_look(s->fd)) {
        case CLIENT_GONE:
            return -1;
        case CLIENT_SILENT:
            return put_text(s, strdup(": keep-alive\n\n"));
        case CLIENT_THERE:
            if (clock_now_us() - s->quiet_since_us >= s->server->config.keepalive_us)
                return put_text(s, strdup(": keep-alive\n\n"));
        }
    }
}

static int next_piece(struct mcp_stream *s)
{
    char *first = s->first;

    if (!s->primed) {
        s->primed = true;
        if (s->call && s->number > 0 && mcp_peer_primes(s->peer) && s->pos <= 2)
            return put_prime(s);
    }
    if (first) {
        s->first = NULL;
        return put_message(s, first);
    }
    return next_text(s);
}

static ssize_t on_read(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct mcp_stream *s = cls;
    int r;

    (void) pos;
    if (!s->pending.text) {
        /* While we wait the library must not think the connection idle. */
        (void) MHD_set_connection_option(s->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
        r = next_piece(s);
        (void) MHD_set_connection_option(s->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                         (unsigned) (s->server->config.idle_us / USEC_PER_SEC));
        if (r != 0)
            return r > 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
    }
    s->quiet_since_us = clock_now_us();
    return pending_read(&s->pending, buf, max);
}

static void on_free(void *cls)
{
    struct mcp_stream *s = cls;

    if (s->call && !s->ended && (s->number < 0 || mcp_call_is_modern(s->call)))
        mcp_call_cancel(s->call);
    else if (s->call && !s->ended)
        mcp_call_park(mcp_call_ref(s->call));
    if (s->own_peer)
        mcp_peer_end(s->peer);
    atomic_fetch_sub(&s->server->streams, 1);
    mcp_call_unref(s->call);
    mcp_peer_unref(s->peer);
    free(s->first);
    free(s->pending.text);
    free(s);
}

/* ---- beginning ---- */

/* Takes everything. */
static void start(struct request *rq, struct mcp_stream *s)
{
    struct MHD_Response *response;

    s->server = rq->server;
    s->mhd = rq->mhd;
    s->fd = request_socket(rq);
    s->quiet_since_us = clock_now_us();
    atomic_fetch_add(&s->server->streams, 1);
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, s, on_free);
    if (!response) {
        on_free(s);
        return;
    }
    reply_header(response, "Content-Type", "text/event-stream");
    reply_header(response, "Cache-Control", "no-cache, no-transform");
    reply_header(response, "X-Accel-Buffering", "no"); /* proxies must not collect it */
    if (s->peer && !s->own_peer)
        reply_header(response, "MCP-Session-Id", mcp_peer_id(s->peer));
    reply_send(rq, MHD_HTTP_OK, response);
}

void mcp_stream_call(struct request *rq, struct mcp_call *call, int number, unsigned claim,
                     uint64_t pos, char *first)
{
    struct mcp_stream *s = calloc(1, sizeof *s);

    if (!s) {
        mcp_call_unref(call);
        free(first);
        reply_no_memory(rq);
        return;
    }
    s->call = call;
    s->peer = mcp_call_peer(call) ? mcp_peer_ref(mcp_call_peer(call)) : NULL;
    s->number = number;
    s->claim = claim;
    s->pos = pos;
    s->first = first;
    start(rq, s);
}

void mcp_stream_outbox(struct request *rq, struct mcp_peer *peer, uint64_t pos,
                       const char *endpoint)
{
    struct mcp_stream *s = calloc(1, sizeof *s);
    char *text = NULL;

    if (!s) {
        mcp_peer_unref(peer);
        reply_no_memory(rq);
        return;
    }
    s->peer = peer;
    s->own_peer = endpoint != NULL;
    s->number = endpoint ? -1 : 0;
    s->pos = pos;
    s->claim = outbox_claim(mcp_peer_outbox(peer));
    if (endpoint) {
        if (asprintf(&text, "event: endpoint\ndata: %s\n\n", endpoint) < 0)
            text = NULL;
        (void) put_text(s, text);
    }
    start(rq, s);
}
