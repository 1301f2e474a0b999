/*
 * MCP over the older transport: a stream that stays open, and an address to send messages to.
 *
 * Responses go out on the stream, so a message is accepted before it is answered, and a call that
 * takes time has a separate thread. Proxies use one connection for all their users: by default
 * every call gets a fresh box, otherwise one user would see another's variables.
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
        reply_problem(rq, PROBLEM_TOO_MANY_CLIENTS,
                      "too many clients are connected; try again later");
        return;
    }
    snprintf(endpoint, sizeof endpoint, "/mcp/messages?session_id=%s", mcp_peer_id(peer));
    mcp_stream_outbox(rq, peer, 0, endpoint);
}

/* A call that has already ended goes to the stream directly. */
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
            rq, PROBLEM_NO_MCP_SESSION,
            "session_id is missing; send messages to the address in the first event of the stream");
        return;
    }
    peer = mcp_peer_find(rq->server->mcp, &rq->caller, id, MCP_SSE);
    if (!peer) {
        reply_problem(rq, PROBLEM_NO_SUCH_MCP_SESSION,
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
