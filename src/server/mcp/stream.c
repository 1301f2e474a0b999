/*
 * MCP streams: messages as server-sent events, from a call or from a peer's outbox.
 *
 * As with the streams of executions, the connection's own thread waits for the next message and
 * writes it. Each has an id, "CALL-NUMBER", with which a disconnected client can resume the stream
 * with GET /mcp; the outbox is call 0. In the era with sessions a broken stream does not affect its
 * call, because the client may come back. In the era without sessions it cancels the call. On the
 * older transport the connection is the peer, and both end together.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/autoclean.h"
#include "mcp/mcp.h"
#include "mcp/outbox.h"
#include "server/http/sse.h"
#include "server/server_internal.h"

#include "base/banned.h"

struct mcp_stream {
    struct mcp_call *call; /* or the peer's outbox */
    struct mcp_peer *peer;
    bool own_peer; /* the peer ends with the stream */
    int number;    /* of the call; 0 is the outbox; below 0: no ids */
    unsigned claim;
    uint64_t pos;

    bool primed, ended;
    char *endpoint; /* an event to send before all others, or NULL */
    char *first;    /* a message that was fetched before the stream began, or NULL */
};

/* ---- text ---- */

/* Takes @message. */
static char *make_text(const struct mcp_stream *s, char *message)
{
    char id[48], *text;

    snprintf(id, sizeof id, "%d-%llu", s->number, (unsigned long long) (s->pos - 1));
    text = sse_event(s->number >= 0 ? id : NULL, "message", message);
    free(message);
    return text;
}

/* An event without a message: an id to resume from, before anything has happened. */
static char *make_prime(const struct mcp_stream *s)
{
    char *text = NULL;

    if (asprintf(&text, "id: %d-0\nretry: 1000\ndata: \n\n", s->number) < 0)
        return NULL;
    return text;
}

/* ---- the next message ---- */

static int fetch(struct mcp_stream *s, char **ret_message)
{
    if (!s->call)
        return outbox_next(mcp_peer_outbox(s->peer), s->claim, &s->pos, SSE_SLICE_US, ret_message);
    if (s->number < 0)
        return mcp_call_next(s->call, SSE_SLICE_US, ret_message);
    return mcp_call_read(s->call, s->claim, &s->pos, SSE_SLICE_US, ret_message);
}

static enum sse_next next_message(struct mcp_stream *s, char **ret_text)
{
    char *message = NULL;
    int r = fetch(s, &message);

    if (r < 0) {
        s->ended = true;
        return SSE_END;
    }
    if (r > 0) {
        *ret_text = make_text(s, message);
        return SSE_TEXT;
    }
    /* Only if the client can come back for the rest. */
    return s->call && s->number > 0 && mcp_call_wants_close(s->call) ? SSE_END : SSE_NOTHING;
}

static enum sse_next stream_next(void *arg, char **ret_text)
{
    struct mcp_stream *s = arg;

    if (s->endpoint) {
        *ret_text = TAKE_PTR(s->endpoint);
        return SSE_TEXT;
    }
    if (!s->primed) {
        s->primed = true;
        if (s->call && s->number > 0 && mcp_peer_primes(s->peer) && s->pos <= 2) {
            *ret_text = make_prime(s);
            return SSE_TEXT;
        }
    }
    if (s->first) {
        *ret_text = make_text(s, TAKE_PTR(s->first));
        return SSE_TEXT;
    }
    return next_message(s, ret_text);
}

static void stream_free(void *arg)
{
    struct mcp_stream *s = arg;

    if (s->call && !s->ended && (s->number < 0 || mcp_call_is_modern(s->call)))
        mcp_call_cancel(s->call);
    else if (s->call && !s->ended)
        mcp_call_park(mcp_call_ref(s->call));
    if (s->own_peer)
        mcp_peer_end(s->peer);
    mcp_call_unref(s->call);
    mcp_peer_unref(s->peer);
    free(s->endpoint);
    free(s->first);
    free(s);
}

/* ---- beginning ---- */

/* Takes all arguments. */
static void start(struct request *rq, struct mcp_stream *s)
{
    static const struct sse_source source = { stream_next, stream_free, NULL, NULL };
    bool named = s->peer && !s->own_peer;

    sse_reply(rq, &source, s, named ? "MCP-Session-Id" : NULL, named ? mcp_peer_id(s->peer) : NULL);
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
    if (endpoint)
        s->endpoint = sse_event(NULL, "endpoint", endpoint);
    start(rq, s);
}
