/*
 * MCP over HTTP: POST, GET and DELETE /mcp. The content is handled in src/mcp; this file only
 * transports it.
 *
 * A call that ends at once is answered with JSON. A call that takes time gets a second; then, or
 * when it has a message to send before its end, the reply becomes a stream, if the client accepts
 * one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/mcp.h"
#include "server/http/sse.h"
#include "server/mcp/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define PATIENCE_US USEC_PER_SEC

/* ---- headers ---- */

static const char *param_header(void *arg, const char *name)
{
    struct request *rq = arg;

    return MHD_lookup_connection_value(rq->mhd, MHD_HEADER_KIND, name);
}

/* Without surrounding spaces; the library leaves those at the end. */
static const char *trimmed(const char *value, char *buf, size_t size)
{
    size_t len;

    if (!value)
        return NULL;
    value += strspn(value, " \t");
    len = strlen(value);
    while (len > 0 && strchr(" \t", value[len - 1]))
        len--;
    len = len < size ? len : size - 1;
    memcpy(buf, value, len);
    buf[len] = '\0';
    return buf;
}

static bool takes_events(const struct request *rq)
{
    const char *accept = rq->headers.accept;

    return accept && (strstr(accept, "text/event-stream") || strstr(accept, "*/*"));
}

/* ---- POST ---- */

/* Takes @text. */
static void reply_message(struct request *rq, struct mcp_call *call, char *text)
{
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer_with_free_callback(strlen(text), text, free) : NULL;

    if (text && !response)
        free(text);
    if (response) {
        reply_header(response, "Content-Type", "application/json");
        if (mcp_call_new_session(call))
            reply_header(response, "MCP-Session-Id", mcp_call_new_session(call));
    }
    reply_send(rq, mcp_call_status(call), response);
}

/* A client that does not accept events gets only the response. */
static void answer_whole(struct request *rq, struct mcp_call *call)
{
    char *text = NULL;
    int r;

    while ((r = mcp_call_next(call, PATIENCE_US, &text)) >= 0) {
        if (r > 0 && mcp_call_is_done(call))
            break;
        if (r > 0)
            free(text);
        text = NULL;
        if (r == 0 && client_look(request_socket(rq)) == CLIENT_GONE)
            mcp_call_cancel(call); /* it cannot come back for the response */
    }
    reply_message(rq, call, text);
    mcp_call_unref(call);
}

static void answer_events(struct request *rq, struct mcp_call *call)
{
    int number = mcp_call_keep(call), r;
    unsigned claim = mcp_call_claim(call);
    char *text = NULL;
    uint64_t pos = 1;

    r = number >= 0 ? mcp_call_read(call, claim, &pos, PATIENCE_US, &text)
                    : mcp_call_next(call, PATIENCE_US, &text);
    if (r > 0 && mcp_call_is_done(call)) {
        mcp_call_forget(call);
        reply_message(rq, call, text);
        mcp_call_unref(call);
        return;
    }
    mcp_stream_call(rq, call, number, claim, pos, r > 0 ? text : NULL);
}

void mcp_post(struct request *rq)
{
    char version[64], method[256];
    struct mcp_headers headers = {
        .version = trimmed(rq->headers.mcp_version, version, sizeof version),
        .method = trimmed(rq->headers.mcp_method, method, sizeof method),
        .name = rq->headers.mcp_name,
        .session = rq->headers.mcp_session,
        .param = param_header,
        .arg = rq,
    };
    struct mcp_arrival arrival = { .transport = MCP_HTTP,
                                   .caller = &rq->caller,
                                   .headers = &headers };
    struct mcp_call *call =
        mcp_receive(rq->server->mcp, &arrival, rq->body ? rq->body : "", rq->body_len);

    if (!call) {
        reply_empty(rq, MHD_HTTP_ACCEPTED);
        return;
    }
    request_note(rq, mcp_call_session_id(call), mcp_call_execution_id(call));
    if (mcp_call_takes_time(call) && takes_events(rq))
        answer_events(rq, call);
    else
        answer_whole(rq, call);
}

/* ---- GET and DELETE: only where there are sessions ---- */

static struct mcp_peer *find_peer(struct request *rq)
{
    struct mcp_peer *peer;

    if (!rq->headers.mcp_session) {
        reply_problem(rq, PROBLEM_NO_MCP_SESSION,
                      "the header MCP-Session-Id is missing; initialize returns its value");
        return NULL;
    }
    peer = mcp_peer_find(rq->server->mcp, &rq->caller, rq->headers.mcp_session, MCP_HTTP);
    if (!peer)
        reply_problem(rq, PROBLEM_NO_SUCH_MCP_SESSION,
                      "no such session, or it has ended; start a new one with initialize");
    return peer;
}

/* "3-17": continue after message 17 of call 3. */
static bool read_event_id(const char *text, int *ret_number, uint64_t *ret_pos)
{
    unsigned long long after;
    int used = 0;

    if (!text || strlen(text) > 32 || strspn(text, "0123456789-") != strlen(text) ||
        sscanf(text, "%9d-%18llu%n", ret_number, &after, &used) != 2 || text[used] != '\0')
        return false;
    *ret_pos = after + 1;
    return *ret_number >= 0;
}

void mcp_get(struct request *rq)
{
    struct mcp_call *call = NULL;
    struct mcp_peer *peer;
    uint64_t pos = 0;
    int number = 0;

    if (!takes_events(rq)) {
        reply_problem(rq, PROBLEM_NOT_ACCEPTABLE,
                      "this is an event stream; send Accept: text/event-stream");
        return;
    }
    peer = find_peer(rq);
    if (!peer)
        return;
    if (read_event_id(rq->headers.last_event_id, &number, &pos) && number > 0)
        call = mcp_peer_call(peer, number);
    if (call) {
        mcp_stream_call(rq, call, number, mcp_call_claim(call), pos, NULL);
        mcp_peer_unref(peer);
    } else {
        mcp_stream_outbox(rq, peer, number == 0 ? pos : 0, NULL);
    }
}

void mcp_delete(struct request *rq)
{
    struct mcp_peer *peer = find_peer(rq);

    if (!peer)
        return;
    mcp_peer_end(peer);
    mcp_peer_unref(peer);
    reply_empty(rq, MHD_HTTP_NO_CONTENT);
}

/* ---- how to authenticate ---- */

static void send_metadata(struct request *rq, const char *path)
{
    char origin[LISTEN_NAME_MAX + 32];

    request_origin(rq, origin, sizeof origin);
    reply_json(rq, MHD_HTTP_OK,
               json_pack("{s:s++,s:[s],s:s,s:s+}", "resource", origin, "/", path,
                         "bearer_methods_supported", "header", "resource_name", "Glovebox",
                         "resource_documentation", origin, "/docs"));
}

void mcp_metadata(struct request *rq)
{
    send_metadata(rq, "mcp");
}

void mcp_metadata_of(struct request *rq)
{
    const char *path = request_param(rq, "path");

    if (strcmp(path, "mcp") == 0 || strcmp(path, "mcp/sse") == 0)
        send_metadata(rq, path);
    else
        reply_problem(rq, PROBLEM_NO_SUCH_ROUTE, "only /mcp and /mcp/sse have this metadata");
}
