/* Replies. Each carries the request's id, and headers against caching and MIME sniffing. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text/utf8.h"
#include "server/compat/dialect.h"
#include "server/server_internal.h"

#include "base/banned.h"

void reply_header(struct MHD_Response *response, const char *name, const char *value)
{
    /* Fails only if out of memory, or for a value that would break the header. */
    (void) MHD_add_response_header(response, name, value);
}

/* For MCP it also names the metadata about tokens (RFC 9728). */
static void add_challenge(struct request *rq, struct MHD_Response *response)
{
    bool known =
        rq->refusal.problem != PROBLEM_KEY_UNKNOWN && rq->refusal.problem != PROBLEM_TOKEN_INVALID;
    char text[512], origin[LISTEN_NAME_MAX + 32], where[400] = "";

    if (rq->route && rq->route->flags & ROUTE_JSONRPC) {
        request_origin(rq, origin, sizeof origin);
        snprintf(where, sizeof where,
                 ", resource_metadata=\"%s/.well-known/oauth-protected-resource/mcp\"", origin);
    }
    snprintf(text, sizeof text, "Bearer realm=\"glovebox\"%s%s",
             known ? "" : ", error=\"invalid_token\"", where);
    reply_header(response, "WWW-Authenticate", text);
}

void reply_send(struct request *rq, int status, struct MHD_Response *response)
{
    char number[24], allow[ROUTER_ALLOW_MAX];

    if (!response)
        return; /* out of memory: the connection is closed */
    reply_header(response, "X-Request-Id", rq->id);
    reply_header(response, "X-Content-Type-Options", "nosniff");
    if (rq->execution_id[0])
        reply_header(response, "X-Execution-Id", rq->execution_id);
    if (!MHD_get_response_header(response, "Cache-Control"))
        reply_header(response, "Cache-Control", "no-store");
    if (rq->refusal.retry_after_s > 0) {
        snprintf(number, sizeof number, "%d", rq->refusal.retry_after_s);
        reply_header(response, "Retry-After", number);
    }
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        methods_to_allow(rq->match.methods, allow);
        reply_header(response, "Allow", allow);
    }
    if (status == MHD_HTTP_UPGRADE_REQUIRED) {
        reply_header(response, "Upgrade", "websocket");
        reply_header(response, "Sec-WebSocket-Version", "13");
    }
    if (status == MHD_HTTP_UNAUTHORIZED)
        add_challenge(rq, response);
    if (rq->refusal.close)
        reply_header(response, "Connection", "close");
    rq->queued = MHD_queue_response(rq->mhd, (unsigned) status, response) == MHD_YES;
    rq->status = status;
    MHD_destroy_response(response);
}

static void send_text(struct request *rq, int status, const char *media, char *text, size_t len)
{
    struct MHD_Response *response;

    /* Freed with the response, even if that cannot be created. */
    response = text ? MHD_create_response_from_buffer_with_free_callback(len, text, free) : NULL;
    if (text && !response)
        free(text);
    if (response)
        reply_header(response, "Content-Type", media);
    reply_send(rq, status, response);
}

static void send_json(struct request *rq, int status, const char *media, json_t *json,
                      const char *location)
{
    char *text = json ? json_dumps(json, REPLY_JSON) : NULL;
    struct MHD_Response *response;

    json_decref(json);
    if (!location) {
        send_text(rq, status, media, text, text ? strlen(text) : 0);
        return;
    }
    response =
        text ? MHD_create_response_from_buffer_with_free_callback(strlen(text), text, free) : NULL;
    if (response) {
        reply_header(response, "Content-Type", media);
        reply_header(response, "Location", location);
    }
    reply_send(rq, status, response);
}

void reply_json(struct request *rq, int status, json_t *json)
{
    send_json(rq, status, "application/json", json, NULL);
}

void reply_json_text(struct request *rq, int status, char *text, size_t len)
{
    send_text(rq, status, "application/json", text, len);
}

void reply_json_at(struct request *rq, int status, json_t *json, const char *location)
{
    send_json(rq, status, "application/json", json, location);
}

void reply_text(struct request *rq, int status, const char *media, const char *text, size_t len)
{
    char *copy = malloc(len + 1);

    if (copy)
        memcpy(copy, text, len);
    send_text(rq, status, media, copy, len);
}

void reply_empty(struct request *rq, int status)
{
    reply_send(rq, status, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

/* ---- problems ---- */

/* loc "limits.memory" of a fault becomes ["body", "limits", "memory"]. */
static json_t *loc_to_json(const char *loc)
{
    json_t *list = json_pack("[s]", "body");

    while (list && *loc) {
        size_t len = strcspn(loc, ".");

        (void) json_array_append_new(list, json_stringn(loc, len));
        loc += len + (loc[len] == '.');
    }
    return list;
}

static json_t *problem_json(struct request *rq, json_t *errors)
{
    const struct refusal *refusal = &rq->refusal;
    json_t *json =
        json_pack("{s:s+,s:s,s:i,s:s,s:s}", "type", "urn:glovebox:problem:", refusal->type, "title",
                  MHD_get_reason_phrase_for((unsigned) refusal->status), "status", refusal->status,
                  "detail", refusal->detail, "request_id", rq->id);

    if (json && rq->route && rq->route->flags & ROUTE_TWO_SHAPES)
        dialect_add_error(json, "RequestError", refusal->detail, "");
    if (errors && json)
        (void) json_object_set_new(json, "errors", errors);
    else
        json_decref(errors);
    return json;
}

/* No message was read, so there is no id to reply to. */
static void send_rpc_error(struct request *rq, json_t *problem)
{
    int status = rq->refusal.status;

    send_json(rq, status, "application/json",
              json_pack("{s:s,s:n,s:{s:i,s:s,s:o?}}", "jsonrpc", "2.0", "id", "error", "code",
                        status >= 500 ? -32603 : -32600, "message", rq->refusal.detail, "data",
                        problem),
              NULL);
}

static void send_problem(struct request *rq, json_t *errors)
{
    if (rq->route && rq->route->flags & ROUTE_JSONRPC) {
        send_rpc_error(rq, problem_json(rq, errors));
        return;
    }
    send_json(rq, rq->refusal.status, "application/problem+json", problem_json(rq, errors), NULL);
}

/* A detail may quote the client and may have been cut; JSON accepts only UTF-8. */
static void make_utf8(char *text)
{
    size_t left = strlen(text), len;

    for (; left > 0; text += len, left -= len)
        if (utf8_next(text, left, &len) != UTF8_CHAR)
            memset(text, '?', len);
}

__attribute__((format(printf, 3, 0))) static void fill_refusal(struct request *rq,
                                                               enum problem problem,
                                                               const char *fmt, va_list ap)
{
    struct refusal *refusal = &rq->refusal;

    refusal->problem = problem;
    refusal->status = problem_status(problem);
    refusal->type = problem_word(problem);
    if (refusal->status == MHD_HTTP_SERVICE_UNAVAILABLE && refusal->retry_after_s == 0)
        refusal->retry_after_s = 1;
    if (vsnprintf(refusal->detail, sizeof refusal->detail, fmt, ap) < 0)
        refusal->detail[0] = '\0';
    make_utf8(refusal->detail);
}

int refuse(struct request *rq, enum problem problem, const char *fmt, ...)
{
    va_list ap;

    if (rq->refusal.status != 0)
        return -1;
    va_start(ap, fmt);
    fill_refusal(rq, problem, fmt, ap);
    va_end(ap);
    return -1;
}

int refuse_no_memory(struct request *rq)
{
    return refuse(rq, PROBLEM_OUT_OF_MEMORY, "the service is out of memory; try again later");
}

int refuse_fault(struct request *rq, const struct fault *fault)
{
    if (rq->refusal.status != 0)
        return -1;
    if (problem_status(fault->problem) == MHD_HTTP_INTERNAL_SERVER_ERROR)
        log_event(LOG_LEVEL_ERROR, "failure", LOG_TEXT("request_id", rq->id),
                  LOG_TEXT("detail", fault->detail));
    rq->refusal.retry_after_s = fault->retry_after_s;
    snprintf(rq->refusal.loc, sizeof rq->refusal.loc, "%s", fault->loc);
    return refuse(rq, fault->problem, "%s", fault->detail);
}

void reply_refusal(struct request *rq)
{
    const struct refusal *refusal = &rq->refusal;
    json_t *errors = NULL;

    if (refusal->status == MHD_HTTP_UNPROCESSABLE_CONTENT)
        errors = json_pack("[{s:o,s:s,s:s}]", "loc", loc_to_json(refusal->loc), "msg",
                           refusal->detail, "type", refusal->type);
    send_problem(rq, errors);
}

void reply_fault(struct request *rq, const struct fault *fault)
{
    (void) refuse_fault(rq, fault);
    reply_refusal(rq);
}

void reply_either(struct request *rq, int r, int status, json_t *json, const struct fault *fault)
{
    if (r < 0)
        reply_fault(rq, fault);
    else
        reply_json(rq, status, json);
}

void reply_problem(struct request *rq, enum problem problem, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill_refusal(rq, problem, fmt, ap);
    va_end(ap);
    reply_refusal(rq);
}

void reply_no_memory(struct request *rq)
{
    (void) refuse_no_memory(rq);
    reply_refusal(rq);
}

/* "code: is required; timeout: must be a number" */
void reply_invalid(struct request *rq, json_t *errors)
{
    struct refusal *refusal = &rq->refusal;
    size_t used = 0, i;
    json_t *item;

    refusal->problem = PROBLEM_INVALID_REQUEST;
    refusal->status = problem_status(refusal->problem);
    refusal->type = problem_word(refusal->problem);
    json_array_foreach (errors, i, item) {
        const char *name = json_string_value(json_array_get(json_object_get(item, "loc"), 1));
        int n = snprintf(refusal->detail + used, sizeof refusal->detail - used, "%s%s%s%s",
                         used ? "; " : "", name ? name : "", name ? ": " : "",
                         json_string_value(json_object_get(item, "msg")));

        used += n > 0 ? (size_t) n : 0;
        if (used >= sizeof refusal->detail)
            break;
    }
    make_utf8(refusal->detail);
    send_problem(rq, errors);
}
