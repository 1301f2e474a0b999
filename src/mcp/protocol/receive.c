/* Incoming messages: one message or a batch, who sent it, and which call it starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define BATCH_MAX 64

/* ---- the sender ---- */

/* The peer of a message of the old era; on failure the call has ended. */
static int attach_peer(struct mcp_call *call, const struct mcp_arrival *arrival)
{
    const struct mcp_headers *headers = arrival->headers;

    if (call->peer)
        return 0;
    if (arrival->peer) {
        call->peer = mcp_peer_ref(arrival->peer);
        return 0;
    }
    if (!headers->session) {
        call_fail(call, MCP_INVALID_REQUEST,
                  "the header MCP-Session-Id is missing; initialize returns its value");
        return -1;
    }
    call->peer = mcp_peer_find(call->mcp, arrival->caller, headers->session, MCP_HTTP);
    if (!call->peer) {
        call_fail(call, MCP_NO_SESSION,
                  "no such session, or it has ended; start a new one with initialize");
        return -1;
    }
    return 0;
}

static int check_legacy(struct mcp_call *call, const struct mcp_arrival *arrival)
{
    const struct mcp_headers *headers = arrival->headers;
    struct mcp_peer *peer;

    if (headers && headers->version && !era_is_legacy_version(headers->version)) {
        call_fail_data(call, MCP_INVALID_REQUEST,
                       json_pack("{s:o}", "supported", era_modern_versions()),
                       "the header MCP-Protocol-Version names an unsupported revision");
        return -1;
    }
    if (attach_peer(call, arrival) < 0)
        return -1;
    peer = call->peer;
    pthread_mutex_lock(&peer->lock);
    call->capabilities = peer->capabilities; /* never changes once it is set */
    call->log_level = peer->log_level;
    pthread_mutex_unlock(&peer->lock);
    return 0;
}

static bool is_initialized(struct mcp_peer *peer)
{
    bool initialized;

    pthread_mutex_lock(&peer->lock);
    initialized = peer->initialized;
    pthread_mutex_unlock(&peer->lock);
    return initialized;
}

static bool is_method(const struct mcp_call *call, const char *name)
{
    return strcmp(json_string_value(json_object_get(call->message, "method")), name) == 0;
}

/* initialize starts a session, unless the connection is one already. */
static int open_peer(struct mcp_call *call, const struct mcp_arrival *arrival)
{
    if (arrival->headers && arrival->headers->session) {
        call_fail(call, MCP_INVALID_REQUEST,
                  "this session is initialized already; omit MCP-Session-Id to start a new one");
        return -1;
    }
    if (arrival->peer) {
        call->peer = mcp_peer_ref(arrival->peer);
        return 0;
    }
    if (mcp_peer_new(call->mcp, MCP_HTTP, arrival->caller, true, &call->peer) < 0) {
        call_fail(call, MCP_INTERNAL, "too many clients are connected; try again later");
        call->status = 503;
        return -1;
    }
    call->begins_session = true;
    return 0;
}

/* ---- requests ---- */

static struct mcp_call *begin(struct mcp *mcp, const struct mcp_arrival *arrival, json_t *message)
{
    struct mcp_call *call = call_new(mcp, arrival);
    json_t *id = json_object_get(message, "id");

    if (!call) {
        json_decref(message);
        return NULL;
    }
    call->message = message;
    if (json_is_string(id) || json_is_integer(id))
        call->id = id;
    call->params = message_object(message, "params");
    call->meta = message_object(call->params, "_meta");
    return call;
}

static int check_params(struct mcp_call *call)
{
    json_t *params = json_object_get(call->message, "params");
    json_t *meta = json_object_get(call->params, "_meta"), *token;

    if (params && !json_is_object(params)) {
        call_fail(call, MCP_INVALID_PARAMS, "params must be an object");
        return -1;
    }
    token = json_object_get(meta, "progressToken");
    if ((meta && !json_is_object(meta)) ||
        (token && !json_is_string(token) && !json_is_integer(token))) {
        call_fail(call, MCP_INVALID_PARAMS,
                  "_meta must be an object, and its progressToken a string or an integer");
        return -1;
    }
    call->progress_token = token;
    return 0;
}

static int check_request(struct mcp_call *call, const struct mcp_arrival *arrival)
{
    bool initialize = is_method(call, "initialize");

    if (era_check(call, arrival, true) < 0)
        return -1;
    if (call->era == MCP_LEGACY) {
        if (initialize ? open_peer(call, arrival) < 0 : check_legacy(call, arrival) < 0)
            return -1;
        if (!initialize && !is_method(call, "ping") && !is_initialized(call->peer)) {
            call_fail(call, MCP_INVALID_REQUEST, "send initialize first");
            return -1;
        }
    } else if (arrival->peer) {
        call->peer = mcp_peer_ref(arrival->peer);
    }
    call->method =
        method_find(json_string_value(json_object_get(call->message, "method")), call->era);
    if (!call->method) {
        call_fail(call, MCP_NO_METHOD, "method not found");
        return -1;
    }
    if (check_params(call) < 0)
        return -1;
    if (call->era == MCP_MODERN &&
        (ask_check_retry(call) < 0 || (arrival->headers && is_method(call, "tools/call") &&
                                       era_check_params(call, arrival->headers) < 0)))
        return -1;
    return call->peer ? peer_enter(call->peer, call) : 0;
}

static struct mcp_call *receive_request(struct mcp *mcp, const struct mcp_arrival *arrival,
                                        json_t *message)
{
    struct mcp_call *call = begin(mcp, arrival, message);

    if (!call)
        return NULL;
    if (check_request(call, arrival) == 0)
        call->method->handle(call);
    if (call->begins_session && call->failed)
        mcp_peer_end(call->peer);
    return call;
}

/* ---- notifications and responses ---- */

/* A notification or a response gets no reply, but over HTTP its request has a status. */
static struct mcp_call *quietly(struct mcp_call *call, const struct mcp_arrival *arrival)
{
    if (call && call->failed && arrival->transport == MCP_HTTP)
        return call;
    mcp_call_unref(call);
    return NULL;
}

static struct mcp_call *receive_notification(struct mcp *mcp, const struct mcp_arrival *arrival,
                                             json_t *message)
{
    struct mcp_call *call = begin(mcp, arrival, message);

    if (!call)
        return NULL;
    if (era_check(call, arrival, false) == 0 && check_params(call) == 0 &&
        (call->era == MCP_MODERN || check_legacy(call, arrival) == 0)) {
        if (!call->peer && arrival->peer)
            call->peer = mcp_peer_ref(arrival->peer);
        method_notification(call);
    }
    return quietly(call, arrival);
}

static struct mcp_call *receive_response(struct mcp *mcp, const struct mcp_arrival *arrival,
                                         json_t *message)
{
    struct mcp_call *call = begin(mcp, arrival, message);

    if (!call)
        return NULL;
    call->id = NULL; /* it is the id of a request of ours */
    if (check_legacy(call, arrival) == 0)
        peer_answer(call->peer, message);
    return quietly(call, arrival);
}

static struct mcp_call *receive_bad(struct mcp *mcp, const struct mcp_arrival *arrival,
                                    json_t *message, int code, const char *why)
{
    struct mcp_call *call = begin(mcp, arrival, message);

    if (call)
        call_fail(call, code, "%s", why);
    return call;
}

/* Takes @message. */
static struct mcp_call *receive_one(struct mcp *mcp, const struct mcp_arrival *arrival,
                                    json_t *message)
{
    const char *why = "";

    switch (message_kind(message, &why)) {
    case MESSAGE_REQUEST:
        return receive_request(mcp, arrival, message);
    case MESSAGE_NOTIFICATION:
        return receive_notification(mcp, arrival, message);
    case MESSAGE_RESPONSE:
        return receive_response(mcp, arrival, message);
    case MESSAGE_BAD:
    default:
        return receive_bad(mcp, arrival, message, MCP_INVALID_REQUEST, why);
    }
}

/* ---- batches: only revision 2025-03-26 has them ---- */

struct batch {
    struct mcp_call *calls[BATCH_MAX];
    size_t len, at;
    FILE *out; /* collects the responses in @text, as a JSON array */
    char *text;
    size_t text_len;
    bool any;
};

static void batch_free(void *work)
{
    struct batch *batch = work;

    for (size_t i = 0; i < batch->len; i++)
        mcp_call_unref(batch->calls[i]);
    if (batch->out)
        (void) fclose(batch->out);
    free(batch->text);
    free(batch);
}

static void batch_end(struct mcp_call *call, struct batch *batch)
{
    bool ok = fputc(']', batch->out) != EOF;

    ok = fclose(TAKE_PTR(batch->out)) == 0 && ok;
    call_reply_text(call, ok ? TAKE_PTR(batch->text) : NULL);
}

/* One after the other, in the order of arrival. */
static void batch_step(struct mcp_call *call, int64_t timeout_us)
{
    struct batch *batch = call->work;
    struct mcp_call *part = batch->calls[batch->at];
    char *text;
    int r;

    if (mcp_call_is_cancelled(call))
        mcp_call_cancel(part);
    r = mcp_call_next(part, timeout_us, &text);
    if (r > 0 && mcp_call_is_done(part)) {
        (void) fprintf(batch->out, "%c%s", batch->any ? ',' : '[', text);
        batch->any = true;
        free(text);
    } else if (r > 0) {
        call_put(call, text);
    }
    if (r < 0 || mcp_call_is_done(part))
        batch->at++;
    if (batch->at == batch->len)
        batch_end(call, batch);
}

static bool may_batch(struct mcp_call *call, const struct mcp_arrival *arrival, const json_t *list)
{
    size_t len = json_array_size(list), i;
    bool may;
    json_t *item;

    json_array_foreach (list, i, item) {
        const json_t *meta = message_object(message_object(item, "params"), "_meta");
        const char *method = json_string_value(json_object_get(item, "method"));

        if (json_object_get(meta, MCP_META "protocolVersion") ||
            (method && strcmp(method, "initialize") == 0)) {
            call_fail(call, MCP_INVALID_REQUEST, "this request cannot be part of a batch");
            return false;
        }
    }
    if (arrival->headers && arrival->headers->version &&
        !era_is_legacy_version(arrival->headers->version)) {
        call_fail(call, MCP_INVALID_REQUEST, "this revision does not support batches");
        return false;
    }
    if (check_legacy(call, arrival) < 0)
        return false;
    pthread_mutex_lock(&call->peer->lock);
    may = call->peer->version && strcmp(call->peer->version, "2025-03-26") == 0;
    pthread_mutex_unlock(&call->peer->lock);
    if (!may)
        call_fail(call, MCP_INVALID_REQUEST,
                  "this revision does not support batches; send one message at a time");
    else if (len == 0 || len > BATCH_MAX)
        call_fail(call, MCP_INVALID_REQUEST, "a batch must have 1 to %d messages", BATCH_MAX);
    return !call->failed;
}

static struct mcp_call *receive_batch(struct mcp *mcp, const struct mcp_arrival *arrival,
                                      json_t *list)
{
    struct mcp_call *call = begin(mcp, arrival, list), *part;
    struct batch *batch;
    json_t *item;
    size_t i;

    if (!call || !may_batch(call, arrival, list))
        return call;
    batch = calloc(1, sizeof *batch);
    if (!batch || !(batch->out = open_memstream(&batch->text, &batch->text_len))) {
        free(batch);
        call_reply(call, NULL);
        return call;
    }
    call_continue(call, batch_step, batch, batch_free);
    json_array_foreach (list, i, item) {
        part = receive_one(mcp, arrival, json_incref(item));
        if (part)
            batch->calls[batch->len++] = part;
    }
    if (batch->len > 0)
        return call;
    mcp_call_unref(call); /* nothing but notifications */
    return NULL;
}

struct mcp_call *mcp_receive(struct mcp *mcp, const struct mcp_arrival *arrival, const char *text,
                             size_t len)
{
    char why[200] = "";
    json_t *message = message_parse(text, len, why);

    if (!message)
        return receive_bad(mcp, arrival, NULL, MCP_PARSE_ERROR, why);
    if (json_is_array(message))
        return receive_batch(mcp, arrival, message);
    return receive_one(mcp, arrival, message);
}
