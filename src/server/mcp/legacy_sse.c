/*
 * MCP by the older transport: a stream that stays, and an address to send messages to.
 *
 * The answers go out on the stream, so a message is accepted before it is answered, and a call that
 * takes time has a thread of its own. Proxies hold one connection for all their users: without a
 * wish for the contrary every call has a box of its own, or one would see another's variables.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mcp/mcp.h"
#include "mcp/outbox.h"
#include "server/mcp/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

void mcp_sse_open(struct request *rq)
{
    struct query_mcp query = { 0 };
    struct mcp_peer *peer;
    char endpoint[96];

    if (request_query(rq, &query) < 0)
        return;
    if (mcp_peer_new(rq->server->mcp, MCP_SSE, &rq->caller, query.state == 1, &peer) < 0) {
        reply_problem(rq, MHD_HTTP_SERVICE_UNAVAILABLE, "too-many-clients",
                      "too many clients are connected; try again later");
        return;
    }
    snprintf(endpoint, sizeof endpoint, "/mcp/messages?session_id=%s", mcp_peer_id(peer));
    mcp_stream_outbox(rq, peer, 0, endpoint);
}

/* What ends at once goes to the stream as it is. */
static void deliver(struct mcp_peer *peer, struct mcp_call *call)
{
    char *text;

    while (mcp_call_next(call, 0, &text) > 0)
        (void) outbox_put(mcp_peer_outbox(peer), text, PUT_WAIT);
    mcp_call_unref(call);
}

void mcp_sse_post(struct request *rq)
{
    const char *id = url_param(&rq->url, "session_id");
    struct mcp_arrival arrival = { .transport = MCP_SSE, .caller = &rq->caller };
    struct mcp_call *call;
    struct mcp_peer *peer;

    if (!id) {
        reply_problem(
            rq, MHD_HTTP_BAD_REQUEST, "no-session",
            "session_id is missing; send messages to the address in the first event of the stream");
        return;
    }
    peer = mcp_peer_find(rq->server->mcp, &rq->caller, id, MCP_SSE);
    if (!peer) {
        reply_problem(rq, MHD_HTTP_NOT_FOUND, "no-such-session",
                      "no such connection, or it has ended; open GET /mcp/sse again");
        return;
    }
    arrival.peer = peer;
    call = mcp_receive(rq->server->mcp, &arrival, rq->body ? rq->body : "", rq->body_len);
    if (call)
        request_note(rq, mcp_call_session_id(call), mcp_call_execution_id(call));
    if (call && mcp_call_takes_time(call))
        mcp_call_detach(call);
    else if (call)
        deliver(peer, call);
    reply_text(rq, MHD_HTTP_ACCEPTED, "text/plain", "Accepted", 8);
    mcp_peer_unref(peer);
}
